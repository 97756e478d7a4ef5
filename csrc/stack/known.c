/* Known destinations (RNS 1, 2.5) and the ratchets they announced (2.6).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"

#include <string.h>

#define RETAINED (-1)
#define SECOND_US 1000000
#define RATCHET_LIFE_US (2592000 * (int64_t)SECOND_US)
#define UNUSED_LIFE_US (360 * (int64_t)SECOND_US)
/* Seven days, and a quarter more. */
#define USED_LIFE_US (756000 * (int64_t)SECOND_US)

/* Of a hundred thousand most may be retained: an announce looks at a few. */
#define EVICT_LOOKS 1024

static void free_own(nm_engine *engine, nm_known_own *own) {
  if (own != NULL) {
    nm_block_drop(own->app_data);
    nm_release(engine->mem, own);
  }
}

static void dispose_known(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_known *known = (nm_known *)(void *)entry;
  nm_kept_gone(engine, NM_KEPT_KNOWN, known->changed, known->hash.b);
  nm_block_drop(known->announce);
  free_own(engine, known->own);
  nm_release(engine->mem, known->ratchet);
  nm_release(engine->mem, known);
}

static bool may_evict_known(void *user, nm_table_link *entry) {
  (void)user;
  const nm_known *known = (const nm_known *)(void *)entry;
  return known->used_unix_us != RETAINED && known->in_use == 0;
}

int nm_known_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.known,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_known, hash),
      .may_evict = may_evict_known,
      .looks_max = EVICT_LOOKS,
      .dispose = dispose_known,
  };
  return nm_engine_table(engine, &engine->routes.known, &config);
}

void nm_known_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->routes.known);
}

nm_known *nm_known_find(const nm_engine *engine,
                        const nm_destination_hash *hash) {
  return (nm_known *)(void *)nm_table_find(&engine->routes.known, hash);
}

static nm_known *next_known(const nm_engine *engine, const nm_known *known) {
  const nm_table_link *link = known == NULL ? NULL : &known->link;
  return (nm_known *)(void *)nm_table_next(&engine->routes.known, link);
}

static void mark(nm_engine *engine, nm_known *known) {
  nm_kept_mark(engine, NM_KEPT_KNOWN, &known->changed);
}

void nm_known_use(nm_engine *engine, nm_known *known) {
  if (known->used_unix_us != RETAINED) {
    if (nm_kept_is_later((uint64_t)known->used_unix_us,
                         (uint64_t)engine->now.unix_us)) {
      mark(engine, known);
    }
    known->used_unix_us = engine->now.unix_us;
  }
  nm_table_touch(&engine->routes.known, &known->link);
}

static nm_known *add_known(nm_engine *engine, const nm_destination_hash *hash) {
  nm_known *known = nm_alloc_zero(engine->mem, 1, sizeof(*known));
  if (known == NULL) {
    return NULL;
  }
  known->hash = *hash;
  if (nm_table_insert(&engine->routes.known, &known->link) != NM_OK) {
    nm_release(engine->mem, known);
    return NULL;
  }
  return known;
}

/* Memory for the ratchet of |known|, which may be NULL, if it is wanted and not
 * there; false when there is none. */
static bool room_for_ratchet(const nm_engine *engine, const nm_known *known,
                             bool wanted, nm_known_ratchet **fresh) {
  *fresh = NULL;
  if (!wanted || (known != NULL && known->ratchet != NULL)) {
    return true;
  }
  *fresh = nm_alloc_zero(engine->mem, 1, sizeof(**fresh));
  return *fresh != NULL;
}

/* Why nothing was added: memory, or a table full of what may not go. */
static int no_room(const nm_engine *engine) {
  return engine->routes.known.count >= engine->limits.known ? NM_E(LIMIT)
                                                            : NM_E(MEMORY);
}

