/* The compression functions by instruction set. Private to this room: everyone
 * else calls crypto/hash.h or crypto/sha256_lanes.h, which choose.
 */
#ifndef NM_CRYPTO_SHA256_KERNELS_H
#define NM_CRYPTO_SHA256_KERNELS_H

#include "crypto/sha256_lanes.h"

/* Round constants and initial state (FIPS 180-4, 4.2.2 and 5.3.3). */
extern const uint32_t nm_sha256_k[64];
extern const uint32_t nm_sha256_iv[8];

extern const nm_sha256_lanes nm_sha256_lanes_portable;
extern const nm_sha256_lanes nm_sha256_lanes_openssl;
#if defined(__x86_64__)
extern const nm_sha256_lanes nm_sha256_lanes_avx2;
extern const nm_sha256_lanes nm_sha256_lanes_shani;
extern const nm_sha256_lanes nm_sha256_lanes_avx512;

/* One stream; needs nm_cpu_features.sha_ni. */
void nm_sha256_compress_shani(uint32_t h[8], const uint8_t *blocks,
                              size_t count);
/* Two streams of |count| blocks each, interleaved. */
void nm_sha256_compress_two_shani(uint32_t g[8], const uint8_t *first,
                                  uint32_t h[8], const uint8_t *second,
                                  size_t count);
#endif
void nm_sha256_compress_openssl(uint32_t h[8], const uint8_t *blocks,
                                size_t count);

/* What all candidates of a scan share, computed once. Only words[7] varies, so
 * the first seven rounds, the schedule up to w[21] and parts of w[22..37] are
 * the same for all. */
typedef struct nm_scan_plan {
  uint32_t s[8];   /* a..h after rounds 0..7 with words[7] = 0; the candidate's
                      words[7] is then to be added to a and e */
  uint32_t kw[22]; /* 8..21: k[t] + w[t] */
  uint32_t part[38]; /* 16..21: w[t]; 22..37: the sum of its constant terms */
  uint32_t base;     /* the digest's first word is base + a */
  uint32_t limit;
} nm_scan_plan;

void nm_scan_plan_make(nm_scan_plan *plan, const nm_sha256_scan *scan);

#endif
