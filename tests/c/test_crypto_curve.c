#include "support.h"

#include "crypto/curve.h"

#include <sodium.h>
#include <string.h>

static void check_public_vector(const nm_vector *v) {
  uint8_t out[32];
  NM_CHECK_OK(nm_x25519_public(out, nm_vector_bytes(v, "input.private").ptr));
  NM_CHECK_SPAN(nm_span_of(out, 32), nm_vector_bytes(v, "output.public"));
}

static void check_exchange_vector(const nm_vector *v) {
  uint8_t out[32];
  NM_CHECK_OK(nm_x25519(out, nm_vector_bytes(v, "input.private").ptr,
                        nm_vector_bytes(v, "input.peer_public").ptr));
  NM_CHECK_SPAN(nm_span_of(out, 32), nm_vector_bytes(v, "output.shared"));
}

static void check_sign_vector(const nm_vector *v) {
  nm_span private_key = nm_vector_bytes(v, "input.private_key");
  nm_ed25519_sign_key key;
  uint8_t sig[64];
  NM_CHECK_OK(nm_ed25519_sign_key_init(&key, private_key.ptr + 32));
  NM_CHECK_OK(nm_ed25519_sign(sig, &key, nm_vector_bytes(v, "input.message")));
  NM_CHECK_SPAN(nm_span_of(sig, 64), nm_vector_bytes(v, "output.signature"));
}

static void check_verify_vector(const nm_vector *v) {
  int expected = nm_vector_bool(v, "output.valid") ? NM_OK : NM_E(SIGNATURE);
  NM_CHECK_STATUS(
      nm_ed25519_verify(nm_vector_bytes(v, "input.public_key").ptr + 32,
                        nm_vector_bytes(v, "input.signature").ptr,
                        nm_vector_bytes(v, "input.message")),
      expected);
}

NM_TEST(curves_match_the_vectors) {
  nm_vectors_each(NULL, "x25519_public", 1, check_public_vector);
  nm_vectors_each(NULL, "x25519", 1, check_exchange_vector);
  nm_vectors_each(NULL, "sign", 3, check_sign_vector);
  nm_vectors_each(NULL, "verify", 2, check_verify_vector);
}

