/* What a node keeps: the engine's files as they come, the tables now and then.
 * Records are gathered a few per turn; files are written on the storage thread.
 */
#include "io/internal.h"
#include "io/port.h"

#include <stdio.h>
#include <string.h>

#define RECORDS_PER_STEP 48
#define HASHES_PER_STEP 1024
/* The filter is the largest table and the one that ages fastest: it is written
 * when the node closes, when a command asks for it, and with every tenth save
 * beside. */
#define SAVES_PER_WHOLE 10
#define TABLE_FILE_MAX (1u << 30)
/* Paths that wait for their interface. */
#define ORPHANS_MAX 100000

/* ---- what was written ---- */

static void free_written(void *user, nm_table_link *entry) {
  nm_node *node = user;
  nm_written *written = (nm_written *)(void *)entry;
  nm_block_drop(written->bytes);
  nm_release(node->mem, written);
}

int nm_save_init(nm_node *node, const uint8_t hash_key[16]) {
  nm_table_config config = {
      .capacity = UINT32_MAX, /* as many as own destinations, twice */
      .key_size = NM_STORE_NAME_MAX,
      .key_offset = offsetof(nm_written, name),
      .user = node,
      .dispose = free_written,
  };
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  nm_buffer_init(&node->save.bytes, node->mem, NULL, 0, 0);
  return nm_table_init(&node->written, node->mem, &config);
}

void nm_save_dispose(nm_node *node) {
  nm_table_dispose(&node->written);
  memset(&node->written, 0, sizeof(node->written));
  nm_orphans_dispose(node);
  nm_buffer_dispose(&node->save.bytes);
}

static nm_written *find_written(const nm_node *node, const char *name) {
  char key[NM_STORE_NAME_MAX] = {0};
  (void)snprintf(key, sizeof(key), "%s", name);
  return (nm_written *)(void *)nm_table_find(&node->written, key);
}

const nm_block *nm_save_written(const nm_node *node, const char *name) {
  const nm_written *written = find_written(node, name);
  return written == NULL ? NULL : written->bytes;
}

/* Without memory an older content is forgotten rather than kept. */
static void note_written(nm_node *node, const char *name, nm_span bytes) {
  nm_written *written = find_written(node, name);
  if (written == NULL) {
    written = nm_alloc_zero(node->mem, 1, sizeof(*written));
    if (written == NULL) {
      return;
    }
    (void)snprintf(written->name, sizeof(written->name), "%s", name);
    if (nm_table_insert(&node->written, &written->link) != NM_OK) {
      nm_release(node->mem, written);
      return;
    }
  }
  nm_block_drop(written->bytes);
  written->bytes = nm_block_copy(node->mem, bytes);
  if (written->bytes != NULL) {
    nm_block_mark_secret(written->bytes);
  }
}

/* ---- results ---- */

static void count_result(nm_node *node, const char *name, int error) {
  nm_node_stats *stats = &node->stats;
  atomic_fetch_add_explicit(&node->loop->jobs_stored, 1, memory_order_relaxed);
  stats->store_os_error = error;
  if (error == 0) {
    stats->saves++;
    stats->last_save_unix_us = node->loop->now.unix_us;
    return;
  }
  stats->save_errors++;
  nm_trouble trouble = {
      .kind = NM_TROUBLE_STORE_WRITE, .at = node->loop->now, .os_error = error};
  (void)snprintf(trouble.file, sizeof(trouble.file), "%s", name);
  nm_node_tell(node, &trouble);
}

void nm_node_tell_aside(nm_node *node, const char *name, int status) {
  nm_trouble trouble = {.kind = status == NM_E(LIBRARY)
                                    ? NM_TROUBLE_STORE_READ
                                    : NM_TROUBLE_STORE_DAMAGED,
                        .at = node->loop->now};
  (void)snprintf(trouble.file, sizeof(trouble.file), "%s", name);
  nm_node_tell(node, &trouble);
}

static int sync_store(void *group) {
  return nm_store_sync(group);
}

/* ---- the engine's files ---- */

