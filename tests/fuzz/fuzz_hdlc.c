/* Any bytes as an HDLC stream, whole and in pieces: the same frames come out,
 * within the limits, and a framed packet comes back. */
#include "fuzz.h"
#include "wire/hdlc.h"

#define FRAME_MAX 64
#define INPUT_MAX 4096

/* A stream of any length fits: giving up by length depends on how the input is
 * cut, which is not what is compared here. */
static const nm_hdlc_limits limits = {5, FRAME_MAX, SIZE_MAX};

static size_t collect(nm_hdlc_decoder *d, nm_span in, nm_writer *frames) {
  nm_reader r = nm_reader_of(in);
  nm_span frame;
  size_t n = 0;
  while (nm_hdlc_decoder_next(d, &r, &frame)) {
    MUST(frame.len >= limits.frame_min && frame.len <= FRAME_MAX);
    nm_writer_u16(frames, (uint16_t)frame.len);
    nm_writer_span(frames, frame);
    n++;
  }
  MUST(nm_reader_left(&r) == 0);
  return n;
}

static void check_pieces(nm_span in, size_t step) {
  static uint8_t whole[4 * INPUT_MAX];
  static uint8_t pieces[4 * INPUT_MAX];
  uint8_t storage[FRAME_MAX];
  nm_hdlc_decoder d;
  MUST(nm_hdlc_decoder_init(&d, storage, &limits) == NM_OK);
  nm_writer a = nm_writer_of(whole, sizeof whole);
  size_t n = collect(&d, in, &a);
  nm_hdlc_counters first = d.counters;
  MUST(nm_hdlc_decoder_init(&d, storage, &limits) == NM_OK);
  nm_writer b = nm_writer_of(pieces, sizeof pieces);
  nm_reader r = nm_reader_of(in);
  size_t m = 0;
  while (nm_reader_left(&r) > 0) {
    size_t left = nm_reader_left(&r);
    m += collect(&d, nm_reader_take(&r, step < left ? step : left), &b);
  }
  MUST(n == m && first.frames == n && a.status == NM_OK);
  MUST(nm_span_equal(nm_writer_done(&a), nm_writer_done(&b)));
  MUST(memcmp(&first, &d.counters, sizeof first) == 0);
}

static void check_round(nm_span in) {
  static uint8_t framed[2 * INPUT_MAX + 2];
  static uint8_t back[INPUT_MAX];
  nm_writer w = nm_writer_of(framed, sizeof framed);
  MUST(nm_hdlc_frame(&w, in) == NM_OK);
  MUST(w.pos == nm_hdlc_frame_size(in));
  nm_writer out = nm_writer_of(back, sizeof back);
  int status = nm_hdlc_unframe(&out, nm_writer_done(&w), NULL);
  MUST(status == (in.len > 0 ? NM_OK : NM_E(EMPTY)));
  MUST(status != NM_OK || nm_span_equal(nm_writer_done(&out), in));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > INPUT_MAX) {
    return 0;
  }
  nm_span in = nm_span_of(data + 1, size - 1);
  static uint8_t out[INPUT_MAX];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_fault fault = {0};
  must_name(nm_hdlc_unframe(&w, in, &fault), &fault, in.len);
  w = nm_writer_of(out, sizeof out);
  must_name(nm_hdlc_unescape(&w, in, &fault), &fault, in.len);
  check_pieces(in, 1 + data[0] % 16);
  check_round(in);
  return 0;
}
