#include "support.h"

#include "wire/hdlc.h"

#include <stdio.h>
#include <string.h>

/* A decoder with limits as a TCP interface has them. */
typedef struct stream {
  nm_hdlc_decoder decoder;
  nm_span frames[64];
  size_t count;
} stream;

static void stream_open(stream *s, size_t frame_min, size_t frame_max,
                        size_t buffered_max) {
  *s = (stream){.count = 0};
  const nm_hdlc_limits limits = {frame_min, frame_max, buffered_max};
  uint8_t *storage = (uint8_t *)nm_test_scratch(frame_max);
  NM_CHECK_OK(nm_hdlc_decoder_init(&s->decoder, storage, &limits));
}

/* Feeds bytes that are gone afterwards and keeps copies of the frames. */
static void stream_feed(stream *s, nm_span in) {
  uint8_t *copy = (uint8_t *)nm_test_scratch(in.len + 1);
  if (in.len > 0) {
    memcpy(copy, in.ptr, in.len);
  }
  nm_reader r = nm_reader_of(nm_span_of(copy, in.len));
  nm_span frame;
  while (nm_hdlc_decoder_next(&s->decoder, &r, &frame)) {
    NM_CHECK(s->count < 64);
    uint8_t *kept = (uint8_t *)nm_test_scratch(frame.len);
    memcpy(kept, frame.ptr, frame.len);
    s->frames[s->count++] = nm_span_of(kept, frame.len);
  }
  NM_CHECK_INT(nm_reader_left(&r), 0);
}

NM_TEST(a_frame_is_the_same_with_little_room_and_with_much) {
  uint8_t data[300];
  for (size_t i = 0; i < sizeof data; i++) {
    data[i] = i % 3 == 0 ? 0x7e : i % 7 == 0 ? 0x7d : (uint8_t)i;
  }
  for (size_t len = 0; len <= sizeof data; len++) {
    uint8_t little[2 * sizeof data + 3];
    uint8_t much[2 * sizeof data + 3];
    nm_span span = nm_span_of(data, len);
    size_t size = nm_hdlc_frame_size(span);
    nm_writer exact = nm_writer_of(little, size);
    nm_writer wide = nm_writer_of(much, sizeof much);
    nm_writer narrow = nm_writer_of(much, size - 1);
    NM_CHECK_INT(nm_hdlc_frame(&narrow, span), NM_E(TOO_LARGE));
    NM_CHECK_INT(narrow.pos, 0);
    NM_CHECK_OK(nm_hdlc_frame(&exact, span));
    NM_CHECK_OK(nm_hdlc_frame(&wide, span));
    NM_CHECK_SPAN(nm_writer_done(&wide), nm_writer_done(&exact));
  }
}

NM_TEST(a_byte_to_be_escaped_is_found_at_every_place) {
  uint8_t data[75];
  for (size_t at = 0; at < sizeof data; at++) {
    for (uint8_t special = NM_HDLC_ESCAPE; special <= NM_HDLC_FLAG; special++) {
      uint8_t out[sizeof data + 3];
      nm_writer w = nm_writer_of(out, sizeof out);
      memset(data, 0xfe, sizeof data);
      data[at] = special;
      NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(data, sizeof data)));
      NM_CHECK_INT(w.pos, sizeof out);
      NM_CHECK_INT(out[1 + at], NM_HDLC_ESCAPE);
      NM_CHECK_INT(out[2 + at], special ^ NM_HDLC_MASK);
      for (size_t i = 0; i < sizeof data; i++) {
        if (i != at) {
          NM_CHECK_INT(out[1 + i + (i > at)], 0xfe);
        }
      }
    }
  }
}

static void check_frame_vector(const nm_vector *v) {
  nm_span data = nm_vector_bytes(v, "input.data");
  nm_span frame = nm_vector_bytes(v, "output.frame");
  uint8_t *out = (uint8_t *)nm_test_scratch(1024);
  nm_writer w = nm_writer_of(out, 1024);
  NM_CHECK_INT(nm_hdlc_frame_size(data), frame.len);
  NM_CHECK_OK(nm_hdlc_frame(&w, data));
  NM_CHECK_SPAN(nm_writer_done(&w), frame);
  w = nm_writer_of(out, 1024);
  NM_CHECK_OK(nm_hdlc_unframe(&w, frame, NULL));
  NM_CHECK_SPAN(nm_writer_done(&w), data);
}