typedef struct job_errand {
  nm_errand errand;
  nm_node *node;
  nm_job *job;
  int error;
} job_errand;

static void write_job(nm_errand *errand) {
  job_errand *e = (job_errand *)(void *)errand;
  e->error = nm_store_write(e->node->store, nm_job_store_name(e->job),
                            nm_span_of(NULL, 0), nm_job_store_bytes(e->job));
}

static void finish_job(nm_node *node, nm_job *job, int error) {
  char name[NM_STORE_NAME_MAX];
  (void)snprintf(name, sizeof(name), "%s", nm_job_store_name(job));
  count_result(node, name, error);
  nm_job_store_result(job, error == 0);
  nm_engine_job_done(node->engine, job, node->loop->now);
  nm_node_wake(node);
}

static void on_job_written(nm_loop *loop, nm_post *post) {
  job_errand *e = (job_errand *)(void *)post;
  nm_node *node = e->node;
  (void)nm_loop_now(loop);
  node->work_out--;
  finish_job(node, e->job, e->error != 0 ? e->error : e->errand.sync_status);
  nm_release(node->mem, e);
}

void nm_save_job(nm_node *node, nm_job *job) {
  if (node->store == NULL) {
    nm_job_store_result(job, true); /* memory is all there is */
    nm_engine_job_done(node->engine, job, node->loop->now);
    return;
  }
  note_written(node, nm_job_store_name(job), nm_job_store_bytes(job));
  job_errand *e = nm_alloc_zero(node->mem, 1, sizeof(*e));
  if (e == NULL) {
    finish_job(node, job, UV_ENOMEM);
    return;
  }
  e->errand.done.run = on_job_written;
  e->errand.group = node->store;
  e->errand.run = write_job;
  e->errand.sync = sync_store;
  e->node = node;
  e->job = job;
  if (nm_clerk_submit(&node->loop->clerk, &e->errand)) {
    node->work_out++;
  } else {
    nm_release(node->mem, e);
    finish_job(node, job, UV_EAGAIN);
  }
}

/* ---- received files ---- */

typedef struct finish_errand {
  nm_errand errand;
  nm_node *node;
  nm_job *job;
  nm_cipher cipher; /* unused: what nm_job_run wants */
} finish_errand;

static void run_finish(nm_errand *errand) {
  finish_errand *e = (finish_errand *)(void *)errand;
  nm_job_run(e->job, &e->cipher);
}

/* A sink syncs what it finishes by itself. */
static int sync_nothing(void *group) {
  (void)group;
  return 0;
}

static void on_finished(nm_loop *loop, nm_post *post) {
  finish_errand *e = (finish_errand *)(void *)post;
  nm_node *node = e->node;
  node->work_out--;
  nm_engine_job_done(node->engine, e->job, nm_loop_now(loop));
  nm_release(node->mem, e);
  nm_node_wake(node);
}

void nm_finish_file(nm_node *node, nm_job *job) {
  finish_errand *e = nm_alloc_zero(node->mem, 1, sizeof(*e));
  if (e != NULL) {
    e->errand.done.run = on_finished;
    e->errand.group = e;
    e->errand.run = run_finish;
    e->errand.sync = sync_nothing;
    e->node = node;
    e->job = job;
    if (nm_clerk_submit(&node->loop->clerk, &e->errand)) {
      node->work_out++;
      return;
    }
    nm_release(node->mem, e);
  }
  nm_job_run(job, &node->loop->cipher); /* nobody else will */
  nm_engine_job_done(node->engine, job, node->loop->now);
}

/* ---- the tables ---- */

typedef struct table_errand {
  nm_errand errand;
  nm_node *node;
  nm_store_table table;
  nm_buffer bytes;
  uint32_t count;
  int error;
} table_errand;

static void write_table(nm_errand *errand) {
  table_errand *e = (table_errand *)(void *)errand;
  uint8_t head[NM_STORE_HEAD_SIZE];
  nm_span body = nm_span_of(e->bytes.ptr, e->bytes.len);
  nm_store_seal(e->table, e->count, body, head);
  e->error = nm_store_write(e->node->store, nm_store_table_name(e->table),
                            nm_span_of(head, sizeof(head)), body);
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
    save->touched = save->touched || save->status != NM_OK;
    nm_save_start(node, ask);
  }
}

