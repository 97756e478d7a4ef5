/* Methods of EngineCore: own destinations. */
#include "py/engine.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"
#include "stack/local.h"
#include "wire/ratchet_file.h"

#include <string.h>

/* ---------------------------------------------------------------- listening */

#define OPTION(name, kind, min, max)                                           \
  NM_PY_COLUMN_IN(#name, kind, nm_dest_spec, name, min, max)

static const nm_py_column dest_columns[] = {
    OPTION(type, U8, NM_SINGLE, NM_PLAIN),
    OPTION(prove, U8, NM_PROVE_NONE, NM_PROVE_ALL),
    OPTION(hold, BOOL, 0, 0),
    OPTION(accepts_links, BOOL, 0, 0),
    OPTION(resources, ENUM, NM_ACCEPT_NONE, NM_ACCEPT_ALL),
    OPTION(hold_resources, BOOL, 0, 0),
    OPTION(channels, BOOL, 0, 0),
    OPTION(resource_max, SIZE, 0, NM_PY_US_MAX),
    OPTION(request_max, SIZE, 0, NM_PY_US_MAX),
    OPTION(ratchets, BOOL, 0, 0),
    OPTION(enforce_ratchets, BOOL, 0, 0),
    OPTION(ratchets_retained, U32, 1, NM_RATCHETS_RETAINED),
    OPTION(ratchet_interval_s, U32, 0, UINT32_MAX),
    OPTION(last_emitted, U64, 0, (1ll << 40) - 1),
};

const nm_py_table nm_py_dest_table = NM_PY_TABLE_OF(dest_columns);

/* Borrowed parts of a destination's specification. */
typedef struct borrowed {
  nm_py_buffer group_key;
  nm_py_buffer ratchet_file;
} borrowed;

static void give_back(borrowed *b) {
  nm_py_buffer_release(&b->group_key);
  nm_py_buffer_release(&b->ratchet_file);
}

/* Reads (identity, name, group_key, ratchet_file, options). */
static int read_spec(nm_state *state, PyObject *const *args, nm_dest_spec *spec,
                     borrowed *b) {
  bool present;
  nm_dest_spec_default(spec);
  if (args[0] != Py_None) {
    spec->identity =
        nm_py_identity_private(state, args[0], "listen", "identity");
    if (spec->identity == NULL) {
      return -1;
    }
  }
  if (nm_py_text(args[1], "listen", "name", &spec->name) < 0 ||
      nm_py_engine_optional(args[2], "listen", "group_key", &b->group_key,
                            &present) < 0 ||
      nm_py_engine_optional(args[3], "listen", "ratchet_file", &b->ratchet_file,
                            &present) < 0) {
    return -1;
  }
  spec->group_key = b->group_key.span;
  spec->ratchet_file = b->ratchet_file.span;
  nm_ratchet_file parsed;
  nm_fault fault = {NM_OK, NULL, 0};
  if (present &&
      nm_ratchet_file_parse(spec->ratchet_file, 0, &parsed, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "ratchets");
    return -1;
  }
  return nm_py_table_read(state, args[4], &nm_py_dest_table, "listen", spec);
}

static PyObject *engine_listen(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  nm_dest_spec spec;
  borrowed b;
  nm_py_buffer_init(&b.group_key);
  nm_py_buffer_init(&b.ratchet_file);
  if (!nm_py_arity("listen", nargs, 5, 5)) {
    return NULL;
  }
  PyObject *result = NULL;
  if (read_spec(state, args, &spec, &b) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      nm_destination_hash hash;
      int status = nm_engine_listen(e->engine, &spec, &hash, e->now);
      result = nm_py_engine_end(e, status, "destination",
                                nm_py_destination_hash_new(state, hash.b));
    }
  }
  give_back(&b);
  return result;
}

/* The argument "destination". */
static int read_hash(PyObject *self, PyObject *obj, const char *function,
                     nm_destination_hash *out) {
  return nm_py_address(nm_py_state_of(self), obj, NM_PY_DESTINATION_HASH,
                       function, "destination", out->b);
}

