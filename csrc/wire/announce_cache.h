/* A bounded memory of announces found valid, so that the same bytes arriving
 * again, from another neighbour or in another buffer, cost one hash.
 *
 * The key is the full 32-byte packet hash (destination, context and all data;
 * neither hops, header type nor access code) and the context flag, which the
 * packet hash leaves out (RNS 1, 5.5). Only positive results of the full check
 * are kept. A hit never skips the comparison with an expected key, nor what
 * the caller checks besides (blackholes).
 *
 * Buckets of NM_ANNOUNCE_WAYS entries, each evicting by clock; the bucket is
 * chosen by a keyed hash, so that peers cannot aim at one. A cache belongs to
 * one thread at a time.
 */
#ifndef NM_WIRE_ANNOUNCE_CACHE_H
#define NM_WIRE_ANNOUNCE_CACHE_H

#include "wire/announce.h"

#define NM_ANNOUNCE_WAYS 8

typedef struct nm_announce_bucket {
  uint8_t key[NM_ANNOUNCE_WAYS][NM_HASH_SIZE];
  uint8_t used;   /* bit per entry */
  uint8_t flag;   /* bit per entry: its context flag */
  uint8_t recent; /* bit per entry: hit since the hand passed */
  uint8_t hand;
} nm_announce_bucket;

typedef struct nm_announce_cache {
  nm_announce_bucket *buckets;
  size_t bucket_count; /* a power of two */
  uint8_t hash_key[16];
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
  size_t count; /* entries in use */
} nm_announce_cache;

/* The number of buckets for about |entries| entries: a power of two, at least
 * one. */
size_t nm_announce_cache_buckets(size_t entries);

/* Starts an empty cache on |buckets| (|bucket_count| of them, a power of two;
 * the caller's storage). |key|: 16 bytes of the caller's entropy.
 * NM_E(ARGUMENT). */
int nm_announce_cache_init(nm_announce_cache *cache,
                           nm_announce_bucket *buckets, size_t bucket_count,
                           const uint8_t key[16]);

/* Forgets all entries; counters stay. */
void nm_announce_cache_clear(nm_announce_cache *cache);

/* Whether the announce with this packet hash was found valid; counts. */
bool nm_announce_cache_find(nm_announce_cache *cache,
                            const nm_packet_hash *hash, bool context_flag);
/* Remembers it; call only after a full check. */
void nm_announce_cache_add(nm_announce_cache *cache, const nm_packet_hash *hash,
                           bool context_flag);

/* nm_announce_validate in full through |cache|. |hash| is the packet hash if it
 * is known already, else NULL. */
nm_announce_verdict nm_announce_cache_validate(nm_announce_cache *cache,
                                               const nm_announce *announce,
                                               const nm_packet_hash *hash,
                                               const uint8_t *expected_public);

#endif
