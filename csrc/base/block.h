/* A block: immutable bytes with a reference count, shared between an engine,
 * its driver's threads and Python without copying. One packet that leaves on
 * twenty interfaces is one block.
 */
#ifndef NM_BASE_BLOCK_H
#define NM_BASE_BLOCK_H

#include "base/bytes.h"
#include "base/mem.h"

typedef struct nm_block nm_block;

/* A block of |len| uninitialised bytes, less than 4 GiB, with one reference, or
 * NULL. |mem| must outlive it and be safe to call from any thread that drops
 * the last reference. */
nm_block *nm_block_new(const nm_mem *mem, size_t len);
/* A block with a copy of |bytes|, or NULL. */
nm_block *nm_block_copy(const nm_mem *mem, nm_span bytes);
/* One more reference (atomic). Returns |block|. */
nm_block *nm_block_hold(nm_block *block);
/* One reference less; wipes first when the block was marked secret. NULL is
 * allowed. */
void nm_block_drop(nm_block *block);
/* Marks the content as secret: it is wiped when the last reference goes. */
void nm_block_mark_secret(nm_block *block);
nm_span nm_block_span(const nm_block *block);
/* Writable only while the caller holds the one reference. */
uint8_t *nm_block_bytes(nm_block *block);
/* Shortens the block to |len| bytes; only while there is one reference. */
void nm_block_trim(nm_block *block, size_t len);

#endif
