#include "io/pool.h"

#include "io/internal.h"

#include <string.h>

/* ---- lanes ---- */

bool nm_lanes_is_announce(const nm_work *work) {
  return work->job != NULL &&
         nm_job_kind_of(work->job) == NM_JOB_VERIFY_ANNOUNCE;
}

void nm_lanes_put(nm_lanes *lanes, nm_work *work) {
  nm_lane_group *group =
      nm_lanes_is_announce(work) ? &lanes->announces : &lanes->others;
  uint32_t lane = work->origin % NM_LANES;
  work->next = NULL;
  if (group->first[lane] == NULL) {
    group->first[lane] = work;
  } else {
    group->last[lane]->next = work;
  }
  group->last[lane] = work;
  group->count++;
  lanes->count++;
}

/* Of a group that is not empty. */
static nm_work *take_from(nm_lane_group *group) {
  while (group->first[group->turn] == NULL) {
    group->turn = (group->turn + 1) % NM_LANES;
  }
  nm_work *work = group->first[group->turn];
  group->first[group->turn] = work->next;
  group->turn = (group->turn + 1) % NM_LANES;
  group->count--;
  work->next = NULL;
  return work;
}

nm_work *nm_lanes_take(nm_lanes *lanes) {
  if (lanes->count == 0) {
    return NULL;
  }
  lanes->count--;
  bool announce = lanes->others.count == 0 ||
                  (lanes->announces.count > 0 && lanes->run >= NM_LANES_RUN);
  lanes->run = announce || lanes->announces.count == 0 ? 0 : lanes->run + 1;
  return take_from(announce ? &lanes->announces : &lanes->others);
}

/* ---- workers ---- */

void nm_work_run(nm_work *work, nm_cipher *cipher) {
  if (work->mail != NULL) {
    nm_mail_job_run(work->mail, cipher);
  } else {
    nm_job_run(work->job, cipher);
  }
}

static int lock_init(pthread_mutex_t *lock, pthread_cond_t *more) {
  if (pthread_mutex_init(lock, NULL) != 0) {
    return NM_E(LIBRARY);
  }
  if (pthread_cond_init(more, NULL) != 0) {
    pthread_mutex_destroy(lock);
    return NM_E(LIBRARY);
  }
  return NM_OK;
}

int nm_pool_init(nm_pool *pool, nm_loop *loop, uint32_t workers,
                 uint32_t waiting_max) {
  memset(pool, 0, sizeof(*pool));
  pool->loop = loop;
  pool->mem = loop->mem;
  pool->worker_max = workers;
  pool->waiting_max = waiting_max;
  return lock_init(&pool->lock, &pool->more);
}

static void append(nm_pool *pool, nm_pool_client *client) {
  client->next = NULL;
  client->queued = true;
  if (pool->first == NULL) {
    pool->first = client;
  } else {
    pool->last->next = client;
  }
  pool->last = client;
}

/* The next work of the client whose turn it is. */
static nm_work *take(nm_pool *pool) {
  nm_pool_client *client = pool->first;
  if (client == NULL) {
    return NULL;
  }
  pool->first = client->next;
  client->queued = false;
  nm_work *work = nm_lanes_take(&client->lanes);
  if (client->lanes.count > 0) {
    append(pool, client);
  }
  pool->waiting--;
  return work;
}

