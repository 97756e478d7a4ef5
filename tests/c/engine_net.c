#include "engine_net.h"

#include "support.h"

#include <string.h>

static net_flight *take_flight(net *n) {
  net_flight *flight = n->flights;
  n->flights = flight->next;
  return flight;
}

static void free_flight(net_flight *flight) {
  nm_block_drop(flight->packet);
  nm_release(&nm_mem_system, flight);
}

int net_init_apart(net *n, const nm_mem *const *mems, int count,
                   uint32_t credit,
                   void (*adjust)(int engine, nm_engine_config *config)) {
  memset(n, 0, sizeof(*n));
  n->mem = mems[0];
  n->now.mono_us = 1000000000;
  n->now.unix_us = 1700000000000000;
  int status = nm_cipher_open(&n->cipher, NULL);
  for (int i = 0; status == NM_OK && i < count; i++) {
    uint8_t seed[32] = {0};
    seed[0] = (uint8_t)(i + 1);
    nm_entropy_pool_init_seed(&n->pools[i], seed);
    n->sources[i] = nm_entropy_pool_source(&n->pools[i]);
    nm_engine_config config;
    nm_engine_config_default(&config);
    if (adjust != NULL) {
      adjust(i, &config);
    }
    n->engines[i] =
        nm_engine_new(mems[i], &n->sources[i], &config, n->now, &status);
    if (n->engines[i] != NULL) {
      n->engine_count++;
      nm_engine_credit(n->engines[i], credit, n->now);
    }
  }
  return status;
}

int net_init_credit(net *n, const nm_mem *mem, int count, uint32_t credit,
                    void (*adjust)(int engine, nm_engine_config *config)) {
  const nm_mem *mems[NET_ENGINES];
  for (int i = 0; i < count; i++) {
    mems[i] = mem;
  }
  return net_init_apart(n, mems, count, credit, adjust);
}

int net_init_with(net *n, const nm_mem *mem, int count,
                  void (*adjust)(int engine, nm_engine_config *config)) {
  return net_init_credit(n, mem, count, 1000000, adjust);
}

int net_init(net *n, const nm_mem *mem, int count) {
  return net_init_with(n, mem, count, NULL);
}

void net_dispose(net *n) {
  net_forget(n);
  while (n->flights != NULL) {
    free_flight(take_flight(n));
  }
  for (int i = 0; i < n->engine_count; i++) {
    nm_engine_free(n->engines[i]);
    nm_entropy_pool_wipe(&n->pools[i]);
  }
  nm_cipher_close(&n->cipher);
}

int net_join(net *n, int a, int b, const char *kind) {
  net_wire *wire = &n->wires[n->wire_count];
  int ends[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    nm_iface_spec spec;
    char name[32] = "wire 0 end 0";
    name[5] = (char)('0' + n->wire_count);
    name[11] = (char)('0' + i);
    int status = nm_iface_spec_default(&spec, kind, name);
    if (status == NM_OK) {
      status = nm_engine_iface_add(n->engines[ends[i]], &spec,
                                   &wire->ends[i].iface, n->now);
    }
    if (status != NM_OK) {
      return status;
    }
    wire->ends[i].engine = ends[i];
  }
  return n->wire_count++;
}

nm_verdict net_feed(net *n, int engine, nm_iface_id iface, nm_span raw) {
  const nm_iface_spec *spec = nm_engine_iface(n->engines[engine], iface);
  nm_ingress_config config = {
      .ifac = spec != NULL && spec->ifac_set ? &spec->ifac : NULL,
      .hw_mtu = spec != NULL ? spec->hw_mtu : 0};
  nm_mspan scratch = {nm_test_scratch(raw.len + 1), raw.len + 1};
  nm_frame frame;
  nm_ingress(&config, raw, scratch, &frame);
  n->last_verdict[engine] =
      nm_engine_input(n->engines[engine], iface, &frame, n->now);
  return n->last_verdict[engine];
}

/* Puts a packet on its way; those of one moment stay in order. */
static void launch(net *n, net_port to, nm_span raw, uint64_t delay_us) {
  net_flight *flight = nm_alloc_zero(&nm_mem_system, 1, sizeof(*flight));
  flight->due_us = n->now.mono_us + delay_us;
  flight->to = to;
  flight->packet = nm_block_copy(&nm_mem_system, raw);
  net_flight **at = &n->flights;
  while (*at != NULL && (*at)->due_us <= flight->due_us) {
    at = &(*at)->next;
  }
  flight->next = *at;
  *at = flight;
}

static void deliver(net *n, net_wire *wire, int from, net_port to,
                    nm_span raw) {
  net_fate fate = {.copies = 1};
  if (wire->fate != NULL) {
    wire->fate(wire->user, from, raw, &fate);
  }
  for (int i = 0; i < fate.copies; i++) {
    n->packets++;
    if (fate.delay_us[i] == 0) {
      (void)net_feed(n, to.engine, to.iface, raw);
    } else {
      launch(n, to, raw, fate.delay_us[i]);
    }
  }
}

