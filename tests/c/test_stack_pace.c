/* The pause that a slow near peer gets between two resources, and between two
 * segments of one. */
#include "engine_net.h"

#include "support.h"

#include <string.h>

static void takes_all(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

static void slow_fate(void *user, int from, nm_span raw, net_fate *fate) {
  (void)from;
  (void)raw;
  fate->copies = 1;
  fate->delay_us[0] = *(const uint64_t *)user;
}

/* Two engines whose wire takes |delay_us| each way, and a link. */
static net *two(uint64_t *delay_us, nm_link_ref *link) {
  net *n = nm_test_scratch(sizeof(net));
  nm_destination_hash hash;
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.box", takes_all, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  *link = net_link(n, 0, &hash);
  NM_CHECK(*link != 0);
  n->wires[0].fate = slow_fate;
  n->wires[0].user = delay_us;
  return n;
}

/* How long two resources take, one queued behind the other. */
static uint64_t time_of_two(net *n, nm_link_ref link) {
  nm_block *content = nm_block_copy(n->mem, nm_span_of("some content", 12));
  uint64_t began = n->now.mono_us;
  for (int i = 0; i < 2; i++) {
    nm_op_id op;
    NM_CHECK_OK(nm_engine_resource_send(
        n->engines[0], link, content, nm_span_of(NULL, 0),
        NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  }
  nm_block_drop(content);
  net_settle(n);
  while (net_count(n, 0, NM_EVENT_RESOURCE_OUT) < 2) {
    NM_CHECK(n->now.mono_us - began < 1000000);
    net_pass(n, 100);
  }
  uint64_t took = n->now.mono_us - began;
  net_forget(n);
  return took;
}

NM_TEST(a_slow_near_peer_gets_a_pause_between_resources) {
  uint64_t delay = 500;
  nm_link_ref link;
  net *n = two(&delay, &link);
  /* Each takes 4 ways; in between 8 answers of 1 ms. */
  uint64_t took = time_of_two(n, link);
  NM_CHECK(took >= 8000 + 8 * 500 && took < 8000 + 8 * 500 + 1000);
  net_dispose(n);
}

NM_TEST(a_fast_peer_and_a_far_one_get_no_pause) {
  uint64_t delay = 100;
  nm_link_ref link;
  net *n = two(&delay, &link);
  NM_CHECK(time_of_two(n, link) < 8 * 100 + 1000);
  net_dispose(n);
  delay = 20000;
  n = two(&delay, &link);
  NM_CHECK(time_of_two(n, link) < 8 * 20000 + 1000);
  net_dispose(n);
}

#define CONTEXT_AT 18
#define RESOURCE_ADV 0x02
#define RESOURCE_PRF 0x05

/* When the first segment's proof left, and when the second was advertised. */
typedef struct hand_over {
  uint64_t delay_us;
  const net *n;
  uint32_t advertised;
  uint64_t proof_us;
  uint64_t next_us;
} hand_over;

static void watch_fate(void *user, int from, nm_span raw, net_fate *fate) {
  hand_over *seen = user;
  uint8_t context = raw.len > CONTEXT_AT ? raw.ptr[CONTEXT_AT] : 0;
  fate->copies = 1;
  fate->delay_us[0] = seen->delay_us;
  if (from == 1 && context == RESOURCE_PRF && seen->proof_us == 0) {
    seen->proof_us = seen->n->now.mono_us;
  }
  if (from == 0 && context == RESOURCE_ADV && ++seen->advertised == 2) {
    seen->next_us = seen->n->now.mono_us;
  }
}

/* From the one to the other, over a wire that takes |delay_us| each way. */
static uint64_t time_between_segments(uint64_t delay_us) {
  uint64_t delay = delay_us;
  nm_link_ref link;
  net *n = two(&delay, &link);
  hand_over seen = {.delay_us = delay_us, .n = n};
  n->wires[0].fate = watch_fate;
  n->wires[0].user = &seen;
  size_t size = NM_RESOURCE_SEGMENT_MAX + 8;
  nm_block *content = nm_block_new(n->mem, size);
  NM_CHECK(content != NULL);
  memset(nm_block_bytes(content), 7, size);
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, nm_span_of(NULL, 0),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  nm_block_drop(content);
  net_settle(n);
  uint64_t began = n->now.mono_us;
  while (net_count(n, 0, NM_EVENT_RESOURCE_OUT) < 1) {
    NM_CHECK(n->now.mono_us - began < 60000000);
    net_pass(n, 100);
  }
  NM_CHECK_INT(seen.advertised, 2);
  net_dispose(n);
  return seen.next_us - seen.proof_us;
}

NM_TEST(a_slow_near_peer_gets_a_pause_between_segments) {
  uint64_t took = time_between_segments(1000);
  NM_CHECK(took >= 1000 + 4 * 2000 && took < 1000 + 4 * 2000 + 1000);
  took = time_between_segments(200); /* the least pause */
  NM_CHECK(took >= 200 + 5000 && took < 200 + 5000 + 1000);
}

NM_TEST(a_fast_peer_and_a_far_one_get_no_pause_between_segments) {
  NM_CHECK(time_between_segments(100) < 100 + 1000);
  NM_CHECK(time_between_segments(20000) < 20000 + 1000);
}
