/* The allocator that keeps what is given back. */
#include "base/stock.h"

#include "support.h"

#include <string.h>

#define KEEP (64u << 10)

static nm_stock_stats read_of(nm_stock *stock) {
  nm_stock_stats stats;
  nm_stock_read(stock, &stats);
  return stats;
}

NM_TEST(what_comes_back_serves_the_next_of_its_size) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_stock *stock = nm_stock_new(&t.mem, KEEP);
  const nm_mem *mem = nm_stock_mem(stock);
  static const size_t sizes[] = {1, 16, 17, 200, 1024, 1025, 5000, 20000};
  for (int round = 0; round < 50; round++) {
    void *ptrs[8];
    for (size_t i = 0; i < 8; i++) {
      ptrs[i] = nm_alloc(mem, sizes[i]);
      NM_CHECK(ptrs[i] != NULL && (uintptr_t)ptrs[i] % 16 == 0);
      memset(ptrs[i], round, sizes[i]);
    }
    NM_CHECK_INT(read_of(stock).lent, 8);
    for (size_t i = 0; i < 8; i++) {
      nm_release(mem, ptrs[i]);
    }
    nm_release(mem, NULL);
    NM_CHECK_INT(t.calls, 1 + 8);
  }
  nm_stock_stats stats = read_of(stock);
  NM_CHECK_INT(stats.fresh, 8);
  NM_CHECK_INT(stats.reused, 8 * 49);
  NM_CHECK_INT(stats.lent, 0);
  nm_stock_free(stock);
  NM_CHECK_INT(t.live, 0);
}

NM_TEST(a_full_stock_lets_old_sizes_go_for_new_ones) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_stock *stock = nm_stock_new(&t.mem, KEEP);
  const nm_mem *mem = nm_stock_mem(stock);
  void *old[64];
  for (size_t i = 0; i < 64; i++) {
    old[i] = nm_alloc(mem, 1024);
  }
  for (size_t i = 0; i < 64; i++) {
    nm_release(mem, old[i]);
  }
  NM_CHECK_INT(read_of(stock).kept, KEEP);
  for (int round = 0; round < 100; round++) {
    void *a = nm_alloc(mem, 500);
    void *b = nm_alloc(mem, 9000);
    nm_release(mem, a);
    nm_release(mem, b);
    NM_CHECK(read_of(stock).kept <= KEEP);
  }
  NM_CHECK(read_of(stock).fresh <= 64 + 4);
  /* What is larger than all that may be kept is not. */
  void *large = nm_alloc(mem, KEEP + 1);
  nm_release(mem, large);
  large = nm_alloc(mem, (8u << 20) + 5);
  nm_release(mem, large);
  NM_CHECK(read_of(stock).kept <= KEEP);
  nm_stock_free(stock);
  NM_CHECK_INT(t.live, 0);
}

NM_TEST(every_size_has_room_and_keeps_its_bytes_when_resized) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_stock *stock = nm_stock_new(&t.mem, 4u << 20);
  const nm_mem *mem = nm_stock_mem(stock);
  static const size_t steps[] = {1,     15,      16,      1000,   1024,
                                 1025,  1280,    1281,    70000,  3,
                                 64000, 1 << 20, 2 << 20, 900000, (2 << 20) + 1,
                                 40,    3 << 20, 1 << 20, 77};
  uint8_t *ptr = NULL;
  size_t had = 0;
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
    nm_test_context("%zu to %zu bytes", had, steps[i]);
    ptr = nm_resize(mem, ptr, steps[i]);
    NM_CHECK(ptr != NULL);
    size_t kept = had < steps[i] ? had : steps[i];
    for (size_t at = 0; at < kept; at++) {
      NM_CHECK(ptr[at] == (uint8_t)(at * 7));
    }
    for (size_t at = 0; at < steps[i]; at++) {
      ptr[at] = (uint8_t)(at * 7);
    }
    had = steps[i];
  }
  nm_release(mem, ptr);
  for (size_t size = 1; size < (3u << 20); size += 1 + size / 5) {
    ptr = nm_alloc(mem, size);
    memset(ptr, 1, size); /* the address sanitizer looks */
    nm_release(mem, ptr);
  }
  nm_stock_free(stock);
  NM_CHECK_INT(t.live, 0);
}

NM_TEST(a_stock_lives_until_the_last_of_it_has_come_back) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_stock *stock = nm_stock_new(&t.mem, KEEP);
  const nm_mem *mem = nm_stock_mem(stock);
  char *ptr = nm_alloc(mem, 100);
  nm_release(mem, nm_alloc(mem, 200));
  nm_stock_free(stock);
  NM_CHECK_INT(t.live, 2);
  memcpy(ptr, "still here", 11);
  char *more = nm_alloc(mem, 50);
  nm_release(mem, ptr);
  NM_CHECK_INT(t.live, 2);
  nm_release(mem, more);
  NM_CHECK_INT(t.live, 0);
  nm_stock_free(NULL);
}

NM_TEST(a_stock_without_memory_says_so) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  t.fail_at = 1;
  NM_CHECK(nm_stock_new(&t.mem, KEEP) == NULL);
  nm_stock *stock = nm_stock_new(&t.mem, KEEP);
  const nm_mem *mem = nm_stock_mem(stock);
  t.fail_at = t.calls + 1;
  NM_CHECK(nm_alloc(mem, 100) == NULL);
  char *ptr = nm_alloc(mem, 100);
  memcpy(ptr, "kept", 5);
  for (size_t size = 1000; size < (16u << 20); size *= 16) {
    t.fail_at = t.calls + 1;
    NM_CHECK(nm_resize(mem, ptr, size) == NULL);
    NM_CHECK(strcmp(ptr, "kept") == 0);
  }
  NM_CHECK(nm_alloc(mem, SIZE_MAX - 8) == NULL);
  nm_release(mem, ptr);
  nm_stock_free(stock);
  NM_CHECK_INT(t.live, 0);
}
