#include "support.h"

#include "wire/kiss.h"

#include <string.h>

typedef struct stream {
  nm_kiss_decoder decoder;
  nm_span frames[64];
  uint8_t commands[64];
  size_t count;
} stream;

static void stream_open(stream *s, nm_kiss_limits limits) {
  *s = (stream){.count = 0};
  uint8_t *storage = (uint8_t *)nm_test_scratch(limits.frame_max);
  NM_CHECK_OK(nm_kiss_decoder_init(&s->decoder, storage, &limits));
}

static void stream_feed(stream *s, nm_span in) {
  nm_reader r = nm_reader_of(in);
  nm_span frame;
  uint8_t command;
  while (nm_kiss_decoder_next(&s->decoder, &r, &command, &frame)) {
    NM_CHECK(s->count < 64);
    uint8_t *kept = (uint8_t *)nm_test_scratch(frame.len + 1);
    memcpy(kept, frame.ptr, frame.len);
    s->commands[s->count] = command;
    s->frames[s->count++] = nm_span_of(kept, frame.len);
  }
  NM_CHECK_INT(nm_reader_left(&r), 0);
}

static void check_frame(nm_span data, nm_span frame) {
  uint8_t *out = (uint8_t *)nm_test_scratch(1024);
  nm_writer w = nm_writer_of(out, 1024);
  NM_CHECK_INT(nm_kiss_frame_size(data), frame.len);
  NM_CHECK_OK(nm_kiss_frame(&w, NM_KISS_DATA, data));
  NM_CHECK_SPAN(nm_writer_done(&w), frame);
  w = nm_writer_of(out, 1024);
  uint8_t command = 0xff;
  NM_CHECK_OK(nm_kiss_unframe(&w, frame, &command, NULL));
  NM_CHECK_INT(command, NM_KISS_DATA);
  NM_CHECK_SPAN(nm_writer_done(&w), data);
  stream s;
  stream_open(&s, (nm_kiss_limits){1, 300, 0});
  stream_feed(&s, frame);
  NM_CHECK_INT(s.count, 1);
  NM_CHECK_SPAN(s.frames[0], data);
}

static void check_frame_vector(const nm_vector *v) {
  check_frame(nm_vector_bytes(v, "input.data"),
              nm_vector_bytes(v, "output.frame"));
}

NM_TEST(kiss_frames_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "kiss_frame", 4, check_frame_vector);
}

static void check_kiss_vector(const nm_vector *v) {
  nm_span expected = nm_vector_bytes(v, "output.bytes");
  if (nm_vector_has(v, "input.packet")) {
    check_frame(nm_vector_bytes(v, "input.packet"), expected);
    return;
  }
  const nm_kiss_config config = {
      (uint32_t)nm_vector_u64(v, "input.preamble_ms"),
      (uint32_t)nm_vector_u64(v, "input.txtail_ms"),
      (uint32_t)nm_vector_u64(v, "input.persistence"),
      (uint32_t)nm_vector_u64(v, "input.slottime_ms")};
  uint8_t out[32];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_kiss_configure(&w, &config));
  NM_CHECK_SPAN(nm_writer_done(&w), expected);
}

NM_TEST(kiss_modems_are_configured_as_in_the_vectors) {
  nm_vectors_each(NULL, "kiss", 2, check_kiss_vector);
}

NM_TEST(kiss_parameters_are_clamped_and_escaped) {
  uint8_t out[32];
  nm_writer w = nm_writer_of(out, sizeof out);
  const nm_kiss_config config = {1920, 99999, 219, 0};
  NM_CHECK_OK(nm_kiss_configure(&w, &config));
  NM_CHECK_HEX(nm_writer_done(&w),
               "c001dbdcc0c004ffc0c002dbddc0c00300c0c00f01c0");
}

