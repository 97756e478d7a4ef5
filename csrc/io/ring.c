#include "io/ring.h"

#include <string.h>

/* ---- posts ---- */

/* Stands in a closed box: an address that no post has. */
static nm_post *closed_mark(const nm_postbox *box) {
  return (nm_post *)(uintptr_t)box;
}

/* In one order with what its callers do: the reader that says that it sleeps
 * looks here once more, and who puts looks whether it does. */
nm_post_result nm_postbox_put(nm_postbox *box, nm_post *post) {
  nm_post *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);
  do {
    if (newest == closed_mark(box)) {
      return NM_POST_CLOSED;
    }
    post->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(
      &box->newest, &newest, post, memory_order_seq_cst, memory_order_relaxed));
  return newest == NULL ? NM_POST_FIRST : NM_POST_MORE;
}

static nm_post *oldest_first(const nm_postbox *box, nm_post *newest) {
  nm_post *oldest = NULL;
  while (newest != NULL && newest != closed_mark(box)) {
    nm_post *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool nm_postbox_is_empty(const nm_postbox *box) {
  return atomic_load(&box->newest) == NULL;
}

nm_post *nm_postbox_take(nm_postbox *box) {
  if (nm_postbox_is_empty(box)) {
    return NULL;
  }
  return oldest_first(
      box, atomic_exchange_explicit(&box->newest, NULL, memory_order_acq_rel));
}

nm_post *nm_postbox_close(nm_postbox *box) {
  return oldest_first(box,
                      atomic_exchange_explicit(&box->newest, closed_mark(box),
                                               memory_order_acq_rel));
}

/* ---- events ---- */

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

/* ---- published values ---- */

int nm_published_init(nm_published *p, const nm_mem *mem, size_t size) {
  memset(p, 0, sizeof(*p));
  p->word_count = size / sizeof(uint64_t);
  p->words = nm_alloc_zero(mem, p->word_count, sizeof(p->words[0]));
  return p->words == NULL ? NM_E(MEMORY) : NM_OK;
}

void nm_published_dispose(nm_published *p, const nm_mem *mem) {
  nm_release(mem, (void *)p->words);
  p->words = NULL;
}

void nm_published_write(nm_published *p, const void *value) {
  const uint8_t *from = value;
  unsigned sequence = atomic_load_explicit(&p->sequence, memory_order_relaxed);
  atomic_store_explicit(&p->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (size_t i = 0; i < p->word_count; i++) {
    uint64_t word;
    memcpy(&word, &from[i * sizeof(word)], sizeof(word));
    atomic_store_explicit(&p->words[i], word, memory_order_relaxed);
  }
  atomic_store_explicit(&p->sequence, sequence + 2, memory_order_release);
}

void nm_published_read(const nm_published *p, void *value) {
  uint8_t *to = value;
  unsigned before;
  unsigned after;
  do {
    before = atomic_load_explicit(&p->sequence, memory_order_acquire);
    for (size_t i = 0; i < p->word_count; i++) {
      uint64_t word = atomic_load_explicit(&p->words[i], memory_order_relaxed);
      memcpy(&to[i * sizeof(word)], &word, sizeof(word));
    }
    atomic_thread_fence(memory_order_acquire);
    after = atomic_load_explicit(&p->sequence, memory_order_relaxed);
  } while (before != after || (before & 1) != 0);
}
