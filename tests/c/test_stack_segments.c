/* Resources of several segments: from memory and from sources, to memory and to
 * sinks, cut short in every phase, and told of by liars.
 */
#include "engine_net.h"

#include "support.h"
#include "wire/resource.h"

#include <string.h>

#define SEGMENT NM_RESOURCE_SEGMENT_MAX

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static void accept_all(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

static void accept_held(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
  spec->hold_resources = true;
}

static nm_block *random_block(size_t len) {
  nm_block *block = nm_block_new(&nm_mem_system, len);
  nm_test_random_bytes(nm_block_bytes(block), len);
  return block;
}

/* A pair of engines with a link between them: its ends. */
typedef struct pair {
  net *n;
  nm_link_ref ends[2];
} pair;

static pair linked(const nm_mem *mem, const char *kind,
                   void (*adjust)(nm_dest_spec *spec)) {
  pair p = {.n = nm_test_scratch(sizeof(net))};
  nm_destination_hash hash;
  NM_CHECK_OK(net_init(p.n, mem, 2));
  NM_CHECK_INT(net_join(p.n, 0, 1, kind), 0);
  NM_CHECK_OK(net_listen(p.n, 1, 7, "test.sink", adjust, &hash));
  NM_CHECK_OK(net_announce(p.n, 1, &hash));
  p.ends[0] = net_link(p.n, 0, &hash);
  nm_event *active = net_find(p.n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(p.ends[0] != 0 && active != NULL);
  p.ends[1] = active->link;
  return p;
}

static nm_op_id send_block(pair *p, nm_block *content, nm_span metadata,
                           nm_resource_compression compression) {
  nm_op_id op = 0;
  NM_CHECK_OK(nm_engine_resource_send(p->n->engines[0], p->ends[0], content,
                                      metadata, compression, 0, &op,
                                      p->n->now));
  return op;
}

/* ---- sizes ---- */

static void transfer_of(size_t len, nm_span metadata) {
  nm_test_context("%zu bytes, metadata of %zu", len, metadata.len);
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(len);
  send_block(&p, content, metadata, NM_RESOURCE_COMPRESS_AUTOMATIC);
  net_settle(p.n);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(in != NULL && out != NULL);
  NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  NM_CHECK_SPAN(nm_block_span(in->metadata), metadata);
  NM_CHECK_INT(in->done_bytes, len);
  NM_CHECK_INT(in->total_bytes, len);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  NM_CHECK_INT(out->done_bytes, len);
  NM_CHECK(memcmp(in->packet_hash.b, out->packet_hash.b, NM_HASH_SIZE) == 0);
  nm_engine_stats stats;
  nm_engine_stats_read(p.n->engines[1], &stats);
  NM_CHECK_INT(stats.resource_memory, 0);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(sizes_around_the_boundaries_of_segments_arrive) {
  nm_span name = text("\xa4name");
  for (size_t segments = 1; segments <= 3; segments++) {
    for (size_t off = 0; off < 5; off++) {
      transfer_of(segments * SEGMENT - 2 + off, nm_span_of(NULL, 0));
      transfer_of(segments * SEGMENT - 2 + off - name.len - 3, name);
    }
  }
}

NM_TEST(text_is_compressed_segment_by_segment) {
  pair p = linked(&nm_mem_system, "udp", accept_all);
  nm_block *content = nm_block_new(&nm_mem_system, 2 * SEGMENT + 100);
  memset(nm_block_bytes(content), 'x', nm_block_span(content).len);
  send_block(&p, content, nm_span_of(NULL, 0),
             NM_RESOURCE_COMPRESS_WHEN_SMALLER);
  net_settle(p.n);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  NM_CHECK(in->wire_bytes < 10000);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(requests_and_responses_take_several_segments) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_destination_hash *hash =
      &net_find(p.n, 1, NM_EVENT_LINK_ACTIVE)->destination;
  NM_CHECK_OK(nm_engine_handle(p.n->engines[1], hash, text("/echo"),
                               NM_ALLOW_ALL, NULL, 0));
  size_t len = 2 * SEGMENT + 17;
  uint8_t *packed = nm_test_scratch(len + 5);
  nm_test_random_bytes(packed, len + 5);
  nm_writer w = nm_writer_of(packed, 5);
  nm_writer_u8(&w, 0xc6);
  nm_writer_u8(&w, 0);
  nm_writer_u8(&w, (uint8_t)(len >> 16));
  nm_writer_u16(&w, (uint16_t)len);
  nm_span data = nm_span_of(packed, len + 5);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(p.n->engines[0], p.ends[0], text("/echo"), data,
                                0, 0, &op, p.n->now));
  net_settle(p.n);
  nm_event *asked = net_find(p.n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  NM_CHECK_SPAN(nm_block_span(asked->data), data);
  NM_CHECK_OK(
      nm_engine_respond(p.n->engines[1], asked->token, data, true, p.n->now));
  net_settle(p.n);
  nm_event *end = net_find(p.n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(end != NULL);
  NM_CHECK_STATUS(end->status, NM_OK);
  NM_CHECK_SPAN(nm_block_span(end->data), data);
  net_dispose(p.n);
}

/* ---- windows ---- */

static void slow_wire(void *user, int from, nm_span raw, net_fate *fate) {
  (void)user;
  (void)from;
  (void)raw;
  fate->copies = 1;
  fate->delay_us[0] = 1000;
}

/* The window at the end of segment 1 and at the beginning of segment 2. */
NM_TEST(the_next_segment_starts_with_the_window_of_the_last) {
  pair p = linked(&nm_mem_system, "udp", accept_all);
  nm_block *content = random_block(SEGMENT + 50000);
  uint32_t last = 0;
  uint32_t next = 0;
  p.n->wires[0].fate = slow_wire;
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  while (net_count(p.n, 0, NM_EVENT_RESOURCE_OUT) == 0) {
    nm_transfer_info info;
    nm_op_id in = nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0);
    if (in != 0 &&
        nm_engine_transfer_info(p.n->engines[1], in, &info) == NM_OK) {
      last = info.segment == 1 ? info.window : last;
      next = info.segment == 2 && next == 0 ? info.window : next;
    }
    net_pass(p.n, 300);
  }
  NM_CHECK(last > NM_RESOURCE_WINDOW_MAX_SLOW);
  NM_CHECK_INT(next, last);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- progress ---- */

typedef struct watcher {
  pair *p;
  nm_op_id out;
  uint64_t out_done;
  uint64_t in_done;
  uint64_t out_wire;
  size_t steps;
} watcher;

static void watch(watcher *w, int engine, nm_op_id op, uint64_t *done) {
  nm_transfer_info info;
  if (op != 0 &&
      nm_engine_transfer_info(w->p->n->engines[engine], op, &info) == NM_OK) {
    NM_CHECK(info.content_done >= *done);
    NM_CHECK(info.content_done < info.content_bytes);
    *done = info.content_done;
    w->steps++;
  }
}

static bool look(void *user, int from, nm_span raw) {
  watcher *w = user;
  (void)from;
  (void)raw;
  watch(w, 0, w->out, &w->out_done);
  watch(w, 1, nm_engine_transfer_next(w->p->n->engines[1], w->p->ends[1], 0),
        &w->in_done);
  return true;
}

NM_TEST(progress_never_goes_back_and_is_complete_once) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(3 * SEGMENT);
  watcher w = {.p = &p};
  w.out = send_block(&p, content, text("\xa4name"), NM_RESOURCE_COMPRESS_OFF);
  p.n->wires[0].filter = look;
  p.n->wires[0].user = &w;
  net_settle(p.n);
  NM_CHECK(w.steps > 20);
  NM_CHECK(w.out_done > 2 * SEGMENT);
  NM_CHECK_INT(net_count(p.n, 0, NM_EVENT_RESOURCE_OUT), 1);
  NM_CHECK_INT(net_find(p.n, 0, NM_EVENT_RESOURCE_OUT)->done_bytes,
               3 * SEGMENT);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- sources and sinks ---- */

typedef struct memory_source {
  nm_source source;
  nm_block *content;
  uint64_t fail_at; /* reading from here on fails; 0: never */
  int fail_with;
  int *alive;
} memory_source;

static int read_memory(nm_source *source, uint64_t offset, uint8_t *into,
                       size_t len) {
  memory_source *m = (memory_source *)(void *)source;
  if (m->fail_at != 0 && offset + len > m->fail_at) {
    return m->fail_with;
  }
  memcpy(into, nm_span_slice(nm_block_span(m->content), offset, len).ptr, len);
  return NM_OK;
}

static void release_memory(nm_source *source) {
  memory_source *m = (memory_source *)(void *)source;
  nm_block_drop(m->content);
  --*m->alive;
  nm_release(&nm_mem_system, m);
}

static memory_source *new_source(nm_block *content, int *alive) {
  memory_source *m = nm_alloc_zero(&nm_mem_system, 1, sizeof(*m));
  nm_source_init(&m->source, nm_block_span(content).len, read_memory,
                 release_memory);
  m->content = nm_block_hold(content);
  m->alive = alive;
  ++*alive;
  return m;
}

typedef struct memory_shelf {
  nm_shelf shelf;
  uint8_t *bytes;
  uint64_t cap;
  uint64_t len;
  uint64_t fail_at;
  int fail_with;
  int fail_finish;
  int placed;
  int finished;
  int alive;
  nm_block *metadata;
} memory_shelf;

typedef struct memory_sink {
  nm_sink sink;
  memory_shelf *shelf;
} memory_sink;

static int write_memory(nm_sink *sink, uint64_t offset, nm_span bytes) {
  memory_shelf *s = ((memory_sink *)(void *)sink)->shelf;
  NM_CHECK_INT(offset, s->len);
  if (s->fail_with != 0 && offset + bytes.len > s->fail_at) {
    return s->fail_with;
  }
  NM_CHECK(offset + bytes.len <= s->cap);
  memcpy(&s->bytes[offset], bytes.ptr, bytes.len);
  s->len += bytes.len;
  return NM_OK;
}

static int finish_memory(nm_sink *sink, uint64_t size, nm_span metadata,
                         nm_block **place) {
  memory_shelf *s = ((memory_sink *)(void *)sink)->shelf;
  NM_CHECK_INT(size, s->len);
  if (s->fail_finish != 0) {
    return s->fail_finish;
  }
  s->finished++;
  s->metadata = nm_block_copy(&nm_mem_system, metadata);
  *place = nm_block_copy(&nm_mem_system, text("here"));
  return NM_OK;
}

static void release_sink(nm_sink *sink) {
  ((memory_sink *)(void *)sink)->shelf->alive--;
  nm_release(&nm_mem_system, sink);
}

static nm_sink *place_memory(nm_shelf *shelf, const uint8_t hash[NM_HASH_SIZE],
                             uint64_t size, nm_span peer) {
  (void)peer;
  (void)hash;
  memory_shelf *s = (memory_shelf *)(void *)shelf;
  memory_sink *sink = nm_alloc_zero(&nm_mem_system, 1, sizeof(*sink));
  NM_CHECK(size <= s->cap + 100);
  atomic_init(&sink->sink.references, 1);
  sink->sink.write = write_memory;
  sink->sink.finish = finish_memory;
  sink->sink.release = release_sink;
  sink->shelf = s;
  s->len = 0;
  s->placed++;
  s->alive++;
  return &sink->sink;
}

static void release_shelf(nm_shelf *shelf) {
  (void)shelf;
}

static memory_shelf *new_shelf(uint64_t cap) {
  memory_shelf *s = nm_test_scratch(sizeof(*s));
  memset(s, 0, sizeof(*s));
  atomic_init(&s->shelf.references, 1);
  s->shelf.place = place_memory;
  s->shelf.release = release_shelf;
  s->bytes = nm_test_scratch(cap);
  s->cap = cap;
  return s;
}

/* A transfer of |len| bytes from a source to a shelf. */
static void stored(pair *p, memory_shelf *shelf, memory_source *source,
                   bool once) {
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_shelve(p->n->engines[1], p->ends[1], &shelf->shelf,
                                    once, 0));
  NM_CHECK_OK(nm_engine_resource_send_from(
      p->n->engines[0], p->ends[0], &source->source, text("\xa4name"),
      NM_RESOURCE_COMPRESS_OFF, 0, &op, p->n->now));
  nm_source_drop(&source->source);
  net_settle(p->n);
}

NM_TEST(content_goes_from_a_source_to_a_sink) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  int alive = 0;
  nm_block *content = random_block(2 * SEGMENT + 5);
  memory_shelf *shelf = new_shelf(2 * SEGMENT + 5);
  stored(&p, shelf, new_source(content, &alive), false);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  NM_CHECK(in->stored);
  NM_CHECK_SPAN(nm_block_span(in->data), text("here"));
  NM_CHECK_SPAN(nm_block_span(in->metadata), text("\xa4name"));
  NM_CHECK_SPAN(nm_block_span(shelf->metadata), text("\xa4name"));
  NM_CHECK_SPAN(nm_span_of(shelf->bytes, shelf->len), nm_block_span(content));
  NM_CHECK_INT(shelf->finished, 1);
  NM_CHECK_INT(shelf->alive, 0);
  NM_CHECK_INT(alive, 0);
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  nm_block_drop(shelf->metadata);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(a_shelf_for_one_resource_serves_one) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  int alive = 0;
  nm_block *content = random_block(1000);
  memory_shelf *shelf = new_shelf(1000);
  stored(&p, shelf, new_source(content, &alive), true);
  NM_CHECK(net_find(p.n, 1, NM_EVENT_RESOURCE_IN)->stored);
  net_forget(p.n);
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_settle(p.n);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(!in->stored);
  NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  NM_CHECK_INT(shelf->placed, 1);
  nm_block_drop(shelf->metadata);
  nm_block_drop(content);
  net_dispose(p.n);
}

static void fails_to_store(uint64_t fail_at, int fail_with, int fail_finish) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  int alive = 0;
  nm_block *content = random_block(2 * SEGMENT);
  memory_shelf *shelf = new_shelf(2 * SEGMENT);
  shelf->fail_at = fail_at;
  shelf->fail_with = fail_with;
  shelf->fail_finish = fail_finish;
  stored(&p, shelf, new_source(content, &alive), true);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED);
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(in != NULL && out != NULL);
  NM_CHECK_STATUS(in->status, fail_finish != 0 ? fail_finish : fail_with);
  NM_CHECK_INT(in->stage, NM_STAGE_STORE);
  NM_CHECK_INT(out->state, NM_RESOURCE_REJECTED);
  NM_CHECK_INT(shelf->finished, 0);
  NM_CHECK_INT(shelf->alive, 0);
  NM_CHECK_INT(alive, 0);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(a_sink_that_fails_has_its_own_error_and_is_never_proven) {
  fails_to_store(0, NM_E(FULL), 0);
  fails_to_store(SEGMENT, NM_E(FULL), 0);
  fails_to_store(SEGMENT + 1, NM_E(STORE), 0);
  fails_to_store(0, 0, NM_E(FULL));
}

NM_TEST(a_place_that_was_taken_back_does_not_return_with_a_failure) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  int alive = 0;
  nm_block *content = random_block(2 * SEGMENT);
  memory_shelf *shelf = new_shelf(2 * SEGMENT);
  memory_source *source = new_source(content, &alive);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_shelve(p.n->engines[1], p.ends[1], &shelf->shelf,
                                    true, 0));
  p.n->wires[0].fate = slow_wire;
  NM_CHECK_OK(nm_engine_resource_send_from(
      p.n->engines[0], p.ends[0], &source->source, nm_span_of(NULL, 0),
      NM_RESOURCE_COMPRESS_OFF, 0, &op, p.n->now));
  nm_source_drop(&source->source);
  while (shelf->placed == 0) {
    net_pass(p.n, 500);
  }
  NM_CHECK_OK(
      nm_engine_link_shelve(p.n->engines[1], p.ends[1], NULL, false, 0));
  NM_CHECK_OK(nm_engine_cancel(p.n->engines[0], op, p.n->now));
  net_pass(p.n, 1000000);
  net_forget(p.n);
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_pass(p.n, 10000000);
  NM_CHECK(!net_find(p.n, 1, NM_EVENT_RESOURCE_IN)->stored);
  NM_CHECK_INT(shelf->placed, 1);
  NM_CHECK_INT(shelf->alive, 0);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(a_source_that_fails_ends_the_transfer_and_says_so) {
  for (uint64_t at = 1; at <= 2 * SEGMENT; at += SEGMENT) {
    pair p = linked(&nm_mem_system, "tcp", accept_all);
    int alive = 0;
    nm_block *content = random_block(2 * SEGMENT);
    memory_shelf *shelf = new_shelf(2 * SEGMENT);
    memory_source *source = new_source(content, &alive);
    source->fail_at = at;
    source->fail_with = NM_E(TRUNCATED);
    stored(&p, shelf, source, false);
    nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
    NM_CHECK(out != NULL);
    NM_CHECK_STATUS(out->status, NM_E(TRUNCATED));
    NM_CHECK_INT(out->stage, NM_STAGE_STORE);
    NM_CHECK_INT(net_count(p.n, 1, NM_EVENT_RESOURCE_IN), 0);
    NM_CHECK_INT(net_count(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED), shelf->placed);
    NM_CHECK_INT(shelf->alive, 0);
    NM_CHECK_INT(alive, 0);
    nm_block_drop(content);
    net_dispose(p.n);
  }
}

