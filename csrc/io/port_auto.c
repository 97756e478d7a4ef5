/* AUTO: finds the nodes of the local network by multicast, and makes an
 * interface of each (RNS 2, 5.7). Devices may come, go, and change addresses at
 * any time; a peer outlives that for as long as it may be silent.
 */
#include "io/auto.h"

#include <string.h>

/* After a change of devices others follow: one scan for all of them. */
#define SETTLE_US UINT64_C(50000)
/* Devices are looked at this often when nothing tells of changes, and in case
 * that something was missed. */
#define POLL_US UINT64_C(2000000)
#define POLL_WATCHED_US UINT64_C(30000000)

static void arm(nm_auto *a);

/* ---- devices ---- */

/* Whether |name| stands in a list between commas. */
static bool is_listed(const char *list, const char *name) {
  nm_reader r = nm_reader_of(nm_span_of(list, strlen(list)));
  nm_span wanted = nm_span_of(name, strlen(name));
  while (nm_reader_left(&r) > 0) {
    if (nm_span_equal(nm_reader_until(&r, ','), wanted)) {
      return true;
    }
    if (nm_reader_left(&r) > 0) {
      (void)nm_reader_u8(&r);
    }
  }
  return false;
}

static bool is_wanted(const nm_auto *a, const nm_device *device) {
  const nm_auto_setup *own = &a->port->setup->automatic;
  return !device->loopback && device->multicast &&
         !is_listed(own->ignored, device->name) &&
         (own->devices[0] == '\0' || is_listed(own->devices, device->name));
}

static nm_device_state wanted_state(const nm_auto *a,
                                    const nm_auto_device *device) {
  if (!is_wanted(a, &device->seen)) {
    return NM_DEVICE_IGNORED;
  }
  if (!device->seen.up) {
    return NM_DEVICE_DOWN;
  }
  return device->seen.address_count == 0 ? NM_DEVICE_NO_ADDRESS
                                         : NM_DEVICE_LISTENING;
}

static bool has_address(const nm_auto_device *device) {
  for (uint32_t i = 0; i < device->seen.address_count; i++) {
    if (memcmp(device->seen.addresses[i], device->address, 16) == 0) {
      return true;
    }
  }
  return false;
}

/* Opens, reopens or closes a device as it is now. */
static void follow(nm_auto *a, nm_auto_device *device, uint64_t now_us) {
  nm_device_state wanted = wanted_state(a, device);
  bool listened = device->state == NM_DEVICE_LISTENING;
  if (listened && wanted == NM_DEVICE_LISTENING && has_address(device)) {
    return;
  }
  if (wanted == NM_DEVICE_LISTENING) {
    nm_auto_device_close(device, NM_DEVICE_FAILED);
    nm_auto_device_open(a, device, now_us);
  } else {
    nm_auto_device_close(device, wanted);
  }
  nm_auto_set_peers_up(a, device->seen.index,
                       device->state == NM_DEVICE_LISTENING);
  nm_node_ifaces_changed(a->port->node, true);
}

/* A socket's datagrams name their device by its place: it must not move while
 * sockets are open. Closed ones are told nothing more. */
static void drop_absent(nm_auto *a) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < a->device_count; i++) {
    nm_auto_device *device = &a->devices[i];
    if (!device->present) {
      nm_auto_device_close(device, NM_DEVICE_DOWN);
      nm_auto_remove_peers(a, device->seen.index);
      continue;
    }
    if (kept != i) {
      a->devices[kept] = *device;
      nm_dgram *const sockets[] = {device->group, device->unicast,
                                   device->data};
      for (size_t s = 0; s < 3; s++) {
        if (sockets[s] != NULL) {
          sockets[s]->user = &a->devices[kept];
        }
      }
    }
    kept++;
  }
  a->device_count = kept;
}

static void note_device(nm_auto *a, const nm_device *found) {
  nm_auto_device *device = nm_auto_device_at(a, found->index);
  if (device == NULL) {
    device = &a->devices[a->device_count++];
    memset(device, 0, sizeof(*device));
    device->state = NM_DEVICE_DOWN;
  }
  device->seen = *found;
  device->present = true;
}

static void update_up(nm_auto *a) {
  bool up = false;
  for (uint32_t i = 0; i < a->device_count; i++) {
    up = up || a->devices[i].state == NM_DEVICE_LISTENING;
  }
  a->port->listening = up;
  if (up && a->port->trouble == NM_PORT_LISTEN) {
    a->port->trouble = NM_PORT_NO_TROUBLE;
    a->port->os_error = 0;
  }
  nm_port_set_up(a->port, up);
}

static void scan(nm_auto *a, uint64_t now_us) {
  a->scan_due_us = now_us + (a->watching ? POLL_WATCHED_US : POLL_US);
  int count = nm_devices_read(a->scratch);
  if (count < 0) {
    nm_port_trouble_set(a->port, NM_PORT_LISTEN, count);
    a->scan_due_us = now_us + POLL_US;
    return;
  }
  for (uint32_t i = 0; i < a->device_count; i++) {
    a->devices[i].present = false;
  }
  /* Room for the new ones first. */
  for (int i = 0; i < count; i++) {
    nm_auto_device *device = nm_auto_device_at(a, a->scratch[i].index);
    if (device != NULL) {
      device->present = true;
    }
  }
  drop_absent(a);
  for (int i = 0; i < count; i++) {
    note_device(a, &a->scratch[i]);
  }
  for (uint32_t i = 0; i < a->device_count; i++) {
    follow(a, &a->devices[i], now_us);
  }
  update_up(a);
}

