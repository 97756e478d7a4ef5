/* Which command started which operation or link.
 */
#include "io/internal.h"

#include <string.h>

#define TICKETS_MAX                                                            \
  (1u << 22) /* more than engines have operations and links                    \
              */
#define LINK_BIT (UINT64_C(1) << 63)

static nm_ticket *of_ticket_link(nm_table_link *link) {
  unsigned char *at = (unsigned char *)link;
  return (nm_ticket *)(void *)(at - offsetof(nm_ticket, by_ticket));
}

static void forget_nothing(void *user, nm_table_link *entry) {
  (void)user;
  (void)entry;
}

static void free_entry(void *user, nm_table_link *entry) {
  nm_tickets *tickets = user;
  nm_ticket *ticket = (nm_ticket *)(void *)entry;
  if (ticket->waiting != NULL) {
    nm_ask_free(tickets->mem, ticket->waiting);
  }
  nm_release(tickets->mem, ticket);
}

int nm_tickets_init(nm_tickets *tickets, const nm_mem *mem,
                    const uint8_t hash_key[16]) {
  tickets->mem = mem;
  nm_table_config config = {
      .capacity = TICKETS_MAX,
      .key_size = sizeof(uint64_t),
      .key_offset = offsetof(nm_ticket, subject),
      .user = tickets,
      .dispose = free_entry,
  };
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  int status = nm_table_init(&tickets->by_subject, mem, &config);
  if (status != NM_OK) {
    return status;
  }
  config.key_offset =
      offsetof(nm_ticket, ticket) - offsetof(nm_ticket, by_ticket);
  config.dispose = forget_nothing;
  return nm_table_init(&tickets->by_ticket, mem, &config);
}

void nm_tickets_dispose(nm_tickets *tickets) {
  nm_table_dispose(&tickets->by_ticket);
  nm_table_dispose(&tickets->by_subject);
}

static bool put(nm_tickets *tickets, nm_ticket *ticket, uint64_t subject) {
  ticket->subject = subject;
  if (nm_table_find(&tickets->by_subject, &subject) != NULL ||
      nm_table_insert(&tickets->by_subject, &ticket->by_subject) != NM_OK) {
    nm_ticket_free(tickets->mem, ticket);
    return false;
  }
  ticket->findable =
      nm_table_find(&tickets->by_ticket, &ticket->ticket) == NULL &&
      nm_table_insert(&tickets->by_ticket, &ticket->by_ticket) == NM_OK;
  return true;
}

bool nm_tickets_put_op(nm_tickets *tickets, nm_ticket *ticket, nm_op_id op) {
  return put(tickets, ticket, op);
}

void nm_tickets_put_link(nm_tickets *tickets, nm_ticket *ticket,
                         nm_link_ref link) {
  (void)put(tickets, ticket, link | LINK_BIT);
}

static bool ends_operation(nm_event_kind kind) {
  return kind >= NM_EVENT_RECEIPT && kind <= NM_EVENT_STREAM_SENT;
}

nm_carried nm_tickets_of(nm_tickets *tickets, const nm_event *event) {
  uint64_t subject = event->op;
  bool last = ends_operation(event->kind);
  if (event->kind == NM_EVENT_LINK_ACTIVE ||
      event->kind == NM_EVENT_LINK_CLOSED) {
    subject = event->link | LINK_BIT;
    last = event->kind == NM_EVENT_LINK_CLOSED;
  }
  nm_table_link *entry =
      subject == 0 ? NULL : nm_table_find(&tickets->by_subject, &subject);
  if (entry == NULL) {
    return (nm_carried){0};
  }
  nm_ticket *ticket = (nm_ticket *)(void *)entry;
  nm_carried carried = {.ticket = ticket->waiting == NULL ? ticket->ticket : 0,
                        .quiet = ticket->quiet};
  if (last) {
    carried.waiting = ticket->waiting;
    if (ticket->findable) {
      nm_table_remove(&tickets->by_ticket, &ticket->by_ticket);
    }
    nm_table_remove(&tickets->by_subject, &ticket->by_subject);
    nm_ticket_free(tickets->mem, ticket);
  }
  return carried;
}

bool nm_tickets_find(const nm_tickets *tickets, uint64_t number, nm_op_id *op,
                     nm_link_ref *link) {
  nm_table_link *entry = nm_table_find(&tickets->by_ticket, &number);
  *op = 0;
  *link = 0;
  if (entry == NULL) {
    return false;
  }
  uint64_t subject = of_ticket_link(entry)->subject;
  if ((subject & LINK_BIT) != 0) {
    *link = subject & ~LINK_BIT;
  } else {
    *op = subject;
  }
  return true;
}

void nm_ask_started(nm_node *node, nm_ask *ask, nm_op_id op) {
  ask->reply.op = op;
  if (op != 0) {
    (void)nm_tickets_put_op(&node->tickets, ask->ticket, op);
    ask->ticket = NULL;
  }
}
