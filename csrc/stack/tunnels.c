/* Tunnels: paths that come back when a peer's connection does (RNS 1, 8.11).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"
#include "stack/transport_snapshot.h"

#include <string.h>

#define SECOND_US 1000000ull
#define LIFE_US (28800 * SECOND_US)
#define BLOBS_MAX 32
/* Paths restored in one step, and the pause between two. */
#define RESTORE_STEP 64
#define RESTORE_PAUSE_US 1000

static void run(void *user, nm_timer *timer);

static void unlink_path(nm_tunnel_path *path) {
  nm_tunnel_entry *tunnel = path->tunnel;
  if (tunnel->restoring == path) {
    tunnel->restoring = path->next;
  }
  if (path->prev == NULL) {
    tunnel->paths = path->next;
  } else {
    path->prev->next = path->next;
  }
  if (path->next != NULL) {
    path->next->prev = path->prev;
  }
  tunnel->path_count--;
}

/* Evicted, or removed by its owner: it leaves its tunnel. */
static void dispose_path(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_tunnel_path *path = (nm_tunnel_path *)(void *)entry;
  uint8_t key[NM_KEPT_KEY_MAX];
  memcpy(key, path->tunnel->id, NM_HASH_SIZE);
  memcpy(&key[NM_HASH_SIZE], path->key.hash.b, NM_ADDRESS_SIZE);
  nm_kept_gone(engine, NM_KEPT_TUNNEL_PATHS, path->changed, key);
  unlink_path(path);
  nm_block_drop(path->announce);
  nm_block_drop(path->blobs);
  nm_release(engine->mem, path);
}

static void remove_path(nm_engine *engine, nm_tunnel_path *path) {
  nm_table_remove(&engine->carried.tunnel_paths, &path->link);
  dispose_path(engine, &path->link);
}

static void dispose_tunnel(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_tunnel_entry *tunnel = (nm_tunnel_entry *)(void *)entry;
  nm_kept_gone(engine, NM_KEPT_TUNNELS, tunnel->changed, tunnel->id);
  while (tunnel->paths != NULL) {
    remove_path(engine, tunnel->paths);
  }
  nm_iface *iface = nm_iface_find(engine, tunnel->iface);
  if (iface != NULL && iface->tunnel == tunnel) {
    iface->tunnel = NULL;
  }
  nm_timer_disarm(&engine->timers, &tunnel->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_release(engine->mem, tunnel);
}

int nm_tunnels_init(nm_engine *engine) {
  const nm_table_config tunnels = {
      .capacity = engine->limits.tunnels,
      .key_size = NM_HASH_SIZE,
      .key_offset = offsetof(nm_tunnel_entry, id),
      .dispose = dispose_tunnel,
  };
  const nm_table_config paths = {
      .capacity = engine->limits.paths,
      .key_size = sizeof(nm_tunnel_path_key),
      .key_offset = offsetof(nm_tunnel_path, key),
      .dispose = dispose_path,
  };
  engine->carried.next_tunnel = 1;
  int status = nm_engine_table(engine, &engine->carried.tunnels, &tunnels);
  return status == NM_OK
             ? nm_engine_table(engine, &engine->carried.tunnel_paths, &paths)
             : status;
}

void nm_tunnels_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->carried.tunnels);
  nm_table_dispose(&engine->carried.tunnel_paths);
}

static void mark(nm_engine *engine, nm_tunnel_entry *tunnel) {
  nm_kept_mark(engine, NM_KEPT_TUNNELS, &tunnel->changed);
}

static void mark_path(nm_engine *engine, nm_tunnel_path *path) {
  nm_kept_mark(engine, NM_KEPT_TUNNEL_PATHS, &path->changed);
}

/* ---- paths into a tunnel ---- */

static uint64_t newest(nm_span blobs) {
  nm_reader r = nm_reader_of(blobs);
  uint64_t latest = 0;
  nm_span blob;
  while ((blob = nm_reader_take(&r, NM_RANDOM_BLOB_SIZE)).len > 0) {
    uint64_t emitted = nm_blob_emitted(blob.ptr);
    latest = emitted > latest ? emitted : latest;
  }
  return latest;
}

