/* Values between threads, lock-free: one writer, any readers. */
#ifndef NM_IO_PUBLISHED_H
#define NM_IO_PUBLISHED_H

#include "base/mem.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A value of |words| 64-bit words behind a sequence number (a seqlock): the
 * writer never waits, a reader repeats until it saw a whole value. */
typedef struct nm_published {
  atomic_uint sequence;
  _Atomic uint64_t *words;
  size_t word_count;
} nm_published;

/* |size| is a multiple of 8. NM_E(MEMORY). */
int nm_published_init(nm_published *p, const nm_mem *mem, size_t size);
void nm_published_dispose(nm_published *p, const nm_mem *mem);
void nm_published_write(nm_published *p, const void *value);
void nm_published_read(const nm_published *p, void *value);

#endif
