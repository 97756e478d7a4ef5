#include "py/args.h"

#include "crypto/entropy.h"
#include "py/errors.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* What message texts call parameter |index|. */
static const char *name_of(nm_state *state, const nm_py_signature *signature,
                           size_t index) {
  return PyUnicode_AsUTF8(state->strings[signature->names[index]]);
}

/* The index of the parameter called |keyword|, or -1. |hint| is where to look
 * first: callers mostly follow the order of the signature. Names are interned,
 * so that pointers decide nearly always. */
static int find_keyword(nm_state *state, const nm_py_signature *signature,
                        PyObject *keyword, int hint) {
  int count = signature->count;
  for (int step = 0; step < count; step++) {
    int i = hint + step < count ? hint + step : hint + step - count;
    if (state->strings[signature->names[i]] == keyword) {
      return i;
    }
  }
  for (int i = 0; i < count; i++) {
    if (PyUnicode_Compare(state->strings[signature->names[i]], keyword) == 0) {
      return i;
    }
  }
  return -1;
}

static int parse_keyword(nm_state *state, const nm_py_signature *signature,
                         PyObject *keyword, PyObject *value, int *hint,
                         PyObject **out) {
  int i = find_keyword(state, signature, keyword, *hint);
  if (i < 0) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError,
                   "%s() got an unexpected keyword argument '%U'",
                   signature->function, keyword);
    }
    return -1;
  }
  if (i < signature->positional_only) {
    PyErr_Format(PyExc_TypeError, "%s() takes parameter '%U' by position only",
                 signature->function, keyword);
    return -1;
  }
  if (out[i] != NULL) {
    PyErr_Format(PyExc_TypeError, "%s() got parameter '%U' twice",
                 signature->function, keyword);
    return -1;
  }
  out[i] = value;
  *hint = i + 1 < signature->count ? i + 1 : 0;
  return 0;
}

int nm_py_parse(nm_state *state, const nm_py_signature *signature,
                PyObject *const *args, size_t nargsf, PyObject *kwnames,
                PyObject **out) {
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  if (given > signature->positional) {
    PyErr_Format(PyExc_TypeError,
                 "%s() takes at most %d positional argument%s (%zd given)",
                 signature->function, (int)signature->positional,
                 signature->positional == 1 ? "" : "s", given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < given; i++) {
    out[i] = args[i];
  }
  for (Py_ssize_t i = given; i < signature->count; i++) {
    out[i] = NULL;
  }
  if (kwnames != NULL) {
    Py_ssize_t keywords = PyTuple_GET_SIZE(kwnames);
    int hint = given < signature->count ? (int)given : 0;
    for (Py_ssize_t i = 0; i < keywords; i++) {
      if (parse_keyword(state, signature, PyTuple_GET_ITEM(kwnames, i),
                        args[given + i], &hint, out) < 0) {
        return -1;
      }
    }
  }
  for (size_t i = (size_t)given; i < signature->required; i++) {
    if (out[i] == NULL) {
      PyErr_Format(PyExc_TypeError, "%s() needs parameter '%s'",
                   signature->function, name_of(state, signature, i));
      return -1;
    }
  }
  return 0;
}

bool nm_py_arity(const char *function, Py_ssize_t nargs, Py_ssize_t min,
                 Py_ssize_t max) {
  if (nargs >= min && nargs <= max) {
    return true;
  }
  PyErr_Format(PyExc_TypeError, "%s() takes %zd%s arguments (%zd given)",
               function, nargs < min ? min : max,
               min == max    ? ""
               : nargs < min ? " or more"
                             : " or fewer",
               nargs);
  return false;
}

PyObject *nm_py_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  Py_ssize_t given = PyTuple_GET_SIZE(args);
  Py_ssize_t keywords = kwargs != NULL ? PyDict_GET_SIZE(kwargs) : 0;
  PyObject *kwnames = NULL;
  PyObject *result = NULL;
  PyObject **all = PyMem_Malloc(((size_t)(given + keywords) + 1) * sizeof *all);
  if (all == NULL) {
    return PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; i < given; i++) {
    all[i] = PyTuple_GET_ITEM(args, i);
  }
  if (keywords > 0) {
    kwnames = PyTuple_New(keywords);
    if (kwnames == NULL) {
      goto done;
    }
    Py_ssize_t pos = 0;
    PyObject *key;
    PyObject *value;
    for (Py_ssize_t i = 0; PyDict_Next(kwargs, &pos, &key, &value); i++) {
      PyTuple_SET_ITEM(kwnames, i, Py_NewRef(key));
      all[given + i] = value;
    }
  }
  result = type->tp_vectorcall((PyObject *)type, all, (size_t)given, kwnames);
done:
  Py_XDECREF(kwnames);
  PyMem_Free(all);
  return result;
}

int nm_py_exact(PyObject *obj, const char *function, const char *name,
                uint8_t *out, size_t len) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(obj, function, name, &buf) < 0) {
    return -1;
  }
  int result = 0;
  if (buf.span.len == len) {
    memcpy(out, buf.span.ptr, len);
  } else {
    result = nm_py_length_error(function, name, len, buf.span.len);
  }
  nm_py_buffer_release(&buf);
  return result;
}

