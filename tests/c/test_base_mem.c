#include "support.h"

#include <string.h>

NM_TEST(zeroed_memory_is_zero_and_refuses_overflow) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  uint8_t *p = nm_alloc_zero(&t.mem, 10, 10);
  NM_CHECK(p != NULL);
  for (size_t i = 0; i < 100; i++) {
    NM_CHECK_INT(p[i], 0);
  }
  nm_release(&t.mem, p);
  NM_CHECK(nm_alloc_zero(&t.mem, SIZE_MAX / 2, 3) == NULL);
  NM_CHECK(nm_alloc_zero(&t.mem, 0, 3) == NULL);
  NM_CHECK_INT(t.calls, 1);
  NM_CHECK_INT(t.live, 0);
}

NM_TEST(the_system_allocator_keeps_content_when_it_resizes) {
  char *p = nm_alloc(&nm_mem_system, 4);
  NM_CHECK(p != NULL);
  memcpy(p, "abc", 4);
  p = nm_resize(&nm_mem_system, p, 100000);
  NM_CHECK(p != NULL && strcmp(p, "abc") == 0);
  nm_release(&nm_mem_system, p);
  nm_release(&nm_mem_system, NULL);
}

NM_TEST(a_buffer_uses_the_callers_storage_until_it_is_full) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  char storage[8];
  nm_buffer b;
  nm_buffer_init(&b, &t.mem, storage, sizeof storage, 0);
  NM_CHECK_OK(nm_buffer_append(&b, "12345678", 8));
  NM_CHECK_INT(t.calls, 0);
  NM_CHECK(b.ptr == (unsigned char *)storage);
  NM_CHECK_OK(nm_buffer_append(&b, "9", 1));
  NM_CHECK_INT(t.calls, 1);
  NM_CHECK_BYTES(b.ptr, "123456789", 9);
  nm_buffer_dispose(&b);
  NM_CHECK_INT(t.live, 0);
  NM_CHECK_INT(b.len, 0);
}

NM_TEST(a_buffer_grows_by_a_factor) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_buffer b;
  nm_buffer_init(&b, &t.mem, NULL, 0, 0);
  for (size_t i = 0; i < 100000; i++) {
    uint8_t byte = (uint8_t)i;
    NM_CHECK_OK(nm_buffer_append(&b, &byte, 1));
  }
  NM_CHECK(t.calls < 30);
  for (size_t i = 0; i < 100000; i++) {
    NM_CHECK_INT(b.ptr[i], (uint8_t)i);
  }
  nm_buffer_dispose(&b);
}

NM_TEST(a_buffer_refuses_a_length_that_overflows) {
  nm_buffer b;
  nm_buffer_init(&b, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_buffer_append(&b, "x", 1));
  NM_CHECK_STATUS(nm_buffer_reserve(&b, SIZE_MAX), NM_E(LIMIT));
  NM_CHECK_INT(b.len, 1);
  nm_buffer_dispose(&b);
}

/* An allocator that notes whether released blocks were wiped. */
typedef struct watcher {
  nm_mem mem;
  size_t size[4];
  uint8_t *block[4];
  size_t blocks;
  bool all_wiped;
} watcher;

static void *watch_alloc(void *user, size_t size) {
  watcher *w = user;
  w->size[w->blocks] = size;
  w->block[w->blocks] = nm_alloc(&nm_mem_system, size);
  return w->block[w->blocks++];
}

static void *watch_resize(void *user, void *ptr, size_t size) {
  watcher *w = user;
  w->all_wiped = false; /* would leave the old block to the library */
  return nm_resize(&nm_mem_system, ptr, size);
}

static void watch_release(void *user, void *ptr) {
  watcher *w = user;
  for (size_t i = 0; i < w->blocks; i++) {
    for (size_t j = 0; w->block[i] == ptr && j < w->size[i]; j++) {
      w->all_wiped = w->all_wiped && w->block[i][j] != 's';
    }
  }
  nm_release(&nm_mem_system, ptr);
}

NM_TEST(a_secret_buffer_leaves_nothing_behind) {
  watcher w = {
      {&w, watch_alloc, watch_resize, watch_release}, {0}, {NULL}, 0, true};
  char storage[4] = {'s', 's', 's', 's'};
  char secret[200];
  memset(secret, 's', sizeof secret);
  nm_buffer b;
  nm_buffer_init(&b, &w.mem, storage, sizeof storage, 1);
  NM_CHECK_OK(nm_buffer_append(&b, secret, 4));
  NM_CHECK_OK(nm_buffer_append(&b, secret, 10));
  NM_CHECK(memchr(storage, 's', sizeof storage) == NULL);
  NM_CHECK_OK(nm_buffer_append(&b, secret, 200));
  NM_CHECK_INT(w.blocks, 2);
  nm_buffer_dispose(&b);
  NM_CHECK(w.all_wiped);
}

static int grow_twice(const nm_mem *mem, void *user) {
  nm_buffer b;
  nm_buffer_init(&b, mem, NULL, 0, *(int *)user);
  int status = nm_buffer_append(&b, "abc", 3);
  if (status == NM_OK) {
    status = nm_buffer_reserve(&b, 1000);
    NM_CHECK_BYTES(b.ptr, "abc", 3);
  }
  nm_buffer_dispose(&b);
  return status;
}

NM_TEST(a_buffer_survives_every_failing_allocation) {
  for (int secret = 0; secret <= 1; secret++) {
    NM_CHECK_INT(nm_test_fail_each(grow_twice, &secret), 2);
  }
}
