/* The backends of multi-lane SHA-256 by name. */
#ifndef NM_PY_BACKEND_H
#define NM_PY_BACKEND_H

#include "crypto/sha256_lanes.h"
#include "py/state.h"

/* The backend called |name|, the best one when it is NULL or None. 0, or -1
 * with TypeError or ValueError. */
int nm_py_backend(PyObject *name, const char *function,
                  const nm_sha256_lanes **lanes);

#endif
