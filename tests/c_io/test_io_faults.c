/* Every allocation and every system call of a scenario fails once: no crash, no
 * leak, an error with a name, and what follows works.
 */
#include "faults.h"
#include "io/files.h"
#include "io_support.h"
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a step waits for when a failure may have taken it away, and when none
 * has. */
#define SHORT_MS 150
#define LONG_MS 20000

struct actor;

typedef struct scenario {
  void (*talk)(struct actor *server, struct actor *client);
  const nm_mem *mem;
  const char *folder;
  int patience_ms;  /* what a step waits for */
  int named_errors; /* calls and replies that said why */
  int troubles;
  bool delivered;
} scenario;

typedef struct actor {
  nm_node *node;
  scenario *s;
} actor;

typedef bool wanted(const nm_node_event *event, uint64_t ticket);

/* Reads until |want|, or for a short while. The event is the caller's. */
static bool seek(actor *a, wanted *want, uint64_t ticket,
                 nm_node_event *event) {
  uint64_t until = io_now_us() + (uint64_t)a->s->patience_ms * 1000;
  for (;;) {
    while (nm_node_next(a->node, event)) {
      a->s->troubles += event->kind == NM_NODE_TROUBLE;
      a->s->named_errors +=
          event->kind == NM_NODE_REPLY && event->u.reply.status != NM_OK;
      a->s->named_errors +=
          event->kind == NM_NODE_EVENT && event->u.event.status != NM_OK;
      if (want(event, ticket)) {
        return true;
      }
      nm_node_event_dispose(event);
    }
    uint64_t now = io_now_us();
    if (now >= until) {
      return false;
    }
    (void)nm_node_wait(a->node, (int)((until - now) / 1000) + 1);
  }
}

static bool is_reply(const nm_node_event *event, uint64_t ticket) {
  return event->kind == NM_NODE_REPLY && event->ticket == ticket;
}

static bool is_end(const nm_node_event *event, uint64_t ticket) {
  return event->kind == NM_NODE_EVENT && event->ticket == ticket &&
         event->u.event.kind > NM_EVENT_LINK_CLOSED;
}

static bool is_path(const nm_node_event *event, uint64_t ticket) {
  (void)ticket;
  return event->kind == NM_NODE_EVENT && event->u.event.kind == NM_EVENT_PATH;
}

/* Whether the command was carried out; |reply| gets a copy without blocks. */
static bool act(actor *a, nm_command *c, uint64_t ticket, nm_reply *reply) {
  nm_node_event event;
  c->ticket = ticket;
  if (nm_node_command(a->node, c) != NM_OK) {
    a->s->named_errors++;
    return false;
  }
  /* Each command that was taken is answered, come what may. */
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (!seek(a, is_reply, ticket, &event)) {
    NM_CHECK(io_now_us() < until);
  }
  bool ok = event.u.reply.status == NM_OK;
  *reply = event.u.reply;
  nm_node_event_dispose(&event);
  return ok;
}

static bool add(actor *a, nm_medium medium, uint16_t port, nm_reply *reply) {
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  NM_CHECK_OK(nm_iface_setup_default(&c.u.iface, medium, "wire"));
  memcpy(c.u.iface.host, "127.0.0.1", 10);
  c.u.iface.port = port;
  c.u.iface.retry_first_ms = 1;
  c.u.iface.retry_max_ms = 20;
  return act(a, &c, 1, reply);
}

