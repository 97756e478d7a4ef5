/* Envelope: the plaintext of a packet with context CHANNEL (RNS 2, 4.1). */
#include "py/args.h"
#include "py/errors.h"
#include "py/value.h"
#include "wire/channel.h"

enum {
  ENVELOPE_MSGTYPE,
  ENVELOPE_SEQUENCE,
  ENVELOPE_PAYLOAD,
  ENVELOPE_LENGTH,
  ENVELOPE_FIELDS
};

static PyMemberDef envelope_members[] = {
    NM_PY_FIELD("msgtype", ENVELOPE_MSGTYPE,
                "Message type, 0 to 65535; from 0xF000 on reserved."),
    NM_PY_FIELD("sequence", ENVELOPE_SEQUENCE, "Sequence number, 0 to 65535."),
    NM_PY_FIELD("payload", ENVELOPE_PAYLOAD,
                "Content: all bytes after the header."),
    NM_PY_FIELD("length", ENVELOPE_LENGTH,
                "The length field as received; receivers go by the payload."),
    {NULL, 0, 0, 0, NULL}};

/* Takes over |payload|. */
static PyObject *envelope_make(PyTypeObject *type, long msgtype, long sequence,
                               PyObject *payload, long length) {
  PyObject *fields[ENVELOPE_FIELDS] = {PyLong_FromLong(msgtype),
                                       PyLong_FromLong(sequence), payload,
                                       PyLong_FromLong(length)};
  return nm_py_record_new(type, fields);
}

static PyObject *envelope_construct(PyObject *callable, PyObject *const *args,
                                    size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Envelope",
      .count = 3,
      .required = 3,
      .positional = 3,
      .positional_only = 3,
      .names = {NM_STR_msgtype, NM_STR_sequence, NM_STR_payload}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[3];
  long long msgtype;
  long long sequence;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      nm_py_int(in[0], "Envelope", "msgtype", 0, 0xFFFF, &msgtype) < 0 ||
      nm_py_int(in[1], "Envelope", "sequence", 0, 0xFFFF, &sequence) < 0) {
    return NULL;
  }
  PyObject *payload = nm_py_bytes_of(in[2], "Envelope", "payload");
  if (payload == NULL) {
    return NULL;
  }
  Py_ssize_t length = PyBytes_GET_SIZE(payload);
  if (length > NM_CHANNEL_PAYLOAD_MAX) {
    Py_DECREF(payload);
    return nm_py_encode_error(state, NM_E(TOO_LARGE), "payload",
                              "Envelope() parameter 'payload' has %zd bytes, "
                              "more than %d",
                              length, NM_CHANNEL_PAYLOAD_MAX);
  }
  return envelope_make(type, (long)msgtype, (long)sequence, payload,
                       (long)length);
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, data, /)\n--\n\n"
             "Reads an envelope of 6 bytes and more; the payload is all that "
             "follows the header.\n\n"
             "Raises DecodeError (\"TRUNCATED\").");

static PyObject *envelope_unpack(PyObject *cls, PyObject *arg) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Envelope.unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_channel_envelope env;
  nm_fault fault;
  PyObject *result;
  if (nm_channel_decode(buf.span, &env, &fault) < 0) {
    result = nm_py_raise(nm_py_state_of_type((PyTypeObject *)cls), &fault,
                         "channel");
  } else {
    result = envelope_make((PyTypeObject *)cls, env.msgtype, env.sequence,
                           nm_py_bytes(env.payload), env.declared);
  }
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(pack_doc,
             "pack($self, /)\n--\n\n"
             "The 6-byte header, whose length field is that of the payload, "
             "and the payload.");

static PyObject *envelope_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_channel_envelope env = {
      .msgtype =
          (uint16_t)PyLong_AsLong(nm_py_record_get(self, ENVELOPE_MSGTYPE)),
      .sequence =
          (uint16_t)PyLong_AsLong(nm_py_record_get(self, ENVELOPE_SEQUENCE)),
      .payload = nm_py_bytes_span(nm_py_record_get(self, ENVELOPE_PAYLOAD))};
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(nm_channel_size(&env), &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, nm_channel_size(&env));
  int status = nm_channel_encode(&env, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "payload", 0};
    return nm_py_raise_encode(nm_py_state_of(self), &fault, "channel");
  }
  return packed;
}

static PyMethodDef envelope_methods[] = {
    {"unpack", envelope_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", envelope_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(envelope_doc,
             "Envelope(msgtype, sequence, payload, /)\n--\n\n"
             "One message of a channel, as a link packet carries it.\n\n"
             "msgtype and sequence are 0 to 65535 (ValueError); payload is any "
             "bytes-like object\nof up to 65535 bytes (EncodeError "
             "\"TOO_LARGE\"). Immutable; may be used from any thread.\n\n"
             ">>> Envelope(0x0101, 65535, b'wrap').pack().hex()\n"
             "'0101ffff000477726170'\n"
             ">>> Envelope.unpack(bytes.fromhex('0101ffff000477726170'))"
             ".sequence\n"
             "65535\n");

static PyType_Slot envelope_slots[] = {{Py_tp_doc, (void *)envelope_doc},
                                       {Py_tp_new, (void *)nm_py_new},
                                       {Py_tp_members, envelope_members},
                                       {Py_tp_methods, envelope_methods},
                                       NM_PY_RECORD_SLOTS,
                                       {0, NULL}};

static PyType_Spec envelope_spec = {
    .name = "netmesh._core.Envelope",
    .basicsize = NM_PY_RECORD_SIZE(ENVELOPE_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = envelope_slots,
};

int nm_py_envelope_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Envelope, &envelope_spec, NULL,
                        envelope_construct);
}
