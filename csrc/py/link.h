/* What the files of netmesh.link share. */
#ifndef NM_PY_LINK_H
#define NM_PY_LINK_H

#include "py/state.h"
#include "wire/constants.h"

#include <stdbool.h>
#include <stdint.h>

/* The signalling bytes for the arguments "mtu" (absent: 500, None: no
 * signalling) and "mode" (absent: 1). 0, or -1 with ValueError or
 * EncodeError. */
int nm_py_signalling(nm_state *state, PyObject *mtu, PyObject *mode,
                     const char *function, uint8_t out[NM_SIGNALLING_SIZE],
                     bool *present);

#endif
