/* A hundred thousand received packets and not one allocation, once the memory
 * that a node keeps for its next packets is warm. The receiving engine takes
 * from a stock, as in a node; what the stock takes from the allocator below it
 * is counted.
 */
#include "base/stock.h"
#include "engine_net.h"
#include "support.h"
#include "wire/link.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

#define KEEP (512u << 10) /* as csrc/io/node.c */
#define FRAME_MAX 2048

enum { SENDER, RECEIVER };

typedef struct bench {
  net n;
  nm_test_mem below;
  nm_stock *stock;
  nm_destination_hash hash;
  nm_link_ref link;
  nm_iface_id iface;
  uint8_t frames[64][FRAME_MAX]; /* of the sender, taken off the wire */
  size_t sizes[64];
  size_t count;
  uint8_t scratch[FRAME_MAX];
  uint8_t heard[FRAME_MAX];
  uint64_t handled; /* packets that the receiver accepted */
  uint64_t dropped;
  uint64_t told; /* events that it told */
  bool grants;   /* the owner of the receiver grants credit for what it read */
} bench;

static void prove_all(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
}

/* Tables so small that they are full, and go round, before the counting. */
static void small_tables(int engine, nm_engine_config *config) {
  (void)engine;
  config->limits.filter = 256;
  config->limits.recorder = 256;
  config->limits.receipts = 16;
}

/* Takes what the sender puts out instead of carrying it. */
static void collect(bench *b) {
  nm_engine *sender = b->n.engines[SENDER];
  nm_output out;
  nm_job *job;
  b->count = 0;
  while ((job = nm_engine_job(sender)) != NULL) {
    nm_job_run(job, &b->n.cipher);
    nm_engine_job_done(sender, job, b->n.now);
  }
  while (nm_engine_output(sender, &out)) {
    if (out.op != 0) {
      nm_engine_sent(sender, out.op, true, b->n.now);
    }
    nm_span raw = nm_block_span(out.packet);
    NM_CHECK(b->count < 64 && raw.len <= FRAME_MAX);
    memcpy(b->frames[b->count], raw.ptr, raw.len);
    b->sizes[b->count++] = raw.len;
    nm_block_drop(out.packet);
  }
}

/* The sender hears what the receiver says, so that its link lives. */
static void answer(bench *b, nm_span raw) {
  nm_engine *sender = b->n.engines[SENDER];
  nm_ingress_config config = {.hw_mtu = 1064};
  nm_mspan scratch = {b->heard, sizeof(b->heard)};
  nm_frame frame;
  nm_event event;
  nm_ingress(&config, raw, scratch, &frame);
  (void)nm_engine_input(sender, b->n.wires[0].ends[0].iface, &frame, b->n.now);
  while (nm_engine_event(sender, &event)) {
    nm_event_dispose(&event);
  }
}

static bool takes_credit(nm_event_kind kind) {
  return kind >= NM_EVENT_PACKET && kind <= NM_EVENT_STREAM_DATA;
}

/* Does everything that the receiver asks of its driver. */
static void drain(bench *b) {
  nm_engine *receiver = b->n.engines[RECEIVER];
  nm_output out;
  nm_event event;
  nm_job *job;
  while ((job = nm_engine_job(receiver)) != NULL) {
    if (nm_job_kind_of(job) == NM_JOB_STORE) {
      nm_job_store_result(job, true);
    } else {
      nm_job_run(job, &b->n.cipher);
    }
    nm_engine_job_done(receiver, job, b->n.now);
  }
  while (nm_engine_output(receiver, &out)) {
    if (out.op != 0) {
      nm_engine_sent(receiver, out.op, true, b->n.now);
    }
    answer(b, nm_block_span(out.packet));
    nm_block_drop(out.packet);
  }
  while (nm_engine_event(receiver, &event)) {
    b->told++;
    if (b->grants && takes_credit(event.kind)) {
      nm_engine_credit(receiver, 1, b->n.now);
    }
    nm_event_dispose(&event);
  }
}

