/* Mail of nodes in memory: letters, credit, closes, fetches. */
#include "faults.h"
#include "host_pair.h"
#include "support.h"
#include "wire/lxmf_appdata.h"
#include "wire/lxmf_propagation.h"

#include <string.h>

static void check_delivered(host_pair *p, size_t size, nm_lxmf_method method,
                            nm_lxmf_representation as) {
  nm_command c = host_letter(p, size, method);
  nm_block *sent = nm_block_hold(c.data);
  uint8_t id[NM_HASH_SIZE];
  uint64_t ticket = host_post(&p->a, &c, id);
  nm_node_mail got = host_event(&p->b, NM_MAIL_RECEIVED, 0);
  NM_CHECK_BYTES(got.mail.id, id, NM_HASH_SIZE);
  NM_CHECK_BYTES(got.mail.mailbox.b, p->box_b.b, NM_ADDRESS_SIZE);
  NM_CHECK_BYTES(got.mail.peer.b, p->box_a.b, NM_ADDRESS_SIZE);
  NM_CHECK_INT(got.mail.method, method);
  NM_CHECK_INT(got.mail.representation, as);
  NM_CHECK_INT(got.mail.unverified, NM_LXMF_VERIFIED);
  NM_CHECK(got.holds_credit && got.source_known && got.mail.iface != 0);
  uint8_t keys[NM_PRIVATE_SIZE];
  nm_identity identity;
  host_keys(1, keys);
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  NM_CHECK_BYTES(got.source_key, identity.public_key, NM_PUBLIC_SIZE);
  NM_CHECK_SPAN(nm_block_span(got.mail.packed), nm_block_span(sent));
  nm_mail_dispose(&got.mail);
  nm_block_drop(sent);
  nm_node_mail end = host_final(&p->a, ticket);
  NM_CHECK_INT(end.mail.state, NM_LXMF_DELIVERED);
  NM_CHECK_BYTES(end.mail.id, id, NM_HASH_SIZE);
  NM_CHECK_INT(end.mail.method, method);
  NM_CHECK(!end.holds_credit && end.mail.progress >= 1.0);
}

NM_TEST(letters_are_delivered_by_packet_link_and_resource) {
  host_pair p;
  host_begin(&p, NULL);
  check_delivered(&p, 20, NM_LXMF_OPPORTUNISTIC, NM_LXMF_PACKET);
  check_delivered(&p, 20, NM_LXMF_DIRECT, NM_LXMF_PACKET);
  check_delivered(&p, 16384, NM_LXMF_DIRECT, NM_LXMF_RESOURCE);
  NM_CHECK_INT(host_stats(&p.a).delivered, 3);
  NM_CHECK_INT(host_stats(&p.b).received, 3);
  host_end(&p);
}

