#include "sim_net.h"

#include "support.h"

#include <string.h>

sim_net *sim_net_new(const nm_mem *mem, uint64_t seed, int count,
                     const nm_sim_node_config *node,
                     const nm_sim_medium_config *medium) {
  sim_net *n = nm_test_scratch(sizeof(*n));
  memset(n, 0, sizeof(*n));
  nm_sim_config config;
  nm_sim_config_default(&config);
  config.seed = seed;
  config.check_all = true;
  int status = NM_OK;
  n->sim = nm_sim_new(mem, &config, &status);
  NM_CHECK_OK(status);
  nm_sim_medium_config plain;
  nm_sim_medium_config_default(&plain);
  NM_CHECK_OK(nm_sim_medium_add(n->sim, "air", medium == NULL ? &plain : medium,
                                &n->air));
  nm_sim_node_config defaults;
  nm_sim_node_config_default(&defaults);
  for (int i = 0; i < count; i++) {
    char name[2] = {(char)('a' + i), '\0'};
    nm_iface_spec spec;
    nm_iface_id iface;
    NM_CHECK_OK(nm_sim_node_add(n->sim, name, node == NULL ? &defaults : node,
                                &n->nodes[i]));
    NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", "air"));
    NM_CHECK_OK(nm_sim_connect(n->sim, n->nodes[i], n->air, &spec, &iface));
  }
  n->count = count;
  return n;
}

void sim_net_pass(sim_net *n, uint64_t us) {
  uint64_t until = nm_sim_time_us(n->sim) + us;
  for (;;) {
    nm_sim_pause pause = nm_sim_run(n->sim, until);
    if (pause == NM_SIM_FAILED) {
      nm_test_context("%s", nm_sim_failure(n->sim));
      NM_CHECK(pause != NM_SIM_FAILED);
    }
    nm_sim_node_id node;
    nm_event event;
    while (nm_sim_event(n->sim, &node, &event)) {
      if (n->event_count < SIM_EVENTS) {
        n->of[n->event_count] = node;
        n->events[n->event_count++] = event;
      } else {
        nm_event_dispose(&event);
      }
    }
    if (pause == NM_SIM_TIME) {
      return;
    }
  }
}

nm_event *sim_net_find(sim_net *n, int node, nm_event_kind kind) {
  for (int i = 0; i < n->event_count; i++) {
    if (n->of[i] == n->nodes[node] && n->events[i].kind == kind) {
      return &n->events[i];
    }
  }
  return NULL;
}

int sim_net_count(const sim_net *n, int node, nm_event_kind kind) {
  int count = 0;
  for (int i = 0; i < n->event_count; i++) {
    count += n->of[i] == n->nodes[node] && n->events[i].kind == kind;
  }
  return count;
}

void sim_net_forget(sim_net *n) {
  for (int i = 0; i < n->event_count; i++) {
    nm_event_dispose(&n->events[i]);
  }
  n->event_count = 0;
}

nm_destination_hash sim_net_listen(sim_net *n, int node, uint8_t seed,
                                   bool ratchets) {
  uint8_t keys[NM_PRIVATE_SIZE];
  memset(keys, seed, sizeof(keys));
  nm_identity identity;
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  nm_dest_spec spec;
  nm_dest_spec_default(&spec);
  spec.identity = &identity;
  spec.name = nm_span_of("test.sim", 8);
  spec.prove = NM_PROVE_ALL;
  spec.resources = NM_ACCEPT_ALL;
  spec.ratchets = ratchets;
  nm_destination_hash hash;
  NM_CHECK_OK(nm_sim_listen(n->sim, n->nodes[node], &spec, &hash));
  return hash;
}

nm_op_id sim_net_announce(sim_net *n, int node,
                          const nm_destination_hash *hash) {
  nm_op_id op = 0;
  NM_CHECK_OK(nm_engine_announce(sim_net_engine(n, node), hash, NULL, 0, false,
                                 &op, sim_net_now(n, node)));
  nm_sim_touch(n->sim, n->nodes[node]);
  return op;
}

nm_link_ref sim_net_link(sim_net *n, int node,
                         const nm_destination_hash *hash) {
  nm_link_ref link = 0;
  NM_CHECK_OK(nm_engine_link_open(sim_net_engine(n, node), hash, 0, &link,
                                  sim_net_now(n, node)));
  nm_sim_touch(n->sim, n->nodes[node]);
  return link;
}

nm_engine *sim_net_engine(sim_net *n, int node) {
  return nm_sim_engine(n->sim, n->nodes[node]);
}

nm_now sim_net_now(sim_net *n, int node) {
  return nm_sim_now(n->sim, n->nodes[node]);
}

void sim_net_finish(sim_net *n) {
  sim_net_forget(n);
  int status = nm_sim_finish(n->sim);
  if (status != NM_OK) {
    nm_test_context("%s", nm_sim_failure(n->sim));
  }
  NM_CHECK_OK(status);
  nm_sim_free(n->sim);
  n->sim = NULL;
}
