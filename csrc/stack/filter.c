#include "stack/filter.h"

#include <sodium.h>
#include <string.h>

#define SLOTS_MIN 64
#define MIGRATE_PER_PUT 8
#define NOWHERE SIZE_MAX
/* In a tag: a driver has taken it. */
#define KEPT 0x10000u

/* Keyed, since peers choose what their packets hash to. */
uint64_t nm_filter_key(const nm_filter *filter, const nm_packet_hash *hash) {
  uint64_t key;
  crypto_shorthash((uint8_t *)&key, hash->b, NM_ADDRESS_SIZE, filter->hash_key);
  return key;
}

static uint32_t tag_of(const nm_hash_slots *slots, uint64_t key) {
  return ((uint32_t)(key >> 32) & 0xfffe0000u) | slots->epoch;
}

static bool is_filled(const nm_hash_slots *slots, size_t at) {
  return (uint16_t)slots->tags[at] == slots->epoch;
}

static size_t home_of(const nm_hash_slots *slots, uint64_t key) {
  return (size_t)key & (slots->count - 1);
}

/* The place of |hash|, or the empty one where it would go (is_filled tells);
 * NOWHERE without slots. */
static size_t probe(const nm_hash_slots *slots, const nm_packet_hash *hash,
                    uint64_t key) {
  if (slots->count == 0) {
    return NOWHERE;
  }
  uint32_t tag = tag_of(slots, key);
  size_t at = home_of(slots, key);
  while (is_filled(slots, at) &&
         ((slots->tags[at] & ~KEPT) != tag ||
          memcmp(slots->hashes[at].b, hash->b, NM_HASH_SIZE) != 0)) {
    at = (at + 1) & (slots->count - 1);
  }
  return at;
}

static bool slots_have(const nm_hash_slots *slots, const nm_packet_hash *hash,
                       uint64_t key) {
  size_t at = probe(slots, hash, key);
  return at != NOWHERE && is_filled(slots, at);
}

static bool set_has(const nm_hash_set *set, const nm_packet_hash *hash,
                    uint64_t key) {
  return slots_have(&set->now, hash, key) || slots_have(&set->old, hash, key);
}

static void slots_put(nm_hash_slots *slots, const nm_packet_hash *hash,
                      uint64_t key, uint32_t kept) {
  size_t at = probe(slots, hash, key);
  slots->tags[at] = tag_of(slots, key) | kept;
  slots->hashes[at] = *hash;
}

static void slots_dispose(const nm_mem *mem, nm_hash_slots *slots) {
  nm_release(mem, slots->tags);
  nm_release(mem, slots->hashes);
  memset(slots, 0, sizeof(*slots));
}

static void set_dispose(const nm_mem *mem, nm_hash_set *set) {
  slots_dispose(mem, &set->now);
  slots_dispose(mem, &set->old);
  memset(set, 0, sizeof(*set));
}

/* Copies up to |count| old slots over. The old array stays as it is until it
 * is empty, so that probing in it never breaks off early. */
static void migrate(const nm_filter *filter, nm_hash_set *set, size_t count) {
  while (set->old.count > 0 && count-- > 0) {
    size_t at = set->old_moved++;
    if (is_filled(&set->old, at)) {
      const nm_packet_hash *hash = &set->old.hashes[at];
      slots_put(&set->now, hash, nm_filter_key(filter, hash),
                set->old.tags[at] & KEPT);
    }
    if (set->old_moved == set->old.count) {
      slots_dispose(filter->mem, &set->old);
    }
  }
}

static bool set_grow(const nm_filter *filter, nm_hash_set *set) {
  nm_hash_slots grown = {.count = set->now.count == 0 ? SLOTS_MIN
                                                      : set->now.count * 2,
                         .epoch = 1};
  grown.tags = nm_alloc_zero(filter->mem, grown.count, sizeof(grown.tags[0]));
  grown.hashes = nm_alloc(filter->mem, grown.count * sizeof(grown.hashes[0]));
  if (grown.tags == NULL || grown.hashes == NULL) {
    slots_dispose(filter->mem, &grown);
    return false;
  }
  migrate(filter, set, set->old.count);
  set->old = set->now;
  set->old_moved = 0;
  set->now = grown;
  return true;
}

void nm_filter_init(nm_filter *filter, const nm_mem *mem,
                    const uint8_t hash_key[16], size_t generation_max) {
  memset(filter, 0, sizeof(*filter));
  filter->mem = mem;
  filter->generation_max = generation_max;
  memcpy(filter->hash_key, hash_key, sizeof(filter->hash_key));
}

void nm_filter_dispose(nm_filter *filter) {
  if (filter->mem == NULL) {
    return; /* never initialised */
  }
  set_dispose(filter->mem, &filter->current);
  set_dispose(filter->mem, &filter->previous);
}

static void fetch(const nm_hash_slots *slots, uint64_t key) {
  if (slots->count > 0) {
    __builtin_prefetch(&slots->tags[home_of(slots, key)]);
  }
}

void nm_filter_fetch(const nm_filter *filter, uint64_t key) {
  const nm_hash_slots *now = &filter->current.now;
  fetch(&filter->current.now, key);
  fetch(&filter->current.old, key);
  fetch(&filter->previous.now, key);
  fetch(&filter->previous.old, key);
  if (now->count > 0) {
    __builtin_prefetch(&now->hashes[home_of(now, key)], 1);
  }
}

