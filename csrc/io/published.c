#include "io/published.h"

#include <string.h>

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
