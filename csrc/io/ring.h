/* Two lock-free queues between threads: posts from many to one, events from
 * one to one.
 */
#ifndef NM_IO_RING_H
#define NM_IO_RING_H

#include "io/node.h"

/* ---- posts: many writers, one reader ---- */

typedef struct nm_postbox {
  _Atomic(nm_post *) newest;
} nm_postbox;

typedef enum nm_post_result {
  NM_POST_FIRST, /* the box was empty: wake the reader */
  NM_POST_MORE,
  NM_POST_CLOSED /* not taken */
} nm_post_result;

nm_post_result nm_postbox_put(nm_postbox *box, nm_post *post);
/* Reader: whether there is none now. */
bool nm_postbox_is_empty(const nm_postbox *box);
/* All posts, oldest first; NULL when there are none. */
nm_post *nm_postbox_take(nm_postbox *box);
/* As nm_postbox_take, and refuses all further posts. */
nm_post *nm_postbox_close(nm_postbox *box);

/* ---- events: one writer, one reader ---- */

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

/* ---- published values: one writer, any readers ---- */

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
