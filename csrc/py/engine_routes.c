/* Methods of EngineCore: paths, known destinations, blackholes, single packets.
 */
#include "py/engine.h"
#include "py/errors.h"
#include "py/identity.h"
#include "stack/route.h"
#include "stack/send.h"

static int read_hash(PyObject *self, PyObject *obj, const char *function,
                     nm_destination_hash *out) {
  return nm_py_address(nm_py_state_of(self), obj, NM_PY_DESTINATION_HASH,
                       function, "destination", out->b);
}

static int read_identity_hash(PyObject *self, PyObject *obj,
                              const char *function, nm_identity_hash *out) {
  return nm_py_address(nm_py_state_of(self), obj, NM_PY_IDENTITY_HASH, function,
                       "identity", out->b);
}

/* ------------------------------------------------------------------- paths */

static PyObject *engine_request_path(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_iface_id iface;
  uint8_t tag[NM_TAG_SIZE];
  uint64_t timeout = 0;
  if (!nm_py_arity("request_path", nargs, 4, 4) ||
      read_hash(self, args[0], "request_path", &hash) < 0 ||
      nm_py_engine_iface(args[1], "request_path", &iface) < 0 ||
      (args[2] != Py_None &&
       nm_py_exact(args[2], "request_path", "tag", tag, sizeof tag) < 0) ||
      (args[3] != Py_None &&
       nm_py_engine_u64(args[3], "request_path", "timeout_us", &timeout) < 0)) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_op_id op = 0;
  int status = nm_engine_request_path(e->engine, &hash, iface,
                                      args[2] == Py_None ? NULL : tag, timeout,
                                      args[3] == Py_None ? NULL : &op, e->now);
  return nm_py_engine_done_id(e, status, "interface", op);
}

static PyObject *engine_drop_path(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  if (read_hash(self, arg, "drop_path", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_drop_path(e->engine, &hash, e->now), "path");
}

static PyObject *engine_mark_path(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_destination_hash hash;
  bool responsive;
  if (!nm_py_arity("mark_path", nargs, 2, 2) ||
      read_hash(self, args[0], "mark_path", &hash) < 0 ||
      nm_py_bool(args[1], "mark_path", "responsive", &responsive) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_mark_path(e->engine, &hash, responsive, e->now),
                   "path");
}

static PyObject *engine_hops(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "hops", &hash) < 0) {
    return NULL;
  }
  return PyLong_FromLong(nm_engine_hops(engine, &hash));
}

/* ------------------------------------------------------- known destinations */

/* (public key, app data or None). */
static PyObject *recalled(const nm_identity *identity, bool has_app_data,
                          nm_span app_data) {
  PyObject *data = has_app_data ? nm_py_bytes(app_data) : Py_NewRef(Py_None);
  return Py_BuildValue(
      "(NN)", nm_py_bytes(nm_span_of(identity->public_key, NM_PUBLIC_SIZE)),
      data);
}

