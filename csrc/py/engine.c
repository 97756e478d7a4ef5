#include "py/engine.h"

#include "py/errors.h"
#include "py/identity.h"
#include "py/stack_tables.h"

#include <string.h>
#include <unistd.h>

/* Jobs that take longer than this run with the GIL released. */
#define LONG_JOB_US 20

/* ------------------------------------------------------------------ errors */

PyObject *nm_py_engine_raise(nm_state *state, int status, const char *what) {
  nm_error_index index;
  nm_fault fault = {status, what, 0};
  switch (status) {
  case NM_E(STATE):
  case NM_E(DUPLICATE_KEY):
  case NM_E(MISMATCH):
    index = NM_ERROR_StateError;
    break;
  case NM_E(MISSING):
    index = NM_ERROR_NotFoundError;
    break;
  case NM_E(LIMIT):
    index = NM_ERROR_LimitReached;
    break;
  case NM_E(TOO_LARGE):
  case NM_E(EMPTY):
  case NM_E(TYPE):
    return nm_py_raise_encode(state, &fault, "engine");
  case NM_E(KEY):
    return PyErr_Format(PyExc_ValueError, "engine: %s %s", what,
                        nm_status_text(status));
  default:
    return nm_py_raise_status(state, status, "engine", what);
  }
  return nm_py_simple_error(state, index, status, "engine: %s %s", what,
                            nm_status_text(status));
}

static PyObject *refuse(PyObject *self, const char *why) {
  return nm_py_simple_error(nm_py_state_of(self), NM_ERROR_StateError,
                            NM_E(STATE), "engine: %s", why);
}

/* ----------------------------------------------------------- begin and end */

nm_engine *nm_py_engine_read(PyObject *self) {
  nm_py_engine *e = nm_py_engine_of(self);
  if (e->busy) {
    refuse(self, "a call is under way, here or in another thread");
    return NULL;
  }
  if (e->process != getpid()) {
    refuse(self, "it belongs to the process that this one was forked from");
    return NULL;
  }
  if (e->host != NULL) {
    e->engine = e->host->engine(e->owner, e->place, &e->now);
  }
  return e->engine;
}

bool nm_py_engine_refuse_hosted(PyObject *self) {
  if (nm_py_engine_of(self)->host == NULL) {
    return false;
  }
  refuse(self, "its simulation alone does this");
  return true;
}

nm_py_engine *nm_py_engine_drain(PyObject *self) {
  if (nm_py_engine_read(self) == NULL) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_of(self);
  e->busy = true;
  return e;
}

nm_py_engine *nm_py_engine_begin(PyObject *self) {
  if (nm_py_engine_of(self)->closed) {
    refuse(self, "it is closed");
    return NULL;
  }
  return nm_py_engine_drain(self);
}

/* Hands bytes to the program's store. Whether it kept them; -1 when the
 * program is to be interrupted. */
static int store(nm_py_engine *e, nm_job *job) {
  if (e->store == NULL) {
    return true;
  }
  nm_span bytes = nm_job_store_bytes(job);
  PyObject *done =
      PyObject_CallFunction(e->store, "sy#", nm_job_store_name(job),
                            (const char *)bytes.ptr, (Py_ssize_t)bytes.len);
  if (done != NULL) {
    Py_DECREF(done);
    return true;
  }
  if (!PyErr_ExceptionMatches(PyExc_Exception)) {
    return -1;
  }
  PyErr_Clear(); /* the facade has logged it; the operation says the rest */
  return false;
}

/* Runs |job| and gives it back. -1 with an exception that is to be passed on,
 * such as KeyboardInterrupt. */
int nm_py_engine_run(nm_py_engine *e, nm_job *job) {
  int stored = 0;
  if (nm_job_kind_of(job) == NM_JOB_STORE) {
    stored = store(e, job);
    nm_job_store_result(job, stored > 0);
  } else if (nm_job_cost_us(job) > LONG_JOB_US) {
    Py_BEGIN_ALLOW_THREADS;
    nm_job_run(job, &e->cipher);
    Py_END_ALLOW_THREADS;
  } else {
    nm_job_run(job, &e->cipher);
  }
  nm_engine_job_done(e->engine, job, e->now);
  return stored < 0 ? -1 : 0;
}

