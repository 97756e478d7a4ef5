/* Methods of EngineCore: the tables of a transport node. */
#include "py/engine.h"
#include "py/stack_tables.h"
#include "stack/transport_tables.h"
#include "wire/announce.h"

#include <string.h>

#define IN(record, name, kind, min, max)                                       \
  NM_PY_COLUMN_IN(#name, kind, record, name, min, max)
#define MONO(record, name) IN(record, name##_mono_us, U64, 0, NM_PY_US_MAX)
#define UNIX(record, name)                                                     \
  IN(record, name##_unix_us, I64, -NM_PY_US_MAX, NM_PY_US_MAX)
#define IFACE(record, name) IN(record, name, U32, 0, UINT32_MAX)
#define BYTE(record, name, max) IN(record, name, U8, 0, max)

static const nm_py_column rebroadcast_columns[] = {
    IN(nm_rebroadcast_record, destination, DESTINATION, 0, 0),
    IN(nm_rebroadcast_record, received_from, BYTES_16, 0, 0),
    BYTE(nm_rebroadcast_record, hops, NM_HOPS_MAX),
    BYTE(nm_rebroadcast_record, retries, UINT8_MAX),
    BYTE(nm_rebroadcast_record, local_rebroadcasts, UINT8_MAX),
    IN(nm_rebroadcast_record, path_response, BOOL, 0, 0),
    IFACE(nm_rebroadcast_record, attached),
    IFACE(nm_rebroadcast_record, iface),
    MONO(nm_rebroadcast_record, added),
    UNIX(nm_rebroadcast_record, added),
    MONO(nm_rebroadcast_record, due),
    UNIX(nm_rebroadcast_record, due),
    IN(nm_rebroadcast_record, aside, BOOL, 0, 0),
    IN(nm_rebroadcast_record, announce, BLOCK, 0, 0),
};

static const nm_py_column waiting_columns[] = {
    IFACE(nm_waiting_record, iface),
    IN(nm_waiting_record, destination, DESTINATION, 0, 0),
    BYTE(nm_waiting_record, hops, NM_HOPS_MAX),
    MONO(nm_waiting_record, since),
    UNIX(nm_waiting_record, since),
    IN(nm_waiting_record, packet, BLOCK, 0, 0),
};

static const nm_py_column control_columns[] = {
    IFACE(nm_control_record, iface),
    IN(nm_control_record, announces_in_rate, REAL, 0, 0),
    IN(nm_control_record, announces_out_rate, REAL, 0, 0),
    IN(nm_control_record, requests_in_rate, REAL, 0, 0),
    IN(nm_control_record, requests_out_rate, REAL, 0, 0),
    IN(nm_control_record, announce_burst, BOOL, 0, 0),
    MONO(nm_control_record, announce_burst),
    UNIX(nm_control_record, announce_burst),
    IN(nm_control_record, request_burst, BOOL, 0, 0),
    MONO(nm_control_record, request_burst),
    UNIX(nm_control_record, request_burst),
    MONO(nm_control_record, release),
    UNIX(nm_control_record, release),
};

static const nm_py_column alternative_columns[] = {
    IN(nm_alternative_record, destination, DESTINATION, 0, 0),
    IN(nm_alternative_record, next_hop, BYTES_16, 0, 0),
    IFACE(nm_alternative_record, iface),
    BYTE(nm_alternative_record, hops, NM_HOPS_MAX),
    IN(nm_alternative_record, emitted, U64, 0, NM_ANNOUNCE_EMITTED_MAX),
    MONO(nm_alternative_record, heard),
    UNIX(nm_alternative_record, heard),
    MONO(nm_alternative_record, failed),
    UNIX(nm_alternative_record, failed),
};

static const nm_py_column rate_columns[] = {
    IN(nm_rate_table_record, destination, DESTINATION, 0, 0),
    IN(nm_rate_table_record, last_s, REAL, 0, 0),
    IN(nm_rate_table_record, blocked_until_s, REAL, 0, 0),
    IN(nm_rate_table_record, violations, U32, 0, UINT32_MAX),
    IN(nm_rate_table_record, times, BLOCK, 0, 0),
};

static const nm_py_column reverse_columns[] = {
    IN(nm_reverse_record, key, BYTES_16, 0, 0),
    IFACE(nm_reverse_record, received),
    IFACE(nm_reverse_record, out),
    MONO(nm_reverse_record, at),
    UNIX(nm_reverse_record, at),
};

static const nm_py_column transit_columns[] = {
    IN(nm_transit_record, id, BYTES_16, 0, 0),
    IN(nm_transit_record, destination, DESTINATION, 0, 0),
    IN(nm_transit_record, next_hop, BYTES_16, 0, 0),
    IFACE(nm_transit_record, next_iface),
    IFACE(nm_transit_record, received_iface),
    BYTE(nm_transit_record, remaining, NM_HOPS_MAX),
    BYTE(nm_transit_record, taken, NM_HOPS_MAX),
    IN(nm_transit_record, validated, BOOL, 0, 0),
    MONO(nm_transit_record, used),
    UNIX(nm_transit_record, used),
    MONO(nm_transit_record, deadline),
    UNIX(nm_transit_record, deadline),
};

static const nm_py_column tunnel_columns[] = {
    IN(nm_tunnel_record, id, BYTES_32, 0, 0),
    IFACE(nm_tunnel_record, iface),
    MONO(nm_tunnel_record, expires),
    UNIX(nm_tunnel_record, expires),
    IN(nm_tunnel_record, paths, U32, 0, UINT32_MAX),
};

static const nm_py_column tunnel_path_columns[] = {
    IN(nm_tunnel_path_record, tunnel, BYTES_32, 0, 0),
    IN(nm_tunnel_path_record, destination, DESTINATION, 0, 0),
    IN(nm_tunnel_path_record, next_hop, BYTES_16, 0, 0),
    BYTE(nm_tunnel_path_record, hops, NM_HOPS_MAX),
    MONO(nm_tunnel_path_record, updated),
    UNIX(nm_tunnel_path_record, updated),
    MONO(nm_tunnel_path_record, expires),
    UNIX(nm_tunnel_path_record, expires),
    IN(nm_tunnel_path_record, announce_hash, BYTES_32, 0, 0),
    IN(nm_tunnel_path_record, announce, BLOCK, 0, 0),
    IN(nm_tunnel_path_record, blobs, BLOCK, 0, 0),
};

static const nm_py_column search_columns[] = {
    IN(nm_search_record, destination, DESTINATION, 0, 0),
    IN(nm_search_record, engaged, BOOL, 0, 0),
    MONO(nm_search_record, until),
    UNIX(nm_search_record, until),
    IN(nm_search_record, ifaces, BLOCK, 0, 0),
};

static const nm_py_column flight_columns[] = {
    IN(nm_request_flight_record, destination, DESTINATION, 0, 0),
    MONO(nm_request_flight_record, since),
    UNIX(nm_request_flight_record, since),
};

static const nm_py_table tables[NM_TABLE_COUNT] = {
    [NM_TABLE_REBROADCASTS] = NM_PY_TABLE_OF(rebroadcast_columns),
    [NM_TABLE_HELD] = NM_PY_TABLE_OF(waiting_columns),
    [NM_TABLE_QUEUED] = NM_PY_TABLE_OF(waiting_columns),
    [NM_TABLE_CONTROLS] = NM_PY_TABLE_OF(control_columns),
    [NM_TABLE_ALTERNATIVES] = NM_PY_TABLE_OF(alternative_columns),
    [NM_TABLE_RATES] = NM_PY_TABLE_OF(rate_columns),
    [NM_TABLE_REVERSES] = NM_PY_TABLE_OF(reverse_columns),
    [NM_TABLE_TRANSITS] = NM_PY_TABLE_OF(transit_columns),
    [NM_TABLE_TUNNELS] = NM_PY_TABLE_OF(tunnel_columns),
    [NM_TABLE_TUNNEL_PATHS] = NM_PY_TABLE_OF(tunnel_path_columns),
    [NM_TABLE_SEARCHES] = NM_PY_TABLE_OF(search_columns),
    [NM_TABLE_PASSED_REQUESTS] = NM_PY_TABLE_OF(flight_columns),
};

const nm_py_table *nm_py_transport_table(nm_transport_table table) {
  return &tables[table];
}

int nm_py_transport_table_read(PyObject *obj, const char *function,
                               nm_transport_table *table) {
  nm_span name;
  if (nm_py_text(obj, function, "table", &name) < 0) {
    return -1;
  }
  for (int i = 0; i < NM_TABLE_COUNT; i++) {
    const char *known = nm_transport_table_name((nm_transport_table)i);
    if (nm_span_equal(name, nm_span_of(known, strlen(known)))) {
      *table = (nm_transport_table)i;
      return 0;
    }
  }
  PyErr_Format(PyExc_ValueError, "%s(): there is no table %R", function, obj);
  return -1;
}

/* Takes the blocks out of |dict| into |record|. */
static int take_blocks(PyObject *dict, const char *function,
                       const nm_py_table *table, void *record) {
  for (size_t i = 0; i < table->count; i++) {
    const nm_py_column *column = &table->columns[i];
    if (column->kind == NM_PY_COL_BLOCK) {
      nm_block *block = NULL;
      int result = nm_py_engine_block(dict, function, column->name, &block);
      memcpy((char *)record + column->offset, &block, sizeof(block));
      if (result < 0) {
        return -1;
      }
    }
  }
  return 0;
}

int nm_py_transport_record_read(nm_state *state, nm_transport_table table,
                                PyObject *given, const char *function,
                                nm_transport_record *record) {
  memset(record, 0, sizeof(*record));
  if (!PyDict_Check(given)) {
    return nm_py_type_error(function, "record", "a dict", given);
  }
  PyObject *dict = PyDict_Copy(given);
  int result = -1;
  if (dict != NULL &&
      take_blocks(dict, function, &tables[table], record) == 0) {
    result = nm_py_table_read(state, dict, &tables[table], function, record);
  }
  Py_XDECREF(dict);
  return result;
}

static PyObject *engine_table(PyObject *self, PyObject *name) {
  nm_transport_table table;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || nm_py_transport_table_read(name, "table", &table) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  nm_transport_record record;
  bool more =
      list != NULL && nm_engine_table_next(engine, table, NULL, &record);
  while (list != NULL && more) {
    PyObject *item =
        nm_py_table_dict(nm_py_state_of(self), &tables[table], &record);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
    nm_transport_record_dispose(table, &record);
    nm_transport_record last = record;
    more = list != NULL && nm_engine_table_next(engine, table, &last, &record);
  }
  return list;
}

/* What put and drop have in common. */
static PyObject *change(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                        const char *function, bool put) {
  nm_transport_table table;
  nm_transport_record record;
  if (!nm_py_arity(function, nargs, 2, 2) ||
      nm_py_transport_table_read(args[0], function, &table) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_py_transport_record_read(nm_py_state_of(self), table, args[1],
                                  function, &record) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      int status = put ? nm_engine_table_put(e->engine, table, &record, e->now)
                       : nm_engine_table_drop(e->engine, table, &record);
      result = nm_py_engine_done(
          e, status, put && status == NM_E(MISSING) ? "interface" : "record");
    }
  }
  nm_transport_record_dispose(table, &record);
  return result;
}

static PyObject *engine_table_put(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  return change(self, args, nargs, "table_put", true);
}

static PyObject *engine_table_drop(PyObject *self, PyObject *const *args,
                                   Py_ssize_t nargs) {
  return change(self, args, nargs, "table_drop", false);
}

static PyObject *engine_held_release(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_waiting_key key;
  if (!nm_py_arity("held_release", nargs, 2, 2) ||
      nm_py_engine_iface(args[0], "held_release", &key.iface) < 0 ||
      nm_py_address(nm_py_state_of(self), args[1], NM_PY_DESTINATION_HASH,
                    "held_release", "destination", key.destination.b) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(
                         e, nm_engine_held_release(e->engine, &key, e->now),
                         "record");
}

PyMethodDef nm_py_engine_transport_methods[] = {
    {"table", engine_table, METH_O,
     "table($self, name, /)\n--\n\nA table of a transport node as dicts."},
    NM_PY_ENGINE_METHOD("table_put", engine_table_put,
                        "table_put($self, name, record, /)\n--\n\n"
                        "Adds or replaces a record of one."),
    NM_PY_ENGINE_METHOD("table_drop", engine_table_drop,
                        "table_drop($self, name, record, /)\n--\n\n"
                        "Removes the record with these keys."),
    NM_PY_ENGINE_METHOD("held_release", engine_held_release,
                        "held_release($self, iface, destination, /)\n--\n\n"
                        "Lets a held announce go on."),
    {NULL, NULL, 0, NULL}};
