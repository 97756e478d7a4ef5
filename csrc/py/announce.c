/* netmesh.Announce.
 *
 * Like a Packet, an Announce refers to objects that cannot lead back to it, so
 * it is not tracked by the garbage collector.
 */
#include "py/announce.h"

#include "crypto/entropy.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/names.h"
#include "py/packet.h"
#include "py/parallel.h"
#include "py/value.h"

/* What is known about an object whose content never changes. */
typedef enum knowledge { UNKNOWN, GOOD, BAD } knowledge;

typedef struct nm_py_announce {
  PyObject_HEAD
  PyObject *packet;   /* a Packet; the object owns it */
  PyObject *identity; /* the announced Identity, made when first asked for */
  nm_announce view;   /* borrows from the packet's bytes */
  uint8_t signature;  /* knowledge, written with the GIL */
  uint8_t destination;
} nm_py_announce;

static nm_py_announce *self_of(PyObject *self) {
  return (nm_py_announce *)self;
}

PyObject *nm_py_verdict(nm_state *state, nm_announce_verdict verdict) {
  switch (verdict) {
  case NM_ANNOUNCE_VALID:
    return NM_PY_VERDICT(state, VALID);
  case NM_ANNOUNCE_BAD_DESTINATION:
    return NM_PY_VERDICT(state, BAD_DESTINATION);
  case NM_ANNOUNCE_KEY_MISMATCH:
    return NM_PY_VERDICT(state, KEY_MISMATCH);
  default:
    return NM_PY_VERDICT(state, BAD_SIGNATURE);
  }
}

/* An Announce over a Packet, whose reference is taken over in every case. */
static PyObject *announce_from_packet(nm_state *state, PyObject *packet) {
  nm_fault fault;
  if (packet == NULL) {
    return NULL;
  }
  nm_py_announce *self =
      PyObject_New(nm_py_announce, NM_PY_TYPE(state, Announce));
  if (self == NULL) {
    Py_DECREF(packet);
    return NULL;
  }
  self->packet = packet;
  self->identity = NULL;
  self->signature = UNKNOWN;
  self->destination = UNKNOWN;
  if (nm_announce_parse(nm_py_packet_view(packet), &self->view, &fault) !=
      NM_OK) {
    Py_DECREF(self);
    return nm_py_raise(state, &fault, "announce");
  }
  return (PyObject *)self;
}

static void announce_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(self_of(self)->identity);
  Py_XDECREF(self_of(self)->packet);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---------------------------------------------------------------- creation */

/* The values behind the options of an announce. */
typedef struct draft {
  nm_announce_args args;
  nm_py_buffer app_data;
  uint8_t ratchet[NM_KEY_SIZE];
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE];
  uint8_t transport_id[NM_ADDRESS_SIZE];
} draft;

static int draft_emitted(nm_state *state, PyObject *obj, const char *function,
                         uint64_t *out) {
  double now;
  if (nm_py_absent(obj)) {
    if (nm_py_time(NULL, function, "emitted", &now) < 0) {
      return -1;
    }
    *out = (uint64_t)now;
    return 0;
  }
  if (!PyLong_Check(obj)) {
    return nm_py_type_error(function, "emitted", "an int", obj);
  }
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(obj, &overflow);
  if (overflow != 0 || value < 0 ||
      (unsigned long long)value > NM_ANNOUNCE_EMITTED_MAX) {
    nm_py_encode_error(state, NM_E(RANGE), "emitted",
                       "announce: field 'emitted' must be in 0..2**40-1, "
                       "not %R",
                       obj);
    return -1;
  }
  *out = (uint64_t)value;
  return 0;
}

static int draft_context(draft *d, const nm_py_announce_options *o,
                         const char *function) {
  bool path_response = false;
  long long hops = 0;
  if ((o->path_response != NULL &&
       nm_py_bool(o->path_response, function, "path_response", &path_response) <
           0) ||
      (o->hops != NULL &&
       nm_py_int(o->hops, function, "hops", 0, NM_HOPS_MAX - 1, &hops) < 0)) {
    return -1;
  }
  d->args.context = path_response ? NM_CONTEXT_PATH_RESPONSE : NM_CONTEXT_NONE;
  d->args.hops = (uint8_t)hops;
  return 0;
}

