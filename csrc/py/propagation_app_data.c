/* PropagationAppData: what the announce of a propagation node says about it
 * (LXMF 5.2). The object is the announced bytes and a view of them.
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/msgpack.h"
#include "py/value.h"
#include "wire/lxmf_appdata.h"

#include <math.h>

typedef struct node_data {
  PyObject_HEAD
  PyObject *source;  /* bytes; what view borrows from; owned */
  bool limits_float; /* one of the limits came as a float */
  nm_lxmf_node view;
} node_data;

static node_data *node_of(PyObject *self) {
  return (node_data *)self;
}

static void node_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(node_of(self)->source);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Whether one of the limits of the valid app data |in| is a float. */
static bool has_float_limit(nm_span in) {
  nm_reader r = nm_reader_of(in);
  nm_mp_item item;
  (void)nm_mp_read(&r, &item);
  for (int i = 0; i < 3; i++) {
    (void)nm_mp_skip(&r, NULL);
  }
  for (int i = 0; i < 2; i++) {
    nm_reader head = r;
    if (nm_mp_read(&head, &item) == NM_OK && item.type == NM_MP_FLOAT) {
      return true;
    }
    (void)nm_mp_skip(&r, NULL);
  }
  return false;
}

/* An object over |source|, which is taken over in every case. */
static PyObject *node_from(PyTypeObject *type, PyObject *source) {
  PyObject *self = source != NULL ? type->tp_alloc(type, 0) : NULL;
  if (self == NULL) {
    Py_XDECREF(source);
    return NULL;
  }
  node_data *n = node_of(self);
  n->source = source;
  nm_fault fault;
  if (nm_lxmf_node_decode(nm_py_bytes_span(source), &n->view, &fault) < 0) {
    nm_py_raise(nm_py_state_of_type(type), &fault, "lxmf");
    Py_DECREF(self);
    return NULL;
  }
  n->limits_float = has_float_limit(nm_py_bytes_span(source));
  return self;
}

/* ---------------------------------------------------------------- encoding */

/* The app data that |draft| makes, as a bytes object. */
static PyObject *encode(nm_state *state, const nm_lxmf_node_draft *draft) {
  size_t size = nm_lxmf_node_size(draft);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  nm_fault fault = {nm_lxmf_node_encode(draft, &w), "node", 0};
  if (fault.status < 0) {
    Py_DECREF(packed);
    return nm_py_raise_encode(state, &fault, "lxmf");
  }
  return packed;
}

/* A cost for the wire; sets EncodeError when a received one does not fit. */
static bool cost_fits(nm_state *state, int64_t cost, const char *name,
                      uint32_t *out) {
  if (cost < 0 || cost > UINT32_MAX) {
    nm_py_encode_error(state, NM_E(RANGE), name,
                       "PropagationAppData.pack(): field '%s' is %lld", name,
                       (long long)cost);
    return false;
  }
  *out = (uint32_t)cost;
  return true;
}

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The app data as this version sends it.\n\n"
                       "Raises EncodeError (\"RANGE\") for a received negative "
                       "cost.");

static PyObject *node_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_state *state = nm_py_state_of(self);
  const nm_lxmf_node *view = &node_of(self)->view;
  nm_lxmf_node_draft draft = {.timebase = view->timebase,
                              .active = view->active,
                              .transfer_limit_kb = view->transfer_limit_kb,
                              .sync_limit_kb = view->sync_limit_kb,
                              .limits_float = node_of(self)->limits_float,
                              .metadata = view->metadata};
  if (!cost_fits(state, view->stamp_cost, "stamp_cost", &draft.stamp_cost) ||
      !cost_fits(state, view->flexibility, "flexibility", &draft.flexibility) ||
      !cost_fits(state, view->peering_cost, "peering_cost",
                 &draft.peering_cost)) {
    return NULL;
  }
  return encode(state, &draft);
}

/* ------------------------------------------------------------ construction */

enum {
  ARG_TIME,
  ARG_ACTIVE,
  ARG_TRANSFER,
  ARG_SYNC,
  ARG_COST,
  ARG_FLEXIBILITY,
  ARG_PEERING,
  ARG_NAME,
  ARG_VERSION,
  ARG_IMPLEMENTATION,
  ARG_METADATA,
  ARG_COUNT
};

