/* RawEvent: one event of an engine or a node, as the C struct with attributes.
 * netmesh.events makes typed events of it. And views of blocks.
 */
#ifndef NM_PY_RAW_EVENT_H
#define NM_PY_RAW_EVENT_H

#include "py/state.h"
#include "stack/event.h"

/* A new RawEvent with the content of |event|, whose blocks it takes over in
 * every case. NULL with an exception. */
PyObject *nm_py_raw_event_new(nm_state *state, nm_event *event);

/* A read-only memoryview of |block|, which it holds. NULL with an
 * exception. */
PyObject *nm_py_block_view(nm_state *state, nm_block *block);

/* A bytes object with the content of |block|. One reference of |block|, which
 * may be NULL, is taken over; MemoryError then. */
PyObject *nm_py_block_bytes(nm_block *block);

#endif
