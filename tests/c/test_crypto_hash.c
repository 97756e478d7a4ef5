#define OPENSSL_SUPPRESS_DEPRECATED
#include "support.h"

#include "crypto/hash.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string.h>

static void check_hash_vector(const nm_vector *v) {
  nm_span data = nm_vector_bytes(v, "input.data");
  uint8_t out[NM_HASH_SIZE];
  nm_sha256(out, data);
  NM_CHECK_SPAN(nm_span_of(out, 32), nm_vector_bytes(v, "output.full"));
  nm_truncated_hash(out, data);
  NM_CHECK_SPAN(nm_span_of(out, 16), nm_vector_bytes(v, "output.truncated"));
  nm_name_hash(out, data);
  NM_CHECK_SPAN(nm_span_of(out, 10),
                nm_vector_bytes(v, "output.name_hash_len10"));
}

NM_TEST(hashes_match_the_vectors) {
  nm_vectors_each("reticulum-core", "hash", 3, check_hash_vector);
}

NM_TEST(sha256_matches_the_library_at_every_length) {
  uint8_t data[520];
  uint8_t ours[32];
  uint8_t theirs[32];
  nm_test_random_bytes(data, sizeof data);
  for (size_t len = 0; len <= sizeof data; len++) {
    nm_test_context("length %zu", len);
    nm_sha256(ours, nm_span_of(data, len));
    SHA256(data, len, theirs);
    NM_CHECK_BYTES(ours, theirs, 32);
  }
  nm_sha256(ours, nm_span_of(NULL, 0));
  SHA256(data, 0, theirs);
  NM_CHECK_BYTES(ours, theirs, 32);
}

NM_TEST(two_hashes_at_once_are_the_same_as_one_after_the_other) {
  uint8_t data[2000];
  nm_test_random_bytes(data, sizeof data);
  for (int i = 0; i < 3000; i++) {
    nm_sha256_ctx one[2];
    nm_sha256_ctx two[2];
    for (size_t j = 0; j < 2; j++) {
      nm_sha256_init(&one[j]);
      nm_sha256_init(&two[j]);
    }
    for (size_t piece = 0; piece < 4; piece++) {
      nm_span given[2];
      for (size_t j = 0; j < 2; j++) {
        size_t len = nm_test_below(3) == 0 ? 0 : nm_test_below(700);
        given[j] = nm_span_of(data + nm_test_below(1300), len);
        nm_sha256_update(&one[j], given[j]);
      }
      nm_sha256_update_two(&two[0], given[0], &two[1], given[1]);
    }
    for (size_t j = 0; j < 2; j++) {
      uint8_t wanted[32];
      uint8_t found[32];
      nm_sha256_final(&one[j], wanted);
      nm_sha256_final(&two[j], found);
      NM_CHECK_BYTES(found, wanted, 32);
    }
  }
}

NM_TEST(sha256_in_pieces_is_sha256_of_the_whole) {
  uint8_t data[700];
  nm_test_random_bytes(data, sizeof data);
  for (int i = 0; i < 3000; i++) {
    nm_span parts[8];
    size_t n = nm_test_below(9);
    size_t used = 0;
    for (size_t p = 0; p < n; p++) {
      size_t len = nm_test_below(88);
      parts[p] = nm_span_of(data + used, len);
      used += len;
    }
    uint8_t whole[32];
    uint8_t pieces[32];
    nm_sha256(whole, nm_span_of(data, used));
    nm_sha256v(pieces, parts, n);
    NM_CHECK_BYTES(pieces, whole, 32);
    nm_truncated_hashv(pieces, parts, n);
    NM_CHECK_BYTES(pieces, whole, 16);
  }
}