/* The numbers of the announce. 0, or -1 with an exception. */
static int parse_numbers(PyObject *const *in, nm_lxmf_node_draft *draft) {
  const char *function = "PropagationAppData";
  long long time;
  long long costs[3];
  static const char *const names[3] = {"stamp_cost", "flexibility",
                                       "peering_cost"};
  if (nm_py_int(in[ARG_TIME], function, "time", LLONG_MIN, LLONG_MAX, &time) <
          0 ||
      nm_py_bool(in[ARG_ACTIVE], function, "active", &draft->active) < 0 ||
      nm_py_real(in[ARG_TRANSFER], function, "transfer_limit_kb",
                 &draft->transfer_limit_kb) < 0 ||
      nm_py_real(in[ARG_SYNC], function, "sync_limit_kb",
                 &draft->sync_limit_kb) < 0) {
    return -1;
  }
  for (size_t i = 0; i < 3; i++) {
    if (nm_py_int(in[ARG_COST + i], function, names[i], 0, UINT32_MAX,
                  &costs[i]) < 0) {
      return -1;
    }
  }
  draft->timebase = time;
  draft->stamp_cost = (uint32_t)costs[0];
  draft->flexibility = (uint32_t)costs[1];
  draft->peering_cost = (uint32_t)costs[2];
  draft->limits_float =
      PyFloat_Check(in[ARG_TRANSFER]) || PyFloat_Check(in[ARG_SYNC]);
  return 0;
}

/* The three well-known entries of the metadata, borrowed. */
static int parse_texts(PyObject *const *in, nm_lxmf_node_draft *draft) {
  static const char *const names[3] = {"name", "version", "implementation"};
  nm_span *const places[3] = {&draft->name, &draft->version,
                              &draft->implementation};
  for (size_t i = 0; i < 3; i++) {
    PyObject *text = in[ARG_NAME + i];
    if (nm_py_absent(text)) {
      continue;
    }
    if (!nm_py_absent(in[ARG_METADATA])) {
      PyErr_Format(PyExc_ValueError,
                   "PropagationAppData() takes 'metadata' or '%s', not both",
                   names[i]);
      return -1;
    }
    if (nm_py_text(text, "PropagationAppData", names[i], places[i]) < 0) {
      return -1;
    }
  }
  return 0;
}

/* The encoding of the mapping |obj|, a new bytes object or NULL. */
static PyObject *pack_mapping(nm_state *state, PyObject *obj) {
  PyObject *dict = nm_py_mapping(obj, "PropagationAppData", "metadata");
  PyObject *packed = dict != NULL ? nm_py_msgpack_bytes(state, dict) : NULL;
  Py_XDECREF(dict);
  return packed;
}

static PyObject *node_construct(PyObject *callable, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "PropagationAppData",
      .count = ARG_COUNT,
      .required = 7,
      .names = {NM_STR_time, NM_STR_active, NM_STR_transfer_limit_kb,
                NM_STR_sync_limit_kb, NM_STR_stamp_cost, NM_STR_flexibility,
                NM_STR_peering_cost, NM_STR_name, NM_STR_version,
                NM_STR_implementation, NM_STR_metadata}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[ARG_COUNT];
  nm_lxmf_node_draft draft = {.active = false};
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      parse_numbers(in, &draft) < 0 || parse_texts(in, &draft) < 0) {
    return NULL;
  }
  PyObject *metadata = NULL;
  if (!nm_py_absent(in[ARG_METADATA])) {
    metadata = pack_mapping(state, in[ARG_METADATA]);
    if (metadata == NULL) {
      return NULL;
    }
    draft.metadata = nm_py_bytes_span(metadata);
  }
  PyObject *self = node_from(type, encode(state, &draft));
  Py_XDECREF(metadata);
  return self;
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, app_data, /)\n--\n\n"
             "Reads and validates the app data of a node's announce.\n\n"
             "Raises DecodeError when it is not valid by LXMF 5.2; such an "
             "announce is to be\nignored.");

static PyObject *node_unpack(PyObject *cls, PyObject *arg) {
  return node_from(
      (PyTypeObject *)cls,
      nm_py_bytes_of(arg, "PropagationAppData.unpack", "app_data"));
}

/* ----------------------------------------------------------------- reading */

static PyObject *get_time(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(node_of(self)->view.timebase);
}

static PyObject *get_active(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(node_of(self)->view.active);
}

/* A limit with the type it has on the wire. */
static PyObject *limit_of(const node_data *n, double limit) {
  return n->limits_float ? PyFloat_FromDouble(limit) : PyLong_FromDouble(limit);
}

static PyObject *get_transfer_limit(PyObject *self, void *Py_UNUSED(closure)) {
  return limit_of(node_of(self), node_of(self)->view.transfer_limit_kb);
}

static PyObject *get_sync_limit(PyObject *self, void *Py_UNUSED(closure)) {
  return limit_of(node_of(self), node_of(self)->view.sync_limit_kb);
}

static PyObject *get_stamp_cost(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(node_of(self)->view.stamp_cost);
}

static PyObject *get_flexibility(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(node_of(self)->view.flexibility);
}

static PyObject *get_peering_cost(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(node_of(self)->view.peering_cost);
}

static PyObject *text_or_none(bool there, nm_span text) {
  return there ? PyUnicode_DecodeUTF8((const char *)text.ptr,
                                      (Py_ssize_t)text.len, "replace")
               : Py_NewRef(Py_None);
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_lxmf_node *view = &node_of(self)->view;
  return text_or_none(view->has_name, view->name);
}

static PyObject *get_version(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_lxmf_node *view = &node_of(self)->view;
  return text_or_none(view->has_version, view->version);
}

