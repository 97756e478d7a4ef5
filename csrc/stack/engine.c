/* Life of the engine, its verbs but input, and the small services that its
 * state machines share.
 */
#include "stack/internal.h"

#include <string.h>

static const nm_limits default_limits = {
    .ifaces = 4096,
    .destinations = 65536,
    .known = 100000,
    .paths = 100000,
    .path_blobs = 64,
    .path_alternatives = 3,
    .filter = 500000,
    .path_tags = 16000,
    .receipts = 1024,
    .links = 65536,
    .pending_links = 4096,
    .requests = 1024,
    .transfers = 8,
    .rebroadcasts = 65536,
    .announce_queue = 4096,
    .announce_queues = 262144,
    .searches = 16384,
    .reverses = 262144,
    .transits = 65536,
    .tunnels = 4096,
    .output_packets = 65536,
    .lossy_events = 4096,
    .jobs = 4096,
    .jobs_per_iface = 256,
    .announce_jobs = 1024,
    .announce_jobs_per_iface = 128,
    .recorder = 4096,
    .resource_in_max = 64u << 20,
    .resource_memory = 256u << 20,
};

/* How many timers one tick fires at most, so that it stays short. */
#define TIMERS_PER_TICK 64

void nm_engine_config_default(nm_engine_config *config) {
  memset(config, 0, sizeof(*config));
  config->implicit_proofs = true;
  config->link_mtu_discovery = true;
}

void nm_limits_resolve(nm_limits *limits) {
#define DEFAULT(field)                                                         \
  if (limits->field == 0) {                                                    \
    limits->field = default_limits.field;                                      \
  }
  DEFAULT(ifaces)
  DEFAULT(destinations)
  DEFAULT(known)
  DEFAULT(paths)
  DEFAULT(path_blobs)
  DEFAULT(path_alternatives)
  DEFAULT(filter)
  DEFAULT(path_tags)
  DEFAULT(receipts)
  DEFAULT(links)
  DEFAULT(pending_links)
  DEFAULT(requests)
  DEFAULT(transfers)
  DEFAULT(rebroadcasts)
  DEFAULT(announce_queue)
  DEFAULT(announce_queues)
  DEFAULT(searches)
  DEFAULT(reverses)
  DEFAULT(transits)
  DEFAULT(tunnels)
  DEFAULT(output_packets)
  DEFAULT(lossy_events)
  DEFAULT(jobs)
  DEFAULT(jobs_per_iface)
  DEFAULT(announce_jobs)
  DEFAULT(announce_jobs_per_iface)
  DEFAULT(recorder)
  DEFAULT(resource_in_max)
  DEFAULT(resource_memory)
#undef DEFAULT
  uint32_t most = limits->jobs > 1 ? limits->jobs / 2 : 1;
  limits->announce_jobs =
      limits->announce_jobs < most ? limits->announce_jobs : most;
}

static void cancel(nm_engine *engine, nm_op *op);

static int make_identity(nm_engine *engine, const nm_identity *given) {
  nm_identity fresh = {0};
  if (given == NULL) {
    uint8_t keys[NM_PRIVATE_SIZE];
    int status = nm_engine_random(engine, keys, sizeof(keys));
    if (status == NM_OK) {
      status = nm_identity_init_private(&fresh, nm_span_of(keys, sizeof(keys)));
    }
    nm_wipe(keys, sizeof(keys));
    if (status != NM_OK) {
      return status;
    }
    given = &fresh;
  }
  int status = given->has_private ? NM_OK : NM_E(KEY);
  if (status == NM_OK) {
    engine->identity = nm_identity_block(engine->mem, given);
    status = engine->identity == NULL ? NM_E(MEMORY) : NM_OK;
  }
  nm_identity_wipe(&fresh);
  return status;
}

/* The order is that of dependence; nm_engine_free undoes it. */
static int start(nm_engine *engine, const nm_engine_config *config) {
  int status =
      nm_engine_random(engine, engine->hash_key, sizeof(engine->hash_key));
  if (status != NM_OK) {
    return status;
  }
  nm_filter_init(&engine->filter, engine->mem, engine->hash_key,
                 engine->limits.filter);
  if ((status = nm_cipher_open(&engine->cipher, NULL)) != NM_OK ||
      (status = make_identity(engine, config->identity)) != NM_OK ||
      (status = nm_flight_init(engine)) != NM_OK ||
      (status = nm_ops_init(&engine->ops, engine->mem, engine->hash_key)) !=
          NM_OK) {
    return status;
  }
  nm_ifaces_init(engine, &status);
  int (*const inits[])(nm_engine *) = {
      nm_locals_init,      nm_announcing_init,   nm_held_init,
      nm_paths_init,       nm_known_init,        nm_asks_init,
      nm_blackholes_init,  nm_receipts_init,     nm_links_init,
      nm_link_tokens_init, nm_rebroadcasts_init, nm_searches_init,
      nm_forwarding_init,  nm_transits_init,     nm_tunnels_init,
  };
  for (size_t i = 0; status == NM_OK && i < sizeof(inits) / sizeof(inits[0]);
       i++) {
    status = inits[i](engine);
  }
  return status;
}

