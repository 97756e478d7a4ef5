/* Propagated: a message encrypted for its recipient, as a propagation node
 * stores it or a sheet of paper carries it (LXMF 8.1, 8.3, 12).
 */
#include "py/propagated.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/message.h"
#include "py/value.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_stamp.h"

static nm_py_propagated *propagated_of(PyObject *self) {
  return (nm_py_propagated *)self;
}

static nm_span data_of(PyObject *self) {
  return nm_py_bytes_span(propagated_of(self)->data);
}

static void propagated_dealloc(PyObject *self) {
  nm_py_propagated *p = propagated_of(self);
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(p->data);
  Py_XDECREF(p->stamp);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *nm_py_propagated_new(nm_state *state, PyObject *data,
                               PyObject *stamp) {
  PyTypeObject *type = NM_PY_TYPE(state, Propagated);
  PyObject *self = NULL;
  if (data != NULL && PyBytes_GET_SIZE(data) < NM_LXMF_DATA_MIN) {
    nm_py_decode_error(state, NM_E(TRUNCATED), "lxmf", "lxmf_data",
                       (size_t)PyBytes_GET_SIZE(data),
                       "lxmf: a propagated message has at least %d bytes, not "
                       "%zd",
                       NM_LXMF_DATA_MIN, PyBytes_GET_SIZE(data));
  } else if (data != NULL) {
    self = type->tp_alloc(type, 0);
  }
  if (self == NULL) {
    Py_XDECREF(data);
    Py_XDECREF(stamp);
    return NULL;
  }
  propagated_of(self)->data = data;
  propagated_of(self)->stamp = stamp;
  return self;
}

PyObject *nm_py_stamp_missing(nm_state *state, const char *function) {
  return nm_py_encode_error(state, NM_E(MISSING), "stamp",
                            "%s: the element has no stamp", function);
}

/* The propagation stamp |obj| as 32 bytes. New reference or NULL. */
static PyObject *stamp_of(nm_state *state, PyObject *obj,
                          const char *function) {
  uint8_t stamp[NM_STAMP_SIZE];
  if (nm_py_exact_field(state, obj, function, "stamp", stamp, sizeof stamp) <
      0) {
    return NULL;
  }
  return nm_py_bytes(nm_span_of(stamp, sizeof stamp));
}

/* ------------------------------------------------------------ construction */

PyDoc_STRVAR(
    create_doc,
    "create($type, message, recipient, /, *, ratchet=None,\n"
    "       ephemeral_private=None, iv=None)\n--\n\n"
    "Encrypts a Message to the Identity of its recipient, or to its 32-byte "
    "ratchet.\n\n"
    "Encrypt once and keep the result: another encryption is another message "
    "to a node.\nephemeral_private (32 bytes) and iv (16) are random unless "
    "given. Releases the\ninterpreter lock.\n\n"
    "Raises EncodeError (\"MISMATCH\") when the message is not for recipient, "
    "KeyMissingError\nwhen no public key is known.");

/* Destination and |token| as one bytes object; takes over |token|. */
static PyObject *data_with(const nm_lxmf_view *view, PyObject *token) {
  if (token == NULL) {
    return NULL;
  }
  nm_span sealed = nm_py_bytes_span(token);
  size_t size = NM_ADDRESS_SIZE + sealed.len;
  uint8_t *out;
  PyObject *data = nm_py_bytes_new(size, &out);
  if (data != NULL) {
    nm_writer w = nm_writer_of(out, size);
    nm_writer_put(&w, view->destination.b, NM_ADDRESS_SIZE);
    nm_writer_span(&w, sealed);
  }
  Py_DECREF(token);
  return data;
}

/* Whether |identity| owns the destination of |view|; sets EncodeError if
 * not. */
static bool is_recipient(nm_state *state, const nm_lxmf_view *view,
                         const nm_identity *identity) {
  nm_destination_hash owned;
  nm_py_delivery_address(&identity->hash, &owned);
  if (memcmp(owned.b, view->destination.b, sizeof owned.b) == 0) {
    return true;
  }
  nm_py_encode_error(state, NM_E(MISMATCH), "recipient",
                     "Propagated.create(): the message is for another "
                     "recipient");
  return false;
}

static PyObject *create(PyObject *cls, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Propagated.create",
      .count = 5,
      .required = 2,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_message, NM_STR_recipient, NM_STR_ratchet,
                NM_STR_ephemeral_private, NM_STR_iv}};
  const char *function = "Propagated.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *in[5];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0) {
    return NULL;
  }
  if (!nm_py_is_message(state, in[0])) {
    nm_py_type_error(function, "message", "a Message", in[0]);
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_public(state, in[1], function, "recipient");
  const nm_lxmf_view *view = nm_py_message_view(in[0]);
  nm_py_encrypt_options options;
  PyObject *token = NULL;
  if (identity == NULL || !is_recipient(state, view, identity)) {
    return NULL;
  }
  if (nm_py_encrypt_options_read(in + 2, function, &options) == 0) {
    nm_span packed = nm_py_bytes_span(((nm_py_message *)in[0])->packed);
    token = nm_py_identity_encrypt(state, identity,
                                   nm_lxmf_opportunistic(packed), &options);
  }
  nm_wipe(&options, sizeof options);
  return nm_py_propagated_new(state, data_with(view, token), NULL);
}

