/* Starting the work for letters: the stamp that the recipient asks for, the
 * encrypted form and the stamp that a node asks for (LXMF 6, 8). */
#include "lxmf/internal.h"

#include "wire/lxmf_propagation.h"

#include <string.h>

/* What the node asks for; false when it is not known. */
static bool node_cost(nm_router *router, uint32_t *cost) {
  nm_lxmf_node node;
  *cost = router->node_cost;
  if (*cost > 0) {
    return true;
  }
  if (!nm_router_node_of(router, &node) || node.stamp_cost < 0 ||
      node.stamp_cost > NM_STAMP_COST_MAX) {
    return false;
  }
  *cost = (uint32_t)node.stamp_cost;
  return true;
}

static nm_work submit(nm_letter *letter, nm_mail_job *work) {
  letter->work = work;
  letter->wait = NM_WAIT_WORK;
  nm_router_submit(letter->router, work);
  return NM_WORK_UNDER_WAY;
}

static nm_work impossible(nm_letter *letter, nm_stage stage) {
  letter->stage = stage;
  return NM_WORK_IMPOSSIBLE;
}

static nm_work start_stamp(nm_letter *letter,
                           const uint8_t material[NM_HASH_SIZE], uint32_t cost,
                           uint32_t rounds) {
  nm_router *router = letter->router;
  nm_mail_job *work = nm_router_new_work(router, NM_MAIL_JOB_STAMP, letter);
  if (work == NULL || nm_entropy_fill(&router->entropy, work->search.prefix,
                                      sizeof(work->search.prefix)) != NM_OK) {
    nm_mail_job_free(work);
    return impossible(letter, NM_STAGE_NONE);
  }
  memcpy(work->id, material, NM_HASH_SIZE);
  work->cost = cost;
  work->rounds = rounds;
  return submit(letter, work);
}

/* One more request for the path to |target|, as often as the medium bears; what
 * it brings is looked at when it comes. */
static nm_work ask(nm_letter *letter, const nm_destination_hash *target,
                   nm_stage stage) {
  nm_lane *lane = nm_lane_of(letter->router, target);
  letter->attempts++;
  if (lane == NULL || letter->attempts >= letter->attempts_max) {
    return impossible(letter, stage);
  }
  letter->stage = stage;
  nm_gate_ask(lane);
  nm_letter_schedule(letter, true);
  nm_letter_arm(letter);
  return NM_WORK_UNDER_WAY;
}

/* The node's cost is asked for with its path. */
static nm_work ask_cost(nm_letter *letter) {
  if (!nm_letter_due(letter)) {
    nm_letter_arm(letter);
    return NM_WORK_UNDER_WAY;
  }
  return ask(letter, &letter->lane->target, NM_STAGE_PATH);
}

/* So are the keys of the recipient. A path without them does not help. */
static nm_work ask_identity(nm_letter *letter) {
  if (letter->next_us != 0 && letter->router->now.mono_us <= letter->next_us) {
    nm_letter_arm(letter);
    return NM_WORK_UNDER_WAY;
  }
  return ask(letter, &letter->recipient, NM_STAGE_IDENTITY);
}

/* From the recipient's lane, where it waited for the keys. */
static bool move_to_node(nm_letter *letter) {
  nm_lane *lane = nm_lane_of(letter->router, &letter->router->node);
  if (lane == letter->lane) {
    return true;
  }
  if (lane == NULL) {
    return false;
  }
  nm_lane_wake(letter->lane);
  nm_lane_leave(letter);
  nm_lane_join(lane, letter);
  nm_router_disarm(letter->router, &letter->timer);
  letter->attempts = 0;
  letter->next_us = 0;
  letter->awaiting_path = false;
  letter->stage = NM_STAGE_NONE;
  return true;
}

static nm_work start_seal(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_identity identity;
  if (!nm_engine_recall(router->engine, &letter->recipient, &identity, NULL,
                        NULL, router->now)) {
    return ask_identity(letter);
  }
  nm_mail_job *work = nm_router_new_work(router, NM_MAIL_JOB_SEAL, letter);
  if (work != NULL) {
    work->identity =
        nm_block_copy(router->mem, nm_span_of(&identity, sizeof(identity)));
    work->bytes = nm_block_hold(letter->packed);
    work->has_ratchet = nm_engine_ratchet_of(router->engine, &letter->recipient,
                                             work->ratchet, router->now);
  }
  if (work == NULL || work->identity == NULL || !move_to_node(letter) ||
      nm_entropy_fill(&router->entropy, work->ephemeral,
                      sizeof(work->ephemeral)) != NM_OK ||
      nm_entropy_fill(&router->entropy, work->iv, sizeof(work->iv)) != NM_OK) {
    nm_mail_job_free(work);
    return impossible(letter, NM_STAGE_NONE);
  }
  return submit(letter, work);
}

static nm_work start_node_work(nm_letter *letter) {
  uint32_t cost;
  uint8_t transient[NM_HASH_SIZE];
  if (letter->sealed != NULL) {
    return NM_WORK_NONE;
  }
  if (letter->data == NULL) {
    return start_seal(letter);
  }
  if (!node_cost(letter->router, &cost)) {
    return ask_cost(letter);
  }
  nm_lxmf_transient_id(nm_block_span(letter->data), transient);
  return start_stamp(letter, transient, cost, NM_LXMF_ROUNDS_PROPAGATION);
}

nm_work nm_letter_start_work(nm_letter *letter) {
  if (letter->work != NULL) {
    return NM_WORK_UNDER_WAY;
  }
  if (letter->stamp_cost > 0) {
    return start_stamp(letter, letter->id, letter->stamp_cost,
                       NM_LXMF_ROUNDS_MESSAGE);
  }
  return letter->method == NM_LXMF_PROPAGATED ? start_node_work(letter)
                                              : NM_WORK_NONE;
}
