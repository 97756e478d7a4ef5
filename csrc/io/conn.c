/* A stream connection: its life, framing and fair input. conn_out.c has the
 * output.
 */
#include "io/port.h"

#include <string.h>

/* Reads of one connection in one turn; then others have theirs. */
#define READS_PER_TURN 4
/* Frames with access codes of one connection in one turn: each costs this
 * thread a signature, right or wrong. */
#define CODES_PER_TURN 32
/* How often that is looked at while frames of one read are taken. */
#define JOBS_CHECK 32

/* ---- limits ---- */

static void set_limits(nm_conn *conn) {
  size_t frame_max = nm_port_frame_max(conn->port);
  if (conn->frame_max == frame_max) {
    return;
  }
  conn->frame_max = frame_max;
  nm_buffer_dispose(&conn->partial);
  nm_buffer_init(&conn->partial, conn->port->node->mem, NULL, 0, 0);
  if (conn->kiss) {
    nm_kiss_counters counters = conn->d.kiss.counters;
    nm_kiss_limits limits = {.frame_max = frame_max};
    (void)nm_kiss_decoder_init(&conn->d.kiss, NULL, &limits);
    conn->d.kiss.counters = counters;
  } else {
    nm_hdlc_counters counters = conn->d.hdlc.counters;
    nm_hdlc_limits limits = {.frame_min = NM_HDLC_FRAME_MIN,
                             .frame_max = frame_max,
                             .buffered_max = 2 * frame_max};
    (void)nm_hdlc_decoder_init(&conn->d.hdlc, NULL, &limits);
    conn->d.hdlc.counters = counters;
  }
}

/* ---- buffers, of which idle connections have none ---- */

void nm_conn_let_go(nm_conn *conn, nm_buffer *buf, nm_buffer *spare,
                    size_t keep_max) {
  buf->len = 0;
  if (buf->cap > spare->cap && buf->cap <= keep_max) {
    nm_buffer kept = *spare;
    *spare = *buf;
    *buf = kept;
  }
  nm_buffer_dispose(buf);
  nm_buffer_init(buf, conn->port->node->mem, NULL, 0, 0);
}

void nm_conn_take_spare(nm_conn *conn, nm_buffer *buf, nm_buffer *spare) {
  if (buf->ptr == NULL && spare->ptr != NULL) {
    *buf = *spare;
    nm_buffer_init(spare, conn->port->node->loop->mem, NULL, 0, 0);
  }
}

/* Memory for the decoder, until give_back_partial. */
static int take_partial(nm_conn *conn) {
  nm_buffer *spare = &conn->port->node->loop->spare_partial;
  if (conn->partial.ptr != NULL) {
    return NM_OK;
  }
  if (spare->cap >= conn->frame_max) {
    nm_conn_take_spare(conn, &conn->partial, spare);
  } else if (nm_buffer_reserve(&conn->partial, conn->frame_max) != NM_OK) {
    return NM_E(MEMORY);
  }
  if (conn->kiss) {
    conn->d.kiss.storage = conn->partial.ptr;
  } else {
    conn->d.hdlc.storage = conn->partial.ptr;
  }
  return NM_OK;
}

/* Unless a frame is under way. */
static void give_back_partial(nm_conn *conn) {
  nm_buffer *spare = &conn->port->node->loop->spare_partial;
  size_t held = conn->kiss ? conn->d.kiss.len : conn->d.hdlc.len;
  if (held == 0) {
    nm_conn_let_go(conn, &conn->partial, spare, SIZE_MAX);
  }
}

static void count(const nm_conn *conn, nm_conn_counters *sum) {
  if (conn->kiss) {
    sum->discarded += conn->d.kiss.counters.discarded_bytes;
    sum->runts += conn->d.kiss.counters.runts;
    sum->oversize += conn->d.kiss.counters.oversize;
  } else {
    sum->discarded += conn->d.hdlc.counters.discarded_bytes;
    sum->runts += conn->d.hdlc.counters.runts;
    sum->oversize += conn->d.hdlc.counters.oversize;
  }
}

/* ---- the lines of those that relayed announces wait for ---- */

void nm_conn_join_line(nm_conn *conn, nm_conn_line *line) {
  conn->line = line;
  conn->next_in_line = NULL;
  conn->prev_in_line = line->last;
  if (line->last != NULL) {
    line->last->next_in_line = conn;
  } else {
    line->first = conn;
  }
  line->last = conn;
}

void nm_conn_leave_line(nm_conn *conn) {
  nm_conn_line *line = conn->line;
  if (line == NULL) {
    return;
  }
  if (conn->prev_in_line != NULL) {
    conn->prev_in_line->next_in_line = conn->next_in_line;
  } else {
    line->first = conn->next_in_line;
  }
  if (conn->next_in_line != NULL) {
    conn->next_in_line->prev_in_line = conn->prev_in_line;
  } else {
    line->last = conn->prev_in_line;
  }
  conn->line = NULL;
}

/* ---- life ---- */

