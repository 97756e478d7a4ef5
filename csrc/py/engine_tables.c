/* Methods of EngineCore: tables as records, and the duplicate filter. */
#include "py/engine.h"
#include "py/stack_tables.h"
#include "stack/snapshot.h"

#include <string.h>

static int read_hash(PyObject *self, PyObject *obj, const char *function,
                     nm_destination_hash *out) {
  return nm_py_address(nm_py_state_of(self), obj, NM_PY_DESTINATION_HASH,
                       function, "destination", out->b);
}

/* Appends a dict of |in| to |list|. */
static int append(PyObject *self, PyObject *list, const nm_py_table *table,
                  const void *in) {
  PyObject *item = nm_py_table_dict(nm_py_state_of(self), table, in);
  int result = item == NULL ? -1 : PyList_Append(list, item);
  Py_XDECREF(item);
  return result;
}

/* A copy of |given| that may be changed. */
static PyObject *copy_dict(PyObject *given, const char *function) {
  if (!PyDict_Check(given)) {
    nm_py_type_error(function, "record", "a dict", given);
    return NULL;
  }
  return PyDict_Copy(given);
}

/* ------------------------------------------------------------------- paths */

#define PATH(name, kind, min, max)                                             \
  NM_PY_COLUMN_IN(#name, kind, nm_path_record, name, min, max)

static const nm_py_column path_columns[] = {
    PATH(destination, DESTINATION, 0, 0),
    PATH(next_hop, BYTES_16, 0, 0),
    PATH(hops, U8, 0, NM_HOPS_MAX),
    PATH(iface, U32, 0, UINT32_MAX),
    PATH(updated_mono_us, U64, 0, NM_PY_US_MAX),
    PATH(updated_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
    PATH(expires_mono_us, U64, 0, NM_PY_US_MAX),
    PATH(expires_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
    PATH(state, U8, NM_PATH_UNKNOWN, NM_PATH_RESPONSIVE),
    PATH(announce_hash, BYTES_32, 0, 0),
    PATH(announce, BLOCK, 0, 0),
    PATH(blobs, BLOCK, 0, 0),
};

const nm_py_table nm_py_path_table = NM_PY_TABLE_OF(path_columns);

static PyObject *engine_paths(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_path_record record;
  nm_destination_hash last;
  bool more = list != NULL && nm_engine_path_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_path_table, &record) < 0) {
      Py_CLEAR(list);
    }
    last = record.destination;
    nm_path_record_dispose(&record);
    more = nm_engine_path_next(engine, &last, &record);
  }
  if (list == NULL && more) {
    nm_path_record_dispose(&record);
  }
  return list;
}

static PyObject *engine_path(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_path_record record;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "path", &hash) < 0) {
    return NULL;
  }
  if (!nm_engine_path_get(engine, &hash, &record)) {
    Py_RETURN_NONE;
  }
  PyObject *dict =
      nm_py_table_dict(nm_py_state_of(self), &nm_py_path_table, &record);
  nm_path_record_dispose(&record);
  return dict;
}

int nm_py_path_record_read(nm_state *state, PyObject *given,
                           const char *function, nm_path_record *record) {
  memset(record, 0, sizeof *record);
  PyObject *dict = copy_dict(given, function);
  int result = -1;
  if (dict != NULL &&
      nm_py_engine_block(dict, function, "announce", &record->announce) == 0 &&
      nm_py_engine_block(dict, function, "blobs", &record->blobs) == 0) {
    result = nm_py_table_read(state, dict, &nm_py_path_table, function, record);
  }
  Py_XDECREF(dict);
  return result;
}

static PyObject *engine_path_put(PyObject *self, PyObject *arg) {
  nm_path_record record;
  PyObject *result = NULL;
  if (nm_py_path_record_read(nm_py_state_of(self), arg, "path_put", &record) ==
      0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      int status = nm_engine_path_put(e->engine, &record);
      result = nm_py_engine_done(
          e, status, status == NM_E(MISSING) ? "interface" : "blobs");
    }
  }
  nm_path_record_dispose(&record);
  return result;
}

