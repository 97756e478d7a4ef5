/* What all interfaces have in common.
 */
#include "io/port.h"

#include "wire/destination.h"
#include "wire/packet.h"

#include <string.h>

static void leave_port(void *user, nm_table_link *entry) {
  (void)user;
  (void)entry;
}

int nm_ports_init(nm_node *node, const uint8_t hash_key[16]) {
  nm_table_config config = {
      .capacity = UINT32_MAX,
      .key_size = sizeof(nm_iface_id),
      .key_offset = offsetof(nm_port, id),
      .may_evict = nm_table_keep,
      .dispose = leave_port,
  };
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  return nm_table_init(&node->ports, node->mem, &config);
}

nm_port *nm_port_find(nm_node *node, nm_iface_id id) {
  return (nm_port *)(void *)nm_table_find(&node->ports, &id);
}

nm_port *nm_port_next(nm_node *node, const nm_port *port) {
  return (nm_port *)(void *)nm_table_next(&node->ports,
                                          port == NULL ? NULL : &port->link);
}

/* ---- life ---- */

/* What a frame may hold on an interface without an MTU. */
#define FRAME_UNLIMITED 262144

static int register_port(nm_port *port, const nm_iface_spec *spec) {
  nm_node *node = port->node;
  nm_loop *loop = node->loop;
  int status = nm_loop_reserve_timers(loop, 1);
  if (status != NM_OK) {
    return status;
  }
  status = nm_engine_iface_add(node->engine, spec, &port->id, loop->now);
  if (status == NM_OK) {
    status = nm_table_insert(&node->ports, &port->link);
    if (status != NM_OK) {
      (void)nm_engine_iface_remove(node->engine, port->id, loop->now);
    }
  }
  if (status != NM_OK) {
    nm_loop_unreserve_timers(loop, 1);
  }
  return status;
}

static void join_parent(nm_port *port, nm_port *parent) {
  port->parent = parent;
  if (parent != NULL) {
    port->next_sibling = parent->first_child;
    if (parent->first_child != NULL) {
      parent->first_child->prev_sibling = port;
    }
    parent->first_child = port;
    parent->connections++;
    parent->opened++;
  }
}

/* ---- set-ups ---- */

static nm_shared_setup *share(const nm_mem *mem, const nm_iface_setup *setup) {
  nm_shared_setup *shared = nm_alloc(mem, sizeof(*shared));
  if (shared != NULL) {
    shared->holders = 1;
    shared->is = *setup;
  }
  return shared;
}

static void let_go(const nm_mem *mem, nm_shared_setup *shared) {
  if (shared != NULL && --shared->holders == 0) {
    nm_wipe(shared, sizeof(*shared));
    nm_release(mem, shared);
  }
}

/* Takes |shared| over, which may be NULL. */
static void set_setup(nm_port *port, nm_shared_setup *shared) {
  let_go(port->node->mem, port->shared);
  port->shared = shared;
  port->setup = shared == NULL ? NULL : &shared->is;
}

/* What the accepted connections of |server| share, held once more; NULL without
 * memory. */
static nm_shared_setup *for_children(nm_port *server) {
  if (server->for_children == NULL) {
    nm_iface_setup setup;
    nm_port_inherit(server, &setup);
    server->for_children = share(server->node->mem, &setup);
    nm_wipe(&setup, sizeof(setup));
  }
  if (server->for_children != NULL) {
    server->for_children->holders++;
  }
  return server->for_children;
}

static void forget_for_children(nm_port *port) {
  let_go(port->node->mem, port->for_children);
  port->for_children = NULL;
}

static void free_port(nm_port *port) {
  const nm_mem *mem = port->node->mem;
  set_setup(port, NULL);
  forget_for_children(port);
  nm_release(mem, port->listener);
  nm_release(mem, port->past);
  nm_wipe(port, sizeof(*port));
  nm_release(mem, port);
}