/* One frame into the receiver, and time for what it starts. */
static void receive(bench *b, nm_span raw) {
  nm_engine *receiver = b->n.engines[RECEIVER];
  nm_ingress_config config = {.hw_mtu = 1064};
  nm_mspan scratch = {b->scratch, sizeof(b->scratch)};
  nm_frame frame;
  nm_ingress(&config, raw, scratch, &frame);
  nm_verdict verdict = nm_engine_input(receiver, b->iface, &frame, b->n.now);
  b->handled += verdict.drop == NM_DROP_NONE;
  b->dropped += verdict.drop != NM_DROP_NONE;
  drain(b);
  b->n.now.mono_us += 100;
  b->n.now.unix_us += 100;
  if (nm_engine_deadline(receiver) <= b->n.now.mono_us) {
    nm_engine_tick(receiver, b->n.now);
    drain(b);
  }
}

static void receive_collected(bench *b) {
  for (size_t i = 0; i < b->count; i++) {
    receive(b, nm_span_of(b->frames[i], b->sizes[i]));
  }
}

/* ---- kinds of packets ---- */

static void send_data(bench *b) {
  nm_op_id op;
  uint8_t text[200];
  memset(text, 'd', sizeof(text));
  NM_CHECK_OK(nm_engine_link_send(b->n.engines[SENDER], b->link,
                                  nm_span_of(text, sizeof(text)), true, 0, &op,
                                  NULL, b->n.now));
  collect(b);
  NM_CHECK_INT(b->count, 1);
  receive_collected(b);
}

static void send_single(bench *b) {
  nm_send_spec spec;
  nm_op_id op;
  nm_send_spec_default(&spec);
  spec.destination = b->hash;
  spec.payload = nm_span_of("to a destination", 16);
  NM_CHECK_OK(nm_engine_send(b->n.engines[SENDER], &spec, &op, b->n.now));
  collect(b);
  NM_CHECK_INT(b->count, 1);
  receive_collected(b);
}

/* An announce, and then the same one again and again. */
static void send_announce(bench *b, const nm_destination_hash *hash,
                          int repeats) {
  nm_op_id op;
  nm_engine *sender = b->n.engines[SENDER];
  NM_CHECK_OK(nm_engine_announce(sender, hash, NULL, 0, false, &op, b->n.now));
  nm_span raw = nm_span_of(NULL, 0);
  /* It waits a little; a keepalive may leave meanwhile. */
  for (int i = 0; i < 50 && raw.len == 0; i++) {
    b->n.now.mono_us += 100000;
    nm_engine_tick(sender, b->n.now);
    collect(b);
    for (size_t at = 0; at < b->count; at++) {
      if ((b->frames[at][0] & 3) == NM_ANNOUNCE) {
        raw = nm_span_of(b->frames[at], b->sizes[at]);
      }
    }
  }
  b->n.now.unix_us += 1000000; /* emissions differ by a second */
  NM_CHECK(raw.len > 0);
  for (int i = 0; i <= repeats; i++) {
    receive(b, raw);
  }
}

static void send_keepalive(bench *b, const nm_link_id *id) {
  uint8_t raw[64];
  uint8_t byte = nm_link_keepalive(true);
  nm_packet p = nm_packet_of(NM_DATA, NM_LINK, NM_CONTEXT_KEEPALIVE, id->b,
                             nm_span_of(&byte, 1));
  size_t len = 0;
  NM_CHECK_OK(nm_packet_pack(&p, NM_PACKET_ORIGINATE, NM_MTU, raw, sizeof(raw),
                             &len, NULL));
  receive(b, nm_span_of(raw, len));
}

/* ---- the tests ---- */

#define ANNOUNCERS 1
#define CREDIT 8

typedef struct mixture {
  nm_destination_hash announced[ANNOUNCERS];
  nm_link_id id;
} mixture;

