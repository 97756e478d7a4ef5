/* Commands on interfaces and on the node itself.
 */
#include "io/internal.h"
#include "io/port.h"

#include <string.h>

static bool is_terminated(const char *text, size_t size) {
  return memchr(text, 0, size) != NULL;
}

static bool udp_is_sane(const nm_iface_setup *setup) {
  if (!is_terminated(setup->forward_host, sizeof(setup->forward_host))) {
    return false;
  }
  bool has_device = setup->device[0] != '\0';
  bool listens = setup->host[0] != '\0' || (has_device && setup->port != 0);
  bool forwards = setup->forward_port != 0 &&
                  (setup->forward_host[0] != '\0' || has_device);
  return listens || forwards;
}

static bool auto_is_sane(const nm_auto_setup *own) {
  uint8_t ignored[NM_GROUP_ADDRESS_SIZE];
  return is_terminated(own->group, sizeof(own->group)) &&
         is_terminated(own->devices, sizeof(own->devices)) &&
         is_terminated(own->ignored, sizeof(own->ignored)) &&
         nm_group_address(nm_span_of(own->group, strlen(own->group)),
                          own->scope, own->address_type, ignored) == NM_OK &&
         own->discovery_port != 0 && own->discovery_port < UINT16_MAX &&
         own->data_port != 0 && own->data_port != own->discovery_port &&
         own->data_port != own->discovery_port + 1 && own->peer_timeout_ms > 0;
}

static bool setup_is_sane(const nm_iface_setup *setup) {
  return setup->medium != NM_MEDIUM_TCP_CHILD &&
         setup->medium != NM_MEDIUM_AUTO_PEER &&
         (unsigned)setup->medium <= NM_MEDIUM_USER &&
         is_terminated(setup->label, sizeof(setup->label)) &&
         is_terminated(setup->host, sizeof(setup->host)) &&
         is_terminated(setup->instance, sizeof(setup->instance)) &&
         setup->label[0] != '\0' && setup->queue_bytes > 0 &&
         setup->queue_packets > 0 && setup->retry_first_ms > 0 &&
         setup->retry_max_ms > 0 && setup->connect_timeout_ms > 0 &&
         is_terminated(setup->device, sizeof(setup->device)) &&
         (!nm_medium_is_parent(setup->medium) || setup->connections_max > 0) &&
         setup->flaps.block_ms > 0 &&
         (setup->medium != NM_MEDIUM_UDP || udp_is_sane(setup)) &&
         (setup->medium != NM_MEDIUM_AUTO || auto_is_sane(&setup->automatic)) &&
         (setup->medium != NM_MEDIUM_TCP_CLIENT ||
          (setup->host[0] != '\0' && setup->port != 0)) &&
         (setup->medium != NM_MEDIUM_PIPE || setup->fd >= 0);
}

static const nm_port_ops *ops_of(nm_medium medium) {
  switch (medium) {
  case NM_MEDIUM_PIPE:
    return &nm_port_pipe;
  case NM_MEDIUM_LOCAL_CLIENT:
    return &nm_port_local;
  case NM_MEDIUM_USER:
    return &nm_port_user;
  default:
    return &nm_port_tcp_client;
  }
}

static int run_add(nm_node *node, nm_ask *ask) {
  const nm_iface_setup *setup = &ask->c.u.iface;
  if (!setup_is_sane(setup)) {
    return NM_E(ARGUMENT);
  }
  switch (setup->medium) {
  case NM_MEDIUM_TCP_SERVER:
    return nm_port_serve(node, ask);
  case NM_MEDIUM_UDP:
    return nm_port_udp_add(node, ask);
  case NM_MEDIUM_AUTO:
    return nm_port_auto_add(node, ask);
  default:
    break;
  }
  nm_port *port = NULL;
  int status =
      nm_port_add(node, setup, setup->port, ops_of(setup->medium), NULL, &port);
  if (status != NM_OK) {
    return status;
  }
  ask->c.u.iface.fd = -1; /* the port's now */
  ask->reply.iface = port->id;
  ask->reply.number = port->port;
  status = port->ops->start(port);
  if (status != NM_OK) {
    ask->reply.os_error = port->os_error;
    ask->reply.iface = 0;
    nm_port_remove(port);
  }
  return status;
}