NM_TEST(the_last_segment_of_a_held_resource_waits_for_its_acceptance) {
  pair p = linked(&nm_mem_system, "tcp", accept_held);
  nm_block *content = random_block(SEGMENT + 1);
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_settle(p.n);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  NM_CHECK(net_find(p.n, 0, NM_EVENT_RESOURCE_OUT) == NULL);
  NM_CHECK_OK(nm_engine_accept(p.n->engines[1], in->token, p.n->now));
  net_settle(p.n);
  NM_CHECK_INT(net_find(p.n, 0, NM_EVENT_RESOURCE_OUT)->state,
               NM_RESOURCE_COMPLETE);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- the bound on memory ---- */

NM_TEST(incoming_resources_together_hold_a_bounded_memory) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(2 * SEGMENT);
  nm_engine_stats stats;
  /* Above the default of one resource, so that the common bound decides. */
  NM_CHECK_OK(nm_engine_link_policy(p.n->engines[1], p.ends[1], NM_ACCEPT_ALL,
                                    false, (size_t)1 << 40));
  nm_resource_adv adv = {
      .transfer_size = 1000,
      .data_size = (uint64_t)1 << 35,
      .parts = 1,
      .hash = nm_span_of(nm_block_span(content).ptr, 32),
      .original = nm_span_of(nm_block_span(content).ptr, 32),
      .random = text("rand"),
      .segment = 1,
      .segments = 1000,
      .flags = NM_RESOURCE_ENCRYPTED | NM_RESOURCE_SPLIT,
      .hashmap = text("hash"),
  };
  uint8_t payload[512];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  nm_block *raw;
  NM_CHECK_OK(nm_resource_adv_encode(&adv, &w));
  NM_CHECK_OK(nm_engine_link_seal(p.n->engines[0], p.ends[0], NM_DATA,
                                  NM_CONTEXT_RESOURCE_ADV, nm_writer_done(&w),
                                  &raw));
  nm_verdict verdict =
      net_feed(p.n, 1, p.n->wires[0].ends[1].iface, nm_block_span(raw));
  nm_block_drop(raw);
  NM_CHECK_INT(verdict.drop, NM_DROP_RESOURCE_MEMORY);
  nm_engine_stats_read(p.n->engines[1], &stats);
  NM_CHECK_INT(stats.drops[NM_DROP_RESOURCE_MEMORY], 1);
  NM_CHECK_INT(stats.resource_memory, 0);
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_settle(p.n);
  NM_CHECK(net_find(p.n, 1, NM_EVENT_RESOURCE_IN) != NULL);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- cancelling, in every phase ---- */

typedef struct cutter {
  pair *p;
  nm_op_id out;
  int who;  /* 0: the sender cancels, 1: the receiver */
  int left; /* packets until then */
  bool done;
} cutter;

static bool cut(void *user, int from, nm_span raw) {
  cutter *c = user;
  (void)from;
  (void)raw;
  c->left--;
  return true;
}

/* Cancels after |packets| packets; returns whether it was in time. */
static bool cancelled_after(int who, int packets) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_test_context("side %d cancels after %d packets", who, packets);
  nm_block *content = random_block(2 * SEGMENT + 9);
  cutter c = {.p = &p, .who = who, .left = packets};
  p.n->wires[0].filter = cut;
  p.n->wires[0].fate = slow_wire;
  p.n->wires[0].user = &c;
  c.out =
      send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  while (net_count(p.n, 0, NM_EVENT_RESOURCE_OUT) == 0 && !c.done) {
    if (c.left <= 0) {
      nm_op_id op =
          who == 0 ? c.out
                   : nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0);
      c.done =
          op != 0 && nm_engine_cancel(p.n->engines[who], op, p.n->now) == NM_OK;
      if (op == 0) {
        break;
      }
    }
    net_pass(p.n, 200);
  }
  net_pass(p.n, 200000000);
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(net_count(p.n, 0, NM_EVENT_RESOURCE_OUT), 1);
  int taken = net_count(p.n, 1, NM_EVENT_RESOURCE_IN);
  int failed = net_count(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED);
  NM_CHECK(taken + failed <= 1);
  if (c.done) {
    /* Final: nobody is told of a success later. A sender that cancels while
     * the last proof is under way cannot know. */
    NM_CHECK(out->status != NM_OK);
    NM_CHECK(who == 0 || taken == 0);
    NM_CHECK(who == 0 || out->state == NM_RESOURCE_REJECTED);
  }
  NM_CHECK_INT(nm_engine_transfer_next(p.n->engines[0], p.ends[0], 0), 0);
  NM_CHECK_INT(nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0), 0);
  nm_engine_stats stats;
  nm_engine_stats_read(p.n->engines[1], &stats);
  NM_CHECK_INT(stats.resource_memory, 0);
  nm_block_drop(content);
  net_dispose(p.n);
  return c.done;
}