static void *work_on(void *user) {
  nm_worker *worker = user;
  nm_pool *pool = worker->pool;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    nm_work *work = take(pool);
    if (work != NULL) {
      pthread_mutex_unlock(&pool->lock);
      nm_work_run(work, &worker->cipher);
      nm_loop_return(pool->loop, &work->done);
      pthread_mutex_lock(&pool->lock);
    } else if (pool->stop) {
      break;
    } else {
      pool->idle++;
      pthread_cond_wait(&pool->more, &pool->lock);
      pool->idle--;
    }
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* Another worker when all are busy. */
static void recruit(nm_pool *pool) {
  if (pool->idle > pool->waiting || pool->worker_count >= pool->worker_max) {
    return;
  }
  nm_worker *worker = &pool->workers[pool->worker_count];
  worker->pool = pool;
  if (nm_cipher_open(&worker->cipher, NULL) != NM_OK) {
    nm_cipher_close(&worker->cipher);
    return;
  }
  if (nm_thread_start(&worker->thread, work_on, worker) != 0) {
    nm_cipher_close(&worker->cipher);
    return;
  }
  pool->worker_count++;
  atomic_fetch_add(&pool->loop->workers, 1);
}

bool nm_pool_submit(nm_pool *pool, nm_pool_client *client, nm_work *work) {
  pthread_mutex_lock(&pool->lock);
  bool announce = nm_lanes_is_announce(work);
  /* Announces leave room for others, which overtake them in there. */
  bool taken = pool->waiting <
               (announce ? (pool->waiting_max + 1) / 2 : pool->waiting_max);
  if (taken) {
    recruit(pool);
    taken = pool->worker_count > 0;
  }
  if (taken) {
    nm_lanes_put(&client->lanes, work);
    pool->waiting++;
    if (!client->queued) {
      append(pool, client);
    }
    pthread_cond_signal(&pool->more);
  }
  pthread_mutex_unlock(&pool->lock);
  return taken;
}

void nm_pool_dispose(nm_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stop = true;
  pthread_cond_broadcast(&pool->more);
  pthread_mutex_unlock(&pool->lock);
  for (uint32_t i = 0; i < pool->worker_count; i++) {
    pthread_join(pool->workers[i].thread, NULL);
    nm_cipher_close(&pool->workers[i].cipher);
  }
  pthread_cond_destroy(&pool->more);
  pthread_mutex_destroy(&pool->lock);
}

/* ---- the storage thread ---- */

int nm_clerk_init(nm_clerk *clerk, nm_loop *loop) {
  memset(clerk, 0, sizeof(*clerk));
  clerk->loop = loop;
  return lock_init(&clerk->lock, &clerk->more);
}

/* Takes the first errand and all of its group behind it, in order. */
static nm_errand *take_group(nm_clerk *clerk) {
  nm_errand *batch = NULL;
  nm_errand **end = &batch;
  nm_errand **at = &clerk->first;
  void *group = clerk->first == NULL ? NULL : clerk->first->group;
  clerk->last = NULL;
  while (*at != NULL) {
    nm_errand *errand = *at;
    if (errand->group == group) {
      *at = errand->next;
      errand->next = NULL;
      *end = errand;
      end = &errand->next;
    } else {
      clerk->last = errand;
      at = &errand->next;
    }
  }
  return batch;
}

static void run_batch(nm_clerk *clerk, nm_errand *batch) {
  for (nm_errand *errand = batch; errand != NULL; errand = errand->next) {
    errand->run(errand);
  }
  int status = batch->sync(batch->group);
  while (batch != NULL) {
    nm_errand *next = batch->next;
    batch->sync_status = status;
    nm_loop_return(clerk->loop, &batch->done);
    batch = next;
  }
}

static void *run_errands(void *user) {
  nm_clerk *clerk = user;
  pthread_mutex_lock(&clerk->lock);
  for (;;) {
    nm_errand *batch = take_group(clerk);
    if (batch != NULL) {
      pthread_mutex_unlock(&clerk->lock);
      run_batch(clerk, batch);
      pthread_mutex_lock(&clerk->lock);
    } else if (clerk->stop) {
      break;
    } else {
      pthread_cond_wait(&clerk->more, &clerk->lock);
    }
  }
  pthread_mutex_unlock(&clerk->lock);
  return NULL;
}

bool nm_clerk_submit(nm_clerk *clerk, nm_errand *errand) {
  pthread_mutex_lock(&clerk->lock);
  if (!clerk->started &&
      nm_thread_start(&clerk->thread, run_errands, clerk) == 0) {
    clerk->started = true;
    atomic_fetch_add(&clerk->loop->workers, 1);
  }
  bool taken = clerk->started;
  if (taken) {
    errand->next = NULL;
    if (clerk->first == NULL) {
      clerk->first = errand;
    } else {
      clerk->last->next = errand;
    }
    clerk->last = errand;
    pthread_cond_signal(&clerk->more);
  }
  pthread_mutex_unlock(&clerk->lock);
  return taken;
}

void nm_clerk_dispose(nm_clerk *clerk) {
  pthread_mutex_lock(&clerk->lock);
  clerk->stop = true;
  pthread_cond_broadcast(&clerk->more);
  pthread_mutex_unlock(&clerk->lock);
  if (clerk->started) {
    pthread_join(clerk->thread, NULL);
  }
  pthread_cond_destroy(&clerk->more);
  pthread_mutex_destroy(&clerk->lock);
}
