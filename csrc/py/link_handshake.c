/* netmesh.link: LinkRequest and LinkProof.
 *
 * Both refer to a Packet alone, so they are not tracked by the garbage
 * collector.
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/link.h"
#include "py/packet.h"
#include "py/value.h"
#include "wire/link.h"

typedef struct nm_py_handshake {
  PyObject_HEAD
  PyObject *packet; /* a Packet; the object owns it */
  union {
    nm_link_request request;
    nm_link_proof proof;
  } as; /* borrows from the packet's bytes */
} nm_py_handshake;

static nm_py_handshake *self_of(PyObject *self) {
  return (nm_py_handshake *)self;
}

static const nm_packet *packet_of(PyObject *self) {
  return nm_py_packet_view(self_of(self)->packet);
}

/* Parses the payload of the object's packet. */
typedef int (*parser)(nm_py_handshake *self, nm_fault *fault);

/* An object over |packet|, whose reference is taken over in every case. */
static PyObject *handshake_new(nm_state *state, PyTypeObject *type,
                               PyObject *packet, parser parse) {
  nm_fault fault;
  if (packet == NULL) {
    return NULL;
  }
  nm_py_handshake *self = PyObject_New(nm_py_handshake, type);
  if (self == NULL) {
    Py_DECREF(packet);
    return NULL;
  }
  self->packet = packet;
  if (parse(self, &fault) != NM_OK) {
    Py_DECREF(self);
    return nm_py_raise(state, &fault, "link");
  }
  return (PyObject *)self;
}

static void handshake_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_DECREF(self_of(self)->packet);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *get_packet(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(self_of(self)->packet);
}

static PyObject *handshake_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyObject_RichCompare(self_of(self)->packet, self_of(other)->packet,
                              op);
}

static Py_hash_t handshake_hash(PyObject *self) {
  return PyObject_Hash(self_of(self)->packet);
}

static PyObject *handshake_reduce(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return Py_BuildValue(
      "N(O)", PyObject_GetAttrString((PyObject *)Py_TYPE(self), "unpack"),
      self_of(self)->packet);
}

/* "<Name of link hex, mtu 500, mode 1>" */
static PyObject *describe(const char *name, const uint8_t id[NM_ADDRESS_SIZE],
                          const nm_link_signalling *signalling) {
  PyObject *hex = nm_py_hex(nm_span_of(id, NM_ADDRESS_SIZE));
  PyObject *text =
      hex != NULL ? PyUnicode_FromFormat("<%s of link %U, mtu %u, mode %d>",
                                         name, hex, (unsigned)signalling->mtu,
                                         (int)signalling->mode)
                  : NULL;
  Py_XDECREF(hex);
  return text;
}

/* ------------------------------------------------------------- LinkRequest */

static int parse_request(nm_py_handshake *self, nm_fault *fault) {
  const nm_packet *packet = nm_py_packet_view(self->packet);
  if (packet->packet_type != NM_LINKREQUEST) {
    return nm_fault_set(fault, NM_E(TYPE), "packet_type", 0);
  }
  return nm_link_request_parse(packet->payload, &self->as.request, fault);
}

static PyObject *request_from_packet(nm_state *state, PyObject *packet) {
  return handshake_new(state, NM_PY_TYPE(state, LinkRequest), packet,
                       parse_request);
}

PyDoc_STRVAR(
    request_doc,
    "The link request in a packet (RNS 2, 1.2).\n\n"
    "LinkRequest.create makes one, LinkRequest.unpack parses one. Immutable; "
    "may be used from\nany thread.\n\n"
    ">>> request = LinkRequest.create(bytes(16), bytes(32), bytes(32))\n"
    ">>> request.mtu, request.mode, len(request.link_id)\n"
    "(500, 1, 16)\n"
    ">>> LinkRequest.unpack(request.packet.raw) == request\n"
    "True\n");

PyDoc_STRVAR(
    request_create_doc,
    "create($type, destination, x25519_public, ed25519_public, /, *, "
    "mtu=500,\n       mode=1)\n--\n\n"
    "A request to a SINGLE destination with two fresh ephemeral public keys "
    "(32 bytes each).\n\n"
    "mtu None leaves the signalling out. Raises EncodeError 'MODE' for a mode "
    "other than 1.");

