#include "support.h"

#include <string.h>

NM_TEST(spans_are_equal_only_with_equal_length_and_bytes) {
  NM_CHECK(nm_span_equal(nm_span_of("abc", 3), nm_span_of("abcd", 3)));
  NM_CHECK(!nm_span_equal(nm_span_of("abc", 3), nm_span_of("abc", 2)));
  NM_CHECK(!nm_span_equal(nm_span_of("abc", 3), nm_span_of("abd", 3)));
  NM_CHECK(nm_span_equal(nm_span_of(NULL, 0), nm_span_of("x", 0)));
}

NM_TEST(constant_time_equality_sees_every_bit) {
  uint8_t a[43];
  uint8_t b[43];
  nm_test_random_bytes(a, sizeof a);
  memcpy(b, a, sizeof b);
  for (size_t len = 0; len <= sizeof a; len++) {
    NM_CHECK(nm_equal_ct(a, b, len));
    for (size_t bit = 0; bit < 8 * sizeof a; bit++) {
      b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
      NM_CHECK_INT(nm_equal_ct(a, b, len), bit >= 8 * len);
      b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
  }
}

NM_TEST(wiping_leaves_zeros_and_nothing_else_touched) {
  uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const uint8_t expected[8] = {1, 2, 0, 0, 0, 6, 7, 8};
  nm_wipe(bytes + 2, 3);
  nm_wipe(NULL, 0);
  NM_CHECK_BYTES(bytes, expected, 8);
}
