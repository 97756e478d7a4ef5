/* The path table (RNS 1, 8.2, 8.5.1, 8.13).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"

#include <string.h>

#define SECOND_US 1000000ull
#define CULL_INTERVAL_US (5 * SECOND_US)
/* Entries looked at in one step, and the pause between two steps of a walk. */
#define CULL_STEP 128
#define CULL_PAUSE_US 2000

static void dispose_path(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_path *path = (nm_path *)(void *)entry;
  nm_kept_gone(engine, NM_KEPT_PATHS, path->changed, path->hash.b);
  nm_alternatives_dispose(engine, path);
  nm_block_drop(path->announce);
  nm_release(engine->mem, path->blobs);
  nm_release(engine->mem, path->odd_hash);
  nm_release(engine->mem, path);
}

static void cull(void *user, nm_timer *timer);

int nm_paths_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.paths,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_path, hash),
      .dispose = dispose_path,
  };
  int status = nm_engine_table(engine, &engine->routes.paths, &config);
  if (status == NM_OK) {
    status = nm_engine_reserve_timers(engine, 1);
  }
  engine->routes.cull.fire = cull;
  return status;
}

void nm_paths_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->routes.paths);
}

static void hash_of(const nm_block *announce, nm_packet_hash *hash) {
  memset(hash, 0, sizeof(*hash));
  if (announce != NULL) {
    (void)nm_packet_digest_raw(nm_block_span(announce), hash, NULL);
  }
}

void nm_path_announce_hash(const nm_path *path, nm_packet_hash *hash) {
  if (path->odd_hash != NULL) {
    *hash = *path->odd_hash;
  } else {
    hash_of(path->announce, hash);
  }
}

static nm_path *stored_path(const nm_engine *engine,
                            const nm_destination_hash *hash) {
  return (nm_path *)(void *)nm_table_find(&engine->routes.paths, hash);
}

/* A path ends with its interface unless it has an alternative. The walk may
 * not have noticed yet; it tells of the other way when it does. */
static bool is_there(const nm_engine *engine, nm_path *path) {
  if (nm_iface_find(engine, path->iface) != NULL) {
    return true;
  }
  nm_alternative *next = nm_alternative_first(engine, path, false);
  if (next != NULL) {
    nm_alternative_swap(engine, path, next);
  }
  return next != NULL;
}

static nm_path *with_iface(const nm_engine *engine, nm_path *path) {
  return path != NULL && is_there(engine, path) ? path : NULL;
}

nm_path *nm_path_find(const nm_engine *engine,
                      const nm_destination_hash *hash) {
  return with_iface(engine, stored_path(engine, hash));
}

nm_path *nm_path_find_keyed(const nm_engine *engine,
                            const nm_destination_hash *hash, uint64_t key) {
  return with_iface(engine, (nm_path *)(void *)nm_table_find_hashed(
                                &engine->routes.paths, key, hash));
}

static void mark(nm_engine *engine, nm_path *path) {
  nm_kept_mark(engine, NM_KEPT_PATHS, &path->changed);
}

static void tell(nm_engine *engine, const nm_path *path, bool known) {
  nm_event event = nm_engine_event_of(engine, NM_EVENT_PATH);
  event.destination = path->hash;
  event.iface = path->iface;
  event.hops = known ? path->hops : NM_HOPS_UNKNOWN;
  event.state = path->state;
  event.status = known ? NM_OK : NM_E(MISSING);
  nm_engine_emit_lossy(engine, &event);
}

/* Says that the path leads another way now, and puts the alternatives in
 * order. */
static void tell_moved(nm_engine *engine, nm_path *path) {
  path->untold = false;
  engine->stats.paths_failed_over++;
  nm_alternatives_prune(engine, path, 0);
  nm_alternatives_sort(engine, path);
  mark(engine, path);
  tell(engine, path, true);
}

void nm_path_forget(nm_engine *engine, nm_path *path) {
  tell(engine, path, false);
  nm_table_remove(&engine->routes.paths, &path->link);
  dispose_path(engine, &path->link);
}

