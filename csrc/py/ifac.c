/* netmesh.ifac. */
#include "py/ifac.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/value.h"

typedef struct nm_py_ifac {
  PyObject_HEAD
  nm_ifac ifac; /* a secret; wiped by dealloc */
} nm_py_ifac;

static const nm_ifac *ifac_of(PyObject *self) {
  return &((nm_py_ifac *)self)->ifac;
}

const nm_ifac *nm_py_ifac_of(nm_state *state, PyObject *obj,
                             const char *function, const char *name) {
  if (!Py_IS_TYPE(obj, NM_PY_TYPE(state, Ifac))) {
    nm_py_type_error(function, name, "an Ifac", obj);
    return NULL;
  }
  return ifac_of(obj);
}

/* ------------------------------------------------------------ construction */

PyDoc_STRVAR(
    ifac_doc,
    "Ifac(*, network_name=None, passphrase=None, size=16)\n--\n\n"
    "The access codes of one interface (RNS 1, 6): every packet carries a code "
    "of size bytes\n(1 to 64), and all but the code is masked.\n\n"
    "Both ends derive the same key from the network name, the passphrase or "
    "both; without\neither it is a ValueError. Ifac.from_key takes the derived "
    "key.\n\n"
    "Immutable; may be used from any thread; pickling is refused.\n\n"
    ">>> ifac = Ifac(network_name='valley', passphrase='open sesame')\n"
    ">>> packet = Packet(destination=bytes(16), payload=b'hello').raw\n"
    ">>> masked = ifac.mask(packet)\n"
    ">>> len(masked) - len(packet), ifac.unmask(masked) == packet\n"
    "(16, True)\n");

static int read_size(PyObject *obj, const char *function, size_t *size) {
  long long value = 16;
  if (obj != NULL && nm_py_int(obj, function, "size", NM_IFAC_SIZE_MIN,
                               NM_IFAC_SIZE_MAX, &value) < 0) {
    return -1;
  }
  *size = (size_t)value;
  return 0;
}

/* From a 64-byte key. */
static PyObject *ifac_new(nm_state *state, const uint8_t *key, size_t size) {
  PyTypeObject *type = NM_PY_TYPE(state, Ifac);
  nm_py_ifac *self = (nm_py_ifac *)type->tp_alloc(type, 0);
  int status;
  if (self == NULL) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_ifac_init_key(&self->ifac, nm_span_of(key, NM_PRIVATE_SIZE), size);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    Py_DECREF(self);
    return nm_py_raise_status(state, status, "ifac", "key");
  }
  return (PyObject *)self;
}

PyObject *nm_py_ifac_from(nm_state *state, const nm_ifac *ifac) {
  return ifac_new(state, ifac->key, ifac->size);
}

static PyObject *ifac_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ifac", 3, 0,
      0,      0, {NM_STR_network_name, NM_STR_passphrase, NM_STR_size}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[3];
  nm_span name = nm_span_of(NULL, 0);
  nm_span passphrase = nm_span_of(NULL, 0);
  uint8_t key[NM_PRIVATE_SIZE];
  size_t size;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      (!nm_py_absent(a[0]) &&
       nm_py_text(a[0], "Ifac", "network_name", &name) < 0) ||
      (!nm_py_absent(a[1]) &&
       nm_py_text(a[1], "Ifac", "passphrase", &passphrase) < 0) ||
      read_size(a[2], "Ifac", &size) < 0) {
    return NULL;
  }
  if (nm_ifac_derive(name, passphrase, key) != NM_OK) {
    return PyErr_Format(PyExc_ValueError,
                        "Ifac() needs 'network_name', 'passphrase' or both");
  }
  PyObject *self = ifac_new(state, key, size);
  nm_wipe(key, sizeof key);
  return self;
}

PyDoc_STRVAR(from_key_doc, "from_key($type, key, /, *, size=16)\n--\n\n"
                           "From the derived key of 64 bytes.");

static PyObject *ifac_from_key(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ifac.from_key", 2, 1, 1, 1, {NM_STR_key, NM_STR_size}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[2];
  uint8_t key[NM_PRIVATE_SIZE];
  size_t size;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      read_size(a[1], "Ifac.from_key", &size) < 0 ||
      nm_py_exact(a[0], "Ifac.from_key", "key", key, sizeof key) < 0) {
    return NULL;
  }
  PyObject *self = ifac_new(state, key, size);
  nm_wipe(key, sizeof key);
  return self;
}