/* A port with what its medium needs, or NULL. */
static nm_port *make_port(nm_node *node, const nm_iface_setup *setup,
                          const nm_port_ops *ops, nm_port *parent) {
  const nm_mem *mem = node->mem;
  nm_port *port = nm_alloc_zero(mem, 1, sizeof(*port));
  if (port == NULL) {
    return NULL;
  }
  port->node = node;
  port->ops = ops;
  set_setup(port, setup->medium == NM_MEDIUM_TCP_CHILD ? for_children(parent)
                                                       : share(mem, setup));
  bool whole = port->setup != NULL;
  if (nm_medium_is_parent(setup->medium)) {
    port->past = nm_alloc_zero(mem, 1, sizeof(*port->past));
    whole = whole && port->past != NULL;
  }
  if (setup->medium == NM_MEDIUM_TCP_SERVER) {
    port->listener = nm_alloc_zero(mem, 1, sizeof(*port->listener));
    whole = whole && port->listener != NULL;
  }
  if (!whole) {
    free_port(port);
    return NULL;
  }
  if (port->listener != NULL) {
    port->listener->fd = -1;
    port->listener->reserve_fd = -1;
  }
  return port;
}

/* The name, and what the medium decides. */
static int complete_spec(const nm_iface_setup *setup, uint16_t actual,
                         nm_iface_spec *spec) {
  spec->online = false;
  spec->role = setup->medium == NM_MEDIUM_LOCAL_CLIENT
                   ? NM_ROLE_SHARED_CONNECTION
                   : NM_ROLE_ORDINARY;
  /* The connecting end of HDLC over TCP (RNS 1, 8.11). */
  spec->tunnels = setup->medium == NM_MEDIUM_TCP_CLIENT && !setup->kiss;
  return nm_iface_display_name(setup, actual, spec->name);
}

int nm_port_add(nm_node *node, const nm_iface_setup *setup, uint16_t actual,
                const nm_port_ops *ops, nm_port *parent, nm_port **out) {
  *out = NULL;
  nm_iface_setup own = *setup;
  nm_iface_spec *spec = &own.spec;
  nm_port *port = NULL;
  int status = complete_spec(setup, actual, spec);
  if (status == NM_OK) {
    port = make_port(node, &own, ops, parent);
    status = port == NULL ? NM_E(MEMORY) : NM_OK;
  }
  if (status == NM_OK) {
    port->port = actual;
    nm_interface_hash(nm_span_of(spec->name, strlen(spec->name)), port->hash);
    status = register_port(port, spec);
  }
  nm_wipe(&own, sizeof(own));
  if (status != NM_OK) {
    if (port != NULL) {
      free_port(port);
    }
    return status;
  }
  node->port_count++;
  join_parent(port, parent);
  if (setup->medium != NM_MEDIUM_TCP_CHILD) {
    nm_orphans_adopt(node, port->id, port->hash);
  }
  nm_node_ifaces_changed(node, true);
  nm_node_wake(node);
  *out = port;
  return NM_OK;
}

void nm_port_inherit(const nm_port *parent, nm_iface_setup *child) {
  *child = *parent->setup;
  child->medium = parent->setup->medium == NM_MEDIUM_AUTO ? NM_MEDIUM_AUTO_PEER
                                                          : NM_MEDIUM_TCP_CHILD;
  child->fd = -1;
  child->spec.receives = parent->wants_receives;
  child->spec.sends = parent->wants_sends;
  child->spec.online = false;
}

static void free_if_done(nm_port *port) {
  if (!port->gone || port->handles > 0) {
    return;
  }
  nm_node *node = port->node;
  nm_timer_disarm(&node->loop->timers, &port->timer);
  nm_loop_unreserve_timers(node->loop, 1);
  if (port->ops->dispose != NULL) {
    port->ops->dispose(port);
  }
  node->port_count--;
  free_port(port);
  nm_node_wake(node);
}

void nm_port_handle_closed(nm_port *port) {
  port->handles--;
  free_if_done(port);
}

/* Adds what the engine counted for |port|. */
static void add_counters(nm_iface_counters *sum, const nm_port *port) {
  nm_iface_counters more;
  if (!nm_engine_iface_counters(port->node->engine, port->id, &more)) {
    return;
  }
#define ADD(name) sum->name += more.name;
  NM_IFACE_TALLIES(ADD)
#undef ADD
  for (size_t i = 0; i < NM_DROP_COUNT; i++) {
    sum->drops[i] += more.drops[i];
  }
}