PyDoc_STRVAR(from_data_doc,
             "from_data($type, lxmf_data, /, *, stamp=None)\n--\n\n"
             "The element with this encrypted form, at least 112 bytes "
             "(DecodeError \"TRUNCATED\"), and\nthis stamp of 32 bytes.");

static PyObject *from_data(PyObject *cls, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Propagated.from_data",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_lxmf_data, NM_STR_stamp}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *in[2];
  PyObject *stamp = NULL;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (!nm_py_absent(in[1]) &&
       (stamp = stamp_of(state, in[1], "Propagated.from_data")) == NULL)) {
    return NULL;
  }
  return nm_py_propagated_new(
      state, nm_py_bytes_of(in[0], "Propagated.from_data", "lxmf_data"), stamp);
}

PyDoc_STRVAR(from_stamped_doc,
             "from_stamped($type, stamped, /)\n--\n\n"
             "Splits the last 32 bytes off as the stamp, as a node does "
             "unconditionally.\n\n"
             "Raises DecodeError (\"LENGTH\") at 144 bytes or less.");

static PyObject *from_stamped(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Propagated.from_stamped", "stamped", &buf) < 0) {
    return NULL;
  }
  nm_lxmf_stamped parts;
  nm_fault fault;
  PyObject *self = NULL;
  if (nm_lxmf_stamped_split(buf.span, &parts, &fault) < 0) {
    nm_py_raise(state, &fault, "lxmf");
  } else {
    PyObject *stamp = nm_py_bytes(parts.stamp);
    if (stamp != NULL) {
      self = nm_py_propagated_new(state, nm_py_bytes(parts.data), stamp);
    }
  }
  nm_py_buffer_release(&buf);
  return self;
}

PyDoc_STRVAR(with_stamp_doc,
             "with_stamp($self, stamp, /)\n--\n\n"
             "The same element with this propagation stamp of 32 bytes.");

static PyObject *with_stamp(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  PyObject *stamp = stamp_of(state, arg, "Propagated.with_stamp");
  if (stamp == NULL) {
    return NULL;
  }
  return nm_py_propagated_new(state, Py_NewRef(propagated_of(self)->data),
                              stamp);
}

/* ----------------------------------------------------------------- reading */

static PyObject *get_lxmf_data(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(propagated_of(self)->data);
}

static PyObject *get_stamp(PyObject *self, void *Py_UNUSED(closure)) {
  PyObject *stamp = propagated_of(self)->stamp;
  return Py_NewRef(stamp != NULL ? stamp : Py_None);
}

