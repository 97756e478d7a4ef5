/* netmesh.Identity. */
#include "py/identity.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/parallel.h"
#include "py/value.h"

typedef struct nm_py_identity {
  PyObject_HEAD
  nm_identity id; /* secrets when id.has_private; wiped by dealloc */
  bool has_public;
} nm_py_identity;

static nm_py_identity *self_of(PyObject *self) {
  return (nm_py_identity *)self;
}

/* ----------------------------------------------------- for other classes */

static const nm_identity *keys_of(nm_state *state, PyObject *obj, bool secret,
                                  const char *function, const char *name) {
  if (!nm_py_is_identity(state, obj)) {
    nm_py_type_error(function, name, "an Identity", obj);
    return NULL;
  }
  nm_py_identity *identity = self_of(obj);
  if (secret ? !identity->id.has_private : !identity->has_public) {
    nm_py_simple_error(state, NM_ERROR_KeyMissingError, NM_E(NO_KEY),
                       "%s() needs %s keys, which the identity does not hold",
                       function, secret ? "private" : "public");
    return NULL;
  }
  return &identity->id;
}

const nm_identity *nm_py_identity_public(nm_state *state, PyObject *obj,
                                         const char *function,
                                         const char *name) {
  return keys_of(state, obj, false, function, name);
}

const nm_identity *nm_py_identity_private(nm_state *state, PyObject *obj,
                                          const char *function,
                                          const char *name) {
  return keys_of(state, obj, true, function, name);
}

static nm_py_identity *identity_alloc(nm_state *state) {
  PyTypeObject *type = NM_PY_TYPE(state, Identity);
  return (nm_py_identity *)type->tp_alloc(type, 0);
}

PyObject *nm_py_identity_from_public(nm_state *state,
                                     const uint8_t public_key[64]) {
  nm_py_identity *self = identity_alloc(state);
  if (self != NULL) {
    (void)nm_identity_init_public(&self->id,
                                  nm_span_of(public_key, NM_PUBLIC_SIZE));
    self->has_public = true;
  }
  return (PyObject *)self;
}

/* From 64 private bytes, which the caller wipes. */
static PyObject *
identity_from_private(nm_state *state,
                      const uint8_t private_key[NM_PRIVATE_SIZE]) {
  nm_py_identity *self = identity_alloc(state);
  int status;
  if (self == NULL) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_identity_init_private(&self->id,
                                    nm_span_of(private_key, NM_PRIVATE_SIZE));
  Py_END_ALLOW_THREADS;
  self->has_public = status == NM_OK;
  if (status != NM_OK) {
    Py_DECREF(self);
    return nm_py_raise_status(state, status, "identity", "private");
  }
  return (PyObject *)self;
}

/* ------------------------------------------------------------ construction */

PyDoc_STRVAR(
    identity_doc,
    "Identity()\n--\n\n"
    "An X25519 and an Ed25519 key pair, or only their public halves, or no "
    "keys at all.\n\n"
    "Identity() makes a new random one. Private and public keys are blobs of "
    "64 bytes:\nthe X25519 half, then the Ed25519 half. An operation that "
    "needs a key which the\nidentity does not hold raises KeyMissingError. "
    "repr() never shows private bytes,\nthey are wiped when the object goes, "
    "and pickling is refused.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> alice = Identity()\n"
    ">>> bob = Identity.from_public(alice.public_key)\n"
    ">>> bob == alice.public_only() and bob.hash == alice.hash\n"
    "True\n"
    ">>> bob.verify(b'hello', alice.sign(b'hello'))\n"
    "True\n"
    ">>> alice.decrypt(bob.encrypt(b'secret')).plaintext\n"
    "b'secret'\n");

static PyObject *identity_construct(PyObject *type, PyObject *const *args,
                                    size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {"Identity", 0, 0, 0, 0, {0}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *none[1];
  uint8_t secret[NM_PRIVATE_SIZE];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, none) < 0 ||
      nm_py_exact_or_random(state, NULL, "Identity", "private", secret,
                            sizeof secret) < 0) {
    return NULL;
  }
  PyObject *self = identity_from_private(state, secret);
  nm_wipe(secret, sizeof secret);
  return self;
}

PyDoc_STRVAR(from_private_doc, "from_private($type, private, /)\n--\n\n"
                               "From the 64 private bytes.");

