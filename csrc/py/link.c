/* netmesh.link: the functions of the handshake and of link payloads. */
#include "wire/link.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/link.h"
#include "py/packet.h"
#include "py/token.h"

/* ------------------------------------------------------------- signalling */

int nm_py_signalling(nm_state *state, PyObject *mtu, PyObject *mode,
                     const char *function, uint8_t out[NM_SIGNALLING_SIZE],
                     bool *present) {
  long long bytes = NM_MTU;
  long long code = NM_MODE_AES256_CBC;
  *present = mtu != Py_None;
  if ((mode != NULL && nm_py_int(mode, function, "mode", 0, 7, &code) < 0) ||
      (mtu != NULL && mtu != Py_None &&
       nm_py_int(mtu, function, "mtu", 0, UINT32_MAX, &bytes) < 0)) {
    return -1;
  }
  if (!*present) {
    return 0;
  }
  int status = nm_link_signalling_pack((uint32_t)bytes, (uint8_t)code, out);
  if (status != NM_OK) {
    nm_fault fault = {status, status == NM_E(MODE) ? "mode" : "mtu", 0};
    nm_py_raise_encode(state, &fault, "link");
    return -1;
  }
  return 0;
}

PyDoc_STRVAR(signalling_pack_doc,
             "signalling_pack($module, mtu, mode=1, /)\n--\n\n"
             "The 3 bytes that carry MTU (21 bits) and mode (3 bits) of a "
             "link.\n\n"
             "Raises EncodeError 'MODE' for a mode that is not enabled (all "
             "but 1) and 'RANGE' for an\nMTU above 2097151.\n\n"
             ">>> signalling_pack(500).hex()\n"
             "'2001f4'\n");

static PyObject *core_signalling_pack(PyObject *module, PyObject *const *args,
                                      Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "signalling_pack", 2, 1, 2, 2, {NM_STR_mtu, NM_STR_mode}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  uint8_t out[NM_SIGNALLING_SIZE];
  bool present;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0) {
    return NULL;
  }
  if (a[0] == Py_None) {
    nm_py_type_error("signalling_pack", "mtu", "an int", a[0]);
    return NULL;
  }
  return nm_py_signalling(state, a[0], a[1], "signalling_pack", out, &present) <
                 0
             ? NULL
             : nm_py_bytes(nm_span_of(out, sizeof out));
}

PyDoc_STRVAR(signalling_unpack_doc,
             "signalling_unpack($module, data, /)\n--\n\n"
             "(mtu, mode) of 3 signalling bytes; every mode is returned. "
             "Raises DecodeError 'LENGTH'.");

static PyObject *core_signalling_unpack(PyObject *module, PyObject *arg) {
  nm_py_buffer data;
  nm_fault fault;
  uint32_t mtu;
  uint8_t mode;
  if (nm_py_buffer_get(arg, "signalling_unpack", "data", &data) < 0) {
    return NULL;
  }
  int status = nm_link_signalling_unpack(data.span, &mtu, &mode, &fault);
  nm_py_buffer_release(&data);
  return status == NM_OK
             ? Py_BuildValue("Ii", (unsigned)mtu, (int)mode)
             : nm_py_raise(nm_py_state_of_module(module), &fault, "link");
}

PyDoc_STRVAR(
    link_request_payload_doc,
    "link_request_payload($module, x25519_public, ed25519_public, /, *,\n"
    "                     mtu=500, mode=1)\n--\n\n"
    "The payload of a link request: the two ephemeral public keys (32 bytes "
    "each) and the\nsignalling, which is left out when mtu is None: 67 or 64 "
    "bytes.");

