/* The module netmesh._core: makes its state, then lets each part add its
 * classes and functions.
 */
#include "py/cipher.h"
#include "py/state.h"

PyDoc_STRVAR(module_doc,
             "The C core of netmesh. Use it through the modules of the package "
             "netmesh.");

/* ------------------------------------------------------------ classes */

/* A class is public unless it is internal by name. */
static const char *public_name(const PyType_Spec *spec) {
  const char *dot = strrchr(spec->name, '.');
  const char *name = dot != NULL ? dot + 1 : spec->name;
  return name[0] == '_' ? NULL : name;
}

int nm_py_type_add(PyObject *module, nm_state *state, nm_type_index index,
                   PyType_Spec *spec, PyTypeObject *base,
                   vectorcallfunc constructor) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
  if (type == NULL) {
    return -1;
  }
  state->types[index] = (PyTypeObject *)type; /* the state owns it */
  if (constructor != NULL) {
    ((PyTypeObject *)type)->tp_vectorcall = constructor;
  }
  const char *name = public_name(spec);
  return name != NULL ? PyModule_AddObjectRef(module, name, type) : 0;
}

int nm_py_type_constant(PyTypeObject *type, const char *name, PyObject *value) {
  if (value == NULL) {
    return -1;
  }
  int result = PyDict_SetItemString(type->tp_dict, name, value);
  Py_DECREF(value);
  PyType_Modified(type);
  return result;
}

/* -------------------------------------------------------------- state */

static int add_strings(nm_state *state) {
#define NM_PY_NAME_STR(name) #name,
  static const char *const names[] = {NM_PY_STRINGS(NM_PY_NAME_STR)};
#undef NM_PY_NAME_STR
  for (size_t i = 0; i < NM_STR_COUNT; i++) {
    state->strings[i] = PyUnicode_InternFromString(names[i]);
    if (state->strings[i] == NULL) {
      return -1;
    }
  }
  return 0;
}

/* Fills |out| with the attributes |names| of the Python object |from|, over
 * which it takes charge; |from| may be NULL with an exception set. */
static int take_attributes(PyObject *from, const char *const *names,
                           size_t count, PyObject **out) {
  if (from == NULL) {
    return -1;
  }
  int result = 0;
  for (size_t i = 0; i < count && result == 0; i++) {
    out[i] = PyObject_GetAttrString(from, names[i]);
    result = out[i] != NULL ? 0 : -1;
  }
  Py_DECREF(from);
  return result;
}

static int add_errors(nm_state *state) {
#define NM_PY_NAME_ERROR(name) #name,
  static const char *const names[] = {NM_PY_ERRORS(NM_PY_NAME_ERROR)};
#undef NM_PY_NAME_ERROR
  return take_attributes(PyImport_ImportModule("netmesh.errors"), names,
                         NM_ERROR_COUNT, state->errors);
}

static int add_verdicts(nm_state *state) {
#define NM_PY_NAME_VERDICT(name) #name,
  static const char *const names[] = {NM_PY_VERDICTS(NM_PY_NAME_VERDICT)};
#undef NM_PY_NAME_VERDICT
  PyObject *module = PyImport_ImportModule("netmesh._verdict");
  if (module == NULL) {
    return -1;
  }
  PyObject *verdict = PyObject_GetAttrString(module, "Verdict");
  Py_DECREF(module);
  return take_attributes(verdict, names, NM_VERDICT_COUNT, state->verdicts);
}

/* ------------------------------------------------------------- module */

static int module_exec(PyObject *module) {
  nm_state *state = nm_py_state_of_module(module);
  if (add_strings(state) < 0 || add_errors(state) < 0 ||
      add_verdicts(state) < 0) {
    return -1;
  }
  typedef int (*add_part)(PyObject *, nm_state *);
#define NM_PY_NAME_PART(name) nm_py_##name##_add,
  static const add_part parts[] = {NM_PY_PARTS(NM_PY_NAME_PART) NULL};
#undef NM_PY_NAME_PART
  for (size_t i = 0; parts[i] != NULL; i++) {
    if (parts[i](module, state) < 0) {
      return -1;
    }
  }
  return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  nm_state *state = nm_py_state_of_module(module);
  for (size_t i = 0; i < NM_TYPE_COUNT; i++) {
    Py_VISIT(state->types[i]);
  }
  for (size_t i = 0; i < NM_ERROR_COUNT; i++) {
    Py_VISIT(state->errors[i]);
  }
  for (size_t i = 0; i < NM_VERDICT_COUNT; i++) {
    Py_VISIT(state->verdicts[i]);
  }
  return 0;
}

static int module_clear(PyObject *module) {
  nm_state *state = nm_py_state_of_module(module);
  for (size_t i = 0; i < NM_TYPE_COUNT; i++) {
    Py_CLEAR(state->types[i]);
  }
  for (size_t i = 0; i < NM_STR_COUNT; i++) {
    Py_CLEAR(state->strings[i]);
  }
  for (size_t i = 0; i < NM_ERROR_COUNT; i++) {
    Py_CLEAR(state->errors[i]);
  }
  for (size_t i = 0; i < NM_VERDICT_COUNT; i++) {
    Py_CLEAR(state->verdicts[i]);
  }
  return 0;
}

static void module_free(void *module) {
  module_clear((PyObject *)module);
  nm_py_cipher_clear(nm_py_state_of_module((PyObject *)module));
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    /* Py_mod_gil is left out, so that a free-threaded interpreter keeps its
     * lock with this module: what was not tested there is not claimed. */
    {0, NULL}};

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "netmesh._core",
    .m_doc = module_doc,
    .m_size = sizeof(nm_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&module_def);
}
