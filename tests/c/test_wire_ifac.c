#include "support.h"

#include "wire/ifac.h"
#include "wire/packet.h"

#include <string.h>

static nm_span optional_text(const nm_vector *v, const char *path) {
  if (!nm_vector_has(v, path)) {
    return nm_span_of(NULL, 0);
  }
  const char *text = nm_vector_text(v, path);
  return nm_span_of(text, strlen(text));
}

static void check_key_vector(const nm_vector *v) {
  nm_ifac ifac;
  NM_CHECK_OK(nm_ifac_init(&ifac, optional_text(v, "input.network_name"),
                           optional_text(v, "input.passphrase"), 16));
  NM_CHECK_SPAN(nm_span_of(ifac.key, sizeof ifac.key),
                nm_vector_bytes(v, "output.ifac_key"));
  NM_CHECK_SPAN(nm_span_of(ifac.identity.hash.b, NM_ADDRESS_SIZE),
                nm_vector_bytes(v, "output.ifac_identity_hash"));
  NM_CHECK_SPAN(nm_span_of(ifac.identity.sign.public_key, NM_KEY_SIZE),
                nm_vector_bytes(v, "output.ifac_ed25519_public"));
  uint8_t signature[NM_SIGNATURE_SIZE];
  NM_CHECK_OK(nm_ifac_signature(&ifac, signature));
  NM_CHECK_SPAN(nm_span_of(signature, sizeof signature),
                nm_vector_bytes(v, "output.ifac_signature"));
  nm_ifac_wipe(&ifac);
  static const uint8_t zeros[NM_PRIVATE_SIZE] = {0};
  NM_CHECK_BYTES(ifac.key, zeros, sizeof zeros);
}

NM_TEST(access_keys_are_derived_as_in_the_vectors) {
  nm_vectors_each(NULL, "ifac_key", 4, check_key_vector);
}

static void check_mask_vector(const nm_vector *v) {
  nm_ifac ifac;
  size_t size = (size_t)nm_vector_u64(v, "input.ifac_size");
  NM_CHECK_OK(
      nm_ifac_init_key(&ifac, nm_vector_bytes(v, "input.ifac_key"), size));
  nm_span raw = nm_vector_bytes(v, "input.raw");
  const char *masked =
      nm_vector_has(v, "output.masked") ? "output.masked" : "output.sent";
  uint8_t tag[NM_SIGNATURE_SIZE];
  NM_CHECK_OK(nm_ifac_tag(&ifac, raw, tag, NULL));
  if (nm_vector_has(v, "output.ifac")) {
    NM_CHECK_SPAN(nm_span_of(tag, size), nm_vector_bytes(v, "output.ifac"));
  }
  uint8_t out[600];
  size_t len = 0;
  NM_CHECK_OK(nm_ifac_mask(&ifac, raw, out, sizeof out, &len, NULL));
  NM_CHECK_SPAN(nm_span_of(out, len), nm_vector_bytes(v, masked));
  uint8_t back[600];
  NM_CHECK_INT(nm_ifac_unmask(&ifac, nm_span_of(out, len), back, &len),
               NM_IFAC_OK);
  NM_CHECK_SPAN(nm_span_of(back, len), raw);
}

NM_TEST(packets_are_masked_as_in_the_vectors) {
  nm_vectors_each(NULL, "ifac_mask", 8, check_mask_vector);
  nm_vectors_each(NULL, "queued_announce_ifac", 2, check_mask_vector);
}

static nm_ifac sample(size_t size) {
  nm_ifac ifac;
  NM_CHECK_OK(
      nm_ifac_init(&ifac, nm_span_of("net", 3), nm_span_of("key", 3), size));
  return ifac;
}

NM_TEST(packets_of_any_length_come_back_also_beyond_255_mask_blocks) {
  static const size_t lengths[] = {3, 20, 500, 8159, 8160, 8161, 20000};
  nm_ifac ifac = sample(16);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    size_t n = lengths[i];
    nm_test_context("length %zu", n);
    uint8_t *raw = (uint8_t *)nm_test_scratch(n);
    nm_test_random_bytes(raw, n);
    raw[0] &= 0x7f;
    uint8_t *masked = (uint8_t *)nm_test_scratch(n + 16);
    uint8_t *back = (uint8_t *)nm_test_scratch(n + 16);
    size_t len = 0;
    NM_CHECK_OK(
        nm_ifac_mask(&ifac, nm_span_of(raw, n), masked, n + 16, &len, NULL));
    NM_CHECK_INT(len, n + 16);
    NM_CHECK(masked[0] & 0x80);
    NM_CHECK_INT(nm_ifac_unmask(&ifac, nm_span_of(masked, len), back, &len),
                 NM_IFAC_OK);
    NM_CHECK_SPAN(nm_span_of(back, len), nm_span_of(raw, n));
  }
}