int nm_py_exact_field(nm_state *state, PyObject *obj, const char *function,
                      const char *name, uint8_t *out, size_t len) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(obj, function, name, &buf) < 0) {
    return -1;
  }
  int result = 0;
  if (buf.span.len == len) {
    memcpy(out, buf.span.ptr, len);
  } else {
    nm_py_encode_error(state, NM_E(LENGTH), name,
                       "%s() parameter '%s' must be %zu bytes long, not %zu",
                       function, name, len, buf.span.len);
    result = -1;
  }
  nm_py_buffer_release(&buf);
  return result;
}

int nm_py_exact_or_random(nm_state *state, PyObject *obj, const char *function,
                          const char *name, uint8_t *out, size_t len) {
  if (!nm_py_absent(obj)) {
    return nm_py_exact(obj, function, name, out, len);
  }
  int status = nm_entropy_fill(&nm_entropy_system, out, len);
  if (status != NM_OK) {
    nm_py_raise_status(state, status, function, name);
    return -1;
  }
  return 0;
}

/* Refuses an address of the other kind. */
static int check_kind(nm_state *state, PyObject *obj, nm_py_address_kind kind,
                      const char *function, const char *name) {
  PyTypeObject *refused = kind == NM_PY_IDENTITY_HASH
                              ? NM_PY_TYPE(state, DestinationHash)
                              : NM_PY_TYPE(state, IdentityHash);
  if (!Py_IS_TYPE(obj, refused)) {
    return 0;
  }
  return nm_py_type_error(function, name,
                          kind == NM_PY_IDENTITY_HASH
                              ? "an IdentityHash or 16 bytes"
                              : "a DestinationHash or 16 bytes",
                          obj);
}

int nm_py_address(nm_state *state, PyObject *obj, nm_py_address_kind kind,
                  const char *function, const char *name,
                  uint8_t out[NM_ADDRESS_SIZE]) {
  return check_kind(state, obj, kind, function, name) < 0
             ? -1
             : nm_py_exact(obj, function, name, out, NM_ADDRESS_SIZE);
}

int nm_py_address_field(nm_state *state, PyObject *obj, nm_py_address_kind kind,
                        const char *function, const char *name,
                        uint8_t out[NM_ADDRESS_SIZE]) {
  return check_kind(state, obj, kind, function, name) < 0
             ? -1
             : nm_py_exact_field(state, obj, function, name, out,
                                 NM_ADDRESS_SIZE);
}

int nm_py_int(PyObject *obj, const char *function, const char *name,
              long long min, long long max, long long *out) {
  if (!PyLong_Check(obj)) {
    return nm_py_type_error(function, name, "an int", obj);
  }
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(obj, &overflow);
  if (value == -1 && overflow == 0 && PyErr_Occurred()) {
    return -1;
  }
  if (overflow != 0 || value < min || value > max) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter '%s' must be in %lld..%lld, not %R", function,
                 name, min, max, obj);
    return -1;
  }
  *out = value;
  return 0;
}

int nm_py_bool(PyObject *obj, const char *function, const char *name,
               bool *out) {
  if (!PyBool_Check(obj)) {
    return nm_py_type_error(function, name, "a bool", obj);
  }
  *out = obj == Py_True;
  return 0;
}

int nm_py_real(PyObject *obj, const char *function, const char *name,
               double *out) {
  if (!PyFloat_Check(obj) && !PyLong_Check(obj)) {
    return nm_py_type_error(function, name, "an int or a float", obj);
  }
  double value = PyFloat_AsDouble(obj);
  if (value == -1.0 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
      return -1;
    }
    PyErr_Clear();
    value = INFINITY;
  }
  if (!isfinite(value)) {
    PyErr_Format(PyExc_ValueError, "%s() parameter '%s' must be finite, not %R",
                 function, name, obj);
    return -1;
  }
  *out = value;
  return 0;
}

int nm_py_time(PyObject *obj, const char *function, const char *name,
               double *out) {
  if (!nm_py_absent(obj)) {
    return nm_py_real(obj, function, name, out);
  }
  struct timespec now = {0};
  (void)timespec_get(&now, TIME_UTC);
  *out = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  return 0;
}

int nm_py_text(PyObject *obj, const char *function, const char *name,
               nm_span *out) {
  if (!PyUnicode_Check(obj)) {
    return nm_py_type_error(function, name, "a str", obj);
  }
  Py_ssize_t len = 0;
  const char *text = PyUnicode_AsUTF8AndSize(obj, &len);
  if (text == NULL) {
    return -1;
  }
  *out = nm_span_of(text, (size_t)len);
  return 0;
}

int nm_py_text_or_buffer(PyObject *obj, const char *function, const char *name,
                         nm_py_buffer *out) {
  if (!PyUnicode_Check(obj)) {
    if (!PyObject_CheckBuffer(obj)) {
      nm_py_buffer_init(out);
      return nm_py_type_error(function, name, "a str or a bytes-like object",
                              obj);
    }
    return nm_py_buffer_get(obj, function, name, out);
  }
  nm_py_buffer_init(out);
  if (nm_py_text(obj, function, name, &out->span) < 0) {
    return -1;
  }
  out->owner = Py_NewRef(obj);
  return 0;
}
