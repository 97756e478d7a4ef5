/* netmesh.msgpack: Python objects to MessagePack and back. */
#include "py/msgpack.h"

#include "py/args.h"
#include "py/buffers.h"
#include "py/errors.h"
#include "py/value.h"

enum { EXT_TYPE, EXT_DATA, EXT_FIELDS };

/* Bytes of the longest header: type, 8 bytes of length or number, ext type. */
#define HEADER_MAX 10

/* -------------------------------------------------------------- packing */

typedef struct packer {
  nm_state *state;
  nm_buffer *out;
  uint32_t depth_max;
} packer;

static int pack_value(packer *p, PyObject *value, uint32_t depth);

/* Begins an item of at most |size| bytes. */
static int item_begin(packer *p, nm_writer *w, size_t size) {
  if (nm_buffer_reserve(p->out, size) != NM_OK) {
    PyErr_NoMemory();
    return -1;
  }
  *w = nm_writer_of(p->out->ptr + p->out->len, size);
  return 0;
}

static int item_end(packer *p, const nm_writer *w) {
  p->out->len += w->pos;
  return 0;
}

static int pack_int(packer *p, PyObject *value) {
  nm_writer w;
  int overflow = 0;
  long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (number == -1 && overflow == 0 && PyErr_Occurred()) {
    return -1;
  }
  if (item_begin(p, &w, HEADER_MAX) < 0) {
    return -1;
  }
  if (overflow == 0) {
    nm_mp_int(&w, number);
    return item_end(p, &w);
  }
  unsigned long long large = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    nm_py_encode_error(p->state, NM_E(RANGE), "value",
                       "msgpack: an int must be in -2**63..2**64-1");
    return -1;
  }
  nm_mp_uint(&w, large);
  return item_end(p, &w);
}

static int pack_str(packer *p, PyObject *value) {
  Py_ssize_t len = 0;
  const char *text = PyUnicode_AsUTF8AndSize(value, &len);
  nm_writer w;
  if (text == NULL || item_begin(p, &w, HEADER_MAX + (size_t)len) < 0) {
    return -1;
  }
  nm_mp_str(&w, nm_span_of(text, (size_t)len));
  return item_end(p, &w);
}

static int too_long(packer *p) {
  nm_py_encode_error(p->state, NM_E(LENGTH), "value",
                     "msgpack: a length must be below 2**32");
  return -1;
}

