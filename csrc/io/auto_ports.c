/* The peers of an AUTO port: found by their tokens, each an interface of its
 * own (RNS 2, 5.7).
 */
#include "io/auto.h"

#include <string.h>

nm_auto_device *nm_auto_device_at(nm_auto *a, uint32_t index) {
  for (uint32_t i = 0; i < a->device_count; i++) {
    if (a->devices[i].seen.index == index) {
      return &a->devices[i];
    }
  }
  return NULL;
}

static nm_peer_notice notice_of(const nm_port *port, bool found) {
  nm_peer_notice notice = {.found = found,
                           .at = port->node->loop->now,
                           .iface = port->id,
                           .parent = port->automatic->port->id};
  memcpy(notice.device, port->setup->device, sizeof(notice.device));
  memcpy(notice.address, port->setup->host, sizeof(notice.address));
  return notice;
}

/* ---- as ports ---- */

static int start_peer(nm_port *port) {
  (void)port;
  return NM_OK;
}

static bool put(nm_port *port, nm_span packet) {
  nm_auto *a = port->automatic;
  const nm_auto_key *key = &port->peer->key;
  const nm_auto_device *device = nm_auto_device_at(a, key->device);
  if (device == NULL || device->data == NULL) {
    nm_port_count_drop(port, NM_PORT_DROP_OFFLINE);
    return false;
  }
  nm_address to = nm_address_of_ipv6(
      key->address, a->port->setup->automatic.data_port, key->device);
  return nm_dgram_send(device->data, port, &to, packet);
}

static void relieve_peer(nm_port *port) {
  nm_auto *a = port->automatic;
  for (uint32_t i = 0; i < a->device_count; i++) {
    if (a->devices[i].data != NULL) {
      nm_dgram_go_on(a->devices[i].data);
    }
  }
}

static void pause_peer(nm_port *port, bool on) {
  (void)port;
  (void)on;
}

static void change_peer(nm_port *port) {
  (void)port;
}

static void stop_peer(nm_port *port) {
  nm_auto *a = port->automatic;
  nm_peer_notice notice = notice_of(port, false);
  nm_node_tell_peer(port->node, &notice);
  if (a->last_heard == port) {
    a->last_heard = NULL;
  }
  relieve_peer(port);
  nm_auto_peer_remove(&a->peers, port->peer);
  port->peer = NULL;
}

const nm_port_ops nm_port_auto_peer = {.start = start_peer,
                                       .send = put,
                                       .pause = pause_peer,
                                       .stop = stop_peer,
                                       .change = change_peer,
                                       .relieve = relieve_peer};

/* ---- they come and go ---- */

static nm_port *peer_port(nm_auto *a, const uint8_t address[16],
                          uint32_t index) {
  const nm_auto_peer *peer = nm_auto_peer_find(&a->peers, address, index);
  return peer == NULL ? NULL : peer->user;
}

static void add_peer(nm_auto *a, nm_auto_device *device,
                     const uint8_t address[16]) {
  nm_node *node = a->port->node;
  uint32_t index = device->seen.index;
  nm_auto_peer *peer =
      nm_auto_peer_add(&a->peers, address, index, node->loop->now.mono_us);
  if (peer == NULL) {
    bool full = a->peers.table.count >= a->peers.peers_max;
    a->port
        ->refusals[full ? NM_PORT_REFUSED_LIMIT : NM_PORT_REFUSED_RESOURCES]++;
    return;
  }
  nm_iface_setup setup;
  nm_port *port = NULL;
  nm_address at = nm_address_of_ipv6(address, 0, index);
  nm_port_inherit(a->port, &setup);
  nm_address_text(&at, setup.host);
  memcpy(setup.device, device->seen.name, sizeof(setup.device));
  int status = nm_port_add(node, &setup, setup.automatic.data_port,
                           &nm_port_auto_peer, a->port, &port);
  nm_wipe(&setup, sizeof(setup));
  if (status != NM_OK) {
    nm_auto_peer_remove(&a->peers, peer);
    a->port->refusals[NM_PORT_REFUSED_RESOURCES]++;
    return;
  }
  peer->user = port;
  port->peer = peer;
  port->automatic = a;
  port->paused = a->port->paused;
  port->opened = 1;
  nm_port_set_up(port, true);
  nm_peer_notice notice = notice_of(port, true);
  nm_node_tell_peer(node, &notice);
  /* It may not have heard us yet, and drops our data until it has. */
  nm_auto_device_call(a, device, address);
}

static bool is_own(const nm_auto *a, const uint8_t address[16]) {
  for (uint32_t i = 0; i < a->device_count; i++) {
    if (nm_auto_device_owns(&a->devices[i], address)) {
      return true;
    }
  }
  return false;
}

/* Own multicast went missing on a device, or is back. */
void nm_auto_look_at_echo(nm_auto *a, nm_auto_device *device, uint64_t now_us) {
  if (!nm_auto_echo_look(&device->echo, now_us)) {
    return;
  }
  nm_node_ifaces_changed(a->port->node, true);
  if (device->echo.lost) {
    nm_port_trouble_at(a->port, NM_PORT_CARRIER, 0, device->seen.name);
  } else if (a->port->trouble == NM_PORT_CARRIER) {
    nm_port_trouble_at(a->port, NM_PORT_NO_TROUBLE, 0, device->seen.name);
  }
}

