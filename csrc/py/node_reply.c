/* The class RawReply: the answer to one command. */
#include "py/node.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"

typedef struct raw_reply {
  PyObject_HEAD
  nm_node_event event; /* a NM_NODE_REPLY */
} raw_reply;

static const nm_reply *reply_of(PyObject *self) {
  return &((raw_reply *)self)->event.u.reply;
}

PyDoc_STRVAR(reply_doc,
             "The answer of a node to one command, as it left the core.\n\n"
             "Which attributes mean something depends on the command. "
             "Immutable.\n");

#define REPLY_COLUMNS(X)                                                       \
  X(command, ENUM, command, "The kind of the command.")                        \
  X(status, I32, status, "0, or the negative code of an error.")               \
  X(mono_us, U64, at.mono_us,                                                  \
    "When it was carried out, monotonic microseconds.")                        \
  X(unix_us, I64, at.unix_us, "When it was carried out, Unix microseconds.")   \
  X(op, U64, op, "The operation that it started, or 0.")                       \
  X(link, U64, link, "The link, or 0.")                                        \
  X(iface, U32, iface, "The interface, or 0.")                                 \
  X(destination, DESTINATION, destination, "The destination.")                 \
  X(hash, BYTES_32, hash, "The hash of the packet.")                           \
  X(number, I64, number, "A count, a port or an id.")                          \
  X(cursor, U64, cursor, "Where a list goes on, 0 at its end.")                \
  X(has_data, BOOL, has_data, "Whether there was app data, even empty.")       \
  X(public_key, PUBLIC, public_key, "The 64 public bytes of an identity.")     \
  X(os_error, I32, os_error, "A negative error of the system, or 0.")          \
  X(data, BLOCK, data, "Bytes, or None.")

#define ENUM_OF(name, kind, member, text) COLUMN_##name,
enum { REPLY_COLUMNS(ENUM_OF) };