static PyObject *engine_recall(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_identity identity;
  nm_span app_data = nm_span_of(NULL, 0);
  bool has = false;
  if (read_hash(self, arg, "recall", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  bool found =
      nm_engine_recall(e->engine, &hash, &identity, &app_data, &has, e->now);
  return nm_py_engine_end(e, NM_OK, "",
                          found ? recalled(&identity, has, app_data)
                                : Py_NewRef(Py_None));
}

static PyObject *engine_recall_identity(PyObject *self, PyObject *arg) {
  nm_identity_hash hash;
  nm_identity identity;
  nm_span app_data = nm_span_of(NULL, 0);
  bool has = false;
  if (read_identity_hash(self, arg, "recall_identity", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  bool found = nm_engine_recall_identity(e->engine, &hash, &identity, &app_data,
                                         &has, e->now);
  return nm_py_engine_end(e, NM_OK, "",
                          found ? recalled(&identity, has, app_data)
                                : Py_NewRef(Py_None));
}

static PyObject *engine_remember(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_py_buffer data;
  bool set;
  if (!nm_py_arity("remember", nargs, 3, 3) ||
      read_hash(self, args[0], "remember", &hash) < 0) {
    return NULL;
  }
  const nm_identity *identity = nm_py_identity_public(
      nm_py_state_of(self), args[1], "remember", "identity");
  if (identity == NULL ||
      nm_py_engine_optional(args[2], "remember", "app_data", &data, &set) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    int status = nm_engine_remember(e->engine, &hash, identity,
                                    set ? &data.span : NULL, e->now);
    result = nm_py_engine_done(e, status, "identity of the destination");
  }
  nm_py_buffer_release(&data);
  return result;
}

static PyObject *engine_retain(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_destination_hash hash;
  bool retain;
  if (!nm_py_arity("retain", nargs, 2, 2) ||
      read_hash(self, args[0], "retain", &hash) < 0 ||
      nm_py_bool(args[1], "retain", "retain", &retain) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_retain(e->engine, &hash, retain),
                                 "destination");
}

static PyObject *engine_ratchet_of(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  uint8_t ratchet[NM_KEY_SIZE];
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "ratchet_of", &hash) < 0) {
    return NULL;
  }
  if (!nm_engine_ratchet_of(engine, &hash, ratchet,
                            nm_py_engine_of(self)->now)) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(nm_span_of(ratchet, sizeof ratchet));
}

/* -------------------------------------------------------------- blackholes */

static PyObject *engine_blackhole(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_identity_hash hash;
  nm_span reason = nm_span_of(NULL, 0);
  uint64_t until;
  if (!nm_py_arity("blackhole", nargs, 3, 3) ||
      read_identity_hash(self, args[0], "blackhole", &hash) < 0 ||
      nm_py_engine_u64(args[1], "blackhole", "until_unix_us", &until) < 0 ||
      (args[2] != Py_None &&
       nm_py_text(args[2], "blackhole", "reason", &reason) < 0)) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(e,
                                       nm_engine_blackhole(e->engine, &hash,
                                                           (int64_t)until,
                                                           reason, e->now),
                                       "blackhole");
}

static PyObject *engine_unblackhole(PyObject *self, PyObject *arg) {
  nm_identity_hash hash;
  if (read_identity_hash(self, arg, "unblackhole", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_unblackhole(e->engine, &hash),
                                 "blackhole");
}

/* ----------------------------------------------------------------- packets */

#define OPTION(name, kind, min, max)                                           \
  NM_PY_COLUMN_IN(#name, kind, nm_send_spec, name, min, max)

static const nm_py_column send_columns[] = {
    OPTION(type, U8, NM_SINGLE, NM_PLAIN),
    OPTION(context, U8, 0, 255),
    OPTION(receipt, BOOL, 0, 0),
    OPTION(timeout_us, U64, 0, NM_PY_US_MAX),
    OPTION(use_ratchet, BOOL, 0, 0),
};

/* What a refused packet says the fault is. */
static const char *fault_of_send(int status) {
  return status == NM_E(MISSING) ? "identity of the destination"
         : status == NM_E(STATE) ? "interface for the packet"
         : status == NM_E(KEY)   ? "group_key"
                                 : "payload";
}

static PyObject *engine_send(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  nm_send_spec spec;
  nm_py_buffer payload;
  nm_py_buffer key;
  bool has_key;
  nm_send_spec_default(&spec);
  if (!nm_py_arity("send", nargs, 4, 4) ||
      read_hash(self, args[0], "send", &spec.destination) < 0 ||
      nm_py_columns_read(nm_py_state_of(self), args[3], send_columns,
                         NM_PY_COLUMN_COUNT(send_columns), "send", &spec) < 0 ||
      nm_py_buffer_get(args[1], "send", "payload", &payload) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_py_engine_optional(args[2], "send", "group_key", &key, &has_key) ==
      0) {
    spec.payload = payload.span;
    spec.group_key = key.span;
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      nm_op_id op = 0;
      int status = nm_engine_send(e->engine, &spec, &op, e->now);
      result = nm_py_engine_done_id(e, status, fault_of_send(status), op);
    }
  }
  nm_py_buffer_release(&key);
  nm_py_buffer_release(&payload);
  return result;
}

static PyObject *engine_inject(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_iface_id iface;
  nm_py_buffer raw;
  if (!nm_py_arity("inject", nargs, 2, 2) ||
      nm_py_engine_iface(args[0], "inject", &iface) < 0 ||
      nm_py_buffer_get(args[1], "inject", "raw", &raw) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    int status = nm_engine_inject(e->engine, iface, raw.span, e->now);
    result = nm_py_engine_done(
        e, status, status == NM_E(TOO_LARGE) ? "packet" : "interface");
  }
  nm_py_buffer_release(&raw);
  return result;
}

static PyObject *engine_receipt_timeout(PyObject *self, PyObject *const *args,
                                        Py_ssize_t nargs) {
  uint64_t op;
  uint64_t timeout;
  if (!nm_py_arity("receipt_timeout", nargs, 2, 2) ||
      nm_py_engine_u64(args[0], "receipt_timeout", "op", &op) < 0 ||
      nm_py_engine_u64(args[1], "receipt_timeout", "timeout_us", &timeout) <
          0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_receipt_timeout(e->engine, op, timeout, e->now),
                   "receipt");
}

PyMethodDef nm_py_engine_route_methods[] = {
    NM_PY_ENGINE_METHOD(
        "request_path", engine_request_path,
        "request_path($self, destination, iface, tag, timeout_us, /)\n--\n\n"
        "Asks for a path; without a time-out it waits for nothing. The "
        "operation, or 0."),
    {"drop_path", engine_drop_path, METH_O,
     "drop_path($self, destination, /)\n--\n\nForgets a path."},
    NM_PY_ENGINE_METHOD("mark_path", engine_mark_path,
                        "mark_path($self, destination, responsive, /)\n--\n\n"
                        "Marks a path as answering or not."),
    {"hops", engine_hops, METH_O,
     "hops($self, destination, /)\n--\n\n"
     "Hops to a destination, 128 when unknown."},
    {"recall", engine_recall, METH_O,
     "recall($self, destination, /)\n--\n\n"
     "(public key, app data) of a known destination, or None."},
    {"recall_identity", engine_recall_identity, METH_O,
     "recall_identity($self, identity, /)\n--\n\n"
     "The same by the hash of the identity."},
    NM_PY_ENGINE_METHOD(
        "remember", engine_remember,
        "remember($self, destination, identity, app_data, /)\n--\n\n"
        "Makes a destination known without an announce."),
    NM_PY_ENGINE_METHOD("retain", engine_retain,
                        "retain($self, destination, retain, /)\n--\n\n"
                        "Keeps an entry through every cleaning, or not."),
    {"ratchet_of", engine_ratchet_of, METH_O,
     "ratchet_of($self, destination, /)\n--\n\n"
     "The ratchet that a destination announced, or None."},
    NM_PY_ENGINE_METHOD(
        "blackhole", engine_blackhole,
        "blackhole($self, identity, until_unix_us, reason, /)\n--\n\n"
        "Ignores an identity, 0: for ever."),
    {"unblackhole", engine_unblackhole, METH_O,
     "unblackhole($self, identity, /)\n--\n\nLifts that."},
    NM_PY_ENGINE_METHOD(
        "send", engine_send,
        "send($self, destination, payload, group_key, options, /)\n--\n\n"
        "Sends one packet. The operation, or 0."),
    NM_PY_ENGINE_METHOD("inject", engine_inject,
                        "inject($self, iface, raw, /)\n--\n\n"
                        "Puts a finished packet on an interface; 0: where its "
                        "destination's path leads."),
    NM_PY_ENGINE_METHOD("receipt_timeout", engine_receipt_timeout,
                        "receipt_timeout($self, op, timeout_us, /)\n--\n\n"
                        "Changes the time-out of an outstanding receipt."),
    {NULL, NULL, 0, NULL}};
