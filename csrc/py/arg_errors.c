#include "py/arg_errors.h"

#include <string.h>

/* The name of the class of |obj| without its module. */
static const char *type_of(PyObject *obj) {
  if (obj == Py_None) {
    return "None";
  }
  const char *full = Py_TYPE(obj)->tp_name;
  const char *dot = strrchr(full, '.');
  return dot != NULL ? dot + 1 : full;
}

int nm_py_type_error(const char *function, const char *name, const char *wanted,
                     PyObject *got) {
  PyErr_Format(PyExc_TypeError, "%s() parameter '%s' must be %s, not %.200s",
               function, name, wanted, type_of(got));
  return -1;
}

int nm_py_length_error(const char *function, const char *name, size_t wanted,
                       size_t got) {
  PyErr_Format(PyExc_ValueError,
               "%s() parameter '%s' must be %zu bytes long, not %zu", function,
               name, wanted, got);
  return -1;
}
