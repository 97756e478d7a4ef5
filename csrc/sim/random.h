/* Seeded streams of random numbers (xoshiro256**), one per purpose.
 */
#ifndef NM_SIM_RANDOM_H
#define NM_SIM_RANDOM_H

#include "base/bytes.h"

typedef struct nm_sim_rng {
  uint64_t s[4];
} nm_sim_rng;

/* 32 bytes that |seed|, a purpose, a name and a number define. */
void nm_sim_derive(uint64_t seed, const char *purpose, const char *name,
                   uint64_t number, uint8_t out[32]);
void nm_sim_rng_init(nm_sim_rng *rng, uint64_t seed, const char *purpose,
                     const char *name);
uint64_t nm_sim_rng_next(nm_sim_rng *rng);
/* A number of min..max. */
uint64_t nm_sim_rng_between(nm_sim_rng *rng, uint64_t min, uint64_t max);
/* True |ppm| times in a million. */
bool nm_sim_rng_chance(nm_sim_rng *rng, uint32_t ppm);

#endif
