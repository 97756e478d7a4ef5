#include "sim/meter.h"

#include <string.h>

/* Before each block stands its size, in a space that keeps it aligned. */
typedef union header {
  size_t size;
  max_align_t align;
} header;

static bool fails(nm_sim_meter *meter) {
  meter->calls++;
  if (!meter->armed || meter->failure_ppm == 0 ||
      !nm_sim_rng_chance(&meter->rng, meter->failure_ppm)) {
    return false;
  }
  meter->failed++;
  return true;
}

static void count_bytes(nm_sim_meter *meter, size_t more, size_t less) {
  meter->live_bytes += more;
  meter->live_bytes -= less;
  if (meter->live_bytes > meter->peak_bytes) {
    meter->peak_bytes = meter->live_bytes;
  }
}

static void *meter_alloc(void *user, size_t size) {
  nm_sim_meter *meter = user;
  if (size > SIZE_MAX - sizeof(header) || fails(meter)) {
    return NULL;
  }
  header *block = nm_alloc(meter->base, sizeof(header) + size);
  if (block == NULL) {
    return NULL;
  }
  block->size = size;
  meter->live_blocks++;
  count_bytes(meter, size, 0);
  return block + 1;
}

static void *meter_resize(void *user, void *ptr, size_t size) {
  nm_sim_meter *meter = user;
  if (ptr == NULL) {
    return meter_alloc(user, size);
  }
  if (size > SIZE_MAX - sizeof(header) || fails(meter)) {
    return NULL;
  }
  header *block = (header *)ptr - 1;
  size_t old = block->size;
  block = nm_resize(meter->base, block, sizeof(header) + size);
  if (block == NULL) {
    return NULL;
  }
  block->size = size;
  count_bytes(meter, size, old);
  return block + 1;
}

static void meter_release(void *user, void *ptr) {
  nm_sim_meter *meter = user;
  if (ptr == NULL) {
    return;
  }
  header *block = (header *)ptr - 1;
  meter->live_blocks--;
  count_bytes(meter, 0, block->size);
  nm_release(meter->base, block);
}

void nm_sim_meter_init(nm_sim_meter *meter, const nm_mem *base) {
  memset(meter, 0, sizeof(*meter));
  meter->base = base;
  meter->mem = (nm_mem){meter, meter_alloc, meter_resize, meter_release};
}
