/* netmesh.Ratchets and the files of ratchets. */
#include "wire/ratchet_file.h"

#include "crypto/curve.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/value.h"

/* Keys that a file may hold; more than are retained are read, then dropped. */
#define FILE_KEYS_MAX 1000000u

typedef struct nm_py_ratchets {
  PyObject_HEAD
  uint8_t *keys; /* |count| private keys, newest first: secrets, wiped */
  size_t count;
  size_t cap;
  uint32_t retained;
  double interval_s;
  double latest_time;
  bool current_known; /* is current_public that of the newest key? */
  uint8_t current_public[NM_KEY_SIZE];
} nm_py_ratchets;

static nm_py_ratchets *self_of(PyObject *self) {
  return (nm_py_ratchets *)self;
}

static size_t size_of(size_t keys) {
  return keys * NM_KEY_SIZE;
}

static void free_keys(uint8_t *keys, size_t count) {
  if (keys != NULL) {
    nm_wipe(keys, size_of(count));
    PyMem_Free(keys);
  }
}

/* A copy of the first |count| keys, to work on without the GIL. Free it with
 * free_keys. NULL with an exception. */
static uint8_t *copy_keys(const nm_py_ratchets *self, size_t count) {
  uint8_t *copy = PyMem_Malloc(size_of(count) + 1);
  if (copy == NULL) {
    PyErr_NoMemory();
  } else if (count > 0) {
    memcpy(copy, self->keys, size_of(count));
  }
  return copy;
}

/* Makes room for one more key. The old storage is wiped. */
static int grow(nm_py_ratchets *self) {
  if (self->count < self->cap) {
    return 0;
  }
  size_t cap = self->cap == 0 ? 8 : self->cap * 2;
  uint8_t *larger = PyMem_Malloc(size_of(cap));
  if (larger == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  if (self->count > 0) {
    memcpy(larger, self->keys, size_of(self->count));
  }
  free_keys(self->keys, self->cap);
  self->keys = larger;
  self->cap = cap;
  return 0;
}

/* Puts |key| first and drops what is not retained. */
static int push(nm_py_ratchets *self, const uint8_t key[NM_KEY_SIZE]) {
  if (self->count == self->retained) {
    self->count--;
    nm_wipe(self->keys + size_of(self->count), NM_KEY_SIZE);
  }
  if (grow(self) < 0) {
    return -1;
  }
  memmove(self->keys + NM_KEY_SIZE, self->keys, size_of(self->count));
  memcpy(self->keys, key, NM_KEY_SIZE);
  self->count++;
  self->current_known = false;
  return 0;
}

/* ------------------------------------------------------------ construction */

/* The two options, both of which may be absent. */
static nm_py_ratchets *ratchets_alloc(nm_state *state, const char *function,
                                      PyObject *retained, PyObject *interval) {
  long long keep = NM_RATCHETS_RETAINED;
  double seconds = NM_RATCHET_INTERVAL;
  if ((retained != NULL &&
       nm_py_int(retained, function, "retained", 1, UINT32_MAX, &keep) < 0) ||
      (interval != NULL &&
       nm_py_real(interval, function, "interval_s", &seconds) < 0)) {
    return NULL;
  }
  if (seconds < 0) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter 'interval_s' must not be negative, not %R",
                 function, interval);
    return NULL;
  }
  PyTypeObject *type = NM_PY_TYPE(state, Ratchets);
  nm_py_ratchets *self = (nm_py_ratchets *)type->tp_alloc(type, 0);
  if (self != NULL) {
    self->retained = (uint32_t)keep;
    self->interval_s = seconds;
  }
  return self;
}

PyDoc_STRVAR(
    ratchets_doc,
    "Ratchets(*, retained=512, interval_s=1800.0)\n--\n\n"
    "A destination's own ratchets: private keys, newest first (RNS 1, "
    "3.5).\n\n"
    "rotate() is called at announce time; it adds a key when the last one is "
    "older than\ninterval_s seconds and drops the oldest above the number "
    "retained. load() and dump()\nread and write the signed file. The keys are "
    "wiped when they go, and pickling is\nrefused.\n\n"
    "Belongs to one thread at a time.\n\n"
    ">>> ratchets = Ratchets()\n"
    ">>> ratchets.rotate(1000000.0), ratchets.rotate(1000060.0)\n"
    "(True, False)\n"
    ">>> identity = Identity()\n"
    ">>> sealed = identity.encrypt(b'hi', ratchet=ratchets.current_public)\n"
    ">>> identity.decrypt(sealed, ratchets=ratchets.private_keys)"
    ".ratchet_index\n"
    "0\n");

static PyObject *ratchets_construct(PyObject *type, PyObject *const *args,
                                    size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ratchets", 2, 0, 0, 0, {NM_STR_retained, NM_STR_interval_s}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[2];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0) {
    return NULL;
  }
  return (PyObject *)ratchets_alloc(state, "Ratchets", a[0], a[1]);
}