static PyObject *core_link_request_payload(PyObject *module,
                                           PyObject *const *args,
                                           Py_ssize_t nargs,
                                           PyObject *kwnames) {
  static const nm_py_signature signature = {
      "link_request_payload",
      4,
      2,
      2,
      2,
      {NM_STR_x25519_public, NM_STR_ed25519_public, NM_STR_mtu, NM_STR_mode}};
  static const char function[] = "link_request_payload";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[4];
  uint8_t keys[2][NM_KEY_SIZE];
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t out[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  bool present;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_exact(a[0], function, "x25519_public", keys[0], NM_KEY_SIZE) < 0 ||
      nm_py_exact(a[1], function, "ed25519_public", keys[1], NM_KEY_SIZE) < 0 ||
      nm_py_signalling(state, a[2], a[3], function, signalling, &present) < 0) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  (void)nm_link_request_write(&w, keys[0], keys[1],
                              present ? signalling : NULL);
  return nm_py_bytes(nm_writer_done(&w));
}

PyDoc_STRVAR(link_id_doc,
             "link_id($module, raw, /)\n--\n\n"
             "The 16-byte id of the link that a request asks for; raw is a "
             "Packet or its bytes\n(RNS 2, 1.3).\n\n"
             "Raises DecodeError 'TYPE' for another packet and 'LENGTH' for "
             "one below 64 bytes of\npayload.");

static PyObject *core_link_id(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  PyObject *packet = nm_py_packet_of(state, arg, "link_id", "raw");
  nm_link_id id;
  nm_fault fault;
  if (packet == NULL) {
    return NULL;
  }
  int status = nm_link_id_of(nm_py_packet_view(packet), &id, &fault);
  Py_DECREF(packet);
  return status == NM_OK ? nm_py_bytes(nm_span_of(id.b, NM_ADDRESS_SIZE))
                         : nm_py_raise(state, &fault, "link");
}

/* ----------------------------------------------------------- sealed packets */

PyDoc_STRVAR(
    link_session_key_doc,
    "link_session_key($module, private, peer_public, link_id, /, *, "
    "mode=1)\n--\n\n"
    "The session key of a link (RNS 2, 1.6), from the own ephemeral X25519 "
    "private key and\nthe peer's public one: 64 bytes, or 32 for mode 0. Use "
    "it with Token.\n\n"
    "Raises DecodeError 'MODE' for a mode without a key derivation, "
    "AuthenticationError\n'KEY' when the shared secret is all zero. Releases "
    "the GIL.");

static PyObject *core_link_session_key(PyObject *module, PyObject *const *args,
                                       Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "link_session_key",
      4,
      3,
      3,
      3,
      {NM_STR_private, NM_STR_peer_public, NM_STR_link_id, NM_STR_mode}};
  static const char function[] = "link_session_key";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[4];
  uint8_t secret[NM_KEY_SIZE];
  uint8_t peer[NM_KEY_SIZE];
  nm_link_id id;
  long long mode = NM_MODE_AES256_CBC;
  uint8_t key[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[3] != NULL && nm_py_int(a[3], function, "mode", 0, 7, &mode) < 0) ||
      nm_py_exact(a[1], function, "peer_public", peer, sizeof peer) < 0 ||
      nm_py_exact(a[2], function, "link_id", id.b, NM_ADDRESS_SIZE) < 0 ||
      nm_py_exact(a[0], function, "private", secret, sizeof secret) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_link_derive(secret, peer, &id, (uint8_t)mode, key, &len);
  Py_END_ALLOW_THREADS;
  nm_wipe(secret, sizeof secret);
  PyObject *result =
      status == NM_OK
          ? nm_py_bytes(nm_span_of(key, len))
          : nm_py_raise_status(state, status, "link",
                               status == NM_E(MODE) ? "mode" : "peer_public");
  nm_wipe(key, sizeof key);
  return result;
}

/* The numbers of link_packet. */
typedef struct link_call {
  nm_link_id id;
  uint8_t context;
  uint8_t packet_type;
  size_t mtu;
} link_call;