/* Joins the two and makes a destination of the server known to the client. */
static bool meet(actor *server, actor *client, nm_destination_hash *hash) {
  nm_reply reply;
  nm_node_event event;
  uint8_t keys[NM_PRIVATE_SIZE];
  if (!add(server, NM_MEDIUM_TCP_SERVER, 0, &reply) ||
      !add(client, NM_MEDIUM_TCP_CLIENT, (uint16_t)reply.number, &reply)) {
    return false;
  }
  memset(keys, 9, sizeof(keys));
  nm_command listen = {
      .kind = NM_COMMAND_LISTEN,
      .key = nm_block_copy(&nm_mem_system, nm_span_of(keys, sizeof(keys))),
      .data = io_text("test.faults")};
  nm_dest_spec_default(&listen.u.listen);
  listen.u.listen.prove = NM_PROVE_ALL;
  listen.u.listen.resources = NM_ACCEPT_ALL;
  listen.u.listen.ratchets = true;
  if (!act(server, &listen, 2, &reply)) {
    return false;
  }
  *hash = reply.destination;
  for (int i = 0; i < 4; i++) {
    nm_command announce = {.kind = NM_COMMAND_ANNOUNCE, .destination = *hash};
    if (act(server, &announce, 3, &reply) && seek(server, is_end, 3, &event)) {
      nm_node_event_dispose(&event);
    }
    if (seek(client, is_path, 0, &event)) {
      nm_node_event_dispose(&event);
      return true;
    }
  }
  return false;
}

static void talk_in_packets(actor *server, actor *client) {
  nm_reply reply;
  nm_node_event event;
  nm_destination_hash hash;
  (void)meet(server, client, &hash);
  nm_command send = {.kind = NM_COMMAND_SEND, .data = io_text("hello")};
  nm_send_spec_default(&send.u.send);
  send.u.send.destination = hash;
  send.u.send.receipt = true;
  send.u.send.timeout_us = (uint64_t)client->s->patience_ms * 1000;
  if (act(client, &send, 4, &reply) && seek(client, is_end, 4, &event)) {
    client->s->delivered = event.u.event.state == NM_RECEIPT_DELIVERED;
    nm_node_event_dispose(&event);
  }
  nm_command save = {.kind = NM_COMMAND_PERSIST};
  (void)act(client, &save, 5, &reply);
}

static bool is_active(const nm_node_event *event, uint64_t ticket) {
  (void)ticket;
  return event->kind == NM_NODE_EVENT &&
         event->u.event.kind == NM_EVENT_LINK_ACTIVE;
}

static bool is_request(const nm_node_event *event, uint64_t ticket) {
  (void)ticket;
  return event->kind == NM_NODE_EVENT &&
         event->u.event.kind == NM_EVENT_REQUEST;
}

static bool is_resource(const nm_node_event *event, uint64_t ticket) {
  (void)ticket;
  return event->kind == NM_NODE_EVENT &&
         event->u.event.kind == NM_EVENT_RESOURCE_IN;
}

/* Asks over |link| and answers; whether the answer came. */
static bool ask_and_answer(actor *server, actor *client, nm_link_ref link) {
  nm_reply reply;
  nm_node_event event;
  nm_command request = {.kind = NM_COMMAND_REQUEST,
                        .link = link,
                        .extra = io_text("/ask"),
                        .data = io_text("\xc0"),
                        .timeout_us = 4000 * (uint64_t)client->s->patience_ms};
  if (!act(client, &request, 6, &reply) ||
      !seek(server, is_request, 0, &event)) {
    return false;
  }
  nm_command respond = {.kind = NM_COMMAND_RESPOND,
                        .token = event.u.event.token,
                        .data = io_text("\xc3")};
  nm_node_event_dispose(&event);
  (void)act(server, &respond, 7, &reply);
  if (!seek(client, is_end, 6, &event)) {
    return false;
  }
  bool good = event.u.event.status == NM_OK;
  nm_node_event_dispose(&event);
  return good;
}

/* Opens a link from the client to |hash|; 0 when it did not come up. */
static nm_link_ref open_link(actor *client, const nm_destination_hash *hash) {
  nm_reply reply;
  nm_node_event event;
  nm_command open = {.kind = NM_COMMAND_LINK_OPEN,
                     .destination = *hash,
                     .timeout_us = 4000 * (uint64_t)client->s->patience_ms};
  if (!act(client, &open, 5, &reply)) {
    return 0;
  }
  nm_link_ref link = reply.link;
  if (!seek(client, is_active, 5, &event)) {
    return 0;
  }
  nm_node_event_dispose(&event);
  return link;
}