static PyObject *engine_unlisten(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  if (read_hash(self, arg, "unlisten", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e,
                                 nm_engine_unlisten(e->engine, &hash, e->now),
                                 "destination");
}

static PyObject *engine_set_prove(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_destination_hash hash;
  long long prove;
  bool hold;
  if (!nm_py_arity("set_prove", nargs, 3, 3) ||
      read_hash(self, args[0], "set_prove", &hash) < 0 ||
      nm_py_int(args[1], "set_prove", "prove", NM_PROVE_NONE, NM_PROVE_ALL,
                &prove) < 0 ||
      nm_py_bool(args[2], "set_prove", "hold", &hold) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e,
                   nm_engine_set_prove(e->engine, &hash, (nm_prove)prove, hold),
                   "destination");
}

static PyObject *engine_set_app_data(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_py_buffer data;
  bool set;
  if (!nm_py_arity("set_app_data", nargs, 2, 2) ||
      read_hash(self, args[0], "set_app_data", &hash) < 0 ||
      nm_py_engine_optional(args[1], "set_app_data", "app_data", &data, &set) <
          0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    int status = data.span.len > NM_ANNOUNCE_APP_DATA_MAX
                     ? NM_E(TOO_LARGE)
                     : nm_engine_set_app_data(e->engine, &hash, set, data.span);
    result = nm_py_engine_done(
        e, status, status == NM_E(TOO_LARGE) ? "app_data" : "destination");
  }
  nm_py_buffer_release(&data);
  return result;
}

/* ---------------------------------------------------------------- announces */

static PyObject *engine_announce(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_py_buffer data;
  bool set;
  bool response;
  nm_iface_id iface;
  if (!nm_py_arity("announce", nargs, 4, 4) ||
      read_hash(self, args[0], "announce", &hash) < 0 ||
      nm_py_engine_iface(args[2], "announce", &iface) < 0 ||
      nm_py_bool(args[3], "announce", "path_response", &response) < 0 ||
      nm_py_engine_optional(args[1], "announce", "app_data", &data, &set) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    nm_op_id op = 0;
    int status = nm_engine_announce(e->engine, &hash, set ? &data.span : NULL,
                                    iface, response, &op, e->now);
    result = nm_py_engine_done_id(
        e, status, status == NM_E(TOO_LARGE) ? "app_data" : "destination", op);
  }
  nm_py_buffer_release(&data);
  return result;
}

static PyObject *engine_subscribe(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_span name = nm_span_of(NULL, 0);
  bool responses;
  if (!nm_py_arity("subscribe", nargs, 2, 2) ||
      (args[0] != Py_None &&
       nm_py_text(args[0], "subscribe", "name", &name) < 0) ||
      nm_py_bool(args[1], "subscribe", "path_responses", &responses) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  int id = nm_engine_subscribe(e->engine, args[0] == Py_None ? NULL : &name,
                               responses);
  return nm_py_engine_done_id(e, id < 0 ? id : NM_OK, "subscription",
                              id < 0 ? 0 : (uint64_t)id);
}

static PyObject *engine_unsubscribe(PyObject *self, PyObject *arg) {
  long long id;
  if (nm_py_int(arg, "unsubscribe", "subscription", 0, INT_MAX, &id) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_unsubscribe(e->engine, (int)id),
                                 "subscription");
}

/* ----------------------------------------------------------------- handlers */

/* The identity hashes of a sequence, to be freed with PyMem_Free. */
static int read_list(PyObject *self, PyObject *obj, nm_identity_hash **list,
                     size_t *count) {
  *list = NULL;
  *count = 0;
  PyObject *items =
      nm_py_sequence(obj, "handle", "allowed", "a sequence of IdentityHash");
  if (items == NULL) {
    return -1;
  }
  int result = 0;
  Py_ssize_t size = PyTuple_GET_SIZE(items);
  nm_identity_hash *all =
      PyMem_Calloc((size_t)size + 1, sizeof(nm_identity_hash));
  if (all == NULL) {
    PyErr_NoMemory();
    result = -1;
  }
  for (Py_ssize_t i = 0; result == 0 && i < size; i++) {
    result = nm_py_address(nm_py_state_of(self), PyTuple_GET_ITEM(items, i),
                           NM_PY_IDENTITY_HASH, "handle", "allowed", all[i].b);
  }
  Py_DECREF(items);
  if (result < 0) {
    PyMem_Free(all);
    return -1;
  }
  *list = all;
  *count = (size_t)size;
  return 0;
}

static PyObject *engine_handle(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_span path;
  long long allow;
  nm_identity_hash *list;
  size_t count;
  if (!nm_py_arity("handle", nargs, 4, 4) ||
      read_hash(self, args[0], "handle", &hash) < 0 ||
      nm_py_text(args[1], "handle", "path", &path) < 0 ||
      nm_py_int(args[2], "handle", "allow", NM_ALLOW_NONE, NM_ALLOW_LIST,
                &allow) < 0 ||
      read_list(self, args[3], &list, &count) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e != NULL) {
    int status =
        nm_engine_handle(e->engine, &hash, path, (nm_allow)allow, list, count);
    result = nm_py_engine_done(
        e, status, status == NM_E(MISSING) ? "destination" : "handler");
  }
  PyMem_Free(list);
  return result;
}

static PyObject *engine_unhandle(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  nm_destination_hash hash;
  nm_span path;
  if (!nm_py_arity("unhandle", nargs, 2, 2) ||
      read_hash(self, args[0], "unhandle", &hash) < 0 ||
      nm_py_text(args[1], "unhandle", "path", &path) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_unhandle(e->engine, &hash, path),
                                 "handler");
}

/* ----------------------------------------------------------------- ratchets */

static PyObject *engine_ratchet_ids(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  uint8_t ids[NM_RATCHETS_RETAINED][NM_NAME_HASH_SIZE];
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "ratchet_ids", &hash) < 0) {
    return NULL;
  }
  int count = nm_engine_ratchet_ids(engine, &hash, ids, NM_RATCHETS_RETAINED);
  if (count < 0) {
    return nm_py_engine_raise(nm_py_state_of(self), count, "destination");
  }
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
    PyObject *id = nm_py_bytes(nm_span_of(ids[i], NM_NAME_HASH_SIZE));
    if (id == NULL) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SET_ITEM(tuple, i, id);
    }
  }
  return tuple;
}