/* Reads all options; the draft's buffer is to be released in any case. */
static int draft_read(nm_state *state, draft *d,
                      const nm_py_announce_options *o, const char *function) {
  if (draft_context(d, o, function) < 0 ||
      draft_emitted(state, o->emitted, function, &d->args.emitted) < 0 ||
      nm_py_exact_or_random(state, o->random, function, "random", d->random,
                            sizeof d->random) < 0) {
    return -1;
  }
  d->args.random = d->random;
  if (!nm_py_absent(o->ratchet)) {
    if (nm_py_exact(o->ratchet, function, "ratchet", d->ratchet,
                    sizeof d->ratchet) < 0) {
      return -1;
    }
    d->args.ratchet = d->ratchet;
  }
  if (!nm_py_absent(o->app_data)) {
    if (nm_py_buffer_get(o->app_data, function, "app_data", &d->app_data) < 0) {
      return -1;
    }
    d->args.app_data =
        d->app_data.span.ptr != NULL ? d->app_data.span : nm_span_of("", 0);
  }
  if (!nm_py_absent(o->transport_id)) {
    if (nm_py_address_field(state, o->transport_id, NM_PY_IDENTITY_HASH,
                            function, "transport_id", d->transport_id) < 0) {
      return -1;
    }
    d->args.transport_id = d->transport_id;
  }
  return 0;
}

PyObject *nm_py_announce_create(nm_state *state, const nm_identity *identity,
                                const uint8_t name_hash[NM_NAME_HASH_SIZE],
                                const nm_py_announce_options *options,
                                const char *function) {
  draft d = {.args = {.identity = identity, .name_hash = name_hash}};
  nm_fault fault = {NM_OK, NULL, 0};
  uint8_t out[NM_MTU];
  size_t len = 0;
  nm_py_buffer_init(&d.app_data);
  if (draft_read(state, &d, options, function) < 0) {
    nm_py_buffer_release(&d.app_data);
    return NULL;
  }
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_announce_create(&d.args, out, sizeof out, &len, &fault);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&d.app_data);
  if (status != NM_OK) {
    return nm_py_raise_encode(state, &fault, "announce");
  }
  return announce_from_packet(
      state, nm_py_packet_from_raw(state, nm_py_bytes(nm_span_of(out, len))));
}

PyDoc_STRVAR(
    announce_doc,
    "An announce, made or received (RNS 1, 5).\n\n"
    "Announce.create signs one, Announce.unpack parses one. Fields are parsed "
    "once; the\nsignature is checked only by validate(), whose result the "
    "object remembers.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> identity = Identity()\n"
    ">>> a = Announce.create(identity, 'lxmf.delivery', app_data=b'hi')\n"
    ">>> b = Announce.unpack(a.raw)\n"
    ">>> b == a and b.app_data == b'hi' and b.matches('lxmf.delivery')\n"
    "True\n"
    ">>> b.validate()\n"
    "<Verdict.VALID: 'VALID'>\n");

PyDoc_STRVAR(
    create_doc,
    "create($type, identity, name, /, *, app_data=None, ratchet=None,\n"
    "       emitted=None, random=None, path_response=False, hops=0,\n"
    "       transport_id=None)\n--\n\n"
    "Signs an announce of a name (dotted text, or its 10-byte name hash) by an "
    "identity.\n\n"
    "app_data is a bytes-like object; None and b'' differ only with a ratchet. "
    "ratchet is a\n32-byte public key. emitted (Unix seconds) and random (5 "
    "bytes) default to the\nsystem's. transport_id (16 bytes) gives a header "
    "of type 1, as relays send it.\n\n"
    "Raises KeyMissingError without private keys, EncodeError 'TOO_LARGE' "
    "above 500 bytes\nand 'RANGE' for a time of 2**40 and more. Releases the "
    "GIL.");

static PyObject *announce_create(PyObject *cls, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Announce.create",
      9,
      2,
      2,
      2,
      {NM_STR_identity, NM_STR_name, NM_STR_app_data, NM_STR_ratchet,
       NM_STR_emitted, NM_STR_random, NM_STR_path_response, NM_STR_hops,
       NM_STR_transport_id}};
  static const char function[] = "Announce.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[9];
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, a[0], function, "identity");
  if (identity == NULL || nm_py_name_hash_of(a[1], function, name_hash) < 0) {
    return NULL;
  }
  nm_py_announce_options options = {a[2], a[3], a[4], a[5], a[6], a[7], a[8]};
  return nm_py_announce_create(state, identity, name_hash, &options, function);
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, raw, /)\n--\n\n"
             "Parses the announce in a Packet or in the bytes of one.\n\n"
             "Raises DecodeError 'TYPE' for another packet, 'TOO_LARGE' above "
             "500 bytes,\n'TRUNCATED' naming the field that is not complete, "
             "and the errors of\nPacket.unpack.");

