/* Methods of EngineCore: channels of links, streams over them. */
#include "py/engine.h"
#include "py/stack_tables.h"
#include "stack/buffer.h"

/* Most rows of a ring that are shown; a window is far smaller. */
#define RING_MAX 64

static int read_link(PyObject *obj, const char *function, nm_link_ref *out) {
  return nm_py_engine_u64(obj, function, "link", out);
}

/* "link" and one bool. */
static int read_switch(PyObject *const *args, Py_ssize_t nargs,
                       const char *function, const char *name,
                       nm_link_ref *link, bool *on) {
  return nm_py_arity(function, nargs, 2, 2) &&
                 read_link(args[0], function, link) == 0
             ? nm_py_bool(args[1], function, name, on)
             : -1;
}

static PyObject *engine_channel_open(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_link_ref link;
  bool all_types;
  if (read_switch(args, nargs, "channel_open", "all_types", &link, &all_types) <
      0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(e,
                                       nm_engine_channel_open(
                                           e->engine, link, all_types, e->now),
                                       "link");
}

static PyObject *engine_channel_register(PyObject *self, PyObject *const *args,
                                         Py_ssize_t nargs) {
  nm_link_ref link;
  long long msgtype;
  if (!nm_py_arity("channel_register", nargs, 2, 2) ||
      read_link(args[0], "channel_register", &link) < 0 ||
      nm_py_int(args[1], "channel_register", "msgtype", 0, UINT16_MAX,
                &msgtype) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  int status = nm_engine_channel_register(e->engine, link, (uint16_t)msgtype);
  return nm_py_engine_done(e, status,
                           status == NM_E(STATE) ? "channel" : "msgtype");
}

static const char *blamed(int status) {
  return status == NM_E(TOO_LARGE)  ? "payload"
         : status == NM_E(RESERVED) ? "msgtype"
         : status == NM_E(LIMIT)    ? "window"
                                    : "channel";
}

static int read_message(PyObject *const *args, Py_ssize_t nargs,
                        const char *function, nm_link_ref *link,
                        long long *msgtype, nm_py_buffer *payload) {
  if (!nm_py_arity(function, nargs, 3, 3) ||
      read_link(args[0], function, link) < 0 ||
      nm_py_int(args[1], function, "msgtype", 0, UINT16_MAX, msgtype) < 0) {
    return -1;
  }
  return nm_py_buffer_get(args[2], function, "payload", payload);
}

static PyObject *engine_channel_send(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_link_ref link;
  long long msgtype;
  nm_py_buffer payload;
  if (read_message(args, nargs, "channel_send", &link, &msgtype, &payload) <
      0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    uint16_t sequence = 0;
    int status = nm_engine_channel_send(e->engine, link, (uint16_t)msgtype,
                                        payload.span, &op, &sequence, e->now);
    PyObject *pair =
        Py_BuildValue("(KI)", (unsigned long long)op, (unsigned)sequence);
    result = nm_py_engine_end(e, status, blamed(status), pair);
  }
  nm_py_buffer_release(&payload);
  return result;
}

static PyObject *engine_channel_post(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_link_ref link;
  long long msgtype;
  nm_py_buffer payload;
  if (read_message(args, nargs, "channel_post", &link, &msgtype, &payload) <
      0) {
    return NULL;
  }
  nm_block *block = nm_block_copy(&nm_mem_system, payload.span);
  nm_py_buffer_release(&payload);
  if (block == NULL) {
    return PyErr_NoMemory();
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    int status = nm_engine_channel_post(e->engine, link, (uint16_t)msgtype,
                                        block, &op, e->now);
    result = nm_py_engine_done_id(e, status, blamed(status), op);
  }
  nm_block_drop(block);
  return result;
}

static PyObject *engine_channel_pause(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs) {
  nm_link_ref link;
  bool on;
  if (read_switch(args, nargs, "channel_pause", "on", &link, &on) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_channel_pause(e->engine, link, on), "channel");
}

/* ----------------------------------------------------------------- streams */

static PyObject *engine_stream_write(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_link_ref link;
  long long stream;
  bool eof;
  long long compression;
  nm_py_buffer content;
  if (!nm_py_arity("stream_write", nargs, 5, 5) ||
      read_link(args[0], "stream_write", &link) < 0 ||
      nm_py_int(args[1], "stream_write", "stream", 0, NM_STREAM_ID_MAX,
                &stream) < 0 ||
      nm_py_bool(args[3], "stream_write", "eof", &eof) < 0 ||
      nm_py_int(args[4], "stream_write", "compression",
                NM_RESOURCE_COMPRESS_OFF, NM_RESOURCE_COMPRESS_AUTOMATIC,
                &compression) < 0 ||
      nm_py_buffer_get(args[2], "stream_write", "content", &content) < 0) {
    return NULL;
  }
  nm_block *block = nm_block_copy(&nm_mem_system, content.span);
  nm_py_buffer_release(&content);
  if (block == NULL) {
    return PyErr_NoMemory();
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    int status = nm_engine_stream_write(
        e->engine, link, (uint16_t)stream, block, eof,
        (nm_resource_compression)compression, &op, e->now);
    result = nm_py_engine_done_id(
        e, status, status == NM_E(LIMIT) ? "number of writes" : "stream", op);
  }
  nm_block_drop(block);
  return result;
}

static PyObject *engine_stream_reports(PyObject *self, PyObject *const *args,
                                       Py_ssize_t nargs) {
  nm_link_ref link;
  bool on;
  if (read_switch(args, nargs, "stream_reports", "on", &link, &on) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_stream_reports(e->engine, link, on), "channel");
}

/* ---------------------------------------------------------------- figures */

#define INFO(name, kind) NM_PY_COLUMN(#name, kind, nm_channel_info, name)
#define WINDOW(name) NM_PY_COLUMN(#name, U32, nm_channel_info, window.name)
#define COUNTER(name) NM_PY_COLUMN(#name, U64, nm_channel_info, counters.name)

static const nm_py_column channel_columns[] = {
    INFO(open, BOOL),        INFO(mdu, U32),          WINDOW(window),
    WINDOW(window_max),      WINDOW(window_min),      WINDOW(flexibility),
    WINDOW(fast_rounds),     WINDOW(medium_rounds),   INFO(paused, BOOL),
    INFO(room, U32),         INFO(waiting, U32),      INFO(outstanding, U32),
    INFO(ahead, U32),        INFO(next_tx, U16),      INFO(next_rx, U16),
    INFO(rtt_us, U64),       INFO(proof_rtt_us, U64), INFO(proof_var_us, U64),
    INFO(all_types, BOOL),   INFO(types, U32),        INFO(streams, U32),
    INFO(writes, U32),       COUNTER(sent),           COUNTER(delivered),
    COUNTER(timeouts),       COUNTER(repeated),       COUNTER(sent_bytes),
    COUNTER(received),       COUNTER(ordered),        COUNTER(duplicates),
    COUNTER(beyond),         COUNTER(refused),        COUNTER(unregistered),
    COUNTER(received_bytes),
};

const nm_py_table nm_py_channel_table = NM_PY_TABLE_OF(channel_columns);

#define SENT(name, kind) NM_PY_COLUMN(#name, kind, nm_channel_sent, name)

static const nm_py_column sent_columns[] = {
    SENT(msgtype, U16),  SENT(sequence, U16), SENT(tries, U8),
    SENT(sendings, U32), SENT(bytes, SIZE),   SENT(first_sent_us, U64),
    SENT(sent_us, U64),  SENT(due_us, U64),
};

const nm_py_table nm_py_channel_sent_table = NM_PY_TABLE_OF(sent_columns);

static PyObject *engine_channel_info(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_link_ref link;
  nm_channel_info info;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_link(arg, "channel_info", &link) < 0) {
    return NULL;
  }
  int status = nm_engine_channel_info(engine, link, &info);
  return status == NM_OK ? nm_py_table_dict(state, &nm_py_channel_table, &info)
                         : nm_py_engine_raise(state, status, "channel");
}

static PyObject *engine_channel_sent(PyObject *self, PyObject *arg) {
  nm_link_ref link;
  nm_channel_sent ring[RING_MAX];
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_link(arg, "channel_sent", &link) < 0) {
    return NULL;
  }
  size_t count = nm_engine_channel_sent_ring(engine, link, ring, RING_MAX);
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

static PyObject *engine_channel_ahead(PyObject *self, PyObject *arg) {
  nm_link_ref link;
  uint16_t ring[RING_MAX];
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_link(arg, "channel_ahead", &link) < 0) {
    return NULL;
  }
  size_t count = nm_engine_channel_ahead_ring(engine, link, ring, RING_MAX);
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

PyMethodDef nm_py_engine_channel_methods[] = {
    NM_PY_ENGINE_METHOD("channel_open", engine_channel_open,
                        "channel_open($self, link, all_types, /)\n--\n\n"
                        "Opens the channel of a link; quiet when it is open."),
    NM_PY_ENGINE_METHOD("channel_register", engine_channel_register,
                        "channel_register($self, link, msgtype, /)\n--\n\n"
                        "Registers a type of messages to be received."),
    NM_PY_ENGINE_METHOD("channel_send", engine_channel_send,
                        "channel_send($self, link, msgtype, payload, "
                        "/)\n--\n\nSends a message. (operation, sequence)."),
    NM_PY_ENGINE_METHOD("channel_post", engine_channel_post,
                        "channel_post($self, link, msgtype, payload, "
                        "/)\n--\n\nSends a message when the window allows. "
                        "The operation."),
    NM_PY_ENGINE_METHOD("channel_pause", engine_channel_pause,
                        "channel_pause($self, link, on, /)\n--\n\n"
                        "Takes nothing new that comes, or goes on."),
    NM_PY_ENGINE_METHOD(
        "stream_write", engine_stream_write,
        "stream_write($self, link, stream, content, eof, compression, "
        "/)\n--\n\nWrites bytes to a stream, or its end. The operation."),
    NM_PY_ENGINE_METHOD("stream_reports", engine_stream_reports,
                        "stream_reports($self, link, on, /)\n--\n\n"
                        "Tells of each message that a writer makes, or not."),
    {"channel_info", engine_channel_info, METH_O,
     "channel_info($self, link, /)\n--\n\nAll about a channel as a dict."},
    {"channel_sent", engine_channel_sent, METH_O,
     "channel_sent($self, link, /)\n--\n\nThe outstanding messages."},
    {"channel_ahead", engine_channel_ahead, METH_O,
     "channel_ahead($self, link, /)\n--\n\nThe sequence numbers that wait for "
     "others."},
    {NULL, NULL, 0, NULL}};
