/* Pipes: connected sockets that were handed in, HDLC as on TCP. When the other
 * end goes the interface is offline for good.
 */
#include "io/port.h"

static void on_ended(nm_port *port, int error) {
  if (port->conn != NULL) {
    nm_conn_close(port->conn);
  }
  nm_port_set_up(port, false);
  nm_port_trouble_set(port, NM_PORT_CLOSED, error);
}

static int start(nm_port *port) {
  port->conn = nm_conn_new(port, true);
  if (port->conn == NULL) {
    return NM_E(MEMORY);
  }
  int error = uv_pipe_open(&port->conn->u.pipe, port->setup->fd);
  if (error == 0) {
    port->setup->fd = -1;
    error = nm_conn_start(port->conn, on_ended);
  }
  if (error != 0) {
    port->os_error = error;
    return NM_E(LIBRARY);
  }
  port->opened = 1;
  nm_port_set_up(port, true);
  return NM_OK;
}

static bool put(nm_port *port, nm_span packet) {
  return nm_conn_send(port->conn, packet);
}

static void pause_port(nm_port *port, bool on) {
  if (port->conn != NULL) {
    nm_conn_pause(port->conn, on);
  }
}

static void change(nm_port *port) {
  if (port->conn != NULL) {
    nm_conn_change(port->conn);
  }
}

static void stop(nm_port *port) {
  if (port->conn != NULL) {
    nm_conn_close(port->conn);
  }
  nm_fd_close(port->setup->fd);
  port->setup->fd = -1;
}

const nm_port_ops nm_port_pipe = {.start = start,
                                  .send = put,
                                  .pause = pause_port,
                                  .stop = stop,
                                  .change = change,
                                  NM_PORT_OF_STREAM};
