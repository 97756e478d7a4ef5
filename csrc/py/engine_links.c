/* Methods of EngineCore: links, requests, resources. */
#include "py/engine.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"
#include "stack/request.h"
#include "stack/transfer.h"

static int read_link(PyObject *obj, const char *function, nm_link_ref *out) {
  return nm_py_engine_u64(obj, function, "link", out);
}

/* ------------------------------------------------------------------- links */

static PyObject *engine_link_open(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_destination_hash hash;
  uint64_t timeout;
  if (!nm_py_arity("link_open", nargs, 2, 2) ||
      nm_py_address(nm_py_state_of(self), args[0], NM_PY_DESTINATION_HASH,
                    "link_open", "destination", hash.b) < 0 ||
      nm_py_engine_u64(args[1], "link_open", "timeout_us", &timeout) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_link_ref link = 0;
  int status = nm_engine_link_open(e->engine, &hash, timeout, &link, e->now);
  return nm_py_engine_done_id(
      e, status,
      status == NM_E(MISSING) ? "identity of the destination" : "link", link);
}

static PyObject *engine_link_close(PyObject *self, PyObject *arg) {
  nm_link_ref link;
  if (read_link(arg, "link_close", &link) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_link_close(e->engine, link, e->now), "link");
}

static PyObject *engine_link_identify(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs) {
  nm_link_ref link;
  if (!nm_py_arity("link_identify", nargs, 2, 2) ||
      read_link(args[0], "link_identify", &link) < 0) {
    return NULL;
  }
  const nm_identity *identity = nm_py_identity_private(
      nm_py_state_of(self), args[1], "link_identify", "identity");
  nm_py_engine *e = identity == NULL ? NULL : nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(e,
                                       nm_engine_link_identify(
                                           e->engine, link, identity, e->now),
                                       "link");
}

static PyObject *engine_link_send(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_link_ref link;
  bool receipt;
  uint64_t timeout;
  nm_py_buffer payload;
  if (!nm_py_arity("link_send", nargs, 4, 4) ||
      read_link(args[0], "link_send", &link) < 0 ||
      nm_py_bool(args[2], "link_send", "receipt", &receipt) < 0 ||
      nm_py_engine_u64(args[3], "link_send", "timeout_us", &timeout) < 0 ||
      nm_py_buffer_get(args[1], "link_send", "payload", &payload) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    nm_packet_hash hash = {{0}};
    int status = nm_engine_link_send(e->engine, link, payload.span, receipt,
                                     timeout, &op, &hash, e->now);
    PyObject *pair =
        Py_BuildValue("(KN)", (unsigned long long)op,
                      nm_py_bytes(nm_span_of(hash.b, sizeof hash.b)));
    result = nm_py_engine_end(
        e, status, status == NM_E(TOO_LARGE) ? "payload" : "link", pair);
  }
  nm_py_buffer_release(&payload);
  return result;
}

static PyObject *engine_link_tune(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_link_ref link;
  uint64_t times[3];
  if (!nm_py_arity("link_tune", nargs, 4, 4) ||
      read_link(args[0], "link_tune", &link) < 0 ||
      nm_py_engine_u64(args[1], "link_tune", "rtt_us", &times[0]) < 0 ||
      nm_py_engine_u64(args[2], "link_tune", "keepalive_us", &times[1]) < 0 ||
      nm_py_engine_u64(args[3], "link_tune", "stale_us", &times[2]) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(e,
                                       nm_engine_link_tune(e->engine, link,
                                                           times[0], times[1],
                                                           times[2], e->now),
                                       "link");
}

static PyObject *engine_link_policy(PyObject *self, PyObject *const *args,
                                    Py_ssize_t nargs) {
  nm_link_ref link;
  long long resources;
  bool hold;
  uint64_t most;
  if (!nm_py_arity("link_policy", nargs, 4, 4) ||
      read_link(args[0], "link_policy", &link) < 0 ||
      nm_py_int(args[1], "link_policy", "resources", NM_ACCEPT_NONE,
                NM_ACCEPT_ALL, &resources) < 0 ||
      nm_py_bool(args[2], "link_policy", "hold", &hold) < 0 ||
      nm_py_engine_u64(args[3], "link_policy", "resource_max", &most) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e,
                                 nm_engine_link_policy(e->engine, link,
                                                       (nm_accept)resources,
                                                       hold, (size_t)most),
                                 "link");
}

static PyObject *engine_link_track_signal(PyObject *self, PyObject *const *args,
                                          Py_ssize_t nargs) {
  nm_link_ref link;
  bool on;
  if (!nm_py_arity("link_track_signal", nargs, 2, 2) ||
      read_link(args[0], "link_track_signal", &link) < 0 ||
      nm_py_bool(args[1], "link_track_signal", "on", &on) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_link_track_signal(e->engine, link, on), "link");
}

#define LINK(name, kind) NM_PY_COLUMN(#name, kind, nm_link_info, name)

static const nm_py_column link_columns[] = {
    LINK(ref, U64),
    LINK(id, BYTES_16),
    LINK(destination, DESTINATION),
    LINK(state, U8),
    LINK(reason, ENUM),
    LINK(initiator, BOOL),
    LINK(identified, BOOL),
    LINK(remote_identity, IDENTITY),
    LINK(iface, U32),
    LINK(mtu, U32),
    LINK(mdu, U32),
    LINK(mode, U8),
    LINK(hops, U8),
    LINK(rtt_us, U64),
    LINK(keepalive_us, U64),
    LINK(stale_us, U64),
    LINK(requested_at, U64),
    LINK(activated_at, U64),
    LINK(last_inbound, U64),
    LINK(last_outbound, U64),
    LINK(last_data, U64),
    LINK(last_keepalive, U64),
    LINK(last_proof, U64),
    LINK(holds_ephemeral, BOOL),
    LINK(holds_session_key, BOOL),
    LINK(requests_pending, U32),
    LINK(transfers_in, U32),
    LINK(transfers_out, U32),
    LINK(channel_open, BOOL),
    LINK(signal_tracked, BOOL),
    LINK(rssi_dbm, SIGNAL),
    LINK(snr_cdb, SIGNAL),
    LINK(quality_pct, SIGNAL),
};

const nm_py_table nm_py_link_table = NM_PY_TABLE_OF(link_columns);

static PyObject *engine_link_info(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_link_ref link;
  nm_link_info info;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_link(arg, "link_info", &link) < 0) {
    return NULL;
  }
  int status = nm_engine_link_info(engine, link, &info);
  return status == NM_OK ? nm_py_table_dict(state, &nm_py_link_table, &info)
                         : nm_py_engine_raise(state, status, "link");
}

static PyObject *engine_link_by_id(PyObject *self, PyObject *arg) {
  nm_link_id id;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL ||
      nm_py_exact(arg, "link_by_id", "link_id", id.b, sizeof id.b) < 0) {
    return NULL;
  }
  return PyLong_FromUnsignedLongLong(nm_engine_link_by_id(engine, &id));
}

