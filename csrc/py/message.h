/* The Python class Message, as other classes use it. */
#ifndef NM_PY_MESSAGE_H
#define NM_PY_MESSAGE_H

#include "py/buffers.h"
#include "py/state.h"
#include "wire/lxmf_message.h"

#include <stdbool.h>

typedef struct nm_py_message {
  PyObject_HEAD
  PyObject *packed; /* bytes; what view borrows from; owned */
  /* Made when they are first asked for; owned. */
  PyObject *title;
  PyObject *content;
  PyObject *id;
  nm_lxmf_view view;
} nm_py_message;

static inline bool nm_py_is_message(nm_state *state, PyObject *obj) {
  return Py_IS_TYPE(obj, NM_PY_TYPE(state, Message));
}

static inline const nm_lxmf_view *nm_py_message_view(PyObject *obj) {
  return &((nm_py_message *)obj)->view;
}

/* A Message over |packed|, a bytes object whose reference is taken over in
 * every case (it may be NULL with an exception set). NULL with DecodeError
 * when it does not parse. */
PyObject *nm_py_message_from_packed(nm_state *state, PyObject *packed);

/* The id of |message|, a bytes object borrowed from it, or NULL with an
 * exception. Computed once. */
PyObject *nm_py_message_id(PyObject *message);

/* The lxmf.delivery address of |identity| (LXMF 0.1). */
void nm_py_delivery_address(const nm_identity_hash *identity,
                            nm_destination_hash *out);

/* Methods that make messages (message_make.c). */
PyObject *nm_py_message_create(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames);
PyObject *nm_py_message_encode(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames);
PyObject *nm_py_message_with_stamp(PyObject *self, PyObject *arg);
extern const char nm_py_message_create_doc[];
extern const char nm_py_message_encode_doc[];
extern const char nm_py_message_with_stamp_doc[];

#endif