NM_TEST(commands_of_mail_want_a_mailbox) {
  host_pair p;
  host_begin(&p, NULL);
  nm_command twice = {.kind = NM_COMMAND_MAIL_OPEN,
                      .key = nm_block_new(&nm_mem_system, NM_PRIVATE_SIZE)};
  host_keys(2, nm_block_bytes(twice.key));
  NM_CHECK_STATUS(io_status(&p.b, &twice), NM_E(DUPLICATE_KEY));
  nm_command keyless = {.kind = NM_COMMAND_MAIL_OPEN};
  NM_CHECK_STATUS(io_status(&p.b, &keyless), NM_E(NO_KEY));
  nm_command unknown = host_letter(&p, 10, NM_LXMF_DIRECT);
  unknown.u.letter.mailbox = p.box_b;
  NM_CHECK_STATUS(io_status(&p.a, &unknown), NM_E(MISSING));
  nm_command large = host_letter(&p, 1000, NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_STATUS(io_status(&p.a, &large), NM_E(TOO_LARGE));
  nm_command wayless = host_letter(&p, 10, NM_LXMF_DIRECT);
  wayless.u.letter.policy.count = 0;
  NM_CHECK_STATUS(io_status(&p.a, &wayless), NM_E(ARGUMENT));
  nm_command broken = host_letter(&p, 10, NM_LXMF_DIRECT);
  nm_block_drop(broken.data);
  broken.data = io_text("no message");
  NM_CHECK(io_status(&p.a, &broken) < 0);
  nm_command ended = {.kind = NM_COMMAND_MAIL_CANCEL};
  NM_CHECK_STATUS(io_status(&p.a, &ended), NM_E(STATE));
  nm_command way = {.kind = NM_COMMAND_MAIL_INGEST,
                    .data = io_text("?"),
                    .number = NM_LXMF_DIRECT};
  NM_CHECK_STATUS(io_status(&p.a, &way), NM_E(ARGUMENT));
  nm_command costly = {
      .kind = NM_COMMAND_MAIL_SET_NODE, .on = true, .number = 255};
  NM_CHECK_STATUS(io_status(&p.a, &costly), NM_E(RANGE));
  nm_command close = {.kind = NM_COMMAND_MAIL_CLOSE, .destination = p.box_b};
  NM_CHECK_OK(io_status(&p.b, &close));
  close = (nm_command){.kind = NM_COMMAND_MAIL_CLOSE, .destination = p.box_b};
  NM_CHECK_STATUS(io_status(&p.b, &close), NM_E(MISSING));
  host_end(&p);
}

NM_TEST(an_ignored_source_is_proven_and_not_heard) {
  host_pair p;
  host_begin(&p, NULL);
  nm_command ignore = {
      .kind = NM_COMMAND_MAIL_IGNORE, .destination = p.box_a, .on = true};
  NM_CHECK_OK(io_status(&p.b, &ignore));
  nm_command c = host_letter(&p, 20, NM_LXMF_OPPORTUNISTIC);
  nm_node_mail end = host_final(&p.a, host_post(&p.a, &c, NULL));
  NM_CHECK_INT(end.mail.state, NM_LXMF_DELIVERED);
  nm_node_mail dropped = host_event(&p.b, NM_MAIL_DROPPED, 0);
  NM_CHECK_INT(dropped.mail.dropped[NM_MAIL_DROP_IGNORED], 1);
  NM_CHECK(!host_sees(&p.b, NM_MAIL_RECEIVED, 0));
  host_end(&p);
}

NM_TEST(a_ticket_is_given_out_once_until_it_is_delivered) {
  host_pair p;
  host_begin(&p, NULL);
  nm_command c = {.kind = NM_COMMAND_MAIL_TICKET, .destination = p.box_b};
  nm_node_event reply = io_ask(&p.a, &c);
  NM_CHECK_OK(reply.u.reply.status);
  NM_CHECK_INT(nm_block_span(reply.u.reply.data).len, NM_LXMF_TICKET_SIZE);
  NM_CHECK(reply.u.reply.number > reply.u.reply.at.unix_us);
  c = (nm_command){.kind = NM_COMMAND_MAIL_TICKET, .destination = p.box_b};
  nm_node_event again = io_ask(&p.a, &c);
  NM_CHECK_SPAN(nm_block_span(again.u.reply.data),
                nm_block_span(reply.u.reply.data));
  io_done(&reply);
  io_done(&again);
  nm_command letter = host_letter(&p, 20, NM_LXMF_DIRECT);
  letter.u.letter.carries_ticket = true;
  nm_node_mail end = host_final(&p.a, host_post(&p.a, &letter, NULL));
  NM_CHECK_INT(end.mail.state, NM_LXMF_DELIVERED);
  c = (nm_command){.kind = NM_COMMAND_MAIL_TICKET, .destination = p.box_b};
  NM_CHECK_STATUS(io_status(&p.a, &c), NM_E(MISSING));
  host_end(&p);
}

NM_TEST(a_stamp_is_worked_for_on_the_pool) {
  host_pair p;
  host_begin(&p, NULL);
  nm_command describe = {.kind = NM_COMMAND_MAIL_DESCRIBE,
                         .destination = p.box_b};
  describe.u.mailbox.stamp_cost = 6;
  NM_CHECK_OK(io_status(&p.b, &describe));
  uint64_t tickets[8];
  for (int i = 0; i < 8; i++) {
    nm_command c = host_letter(&p, 20, NM_LXMF_DIRECT);
    c.u.letter.stamp_cost = 6;
    tickets[i] = host_post(&p.a, &c, NULL);
  }
  for (int i = 0; i < 8; i++) {
    NM_CHECK_INT(host_final(&p.a, tickets[i]).mail.state, NM_LXMF_DELIVERED);
    nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
    NM_CHECK(got.mail.stamp_checked && got.mail.stamp_valid);
    NM_CHECK(got.mail.stamp_value >= 6);
    nm_mail_dispose(&got.mail);
  }
  host_end(&p);
}

/* ---- cancelling ---- */

NM_TEST(a_letter_ends_when_it_is_cancelled_by_id_or_by_ticket) {
  host_pair p;
  host_begin(&p, NULL);
  nm_command stamped = host_letter(&p, 20, NM_LXMF_DIRECT);
  stamped.u.letter.stamp_cost = 60; /* never found */
  uint8_t id[NM_HASH_SIZE];
  uint64_t ticket = host_post(&p.a, &stamped, id);
  nm_command cancel = {.kind = NM_COMMAND_MAIL_CANCEL};
  memcpy(cancel.hash.b, id, NM_HASH_SIZE);
  NM_CHECK_OK(io_status(&p.a, &cancel));
  NM_CHECK_INT(host_final(&p.a, ticket).mail.state, NM_LXMF_CANCELLED);
  stamped = host_letter(&p, 20, NM_LXMF_DIRECT);
  stamped.u.letter.stamp_cost = 60;
  ticket = host_post(&p.a, &stamped, id);
  NM_CHECK_OK(nm_node_cancel(p.a.node, ticket));
  NM_CHECK_INT(host_final(&p.a, ticket).mail.state, NM_LXMF_CANCELLED);
  NM_CHECK_OK(nm_node_cancel(p.a.node, ticket)); /* quiet */
  host_end(&p);
}

NM_TEST(letters_on_their_way_end_with_the_node) {
  host_pair p;
  host_begin(&p, NULL);
  uint64_t tickets[40];
  for (int i = 0; i < 40; i++) {
    nm_command c = host_letter(&p, 20, NM_LXMF_DIRECT);
    c.u.letter.stamp_cost = i % 2 == 0 ? 60 : 0;
    c.quiet = true;
    tickets[i] = io_post(&p.a, &c);
  }
  nm_node_close(p.a.node);
  for (int i = 0; i < 40; i++) {
    nm_node_mail end = host_final(&p.a, tickets[i]);
    NM_CHECK(end.mail.state == NM_LXMF_CANCELLED ||
             (i % 2 == 1 && end.mail.state == NM_LXMF_DELIVERED));
  }
  host_end(&p);
}

/* ---- what wakes the reader ---- */

NM_TEST(a_quiet_success_is_one_event_beside_its_reply) {
  host_pair p;
  host_begin(&p, NULL);
  check_delivered(&p, 20, NM_LXMF_DIRECT, NM_LXMF_PACKET); /* makes the link */
  io_drain(&p.a);
  for (int i = 0; i < 50; i++) {
    nm_command c = host_letter(&p, 20, NM_LXMF_DIRECT);
    c.quiet = true;
    uint64_t ticket = io_post(&p.a, &c);
    nm_node_mail first = host_event(&p.a, NM_MAIL_STATE, ticket);
    /* A slow machine may be late enough for a state in between. */
    NM_CHECK(first.mail.ended ||
             host_final(&p.a, ticket).mail.state == NM_LXMF_DELIVERED);
  }
  host_end(&p);
}

NM_TEST(who_follows_sees_how_far_a_resource_is) {
  host_pair p;
  host_begin(&p, NULL);
  nm_node_follow(p.a.node, true);
  nm_command c = host_letter(&p, 400000, NM_LXMF_DIRECT);
  c.quiet = true;
  uint64_t ticket = io_post(&p.a, &c);
  int between = 0;
  nm_node_mail news;
  do {
    news = host_event(&p.a, NM_MAIL_STATE, ticket);
    between += !news.mail.ended;
  } while (!news.mail.ended);
  NM_CHECK_INT(news.mail.state, NM_LXMF_DELIVERED);
  NM_CHECK(between >= 2);
  host_end(&p);
}

/* ---- credit ---- */

static nm_node_config with_credit(uint32_t credit) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.mail_credit = credit;
  config.manual_credit = true;
  return config;
}