static PyObject *request_create(PyObject *cls, PyObject *const *args,
                                Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "LinkRequest.create",
      5,
      3,
      3,
      3,
      {NM_STR_destination, NM_STR_x25519_public, NM_STR_ed25519_public,
       NM_STR_mtu, NM_STR_mode}};
  static const char function[] = "LinkRequest.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[5];
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t keys[2][NM_KEY_SIZE];
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t payload[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  bool present;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_address_field(state, a[0], NM_PY_DESTINATION_HASH, function,
                          "destination", destination) < 0 ||
      nm_py_exact(a[1], function, "x25519_public", keys[0], NM_KEY_SIZE) < 0 ||
      nm_py_exact(a[2], function, "ed25519_public", keys[1], NM_KEY_SIZE) < 0 ||
      nm_py_signalling(state, a[3], a[4], function, signalling, &present) < 0) {
    return NULL;
  }
  nm_writer w = nm_writer_of(payload, sizeof payload);
  (void)nm_link_request_write(&w, keys[0], keys[1],
                              present ? signalling : NULL);
  nm_packet view = nm_packet_of(NM_LINKREQUEST, NM_SINGLE, NM_CONTEXT_NONE,
                                destination, nm_writer_done(&w));
  return request_from_packet(state,
                             nm_py_packet_from_view(state, &view, NM_MTU));
}

PyDoc_STRVAR(request_unpack_doc,
             "unpack($type, raw, /)\n--\n\n"
             "Parses the request in a Packet or in the bytes of one.\n\n"
             "Raises DecodeError 'TYPE' for another packet, 'LENGTH' unless "
             "the payload has 64 or 67\nbytes, and the errors of "
             "Packet.unpack.");

static PyObject *request_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  return request_from_packet(
      state, nm_py_packet_of(state, arg, "LinkRequest.unpack", "raw"));
}

static const nm_link_request *request_of(PyObject *self) {
  return &self_of(self)->as.request;
}

static PyObject *request_destination(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_destination_hash_new(nm_py_state_of(self),
                                    packet_of(self)->destination.ptr);
}

static PyObject *request_link_id(PyObject *self, void *Py_UNUSED(closure)) {
  nm_link_id id;
  (void)nm_link_id_of(packet_of(self), &id, NULL);
  return nm_py_bytes(nm_span_of(id.b, NM_ADDRESS_SIZE));
}

static PyObject *request_x25519_public(PyObject *self,
                                       void *Py_UNUSED(closure)) {
  return nm_py_bytes(request_of(self)->x25519_public);
}

static PyObject *request_ed25519_public(PyObject *self,
                                        void *Py_UNUSED(closure)) {
  return nm_py_bytes(request_of(self)->ed25519_public);
}

static PyObject *request_mtu(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(request_of(self)->signalling.mtu);
}

static PyObject *request_mode(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(request_of(self)->signalling.mode);
}

static PyObject *request_has_signalling(PyObject *self,
                                        void *Py_UNUSED(closure)) {
  return PyBool_FromLong(request_of(self)->signalling.present);
}

static PyObject *request_repr(PyObject *self) {
  nm_link_id id;
  (void)nm_link_id_of(packet_of(self), &id, NULL);
  return describe("LinkRequest", id.b, &request_of(self)->signalling);
}