#define COLUMN_OF(name, kind, member, text)                                    \
  NM_PY_COLUMN(#name, kind, nm_reply, member),
static const nm_py_column columns[] = {REPLY_COLUMNS(COLUMN_OF)};

static PyObject *reply_get(PyObject *self, void *closure) {
  const nm_py_column *column = closure;
  return nm_py_column_value(nm_py_state_of(self), column, reply_of(self));
}

static PyObject *reply_reason(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(nm_status_name(reply_of(self)->status));
}

static PyObject *reply_name(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(nm_command_name(reply_of(self)->command));
}

/* (sequence, reason, pending, hash or None, remembered). */
static PyObject *reply_verdict(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_verdict_tuple(&reply_of(self)->verdict);
}

/* ----------------------------------------------------------------- records */

typedef PyObject *row_dict(nm_state *state, const void *row);

#define ROW(name, table)                                                       \
  static PyObject *name(nm_state *state, const void *row) {                    \
    return nm_py_table_dict(state, &(table), row);                             \
  }

ROW(link_row, nm_py_link_table)
ROW(transfer_row, nm_py_transfer_table)
ROW(path_row, nm_py_path_table)
ROW(path_request_row, nm_py_path_request_table)
ROW(known_row, nm_py_known_table)
ROW(blackhole_row, nm_py_blackhole_table)
ROW(receipt_row, nm_py_receipt_table)
ROW(path_tag_row, nm_py_path_tag_table)
static PyObject *entry_row(nm_state *state, const void *row) {
  const nm_table_entry *entry = row;
  return nm_py_table_dict(state, nm_py_transport_table(entry->table),
                          &entry->record);
}

ROW(ratchet_row, nm_py_ratchet_table)
ROW(limits_row, nm_py_limits_table)
ROW(record_row, nm_py_record_table)
ROW(channel_row, nm_py_channel_table)
ROW(sent_row, nm_py_channel_sent_table)

static PyObject *iface_row(nm_state *state, const void *row) {
  return nm_py_iface_info_dict(state, row);
}

static PyObject *device_row(nm_state *state, const void *row) {
  return nm_py_device_info_dict(state, row);
}

static PyObject *stats_row(nm_state *state, const void *row) {
  return nm_py_node_stats_dict(state, row);
}

static PyObject *router_row(nm_state *state, const void *row) {
  return nm_py_router_stats_dict(state, row);
}

/* How the records of a command become dicts, and their size. */
static row_dict *row_of(nm_command_kind kind, size_t *size) {
  switch (kind) {
  case NM_COMMAND_LINK_INFO:
  case NM_COMMAND_LINK_LIST:
    *size = sizeof(nm_link_info);
    return link_row;
  case NM_COMMAND_TRANSFER_INFO:
  case NM_COMMAND_TRANSFER_LIST:
    *size = sizeof(nm_transfer_info);
    return transfer_row;
  case NM_COMMAND_CHANNEL_INFO:
    *size = sizeof(nm_channel_info);
    return channel_row;
  case NM_COMMAND_CHANNEL_SENT:
    *size = sizeof(nm_channel_sent);
    return sent_row;
  case NM_COMMAND_PATH_FIND:
  case NM_COMMAND_PATH_GET:
  case NM_COMMAND_PATH_LIST:
    *size = sizeof(nm_path_record);
    return path_row;
  case NM_COMMAND_PATH_REQUEST_LIST:
    *size = sizeof(nm_path_request_record);
    return path_request_row;
  case NM_COMMAND_KNOWN_GET:
  case NM_COMMAND_KNOWN_LIST:
    *size = sizeof(nm_known_record);
    return known_row;
  case NM_COMMAND_BLACKHOLE_LIST:
    *size = sizeof(nm_blackhole_record);
    return blackhole_row;
  case NM_COMMAND_RECEIPT_LIST:
    *size = sizeof(nm_receipt_record);
    return receipt_row;
  case NM_COMMAND_PATH_TAG_LIST:
    *size = sizeof(nm_path_tag);
    return path_tag_row;
  case NM_COMMAND_TABLE_LIST:
    *size = sizeof(nm_table_entry);
    return entry_row;
  case NM_COMMAND_RATCHET_STATE:
    *size = sizeof(nm_ratchet_state);
    return ratchet_row;
  case NM_COMMAND_LIMITS:
    *size = sizeof(nm_limits);
    return limits_row;
  case NM_COMMAND_RECORDS:
    *size = sizeof(nm_record);
    return record_row;
  case NM_COMMAND_IFACE_LIST:
    *size = sizeof(nm_iface_info);
    return iface_row;
  case NM_COMMAND_IFACE_DEVICES:
    *size = sizeof(nm_device_info);
    return device_row;
  case NM_COMMAND_STATS:
    *size = sizeof(nm_node_stats);
    return stats_row;
  case NM_COMMAND_MAIL_STATS:
    *size = sizeof(nm_router_stats);
    return router_row;
  default:
    *size = 0;
    return NULL;
  }
}

static PyObject *reply_records(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_reply *reply = reply_of(self);
  size_t size;
  row_dict *convert = row_of(reply->command, &size);
  PyObject *list = PyList_New(0);
  if (list == NULL || convert == NULL || reply->records == NULL) {
    return list;
  }
  nm_span rows = nm_block_span(reply->records);
  for (size_t i = 0; list != NULL && i < reply->record_count; i++) {
    PyObject *item =
        convert(nm_py_state_of(self), nm_span_slice(rows, i * size, size).ptr);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

/* ------------------------------------------------------------------- class */

static void reply_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_node_event_dispose(&((raw_reply *)self)->event);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *reply_repr(PyObject *self) {
  return PyUnicode_FromFormat("<RawReply %s %s>",
                              nm_command_name(reply_of(self)->command),
                              nm_status_name(reply_of(self)->status));
}

#define GETTER_OF(name, kind, member, text)                                    \
  {#name, reply_get, NULL, text, (void *)&columns[COLUMN_##name]},

static PyGetSetDef reply_getset[] = {
    REPLY_COLUMNS(GETTER_OF){"reason", reply_reason, NULL,
                             "The name of status: 'OK', 'STATE', ...", NULL},
    {"command_name", reply_name, NULL, "The name of command.", NULL},
    {"verdict", reply_verdict, NULL,
     "(sequence, reason, pending, hash or None, remembered) of a frame.", NULL},
    {"records", reply_records, NULL, "The rows of a list as dicts.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot reply_slots[] = {{Py_tp_doc, (void *)reply_doc},
                                    {Py_tp_dealloc, (void *)reply_dealloc},
                                    {Py_tp_repr, (void *)reply_repr},
                                    {Py_tp_getset, reply_getset},
                                    {0, NULL}};

static PyType_Spec reply_spec = {.name = "netmesh._core.RawReply",
                                 .basicsize = sizeof(raw_reply),
                                 .flags = NM_PY_FLAGS |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = reply_slots};

PyObject *nm_py_raw_reply_new(nm_state *state, nm_node_event *event) {
  PyTypeObject *type = NM_PY_TYPE(state, RawReply);
  raw_reply *self = (raw_reply *)type->tp_alloc(type, 0);
  if (self == NULL) {
    nm_node_event_dispose(event);
    return NULL;
  }
  self->event = *event;
  return (PyObject *)self;
}

int nm_py_node_reply_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_RawReply, &reply_spec, NULL,
                        NULL);
}
