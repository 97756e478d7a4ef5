/* Latencies between two processes over loopback TCP, by the engines' stamps:
 * from the moment a command was carried out to the moment its answer was
 * there. Prints the median and the 99th percentile in microseconds.
 *
 *   speed             all rows
 *   speed request     rows whose name contains a word
 */
#include "crypto/init.h"
#include "io/node.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 4000

typedef struct samples {
  double us[SAMPLES_MAX];
  size_t count;
} samples;

__attribute__((noreturn)) static void die(const char *what) {
  fprintf(stderr, "speed: %s\n", what);
  exit(1);
}

static void check(bool good, const char *what) {
  if (!good) {
    die(what);
  }
}

/* ---- talking to a node ---- */

static nm_node_event next(nm_node *node) {
  nm_node_event event;
  while (!nm_node_next(node, &event)) {
    check(nm_node_wait(node, 20000), "nothing happens");
  }
  return event;
}

static uint64_t post(nm_node *node, nm_command *c) {
  static uint64_t tickets = 1;
  uint64_t ticket = tickets++;
  c->ticket = ticket;
  check(nm_node_command(node, c) == NM_OK, "a command is refused");
  return ticket;
}

static nm_reply reply_to(nm_node *node, uint64_t ticket) {
  for (;;) {
    nm_node_event event = next(node);
    if (event.kind == NM_NODE_REPLY && event.ticket == ticket) {
      check(event.u.reply.status == NM_OK, "a command fails");
      nm_reply reply = event.u.reply;
      nm_node_event_dispose(&event);
      return reply;
    }
    nm_node_event_dispose(&event);
  }
}

static nm_reply ask(nm_node *node, nm_command *c) {
  return reply_to(node, post(node, c));
}

static nm_event event_of(nm_node *node, nm_event_kind kind) {
  for (;;) {
    nm_node_event event = next(node);
    if (event.kind == NM_NODE_EVENT && event.u.event.kind == kind) {
      return event.u.event;
    }
    nm_node_event_dispose(&event);
  }
}

static nm_block *block(const void *bytes, size_t len) {
  nm_block *made = nm_block_copy(&nm_mem_system, nm_span_of(bytes, len));
  check(made != NULL, "no memory");
  return made;
}

static void add(nm_node *node, nm_medium medium, uint16_t *port) {
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  check(nm_iface_setup_default(&c.u.iface, medium, "speed") == NM_OK, "setup");
  memcpy(c.u.iface.host, "127.0.0.1", 10);
  c.u.iface.port = *port;
  *port = (uint16_t)ask(node, &c).number;
}

/* ---- the other process: answers and proves ---- */

static void respond(nm_node *node, const nm_event *request) {
  static const uint8_t answer[34] = {0xc4, 32};
  nm_command c = {.kind = NM_COMMAND_RESPOND,
                  .token = request->token,
                  .data = block(answer, sizeof(answer))};
  (void)post(node, &c);
}

static void take_resources(nm_node *node, nm_link_ref link) {
  nm_command c = {
      .kind = NM_COMMAND_LINK_POLICY, .link = link, .accept = NM_ACCEPT_ALL};
  (void)post(node, &c);
}

