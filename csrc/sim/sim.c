/* The run: what is due happens, step by step.
 */
#include "sim/sim.h"

#include "sim/internal.h"

#define NS_PER_US 1000u
#define STEPS_AT_ONCE 100000u
#define START_MONO_US 1000000000u
#define START_UNIX_US 1700000000000000
/* Where a simulation's time ends: 100 years. */
#define LAST_NS (UINT64_C(3155760000) * 1000000000u)

void nm_sim_config_default(nm_sim_config *config) {
  memset(config, 0, sizeof(*config));
  config->start_mono_us = START_MONO_US;
  config->start_unix_us = START_UNIX_US;
  config->steps_at_once_max = STEPS_AT_ONCE;
}

nm_sim *nm_sim_new(const nm_mem *mem, const nm_sim_config *config,
                   int *status) {
  nm_sim *sim = nm_alloc_zero(mem, 1, sizeof(*sim));
  if (sim == NULL) {
    *status = NM_E(MEMORY);
    return NULL;
  }
  sim->base = mem;
  sim->config = *config;
  if (sim->config.steps_at_once_max == 0) {
    sim->config.steps_at_once_max = STEPS_AT_ONCE;
  }
  nm_sim_meter_init(&sim->own, mem);
  nm_sim_agenda_init(&sim->agenda, &sim->own.mem);
  nm_sha256_init(&sim->digest);
  *status = nm_cipher_open(&sim->cipher, NULL);
  if (*status != NM_OK) {
    nm_release(mem, sim);
    return NULL;
  }
  return sim;
}

static void drop_events(nm_sim *sim) {
  while (sim->told_first != NULL) {
    nm_sim_told *told = sim->told_first;
    sim->told_first = told->next;
    nm_event_dispose(&told->event);
    nm_release(&sim->own.mem, told);
  }
  sim->told_last = NULL;
}

static void drop_calls(nm_sim *sim) {
  while (sim->due_first != NULL) {
    nm_sim_due_call *due = sim->due_first;
    sim->due_first = due->next;
    nm_release(&sim->own.mem, due);
  }
  sim->due_last = NULL;
}

void nm_sim_free(nm_sim *sim) {
  if (sim == NULL) {
    return;
  }
  nm_sim_item item;
  while (nm_sim_agenda_take(&sim->agenda, &item)) {
    if (item.kind == NM_SIM_ITEM_ARRIVAL) {
      nm_block_drop(item.ptr);
    } else if (item.kind == NM_SIM_ITEM_JOB) {
      nm_release(&sim->own.mem, item.ptr);
    }
  }
  drop_events(sim);
  drop_calls(sim);
  nm_sim_media_dispose(sim);
  nm_sim_nodes_dispose(sim);
  nm_sim_agenda_dispose(&sim->agenda);
  nm_release(&sim->own.mem, sim->scratch);
  nm_cipher_close(&sim->cipher);
  const nm_mem *mem = sim->base;
  nm_wipe(sim, sizeof(*sim));
  nm_release(mem, sim);
}

uint64_t nm_sim_seed(const nm_sim *sim) {
  return sim->config.seed;
}

/* ---- calls ---- */

uint64_t nm_sim_time_us(const nm_sim *sim) {
  return sim->now_ns / NS_PER_US;
}

int nm_sim_call_at(nm_sim *sim, uint64_t at_us, uint64_t tag) {
  uint64_t time_ns = at_us > LAST_NS / NS_PER_US ? LAST_NS : at_us * NS_PER_US;
  nm_sim_item item = {.time_ns = time_ns < sim->now_ns ? sim->now_ns : time_ns,
                      .kind = NM_SIM_ITEM_CALL,
                      .number = tag};
  int status = nm_sim_agenda_put(&sim->agenda, &item);
  sim->calls_pending += status == NM_OK;
  return status;
}

static void call_due(nm_sim *sim, uint64_t tag) {
  sim->calls_pending--;
  nm_sim_due_call *due = nm_alloc_zero(&sim->own.mem, 1, sizeof(*due));
  if (due == NULL) {
    nm_sim_no_memory(sim);
    return;
  }
  due->tag = tag;
  if (sim->due_last == NULL) {
    sim->due_first = due;
  } else {
    sim->due_last->next = due;
  }
  sim->due_last = due;
}

bool nm_sim_due(nm_sim *sim, uint64_t *tag) {
  nm_sim_due_call *due = sim->due_first;
  if (due == NULL) {
    return false;
  }
  sim->due_first = due->next;
  sim->due_last = sim->due_first == NULL ? NULL : sim->due_last;
  *tag = due->tag;
  nm_release(&sim->own.mem, due);
  return true;
}

