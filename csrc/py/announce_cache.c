/* netmesh.AnnounceCache and netmesh.PathResponses. */
#include "wire/announce_cache.h"

#include "py/announce.h"
#include "py/args.h"
#include "py/errors.h"

/* ------------------------------------------------------------------- cache */

typedef struct nm_py_announce_cache {
  PyObject_HEAD
  nm_announce_cache cache;
  nm_announce_bucket *buckets;
} nm_py_announce_cache;

static nm_py_announce_cache *cache_of(PyObject *self) {
  return (nm_py_announce_cache *)self;
}

PyDoc_STRVAR(
    cache_doc,
    "AnnounceCache(*, capacity=4096, key=None)\n--\n\n"
    "Validates announces that arrive as raw bytes and remembers those found "
    "valid, so\nthat the same announce from another neighbour costs a hash in "
    "place of a signature\ncheck (RNS 1, 5.5).\n\n"
    "What is remembered covers the packet hash and the context flag; a hit "
    "never skips the\ncomparison with an expected key. capacity is rounded up "
    "to a power of two buckets of\n8 entries; a full bucket evicts by clock. "
    "key (16 bytes, random if left out) keys the\ntable, so that peers cannot "
    "aim at one bucket.\n\n"
    "Belongs to one thread at a time.\n\n"
    ">>> cache = AnnounceCache()\n"
    ">>> raw = Announce.create(Identity(), 'app.name').raw\n"
    ">>> cache.validate(raw) == cache.validate(raw) == 'VALID'\n"
    "True\n"
    ">>> cache.hits, cache.misses, len(cache)\n"
    "(1, 1, 1)\n");

#define CAPACITY_MAX (1 << 26)

static PyObject *cache_construct(PyObject *type, PyObject *const *args,
                                 size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "AnnounceCache", 2, 0, 0, 0, {NM_STR_capacity, NM_STR_key}};
  static const char function[] = "AnnounceCache";
  PyTypeObject *cls = (PyTypeObject *)type;
  nm_state *state = nm_py_state_of_type(cls);
  PyObject *a[2];
  long long capacity = 4096;
  uint8_t key[16];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      (a[0] != NULL &&
       nm_py_int(a[0], function, "capacity", 1, CAPACITY_MAX, &capacity) < 0) ||
      nm_py_exact_or_random(state, a[1], function, "key", key, sizeof key) <
          0) {
    return NULL;
  }
  nm_py_announce_cache *self = (nm_py_announce_cache *)cls->tp_alloc(cls, 0);
  if (self == NULL) {
    return NULL;
  }
  size_t buckets = nm_announce_cache_buckets((size_t)capacity);
  self->buckets = PyMem_Calloc(buckets, sizeof *self->buckets);
  if (self->buckets == NULL) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  (void)nm_announce_cache_init(&self->cache, self->buckets, buckets, key);
  return (PyObject *)self;
}

static void cache_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyMem_Free(cache_of(self)->buckets);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Looks the parsed announce up, checks it if it is not there. The table is
 * touched with the GIL only. */
static nm_announce_verdict look_up(nm_announce_cache *cache,
                                   const nm_announce *announce) {
  nm_packet_hash hash;
  bool context_flag = announce->packet.context_flag != 0;
  nm_announce_verdict verdict = NM_ANNOUNCE_VALID;
  nm_packet_digest(&announce->packet, &hash);
  if (!nm_announce_cache_find(cache, &hash, context_flag)) {
    Py_BEGIN_ALLOW_THREADS;
    verdict = nm_announce_validate(announce, false, NULL);
    Py_END_ALLOW_THREADS;
    if (verdict == NM_ANNOUNCE_VALID) {
      nm_announce_cache_add(cache, &hash, context_flag);
    }
  }
  return verdict;
}

