/* DIRECT and PROPAGATED: over a link to the recipient or to the node (LXMF
 * 4.2, 4.3, 4.6, 8.2).
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_select.h"

/* A node proves a resource before it looks at the stamp, and closes the link
 * when that is too weak: only after this time without a word it is accepted. */
#define VERDICT_US 2000000u

/* ---- the bytes ---- */

/* [now, [sealed]] (LXMF 8.1). NULL without memory. */
static nm_block *container_of(const nm_letter *letter) {
  const nm_router *router = letter->router;
  nm_lxmf_element element = {.data = nm_block_span(letter->sealed)};
  size_t size = nm_lxmf_container_size(&element, 1);
  nm_block *block = nm_block_new(router->mem, size);
  if (block != NULL) {
    nm_writer w = nm_writer_of(nm_block_bytes(block), size);
    (void)nm_lxmf_container_encode((double)router->now.unix_us / 1e6, &element,
                                   1, &w);
  }
  return block;
}

static nm_lxmf_representation form_of(const nm_letter *letter, nm_span bytes) {
  nm_lxmf_choice choice;
  int64_t size = letter->method == NM_LXMF_PROPAGATED
                     ? (int64_t)bytes.len
                     : nm_lxmf_content_size(bytes.len - NM_LXMF_HEADER_SIZE);
  return nm_lxmf_select(letter->method, size, &choice) == NM_OK
             ? choice.representation
             : NM_LXMF_RESOURCE;
}

/* Compression is offered unless the recipient says that it takes none (LXMF
 * 4.3). */
static nm_resource_compression compression_of(const nm_letter *letter) {
  nm_lxmf_delivery delivery;
  if (letter->method == NM_LXMF_DIRECT &&
      nm_router_delivery_of(letter->router, &letter->recipient, &delivery) &&
      delivery.compression == NM_LXMF_SUPPORT_NO) {
    return NM_RESOURCE_COMPRESS_OFF;
  }
  return NM_RESOURCE_COMPRESS_AUTOMATIC;
}

static int put(nm_letter *letter, nm_link_ref link, nm_block *bytes,
               nm_op_id *op) {
  nm_router *router = letter->router;
  if (letter->representation == NM_LXMF_PACKET) {
    return nm_engine_link_send(router->engine, link, nm_block_span(bytes), true,
                               letter->receipt_timeout_us, op, NULL,
                               router->now);
  }
  return nm_engine_resource_send(router->engine, link, bytes,
                                 nm_span_of(NULL, 0), compression_of(letter), 0,
                                 op, router->now);
}

static int put_on(nm_letter *letter, nm_link_ref link) {
  nm_router *router = letter->router;
  nm_block *bytes = letter->method == NM_LXMF_PROPAGATED
                        ? container_of(letter)
                        : nm_block_hold(letter->packed);
  if (bytes == NULL) {
    return NM_E(MEMORY);
  }
  letter->representation = form_of(letter, nm_block_span(bytes));
  nm_op_id op = 0;
  int status = put(letter, link, bytes, &op);
  nm_block_drop(bytes);
  if (status == NM_OK) {
    status = nm_router_own_op(router, op, letter, true);
  }
  letter->op = status == NM_OK ? op : 0;
  return status;
}

/* ---- an attempt ---- */

/* The link that the letter was on is no good. */
static void fail_link(nm_letter *letter) {
  nm_lane *lane = letter->lane;
  nm_lane_requeue(letter);
  nm_letter_set(letter, NM_LXMF_OUTBOUND, letter->progress);
  nm_lane_fail_link(lane, letter->over);
  nm_lane_wake(lane);
}

static void send_over(nm_letter *letter, nm_link_ref link) {
  nm_router *router = letter->router;
  nm_lane *lane = letter->lane;
  letter->over = link;
  letter->sent_on_slow_path =
      nm_lxmf_is_slow_path(nm_router_round_trip(router, &lane->target));
  if (put_on(letter, link) != NM_OK) {
    letter->stage = NM_STAGE_SEND;
    fail_link(letter);
    return;
  }
  bool packet = letter->representation == NM_LXMF_PACKET;
  *(packet ? &router->stats.packets : &router->stats.resources) += 1;
  letter->wait = NM_WAIT_PROOF;
  letter->stage = packet ? NM_STAGE_PROOF : NM_STAGE_TRANSFER;
  nm_router_disarm(router, &letter->timer);
  nm_lane_unqueue(letter);
  nm_letter_flies(letter);
  nm_lane_used(lane);
  nm_letter_set(letter, NM_LXMF_SENDING, packet ? 0.5 : 0.1);
}

/* All that wait for the same link count the attempt, so that each ends in
 * bounded time however many they are. */
