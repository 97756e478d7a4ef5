/* Blackholed identities (RNS 1, 8.17).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"

#include <string.h>

#define BLACKHOLES_MAX 65536

static void dispose_blackhole(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_blackhole *hole = (nm_blackhole *)(void *)entry;
  nm_kept_gone(engine, NM_KEPT_BLACKHOLES, hole->changed, hole->identity.b);
  nm_block_drop(hole->reason);
  nm_release(engine->mem, hole);
}

int nm_blackholes_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = BLACKHOLES_MAX,
      .key_size = sizeof(nm_identity_hash),
      .key_offset = offsetof(nm_blackhole, identity),
      .dispose = dispose_blackhole,
  };
  return nm_engine_table(engine, &engine->routes.blackholes, &config);
}

void nm_blackholes_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->routes.blackholes);
}

static nm_blackhole *find_hole(const nm_engine *engine,
                               const nm_identity_hash *identity) {
  return (nm_blackhole *)(void *)nm_table_find(&engine->routes.blackholes,
                                               identity);
}

bool nm_engine_is_blackholed(const nm_engine *engine,
                             const nm_identity_hash *identity) {
  const nm_blackhole *hole = find_hole(engine, identity);
  return hole != NULL && (hole->until_unix_us == 0 ||
                          engine->now.unix_us < hole->until_unix_us);
}

bool nm_engine_is_barred(const nm_engine *engine,
                         const nm_destination_hash *hash) {
  const nm_known *known =
      engine->routes.blackholes.count == 0 ? NULL : nm_known_find(engine, hash);
  nm_identity_hash owner;
  if (known == NULL) {
    return false;
  }
  nm_identity_hash_of(&owner, nm_known_key(known));
  return nm_engine_is_blackholed(engine, &owner);
}

/* Linear in the number of paths: an operator's call, not a peer's. */
static void forget_paths_of(nm_engine *engine,
                            const nm_identity_hash *identity) {
  nm_table_link *at = nm_table_next(&engine->routes.paths, NULL);
  while (at != NULL) {
    nm_table_link *next = nm_table_next(&engine->routes.paths, at);
    nm_path *path = (nm_path *)(void *)at;
    const nm_known *known = nm_known_find(engine, &path->hash);
    nm_identity_hash owner;
    if (known != NULL) {
      nm_identity_hash_of(&owner, nm_known_key(known));
      if (memcmp(owner.b, identity->b, NM_ADDRESS_SIZE) == 0) {
        nm_path_forget(engine, path);
      }
    }
    at = next;
  }
}

static nm_blackhole *ensure_hole(nm_engine *engine,
                                 const nm_identity_hash *identity) {
  nm_blackhole *hole = find_hole(engine, identity);
  if (hole != NULL) {
    return hole;
  }
  hole = nm_alloc_zero(engine->mem, 1, sizeof(*hole));
  if (hole == NULL) {
    return NULL;
  }
  hole->identity = *identity;
  if (nm_table_insert(&engine->routes.blackholes, &hole->link) != NM_OK) {
    nm_release(engine->mem, hole);
    return NULL;
  }
  return hole;
}

int nm_engine_blackhole_put(nm_engine *engine,
                            const nm_blackhole_record *record, nm_now now) {
  engine->now = now;
  nm_blackhole *hole = ensure_hole(engine, &record->identity);
  if (hole == NULL) {
    return NM_E(MEMORY);
  }
  nm_block *text =
      record->reason == NULL ? NULL : nm_block_hold(record->reason);
  nm_block_drop(hole->reason);
  hole->reason = text;
  hole->source = record->source;
  hole->until_unix_us = record->until_unix_us;
  nm_kept_mark(engine, NM_KEPT_BLACKHOLES, &hole->changed);
  forget_paths_of(engine, &record->identity);
  return NM_OK;
}

int nm_engine_blackhole(nm_engine *engine, const nm_identity_hash *hash,
                        int64_t until_unix_us, nm_span reason, nm_now now) {
  nm_blackhole_record record = {.identity = *hash,
                                .source = nm_engine_identity(engine)->hash,
                                .until_unix_us = until_unix_us};
  if (reason.ptr != NULL) {
    record.reason = nm_block_copy(engine->mem, reason);
    if (record.reason == NULL) {
      return NM_E(MEMORY);
    }
  }
  int status = nm_engine_blackhole_put(engine, &record, now);
  nm_blackhole_record_dispose(&record);
  return status;
}

int nm_engine_unblackhole(nm_engine *engine, const nm_identity_hash *hash) {
  nm_blackhole *hole = find_hole(engine, hash);
  if (hole == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&engine->routes.blackholes, &hole->link);
  dispose_blackhole(engine, &hole->link);
  return NM_OK;
}

static void fill(const nm_blackhole *hole, nm_blackhole_record *record) {
  memset(record, 0, sizeof(*record));
  record->identity = hole->identity;
  record->source = hole->source;
  record->until_unix_us = hole->until_unix_us;
  record->reason = hole->reason == NULL ? NULL : nm_block_hold(hole->reason);
}

bool nm_engine_blackhole_next(const nm_engine *engine,
                              const nm_identity_hash *after,
                              nm_blackhole_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_blackhole *at = after == NULL ? NULL : find_hole(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_blackhole *)(const void *)nm_table_next(
      &engine->routes.blackholes, at == NULL ? NULL : &at->link);
  if (at != NULL) {
    fill(at, record);
  }
  return at != NULL;
}

typedef struct hole_visitor {
  nm_kept_walk walk;
  void (*visit)(void *user, nm_blackhole_record *record);
  void *user;
} hole_visitor;

static void visit_hole(void *user, nm_table_link *entry) {
  const hole_visitor *visitor = user;
  nm_blackhole *hole = (nm_blackhole *)(void *)entry;
  nm_blackhole_record record;
  if (nm_kept_gives(&visitor->walk, hole->changed)) {
    nm_kept_given(&visitor->walk, &hole->changed);
    fill(hole, &record);
    visitor->visit(visitor->user, &record);
  }
}

uint64_t nm_engine_blackhole_kept(nm_engine *engine, uint64_t cursor, bool all,
                                  void (*visit)(void *user,
                                                nm_blackhole_record *record),
                                  void *user) {
  hole_visitor visitor = {{engine, NM_KEPT_BLACKHOLES, all}, visit, user};
  return nm_table_scan(&engine->routes.blackholes, cursor, visit_hole,
                       &visitor);
}

void nm_blackhole_record_dispose(nm_blackhole_record *record) {
  nm_block_drop(record->reason);
  memset(record, 0, sizeof(*record));
}