PyDoc_STRVAR(
    cache_validate_doc,
    "validate($self, raw, /, *, expected_public_key=None)\n--\n\n"
    "The Verdict on the announce in a packet's bytes, in full; from the memory "
    "when it is\nthere.\n\n"
    "expected_public_key is the key (64 bytes) already known for the "
    "destination. Raises\nDecodeError as Announce.unpack. Releases the GIL "
    "around a signature check.");

static PyObject *cache_validate(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "AnnounceCache.validate",
      2,
      1,
      1,
      1,
      {NM_STR_raw, NM_STR_expected_public_key}};
  static const char function[] = "AnnounceCache.validate";
  nm_state *state = nm_py_state_of(self);
  PyObject *a[2];
  uint8_t expected[NM_PUBLIC_SIZE];
  nm_packet packet;
  nm_announce announce;
  nm_fault fault;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (!nm_py_absent(a[1]) && nm_py_exact(a[1], function, "expected_public_key",
                                          expected, sizeof expected) < 0)) {
    return NULL;
  }
  /* Bytes of its own: what is checked must be what is remembered. */
  PyObject *raw = nm_py_bytes_of(a[0], function, "raw");
  if (raw == NULL) {
    return NULL;
  }
  nm_span bytes =
      nm_span_of(PyBytes_AS_STRING(raw), (size_t)PyBytes_GET_SIZE(raw));
  PyObject *result = NULL;
  if (nm_packet_parse(bytes, &packet, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "packet");
  } else if (nm_announce_parse(&packet, &announce, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "announce");
  } else {
    nm_announce_verdict verdict = look_up(&cache_of(self)->cache, &announce);
    if (verdict == NM_ANNOUNCE_VALID && !nm_py_absent(a[1]) &&
        !nm_span_equal(announce.public_key,
                       nm_span_of(expected, sizeof expected))) {
      verdict = NM_ANNOUNCE_KEY_MISMATCH;
    }
    result = Py_NewRef(nm_py_verdict(state, verdict));
  }
  Py_DECREF(raw);
  return result;
}

static PyObject *cache_hits(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(cache_of(self)->cache.hits);
}

static PyObject *cache_misses(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(cache_of(self)->cache.misses);
}

static PyObject *cache_evictions(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(cache_of(self)->cache.evictions);
}

static Py_ssize_t cache_len(PyObject *self) {
  return (Py_ssize_t)cache_of(self)->cache.count;
}

