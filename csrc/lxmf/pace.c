/* What is done with a letter now, and the lanes that are run before a verb
 * returns. */
#include "lxmf/internal.h"

void nm_letter_step(nm_letter *letter) {
  if (letter->wait == NM_WAIT_VERDICT) {
    nm_letter_end(letter, NM_LXMF_SENT); /* the node said nothing against it */
    return;
  }
  if (letter->ended || letter->wait != NM_WAIT_NOTHING ||
      nm_letter_held(letter)) {
    return;
  }
  if (letter->method == NM_LXMF_OPPORTUNISTIC) {
    nm_opportunistic_step(letter);
  } else {
    nm_delivery_step(letter);
  }
}

static void run(nm_lane *lane) {
  nm_letter *letter = lane->first;
  while (letter != NULL && nm_lane_has_room(lane)) {
    nm_letter *next = letter->lane_next;
    nm_letter_step(letter);
    letter = next;
  }
}

/* What was held back for a slow path may go now. */
static void wake_all(nm_router *router) {
  for (nm_table_link *entry = nm_table_next(&router->lanes, NULL);
       entry != NULL; entry = nm_table_next(&router->lanes, entry)) {
    nm_lane *lane = (nm_lane *)(void *)entry;
    if (lane->first != NULL) {
      nm_lane_wake(lane);
    }
  }
}

void nm_router_settle(nm_router *router) {
  while (router->woken != NULL || router->slow_freed) {
    if (router->slow_freed) {
      router->slow_freed = false;
      wake_all(router);
    }
    nm_lane *lane = router->woken;
    if (lane != NULL) {
      router->woken = lane->next_woken;
      lane->woken = false;
      run(lane);
      nm_lane_maybe_free(lane);
    }
  }
}

void nm_lane_path(nm_lane *lane) {
  for (nm_letter *letter = lane->first, *next; letter != NULL; letter = next) {
    next = letter->lane_next;
    if (letter->awaiting_path) {
      nm_letter_step(letter);
    }
  }
}

void nm_lanes_online(nm_router *router, nm_iface_id iface) {
  if (router->letters.count == 0) {
    return;
  }
  for (nm_table_link *entry = nm_table_next(&router->lanes, NULL);
       entry != NULL; entry = nm_table_next(&router->lanes, entry)) {
    nm_lane *lane = (nm_lane *)(void *)entry;
    if (lane->first != NULL) {
      nm_gate_online(lane, iface);
    }
  }
}
