/* Which way a letter is tried (LXMF 3.2, 4.6). */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_select.h"

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

static void start_step(nm_letter *letter) {
  const nm_policy_step *step = &letter->policy.steps[letter->step];
  nm_router *router = letter->router;
  letter->method = step->method;
  letter->representation = NM_LXMF_PACKET;
  letter->attempts = 0;
  letter->attempts_max = nm_letter_attempts(letter, NM_LXMF_ATTEMPTS_MAX);
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

/* What is encrypted for a recipient that is not known yet waits with what is
 * for the recipient itself, and goes to the node from there. */
static const nm_destination_hash *leads_to(const nm_letter *letter) {
  bool to_node = letter->method == NM_LXMF_PROPAGATED &&
                 (letter->sealed != NULL || letter->data != NULL ||
                  nm_router_knows(letter->router, &letter->recipient));
  return to_node ? &letter->router->node : &letter->recipient;
}

/* The step that the letter stands at, or a later one that is possible; false
 * when none is left. */
static bool enter_step(nm_letter *letter) {
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
  nm_lane *lane = nm_lane_of(router, leads_to(letter));
  if (lane != NULL) {
    nm_lane_join(lane, letter);
  }
  return lane != NULL;
}

/* What comes next in the step: more work, or the first attempt. */
static nm_work go_on(nm_letter *letter) {
  nm_work work = nm_letter_start_work(letter);
  if (work == NM_WORK_NONE) {
    nm_letter_set(letter, NM_LXMF_OUTBOUND, letter->progress);
    nm_letter_begin_way(letter);
  }
  return work;
}

bool nm_policy_begin(nm_letter *letter) {
  while (enter_step(letter)) {
    if (go_on(letter) != NM_WORK_IMPOSSIBLE) {
      return true;
    }
    letter->step++;
  }
  return false;
}

void nm_policy_go_on(nm_letter *letter) {
  if (go_on(letter) == NM_WORK_IMPOSSIBLE) {
    nm_letter_exhausted(letter);
  }
}

void nm_letter_exhausted(nm_letter *letter) {
  letter->step++;
  if (!nm_policy_begin(letter)) {
    nm_letter_end(letter, NM_LXMF_FAILED);
  }
}
