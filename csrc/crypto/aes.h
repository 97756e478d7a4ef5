/* AES-128 and AES-256 in CBC mode (RNS 1, 1.1), into caller buffers.
 *
 * An nm_cipher is a reusable context owned by one thread at a time: it is keyed
 * anew by every call, so that one per thread serves any number of links. After
 * nm_cipher_open no call allocates. The provider behind it is a table of
 * functions.
 */
#ifndef NM_CRYPTO_AES_H
#define NM_CRYPTO_AES_H

#include "base/bytes.h"
#include "base/status.h"

#define NM_AES_BLOCK 16

/* What a provider offers. `cbc` transforms |len| bytes (a multiple of 16, at
 * least 16) from |in| to |out|, which are the same or do not overlap; |key_len|
 * is 16 or 32. Returns 0 or NM_E(LIBRARY). */
typedef struct nm_cipher_ops {
  const char *name;
  int (*open)(void **state); /* 0, NM_E(MEMORY), NM_E(LIBRARY) */
  void (*close)(void *state);
  int (*cbc)(void *state, bool encrypt, const uint8_t *key, size_t key_len,
             const uint8_t iv[NM_AES_BLOCK], const uint8_t *in, size_t len,
             uint8_t *out);
} nm_cipher_ops;

/* OpenSSL's libcrypto. */
extern const nm_cipher_ops nm_cipher_openssl;

typedef struct nm_cipher {
  const nm_cipher_ops *ops;
  void *state;
} nm_cipher;

/* Opens |c|; |ops| NULL means nm_cipher_openssl. 0, NM_E(MEMORY),
 * NM_E(LIBRARY). After a failure |c| may be closed but not used. */
int nm_cipher_open(nm_cipher *c, const nm_cipher_ops *ops);
/* Wipes and frees; harmless on a closed or zeroed |c|. */
void nm_cipher_close(nm_cipher *c);

/* The length of |n| bytes after PKCS#7 padding: 1 to 16 bytes more. */
static inline size_t nm_aes_padded_size(size_t n) {
  return n + (NM_AES_BLOCK - n % NM_AES_BLOCK);
}

/* Writes |n| + 1..16 bytes: |in| padded by PKCS#7, to |out|, which has room for
 * nm_aes_padded_size(n) and may be |in| itself. Returns the padded length. */
size_t nm_pkcs7_pad(uint8_t *out, nm_span in);
/* The length without padding, by the wire's rule (RNS 1, 1.3): only the last
 * byte p is read; p > 16 is NM_E(PADDING), also p > length and an empty |in|;
 * p = 0 removes nothing. */
int nm_pkcs7_unpad(nm_span in, size_t *len);

/* CBC over |in| without padding. |key| has 16 or 32 bytes, else NM_E(KEY).
 * |in| must be a multiple of 16 bytes, else NM_E(LENGTH); it may be empty.
 * |out| has room for as many bytes and is |in| itself or does not overlap it.
 * Also NM_E(LIBRARY). */
int nm_aes_cbc_encrypt(nm_cipher *c, nm_span key,
                       const uint8_t iv[NM_AES_BLOCK], nm_span in,
                       uint8_t *out);
int nm_aes_cbc_decrypt(nm_cipher *c, nm_span key,
                       const uint8_t iv[NM_AES_BLOCK], nm_span in,
                       uint8_t *out);

/* CBC with PKCS#7. Encrypting writes nm_aes_padded_size(in.len) bytes.
 * Decrypting needs at least one block (NM_E(LENGTH)), writes in.len bytes to
 * |out| of which the first |*out_len| are the plaintext; NM_E(PADDING) by the
 * rule of nm_pkcs7_unpad, and then |out| is wiped. Errors as above. */
int nm_aes_cbc_encrypt_padded(nm_cipher *c, nm_span key,
                              const uint8_t iv[NM_AES_BLOCK], nm_span in,
                              uint8_t *out);
int nm_aes_cbc_decrypt_padded(nm_cipher *c, nm_span key,
                              const uint8_t iv[NM_AES_BLOCK], nm_span in,
                              uint8_t *out, size_t *out_len);

#endif
