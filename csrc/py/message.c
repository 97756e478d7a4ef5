/* Message: an LXMF message over its packed bytes (LXMF 2).
 *
 * Decoding makes views and nothing else; hashing, verifying and building
 * Python objects wait until they are asked for.
 */
#include "py/message.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/msgpack.h"
#include "py/value.h"
#include "wire/destination.h"
#include "wire/lxmf_select.h"
#include "wire/lxmf_stamp.h"

/* From here on hashing is slow enough to let other threads run. */
#define RELEASE_FROM 16384

static nm_py_message *message_of(PyObject *self) {
  return (nm_py_message *)self;
}

static void message_dealloc(PyObject *self) {
  nm_py_message *m = message_of(self);
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(m->packed);
  Py_XDECREF(m->title);
  Py_XDECREF(m->content);
  Py_XDECREF(m->id);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Puts |value| (taken over; may be NULL with an exception) into an empty
 * |slot|. When two threads make the same value the first one stays. Returns
 * what is there, borrowed, or NULL. */
static PyObject *remember(PyObject **slot, PyObject *value) {
  PyObject *expected = NULL;
  if (value != NULL &&
      !__atomic_compare_exchange_n(slot, &expected, value, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    Py_DECREF(value);
    value = expected;
  }
  return value;
}

static PyObject *remembered(PyObject **slot) {
  return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

PyObject *nm_py_message_from_packed(nm_state *state, PyObject *packed) {
  if (packed == NULL) {
    return NULL;
  }
  PyTypeObject *type = NM_PY_TYPE(state, Message);
  PyObject *self = type->tp_alloc(type, 0);
  if (self == NULL) {
    Py_DECREF(packed);
    return NULL;
  }
  nm_py_message *m = message_of(self);
  m->packed = packed;
  nm_fault fault;
  if (nm_lxmf_decode(nm_py_bytes_span(packed), NULL, &m->view, &fault) < 0) {
    nm_py_raise(state, &fault, "lxmf");
    Py_DECREF(self);
    return NULL;
  }
  return self;
}

void nm_py_delivery_address(const nm_identity_hash *identity,
                            nm_destination_hash *out) {
  static const uint8_t delivery[NM_NAME_HASH_SIZE] = {
      0x6e, 0xc6, 0x0b, 0xc3, 0x18, 0xe2, 0xc0, 0xf0, 0xd9, 0x08};
  nm_destination_address(delivery, identity, out);
}

/* ----------------------------------------------------------- id, signature */

/* Computes the id of |view|. 0 or a status. */
static int compute_id(const nm_lxmf_view *view, uint8_t id[NM_HASH_SIZE]) {
  uint8_t room[512];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, room, sizeof room, 0);
  int status;
  if (view->payload.len < RELEASE_FROM) {
    status = nm_lxmf_message_id(view, &scratch, id);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = nm_lxmf_message_id(view, &scratch, id);
    Py_END_ALLOW_THREADS;
  }
  nm_buffer_dispose(&scratch);
  return status;
}

PyObject *nm_py_message_id(PyObject *message) {
  nm_py_message *m = message_of(message);
  PyObject *known = remembered(&m->id);
  if (known != NULL) {
    return known;
  }
  uint8_t id[NM_HASH_SIZE];
  int status = compute_id(&m->view, id);
  if (status < 0) {
    return nm_py_raise_status(nm_py_state_of(message), status, "lxmf", "id");
  }
  return remember(&m->id, nm_py_bytes(nm_span_of(id, sizeof id)));
}

static PyObject *get_id(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_XNewRef(nm_py_message_id(self));
}

static PyObject *get_signed_data(PyObject *self, void *Py_UNUSED(closure)) {
  uint8_t room[512];
  uint8_t id[NM_HASH_SIZE];
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, room, sizeof room, 0);
  int status = nm_lxmf_signed_data(nm_py_message_view(self), &out, id);
  PyObject *data = status < 0 ? nm_py_raise_status(nm_py_state_of(self), status,
                                                   "lxmf", "signed data")
                              : nm_py_bytes(nm_span_of(out.ptr, out.len));
  nm_buffer_dispose(&out);
  return data;
}

/* Whether |identity| owns the source address and signed the message. 1, 0, or
 * -1 with an exception. */
static int message_verify(PyObject *self, const nm_identity *identity) {
  nm_py_message *m = message_of(self);
  nm_destination_hash owned;
  nm_py_delivery_address(&identity->hash, &owned);
  if (memcmp(owned.b, m->view.source.b, sizeof owned.b) != 0) {
    return 0;
  }
  uint8_t room[1024];
  uint8_t id[NM_HASH_SIZE];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, room, sizeof room, 0);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_lxmf_verify(&m->view, identity->public_key + NM_KEY_SIZE,
                          &scratch, id);
  Py_END_ALLOW_THREADS;
  nm_buffer_dispose(&scratch);
  if (status != NM_OK && status != NM_E(SIGNATURE)) {
    nm_py_raise_status(nm_py_state_of(self), status, "lxmf", "signature");
    return -1;
  }
  if (remembered(&m->id) == NULL) {
    remember(&m->id, nm_py_bytes(nm_span_of(id, sizeof id)));
    PyErr_Clear(); /* only a cache: without memory it stays empty */
  }
  return status == NM_OK;
}