static void on_watch(uv_poll_t *poll, int status, int events) {
  nm_auto *a = poll->data;
  nm_loop *loop = a->port->node->loop;
  (void)events;
  uint64_t now_us = nm_loop_now(loop).mono_us;
  nm_devices_watched(a->watch_fd);
  if (status != 0) {
    /* Some messages did not fit; libuv has stopped watching. */
    (void)nm_udp_error(a->watch_fd);
    a->watching = uv_poll_start(poll, UV_READABLE, on_watch) == 0;
  }
  if (a->scan_due_us > now_us + SETTLE_US) {
    a->scan_due_us = now_us + SETTLE_US;
  }
  arm(a);
}

/* ---- time ---- */

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void arm(nm_auto *a) {
  uint64_t next = a->scan_due_us;
  if (!a->port->paused) {
    next = earlier(next, nm_auto_peers_next(&a->peers));
    for (uint32_t i = 0; i < a->device_count; i++) {
      const nm_auto_device *device = &a->devices[i];
      if (device->state == NM_DEVICE_LISTENING) {
        next = earlier(next, device->announce_due_us);
        next = earlier(next, nm_auto_echo_next(&device->echo));
      } else if (device->state == NM_DEVICE_FAILED) {
        next = earlier(next, device->retry_due_us);
      }
    }
  }
  nm_loop_arm(a->port->node->loop, &a->port->timer, next);
}

static void visit_devices(nm_auto *a, uint64_t now_us) {
  bool changed = false;
  for (uint32_t i = 0; i < a->device_count; i++) {
    nm_auto_device *device = &a->devices[i];
    if (device->state == NM_DEVICE_FAILED && now_us >= device->retry_due_us) {
      nm_auto_device_open(a, device, now_us);
      nm_auto_set_peers_up(a, device->seen.index,
                           device->state == NM_DEVICE_LISTENING);
      changed = true;
    }
    if (device->state != NM_DEVICE_LISTENING) {
      continue;
    }
    if (now_us >= device->announce_due_us) {
      nm_auto_device_announce(a, device, now_us);
    }
    nm_auto_look_at_echo(a, device, now_us);
  }
  if (changed) {
    update_up(a);
  }
}

static void fire(void *user, nm_timer *timer) {
  nm_port *port = nm_port_of_timer(timer);
  nm_auto *a = port->automatic;
  (void)user;
  uint64_t now_us = port->node->loop->now.mono_us;
  if (now_us >= a->scan_due_us) {
    scan(a, now_us);
  }
  if (!port->paused) {
    visit_devices(a, now_us);
    nm_auto_visit_peers(a, now_us);
  }
  arm(a);
  nm_node_wake(port->node);
}

/* ---- the port ---- */

static int start(nm_port *port) {
  nm_auto *a = port->automatic;
  nm_loop *loop = port->node->loop;
  port->timer.fire = fire;
  a->watch_fd = nm_devices_watch();
  if (a->watch_fd >= 0) {
    if (uv_poll_init(&loop->uv, &a->watch, a->watch_fd) != 0) {
      nm_fd_close(a->watch_fd);
      a->watch_fd = -1;
    } else {
      a->watch.data = a;
      port->handles++;
      a->watching = uv_poll_start(&a->watch, UV_READABLE, on_watch) == 0;
    }
  }
  scan(a, loop->now.mono_us);
  visit_devices(a, loop->now.mono_us);
  arm(a);
  return NM_OK;
}

static bool put_nothing(nm_port *port, nm_span packet) {
  (void)port;
  (void)packet;
  return false;
}

static void pause_device(nm_auto_device *device, bool on) {
  if (device->state == NM_DEVICE_LISTENING) {
    nm_dgram_pause(device->group, on);
    nm_dgram_pause(device->unicast, on);
    nm_dgram_pause(device->data, on);
  }
}

/* What was not heard during a pause says nothing. */
static void pause_auto(nm_port *port, bool on) {
  nm_auto *a = port->automatic;
  uint64_t now_us = port->node->loop->now.mono_us;
  nm_auto_peer *peer = NULL;
  for (uint32_t i = 0; i < a->device_count; i++) {
    pause_device(&a->devices[i], on);
    nm_auto_echo_start(&a->devices[i].echo, now_us);
  }
  while ((peer = nm_auto_peer_next(&a->peers, peer)) != NULL) {
    peer->heard_us = now_us;
  }
  arm(a);
}

static void change(nm_port *port) {
  nm_auto *a = port->automatic;
  for (uint32_t i = 0; i < a->device_count; i++) {
    if (a->devices[i].data != NULL) {
      a->devices[i].data->datagram = nm_port_frame_max(port);
    }
  }
}

