/* Instances of frozen dataclasses with slots, without their __init__, which
 * goes through object.__setattr__ for each field: events are made for every
 * packet.
 */
#include "py/state.h"

PyDoc_STRVAR(
    frozen_doc,
    "frozen(cls, /, **fields)\n--\n\n"
    "An instance of a dataclass with slots, its fields set to what is given. "
    "Nothing is checked:\nneither that all fields are there, nor their types. "
    "Raises TypeError for a name that is\nnot a slot, and for a class that "
    "makes its instances by itself.\n");

static bool is_plain(PyObject *cls) {
  return PyType_Check(cls) &&
         ((PyTypeObject *)cls)->tp_new == PyBaseObject_Type.tp_new &&
         PyType_HasFeature((PyTypeObject *)cls, Py_TPFLAGS_HEAPTYPE);
}

static int set_slot(PyTypeObject *type, PyObject *self, PyObject *name,
                    PyObject *value) {
  PyObject *slot = PyObject_GetAttr((PyObject *)type, name);
  if (slot == NULL) {
    PyErr_Clear();
  }
  if (slot == NULL || !Py_IS_TYPE(slot, &PyMemberDescr_Type)) {
    Py_XDECREF(slot);
    PyErr_Format(PyExc_TypeError, "%s has no slot '%U'", type->tp_name, name);
    return -1;
  }
  int result = Py_TYPE(slot)->tp_descr_set(slot, self, value);
  Py_DECREF(slot);
  return result;
}

static PyObject *core_frozen(PyObject *Py_UNUSED(module), PyObject *const *args,
                             Py_ssize_t nargs, PyObject *kwnames) {
  if (nargs != 1 || !is_plain(args[0])) {
    PyErr_SetString(PyExc_TypeError, "frozen() takes a dataclass and fields");
    return NULL;
  }
  PyTypeObject *type = (PyTypeObject *)args[0];
  PyObject *self = type->tp_alloc(type, 0);
  Py_ssize_t count = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; self != NULL && i < count; i++) {
    if (set_slot(type, self, PyTuple_GET_ITEM(kwnames, i), args[1 + i]) < 0) {
      Py_CLEAR(self);
    }
  }
  return self;
}

static PyMethodDef functions[] = {{"frozen",
                                   (PyCFunction)(void (*)(void))core_frozen,
                                   METH_FASTCALL | METH_KEYWORDS, frozen_doc},
                                  {NULL, NULL, 0, NULL}};

int nm_py_frozen_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
