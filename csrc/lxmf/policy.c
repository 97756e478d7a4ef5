/* Which way a letter is tried, when it is tried again, and when it has to wait
 * for others (LXMF 3.2, 4.6).
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_select.h"

/* ---- which way ---- */

/* What a stamp adds to the payload: its bytes and their header. */
#define STAMP_ROOM (NM_LXMF_STAMP_SIZE + 2)

static int64_t content_size(const nm_letter *letter) {
  size_t stamp = letter->stamp_cost > 0 ? STAMP_ROOM : 0;
  size_t packed = nm_block_span(letter->packed).len + stamp;
  return nm_lxmf_content_size(packed - NM_LXMF_HEADER_SIZE);
}

/* The node's limit for one message, from its announce; 0 when unknown. */
static double node_limit(nm_router *router) {
  nm_lxmf_node node;
  return nm_router_node_of(router, &node) ? node.transfer_limit_kb : 0;
}

static int propagates(const nm_letter *letter) {
  nm_router *router = letter->router;
  if (!router->has_node) {
    return NM_E(MISSING);
  }
  double limit = node_limit(router);
  size_t size =
      nm_lxmf_data_size(nm_block_span(letter->packed).len) + NM_LXMF_STAMP_SIZE;
  return limit > 0 && (double)size > limit * 1000 ? NM_E(TOO_LARGE) : NM_OK;
}

/* Whether the way of |step| can carry the letter. */
static int can(const nm_letter *letter, uint32_t step) {
  switch (letter->policy.steps[step].method) {
  case NM_LXMF_OPPORTUNISTIC:
    return content_size(letter) <= NM_LXMF_ENCRYPTED_PACKET_MAX_CONTENT
               ? NM_OK
               : NM_E(TOO_LARGE);
  case NM_LXMF_PROPAGATED:
    return propagates(letter);
  default:
    return NM_OK;
  }
}

/* Without a path a packet waits for one, while a link that is open needs none:
 * a link of the next step goes first. */
static bool leaps(const nm_letter *letter) {
  const nm_policy *policy = &letter->policy;
  uint32_t next = letter->step + 1;
  if (policy->steps[letter->step].method != NM_LXMF_OPPORTUNISTIC ||
      next >= policy->count || policy->steps[next].method != NM_LXMF_DIRECT ||
      nm_router_has_path(letter->router, &letter->recipient)) {
    return false;
  }
  const nm_lane *lane = nm_lane_find(letter->router, &letter->recipient);
  return lane != NULL && nm_lane_link(lane) != 0;
}

int nm_policy_check(const nm_letter *letter) {
  int status = NM_E(TOO_LARGE);
  for (uint32_t i = 0; i < letter->policy.count; i++) {
    status = can(letter, i);
    if (status == NM_OK) {
      return NM_OK;
    }
  }
  return status;
}

/* |most| attempts, or what the step allows. A packet is one more than the
 * number compares with, a link one less (LXMF 4.6). */
static uint32_t attempts_of(const nm_letter *letter, uint32_t most) {
  uint32_t own = letter->policy.steps[letter->step].attempts;
  if (own == 0) {
    return most;
  }
  own = letter->method == NM_LXMF_OPPORTUNISTIC ? own - 1 : own + 1;
  return own < most ? own : most;
}

static void start_step(nm_letter *letter) {
  const nm_policy_step *step = &letter->policy.steps[letter->step];
  nm_router *router = letter->router;
  letter->method = step->method;
  letter->representation = NM_LXMF_PACKET;
  letter->attempts = 0;
  letter->attempts_max = attempts_of(letter, NM_LXMF_ATTEMPTS_MAX);
  letter->next_us = 0;
  letter->awaiting_path = false;
  letter->sent_on_path = false;
  letter->sent_on_slow_path = false;
  letter->path_asked = false;
  letter->wait = NM_WAIT_NOTHING;
  letter->stage = NM_STAGE_NONE;
  if (step->budget_us != 0) {
    nm_router_arm(router, &letter->budget,
                  router->now.mono_us + step->budget_us);
  }
}

bool nm_policy_begin(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_router_disarm(router, &letter->budget);
  nm_router_disarm(router, &letter->timer);
  nm_letter_ground(letter);
  while (letter->step < letter->policy.count &&
         (can(letter, letter->step) != NM_OK || leaps(letter))) {
    letter->step++;
  }
  if (letter->step == letter->policy.count) {
    return false;
  }
  start_step(letter);
  nm_lane *lane = nm_lane_of(router, letter->method == NM_LXMF_PROPAGATED
                                         ? &router->node
                                         : &letter->recipient);
  if (lane == NULL) {
    return false;
  }
  nm_lane_join(lane, letter);
  if (!nm_letter_start_work(letter)) {
    nm_letter_set(letter, NM_LXMF_OUTBOUND, letter->progress);
    nm_letter_begin_way(letter);
  }
  return true;
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

/* ---- when ---- */

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
  letter->attempts_max = attempts_of(letter, schedule.attempts_max);
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

void nm_letter_step(nm_letter *letter) {
  if (letter->wait == NM_WAIT_VERDICT) {
    nm_delivery_verdict(letter, true);
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