static PyObject *get_stamped(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_propagated *p = propagated_of(self);
  if (p->stamp == NULL) {
    return nm_py_stamp_missing(nm_py_state_of(self), "Propagated.stamped");
  }
  PyObject *stamped = Py_NewRef(p->data);
  PyBytes_Concat(&stamped, p->stamp);
  return stamped;
}

static void transient_id(PyObject *self, uint8_t id[NM_HASH_SIZE]) {
  nm_lxmf_transient_id(data_of(self), id);
}

static PyObject *get_transient_id(PyObject *self, void *Py_UNUSED(closure)) {
  uint8_t id[NM_HASH_SIZE];
  transient_id(self, id);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyObject *get_destination_hash(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self), data_of(self).ptr);
}

PyDoc_STRVAR(
    open_doc,
    "open($self, recipient, /, *, ratchets=(), enforce_ratchets=False)\n--\n\n"
    "Decrypts to the Message.\n\n"
    "recipient is the Identity with private keys; ratchets are its ratchets' "
    "private keys,\n32 bytes each, newest first; with enforce_ratchets the "
    "identity's own key is not tried.\nThe message is not verified.\n\n"
    "Raises AuthenticationError when no key opens it, DecodeError when the "
    "plaintext is no\nmessage.");

/* The Message whose packed form is destination and |plaintext|. */
static PyObject *message_of(nm_state *state, nm_span destination,
                            PyObject *plaintext) {
  nm_span rest = nm_py_bytes_span(plaintext);
  size_t size = destination.len + rest.len;
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed != NULL) {
    nm_writer w = nm_writer_of(out, size);
    nm_writer_span(&w, destination);
    nm_writer_span(&w, rest);
  }
  return nm_py_message_from_packed(state, packed);
}

static PyObject *propagated_open(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Propagated.open",
      .count = 3,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_recipient, NM_STR_ratchets, NM_STR_enforce_ratchets}};
  const char *function = "Propagated.open";
  nm_state *state = nm_py_state_of(self);
  PyObject *in[3];
  bool enforce = false;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (in[2] != NULL &&
       nm_py_bool(in[2], function, "enforce_ratchets", &enforce) < 0)) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, in[0], function, "recipient");
  if (identity == NULL) {
    return NULL;
  }
  nm_reader r = nm_reader_of(data_of(self));
  nm_span destination = nm_reader_take(&r, NM_ADDRESS_SIZE);
  PyObject *decrypted = nm_py_identity_decrypt(
      state, identity, nm_reader_rest(&r), in[1], enforce, function);
  if (decrypted == NULL) {
    return NULL;
  }
  PyObject *message =
      message_of(state, destination, nm_py_record_get(decrypted, 0));
  Py_DECREF(decrypted);
  return message;
}

/* ------------------------------------------------------------------ stamps */

/* Checks the stamp against |cost|: the status of
 * nm_lxmf_propagation_stamp_check, NM_E(MISSING) without a stamp. */
static int check_stamp(PyObject *self, uint32_t cost, uint32_t *value) {
  nm_py_propagated *p = propagated_of(self);
  *value = 0;
  if (p->stamp == NULL) {
    return NM_E(MISSING);
  }
  nm_span stamp = nm_py_bytes_span(p->stamp);
  uint8_t id[NM_HASH_SIZE];
  int status;
  Py_BEGIN_ALLOW_THREADS;
  transient_id(self, id);
  status = nm_lxmf_propagation_stamp_check(stamp, id, cost, value);
  Py_END_ALLOW_THREADS;
  return status;
}

PyDoc_STRVAR(stamp_value_doc,
             "stamp_value($self, /)\n--\n\n"
             "The proof-of-work value of the stamp: leading zero bits, 0 "
             "without a stamp. Takes\nabout 0.3 ms; the interpreter lock is "
             "released.");

static PyObject *stamp_value(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint32_t value;
  (void)check_stamp(self, 0, &value);
  return PyLong_FromUnsignedLong(value);
}

