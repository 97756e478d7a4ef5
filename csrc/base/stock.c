#include "base/stock.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* The address sanitizer is told of what nobody may touch at the moment. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NM_STOCK_POISONS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NM_STOCK_POISONS
#endif
#ifdef NM_STOCK_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ptr, size) ((void)(ptr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(ptr, size) ((void)(ptr), (void)(size))
#endif

/* Sizes: steps of 16 bytes up to 512, then eight to each doubling, up to 1 MiB.
 * Larger ones are not kept. Sizes that are nearly the same share a class, so
 * that what one kind of block gives back serves another: of a thousand commands
 * that open links the memory becomes that of the links. */
#define FINE_STEP 16u
#define FINE_MAX 512u
#define FINE_COUNT (FINE_MAX / FINE_STEP)
#define STEPS 8u
#define DOUBLINGS 11u
#define CLASS_COUNT (FINE_COUNT + DOUBLINGS * STEPS)
#define NOT_KEPT UINT32_MAX
/* Most chunks that make way for one. */
#define DROPPED_MAX 16

/* Before each allocation. */
typedef struct chunk {
  alignas(16) struct chunk *next; /* while it is kept */
  uint32_t class_at;              /* or NOT_KEPT */
} chunk;

struct nm_stock {
  nm_mem mem;
  const nm_mem *below;
  size_t keep_max;
  atomic_size_t holders; /* the owner and each allocation */
  atomic_uint_fast64_t fresh;
  atomic_uint_fast64_t reused;
  atomic_flag busy; /* guards what follows */
  bool ended;
  size_t kept;
  uint32_t hand; /* the class that makes way next */
  chunk *free[CLASS_COUNT];
};

/* The class of the least size that holds |size| bytes, which it sets. */
static uint32_t class_of(size_t size, size_t *room) {
  if (size <= FINE_MAX) {
    uint32_t at = size == 0 ? 0 : (uint32_t)((size - 1) / FINE_STEP);
    *room = (at + 1) * (size_t)FINE_STEP;
    return at;
  }
  size_t base = FINE_MAX;
  for (uint32_t at = FINE_COUNT; at < CLASS_COUNT; at += STEPS, base *= 2) {
    if (size <= 2 * base) {
      size_t each = base / STEPS;
      uint32_t step = (uint32_t)((size - base - 1) / each);
      *room = base + (step + 1) * each;
      return at + step;
    }
  }
  *room = size;
  return NOT_KEPT;
}

static size_t room_of(uint32_t class_at) {
  if (class_at < FINE_COUNT) {
    return (class_at + 1) * (size_t)FINE_STEP;
  }
  uint32_t above = class_at - FINE_COUNT;
  size_t base = (size_t)FINE_MAX << (above / STEPS);
  return base + (above % STEPS + 1) * (base / STEPS);
}

static void *bytes_of(chunk *c) {
  return c + 1;
}

static chunk *chunk_of(void *ptr) {
  return (chunk *)ptr - 1;
}

static bool enter(nm_stock *stock) {
  return !atomic_flag_test_and_set_explicit(&stock->busy, memory_order_acquire);
}

static void leave(nm_stock *stock) {
  atomic_flag_clear_explicit(&stock->busy, memory_order_release);
}

/* Gives a chunk that is not in use back to the allocator below. */
static void give_back(const nm_stock *stock, chunk *c) {
  if (c->class_at != NOT_KEPT) {
    ASAN_UNPOISON_MEMORY_REGION(bytes_of(c), room_of(c->class_at));
  }
  nm_release(stock->below, c);
}

static chunk *take_kept(nm_stock *stock, uint32_t class_at) {
  chunk *c = stock->free[class_at];
  if (c != NULL) {
    stock->free[class_at] = c->next;
    stock->kept -= room_of(class_at);
  }
  return c;
}

/* Drops what was kept of other sizes, a few at a time, so that |size| bytes
 * fit. One class is emptied before the next one is, so that those in use are
 * seldom among them. */
static bool make_room(nm_stock *stock, uint32_t class_at, size_t size) {
  if (stock->ended || size > stock->keep_max) {
    return false;
  }
  unsigned dropped = 0;
  unsigned passed = 0;
  while (stock->kept + size > stock->keep_max && dropped < DROPPED_MAX &&
         passed < CLASS_COUNT) {
    chunk *c = stock->hand != class_at ? take_kept(stock, stock->hand) : NULL;
    if (c != NULL) {
      give_back(stock, c);
      dropped++;
    } else {
      stock->hand = (stock->hand + 1) % CLASS_COUNT;
      passed++;
    }
  }
  return stock->kept + size <= stock->keep_max;
}