bool nm_filter_has_keyed(const nm_filter *filter, const nm_packet_hash *hash,
                         uint64_t key) {
  return set_has(&filter->current, hash, key) ||
         set_has(&filter->previous, hash, key);
}

bool nm_filter_has(const nm_filter *filter, const nm_packet_hash *hash) {
  return nm_filter_has_keyed(filter, hash, nm_filter_key(filter, hash));
}

/* Empties a set whose growth is over, keeping its memory. */
static void set_empty(const nm_filter *filter, nm_hash_set *set) {
  nm_hash_slots *slots = &set->now;
  slots_dispose(filter->mem, &set->old);
  set->count = 0;
  set->unkept = 0;
  slots->epoch++;
  if (slots->epoch == 0 && slots->count > 0) {
    memset(slots->tags, 0, slots->count * sizeof(slots->tags[0]));
    slots->epoch = 1;
  }
}

static void rotate(nm_filter *filter) {
  nm_hash_set spare = filter->previous;
  filter->previous = filter->current;
  set_empty(filter, &spare);
  filter->current = spare;
  filter->rotations++;
}

void nm_filter_put_keyed(nm_filter *filter, const nm_packet_hash *hash,
                         uint64_t key) {
  nm_hash_set *set = &filter->current;
  if (set_has(set, hash, key)) {
    return;
  }
  if (set->count >= filter->generation_max) {
    rotate(filter);
  }
  /* At most three quarters full, so that probing stays short. */
  if (set->count + 1 > set->now.count - set->now.count / 4 &&
      !set_grow(filter, set)) {
    filter->lost++;
    return;
  }
  migrate(filter, set, MIGRATE_PER_PUT);
  slots_put(&set->now, hash, key, filter->kept_already ? KEPT : 0);
  set->count++;
  set->unkept += !filter->kept_already;
}

void nm_filter_put(nm_filter *filter, const nm_packet_hash *hash) {
  nm_filter_put_keyed(filter, hash, nm_filter_key(filter, hash));
}

#define KEEP_STEP 256

size_t nm_filter_unkept(const nm_filter *filter) {
  return filter->previous.unkept + filter->current.unkept;
}

static void keep_slots(nm_hash_set *set, nm_hash_slots *slots, size_t at,
                       size_t end, bool all,
                       void (*visit)(void *user, const nm_packet_hash *hash),
                       void *user) {
  for (; at < end; at++) {
    bool kept = (slots->tags[at] & KEPT) != 0;
    if (is_filled(slots, at) && (all || !kept)) {
      slots->tags[at] |= KEPT;
      set->unkept -= !kept;
      visit(user, &slots->hashes[at]);
    }
  }
}

uint64_t nm_filter_keep(nm_filter *filter, uint64_t cursor, bool all,
                        void (*visit)(void *user, const nm_packet_hash *hash),
                        void *user) {
  /* The older generation first: it is forgotten first when it is read back. */
  nm_hash_set *sets[] = {&filter->previous, &filter->current};
  uint64_t before = 0; /* slots of the parts that were walked */
  for (int i = 0; i < 4; i++) {
    nm_hash_set *set = sets[i / 2];
    nm_hash_slots *slots = i % 2 == 0 ? &set->old : &set->now;
    if (cursor < before + slots->count) {
      size_t at = (size_t)(cursor - before);
      size_t end =
          at + KEEP_STEP < slots->count ? at + KEEP_STEP : slots->count;
      /* Old slots that have moved are found where they are now. */
      size_t from = i % 2 == 0 && at < set->old_moved ? set->old_moved : at;
      keep_slots(set, slots, from, end, all, visit, user);
      return before + end;
    }
    before += slots->count;
  }
  return 0;
}

/* Empties a place and closes the gap: followers move up unless they stand
 * between their home and the gap. */
static void slots_remove(const nm_filter *filter, nm_hash_slots *slots,
                         size_t gap) {
  size_t mask = slots->count - 1;
  for (size_t at = (gap + 1) & mask; is_filled(slots, at);
       at = (at + 1) & mask) {
    size_t home = home_of(slots, nm_filter_key(filter, &slots->hashes[at]));
    if (((at - home) & mask) >= ((at - gap) & mask)) {
      slots->tags[gap] = slots->tags[at];
      slots->hashes[gap] = slots->hashes[at];
      gap = at;
    }
  }
  slots->tags[gap] = 0;
}

/* Whether a driver had taken it. */
static bool set_drop(const nm_filter *filter, nm_hash_set *set,
                     const nm_packet_hash *hash) {
  uint64_t key = nm_filter_key(filter, hash);
  if (!set_has(set, hash, key)) {
    return false;
  }
  /* Removal moves slots about, so a growth under way is finished first. */
  migrate(filter, set, set->old.count);
  size_t at = probe(&set->now, hash, key);
  bool kept = (set->now.tags[at] & KEPT) != 0;
  slots_remove(filter, &set->now, at);
  set->count--;
  set->unkept -= !kept;
  return kept;
}

void nm_filter_drop(nm_filter *filter, const nm_packet_hash *hash) {
  bool kept = set_drop(filter, &filter->current, hash);
  kept = set_drop(filter, &filter->previous, hash) || kept;
  filter->kept_lost = filter->kept_lost || kept;
}
