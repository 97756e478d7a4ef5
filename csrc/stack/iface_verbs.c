/* Adding, changing and removing interfaces, and what that means for paths,
 * links and own destinations.
 */
#include "stack/internal.h"
#include "wire/control.h"

#include <string.h>

#define ANNOUNCE_CAP_DEFAULT 0.02 /* RNS 1, 8.8 */
#define SECOND_US 1000000ull

/* RNS 1, 8.15. */
static const nm_ingress_spec ingress_default = {
    .new_us = 7200 * SECOND_US,
    .announce_rate_new = 3,
    .announce_rate = 10,
    .request_rate_new = 3,
    .request_rate = 8,
    .hold_us = 15 * SECOND_US,
    .penalty_us = 15 * SECOND_US,
    .release_us = 5 * SECOND_US,
    .held_max = 256,
};

int nm_iface_spec_default(nm_iface_spec *spec, const char *kind,
                          const char *name) {
  memset(spec, 0, sizeof(*spec));
  const nm_interface_defaults *defaults =
      nm_interface_defaults_named(nm_span_of(kind, strlen(kind)));
  size_t len = strlen(name);
  if (defaults == NULL || len == 0 || len > NM_IFACE_NAME_MAX) {
    return NM_E(ARGUMENT);
  }
  memcpy(spec->name, name, len);
  spec->mode = NM_IF_FULL;
  spec->mtu_mode = defaults->mtu_mode;
  spec->hw_mtu = defaults->hw_mtu;
  spec->bitrate = (uint64_t)defaults->bitrate;
  if (spec->mtu_mode == NM_MTU_AUTO) {
    spec->hw_mtu = nm_mtu_for_bitrate(defaults->bitrate);
  }
  spec->receives = true;
  spec->sends = true;
  spec->online = true;
  spec->announce_cap = ANNOUNCE_CAP_DEFAULT;
  spec->ingress_control = defaults->ingress_limit;
  spec->ingress = ingress_default;
  spec->announces_from_internal = true;
  spec->announces_to_internal = -1;
  return NM_OK;
}

static bool rate_is_sane(double rate) {
  return rate >= 0 && rate <= 1e6;
}

static bool ingress_is_sane(const nm_ingress_spec *ingress) {
  return rate_is_sane(ingress->announce_rate_new) &&
         rate_is_sane(ingress->announce_rate) &&
         rate_is_sane(ingress->request_rate_new) &&
         rate_is_sane(ingress->request_rate) &&
         ingress->new_us <= NM_INGRESS_TIME_MAX_US &&
         ingress->hold_us <= NM_INGRESS_TIME_MAX_US &&
         ingress->penalty_us <= NM_INGRESS_TIME_MAX_US &&
         ingress->release_us >= 1000 &&
         ingress->release_us <= NM_INGRESS_TIME_MAX_US &&
         ingress->held_max <= NM_INGRESS_HELD_MAX;
}

static bool spec_is_sane(const nm_iface_spec *spec) {
  return spec->name[0] != '\0' && memchr(spec->name, 0, sizeof(spec->name)) &&
         spec->mode >= NM_IF_FULL && spec->mode <= NM_IF_INTERNAL &&
         (spec->hw_mtu == 0 || spec->hw_mtu >= NM_MTU) &&
         spec->announce_cap > 0 && spec->announce_cap <= 1 &&
         ingress_is_sane(&spec->ingress);
}

static void tell(nm_engine *engine, const nm_iface *iface, uint8_t state) {
  nm_event event = nm_engine_event_of(engine, NM_EVENT_IFACE);
  event.iface = iface->id;
  event.state = state;
  nm_engine_emit_lossy(engine, &event);
}

/* ---- tunnels (RNS 1, 8.11) ---- */

static nm_block *tunnel_packet(nm_engine *engine, const nm_iface *iface) {
  uint8_t random[NM_ADDRESS_SIZE];
  uint8_t payload[NM_TUNNEL_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  const nm_identity *self = nm_engine_identity(engine);
  if (self == NULL || /* never, which the compiler does not see */
      nm_engine_random(engine, random, sizeof(random)) != NM_OK ||
      nm_tunnel_write(&w, self, iface->hash, random) != NM_OK) {
    return NULL;
  }
  nm_packet packet = nm_tunnel_packet(nm_writer_done(&w));
  return nm_engine_pack(engine, &packet, NM_PACKET_ORIGINATE, NM_MTU);
}

static int synthesize(nm_engine *engine, nm_iface *iface) {
  nm_block *raw = tunnel_packet(engine, iface);
  return raw == NULL ? NM_E(LIBRARY) : nm_iface_send(engine, iface, raw, 0);
}

int nm_engine_tunnel(nm_engine *engine, nm_iface_id id, nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, id);
  return iface == NULL ? NM_E(MISSING) : synthesize(engine, iface);
}

