/* Value objects: immutable, compared and hashed by value, printed by field.
 *
 * A record is an object whose whole content is a row of object references. Its
 * class has a PyMemberDef table made with NM_PY_FIELD, in the order of the
 * places, and takes its slots from NM_PY_RECORD_SLOTS; the number of fields
 * and their names are read from the class. So a value class is its table, its
 * constructor and its methods.
 *
 *   enum { EXT_TYPE, EXT_DATA, EXT_FIELDS };
 *   static PyMemberDef ext_members[] = {
 *       NM_PY_FIELD("type", EXT_TYPE, "Type code, -128 to 127."),
 *       NM_PY_FIELD("data", EXT_DATA, "Content."),
 *       {0}};
 *   ... .basicsize = NM_PY_RECORD_SIZE(EXT_FIELDS),
 *       .flags = NM_PY_RECORD_FLAGS
 */
#ifndef NM_PY_VALUE_H
#define NM_PY_VALUE_H

#include "base/bytes.h"
#include "py/state.h"

#include <structmember.h>

typedef struct nm_py_record {
  PyObject_HEAD
  PyObject *field[]; /* strong; all set once the constructor has returned */
} nm_py_record;

#define NM_PY_RECORD_SIZE(count)                                               \
  (int)(sizeof(nm_py_record) + (count) * sizeof(PyObject *))
#define NM_PY_RECORD_FLAGS (NM_PY_FLAGS | Py_TPFLAGS_HAVE_GC)
#define NM_PY_FIELD(name, place, doc)                                          \
  {                                                                            \
    name, T_OBJECT_EX,                                                         \
        (Py_ssize_t)(sizeof(nm_py_record) + (place) * sizeof(PyObject *)),     \
        READONLY, doc                                                          \
  }
/* The slots of a record but for comparison and hash, for classes that have
 * their own. */
#define NM_PY_RECORD_BASE_SLOTS                                                \
  {Py_tp_dealloc, (void *)nm_py_record_dealloc},                               \
      {Py_tp_traverse, (void *)nm_py_record_traverse},                         \
      {Py_tp_clear, (void *)nm_py_record_clear}, {                             \
    Py_tp_repr, (void *)nm_py_record_repr                                      \
  }
#define NM_PY_RECORD_SLOTS                                                     \
  NM_PY_RECORD_BASE_SLOTS, {Py_tp_richcompare, (void *)nm_py_record_compare},  \
  {                                                                            \
    Py_tp_hash, (void *)nm_py_record_hash                                      \
  }

void nm_py_record_dealloc(PyObject *self);
int nm_py_record_traverse(PyObject *self, visitproc visit, void *arg);
int nm_py_record_clear(PyObject *self);
PyObject *nm_py_record_compare(PyObject *self, PyObject *other, int op);
Py_hash_t nm_py_record_hash(PyObject *self);
PyObject *nm_py_record_repr(PyObject *self);

/* A record of |type| with |fields|, whose references are taken over in every
 * case. When one of them is NULL an exception must be set; the result is then
 * NULL. */
PyObject *nm_py_record_new(PyTypeObject *type, PyObject **fields);

/* Field |place|, borrowed. */
static inline PyObject *nm_py_record_get(PyObject *self, size_t place) {
  return ((nm_py_record *)self)->field[place];
}

/* The hash of a bytes object with this content (never -1). */
Py_hash_t nm_py_hash_bytes(nm_span span);

/* Py_EQ and Py_NE of two runs of bytes; NotImplemented for other |op|s. New
 * reference. */
PyObject *nm_py_compare_bytes(nm_span a, nm_span b, int op);

/* The lower-case hexadecimal text of |span|, a new str. */
PyObject *nm_py_hex(nm_span span);

/* `<Name deadbeef...>`, the repr of an object that is known by a hash. */
PyObject *nm_py_repr_hex(PyObject *self, nm_span span);

/* `__reduce__` of objects that hold secrets: a TypeError that says why. */
PyObject *nm_py_refuse_pickle(PyObject *self, PyObject *unused);
#define NM_PY_REFUSE_PICKLE                                                    \
  {                                                                            \
    "__reduce__", nm_py_refuse_pickle, METH_NOARGS,                            \
        "Refuses: objects that may hold private keys are not pickled."         \
  }

#endif