static PyObject *announce_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  return announce_from_packet(
      state, nm_py_packet_of(state, arg, "Announce.unpack", "raw"));
}

/* -------------------------------------------------------------- validation */

/* Checks what is not known yet. Called without the GIL on a copy of what is
 * known, which the caller stores. */
typedef struct check {
  const nm_announce *view;
  bool signature_only;
  uint8_t signature;
  uint8_t destination;
} check;

static void check_run(check *c) {
  if (c->signature == UNKNOWN) {
    nm_announce_verdict verdict =
        nm_announce_validate(c->view, c->signature_only, NULL);
    c->signature = verdict == NM_ANNOUNCE_BAD_SIGNATURE ? BAD : GOOD;
    if (c->signature == GOOD && !c->signature_only) {
      c->destination = verdict == NM_ANNOUNCE_VALID ? GOOD : BAD;
    }
  }
  if (c->signature == GOOD && !c->signature_only && c->destination == UNKNOWN) {
    c->destination =
        nm_announce_matches(c->view, c->view->name_hash.ptr) ? GOOD : BAD;
  }
}

static check check_of(PyObject *self, bool signature_only) {
  nm_py_announce *announce = self_of(self);
  check c = {&announce->view, signature_only, announce->signature,
             announce->destination};
  return c;
}

/* Stores what |c| found out and says what it amounts to. */
static nm_announce_verdict check_store(const check *c, PyObject *self) {
  self_of(self)->signature = c->signature;
  if (c->destination != UNKNOWN) {
    self_of(self)->destination = c->destination;
  }
  if (c->signature == BAD) {
    return NM_ANNOUNCE_BAD_SIGNATURE;
  }
  return c->signature_only || c->destination == GOOD
             ? NM_ANNOUNCE_VALID
             : NM_ANNOUNCE_BAD_DESTINATION;
}

PyDoc_STRVAR(
    validate_doc,
    "validate($self, /, *, signature_only=False, "
    "expected_public_key=None)\n--\n\n"
    "Checks the signature, then that key and name give the destination, then, "
    "when one is\nexpected, that the key is that one (64 bytes): a Verdict "
    "(RNS 1, 5.5).\n\n"
    "With signature_only the signature alone is checked. The object remembers "
    "what was\nchecked, so that a second call costs nothing. Releases the "
    "GIL.");

static PyObject *announce_validate(PyObject *self, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Announce.validate",
      2,
      0,
      0,
      0,
      {NM_STR_signature_only, NM_STR_expected_public_key}};
  static const char function[] = "Announce.validate";
  nm_state *state = nm_py_state_of(self);
  PyObject *a[2];
  bool signature_only = false;
  uint8_t expected[NM_PUBLIC_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[0] != NULL &&
       nm_py_bool(a[0], function, "signature_only", &signature_only) < 0) ||
      (!nm_py_absent(a[1]) && nm_py_exact(a[1], function, "expected_public_key",
                                          expected, sizeof expected) < 0)) {
    return NULL;
  }
  check c = check_of(self, signature_only);
  if (c.signature == UNKNOWN) {
    Py_BEGIN_ALLOW_THREADS;
    check_run(&c);
    Py_END_ALLOW_THREADS;
  } else {
    check_run(&c);
  }
  nm_announce_verdict verdict = check_store(&c, self);
  if (verdict == NM_ANNOUNCE_VALID && !signature_only && !nm_py_absent(a[1]) &&
      !nm_span_equal(self_of(self)->view.public_key,
                     nm_span_of(expected, sizeof expected))) {
    verdict = NM_ANNOUNCE_KEY_MISMATCH;
  }
  return Py_NewRef(nm_py_verdict(state, verdict));
}

static void validate_slice(void *context, size_t begin, size_t end) {
  check *checks = (check *)context;
  for (size_t i = begin; i < end; i++) {
    check_run(&checks[i]);
  }
}