static nm_path *next_path(const nm_engine *engine, const nm_path *path) {
  const nm_table_link *link = path == NULL ? NULL : &path->link;
  return (nm_path *)(void *)nm_table_next(&engine->routes.paths, link);
}

/* Deletion counts from the last use (RNS 1, 8.13). */
static bool is_over(const nm_engine *engine, nm_path *path) {
  if (!is_there(engine, path)) {
    return true;
  }
  const nm_iface *iface = nm_iface_find(engine, path->iface);
  uint64_t life = nm_us(nm_path_lifetime(iface->spec.mode));
  return engine->now.mono_us > path->updated_us + life;
}

/* Walks over the table in steps, so that no step is long. */
static void cull(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_routes *routes = &engine->routes;
  nm_path *path = routes->cull_under_way ? stored_path(engine, &routes->cull_at)
                                         : next_path(engine, NULL);
  for (int i = 0; path != NULL && i < CULL_STEP; i++) {
    nm_path *next = next_path(engine, path);
    if (is_over(engine, path)) {
      nm_path_forget(engine, path);
    } else if (path->untold) {
      tell_moved(engine, path);
    } else {
      nm_alternatives_prune(engine, path, 0);
    }
    path = next;
  }
  routes->cull_under_way = path != NULL;
  if (path != NULL) {
    routes->cull_at = path->hash;
    nm_engine_arm(engine, timer, CULL_PAUSE_US);
  } else if (routes->paths.count > 0) {
    nm_engine_arm(engine, timer, CULL_INTERVAL_US);
  }
}

/* The walk sleeps while the table is empty, so that an idle engine has no
 * deadline. */
static void wake_cull(nm_engine *engine) {
  if (!nm_timer_armed(&engine->routes.cull)) {
    nm_engine_arm(engine, &engine->routes.cull, CULL_INTERVAL_US);
  }
}

nm_announce_decision nm_path_judge(const nm_engine *engine,
                                   const nm_announce *announce, uint8_t hops,
                                   const nm_iface *iface) {
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  const nm_path *path = nm_path_find(engine, &hash);
  nm_announce_situation s = {.hops = hops,
                             .blob = announce->random_hash.ptr,
                             .gravity = iface->spec.gravity};
  if (path != NULL) {
    const nm_iface *by = nm_iface_find(engine, path->iface);
    s.has_path = true;
    s.path_hops = path->hops;
    s.path_expired = engine->now.mono_us >= path->expires_us;
    s.path_unresponsive = path->state == NM_PATH_UNRESPONSIVE;
    s.path_blobs = path->blob_count > 0 ? path->blobs[0] : NULL;
    s.path_blob_count = path->blob_count;
    s.path_gravity = by->spec.gravity;
  }
  return nm_announce_decide(&s);
}

/* Adds |blob| unless it is there; the oldest goes when there are too many. */
static bool add_blob(nm_engine *engine, nm_path *path, const uint8_t *blob) {
  for (uint32_t i = 0; i < path->blob_count; i++) {
    if (memcmp(path->blobs[i], blob, NM_RANDOM_BLOB_SIZE) == 0) {
      return true;
    }
  }
  if (path->blob_count == engine->limits.path_blobs) {
    memmove(path->blobs[0], path->blobs[1],
            (size_t)(path->blob_count - 1) * NM_RANDOM_BLOB_SIZE);
    path->blob_count--;
  } else {
    void *grown =
        nm_resize(engine->mem, path->blobs,
                  (size_t)(path->blob_count + 1) * NM_RANDOM_BLOB_SIZE);
    if (grown == NULL) {
      return false;
    }
    path->blobs = grown;
  }
  memcpy(path->blobs[path->blob_count++], blob, NM_RANDOM_BLOB_SIZE);
  return true;
}

static nm_path *ensure_path(nm_engine *engine,
                            const nm_destination_hash *hash) {
  nm_path *path = stored_path(engine, hash);
  if (path != NULL) {
    nm_table_touch(&engine->routes.paths, &path->link);
    return path;
  }
  path = nm_alloc_zero(engine->mem, 1, sizeof(*path));
  if (path == NULL) {
    return NULL;
  }
  path->hash = *hash;
  if (nm_table_insert(&engine->routes.paths, &path->link) != NM_OK) {
    nm_release(engine->mem, path);
    return NULL;
  }
  wake_cull(engine);
  return path;
}

