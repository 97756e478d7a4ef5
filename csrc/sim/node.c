/* Nodes: an engine with its jobs, its store and its clocks.
 */
#include "sim/internal.h"

#include "stack/recorder.h"

#define NS_PER_US 1000u
#define CREDIT 1000000u
#define STORE_US_MIN 1000
#define STORE_US_MAX 5000

void nm_sim_node_config_default(nm_sim_node_config *config) {
  memset(config, 0, sizeof(*config));
  nm_engine_config_default(&config->engine);
  config->store_us_min = STORE_US_MIN;
  config->store_us_max = STORE_US_MAX;
  config->credit = CREDIT;
  config->auto_credit = true;
}

/* ---- jobs and stores ---- */

static void list_work(nm_sim_node *node, nm_sim_work *work) {
  work->prev = NULL;
  work->next = node->works;
  if (node->works != NULL) {
    node->works->prev = work;
  }
  node->works = work;
}

static void unlist_work(nm_sim_node *node, nm_sim_work *work) {
  if (work->prev != NULL) {
    work->prev->next = work->next;
  } else {
    node->works = work->next;
  }
  if (work->next != NULL) {
    work->next->prev = work->prev;
  }
}

static void finish_store(nm_sim *sim, nm_sim_node *node, nm_job *job,
                         uint32_t failure_ppm) {
  bool durable = !nm_sim_rng_chance(&node->rng, failure_ppm);
  const char *name = nm_job_store_name(job);
  nm_span bytes = nm_job_store_bytes(job);
  nm_sim_entry *entry = durable ? nm_sim_entry_of(sim, node, name) : NULL;
  if (entry != NULL) {
    nm_sim_entry_put(sim, entry, bytes);
  }
  nm_job_store_result(job, durable);
  node->stats.stores++;
  node->stats.stores_failed += !durable;
  nm_sim_note note = {.kind = NM_SIM_NOTE_STORE,
                      .node = node->id,
                      .code = durable,
                      .bytes = bytes,
                      .text = name};
  nm_sim_tell(sim, &note);
}

/* Runs |job| and gives it back. */
static void finish_job(nm_sim *sim, nm_sim_node *node, nm_job *job,
                       uint32_t failure_ppm) {
  node->stats.jobs++;
  if (nm_job_kind_of(job) == NM_JOB_STORE) {
    finish_store(sim, node, job, failure_ppm);
  } else {
    nm_job_run(job, &sim->cipher);
    nm_sim_note note = {.kind = NM_SIM_NOTE_JOB,
                        .node = node->id,
                        .code = (int)nm_job_kind_of(job)};
    nm_sim_tell(sim, &note);
  }
  nm_input_seq before = nm_engine_record_last(node->engine);
  nm_engine_job_done(node->engine, job, nm_sim_now(sim, node->id));
  nm_sim_check_work(sim, node, before);
}

static uint64_t job_due(nm_sim *sim, nm_sim_node *node, const nm_job *job) {
  const nm_sim_node_config *c = &node->config;
  if (nm_job_kind_of(job) != NM_JOB_STORE) {
    uint64_t percent =
        nm_sim_rng_between(&node->rng, c->job_percent_min, c->job_percent_max);
    return sim->now_ns + nm_job_cost_us(job) * percent * NS_PER_US / 100;
  }
  uint64_t delay = nm_sim_rng_between(&node->rng, c->store_us_min * NS_PER_US,
                                      c->store_us_max * NS_PER_US);
  uint64_t due = sim->now_ns + delay;
  nm_sim_entry *entry = nm_sim_entry_of(sim, node, nm_job_store_name(job));
  if (entry != NULL) {
    due = due < entry->last_due_ns ? entry->last_due_ns : due;
    entry->last_due_ns = due;
  }
  return due;
}

