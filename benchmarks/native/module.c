/* The module netmesh._bench: lists the rows, prepares one, runs blocks. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fixtures.h"
#include "nodes_module.h"
#include "timing.h"

#include "base/status.h"
#include "crypto/init.h"
#include "crypto/sha256_lanes.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct arm {
  const char *name;
  const nb_row *const *groups; /* NULL ends the list */
} arm;

static const nb_row *const core_groups[] = {
    nb_control_rows,
    nb_message_rows,
    nb_packet_rows,
    nb_segment_rows,
    nb_resource_rows,
    nb_announce_rows,
    nb_identity_rows,
    nb_link_rows,
    nb_stamp_rows,
    nb_transport_rows,
    NULL,
};
static const nb_row *const library_groups[] = {nb_control_rows, nb_library_rows,
                                               NULL};
static const arm arms[] = {
    {"core", core_groups}, {"library", library_groups}, {NULL, NULL}};

static const arm *find_arm(const char *name) {
  const arm *a = arms;
  while (a->name != NULL && strcmp(a->name, name) != 0) {
    a++;
  }
  return a->name != NULL ? a : NULL;
}

static const nb_row *find_row(const arm *a, const char *id) {
  for (const nb_row *const *group = a->groups; *group != NULL; group++) {
    for (const nb_row *row = *group; row->id != NULL; row++) {
      if (strcmp(row->id, id) == 0) {
        return row;
      }
    }
  }
  return NULL;
}

/* Whether this CPU can run |row|: a search names its instruction set. */
static bool is_possible(const nb_row *row) {
  const char prefix[] = "stamp.search.";
  return strncmp(row->id, prefix, sizeof prefix - 1) != 0 ||
         nm_sha256_lanes_named(row->option) != NULL;
}

static PyObject *fail(const char *row, int status) {
  PyErr_Format(PyExc_RuntimeError, "%s: %s (%s)", row, nm_status_name(status),
               nm_status_text(status));
  return NULL;
}

/* ------------------------------------------------------------ Prepared */

typedef struct prepared {
  PyObject_HEAD
  nb_bench bench;
  nb_histogram *histogram;
} prepared;

static void prepared_dealloc(PyObject *self) {
  prepared *p = (prepared *)self;
  PyTypeObject *type = Py_TYPE(self);
  nb_bench_close(&p->bench);
  PyMem_Free(p->histogram);
  type->tp_free(self);
  Py_DECREF(type);
}

static int check_amount(unsigned long long amount, const char *name) {
  if (amount == (unsigned long long)-1 && PyErr_Occurred()) {
    return -1;
  }
  if (amount == 0) {
    PyErr_Format(PyExc_ValueError, "%s must be above 0", name);
    return -1;
  }
  return 0;
}

PyDoc_STRVAR(block_doc,
             "block($self, ns, /)\n--\n\n"
             "Runs about ns nanoseconds, at least one call. Returns (calls, "
             "wall ns, CPU ns,\ninput of the last call, fingerprint of its "
             "output). RuntimeError for a wrong output.");

static PyObject *prepared_block(PyObject *self, PyObject *arg) {
  prepared *p = (prepared *)self;
  unsigned long long ns = PyLong_AsUnsignedLongLong(arg);
  if (check_amount(ns, "ns") < 0) {
    return NULL;
  }
  nb_block block;
  int status = nb_bench_block(&p->bench, ns, &block);
  if (status != NM_OK) {
    return fail(p->bench.row->id, status);
  }
  char check[17];
  snprintf(check, sizeof check, "%016" PRIx64, nb_fnv(block.evidence));
  return Py_BuildValue(
      "(KKKns)", (unsigned long long)block.calls, (unsigned long long)block.ns,
      (unsigned long long)block.cpu_ns, (Py_ssize_t)block.input, check);
}

static PyObject *pairs_of(const nb_histogram *histogram) {
  PyObject *pairs = PyList_New(0);
  for (size_t bin = 0; bin < NB_BINS && pairs != NULL; bin++) {
    if (histogram->counts[bin] == 0) {
      continue;
    }
    PyObject *pair =
        Py_BuildValue("[KK]", (unsigned long long)nb_histogram_upper(bin),
                      (unsigned long long)histogram->counts[bin]);
    if (pair == NULL || PyList_Append(pairs, pair) < 0) {
      Py_CLEAR(pairs);
    }
    Py_XDECREF(pair);
  }
  return pairs;
}

PyDoc_STRVAR(singles_doc,
             "singles($self, count, /)\n--\n\n"
             "Times count single calls. Returns ([[upper ns, count], ...], "
             "max ns, calls that\none entry spans, ns that reading the clock "
             "takes). RuntimeError for a wrong output.");