__attribute__((noreturn)) static void serve(int to_parent) {
  nm_loop *loop;
  nm_node *node;
  uint16_t port = 0;
  uint8_t keys[NM_PRIVATE_SIZE];
  memset(keys, 5, sizeof(keys));
  check(nm_loop_start(NULL, &loop) == NM_OK, "no loop");
  check(nm_node_open(loop, NULL, &node, NULL) == NM_OK, "no node");
  add(node, NM_MEDIUM_TCP_SERVER, &port);
  nm_command listen = {.kind = NM_COMMAND_LISTEN,
                       .key = block(keys, sizeof(keys)),
                       .data = block("speed.test", 10)};
  nm_dest_spec_default(&listen.u.listen);
  listen.u.listen.prove = NM_PROVE_ALL;
  listen.u.listen.resources = NM_ACCEPT_ALL;
  nm_destination_hash hash = ask(node, &listen).destination;
  nm_command handle = {.kind = NM_COMMAND_HANDLE,
                       .destination = hash,
                       .allow = NM_ALLOW_ALL,
                       .data = block("/echo", 5)};
  (void)ask(node, &handle);
  check(write(to_parent, &port, sizeof(port)) == sizeof(port), "pipe");
  for (;;) {
    nm_node_event event = next(node);
    if (event.kind == NM_NODE_EVENT) {
      const nm_event *e = &event.u.event;
      if (e->kind == NM_EVENT_IFACE && e->state == NM_IFACE_ONLINE) {
        nm_command announce = {.kind = NM_COMMAND_ANNOUNCE,
                               .destination = hash};
        (void)post(node, &announce);
      } else if (e->kind == NM_EVENT_REQUEST) {
        respond(node, e);
      } else if (e->kind == NM_EVENT_LINK_ACTIVE) {
        take_resources(node, e->link);
      }
    }
    nm_node_event_dispose(&event);
  }
}

/* ---- measurements ---- */

typedef struct bench {
  nm_node *node;
  nm_destination_hash hash;
  nm_link_ref link;
  uint8_t content[(1 << 20) - 1];
} bench;

static void note(samples *s, nm_now from, nm_now to) {
  if (s->count < SAMPLES_MAX) {
    s->us[s->count++] = (double)(to.mono_us - from.mono_us);
  }
}

/* Waits for the reply to |ticket| and then for |kind|, and notes the time in
 * between. Gives the event without its blocks. */
static nm_event timed(bench *b, uint64_t ticket, nm_event_kind kind,
                      samples *s) {
  nm_reply reply = reply_to(b->node, ticket);
  nm_event event = event_of(b->node, kind);
  check(event.status == NM_OK, "an operation fails");
  if (s != NULL) {
    note(s, reply.at, event.at);
  }
  nm_event copy = event;
  nm_event_dispose(&event);
  return copy;
}

static nm_link_ref open_link(bench *b, samples *s) {
  nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = b->hash};
  return timed(b, post(b->node, &c), NM_EVENT_LINK_ACTIVE, s).link;
}

static void link_setup(bench *b, samples *s) {
  nm_command c = {.kind = NM_COMMAND_LINK_CLOSE, .link = open_link(b, s)};
  (void)post(b->node, &c);
  nm_event closed = event_of(b->node, NM_EVENT_LINK_CLOSED);
  nm_event_dispose(&closed);
}

static void request(bench *b, samples *s) {
  uint8_t data[34] = {0xc4, 32};
  nm_command c = {.kind = NM_COMMAND_REQUEST,
                  .link = b->link,
                  .extra = block("/echo", 5),
                  .data = block(data, sizeof(data))};
  (void)timed(b, post(b->node, &c), NM_EVENT_RESPONSE, s);
}

static void packet(bench *b, samples *s) {
  nm_command c = {.kind = NM_COMMAND_SEND, .data = block(b->content, 200)};
  nm_send_spec_default(&c.u.send);
  c.u.send.destination = b->hash;
  c.u.send.receipt = true;
  nm_event end = timed(b, post(b->node, &c), NM_EVENT_RECEIPT, s);
  check(end.state == NM_RECEIPT_DELIVERED, "a packet is not proven");
}

static void link_packet(bench *b, samples *s) {
  nm_command c = {.kind = NM_COMMAND_LINK_SEND,
                  .link = b->link,
                  .on = true,
                  .data = block(b->content, 200)};
  nm_event end = timed(b, post(b->node, &c), NM_EVENT_RECEIPT, s);
  check(end.state == NM_RECEIPT_DELIVERED, "a packet is not proven");
}

static void resource(bench *b, samples *s, size_t size) {
  nm_command c = {.kind = NM_COMMAND_RESOURCE_SEND,
                  .link = b->link,
                  .compression = NM_RESOURCE_COMPRESS_OFF,
                  .data = block(b->content, size)};
  (void)timed(b, post(b->node, &c), NM_EVENT_RESOURCE_OUT, s);
}

