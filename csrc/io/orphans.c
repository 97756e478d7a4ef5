/* Paths that were loaded before their interfaces are there. They come back with
 * them, a few per turn; so do other ways to their destinations, each with its
 * own interface.
 */
#include "io/internal.h"
#include "io/port.h"

#include <string.h>

/* Paths and ways put back in one turn. */
#define ADOPTIONS_PER_STEP 16

/* What waits for one interface. Made by the file alone, so that there are no
 * more of them than paths and ways. */
typedef struct crowd {
  nm_table_link link;
  uint8_t iface_hash[NM_HASH_SIZE];
  nm_iface_id iface; /* that came, or 0 */
  nm_orphan *paths;
  struct late_way *ways; /* whose paths have come back */
  struct crowd *next;    /* of those whose interface came */
  bool called;
} crowd;

typedef struct late_way {
  struct late_way *next;
  nm_alternative_record record;
} late_way;

static void free_orphan(void *user, nm_table_link *entry) {
  nm_node *node = user;
  nm_orphan *orphan = (nm_orphan *)(void *)entry;
  if (orphan->crowd != NULL) {
    *orphan->at = orphan->next;
    if (orphan->next != NULL) {
      orphan->next->at = orphan->at;
    }
  }
  nm_path_record_dispose(&orphan->record);
  nm_release(node->mem, orphan->ways);
  nm_release(node->mem, orphan);
}

static void free_crowd(void *user, nm_table_link *entry) {
  nm_node *node = user;
  crowd *c = (crowd *)(void *)entry;
  while (c->ways != NULL) {
    late_way *way = c->ways;
    c->ways = way->next;
    nm_release(node->mem, way);
  }
  nm_release(node->mem, c);
}

int nm_orphans_init(nm_node *node, const uint8_t hash_key[16]) {
  nm_table_config config = {
      .capacity = UINT32_MAX, /* nm_orphans_put sees to it */
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_orphan, destination),
      .user = node,
      .dispose = free_orphan,
  };
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  int status = nm_table_init(&node->orphans.paths, node->mem, &config);
  config.key_size = NM_HASH_SIZE;
  config.key_offset = offsetof(crowd, iface_hash);
  config.dispose = free_crowd;
  return status == NM_OK
             ? nm_table_init(&node->orphans.crowds, node->mem, &config)
             : status;
}

void nm_orphans_dispose(nm_node *node) {
  nm_table_dispose(&node->orphans.paths);
  nm_table_dispose(&node->orphans.crowds);
  memset(&node->orphans, 0, sizeof(node->orphans));
}

/* ---- loading ---- */

static nm_orphan *find(const nm_node *node, const nm_destination_hash *hash) {
  return (nm_orphan *)(void *)nm_table_find(&node->orphans.paths, hash);
}

static crowd *crowd_of(const nm_node *node,
                       const uint8_t iface_hash[NM_HASH_SIZE]) {
  return (crowd *)(void *)nm_table_find(&node->orphans.crowds, iface_hash);
}

static crowd *ensure_crowd(nm_node *node,
                           const uint8_t iface_hash[NM_HASH_SIZE]) {
  crowd *c = crowd_of(node, iface_hash);
  if (c != NULL || (c = nm_alloc_zero(node->mem, 1, sizeof(*c))) == NULL) {
    return c;
  }
  memcpy(c->iface_hash, iface_hash, NM_HASH_SIZE);
  if (nm_table_insert(&node->orphans.crowds, &c->link) != NM_OK) {
    nm_release(node->mem, c);
    return NULL;
  }
  return c;
}

static void count(nm_node *node) {
  node->stats.orphan_paths = node->orphans.paths.count;
}

static void forget(nm_node *node, nm_orphan *orphan) {
  nm_table_remove(&node->orphans.paths, &orphan->link);
  free_orphan(node, &orphan->link);
  count(node);
}

void nm_orphans_drop(nm_node *node, const nm_destination_hash *hash) {
  nm_orphan *orphan = find(node, hash);
  if (orphan != NULL) {
    forget(node, orphan);
  }
}

void nm_orphans_put(nm_node *node, nm_path_record *record,
                    const uint8_t iface_hash[NM_HASH_SIZE]) {
  nm_orphans_drop(node, &record->destination);
  uint32_t most = nm_engine_limits(node->engine)->paths;
  crowd *c = ensure_crowd(node, iface_hash);
  nm_orphan *orphan = c == NULL || node->orphans.paths.count >= most
                          ? NULL
                          : nm_alloc_zero(node->mem, 1, sizeof(*orphan));
  if (orphan != NULL) {
    orphan->destination = record->destination;
    if (nm_table_insert(&node->orphans.paths, &orphan->link) != NM_OK) {
      nm_release(node->mem, orphan);
      orphan = NULL;
    }
  }
  if (orphan == NULL) {
    nm_path_record_dispose(record); /* it is learned again */
    return;
  }
  memcpy(orphan->iface_hash, iface_hash, NM_HASH_SIZE);
  orphan->record = *record;
  orphan->crowd = c;
  orphan->next = c->paths;
  orphan->at = &c->paths;
  if (orphan->next != NULL) {
    orphan->next->at = &orphan->next;
  }
  c->paths = orphan;
  count(node);
}