PyDoc_STRVAR(verify_doc,
             "verify($self, source, /)\n--\n\n"
             "Did this Identity sign the message, and does it own source_hash? "
             "Takes about 30 us;\nthe interpreter lock is released.");

static PyObject *verify(PyObject *self, PyObject *arg) {
  const nm_identity *identity = nm_py_identity_public(
      nm_py_state_of(self), arg, "Message.verify", "source");
  int good = identity != NULL ? message_verify(self, identity) : -1;
  return good < 0 ? NULL : PyBool_FromLong(good);
}

/* ---------------------------------------------------------------- decoding */

/* Verifies |self| with the Identity |source|; takes over |self|, which is
 * returned when it is genuine. */
static PyObject *require_genuine(nm_state *state, PyObject *self,
                                 PyObject *source) {
  const nm_identity *identity =
      nm_py_identity_public(state, source, "Message.unpack", "source");
  int good = identity != NULL ? message_verify(self, identity) : -1;
  if (good == 0) {
    nm_py_simple_error(state, NM_ERROR_AuthenticationError, NM_E(SIGNATURE),
                       "lxmf: the message is not signed by its source");
  }
  if (good != 1) {
    Py_CLEAR(self);
  }
  return self;
}

PyDoc_STRVAR(
    unpack_doc,
    "unpack($type, packed, /, *, verify=False, source=None)\n--\n\n"
    "Reads a packed message.\n\n"
    "Only parses: nothing is hashed or verified, and a bytes object is kept, "
    "not copied. With\nverify=True the Identity of the source must be given as "
    "well.\n\n"
    "Raises DecodeError (LimitError for too deep fields); with verify=True "
    "also\nAuthenticationError (\"SIGNATURE\") unless source signed it.");

static PyObject *unpack_verified(PyObject *cls, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Message.unpack",
      .count = 3,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_packed, NM_STR_verify, NM_STR_source}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *in[3];
  bool verified = false;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (in[1] != NULL &&
       nm_py_bool(in[1], "Message.unpack", "verify", &verified) < 0)) {
    return NULL;
  }
  if (!nm_py_absent(in[2]) && !nm_py_is_identity(state, in[2])) {
    nm_py_type_error("Message.unpack", "source", "an Identity", in[2]);
    return NULL;
  }
  if (verified && nm_py_absent(in[2])) {
    PyErr_SetString(PyExc_ValueError,
                    "Message.unpack() parameter 'verify' needs 'source'");
    return NULL;
  }
  PyObject *self = nm_py_message_from_packed(
      state, nm_py_bytes_of(in[0], "Message.unpack", "packed"));
  return self != NULL && verified ? require_genuine(state, self, in[2]) : self;
}

static PyObject *unpack(PyObject *cls, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames) {
  if (nargs != 1 || kwnames != NULL) {
    return unpack_verified(cls, args, nargs, kwnames);
  }
  return nm_py_message_from_packed(
      nm_py_state_of_type((PyTypeObject *)cls),
      nm_py_bytes_of(args[0], "Message.unpack", "packed"));
}