/* What a child counted stays with its server. */
static void leave_parent(nm_port *port) {
  nm_port *parent = port->parent;
  if (parent == NULL) {
    return;
  }
  add_counters(parent->past, port);
  parent->wire_rx += port->wire_rx;
  parent->wire_tx += port->wire_tx;
  parent->echoes += port->echoes;
  for (size_t i = 0; i < NM_PORT_DROP_COUNT; i++) {
    parent->drops[i] += port->drops[i];
  }
  if (port->prev_sibling != NULL) {
    port->prev_sibling->next_sibling = port->next_sibling;
  } else {
    parent->first_child = port->next_sibling;
  }
  if (port->next_sibling != NULL) {
    port->next_sibling->prev_sibling = port->prev_sibling;
  }
  parent->connections--;
  port->parent = NULL;
}

void nm_port_remove(nm_port *port) {
  nm_node *node = port->node;
  if (port->gone) {
    return;
  }
  port->gone = true;
  port->handles++; /* kept until the end of this function */
  while (port->first_child != NULL) {
    nm_port_remove(port->first_child);
  }
  leave_parent(port);
  (void)nm_engine_iface_remove(node->engine, port->id, node->loop->now);
  nm_table_remove(&node->ports, &port->link);
  nm_timer_disarm(&node->loop->timers, &port->timer);
  port->ops->stop(port);
  nm_node_ifaces_changed(node, true);
  nm_node_wake(node);
  nm_port_handle_closed(port);
}

void nm_port_remove_all(nm_node *node) {
  nm_port *port;
  while ((port = nm_port_next(node, NULL)) != NULL) {
    nm_port_remove(port);
  }
}

/* ---- state ---- */

static void apply(nm_port *port) {
  nm_node *node = port->node;
  bool online = port->up && !port->paused && !port->gone;
  const nm_iface_spec *known = nm_engine_iface(node->engine, port->id);
  if (known == NULL || known->online == online) {
    return;
  }
  nm_iface_spec spec = *known;
  spec.online = online;
  (void)nm_engine_iface_change(node->engine, port->id, &spec, node->loop->now);
  nm_wipe(&spec, sizeof(spec));
  nm_node_ifaces_changed(node, true);
  nm_node_wake(node);
}

void nm_port_set_up(nm_port *port, bool up) {
  port->up = up;
  apply(port);
}

/* |next|, which this takes over, is the port's set-up from now on. */
static int change_to(nm_port *port, nm_shared_setup *next) {
  nm_node *node = port->node;
  const nm_iface_spec *known = nm_engine_iface(node->engine, port->id);
  if (next == NULL || known == NULL) {
    let_go(node->mem, next);
    return next == NULL ? NM_E(MEMORY) : NM_E(STATE);
  }
  nm_iface_spec spec = next->is.spec;
  memcpy(spec.name, known->name, sizeof(spec.name));
  spec.online = port->up && !port->paused;
  int status =
      nm_engine_iface_change(node->engine, port->id, &spec, node->loop->now);
  nm_wipe(&spec, sizeof(spec));
  if (status != NM_OK) {
    let_go(node->mem, next);
    return status;
  }
  set_setup(port, next);
  forget_for_children(port);
  port->ops->change(port);
  nm_node_ifaces_changed(node, true);
  nm_node_wake(node);
  return NM_OK;
}

/* A set-up like the port's, but with |wanted|. NULL without memory. */
static nm_shared_setup *with_spec(nm_port *port, const nm_iface_spec *wanted) {
  nm_shared_setup *next = share(port->node->mem, port->setup);
  if (next == NULL) {
    return NULL;
  }
  nm_iface_spec *spec = &next->is.spec;
  *spec = *wanted;
  memcpy(spec->name, port->setup->spec.name, sizeof(spec->name));
  spec->role = port->setup->spec.role;
  spec->tunnels = port->setup->spec.tunnels;
  spec->receives = spec->receives && !port->deaf;
  spec->sends = spec->sends && !port->mute;
  spec->online = false;
  return next;
}