static void send_many(host_pair *p, int count, uint64_t *tickets) {
  for (int i = 0; i < count; i++) {
    nm_command c = host_letter(p, 20, NM_LXMF_DIRECT);
    tickets[i] = host_post(&p->a, &c, NULL);
  }
}

NM_TEST(nothing_is_proven_that_nobody_has_room_for) {
  nm_node_config config = with_credit(4);
  host_pair p;
  uint64_t tickets[10];
  host_begin(&p, &config);
  send_many(&p, 10, tickets);
  for (int i = 0; i < 4; i++) {
    nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
    nm_mail_dispose(&got.mail);
  }
  NM_CHECK(!host_sees(&p.b, NM_MAIL_RECEIVED, 300));
  NM_CHECK_INT(host_stats(&p.a).delivered, 4);
  NM_CHECK_INT(host_stats(&p.b).parcels, 6);
  /* One that is read and done with lets one in. */
  nm_node_mail_credit(p.b.node, 1);
  nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
  nm_mail_dispose(&got.mail);
  NM_CHECK(!host_sees(&p.b, NM_MAIL_RECEIVED, 100));
  nm_node_mail_credit(p.b.node, 9);
  for (int i = 0; i < 5; i++) {
    got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
    nm_mail_dispose(&got.mail);
  }
  for (int i = 0; i < 10; i++) {
    NM_CHECK_INT(host_final(&p.a, tickets[i]).mail.state, NM_LXMF_DELIVERED);
  }
  host_end(&p);
}