PyDoc_STRVAR(unpack_opportunistic_doc,
             "unpack_opportunistic($type, destination, plaintext, /)\n--\n\n"
             "Reads the plaintext of an opportunistic packet, which leaves out "
             "the destination: it\nis given as the receiver's own "
             "DestinationHash.\n\n"
             "Raises DecodeError as unpack() does; offsets count from the "
             "front of the packed form.");

static PyObject *unpack_opportunistic(PyObject *cls, PyObject *const *args,
                                      Py_ssize_t nargs) {
  const char *function = "Message.unpack_opportunistic";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  uint8_t destination[NM_ADDRESS_SIZE];
  nm_py_buffer plain;
  if (!nm_py_arity(function, nargs, 2, 2) ||
      nm_py_address(state, args[0], NM_PY_DESTINATION_HASH, function,
                    "destination", destination) < 0 ||
      nm_py_buffer_get(args[1], function, "plaintext", &plain) < 0) {
    return NULL;
  }
  size_t size = sizeof destination + plain.span.len;
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed != NULL) {
    nm_writer w = nm_writer_of(out, size);
    nm_writer_put(&w, destination, sizeof destination);
    nm_writer_span(&w, plain.span);
  }
  nm_py_buffer_release(&plain);
  return nm_py_message_from_packed(state, packed);
}

/* ------------------------------------------------------------------ fields */

static PyObject *get_packed(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(message_of(self)->packed);
}

static PyObject *get_opportunistic(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(
      nm_lxmf_opportunistic(nm_py_bytes_span(message_of(self)->packed)));
}

static PyObject *get_destination_hash(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self),
                                    nm_py_message_view(self)->destination.b);
}

static PyObject *get_source_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self),
                                    nm_py_message_view(self)->source.b);
}

static PyObject *get_signature(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(nm_py_message_view(self)->signature);
}

static PyObject *get_timestamp(PyObject *self, void *Py_UNUSED(closure)) {
  return PyFloat_FromDouble(nm_py_message_view(self)->timestamp);
}

static PyObject *get_title(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_message *m = message_of(self);
  PyObject *known = remembered(&m->title);
  if (known == NULL) {
    known = remember(&m->title, nm_py_bytes(m->view.title));
  }
  return Py_XNewRef(known);
}

static PyObject *get_content(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_message *m = message_of(self);
  PyObject *known = remembered(&m->content);
  if (known == NULL) {
    known = remember(&m->content, nm_py_bytes(m->view.content));
  }
  return Py_XNewRef(known);
}

static PyObject *text_of(nm_span span) {
  return PyUnicode_DecodeUTF8((const char *)span.ptr, (Py_ssize_t)span.len,
                              "replace");
}

static PyObject *get_title_text(PyObject *self, void *Py_UNUSED(closure)) {
  return text_of(nm_py_message_view(self)->title);
}

static PyObject *get_content_text(PyObject *self, void *Py_UNUSED(closure)) {
  return text_of(nm_py_message_view(self)->content);
}

static PyObject *get_fields(PyObject *self, void *Py_UNUSED(closure)) {
  nm_span fields = nm_py_message_view(self)->fields;
  if (fields.len == 0) {
    return PyDict_New();
  }
  nm_reader r = nm_reader_of(fields);
  return nm_py_msgpack_unpack(nm_py_state_of(self), &r, NULL, "lxmf", "fields");
}

static PyObject *get_fields_packed(PyObject *self, void *Py_UNUSED(closure)) {
  nm_span fields = nm_py_message_view(self)->fields;
  return fields.len > 0 ? nm_py_bytes(fields)
                        : PyBytes_FromStringAndSize("\x80", 1);
}

static PyObject *get_stamp(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_lxmf_view *view = nm_py_message_view(self);
  return view->stamp.ptr != NULL ? nm_py_bytes(view->stamp)
                                 : Py_NewRef(Py_None);
}

static PyObject *get_payload(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_message *m = message_of(self);
  return nm_py_view(m->packed, NM_LXMF_HEADER_SIZE, m->view.payload.len);
}

static PyObject *get_content_size(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(
      nm_lxmf_content_size(nm_py_message_view(self)->payload.len));
}

/* ------------------------------------------------------------------ stamps */

