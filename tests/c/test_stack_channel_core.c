/* The state machine of a channel by itself, without links and engines. */
#include "stack/channel_core.h"

#include "support.h"

#include <string.h>

#define SECOND 1000000ull
#define PACKETS 4096

typedef struct packet {
  uint8_t bytes[64];
  size_t len;
  nm_packet_hash key;
} packet;

/* What a channel did: the packets it sent, the proofs it gave, the messages it
 * delivered. */
typedef struct side {
  nm_channel channel;
  packet sent[PACKETS];
  int sent_count;
  nm_packet_hash proofs[PACKETS];
  int proof_count;
  uint16_t delivered[PACKETS];
  int delivered_count;
  int last_status;
  int discarded;
  int ended;
  int ended_delivered;
  nm_channel_sent last_ended;
  uint32_t next_key;
  uint64_t now_us;
  bool broken;  /* nothing can be sent */
  bool no_room; /* nothing can be accepted */
  bool last_ahead;
} side;

static int on_send(void *user, nm_span envelope, nm_packet_hash *key) {
  side *s = user;
  if (s->broken) {
    return NM_E(LIMIT);
  }
  NM_CHECK(s->sent_count < PACKETS && envelope.len <= 64);
  packet *p = &s->sent[s->sent_count++];
  memset(&p->key, 0, sizeof(p->key));
  memcpy(p->key.b, &s->next_key, sizeof(s->next_key));
  s->next_key++;
  memcpy(p->bytes, envelope.ptr, envelope.len);
  p->len = envelope.len;
  *key = p->key;
  return NM_OK;
}

static void on_prove(void *user, const nm_packet_hash *key) {
  side *s = user;
  NM_CHECK(s->proof_count < PACKETS);
  s->proofs[s->proof_count++] = *key;
}

static nm_drop on_accept(void *user, const nm_channel_envelope *envelope,
                         int status, bool ahead, void **place) {
  side *s = user;
  if (s->no_room) {
    return NM_DROP_NO_CREDIT;
  }
  s->last_status = status;
  s->last_ahead = ahead;
  uint16_t *copy = nm_alloc(&nm_mem_system, sizeof(*copy));
  *copy = envelope->sequence;
  *place = copy;
  return NM_DROP_NONE;
}

static void on_deliver(void *user, void *place) {
  side *s = user;
  NM_CHECK(s->delivered_count < PACKETS);
  s->delivered[s->delivered_count++] = *(uint16_t *)place;
  nm_release(&nm_mem_system, place);
}

static void on_discard(void *user, void *place) {
  side *s = user;
  s->discarded++;
  nm_release(&nm_mem_system, place);
}

static void on_ended(void *user, const nm_channel_sent *sent, bool delivered) {
  side *s = user;
  s->ended++;
  s->ended_delivered += delivered;
  s->last_ended = *sent;
}

static side *opened_with(const nm_mem *mem, uint64_t rtt_us, bool all_types) {
  side *s = nm_test_scratch(sizeof(side));
  memset(s, 0, sizeof(*s));
  s->now_us = 1000000;
  nm_channel_outlet outlet = {
      .user = s,
      .send = on_send,
      .prove = on_prove,
      .accept = on_accept,
      .deliver = on_deliver,
      .discard = on_discard,
      .ended = on_ended,
  };
  nm_channel_init(&s->channel, mem, &outlet, rtt_us, 64, all_types);
  return s;
}

static side *opened(uint64_t rtt_us) {
  return opened_with(&nm_mem_system, rtt_us, true);
}

static int send_one(side *s, uint64_t now_us) {
  nm_span payload = nm_span_of("payload", 7);
  return nm_channel_send(&s->channel, 1, &payload, 1, s, NULL, now_us);
}