static nm_shared_setup *inherited(nm_port *child) {
  if (child->setup->medium == NM_MEDIUM_TCP_CHILD) {
    return for_children(child->parent);
  }
  nm_iface_setup setup;
  nm_port_inherit(child->parent, &setup);
  nm_shared_setup *next = with_spec(child, &setup.spec);
  nm_wipe(&setup, sizeof(setup));
  return next;
}

int nm_port_change(nm_port *port, const nm_iface_spec *wanted) {
  nm_shared_setup *next = with_spec(port, wanted);
  if (next == NULL) {
    return NM_E(MEMORY);
  }
  if (nm_medium_is_parent(port->setup->medium)) {
    /* The server itself carries nothing; its children do. */
    port->wants_sends = next->is.spec.sends;
    port->wants_receives = next->is.spec.receives;
    next->is.spec.sends = false;
    next->is.spec.receives = false;
  }
  int status = change_to(port, next);
  for (nm_port *child = port->first_child; child != NULL && status == NM_OK;
       child = child->next_sibling) {
    status = change_to(child, inherited(child));
  }
  return status;
}

void nm_port_pause(nm_port *port, bool on) {
  if (port->paused != on) {
    port->paused = on;
    port->ops->pause(port, on);
    apply(port);
    nm_node_ifaces_changed(port->node, true);
  }
  for (nm_port *child = port->first_child; child != NULL;
       child = child->next_sibling) {
    nm_port_pause(child, on);
  }
}

void nm_port_trouble_set(nm_port *port, nm_port_trouble trouble, int error) {
  nm_port_trouble_at(port, trouble, error, "");
}

void nm_port_trouble_at(nm_port *port, nm_port_trouble trouble, int error,
                        const char *device) {
  port->trouble = trouble;
  port->os_error = error;
  nm_node_ifaces_changed(port->node, true);
  nm_trouble told = {.kind = NM_TROUBLE_IFACE,
                     .at = port->node->loop->now,
                     .iface = port->id,
                     .port = trouble,
                     .os_error = error};
  memcpy(told.file, device, strlen(device) + 1);
  nm_node_tell(port->node, &told);
}

size_t nm_port_frame_max(const nm_port *port) {
  const nm_iface_spec *spec = &port->setup->spec;
  size_t mtu = spec->hw_mtu != 0 ? spec->hw_mtu : FRAME_UNLIMITED;
  size_t code = spec->ifac_set ? spec->ifac.size : 0;
  return mtu + code < NM_FRAME_MAX ? mtu + code : NM_FRAME_MAX;
}

void nm_port_relieve(nm_port *port) {
  if (port->ops->relieve != NULL && port->jobs <= NM_PORT_JOBS_LOW) {
    port->ops->relieve(port);
  }
}

bool nm_port_is_flushed(const nm_port *port) {
  size_t bytes = 0;
  return port->ops->waiting == NULL || port->ops->waiting(port, &bytes) == 0;
}

/* ---- frames ---- */

void nm_port_count_drop(nm_port *port, nm_port_drop reason) {
  port->drops[reason]++;
  nm_node_ifaces_changed(port->node, false);
}

/* Whether |raw|, before its access code, is a part of a resource. */
static bool is_part(nm_span raw) {
  nm_packet packet = {0};
  return nm_packet_parse(raw, &packet, NULL) == NM_OK &&
         nm_packet_is_part(&packet);
}

static bool put_out(nm_port *port, nm_block *block) {
  nm_span raw = nm_block_span(block);
  nm_loop *loop = port->node->loop;
  const nm_iface_spec *spec = &port->setup->spec;
  nm_span packet = raw;
  if (!port->up || port->paused) {
    nm_port_count_drop(port, NM_PORT_DROP_OFFLINE);
    return false;
  }
  if (spec->ifac_set) {
    nm_mspan room = {loop->frame, NM_FRAME_MAX};
    int len = nm_egress(&spec->ifac, raw, room);
    if (len < 0) {
      nm_port_count_drop(port, NM_PORT_DROP_EGRESS);
      return false;
    }
    packet = nm_span_of(loop->frame, (size_t)len);
  }
  if (port->node->tap) {
    nm_node_tap(port->node, port->id, false, packet);
  }
  port->part = !port->is_patient && is_part(raw) ? block : NULL;
  return port->ops->send(port, packet);
}

