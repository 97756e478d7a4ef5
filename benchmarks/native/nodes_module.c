/* The type netmesh._bench.Node: a native node for rows between two processes.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "nodes_module.h"

#include "nodes.h"

#include <stdlib.h>
#include <string.h>

typedef struct node_object {
  PyObject_HEAD
  nb_node *node;
} node_object;

static PyObject *fail(const char *what, int status) {
  return PyErr_Format(PyExc_RuntimeError, "%s: %s (%s)", what,
                      nm_status_name(status), nm_status_text(status));
}

static PyObject *none_or_fail(const char *what, int status) {
  if (status != NM_OK) {
    return fail(what, status);
  }
  Py_RETURN_NONE;
}

/* The open node, or an exception. */
static nb_node *node_of(PyObject *self) {
  node_object *o = (node_object *)self;
  if (o->node == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the node is closed");
  }
  return o->node;
}

static nb_kind kind_named(const char *name) {
  nb_kind kind = 0;
  while (kind < NB_KIND_COUNT && strcmp(nb_kind_name(kind), name) != 0) {
    kind++;
  }
  return kind;
}

static PyObject *node_new(PyTypeObject *type, PyObject *args,
                          PyObject *keywords) {
  int server;
  unsigned short port;
  const char *name;
  if (keywords != NULL && PyDict_GET_SIZE(keywords) > 0) {
    return PyErr_Format(PyExc_TypeError, "Node takes no keyword arguments");
  }
  if (!PyArg_ParseTuple(args, "pHs:Node", &server, &port, &name)) {
    return NULL;
  }
  nb_kind kind = kind_named(name);
  if (kind == NB_KIND_COUNT) {
    return PyErr_Format(PyExc_LookupError, "there is no kind '%s'", name);
  }
  node_object *o = (node_object *)type->tp_alloc(type, 0);
  if (o == NULL) {
    return NULL;
  }
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nb_node_open(server, port, kind, &o->node);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    Py_DECREF(o);
    return fail("open", status);
  }
  return (PyObject *)o;
}

static void close_node(node_object *o) {
  nb_node *node = o->node;
  o->node = NULL;
  Py_BEGIN_ALLOW_THREADS;
  nb_node_close(node);
  Py_END_ALLOW_THREADS;
}