nm_known *nm_known_learn(nm_engine *engine, const nm_announce *announce,
                         nm_block *raw) {
  nm_destination_hash destination;
  memcpy(destination.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  nm_known *known = nm_known_find(engine, &destination);
  nm_known_ratchet *fresh = NULL;
  bool ratchet = announce->ratchet.len == NM_KEY_SIZE;
  if (!room_for_ratchet(engine, known, ratchet, &fresh)) {
    return NULL;
  }
  if (known == NULL && (known = add_known(engine, &destination)) == NULL) {
    nm_release(engine->mem, fresh);
    return NULL;
  }
  nm_block_drop(known->announce);
  free_own(engine, known->own);
  known->announce = nm_block_hold(raw);
  known->own = NULL;
  known->has_app_data = announce->has_app_data;
  known->heard_unix_us = engine->now.unix_us;
  if (ratchet) {
    known->ratchet = fresh != NULL ? fresh : known->ratchet;
    memcpy(known->ratchet->key, announce->ratchet.ptr, NM_KEY_SIZE);
    known->ratchet->unix_us = engine->now.unix_us;
  }
  mark(engine, known);
  nm_table_touch(&engine->routes.known, &known->link);
  return known;
}

/* What the announce says; it was valid when it was taken. */
static bool read_announce(const nm_known *known, nm_announce *announce) {
  nm_packet packet;
  return nm_packet_parse(nm_block_span(known->announce), &packet, NULL) ==
             NM_OK &&
         nm_announce_parse(&packet, announce, NULL) == NM_OK;
}

const uint8_t *nm_known_key(const nm_known *known) {
  static const uint8_t none[NM_PUBLIC_SIZE];
  nm_announce announce;
  if (known->own != NULL) {
    return known->own->public_key;
  }
  return read_announce(known, &announce) ? announce.public_key.ptr : none;
}

static void hash_of(const nm_known *known, nm_packet_hash *hash) {
  memset(hash, 0, sizeof(*hash));
  if (known->own != NULL) {
    *hash = known->own->announce_hash;
  } else {
    (void)nm_packet_digest_raw(nm_block_span(known->announce), hash, NULL);
  }
}

bool nm_known_app_data(const nm_known *known, nm_span *app_data) {
  nm_announce announce;
  *app_data = nm_span_of(NULL, 0);
  if (!known->has_app_data) {
    return false;
  }
  if (known->own != NULL) {
    *app_data = nm_block_span(known->own->app_data);
  } else if (read_announce(known, &announce)) {
    *app_data = announce.app_data;
  }
  return true;
}

static bool recall(nm_engine *engine, nm_known *known, nm_identity *identity,
                   nm_span *app_data, bool *has_app_data) {
  if (known == NULL ||
      nm_identity_init_public(
          identity, nm_span_of(nm_known_key(known), NM_PUBLIC_SIZE)) != NM_OK) {
    return false;
  }
  if (app_data != NULL) {
    *has_app_data = nm_known_app_data(known, app_data);
  }
  nm_known_use(engine, known);
  return true;
}

/* An own destination is known without an announce, and without app data. */
static bool recall_local(nm_engine *engine, const nm_destination_hash *hash,
                         nm_identity *identity, nm_span *app_data,
                         bool *has_app_data) {
  const nm_local *local = nm_local_find(engine, hash);
  if (local == NULL || local->identity == NULL) {
    return false;
  }
  const nm_identity *own = nm_identity_in(local->identity);
  if (app_data != NULL) {
    *app_data = nm_span_of(NULL, 0);
    *has_app_data = false;
  }
  return nm_identity_init_public(
             identity, nm_span_of(own->public_key, NM_PUBLIC_SIZE)) == NM_OK;
}

bool nm_engine_recall(nm_engine *engine, const nm_destination_hash *hash,
                      nm_identity *identity, nm_span *app_data,
                      bool *has_app_data, nm_now now) {
  engine->now = now;
  return recall(engine, nm_known_find(engine, hash), identity, app_data,
                has_app_data) ||
         recall_local(engine, hash, identity, app_data, has_app_data);
}

bool nm_engine_recall_identity(nm_engine *engine, const nm_identity_hash *hash,
                               nm_identity *identity, nm_span *app_data,
                               bool *has_app_data, nm_now now) {
  engine->now = now;
  nm_known *known = NULL;
  while ((known = next_known(engine, known)) != NULL) {
    nm_identity_hash own;
    nm_identity_hash_of(&own, nm_known_key(known));
    if (memcmp(own.b, hash->b, NM_ADDRESS_SIZE) == 0) {
      return recall(engine, known, identity, app_data, has_app_data);
    }
  }
  return false;
}

/* Made before the entry, so that without memory there is neither. |app_data|
 * NULL: there is none. */
static nm_known_own *make_own(nm_engine *engine,
                              const uint8_t public_key[NM_PUBLIC_SIZE],
                              const nm_span *app_data) {
  nm_known_own *own = nm_alloc_zero(engine->mem, 1, sizeof(*own));
  if (own == NULL) {
    return NULL;
  }
  memcpy(own->public_key, public_key, NM_PUBLIC_SIZE);
  if (app_data != NULL &&
      (own->app_data = nm_block_copy(engine->mem, *app_data)) == NULL) {
    free_own(engine, own);
    return NULL;
  }
  return own;
}

/* |own| takes the place of the announce. */
static void take_own(nm_engine *engine, nm_known *known, nm_known_own *own) {
  free_own(engine, known->own);
  nm_block_drop(known->announce);
  known->announce = NULL;
  known->own = own;
  known->has_app_data = own->app_data != NULL;
}

int nm_engine_remember(nm_engine *engine, const nm_destination_hash *hash,
                       const nm_identity *identity, const nm_span *app_data,
                       nm_now now) {
  engine->now = now;
  nm_known *known = nm_known_find(engine, hash);
  if (known != NULL &&
      memcmp(nm_known_key(known), identity->public_key, NM_PUBLIC_SIZE) != 0) {
    return NM_E(MISMATCH);
  }
  nm_known_own *own = make_own(engine, identity->public_key, app_data);
  if (own == NULL) {
    return NM_E(MEMORY);
  }
  if (known != NULL) {
    hash_of(known, &own->announce_hash);
  } else if ((known = add_known(engine, hash)) == NULL) {
    free_own(engine, own);
    return no_room(engine);
  }
  known->heard_unix_us = now.unix_us;
  take_own(engine, known, own);
  mark(engine, known);
  return NM_OK;
}

int nm_engine_retain(nm_engine *engine, const nm_destination_hash *hash,
                     bool retain) {
  nm_known *known = nm_known_find(engine, hash);
  if (known == NULL) {
    return NM_E(MISSING);
  }
  known->used_unix_us = retain ? RETAINED : engine->now.unix_us;
  mark(engine, known);
  return NM_OK;
}

bool nm_engine_ratchet_of(const nm_engine *engine,
                          const nm_destination_hash *hash,
                          uint8_t ratchet[NM_KEY_SIZE], nm_now now) {
  const nm_known *known = nm_known_find(engine, hash);
  if (known == NULL || known->ratchet == NULL ||
      now.unix_us >= known->ratchet->unix_us + RATCHET_LIFE_US) {
    return false;
  }
  memcpy(ratchet, known->ratchet->key, NM_KEY_SIZE);
  return true;
}

/* ---- records ---- */

static bool fill(const nm_engine *engine, const nm_known *known,
                 nm_known_record *record) {
  memset(record, 0, sizeof(*record));
  if (known == NULL) {
    return false;
  }
  record->destination = known->hash;
  memcpy(record->public_key, nm_known_key(known), NM_PUBLIC_SIZE);
  hash_of(known, &record->announce_hash);
  record->heard_unix_us = known->heard_unix_us;
  record->used_unix_us = known->used_unix_us;
  record->has_ratchet = known->ratchet != NULL;
  if (known->ratchet != NULL) {
    memcpy(record->ratchet, known->ratchet->key, NM_KEY_SIZE);
    record->ratchet_unix_us = known->ratchet->unix_us;
  }
  nm_span app_data;
  record->has_app_data = nm_known_app_data(known, &app_data);
  if (record->has_app_data) {
    record->app_data = nm_block_copy(engine->mem, app_data);
  }
  return !record->has_app_data || record->app_data != NULL;
}

bool nm_engine_known_get(const nm_engine *engine,
                         const nm_destination_hash *hash,
                         nm_known_record *record) {
  return fill(engine, nm_known_find(engine, hash), record);
}

bool nm_engine_known_next(const nm_engine *engine,
                          const nm_destination_hash *after,
                          nm_known_record *record) {
  const nm_known *at = after == NULL ? NULL : nm_known_find(engine, after);
  if (after != NULL && at == NULL) {
    return fill(engine, NULL, record);
  }
  return fill(engine, next_known(engine, at), record);
}

typedef struct known_visitor {
  const nm_engine *engine;
  void (*visit)(void *user, nm_known_record *record);
  void *user;
} known_visitor;

static void visit_known(void *user, nm_table_link *entry) {
  const known_visitor *visitor = user;
  nm_known_record record;
  if (fill(visitor->engine, (const nm_known *)(const void *)entry, &record)) {
    visitor->visit(visitor->user, &record);
  }
}

uint64_t nm_engine_known_scan(const nm_engine *engine, uint64_t cursor,
                              void (*visit)(void *user,
                                            nm_known_record *record),
                              void *user) {
  known_visitor visitor = {engine, visit, user};
  return nm_table_scan(&engine->routes.known, cursor, visit_known, &visitor);
}

typedef struct kept_visitor {
  nm_kept_walk walk;
  void (*visit)(void *user, nm_known_record *record);
  void *user;
} kept_visitor;

static void visit_kept(void *user, nm_table_link *entry) {
  const kept_visitor *v = user;
  nm_known *known = (nm_known *)(void *)entry;
  nm_known_record record;
  if (nm_kept_gives(&v->walk, known->changed) &&
      fill(v->walk.engine, known, &record)) {
    nm_kept_given(&v->walk, &known->changed);
    v->visit(v->user, &record);
  }
}

uint64_t nm_engine_known_kept(nm_engine *engine, uint64_t cursor, bool all,
                              void (*visit)(void *user,
                                            nm_known_record *record),
                              void *user) {
  kept_visitor visitor = {{engine, NM_KEPT_KNOWN, all}, visit, user};
  return nm_table_scan(&engine->routes.known, cursor, visit_kept, &visitor);
}

int nm_engine_known_put(nm_engine *engine, const nm_known_record *record) {
  nm_span app_data = nm_block_span(record->app_data);
  nm_known_own *own = make_own(engine, record->public_key,
                               record->has_app_data ? &app_data : NULL);
  if (own == NULL) {
    return NM_E(MEMORY);
  }
  own->announce_hash = record->announce_hash;
  nm_known *known = nm_known_find(engine, &record->destination);
  nm_known_ratchet *fresh = NULL;
  if (!room_for_ratchet(engine, known, record->has_ratchet, &fresh)) {
    free_own(engine, own);
    return NM_E(MEMORY);
  }
  if (known == NULL &&
      (known = add_known(engine, &record->destination)) == NULL) {
    free_own(engine, own);
    nm_release(engine->mem, fresh);
    return no_room(engine);
  }
  take_own(engine, known, own);
  mark(engine, known);
  known->heard_unix_us = record->heard_unix_us;
  known->used_unix_us = record->used_unix_us;
  if (record->has_ratchet) {
    known->ratchet = fresh != NULL ? fresh : known->ratchet;
    memcpy(known->ratchet->key, record->ratchet, NM_KEY_SIZE);
    known->ratchet->unix_us = record->ratchet_unix_us;
  } else {
    nm_release(engine->mem, known->ratchet);
    known->ratchet = NULL;
  }
  return NM_OK;
}

static void drop_known(nm_engine *engine, nm_known *known) {
  nm_table_remove(&engine->routes.known, &known->link);
  dispose_known(engine, &known->link);
}

int nm_engine_known_drop(nm_engine *engine, const nm_destination_hash *hash) {
  nm_known *known = nm_known_find(engine, hash);
  if (known == NULL) {
    return NM_E(MISSING);
  }
  if (known->in_use > 0) {
    return NM_E(STATE);
  }
  drop_known(engine, known);
  return NM_OK;
}

/* Never used and heard long ago, or used longest ago; upstream's slip of
 * applying the second rule to the first kind is not copied (RNS 1, 2.5). */
static bool is_stale(const nm_engine *engine, const nm_known *known) {
  if (known->used_unix_us == RETAINED || known->in_use > 0 ||
      nm_path_find(engine, &known->hash) != NULL) {
    return false;
  }
  int64_t now = engine->now.unix_us;
  return known->used_unix_us == 0 ? now > known->heard_unix_us + UNUSED_LIFE_US
                                  : now > known->used_unix_us + USED_LIFE_US;
}

size_t nm_engine_known_clean(nm_engine *engine, nm_now now) {
  engine->now = now;
  size_t gone = 0;
  nm_known *known = next_known(engine, NULL);
  while (known != NULL) {
    nm_known *next = next_known(engine, known);
    if (is_stale(engine, known)) {
      drop_known(engine, known);
      gone++;
    }
    known = next;
  }
  return gone;
}

void nm_known_record_dispose(nm_known_record *record) {
  nm_block_drop(record->app_data);
  memset(record, 0, sizeof(*record));
}