/* The next hop that an announce names (RNS 1, 8.5.1 step 5). */
static const uint8_t *next_hop_of(const nm_announce *announce) {
  const nm_packet *packet = &announce->packet;
  return packet->header_type == NM_HEADER_2 ? packet->transport_id.ptr
                                            : packet->destination.ptr;
}

/* The path is about to lead another way: the one in use is kept. */
static void keep_way(nm_engine *engine, nm_path *path, const uint8_t *next_hop,
                     nm_iface_id iface) {
  bool same = path->iface == iface &&
              memcmp(path->next_hop, next_hop, NM_ADDRESS_SIZE) == 0;
  (void)nm_alternative_remove(engine, path, next_hop, iface);
  if (path->iface == 0 || same || nm_iface_find(engine, path->iface) == NULL) {
    return;
  }
  nm_alternative way = {.iface = path->iface,
                        .hops = path->hops,
                        .emitted = path->emitted,
                        .heard_us = path->taken_us};
  way.failed_us = path->state == NM_PATH_UNRESPONSIVE ? engine->now.mono_us : 0;
  memcpy(way.next_hop, path->next_hop, NM_ADDRESS_SIZE);
  nm_alternative_add(engine, path, &way);
}

nm_path *nm_path_learn(nm_engine *engine, const nm_announce *announce,
                       uint8_t hops, const nm_iface *iface, nm_block *raw) {
  const nm_packet *packet = &announce->packet;
  nm_destination_hash destination;
  memcpy(destination.b, packet->destination.ptr, NM_ADDRESS_SIZE);
  nm_path *path = ensure_path(engine, &destination);
  if (path == NULL) {
    return NULL;
  }
  if (!add_blob(engine, path, announce->random_hash.ptr)) {
    if (path->announce == NULL) {
      nm_table_remove(&engine->routes.paths, &path->link);
      dispose_path(engine, &path->link);
    }
    return NULL;
  }
  keep_way(engine, path, next_hop_of(announce), iface->id);
  memcpy(path->next_hop, next_hop_of(announce), NM_ADDRESS_SIZE);
  path->hops = hops;
  path->iface = iface->id;
  path->state = NM_PATH_UNKNOWN;
  path->emitted = announce->emitted;
  path->untold = false;
  path->taken_us = engine->now.mono_us;
  path->updated_us = engine->now.mono_us;
  path->expires_us =
      engine->now.mono_us + nm_us(nm_path_lifetime(iface->spec.mode));
  nm_block_drop(path->announce);
  path->announce = nm_block_hold(raw);
  nm_release(engine->mem, path->odd_hash);
  path->odd_hash = NULL;
  mark(engine, path);
  tell(engine, path, true);
  return path;
}

/* ---- several ways ---- */

/* Same bytes, same signature: such a copy needs no verification. */
static bool is_same_announce(const nm_path *path, const nm_packet *copy) {
  nm_packet kept;
  return path->announce != NULL &&
         nm_packet_parse(nm_block_span(path->announce), &kept, NULL) == NM_OK &&
         kept.context_flag == copy->context_flag &&
         nm_span_equal(kept.payload, copy->payload);
}

bool nm_path_learn_alternative(nm_engine *engine, nm_path *path,
                               const nm_announce *announce, uint8_t hops,
                               const nm_iface *iface) {
  const uint8_t *next_hop = next_hop_of(announce);
  bool in_use = path->iface == iface->id &&
                memcmp(path->next_hop, next_hop, NM_ADDRESS_SIZE) == 0;
  if (in_use || !is_same_announce(path, &announce->packet)) {
    return false;
  }
  nm_alternative way = {.iface = iface->id,
                        .hops = hops,
                        .emitted = announce->emitted,
                        .heard_us = engine->now.mono_us};
  memcpy(way.next_hop, next_hop, NM_ADDRESS_SIZE);
  nm_alternative_add(engine, path, &way);
  return true;
}

