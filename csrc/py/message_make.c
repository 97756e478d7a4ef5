/* Making messages: create, encode, with_stamp (LXMF 2.3, 6.3, 7). */
#include "py/args.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/message.h"
#include "py/msgpack.h"

#include <math.h>
#include <time.h>

/* -------------------------------------------------------- shared arguments */

/* Unix seconds; the clock of the system when |obj| is absent. */
static int parse_time(PyObject *obj, const char *function, double *out) {
  if (!nm_py_absent(obj)) {
    return nm_py_real(obj, function, "timestamp", out);
  }
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  *out = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  return 0;
}

/* A stamp of |len| bytes that can be told from none and from a foreign one. */
static bool stamp_fits(nm_state *state, const char *function, size_t len) {
  if (len == NM_LXMF_STAMP_SIZE || len == NM_LXMF_TICKET_SIZE) {
    return true;
  }
  nm_py_encode_error(state, NM_E(LENGTH), "stamp",
                     "%s() parameter 'stamp' must be 32 bytes long, or 16 for "
                     "a stamp made from a ticket, not %zu",
                     function, len);
  return false;
}

/* ------------------------------------------------------------------ encode */

/* Whether |fields| is one complete MessagePack map; sets EncodeError if not. */
static bool fields_fit(nm_state *state, nm_span fields) {
  nm_reader r = nm_reader_of(fields);
  nm_reader head = r;
  nm_mp_item item;
  nm_fault fault = {nm_mp_read(&head, &item), "fields", 0};
  if (fault.status == NM_OK && item.type != NM_MP_MAP) {
    fault.status = NM_E(TYPE);
  }
  if (fault.status == NM_OK && !(fields.len == 1 && item.count == 0)) {
    fault.status = nm_mp_skip(&r, NULL);
    if (fault.status == NM_OK && nm_reader_left(&r) > 0) {
      fault.status = NM_E(TRAILING);
    }
  }
  if (fault.status < 0) {
    nm_py_raise_encode(state, &fault, "lxmf");
    return false;
  }
  return true;
}

/* The packed form of |draft| as a bytes object. */
static PyObject *encode_draft(nm_state *state, const nm_lxmf_draft *draft,
                              const uint8_t signature[NM_SIGNATURE_SIZE]) {
  size_t size = nm_lxmf_packed_size(draft);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status = nm_lxmf_encode(draft, signature, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "payload", 0};
    return nm_py_raise_encode(state, &fault, "lxmf");
  }
  return packed;
}

const char nm_py_message_encode_doc[] =
    "encode($type, destination, source, signature, /, *, timestamp, "
    "title=b'',\n"
    "       content=b'', fields=b'\\x80', stamp=None)\n--\n\n"
    "The packed form from parts that are ready: the codec alone, nothing is "
    "hashed or signed.\n\n"
    "destination and source are 16 bytes, signature 64; fields is a "
    "MessagePack map, which\nshould be canonical; stamp may have any length "
    "but 0. Raises EncodeError (\"LENGTH\"; for\nfields \"TYPE\", "
    "\"TRUNCATED\", \"TRAILING\", ...).";

enum {
  ENC_DESTINATION,
  ENC_SOURCE,
  ENC_SIGNATURE,
  ENC_TIMESTAMP,
  ENC_TITLE,
  ENC_CONTENT,
  ENC_FIELDS,
  ENC_STAMP,
  ENC_COUNT
};

/* Addresses, signature and time. 0, or -1 with an exception. */
static int take_head(nm_state *state, PyObject *const *in, nm_lxmf_draft *draft,
                     uint8_t signature[NM_SIGNATURE_SIZE]) {
  const char *function = "Message.encode";
  if (nm_py_address(state, in[ENC_DESTINATION], NM_PY_DESTINATION_HASH,
                    function, "destination", draft->destination.b) < 0 ||
      nm_py_address(state, in[ENC_SOURCE], NM_PY_DESTINATION_HASH, function,
                    "source", draft->source.b) < 0 ||
      nm_py_exact_field(state, in[ENC_SIGNATURE], function, "signature",
                        signature, NM_SIGNATURE_SIZE) < 0) {
    return -1;
  }
  return nm_py_real(in[ENC_TIMESTAMP], function, "timestamp",
                    &draft->timestamp);
}

