#include "io/ring.h"

#include <string.h>

#define RING_MAX (1u << 20)

int nm_ring_init(nm_ring *ring, const nm_mem *mem, uint32_t cap) {
  memset(ring, 0, sizeof(*ring));
  if (cap == 0 || cap > RING_MAX || (cap & (cap - 1)) != 0) {
    return NM_E(RANGE);
  }
  /* Not zeroed: pages that are never used are never touched. */
  ring->slots = nm_alloc(mem, cap * sizeof(ring->slots[0]));
  ring->cap = cap;
  return ring->slots == NULL ? NM_E(MEMORY) : NM_OK;
}

void nm_ring_dispose(nm_ring *ring, const nm_mem *mem) {
  nm_node_event event;
  while (ring->slots != NULL && nm_ring_pop(ring, &event)) {
    nm_node_event_dispose(&event);
  }
  nm_release(mem, ring->slots);
  ring->slots = NULL;
}

uint32_t nm_ring_count(const nm_ring *ring) {
  return atomic_load(&ring->head) - atomic_load(&ring->tail);
}

uint32_t nm_ring_room(const nm_ring *ring) {
  return ring->cap - nm_ring_count(ring);
}

nm_node_event *nm_ring_slot(nm_ring *ring) {
  unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  return &ring->slots[head & (ring->cap - 1)];
}

void nm_ring_push(nm_ring *ring) {
  atomic_fetch_add(&ring->head, 1);
}

bool nm_ring_pop(nm_ring *ring, nm_node_event *event) {
  unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  if (atomic_load(&ring->head) == tail) {
    return false;
  }
  *event = ring->slots[tail & (ring->cap - 1)];
  atomic_store(&ring->tail, tail + 1);
  return true;
}
