/* What a node keeps as it comes: the engine's files, on the storage thread.
 */
#include "io/internal.h"
#include "io/port.h"

#include <stdio.h>
#include <string.h>

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
  int status = nm_table_init(&node->written, node->mem, &config);
  return status == NM_OK ? nm_orphans_init(node, hash_key) : status;
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

void nm_save_count(nm_node *node, const char *name, int error) {
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

bool nm_save_submit(nm_node *node, nm_errand *errand,
                    void (*run)(nm_errand *errand),
                    void (*done)(nm_loop *loop, nm_post *post)) {
  errand->done.run = done;
  errand->group = node->store;
  errand->run = run;
  errand->sync = sync_store;
  if (!nm_clerk_submit(&node->loop->clerk, errand)) {
    return false;
  }
  node->work_out++;
  return true;
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
  nm_save_count(node, name, error);
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
  e->node = node;
  e->job = job;
  if (!nm_save_submit(node, &e->errand, write_job, on_job_written)) {
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