/* Verdicts of a tuple of Announces. */
static PyObject *validate_all(nm_state *state, PyObject *items,
                              size_t threads) {
  size_t count = (size_t)PyTuple_GET_SIZE(items);
  for (size_t i = 0; i < count; i++) {
    PyObject *item = PyTuple_GET_ITEM(items, (Py_ssize_t)i);
    if (!Py_IS_TYPE(item, NM_PY_TYPE(state, Announce))) {
      nm_py_type_error("Announce.validate_many", "announces",
                       "a sequence of Announce", item);
      return NULL;
    }
  }
  check *checks = PyMem_Malloc((count + 1) * sizeof *checks);
  PyObject *list =
      checks != NULL ? PyList_New((Py_ssize_t)count) : PyErr_NoMemory();
  if (list != NULL) {
    for (size_t i = 0; i < count; i++) {
      checks[i] = check_of(PyTuple_GET_ITEM(items, (Py_ssize_t)i), false);
    }
    Py_BEGIN_ALLOW_THREADS;
    nm_py_parallel(validate_slice, checks, count, threads);
    Py_END_ALLOW_THREADS;
    for (size_t i = 0; i < count; i++) {
      PyObject *item = PyTuple_GET_ITEM(items, (Py_ssize_t)i);
      PyObject *verdict = nm_py_verdict(state, check_store(&checks[i], item));
      PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(verdict));
    }
  }
  PyMem_Free(checks);
  return list;
}

PyDoc_STRVAR(validate_many_doc,
             "validate_many($type, announces, /, *, threads=1)\n--\n\n"
             "Validates a sequence of announces in full on up to 256 threads; "
             "a list of Verdicts.\nReleases the GIL.");

static PyObject *announce_validate_many(PyObject *cls, PyObject *const *args,
                                        Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Announce.validate_many", 2, 1, 1, 1, {NM_STR_announces, NM_STR_threads}};
  static const char function[] = "Announce.validate_many";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[2];
  long long threads = 1;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], function, "threads", 1,
                                 NM_PY_THREADS_MAX, &threads) < 0)) {
    return NULL;
  }
  PyObject *items =
      nm_py_sequence(a[0], function, "announces", "a sequence of Announce");
  PyObject *result =
      items != NULL ? validate_all(state, items, (size_t)threads) : NULL;
  Py_XDECREF(items);
  return result;
}

PyDoc_STRVAR(matches_doc,
             "matches($self, name, /)\n--\n\n"
             "Whether it is an announce of that dotted name by the announced "
             "identity.");

static PyObject *announce_matches(PyObject *self, PyObject *arg) {
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_span name;
  if (nm_py_text(arg, "Announce.matches", "name", &name) < 0) {
    return NULL;
  }
  nm_name_hash(name_hash, name);
  return PyBool_FromLong(nm_announce_matches(&self_of(self)->view, name_hash));
}

/* -------------------------------------------------------------- properties */

static const nm_announce *view_of(PyObject *self) {
  return &self_of(self)->view;
}

static PyObject *get_packet(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(self_of(self)->packet);
}

static PyObject *get_raw(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(((nm_py_packet *)self_of(self)->packet)->raw);
}

/* A field that is always there: the closure is the offset of its span. */
static PyObject *get_span(PyObject *self, void *closure) {
  const char *view = (const char *)view_of(self);
  const nm_span *span =
      (const nm_span *)(const void *)(view + (uintptr_t)closure);
  return nm_py_bytes(*span);
}

static PyObject *get_destination_hash(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self),
                                    view_of(self)->packet.destination.ptr);
}

static PyObject *get_identity(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_announce *announce = self_of(self);
  if (announce->identity == NULL) {
    announce->identity = nm_py_identity_from_public(
        nm_py_state_of(self), announce->view.public_key.ptr);
  }
  return Py_XNewRef(announce->identity);
}

static PyObject *get_identity_hash(PyObject *self, void *Py_UNUSED(closure)) {
  nm_identity_hash hash;
  nm_announce_identity_hash(view_of(self), &hash);
  return nm_py_identity_hash_new(nm_py_state_of(self), hash.b);
}

static PyObject *get_emitted(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(view_of(self)->emitted);
}

static PyObject *get_ratchet(PyObject *self, void *Py_UNUSED(closure)) {
  if (view_of(self)->ratchet.len == 0) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(view_of(self)->ratchet);
}

