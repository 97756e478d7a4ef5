#include "wire/kiss.h"

#include "wire/stuffing.h"

static const nm_stuffing KISS = {.flag = NM_KISS_FEND,
                                 .escape = NM_KISS_FESC,
                                 .flag_code = NM_KISS_TFEND,
                                 .escape_code = NM_KISS_TFESC};

size_t nm_kiss_escaped_size(nm_span data) {
  return nm_stuffing_size(&KISS, data);
}

size_t nm_kiss_frame_size(nm_span data) {
  return nm_kiss_escaped_size(data) + 3;
}

int nm_kiss_escape(nm_writer *w, nm_span data) {
  return nm_stuffing_escape(&KISS, w, data);
}

int nm_kiss_frame(nm_writer *w, uint8_t command, nm_span data) {
  if (command == NM_KISS_FEND) {
    return NM_E(VALUE);
  }
  size_t n = nm_kiss_frame_size(data);
  nm_writer part = nm_writer_of(nm_writer_reserve(w, n), n);
  if (w->status == NM_OK) {
    nm_writer_u8(&part, NM_KISS_FEND);
    nm_writer_u8(&part, command);
    nm_stuffing_put(&KISS, &part, data);
    nm_writer_u8(&part, NM_KISS_FEND);
  }
  return w->status;
}

int nm_kiss_unescape(nm_writer *w, nm_span data, nm_fault *fault) {
  return nm_stuffing_unescape(&KISS, w, data, 0, fault);
}

int nm_kiss_unframe(nm_writer *w, nm_span frame, uint8_t *command,
                    nm_fault *fault) {
  nm_span content;
  int status = nm_stuffing_content(&KISS, frame, &content, fault);
  if (status != NM_OK) {
    return status;
  }
  nm_reader inner = nm_reader_of(content);
  *command = nm_reader_u8(&inner) & 0x0f;
  return nm_stuffing_unescape(&KISS, w, nm_reader_rest(&inner), 2, fault);
}

static uint8_t clamped(uint32_t v) {
  return (uint8_t)(v > 255 ? 255 : v);
}

int nm_kiss_configure(nm_writer *w, const nm_kiss_config *config) {
  const uint8_t commands[5][2] = {
      {NM_KISS_TXDELAY, clamped(config->preamble_ms / 10)},
      {NM_KISS_TXTAIL, clamped(config->txtail_ms / 10)},
      {NM_KISS_PERSISTENCE, clamped(config->persistence)},
      {NM_KISS_SLOTTIME, clamped(config->slottime_ms / 10)},
      {NM_KISS_READY, 1}};
  for (size_t i = 0; i < 5; i++) {
    nm_kiss_frame(w, commands[i][0], nm_span_of(&commands[i][1], 1));
  }
  return w->status;
}

/* One AX.25 address: six call sign bytes shifted left, unused ones 0x20 as they
 * are, then the SSID byte. */
static void put_ax25_address(nm_writer *w, nm_span callsign, uint8_t ssid) {
  for (size_t i = 0; i < 6; i++) {
    uint8_t c = 0x20;
    if (i < callsign.len) {
      c = (uint8_t)(callsign.ptr[i] << 1);
    }
    nm_writer_u8(w, c);
  }
  nm_writer_u8(w, ssid);
}

int nm_ax25_header(nm_writer *w, nm_span callsign, uint8_t ssid) {
  if (callsign.len < 3 || callsign.len > 6) {
    return NM_E(LENGTH);
  }
  if (ssid > 15) {
    return NM_E(RANGE);
  }
  put_ax25_address(w, nm_span_of("APZRNS", 6), 0x60);
  put_ax25_address(w, callsign, (uint8_t)(0x61 | (ssid << 1)));
  nm_writer_u8(w, 0x03); /* unnumbered information */
  nm_writer_u8(w, 0xf0); /* no layer 3 */
  return w->status;
}

int nm_kiss_decoder_init(nm_kiss_decoder *d, uint8_t *storage,
                         const nm_kiss_limits *limits) {
  if (limits->frame_max == 0) {
    return NM_E(ARGUMENT);
  }
  *d = (nm_kiss_decoder){.limits = *limits, .storage = storage};
  if (d->limits.commands == 0) {
    d->limits.commands = 1u << NM_KISS_DATA;
  }
  return NM_OK;
}