static int pack_bytes(packer *p, PyObject *value, const int *ext_type) {
  nm_py_buffer buf;
  nm_writer w;
  int result = -1;
  if (nm_py_buffer_get(value, "packb", "value", &buf) < 0) {
    return -1;
  }
  if (buf.span.len > UINT32_MAX) {
    result = too_long(p);
  } else if (item_begin(p, &w, HEADER_MAX + buf.span.len) == 0) {
    if (ext_type != NULL) {
      nm_mp_ext(&w, (int8_t)*ext_type, buf.span);
    } else {
      nm_mp_bin(&w, buf.span);
    }
    result = item_end(p, &w);
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* The header of a container; refuses to go deeper than allowed. */
static int pack_header(packer *p, Py_ssize_t count, bool map, uint32_t depth) {
  nm_writer w;
  if (depth >= p->depth_max) {
    nm_py_encode_error(p->state, NM_E(DEPTH), "value",
                       "msgpack: the value nests deeper than %u",
                       (unsigned)p->depth_max);
    return -1;
  }
  if ((size_t)count > UINT32_MAX) {
    return too_long(p);
  }
  if (item_begin(p, &w, HEADER_MAX) < 0) {
    return -1;
  }
  if (map) {
    nm_mp_map(&w, (uint32_t)count);
  } else {
    nm_mp_array(&w, (uint32_t)count);
  }
  return item_end(p, &w);
}

/* Buffers may run Python code when they are asked for their content, and that
 * code may change the container. */
static int changed(void) {
  PyErr_SetString(PyExc_RuntimeError,
                  "packb() parameter 'value' changed while it was packed");
  return -1;
}

static int pack_array(packer *p, PyObject *value, uint32_t depth) {
  Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  if (pack_header(p, count, false, depth) < 0) {
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    if (PySequence_Fast_GET_SIZE(value) != count) {
      return changed();
    }
    PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(value, i));
    int result = pack_value(p, item, depth + 1);
    Py_DECREF(item);
    if (result < 0) {
      return -1;
    }
  }
  return 0;
}

static bool is_array(PyObject *value) {
  return PyList_Check(value) || PyTuple_Check(value);
}

/* Bounds the keys that dicts hash without a secret. */
static int check_key(packer *p, PyObject *key, unsigned *arrays,
                     unsigned *numbers) {
  bool array = is_array(key);
  bool number = PyLong_Check(key) || PyFloat_Check(key);
  *arrays += array;
  *numbers += number;
  if (*arrays <= NM_MP_ARRAY_KEYS_MAX && *numbers <= NM_MP_NUMBER_KEYS_MAX) {
    return 0;
  }
  nm_py_encode_error(p->state, NM_E(LIMIT), "value",
                     "msgpack: more than %d keys of a dict are %s",
                     array ? NM_MP_ARRAY_KEYS_MAX : NM_MP_NUMBER_KEYS_MAX,
                     array ? "tuples" : "numbers");
  return -1;
}

static int pack_map(packer *p, PyObject *value, uint32_t depth) {
  Py_ssize_t count = PyDict_GET_SIZE(value);
  Py_ssize_t done = 0;
  unsigned arrays = 0;
  unsigned numbers = 0;
  Py_ssize_t pos = 0;
  PyObject *key;
  PyObject *item;
  if (pack_header(p, count, true, depth) < 0) {
    return -1;
  }
  while (PyDict_Next(value, &pos, &key, &item)) {
    if (check_key(p, key, &arrays, &numbers) < 0) {
      return -1;
    }
    Py_INCREF(key);
    Py_INCREF(item);
    int result = pack_value(p, key, depth + 1);
    result = result < 0 ? result : pack_value(p, item, depth + 1);
    Py_DECREF(item);
    Py_DECREF(key);
    if (result < 0) {
      return -1;
    }
    done++;
    if (PyDict_GET_SIZE(value) != count) {
      return changed();
    }
  }
  return done == count ? 0 : changed();
}

static int pack_ext(packer *p, PyObject *value) {
  int type = (int)PyLong_AsLong(nm_py_record_get(value, EXT_TYPE));
  return pack_bytes(p, nm_py_record_get(value, EXT_DATA), &type);
}

static int pack_constant(packer *p, PyObject *value) {
  nm_writer w;
  if (item_begin(p, &w, HEADER_MAX) < 0) {
    return -1;
  }
  if (value == Py_None) {
    nm_mp_nil(&w);
  } else if (PyBool_Check(value)) {
    nm_mp_bool(&w, value == Py_True);
  } else {
    nm_mp_float(&w, PyFloat_AS_DOUBLE(value));
  }
  return item_end(p, &w);
}

static int pack_value(packer *p, PyObject *value, uint32_t depth) {
  if (value == Py_None || PyBool_Check(value) || PyFloat_Check(value)) {
    return pack_constant(p, value);
  }
  if (PyLong_Check(value)) {
    return pack_int(p, value);
  }
  if (PyUnicode_Check(value)) {
    return pack_str(p, value);
  }
  if (is_array(value)) {
    return pack_array(p, value, depth);
  }
  if (PyDict_Check(value)) {
    return pack_map(p, value, depth);
  }
  if (Py_IS_TYPE(value, NM_PY_TYPE(p->state, Ext))) {
    return pack_ext(p, value);
  }
  if (PyObject_CheckBuffer(value)) {
    return pack_bytes(p, value, NULL);
  }
  return nm_py_type_error("packb", "value",
                          "None, bool, int, float, str, bytes, list, tuple, "
                          "dict or Ext all through",
                          value);
}

int nm_py_msgpack_pack(nm_state *state, PyObject *value, uint32_t depth_max,
                       nm_buffer *out) {
  packer p = {state, out, depth_max};
  return pack_value(&p, value, 0);
}

static PyObject *pack_to_bytes(nm_state *state, PyObject *value,
                               uint32_t depth_max) {
  uint8_t storage[512];
  nm_buffer out;
  PyObject *result = NULL;
  nm_buffer_init(&out, &nm_mem_system, storage, sizeof storage, 0);
  if (nm_py_msgpack_pack(state, value, depth_max, &out) == 0) {
    result = nm_py_bytes(nm_span_of(out.ptr, out.len));
  }
  nm_buffer_dispose(&out);
  return result;
}

PyObject *nm_py_msgpack_bytes(nm_state *state, PyObject *value) {
  return pack_to_bytes(state, value, nm_mp_limits_default.depth_max);
}

/* ------------------------------------------------------------ unpacking */

/* Builds the value at |r|, which nm_mp_skip has found good. |key|: it is a map
 * key, where arrays become tuples. */
static PyObject *build_value(nm_state *state, nm_reader *r, bool key);

static PyObject *build_array(nm_state *state, nm_reader *r, uint32_t count,
                             bool key) {
  PyObject *array = key ? PyTuple_New(count) : PyList_New(count);
  for (uint32_t i = 0; array != NULL && i < count; i++) {
    PyObject *item = build_value(state, r, key);
    if (item == NULL) {
      Py_CLEAR(array);
    } else if (key) {
      PyTuple_SET_ITEM(array, i, item);
    } else {
      PyList_SET_ITEM(array, i, item);
    }
  }
  return array;
}

static PyObject *build_map(nm_state *state, nm_reader *r, uint32_t count) {
  PyObject *map = PyDict_New();
  for (uint32_t i = 0; map != NULL && i < count; i++) {
    PyObject *key = build_value(state, r, true);
    PyObject *value = key != NULL ? build_value(state, r, false) : NULL;
    if (value == NULL || PyDict_SetItem(map, key, value) < 0) {
      Py_CLEAR(map);
    }
    Py_XDECREF(value);
    Py_XDECREF(key);
  }
  return map;
}

static PyObject *build_ext(nm_state *state, const nm_mp_item *item) {
  PyObject *fields[EXT_FIELDS] = {PyLong_FromLong(item->ext_type),
                                  nm_py_bytes(item->data)};
  return nm_py_record_new(NM_PY_TYPE(state, Ext), fields);
}

static PyObject *build_value(nm_state *state, nm_reader *r, bool key) {
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  if (status != NM_OK) {
    return nm_py_raise_status(state, status, "msgpack", "value");
  }
  switch (item.type) {
  case NM_MP_NIL:
    Py_RETURN_NONE;
  case NM_MP_BOOL:
    return PyBool_FromLong(item.boolean);
  case NM_MP_UINT:
    return PyLong_FromUnsignedLongLong(item.uint);
  case NM_MP_INT:
    return PyLong_FromLongLong(item.sint);
  case NM_MP_FLOAT:
    return PyFloat_FromDouble(item.real);
  case NM_MP_STR:
    return PyUnicode_DecodeUTF8((const char *)item.data.ptr,
                                (Py_ssize_t)item.data.len, NULL);
  case NM_MP_BIN:
    return nm_py_bytes(item.data);
  case NM_MP_ARRAY:
    return build_array(state, r, item.count, key);
  case NM_MP_MAP:
    return build_map(state, r, item.count);
  case NM_MP_EXT:
    break;
  }
  return build_ext(state, &item);
}

PyObject *nm_py_msgpack_unpack(nm_state *state, nm_reader *r,
                               const nm_mp_limits *limits, const char *codec,
                               const char *field) {
  nm_reader walk = *r;
  int status = nm_mp_skip(&walk, limits);
  if (status != NM_OK) {
    nm_fault fault = {status, field, walk.pos};
    return nm_py_raise(state, &fault, codec);
  }
  return build_value(state, r, false);
}

/* -------------------------------------------------------------- functions */

PyDoc_STRVAR(
    packb_doc,
    "packb($module, value, /, *, depth_max=64)\n--\n\n"
    "The MessagePack form of a value, in the canonical encoding that "
    "Reticulum\nuses: shortest integers, 64-bit floats, bytes as bin, "
    "text as str.\n\n"
    "value is None, bool, int (-2**63 to 2**64-1), float, str, a "
    "bytes-like object,\nlist, tuple, dict or Ext, all through; "
    "containers nest at most depth_max deep\n(0 to 256), and at most 64 "
    "keys of a dict are tuples, 4096 numbers. Raises\nTypeError for other "
    "objects and EncodeError for what is out of bounds.\n\n"
    ">>> packb({'n': [1, b'x']}).hex()\n"
    "'81a16e9201c40178'\n");

static PyObject *core_packb(PyObject *module, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "packb", 2, 1, 1, 1, {NM_STR_value, NM_STR_depth_max}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  long long depth_max = nm_mp_limits_default.depth_max;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], "packb", "depth_max", 0, NM_MP_DEPTH_CAP,
                                 &depth_max) < 0)) {
    return NULL;
  }
  return pack_to_bytes(state, a[0], (uint32_t)depth_max);
}

