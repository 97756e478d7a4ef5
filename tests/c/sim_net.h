/* A simulation for tests: nodes on one medium, and every event kept. */
#ifndef NM_TESTS_SIM_NET_H
#define NM_TESTS_SIM_NET_H

#include "sim/sim.h"
#include "stack/link.h"
#include "stack/request.h"
#include "stack/route.h"
#include "stack/send.h"
#include "stack/transfer.h"

#define SIM_EVENTS 4096
#define SIM_NODES 8

typedef struct sim_net {
  nm_sim *sim;
  nm_sim_medium_id air;
  nm_sim_node_id nodes[SIM_NODES];
  int count;
  nm_event events[SIM_EVENTS];
  nm_sim_node_id of[SIM_EVENTS];
  int event_count;
} sim_net;

/* |count| nodes "a", "b", ... on a medium "air"; each config may be NULL. */
sim_net *sim_net_new(const nm_mem *mem, uint64_t seed, int count,
                     const nm_sim_node_config *node,
                     const nm_sim_medium_config *medium);
/* Runs for |us| more; the test fails when an invariant does. */
void sim_net_pass(sim_net *n, uint64_t us);
/* The first kept event of |kind| at node number |node| (from 0), or NULL. */
nm_event *sim_net_find(sim_net *n, int node, nm_event_kind kind);
int sim_net_count(const sim_net *n, int node, nm_event_kind kind);
void sim_net_forget(sim_net *n);
/* A destination at |node| that proves everything, links, resources. */
nm_destination_hash sim_net_listen(sim_net *n, int node, uint8_t seed,
                                   bool ratchets);
nm_op_id sim_net_announce(sim_net *n, int node,
                          const nm_destination_hash *hash);
nm_link_ref sim_net_link(sim_net *n, int node, const nm_destination_hash *hash);
nm_engine *sim_net_engine(sim_net *n, int node);
nm_now sim_net_now(sim_net *n, int node);
/* Ends the simulation, which must hold all invariants to the end. */
void sim_net_finish(sim_net *n);

#endif
