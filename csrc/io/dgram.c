#include "io/dgram.h"

#include <errno.h>
#include <string.h>

/* Batches that one socket receives or sends in one turn. */
#define BATCHES_PER_TURN 4
/* After ENOBUFS: the pause before the next try, and how many tries one datagram
 * has. */
#define AGAIN_US 1000
#define AGAIN_MAX 20
/* Larger idle buffers are given back. */
#define BUFFER_KEEP (64u << 10)

static void flush(nm_dgram *dgram);
static void on_event(uv_poll_t *poll, int status, int events);

static nm_dgram *dgram_of_timer(nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  return (nm_dgram *)(void *)(at - offsetof(nm_dgram, again));
}

/* ---- what the loop waits for ---- */

static void set_polling(nm_dgram *dgram) {
  int wanted = 0;
  if (dgram->closing) {
    return;
  }
  if (dgram->calls->heard == NULL) {
    wanted |= UV_DISCONNECT; /* does not happen: only errors are told */
  } else if (!dgram->paused && !dgram->starved) {
    wanted |= UV_READABLE;
  }
  if (dgram->blocked) {
    wanted |= UV_WRITABLE;
  }
  if (wanted == dgram->polled) {
    return;
  }
  dgram->polled = wanted;
  if (wanted != 0) {
    (void)uv_poll_start(&dgram->poll, wanted, on_event);
  } else {
    (void)uv_poll_stop(&dgram->poll);
  }
}

/* ---- input ---- */

/* How many slots of the loop's buffer hold the longest datagram and one byte
 * more, by which a longer one is known. */
static unsigned slots_of(size_t slot) {
  size_t slots = NM_READ_BUFFER / slot;
  return slots > NM_UDP_BATCH ? NM_UDP_BATCH : (unsigned)slots;
}

/* The network says that something did not arrive. */
static void note_error(nm_dgram *dgram, int error) {
  dgram->port->net_errors++;
  dgram->calls->failed(dgram, dgram->port->id, error);
}

/* False when there is nothing more to do with this socket now. */
static bool receive_batch(nm_dgram *dgram) {
  nm_port *port = dgram->port;
  nm_udp_in in[NM_UDP_BATCH];
  size_t slot = dgram->datagram + 1;
  unsigned slots = slots_of(slot);
  int got =
      nm_udp_receive(dgram->fd, port->node->loop->read_buffer, slot, slots, in);
  if (got == -EAGAIN || got == -EWOULDBLOCK) {
    return false;
  }
  if (got < 0) {
    note_error(dgram, got);
    return false;
  }
  for (int i = 0; i < got && !dgram->closing; i++) {
    if (in[i].cut || in[i].data.len > dgram->datagram) {
      port->oversize++;
    } else {
      dgram->calls->heard(dgram, in[i].data, &in[i].from);
    }
  }
  nm_node_collect_jobs(port->node);
  dgram->starved = dgram->calls->is_full(dgram);
  return (unsigned)got == slots && !dgram->closing && !dgram->starved;
}

static void on_event(uv_poll_t *poll, int status, int events) {
  nm_dgram *dgram = poll->data;
  nm_node *node = dgram->port->node;
  (void)nm_loop_now(node->loop);
  if (status != 0) {
    /* libuv stops watching a socket that has an error to tell. */
    int error = nm_udp_error(dgram->fd);
    dgram->polled = 0;
    if (error != 0) {
      note_error(dgram, error);
    }
    set_polling(dgram);
    nm_node_wake(node);
    return;
  }
  if ((events & UV_WRITABLE) != 0) {
    dgram->blocked = false;
    flush(dgram);
  }
  if ((events & UV_READABLE) != 0) {
    nm_node_grant(node);
    for (int i = 0; i < BATCHES_PER_TURN && receive_batch(dgram); i++) {
    }
  }
  set_polling(dgram);
  nm_node_ifaces_changed(node, false);
  nm_node_wake(node);
}

/* ---- output ---- */

uint32_t nm_dgram_waiting(const nm_dgram *dgram) {
  return (uint32_t)((dgram->entries.len - dgram->entries_at) /
                    sizeof(nm_dgram_entry));
}

size_t nm_dgram_waiting_bytes(const nm_dgram *dgram) {
  return dgram->bytes.len - dgram->bytes_at;
}

static void be_wet(nm_dgram *dgram) {
  nm_loop *loop = dgram->port->node->loop;
  if (!dgram->is_wet) {
    dgram->is_wet = true;
    dgram->next_wet = loop->wet;
    loop->wet = dgram;
  }
}

