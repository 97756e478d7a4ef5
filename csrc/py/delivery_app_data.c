/* DeliveryAppData: what the announce of a delivery destination says about its
 * owner (LXMF 5.1).
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/value.h"
#include "wire/lxmf_appdata.h"

enum { APP_NAME, APP_COST, APP_COMPRESSION, APP_FUNCTIONALITY, APP_FIELDS };

/* Most functionality codes that an announce could carry. */
#define FUNCTIONS_MAX 512

static PyMemberDef app_members[] = {
    NM_PY_FIELD("display_name", APP_NAME, "Name to show, or None."),
    NM_PY_FIELD("stamp_cost", APP_COST,
                "The cost of a stamp that it asks for, or None."),
    NM_PY_FIELD("compression", APP_COMPRESSION,
                "Can it receive compressed resources? None: unknown."),
    NM_PY_FIELD("functionality", APP_FUNCTIONALITY,
                "Functionality codes, a tuple."),
    {NULL, 0, 0, 0, NULL}};

/* ------------------------------------------------------------ construction */

/* The codes of the sequence |obj| as a tuple of ints. New reference or
 * NULL. */
static PyObject *codes_of(PyObject *obj) {
  const char *function = "DeliveryAppData";
  PyObject *items =
      nm_py_sequence(obj, function, "functionality", "a sequence of ints");
  if (items == NULL) {
    return NULL;
  }
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  bool good = count <= FUNCTIONS_MAX;
  if (!good) {
    PyErr_Format(PyExc_ValueError,
                 "DeliveryAppData() parameter 'functionality' has %zd codes, "
                 "more than %d",
                 count, FUNCTIONS_MAX);
  }
  for (Py_ssize_t i = 0; good && i < count; i++) {
    long long code;
    good = nm_py_int(PyTuple_GET_ITEM(items, i), function, "functionality", 0,
                     LLONG_MAX, &code) == 0;
  }
  if (!good) {
    Py_CLEAR(items);
  }
  return items;
}

static uint64_t code_at(PyObject *codes, Py_ssize_t i) {
  return PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(codes, i));
}

/* Whether the tuple |codes| holds compression. */
static bool compresses(PyObject *codes) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(codes); i++) {
    if (code_at(codes, i) == NM_LXMF_SF_COMPRESSION) {
      return true;
    }
  }
  return false;
}

/* The cost |obj|: None when it is absent or none that is announced. */
static PyObject *cost_of(PyObject *obj) {
  long long cost = 0;
  if (!nm_py_absent(obj) && nm_py_int(obj, "DeliveryAppData", "stamp_cost",
                                      LLONG_MIN, LLONG_MAX, &cost) < 0) {
    return NULL;
  }
  return cost >= NM_LXMF_STAMP_COST_MIN && cost <= NM_LXMF_STAMP_COST_MAX
             ? PyLong_FromLongLong(cost)
             : Py_NewRef(Py_None);
}

static PyObject *app_construct(PyObject *callable, PyObject *const *args,
                               size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "DeliveryAppData",
      .count = 3,
      .names = {NM_STR_display_name, NM_STR_stamp_cost, NM_STR_functionality}};
  PyTypeObject *type = (PyTypeObject *)callable;
  PyObject *in[3];
  nm_span name;
  if (nm_py_parse(nm_py_state_of_type(type), &signature, args, nargsf, kwnames,
                  in) < 0 ||
      (!nm_py_absent(in[0]) &&
       nm_py_text(in[0], "DeliveryAppData", "display_name", &name) < 0)) {
    return NULL;
  }
  PyObject *cost = cost_of(in[1]);
  PyObject *codes = cost == NULL    ? NULL
                    : in[2] != NULL ? codes_of(in[2])
                                    : Py_BuildValue("(i)", 0);
  PyObject *fields[APP_FIELDS] = {
      Py_NewRef(nm_py_absent(in[0]) ? Py_None : in[0]), cost,
      codes != NULL ? PyBool_FromLong(compresses(codes)) : NULL, codes};
  return nm_py_record_new(type, fields);
}

/* ---------------------------------------------------------------- decoding */

/* The name of |app| as text: cleaned in the current form. */
static PyObject *name_of(const nm_lxmf_delivery *app) {
  if (!app->has_name) {
    return Py_NewRef(Py_None);
  }
  if (app->form == NM_LXMF_DELIVERY_LEGACY) {
    return PyUnicode_DecodeUTF8((const char *)app->name.ptr,
                                (Py_ssize_t)app->name.len, "replace");
  }
  uint8_t *room = PyMem_Malloc(app->name.len + 1);
  if (room == NULL) {
    return PyErr_NoMemory();
  }
  nm_writer w = nm_writer_of(room, app->name.len);
  (void)nm_lxmf_name_clean(app->name, &w);
  PyObject *name =
      PyUnicode_DecodeUTF8((const char *)room, (Py_ssize_t)w.pos, "replace");
  PyMem_Free(room);
  return name;
}

/* The integers of the announced list as a tuple; what the form implies when
 * there is no list. */
static PyObject *announced_codes(const nm_lxmf_delivery *app) {
  PyObject *list = PyList_New(0);
  nm_reader r = nm_reader_of(app->functions);
  bool implied =
      app->function_count == 0 && app->compression == NM_LXMF_SUPPORT_YES;
  for (uint32_t i = 0; list != NULL && i < app->function_count + implied; i++) {
    nm_reader head = r;
    nm_mp_item item = {.type = NM_MP_UINT, .uint = NM_LXMF_SF_COMPRESSION};
    if (!implied &&
        (nm_mp_read(&head, &item) < 0 || nm_mp_skip(&r, NULL) < 0)) {
      break;
    }
    PyObject *code = item.type == NM_MP_UINT
                         ? PyLong_FromUnsignedLongLong(item.uint)
                     : item.type == NM_MP_INT ? PyLong_FromLongLong(item.sint)
                                              : Py_NewRef(Py_None);
    if (code == NULL || (code != Py_None && PyList_Append(list, code) < 0)) {
      Py_CLEAR(list);
    }
    Py_XDECREF(code);
  }
  PyObject *codes = list != NULL ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return codes;
}