PyDoc_STRVAR(
    unpackb_doc,
    "unpackb($module, data, /, *, depth_max=64, elements_max=1000000,\n"
    "        trailing=True)\n--\n\n"
    "Reads one MessagePack value.\n\n"
    "Every valid encoding is accepted: integers of any width, 32-bit floats, "
    "ext.\nArrays become lists (tuples inside map keys), bin becomes bytes, "
    "ext becomes Ext.\nBytes after the value are ignored, or an error when "
    "trailing is False.\n\n"
    "Raises LimitError for more than depth_max (0 to 256) levels, "
    "elements_max items, or\n64 arrays or 4096 numbers as keys of one map, "
    "DecodeError for all else that is\nwrong: truncated "
    "input, the reserved byte c1, invalid UTF-8, a repeated map key,\na map as "
    "a map key.\n\n"
    ">>> unpackb(bytes.fromhex('81a16e9201c40178'))\n"
    "{'n': [1, b'x']}\n");

static PyObject *unpack_span(nm_state *state, nm_span in,
                             const nm_mp_limits *limits, bool trailing) {
  nm_reader r = nm_reader_of(in);
  PyObject *value = nm_py_msgpack_unpack(state, &r, limits, "msgpack", "value");
  if (value != NULL && !trailing && nm_reader_left(&r) > 0) {
    Py_DECREF(value);
    nm_fault fault = {NM_E(TRAILING), "value", r.pos};
    return nm_py_raise(state, &fault, "msgpack");
  }
  return value;
}