NM_TEST(a_million_letters_hash_as_published) {
  uint8_t out[32];
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  uint8_t chunk[1000];
  memset(chunk, 'a', sizeof chunk);
  for (int i = 0; i < 1000; i++) {
    nm_sha256_update(&ctx, nm_span_of(chunk, sizeof chunk));
  }
  nm_sha256_final(&ctx, out);
  NM_CHECK_HEX(
      nm_span_of(out, 32),
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  static const nm_sha256_ctx zero;
  NM_CHECK(memcmp(&ctx, &zero, sizeof ctx) == 0);
}

NM_TEST(a_saved_state_is_resumed_any_number_of_times) {
  uint8_t data[300];
  nm_test_random_bytes(data, sizeof data);
  nm_sha256_ctx ctx;
  nm_sha256_midstate mid;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, nm_span_of(data, 100));
  NM_CHECK_STATUS(nm_sha256_save(&ctx, &mid), NM_E(STATE));
  nm_sha256_update(&ctx, nm_span_of(data + 100, 28));
  NM_CHECK_OK(nm_sha256_save(&ctx, &mid));
  NM_CHECK_INT(mid.bytes, 128);
  for (size_t len = 128; len <= sizeof data; len += 43) {
    uint8_t resumed[32];
    uint8_t whole[32];
    nm_sha256_resume(&ctx, &mid);
    nm_sha256_update(&ctx, nm_span_of(data + 128, len - 128));
    nm_sha256_final(&ctx, resumed);
    nm_sha256(whole, nm_span_of(data, len));
    NM_CHECK_BYTES(resumed, whole, 32);
  }
}