static PyObject *get_ratchet_id(PyObject *self, void *Py_UNUSED(closure)) {
  uint8_t id[NM_RATCHET_ID_SIZE];
  if (view_of(self)->ratchet.len == 0) {
    Py_RETURN_NONE;
  }
  nm_ratchet_id(id, view_of(self)->ratchet.ptr);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyObject *get_app_data(PyObject *self, void *Py_UNUSED(closure)) {
  if (!view_of(self)->has_app_data) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(view_of(self)->app_data);
}

static PyObject *get_signed_data(PyObject *self, void *Py_UNUSED(closure)) {
  uint8_t out[NM_ANNOUNCE_SIGNED_MAX];
  nm_writer w = nm_writer_of(out, sizeof out);
  int status = nm_announce_signed(&w, view_of(self));
  return status == NM_OK ? nm_py_bytes(nm_writer_done(&w))
                         : nm_py_raise_status(nm_py_state_of(self), status,
                                              "announce", "signed_data");
}

static PyObject *get_hops(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(view_of(self)->packet.hops);
}

static PyObject *get_context(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(view_of(self)->packet.context);
}

static PyObject *get_path_response(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(view_of(self)->packet.context ==
                         NM_CONTEXT_PATH_RESPONSE);
}

/* ------------------------------------------------------------------- value */

static PyObject *announce_repr(PyObject *self) {
  PyObject *hex = nm_py_hex(view_of(self)->packet.destination);
  PyObject *text =
      hex != NULL
          ? PyUnicode_FromFormat("<Announce of %U, emitted %llu, %d hops>", hex,
                                 (unsigned long long)view_of(self)->emitted,
                                 (int)view_of(self)->packet.hops)
          : NULL;
  Py_XDECREF(hex);
  return text;
}

static PyObject *announce_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyObject_RichCompare(self_of(self)->packet, self_of(other)->packet,
                              op);
}

static Py_hash_t announce_hash(PyObject *self) {
  return PyObject_Hash(self_of(self)->packet);
}

static PyObject *announce_reduce(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return Py_BuildValue(
      "N(O)", PyObject_GetAttrString((PyObject *)Py_TYPE(self), "unpack"),
      self_of(self)->packet);
}

#define GETTER(name, doc)                                                      \
  { #name, get_##name, NULL, doc, NULL }
#define SPAN(name, doc)                                                        \
  { #name, get_span, NULL, doc, (void *)offsetof(nm_announce, name) }

static PyGetSetDef announce_getset[] = {
    GETTER(raw, "The bytes of the packet."),
    GETTER(packet, "The Packet."),
    GETTER(destination_hash, "The address in the header."),
    GETTER(identity, "The announced Identity, public keys only."),
    GETTER(identity_hash, "The hash of the announced identity."),
    SPAN(public_key, "The 64 announced public bytes."),
    SPAN(name_hash, "The 10-byte hash of the name."),
    SPAN(random_hash, "10 bytes: 5 random ones, then the time of emission."),
    GETTER(emitted, "The time of emission, whole Unix seconds."),
    GETTER(ratchet, "The announced ratchet public key (32 bytes), or None."),
    GETTER(ratchet_id, "The id (10 bytes) of the ratchet, or None."),
    SPAN(signature, "The 64-byte signature."),
    GETTER(app_data, "The app data; None when there is none."),
    GETTER(signed_data, "What the signature covers."),
    GETTER(hops, "The hop count on the wire."),
    GETTER(context, "The context byte: 0, or 0x0b for a path response."),
    GETTER(path_response, "Whether it answers a path request."),
    {NULL, NULL, NULL, NULL, NULL}};

#define KEYWORDS(name, flags)                                                  \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))announce_##name,                       \
        METH_FASTCALL | METH_KEYWORDS | (flags), name##_doc                    \
  }

static PyMethodDef announce_methods[] = {
    KEYWORDS(create, METH_CLASS),
    {"unpack", announce_unpack, METH_O | METH_CLASS, unpack_doc},
    {"matches", announce_matches, METH_O, matches_doc},
    KEYWORDS(validate, 0),
    KEYWORDS(validate_many, METH_CLASS),
    {"__reduce__", announce_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot announce_slots[] = {
    {Py_tp_doc, (void *)announce_doc},
    {Py_tp_dealloc, (void *)announce_dealloc},
    {Py_tp_repr, (void *)announce_repr},
    {Py_tp_richcompare, (void *)announce_compare},
    {Py_tp_hash, (void *)announce_hash},
    {Py_tp_methods, announce_methods},
    {Py_tp_getset, announce_getset},
    {0, NULL}};

static PyType_Spec announce_spec = {.name = "netmesh._core.Announce",
                                    .basicsize = sizeof(nm_py_announce),
                                    .flags = NM_PY_FLAGS |
                                             Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = announce_slots};

int nm_py_announce_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Announce, &announce_spec, NULL,
                        NULL);
}
