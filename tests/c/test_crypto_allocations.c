/* No allocation after warm-up: the room itself takes memory only through
 * nm_mem, so what is counted here is what OpenSSL takes on its behalf.
 */
#include "support.h"

#include "crypto/identity.h"
#include "crypto/stamp.h"

#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_size_t calls;
/* The call that fails, counted from 1; 0: none. */
static atomic_size_t fail_at;

static bool refuses(void) {
  return atomic_fetch_add(&calls, 1) + 1 == fail_at;
}

static void *counted_malloc(size_t size, const char *file, int line) {
  (void)file, (void)line;
  return refuses() || size == 0 ? NULL : malloc(size);
}

static void *counted_realloc(void *ptr, size_t size, const char *file,
                             int line) {
  (void)file, (void)line;
  return refuses() ? NULL : realloc(ptr, size);
}

static void counted_free(void *ptr, const char *file, int line) {
  (void)file, (void)line;
  free(ptr);
}

static int installed;

/* Must come before the library's first allocation. */
__attribute__((constructor)) static void install(void) {
  installed =
      CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free);
}

typedef struct bench {
  nm_cipher c;
  nm_identity id;
  nm_token_key key[2]; /* AES-256 and AES-128 */
  uint8_t buf[2][1024];
} bench;

static void tokens(bench *b) {
  for (size_t i = 0; i < 4; i++) {
    const nm_token_key *k = &b->key[i % 2];
    size_t len;
    NM_CHECK_OK(nm_token_seal(&b->c, k, b->buf[0], nm_span_of(b->buf[0], 464),
                              b->buf[1]));
    NM_CHECK_OK(nm_token_open(
        &b->c, k, nm_span_of(b->buf[1], nm_token_size(464)), b->buf[0], &len));
  }
}

static void identities(bench *b) {
  nm_encrypt_params p = {b->id.public_key, &b->id.hash, b->buf[0], NULL,
                         b->buf[0]};
  nm_decrypt_keys keys = {NULL, 0, b->id.private_key, &b->id.hash};
  size_t len;
  NM_CHECK_OK(
      nm_identity_encrypt(&b->c, &p, nm_span_of(b->buf[0], 400), b->buf[1]));
  NM_CHECK_OK(nm_identity_decrypt(
      &b->c, &keys, nm_span_of(b->buf[1], nm_identity_encrypted_size(400)),
      b->buf[0], &len, NULL));
  NM_CHECK_OK(nm_identity_sign(&b->id, b->buf[1], nm_span_of(b->buf[0], 400)));
  NM_CHECK_OK(nm_identity_verify(&b->id, nm_span_of(b->buf[1], 64),
                                 nm_span_of(b->buf[0], 400)));
}

static void hashes(bench *b) {
  nm_sha256_midstate mid;
  nm_span in[3] = {{b->buf[0], 100}, {b->buf[0], 900}, {b->buf[1], 64}};
  nm_sha256_many((uint8_t(*)[32])b->buf[1], in, 3);
  nm_sha512(b->buf[1], in[1]);
  NM_CHECK_OK(nm_hkdf(b->buf[1], 500, in[0], in[2], in[0]));
  nm_workblock_midstate(&mid, in[0], 20);
}

NM_TEST(nothing_allocates_after_the_first_time) {
  bench b;
  NM_CHECK_INT(installed, 1);
  NM_CHECK_OK(nm_cipher_open(&b.c, NULL));
  nm_test_random_bytes(b.buf, sizeof b.buf);
  NM_CHECK_OK(nm_identity_init_private(&b.id, nm_span_of(b.buf[0], 64)));
  NM_CHECK_OK(nm_token_key_init(&b.key[0], nm_span_of(b.buf[0], 64)));
  NM_CHECK_OK(nm_token_key_init(&b.key[1], nm_span_of(b.buf[0], 32)));
  size_t before = 0;
  for (int round = 0; round < 20; round++) {
    tokens(&b);
    identities(&b);
    hashes(&b);
    if (round == 0) {
      before = calls;
      NM_CHECK(before > 0);
    }
  }
  NM_CHECK_INT(calls, before);
  nm_cipher_close(&b.c);
}

NM_TEST(a_cipher_that_cannot_be_opened_says_so) {
  nm_cipher c;
  size_t refused = 0;
  /* What the library keeps for good is there after the first time. */
  NM_CHECK_OK(nm_cipher_open(&c, NULL));
  nm_cipher_close(&c);
  size_t before = calls;
  NM_CHECK_OK(nm_cipher_open(&c, NULL));
  nm_cipher_close(&c);
  size_t needed = calls - before;
  for (size_t n = 1; n <= needed; n++) {
    uint8_t block[16] = {0};
    nm_test_context("allocation %zu of %zu fails", n, needed);
    fail_at = calls + n;
    int status = nm_cipher_open(&c, NULL);
    fail_at = 0;
    /* The library does without some; then the cipher works. */
    if (status == NM_OK) {
      NM_CHECK_OK(nm_aes_cbc_encrypt(&c, nm_span_of(block, 16), block,
                                     nm_span_of(block, 16), block));
    } else {
      NM_CHECK(status == NM_E(MEMORY) || status == NM_E(LIBRARY));
      refused++;
    }
    nm_cipher_close(&c);
  }
  NM_CHECK(refused >= 3);
}