/* What happens when the interface comes online. */
static void greet(nm_engine *engine, nm_iface *iface) {
  nm_locals_iface_online(engine, iface->id);
  nm_asks_iface_online(engine, iface->id);
  if (iface->spec.tunnels) {
    (void)synthesize(engine, iface);
  }
}

/* ---- adding, changing, removing ---- */

static int check_role(const nm_engine *engine, const nm_iface_spec *spec) {
  return spec->role == NM_ROLE_LOCAL_CLIENT && !engine->shared_instance
             ? NM_E(STATE)
             : NM_OK;
}

int nm_engine_iface_add(nm_engine *engine, const nm_iface_spec *spec,
                        nm_iface_id *id, nm_now now) {
  engine->now = now;
  *id = 0;
  if (engine->closing) {
    return NM_E(STATE);
  }
  if (!spec_is_sane(spec)) {
    return NM_E(ARGUMENT);
  }
  if (nm_iface_named(engine, spec->name) != NULL) {
    return NM_E(DUPLICATE_KEY);
  }
  if (check_role(engine, spec) != NM_OK) {
    return NM_E(STATE);
  }
  nm_iface *iface = nm_alloc_zero(engine->mem, 1, sizeof(*iface));
  if (iface == NULL) {
    return NM_E(MEMORY);
  }
  iface->id = engine->next_iface;
  iface->spec = *spec;
  iface->added_unix_us = now.unix_us;
  iface->added_us = now.mono_us;
  nm_sha256(iface->hash, nm_span_of(spec->name, strlen(spec->name)));
  int status = nm_iface_insert(engine, iface);
  if (status != NM_OK) {
    nm_release(engine->mem, iface);
    return status;
  }
  engine->next_iface++;
  engine->carried.clients += spec->role == NM_ROLE_LOCAL_CLIENT;
  *id = iface->id;
  tell(engine, iface, NM_IFACE_ADDED);
  if (spec->online) {
    greet(engine, iface);
  }
  return NM_OK;
}

int nm_engine_iface_change(nm_engine *engine, nm_iface_id id,
                           const nm_iface_spec *spec, nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, id);
  if (iface == NULL) {
    return NM_E(STATE);
  }
  if (!spec_is_sane(spec) || strcmp(spec->name, iface->spec.name) != 0) {
    return NM_E(ARGUMENT);
  }
  if (check_role(engine, spec) != NM_OK) {
    return NM_E(STATE);
  }
  bool was_online = iface->spec.online;
  nm_ifac old = iface->spec.ifac;
  engine->carried.clients -= iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  engine->carried.clients += spec->role == NM_ROLE_LOCAL_CLIENT;
  iface->spec = *spec;
  nm_ifac_wipe(&old);
  if (was_online != spec->online) {
    tell(engine, iface, spec->online ? NM_IFACE_ONLINE : NM_IFACE_OFFLINE);
    if (spec->online) {
      greet(engine, iface);
    } else {
      nm_links_iface_down(engine, id);
      nm_routes_iface_down(engine, id);
    }
  } else {
    tell(engine, iface, NM_IFACE_CHANGED);
  }
  return NM_OK;
}

static void fail_unsent(void *user, nm_op_id op) {
  nm_engine *engine = user;
  nm_engine_sent(engine, op, false, engine->now);
}

int nm_engine_iface_remove(nm_engine *engine, nm_iface_id id, nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, id);
  if (iface == NULL) {
    return NM_E(STATE);
  }
  iface->spec.online = false;
  nm_links_iface_down(engine, id);
  nm_routes_iface_gone(engine, id);
  nm_outbox_purge(&engine->outbox, id, fail_unsent, engine);
  nm_outbox_purge(&engine->relays, id, fail_unsent, engine);
  nm_tunnel_iface_gone(iface);
  engine->carried.clients -= iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  tell(engine, iface, NM_IFACE_REMOVED);
  nm_iface_forget(engine, iface);
  return NM_OK;
}
