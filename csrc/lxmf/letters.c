/* Letters: begun, told of, ended once. */
#include "lxmf/internal.h"
#include "lxmf/tickets.h"

#include "wire/lxmf_message.h"

#include <string.h>

#define LETTER_TIMERS 3

nm_letter *nm_letter_find(const nm_router *router,
                          const uint8_t id[NM_HASH_SIZE]) {
  return (nm_letter *)(void *)nm_table_find(&router->letters, id);
}

void nm_letter_tell(nm_letter *letter, bool worked) {
  nm_router *router = letter->router;
  letter->worked = letter->worked || worked;
  if (letter->has_news) {
    return;
  }
  letter->has_news = true;
  letter->news_next = NULL;
  if (router->news_last != NULL) {
    router->news_last->news_next = letter;
  } else {
    router->news_first = letter;
  }
  router->news_last = letter;
}

void nm_letter_set(nm_letter *letter, nm_lxmf_state state, double progress) {
  if (letter->state != state || letter->progress < progress) {
    letter->state = state;
    letter->progress = progress;
    nm_letter_tell(letter, false);
  }
}

/* ---- in flight ---- */

void nm_letter_flies(nm_letter *letter) {
  if (!letter->in_flight) {
    letter->in_flight = true;
    letter->lane->in_flight++;
    letter->lane->flying = letter;
    letter->router->in_flight_all++;
    if (letter->sent_on_slow_path) {
      letter->counts_slow = true;
      letter->router->slow_in_flight++;
    }
  }
}

void nm_letter_landed(nm_letter *letter) {
  if (letter->in_flight) {
    letter->in_flight = false;
    letter->lane->in_flight--;
    if (letter->lane->flying == letter) {
      letter->lane->flying = NULL;
    }
    letter->router->in_flight_all--;
  }
  if (letter->counts_slow) {
    letter->counts_slow = false;
    letter->router->slow_in_flight--;
    letter->router->slow_freed = true;
  }
}

/* ---- the end ---- */

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
  nm_opportunistic_forget(letter);
  if (state == NM_LXMF_DELIVERED && letter->carries_ticket) {
    /* Without memory the next message carries one again. */
    (void)nm_router_ticket_delivered(router, &letter->recipient,
                                     (double)router->now.unix_us / 1e6);
  }
  count_end(&router->stats, state);
  nm_letter_tell(letter, false);
}

void nm_letter_exhausted(nm_letter *letter) {
  letter->step++;
  if (!nm_policy_begin(letter)) {
    nm_letter_end(letter, NM_LXMF_FAILED);
  }
}

void nm_letter_free(nm_router *router, nm_letter *letter) {
  quiet(letter);
  stop_work(letter);
  nm_lane_leave(letter);
  router->timers_reserved -= LETTER_TIMERS;
  nm_block_drop(letter->packed);
  nm_block_drop(letter->data);
  nm_block_drop(letter->sealed);
  nm_release(router->mem, letter);
}

/* ---- the beginning ---- */

static nm_letter *letter_of(void *timer, size_t offset) {
  return (nm_letter *)(void *)((char *)timer - offset);
}

static void attempt_due(void *user, nm_timer *timer) {
  (void)user;
  nm_letter_step(letter_of(timer, offsetof(nm_letter, timer)));
}

static void budget_due(void *user, nm_timer *timer) {
  (void)user;
  nm_letter_exhausted(letter_of(timer, offsetof(nm_letter, budget)));
}

static void limit_due(void *user, nm_timer *timer) {
  (void)user;
  nm_letter_end(letter_of(timer, offsetof(nm_letter, limit)), NM_LXMF_FAILED);
}

static int read_packed(nm_router *router, nm_letter *letter,
                       nm_lxmf_view *view) {
  nm_fault fault;
  int status =
      nm_lxmf_decode(nm_block_span(letter->packed), NULL, view, &fault);
  if (status != NM_OK) {
    return status;
  }
  nm_buffer scratch;
  nm_buffer_init(&scratch, router->mem, NULL, 0, 0);
  status = nm_lxmf_message_id(view, &scratch, letter->id);
  nm_buffer_dispose(&scratch);
  letter->recipient = view->destination;
  return status;
}