static PyObject *prepared_singles(PyObject *self, PyObject *arg) {
  prepared *p = (prepared *)self;
  unsigned long long count = PyLong_AsUnsignedLongLong(arg);
  if (check_amount(count, "count") < 0) {
    return NULL;
  }
  int status = nb_bench_singles(&p->bench, count, p->histogram);
  if (status != NM_OK) {
    return fail(p->bench.row->id, status);
  }
  uint64_t each = p->bench.row->calls_each;
  return Py_BuildValue("(NKKK)", pairs_of(p->histogram),
                       (unsigned long long)p->histogram->max_ns,
                       (unsigned long long)(each > 0 ? each : 1),
                       (unsigned long long)nb_clock_cost());
}

static PyMethodDef prepared_methods[] = {
    {"block", prepared_block, METH_O, block_doc},
    {"singles", prepared_singles, METH_O, singles_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(prepared_doc,
             "A row with its inputs, ready to be run. Confined to one thread.");

static PyType_Slot prepared_slots[] = {
    {Py_tp_doc, (void *)prepared_doc},
    {Py_tp_dealloc, prepared_dealloc},
    {Py_tp_methods, prepared_methods},
    {0, NULL},
};

static PyType_Spec prepared_spec = {
    .name = "netmesh._bench.Prepared",
    .basicsize = sizeof(prepared),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = prepared_slots,
};

/* -------------------------------------------------------------- module */

typedef struct state {
  PyTypeObject *prepared;
} state;

PyDoc_STRVAR(rows_doc,
             "rows($module, arm, /)\n--\n\n"
             "The rows of 'core' or 'library' that this CPU can run: a list of "
             "(id, note).");

static PyObject *bench_rows(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s:rows", &name)) {
    return NULL;
  }
  const arm *a = find_arm(name);
  if (a == NULL) {
    return PyErr_Format(PyExc_LookupError, "there is no arm '%s'", name);
  }
  PyObject *rows = PyList_New(0);
  for (const nb_row *const *group = a->groups; *group != NULL; group++) {
    for (const nb_row *row = *group; row->id != NULL && rows != NULL; row++) {
      if (!is_possible(row)) {
        continue;
      }
      PyObject *pair = Py_BuildValue("(ss)", row->id, row->note);
      if (pair == NULL || PyList_Append(rows, pair) < 0) {
        Py_CLEAR(rows);
      }
      Py_XDECREF(pair);
    }
  }
  return rows;
}

PyDoc_STRVAR(prepare_doc,
             "prepare($module, arm, row, /)\n--\n\n"
             "Builds the inputs of a row and checks its outputs once. "
             "LookupError for an unknown\nrow, RuntimeError for a wrong "
             "output.");

static PyObject *bench_prepare(PyObject *module, PyObject *args) {
  const char *name;
  const char *id;
  if (!PyArg_ParseTuple(args, "ss:prepare", &name, &id)) {
    return NULL;
  }
  const arm *a = find_arm(name);
  const nb_row *row = a != NULL ? find_row(a, id) : NULL;
  if (row == NULL) {
    return PyErr_Format(PyExc_LookupError, "'%s' has no row '%s'", name, id);
  }
  state *s = PyModule_GetState(module);
  prepared *p = (prepared *)s->prepared->tp_alloc(s->prepared, 0);
  if (p == NULL) {
    return NULL;
  }
  p->histogram = PyMem_Malloc(sizeof *p->histogram);
  if (p->histogram == NULL) {
    Py_DECREF(p);
    return PyErr_NoMemory();
  }
  int status = nb_bench_open(&p->bench, row);
  if (status != NM_OK) {
    Py_DECREF(p);
    return fail(id, status);
  }
  return (PyObject *)p;
}

static PyMethodDef methods[] = {
    {"rows", bench_rows, METH_VARARGS, rows_doc},
    {"prepare", bench_prepare, METH_VARARGS, prepare_doc},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *module) {
  state *s = PyModule_GetState(module);
  if (nm_crypto_init() != NM_OK) {
    PyErr_SetString(PyExc_ImportError, "libsodium could not be started");
    return -1;
  }
  s->prepared =
      (PyTypeObject *)PyType_FromModuleAndSpec(module, &prepared_spec, NULL);
  if (s->prepared == NULL) {
    return -1;
  }
  if (PyModule_AddType(module, s->prepared) < 0) {
    return -1;
  }
  if (nb_add_node_type(module) < 0) {
    return -1;
  }
  return PyModule_AddStringConstant(module, "COMPILER", __VERSION__);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  state *s = PyModule_GetState(module);
  Py_VISIT(s->prepared);
  return 0;
}

static int clear(PyObject *module) {
  state *s = PyModule_GetState(module);
  Py_CLEAR(s->prepared);
  return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, exec_module},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "netmesh._bench",
    .m_doc = "Native timing loops of the comparison report; see "
             "netmesh.bench.",
    .m_size = sizeof(state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__bench(void) {
  return PyModuleDef_Init(&definition);
}