void nm_port_output(nm_port *port, const nm_output *out) {
  port->is_patient = out->patient;
  bool ok = put_out(port, out->packet);
  nm_node_ifaces_changed(port->node, false);
  if (out->op != 0) {
    nm_engine_sent(port->node->engine, out->op, ok, port->node->loop->now);
  }
}

static nm_ingress_config ingress_of(const nm_port *port) {
  const nm_iface_spec *spec = &port->setup->spec;
  nm_ingress_config config = {.ifac = spec->ifac_set ? &spec->ifac : NULL,
                              .hw_mtu = spec->hw_mtu,
                              .parts_unhashed = true};
  return config;
}

static void to_frame(nm_port *port, nm_span data, bool hashed,
                     nm_frame *frame) {
  nm_loop *loop = port->node->loop;
  nm_ingress_config config = ingress_of(port);
  config.parts_unhashed = !hashed;
  nm_mspan scratch = {loop->frame, NM_FRAME_MAX};
  nm_ingress(&config, data, scratch, frame);
}

void nm_port_ingress(nm_port *port, nm_span data, nm_frame *frame) {
  to_frame(port, data, true, frame);
}

void nm_port_input(nm_port *port, nm_span data, nm_verdict *verdict) {
  nm_node *node = port->node;
  nm_frame frame;
  to_frame(port, data, verdict != NULL, &frame);
  port->heard = port->heard || frame.drop == NM_DROP_NONE;
  if (node->tap) {
    nm_node_tap(node, port->id, true, data);
  }
  nm_node_grant(node); /* what was read meanwhile makes room for this one */
  nm_verdict given =
      nm_engine_input(node->engine, port->id, &frame, nm_loop_now(node->loop));
  if (verdict != NULL) {
    *verdict = given;
  }
  nm_node_ifaces_changed(node, false);
  nm_node_wake(node);
}

/* Behind what access codes are taken off into. */
_Static_assert(2 * NM_PORT_ROOM <= NM_FRAME_MAX, "a batch needs two rooms");

uint8_t *nm_port_room(nm_port *port) {
  return port->node->loop->frame + NM_PORT_ROOM;
}

void nm_port_input_many(nm_port *port, const nm_span *data, size_t count) {
  nm_node *node = port->node;
  nm_ingress_config config = ingress_of(port);
  nm_mspan scratch = {node->loop->frame, NM_PORT_ROOM};
  nm_frame frames[NM_PORT_BATCH];
  nm_ingress_many(&config, data, count, scratch, frames);
  for (size_t i = 0; !port->heard && i < count; i++) {
    port->heard = frames[i].drop == NM_DROP_NONE;
  }
  for (size_t i = 0; node->tap && i < count; i++) {
    nm_node_tap(node, port->id, true, data[i]);
  }
  nm_node_grant(node);
  nm_engine_input_many(node->engine, port->id, frames, count, NULL,
                       nm_loop_now(node->loop));
  nm_node_ifaces_changed(node, false);
  nm_node_wake(node);
}

/* ---- lists ---- */

static void fill_medium(const nm_port *port, nm_iface_info *info) {
  info->queued_packets = port->frames_count;
  info->queued_bytes = (uint32_t)port->frames_bytes;
  if (port->ops->waiting != NULL) {
    size_t bytes = 0;
    info->queued_packets += port->ops->waiting(port, &bytes);
    info->queued_bytes += (uint32_t)bytes;
  }
  nm_conn_counters counters = {port->discarded, port->runts, port->oversize};
  if (port->ops->discarded != NULL) {
    port->ops->discarded(port, &counters);
  }
  info->rx_discarded_bytes = counters.discarded;
  info->rx_runts = counters.runts;
  info->rx_oversize = counters.oversize;
  info->rx_echoes = port->echoes;
  info->rx_strangers = port->strangers;
  info->network_errors = port->net_errors;
}