static PyMethodDef request_methods[] = {
    {"create", (PyCFunction)(void (*)(void))request_create,
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, request_create_doc},
    {"unpack", request_unpack, METH_O | METH_CLASS, request_unpack_doc},
    {"__reduce__", handshake_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef request_getset[] = {
    {"packet", get_packet, NULL, "The Packet.", NULL},
    {"destination", request_destination, NULL, "Whom the link is to reach.",
     NULL},
    {"link_id", request_link_id, NULL, "The address of the link, 16 bytes.",
     NULL},
    {"x25519_public", request_x25519_public, NULL,
     "The initiator's ephemeral exchange key, 32 bytes.", NULL},
    {"ed25519_public", request_ed25519_public, NULL,
     "The initiator's ephemeral signing key, 32 bytes.", NULL},
    {"mtu", request_mtu, NULL, "The signalled MTU; 500 when absent or zero.",
     NULL},
    {"mode", request_mode, NULL, "The signalled mode; 1 when absent.", NULL},
    {"has_signalling", request_has_signalling, NULL,
     "Whether the signalling bytes are there.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot request_slots[] = {
    {Py_tp_doc, (void *)request_doc},
    {Py_tp_dealloc, (void *)handshake_dealloc},
    {Py_tp_repr, (void *)request_repr},
    {Py_tp_richcompare, (void *)handshake_compare},
    {Py_tp_hash, (void *)handshake_hash},
    {Py_tp_methods, request_methods},
    {Py_tp_getset, request_getset},
    {0, NULL}};

static PyType_Spec request_spec = {.name = "netmesh._core.LinkRequest",
                                   .basicsize = sizeof(nm_py_handshake),
                                   .flags = NM_PY_FLAGS |
                                            Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = request_slots};

/* --------------------------------------------------------------- LinkProof */

static int parse_proof(nm_py_handshake *self, nm_fault *fault) {
  const nm_packet *packet = nm_py_packet_view(self->packet);
  if (packet->packet_type != NM_PROOF) {
    return nm_fault_set(fault, NM_E(TYPE), "packet_type", 0);
  }
  if (packet->context != NM_CONTEXT_LRPROOF) {
    return nm_fault_set(fault, NM_E(TYPE), "context",
                        nm_packet_size(packet) - packet->payload.len - 1);
  }
  return nm_link_proof_parse(packet->payload, &self->as.proof, fault);
}

static PyObject *proof_from_packet(nm_state *state, PyObject *packet) {
  return handshake_new(state, NM_PY_TYPE(state, LinkProof), packet,
                       parse_proof);
}

PyDoc_STRVAR(
    proof_doc,
    "The link request proof in a packet (RNS 2, 1.5).\n\n"
    "LinkProof.create signs one, LinkProof.unpack parses one; verify() checks "
    "it. Immutable;\nmay be used from any thread.\n\n"
    ">>> identity = Identity()\n"
    ">>> proof = LinkProof.create(bytes(16), identity, bytes(32))\n"
    ">>> LinkProof.unpack(proof.packet.raw).verify(identity.public_only())\n"
    "True\n");

PyDoc_STRVAR(
    proof_create_doc,
    "create($type, link_id, identity, x25519_public, /, *, mtu=500, mode=1)\n"
    "--\n\n"
    "The proof of a link by the destination's identity, with the responder's "
    "ephemeral public\nkey (32 bytes). mtu and mode as in LinkRequest.create. "
    "Releases the GIL.");

static PyObject *proof_create(PyObject *cls, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {"LinkProof.create",
                                            5,
                                            3,
                                            3,
                                            3,
                                            {NM_STR_link_id, NM_STR_identity,
                                             NM_STR_x25519_public, NM_STR_mtu,
                                             NM_STR_mode}};
  static const char function[] = "LinkProof.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[5];
  nm_link_id id;
  uint8_t key[NM_KEY_SIZE];
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t payload[NM_LINK_PROOF_SIZE + NM_SIGNALLING_SIZE];
  bool present;
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_exact(a[0], function, "link_id", id.b, NM_ADDRESS_SIZE) < 0 ||
      nm_py_exact(a[2], function, "x25519_public", key, sizeof key) < 0 ||
      nm_py_signalling(state, a[3], a[4], function, signalling, &present) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, a[1], function, "identity");
  if (identity == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(payload, sizeof payload);
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_link_proof_write(&w, identity, &id, key, present ? signalling : NULL);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    return nm_py_raise_status(state, status, "link", "signature");
  }
  nm_packet view = nm_packet_of(NM_PROOF, NM_LINK, NM_CONTEXT_LRPROOF, id.b,
                                nm_writer_done(&w));
  return proof_from_packet(state, nm_py_packet_from_view(state, &view, NM_MTU));
}

PyDoc_STRVAR(proof_unpack_doc,
             "unpack($type, raw, /)\n--\n\n"
             "Parses the proof in a Packet or in the bytes of one.\n\n"
             "Raises DecodeError 'TYPE' for another packet or context, "
             "'LENGTH' unless the payload has\n96 or 99 bytes, and the errors "
             "of Packet.unpack.");

static PyObject *proof_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  return proof_from_packet(
      state, nm_py_packet_of(state, arg, "LinkProof.unpack", "raw"));
}

static const nm_link_proof *proof_of(PyObject *self) {
  return &self_of(self)->as.proof;
}

/* The id of the link that the proof is addressed to. */
static nm_link_id proof_id(PyObject *self) {
  nm_link_id id = {{0}};
  nm_reader r = nm_reader_of(packet_of(self)->destination);
  (void)nm_reader_copy(&r, id.b, NM_ADDRESS_SIZE);
  return id;
}

/* The Ed25519 half of the identity's public key. */
static const uint8_t *ed25519_of(const nm_identity *identity) {
  return identity->public_key + NM_KEY_SIZE;
}

PyDoc_STRVAR(signed_data_doc,
             "signed_data($self, identity, /)\n--\n\n"
             "What the destination's identity signed: link id, X25519 key, its "
             "Ed25519 key and the\nsignalling.");

static PyObject *proof_signed_data(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  const nm_identity *identity =
      nm_py_identity_public(state, arg, "LinkProof.signed_data", "identity");
  uint8_t out[NM_LINK_SIGNED_MAX];
  nm_link_id id = proof_id(self);
  if (identity == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  int status = nm_link_proof_signed(&w, &id, proof_of(self)->x25519_public,
                                    ed25519_of(identity),
                                    proof_of(self)->signalling_bytes);
  return status == NM_OK
             ? nm_py_bytes(nm_writer_done(&w))
             : nm_py_raise_status(state, status, "link", "signed_data");
}

PyDoc_STRVAR(
    proof_verify_doc,
    "verify($self, identity, /, *, mode=1, mtu_max=None)\n--\n\n"
    "Whether the destination's identity signed it for this link. False too for "
    "another mode\nthan the one requested, and for an MTU above mtu_max. "
    "Releases the GIL.");

static PyObject *proof_verify(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "LinkProof.verify",
      3,
      1,
      1,
      1,
      {NM_STR_identity, NM_STR_mode, NM_STR_mtu_max}};
  static const char function[] = "LinkProof.verify";
  nm_state *state = nm_py_state_of(self);
  const nm_link_proof *proof = proof_of(self);
  PyObject *a[3];
  long long mode = NM_MODE_AES256_CBC;
  long long mtu_max = UINT32_MAX;
  nm_link_id id = proof_id(self);
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], function, "mode", 0, 7, &mode) < 0) ||
      (!nm_py_absent(a[2]) &&
       nm_py_int(a[2], function, "mtu_max", 0, UINT32_MAX, &mtu_max) < 0)) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_public(state, a[0], function, "identity");
  if (identity == NULL) {
    return NULL;
  }
  if (proof->signalling.mode != mode || proof->signalling.mtu > mtu_max) {
    Py_RETURN_FALSE;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_link_proof_verify(proof, &id, ed25519_of(identity));
  Py_END_ALLOW_THREADS;
  return PyBool_FromLong(status == NM_OK);
}