static void leave_wet(nm_dgram *dgram) {
  nm_dgram **at = &dgram->port->node->loop->wet;
  while (*at != NULL && *at != dgram) {
    at = &(*at)->next_wet;
  }
  if (*at == dgram) {
    *at = dgram->next_wet;
  }
  dgram->is_wet = false;
}

static bool has_room(nm_dgram *dgram, nm_port *from, size_t size) {
  const nm_iface_setup *setup = from->setup;
  size_t bytes = nm_dgram_waiting_bytes(dgram);
  if (bytes > 0 && bytes + size > setup->queue_bytes) {
    nm_port_count_drop(from, NM_PORT_DROP_BYTES);
    return false;
  }
  if (nm_dgram_waiting(dgram) >= setup->queue_packets) {
    nm_port_count_drop(from, NM_PORT_DROP_PACKETS);
    return false;
  }
  return true;
}

bool nm_dgram_send(nm_dgram *dgram, nm_port *from, const nm_address *to,
                   nm_span data) {
  if (dgram->closing || !has_room(dgram, from, data.len)) {
    return false;
  }
  nm_dgram_entry entry = {
      .iface = from->id, .len = (uint32_t)data.len, .addressed = to != NULL};
  if (to != NULL) {
    entry.to = *to;
  }
  if (nm_buffer_reserve(&dgram->bytes, data.len) != NM_OK ||
      nm_buffer_append(&dgram->entries, &entry, sizeof(entry)) != NM_OK) {
    nm_port_count_drop(from, NM_PORT_DROP_MEMORY);
    return false;
  }
  (void)nm_buffer_append(&dgram->bytes, data.ptr, data.len);
  be_wet(dgram);
  return true;
}

static void give_back(nm_buffer *buf) {
  buf->len = 0;
  if (buf->cap > BUFFER_KEEP) {
    const nm_mem *mem = buf->mem;
    nm_buffer_dispose(buf);
    nm_buffer_init(buf, mem, NULL, 0, 0);
  }
}

/* Moves what waits to the front, once as much has gone. */
static void close_gap(nm_buffer *buf, size_t *at) {
  if (*at < buf->len - *at || *at == 0) {
    return;
  }
  memmove(buf->ptr, &buf->ptr[*at], buf->len - *at);
  buf->len -= *at;
  *at = 0;
}

static const nm_dgram_entry *entry_at(const nm_dgram *dgram, size_t index) {
  return (const nm_dgram_entry *)(const void *)&dgram->entries
      .ptr[dgram->entries_at + index * sizeof(nm_dgram_entry)];
}

/* The first datagram that waits is done with. */
static void take_first(nm_dgram *dgram) {
  dgram->bytes_at += entry_at(dgram, 0)->len;
  dgram->entries_at += sizeof(nm_dgram_entry);
  dgram->refusals = 0;
}

static unsigned fill_batch(const nm_dgram *dgram, nm_udp_out *list) {
  uint32_t waiting = nm_dgram_waiting(dgram);
  unsigned count = waiting > NM_UDP_BATCH ? NM_UDP_BATCH : waiting;
  size_t at = dgram->bytes_at;
  for (unsigned i = 0; i < count; i++) {
    const nm_dgram_entry *entry = entry_at(dgram, i);
    list[i].data = nm_span_of(&dgram->bytes.ptr[at], entry->len);
    list[i].to = entry->addressed ? &entry->to : NULL;
    at += entry->len;
  }
  return count;
}

static void count_sent(nm_dgram *dgram, int sent) {
  for (int i = 0; i < sent; i++) {
    const nm_dgram_entry *entry = entry_at(dgram, 0);
    nm_port *from = nm_port_find(dgram->port->node, entry->iface);
    if (from != NULL) {
      from->wire_tx += entry->len;
    }
    take_first(dgram);
  }
}

static nm_port_drop reason_of(int error) {
  switch (error) {
  case -EMSGSIZE:
    return NM_PORT_DROP_TOO_LARGE;
  case -ENOBUFS:
  case -ENOMEM:
    return NM_PORT_DROP_BUFFERS;
  default:
    return NM_PORT_DROP_UNREACHABLE;
  }
}

/* The first datagram that waits cannot be sent, or not yet. True to go on. */
static bool meet_error(nm_dgram *dgram, int error) {
  nm_loop *loop = dgram->port->node->loop;
  if (error == -EAGAIN || error == -EWOULDBLOCK) {
    dgram->blocked = true;
    return false;
  }
  if ((error == -ENOBUFS || error == -ENOMEM) &&
      ++dgram->refusals <= AGAIN_MAX) {
    nm_loop_arm(loop, &dgram->again, loop->now.mono_us + AGAIN_US);
    return false;
  }
  nm_iface_id iface = entry_at(dgram, 0)->iface;
  nm_port *from = nm_port_find(dgram->port->node, iface);
  if (error == -ECONNREFUSED && ++dgram->refusals == 1) {
    /* Told of an earlier datagram; this one has not been tried. */
    note_error(dgram, error);
    return true;
  }
  if (from != NULL) {
    nm_port_count_drop(from, reason_of(error));
  }
  take_first(dgram);
  dgram->calls->failed(dgram, iface, error);
  return true;
}

