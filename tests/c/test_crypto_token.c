#include "support.h"

#include "crypto/token.h"

#include <string.h>

static nm_cipher open_cipher(void) {
  nm_cipher c;
  NM_CHECK_OK(nm_cipher_open(&c, NULL));
  return c;
}

static nm_token_key key_of(nm_span bytes) {
  nm_token_key k;
  NM_CHECK_OK(nm_token_key_init(&k, bytes));
  return k;
}

static void check_seal_vector(const nm_vector *v) {
  nm_token_key k = key_of(nm_vector_bytes(v, "input.key"));
  nm_span plain = nm_vector_bytes(v, "input.plaintext");
  nm_span expected = nm_vector_bytes(v, "output.token");
  size_t size = nm_token_size(plain.len);
  size_t len = 0;
  uint8_t *out = nm_test_scratch(size);
  uint8_t *opened = nm_test_scratch(size);
  nm_cipher c = open_cipher();
  NM_CHECK_INT(size, expected.len);
  NM_CHECK_OK(
      nm_token_seal(&c, &k, nm_vector_bytes(v, "input.iv").ptr, plain, out));
  NM_CHECK_SPAN(nm_span_of(out, size), expected);
  NM_CHECK_OK(nm_token_check(&k, expected));
  NM_CHECK_OK(nm_token_open(&c, &k, expected, opened, &len));
  NM_CHECK_SPAN(nm_span_of(opened, len), plain);
  nm_cipher_close(&c);
}

static void check_open_vector(const nm_vector *v) {
  nm_token_key k = key_of(nm_vector_bytes(v, "input.key"));
  nm_span token = nm_vector_bytes(v, "input.token");
  uint8_t *out = nm_test_scratch(token.len);
  size_t len;
  nm_cipher c = open_cipher();
  NM_CHECK(strcmp(nm_vector_text(v, "output.result"), "rejected") == 0);
  NM_CHECK_STATUS(nm_token_open(&c, &k, token, out, &len), NM_E(AUTH));
  nm_cipher_close(&c);
}

NM_TEST(tokens_match_the_vectors) {
  nm_vectors_each(NULL, "token_encrypt", 8, check_seal_vector);
  nm_vectors_each(NULL, "token_decrypt", 1, check_open_vector);
}

NM_TEST(keys_of_other_lengths_are_refused) {
  uint8_t bytes[80] = {0};
  for (size_t len = 0; len <= sizeof bytes; len++) {
    nm_token_key k;
    int expected = len == 32 || len == 64 ? NM_OK : NM_E(KEY);
    NM_CHECK_STATUS(nm_token_key_init(&k, nm_span_of(bytes, len)), expected);
  }
}

NM_TEST(a_wiped_key_is_zero) {
  uint8_t bytes[64];
  static const nm_token_key zero;
  nm_test_random_bytes(bytes, sizeof bytes);
  nm_token_key k = key_of(nm_span_of(bytes, 64));
  nm_token_key_wipe(&k);
  NM_CHECK(memcmp(&k, &zero, sizeof k) == 0);
}

NM_TEST(sealing_and_opening_work_in_place) {
  uint8_t key[64];
  uint8_t iv[16];
  uint8_t plain[100];
  uint8_t apart[200];
  uint8_t buf[200];
  nm_test_random_bytes(key, sizeof key);
  nm_test_random_bytes(iv, sizeof iv);
  nm_test_random_bytes(plain, sizeof plain);
  nm_cipher c = open_cipher();
  nm_token_key k = key_of(nm_span_of(key, 64));
  for (size_t n = 0; n <= sizeof plain; n += 5) {
    size_t size = nm_token_size(n);
    size_t len = 0;
    NM_CHECK_OK(nm_token_seal(&c, &k, iv, nm_span_of(plain, n), apart));
    memcpy(buf + 16, plain, n);
    NM_CHECK_OK(nm_token_seal(&c, &k, iv, nm_span_of(buf + 16, n), buf));
    NM_CHECK_BYTES(buf, apart, size);
    NM_CHECK_OK(nm_token_open(&c, &k, nm_span_of(buf, size), buf + 16, &len));
    NM_CHECK_SPAN(nm_span_of(buf + 16, len), nm_span_of(plain, n));
  }
  nm_cipher_close(&c);
}