static PyMethodDef cache_methods[] = {
    {"validate", (PyCFunction)(void (*)(void))cache_validate,
     METH_FASTCALL | METH_KEYWORDS, cache_validate_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef cache_getset[] = {
    {"hits", cache_hits, NULL, "How often a signature check was saved.", NULL},
    {"misses", cache_misses, NULL, "How often an announce was not there.",
     NULL},
    {"evictions", cache_evictions, NULL,
     "How many entries made room for others.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot cache_slots[] = {{Py_tp_doc, (void *)cache_doc},
                                    {Py_tp_new, (void *)nm_py_new},
                                    {Py_tp_dealloc, (void *)cache_dealloc},
                                    {Py_sq_length, (void *)cache_len},
                                    {Py_tp_methods, cache_methods},
                                    {Py_tp_getset, cache_getset},
                                    {0, NULL}};

static PyType_Spec cache_spec = {.name = "netmesh._core.AnnounceCache",
                                 .basicsize = sizeof(nm_py_announce_cache),
                                 .flags = NM_PY_FLAGS,
                                 .slots = cache_slots};

/* ---------------------------------------------------------- path responses */

typedef struct nm_py_path_responses {
  PyObject_HEAD
  PyObject *destination; /* a Destination */
  PyObject *made;        /* dict: tag -> (time, Announce), oldest first */
  double lifetime_s;
  Py_ssize_t capacity;
} nm_py_path_responses;

static nm_py_path_responses *responses_of(PyObject *self) {
  return (nm_py_path_responses *)self;
}

PyDoc_STRVAR(
    responses_doc,
    "PathResponses(destination, /, *, lifetime_s=30.0, capacity=64)\n--\n\n"
    "The announces that a destination made as answers to path requests, one "
    "per tag, each\nreused for lifetime_s seconds of the given clock (RNS 1, "
    "5.6).\n\n"
    "At most capacity are kept; the oldest makes room. Belongs to one thread "
    "at a time.\n\n"
    ">>> responses = PathResponses(Destination(Identity(), 'app.name'))\n"
    ">>> first = responses.announce(b'tag', 1000.0)\n"
    ">>> responses.announce(b'tag', 1029.0) is first\n"
    "True\n"
    ">>> responses.announce(b'tag', 1030.0) is first\n"
    "False\n");

static PyObject *responses_construct(PyObject *type, PyObject *const *args,
                                     size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "PathResponses",
      3,
      1,
      1,
      1,
      {NM_STR_destination, NM_STR_lifetime_s, NM_STR_capacity}};
  static const char function[] = "PathResponses";
  PyTypeObject *cls = (PyTypeObject *)type;
  nm_state *state = nm_py_state_of_type(cls);
  PyObject *a[3];
  double lifetime = 30.0;
  long long capacity = 64;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      (a[1] != NULL &&
       nm_py_real(a[1], function, "lifetime_s", &lifetime) < 0) ||
      (a[2] != NULL &&
       nm_py_int(a[2], function, "capacity", 1, INT32_MAX, &capacity) < 0)) {
    return NULL;
  }
  if (!Py_IS_TYPE(a[0], NM_PY_TYPE(state, Destination))) {
    nm_py_type_error(function, "destination", "a Destination", a[0]);
    return NULL;
  }
  nm_py_path_responses *self = (nm_py_path_responses *)cls->tp_alloc(cls, 0);
  if (self == NULL) {
    return NULL;
  }
  self->destination = Py_NewRef(a[0]);
  self->lifetime_s = lifetime;
  self->capacity = (Py_ssize_t)capacity;
  self->made = PyDict_New();
  if (self->made == NULL) {
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

static int responses_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(responses_of(self)->destination);
  Py_VISIT(responses_of(self)->made);
  return 0;
}

static int responses_clear(PyObject *self) {
  Py_CLEAR(responses_of(self)->destination);
  Py_CLEAR(responses_of(self)->made);
  return 0;
}

static void responses_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  responses_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

/* The announce made for |tag| unless it is too old: 1 and a new reference, 0,
 * or -1 with an exception. */
static int find_made(nm_py_path_responses *self, PyObject *tag, double now,
                     PyObject **out) {
  PyObject *entry = PyDict_GetItemWithError(self->made, tag);
  if (entry == NULL) {
    return PyErr_Occurred() ? -1 : 0;
  }
  double made = PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(entry, 0));
  if (now < made + self->lifetime_s) {
    *out = Py_NewRef(PyTuple_GET_ITEM(entry, 1));
    return 1;
  }
  return PyDict_DelItem(self->made, tag);
}

/* Destination.announce(path_response=True, **kwargs). */
static PyObject *make_announce(PyObject *destination, PyObject *const *values,
                               PyObject *kwnames) {
  PyObject *kwargs = PyDict_New();
  PyObject *method = PyObject_GetAttrString(destination, "announce");
  PyObject *none = PyTuple_New(0);
  PyObject *result = NULL;
  Py_ssize_t count = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
  bool good = kwargs != NULL && method != NULL && none != NULL;
  for (Py_ssize_t i = 0; good && i < count; i++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i);
    good = PyDict_SetItem(kwargs, name, values[i]) == 0;
    if (good && PyUnicode_CompareWithASCIIString(name, "path_response") == 0) {
      PyErr_SetString(PyExc_TypeError,
                      "PathResponses.announce() sets 'path_response' itself");
      good = false;
    }
  }
  if (good && PyDict_SetItemString(kwargs, "path_response", Py_True) == 0) {
    result = PyObject_Call(method, none, kwargs);
  }
  Py_XDECREF(none);
  Py_XDECREF(method);
  Py_XDECREF(kwargs);
  return result;
}

