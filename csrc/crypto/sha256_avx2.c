/* SHA-256 in eight lanes with AVX2.
 */
#include "crypto/sha256_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define VEC __m256i
#define LANES 8
#define TARGET __attribute__((target("avx2")))
#define ADD(x, y) _mm256_add_epi32(x, y)
#define SHR(x, n) _mm256_srli_epi32(x, n)
#define ROR(x, n)                                                              \
  _mm256_or_si256(_mm256_srli_epi32(x, n), _mm256_slli_epi32(x, 32 - (n)))
#define XOR3(x, y, z) _mm256_xor_si256(_mm256_xor_si256(x, y), z)
#define CH(e, f, g)                                                            \
  _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)))
#define MAJ(a, b, c)                                                           \
  _mm256_or_si256(_mm256_and_si256(a, b),                                      \
                  _mm256_and_si256(c, _mm256_or_si256(a, b)))
#define SET1(x) _mm256_set1_epi32((int)(x))
#define LOAD(p) _mm256_load_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_store_si256((__m256i *)(p), v)
#define IOTA _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define BELOW_MASK(v, bits) below_mask(v, SET1(bits))
#define LOAD_BLOCK(w, block, offset)                                           \
  do {                                                                         \
    load_half(w, block, offset);                                               \
    load_half((w) + 8, block, (offset) + 32);                                  \
  } while (0)

TARGET static inline uint32_t below_mask(__m256i v, __m256i limit) {
  __m256i below = _mm256_cmpeq_epi32(_mm256_min_epu32(v, limit), v);
  return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below));
}

/* Eight words of each of the eight lanes, transposed. */
TARGET static inline void load_half(__m256i w[8], const uint8_t *const *block,
                                    size_t offset) {
  const __m256i swap = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  __m256i t[8];
  for (size_t i = 0; i < 8; i++) {
    w[i] = _mm256_shuffle_epi8(
        _mm256_loadu_si256((const __m256i *)(const void *)(block[i] + offset)),
        swap);
  }
  for (size_t i = 0; i < 8; i += 4) {
    __m256i x0 = _mm256_unpacklo_epi32(w[i], w[i + 1]);
    __m256i x1 = _mm256_unpackhi_epi32(w[i], w[i + 1]);
    __m256i x2 = _mm256_unpacklo_epi32(w[i + 2], w[i + 3]);
    __m256i x3 = _mm256_unpackhi_epi32(w[i + 2], w[i + 3]);
    t[i] = _mm256_unpacklo_epi64(x0, x2);
    t[i + 1] = _mm256_unpackhi_epi64(x0, x2);
    t[i + 2] = _mm256_unpacklo_epi64(x1, x3);
    t[i + 3] = _mm256_unpackhi_epi64(x1, x3);
  }
  for (size_t c = 0; c < 4; c++) {
    w[c] = _mm256_permute2x128_si256(t[c], t[c + 4], 0x20);
    w[c + 4] = _mm256_permute2x128_si256(t[c], t[c + 4], 0x31);
  }
}

#include "crypto/sha256_wide.h"

const nm_sha256_lanes nm_sha256_lanes_avx2 = {"avx2", LANES, wide_words,
                                              wide_bytes, wide_scan};

#else
typedef int nm_sha256_avx2_absent;
#endif