static void ratchets_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  free_keys(self_of(self)->keys, self_of(self)->cap);
  type->tp_free(self);
  Py_DECREF(type);
}

PyDoc_STRVAR(load_doc,
             "load($type, data, identity, /, *, retained=512, "
             "interval_s=1800.0)\n--\n\n"
             "Reads the signed file of ratchets, a bytes-like object. Keys "
             "above the number\nretained are left out. Raises DecodeError for "
             "another shape and\nAuthenticationError 'SIGNATURE' when identity "
             "did not sign it.");

/* Checks the signature of the file and takes its keys over. */
static int take_file(nm_state *state, nm_py_ratchets *self, nm_span data,
                     const nm_identity *identity) {
  nm_ratchet_file file;
  nm_fault fault;
  int status;
  if (nm_ratchet_file_parse(data, FILE_KEYS_MAX, &file, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "ratchets");
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_ratchet_file_verify(&file, identity);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    nm_py_raise_status(state, status, "ratchets", "signature");
    return -1;
  }
  size_t count = file.count < self->retained ? file.count : self->retained;
  self->keys = PyMem_Malloc(size_of(count) + 1);
  if (self->keys == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  self->cap = count;
  self->count = count;
  nm_writer w = nm_writer_of(self->keys, size_of(count));
  for (size_t i = 0; i < count; i++) {
    nm_writer_span(&w, nm_ratchet_file_key(&file, (uint32_t)i));
  }
  return 0;
}

static PyObject *ratchets_load(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ratchets.load",
      4,
      2,
      2,
      2,
      {NM_STR_data, NM_STR_identity, NM_STR_retained, NM_STR_interval_s}};
  static const char function[] = "Ratchets.load";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[4];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_public(state, a[1], function, "identity");
  /* Bytes of its own: what was verified must be what is used. */
  PyObject *data =
      identity != NULL ? nm_py_bytes_of(a[0], function, "data") : NULL;
  nm_py_ratchets *self =
      data != NULL ? ratchets_alloc(state, function, a[2], a[3]) : NULL;
  if (self != NULL && take_file(state, self,
                                nm_span_of(PyBytes_AS_STRING(data),
                                           (size_t)PyBytes_GET_SIZE(data)),
                                identity) < 0) {
    Py_CLEAR(self);
  }
  Py_XDECREF(data);
  return (PyObject *)self;
}

PyDoc_STRVAR(dump_doc,
             "dump($self, identity, /)\n--\n\n"
             "The signed file of ratchets, bytes. It holds private keys: keep "
             "it as secret as the\nidentity. Releases the GIL.");

static PyObject *ratchets_dump(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  uint32_t count = (uint32_t)self_of(self)->count;
  const nm_identity *identity =
      nm_py_identity_private(state, arg, "Ratchets.dump", "identity");
  uint8_t *out;
  int status;
  PyObject *file = identity != NULL
                       ? nm_py_bytes_new(nm_ratchet_file_size(count), &out)
                       : NULL;
  uint8_t *keys = file != NULL ? copy_keys(self_of(self), count) : NULL;
  if (keys == NULL) {
    Py_XDECREF(file);
    return NULL;
  }
  nm_writer w = nm_writer_of(out, nm_ratchet_file_size(count));
  Py_BEGIN_ALLOW_THREADS;
  status = nm_ratchet_file_write(&w, identity, keys, count);
  Py_END_ALLOW_THREADS;
  free_keys(keys, count);
  if (status != NM_OK) {
    Py_DECREF(file);
    return nm_py_raise_status(state, status, "ratchets", "signature");
  }
  return file;
}

PyDoc_STRVAR(rotate_doc,
             "rotate($self, now=None, /, *, private=None, force=False)\n--\n\n"
             "Puts a new key first when the last rotation is more than "
             "interval_s ago, or in any\ncase with force; True when it "
             "did.\n\n"
             "now is Unix seconds, the system's time if left out; private is "
             "the new key (32\nbytes), random if left out.");

static PyObject *ratchets_rotate(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Ratchets.rotate",
      3,
      0,
      1,
      1,
      {NM_STR_now, NM_STR_private, NM_STR_force}};
  static const char function[] = "Ratchets.rotate";
  nm_state *state = nm_py_state_of(self);
  nm_py_ratchets *ratchets = self_of(self);
  PyObject *a[3];
  double now;
  bool force = false;
  uint8_t key[NM_KEY_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_time(a[0], function, "now", &now) < 0 ||
      (a[2] != NULL && nm_py_bool(a[2], function, "force", &force) < 0) ||
      nm_py_exact_or_random(state, a[1], function, "private", key, sizeof key) <
          0) {
    return NULL;
  }
  bool due = force || now > ratchets->latest_time + ratchets->interval_s;
  int status = due ? push(ratchets, key) : 0;
  nm_wipe(key, sizeof key);
  if (status < 0) {
    return NULL;
  }
  if (due) {
    ratchets->latest_time = now;
  }
  return PyBool_FromLong(due);
}

