/* SimCore: a simulation of the sim room with Python as its director.
 *
 *   sim.c        life, nodes, time, traces
 *   sim_media.c  media, members, figures
 */
#include "py/sim.h"

#include "py/engine.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"

#include <string.h>

/* ---------------------------------------------------------- begin and end */

static PyObject *refuse(PyObject *self, const char *why) {
  return nm_py_simple_error(nm_py_state_of(self), NM_ERROR_StateError,
                            NM_E(STATE), "simulation: %s", why);
}

nm_sim *nm_py_sim_read(PyObject *self) {
  nm_py_sim *s = nm_py_sim_of(self);
  if (s->busy) {
    refuse(self, "it is running in another thread");
    return NULL;
  }
  return s->sim;
}

PyObject *nm_py_sim_done(PyObject *self, int status, const char *what,
                         PyObject *result) {
  if (result != NULL && status < 0) {
    Py_CLEAR(result);
    if (status == NM_E(ARGUMENT)) {
      return PyErr_Format(PyExc_ValueError, "simulation: %s %s", what,
                          nm_status_text(status));
    }
    return nm_py_engine_raise(nm_py_state_of(self), status, what);
  }
  return result;
}

int nm_py_sim_id(PyObject *obj, const char *function, const char *name,
                 uint32_t *out) {
  long long value;
  if (nm_py_int(obj, function, name, 0, UINT32_MAX, &value) < 0) {
    return -1;
  }
  *out = (uint32_t)value;
  return 0;
}

int nm_py_sim_name(PyObject *obj, const char *function, const char *name,
                   const char **out) {
  nm_span text;
  if (nm_py_text(obj, function, name, &text) < 0) {
    return -1;
  }
  *out = (const char *)text.ptr;
  if (strlen(*out) != text.len) {
    PyErr_Format(PyExc_ValueError, "%s() parameter '%s' has a zero byte in it",
                 function, name);
    return -1;
  }
  return 0;
}

/* ----------------------------------------------------------------- engines */

static nm_engine *engine_at(PyObject *owner, uint32_t place, nm_now *now) {
  nm_sim *sim = nm_py_sim_read(owner);
  if (sim == NULL) {
    return NULL;
  }
  nm_engine *engine = nm_sim_engine(sim, place);
  if (engine == NULL) {
    refuse(owner, "the node is down");
    return NULL;
  }
  *now = nm_sim_now(sim, place);
  return engine;
}

static void settle_at(PyObject *owner, uint32_t place) {
  nm_sim_touch(nm_py_sim_of(owner)->sim, place);
}

static const nm_py_engine_host host = {engine_at, settle_at};

static PyObject *sim_engine(PyObject *self, PyObject *arg) {
  uint32_t node;
  if (nm_py_sim_id(arg, "engine", "node", &node) < 0 ||
      nm_py_sim_read(self) == NULL) {
    return NULL;
  }
  return nm_py_engine_hosted(nm_py_state_of(self), &host, self, node);
}

/* ------------------------------------------------------------------- nodes */

