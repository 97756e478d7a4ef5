/* The Python class Packet, as other classes use it. */
#ifndef NM_PY_PACKET_H
#define NM_PY_PACKET_H

#include "py/buffers.h"
#include "py/state.h"
#include "wire/packet.h"

#include <stdbool.h>

typedef struct nm_py_packet {
  PyObject_HEAD
  PyObject *raw;     /* bytes; the object owns it */
  PyObject *payload; /* its memoryview, made when it is first asked for */
  nm_packet view;    /* borrows from raw */
} nm_py_packet;

static inline bool nm_py_is_packet(nm_state *state, PyObject *obj) {
  return Py_IS_TYPE(obj, NM_PY_TYPE(state, Packet));
}

/* The parsed form of a Packet. */
static inline const nm_packet *nm_py_packet_view(PyObject *obj) {
  return &((nm_py_packet *)obj)->view;
}

/* A Packet over |raw|, whose reference is taken over in every case (it may be
 * NULL with an exception set). NULL with DecodeError when it does not parse. */
PyObject *nm_py_packet_from_raw(nm_state *state, PyObject *raw);

/* A Packet with the fields of |view|, which is packed as a relay would (every
 * header is allowed) within |mtu| bytes. NULL with EncodeError. */
PyObject *nm_py_packet_from_view(nm_state *state, const nm_packet *view,
                                 size_t mtu);

/* The Packet in |obj|: itself, or the one that its bytes hold. New reference,
 * or NULL with an exception. */
PyObject *nm_py_packet_of(nm_state *state, PyObject *obj, const char *function,
                          const char *name);

#endif
