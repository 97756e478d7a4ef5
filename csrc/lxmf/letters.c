/* Letters: checked, begun, cancelled. */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"

#include <string.h>

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
  if (nm_router_reserve_timers(router, NM_LETTER_TIMERS) != NM_OK) {
    return NULL;
  }
  nm_letter *letter = nm_alloc_zero(router->mem, 1, sizeof(*letter));
  if (letter == NULL) {
    router->timers_reserved -= NM_LETTER_TIMERS;
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
