/* The Python class Ifac, as other classes use it. */
#ifndef NM_PY_IFAC_H
#define NM_PY_IFAC_H

#include "py/state.h"
#include "wire/ifac.h"

/* The access code behind |obj|, borrowed from it; NULL with a TypeError when it
 * is no Ifac. */
const nm_ifac *nm_py_ifac_of(nm_state *state, PyObject *obj,
                             const char *function, const char *name);

/* A new Ifac with the key and size of |ifac|, or NULL with an exception. */
PyObject *nm_py_ifac_from(nm_state *state, const nm_ifac *ifac);

#endif