static void check_ax25_vector(const nm_vector *v) {
  const char *callsign = nm_vector_text(v, "input.callsign");
  uint8_t buf[64];
  uint8_t out[160];
  nm_writer w = nm_writer_of(buf, sizeof buf);
  NM_CHECK_OK(nm_ax25_header(&w, nm_span_of(callsign, strlen(callsign)),
                             (uint8_t)nm_vector_u64(v, "input.ssid")));
  NM_CHECK_INT(w.pos, NM_AX25_HEADER_SIZE);
  nm_writer_span(&w, nm_vector_bytes(v, "input.packet"));
  nm_writer framed = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_kiss_frame(&framed, NM_KISS_DATA, nm_writer_done(&w)));
  NM_CHECK_SPAN(nm_writer_done(&framed), nm_vector_bytes(v, "output.bytes"));
}

NM_TEST(ax25_headers_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "ax25_kiss", 2, check_ax25_vector);
}

NM_TEST(ax25_headers_need_a_proper_call_sign) {
  uint8_t out[16];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_ax25_header(&w, nm_span_of("AB", 2), 0), NM_E(LENGTH));
  NM_CHECK_STATUS(nm_ax25_header(&w, nm_span_of("ABCDEFG", 7), 0),
                  NM_E(LENGTH));
  NM_CHECK_STATUS(nm_ax25_header(&w, nm_span_of("ABC", 3), 16), NM_E(RANGE));
}

NM_TEST(kiss_delivers_data_only_and_counts_the_rest) {
  stream s;
  stream_open(&s, (nm_kiss_limits){2, 4, 0});
  stream_feed(&s, nm_test_unhex("0102c0c0"));       /* noise, empty */
  stream_feed(&s, nm_test_unhex("004142c0"));       /* good */
  stream_feed(&s, nm_test_unhex("f04142c0"));       /* port 15: good */
  stream_feed(&s, nm_test_unhex("0041c0"));         /* runt */
  stream_feed(&s, nm_test_unhex("00c0"));           /* runt: empty data */
  stream_feed(&s, nm_test_unhex("004142434445c0")); /* too long */
  stream_feed(&s, nm_test_unhex("034142c0"));       /* foreign */
  stream_feed(&s, nm_test_unhex("0fc0"));           /* ready */
  const nm_kiss_counters *c = &s.decoder.counters;
  NM_CHECK_INT(s.count, 2);
  NM_CHECK_INT(c->frames, 2);
  NM_CHECK_INT(c->empty, 1);
  NM_CHECK_INT(c->runts, 2);
  NM_CHECK_INT(c->oversize, 1);
  NM_CHECK_INT(c->foreign_commands, 1);
  NM_CHECK_INT(c->ready, 1);
  NM_CHECK_INT(c->discarded_bytes, 2 + 2 + 1 + 6 + 3 + 1);
}

NM_TEST(kiss_delivers_other_commands_on_request) {
  stream s;
  stream_open(&s, (nm_kiss_limits){1, 16, 1u << 8 | 1u << NM_KISS_READY});
  stream_feed(&s, nm_test_unhex("c00841c0c00fc0c00042c0"));
  NM_CHECK_INT(s.count, 2);
  NM_CHECK_INT(s.commands[0], 8);
  NM_CHECK_HEX(s.frames[0], "41");
  NM_CHECK_INT(s.commands[1], NM_KISS_READY);
  NM_CHECK_INT(s.frames[1].len, 0);
  NM_CHECK_INT(s.decoder.counters.foreign_commands, 1);
}

NM_TEST(kiss_streams_are_lenient_with_escapes) {
  stream s;
  stream_open(&s, (nm_kiss_limits){1, 16, 0});
  stream_feed(&s, nm_test_unhex("c00041db"));
  stream_feed(&s, nm_test_unhex("dcdb42dbdbddc0"));
  NM_CHECK_INT(s.count, 1);
  NM_CHECK_HEX(s.frames[0], "41c042db");
  /* An escape cut off by the end of its frame does not reach the next one. */
  stream_feed(&s, nm_test_unhex("0041dbc000dcc0"));
  NM_CHECK_INT(s.count, 3);
  NM_CHECK_HEX(s.frames[1], "41");
  NM_CHECK_HEX(s.frames[2], "dc");
}