NM_TEST(a_cancel_is_final_in_every_phase_of_a_split_resource) {
  for (int who = 0; who < 2; who++) {
    int in_time = 0;
    for (int packets = 0; packets < 40; packets++) {
      in_time += cancelled_after(who, packets);
    }
    NM_CHECK(in_time > 15);
  }
}

/* ---- lies ---- */

typedef struct liar {
  pair *p;
  int segment; /* the advertisement to replace, counted from 1 */
  void (*twist)(nm_resource_adv *adv);
  int seen;
  nm_drop drop;
} liar;

static uint8_t wrong[NM_HASH_SIZE] = {1, 2, 3};

static void twist_index(nm_resource_adv *adv) {
  adv->segment++;
  adv->segments = adv->segment > adv->segments ? adv->segment : adv->segments;
}

static void twist_count(nm_resource_adv *adv) {
  adv->segments++;
}

static void twist_total(nm_resource_adv *adv) {
  adv->data_size--;
}

static void twist_original(nm_resource_adv *adv) {
  adv->original = nm_span_of(wrong, NM_HASH_SIZE);
}

static void twist_flags(nm_resource_adv *adv) {
  adv->flags ^= NM_RESOURCE_HAS_METADATA;
}

/* Replaces one advertisement by a lie about it. */
static bool tell_lie(void *user, int from, nm_span raw) {
  liar *l = user;
  nm_packet packet;
  if (from != 0 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != NM_CONTEXT_RESOURCE_ADV || ++l->seen != l->segment) {
    return true;
  }
  net *n = l->p->n;
  nm_block *plain;
  nm_block *forged;
  nm_resource_adv adv;
  NM_CHECK_OK(nm_engine_link_unseal(n->engines[0], l->p->ends[0], raw, &plain));
  NM_CHECK_OK(nm_resource_adv_decode(nm_block_span(plain), &adv, NULL));
  l->twist(&adv);
  uint8_t payload[512];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  NM_CHECK_OK(nm_resource_adv_encode(&adv, &w));
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], l->p->ends[0], NM_DATA,
                                  NM_CONTEXT_RESOURCE_ADV, nm_writer_done(&w),
                                  &forged));
  l->drop =
      net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(forged)).drop;
  nm_block_drop(forged);
  nm_block_drop(plain);
  return false;
}