/* What an interrupted call leaves waiting runs with the next one. */
int nm_py_engine_settle(nm_py_engine *e) {
  nm_job *job;
  if (e->host != NULL) {
    e->host->settle(e->owner, e->place);
    return 0;
  }
  while (e->inline_jobs && (job = nm_engine_job(e->engine)) != NULL) {
    if (nm_py_engine_run(e, job) < 0) {
      return -1;
    }
  }
  return 0;
}

/* Raises what the program's source of random bytes raised; whether it did. */
static bool raise_kept(nm_py_engine *e) {
  PyObject *error = e->raised;
  if (error == NULL) {
    return false;
  }
  e->raised = NULL;
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DECREF(error);
  return true;
}

PyObject *nm_py_engine_end(nm_py_engine *e, int status, const char *what,
                           PyObject *result) {
  bool failed = result == NULL && PyErr_Occurred() != NULL;
  if ((!failed || e->host != NULL) && nm_py_engine_settle(e) < 0) {
    failed = true;
  }
  if (failed) {
    Py_CLEAR(e->raised);
  } else {
    failed = raise_kept(e);
  }
  e->busy = false;
  if (failed || status < 0) {
    Py_XDECREF(result);
    return failed ? NULL
                  : nm_py_engine_raise(nm_py_state_of((PyObject *)e), status,
                                       what);
  }
  return result;
}

PyObject *nm_py_engine_done(nm_py_engine *e, int status, const char *what) {
  return nm_py_engine_end(e, status, what, Py_NewRef(Py_None));
}

PyObject *nm_py_engine_done_id(nm_py_engine *e, int status, const char *what,
                               uint64_t id) {
  return nm_py_engine_end(e, status, what, PyLong_FromUnsignedLongLong(id));
}

int nm_py_engine_u64(PyObject *obj, const char *function, const char *name,
                     uint64_t *out) {
  long long value;
  if (nm_py_int(obj, function, name, 0, NM_PY_US_MAX, &value) < 0) {
    return -1;
  }
  *out = (uint64_t)value;
  return 0;
}

int nm_py_engine_iface(PyObject *obj, const char *function, nm_iface_id *out) {
  long long value;
  if (nm_py_int(obj, function, "iface", 0, UINT32_MAX, &value) < 0) {
    return -1;
  }
  *out = (nm_iface_id)value;
  return 0;
}

int nm_py_engine_optional(PyObject *obj, const char *function, const char *name,
                          nm_py_buffer *buf, bool *present) {
  nm_py_buffer_init(buf);
  *present = obj != Py_None;
  return *present ? nm_py_buffer_get(obj, function, name, buf) : 0;
}

int nm_py_engine_block(PyObject *dict, const char *function, const char *name,
                       nm_block **block) {
  PyObject *given = PyDict_GetItemString(dict, name);
  *block = NULL;
  if (given == NULL) {
    return 0;
  }
  nm_py_buffer buf;
  bool present;
  if (nm_py_engine_optional(given, function, name, &buf, &present) < 0) {
    return -1;
  }
  int result = 0;
  if (present) {
    *block = nm_block_copy(&nm_mem_system, buf.span);
    if (*block == NULL) {
      PyErr_NoMemory();
      result = -1;
    }
  }
  nm_py_buffer_release(&buf);
  return result < 0 ? -1 : PyDict_DelItemString(dict, name);
}

/* ------------------------------------------------------------ construction */

