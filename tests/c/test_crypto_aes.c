#include "support.h"

#include "crypto/aes.h"

#include <string.h>

static nm_cipher open_cipher(void) {
  nm_cipher c;
  NM_CHECK_OK(nm_cipher_open(&c, NULL));
  return c;
}

/* NIST SP 800-38A, F.2.1 and F.2.5. */
NM_TEST(cbc_matches_the_published_values) {
  static const char *const keys[] = {
      "2b7e151628aed2a6abf7158809cf4f3c",
      "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"};
  static const char *const expected[] = {
      "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
      "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"};
  nm_span iv = nm_test_unhex("000102030405060708090a0b0c0d0e0f");
  nm_span plain = nm_test_unhex(
      "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
  nm_cipher c = open_cipher();
  for (size_t i = 0; i < 2; i++) {
    uint8_t out[32];
    nm_span key = nm_test_unhex(keys[i]);
    NM_CHECK_OK(nm_aes_cbc_encrypt(&c, key, iv.ptr, plain, out));
    NM_CHECK_HEX(nm_span_of(out, 32), expected[i]);
    NM_CHECK_OK(nm_aes_cbc_decrypt(&c, key, iv.ptr, nm_span_of(out, 32), out));
    NM_CHECK_BYTES(out, plain.ptr, 32);
  }
  nm_cipher_close(&c);
}

static void check_pad_vector(const nm_vector *v) {
  nm_span data = nm_vector_bytes(v, "input.data");
  uint8_t *out = nm_test_scratch(nm_aes_padded_size(data.len));
  size_t len = nm_pkcs7_pad(out, data);
  NM_CHECK_INT(len, nm_aes_padded_size(data.len));
  NM_CHECK_SPAN(nm_span_of(out, len), nm_vector_bytes(v, "output.padded"));
}

static void check_unpad_vector(const nm_vector *v) {
  nm_span padded = nm_vector_bytes(v, "input.padded");
  size_t len = 0;
  NM_CHECK_OK(nm_pkcs7_unpad(padded, &len));
  NM_CHECK_SPAN(nm_span_of(padded.ptr, len), nm_vector_bytes(v, "output.data"));
}

NM_TEST(padding_matches_the_vectors) {
  nm_vectors_each(NULL, "pkcs7_pad", 5, check_pad_vector);
  nm_vectors_each(NULL, "pkcs7_unpad", 2, check_unpad_vector);
}

NM_TEST(unpadding_looks_at_the_last_byte_alone) {
  uint8_t block[16];
  for (unsigned last = 0; last < 256; last++) {
    size_t len = 99;
    memset(block, 0xee, sizeof block);
    block[15] = (uint8_t)last;
    int status = nm_pkcs7_unpad(nm_span_of(block, 16), &len);
    if (last <= 16) {
      NM_CHECK_OK(status);
      NM_CHECK_INT(len, 16 - last);
    } else {
      NM_CHECK_STATUS(status, NM_E(PADDING));
      NM_CHECK_INT(len, 99);
    }
  }
  size_t len;
  NM_CHECK_STATUS(nm_pkcs7_unpad(nm_span_of(NULL, 0), &len), NM_E(PADDING));
  NM_CHECK_STATUS(nm_pkcs7_unpad(nm_span_of("\x05\x05", 2), &len),
                  NM_E(PADDING));
}

NM_TEST(padded_round_trips_give_back_any_length_also_in_place) {
  uint8_t key[32];
  uint8_t iv[16];
  uint8_t plain[130];
  uint8_t apart[160];
  uint8_t in_place[160];
  uint8_t opened[160];
  nm_test_random_bytes(key, sizeof key);
  nm_test_random_bytes(iv, sizeof iv);
  nm_test_random_bytes(plain, sizeof plain);
  nm_cipher c = open_cipher();
  for (size_t len = 0; len <= sizeof plain; len++) {
    nm_span k = nm_span_of(key, len % 2 == 0 ? 32 : 16);
    size_t padded = nm_aes_padded_size(len);
    size_t out_len = 0;
    nm_test_context("length %zu", len);
    NM_CHECK_INT(padded, (len / 16 + 1) * 16);
    NM_CHECK_OK(
        nm_aes_cbc_encrypt_padded(&c, k, iv, nm_span_of(plain, len), apart));
    memcpy(in_place, plain, len);
    NM_CHECK_OK(nm_aes_cbc_encrypt_padded(&c, k, iv, nm_span_of(in_place, len),
                                          in_place));
    NM_CHECK_BYTES(in_place, apart, padded);
    NM_CHECK_OK(nm_aes_cbc_decrypt_padded(&c, k, iv, nm_span_of(apart, padded),
                                          opened, &out_len));
    NM_CHECK_SPAN(nm_span_of(opened, out_len), nm_span_of(plain, len));
    NM_CHECK_OK(nm_aes_cbc_decrypt_padded(&c, k, iv, nm_span_of(apart, padded),
                                          apart, &out_len));
    NM_CHECK_SPAN(nm_span_of(apart, out_len), nm_span_of(plain, len));
  }
  nm_cipher_close(&c);
}

NM_TEST(wrong_lengths_of_key_and_data_are_refused) {
  uint8_t key[64] = {0};
  uint8_t iv[16] = {0};
  uint8_t data[48] = {0};
  uint8_t out[64];
  size_t len;
  nm_cipher c = open_cipher();
  for (size_t key_len = 0; key_len <= 64; key_len++) {
    int expected = key_len == 16 || key_len == 32 ? NM_OK : NM_E(KEY);
    nm_span k = nm_span_of(key, key_len);
    nm_span block = nm_span_of(data, 16);
    NM_CHECK_STATUS(nm_aes_cbc_encrypt(&c, k, iv, block, out), expected);
    NM_CHECK_STATUS(nm_aes_cbc_decrypt(&c, k, iv, block, out), expected);
    NM_CHECK_STATUS(nm_aes_cbc_encrypt_padded(&c, k, iv, block, out), expected);
  }
  nm_span k = nm_span_of(key, 32);
  for (size_t n = 0; n <= 33; n++) {
    int expected = n % 16 == 0 ? NM_OK : NM_E(LENGTH);
    nm_span in = nm_span_of(data, n);
    NM_CHECK_STATUS(nm_aes_cbc_encrypt(&c, k, iv, in, out), expected);
    NM_CHECK_STATUS(nm_aes_cbc_decrypt(&c, k, iv, in, out), expected);
  }
  NM_CHECK_STATUS(
      nm_aes_cbc_decrypt_padded(&c, k, iv, nm_span_of(data, 0), out, &len),
      NM_E(LENGTH));
  NM_CHECK_STATUS(
      nm_aes_cbc_decrypt_padded(&c, k, iv, nm_span_of(data, 15), out, &len),
      NM_E(LENGTH));
  nm_cipher_close(&c);
}

NM_TEST(bad_padding_leaves_no_plaintext) {
  uint8_t key[32] = {1};
  uint8_t iv[16] = {2};
  uint8_t plain[32];
  uint8_t sealed[32];
  uint8_t out[32];
  static const uint8_t zero[32];
  size_t len;
  memset(plain, 0x55, sizeof plain);
  nm_cipher c = open_cipher();
  nm_span k = nm_span_of(key, 32);
  NM_CHECK_OK(nm_aes_cbc_encrypt(&c, k, iv, nm_span_of(plain, 32), sealed));
  NM_CHECK_STATUS(
      nm_aes_cbc_decrypt_padded(&c, k, iv, nm_span_of(sealed, 32), out, &len),
      NM_E(PADDING));
  NM_CHECK_BYTES(out, zero, 32);
  nm_cipher_close(&c);
}

/* A provider that refuses, and one that cannot be opened. */
static int open_nothing(void **state) {
  static int object;
  *state = &object;
  return NM_OK;
}

static int open_refused(void **state) {
  (void)state;
  return NM_E(MEMORY);
}

static void close_nothing(void *state) {
  (void)state;
}

static int cbc_refused(void *state, bool encrypt, const uint8_t *key,
                       size_t key_len, const uint8_t iv[16], const uint8_t *in,
                       size_t len, uint8_t *out) {
  (void)state, (void)encrypt, (void)key, (void)key_len, (void)iv, (void)in;
  memset(out, 0x77, len);
  return NM_E(LIBRARY);
}

NM_TEST(a_providers_refusal_is_passed_on_and_leaves_nothing) {
  const nm_cipher_ops refuser = {"refuser", open_nothing, close_nothing,
                                 cbc_refused};
  const nm_cipher_ops closed = {"closed", open_refused, close_nothing,
                                cbc_refused};
  uint8_t key[32] = {0};
  uint8_t out[16];
  static const uint8_t zero[16];
  nm_cipher c;
  NM_CHECK_OK(nm_cipher_open(&c, &refuser));
  NM_CHECK_STATUS(nm_aes_cbc_encrypt_padded(&c, nm_span_of(key, 32), key,
                                            nm_span_of("secret", 6), out),
                  NM_E(LIBRARY));
  NM_CHECK_BYTES(out, zero, 16);
  nm_cipher_close(&c);
  NM_CHECK_STATUS(nm_cipher_open(&c, &closed), NM_E(MEMORY));
  nm_cipher_close(&c);
  nm_cipher_close(&c);
}
