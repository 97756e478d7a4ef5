/* Content that is not in memory: read piece by piece from a source, given piece
 * by piece to a sink. A driver (the node's files, a test, a program) makes
 * them; the engine holds references and never calls their functions itself:
 * they are called by jobs, on any thread, for one object one call at a time.
 */
#ifndef NM_STACK_CONTENT_H
#define NM_STACK_CONTENT_H

#include "base/block.h"
#include "wire/constants.h"

#include <stdatomic.h>

/* Where outgoing content comes from. Embed it first in a struct of your own. */
typedef struct nm_source {
  atomic_uint references;
  uint64_t size; /* bytes of content; does not change */
  /* Reads exactly |len| bytes at |offset| into |into|. 0, NM_E(TRUNCATED) when
   * the content has become shorter, NM_E(STORE). */
  int (*read)(struct nm_source *source, uint64_t offset, uint8_t *into,
              size_t len);
  /* The last reference is gone. */
  void (*release)(struct nm_source *source);
} nm_source;

/* Starts with one reference. */
void nm_source_init(nm_source *source, uint64_t size,
                    int (*read)(nm_source *source, uint64_t offset,
                                uint8_t *into, size_t len),
                    void (*release)(nm_source *source));
nm_source *nm_source_hold(nm_source *source);
/* NULL is allowed. */
void nm_source_drop(nm_source *source);

/* What a sink holds of a content from an attempt before. */
typedef struct nm_held {
  uint64_t bytes;               /* from the beginning; 0: nothing */
  uint8_t digest[NM_HASH_SIZE]; /* SHA-256 of a salt and those bytes */
  uint32_t evicted;             /* what else was kept and is not any more */
} nm_held;

/* Where the content of one incoming resource goes. */
typedef struct nm_sink {
  atomic_uint references;
  /* Set by the engine before it lets go: what was written is worth keeping for
   * another attempt. */
  bool keep;
  /* Looks for what an earlier attempt left of this content, before the first
   * write, which may then follow it. NULL: nothing is ever left. Errors as of
   * `write`, which stand for nothing. May block for long. */
  int (*check)(struct nm_sink *sink, nm_span salt, nm_held *held);
  /* Takes the content from |offset| on; each write follows the last one, the
   * first one begins at 0 or follows what `check` has found. 0, NM_E(FULL) when
   * there is no room, NM_E(STORE). */
  int (*write)(struct nm_sink *sink, uint64_t offset, nm_span bytes);
  /* All |size| bytes were written and are verified: makes them durable and puts
   * them where they belong. |metadata| is the packed metadata, or empty.
   * |place| gets a block with the name of the place, or stays NULL. Called at
   * most once. 0, NM_E(FULL), NM_E(STORE), NM_E(MEMORY). May block for long. */
  int (*finish)(struct nm_sink *sink, uint64_t size, nm_span metadata,
                nm_block **place);
  /* The last reference is gone; without a successful `finish` before, and
   * without `keep`, what was written is of no use. */
  void (*release)(struct nm_sink *sink);
} nm_sink;

nm_sink *nm_sink_hold(nm_sink *sink);
/* NULL is allowed. */
void nm_sink_drop(nm_sink *sink);

/* Makes sinks: what a link is given that stores its resources. */
typedef struct nm_shelf {
  atomic_uint references;
  /* A sink for the resource |hash| of |size| bytes (its metadata included) from
   * |peer|: its identity's hash once it has identified, else the destination's
   * of the link. NULL without memory. Called on the engine's thread: opens
   * nothing. */
  nm_sink *(*place)(struct nm_shelf *shelf, const uint8_t hash[NM_HASH_SIZE],
                    uint64_t size, nm_span peer);
  void (*release)(struct nm_shelf *shelf);
} nm_shelf;

nm_shelf *nm_shelf_hold(nm_shelf *shelf);
/* NULL is allowed. */
void nm_shelf_drop(nm_shelf *shelf);

#endif