NM_TEST(kiss_frames_survive_every_way_of_cutting_the_stream) {
  uint8_t data[256];
  for (size_t i = 0; i < sizeof data; i++) {
    data[i] = (uint8_t)(255 - i);
  }
  uint8_t framed[1024];
  nm_writer w = nm_writer_of(framed, sizeof framed);
  NM_CHECK_OK(nm_kiss_frame(&w, 0x10, nm_span_of(data, sizeof data)));
  NM_CHECK_OK(nm_kiss_frame(&w, 0x00, nm_span_of(data, 70)));
  nm_span all = nm_writer_done(&w);
  for (size_t cut = 0; cut <= all.len; cut++) {
    nm_test_context("cut %zu", cut);
    stream s;
    stream_open(&s, (nm_kiss_limits){1, 256, 0});
    stream_feed(&s, nm_span_of(all.ptr, cut));
    stream_feed(&s, nm_span_of(all.ptr + cut, all.len - cut));
    NM_CHECK_INT(s.count, 2);
    NM_CHECK_SPAN(s.frames[0], nm_span_of(data, sizeof data));
    NM_CHECK_SPAN(s.frames[1], nm_span_of(data, 70));
  }
}

NM_TEST(a_reset_kiss_decoder_forgets_the_partial_frame) {
  stream s;
  stream_open(&s, (nm_kiss_limits){1, 16, 0});
  stream_feed(&s, nm_test_unhex("c00041"));
  nm_kiss_decoder_reset(&s.decoder);
  stream_feed(&s, nm_test_unhex("42c00043c0"));
  NM_CHECK_INT(s.count, 1);
  NM_CHECK_HEX(s.frames[0], "43");
}

NM_TEST(kiss_unframing_is_strict_and_says_why) {
  static const struct {
    const char *frame;
    int status;
    size_t offset;
  } cases[] = {
      {"", NM_E(TRUNCATED), 0},        {"c0", NM_E(TRUNCATED), 1},
      {"c000", NM_E(TRUNCATED), 2},    {"00c0", NM_E(VALUE), 0},
      {"c0c0", NM_E(EMPTY), 1},        {"c00041c000", NM_E(TRAILING), 4},
      {"c000db00c0", NM_E(ESCAPE), 2}, {"c000dbc0", NM_E(ESCAPE), 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("%s", cases[i].frame);
    uint8_t out[16];
    uint8_t command;
    nm_writer w = nm_writer_of(out, sizeof out);
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_kiss_unframe(&w, nm_test_unhex(cases[i].frame), &command, &fault),
        cases[i].status);
    NM_CHECK_INT(fault.offset, cases[i].offset);
  }
}

NM_TEST(kiss_refuses_a_command_that_is_a_frame_end) {
  uint8_t out[16];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_kiss_frame(&w, NM_KISS_FEND, nm_span_of("a", 1)),
                  NM_E(VALUE));
  NM_CHECK_INT(w.pos, 0);
  nm_kiss_decoder d;
  NM_CHECK_STATUS(nm_kiss_decoder_init(&d, out, &(nm_kiss_limits){1, 0, 0}),
                  NM_E(ARGUMENT));
}

NM_TEST(kiss_escapes_alone_and_back) {
  uint8_t out[16];
  nm_span data = nm_test_unhex("41c0db42");
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_kiss_escape(&w, data));
  NM_CHECK_HEX(nm_writer_done(&w), "41dbdcdbdd42");
  NM_CHECK_INT(w.pos, nm_kiss_escaped_size(data));
  nm_span escaped = nm_writer_done(&w);
  uint8_t back[16];
  w = nm_writer_of(back, sizeof back);
  NM_CHECK_OK(nm_kiss_unescape(&w, escaped, NULL));
  NM_CHECK_SPAN(nm_writer_done(&w), data);
  w = nm_writer_of(back, 3);
  NM_CHECK_STATUS(nm_kiss_unescape(&w, escaped, NULL), NM_E(TOO_LARGE));
  w = nm_writer_of(back, 5);
  NM_CHECK_STATUS(nm_kiss_escape(&w, data), NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_kiss_unescape(&w, nm_test_unhex("41c0"), &fault),
                  NM_E(ESCAPE));
  NM_CHECK_INT(fault.offset, 1);
}
