/* What a node keeps of its tables, now and then: a few records per turn are
 * gathered into parts, which are written on the storage thread. See store.h for
 * the files.
 */
#include "io/internal.h"
#include "io/port.h"

#include <string.h>

/* Of one turn: places of a table to look at, records to take, keys of removed
 * ones. */
#define PLACES_PER_STEP 64
#define RECORDS_PER_STEP 16
#define KEYS_PER_STEP 128
/* The same of the filter, whose places are 256 slots in a row. */
#define SLOTS_PER_STEP 8
#define HASHES_PER_STEP 512
/* The filter is the largest table and the one that ages fastest: it is written
 * when the node closes, when a command asks for it, and with every tenth save
 * beside. */
#define SAVES_PER_WHOLE 10
/* Turns in a row before a save rests: a loop that never sleeps is served late
 * where others want the processor too. */
#define STEPS_PER_BURST 8
#define REST_US 1000
/* Bytes that go to the storage thread together, and how often they may wait
 * there: the walk goes on when it has caught up. */
#define PART_SIZE (32u << 10)
#define PARTS_MAX 4
/* Changes may be longer than their table by this before it is written whole. */
#define CHANGES_MIN (64u << 10)

/* ---- parts ---- */

typedef struct part {
  nm_errand errand;
  nm_node *node;
  nm_kept_table table;
  bool whole; /* of a table that is written whole */
  bool first;
  bool last;
  nm_buffer bytes;
  uint32_t count;
  int error;
  nm_store_size size; /* afterwards */
} part;

static int write_whole(part *p, nm_store *store, nm_span bytes) {
  int error = p->first ? nm_store_begin(store, p->table) : 0;
  error = error != 0 ? error : nm_store_add(store, bytes, p->count);
  return error != 0 || !p->last ? error : nm_store_finish(store);
}

static void write_part(nm_errand *errand) {
  part *p = (part *)(void *)errand;
  nm_store *store = p->node->store;
  nm_span bytes = nm_span_of(p->bytes.ptr, p->bytes.len);
  if (p->whole) {
    p->error = write_whole(p, store, bytes);
  } else if (p->count > 0) {
    p->error = nm_store_append(store, p->table, bytes, p->count);
  }
  p->size = nm_store_size_of(store, p->table);
}

static void answer_all(nm_node *node, nm_ask *ask, int status) {
  while (ask != NULL) {
    nm_ask *next = ask->next;
    nm_ask_reply(node, ask, status);
    ask = next;
  }
}

static void finish_if_done(nm_node *node) {
  nm_save *save = &node->save;
  if (save->running || save->writes > 0) {
    return;
  }
  nm_ask *asks = save->asks;
  save->asks = NULL;
  answer_all(node, asks, save->status);
  nm_node_wake(node);
  if (save->later != NULL || save->again) {
    nm_ask *ask = save->later;
    save->later = NULL;
    save->again = false;
    nm_save_start(node, ask);
  }
}

/* What was taken of the table is lost to its changes: the next save writes it
 * whole. One failure of a save is told per table. */
static void fail_table(nm_node *node, nm_kept_table table, int status,
                       int error) {
  nm_save_table *t = &node->save.tables[table];
  node->save.status = status;
  if (!t->failed) {
    t->failed = true;
    nm_save_count(node, nm_store_table_name(table), error);
  }
}

static void on_part_written(nm_loop *loop, nm_post *post) {
  part *p = (part *)(void *)post;
  nm_node *node = p->node;
  nm_save_table *t = &node->save.tables[p->table];
  (void)nm_loop_now(loop);
  node->work_out--;
  node->save.writes--;
  t->size = p->size;
  int error = p->error != 0 ? p->error : p->errand.sync_status;
  if (error != 0) {
    fail_table(node, p->table, NM_E(LIBRARY), error);
  } else if (p->last && !t->failed) {
    nm_save_count(node, nm_store_table_name(p->table), 0);
  }
  nm_buffer_dispose(&p->bytes);
  nm_release(node->mem, p);
  nm_node_wake(node); /* there is room for another part */
  finish_if_done(node);
}