static void on_table_written(nm_loop *loop, nm_post *post) {
  table_errand *e = (table_errand *)(void *)post;
  nm_node *node = e->node;
  (void)nm_loop_now(loop);
  node->work_out--;
  node->save.writes--;
  int error = e->error != 0 ? e->error : e->errand.sync_status;
  count_result(node, nm_store_table_name(e->table), error);
  if (error != 0) {
    node->save.status = NM_E(LIBRARY);
    node->save.touched = true; /* the next save tries again */
  }
  nm_buffer_dispose(&e->bytes);
  nm_release(node->mem, e);
  finish_if_done(node);
}

static void give_up_table(nm_node *node, int status) {
  node->save.status = status;
  node->save.touched = true;
  count_result(node, nm_store_table_name((nm_store_table)node->save.table),
               status == NM_E(MEMORY) ? UV_ENOMEM : UV_EAGAIN);
  nm_buffer_dispose(&node->save.bytes);
}

/* Hands the gathered bytes to the storage thread. */
static void submit_table(nm_node *node) {
  nm_save *save = &node->save;
  table_errand *e = nm_alloc_zero(node->mem, 1, sizeof(*e));
  if (e == NULL) {
    give_up_table(node, NM_E(MEMORY));
    return;
  }
  e->errand.done.run = on_table_written;
  e->errand.group = node->store;
  e->errand.run = write_table;
  e->errand.sync = sync_store;
  e->node = node;
  e->table = (nm_store_table)save->table;
  e->bytes = save->bytes;
  e->count = save->count;
  if (nm_clerk_submit(&node->loop->clerk, &e->errand)) {
    node->work_out++;
    save->writes++;
    nm_buffer_init(&save->bytes, node->mem, NULL, 0, 0);
  } else {
    nm_release(node->mem, e);
    give_up_table(node, NM_E(LIBRARY));
  }
}

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

static void gather_known(void *user, nm_known_record *record) {
  gatherer *g = user;
  gather(g, nm_known_pack(&g->node->save.bytes, record));
  nm_known_record_dispose(record);
}

static void gather_path(void *user, nm_path_record *record) {
  gatherer *g = user;
  const nm_port *port = nm_port_find(g->node, record->iface);
  if (port != NULL) {
    gather(g, nm_path_pack(&g->node->save.bytes, record, port->hash));
  }
  nm_path_record_dispose(record);
}

