#include "sim/random.h"

#include "base/cursor.h"
#include "crypto/hash.h"

#define MILLION 1000000u

void nm_sim_derive(uint64_t seed, const char *purpose, const char *name,
                   uint64_t number, uint8_t out[32]) {
  uint8_t numbers[16];
  nm_writer w = nm_writer_of(numbers, sizeof(numbers));
  nm_writer_u64(&w, seed);
  nm_writer_u64(&w, number);
  /* The zero bytes keep a purpose and a name apart. */
  nm_span parts[] = {nm_writer_done(&w),
                     nm_span_of(purpose, strlen(purpose) + 1),
                     nm_span_of(name, strlen(name) + 1)};
  nm_sha256v(out, parts, sizeof(parts) / sizeof(parts[0]));
}

void nm_sim_rng_init(nm_sim_rng *rng, uint64_t seed, const char *purpose,
                     const char *name) {
  uint8_t bytes[32];
  nm_sim_derive(seed, purpose, name, 0, bytes);
  nm_reader r = nm_reader_of(nm_span_of(bytes, sizeof(bytes)));
  for (int i = 0; i < 4; i++) {
    rng->s[i] = nm_reader_u64(&r);
  }
}

static uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

uint64_t nm_sim_rng_next(nm_sim_rng *rng) {
  uint64_t *s = rng->s;
  uint64_t result = rotate(s[1] * 5, 7) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

/* The remainder favours small numbers by less than the span in 2^64: far below
 * what a simulation could notice. */
uint64_t nm_sim_rng_between(nm_sim_rng *rng, uint64_t min, uint64_t max) {
  uint64_t drawn = nm_sim_rng_next(rng);
  return max <= min ? min : min + drawn % (max - min + 1);
}

bool nm_sim_rng_chance(nm_sim_rng *rng, uint32_t ppm) {
  return nm_sim_rng_next(rng) % MILLION < ppm;
}
