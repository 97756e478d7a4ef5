/* SHA-256 in sixteen lanes with AVX-512.
 */
#include "crypto/sha256_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define VEC __m512i
#define LANES 16
#define TARGET __attribute__((target("avx512f,avx512bw")))
#define ADD(x, y) _mm512_add_epi32(x, y)
#define SHR(x, n) _mm512_srli_epi32(x, n)
#define ROR(x, n) _mm512_ror_epi32(x, n)
#define XOR3(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0x96)
#define CH(e, f, g) _mm512_ternarylogic_epi32(e, f, g, 0xca)
#define MAJ(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xe8)
#define SET1(x) _mm512_set1_epi32((int)(x))
#define LOAD(p) _mm512_load_si512(p)
#define STORE(p, v) _mm512_store_si512(p, v)
#define IOTA                                                                   \
  _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define BELOW_MASK(v, bits) ((uint32_t)_mm512_cmple_epu32_mask(v, SET1(bits)))
#define LOAD_BLOCK(w, block, offset) load_block(w, block, offset)

/* Rows w[0..15] of one lane each become columns: word by word. */
TARGET static inline void transpose(__m512i w[16]) {
  __m512i t[16];
  /* Pairs of rows, then quads: each 128-bit part is a transposed 4 x 4. */
  for (size_t i = 0; i < 16; i += 4) {
    __m512i x0 = _mm512_unpacklo_epi32(w[i], w[i + 1]);
    __m512i x1 = _mm512_unpackhi_epi32(w[i], w[i + 1]);
    __m512i x2 = _mm512_unpacklo_epi32(w[i + 2], w[i + 3]);
    __m512i x3 = _mm512_unpackhi_epi32(w[i + 2], w[i + 3]);
    t[i] = _mm512_unpacklo_epi64(x0, x2);
    t[i + 1] = _mm512_unpackhi_epi64(x0, x2);
    t[i + 2] = _mm512_unpacklo_epi64(x1, x3);
    t[i + 3] = _mm512_unpackhi_epi64(x1, x3);
  }
  /* t[4r + c] holds words c, c+4, c+8, c+12 of the lanes 4r..4r+3. */
  for (size_t c = 0; c < 4; c++) {
    __m512i y0 = _mm512_shuffle_i32x4(t[c], t[c + 4], 0x88);
    __m512i y1 = _mm512_shuffle_i32x4(t[c], t[c + 4], 0xdd);
    __m512i y2 = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0x88);
    __m512i y3 = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0xdd);
    w[c] = _mm512_shuffle_i32x4(y0, y2, 0x88);
    w[c + 8] = _mm512_shuffle_i32x4(y0, y2, 0xdd);
    w[c + 4] = _mm512_shuffle_i32x4(y1, y3, 0x88);
    w[c + 12] = _mm512_shuffle_i32x4(y1, y3, 0xdd);
  }
}

TARGET static inline void load_block(__m512i w[16], const uint8_t *const *block,
                                     size_t offset) {
  const __m512i swap = _mm512_broadcast_i32x4(
      _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  for (size_t i = 0; i < 16; i++) {
    w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(block[i] + offset), swap);
  }
  transpose(w);
}

#include "crypto/sha256_wide.h"

const nm_sha256_lanes nm_sha256_lanes_avx512 = {"avx512", LANES, wide_words,
                                                wide_bytes, wide_scan};

#else
typedef int nm_sha256_avx512_absent;
#endif