static int read_numbers(PyObject *const *a, link_call *call) {
  static const char function[] = "link_packet";
  long long context = NM_CONTEXT_NONE;
  long long packet_type = NM_DATA;
  long long mtu = NM_MTU;
  if (nm_py_exact(a[0], function, "link_id", call->id.b, NM_ADDRESS_SIZE) < 0 ||
      (a[3] != NULL &&
       nm_py_int(a[3], function, "context", 0, 0xff, &context) < 0) ||
      (a[4] != NULL && nm_py_int(a[4], function, "packet_type", 0, NM_PROOF,
                                 &packet_type) < 0) ||
      (a[6] != NULL &&
       nm_py_int(a[6], function, "mtu", 0, NM_PY_SIZE_MAX, &mtu) < 0)) {
    return -1;
  }
  call->context = (uint8_t)context;
  call->packet_type = (uint8_t)packet_type;
  call->mtu = (size_t)mtu;
  return 0;
}

/* The payload of a link packet: sealed, or as it is when it travels in
 * clear. */
static PyObject *link_payload(nm_state *state, const link_call *call,
                              PyObject *key, PyObject *plaintext,
                              PyObject *iv) {
  static const char function[] = "link_packet";
  nm_token_key token;
  uint8_t given[NM_AES_BLOCK];
  nm_py_buffer plain;
  PyObject *payload = NULL;
  if ((!nm_py_absent(iv) &&
       nm_py_exact(iv, function, "iv", given, sizeof given) < 0) ||
      nm_py_buffer_get(plaintext, function, "plaintext", &plain) < 0) {
    return NULL;
  }
  if (nm_py_token_key(state, key, function, "key", &token) == 0) {
    bool clear =
        nm_packet_travels_in_clear(call->packet_type, NM_LINK, call->context);
    payload =
        clear ? nm_py_bytes(plain.span)
              : nm_py_token_seal(state, &token, nm_py_absent(iv) ? NULL : given,
                                 plain.span);
    nm_token_key_wipe(&token);
  }
  nm_py_buffer_release(&plain);
  return payload;
}

PyDoc_STRVAR(
    link_packet_doc,
    "link_packet($module, link_id, key, plaintext, /, *, context=0,\n"
    "            packet_type=0, iv=None, mtu=500)\n--\n\n"
    "A packet on a link: sealed under its session key (or Token) unless its "
    "context travels\nin clear.\n\n"
    "mtu is the link's. iv (16 bytes) makes the result reproducible. Raises "
    "EncodeError when\nthe packet is larger than the MTU or would be empty.");

static PyObject *core_link_packet(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "link_packet",
      7,
      3,
      3,
      3,
      {NM_STR_link_id, NM_STR_key, NM_STR_plaintext, NM_STR_context,
       NM_STR_packet_type, NM_STR_iv, NM_STR_mtu}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[7];
  link_call call;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      read_numbers(a, &call) < 0) {
    return NULL;
  }
  PyObject *payload = link_payload(state, &call, a[1], a[2], a[5]);
  if (payload == NULL) {
    return NULL;
  }
  nm_packet view =
      nm_packet_of(call.packet_type, NM_LINK, call.context, call.id.b,
                   nm_span_of(PyBytes_AS_STRING(payload),
                              (size_t)PyBytes_GET_SIZE(payload)));
  PyObject *packet = nm_py_packet_from_view(state, &view, call.mtu);
  Py_DECREF(payload);
  return packet;
}

PyDoc_STRVAR(
    link_open_doc,
    "link_open($module, key, packet, /)\n--\n\n"
    "The plaintext of a Packet on a link, under its session key (or Token); "
    "the payload\nitself when it travels in clear. Errors as those of "
    "Token.open.\n\n"
    ">>> key, id = bytes(64), bytes(16)\n"
    ">>> link_open(key, link_packet(id, key, b'hello'))\n"
    "b'hello'\n");

