#include "base/timer.h"

#include "base/status.h"

#include <string.h>

void nm_timers_init(nm_timers *timers, const nm_mem *mem) {
  memset(timers, 0, sizeof(*timers));
  timers->mem = mem;
}

void nm_timers_dispose(nm_timers *timers) {
  nm_release(timers->mem, timers->heap);
  timers->heap = NULL;
  timers->count = 0;
  timers->cap = 0;
}

int nm_timers_reserve(nm_timers *timers, size_t count) {
  if (count <= timers->cap) {
    return NM_OK;
  }
  size_t cap = timers->cap < 16 ? 16 : timers->cap;
  while (cap < count) {
    cap *= 2;
  }
  nm_timer **heap =
      nm_resize(timers->mem, timers->heap, cap * sizeof(timers->heap[0]));
  if (heap == NULL) {
    return NM_E(MEMORY);
  }
  timers->heap = heap;
  timers->cap = cap;
  return NM_OK;
}

static bool before(const nm_timer *a, const nm_timer *b) {
  return a->due_us != b->due_us ? a->due_us < b->due_us : a->order < b->order;
}

static void place(nm_timers *timers, size_t at, nm_timer *timer) {
  timers->heap[at] = timer;
  timer->slot = at + 1;
}

static void sift_up(nm_timers *timers, size_t at) {
  nm_timer *timer = timers->heap[at];
  while (at > 0 && before(timer, timers->heap[(at - 1) / 2])) {
    place(timers, at, timers->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  place(timers, at, timer);
}

static void sift_down(nm_timers *timers, size_t at) {
  nm_timer *timer = timers->heap[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= timers->count) {
      break;
    }
    if (child + 1 < timers->count &&
        before(timers->heap[child + 1], timers->heap[child])) {
      child++;
    }
    if (!before(timers->heap[child], timer)) {
      break;
    }
    place(timers, at, timers->heap[child]);
    at = child;
  }
  place(timers, at, timer);
}

int nm_timer_arm(nm_timers *timers, nm_timer *timer, uint64_t due_us) {
  if (timer->slot == 0) {
    if (timers->count >= timers->cap) {
      return NM_E(LIMIT);
    }
    place(timers, timers->count, timer);
    timers->count++;
  }
  timer->due_us = due_us;
  timer->order = timers->next_order++;
  sift_up(timers, timer->slot - 1);
  sift_down(timers, timer->slot - 1);
  return NM_OK;
}

void nm_timer_disarm(nm_timers *timers, nm_timer *timer) {
  if (timer->slot == 0) {
    return;
  }
  size_t at = timer->slot - 1;
  timer->slot = 0;
  timers->count--;
  if (at == timers->count) {
    return;
  }
  place(timers, at, timers->heap[timers->count]);
  nm_timer *moved = timers->heap[at];
  sift_up(timers, at);
  sift_down(timers, moved->slot - 1);
}

uint64_t nm_timers_next(const nm_timers *timers) {
  return timers->count == 0 ? NM_TIMER_NEVER : timers->heap[0]->due_us;
}

size_t nm_timers_run(nm_timers *timers, uint64_t now_us, void *user,
                     size_t budget) {
  size_t fired = 0;
  while (fired < budget && timers->count > 0 &&
         timers->heap[0]->due_us <= now_us) {
    nm_timer *timer = timers->heap[0];
    nm_timer_disarm(timers, timer);
    timer->fire(user, timer);
    fired++;
  }
  return fired;
}