/* Sends a resource over |link|; whether it came whole. */
static bool send_resource(actor *server, actor *client, nm_link_ref link) {
  static uint8_t content[3000];
  nm_reply reply;
  nm_node_event event;
  nm_test_random_bytes(content, sizeof(content));
  nm_command send = {.kind = NM_COMMAND_RESOURCE_SEND,
                     .link = link,
                     .data = io_block(content, sizeof(content))};
  if (!act(client, &send, 8, &reply) || !seek(server, is_resource, 0, &event)) {
    return false;
  }
  nm_span came = nm_block_span(event.u.event.data);
  bool good = came.len == sizeof(content) &&
              memcmp(came.ptr, content, sizeof(content)) == 0;
  nm_node_event_dispose(&event);
  NM_CHECK(good); /* late or never, but not wrong */
  if (!seek(client, is_end, 8, &event)) {
    return false;
  }
  good = event.u.event.status == NM_OK;
  nm_node_event_dispose(&event);
  return good;
}

static void talk_on_a_link(actor *server, actor *client) {
  nm_reply reply;
  nm_destination_hash hash;
  if (!meet(server, client, &hash)) {
    return;
  }
  nm_command handle = {.kind = NM_COMMAND_HANDLE,
                       .destination = hash,
                       .data = io_text("/ask"),
                       .allow = NM_ALLOW_ALL};
  if (!act(server, &handle, 4, &reply)) {
    return;
  }
  nm_link_ref link = open_link(client, &hash);
  if (link == 0) {
    return;
  }
  client->s->delivered = ask_and_answer(server, client, link) &&
                         send_resource(server, client, link);
  nm_command closing = {.kind = NM_COMMAND_LINK_CLOSE, .link = link};
  (void)act(client, &closing, 9, &reply);
}

#define FILE_SIZE 3000

/* Whether |path| is a file with |content|. Unwraps nothing: it reads after the
 * scenario. */
static bool holds(const char *path, const uint8_t *content) {
  uint8_t found[FILE_SIZE + 1];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return false;
  }
  size_t len = fread(found, 1, sizeof(found), file);
  (void)fclose(file);
  return len == FILE_SIZE && memcmp(found, content, len) == 0;
}

/* A file of the client becomes one of the server: whole under its name, or not
 * there at all. */
static void talk_with_files(actor *server, actor *client) {
  static uint8_t content[FILE_SIZE];
  nm_reply reply;
  nm_node_event event;
  nm_destination_hash hash;
  const nm_mem *mem = client->s->mem;
  const char *to = io_path(client->s->folder, "got");
  (void)unlink(to);
  nm_test_random_bytes(content, sizeof(content));
  FILE *from = tmpfile();
  NM_CHECK(from != NULL &&
           fwrite(content, 1, sizeof(content), from) == sizeof(content) &&
           fflush(from) == 0);
  int no_shelf = 0;
  int no_source = 0;
  nm_span name = nm_span_of((const uint8_t *)"got", 3);
  nm_shelf *shelf =
      nm_file_shelf(mem, client->s->folder, name, false, &no_shelf);
  nm_source *source =
      nm_file_source(mem, fileno(from), 0, sizeof(content), &no_source);
  NM_CHECK((shelf == NULL) == (no_shelf < 0));
  NM_CHECK((source == NULL) == (no_source < 0));
  client->s->named_errors += (no_shelf < 0) + (no_source < 0);
  nm_command shelve = {.kind = NM_COMMAND_SHELVE, .size_max = 1 << 20};
  nm_command send = {.kind = NM_COMMAND_RESOURCE_SEND, .source = source};
  shelve.shelf = shelf;
  if (shelf != NULL && source != NULL && meet(server, client, &hash)) {
    shelve.destination = hash;
    if (act(server, &shelve, 4, &reply) &&
        (send.link = open_link(client, &hash)) != 0 &&
        act(client, &send, 8, &reply) && seek(client, is_end, 8, &event)) {
      client->s->delivered = event.u.event.status == NM_OK;
      nm_node_event_dispose(&event);
    }
  }
  nm_command_dispose(&shelve);
  nm_command_dispose(&send);
  (void)fclose(from);
  /* Proven means durable under its name; whatever has the name is whole. */
  NM_CHECK(!client->s->delivered || access(to, F_OK) == 0);
  NM_CHECK(access(to, F_OK) != 0 || holds(to, content));
}

