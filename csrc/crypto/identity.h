/* Identities: two key pairs and a hash (RNS 1, 2.1-2.4), and the encryption of
 * single packets to them (RNS 1, 2.2-2.3; LXMF 0.2).
 *
 *   encrypted form   ephemeral public (32) | token (48 + padded plaintext)
 */
#ifndef NM_CRYPTO_IDENTITY_H
#define NM_CRYPTO_IDENTITY_H

#include "crypto/curve.h"
#include "crypto/token.h"

#define NM_RATCHET_ID_SIZE 10
#define NM_ENCRYPTED_OVERHEAD (NM_KEY_SIZE + NM_TOKEN_OVERHEAD)
#define NM_ENCRYPTED_SIZE_MIN 96

/* A private or a public-only identity. Immutable after its init function;
 * holds secrets when `has_private`: wipe it. */
typedef struct nm_identity {
  nm_identity_hash hash;
  uint8_t public_key[NM_PUBLIC_SIZE]; /* X25519 | Ed25519 */
  bool has_private;
  uint8_t private_key[NM_PRIVATE_SIZE]; /* X25519 | Ed25519 seed, as given */
  nm_ed25519_sign_key sign;
} nm_identity;

/* From the 64 private bytes. NM_E(LENGTH) for any other length,
 * NM_E(LIBRARY). */
int nm_identity_init_private(nm_identity *id, nm_span private_key);
/* From the 64 public bytes, which are not checked to be points: a bad key
 * shows when it is used. NM_E(LENGTH). */
int nm_identity_init_public(nm_identity *id, nm_span public_key);
void nm_identity_wipe(nm_identity *id);

/* T(public key). */
void nm_identity_hash_of(nm_identity_hash *out,
                         const uint8_t public_key[NM_PUBLIC_SIZE]);

/* NM_E(NO_KEY) for a public identity; else as nm_ed25519_sign. */
int nm_identity_sign(const nm_identity *id, uint8_t sig[NM_SIGNATURE_SIZE],
                     nm_span message);
/* As nm_ed25519_verify; NM_E(SIGNATURE) also when |sig| has not 64 bytes. */
int nm_identity_verify(const nm_identity *id, nm_span sig, nm_span message);

/* H(ratchet public key)[0:10] (RNS 1, 2.6). */
void nm_ratchet_id(uint8_t out[NM_RATCHET_ID_SIZE],
                   const uint8_t ratchet_public[NM_KEY_SIZE]);

/* 32 + 48 + padded length. */
static inline size_t nm_identity_encrypted_size(size_t plain_len) {
  return NM_KEY_SIZE + nm_token_size(plain_len);
}

/* What one encryption consumes. All are inputs: the ephemeral private key and
 * the IV must be fresh random bytes outside of tests. */
typedef struct nm_encrypt_params {
  const uint8_t *target;           /* 32: X25519 key or ratchet of the peer */
  const nm_identity_hash *salt;    /* the peer's identity hash, also with a
                                      ratchet */
  const uint8_t *ephemeral;        /* 32: X25519 private key */
  const uint8_t *ephemeral_public; /* 32, or NULL to derive it here */
  const uint8_t *iv;               /* 16 */
} nm_encrypt_params;

/* Writes nm_identity_encrypted_size(plain.len) bytes to |out|, which must not
 * overlap |plain|. NM_E(KEY) when the target gives an all-zero secret,
 * NM_E(LIBRARY). */
int nm_identity_encrypt(nm_cipher *c, const nm_encrypt_params *params,
                        nm_span plain, uint8_t *out);

/* `opened_by` when the identity's own key opened it. */
#define NM_OPENED_BY_IDENTITY ((ptrdiff_t)-1)

/* The keys one decryption may try, in this order: every ratchet, newest first,
 * then the identity's X25519 private key unless it is NULL (ratchets
 * enforced). */
typedef struct nm_decrypt_keys {
  const uint8_t *const *ratchets; /* |ratchet_count| x 32 bytes */
  size_t ratchet_count;
  const uint8_t *identity; /* 32, or NULL */
  const nm_identity_hash *salt;
} nm_decrypt_keys;

/* Opens |in|. |out| has room for in.len - 80 bytes (never less than 0) and does
 * not overlap |in|; its first |*out_len| bytes are the plaintext. |*opened_by|
 * is the index of the ratchet or NM_OPENED_BY_IDENTITY; it may be NULL.
 * NM_E(TRUNCATED) when |in| cannot hold a token, NM_E(NO_KEY) when there is no
 * key to try, NM_E(AUTH) when none fits, NM_E(LENGTH) or NM_E(PADDING) when one
 * does but the content is malformed, NM_E(LIBRARY). */
int nm_identity_decrypt(nm_cipher *c, const nm_decrypt_keys *keys, nm_span in,
                        uint8_t *out, size_t *out_len, ptrdiff_t *opened_by);

/* The key of the token: HKDF(64, ikm = X25519(private, public), salt).
 * NM_E(KEY) when the secret is all zero. */
int nm_identity_token_key(nm_token_key *k,
                          const uint8_t private_key[NM_KEY_SIZE],
                          const uint8_t public_key[NM_KEY_SIZE],
                          const nm_identity_hash *salt);

#endif
