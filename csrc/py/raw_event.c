#include "py/raw_event.h"

#include "py/columns.h"

typedef struct raw_event {
  PyObject_HEAD
  nm_event event;
} raw_event;

/* An object behind a memoryview that keeps a block alive. */
typedef struct block_owner {
  PyObject_HEAD
  nm_block *block;
} block_owner;

/* ------------------------------------------------------------------- views */

static int owner_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  nm_span span = nm_block_span(((block_owner *)self)->block);
  /* The view is read-only; its const is taken off for the interface alone. */
  return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)span.ptr,
                           (Py_ssize_t)span.len, 1, flags);
}

static void owner_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_block_drop(((block_owner *)self)->block);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyType_Slot owner_slots[] = {
    {Py_tp_doc, "Keeps the bytes of a memoryview alive."},
    {Py_tp_dealloc, (void *)owner_dealloc},
    {Py_bf_getbuffer, (void *)owner_getbuffer},
    {0, NULL}};

static PyType_Spec owner_spec = {.name = "netmesh._core._BlockOwner",
                                 .basicsize = sizeof(block_owner),
                                 .flags = NM_PY_FLAGS |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = owner_slots};

PyObject *nm_py_block_view(nm_state *state, nm_block *block) {
  PyTypeObject *type = NM_PY_TYPE(state, BlockOwner);
  block_owner *owner = (block_owner *)type->tp_alloc(type, 0);
  if (owner == NULL) {
    return NULL;
  }
  owner->block = nm_block_hold(block);
  PyObject *view = PyMemoryView_FromObject((PyObject *)owner);
  Py_DECREF(owner);
  return view;
}

PyObject *nm_py_block_bytes(nm_block *block) {
  if (block == NULL) {
    return PyErr_NoMemory();
  }
  PyObject *bytes = nm_py_bytes(nm_block_span(block));
  nm_block_drop(block);
  return bytes;
}

/* ------------------------------------------------------------------ events */

PyDoc_STRVAR(event_doc,
             "One event of an engine or a node, as it left the core.\n\n"
             "Every kind has all attributes; those that do not apply are zero "
             "or None.\nnetmesh.events.from_raw makes a typed event of it. "
             "Immutable; may be used from any\nthread.\n");

/* X(attribute, kind, member, text): what is a member of the struct. */
#define EVENT_COLUMNS(X)                                                       \
  X(kind, ENUM, kind, "What happened, a netmesh.records.EventKind.")           \
  X(mono_us, U64, at.mono_us, "When, on the monotonic clock, microseconds.")   \
  X(unix_us, I64, at.unix_us, "When, on the Unix clock, microseconds.")        \
  X(op, U64, op, "The operation that it ends or reports on, or 0.")            \
  X(token, U64, token, "What to accept, refuse or answer, or 0.")              \
  X(link, U64, link, "The link, or 0.")                                        \
  X(iface, U32, iface, "The interface, or 0.")                                 \
  X(state, U8, state, "The state of the link, receipt, resource or path.")     \
  X(close_reason, U8, close_reason,                                            \
    "Why a link closed, a netmesh.records.CloseReason.")                       \
  X(stage, U8, stage, "Where an operation failed, a netmesh.records.Stage.")   \
  X(status, I32, status, "0, or the negative code of an error.")               \
  X(initiator, BOOL, initiator, "Whether this side opened the link.")          \
  X(path_response, BOOL, path_response,                                        \
    "Whether an announce answered a path request.")                            \
  X(context, U8, context, "The context byte of a packet.")                     \
  X(identified, BOOL, was_link,                                                \
    "Whether the peer of a request had identified.")                           \
  X(hops, U8, hops, "Hops to the sender.")                                     \
  X(rssi_dbm, SIGNAL, rssi_dbm, "Signal strength in dBm, or None.")            \
  X(snr_cdb, SIGNAL, snr_cdb,                                                  \
    "Signal to noise ratio in hundredths of a decibel, or None.")              \
  X(quality_pct, SIGNAL, quality_pct, "Link quality in percent, or None.")     \
  X(destination, DESTINATION, destination,                                     \
    "The destination; 16 zero bytes when none is concerned.")                  \
  X(identity, IDENTITY, identity,                                              \
    "The announced or identified identity's hash, or None.")                   \
  X(packet_hash, BYTES_32, packet_hash,                                        \
    "The hash of the packet or resource; zero bytes when there is none.")      \
  X(link_id, BYTES_16, link_id,                                                \
    "The link's id; zero bytes when there is none.")                           \
  X(path_hash, BYTES_16, path_hash, "The hash of a request's path.")           \
  X(request_id, BYTES_16, request_id, "The id of a request.")                  \
  X(has_app_data, BOOL, has_app_data,                                          \
    "Whether an announce had app data, even empty.")                           \
  X(wire_time_us, I64, wire_time_us,                                           \
    "A time that a peer gave, Unix microseconds.")                             \
  X(rtt_us, U64, rtt_us, "The round-trip time in microseconds.")               \
  X(done_bytes, U64, done_bytes, "Progress in bytes of the content.")          \
  X(total_bytes, U64, total_bytes, "The size of the content in bytes.")        \
  X(wire_bytes, U64, wire_bytes, "Bytes on the wire, repeated ones too.")      \
  X(msgtype, U16, msgtype, "The type of a channel message.")                   \
  X(sequence, U16, sequence, "The sequence number of a channel message.")      \
  X(tries, U8, tries, "How often a channel message was tried.")                \
  X(stream, U16, stream, "The id of a stream.")                                \
  X(eof, BOOL, eof, "Whether a stream ends with this.")                        \
  X(compressed, BOOL, compressed,                                              \
    "Whether bytes of a stream were compressed on the wire.")                  \
  X(stored, BOOL, stored,                                                      \
    "Whether data is the path of a resource that was stored.")                 \
  X(data, BLOCK, data,                                                         \
    "Payload, app data, response or proof as bytes, or None.")                 \
  X(metadata, BLOCK, metadata, "Packed metadata as bytes, or None.")           \
  X(public_key, BLOCK, public_key,                                             \
    "The 64 public bytes of an identity, or None.")