/* Tickets as nm_lxmf_message_stamp_check wants them. */
typedef struct ticket_list {
  nm_py_buffers held;
  const uint8_t **pointers;
  size_t count;
} ticket_list;

static void tickets_release(ticket_list *list) {
  nm_py_buffers_release(&list->held);
  PyMem_Free(list->pointers);
}

/* Borrows the tickets of the sequence |obj|. 0, or -1 with an exception and
 * nothing held. */
static int tickets_take(PyObject *obj, ticket_list *list) {
  if (nm_py_buffers_get(obj, "Message.stamp_valid", "tickets", &list->held) <
      0) {
    return -1;
  }
  list->count = list->held.count;
  list->pointers = PyMem_Calloc(list->count + 1, sizeof *list->pointers);
  int result = list->pointers != NULL ? 0 : -1;
  if (result < 0) {
    PyErr_NoMemory();
  }
  for (size_t i = 0; i < list->count && result == 0; i++) {
    nm_span ticket = list->held.spans[i];
    list->pointers[i] = ticket.ptr;
    if (ticket.len != NM_LXMF_TICKET_SIZE) {
      result = nm_py_length_error("Message.stamp_valid", "tickets",
                                  NM_LXMF_TICKET_SIZE, ticket.len);
    }
  }
  if (result < 0) {
    tickets_release(list);
  }
  return result;
}

/* Checks the stamp against |cost| and |tickets|. The status of
 * nm_lxmf_message_stamp_check, or 1 with an exception. */
static int check_stamp(PyObject *self, uint32_t cost,
                       const ticket_list *tickets, uint32_t *value) {
  PyObject *id = nm_py_message_id(self);
  if (id == NULL) {
    return 1;
  }
  nm_span stamp = nm_py_message_view(self)->stamp;
  const uint8_t *hash = (const uint8_t *)PyBytes_AS_STRING(id);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_lxmf_message_stamp_check(stamp, hash, cost, tickets->pointers,
                                       tickets->count, value);
  Py_END_ALLOW_THREADS;
  return status;
}

PyDoc_STRVAR(stamp_value_doc,
             "stamp_value($self, /)\n--\n\n"
             "The proof-of-work value of the stamp: leading zero bits, 0 "
             "without a stamp. Takes\nabout 1 ms; the interpreter lock is "
             "released.");

static PyObject *stamp_value(PyObject *self, PyObject *Py_UNUSED(unused)) {
  ticket_list none = {.count = 0};
  uint32_t value = 0;
  return check_stamp(self, 0, &none, &value) == 1
             ? NULL
             : PyLong_FromUnsignedLong(value);
}

PyDoc_STRVAR(stamp_valid_doc,
             "stamp_valid($self, cost, /, *, tickets=())\n--\n\n"
             "Is the stamp worth cost (0 to 256), or was it made from one of "
             "the 16-byte tickets?\n\n"
             "A message without a stamp is not valid, whatever the cost.");

static PyObject *stamp_valid(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Message.stamp_valid",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_cost, NM_STR_tickets}};
  PyObject *in[2];
  long long cost;
  if (nm_py_parse(nm_py_state_of(self), &signature, args, (size_t)nargs,
                  kwnames, in) < 0 ||
      nm_py_int(in[0], "Message.stamp_valid", "cost", 0, NM_STAMP_COST_MAX,
                &cost) < 0) {
    return NULL;
  }
  ticket_list tickets = {.count = 0};
  if (in[1] != NULL && tickets_take(in[1], &tickets) < 0) {
    return NULL;
  }
  uint32_t value;
  int status = check_stamp(self, (uint32_t)cost, &tickets, &value);
  if (in[1] != NULL) {
    tickets_release(&tickets);
  }
  return status == 1 ? NULL : PyBool_FromLong(status == NM_OK);
}

/* ------------------------------------------------------------------- class */

static PyObject *message_repr(PyObject *self) {
  PyObject *id = nm_py_message_id(self);
  return id != NULL ? nm_py_repr_hex(self, nm_py_bytes_span(id)) : NULL;
}

static PyObject *message_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self))) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return nm_py_compare_bytes(nm_py_bytes_span(message_of(self)->packed),
                             nm_py_bytes_span(message_of(other)->packed), op);
}

