/* netmesh.Destination. */
#include "wire/destination.h"

#include "crypto/token.h"
#include "py/announce.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/names.h"
#include "py/packet.h"
#include "py/token.h"
#include "py/value.h"

typedef struct nm_py_destination {
  PyObject_HEAD
  PyObject *identity;         /* an Identity, or None */
  PyObject *name;             /* str */
  PyObject *default_app_data; /* bytes, a callable, or None */
  nm_destination_hash hash;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  uint8_t type;
  uint8_t proof_strategy;
  bool in;
  size_t group_key_len;                 /* 0: no key */
  uint8_t group_key[NM_TOKEN_KEY_SIZE]; /* a secret; wiped by dealloc */
} nm_py_destination;

static nm_py_destination *self_of(PyObject *self) {
  return (nm_py_destination *)self;
}

static const char *const type_names[] = {"SINGLE", "GROUP", "PLAIN"};

/* ------------------------------------------------------------ construction */

static int value_error(const char *text) {
  PyErr_SetString(PyExc_ValueError, text);
  return -1;
}

static int read_direction(PyObject *obj, bool *in) {
  nm_span text;
  *in = true;
  if (obj == NULL) {
    return 0;
  }
  if (nm_py_text(obj, "Destination", "direction", &text) < 0) {
    return -1;
  }
  *in = nm_span_equal(text, nm_span_of("IN", 2));
  if (!*in && !nm_span_equal(text, nm_span_of("OUT", 3))) {
    PyErr_Format(PyExc_ValueError,
                 "Destination() parameter 'direction' must be 'IN' or 'OUT', "
                 "not %R",
                 obj);
    return -1;
  }
  return 0;
}

/* Numbers, direction, and the rules that bind them to the identity (RNS 1,
 * 3.2). */
static int read_rules(nm_state *state, nm_py_destination *self,
                      PyObject *identity, PyObject *type, PyObject *direction,
                      PyObject *strategy) {
  long long number = NM_SINGLE;
  long long proofs = NM_PROVE_NONE;
  if (identity != Py_None && !nm_py_is_identity(state, identity)) {
    return nm_py_type_error("Destination", "identity", "an Identity or None",
                            identity);
  }
  if ((type != NULL && nm_py_int(type, "Destination", "type", NM_SINGLE,
                                 NM_PLAIN, &number) < 0) ||
      (strategy != NULL &&
       nm_py_int(strategy, "Destination", "proof_strategy", NM_PROVE_NONE,
                 NM_PROVE_ALL, &proofs) < 0) ||
      read_direction(direction, &self->in) < 0) {
    return -1;
  }
  self->type = (uint8_t)number;
  self->proof_strategy = (uint8_t)proofs;
  switch (nm_destination_check(self->in ? NM_DIRECTION_IN : NM_DIRECTION_OUT,
                               self->type, identity != Py_None, NULL)) {
  case NM_E(STATE):
    return value_error("a PLAIN destination has no identity");
  case NM_E(MISSING):
    return value_error("an OUT destination needs an identity");
  default:
    return 0;
  }
}

/* Sets identity, name and what is derived from them. An IN destination without
 * an identity makes its own and shows it in its name. */
static int set_names(nm_state *state, nm_py_destination *self,
                     PyObject *identity, PyObject *name) {
  const nm_identity *keys = NULL;
  nm_span text;
  if (identity == Py_None && self->type != NM_PLAIN) {
    self->identity =
        PyObject_CallNoArgs((PyObject *)NM_PY_TYPE(state, Identity));
  } else {
    self->identity = Py_NewRef(identity);
  }
  if (self->identity == NULL ||
      nm_py_text(name, "Destination", "name", &text) < 0) {
    return -1;
  }
  if (self->identity != Py_None) {
    keys =
        nm_py_identity_public(state, self->identity, "Destination", "identity");
    if (keys == NULL) {
      return -1;
    }
  }
  self->name = self->identity == identity
                   ? Py_NewRef(name)
                   : nm_py_name_expand(name, keys->hash.b);
  if (self->name == NULL ||
      nm_py_name_hash_of(self->name, "Destination", self->name_hash) < 0) {
    return -1;
  }
  nm_destination_address(self->name_hash, keys != NULL ? &keys->hash : NULL,
                         &self->hash);
  return 0;
}

