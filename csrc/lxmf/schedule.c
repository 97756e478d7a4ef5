/* When a letter is tried again, and when it has to wait for others (LXMF 4.6).
 */
#include "lxmf/internal.h"

/* |most| attempts, or what the step allows. A packet is one more than the
 * number compares with, a link one less (LXMF 4.6). */
uint32_t nm_letter_attempts(const nm_letter *letter, uint32_t most) {
  uint32_t own = letter->policy.steps[letter->step].attempts;
  if (own == 0) {
    return most;
  }
  own = letter->method == NM_LXMF_OPPORTUNISTIC ? own - 1 : own + 1;
  return own < most ? own : most;
}

void nm_letter_schedule(nm_letter *letter, bool after_path_request) {
  nm_router *router = letter->router;
  nm_lxmf_attempt attempt = {.after_path_request = after_path_request,
                             .attempts = letter->attempts,
                             .jitter = nm_router_random(router)};
  nm_lxmf_schedule schedule;
  if (after_path_request) {
    nm_lxmf_medium medium;
    nm_router_medium(router, &medium);
    attempt.round_trip_us = medium.timeout_us;
    letter->awaiting_path = true;
  } else {
    attempt.round_trip_us = nm_router_round_trip(router, &letter->lane->target);
  }
  nm_lxmf_schedule_attempt(&attempt, &schedule);
  if (!after_path_request && letter->policy.retry_wait_us != 0 &&
      !nm_lxmf_is_slow_path(attempt.round_trip_us)) {
    schedule.wait_us = letter->policy.retry_wait_us;
  }
  letter->attempts_max = nm_letter_attempts(letter, schedule.attempts_max);
  letter->receipt_timeout_us = schedule.receipt_timeout_us;
  letter->next_us = router->now.mono_us + schedule.wait_us;
}

void nm_letter_arm(nm_letter *letter) {
  nm_router *router = letter->router;
  uint64_t soonest = router->now.mono_us + 1;
  nm_router_arm(router, &letter->timer,
                letter->next_us + 1 > soonest ? letter->next_us + 1 : soonest);
}

bool nm_letter_due(const nm_letter *letter) {
  const nm_router *router = letter->router;
  return letter->next_us == 0 || router->now.mono_us > letter->next_us ||
         (letter->awaiting_path &&
          nm_router_has_path(router, &letter->lane->target));
}

/* Held: another for the same target is ahead, or any is in flight on a slow
 * path. */
bool nm_letter_held(const nm_letter *letter) {
  const nm_lane *lane = letter->lane;
  const nm_router *router = letter->router;
  if (letter->state != NM_LXMF_OUTBOUND ||
      !nm_lxmf_is_slow_path(nm_router_round_trip(router, &lane->target))) {
    return false;
  }
  return lane->first != letter || lane->in_flight > 0 ||
         router->slow_in_flight > 0;
}

/* An opportunistic message without a path asks for one first (LXMF 4.6). */
void nm_letter_begin_way(nm_letter *letter) {
  if (letter->method == NM_LXMF_OPPORTUNISTIC &&
      !nm_router_has_path(letter->router, &letter->recipient)) {
    letter->stage = NM_STAGE_PATH;
    nm_gate_ask(letter->lane);
    nm_letter_schedule(letter, true);
    nm_letter_arm(letter);
  } else {
    nm_lane_wake(letter->lane);
  }
}