PyDoc_STRVAR(stamp_valid_doc,
             "stamp_valid($self, cost, /)\n--\n\n"
             "Is the stamp worth cost (0 to 256)? Without a stamp it is not.");

static PyObject *stamp_valid(PyObject *self, PyObject *arg) {
  long long cost;
  uint32_t value;
  if (nm_py_int(arg, "Propagated.stamp_valid", "cost", 0, NM_STAMP_COST_MAX,
                &cost) < 0) {
    return NULL;
  }
  return PyBool_FromLong(check_stamp(self, (uint32_t)cost, &value) == NM_OK);
}

/* ------------------------------------------------------------------- class */

static PyObject *propagated_repr(PyObject *self) {
  uint8_t id[NM_HASH_SIZE];
  transient_id(self, id);
  return nm_py_repr_hex(self, nm_span_of(id, sizeof id));
}

static PyObject *propagated_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  nm_py_propagated *a = propagated_of(self);
  nm_py_propagated *b = propagated_of(other);
  bool equal = nm_span_equal(data_of(self), data_of(other)) &&
               (a->stamp != NULL) == (b->stamp != NULL);
  if (equal && a->stamp != NULL) {
    equal =
        nm_span_equal(nm_py_bytes_span(a->stamp), nm_py_bytes_span(b->stamp));
  }
  return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t propagated_hash(PyObject *self) {
  return PyObject_Hash(propagated_of(self)->data);
}

static PyGetSetDef propagated_getters[] = {
    {"lxmf_data", get_lxmf_data, NULL,
     "Destination hash and encrypted message, without the stamp.", NULL},
    {"stamped", get_stamped, NULL,
     "lxmf_data and stamp, as containers hold it; EncodeError without a stamp.",
     NULL},
    {"stamp", get_stamp, NULL, "The propagation stamp, 32 bytes, or None.",
     NULL},
    {"transient_id", get_transient_id, NULL,
     "The hash of lxmf_data, 32 bytes: what nodes know it by.", NULL},
    {"destination_hash", get_destination_hash, NULL,
     "DestinationHash of the recipient.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef propagated_methods[] = {
    {"create", NM_PY_FASTCALL(create),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, create_doc},
    {"from_data", NM_PY_FASTCALL(from_data),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, from_data_doc},
    {"from_stamped", from_stamped, METH_O | METH_CLASS, from_stamped_doc},
    {"with_stamp", with_stamp, METH_O, with_stamp_doc},
    {"open", NM_PY_FASTCALL(propagated_open), METH_FASTCALL | METH_KEYWORDS,
     open_doc},
    {"stamp_value", stamp_value, METH_NOARGS, stamp_value_doc},
    {"stamp_valid", stamp_valid, METH_O, stamp_valid_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    propagated_doc,
    "A message encrypted for its recipient: what a propagation node stores and "
    "a paper message\nholds.\n\n"
    "Made with create(), from_data() or from_stamped(). Immutable; may be used "
    "from any thread.\n\n"
    ">>> alice, bob = Identity(), Identity()\n"
    ">>> message = Message.create(alice, delivery_hash(bob), 'hi')\n"
    ">>> element = Propagated.create(message, bob)\n"
    ">>> element.open(bob) == message, len(element.lxmf_data)\n"
    "(True, 208)\n");

static PyType_Slot propagated_slots[] = {
    {Py_tp_doc, (void *)propagated_doc},
    {Py_tp_dealloc, (void *)propagated_dealloc},
    {Py_tp_repr, (void *)propagated_repr},
    {Py_tp_richcompare, (void *)propagated_compare},
    {Py_tp_hash, (void *)propagated_hash},
    {Py_tp_getset, propagated_getters},
    {Py_tp_methods, propagated_methods},
    {0, NULL}};

static PyType_Spec propagated_spec = {
    .name = "netmesh._core.Propagated",
    .basicsize = sizeof(nm_py_propagated),
    .flags = NM_PY_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = propagated_slots,
};

int nm_py_propagated_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Propagated, &propagated_spec,
                        NULL, NULL);
}
