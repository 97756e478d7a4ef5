/* What will happen, in order of time; what is for the same moment happens in
 * the order in which it was put in.
 */
#ifndef NM_SIM_AGENDA_H
#define NM_SIM_AGENDA_H

#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define NM_SIM_NEVER UINT64_MAX

typedef enum nm_sim_item_kind {
  NM_SIM_ITEM_ARRIVAL, /* medium, to, from; ptr: the frame (nm_block) */
  NM_SIM_ITEM_SENT,    /* medium, to: the lane whose frame is out */
  NM_SIM_ITEM_JOB,     /* node; ptr: nm_sim_work */
  NM_SIM_ITEM_TIMER,   /* node */
  NM_SIM_ITEM_CALL     /* number: the tag */
} nm_sim_item_kind;

typedef struct nm_sim_item {
  uint64_t time_ns;
  uint64_t order;
  uint64_t number;
  void *ptr;
  uint32_t where; /* medium or node */
  uint32_t to;
  uint32_t from;
  nm_sim_item_kind kind;
} nm_sim_item;

typedef struct nm_sim_agenda {
  const nm_mem *mem;
  nm_sim_item *heap;
  size_t count;
  size_t cap;
  uint64_t next_order;
} nm_sim_agenda;

void nm_sim_agenda_init(nm_sim_agenda *agenda, const nm_mem *mem);
void nm_sim_agenda_dispose(nm_sim_agenda *agenda);
/* Puts |item| in; its `order` is set here. NM_E(MEMORY). */
int nm_sim_agenda_put(nm_sim_agenda *agenda, const nm_sim_item *item);
/* The time of the first item, NM_SIM_NEVER when there is none. */
uint64_t nm_sim_agenda_next(const nm_sim_agenda *agenda);
/* Takes the first item; false when there is none. */
bool nm_sim_agenda_take(nm_sim_agenda *agenda, nm_sim_item *item);

#endif