static PyObject *core_unpackb(PyObject *module, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "unpackb",
      4,
      1,
      1,
      1,
      {NM_STR_data, NM_STR_depth_max, NM_STR_elements_max, NM_STR_trailing}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[4];
  nm_mp_limits limits = nm_mp_limits_default;
  long long depth_max = limits.depth_max;
  long long elements_max = limits.elements_max;
  bool trailing = true;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], "unpackb", "depth_max", 0,
                                 NM_MP_DEPTH_CAP, &depth_max) < 0) ||
      (a[2] != NULL && nm_py_int(a[2], "unpackb", "elements_max", 0, UINT32_MAX,
                                 &elements_max) < 0) ||
      (a[3] != NULL &&
       nm_py_bool(a[3], "unpackb", "trailing", &trailing) < 0)) {
    return NULL;
  }
  limits.depth_max = (uint32_t)depth_max;
  limits.elements_max = (uint32_t)elements_max;
  nm_py_buffer buf;
  if (nm_py_buffer_get(a[0], "unpackb", "data", &buf) < 0) {
    return NULL;
  }
  PyObject *value = unpack_span(state, buf.span, &limits, trailing);
  nm_py_buffer_release(&buf);
  return value;
}

PyDoc_STRVAR(canonical_doc,
             "canonical($module, data, /)\n--\n\n"
             "The canonical encoding of the first value in data: order of maps "
             "kept, 32-bit\nfloats widened, lengths and integers in their "
             "shortest form.\n\n"
             "Raises DecodeError and LimitError as unpackb does.\n\n"
             ">>> canonical(bytes.fromhex('cd0001')).hex()\n"
             "'01'\n");

