/* The Token container (RNS 1, 1.3):
 *
 *   offset      0           16                    end - 32
 *   field       IV (16)     ciphertext (16 x k)   HMAC-SHA-256 (32)
 *
 * The HMAC covers IV and ciphertext and is checked, in constant time, before
 * anything is decrypted.
 */
#ifndef NM_CRYPTO_TOKEN_H
#define NM_CRYPTO_TOKEN_H

#include "crypto/aes.h"
#include "crypto/hash.h"

#define NM_TOKEN_OVERHEAD 48 /* IV and HMAC, without padding */
#define NM_TOKEN_SIZE_MIN 64

/* A key ready for use. A secret: wipe it. */
typedef struct nm_token_key {
  nm_hmac_key mac;
  uint8_t cipher[32];
  uint8_t cipher_len; /* 16 or 32 */
} nm_token_key;

/* Splits |key|: 64 bytes give AES-256, 32 bytes AES-128, first half for the
 * MAC. NM_E(KEY) for any other length. */
int nm_token_key_init(nm_token_key *k, nm_span key);
void nm_token_key_wipe(nm_token_key *k);

/* 48 + 16 * (floor(n / 16) + 1). */
static inline size_t nm_token_size(size_t plain_len) {
  return NM_TOKEN_OVERHEAD + nm_aes_padded_size(plain_len);
}

/* Writes a token of nm_token_size(plain.len) bytes to |out|, which must not
 * overlap |plain| unless |plain| begins exactly at out + 16 (sealing in
 * place). NM_E(LIBRARY). */
int nm_token_seal(nm_cipher *c, const nm_token_key *k,
                  const uint8_t iv[NM_AES_BLOCK], nm_span plain, uint8_t *out);

/* The same, and updates |beside| with |hashed| meanwhile: two hashes at nearly
 * the price of one (nm_sha256_update_two). */
int nm_token_seal_beside(nm_cipher *c, const nm_token_key *k,
                         const uint8_t iv[NM_AES_BLOCK], nm_span plain,
                         uint8_t *out, nm_sha256_ctx *beside, nm_span hashed);

/* Checks the MAC alone. NM_E(TRUNCATED) when |token| has 32 bytes or fewer,
 * NM_E(AUTH). */
int nm_token_check(const nm_token_key *k, nm_span token);

/* The same where |running| has hashed the first |done| bytes already, which is
 * at most all but the last 32. */
int nm_token_check_rest(const nm_token_key *k, nm_span token, size_t done,
                        nm_sha256_ctx *running);

/* Checks, decrypts and unpads. |out| has room for token.len - 48 bytes and may
 * be token.ptr + 16 (opening in place); its first |*out_len| bytes are the
 * plaintext. NM_E(TRUNCATED) and NM_E(AUTH) of nm_token_check, then
 * NM_E(LENGTH) for a ciphertext that is empty or not a multiple of 16,
 * NM_E(PADDING), NM_E(LIBRARY). Nothing of the plaintext stays in |out| after
 * an error. */
int nm_token_open(nm_cipher *c, const nm_token_key *k, nm_span token,
                  uint8_t *out, size_t *out_len);

/* The second half of nm_token_open, for a caller that has just passed
 * nm_token_check with the same key. */
int nm_token_open_checked(nm_cipher *c, const nm_token_key *k, nm_span token,
                          uint8_t *out, size_t *out_len);

#endif
