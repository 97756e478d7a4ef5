/* Streams over channels: order, turns, ends, compression, loss. */
#include "channel_duo.h"

#include "stack/channel_link.h"
#include "support.h"

#include <string.h>

NM_TEST(a_stream_carries_bytes_in_order_up_to_its_end) {
  duo d = duo_join("tcp");
  uint8_t bytes[50000];
  nm_test_random_bytes(bytes, sizeof(bytes));
  duo_check_stream(&d, nm_span_of(bytes, sizeof(bytes)));
  net_dispose(d.n);
}

/* The bytes of |stream| that engine 1 was told so far, and whether it ended. */
static nm_span heard(const duo *d, uint16_t stream, bool *ended) {
  size_t len = 0;
  uint8_t *out = nm_test_scratch(1 << 20);
  *ended = false;
  for (int k = 0; k < d->n->event_count[1]; k++) {
    const nm_event *event = &d->n->events[1][k];
    if (event->kind == NM_EVENT_STREAM_DATA && event->stream == stream) {
      nm_span data = nm_block_span(event->data);
      NM_CHECK_OK(event->status);
      NM_CHECK(!*ended && len + data.len <= 1 << 20);
      if (data.len > 0) {
        memcpy(out + len, data.ptr, data.len);
      }
      len += data.len;
      *ended = event->eof;
    }
  }
  return nm_span_of(out, len);
}

static int write_to_b(duo *d, uint16_t stream, nm_span bytes, bool eof,
                      nm_resource_compression compression, nm_op_id *op) {
  nm_block *block = nm_block_copy(&nm_mem_system, bytes);
  int status = nm_engine_stream_write(d->n->engines[0], d->a, stream, block,
                                      eof, compression, op, d->n->now);
  nm_block_drop(block);
  return status;
}

NM_TEST(streams_take_turns_and_end_each_for_itself) {
  duo d = duo_join("tcp");
  nm_op_id op;
  bool ended;
  uint8_t bytes[100000];
  nm_test_random_bytes(bytes, sizeof(bytes));
  nm_span all = nm_span_of(bytes, sizeof(bytes));
  NM_CHECK_OK(write_to_b(&d, 1, all, false, NM_RESOURCE_COMPRESS_OFF, &op));
  NM_CHECK_OK(write_to_b(&d, 2, duo_text("short"), true,
                         NM_RESOURCE_COMPRESS_OFF, &op));
  NM_CHECK_OK(write_to_b(&d, 1, duo_text("more"), false,
                         NM_RESOURCE_COMPRESS_OFF, &op));
  NM_CHECK_INT(duo_info(&d, 0).streams, 2);
  NM_CHECK_INT(duo_info(&d, 0).writes, 3);
  net_settle(d.n);
  /* The short one did not wait for the end of the long one. */
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0)->stream, 2);
  NM_CHECK_SPAN(heard(&d, 2, &ended), duo_text("short"));
  NM_CHECK(ended);
  nm_span got = heard(&d, 1, &ended);
  NM_CHECK(!ended);
  NM_CHECK_INT(got.len, 100004);
  NM_CHECK_SPAN(nm_span_slice(got, 0, 100000), all);
  NM_CHECK_SPAN(nm_span_slice(got, 100000, 4), duo_text("more"));
  NM_CHECK_STATUS(
      write_to_b(&d, 2, duo_text("x"), false, NM_RESOURCE_COMPRESS_OFF, &op),
      NM_E(STATE));
  NM_CHECK_STATUS(write_to_b(&d, 0x4000, duo_text("x"), true,
                             NM_RESOURCE_COMPRESS_OFF, &op),
                  NM_E(RANGE));
  /* An end alone; the other direction is still open. */
  NM_CHECK_OK(nm_engine_stream_write(d.n->engines[0], d.a, 1, NULL, true,
                                     NM_RESOURCE_COMPRESS_OFF, &op, d.n->now));
  nm_block *back = nm_block_copy(&nm_mem_system, duo_text("back"));
  NM_CHECK_OK(nm_engine_stream_write(d.n->engines[1], d.b, 1, back, false,
                                     NM_RESOURCE_COMPRESS_OFF, NULL, d.n->now));
  nm_block_drop(back);
  net_settle(d.n);
  (void)heard(&d, 1, &ended);
  NM_CHECK(ended);
  NM_CHECK_SPAN(nm_block_span(duo_event(d.n, 0, NM_EVENT_STREAM_DATA, 0)->data),
                duo_text("back"));
  NM_CHECK_INT(duo_info(&d, 0).writes, 0);
  net_dispose(d.n);
}

