#include "crypto/entropy.h"

#include <sodium.h>
#include <string.h>

#define POOL_KEY 32

_Static_assert(crypto_stream_chacha20_KEYBYTES == POOL_KEY, "ChaCha20 key");

static int system_fill(void *user, void *ptr, size_t len) {
  (void)user;
  randombytes_buf(ptr, len);
  return NM_OK;
}

const nm_entropy nm_entropy_system = {NULL, system_fill};

/* Overwrites the buffer with fresh output of its key, which is thereby
 * erased. */
static int refill(nm_entropy_pool *pool) {
  static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
  uint8_t key[POOL_KEY];
  memcpy(key, pool->buffer, sizeof key);
  int failed =
      crypto_stream_chacha20(pool->buffer, sizeof pool->buffer, nonce, key);
  nm_wipe(key, sizeof key);
  pool->pos = POOL_KEY;
  return failed == 0 ? NM_OK : NM_E(LIBRARY);
}

int nm_entropy_pool_init(nm_entropy_pool *pool, const nm_entropy *source) {
  memset(pool, 0, sizeof *pool);
  pool->source = *source;
  return nm_entropy_pool_reseed(pool);
}

void nm_entropy_pool_init_seed(nm_entropy_pool *pool, const uint8_t seed[32]) {
  memset(pool, 0, sizeof *pool);
  memcpy(pool->buffer, seed, POOL_KEY);
  pool->pos = sizeof pool->buffer;
}

int nm_entropy_pool_reseed(nm_entropy_pool *pool) {
  if (pool->source.fill == NULL) {
    return NM_E(STATE);
  }
  int status = nm_entropy_fill(&pool->source, pool->buffer, POOL_KEY);
  if (status == NM_OK) {
    pool->pos = sizeof pool->buffer;
    pool->since_reseed = 0;
  }
  return status;
}

int nm_entropy_pool_fill(nm_entropy_pool *pool, void *ptr, size_t len) {
  uint8_t *out = (uint8_t *)ptr;
  if (pool->source.fill != NULL &&
      pool->since_reseed >= NM_ENTROPY_POOL_RESEED) {
    int status = nm_entropy_pool_reseed(pool);
    if (status != NM_OK) {
      return status;
    }
  }
  pool->since_reseed += len;
  while (len > 0) {
    size_t left = sizeof pool->buffer - pool->pos;
    if (left == 0) {
      int status = refill(pool);
      if (status != NM_OK) {
        return status;
      }
      continue;
    }
    size_t take = len < left ? len : left;
    memcpy(out, pool->buffer + pool->pos, take);
    nm_wipe(pool->buffer + pool->pos, take);
    pool->pos += take;
    out += take;
    len -= take;
  }
  return NM_OK;
}

void nm_entropy_pool_wipe(nm_entropy_pool *pool) {
  nm_wipe(pool, sizeof *pool);
}

static int pool_fill(void *user, void *ptr, size_t len) {
  return nm_entropy_pool_fill((nm_entropy_pool *)user, ptr, len);
}

nm_entropy nm_entropy_pool_source(nm_entropy_pool *pool) {
  nm_entropy e = {pool, pool_fill};
  return e;
}
