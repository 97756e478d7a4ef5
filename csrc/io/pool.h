/* The workers of a loop: a few threads that run jobs, and one that makes files
 * durable. Work is given and taken back on the loop's thread; nodes take turns,
 * and within a node the interfaces whose traffic caused the work.
 */
#ifndef NM_IO_POOL_H
#define NM_IO_POOL_H

#include "io/loop.h"
#include "lxmf/mail_job.h"
#include "stack/job.h"

#include <pthread.h>

struct nm_node;

/* A job on its way. */
typedef struct nm_work {
  nm_post done; /* posted to the loop when it ran */
  struct nm_work *next;
  struct nm_node *node;
  nm_job *job;       /* the engine's, or */
  nm_mail_job *mail; /* the router's */
  nm_iface_id origin;
} nm_work;

void nm_work_run(nm_work *work, nm_cipher *cipher);

/* Jobs in a fair order: first come first served within a lane, lanes by
 * turns. An origin has one lane, a lane may serve several origins. */
#define NM_LANES 16
typedef struct nm_lane_group {
  nm_work *first[NM_LANES];
  nm_work *last[NM_LANES];
  uint32_t count;
  uint32_t turn;
} nm_lane_group;

/* Two classes (RNS 1, 8.5.2): checks of announces wait for all other work, but
 * for one of them after NM_LANES_RUN others. */
#define NM_LANES_RUN 4
typedef struct nm_lanes {
  nm_lane_group others;
  nm_lane_group announces;
  uint32_t count;
  uint32_t run; /* others in a row while an announce waited */
} nm_lanes;

bool nm_lanes_is_announce(const nm_work *work);
void nm_lanes_put(nm_lanes *lanes, nm_work *work);
/* The next one, or NULL. */
nm_work *nm_lanes_take(nm_lanes *lanes);

/* A node's place in the pool. Guarded by the pool's lock. */
typedef struct nm_pool_client {
  struct nm_pool_client *next;
  bool queued; /* in the pool's list of clients with work */
  nm_lanes lanes;
} nm_pool_client;

typedef struct nm_worker {
  struct nm_pool *pool;
  pthread_t thread;
  nm_cipher cipher;
} nm_worker;

#define NM_WORKERS_MAX 64

typedef struct nm_pool {
  nm_loop *loop;
  const nm_mem *mem;
  pthread_mutex_t lock;
  pthread_cond_t more;
  nm_pool_client *first; /* clients with work, next turn first */
  nm_pool_client *last;
  nm_worker workers[NM_WORKERS_MAX];
  uint32_t worker_count;
  uint32_t worker_max;
  uint32_t idle;
  uint32_t waiting; /* works not yet taken by a worker */
  uint32_t waiting_max;
  bool stop;
} nm_pool;

int nm_pool_init(nm_pool *pool, nm_loop *loop, uint32_t workers,
                 uint32_t waiting_max);
/* Joins the workers; nothing may be waiting. */
void nm_pool_dispose(nm_pool *pool);
/* Takes |work|, whose `done` is posted when it ran. False when the pool is full
 * or no thread can be had: |work| stays the caller's. */
bool nm_pool_submit(nm_pool *pool, nm_pool_client *client, nm_work *work);

/* ---- the storage thread ---- */

/* Something that may block. Requests of one group run in one batch, in order:
 * first every |run|, then |sync| once with the first of them, then each |done|
 * is posted. */
typedef struct nm_errand {
  nm_post done;
  struct nm_errand *next;
  void *group;
  void (*run)(struct nm_errand *errand);
  /* Makes what the batch did durable; its status goes to each |sync_status|. */
  int (*sync)(void *group);
  int sync_status;
} nm_errand;

typedef struct nm_clerk {
  nm_loop *loop;
  pthread_mutex_t lock;
  pthread_cond_t more;
  nm_errand *first;
  nm_errand *last;
  pthread_t thread;
  bool started;
  bool stop;
} nm_clerk;

int nm_clerk_init(nm_clerk *clerk, nm_loop *loop);
void nm_clerk_dispose(nm_clerk *clerk);
/* False when no thread can be had: |errand| stays the caller's. */
bool nm_clerk_submit(nm_clerk *clerk, nm_errand *errand);

#endif