static void restart(nm_kiss_decoder *d, bool open) {
  d->len = 0;
  d->raw = 0;
  d->command = 0;
  d->open = open;
  d->has_command = false;
  d->escape = false;
  d->overflow = false;
}

void nm_kiss_decoder_reset(nm_kiss_decoder *d) {
  restart(d, false);
}

static void store(nm_kiss_decoder *d, nm_span s) {
  nm_writer w = nm_writer_of(d->storage, d->limits.frame_max);
  w.pos = d->len;
  if (s.len > nm_writer_left(&w)) {
    d->overflow = true;
    return;
  }
  nm_writer_span(&w, s);
  d->len = w.pos;
}

static bool is_wanted(const nm_kiss_decoder *d) {
  return (d->limits.commands >> d->command) & 1;
}

/* The second byte of an escape. Another FESC keeps the escape going, other
 * bytes pass unchanged, as the wire's reference has it. */
static void end_escape(nm_kiss_decoder *d, nm_reader *r) {
  uint8_t c = nm_reader_u8(r);
  if (c == NM_KISS_FESC) {
    return;
  }
  d->escape = false;
  if (c == NM_KISS_TFEND) {
    c = NM_KISS_FEND;
  } else if (c == NM_KISS_TFESC) {
    c = NM_KISS_FESC;
  }
  store(d, nm_span_of(&c, 1));
}

/* Adds bytes without a FEND to the open frame. */
static void append(nm_kiss_decoder *d, nm_span run) {
  nm_reader r = nm_reader_of(run);
  d->raw += run.len;
  if (run.len > 0 && !d->has_command) {
    d->command = nm_reader_u8(&r) & 0x0f;
    d->has_command = true;
  }
  while (nm_reader_left(&r) > 0 && !d->overflow && is_wanted(d)) {
    if (d->escape) {
      end_escape(d, &r);
      continue;
    }
    store(d, nm_reader_until(&r, NM_KISS_FESC));
    if (nm_reader_left(&r) > 0) {
      (void)nm_reader_u8(&r);
      d->escape = true;
    }
  }
}

/* Judges a complete frame. */
static bool accept(nm_kiss_decoder *d) {
  if (!d->has_command) {
    d->counters.empty++;
    return false;
  }
  bool ready = d->command == NM_KISS_READY;
  d->counters.ready += ready;
  if (!is_wanted(d)) {
    d->counters.foreign_commands += !ready;
    d->counters.discarded_bytes += d->raw;
    return false;
  }
  size_t least = d->limits.frame_min > 1 ? d->limits.frame_min : 1;
  bool runt = d->command == NM_KISS_DATA && d->len < least;
  if (!d->overflow && !runt) {
    d->counters.frames++;
    return true;
  }
  *(d->overflow ? &d->counters.oversize : &d->counters.runts) += 1;
  d->counters.discarded_bytes += d->raw;
  return false;
}

static void open_frame(nm_kiss_decoder *d, nm_reader *in) {
  d->counters.discarded_bytes += nm_reader_until(in, NM_KISS_FEND).len;
  if (nm_reader_left(in) > 0) {
    (void)nm_reader_u8(in);
    restart(d, true);
  }
}

static bool take_frame(nm_kiss_decoder *d, nm_reader *in, uint8_t *command,
                       nm_span *frame) {
  append(d, nm_reader_until(in, NM_KISS_FEND));
  if (nm_reader_left(in) == 0) {
    return false;
  }
  (void)nm_reader_u8(in);
  *command = d->command;
  *frame = nm_span_of(d->storage, d->len);
  bool good = accept(d);
  restart(d, true);
  return good;
}

bool nm_kiss_decoder_next(nm_kiss_decoder *d, nm_reader *in, uint8_t *command,
                          nm_span *frame) {
  while (nm_reader_left(in) > 0) {
    if (!d->open) {
      open_frame(d, in);
    } else if (take_frame(d, in, command, frame)) {
      return true;
    }
  }
  return false;
}