NM_TEST(sha512_matches_the_published_values_and_works_in_pieces) {
  uint8_t out[64];
  nm_sha512(out, nm_span_of("abc", 3));
  NM_CHECK_HEX(
      nm_span_of(out, 64),
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
      "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
  nm_sha512(out, nm_span_of(NULL, 0));
  NM_CHECK_HEX(
      nm_span_of(out, 64),
      "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
      "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
  uint8_t data[1000];
  nm_test_random_bytes(data, sizeof data);
  uint8_t whole[64];
  nm_sha512(whole, nm_span_of(data, sizeof data));
  nm_sha512_ctx ctx;
  nm_sha512_init(&ctx);
  for (size_t at = 0; at < sizeof data; at += 40) {
    nm_sha512_update(&ctx, nm_span_of(data + at, 40));
  }
  nm_sha512_final(&ctx, out);
  NM_CHECK_BYTES(out, whole, 64);
  static const nm_sha512_ctx zero;
  NM_CHECK(memcmp(&ctx, &zero, sizeof ctx) == 0);
}

/* RFC 4231: key, data, HMAC-SHA-256. */
NM_TEST(hmac_matches_rfc_4231) {
  static const char *const rows[][3] = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "4869205468657265",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {"0102030405060708090a0b0c0d0e0f10111213141516171819",
       "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdc"
       "d"
       "cdcdcdcdcdcdcdcdcdcdcdcdcdcd",
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
  };
  uint8_t out[32];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_hmac_sha256(out, nm_test_unhex(rows[i][0]), nm_test_unhex(rows[i][1]));
    NM_CHECK_HEX(nm_span_of(out, 32), rows[i][2]);
  }
  uint8_t long_key[131];
  memset(long_key, 0xaa, sizeof long_key);
  const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
  nm_hmac_sha256(out, nm_span_of(long_key, sizeof long_key),
                 nm_span_of(text, strlen(text)));
  NM_CHECK_HEX(
      nm_span_of(out, 32),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

NM_TEST(hmac_matches_the_library_for_any_key_and_data) {
  uint8_t key[200];
  uint8_t data[400];
  nm_test_random_bytes(key, sizeof key);
  nm_test_random_bytes(data, sizeof data);
  for (int i = 0; i < 2000; i++) {
    size_t key_len = nm_test_below(sizeof key + 1);
    size_t len = nm_test_below(sizeof data + 1);
    size_t split = nm_test_below((uint32_t)len + 1);
    uint8_t ours[32];
    uint8_t theirs[32];
    nm_test_context("key %zu, data %zu", key_len, len);
    HMAC(EVP_sha256(), key, (int)key_len, data, len, theirs, NULL);
    nm_hmac_sha256(ours, nm_span_of(key, key_len), nm_span_of(data, len));
    NM_CHECK_BYTES(ours, theirs, 32);
    nm_hmac_key k;
    nm_span parts[2] = {{data, split}, {data + split, len - split}};
    nm_hmac_key_init(&k, nm_span_of(key, key_len));
    nm_hmac_key_macv(&k, ours, parts, 2);
    NM_CHECK_BYTES(ours, theirs, 32);
    nm_hmac_key_wipe(&k);
    static const nm_hmac_key zero;
    NM_CHECK(memcmp(&k, &zero, sizeof k) == 0);
  }
}

static nm_span bytes_or_none(const nm_vector *v, const char *path) {
  return nm_vector_has(v, path) ? nm_vector_bytes(v, path)
                                : nm_span_of(NULL, 0);
}

static nm_span hkdf_of(const nm_vector *v) {
  size_t len = (size_t)nm_vector_u64(v, "input.length");
  uint8_t *out = nm_test_scratch(len);
  NM_CHECK_OK(nm_hkdf(out, len, nm_vector_bytes(v, "input.ikm"),
                      bytes_or_none(v, "input.salt"),
                      bytes_or_none(v, "input.context")));
  return nm_span_of(out, len);
}

static void check_hkdf_vector(const nm_vector *v) {
  NM_CHECK_SPAN(hkdf_of(v), nm_vector_bytes(v, "output.okm"));
}

static void check_long_hkdf_vector(const nm_vector *v) {
  nm_span okm = hkdf_of(v);
  uint8_t digest[32];
  nm_sha256(digest, okm);
  NM_CHECK_SPAN(nm_span_of(digest, 32),
                nm_vector_bytes(v, "output.sha256_of_okm"));
  NM_CHECK_SPAN(nm_span_of(okm.ptr + 8160, 32),
                nm_vector_bytes(v, "output.block_256_bytes_8160_8192"));
}

NM_TEST(hkdf_matches_the_vectors_beyond_the_counters_wrap) {
  nm_vectors_each(NULL, "hkdf", 7, check_hkdf_vector);
  nm_vectors_each(NULL, "hkdf_long", 1, check_long_hkdf_vector);
}

/* RFC 5869, test case 1. */
NM_TEST(hkdf_matches_rfc_5869) {
  uint8_t out[42];
  NM_CHECK_OK(
      nm_hkdf(out, sizeof out,
              nm_test_unhex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
              nm_test_unhex("000102030405060708090a0b0c"),
              nm_test_unhex("f0f1f2f3f4f5f6f7f8f9")));
  NM_CHECK_HEX(
      nm_span_of(out, sizeof out),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
      "34007208d5b887185865");
}

NM_TEST(hkdf_refuses_no_output_and_takes_empty_inputs) {
  uint8_t out[64];
  uint8_t same[64];
  uint8_t zeros[32] = {0};
  nm_span none = nm_span_of(NULL, 0);
  NM_CHECK_STATUS(nm_hkdf(out, 0, none, none, none), NM_E(LENGTH));
  NM_CHECK_OK(nm_hkdf(out, sizeof out, none, none, none));
  NM_CHECK_OK(nm_hkdf(same, sizeof same, none, nm_span_of(zeros, 32), none));
  NM_CHECK_BYTES(out, same, 64);
}

NM_TEST(hkdf_with_a_prepared_salt_is_hkdf) {
  uint8_t salt[64];
  uint8_t ikm[16];
  uint8_t out[600];
  uint8_t prepared[600];
  nm_test_random_bytes(salt, sizeof salt);
  nm_test_random_bytes(ikm, sizeof ikm);
  nm_hmac_key k;
  nm_hmac_key_init(&k, nm_span_of(salt, sizeof salt));
  for (size_t len = 1; len < sizeof out; len += 37) {
    nm_span info = nm_span_of("information", len % 12);
    NM_CHECK_OK(
        nm_hkdf(out, len, nm_span_of(ikm, 16), nm_span_of(salt, 64), info));
    NM_CHECK_OK(nm_hkdf_salted(prepared, len, nm_span_of(ikm, 16), &k, info));
    NM_CHECK_BYTES(prepared, out, len);
  }
}
