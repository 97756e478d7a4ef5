/* netmesh.packet: proofs of packets. */
#include "wire/proof.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/packet.h"

/* What a proof is made from. */
typedef struct proving {
  nm_ed25519_sign_key key; /* a secret: wiped by whoever filled it */
  nm_packet_hash hash;
} proving;

/* The signing key behind |signer|: an identity's, or that of a seed. */
static int read_signer(nm_state *state, PyObject *signer, const char *function,
                       nm_ed25519_sign_key *key) {
  if (nm_py_is_identity(state, signer)) {
    const nm_identity *id =
        nm_py_identity_private(state, signer, function, "signer");
    if (id == NULL) {
      return -1;
    }
    *key = id->sign;
    return 0;
  }
  uint8_t seed[NM_KEY_SIZE];
  int status;
  if (!PyObject_CheckBuffer(signer)) {
    return nm_py_type_error(function, "signer",
                            "an Identity or a seed of 32 bytes", signer);
  }
  if (nm_py_exact(signer, function, "signer", seed, sizeof seed) < 0) {
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_ed25519_sign_key_init(key, seed);
  Py_END_ALLOW_THREADS;
  nm_wipe(seed, sizeof seed);
  if (status != NM_OK) {
    nm_py_raise_status(state, status, "proof", "signer");
    return -1;
  }
  return 0;
}

/* Signs; NM_PROOF_EXPLICIT_SIZE bytes have room at |out|. The number of bytes,
 * or 0 with an exception. Wipes the key. */
static size_t write_proof(nm_state *state, proving *p, bool implicit,
                          uint8_t *out) {
  nm_writer w = nm_writer_of(out, NM_PROOF_EXPLICIT_SIZE);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_proof_write(&w, &p->key, &p->hash, implicit);
  nm_ed25519_sign_key_wipe(&p->key);
  Py_END_ALLOW_THREADS;
  if (status != NM_OK) {
    nm_py_raise_status(state, status, "proof", "signature");
    return 0;
  }
  return nm_writer_done(&w).len;
}

/* Parses (signer, packet_hash, /, *, implicit=True) and writes the payload;
 * its length, or 0 with an exception. */
static size_t prove(PyObject *module, const char *function,
                    PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                    nm_packet_hash *hash, uint8_t *out) {
  nm_py_signature signature = {
      function, 3, 2,
      2,        2, {NM_STR_signer, NM_STR_packet_hash, NM_STR_implicit}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[3];
  proving p;
  bool implicit = true;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[2] != NULL && nm_py_bool(a[2], function, "implicit", &implicit) < 0) ||
      nm_py_exact(a[1], function, "packet_hash", p.hash.b, NM_HASH_SIZE) < 0 ||
      read_signer(state, a[0], function, &p.key) < 0) {
    return 0;
  }
  *hash = p.hash;
  return write_proof(state, &p, implicit, out);
}

PyDoc_STRVAR(
    proof_payload_doc,
    "proof_payload($module, signer, packet_hash, /, *, implicit=True)\n--\n\n"
    "The payload that proves the reception of a packet (RNS 1, 4.8).\n\n"
    "signer is an Identity with private keys or a 32-byte Ed25519 seed, "
    "packet_hash the\n32-byte hash. Implicit: a signature of 64 bytes; "
    "explicit: the hash, then the\nsignature, 96 bytes. Releases the GIL.");

static PyObject *core_proof_payload(PyObject *module, PyObject *const *args,
                                    Py_ssize_t nargs, PyObject *kwnames) {
  nm_packet_hash hash;
  uint8_t payload[NM_PROOF_EXPLICIT_SIZE];
  size_t len =
      prove(module, "proof_payload", args, nargs, kwnames, &hash, payload);
  return len > 0 ? nm_py_bytes(nm_span_of(payload, len)) : NULL;
}

PyDoc_STRVAR(
    proof_packet_doc,
    "proof_packet($module, signer, packet_hash, /, *, implicit=True)\n--\n\n"
    "The packet that proves one to a SINGLE destination; it goes to the "
    "truncated hash of\nthe proved packet. Arguments as those of "
    "proof_payload.\n\n"
    ">>> identity = Identity()\n"
    ">>> sent = Packet(destination=bytes(16), payload=b'hello')\n"
    ">>> proof = proof_packet(identity, sent.hash)\n"
    ">>> verify_proof(identity.public_only(), proof.payload, sent.hash)\n"
    "True\n");

