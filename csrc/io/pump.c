/* Driving one engine: jobs, outputs, events, the deadline.
 */
#include "io/internal.h"
#include "io/mail.h"
#include "io/port.h"

#include <string.h>

/* Jobs that cost less may run on the loop's thread. */
#define INLINE_MAX_US 100
#define ROUNDS_PER_TURN 16
#define OUTPUTS_PER_ROUND 512
/* How old the published list of interfaces may get. */
#define PUBLISH_COUNTERS_US 100000
#define PUBLISH_URGENT_US 2000

void nm_node_wake(nm_node *node) {
  if (!node->is_active && node->phase != NM_NODE_IS_GONE) {
    node->is_active = true;
    node->next_active = node->loop->active;
    node->loop->active = node;
  }
}

void nm_node_grant(nm_node *node) {
  unsigned drained = atomic_load_explicit(&node->drained, memory_order_relaxed);
  if (drained != node->credited) {
    nm_engine_credit(node->engine, drained - node->credited, node->loop->now);
    node->credited = drained;
  }
}

/* ---- jobs ---- */

static bool affordable(const nm_loop *loop, uint32_t cost_us) {
  return cost_us < INLINE_MAX_US && cost_us <= loop->inline_left_us;
}

static uint32_t cost_of(const nm_work *work) {
  return work->mail != NULL ? nm_mail_job_cost_us(work->mail)
                            : nm_job_cost_us(work->job);
}

static void give_back(nm_node *node, const nm_work *work, bool pooled) {
  if (work->mail != NULL) {
    nm_mail_job_done(node, work->mail, pooled);
  } else {
    nm_engine_job_done(node->engine, work->job, nm_loop_now(node->loop));
  }
}

static void run_inline(nm_node *node, nm_work *work) {
  nm_loop *loop = node->loop;
  uint32_t cost_us = cost_of(work);
  nm_work_run(work, &loop->cipher);
  loop->inline_left_us -=
      cost_us < loop->inline_left_us ? cost_us : loop->inline_left_us;
  give_back(node, work, false);
  atomic_fetch_add_explicit(&loop->jobs_inline, 1, memory_order_relaxed);
}

static void finish_work(nm_node *node, nm_work *work, bool pooled) {
  nm_port *port = nm_port_find(node, work->origin);
  if (port != NULL) {
    port->jobs--;
    nm_port_relieve(port);
  }
  if (pooled) {
    give_back(node, work, true);
    node->stats.late_results += node->phase != NM_NODE_IS_OPEN;
  } else {
    run_inline(node, work);
  }
  nm_release(node->mem, work);
}

static void on_work_done(nm_loop *loop, nm_post *post) {
  nm_work *work = (nm_work *)(void *)post;
  nm_node *node = work->node;
  node->work_out--;
  atomic_fetch_add_explicit(&loop->jobs_pooled, 1, memory_order_relaxed);
  finish_work(node, work, true);
  nm_node_wake(node);
}

nm_work *nm_node_new_work(nm_node *node, nm_job *job, nm_mail_job *mail) {
  nm_work *work = nm_alloc_zero(node->mem, 1, sizeof(*work));
  if (work != NULL) {
    work->done.run = on_work_done;
    work->node = node;
    work->job = job;
    work->mail = mail;
  }
  return work;
}

static void wait_in_lane(nm_node *node, nm_work *given) {
  nm_work *work = nm_node_new_work(node, given->job, given->mail);
  if (work == NULL) {
    run_inline(node, given);
    return;
  }
  work->origin = work->job != NULL ? nm_job_origin(work->job) : 0;
  nm_port *port = nm_port_find(node, work->origin);
  if (port != NULL) {
    port->jobs++;
  } else {
    work->origin = 0;
  }
  nm_lanes_put(&node->waiting, work);
}

void nm_node_take_job(nm_node *node, nm_job *job, nm_mail_job *mail) {
  nm_work work = {.node = node, .job = job, .mail = mail};
  if (node->waiting.count == 0 && affordable(node->loop, cost_of(&work))) {
    run_inline(node, &work);
  } else {
    wait_in_lane(node, &work);
  }
}

void nm_node_collect_jobs(nm_node *node) {
  nm_job *job;
  while ((job = nm_engine_job(node->engine)) != NULL) {
    if (nm_job_kind_of(job) == NM_JOB_STORE) {
      nm_save_job(node, job);
    } else if (nm_job_kind_of(job) == NM_JOB_SINK_FINISH) {
      nm_finish_file(node, job);
    } else {
      nm_node_take_job(node, job, NULL);
    }
  }
  nm_mail_turn(node);
}

/* Gives waiting jobs to this thread while the turn has time for them, then to
 * the pool. */
