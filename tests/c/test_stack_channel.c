/* Channels on links: order, proofs, tries, credit, ends. */
#include "channel_duo.h"
#include "stack/buffer.h"

#include "support.h"

#include <string.h>

NM_TEST(a_message_arrives_and_its_proof_ends_the_operation) {
  duo d = duo_join("tcp");
  nm_op_id op = 0;
  uint16_t sequence = 9;
  NM_CHECK_OK(nm_engine_channel_send(d.n->engines[0], d.a, 0x0101,
                                     duo_text("hello"), &op, &sequence,
                                     d.n->now));
  NM_CHECK_INT(sequence, 0);
  NM_CHECK_INT(duo_info(&d, 0).outstanding, 1);
  net_settle(d.n);
  const nm_event *got = duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 0);
  NM_CHECK_OK(got->status);
  NM_CHECK_INT(got->link, d.b);
  NM_CHECK_INT(got->msgtype, 0x0101);
  NM_CHECK_INT(got->sequence, 0);
  NM_CHECK_SPAN(nm_block_span(got->data), duo_text("hello"));
  const nm_event *sent = duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 0);
  NM_CHECK_INT(sent->op, op);
  NM_CHECK_INT(sent->state, NM_RECEIPT_DELIVERED);
  NM_CHECK_INT(sent->tries, 1);
  NM_CHECK_INT(duo_info(&d, 0).outstanding, 0);
  NM_CHECK_INT(duo_info(&d, 1).counters.ordered, 1);
  net_dispose(d.n);
}

/* ---- the window ---- */

NM_TEST(a_full_window_says_no_and_tells_when_it_is_open) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  NM_CHECK_INT(duo_info(&d, 0).room, 0);
  NM_CHECK_STATUS(duo_send(&d, 1, "three", &op), NM_E(LIMIT));
  NM_CHECK(net_find(d.n, 0, NM_EVENT_CHANNEL_READY) == NULL);
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_READY), 1);
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_CHANNEL_READY, 0)->link, d.a);
  NM_CHECK_OK(duo_send(&d, 1, "three", &op));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_READY), 1);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 3);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 3);
  net_dispose(d.n);
}

NM_TEST(what_a_channel_cannot_carry_is_refused) {
  duo d = duo_link("tcp");
  nm_op_id op = 0;
  NM_CHECK_STATUS(duo_send(&d, 1, "closed", &op), NM_E(STATE));
  NM_CHECK_STATUS(nm_engine_channel_open(d.n->engines[0], 999, true, d.n->now),
                  NM_E(MISSING));
  nm_channel_info info;
  NM_CHECK_STATUS(nm_engine_channel_info(d.n->engines[0], d.a, &info),
                  NM_E(MISSING));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_STATUS(duo_send(&d, 0xF000, "reserved", &op), NM_E(RESERVED));
  size_t mdu = duo_info(&d, 0).mdu;
  uint8_t *large = nm_test_scratch(mdu + 1);
  memset(large, 3, mdu + 1);
  NM_CHECK_STATUS(nm_engine_channel_send(d.n->engines[0], d.a, 1,
                                         nm_span_of(large, mdu + 1), &op, NULL,
                                         d.n->now),
                  NM_E(TOO_LARGE));
  NM_CHECK_OK(nm_engine_channel_send(
      d.n->engines[0], d.a, 1, nm_span_of(large, mdu), NULL, NULL, d.n->now));
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[0], &stats);
  NM_CHECK_INT(stats.operations, 0);
  nm_link_info link;
  NM_CHECK_OK(nm_engine_link_info(d.n->engines[0], d.a, &link));
  NM_CHECK(link.channel_open);
  net_dispose(d.n);
}

NM_TEST(the_mdu_follows_the_link) {
  duo small = duo_join("udp");
  duo large = duo_join("tcp");
  nm_link_info link;
  NM_CHECK_OK(nm_engine_link_info(small.n->engines[0], small.a, &link));
  NM_CHECK_INT(duo_info(&small, 0).mdu, link.mdu - 6);
  NM_CHECK_INT(duo_info(&large, 0).mdu, 16297);
  net_dispose(small.n);
  net_dispose(large.n);
}

/* ---- peers ---- */