/* Takes the given group key over, or makes one for an IN destination. */
static int set_group_key(nm_state *state, nm_py_destination *self,
                         PyObject *key) {
  if (self->type != NM_GROUP) {
    return nm_py_absent(key)
               ? 0
               : value_error("only a GROUP destination has a group key");
  }
  if (nm_py_absent(key)) {
    self->group_key_len = self->in ? NM_TOKEN_KEY_SIZE : 0;
    return self->in
               ? nm_py_exact_or_random(state, NULL, "Destination", "group_key",
                                       self->group_key, NM_TOKEN_KEY_SIZE)
               : 0;
  }
  nm_py_buffer buf;
  if (nm_py_buffer_get(key, "Destination", "group_key", &buf) < 0) {
    return -1;
  }
  size_t len = buf.span.len;
  if (len == NM_TOKEN_KEY_SIZE || len == NM_TOKEN_KEY_SIZE_128) {
    memcpy(self->group_key, buf.span.ptr, len);
    self->group_key_len = len;
  } else {
    PyErr_Format(PyExc_ValueError,
                 "Destination() parameter 'group_key' must be 32 or 64 bytes "
                 "long, not %zu",
                 len);
  }
  nm_py_buffer_release(&buf);
  return self->group_key_len != 0 ? 0 : -1;
}

static int set_app_data(nm_py_destination *self, PyObject *app_data) {
  if (nm_py_absent(app_data)) {
    self->default_app_data = Py_NewRef(Py_None);
  } else if (PyCallable_Check(app_data)) {
    self->default_app_data = Py_NewRef(app_data);
  } else {
    self->default_app_data =
        nm_py_bytes_of(app_data, "Destination", "default_app_data");
  }
  return self->default_app_data != NULL ? 0 : -1;
}

PyDoc_STRVAR(
    destination_doc,
    "Destination(identity, name, /, *, type=0, direction='IN', "
    "group_key=None,\n            proof_strategy=33, "
    "default_app_data=None)\n--\n\n"
    "A named endpoint: type, direction, identity and keys (RNS 1, 3).\n\n"
    "type is 0 SINGLE, 1 GROUP or 2 PLAIN; direction 'IN' (it receives) or "
    "'OUT' (it is sent\nto). An OUT destination needs an identity unless it is "
    "PLAIN; a PLAIN one has none; an\nIN destination without one makes its own "
    "and appends its hexadecimal hash to the name.\ngroup_key (32 or 64 bytes) "
    "is for GROUP alone, and made when an IN destination is given\nnone. "
    "proof_strategy is 0x21 never, 0x22 ask, 0x23 always. default_app_data, "
    "bytes or a\nfunction without arguments, is for announces that are given "
    "no app data.\n\n"
    "Raises ValueError for combinations and values that are not allowed. "
    "Immutable; may be\nused from any thread. Pickling is refused.\n\n"
    ">>> identity = Identity()\n"
    ">>> inbox = Destination(identity, 'app.inbox')\n"
    ">>> outbox = Destination(identity.public_only(), 'app.inbox', "
    "direction='OUT')\n"
    ">>> inbox.hash == outbox.hash\n"
    "True\n"
    ">>> inbox.open(outbox.packet(b'hello').payload).plaintext\n"
    "b'hello'\n");