#define LIMIT(name, kind)                                                      \
  NM_PY_COLUMN_IN(#name, kind, nm_limits, name, 0, UINT32_MAX)

static const nm_py_column limit_columns[] = {
    LIMIT(ifaces, U32),
    LIMIT(destinations, U32),
    LIMIT(known, U32),
    LIMIT(paths, U32),
    LIMIT(path_blobs, U32),
    NM_PY_COLUMN_IN("path_alternatives", U32, nm_limits, path_alternatives, 0,
                    UINT8_MAX),
    LIMIT(filter, U32),
    LIMIT(path_tags, U32),
    LIMIT(receipts, U32),
    LIMIT(links, U32),
    LIMIT(pending_links, U32),
    LIMIT(requests, U32),
    LIMIT(transfers, U32),
    LIMIT(rebroadcasts, U32),
    LIMIT(announce_queue, U32),
    LIMIT(announce_queues, U32),
    LIMIT(searches, U32),
    LIMIT(reverses, U32),
    LIMIT(transits, U32),
    LIMIT(tunnels, U32),
    LIMIT(output_packets, U32),
    LIMIT(lossy_events, U32),
    LIMIT(jobs, U32),
    LIMIT(jobs_per_iface, U32),
    LIMIT(announce_jobs, U32),
    LIMIT(announce_jobs_per_iface, U32),
    LIMIT(recorder, U32),
    LIMIT(resource_in_max, SIZE),
    LIMIT(resource_memory, SIZE),
};

const nm_py_table nm_py_limits_table = NM_PY_TABLE_OF(limit_columns);

#define SETTING(name) NM_PY_COLUMN(#name, BOOL, nm_engine_config, name)

static const nm_py_column config_columns[] = {
    SETTING(transport),
    SETTING(shared_instance),
    SETTING(implicit_proofs),
    SETTING(link_mtu_discovery),
};

enum {
  ARG_IDENTITY,
  ARG_CONFIG,
  ARG_LIMITS,
  ARG_MONO,
  ARG_UNIX,
  ARG_SEED,
  ARG_INLINE,
  ARG_UNLIMITED,
  ARG_STORE,
  ARG_COUNT
};

int nm_py_engine_clock(PyObject *mono, PyObject *unix_time,
                       const char *function, nm_now *now) {
  uint64_t mono_us;
  long long unix_us;
  if (nm_py_engine_u64(mono, function, "mono_us", &mono_us) < 0 ||
      nm_py_int(unix_time, function, "unix_us", -NM_PY_US_MAX, NM_PY_US_MAX,
                &unix_us) < 0) {
    return -1;
  }
  now->mono_us = mono_us;
  now->unix_us = unix_us;
  return 0;
}

/* Keeps the exception that is set, if it is the first of this call. */
static void keep_raised(nm_py_engine *e) {
#if PY_VERSION_HEX >= 0x030c0000
  PyObject *error = PyErr_GetRaisedException();
#else
  PyObject *type;
  PyObject *error;
  PyObject *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
#endif
  if (e->raised == NULL) {
    e->raised = error;
  } else {
    Py_XDECREF(error);
  }
}

/* Random bytes from the program. The engine draws them within calls only,
 * which hold the GIL. */
static int draw(void *user, void *out, size_t len) {
  nm_py_engine *e = user;
  if (e->source == NULL) { /* taken by the garbage collector */
    return NM_E(LIBRARY);
  }
  PyObject *bytes = PyObject_CallFunction(e->source, "n", (Py_ssize_t)len);
  int result = -1;
  if (bytes != NULL) {
    result = nm_py_exact(bytes, "EngineCore", "seed(length)", out, len);
    Py_DECREF(bytes);
  }
  if (result < 0) {
    keep_raised(e);
    return NM_E(LIBRARY);
  }
  return NM_OK;
}

static int read_entropy(nm_state *state, nm_py_engine *e, PyObject *seed) {
  uint8_t bytes[32];
  if (PyCallable_Check(seed)) {
    e->source = Py_NewRef(seed);
    e->entropy = (nm_entropy){.user = e, .fill = draw};
    return 0;
  }
  if (seed == Py_None) {
    int status = nm_entropy_pool_init(&e->pool, &nm_entropy_system);
    if (status != NM_OK) {
      nm_py_engine_raise(state, status, "entropy");
      return -1;
    }
  } else {
    if (nm_py_exact(seed, "EngineCore", "seed", bytes, sizeof bytes) < 0) {
      return -1;
    }
    nm_entropy_pool_init_seed(&e->pool, bytes);
    nm_wipe(bytes, sizeof bytes);
  }
  e->entropy = nm_entropy_pool_source(&e->pool);
  return 0;
}

int nm_py_engine_config_read(nm_state *state, PyObject *config,
                             PyObject *limits, const char *function,
                             nm_engine_config *out) {
  if (nm_py_columns_read(state, config, config_columns,
                         NM_PY_COLUMN_COUNT(config_columns), function,
                         out) < 0) {
    return -1;
  }
  return nm_py_table_read(state, limits, &nm_py_limits_table, function,
                          &out->limits);
}

/* All but the engine itself. */
static int read_options(nm_state *state, nm_py_engine *e, PyObject *const *args,
                        nm_engine_config *config) {
  nm_engine_config_default(config);
  if (nm_py_engine_config_read(state, args[ARG_CONFIG], args[ARG_LIMITS],
                               "EngineCore", config) < 0 ||
      nm_py_engine_clock(args[ARG_MONO], args[ARG_UNIX], "EngineCore",
                         &e->now) < 0 ||
      nm_py_bool(args[ARG_INLINE], "EngineCore", "inline_jobs",
                 &e->inline_jobs) < 0 ||
      nm_py_bool(args[ARG_UNLIMITED], "EngineCore", "unlimited",
                 &e->unlimited) < 0) {
    return -1;
  }
  if (args[ARG_STORE] != Py_None && !PyCallable_Check(args[ARG_STORE])) {
    return nm_py_type_error("EngineCore", "store", "callable or None",
                            args[ARG_STORE]);
  }
  e->store = args[ARG_STORE] == Py_None ? NULL : Py_NewRef(args[ARG_STORE]);
  return read_entropy(state, e, args[ARG_SEED]);
}

static int start(nm_state *state, nm_py_engine *e, PyObject *identity,
                 nm_engine_config *config) {
  nm_identity copy = {0};
  if (identity != Py_None) {
    const nm_identity *own =
        nm_py_identity_private(state, identity, "EngineCore", "identity");
    if (own == NULL) {
      return -1;
    }
    copy = *own;
    config->identity = &copy;
  }
  int status = nm_cipher_open(&e->cipher, NULL);
  e->cipher_open = status == NM_OK;
  if (status == NM_OK) {
    e->engine =
        nm_engine_new(&nm_mem_system, &e->entropy, config, e->now, &status);
  }
  nm_identity_wipe(&copy);
  if (status != NM_OK) {
    if (!raise_kept(e)) {
      nm_py_engine_raise(state, status, "engine");
    }
    return -1;
  }
  if (e->unlimited) {
    nm_engine_credit(e->engine, UINT32_MAX, e->now);
  }
  return 0;
}

static PyObject *engine_construct(PyObject *type, PyObject *const *args,
                                  size_t nargsf, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "EngineCore() takes no keywords");
  }
  if (!nm_py_arity("EngineCore", given, ARG_COUNT, ARG_COUNT)) {
    return NULL;
  }
  nm_py_engine *e =
      (nm_py_engine *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
  if (e == NULL) {
    return NULL;
  }
  e->process = getpid();
  nm_engine_config config;
  if (read_options(state, e, args, &config) < 0 ||
      start(state, e, args[ARG_IDENTITY], &config) < 0) {
    Py_DECREF(e);
    return NULL;
  }
  return (PyObject *)e;
}