nm_conn *nm_conn_new(nm_port *port, bool is_pipe) {
  const nm_mem *mem = port->node->mem;
  uv_loop_t *uv = &port->node->loop->uv;
  nm_conn *conn = nm_alloc_zero(mem, 1, sizeof(*conn));
  if (conn == NULL) {
    return NULL;
  }
  conn->port = port;
  conn->is_pipe = is_pipe;
  conn->kiss = port->setup->kiss;
  int error = is_pipe ? uv_pipe_init(uv, &conn->u.pipe, 0)
                      : uv_tcp_init(uv, &conn->u.tcp);
  if (error != 0) {
    nm_release(mem, conn);
    return NULL;
  }
  nm_buffer_init(&conn->partial, mem, NULL, 0, 0);
  set_limits(conn);
  nm_buffer_init(&conn->filling, mem, NULL, 0, 0);
  nm_buffer_init(&conn->flying, mem, NULL, 0, 0);
  nm_buffer_init(&conn->parts, mem, NULL, 0, 0);
  nm_buffer_init(&conn->stash, mem, NULL, 0, 0);
  conn->u.handle.data = conn;
  port->handles++;
  return conn;
}

static void drop_later(nm_conn *conn) {
  for (uint32_t i = 0; i < conn->later_count; i++) {
    nm_block_drop(conn->later[(conn->later_first + i) % conn->later_cap]);
  }
  nm_release(conn->port->node->mem, conn->later);
}

static void on_closed(uv_handle_t *handle) {
  nm_conn *conn = handle->data;
  nm_port *port = conn->port;
  const nm_mem *mem = port->node->mem;
  nm_buffer_dispose(&conn->filling);
  nm_buffer_dispose(&conn->flying);
  nm_buffer_dispose(&conn->parts);
  drop_later(conn);
  nm_buffer_dispose(&conn->stash);
  nm_buffer_dispose(&conn->partial);
  nm_release(mem, conn);
  nm_port_handle_closed(port);
}

void nm_conn_close(nm_conn *conn) {
  if (conn->closing) {
    return;
  }
  nm_port *port = conn->port;
  nm_conn_counters counters = {0};
  conn->closing = true;
  conn->u.handle.data = conn;
  count(conn, &counters);
  port->discarded += counters.discarded;
  port->runts += counters.runts;
  port->oversize += counters.oversize;
  if (port->conn == conn) {
    port->conn = NULL;
  }
  nm_conn_leave_line(conn);
  uv_close(&conn->u.handle, on_closed);
}

void nm_conn_fail(nm_conn *conn, int error) {
  if (!conn->closing && conn->ended != NULL) {
    void (*ended)(nm_port * port, int error) = conn->ended;
    conn->ended = NULL;
    ended(conn->port, error);
  }
}

/* ---- input ---- */

static void be_hungry(nm_conn *conn) {
  nm_loop *loop = conn->port->node->loop;
  if (!conn->is_hungry && !conn->closing) {
    conn->is_hungry = true;
    conn->next_hungry = loop->hungry;
    loop->hungry = conn;
  }
}

static bool next_frame(nm_conn *conn, nm_reader *in, nm_span *frame) {
  uint8_t command;
  return conn->kiss ? nm_kiss_decoder_next(&conn->d.kiss, in, &command, frame)
                    : nm_hdlc_decoder_next(&conn->d.hdlc, in, frame);
}

/* Frames that are handed over together. */
typedef struct batch {
  nm_span frames[NM_PORT_BATCH];
  size_t count;
  size_t room_used; /* of nm_port_room */
} batch;

static void hand_over(nm_conn *conn, batch *b) {
  if (b->count > 0) {
    nm_port_input_many(conn->port, b->frames, b->count);
  }
  b->count = 0;
  b->room_used = 0;
}

static bool lies_in(nm_span bytes, const nm_reader *in) {
  uintptr_t first = (uintptr_t)in->base;
  uintptr_t at = (uintptr_t)bytes.ptr;
  return at >= first && at < first + in->len;
}

/* A frame with escapes lies in the decoder, until the next one. */
static void add_frame(nm_conn *conn, batch *b, const nm_reader *in,
                      nm_span frame) {
  if (frame.len > NM_PORT_BATCH_FRAME) {
    hand_over(conn, b);
    nm_port_input(conn->port, frame, NULL);
    return;
  }
  if (frame.len > 0 && !lies_in(frame, in)) {
    uint8_t *copy = nm_port_room(conn->port) + b->room_used;
    memcpy(copy, frame.ptr, frame.len);
    b->room_used += frame.len;
    frame.ptr = copy;
  }
  b->frames[b->count++] = frame;
  if (b->count == NM_PORT_BATCH) {
    hand_over(conn, b);
  }
}

/* Takes frames until |in| is used up, the port has too many jobs, or the turn
 * has none for it any more. */