/* -------------------------------------------------------------- properties */

static PyObject *ratchets_private_keys(PyObject *self,
                                       void *Py_UNUSED(closure)) {
  const nm_py_ratchets *ratchets = self_of(self);
  size_t count = ratchets->count;
  PyObject *keys = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; keys != NULL && i < count; i++) {
    PyObject *key =
        nm_py_bytes(nm_span_of(ratchets->keys + size_of(i), NM_KEY_SIZE));
    if (key == NULL) {
      Py_CLEAR(keys);
    } else {
      PyTuple_SET_ITEM(keys, (Py_ssize_t)i, key);
    }
  }
  return keys;
}

static void id_of(uint8_t out[NM_RATCHET_ID_SIZE], const uint8_t *private_key) {
  uint8_t public_key[NM_KEY_SIZE];
  (void)nm_x25519_public(public_key, private_key);
  nm_ratchet_id(out, public_key);
}

/* The ids of |count| keys, a tuple. Frees |keys|. */
static PyObject *ids_of(uint8_t *keys, size_t count) {
  uint8_t(*ids)[NM_RATCHET_ID_SIZE] = PyMem_Malloc((count + 1) * sizeof *ids);
  PyObject *tuple =
      ids != NULL ? PyTuple_New((Py_ssize_t)count) : PyErr_NoMemory();
  if (tuple != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    for (size_t i = 0; i < count; i++) {
      id_of(ids[i], keys + size_of(i));
    }
    Py_END_ALLOW_THREADS;
  }
  free_keys(keys, count);
  for (size_t i = 0; tuple != NULL && i < count; i++) {
    PyObject *id = nm_py_bytes(nm_span_of(ids[i], NM_RATCHET_ID_SIZE));
    if (id == NULL) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, id);
    }
  }
  PyMem_Free(ids);
  return tuple;
}

static PyObject *ratchets_ids(PyObject *self, void *Py_UNUSED(closure)) {
  size_t count = self_of(self)->count;
  uint8_t *keys = copy_keys(self_of(self), count);
  return keys != NULL ? ids_of(keys, count) : NULL;
}

/* The public key of the newest ratchet, NULL without one. Remembered, because
 * each announce asks for it. */
static const uint8_t *current_public(nm_py_ratchets *self) {
  if (self->count == 0) {
    return NULL;
  }
  if (!self->current_known) {
    (void)nm_x25519_public(self->current_public, self->keys);
    self->current_known = true;
  }
  return self->current_public;
}

static PyObject *ratchets_current_public(PyObject *self,
                                         void *Py_UNUSED(closure)) {
  const uint8_t *key = current_public(self_of(self));
  if (key == NULL) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(nm_span_of(key, NM_KEY_SIZE));
}