/* Receives an envelope of |sequence| in a packet of its own. */
static nm_drop feed(side *s, uint16_t msgtype, uint16_t sequence) {
  uint8_t bytes[16];
  nm_channel_envelope envelope = {.msgtype = msgtype, .sequence = sequence};
  nm_writer w = nm_writer_of(bytes, sizeof(bytes));
  NM_CHECK_OK(nm_channel_encode(&envelope, &w));
  nm_packet_hash key = {{0xFE}};
  memcpy(&key.b[4], &s->next_key, sizeof(s->next_key));
  s->next_key++;
  return nm_channel_receive(&s->channel, &key, nm_writer_done(&w), s->now_us);
}

static bool prove(side *s, int which, uint64_t now_us) {
  return nm_channel_proven(&s->channel, &s->sent[which].key, now_us);
}

/* ---- sending ---- */

NM_TEST(a_channel_takes_its_window_and_no_more) {
  side *s = opened(100000);
  NM_CHECK_INT(nm_channel_room(&s->channel), 2);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_STATUS(send_one(s, 0), NM_E(LIMIT));
  NM_CHECK_INT(s->sent_count, 2);
  NM_CHECK(nm_channel_awaits(&s->channel, &s->sent[1].key));
  NM_CHECK(prove(s, 1, 100000));
  NM_CHECK(!prove(s, 1, 100000));
  NM_CHECK(!nm_channel_awaits(&s->channel, &s->sent[1].key));
  NM_CHECK_INT(s->last_ended.sequence, 1);
  NM_CHECK(s->last_ended.owner == s);
  NM_CHECK_INT(s->channel.window.window, 3);
  NM_CHECK_INT(nm_channel_room(&s->channel), 2);
  nm_channel_close(&s->channel);
  NM_CHECK_INT(s->ended, 2);
  NM_CHECK_INT(s->ended_delivered, 1);
}

NM_TEST(what_cannot_be_sent_uses_no_sequence_number) {
  side *s = opened(100000);
  uint8_t large[64] = {0};
  nm_span parts[2] = {nm_span_of(large, 50), nm_span_of(large, 9)};
  uint16_t sequence = 7;
  NM_CHECK_STATUS(nm_channel_send(&s->channel, 1, parts, 2, NULL, NULL, 0),
                  NM_E(TOO_LARGE));
  NM_CHECK_STATUS(nm_channel_send(&s->channel, 0xF000, parts, 1, NULL, NULL, 0),
                  NM_E(RESERVED));
  s->broken = true;
  NM_CHECK_STATUS(send_one(s, 0), NM_E(LIMIT));
  s->broken = false;
  parts[1].len = 8;
  NM_CHECK_OK(nm_channel_send(&s->channel, NM_CHANNEL_STREAM_DATA, parts, 2,
                              NULL, &sequence, 0));
  NM_CHECK_INT(sequence, 0);
  nm_channel_envelope envelope;
  NM_CHECK_OK(nm_channel_decode(nm_span_of(s->sent[0].bytes, s->sent[0].len),
                                &envelope, NULL));
  NM_CHECK_INT(envelope.payload.len, 58);
  NM_CHECK_INT(envelope.declared, 58);
  nm_channel_close(&s->channel);
  NM_CHECK_STATUS(send_one(s, 0), NM_E(STATE));
}

NM_TEST(windows_move_as_the_wire_says) {
  static const struct {
    uint64_t rtt_us;
    uint32_t window;
    uint32_t max;
  } rows[] = {
      {50000, 48, 48}, {500000, 12, 12}, {1000000, 5, 5}, {1500000, 1, 1}};
  for (size_t i = 0; i < 4; i++) {
    nm_test_context("rtt %d", (int)rows[i].rtt_us);
    side *s = opened(rows[i].rtt_us);
    for (int k = 0; k < 100; k++) {
      NM_CHECK_OK(send_one(s, 0));
      NM_CHECK(prove(s, k, rows[i].rtt_us));
    }
    NM_CHECK_INT(s->channel.window.window, rows[i].window);
    NM_CHECK_INT(s->channel.window.window_max, rows[i].max);
    nm_channel_close(&s->channel);
  }
}

