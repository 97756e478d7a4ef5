/* Stamp: what a search found. StampCancel: what ends one. (LXMF 6) */
#include "py/stamp.h"

#include "py/args.h"
#include "py/value.h"

/* ------------------------------------------------------------------- Stamp */

enum { STAMP_BYTES, STAMP_VALUE, STAMP_TRIES, STAMP_SECONDS, STAMP_FIELDS };

static PyMemberDef stamp_members[] = {
    NM_PY_FIELD("stamp", STAMP_BYTES, "The stamp, 32 bytes."),
    NM_PY_FIELD("value", STAMP_VALUE,
                "What it is worth: leading zero bits of its digest."),
    NM_PY_FIELD("tries", STAMP_TRIES,
                "Candidates that were tried by all threads."),
    NM_PY_FIELD("seconds", STAMP_SECONDS, "How long the search took."),
    {NULL, 0, 0, 0, NULL}};

PyObject *nm_py_stamp_new(nm_state *state, const uint8_t stamp[NM_STAMP_SIZE],
                          uint32_t value, uint64_t tries, double seconds) {
  PyObject *fields[STAMP_FIELDS] = {
      nm_py_bytes(nm_span_of(stamp, NM_STAMP_SIZE)),
      PyLong_FromUnsignedLong(value), PyLong_FromUnsignedLongLong(tries),
      PyFloat_FromDouble(seconds)};
  return nm_py_record_new(NM_PY_TYPE(state, Stamp), fields);
}

PyDoc_STRVAR(stamp_doc, "A stamp that Workblock.search() found. Immutable.");

static PyType_Slot stamp_slots[] = {{Py_tp_doc, (void *)stamp_doc},
                                    {Py_tp_members, stamp_members},
                                    NM_PY_RECORD_SLOTS,
                                    {0, NULL}};

static PyType_Spec stamp_spec = {
    .name = "netmesh._core.Stamp",
    .basicsize = NM_PY_RECORD_SIZE(STAMP_FIELDS),
    .flags = NM_PY_RECORD_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stamp_slots,
};

/* ------------------------------------------------------------- StampCancel */

static void cancel_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *cancel_construct(PyObject *callable, PyObject *const *args,
                                  size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {.function = "StampCancel"};
  PyTypeObject *type = (PyTypeObject *)callable;
  PyObject *in[1];
  if (nm_py_parse(nm_py_state_of_type(type), &signature, args, nargsf, kwnames,
                  in) < 0) {
    return NULL;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self != NULL) {
    atomic_init(&((nm_py_stamp_cancel *)self)->cancelled, false);
  }
  return self;
}

PyDoc_STRVAR(cancel_cancel_doc,
             "cancel($self, /)\n--\n\n"
             "Ends the searches that were given this object, within 50 ms, and "
             "every later one.");

static PyObject *cancel_cancel(PyObject *self, PyObject *Py_UNUSED(unused)) {
  atomic_store(&((nm_py_stamp_cancel *)self)->cancelled, true);
  Py_RETURN_NONE;
}

static PyObject *cancel_get(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(atomic_load(&((nm_py_stamp_cancel *)self)->cancelled));
}

static PyMethodDef cancel_methods[] = {
    {"cancel", cancel_cancel, METH_NOARGS, cancel_cancel_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef cancel_getters[] = {
    {"cancelled", cancel_get, NULL, "Was cancel() called?", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyDoc_STRVAR(cancel_doc,
             "StampCancel()\n--\n\n"
             "Ends a search for a stamp from any thread. Used once: it stays "
             "cancelled.");

static PyType_Slot cancel_slots[] = {
    {Py_tp_doc, (void *)cancel_doc},         {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)cancel_dealloc}, {Py_tp_getset, cancel_getters},
    {Py_tp_methods, cancel_methods},         {0, NULL}};

static PyType_Spec cancel_spec = {
    .name = "netmesh._core.StampCancel",
    .basicsize = sizeof(nm_py_stamp_cancel),
    .flags = NM_PY_FLAGS,
    .slots = cancel_slots,
};

int nm_py_stamp_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Stamp, &stamp_spec, NULL, NULL) <
      0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_StampCancel, &cancel_spec, NULL,
                        cancel_construct);
}