static void lied_to(int segment, void (*twist)(nm_resource_adv *adv),
                    nm_drop drop) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_test_context("segment %d", segment);
  nm_block *content = random_block(2 * SEGMENT + 100);
  liar l = {.p = &p, .segment = segment, .twist = twist};
  p.n->wires[0].filter = tell_lie;
  p.n->wires[0].user = &l;
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_settle(p.n);
  NM_CHECK_INT(l.drop, drop);
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_REJECTED);
  NM_CHECK_INT(net_count(p.n, 1, NM_EVENT_RESOURCE_IN), 0);
  net_pass(p.n, 300000000);
  NM_CHECK_INT(nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0), 0);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(lies_about_segments_are_refused_at_once) {
  lied_to(1, twist_index, NM_DROP_RESOURCE_SEGMENT);
  lied_to(1, twist_count, NM_DROP_RESOURCE_SEGMENT);
  lied_to(1, twist_original, NM_DROP_RESOURCE_SEGMENT);
  for (int segment = 2; segment <= 3; segment++) {
    lied_to(segment, twist_index, NM_DROP_RESOURCE_SEGMENT);
    lied_to(segment, twist_count, NM_DROP_RESOURCE_SEGMENT);
    lied_to(segment, twist_total, NM_DROP_RESOURCE_SEGMENT);
    lied_to(segment, twist_flags, NM_DROP_RESOURCE_SEGMENT);
  }
}

