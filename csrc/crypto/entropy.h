/* Random bytes as an input. Low-level functions take the bytes themselves;
 * whoever makes them takes an nm_entropy.
 */
#ifndef NM_CRYPTO_ENTROPY_H
#define NM_CRYPTO_ENTROPY_H

#include "base/bytes.h"
#include "base/status.h"

typedef struct nm_entropy {
  void *user;
  /* Fills |len| bytes. 0, or NM_E(LIBRARY) when there are none to be had. */
  int (*fill)(void *user, void *ptr, size_t len);
} nm_entropy;

/* The system's generator through libsodium; safe from any thread. */
extern const nm_entropy nm_entropy_system;

static inline int nm_entropy_fill(const nm_entropy *e, void *ptr, size_t len) {
  return e->fill(e->user, ptr, len);
}

#define NM_ENTROPY_POOL_BUFFER 768
#define NM_ENTROPY_POOL_RESEED (1u << 20)

/* A buffered generator: ChaCha20 with fast key erasure over another source, for
 * callers that need a few random bytes often (a system call costs some 300 ns).
 * Bytes that were handed out are erased at once, so that a later look at the
 * memory does not reveal them. Belongs to one thread at a time. A forked
 * process must call nm_entropy_pool_reseed before it takes bytes, or both
 * processes will draw the same ones. */
typedef struct nm_entropy_pool {
  nm_entropy source;                      /* fill is NULL for a seeded pool */
  uint8_t buffer[NM_ENTROPY_POOL_BUFFER]; /* next key (32), then output */
  size_t pos;
  uint64_t since_reseed;
} nm_entropy_pool;

/* Keys the pool from |source|, which is copied; it draws a new key after every
 * NM_ENTROPY_POOL_RESEED bytes. Errors of |source|. */
int nm_entropy_pool_init(nm_entropy_pool *pool, const nm_entropy *source);
/* A reproducible stream from |seed|, for tests and simulations: never
 * reseeded. */
void nm_entropy_pool_init_seed(nm_entropy_pool *pool, const uint8_t seed[32]);
/* Draws a new key now and drops what is buffered. Errors of the source;
 * NM_E(STATE) for a seeded pool. */
int nm_entropy_pool_reseed(nm_entropy_pool *pool);
/* Fills |len| bytes. Errors of the source, in which case nothing is usable. */
int nm_entropy_pool_fill(nm_entropy_pool *pool, void *ptr, size_t len);
void nm_entropy_pool_wipe(nm_entropy_pool *pool);
/* The pool as a source for others; valid as long as |pool|. */
nm_entropy nm_entropy_pool_source(nm_entropy_pool *pool);

#endif
