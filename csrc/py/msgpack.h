/* MessagePack and Python objects (see netmesh/_core.pyi for the mapping). */
#ifndef NM_PY_MSGPACK_H
#define NM_PY_MSGPACK_H

#include "base/mem.h"
#include "base/msgpack.h"
#include "py/state.h"

/* Appends the canonical encoding of |value| to |out|. 0, or -1 with TypeError
 * for an object without an encoding, ValueError for an int outside 64 bits,
 * EncodeError "DEPTH" for nesting deeper than |depth_max| (a container that
 * holds itself ends there), or what the object raised. */
int nm_py_msgpack_pack(nm_state *state, PyObject *value, uint32_t depth_max,
                       nm_buffer *out);

/* The encoding of |value| as a bytes object, at the default depth. New
 * reference, or NULL with an exception. */
PyObject *nm_py_msgpack_bytes(nm_state *state, PyObject *value);

/* Reads one whole value. |codec| and |field| name it in the DecodeError or
 * LimitError; offsets count from the start of the reader's input. |limits| NULL
 * means the default. New reference, or NULL with an exception. */
PyObject *nm_py_msgpack_unpack(nm_state *state, nm_reader *r,
                               const nm_mp_limits *limits, const char *codec,
                               const char *field);

#endif