NM_TEST(every_flipped_bit_and_every_cut_is_noticed) {
  uint8_t key[64];
  uint8_t iv[16];
  uint8_t token[80];
  uint8_t out[80];
  size_t len;
  nm_test_random_bytes(key, sizeof key);
  nm_test_random_bytes(iv, sizeof iv);
  nm_cipher c = open_cipher();
  nm_token_key k = key_of(nm_span_of(key, 64));
  NM_CHECK_OK(
      nm_token_seal(&c, &k, iv, nm_span_of("twenty bytes of text", 20), token));
  for (size_t bit = 0; bit < 8 * sizeof token; bit++) {
    token[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_STATUS(nm_token_check(&k, nm_span_of(token, 80)), NM_E(AUTH));
    NM_CHECK_STATUS(nm_token_open(&c, &k, nm_span_of(token, 80), out, &len),
                    NM_E(AUTH));
    token[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  for (size_t cut = 0; cut < sizeof token; cut++) {
    int expected = cut <= 32 ? NM_E(TRUNCATED) : NM_E(AUTH);
    NM_CHECK_STATUS(nm_token_check(&k, nm_span_of(token, cut)), expected);
    NM_CHECK_STATUS(nm_token_open(&c, &k, nm_span_of(token, cut), out, &len),
                    expected);
  }
  NM_CHECK_OK(nm_token_check(&k, nm_span_of(token, 80)));
  nm_cipher_close(&c);
}

/* A token with a good MAC over |n| bytes of IV and ciphertext. */
static nm_span authentic(const nm_token_key *k, uint8_t *token, size_t n) {
  nm_hmac_key_mac(&k->mac, token + n, nm_span_of(token, n));
  return nm_span_of(token, n + 32);
}

NM_TEST(authentic_nonsense_has_its_own_errors) {
  uint8_t key[64];
  uint8_t token[120] = {0};
  uint8_t out[120];
  size_t len = 7;
  nm_test_random_bytes(key, sizeof key);
  nm_cipher c = open_cipher();
  nm_token_key k = key_of(nm_span_of(key, 64));
  for (size_t n = 1; n < 64; n++) {
    nm_span t = authentic(&k, token, n);
    nm_test_context("%zu bytes before the MAC", n);
    NM_CHECK_OK(nm_token_check(&k, t));
    int status = nm_token_open(&c, &k, t, out, &len);
    if (n < 32 || n % 16 != 0) {
      NM_CHECK_STATUS(status, NM_E(LENGTH));
    }
  }
  uint8_t iv[16] = {0};
  uint8_t block[16];
  memset(block, 0x33, sizeof block);
  NM_CHECK_OK(nm_aes_cbc_encrypt(&c, nm_span_of(key + 32, 32), iv,
                                 nm_span_of(block, 16), token + 16));
  memcpy(token, iv, 16);
  NM_CHECK_STATUS(nm_token_open(&c, &k, authentic(&k, token, 32), out, &len),
                  NM_E(PADDING));
  nm_cipher_close(&c);
}

NM_TEST(a_token_of_another_key_is_refused) {
  uint8_t key[64] = {1};
  uint8_t other[64] = {2};
  uint8_t iv[16] = {0};
  uint8_t token[64];
  nm_cipher c = open_cipher();
  nm_token_key k = key_of(nm_span_of(key, 64));
  nm_token_key wrong = key_of(nm_span_of(other, 64));
  NM_CHECK_OK(nm_token_seal(&c, &k, iv, nm_span_of("x", 1), token));
  NM_CHECK_STATUS(nm_token_check(&wrong, nm_span_of(token, 64)), NM_E(AUTH));
  nm_cipher_close(&c);
}
