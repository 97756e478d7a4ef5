/* Encryption to identities, and netmesh.Decrypted. */
#include "crypto/entropy.h"
#include "py/args.h"
#include "py/cipher.h"
#include "py/errors.h"
#include "py/identity.h"
#include "py/value.h"

int nm_py_encrypt_options_read(PyObject *const args[3], const char *function,
                               nm_py_encrypt_options *out) {
  out->has_ratchet = !nm_py_absent(args[0]);
  out->has_ephemeral = !nm_py_absent(args[1]);
  out->has_iv = !nm_py_absent(args[2]);
  if ((out->has_ratchet && nm_py_exact(args[0], function, "ratchet",
                                       out->ratchet, NM_KEY_SIZE) < 0) ||
      (out->has_iv &&
       nm_py_exact(args[2], function, "iv", out->iv, NM_AES_BLOCK) < 0) ||
      (out->has_ephemeral && nm_py_exact(args[1], function, "ephemeral_private",
                                         out->ephemeral, NM_KEY_SIZE) < 0)) {
    return -1;
  }
  return 0;
}

/* Fills what the options leave to chance. */
static int fill_random(nm_py_encrypt_options *options) {
  int status = NM_OK;
  if (!options->has_ephemeral) {
    status =
        nm_entropy_fill(&nm_entropy_system, options->ephemeral, NM_KEY_SIZE);
  }
  if (!options->has_iv && status == NM_OK) {
    status = nm_entropy_fill(&nm_entropy_system, options->iv, NM_AES_BLOCK);
  }
  return status;
}

PyObject *nm_py_identity_encrypt(nm_state *state, const nm_identity *identity,
                                 nm_span plain,
                                 const nm_py_encrypt_options *options) {
  uint8_t *out;
  nm_py_encrypt_options all = *options;
  nm_encrypt_params params = {.target = all.has_ratchet ? all.ratchet
                                                        : identity->public_key,
                              .salt = &identity->hash,
                              .ephemeral = all.ephemeral,
                              .iv = all.iv};
  PyObject *result =
      nm_py_bytes_new(nm_identity_encrypted_size(plain.len), &out);
  nm_cipher *cipher = result != NULL ? nm_py_cipher_take(state) : NULL;
  int status;
  if (cipher == NULL) {
    nm_wipe(&all, sizeof all);
    Py_XDECREF(result);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = fill_random(&all);
  if (status == NM_OK) {
    status = nm_identity_encrypt(cipher, &params, plain, out);
  }
  nm_wipe(&all, sizeof all);
  Py_END_ALLOW_THREADS;
  nm_py_cipher_give(state, cipher);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise_status(state, status, "encryption", "ratchet");
  }
  return result;
}

/* ---------------------------------------------------------------- decryption
 */

enum {
  DECRYPTED_PLAINTEXT,
  DECRYPTED_RATCHET_ID,
  DECRYPTED_RATCHET_INDEX,
  DECRYPTED_FIELDS
};

PyObject *nm_py_decrypted_new(nm_state *state, PyObject *plaintext,
                              const uint8_t *ratchet_id, size_t index) {
  PyObject *fields[DECRYPTED_FIELDS] = {plaintext, NULL, NULL};
  if (plaintext != NULL) {
    fields[DECRYPTED_RATCHET_ID] =
        ratchet_id != NULL
            ? nm_py_bytes(nm_span_of(ratchet_id, NM_RATCHET_ID_SIZE))
            : Py_NewRef(Py_None);
    fields[DECRYPTED_RATCHET_INDEX] =
        ratchet_id != NULL ? PyLong_FromSize_t(index) : Py_NewRef(Py_None);
  }
  return nm_py_record_new(NM_PY_TYPE(state, Decrypted), fields);
}

/* One decryption: what it reads and what comes out. */
typedef struct opening {
  nm_py_buffers ratchets;
  const uint8_t **keys; /* one pointer per ratchet */
  nm_decrypt_keys try;
  PyObject *plaintext;
  uint8_t *out;
  size_t len;
  ptrdiff_t opened_by;
  uint8_t ratchet_id[NM_RATCHET_ID_SIZE];
} opening;

static void opening_release(opening *o) {
  PyMem_Free((void *)o->keys);
  nm_py_buffers_release(&o->ratchets);
  Py_XDECREF(o->plaintext);
}