NM_TEST(an_unmeasured_peer_has_at_least_a_second) {
  side *s = opened(1000);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_INT(nm_channel_deadline(&s->channel), SECOND);
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND - 1));
  NM_CHECK_INT(s->sent_count, 1);
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND));
  NM_CHECK_INT(s->sent_count, 2);
  NM_CHECK_BYTES(s->sent[0].bytes, s->sent[1].bytes, s->sent[0].len);
  /* The first packet's proof counts as well as the second's. */
  NM_CHECK(prove(s, 0, SECOND + 1));
  NM_CHECK_INT(s->last_ended.tries, 2);
  nm_channel_close(&s->channel);
}

NM_TEST(tries_last_as_long_as_the_wire_says) {
  side *s = opened(SECOND);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_INT(nm_channel_deadline(&s->channel), 6250000);
  /* With a second message under way both last longer. */
  NM_CHECK_OK(send_one(s, 1000));
  nm_channel_sent ring[2];
  NM_CHECK_INT(nm_channel_sent_ring(&s->channel, ring, 2), 2);
  NM_CHECK_INT(ring[0].due_us, 8750000);
  NM_CHECK_INT(ring[1].due_us, 8751000);
  NM_CHECK_INT(ring[1].sequence, 1);
  NM_CHECK_INT(ring[1].bytes, 7);
  NM_CHECK_INT(nm_channel_sent_ring(&s->channel, ring, 0), 2);
  NM_CHECK_INT(nm_channel_try_us(&s->channel, 3), 19687500);
  nm_channel_close(&s->channel);
}

NM_TEST(a_channel_dies_after_five_tries) {
  side *s = opened(400000);
  NM_CHECK_OK(send_one(s, 0));
  uint64_t at = 0;
  for (int tries = 1; tries < 5; tries++) {
    at = nm_channel_deadline(&s->channel);
    NM_CHECK_INT(s->sent_count, tries);
    NM_CHECK_OK(nm_channel_tick(&s->channel, at));
  }
  at = nm_channel_deadline(&s->channel);
  NM_CHECK_STATUS(nm_channel_tick(&s->channel, at), NM_E(TIMEOUT));
  NM_CHECK_INT(s->sent_count, 5);
  /* 2.5 s, times 1.5 for each further try. */
  NM_CHECK_INT(at, 2500000 + 3750000 + 5625000 + 8437500 + 12656250);
  NM_CHECK_INT(s->channel.counters.timeouts, 5);
  nm_channel_close(&s->channel);
}

NM_TEST(a_measured_peer_is_asked_again_sooner) {
  side *s = opened(100000);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK(prove(s, 0, 100000));
  NM_CHECK_INT(s->channel.proof_rtt_us, 100000);
  NM_CHECK_INT(s->channel.proof_var_us, 50000);
  NM_CHECK_OK(send_one(s, SECOND));
  uint64_t early = SECOND + 300000;
  NM_CHECK_INT(nm_channel_deadline(&s->channel), early);
  NM_CHECK_OK(nm_channel_tick(&s->channel, early));
  NM_CHECK_INT(s->sent_count, 3);
  NM_CHECK_INT(nm_channel_deadline(&s->channel), early + 600000);
  /* It was the same try. */
  NM_CHECK(prove(s, 2, early + 100000));
  NM_CHECK_INT(s->last_ended.tries, 1);
  NM_CHECK_INT(s->last_ended.sendings, 2);
  NM_CHECK_INT(s->channel.counters.repeated, 1);
  NM_CHECK_INT(s->channel.counters.timeouts, 0);
  nm_channel_close(&s->channel);
}

