/* From faults of the core to the exceptions of netmesh.errors. */
#ifndef NM_PY_ERRORS_H
#define NM_PY_ERRORS_H

#include "base/status.h"
#include "py/state.h"

/* Raises what |fault| says about bytes that were decoded. |codec| names the
 * format. The message reads "packet: field 'context' at offset 18 ends before
 * the field is complete".
 *
 *   LIMIT, DEPTH                LimitError
 *   AUTH, SIGNATURE, KEY        AuthenticationError
 *   NO_KEY                      KeyMissingError
 *   CANCELLED, TIMEOUT          CancelledError
 *   MEMORY                      MemoryError
 *   ARGUMENT                    ValueError
 *   LIBRARY                     NetmeshError
 *   all others                  DecodeError
 *
 * Returns NULL always, so that callers can return its result. */
PyObject *nm_py_raise(nm_state *state, const nm_fault *fault,
                      const char *codec);

/* The same for a value that was being encoded: EncodeError in place of
 * DecodeError and LimitError. */
PyObject *nm_py_raise_encode(nm_state *state, const nm_fault *fault,
                             const char *codec);

/* nm_py_raise for a function that returns a bare status. |field| may be
 * NULL. */
PyObject *nm_py_raise_status(nm_state *state, int status, const char *codec,
                             const char *field);

/* EncodeError with reason |status| and a message in printf's form. Returns
 * NULL. */
PyObject *nm_py_encode_error(nm_state *state, int status, const char *field,
                             const char *format, ...);

/* DecodeError (LimitError for LIMIT and DEPTH) with a message of its own.
 * Returns NULL. */
PyObject *nm_py_decode_error(nm_state *state, int status, const char *codec,
                             const char *field, size_t offset,
                             const char *format, ...);

/* An exception of the tree that takes a message and a reason only: the
 * authentication, key, resource and cancellation errors. Returns NULL. */
PyObject *nm_py_simple_error(nm_state *state, nm_error_index index, int status,
                             const char *format, ...);

#endif