static void unhold(nm_stock *stock) {
  if (atomic_fetch_sub(&stock->holders, 1) == 1) {
    nm_release(stock->below, stock);
  }
}

static void *stock_alloc(void *user, size_t size) {
  nm_stock *stock = user;
  size_t room;
  uint32_t class_at = class_of(size, &room);
  chunk *c = NULL;
  if (class_at != NOT_KEPT && enter(stock)) {
    c = take_kept(stock, class_at);
    leave(stock);
  }
  if (c != NULL) {
    ASAN_UNPOISON_MEMORY_REGION(bytes_of(c), room);
    atomic_fetch_add_explicit(&stock->reused, 1, memory_order_relaxed);
  } else {
    c = room > SIZE_MAX - sizeof(*c)
            ? NULL
            : nm_alloc(stock->below, sizeof(*c) + room);
    if (c == NULL) {
      return NULL;
    }
    atomic_fetch_add_explicit(&stock->fresh, 1, memory_order_relaxed);
  }
  c->next = NULL;
  c->class_at = class_at;
  atomic_fetch_add(&stock->holders, 1);
  return bytes_of(c);
}

static void stock_release(void *user, void *ptr) {
  nm_stock *stock = user;
  if (ptr == NULL) {
    return;
  }
  chunk *c = chunk_of(ptr);
  bool keeps = false;
  if (c->class_at != NOT_KEPT && enter(stock)) {
    size_t room = room_of(c->class_at);
    keeps = make_room(stock, c->class_at, room);
    if (keeps) {
      ASAN_POISON_MEMORY_REGION(ptr, room);
      c->next = stock->free[c->class_at];
      stock->free[c->class_at] = c;
      stock->kept += room;
    }
    leave(stock);
  }
  if (!keeps) {
    give_back(stock, c);
  }
  unhold(stock);
}

static void *stock_resize(void *user, void *ptr, size_t size) {
  nm_stock *stock = user;
  if (ptr == NULL) {
    return stock_alloc(stock, size);
  }
  chunk *c = chunk_of(ptr);
  size_t room;
  uint32_t class_at = class_of(size, &room);
  if (class_at == NOT_KEPT && c->class_at == NOT_KEPT) {
    chunk *moved = room > SIZE_MAX - sizeof(*c)
                       ? NULL
                       : nm_resize(stock->below, c, sizeof(*c) + room);
    return moved == NULL ? NULL : bytes_of(moved);
  }
  if (class_at == c->class_at) {
    return ptr;
  }
  void *fresh = stock_alloc(stock, size);
  if (fresh != NULL) {
    /* One of the two is kept by size, and that one is the smaller or equal. */
    size_t had = c->class_at == NOT_KEPT ? size : room_of(c->class_at);
    memcpy(fresh, ptr, had < size ? had : size);
    stock_release(stock, ptr);
  }
  return fresh;
}

nm_stock *nm_stock_new(const nm_mem *mem, size_t keep_max) {
  nm_stock *stock = nm_alloc_zero(mem, 1, sizeof(*stock));
  if (stock == NULL) {
    return NULL;
  }
  stock->mem = (nm_mem){stock, stock_alloc, stock_resize, stock_release};
  stock->below = mem;
  stock->keep_max = keep_max;
  atomic_init(&stock->holders, 1);
  atomic_init(&stock->fresh, 0);
  atomic_init(&stock->reused, 0);
  atomic_flag_clear(&stock->busy);
  return stock;
}

const nm_mem *nm_stock_mem(const nm_stock *stock) {
  return &stock->mem;
}

void nm_stock_free(nm_stock *stock) {
  if (stock == NULL) {
    return;
  }
  while (!enter(stock)) {
    /* The other thread is a few instructions from its end. */
  }
  stock->ended = true;
  for (uint32_t at = 0; at < CLASS_COUNT; at++) {
    for (chunk *c = take_kept(stock, at); c != NULL; c = take_kept(stock, at)) {
      give_back(stock, c);
    }
  }
  leave(stock);
  unhold(stock);
}

void nm_stock_read(nm_stock *stock, nm_stock_stats *stats) {
  memset(stats, 0, sizeof(*stats));
  stats->fresh = atomic_load(&stock->fresh);
  stats->reused = atomic_load(&stock->reused);
  stats->lent = atomic_load(&stock->holders) - 1;
  if (enter(stock)) {
    stats->kept = stock->kept;
    leave(stock);
  }
}