nm_engine *nm_engine_new(const nm_mem *mem, const nm_entropy *entropy,
                         const nm_engine_config *config, nm_now now,
                         int *status) {
  nm_engine *engine = nm_alloc_zero(mem, 1, sizeof(*engine));
  if (engine == NULL) {
    *status = NM_E(MEMORY);
    return NULL;
  }
  engine->mem = mem;
  engine->entropy = entropy;
  engine->now = now;
  engine->transport = config->transport;
  engine->shared_instance = config->shared_instance;
  engine->implicit_proofs = config->implicit_proofs;
  engine->link_mtu_discovery = config->link_mtu_discovery;
  engine->next_token = 1;
  engine->limits = config->limits;
  nm_limits_resolve(&engine->limits);
  nm_timers_init(&engine->timers, mem);
  nm_outbox_init(&engine->outbox, mem, engine->limits.output_packets);
  nm_outbox_init(&engine->relays, mem, engine->limits.output_packets);
  nm_eventq_init(&engine->events, mem, engine->limits.lossy_events);
  nm_jobs_init(&engine->jobs, mem, engine->limits.jobs);
  nm_kept_init(engine);
  *status = start(engine, config);
  if (*status != NM_OK) {
    nm_engine_free(engine);
    return NULL;
  }
  return engine;
}

void nm_engine_free(nm_engine *engine) {
  if (engine == NULL) {
    return;
  }
  nm_jobs_dispose(&engine->jobs);
  nm_kept_dispose(engine);
  engine->closing = true;
  nm_links_abandon(engine);
  while (engine->ops.table.oldest != NULL) {
    cancel(engine, (nm_op *)(void *)engine->ops.table.oldest);
  }
  /* Events may live in links: the queue is emptied first. */
  nm_eventq_dispose(&engine->events);
  nm_links_dispose(engine);
  nm_receipts_dispose(engine);
  nm_announcing_dispose(engine);
  nm_held_dispose(engine);
  nm_locals_dispose(engine);
  nm_asks_dispose(engine);
  nm_paths_dispose(engine);
  nm_known_dispose(engine);
  nm_blackholes_dispose(engine);
  nm_rebroadcasts_dispose(engine);
  nm_searches_dispose(engine);
  nm_forwarding_dispose(engine);
  nm_transits_dispose(engine);
  nm_tunnels_dispose(engine);
  nm_ifaces_dispose(engine);
  nm_ops_dispose(&engine->ops);
  nm_flight_dispose(engine);
  nm_eventq_dispose(&engine->events);
  nm_outbox_dispose(&engine->outbox);
  nm_outbox_dispose(&engine->relays);
  nm_filter_dispose(&engine->filter);
  nm_timers_dispose(&engine->timers);
  nm_cipher_close(&engine->cipher);
  nm_block_drop(engine->identity);
  const nm_mem *mem = engine->mem;
  nm_wipe(engine, sizeof(*engine));
  nm_release(mem, engine);
}

/* ---- jobs ---- */

nm_job *nm_engine_job(nm_engine *engine) {
  return nm_jobs_take(&engine->jobs);
}

void nm_engine_job_done(nm_engine *engine, nm_job *job, nm_now now) {
  engine->now = now;
  nm_jobs_return(&engine->jobs, job);
  nm_engine_count_job(engine, job, -1);
  job->done(engine, job);
  nm_engine_scrap_job(engine, job);
}

/* ---- verbs ---- */

void nm_engine_tick(nm_engine *engine, nm_now now) {
  engine->now = now;
  engine->copies = 0;
  nm_timers_run(&engine->timers, now.mono_us, engine, TIMERS_PER_TICK);
}

uint64_t nm_engine_deadline(const nm_engine *engine) {
  return nm_timers_next(&engine->timers);
}

bool nm_engine_output(nm_engine *engine, nm_output *out) {
  if (nm_outbox_pop(&engine->outbox, out)) {
    out->patient = false;
    return true;
  }
  bool any = nm_outbox_pop(&engine->relays, out);
  out->patient = any;
  return any;
}