#define ENUM_OF(name, kind, member, text) COLUMN_##name,
enum { EVENT_COLUMNS(ENUM_OF) };

#define COLUMN_OF(name, kind, member, text)                                    \
  NM_PY_COLUMN(#name, kind, nm_event, member),
static const nm_py_column columns[] = {EVENT_COLUMNS(COLUMN_OF)};

static const nm_event *event_of(PyObject *self) {
  return &((raw_event *)self)->event;
}

static PyObject *event_get(PyObject *self, void *closure) {
  const nm_py_column *column = closure;
  return nm_py_column_value(nm_py_state_of(self), column, event_of(self));
}

static PyObject *event_kind_name(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(nm_event_name(event_of(self)->kind));
}

static PyObject *event_reason(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(nm_status_name(event_of(self)->status));
}

static PyObject *event_ratchet_id(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_event *event = event_of(self);
  if (!event->has_ratchet_id) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(nm_span_of(event->ratchet_id, NM_NAME_HASH_SIZE));
}

static PyObject *event_view(PyObject *self, void *Py_UNUSED(closure)) {
  nm_block *data = event_of(self)->data;
  if (data == NULL) {
    Py_RETURN_NONE;
  }
  return nm_py_block_view(nm_py_state_of(self), data);
}

static PyObject *event_repr(PyObject *self) {
  const nm_event *event = event_of(self);
  return PyUnicode_FromFormat("<RawEvent %s>", nm_event_name(event->kind));
}

static void event_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_event_dispose(&((raw_event *)self)->event);
  type->tp_free(self);
  Py_DECREF(type);
}

#define GETTER_OF(name, kind, member, text)                                    \
  {#name, event_get, NULL, text, (void *)&columns[COLUMN_##name]},

static PyGetSetDef event_getset[] = {
    EVENT_COLUMNS(GETTER_OF){"kind_name", event_kind_name, NULL,
                             "The name of kind.", NULL},
    {"reason", event_reason, NULL,
     "The name of status: 'OK', 'TIMEOUT', 'STATE', ...", NULL},
    {"ratchet_id", event_ratchet_id, NULL,
     "The 10-byte id of the ratchet that was announced or that opened the "
     "payload, or None.",
     NULL},
    {"view", event_view, NULL,
     "data without a copy: a memoryview that keeps it alive, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot event_slots[] = {{Py_tp_doc, (void *)event_doc},
                                    {Py_tp_dealloc, (void *)event_dealloc},
                                    {Py_tp_repr, (void *)event_repr},
                                    {Py_tp_getset, event_getset},
                                    {0, NULL}};

static PyType_Spec event_spec = {.name = "netmesh._core.RawEvent",
                                 .basicsize = sizeof(raw_event),
                                 .flags = NM_PY_FLAGS |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = event_slots};

PyObject *nm_py_raw_event_new(nm_state *state, nm_event *event) {
  PyTypeObject *type = NM_PY_TYPE(state, RawEvent);
  raw_event *self = (raw_event *)type->tp_alloc(type, 0);
  if (self == NULL) {
    nm_event_dispose(event);
    return NULL;
  }
  self->event = *event;
  return (PyObject *)self;
}

int nm_py_raw_event_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_BlockOwner, &owner_spec, NULL,
                     NULL) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_RawEvent, &event_spec, NULL,
                        NULL);
}
