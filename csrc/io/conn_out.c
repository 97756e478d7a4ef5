/* The output of a stream connection: two lanes, one write per turn of each.
 *
 * Parts of resources come in windows of up to a megabyte. Everything else goes
 * ahead of those that the system has not taken yet, so that a small packet
 * waits for one part at most, and for what the system holds
 * (NM_TCP_UNSENT_MAX). Within a lane the order stays.
 *
 * Relayed announces go to all connections, one or two at a time, and nobody
 * waits for them. A connection that got some a moment ago lets the next ones
 * come together, and of a thousand connections only a few are written in a
 * turn, so that data passes between them.
 */
#include "io/port.h"

#include <string.h>

/* Larger buffers are not kept for the next connection that sends. */
#define BUFFER_KEEP (64u << 10)
/* So much of the parts is encoded at a time: as long as it is in the cache, the
 * system takes it for less. */
#define ENCODED_MAX BUFFER_KEEP
/* So many of these in a turn; what comes up meanwhile need not wait for all. */
#define PIECES_PER_TURN 2
/* A ring of parts begins with so many places. */
#define LATER_MIN 16

/* How long relayed announces wait for others. */
#define REST_US 50000
/* So many bytes wait no longer. */
#define REST_BYTES (8u << 10)
/* Connections that are written in a turn for relayed announces alone. */
#define READY_PER_TURN 32

static void be_dirty(nm_conn *conn) {
  nm_loop *loop = conn->port->node->loop;
  if (!conn->is_dirty) {
    conn->is_dirty = true;
    conn->next_dirty = loop->dirty;
    loop->dirty = conn;
  }
}

/* ---- relayed announces ---- */

/* There is a relayed announce to write. */
static void be_patient(nm_conn *conn) {
  nm_loop *loop = conn->port->node->loop;
  uint64_t now = loop->now.mono_us;
  if (conn->is_dirty || conn->line == &loop->ready) {
    return;
  }
  if (conn->filling.len >= REST_BYTES || now >= conn->relayed_us + REST_US ||
      conn->port->node->phase != NM_NODE_IS_OPEN) {
    nm_conn_leave_line(conn);
    nm_conn_join_line(conn, &loop->ready);
  } else if (conn->line == NULL) {
    conn->relayed_us = now;
    nm_conn_join_line(conn, &loop->resting);
  }
}

void nm_conn_rested(void *user, nm_timer *timer) {
  (void)user;
  (void)timer; /* the turn that it makes does the rest */
}

static void flush_ready(nm_loop *loop) {
  nm_conn *conn;
  uint64_t now = loop->now.mono_us;
  while ((conn = loop->resting.first) != NULL &&
         now >= conn->relayed_us + REST_US) {
    nm_conn_leave_line(conn);
    nm_conn_join_line(conn, &loop->ready);
  }
  for (int i = 0; (conn = loop->ready.first) != NULL && i < READY_PER_TURN;
       i++) {
    nm_conn_flush(conn);
  }
  conn = loop->resting.first;
  if (conn != NULL && !nm_timer_armed(&loop->rest)) {
    nm_loop_arm(loop, &loop->rest, conn->relayed_us + REST_US);
  }
}

/* ---- what waits ---- */

static size_t queued_bytes(const nm_conn *conn) {
  return conn->filling.len + conn->flying.len + conn->parts.len -
         conn->parts_at + conn->later_bytes;
}

static uint32_t queued_packets(const nm_conn *conn) {
  return conn->filling_packets + conn->flying_packets + conn->parts_packets +
         conn->later_count;
}

/* Every byte escaped: room is cheaper than another look at each byte. */
static size_t room_for(nm_span packet) {
  return 2 * packet.len + 3;
}

static bool has_room(nm_conn *conn, size_t size) {
  nm_port *port = conn->port;
  size_t bytes = queued_bytes(conn);
  if (bytes > 0 && bytes + size > port->setup->queue_bytes) {
    nm_port_count_drop(port, NM_PORT_DROP_BYTES);
    return false;
  }
  if (queued_packets(conn) >= port->setup->queue_packets) {
    nm_port_count_drop(port, NM_PORT_DROP_PACKETS);
    return false;
  }
  return true;
}

/* Encodes |packet| behind what |buf| has. */
static int encode(const nm_conn *conn, nm_buffer *buf, nm_span packet) {
  int status = nm_buffer_reserve(buf, room_for(packet));
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = nm_writer_of(buf->ptr, buf->cap);
  w.pos = buf->len;
  status = conn->kiss ? nm_kiss_frame(&w, NM_KISS_DATA, packet)
                      : nm_hdlc_frame(&w, packet);
  buf->len = w.pos;
  return status;
}

/* ---- parts that wait ---- */

static size_t all_parts(const nm_conn *conn) {
  return conn->parts.len - conn->parts_at;
}

static nm_block *take_later(nm_conn *conn) {
  nm_block *part = conn->later[conn->later_first];
  conn->later_first = (conn->later_first + 1) % conn->later_cap;
  conn->later_count--;
  conn->later_bytes -= nm_block_span(part).len;
  return part;
}

