/* The Python classes of resource payloads, as other classes use them. */
#ifndef NM_PY_RESOURCE_H
#define NM_PY_RESOURCE_H

#include "py/buffers.h"
#include "py/state.h"
#include "wire/resource.h"

/* New objects with this content, or NULL with an exception. */
PyObject *nm_py_advertisement_new(nm_state *state, const nm_resource_adv *adv);
PyObject *nm_py_part_request_new(nm_state *state,
                                 const nm_resource_request *request);
PyObject *nm_py_hashmap_update_new(nm_state *state, const nm_resource_hmu *hmu);

/* The advertisement or update in |obj|: an object of the class as it is, or
 * bytes that are decoded and checked. Spans borrow from |obj| and |buf|, which
 * the caller releases. 0, or -1 with an exception and nothing held. */
int nm_py_advertisement_get(nm_state *state, PyObject *obj,
                            const char *function, const char *name,
                            nm_py_buffer *buf, nm_resource_adv *adv);
int nm_py_hashmap_update_get(nm_state *state, PyObject *obj,
                             const char *function, const char *name,
                             nm_py_buffer *buf, nm_resource_hmu *hmu);

/* The request in |obj| as packed bytes: a new reference to a bytes object, or
 * NULL with an exception. */
PyObject *nm_py_part_request_packed(nm_state *state, PyObject *obj,
                                    const char *function, const char *name);

#endif