static PyObject *identity_cls_from_private(PyObject *cls, PyObject *arg) {
  uint8_t secret[NM_PRIVATE_SIZE];
  if (nm_py_exact(arg, "Identity.from_private", "private", secret,
                  sizeof secret) < 0) {
    return NULL;
  }
  PyObject *self =
      identity_from_private(nm_py_state_of_type((PyTypeObject *)cls), secret);
  nm_wipe(secret, sizeof secret);
  return self;
}

PyDoc_STRVAR(from_public_doc,
             "from_public($type, public, /)\n--\n\n"
             "From the 64 public bytes. A bad key shows when it is used.");

static PyObject *identity_cls_from_public(PyObject *cls, PyObject *arg) {
  uint8_t public_key[NM_PUBLIC_SIZE];
  if (nm_py_exact(arg, "Identity.from_public", "public", public_key,
                  sizeof public_key) < 0) {
    return NULL;
  }
  return nm_py_identity_from_public(nm_py_state_of_type((PyTypeObject *)cls),
                                    public_key);
}

PyDoc_STRVAR(without_keys_doc,
             "without_keys($type, /)\n--\n\n"
             "An identity whose every operation raises KeyMissingError.");

static PyObject *identity_cls_without_keys(PyObject *cls,
                                           PyObject *Py_UNUSED(unused)) {
  return (PyObject *)identity_alloc(nm_py_state_of_type((PyTypeObject *)cls));
}

static void identity_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_identity_wipe(&self_of(self)->id);
  type->tp_free(self);
  Py_DECREF(type);
}

/* ------------------------------------------------------------------- files */

/* Calls a function of netmesh._files. Takes over |second|, which may be NULL
 * with an exception set. */
static PyObject *call_files(const char *function, PyObject *path,
                            PyObject *second) {
  if (second == NULL) {
    return NULL;
  }
  PyObject *files = PyImport_ImportModule("netmesh._files");
  PyObject *result =
      files != NULL ? PyObject_CallMethod(files, function, "OO", path, second)
                    : NULL;
  Py_DECREF(second);
  Py_XDECREF(files);
  return result;
}

PyDoc_STRVAR(load_doc, "load($type, path, /)\n--\n\n"
                       "Reads a file of exactly the 64 private bytes; "
                       "DecodeError 'LENGTH' for another size.");

static PyObject *identity_cls_load(PyObject *cls, PyObject *path) {
  PyObject *data =
      call_files("read_key_file", path, PyLong_FromLong(NM_PRIVATE_SIZE));
  PyObject *self = data != NULL ? identity_cls_from_private(cls, data) : NULL;
  Py_XDECREF(data);
  return self;
}

PyDoc_STRVAR(load_public_doc, "load_public($type, path, /)\n--\n\n"
                              "Reads a file of exactly the 64 public bytes; "
                              "DecodeError 'LENGTH' for another size.");

static PyObject *identity_cls_load_public(PyObject *cls, PyObject *path) {
  PyObject *data =
      call_files("read_key_file", path, PyLong_FromLong(NM_PUBLIC_SIZE));
  PyObject *self = data != NULL ? identity_cls_from_public(cls, data) : NULL;
  Py_XDECREF(data);
  return self;
}

static PyObject *identity_private_key(PyObject *self, void *closure);
static PyObject *identity_public_key(PyObject *self, void *closure);

PyDoc_STRVAR(save_doc,
             "save($self, path, /)\n--\n\n"
             "Writes the 64 private bytes to a file that only its owner may "
             "read (mode 0600):\nbeside it first, then renamed, so that no "
             "one ever sees half a file.");

static PyObject *identity_save(PyObject *self, PyObject *path) {
  return call_files("write_private_file", path,
                    identity_private_key(self, NULL));
}

PyDoc_STRVAR(save_public_doc, "save_public($self, path, /)\n--\n\n"
                              "Writes the 64 public bytes to a file.");

static PyObject *identity_save_public(PyObject *self, PyObject *path) {
  return call_files("write_public_file", path, identity_public_key(self, NULL));
}

/* -------------------------------------------------------------- properties */

static PyObject *identity_private_key(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  const nm_identity *id = nm_py_identity_private(
      nm_py_state_of(self), self, "Identity.private_key", "self");
  return id != NULL ? nm_py_bytes(nm_span_of(id->private_key, NM_PRIVATE_SIZE))
                    : NULL;
}

static PyObject *identity_public_key(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_identity *id = nm_py_identity_public(nm_py_state_of(self), self,
                                                "Identity.public_key", "self");
  return id != NULL ? nm_py_bytes(nm_span_of(id->public_key, NM_PUBLIC_SIZE))
                    : NULL;
}

