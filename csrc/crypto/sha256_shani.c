/* SHA-256 with the SHA extensions: one stream, and two interleaved, because the
 * round instruction takes four cycles but can start every two.
 */
#include "crypto/sha256_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("sha,ssse3,sse4.1")))
#define INLINE __attribute__((always_inline)) static inline
#define LANES 4

/* The state as the instructions want it: from the top element down, a b e f and
 * c d g h. */
typedef struct stream {
  __m128i abef;
  __m128i cdgh;
} stream;

TARGET INLINE __m128i load4(const void *p) {
  return _mm_loadu_si128((const __m128i *)p);
}

TARGET INLINE stream stream_of(const uint32_t h[8]) {
  __m128i dcba = _mm_shuffle_epi32(load4(h), 0xb1);     /* c d a b */
  __m128i hgfe = _mm_shuffle_epi32(load4(h + 4), 0x1b); /* e f g h */
  stream s = {_mm_alignr_epi8(dcba, hgfe, 8),
              _mm_blend_epi16(hgfe, dcba, 0xf0)};
  return s;
}

TARGET INLINE void stream_store(stream s, uint32_t h[8]) {
  __m128i feba = _mm_shuffle_epi32(s.abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32(s.cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(dchg, feba, 8));
}

TARGET INLINE stream stream_add(stream a, stream b) {
  stream s = {_mm_add_epi32(a.abef, b.abef), _mm_add_epi32(a.cdgh, b.cdgh)};
  return s;
}

/* Four rounds with the words |w| of group |group|. */
TARGET INLINE stream four_rounds(stream s, __m128i w, int group) {
  __m128i kw = _mm_add_epi32(w, load4(nm_sha256_k + 4 * group));
  s.cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, kw);
  s.abef = _mm_sha256rnds2_epu32(s.abef, s.cdgh, _mm_shuffle_epi32(kw, 0x0e));
  return s;
}

/* The next four words from the last sixteen, oldest first. */
TARGET INLINE __m128i next_words(__m128i w0, __m128i w1, __m128i w2,
                                 __m128i w3) {
  __m128i sum =
      _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  return _mm_sha256msg2_epu32(sum, w3);
}

/* GROUP(g) runs four rounds of every stream with words that are there,
 * NEXT_GROUP(g) computes them first. */
#define ALL_GROUPS                                                             \
  do {                                                                         \
    GROUP(0);                                                                  \
    GROUP(1);                                                                  \
    GROUP(2);                                                                  \
    GROUP(3);                                                                  \
    LATE_GROUPS;                                                               \
  } while (0)
#define LATE_GROUPS                                                            \
  do {                                                                         \
    NEXT_GROUP(4);                                                             \
    NEXT_GROUP(5);                                                             \
    NEXT_GROUP(6);                                                             \
    NEXT_GROUP(7);                                                             \
    NEXT_GROUP(8);                                                             \
    NEXT_GROUP(9);                                                             \
    NEXT_GROUP(10);                                                            \
    NEXT_GROUP(11);                                                            \
    NEXT_GROUP(12);                                                            \
    NEXT_GROUP(13);                                                            \
    NEXT_GROUP(14);                                                            \
    NEXT_GROUP(15);                                                            \
  } while (0)

#define STEP(s, w, g) s = four_rounds(s, w[(g)&3], g)
#define NEXT_STEP(s, w, g)                                                     \
  do {                                                                         \
    w[(g)&3] = next_words(w[(g)&3], w[((g) + 1) & 3], w[((g) + 2) & 3],        \
                          w[((g) + 3) & 3]);                                   \
    s = four_rounds(s, w[(g)&3], g);                                           \
  } while (0)

TARGET INLINE stream one_block(stream in, __m128i w[4]) {
  stream s = in;
#define GROUP(g) STEP(s, w, g)
#define NEXT_GROUP(g) NEXT_STEP(s, w, g)
  ALL_GROUPS;
#undef GROUP
#undef NEXT_GROUP
  return stream_add(s, in);
}