static int run_change(nm_node *node, nm_ask *ask) {
  nm_port *port = nm_port_find(node, ask->c.iface);
  return port == NULL ? NM_E(MISSING) : nm_port_change(port, &ask->c.u.spec);
}

static int run_pause(nm_node *node, nm_ask *ask) {
  nm_port *port = nm_port_find(node, ask->c.iface);
  if (port == NULL) {
    return NM_E(MISSING);
  }
  nm_port_pause(port, ask->c.kind == NM_COMMAND_IFACE_PAUSE);
  return NM_OK;
}

static int run_remove(nm_node *node, nm_ask *ask) {
  nm_port *port = nm_port_find(node, ask->c.iface);
  if (port == NULL) {
    return NM_E(MISSING);
  }
  nm_port_remove(port);
  return NM_OK;
}

static int run_list(nm_node *node, nm_ask *ask) {
  ask->reply.records = nm_port_list(node, &ask->reply.record_count);
  return ask->reply.records == NULL ? NM_E(MEMORY) : NM_OK;
}

static int run_devices(nm_node *node, nm_ask *ask) {
  const nm_port *port = nm_port_find(node, ask->c.iface);
  if (port == NULL) {
    return NM_E(MISSING);
  }
  return port->setup->medium == NM_MEDIUM_AUTO ? nm_port_auto_devices(port, ask)
                                               : NM_E(STATE);
}

static int run_tunnel(nm_node *node, nm_ask *ask) {
  return nm_engine_tunnel(node->engine, ask->c.iface, node->loop->now);
}

/* ---- the node ---- */

static int run_stats(nm_node *node, nm_ask *ask) {
  nm_node_publish(node);
  nm_rows rows;
  nm_rows_init(&rows, node->mem, ask, sizeof(node->stats));
  (void)nm_rows_add(&rows, &node->stats);
  return nm_rows_finish(&rows);
}

static int run_limits(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_rows_init(&rows, node->mem, ask, sizeof(nm_limits));
  (void)nm_rows_add(&rows, nm_engine_limits(node->engine));
  return nm_rows_finish(&rows);
}

static int run_implicit(nm_node *node, nm_ask *ask) {
  nm_engine_set_implicit_proofs(node->engine, ask->c.on);
  return NM_OK;
}

static int run_tap(nm_node *node, nm_ask *ask) {
  node->tap = ask->c.on;
  return NM_OK;
}

static int run_persist(nm_node *node, nm_ask *ask) {
  if (node->store == NULL) {
    return NM_E(STATE);
  }
  nm_save_start(node, ask);
  return NM_LATER;
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_IFACE_ADD] = run_add,
    [NM_COMMAND_IFACE_CHANGE] = run_change,
    [NM_COMMAND_IFACE_PAUSE] = run_pause,
    [NM_COMMAND_IFACE_RESUME] = run_pause,
    [NM_COMMAND_IFACE_REMOVE] = run_remove,
    [NM_COMMAND_IFACE_TUNNEL] = run_tunnel,
    [NM_COMMAND_IFACE_LIST] = run_list,
    [NM_COMMAND_IFACE_DEVICES] = run_devices,
    [NM_COMMAND_STATS] = run_stats,
    [NM_COMMAND_LIMITS] = run_limits,
    [NM_COMMAND_SET_IMPLICIT_PROOFS] = run_implicit,
    [NM_COMMAND_TAP] = run_tap,
    [NM_COMMAND_PERSIST] = run_persist,
};

nm_command_run *nm_command_ports(nm_command_kind kind) {
  return runs[kind];
}
