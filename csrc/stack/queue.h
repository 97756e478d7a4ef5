/* The engine's two outgoing queues: packets for interfaces and events for the
 * owner.
 */
#ifndef NM_STACK_QUEUE_H
#define NM_STACK_QUEUE_H

#include "stack/engine.h"

/* ---- packets: a ring that grows up to its capacity ---- */

typedef struct nm_outbox {
  const nm_mem *mem;
  nm_output *ring;
  size_t cap;
  size_t head;
  size_t count;
  size_t max;
} nm_outbox;

void nm_outbox_init(nm_outbox *box, const nm_mem *mem, size_t max);
void nm_outbox_dispose(nm_outbox *box);
/* Takes over one reference of |packet| on success. NM_E(LIMIT),
 * NM_E(MEMORY). */
int nm_outbox_push(nm_outbox *box, nm_iface_id iface, nm_block *packet,
                   nm_op_id op);
bool nm_outbox_pop(nm_outbox *box, nm_output *out);
/* Drops what waits for |iface|. Returns how many; their operations are given
 * to |each| first. */
size_t nm_outbox_purge(nm_outbox *box, nm_iface_id iface,
                       void (*each)(void *user, nm_op_id op), void *user);

/* ---- events: one order for both kinds ---- */

/* A place in the queue. With `take` the event is made only when it is read:
 * the entry is then embedded in its owner, who learns that it has left the
 * queue. Without, the entry is the head of an nm_event_node. */
typedef struct nm_event_entry {
  struct nm_event_entry *next;
  struct nm_event_entry *prev;
  struct nm_event_entry *lossy_next; /* in the order of the lossy ones */
  struct nm_event_entry *lossy_prev;
  bool queued;
  bool lossy;
  void (*take)(struct nm_event_entry *entry, nm_event *event);
} nm_event_entry;

typedef struct nm_event_node {
  nm_event_entry entry;
  nm_event event;
} nm_event_node;

typedef struct nm_eventq {
  const nm_mem *mem;
  nm_event_entry *first;
  nm_event_entry *last;
  nm_event_entry *lossy_first;
  nm_event_entry *lossy_last;
  size_t lossy_count;
  size_t lossy_max;
  uint64_t credit;
  uint64_t lossy_dropped;
  uint64_t lossy_coalesced;
} nm_eventq;

void nm_eventq_init(nm_eventq *q, const nm_mem *mem, size_t lossy_max);
void nm_eventq_dispose(nm_eventq *q);

/* A node made ahead of time, so that a terminal event cannot fail. */
nm_event_node *nm_event_node_new(const nm_mem *mem);
void nm_event_node_free(const nm_mem *mem, nm_event_node *node);

/* Queues |event|, whose blocks it takes over in every case. The oldest lossy
 * event makes room. A PROGRESS event of an operation replaces the one that
 * still waits, a PATH event the one of its destination, an IFACE event the one
 * of its interface. */
void nm_eventq_lossy(nm_eventq *q, nm_event *event);
/* Takes one credit and a node for a reliable event; NULL when there is no
 * credit (|status| NM_E(LIMIT)) or memory. Ask before accepting anything. */
nm_event_node *nm_eventq_reserve(nm_eventq *q, int *status);
/* Takes one credit for an entry of the caller's; false when there is none. */
bool nm_eventq_take_credit(nm_eventq *q);
void nm_eventq_return_credit(nm_eventq *q);
/* Gives a reserved node and its credit back unused. */
void nm_eventq_unreserve(nm_eventq *q, nm_event_node *node);
/* Queues a reserved or pre-made node, whose event is filled in. */
void nm_eventq_commit(nm_eventq *q, nm_event_node *node);
/* Queues an entry of the caller's with `take` set; it cannot fail. */
void nm_eventq_append(nm_eventq *q, nm_event_entry *entry);
bool nm_eventq_pop(nm_eventq *q, nm_event *event);

#endif