static PyObject *core_canonical(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "canonical", "data", &buf) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  size_t cap = 2 * buf.span.len + 16;
  uint8_t *out = PyMem_Malloc(cap);
  if (out == NULL) {
    PyErr_NoMemory();
  } else {
    nm_reader r = nm_reader_of(buf.span);
    nm_writer w = nm_writer_of(out, cap);
    int status = nm_mp_canonical(&r, &w, NULL);
    nm_fault fault = {status, "value", r.pos};
    result = status == NM_OK ? nm_py_bytes(nm_writer_done(&w))
                             : nm_py_raise(state, &fault, "msgpack");
    PyMem_Free(out);
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* --------------------------------------------------------------------- Ext */

PyDoc_STRVAR(ext_doc,
             "Ext(type, data, /)\n--\n\n"
             "A MessagePack extension value: a type code from -128 "
             "to 127, and bytes. Immutable; may\nbe used from any thread.\n\n"
             ">>> unpackb(packb(Ext(-1, b'four')))\n"
             "Ext(type=-1, data=b'four')\n");

static PyObject *ext_construct(PyObject *type, PyObject *const *args,
                               size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ext", 2, 2, 2, 2, {NM_STR_type, NM_STR_data}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[2];
  long long code;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      nm_py_int(a[0], "Ext", "type", INT8_MIN, INT8_MAX, &code) < 0) {
    return NULL;
  }
  PyObject *fields[EXT_FIELDS] = {NULL, nm_py_bytes_of(a[1], "Ext", "data")};
  if (fields[EXT_DATA] != NULL) {
    fields[EXT_TYPE] = PyLong_FromLongLong(code);
  }
  return nm_py_record_new((PyTypeObject *)type, fields);
}

static PyMemberDef ext_members[] = {
    NM_PY_FIELD("type", EXT_TYPE, "The type code, -128 to 127."),
    NM_PY_FIELD("data", EXT_DATA, "The content, bytes."),
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot ext_slots[] = {{Py_tp_doc, (void *)ext_doc},
                                  {Py_tp_new, (void *)nm_py_new},
                                  {Py_tp_members, ext_members},
                                  NM_PY_RECORD_SLOTS,
                                  {0, NULL}};

static PyType_Spec ext_spec = {.name = "netmesh._core.Ext",
                               .basicsize = NM_PY_RECORD_SIZE(EXT_FIELDS),
                               .flags = NM_PY_RECORD_FLAGS,
                               .slots = ext_slots};

static PyMethodDef functions[] = {
    {"packb", (PyCFunction)(void (*)(void))core_packb,
     METH_FASTCALL | METH_KEYWORDS, packb_doc},
    {"unpackb", (PyCFunction)(void (*)(void))core_unpackb,
     METH_FASTCALL | METH_KEYWORDS, unpackb_doc},
    {"canonical", core_canonical, METH_O, canonical_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_msgpack_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Ext, &ext_spec, NULL,
                     ext_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