static void ifac_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_ifac_wipe(&((nm_py_ifac *)self)->ifac);
  type->tp_free(self);
  Py_DECREF(type);
}

/* ----------------------------------------------------------------- packets */

PyDoc_STRVAR(tag_doc,
             "tag($self, raw, /)\n--\n\n"
             "The code of a packet: the last size bytes of its signature.\n\n"
             "Raises DecodeError 'TRUNCATED' below 2 bytes and 'VALUE' when "
             "bit 7 of the first byte\nis set already. Releases the GIL.");

static PyObject *ifac_tag(PyObject *self, PyObject *arg) {
  const nm_ifac *ifac = ifac_of(self);
  nm_py_buffer raw;
  nm_fault fault = {NM_OK, NULL, 0};
  uint8_t code[NM_IFAC_SIZE_MAX];
  int status;
  if (nm_py_buffer_get(arg, "Ifac.tag", "raw", &raw) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_ifac_tag(ifac, raw.span, code, &fault);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&raw);
  return status == NM_OK ? nm_py_bytes(nm_span_of(code, ifac->size))
                         : nm_py_raise(nm_py_state_of(self), &fault, "ifac");
}

PyDoc_STRVAR(mask_doc, "mask($self, raw, /)\n--\n\n"
                       "The packet as it goes out: size bytes longer, with its "
                       "code and masked. Errors as\nthose of tag. Releases the "
                       "GIL.");

static PyObject *ifac_mask(PyObject *self, PyObject *arg) {
  const nm_ifac *ifac = ifac_of(self);
  nm_py_buffer raw;
  nm_fault fault = {NM_OK, NULL, 0};
  uint8_t *out;
  size_t len = 0;
  int status = NM_OK;
  if (nm_py_buffer_get(arg, "Ifac.mask", "raw", &raw) < 0) {
    return NULL;
  }
  PyObject *result = nm_py_bytes_new(raw.span.len + ifac->size, &out);
  if (result != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    status = nm_ifac_mask(ifac, raw.span, out, raw.span.len + ifac->size, &len,
                          &fault);
    Py_END_ALLOW_THREADS;
  }
  nm_py_buffer_release(&raw);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise(nm_py_state_of(self), &fault, "ifac");
  }
  return result;
}

/* Takes the code off |data|: a verdict and, when it is OK, the packet in
 * |result|. -1 with an exception when memory runs out or |data| is no
 * buffer. */
static int unmask(PyObject *self, PyObject *data, const char *function,
                  PyObject **result, nm_fault *fault) {
  nm_py_buffer in;
  uint8_t *out;
  size_t len = 0;
  nm_ifac_verdict verdict;
  if (nm_py_buffer_get(data, function, "data", &in) < 0) {
    return -1;
  }
  *result = nm_py_bytes_new(in.span.len, &out);
  if (*result == NULL) {
    nm_py_buffer_release(&in);
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS;
  verdict = nm_ifac_unmask(ifac_of(self), in.span, out, &len);
  Py_END_ALLOW_THREADS;
  fault->status = nm_ifac_verdict_status(verdict);
  fault->field = verdict == NM_IFAC_NO_FLAG      ? "flags"
                 : verdict == NM_IFAC_WRONG_CODE ? "access_code"
                                                 : "packet";
  fault->offset = verdict == NM_IFAC_TOO_SHORT ? in.span.len : 0;
  nm_py_buffer_release(&in);
  if (verdict != NM_IFAC_OK) {
    Py_CLEAR(*result);
    return 0;
  }
  return _PyBytes_Resize(result, (Py_ssize_t)len);
}

PyDoc_STRVAR(
    unmask_doc,
    "unmask($self, data, /)\n--\n\n"
    "The packet in a masked one.\n\n"
    "Raises AuthenticationError 'AUTH' for a wrong code, DecodeError "
    "'MISSING' when bit 7 is\nclear and 'TRUNCATED' without room for the code "
    "and more. Releases the GIL.");

static PyObject *ifac_unmask(PyObject *self, PyObject *arg) {
  PyObject *packet;
  nm_fault fault;
  if (unmask(self, arg, "Ifac.unmask", &packet, &fault) < 0) {
    return NULL;
  }
  return packet != NULL ? packet
                        : nm_py_raise(nm_py_state_of(self), &fault, "ifac");
}

PyDoc_STRVAR(try_unmask_doc,
             "try_unmask($self, data, /)\n--\n\n"
             "('OK', packet), or (reason, None) with the reasons of unmask, "
             "which raises no error for\nthem. Releases the GIL.");

static PyObject *ifac_try_unmask(PyObject *self, PyObject *arg) {
  PyObject *packet;
  nm_fault fault;
  if (unmask(self, arg, "Ifac.try_unmask", &packet, &fault) < 0) {
    return NULL;
  }
  return Py_BuildValue("sN", nm_status_name(fault.status),
                       packet != NULL ? packet : Py_NewRef(Py_None));
}

/* -------------------------------------------------------------- properties */

static PyObject *ifac_key(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(nm_span_of(ifac_of(self)->key, NM_PRIVATE_SIZE));
}

static PyObject *ifac_size(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromSize_t(ifac_of(self)->size);
}

static PyObject *ifac_identity_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_identity_hash_new(nm_py_state_of(self),
                                 ifac_of(self)->identity.hash.b);
}

