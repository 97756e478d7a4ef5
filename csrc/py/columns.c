#include "py/columns.h"

#include "base/block.h"
#include "py/hashes.h"
#include "stack/ingress.h"

#include <string.h>

/* Members are reached by memcpy, so that no struct's type has to be known. */
#define GET(type, in)                                                          \
  type value;                                                                  \
  memcpy(&value, (in), sizeof value)
#define PUT(type, given, out)                                                  \
  do {                                                                         \
    type value = (type)(given);                                                \
    memcpy((out), &value, sizeof value);                                       \
  } while (0)

/* ------------------------------------------------------- from Python to C */

static int read_int(const nm_py_column *c, PyObject *given,
                    const char *function, unsigned char *out) {
  long long n;
  if (nm_py_int(given, function, c->name, c->min, c->max, &n) < 0) {
    return -1;
  }
  switch (c->kind) {
  case NM_PY_COL_U8:
    PUT(uint8_t, n, out);
    break;
  case NM_PY_COL_I16:
    PUT(int16_t, n, out);
    break;
  case NM_PY_COL_U16:
    PUT(uint16_t, n, out);
    break;
  case NM_PY_COL_I32:
    PUT(int32_t, n, out);
    break;
  case NM_PY_COL_U32:
    PUT(uint32_t, n, out);
    break;
  case NM_PY_COL_I64:
    PUT(int64_t, n, out);
    break;
  case NM_PY_COL_U64:
    PUT(uint64_t, n, out);
    break;
  case NM_PY_COL_SIZE:
    PUT(size_t, n, out);
    break;
  default:
    PUT(int, n, out);
    break;
  }
  return 0;
}

static int read_tristate(const nm_py_column *c, PyObject *given,
                         const char *function, unsigned char *out) {
  bool set = false;
  if (given == Py_None) {
    PUT(int8_t, -1, out);
    return 0;
  }
  if (nm_py_bool(given, function, c->name, &set) < 0) {
    return -1;
  }
  PUT(int8_t, set, out);
  return 0;
}

static int read_real(const nm_py_column *c, PyObject *given,
                     const char *function, unsigned char *out) {
  double value;
  if (nm_py_real(given, function, c->name, &value) < 0) {
    return -1;
  }
  memcpy(out, &value, sizeof value);
  return 0;
}

int nm_py_column_read(nm_state *state, const nm_py_column *c, PyObject *given,
                      const char *function, void *to) {
  unsigned char *out = (unsigned char *)to + c->offset;
  bool set = false;
  switch (c->kind) {
  case NM_PY_COL_BOOL:
    if (nm_py_bool(given, function, c->name, &set) < 0) {
      return -1;
    }
    PUT(bool, set, out);
    return 0;
  case NM_PY_COL_TRISTATE:
    return read_tristate(c, given, function, out);
  case NM_PY_COL_REAL:
    return read_real(c, given, function, out);
  case NM_PY_COL_NAME_HASH:
    return nm_py_exact(given, function, c->name, out, NM_NAME_HASH_SIZE);
  case NM_PY_COL_BYTES_16:
    return nm_py_exact(given, function, c->name, out, NM_ADDRESS_SIZE);
  case NM_PY_COL_BYTES_32:
    return nm_py_exact(given, function, c->name, out, NM_HASH_SIZE);
  case NM_PY_COL_PUBLIC:
    return nm_py_exact(given, function, c->name, out, NM_PUBLIC_SIZE);
  case NM_PY_COL_DESTINATION:
    return nm_py_address(state, given, NM_PY_DESTINATION_HASH, function,
                         c->name, out);
  case NM_PY_COL_IDENTITY:
    return nm_py_address(state, given, NM_PY_IDENTITY_HASH, function, c->name,
                         out);
  case NM_PY_COL_SIGNAL:
  case NM_PY_COL_TEXT:
  case NM_PY_COL_BLOCK:
    PyErr_Format(PyExc_TypeError, "%s() does not take '%s'", function, c->name);
    return -1;
  default:
    return read_int(c, given, function, out);
  }
}

static const nm_py_column *find(const nm_py_column *columns, size_t count,
                                PyObject *name) {
  for (size_t i = 0; i < count; i++) {
    if (PyUnicode_CompareWithASCIIString(name, columns[i].name) == 0) {
      return &columns[i];
    }
  }
  return NULL;
}

