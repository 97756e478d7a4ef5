/* Path requests: each of the router's goes through here, so that one target is
 * not asked for more often than the medium bears (LXMF 4.6).
 */
#include "lxmf/internal.h"

static void ask(nm_lane *lane) {
  nm_router *router = lane->router;
  lane->asked = true;
  lane->asked_us = router->now.mono_us;
  router->stats.path_requests++;
  /* Nothing that could carry it: the letters wait for the next chance. */
  (void)nm_engine_request_path(router->engine, &lane->target, 0, NULL, 0, NULL,
                               router->now);
}

static uint64_t since_asked(const nm_lane *lane) {
  return lane->router->now.mono_us - lane->asked_us;
}

void nm_gate_ask(nm_lane *lane) {
  nm_lxmf_medium medium;
  nm_router_medium(lane->router, &medium);
  if (lane->asked && !nm_lxmf_path_request_due(&medium, since_asked(lane))) {
    lane->router->stats.path_requests_spared++;
    return;
  }
  ask(lane);
}

void nm_gate_online(nm_lane *lane, nm_iface_id iface) {
  nm_router *router = lane->router;
  if (lane->asked && !nm_router_has_path(router, &lane->target) &&
      nm_engine_request_path(router->engine, &lane->target, iface, NULL, 0,
                             NULL, router->now) == NM_OK) {
    lane->asked_us = router->now.mono_us;
    router->stats.path_requests++;
  }
}

bool nm_gate_pending(const nm_lane *lane) {
  nm_lxmf_medium medium;
  nm_router_medium(lane->router, &medium);
  return lane->asked &&
         nm_lxmf_path_request_pending(&medium, since_asked(lane));
}

void nm_gate_rediscover(nm_lane *lane) {
  nm_router *router = lane->router;
  (void)nm_engine_drop_path(router->engine, &lane->target, router->now);
  nm_router_arm(router, &lane->rediscover,
                router->now.mono_us + NM_LXMF_PENDING_REDISCOVERY_US);
}

void nm_gate_rediscover_due(void *user, nm_timer *timer) {
  (void)user;
  ask((nm_lane *)(void *)((char *)timer - offsetof(nm_lane, rediscover)));
}