PyObject *nm_py_engine_hosted(nm_state *state, const nm_py_engine_host *host,
                              PyObject *owner, uint32_t place) {
  PyTypeObject *type = NM_PY_TYPE(state, EngineCore);
  nm_py_engine *e = (nm_py_engine *)type->tp_alloc(type, 0);
  if (e == NULL) {
    return NULL;
  }
  e->process = getpid();
  e->host = host;
  e->owner = Py_NewRef(owner);
  e->place = place;
  return (PyObject *)e;
}

static int engine_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(nm_py_engine_of(self)->store);
  Py_VISIT(nm_py_engine_of(self)->owner);
  Py_VISIT(nm_py_engine_of(self)->source);
  Py_VISIT(nm_py_engine_of(self)->raised);
  return 0;
}

static int engine_clear(PyObject *self) {
  Py_CLEAR(nm_py_engine_of(self)->store);
  Py_CLEAR(nm_py_engine_of(self)->source);
  Py_CLEAR(nm_py_engine_of(self)->raised);
  return 0;
}

static void engine_dealloc(PyObject *self) {
  nm_py_engine *e = nm_py_engine_of(self);
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  (void)engine_clear(self);
  /* What was taken and not run is released with the engine's other jobs. */
  PyMem_Free(e->held);
  if (e->host == NULL) {
    nm_engine_free(e->engine);
  }
  Py_XDECREF(e->owner);
  nm_entropy_pool_wipe(&e->pool);
  if (e->cipher_open) {
    nm_cipher_close(&e->cipher);
  }
  type->tp_free(self);
  Py_DECREF(type);
}

/* --------------------------------------------- settings, limits and the end */

static PyObject *engine_limits(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  return engine == NULL
             ? NULL
             : nm_py_table_dict(nm_py_state_of(self), &nm_py_limits_table,
                                nm_engine_limits(engine));
}

static PyObject *engine_public_key(PyObject *self, void *Py_UNUSED(closure)) {
  nm_engine *engine = nm_py_engine_read(self);
  return engine == NULL
             ? NULL
             : nm_py_bytes(nm_span_of(nm_engine_identity(engine)->public_key,
                                      NM_PUBLIC_SIZE));
}

