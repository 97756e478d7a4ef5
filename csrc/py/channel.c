/* The class ChannelCore: the state machine of a channel by itself, with Python
 * as what carries its packets.
 */
#include "stack/channel.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/stack_tables.h"

/* Most rows of a ring that are shown; a window is smaller. */
#define RING_MAX 64

/* What take() gives: the first member of each tuple. */
enum { TOLD_PROVE, TOLD_MESSAGE, TOLD_SENT };

/* Something to tell. Made while it can still be refused. */
typedef struct told {
  struct told *next;
  PyObject *item;
} told;

typedef struct channel_core {
  PyObject_HEAD
  nm_channel channel;
  bool made;
  bool busy;   /* a call is under way */
  bool paused; /* takes nothing new */
  PyObject *send;
  PyObject *raised; /* what `send` raised in the call under way */
  told *first;
  told *last;
} channel_core;

static channel_core *core_of(PyObject *self) {
  return (channel_core *)self;
}

/* ------------------------------------------------------------------ telling */

/* Takes |item| over in every case. NULL with an exception. */
static told *new_told(PyObject *item) {
  told *one = item == NULL ? NULL : PyMem_Calloc(1, sizeof(*one));
  if (one == NULL) {
    if (item != NULL) {
      Py_DECREF(item);
      PyErr_NoMemory();
    }
    return NULL;
  }
  one->item = item;
  return one;
}

static void append(channel_core *core, told *one) {
  if (core->last != NULL) {
    core->last->next = one;
  } else {
    core->first = one;
  }
  core->last = one;
}

static void free_told(told *one) {
  Py_DECREF(one->item);
  PyMem_Free(one);
}

/* Keeps the exception that is set for the end of the call. */
static void keep_raised(channel_core *core) {
  PyObject *type;
  PyObject *value;
  PyObject *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != NULL) {
    (void)PyException_SetTraceback(value, traceback);
  }
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  Py_XSETREF(core->raised, value);
}

/* Tells |item|, taken over; a lack of memory is raised at the end of the call.
 */
static void tell(channel_core *core, PyObject *item) {
  told *one = new_told(item);
  if (one != NULL) {
    append(core, one);
  } else {
    keep_raised(core);
  }
}

/* ------------------------------------------------------------------- outlet */

static int outlet_send(void *user, nm_span envelope, nm_packet_hash *key) {
  channel_core *core = user;
  PyObject *bytes = nm_py_bytes(envelope);
  PyObject *given =
      bytes == NULL ? NULL : PyObject_CallOneArg(core->send, bytes);
  Py_XDECREF(bytes);
  int result = given == NULL ? -1
                             : nm_py_exact(given, "send", "packet key", key->b,
                                           sizeof(key->b));
  Py_XDECREF(given);
  if (result < 0) {
    keep_raised(core);
    return NM_E(LIBRARY);
  }
  return NM_OK;
}

static void outlet_prove(void *user, const nm_packet_hash *key) {
  tell(user, Py_BuildValue("(iy#)", TOLD_PROVE, (const char *)key->b,
                           (Py_ssize_t)sizeof(key->b)));
}

static nm_drop outlet_accept(void *user, const nm_channel_envelope *envelope,
                             int status, bool ahead, void **place) {
  channel_core *core = user;
  (void)ahead;
  if (core->paused) {
    return NM_DROP_NO_CREDIT;
  }
  told *one = new_told(
      Py_BuildValue("(iIIsN)", TOLD_MESSAGE, (unsigned)envelope->msgtype,
                    (unsigned)envelope->sequence, nm_status_name(status),
                    nm_py_bytes(envelope->payload)));
  if (one == NULL) {
    keep_raised(core);
    return NM_DROP_NO_MEMORY;
  }
  *place = one;
  return NM_DROP_NONE;
}

static void outlet_deliver(void *user, void *place) {
  append(user, place);
}

static void outlet_discard(void *user, void *place) {
  (void)user;
  free_told(place);
}

static void outlet_ended(void *user, const nm_channel_sent *sent,
                         bool delivered) {
  tell(user, Py_BuildValue("(iIIIO)", TOLD_SENT, (unsigned)sent->msgtype,
                           (unsigned)sent->sequence, (unsigned)sent->tries,
                           delivered ? Py_True : Py_False));
}