#if defined(__linux__)
static char instance_name[32];
static int instance = -1; /* listens all the while */

/* The client attaches to a shared instance that is a plain socket, and its
 * announce comes out there. */
static void talk_to_an_instance(actor *server, actor *client) {
  (void)server;
  nm_reply reply;
  nm_destination_hash hash;
  uint8_t keys[NM_PRIVATE_SIZE];
  uint8_t byte;
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  NM_CHECK_OK(
      nm_iface_setup_default(&c.u.iface, NM_MEDIUM_LOCAL_CLIENT, "shared"));
  memcpy(c.u.iface.instance, instance_name, sizeof(instance_name));
  c.u.iface.retry_first_ms = 1;
  c.u.iface.retry_max_ms = 20;
  memset(keys, 9, sizeof(keys));
  nm_command listen = {
      .kind = NM_COMMAND_LISTEN,
      .key = nm_block_copy(&nm_mem_system, nm_span_of(keys, sizeof(keys))),
      .data = io_text("test.faults")};
  nm_dest_spec_default(&listen.u.listen);
  if (act(client, &c, 1, &reply) && act(client, &listen, 2, &reply)) {
    hash = reply.destination;
    int peer = io_accept_within(instance, 4 * client->s->patience_ms);
    for (int i = 0; i < 4 && peer >= 0 && !client->s->delivered; i++) {
      nm_command announce = {.kind = NM_COMMAND_ANNOUNCE, .destination = hash};
      (void)act(client, &announce, 3, &reply);
      client->s->delivered = io_readable_within(peer, client->s->patience_ms) &&
                             recv(peer, &byte, 1, 0) == 1;
      if (!client->s->delivered) { /* it may have connected again */
        close(peer);
        peer = io_accept_within(instance, client->s->patience_ms);
      }
    }
    if (peer >= 0) {
      close(peer);
    }
  } else {
    nm_command_dispose(&listen);
  }
  for (int late = 0; late >= 0;) { /* connections that came too late */
    late = io_accept_within(instance, 0);
    if (late >= 0) {
      close(late);
    }
  }
}
#endif

static bool is_closed(const nm_node_event *event, uint64_t ticket) {
  (void)ticket;
  return event->kind == NM_NODE_CLOSED;
}