/* The parts of the payload, borrowed into |bufs| in the order of the
 * arguments. 0, or -1 with an exception; all are to be released in any case. */
static int take_body(nm_state *state, PyObject *const *in, nm_py_buffer *bufs,
                     nm_lxmf_draft *draft) {
  static const char *const names[] = {"title", "content", "fields", "stamp"};
  for (size_t i = 0; i < 4; i++) {
    PyObject *part = in[ENC_TITLE + i];
    bool left_out =
        ENC_TITLE + i == ENC_STAMP ? nm_py_absent(part) : part == NULL;
    if (!left_out &&
        nm_py_buffer_get(part, "Message.encode", names[i], &bufs[i]) < 0) {
      return -1;
    }
  }
  draft->title = bufs[0].span;
  draft->content = bufs[1].span;
  draft->fields = bufs[2].span;
  draft->stamp = bufs[3].span;
  if (in[ENC_FIELDS] != NULL && !fields_fit(state, draft->fields)) {
    return -1;
  }
  if (!nm_py_absent(in[ENC_STAMP]) && draft->stamp.len == 0) {
    nm_py_encode_error(state, NM_E(EMPTY), "stamp",
                       "Message.encode() parameter 'stamp' is empty");
    return -1;
  }
  return 0;
}

PyObject *nm_py_message_encode(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature parameters = {
      .function = "Message.encode",
      .count = ENC_COUNT,
      .required = 4,
      .positional = 3,
      .positional_only = 3,
      .names = {NM_STR_destination, NM_STR_source, NM_STR_signature,
                NM_STR_timestamp, NM_STR_title, NM_STR_content, NM_STR_fields,
                NM_STR_stamp}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *in[ENC_COUNT];
  nm_lxmf_draft draft = {.timestamp = 0};
  uint8_t signature[NM_SIGNATURE_SIZE];
  if (nm_py_parse(state, &parameters, args, (size_t)nargs, kwnames, in) < 0 ||
      take_head(state, in, &draft, signature) < 0) {
    return NULL;
  }
  nm_py_buffer bufs[4];
  for (size_t i = 0; i < 4; i++) {
    nm_py_buffer_init(&bufs[i]);
  }
  PyObject *packed = take_body(state, in, bufs, &draft) == 0
                         ? encode_draft(state, &draft, signature)
                         : NULL;
  for (size_t i = 0; i < 4; i++) {
    nm_py_buffer_release(&bufs[i]);
  }
  return packed;
}

/* ------------------------------------------------------------------ create */

const char nm_py_message_create_doc[] =
    "create($type, source, destination, content=b'', /, *, title=b'',\n"
    "       fields=None, timestamp=None, stamp=None, ticket=None)\n--\n\n"
    "Makes and signs a message.\n\n"
    "source is an Identity with private keys, destination the recipient's "
    "lxmf.delivery\naddress. title and content are bytes, or text that is "
    "written as UTF-8. timestamp is\nUnix seconds, now by default. stamp is 32 "
    "bytes of proof of work (or a 16-byte stamp made\nfrom a ticket); ticket, "
    "16 bytes, makes that stamp here. Signing takes about 20 us; the\n"
    "interpreter lock is released.\n\n"
    "Raises KeyMissingError without private keys, TypeError for fields that "
    "MessagePack cannot\nhold, EncodeError (\"LENGTH\"), ValueError when both "
    "stamp and ticket are given.";

enum {
  NEW_SOURCE,
  NEW_DESTINATION,
  NEW_CONTENT,
  NEW_TITLE,
  NEW_FIELDS,
  NEW_TIMESTAMP,
  NEW_STAMP,
  NEW_TICKET,
  NEW_COUNT
};

/* Borrows text as UTF-8, or bytes; nothing when |obj| is absent. */
static int take_text(PyObject *obj, const char *name, nm_py_buffer *buf) {
  nm_py_buffer_init(buf);
  if (obj == NULL) {
    return 0;
  }
  if (PyUnicode_Check(obj)) {
    return nm_py_text(obj, "Message.create", name, &buf->span);
  }
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error("Message.create", name,
                            "a str or a bytes-like object", obj);
  }
  return nm_py_buffer_get(obj, "Message.create", name, buf);
}

