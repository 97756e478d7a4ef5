/* TCP servers: each accepted connection is an interface of its own. A server
 * survives storms: it takes a bounded number of connections per turn, closes
 * those beyond its limit and those of addresses that flap at once, and without
 * free descriptors takes the waiting ones off the queue with the one it holds
 * in reserve.
 */
#include "io/port.h"

#include <errno.h>
#include <string.h>

#define ACCEPTS_PER_TURN 64
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS 1000

/* ---- accepted connections ---- */

static void on_child_ended(nm_port *port, int error) {
  nm_port *server = port->parent;
  uint64_t now_us = port->node->loop->now.mono_us;
  (void)error;
  nm_flaps_ended(&server->listener->flaps, &server->setup->flaps,
                 port->node->mem, &port->conn->from, port->heard,
                 now_us - port->conn->opened_us, now_us);
  nm_port_remove(port);
}

static int start_child(nm_port *port) {
  (void)port;
  return NM_OK;
}

static bool put(nm_port *port, nm_span packet) {
  return port->conn != NULL && nm_conn_send(port->conn, packet);
}

static void pause_stream(nm_port *port, bool on) {
  if (port->conn != NULL) {
    nm_conn_pause(port->conn, on);
  }
}

static void change_stream(nm_port *port) {
  if (port->conn != NULL) {
    nm_conn_change(port->conn);
  }
}

static void stop_stream(nm_port *port) {
  if (port->conn != NULL) {
    nm_conn_close(port->conn);
  }
}

const nm_port_ops nm_port_tcp_child = {.start = start_child,
                                       .send = put,
                                       .pause = pause_stream,
                                       .stop = stop_stream,
                                       .change = change_stream,
                                       NM_PORT_OF_STREAM};

/* Takes |fd| over in every case. */
static bool adopt(nm_port *server, int fd, const char *host, uint16_t number,
                  const nm_flap_key *from) {
  nm_iface_setup setup;
  nm_port *port = NULL;
  nm_port_inherit(server, &setup);
  memcpy(setup.host, host, strlen(host) + 1);
  setup.port = number;
  int status = nm_port_add(server->node, &setup, number, &nm_port_tcp_child,
                           server, &port);
  nm_wipe(&setup, sizeof(setup));
  if (status != NM_OK) {
    nm_fd_close(fd);
    return false;
  }
  nm_tcp_tune(fd, server->setup->i2p_tunneled);
  port->conn = nm_conn_new(port, false);
  if (port->conn == NULL || uv_tcp_open(&port->conn->u.tcp, fd) != 0) {
    nm_fd_close(fd);
    nm_port_remove(port);
    return false;
  }
  port->conn->from = *from;
  if (nm_conn_start(port->conn, on_child_ended) != 0) {
    nm_port_remove(port);
    return false;
  }
  port->opened = 1;
  nm_port_set_up(port, true);
  return true;
}

/* ---- the listening socket ---- */

static void on_readable(uv_poll_t *poll, int status, int events);

static void set_polling(nm_port *port, bool on) {
  nm_listener *listener = port->listener;
  if (!listener->open || listener->polling == on) {
    return;
  }
  listener->polling = on;
  if (on) {
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_readable);
  } else {
    (void)uv_poll_stop(&listener->poll);
  }
}

static void end_backoff(void *user, nm_timer *timer) {
  nm_port *port = nm_port_of_timer(timer);
  (void)user;
  if (port->listener->reserve_fd < 0) {
    port->listener->reserve_fd = nm_reserve_open();
  }
  set_polling(port, !port->paused);
}

/* Without descriptors or memory: the waiting connections are turned away, and
 * the next ones wait for a moment. */
static void back_off(nm_port *port, int error) {
  nm_listener *listener = port->listener;
  nm_loop *loop = port->node->loop;
  char host[NM_ADDRESS_TEXT_MAX];
  uint16_t number;
  if (listener->reserve_fd >= 0) {
    nm_fd_close(listener->reserve_fd);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
      int fd = nm_accept_open(listener->fd, host, &number);
      if (fd < 0) {
        break;
      }
      nm_fd_close(fd);
      port->refusals[NM_PORT_REFUSED_RESOURCES]++;
    }
    listener->reserve_fd = nm_reserve_open();
  }
  uint32_t ms =
      listener->backoff_ms == 0 ? BACKOFF_FIRST_MS : listener->backoff_ms * 2;
  listener->backoff_ms = ms > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : ms;
  set_polling(port, false);
  port->timer.fire = end_backoff;
  nm_loop_arm(loop, &port->timer,
              loop->now.mono_us + (uint64_t)listener->backoff_ms * 1000);
  nm_port_trouble_set(port, NM_PORT_ACCEPT, error);
}

