/* The Python class Announce, as other classes use it. */
#ifndef NM_PY_ANNOUNCE_H
#define NM_PY_ANNOUNCE_H

#include "crypto/identity.h"
#include "py/state.h"
#include "wire/announce.h"

/* The keyword arguments of an announce to be made; each may be NULL. */
typedef struct nm_py_announce_options {
  PyObject *app_data; /* NULL and None: none */
  PyObject *ratchet;
  PyObject *emitted;
  PyObject *random;
  PyObject *path_response;
  PyObject *hops;
  PyObject *transport_id;
} nm_py_announce_options;

/* A new Announce of the name with |name_hash| by |identity|, which has private
 * keys. Releases the GIL while it signs. NULL with an exception. */
PyObject *nm_py_announce_create(nm_state *state, const nm_identity *identity,
                                const uint8_t name_hash[NM_NAME_HASH_SIZE],
                                const nm_py_announce_options *options,
                                const char *function);

/* The Python member for |verdict|, borrowed. */
PyObject *nm_py_verdict(nm_state *state, nm_announce_verdict verdict);

#endif
