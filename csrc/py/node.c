/* The class NodeCore: a node of the io room. */
#include "py/node.h"

#include "py/engine.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"

#include <errno.h>
#include <string.h>

typedef struct py_node {
  PyObject_HEAD
  nm_node *node;  /* NULL only while it is being made */
  PyObject *loop; /* keeps the loop running; strong */
  bool reading;   /* a thread is in wait or next_events */
} py_node;

static py_node *self_of(PyObject *self) {
  return (py_node *)self;
}

/* ------------------------------------------------------------ construction */

#define OPTION(name, kind, max)                                                \
  NM_PY_COLUMN_IN(#name, kind, nm_node_config, name, 0, max)

static const nm_py_column option_columns[] = {
    OPTION(ring, U32, 1 << 20),
    OPTION(credit, U32, UINT32_MAX),
    OPTION(mail_credit, U32, UINT32_MAX),
    OPTION(commands_max, U32, UINT32_MAX),
    OPTION(save_interval_s, U32, UINT32_MAX),
    OPTION(manual_credit, BOOL, 0),
};

enum {
  ARG_LOOP,
  ARG_IDENTITY,
  ARG_CONFIG,
  ARG_LIMITS,
  ARG_STORAGE,
  ARG_OPTIONS,
  ARG_COUNT
};

/* Raises why a node did not open. */
static PyObject *raise_fault(nm_state *state, const nm_node_fault *fault) {
  if (fault->status == NM_E(STATE) && fault->path[0] != '\0') {
    return nm_py_simple_error(state, NM_ERROR_StateError, fault->status,
                              "node: another node has '%s' open", fault->path);
  }
  if (fault->os_error != 0) {
    errno = fault->os_error;
    return PyErr_SetFromErrnoWithFilename(
        PyExc_OSError, fault->path[0] != '\0' ? fault->path : NULL);
  }
  return nm_py_engine_raise(state, fault->status, "node");
}

static PyObject *open_node(nm_state *state, PyTypeObject *type, PyObject *loop,
                           const nm_node_config *config) {
  nm_loop *host = nm_py_loop_of(state, loop, "NodeCore", "loop");
  py_node *self = host == NULL ? NULL : (py_node *)type->tp_alloc(type, 0);
  if (self == NULL) {
    return NULL;
  }
  self->loop = Py_NewRef(loop);
  nm_node_fault fault = {0};
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_node_open(host, config, &self->node, &fault);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    fault.status = status;
    raise_fault(state, &fault);
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* |path| is a str, or None; a new bytes object, or NULL without an exception
 * for None. */
static int storage_path(PyObject *path, PyObject **bytes) {
  *bytes = NULL;
  return path == Py_None || PyUnicode_FSConverter(path, bytes) ? 0 : -1;
}

static PyObject *node_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  nm_node_config config;
  nm_identity copy = {0};
  PyObject *path = NULL;
  PyObject *result = NULL;
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "NodeCore() takes no keywords");
  }
  if (!nm_py_arity("NodeCore", PyVectorcall_NARGS(nargsf), ARG_COUNT,
                   ARG_COUNT)) {
    return NULL;
  }
  nm_node_config_default(&config);
  if (args[ARG_IDENTITY] != Py_None) {
    const nm_identity *own = nm_py_identity_private(state, args[ARG_IDENTITY],
                                                    "NodeCore", "identity");
    if (own == NULL) {
      return NULL;
    }
    copy = *own;
    config.engine.identity = &copy;
  }
  if (nm_py_engine_config_read(state, args[ARG_CONFIG], args[ARG_LIMITS],
                               "NodeCore", &config.engine) == 0 &&
      nm_py_columns_read(state, args[ARG_OPTIONS], option_columns,
                         NM_PY_COLUMN_COUNT(option_columns), "NodeCore",
                         &config) == 0 &&
      storage_path(args[ARG_STORAGE], &path) == 0) {
    config.storage = path == NULL ? NULL : PyBytes_AS_STRING(path);
    result = open_node(state, (PyTypeObject *)type, args[ARG_LOOP], &config);
  }
  nm_identity_wipe(&copy);
  Py_XDECREF(path);
  return result;
}