static PyObject *identity_hash(PyObject *self, void *Py_UNUSED(closure)) {
  nm_state *state = nm_py_state_of(self);
  const nm_identity *id =
      nm_py_identity_public(state, self, "Identity.hash", "self");
  return id != NULL ? nm_py_identity_hash_new(state, id->hash.b) : NULL;
}

static PyObject *identity_has_private(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  return PyBool_FromLong(self_of(self)->id.has_private);
}

static PyObject *identity_has_public(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(self_of(self)->has_public);
}

PyDoc_STRVAR(public_only_doc, "public_only($self, /)\n--\n\n"
                              "The same identity without its private keys.");

static PyObject *identity_public_only(PyObject *self,
                                      PyObject *Py_UNUSED(unused)) {
  nm_state *state = nm_py_state_of(self);
  const nm_identity *id =
      nm_py_identity_public(state, self, "Identity.public_only", "self");
  return id != NULL ? nm_py_identity_from_public(state, id->public_key) : NULL;
}

/* -------------------------------------------------------------- signatures */

PyDoc_STRVAR(sign_doc, "sign($self, message, /)\n--\n\n"
                       "The Ed25519 signature of a message, 64 bytes. "
                       "Releases the GIL.");

static PyObject *identity_sign(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  const nm_identity *id =
      nm_py_identity_private(state, self, "Identity.sign", "self");
  nm_py_buffer message;
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status;
  if (id == NULL ||
      nm_py_buffer_get(arg, "Identity.sign", "message", &message) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_identity_sign(id, signature, message.span);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&message);
  return status == NM_OK
             ? nm_py_bytes(nm_span_of(signature, sizeof signature))
             : nm_py_raise_status(state, status, "identity", "signature");
}

PyDoc_STRVAR(verify_doc,
             "verify($self, message, signature, /)\n--\n\n"
             "Whether signature is this identity's of that message; False for "
             "every bad one,\nalso of a wrong length. Releases the GIL.");

static PyObject *identity_verify(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  static const nm_py_signature signature_of = {
      "Identity.verify", 2, 2, 2, 2, {NM_STR_message, NM_STR_signature}};
  nm_state *state = nm_py_state_of(self);
  PyObject *a[2];
  nm_py_buffer message;
  nm_py_buffer signature;
  int status;
  const nm_identity *id =
      nm_py_identity_public(state, self, "Identity.verify", "self");
  if (id == NULL ||
      nm_py_parse(state, &signature_of, args, (size_t)nargs, NULL, a) < 0 ||
      nm_py_buffer_get(a[0], "Identity.verify", "message", &message) < 0) {
    return NULL;
  }
  if (nm_py_buffer_get(a[1], "Identity.verify", "signature", &signature) < 0) {
    nm_py_buffer_release(&message);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_identity_verify(id, signature.span, message.span);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&signature);
  nm_py_buffer_release(&message);
  return PyBool_FromLong(status == NM_OK);
}

/* One item of verify_many. */
typedef struct claim {
  PyObject *owner; /* the Identity, strong */
  const nm_identity *identity;
  nm_py_buffer message;
  nm_py_buffer signature;
  bool good;
} claim;

static void verify_slice(void *context, size_t begin, size_t end) {
  claim *claims = (claim *)context;
  for (size_t i = begin; i < end; i++) {
    claims[i].good =
        nm_identity_verify(claims[i].identity, claims[i].signature.span,
                           claims[i].message.span) == NM_OK;
  }
}

/* Reads one (identity, message, signature). */
static int claim_read(nm_state *state, PyObject *item, claim *out) {
  static const char function[] = "Identity.verify_many";
  if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3) {
    return nm_py_type_error(function, "items",
                            "a sequence of (identity, message, signature)",
                            item);
  }
  out->owner = Py_NewRef(PyTuple_GET_ITEM(item, 0));
  out->identity = nm_py_identity_public(state, out->owner, function, "items");
  if (out->identity == NULL ||
      nm_py_buffer_get(PyTuple_GET_ITEM(item, 1), function, "items",
                       &out->message) < 0) {
    return -1;
  }
  return nm_py_buffer_get(PyTuple_GET_ITEM(item, 2), function, "items",
                          &out->signature);
}

