/* Looking into the field map of a message (LXMF 13.1) and the ticket field
 * (LXMF 7).
 */
#ifndef NM_WIRE_LXMF_FIELDS_H
#define NM_WIRE_LXMF_FIELDS_H

#include "base/cursor.h"
#include "base/msgpack.h"
#include "wire/lxmf_constants.h"

/* Finds integer key |key| in the encoded map |fields| (empty means no fields)
 * and stores the encoding of its value. 0, NM_E(MISSING), or NM_E(TYPE) and
 * the errors of nm_mp_skip for a span that no decoder has passed. */
int nm_lxmf_field_find(nm_span fields, uint64_t key, nm_span *value);

/* A ticket as it travels in field 0x0C. */
typedef struct nm_lxmf_ticket {
  double expires; /* Unix seconds */
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
} nm_lxmf_ticket;

/* Reads the value of a ticket field: an array of at least 2 with a number and
 * a bin of 16; further elements are ignored. Fields: "ticket" (TYPE, LENGTH),
 * "ticket.expires" (TYPE), "ticket.ticket" (TYPE, LENGTH). Whether it has
 * expired, and that the message is verified, is the caller's to check. */
int nm_lxmf_ticket_decode(nm_span value, nm_lxmf_ticket *ticket,
                          nm_fault *fault);

/* Writes [expires as float64, ticket]: 28 bytes. NM_E(TOO_LARGE). */
#define NM_LXMF_TICKET_FIELD_SIZE 28
int nm_lxmf_ticket_encode(const nm_lxmf_ticket *ticket, nm_writer *w);

typedef enum nm_lxmf_ticket_choice {
  NM_LXMF_TICKET_WITHHOLD, /* one was delivered less than a day ago */
  NM_LXMF_TICKET_REUSE,    /* hand out the existing one again */
  NM_LXMF_TICKET_NEW       /* make one that expires at now + 21 days */
} nm_lxmf_ticket_choice;

/* What to do when a message is to carry a ticket (LXMF 7). |existing_expires|
 * is the latest expiry among the tickets issued to that destination,
 * |last_delivery| when one was last delivered to it; NULL when there is none.
 */
nm_lxmf_ticket_choice nm_lxmf_ticket_choose(double now,
                                            const double *existing_expires,
                                            const double *last_delivery);

#endif
