/* The table of interfaces: look-ups and properties.
 */
#include "stack/internal.h"

#include <string.h>

/* What 0 means inside the engine: a bitrate at which an automatic MTU is just
 * defined (RNS 1, 7.3). */
#define BITRATE_UNKNOWN 62500

static void dispose_iface(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_iface *iface = (nm_iface *)(void *)entry;
  nm_ifac_wipe(&iface->spec.ifac);
  if (iface->control != NULL) {
    iface->control->dispose(engine, iface);
  }
  if (iface->cap_queue != NULL) {
    iface->cap_queue->dispose(engine, iface);
  }
  nm_release(engine->mem, iface->drops.list);
  nm_release(engine->mem, iface);
}

static nm_iface **near_of(nm_engine *engine, nm_iface_id id) {
  return &engine->near[id % NM_IFACES_NEAR];
}

int nm_iface_insert(nm_engine *engine, nm_iface *iface) {
  int status = nm_table_insert(&engine->ifaces, &iface->link);
  if (status == NM_OK) {
    *near_of(engine, iface->id) = iface;
  }
  return status;
}

void nm_iface_forget(nm_engine *engine, nm_iface *iface) {
  nm_iface **near = near_of(engine, iface->id);
  if (*near == iface) {
    *near = NULL;
  }
  nm_table_remove(&engine->ifaces, &iface->link);
  dispose_iface(engine, &iface->link);
}

void nm_ifaces_init(nm_engine *engine, int *status) {
  const nm_table_config config = {
      .capacity = engine->limits.ifaces,
      .key_size = sizeof(nm_iface_id),
      .key_offset = offsetof(nm_iface, id),
      .may_evict = nm_table_keep,
      .dispose = dispose_iface,
  };
  engine->next_iface = 1;
  *status = nm_engine_table(engine, &engine->ifaces, &config);
}

void nm_ifaces_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->ifaces);
}

nm_iface *nm_iface_find(const nm_engine *engine, nm_iface_id id) {
  nm_iface *near = engine->near[id % NM_IFACES_NEAR];
  return near != NULL && near->id == id
             ? near
             : (nm_iface *)(void *)nm_table_find(&engine->ifaces, &id);
}

nm_iface *nm_iface_after(const nm_engine *engine, const nm_iface *iface) {
  const nm_table_link *link = iface == NULL ? NULL : &iface->link;
  return (nm_iface *)(void *)nm_table_next(&engine->ifaces, link);
}

nm_iface *nm_iface_named(const nm_engine *engine, const char *name) {
  nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    if (strcmp(iface->spec.name, name) == 0) {
      return iface;
    }
  }
  return NULL;
}

bool nm_iface_can_send(const nm_iface *iface) {
  return iface->spec.online && iface->spec.sends;
}

double nm_iface_bitrate(const nm_iface *iface) {
  return (double)(iface->spec.bitrate == 0 ? BITRATE_UNKNOWN
                                           : iface->spec.bitrate);
}

uint32_t nm_iface_link_mtu(const nm_iface *iface) {
  const nm_iface_spec *spec = &iface->spec;
  if (spec->mtu_mode == NM_MTU_NONE || spec->hw_mtu == 0) {
    return NM_MTU;
  }
  return spec->hw_mtu > NM_LINK_MTU_MAX ? NM_LINK_MTU_MAX
                                        : (uint32_t)spec->hw_mtu;
}

/* ---- drops, of few reasons each ---- */

#define DROPS_FIRST 4 /* entries */
#define REASON_MASK 0xffu
#define ONE_DROP (REASON_MASK + 1u)
_Static_assert(NM_DROP_COUNT <= REASON_MASK, "a reason fits into a byte");

void nm_iface_count_drop(nm_engine *engine, nm_iface *iface, nm_drop reason) {
  nm_iface_drops *drops = &iface->drops;
  for (size_t i = 0; i < drops->count; i++) {
    if ((drops->list[i] & REASON_MASK) == reason) {
      drops->list[i] += ONE_DROP;
      return;
    }
  }
  if (drops->count == drops->cap) {
    size_t cap = drops->cap == 0 ? DROPS_FIRST : 2u * drops->cap;
    uint64_t *list =
        nm_resize(engine->mem, drops->list, cap * sizeof(*drops->list));
    if (list == NULL) {
      return;
    }
    drops->list = list;
    drops->cap = (uint8_t)cap;
  }
  drops->list[drops->count++] = ONE_DROP | (uint64_t)reason;
}

static void read_drops(const nm_iface_drops *drops,
                       uint64_t out[NM_DROP_COUNT]) {
  memset(out, 0, NM_DROP_COUNT * sizeof(*out));
  for (size_t i = 0; i < drops->count; i++) {
    out[drops->list[i] & REASON_MASK] = drops->list[i] / ONE_DROP;
  }
}

/* ---- what a driver reads ---- */

const nm_iface_spec *nm_engine_iface(const nm_engine *engine, nm_iface_id id) {
  const nm_iface *iface = nm_iface_find(engine, id);
  return iface == NULL ? NULL : &iface->spec;
}

_Static_assert(sizeof(nm_iface_tally) == offsetof(nm_iface_counters, drops),
               "the counters begin like the tally");

bool nm_engine_iface_counters(const nm_engine *engine, nm_iface_id id,
                              nm_iface_counters *counters) {
  const nm_iface *iface = nm_iface_find(engine, id);
  if (iface == NULL) {
    return false;
  }
  memcpy(counters, &iface->tally, sizeof(iface->tally));
  read_drops(&iface->drops, counters->drops);
  return true;
}

nm_iface_id nm_engine_iface_next(const nm_engine *engine, nm_iface_id id) {
  const nm_iface *iface = id == 0 ? NULL : nm_iface_find(engine, id);
  if (id != 0 && iface == NULL) {
    return 0;
  }
  iface = nm_iface_after(engine, iface);
  return iface == NULL ? 0 : iface->id;
}