static PyObject *verify_all(nm_state *state, PyObject *items, size_t threads) {
  size_t count = (size_t)PyTuple_GET_SIZE(items);
  PyObject *result = NULL;
  claim *claims = PyMem_Calloc(count + 1, sizeof *claims);
  if (claims == NULL) {
    return PyErr_NoMemory();
  }
  size_t read = 0;
  while (read < count &&
         claim_read(state, PyTuple_GET_ITEM(items, (Py_ssize_t)read),
                    &claims[read]) == 0) {
    read++;
  }
  if (read == count) {
    Py_BEGIN_ALLOW_THREADS;
    nm_py_parallel(verify_slice, claims, count, threads);
    Py_END_ALLOW_THREADS;
    result = PyList_New((Py_ssize_t)count);
  }
  for (size_t i = 0; i < count; i++) {
    if (result != NULL) {
      PyList_SET_ITEM(result, (Py_ssize_t)i, PyBool_FromLong(claims[i].good));
    }
    nm_py_buffer_release(&claims[i].signature);
    nm_py_buffer_release(&claims[i].message);
    Py_XDECREF(claims[i].owner);
  }
  PyMem_Free(claims);
  return result;
}

PyDoc_STRVAR(verify_many_doc,
             "verify_many($type, items, /, *, threads=1)\n--\n\n"
             "Verifies a sequence of (identity, message, signature) tuples on "
             "up to 256 threads\nand returns a list of bools. Releases the "
             "GIL.");

static PyObject *identity_verify_many(PyObject *cls, PyObject *const *args,
                                      Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Identity.verify_many", 2, 1, 1, 1, {NM_STR_items, NM_STR_threads}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[2];
  long long threads = 1;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], "Identity.verify_many", "threads", 1,
                                 NM_PY_THREADS_MAX, &threads) < 0)) {
    return NULL;
  }
  PyObject *items = nm_py_sequence(a[0], "Identity.verify_many", "items",
                                   "a sequence of (identity, message, "
                                   "signature)");
  if (items == NULL) {
    return NULL;
  }
  PyObject *result = verify_all(state, items, (size_t)threads);
  Py_DECREF(items);
  return result;
}

/* -------------------------------------------------------------- encryption */

PyDoc_STRVAR(
    encrypt_doc,
    "encrypt($self, plaintext, /, *, ratchet=None, ephemeral_private=None,\n"
    "        iv=None)\n--\n\n"
    "Encrypts to this identity: 32 bytes of ephemeral key and a token, 80 "
    "bytes more than\nthe padded plaintext.\n\n"
    "ratchet is a ratchet public key (32 bytes) to use in place of the "
    "identity's own.\nephemeral_private (32) and iv (16) make the result "
    "reproducible; left out, they are\nrandom, as they must be outside of "
    "tests. Raises AuthenticationError 'KEY' for a key\nthat gives an all-zero "
    "secret. Releases the GIL.");

static PyObject *identity_encrypt(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Identity.encrypt",
      4,
      1,
      1,
      1,
      {NM_STR_plaintext, NM_STR_ratchet, NM_STR_ephemeral_private, NM_STR_iv}};
  static const char function[] = "Identity.encrypt";
  nm_state *state = nm_py_state_of(self);
  PyObject *a[4];
  nm_py_encrypt_options options;
  nm_py_buffer plain;
  const nm_identity *id = nm_py_identity_public(state, self, function, "self");
  PyObject *result = NULL;
  if (id == NULL ||
      nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_buffer_get(a[0], function, "plaintext", &plain) < 0) {
    return NULL;
  }
  if (nm_py_encrypt_options_read(a + 1, function, &options) == 0) {
    result = nm_py_identity_encrypt(state, id, plain.span, &options);
  }
  nm_wipe(&options, sizeof options);
  nm_py_buffer_release(&plain);
  return result;
}

PyDoc_STRVAR(
    decrypt_doc,
    "decrypt($self, ciphertext, /, *, ratchets=(), "
    "enforce_ratchets=False)\n--\n\n"
    "Opens what was encrypted to this identity and says which key did it: a "
    "Decrypted.\n\n"
    "ratchets are ratchet private keys of 32 bytes, newest first, which are "
    "tried before\nthe identity's own key; with enforce_ratchets the own key "
    "is not tried at all.\nRaises AuthenticationError when nothing opens it, "
    "DecodeError 'TRUNCATED' when it\ncannot hold a token, and 'LENGTH' or "
    "'PADDING' when a key fits a malformed token.\nReleases the GIL.");

