#include "lxmf/tickets.h"

#include "lxmf/internal.h"
#include "wire/lxmf_fields.h"
#include "wire/lxmf_message.h"
#include "wire/lxmf_stamp.h"

#include <string.h>

/* What passed between us and one peer. */
typedef struct nm_purse {
  nm_table_link link;
  nm_destination_hash peer;
  nm_lxmf_ticket issued[NM_TICKETS_PER_PEER]; /* newest first */
  uint32_t count;
  bool has_held;
  nm_lxmf_ticket held;
  bool has_delivered;
  double delivered;
} nm_purse;

static void dispose_purse(void *user, nm_table_link *entry) {
  nm_router *router = user;
  nm_wipe(entry, sizeof(nm_purse));
  nm_release(router->mem, entry);
}

int nm_tickets_table_init(nm_router *router) {
  return nm_router_table(router, &router->purses, router->limits.tickets,
                         NM_ADDRESS_SIZE, offsetof(nm_purse, peer),
                         dispose_purse);
}

static nm_purse *find(const nm_router *router,
                      const nm_destination_hash *peer) {
  return (nm_purse *)(void *)nm_table_find(&router->purses, peer);
}

static nm_purse *purse_of(nm_router *router, const nm_destination_hash *peer) {
  nm_purse *purse = find(router, peer);
  if (purse != NULL) {
    nm_table_touch(&router->purses, &purse->link);
    return purse;
  }
  purse = nm_alloc_zero(router->mem, 1, sizeof(*purse));
  if (purse == NULL) {
    return NULL;
  }
  purse->peer = *peer;
  if (nm_table_insert(&router->purses, &purse->link) != NM_OK) {
    nm_release(router->mem, purse);
    return NULL;
  }
  return purse;
}

static double seconds(nm_now now) {
  return (double)now.unix_us / 1e6;
}

static void issue(nm_purse *purse, const nm_lxmf_ticket *ticket) {
  uint32_t kept = purse->count < NM_TICKETS_PER_PEER ? purse->count
                                                     : NM_TICKETS_PER_PEER - 1;
  memmove(&purse->issued[1], &purse->issued[0], kept * sizeof(*ticket));
  purse->issued[0] = *ticket;
  purse->count = kept + 1;
}

bool nm_router_ticket_for(nm_router *router, const nm_destination_hash *peer,
                          nm_now now, double *expires,
                          uint8_t ticket[NM_LXMF_TICKET_SIZE]) {
  nm_purse *purse = purse_of(router, peer);
  if (purse == NULL) {
    return false;
  }
  nm_lxmf_ticket_choice choice = nm_lxmf_ticket_choose(
      seconds(now), purse->count > 0 ? &purse->issued[0].expires : NULL,
      purse->has_delivered ? &purse->delivered : NULL);
  if (choice == NM_LXMF_TICKET_WITHHOLD) {
    return false;
  }
  if (choice == NM_LXMF_TICKET_NEW) {
    nm_lxmf_ticket fresh = {.expires = seconds(now) + NM_LXMF_TICKET_EXPIRY_S};
    if (nm_entropy_fill(&router->entropy, fresh.ticket, sizeof(fresh.ticket)) !=
        NM_OK) {
      return false;
    }
    issue(purse, &fresh);
    nm_wipe(&fresh, sizeof(fresh));
  }
  *expires = purse->issued[0].expires;
  memcpy(ticket, purse->issued[0].ticket, NM_LXMF_TICKET_SIZE);
  return true;
}

int nm_router_ticket_put(nm_router *router, const nm_ticket_record *record,
                         nm_now now) {
  nm_lxmf_ticket ticket = {.expires = record->expires};
  if (record->expires <= seconds(now)) {
    return NM_OK;
  }
  nm_purse *purse = purse_of(router, &record->peer);
  if (purse == NULL) {
    return NM_E(MEMORY);
  }
  memcpy(ticket.ticket, record->ticket, sizeof(ticket.ticket));
  if (record->issued) {
    issue(purse, &ticket);
  } else {
    purse->has_held = true;
    purse->held = ticket;
  }
  nm_wipe(&ticket, sizeof(ticket));
  return NM_OK;
}

int nm_router_ticket_delivered(nm_router *router,
                               const nm_destination_hash *peer, double when) {
  nm_purse *purse = purse_of(router, peer);
  if (purse == NULL) {
    return NM_E(MEMORY);
  }
  purse->has_delivered = true;
  purse->delivered = when;
  return NM_OK;
}

/* ---- on the way in ---- */

void nm_tickets_for_check(const nm_router *router,
                          const nm_destination_hash *source,
                          nm_mail_job *work) {
  const nm_purse *purse = find(router, source);
  for (uint32_t i = 0; purse != NULL && i < purse->count; i++) {
    if (purse->issued[i].expires > seconds(router->now)) {
      memcpy(work->tickets[work->ticket_count++], purse->issued[i].ticket,
             NM_LXMF_TICKET_SIZE);
    }
  }
}

/* A ticket in a verified message is ours to use from now on, before its stamp
 * and its sender are looked at (LXMF 4.5). One that is malformed is none. */
void nm_ticket_received(nm_router *router, nm_mail *mail) {
  nm_lxmf_view view;
  nm_fault fault;
  nm_span value;
  nm_lxmf_ticket ticket;
  if (nm_lxmf_decode(nm_block_span(mail->packed), NULL, &view, &fault) !=
          NM_OK ||
      nm_lxmf_field_find(view.fields, NM_LXMF_FIELD_TICKET, &value) != NM_OK ||
      nm_lxmf_ticket_decode(value, &ticket, &fault) != NM_OK ||
      !(ticket.expires > seconds(router->now))) {
    return;
  }
  nm_purse *purse = purse_of(router, &mail->peer);
  if (purse != NULL) {
    purse->has_held = true;
    purse->held = ticket;
    mail->has_ticket = true;
    mail->ticket_expires = ticket.expires;
    memcpy(mail->ticket, ticket.ticket, sizeof(mail->ticket));
  }
}

/* ---- on the way out ---- */

bool nm_ticket_stamp_for(const nm_router *router,
                         const nm_destination_hash *recipient,
                         const uint8_t id[NM_HASH_SIZE],
                         uint8_t stamp[NM_LXMF_TICKET_SIZE]) {
  const nm_purse *purse = find(router, recipient);
  if (purse == NULL || !purse->has_held ||
      purse->held.expires <= seconds(router->now)) {
    return false;
  }
  nm_lxmf_ticket_stamp(purse->held.ticket, id, stamp);
  return true;
}
