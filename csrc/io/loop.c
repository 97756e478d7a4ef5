/* The loop's thread. A turn: posts, timers, held-back input, the engines of the
 * nodes that have something to do, and last the output of all of them, one
 * write per connection. Turns come after the poll, so that after a long stop of
 * the process what the peers sent is seen before the time-outs.
 */
#include "io/dgram.h"
#include "io/internal.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#define INLINE_BUDGET_US 250
#define JOBS_MAX 1024
#define TIMERS_PER_TURN 256
/* A thread that sleeps on an idle core takes tens of microseconds to wake. When
 * the last few polls in a row ended this soon, work is looked for that long
 * before the next one sleeps; one that does not end so soon stops that. */
#define SOON_NS 150000u
#define SOON_STREAK 4

/* ---- posts ---- */

static void run_posts(nm_loop *loop, nm_post *post) {
  uint64_t count = 0;
  while (post != NULL) {
    nm_post *next = post->next;
    post->run(loop, post);
    post = next;
    count++;
  }
  atomic_fetch_add_explicit(&loop->posted, count, memory_order_relaxed);
}

/* ---- timers ---- */

static void on_alarm(uv_timer_t *alarm) {
  nm_loop *loop = alarm->data;
  loop->alarm_us = NM_TIMER_NEVER;
  loop->due = true;
}

/* An alarm that rings too early is cheaper than one that moves every turn. */
static void set_alarm(nm_loop *loop) {
  uint64_t next = nm_timers_next(&loop->timers);
  if (next >= loop->alarm_us) {
    return;
  }
  uv_update_time(&loop->uv);
  uint64_t at_ms = next / 1000 + (next % 1000 != 0);
  uint64_t now_ms = uv_now(&loop->uv);
  (void)uv_timer_start(&loop->alarm, on_alarm,
                       at_ms > now_ms ? at_ms - now_ms : 0, 0);
  loop->alarm_us = next;
}

/* ---- turns ---- */

static void on_spin(uv_idle_t *spin) {
  (void)spin;
}

/* While there is work left, polls return at once. */
static void set_spin(nm_loop *loop) {
  bool busy = loop->active != NULL || loop->hungry != NULL ||
              loop->ready.first != NULL || loop->dirty != NULL || loop->due;
  if (busy && !uv_is_active((uv_handle_t *)&loop->spin)) {
    (void)uv_idle_start(&loop->spin, on_spin);
  } else if (!busy && uv_is_active((uv_handle_t *)&loop->spin)) {
    (void)uv_idle_stop(&loop->spin);
  }
}

static void pump_active(nm_loop *loop) {
  nm_node *node = loop->active;
  loop->active = NULL;
  while (node != NULL) {
    nm_node *next = node->next_active;
    node->next_active = NULL;
    node->is_active = false;
    nm_node_pump(node);
    node = next;
  }
}

static void close_handles(nm_loop *loop) {
  run_posts(loop, nm_postbox_close(&loop->posts));
  while (atomic_load(&loop->posters) > 0) {
    sched_yield();
  }
  uv_close((uv_handle_t *)&loop->wake, NULL);
  uv_close((uv_handle_t *)&loop->before_poll, NULL);
  uv_close((uv_handle_t *)&loop->after_poll, NULL);
  uv_close((uv_handle_t *)&loop->spin, NULL);
  uv_close((uv_handle_t *)&loop->alarm, NULL);
}

static void turn(nm_loop *loop, bool polled) {
  (void)nm_loop_now(loop);
  loop->inline_left_us = loop->inline_budget_us;
  run_posts(loop, nm_postbox_take(&loop->posts));
  if (polled) {
    loop->due = false;
    (void)nm_timers_run(&loop->timers, loop->now.mono_us, loop,
                        TIMERS_PER_TURN);
  }
  nm_conn_feed_all(loop);
  pump_active(loop);
  nm_conn_flush_all(loop);
  nm_dgram_flush_all(loop);
  nm_loop_wake_readers(loop);
  if (loop->stopping && loop->nodes == NULL) {
    if (!uv_is_closing((uv_handle_t *)&loop->wake)) {
      close_handles(loop);
    }
    return;
  }
  set_alarm(loop);
  set_spin(loop);
}