static PyObject *destination_construct(PyObject *type, PyObject *const *args,
                                       size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Destination",
      7,
      2,
      2,
      2,
      {NM_STR_identity, NM_STR_name, NM_STR_type, NM_STR_direction,
       NM_STR_group_key, NM_STR_proof_strategy, NM_STR_default_app_data}};
  PyTypeObject *cls = (PyTypeObject *)type;
  nm_state *state = nm_py_state_of_type(cls);
  PyObject *a[7];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0) {
    return NULL;
  }
  nm_py_destination *self = (nm_py_destination *)cls->tp_alloc(cls, 0);
  if (self != NULL &&
      (read_rules(state, self, a[0], a[2], a[3], a[5]) < 0 ||
       set_group_key(state, self, a[4]) < 0 || set_app_data(self, a[6]) < 0 ||
       set_names(state, self, a[0], a[1]) < 0)) {
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

static int destination_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_of(self)->identity);
  Py_VISIT(self_of(self)->name);
  Py_VISIT(self_of(self)->default_app_data);
  return 0;
}

static int destination_clear(PyObject *self) {
  Py_CLEAR(self_of(self)->identity);
  Py_CLEAR(self_of(self)->name);
  Py_CLEAR(self_of(self)->default_app_data);
  return 0;
}

static void destination_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  destination_clear(self);
  nm_wipe(self_of(self)->group_key, NM_TOKEN_KEY_SIZE);
  type->tp_free(self);
  Py_DECREF(type);
}

/* ------------------------------------------------------ sealing and opening */

/* ValueError: this type of destination has no such option. */
static int refuse(const nm_py_destination *self, const char *option) {
  PyErr_Format(PyExc_ValueError, "a %s destination has no %s",
               type_names[self->type], option);
  return -1;
}

/* Refuses the options "ratchet", "ephemeral_private" and, unless |iv|, "iv". */
static int refuse_options(const nm_py_destination *self,
                          PyObject *const options[3], bool iv) {
  static const char *const names[3] = {"ratchet", "ephemeral_private", "iv"};
  for (size_t i = 0; i < (iv ? 2 : 3); i++) {
    if (!nm_py_absent(options[i])) {
      return refuse(self, names[i]);
    }
  }
  return 0;
}

/* The key of a GROUP destination, which the caller wipes. */
static int group_token(nm_state *state, const nm_py_destination *self,
                       nm_token_key *key) {
  if (self->group_key_len == 0) {
    nm_py_simple_error(state, NM_ERROR_KeyMissingError, NM_E(NO_KEY),
                       "the destination holds no group key");
    return -1;
  }
  return nm_token_key_init(
             key, nm_span_of(self->group_key, self->group_key_len)) == NM_OK
             ? 0
             : -1;
}

static PyObject *seal_group(nm_state *state, const nm_py_destination *self,
                            nm_span plain, PyObject *const options[3],
                            const char *function) {
  uint8_t iv[NM_AES_BLOCK];
  nm_token_key key;
  bool given = !nm_py_absent(options[2]);
  if (refuse_options(self, options, true) < 0 ||
      (given && nm_py_exact(options[2], function, "iv", iv, sizeof iv) < 0) ||
      group_token(state, self, &key) < 0) {
    return NULL;
  }
  PyObject *result = nm_py_token_seal(state, &key, given ? iv : NULL, plain);
  nm_token_key_wipe(&key);
  return result;
}

static PyObject *seal_single(nm_state *state, const nm_py_destination *self,
                             nm_span plain, PyObject *const options[3],
                             const char *function) {
  nm_py_encrypt_options chosen;
  const nm_identity *identity =
      nm_py_identity_public(state, self->identity, function, "identity");
  PyObject *result = NULL;
  if (identity != NULL &&
      nm_py_encrypt_options_read(options, function, &chosen) == 0) {
    result = nm_py_identity_encrypt(state, identity, plain, &chosen);
  }
  nm_wipe(&chosen, sizeof chosen);
  return result;
}

/* What the type does to a payload. */
static PyObject *seal_span(nm_state *state, const nm_py_destination *self,
                           nm_span plain, PyObject *const options[3],
                           const char *function) {
  if (self->type == NM_SINGLE) {
    return seal_single(state, self, plain, options, function);
  }
  if (self->type == NM_GROUP) {
    return seal_group(state, self, plain, options, function);
  }
  return refuse_options(self, options, false) < 0 ? NULL : nm_py_bytes(plain);
}