static void begin(bench *b, mixture *m, const nm_mem *mem) {
  nm_link_info info;
  b->grants = true;
  NM_CHECK_OK(net_init_credit(&b->n, mem, 2, CREDIT, small_tables));
  int wire = net_join(&b->n, SENDER, RECEIVER, "udp");
  NM_CHECK(wire >= 0);
  b->iface = b->n.wires[wire].ends[1].iface;
  (void)nm_engine_subscribe(b->n.engines[RECEIVER], NULL, true);
  NM_CHECK_OK(net_listen(&b->n, RECEIVER, 7, "test.all", prove_all, &b->hash));
  NM_CHECK_OK(net_announce(&b->n, RECEIVER, &b->hash));
  for (uint8_t i = 0; i < ANNOUNCERS; i++) {
    NM_CHECK_OK(net_listen(&b->n, SENDER, (uint8_t)(20 + i), "test.other", NULL,
                           &m->announced[i]));
  }
  b->link = net_link(&b->n, SENDER, &b->hash);
  NM_CHECK(b->link != 0);
  NM_CHECK_OK(nm_engine_link_info(b->n.engines[SENDER], b->link, &info));
  m->id = info.id;
  net_forget(&b->n);
}

/* A thousand packets of all kinds. */
static void receive_thousand(bench *b, mixture *m, unsigned round) {
  for (int i = 0; i < 400; i++) {
    send_data(b);
    send_keepalive(b, &m->id);
  }
  for (int i = 0; i < 10; i++) {
    send_single(b);
  }
  send_announce(b, &m->announced[round % ANNOUNCERS], 189);
}

NM_TEST(a_hundred_thousand_received_packets_allocate_nothing) {
  bench *b = nm_test_scratch(sizeof(*b));
  mixture m;
  memset(b, 0, sizeof(*b));
  nm_test_mem_init(&b->below);
  b->stock = nm_stock_new(&b->below.mem, KEEP);
  begin(b, &m, nm_stock_mem(b->stock));
  unsigned round = 0;
  for (; round < 80; round++) { /* the path's 64 emissions are full as well */
    receive_thousand(b, &m, round);
  }
  size_t before = b->below.calls;
  uint64_t handled = b->handled;
  uint64_t dropped = b->dropped;
  uint64_t told = b->told;
  nm_stock_stats stats;
  nm_stock_read(b->stock, &stats);
  uint64_t reused = stats.reused;
  for (; round < 180; round++) {
    receive_thousand(b, &m, round);
  }
  NM_CHECK_INT(b->handled - handled + b->dropped - dropped, 100000);
  NM_CHECK_INT(b->dropped - dropped, 100 * 189); /* repeated announces */
  NM_CHECK(b->told - told >= 100 * (400 + 10 + 1));
  NM_CHECK_INT(b->below.calls - before, 0);
  /* Which is the stock's doing: the engine asked for memory all the time. */
  nm_stock_read(b->stock, &stats);
  NM_CHECK(stats.reused - reused > 100 * 400);
  NM_CHECK(stats.kept <= KEEP);
  net_dispose(&b->n);
  nm_stock_free(b->stock);
  NM_CHECK_INT(b->below.live, 0);
}

NM_TEST(no_more_packets_are_accepted_than_credit_was_granted_for) {
  bench *b = nm_test_scratch(sizeof(*b));
  mixture m;
  memset(b, 0, sizeof(*b));
  begin(b, &m, &nm_mem_system);
  for (int i = 0; i < 100; i++) {
    send_data(b);
  }
  NM_CHECK_INT(b->told, 100);
  NM_CHECK_INT(b->dropped, 0);
  b->grants = false;
  for (int i = 0; i < 100; i++) {
    send_data(b);
  }
  NM_CHECK(b->told <= 100 + CREDIT && b->told >= 101);
  NM_CHECK_INT(b->dropped, 200 - b->told);
  nm_engine_credit(b->n.engines[RECEIVER], 50, b->n.now);
  for (int i = 0; i < 100; i++) {
    send_data(b);
  }
  NM_CHECK_INT(b->dropped, 300 - b->told);
  NM_CHECK(b->told >= 150 && b->told <= 150 + CREDIT);
  net_dispose(&b->n);
}