NM_TEST(segments_that_do_not_add_up_are_corrupt) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(SEGMENT + 100);
  liar l = {.p = &p, .segment = 1, .twist = twist_total};
  p.n->wires[0].filter = tell_lie;
  p.n->wires[0].user = &l;
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_settle(p.n);
  NM_CHECK_INT(l.drop, NM_DROP_NONE);
  /* The next segment tells another total. */
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED);
  NM_CHECK(in != NULL);
  NM_CHECK_INT(in->state, NM_RESOURCE_CORRUPT);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- time ---- */

static bool lose_later_advertisements(void *user, int from, nm_span raw) {
  nm_packet packet;
  int *seen = user;
  return from != 0 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
         packet.context != NM_CONTEXT_RESOURCE_ADV || ++*seen == 1;
}

NM_TEST(a_segment_that_never_comes_ends_the_wait) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(SEGMENT + 100);
  int seen = 0;
  p.n->wires[0].filter = lose_later_advertisements;
  p.n->wires[0].user = &seen;
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_pass(p.n, 200000000);
  NM_CHECK_INT(net_count(p.n, 0, NM_EVENT_RESOURCE_OUT), 1);
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED);
  NM_CHECK(in != NULL);
  NM_CHECK_INT(nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0), 0);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* Loses the first proof of each segment. */