/* ------------------------------------------------------- known destinations */

#define KNOWN(name, kind, min, max)                                            \
  NM_PY_COLUMN_IN(#name, kind, nm_known_record, name, min, max)

static const nm_py_column known_columns[] = {
    KNOWN(destination, DESTINATION, 0, 0),
    KNOWN(public_key, PUBLIC, 0, 0),
    KNOWN(announce_hash, BYTES_32, 0, 0),
    KNOWN(heard_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
    KNOWN(used_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
    KNOWN(app_data, BLOCK, 0, 0),
    KNOWN(has_ratchet, BOOL, 0, 0),
    KNOWN(ratchet, BYTES_32, 0, 0),
    KNOWN(ratchet_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
};

const nm_py_table nm_py_known_table = NM_PY_TABLE_OF(known_columns);

static PyObject *engine_knowns(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_known_record record;
  nm_destination_hash last;
  bool more = list != NULL && nm_engine_known_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_known_table, &record) < 0) {
      Py_CLEAR(list);
    }
    last = record.destination;
    nm_known_record_dispose(&record);
    more = nm_engine_known_next(engine, &last, &record);
  }
  if (list == NULL && more) {
    nm_known_record_dispose(&record);
  }
  return list;
}

static PyObject *engine_known(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  nm_known_record record;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_hash(self, arg, "known", &hash) < 0) {
    return NULL;
  }
  if (!nm_engine_known_get(engine, &hash, &record)) {
    Py_RETURN_NONE;
  }
  PyObject *dict =
      nm_py_table_dict(nm_py_state_of(self), &nm_py_known_table, &record);
  nm_known_record_dispose(&record);
  return dict;
}

int nm_py_known_record_read(nm_state *state, PyObject *given,
                            const char *function, nm_known_record *record) {
  memset(record, 0, sizeof *record);
  PyObject *dict = copy_dict(given, function);
  int result = -1;
  if (dict != NULL &&
      nm_py_engine_block(dict, function, "app_data", &record->app_data) == 0) {
    record->has_app_data = record->app_data != NULL;
    result =
        nm_py_table_read(state, dict, &nm_py_known_table, function, record);
  }
  Py_XDECREF(dict);
  return result;
}

static PyObject *engine_known_put(PyObject *self, PyObject *arg) {
  nm_known_record record;
  PyObject *result = NULL;
  if (nm_py_known_record_read(nm_py_state_of(self), arg, "known_put",
                              &record) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      result = nm_py_engine_done(e, nm_engine_known_put(e->engine, &record),
                                 "public_key");
    }
  }
  nm_known_record_dispose(&record);
  return result;
}

static PyObject *engine_known_drop(PyObject *self, PyObject *arg) {
  nm_destination_hash hash;
  if (read_hash(self, arg, "known_drop", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_known_drop(e->engine, &hash),
                                 "destination");
}

static PyObject *engine_known_clean(PyObject *self,
                                    PyObject *Py_UNUSED(unused)) {
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done_id(e, NM_OK, "",
                                    nm_engine_known_clean(e->engine, e->now));
}

/* ----------------------------------------------------------- smaller tables */

#define RECEIPT(name, kind) NM_PY_COLUMN(#name, kind, nm_receipt_record, name)

static const nm_py_column receipt_columns[] = {
    RECEIPT(hash, BYTES_32),    RECEIPT(destination, DESTINATION),
    RECEIPT(link, U64),         RECEIPT(op, U64),
    RECEIPT(state, U8),         RECEIPT(sent_mono_us, U64),
    RECEIPT(sent_unix_us, I64), RECEIPT(timeout_us, U64),
};

const nm_py_table nm_py_receipt_table = NM_PY_TABLE_OF(receipt_columns);

static PyObject *engine_receipts(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_receipt_record record;
  bool more = list != NULL && nm_engine_receipt_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_receipt_table, &record) < 0) {
      Py_CLEAR(list);
    }
    nm_packet_hash last = record.hash;
    more = nm_engine_receipt_next(engine, &last, &record);
  }
  return list;
}