/* RFC 7748, 5.2 and 6.1. */
NM_TEST(x25519_matches_rfc_7748) {
  static const char *const rows[][3] = {
      {"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
       "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
       "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
      {"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
       "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
       "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
  };
  uint8_t out[32];
  for (size_t i = 0; i < 2; i++) {
    NM_CHECK_OK(nm_x25519(out, nm_test_unhex(rows[i][0]).ptr,
                          nm_test_unhex(rows[i][1]).ptr));
    NM_CHECK_HEX(nm_span_of(out, 32), rows[i][2]);
  }
}

/* RFC 7748, 5.2: each result is the next scalar, each scalar the next point. */
NM_TEST(iterated_x25519_matches_rfc_7748) {
  uint8_t k[32] = {9};
  uint8_t u[32] = {9};
  uint8_t out[32];
  for (int i = 1; i <= 1000; i++) {
    NM_CHECK_OK(nm_x25519(out, k, u));
    memcpy(u, k, sizeof u);
    memcpy(k, out, sizeof k);
    if (i == 1) {
      NM_CHECK_HEX(
          nm_span_of(k, 32),
          "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
    }
  }
  NM_CHECK_HEX(
      nm_span_of(k, 32),
      "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
}

static void check_public_key(const uint8_t private_key[32]) {
  uint8_t ours[32];
  uint8_t theirs[32];
  NM_CHECK_OK(nm_x25519_public(ours, private_key));
  NM_CHECK_INT(crypto_scalarmult_base(theirs, private_key), 0);
  NM_CHECK_BYTES(ours, theirs, 32);
}

NM_TEST(public_keys_match_the_ladder_for_thousands_of_keys) {
  uint8_t key[32];
  for (int i = 0; i < 3000; i++) {
    nm_test_random_bytes(key, sizeof key);
    check_public_key(key);
  }
}

NM_TEST(public_keys_match_the_ladder_for_edge_scalars) {
  /* The order of the group and its neighbour. */
  static const char *const edges[] = {
      "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
      "ecd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"};
  uint8_t key[32];
  for (unsigned fill = 0; fill < 256; fill += 1) {
    memset(key, (int)fill, sizeof key);
    check_public_key(key);
  }
  for (size_t bit = 0; bit < 256; bit++) {
    memset(key, 0, sizeof key);
    key[bit / 8] = (uint8_t)(1u << (bit % 8));
    check_public_key(key);
    for (size_t i = 0; i < sizeof key; i++) {
      key[i] = (uint8_t)~key[i];
    }
    check_public_key(key);
  }
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
    check_public_key(nm_test_unhex(edges[i]).ptr);
  }
}

NM_TEST(both_sides_of_an_exchange_agree) {
  for (int i = 0; i < 50; i++) {
    uint8_t a[32], b[32], a_public[32], b_public[32], ab[32], ba[32];
    nm_test_random_bytes(a, sizeof a);
    nm_test_random_bytes(b, sizeof b);
    NM_CHECK_OK(nm_x25519_public(a_public, a));
    NM_CHECK_OK(nm_x25519_public(b_public, b));
    b_public[31] |= 0x80; /* is ignored */
    NM_CHECK_OK(nm_x25519(ab, a, b_public));
    NM_CHECK_OK(nm_x25519(ba, b, a_public));
    NM_CHECK_BYTES(ab, ba, 32);
  }
}

NM_TEST(keys_that_give_a_zero_secret_are_refused) {
  /* The points of small order on the curve and its twist. */
  static const char *const small[] = {
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};
  static const uint8_t zero[32];
  uint8_t key[32];
  nm_test_random_bytes(key, sizeof key);
  for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
    uint8_t out[32];
    memset(out, 0xee, sizeof out);
    NM_CHECK_STATUS(nm_x25519(out, key, nm_test_unhex(small[i]).ptr),
                    NM_E(KEY));
    NM_CHECK_BYTES(out, zero, 32);
  }
}

/* RFC 8032, 7.1, test 3. */
NM_TEST(signatures_match_rfc_8032) {
  nm_ed25519_sign_key key;
  uint8_t sig[64];
  NM_CHECK_OK(nm_ed25519_sign_key_init(
      &key,
      nm_test_unhex(
          "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
          .ptr));
  NM_CHECK_HEX(
      nm_span_of(key.public_key, 32),
      "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
  NM_CHECK_OK(nm_ed25519_sign(sig, &key, nm_test_unhex("af82")));
  NM_CHECK_HEX(
      nm_span_of(sig, 64),
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
      "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");
}

NM_TEST(signatures_are_the_librarys_for_every_length) {
  static uint8_t message[2100];
  nm_test_random_bytes(message, sizeof message);
  for (size_t len = 0; len <= sizeof message; len++) {
    uint8_t seed[32], pk[32], sk[64], theirs[64], ours[64], parts_sig[64];
    nm_ed25519_sign_key key;
    nm_test_random_bytes(seed, sizeof seed);
    nm_test_context("length %zu", len);
    crypto_sign_seed_keypair(pk, sk, seed);
    crypto_sign_detached(theirs, NULL, message, len, sk);
    NM_CHECK_OK(nm_ed25519_sign_key_init(&key, seed));
    NM_CHECK_BYTES(key.public_key, pk, 32);
    NM_CHECK_OK(nm_ed25519_sign(ours, &key, nm_span_of(message, len)));
    NM_CHECK_BYTES(ours, theirs, 64);
    size_t split = nm_test_below((uint32_t)len + 1);
    nm_span parts[2] = {{message, split}, {message + split, len - split}};
    NM_CHECK_OK(nm_ed25519_signv(parts_sig, &key, parts, 2));
    NM_CHECK_BYTES(parts_sig, theirs, 64);
  }
}

NM_TEST(public_keys_of_seeds_are_the_librarys) {
  for (int i = 0; i < 200; i++) {
    uint8_t seed[32], pk[32], sk[64], ours[32];
    nm_test_random_bytes(seed, sizeof seed);
    crypto_sign_seed_keypair(pk, sk, seed);
    NM_CHECK_OK(nm_ed25519_public(ours, seed));
    NM_CHECK_BYTES(ours, pk, 32);
  }
}

NM_TEST(a_wiped_signing_key_is_zero) {
  uint8_t seed[32] = {5};
  static const nm_ed25519_sign_key zero;
  nm_ed25519_sign_key key;
  NM_CHECK_OK(nm_ed25519_sign_key_init(&key, seed));
  nm_ed25519_sign_key_wipe(&key);
  NM_CHECK(memcmp(&key, &zero, sizeof key) == 0);
}

NM_TEST(every_flipped_bit_spoils_a_signature) {
  uint8_t seed[32] = {9}, sig[64], message[10] = "0123456789";
  nm_ed25519_sign_key key;
  NM_CHECK_OK(nm_ed25519_sign_key_init(&key, seed));
  nm_span m = nm_span_of(message, sizeof message);
  NM_CHECK_OK(nm_ed25519_sign(sig, &key, m));
  NM_CHECK_OK(nm_ed25519_verify(key.public_key, sig, m));
  for (size_t bit = 0; bit < 512; bit++) {
    sig[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_STATUS(nm_ed25519_verify(key.public_key, sig, m), NM_E(SIGNATURE));
    sig[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  for (size_t bit = 0; bit < 80; bit++) {
    message[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_STATUS(nm_ed25519_verify(key.public_key, sig, m), NM_E(SIGNATURE));
    message[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
}

NM_TEST(malformed_keys_and_scalars_are_merely_invalid) {
  uint8_t seed[32] = {7}, sig[64], bad[64];
  nm_ed25519_sign_key key;
  NM_CHECK_OK(nm_ed25519_sign_key_init(&key, seed));
  nm_span m = nm_span_of("m", 1);
  NM_CHECK_OK(nm_ed25519_sign(sig, &key, m));
  /* S + L verifies where the range of S is not checked. */
  static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a,       0x63,
                                    0x12, 0x58, 0xd6, 0x9c, 0xf7,       0xa2,
                                    0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
  memcpy(bad, sig, sizeof bad);
  unsigned carry = 0;
  for (size_t i = 0; i < 32; i++) {
    carry += (unsigned)bad[32 + i] + order[i];
    bad[32 + i] = (uint8_t)carry;
    carry >>= 8;
  }
  NM_CHECK_INT(carry, 0);
  NM_CHECK_STATUS(nm_ed25519_verify(key.public_key, bad, m), NM_E(SIGNATURE));
  /* Small order, not canonical, not on the curve. */
  static const char *const keys[] = {
      "0100000000000000000000000000000000000000000000000000000000000000",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
      "0200000000000000000000000000000000000000000000000000000000000000"};
  memset(bad, 0, sizeof bad);
  bad[0] = 1;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const uint8_t *pk = nm_test_unhex(keys[i]).ptr;
    NM_CHECK_STATUS(nm_ed25519_verify(pk, sig, m), NM_E(SIGNATURE));
    NM_CHECK_STATUS(nm_ed25519_verify(pk, bad, m), NM_E(SIGNATURE));
  }
}

NM_TEST(many_claims_are_judged_one_by_one) {
  uint8_t sigs[20][64];
  nm_ed25519_sign_key keys[20];
  nm_ed25519_claim claims[20];
  bool ok[20];
  for (size_t i = 0; i < 20; i++) {
    uint8_t seed[32] = {(uint8_t)i};
    NM_CHECK_OK(nm_ed25519_sign_key_init(&keys[i], seed));
    nm_span m = nm_span_of("same message", i % 12);
    NM_CHECK_OK(nm_ed25519_sign(sigs[i], &keys[i], m));
    nm_ed25519_claim c = {keys[i].public_key, sigs[i], m};
    claims[i] = c;
  }
  NM_CHECK_INT(nm_ed25519_verify_many(ok, claims, 20), 20);
  sigs[3][5] ^= 1;
  claims[17].public_key = keys[16].public_key;
  NM_CHECK_INT(nm_ed25519_verify_many(ok, claims, 20), 18);
  for (size_t i = 0; i < 20; i++) {
    NM_CHECK_INT(ok[i], i != 3 && i != 17);
  }
  NM_CHECK_INT(nm_ed25519_verify_many(ok, claims, 0), 0);
}