NM_TEST(a_flipped_bit_anywhere_is_a_wrong_code_and_leaves_nothing_behind) {
  static const uint8_t zeros[64] = {0};
  nm_ifac ifac = sample(8);
  uint8_t raw[30];
  nm_test_random_bytes(raw, sizeof raw);
  raw[0] &= 0x7f;
  uint8_t masked[38];
  uint8_t back[38];
  size_t len = 0;
  NM_CHECK_OK(nm_ifac_mask(&ifac, nm_span_of(raw, sizeof raw), masked,
                           sizeof masked, &len, NULL));
  for (size_t bit = 0; bit < sizeof masked * 8; bit++) {
    nm_test_context("bit %zu", bit);
    masked[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    nm_ifac_verdict verdict =
        nm_ifac_unmask(&ifac, nm_span_of(masked, sizeof masked), back, &len);
    NM_CHECK_INT(verdict, bit == 7 ? NM_IFAC_NO_FLAG : NM_IFAC_WRONG_CODE);
    if (verdict == NM_IFAC_WRONG_CODE) {
      NM_CHECK_BYTES(back, zeros, sizeof back);
    }
    masked[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
}

NM_TEST(the_interface_with_another_key_or_size_refuses) {
  nm_ifac ifac = sample(16);
  nm_ifac other;
  NM_CHECK_OK(
      nm_ifac_init(&other, nm_span_of("net", 3), nm_span_of("kez", 3), 16));
  nm_ifac shorter = sample(8);
  uint8_t raw[40] = {0x08};
  uint8_t masked[80];
  uint8_t back[80];
  size_t len = 0;
  NM_CHECK_OK(nm_ifac_mask(&ifac, nm_span_of(raw, sizeof raw), masked,
                           sizeof masked, &len, NULL));
  nm_span in = nm_span_of(masked, len);
  NM_CHECK_INT(nm_ifac_unmask(&other, in, back, &len), NM_IFAC_WRONG_CODE);
  NM_CHECK_INT(nm_ifac_unmask(&shorter, in, back, &len), NM_IFAC_WRONG_CODE);
}

NM_TEST(short_and_unflagged_input_has_its_own_verdict) {
  nm_ifac ifac = sample(16);
  uint8_t in[32] = {0x80};
  uint8_t out[32];
  size_t len = 0;
  for (size_t n = 0; n <= 18; n++) {
    nm_test_context("length %zu", n);
    NM_CHECK_INT(nm_ifac_unmask(&ifac, nm_span_of(in, n), out, &len),
                 NM_IFAC_TOO_SHORT);
  }
  NM_CHECK_INT(nm_ifac_unmask(&ifac, nm_span_of(in, 19), out, &len),
               NM_IFAC_WRONG_CODE);
  in[0] = 0x7f;
  NM_CHECK_INT(nm_ifac_unmask(&ifac, nm_span_of(in, 19), out, &len),
               NM_IFAC_NO_FLAG);
  NM_CHECK_INT(nm_ifac_absent(nm_span_of(in, 3)), NM_IFAC_OK);
  NM_CHECK_INT(nm_ifac_absent(nm_span_of(in, 2)), NM_IFAC_TOO_SHORT);
  in[0] = 0x80;
  NM_CHECK_INT(nm_ifac_absent(nm_span_of(in, 3)), NM_IFAC_UNEXPECTED);
}

NM_TEST(masking_refuses_flagged_short_and_oversized_packets) {
  nm_ifac ifac = sample(16);
  uint8_t raw[20] = {0};
  uint8_t out[36];
  size_t len = 0;
  nm_fault fault = {0};
  NM_CHECK_STATUS(
      nm_ifac_mask(&ifac, nm_span_of(raw, 1), out, 36, &len, &fault),
      NM_E(TRUNCATED));
  NM_CHECK_STATUS(
      nm_ifac_mask(&ifac, nm_span_of(raw, 20), out, 35, &len, &fault),
      NM_E(TOO_LARGE));
  NM_CHECK(strcmp(fault.field, "output") == 0);
  NM_CHECK_STATUS(nm_ifac_mask(&ifac, nm_span_of(raw, 20), out, 3, &len, NULL),
                  NM_E(TOO_LARGE));
  raw[0] = 0x80;
  NM_CHECK_STATUS(
      nm_ifac_mask(&ifac, nm_span_of(raw, 20), out, 36, &len, &fault),
      NM_E(VALUE));
  NM_CHECK(strcmp(fault.field, "flags") == 0);
}

NM_TEST(access_keys_need_a_name_a_good_size_and_64_bytes) {
  nm_ifac ifac;
  nm_span none = nm_span_of(NULL, 0);
  nm_span name = nm_span_of("net", 3);
  NM_CHECK_STATUS(nm_ifac_init(&ifac, none, none, 16), NM_E(MISSING));
  NM_CHECK_STATUS(nm_ifac_init(&ifac, name, none, 0), NM_E(RANGE));
  NM_CHECK_STATUS(nm_ifac_init(&ifac, name, none, 65), NM_E(RANGE));
  NM_CHECK_OK(nm_ifac_init(&ifac, name, none, 64));
  NM_CHECK_STATUS(nm_ifac_init_key(&ifac, name, 16), NM_E(LENGTH));
}

NM_TEST(access_verdicts_have_names_and_statuses) {
  static const int statuses[] = {NM_OK,      NM_E(MISSING), NM_E(TRUNCATED),
                                 NM_E(AUTH), NM_E(VALUE),   NM_E(LIBRARY)};
  for (int v = NM_IFAC_OK; v <= NM_IFAC_FAILED; v++) {
    NM_CHECK_STATUS(nm_ifac_verdict_status((nm_ifac_verdict)v), statuses[v]);
    NM_CHECK(nm_ifac_verdict_name((nm_ifac_verdict)v)[0] != '\0');
  }
  NM_CHECK(strcmp(nm_ifac_verdict_name(NM_IFAC_WRONG_CODE), "WRONG_CODE") == 0);
}