/* Hands what was gathered to the storage thread. */
static void submit(nm_node *node, bool last) {
  nm_save *save = &node->save;
  nm_kept_table table = (nm_kept_table)save->table;
  part *p = nm_alloc_zero(node->mem, 1, sizeof(*p));
  if (p == NULL) {
    fail_table(node, table, NM_E(MEMORY), UV_ENOMEM);
    return;
  }
  p->node = node;
  p->table = table;
  p->whole = save->tables[table].whole;
  p->first = !save->begun;
  p->last = last;
  p->bytes = save->bytes;
  p->count = save->count;
  if (!nm_save_submit(node, &p->errand, write_part, on_part_written)) {
    nm_release(node->mem, p);
    fail_table(node, table, NM_E(LIBRARY), UV_EAGAIN);
    return;
  }
  save->writes++;
  save->begun = true;
  save->count = 0;
  nm_buffer_init(&save->bytes, node->mem, NULL, 0, 0);
}

/* ---- gathering ---- */

typedef struct gatherer {
  nm_node *node;
  uint32_t records; /* of this step */
  int status;
} gatherer;

static void gather(gatherer *g, int status) {
  g->records++;
  if (status == NM_OK) {
    g->node->save.count++;
  } else {
    g->status = status;
  }
}

static void gather_removed(void *user, nm_span key) {
  gatherer *g = user;
  gather(g, nm_removed_pack(&g->node->save.bytes, key));
}

static void gather_known(void *user, nm_known_record *record) {
  gatherer *g = user;
  gather(g, nm_known_pack(&g->node->save.bytes, record));
  nm_known_record_dispose(record);
}

static void gather_alternatives(gatherer *g, const nm_destination_hash *hash) {
  nm_alternative_record way;
  for (uint32_t i = 0;
       nm_engine_path_alternative(g->node->engine, hash, i, &way); i++) {
    const nm_port *port = nm_port_find(g->node, way.iface);
    if (port != NULL) {
      gather(g, nm_alternative_pack(&g->node->save.bytes, &way, port->hash));
    }
  }
}

static void gather_path(void *user, nm_path_record *record) {
  gatherer *g = user;
  const nm_port *port = nm_port_find(g->node, record->iface);
  if (port != NULL) {
    gather(g, nm_path_pack(&g->node->save.bytes, record, port->hash));
    gather_alternatives(g, &record->destination);
  }
  nm_path_record_dispose(record);
}

/* One that waits for its interface, unless something newer has made it
 * needless. */
static void gather_orphan(void *user, const nm_orphan *orphan) {
  gatherer *g = user;
  if (nm_engine_hops(g->node->engine, &orphan->destination) !=
      NM_HOPS_UNKNOWN) {
    return;
  }
  nm_buffer *out = &g->node->save.bytes;
  gather(g, nm_path_pack(out, &orphan->record, orphan->iface_hash));
  for (uint32_t i = 0; i < orphan->way_count; i++) {
    const nm_orphan_way *way = &orphan->ways[i];
    gather(g, nm_alternative_pack(out, &way->record, way->iface_hash));
  }
}

static void gather_blackhole(void *user, nm_blackhole_record *record) {
  gatherer *g = user;
  gather(g, nm_blackhole_pack(&g->node->save.bytes, record));
  nm_blackhole_record_dispose(record);
}

static void gather_tunnel(void *user, nm_tunnel_record *record) {
  gatherer *g = user;
  gather(g, nm_tunnel_pack(&g->node->save.bytes, record));
}

static void gather_tunnel_path(void *user, nm_tunnel_path_record *record) {
  gatherer *g = user;
  gather(g, nm_tunnel_path_pack(&g->node->save.bytes, record));
  nm_tunnel_path_record_dispose(record);
}

