/* The Python classes of proofs of work, as the search uses them. */
#ifndef NM_PY_STAMP_H
#define NM_PY_STAMP_H

#include "crypto/stamp.h"
#include "py/state.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct nm_py_stamp_cancel {
  PyObject_HEAD
  atomic_bool cancelled;
} nm_py_stamp_cancel;

/* A new Stamp, or NULL with an exception. */
PyObject *nm_py_stamp_new(nm_state *state, const uint8_t stamp[NM_STAMP_SIZE],
                          uint32_t value, uint64_t tries, double seconds);

/* What a search is asked to do. All pointers are borrowed. */
typedef struct nm_py_search {
  const nm_sha256_midstate *mid; /* after the work block */
  uint32_t cost;
  size_t threads;               /* at least 1, the calling one included */
  uint8_t start[NM_STAMP_SIZE]; /* the first candidate */
  double timeout_s;             /* below 0: none */
  nm_py_stamp_cancel *cancel;   /* NULL: none */
  PyObject *progress;           /* NULL: none; called with the tries so far */
  const nm_sha256_lanes *lanes; /* NULL: the best */
} nm_py_search;

/* Runs a search: a new Stamp, or NULL with an exception. About every 20 ms it
 * looks at signals, the cancel object and the clock, and ten times a second it
 * calls `progress`; the GIL is released in between. */
PyObject *nm_py_stamp_search(nm_state *state, const nm_py_search *search);

#endif
