#include "sim/agenda.h"

#include <string.h>

#define CAP_MIN 64
/* Four children: half the levels, and they share a cache line or two. */
#define ARITY 4

void nm_sim_agenda_init(nm_sim_agenda *agenda, const nm_mem *mem) {
  memset(agenda, 0, sizeof(*agenda));
  agenda->mem = mem;
}

void nm_sim_agenda_dispose(nm_sim_agenda *agenda) {
  nm_release(agenda->mem, agenda->heap);
  agenda->heap = NULL;
  agenda->count = 0;
  agenda->cap = 0;
}

static bool before(const nm_sim_item *a, const nm_sim_item *b) {
  return a->time_ns != b->time_ns ? a->time_ns < b->time_ns
                                  : a->order < b->order;
}

static int grow(nm_sim_agenda *agenda) {
  size_t cap = agenda->cap == 0 ? CAP_MIN : agenda->cap * 2;
  nm_sim_item *heap =
      nm_resize(agenda->mem, agenda->heap, cap * sizeof(heap[0]));
  if (heap == NULL) {
    return NM_E(MEMORY);
  }
  agenda->heap = heap;
  agenda->cap = cap;
  return NM_OK;
}

int nm_sim_agenda_put(nm_sim_agenda *agenda, const nm_sim_item *item) {
  if (agenda->count == agenda->cap) {
    int status = grow(agenda);
    if (status != NM_OK) {
      return status;
    }
  }
  nm_sim_item placed = *item;
  placed.order = agenda->next_order++;
  size_t at = agenda->count++;
  while (at > 0 && before(&placed, &agenda->heap[(at - 1) / ARITY])) {
    agenda->heap[at] = agenda->heap[(at - 1) / ARITY];
    at = (at - 1) / ARITY;
  }
  agenda->heap[at] = placed;
  return NM_OK;
}

uint64_t nm_sim_agenda_next(const nm_sim_agenda *agenda) {
  return agenda->count == 0 ? NM_SIM_NEVER : agenda->heap[0].time_ns;
}

static size_t first_child(const nm_sim_agenda *agenda, size_t at) {
  size_t child = at * ARITY + 1;
  size_t end = child + ARITY < agenda->count ? child + ARITY : agenda->count;
  size_t best = child;
  for (size_t i = child + 1; i < end; i++) {
    if (before(&agenda->heap[i], &agenda->heap[best])) {
      best = i;
    }
  }
  return best;
}

bool nm_sim_agenda_take(nm_sim_agenda *agenda, nm_sim_item *item) {
  if (agenda->count == 0) {
    return false;
  }
  *item = agenda->heap[0];
  nm_sim_item last = agenda->heap[--agenda->count];
  size_t at = 0;
  while (at * ARITY + 1 < agenda->count) {
    size_t child = first_child(agenda, at);
    if (!before(&agenda->heap[child], &last)) {
      break;
    }
    agenda->heap[at] = agenda->heap[child];
    at = child;
  }
  if (agenda->count > 0) {
    agenda->heap[at] = last;
  }
  return true;
}
