#include "stack/queue.h"

#include <string.h>

void nm_outbox_init(nm_outbox *box, const nm_mem *mem, size_t max) {
  memset(box, 0, sizeof(*box));
  box->mem = mem;
  box->max = max;
}

void nm_outbox_dispose(nm_outbox *box) {
  nm_output out;
  while (nm_outbox_pop(box, &out)) {
    nm_block_drop(out.packet);
  }
  nm_release(box->mem, box->ring);
  box->ring = NULL;
  box->cap = 0;
}

static nm_output *outbox_at(nm_outbox *box, size_t i) {
  return &box->ring[(box->head + i) % box->cap];
}

static int outbox_grow(nm_outbox *box) {
  size_t cap = box->cap == 0 ? 64 : box->cap * 2;
  nm_output *ring = nm_alloc(box->mem, cap * sizeof(ring[0]));
  if (ring == NULL) {
    return NM_E(MEMORY);
  }
  for (size_t i = 0; i < box->count; i++) {
    ring[i] = *outbox_at(box, i);
  }
  nm_release(box->mem, box->ring);
  box->ring = ring;
  box->cap = cap;
  box->head = 0;
  return NM_OK;
}

int nm_outbox_push(nm_outbox *box, nm_iface_id iface, nm_block *packet,
                   nm_op_id op) {
  if (box->count >= box->max) {
    return NM_E(LIMIT);
  }
  if (box->count == box->cap) {
    int status = outbox_grow(box);
    if (status != NM_OK) {
      return status;
    }
  }
  nm_output *slot = outbox_at(box, box->count);
  slot->iface = iface;
  slot->packet = packet;
  slot->op = op;
  box->count++;
  return NM_OK;
}

bool nm_outbox_pop(nm_outbox *box, nm_output *out) {
  if (box->count == 0) {
    return false;
  }
  *out = *outbox_at(box, 0);
  box->head = (box->head + 1) % box->cap;
  box->count--;
  return true;
}

size_t nm_outbox_purge(nm_outbox *box, nm_iface_id iface,
                       void (*each)(void *user, nm_op_id op), void *user) {
  size_t kept = 0;
  size_t total = box->count;
  for (size_t i = 0; i < total; i++) {
    nm_output out = *outbox_at(box, i);
    if (out.iface == iface) {
      if (out.op != 0) {
        each(user, out.op);
      }
      nm_block_drop(out.packet);
    } else {
      *outbox_at(box, kept++) = out;
    }
  }
  box->count = kept;
  return total - kept;
}

void nm_eventq_init(nm_eventq *q, const nm_mem *mem, size_t lossy_max) {
  memset(q, 0, sizeof(*q));
  q->mem = mem;
  q->lossy_max = lossy_max;
}

void nm_eventq_dispose(nm_eventq *q) {
  nm_event event;
  while (nm_eventq_pop(q, &event)) {
    nm_event_dispose(&event);
  }
}

nm_event_node *nm_event_node_new(const nm_mem *mem) {
  return nm_alloc_zero(mem, 1, sizeof(nm_event_node));
}

void nm_event_node_free(const nm_mem *mem, nm_event_node *node) {
  if (node != NULL) {
    nm_event_dispose(&node->event);
    nm_release(mem, node);
  }
}

static nm_event_node *node_of(nm_event_entry *entry) {
  return (nm_event_node *)(void *)entry;
}

static void unlink_entry(nm_eventq *q, nm_event_entry *entry) {
  if (entry->prev != NULL) {
    entry->prev->next = entry->next;
  } else {
    q->first = entry->next;
  }
  if (entry->next != NULL) {
    entry->next->prev = entry->prev;
  } else {
    q->last = entry->prev;
  }
  entry->queued = false;
  if (!entry->lossy) {
    return;
  }
  if (entry->lossy_prev != NULL) {
    entry->lossy_prev->lossy_next = entry->lossy_next;
  } else {
    q->lossy_first = entry->lossy_next;
  }
  if (entry->lossy_next != NULL) {
    entry->lossy_next->lossy_prev = entry->lossy_prev;
  } else {
    q->lossy_last = entry->lossy_prev;
  }
  q->lossy_count--;
}

