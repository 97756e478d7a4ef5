/* What commands of mail are given as "spec", and the router's figures. */
#include "py/node.h"
#include "py/stack_tables.h"

/* ------------------------------------------------------------------- specs */

#define BOX(name, kind, min, max)                                              \
  NM_PY_COLUMN_IN(#name, kind, nm_mailbox_spec, name, min, max)

static const nm_py_column mailbox_columns[] = {
    BOX(stamp_cost, U32, 0, UINT32_MAX), BOX(enforce_stamps, BOOL, 0, 0),
    BOX(limit_kb, U32, 0, UINT32_MAX),   BOX(ratchets, BOOL, 0, 0),
    BOX(enforce_ratchets, BOOL, 0, 0),
};

#define LETTER(name, kind, min, max)                                           \
  NM_PY_COLUMN_IN(#name, kind, nm_letter_spec, name, min, max)

static const nm_py_column letter_columns[] = {
    LETTER(mailbox, DESTINATION, 0, 0),
    LETTER(stamp_cost, U32, 0, UINT32_MAX),
    LETTER(stamp_auto, BOOL, 0, 0),
    LETTER(carries_ticket, BOOL, 0, 0),
    LETTER(timeout_us, U64, 0, NM_PY_US_MAX),
    LETTER(bare, BOOL, 0, 0),
    NM_PY_COLUMN_IN("retry_wait_us", U64, nm_letter_spec, policy.retry_wait_us,
                    0, NM_PY_US_MAX),
};

#define SYNC(name, kind, min, max)                                             \
  NM_PY_COLUMN_IN(#name, kind, nm_mail_sync, name, min, max)

static const nm_py_column sync_columns[] = {
    SYNC(has_node, BOOL, 0, 0),
    SYNC(node, DESTINATION, 0, 0),
    SYNC(most, U32, 0, UINT32_MAX),
    SYNC(retain, BOOL, 0, 0),
};

#define READ(columns, out)                                                     \
  nm_py_columns_read(state, given, columns, NM_PY_COLUMN_COUNT(columns),       \
                     "command", out)

/* One (method, budget in microseconds, attempts). */
static int read_step(PyObject *given, nm_policy_step *step) {
  long long method;
  long long budget;
  long long attempts = 0;
  Py_ssize_t size = PyTuple_Check(given) ? PyTuple_GET_SIZE(given) : 0;
  if (size != 2 && size != 3) {
    return nm_py_type_error("command", "spec",
                            "steps (method, budget_us, attempts)", given);
  }
  if (size == 3 && nm_py_int(PyTuple_GET_ITEM(given, 2), "command", "attempts",
                             0, UINT32_MAX, &attempts) < 0) {
    return -1;
  }
  if (nm_py_int(PyTuple_GET_ITEM(given, 0), "command", "method", 0, 255,
                &method) < 0 ||
      nm_py_int(PyTuple_GET_ITEM(given, 1), "command", "budget_us", 0,
                NM_PY_US_MAX, &budget) < 0) {
    return -1;
  }
  step->method = (nm_lxmf_method)method;
  step->budget_us = (uint64_t)budget;
  step->attempts = (uint32_t)attempts;
  return 0;
}

static int read_steps(PyObject *given, nm_policy *policy) {
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) > NM_POLICY_STEPS) {
    return nm_py_type_error("command", "spec", "a tuple of at most 4 steps",
                            given);
  }
  policy->count = (uint32_t)PyTuple_GET_SIZE(given);
  for (uint32_t i = 0; i < policy->count; i++) {
    if (read_step(PyTuple_GET_ITEM(given, i), &policy->steps[i]) < 0) {
      return -1;
    }
  }
  return 0;
}

/* (options, steps). */
static int read_letter(nm_state *state, PyObject *spec, nm_letter_spec *out) {
  if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 2) {
    return nm_py_type_error("command", "spec", "(options, steps)", spec);
  }
  PyObject *given = PyTuple_GET_ITEM(spec, 0);
  return READ(letter_columns, out) < 0
             ? -1
             : read_steps(PyTuple_GET_ITEM(spec, 1), &out->policy);
}

int nm_py_mail_spec_read(nm_state *state, PyObject *given,
                         nm_command *command) {
  switch (command->kind) {
  case NM_COMMAND_MAIL_SEND:
    return read_letter(state, given, &command->u.letter);
  case NM_COMMAND_MAIL_SYNC:
    return READ(sync_columns, &command->u.mail_sync);
  default:
    nm_mailbox_spec_default(&command->u.mailbox);
    return READ(mailbox_columns, &command->u.mailbox);
  }
}

/* ----------------------------------------------------------------- figures */

#define FIGURE(name, kind) NM_PY_COLUMN(#name, kind, nm_router_stats, name)

static const nm_py_column stat_columns[] = {
    FIGURE(received, U64),      FIGURE(duplicates, U64),
    FIGURE(malformed, U64),     FIGURE(undecryptable, U64),
    FIGURE(misaddressed, U64),  FIGURE(blackholed, U64),
    FIGURE(ignored, U64),       FIGURE(unstamped, U64),
    FIGURE(crowded, U64),       FIGURE(refused, U64),
    FIGURE(sent, U64),          FIGURE(delivered, U64),
    FIGURE(propagated, U64),    FIGURE(rejected, U64),
    FIGURE(cancelled, U64),     FIGURE(failed, U64),
    FIGURE(path_requests, U64), FIGURE(path_requests_spared, U64),
    FIGURE(links_opened, U64),  FIGURE(packets, U64),
    FIGURE(resources, U64),     FIGURE(letters, U32),
    FIGURE(lanes, U32),         FIGURE(parcels, U32),
    FIGURE(seen, U32),          FIGURE(tickets, U32),
};

PyObject *nm_py_router_stats_dict(nm_state *state,
                                  const nm_router_stats *stats) {
  return nm_py_columns_dict(state, stat_columns,
                            NM_PY_COLUMN_COUNT(stat_columns), stats);
}