static PyObject *core_proof_packet(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames) {
  nm_packet_hash hash;
  uint8_t payload[NM_PROOF_EXPLICIT_SIZE];
  size_t len =
      prove(module, "proof_packet", args, nargs, kwnames, &hash, payload);
  if (len == 0) {
    return NULL;
  }
  nm_packet view = nm_proof_packet(&hash, nm_span_of(payload, len));
  return nm_py_packet_from_view(nm_py_state_of_module(module), &view, NM_MTU);
}

PyDoc_STRVAR(
    link_proof_packet_doc,
    "link_proof_packet($module, signer, packet_hash, link_id, /)\n--\n\n"
    "The packet that proves one on a link (RNS 2, 1.10): always explicit, "
    "addressed to\nthe 16-byte link id. signer and packet_hash as in "
    "proof_payload.");

static PyObject *core_link_proof_packet(PyObject *module, PyObject *const *args,
                                        Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "link_proof_packet",
      3,
      3,
      3,
      3,
      {NM_STR_signer, NM_STR_packet_hash, NM_STR_link_id}};
  static const char function[] = "link_proof_packet";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[3];
  proving p;
  nm_link_id link;
  uint8_t payload[NM_PROOF_EXPLICIT_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[2], function, "link_id", link.b, NM_ADDRESS_SIZE) < 0 ||
      nm_py_exact(a[1], function, "packet_hash", p.hash.b, NM_HASH_SIZE) < 0 ||
      read_signer(state, a[0], function, &p.key) < 0) {
    return NULL;
  }
  size_t len = write_proof(state, &p, false, payload);
  if (len == 0) {
    return NULL;
  }
  nm_packet view = nm_proof_link_packet(&link, nm_span_of(payload, len));
  return nm_py_packet_from_view(state, &view, NM_MTU);
}

/* The Ed25519 public key behind |obj|: an identity's, or 32 bytes. */
static int read_verifier(nm_state *state, PyObject *obj, const char *function,
                         uint8_t key[NM_KEY_SIZE]) {
  if (nm_py_is_identity(state, obj)) {
    const nm_identity *id =
        nm_py_identity_public(state, obj, function, "public");
    if (id == NULL) {
      return -1;
    }
    memcpy(key, id->public_key + NM_KEY_SIZE, NM_KEY_SIZE);
    return 0;
  }
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error(function, "public",
                            "an Identity or a key of 32 bytes", obj);
  }
  return nm_py_exact(obj, function, "public", key, NM_KEY_SIZE);
}

static bool check_proof(nm_span payload, bool link, const nm_packet_hash *hash,
                        const uint8_t key[NM_KEY_SIZE]) {
  nm_proof proof;
  return nm_proof_parse(payload, link, &proof, NULL) == NM_OK &&
         nm_proof_verify(&proof, hash, key) == NM_OK;
}

PyDoc_STRVAR(
    verify_proof_doc,
    "verify_proof($module, public, payload, packet_hash, /, *, "
    "link=False)\n--\n\n"
    "Whether a proof payload proves the packet with that hash.\n\n"
    "public is an Identity or a 32-byte Ed25519 key. Both forms are accepted, "
    "told apart by\ntheir length; on a link only the explicit one. False for "
    "everything else. Releases\nthe GIL.");

static PyObject *core_verify_proof(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "verify_proof",
      4,
      3,
      3,
      3,
      {NM_STR_public, NM_STR_payload, NM_STR_packet_hash, NM_STR_link}};
  static const char function[] = "verify_proof";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[4];
  uint8_t key[NM_KEY_SIZE];
  nm_packet_hash hash;
  nm_py_buffer payload;
  bool link = false;
  bool good;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[3] != NULL && nm_py_bool(a[3], function, "link", &link) < 0) ||
      read_verifier(state, a[0], function, key) < 0 ||
      nm_py_exact(a[2], function, "packet_hash", hash.b, NM_HASH_SIZE) < 0 ||
      nm_py_buffer_get(a[1], function, "payload", &payload) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  good = check_proof(payload.span, link, &hash, key);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&payload);
  return PyBool_FromLong(good);
}

#define KEYWORDS(name)                                                         \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))core_##name,                           \
        METH_FASTCALL | METH_KEYWORDS, name##_doc                              \
  }

static PyMethodDef functions[] = {
    KEYWORDS(proof_payload),
    KEYWORDS(proof_packet),
    {"link_proof_packet", (PyCFunction)(void (*)(void))core_link_proof_packet,
     METH_FASTCALL, link_proof_packet_doc},
    KEYWORDS(verify_proof),
    {NULL, NULL, 0, NULL}};

int nm_py_proof_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
