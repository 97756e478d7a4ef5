#include "base/table.h"

#include "base/status.h"

#include <sodium.h>
#include <string.h>

#define BUCKETS_MIN 16
/* Two per insertion would empty the old array in time; four has slack. */
#define MIGRATE_PER_INSERT 4
#define LINE 64 /* bytes that are fetched at once on most machines */

static const uint8_t *entry_key(const nm_table *table,
                                const nm_table_link *entry) {
  return (const uint8_t *)entry + table->config.key_offset;
}

uint64_t nm_table_hash(const nm_table *table, const void *key) {
  uint64_t hash;
  crypto_shorthash((uint8_t *)&hash, (const uint8_t *)key,
                   table->config.key_size, table->config.hash_key);
  return hash;
}

/* The chain that holds (or would hold) |hash|: while a growth is under way,
 * an old bucket counts until it was moved. */
static nm_table_link **bucket_of(const nm_table *table, uint64_t hash) {
  if (table->old_buckets != NULL) {
    size_t at = hash & (table->old_count - 1);
    if (at >= table->old_moved) {
      return &table->old_buckets[at];
    }
  }
  return &table->buckets[hash & (table->bucket_count - 1)];
}

bool nm_table_keep(void *user, nm_table_link *entry) {
  (void)user;
  (void)entry;
  return false;
}

int nm_table_init(nm_table *table, const nm_mem *mem,
                  const nm_table_config *config) {
  memset(table, 0, sizeof(*table));
  table->mem = mem;
  table->config = *config;
  table->buckets = nm_alloc_zero(mem, BUCKETS_MIN, sizeof(table->buckets[0]));
  if (table->buckets == NULL) {
    return NM_E(MEMORY);
  }
  table->bucket_count = BUCKETS_MIN;
  return NM_OK;
}

void nm_table_dispose(nm_table *table) {
  if (table->mem == NULL) {
    return; /* never initialised */
  }
  while (table->oldest != NULL) {
    nm_table_link *entry = table->oldest;
    nm_table_remove(table, entry);
    table->config.dispose(table->config.user, entry);
  }
  nm_release(table->mem, table->old_buckets);
  nm_release(table->mem, table->buckets);
  table->old_buckets = NULL;
  table->buckets = NULL;
  table->bucket_count = 0;
}

nm_table_link *nm_table_find(const nm_table *table, const void *key) {
  return table->count == 0
             ? NULL
             : nm_table_find_hashed(table, nm_table_hash(table, key), key);
}

nm_table_link *nm_table_find_hashed(const nm_table *table, uint64_t hash,
                                    const void *key) {
  nm_table_link *entry = *bucket_of(table, hash);
  while (entry != NULL &&
         (entry->hash != hash ||
          memcmp(entry_key(table, entry), key, table->config.key_size) != 0)) {
    entry = entry->chain;
  }
  return entry;
}

void nm_table_fetch_place(const nm_table *table, uint64_t hash) {
  __builtin_prefetch(bucket_of(table, hash));
}

void nm_table_fetch_entry(const nm_table *table, uint64_t hash) {
  const nm_table_link *entry = *bucket_of(table, hash);
  if (entry != NULL) {
    __builtin_prefetch(entry);
    /* The key and what follows it. */
    __builtin_prefetch((const uint8_t *)entry + LINE);
  }
}

void nm_table_fetch_neighbours(const nm_table *table, uint64_t hash) {
  const nm_table_link *entry = *bucket_of(table, hash);
  while (entry != NULL && entry->hash != hash) {
    entry = entry->chain;
  }
  if (entry != NULL) {
    __builtin_prefetch(entry->older, 1);
    __builtin_prefetch(entry->newer, 1);
  }
}

void nm_table_fetch_oldest(const nm_table *table, size_t count, int round) {
  const nm_table_link *entry = table->oldest;
  for (; entry != NULL && count > 0; entry = entry->newer, count--) {
    if (round == 0) {
      nm_table_fetch_place(table, entry->hash);
    } else {
      __builtin_prefetch(*bucket_of(table, entry->hash));
    }
  }
}

static void order_unlink(nm_table *table, nm_table_link *entry) {
  if (entry->older != NULL) {
    entry->older->newer = entry->newer;
  } else {
    table->oldest = entry->newer;
  }
  if (entry->newer != NULL) {
    entry->newer->older = entry->older;
  } else {
    table->newest = entry->older;
  }
}

static void order_append(nm_table *table, nm_table_link *entry) {
  entry->older = table->newest;
  entry->newer = NULL;
  if (table->newest != NULL) {
    table->newest->newer = entry;
  } else {
    table->oldest = entry;
  }
  table->newest = entry;
}

void nm_table_touch(nm_table *table, nm_table_link *entry) {
  if (table->newest != entry) {
    order_unlink(table, entry);
    order_append(table, entry);
  }
}