NM_TEST(a_peer_that_opens_late_gets_everything_in_order) {
  duo d = duo_link("tcp");
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  net_pass(d.n, 500000);
  NM_CHECK_INT(d.n->last_verdict[1].drop, NM_DROP_CHANNEL_CLOSED);
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[1], &stats);
  NM_CHECK_INT(stats.drops[NM_DROP_CHANNEL_CLOSED], 2);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 0);
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[1], d.b, true, d.n->now));
  net_pass(d.n, 2000000);
  NM_CHECK_SPAN(
      nm_block_span(duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 0)->data),
      duo_text("one"));
  NM_CHECK_SPAN(
      nm_block_span(duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 1)->data),
      duo_text("two"));
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 1)->tries, 2);
  net_dispose(d.n);
}

static void with_channels(nm_dest_spec *spec) {
  spec->channels = true;
}

NM_TEST(a_destination_may_open_the_channels_of_its_links) {
  duo d = duo_link_as("tcp", with_channels);
  nm_op_id op;
  NM_CHECK(duo_info(&d, 1).open && duo_info(&d, 1).all_types);
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_OK(duo_send(&d, 1, "at once", &op));
  net_settle(d.n);
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 0)->tries, 1);
  net_dispose(d.n);
}

NM_TEST(a_peer_that_never_proves_ends_the_link_after_five_tries) {
  duo d = duo_link("tcp");
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "anyone?", &op));
  nm_channel_sent ring[1];
  for (int seconds = 0; seconds < 13; seconds++) {
    NM_CHECK(net_find(d.n, 0, NM_EVENT_LINK_CLOSED) == NULL);
    NM_CHECK_INT(nm_engine_channel_sent_ring(d.n->engines[0], d.a, ring, 1), 1);
    net_pass(d.n, 1000000);
  }
  NM_CHECK_INT(ring[0].tries, 5);
  net_pass(d.n, 1000000);
  nm_event *closed = net_find(d.n, 0, NM_EVENT_LINK_CLOSED);
  NM_CHECK(closed != NULL);
  NM_CHECK_INT(closed->close_reason, NM_CLOSE_CHANNEL);
  const nm_event *sent = duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 0);
  NM_CHECK_INT(sent->op, op);
  NM_CHECK_INT(sent->state, NM_RECEIPT_FAILED);
  NM_CHECK_INT(sent->stage, NM_STAGE_LINK);
  NM_CHECK_INT(sent->tries, 5);
  NM_CHECK(net_find(d.n, 1, NM_EVENT_LINK_CLOSED) != NULL);
  NM_CHECK_INT(duo_info(&d, 0).counters.timeouts, 5);
  NM_CHECK(!duo_info(&d, 0).open);
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[1], &stats);
  NM_CHECK_INT(stats.drops[NM_DROP_CHANNEL_CLOSED], 5);
  net_dispose(d.n);
}

NM_TEST(unregistered_types_are_told_and_do_not_stall) {
  duo d = duo_link("tcp");
  nm_op_id op;
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_STATUS(nm_engine_channel_register(d.n->engines[1], d.b, 7),
                  NM_E(STATE));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[1], d.b, false, d.n->now));
  NM_CHECK_OK(nm_engine_channel_register(d.n->engines[1], d.b, 7));
  NM_CHECK_STATUS(nm_engine_channel_register(d.n->engines[1], d.b, 0xFF00),
                  NM_E(RESERVED));
  NM_CHECK_OK(duo_send(&d, 8, "eight", &op));
  NM_CHECK_OK(duo_send(&d, 7, "seven", &op));
  net_settle(d.n);
  const nm_event *first = duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 0);
  NM_CHECK_STATUS(first->status, NM_E(TYPE));
  NM_CHECK_INT(first->msgtype, 8);
  NM_CHECK_OK(duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 1)->status);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 2);
  net_dispose(d.n);
}

