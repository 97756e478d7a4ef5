/* A bounded hash table over entries that live in the caller's structs.
 *
 * Keys are chosen by peers, so the hash is keyed (SipHash) with a key from the
 * engine's entropy. Entries are linked in order of use; a full table evicts
 * the least recently used entry for which `may_evict` agrees, and counts it.
 * Look-ups are O(1). The bucket array doubles when it is full; its entries move
 * over a few buckets at a time, so that no single call takes long.
 */
#ifndef NM_BASE_TABLE_H
#define NM_BASE_TABLE_H

#include "base/bytes.h"
#include "base/mem.h"

/* Embedded in each entry; the entry's key follows by |key_offset|. */
typedef struct nm_table_link {
  struct nm_table_link *chain;
  struct nm_table_link *older;
  struct nm_table_link *newer;
  uint64_t hash;
} nm_table_link;

typedef struct nm_table_config {
  size_t capacity;   /* entries, > 0 */
  size_t key_size;   /* bytes */
  size_t key_offset; /* from the entry's nm_table_link */
  uint8_t hash_key[16];
  void *user;
  /* Called before an entry is evicted; false keeps it. NULL: always true;
   * nm_table_keep: always false. */
  bool (*may_evict)(void *user, nm_table_link *entry);
  /* How many of the least recently used entries may_evict is asked about before
   * an insertion is refused, so that it takes a bounded time; they then count
   * as used, and the next insertion asks about others. 0: all of them. */
  size_t looks_max;
  /* Takes back an entry that was evicted or cleared; releases its memory. */
  void (*dispose)(void *user, nm_table_link *entry);
} nm_table_config;

typedef struct nm_table {
  const nm_mem *mem;
  nm_table_config config;
  nm_table_link **buckets;
  size_t bucket_count;
  nm_table_link **old_buckets; /* being emptied after a growth, or NULL */
  size_t old_count;
  size_t old_moved; /* buckets of the old array that are empty for good */
  size_t count;
  nm_table_link *oldest;
  nm_table_link *newest;
  uint64_t evictions;
} nm_table;

/* 0 or NM_E(MEMORY). */
int nm_table_init(nm_table *table, const nm_mem *mem,
                  const nm_table_config *config);
/* A may_evict for tables whose entries go only when they are removed. */
bool nm_table_keep(void *user, nm_table_link *entry);
/* Disposes of every entry; harmless on a zeroed table. */
void nm_table_dispose(nm_table *table);
/* The entry with |key| (config.key_size bytes) or NULL; the order of use is
 * not changed. */
nm_table_link *nm_table_find(const nm_table *table, const void *key);
/* The hash of |key|: the same in every table with this hash_key and key_size,
 * so that one computation serves several look-ups. */
uint64_t nm_table_hash(const nm_table *table, const void *key);
/* nm_table_find with nm_table_hash of |key| at hand. */
nm_table_link *nm_table_find_hashed(const nm_table *table, uint64_t hash,
                                    const void *key);
/* Fetch what a look-up of |hash| will read, without waiting for it: first its
 * place; once that is there, the entry; once that is there, the neighbours that
 * nm_table_touch and nm_table_remove change. */
void nm_table_fetch_place(const nm_table *table, uint64_t hash);
void nm_table_fetch_entry(const nm_table *table, uint64_t hash);
void nm_table_fetch_neighbours(const nm_table *table, uint64_t hash);
/* The same for the removal of the |count| least recently used entries: |round|
 * 0 fetches their places, 1 what stands in front of them there. */
void nm_table_fetch_oldest(const nm_table *table, size_t count, int round);
/* Makes |entry| the most recently used. */
void nm_table_touch(nm_table *table, nm_table_link *entry);
/* Adds |entry|, whose key is set and not in the table. May evict. 0,
 * NM_E(MEMORY), or NM_E(LIMIT) when the table is full of entries that may not
 * be evicted, or those that were asked about may not. The table owns the entry
 * on success only. */
int nm_table_insert(nm_table *table, nm_table_link *entry);
/* The same with nm_table_hash of its key at hand. */
int nm_table_insert_hashed(nm_table *table, nm_table_link *entry,
                           uint64_t hash);
/* Unlinks |entry| and gives it back to the caller. */
void nm_table_remove(nm_table *table, nm_table_link *entry);
/* Walks from the least recently used entry: pass NULL first; NULL at the end.
 * The entry just returned may be removed before the next call if the caller
 * fetched its successor first. */
nm_table_link *nm_table_next(const nm_table *table, const nm_table_link *entry);
/* Walks in small steps between which the table may change: calls |visit| for
 * the entries of one place and returns the next cursor, 0 at the end; 0 starts.
 * An entry that is there all the while is visited at least once, and more than
 * once only when the table grew meanwhile. |visit| must not change the table.
 */
uint64_t nm_table_scan(const nm_table *table, uint64_t cursor,
                       void (*visit)(void *user, nm_table_link *entry),
                       void *user);

#endif
