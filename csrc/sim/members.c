/* Media and who is on them.
 */
#include "sim/internal.h"

#define QUEUE_FRAMES 256
#define MILLION 1000000u
#define MEMBERS_MIN 4

void nm_sim_medium_config_default(nm_sim_medium_config *config) {
  memset(config, 0, sizeof(*config));
  config->queue_frames = QUEUE_FRAMES;
}

/* Times of a century and more would overflow when they are added up. */
#define LONGEST_US (UINT64_C(1) << 51)

static bool is_sane(const nm_sim_medium_config *c) {
  return c->loss_ppm <= MILLION && c->duplicate_ppm <= MILLION &&
         c->reorder_ppm <= MILLION && c->corrupt_ppm <= MILLION &&
         c->delay_us < LONGEST_US && c->jitter_us < LONGEST_US &&
         c->reorder_us < LONGEST_US && c->frame_us < LONGEST_US;
}

int nm_sim_medium_add(nm_sim *sim, const char *name,
                      const nm_sim_medium_config *config,
                      nm_sim_medium_id *id) {
  *id = 0;
  if (!nm_sim_name_is_sane(name) || !is_sane(config) || sim->finished) {
    return NM_E(ARGUMENT);
  }
  if (nm_sim_medium_named(sim, name) != 0) {
    return NM_E(DUPLICATE_KEY);
  }
  if (sim->medium_count == sim->medium_cap) {
    uint32_t cap = sim->medium_cap == 0 ? MEMBERS_MIN : sim->medium_cap * 2;
    nm_sim_medium **media =
        nm_resize(&sim->own.mem, sim->media, cap * sizeof(media[0]));
    if (media == NULL) {
      return NM_E(MEMORY);
    }
    sim->media = media;
    sim->medium_cap = cap;
  }
  nm_sim_medium *medium = nm_alloc_zero(&sim->own.mem, 1, sizeof(*medium));
  if (medium == NULL) {
    return NM_E(MEMORY);
  }
  memcpy(medium->name, name, strlen(name) + 1);
  medium->config = *config;
  medium->id = sim->medium_count + 1;
  nm_sim_rng_init(&medium->rng, sim->config.seed, "medium", name);
  sim->media[sim->medium_count++] = medium;
  *id = medium->id;
  return NM_OK;
}

int nm_sim_medium_change(nm_sim *sim, nm_sim_medium_id id,
                         const nm_sim_medium_config *config) {
  nm_sim_medium *medium = nm_sim_medium_at(sim, id);
  if (medium == NULL || !is_sane(config)) {
    return NM_E(ARGUMENT);
  }
  medium->config = *config;
  return NM_OK;
}

const nm_sim_medium_config *nm_sim_medium_read(const nm_sim *sim,
                                               nm_sim_medium_id id) {
  const nm_sim_medium *medium = nm_sim_medium_at(sim, id);
  return medium == NULL ? NULL : &medium->config;
}

nm_sim_medium_id nm_sim_medium_named(const nm_sim *sim, const char *name) {
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    if (strcmp(sim->media[i]->name, name) == 0) {
      return i + 1;
    }
  }
  return 0;
}

bool nm_sim_medium_stats_read(const nm_sim *sim, nm_sim_medium_id id,
                              nm_sim_medium_stats *stats) {
  const nm_sim_medium *medium = nm_sim_medium_at(sim, id);
  if (medium == NULL) {
    return false;
  }
  *stats = medium->stats;
  stats->airtime_us = medium->airtime_ns / 1000;
  stats->members = 0;
  for (uint32_t i = 0; i < medium->member_count; i++) {
    stats->members += medium->members[i].present;
  }
  return true;
}

/* ---- members ---- */

static nm_sim_member *new_member(nm_sim *sim, nm_sim_medium *medium,
                                 nm_sim_node_id node) {
  if (medium->member_count == medium->member_cap) {
    uint32_t cap =
        medium->member_cap == 0 ? MEMBERS_MIN : medium->member_cap * 2;
    nm_sim_member *members =
        nm_resize(&sim->own.mem, medium->members, cap * sizeof(members[0]));
    if (members == NULL) {
      return NULL;
    }
    medium->members = members;
    medium->member_cap = cap;
  }
  nm_sim_member *member = &medium->members[medium->member_count++];
  memset(member, 0, sizeof(*member));
  member->node = node;
  return member;
}

