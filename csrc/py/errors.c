#include "py/errors.h"

#include <stdarg.h>
#include <stdbool.h>

/* Calls |type|(|message|, reason=..., ...) and raises the result. Takes over
 * |message| and |keywords|; either may be NULL with an exception set. */
static void raise_with(PyObject *type, PyObject *message, PyObject *keywords) {
  PyObject *args = NULL;
  PyObject *error = NULL;
  if (message != NULL && keywords != NULL) {
    args = PyTuple_Pack(1, message);
    error = args != NULL ? PyObject_Call(type, args, keywords) : NULL;
  }
  if (error != NULL) {
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  }
  Py_XDECREF(error);
  Py_XDECREF(args);
  Py_XDECREF(keywords);
  Py_XDECREF(message);
}

static void raise_decode(PyObject *type, PyObject *message, int status,
                         const char *codec, const char *field, size_t offset) {
  raise_with(type, message,
             Py_BuildValue("{s:s,s:s,s:s,s:n}", "reason",
                           nm_status_name(status), "codec", codec, "field",
                           field, "offset", (Py_ssize_t)offset));
}

static void raise_encode(nm_state *state, PyObject *message, int status,
                         const char *field) {
  raise_with(NM_PY_ERROR(state, EncodeError), message,
             Py_BuildValue("{s:s,s:s}", "reason", nm_status_name(status),
                           "field", field));
}

static void raise_simple(PyObject *type, PyObject *message, int status) {
  raise_with(type, message,
             Py_BuildValue("{s:s}", "reason", nm_status_name(status)));
}

/* The class for a status that means the same in both directions, or NULL. */
static PyObject *common_class(nm_state *state, int status) {
  switch (status) {
  case NM_E(AUTH):
  case NM_E(SIGNATURE):
  case NM_E(KEY):
    return NM_PY_ERROR(state, AuthenticationError);
  case NM_E(NO_KEY):
    return NM_PY_ERROR(state, KeyMissingError);
  case NM_E(CANCELLED):
  case NM_E(TIMEOUT):
    return NM_PY_ERROR(state, CancelledError);
  case NM_E(LIBRARY):
    return NM_PY_ERROR(state, NetmeshError);
  default:
    return NULL;
  }
}

static PyObject *decode_class(nm_state *state, int status) {
  return status == NM_E(LIMIT) || status == NM_E(DEPTH)
             ? NM_PY_ERROR(state, LimitError)
             : NM_PY_ERROR(state, DecodeError);
}

/* "packet: field 'context' ends before the field is complete"; with |where|
 * also the offset. Also raises the two built-in errors, then NULL. */
static PyObject *message_of(const nm_fault *fault, const char *codec,
                            bool where) {
  const char *text = nm_status_text(fault->status);
  if (fault->field == NULL || fault->field[0] == '\0') {
    return PyUnicode_FromFormat("%s: %s", codec, text);
  }
  if (!where) {
    return PyUnicode_FromFormat("%s: field '%s' %s", codec, fault->field, text);
  }
  return PyUnicode_FromFormat("%s: field '%s' at offset %zu %s", codec,
                              fault->field, fault->offset, text);
}

/* Raises what does not depend on the direction; whether it did. */
static bool raise_common(nm_state *state, const nm_fault *fault,
                         const char *codec) {
  if (fault->status == NM_E(MEMORY)) {
    PyErr_NoMemory();
    return true;
  }
  if (fault->status == NM_E(ARGUMENT)) {
    PyObject *text = message_of(fault, codec, false);
    if (text != NULL) {
      PyErr_SetObject(PyExc_ValueError, text);
      Py_DECREF(text);
    }
    return true;
  }
  PyObject *type = common_class(state, fault->status);
  if (type == NULL) {
    return false;
  }
  raise_simple(type, message_of(fault, codec, false), fault->status);
  return true;
}

PyObject *nm_py_raise(nm_state *state, const nm_fault *fault,
                      const char *codec) {
  if (!raise_common(state, fault, codec)) {
    raise_decode(decode_class(state, fault->status),
                 message_of(fault, codec, true), fault->status, codec,
                 fault->field != NULL ? fault->field : "", fault->offset);
  }
  return NULL;
}

PyObject *nm_py_raise_encode(nm_state *state, const nm_fault *fault,
                             const char *codec) {
  if (!raise_common(state, fault, codec)) {
    raise_encode(state, message_of(fault, codec, false), fault->status,
                 fault->field != NULL ? fault->field : "");
  }
  return NULL;
}

PyObject *nm_py_raise_status(nm_state *state, int status, const char *codec,
                             const char *field) {
  nm_fault fault = {status, field, 0};
  return nm_py_raise(state, &fault, codec);
}

PyObject *nm_py_encode_error(nm_state *state, int status, const char *field,
                             const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  PyObject *message = PyUnicode_FromFormatV(format, ap);
  va_end(ap);
  raise_encode(state, message, status, field);
  return NULL;
}

PyObject *nm_py_decode_error(nm_state *state, int status, const char *codec,
                             const char *field, size_t offset,
                             const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  PyObject *message = PyUnicode_FromFormatV(format, ap);
  va_end(ap);
  raise_decode(decode_class(state, status), message, status, codec, field,
               offset);
  return NULL;
}

PyObject *nm_py_simple_error(nm_state *state, nm_error_index index, int status,
                             const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  PyObject *message = PyUnicode_FromFormatV(format, ap);
  va_end(ap);
  raise_simple(state->errors[index], message, status);
  return NULL;
}