static int append_id(PyObject *list, uint64_t id) {
  PyObject *item = PyLong_FromUnsignedLongLong(id);
  int result = item == NULL ? -1 : PyList_Append(list, item);
  Py_XDECREF(item);
  return result;
}

static PyObject *engine_links(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_link_ref link = 0;
  while (list != NULL && (link = nm_engine_link_next(engine, link)) != 0) {
    if (append_id(list, link) < 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

/* ---------------------------------------------------------------- crafting */

static PyObject *engine_link_seal(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_link_ref link;
  long long type;
  long long context;
  nm_py_buffer payload;
  if (!nm_py_arity("link_seal", nargs, 4, 4) ||
      read_link(args[0], "link_seal", &link) < 0 ||
      nm_py_int(args[1], "link_seal", "packet_type", NM_DATA, NM_PROOF, &type) <
          0 ||
      nm_py_int(args[2], "link_seal", "context", 0, 255, &context) < 0 ||
      nm_py_buffer_get(args[3], "link_seal", "payload", &payload) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_block *raw = NULL;
    int status = nm_engine_link_seal(e->engine, link, (uint8_t)type,
                                     (uint8_t)context, payload.span, &raw);
    result = nm_py_engine_end(
        e, status, status == NM_E(TOO_LARGE) ? "payload" : "link",
        status == NM_OK ? nm_py_block_bytes(raw) : Py_NewRef(Py_None));
  }
  nm_py_buffer_release(&payload);
  return result;
}

static PyObject *engine_link_unseal(PyObject *self, PyObject *const *args,
                                    Py_ssize_t nargs) {
  nm_link_ref link;
  nm_py_buffer raw;
  if (!nm_py_arity("link_unseal", nargs, 2, 2) ||
      read_link(args[0], "link_unseal", &link) < 0 ||
      nm_py_buffer_get(args[1], "link_unseal", "raw", &raw) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_block *plain = NULL;
    int status = nm_engine_link_unseal(e->engine, link, raw.span, &plain);
    bool of_link = status == NM_E(MISSING) || status == NM_E(STATE);
    result = nm_py_engine_end(e, status, of_link ? "link" : "packet",
                              status == NM_OK ? nm_py_block_bytes(plain)
                                              : Py_NewRef(Py_None));
  }
  nm_py_buffer_release(&raw);
  return result;
}

/* ---------------------------------------------------------------- requests */

static PyObject *engine_request(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_link_ref link;
  nm_span path;
  uint64_t timeout;
  uint64_t most;
  nm_py_buffer packed;
  if (!nm_py_arity("request", nargs, 5, 5) ||
      read_link(args[0], "request", &link) < 0 ||
      nm_py_text(args[1], "request", "path", &path) < 0 ||
      nm_py_engine_u64(args[3], "request", "timeout_us", &timeout) < 0 ||
      nm_py_engine_u64(args[4], "request", "response_max", &most) < 0 ||
      nm_py_buffer_get(args[2], "request", "packed", &packed) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    int status = nm_engine_request(e->engine, link, path, packed.span, timeout,
                                   (size_t)most, &op, e->now);
    result = nm_py_engine_done_id(e, status,
                                  status == NM_E(TOO_LARGE) ? "data"
                                  : status == NM_E(LIMIT) ? "number of requests"
                                                          : "link",
                                  op);
  }
  nm_py_buffer_release(&packed);
  return result;
}

static PyObject *engine_respond(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  uint64_t token;
  bool compress;
  nm_py_buffer packed;
  if (!nm_py_arity("respond", nargs, 3, 3) ||
      nm_py_engine_u64(args[0], "respond", "token", &token) < 0 ||
      nm_py_bool(args[2], "respond", "compress", &compress) < 0 ||
      nm_py_buffer_get(args[1], "respond", "packed", &packed) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    int status =
        nm_engine_respond(e->engine, token, packed.span, compress, e->now);
    result = nm_py_engine_done(e, status,
                               status == NM_E(TOO_LARGE) ? "data" : "token");
  }
  nm_py_buffer_release(&packed);
  return result;
}

static PyObject *engine_respond_file(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  uint64_t token;
  bool compress;
  nm_py_buffer content;
  nm_py_buffer metadata;
  if (!nm_py_arity("respond_file", nargs, 4, 4) ||
      nm_py_engine_u64(args[0], "respond_file", "token", &token) < 0 ||
      nm_py_bool(args[3], "respond_file", "compress", &compress) < 0 ||
      nm_py_buffer_get(args[1], "respond_file", "content", &content) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_py_buffer_get(args[2], "respond_file", "metadata", &metadata) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      int status = nm_engine_respond_file(e->engine, token, content.span,
                                          metadata.span, compress, e->now);
      result = nm_py_engine_done(e, status,
                                 status == NM_E(TOO_LARGE)  ? "content"
                                 : status == NM_E(ARGUMENT) ? "metadata"
                                                            : "token");
    }
  }
  nm_py_buffer_release(&metadata);
  nm_py_buffer_release(&content);
  return result;
}

/* --------------------------------------------------------------- resources */

static PyObject *engine_resource_send(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs) {
  nm_link_ref link;
  long long compression;
  uint64_t timeout;
  bool has_metadata;
  nm_py_buffer content;
  nm_py_buffer metadata;
  if (!nm_py_arity("resource_send", nargs, 5, 5) ||
      read_link(args[0], "resource_send", &link) < 0 ||
      nm_py_int(args[3], "resource_send", "compression",
                NM_RESOURCE_COMPRESS_OFF, NM_RESOURCE_COMPRESS_AUTOMATIC,
                &compression) < 0 ||
      nm_py_engine_u64(args[4], "resource_send", "timeout_us", &timeout) < 0 ||
      nm_py_buffer_get(args[1], "resource_send", "content", &content) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_block *block = nm_block_copy(&nm_mem_system, content.span);
  nm_py_buffer_release(&content);
  if (block == NULL) {
    return PyErr_NoMemory();
  }
  if (nm_py_engine_optional(args[2], "resource_send", "metadata", &metadata,
                            &has_metadata) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      nm_op_id op = 0;
      int status = nm_engine_resource_send(
          e->engine, link, block, metadata.span,
          (nm_resource_compression)compression, timeout, &op, e->now);
      result = nm_py_engine_done_id(
          e, status, status == NM_E(TOO_LARGE) ? "content" : "link", op);
    }
  }
  nm_py_buffer_release(&metadata);
  nm_block_drop(block);
  return result;
}

#define TRANSFER(name, kind) NM_PY_COLUMN(#name, kind, nm_transfer_info, name)

static const nm_py_column transfer_columns[] = {
    TRANSFER(op, U64),
    TRANSFER(link, U64),
    TRANSFER(outgoing, BOOL),
    TRANSFER(state, ENUM),
    TRANSFER(hash, BYTES_32),
    TRANSFER(original, BYTES_32),
    TRANSFER(segment, U64),
    TRANSFER(segments, U64),
    TRANSFER(content_bytes, U64),
    TRANSFER(content_done, U64),
    TRANSFER(resumed_bytes, U64),
    TRANSFER(transfer_bytes, U64),
    TRANSFER(parts, U32),
    TRANSFER(parts_done, U32),
    TRANSFER(window, U32),
    TRANSFER(window_min, U32),
    TRANSFER(window_max, U32),
    TRANSFER(retries_left, U32),
    TRANSFER(compressed, BOOL),
    TRANSFER(has_metadata, BOOL),
    TRANSFER(stored, BOOL),
    TRANSFER(requests, U64),
    TRANSFER(wire_bytes, U64),
};

const nm_py_table nm_py_transfer_table = NM_PY_TABLE_OF(transfer_columns);

static PyObject *engine_transfer_info(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  uint64_t op;
  nm_transfer_info info;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || nm_py_engine_u64(arg, "transfer_info", "op", &op) < 0) {
    return NULL;
  }
  int status = nm_engine_transfer_info(engine, op, &info);
  return status == NM_OK ? nm_py_table_dict(state, &nm_py_transfer_table, &info)
                         : nm_py_engine_raise(state, NM_E(MISSING), "transfer");
}

static PyObject *engine_transfers(PyObject *self, PyObject *arg) {
  nm_link_ref link;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_link(arg, "transfers", &link) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  nm_op_id op = 0;
  while (list != NULL &&
         (op = nm_engine_transfer_next(engine, link, op)) != 0) {
    if (append_id(list, op) < 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

PyMethodDef nm_py_engine_link_methods[] = {
    NM_PY_ENGINE_METHOD("link_open", engine_link_open,
                        "link_open($self, destination, timeout_us, /)\n--\n\n"
                        "Opens a link, 0: with the usual time-out. The link."),
    {"link_close", engine_link_close, METH_O,
     "link_close($self, link, /)\n--\n\nCloses a link."},
    NM_PY_ENGINE_METHOD("link_identify", engine_link_identify,
                        "link_identify($self, link, identity, /)\n--\n\n"
                        "Says who we are."),
    NM_PY_ENGINE_METHOD(
        "link_send", engine_link_send,
        "link_send($self, link, payload, receipt, timeout_us, /)\n--\n\n"
        "Sends data. (operation or 0, packet hash)."),
    NM_PY_ENGINE_METHOD(
        "link_tune", engine_link_tune,
        "link_tune($self, link, rtt_us, keepalive_us, stale_us, /)\n--\n\n"
        "Overrides what was measured; 0 leaves a value."),
    NM_PY_ENGINE_METHOD(
        "link_policy", engine_link_policy,
        "link_policy($self, link, resources, hold, resource_max, /)\n--\n\n"
        "What happens to offered resources."),
    NM_PY_ENGINE_METHOD("link_track_signal", engine_link_track_signal,
                        "link_track_signal($self, link, on, /)\n--\n\n"
                        "Notes signal values of packets, or no longer."),
    {"link_info", engine_link_info, METH_O,
     "link_info($self, link, /)\n--\n\nAll about a link as a dict."},
    {"link_by_id", engine_link_by_id, METH_O,
     "link_by_id($self, link_id, /)\n--\n\nThe open link with an id, or 0."},
    {"links", engine_links, METH_NOARGS,
     "links($self, /)\n--\n\nAll links, closed ones for a while."},
    NM_PY_ENGINE_METHOD(
        "link_seal", engine_link_seal,
        "link_seal($self, link, packet_type, context, payload, /)\n--\n\n"
        "A packet of the link that is not sent."),
    NM_PY_ENGINE_METHOD("link_unseal", engine_link_unseal,
                        "link_unseal($self, link, raw, /)\n--\n\n"
                        "The plaintext of a packet of the link."),
    NM_PY_ENGINE_METHOD(
        "request", engine_request,
        "request($self, link, path, packed, timeout_us, response_max, "
        "/)\n--\n\nSends a request. The operation."),
    NM_PY_ENGINE_METHOD("respond", engine_respond,
                        "respond($self, token, packed, compress, /)\n--\n\n"
                        "Answers a request with one packed value."),
    NM_PY_ENGINE_METHOD(
        "respond_file", engine_respond_file,
        "respond_file($self, token, content, metadata, compress, /)\n--\n\n"
        "Answers with a file and its packed metadata."),
    NM_PY_ENGINE_METHOD(
        "resource_send", engine_resource_send,
        "resource_send($self, link, content, metadata, compression, "
        "timeout_us, /)\n--\n\nSends a resource. The operation."),
    {"transfer_info", engine_transfer_info, METH_O,
     "transfer_info($self, op, /)\n--\n\nAll about a transfer as a dict."},
    {"transfers", engine_transfers, METH_O,
     "transfers($self, link, /)\n--\n\nThe transfers on a link."},
    {NULL, NULL, 0, NULL}};
