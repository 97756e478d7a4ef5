/* Two engines with a link between them, and a script: frames of any bytes, lies
 * sealed under the link's keys, frames taken off the wire that are changed,
 * repeated or lost, time that passes or steps, and the verbs of the program at
 * either end. At the end every operation must have ended, every input must
 * have been counted once, and (the address sanitizer looks) nothing is left.
 */
#include "world.h"

#define STEPS_MAX 200

/* ---- the script ---- */

static nm_span take_text(nm_reader *r) {
  size_t len = nm_reader_u8(r);
  size_t left = nm_reader_left(r);
  return r->status == NM_OK ? nm_reader_take(r, len < left ? len : left)
                            : nm_span_of(NULL, 0);
}

/* A block of up to 64 KiB made of |text| again and again. */
static nm_block *block_of(nm_span text, uint16_t len) {
  nm_block *block = nm_block_new(&nm_mem_system, (size_t)len + 1);
  MUST(block != NULL);
  uint8_t *bytes = nm_block_bytes(block);
  for (size_t i = 0; i <= len; i++) {
    bytes[i] = text.len > 0 ? text.ptr[i % text.len] : (uint8_t)i;
  }
  return block;
}

static void lie(world *w, int to, nm_reader *r) {
  side *from = &w->sides[1 - to];
  uint8_t type = nm_reader_u8(r) & 3;
  uint8_t context = nm_reader_u8(r);
  nm_block *raw = NULL;
  if (nm_engine_link_seal(from->engine, from->link, type, context, take_text(r),
                          &raw) == NM_OK) {
    feed(w, to, nm_block_span(raw));
    nm_block_drop(raw);
  }
}

static void change(world *w, int to, nm_reader *r) {
  side *from = &w->sides[1 - to];
  uint8_t frame[FRAME_MAX];
  size_t len = from->last_len;
  uint16_t at = nm_reader_u16(r);
  uint8_t with = nm_reader_u8(r);
  memcpy(frame, from->last, len);
  if (len > 0) {
    frame[at % len] ^= with; /* 0: once more as it was */
    feed(w, to, nm_span_of(frame, at % 7 == 0 ? at % len : len));
  }
}

static void use_link(world *w, side *s, unsigned verb, nm_reader *r) {
  static const nm_resource_compression modes[] = {
      NM_RESOURCE_COMPRESS_OFF, NM_RESOURCE_COMPRESS_WHEN_SMALLER};
  uint16_t number = nm_reader_u16(r);
  nm_span text = take_text(r);
  nm_resource_compression mode = modes[number & 1];
  nm_engine *e = s->engine;
  nm_block *block = verb >= 3 && verb <= 4 ? block_of(text, number) : NULL;
  nm_identity me = identity_of(9);
  switch (verb) {
  case 0:
    (void)nm_engine_link_send(e, s->link, text, number & 1, 0, &s->op, NULL,
                              w->now);
    break;
  case 1:
    (void)nm_engine_request(e, s->link, nm_span_of("/a", 2), text, number, 0,
                            &s->op, w->now);
    break;
  case 2:
    (void)nm_engine_link_identify(e, s->link, &me, w->now);
    break;
  case 3:
    (void)nm_engine_resource_send(e, s->link, block, nm_span_of(NULL, 0), mode,
                                  0, &s->op, w->now);
    break;
  case 4:
    (void)nm_engine_stream_write(e, s->link, number & 3, block, number & 4,
                                 mode, &s->op, w->now);
    break;
  case 5:
    (void)nm_engine_channel_open(e, s->link, number & 1, w->now);
    break;
  case 6:
    (void)nm_engine_channel_send(e, s->link, number, text, &s->op, NULL,
                                 w->now);
    break;
  case 7:
    (void)nm_engine_link_policy(e, s->link, (nm_accept)(number % 3), number & 4,
                                number & 8 ? 1000 : 0);
    break;
  case 8:
    (void)nm_engine_link_pause(e, s->link, number & 1, number & 2);
    break;
  case 9:
    (void)nm_engine_link_close(e, s->link, w->now);
    break;
  default:
    (void)nm_engine_link_open(e, &w->hash, 0, &s->link, w->now);
  }
  nm_block_drop(block);
}

static void use_engine(world *w, side *s, unsigned verb, nm_reader *r) {
  uint8_t number = nm_reader_u8(r);
  nm_token_id token = s->tokens[number % TOKENS];
  nm_send_spec spec;
  switch (verb) {
  case 0:
    (void)nm_engine_accept(s->engine, token, w->now);
    break;
  case 1:
    (void)nm_engine_refuse(s->engine, token, w->now);
    break;
  case 2:
    (void)nm_engine_respond(s->engine, token, take_text(r), number & 1, w->now);
    break;
  case 3:
    (void)nm_engine_cancel(s->engine, s->op, w->now);
    break;
  case 4:
    nm_engine_credit(s->engine, number, w->now);
    break;
  case 5:
    (void)nm_engine_announce(s->engine, &w->hash, NULL, 0, number & 1, &s->op,
                             w->now);
    break;
  case 6:
    (void)nm_engine_request_path(s->engine, &w->hash, 0, NULL,
                                 (uint64_t)number * 100000, &s->op, w->now);
    break;
  default:
    nm_send_spec_default(&spec);
    spec.destination = w->hash;
    spec.payload = take_text(r);
    spec.receipt = number & 1;
    (void)nm_engine_send(s->engine, &spec, &s->op, w->now);
  }
}

static void step(world *w, nm_reader *r) {
  uint8_t code = nm_reader_u8(r);
  int at = code & 1;
  unsigned what = (code >> 1) % 25;
  if (what == 0) {
    feed(w, at, take_text(r));
  } else if (what == 1) {
    lie(w, at, r);
  } else if (what == 2) {
    change(w, at, r);
  } else if (what == 3) {
    pass(w, (uint64_t)nm_reader_u16(r) * 1000);
  } else if (what == 4) {
    w->now.unix_us += ((int64_t)nm_reader_u16(r) - 32768) * 1000000;
  } else if (what == 5) {
    w->lose = nm_reader_u16(r);
  } else if (what < 17) {
    use_link(w, &w->sides[at], what - 6, r);
  } else {
    use_engine(w, &w->sides[at], what - 17, r);
  }
  if (code < 128) {
    settle(w); /* else it comes together with what follows */
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static world w;
  nm_reader r = nm_reader_of(nm_span_of(data, size));
  begin(&w);
  for (int i = 0; i < STEPS_MAX && r.status == NM_OK && nm_reader_left(&r) > 0;
       i++) {
    step(&w, &r);
  }
  end(&w);
  return 0;
}