static PyObject *get_implementation(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_lxmf_node *view = &node_of(self)->view;
  return text_or_none(view->has_implementation, view->implementation);
}

static PyObject *get_metadata(PyObject *self, void *Py_UNUSED(closure)) {
  nm_reader r = nm_reader_of(node_of(self)->view.metadata);
  return nm_py_msgpack_unpack(nm_py_state_of(self), &r, NULL, "lxmf",
                              "node.metadata");
}

/* ------------------------------------------------------------------- class */

static PyObject *node_repr(PyObject *self) {
  PyObject *name = get_name(self, NULL);
  const nm_lxmf_node *view = &node_of(self)->view;
  PyObject *text =
      name != NULL
          ? PyUnicode_FromFormat(
                "<PropagationAppData name=%R active=%s stamp_cost=%lld>", name,
                view->active ? "True" : "False", (long long)view->stamp_cost)
          : NULL;
  Py_XDECREF(name);
  return text;
}

static bool nodes_equal(const node_data *a, const node_data *b) {
  const nm_lxmf_node *x = &a->view;
  const nm_lxmf_node *y = &b->view;
  return x->timebase == y->timebase && x->active == y->active &&
         fabs(x->transfer_limit_kb - y->transfer_limit_kb) <= 0 &&
         fabs(x->sync_limit_kb - y->sync_limit_kb) <= 0 &&
         x->stamp_cost == y->stamp_cost && x->flexibility == y->flexibility &&
         x->peering_cost == y->peering_cost &&
         nm_span_equal(x->metadata, y->metadata);
}

static PyObject *node_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBool_FromLong(nodes_equal(node_of(self), node_of(other)) ==
                         (op == Py_EQ));
}

static Py_hash_t node_hash(PyObject *self) {
  const nm_lxmf_node *view = &node_of(self)->view;
  Py_hash_t hash = nm_py_hash_bytes(view->metadata) ^
                   (Py_hash_t)((uint64_t)view->timebase * 31);
  return hash == -1 ? -2 : hash;
}

static PyGetSetDef node_getters[] = {
    {"time", get_time, NULL, "The node's clock, Unix seconds.", NULL},
    {"active", get_active, NULL, "Does the node take messages from all?", NULL},
    {"transfer_limit_kb", get_transfer_limit, NULL,
     "Largest message, in units of 1000 bytes; int or float as sent.", NULL},
    {"sync_limit_kb", get_sync_limit, NULL,
     "Largest sync, in units of 1000 bytes; int or float as sent.", NULL},
    {"stamp_cost", get_stamp_cost, NULL, "Cost of a propagation stamp.", NULL},
    {"flexibility", get_flexibility, NULL,
     "By how much a stamp may fall short of the cost.", NULL},
    {"peering_cost", get_peering_cost, NULL, "Cost of a peering key.", NULL},
    {"name", get_name, NULL, "Name of the node, or None.", NULL},
    {"version", get_version, NULL, "Version of its software, or None.", NULL},
    {"implementation", get_implementation, NULL,
     "Name of its software, or None.", NULL},
    {"metadata", get_metadata, NULL, "The whole metadata, a fresh dict.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef node_methods[] = {
    {"unpack", node_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", node_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    node_doc,
    "PropagationAppData(*, time, active, transfer_limit_kb, sync_limit_kb,\n"
    "                   stamp_cost, flexibility, peering_cost, name=None,\n"
    "                   version=None, implementation=None, metadata=None)\n"
    "--\n\n"
    "What the announce of a propagation node says.\n\n"
    "Limits are in units of 1000 bytes: as integers when both are ints, else "
    "as floats. name,\nversion and implementation are written as metadata; "
    "metadata gives the whole map\ninstead. Immutable; may be used from any "
    "thread.\n\n"
    ">>> node = PropagationAppData(time=1700000000, active=True, "
    "transfer_limit_kb=256,\n"
    "...     sync_limit_kb=10240, stamp_cost=16, flexibility=3, "
    "peering_cost=18, name='N')\n"
    ">>> PropagationAppData.unpack(node.pack()) == node, node.metadata\n"
    "(True, {1: b'N'})\n");

static PyType_Slot node_slots[] = {{Py_tp_doc, (void *)node_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_dealloc, (void *)node_dealloc},
                                   {Py_tp_repr, (void *)node_repr},
                                   {Py_tp_richcompare, (void *)node_compare},
                                   {Py_tp_hash, (void *)node_hash},
                                   {Py_tp_getset, node_getters},
                                   {Py_tp_methods, node_methods},
                                   {0, NULL}};

static PyType_Spec node_spec = {
    .name = "netmesh._core.PropagationAppData",
    .basicsize = sizeof(node_data),
    .flags = NM_PY_FLAGS,
    .slots = node_slots,
};

int nm_py_propagation_app_data_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_PropagationAppData, &node_spec,
                        NULL, node_construct);
}
