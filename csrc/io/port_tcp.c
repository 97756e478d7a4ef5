/* The connecting ends: TCP clients and the client of a shared instance. They
 * try again for ever, or as often as they may; the pause grows from a tenth of
 * a second to a minute, with jitter, and is short again after a connection that
 * was of use.
 */
#include "io/resolve.h"

#include <string.h>

#define SECOND_US UINT64_C(1000000)
/* A connection that lives this long, or brought a frame, was of use. */
#define USEFUL_US (5 * SECOND_US)

/* ---- an attempt ---- */

static void try_next(nm_port *port);

static void end_attempt(nm_port *port) {
  port->connecting = false;
  nm_timer_disarm(&port->node->loop->timers, &port->timer);
  nm_resolve_abandon(port);
  nm_release(port->node->mem, port->addresses);
  port->addresses = NULL;
}

static void fire(void *user, nm_timer *timer);

static void arm(nm_port *port, uint64_t delay_us) {
  nm_loop *loop = port->node->loop;
  port->timer.fire = fire;
  nm_loop_arm(loop, &port->timer, loop->now.mono_us + delay_us);
}

uint64_t nm_port_pause_us(const nm_iface_setup *setup, uint32_t tries,
                          uint16_t random) {
  uint64_t ms = setup->retry_first_ms;
  if (tries > 1) {
    uint32_t doublings = tries > 18 ? 16 : tries - 2;
    ms = UINT64_C(1000) << doublings;
  }
  ms = ms > setup->retry_max_ms ? setup->retry_max_ms : ms;
  return ms * 750 + ms * 500 * random / 65536;
}

static uint64_t pause_us(nm_port *port) {
  uint8_t random[2] = {0};
  (void)nm_entropy_fill(&port->node->entropy_source, random, sizeof(random));
  nm_reader r = nm_reader_of(nm_span_of(random, sizeof(random)));
  return nm_port_pause_us(port->setup, port->tries, nm_reader_u16(&r));
}

void nm_port_retry(nm_port *port, nm_port_trouble trouble, int error) {
  end_attempt(port);
  if (port->conn != NULL) {
    nm_conn_close(port->conn);
  }
  nm_port_set_up(port, false);
  if (port->setup->max_tries != 0 && port->tries >= port->setup->max_tries) {
    nm_port_trouble_set(port, NM_PORT_GAVE_UP, error);
    return;
  }
  nm_port_trouble_set(port, trouble, error);
  arm(port, pause_us(port));
}

static void on_ended(nm_port *port, int error) {
  const nm_conn *conn = port->conn;
  uint64_t now = port->node->loop->now.mono_us;
  if (conn->fed || now - conn->opened_us >= USEFUL_US) {
    port->tries = 0;
  }
  nm_port_retry(port, NM_PORT_CLOSED, error);
}

void nm_port_connected(nm_port *port) {
  end_attempt(port);
  int error = nm_conn_start(port->conn, on_ended);
  if (error != 0) {
    nm_port_retry(port, NM_PORT_CONNECT, error);
    return;
  }
  port->opened++;
  port->trouble = NM_PORT_NO_TROUBLE;
  port->os_error = 0;
  nm_port_set_up(port, true);
}

static void on_connected(uv_connect_t *request, int status) {
  nm_conn *conn = request->data;
  nm_port *port = conn->port;
  if (conn->closing || port->conn != conn) {
    return;
  }
  (void)nm_loop_now(port->node->loop);
  if (status != 0) {
    port->os_error = status;
    nm_conn_close(conn);
    try_next(port);
    return;
  }
  uv_os_fd_t fd;
  if (uv_fileno(&conn->u.handle, &fd) == 0) {
    nm_tcp_tune(fd, port->setup->i2p_tunneled);
  }
  nm_port_connected(port);
}

/* Gives the connection a socket that uses the port's device alone. */
static int bind_device(nm_port *port, int family) {
  if (port->setup->device[0] == '\0') {
    return 0;
  }
  int fd = nm_tcp_socket(family, port->setup->device);
  if (fd < 0) {
    return fd;
  }
  int error = uv_tcp_open(&port->conn->u.tcp, fd);
  if (error != 0) {
    nm_fd_close(fd);
  }
  return error;
}