static Py_hash_t message_hash(PyObject *self) {
  return PyObject_Hash(message_of(self)->packed);
}

static PyGetSetDef message_getters[] = {
    {"packed", get_packed, NULL, "The whole message as bytes.", NULL},
    {"opportunistic", get_opportunistic, NULL,
     "The packed form without its first 16 bytes, as an opportunistic packet "
     "carries it.",
     NULL},
    {"destination_hash", get_destination_hash, NULL,
     "DestinationHash of the recipient.", NULL},
    {"source_hash", get_source_hash, NULL, "DestinationHash of the sender.",
     NULL},
    {"signature", get_signature, NULL, "64 bytes; see verify().", NULL},
    {"timestamp", get_timestamp, NULL,
     "Unix seconds by the sender's clock, a float.", NULL},
    {"title", get_title, NULL, "Title, bytes.", NULL},
    {"content", get_content, NULL, "Content, bytes.", NULL},
    {"title_text", get_title_text, NULL,
     "Title as text; what is not UTF-8 is replaced.", NULL},
    {"content_text", get_content_text, NULL,
     "Content as text; what is not UTF-8 is replaced.", NULL},
    {"fields", get_fields, NULL, "The fields, a fresh dict.", NULL},
    {"fields_packed", get_fields_packed, NULL,
     "The MessagePack map of the fields as received.", NULL},
    {"stamp", get_stamp, NULL,
     "32 bytes of proof of work, 16 bytes made from a ticket, or None.", NULL},
    {"payload", get_payload, NULL,
     "A view of the MessagePack array: everything after the signature.", NULL},
    {"id", get_id, NULL,
     "Message id, 32 bytes: a hash that leaves the stamp out (LXMF 2.3).",
     NULL},
    {"signed_data", get_signed_data, NULL, "What the signature is over.", NULL},
    {"content_size", get_content_size, NULL,
     "Size that decides how the message travels (LXMF 3.2); see "
     "representation().",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef message_methods[] = {
    {"create", NM_PY_FASTCALL(nm_py_message_create),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, nm_py_message_create_doc},
    {"encode", NM_PY_FASTCALL(nm_py_message_encode),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, nm_py_message_encode_doc},
    {"unpack", NM_PY_FASTCALL(unpack),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, unpack_doc},
    {"unpack_opportunistic", NM_PY_FASTCALL(unpack_opportunistic),
     METH_FASTCALL | METH_CLASS, unpack_opportunistic_doc},
    {"verify", verify, METH_O, verify_doc},
    {"with_stamp", nm_py_message_with_stamp, METH_O,
     nm_py_message_with_stamp_doc},
    {"stamp_value", stamp_value, METH_NOARGS, stamp_value_doc},
    {"stamp_valid", NM_PY_FASTCALL(stamp_valid), METH_FASTCALL | METH_KEYWORDS,
     stamp_valid_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    message_doc,
    "An LXMF message. Made with create(), read with unpack().\n\n"
    "Reading only parses; nothing in a message is to be trusted before "
    "verify() said True.\nImmutable; equal when the packed bytes are. May be "
    "used from any thread.\n\n"
    ">>> alice, bob = Identity(), Identity()\n"
    ">>> message = Message.create(alice, delivery_hash(bob), 'hi', "
    "fields={0x30: bytes(32)})\n"
    ">>> Message.unpack(message.packed) == message, message.verify(alice)\n"
    "(True, True)\n"
    ">>> message.content, message.content_size, message.stamp\n"
    "(b'hi', 36, None)\n");

static PyType_Slot message_slots[] = {
    {Py_tp_doc, (void *)message_doc},
    {Py_tp_dealloc, (void *)message_dealloc},
    {Py_tp_repr, (void *)message_repr},
    {Py_tp_richcompare, (void *)message_compare},
    {Py_tp_hash, (void *)message_hash},
    {Py_tp_getset, message_getters},
    {Py_tp_methods, message_methods},
    {0, NULL}};

static PyType_Spec message_spec = {
    .name = "netmesh._core.Message",
    .basicsize = sizeof(nm_py_message),
    .flags = NM_PY_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = message_slots,
};

int nm_py_message_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Message, &message_spec, NULL,
                        NULL);
}