NM_TEST(an_empty_write_ends_at_once) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(write_to_b(&d, 1, nm_span_of(NULL, 0), false,
                         NM_RESOURCE_COMPRESS_OFF, &op));
  net_settle(d.n);
  NM_CHECK_OK(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0)->status);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_STREAM_DATA), 0);
  net_dispose(d.n);
}

NM_TEST(a_writer_reports_each_message_it_makes) {
  duo d = duo_join("tcp");
  nm_op_id op;
  uint8_t bytes[20000];
  nm_test_random_bytes(bytes, sizeof(bytes));
  NM_CHECK_OK(nm_engine_stream_reports(d.n->engines[0], d.a, true));
  NM_CHECK_OK(write_to_b(&d, 3, nm_span_of(bytes, sizeof(bytes)), true,
                         NM_RESOURCE_COMPRESS_OFF, &op));
  net_settle(d.n);
  const nm_event *first = duo_event(d.n, 0, NM_EVENT_STREAM_MADE, 0);
  NM_CHECK_INT(first->op, op);
  NM_CHECK_INT(first->done_bytes, 16295);
  NM_CHECK_INT(first->wire_bytes, 16297);
  NM_CHECK(!first->eof && !first->compressed);
  const nm_event *second = duo_event(d.n, 0, NM_EVENT_STREAM_MADE, 1);
  NM_CHECK_INT(second->done_bytes, 20000 - 16295);
  NM_CHECK_INT(second->sequence, 1);
  NM_CHECK(second->eof);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_STREAM_MADE), 2);
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0)->wire_bytes, 20004);
  net_dispose(d.n);
}

/* Words, so that bzip2 has something to do. */
static nm_span prose(size_t len) {
  uint8_t *out = nm_test_scratch(len);
  for (size_t i = 0; i < len; i++) {
    out[i] = (uint8_t) "the quick brown fox jumps over the lazy dog "[i % 44];
  }
  return nm_span_of(out, len);
}

NM_TEST(compressible_bytes_are_compressed_by_a_job) {
  duo d = duo_join("udp");
  nm_op_id op;
  bool ended;
  nm_span bytes = prose(60000);
  duo_weather w = {.delay_us = 25000};
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  NM_CHECK_OK(nm_engine_link_tune(d.n->engines[0], d.a, 50000, 0, 0, d.n->now));
  NM_CHECK_OK(nm_engine_stream_reports(d.n->engines[0], d.a, true));
  NM_CHECK_OK(
      write_to_b(&d, 3, bytes, true, NM_RESOURCE_COMPRESS_AUTOMATIC, &op));
  net_pass(d.n, 10000000);
  NM_CHECK_SPAN(heard(&d, 3, &ended), bytes);
  NM_CHECK(ended);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_STREAM_MADE), 4);
  const nm_event *made = duo_event(d.n, 0, NM_EVENT_STREAM_MADE, 0);
  NM_CHECK(made->compressed);
  NM_CHECK_INT(made->done_bytes, 16384);
  NM_CHECK(duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 0)->compressed);
  NM_CHECK_INT(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0)->done_bytes, 60000);
  net_dispose(d.n);
}

