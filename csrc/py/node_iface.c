/* Interfaces of nodes and the figures of nodes, to and from dicts. */
#include "py/iface_spec.h"
#include "py/node.h"
#include "py/stack_tables.h"

#include <string.h>

/* ------------------------------------------------------------- how to open */

#define SETUP(name, kind, min, max)                                            \
  NM_PY_COLUMN_IN(#name, kind, nm_iface_setup, name, min, max)

static const nm_py_column setup_columns[] = {
    SETUP(port, U16, 0, UINT16_MAX),
    SETUP(kiss, BOOL, 0, 0),
    SETUP(i2p_tunneled, BOOL, 0, 0),
    SETUP(prefer_ipv6, BOOL, 0, 0),
    SETUP(max_tries, U32, 0, UINT32_MAX),
    SETUP(retry_first_ms, U32, 1, UINT32_MAX),
    SETUP(retry_max_ms, U32, 1, UINT32_MAX),
    SETUP(connect_timeout_ms, U32, 1, UINT32_MAX),
    SETUP(connections_max, U32, 1, UINT32_MAX),
    NM_PY_COLUMN_IN("flap_threshold_ms", U32, nm_iface_setup,
                    flaps.threshold_ms, 0, UINT32_MAX),
    NM_PY_COLUMN_IN("flap_grace", U32, nm_iface_setup, flaps.grace, 0,
                    UINT32_MAX),
    NM_PY_COLUMN_IN("flap_first_ms", U32, nm_iface_setup, flaps.first_ms, 0,
                    UINT32_MAX),
    NM_PY_COLUMN_IN("flap_block_ms", U32, nm_iface_setup, flaps.block_ms, 1,
                    UINT32_MAX),
    SETUP(queue_bytes, U32, 1, UINT32_MAX),
    SETUP(queue_packets, U32, 1, UINT32_MAX),
    SETUP(local_tcp, BOOL, 0, 0),
    SETUP(forward_port, U16, 0, UINT16_MAX),
    NM_PY_COLUMN_IN("discovery_port", U16, nm_iface_setup,
                    automatic.discovery_port, 1, UINT16_MAX - 1),
    NM_PY_COLUMN_IN("data_port", U16, nm_iface_setup, automatic.data_port, 1,
                    UINT16_MAX),
    NM_PY_COLUMN_IN("peer_timeout_ms", U32, nm_iface_setup,
                    automatic.peer_timeout_ms, 1, UINT32_MAX),
    SETUP(fd, I32, -1, INT32_MAX),
};

/* Takes the item |name| out of |dict|: a new reference, NULL when it is not
 * there (no exception). */
static PyObject *pop(PyObject *dict, const char *name) {
  PyObject *value = Py_XNewRef(PyDict_GetItemString(dict, name));
  if (value != NULL && PyDict_DelItemString(dict, name) < 0) {
    Py_CLEAR(value);
  }
  return value;
}

/* Copies the text |given| into |out| of |size| bytes. */
static int take_text(PyObject *given, const char *function, const char *name,
                     char *out, size_t size) {
  nm_span text;
  if (nm_py_text(given, function, name, &text) < 0) {
    return -1;
  }
  if (text.len >= size || memchr(text.ptr, 0, text.len) != NULL) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter '%s' must have at most %zu bytes and no zero "
                 "byte",
                 function, name, size - 1);
    return -1;
  }
  memcpy(out, text.ptr, text.len);
  out[text.len] = '\0';
  return 0;
}

static int take_optional_text(PyObject *dict, const char *function,
                              const char *name, char *out, size_t size) {
  PyObject *given = pop(dict, name);
  if (given == NULL) {
    return PyErr_Occurred() ? -1 : 0;
  }
  int result = take_text(given, function, name, out, size);
  Py_DECREF(given);
  return result;
}

typedef struct text_option {
  const char *name;
  size_t offset;
  size_t size;
} text_option;

#define TEXT(name, member)                                                     \
  {                                                                            \
    name, offsetof(nm_iface_setup, member),                                    \
        sizeof(((nm_iface_setup *)0)->member)                                  \
  }