static nm_span blobs_of(const nm_path *path, uint32_t most) {
  uint32_t count = path->blob_count < most ? path->blob_count : most;
  uint32_t first = path->blob_count - count;
  return count == 0 ? nm_span_of(NULL, 0)
                    : nm_span_of(path->blobs[first],
                                 (size_t)count * NM_RANDOM_BLOB_SIZE);
}

static nm_tunnel_path *ensure_path(nm_engine *engine, nm_tunnel_entry *tunnel,
                                   const nm_destination_hash *hash) {
  nm_tunnel_path_key key = {.tunnel = tunnel->number, .hash = *hash};
  nm_tunnel_path *path = (nm_tunnel_path *)(void *)nm_table_find(
      &engine->carried.tunnel_paths, &key);
  if (path != NULL) {
    nm_table_touch(&engine->carried.tunnel_paths, &path->link);
    return path;
  }
  path = nm_alloc_zero(engine->mem, 1, sizeof(*path));
  if (path == NULL) {
    return NULL;
  }
  path->key = key;
  if (nm_table_insert(&engine->carried.tunnel_paths, &path->link) != NM_OK) {
    nm_release(engine->mem, path);
    return NULL;
  }
  path->tunnel = tunnel;
  path->next = tunnel->paths;
  if (path->next != NULL) {
    path->next->prev = path;
  }
  tunnel->paths = path;
  tunnel->path_count++;
  return path;
}

void nm_tunnel_path_learnt(nm_engine *engine, const nm_path *path,
                           nm_iface *iface) {
  nm_tunnel_entry *tunnel = iface->tunnel;
  if (tunnel == NULL) {
    return;
  }
  nm_block *blobs = nm_block_copy(engine->mem, blobs_of(path, BLOBS_MAX));
  nm_tunnel_path *kept =
      blobs == NULL ? NULL : ensure_path(engine, tunnel, &path->hash);
  if (kept == NULL) {
    nm_block_drop(blobs);
    return;
  }
  memcpy(kept->next_hop, path->next_hop, NM_ADDRESS_SIZE);
  kept->hops = path->hops;
  kept->updated_us = path->updated_us;
  kept->expires_us = path->expires_us;
  nm_path_announce_hash(path, &kept->announce_hash);
  nm_block_drop(kept->announce);
  nm_block_drop(kept->blobs);
  kept->announce =
      path->announce == NULL ? NULL : nm_block_hold(path->announce);
  kept->blobs = blobs;
  kept->emitted = newest(nm_block_span(blobs));
  mark_path(engine, kept);
  if (nm_kept_is_later(tunnel->expires_us, engine->now.mono_us + LIFE_US)) {
    mark(engine, tunnel);
  }
  tunnel->expires_us = engine->now.mono_us + LIFE_US;
}

/* ---- and back ---- */

static bool is_wanted(const nm_engine *engine, const nm_tunnel_path *kept) {
  const nm_path *current = nm_path_find(engine, &kept->key.hash);
  uint64_t now = engine->now.mono_us;
  if (current == NULL) {
    return kept->expires_us > now;
  }
  bool better = kept->hops <= current->hops || now > current->expires_us;
  return better && kept->emitted >= newest(blobs_of(current, UINT32_MAX));
}

static bool restore_one(nm_engine *engine, nm_tunnel_entry *tunnel,
                        const nm_tunnel_path *kept) {
  nm_path_record record = {.destination = kept->key.hash,
                           .hops = kept->hops,
                           .iface = tunnel->iface,
                           .updated_mono_us = engine->now.mono_us,
                           .expires_mono_us = kept->expires_us,
                           .announce_hash = kept->announce_hash,
                           .announce = kept->announce,
                           .blobs = kept->blobs};
  memcpy(record.next_hop, kept->next_hop, NM_ADDRESS_SIZE);
  return is_wanted(engine, kept) &&
         !nm_engine_is_barred(engine, &kept->key.hash) &&
         nm_engine_path_put(engine, &record) == NM_OK;
}