static PyObject *engine_set_implicit_proofs(PyObject *self, PyObject *arg) {
  bool implicit;
  if (nm_py_bool(arg, "set_implicit_proofs", "implicit", &implicit) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_engine_set_implicit_proofs(e->engine, implicit);
  return nm_py_engine_done(e, NM_OK, "");
}

static PyObject *engine_close(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  e->closed = true;
  nm_engine_shutdown(e->engine, e->now);
  return nm_py_engine_done(e, NM_OK, "");
}

static PyObject *engine_is_closed(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(nm_py_engine_of(self)->closed);
}

/* ------------------------------------------------------------------- class */

PyDoc_STRVAR(
    engine_doc,
    "EngineCore(identity, config, limits, mono_us, unix_us, seed, inline_jobs, "
    "unlimited, store, /)\n--\n\n"
    "An engine of the core with Python as its driver; netmesh.engine.Engine is "
    "the facade\nthat programs use. Times are integers in microseconds.\n\n"
    "config and limits are dicts with the names of netmesh.engine.Engine and "
    "netmesh.records.\nLimits. seed is 32 bytes, a function that gives n "
    "random bytes, or None for the\nsystem's. store(name, data) makes bytes "
    "durable, or raises.\n\n"
    "Used by one thread at a time: a call while another one is under way, and "
    "any call after\na fork, raises StateError.\n");

static PyObject *engine_now(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_py_engine *e = nm_py_engine_of(self);
  if (e->host != NULL && nm_py_engine_read(self) == NULL) {
    return NULL;
  }
  return Py_BuildValue("(KL)", (unsigned long long)e->now.mono_us,
                       (long long)e->now.unix_us);
}

static PyObject *engine_deadline(PyObject *self, void *Py_UNUSED(closure)) {
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL) {
    return NULL;
  }
  uint64_t due = nm_engine_deadline(engine);
  return due == UINT64_MAX ? Py_NewRef(Py_None)
                           : PyLong_FromUnsignedLongLong(due);
}

static PyMethodDef engine_methods[] = {
    {"limits", engine_limits, METH_NOARGS,
     "limits($self, /)\n--\n\nThe limits in force as a dict."},
    {"set_implicit_proofs", engine_set_implicit_proofs, METH_O,
     "set_implicit_proofs($self, implicit, /)\n--\n\n"
     "The form of packet proofs from now on."},
    {"close", engine_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Ends everything; outputs and events can still be drained."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef engine_getset[] = {
    {"now", engine_now, NULL, "(monotonic, Unix) microseconds.", NULL},
    {"deadline", engine_deadline, NULL,
     "When tick is wanted next, monotonic microseconds, or None.", NULL},
    {"public_key", engine_public_key, NULL,
     "The 64 public bytes of the transport identity.", NULL},
    {"closed", engine_is_closed, NULL, "Whether close was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot engine_slots[] = {{Py_tp_doc, (void *)engine_doc},
                                     {Py_tp_new, (void *)nm_py_new},
                                     {Py_tp_dealloc, (void *)engine_dealloc},
                                     {Py_tp_traverse, (void *)engine_traverse},
                                     {Py_tp_clear, (void *)engine_clear},
                                     {Py_tp_methods, engine_methods},
                                     {Py_tp_getset, engine_getset},
                                     {0, NULL}};

static PyType_Spec engine_spec = {.name = "netmesh._core.EngineCore",
                                  .basicsize = sizeof(nm_py_engine),
                                  .flags = NM_PY_FLAGS | Py_TPFLAGS_HAVE_GC,
                                  .slots = engine_slots};

/* Adds the methods of another file to the class. */
static int add_methods(PyTypeObject *type, PyMethodDef *methods) {
  for (; methods->ml_name != NULL; methods++) {
    if (nm_py_type_constant(type, methods->ml_name,
                            PyDescr_NewMethod(type, methods)) < 0) {
      return -1;
    }
  }
  return 0;
}

int nm_py_engine_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_EngineCore, &engine_spec, NULL,
                     engine_construct) < 0) {
    return -1;
  }
  PyMethodDef *const tables[] = {
      nm_py_engine_verb_methods,  nm_py_engine_iface_methods,
      nm_py_engine_local_methods, nm_py_engine_route_methods,
      nm_py_engine_table_methods, nm_py_engine_transport_methods,
      nm_py_engine_link_methods,  nm_py_engine_channel_methods,
      nm_py_engine_figure_methods};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    if (add_methods(NM_PY_TYPE(state, EngineCore), tables[i]) < 0) {
      return -1;
    }
  }
  return 0;
}
