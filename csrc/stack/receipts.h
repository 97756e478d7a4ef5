/* Packets outside links that wait for their proof (RNS 1, 4.9), and the
 * sending of single packets.
 */
#ifndef NM_STACK_RECEIPTS_H
#define NM_STACK_RECEIPTS_H

#include "base/table.h"
#include "base/timer.h"
#include "stack/send.h"

struct nm_input;
struct nm_op;

typedef struct nm_receipt {
  nm_table_link link;
  nm_packet_hash hash; /* the table's key is its first 16 bytes */
  bool registered;     /* sealed, hashed and in the table */
  nm_destination_hash destination;
  uint8_t ed25519_public[NM_KEY_SIZE]; /* who must have signed */
  nm_link_ref on_link;                 /* 0: a single packet */
  nm_link_id link_id;                  /* with `on_link` */
  /* Told when a proof came for a packet on a link. */
  void (*proven)(nm_engine *engine, nm_link_ref link);
  nm_op_id op;
  uint64_t sent_us;
  uint64_t timeout_us;
  nm_block *proof; /* the packet that proved it, for its event */
  nm_timer timer;
  nm_engine *engine;
} nm_receipt;

typedef struct nm_receipts {
  nm_table table; /* by truncated packet hash, which is also where an implicit
                     proof is addressed to; the oldest is culled */
} nm_receipts;

int nm_receipts_init(nm_engine *engine);
void nm_receipts_dispose(nm_engine *engine);
/* A receipt whose packet has no hash yet, and its operation. NULL without
 * memory. */
nm_receipt *nm_receipt_new(nm_engine *engine,
                           const nm_destination_hash *destination,
                           const uint8_t ed25519_public[NM_KEY_SIZE],
                           nm_link_ref on_link, uint64_t timeout_us);
/* Registers it under |hash| and starts its time, before the bytes leave.
 * NM_E(MEMORY): it is then still the caller's to end. */
int nm_receipt_register(nm_engine *engine, nm_receipt *receipt,
                        const nm_packet_hash *hash);
/* Ends it with its one terminal event. |receipt| is gone afterwards. */
void nm_receipt_end(nm_engine *engine, nm_receipt *receipt, uint8_t state,
                    nm_stage stage);
/* A PROOF that is neither LRPROOF nor RESOURCE_PRF (RNS 1, 8.10.5). An
 * implicit proof is looked up by the destination field, which is the truncated
 * packet hash, so it costs one verification at most. */
nm_drop nm_receipts_proof(nm_engine *engine, struct nm_input *input);
void nm_receipts_op_sent(nm_engine *engine, struct nm_op *op, bool ok);
void nm_receipts_op_cancel(nm_engine *engine, struct nm_op *op);
/* A link ended: its receipts fail. */
void nm_receipts_link_closed(nm_engine *engine, nm_link_ref link);

#endif
