/* Digests and the search. The work block is in workblock.c.
 */
#include "crypto/stamp.h"

#include "base/cursor.h"

#include <string.h>

void nm_stamp_digest(uint8_t out[NM_HASH_SIZE], const nm_sha256_midstate *mid,
                     nm_span stamp) {
  nm_sha256_ctx ctx;
  nm_sha256_resume(&ctx, mid);
  nm_sha256_update(&ctx, stamp);
  nm_sha256_final(&ctx, out);
}

uint32_t nm_stamp_digest_value(const uint8_t digest[NM_HASH_SIZE]) {
  uint32_t bits = 0;
  for (size_t i = 0; i < NM_HASH_SIZE; i++) {
    if (digest[i] != 0) {
      /* The builtin counts in an unsigned of 32 bits. */
      return bits + (uint32_t)__builtin_clz(digest[i]) - 24;
    }
    bits += 8;
  }
  return bits;
}

bool nm_stamp_digest_meets(const uint8_t digest[NM_HASH_SIZE], uint32_t cost) {
  if (cost == 0) {
    return true;
  }
  if (cost > NM_STAMP_COST_MAX) {
    return false;
  }
  uint32_t value = nm_stamp_digest_value(digest);
  if (value >= cost) {
    return true;
  }
  if (value + 1 < cost) {
    return false;
  }
  /* One bit short: only 2^(256 - cost) itself, a single bit that is set. */
  size_t byte = value / 8;
  if (digest[byte] != 0x80u >> (value % 8)) {
    return false;
  }
  for (size_t i = byte + 1; i < NM_HASH_SIZE; i++) {
    if (digest[i] != 0) {
      return false;
    }
  }
  return true;
}

uint32_t nm_stamp_value(const nm_sha256_midstate *mid, nm_span stamp) {
  uint8_t digest[NM_HASH_SIZE];
  nm_stamp_digest(digest, mid, stamp);
  return nm_stamp_digest_value(digest);
}

bool nm_stamp_valid(const nm_sha256_midstate *mid, nm_span stamp,
                    uint32_t cost) {
  uint8_t digest[NM_HASH_SIZE];
  nm_stamp_digest(digest, mid, stamp);
  return nm_stamp_digest_meets(digest, cost);
}

/* Tries between two looks at the cancel flag: a millisecond at 15 million a
 * second, four with the slowest kernel. */
#define SLICE_TRIES 16384u

static uint32_t load_be32(const uint8_t *p) {
  return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) |
         ((uint32_t)p[2] << 8) | p[3];
}

static void make_stamp(uint8_t stamp[NM_STAMP_SIZE], const uint8_t prefix[24],
                       uint64_t counter) {
  nm_writer w = nm_writer_of(stamp, NM_STAMP_SIZE);
  nm_writer_put(&w, prefix, 24);
  nm_writer_u64(&w, counter);
}

/* The largest first word of a digest that may meet |cost|. */
static uint32_t first_word_limit(uint32_t cost) {
  return cost == 0 ? UINT32_MAX : cost > 32 ? 0 : (uint32_t)1 << (32 - cost);
}

/* The final block of every candidate: stamp, 0x80, zeros, length in bits. */
static nm_sha256_scan scan_of(const nm_stamp_search_args *args) {
  nm_sha256_scan scan;
  uint64_t bits = (args->mid->bytes + NM_STAMP_SIZE) * 8;
  memset(&scan, 0, sizeof scan);
  memcpy(scan.h, args->mid->h, sizeof scan.h);
  for (size_t i = 0; i < 6; i++) {
    scan.words[i] = load_be32(args->prefix + 4 * i);
  }
  scan.words[8] = 0x80000000u;
  scan.words[14] = (uint32_t)(bits >> 32);
  scan.words[15] = (uint32_t)bits;
  scan.limit = first_word_limit(args->cost);
  return scan;
}

static void count_tries(const nm_stamp_search_args *args, uint32_t tries) {
  if (args->tries != NULL) {
    atomic_fetch_add_explicit(args->tries, tries, memory_order_relaxed);
  }
}

int nm_stamp_search(nm_stamp_search_args *args) {
  if (args->cost > NM_STAMP_COST_MAX) {
    return NM_E(RANGE);
  }
  const nm_sha256_lanes *l =
      args->lanes != NULL ? args->lanes : nm_sha256_lanes_best();
  nm_sha256_scan scan = scan_of(args);
  for (uint64_t left = args->tries_max; left > 0;) {
    if (args->cancel != NULL &&
        atomic_load_explicit(args->cancel, memory_order_relaxed)) {
      return NM_E(CANCELLED);
    }
    uint32_t low = (uint32_t)args->counter;
    uint32_t slice = left < SLICE_TRIES ? (uint32_t)left : SLICE_TRIES;
    if (slice - 1 > UINT32_MAX - low) {
      slice = UINT32_MAX - low + 1;
    }
    scan.words[6] = (uint32_t)(args->counter >> 32);
    uint32_t hit = l->scan(&scan, low, slice);
    uint32_t tried = hit < slice ? hit + 1 : slice;
    uint64_t candidate = args->counter + hit;
    args->counter += tried;
    left -= tried;
    count_tries(args, tried);
    if (hit < slice) {
      /* The first word admits it; the whole digest decides. */
      nm_span stamp = nm_span_of(args->stamp, NM_STAMP_SIZE);
      make_stamp(args->stamp, args->prefix, candidate);
      if (nm_stamp_valid(args->mid, stamp, args->cost)) {
        return 1;
      }
    }
  }
  return 0;
}
