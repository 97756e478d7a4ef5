/* Methods of SimCore: media, members, figures. */
#include "py/engine.h"
#include "py/iface_spec.h"
#include "py/sim.h"

#include <string.h>

#define OPTION(name, kind, max)                                                \
  NM_PY_COLUMN_IN(#name, kind, nm_sim_medium_config, name, 0, max)
#define LONG_MAX_US ((long long)1 << 50)

static const nm_py_column medium_columns[] = {
    OPTION(rate_bps, U64, (long long)1 << 50),
    OPTION(frame_us, U64, LONG_MAX_US),
    OPTION(delay_us, U64, LONG_MAX_US),
    OPTION(jitter_us, U64, LONG_MAX_US),
    OPTION(loss_ppm, U32, 1000000),
    OPTION(duplicate_ppm, U32, 1000000),
    OPTION(reorder_ppm, U32, 1000000),
    OPTION(corrupt_ppm, U32, 1000000),
    OPTION(reorder_us, U64, LONG_MAX_US),
    OPTION(half_duplex, BOOL, 0),
    OPTION(in_order, BOOL, 0),
    OPTION(queue_frames, U32, UINT32_MAX),
    OPTION(mtu, U32, UINT32_MAX),
};

static PyObject *medium_add(PyObject *self, PyObject *const *args,
                            Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  const char *name;
  nm_sim_medium_config config;
  nm_sim_medium_config_default(&config);
  if (sim == NULL || !nm_py_arity("medium_add", nargs, 2, 2) ||
      nm_py_sim_name(args[0], "medium_add", "name", &name) < 0 ||
      nm_py_columns_read(nm_py_state_of(self), args[1], medium_columns,
                         NM_PY_COLUMN_COUNT(medium_columns), "medium_add",
                         &config) < 0) {
    return NULL;
  }
  nm_sim_medium_id medium = 0;
  int status = nm_sim_medium_add(sim, name, &config, &medium);
  return nm_py_sim_done(self, status, "medium",
                        PyLong_FromUnsignedLong(medium));
}

static PyObject *medium_change(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t medium;
  if (sim == NULL || !nm_py_arity("medium_change", nargs, 2, 2) ||
      nm_py_sim_id(args[0], "medium_change", "medium", &medium) < 0) {
    return NULL;
  }
  const nm_sim_medium_config *old = nm_sim_medium_read(sim, medium);
  if (old == NULL) {
    return nm_py_sim_done(self, NM_E(MISSING), "medium", Py_NewRef(Py_None));
  }
  nm_sim_medium_config config = *old;
  if (nm_py_columns_read(nm_py_state_of(self), args[1], medium_columns,
                         NM_PY_COLUMN_COUNT(medium_columns), "medium_change",
                         &config) < 0) {
    return NULL;
  }
  return nm_py_sim_done(self, nm_sim_medium_change(sim, medium, &config),
                        "medium", Py_NewRef(Py_None));
}

static PyObject *medium_options(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t medium;
  if (sim == NULL ||
      nm_py_sim_id(arg, "medium_options", "medium", &medium) < 0) {
    return NULL;
  }
  const nm_sim_medium_config *config = nm_sim_medium_read(sim, medium);
  if (config == NULL) {
    return nm_py_sim_done(self, NM_E(MISSING), "medium", Py_NewRef(Py_None));
  }
  return nm_py_columns_dict(nm_py_state_of(self), medium_columns,
                            NM_PY_COLUMN_COUNT(medium_columns), config);
}

/* ----------------------------------------------------------------- members */

static int two_ids(PyObject *const *args, const char *function, uint32_t *node,
                   uint32_t *medium) {
  return nm_py_sim_id(args[0], function, "node", node) < 0 ||
                 nm_py_sim_id(args[1], function, "medium", medium) < 0
             ? -1
             : 0;
}

/* connect(node, medium, kind, name, options) */
static PyObject *sim_connect(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  uint32_t medium;
  const char *kind;
  const char *name;
  nm_iface_spec spec;
  if (sim == NULL || !nm_py_arity("connect", nargs, 5, 5) ||
      two_ids(args, "connect", &node, &medium) < 0 ||
      nm_py_sim_name(args[2], "connect", "kind", &kind) < 0 ||
      nm_py_sim_name(args[3], "connect", "name", &name) < 0) {
    return NULL;
  }
  if (nm_iface_spec_default(&spec, kind, name) != NM_OK) {
    return PyErr_Format(PyExc_ValueError,
                        "connect(): unknown kind %R, or a name that is empty "
                        "or longer than %d bytes",
                        args[2], NM_IFACE_NAME_MAX);
  }
  nm_iface_id iface = 0;
  int status = NM_OK;
  PyObject *result = NULL;
  if (nm_py_iface_spec_apply(nm_py_state_of(self), args[4], "connect", &spec) ==
      0) {
    status = nm_sim_connect(sim, node, medium, &spec, &iface);
    result = PyLong_FromUnsignedLong(iface);
  }
  nm_ifac_wipe(&spec.ifac);
  return nm_py_sim_done(self, status, "interface", result);
}

static PyObject *sim_disconnect(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  uint32_t medium;
  if (sim == NULL || !nm_py_arity("disconnect", nargs, 2, 2) ||
      two_ids(args, "disconnect", &node, &medium) < 0) {
    return NULL;
  }
  return nm_py_sim_done(self, nm_sim_disconnect(sim, node, medium), "interface",
                        Py_NewRef(Py_None));
}

static PyObject *sim_reconnect(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  uint32_t medium;
  if (sim == NULL || !nm_py_arity("reconnect", nargs, 3, 3) ||
      two_ids(args, "reconnect", &node, &medium) < 0) {
    return NULL;
  }
  nm_engine *engine = nm_sim_engine(sim, node);
  const nm_iface_spec *old =
      engine == NULL
          ? NULL
          : nm_engine_iface(engine, nm_sim_iface_of(sim, node, medium));
  if (old == NULL) {
    return nm_py_sim_done(self, NM_E(MISSING), "interface", Py_NewRef(Py_None));
  }
  nm_iface_spec spec = *old;
  int status = NM_OK;
  PyObject *result = NULL;
  if (nm_py_iface_spec_apply(nm_py_state_of(self), args[2], "reconnect",
                             &spec) == 0) {
    status = nm_sim_reconnect(sim, node, medium, &spec);
    result = Py_NewRef(Py_None);
  }
  nm_ifac_wipe(&spec.ifac);
  return nm_py_sim_done(self, status, "interface", result);
}

static PyObject *sim_iface_of(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  uint32_t medium;
  if (sim == NULL || !nm_py_arity("iface_of", nargs, 2, 2) ||
      two_ids(args, "iface_of", &node, &medium) < 0) {
    return NULL;
  }
  return PyLong_FromUnsignedLong(nm_sim_iface_of(sim, node, medium));
}

static PyObject *sim_cut(PyObject *self, PyObject *const *args,
                         Py_ssize_t nargs) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t medium;
  uint32_t from;
  uint32_t to;
  bool cut;
  if (sim == NULL || !nm_py_arity("cut", nargs, 4, 4) ||
      nm_py_sim_id(args[0], "cut", "medium", &medium) < 0 ||
      nm_py_sim_id(args[1], "cut", "sender", &from) < 0 ||
      nm_py_sim_id(args[2], "cut", "hearer", &to) < 0 ||
      nm_py_bool(args[3], "cut", "cut", &cut) < 0) {
    return NULL;
  }
  return nm_py_sim_done(self, nm_sim_cut(sim, medium, from, to, cut), "member",
                        Py_NewRef(Py_None));
}