static PyObject *identity_decrypt(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Identity.decrypt",
      3,
      1,
      1,
      1,
      {NM_STR_ciphertext, NM_STR_ratchets, NM_STR_enforce_ratchets}};
  static const char function[] = "Identity.decrypt";
  nm_state *state = nm_py_state_of(self);
  PyObject *a[3];
  bool enforce = false;
  nm_py_buffer in;
  const nm_identity *id = nm_py_identity_private(state, self, function, "self");
  if (id == NULL ||
      nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[2] != NULL &&
       nm_py_bool(a[2], function, "enforce_ratchets", &enforce) < 0) ||
      nm_py_buffer_get(a[0], function, "ciphertext", &in) < 0) {
    return NULL;
  }
  PyObject *result =
      nm_py_identity_decrypt(state, id, in.span, a[1], enforce, function);
  nm_py_buffer_release(&in);
  return result;
}

/* -------------------------------------------------------------------- value */

static PyObject *identity_repr(PyObject *self) {
  const nm_py_identity *identity = self_of(self);
  if (!identity->has_public) {
    return PyUnicode_FromString("<Identity without keys>");
  }
  PyObject *hex = nm_py_hex(nm_span_of(identity->id.hash.b, NM_ADDRESS_SIZE));
  PyObject *text =
      hex != NULL
          ? PyUnicode_FromFormat("<Identity %U%s>", hex,
                                 identity->id.has_private ? "" : ", public")
          : NULL;
  Py_XDECREF(hex);
  return text;
}

static bool same_keys(const nm_py_identity *a, const nm_py_identity *b) {
  return a->has_public == b->has_public &&
         a->id.has_private == b->id.has_private &&
         memcmp(a->id.public_key, b->id.public_key, NM_PUBLIC_SIZE) == 0 &&
         nm_equal_ct(a->id.private_key, b->id.private_key, NM_PRIVATE_SIZE);
}

static PyObject *identity_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBool_FromLong(same_keys(self_of(self), self_of(other)) ==
                         (op == Py_EQ));
}

static Py_hash_t identity_tp_hash(PyObject *self) {
  return nm_py_hash_bytes(
      nm_span_of(self_of(self)->id.public_key, NM_PUBLIC_SIZE));
}

#define KEYWORDS(name, flags)                                                  \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))identity_##name,                       \
        METH_FASTCALL | METH_KEYWORDS | (flags), name##_doc                    \
  }

static PyMethodDef identity_methods[] = {
    {"from_private", identity_cls_from_private, METH_O | METH_CLASS,
     from_private_doc},
    {"from_public", identity_cls_from_public, METH_O | METH_CLASS,
     from_public_doc},
    {"without_keys", identity_cls_without_keys, METH_NOARGS | METH_CLASS,
     without_keys_doc},
    {"load", identity_cls_load, METH_O | METH_CLASS, load_doc},
    {"load_public", identity_cls_load_public, METH_O | METH_CLASS,
     load_public_doc},
    {"save", identity_save, METH_O, save_doc},
    {"save_public", identity_save_public, METH_O, save_public_doc},
    {"public_only", identity_public_only, METH_NOARGS, public_only_doc},
    {"sign", identity_sign, METH_O, sign_doc},
    {"verify", (PyCFunction)(void (*)(void))identity_verify, METH_FASTCALL,
     verify_doc},
    KEYWORDS(verify_many, METH_CLASS),
    KEYWORDS(encrypt, 0),
    KEYWORDS(decrypt, 0),
    NM_PY_REFUSE_PICKLE,
    {NULL, NULL, 0, NULL}};

static PyGetSetDef identity_getset[] = {
    {"private_key", identity_private_key, NULL,
     "The 64 private bytes: X25519 key, then Ed25519 seed.", NULL},
    {"public_key", identity_public_key, NULL,
     "The 64 public bytes: X25519 key, then Ed25519 key.", NULL},
    {"hash", identity_hash, NULL,
     "The identity hash: the truncated hash of the public key.", NULL},
    {"has_private", identity_has_private, NULL,
     "Whether it can sign and decrypt.", NULL},
    {"has_public", identity_has_public, NULL,
     "Whether it can verify and encrypt.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot identity_slots[] = {
    {Py_tp_doc, (void *)identity_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)identity_dealloc},
    {Py_tp_repr, (void *)identity_repr},
    {Py_tp_richcompare, (void *)identity_compare},
    {Py_tp_hash, (void *)identity_tp_hash},
    {Py_tp_methods, identity_methods},
    {Py_tp_getset, identity_getset},
    {0, NULL}};

static PyType_Spec identity_spec = {.name = "netmesh._core.Identity",
                                    .basicsize = sizeof(nm_py_identity),
                                    .flags = NM_PY_FLAGS,
                                    .slots = identity_slots};

int nm_py_identity_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Identity, &identity_spec, NULL,
                        identity_construct);
}