NM_TEST(hdlc_frames_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "hdlc_frame", 4, check_frame_vector);
}

static size_t list_length(const nm_vector *v, const char *path) {
  return nm_vector_has(v, path) ? (size_t)nm_vector_find(v, path)->number : 0;
}

static void check_stream_vector(const nm_vector *v) {
  char path[64];
  stream s;
  uint64_t hw_mtu = nm_vector_has(v, "input.hw_mtu")
                        ? nm_vector_u64(v, "input.hw_mtu")
                        : 1064;
  uint64_t ifac = nm_vector_has(v, "input.ifac_size")
                      ? nm_vector_u64(v, "input.ifac_size")
                      : 0;
  stream_open(&s, NM_HDLC_FRAME_MIN, (size_t)(hw_mtu + ifac),
              (size_t)(2 * hw_mtu));
  size_t chunks = list_length(v, "input.chunks");
  for (size_t i = 0; i < chunks; i++) {
    snprintf(path, sizeof path, "input.chunks[%zu]", i);
    stream_feed(&s, nm_vector_bytes(v, path));
  }
  if (chunks == 0) {
    stream_feed(&s, nm_vector_bytes(v, "input.stream"));
  }
  size_t accepted = list_length(v, "output.accepted_frames");
  NM_CHECK_INT(s.count, accepted);
  for (size_t i = 0; i < accepted; i++) {
    snprintf(path, sizeof path, "output.accepted_frames[%zu]", i);
    NM_CHECK_SPAN(s.frames[i], nm_vector_bytes(v, path));
  }
  size_t dropped = list_length(v, "output.dropped_lengths") +
                   list_length(v, "output.dropped_frames");
  const nm_hdlc_counters *c = &s.decoder.counters;
  uint64_t given_up = strcmp(v->name, "hdlc-overflow") == 0;
  NM_CHECK_INT(c->runts + c->oversize, dropped + given_up);
}

NM_TEST(hdlc_streams_give_the_frames_of_the_vectors) {
  nm_vectors_each(NULL, "hdlc_stream", 4, check_stream_vector);
}

NM_TEST(hdlc_frames_of_all_bytes_survive_every_way_of_cutting_the_stream) {
  uint8_t data[300];
  for (size_t i = 0; i < sizeof data; i++) {
    data[i] = (uint8_t)(i * 7);
  }
  uint8_t *framed = (uint8_t *)nm_test_scratch(2048);
  nm_writer w = nm_writer_of(framed, 2048);
  NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(data, sizeof data)));
  NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(data, 40)));
  nm_span all = nm_writer_done(&w);
  for (size_t cut = 0; cut <= all.len; cut++) {
    nm_test_context("cut %zu", cut);
    stream s;
    stream_open(&s, 20, 300, 1000);
    stream_feed(&s, nm_span_of(all.ptr, cut));
    stream_feed(&s, nm_span_of(all.ptr + cut, all.len - cut));
    NM_CHECK_INT(s.count, 2);
    NM_CHECK_SPAN(s.frames[0], nm_span_of(data, sizeof data));
    NM_CHECK_SPAN(s.frames[1], nm_span_of(data, 40));
  }
}

NM_TEST(hdlc_counts_what_it_drops) {
  stream s;
  stream_open(&s, 4, 8, 16);
  stream_feed(&s, nm_test_unhex("0102037e7e7e")); /* noise, empty, empty */
  stream_feed(&s, nm_test_unhex("4142437e"));     /* runt */
  stream_feed(&s, nm_test_unhex("414243447e"));   /* good */
  stream_feed(&s, nm_test_unhex("4142434445464748497e")); /* too long */
  stream_feed(&s, nm_test_unhex("41427d43447e"));         /* bad escape, kept */
  stream_feed(&s, nm_test_unhex("41424344457d7e"));       /* cut escape, kept */
  const nm_hdlc_counters *c = &s.decoder.counters;
  NM_CHECK_INT(c->frames, 3);
  NM_CHECK_INT(c->empty, 2);
  NM_CHECK_INT(c->runts, 1);
  NM_CHECK_INT(c->oversize, 1);
  NM_CHECK_INT(c->bad_escapes, 2);
  NM_CHECK_INT(c->discarded_bytes, 3 + 3 + 9);
  NM_CHECK_HEX(s.frames[1], "41427d4344");
  NM_CHECK_HEX(s.frames[2], "41424344457d");
}

