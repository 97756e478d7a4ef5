/* SHA-256 and what is built on it: HMAC, HKDF and the truncated hashes that
 * address everything (RNS 1, 0 and 1.1-1.2). SHA-512 for Ed25519.
 *
 * Nothing here allocates, and nothing can fail except where an int says so.
 * The compression function is chosen once per process for this CPU
 * (crypto/cpu.h); the first call does it, from any thread.
 */
#ifndef NM_CRYPTO_HASH_H
#define NM_CRYPTO_HASH_H

#include "base/bytes.h"
#include "base/status.h"

#define NM_SHA256_BLOCK 64
#define NM_SHA512_SIZE 64

/* The state between two blocks: may be copied and resumed any number of
 * times. `bytes` is a multiple of 64. */
typedef struct nm_sha256_midstate {
  uint32_t h[8];
  uint64_t bytes;
} nm_sha256_midstate;

/* A running hash: may be copied at any point. */
typedef struct nm_sha256_ctx {
  uint32_t h[8];
  uint64_t bytes;
  uint8_t block[NM_SHA256_BLOCK];
} nm_sha256_ctx;

/* H(data). */
void nm_sha256(uint8_t out[NM_HASH_SIZE], nm_span data);
/* H(parts[0] | parts[1] | ...). */
void nm_sha256v(uint8_t out[NM_HASH_SIZE], const nm_span *parts, size_t n);

void nm_sha256_init(nm_sha256_ctx *ctx);
void nm_sha256_update(nm_sha256_ctx *ctx, nm_span data);
/* Updates two running hashes, at nearly the price of the longer one where the
 * CPU can interleave them. */
void nm_sha256_update_two(nm_sha256_ctx *a, nm_span first, nm_sha256_ctx *b,
                          nm_span second);
/* Whether this CPU can. */
bool nm_sha256_two_is_fast(void);
/* Writes the digest and wipes |ctx|. */
void nm_sha256_final(nm_sha256_ctx *ctx, uint8_t out[NM_HASH_SIZE]);
/* Takes the state out of |ctx|. NM_E(STATE) when the bytes hashed so far are
 * not a multiple of 64. */
int nm_sha256_save(const nm_sha256_ctx *ctx, nm_sha256_midstate *mid);
/* Starts |ctx| where |mid| was taken. */
void nm_sha256_resume(nm_sha256_ctx *ctx, const nm_sha256_midstate *mid);

/* Runs the compression function of FIPS 180-4 over |count| blocks of 64 bytes
 * at |blocks|. */
void nm_sha256_compress(uint32_t h[8], const uint8_t *blocks, size_t count);

/* T(data) = H(data)[0:16] and N(data) = H(data)[0:10]. */
void nm_truncated_hash(uint8_t out[NM_ADDRESS_SIZE], nm_span data);
void nm_truncated_hashv(uint8_t out[NM_ADDRESS_SIZE], const nm_span *parts,
                        size_t n);
void nm_name_hash(uint8_t out[NM_NAME_HASH_SIZE], nm_span name);

/* SHA-512; the context's layout belongs to the library behind it. */
typedef struct nm_sha512_ctx {
  _Alignas(16) uint8_t opaque[224];
} nm_sha512_ctx;

void nm_sha512(uint8_t out[NM_SHA512_SIZE], nm_span data);
void nm_sha512_init(nm_sha512_ctx *ctx);
void nm_sha512_update(nm_sha512_ctx *ctx, nm_span data);
/* Writes the digest and wipes |ctx|. */
void nm_sha512_final(nm_sha512_ctx *ctx, uint8_t out[NM_SHA512_SIZE]);

/* An HMAC-SHA-256 key with both pads already hashed, so that a MAC over n
 * bytes costs no more than two extra blocks. A secret: wipe it. */
typedef struct nm_hmac_key {
  uint32_t inner[8];
  uint32_t outer[8];
} nm_hmac_key;

/* Prepares |key| of any length (RFC 2104: longer than 64 bytes is hashed). */
void nm_hmac_key_init(nm_hmac_key *k, nm_span key);
void nm_hmac_key_mac(const nm_hmac_key *k, uint8_t out[NM_HASH_SIZE],
                     nm_span data);
void nm_hmac_key_macv(const nm_hmac_key *k, uint8_t out[NM_HASH_SIZE],
                      const nm_span *parts, size_t n);
/* The same over what |ctx| is updated with in between. It is as secret as the
 * key; the end wipes it. */
void nm_hmac_key_begin(const nm_hmac_key *k, nm_sha256_ctx *ctx);
void nm_hmac_key_end(const nm_hmac_key *k, nm_sha256_ctx *ctx,
                     uint8_t out[NM_HASH_SIZE]);
void nm_hmac_key_wipe(nm_hmac_key *k);
void nm_hmac_sha256(uint8_t out[NM_HASH_SIZE], nm_span key, nm_span data);

/* HKDF-SHA-256 as Reticulum uses it (RNS 1, 1.2): the block counter is one
 * byte and wraps, so that there is no limit of 255 blocks. Writes |len| bytes
 * to |out|, which overlaps no input. An empty |salt| means 32 zero bytes; |ikm|
 * and |info| may be empty. NM_E(LENGTH) when |len| is 0. */
int nm_hkdf(uint8_t *out, size_t len, nm_span ikm, nm_span salt, nm_span info);

/* The same with a salt that was prepared once (nm_hmac_key_init over the
 * salt, which must not be empty), as IFAC masks need (RNS 1, 6.3). */
int nm_hkdf_salted(uint8_t *out, size_t len, nm_span ikm,
                   const nm_hmac_key *salt, nm_span info);

#endif
