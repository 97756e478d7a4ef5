/* Shows that no branch and no address depends on a secret: run under valgrind
 * (make secrets), which is told that keys, plaintexts and what comes from them
 * are "undefined" and complains of every jump and every access by them. What
 * goes out in the open (public keys, signatures, tokens, verdicts) is declared
 * defined again.
 */
#include "crypto/entropy.h"
#include "crypto/identity.h"
#include "crypto/init.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#define SECRET(ptr, len) VALGRIND_MAKE_MEM_UNDEFINED(ptr, len)
#define PUBLIC(ptr, len) VALGRIND_MAKE_MEM_DEFINED(ptr, len)

/* A status is a verdict: known to everyone. */
static void must(int status) {
  PUBLIC(&status, sizeof status);
  if (status != NM_OK) {
    fprintf(stderr, "%s\n", nm_status_name(status));
    exit(2);
  }
}

static void hashes(void) {
  uint8_t secret[300] = {1};
  uint8_t out[100];
  nm_hmac_key k;
  SECRET(secret, sizeof secret);
  nm_sha256(out, nm_span_of(secret, 300));
  nm_sha512(out, nm_span_of(secret, 300));
  nm_hmac_key_init(&k, nm_span_of(secret, 32));
  nm_hmac_key_mac(&k, out, nm_span_of(secret, 200));
  must(nm_hkdf(out, sizeof out, nm_span_of(secret, 32),
               nm_span_of(secret + 32, 16), nm_span_of(NULL, 0)));
}

static void curves(void) {
  uint8_t key[32] = {7};
  uint8_t peer[32] = {9};
  uint8_t out[32];
  SECRET(key, sizeof key);
  must(nm_x25519_public(out, key));
  must(nm_x25519(out, key, peer));
}

static void signatures(void) {
  uint8_t seed[32] = {3};
  uint8_t sig[64];
  nm_ed25519_sign_key key;
  SECRET(seed, sizeof seed);
  must(nm_ed25519_sign_key_init(&key, seed));
  PUBLIC(key.public_key, 32);
  must(nm_ed25519_sign(sig, &key, nm_span_of("message", 7)));
  PUBLIC(sig, sizeof sig);
  must(nm_ed25519_verify(key.public_key, sig, nm_span_of("message", 7)));
}

static void tokens(void) {
  uint8_t key[64] = {5};
  uint8_t iv[16] = {6};
  uint8_t plain[100] = {8};
  uint8_t token[160];
  uint8_t out[160];
  size_t len;
  nm_token_key k;
  nm_cipher c;
  SECRET(key, sizeof key);
  SECRET(plain, sizeof plain);
  must(nm_cipher_open(&c, NULL));
  must(nm_token_key_init(&k, nm_span_of(key, 64)));
  must(nm_token_seal(&c, &k, iv, nm_span_of(plain, 100), token));
  PUBLIC(token, sizeof token);
  must(nm_token_check(&k, nm_span_of(token, 160)));
  /* The length of the plaintext is no secret once the MAC is good; the byte
   * that tells it is. So the halves are used here, without unpadding. */
  must(nm_aes_cbc_decrypt(&c, nm_span_of(k.cipher, 32), token,
                          nm_span_of(token + 16, 112), out));
  PUBLIC(out, sizeof out);
  must(nm_pkcs7_unpad(nm_span_of(out, 112), &len));
  token[20] ^= 1;
  int status = nm_token_check(&k, nm_span_of(token, 160));
  PUBLIC(&status, sizeof status);
  must(status == NM_E(AUTH) ? NM_OK : NM_E(MISMATCH));
  nm_cipher_close(&c);
}

static void entropy(void) {
  uint8_t seed[32] = {2};
  uint8_t out[2000];
  nm_entropy_pool pool;
  SECRET(seed, sizeof seed);
  nm_entropy_pool_init_seed(&pool, seed);
  must(nm_entropy_pool_fill(&pool, out, sizeof out));
}

/* With any argument: a comparison that leaves early, which must be noticed. */
static void leak(void) {
  uint8_t secret[4] = {1, 2, 3, 4};
  SECRET(secret, sizeof secret);
  if (memcmp(secret, "\1\2\3\5", 4) == 0) {
    puts("equal");
  }
}

int main(int argc, char **argv) {
  (void)argv;
  must(nm_crypto_init());
  if (argc > 1) {
    leak();
    return 0;
  }
  hashes();
  curves();
  signatures();
  tokens();
  entropy();
  return 0;
}
