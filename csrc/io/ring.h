/* Events between two threads, lock-free: one writer, one reader. */
#ifndef NM_IO_RING_H
#define NM_IO_RING_H

#include "io/node.h"

/* What the two sides write lies a cache line apart. By padding: an alignment
 * would be asked of whatever holds a ring, and of its allocator. */
#define NM_RING_APART 60

typedef struct nm_ring {
  nm_node_event *slots;
  uint32_t cap; /* a power of two */
  uint8_t before_head[NM_RING_APART];
  atomic_uint head; /* written so far */
  uint8_t before_tail[NM_RING_APART];
  atomic_uint tail; /* read so far */
  uint8_t after_tail[NM_RING_APART];
} nm_ring;

/* NM_E(MEMORY), NM_E(RANGE) unless |cap| is a power of two up to 2^20. */
int nm_ring_init(nm_ring *ring, const nm_mem *mem, uint32_t cap);
/* Disposes of what was not read. */
void nm_ring_dispose(nm_ring *ring, const nm_mem *mem);
/* Writer: how many events fit now. */
uint32_t nm_ring_room(const nm_ring *ring);
/* Writer: the slot to fill next; there must be room. */
nm_node_event *nm_ring_slot(nm_ring *ring);
/* Writer: publishes the filled slot. */
void nm_ring_push(nm_ring *ring);
/* Reader. */
bool nm_ring_pop(nm_ring *ring, nm_node_event *event);
uint32_t nm_ring_count(const nm_ring *ring);

#endif