#define RATCHETS(name, kind) NM_PY_COLUMN(#name, kind, nm_ratchet_state, name)

static const nm_py_column ratchet_columns[] = {
    RATCHETS(enabled, BOOL),        RATCHETS(enforced, BOOL),
    RATCHETS(retained, U32),        RATCHETS(interval_us, U64),
    RATCHETS(rotated_mono_us, U64), RATCHETS(last_emitted, U64),
};

const nm_py_table nm_py_ratchet_table = NM_PY_TABLE_OF(ratchet_columns);

static PyObject *engine_ratchet_state(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_ratchet_state ratchets;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "ratchet_state", &hash) < 0) {
    return NULL;
  }
  int status = nm_engine_ratchet_state(engine, &hash, &ratchets);
  return status == NM_OK
             ? nm_py_table_dict(nm_py_state_of(self), &nm_py_ratchet_table,
                                &ratchets)
             : nm_py_engine_raise(nm_py_state_of(self), status, "destination");
}

static PyObject *engine_rotate(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  if (read_hash(self, arg, "rotate", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_rotate(e->engine, &hash, e->now),
                                 "destination");
}

static PyObject *engine_ratchet_file(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "ratchet_file", &hash) < 0) {
    return NULL;
  }
  nm_block *file = NULL;
  int status = nm_engine_ratchet_file(engine, &hash, &file);
  return status == NM_OK
             ? nm_py_block_bytes(file)
             : nm_py_engine_raise(nm_py_state_of(self), status, "ratchet");
}

PyMethodDef nm_py_engine_local_methods[] = {
    NM_PY_ENGINE_METHOD(
        "listen", engine_listen,
        "listen($self, identity, name, group_key, ratchet_file, options, "
        "/)\n--\n\nRegisters an own destination. Its hash."),
    {"unlisten", engine_unlisten, METH_O,
     "unlisten($self, destination, /)\n--\n\nForgets an own destination."},
    NM_PY_ENGINE_METHOD("set_prove", engine_set_prove,
                        "set_prove($self, destination, prove, hold, /)\n--\n\n"
                        "Changes what is proven."),
    NM_PY_ENGINE_METHOD("set_app_data", engine_set_app_data,
                        "set_app_data($self, destination, app_data, /)\n--\n\n"
                        "The app data of announces that name none."),
    NM_PY_ENGINE_METHOD(
        "announce", engine_announce,
        "announce($self, destination, app_data, iface, path_response, "
        "/)\n--\n\nAnnounces an own destination. The operation."),
    NM_PY_ENGINE_METHOD("subscribe", engine_subscribe,
                        "subscribe($self, name, path_responses, /)\n--\n\n"
                        "Makes events of announces. The subscription."),
    {"unsubscribe", engine_unsubscribe, METH_O,
     "unsubscribe($self, subscription, /)\n--\n\nEnds a subscription."},
    NM_PY_ENGINE_METHOD(
        "handle", engine_handle,
        "handle($self, destination, path, allow, allowed, /)\n--\n\n"
        "Makes events of requests."),
    NM_PY_ENGINE_METHOD("unhandle", engine_unhandle,
                        "unhandle($self, destination, path, /)\n--\n\n"
                        "Forgets a request handler."),
    {"ratchet_ids", engine_ratchet_ids, METH_O,
     "ratchet_ids($self, destination, /)\n--\n\n"
     "The ids of own ratchets, newest first."},
    {"ratchet_state", engine_ratchet_state, METH_O,
     "ratchet_state($self, destination, /)\n--\n\n"
     "Settings and times of own ratchets as a dict."},
    {"rotate", engine_rotate, METH_O,
     "rotate($self, destination, /)\n--\n\nMakes a new ratchet now."},
    {"ratchet_file", engine_ratchet_file, METH_O,
     "ratchet_file($self, destination, /)\n--\n\n"
     "The signed ratchet file as it would be stored."},
    {NULL, NULL, 0, NULL}};
