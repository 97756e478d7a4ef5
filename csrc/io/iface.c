#include "io/iface.h"

#include <stdio.h>
#include <string.h>

const char *nm_medium_name(nm_medium medium) {
  switch (medium) {
  case NM_MEDIUM_TCP_CLIENT:
    return "tcp_client";
  case NM_MEDIUM_TCP_SERVER:
    return "tcp_server";
  case NM_MEDIUM_TCP_CHILD:
    return "tcp_child";
  case NM_MEDIUM_PIPE:
    return "pipe";
  case NM_MEDIUM_LOCAL_CLIENT:
    return "local_client";
  case NM_MEDIUM_UDP:
    return "udp";
  case NM_MEDIUM_AUTO:
    return "auto";
  case NM_MEDIUM_AUTO_PEER:
    return "auto_peer";
  case NM_MEDIUM_USER:
    return "user";
  }
  return "unknown";
}

bool nm_medium_is_parent(nm_medium medium) {
  return medium == NM_MEDIUM_TCP_SERVER || medium == NM_MEDIUM_AUTO;
}

const char *nm_device_state_name(nm_device_state state) {
  static const char *const names[] = {
      [NM_DEVICE_LISTENING] = "listening",
      [NM_DEVICE_IGNORED] = "ignored",
      [NM_DEVICE_DOWN] = "down",
      [NM_DEVICE_NO_ADDRESS] = "no_address",
      [NM_DEVICE_FAILED] = "failed",
  };
  return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state]
                                                          : "unknown";
}

const char *nm_port_drop_name(nm_port_drop reason) {
  static const char *const names[] = {
      [NM_PORT_DROP_OFFLINE] = "offline",
      [NM_PORT_DROP_BYTES] = "queue_bytes",
      [NM_PORT_DROP_PACKETS] = "queue_packets",
      [NM_PORT_DROP_MEMORY] = "memory",
      [NM_PORT_DROP_EGRESS] = "egress",
      [NM_PORT_DROP_TOO_LARGE] = "too_large",
      [NM_PORT_DROP_BUFFERS] = "buffers",
      [NM_PORT_DROP_UNREACHABLE] = "unreachable",
  };
  return (size_t)reason < NM_PORT_DROP_COUNT ? names[reason] : "unknown";
}

const char *nm_port_refusal_name(nm_port_refusal reason) {
  static const char *const names[] = {
      [NM_PORT_REFUSED_LIMIT] = "limit",
      [NM_PORT_REFUSED_RESOURCES] = "resources",
      [NM_PORT_REFUSED_FLAPPING] = "flapping",
  };
  return (size_t)reason < NM_PORT_REFUSED_COUNT ? names[reason] : "unknown";
}

/* The type whose properties a medium has (RNS 1, 7.3). */
static const char *kind_of(nm_medium medium) {
  return medium == NM_MEDIUM_LOCAL_CLIENT ? "local"
         : medium == NM_MEDIUM_PIPE       ? "pipe"
         : medium == NM_MEDIUM_UDP        ? "udp"
         : medium == NM_MEDIUM_AUTO       ? "auto"
                                          : "tcp";
}

static void default_auto(nm_iface_setup *setup) {
  nm_auto_setup *own = &setup->automatic;
  memcpy(own->group, "reticulum", sizeof("reticulum"));
  own->scope = '2';
  own->address_type = '1';
  own->discovery_port = NM_AUTO_DISCOVERY_PORT;
  own->data_port = NM_AUTO_DATA_PORT;
  own->peer_timeout_ms = 22000;
  setup->connections_max = 1024;
}

