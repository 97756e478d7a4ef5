/* What the loop itself costs. */
#include "bench.h"

typedef struct empty {
  size_t count;
  size_t seen;
  uint8_t evidence[8];
} empty;

static int empty_prepare(const nb_row *row, void **state) {
  empty *e = nb_state(state, sizeof *e);
  if (e == NULL) {
    return NM_E(MEMORY);
  }
  e->count = row->inputs;
  return NM_OK;
}

static inline int empty_once(empty *e, size_t input) {
  e->seen = input;
  nb_use(e);
  return NM_OK;
}

NB_RUN(empty_run, empty, empty_once);

static int empty_check(void *state, size_t input, nm_span *evidence) {
  empty *e = (empty *)state;
  if (e->seen != input) {
    return NM_E(MISMATCH);
  }
  for (size_t i = 0; i < sizeof e->evidence; i++) {
    e->evidence[i] = (uint8_t)((uint64_t)input >> (8 * i));
  }
  *evidence = nm_span_of(e->evidence, sizeof e->evidence);
  return NM_OK;
}

static void empty_dispose(void *state) {
  nm_release(&nm_mem_system, state);
}

const nb_row nb_control_rows[] = {
    {.id = "control.empty",
     .note = "no operation: the loop and the rotation of the input number",
     .inputs = NB_COUNT,
     .prepare = empty_prepare,
     .run = empty_run,
     .check = empty_check,
     .dispose = empty_dispose},
    {.id = NULL},
};