static bool lose_proofs(void *user, int from, nm_span raw) {
  nm_packet packet;
  int *seen = user;
  return from != 1 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
         packet.context != NM_CONTEXT_RESOURCE_PRF || ++*seen % 2 == 0;
}

NM_TEST(a_lost_proof_of_any_segment_is_asked_for) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  nm_block *content = random_block(2 * SEGMENT + 100);
  int seen = 0;
  p.n->wires[0].filter = lose_proofs;
  p.n->wires[0].user = &seen;
  send_block(&p, content, nm_span_of(NULL, 0), NM_RESOURCE_COMPRESS_OFF);
  net_pass(p.n, 60000000);
  NM_CHECK_INT(seen, 6);
  NM_CHECK_INT(net_find(p.n, 0, NM_EVENT_RESOURCE_OUT)->state,
               NM_RESOURCE_COMPLETE);
  NM_CHECK(net_find(p.n, 1, NM_EVENT_RESOURCE_IN) != NULL);
  nm_block_drop(content);
  net_dispose(p.n);
}

/* ---- loss, copies, disorder ---- */

static void rough(void *user, int from, nm_span raw, net_fate *fate) {
  (void)from;
  (void)raw;
  uint32_t percent = *(uint32_t *)user;
  fate->copies =
      nm_test_below(100) < percent ? 0 : 1 + (nm_test_below(10) == 0);
  for (int i = 0; i < fate->copies; i++) {
    fate->delay_us[i] = 2000 + nm_test_below(20000);
  }
}