static void on_watch_closed(uv_handle_t *handle) {
  nm_auto *a = handle->data;
  nm_fd_close(a->watch_fd);
  nm_port_handle_closed(a->port);
}

static void stop(nm_port *port) {
  nm_auto *a = port->automatic;
  port->listening = false;
  if (a == NULL) {
    return;
  }
  for (uint32_t i = 0; i < a->device_count; i++) {
    nm_auto_device_close(&a->devices[i], NM_DEVICE_DOWN);
  }
  if (a->watch_fd >= 0) {
    uv_close((uv_handle_t *)&a->watch, on_watch_closed);
  }
}

static uint32_t waiting(const nm_port *port, size_t *bytes) {
  const nm_auto *a = port->automatic;
  uint32_t count = 0;
  for (uint32_t i = 0; a != NULL && i < a->device_count; i++) {
    if (a->devices[i].data != NULL) {
      count += nm_dgram_waiting(a->devices[i].data);
      *bytes += nm_dgram_waiting_bytes(a->devices[i].data);
    }
  }
  return count;
}

static void dispose(nm_port *port) {
  nm_auto *a = port->automatic;
  if (a != NULL) {
    nm_auto_peers_dispose(&a->peers);
    nm_wipe(&a->recent, sizeof(a->recent));
  }
  nm_release(port->node->mem, a);
}

const nm_port_ops nm_port_auto = {.start = start,
                                  .send = put_nothing,
                                  .pause = pause_auto,
                                  .stop = stop,
                                  .change = change,
                                  .waiting = waiting,
                                  .dispose = dispose};

/* ---- opening ---- */

static int equip(nm_port *port) {
  nm_node *node = port->node;
  const nm_auto_setup *own = &port->setup->automatic;
  uint8_t hash_key[16];
  nm_auto *a = nm_alloc_zero(node->mem, 1, sizeof(*a));
  if (a == NULL) {
    return NM_E(MEMORY);
  }
  port->automatic = a;
  a->port = port;
  a->watch_fd = -1;
  a->token_calls = &nm_auto_token_calls;
  a->data_calls = &nm_auto_data_calls;
  nm_span group = nm_auto_group(a);
  int status =
      nm_group_address(group, own->scope, own->address_type, a->group_address);
  if (status == NM_OK) {
    status = nm_entropy_fill(&node->entropy_source, a->recent.key,
                             sizeof(a->recent.key));
  }
  if (status == NM_OK) {
    status = nm_entropy_fill(&node->entropy_source, hash_key, sizeof(hash_key));
  }
  if (status == NM_OK) {
    status = nm_auto_peers_init(&a->peers, node->mem, hash_key,
                                port->setup->connections_max,
                                (uint64_t)own->peer_timeout_ms * 1000);
  }
  return status;
}

int nm_port_auto_add(nm_node *node, nm_ask *ask) {
  nm_iface_setup setup = ask->c.u.iface;
  nm_port *port = NULL;
  bool sends = setup.spec.sends;
  bool receives = setup.spec.receives;
  /* It carries nothing itself: its peers do. */
  setup.spec.sends = false;
  setup.spec.receives = false;
  int status = nm_port_add(node, &setup, 0, &nm_port_auto, NULL, &port);
  nm_wipe(&setup, sizeof(setup));
  if (status != NM_OK) {
    return status;
  }
  port->wants_sends = sends;
  port->wants_receives = receives;
  status = equip(port);
  if (status == NM_OK) {
    status = port->ops->start(port);
  }
  if (status != NM_OK) {
    nm_port_remove(port);
    return status;
  }
  ask->reply.iface = port->id;
  return NM_OK;
}

/* ---- what is readable ---- */

static void fill_device(const nm_auto *a, const nm_auto_device *device,
                        nm_device_info *info) {
  memset(info, 0, sizeof(*info));
  memcpy(info->name, device->seen.name, sizeof(info->name));
  info->index = device->seen.index;
  info->state = device->state;
  info->os_error = device->state == NM_DEVICE_FAILED ? device->os_error : 0;
  info->addresses = device->seen.address_count;
  info->opened = device->opened;
  info->announces = device->announces;
  info->echoes = device->echoes;
  info->forged = device->forged;
  if (device->state == NM_DEVICE_LISTENING) {
    nm_address at = nm_address_of_ipv6(device->address, 0, info->index);
    nm_address_text(&at, info->address);
    info->echo_heard = device->echo.heard;
    info->echo_lost = device->echo.lost;
  }
  const nm_auto_peer *peer = NULL;
  while ((peer = nm_auto_peer_next(&a->peers, peer)) != NULL) {
    info->peers += peer->key.device == info->index;
  }
}

int nm_port_auto_devices(const nm_port *port, nm_ask *ask) {
  const nm_auto *a = port->automatic;
  nm_rows rows;
  nm_rows_init(&rows, port->node->mem, ask, sizeof(nm_device_info));
  for (uint32_t i = 0; i < a->device_count; i++) {
    nm_device_info info;
    fill_device(a, &a->devices[i], &info);
    if (!nm_rows_add(&rows, &info)) {
      break;
    }
  }
  return nm_rows_finish(&rows);
}