static void gather_hash(void *user, const nm_packet_hash *hash) {
  gatherer *g = user;
  gather(g, nm_buffer_append(&g->node->save.bytes, hash->b, NM_HASH_SIZE));
}

/* Looks at one more place; the next cursor, 0 at the end of the table. */
static uint64_t look_on(gatherer *g) {
  nm_engine *engine = g->node->engine;
  const nm_save *save = &g->node->save;
  uint64_t cursor = save->cursor;
  bool all = save->tables[save->table].whole;
  switch ((nm_kept_table)save->table) {
  case NM_KEPT_BLACKHOLES:
    return nm_engine_blackhole_kept(engine, cursor, all, gather_blackhole, g);
  case NM_KEPT_KNOWN:
    return nm_engine_known_kept(engine, cursor, all, gather_known, g);
  case NM_KEPT_PATHS:
    return nm_engine_path_kept(engine, cursor, all, gather_path, g);
  case NM_KEPT_TUNNELS:
    return nm_engine_tunnel_kept(engine, cursor, all, gather_tunnel, g);
  case NM_KEPT_TUNNEL_PATHS:
    return nm_engine_tunnel_path_kept(engine, cursor, all, gather_tunnel_path,
                                      g);
  case NM_KEPT_FILTER:
    return nm_engine_filter_kept(engine, cursor, all, gather_hash, g);
  case NM_KEPT_TABLES:
    break;
  }
  return 0;
}

/* ---- one table after the other ---- */

static bool is_wanted(const nm_save *save, int table) {
  if (table == NM_KEPT_FILTER) {
    return save->carries && save->with_filter;
  }
  return save->carries || table <= NM_KEPT_PATHS;
}

static bool has_changed(const nm_node *node, int table) {
  return node->save.tables[table].failed ||
         nm_engine_kept_changes(node->engine, (nm_kept_table)table) > 0;
}

/* Goes on to the next table with changes, from |table|. */
static void begin_table(nm_node *node, int table) {
  nm_save *save = &node->save;
  while (table < NM_KEPT_TABLES &&
         (!is_wanted(save, table) || !has_changed(node, table))) {
    table++;
  }
  save->table = table;
  save->cursor = 0;
  save->count = 0;
  save->begun = false;
  if (table == NM_KEPT_TABLES) {
    save->running = false;
    finish_if_done(node);
    return;
  }
  nm_save_table *t = &save->tables[table];
  bool lost = nm_engine_kept_is_lost(node->engine, (nm_kept_table)table);
  t->whole = t->failed || lost || t->size.table == 0 ||
             t->size.changes > t->size.table + CHANGES_MIN;
  t->failed = false;
  save->phase = NM_SAVE_REMOVED;
  if (t->whole) {
    save->phase = table == NM_KEPT_PATHS ? NM_SAVE_ORPHANS : NM_SAVE_ENTRIES;
    nm_engine_kept_restart(node->engine, (nm_kept_table)table);
  }
  node->orphans.outdated = node->orphans.outdated || table == NM_KEPT_PATHS;
}

static void end_table(nm_node *node) {
  nm_save *save = &node->save;
  const nm_save_table *t = &save->tables[save->table];
  if (!t->failed && (t->whole || save->begun || save->count > 0)) {
    submit(node, true);
  }
  nm_buffer_dispose(&save->bytes);
  nm_buffer_init(&save->bytes, node->mem, NULL, 0, 0);
  begin_table(node, save->table + 1);
}

static void look_at_entries(gatherer *g) {
  nm_save *save = &g->node->save;
  bool filter = save->table == NM_KEPT_FILTER;
  uint32_t places = filter ? SLOTS_PER_STEP : PLACES_PER_STEP;
  uint32_t most = filter ? HASHES_PER_STEP : RECORDS_PER_STEP;
  do {
    save->cursor = look_on(g);
    places--;
  } while (save->cursor != 0 && places > 0 && g->records < most &&
           g->status == NM_OK);
  if (save->cursor == 0) {
    save->phase = NM_SAVE_END;
  }
}