static void leave(actor *a) {
  nm_node_event event;
  if (a->node == NULL) {
    return;
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_node_close(a->node);
  while (!seek(a, is_closed, 0, &event)) {
    NM_CHECK(io_now_us() < until);
  }
  nm_node_release(a->node);
}

static void play(scenario *s, int patience_ms) {
  s->patience_ms = patience_ms;
  nm_loop_config config = {.mem = s->mem, .workers = 1};
  nm_loop *loop = NULL;
  s->named_errors = 0;
  s->troubles = 0;
  s->delivered = false;
  if (nm_loop_start(&config, &loop) != NM_OK) {
    s->named_errors++;
    return;
  }
  nm_node_config node;
  nm_node_config_default(&node);
  node.ring = 64;
  node.stock_bytes = 1; /* every allocation is one of the loop's memory */
  node.engine.limits.recorder = 16;
  actor server = {.s = s};
  actor client = {.s = s};
  s->named_errors += nm_node_open(loop, &node, &server.node, NULL) != NM_OK;
  node.storage = s->folder;
  s->named_errors += nm_node_open(loop, &node, &client.node, NULL) != NM_OK;
  if (server.node != NULL && client.node != NULL) {
    s->talk(&server, &client);
  }
  leave(&client);
  leave(&server);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static void fail_each_allocation(void (*talk)(actor *server, actor *client)) {
  fault_mem mem;
  fault_mem_init(&mem);
  scenario s = {.talk = talk, .mem = &mem.mem, .folder = io_folder()};
  play(&s, LONG_MS);
  NM_CHECK(s.delivered);
  NM_CHECK_INT(fault_mem_live(&mem), 0);
  size_t calls = fault_mem_calls(&mem);
  NM_CHECK(calls > 100);
  for (size_t at = 1; at <= calls; at++) {
    nm_test_context("allocation %zu of %zu", at, calls);
    fault_mem_fail(&mem, at);
    play(&s, SHORT_MS);
    fault_mem_fail(&mem, 0);
    NM_CHECK_INT(fault_mem_live(&mem), 0);
  }
  play(&s, LONG_MS);
  NM_CHECK(s.delivered);
  NM_CHECK_INT(fault_mem_live(&mem), 0);
  fault_mem_dispose(&mem);
}

NM_TEST(each_allocation_fails_once_and_nothing_is_lost_but_that) {
  fail_each_allocation(talk_in_packets);
}

NM_TEST(each_allocation_of_a_link_with_its_transfers_fails_once) {
  fail_each_allocation(talk_on_a_link);
}

static void fail_each_call(void (*talk)(actor *server, actor *client)) {
  fault_mem mem;
  if (!fault_available()) {
    return;
  }
  fault_mem_init(&mem);
  scenario s = {.talk = talk, .mem = &mem.mem, .folder = io_folder()};
  fault_reset();
  play(&s, LONG_MS);
  NM_CHECK(s.delivered);
  int descriptors = io_open_descriptors();
  unsigned counts[FAULT_COUNT];
  for (int call = 0; call < FAULT_COUNT; call++) {
    counts[call] = fault_count((fault_call)call);
  }
  static const int errors[] = {EMFILE, EINTR, EIO};
  for (int call = 0; call < FAULT_COUNT; call++) {
    for (unsigned at = 1; at <= counts[call] && at <= 12; at++) {
      int error = errors[at % 3];
      nm_test_context("%s number %u with errno %d",
                      fault_name((fault_call)call), at, error);
      fault_reset();
      fault_arm((fault_call)call, at, error, false);
      play(&s, SHORT_MS);
      fault_reset();
      NM_CHECK_INT(fault_mem_live(&mem), 0);
      uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
      while (io_open_descriptors() > descriptors) {
        NM_CHECK(io_now_us() < until);
      }
    }
  }
  play(&s, LONG_MS);
  NM_CHECK(s.delivered);
  fault_mem_dispose(&mem);
}

NM_TEST(each_system_call_fails_once_and_the_rest_goes_on) {
  fail_each_call(talk_in_packets);
}

NM_TEST(each_system_call_of_a_link_with_its_transfers_fails_once) {
  fail_each_call(talk_on_a_link);
}

NM_TEST(each_allocation_of_a_file_from_disk_to_disk_fails_once) {
  fail_each_allocation(talk_with_files);
}

NM_TEST(each_system_call_of_a_file_from_disk_to_disk_fails_once) {
  fail_each_call(talk_with_files);
}

#if defined(__linux__)
NM_TEST(each_allocation_and_system_call_of_an_attached_client_fails_once) {
  (void)snprintf(instance_name, sizeof(instance_name), "netmesh-faults-%d",
                 (int)getpid());
  instance = io_listen_abstract(instance_name);
  fail_each_allocation(talk_to_an_instance);
  fail_each_call(talk_to_an_instance);
  close(instance);
}
#endif