/* Drops the oldest entries until one more fits. */
static int make_room(nm_py_path_responses *self) {
  while (PyDict_GET_SIZE(self->made) >= self->capacity) {
    Py_ssize_t pos = 0;
    PyObject *oldest;
    PyObject *value;
    if (!PyDict_Next(self->made, &pos, &oldest, &value)) {
      break;
    }
    Py_INCREF(oldest);
    int status = PyDict_DelItem(self->made, oldest);
    Py_DECREF(oldest);
    if (status < 0) {
      return -1;
    }
  }
  return 0;
}

static int remember(nm_py_path_responses *self, PyObject *tag, double now,
                    PyObject *announce) {
  PyObject *entry = Py_BuildValue("dO", now, announce);
  int status = entry != NULL && make_room(self) == 0
                   ? PyDict_SetItem(self->made, tag, entry)
                   : -1;
  Py_XDECREF(entry);
  return status;
}

/* The first 16 bytes of a tag: what requests carry. */
static PyObject *tag_of(PyObject *obj) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(obj, "PathResponses.announce", "tag", &buf) < 0) {
    return NULL;
  }
  size_t len = buf.span.len < NM_ADDRESS_SIZE ? buf.span.len : NM_ADDRESS_SIZE;
  PyObject *tag = nm_py_bytes(nm_span_of(buf.span.ptr, len));
  nm_py_buffer_release(&buf);
  return tag;
}

PyDoc_STRVAR(
    responses_announce_doc,
    "announce($self, tag, now, /, **kwargs)\n--\n\n"
    "The path response for a tag at the time now (seconds): the one made "
    "before if it is\nyoung enough, else a new one.\n\n"
    "The keyword arguments are those of Destination.announce; they count when "
    "it is made.\nOf a tag the first 16 bytes count.");

static PyObject *responses_announce(PyObject *self, PyObject *const *args,
                                    Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "PathResponses.announce", 2, 2, 2, 2, {NM_STR_tag, NM_STR_now}};
  nm_py_path_responses *responses = responses_of(self);
  PyObject *a[2];
  double now;
  PyObject *result = NULL;
  if (nm_py_parse(nm_py_state_of(self), &signature, args, (size_t)nargs, NULL,
                  a) < 0 ||
      nm_py_real(a[1], "PathResponses.announce", "now", &now) < 0) {
    return NULL;
  }
  PyObject *tag = tag_of(a[0]);
  if (tag == NULL) {
    return NULL;
  }
  if (find_made(responses, tag, now, &result) == 0) {
    result = make_announce(responses->destination, args + nargs, kwnames);
    if (result != NULL && remember(responses, tag, now, result) < 0) {
      Py_CLEAR(result);
    }
  }
  Py_DECREF(tag);
  return result;
}

static Py_ssize_t responses_len(PyObject *self) {
  return PyDict_GET_SIZE(responses_of(self)->made);
}

static PyMethodDef responses_methods[] = {
    {"announce", (PyCFunction)(void (*)(void))responses_announce,
     METH_FASTCALL | METH_KEYWORDS, responses_announce_doc},
    {NULL, NULL, 0, NULL}};

static PyType_Slot responses_slots[] = {
    {Py_tp_doc, (void *)responses_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)responses_dealloc},
    {Py_tp_traverse, (void *)responses_traverse},
    {Py_tp_clear, (void *)responses_clear},
    {Py_sq_length, (void *)responses_len},
    {Py_tp_methods, responses_methods},
    {0, NULL}};

static PyType_Spec responses_spec = {.name = "netmesh._core.PathResponses",
                                     .basicsize = sizeof(nm_py_path_responses),
                                     .flags = NM_PY_FLAGS | Py_TPFLAGS_HAVE_GC,
                                     .slots = responses_slots};

int nm_py_announce_cache_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_AnnounceCache, &cache_spec, NULL,
                     cache_construct) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_PathResponses, &responses_spec,
                        NULL, responses_construct);
}