/* ----------------------------------------------------------------- figures */

#define MEDIUM_FIGURE(name, kind)                                              \
  NM_PY_COLUMN(#name, kind, nm_sim_medium_stats, name)

static const nm_py_column medium_figures[] = {
    MEDIUM_FIGURE(members, U32),       MEDIUM_FIGURE(offered, U64),
    MEDIUM_FIGURE(offered_bytes, U64), MEDIUM_FIGURE(sent, U64),
    MEDIUM_FIGURE(sent_bytes, U64),    MEDIUM_FIGURE(airtime_us, U64),
    MEDIUM_FIGURE(copies, U64),        MEDIUM_FIGURE(duplicates, U64),
    MEDIUM_FIGURE(corrupted, U64),     MEDIUM_FIGURE(waiting, U64),
    MEDIUM_FIGURE(in_flight, U64),
};

/* A dict of the counts in |counts| by |name_of| them, without zeros. */
static PyObject *named_counts(const uint64_t *counts, int count,
                              const char *(*name_of)(int)) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict != NULL && i < count; i++) {
    if (counts[i] == 0) {
      continue;
    }
    PyObject *value = PyLong_FromUnsignedLongLong(counts[i]);
    if (value == NULL || PyDict_SetItemString(dict, name_of(i), value) < 0) {
      Py_CLEAR(dict);
    }
    Py_XDECREF(value);
  }
  return dict;
}

static const char *fate_name(int fate) {
  return nm_sim_fate_name((nm_sim_fate)fate);
}

static const char *frame_name(int kind) {
  return nm_sim_frame_name((nm_sim_frame_kind)kind);
}

/* Puts |value| (taken over) into |dict|, which goes on an error. */
static void put(PyObject **dict, const char *key, PyObject *value) {
  if (*dict != NULL &&
      (value == NULL || PyDict_SetItemString(*dict, key, value) < 0)) {
    Py_CLEAR(*dict);
  }
  Py_XDECREF(value);
}