static void node_dealloc(PyObject *self) {
  py_node *n = self_of(self);
  PyTypeObject *type = Py_TYPE(self);
  nm_node_release(n->node);
  Py_XDECREF(n->loop); /* may stop it */
  type->tp_free(self);
  Py_DECREF(type);
}

/* ---------------------------------------------------------------- commands */

/* Raises what |status| says about a call of the node's. */
static PyObject *raise_call(nm_state *state, int status) {
  switch (status) {
  case NM_E(STATE):
    return nm_py_simple_error(state, NM_ERROR_StateError, status,
                              "node: it is closed, or belongs to the process "
                              "that this one was forked from");
  case NM_E(LIMIT):
    return nm_py_simple_error(state, NM_ERROR_LimitReached, status,
                              "node: too many commands wait for their reply");
  default:
    return nm_py_engine_raise(state, status, "command");
  }
}

static PyObject *node_command(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames) {
  nm_state *state = nm_py_state_of(self);
  nm_command command = {.u.iface.fd = -1};
  long long kind;
  uint64_t ticket;
  if (!nm_py_arity("command", nargs, 2, 2) ||
      nm_py_int(args[0], "command", "kind", 0, NM_COMMAND_COUNT - 1, &kind) <
          0 ||
      nm_py_engine_u64(args[1], "command", "ticket", &ticket) < 0) {
    return NULL;
  }
  command.kind = (nm_command_kind)kind;
  command.ticket = ticket;
  if (nm_py_node_command_fill(state, &command, args + nargs, kwnames) < 0) {
    nm_command_dispose(&command);
    return NULL;
  }
  /* Listening reads files. */
  PyThreadState *released = nm_py_gil_release(kind == NM_COMMAND_LISTEN ||
                                              kind == NM_COMMAND_MAIL_OPEN);
  int status = nm_node_command(self_of(self)->node, &command);
  nm_py_gil_take(released);
  if (status != NM_OK) {
    return raise_call(state, status);
  }
  Py_RETURN_NONE;
}

static PyObject *node_cancel(PyObject *self, PyObject *arg) {
  uint64_t ticket;
  if (nm_py_engine_u64(arg, "cancel", "ticket", &ticket) < 0) {
    return NULL;
  }
  int status = nm_node_cancel(self_of(self)->node, ticket);
  if (status != NM_OK && status != NM_E(STATE)) {
    return raise_call(nm_py_state_of(self), status);
  }
  return PyBool_FromLong(status == NM_OK);
}

static PyObject *node_close(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_node_close(self_of(self)->node);
  Py_RETURN_NONE;
}

static PyObject *node_credit(PyObject *self, PyObject *arg) {
  long long count;
  if (nm_py_int(arg, "credit", "count", 0, UINT32_MAX, &count) < 0) {
    return NULL;
  }
  nm_node_credit(self_of(self)->node, (uint32_t)count);
  Py_RETURN_NONE;
}

