/* Nodes come, go, and come again.
 */
#include "sim/internal.h"

#include "wire/destination.h"

#include <stdio.h>

#define RECORDER_ENTRIES 1024
#define NODES_MIN 8
#define MILLION 1000000u
#define LONGEST_US (UINT64_C(1) << 51)

/* ---- starting ---- */

static void tell_change(nm_sim *sim, const nm_sim_node *node,
                        nm_sim_node_change change) {
  nm_sim_note note = {
      .kind = NM_SIM_NOTE_NODE, .node = node->id, .code = (int)change};
  nm_sim_tell(sim, &note);
}

int nm_sim_node_plug(nm_sim *sim, nm_sim_node *node, nm_sim_medium_id medium,
                     uint32_t number) {
  nm_sim_member *member = &nm_sim_medium_at(sim, medium)->members[number];
  member->iface = 0;
  nm_iface_id iface = 0;
  int status = nm_engine_iface_add(node->engine, &member->spec, &iface,
                                   nm_sim_now(sim, node->id));
  if (status != NM_OK) {
    return status;
  }
  if (iface >= node->port_count) {
    size_t count = (size_t)iface + 4;
    nm_sim_port *ports =
        nm_resize(&sim->own.mem, node->ports, count * sizeof(ports[0]));
    if (ports == NULL) {
      (void)nm_engine_iface_remove(node->engine, iface,
                                   nm_sim_now(sim, node->id));
      return NM_E(MEMORY);
    }
    memset(&ports[node->port_count], 0,
           (count - node->port_count) * sizeof(ports[0]));
    node->ports = ports;
    node->port_count = count;
  }
  node->ports[iface] = (nm_sim_port){medium, number};
  member->iface = iface;
  return NM_OK;
}

static int plug_all(nm_sim *sim, nm_sim_node *node) {
  int status = NM_OK;
  for (uint32_t i = 0; status == NM_OK && i < sim->medium_count; i++) {
    nm_sim_member *member = nm_sim_member_of(sim->media[i], node->id);
    if (member != NULL && member->present) {
      status = nm_sim_node_plug(sim, node, i + 1,
                                (uint32_t)(member - sim->media[i]->members));
    }
  }
  return status;
}

static int boot(nm_sim *sim, nm_sim_node *node) {
  uint8_t seed[32];
  nm_sim_derive(sim->config.seed, "entropy", node->name, node->boots, seed);
  nm_entropy_pool_init_seed(&node->pool, seed);
  node->entropy = nm_entropy_pool_source(&node->pool);
  nm_engine_config config = node->config.engine;
  config.identity = &node->identity;
  int status = NM_OK;
  node->meter.armed = false;
  node->engine = nm_engine_new(&node->meter.mem, &node->entropy, &config,
                               nm_sim_now(sim, node->id), &status);
  if (node->engine == NULL) {
    return status;
  }
  node->boots++;
  node->armed_ns = NM_SIM_NEVER;
  nm_engine_credit(node->engine, node->config.credit,
                   nm_sim_now(sim, node->id));
  tell_change(sim, node, NM_SIM_STARTED);
  status = plug_all(sim, node);
  node->meter.armed = true;
  return status;
}

static int make_identity(const nm_sim *sim, const char *name,
                         nm_identity *identity) {
  uint8_t keys[NM_PRIVATE_SIZE];
  nm_sim_derive(sim->config.seed, "identity", name, 0, keys);
  nm_sim_derive(sim->config.seed, "identity", name, 1, &keys[32]);
  int status =
      nm_identity_init_private(identity, nm_span_of(keys, sizeof(keys)));
  nm_wipe(keys, sizeof(keys));
  return status;
}

static bool is_sane(const nm_sim_node_config *c) {
  return c->job_percent_min <= c->job_percent_max &&
         c->store_us_min <= c->store_us_max && c->store_us_max < LONGEST_US &&
         c->store_failure_ppm <= MILLION &&
         c->allocation_failure_ppm <= MILLION;
}

