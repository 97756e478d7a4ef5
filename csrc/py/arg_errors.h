/* The errors of arguments: they name the function, the parameter and what was
 * wrong with it. Used by the converters of args.h and buffers.h.
 */
#ifndef NM_PY_ARG_ERRORS_H
#define NM_PY_ARG_ERRORS_H

#include "py/state.h"

#include <stddef.h>

/* TypeError "F() parameter 'N' must be WANTED, not TYPE". Returns -1. */
int nm_py_type_error(const char *function, const char *name, const char *wanted,
                     PyObject *got);
/* ValueError "F() parameter 'N' must be WANTED, not GOT". Returns -1. */
int nm_py_length_error(const char *function, const char *name, size_t wanted,
                       size_t got);

#endif