#define ASK(name, kind) NM_PY_COLUMN(#name, kind, nm_path_request_record, name)

static const nm_py_column ask_columns[] = {
    ASK(destination, DESTINATION),
    ASK(last_mono_us, U64),
    ASK(last_unix_us, I64),
    ASK(waiting, U32),
};

const nm_py_table nm_py_path_request_table = NM_PY_TABLE_OF(ask_columns);

static PyObject *engine_path_requests(PyObject *self,
                                      PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_path_request_record record;
  bool more =
      list != NULL && nm_engine_path_request_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_path_request_table, &record) < 0) {
      Py_CLEAR(list);
    }
    nm_destination_hash last = record.destination;
    more = nm_engine_path_request_next(engine, &last, &record);
  }
  return list;
}

#define HOLE(name, kind, min, max)                                             \
  NM_PY_COLUMN_IN(#name, kind, nm_blackhole_record, name, min, max)

static const nm_py_column hole_columns[] = {
    HOLE(identity, IDENTITY, 0, 0),
    HOLE(source, IDENTITY, 0, 0),
    HOLE(until_unix_us, I64, 0, NM_PY_US_MAX),
    HOLE(reason, BLOCK, 0, 0),
};

const nm_py_table nm_py_blackhole_table = NM_PY_TABLE_OF(hole_columns);

static PyObject *engine_blackholes(PyObject *self,
                                   PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_blackhole_record record;
  nm_identity_hash last;
  bool more = list != NULL && nm_engine_blackhole_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_blackhole_table, &record) < 0) {
      Py_CLEAR(list);
    }
    last = record.identity;
    nm_blackhole_record_dispose(&record);
    more = nm_engine_blackhole_next(engine, &last, &record);
  }
  if (list == NULL && more) {
    nm_blackhole_record_dispose(&record);
  }
  return list;
}

int nm_py_blackhole_record_read(nm_state *state, PyObject *given,
                                const char *function,
                                nm_blackhole_record *record) {
  memset(record, 0, sizeof *record);
  PyObject *dict = copy_dict(given, function);
  int result = -1;
  if (dict != NULL &&
      nm_py_engine_block(dict, function, "reason", &record->reason) == 0) {
    result =
        nm_py_table_read(state, dict, &nm_py_blackhole_table, function, record);
  }
  Py_XDECREF(dict);
  return result;
}

static PyObject *engine_blackhole_put(PyObject *self, PyObject *arg) {
  nm_blackhole_record record;
  PyObject *result = NULL;
  if (nm_py_blackhole_record_read(nm_py_state_of(self), arg, "blackhole_put",
                                  &record) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      result = nm_py_engine_done(
          e, nm_engine_blackhole_put(e->engine, &record, e->now), "blackhole");
    }
  }
  nm_blackhole_record_dispose(&record);
  return result;
}

static const nm_py_column tag_columns[] = {
    NM_PY_COLUMN("destination", DESTINATION, nm_path_tag, destination),
    NM_PY_COLUMN("tag", BYTES_16, nm_path_tag, tag),
};

const nm_py_table nm_py_path_tag_table = NM_PY_TABLE_OF(tag_columns);

static PyObject *engine_path_tags(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_path_tag record;
  bool more = list != NULL && nm_engine_path_tag_next(engine, NULL, &record);
  while (list != NULL && more) {
    if (append(self, list, &nm_py_path_tag_table, &record) < 0) {
      Py_CLEAR(list);
    }
    nm_path_tag last = record;
    more = nm_engine_path_tag_next(engine, &last, &record);
  }
  return list;
}