static void flush(nm_dgram *dgram) {
  nm_udp_out list[NM_UDP_BATCH];
  if (nm_timer_armed(&dgram->again)) {
    return;
  }
  bool more = !dgram->blocked;
  while (more && !dgram->closing && nm_dgram_waiting(dgram) > 0) {
    unsigned count = fill_batch(dgram, list);
    int sent = nm_udp_send(dgram->fd, list, count);
    if (sent > 0) {
      count_sent(dgram, sent);
    } else {
      more = meet_error(dgram, sent);
    }
  }
  if (nm_dgram_waiting(dgram) == 0) {
    give_back(&dgram->bytes);
    give_back(&dgram->entries);
    dgram->bytes_at = 0;
    dgram->entries_at = 0;
  } else {
    close_gap(&dgram->bytes, &dgram->bytes_at);
    close_gap(&dgram->entries, &dgram->entries_at);
  }
  set_polling(dgram);
  if (dgram->port->node->phase != NM_NODE_IS_OPEN) {
    nm_node_wake(dgram->port->node); /* its close waits for this */
  }
}

static void try_again(void *user, nm_timer *timer) {
  nm_dgram *dgram = dgram_of_timer(timer);
  (void)user;
  flush(dgram);
}

void nm_dgram_flush_all(nm_loop *loop) {
  while (loop->wet != NULL) {
    nm_dgram *dgram = loop->wet;
    loop->wet = dgram->next_wet;
    dgram->is_wet = false;
    flush(dgram);
  }
}

/* ---- life ---- */

nm_dgram *nm_dgram_new(nm_port *port, int fd, size_t datagram,
                       const nm_dgram_calls *calls, void *user) {
  nm_loop *loop = port->node->loop;
  const nm_mem *mem = port->node->mem;
  nm_dgram *dgram = nm_alloc_zero(mem, 1, sizeof(*dgram));
  if (dgram == NULL || nm_loop_reserve_timers(loop, 1) != NM_OK) {
    nm_release(mem, dgram);
    nm_fd_close(fd);
    return NULL;
  }
  if (uv_poll_init(&loop->uv, &dgram->poll, fd) != 0) {
    nm_loop_unreserve_timers(loop, 1);
    nm_release(mem, dgram);
    nm_fd_close(fd);
    return NULL;
  }
  dgram->port = port;
  dgram->fd = fd;
  dgram->datagram = datagram;
  dgram->calls = calls;
  dgram->user = user;
  dgram->poll.data = dgram;
  dgram->again.fire = try_again;
  nm_buffer_init(&dgram->bytes, mem, NULL, 0, 0);
  nm_buffer_init(&dgram->entries, mem, NULL, 0, 0);
  dgram->paused = true; /* until it listens */
  port->handles++;
  set_polling(dgram);
  return dgram;
}

int nm_dgram_listen(nm_dgram *dgram) {
  dgram->paused = dgram->port->paused;
  dgram->polled = 0;
  if (dgram->paused) {
    return 0;
  }
  dgram->polled = UV_READABLE;
  return uv_poll_start(&dgram->poll, UV_READABLE, on_event);
}

void nm_dgram_pause(nm_dgram *dgram, bool on) {
  dgram->paused = on;
  set_polling(dgram);
}

void nm_dgram_go_on(nm_dgram *dgram) {
  if (dgram->starved) {
    dgram->starved = false;
    set_polling(dgram);
  }
}

static void on_closed(uv_handle_t *handle) {
  nm_dgram *dgram = handle->data;
  nm_port *port = dgram->port;
  const nm_mem *mem = port->node->mem;
  nm_fd_close(dgram->fd);
  nm_buffer_dispose(&dgram->bytes);
  nm_buffer_dispose(&dgram->entries);
  nm_loop_unreserve_timers(port->node->loop, 1);
  nm_release(mem, dgram);
  nm_port_handle_closed(port);
}

void nm_dgram_close(nm_dgram *dgram) {
  if (dgram == NULL || dgram->closing) {
    return;
  }
  if (dgram->is_wet) {
    leave_wet(dgram);
    flush(dgram);
  }
  dgram->closing = true;
  nm_timer_disarm(&dgram->port->node->loop->timers, &dgram->again);
  uv_close((uv_handle_t *)&dgram->poll, on_closed);
}
