/* Methods of EngineCore: statistics and the flight recorder. */
#include "py/engine.h"
#include "py/iface_spec.h"
#include "py/stack_tables.h"
#include "stack/recorder.h"

#define FIGURE(name, kind) NM_PY_COLUMN(#name, kind, nm_engine_stats, name)

static const nm_py_column stat_columns[] = {
    FIGURE(inputs, U64),
    FIGURE(accepted, U64),
    FIGURE(dropped, U64),
    FIGURE(outputs, U64),
    FIGURE(jobs_emitted, U64),
    FIGURE(jobs_dropped, U64),
    FIGURE(lossy_dropped, U64),
    FIGURE(lossy_coalesced, U64),
    FIGURE(held_for_credit, U64),
    FIGURE(known_evicted, U64),
    FIGURE(paths_evicted, U64),
    FIGURE(paths_failed_over, U64),
    FIGURE(alternatives_evicted, U64),
    FIGURE(receipts_culled, U64),
    FIGURE(resources_resumed, U64),
    FIGURE(resumes_declined, U64),
    FIGURE(partials_kept, U64),
    FIGURE(partials_evicted, U64),
    FIGURE(forwarded, U64),
    FIGURE(announces_blocked, U64),
    FIGURE(reverses_evicted, U64),
    FIGURE(announces_queued, U32),
    FIGURE(rebroadcasts, U32),
    FIGURE(transits, U32),
    FIGURE(reverses, U32),
    FIGURE(tunnels, U32),
    FIGURE(links_refused, U64),
    FIGURE(known, U32),
    FIGURE(paths, U32),
    FIGURE(alternatives, U64),
    FIGURE(links, U32),
    FIGURE(links_active, U32),
    FIGURE(receipts, U32),
    FIGURE(filter_current, U32),
    FIGURE(filter_previous, U32),
    FIGURE(operations, U32),
    FIGURE(jobs_outstanding, U32),
    FIGURE(resource_memory, U64),
};

const nm_py_table nm_py_engine_stats_table = NM_PY_TABLE_OF(stat_columns);

static PyObject *engine_stats(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL) {
    return NULL;
  }
  nm_engine_stats stats;
  nm_engine_stats_read(engine, &stats);
  PyObject *dict =
      nm_py_table_dict(nm_py_state_of(self), &nm_py_engine_stats_table, &stats);
  PyObject *drops = nm_py_drops_dict(stats.drops);
  if (dict != NULL &&
      (drops == NULL || PyDict_SetItemString(dict, "drops", drops) < 0)) {
    Py_CLEAR(dict);
  }
  Py_XDECREF(drops);
  return dict;
}

#define RECORD(name, kind) NM_PY_COLUMN(#name, kind, nm_record, name)

static const nm_py_column record_columns[] = {
    RECORD(seq, U64),
    RECORD(mono_us, U64),
    RECORD(kind, ENUM),
    RECORD(iface, U32),
    RECORD(code, U8),
    RECORD(flags, U8),
    RECORD(context, U8),
    RECORD(hops, U8),
    RECORD(bytes, U32),
    RECORD(hash, BYTES_32),
    RECORD(destination, BYTES_16),
};

const nm_py_table nm_py_record_table = NM_PY_TABLE_OF(record_columns);

static PyObject *engine_records(PyObject *self, PyObject *arg) {
  uint64_t seq;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || nm_py_engine_u64(arg, "records", "since", &seq) < 0) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  nm_record record;
  while (list != NULL && nm_engine_record(engine, seq, &record)) {
    PyObject *item =
        nm_py_table_dict(nm_py_state_of(self), &nm_py_record_table, &record);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
    seq = record.seq + 1;
  }
  return list;
}

PyMethodDef nm_py_engine_figure_methods[] = {
    {"stats", engine_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nThe figures as a dict."},
    {"records", engine_records, METH_O,
     "records($self, since, /)\n--\n\n"
     "The flight recorder from a sequence number on, as dicts."},
    {NULL, NULL, 0, NULL}};