static PyObject *engine_path_tag_put(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_path_tag tag;
  bool seen;
  if (!nm_py_arity("path_tag_put", nargs, 3, 3) ||
      read_hash(self, args[0], "path_tag_put", &tag.destination) < 0 ||
      nm_py_exact(args[1], "path_tag_put", "tag", tag.tag, sizeof tag.tag) <
          0 ||
      nm_py_bool(args[2], "path_tag_put", "seen", &seen) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(
                   e, nm_engine_path_tag_set(e->engine, &tag, seen), "tag");
}

/* ----------------------------------------------------- the duplicate filter */

static int read_packet_hash(PyObject *obj, const char *function,
                            nm_packet_hash *out) {
  return nm_py_exact(obj, function, "packet_hash", out->b, sizeof out->b);
}

static PyObject *engine_filter_size(PyObject *self,
                                    PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  return engine == NULL ? NULL
                        : PyLong_FromSize_t(nm_engine_filter_size(engine));
}

static PyObject *engine_filter_has(PyObject *self, PyObject *arg) {
  nm_packet_hash hash;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || read_packet_hash(arg, "filter_has", &hash) < 0) {
    return NULL;
  }
  return PyBool_FromLong(nm_engine_filter_has(engine, &hash));
}

static PyObject *engine_filter_put(PyObject *self, PyObject *arg) {
  nm_packet_hash hash;
  if (read_packet_hash(arg, "filter_put", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_engine_filter_put(e->engine, &hash);
  return nm_py_engine_done(e, NM_OK, "");
}

static PyObject *engine_filter_drop(PyObject *self, PyObject *arg) {
  nm_packet_hash hash;
  if (read_packet_hash(arg, "filter_drop", &hash) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_engine_filter_drop(e->engine, &hash);
  return nm_py_engine_done(e, NM_OK, "");
}

PyMethodDef nm_py_engine_table_methods[] = {
    {"paths", engine_paths, METH_NOARGS,
     "paths($self, /)\n--\n\nThe path table as dicts."},
    {"path", engine_path, METH_O,
     "path($self, destination, /)\n--\n\nOne path as a dict, or None."},
    {"path_put", engine_path_put, METH_O,
     "path_put($self, record, /)\n--\n\nAdds or replaces a path."},
    {"knowns", engine_knowns, METH_NOARGS,
     "knowns($self, /)\n--\n\nThe known destinations as dicts."},
    {"known", engine_known, METH_O,
     "known($self, destination, /)\n--\n\nOne of them, or None."},
    {"known_put", engine_known_put, METH_O,
     "known_put($self, record, /)\n--\n\nAdds or replaces one."},
    {"known_drop", engine_known_drop, METH_O,
     "known_drop($self, destination, /)\n--\n\nForgets one."},
    {"known_clean", engine_known_clean, METH_NOARGS,
     "known_clean($self, /)\n--\n\nForgets the unused. How many went."},
    {"receipts", engine_receipts, METH_NOARGS,
     "receipts($self, /)\n--\n\nThe packets that wait for their proof."},
    {"path_requests", engine_path_requests, METH_NOARGS,
     "path_requests($self, /)\n--\n\nOwn path requests."},
    {"blackholes", engine_blackholes, METH_NOARGS,
     "blackholes($self, /)\n--\n\nThe ignored identities."},
    {"blackhole_put", engine_blackhole_put, METH_O,
     "blackhole_put($self, record, /)\n--\n\nAdds or replaces one."},
    {"path_tags", engine_path_tags, METH_NOARGS,
     "path_tags($self, /)\n--\n\nThe path requests that were seen."},
    NM_PY_ENGINE_METHOD("path_tag_put", engine_path_tag_put,
                        "path_tag_put($self, destination, tag, seen, /)\n--\n\n"
                        "Takes a path request as seen, or not seen."),
    {"filter_size", engine_filter_size, METH_NOARGS,
     "filter_size($self, /)\n--\n\nPacket hashes in the duplicate filter."},
    {"filter_has", engine_filter_has, METH_O,
     "filter_has($self, packet_hash, /)\n--\n\nIs a hash in the filter?"},
    {"filter_put", engine_filter_put, METH_O,
     "filter_put($self, packet_hash, /)\n--\n\nAdds a hash to the filter."},
    {"filter_drop", engine_filter_drop, METH_O,
     "filter_drop($self, packet_hash, /)\n--\n\nTakes a hash out of it."},
    {NULL, NULL, 0, NULL}};