NM_TEST(split_resources_survive_loss_copies_and_disorder_or_say_why_not) {
  for (uint32_t percent = 0; percent <= 30; percent += 10) {
    pair p = linked(&nm_mem_system, "tcp", accept_all);
    nm_test_context("%u %% loss", percent);
    p.n->wires[0].fate = rough;
    p.n->wires[0].user = &percent;
    nm_block *content = random_block(2 * SEGMENT + 77);
    send_block(&p, content, text("\xa4name"), NM_RESOURCE_COMPRESS_OFF);
    net_pass(p.n, 900000000);
    nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
    NM_CHECK(out != NULL);
    int taken = net_count(p.n, 1, NM_EVENT_RESOURCE_IN);
    NM_CHECK(taken + net_count(p.n, 1, NM_EVENT_RESOURCE_IN_FAILED) <= 1);
    if (out->state == NM_RESOURCE_COMPLETE) {
      NM_CHECK_INT(taken, 1);
      NM_CHECK_SPAN(nm_block_span(net_find(p.n, 1, NM_EVENT_RESOURCE_IN)->data),
                    nm_block_span(content));
    } else {
      NM_CHECK(percent > 0);
      NM_CHECK(out->stage != NM_STAGE_NONE);
    }
    nm_block_drop(content);
    net_dispose(p.n);
  }
}

/* ---- memory ---- */

/* Sends two segments from a source to a sink and two to memory, while the
 * |at|th allocation from here on fails. Returns how many there were. */