static PyObject *compression_of(const nm_lxmf_delivery *app) {
  if (app->compression == NM_LXMF_SUPPORT_UNKNOWN) {
    return Py_NewRef(Py_None);
  }
  return PyBool_FromLong(app->compression == NM_LXMF_SUPPORT_YES);
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, app_data, /)\n--\n\n"
             "Reads the app data of an announce, None for none, in every form "
             "that is in use.\n\n"
             "Never raises for what a peer sent: what cannot be read is "
             "unknown.");

static PyObject *app_unpack(PyObject *cls, PyObject *arg) {
  nm_py_buffer buf;
  nm_py_buffer_init(&buf);
  if (arg != Py_None &&
      nm_py_buffer_get(arg, "DeliveryAppData.unpack", "app_data", &buf) < 0) {
    return NULL;
  }
  nm_lxmf_delivery app;
  nm_fault fault;
  /* A fault leaves |app| as "nothing known". */
  (void)nm_lxmf_delivery_decode(buf.span, &app, &fault);
  PyObject *fields[APP_FIELDS] = {
      name_of(&app),
      app.has_cost ? PyLong_FromUnsignedLong(app.cost) : Py_NewRef(Py_None),
      compression_of(&app), announced_codes(&app)};
  PyObject *self = nm_py_record_new((PyTypeObject *)cls, fields);
  nm_py_buffer_release(&buf);
  return self;
}

/* ---------------------------------------------------------------- encoding */

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The app data of the current form.\n\n"
                       "Raises EncodeError (\"RANGE\") for a received negative "
                       "functionality code.");

/* Fills |codes| from the tuple; 0, or -1 with EncodeError. */
static int fill_codes(nm_state *state, PyObject *tuple, uint64_t *codes) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    codes[i] = code_at(tuple, i);
    if (codes[i] == UINT64_MAX && PyErr_Occurred()) {
      PyErr_Clear();
      nm_py_encode_error(state, NM_E(RANGE), "functionality",
                         "DeliveryAppData.pack(): a functionality code is "
                         "negative");
      return -1;
    }
  }
  return 0;
}

static PyObject *encode(nm_state *state, const nm_lxmf_delivery_draft *draft) {
  size_t size = nm_lxmf_delivery_size(draft);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  nm_fault fault = {nm_lxmf_delivery_encode(draft, &w), "display_name", 0};
  if (fault.status < 0) {
    Py_DECREF(packed);
    return nm_py_raise_encode(state, &fault, "lxmf");
  }
  return packed;
}

static PyObject *app_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_state *state = nm_py_state_of(self);
  PyObject *name = nm_py_record_get(self, APP_NAME);
  PyObject *cost = nm_py_record_get(self, APP_COST);
  PyObject *tuple = nm_py_record_get(self, APP_FUNCTIONALITY);
  nm_lxmf_delivery_draft draft = {
      .has_name = name != Py_None,
      .has_cost = cost != Py_None,
      .cost = cost != Py_None ? (uint32_t)PyLong_AsUnsignedLong(cost) : 0,
      .function_count = (uint32_t)PyTuple_GET_SIZE(tuple)};
  if (draft.has_name &&
      nm_py_text(name, "DeliveryAppData", "display_name", &draft.name) < 0) {
    return NULL;
  }
  uint64_t *codes = PyMem_New(uint64_t, (size_t)draft.function_count + 1);
  if (codes == NULL) {
    return PyErr_NoMemory();
  }
  draft.functions = codes;
  PyObject *packed =
      fill_codes(state, tuple, codes) == 0 ? encode(state, &draft) : NULL;
  PyMem_Free(codes);
  return packed;
}

/* ------------------------------------------------------------------- class */

static PyMethodDef app_methods[] = {
    {"unpack", app_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", app_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    app_doc,
    "DeliveryAppData(*, display_name=None, stamp_cost=None, "
    "functionality=(0,))\n--\n\n"
    "What the announce of a delivery destination says.\n\n"
    "A stamp_cost outside 1 to 254 becomes None, as on the network. "
    "functionality holds\ncodes; 0 is the only one defined: receives "
    "compressed resources. Immutable; may be\nused from any thread.\n\n"
    ">>> DeliveryAppData(display_name='Alice', stamp_cost=8).pack().hex()\n"
    "'93c405416c696365089100'\n"
    ">>> DeliveryAppData.unpack(b'Old Name').display_name\n"
    "'Old Name'\n"
    ">>> DeliveryAppData.unpack(None).compression is None\n"
    "True\n");

static PyType_Slot app_slots[] = {
    {Py_tp_doc, (void *)app_doc}, {Py_tp_new, (void *)nm_py_new},
    {Py_tp_members, app_members}, {Py_tp_methods, app_methods},
    NM_PY_RECORD_SLOTS,           {0, NULL}};

static PyType_Spec app_spec = {
    .name = "netmesh._core.DeliveryAppData",
    .basicsize = NM_PY_RECORD_SIZE(APP_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = app_slots,
};

int nm_py_delivery_app_data_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_DeliveryAppData, &app_spec, NULL,
                        app_construct);
}
