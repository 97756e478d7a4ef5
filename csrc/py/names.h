/* Names, as other classes use them. */
#ifndef NM_PY_NAMES_H
#define NM_PY_NAMES_H

#include "base/bytes.h"
#include "py/state.h"

/* The str "|name|.hex of |identity_hash|". New reference, or NULL. */
PyObject *nm_py_name_expand(PyObject *name, const uint8_t identity_hash[16]);

/* The name hash of |name|, a dotted str, or the 10 bytes themselves. The
 * parameter is called "name". 0, or -1 with an exception. */
int nm_py_name_hash_of(PyObject *name, const char *function,
                       uint8_t out[NM_NAME_HASH_SIZE]);

#endif