TARGET INLINE void two_blocks(stream s[2], __m128i v[4], __m128i w[4]) {
  stream x = s[0];
  stream y = s[1];
#define GROUP(g)                                                               \
  STEP(x, v, g);                                                               \
  STEP(y, w, g)
#define NEXT_GROUP(g)                                                          \
  NEXT_STEP(x, v, g);                                                          \
  NEXT_STEP(y, w, g)
  ALL_GROUPS;
#undef GROUP
#undef NEXT_GROUP
  s[0] = stream_add(s[0], x);
  s[1] = stream_add(s[1], y);
}

TARGET INLINE void load_block(__m128i w[4], const uint8_t *block) {
  const __m128i swap =
      _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  for (size_t i = 0; i < 4; i++) {
    w[i] = _mm_shuffle_epi8(load4(block + 16 * i), swap);
  }
}

TARGET void nm_sha256_compress_shani(uint32_t h[8], const uint8_t *blocks,
                                     size_t count) {
  stream s = stream_of(h);
  for (size_t n = 0; n < count; n++) {
    __m128i w[4];
    load_block(w, blocks + n * NM_SHA256_BLOCK);
    s = one_block(s, w);
  }
  stream_store(s, h);
}

TARGET void nm_sha256_compress_two_shani(uint32_t g[8], const uint8_t *first,
                                         uint32_t h[8], const uint8_t *second,
                                         size_t count) {
  stream s[2] = {stream_of(g), stream_of(h)};
  for (size_t n = 0; n < count; n++) {
    __m128i v[4];
    __m128i w[4];
    load_block(v, first + n * NM_SHA256_BLOCK);
    load_block(w, second + n * NM_SHA256_BLOCK);
    two_blocks(s, v, w);
  }
  stream_store(s[0], g);
  stream_store(s[1], h);
}

/* A 4 x 4 matrix of words: rows become columns. */
TARGET INLINE void transpose(__m128i m[4]) {
  __m128i x0 = _mm_unpacklo_epi32(m[0], m[1]);
  __m128i x1 = _mm_unpackhi_epi32(m[0], m[1]);
  __m128i x2 = _mm_unpacklo_epi32(m[2], m[3]);
  __m128i x3 = _mm_unpackhi_epi32(m[2], m[3]);
  m[0] = _mm_unpacklo_epi64(x0, x2);
  m[1] = _mm_unpackhi_epi64(x0, x2);
  m[2] = _mm_unpacklo_epi64(x1, x3);
  m[3] = _mm_unpackhi_epi64(x1, x3);
}

/* States of the four lanes, gathered from their words and put back. */
TARGET INLINE void gather_states(stream s[4], const uint32_t *h) {
  __m128i low[4];
  __m128i high[4];
  for (size_t i = 0; i < 4; i++) {
    low[i] = load4(h + i * LANES);
    high[i] = load4(h + (4 + i) * LANES);
  }
  transpose(low);
  transpose(high);
  for (size_t i = 0; i < 4; i++) {
    uint32_t one[8];
    _mm_storeu_si128((__m128i *)(void *)one, low[i]);
    _mm_storeu_si128((__m128i *)(void *)(one + 4), high[i]);
    s[i] = stream_of(one);
  }
}

TARGET INLINE void scatter_states(const stream s[4], uint32_t *h) {
  __m128i low[4];
  __m128i high[4];
  for (size_t i = 0; i < 4; i++) {
    uint32_t one[8];
    stream_store(s[i], one);
    low[i] = load4(one);
    high[i] = load4(one + 4);
  }
  transpose(low);
  transpose(high);
  for (size_t i = 0; i < 4; i++) {
    _mm_storeu_si128((__m128i *)(void *)(h + i * LANES), low[i]);
    _mm_storeu_si128((__m128i *)(void *)(h + (4 + i) * LANES), high[i]);
  }
}

