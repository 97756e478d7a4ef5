/* IdentityHash and DestinationHash: two kinds of bytes of length 16. */
#ifndef NM_PY_HASHES_H
#define NM_PY_HASHES_H

#include "py/state.h"

#include <stdint.h>

/* New objects with this content, or NULL with an exception. */
PyObject *nm_py_identity_hash_new(nm_state *state, const uint8_t bytes[16]);
PyObject *nm_py_destination_hash_new(nm_state *state, const uint8_t bytes[16]);

#endif
