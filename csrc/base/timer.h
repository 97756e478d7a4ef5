/* Timers: a binary heap of deadlines in monotonic microseconds. Entries are
 * embedded in the caller's structs, so arming never fails once the heap has
 * room for every owner (nm_timers_reserve).
 */
#ifndef NM_BASE_TIMER_H
#define NM_BASE_TIMER_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define NM_TIMER_NEVER UINT64_MAX

typedef struct nm_timer {
  uint64_t due_us;
  uint64_t order; /* equal deadlines fire in the order of arming */
  size_t slot;    /* position in the heap plus one; 0 when idle */
  void (*fire)(void *user, struct nm_timer *timer);
} nm_timer;

typedef struct nm_timers {
  const nm_mem *mem;
  nm_timer **heap;
  size_t count;
  size_t cap;
  uint64_t next_order;
} nm_timers;

void nm_timers_init(nm_timers *timers, const nm_mem *mem);
void nm_timers_dispose(nm_timers *timers);
/* Room for |count| armed timers. 0 or NM_E(MEMORY). */
int nm_timers_reserve(nm_timers *timers, size_t count);
/* Arms (or moves) |timer|. Returns NM_E(LIMIT) when there is no room. */
int nm_timer_arm(nm_timers *timers, nm_timer *timer, uint64_t due_us);
void nm_timer_disarm(nm_timers *timers, nm_timer *timer);
static inline bool nm_timer_armed(const nm_timer *timer) {
  return timer->slot != 0;
}
/* The earliest deadline, NM_TIMER_NEVER when none is armed. */
uint64_t nm_timers_next(const nm_timers *timers);
/* Fires every timer due at |now_us|, earliest first, at most |budget| of them;
 * each is idle while its function runs. Returns how many fired. */
size_t nm_timers_run(nm_timers *timers, uint64_t now_us, void *user,
                     size_t budget);

#endif
