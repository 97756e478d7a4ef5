/* The Python class Propagated, as other files use it. */
#ifndef NM_PY_PROPAGATED_H
#define NM_PY_PROPAGATED_H

#include "py/buffers.h"
#include "py/state.h"

#include <stdbool.h>

typedef struct nm_py_propagated {
  PyObject_HEAD
  PyObject *data;  /* bytes: lxmf_data; owned */
  PyObject *stamp; /* 32 bytes, or NULL; owned */
} nm_py_propagated;

static inline bool nm_py_is_propagated(nm_state *state, PyObject *obj) {
  return Py_IS_TYPE(obj, NM_PY_TYPE(state, Propagated));
}

/* A Propagated over the bytes objects |data| and |stamp| (may be NULL for
 * none), which are taken over in every case; |data| may be NULL with an
 * exception set. Raises DecodeError for data below 112 bytes. */
PyObject *nm_py_propagated_new(nm_state *state, PyObject *data,
                               PyObject *stamp);

/* Raises the EncodeError for an element that needs a stamp and has none.
 * Returns NULL. */
PyObject *nm_py_stamp_missing(nm_state *state, const char *function);

#endif