int nm_sim_connect(nm_sim *sim, nm_sim_node_id id, nm_sim_medium_id medium_id,
                   const nm_iface_spec *spec, nm_iface_id *iface) {
  *iface = 0;
  nm_sim_node *node = nm_sim_node_at(sim, id);
  nm_sim_medium *medium = nm_sim_medium_at(sim, medium_id);
  if (node == NULL || medium == NULL || node->engine == NULL) {
    return NM_E(ARGUMENT);
  }
  nm_sim_member *member = nm_sim_member_of(medium, id);
  if (member != NULL && member->present) {
    return NM_E(DUPLICATE_KEY);
  }
  if (member == NULL && (member = new_member(sim, medium, id)) == NULL) {
    return NM_E(MEMORY);
  }
  nm_ifac_wipe(&member->spec.ifac);
  member->spec = *spec;
  int status = nm_sim_node_plug(sim, node, medium_id,
                                (uint32_t)(member - medium->members));
  member->present = status == NM_OK;
  *iface = member->iface;
  nm_sim_node_settle(sim, node);
  return status;
}

/* The member that |node| is now, or NULL. */
static nm_sim_member *present_member(const nm_sim *sim, nm_sim_node_id node,
                                     nm_sim_medium_id medium) {
  const nm_sim_medium *on = nm_sim_medium_at(sim, medium);
  nm_sim_member *member = on == NULL ? NULL : nm_sim_member_of(on, node);
  return member == NULL || !member->present ? NULL : member;
}

int nm_sim_disconnect(nm_sim *sim, nm_sim_node_id id,
                      nm_sim_medium_id medium_id) {
  nm_sim_member *member = present_member(sim, id, medium_id);
  if (member == NULL) {
    return NM_E(MISSING);
  }
  nm_sim_node *node = nm_sim_node_at(sim, id);
  nm_sim_medium *medium = nm_sim_medium_at(sim, medium_id);
  nm_iface_id iface = member->iface;
  member->present = false;
  member->iface = 0;
  nm_sim_member_sweep(sim, medium, (uint32_t)(member - medium->members), node);
  if (node->engine != NULL) {
    node->ports[iface].medium = 0;
    (void)nm_engine_iface_remove(node->engine, iface, nm_sim_now(sim, id));
    nm_sim_node_settle(sim, node);
  }
  return NM_OK;
}

int nm_sim_reconnect(nm_sim *sim, nm_sim_node_id id, nm_sim_medium_id medium,
                     const nm_iface_spec *spec) {
  nm_sim_member *member = present_member(sim, id, medium);
  if (member == NULL) {
    return NM_E(MISSING);
  }
  nm_sim_node *node = nm_sim_node_at(sim, id);
  if (node->engine != NULL) {
    int status = nm_engine_iface_change(node->engine, member->iface, spec,
                                        nm_sim_now(sim, id));
    if (status != NM_OK) {
      return status;
    }
    nm_sim_node_settle(sim, node);
  }
  nm_ifac_wipe(&member->spec.ifac);
  member->spec = *spec;
  return NM_OK;
}

nm_iface_id nm_sim_iface_of(const nm_sim *sim, nm_sim_node_id node,
                            nm_sim_medium_id medium) {
  const nm_sim_member *member = present_member(sim, node, medium);
  return member == NULL ? 0 : member->iface;
}

/* ---- cuts ---- */

static int set_deaf(nm_sim *sim, nm_sim_member *member, uint32_t from,
                    bool deaf) {
  size_t word = from / 64;
  if (word >= member->deaf_words) {
    size_t words = word + 1;
    uint64_t *bits =
        nm_resize(&sim->own.mem, member->deaf_to, words * sizeof(bits[0]));
    if (bits == NULL) {
      return NM_E(MEMORY);
    }
    memset(&bits[member->deaf_words], 0,
           (words - member->deaf_words) * sizeof(bits[0]));
    member->deaf_to = bits;
    member->deaf_words = words;
  }
  uint64_t mask = (uint64_t)1 << (from % 64);
  member->deaf_to[word] =
      deaf ? member->deaf_to[word] | mask : member->deaf_to[word] & ~mask;
  return NM_OK;
}

int nm_sim_cut(nm_sim *sim, nm_sim_medium_id id, nm_sim_node_id from,
               nm_sim_node_id to, bool cut) {
  nm_sim_medium *medium = nm_sim_medium_at(sim, id);
  if (medium == NULL || (from != 0 && nm_sim_member_of(medium, from) == NULL) ||
      (to != 0 && nm_sim_member_of(medium, to) == NULL)) {
    return NM_E(ARGUMENT);
  }
  for (uint32_t i = 0; i < medium->member_count; i++) {
    nm_sim_member *hearer = &medium->members[i];
    for (uint32_t k = 0; k < medium->member_count; k++) {
      bool named = (to == 0 || hearer->node == to) &&
                   (from == 0 || medium->members[k].node == from);
      int status = named ? set_deaf(sim, hearer, k, cut) : NM_OK;
      if (status != NM_OK) {
        return status;
      }
    }
  }
  return NM_OK;
}
