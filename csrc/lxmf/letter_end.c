/* How a letter ends: once, told of, and with nothing of it left under way. */
#include "lxmf/internal.h"
#include "lxmf/tickets.h"

static void count_end(nm_router_stats *stats, nm_lxmf_state state) {
  switch (state) {
  case NM_LXMF_DELIVERED:
    stats->delivered++;
    break;
  case NM_LXMF_SENT:
    stats->propagated++;
    break;
  case NM_LXMF_REJECTED:
    stats->rejected++;
    break;
  case NM_LXMF_CANCELLED:
    stats->cancelled++;
    break;
  default:
    stats->failed++;
    break;
  }
}

static void stop_work(nm_letter *letter) {
  nm_mail_job *work = letter->work;
  if (work != NULL) {
    atomic_store(&work->stop, true);
    work->owner = NULL;
    letter->work = NULL;
  }
}

void nm_letter_ground(nm_letter *letter) {
  nm_router *router = letter->router;
  stop_work(letter);
  if (letter->op != 0) {
    (void)nm_engine_cancel(router->engine, letter->op, router->now);
    letter->op = 0;
  }
  if (letter->lane != NULL) {
    nm_lane_wake(letter->lane);
    nm_lane_leave(letter);
  }
}

static void quiet(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_router_disarm(router, &letter->timer);
  nm_router_disarm(router, &letter->budget);
  nm_router_disarm(router, &letter->limit);
}

/* No proof of its packets is waited for any more. */
static void forget_packets(nm_letter *letter) {
  if (letter->receipts == 0) {
    return;
  }
  letter->receipts = 0;
  for (int i = 0; i < NM_LETTER_PACKETS; i++) {
    if (letter->packets[i] != 0) {
      nm_router_drop_op(letter->router, letter->packets[i]);
    }
  }
}

void nm_letter_end(nm_letter *letter, nm_lxmf_state state) {
  nm_router *router = letter->router;
  if (letter->ended) {
    return;
  }
  letter->ended = true;
  letter->state = state;
  letter->progress =
      state == NM_LXMF_DELIVERED || state == NM_LXMF_SENT ? 1.0 : 0.0;
  if (state != NM_LXMF_FAILED) {
    letter->stage = NM_STAGE_NONE;
  }
  quiet(letter);
  nm_letter_ground(letter);
  forget_packets(letter);
  if (state == NM_LXMF_DELIVERED && letter->carries_ticket) {
    /* Without memory the next message carries one again. */
    (void)nm_router_ticket_delivered(router, &letter->recipient,
                                     (double)router->now.unix_us / 1e6);
  }
  count_end(&router->stats, state);
  nm_letter_tell(letter, false);
}

void nm_letter_free(nm_router *router, nm_letter *letter) {
  quiet(letter);
  stop_work(letter);
  nm_lane_leave(letter);
  router->timers_reserved -= NM_LETTER_TIMERS;
  nm_block_drop(letter->packed);
  nm_block_drop(letter->data);
  nm_block_drop(letter->sealed);
  nm_release(router->mem, letter);
}
