/* Proof of work of LXMF and of interface discovery: work block, validity,
 * search (LXMF 6; RNS 1, 9.2).
 *
 * A work block is hashed once; every try then costs one block of SHA-256 from
 * the saved state, in as many lanes as the CPU has.
 */
#ifndef NM_CRYPTO_STAMP_H
#define NM_CRYPTO_STAMP_H

#include "crypto/sha256_lanes.h"

#include <stdatomic.h>

#define NM_STAMP_SIZE 32
#define NM_WORKBLOCK_ROUND 256 /* bytes per round */
#define NM_STAMP_COST_MAX 256

/* Rounds [first, first + count) of the work block of |material| (any length):
 * 256 * count bytes to |out|. The sum must not overflow. */
void nm_workblock_part(uint8_t *out, nm_span material, uint32_t first,
                       uint32_t count);
/* All of it: 256 * rounds bytes. */
void nm_workblock_build(uint8_t *out, nm_span material, uint32_t rounds);
/* The hash state after the work block, which is not kept. */
void nm_workblock_midstate(nm_sha256_midstate *mid, nm_span material,
                           uint32_t rounds);
/* As the two above on a chosen backend; for tests and reports. */
void nm_workblock_part_with(const nm_sha256_lanes *lanes, uint8_t *out,
                            nm_span material, uint32_t first, uint32_t count);

/* H(workblock | stamp); |stamp| of any length. */
void nm_stamp_digest(uint8_t out[NM_HASH_SIZE], const nm_sha256_midstate *mid,
                     nm_span stamp);
/* Leading zero bits of a digest, 0..256. */
uint32_t nm_stamp_digest_value(const uint8_t digest[NM_HASH_SIZE]);
/* Whether a digest is <= 2^(256 - cost): cost 0 accepts everything, a cost
 * above 256 nothing. */
bool nm_stamp_digest_meets(const uint8_t digest[NM_HASH_SIZE], uint32_t cost);
/* The same from the stamp. */
uint32_t nm_stamp_value(const nm_sha256_midstate *mid, nm_span stamp);
bool nm_stamp_valid(const nm_sha256_midstate *mid, nm_span stamp,
                    uint32_t cost);

/* One worker's share of a search. Candidates are prefix | counter (big-endian),
 * counter by counter. Workers of one search take different prefixes (random
 * ones do), or disjoint counters. */
typedef struct nm_stamp_search_args {
  const nm_sha256_midstate *mid; /* after the work block */
  uint32_t cost;                 /* 0..NM_STAMP_COST_MAX */
  uint8_t prefix[24];
  uint64_t counter;   /* in: first to try; out: the next one */
  uint64_t tries_max; /* bound of this call */
  /* Read about every millisecond; may be NULL. */
  const atomic_bool *cancel;
  /* Added to about every millisecond; may be NULL; may be shared. */
  atomic_uint_fast64_t *tries;
  const nm_sha256_lanes *lanes; /* NULL: the best */
  uint8_t stamp[NM_STAMP_SIZE]; /* out: when found */
} nm_stamp_search_args;

/* 1 when a stamp of at least |cost| was found, 0 when tries_max candidates
 * failed (call again to go on), NM_E(CANCELLED), NM_E(RANGE) for a cost above
 * 256. */
int nm_stamp_search(nm_stamp_search_args *args);

#endif