static PyObject *ratchets_current_id(PyObject *self, void *Py_UNUSED(closure)) {
  const uint8_t *key = current_public(self_of(self));
  uint8_t id[NM_RATCHET_ID_SIZE];
  if (key == NULL) {
    Py_RETURN_NONE;
  }
  nm_ratchet_id(id, key);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyObject *ratchets_previous_id(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  uint8_t id[NM_RATCHET_ID_SIZE];
  if (self_of(self)->count < 2) {
    Py_RETURN_NONE;
  }
  id_of(id, self_of(self)->keys + NM_KEY_SIZE);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyObject *ratchets_latest_time(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  return PyFloat_FromDouble(self_of(self)->latest_time);
}

static PyObject *ratchets_retained(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(self_of(self)->retained);
}

static PyObject *ratchets_interval_s(PyObject *self, void *Py_UNUSED(closure)) {
  return PyFloat_FromDouble(self_of(self)->interval_s);
}

static Py_ssize_t ratchets_len(PyObject *self) {
  return (Py_ssize_t)self_of(self)->count;
}

static PyObject *ratchets_repr(PyObject *self) {
  return PyUnicode_FromFormat("<Ratchets: %zu of %u>", self_of(self)->count,
                              (unsigned)self_of(self)->retained);
}

#define KEYWORDS(name, flags)                                                  \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))ratchets_##name,                       \
        METH_FASTCALL | METH_KEYWORDS | (flags), name##_doc                    \
  }

static PyMethodDef ratchets_methods[] = {
    KEYWORDS(load, METH_CLASS),
    {"dump", ratchets_dump, METH_O, dump_doc},
    KEYWORDS(rotate, 0),
    NM_PY_REFUSE_PICKLE,
    {NULL, NULL, 0, NULL}};

#define GETTER(name, doc)                                                      \
  { #name, ratchets_##name, NULL, doc, NULL }

static PyGetSetDef ratchets_getset[] = {
    GETTER(private_keys, "The private keys (32 bytes each), newest first."),
    GETTER(ids, "The ids (10 bytes each), newest first."),
    GETTER(current_public,
           "The public key that announces carry, or None before the first."),
    GETTER(current_id, "The id of the newest key, or None."),
    GETTER(previous_id, "The id of the key before it, or None."),
    GETTER(latest_time,
           "When the last rotation was, Unix seconds; 0 before the first."),
    GETTER(retained, "How many keys are kept."),
    GETTER(interval_s, "The seconds between two rotations."),
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot ratchets_slots[] = {
    {Py_tp_doc, (void *)ratchets_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)ratchets_dealloc},
    {Py_tp_repr, (void *)ratchets_repr},
    {Py_sq_length, (void *)ratchets_len},
    {Py_tp_methods, ratchets_methods},
    {Py_tp_getset, ratchets_getset},
    {0, NULL}};

static PyType_Spec ratchets_spec = {.name = "netmesh._core.Ratchets",
                                    .basicsize = sizeof(nm_py_ratchets),
                                    .flags = NM_PY_FLAGS,
                                    .slots = ratchets_slots};

/* --------------------------------------------------------------- functions */

PyDoc_STRVAR(ratchet_id_doc,
             "ratchet_id($module, ratchet_public, /)\n--\n\n"
             "The id of a ratchet public key (32 bytes): 10 bytes.");

static PyObject *core_ratchet_id(PyObject *Py_UNUSED(module), PyObject *arg) {
  uint8_t key[NM_KEY_SIZE];
  uint8_t id[NM_RATCHET_ID_SIZE];
  if (nm_py_exact(arg, "ratchet_id", "ratchet_public", key, sizeof key) < 0) {
    return NULL;
  }
  nm_ratchet_id(id, key);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

PyDoc_STRVAR(
    remembered_ratchet_pack_doc,
    "remembered_ratchet_pack($module, ratchet_public, received, /)\n--\n\n"
    "The file that remembers another destination's ratchet: its public key "
    "(32 bytes) and\nthe Unix time at which it was received (RNS 1, 2.6).");

static PyObject *core_remembered_ratchet_pack(PyObject *module,
                                              PyObject *const *args,
                                              Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "remembered_ratchet_pack",
      2,
      2,
      2,
      2,
      {NM_STR_ratchet_public, NM_STR_received}};
  static const char function[] = "remembered_ratchet_pack";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  uint8_t key[NM_KEY_SIZE];
  uint8_t out[NM_RATCHET_MEMORY_SIZE];
  nm_ratchet_memory memory = {.ratchet = nm_span_of(key, sizeof key)};
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[0], function, "ratchet_public", key, sizeof key) < 0 ||
      nm_py_real(a[1], function, "received", &memory.received) < 0) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  int status = nm_ratchet_memory_write(&w, &memory);
  return status == NM_OK
             ? nm_py_bytes(nm_writer_done(&w))
             : nm_py_raise_status(state, status, "ratchets", "file");
}

PyDoc_STRVAR(
    remembered_ratchet_unpack_doc,
    "remembered_ratchet_unpack($module, data, /)\n--\n\n"
    "The public key and the time in such a file. Raises DecodeError.\n\n"
    ">>> remembered_ratchet_unpack(remembered_ratchet_pack(bytes(32), 12.5))"
    "[1]\n"
    "12.5\n");

static PyObject *core_remembered_ratchet_unpack(PyObject *module,
                                                PyObject *arg) {
  nm_py_buffer data;
  nm_ratchet_memory memory;
  nm_fault fault;
  if (nm_py_buffer_get(arg, "remembered_ratchet_unpack", "data", &data) < 0) {
    return NULL;
  }
  PyObject *result =
      nm_ratchet_memory_parse(data.span, &memory, &fault) == NM_OK
          ? Py_BuildValue("Nd", nm_py_bytes(memory.ratchet), memory.received)
          : nm_py_raise(nm_py_state_of_module(module), &fault, "ratchets");
  nm_py_buffer_release(&data);
  return result;
}

static PyMethodDef functions[] = {
    {"ratchet_id", core_ratchet_id, METH_O, ratchet_id_doc},
    {"remembered_ratchet_pack",
     (PyCFunction)(void (*)(void))core_remembered_ratchet_pack, METH_FASTCALL,
     remembered_ratchet_pack_doc},
    {"remembered_ratchet_unpack", core_remembered_ratchet_unpack, METH_O,
     remembered_ratchet_unpack_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_ratchets_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Ratchets, &ratchets_spec, NULL,
                     ratchets_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
