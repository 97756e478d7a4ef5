/* Several ways to one destination: what is kept besides the one in use. The
 * wire knows nothing of it; a path that fails needs no new announce.
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"

#include <string.h>

static bool is_way(const nm_alternative *way, const uint8_t *next_hop,
                   nm_iface_id iface) {
  return way->iface == iface &&
         memcmp(way->next_hop, next_hop, NM_ADDRESS_SIZE) == 0;
}

static nm_alternative *find(const nm_path *path, const uint8_t *next_hop,
                            nm_iface_id iface) {
  for (uint8_t i = 0; i < path->alternative_count; i++) {
    if (is_way(&path->alternatives[i], next_hop, iface)) {
      return &path->alternatives[i];
    }
  }
  return NULL;
}

/* ---- their order ---- */

static nm_way_choice choice_of(const nm_engine *engine,
                               const nm_alternative *way) {
  const nm_iface *iface = nm_iface_find(engine, way->iface);
  nm_way_choice choice = {.emitted = way->emitted, .hops = way->hops};
  if (iface != NULL) {
    choice.gravity = iface->spec.gravity;
    choice.bitrate = nm_iface_bitrate(iface);
  }
  return choice;
}

/* What failed comes last, the latest failure at the end. Equal ones have an
 * order too, so that the order of arrival does not matter. */
static bool comes_before(const nm_engine *engine, const nm_alternative *a,
                         const nm_alternative *b) {
  if (a->failed_us != b->failed_us) {
    return a->failed_us < b->failed_us;
  }
  nm_way_choice one = choice_of(engine, a);
  nm_way_choice other = choice_of(engine, b);
  if (nm_way_preferred(&one, &other) || nm_way_preferred(&other, &one)) {
    return nm_way_preferred(&one, &other);
  }
  if (a->iface != b->iface) {
    return a->iface < b->iface;
  }
  return memcmp(a->next_hop, b->next_hop, NM_ADDRESS_SIZE) < 0;
}

void nm_alternatives_sort(const nm_engine *engine, nm_path *path) {
  for (uint8_t i = 1; i < path->alternative_count; i++) {
    nm_alternative moving = path->alternatives[i];
    uint8_t at = i;
    while (at > 0 &&
           comes_before(engine, &moving, &path->alternatives[at - 1])) {
      path->alternatives[at] = path->alternatives[at - 1];
      at--;
    }
    path->alternatives[at] = moving;
  }
}

/* ---- adding and removing ---- */

/* Room for one more: a new place, or that of the last one if |way| comes before
 * it. NULL: none. */
static nm_alternative *make_place(nm_engine *engine, nm_path *path,
                                  const nm_alternative *way) {
  uint32_t most = engine->limits.path_alternatives;
  if (path->alternative_count < most) {
    void *grown =
        nm_resize(engine->mem, path->alternatives,
                  (path->alternative_count + 1u) * sizeof(nm_alternative));
    if (grown == NULL) {
      return NULL;
    }
    path->alternatives = grown;
    engine->routes.alternatives++;
    return &path->alternatives[path->alternative_count++];
  }
  engine->stats.alternatives_evicted++;
  nm_alternative *last = &path->alternatives[path->alternative_count - 1];
  return comes_before(engine, way, last) ? last : NULL;
}

void nm_alternative_add(nm_engine *engine, nm_path *path,
                        const nm_alternative *way) {
  nm_alternative *place = find(path, way->next_hop, way->iface);
  if (place == NULL) {
    place = make_place(engine, path, way);
  } else if (place->emitted > way->emitted) {
    return;
  }
  if (place != NULL) {
    nm_kept_mark(engine, NM_KEPT_PATHS, &path->changed);
    *place = *way;
    nm_alternatives_sort(engine, path);
  }
}

static void remove_at(nm_engine *engine, nm_path *path, uint8_t at) {
  nm_kept_mark(engine, NM_KEPT_PATHS, &path->changed);
  path->alternative_count--;
  engine->routes.alternatives--;
  memmove(&path->alternatives[at], &path->alternatives[at + 1],
          (size_t)(path->alternative_count - at) * sizeof(nm_alternative));
  if (path->alternative_count == 0) {
    nm_release(engine->mem, path->alternatives);
    path->alternatives = NULL;
  }
}

bool nm_alternative_remove(nm_engine *engine, nm_path *path,
                           const uint8_t *next_hop, nm_iface_id iface) {
  nm_alternative *way = find(path, next_hop, iface);
  if (way != NULL) {
    remove_at(engine, path, (uint8_t)(way - path->alternatives));
  }
  return way != NULL;
}

/* It ends with its interface, and lives as long as a path learnt there. */
static bool is_over(const nm_engine *engine, const nm_alternative *way) {
  const nm_iface *iface = nm_iface_find(engine, way->iface);
  return iface == NULL ||
         engine->now.mono_us >
             way->heard_us + nm_us(nm_path_lifetime(iface->spec.mode));
}

void nm_alternatives_prune(nm_engine *engine, nm_path *path, nm_iface_id gone) {
  for (uint8_t i = path->alternative_count; i-- > 0;) {
    const nm_alternative *way = &path->alternatives[i];
    if (way->iface == gone || is_over(engine, way)) {
      remove_at(engine, path, i);
    }
  }
}