static void hear_token(nm_auto *a, nm_auto_device *device,
                       const uint8_t address[16]) {
  uint64_t now_us = a->port->node->loop->now.mono_us;
  nm_auto_peer *peer;
  if (nm_auto_device_owns(device, address)) {
    device->echoes++;
    nm_auto_echo_hear(&device->echo, now_us);
    nm_auto_look_at_echo(a, device, now_us);
  } else if (is_own(a, address)) {
    device->echoes++; /* two of our devices are on one network */
  } else if ((peer = nm_auto_peer_find(&a->peers, address,
                                       device->seen.index)) != NULL) {
    peer->heard_us = now_us;
  } else {
    add_peer(a, device, address);
  }
}

/* Peers of a device that went or came back. */
void nm_auto_set_peers_up(nm_auto *a, uint32_t index, bool up) {
  nm_auto_peer *peer = NULL;
  while ((peer = nm_auto_peer_next(&a->peers, peer)) != NULL) {
    if (peer->key.device == index) {
      nm_port_set_up(peer->user, up);
    }
  }
}

void nm_auto_remove_peers(nm_auto *a, uint32_t index) {
  nm_auto_peer *peer = nm_auto_peer_next(&a->peers, NULL);
  while (peer != NULL) {
    nm_auto_peer *next = nm_auto_peer_next(&a->peers, peer);
    if (peer->key.device == index) {
      nm_port_remove(peer->user);
    }
    peer = next;
  }
}

void nm_auto_visit_peers(nm_auto *a, uint64_t now_us) {
  nm_auto_peer *peer = nm_auto_peer_next(&a->peers, NULL);
  while (peer != NULL) {
    nm_auto_peer *next = nm_auto_peer_next(&a->peers, peer);
    nm_auto_device *device = nm_auto_device_at(a, peer->key.device);
    if (nm_auto_peer_is_silent(&a->peers, peer, now_us)) {
      nm_port_remove(peer->user);
    } else if (nm_auto_peer_is_due(peer, now_us)) {
      peer->called_us = now_us;
      if (device != NULL && device->state == NM_DEVICE_LISTENING) {
        nm_auto_device_call(a, device, peer->key.address);
      }
    }
    peer = next;
  }
}

/* ---- input ---- */

/* The source of a datagram, when it is a link-local one of this device. On
 * groups of a wider scope every socket of the group hears every device. */
static bool take_source(const nm_auto_device *device, const nm_address *from,
                        uint8_t address[16]) {
  if (from->any.sa_family != AF_INET6 ||
      !IN6_IS_ADDR_LINKLOCAL(&from->v6.sin6_addr) ||
      from->v6.sin6_scope_id != device->seen.index) {
    return false;
  }
  memcpy(address, &from->v6.sin6_addr, 16);
  return true;
}

static void heard_token(nm_dgram *dgram, nm_span data, const nm_address *from) {
  nm_auto *a = dgram->port->automatic;
  nm_auto_device *device = dgram->user;
  uint8_t address[16];
  dgram->port->wire_rx += data.len;
  if (!take_source(device, from, address)) {
    return;
  }
  if (nm_auto_token_fits(nm_auto_group(a), address, data)) {
    hear_token(a, device, address);
  } else {
    device->forged++;
  }
}

static void heard_data(nm_dgram *dgram, nm_span data, const nm_address *from) {
  nm_port *parent = dgram->port;
  nm_auto *a = parent->automatic;
  nm_auto_device *device = dgram->user;
  uint8_t address[16];
  nm_port *port = take_source(device, from, address)
                      ? peer_port(a, address, device->seen.index)
                      : NULL;
  if (port == NULL) {
    parent->strangers++;
    return;
  }
  uint64_t now_us = parent->node->loop->now.mono_us;
  port->peer->heard_us = now_us;
  port->wire_rx += data.len;
  a->last_heard = port;
  if (nm_recent_seen(&a->recent, data, port->id, now_us)) {
    port->echoes++;
  } else if (!port->paused) {
    nm_port_input(port, data, NULL);
  }
}

static bool never_full(nm_dgram *dgram) {
  (void)dgram;
  return false;
}

static bool is_full(nm_dgram *dgram) {
  const nm_port *last = dgram->port->automatic->last_heard;
  return last != NULL && last->jobs >= NM_PORT_JOBS_HIGH;
}

static void failed(nm_dgram *dgram, nm_iface_id iface, int error) {
  (void)dgram;
  (void)iface;
  (void)error; /* counted where it happened; the watch tells of devices */
}

const nm_dgram_calls nm_auto_token_calls = {
    .heard = heard_token, .is_full = never_full, .failed = failed};
const nm_dgram_calls nm_auto_data_calls = {
    .heard = heard_data, .is_full = is_full, .failed = failed};