#define OPTION(name, kind, max)                                                \
  NM_PY_COLUMN_IN(#name, kind, nm_sim_node_config, name, 0, max)
#define LONG_MAX_US ((long long)1 << 50)

static const nm_py_column node_columns[] = {
    NM_PY_COLUMN_IN("clock_ahead_us", I64, nm_sim_node_config, clock_ahead_us,
                    -LONG_MAX_US, LONG_MAX_US),
    OPTION(job_percent_min, U32, 100000000),
    OPTION(job_percent_max, U32, 100000000),
    OPTION(store_us_min, U64, LONG_MAX_US),
    OPTION(store_us_max, U64, LONG_MAX_US),
    OPTION(store_failure_ppm, U32, 1000000),
    OPTION(credit, U32, UINT32_MAX),
    OPTION(auto_credit, BOOL, 0),
    OPTION(allocation_failure_ppm, U32, 1000000),
};

/* node_add(name, identity, settings, limits, options) */
static PyObject *sim_node_add(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  nm_sim *sim = nm_py_sim_read(self);
  const char *name;
  nm_sim_node_config config;
  nm_sim_node_config_default(&config);
  if (sim == NULL || !nm_py_arity("node_add", nargs, 5, 5) ||
      nm_py_sim_name(args[0], "node_add", "name", &name) < 0 ||
      nm_py_engine_config_read(state, args[2], args[3], "node_add",
                               &config.engine) < 0 ||
      nm_py_columns_read(state, args[4], node_columns,
                         NM_PY_COLUMN_COUNT(node_columns), "node_add",
                         &config) < 0) {
    return NULL;
  }
  nm_identity copy = {0};
  if (args[1] != Py_None) {
    const nm_identity *own =
        nm_py_identity_private(state, args[1], "node_add", "identity");
    if (own == NULL) {
      return NULL;
    }
    copy = *own;
    config.engine.identity = &copy;
  }
  nm_sim_node_id node = 0;
  int status = nm_sim_node_add(sim, name, &config, &node);
  nm_identity_wipe(&copy);
  return nm_py_sim_done(self, status, "node", PyLong_FromUnsignedLong(node));
}

typedef int (*change)(nm_sim *sim, nm_sim_node_id node);

static PyObject *change_node(PyObject *self, PyObject *arg,
                             const char *function, change call) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  if (sim == NULL || nm_py_sim_id(arg, function, "node", &node) < 0) {
    return NULL;
  }
  return nm_py_sim_done(self, call(sim, node), "node", Py_NewRef(Py_None));
}

static PyObject *sim_crash(PyObject *self, PyObject *arg) {
  return change_node(self, arg, "crash", nm_sim_crash);
}

static PyObject *sim_stop(PyObject *self, PyObject *arg) {
  return change_node(self, arg, "stop", nm_sim_stop);
}

static PyObject *sim_restart(PyObject *self, PyObject *arg) {
  return change_node(self, arg, "restart", nm_sim_restart);
}

static PyObject *sim_is_up(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  if (sim == NULL || nm_py_sim_id(arg, "is_up", "node", &node) < 0) {
    return NULL;
  }
  return PyBool_FromLong(nm_sim_engine(sim, node) != NULL);
}

static PyObject *sim_now(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  if (sim == NULL || nm_py_sim_id(arg, "now", "node", &node) < 0) {
    return NULL;
  }
  nm_now now = nm_sim_now(sim, node);
  return Py_BuildValue("(KL)", (unsigned long long)now.mono_us,
                       (long long)now.unix_us);
}

static PyObject *sim_clock_step(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  long long us;
  if (sim == NULL || !nm_py_arity("clock_step", nargs, 2, 2) ||
      nm_py_sim_id(args[0], "clock_step", "node", &node) < 0 ||
      nm_py_int(args[1], "clock_step", "us", -LONG_MAX_US, LONG_MAX_US, &us) <
          0) {
    return NULL;
  }
  nm_sim_clock_step(sim, node, us);
  Py_RETURN_NONE;
}