void nm_eventq_append(nm_eventq *q, nm_event_entry *entry) {
  entry->queued = true;
  entry->next = NULL;
  entry->prev = q->last;
  if (q->last != NULL) {
    q->last->next = entry;
  } else {
    q->first = entry;
  }
  q->last = entry;
  if (!entry->lossy) {
    return;
  }
  entry->lossy_next = NULL;
  entry->lossy_prev = q->lossy_last;
  if (q->lossy_last != NULL) {
    q->lossy_last->lossy_next = entry;
  } else {
    q->lossy_first = entry;
  }
  q->lossy_last = entry;
  q->lossy_count++;
}

static bool coalesces(const nm_event *a, const nm_event *b) {
  if (a->kind != b->kind) {
    return false;
  }
  switch (a->kind) {
  case NM_EVENT_PROGRESS:
    return a->op == b->op;
  case NM_EVENT_PATH:
    return memcmp(&a->destination, &b->destination, sizeof(a->destination)) ==
           0;
  case NM_EVENT_IFACE:
    return a->iface == b->iface;
  default:
    return false;
  }
}

/* How far back a waiting event is looked for: what changes often is near the
 * end, and the step stays short. */
#define COALESCE_REACH 16

static bool coalesce(nm_eventq *q, nm_event *event) {
  nm_event_entry *entry = q->lossy_last;
  for (int i = 0; entry != NULL && i < COALESCE_REACH; i++) {
    nm_event_node *node = node_of(entry);
    if (coalesces(&node->event, event)) {
      nm_event_dispose(&node->event);
      node->event = *event;
      q->lossy_coalesced++;
      return true;
    }
    entry = entry->lossy_prev;
  }
  return false;
}

void nm_eventq_lossy(nm_eventq *q, nm_event *event) {
  if (coalesce(q, event)) {
    return;
  }
  nm_event_node *node = nm_event_node_new(q->mem);
  if (node == NULL || q->lossy_max == 0) {
    nm_event_node_free(q->mem, node);
    nm_event_dispose(event);
    q->lossy_dropped++;
    return;
  }
  if (q->lossy_count >= q->lossy_max) {
    nm_event_node *oldest = node_of(q->lossy_first);
    unlink_entry(q, &oldest->entry);
    nm_event_node_free(q->mem, oldest);
    q->lossy_dropped++;
  }
  node->event = *event;
  node->entry.lossy = true;
  nm_eventq_append(q, &node->entry);
}

bool nm_eventq_take_credit(nm_eventq *q) {
  bool has = q->credit > 0;
  q->credit -= has;
  return has;
}

void nm_eventq_return_credit(nm_eventq *q) {
  q->credit++;
}

nm_event_node *nm_eventq_reserve(nm_eventq *q, int *status) {
  if (!nm_eventq_take_credit(q)) {
    *status = NM_E(LIMIT);
    return NULL;
  }
  nm_event_node *node = nm_event_node_new(q->mem);
  if (node == NULL) {
    nm_eventq_return_credit(q);
    *status = NM_E(MEMORY);
    return NULL;
  }
  *status = NM_OK;
  return node;
}

void nm_eventq_unreserve(nm_eventq *q, nm_event_node *node) {
  nm_event_node_free(q->mem, node);
  nm_eventq_return_credit(q);
}

void nm_eventq_commit(nm_eventq *q, nm_event_node *node) {
  nm_eventq_append(q, &node->entry);
}

bool nm_eventq_pop(nm_eventq *q, nm_event *event) {
  nm_event_entry *entry = q->first;
  if (entry == NULL) {
    return false;
  }
  unlink_entry(q, entry);
  if (entry->take != NULL) {
    entry->take(entry, event);
    return true;
  }
  *event = node_of(entry)->event;
  nm_release(q->mem, entry);
  return true;
}