static void resource_16k(bench *b, samples *s) {
  resource(b, s, 16 << 10);
}

static void resource_1m(bench *b, samples *s) {
  resource(b, s, sizeof(b->content));
}

enum { MANY_LINKS = 1000 };

/* All opened at once; noted is the time until the last one is active. */
static void many_links(bench *b, samples *s) {
  static nm_link_ref links[MANY_LINKS];
  uint64_t first = 0;
  for (int i = 0; i < MANY_LINKS; i++) {
    nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = b->hash};
    uint64_t ticket = post(b->node, &c);
    first = i == 0 ? ticket : first;
  }
  nm_now from = reply_to(b->node, first).at;
  nm_now to = from;
  for (int i = 0; i < MANY_LINKS; i++) {
    nm_event active = event_of(b->node, NM_EVENT_LINK_ACTIVE);
    links[i] = active.link;
    to = active.at;
    nm_event_dispose(&active);
  }
  for (int i = 0; i < MANY_LINKS; i++) {
    nm_command c = {.kind = NM_COMMAND_LINK_CLOSE, .link = links[i]};
    (void)post(b->node, &c);
  }
  for (int i = 0; i < MANY_LINKS; i++) {
    nm_event closed = event_of(b->node, NM_EVENT_LINK_CLOSED);
    nm_event_dispose(&closed);
  }
  if (s != NULL) {
    note(s, from, to);
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct row {
  const char *name;
  void (*once)(bench *b, samples *s);
  size_t samples;
  int warm_up;
} row;

static const row rows[] = {
    {"link set-up", link_setup, 1000, 20},
    {"request 32 B", request, 4000, 20},
    {"packet and proof", packet, 2000, 20},
    {"link packet and proof", link_packet, 2000, 20},
    {"resource 16 KiB", resource_16k, 1000, 20},
    {"resource 1 MiB - 1", resource_1m, 100, 20},
    {"1,000 links at once", many_links, 5, 1},
};

static void measure(bench *b, const row *r) {
  static samples s;
  s.count = 0;
  for (int i = 0; i < r->warm_up; i++) {
    r->once(b, NULL);
  }
  for (size_t i = 0; i < r->samples; i++) {
    r->once(b, &s);
  }
  qsort(s.us, s.count, sizeof(s.us[0]), by_value);
  printf("%-24s %10.0f %10.0f   (%zu)\n", r->name, s.us[s.count / 2],
         s.us[s.count * 99 / 100], s.count);
}

static void find(bench *b, uint16_t port) {
  nm_command c = {.kind = NM_COMMAND_SUBSCRIBE};
  (void)ask(b->node, &c);
  add(b->node, NM_MEDIUM_TCP_CLIENT, &port);
  nm_event heard = event_of(b->node, NM_EVENT_ANNOUNCE);
  b->hash = heard.destination;
  nm_event_dispose(&heard);
}

int main(int argc, char **argv) {
  static bench b;
  nm_loop *loop;
  uint16_t port;
  int fds[2];
  check(nm_crypto_init() == NM_OK && pipe(fds) == 0, "start");
  pid_t child = fork();
  if (child == 0) {
    serve(fds[1]);
  }
  check(read(fds[0], &port, sizeof(port)) == sizeof(port), "no server");
  for (size_t i = 0; i < sizeof(b.content); i++) {
    b.content[i] = (uint8_t)(rand() >> 7);
  }
  check(nm_loop_start(NULL, &loop) == NM_OK, "no loop");
  check(nm_node_open(loop, NULL, &b.node, NULL) == NM_OK, "no node");
  find(&b, port);
  b.link = open_link(&b, NULL);
  printf("%-24s %10s %10s\n", "microseconds", "p50", "p99");
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (argc < 2 || strstr(rows[i].name, argv[1]) != NULL) {
      measure(&b, &rows[i]);
    }
  }
  nm_node_release(b.node);
  (void)nm_loop_stop(loop);
  kill(child, SIGKILL);
  (void)waitpid(child, NULL, 0);
  return 0;
}
