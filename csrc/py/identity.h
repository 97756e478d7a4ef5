/* The Python class Identity, as other classes use it. */
#ifndef NM_PY_IDENTITY_H
#define NM_PY_IDENTITY_H

#include "crypto/identity.h"
#include "py/state.h"

#include <stdbool.h>

static inline bool nm_py_is_identity(nm_state *state, PyObject *obj) {
  return Py_IS_TYPE(obj, NM_PY_TYPE(state, Identity));
}

/* The keys behind |obj|, borrowed from it. TypeError when it is not an
 * Identity, KeyMissingError when it holds no public (or no private) keys;
 * NULL then. */
const nm_identity *nm_py_identity_public(nm_state *state, PyObject *obj,
                                         const char *function,
                                         const char *name);
const nm_identity *nm_py_identity_private(nm_state *state, PyObject *obj,
                                          const char *function,
                                          const char *name);

/* A new Identity with these 64 public bytes, or NULL with an exception. */
PyObject *nm_py_identity_from_public(nm_state *state,
                                     const uint8_t public_key[NM_PUBLIC_SIZE]);

/* What encryption to an identity takes from its keyword arguments. What is not
 * given is random (|ratchet|: the identity's own key). Wipe it afterwards. */
typedef struct nm_py_encrypt_options {
  bool has_ratchet;
  bool has_ephemeral;
  bool has_iv;
  uint8_t ratchet[NM_KEY_SIZE];   /* public */
  uint8_t ephemeral[NM_KEY_SIZE]; /* private */
  uint8_t iv[NM_AES_BLOCK];
} nm_py_encrypt_options;

/* Reads the arguments "ratchet", "ephemeral_private" and "iv", in this order;
 * each may be NULL or None. 0, or -1 with an exception. */
int nm_py_encrypt_options_read(PyObject *const args[3], const char *function,
                               nm_py_encrypt_options *out);

/* |plain| encrypted to |identity| (RNS 1, 2.2) as a bytes object. Releases the
 * GIL. NULL with an exception. */
PyObject *nm_py_identity_encrypt(nm_state *state, const nm_identity *identity,
                                 nm_span plain,
                                 const nm_py_encrypt_options *options);

/* A Decrypted that takes over |plaintext| (which may be NULL with an exception
 * set). |ratchet_id| is NULL when no ratchet took part. */
PyObject *nm_py_decrypted_new(nm_state *state, PyObject *plaintext,
                              const uint8_t *ratchet_id, size_t index);

/* Opens |in| with the private keys of |ratchets| (a sequence of 32-byte
 * buffers, or NULL), then unless |enforce| with the identity's own. A new
 * Decrypted, or NULL with an exception. Releases the GIL. */
PyObject *nm_py_identity_decrypt(nm_state *state, const nm_identity *identity,
                                 nm_span in, PyObject *ratchets, bool enforce,
                                 const char *function);

#endif
