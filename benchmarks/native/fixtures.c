#include "fixtures.h"

#include "base/mem.h"
#include "bench.h"

#include <string.h>
#include <time.h>

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

uint64_t nb_fnv(nm_span data) {
  uint64_t hash = FNV_BASIS;
  for (size_t i = 0; i < data.len; i++) {
    hash = (hash ^ data.ptr[i]) * FNV_PRIME;
  }
  return hash;
}

/* One step of splitmix64. */
static uint64_t next_word(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15ull;
  uint64_t word = *state;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return word ^ (word >> 31);
}

void nb_stream(const char *label, size_t number, uint8_t *out, size_t len) {
  uint64_t state = nb_fnv(nm_span_of(label, strlen(label))) ^ number;
  uint64_t word = 0;
  for (size_t i = 0; i < len; i++) {
    word = i % 8 == 0 ? next_word(&state) : word >> 8;
    out[i] = (uint8_t)word;
  }
}

uint8_t *nb_stream_new(const char *label, size_t number, size_t size) {
  uint8_t *bytes = nm_alloc(&nm_mem_system, size);
  if (bytes != NULL) {
    nb_stream(label, number, bytes, size);
  }
  return bytes;
}

int nb_identity(nm_identity *id, const char *label, size_t number) {
  uint8_t keys[NM_PRIVATE_SIZE];
  nb_stream(label, number, keys, sizeof keys);
  return nm_identity_init_private(id, nm_span_of(keys, sizeof keys));
}

int nb_random_open(nm_entropy_pool *pool) {
  return nm_entropy_pool_init(pool, &nm_entropy_system);
}

uint64_t nb_unix_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec;
}

void *nb_state(void **state, size_t size) {
  *state = nm_alloc_zero(&nm_mem_system, 1, size);
  return *state;
}