/* Proofs that are late for the whole window cost one packet, not the window. */
NM_TEST(one_message_asks_whether_all_are_late) {
  side *s = opened(100000);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK(prove(s, 0, 100000));
  for (int i = 0; i < 3; i++) {
    NM_CHECK_OK(send_one(s, SECOND));
  }
  NM_CHECK_INT(nm_channel_deadline(&s->channel), SECOND + 300000);
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND + 300000));
  NM_CHECK_INT(s->sent_count, 5); /* the oldest of them, again */
  NM_CHECK_INT(nm_channel_deadline(&s->channel), SECOND + 900000);
  /* The last is proven: the one in the middle was overtaken. */
  NM_CHECK(prove(s, 3, SECOND + 310000));
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND + 310000));
  NM_CHECK_INT(s->sent_count, 5);
  uint64_t due = nm_channel_deadline(&s->channel);
  NM_CHECK(due < SECOND + 600000);
  NM_CHECK_OK(nm_channel_tick(&s->channel, due));
  NM_CHECK_INT(s->sent_count, 6);
  NM_CHECK(prove(s, 4, due + 50000));
  NM_CHECK(prove(s, 5, due + 50000));
  NM_CHECK_INT(s->channel.counters.repeated, 2);
  NM_CHECK_INT(s->channel.out_count, 0);
  nm_channel_close(&s->channel);
}

/* If nothing is proven at all, they are repeated too, later. */
NM_TEST(what_is_late_for_long_is_repeated_as_well) {
  side *s = opened(1000000);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK(prove(s, 0, 100000));
  NM_CHECK_OK(send_one(s, SECOND));
  NM_CHECK_OK(send_one(s, SECOND));
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND + 300000));
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND + 900000));
  NM_CHECK_INT(s->sent_count, 5); /* the oldest, twice */
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND + 1200000));
  NM_CHECK_INT(s->sent_count, 6);
  nm_channel_close(&s->channel);
}

NM_TEST(nothing_is_sent_48_ahead_of_what_is_missing) {
  side *s = opened(10000);
  for (int i = 0; i < 100; i++) {
    NM_CHECK_OK(send_one(s, 0));
    NM_CHECK(prove(s, i, 1000));
  }
  NM_CHECK_INT(s->channel.window.window, 48);
  /* The first of these is never proven, all others are. */
  NM_CHECK_OK(send_one(s, 0));
  int more = 0;
  while (send_one(s, 0) == NM_OK) {
    NM_CHECK(prove(s, 101 + more, 1000));
    more++;
  }
  NM_CHECK_INT(more, 47);
  NM_CHECK_INT(nm_channel_room(&s->channel), 0);
  NM_CHECK(prove(s, 100, 2000));
  NM_CHECK_INT(nm_channel_room(&s->channel), 48);
  nm_channel_close(&s->channel);
}

NM_TEST(a_resend_that_cannot_leave_is_tried_again) {
  side *s = opened(1000);
  NM_CHECK_OK(send_one(s, 0));
  s->broken = true;
  NM_CHECK_OK(nm_channel_tick(&s->channel, SECOND));
  s->broken = false;
  NM_CHECK_INT(s->sent_count, 1);
  NM_CHECK_OK(nm_channel_tick(&s->channel, nm_channel_deadline(&s->channel)));
  NM_CHECK_INT(s->sent_count, 2);
  nm_channel_close(&s->channel);
}

/* ---- receiving ---- */

NM_TEST(messages_are_delivered_in_order_and_once) {
  side *s = opened(1000);
  NM_CHECK_INT(feed(s, 1, 2), NM_DROP_NONE);
  NM_CHECK(s->last_ahead);
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_NONE);
  NM_CHECK_INT(s->delivered_count, 0);
  uint16_t ahead[4];
  NM_CHECK_INT(nm_channel_ahead_ring(&s->channel, ahead, 4), 2);
  NM_CHECK_INT(ahead[0], 1);
  NM_CHECK_INT(ahead[1], 2);
  NM_CHECK_INT(feed(s, 1, 2), NM_DROP_DUPLICATE);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_NONE);
  NM_CHECK(!s->last_ahead);
  NM_CHECK_INT(s->delivered_count, 3);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_DUPLICATE);
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_DUPLICATE);
  NM_CHECK_INT(s->delivered_count, 3);
  NM_CHECK_INT(s->proof_count, 6); /* duplicates are proven again */
  for (int i = 0; i < 3; i++) {
    NM_CHECK_INT(s->delivered[i], i);
  }
  nm_channel_close(&s->channel);
}

