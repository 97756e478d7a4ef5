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