static void dispatch_jobs(nm_node *node) {
  nm_work *work;
  while ((work = nm_lanes_take(&node->waiting)) != NULL) {
    if (affordable(node->loop, cost_of(work))) {
      finish_work(node, work, false);
    } else if (nm_pool_submit(&node->loop->pool, &node->pool_client, work)) {
      node->work_out++;
    } else if (node->work_out == 0) {
      finish_work(node, work, false); /* nobody else will */
    } else {
      nm_lanes_put(&node->waiting, work);
      if (!nm_lanes_is_announce(work) || node->waiting.others.count == 0) {
        break;
      }
    }
  }
}

/* ---- outputs ---- */

static bool pump_outputs(nm_node *node) {
  nm_output out;
  int count = 0;
  while (count < OUTPUTS_PER_ROUND && nm_engine_output(node->engine, &out)) {
    nm_port *port = nm_port_find(node, out.iface);
    if (port != NULL) {
      nm_port_output(port, &out);
    } else if (out.op != 0) {
      nm_engine_sent(node->engine, out.op, false, node->loop->now);
    }
    nm_block_drop(out.packet);
    count++;
  }
  return count > 0;
}

/* ---- publications ---- */

void nm_node_publish(nm_node *node) {
  nm_node_stats *stats = &node->stats;
  nm_engine_stats_read(node->engine, &stats->engine);
  stats->at = node->loop->now;
  stats->ifaces = node->ports.count;
  stats->jobs_waiting = node->waiting.count + node->work_out;
  if (node->store != NULL) {
    stats->damaged_files = nm_store_damaged(node->store);
  }
  nm_published_write(&node->stats_out, stats);
}

static void publish_ifaces(nm_node *node) {
  size_t count;
  nm_block *list = nm_port_list(node, &count);
  if (list == NULL || pthread_mutex_trylock(&node->ifaces_lock) != 0) {
    nm_block_drop(list); /* a reader is at it: the next turn tries again */
    nm_node_wake(node);
    return;
  }
  nm_block *old = node->ifaces_out;
  node->ifaces_out = list;
  pthread_mutex_unlock(&node->ifaces_lock);
  nm_block_drop(old);
  node->ifaces_changed = false;
  node->ifaces_urgent = false;
  node->ifaces_published_us = node->loop->now.mono_us;
}

/* Long lists cost more and come out less often. */
static void consider_ifaces(nm_node *node) {
  if (!node->ifaces_changed || node->without_timers) {
    return;
  }
  uint64_t pause =
      node->ifaces_urgent ? PUBLISH_URGENT_US : PUBLISH_COUNTERS_US;
  pause *= 1 + node->ports.count / 64;
  uint64_t due = node->ifaces_published_us + pause;
  if (due <= node->loop->now.mono_us) {
    publish_ifaces(node);
  } else if (!nm_timer_armed(&node->publish_timer) ||
             node->publish_timer.due_us > due) {
    nm_loop_arm(node->loop, &node->publish_timer, due);
  }
}

void nm_node_ifaces_changed(nm_node *node, bool urgent) {
  node->ifaces_changed = true;
  if (urgent) {
    node->ifaces_urgent = true;
    nm_node_wake(node); /* nothing else may come that publishes it */
  }
}

/* ---- a turn ---- */

static void tick_if_due(nm_node *node) {
  nm_loop *loop = node->loop;
  if (nm_engine_deadline(node->engine) <= loop->now.mono_us) {
    nm_engine_tick(node->engine, loop->now);
  }
}

static void arm_deadline(nm_node *node) {
  if (node->without_timers) {
    return;
  }
  uint64_t next = nm_engine_deadline(node->engine);
  uint64_t mail = nm_mail_deadline(node);
  next = mail < next ? mail : next;
  if (next == NM_TIMER_NEVER) {
    nm_timer_disarm(&node->loop->timers, &node->deadline);
  } else if (!nm_timer_armed(&node->deadline) ||
             node->deadline.due_us != next) {
    nm_loop_arm(node->loop, &node->deadline, next);
  }
}

void nm_node_pump(nm_node *node) {
  if (node->phase == NM_NODE_IS_GONE) {
    return;
  }
  nm_node_grant(node);
  bool moved = true;
  tick_if_due(
      node); /* once: what comes in meanwhile waits for the turn's end */
  for (int round = 0; moved && round < ROUNDS_PER_TURN; round++) {
    nm_node_collect_jobs(node);
    dispatch_jobs(node);
    moved = pump_outputs(node);
    moved = nm_node_resume(node, false) || moved;
    nm_node_publish(node); /* who reads an event finds it in the figures */
    (void)nm_node_deliver(node);
    moved = nm_mail_moved(node) || moved;
  }
  if (node->save.running) {
    nm_save_step(node);
  }
  arm_deadline(node);
  if (moved || node->save.running || nm_node_may_resume(node)) {
    nm_node_wake(node);
  }
  nm_node_publish(node);
  consider_ifaces(node);
  if (!moved) {
    nm_node_proceed(node);
  }
}