static void free_ring(nm_conn *conn) {
  nm_release(conn->port->node->mem, conn->later);
  conn->later = NULL;
  conn->later_cap = 0;
  conn->later_first = 0;
}

static bool widen_ring(nm_conn *conn) {
  uint32_t cap = conn->later_cap == 0 ? LATER_MIN : 2 * conn->later_cap;
  nm_block **ring =
      nm_alloc_zero(conn->port->node->mem, cap, sizeof(nm_block *));
  if (ring == NULL) {
    return false;
  }
  uint32_t count = conn->later_count;
  for (uint32_t i = 0; i < count; i++) {
    ring[i] = conn->later[(conn->later_first + i) % conn->later_cap];
  }
  free_ring(conn);
  conn->later = ring;
  conn->later_cap = cap;
  return true;
}

static bool send_later(nm_conn *conn, nm_span packet) {
  nm_port *port = conn->port;
  if (conn->later_count == conn->later_cap && !widen_ring(conn)) {
    return false;
  }
  /* With an access code it is not the engine's packet any more. */
  nm_block *part = nm_block_span(port->part).ptr == packet.ptr
                       ? nm_block_hold(port->part)
                       : nm_block_copy(port->node->mem, packet);
  if (part == NULL) {
    return false;
  }
  conn->later[(conn->later_first + conn->later_count) % conn->later_cap] = part;
  conn->later_count++;
  conn->later_bytes += packet.len;
  return true;
}

/* Encodes what there is room for. False when no parts are left. */
static bool encode_parts(nm_conn *conn) {
  nm_loop *loop = conn->port->node->loop;
  while (conn->later_count > 0) {
    nm_span next = nm_block_span(conn->later[conn->later_first]);
    if (conn->parts.len > 0 && conn->parts.len + room_for(next) > ENCODED_MAX) {
      return true;
    }
    nm_conn_take_spare(conn, &conn->parts, &loop->spare_filling);
    if ((conn->parts.cap > 0 ||
         nm_buffer_reserve(&conn->parts, ENCODED_MAX) == NM_OK) &&
        encode(conn, &conn->parts, next) == NM_OK) {
      conn->parts_packets++;
    } else {
      nm_port_count_drop(conn->port, NM_PORT_DROP_MEMORY);
    }
    nm_block_drop(take_later(conn));
  }
  free_ring(conn);
  return all_parts(conn) > 0;
}

/* ---- what is sent ---- */

static bool send_now(nm_conn *conn, nm_span packet) {
  nm_conn_take_spare(conn, &conn->filling,
                     &conn->port->node->loop->spare_filling);
  bool encoded = encode(conn, &conn->filling, packet) == NM_OK;
  conn->filling_packets += encoded;
  return encoded;
}

bool nm_conn_send(nm_conn *conn, nm_span packet) {
  if (conn->closing || !has_room(conn, room_for(packet))) {
    return false;
  }
  bool taken = conn->port->part == NULL ? send_now(conn, packet)
                                        : send_later(conn, packet);
  if (taken && conn->port->is_patient) {
    be_patient(conn);
  } else if (taken) {
    be_dirty(conn);
  } else {
    nm_port_count_drop(conn->port, NM_PORT_DROP_MEMORY);
  }
  return taken;
}

/* ---- the lane of the parts ---- */

static void give_back(nm_conn *conn, nm_buffer *buf) {
  nm_loop *loop = conn->port->node->loop;
  nm_conn_let_go(conn, buf, &loop->spare_filling, BUFFER_KEEP);
}

/* The end of the frame that byte |at| belongs to. A flag stands at the
 * beginning and at the end of each frame, and nowhere else. */
static size_t frame_end(const nm_conn *conn, size_t at) {
  const uint8_t *bytes = conn->parts.ptr;
  uint8_t flag = conn->kiss ? NM_KISS_FEND : NM_HDLC_FLAG;
  bool begins =
      bytes[at] == flag && (at == conn->parts_at || bytes[at - 1] == flag);
  size_t from = at + begins;
  const uint8_t *end = memchr(&bytes[from], flag, conn->parts.len - from);
  return end == NULL ? conn->parts.len : (size_t)(end - bytes) + 1;
}

/* Takes everything up to |end|, which is the end of a frame, off the lane. */
static void take_parts(nm_conn *conn, size_t end) {
  if (end == conn->parts.len) {
    conn->parts_at = 0;
    conn->parts_packets = 0;
    give_back(conn, &conn->parts);
    return;
  }
  while (conn->parts_at < end) {
    conn->parts_at = frame_end(conn, conn->parts_at);
    conn->parts_packets--;
  }
  if (conn->parts_at > conn->parts.len / 2) {
    conn->parts.len -= conn->parts_at;
    memmove(conn->parts.ptr, &conn->parts.ptr[conn->parts_at], conn->parts.len);
    conn->parts_at = 0;
  }
}

/* ---- writing ---- */