static void take_job(nm_sim *sim, nm_sim_node *node, nm_job *job) {
  uint64_t due = job_due(sim, node, job);
  nm_sim_work *work =
      due == sim->now_ns
          ? NULL
          : (nm_sim_work *)nm_alloc_zero(&sim->own.mem, 1, sizeof(*work));
  if (work == NULL) {
    finish_job(sim, node, job, node->config.store_failure_ppm);
    return;
  }
  work->job = job;
  work->node = node->id;
  nm_sim_item item = {
      .time_ns = due, .kind = NM_SIM_ITEM_JOB, .where = node->id, .ptr = work};
  if (nm_sim_agenda_put(&sim->agenda, &item) != NM_OK) {
    nm_release(&sim->own.mem, work);
    finish_job(sim, node, job, node->config.store_failure_ppm);
    nm_sim_no_memory(sim);
    return;
  }
  list_work(node, work);
}

void nm_sim_node_job_back(nm_sim *sim, nm_sim_work *work) {
  nm_sim_node *node = nm_sim_node_at(sim, work->node);
  nm_job *job = work->job;
  if (job != NULL) {
    unlist_work(node, work);
    finish_job(sim, node, job, node->config.store_failure_ppm);
    nm_sim_node_settle(sim, node);
  }
  nm_release(&sim->own.mem, work);
}

/* One in two of the stores under way at a crash were durable already. */
#define CRASH_PPM 500000u

void nm_sim_node_end_jobs(nm_sim *sim, nm_sim_node *node, bool crash) {
  while (node->works != NULL) {
    /* In the order in which they were taken. */
    nm_sim_work *work = node->works;
    while (work->next != NULL) {
      work = work->next;
    }
    nm_job *job = work->job;
    work->job = NULL;
    unlist_work(node, work);
    finish_job(sim, node, job,
               crash ? CRASH_PPM : node->config.store_failure_ppm);
  }
}

/* ---- events ---- */

/* A copy of |block| that does not depend on the node. */
static nm_block *own_copy(nm_sim *sim, const nm_block *block) {
  if (block == NULL) {
    return NULL;
  }
  nm_block *copy = nm_block_copy(sim->base, nm_block_span(block));
  if (copy == NULL) {
    nm_sim_no_memory(sim);
  }
  return copy;
}

static void queue_event(nm_sim *sim, const nm_sim_node *node,
                        const nm_event *event) {
  nm_sim_told *told = nm_alloc_zero(&sim->own.mem, 1, sizeof(*told));
  if (told == NULL) {
    nm_sim_no_memory(sim);
    return;
  }
  told->node = node->id;
  told->event = *event;
  told->event.data = own_copy(sim, event->data);
  told->event.metadata = own_copy(sim, event->metadata);
  told->event.public_key = own_copy(sim, event->public_key);
  if (sim->told_last == NULL) {
    sim->told_first = told;
  } else {
    sim->told_last->next = told;
  }
  sim->told_last = told;
}

static void take_event(nm_sim *sim, nm_sim_node *node, nm_event *event) {
  sim->stats.events++;
  node->stats.events++;
  nm_sim_note note = {.kind = NM_SIM_NOTE_EVENT,
                      .node = node->id,
                      .iface = event->iface,
                      .code = (int)event->kind,
                      .bytes = nm_block_span(event->data),
                      .event = event};
  nm_sim_tell(sim, &note);
  nm_sim_check_event(sim, node, event);
  bool used_credit =
      !nm_event_is_lossy(event->kind) && event->kind < NM_EVENT_LINK_CLOSED;
  if (used_credit && node->config.auto_credit) {
    nm_engine_credit(node->engine, 1, nm_sim_now(sim, node->id));
  }
  if ((node->watched & (uint32_t)1 << event->kind) != 0) {
    queue_event(sim, node, event);
  }
  nm_event_dispose(event);
}

/* ---- following up ---- */

static bool drain(nm_sim *sim, nm_sim_node *node) {
  bool moved = false;
  nm_job *job;
  while ((job = nm_engine_job(node->engine)) != NULL) {
    take_job(sim, node, job);
    moved = true;
  }
  nm_output out;
  while (nm_engine_output(node->engine, &out)) {
    nm_sim_medium_send(sim, node, &out);
    moved = true;
  }
  nm_event event;
  while (nm_engine_event(node->engine, &event)) {
    take_event(sim, node, &event);
    moved = true;
  }
  return moved;
}