void nm_orphans_put_way(nm_node *node, const nm_alternative_record *record,
                        const uint8_t iface_hash[NM_HASH_SIZE]) {
  nm_orphan *orphan = find(node, &record->destination);
  if (orphan == NULL || ensure_crowd(node, iface_hash) == NULL) {
    return;
  }
  nm_orphan_way *grown =
      nm_resize(node->mem, orphan->ways,
                (orphan->way_count + 1u) * sizeof(nm_orphan_way));
  if (grown != NULL) {
    orphan->ways = grown;
    nm_orphan_way *way = &grown[orphan->way_count++];
    way->record = *record;
    memcpy(way->iface_hash, iface_hash, NM_HASH_SIZE);
  }
}

/* ---- coming back ---- */

uint64_t nm_mono_of(nm_now now, int64_t unix_us) {
  int64_t ago = now.unix_us - unix_us;
  if (ago >= 0 && (uint64_t)ago >= now.mono_us) {
    return 0;
  }
  return (uint64_t)((int64_t)now.mono_us - ago);
}

static void put_way(nm_node *node, nm_alternative_record *record,
                    nm_iface_id iface) {
  nm_now now = node->loop->now;
  record->iface = iface;
  record->heard_mono_us = nm_mono_of(now, record->heard_unix_us);
  record->failed_mono_us =
      record->failed_unix_us == 0 ? 0 : nm_mono_of(now, record->failed_unix_us);
  (void)nm_engine_alternative_put(node->engine, record, now);
}

/* A way whose interface is not there yet waits for it by itself. */
static void bring_way(nm_node *node, nm_orphan_way *way) {
  crowd *c = crowd_of(node, way->iface_hash);
  if (c == NULL) {
    return;
  }
  if (c->iface != 0) {
    put_way(node, &way->record, c->iface);
    return;
  }
  late_way *late = nm_alloc_zero(node->mem, 1, sizeof(*late));
  if (late != NULL) {
    late->record = way->record;
    late->next = c->ways;
    c->ways = late;
  }
}

/* Whether the path is wanted: nothing newer was learned, nobody bars it. */
static bool bring_path(nm_node *node, nm_path_record *record,
                       nm_iface_id iface) {
  nm_path_record known;
  nm_now now = node->loop->now;
  record->iface = iface;
  record->updated_mono_us = nm_mono_of(now, record->updated_unix_us);
  record->expires_mono_us = nm_mono_of(now, record->expires_unix_us);
  return !nm_engine_path_peek(node->engine, &record->destination, &known) &&
         !nm_engine_is_barred(node->engine, &record->destination) &&
         nm_engine_path_put(node->engine, record) == NM_OK;
}

static void adopt_path(nm_node *node, const crowd *c, nm_orphan *orphan) {
  if (bring_path(node, &orphan->record, c->iface)) {
    for (uint32_t i = 0; i < orphan->way_count; i++) {
      bring_way(node, &orphan->ways[i]);
    }
  }
  forget(node, orphan);
}

/* A path that was saved meanwhile was so without it. */
static void adopt_way(nm_node *node, crowd *c) {
  late_way *way = c->ways;
  c->ways = way->next;
  nm_engine_kept_loading(node->engine, !node->orphans.outdated);
  put_way(node, &way->record, c->iface);
  nm_engine_kept_loading(node->engine, true);
  nm_release(node->mem, way);
}

bool nm_orphans_are_called(const nm_node *node) {
  return node->orphans.called != NULL;
}

void nm_orphans_step(nm_node *node) {
  /* What comes back is on disk already. */
  nm_engine_kept_loading(node->engine, true);
  for (int i = 0; i < ADOPTIONS_PER_STEP && node->orphans.called != NULL;) {
    crowd *c = node->orphans.called;
    if (c->paths != NULL) {
      adopt_path(node, c, c->paths);
      i++;
    } else if (c->ways != NULL) {
      adopt_way(node, c);
      i++;
    } else {
      node->orphans.called = c->next;
      c->called = false;
    }
  }
  nm_engine_kept_loading(node->engine, false);
}

void nm_orphans_adopt(nm_node *node, nm_iface_id iface,
                      const uint8_t hash[NM_HASH_SIZE]) {
  crowd *c = crowd_of(node, hash);
  if (c == NULL) {
    return;
  }
  c->iface = iface;
  if (!c->called) {
    c->called = true;
    c->next = node->orphans.called;
    node->orphans.called = c;
  }
  nm_orphans_step(node);
  nm_node_wake(node);
}

/* ---- for the next save ---- */

typedef struct scan {
  void (*visit)(void *user, const nm_orphan *orphan);
  void *user;
} scan;

static void visit_entry(void *user, nm_table_link *entry) {
  const scan *s = user;
  s->visit(s->user, (const nm_orphan *)(const void *)entry);
}

uint64_t nm_orphans_scan(const nm_node *node, uint64_t cursor,
                         void (*visit)(void *user, const nm_orphan *orphan),
                         void *user) {
  scan s = {visit, user};
  return nm_table_scan(&node->orphans.paths, cursor, visit_entry, &s);
}