/* Moves up to |count| buckets of the old array into the new one. */
static void migrate(nm_table *table, size_t count) {
  while (table->old_buckets != NULL && count-- > 0) {
    nm_table_link *entry = table->old_buckets[table->old_moved++];
    while (entry != NULL) {
      nm_table_link *next = entry->chain;
      nm_table_link **bucket =
          &table->buckets[entry->hash & (table->bucket_count - 1)];
      entry->chain = *bucket;
      *bucket = entry;
      entry = next;
    }
    if (table->old_moved == table->old_count) {
      nm_release(table->mem, table->old_buckets);
      table->old_buckets = NULL;
    }
  }
}

static int grow(nm_table *table) {
  size_t count = table->bucket_count * 2;
  nm_table_link **buckets =
      nm_alloc_zero(table->mem, count, sizeof(buckets[0]));
  if (buckets == NULL) {
    return NM_E(MEMORY);
  }
  migrate(table, table->old_count);
  table->old_buckets = table->buckets;
  table->old_count = table->bucket_count;
  table->old_moved = 0;
  table->buckets = buckets;
  table->bucket_count = count;
  return NM_OK;
}

/* The entries up to |last| count as used just now. */
static void pass_over(nm_table *table, nm_table_link *last) {
  nm_table_link *first = table->oldest;
  if (last == table->newest) {
    return;
  }
  table->oldest = last->newer;
  table->oldest->older = NULL;
  first->older = table->newest;
  table->newest->newer = first;
  last->newer = NULL;
  table->newest = last;
}

/* Frees one place. NM_E(LIMIT) when no entry may go, or none of those that were
 * looked at: the next insertion looks at others. */
static int evict(nm_table *table) {
  const nm_table_config *config = &table->config;
  nm_table_link *entry = table->oldest;
  if (config->may_evict == nm_table_keep) {
    return NM_E(LIMIT);
  }
  size_t looks = 0;
  while (entry != NULL && config->may_evict != NULL &&
         !config->may_evict(config->user, entry)) {
    if (++looks == config->looks_max) {
      pass_over(table, entry);
      return NM_E(LIMIT);
    }
    entry = entry->newer;
  }
  if (entry == NULL) {
    return NM_E(LIMIT);
  }
  nm_table_remove(table, entry);
  config->dispose(config->user, entry);
  table->evictions++;
  return NM_OK;
}

int nm_table_insert(nm_table *table, nm_table_link *entry) {
  return nm_table_insert_hashed(table, entry,
                                nm_table_hash(table, entry_key(table, entry)));
}

int nm_table_insert_hashed(nm_table *table, nm_table_link *entry,
                           uint64_t hash) {
  if (table->count >= table->config.capacity) {
    int status = evict(table);
    if (status != NM_OK) {
      return status;
    }
  }
  /* A failed growth only makes the chains longer. */
  if (table->count >= table->bucket_count && grow(table) != NM_OK &&
      table->count >= table->bucket_count * 8) {
    return NM_E(MEMORY);
  }
  migrate(table, MIGRATE_PER_INSERT);
  entry->hash = hash;
  nm_table_link **bucket = bucket_of(table, entry->hash);
  entry->chain = *bucket;
  *bucket = entry;
  order_append(table, entry);
  table->count++;
  return NM_OK;
}

void nm_table_remove(nm_table *table, nm_table_link *entry) {
  nm_table_link **at = bucket_of(table, entry->hash);
  while (*at != entry) {
    at = &(*at)->chain;
  }
  *at = entry->chain;
  order_unlink(table, entry);
  entry->chain = NULL;
  entry->older = NULL;
  entry->newer = NULL;
  table->count--;
}

nm_table_link *nm_table_next(const nm_table *table,
                             const nm_table_link *entry) {
  return entry == NULL ? table->oldest : entry->newer;
}

/* The cursor after |cursor| when its low bits are counted in reverse, so that a
 * place keeps its turn when it is split by a growth. */
static uint64_t reverse_next(uint64_t cursor, uint64_t mask) {
  uint64_t bit = (mask >> 1) + 1;
  if (mask == 0) {
    return 0;
  }
  while (bit != 0 && (cursor & bit) != 0) {
    cursor &= ~bit;
    bit >>= 1;
  }
  return cursor | bit;
}

static void visit_chain(nm_table_link *entry,
                        void (*visit)(void *user, nm_table_link *entry),
                        void *user) {
  for (; entry != NULL; entry = entry->chain) {
    visit(user, entry);
  }
}

uint64_t nm_table_scan(const nm_table *table, uint64_t cursor,
                       void (*visit)(void *user, nm_table_link *entry),
                       void *user) {
  uint64_t large = table->bucket_count - 1;
  if (table->old_buckets == NULL) {
    cursor &= large;
    visit_chain(table->buckets[cursor], visit, user);
    return reverse_next(cursor, large);
  }
  /* A growth doubles: one place of the old array is two of the new one. */
  uint64_t small = table->old_count - 1;
  cursor &= small;
  if (cursor >= table->old_moved) {
    visit_chain(table->old_buckets[cursor], visit, user);
  }
  visit_chain(table->buckets[cursor], visit, user);
  visit_chain(table->buckets[cursor + table->old_count], visit, user);
  return reverse_next(cursor, small);
}