static PyObject *proof_link_id(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(packet_of(self)->destination);
}

static PyObject *proof_signature(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(proof_of(self)->signature);
}

static PyObject *proof_x25519_public(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(proof_of(self)->x25519_public);
}

static PyObject *proof_mtu(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(proof_of(self)->signalling.mtu);
}

static PyObject *proof_mode(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLong(proof_of(self)->signalling.mode);
}

static PyObject *proof_repr(PyObject *self) {
  return describe("LinkProof", packet_of(self)->destination.ptr,
                  &proof_of(self)->signalling);
}

static PyMethodDef proof_methods[] = {
    {"create", (PyCFunction)(void (*)(void))proof_create,
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, proof_create_doc},
    {"unpack", proof_unpack, METH_O | METH_CLASS, proof_unpack_doc},
    {"signed_data", proof_signed_data, METH_O, signed_data_doc},
    {"verify", (PyCFunction)(void (*)(void))proof_verify,
     METH_FASTCALL | METH_KEYWORDS, proof_verify_doc},
    {"__reduce__", handshake_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef proof_getset[] = {
    {"packet", get_packet, NULL, "The Packet.", NULL},
    {"link_id", proof_link_id, NULL, "The link that it proves, 16 bytes.",
     NULL},
    {"signature", proof_signature, NULL,
     "The signature by the destination's identity, 64 bytes.", NULL},
    {"x25519_public", proof_x25519_public, NULL,
     "The responder's ephemeral exchange key, 32 bytes.", NULL},
    {"mtu", proof_mtu, NULL, "The confirmed MTU; 500 when absent or zero.",
     NULL},
    {"mode", proof_mode, NULL, "The confirmed mode; 1 when absent.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot proof_slots[] = {
    {Py_tp_doc, (void *)proof_doc},
    {Py_tp_dealloc, (void *)handshake_dealloc},
    {Py_tp_repr, (void *)proof_repr},
    {Py_tp_richcompare, (void *)handshake_compare},
    {Py_tp_hash, (void *)handshake_hash},
    {Py_tp_methods, proof_methods},
    {Py_tp_getset, proof_getset},
    {0, NULL}};

static PyType_Spec proof_spec = {.name = "netmesh._core.LinkProof",
                                 .basicsize = sizeof(nm_py_handshake),
                                 .flags = NM_PY_FLAGS |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = proof_slots};

int nm_py_link_handshake_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_LinkRequest, &request_spec, NULL,
                     NULL) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_LinkProof, &proof_spec, NULL,
                        NULL);
}