NM_TEST(noise_is_tried_less_and_less_often) {
  duo d = duo_join("udp");
  nm_op_id op;
  bool ended;
  /* Looks like text to the sample, and does not shrink into a message. */
  uint8_t bytes[60000];
  for (size_t i = 0; i < sizeof(bytes); i++) {
    bytes[i] = (uint8_t)('a' + nm_test_below(16));
  }
  nm_engine_stats stats;
  duo_weather w = {.delay_us = 25000};
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  NM_CHECK_OK(nm_engine_link_tune(d.n->engines[0], d.a, 50000, 0, 0, d.n->now));
  nm_engine_stats_read(d.n->engines[0], &stats);
  uint64_t before = stats.jobs_emitted;
  NM_CHECK_OK(write_to_b(&d, 3, nm_span_of(bytes, sizeof(bytes)), true,
                         NM_RESOURCE_COMPRESS_AUTOMATIC, &op));
  net_pass(d.n, 10000000);
  NM_CHECK_INT(heard(&d, 3, &ended).len, sizeof(bytes));
  nm_engine_stats_read(d.n->engines[0], &stats);
  uint64_t messages = duo_info(&d, 0).counters.sent;
  uint64_t trials = stats.jobs_emitted - before - messages;
  NM_CHECK(messages > 50 && trials >= 1 && trials < 8);
  net_dispose(d.n);
}

/* Hands a channel message with |payload| to engine 1 as if 0 had sent it. */
static nm_verdict forge(duo *d, uint16_t sequence, nm_span payload) {
  nm_channel_envelope envelope = {.msgtype = NM_CHANNEL_STREAM_DATA,
                                  .sequence = sequence,
                                  .payload = payload};
  uint8_t bytes[600];
  nm_writer w = nm_writer_of(bytes, sizeof(bytes));
  NM_CHECK_OK(nm_channel_encode(&envelope, &w));
  nm_block *raw = NULL;
  NM_CHECK_OK(nm_engine_link_seal(d->n->engines[0], d->a, NM_DATA,
                                  NM_CONTEXT_CHANNEL, nm_writer_done(&w),
                                  &raw));
  nm_verdict verdict =
      net_feed(d->n, 1, d->n->wires[0].ends[1].iface, nm_block_span(raw));
  nm_block_drop(raw);
  return verdict;
}

static nm_span packed(nm_span bytes, bool eof) {
  uint8_t *out = nm_test_scratch(600);
  nm_writer w = nm_writer_of(out, 600);
  nm_stream_written written;
  NM_CHECK_OK(
      nm_stream_write(3, bytes, eof, 500, &nm_mem_system, &w, &written));
  NM_CHECK(written.compressed);
  return nm_writer_done(&w);
}

NM_TEST(broken_compression_is_told_by_name) {
  duo d = duo_join("tcp");
  NM_CHECK_INT(forge(&d, 0, nm_test_unhex("4003425a6839ffff")).drop,
               NM_DROP_NONE);
  NM_CHECK_INT(forge(&d, 1, nm_test_unhex("00")).drop, NM_DROP_NONE);
  NM_CHECK_INT(forge(&d, 2, nm_test_unhex("800361")).drop, NM_DROP_NONE);
  net_settle(d.n);
  const nm_event *broken = duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 0);
  NM_CHECK_STATUS(broken->status, NM_E(COMPRESSED));
  NM_CHECK_INT(broken->stream, 3);
  NM_CHECK(broken->data == NULL);
  NM_CHECK_STATUS(duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 1)->status,
                  NM_E(TRUNCATED));
  const nm_event *good = duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 2);
  NM_CHECK(good->eof && good->status == NM_OK);
  net_dispose(d.n);
}