static PyObject *core_link_open(PyObject *module, PyObject *const *args,
                                Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "link_open", 2, 2, 2, 2, {NM_STR_key, NM_STR_packet}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  nm_token_key token;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0) {
    return NULL;
  }
  if (!nm_py_is_packet(state, a[1])) {
    nm_py_type_error("link_open", "packet", "a Packet", a[1]);
    return NULL;
  }
  if (nm_py_token_key(state, a[0], "link_open", "key", &token) < 0) {
    return NULL;
  }
  const nm_packet *view = nm_py_packet_view(a[1]);
  bool clear = nm_packet_travels_in_clear(
      view->packet_type, view->destination_type, view->context);
  PyObject *result =
      clear ? nm_py_bytes(view->payload)
            : nm_py_token_open(state, &token, view->payload, "token");
  nm_token_key_wipe(&token);
  return result;
}

/* ------------------------------------------------------------ small payloads
 */

PyDoc_STRVAR(rtt_pack_doc, "rtt_pack($module, seconds, /)\n--\n\n"
                           "The payload that reports a round-trip time: 9 "
                           "bytes.");

static PyObject *core_rtt_pack(PyObject *module, PyObject *arg) {
  double seconds;
  uint8_t out[NM_LINK_RTT_SIZE];
  if (nm_py_real(arg, "rtt_pack", "seconds", &seconds) < 0) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  int status = nm_link_rtt_write(&w, seconds);
  return status == NM_OK ? nm_py_bytes(nm_writer_done(&w))
                         : nm_py_raise_status(nm_py_state_of_module(module),
                                              status, "link", "rtt");
}

PyDoc_STRVAR(rtt_unpack_doc,
             "rtt_unpack($module, data, /)\n--\n\n"
             "The round-trip time in such a payload, seconds: any MessagePack "
             "number.\n\n"
             "Raises DecodeError 'TYPE' for what is no number and 'VALUE' for "
             "infinities and NaN.\n\n"
             ">>> rtt_unpack(rtt_pack(0.25))\n"
             "0.25\n");

static PyObject *core_rtt_unpack(PyObject *module, PyObject *arg) {
  nm_py_buffer data;
  nm_fault fault;
  double seconds;
  if (nm_py_buffer_get(arg, "rtt_unpack", "data", &data) < 0) {
    return NULL;
  }
  int status = nm_link_rtt_parse(data.span, &seconds, &fault);
  nm_py_buffer_release(&data);
  return status == NM_OK
             ? PyFloat_FromDouble(seconds)
             : nm_py_raise(nm_py_state_of_module(module), &fault, "link");
}

PyDoc_STRVAR(identify_pack_doc,
             "identify_pack($module, link_id, identity, /)\n--\n\n"
             "The payload by which an initiator identifies itself on a link "
             "(RNS 2, 1.12): 128 bytes.\nReleases the GIL.");

static PyObject *core_identify_pack(PyObject *module, PyObject *const *args,
                                    Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "identify_pack", 2, 2, 2, 2, {NM_STR_link_id, NM_STR_identity}};
  static const char function[] = "identify_pack";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  nm_link_id id;
  uint8_t out[NM_LINK_IDENTIFY_SIZE];
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[0], function, "link_id", id.b, NM_ADDRESS_SIZE) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, a[1], function, "identity");
  if (identity == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  Py_BEGIN_ALLOW_THREADS;
  status = nm_link_identify_write(&w, identity, &id);
  Py_END_ALLOW_THREADS;
  return status == NM_OK
             ? nm_py_bytes(nm_writer_done(&w))
             : nm_py_raise_status(state, status, "link", "identify");
}

PyDoc_STRVAR(identify_unpack_doc,
             "identify_unpack($module, link_id, data, /)\n--\n\n"
             "The Identity (public keys) that identifies itself with that "
             "payload.\n\n"
             "Raises DecodeError 'LENGTH' unless it has 128 bytes and "
             "AuthenticationError\n'SIGNATURE'. Releases the GIL.");