NM_TEST(who_reads_gives_credit_by_that) {
  nm_node_config config = with_credit(2);
  config.manual_credit = false;
  host_pair p;
  uint64_t tickets[30];
  host_begin(&p, &config);
  send_many(&p, 30, tickets);
  for (int i = 0; i < 30; i++) {
    nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
    nm_mail_dispose(&got.mail);
  }
  host_end(&p);
}

NM_TEST(a_close_forgets_messages_that_wait_for_credit) {
  nm_node_config config = with_credit(1);
  host_pair p;
  uint64_t tickets[5];
  host_begin(&p, &config);
  send_many(&p, 5, tickets);
  nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
  nm_mail_dispose(&got.mail);
  NM_CHECK_INT(host_final(&p.a, tickets[0]).mail.state, NM_LXMF_DELIVERED);
  nm_node_close(p.b.node);
  NM_CHECK(!host_sees(&p.b, NM_MAIL_RECEIVED, 0));
  NM_CHECK_INT(host_stats(&p.a).delivered, 1);
  host_end(&p);
}

NM_TEST(more_letters_than_the_ring_has_room_for_end_all) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.ring = 16;
  host_pair p;
  host_begin(&p, &config);
  enum { COUNT = 200 };
  uint64_t tickets[COUNT];
  for (int i = 0; i < COUNT; i++) { /* from b, which does not read */
    nm_command c = {.kind = NM_COMMAND_MAIL_SEND,
                    .quiet = true,
                    .data = host_packed(2, &p.box_b, &p.box_a, 20)};
    c.u.letter.mailbox = p.box_b;
    c.u.letter.policy.count = 1;
    c.u.letter.policy.steps[0].method =
        i % 2 == 0 ? NM_LXMF_DIRECT : NM_LXMF_OPPORTUNISTIC;
    tickets[i] = p.b.next_ticket++;
    c.ticket = tickets[i];
    NM_CHECK_OK(nm_node_command(p.b.node, &c));
  }
  for (int i = 0; i < COUNT; i++) {
    NM_CHECK_INT(host_final(&p.b, tickets[i]).mail.state, NM_LXMF_DELIVERED);
    nm_node_mail got = host_event(&p.a, NM_MAIL_RECEIVED, 0);
    nm_mail_dispose(&got.mail);
  }
  host_end(&p);
}

/* ---- a node to fetch from, played by the test ---- */

static void as_node(nm_dest_spec *spec) {
  spec->accepts_links = true;
}

static nm_destination_hash serve_mail(io_node *n) {
  nm_destination_hash hash = io_listen(n, 77, "lxmf.propagation", as_node);
  nm_command handle = {.kind = NM_COMMAND_HANDLE,
                       .destination = hash,
                       .data = io_text("/get"),
                       .allow = NM_ALLOW_ALL};
  NM_CHECK_OK(io_status(n, &handle));
  nm_lxmf_node_draft draft = {.timebase = 1700000000,
                              .active = true,
                              .transfer_limit_kb = 256,
                              .sync_limit_kb = 10240,
                              .stamp_cost = 0,
                              .peering_cost = 18};
  uint8_t bytes[128];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &out));
  nm_span data = nm_writer_done(&out);
  nm_command app = {.kind = NM_COMMAND_SET_APP_DATA,
                    .destination = hash,
                    .data = io_block(data.ptr, data.len)};
  NM_CHECK_OK(io_status(n, &app));
  io_announce(n, &hash);
  return hash;
}