NM_TEST(what_is_too_far_ahead_is_not_proven) {
  side *s = opened(1000);
  NM_CHECK_INT(feed(s, 1, 49), NM_DROP_CHANNEL_WINDOW);
  NM_CHECK_INT(feed(s, 1, 30000), NM_DROP_CHANNEL_WINDOW);
  NM_CHECK_INT(s->proof_count, 0);
  for (uint16_t i = 48; i >= 1; i--) {
    NM_CHECK_INT(feed(s, 1, i), NM_DROP_NONE);
  }
  NM_CHECK_INT(s->channel.in_count, 48);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_NONE);
  NM_CHECK_INT(s->delivered_count, 49);
  NM_CHECK_INT(s->channel.counters.beyond, 2);
  nm_channel_close(&s->channel);
}

NM_TEST(the_whole_run_is_delivered_across_the_wrap) {
  side *s = opened(1000);
  s->channel.next_rx = 65530;
  for (int i = 20; i >= 1; i--) {
    NM_CHECK_INT(feed(s, 1, (uint16_t)(65530 + i)), NM_DROP_NONE);
  }
  NM_CHECK_INT(feed(s, 1, 65530), NM_DROP_NONE);
  NM_CHECK_INT(s->delivered_count, 21);
  for (int i = 0; i <= 20; i++) {
    NM_CHECK_INT(s->delivered[i], (uint16_t)(65530 + i));
  }
  NM_CHECK_INT(s->channel.next_rx, 15);
  NM_CHECK_INT(feed(s, 1, 65535), NM_DROP_DUPLICATE);
  nm_channel_close(&s->channel);
}

NM_TEST(without_room_a_message_is_neither_proven_nor_lost) {
  side *s = opened(1000);
  s->no_room = true;
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_NO_CREDIT);
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_NO_CREDIT);
  NM_CHECK_INT(s->proof_count, 0);
  NM_CHECK_INT(s->channel.in_count, 0);
  s->no_room = false;
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_NONE);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_NONE);
  NM_CHECK_INT(s->delivered_count, 2);
  NM_CHECK_INT(s->channel.counters.refused, 2);
  nm_channel_close(&s->channel);
}

NM_TEST(unregistered_types_are_errors_that_hold_nothing_up) {
  side *s = opened_with(&nm_mem_system, 1000, false);
  NM_CHECK_STATUS(nm_channel_register(&s->channel, 0xF000), NM_E(RESERVED));
  NM_CHECK_STATUS(nm_channel_register(&s->channel, NM_CHANNEL_STREAM_DATA),
                  NM_E(RESERVED));
  NM_CHECK_OK(nm_channel_register(&s->channel, 0xEFFF));
  NM_CHECK_OK(nm_channel_register(&s->channel, 3));
  NM_CHECK_OK(nm_channel_register(&s->channel, 3));
  NM_CHECK_INT(s->channel.type_count, 2);
  static const struct {
    uint16_t msgtype;
    int status;
  } rows[] = {{3, NM_OK},
              {4, NM_E(TYPE)},
              {0xEFFF, NM_OK},
              {0xF001, NM_E(RESERVED)},
              {NM_CHANNEL_STREAM_DATA, NM_OK}};
  for (uint16_t i = 0; i < 5; i++) {
    NM_CHECK_INT(feed(s, rows[i].msgtype, i), NM_DROP_NONE);
    NM_CHECK_STATUS(s->last_status, rows[i].status);
  }
  NM_CHECK_INT(s->delivered_count, 5);
  NM_CHECK_INT(s->proof_count, 5);
  NM_CHECK_INT(s->channel.counters.unregistered, 2);
  for (uint32_t i = 0; i < 1022; i++) {
    NM_CHECK_OK(nm_channel_register(&s->channel, (uint16_t)(2000 - i)));
  }
  NM_CHECK_STATUS(nm_channel_register(&s->channel, 9000), NM_E(LIMIT));
  NM_CHECK(nm_channel_registered(&s->channel, 1500));
  NM_CHECK(!nm_channel_registered(&s->channel, 9000));
  nm_channel_close(&s->channel);
}