static const nm_channel_outlet outlet = {
    .send = outlet_send,
    .prove = outlet_prove,
    .accept = outlet_accept,
    .deliver = outlet_deliver,
    .discard = outlet_discard,
    .ended = outlet_ended,
};

/* ------------------------------------------------------------ begin and end */

static PyObject *refuse(PyObject *self) {
  return nm_py_simple_error(nm_py_state_of(self), NM_ERROR_StateError,
                            NM_E(STATE), "channel: a call is under way");
}

static channel_core *begin(PyObject *self) {
  channel_core *core = core_of(self);
  if (core->busy) {
    refuse(self);
    return NULL;
  }
  core->busy = true;
  return core;
}

/* Gives |result| (taken over), or raises what was raised meanwhile, or what
 * |status| says about |what|. */
static PyObject *end(channel_core *core, int status, const char *what,
                     PyObject *result) {
  core->busy = false;
  if (core->raised != NULL) {
    PyObject *error = core->raised;
    core->raised = NULL;
    Py_XDECREF(result);
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
  }
  if (status == NM_OK) {
    return result;
  }
  Py_XDECREF(result);
  nm_state *state = nm_py_state_of((PyObject *)core);
  if (status == NM_E(STATE)) {
    return nm_py_simple_error(state, NM_ERROR_StateError, status,
                              "channel: it is closed");
  }
  if (status == NM_E(LIMIT)) {
    return nm_py_simple_error(state, NM_ERROR_LimitReached, status,
                              "channel: %s is full", what);
  }
  if (status == NM_E(TOO_LARGE)) {
    return nm_py_encode_error(state, status, what, "channel: %s is too large",
                              what);
  }
  return nm_py_raise_status(state, status, "channel", what);
}

static int read_us(PyObject *obj, const char *function, const char *name,
                   uint64_t *out) {
  long long value;
  if (nm_py_int(obj, function, name, 0, NM_PY_US_MAX, &value) < 0) {
    return -1;
  }
  *out = (uint64_t)value;
  return 0;
}

/* ------------------------------------------------------------------ methods */

static PyObject *core_register(PyObject *self, PyObject *arg) {
  long long msgtype;
  if (nm_py_int(arg, "register", "msgtype", 0, UINT16_MAX, &msgtype) < 0) {
    return NULL;
  }
  channel_core *core = begin(self);
  return core == NULL
             ? NULL
             : end(core, nm_channel_register(&core->channel, (uint16_t)msgtype),
                   "msgtype", Py_NewRef(Py_None));
}

