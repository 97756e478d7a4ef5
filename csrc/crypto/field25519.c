/* Arithmetic modulo p = 2^255 - 19 in five limbs of 51 bits, as far as one
 * inversion needs it. Limbs stay below 2^52 between operations. The code has no
 * branches on data, though it only ever sees public values.
 */
#include "crypto/field25519.h"

#include <string.h>

typedef unsigned __int128 wide;

typedef struct element {
  uint64_t v[5];
} element;

#define MASK51 (((uint64_t)1 << 51) - 1)

static uint64_t load64(const uint8_t *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) {
    v = (v << 8) | p[i];
  }
  return v;
}

static element element_load(const uint8_t b[32]) {
  element e = {{load64(b) & MASK51, (load64(b + 6) >> 3) & MASK51,
                (load64(b + 12) >> 6) & MASK51, (load64(b + 19) >> 1) & MASK51,
                (load64(b + 24) >> 12) & MASK51}};
  return e;
}

/* Carries five wide columns into limbs; 2^255 is worth 19. In two steps in
 * which all columns carry at once, which is shorter than one chain through all
 * of them. From limbs below 2^52 columns are below 77 * 2^104, so that the
 * first step leaves less than 2^60 and the second less than 2^51 + 2^13. */
static inline element reduce(const wide c[5]) {
  uint64_t t[5];
  element r;
  t[0] = ((uint64_t)c[0] & MASK51) + 19 * (uint64_t)(c[4] >> 51);
  for (int i = 1; i < 5; i++) {
    t[i] = ((uint64_t)c[i] & MASK51) + (uint64_t)(c[i - 1] >> 51);
  }
  r.v[0] = (t[0] & MASK51) + 19 * (t[4] >> 51);
  for (int i = 1; i < 5; i++) {
    r.v[i] = (t[i] & MASK51) + (t[i - 1] >> 51);
  }
  return r;
}

static inline element multiply(element a, element b) {
  uint64_t b19[5];
  for (int i = 1; i < 5; i++) {
    b19[i] = b.v[i] * 19;
  }
  wide c[5];
  c[0] = (wide)a.v[0] * b.v[0] + (wide)a.v[1] * b19[4] + (wide)a.v[2] * b19[3] +
         (wide)a.v[3] * b19[2] + (wide)a.v[4] * b19[1];
  c[1] = (wide)a.v[0] * b.v[1] + (wide)a.v[1] * b.v[0] + (wide)a.v[2] * b19[4] +
         (wide)a.v[3] * b19[3] + (wide)a.v[4] * b19[2];
  c[2] = (wide)a.v[0] * b.v[2] + (wide)a.v[1] * b.v[1] + (wide)a.v[2] * b.v[0] +
         (wide)a.v[3] * b19[4] + (wide)a.v[4] * b19[3];
  c[3] = (wide)a.v[0] * b.v[3] + (wide)a.v[1] * b.v[2] + (wide)a.v[2] * b.v[1] +
         (wide)a.v[3] * b.v[0] + (wide)a.v[4] * b19[4];
  c[4] = (wide)a.v[0] * b.v[4] + (wide)a.v[1] * b.v[3] + (wide)a.v[2] * b.v[2] +
         (wide)a.v[3] * b.v[1] + (wide)a.v[4] * b.v[0];
  return reduce(c);
}

static inline element square(element a) {
  uint64_t d0 = a.v[0] * 2, d1 = a.v[1] * 2;
  uint64_t a3x19 = a.v[3] * 19, a4x19 = a.v[4] * 19;
  wide c[5];
  c[0] = (wide)a.v[0] * a.v[0] + (wide)d1 * a4x19 + (wide)(a.v[2] * 2) * a3x19;
  c[1] = (wide)d0 * a.v[1] + (wide)(a.v[2] * 2) * a4x19 + (wide)a.v[3] * a3x19;
  c[2] = (wide)d0 * a.v[2] + (wide)a.v[1] * a.v[1] + (wide)(a.v[3] * 2) * a4x19;
  c[3] = (wide)d0 * a.v[3] + (wide)d1 * a.v[2] + (wide)a.v[4] * a4x19;
  c[4] = (wide)d0 * a.v[4] + (wide)d1 * a.v[3] + (wide)a.v[2] * a.v[2];
  return reduce(c);
}

static element square_times(element a, int n) {
  for (; n > 0; n--) {
    a = square(a);
  }
  return a;
}

/* a^(p - 2). The names give the exponent: e_n stands for 2^n - 1. */
static element invert(element a) {
  element a2 = square(a);
  element a9 = multiply(square_times(a2, 2), a);
  element a11 = multiply(a9, a2);
  element e_5 = multiply(square(a11), a9);
  element e_10 = multiply(square_times(e_5, 5), e_5);
  element e_20 = multiply(square_times(e_10, 10), e_10);
  element e_40 = multiply(square_times(e_20, 20), e_20);
  element e_50 = multiply(square_times(e_40, 10), e_10);
  element e_100 = multiply(square_times(e_50, 50), e_50);
  element e_200 = multiply(square_times(e_100, 100), e_100);
  element e_250 = multiply(square_times(e_200, 50), e_50);
  /* p - 2 = 2^255 - 21 = (2^250 - 1) * 2^5 + 11 */
  return multiply(square_times(e_250, 5), a11);
}

/* The unique representative below p, little-endian. */
static void element_store(uint8_t b[32], element e) {
  /* Twice, so that every limb is below 2^51 and the value below 2^255. */
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4; i++) {
      e.v[i + 1] += e.v[i] >> 51;
      e.v[i] &= MASK51;
    }
    e.v[0] += 19 * (e.v[4] >> 51);
    e.v[4] &= MASK51;
  }
  /* Adding 19 reaches 2^255 exactly when the value is at least p; then what is
   * left after dropping that bit is the value less p. */
  uint64_t carry = 19;
  for (int i = 0; i < 5; i++) {
    carry = (e.v[i] + carry) >> 51;
  }
  carry *= 19;
  for (int i = 0; i < 5; i++) {
    uint64_t t = e.v[i] + carry;
    e.v[i] = t & MASK51;
    carry = t >> 51;
  }
  uint64_t q[4] = {e.v[0] | (e.v[1] << 51), (e.v[1] >> 13) | (e.v[2] << 38),
                   (e.v[2] >> 26) | (e.v[3] << 25),
                   (e.v[3] >> 39) | (e.v[4] << 12)};
  for (int i = 0; i < 32; i++) {
    b[i] = (uint8_t)(q[i / 8] >> (8 * (i % 8)));
  }
}

void nm_field25519_montgomery_u(uint8_t u[32], const uint8_t point[32]) {
  element y = element_load(point);
  element above = y;
  element below;
  above.v[0] += 1;
  /* 1 - y, plus 2p so that no limb goes below zero. */
  below.v[0] = 2 * (MASK51 - 18) + 1 - y.v[0];
  for (int i = 1; i < 5; i++) {
    below.v[i] = 2 * MASK51 - y.v[i];
  }
  element_store(u, multiply(above, invert(below)));
}
