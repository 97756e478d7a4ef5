/* Tickets: cheap stamps between those who know each other (LXMF 7).
 *
 * Those issued let a source write to us without work, the one held lets us
 * write to the peer that gave it. Both are secrets that outlive a restart: the
 * driver learns of them from nm_router_ticket_for and from NM_MAIL_RECEIVED,
 * keeps them and puts them back.
 */
#ifndef NM_LXMF_TICKETS_H
#define NM_LXMF_TICKETS_H

#include "lxmf/router.h"

/* Valid at once from one peer; the oldest goes. */
#define NM_TICKETS_PER_PEER 8

typedef struct nm_ticket_record {
  nm_destination_hash peer;
  bool issued; /* by us, else held */
  double expires;
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
} nm_ticket_record;

/* The ticket to put into field 0x0C of a message to |peer|: the one that was
 * issued last while it is good for two weeks more, else a new one. False when
 * none is due, because one was delivered less than a day ago, or without
 * entropy or memory. The message's spec says then `carries_ticket`. */
bool nm_router_ticket_for(nm_router *router, const nm_destination_hash *peer,
                          nm_now now, double *expires,
                          uint8_t ticket[NM_LXMF_TICKET_SIZE]);
/* Puts back what was told of earlier; an expired one is left out. NM_E(MEMORY).
 */
int nm_router_ticket_put(nm_router *router, const nm_ticket_record *record,
                         nm_now now);
/* When a ticket was last delivered to |peer|, Unix seconds: what a message that
 * carried one sets by itself, put back after a restart. NM_E(MEMORY). */
int nm_router_ticket_delivered(nm_router *router,
                               const nm_destination_hash *peer, double when);

#endif