NM_TEST(what_follows_an_inflation_waits_for_it) {
  duo d = duo_join("tcp");
  nm_span words = prose(3000);
  NM_CHECK_INT(forge(&d, 1, nm_test_unhex("000462")).drop, NM_DROP_NONE);
  NM_CHECK_INT(forge(&d, 0, packed(words, false)).drop, NM_DROP_NONE);
  nm_event event;
  NM_CHECK(!nm_engine_event(d.n->engines[1], &event));
  net_settle(d.n);
  NM_CHECK_SPAN(nm_block_span(duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 0)->data),
                words);
  NM_CHECK_INT(duo_event(d.n, 1, NM_EVENT_STREAM_DATA, 1)->stream, 4);
  net_dispose(d.n);
}

NM_TEST(what_was_proven_is_told_before_the_link_closes) {
  duo d = duo_join("tcp");
  nm_span words = prose(3000);
  /* The jobs are still waiting when the link ends. */
  NM_CHECK_INT(forge(&d, 0, packed(words, true)).drop, NM_DROP_NONE);
  NM_CHECK_INT(forge(&d, 2, packed(words, true)).drop, NM_DROP_NONE);
  NM_CHECK_OK(nm_engine_link_close(d.n->engines[1], d.b, d.n->now));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_STREAM_DATA), 1);
  NM_CHECK_INT(d.n->events[1][0].kind, NM_EVENT_STREAM_DATA);
  NM_CHECK_SPAN(nm_block_span(d.n->events[1][0].data), words);
  NM_CHECK_INT(d.n->events[1][1].kind, NM_EVENT_LINK_CLOSED);
  net_dispose(d.n);
}

NM_TEST(a_cancelled_write_makes_no_more_messages) {
  duo d = duo_join("tcp");
  nm_op_id op;
  nm_op_id next;
  bool ended;
  nm_span words = prose(300000);
  NM_CHECK_OK(write_to_b(&d, 1, words, true, NM_RESOURCE_COMPRESS_OFF, &op));
  NM_CHECK_OK(nm_engine_cancel(d.n->engines[0], op, d.n->now));
  /* The stream did not end. */
  NM_CHECK_OK(write_to_b(&d, 1, duo_text("rest"), true,
                         NM_RESOURCE_COMPRESS_OFF, &next));
  net_settle(d.n);
  const nm_event *sent = duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0);
  NM_CHECK_INT(sent->op, op);
  NM_CHECK_STATUS(sent->status, NM_E(CANCELLED));
  NM_CHECK_OK(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 1)->status);
  nm_span got = heard(&d, 1, &ended);
  NM_CHECK(ended);
  NM_CHECK_INT(got.len, 2 * 16295 + 4);
  NM_CHECK_SPAN(nm_span_slice(got, 2 * 16295, 4), duo_text("rest"));
  /* One whose first message is with a job. */
  NM_CHECK_OK(
      write_to_b(&d, 2, words, false, NM_RESOURCE_COMPRESS_WHEN_SMALLER, &op));
  NM_CHECK_OK(nm_engine_cancel(d.n->engines[0], op, d.n->now));
  NM_CHECK_OK(write_to_b(&d, 2, duo_text("only"), true,
                         NM_RESOURCE_COMPRESS_OFF, &next));
  net_settle(d.n);
  NM_CHECK_SPAN(heard(&d, 2, &ended), duo_text("only"));
  NM_CHECK_INT(duo_info(&d, 0).writes, 0);
  net_dispose(d.n);
}

NM_TEST(messages_find_a_place_beside_a_long_stream) {
  duo d = duo_join("tcp");
  nm_op_id op;
  NM_CHECK_OK(
      write_to_b(&d, 1, prose(1000000), true, NM_RESOURCE_COMPRESS_OFF, &op));
  NM_CHECK_STATUS(duo_send(&d, 1, "among them", &op), NM_E(LIMIT));
  /* A place that a proof frees is left to the message. */
  duo_weather w = {.delay_us = 1000};
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  net_pass(d.n, 2000);
  NM_CHECK(net_find(d.n, 0, NM_EVENT_CHANNEL_READY) != NULL);
  NM_CHECK_OK(duo_send(&d, 1, "among them", &op));
  net_pass(d.n, 1000000);
  NM_CHECK_INT(net_count(d.n, 1, NM_EVENT_CHANNEL_DATA), 1);
  NM_CHECK_OK(duo_event(d.n, 0, NM_EVENT_STREAM_SENT, 0)->status);
  net_dispose(d.n);
}

