#include "wire/hdlc.h"

#include "wire/stuffing.h"

#define ESCAPED_FLAG (NM_HDLC_FLAG ^ NM_HDLC_MASK)
#define ESCAPED_ESCAPE (NM_HDLC_ESCAPE ^ NM_HDLC_MASK)

static const nm_stuffing HDLC = {.flag = NM_HDLC_FLAG,
                                 .escape = NM_HDLC_ESCAPE,
                                 .flag_code = ESCAPED_FLAG,
                                 .escape_code = ESCAPED_ESCAPE};

size_t nm_hdlc_escaped_size(nm_span data) {
  return nm_stuffing_size(&HDLC, data);
}

size_t nm_hdlc_frame_size(nm_span data) {
  return nm_hdlc_escaped_size(data) + 2;
}

int nm_hdlc_escape(nm_writer *w, nm_span data) {
  return nm_stuffing_escape(&HDLC, w, data);
}

static void put_frame(nm_writer *w, nm_span data) {
  nm_writer_u8(w, NM_HDLC_FLAG);
  nm_stuffing_put(&HDLC, w, data);
  nm_writer_u8(w, NM_HDLC_FLAG);
}

int nm_hdlc_frame(nm_writer *w, nm_span data) {
  /* Where every byte may be escaped, none has to be counted first. */
  if (w->status == NM_OK && nm_writer_left(w) / 2 > data.len) {
    put_frame(w, data);
    return w->status;
  }
  size_t n = nm_hdlc_frame_size(data);
  nm_writer part = nm_writer_of(nm_writer_reserve(w, n), n);
  if (w->status == NM_OK) {
    put_frame(&part, data);
  }
  return w->status;
}

int nm_hdlc_unescape(nm_writer *w, nm_span data, nm_fault *fault) {
  return nm_stuffing_unescape(&HDLC, w, data, 0, fault);
}

int nm_hdlc_unframe(nm_writer *w, nm_span frame, nm_fault *fault) {
  nm_span content;
  int status = nm_stuffing_content(&HDLC, frame, &content, fault);
  return status != NM_OK ? status
                         : nm_stuffing_unescape(&HDLC, w, content, 1, fault);
}

int nm_hdlc_decoder_init(nm_hdlc_decoder *d, uint8_t *storage,
                         const nm_hdlc_limits *limits) {
  if (limits->frame_max == 0 || limits->buffered_max < limits->frame_max) {
    return NM_E(ARGUMENT);
  }
  *d = (nm_hdlc_decoder){.limits = *limits, .storage = storage};
  return NM_OK;
}

/* Ends the open frame; |open| tells whether its last flag begins another. */
static void restart(nm_hdlc_decoder *d, bool open) {
  d->len = 0;
  d->raw = open ? 1 : 0;
  d->open = open;
  d->escape = false;
  d->overflow = false;
}

void nm_hdlc_decoder_reset(nm_hdlc_decoder *d) {
  restart(d, false);
}

static void store(nm_hdlc_decoder *d, nm_span s) {
  nm_writer w = nm_writer_of(d->storage, d->limits.frame_max);
  w.pos = d->len;
  if (s.len > nm_writer_left(&w)) {
    d->overflow = true;
    return;
  }
  nm_writer_span(&w, s);
  d->len = w.pos;
}

static void store_byte(nm_hdlc_decoder *d, uint8_t c) {
  store(d, nm_span_of(&c, 1));
}

/* The second byte of an escape. An invalid one keeps both bytes, of which the
 * second may begin the next escape, as the wire's reference has it. */
static void end_escape(nm_hdlc_decoder *d, nm_reader *r) {
  nm_reader look = *r;
  uint8_t c = nm_reader_u8(&look);
  d->escape = false;
  if (c == ESCAPED_FLAG || c == ESCAPED_ESCAPE) {
    store_byte(d, c ^ NM_HDLC_MASK);
    *r = look;
  } else {
    d->counters.bad_escapes++;
    store_byte(d, NM_HDLC_ESCAPE);
  }
}

/* Adds bytes without a flag to the open frame. */
static void append(nm_hdlc_decoder *d, nm_span run) {
  nm_reader r = nm_reader_of(run);
  while (nm_reader_left(&r) > 0 && !d->overflow) {
    if (d->escape) {
      end_escape(d, &r);
      continue;
    }
    store(d, nm_reader_until(&r, NM_HDLC_ESCAPE));
    if (nm_reader_left(&r) > 0) {
      (void)nm_reader_u8(&r);
      d->escape = true;
    }
  }
}

/* Judges a complete frame of |len| bytes. */
static bool accept(nm_hdlc_decoder *d, size_t len) {
  if (!d->overflow && len == 0) {
    d->counters.empty++;
    return false;
  }
  bool oversize = d->overflow || len > d->limits.frame_max;
  if (!oversize && len >= d->limits.frame_min) {
    d->counters.frames++;
    return true;
  }
  *(oversize ? &d->counters.oversize : &d->counters.runts) += 1;
  d->counters.discarded_bytes += d->raw - 1;
  return false;
}

/* Skips to the first flag. */
static void open_frame(nm_hdlc_decoder *d, nm_reader *in) {
  d->counters.discarded_bytes += nm_reader_until(in, NM_HDLC_FLAG).len;
  if (nm_reader_left(in) > 0) {
    (void)nm_reader_u8(in);
    restart(d, true);
  }
}

/* Takes bytes of the open frame; true when its end was there and it is good. */
static bool take_frame(nm_hdlc_decoder *d, nm_reader *in, nm_span *frame) {
  nm_span run = nm_reader_until(in, NM_HDLC_FLAG);
  bool closed = nm_reader_left(in) > 0;
  bool whole = closed && d->raw == 1;
  d->raw += run.len;
  nm_reader look = nm_reader_of(run);
  if (whole && nm_reader_until(&look, NM_HDLC_ESCAPE).len == run.len) {
    *frame = run;
  } else {
    append(d, run);
    if (closed && d->escape && !d->overflow) {
      d->counters.bad_escapes++;
      store_byte(d, NM_HDLC_ESCAPE);
    }
    *frame = nm_span_of(d->storage, d->len);
  }
  if (!closed) {
    return false;
  }
  (void)nm_reader_u8(in);
  bool good = accept(d, frame->len);
  restart(d, true);
  return good;
}

bool nm_hdlc_decoder_next(nm_hdlc_decoder *d, nm_reader *in, nm_span *frame) {
  while (nm_reader_left(in) > 0) {
    if (!d->open) {
      open_frame(d, in);
    } else if (take_frame(d, in, frame)) {
      return true;
    }
  }
  if (d->open && d->raw > d->limits.buffered_max) {
    d->counters.oversize++;
    d->counters.discarded_bytes += d->raw - 1;
    restart(d, false);
  }
  return false;
}
