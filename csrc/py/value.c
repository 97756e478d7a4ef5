#include "py/value.h"

#include <string.h>

static size_t record_count(PyObject *self) {
  size_t size = (size_t)Py_TYPE(self)->tp_basicsize;
  return (size - sizeof(nm_py_record)) / sizeof(PyObject *);
}

PyObject *nm_py_record_new(PyTypeObject *type, PyObject **fields) {
  size_t count =
      ((size_t)type->tp_basicsize - sizeof(nm_py_record)) / sizeof(PyObject *);
  bool complete = true;
  for (size_t i = 0; i < count; i++) {
    complete = complete && fields[i] != NULL;
  }
  PyObject *self = complete ? type->tp_alloc(type, 0) : NULL;
  for (size_t i = 0; i < count; i++) {
    if (self != NULL) {
      ((nm_py_record *)self)->field[i] = fields[i];
    } else {
      Py_XDECREF(fields[i]);
    }
  }
  return self;
}

int nm_py_record_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  size_t count = record_count(self);
  for (size_t i = 0; i < count; i++) {
    Py_VISIT(((nm_py_record *)self)->field[i]);
  }
  return 0;
}

int nm_py_record_clear(PyObject *self) {
  size_t count = record_count(self);
  for (size_t i = 0; i < count; i++) {
    Py_CLEAR(((nm_py_record *)self)->field[i]);
  }
  return 0;
}

void nm_py_record_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  nm_py_record_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *nm_py_record_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  size_t count = record_count(self);
  for (size_t i = 0; i < count; i++) {
    int equal = PyObject_RichCompareBool(nm_py_record_get(self, i),
                                         nm_py_record_get(other, i), Py_EQ);
    if (equal < 0) {
      return NULL;
    }
    if (equal == 0) {
      return PyBool_FromLong(op == Py_NE);
    }
  }
  return PyBool_FromLong(op == Py_EQ);
}

Py_hash_t nm_py_record_hash(PyObject *self) {
  size_t count = record_count(self);
  Py_uhash_t sum = (Py_uhash_t)0x9e3779b97f4a7c15u ^ count;
  for (size_t i = 0; i < count; i++) {
    Py_hash_t one = PyObject_Hash(nm_py_record_get(self, i));
    if (one == -1) {
      return -1;
    }
    sum = (sum ^ (Py_uhash_t)one) * (Py_uhash_t)0x100000001b3u;
    sum ^= sum >> 29;
  }
  return sum == (Py_uhash_t)-1 ? -2 : (Py_hash_t)sum;
}

/* "name=value" of field |place|. */
static PyObject *field_text(PyObject *self, size_t place) {
  const PyMemberDef *member = &Py_TYPE(self)->tp_members[place];
  return PyUnicode_FromFormat("%s=%R", member->name,
                              nm_py_record_get(self, place));
}

PyObject *nm_py_record_repr(PyObject *self) {
  const char *name = strrchr(Py_TYPE(self)->tp_name, '.');
  name = name != NULL ? name + 1 : Py_TYPE(self)->tp_name;
  int entered = Py_ReprEnter(self);
  if (entered != 0) {
    return entered > 0 ? PyUnicode_FromFormat("%s(...)", name) : NULL;
  }
  size_t count = record_count(self);
  PyObject *result = NULL;
  PyObject *comma = NULL;
  PyObject *inside = NULL;
  PyObject *parts = PyList_New((Py_ssize_t)count);
  if (parts == NULL) {
    goto done;
  }
  for (size_t i = 0; i < count; i++) {
    PyObject *text = field_text(self, i);
    if (text == NULL) {
      goto done;
    }
    PyList_SET_ITEM(parts, (Py_ssize_t)i, text);
  }
  comma = PyUnicode_FromString(", ");
  inside = comma != NULL ? PyUnicode_Join(comma, parts) : NULL;
  if (inside != NULL) {
    result = PyUnicode_FromFormat("%s(%U)", name, inside);
  }
done:
  Py_XDECREF(inside);
  Py_XDECREF(comma);
  Py_XDECREF(parts);
  Py_ReprLeave(self);
  return result;
}

Py_hash_t nm_py_hash_bytes(nm_span span) {
#if PY_VERSION_HEX >= 0x030e0000
  return Py_HashBuffer(span.ptr, (Py_ssize_t)span.len);
#elif PY_VERSION_HEX < 0x030d0000
  return _Py_HashBytes(span.ptr, (Py_ssize_t)span.len);
#else
  /* 3.13 shows neither: hash a bytes object that holds the same. */
  PyObject *copy =
      PyBytes_FromStringAndSize((const char *)span.ptr, (Py_ssize_t)span.len);
  Py_hash_t hash = copy == NULL ? -1 : PyObject_Hash(copy);
  Py_XDECREF(copy);
  return hash;
#endif
}

PyObject *nm_py_compare_bytes(nm_span a, nm_span b, int op) {
  if (op != Py_EQ && op != Py_NE) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBool_FromLong(nm_span_equal(a, b) == (op == Py_EQ));
}

PyObject *nm_py_hex(nm_span span) {
  static const char digits[] = "0123456789abcdef";
  PyObject *text = PyUnicode_New((Py_ssize_t)span.len * 2, 127);
  if (text == NULL) {
    return NULL;
  }
  Py_UCS1 *out = PyUnicode_1BYTE_DATA(text);
  for (size_t i = 0; i < span.len; i++) {
    out[2 * i] = (Py_UCS1)digits[span.ptr[i] >> 4];
    out[2 * i + 1] = (Py_UCS1)digits[span.ptr[i] & 15];
  }
  return text;
}

PyObject *nm_py_repr_hex(PyObject *self, nm_span span) {
  const char *name = strrchr(Py_TYPE(self)->tp_name, '.');
  name = name != NULL ? name + 1 : Py_TYPE(self)->tp_name;
  PyObject *hex = nm_py_hex(span);
  if (hex == NULL) {
    return NULL;
  }
  PyObject *text = PyUnicode_FromFormat("<%s %U>", name, hex);
  Py_DECREF(hex);
  return text;
}

PyObject *nm_py_refuse_pickle(PyObject *self, PyObject *Py_UNUSED(unused)) {
  PyErr_Format(PyExc_TypeError,
               "cannot pickle %.200s: it may hold private keys; store them "
               "deliberately instead",
               Py_TYPE(self)->tp_name);
  return NULL;
}
