#include "wire/announce_cache.h"

#include <sodium.h>

#define ALL_WAYS 0xffu

size_t nm_announce_cache_buckets(size_t entries) {
  size_t n = 1;
  while (n * NM_ANNOUNCE_WAYS < entries &&
         n <= SIZE_MAX / 2 / sizeof(nm_announce_bucket)) {
    n *= 2;
  }
  return n;
}

int nm_announce_cache_init(nm_announce_cache *cache,
                           nm_announce_bucket *buckets, size_t bucket_count,
                           const uint8_t key[16]) {
  if (bucket_count == 0 || (bucket_count & (bucket_count - 1)) != 0) {
    return NM_E(ARGUMENT);
  }
  *cache =
      (nm_announce_cache){.buckets = buckets, .bucket_count = bucket_count};
  memcpy(cache->hash_key, key, sizeof cache->hash_key);
  nm_announce_cache_clear(cache);
  return NM_OK;
}

void nm_announce_cache_clear(nm_announce_cache *cache) {
  for (size_t i = 0; i < cache->bucket_count; i++) {
    cache->buckets[i] = (nm_announce_bucket){.used = 0};
  }
  cache->count = 0;
}

/* Keyed over the first half of the packet hash: enough of a hash that is
 * uniform already, and its collisions cannot be looked for. */
static uint64_t keyed_hash(const nm_announce_cache *cache,
                           const nm_packet_hash *hash) {
  uint64_t h;
  crypto_shorthash((uint8_t *)&h, hash->b, 16, cache->hash_key);
  return h;
}

static nm_announce_bucket *bucket_of(const nm_announce_cache *cache,
                                     const nm_packet_hash *hash) {
  size_t index = (size_t)keyed_hash(cache, hash) & (cache->bucket_count - 1);
  return &cache->buckets[index];
}

/* The way of |b| that holds the announce, or NM_ANNOUNCE_WAYS. */
static unsigned way_of(const nm_announce_bucket *b, const nm_packet_hash *hash,
                       bool context_flag) {
  nm_span wanted = nm_span_of(hash->b, NM_HASH_SIZE);
  for (unsigned i = 0; i < NM_ANNOUNCE_WAYS; i++) {
    bool used = (b->used >> i) & 1;
    bool flag = (b->flag >> i) & 1;
    if (used && flag == context_flag &&
        nm_span_equal(wanted, nm_span_of(b->key[i], NM_HASH_SIZE))) {
      return i;
    }
  }
  return NM_ANNOUNCE_WAYS;
}

static void set_bit(uint8_t *bits, unsigned i, bool on) {
  uint8_t mask = (uint8_t)(1u << i);
  *bits = (uint8_t)((*bits & ~mask) | (on ? mask : 0));
}

bool nm_announce_cache_find(nm_announce_cache *cache,
                            const nm_packet_hash *hash, bool context_flag) {
  nm_announce_bucket *b = bucket_of(cache, hash);
  unsigned way = way_of(b, hash, context_flag);
  if (way == NM_ANNOUNCE_WAYS) {
    cache->misses++;
    return false;
  }
  set_bit(&b->recent, way, true);
  cache->hits++;
  return true;
}

/* The way to use for a new entry: a free one, else the first that the hand
 * finds not hit since it last passed. */
static unsigned way_for_new(nm_announce_cache *cache, nm_announce_bucket *b) {
  if (b->used != ALL_WAYS) {
    unsigned i = 0;
    while ((b->used >> i) & 1) {
      i++;
    }
    cache->count++;
    return i;
  }
  while ((b->recent >> b->hand) & 1) {
    set_bit(&b->recent, b->hand, false);
    b->hand = (uint8_t)((b->hand + 1) % NM_ANNOUNCE_WAYS);
  }
  unsigned way = b->hand;
  b->hand = (uint8_t)((b->hand + 1) % NM_ANNOUNCE_WAYS);
  cache->evictions++;
  return way;
}

void nm_announce_cache_add(nm_announce_cache *cache, const nm_packet_hash *hash,
                           bool context_flag) {
  nm_announce_bucket *b = bucket_of(cache, hash);
  if (way_of(b, hash, context_flag) != NM_ANNOUNCE_WAYS) {
    return;
  }
  unsigned way = way_for_new(cache, b);
  memcpy(b->key[way], hash->b, NM_HASH_SIZE);
  set_bit(&b->used, way, true);
  set_bit(&b->flag, way, context_flag);
  set_bit(&b->recent, way, false);
}

nm_announce_verdict nm_announce_cache_validate(nm_announce_cache *cache,
                                               const nm_announce *announce,
                                               const nm_packet_hash *hash,
                                               const uint8_t *expected_public) {
  nm_packet_hash computed;
  if (hash == NULL) {
    nm_packet_digest(&announce->packet, &computed);
    hash = &computed;
  }
  bool flag = announce->packet.context_flag;
  if (!nm_announce_cache_find(cache, hash, flag)) {
    nm_announce_verdict verdict = nm_announce_validate(announce, false, NULL);
    if (verdict != NM_ANNOUNCE_VALID) {
      return verdict;
    }
    nm_announce_cache_add(cache, hash, flag);
  }
  return nm_announce_check_key(announce, expected_public);
}