/* Those that nothing newer has made needless. */
static void gather_orphans(gatherer *g) {
  for (const nm_orphan *o = g->node->orphans; o != NULL; o = o->next) {
    if (nm_engine_hops(g->node->engine, &o->record.destination) !=
        NM_HOPS_UNKNOWN) {
      continue;
    }
    gather(g, nm_path_pack(&g->node->save.bytes, &o->record, o->iface_hash));
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

/* Gathers a few records; the next cursor, 0 at the end of the table. */
static uint64_t walk_on(gatherer *g) {
  const nm_engine *engine = g->node->engine;
  uint64_t cursor = g->node->save.cursor;
  switch ((nm_store_table)g->node->save.table) {
  case NM_STORE_BLACKHOLES:
    return nm_engine_blackhole_scan(engine, cursor, gather_blackhole, g);
  case NM_STORE_KNOWN:
    return nm_engine_known_scan(engine, cursor, gather_known, g);
  case NM_STORE_PATHS:
    return nm_engine_path_scan(engine, cursor, gather_path, g);
  case NM_STORE_TUNNELS:
    return nm_engine_tunnel_scan(engine, cursor, gather_tunnel, g);
  case NM_STORE_TUNNEL_PATHS:
    return nm_engine_tunnel_path_scan(engine, cursor, gather_tunnel_path, g);
  case NM_STORE_FILTER:
    return nm_engine_filter_scan(engine, cursor, gather_hash, g);
  case NM_STORE_TABLES:
    break;
  }
  return 0;
}

static bool is_wanted(const nm_save *save, int table) {
  if (table == NM_STORE_FILTER) {
    return save->carries && save->whole;
  }
  return save->carries || table <= NM_STORE_PATHS;
}

/* What is empty and always was needs no file. */
static bool needs_file(const nm_save *save) {
  return save->count > 0 || save->kept[save->table] ||
         save->table == NM_STORE_KNOWN || save->table == NM_STORE_PATHS;
}

static void end_table(nm_node *node, gatherer *g) {
  nm_save *save = &node->save;
  if (save->table == NM_STORE_PATHS && g->status == NM_OK) {
    gather_orphans(g);
  }
  if (g->status != NM_OK) {
    give_up_table(node, g->status);
  } else if (needs_file(save)) {
    save->kept[save->table] = true;
    submit_table(node);
  }
  save->count = 0;
  do {
    save->table++;
  } while (save->table < NM_STORE_TABLES && !is_wanted(save, save->table));
  if (save->table == NM_STORE_TABLES) {
    save->running = false;
    finish_if_done(node);
  }
}

void nm_save_step(nm_node *node) {
  nm_save *save = &node->save;
  gatherer g = {.node = node};
  uint32_t most =
      save->table == NM_STORE_FILTER ? HASHES_PER_STEP : RECORDS_PER_STEP;
  do {
    save->cursor = walk_on(&g);
  } while (save->cursor != 0 && g.records < most && g.status == NM_OK);
  if (save->cursor == 0 || g.status != NM_OK) {
    save->cursor = 0;
    end_table(node, &g);
  }
}

static uint64_t inputs_of(const nm_node *node) {
  nm_engine_stats stats;
  nm_engine_stats_read(node->engine, &stats);
  return stats.inputs;
}

/* Whether the filter is written too. */
static bool is_whole(const nm_node *node, const nm_ask *ask) {
  return ask != NULL || node->phase != NM_NODE_IS_OPEN ||
         node->save.since_whole + 1 >= SAVES_PER_WHOLE;
}

void nm_save_start(nm_node *node, nm_ask *ask) {
  nm_save *save = &node->save;
  uint64_t inputs = inputs_of(node);
  if (save->running || save->writes > 0) {
    save->again = true;
    if (ask != NULL) {
      ask->next = save->later;
      save->later = ask;
    }
    return;
  }
  bool whole = is_whole(node, ask);
  bool filter = save->carries && whole && inputs != save->whole_inputs;
  if (!save->touched && inputs == save->inputs && !filter) {
    answer_all(node, ask, NM_OK); /* nothing has changed */
    return;
  }
  save->running = true;
  save->whole = whole;
  save->since_whole = whole ? 0 : save->since_whole + 1;
  save->whole_inputs = whole ? inputs : save->whole_inputs;
  save->table = NM_STORE_BLACKHOLES;
  save->cursor = 0;
  save->count = 0;
  save->status = NM_OK;
  save->asks = ask;
  save->touched = false;
  save->inputs = inputs;
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

/* ---- loading ---- */

/* The monotonic time at which the wall clock showed |unix_us|, by today's
 * difference. */
static int load_known(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  nm_known_record record;
  for (uint32_t i = 0; i < count; i++) {
    int status = nm_known_unpack(&r, node->mem, &record);
    if (status != NM_OK) {
      return status;
    }
    (void)nm_engine_known_put(node->engine, &record);
    nm_known_record_dispose(&record);
  }
  return NM_OK;
}

static int load_paths(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  int64_t now = nm_clock_now().unix_us;
  for (uint32_t i = 0; i < count && i < ORPHANS_MAX; i++) {
    nm_orphan *orphan = nm_alloc_zero(node->mem, 1, sizeof(*orphan));
    if (orphan == NULL) {
      return NM_OK; /* the rest is learned again */
    }
    int status =
        nm_path_unpack(&r, node->mem, &orphan->record, orphan->iface_hash);
    if (status != NM_OK || orphan->record.expires_unix_us <= now) {
      nm_path_record_dispose(&orphan->record);
      nm_release(node->mem, orphan);
      if (status != NM_OK) {
        return status;
      }
      continue;
    }
    orphan->next = node->orphans;
    node->orphans = orphan;
    node->stats.orphan_paths++;
  }
  return NM_OK;
}

static int load_blackholes(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  nm_now now = nm_clock_now();
  for (uint32_t i = 0; i < count; i++) {
    nm_blackhole_record record;
    int status = nm_blackhole_unpack(&r, node->mem, &record);
    if (status != NM_OK) {
      return status;
    }
    if (record.until_unix_us == 0 || record.until_unix_us > now.unix_us) {
      (void)nm_engine_blackhole_put(node->engine, &record, now);
    }
    nm_blackhole_record_dispose(&record);
  }
  return NM_OK;
}

static int load_tunnels(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  nm_now now = nm_clock_now();
  for (uint32_t i = 0; i < count; i++) {
    nm_tunnel_record record;
    int status = nm_tunnel_unpack(&r, &record);
    if (status != NM_OK) {
      return status;
    }
    if (record.expires_unix_us > now.unix_us) {
      record.expires_mono_us = nm_mono_of(now, record.expires_unix_us);
      (void)nm_engine_tunnel_put(node->engine, &record, now);
    }
  }
  return NM_OK;
}

/* Those of tunnels that have expired go with them. */
static int load_tunnel_paths(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  nm_now now = nm_clock_now();
  for (uint32_t i = 0; i < count; i++) {
    nm_tunnel_path_record record;
    int status = nm_tunnel_path_unpack(&r, node->mem, &record);
    if (status != NM_OK) {
      return status;
    }
    record.updated_mono_us = nm_mono_of(now, record.updated_unix_us);
    record.expires_mono_us = nm_mono_of(now, record.expires_unix_us);
    if (record.expires_unix_us > now.unix_us) {
      (void)nm_engine_tunnel_path_put(node->engine, &record);
    }
    nm_tunnel_path_record_dispose(&record);
  }
  return NM_OK;
}

static int load_filter(nm_node *node, nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  for (uint32_t i = 0; i < count; i++) {
    nm_packet_hash hash;
    (void)nm_reader_copy(&r, hash.b, sizeof(hash.b));
    if (r.status != NM_OK) {
      return r.status;
    }
    nm_engine_filter_put(node->engine, &hash);
  }
  return NM_OK;
}

static int load_body(nm_node *node, nm_store_table table, nm_span body,
                     uint32_t count) {
  switch (table) {
  case NM_STORE_BLACKHOLES:
    return load_blackholes(node, body, count);
  case NM_STORE_KNOWN:
    return load_known(node, body, count);
  case NM_STORE_PATHS:
    return load_paths(node, body, count);
  case NM_STORE_TUNNELS:
    return load_tunnels(node, body, count);
  case NM_STORE_TUNNEL_PATHS:
    return load_tunnel_paths(node, body, count);
  case NM_STORE_FILTER:
    return load_filter(node, body, count);
  case NM_STORE_TABLES:
    break;
  }
  return NM_OK;
}

static void load_table(nm_node *node, nm_store_table table) {
  const char *name = nm_store_table_name(table);
  nm_block *file = NULL;
  nm_span body;
  uint32_t count;
  int status = nm_store_read(node->store, name, TABLE_FILE_MAX, &file);
  if (status == NM_E(MISSING)) {
    return;
  }
  if (status == NM_OK) {
    status = nm_store_unseal(table, nm_block_span(file), &count, &body);
  }
  if (status == NM_OK) {
    status = load_body(node, table, body, count);
    node->save.kept[table] = true;
  }
  nm_block_drop(file);
  if (status != NM_OK && status != NM_E(MEMORY)) {
    nm_store_set_aside(node->store, name);
    node->aside[table] = status;
  }
}

void nm_save_load(nm_node *node) {
  for (int table = 0; table < NM_STORE_TABLES; table++) {
    if (node->save.carries || table <= NM_STORE_PATHS) {
      load_table(node, (nm_store_table)table);
    }
  }
}