bool nm_engine_output_urges(const nm_engine *engine) {
  return engine->outbox.count > 0;
}

bool nm_engine_event(nm_engine *engine, nm_event *event) {
  return nm_eventq_pop(&engine->events, event);
}

void nm_engine_credit(nm_engine *engine, uint32_t count, nm_now now) {
  engine->now = now;
  engine->events.credit += count;
}

void nm_engine_sent(nm_engine *engine, nm_op_id id, bool ok, nm_now now) {
  engine->now = now;
  nm_op *op = nm_op_find(&engine->ops, id);
  if (op == NULL) {
    return;
  }
  op->outputs -= op->outputs > 0;
  op->taken = op->taken || ok;
  if (!ok && (op->taken || op->outputs > 0)) {
    return; /* another interface took it, or still may */
  }
  if (op->kind == NM_OP_ANNOUNCE) {
    nm_locals_op_sent(engine, op, ok);
  } else if (op->kind == NM_OP_RECEIPT) {
    nm_receipts_op_sent(engine, op, ok);
  }
}

static int decide(nm_engine *engine, nm_token_id token, bool accept,
                  nm_now now) {
  engine->now = now;
  int status = nm_locals_decide(engine, token, accept);
  return status == NM_E(STATE) ? nm_links_decide(engine, token, accept)
                               : status;
}

int nm_engine_accept(nm_engine *engine, nm_token_id token, nm_now now) {
  return decide(engine, token, true, now);
}

int nm_engine_refuse(nm_engine *engine, nm_token_id token, nm_now now) {
  return decide(engine, token, false, now);
}

static void cancel(nm_engine *engine, nm_op *op) {
  switch (op->kind) {
  case NM_OP_ANNOUNCE:
    nm_locals_op_cancel(engine, op);
    break;
  case NM_OP_PATH:
    nm_routes_op_cancel(engine, op);
    break;
  case NM_OP_RECEIPT:
    nm_receipts_op_cancel(engine, op);
    break;
  case NM_OP_REQUEST:
  case NM_OP_RESOURCE_OUT:
  case NM_OP_RESOURCE_IN:
  case NM_OP_CHANNEL:
  case NM_OP_STREAM:
    nm_links_op_cancel(engine, op);
    break;
  }
}

int nm_engine_cancel(nm_engine *engine, nm_op_id id, nm_now now) {
  engine->now = now;
  nm_op *op = nm_op_find(&engine->ops, id);
  if (op == NULL) {
    return NM_E(STATE);
  }
  cancel(engine, op);
  return NM_OK;
}

void nm_engine_shutdown(nm_engine *engine, nm_now now) {
  engine->now = now;
  if (engine->closing) {
    return;
  }
  engine->closing = true;
  nm_links_shutdown(engine);
  const nm_table *ops = &engine->ops.table;
  while (ops->oldest != NULL) {
    cancel(engine, (nm_op *)(void *)ops->oldest);
  }
}

/* ---- settings and figures ---- */

const nm_limits *nm_engine_limits(const nm_engine *engine) {
  return &engine->limits;
}

void nm_engine_set_implicit_proofs(nm_engine *engine, bool implicit) {
  engine->implicit_proofs = implicit;
}

void nm_engine_stats_read(const nm_engine *engine, nm_engine_stats *stats) {
  *stats = engine->stats;
  stats->lossy_dropped = engine->events.lossy_dropped;
  stats->lossy_coalesced = engine->events.lossy_coalesced;
  stats->known_evicted = engine->routes.known.evictions;
  stats->paths_evicted = engine->routes.paths.evictions;
  stats->known = (uint32_t)engine->routes.known.count;
  stats->paths = (uint32_t)engine->routes.paths.count;
  stats->alternatives = engine->routes.alternatives;
  stats->links = (uint32_t)engine->links.by_id.count;
  stats->links_active = engine->links.active;
  stats->receipts = (uint32_t)engine->receipts.table.count;
  stats->rebroadcasts = (uint32_t)engine->carried.rebroadcasts.count;
  stats->transits = (uint32_t)engine->carried.transits.count;
  stats->reverses = (uint32_t)engine->carried.reverses.count;
  stats->tunnels = (uint32_t)engine->carried.tunnels.count;
  stats->filter_current = (uint32_t)engine->filter.current.count;
  stats->filter_previous = (uint32_t)engine->filter.previous.count;
  stats->operations_begun = engine->ops.begun;
  stats->operations = (uint32_t)engine->ops.table.count;
  stats->resource_memory = engine->links.resource_memory;
  stats->jobs_outstanding = engine->jobs.outstanding;
}