static const text_option texts[] = {
    TEXT("host", host),
    TEXT("instance", instance),
    TEXT("forward_host", forward_host),
    TEXT("device", device),
    TEXT("group", automatic.group),
    TEXT("devices", automatic.devices),
    TEXT("ignored", automatic.ignored),
};

static int take_texts(PyObject *dict, const char *function,
                      nm_iface_setup *setup) {
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char *out = (char *)setup + texts[i].offset;
    if (take_optional_text(dict, function, texts[i].name, out, texts[i].size) <
        0) {
      return -1;
    }
  }
  return 0;
}

/* A text of one character. */
static int take_digit(PyObject *dict, const char *function, const char *name,
                      char *out) {
  char text[2] = {*out, '\0'};
  int result = take_optional_text(dict, function, name, text, sizeof text);
  *out = text[0];
  return result;
}

/* The defaults of the medium and label that |dict| names. */
static int take_defaults(PyObject *dict, const char *function,
                         nm_iface_setup *setup) {
  long long medium;
  char label[NM_LABEL_MAX + 1];
  PyObject *kind = pop(dict, "medium");
  PyObject *text = pop(dict, "label");
  int result = -1;
  if (kind == NULL || text == NULL) {
    PyErr_Format(PyExc_TypeError, "%s() needs 'medium' and 'label'", function);
  } else if (nm_py_int(kind, function, "medium", 0, NM_MEDIUM_USER, &medium) ==
                 0 &&
             take_text(text, function, "label", label, sizeof label) == 0) {
    result = 0;
  }
  Py_XDECREF(kind);
  Py_XDECREF(text);
  if (result == 0 &&
      nm_iface_setup_default(setup, (nm_medium)medium, label) != NM_OK) {
    PyErr_Format(PyExc_ValueError,
                 "%s(): an interface needs a medium that can be opened and a "
                 "label",
                 function);
    result = -1;
  }
  return result;
}

static int take_properties(nm_state *state, PyObject *dict,
                           const char *function, nm_iface_setup *setup) {
  PyObject *spec = pop(dict, "spec");
  if (spec == NULL) {
    return PyErr_Occurred() ? -1 : 0;
  }
  int result = nm_py_iface_spec_apply(state, spec, function, &setup->spec);
  Py_DECREF(spec);
  return result;
}

int nm_py_iface_setup_read(nm_state *state, PyObject *options,
                           const char *function, nm_iface_setup *setup) {
  setup->fd = -1;
  if (!PyDict_Check(options)) {
    return nm_py_type_error(function, "spec", "a dict", options);
  }
  PyObject *dict = PyDict_Copy(options);
  int result = -1;
  if (dict != NULL && take_defaults(dict, function, setup) == 0 &&
      take_texts(dict, function, setup) == 0 &&
      take_digit(dict, function, "scope", &setup->automatic.scope) == 0 &&
      take_digit(dict, function, "address_type",
                 &setup->automatic.address_type) == 0 &&
      take_properties(state, dict, function, setup) == 0) {
    result =
        nm_py_columns_read(state, dict, setup_columns,
                           NM_PY_COLUMN_COUNT(setup_columns), function, setup);
  }
  Py_XDECREF(dict);
  return result;
}

/* --------------------------------------------------------- what is readable */

#define INFO(name, kind) NM_PY_COLUMN(#name, kind, nm_iface_info, name)

static const nm_py_column info_columns[] = {
    NM_PY_IFACE_COLUMNS(nm_iface_info),
    INFO(id, U32),
    INFO(parent, U32),
    INFO(medium, ENUM),
    INFO(name, TEXT),
    INFO(label, TEXT),
    INFO(hash, BYTES_32),
    INFO(paused, BOOL),
    INFO(listening, BOOL),
    INFO(has_ifac, BOOL),
    INFO(ifac_size, U16),
    INFO(port, U16),
    INFO(connections, U32),
    INFO(trouble, ENUM),
    INFO(os_error, I32),
    INFO(tries, U32),
    INFO(opened, U64),
    INFO(refused, U64),
    INFO(flaps, U64),
    INFO(flaps_evicted, U64),
    INFO(wire_rx_bytes, U64),
    INFO(wire_tx_bytes, U64),
    INFO(rx_discarded_bytes, U64),
    INFO(rx_runts, U64),
    INFO(rx_oversize, U64),
    INFO(rx_echoes, U64),
    INFO(rx_strangers, U64),
    INFO(network_errors, U64),
    INFO(queued_packets, U32),
    INFO(queued_bytes, U32),
};

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

