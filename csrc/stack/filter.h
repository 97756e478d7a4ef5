/* The duplicate filter's memory: packet hashes in two generations (RNS 1,
 * 8.4). When the current generation is full it becomes the previous one, whose
 * hashes are forgotten and whose memory is the next one's. Tables grow a few
 * slots at a time.
 */
#ifndef NM_STACK_FILTER_H
#define NM_STACK_FILTER_H

#include "base/mem.h"
#include "stack/types.h"

/* One open-addressed set. Each slot has a tag in an array of its own, 15 bits
 * of its keyed hash, whether a driver has taken it, and the epoch in which it
 * was filled: looking for what is not there touches one line of memory. A slot
 * of another epoch is empty, so a set is emptied by its next epoch. */
typedef struct nm_hash_slots {
  uint32_t *tags;
  nm_packet_hash *hashes;
  size_t count;
  uint16_t epoch; /* above 0 */
} nm_hash_slots;

typedef struct nm_hash_set {
  nm_hash_slots now;
  nm_hash_slots old; /* being emptied after a growth, or without slots */
  size_t old_moved;
  size_t count;
  size_t unkept; /* that no driver has taken */
} nm_hash_set;

typedef struct nm_filter {
  const nm_mem *mem;
  size_t generation_max;
  uint8_t hash_key[16];
  nm_hash_set current;
  nm_hash_set previous;
  uint64_t rotations;
  uint64_t lost;     /* additions that found no memory */
  bool kept_already; /* what is put comes from the driver's copy */
  bool kept_lost;    /* one that a driver has taken was dropped */
} nm_filter;

void nm_filter_init(nm_filter *filter, const nm_mem *mem,
                    const uint8_t hash_key[16], size_t generation_max);
void nm_filter_dispose(nm_filter *filter);
/* The key of |hash|: that of its first 16 bytes in an nm_table with the same
 * hash_key. */
uint64_t nm_filter_key(const nm_filter *filter, const nm_packet_hash *hash);
/* Fetches the memory that the next four will look at. */
void nm_filter_fetch(const nm_filter *filter, uint64_t key);
bool nm_filter_has(const nm_filter *filter, const nm_packet_hash *hash);
/* Adds |hash|; without memory it is not remembered, which is counted: a
 * duplicate may then pass, nothing else breaks. */
void nm_filter_put(nm_filter *filter, const nm_packet_hash *hash);
/* The same with nm_filter_key of |hash| at hand. */
bool nm_filter_has_keyed(const nm_filter *filter, const nm_packet_hash *hash,
                         uint64_t key);
void nm_filter_put_keyed(nm_filter *filter, const nm_packet_hash *hash,
                         uint64_t key);
/* Hashes that no driver has taken. */
size_t nm_filter_unkept(const nm_filter *filter);
/* One step of a walk for a driver: gives what it has not taken of 256 places,
 * or |all| of them, to |visit| and returns the next cursor, 0 at the end; 0
 * starts. What is added, or moved by a growth or a change of generations
 * meanwhile, may be left out or come twice. */
uint64_t nm_filter_keep(nm_filter *filter, uint64_t cursor, bool all,
                        void (*visit)(void *user, const nm_packet_hash *hash),
                        void *user);
/* Forgets |hash| in both generations. */
void nm_filter_drop(nm_filter *filter, const nm_packet_hash *hash);

#endif
