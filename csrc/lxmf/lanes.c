/* Lanes: what leads to one recipient or node. The link to it is opened once
 * for all that wait, and kept for what comes next (LXMF 4.4).
 */
#include "lxmf/internal.h"

#include <string.h>

#define LANE_TIMERS 2

static void idle_due(void *user, nm_timer *timer) {
  (void)user;
  nm_lane_drop_link(
      (nm_lane *)(void *)((char *)timer - offsetof(nm_lane, idle)));
}

static bool is_needed(const nm_lane *lane) {
  return lane->letters > 0 || lane->state != NM_LANE_IDLE || lane->back != 0 ||
         lane->woken;
}

static bool may_evict(void *user, nm_table_link *entry) {
  (void)user;
  return !is_needed((const nm_lane *)(const void *)entry);
}

static void dispose_lane(void *user, nm_table_link *entry) {
  nm_router *router = user;
  nm_lane *lane = (nm_lane *)(void *)entry;
  nm_router_disarm(router, &lane->idle);
  nm_router_disarm(router, &lane->rediscover);
  router->timers_reserved -= LANE_TIMERS;
  nm_release(router->mem, lane);
}

int nm_lanes_init(nm_router *router) {
  int status =
      nm_router_table(router, &router->lanes, router->limits.lanes,
                      NM_ADDRESS_SIZE, offsetof(nm_lane, target), dispose_lane);
  router->lanes.config.may_evict = may_evict;
  return status;
}

nm_lane *nm_lane_find(const nm_router *router,
                      const nm_destination_hash *target) {
  return (nm_lane *)(void *)nm_table_find(&router->lanes, target);
}

nm_lane *nm_lane_of(nm_router *router, const nm_destination_hash *target) {
  nm_lane *lane = nm_lane_find(router, target);
  if (lane != NULL) {
    nm_table_touch(&router->lanes, &lane->link);
    return lane;
  }
  if (nm_router_reserve_timers(router, LANE_TIMERS) != NM_OK) {
    return NULL;
  }
  lane = nm_alloc_zero(router->mem, 1, sizeof(*lane));
  if (lane != NULL) {
    lane->target = *target;
    lane->router = router;
    lane->idle.fire = idle_due;
    lane->rediscover.fire = nm_gate_rediscover_due;
    if (nm_table_insert(&router->lanes, &lane->link) == NM_OK) {
      return lane;
    }
    nm_release(router->mem, lane);
  }
  router->timers_reserved -= LANE_TIMERS;
  return NULL;
}

/* A lane that nothing needs stays while the gate counts on it; a full table
 * lets the oldest of those go. */
void nm_lane_maybe_free(nm_lane *lane) {
  if (!is_needed(lane) && !lane->asked) {
    nm_table_remove(&lane->router->lanes, &lane->link);
    dispose_lane(lane->router, &lane->link);
  }
}

/* ---- letters that wait ---- */

/* At its place by number: those before it are few, or it is the newest. */
void nm_lane_requeue(nm_letter *letter) {
  nm_lane *lane = letter->lane;
  nm_letter *before = lane->last;
  if (letter->in_lane) {
    return;
  }
  if (before != NULL && before->number > letter->number) {
    nm_letter *after = lane->first;
    while (after->number < letter->number) {
      after = after->lane_next;
    }
    before = after->lane_prev;
  }
  letter->lane_prev = before;
  letter->lane_next = before != NULL ? before->lane_next : lane->first;
  *(before != NULL ? &before->lane_next : &lane->first) = letter;
  *(letter->lane_next != NULL ? &letter->lane_next->lane_prev : &lane->last) =
      letter;
  letter->in_lane = true;
}

void nm_lane_unqueue(nm_letter *letter) {
  nm_lane *lane = letter->lane;
  if (!letter->in_lane) {
    return;
  }
  *(letter->lane_prev != NULL ? &letter->lane_prev->lane_next : &lane->first) =
      letter->lane_next;
  *(letter->lane_next != NULL ? &letter->lane_next->lane_prev : &lane->last) =
      letter->lane_prev;
  letter->lane_prev = NULL;
  letter->lane_next = NULL;
  letter->in_lane = false;
}

void nm_lane_join(nm_lane *lane, nm_letter *letter) {
  letter->lane = lane;
  lane->letters++;
  nm_lane_requeue(letter);
}

void nm_lane_leave(nm_letter *letter) {
  nm_lane *lane = letter->lane;
  if (lane == NULL) {
    return;
  }
  nm_lane_unqueue(letter);
  nm_letter_landed(letter);
  letter->lane = NULL;
  lane->letters--;
}

bool nm_lane_has_room(const nm_lane *lane) {
  const nm_router *router = lane->router;
  uint32_t most = nm_lane_is_node(lane) ? 1 : router->limits.in_flight;
  return lane->in_flight < most &&
         router->in_flight_all < router->limits.in_flight_all;
}

/* A refusal of a node names no message: only one is in flight to it. */
bool nm_lane_is_node(const nm_lane *lane) {
  const nm_router *router = lane->router;
  return router->has_node &&
         memcmp(&router->node, &lane->target, sizeof(lane->target)) == 0;
}

void nm_lane_wake(nm_lane *lane) {
  nm_router *router = lane->router;
  if (!lane->woken) {
    lane->woken = true;
    lane->next_woken = router->woken;
    router->woken = lane;
  }
}

/* ---- the link ---- */

nm_link_ref nm_lane_link(const nm_lane *lane) {
  return lane->state == NM_LANE_ACTIVE ? lane->direct : lane->back;
}

void nm_lane_used(nm_lane *lane) {
  nm_router *router = lane->router;
  if (lane->state == NM_LANE_ACTIVE) {
    nm_router_arm(router, &lane->idle,
                  router->now.mono_us + (nm_lane_is_node(lane)
                                             ? NM_LXMF_NODE_LINK_INACTIVITY_US
                                             : NM_LXMF_LINK_INACTIVITY_US));
  }
}

bool nm_lane_open(nm_lane *lane) {
  nm_router *router = lane->router;
  nm_link_ref ref = 0;
  if (nm_engine_link_open(router->engine, &lane->target, 0, &ref,
                          router->now) != NM_OK) {
    return false;
  }
  if (nm_router_own_line(router, ref, true, NULL, &lane->target) != NM_OK) {
    (void)nm_engine_link_close(router->engine, ref, router->now);
    return false;
  }
  lane->direct = ref;
  lane->identified = false;
  lane->state = NM_LANE_OPENING;
  router->stats.links_opened++;
  return true;
}

void nm_lane_drop_link(nm_lane *lane) {
  nm_router *router = lane->router;
  nm_link_ref ref = lane->direct;
  if (ref != 0) {
    lane->direct = 0;
    lane->state = NM_LANE_IDLE;
    nm_router_disarm(router, &lane->idle);
    (void)nm_engine_link_close(router->engine, ref, router->now);
  }
}

int nm_router_set_node(nm_router *router, const nm_destination_hash *node,
                       uint32_t cost, nm_now now) {
  router->now = now;
  if (cost > NM_STAMP_COST_MAX) {
    return NM_E(RANGE);
  }
  router->has_node = node != NULL;
  router->node_cost = cost;
  if (node != NULL) {
    router->node = *node;
  }
  return NM_OK;
}