/* Answers the next request with one byte string, or with none. */
static void answer(io_node *n, nm_span element) {
  nm_event request = io_event(n, NM_EVENT_REQUEST, 0);
  uint8_t head[] = {0x91, 0xc5, (uint8_t)(element.len >> 8),
                    (uint8_t)element.len};
  uint8_t *bytes = nm_test_scratch(sizeof(head) + element.len);
  nm_writer out = nm_writer_of(bytes, sizeof(head) + element.len);
  if (element.len == 0) {
    nm_writer_u8(&out, 0x90);
  } else {
    nm_writer_put(&out, head, sizeof(head));
    nm_writer_span(&out, element);
  }
  nm_span value = nm_writer_done(&out);
  nm_command respond = {.kind = NM_COMMAND_RESPOND,
                        .token = request.token,
                        .data = io_block(value.ptr, value.len)};
  NM_CHECK_OK(io_status(n, &respond));
  nm_event_dispose(&request);
}

/* A message from a to b in the form that nodes keep. */
static nm_block *sealed_for(const host_pair *p, uint8_t seed) {
  nm_block *packed = host_packed(1, &p->box_a, &p->box_b, 30);
  uint8_t keys[NM_PRIVATE_SIZE];
  uint8_t ephemeral[NM_KEY_SIZE];
  uint8_t iv[16] = {1};
  nm_identity identity;
  nm_cipher cipher;
  host_keys(seed, keys);
  memset(ephemeral, 9, sizeof(ephemeral));
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  nm_encrypt_params params = {.target = identity.public_key,
                              .salt = &identity.hash,
                              .ephemeral = ephemeral,
                              .iv = iv};
  nm_block *data = nm_block_new(&nm_mem_system,
                                nm_lxmf_data_size(nm_block_span(packed).len));
  NM_CHECK_OK(nm_lxmf_data_seal(&cipher, &params, nm_block_span(packed),
                                nm_block_bytes(data)));
  nm_cipher_close(&cipher);
  nm_block_drop(packed);
  return data;
}

NM_TEST(a_mailbox_fetches_from_a_node_what_nobody_else_gets) {
  host_pair p;
  host_begin(&p, NULL);
  nm_destination_hash node = serve_mail(&p.a);
  io_await_path(&p.b, &node);
  nm_block *data = sealed_for(&p, 2);
  uint8_t transient[NM_HASH_SIZE];
  nm_lxmf_transient_id(nm_block_span(data), transient);
  nm_command sync = {.kind = NM_COMMAND_MAIL_SYNC, .destination = p.box_b};
  sync.u.mail_sync.has_node = true;
  sync.u.mail_sync.node = node;
  nm_node_event reply = io_ask(&p.b, &sync);
  NM_CHECK_OK(reply.u.reply.status);
  uint64_t ticket = reply.ticket;
  io_done(&reply);
  answer(&p.a, nm_span_of(transient, sizeof(transient)));
  answer(&p.a, nm_block_span(data));
  nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
  NM_CHECK_INT(got.mail.method, NM_LXMF_PROPAGATED);
  NM_CHECK_BYTES(got.mail.transient_id, transient, NM_HASH_SIZE);
  nm_mail_dispose(&got.mail);
  answer(&p.a, nm_span_of(NULL, 0)); /* it acknowledges */
  nm_node_mail end = host_sync_end(&p.b, ticket);
  NM_CHECK_INT(end.mail.sync_state, NM_LXMF_SYNC_COMPLETE);
  NM_CHECK_INT(end.mail.sync_received, 1);
  nm_command again = {
      .kind = NM_COMMAND_MAIL_INGEST, .data = data, .number = NM_LXMF_PAPER};
  NM_CHECK_STATUS(io_status(&p.b, &again), NM_E(DUPLICATE_KEY));
  host_end(&p);
}