static void look_at_orphans(gatherer *g) {
  nm_save *save = &g->node->save;
  uint32_t places = PLACES_PER_STEP;
  do {
    save->cursor = nm_orphans_scan(g->node, save->cursor, gather_orphan, g);
    places--;
  } while (save->cursor != 0 && places > 0 && g->records < RECORDS_PER_STEP &&
           g->status == NM_OK);
  save->phase = save->cursor == 0 ? NM_SAVE_ENTRIES : NM_SAVE_ORPHANS;
}

bool nm_save_is_ready(const nm_node *node) {
  bool rests =
      node->phase == NM_NODE_IS_OPEN && nm_timer_armed(&node->save_rest);
  return node->save.running && node->save.writes < PARTS_MAX && !rests;
}

void nm_save_go_on(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  (void)user;
  nm_node_wake((nm_node *)(void *)(at - offsetof(nm_node, save_rest)));
}

static void rest_now_and_then(nm_node *node) {
  nm_save *save = &node->save;
  if (++save->steps >= STEPS_PER_BURST && save->running &&
      node->phase == NM_NODE_IS_OPEN) {
    save->steps = 0;
    nm_loop_arm(node->loop, &node->save_rest,
                nm_loop_now(node->loop).mono_us + REST_US);
  }
}

void nm_save_step(nm_node *node) {
  nm_save *save = &node->save;
  nm_save_table *t = &save->tables[save->table];
  gatherer g = {.node = node};
  switch (save->phase) {
  case NM_SAVE_REMOVED:
    if (nm_engine_kept_removed(node->engine, (nm_kept_table)save->table,
                               KEYS_PER_STEP, gather_removed,
                               &g) < KEYS_PER_STEP) {
      save->phase = NM_SAVE_ENTRIES;
    }
    break;
  case NM_SAVE_ENTRIES:
    look_at_entries(&g);
    break;
  case NM_SAVE_ORPHANS:
    look_at_orphans(&g);
    break;
  case NM_SAVE_END:
    break;
  }
  if (g.status != NM_OK) {
    fail_table(node, (nm_kept_table)save->table, g.status, UV_ENOMEM);
  }
  if (!t->failed && save->bytes.len >= PART_SIZE &&
      save->phase != NM_SAVE_END) {
    submit(node, false);
  }
  if (t->failed || save->phase == NM_SAVE_END) {
    end_table(node);
  }
  rest_now_and_then(node);
}

/* ---- when ---- */

/* Whether the filter is written too. */
static bool takes_filter(const nm_node *node, const nm_ask *ask) {
  return ask != NULL || node->phase != NM_NODE_IS_OPEN ||
         node->save.since_filter + 1 >= SAVES_PER_WHOLE;
}

static bool anything_changed(const nm_node *node) {
  for (int table = 0; table < NM_KEPT_TABLES; table++) {
    if (is_wanted(&node->save, table) && has_changed(node, table)) {
      return true;
    }
  }
  return false;
}

void nm_save_start(nm_node *node, nm_ask *ask) {
  nm_save *save = &node->save;
  if (save->running || save->writes > 0) {
    save->again = true;
    if (ask != NULL) {
      ask->next = save->later;
      save->later = ask;
    }
    return;
  }
  save->with_filter = takes_filter(node, ask);
  if (!anything_changed(node)) {
    answer_all(node, ask, NM_OK);
    return;
  }
  save->since_filter = save->with_filter ? 0 : save->since_filter + 1;
  save->running = true;
  save->status = NM_OK;
  save->asks = ask;
  begin_table(node, NM_KEPT_BLACKHOLES);
  nm_node_wake(node);
}

void nm_save_due(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, save_timer));
  (void)user;
  nm_save_start(node, NULL);
  nm_loop_arm(node->loop, &node->save_timer,
              node->loop->now.mono_us + node->save_interval_us);
}