static nm_letter *new_letter(nm_router *router, const nm_letter_spec *spec) {
  if (nm_router_reserve_timers(router, LETTER_TIMERS) != NM_OK) {
    return NULL;
  }
  nm_letter *letter = nm_alloc_zero(router->mem, 1, sizeof(*letter));
  if (letter == NULL) {
    router->timers_reserved -= LETTER_TIMERS;
    return NULL;
  }
  letter->router = router;
  letter->number = ++router->next_number;
  letter->mailbox = spec->mailbox;
  letter->policy = spec->policy;
  letter->carries_ticket = spec->carries_ticket;
  letter->timer.fire = attempt_due;
  letter->budget.fire = budget_due;
  letter->limit.fire = limit_due;
  letter->packed = nm_block_copy(router->mem, spec->packed);
  if (spec->sealed.len > 0) {
    letter->sealed = nm_block_copy(router->mem, spec->sealed);
  }
  if (letter->packed == NULL ||
      (spec->sealed.len > 0 && letter->sealed == NULL)) {
    nm_letter_free(router, letter);
    return NULL;
  }
  return letter;
}

static int check(const nm_router *router, const nm_letter_spec *spec) {
  if (spec->policy.count == 0 || spec->policy.count > NM_POLICY_STEPS) {
    return NM_E(ARGUMENT);
  }
  for (uint32_t i = 0; i < spec->policy.count; i++) {
    nm_lxmf_method method = spec->policy.steps[i].method;
    if (method != NM_LXMF_OPPORTUNISTIC && method != NM_LXMF_DIRECT &&
        method != NM_LXMF_PROPAGATED) {
      return NM_E(ARGUMENT);
    }
  }
  if (!spec->bare && nm_mailbox_find(router, &spec->mailbox) == NULL) {
    return NM_E(MISSING);
  }
  return router->letters.count >= router->limits.letters ? NM_E(LIMIT) : NM_OK;
}

/* A letter that may begin; the caller's. */
static int make_letter(nm_router *router, const nm_letter_spec *spec,
                       nm_letter **made, nm_lxmf_view *view) {
  int status = check(router, spec);
  if (status != NM_OK) {
    return status;
  }
  nm_letter *letter = new_letter(router, spec);
  if (letter == NULL) {
    return NM_E(MEMORY);
  }
  status = read_packed(router, letter, view);
  if (status == NM_OK && nm_letter_find(router, letter->id) != NULL) {
    status = NM_E(DUPLICATE_KEY);
  }
  if (status == NM_OK) {
    status = nm_policy_check(letter);
  }
  if (status != NM_OK) {
    nm_letter_free(router, letter);
    return status;
  }
  *made = letter;
  return NM_OK;
}

int nm_router_check(nm_router *router, const nm_letter_spec *spec,
                    uint8_t id[NM_HASH_SIZE], nm_now now) {
  nm_letter *letter;
  nm_lxmf_view view;
  router->now = now;
  int status = make_letter(router, spec, &letter, &view);
  if (status == NM_OK) {
    memcpy(id, letter->id, NM_HASH_SIZE);
    nm_letter_free(router, letter);
  }
  return status;
}

int nm_router_send(nm_router *router, const nm_letter_spec *spec,
                   uint8_t id[NM_HASH_SIZE], nm_now now) {
  nm_letter *letter;
  nm_lxmf_view view;
  router->now = now;
  int status = make_letter(router, spec, &letter, &view);
  if (status != NM_OK) {
    return status;
  }
  status = nm_table_insert(&router->letters, &letter->link);
  if (status != NM_OK) {
    nm_letter_free(router, letter);
    return status;
  }
  memcpy(id, letter->id, NM_HASH_SIZE);
  router->stats.sent++;
  nm_letter_set_stamp(letter, spec, view.count > 4);
  if (spec->timeout_us != 0) {
    nm_router_arm(router, &letter->limit, now.mono_us + spec->timeout_us);
  }
  if (!nm_policy_begin(letter)) {
    nm_letter_end(letter, NM_LXMF_FAILED);
  }
  nm_router_settle(router);
  return NM_OK;
}

int nm_router_cancel(nm_router *router, const uint8_t id[NM_HASH_SIZE],
                     nm_now now) {
  router->now = now;
  nm_letter *letter = nm_letter_find(router, id);
  if (letter == NULL || letter->ended) {
    return NM_E(STATE);
  }
  nm_letter_end(letter, NM_LXMF_CANCELLED);
  nm_router_settle(router);
  return NM_OK;
}