int nm_iface_setup_default(nm_iface_setup *setup, nm_medium medium,
                           const char *label) {
  size_t len = strlen(label);
  memset(setup, 0, sizeof(*setup));
  setup->fd = -1;
  if (len == 0 || len > NM_LABEL_MAX || medium == NM_MEDIUM_TCP_CHILD ||
      medium == NM_MEDIUM_AUTO_PEER) {
    return NM_E(ARGUMENT);
  }
  memcpy(setup->label, label, len);
  setup->medium = medium;
  setup->retry_first_ms = 100;
  setup->retry_max_ms = medium == NM_MEDIUM_LOCAL_CLIENT ? 8000 : 60000;
  setup->connect_timeout_ms = 5000;
  setup->connections_max = 4096;
  setup->flaps = (nm_flap_limits){.threshold_ms = 20000,
                                  .grace = 20,
                                  .first_ms = 2000,
                                  .block_ms = 60000,
                                  .loopback = false};
  setup->queue_bytes = 4u << 20;
  setup->queue_packets = 8192;
  int status = nm_iface_spec_default(&setup->spec, kind_of(medium), label);
  if (medium == NM_MEDIUM_AUTO) {
    default_auto(setup);
  }
  if (medium == NM_MEDIUM_LOCAL_CLIENT) {
    memcpy(setup->instance, "default", sizeof("default"));
    memcpy(setup->host, "127.0.0.1", sizeof("127.0.0.1"));
    setup->port = NM_LOCAL_PORT;
    setup->spec.role = NM_ROLE_SHARED_CONNECTION;
    /* Not adjusted to the bitrate, so that clients offer a link MTU of this
     * (RNS 2, 5.8). */
    setup->spec.hw_mtu = 262144;
  }
  setup->spec.online = false;
  return status;
}

static int format_name(const nm_iface_setup *setup, uint16_t port, char *out,
                       size_t cap) {
  const char *open = strchr(setup->host, ':') != NULL ? "[" : "";
  const char *shut = open[0] != '\0' ? "]" : "";
  switch (setup->medium) {
  case NM_MEDIUM_TCP_CLIENT:
    return snprintf(out, cap, "TCPInterface[%s/%s%s%s:%u]", setup->label, open,
                    setup->host, shut, port);
  case NM_MEDIUM_TCP_SERVER:
    return snprintf(out, cap, "TCPServerInterface[%s/%s%s%s:%u]", setup->label,
                    open, setup->host[0] != '\0' ? setup->host : "0.0.0.0",
                    shut, port);
  case NM_MEDIUM_TCP_CHILD:
    return snprintf(out, cap, "TCPInterface[Client on %s/%s%s%s:%u]",
                    setup->label, open, setup->host, shut, port);
  case NM_MEDIUM_PIPE:
    return snprintf(out, cap, "PipeInterface[%s]", setup->label);
  case NM_MEDIUM_LOCAL_CLIENT:
    return setup->local_tcp
               ? snprintf(out, cap, "LocalInterface[%u]", setup->port)
               : snprintf(out, cap, "LocalInterface[rns/%s]", setup->instance);
  case NM_MEDIUM_UDP:
    return snprintf(out, cap, "UDPInterface[%s/%s%s%s:%u]", setup->label, open,
                    setup->host, shut, port);
  case NM_MEDIUM_AUTO:
    return snprintf(out, cap, "AutoInterface[%s]", setup->label);
  case NM_MEDIUM_AUTO_PEER:
    return snprintf(out, cap, "AutoInterfacePeer[%s/%s]", setup->device,
                    setup->host);
  case NM_MEDIUM_USER:
    return snprintf(out, cap, "%s", setup->label);
  }
  return -1;
}

int nm_iface_display_name(const nm_iface_setup *setup, uint16_t port,
                          char out[NM_IFACE_NAME_MAX + 1]) {
  int len = format_name(setup, port, out, NM_IFACE_NAME_MAX + 1);
  return len > 0 && len <= NM_IFACE_NAME_MAX ? NM_OK : NM_E(TOO_LARGE);
}

const nm_iface_info *nm_iface_infos(const nm_block *list, size_t *count) {
  nm_span rows = nm_block_span(list);
  *count = rows.len / sizeof(nm_iface_info);
  return (const nm_iface_info *)(const void *)rows.ptr;
}