/* Appends the encoding of the mapping |obj|; nothing when it is absent. */
static int take_fields(nm_state *state, PyObject *obj, nm_buffer *out) {
  if (nm_py_absent(obj)) {
    return 0;
  }
  PyObject *dict = PyDict_Check(obj)
                       ? Py_NewRef(obj)
                       : nm_py_mapping(obj, "Message.create", "fields");
  int result = -1;
  if (dict != NULL) {
    result =
        nm_py_msgpack_pack(state, dict, nm_mp_limits_default.depth_max, out);
  }
  Py_XDECREF(dict);
  return result;
}

/* Stamp or ticket: |stamp| borrows, |ticket| is a copy. */
static int take_stamp(nm_state *state, PyObject *const *in, nm_py_buffer *stamp,
                      uint8_t ticket[NM_LXMF_TICKET_SIZE]) {
  nm_py_buffer_init(stamp);
  bool has_stamp = !nm_py_absent(in[NEW_STAMP]);
  bool has_ticket = !nm_py_absent(in[NEW_TICKET]);
  if (has_stamp && has_ticket) {
    PyErr_SetString(PyExc_ValueError,
                    "Message.create() takes 'stamp' or 'ticket', not both");
    return -1;
  }
  if (has_ticket) {
    return nm_py_exact_field(state, in[NEW_TICKET], "Message.create", "ticket",
                             ticket, NM_LXMF_TICKET_SIZE);
  }
  if (!has_stamp) {
    return 0;
  }
  if (nm_py_buffer_get(in[NEW_STAMP], "Message.create", "stamp", stamp) < 0) {
    return -1;
  }
  return stamp_fits(state, "Message.create", stamp->span.len) ? 0 : -1;
}

/* Signs and packs |draft|: a new Message, or NULL with an exception. */
static PyObject *create_from(nm_state *state, const nm_identity *identity,
                             const nm_lxmf_draft *draft,
                             const uint8_t *ticket) {
  /* A ticket's stamp: 2 bytes of header, 16 of content. */
  size_t size = nm_lxmf_packed_size(draft) +
                (ticket != NULL ? 2 + NM_LXMF_TICKET_SIZE : 0);
  uint8_t *out;
  uint8_t id[NM_HASH_SIZE];
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_lxmf_pack(draft, &identity->sign, ticket, &w, id);
  Py_END_ALLOW_THREADS;
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "message", 0};
    return nm_py_raise_encode(state, &fault, "lxmf");
  }
  PyObject *self = nm_py_message_from_packed(state, packed);
  if (self != NULL) {
    ((nm_py_message *)self)->id = nm_py_bytes(nm_span_of(id, sizeof id));
    if (((nm_py_message *)self)->id == NULL) {
      Py_CLEAR(self);
    }
  }
  return self;
}

