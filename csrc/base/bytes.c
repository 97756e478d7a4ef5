#include "base/bytes.h"

#include <string.h>

bool nm_span_equal(nm_span a, nm_span b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Hides a value from the optimiser, which could otherwise leave a loop as soon
 * as its result is settled. */
static inline uint64_t opaque(uint64_t v) {
  __asm__("" : "+r"(v));
  return v;
}

bool nm_equal_ct(const void *a, const void *b, size_t len) {
  const uint8_t *x = (const uint8_t *)a;
  const uint8_t *y = (const uint8_t *)b;
  uint64_t difference = 0;
  size_t i = 0;
  for (; len - i >= 8; i += 8) {
    uint64_t u;
    uint64_t v;
    memcpy(&u, x + i, 8);
    memcpy(&v, y + i, 8);
    difference = opaque(difference | (u ^ v));
  }
  for (; i < len; i++) {
    difference = opaque(difference | (uint64_t)(x[i] ^ y[i]));
  }
  return difference == 0;
}

void nm_wipe(void *ptr, size_t len) {
  if (len > 0) {
    memset(ptr, 0, len);
    /* The bytes count as read from here on, so the memset must happen. */
    __asm__ __volatile__("" : : "r"(ptr) : "memory");
  }
}
