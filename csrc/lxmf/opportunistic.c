/* OPPORTUNISTIC: single packets to the recipient, sent again until one is
 * proven (LXMF 4.1, 4.6).
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"

/* Among those that wait, where a path that comes finds it. */
static void wait_for_path(nm_letter *letter) {
  nm_lane_requeue(letter);
  nm_letter_arm(letter);
}

static void look_for_path(nm_letter *letter) {
  letter->attempts++;
  letter->sent_on_path = false;
  letter->stage = NM_STAGE_PATH;
  nm_gate_ask(letter->lane);
  nm_letter_schedule(letter, true);
  wait_for_path(letter);
}

static void rediscover(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_lxmf_medium medium;
  nm_router_medium(router, &medium);
  letter->attempts++;
  letter->sent_on_path = false;
  letter->awaiting_path = true;
  if (!nm_gate_pending(letter->lane)) {
    nm_gate_rediscover(letter->lane);
  }
  letter->next_us = router->now.mono_us + medium.path_wait_us;
  wait_for_path(letter);
}

static int send_packet(nm_letter *letter, nm_op_id *op) {
  nm_send_spec send;
  nm_send_spec_default(&send);
  send.destination = letter->recipient;
  send.payload = nm_lxmf_opportunistic(nm_block_span(letter->packed));
  send.receipt = true;
  send.timeout_us = letter->receipt_timeout_us;
  return nm_engine_send(letter->router->engine, &send, op, letter->router->now);
}

static void send(nm_letter *letter, bool has_path) {
  nm_router *router = letter->router;
  letter->attempts++;
  letter->sent_on_path = has_path;
  letter->sent_on_slow_path =
      nm_lxmf_is_slow_path(nm_router_round_trip(router, &letter->recipient));
  nm_letter_schedule(letter, false);
  nm_letter_arm(letter);
  nm_lane_unqueue(letter);
  letter->stage = NM_STAGE_PROOF;
  nm_op_id op = 0;
  /* A packet that does not leave is an attempt all the same. */
  if (send_packet(letter, &op) == NM_OK &&
      nm_router_own_op(router, op, letter, false) == NM_OK) {
    letter->receipts++;
    letter->packets[letter->attempts % NM_LETTER_PACKETS] = op;
    router->stats.packets++;
    nm_letter_flies(letter);
  }
  nm_letter_set(letter, NM_LXMF_SENT, 0.5);
}

void nm_opportunistic_step(nm_letter *letter) {
  const nm_router *router = letter->router;
  if (!nm_letter_due(letter)) {
    return;
  }
  nm_lxmf_standing standing = {
      .attempts = letter->attempts,
      .attempts_max = letter->attempts_max,
      .has_path = nm_router_has_path(router, &letter->recipient),
      .sent_on_path = letter->sent_on_path};
  letter->awaiting_path = false;
  switch (nm_lxmf_packet_step(&standing)) {
  case NM_LXMF_STEP_FAIL:
    nm_letter_exhausted(letter);
    return;
  case NM_LXMF_STEP_PATH:
    look_for_path(letter);
    return;
  case NM_LXMF_STEP_REDISCOVER:
    rediscover(letter);
    return;
  default:
    break;
  }
  if (letter->in_flight || nm_lane_has_room(letter->lane)) {
    send(letter, standing.has_path);
  } else {
    nm_lane_requeue(letter); /* it goes when there is room */
  }
}

void nm_opportunistic_receipt(nm_letter *letter, const nm_event *event) {
  if (letter->receipts > 0) {
    letter->receipts--;
  }
  if (event->status == NM_OK && event->state == NM_RECEIPT_DELIVERED) {
    letter->rtt_us = event->rtt_us;
    nm_letter_end(letter, NM_LXMF_DELIVERED);
  } else if (letter->receipts == 0 && letter->method == NM_LXMF_OPPORTUNISTIC) {
    nm_letter_landed(letter);
    nm_lane_wake(letter->lane);
  }
}
