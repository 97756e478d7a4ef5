/* The class LoopCore: a thread that hosts nodes. */
#include "py/errors.h"
#include "py/node.h"

typedef struct py_loop {
  PyObject_HEAD
  nm_loop *loop; /* NULL once it has stopped */
} py_loop;

static py_loop *self_of(PyObject *self) {
  return (py_loop *)self;
}

nm_loop *nm_py_loop_of(nm_state *state, PyObject *obj, const char *function,
                       const char *name) {
  if (!Py_IS_TYPE(obj, NM_PY_TYPE(state, LoopCore))) {
    nm_py_type_error(function, name, "a LoopCore", obj);
    return NULL;
  }
  if (self_of(obj)->loop == NULL) {
    nm_py_simple_error(state, NM_ERROR_StateError, NM_E(STATE),
                       "loop: it has stopped");
  }
  return self_of(obj)->loop;
}

/* ------------------------------------------------------------ construction */

#define OPTION(name, max)                                                      \
  NM_PY_COLUMN_IN(#name, U32, nm_loop_config, name, 0, max)

static const nm_py_column config_columns[] = {
    OPTION(workers, 64),
    OPTION(jobs_max, UINT32_MAX),
    OPTION(inline_budget_us, UINT32_MAX),
};

static PyObject *loop_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  nm_loop_config config = {0};
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "LoopCore() takes no keywords");
  }
  if (!nm_py_arity("LoopCore", PyVectorcall_NARGS(nargsf), 1, 1) ||
      nm_py_columns_read(state, args[0], config_columns,
                         NM_PY_COLUMN_COUNT(config_columns), "LoopCore",
                         &config) < 0) {
    return NULL;
  }
  py_loop *self =
      (py_loop *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
  if (self == NULL) {
    return NULL;
  }
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_loop_start(&config, &self->loop);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    Py_DECREF(self);
    return nm_py_raise_status(state, status, "loop", "thread");
  }
  return (PyObject *)self;
}

/* ---------------------------------------------------------------- the end */

/* Stops and joins; nothing of it is touched in a forked child. */
static int stop(py_loop *self) {
  nm_loop *loop = self->loop;
  int status = NM_OK;
  self->loop = NULL;
  if (loop != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    status = nm_loop_stop(loop);
    Py_END_ALLOW_THREADS;
  }
  return status;
}

static PyObject *loop_stop(PyObject *self, PyObject *Py_UNUSED(unused)) {
  if (stop(self_of(self)) != NM_OK) {
    return nm_py_simple_error(
        nm_py_state_of(self), NM_ERROR_StateError, NM_E(STATE),
        "loop: it belongs to the process that this one was forked from");
  }
  Py_RETURN_NONE;
}

static void loop_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  (void)stop(self_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

/* ----------------------------------------------------------------- figures */

#define FIGURE(name, kind) NM_PY_COLUMN(#name, kind, nm_loop_stats, name)

static const nm_py_column stat_columns[] = {
    FIGURE(turns, U64),       FIGURE(posts, U64),
    FIGURE(jobs_inline, U64), FIGURE(jobs_pooled, U64),
    FIGURE(jobs_stored, U64), FIGURE(nodes, U32),
    FIGURE(workers, U32),
};

static PyObject *loop_stats(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_state *state = nm_py_state_of(self);
  nm_loop *loop = nm_py_loop_of(state, self, "stats", "self");
  if (loop == NULL) {
    return NULL;
  }
  nm_loop_stats stats;
  nm_loop_stats_read(loop, &stats);
  return nm_py_columns_dict(state, stat_columns,
                            NM_PY_COLUMN_COUNT(stat_columns), &stats);
}

static PyObject *loop_stopped(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(self_of(self)->loop == NULL);
}

/* ------------------------------------------------------------------- pipes */

static PyObject *pipe_pair(PyObject *module, PyObject *Py_UNUSED(unused)) {
  int fds[2];
  if (nm_pipe_pair(fds) != NM_OK) {
    return nm_py_raise_status(nm_py_state_of_module(module), NM_E(LIBRARY),
                              "loop", "pipe");
  }
  return Py_BuildValue("(ii)", fds[0], fds[1]);
}

static PyMethodDef functions[] = {
    {"pipe_pair", pipe_pair, METH_NOARGS,
     "pipe_pair($module, /)\n--\n\n"
     "Two connected descriptors for the two ends of a pipe between nodes."},
    {NULL, NULL, 0, NULL}};

/* ------------------------------------------------------------------- class */

PyDoc_STRVAR(loop_doc,
             "LoopCore(config, /)\n--\n\n"
             "A thread that hosts nodes without the GIL; netmesh.loop.Loop is "
             "the facade that\nprograms use. config is a dict with workers, "
             "jobs_max and inline_budget_us; 0 or\nabsent means the "
             "default.\n\n"
             "May be used from any thread.\n");

static PyMethodDef loop_methods[] = {
    {"stop", loop_stop, METH_NOARGS,
     "stop($self, /)\n--\n\n"
     "Closes all nodes and joins the thread; quiet when repeated."},
    {"stats", loop_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nCounters as a dict."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef loop_getset[] = {
    {"stopped", loop_stopped, NULL, "Whether stop was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot loop_slots[] = {
    {Py_tp_doc, (void *)loop_doc},         {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)loop_dealloc}, {Py_tp_methods, loop_methods},
    {Py_tp_getset, loop_getset},           {0, NULL}};

static PyType_Spec loop_spec = {.name = "netmesh._core.LoopCore",
                                .basicsize = sizeof(py_loop),
                                .flags = NM_PY_FLAGS,
                                .slots = loop_slots};

int nm_py_loop_add(PyObject *module, nm_state *state) {
  if (PyModule_AddFunctions(module, functions) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_LoopCore, &loop_spec, NULL,
                        loop_construct);
}