static PyObject *sim_medium_stats(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t medium;
  nm_sim_medium_stats stats;
  if (sim == NULL || nm_py_sim_id(arg, "medium_stats", "medium", &medium) < 0) {
    return NULL;
  }
  if (!nm_sim_medium_stats_read(sim, medium, &stats)) {
    return nm_py_sim_done(self, NM_E(MISSING), "medium", Py_NewRef(Py_None));
  }
  PyObject *dict =
      nm_py_columns_dict(nm_py_state_of(self), medium_figures,
                         NM_PY_COLUMN_COUNT(medium_figures), &stats);
  put(&dict, "fates", named_counts(stats.fates, NM_SIM_FATE_COUNT, fate_name));
  put(&dict, "frames",
      named_counts(stats.by_kind, NM_SIM_FRAME_KIND_COUNT, frame_name));
  put(&dict, "frame_bytes",
      named_counts(stats.bytes_by_kind, NM_SIM_FRAME_KIND_COUNT, frame_name));
  return dict;
}

#define NODE_FIGURE(name, kind)                                                \
  NM_PY_COLUMN(#name, kind, nm_sim_node_stats, name)

static const nm_py_column node_figures[] = {
    NODE_FIGURE(boots, U32),       NODE_FIGURE(frames_in, U64),
    NODE_FIGURE(frames_out, U64),  NODE_FIGURE(bytes_in, U64),
    NODE_FIGURE(bytes_out, U64),   NODE_FIGURE(jobs, U64),
    NODE_FIGURE(stores, U64),      NODE_FIGURE(stores_failed, U64),
    NODE_FIGURE(events, U64),      NODE_FIGURE(terminal_events, U64),
    NODE_FIGURE(operations, U64),  NODE_FIGURE(live_blocks, U64),
    NODE_FIGURE(live_bytes, U64),  NODE_FIGURE(peak_bytes, U64),
    NODE_FIGURE(allocations, U64), NODE_FIGURE(allocations_failed, U64),
};

static PyObject *sim_node_stats(PyObject *self, PyObject *arg) {
  nm_sim *sim = nm_py_sim_read(self);
  uint32_t node;
  nm_sim_node_stats stats;
  if (sim == NULL || nm_py_sim_id(arg, "node_stats", "node", &node) < 0) {
    return NULL;
  }
  if (!nm_sim_node_stats_read(sim, node, &stats)) {
    return nm_py_sim_done(self, NM_E(MISSING), "node", Py_NewRef(Py_None));
  }
  return nm_py_columns_dict(nm_py_state_of(self), node_figures,
                            NM_PY_COLUMN_COUNT(node_figures), &stats);
}

#define SIM_FIGURE(name) NM_PY_COLUMN(#name, U64, nm_sim_stats, name)

static const nm_py_column sim_figures[] = {
    SIM_FIGURE(steps), SIM_FIGURE(frames), SIM_FIGURE(events),
    SIM_FIGURE(notes), SIM_FIGURE(checks),
};

static PyObject *sim_stats(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_sim *sim = nm_py_sim_read(self);
  nm_sim_stats stats;
  if (sim == NULL) {
    return NULL;
  }
  nm_sim_stats_read(sim, &stats);
  return nm_py_columns_dict(nm_py_state_of(self), sim_figures,
                            NM_PY_COLUMN_COUNT(sim_figures), &stats);
}

#define METHOD(name, function, doc)                                            \
  { name, NM_PY_FASTCALL(function), METH_FASTCALL, doc }

PyMethodDef nm_py_sim_medium_methods[] = {
    METHOD("medium_add", medium_add,
           "medium_add($self, name, options, /)\n--\n\n"
           "Adds a medium. Its number."),
    METHOD("medium_change", medium_change,
           "medium_change($self, medium, options, /)\n--\n\n"
           "Changes what the dict names, for frames sent from now on."),
    {"medium_options", medium_options, METH_O,
     "medium_options($self, medium, /)\n--\n\nAll options as a dict."},
    METHOD("connect", sim_connect,
           "connect($self, node, medium, kind, name, options, /)\n--\n\n"
           "Makes a node a member by a new interface. The interface's id."),
    METHOD("disconnect", sim_disconnect,
           "disconnect($self, node, medium, /)\n--\n\n"
           "Takes the interface away."),
    METHOD("reconnect", sim_reconnect,
           "reconnect($self, node, medium, options, /)\n--\n\n"
           "Changes the properties of the interface."),
    METHOD("iface_of", sim_iface_of,
           "iface_of($self, node, medium, /)\n--\n\n"
           "The id of the member's interface, 0 when it is none."),
    METHOD("cut", sim_cut,
           "cut($self, medium, sender, hearer, cut, /)\n--\n\n"
           "Cuts what one member sends off from another; 0 means all."),
    {"medium_stats", sim_medium_stats, METH_O,
     "medium_stats($self, medium, /)\n--\n\nIts figures as a dict."},
    {"node_stats", sim_node_stats, METH_O,
     "node_stats($self, node, /)\n--\n\nIts figures as a dict."},
    {"stats", sim_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nThe simulation's figures as a dict."},
    {NULL, NULL, 0, NULL}};