NM_TEST(a_fetch_ends_when_it_is_cancelled_or_the_node_closes) {
  host_pair p;
  host_begin(&p, NULL);
  nm_destination_hash nowhere = {{7, 7, 7}};
  for (int way = 0; way < 3; way++) {
    nm_command sync = {.kind = NM_COMMAND_MAIL_SYNC, .destination = p.box_b};
    sync.u.mail_sync.has_node = true;
    sync.u.mail_sync.node = nowhere;
    nm_node_event reply = io_ask(&p.b, &sync);
    NM_CHECK_OK(reply.u.reply.status);
    uint64_t ticket = reply.ticket;
    io_done(&reply);
    nm_command twice = {.kind = NM_COMMAND_MAIL_SYNC, .destination = p.box_b};
    twice.u.mail_sync = (nm_mail_sync){.has_node = true, .node = nowhere};
    NM_CHECK_STATUS(io_status(&p.b, &twice), NM_E(STATE));
    nm_command cancel = {.kind = NM_COMMAND_MAIL_SYNC_CANCEL,
                         .destination = p.box_b};
    if (way == 0) {
      NM_CHECK_OK(io_status(&p.b, &cancel));
    } else if (way == 1) {
      NM_CHECK_OK(nm_node_cancel(p.b.node, ticket));
    } else {
      nm_node_close(p.b.node);
    }
    NM_CHECK(host_sync_end(&p.b, ticket).mail.sync_ended);
  }
  host_end(&p);
}

NM_TEST(a_paper_message_is_opened_and_told_once) {
  host_pair p;
  host_begin(&p, NULL);
  nm_block *data = sealed_for(&p, 2);
  nm_command c = {.kind = NM_COMMAND_MAIL_INGEST,
                  .data = nm_block_hold(data),
                  .number = NM_LXMF_PAPER};
  NM_CHECK_OK(io_status(&p.b, &c));
  nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
  NM_CHECK_INT(got.mail.method, NM_LXMF_PAPER);
  nm_mail_dispose(&got.mail);
  c = (nm_command){
      .kind = NM_COMMAND_MAIL_INGEST, .data = data, .number = NM_LXMF_PAPER};
  NM_CHECK_STATUS(io_status(&p.b, &c), NM_E(DUPLICATE_KEY));
  host_end(&p);
}

/* ---- allocation failures ---- */

/* A letter each way under an allocator that fails once; what a node was told
 * of has an end. */
static void exchange(fault_mem *mem, size_t at) {
  nm_loop_config config = {.mem = &mem->mem, .workers = 1};
  host_pair p = {0};
  NM_CHECK_OK(nm_loop_start(&config, &p.loop));
  io_open(&p.a, p.loop, NULL);
  io_open(&p.b, p.loop, NULL);
  io_join(&p.a, &p.b);
  p.box_a = host_open(&p.a, 1, 0);
  p.box_b = host_open(&p.b, 2, 0);
  io_announce(&p.a, &p.box_a);
  io_announce(&p.b, &p.box_b);
  io_await_path(&p.a, &p.box_b);
  io_await_path(&p.b, &p.box_a);
  fault_mem_fail(mem, at);
  static const nm_lxmf_method methods[] = {NM_LXMF_DIRECT,
                                           NM_LXMF_OPPORTUNISTIC};
  for (int i = 0; i < 2; i++) {
    nm_command c = host_letter(&p, 20, methods[i]);
    c.u.letter.timeout_us = 400000;
    c.ticket = p.a.next_ticket++;
    uint64_t ticket = c.ticket;
    if (nm_node_command(p.a.node, &c) != NM_OK) {
      continue;
    }
    host_await_end(&p.a, ticket);
  }
  fault_mem_fail(mem, 0);
  host_end(&p);
}

NM_TEST(each_allocation_of_a_letter_fails_once) {
  fault_mem mem;
  fault_mem_init(&mem);
  size_t before = fault_mem_calls(&mem);
  exchange(&mem, 0);
  NM_CHECK(fault_mem_calls(&mem) > before);
  for (size_t at = 1; at <= 120; at += at < 40 ? 1 : 4) {
    nm_test_context("allocation %zu", at);
    exchange(&mem, at);
    NM_CHECK_INT(fault_mem_live(&mem), 0);
  }
  fault_mem_dispose(&mem);
}