static void land(net *n) {
  while (n->flights != NULL && n->flights->due_us <= n->now.mono_us) {
    net_flight *flight = take_flight(n);
    (void)net_feed(n, flight->to.engine, flight->to.iface,
                   nm_block_span(flight->packet));
    free_flight(flight);
    net_settle(n);
  }
}

static void carry(net *n, int from, nm_iface_id iface, nm_span raw) {
  for (int w = 0; w < n->wire_count; w++) {
    net_wire *wire = &n->wires[w];
    for (int i = 0; i < 2; i++) {
      if (wire->ends[i].engine != from || wire->ends[i].iface != iface) {
        continue;
      }
      if (!wire->cut &&
          (wire->filter == NULL || wire->filter(wire->user, from, raw))) {
        deliver(n, wire, from, wire->ends[1 - i], raw);
      }
    }
  }
}

static bool pump_jobs(net *n, int i) {
  bool moved = false;
  nm_job *job;
  while ((job = nm_engine_job(n->engines[i])) != NULL) {
    if (nm_job_kind_of(job) == NM_JOB_STORE) {
      nm_job_store_result(job, !n->store_fails);
    } else {
      nm_job_run(job, &n->cipher);
    }
    nm_engine_job_done(n->engines[i], job, n->now);
    moved = true;
  }
  return moved;
}

static bool pump_outputs(net *n, int i) {
  bool moved = false;
  nm_output out;
  while (nm_engine_output(n->engines[i], &out)) {
    if (out.op != 0) {
      nm_engine_sent(n->engines[i], out.op, true, n->now);
    }
    carry(n, i, out.iface, nm_block_span(out.packet));
    nm_block_drop(out.packet);
    moved = true;
  }
  return moved;
}

static bool pump_events(net *n, int i) {
  bool moved = false;
  nm_event event;
  while (nm_engine_event(n->engines[i], &event)) {
    if (n->event_count[i] < NET_EVENTS) {
      n->events[i][n->event_count[i]++] = event;
    } else {
      nm_event_dispose(&event);
    }
    moved = true;
  }
  return moved;
}

void net_settle(net *n) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int i = 0; i < n->engine_count; i++) {
      moved = pump_jobs(n, i) || moved;
      moved = pump_outputs(n, i) || moved;
      moved = pump_events(n, i) || moved;
    }
  }
}

void net_pass(net *n, uint64_t us) {
  uint64_t until = n->now.mono_us + us;
  net_settle(n);
  for (;;) {
    uint64_t next = n->flights == NULL ? NM_TIMER_NEVER : n->flights->due_us;
    for (int i = 0; i < n->engine_count; i++) {
      uint64_t due = nm_engine_deadline(n->engines[i]);
      next = due < next ? due : next;
    }
    if (next > until) {
      break;
    }
    if (next > n->now.mono_us) {
      n->now.unix_us += (int64_t)(next - n->now.mono_us);
      n->now.mono_us = next;
    }
    land(n);
    for (int i = 0; i < n->engine_count; i++) {
      nm_engine_tick(n->engines[i], n->now);
    }
    net_settle(n);
  }
  n->now.unix_us += (int64_t)(until - n->now.mono_us);
  n->now.mono_us = until;
}

nm_event *net_find(net *n, int engine, nm_event_kind kind) {
  for (int i = 0; i < n->event_count[engine]; i++) {
    if (n->events[engine][i].kind == kind) {
      return &n->events[engine][i];
    }
  }
  return NULL;
}

int net_count(const net *n, int engine, nm_event_kind kind) {
  int count = 0;
  for (int i = 0; i < n->event_count[engine]; i++) {
    count += n->events[engine][i].kind == kind;
  }
  return count;
}

void net_forget(net *n) {
  for (int i = 0; i < n->engine_count; i++) {
    for (int k = 0; k < n->event_count[i]; k++) {
      nm_event_dispose(&n->events[i][k]);
    }
    n->event_count[i] = 0;
  }
}

nm_identity net_identity(uint8_t seed) {
  uint8_t keys[NM_PRIVATE_SIZE];
  memset(keys, seed, sizeof(keys));
  nm_identity identity;
  NM_CHECK_OK(nm_identity_init_private(&identity, nm_span_of(keys, 64)));
  return identity;
}

int net_listen(net *n, int engine, uint8_t seed, const char *name,
               void (*adjust)(nm_dest_spec *spec), nm_destination_hash *hash) {
  nm_identity identity = net_identity(seed);
  nm_dest_spec spec;
  nm_dest_spec_default(&spec);
  spec.identity = &identity;
  spec.name = nm_span_of(name, strlen(name));
  if (adjust != NULL) {
    adjust(&spec);
  }
  return nm_engine_listen(n->engines[engine], &spec, hash, n->now);
}

int net_announce(net *n, int engine, const nm_destination_hash *hash) {
  nm_op_id op;
  int status =
      nm_engine_announce(n->engines[engine], hash, NULL, 0, false, &op, n->now);
  net_settle(n);
  return status;
}

nm_link_ref net_link(net *n, int engine, const nm_destination_hash *hash) {
  nm_link_ref link = 0;
  if (nm_engine_link_open(n->engines[engine], hash, 0, &link, n->now) !=
      NM_OK) {
    return 0;
  }
  net_settle(n);
  return link;
}
