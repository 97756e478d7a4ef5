/* Packets outside links: sending, receipts, crafting.
 */
#ifndef NM_STACK_SEND_H
#define NM_STACK_SEND_H

#include "stack/local.h"

typedef struct nm_send_spec {
  nm_destination_hash destination;
  nm_dest_type type;
  nm_span payload;   /* plaintext */
  nm_span group_key; /* GROUP */
  uint8_t context;
  bool receipt;        /* an operation that ends with NM_EVENT_RECEIPT */
  uint64_t timeout_us; /* of the receipt; 0: RNS 1, 4.9 */
  bool use_ratchet;    /* default true: the announced one, if fresh */
} nm_send_spec;

void nm_send_spec_default(nm_send_spec *spec);

/* Sends one packet. The receipt is registered before the bytes leave. The hash
 * goes to |hash| once it is sealed (an event for sealed-by-job packets carries
 * it too). NM_E(TOO_LARGE), NM_E(MISSING) when the identity is not known,
 * NM_E(STATE) when no interface is online. */
int nm_engine_send(nm_engine *engine, const nm_send_spec *spec, nm_op_id *op,
                   nm_now now);

/* Changes the time-out of an outstanding receipt, counted from the sending: one
 * that has passed ends it at the next tick. NM_E(MISSING) when |op| is no such
 * operation. */
int nm_engine_receipt_timeout(nm_engine *engine, nm_op_id op,
                              uint64_t timeout_us, nm_now now);

/* Puts a finished packet on one interface (0: where its destination's path
 * leads, or everywhere). Nothing is checked but its size: for tests that
 * forge, and for embedders (E8). */
int nm_engine_inject(nm_engine *engine, nm_iface_id iface, nm_span raw,
                     nm_now now);

#endif