static PyObject *node_mail_credit(PyObject *self, PyObject *arg) {
  long long count;
  if (nm_py_int(arg, "mail_credit", "count", 0, UINT32_MAX, &count) < 0) {
    return NULL;
  }
  nm_node_mail_credit(self_of(self)->node, (uint32_t)count);
  Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ events */

static PyObject *frame_tuple(nm_node_event *event) {
  const nm_node_frame *frame = &event->u.frame;
  return Py_BuildValue(
      "(INKLN)", (unsigned int)frame->iface, PyBool_FromLong(frame->incoming),
      (unsigned long long)frame->at.mono_us, (long long)frame->at.unix_us,
      nm_py_bytes(nm_block_span(frame->data)));
}

static PyObject *trouble_tuple(const nm_trouble *trouble) {
  return Py_BuildValue(
      "(iIiizKL)", (int)trouble->kind, (unsigned int)trouble->iface,
      (int)trouble->port, trouble->os_error, trouble->file,
      (unsigned long long)trouble->at.mono_us, (long long)trouble->at.unix_us);
}

static PyObject *peer_tuple(const nm_peer_notice *peer) {
  return Py_BuildValue(
      "(NIIzzKL)", PyBool_FromLong(peer->found), (unsigned int)peer->iface,
      (unsigned int)peer->parent, peer->device, peer->address,
      (unsigned long long)peer->at.mono_us, (long long)peer->at.unix_us);
}

/* What is in |event|, which is taken over in every case. */
static PyObject *body_of(nm_state *state, nm_node_event *event) {
  PyObject *body;
  switch (event->kind) {
  case NM_NODE_REPLY:
    return nm_py_raw_reply_new(state, event);
  case NM_NODE_EVENT:
    return nm_py_raw_event_new(state, &event->u.event);
  case NM_NODE_MAIL:
    return nm_py_raw_mail_new(state, event);
  case NM_NODE_FRAME:
  case NM_NODE_TAP:
    body = frame_tuple(event);
    break;
  case NM_NODE_TROUBLE:
    body = trouble_tuple(&event->u.trouble);
    break;
  case NM_NODE_PEER:
    body = peer_tuple(&event->u.peer);
    break;
  case NM_NODE_CLOSED:
  default:
    body = Py_NewRef(Py_None);
    break;
  }
  nm_node_event_dispose(event);
  return body;
}

/* (kind, ticket, body). */
static PyObject *event_tuple(nm_state *state, nm_node_event *event) {
  int kind = (int)event->kind;
  unsigned long long ticket = event->ticket;
  PyObject *body = body_of(state, event);
  return body == NULL ? NULL : Py_BuildValue("(iKN)", kind, ticket, body);
}

static bool begin_reading(PyObject *self) {
  if (self_of(self)->reading) {
    nm_py_simple_error(nm_py_state_of(self), NM_ERROR_StateError, NM_E(STATE),
                       "node: another thread reads its events");
    return false;
  }
  self_of(self)->reading = true;
  return true;
}

static PyObject *node_next_events(PyObject *self, PyObject *arg) {
  long long max;
  if (nm_py_int(arg, "next_events", "max", 1, 1 << 20, &max) < 0 ||
      !begin_reading(self)) {
    return NULL;
  }
  nm_state *state = nm_py_state_of(self);
  PyObject *list = PyList_New(0);
  nm_node_event event;
  for (long long i = 0; list != NULL && i < max; i++) {
    if (!nm_node_next(self_of(self)->node, &event)) {
      break;
    }
    PyObject *item = event_tuple(state, &event);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  self_of(self)->reading = false;
  return list;
}

static PyObject *node_follow(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  bool progress;
  bool paths;
  if (!nm_py_arity("follow", nargs, 2, 2) ||
      nm_py_bool(args[0], "follow", "progress", &progress) < 0 ||
      nm_py_bool(args[1], "follow", "paths", &paths) < 0) {
    return NULL;
  }
  nm_node_follow(self_of(self)->node,
                 (progress ? NM_FOLLOW_QUIET | NM_FOLLOW_ARRIVALS : 0u) |
                     (paths ? NM_FOLLOW_PATHS : 0u));
  Py_RETURN_NONE;
}

static PyObject *node_fileno(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return PyLong_FromLong(nm_node_fd(self_of(self)->node));
}

static PyObject *node_sleep(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return PyBool_FromLong(nm_node_sleep(self_of(self)->node));
}

static PyObject *node_woken(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_node_woken(self_of(self)->node);
  Py_RETURN_NONE;
}

static PyObject *node_wait(PyObject *self, PyObject *arg) {
  long long ms;
  if (nm_py_int(arg, "wait", "timeout_ms", -1, INT32_MAX, &ms) < 0 ||
      !begin_reading(self)) {
    return NULL;
  }
  bool ready;
  Py_BEGIN_ALLOW_THREADS;
  ready = nm_node_wait(self_of(self)->node, (int)ms);
  Py_END_ALLOW_THREADS;
  self_of(self)->reading = false;
  return PyBool_FromLong(ready);
}

/* ----------------------------------------------------------------- figures */

static PyObject *node_public_key(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_identity *identity = nm_node_identity(self_of(self)->node);
  return nm_py_bytes(nm_span_of(identity->public_key, NM_PUBLIC_SIZE));
}

static PyObject *node_stats(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_node_stats stats;
  nm_node_stats_read(self_of(self)->node, &stats);
  return nm_py_node_stats_dict(nm_py_state_of(self), &stats);
}

static PyObject *node_ifaces(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_block *block = nm_node_ifaces(self_of(self)->node);
  if (block == NULL) {
    return PyList_New(0);
  }
  size_t count;
  const nm_iface_info *rows = nm_iface_infos(block, &count);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *item = nm_py_iface_info_dict(nm_py_state_of(self), &rows[i]);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  nm_block_drop(block);
  return list;
}

/* ------------------------------------------------------------------- class */

PyDoc_STRVAR(
    node_doc,
    "NodeCore(loop, identity, config, limits, storage, options, /)\n--\n\n"
    "A node on a loop: an engine with its interfaces and storage. "
    "netmesh.Node is the facade\nthat programs use.\n\n"
    "config and limits are as in EngineCore; options is a dict with ring, "
    "credit, mail_credit,\ncommands_max, save_interval_s and manual_credit. "
    "storage is a path or None.\n\n"
    "Raises OSError when the storage cannot be used, StateError when another "
    "node has it open.\nCommands may be given by any thread; one thread at a "
    "time reads events.\n");

static PyMethodDef node_methods[] = {
    {"command", (PyCFunction)(void (*)(void))node_command,
     METH_FASTCALL | METH_KEYWORDS,
     "command($self, kind, ticket, /, **fields)\n--\n\n"
     "Posts a command, which is answered by a reply with this ticket."},
    {"cancel", node_cancel, METH_O,
     "cancel($self, ticket, /)\n--\n\n"
     "Cancels what a command started; False when the node is closed."},
    {"close", node_close, METH_NOARGS,
     "close($self, /)\n--\n\nAsks for the close; the last event tells of it."},
    {"credit", node_credit, METH_O,
     "credit($self, count, /)\n--\n\n"
     "Room for more reliable events, when credit is given by hand."},
    {"mail_credit", node_mail_credit, METH_O,
     "mail_credit($self, count, /)\n--\n\n"
     "Room for more received messages, when credit is given by hand."},
    {"next_events", node_next_events, METH_O,
     "next_events($self, max, /)\n--\n\n"
     "Up to max events as (kind, ticket, body)."},
    {"follow", (PyCFunction)(void (*)(void))node_follow, METH_FASTCALL,
     "follow($self, progress, paths, /)\n--\n\n"
     "Whether these wake the reader even when no task waits for them: "
     "progress of quiet\noperations and of what peers send; paths found and "
     "lost."},
    {"fileno", node_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "The descriptor that is readable when a sleeping reader has events."},
    {"sleep", node_sleep, METH_NOARGS,
     "sleep($self, /)\n--\n\n"
     "Whether the reader may wait for the descriptor now."},
    {"woken", node_woken, METH_NOARGS,
     "woken($self, /)\n--\n\nMakes the descriptor unreadable."},
    {"wait", node_wait, METH_O,
     "wait($self, timeout_ms, /)\n--\n\n"
     "Waits for an event, -1: for ever. Whether there is one."},
    {"stats", node_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nPublished figures as a dict."},
    {"ifaces", node_ifaces, METH_NOARGS,
     "ifaces($self, /)\n--\n\nThe interfaces as dicts."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef node_getset[] = {
    {"public_key", node_public_key, NULL,
     "The 64 public bytes of the transport identity.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot node_slots[] = {
    {Py_tp_doc, (void *)node_doc},         {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)node_dealloc}, {Py_tp_methods, node_methods},
    {Py_tp_getset, node_getset},           {0, NULL}};

static PyType_Spec node_spec = {.name = "netmesh._core.NodeCore",
                                .basicsize = sizeof(py_node),
                                .flags = NM_PY_FLAGS,
                                .slots = node_slots};

int nm_py_node_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_NodeCore, &node_spec, NULL,
                        node_construct);
}
