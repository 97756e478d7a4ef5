#include "base/block.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

struct nm_block {
  const nm_mem *mem;
  atomic_uint holders;
  uint32_t len;
  uint32_t cap;
  atomic_bool secret;
  alignas(8) uint8_t bytes[]; /* may hold records of a driver's */
};

nm_block *nm_block_new(const nm_mem *mem, size_t len) {
  if (len > UINT32_MAX - sizeof(nm_block)) {
    return NULL;
  }
  nm_block *block = nm_alloc(mem, sizeof(nm_block) + len);
  if (block == NULL) {
    return NULL;
  }
  block->mem = mem;
  atomic_init(&block->holders, 1);
  atomic_init(&block->secret, false);
  block->len = (uint32_t)len;
  block->cap = (uint32_t)len;
  return block;
}

nm_block *nm_block_copy(const nm_mem *mem, nm_span bytes) {
  nm_block *block = nm_block_new(mem, bytes.len);
  if (block != NULL && bytes.len > 0) {
    memcpy(block->bytes, bytes.ptr, bytes.len);
  }
  return block;
}

nm_block *nm_block_hold(nm_block *block) {
  atomic_fetch_add_explicit(&block->holders, 1, memory_order_relaxed);
  return block;
}

void nm_block_drop(nm_block *block) {
  if (block == NULL || atomic_fetch_sub_explicit(&block->holders, 1,
                                                 memory_order_acq_rel) != 1) {
    return;
  }
  if (atomic_load_explicit(&block->secret, memory_order_relaxed)) {
    nm_wipe(block->bytes, block->cap);
  }
  nm_release(block->mem, block);
}

void nm_block_mark_secret(nm_block *block) {
  atomic_store_explicit(&block->secret, true, memory_order_relaxed);
}

nm_span nm_block_span(const nm_block *block) {
  return block == NULL ? nm_span_of(NULL, 0)
                       : nm_span_of(block->bytes, block->len);
}

uint8_t *nm_block_bytes(nm_block *block) {
  return block->bytes;
}

void nm_block_trim(nm_block *block, size_t len) {
  if (len < block->len) {
    block->len = (uint32_t)len;
  }
}
