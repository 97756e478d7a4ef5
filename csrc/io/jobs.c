/* Jobs of the engine and the router: on this thread when they are short and the
 * turn has time, else on the pool.
 */
#include "io/internal.h"
#include "io/mail.h"
#include "io/port.h"

/* Jobs that cost less may run on the loop's thread. */
#define INLINE_MAX_US 100

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

static nm_work *new_work(nm_node *node, nm_job *job, nm_mail_job *mail) {
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
  nm_work *work = new_work(node, given->job, given->mail);
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

static void take_job(nm_node *node, nm_job *job, nm_mail_job *mail) {
  nm_work work = {.node = node, .job = job, .mail = mail};
  if (node->waiting.count == 0 && affordable(node->loop, cost_of(&work))) {
    run_inline(node, &work);
  } else {
    wait_in_lane(node, &work);
  }
}

/* Searches run on the pool, each beside others. */
static void submit_stamps(nm_node *node) {
  nm_mail_job *job;
  while ((job = nm_mail_take_stamp(node)) != NULL) {
    nm_work *work = new_work(node, NULL, job);
    if (work != NULL &&
        nm_pool_submit(&node->loop->pool, &node->pool_client, work)) {
      node->work_out++;
      continue;
    }
    nm_release(node->mem, work);
    nm_mail_job_run(job, &node->loop->cipher); /* nobody else will */
    nm_mail_job_done(node, job, true);
    return;
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
      take_job(node, job, NULL);
    }
  }
}

bool nm_node_collect_mail(nm_node *node) {
  bool any = false;
  nm_mail_job *mail;
  nm_mail_turn(node);
  while ((mail = nm_mail_take_job(node)) != NULL) {
    take_job(node, NULL, mail);
    any = true;
  }
  submit_stamps(node);
  return any;
}

/* Gives waiting jobs to this thread while the turn has time for them, then to
 * the pool. */
void nm_node_dispatch_jobs(nm_node *node) {
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