/* One that was accepted becomes a port, or is closed for a reason. */
static void take(nm_port *port, int fd, const char *host, uint16_t number) {
  const nm_flap_limits *limits = &port->setup->flaps;
  nm_flap_key from = nm_flap_key_of(limits, host);
  nm_port_refusal reason;
  if (nm_flaps_blocked(&port->listener->flaps, limits, &from,
                       port->node->loop->now.mono_us)) {
    reason = NM_PORT_REFUSED_FLAPPING;
  } else if (port->connections >= port->setup->connections_max) {
    reason = NM_PORT_REFUSED_LIMIT;
  } else if (adopt(port, fd, host, number, &from)) {
    return;
  } else {
    port->refusals[NM_PORT_REFUSED_RESOURCES]++; /* and closed */
    return;
  }
  nm_fd_close(fd);
  port->refusals[reason]++;
}

static void accept_some(nm_port *port) {
  char host[NM_ADDRESS_TEXT_MAX];
  uint16_t number;
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    int fd = nm_accept_open(port->listener->fd, host, &number);
    if (fd == -EAGAIN || fd == -EWOULDBLOCK) {
      return;
    }
    if (fd == -ECONNABORTED || fd == -EINTR || fd == -EPROTO) {
      continue;
    }
    if (fd < 0) {
      back_off(port, fd);
      return;
    }
    port->listener->backoff_ms = 0;
    take(port, fd, host, number);
  }
}

static void on_readable(uv_poll_t *poll, int status, int events) {
  nm_port *port = poll->data;
  (void)events;
  (void)nm_loop_now(port->node->loop);
  if (status == 0) {
    accept_some(port);
  } else {
    back_off(port, status);
  }
  nm_node_ifaces_changed(port->node, true);
  nm_node_wake(port->node);
}

static void on_poll_closed(uv_handle_t *handle) {
  nm_port *port = handle->data;
  nm_fd_close(port->listener->fd);
  nm_fd_close(port->listener->reserve_fd);
  port->listener->fd = -1;
  port->listener->reserve_fd = -1;
  nm_port_handle_closed(port);
}

/* ---- the port ---- */

static int start(nm_port *port) {
  nm_listener *listener = port->listener;
  int error =
      uv_poll_init(&port->node->loop->uv, &listener->poll, listener->fd);
  if (error != 0) {
    port->os_error = error;
    return NM_E(LIBRARY);
  }
  listener->poll.data = port;
  listener->open = true;
  port->handles++;
  port->listening = true;
  set_polling(port, true);
  nm_port_set_up(port, true);
  return NM_OK;
}

static bool put_nothing(nm_port *port, nm_span packet) {
  (void)port;
  (void)packet;
  return false;
}

static void pause_listening(nm_port *port, bool on) {
  set_polling(port, !on && !nm_timer_armed(&port->timer));
}

static void stop(nm_port *port) {
  nm_listener *listener = port->listener;
  port->listening = false;
  if (listener->open) {
    listener->open = false;
    uv_close((uv_handle_t *)&listener->poll, on_poll_closed);
  } else {
    nm_fd_close(listener->fd);
    nm_fd_close(listener->reserve_fd);
    listener->fd = -1;
    listener->reserve_fd = -1;
  }
}

static void change(nm_port *port) {
  (void)port;
}

static void dispose(nm_port *port) {
  if (port->listener != NULL) {
    nm_flaps_free(&port->listener->flaps, port->node->mem);
  }
}

const nm_port_ops nm_port_tcp_server = {.start = start,
                                        .send = put_nothing,
                                        .pause = pause_listening,
                                        .stop = stop,
                                        .change = change,
                                        .dispose = dispose};

int nm_port_serve(nm_node *node, nm_ask *ask) {
  nm_iface_setup setup = ask->c.u.iface;
  uint16_t bound = 0;
  int fd = nm_listen_open(setup.host, setup.port, setup.device, &bound);
  if (fd < 0) {
    ask->reply.os_error = fd;
    return fd == -EINVAL ? NM_E(ARGUMENT) : NM_E(LIBRARY);
  }
  bool sends = setup.spec.sends;
  bool receives = setup.spec.receives;
  /* The server itself carries nothing: its children do. */
  setup.spec.sends = false;
  setup.spec.receives = false;
  nm_port *port = NULL;
  int status =
      nm_port_add(node, &setup, bound, &nm_port_tcp_server, NULL, &port);
  nm_wipe(&setup, sizeof(setup));
  if (status != NM_OK) {
    nm_fd_close(fd);
    return status;
  }
  port->wants_sends = sends;
  port->wants_receives = receives;
  port->listener->fd = fd;
  port->listener->reserve_fd = nm_reserve_open();
  status = port->ops->start(port);
  if (status != NM_OK) {
    ask->reply.os_error = port->os_error;
    nm_port_remove(port);
    return status;
  }
  ask->reply.iface = port->id;
  ask->reply.number = bound;
  return NM_OK;
}
