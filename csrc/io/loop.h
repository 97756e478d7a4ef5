/* A loop: one thread with one libuv loop that hosts many nodes, and a small
 * pool of workers for their jobs. The only way in from another thread is a
 * post; nothing of a loop is locked.
 */
#ifndef NM_IO_LOOP_H
#define NM_IO_LOOP_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdatomic.h>

typedef struct nm_loop nm_loop;

/* 0 means the default in brackets. */
typedef struct nm_loop_config {
  const nm_mem *mem; /* thread-safe, kept; NULL: nm_mem_system */
  uint32_t workers;  /* compute threads [cores - 1, at least 1], started when
                        the first job needs one; at most 64 */
  uint32_t jobs_max; /* jobs in the pool [1024]; beyond, they wait in their
                        engines, which bound and count them */
  uint32_t inline_budget_us; /* estimated job time that one turn runs by itself
                                [250]; the rest goes to the pool */
} nm_loop_config;

/* Counters, readable from any thread. */
typedef struct nm_loop_stats {
  uint64_t turns; /* times the loop woke up */
  uint64_t posts;
  uint64_t jobs_inline;
  uint64_t jobs_pooled;
  uint64_t jobs_stored; /* made durable, or failed to be */
  uint32_t nodes;
  uint32_t workers; /* threads started so far, the storage thread included */
} nm_loop_stats;

/* Starts a loop. NM_E(MEMORY), NM_E(LIBRARY) when a thread or a descriptor
 * cannot be had, NM_E(RANGE). |config| may be NULL. */
int nm_loop_start(const nm_loop_config *config, nm_loop **loop);
/* Closes every node that is still open, waits until all is closed and joins
 * all threads. Not from the loop's own thread. NULL is allowed. In a forked
 * child: NM_E(STATE), and nothing is released. */
int nm_loop_stop(nm_loop *loop);
void nm_loop_stats_read(const nm_loop *loop, nm_loop_stats *stats);

/* Something to do on the loop's thread. The caller owns the memory until
 * |run| is called, which then owns it. */
typedef struct nm_post {
  struct nm_post *next;
  void (*run)(nm_loop *loop, struct nm_post *post);
} nm_post;

/* Posts from any thread, never blocks. Posts of one thread run in order. Each
 * accepted post runs exactly once. NM_E(STATE) once nm_loop_stop was called
 * and in a forked child: |post| stays the caller's. */
int nm_loop_post(nm_loop *loop, nm_post *post);

#endif