static PyObject *core_send(PyObject *self, PyObject *const *args,
                           Py_ssize_t nargs) {
  long long msgtype;
  uint64_t now;
  nm_py_buffer payload;
  if (!nm_py_arity("send", nargs, 3, 3) ||
      nm_py_int(args[0], "send", "msgtype", 0, UINT16_MAX, &msgtype) < 0 ||
      read_us(args[2], "send", "now_us", &now) < 0 ||
      nm_py_buffer_get(args[1], "send", "payload", &payload) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  channel_core *core = begin(self);
  if (core != NULL) {
    uint16_t sequence = 0;
    int status = nm_channel_send(&core->channel, (uint16_t)msgtype,
                                 &payload.span, 1, NULL, &sequence, now);
    result = end(core, status,
                 status == NM_E(LIMIT)      ? "window"
                 : status == NM_E(RESERVED) ? "msgtype"
                                            : "payload",
                 status == NM_OK ? PyLong_FromUnsignedLong(sequence) : NULL);
  }
  nm_py_buffer_release(&payload);
  return result;
}

static PyObject *core_receive(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs) {
  nm_packet_hash key;
  uint64_t now;
  nm_py_buffer plaintext;
  if (!nm_py_arity("receive", nargs, 3, 3) ||
      nm_py_exact(args[0], "receive", "key", key.b, sizeof(key.b)) < 0 ||
      read_us(args[2], "receive", "now_us", &now) < 0 ||
      nm_py_buffer_get(args[1], "receive", "plaintext", &plaintext) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  channel_core *core = begin(self);
  if (core != NULL) {
    nm_drop drop =
        nm_channel_receive(&core->channel, &key, plaintext.span, now);
    result = end(core, NM_OK, "", PyLong_FromLong((long)drop));
  }
  nm_py_buffer_release(&plaintext);
  return result;
}

static PyObject *core_proven(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  nm_packet_hash key;
  uint64_t now;
  if (!nm_py_arity("proven", nargs, 2, 2) ||
      nm_py_exact(args[0], "proven", "key", key.b, sizeof(key.b)) < 0 ||
      read_us(args[1], "proven", "now_us", &now) < 0) {
    return NULL;
  }
  channel_core *core = begin(self);
  return core == NULL ? NULL
                      : end(core, NM_OK, "",
                            PyBool_FromLong(
                                nm_channel_proven(&core->channel, &key, now)));
}

static PyObject *core_tick(PyObject *self, PyObject *arg) {
  uint64_t now;
  if (read_us(arg, "tick", "now_us", &now) < 0) {
    return NULL;
  }
  channel_core *core = begin(self);
  if (core == NULL) {
    return NULL;
  }
  int status = nm_channel_tick(&core->channel, now);
  return end(core, NM_OK, "", PyBool_FromLong(status == NM_OK));
}

static PyObject *core_set_rtt(PyObject *self, PyObject *arg) {
  uint64_t rtt;
  channel_core *core = core_of(self);
  if (read_us(arg, "set_rtt", "rtt_us", &rtt) < 0) {
    return NULL;
  }
  nm_channel_set_rtt(&core->channel, rtt);
  Py_RETURN_NONE;
}

static PyObject *core_pause(PyObject *self, PyObject *arg) {
  if (nm_py_bool(arg, "pause", "on", &core_of(self)->paused) < 0) {
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *core_close(PyObject *self, PyObject *Py_UNUSED(unused)) {
  channel_core *core = begin(self);
  if (core == NULL) {
    return NULL;
  }
  nm_channel_close(&core->channel);
  return end(core, NM_OK, "", Py_NewRef(Py_None));
}

static PyObject *core_take(PyObject *self, PyObject *Py_UNUSED(unused)) {
  channel_core *core = core_of(self);
  PyObject *list = PyList_New(0);
  while (list != NULL && core->first != NULL) {
    told *one = core->first;
    if (PyList_Append(list, one->item) < 0) {
      Py_CLEAR(list);
      break;
    }
    core->first = one->next;
    if (core->first == NULL) {
      core->last = NULL;
    }
    free_told(one);
  }
  return list;
}

static PyObject *core_info(PyObject *self, PyObject *Py_UNUSED(unused)) {
  const channel_core *core = core_of(self);
  nm_channel_info info;
  nm_channel_describe(&core->channel, &info);
  info.paused = core->paused;
  return nm_py_table_dict(nm_py_state_of(self), &nm_py_channel_table, &info);
}

static PyObject *core_sent(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_channel_sent ring[RING_MAX];
  size_t count = nm_channel_sent_ring(&core_of(self)->channel, ring, RING_MAX);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < count && i < RING_MAX; i++) {
    PyObject *item = nm_py_table_dict(nm_py_state_of(self),
                                      &nm_py_channel_sent_table, &ring[i]);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *core_ahead(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint16_t ring[RING_MAX];
  size_t count = nm_channel_ahead_ring(&core_of(self)->channel, ring, RING_MAX);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < count && i < RING_MAX; i++) {
    PyObject *item = PyLong_FromUnsignedLong(ring[i]);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *core_deadline(PyObject *self, void *Py_UNUSED(closure)) {
  uint64_t due = nm_channel_deadline(&core_of(self)->channel);
  return due == UINT64_MAX ? Py_NewRef(Py_None)
                           : PyLong_FromUnsignedLongLong(due);
}

/* -------------------------------------------------------------------- class */

static PyObject *core_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  uint64_t rtt;
  long long mdu;
  bool all_types;
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "ChannelCore() takes no keywords");
  }
  if (!nm_py_arity("ChannelCore", PyVectorcall_NARGS(nargsf), 4, 4) ||
      read_us(args[1], "ChannelCore", "rtt_us", &rtt) < 0 ||
      nm_py_int(args[2], "ChannelCore", "link_mdu", NM_CHANNEL_HEADER_SIZE,
                NM_PY_SIZE_MAX, &mdu) < 0 ||
      nm_py_bool(args[3], "ChannelCore", "all_types", &all_types) < 0) {
    return NULL;
  }
  if (!PyCallable_Check(args[0])) {
    return PyErr_Format(PyExc_TypeError,
                        "ChannelCore() argument 'send' must be callable, not "
                        "%.200s",
                        Py_TYPE(args[0])->tp_name);
  }
  channel_core *core =
      (channel_core *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
  if (core == NULL) {
    return NULL;
  }
  nm_channel_outlet own = outlet;
  own.user = core;
  core->send = Py_NewRef(args[0]);
  nm_channel_init(&core->channel, &nm_mem_system, &own, rtt, (size_t)mdu,
                  all_types);
  core->made = true;
  return (PyObject *)core;
}

static int core_traverse(PyObject *self, visitproc visit, void *arg) {
  channel_core *core = core_of(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(core->send);
  Py_VISIT(core->raised);
  return 0;
}

static int core_clear(PyObject *self) {
  channel_core *core = core_of(self);
  Py_CLEAR(core->send);
  Py_CLEAR(core->raised);
  return 0;
}

static void core_dealloc(PyObject *self) {
  channel_core *core = core_of(self);
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (core->made) {
    nm_channel_close(&core->channel);
  }
  while (core->first != NULL) {
    told *one = core->first;
    core->first = one->next;
    free_told(one);
  }
  (void)core_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyDoc_STRVAR(core_doc,
             "ChannelCore(send, rtt_us, link_mdu, all_types, /)\n--\n\n"
             "The state machine of a channel by itself; netmesh.channels."
             "ChannelMachine is the\nfacade that programs use. send(envelope) "
             "carries a packet and gives the 32 bytes that\nname it in its "
             "proof, or raises.\n\n"
             "Used by one thread at a time: a call while another one is under "
             "way raises\nStateError.\n");

#define METHOD(name, function, doc)                                            \
  { name, NM_PY_FASTCALL(function), METH_FASTCALL, doc }

static PyMethodDef core_methods[] = {
    {"register", core_register, METH_O,
     "register($self, msgtype, /)\n--\n\nA type of messages to be taken."},
    METHOD("send", core_send,
           "send($self, msgtype, payload, now_us, /)\n--\n\n"
           "Sends a message. Its sequence number."),
    METHOD("receive", core_receive,
           "receive($self, key, plaintext, now_us, /)\n--\n\n"
           "A packet came in. The code of a netmesh.records.DropReason."),
    METHOD("proven", core_proven,
           "proven($self, key, now_us, /)\n--\n\n"
           "A packet was proven. Whether it was one of the channel's."),
    {"tick", core_tick, METH_O,
     "tick($self, now_us, /)\n--\n\nRepeats what is due. False: a message had "
     "all its tries."},
    {"set_rtt", core_set_rtt, METH_O,
     "set_rtt($self, rtt_us, /)\n--\n\nThe link's round-trip time is now "
     "this."},
    {"pause", core_pause, METH_O,
     "pause($self, on, /)\n--\n\nTakes nothing new that comes, or goes on."},
    {"close", core_close, METH_NOARGS,
     "close($self, /)\n--\n\nEnds it; quiet when repeated."},
    {"take", core_take, METH_NOARGS,
     "take($self, /)\n--\n\nWhat is to be proven, has come, and has ended."},
    {"info", core_info, METH_NOARGS,
     "info($self, /)\n--\n\nAll about it as a dict."},
    {"sent", core_sent, METH_NOARGS,
     "sent($self, /)\n--\n\nThe outstanding messages."},
    {"ahead", core_ahead, METH_NOARGS,
     "ahead($self, /)\n--\n\nThe sequence numbers that wait for others."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef core_getset[] = {
    {"deadline", core_deadline, NULL,
     "When tick is wanted, monotonic microseconds, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot core_slots[] = {{Py_tp_doc, (void *)core_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_dealloc, (void *)core_dealloc},
                                   {Py_tp_traverse, (void *)core_traverse},
                                   {Py_tp_clear, (void *)core_clear},
                                   {Py_tp_methods, core_methods},
                                   {Py_tp_getset, core_getset},
                                   {0, NULL}};

static PyType_Spec core_spec = {.name = "netmesh._core.ChannelCore",
                                .basicsize = sizeof(channel_core),
                                .flags = NM_PY_FLAGS | Py_TPFLAGS_HAVE_GC,
                                .slots = core_slots};

int nm_py_channel_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_ChannelCore, &core_spec, NULL,
                        core_construct);
}