NM_TEST(a_closed_link_ends_what_was_being_sent) {
  duo d = duo_join("tcp");
  nm_op_id op;
  nm_op_id write;
  nm_block *block = nm_block_new(&nm_mem_system, 300000);
  memset(nm_block_bytes(block), 1, 300000);
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(nm_engine_stream_write(d.n->engines[0], d.a, 1, block, true,
                                     NM_RESOURCE_COMPRESS_WHEN_SMALLER, &write,
                                     d.n->now));
  nm_block_drop(block);
  NM_CHECK_OK(nm_engine_link_close(d.n->engines[0], d.a, d.n->now));
  net_pass(d.n, 100000);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 1);
  const nm_event *ended = duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0);
  NM_CHECK_INT(ended->op, write);
  NM_CHECK_STATUS(ended->status, NM_E(STATE));
  NM_CHECK_INT(ended->stage, NM_STAGE_LINK);
  NM_CHECK_INT(ended->total_bytes, 300000);
  NM_CHECK_STATUS(duo_send(&d, 1, "two", &op), NM_E(STATE));
  NM_CHECK_INT(duo_info(&d, 0).writes, 0);
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[0], &stats);
  NM_CHECK_INT(stats.operations, 0);
  net_dispose(d.n);
}

NM_TEST(a_cancelled_message_stays_in_the_sequence) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(nm_engine_cancel(d.n->engines[0], op, d.n->now));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  net_settle(d.n);
  NM_CHECK_STATUS(duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 0)->status,
                  NM_E(CANCELLED));
  NM_CHECK_OK(duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 1)->status);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 2);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 2);
  net_dispose(d.n);
}

/* ---- credit ---- */

/* Engine 1 anew, with the channel open and |credit| for what comes on it. */
static duo with_credit(uint32_t credit) {
  duo d = {.n = nm_test_scratch(sizeof(net))};
  nm_destination_hash hash;
  nm_engine_config config;
  nm_iface_spec iface;
  int status;
  NM_CHECK_OK(net_init(d.n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(d.n, 0, 1, "tcp"), 0);
  nm_engine_config_default(&config);
  nm_engine_free(d.n->engines[1]);
  d.n->engines[1] = nm_engine_new(&nm_mem_system, &d.n->sources[1], &config,
                                  d.n->now, &status);
  NM_CHECK_OK(status);
  NM_CHECK_OK(nm_iface_spec_default(&iface, "tcp", "again"));
  NM_CHECK_OK(nm_engine_iface_add(d.n->engines[1], &iface,
                                  &d.n->wires[0].ends[1].iface, d.n->now));
  NM_CHECK_OK(net_listen(d.n, 1, 7, "test.channel", NULL, &hash));
  NM_CHECK_OK(net_announce(d.n, 1, &hash));
  nm_engine_credit(d.n->engines[1], 1 + credit, d.n->now);
  d.a = net_link(d.n, 0, &hash);
  nm_event *active = net_find(d.n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(d.a != 0 && active != NULL);
  d.b = active->link;
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[1], d.b, true, d.n->now));
  return d;
}

NM_TEST(without_credit_a_message_is_not_proven) {
  duo d = with_credit(1);
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 1);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 1);
  NM_CHECK_INT(d.n->last_verdict[1].drop, NM_DROP_NO_CREDIT);
  nm_engine_credit(d.n->engines[1], 1, d.n->now);
  net_pass(d.n, 2000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 2);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 2);
  net_dispose(d.n);
}

static bool lose_first(void *user, int from, nm_span raw) {
  int *left = user;
  (void)raw;
  return from != 0 || (*left)-- != 1;
}

NM_TEST(the_last_credit_is_left_to_the_message_that_is_missing) {
  duo d = with_credit(2);
  nm_op_id op;
  int left = 1;
  /* A window of more than two. */
  NM_CHECK_OK(duo_send(&d, 1, "zero", &op));
  net_settle(d.n);
  nm_engine_credit(d.n->engines[1], 1, d.n->now);
  d.n->wires[0].filter = lose_first;
  d.n->wires[0].user = &left;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  NM_CHECK_OK(duo_send(&d, 1, "three", &op));
  net_settle(d.n);
  NM_CHECK_INT(duo_info(&d, 1).ahead, 1);
  NM_CHECK_INT(duo_info(&d, 1).counters.refused, 1);
  uint16_t ahead = 0;
  NM_CHECK_INT(nm_engine_channel_ahead_ring(d.n->engines[1], d.b, &ahead, 1),
               1);
  NM_CHECK_INT(ahead, 2);
  net_pass(d.n, 1000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 3);
  nm_engine_credit(d.n->engines[1], 1, d.n->now);
  net_pass(d.n, 2000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 4);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 4);
  net_dispose(d.n);
}