int nm_py_columns_read(nm_state *state, PyObject *options,
                       const nm_py_column *columns, size_t count,
                       const char *function, void *out) {
  if (!PyDict_Check(options)) {
    return nm_py_type_error(function, "options", "a dict", options);
  }
  PyObject *items = PyDict_Items(options); /* nobody changes this one */
  if (items == NULL) {
    return -1;
  }
  int result = 0;
  for (Py_ssize_t i = 0; result == 0 && i < PyList_GET_SIZE(items); i++) {
    PyObject *item = PyList_GET_ITEM(items, i);
    PyObject *name = PyTuple_GET_ITEM(item, 0);
    const nm_py_column *c =
        PyUnicode_Check(name) ? find(columns, count, name) : NULL;
    if (c == NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected option %R",
                   function, name);
      result = -1;
    } else {
      result =
          nm_py_column_read(state, c, PyTuple_GET_ITEM(item, 1), function, out);
    }
  }
  Py_DECREF(items);
  return result;
}

/* ------------------------------------------------------- from C to Python */

static PyObject *int_value(const nm_py_column *c, const unsigned char *in) {
  switch (c->kind) {
  case NM_PY_COL_U8:
    return PyLong_FromLong(*in);
  case NM_PY_COL_I16: {
    GET(int16_t, in);
    return PyLong_FromLong(value);
  }
  case NM_PY_COL_U16: {
    GET(uint16_t, in);
    return PyLong_FromLong(value);
  }
  case NM_PY_COL_I32: {
    GET(int32_t, in);
    return PyLong_FromLong(value);
  }
  case NM_PY_COL_U32: {
    GET(uint32_t, in);
    return PyLong_FromUnsignedLong(value);
  }
  case NM_PY_COL_I64: {
    GET(int64_t, in);
    return PyLong_FromLongLong(value);
  }
  case NM_PY_COL_U64: {
    GET(uint64_t, in);
    return PyLong_FromUnsignedLongLong(value);
  }
  case NM_PY_COL_SIZE: {
    GET(size_t, in);
    return PyLong_FromSize_t(value);
  }
  default: {
    GET(int, in);
    return PyLong_FromLong(value);
  }
  }
}

static PyObject *signal_value(const unsigned char *in) {
  GET(int16_t, in);
  return value == NM_SIGNAL_NONE ? Py_NewRef(Py_None) : PyLong_FromLong(value);
}

static PyObject *tristate_value(const unsigned char *in) {
  GET(int8_t, in);
  return value < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(value);
}

static PyObject *real_value(const unsigned char *in) {
  GET(double, in);
  return PyFloat_FromDouble(value);
}

static PyObject *bool_value(const unsigned char *in) {
  GET(bool, in);
  return PyBool_FromLong(value);
}

static PyObject *block_value(const unsigned char *in) {
  GET(const nm_block *, in);
  return value == NULL ? Py_NewRef(Py_None) : nm_py_bytes(nm_block_span(value));
}

static PyObject *identity_value(nm_state *state, const unsigned char *in) {
  static const uint8_t none[NM_ADDRESS_SIZE];
  return memcmp(in, none, sizeof none) == 0
             ? Py_NewRef(Py_None)
             : nm_py_identity_hash_new(state, in);
}

PyObject *nm_py_column_value(nm_state *state, const nm_py_column *c,
                             const void *from) {
  const unsigned char *in = (const unsigned char *)from + c->offset;
  switch (c->kind) {
  case NM_PY_COL_BOOL:
    return bool_value(in);
  case NM_PY_COL_TRISTATE:
    return tristate_value(in);
  case NM_PY_COL_REAL:
    return real_value(in);
  case NM_PY_COL_SIGNAL:
    return signal_value(in);
  case NM_PY_COL_TEXT:
    return PyUnicode_DecodeUTF8(
        (const char *)in, (Py_ssize_t)strlen((const char *)in), "replace");
  case NM_PY_COL_NAME_HASH:
    return nm_py_bytes(nm_span_of(in, NM_NAME_HASH_SIZE));
  case NM_PY_COL_BYTES_16:
    return nm_py_bytes(nm_span_of(in, NM_ADDRESS_SIZE));
  case NM_PY_COL_BYTES_32:
    return nm_py_bytes(nm_span_of(in, NM_HASH_SIZE));
  case NM_PY_COL_PUBLIC:
    return nm_py_bytes(nm_span_of(in, NM_PUBLIC_SIZE));
  case NM_PY_COL_DESTINATION:
    return nm_py_destination_hash_new(state, in);
  case NM_PY_COL_IDENTITY:
    return identity_value(state, in);
  case NM_PY_COL_BLOCK:
    return block_value(in);
  default:
    return int_value(c, in);
  }
}

PyObject *nm_py_columns_dict(nm_state *state, const nm_py_column *columns,
                             size_t count, const void *in) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < count; i++) {
    PyObject *value = nm_py_column_value(state, &columns[i], in);
    if (value == NULL ||
        PyDict_SetItemString(dict, columns[i].name, value) < 0) {
      Py_CLEAR(dict);
    }
    Py_XDECREF(value);
  }
  return dict;
}