bool nm_path_failed(nm_engine *engine, nm_path *path) {
  nm_alternative *next = nm_alternative_first(engine, path, true);
  if (next == NULL) {
    path->state = NM_PATH_UNRESPONSIVE;
    mark(engine, path);
    tell(engine, path, true);
    return false;
  }
  nm_alternative_swap(engine, path, next);
  next->failed_us = engine->now.mono_us == 0 ? 1 : engine->now.mono_us;
  tell_moved(engine, path);
  return true;
}

bool nm_path_sidestep(nm_engine *engine, nm_path *path) {
  nm_alternative *next = nm_alternative_first(engine, path, true);
  if (next != NULL) {
    nm_alternative_swap(engine, path, next);
    tell_moved(engine, path);
  }
  return next != NULL;
}

/* ---- route.h ---- */

nm_iface_id nm_engine_path_iface(const nm_engine *engine,
                                 const nm_destination_hash *hash) {
  const nm_path *path = nm_path_find(engine, hash);
  return path != NULL ? path->iface : 0;
}

uint8_t nm_engine_hops(const nm_engine *engine,
                       const nm_destination_hash *hash) {
  const nm_path *path = nm_path_find(engine, hash);
  return path == NULL ? NM_HOPS_UNKNOWN : path->hops;
}

int nm_engine_drop_path(nm_engine *engine, const nm_destination_hash *hash,
                        nm_now now) {
  engine->now = now;
  nm_path *path = stored_path(engine, hash);
  if (path == NULL) {
    return NM_E(MISSING);
  }
  nm_path_forget(engine, path);
  return NM_OK;
}

int nm_engine_mark_path(nm_engine *engine, const nm_destination_hash *hash,
                        bool responsive, nm_now now) {
  engine->now = now;
  nm_path *path = nm_path_find(engine, hash);
  if (path == NULL) {
    return NM_E(MISSING);
  }
  if (!responsive) {
    (void)nm_path_failed(engine, path);
    return NM_OK;
  }
  path->state = NM_PATH_RESPONSIVE;
  mark(engine, path);
  tell(engine, path, true);
  return NM_OK;
}

/* ---- where packets go (RNS 1, 8.3 A) ---- */

void nm_way_to(nm_engine *engine, const nm_destination_hash *hash,
               nm_way *way) {
  memset(way, 0, sizeof(*way));
  way->hops = NM_HOPS_UNKNOWN;
  nm_path *path = nm_path_find(engine, hash);
  if (path == NULL) {
    return;
  }
  way->iface = nm_iface_find(engine, path->iface);
  if (!nm_iface_can_send(way->iface) && nm_path_sidestep(engine, path)) {
    way->iface = nm_iface_find(engine, path->iface);
  }
  way->hops = path->hops;
  way->relayed =
      path->hops > 1 ||
      (path->hops == 1 && way->iface->spec.role == NM_ROLE_SHARED_CONNECTION);
  memcpy(way->next_hop, path->next_hop, NM_ADDRESS_SIZE);
  nm_path_use(engine, path);
  nm_table_touch(&engine->routes.paths, &path->link);
}

/* 50 | low flag bits, hops, next hop, then the packet from its destination. */
static nm_block *relayed_copy(nm_engine *engine, const nm_way *way,
                              nm_span raw) {
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK) {
    return NULL;
  }
  packet.header_type = NM_HEADER_2;
  packet.transport_type = NM_TRANSPORT;
  packet.context_flag = 0;
  packet.transport_id = nm_span_of(way->next_hop, NM_ADDRESS_SIZE);
  return nm_engine_pack(engine, &packet, NM_PACKET_RELAY, SIZE_MAX);
}

int nm_way_send(nm_engine *engine, const nm_way *way, nm_block *packet,
                nm_op_id op) {
  if (way->iface == NULL) {
    return nm_iface_broadcast(engine, packet, NULL, op) > 0 ? NM_OK
                                                            : NM_E(STATE);
  }
  if (way->relayed) {
    nm_block *copy = relayed_copy(engine, way, nm_block_span(packet));
    nm_block_drop(packet);
    if (copy == NULL) {
      return NM_E(MEMORY);
    }
    packet = copy;
  }
  return nm_iface_send(engine, way->iface, packet, op);
}

