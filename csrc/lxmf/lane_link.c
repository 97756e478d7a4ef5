/* What becomes of a lane's link, and of the letters that wait for it (LXMF
 * 4.6). */
#include "lxmf/internal.h"

void nm_lane_active(nm_lane *lane, nm_link_ref ref) {
  if (lane->direct == ref && lane->state == NM_LANE_OPENING) {
    lane->state = NM_LANE_ACTIVE;
    nm_lane_used(lane);
    nm_lane_wake(lane);
  }
}

/* Our link ended by itself: those that waited for it wait for the next attempt
 * (LXMF 4.6). What was in flight hears of its own end. */
static void lost(nm_lane *lane, bool was_active) {
  bool ask = !nm_lane_is_node(lane) && was_active;
  for (nm_letter *letter = lane->first; letter != NULL;
       letter = letter->lane_next) {
    if (letter->method == NM_LXMF_DIRECT && !was_active &&
        !letter->path_asked) {
      letter->path_asked = true;
      ask = true;
    }
    if (letter->wait == NM_WAIT_NOTHING &&
        letter->attempts + 1 < letter->attempts_max) {
      nm_letter_schedule(letter, false);
    }
    nm_letter_arm(letter);
  }
  if (ask && lane->first != NULL) {
    nm_gate_ask(lane);
  }
}

void nm_lane_fail_link(nm_lane *lane, nm_link_ref ref) {
  if (ref == lane->direct) {
    nm_lane_drop_link(lane);
  } else if (ref == lane->back) {
    lane->back = 0;
    (void)nm_engine_link_close(lane->router->engine, ref, lane->router->now);
  } else {
    return; /* it was replaced meanwhile */
  }
  lost(lane, true);
}

void nm_lane_closed(nm_lane *lane, nm_link_ref ref) {
  if (lane->back == ref) {
    lane->back = 0;
  }
  if (lane->direct == ref) {
    bool was_active = lane->state == NM_LANE_ACTIVE;
    lane->direct = 0;
    lane->state = NM_LANE_IDLE;
    nm_router_disarm(lane->router, &lane->idle);
    if (lane->flying != NULL && lane->flying->wait == NM_WAIT_VERDICT) {
      nm_letter_end(lane->flying, NM_LXMF_REJECTED);
    }
    lost(lane, was_active);
  }
  nm_lane_wake(lane);
}