static size_t short_of_memory(nm_test_mem *m, size_t at, nm_block *content) {
  nm_test_mem_init(m);
  pair p = linked(&m->mem, "tcp", accept_all);
  int alive = 0;
  memory_shelf *shelf = new_shelf(nm_block_span(content).len);
  memory_source *source = new_source(content, &alive);
  nm_op_id ops[2] = {0, 0};
  size_t before = m->calls;
  m->fail_at = at == 0 ? 0 : before + at;
  (void)nm_engine_resource_send(p.n->engines[0], p.ends[0], content,
                                text("\xa4name"), NM_RESOURCE_COMPRESS_OFF, 0,
                                &ops[0], p.n->now);
  net_settle(p.n);
  (void)nm_engine_link_shelve(p.n->engines[1], p.ends[1], &shelf->shelf, true,
                              0);
  (void)nm_engine_resource_send_from(
      p.n->engines[0], p.ends[0], &source->source, text("\xa4name"),
      NM_RESOURCE_COMPRESS_OFF, 0, &ops[1], p.n->now);
  nm_source_drop(&source->source);
  net_pass(p.n, 300000000);
  size_t calls = m->calls - before;
  /* What began has ended, once; what was told of is whole. */
  NM_CHECK_INT(net_count(p.n, 0, NM_EVENT_RESOURCE_OUT),
               (ops[0] != 0) + (ops[1] != 0));
  nm_event *in = net_find(p.n, 1, NM_EVENT_RESOURCE_IN);
  if (in != NULL && !in->stored) {
    NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  }
  if (shelf->finished > 0) {
    NM_CHECK_SPAN(nm_span_of(shelf->bytes, shelf->len), nm_block_span(content));
  }
  NM_CHECK_INT(nm_engine_transfer_next(p.n->engines[1], p.ends[1], 0), 0);
  nm_engine_stats stats;
  nm_engine_stats_read(p.n->engines[1], &stats);
  NM_CHECK_INT(stats.resource_memory, 0);
  nm_block_drop(shelf->metadata);
  net_dispose(p.n);
  NM_CHECK_INT(m->live, 0);
  NM_CHECK_INT(alive, 0);
  NM_CHECK_INT(shelf->alive, 0);
  return calls;
}

NM_TEST(every_allocation_of_a_split_resource_may_fail) {
  nm_test_mem m;
  nm_block *content = random_block(SEGMENT + 100);
  size_t calls = short_of_memory(&m, 0, content);
  NM_CHECK(calls > 40);
  for (size_t at = 1; at <= calls; at++) {
    nm_test_context("allocation %zu of %zu", at, calls);
    (void)short_of_memory(&m, at, content);
  }
  nm_block_drop(content);
}

/* ---- what compression depends on ---- */

typedef struct air {
  uint64_t us_per_byte_e3; /* microseconds for a thousand bytes */
  uint64_t free_us[2];
  net *n;
} air;

/* A wire with a rate: one packet after the other in each direction. */
static void paced(void *user, int from, nm_span raw, net_fate *fate) {
  air *a = user;
  uint64_t now = a->n->now.mono_us;
  uint64_t begin = a->free_us[from] > now ? a->free_us[from] : now;
  a->free_us[from] = begin + raw.len * a->us_per_byte_e3 / 1000 + 1;
  fate->copies = 1;
  fate->delay_us[0] = a->free_us[from] - now;
}

/* Whether the last of three segments goes compressed. */
static bool compresses_at(uint64_t us_per_byte_e3) {
  pair p = linked(&nm_mem_system, "tcp", accept_all);
  air a = {.us_per_byte_e3 = us_per_byte_e3, .n = p.n};
  size_t len = 3 * SEGMENT;
  nm_block *content = nm_block_new(&nm_mem_system, len);
  for (size_t i = 0; i < len; i++) {
    nm_block_bytes(content)[i] = (uint8_t)('a' + nm_test_below(8));
  }
  p.n->wires[0].fate = paced;
  p.n->wires[0].user = &a;
  nm_op_id op = send_block(&p, content, nm_span_of(NULL, 0),
                           NM_RESOURCE_COMPRESS_AUTOMATIC);
  nm_transfer_info info = {0};
  bool compressed = false;
  while (nm_engine_transfer_info(p.n->engines[0], op, &info) == NM_OK) {
    compressed = info.segment == 3 ? info.compressed : compressed;
    net_pass(p.n, 2000);
  }
  nm_event *out = net_find(p.n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  nm_block_drop(content);
  net_dispose(p.n);
  return compressed;
}

NM_TEST(automatic_compression_goes_by_the_rate_of_the_link) {
  /* 1 GB a second: compressing would take longer than it saves. */
  NM_CHECK(!compresses_at(1));
  /* 100 MB a second: a zstd frame takes less, which bzip2 would not. */
  NM_CHECK(compresses_at(10));
  /* 1 MB a second, as the first segment measures it. */
  NM_CHECK(compresses_at(1000));
}