static void on_written(uv_write_t *request, int status) {
  nm_conn *conn = request->data;
  conn->writing = false;
  conn->port->node->loop->writing--;
  conn->port->wire_tx += status == 0 ? conn->flying.len : 0;
  give_back(conn, &conn->flying);
  conn->flying_packets = 0;
  nm_node_ifaces_changed(conn->port->node, false);
  if (status != 0) {
    nm_conn_fail(conn, status);
  } else {
    nm_conn_flush(conn);
  }
  nm_node_wake(conn->port->node);
}

/* Hands `flying` from |done| on to libuv, which writes it as the peer takes it.
 */
static void write_later(nm_conn *conn, size_t done) {
  uv_buf_t rest = uv_buf_init((char *)&conn->flying.ptr[done],
                              (unsigned)(conn->flying.len - done));
  conn->writing = true;
  conn->port->node->loop->writing++;
  conn->request.write.data = conn;
  int error =
      uv_write(&conn->request.write, &conn->u.stream, &rest, 1, on_written);
  if (error != 0) {
    conn->writing = false;
    conn->port->node->loop->writing--;
    nm_conn_fail(conn, error);
  }
}

/* Writes what the system takes now: that many bytes, or a libuv error. */
static int write_now(nm_conn *conn, const uint8_t *bytes, size_t len) {
  uv_buf_t all = uv_buf_init((char *)bytes, (unsigned)len);
  int done = uv_try_write(&conn->u.stream, &all, 1);
  if (done < 0 && done != UV_EAGAIN) {
    nm_conn_fail(conn, done);
    return done;
  }
  return done < 0 ? 0 : done;
}

/* True when all of it is gone, and the parts may follow. */
static bool flush_first(nm_conn *conn) {
  nm_buffer *out = &conn->filling;
  if (out->len == 0) {
    return true;
  }
  int done = write_now(conn, out->ptr, out->len);
  if (done < 0) {
    return false;
  }
  if ((size_t)done == out->len) {
    conn->port->wire_tx += (uint64_t)done;
    give_back(conn, out);
    conn->filling_packets = 0;
    return true;
  }
  nm_buffer empty = conn->flying;
  conn->flying = conn->filling;
  conn->filling = empty;
  conn->flying_packets = conn->filling_packets;
  conn->filling_packets = 0;
  conn->parts_turn = true;
  write_later(conn, (size_t)done);
  return false;
}

/* Writes |len| bytes of whole parts. What is left of one that has begun is
 * written before anything else. True when all are gone. */
static bool flush_parts(nm_conn *conn, size_t len) {
  int done =
      len == 0 ? 0 : write_now(conn, &conn->parts.ptr[conn->parts_at], len);
  if (len == 0 || done < 0) {
    return len == 0;
  }
  conn->port->wire_tx += (uint64_t)done;
  size_t at = conn->parts_at + (size_t)done;
  if ((size_t)done == len) {
    take_parts(conn, at);
    return true;
  }
  size_t end = frame_end(conn, at);
  if (nm_buffer_append(&conn->flying, &conn->parts.ptr[at], end - at) !=
      NM_OK) {
    nm_conn_fail(conn, UV_ENOMEM); /* half a frame is out */
    return false;
  }
  conn->flying_packets = 1;
  take_parts(conn, end);
  write_later(conn, 0);
  return false;
}

/* Each time that the first lane has had to wait for the system, one part goes
 * ahead of it: a medium that others fill stops no transfer. */
static bool flush_one_part(nm_conn *conn) {
  if (!conn->parts_turn || all_parts(conn) == 0) {
    return true;
  }
  conn->parts_turn = false;
  return flush_parts(conn, frame_end(conn, conn->parts_at) - conn->parts_at);
}

void nm_conn_flush(nm_conn *conn) {
  if (conn->line != NULL) {
    nm_conn_leave_line(conn);
    conn->relayed_us = conn->port->node->loop->now.mono_us;
  }
  if (conn->port->node->phase != NM_NODE_IS_OPEN) {
    nm_node_wake(conn->port->node); /* its close waits for this */
  }
  bool more = !conn->closing && !conn->writing;
  for (int piece = 0; more && piece < PIECES_PER_TURN; piece++) {
    more = encode_parts(conn);
    more = flush_one_part(conn) && flush_first(conn) &&
           flush_parts(conn, all_parts(conn)) && more;
  }
  if (more) {
    be_dirty(conn);
  }
}

void nm_conn_flush_all(nm_loop *loop) {
  nm_conn *conn = loop->dirty;
  loop->dirty = NULL;
  while (conn != NULL) {
    nm_conn *next = conn->next_dirty;
    conn->next_dirty = NULL;
    conn->is_dirty = false;
    nm_conn_flush(conn);
    conn = next;
  }
  flush_ready(loop);
}

uint32_t nm_conn_port_waiting(const nm_port *port, size_t *bytes) {
  const nm_conn *conn = port->conn;
  if (conn == NULL || conn->closing) {
    return 0;
  }
  *bytes += queued_bytes(conn);
  return queued_packets(conn);
}
