/* Links on media that lose a handshake's last packet, or whose two ends
 * measured different round trips. */
#include "engine_net.h"

#include "support.h"
#include "wire/packet.h"

#include <string.h>

#define SECOND_US 1000000

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static void prove_all(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
}

/* Loses one context, while told to. */
typedef struct sieve {
  uint8_t context;
  bool on;
} sieve;

static bool pass(void *user, int from, nm_span raw) {
  (void)from;
  const sieve *s = user;
  nm_packet packet;
  return !s->on || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
         packet.context != s->context;
}

static net *listening(nm_destination_hash *hash, sieve *s) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "udp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", prove_all, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
  n->wires[0].filter = pass;
  n->wires[0].user = s;
  return n;
}

NM_TEST(a_lost_rtt_packet_does_not_make_a_link_useless) {
  nm_destination_hash hash;
  sieve s = {NM_CONTEXT_LRRTT, true};
  net *n = listening(&hash, &s);
  NM_CHECK_OK(nm_engine_handle(n->engines[1], &hash, text("/ask"), NM_ALLOW_ALL,
                               NULL, 0));
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK(net_find(n, 0, NM_EVENT_LINK_ACTIVE) != NULL);
  NM_CHECK(net_find(n, 1, NM_EVENT_LINK_ACTIVE) == NULL);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("data"), true, 0,
                                  &op, NULL, n->now));
  net_settle(n);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_INT(receipt->state, NM_RECEIPT_DELIVERED);
  /* It was told of the link before its data. */
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  nm_event *data = net_find(n, 1, NM_EVENT_LINK_PACKET);
  NM_CHECK(active != NULL && data != NULL && active < data);
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/ask"),
                                nm_span_of(NULL, 0), 0, 0, &op, n->now));
  net_settle(n);
  NM_CHECK(net_find(n, 1, NM_EVENT_REQUEST) != NULL);
  net_dispose(n);
}

NM_TEST(an_rtt_packet_that_comes_after_data_is_still_believed) {
  nm_destination_hash hash;
  sieve s = {NM_CONTEXT_LRRTT, true};
  net *n = listening(&hash, &s);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_op_id op;
  n->now.mono_us += 50 * SECOND_US;
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("data"), true, 0,
                                  &op, NULL, n->now));
  net_settle(n);
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(active != NULL);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[1], active->link, &info));
  NM_CHECK_INT(info.rtt_us, 1750000);
  s.on = false;
  uint8_t told[9] = {0xcb, 0x3f, 0xd0}; /* 0.25 */
  nm_block *raw = NULL;
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], link, NM_DATA,
                                  NM_CONTEXT_LRRTT, nm_span_of(told, 9), &raw));
  NM_CHECK_INT(
      net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(raw)).drop,
      NM_DROP_NONE);
  nm_block_drop(raw);
  NM_CHECK_OK(nm_engine_link_info(n->engines[1], active->link, &info));
  NM_CHECK_INT(info.rtt_us, 250000);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_LINK_ACTIVE), 1);
  net_dispose(n);
}

NM_TEST(a_responder_with_a_longer_round_trip_still_answers_in_time) {
  nm_destination_hash hash;
  sieve s = {NM_CONTEXT_LRRTT, true};
  net *n = listening(&hash, &s);
  nm_link_ref link = net_link(n, 0, &hash);
  /* The RTT packet is held back: the responder measures ten seconds. */
  uint8_t told[9] = {0xcb, 0x3f, 0x50, 0x62, 0x4d}; /* 0.001 */
  nm_block *raw = NULL;
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], link, NM_DATA,
                                  NM_CONTEXT_LRRTT, nm_span_of(told, 9), &raw));
  net_pass(n, 2 * SECOND_US);
  (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(raw));
  nm_block_drop(raw);
  net_settle(n);
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(active != NULL);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[1], active->link, &info));
  NM_CHECK_INT(info.keepalive_us, 360u * SECOND_US);
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.keepalive_us, 5u * SECOND_US);
  net_pass(n, 3600ull * SECOND_US);
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.state, NM_LINK_ACTIVE);
  net_dispose(n);
}

NM_TEST(a_tuned_initiator_is_answered_at_its_own_pace) {
  nm_destination_hash hash;
  sieve s = {0, false};
  net *n = listening(&hash, &s);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(active != NULL);
  NM_CHECK_OK(
      nm_engine_link_tune(n->engines[1], active->link, 1750000, 0, 0, n->now));
  NM_CHECK_OK(nm_engine_link_tune(n->engines[0], link, 0, SECOND_US,
                                  3 * SECOND_US, n->now));
  net_pass(n, 600ull * SECOND_US);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.state, NM_LINK_ACTIVE);
  net_dispose(n);
}

NM_TEST(the_last_keepalive_before_silence_gets_its_chance) {
  nm_destination_hash hash;
  sieve s = {NM_CONTEXT_KEEPALIVE, true};
  net *n = listening(&hash, &s);
  nm_link_ref link = net_link(n, 0, &hash);
  /* A round trip of which twice the interval, rounded, is less than twice the
   * rounded interval. */
  nm_link_info info;
  uint64_t rtt = 36000;
  do {
    NM_CHECK_OK(nm_engine_link_tune(n->engines[0], link, ++rtt, 0, 0, n->now));
    NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  } while (info.stale_us >= 2 * info.keepalive_us);
  /* Up to just before it turns stale every keepalive is lost. */
  uint64_t quiet = info.stale_us - 1000;
  net_pass(n, quiet);
  s.on = false;
  net_pass(n, 10 * SECOND_US);
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.state, NM_LINK_ACTIVE);
  net_dispose(n);
}