NM_TEST(a_paused_channel_takes_nothing_and_loses_nothing) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_STATUS(nm_engine_channel_pause(d.n->engines[1], 999, true),
                  NM_E(STATE));
  NM_CHECK_OK(nm_engine_channel_pause(d.n->engines[1], d.b, true));
  NM_CHECK(duo_info(&d, 1).paused);
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  net_settle(d.n);
  NM_CHECK_INT(d.n->last_verdict[1].drop, NM_DROP_NO_CREDIT);
  NM_CHECK_OK(nm_engine_channel_pause(d.n->engines[1], d.b, false));
  net_pass(d.n, 2000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 1);
  net_dispose(d.n);
}

NM_TEST(a_link_whose_packets_are_paused_has_a_channel_all_the_same) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_pause(d.n->engines[1], d.b, true, false));
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 1);
  net_dispose(d.n);
}

NM_TEST(a_peer_that_is_behind_for_long_is_waited_for) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  net_settle(d.n);
  NM_CHECK_OK(nm_engine_channel_pause(d.n->engines[1], d.b, true));
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  /* Keepalives say that it is there: far beyond five tries. */
  net_pass(d.n, 120000000);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_LINK_CLOSED), 0);
  NM_CHECK_OK(nm_engine_channel_pause(d.n->engines[1], d.b, false));
  net_pass(d.n, 10000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 2);
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, 1)->tries, 5);
  /* One that has gone is not. */
  d.n->wires[0].cut = true;
  NM_CHECK_OK(duo_send(&d, 1, "three", &op));
  net_pass(d.n, 30000000);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_LINK_CLOSED), 1);
  net_dispose(d.n);
}

/* ---- messages that wait for the window ---- */

static int post(duo *d, uint16_t msgtype, const char *what, nm_op_id *op) {
  nm_block *block = nm_block_copy(&nm_mem_system, duo_text(what));
  int status = nm_engine_channel_post(d->n->engines[0], d->a, msgtype, block,
                                      op, d->n->now);
  nm_block_drop(block);
  return status;
}

NM_TEST(posted_messages_wait_in_order_for_the_window) {
  duo d = duo_join("tcp");
  nm_op_id op[20];
  for (uint16_t i = 0; i < 20; i++) {
    NM_CHECK_OK(post(&d, i, "posted", &op[i]));
  }
  NM_CHECK_INT(duo_info(&d, 0).outstanding, 2);
  NM_CHECK_INT(duo_info(&d, 0).waiting, 18);
  /* Nobody overtakes them. */
  nm_op_id late;
  NM_CHECK_STATUS(duo_send(&d, 99, "late", &late), NM_E(LIMIT));
  net_settle(d.n);
  NM_CHECK_INT(duo_info(&d, 0).waiting, 0);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_READY), 1);
  for (int i = 0; i < 20; i++) {
    const nm_event *got = duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, i);
    const nm_event *sent = duo_event(d.n, 0, NM_EVENT_CHANNEL_SENT, i);
    NM_CHECK_INT(got->msgtype, i);
    NM_CHECK_INT(sent->op, op[i]);
    NM_CHECK_INT(sent->sequence, i);
    NM_CHECK(sent->total_bytes >= 2 && sent->total_bytes <= 48);
  }
  net_dispose(d.n);
}

NM_TEST(a_posted_message_that_waits_can_be_taken_back) {
  duo d = duo_join("tcp");
  nm_op_id op[4];
  for (uint16_t i = 0; i < 4; i++) {
    NM_CHECK_OK(post(&d, i, "posted", &op[i]));
  }
  NM_CHECK_OK(nm_engine_cancel(d.n->engines[0], op[3], d.n->now));
  NM_CHECK_OK(nm_engine_cancel(d.n->engines[0], op[2], d.n->now));
  NM_CHECK_INT(duo_info(&d, 0).waiting, 0);
  NM_CHECK_OK(post(&d, 4, "posted", &op[2]));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 3);
  NM_CHECK_INT(duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 2)->msgtype, 4);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_CHANNEL_SENT), 5);
  net_dispose(d.n);
}

