/* An allocator that counts what passes through it and can be made to fail.
 */
#ifndef NM_SIM_METER_H
#define NM_SIM_METER_H

#include "base/mem.h"
#include "sim/random.h"

typedef struct nm_sim_meter {
  nm_mem mem; /* the allocator to pass on; the meter must not move */
  const nm_mem *base;
  nm_sim_rng rng;
  uint32_t failure_ppm;
  bool armed; /* failures happen */
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t peak_bytes;
  uint64_t calls;
  uint64_t failed;
} nm_sim_meter;

void nm_sim_meter_init(nm_sim_meter *meter, const nm_mem *base);

#endif
