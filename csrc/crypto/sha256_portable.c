/* SHA-256 in plain C: the reference for every other kernel, the constants, and
 * the part of a scan that is the same for all candidates.
 */
#include "crypto/sha256_kernels.h"

const uint32_t nm_sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

const uint32_t nm_sha256_iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                  0xa54ff53a, 0x510e527f, 0x9b05688c,
                                  0x1f83d9ab, 0x5be0cd19};

static inline uint32_t rotate(uint32_t x, int n) {
  return (x >> n) | (x << (32 - n));
}

static inline uint32_t big_endian(const uint8_t *p) {
  return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) |
         ((uint32_t)p[2] << 8) | p[3];
}

static inline void load_block(uint32_t w[16], const uint8_t *block) {
  for (size_t i = 0; i < 16; i++) {
    w[i] = big_endian(block + 4 * i);
  }
}

#define VEC uint32_t
#define LANES 1
#define TARGET
#define ADD(x, y) ((x) + (y))
#define SHR(x, n) ((x) >> (n))
#define ROR(x, n) rotate(x, n)
#define XOR3(x, y, z) ((x) ^ (y) ^ (z))
#define CH(e, f, g) ((g) ^ ((e) & ((f) ^ (g))))
#define MAJ(a, b, c) (((a) & (b)) | ((c) & ((a) | (b))))
#define SET1(x) (x)
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define IOTA 0u
#define BELOW_MASK(v, bits) ((v) <= (bits) ? 1u : 0u)
#define LOAD_BLOCK(w, block, offset) load_block(w, (block)[0] + (offset))
#include "crypto/sha256_wide.h"

const nm_sha256_lanes nm_sha256_lanes_portable = {"portable", LANES, wide_words,
                                                  wide_bytes, wide_scan};

/* w[t] varies with words[7] for t = 7 and from 22 on. */
static bool is_fixed(size_t t) {
  return t != 7 && t < 22;
}

void nm_scan_plan_make(nm_scan_plan *plan, const nm_sha256_scan *scan) {
  uint32_t w[22];
  for (size_t t = 0; t < 16; t++) {
    w[t] = t == 7 ? 0 : scan->words[t];
  }
  for (size_t t = 16; t < 38; t++) {
    uint32_t sum = 0;
    sum += is_fixed(t - 2) ? SMALL1(w[t - 2]) : 0;
    sum += is_fixed(t - 7) ? w[t - 7] : 0;
    sum += is_fixed(t - 15) ? SMALL0(w[t - 15]) : 0;
    sum += is_fixed(t - 16) ? w[t - 16] : 0;
    plan->part[t] = sum;
    if (t < 22) {
      w[t] = sum;
    }
  }
  for (size_t t = 8; t < 22; t++) {
    plan->kw[t] = nm_sha256_k[t] + w[t];
  }
  const uint32_t *s = scan->h;
  uint32_t a = s[0], b = s[1], c = s[2], d = s[3];
  uint32_t e = s[4], f = s[5], g = s[6], h = s[7];
  EIGHT_ROUNDS(GIVEN, 0);
  const uint32_t after[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; i++) {
    plan->s[i] = after[i];
  }
  plan->base = scan->h[0];
  plan->limit = scan->limit;
}
