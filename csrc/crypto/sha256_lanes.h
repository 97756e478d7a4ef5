/* SHA-256 of many messages at once: the primitive we write ourselves.
 *
 * A backend runs the compression function on `lanes` independent states. The
 * fastest one for this CPU is chosen at run time; tests and reports can list
 * them and use each by name. All give the same results.
 */
#ifndef NM_CRYPTO_SHA256_LANES_H
#define NM_CRYPTO_SHA256_LANES_H

#include "crypto/cpu.h"
#include "crypto/hash.h"

#define NM_SHA256_LANES_MAX 16
/* Longest suffix of nm_sha256_many_suffix. */
#define NM_SHA256_SUFFIX_MAX 64

/* A search over the last word but nothing else of one block: the block is
 * `words` with words[7] replaced by first, first + 1, ... */
typedef struct nm_sha256_scan {
  uint32_t h[8];      /* state before the block */
  uint32_t words[16]; /* the block, as big-endian words */
  uint32_t limit;     /* a digest whose first word is <= limit is a hit */
} nm_sha256_scan;

typedef struct nm_sha256_lanes {
  const char *name; /* "portable", "openssl", "sha_ni", "avx2", "avx512" */
  size_t lanes;
  /* One block per lane. State and words are stored word by word: h[8][lanes],
   * w[16][lanes], in host order; w is not kept. 64-byte aligned. */
  void (*words)(uint32_t *h, uint32_t *w);
  /* |count| blocks of each lane, the bytes of lane i at block[i]. */
  void (*bytes)(uint32_t *h, const uint8_t *const *block, size_t count);
  /* Tries |count| values of words[7] from |first| on (the sum does not
   * overflow). Returns the offset of the first hit, or |count|. */
  uint32_t (*scan)(const nm_sha256_scan *scan, uint32_t first, uint32_t count);
} nm_sha256_lanes;

/* The |index|-th backend that |cpu| can run, slowest first; NULL after the
 * last. |cpu| NULL means this CPU; claiming features it lacks is undefined. */
const nm_sha256_lanes *nm_sha256_lanes_at(const nm_cpu_features *cpu,
                                          size_t index);
/* By name, NULL when it is unknown or this CPU cannot run it. */
const nm_sha256_lanes *nm_sha256_lanes_named(const char *name);
/* The one that is used by default. */
const nm_sha256_lanes *nm_sha256_lanes_best(void);

/* out[i] = H(in[i]) for |n| messages of any lengths. */
void nm_sha256_many(uint8_t (*out)[NM_HASH_SIZE], const nm_span *in, size_t n);
/* out[i] = H(in[i] | suffix), as resource map hashes need (RNS 2, 3.2).
 * NM_E(ARGUMENT) when |suffix| is longer than NM_SHA256_SUFFIX_MAX. */
int nm_sha256_many_suffix(uint8_t (*out)[NM_HASH_SIZE], const nm_span *in,
                          size_t n, nm_span suffix);
/* The same on a chosen backend. */
int nm_sha256_many_with(const nm_sha256_lanes *lanes,
                        uint8_t (*out)[NM_HASH_SIZE], const nm_span *in,
                        size_t n, nm_span suffix);

#endif