NM_TEST(a_peer_that_repeats_what_was_proven_gets_its_proofs_late) {
  side *s = opened(1000);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_NONE);
  NM_CHECK_INT(s->proof_count, 1);
  NM_CHECK(nm_channel_deadline(&s->channel) == UINT64_MAX);
  /* Each repetition makes them later, up to a limit. */
  uint64_t expected[] = {2000, 4000, 8000, 16000, 16000};
  for (int i = 0; i < 5; i++) {
    s->now_us += 200000;
    NM_CHECK_INT(feed(s, 1, 0), NM_DROP_DUPLICATE);
    NM_CHECK_INT(s->proof_count, 1 + i);
    NM_CHECK_INT(nm_channel_deadline(&s->channel), s->now_us + expected[i]);
    NM_CHECK_OK(nm_channel_tick(&s->channel, s->now_us + expected[i] - 1));
    NM_CHECK_INT(s->proof_count, 1 + i);
    NM_CHECK_OK(nm_channel_tick(&s->channel, s->now_us + expected[i]));
    NM_CHECK_INT(s->proof_count, 2 + i);
  }
  /* New messages too, in the order of their coming, until all is well. */
  s->proof_count = 0;
  for (uint16_t i = 1; i <= 1024; i++) {
    NM_CHECK_INT(feed(s, 1, i), NM_DROP_NONE);
    s->now_us += 1000;
    NM_CHECK_OK(nm_channel_tick(&s->channel, s->now_us));
    s->delivered_count = 0;
    s->proof_count = s->proof_count > 500 ? 0 : s->proof_count;
  }
  s->proof_count = 0;
  NM_CHECK_OK(nm_channel_tick(&s->channel, s->now_us + 16000));
  s->proof_count = 0;
  NM_CHECK_INT(feed(s, 1, 1025), NM_DROP_NONE);
  NM_CHECK_INT(s->proof_count, 1);
  nm_channel_close(&s->channel);
}

NM_TEST(late_proofs_are_bounded_and_end_with_the_channel) {
  side *s = opened(1000);
  for (uint16_t i = 0; i < 8; i++) {
    NM_CHECK_INT(feed(s, 1, i), NM_DROP_NONE);
  }
  s->now_us += 149999; /* it met its proof on the way */
  NM_CHECK_INT(feed(s, 1, 3), NM_DROP_DUPLICATE);
  NM_CHECK_INT(s->proof_count, 9);
  s->now_us++;
  for (int i = 0; i < NM_CHANNEL_LATE_MAX + 10; i++) {
    NM_CHECK_INT(feed(s, 1, 3), NM_DROP_DUPLICATE);
  }
  NM_CHECK_INT(s->channel.late_count, NM_CHANNEL_LATE_MAX);
  NM_CHECK_INT(s->proof_count, 9 + 10);
  nm_channel_close(&s->channel);
  NM_CHECK(nm_channel_deadline(&s->channel) == UINT64_MAX);
  NM_CHECK_OK(nm_channel_tick(&s->channel, UINT64_MAX / 2));
  NM_CHECK_INT(s->proof_count, 9 + 10);
}