/* Collects the ratchets; 0, or -1 with an exception. */
static int opening_init(opening *o, nm_span in, PyObject *ratchets,
                        const char *function) {
  memset(o, 0, sizeof *o);
  if (ratchets != NULL &&
      nm_py_buffers_get(ratchets, function, "ratchets", &o->ratchets) < 0) {
    return -1;
  }
  o->keys = PyMem_Calloc(o->ratchets.count + 1, sizeof *o->keys);
  if (o->keys == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < o->ratchets.count; i++) {
    if (o->ratchets.spans[i].len != NM_KEY_SIZE) {
      return nm_py_length_error(function, "ratchets", NM_KEY_SIZE,
                                o->ratchets.spans[i].len);
    }
    o->keys[i] = o->ratchets.spans[i].ptr;
  }
  o->len = in.len > NM_ENCRYPTED_OVERHEAD ? in.len - NM_ENCRYPTED_OVERHEAD : 0;
  o->plaintext = nm_py_bytes_new(o->len, &o->out);
  return o->plaintext != NULL ? 0 : -1;
}

/* Without the GIL. */
static int opening_run(opening *o, nm_cipher *cipher, nm_span in) {
  uint8_t ratchet_public[NM_KEY_SIZE];
  int status =
      nm_identity_decrypt(cipher, &o->try, in, o->out, &o->len, &o->opened_by);
  if (status == NM_OK && o->opened_by >= 0) {
    status = nm_x25519_public(ratchet_public, o->keys[o->opened_by]);
    nm_ratchet_id(o->ratchet_id, ratchet_public);
  }
  return status;
}

static PyObject *opening_result(nm_state *state, opening *o, int status) {
  if (status == NM_E(NO_KEY)) {
    status = NM_E(AUTH); /* ratchets are enforced and there are none */
  }
  if (status == NM_E(AUTH)) {
    return nm_py_simple_error(state, NM_ERROR_AuthenticationError, status,
                              "no key opens the ciphertext");
  }
  if (status != NM_OK) {
    return nm_py_raise_status(state, status, "encrypted",
                              status == NM_E(TRUNCATED) ? "token"
                                                        : "ciphertext");
  }
  if ((Py_ssize_t)o->len != PyBytes_GET_SIZE(o->plaintext) &&
      _PyBytes_Resize(&o->plaintext, (Py_ssize_t)o->len) < 0) {
    return NULL;
  }
  PyObject *plaintext = o->plaintext;
  o->plaintext = NULL;
  bool by_ratchet = o->opened_by >= 0;
  return nm_py_decrypted_new(state, plaintext,
                             by_ratchet ? o->ratchet_id : NULL,
                             by_ratchet ? (size_t)o->opened_by : 0);
}

PyObject *nm_py_identity_decrypt(nm_state *state, const nm_identity *identity,
                                 nm_span in, PyObject *ratchets, bool enforce,
                                 const char *function) {
  opening o;
  PyObject *result = NULL;
  nm_cipher *cipher = NULL;
  int status;
  if (opening_init(&o, in, ratchets, function) == 0) {
    cipher = nm_py_cipher_take(state);
  }
  if (cipher != NULL) {
    o.try.ratchets = o.keys;
    o.try.ratchet_count = o.ratchets.count;
    o.try.identity = enforce ? NULL : identity->private_key;
    o.try.salt = &identity->hash;
    Py_BEGIN_ALLOW_THREADS;
    status = opening_run(&o, cipher, in);
    Py_END_ALLOW_THREADS;
    nm_py_cipher_give(state, cipher);
    result = opening_result(state, &o, status);
  }
  opening_release(&o);
  return result;
}

/* ---------------------------------------------------------------- the class */

PyDoc_STRVAR(
    decrypted_doc,
    "What Identity.decrypt found. Immutable; may be used from any thread.");

static PyMemberDef decrypted_members[] = {
    NM_PY_FIELD("plaintext", DECRYPTED_PLAINTEXT, "The plaintext, bytes."),
    NM_PY_FIELD("ratchet_id", DECRYPTED_RATCHET_ID,
                "The id (10 bytes) of the ratchet that opened it, or None: "
                "the identity's own key did."),
    NM_PY_FIELD("ratchet_index", DECRYPTED_RATCHET_INDEX,
                "The place of that ratchet in the list, or None."),
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot decrypted_slots[] = {{Py_tp_doc, (void *)decrypted_doc},
                                        {Py_tp_members, decrypted_members},
                                        NM_PY_RECORD_SLOTS,
                                        {0, NULL}};

static PyType_Spec decrypted_spec = {
    .name = "netmesh._core.Decrypted",
    .basicsize = NM_PY_RECORD_SIZE(DECRYPTED_FIELDS),
    .flags = NM_PY_RECORD_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = decrypted_slots};

int nm_py_decrypted_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Decrypted, &decrypted_spec, NULL,
                        NULL);
}