PyDoc_STRVAR(
    seal_doc,
    "seal($self, plaintext, /, *, ratchet=None, ephemeral_private=None, "
    "iv=None)\n--\n\n"
    "What the type does to a payload: SINGLE encrypts to the identity, GROUP "
    "seals under the\ngroup key, PLAIN passes through.\n\n"
    "The options are those of Identity.encrypt; GROUP has only iv, PLAIN "
    "none, and another\none is a ValueError.");

static PyObject *destination_seal(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Destination.seal",
      4,
      1,
      1,
      1,
      {NM_STR_plaintext, NM_STR_ratchet, NM_STR_ephemeral_private, NM_STR_iv}};
  static const char function[] = "Destination.seal";
  nm_state *state = nm_py_state_of(self);
  PyObject *a[4];
  nm_py_buffer plain;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_buffer_get(a[0], function, "plaintext", &plain) < 0) {
    return NULL;
  }
  PyObject *result =
      seal_span(state, self_of(self), plain.span, a + 1, function);
  nm_py_buffer_release(&plain);
  return result;
}

/* Opens with a group key, or passes through. */
static PyObject *open_shared(nm_state *state, const nm_py_destination *self,
                             nm_span in) {
  PyObject *plain = NULL;
  nm_token_key key;
  if (self->type == NM_PLAIN) {
    plain = nm_py_bytes(in);
  } else if (group_token(state, self, &key) == 0) {
    plain = nm_py_token_open(state, &key, in, "token");
    nm_token_key_wipe(&key);
  }
  return nm_py_decrypted_new(state, plain, NULL, 0);
}

PyDoc_STRVAR(
    open_doc,
    "open($self, ciphertext, /, *, ratchets=(), enforce_ratchets=False)\n"
    "--\n\n"
    "The inverse of seal: a Decrypted. The options are those of "
    "Identity.decrypt, for SINGLE\nalone.");

static PyObject *destination_open(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Destination.open",
      3,
      1,
      1,
      1,
      {NM_STR_ciphertext, NM_STR_ratchets, NM_STR_enforce_ratchets}};
  static const char function[] = "Destination.open";
  nm_state *state = nm_py_state_of(self);
  const nm_py_destination *destination = self_of(self);
  PyObject *a[3];
  bool enforce = false;
  nm_py_buffer in;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[2] != NULL &&
       nm_py_bool(a[2], function, "enforce_ratchets", &enforce) < 0) ||
      nm_py_buffer_get(a[0], function, "ciphertext", &in) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (destination->type == NM_SINGLE) {
    const nm_identity *identity = nm_py_identity_private(
        state, destination->identity, function, "identity");
    if (identity != NULL) {
      result = nm_py_identity_decrypt(state, identity, in.span, a[1], enforce,
                                      function);
    }
  } else if (enforce) {
    refuse(destination, "enforce_ratchets");
  } else {
    int some = a[1] != NULL ? PyObject_IsTrue(a[1]) : 0;
    if (some > 0) {
      refuse(destination, "ratchets");
    } else if (some == 0) {
      result = open_shared(state, destination, in.span);
    }
  }
  nm_py_buffer_release(&in);
  return result;
}

/* ----------------------------------------------------- packets and announces
 */

PyDoc_STRVAR(
    packet_doc,
    "packet($self, plaintext, /, *, context=0, **keys)\n--\n\n"
    "A DATA packet to this destination, sealed unless such a packet travels "
    "in clear. Each\ncall is fresh ciphertext. keys are the options of "
    "seal.");

