/* Streams in both directions of a channel, and a script: writes of any size,
 * with an end or without, frames that are lost or come twice, time, credit that
 * is given late, writes that are cancelled, forged messages. What is read is
 * what was written, in order, each byte once; every write ends once.
 */
#include "wire/channel.h"
#include "world.h"

#define STEPS_MAX 100
#define STREAMS 4
#define WRITE_MAX 20000

typedef struct flow {
  uint64_t written;
  uint64_t read;
  bool ended;      /* its end was written */
  bool read_end;   /* and read */
  bool unreliable; /* cancelled or forged: what is read is not known */
} flow;

/* By the side that writes. */
static flow flows[2][STREAMS];
static int begun;
static int ended;

/* Byte |at| of every stream |id|; long runs, so that it compresses. */
static uint8_t byte_of(unsigned id, uint64_t at) {
  return (uint8_t)(at / 97 * 31 + id * 7);
}

static void read_data(int at, const nm_event *event) {
  flow *f = &flows[1 - at][event->stream % STREAMS];
  nm_span data = nm_block_span(event->data);
  if (f->unreliable || event->stream >= STREAMS) {
    return;
  }
  MUST(event->status == NM_OK);
  MUST(!f->read_end && f->read + data.len <= f->written);
  for (size_t i = 0; i < data.len; i++) {
    MUST(data.ptr[i] == byte_of(event->stream, f->read + i));
  }
  f->read += data.len;
  f->read_end = event->eof;
  MUST(!event->eof || (f->ended && f->read == f->written));
}

static void heard(world *w, int at, const nm_event *event) {
  if (event->kind == NM_EVENT_STREAM_DATA) {
    read_data(at, event);
    nm_engine_credit(w->sides[at].engine, 1, w->now);
  } else if (event->kind == NM_EVENT_STREAM_SENT) {
    MUST(event->done_bytes <= event->total_bytes);
    MUST(event->status != NM_OK || event->done_bytes == event->total_bytes);
    ended++;
  }
}

static void write_some(world *w, int at, nm_reader *r) {
  uint8_t how = nm_reader_u8(r);
  size_t len = nm_reader_u16(r) % WRITE_MAX;
  uint16_t id = how % STREAMS;
  bool eof = (how & 0xC0) == 0xC0;
  flow *f = &flows[at][id];
  nm_block *block = nm_block_new(&nm_mem_system, len);
  MUST(block != NULL);
  for (size_t i = 0; i < len; i++) {
    nm_block_bytes(block)[i] = byte_of(id, f->written + i);
  }
  side *s = &w->sides[at];
  if (nm_engine_stream_write(s->engine, s->link, id, block, eof,
                             (nm_resource_compression)(how / STREAMS % 3),
                             &s->op, w->now) == NM_OK) {
    MUST(!f->ended || f->unreliable); /* a cancelled end is none */
    f->written += len;
    f->ended = eof;
    begun++;
  }
  nm_block_drop(block);
}

/* A message of a stream that its writer never made. */
static void forge(world *w, int to, nm_reader *r) {
  side *from = &w->sides[1 - to];
  uint8_t bytes[300];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  nm_channel_envelope envelope = {.msgtype = NM_CHANNEL_STREAM_DATA,
                                  .sequence = nm_reader_u16(r)};
  size_t len = nm_reader_u8(r);
  size_t left = nm_reader_left(r);
  nm_block *raw = NULL;
  envelope.payload = nm_reader_take(r, len < left ? len : left);
  for (unsigned id = 0; id < STREAMS; id++) {
    flows[1 - to][id].unreliable = true;
  }
  if (nm_channel_encode(&envelope, &out) == NM_OK &&
      nm_engine_link_seal(from->engine, from->link, NM_DATA, NM_CONTEXT_CHANNEL,
                          nm_writer_done(&out), &raw) == NM_OK) {
    feed(w, to, nm_block_span(raw));
    nm_block_drop(raw);
  }
}

static void cancel(world *w, int at) {
  side *s = &w->sides[at];
  for (unsigned id = 0; id < STREAMS; id++) {
    flows[at][id].unreliable = true;
  }
  (void)nm_engine_cancel(s->engine, s->op, w->now);
}

static void step(world *w, nm_reader *r) {
  uint8_t code = nm_reader_u8(r);
  int at = code & 1;
  side *s = &w->sides[at];
  switch (code >> 1 & 7) {
  case 0:
  case 1:
    write_some(w, at, r);
    break;
  case 2:
    w->lose = nm_reader_u16(r);
    break;
  case 3:
    pass(w, (uint64_t)nm_reader_u16(r) * 500);
    break;
  case 4:
    feed(w, 1 - at, nm_span_of(s->last, s->last_len));
    break;
  case 5:
    nm_engine_credit(s->engine, nm_reader_u8(r), w->now);
    break;
  case 6:
    (void)nm_engine_channel_pause(s->engine, s->link, nm_reader_u8(r) & 1);
    break;
  default:
    if ((code & 16) != 0) {
      forge(w, at, r);
    } else if ((code & 32) != 0) {
      cancel(w, at);
    } else {
      (void)nm_engine_stream_reports(s->engine, s->link, (code & 64) != 0);
    }
  }
  if (code < 128) {
    settle(w); /* else it comes together with what follows */
  }
}

/* All that was written comes, when nothing stands in its way any more. */
static void let_it_come(world *w) {
  w->lose = 0;
  for (int i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    nm_engine_credit(s->engine, 10000, w->now);
    (void)nm_engine_channel_pause(s->engine, s->link, false);
  }
  pass(w, 60000000);
  for (int i = 0; i < 2; i++) {
    nm_channel_info info;
    bool open = nm_engine_channel_info(w->sides[i].engine, w->sides[i].link,
                                       &info) == NM_OK &&
                info.open;
    for (unsigned id = 0; open && id < STREAMS; id++) {
      const flow *f = &flows[i][id];
      MUST(f->unreliable || f->read == f->written);
      MUST(f->unreliable || f->read_end == f->ended);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static world w;
  nm_reader r = nm_reader_of(nm_span_of(data, size));
  memset(flows, 0, sizeof(flows));
  begun = 0;
  ended = 0;
  begin(&w);
  w.heard = heard;
  for (int i = 0; i < 2; i++) {
    MUST(nm_engine_channel_open(w.sides[i].engine, w.sides[i].link, true,
                                w.now) == NM_OK);
  }
  settle(&w);
  for (int i = 0; i < STEPS_MAX && nm_reader_left(&r) > 0; i++) {
    step(&w, &r);
  }
  let_it_come(&w);
  end(&w);
  MUST(begun == ended);
  return 0;
}
