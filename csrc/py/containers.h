/* Containers that come in as arguments, copied so that no one changes them
 * meanwhile.
 */
#ifndef NM_PY_CONTAINERS_H
#define NM_PY_CONTAINERS_H

#include "py/state.h"

/* The entries of a mapping as a dict of its own. New reference, or NULL with
 * an exception. */
PyObject *nm_py_mapping(PyObject *obj, const char *function, const char *name);

/* The items of a sequence as a tuple of its own, which no one changes. Text and
 * bytes-like objects are refused: |wanted| says what is meant. New reference,
 * or NULL with an exception. */
PyObject *nm_py_sequence(PyObject *obj, const char *function, const char *name,
                         const char *wanted);

#endif
