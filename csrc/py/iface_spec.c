#include "py/iface_spec.h"

#include "py/ifac.h"

static const nm_py_column spec_columns[] = {NM_PY_IFACE_COLUMNS(nm_iface_spec)};

#define OUT(name) NM_PY_COLUMN(#name, U64, nm_iface_counters, name)

static const nm_py_column counter_columns[] = {
    OUT(rx_packets),
    OUT(rx_bytes),
    OUT(tx_packets),
    OUT(tx_bytes),
    OUT(announces_in),
    OUT(announces_out),
    OUT(path_requests_in),
    OUT(path_requests_out),
    OUT(violations),
    OUT(announce_rx_bytes),
    OUT(announce_tx_bytes),
    OUT(path_request_rx_bytes),
    OUT(path_request_tx_bytes),
};

static int apply_ifac(nm_state *state, PyObject *given, const char *function,
                      nm_iface_spec *spec) {
  nm_ifac_wipe(&spec->ifac);
  spec->ifac_set = given != Py_None;
  if (!spec->ifac_set) {
    return 0;
  }
  const nm_ifac *ifac = nm_py_ifac_of(state, given, function, "ifac");
  if (ifac == NULL) {
    return -1;
  }
  spec->ifac = *ifac;
  return 0;
}

int nm_py_iface_spec_apply(nm_state *state, PyObject *options,
                           const char *function, nm_iface_spec *spec) {
  if (!PyDict_Check(options)) {
    return nm_py_type_error(function, "options", "a dict", options);
  }
  PyObject *rest = PyDict_Copy(options);
  if (rest == NULL) {
    return -1;
  }
  int result = 0;
  PyObject *ifac = PyDict_GetItemString(rest, "ifac");
  if (ifac != NULL) {
    result = apply_ifac(state, ifac, function, spec);
    if (result == 0) {
      result = PyDict_DelItemString(rest, "ifac");
    }
  }
  if (result == 0) {
    result =
        nm_py_columns_read(state, rest, spec_columns,
                           NM_PY_COLUMN_COUNT(spec_columns), function, spec);
  }
  Py_DECREF(rest);
  return result;
}

/* Adds |value|, which is taken over and may be NULL, to |dict|, which goes
 * when that fails. */
static PyObject *with(PyObject *dict, const char *name, PyObject *value) {
  if (dict != NULL &&
      (value == NULL || PyDict_SetItemString(dict, name, value) < 0)) {
    Py_CLEAR(dict);
  }
  Py_XDECREF(value);
  return dict;
}

PyObject *nm_py_iface_spec_dict(nm_state *state, const nm_iface_spec *spec) {
  static const nm_py_column name_column =
      NM_PY_COLUMN("name", TEXT, nm_iface_spec, name);
  PyObject *dict = nm_py_columns_dict(state, spec_columns,
                                      NM_PY_COLUMN_COUNT(spec_columns), spec);
  dict = with(dict, "name", nm_py_column_value(state, &name_column, spec));
  return with(dict, "ifac",
              spec->ifac_set ? nm_py_ifac_from(state, &spec->ifac)
                             : Py_NewRef(Py_None));
}

PyObject *nm_py_drops_dict(const uint64_t drops[NM_DROP_COUNT]) {
  PyObject *dict = PyDict_New();
  for (int i = 1; dict != NULL && i < NM_DROP_COUNT; i++) {
    if (drops[i] == 0) {
      continue;
    }
    PyObject *key = PyLong_FromLong(i);
    PyObject *value = PyLong_FromUnsignedLongLong(drops[i]);
    if (key == NULL || value == NULL || PyDict_SetItem(dict, key, value) < 0) {
      Py_CLEAR(dict);
    }
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return dict;
}

PyObject *nm_py_iface_counters_dict(nm_state *state,
                                    const nm_iface_counters *counters) {
  PyObject *dict = nm_py_columns_dict(
      state, counter_columns, NM_PY_COLUMN_COUNT(counter_columns), counters);
  return with(dict, "drops", nm_py_drops_dict(counters->drops));
}
