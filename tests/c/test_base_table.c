/* The bounded table: walks that go on while it changes. */
#include "base/table.h"
#include "support.h"

#include <string.h>

typedef struct entry {
  nm_table_link link;
  uint32_t key;
} entry;

#define ENTRIES 3000

typedef struct fixture {
  nm_table table;
  entry entries[ENTRIES];
  uint32_t visits[ENTRIES];
} fixture;

static void keep(void *user, nm_table_link *link) {
  (void)user;
  (void)link;
}

static fixture *begin(void) {
  fixture *f = nm_test_scratch(sizeof(*f));
  memset(f, 0, sizeof(*f));
  nm_table_config config = {.capacity = ENTRIES,
                            .key_size = sizeof(uint32_t),
                            .key_offset = offsetof(entry, key),
                            .dispose = keep};
  NM_CHECK_OK(nm_table_init(&f->table, &nm_mem_system, &config));
  for (uint32_t i = 0; i < ENTRIES; i++) {
    f->entries[i].key = i;
  }
  return f;
}

static void add(fixture *f, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    NM_CHECK_OK(nm_table_insert(&f->table, &f->entries[i].link));
  }
}

static void count_visit(void *user, nm_table_link *link) {
  fixture *f = user;
  f->visits[((entry *)(void *)link)->key]++;
}

NM_TEST(a_scan_visits_each_entry_once_when_nothing_changes) {
  fixture *f = begin();
  /* Also in the middle of a growth, at every stage of it. */
  for (uint32_t size = 1; size <= 300; size++) {
    add(f, size - 1, size);
    memset(f->visits, 0, sizeof(f->visits));
    uint64_t cursor = 0;
    do {
      cursor = nm_table_scan(&f->table, cursor, count_visit, f);
    } while (cursor != 0);
    for (uint32_t i = 0; i < size; i++) {
      NM_CHECK_INT(f->visits[i], 1);
    }
  }
  nm_table_dispose(&f->table);
}

NM_TEST(a_scan_misses_no_entry_while_the_table_grows_and_shrinks) {
  for (int round = 0; round < 50; round++) {
    fixture *f = begin();
    uint32_t stable = 20 + nm_test_below(400);
    uint32_t extra = stable;
    uint32_t removed = stable;
    add(f, 0, stable);
    uint64_t cursor = 0;
    do {
      cursor = nm_table_scan(&f->table, cursor, count_visit, f);
      uint32_t more = nm_test_below(12);
      more = extra + more > ENTRIES ? ENTRIES - extra : more;
      add(f, extra, extra + more);
      extra += more;
      nm_table_touch(&f->table, &f->entries[nm_test_below(stable)].link);
      if (removed < extra && nm_test_below(3) == 0) {
        nm_table_remove(&f->table, &f->entries[removed++].link);
      }
    } while (cursor != 0);
    for (uint32_t i = 0; i < stable; i++) {
      NM_CHECK(f->visits[i] >= 1);
    }
    nm_table_dispose(&f->table);
  }
}

/* ---- bounded steps ---- */

static uint32_t asked;

static bool only_late_ones(void *user, nm_table_link *link) {
  (void)user;
  asked++;
  return ((entry *)(void *)link)->key >= 2500;
}

NM_TEST(an_insertion_into_a_full_table_asks_about_a_bounded_number) {
  fixture *f = begin();
  entry more = {.key = ENTRIES};
  f->table.config.may_evict = only_late_ones;
  f->table.config.looks_max = 1000;
  add(f, 0, ENTRIES);
  for (int i = 0; i < 2; i++) {
    asked = 0;
    NM_CHECK_INT(nm_table_insert(&f->table, &more.link), NM_E(LIMIT));
    NM_CHECK_INT(asked, 1000);
    NM_CHECK_INT(f->table.count, ENTRIES);
  }
  asked = 0;
  NM_CHECK_OK(nm_table_insert(&f->table, &more.link));
  NM_CHECK_INT(asked, 501);
  uint32_t gone = 2500;
  NM_CHECK(nm_table_find(&f->table, &gone) == NULL);
  /* The order is whole in both directions. */
  uint32_t count = 0;
  nm_table_link *last = NULL;
  for (nm_table_link *at = nm_table_next(&f->table, NULL); at != NULL;
       at = nm_table_next(&f->table, at)) {
    NM_CHECK(at->older == last);
    last = at;
    count++;
  }
  NM_CHECK(last == f->table.newest && last == &more.link);
  NM_CHECK_INT(count, ENTRIES);
  /* One that keeps everything asks about nothing. */
  nm_table_remove(&f->table, &more.link);
  add(f, 2500, 2501);
  f->table.config.may_evict = nm_table_keep;
  NM_CHECK_INT(nm_table_insert(&f->table, &more.link), NM_E(LIMIT));
  nm_table_dispose(&f->table);
}

NM_TEST(a_growth_moves_a_few_places_with_each_insertion) {
  fixture *f = begin();
  for (uint32_t i = 0; i < ENTRIES; i++) {
    size_t buckets = f->table.bucket_count;
    size_t moved = f->table.old_moved;
    bool moving = f->table.old_buckets != NULL;
    add(f, i, i + 1);
    if (f->table.bucket_count != buckets) {
      NM_CHECK(!moving); /* else the rest had to be moved at once */
    } else if (moving) {
      NM_CHECK(f->table.old_moved - moved <= 4);
    }
  }
  nm_table_dispose(&f->table);
}