/* A few paths at a time; what is not restored leaves the tunnel. */
static void restore(nm_engine *engine, nm_tunnel_entry *tunnel) {
  for (int i = 0; i < RESTORE_STEP && tunnel->restoring != NULL; i++) {
    nm_tunnel_path *kept = tunnel->restoring;
    tunnel->restoring = kept->next;
    if (!restore_one(engine, tunnel, kept)) {
      remove_path(engine, kept);
    }
  }
}

static void run(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_tunnel_entry *tunnel =
      (nm_tunnel_entry *)(void *)((char *)timer -
                                  offsetof(nm_tunnel_entry, timer));
  uint64_t now = engine->now.mono_us;
  if (now >= tunnel->expires_us) {
    nm_table_remove(&engine->carried.tunnels, &tunnel->link);
    dispose_tunnel(engine, &tunnel->link);
    return;
  }
  if (tunnel->restoring != NULL) {
    restore(engine, tunnel);
  }
  nm_engine_arm(engine, timer,
                tunnel->restoring != NULL ? RESTORE_PAUSE_US
                                          : tunnel->expires_us - now);
}

/* ---- synthesis ---- */

static nm_tunnel_entry *ensure_tunnel(nm_engine *engine,
                                      const uint8_t id[NM_HASH_SIZE]) {
  nm_table *table = &engine->carried.tunnels;
  nm_tunnel_entry *tunnel = (nm_tunnel_entry *)(void *)nm_table_find(table, id);
  if (tunnel != NULL) {
    nm_table_touch(table, &tunnel->link);
    return tunnel;
  }
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  tunnel = nm_alloc_zero(engine->mem, 1, sizeof(*tunnel));
  if (tunnel == NULL) {
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  memcpy(tunnel->id, id, NM_HASH_SIZE);
  tunnel->number = engine->carried.next_tunnel++;
  tunnel->timer.fire = run;
  if (nm_table_insert(table, &tunnel->link) != NM_OK) {
    dispose_tunnel(engine, &tunnel->link);
    return NULL;
  }
  return tunnel;
}

static void bind(nm_engine *engine, nm_tunnel_entry *tunnel, nm_iface *iface) {
  nm_iface *before = nm_iface_find(engine, tunnel->iface);
  if (before != NULL && before->tunnel == tunnel) {
    before->tunnel = NULL;
  }
  if (iface->tunnel != NULL) {
    iface->tunnel->iface = 0;
  }
  iface->tunnel = tunnel;
  mark(engine, tunnel);
  tunnel->iface = iface->id;
  tunnel->expires_us = engine->now.mono_us + LIFE_US;
  tunnel->restoring = tunnel->paths;
  nm_engine_arm(engine, &tunnel->timer, 0);
}

static void verified(nm_engine *engine, nm_job *job) {
  nm_iface *iface = nm_iface_find(engine, job->origin);
  nm_drop drop = NM_DROP_NONE;
  if (iface == NULL) {
    drop = NM_DROP_IFACE_UNKNOWN;
  } else if (job->status != NM_OK) {
    drop = NM_DROP_TUNNEL_SIGNATURE;
  } else {
    nm_tunnel_entry *tunnel = ensure_tunnel(engine, job->u.verify_tunnel.id);
    if (tunnel == NULL) {
      drop = NM_DROP_NO_MEMORY;
    } else {
      bind(engine, tunnel, iface);
    }
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

nm_drop nm_tunnel_request(nm_engine *engine, nm_input *input) {
  nm_tunnel parsed;
  nm_span payload = input->frame->packet.payload;
  if (nm_tunnel_parse(payload, &parsed, NULL) != NM_OK) {
    return NM_DROP_TUNNEL_MALFORMED;
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_VERIFY_TUNNEL, input, &drop);
  if (job == NULL) {
    return drop;
  }
  nm_job_verify_tunnel *j = &job->u.verify_tunnel;
  job->done = verified;
  nm_tunnel_id(&parsed, j->id);
  memcpy(j->payload, payload.ptr, sizeof(j->payload));
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

void nm_tunnel_iface_gone(nm_iface *iface) {
  if (iface->tunnel != NULL) {
    iface->tunnel->iface = 0;
    iface->tunnel = NULL;
  }
}

/* ---- records ---- */

static nm_tunnel_entry *find_tunnel(const nm_engine *engine,
                                    const uint8_t id[NM_HASH_SIZE]) {
  return (nm_tunnel_entry *)(void *)nm_table_find(&engine->carried.tunnels, id);
}

static void fill_tunnel(const nm_engine *engine, const nm_tunnel_entry *at,
                        nm_tunnel_record *record) {
  memset(record, 0, sizeof(*record));
  memcpy(record->id, at->id, NM_HASH_SIZE);
  record->iface = at->iface;
  record->expires_mono_us = at->expires_us;
  record->expires_unix_us = nm_unix_of(engine, at->expires_us);
  record->paths = at->path_count;
}

static void fill_path(const nm_engine *engine, const nm_tunnel_path *at,
                      nm_tunnel_path_record *record) {
  memset(record, 0, sizeof(*record));
  memcpy(record->tunnel, at->tunnel->id, NM_HASH_SIZE);
  record->destination = at->key.hash;
  memcpy(record->next_hop, at->next_hop, NM_ADDRESS_SIZE);
  record->hops = at->hops;
  record->updated_mono_us = at->updated_us;
  record->updated_unix_us = nm_unix_of(engine, at->updated_us);
  record->expires_mono_us = at->expires_us;
  record->expires_unix_us = nm_unix_of(engine, at->expires_us);
  record->announce_hash = at->announce_hash;
  record->announce = at->announce == NULL ? NULL : nm_block_hold(at->announce);
  record->blobs = nm_block_hold(at->blobs);
}

bool nm_engine_tunnel_next(const nm_engine *engine, const uint8_t *after,
                           nm_tunnel_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_tunnel_entry *at = after == NULL ? NULL : find_tunnel(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_tunnel_entry *)(const void *)nm_table_next(
      &engine->carried.tunnels, at == NULL ? NULL : &at->link);
  if (at == NULL) {
    return false;
  }
  fill_tunnel(engine, at, record);
  return true;
}

int nm_engine_tunnel_put(nm_engine *engine, const nm_tunnel_record *record,
                         nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, record->iface);
  if (record->iface != 0 && iface == NULL) {
    return NM_E(MISSING);
  }
  nm_tunnel_entry *tunnel = ensure_tunnel(engine, record->id);
  if (tunnel == NULL) {
    return NM_E(MEMORY);
  }
  if (iface != NULL) {
    bind(engine, tunnel, iface);
  }
  tunnel->expires_us = record->expires_mono_us;
  mark(engine, tunnel);
  nm_engine_arm(engine, &tunnel->timer, 0);
  return NM_OK;
}

int nm_engine_tunnel_drop(nm_engine *engine, const uint8_t id[NM_HASH_SIZE]) {
  nm_tunnel_entry *tunnel = find_tunnel(engine, id);
  if (tunnel == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&engine->carried.tunnels, &tunnel->link);
  dispose_tunnel(engine, &tunnel->link);
  return NM_OK;
}

static const nm_tunnel_path *path_after(const nm_engine *engine,
                                        const nm_tunnel_entry *tunnel,
                                        const nm_destination_hash *after) {
  if (after == NULL) {
    return tunnel->paths;
  }
  nm_tunnel_path_key key = {.tunnel = tunnel->number, .hash = *after};
  const nm_tunnel_path *at =
      (const nm_tunnel_path *)(const void *)nm_table_find(
          &engine->carried.tunnel_paths, &key);
  return at == NULL ? NULL : at->next;
}

bool nm_engine_tunnel_path_next(const nm_engine *engine,
                                const uint8_t id[NM_HASH_SIZE],
                                const nm_destination_hash *after,
                                nm_tunnel_path_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_tunnel_entry *tunnel = find_tunnel(engine, id);
  const nm_tunnel_path *at =
      tunnel == NULL ? NULL : path_after(engine, tunnel, after);
  if (at == NULL) {
    return false;
  }
  fill_path(engine, at, record);
  return true;
}

typedef struct visitor {
  nm_kept_walk walk;
  void (*tunnel)(void *user, nm_tunnel_record *record);
  void (*path)(void *user, nm_tunnel_path_record *record);
  void *user;
} visitor;

static void visit_tunnel(void *user, nm_table_link *entry) {
  const visitor *v = user;
  nm_tunnel_entry *tunnel = (nm_tunnel_entry *)(void *)entry;
  nm_tunnel_record record;
  if (nm_kept_gives(&v->walk, tunnel->changed)) {
    nm_kept_given(&v->walk, &tunnel->changed);
    fill_tunnel(v->walk.engine, tunnel, &record);
    v->tunnel(v->user, &record);
  }
}

static void visit_path(void *user, nm_table_link *entry) {
  const visitor *v = user;
  nm_tunnel_path *path = (nm_tunnel_path *)(void *)entry;
  nm_tunnel_path_record record;
  if (nm_kept_gives(&v->walk, path->changed)) {
    nm_kept_given(&v->walk, &path->changed);
    fill_path(v->walk.engine, path, &record);
    v->path(v->user, &record);
  }
}

uint64_t nm_engine_tunnel_kept(nm_engine *engine, uint64_t cursor, bool all,
                               void (*visit)(void *user,
                                             nm_tunnel_record *record),
                               void *user) {
  visitor v = {
      .walk = {engine, NM_KEPT_TUNNELS, all}, .tunnel = visit, .user = user};
  return nm_table_scan(&engine->carried.tunnels, cursor, visit_tunnel, &v);
}

uint64_t nm_engine_tunnel_path_kept(
    nm_engine *engine, uint64_t cursor, bool all,
    void (*visit)(void *user, nm_tunnel_path_record *record), void *user) {
  visitor v = {
      .walk = {engine, NM_KEPT_TUNNEL_PATHS, all}, .path = visit, .user = user};
  return nm_table_scan(&engine->carried.tunnel_paths, cursor, visit_path, &v);
}

int nm_engine_tunnel_path_put(nm_engine *engine,
                              const nm_tunnel_path_record *record) {
  nm_tunnel_entry *tunnel = find_tunnel(engine, record->tunnel);
  if (tunnel == NULL) {
    return NM_E(MISSING);
  }
  if (record->blobs == NULL || record->hops > NM_HOPS_MAX ||
      nm_block_span(record->blobs).len % NM_RANDOM_BLOB_SIZE != 0) {
    return NM_E(ARGUMENT);
  }
  nm_tunnel_path *path = ensure_path(engine, tunnel, &record->destination);
  if (path == NULL) {
    return NM_E(MEMORY);
  }
  memcpy(path->next_hop, record->next_hop, NM_ADDRESS_SIZE);
  path->hops = record->hops;
  path->updated_us = record->updated_mono_us;
  path->expires_us = record->expires_mono_us;
  path->announce_hash = record->announce_hash;
  nm_block_drop(path->announce);
  nm_block_drop(path->blobs);
  path->announce =
      record->announce == NULL ? NULL : nm_block_hold(record->announce);
  path->blobs = nm_block_hold(record->blobs);
  path->emitted = newest(nm_block_span(path->blobs));
  mark_path(engine, path);
  return NM_OK;
}

int nm_engine_tunnel_path_drop(nm_engine *engine,
                               const uint8_t id[NM_HASH_SIZE],
                               const nm_destination_hash *hash) {
  const nm_tunnel_entry *tunnel = find_tunnel(engine, id);
  if (tunnel == NULL) {
    return NM_E(MISSING);
  }
  nm_tunnel_path_key key = {.tunnel = tunnel->number, .hash = *hash};
  nm_table_link *path = nm_table_find(&engine->carried.tunnel_paths, &key);
  if (path == NULL) {
    return NM_E(MISSING);
  }
  remove_path(engine, (nm_tunnel_path *)(void *)path);
  return NM_OK;
}