static void node_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  close_node((node_object *)self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\nEnds it; quiet when repeated.");

static PyObject *node_close(PyObject *self, PyObject *Py_UNUSED(ignored)) {
  close_node((node_object *)self);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(listen_doc,
             "listen($self, name, private_key, /)\n--\n\n"
             "Listens on a destination of the identity; returns its hash.");

static PyObject *node_listen(PyObject *self, PyObject *args) {
  const char *name;
  Py_buffer key;
  nm_destination_hash hash;
  nb_node *node = node_of(self);
  if (node == NULL || !PyArg_ParseTuple(args, "sy*:listen", &name, &key)) {
    return NULL;
  }
  int status = NM_E(LENGTH);
  if (key.len == NM_PRIVATE_SIZE) {
    status = nb_node_listen(node, name, key.buf, &hash);
  }
  PyBuffer_Release(&key);
  return status != NM_OK
             ? fail("listen", status)
             : PyBytes_FromStringAndSize((const char *)hash.b, NM_ADDRESS_SIZE);
}

PyDoc_STRVAR(serve_doc, "serve($self, /)\n--\n\n"
                        "Lets a thread of its own answer from now on.");

static PyObject *node_serve(PyObject *self, PyObject *Py_UNUSED(ignored)) {
  nb_node *node = node_of(self);
  return node == NULL ? NULL : none_or_fail("serve", nb_node_serve(node));
}

PyDoc_STRVAR(announce_doc, "announce($self, /)\n--\n\n"
                           "Announces what was listened on last.");

static PyObject *node_announce(PyObject *self, PyObject *Py_UNUSED(ignored)) {
  nb_node *node = node_of(self);
  return node == NULL ? NULL : none_or_fail("announce", nb_node_announce(node));
}

PyDoc_STRVAR(meet_doc,
             "meet($self, destination, timeout_ms, /)\n--\n\n"
             "Waits for an announce. RuntimeError when none comes in time.");

static PyObject *node_meet(PyObject *self, PyObject *args) {
  Py_buffer given;
  int timeout_ms;
  nm_destination_hash hash;
  nb_node *node = node_of(self);
  if (node == NULL ||
      !PyArg_ParseTuple(args, "y*i:meet", &given, &timeout_ms)) {
    return NULL;
  }
  int status = NM_E(LENGTH);
  if (given.len == NM_ADDRESS_SIZE) {
    memcpy(hash.b, given.buf, NM_ADDRESS_SIZE);
    Py_BEGIN_ALLOW_THREADS;
    status = nb_node_meet(node, &hash, timeout_ms);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&given);
  return none_or_fail("meet", status);
}

static PyObject *arrival_of(const nb_arrival *a) {
  unsigned long long at = a->at_ns;
  if (a->block == NULL) {
    return Py_BuildValue("(KO)", at, Py_None);
  }
  return Py_BuildValue("(Ky#)", at, a->payload.ptr, (Py_ssize_t)a->payload.len);
}

PyDoc_STRVAR(take_doc, "take($self, /)\n--\n\n"
                       "What arrived since the last time: (monotonic ns, "
                       "payload or None) of each.");

static PyObject *node_take(PyObject *self, PyObject *Py_UNUSED(ignored)) {
  nb_arrival *arrivals;
  size_t count;
  nb_node *node = node_of(self);
  if (node == NULL) {
    return NULL;
  }
  int status = nb_node_take(node, &arrivals, &count);
  PyObject *list = status == NM_OK ? PyList_New(0) : fail("arrivals", status);
  for (size_t i = 0; i < count && list != NULL; i++) {
    PyObject *item = arrival_of(&arrivals[i]);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  nb_arrivals_free(arrivals, count);
  return list;
}

static PyObject *list_of(const uint64_t *values, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; i < count && list != NULL; i++) {
    PyObject *value = PyLong_FromUnsignedLongLong(values[i]);
    if (value == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, value);
    }
  }
  return list;
}

/* Runs with arguments that are valid. */
static PyObject *run(nb_node *node, nb_run *r) {
  size_t room = (r->count > 0 ? (size_t)r->count : 1) * sizeof(uint64_t);
  r->samples_ns = malloc(room);
  r->starts_ns = malloc(room);
  int status = NM_E(MEMORY);
  if (r->samples_ns != NULL && r->starts_ns != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    status = nb_node_run(node, r);
    Py_END_ALLOW_THREADS;
  }
  PyObject *made =
      status != NM_OK
          ? fail("run", status)
          : Py_BuildValue("(NNns)", list_of(r->samples_ns, r->taken),
                          list_of(r->starts_ns, r->taken),
                          (Py_ssize_t)r->failed,
                          r->failed > 0 ? nm_status_name(r->error) : NULL);
  free(r->samples_ns);
  free(r->starts_ns);
  return made;
}

PyDoc_STRVAR(run_doc,
             "run($self, destinations, payloads, size, items, first, count, "
             "pace_us, timeout_ms, compress, /)\n--\n\n"
             "Takes samples; returns (samples ns, starts ns, failed, name of "
             "the first error or None).");

static PyObject *node_run(PyObject *self, PyObject *args) {
  Py_buffer hashes;
  Py_buffer payloads;
  Py_ssize_t size;
  Py_ssize_t items;
  unsigned long long first;
  unsigned long long count;
  unsigned long long pace_us;
  unsigned int timeout_ms;
  int compress;
  nb_node *node = node_of(self);
  if (node == NULL ||
      !PyArg_ParseTuple(args, "y*y*nnKKKIp:run", &hashes, &payloads, &size,
                        &items, &first, &count, &pace_us, &timeout_ms,
                        &compress)) {
    return NULL;
  }
  PyObject *made = NULL;
  if (hashes.len < NM_ADDRESS_SIZE || size < 0 || items < 0 ||
      (items > 0 && payloads.len / items < size) || count > UINT32_MAX) {
    PyErr_SetString(PyExc_ValueError, "sizes do not fit each other");
  } else {
    nb_run r = {
        .hashes = hashes.buf,
        .hash_count = (size_t)hashes.len / NM_ADDRESS_SIZE,
        .payloads = nm_span_of(payloads.buf, (size_t)payloads.len),
        .size = (size_t)size,
        .items = (size_t)items,
        .first = first,
        .count = count,
        .pace_us = pace_us,
        .timeout_ms = timeout_ms,
        .compress = compress,
    };
    made = run(node, &r);
  }
  PyBuffer_Release(&hashes);
  PyBuffer_Release(&payloads);
  return made;
}

static PyMethodDef node_methods[] = {
    {"close", node_close, METH_NOARGS, close_doc},
    {"listen", node_listen, METH_VARARGS, listen_doc},
    {"serve", node_serve, METH_NOARGS, serve_doc},
    {"announce", node_announce, METH_NOARGS, announce_doc},
    {"meet", node_meet, METH_VARARGS, meet_doc},
    {"take", node_take, METH_NOARGS, take_doc},
    {"run", node_run, METH_VARARGS, run_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(node_doc,
             "Node(server, port, kind, /)\n--\n\n"
             "One side of a row between two processes, with a loop of its own. "
             "Confined to one thread.");

static PyType_Slot node_slots[] = {
    {Py_tp_doc, (void *)node_doc},
    {Py_tp_new, node_new},
    {Py_tp_dealloc, node_dealloc},
    {Py_tp_methods, node_methods},
    {0, NULL},
};

static PyType_Spec node_spec = {
    .name = "netmesh._bench.Node",
    .basicsize = sizeof(node_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = node_slots,
};

int nb_add_node_type(PyObject *module) {
  PyObject *type = PyType_FromModuleAndSpec(module, &node_spec, NULL);
  if (type == NULL) {
    return -1;
  }
  int status = PyModule_AddType(module, (PyTypeObject *)type);
  Py_DECREF(type);
  return status;
}