static PyObject *destination_packet(PyObject *self, PyObject *const *args,
                                    Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Destination.packet",
      5,
      1,
      1,
      1,
      {NM_STR_plaintext, NM_STR_context, NM_STR_ratchet,
       NM_STR_ephemeral_private, NM_STR_iv}};
  static const char function[] = "Destination.packet";
  nm_state *state = nm_py_state_of(self);
  const nm_py_destination *destination = self_of(self);
  PyObject *a[5];
  long long context = NM_CONTEXT_NONE;
  nm_py_buffer plain;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL &&
       nm_py_int(a[1], function, "context", 0, 0xff, &context) < 0) ||
      nm_py_buffer_get(a[0], function, "plaintext", &plain) < 0) {
    return NULL;
  }
  PyObject *payload = NULL;
  if (!nm_packet_travels_in_clear(NM_DATA, destination->type,
                                  (uint8_t)context)) {
    payload = seal_span(state, destination, plain.span, a + 2, function);
  } else if (refuse_options(destination, a + 2, false) == 0) {
    payload = nm_py_bytes(plain.span);
  }
  nm_py_buffer_release(&plain);
  if (payload == NULL) {
    return NULL;
  }
  nm_packet view = nm_packet_of(NM_DATA, destination->type, (uint8_t)context,
                                destination->hash.b,
                                nm_span_of(PyBytes_AS_STRING(payload),
                                           (size_t)PyBytes_GET_SIZE(payload)));
  PyObject *packet = nm_py_packet_from_view(state, &view, NM_MTU);
  Py_DECREF(payload);
  return packet;
}

PyDoc_STRVAR(
    announce_doc,
    "announce($self, app_data=..., /, *, ratchet=None, emitted=None,\n"
    "         random=None, path_response=False)\n--\n\n"
    "A signed announce of this destination; ValueError unless it is SINGLE "
    "and IN.\n\n"
    "app_data left out means the default app data of the destination. The "
    "other arguments\nare those of Announce.create.");

/* The app data to announce, a new reference. */
static PyObject *choose_app_data(const nm_py_destination *self,
                                 PyObject *given) {
  if (given != NULL && given != Py_Ellipsis) {
    return Py_NewRef(given);
  }
  return PyCallable_Check(self->default_app_data)
             ? PyObject_CallNoArgs(self->default_app_data)
             : Py_NewRef(self->default_app_data);
}

static PyObject *destination_announce(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {"Destination.announce",
                                            5,
                                            0,
                                            1,
                                            1,
                                            {NM_STR_app_data, NM_STR_ratchet,
                                             NM_STR_emitted, NM_STR_random,
                                             NM_STR_path_response}};
  static const char function[] = "Destination.announce";
  nm_state *state = nm_py_state_of(self);
  const nm_py_destination *destination = self_of(self);
  PyObject *a[5];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0) {
    return NULL;
  }
  if (!destination->in || destination->type != NM_SINGLE) {
    value_error("only a SINGLE destination of direction IN is announced");
    return NULL;
  }
  const nm_identity *identity = nm_py_identity_private(
      state, destination->identity, function, "identity");
  PyObject *app_data =
      identity != NULL ? choose_app_data(destination, a[0]) : NULL;
  if (app_data == NULL) {
    return NULL;
  }
  nm_py_announce_options options = {.app_data = app_data,
                                    .ratchet = a[1],
                                    .emitted = a[2],
                                    .random = a[3],
                                    .path_response = a[4]};
  PyObject *result = nm_py_announce_create(
      state, identity, destination->name_hash, &options, function);
  Py_DECREF(app_data);
  return result;
}

/* -------------------------------------------------------------- properties */

static PyObject *get_identity(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(self_of(self)->identity);
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(self_of(self)->name);
}

static PyObject *get_full_name(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_py_destination *destination = self_of(self);
  if (destination->identity == Py_None) {
    return Py_NewRef(destination->name);
  }
  const nm_identity *identity =
      nm_py_identity_public(nm_py_state_of(self), destination->identity,
                            "Destination.full_name", "identity");
  return identity != NULL
             ? nm_py_name_expand(destination->name, identity->hash.b)
             : NULL;
}

static PyObject *get_name_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(nm_span_of(self_of(self)->name_hash, NM_NAME_HASH_SIZE));
}

static PyObject *get_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self),
                                    self_of(self)->hash.b);
}

static PyObject *get_type(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(self_of(self)->type);
}

static PyObject *get_direction(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(self_of(self)->in ? "IN" : "OUT");
}

static PyObject *get_group_key(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_py_destination *destination = self_of(self);
  if (destination->group_key_len == 0) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(
      nm_span_of(destination->group_key, destination->group_key_len));
}