static void try_next(nm_port *port) {
  nm_addresses *addresses = port->addresses;
  int error = port->os_error;
  while (addresses->at < addresses->count) {
    const struct sockaddr *to =
        (const struct sockaddr *)&addresses->list[addresses->at++];
    port->conn = nm_conn_new(port, false);
    if (port->conn == NULL) {
      error = UV_ENOMEM;
      break;
    }
    error = bind_device(port, to->sa_family);
    if (error == 0) {
      port->conn->request.connect.data = port->conn;
      error = uv_tcp_connect(&port->conn->request.connect, &port->conn->u.tcp,
                             to, on_connected);
    }
    if (error == 0) {
      return;
    }
    nm_conn_close(port->conn);
  }
  nm_port_retry(port, NM_PORT_CONNECT, error);
}

static int take_numeric(nm_port *port) {
  nm_addresses *addresses =
      nm_alloc_zero(port->node->mem, 1, sizeof(*addresses));
  if (addresses == NULL) {
    return UV_ENOMEM;
  }
  const char *host = port->setup->host;
  struct sockaddr_storage *to = &addresses->list[0];
  addresses->count = 1;
  port->addresses = addresses;
  if (strchr(host, ':') != NULL) {
    return uv_ip6_addr(host, port->setup->port, (struct sockaddr_in6 *)to);
  }
  return uv_ip4_addr(host, port->setup->port, (struct sockaddr_in *)to);
}

static void on_resolved(nm_port *port, const nm_addresses *found) {
  if (found->count == 0) {
    nm_port_retry(port, NM_PORT_RESOLVE, UV_EAI_NONAME);
    return;
  }
  port->addresses = nm_alloc_zero(port->node->mem, 1, sizeof(*port->addresses));
  if (port->addresses == NULL) {
    nm_port_retry(port, NM_PORT_CONNECT, UV_ENOMEM);
    return;
  }
  *port->addresses = *found;
  try_next(port);
}

static bool is_local_socket(const nm_port *port) {
  return port->setup->medium == NM_MEDIUM_LOCAL_CLIENT &&
         !port->setup->local_tcp;
}

static void attempt(nm_port *port) {
  port->tries++;
  port->connecting = true;
  port->os_error = 0;
  int error;
  if (is_local_socket(port)) {
    error = nm_port_local_attempt(port);
    if (error == 0) {
      nm_port_connected(port);
      return;
    }
  } else if (nm_host_is_numeric(port->setup->host) ||
             strchr(port->setup->host, '%') != NULL) {
    error = take_numeric(port);
  } else {
    error = nm_resolve_start(port, port->setup->host, port->setup->port,
                             port->setup->prefer_ipv6, on_resolved);
  }
  if (error != 0) {
    nm_port_retry(port, NM_PORT_CONNECT, error);
    return;
  }
  arm(port, (uint64_t)port->setup->connect_timeout_ms * 1000);
  if (port->addresses != NULL) {
    try_next(port);
  }
}

static void fire(void *user, nm_timer *timer) {
  nm_port *port = nm_port_of_timer(timer);
  (void)user;
  if (port->connecting) {
    nm_port_retry(port, NM_PORT_TIMEOUT, UV_ETIMEDOUT);
  } else {
    attempt(port);
  }
}

/* ---- the port ---- */

static int start(nm_port *port) {
  attempt(port);
  return NM_OK;
}

static bool put(nm_port *port, nm_span packet) {
  return nm_conn_send(port->conn, packet);
}

static void pause_port(nm_port *port, bool on) {
  if (port->conn != NULL && port->up) {
    nm_conn_pause(port->conn, on);
  }
}

static void change(nm_port *port) {
  if (port->conn != NULL && port->up) {
    nm_conn_change(port->conn);
  }
}

static void stop(nm_port *port) {
  end_attempt(port);
  if (port->conn != NULL) {
    nm_conn_close(port->conn);
  }
}

const nm_port_ops nm_port_tcp_client = {.start = start,
                                        .send = put,
                                        .pause = pause_port,
                                        .stop = stop,
                                        .change = change,
                                        NM_PORT_OF_STREAM};
const nm_port_ops nm_port_local = {.start = start,
                                   .send = put,
                                   .pause = pause_port,
                                   .stop = stop,
                                   .change = change,
                                   NM_PORT_OF_STREAM};

/* ---- a shared instance's socket (RNS 2, 5.8) ---- */

int nm_port_local_attempt(nm_port *port) {
  int fd = nm_abstract_connect(port->setup->instance);
  if (fd < 0) {
    return fd;
  }
  port->conn = nm_conn_new(port, true);
  if (port->conn == NULL) {
    nm_fd_close(fd);
    return UV_ENOMEM;
  }
  int error = uv_pipe_open(&port->conn->u.pipe, fd);
  if (error != 0) {
    nm_fd_close(fd);
    nm_conn_close(port->conn);
  }
  return error;
}