NM_TEST(writes_that_wait_are_bounded) {
  duo d = duo_join("tcp");
  nm_op_id op;
  for (int i = 0; i < NM_STREAM_WRITES_MAX; i++) {
    NM_CHECK_OK(write_to_b(&d, (uint16_t)(i % 7), prose(50), false,
                           NM_RESOURCE_COMPRESS_OFF, &op));
  }
  NM_CHECK_STATUS(
      write_to_b(&d, 1, prose(50), false, NM_RESOURCE_COMPRESS_OFF, &op),
      NM_E(LIMIT));
  net_settle(d.n);
  NM_CHECK_INT(net_count(d.n, 0, NM_EVENT_STREAM_SENT), NM_STREAM_WRITES_MAX);
  NM_CHECK_OK(
      write_to_b(&d, 1, prose(50), false, NM_RESOURCE_COMPRESS_OFF, &op));
  net_settle(d.n);
  net_dispose(d.n);
}
/* ---- loss ---- */

static void check_weather(const char *kind, duo_weather w, size_t size) {
  duo d = duo_join(kind);
  nm_block *block = nm_block_new(&nm_mem_system, size);
  nm_test_random_bytes(nm_block_bytes(block), size);
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  duo_check_stream(&d, nm_block_span(block));
  nm_block_drop(block);
  net_dispose(d.n);
}

NM_TEST(ten_megabytes_arrive_whole_over_a_lossy_path) {
  duo_weather w = {
      .loss_pct = 5, .double_pct = 5, .delay_us = 2000, .spread_us = 6000};
  check_weather("tcp", w, 10000000);
}

NM_TEST(streams_survive_loss_doubles_and_disorder) {
  for (uint32_t loss = 0; loss <= 30; loss += 10) {
    nm_test_context("loss %u", loss);
    duo_weather w = {.loss_pct = loss,
                     .double_pct = 10,
                     .delay_us = 5000,
                     .spread_us = 20000};
    check_weather("udp", w, 40000);
  }
}

NM_TEST(a_slow_path_carries_one_message_at_a_time) {
  duo_weather w = {.delay_us = 900000};
  duo d = duo_link("tcp");
  NM_CHECK_OK(
      nm_engine_link_tune(d.n->engines[0], d.a, 1800000, 0, 0, d.n->now));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[1], d.b, true, d.n->now));
  NM_CHECK_INT(duo_info(&d, 0).window.window, 1);
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  uint8_t bytes[100000];
  nm_test_random_bytes(bytes, sizeof(bytes));
  duo_check_stream(&d, nm_span_of(bytes, sizeof(bytes)));
  NM_CHECK_INT(duo_info(&d, 0).counters.repeated, 0);
  NM_CHECK_INT(duo_info(&d, 0).proof_rtt_us, 1800000);
  net_dispose(d.n);
}

NM_TEST(sequence_numbers_wrap_on_a_link) {
  duo d = duo_join("tcp");
  duo_weather w = {.loss_pct = 10, .delay_us = 2000, .spread_us = 6000};
  nm_link_find(d.n->engines[0], d.a)->channel->core.next_tx = 65500;
  nm_link_find(d.n->engines[1], d.b)->channel->core.next_rx = 65500;
  d.n->wires[0].fate = duo_blow;
  d.n->wires[0].user = &w;
  uint8_t *bytes = nm_test_scratch(2000000);
  nm_test_random_bytes(bytes, 2000000);
  duo_check_stream(&d, nm_span_of(bytes, 2000000));
  NM_CHECK(duo_info(&d, 1).next_rx < 100);
  NM_CHECK_INT(duo_info(&d, 0).next_tx, duo_info(&d, 1).next_rx);
  net_dispose(d.n);
}