/* What the interface was told, but for the access code's key. */
static void fill_settings(const nm_iface_spec *spec, nm_iface_info *info) {
  info->mode = spec->mode;
  info->role = spec->role;
  info->has_ifac = spec->ifac_set;
  info->ifac_size = (uint16_t)(spec->ifac_set ? spec->ifac.size : 0);
  info->mtu_mode = spec->mtu_mode;
  info->hw_mtu = spec->hw_mtu;
  info->bitrate = spec->bitrate;
  info->receives = spec->receives;
  info->sends = spec->sends;
  info->tunnels = spec->tunnels;
  info->announce_cap = spec->announce_cap;
  info->rate_target_s = spec->rate_target_s;
  info->rate_grace = spec->rate_grace;
  info->rate_penalty_s = spec->rate_penalty_s;
  info->ingress_control = spec->ingress_control;
  info->ingress = spec->ingress;
  info->egress_limit = spec->egress_limit;
  info->gravity = spec->gravity;
  info->recursive_prs = spec->recursive_prs;
  info->announces_from_internal = spec->announces_from_internal;
  info->announces_to_internal = spec->announces_to_internal;
}

static void fill_info(const nm_port *port, nm_iface_info *info) {
  const nm_iface_spec *spec = &port->setup->spec;
  const nm_iface_spec *known = nm_engine_iface(port->node->engine, port->id);
  memset(info, 0, sizeof(*info));
  info->id = port->id;
  info->parent = port->parent != NULL ? port->parent->id : 0;
  info->medium = port->setup->medium;
  if (known != NULL) {
    memcpy(info->name, known->name, sizeof(info->name));
  }
  memcpy(info->label, port->setup->label, sizeof(info->label));
  memcpy(info->hash, port->hash, sizeof(info->hash));
  fill_settings(spec, info);
  if (nm_medium_is_parent(info->medium)) {
    info->sends = port->wants_sends;
    info->receives = port->wants_receives;
  }
  info->online = port->up && !port->paused;
  info->paused = port->paused;
  info->listening = port->listening;
  info->port = port->port;
  info->connections = port->connections;
  info->trouble = port->trouble;
  info->os_error = port->os_error;
  info->tries = port->tries;
  info->opened = port->opened;
  for (size_t i = 0; i < NM_PORT_REFUSED_COUNT; i++) {
    info->refusals[i] = port->refusals[i];
    info->refused += port->refusals[i];
  }
  if (port->listener != NULL) {
    info->flaps = port->listener->flaps.counted;
    info->flaps_evicted = port->listener->flaps.evicted;
  }
  info->wire_rx_bytes = port->wire_rx;
  info->wire_tx_bytes = port->wire_tx;
  memcpy(info->drops, port->drops, sizeof(info->drops));
  fill_medium(port, info);
  if (port->past != NULL) {
    info->counters = *port->past;
  }
  add_counters(&info->counters, port);
}

void nm_port_row(const nm_port *port, nm_iface_info *row) {
  fill_info(port, row);
  for (const nm_port *child = port->first_child; child != NULL;
       child = child->next_sibling) {
    add_counters(&row->counters, child);
    row->wire_rx_bytes += child->wire_rx;
    row->wire_tx_bytes += child->wire_tx;
    row->rx_echoes += child->echoes;
  }
}

nm_block *nm_port_list(nm_node *node, size_t *count) {
  *count = node->ports.count;
  nm_block *list = nm_block_new(node->mem, *count * sizeof(nm_iface_info));
  if (list == NULL) {
    return NULL;
  }
  nm_iface_info *rows = (nm_iface_info *)(void *)nm_block_bytes(list);
  nm_port *port = NULL;
  for (size_t i = 0; i < *count; i++) {
    port = nm_port_next(node, port);
    nm_port_row(port, &rows[i]);
  }
  return list;
}