static void charge_others(const nm_letter *letter) {
  for (nm_letter *other = letter->lane->first; other != NULL;
       other = other->lane_next) {
    if (other != letter && other->wait == NM_WAIT_NOTHING) {
      other->attempts++;
    }
  }
}

static void attempt(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_lane *lane = letter->lane;
  letter->attempts++;
  letter->awaiting_path = false;
  nm_letter_schedule(letter, false);
  nm_lxmf_standing standing = {.attempts = letter->attempts,
                               .attempts_max = letter->attempts_max,
                               .has_path =
                                   nm_router_has_path(router, &lane->target)};
  nm_lxmf_step step = nm_lxmf_link_step(&standing);
  if (step == NM_LXMF_STEP_FAIL) {
    nm_letter_exhausted(letter);
    return;
  }
  if (step == NM_LXMF_STEP_LINK && nm_lane_open(lane)) {
    letter->stage = NM_STAGE_LINK;
    nm_letter_set(letter, letter->state, 0.03);
    charge_others(letter);
    return;
  }
  letter->stage = NM_STAGE_PATH;
  nm_gate_ask(lane);
  nm_letter_schedule(letter, true);
  nm_letter_arm(letter);
  nm_letter_set(letter, letter->state, 0.01);
}

void nm_delivery_step(nm_letter *letter) {
  nm_lane *lane = letter->lane;
  nm_work work = nm_letter_start_work(letter);
  if (work == NM_WORK_IMPOSSIBLE) {
    nm_letter_exhausted(letter);
  }
  if (work != NM_WORK_NONE) {
    return;
  }
  nm_link_ref link = nm_lane_link(lane);
  if (link != 0 && letter->attempts <= letter->attempts_max) {
    if (nm_lane_has_room(lane)) {
      send_over(letter, link);
    }
  } else if (lane->state != NM_LANE_OPENING) {
    if (nm_letter_due(letter)) {
      attempt(letter);
    } else {
      nm_letter_arm(letter);
    }
  }
}

/* ---- how it ended ---- */

/* After the first delivery on a link of ours we say who we are, once, and from
 * then on take what the recipient sends on it (LXMF 4.4). */
static void identify(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_lane *lane = letter->lane;
  const nm_mailbox *mailbox = nm_mailbox_find(router, &letter->mailbox);
  nm_line *line = nm_line_find(router, letter->over);
  if (lane->identified || letter->over != lane->direct || mailbox == NULL ||
      line == NULL) {
    return;
  }
  lane->identified = true;
  line->mailbox = mailbox->hash;
  (void)nm_engine_link_set_prove(router->engine, letter->over, NM_PROVE_ALL,
                                 true);
  (void)nm_engine_link_policy(router->engine, letter->over, NM_ACCEPT_ALL, true,
                              (size_t)mailbox->limit_kb * 1000);
  (void)nm_engine_link_identify(router->engine, letter->over,
                                nm_mailbox_identity(mailbox), router->now);
}

static void succeeded(nm_letter *letter, const nm_event *event) {
  nm_router *router = letter->router;
  letter->rtt_us = event->rtt_us;
  nm_lane_used(letter->lane);
  if (letter->method == NM_LXMF_DIRECT) {
    identify(letter);
    nm_letter_end(letter, NM_LXMF_DELIVERED);
  } else if (letter->representation == NM_LXMF_PACKET) {
    nm_letter_end(letter, NM_LXMF_SENT);
  } else {
    letter->wait = NM_WAIT_VERDICT;
    nm_router_arm(router, &letter->timer, router->now.mono_us + VERDICT_US);
  }
}

static bool is_success(const nm_event *event) {
  return event->status == NM_OK && (event->kind == NM_EVENT_RECEIPT
                                        ? event->state == NM_RECEIPT_DELIVERED
                                        : event->state == NM_RESOURCE_COMPLETE);
}

void nm_delivery_done(nm_letter *letter, const nm_event *event) {
  letter->op = 0;
  if (is_success(event)) {
    succeeded(letter, event);
  } else if (event->stage == NM_STAGE_REFUSED) {
    letter->stage = NM_STAGE_REFUSED;
    nm_letter_end(letter, NM_LXMF_REJECTED);
  } else {
    letter->wait = NM_WAIT_NOTHING;
    nm_letter_landed(letter);
    fail_link(letter);
  }
}

void nm_delivery_signal(nm_lane *lane, nm_span payload) {
  uint64_t code = 0;
  nm_fault fault;
  if (lane->flying != NULL &&
      nm_lxmf_signal_decode(payload, &code, &fault) == NM_OK &&
      code == NM_LXMF_ERROR_INVALID_STAMP) {
    nm_letter_end(lane->flying, NM_LXMF_REJECTED);
  }
}