static bool found_work(nm_loop *loop) {
  struct pollfd fd = {.fd = uv_backend_fd(&loop->uv), .events = POLLIN};
  return !nm_postbox_is_empty(&loop->posts) || poll(&fd, 1, 0) != 0;
}

/* Looks for work for a moment, so that the poll need not sleep. Only the poll
 * itself has libuv's descriptor report room to write. */
static void look_for_work(nm_loop *loop) {
  if (loop->soon < SOON_STREAK || !loop->many_cores || loop->writing > 0 ||
      loop->stopping || uv_is_active((uv_handle_t *)&loop->spin)) {
    return;
  }
  while (!found_work(loop) && uv_hrtime() - loop->poll_ns < SOON_NS) {
    (void)sched_yield();
  }
}

/* How long the poll took, with what was done for it to be short. */
static void note_poll(nm_loop *loop) {
  if (uv_hrtime() - loop->poll_ns >= SOON_NS) {
    loop->soon = 0;
  } else if (loop->soon < SOON_STREAK) {
    loop->soon++;
  }
}

/* From here on who posts wakes the poll; what was posted before keeps it from
 * waiting. */
static void fall_asleep(nm_loop *loop) {
  atomic_store(&loop->asleep, true);
  if (!nm_postbox_is_empty(&loop->posts)) {
    (void)uv_idle_start(&loop->spin, on_spin);
  }
}

static void on_before_poll(uv_prepare_t *handle) {
  nm_loop *loop = handle->data;
  if (loop->due) {
    set_spin(loop);
  }
  if (loop->active != NULL || loop->dirty != NULL || loop->wet != NULL ||
      loop->waking != NULL) {
    turn(loop, false);
  }
  loop->poll_ns = uv_hrtime();
  look_for_work(loop);
  if (!uv_is_closing((uv_handle_t *)&loop->spin)) {
    fall_asleep(loop);
  }
}

static void on_after_poll(uv_check_t *handle) {
  nm_loop *loop = handle->data;
  atomic_store(&loop->asleep, false);
  note_poll(loop);
  atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
  turn(loop, true);
}

static void on_wake(uv_async_t *wake) {
  (void)wake; /* the turn after this poll takes the posts */
}

static void *run_loop(void *user) {
  nm_loop *loop = user;
  (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
  return NULL;
}

/* ---- life ---- */

static uint32_t default_workers(void) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores <= 2) {
    return 1;
  }
  return cores - 1 > NM_WORKERS_MAX ? NM_WORKERS_MAX : (uint32_t)(cores - 1);
}

static int open_handles(nm_loop *loop) {
  if (uv_loop_init(&loop->uv) != 0) {
    return NM_E(LIBRARY);
  }
  /* Of these only the first can fail, for want of a descriptor. */
  if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0) {
    (void)uv_loop_close(&loop->uv);
    return NM_E(LIBRARY);
  }
  (void)uv_prepare_init(&loop->uv, &loop->before_poll);
  (void)uv_check_init(&loop->uv, &loop->after_poll);
  (void)uv_idle_init(&loop->uv, &loop->spin);
  (void)uv_timer_init(&loop->uv, &loop->alarm);
  loop->before_poll.data = loop;
  loop->after_poll.data = loop;
  loop->alarm.data = loop;
  loop->alarm_us = NM_TIMER_NEVER;
  (void)uv_prepare_start(&loop->before_poll, on_before_poll);
  (void)uv_check_start(&loop->after_poll, on_after_poll);
  return NM_OK;
}

static void release_memory(nm_loop *loop) {
  nm_timers_dispose(&loop->timers);
  nm_cipher_close(&loop->cipher);
  nm_buffer_dispose(&loop->spare_partial);
  nm_buffer_dispose(&loop->spare_filling);
  nm_release(loop->mem, loop->read_buffer);
  if (loop->frame != NULL) {
    nm_wipe(loop->frame, NM_FRAME_MAX);
  }
  nm_release(loop->mem, loop->frame);
  loop->read_buffer = NULL;
  loop->frame = NULL;
}