/* An engine's deadline as a moment of the simulation. */
static uint64_t deadline_ns(const nm_sim *sim, const nm_sim_node *node) {
  uint64_t due = nm_engine_deadline(node->engine);
  if (due == NM_TIMER_NEVER) {
    return NM_SIM_NEVER;
  }
  uint64_t start = sim->config.start_mono_us;
  uint64_t ns = due <= start ? 0 : (due - start) * NS_PER_US;
  return ns < sim->now_ns ? sim->now_ns : ns;
}

static void arm(nm_sim *sim, nm_sim_node *node) {
  uint64_t due = deadline_ns(sim, node);
  if (due >= node->armed_ns) {
    return; /* the item that stands now comes first, and asks again */
  }
  nm_sim_item item = {
      .time_ns = due, .kind = NM_SIM_ITEM_TIMER, .where = node->id};
  if (nm_sim_agenda_put(&sim->agenda, &item) != NM_OK) {
    nm_sim_no_memory(sim);
    return;
  }
  node->armed_ns = due;
}

void nm_sim_node_settle(nm_sim *sim, nm_sim_node *node) {
  if (node->engine == NULL) {
    return;
  }
  while (drain(sim, node)) {
  }
  arm(sim, node);
  nm_sim_check_node(sim, node);
}

void nm_sim_touch(nm_sim *sim, nm_sim_node_id id) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node != NULL) {
    nm_sim_node_settle(sim, node);
  }
}

void nm_sim_node_tick(nm_sim *sim, nm_sim_node *node) {
  node->armed_ns = NM_SIM_NEVER;
  if (node->engine == NULL) {
    return;
  }
  if (deadline_ns(sim, node) <= sim->now_ns) {
    nm_input_seq before = nm_engine_record_last(node->engine);
    nm_engine_tick(node->engine, nm_sim_now(sim, node->id));
    nm_sim_check_work(sim, node, before);
  }
  nm_sim_node_settle(sim, node);
}

/* Room for |size| bytes that the next call may use again; NULL without
 * memory, in which case the run has failed. */
static uint8_t *scratch_of(nm_sim *sim, size_t size) {
  if (size > sim->scratch_cap) {
    uint8_t *grown = nm_resize(&sim->own.mem, sim->scratch, size * 2);
    if (grown == NULL) {
      nm_sim_no_memory(sim);
      return NULL;
    }
    sim->scratch = grown;
    sim->scratch_cap = size * 2;
  }
  return sim->scratch;
}

void nm_sim_node_hear(nm_sim *sim, const nm_sim_item *item) {
  const nm_sim_member *member = nm_sim_medium_arrival(sim, item);
  const nm_block *bytes = item->ptr;
  nm_span data = nm_block_span(bytes);
  uint8_t *scratch = member == NULL ? NULL : scratch_of(sim, data.len + 1);
  if (scratch == NULL) {
    return;
  }
  nm_sim_node *node = nm_sim_node_at(sim, member->node);
  nm_iface_id iface = member->iface;
  const nm_iface_spec *spec = nm_engine_iface(node->engine, iface);
  nm_ingress_config config = {
      .ifac = spec != NULL && spec->ifac_set ? &spec->ifac : NULL,
      .hw_mtu = spec != NULL ? spec->hw_mtu : 0};
  nm_frame frame;
  nm_ingress(&config, data, (nm_mspan){scratch, data.len + 1}, &frame);
  sim->stats.frames++;
  node->stats.frames_in++;
  node->stats.bytes_in += data.len;
  nm_input_seq before = nm_engine_record_last(node->engine);
  nm_verdict verdict =
      nm_engine_input(node->engine, iface, &frame, nm_sim_now(sim, node->id));
  nm_sim_check_work(sim, node, before);
  nm_sim_note note = {.kind = NM_SIM_NOTE_RECEIVE,
                      .node = node->id,
                      .medium = item->where,
                      .iface = iface,
                      .code = (int)verdict.drop,
                      .pending = verdict.pending,
                      .bytes = data};
  nm_sim_tell(sim, &note);
  nm_sim_node_settle(sim, node);
}
