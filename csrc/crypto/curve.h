/* X25519 and Ed25519 (RNS 1, 1.1) behind a table of functions.
 *
 * Keys are raw 32-byte strings in the encodings of RFC 7748 and RFC 8032. The
 * set of public keys and signatures that are accepted is libsodium's: it
 * refuses signatures with S >= L, small-order R or public keys, and
 * non-canonical public keys. All paths that touch a secret are constant in
 * time. Nothing allocates.
 */
#ifndef NM_CRYPTO_CURVE_H
#define NM_CRYPTO_CURVE_H

#include "base/bytes.h"
#include "base/status.h"

/* An Ed25519 seed expanded once: signing then saves one SHA-512 and one
 * multiplication. A secret: wipe it with nm_ed25519_sign_key_wipe. */
typedef struct nm_ed25519_sign_key {
  uint8_t scalar[NM_KEY_SIZE]; /* clamped */
  uint8_t prefix[NM_KEY_SIZE];
  uint8_t public_key[NM_KEY_SIZE];
} nm_ed25519_sign_key;

/* One job of nm_ed25519_verify_many. */
typedef struct nm_ed25519_claim {
  const uint8_t *public_key; /* 32 bytes */
  const uint8_t *signature;  /* 64 bytes */
  nm_span message;
} nm_ed25519_claim;

typedef struct nm_curve_ops {
  const char *name;
  int (*x25519_public)(uint8_t out[32], const uint8_t private_key[32]);
  int (*x25519)(uint8_t out[32], const uint8_t private_key[32],
                const uint8_t public_key[32]);
  int (*ed25519_expand)(nm_ed25519_sign_key *out, const uint8_t seed[32]);
  int (*ed25519_signv)(uint8_t sig[64], const nm_ed25519_sign_key *key,
                       const nm_span *parts, size_t n);
  int (*ed25519_verify)(const uint8_t public_key[32], const uint8_t sig[64],
                        nm_span message);
} nm_curve_ops;

/* libsodium; the functions below go through nm_curve_default, which is it. */
extern const nm_curve_ops nm_curve_sodium;
extern const nm_curve_ops *const nm_curve_default;

/* The X25519 public key of |private_key|; clamping is applied on use, the
 * input may be any 32 bytes. NM_E(LIBRARY). */
int nm_x25519_public(uint8_t out[NM_KEY_SIZE],
                     const uint8_t private_key[NM_KEY_SIZE]);

/* The shared secret. The top bit of |public_key| is ignored. NM_E(KEY) when
 * the result is all zero; |out| is then wiped. */
int nm_x25519(uint8_t out[NM_KEY_SIZE], const uint8_t private_key[NM_KEY_SIZE],
              const uint8_t public_key[NM_KEY_SIZE]);

/* The Ed25519 public key of a seed. NM_E(LIBRARY). */
int nm_ed25519_public(uint8_t out[NM_KEY_SIZE],
                      const uint8_t seed[NM_KEY_SIZE]);

/* Expands |seed|. NM_E(LIBRARY). */
int nm_ed25519_sign_key_init(nm_ed25519_sign_key *key,
                             const uint8_t seed[NM_KEY_SIZE]);
void nm_ed25519_sign_key_wipe(nm_ed25519_sign_key *key);

/* Signs |message|, or the concatenation of |parts|; deterministic, the bytes of
 * RFC 8032. |message| and |parts| must not overlap |sig|. NM_E(LIBRARY). */
int nm_ed25519_sign(uint8_t sig[NM_SIGNATURE_SIZE],
                    const nm_ed25519_sign_key *key, nm_span message);
int nm_ed25519_signv(uint8_t sig[NM_SIGNATURE_SIZE],
                     const nm_ed25519_sign_key *key, const nm_span *parts,
                     size_t n);

/* 0, or NM_E(SIGNATURE) for everything that is not a good signature: a
 * malformed key or signature is "invalid", never fatal (RNS 1, 2.4). */
int nm_ed25519_verify(const uint8_t public_key[NM_KEY_SIZE],
                      const uint8_t sig[NM_SIGNATURE_SIZE], nm_span message);

/* Verifies |n| claims one after the other, sets ok[i], and returns how many
 * are good. */
size_t nm_ed25519_verify_many(bool *ok, const nm_ed25519_claim *claims,
                              size_t n);

#endif
