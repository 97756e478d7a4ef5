#include "py/hashes.h"

#include "py/args.h"
#include "py/value.h"

/* Both are subclasses of bytes. A bytes object keeps its hash in a field that
 * is deprecated in the headers but must be set by who allocates one. */
static PyObject *hash_new(PyTypeObject *type,
                          const uint8_t bytes[NM_ADDRESS_SIZE]) {
  PyObject *self = type->tp_alloc(type, NM_ADDRESS_SIZE);
  if (self == NULL) {
    return NULL;
  }
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
  ((PyBytesObject *)self)->ob_shash = -1;
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
  memcpy(PyBytes_AS_STRING(self), bytes, NM_ADDRESS_SIZE);
  return self;
}

PyObject *nm_py_identity_hash_new(nm_state *state, const uint8_t bytes[16]) {
  return hash_new(NM_PY_TYPE(state, IdentityHash), bytes);
}

PyObject *nm_py_destination_hash_new(nm_state *state, const uint8_t bytes[16]) {
  return hash_new(NM_PY_TYPE(state, DestinationHash), bytes);
}

static bool is_identity(nm_state *state, PyTypeObject *type) {
  return type == NM_PY_TYPE(state, IdentityHash);
}

/* The class that must not be mixed up with |type|. */
static PyTypeObject *other_kind(nm_state *state, PyTypeObject *type) {
  return is_identity(state, type) ? NM_PY_TYPE(state, DestinationHash)
                                  : NM_PY_TYPE(state, IdentityHash);
}

static PyObject *hash_construct(PyObject *callable, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  nm_py_signature signature = {
      .function = is_identity(state, type) ? "IdentityHash" : "DestinationHash",
      .count = 1,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_value}};
  PyObject *value;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, &value) < 0) {
    return NULL;
  }
  if (Py_IS_TYPE(value, type)) {
    return Py_NewRef(value);
  }
  uint8_t bytes[NM_ADDRESS_SIZE];
  nm_py_address_kind kind =
      is_identity(state, type) ? NM_PY_IDENTITY_HASH : NM_PY_DESTINATION_HASH;
  if (nm_py_address(state, value, kind, signature.function, "value", bytes) <
      0) {
    return NULL;
  }
  return hash_new(type, bytes);
}

PyDoc_STRVAR(from_hex_doc,
             "from_hex($type, text, /)\n--\n\n"
             "Reads 32 hexadecimal digits, with or without the angle brackets "
             "that str() prints.\n\n"
             "Raises ValueError for anything else.");

static int digit_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Whether |text| is 32 digits, brackets removed already. */
static bool parse_hex(nm_span text, uint8_t out[NM_ADDRESS_SIZE]) {
  if (text.len != (size_t)NM_ADDRESS_SIZE * 2) {
    return false;
  }
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    int high = digit_value((char)text.ptr[2 * i]);
    int low = digit_value((char)text.ptr[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    out[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static PyObject *hash_from_hex(PyObject *cls, PyObject *arg) {
  PyTypeObject *type = (PyTypeObject *)cls;
  const char *function = is_identity(nm_py_state_of_type(type), type)
                             ? "IdentityHash.from_hex"
                             : "DestinationHash.from_hex";
  nm_span text;
  if (nm_py_text(arg, function, "text", &text) < 0) {
    return NULL;
  }
  if (text.len >= 2 && text.ptr[0] == '<' && text.ptr[text.len - 1] == '>') {
    text = nm_span_of(text.ptr + 1, text.len - 2);
  }
  uint8_t bytes[NM_ADDRESS_SIZE];
  if (!parse_hex(text, bytes)) {
    return PyErr_Format(PyExc_ValueError,
                        "%s() parameter 'text' must be 32 hexadecimal digits, "
                        "not %R",
                        function, arg);
  }
  return hash_new(type, bytes);
}

static PyObject *hash_compare(PyObject *self, PyObject *other, int op) {
  PyTypeObject *type = Py_TYPE(self);
  if (Py_IS_TYPE(other, other_kind(nm_py_state_of(self), type))) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBytes_Type.tp_richcompare(self, other, op);
}

static Py_hash_t hash_hash(PyObject *self) {
  return PyBytes_Type.tp_hash(self);
}

static nm_span content(PyObject *self) {
  return nm_span_of(PyBytes_AS_STRING(self), NM_ADDRESS_SIZE);
}

static PyObject *hash_str(PyObject *self) {
  PyObject *hex = nm_py_hex(content(self));
  PyObject *text = hex != NULL ? PyUnicode_FromFormat("<%U>", hex) : NULL;
  Py_XDECREF(hex);
  return text;
}

static PyObject *hash_repr(PyObject *self) {
  return nm_py_repr_hex(self, content(self));
}

static PyMethodDef hash_methods[] = {
    {"from_hex", hash_from_hex, METH_O | METH_CLASS, from_hex_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(identity_hash_doc,
             "IdentityHash(value, /)\n--\n\n"
             "The 16 bytes that name an identity.\n\n"
             "A kind of bytes that cannot be mixed up with a DestinationHash: "
             "the two are\nnever equal, and a function that takes one refuses "
             "the other with a TypeError.\nstr() gives the hexadecimal form "
             "in angle brackets, hex() without them.\n\n"
             ">>> h = IdentityHash(bytes(16))\n"
             ">>> str(h)\n"
             "'<00000000000000000000000000000000>'\n"
             ">>> IdentityHash.from_hex(str(h)) == h == bytes(16)\n"
             "True\n");

PyDoc_STRVAR(destination_hash_doc,
             "DestinationHash(value, /)\n--\n\n"
             "The 16 bytes that name a destination.\n\n"
             "A kind of bytes that cannot be mixed up with an IdentityHash: "
             "the two are\nnever equal, and a function that takes one refuses "
             "the other with a TypeError.\nstr() gives the hexadecimal form "
             "in angle brackets, hex() without them.\n\n"
             ">>> DestinationHash.from_hex('6b9f66014d9853faab220fba47d02761')"
             "\n<DestinationHash 6b9f66014d9853faab220fba47d02761>\n");

static PyType_Slot identity_hash_slots[] = {
    {Py_tp_doc, (void *)identity_hash_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_richcompare, (void *)hash_compare},
    {Py_tp_hash, (void *)hash_hash},
    {Py_tp_str, (void *)hash_str},
    {Py_tp_repr, (void *)hash_repr},
    {Py_tp_methods, hash_methods},
    {0, NULL}};

static PyType_Spec identity_hash_spec = {
    .name = "netmesh._core.IdentityHash",
    .flags = NM_PY_FLAGS,
    .slots = identity_hash_slots,
};

static PyType_Slot destination_hash_slots[] = {
    {Py_tp_doc, (void *)destination_hash_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_richcompare, (void *)hash_compare},
    {Py_tp_hash, (void *)hash_hash},
    {Py_tp_str, (void *)hash_str},
    {Py_tp_repr, (void *)hash_repr},
    {Py_tp_methods, hash_methods},
    {0, NULL}};

static PyType_Spec destination_hash_spec = {
    .name = "netmesh._core.DestinationHash",
    .flags = NM_PY_FLAGS,
    .slots = destination_hash_slots,
};

int nm_py_hashes_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_IdentityHash, &identity_hash_spec,
                     &PyBytes_Type, hash_construct) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_DestinationHash,
                        &destination_hash_spec, &PyBytes_Type, hash_construct);
}