TARGET static void shani_words(uint32_t *h, uint32_t *words) {
  stream s[4];
  __m128i w[4][4]; /* by lane */
  gather_states(s, h);
  for (size_t i = 0; i < 4; i++) {
    __m128i m[4];
    for (size_t j = 0; j < 4; j++) {
      m[j] = load4(words + (4 * i + j) * LANES);
    }
    transpose(m);
    for (size_t j = 0; j < 4; j++) {
      w[j][i] = m[j];
    }
  }
  two_blocks(s, w[0], w[1]);
  two_blocks(s + 2, w[2], w[3]);
  scatter_states(s, h);
}

TARGET static void shani_bytes(uint32_t *h, const uint8_t *const *block,
                               size_t count) {
  stream s[4];
  gather_states(s, h);
  for (size_t pair = 0; pair < 4; pair += 2) {
    for (size_t n = 0; n < count; n++) {
      __m128i v[4];
      __m128i w[4];
      load_block(v, block[pair] + n * NM_SHA256_BLOCK);
      load_block(w, block[pair + 1] + n * NM_SHA256_BLOCK);
      two_blocks(s + pair, v, w);
    }
  }
  scatter_states(s, h);
}

/* The digest's first word, less scan->h[0], for words[7] = |first| and the
 * value after it. |start| is the state after the first four rounds, |w0| holds
 * words 0..15 and |w4| words 16..19, none of which depends on words[7]. */
TARGET INLINE void scan_pair(stream start, const __m128i w0[4], __m128i w4,
                             uint32_t first, uint32_t out[2]) {
  stream x = start;
  stream y = start;
  __m128i v[4] = {w4, _mm_insert_epi32(w0[1], (int)first, 3), w0[2], w0[3]};
  __m128i w[4] = {w4, _mm_insert_epi32(w0[1], (int)(first + 1), 3), w0[2],
                  w0[3]};
#define GROUP(g)                                                               \
  STEP(x, v, g);                                                               \
  STEP(y, w, g)
#define NEXT_GROUP(g)                                                          \
  NEXT_STEP(x, v, g);                                                          \
  NEXT_STEP(y, w, g)
  GROUP(1);
  GROUP(2);
  GROUP(3);
  GROUP(4);
  /* From words 20..23 on the ring holds what the recurrence needs. */
  NEXT_GROUP(5);
  NEXT_GROUP(6);
  NEXT_GROUP(7);
  NEXT_GROUP(8);
  NEXT_GROUP(9);
  NEXT_GROUP(10);
  NEXT_GROUP(11);
  NEXT_GROUP(12);
  NEXT_GROUP(13);
  NEXT_GROUP(14);
  NEXT_GROUP(15);
#undef GROUP
#undef NEXT_GROUP
  out[0] = (uint32_t)_mm_extract_epi32(x.abef, 3);
  out[1] = (uint32_t)_mm_extract_epi32(y.abef, 3);
}

TARGET static uint32_t shani_scan(const nm_sha256_scan *scan, uint32_t first,
                                  uint32_t count) {
  __m128i w[4];
  for (size_t i = 0; i < 4; i++) {
    w[i] = load4(scan->words + 4 * i);
  }
  stream start = four_rounds(stream_of(scan->h), w[0], 0);
  /* w[16..19] need w[0..4], w[9..12] and w[14..15] but not w[7]. */
  __m128i w4 = next_words(w[0], w[1], w[2], w[3]);
  for (uint32_t done = 0; done < count; done += 2) {
    uint32_t a[2];
    scan_pair(start, w, w4, first + done, a);
    if (a[0] + scan->h[0] <= scan->limit) {
      return done;
    }
    if (count - done == 1) {
      break;
    }
    if (a[1] + scan->h[0] <= scan->limit) {
      return done + 1;
    }
    if (count - done == 2) {
      break;
    }
  }
  return count;
}

const nm_sha256_lanes nm_sha256_lanes_shani = {"sha_ni", LANES, shani_words,
                                               shani_bytes, shani_scan};

#else
typedef int nm_sha256_shani_absent;
#endif