/* The order is that of dependence. */
static int start(nm_loop *loop, uint32_t workers, uint32_t jobs_max) {
  nm_buffer_init(&loop->spare_partial, loop->mem, NULL, 0, 0);
  nm_buffer_init(&loop->spare_filling, loop->mem, NULL, 0, 0);
  loop->read_buffer = nm_alloc(loop->mem, NM_READ_BUFFER);
  loop->frame = nm_alloc(loop->mem, NM_FRAME_MAX);
  int status = nm_cipher_open(&loop->cipher, NULL);
  if (status == NM_OK) {
    status = nm_loop_reserve_timers(loop, 1);
  }
  if (loop->read_buffer == NULL || loop->frame == NULL) {
    status = NM_E(MEMORY);
  }
  if (status != NM_OK) {
    return status;
  }
  if ((status = nm_pool_init(&loop->pool, loop, workers, jobs_max)) != NM_OK) {
    return status;
  }
  if ((status = nm_clerk_init(&loop->clerk, loop)) != NM_OK) {
    nm_pool_dispose(&loop->pool);
    return status;
  }
  status = open_handles(loop);
  if (status == NM_OK && nm_thread_start(&loop->thread, run_loop, loop) != 0) {
    close_handles(loop);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop->uv);
    status = NM_E(LIBRARY);
  }
  if (status != NM_OK) {
    nm_clerk_dispose(&loop->clerk);
    nm_pool_dispose(&loop->pool);
  }
  return status;
}

int nm_loop_start(const nm_loop_config *given, nm_loop **out) {
  nm_loop_config config = {0};
  *out = NULL;
  if (given != NULL) {
    config = *given;
  }
  if (config.workers > NM_WORKERS_MAX) {
    return NM_E(RANGE);
  }
  const nm_mem *mem = config.mem != NULL ? config.mem : &nm_mem_system;
  nm_loop *loop = nm_alloc_zero(mem, 1, sizeof(*loop));
  if (loop == NULL) {
    return NM_E(MEMORY);
  }
  loop->mem = mem;
  loop->pid = getpid();
  loop->inline_budget_us =
      config.inline_budget_us != 0 ? config.inline_budget_us : INLINE_BUDGET_US;
  atomic_init(&loop->holders, 1);
  loop->many_cores = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  nm_timers_init(&loop->timers, mem);
  loop->rest.fire = nm_conn_rested;
  int status =
      start(loop, config.workers != 0 ? config.workers : default_workers(),
            config.jobs_max != 0 ? config.jobs_max : JOBS_MAX);
  if (status != NM_OK) {
    release_memory(loop);
    nm_release(mem, loop);
    return status;
  }
  *out = loop;
  return NM_OK;
}

static void on_stop(nm_loop *loop, nm_post *post) {
  (void)post;
  loop->stopping = true;
  nm_node *node = loop->nodes;
  while (node != NULL) {
    nm_node *next = node->next;
    nm_node_begin_close(node);
    node = next;
  }
}

int nm_loop_stop(nm_loop *loop) {
  if (loop == NULL) {
    return NM_OK;
  }
  if (nm_loop_is_foreign(loop)) {
    return NM_E(STATE);
  }
  loop->stop_post.run = on_stop;
  nm_loop_return(loop, &loop->stop_post);
  pthread_join(loop->thread, NULL);
  nm_pool_dispose(&loop->pool);
  nm_clerk_dispose(&loop->clerk);
  (void)uv_loop_close(&loop->uv);
  release_memory(loop);
  nm_loop_drop(loop);
  return NM_OK;
}

void nm_loop_stats_read(const nm_loop *loop, nm_loop_stats *stats) {
  stats->turns = atomic_load_explicit(&loop->turns, memory_order_relaxed);
  stats->posts = atomic_load_explicit(&loop->posted, memory_order_relaxed);
  stats->jobs_inline =
      atomic_load_explicit(&loop->jobs_inline, memory_order_relaxed);
  stats->jobs_pooled =
      atomic_load_explicit(&loop->jobs_pooled, memory_order_relaxed);
  stats->jobs_stored =
      atomic_load_explicit(&loop->jobs_stored, memory_order_relaxed);
  stats->nodes = atomic_load(&loop->node_count);
  stats->workers = atomic_load(&loop->workers);
}