void nm_routes_iface_down(nm_engine *engine, nm_iface_id iface) {
  const nm_iface *down = nm_iface_find(engine, iface);
  if (down == NULL || down->spec.role != NM_ROLE_SHARED_CONNECTION) {
    return;
  }
  /* What the shared instance told is void when it restarts (RNS 1, 8.12.1). */
  nm_path *path = next_path(engine, NULL);
  while (path != NULL) {
    nm_path *next = next_path(engine, path);
    if (path->iface == iface) {
      nm_path_forget(engine, path);
    } else {
      nm_alternatives_prune(engine, path, iface);
    }
    path = next;
  }
}

void nm_routes_iface_gone(nm_engine *engine, nm_iface_id iface) {
  (void)iface;
  if (engine->routes.paths.count > 0) {
    nm_engine_arm(engine, &engine->routes.cull, 0);
  }
}

/* ---- records ---- */

static bool fill_plain(const nm_engine *engine, const nm_path *path,
                       nm_path_record *record) {
  memset(record, 0, sizeof(*record));
  if (path == NULL) {
    return false;
  }
  record->destination = path->hash;
  memcpy(record->next_hop, path->next_hop, NM_ADDRESS_SIZE);
  record->hops = path->hops;
  record->iface = path->iface;
  record->updated_mono_us = path->updated_us;
  record->updated_unix_us = nm_unix_of(engine, path->updated_us);
  record->expires_mono_us = path->expires_us;
  record->expires_unix_us = nm_unix_of(engine, path->expires_us);
  record->state = path->state;
  nm_path_announce_hash(path, &record->announce_hash);
  return true;
}

static bool fill(const nm_engine *engine, const nm_path *path,
                 nm_path_record *record) {
  if (!fill_plain(engine, path, record)) {
    return false;
  }
  record->announce =
      path->announce == NULL ? NULL : nm_block_hold(path->announce);
  nm_span blobs =
      nm_span_of(path->blobs, (size_t)path->blob_count * NM_RANDOM_BLOB_SIZE);
  record->blobs = nm_block_copy(engine->mem, blobs);
  if (record->blobs == NULL) {
    nm_path_record_dispose(record);
    return false;
  }
  return true;
}

bool nm_engine_path_get(const nm_engine *engine,
                        const nm_destination_hash *hash,
                        nm_path_record *record) {
  return fill(engine, nm_path_find(engine, hash), record);
}

bool nm_engine_path_peek(const nm_engine *engine,
                         const nm_destination_hash *hash,
                         nm_path_record *record) {
  return fill_plain(engine, nm_path_find(engine, hash), record);
}

bool nm_engine_path_next(const nm_engine *engine,
                         const nm_destination_hash *after,
                         nm_path_record *record) {
  nm_path *at = after == NULL ? NULL : stored_path(engine, after);
  if (after != NULL && at == NULL) {
    return fill(engine, NULL, record);
  }
  do {
    at = next_path(engine, at);
  } while (at != NULL && !is_there(engine, at));
  return fill(engine, at, record);
}

typedef struct path_visitor {
  const nm_engine *engine;
  void (*visit)(void *user, nm_path_record *record);
  void *user;
} path_visitor;

static void visit_path(void *user, nm_table_link *entry) {
  const path_visitor *visitor = user;
  nm_path *path = (nm_path *)(void *)entry;
  nm_path_record record;
  if (is_there(visitor->engine, path) && fill(visitor->engine, path, &record)) {
    visitor->visit(visitor->user, &record);
  }
}

uint64_t nm_engine_path_scan(const nm_engine *engine, uint64_t cursor,
                             void (*visit)(void *user, nm_path_record *record),
                             void *user) {
  path_visitor visitor = {engine, visit, user};
  return nm_table_scan(&engine->routes.paths, cursor, visit_path, &visitor);
}

typedef struct kept_visitor {
  nm_kept_walk walk;
  void (*visit)(void *user, nm_path_record *record);
  void *user;
} kept_visitor;

