/* A stock: an allocator that keeps what is given back, by size, for the next
 * one who wants as much. What handles the same kinds of packets again and again
 * then takes nothing from the allocator below it, and does not fragment it.
 *
 * It never waits: a thread that finds the stock in use by another one goes to
 * the allocator below it. So all functions may be called from any thread.
 */
#ifndef NM_BASE_STOCK_H
#define NM_BASE_STOCK_H

#include "base/mem.h"

#include <stdint.h>

typedef struct nm_stock nm_stock;

typedef struct nm_stock_stats {
  uint64_t fresh;  /* allocations that went to the allocator below */
  uint64_t reused; /* those that did not */
  size_t kept;     /* bytes that wait for the next one, at most keep_max */
  size_t lent;     /* allocations that have not come back */
} nm_stock_stats;

/* A stock over |mem|, which must outlive everything taken from the stock and be
 * safe to call from any thread. It keeps at most |keep_max| bytes; when it is
 * full, what was kept of other sizes makes way bit by bit. NULL without
 * memory. */
nm_stock *nm_stock_new(const nm_mem *mem, size_t keep_max);
/* Valid until nm_stock_free and until all that was taken has come back. */
const nm_mem *nm_stock_mem(const nm_stock *stock);
/* Ends the stock; it lives on, keeping nothing, until the last allocation has
 * come back. NULL is allowed. */
void nm_stock_free(nm_stock *stock);
void nm_stock_read(nm_stock *stock, nm_stock_stats *stats);

#endif
