#include "host_pair.h"

#include "support.h"
#include "wire/lxmf_message.h"

#include <string.h>

void host_keys(uint8_t seed, uint8_t keys[NM_PRIVATE_SIZE]) {
  memset(keys, seed, NM_PRIVATE_SIZE);
}

nm_destination_hash host_open(io_node *n, uint8_t seed, uint32_t stamp_cost) {
  uint8_t keys[NM_PRIVATE_SIZE];
  host_keys(seed, keys);
  nm_command c = {.kind = NM_COMMAND_MAIL_OPEN,
                  .key = io_block(keys, sizeof(keys)),
                  .data = io_text("Somebody")};
  nm_mailbox_spec_default(&c.u.mailbox);
  c.u.mailbox.stamp_cost = stamp_cost;
  nm_node_event reply = io_ask(n, &c);
  NM_CHECK_OK(reply.u.reply.status);
  nm_destination_hash hash = reply.u.reply.destination;
  io_done(&reply);
  return hash;
}

void host_begin(host_pair *p, const nm_node_config *config) {
  uint16_t port;
  p->loop = io_loop(0);
  io_open(&p->a, p->loop, NULL);
  if (config != NULL) {
    io_open_config(&p->b, p->loop, config);
  } else {
    io_open(&p->b, p->loop, NULL);
  }
  (void)io_serve(&p->b, &port);
  (void)io_connect(&p->a, port);
  p->box_a = host_open(&p->a, 1, 0);
  p->box_b = host_open(&p->b, 2, 0);
  io_announce(&p->a, &p->box_a);
  io_announce(&p->b, &p->box_b);
  io_await_path(&p->a, &p->box_b);
  io_await_path(&p->b, &p->box_a);
}

void host_end(host_pair *p) {
  io_close(&p->a);
  io_close(&p->b);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

/* ---- letters ---- */

nm_block *host_packed(uint8_t seed, const nm_destination_hash *from,
                      const nm_destination_hash *to, size_t content_len) {
  static uint32_t number = 0;
  uint8_t keys[NM_PRIVATE_SIZE];
  nm_identity identity;
  host_keys(seed, keys);
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  uint8_t *content = nm_test_scratch(content_len + 8);
  memset(content, 'x', content_len);
  nm_lxmf_draft draft = {.destination = *to,
                         .source = *from,
                         .timestamp = 1700000000.0 + number++,
                         .content = nm_span_of(content, content_len)};
  size_t size = nm_lxmf_packed_size(&draft);
  nm_block *block = nm_block_new(&nm_mem_system, size);
  NM_CHECK(block != NULL);
  nm_writer w = nm_writer_of(nm_block_bytes(block), size);
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK_OK(nm_lxmf_pack(&draft, &identity.sign, NULL, &w, id));
  return block;
}

nm_command host_letter(const host_pair *p, size_t content_len,
                       nm_lxmf_method method) {
  nm_command c = {.kind = NM_COMMAND_MAIL_SEND,
                  .data = host_packed(1, &p->box_a, &p->box_b, content_len)};
  c.u.letter.mailbox = p->box_a;
  c.u.letter.stamp_auto = true;
  c.u.letter.policy.count = 1;
  c.u.letter.policy.steps[0].method = method;
  return c;
}

uint64_t host_post(io_node *n, nm_command *letter, uint8_t id[NM_HASH_SIZE]) {
  nm_node_event reply = io_ask(n, letter);
  NM_CHECK_OK(reply.u.reply.status);
  uint64_t ticket = reply.ticket;
  if (id != NULL) {
    memcpy(id, reply.u.reply.hash.b, NM_HASH_SIZE);
  }
  io_done(&reply);
  return ticket;
}

/* ---- what is told ---- */

typedef struct wanted {
  nm_mail_kind kind;
  uint64_t ticket;
  bool ended;
} wanted;

static bool is_wanted(const nm_node_event *event, const void *user) {
  const wanted *w = user;
  const nm_mail *mail = &event->u.mail.mail;
  return event->kind == NM_NODE_MAIL && mail->kind == w->kind &&
         (w->ticket == 0 || event->ticket == w->ticket) &&
         (!w->ended || mail->ended || mail->sync_ended);
}

static nm_node_mail await(io_node *n, const wanted *w) {
  nm_node_event event;
  if (!io_wait(n, is_wanted, w, IO_PATIENCE_MS, &event)) {
    nm_test_fail(__FILE__, __LINE__, "no mail of kind %d came", (int)w->kind);
  }
  return event.u.mail;
}

nm_node_mail host_event(io_node *n, nm_mail_kind kind, uint64_t ticket) {
  wanted w = {kind, ticket, false};
  return await(n, &w);
}

nm_node_mail host_final(io_node *n, uint64_t ticket) {
  wanted w = {NM_MAIL_STATE, ticket, true};
  return await(n, &w);
}

static bool is_end(const nm_node_event *event, const void *user) {
  const uint64_t *ticket = user;
  return event->ticket == *ticket &&
         ((event->kind == NM_NODE_REPLY && event->u.reply.status < 0) ||
          (event->kind == NM_NODE_MAIL && event->u.mail.mail.ended));
}

void host_await_end(io_node *n, uint64_t ticket) {
  nm_node_event event;
  NM_CHECK(io_wait(n, is_end, &ticket, IO_PATIENCE_MS, &event));
  nm_node_event_dispose(&event);
}

static bool is_final_or_closed(const nm_node_event *event, const void *user) {
  (void)user;
  return event->kind == NM_NODE_CLOSED ||
         (event->kind == NM_NODE_MAIL && event->u.mail.mail.ended);
}

bool host_take_final(io_node *n, nm_mail *mail) {
  nm_node_event event;
  if (n->closed && n->count == 0) {
    return false;
  }
  NM_CHECK(io_wait(n, is_final_or_closed, NULL, IO_PATIENCE_MS, &event));
  *mail = event.u.mail.mail;
  return event.kind == NM_NODE_MAIL;
}

nm_node_mail host_sync_end(io_node *n, uint64_t ticket) {
  wanted w = {NM_MAIL_SYNC, ticket, true};
  return await(n, &w);
}

bool host_sees(io_node *n, nm_mail_kind kind, int timeout_ms) {
  wanted w = {kind, 0, false};
  nm_node_event event;
  if (!io_wait(n, is_wanted, &w, timeout_ms, &event)) {
    return false;
  }
  nm_node_event_dispose(&event);
  return true;
}

nm_router_stats host_stats(io_node *n) {
  nm_command c = {.kind = NM_COMMAND_MAIL_STATS};
  nm_node_event reply = io_ask(n, &c);
  NM_CHECK_OK(reply.u.reply.status);
  nm_router_stats stats;
  memcpy(&stats, nm_block_span(reply.u.reply.records).ptr, sizeof(stats));
  io_done(&reply);
  return stats;
}