static nm_sim_node *new_node(nm_sim *sim, const char *name,
                             const nm_sim_node_config *config) {
  if (sim->node_count == sim->node_cap) {
    uint32_t cap = sim->node_cap == 0 ? NODES_MIN : sim->node_cap * 2;
    nm_sim_node **nodes =
        nm_resize(&sim->own.mem, sim->nodes, cap * sizeof(nodes[0]));
    if (nodes == NULL) {
      return NULL;
    }
    sim->nodes = nodes;
    sim->node_cap = cap;
  }
  nm_sim_node *node = nm_alloc_zero(&sim->own.mem, 1, sizeof(*node));
  if (node == NULL) {
    return NULL;
  }
  memcpy(node->name, name, strlen(name) + 1);
  node->id = sim->node_count + 1;
  node->config = *config;
  node->config.engine.identity = NULL;
  nm_limits *limits = &node->config.engine.limits;
  limits->recorder =
      limits->recorder == 0 ? RECORDER_ENTRIES : limits->recorder;
  nm_limits_resolve(limits);
  node->clock_us = config->clock_ahead_us;
  node->watched = UINT32_MAX;
  nm_sim_rng_init(&node->rng, sim->config.seed, "node", name);
  nm_sim_meter_init(&node->meter, sim->base);
  nm_sim_rng_init(&node->meter.rng, sim->config.seed, "memory", name);
  node->meter.failure_ppm = config->allocation_failure_ppm;
  return node;
}

static void free_node(nm_sim *sim, nm_sim_node *node) {
  nm_entropy_pool_wipe(&node->pool);
  nm_identity_wipe(&node->identity);
  nm_sim_store_dispose(sim, node);
  nm_sim_bits_dispose(sim, &node->ended);
  nm_sim_bits_dispose(sim, &node->opened);
  nm_sim_bits_dispose(sim, &node->closed);
  nm_release(&sim->own.mem, node->ports);
  nm_release(&sim->own.mem, node);
}

int nm_sim_node_add(nm_sim *sim, const char *name,
                    const nm_sim_node_config *config, nm_sim_node_id *id) {
  *id = 0;
  if (!nm_sim_name_is_sane(name) || !is_sane(config) || sim->finished) {
    return NM_E(ARGUMENT);
  }
  if (nm_sim_node_named(sim, name) != 0) {
    return NM_E(DUPLICATE_KEY);
  }
  nm_sim_node *node = new_node(sim, name, config);
  if (node == NULL) {
    return NM_E(MEMORY);
  }
  int status = NM_OK;
  if (config->engine.identity != NULL) {
    node->identity = *config->engine.identity;
  } else {
    status = make_identity(sim, name, &node->identity);
  }
  if (status == NM_OK) {
    /* In the table first: its clock is asked for by its number. */
    sim->nodes[sim->node_count++] = node;
    status = boot(sim, node);
    sim->node_count -= status != NM_OK;
  }
  if (status != NM_OK) {
    nm_engine_free(node->engine);
    free_node(sim, node);
    return status;
  }
  *id = node->id;
  nm_sim_node_settle(sim, node);
  return NM_OK;
}

/* ---- ending ---- */

static void forget_events(nm_sim *sim, nm_sim_node_id node) {
  nm_sim_told **at = &sim->told_first;
  nm_sim_told *kept = NULL;
  while (*at != NULL) {
    nm_sim_told *told = *at;
    if (told->node != node) {
      kept = told;
      at = &told->next;
      continue;
    }
    *at = told->next;
    nm_event_dispose(&told->event);
    nm_release(&sim->own.mem, told);
  }
  sim->told_last = kept;
}

static void unplug_all(nm_sim *sim, nm_sim_node *node) {
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    nm_sim_member *member = nm_sim_member_of(sim->media[i], node->id);
    if (member != NULL) {
      member->iface = 0;
    }
  }
  nm_release(&sim->own.mem, node->ports);
  node->ports = NULL;
  node->port_count = 0;
}

static void end_engine(nm_sim *sim, nm_sim_node *node) {
  nm_engine_stats stats;
  nm_engine_stats_read(node->engine, &stats);
  node->operations += stats.operations_begun;
  nm_engine_free(node->engine);
  node->engine = NULL;
  node->armed_ns = NM_SIM_NEVER;
  node->boot_ended = 0;
  nm_sim_bits_dispose(sim, &node->ended);
  nm_sim_bits_dispose(sim, &node->opened);
  nm_sim_bits_dispose(sim, &node->closed);
  unplug_all(sim, node);
}

int nm_sim_crash(nm_sim *sim, nm_sim_node_id id) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node == NULL || node->engine == NULL) {
    return NM_E(STATE);
  }
  nm_sim_node_end_jobs(sim, node, true);
  nm_sim_medium_sweep(sim, node);
  end_engine(sim, node);
  forget_events(sim, id);
  tell_change(sim, node, NM_SIM_CRASHED);
  return NM_OK;
}

int nm_sim_stop(nm_sim *sim, nm_sim_node_id id) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node == NULL || node->engine == NULL) {
    return NM_E(STATE);
  }
  node->meter.armed = false;
  nm_engine_shutdown(node->engine, nm_sim_now(sim, id));
  nm_sim_node_settle(sim, node);
  while (node->works != NULL) {
    nm_sim_node_end_jobs(sim, node, false);
    nm_sim_node_settle(sim, node);
  }
  nm_sim_check_stopped(sim, node);
  end_engine(sim, node);
  tell_change(sim, node, NM_SIM_STOPPED);
  return NM_OK;
}