NM_TEST(what_waits_ends_with_the_link) {
  duo d = duo_join("tcp");
  nm_op_id op;
  for (uint16_t i = 0; i < NM_CHANNEL_WAITING_MAX + 2; i++) {
    NM_CHECK_OK(post(&d, i, "posted", &op));
  }
  NM_CHECK_STATUS(post(&d, 1, "one too many", &op), NM_E(LIMIT));
  NM_CHECK_STATUS(post(&d, 0xF001, "reserved", &op), NM_E(RESERVED));
  NM_CHECK_OK(nm_engine_link_close(d.n->engines[0], d.a, d.n->now));
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[0], &stats);
  NM_CHECK_INT(stats.operations, 0);
  NM_CHECK_STATUS(post(&d, 1, "closed", &op), NM_E(STATE));
  net_dispose(d.n);
}

NM_TEST(streams_and_posted_messages_take_turns) {
  duo d = duo_join("tcp");
  nm_op_id op;
  nm_block *block = nm_block_new(&nm_mem_system, 400000);
  memset(nm_block_bytes(block), 1, 400000);
  NM_CHECK_OK(nm_engine_stream_write(d.n->engines[0], d.a, 1, block, true,
                                     NM_RESOURCE_COMPRESS_OFF, &op, d.n->now));
  nm_block_drop(block);
  for (uint16_t i = 0; i < 8; i++) {
    NM_CHECK_OK(post(&d, i, "posted", &op));
  }
  net_settle(d.n);
  /* 25 messages of the stream: the eight are not behind all of them. */
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 8);
  NM_CHECK(duo_event(d.n, 1, NM_EVENT_CHANNEL_DATA, 7)->sequence < 20);
  net_dispose(d.n);
}

/* ---- proofs and replays ---- */

typedef struct tape {
  nm_block *packets[64];
  int count;
  int from;
} tape;

static bool record(void *user, int from, nm_span raw) {
  tape *t = user;
  if (from == t->from && t->count < 64) {
    t->packets[t->count++] = nm_block_copy(&nm_mem_system, raw);
  }
  return true;
}

static void drop_tape(tape *t) {
  for (int i = 0; i < t->count; i++) {
    nm_block_drop(t->packets[i]);
  }
}

NM_TEST(a_replayed_message_is_proven_again_and_not_told_again) {
  duo d = duo_join("tcp");
  tape t = {.from = 0};
  nm_op_id op;
  d.n->wires[0].filter = record;
  d.n->wires[0].user = &t;
  NM_CHECK_OK(duo_send(&d, 1, "once", &op));
  net_settle(d.n);
  NM_CHECK_INT(t.count, 1);
  uint64_t before = d.n->packets;
  nm_verdict verdict = net_feed(d.n, 1, d.n->wires[0].ends[1].iface,
                                nm_block_span(t.packets[0]));
  NM_CHECK_INT(verdict.drop, NM_DROP_DUPLICATE);
  net_pass(d.n, 100000);
  NM_CHECK_INT(d.n->packets - before, 1); /* the proof */
  NM_CHECK_INT(d.n->last_verdict[0].drop, NM_DROP_DUPLICATE);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 1);
  drop_tape(&t);
  net_dispose(d.n);
}

NM_TEST(a_forged_proof_ends_nothing) {
  duo d = duo_join("tcp");
  tape t = {.from = 1};
  nm_op_id op;
  d.n->wires[0].filter = record;
  d.n->wires[0].user = &t;
  NM_CHECK_OK(duo_send(&d, 1, "one", &op));
  net_settle(d.n);
  NM_CHECK_INT(t.count, 1);
  /* The proof of the first on the hash of the second, which got lost. */
  d.n->wires[0].cut = true;
  NM_CHECK_OK(duo_send(&d, 1, "two", &op));
  nm_output out;
  NM_CHECK(nm_engine_output(d.n->engines[0], &out));
  nm_packet_hash hash;
  NM_CHECK_OK(nm_packet_digest_raw(nm_block_span(out.packet), &hash, NULL));
  nm_block_drop(out.packet);
  memcpy(nm_block_bytes(t.packets[0]) + NM_HEADER_1_SIZE, hash.b,
         sizeof(hash.b));
  (void)net_feed(d.n, 0, d.n->wires[0].ends[0].iface,
                 nm_block_span(t.packets[0]));
  net_settle(d.n);
  NM_CHECK_INT(duo_info(&d, 0).outstanding, 1);
  nm_engine_stats stats;
  nm_engine_stats_read(d.n->engines[0], &stats);
  NM_CHECK_INT(stats.drops[NM_DROP_PROOF_SIGNATURE], 1);
  drop_tape(&t);
  net_dispose(d.n);
}
