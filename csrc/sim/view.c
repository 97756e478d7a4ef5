/* What is read off a simulation: its time, and how things are called.
 */
#include "sim/internal.h"

#include <string.h>

#define NS_PER_US 1000u

static const char *const fate_names[NM_SIM_FATE_COUNT] = {
    [NM_SIM_SENT] = "sent",
    [NM_SIM_DELIVERED] = "delivered",
    [NM_SIM_LOST] = "lost",
    [NM_SIM_CUT] = "cut",
    [NM_SIM_GONE] = "gone",
    [NM_SIM_REFUSED_FULL] = "refused_full",
    [NM_SIM_REFUSED_SIZE] = "refused_size",
    [NM_SIM_REFUSED_ACCESS] = "refused_access",
    [NM_SIM_SWEPT] = "swept",
};

nm_now nm_sim_now(const nm_sim *sim, nm_sim_node_id id) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  uint64_t passed = sim->now_ns / NS_PER_US;
  nm_now now = {.mono_us = sim->config.start_mono_us + passed,
                .unix_us = sim->config.start_unix_us + (int64_t)passed};
  now.unix_us += node == NULL ? 0 : node->clock_us;
  return now;
}

bool nm_sim_name_is_sane(const char *name) {
  size_t len = strlen(name);
  return len > 0 && len <= NM_SIM_NAME_MAX;
}

const char *nm_sim_node_name(const nm_sim *sim, nm_sim_node_id id) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  return node == NULL ? "" : node->name;
}

const char *nm_sim_medium_name(const nm_sim *sim, nm_sim_medium_id id) {
  const nm_sim_medium *medium = nm_sim_medium_at(sim, id);
  return medium == NULL ? "" : medium->name;
}

const char *nm_sim_fate_name(nm_sim_fate fate) {
  return (unsigned)fate < NM_SIM_FATE_COUNT ? fate_names[fate] : "unknown";
}