void nm_alternatives_dispose(nm_engine *engine, nm_path *path) {
  engine->routes.alternatives -= path->alternative_count;
  nm_release(engine->mem, path->alternatives);
}

/* ---- in use ---- */

nm_alternative *nm_alternative_first(const nm_engine *engine,
                                     const nm_path *path, bool sends) {
  for (uint8_t i = 0; i < path->alternative_count; i++) {
    nm_alternative *way = &path->alternatives[i];
    if (!is_over(engine, way) &&
        (!sends || nm_iface_can_send(nm_iface_find(engine, way->iface)))) {
      return way;
    }
  }
  return NULL;
}

void nm_alternative_swap(const nm_engine *engine, nm_path *path,
                         nm_alternative *next) {
  const nm_iface *iface = nm_iface_find(engine, next->iface);
  nm_alternative old = {.iface = path->iface,
                        .hops = path->hops,
                        .emitted = path->emitted,
                        .heard_us = path->taken_us};
  memcpy(old.next_hop, path->next_hop, NM_ADDRESS_SIZE);
  memcpy(path->next_hop, next->next_hop, NM_ADDRESS_SIZE);
  path->iface = next->iface;
  path->hops = next->hops;
  path->emitted = next->emitted;
  path->expires_us = next->heard_us + nm_us(nm_path_lifetime(iface->spec.mode));
  path->updated_us = engine->now.mono_us;
  path->taken_us = engine->now.mono_us;
  path->state = next->failed_us == 0 ? NM_PATH_UNKNOWN : NM_PATH_UNRESPONSIVE;
  path->untold = true;
  *next = old;
}

/* ---- records ---- */

static nm_path *path_of(const nm_engine *engine,
                        const nm_destination_hash *hash) {
  return (nm_path *)(void *)nm_table_find(&engine->routes.paths, hash);
}

/* The first alternative of the path after |path| (NULL: of the first). */
static const nm_alternative *of_next_path(const nm_engine *engine,
                                          const nm_path **path) {
  do {
    *path = (const nm_path *)(const void *)nm_table_next(
        &engine->routes.paths, *path == NULL ? NULL : &(*path)->link);
  } while (*path != NULL && (*path)->alternative_count == 0);
  return *path == NULL ? NULL : (*path)->alternatives;
}

static void fill(const nm_engine *engine, const nm_path *path,
                 const nm_alternative *way, nm_alternative_record *record) {
  memset(record, 0, sizeof(*record));
  record->destination = path->hash;
  memcpy(record->next_hop, way->next_hop, NM_ADDRESS_SIZE);
  record->iface = way->iface;
  record->hops = way->hops;
  record->emitted = way->emitted;
  record->heard_mono_us = way->heard_us;
  record->heard_unix_us = nm_unix_of(engine, way->heard_us);
  record->failed_mono_us = way->failed_us;
  record->failed_unix_us =
      way->failed_us == 0 ? 0 : nm_unix_of(engine, way->failed_us);
}

bool nm_engine_alternative_next(const nm_engine *engine,
                                const nm_alternative_record *after,
                                nm_alternative_record *record) {
  const nm_path *path =
      after == NULL ? NULL : path_of(engine, &after->destination);
  const nm_alternative *way =
      path == NULL ? NULL : find(path, after->next_hop, after->iface);
  if (engine->routes.alternatives == 0 || (after != NULL && way == NULL)) {
    return false;
  }
  bool more =
      way != NULL && way + 1 < path->alternatives + path->alternative_count;
  way = more ? way + 1 : of_next_path(engine, &path);
  if (way == NULL) {
    return false;
  }
  fill(engine, path, way, record);
  return true;
}

bool nm_engine_path_alternative(const nm_engine *engine,
                                const nm_destination_hash *hash, uint32_t at,
                                nm_alternative_record *record) {
  const nm_path *path =
      engine->routes.alternatives == 0 ? NULL : path_of(engine, hash);
  if (path == NULL || at >= path->alternative_count) {
    return false;
  }
  fill(engine, path, &path->alternatives[at], record);
  return true;
}

int nm_engine_alternative_put(nm_engine *engine,
                              const nm_alternative_record *record, nm_now now) {
  engine->now = now;
  nm_path *path = path_of(engine, &record->destination);
  if (path == NULL || nm_iface_find(engine, record->iface) == NULL) {
    return NM_E(MISSING);
  }
  nm_alternative way = {.iface = record->iface,
                        .hops = record->hops,
                        .emitted = record->emitted,
                        .heard_us = record->heard_mono_us,
                        .failed_us = record->failed_mono_us};
  memcpy(way.next_hop, record->next_hop, NM_ADDRESS_SIZE);
  if (record->hops > NM_HOPS_MAX || is_way(&way, path->next_hop, path->iface)) {
    return NM_E(ARGUMENT);
  }
  (void)nm_alternative_remove(engine, path, way.next_hop, way.iface);
  nm_alternative_add(engine, path, &way);
  return find(path, way.next_hop, way.iface) == NULL ? NM_E(LIMIT) : NM_OK;
}

int nm_engine_alternative_drop(nm_engine *engine,
                               const nm_alternative_record *record) {
  nm_path *path = path_of(engine, &record->destination);
  return path != NULL && nm_alternative_remove(engine, path, record->next_hop,
                                               record->iface)
             ? NM_OK
             : NM_E(MISSING);
}
