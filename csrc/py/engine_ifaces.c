/* Methods of EngineCore: interfaces. */
#include "py/engine.h"
#include "py/iface_spec.h"

#include <string.h>

static PyObject *engine_iface_add(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  nm_span text[2];
  nm_iface_spec spec;
  if (!nm_py_arity("iface_add", nargs, 3, 3) ||
      nm_py_text(args[0], "iface_add", "kind", &text[0]) < 0 ||
      nm_py_text(args[1], "iface_add", "name", &text[1]) < 0) {
    return NULL;
  }
  /* Texts of Python end in a zero byte; one in the middle ends them early. */
  const char *kind = (const char *)text[0].ptr;
  const char *name = (const char *)text[1].ptr;
  if (strlen(kind) != text[0].len || strlen(name) != text[1].len ||
      nm_iface_spec_default(&spec, kind, name) != NM_OK) {
    return PyErr_Format(PyExc_ValueError,
                        "iface_add(): unknown kind %R, or a name that is empty "
                        "or longer than %d bytes",
                        args[0], NM_IFACE_NAME_MAX);
  }
  PyObject *result = NULL;
  if (nm_py_iface_spec_apply(state, args[2], "iface_add", &spec) == 0) {
    nm_py_engine *e = nm_py_engine_begin(self);
    if (e != NULL) {
      nm_iface_id id = 0;
      int status = nm_engine_iface_add(e->engine, &spec, &id, e->now);
      result = nm_py_engine_done_id(e, status, "interface", id);
    }
  }
  nm_ifac_wipe(&spec.ifac);
  return result;
}

static PyObject *engine_iface_change(PyObject *self, PyObject *const *args,
                                     Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  nm_iface_id id;
  if (!nm_py_arity("iface_change", nargs, 2, 2) ||
      nm_py_engine_iface(args[0], "iface_change", &id) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  const nm_iface_spec *old = nm_engine_iface(e->engine, id);
  if (old == NULL) {
    return nm_py_engine_done(e, NM_E(MISSING), "interface");
  }
  nm_iface_spec spec = *old;
  PyObject *result = NULL;
  int status = NM_OK;
  if (nm_py_iface_spec_apply(state, args[1], "iface_change", &spec) == 0) {
    status = nm_engine_iface_change(e->engine, id, &spec, e->now);
    result = Py_NewRef(Py_None);
  }
  nm_ifac_wipe(&spec.ifac);
  return nm_py_engine_end(e, status, "interface", result);
}

static PyObject *engine_iface_remove(PyObject *self, PyObject *arg) {
  nm_iface_id id;
  if (nm_py_engine_iface(arg, "iface_remove", &id) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  int status = nm_engine_iface_remove(e->engine, id, e->now);
  return nm_py_engine_done(e, status == NM_E(STATE) ? NM_E(MISSING) : status,
                           "interface");
}

static PyObject *engine_iface_spec(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_iface_id id;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || nm_py_engine_iface(arg, "iface_spec", &id) < 0) {
    return NULL;
  }
  const nm_iface_spec *spec = nm_engine_iface(engine, id);
  return spec == NULL ? nm_py_engine_raise(state, NM_E(MISSING), "interface")
                      : nm_py_iface_spec_dict(state, spec);
}

static PyObject *engine_iface_counters(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_iface_id id;
  nm_engine *engine = nm_py_engine_read(self);
  if (engine == NULL || nm_py_engine_iface(arg, "iface_counters", &id) < 0) {
    return NULL;
  }
  nm_iface_counters counters;
  return nm_engine_iface_counters(engine, id, &counters)
             ? nm_py_iface_counters_dict(state, &counters)
             : nm_py_engine_raise(state, NM_E(MISSING), "interface");
}

static PyObject *engine_ifaces(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_engine *engine = nm_py_engine_read(self);
  PyObject *list = engine == NULL ? NULL : PyList_New(0);
  nm_iface_id id = 0;
  while (list != NULL && (id = nm_engine_iface_next(engine, id)) != 0) {
    PyObject *item = PyLong_FromUnsignedLong(id);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *engine_tunnel(PyObject *self, PyObject *arg) {
  nm_iface_id id;
  if (nm_py_engine_iface(arg, "tunnel", &id) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL
             ? NULL
             : nm_py_engine_done(e, nm_engine_tunnel(e->engine, id, e->now),
                                 "interface");
}

PyMethodDef nm_py_engine_iface_methods[] = {
    NM_PY_ENGINE_METHOD("iface_add", engine_iface_add,
                        "iface_add($self, kind, name, options, /)\n--\n\n"
                        "Adds an interface with the defaults of a kind, "
                        "changed by a dict. Its id."),
    NM_PY_ENGINE_METHOD("iface_change", engine_iface_change,
                        "iface_change($self, iface, options, /)\n--\n\n"
                        "Changes the properties that the dict names."),
    {"iface_remove", engine_iface_remove, METH_O,
     "iface_remove($self, iface, /)\n--\n\nRemoves an interface."},
    {"iface_spec", engine_iface_spec, METH_O,
     "iface_spec($self, iface, /)\n--\n\nIts properties as a dict."},
    {"iface_counters", engine_iface_counters, METH_O,
     "iface_counters($self, iface, /)\n--\n\nIts counters as a dict."},
    {"ifaces", engine_ifaces, METH_NOARGS,
     "ifaces($self, /)\n--\n\nThe ids of all interfaces, oldest first."},
    {"tunnel", engine_tunnel, METH_O,
     "tunnel($self, iface, /)\n--\n\nSynthesizes a tunnel on an interface."},
    {NULL, NULL, 0, NULL}};
