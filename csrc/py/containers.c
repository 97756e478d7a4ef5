#include "py/containers.h"

#include "py/arg_errors.h"

PyObject *nm_py_mapping(PyObject *obj, const char *function, const char *name) {
  if (!PyDict_Check(obj) && !PyObject_HasAttrString(obj, "keys")) {
    nm_py_type_error(function, name, "a mapping", obj);
    return NULL;
  }
  PyObject *dict = PyDict_New();
  if (dict != NULL && PyDict_Update(dict, obj) < 0) {
    Py_CLEAR(dict);
  }
  return dict;
}

PyObject *nm_py_sequence(PyObject *obj, const char *function, const char *name,
                         const char *wanted) {
  if (PyUnicode_Check(obj) || PyObject_CheckBuffer(obj) ||
      !PySequence_Check(obj)) {
    nm_py_type_error(function, name, wanted, obj);
    return NULL;
  }
  return PySequence_Tuple(obj);
}