int nm_sim_restart(nm_sim *sim, nm_sim_node_id id) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node == NULL || node->engine != NULL || sim->finished) {
    return NM_E(STATE);
  }
  int status = boot(sim, node);
  if (status == NM_OK) {
    nm_sim_node_settle(sim, node);
  } else if (node->engine != NULL) {
    end_engine(sim, node);
  }
  return status;
}

void nm_sim_nodes_dispose(nm_sim *sim) {
  for (uint32_t i = 0; i < sim->node_count; i++) {
    nm_sim_node *node = sim->nodes[i];
    nm_engine_free(node->engine);
    node->engine = NULL;
    free_node(sim, node);
  }
  nm_release(&sim->own.mem, sim->nodes);
  sim->nodes = NULL;
  sim->node_count = 0;
}

/* ---- reading and settings ---- */

nm_sim_node_id nm_sim_node_named(const nm_sim *sim, const char *name) {
  for (uint32_t i = 0; i < sim->node_count; i++) {
    if (strcmp(sim->nodes[i]->name, name) == 0) {
      return i + 1;
    }
  }
  return 0;
}

uint32_t nm_sim_node_count(const nm_sim *sim) {
  return sim->node_count;
}

nm_engine *nm_sim_engine(const nm_sim *sim, nm_sim_node_id id) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  return node == NULL ? NULL : node->engine;
}

uint32_t nm_sim_boots(const nm_sim *sim, nm_sim_node_id id) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  return node == NULL ? 0 : node->boots;
}

void nm_sim_credit(nm_sim *sim, nm_sim_node_id id, uint32_t count) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node != NULL && node->engine != NULL) {
    nm_engine_credit(node->engine, count, nm_sim_now(sim, id));
    nm_sim_node_settle(sim, node);
  }
}

void nm_sim_clock_step(nm_sim *sim, nm_sim_node_id id, int64_t us) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node != NULL) {
    node->clock_us += us;
  }
}

void nm_sim_watch(nm_sim *sim, nm_sim_node_id id, uint32_t kinds) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node != NULL) {
    node->watched = kinds;
  }
}

bool nm_sim_node_stats_read(const nm_sim *sim, nm_sim_node_id id,
                            nm_sim_node_stats *stats) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node == NULL) {
    return false;
  }
  *stats = node->stats;
  stats->boots = node->boots;
  stats->operations = node->operations;
  if (node->engine != NULL) {
    nm_engine_stats engine;
    nm_engine_stats_read(node->engine, &engine);
    stats->operations += engine.operations_begun;
  }
  stats->live_blocks = node->meter.live_blocks;
  stats->live_bytes = node->meter.live_bytes;
  stats->peak_bytes = node->meter.peak_bytes;
  stats->allocations = node->meter.calls;
  stats->allocations_failed = node->meter.failed;
  return true;
}

/* ---- what is stored for a destination ---- */

#define HEX_NAME_MAX 64

static nm_span stored_for(const nm_sim *sim, nm_sim_node_id node,
                          const char *kind, const nm_destination_hash *hash) {
  char name[HEX_NAME_MAX];
  int len = snprintf(name, sizeof(name), "%s/", kind);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    len += snprintf(&name[len], sizeof(name) - (size_t)len, "%02x", hash->b[i]);
  }
  return nm_sim_stored(sim, node, name);
}

int nm_sim_listen(nm_sim *sim, nm_sim_node_id id, const nm_dest_spec *spec,
                  nm_destination_hash *hash) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node == NULL || node->engine == NULL) {
    return NM_E(STATE);
  }
  nm_dest_spec filled = *spec;
  if (spec->type == NM_SINGLE && spec->identity != NULL) {
    uint8_t name_hash[NM_NAME_HASH_SIZE];
    nm_destination_hash address;
    nm_name_hash(name_hash, spec->name);
    nm_destination_address(name_hash, &spec->identity->hash, &address);
    filled.ratchet_file = stored_for(sim, id, "ratchets", &address);
    nm_span emitted = stored_for(sim, id, "announced", &address);
    nm_reader r = nm_reader_of(emitted);
    filled.last_emitted = emitted.len == 8 ? nm_reader_u64(&r) : 0;
  }
  int status =
      nm_engine_listen(node->engine, &filled, hash, nm_sim_now(sim, id));
  nm_sim_node_settle(sim, node);
  return status;
}