static void visit_kept(void *user, nm_table_link *entry) {
  const kept_visitor *v = user;
  nm_path *path = (nm_path *)(void *)entry;
  nm_path_record record;
  if (nm_kept_gives(&v->walk, path->changed) &&
      is_there(v->walk.engine, path) && fill(v->walk.engine, path, &record)) {
    nm_kept_given(&v->walk, &path->changed);
    v->visit(v->user, &record);
  }
}

uint64_t nm_engine_path_kept(nm_engine *engine, uint64_t cursor, bool all,
                             void (*visit)(void *user, nm_path_record *record),
                             void *user) {
  kept_visitor visitor = {{engine, NM_KEPT_PATHS, all}, visit, user};
  return nm_table_scan(&engine->routes.paths, cursor, visit_kept, &visitor);
}

static bool record_is_sane(const nm_engine *engine,
                           const nm_path_record *record) {
  size_t blobs = nm_block_span(record->blobs).len;
  return record->hops <= NM_HOPS_MAX && record->state <= NM_PATH_RESPONSIVE &&
         blobs % NM_RANDOM_BLOB_SIZE == 0 &&
         blobs / NM_RANDOM_BLOB_SIZE <= engine->limits.path_blobs;
}

/* The hash of |record| if its announce does not tell it. False without memory.
 */
static bool copy_odd_hash(nm_engine *engine, const nm_path_record *record,
                          nm_packet_hash **copy) {
  nm_packet_hash told;
  hash_of(record->announce, &told);
  *copy = NULL;
  if (memcmp(told.b, record->announce_hash.b, sizeof(told.b)) == 0) {
    return true;
  }
  *copy = nm_alloc(engine->mem, sizeof(**copy));
  if (*copy != NULL) {
    **copy = record->announce_hash;
  }
  return *copy != NULL;
}

static uint64_t newest_of(const nm_path *path) {
  uint64_t newest = 0;
  for (uint32_t i = 0; i < path->blob_count; i++) {
    uint64_t emitted = nm_blob_emitted(path->blobs[i]);
    newest = emitted > newest ? emitted : newest;
  }
  return newest;
}

int nm_engine_path_put(nm_engine *engine, const nm_path_record *record) {
  if (!record_is_sane(engine, record)) {
    return NM_E(ARGUMENT);
  }
  if (nm_iface_find(engine, record->iface) == NULL) {
    return NM_E(MISSING);
  }
  nm_span blobs = nm_block_span(record->blobs);
  nm_packet_hash *odd_hash;
  bool has_hash = copy_odd_hash(engine, record, &odd_hash);
  void *copy = blobs.len == 0 ? NULL : nm_alloc(engine->mem, blobs.len);
  nm_path *path = !has_hash || (blobs.len > 0 && copy == NULL)
                      ? NULL
                      : ensure_path(engine, &record->destination);
  if (path == NULL) {
    nm_release(engine->mem, odd_hash);
    nm_release(engine->mem, copy);
    return NM_E(MEMORY);
  }
  if (blobs.len > 0) {
    memcpy(copy, blobs.ptr, blobs.len);
  }
  nm_release(engine->mem, path->blobs);
  path->blobs = copy;
  path->blob_count = (uint32_t)(blobs.len / NM_RANDOM_BLOB_SIZE);
  (void)nm_alternative_remove(engine, path, record->next_hop, record->iface);
  memcpy(path->next_hop, record->next_hop, NM_ADDRESS_SIZE);
  path->hops = record->hops;
  path->iface = record->iface;
  path->untold = false;
  path->taken_us = engine->now.mono_us;
  path->emitted = newest_of(path);
  path->updated_us = record->updated_mono_us;
  path->expires_us = record->expires_mono_us;
  path->state = record->state;
  nm_release(engine->mem, path->odd_hash);
  path->odd_hash = odd_hash;
  nm_block *announce =
      record->announce == NULL ? NULL : nm_block_hold(record->announce);
  nm_block_drop(path->announce);
  path->announce = announce;
  mark(engine, path);
  return NM_OK;
}

void nm_path_record_dispose(nm_path_record *record) {
  nm_block_drop(record->announce);
  nm_block_drop(record->blobs);
  memset(record, 0, sizeof(*record));
}
