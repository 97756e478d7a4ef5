#include "crypto/curve.h"

#include "crypto/field25519.h"
#include "crypto/hash.h"

#include <sodium.h>
#include <string.h>

_Static_assert(crypto_scalarmult_BYTES == NM_KEY_SIZE, "X25519 key size");
_Static_assert(crypto_sign_BYTES == NM_SIGNATURE_SIZE, "signature size");

/* RFC 7748, 5, and RFC 8032, 5.1.5. */
static void clamp(uint8_t scalar[32]) {
  scalar[0] &= 248;
  scalar[31] &= 127;
  scalar[31] |= 64;
}

/* The Edwards fixed-base multiplication is more than twice as fast as the
 * Montgomery ladder from the base point; the point goes over to the Montgomery
 * form by one inversion of a public value. Checked against
 * crypto_scalarmult_base in the tests. A clamped scalar is never a multiple of
 * the group's order, so that the point is not the neutral element. */
static int sodium_x25519_public(uint8_t out[32],
                                const uint8_t private_key[32]) {
  uint8_t scalar[32];
  uint8_t point[32];
  memcpy(scalar, private_key, sizeof scalar);
  clamp(scalar);
  int failed = crypto_scalarmult_ed25519_base_noclamp(point, scalar);
  nm_wipe(scalar, sizeof scalar);
  if (failed != 0) {
    return NM_E(LIBRARY);
  }
  nm_field25519_montgomery_u(out, point);
  return NM_OK;
}

static int sodium_x25519(uint8_t out[32], const uint8_t private_key[32],
                         const uint8_t public_key[32]) {
  uint8_t shared[32];
  int failed = crypto_scalarmult_curve25519(shared, private_key, public_key);
  if (failed == 0) {
    memcpy(out, shared, sizeof shared);
  } else {
    nm_wipe(out, sizeof shared);
  }
  nm_wipe(shared, sizeof shared);
  return failed == 0 ? NM_OK : NM_E(KEY);
}

static int sodium_ed25519_expand(nm_ed25519_sign_key *out,
                                 const uint8_t seed[32]) {
  uint8_t expanded[NM_SHA512_SIZE];
  nm_sha512(expanded, nm_span_of(seed, NM_KEY_SIZE));
  clamp(expanded);
  memcpy(out->scalar, expanded, 32);
  memcpy(out->prefix, expanded + 32, 32);
  nm_wipe(expanded, sizeof expanded);
  int failed =
      crypto_scalarmult_ed25519_base_noclamp(out->public_key, out->scalar);
  return failed == 0 ? NM_OK : NM_E(LIBRARY);
}

/* SHA-512(first | second | parts), as a scalar modulo the group's order. */
static void hash_to_scalar(uint8_t scalar[32], nm_span first, nm_span second,
                           const nm_span *parts, size_t n) {
  nm_sha512_ctx ctx;
  uint8_t digest[NM_SHA512_SIZE];
  nm_sha512_init(&ctx);
  nm_sha512_update(&ctx, first);
  nm_sha512_update(&ctx, second);
  for (size_t i = 0; i < n; i++) {
    nm_sha512_update(&ctx, parts[i]);
  }
  nm_sha512_final(&ctx, digest);
  crypto_core_ed25519_scalar_reduce(scalar, digest);
  nm_wipe(digest, sizeof digest);
}

/* RFC 8032, 5.1.6, from the expanded key. */
static int sodium_ed25519_signv(uint8_t sig[64], const nm_ed25519_sign_key *key,
                                const nm_span *parts, size_t n) {
  uint8_t r[32];
  uint8_t k[32];
  uint8_t *big_r = sig;
  uint8_t *s = sig + 32;
  nm_span none = {NULL, 0};
  hash_to_scalar(r, nm_span_of(key->prefix, 32), none, parts, n);
  int failed = crypto_scalarmult_ed25519_base_noclamp(big_r, r);
  if (failed == 0) {
    hash_to_scalar(k, nm_span_of(big_r, 32), nm_span_of(key->public_key, 32),
                   parts, n);
    crypto_core_ed25519_scalar_mul(k, k, key->scalar);
    crypto_core_ed25519_scalar_add(s, k, r);
    nm_wipe(k, sizeof k);
  }
  nm_wipe(r, sizeof r);
  return failed == 0 ? NM_OK : NM_E(LIBRARY);
}

static int sodium_ed25519_verify(const uint8_t public_key[32],
                                 const uint8_t sig[64], nm_span message) {
  int failed =
      crypto_sign_verify_detached(sig, message.ptr, message.len, public_key);
  return failed == 0 ? NM_OK : NM_E(SIGNATURE);
}

const nm_curve_ops nm_curve_sodium = {
    "libsodium",           sodium_x25519_public, sodium_x25519,
    sodium_ed25519_expand, sodium_ed25519_signv, sodium_ed25519_verify};

const nm_curve_ops *const nm_curve_default = &nm_curve_sodium;

int nm_x25519_public(uint8_t out[NM_KEY_SIZE],
                     const uint8_t private_key[NM_KEY_SIZE]) {
  return nm_curve_default->x25519_public(out, private_key);
}

int nm_x25519(uint8_t out[NM_KEY_SIZE], const uint8_t private_key[NM_KEY_SIZE],
              const uint8_t public_key[NM_KEY_SIZE]) {
  return nm_curve_default->x25519(out, private_key, public_key);
}

int nm_ed25519_public(uint8_t out[NM_KEY_SIZE],
                      const uint8_t seed[NM_KEY_SIZE]) {
  nm_ed25519_sign_key key;
  int status = nm_curve_default->ed25519_expand(&key, seed);
  memcpy(out, key.public_key, NM_KEY_SIZE);
  nm_ed25519_sign_key_wipe(&key);
  return status;
}

int nm_ed25519_sign_key_init(nm_ed25519_sign_key *key,
                             const uint8_t seed[NM_KEY_SIZE]) {
  return nm_curve_default->ed25519_expand(key, seed);
}

void nm_ed25519_sign_key_wipe(nm_ed25519_sign_key *key) {
  nm_wipe(key, sizeof *key);
}

int nm_ed25519_sign(uint8_t sig[NM_SIGNATURE_SIZE],
                    const nm_ed25519_sign_key *key, nm_span message) {
  return nm_curve_default->ed25519_signv(sig, key, &message, 1);
}

int nm_ed25519_signv(uint8_t sig[NM_SIGNATURE_SIZE],
                     const nm_ed25519_sign_key *key, const nm_span *parts,
                     size_t n) {
  return nm_curve_default->ed25519_signv(sig, key, parts, n);
}

int nm_ed25519_verify(const uint8_t public_key[NM_KEY_SIZE],
                      const uint8_t sig[NM_SIGNATURE_SIZE], nm_span message) {
  return nm_curve_default->ed25519_verify(public_key, sig, message);
}

size_t nm_ed25519_verify_many(bool *ok, const nm_ed25519_claim *claims,
                              size_t n) {
  size_t good = 0;
  for (size_t i = 0; i < n; i++) {
    const nm_ed25519_claim *c = &claims[i];
    ok[i] = nm_ed25519_verify(c->public_key, c->signature, c->message) == NM_OK;
    good += ok[i] ? 1 : 0;
  }
  return good;
}