NM_TEST(an_invalid_hdlc_escape_may_hold_a_valid_one) {
  stream s;
  stream_open(&s, 1, 64, 128);
  stream_feed(&s, nm_test_unhex("7e7d7d5e7e"));
  stream_feed(&s, nm_test_unhex("7d5d5e7e"));
  NM_CHECK_INT(s.count, 2);
  NM_CHECK_HEX(s.frames[0], "7d7e");
  NM_CHECK_HEX(s.frames[1], "7d5e");
}

NM_TEST(a_stream_without_flags_is_given_up_and_recovers) {
  stream s;
  stream_open(&s, 20, 100, 200);
  uint8_t noise[201];
  memset(noise, 0x41, sizeof noise);
  noise[0] = NM_HDLC_FLAG;
  stream_feed(&s, nm_span_of(noise, 200));
  NM_CHECK_INT(s.decoder.counters.oversize, 0);
  stream_feed(&s, nm_span_of(noise + 1, 1));
  NM_CHECK_INT(s.decoder.counters.oversize, 1);
  NM_CHECK_INT(s.decoder.counters.discarded_bytes, 200);
  /* What followed the flag is lost, so the next flag opens a frame. */
  stream_feed(&s, nm_span_of(noise + 1, 30));
  stream_feed(&s, nm_span_of(noise, 31));
  stream_feed(&s, nm_span_of(noise, 1));
  NM_CHECK_INT(s.count, 1);
  NM_CHECK_INT(s.frames[0].len, 30);
}

NM_TEST(a_reset_hdlc_decoder_forgets_the_partial_frame) {
  stream s;
  stream_open(&s, 1, 64, 128);
  stream_feed(&s, nm_test_unhex("7e414243"));
  nm_hdlc_decoder_reset(&s.decoder);
  stream_feed(&s, nm_test_unhex("447e45467e"));
  NM_CHECK_INT(s.count, 1);
  NM_CHECK_HEX(s.frames[0], "4546");
}

NM_TEST(hdlc_unframing_is_strict_and_says_why) {
  static const struct {
    const char *frame;
    int status;
    size_t offset;
  } cases[] = {{"", NM_E(TRUNCATED), 0},      {"7e", NM_E(TRUNCATED), 1},
               {"7e41", NM_E(TRUNCATED), 2},  {"417e", NM_E(VALUE), 0},
               {"7e7e", NM_E(EMPTY), 1},      {"7e417e00", NM_E(TRAILING), 3},
               {"7e7d007e", NM_E(ESCAPE), 1}, {"7e417d7e", NM_E(ESCAPE), 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("%s", cases[i].frame);
    uint8_t out[16];
    nm_writer w = nm_writer_of(out, sizeof out);
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_hdlc_unframe(&w, nm_test_unhex(cases[i].frame), &fault),
                    cases[i].status);
    NM_CHECK_INT(fault.offset, cases[i].offset);
  }
}

NM_TEST(hdlc_writes_nothing_where_it_does_not_fit) {
  nm_span data = nm_test_unhex("417e42");
  uint8_t out[8] = {0};
  nm_writer w = nm_writer_of(out, 5);
  NM_CHECK_STATUS(nm_hdlc_frame(&w, data), NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
  w = nm_writer_of(out, 4);
  NM_CHECK_OK(nm_hdlc_escape(&w, data));
  NM_CHECK_HEX(nm_writer_done(&w), "417d5e42");
  w = nm_writer_of(out, 2);
  NM_CHECK_STATUS(nm_hdlc_unescape(&w, nm_test_unhex("417d5e42"), NULL),
                  NM_E(TOO_LARGE));
}

NM_TEST(hdlc_decoders_refuse_limits_that_make_no_sense) {
  nm_hdlc_decoder d;
  uint8_t storage[8];
  NM_CHECK_STATUS(
      nm_hdlc_decoder_init(&d, storage, &(nm_hdlc_limits){1, 0, 10}),
      NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_hdlc_decoder_init(&d, storage, &(nm_hdlc_limits){1, 8, 7}),
                  NM_E(ARGUMENT));
}

NM_TEST(a_flag_inside_escaped_bytes_is_refused) {
  uint8_t out[8];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_hdlc_unescape(&w, nm_test_unhex("41427e"), &fault),
                  NM_E(ESCAPE));
  NM_CHECK_INT(fault.offset, 2);
}