PyObject *nm_py_message_create(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Message.create",
      .count = NEW_COUNT,
      .required = 2,
      .positional = 3,
      .positional_only = 3,
      .names = {NM_STR_source, NM_STR_destination, NM_STR_content, NM_STR_title,
                NM_STR_fields, NM_STR_timestamp, NM_STR_stamp, NM_STR_ticket}};
  const char *function = "Message.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *in[NEW_COUNT];
  nm_lxmf_draft draft = {.timestamp = 0};
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, in[NEW_SOURCE], function, "source");
  if (identity == NULL ||
      nm_py_address(state, in[NEW_DESTINATION], NM_PY_DESTINATION_HASH,
                    function, "destination", draft.destination.b) < 0 ||
      parse_time(in[NEW_TIMESTAMP], function, &draft.timestamp) < 0) {
    return NULL;
  }
  nm_py_delivery_address(&identity->hash, &draft.source);
  uint8_t room[512];
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
  nm_buffer fields;
  nm_py_buffer title;
  nm_py_buffer content;
  nm_py_buffer stamp;
  nm_buffer_init(&fields, &nm_mem_system, room, sizeof room, 0);
  nm_py_buffer_init(&content);
  nm_py_buffer_init(&stamp);
  PyObject *self = NULL;
  if (take_text(in[NEW_TITLE], "title", &title) == 0 &&
      take_text(in[NEW_CONTENT], "content", &content) == 0 &&
      take_stamp(state, in, &stamp, ticket) == 0 &&
      take_fields(state, in[NEW_FIELDS], &fields) == 0) {
    draft.title = title.span;
    draft.content = content.span;
    draft.fields = nm_span_of(fields.ptr, fields.len);
    draft.stamp = stamp.span;
    self = create_from(state, identity, &draft,
                       nm_py_absent(in[NEW_TICKET]) ? NULL : ticket);
  }
  nm_wipe(ticket, sizeof ticket);
  nm_buffer_dispose(&fields);
  nm_py_buffer_release(&title);
  nm_py_buffer_release(&content);
  nm_py_buffer_release(&stamp);
  return self;
}

/* -------------------------------------------------------------- with_stamp */

const char nm_py_message_with_stamp_doc[] =
    "with_stamp($self, stamp, /)\n--\n\n"
    "The same message, id and signature included, with another stamp: 32 "
    "bytes of proof of\nwork, or 16 bytes made from a ticket.\n\n"
    "Raises EncodeError (\"LENGTH\"); also (\"VALUE\") for a received message "
    "whose payload is\nnot canonical, because a stamp would change its id "
    "(LXMF 2.4).";

/* Header, elements and |stamp| as a packed message. */
static PyObject *restamp(const nm_py_message *m, nm_span stamp) {
  size_t size = NM_LXMF_HEADER_SIZE + 1 + m->view.elements.len +
                nm_mp_bin_size(stamp.len);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed != NULL) {
    nm_writer w = nm_writer_of(out, size);
    nm_writer_put(&w, PyBytes_AS_STRING(m->packed), NM_LXMF_HEADER_SIZE);
    nm_mp_array(&w, 5);
    nm_writer_span(&w, m->view.elements);
    nm_mp_bin(&w, stamp);
  }
  return packed;
}

/* Whether both messages have the same id. 1, 0, or -1 with an exception. */
static int same_id(PyObject *a, PyObject *b) {
  PyObject *first = nm_py_message_id(a);
  PyObject *second = first != NULL ? nm_py_message_id(b) : NULL;
  return second != NULL ? PyObject_RichCompareBool(first, second, Py_EQ) : -1;
}

PyObject *nm_py_message_with_stamp(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_py_buffer stamp;
  if (nm_py_buffer_get(arg, "Message.with_stamp", "stamp", &stamp) < 0) {
    return NULL;
  }
  PyObject *packed = stamp_fits(state, "Message.with_stamp", stamp.span.len)
                         ? restamp((nm_py_message *)self, stamp.span)
                         : NULL;
  nm_py_buffer_release(&stamp);
  PyObject *stamped = nm_py_message_from_packed(state, packed);
  int same = stamped != NULL ? same_id(self, stamped) : -1;
  if (same == 0) {
    nm_py_encode_error(state, NM_E(VALUE), "payload",
                       "Message.with_stamp(): the payload is not canonical, a "
                       "stamp would change the id");
  }
  if (same != 1) {
    Py_CLEAR(stamped);
  }
  return stamped;
}