bool nm_sim_event(nm_sim *sim, nm_sim_node_id *node, nm_event *event) {
  nm_sim_told *told = sim->told_first;
  if (told == NULL) {
    return false;
  }
  sim->told_first = told->next;
  sim->told_last = sim->told_first == NULL ? NULL : sim->told_last;
  *node = told->node;
  *event = told->event;
  nm_release(&sim->own.mem, told);
  return true;
}

/* ---- steps ---- */

static void check_all(nm_sim *sim) {
  for (uint32_t i = 0; i < sim->node_count; i++) {
    nm_sim_check_node(sim, sim->nodes[i]);
  }
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    nm_sim_check_medium(sim, sim->media[i]);
  }
}

static void do_item(nm_sim *sim, const nm_sim_item *item) {
  nm_sim_node *node;
  switch (item->kind) {
  case NM_SIM_ITEM_ARRIVAL:
    nm_sim_node_hear(sim, item);
    nm_block_drop(item->ptr);
    break;
  case NM_SIM_ITEM_SENT:
    node = nm_sim_medium_sent(sim, item);
    if (node != NULL) {
      nm_sim_node_settle(sim, node);
    }
    break;
  case NM_SIM_ITEM_JOB:
    nm_sim_node_job_back(sim, item->ptr);
    break;
  case NM_SIM_ITEM_TIMER:
    node = nm_sim_node_at(sim, item->where);
    if (node->armed_ns == item->time_ns) {
      nm_sim_node_tick(sim, node);
    }
    break;
  case NM_SIM_ITEM_CALL:
    call_due(sim, item->number);
    break;
  }
}

static void step(nm_sim *sim) {
  nm_sim_item item;
  if (!nm_sim_agenda_take(&sim->agenda, &item)) {
    return;
  }
  if (item.time_ns > sim->now_ns) {
    sim->now_ns = item.time_ns;
    sim->steps_here = 0;
  }
  sim->stats.steps++;
  if (++sim->steps_here > sim->config.steps_at_once_max) {
    nm_sim_broken(sim, NULL, "%u steps, and no time passes", sim->steps_here);
  }
  do_item(sim, &item);
  if (sim->config.check_all) {
    check_all(sim);
  }
}

nm_sim_pause nm_sim_run(nm_sim *sim, uint64_t until_us) {
  uint64_t until =
      until_us > LAST_NS / NS_PER_US ? LAST_NS : until_us * NS_PER_US;
  for (;;) {
    if (sim->failure[0] != '\0' || sim->finished) {
      return sim->finished && sim->failure[0] == '\0' ? NM_SIM_TIME
                                                      : NM_SIM_FAILED;
    }
    if (sim->told_first != NULL) {
      return NM_SIM_EVENT;
    }
    if (sim->due_first != NULL) {
      return NM_SIM_CALL;
    }
    if (nm_sim_agenda_next(&sim->agenda) > until) {
      sim->now_ns = until > sim->now_ns ? until : sim->now_ns;
      return NM_SIM_TIME;
    }
    step(sim);
  }
}

bool nm_sim_idle(const nm_sim *sim) {
  uint64_t busy = sim->calls_pending;
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    const nm_sim_medium_stats *stats = &sim->media[i]->stats;
    busy += stats->waiting + stats->in_flight;
  }
  for (uint32_t i = 0; busy == 0 && i < sim->node_count; i++) {
    const nm_sim_node *node = sim->nodes[i];
    busy += node->works != NULL ||
            (node->engine != NULL &&
             nm_engine_deadline(node->engine) != NM_TIMER_NEVER);
  }
  return busy == 0 && sim->told_first == NULL && sim->due_first == NULL;
}

void nm_sim_stats_read(const nm_sim *sim, nm_sim_stats *stats) {
  *stats = sim->stats;
}

/* ---- the end ---- */

int nm_sim_finish(nm_sim *sim) {
  if (sim->finished) {
    return nm_sim_failure(sim) == NULL ? NM_OK : NM_E(STATE);
  }
  for (uint32_t i = 1; i <= sim->node_count; i++) {
    (void)nm_sim_stop(sim, i);
  }
  while (sim->agenda.count > 0) {
    step(sim);
  }
  drop_events(sim);
  drop_calls(sim);
  nm_sim_check_end(sim);
  sim->finished = true;
  return nm_sim_failure(sim) == NULL ? NM_OK : NM_E(STATE);
}