static PyObject *core_identify_unpack(PyObject *module, PyObject *const *args,
                                      Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "identify_unpack", 2, 2, 2, 2, {NM_STR_link_id, NM_STR_data}};
  static const char function[] = "identify_unpack";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  nm_link_id id;
  nm_span public_key;
  nm_fault fault;
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[0], function, "link_id", id.b, NM_ADDRESS_SIZE) < 0) {
    return NULL;
  }
  /* Bytes of its own: the key that was verified must be the one returned. */
  PyObject *data = nm_py_bytes_of(a[1], function, "data");
  if (data == NULL) {
    return NULL;
  }
  nm_span in =
      nm_span_of(PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
  Py_BEGIN_ALLOW_THREADS;
  status = nm_link_identify_check(in, &id, &public_key, &fault);
  Py_END_ALLOW_THREADS;
  PyObject *result = status == NM_OK
                         ? nm_py_identity_from_public(state, public_key.ptr)
                         : nm_py_raise(state, &fault, "link");
  Py_DECREF(data);
  return result;
}

PyDoc_STRVAR(keepalive_payload_doc,
             "keepalive_payload($module, initiator, /)\n--\n\n"
             "The keepalive byte: ff from the initiator, fe from the "
             "responder.");

static PyObject *core_keepalive_payload(PyObject *Py_UNUSED(module),
                                        PyObject *arg) {
  bool initiator;
  if (nm_py_bool(arg, "keepalive_payload", "initiator", &initiator) < 0) {
    return NULL;
  }
  uint8_t byte = nm_link_keepalive(initiator);
  return nm_py_bytes(nm_span_of(&byte, 1));
}

PyDoc_STRVAR(close_payload_doc,
             "close_payload($module, link_id, /)\n--\n\n"
             "The plaintext that closes a link: its id, 16 bytes.");

static PyObject *core_close_payload(PyObject *Py_UNUSED(module),
                                    PyObject *arg) {
  nm_link_id id;
  if (nm_py_exact(arg, "close_payload", "link_id", id.b, NM_ADDRESS_SIZE) < 0) {
    return NULL;
  }
  return nm_py_bytes(nm_span_of(id.b, NM_ADDRESS_SIZE));
}

PyDoc_STRVAR(is_close_doc, "is_close($module, link_id, plaintext, /)\n--\n\n"
                           "Whether a decrypted close payload closes that "
                           "link.");

static PyObject *core_is_close(PyObject *module, PyObject *const *args,
                               Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "is_close", 2, 2, 2, 2, {NM_STR_link_id, NM_STR_plaintext}};
  PyObject *a[2];
  nm_link_id id;
  nm_py_buffer plain;
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[0], "is_close", "link_id", id.b, NM_ADDRESS_SIZE) < 0 ||
      nm_py_buffer_get(a[1], "is_close", "plaintext", &plain) < 0) {
    return NULL;
  }
  bool closes = nm_link_is_close(plain.span, &id);
  nm_py_buffer_release(&plain);
  return PyBool_FromLong(closes);
}

#define KEYWORDS(name)                                                         \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))core_##name,                           \
        METH_FASTCALL | METH_KEYWORDS, name##_doc                              \
  }
#define FASTCALL(name)                                                         \
  { #name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, name##_doc }
#define ONE(name)                                                              \
  { #name, core_##name, METH_O, name##_doc }

static PyMethodDef functions[] = {FASTCALL(signalling_pack),
                                  ONE(signalling_unpack),
                                  KEYWORDS(link_request_payload),
                                  ONE(link_id),
                                  KEYWORDS(link_session_key),
                                  KEYWORDS(link_packet),
                                  FASTCALL(link_open),
                                  ONE(rtt_pack),
                                  ONE(rtt_unpack),
                                  FASTCALL(identify_pack),
                                  FASTCALL(identify_unpack),
                                  ONE(keepalive_payload),
                                  ONE(close_payload),
                                  FASTCALL(is_close),
                                  {NULL, NULL, 0, NULL}};

int nm_py_link_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