static PyObject *ifac_public_key(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(
      nm_span_of(ifac_of(self)->identity.public_key, NM_PUBLIC_SIZE));
}

static PyObject *ifac_signature(PyObject *self, void *Py_UNUSED(closure)) {
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_ifac_signature(ifac_of(self), signature);
  Py_END_ALLOW_THREADS;
  return status == NM_OK ? nm_py_bytes(nm_span_of(signature, sizeof signature))
                         : nm_py_raise_status(nm_py_state_of(self), status,
                                              "ifac", "signature");
}

static PyObject *ifac_repr(PyObject *self) {
  PyObject *hex =
      nm_py_hex(nm_span_of(ifac_of(self)->identity.hash.b, NM_ADDRESS_SIZE));
  PyObject *text = hex != NULL ? PyUnicode_FromFormat("<Ifac %U, %zu bytes>",
                                                      hex, ifac_of(self)->size)
                               : NULL;
  Py_XDECREF(hex);
  return text;
}

static PyObject *ifac_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const nm_ifac *a = ifac_of(self);
  const nm_ifac *b = ifac_of(other);
  bool equal =
      a->size == b->size && nm_equal_ct(a->key, b->key, NM_PRIVATE_SIZE);
  return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t ifac_hash(PyObject *self) {
  return nm_py_hash_bytes(
      nm_span_of(ifac_of(self)->identity.public_key, NM_PUBLIC_SIZE));
}

static PyMethodDef ifac_methods[] = {
    {"from_key", (PyCFunction)(void (*)(void))ifac_from_key,
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, from_key_doc},
    {"tag", ifac_tag, METH_O, tag_doc},
    {"mask", ifac_mask, METH_O, mask_doc},
    {"unmask", ifac_unmask, METH_O, unmask_doc},
    {"try_unmask", ifac_try_unmask, METH_O, try_unmask_doc},
    NM_PY_REFUSE_PICKLE,
    {NULL, NULL, 0, NULL}};

static PyGetSetDef ifac_getset[] = {
    {"key", ifac_key, NULL, "The derived key, 64 bytes: a secret.", NULL},
    {"size", ifac_size, NULL, "The bytes of a code, 1 to 64.", NULL},
    {"identity_hash", ifac_identity_hash, NULL,
     "The hash of the identity whose private keys the key is.", NULL},
    {"public_key", ifac_public_key, NULL,
     "The 64 public bytes of that identity.", NULL},
    {"signature", ifac_signature, NULL,
     "Its signature over the hash of the key, which tools show.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot ifac_slots[] = {{Py_tp_doc, (void *)ifac_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_dealloc, (void *)ifac_dealloc},
                                   {Py_tp_repr, (void *)ifac_repr},
                                   {Py_tp_richcompare, (void *)ifac_compare},
                                   {Py_tp_hash, (void *)ifac_hash},
                                   {Py_tp_methods, ifac_methods},
                                   {Py_tp_getset, ifac_getset},
                                   {0, NULL}};

static PyType_Spec ifac_spec = {.name = "netmesh._core.Ifac",
                                .basicsize = sizeof(nm_py_ifac),
                                .flags = NM_PY_FLAGS,
                                .slots = ifac_slots};

int nm_py_ifac_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Ifac, &ifac_spec, NULL,
                        ifac_construct);
}