static PyObject *with_count(PyObject *dict, const char *name, uint64_t count) {
  return count == 0 ? dict
                    : with(dict, name, PyLong_FromUnsignedLongLong(count));
}

/* Output that was dropped by reason, without those that never happened. */
static PyObject *port_drops(const nm_iface_info *info) {
  PyObject *dict = PyDict_New();
  for (int i = 0; i < NM_PORT_DROP_COUNT; i++) {
    dict = with_count(dict, nm_port_drop_name((nm_port_drop)i), info->drops[i]);
  }
  return dict;
}

/* The same of connections that were not taken. */
static PyObject *port_refusals(const nm_iface_info *info) {
  PyObject *dict = PyDict_New();
  for (int i = 0; i < NM_PORT_REFUSED_COUNT; i++) {
    dict = with_count(dict, nm_port_refusal_name((nm_port_refusal)i),
                      info->refusals[i]);
  }
  return dict;
}

PyObject *nm_py_iface_info_dict(nm_state *state, const nm_iface_info *info) {
  PyObject *dict = nm_py_columns_dict(state, info_columns,
                                      NM_PY_COLUMN_COUNT(info_columns), info);
  dict = with(dict, "medium_name",
              PyUnicode_FromString(nm_medium_name(info->medium)));
  dict = with(dict, "drops", port_drops(info));
  dict = with(dict, "refusals", port_refusals(info));
  return with(dict, "counters",
              nm_py_iface_counters_dict(state, &info->counters));
}

#define DEVICE(name, kind) NM_PY_COLUMN(#name, kind, nm_device_info, name)

static const nm_py_column device_columns[] = {
    DEVICE(name, TEXT),       DEVICE(index, U32),      DEVICE(os_error, I32),
    DEVICE(address, TEXT),    DEVICE(addresses, U32),  DEVICE(peers, U32),
    DEVICE(echo_heard, BOOL), DEVICE(echo_lost, BOOL), DEVICE(opened, U64),
    DEVICE(announces, U64),   DEVICE(echoes, U64),     DEVICE(forged, U64),
};

PyObject *nm_py_device_info_dict(nm_state *state, const nm_device_info *info) {
  PyObject *dict = nm_py_columns_dict(state, device_columns,
                                      NM_PY_COLUMN_COUNT(device_columns), info);
  return with(dict, "state",
              PyUnicode_FromString(nm_device_state_name(info->state)));
}

/* ------------------------------------------------------- figures of a node */

#define FIGURE(name, kind) NM_PY_COLUMN(#name, kind, nm_node_stats, name)

static const nm_py_column stat_columns[] = {
    NM_PY_COLUMN("mono_us", U64, nm_node_stats, at.mono_us),
    NM_PY_COLUMN("unix_us", I64, nm_node_stats, at.unix_us),
    FIGURE(commands, U64),
    FIGURE(events, U64),
    FIGURE(events_lost, U64),
    FIGURE(tap_lost, U64),
    FIGURE(frames_lost, U64),
    FIGURE(late_results, U64),
    FIGURE(saves, U64),
    FIGURE(save_errors, U64),
    FIGURE(damaged_files, U64),
    FIGURE(orphan_paths, U64),
    FIGURE(last_save_unix_us, I64),
    FIGURE(store_os_error, I64),
    FIGURE(ifaces, U64),
    FIGURE(jobs_waiting, U64),
};

PyObject *nm_py_node_stats_dict(nm_state *state, const nm_node_stats *stats) {
  PyObject *engine =
      nm_py_table_dict(state, &nm_py_engine_stats_table, &stats->engine);
  engine = with(engine, "drops", nm_py_drops_dict(stats->engine.drops));
  if (engine == NULL) {
    return NULL;
  }
  return with(nm_py_columns_dict(state, stat_columns,
                                 NM_PY_COLUMN_COUNT(stat_columns), stats),
              "engine", engine);
}
