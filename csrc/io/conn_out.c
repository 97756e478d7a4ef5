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
         conn->parts_at;
}

static uint32_t queued_packets(const nm_conn *conn) {
  return conn->filling_packets + conn->flying_packets + conn->parts_packets;
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

bool nm_conn_send(nm_conn *conn, nm_span packet) {
  bool part = conn->port->sends_part;
  nm_buffer *buf = part ? &conn->parts : &conn->filling;
  /* Every byte escaped: room is cheaper than another look at each byte. */
  size_t size = 2 * packet.len + 3;
  if (conn->closing || !has_room(conn, size)) {
    return false;
  }
  if (!part) {
    nm_conn_take_spare(conn, buf, &conn->port->node->loop->spare_filling);
  }
  if (nm_buffer_reserve(buf, size) != NM_OK) {
    nm_port_count_drop(conn->port, NM_PORT_DROP_MEMORY);
    return false;
  }
  nm_writer w = nm_writer_of(buf->ptr, buf->cap);
  w.pos = buf->len;
  if (conn->kiss) {
    (void)nm_kiss_frame(&w, NM_KISS_DATA, packet);
  } else {
    (void)nm_hdlc_frame(&w, packet);
  }
  buf->len = w.pos;
  conn->filling_packets += !part;
  conn->parts_packets += part;
  if (conn->port->is_patient) {
    be_patient(conn);
  } else {
    be_dirty(conn);
  }
  return true;
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

static size_t all_parts(const nm_conn *conn) {
  return conn->parts.len - conn->parts_at;
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
  if (!conn->closing && !conn->writing && flush_one_part(conn) &&
      flush_first(conn)) {
    (void)flush_parts(conn, all_parts(conn));
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