static PyObject *get_proof_strategy(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(self_of(self)->proof_strategy);
}

/* ------------------------------------------------------------------- value */

static PyObject *destination_repr(PyObject *self) {
  const nm_py_destination *destination = self_of(self);
  PyObject *hex = nm_py_hex(nm_span_of(destination->hash.b, NM_ADDRESS_SIZE));
  PyObject *text = hex != NULL
                       ? PyUnicode_FromFormat("<Destination %s %s %U %U>",
                                              type_names[destination->type],
                                              destination->in ? "IN" : "OUT",
                                              destination->name, hex)
                       : NULL;
  Py_XDECREF(hex);
  return text;
}

static bool same_numbers(const nm_py_destination *a,
                         const nm_py_destination *b) {
  return a->type == b->type && a->in == b->in &&
         a->proof_strategy == b->proof_strategy &&
         a->group_key_len == b->group_key_len &&
         nm_equal_ct(a->group_key, b->group_key, NM_TOKEN_KEY_SIZE);
}

static PyObject *destination_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const nm_py_destination *a = self_of(self);
  const nm_py_destination *b = self_of(other);
  int equal = same_numbers(a, b);
  if (equal > 0) {
    equal = PyObject_RichCompareBool(a->name, b->name, Py_EQ);
  }
  if (equal > 0) {
    equal = PyObject_RichCompareBool(a->identity, b->identity, Py_EQ);
  }
  if (equal > 0) {
    equal = PyObject_RichCompareBool(a->default_app_data, b->default_app_data,
                                     Py_EQ);
  }
  return equal < 0 ? NULL : PyBool_FromLong((equal == 1) == (op == Py_EQ));
}

static Py_hash_t destination_hash(PyObject *self) {
  return nm_py_hash_bytes(nm_span_of(self_of(self)->hash.b, NM_ADDRESS_SIZE));
}

#define GETTER(name, doc)                                                      \
  { #name, get_##name, NULL, doc, NULL }

static PyGetSetDef destination_getset[] = {
    GETTER(identity, "The Identity; None for a PLAIN destination."),
    GETTER(name, "The dotted name, which is hashed."),
    GETTER(full_name,
           "The name followed by the hexadecimal identity hash, for people."),
    GETTER(name_hash, "The 10-byte hash of the name."),
    GETTER(hash, "The address: a DestinationHash."),
    GETTER(type, "0 SINGLE, 1 GROUP, 2 PLAIN."),
    GETTER(direction, "'IN' or 'OUT'."),
    GETTER(group_key, "The group key (32 or 64 bytes), or None."),
    GETTER(proof_strategy, "0x21 never, 0x22 ask the program, 0x23 always."),
    {NULL, NULL, NULL, NULL, NULL}};

#define KEYWORDS(name)                                                         \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))destination_##name,                    \
        METH_FASTCALL | METH_KEYWORDS, name##_doc                              \
  }

static PyMethodDef destination_methods[] = {
    KEYWORDS(seal),     KEYWORDS(open),      KEYWORDS(packet),
    KEYWORDS(announce), NM_PY_REFUSE_PICKLE, {NULL, NULL, 0, NULL}};

static PyType_Slot destination_slots[] = {
    {Py_tp_doc, (void *)destination_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)destination_dealloc},
    {Py_tp_traverse, (void *)destination_traverse},
    {Py_tp_clear, (void *)destination_clear},
    {Py_tp_repr, (void *)destination_repr},
    {Py_tp_richcompare, (void *)destination_compare},
    {Py_tp_hash, (void *)destination_hash},
    {Py_tp_methods, destination_methods},
    {Py_tp_getset, destination_getset},
    {0, NULL}};

static PyType_Spec destination_spec = {.name = "netmesh._core.Destination",
                                       .basicsize = sizeof(nm_py_destination),
                                       .flags =
                                           NM_PY_FLAGS | Py_TPFLAGS_HAVE_GC,
                                       .slots = destination_slots};

int nm_py_destination_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Destination, &destination_spec,
                        NULL, destination_construct);
}
