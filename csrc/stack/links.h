/* Links with their requests and transfers: what the rest of the room calls.
 * The link itself is in link_state.h.
 */
#ifndef NM_STACK_LINKS_H
#define NM_STACK_LINKS_H

#include "base/table.h"
#include "stack/request.h"
#include "stack/transfer.h"

struct nm_input;
struct nm_op;
struct nm_local;

typedef struct nm_links {
  nm_table by_ref; /* every link, also closed ones until they are forgotten */
  nm_table by_id;  /* those that are not closed */
  nm_table tokens; /* what waits for decisions, on all links */
  struct nm_deferred_request *deferred; /* behind identities, oldest first */
  nm_link_ref next_ref;
  uint64_t resource_memory; /* that incoming resources hold */
  uint32_t unindexed;       /* without an id yet */
  uint32_t pending;
  uint32_t active;
} nm_links;

int nm_links_init(nm_engine *engine);
int nm_link_tokens_init(nm_engine *engine);
/* Ends every link without sending anything; then releases them all. */
void nm_links_abandon(nm_engine *engine);
void nm_links_dispose(nm_engine *engine);
/* Closes every link for good (SHUTDOWN), sending LINKCLOSE on active ones. */
void nm_links_shutdown(nm_engine *engine);

/* A LINKREQUEST for |local| (RNS 2, 1.5). */
nm_drop nm_links_request(nm_engine *engine, struct nm_input *input,
                         struct nm_local *local);
/* PROOF with context LRPROOF (RNS 2, 1.5; RNS 1, 8.10.4). */
nm_drop nm_links_proof(nm_engine *engine, struct nm_input *input);
/* DATA with destination type LINK (RNS 1, 8.5 step 7). */
nm_drop nm_links_data(nm_engine *engine, struct nm_input *input);
/* PROOF with context RESOURCE_PRF. */
nm_drop nm_links_resource_proof(nm_engine *engine, struct nm_input *input);
/* PROOF of a packet on a link (RNS 2, 1.10): of its channel's, or a receipt's.
 */
nm_drop nm_links_packet_proof(nm_engine *engine, struct nm_input *input);
/* A packet proof that came in for a link (RNS 2, 1.10): refreshes its
 * last_proof. The receipt itself is receipts.h. */
void nm_links_proven(nm_engine *engine, nm_link_ref link);

void nm_links_iface_down(nm_engine *engine, nm_iface_id iface);
/* An own destination went: its links close. */
void nm_links_local_gone(nm_engine *engine, const nm_destination_hash *hash);
void nm_links_op_cancel(nm_engine *engine, struct nm_op *op);
/* Accept or refuse a token of a link's (request, offer, resource, packet). */
int nm_links_decide(nm_engine *engine, nm_token_id token, bool accept);

#endif
