/* WindowProfile: the receiver's window of one resource as a value (RNS 2,
 * 3.8).
 */
#include "py/args.h"
#include "py/value.h"
#include "wire/resource_window.h"

enum {
  WINDOW,
  WINDOW_MIN,
  WINDOW_MAX,
  FAST_ROUNDS,
  VERY_SLOW_ROUNDS,
  PROFILE_FIELDS
};

static PyMemberDef profile_members[] = {
    NM_PY_FIELD("window", WINDOW, "Parts to request at once."),
    NM_PY_FIELD("window_min", WINDOW_MIN, "Below it the window does not go."),
    NM_PY_FIELD("window_max", WINDOW_MAX, "Above it the window does not go."),
    NM_PY_FIELD("fast_rounds", FAST_ROUNDS,
                "Rounds above 6250 bytes a second, up to 4."),
    NM_PY_FIELD("very_slow_rounds", VERY_SLOW_ROUNDS,
                "Rounds below 250 bytes a second, up to 2."),
    {NULL, 0, 0, 0, NULL}};

static PyObject *profile_of(PyTypeObject *type, const nm_resource_profile *p) {
  PyObject *fields[PROFILE_FIELDS] = {
      PyLong_FromUnsignedLong(p->window),
      PyLong_FromUnsignedLong(p->window_min),
      PyLong_FromUnsignedLong(p->window_max),
      PyLong_FromUnsignedLong(p->fast_rounds),
      PyLong_FromUnsignedLong(p->very_slow_rounds)};
  return nm_py_record_new(type, fields);
}

static uint32_t field(PyObject *self, size_t place) {
  return (uint32_t)PyLong_AsUnsignedLong(nm_py_record_get(self, place));
}

static nm_resource_profile profile_view(PyObject *self) {
  nm_resource_profile p = {.window = field(self, WINDOW),
                           .window_min = field(self, WINDOW_MIN),
                           .window_max = field(self, WINDOW_MAX),
                           .fast_rounds = field(self, FAST_ROUNDS),
                           .very_slow_rounds = field(self, VERY_SLOW_ROUNDS)};
  return p;
}

static PyObject *profile_construct(PyObject *callable, PyObject *const *args,
                                   size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "WindowProfile",
      .count = PROFILE_FIELDS,
      .names = {NM_STR_window, NM_STR_window_min, NM_STR_window_max,
                NM_STR_fast_rounds, NM_STR_very_slow_rounds}};
  PyTypeObject *type = (PyTypeObject *)callable;
  PyObject *in[PROFILE_FIELDS];
  if (nm_py_parse(nm_py_state_of_type(type), &signature, args, nargsf, kwnames,
                  in) < 0) {
    return NULL;
  }
  nm_resource_profile p = nm_resource_profile_start(0);
  uint32_t *const places[PROFILE_FIELDS] = {&p.window, &p.window_min,
                                            &p.window_max, &p.fast_rounds,
                                            &p.very_slow_rounds};
  for (size_t i = 0; i < PROFILE_FIELDS; i++) {
    long long value;
    if (in[i] == NULL) {
      continue;
    }
    if (nm_py_int(in[i], "WindowProfile", profile_members[i].name,
                  i < FAST_ROUNDS ? 1 : 0, UINT32_MAX, &value) < 0) {
      return NULL;
    }
    *places[i] = (uint32_t)value;
  }
  return profile_of(type, &p);
}

PyDoc_STRVAR(first_part_doc,
             "first_part($self, req_resp_rate, /)\n--\n\n"
             "After the first part that follows a request: bytes of request "
             "and part, a second.");

static PyObject *first_part(PyObject *self, PyObject *arg) {
  double rate;
  if (nm_py_real(arg, "WindowProfile.first_part", "req_resp_rate", &rate) < 0) {
    return NULL;
  }
  nm_resource_profile p =
      nm_resource_profile_first_part(profile_view(self), rate);
  return profile_of(Py_TYPE(self), &p);
}

PyDoc_STRVAR(round_complete_doc,
             "round_complete($self, data_rate, /)\n--\n\n"
             "When all requested parts are in and more are missing: bytes a "
             "second since the\nrequest.");

static PyObject *round_complete(PyObject *self, PyObject *arg) {
  double rate;
  if (nm_py_real(arg, "WindowProfile.round_complete", "data_rate", &rate) < 0) {
    return NULL;
  }
  nm_resource_profile p = nm_resource_profile_round(profile_view(self), rate);
  return profile_of(Py_TYPE(self), &p);
}

PyDoc_STRVAR(timed_out_doc, "timed_out($self, /)\n--\n\n"
                            "After a time-out with retries left.");

static PyObject *timed_out(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_resource_profile p = nm_resource_profile_timeout(profile_view(self));
  return profile_of(Py_TYPE(self), &p);
}

static PyMethodDef profile_methods[] = {
    {"first_part", first_part, METH_O, first_part_doc},
    {"round_complete", round_complete, METH_O, round_complete_doc},
    {"timed_out", timed_out, METH_NOARGS, timed_out_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    profile_doc,
    "WindowProfile(*, window=4, window_min=2, window_max=10, fast_rounds=0,\n"
    "              very_slow_rounds=0)\n--\n\n"
    "How many parts a receiver requests at once; each step returns the next "
    "profile.\n\n"
    "A later resource on the same link starts with the window of the last one. "
    "Immutable;\nmay be used from any thread.\n\n"
    ">>> profile = WindowProfile()\n"
    ">>> for _ in range(4):\n"
    "...     profile = profile.round_complete(9000.0)\n"
    ">>> profile.window, profile.window_max\n"
    "(8, 75)\n"
    ">>> profile.timed_out().window\n"
    "7\n");

static PyType_Slot profile_slots[] = {{Py_tp_doc, (void *)profile_doc},
                                      {Py_tp_new, (void *)nm_py_new},
                                      {Py_tp_members, profile_members},
                                      {Py_tp_methods, profile_methods},
                                      NM_PY_RECORD_SLOTS,
                                      {0, NULL}};

static PyType_Spec profile_spec = {
    .name = "netmesh._core.WindowProfile",
    .basicsize = NM_PY_RECORD_SIZE(PROFILE_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = profile_slots,
};

int nm_py_window_profile_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_WindowProfile, &profile_spec,
                        NULL, profile_construct);
}