NM_TEST(an_envelope_that_is_too_short_is_not_proven) {
  side *s = opened(1000);
  nm_packet_hash key = {{1}};
  for (size_t len = 0; len < NM_CHANNEL_HEADER_SIZE; len++) {
    NM_CHECK_INT(
        nm_channel_receive(&s->channel, &key, nm_span_of("\0\0\0\0\0", len), 0),
        NM_DROP_LINK_PAYLOAD);
  }
  NM_CHECK_INT(s->proof_count, 0);
  nm_channel_close(&s->channel);
}

NM_TEST(a_closed_channel_gives_everything_back) {
  side *s = opened(1000);
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_INT(feed(s, 1, 3), NM_DROP_NONE);
  NM_CHECK_INT(feed(s, 1, 5), NM_DROP_NONE);
  nm_channel_close(&s->channel);
  nm_channel_close(&s->channel);
  NM_CHECK_INT(s->discarded, 2);
  NM_CHECK_INT(s->ended, 1);
  NM_CHECK_INT(feed(s, 1, 0), NM_DROP_CHANNEL_CLOSED);
  NM_CHECK_INT(nm_channel_deadline(&s->channel), UINT64_MAX);
  NM_CHECK_INT(nm_channel_room(&s->channel), 0);
  NM_CHECK_INT(s->channel.counters.received, 2);
}

NM_TEST(a_channel_without_memory_refuses_and_goes_on) {
  nm_test_mem m;
  nm_test_mem_init(&m);
  side *s = opened_with(&m.mem, 1000, false);
  m.fail_from = 1;
  NM_CHECK_STATUS(send_one(s, 0), NM_E(MEMORY));
  NM_CHECK_STATUS(nm_channel_register(&s->channel, 1), NM_E(MEMORY));
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_NO_MEMORY);
  NM_CHECK_INT(s->proof_count, 0);
  m.fail_from = 0;
  NM_CHECK_OK(send_one(s, 0));
  NM_CHECK_OK(nm_channel_register(&s->channel, 1));
  NM_CHECK_INT(feed(s, 1, 1), NM_DROP_NONE);
  nm_channel_close(&s->channel);
  NM_CHECK_INT(m.live, 0);
}

/* Two channels whose packets and proofs are lost, doubled and mixed up. */
NM_TEST(two_channels_agree_over_any_medium) {
  side *a = opened(20000);
  side *b = opened(20000);
  a->channel.next_tx = 65000;
  b->channel.next_rx = 65000;
  uint64_t now = 0;
  int given = 0;
  int packets = 0;
  int proofs = 0;
  while (a->ended < 1200) {
    while (given < 1200 && send_one(a, now) == NM_OK) {
      given++;
    }
    while (packets < a->sent_count) {
      /* One of the last few, so that some come late and some twice. */
      int back = (int)nm_test_below(4);
      const packet *p = &a->sent[packets >= back ? packets - back : packets];
      if (nm_test_below(10) != 0) {
        (void)nm_channel_receive(&b->channel, &p->key,
                                 nm_span_of(p->bytes, p->len), now);
      }
      packets++;
    }
    for (; proofs < b->proof_count; proofs++) {
      if (nm_test_below(10) != 0) {
        (void)nm_channel_proven(&a->channel, &b->proofs[proofs], now + 20000);
      }
    }
    a->sent_count = 0;
    b->proof_count = 0;
    packets = 0;
    proofs = 0;
    now += 20000;
    NM_CHECK_OK(nm_channel_tick(&a->channel, now));
    NM_CHECK_OK(nm_channel_tick(&b->channel, now));
  }
  NM_CHECK_INT(b->delivered_count, 1200);
  for (int i = 0; i < 1200; i++) {
    NM_CHECK_INT(b->delivered[i], (uint16_t)(65000 + i));
  }
  NM_CHECK_INT(a->ended_delivered, 1200);
  nm_channel_close(&a->channel);
  nm_channel_close(&b->channel);
}