static PyObject *sim_watch(PyObject *self, PyObject *const *args,
                           Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  uint32_t kinds;
  if (sim == NULL || !nm_py_arity("watch", nargs, 2, 2) ||
      nm_py_sim_id(args[0], "watch", "node", &node) < 0 ||
      nm_py_sim_id(args[1], "watch", "kinds", &kinds) < 0) {
    return NULL;
  }
  nm_sim_watch(sim, node, kinds);
  Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ stores */

static PyObject *sim_stored(PyObject *self, PyObject *const *args,
                            Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  const char *name;
  if (sim == NULL || !nm_py_arity("stored", nargs, 2, 2) ||
      nm_py_sim_id(args[0], "stored", "node", &node) < 0 ||
      nm_py_sim_name(args[1], "stored", "name", &name) < 0) {
    return NULL;
  }
  nm_span bytes = nm_sim_stored(sim, node, name);
  return bytes.ptr == NULL ? Py_NewRef(Py_None) : nm_py_bytes(bytes);
}

static PyObject *sim_stored_names(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  if (sim == NULL || nm_py_sim_id(arg, "stored_names", "node", &node) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  const char *name = NULL;
  while (list != NULL && (name = nm_sim_stored_next(sim, node, name)) != NULL) {
    PyObject *item = PyUnicode_FromString(name);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *sim_store(PyObject *self, PyObject *const *args,
                           Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  const char *name;
  nm_py_buffer bytes;
  if (sim == NULL || !nm_py_arity("store", nargs, 3, 3) ||
      nm_py_sim_id(args[0], "store", "node", &node) < 0 ||
      nm_py_sim_name(args[1], "store", "name", &name) < 0 ||
      nm_py_buffer_get(args[2], "store", "data", &bytes) < 0) {
    return NULL;
  }
  int status = nm_sim_store(sim, node, name, bytes.span);
  nm_py_buffer_release(&bytes);
  return nm_py_sim_done(self, status, "store", Py_NewRef(Py_None));
}

/* -------------------------------------------------------------------- time */

static PyObject *sim_run(PyObject *self, PyObject *arg) {
  uint64_t until_us;
  nm_sim *sim = nm_py_sim_read(self);
  if (sim == NULL || nm_py_engine_u64(arg, "run", "until_us", &until_us) < 0) {
    return NULL;
  }
  nm_py_sim *s = nm_py_sim_of(self);
  nm_sim_pause pause;
  s->busy = true;
  Py_BEGIN_ALLOW_THREADS;
  pause = nm_sim_run(sim, until_us);
  Py_END_ALLOW_THREADS;
  s->busy = false;
  return PyLong_FromLong((long)pause);
}

static PyObject *sim_call_at(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint64_t at_us;
  uint64_t tag;
  if (sim == NULL || !nm_py_arity("call_at", nargs, 2, 2) ||
      nm_py_engine_u64(args[0], "call_at", "at_us", &at_us) < 0 ||
      nm_py_engine_u64(args[1], "call_at", "tag", &tag) < 0) {
    return NULL;
  }
  return nm_py_sim_done(self, nm_sim_call_at(sim, at_us, tag), "call",
                        Py_NewRef(Py_None));
}

static PyObject *sim_due(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_sim *sim = nm_py_sim_read(self);
  uint64_t tag;
  if (sim == NULL) {
    return NULL;
  }
  return nm_sim_due(sim, &tag) ? PyLong_FromUnsignedLongLong(tag)
                               : Py_NewRef(Py_None);
}

static PyObject *sim_events(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_sim *sim = nm_py_sim_read(self);
  PyObject *list = sim == NULL ? NULL : PyList_New(0);
  nm_sim_node_id node;
  nm_event event;
  while (list != NULL && nm_sim_event(sim, &node, &event)) {
    PyObject *raw = nm_py_raw_event_new(nm_py_state_of(self), &event);
    PyObject *item =
        raw == NULL ? NULL : Py_BuildValue("(IN)", (unsigned int)node, raw);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *sim_fail(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  const char *text;
  if (sim == NULL || nm_py_sim_name(arg, "fail", "text", &text) < 0) {
    return NULL;
  }
  nm_sim_fail(sim, text);
  Py_RETURN_NONE;
}

static PyObject *failure_text(const nm_sim *sim) {
  const char *text = nm_sim_failure(sim);
  if (text == NULL) {
    Py_RETURN_NONE;
  }
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *sim_finish(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_sim *sim = nm_py_sim_read(self);
  if (sim == NULL) {
    return NULL;
  }
  (void)nm_sim_finish(sim);
  return failure_text(sim);
}

/* ------------------------------------------------------------------ traces */

#define TRACE_LINE 600
#define TRACE_MIN 65536

/* Runs without the GIL. */
static void keep_line(void *user, const nm_sim *sim, const nm_sim_note *note) {
  nm_py_sim *s = user;
  if (s->trace_len + TRACE_LINE > s->trace_cap) {
    size_t cap = s->trace_cap == 0 ? TRACE_MIN : s->trace_cap * 2;
    char *grown = PyMem_RawRealloc(s->trace, cap);
    if (grown == NULL) {
      s->trace_lost = true;
      return;
    }
    s->trace = grown;
    s->trace_cap = cap;
  }
  s->trace_len +=
      nm_sim_note_text(sim, note, &s->trace[s->trace_len], TRACE_LINE - 1);
  s->trace[s->trace_len++] = '\n';
}

static PyObject *sim_trace(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  bool on;
  if (sim == NULL || nm_py_bool(arg, "trace", "on", &on) < 0) {
    return NULL;
  }
  nm_sim_trace(sim, on ? keep_line : NULL, nm_py_sim_of(self));
  Py_RETURN_NONE;
}

static PyObject *sim_take_trace(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_py_sim *s = nm_py_sim_of(self);
  if (nm_py_sim_read(self) == NULL) {
    return NULL;
  }
  if (s->trace_lost) {
    s->trace_lost = false;
    return PyErr_NoMemory();
  }
  PyObject *text = PyUnicode_DecodeUTF8(s->trace_len == 0 ? "" : s->trace,
                                        (Py_ssize_t)s->trace_len, "replace");
  s->trace_len = 0;
  return text;
}

static PyObject *sim_digest(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_sim *sim = nm_py_sim_read(self);
  uint8_t digest[NM_HASH_SIZE];
  if (sim == NULL) {
    return NULL;
  }
  nm_sim_digest(sim, digest);
  return nm_py_bytes(nm_span_of(digest, sizeof digest));
}

/* ------------------------------------------------------------------- class */

/* SimCore(seed, start_mono_us, start_unix_us, steps_at_once_max, check_all) */
static PyObject *sim_construct(PyObject *type, PyObject *const *args,
                               size_t nargsf, PyObject *kwnames) {
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "SimCore() takes no keywords");
  }
  nm_sim_config config;
  nm_sim_config_default(&config);
  long long unix_us;
  if (!nm_py_arity("SimCore", PyVectorcall_NARGS(nargsf), 5, 5) ||
      nm_py_engine_u64(args[0], "SimCore", "seed", &config.seed) < 0 ||
      nm_py_engine_u64(args[1], "SimCore", "start_mono_us",
                       &config.start_mono_us) < 0 ||
      nm_py_int(args[2], "SimCore", "start_unix_us", -LONG_MAX_US,
                2 * LONG_MAX_US, &unix_us) < 0 ||
      nm_py_sim_id(args[3], "SimCore", "steps_at_once_max",
                   &config.steps_at_once_max) < 0 ||
      nm_py_bool(args[4], "SimCore", "check_all", &config.check_all) < 0) {
    return NULL;
  }
  config.start_unix_us = unix_us;
  nm_py_sim *s =
      (nm_py_sim *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
  if (s == NULL) {
    return NULL;
  }
  int status = NM_OK;
  s->sim = nm_sim_new(&nm_mem_system, &config, &status);
  if (s->sim == NULL) {
    Py_DECREF(s);
    return nm_py_engine_raise(nm_py_state_of_type((PyTypeObject *)type), status,
                              "simulation");
  }
  return (PyObject *)s;
}

static void sim_dealloc(PyObject *self) {
  nm_py_sim *s = nm_py_sim_of(self);
  PyTypeObject *type = Py_TYPE(self);
  nm_sim_free(s->sim);
  PyMem_RawFree(s->trace);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *sim_time_us(PyObject *self, void *Py_UNUSED(closure)) {
  nm_sim *sim = nm_py_sim_read(self);
  return sim == NULL ? NULL : PyLong_FromUnsignedLongLong(nm_sim_time_us(sim));
}

static PyObject *sim_idle(PyObject *self, void *Py_UNUSED(closure)) {
  nm_sim *sim = nm_py_sim_read(self);
  return sim == NULL ? NULL : PyBool_FromLong(nm_sim_idle(sim));
}

static PyObject *sim_failure(PyObject *self, void *Py_UNUSED(closure)) {
  nm_sim *sim = nm_py_sim_read(self);
  return sim == NULL ? NULL : failure_text(sim);
}

#define METHOD(name, function, doc)                                            \
  { name, NM_PY_FASTCALL(function), METH_FASTCALL, doc }

static PyMethodDef sim_methods[] = {
    {"engine", sim_engine, METH_O,
     "engine($self, node, /)\n--\n\nThe node's engine as an EngineCore."},
    METHOD("node_add", sim_node_add,
           "node_add($self, name, identity, settings, limits, options, /)\n"
           "--\n\nAdds a running node. Its number."),
    {"crash", sim_crash, METH_O, "crash($self, node, /)\n--\n\nPower off."},
    {"stop", sim_stop, METH_O,
     "stop($self, node, /)\n--\n\nThe orderly end of a node."},
    {"restart", sim_restart, METH_O,
     "restart($self, node, /)\n--\n\nA new engine that knows its identity."},
    {"is_up", sim_is_up, METH_O,
     "is_up($self, node, /)\n--\n\nWhether the node runs."},
    {"now", sim_now, METH_O,
     "now($self, node, /)\n--\n\nThe node's (monotonic, Unix) microseconds."},
    METHOD("clock_step", sim_clock_step,
           "clock_step($self, node, us, /)\n--\n\nMoves its wall clock."),
    METHOD("watch", sim_watch,
           "watch($self, node, kinds, /)\n--\n\n"
           "Which kinds of events it hands out, as a set of bits."),
    METHOD("stored", sim_stored,
           "stored($self, node, name, /)\n--\n\nDurable bytes, or None."),
    {"stored_names", sim_stored_names, METH_O,
     "stored_names($self, node, /)\n--\n\nThe names of what is durable."},
    METHOD("store", sim_store,
           "store($self, node, name, data, /)\n--\n\n"
           "Makes bytes durable at once; empty ones remove."),
    {"run", sim_run, METH_O,
     "run($self, until_us, /)\n--\n\n"
     "Runs up to a moment. Why it paused: 0 the moment is there, 1 events, 2 a "
     "call is\ndue, 3 an invariant does not hold."},
    METHOD("call_at", sim_call_at,
           "call_at($self, at_us, tag, /)\n--\n\nAsks for a pause."),
    {"due", sim_due, METH_NOARGS,
     "due($self, /)\n--\n\nThe tag of the call that is due, or None."},
    {"events", sim_events, METH_NOARGS,
     "events($self, /)\n--\n\nA list of (node, RawEvent): what happened."},
    {"fail", sim_fail, METH_O,
     "fail($self, text, /)\n--\n\nLets the run fail; the first failure stays."},
    {"finish", sim_finish, METH_NOARGS,
     "finish($self, /)\n--\n\n"
     "Ends everything and checks it. The failure, or None."},
    {"trace", sim_trace, METH_O,
     "trace($self, on, /)\n--\n\nKeeps a line of each thing that happens."},
    {"take_trace", sim_take_trace, METH_NOARGS,
     "take_trace($self, /)\n--\n\nThe lines kept since the last call."},
    {"digest", sim_digest, METH_NOARGS,
     "digest($self, /)\n--\n\nSHA-256 over all that happened so far."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef sim_getset[] = {
    {"time_us", sim_time_us, NULL, "Microseconds since the start.", NULL},
    {"idle", sim_idle, NULL, "Whether nothing is due any more.", NULL},
    {"failure", sim_failure, NULL, "What does not hold, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyDoc_STRVAR(sim_doc,
             "SimCore(seed, start_mono_us, start_unix_us, steps_at_once_max, "
             "check_all, /)\n--\n\n"
             "Engines on seeded media under virtual time; "
             "netmesh.sim.Simulation is the facade\nthat programs use. Times "
             "are integers in microseconds, nodes and media are numbers\nfrom "
             "1. Used by one thread at a time.\n");

static PyType_Slot sim_slots[] = {
    {Py_tp_doc, (void *)sim_doc},         {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)sim_dealloc}, {Py_tp_methods, sim_methods},
    {Py_tp_getset, sim_getset},           {0, NULL}};

static PyType_Spec sim_spec = {.name = "netmesh._core.SimCore",
                               .basicsize = sizeof(nm_py_sim),
                               .flags = NM_PY_FLAGS,
                               .slots = sim_slots};

int nm_py_sim_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_SimCore, &sim_spec, NULL,
                     sim_construct) < 0) {
    return -1;
  }
  PyTypeObject *type = NM_PY_TYPE(state, SimCore);
  for (PyMethodDef *m = nm_py_sim_medium_methods; m->ml_name != NULL; m++) {
    if (nm_py_type_constant(type, m->ml_name, PyDescr_NewMethod(type, m)) < 0) {
      return -1;
    }
  }
  return 0;
}