static void take_frames(nm_conn *conn, nm_reader *in) {
  nm_port *port = conn->port;
  batch b = {.count = 0};
  if (take_partial(conn) != NM_OK) {
    nm_conn_fail(conn, UV_ENOMEM);
    return;
  }
  nm_span frame;
  uint32_t count = 0;
  bool codes = port->setup->spec.ifac_set;
  conn->sated = false;
  while (next_frame(conn, in, &frame)) {
    conn->fed = true;
    add_frame(conn, &b, in, frame);
    if (++count % JOBS_CHECK == 0) {
      hand_over(conn, &b);
      nm_node_collect_jobs(port->node);
      if (port->jobs >= NM_PORT_JOBS_HIGH) {
        conn->starved = true;
        break;
      }
      if (codes && count >= CODES_PER_TURN) {
        conn->sated = true;
        break;
      }
    }
  }
  hand_over(conn, &b);
  give_back_partial(conn);
  nm_node_collect_jobs(port->node); /* short reads come often */
  conn->starved = conn->starved || port->jobs >= NM_PORT_JOBS_HIGH;
}

static void stop_reading(nm_conn *conn) {
  if (conn->reading) {
    conn->reading = false;
    (void)uv_read_stop(&conn->u.stream);
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf) {
  const nm_conn *conn = handle->data;
  (void)suggested;
  buf->base = (char *)conn->port->node->loop->read_buffer;
  buf->len = NM_READ_BUFFER;
}

/* Keeps what could not be taken yet. */
static void stash_rest(nm_conn *conn, nm_reader *in) {
  nm_span rest = nm_reader_rest(in);
  conn->stash.len = 0;
  conn->stash_at = 0;
  if (nm_buffer_append(&conn->stash, rest.ptr, rest.len) != NM_OK) {
    nm_conn_fail(conn, UV_ENOMEM); /* a gap in the stream cannot be mended */
  }
}

/* Reads of one turn are counted; false when there were enough. */
static bool may_read_on(nm_conn *conn) {
  uint64_t turn = atomic_load_explicit(&conn->port->node->loop->turns,
                                       memory_order_relaxed);
  if (conn->read_turn != turn) {
    conn->read_turn = turn;
    conn->reads = 0;
  }
  return ++conn->reads < READS_PER_TURN;
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
  nm_conn *conn = stream->data;
  nm_port *port = conn->port;
  (void)nm_loop_now(port->node->loop);
  if (got < 0) {
    nm_conn_fail(conn, (int)got);
    return;
  }
  if (got == 0) {
    return;
  }
  port->wire_rx += (uint64_t)got;
  nm_node_grant(port->node);
  nm_reader in = nm_reader_of(nm_span_of(buf->base, (size_t)got));
  take_frames(conn, &in);
  if (conn->starved || conn->sated) {
    stop_reading(conn);
    stash_rest(conn, &in);
  }
  if (conn->starved) {
    return;
  }
  if (conn->sated) {
    be_hungry(conn);
  } else if (!may_read_on(conn)) {
    stop_reading(conn);
    be_hungry(conn);
  }
}

static int start_reading(nm_conn *conn) {
  if (conn->reading || conn->closing || conn->port->paused) {
    return 0;
  }
  conn->reading = true;
  return uv_read_start(&conn->u.stream, on_alloc, on_read);
}

/* Goes on with the stash, then with the socket. */
static void feed(nm_conn *conn) {
  if (conn->closing || conn->starved || conn->port->paused) {
    return;
  }
  nm_node_grant(conn->port->node);
  nm_reader in = nm_reader_of(
      nm_span_slice(nm_span_of(conn->stash.ptr, conn->stash.len),
                    conn->stash_at, conn->stash.len - conn->stash_at));
  take_frames(conn, &in);
  conn->stash_at += in.pos;
  if (conn->closing || conn->starved) {
    return;
  }
  if (conn->sated) {
    be_hungry(conn);
    return;
  }
  conn->stash_at = 0;
  nm_buffer_dispose(&conn->stash);
  nm_buffer_init(&conn->stash, conn->port->node->mem, NULL, 0, 0);
  int error = start_reading(conn);
  if (error != 0) {
    nm_conn_fail(conn, error);
  }
}

void nm_conn_port_relieve(nm_port *port) {
  nm_conn *conn = port->conn;
  if (conn != NULL && conn->starved) {
    conn->starved = false;
    be_hungry(conn);
  }
}

void nm_conn_port_discarded(const nm_port *port, nm_conn_counters *sum) {
  if (port->conn != NULL) {
    count(port->conn, sum);
  }
}

void nm_conn_feed_all(nm_loop *loop) {
  nm_conn *conn = loop->hungry;
  loop->hungry = NULL;
  while (conn != NULL) {
    nm_conn *next = conn->next_hungry;
    conn->next_hungry = NULL;
    conn->is_hungry = false;
    feed(conn);
    conn = next;
  }
}

int nm_conn_start(nm_conn *conn, void (*ended)(nm_port *port, int error)) {
  conn->ended = ended;
  conn->opened_us = conn->port->node->loop->now.mono_us;
  return start_reading(conn);
}

void nm_conn_pause(nm_conn *conn, bool on) {
  if (on) {
    stop_reading(conn);
  } else {
    be_hungry(conn);
  }
}

void nm_conn_change(nm_conn *conn) {
  set_limits(conn);
}
