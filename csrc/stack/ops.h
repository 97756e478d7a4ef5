/* Operations: everything with an id that ends in exactly one terminal event.
 * The event's node is made when the operation starts, so the end cannot fail.
 */
#ifndef NM_STACK_OPS_H
#define NM_STACK_OPS_H

#include "base/table.h"
#include "stack/queue.h"

typedef enum nm_op_kind {
  NM_OP_ANNOUNCE,
  NM_OP_PATH,
  NM_OP_RECEIPT,
  NM_OP_REQUEST,
  NM_OP_RESOURCE_OUT,
  NM_OP_RESOURCE_IN,
  NM_OP_CHANNEL, /* a message */
  NM_OP_STREAM   /* a write */
} nm_op_kind;

typedef struct nm_op {
  nm_table_link link;
  nm_op_id id;
  nm_op_kind kind;
  void *owner; /* the state machine's struct; outlives the operation */
  nm_event_node *node;
  uint32_t outputs; /* packets that are not reported yet */
  bool taken;       /* an interface took one of them */
} nm_op;

typedef struct nm_ops {
  const nm_mem *mem;
  nm_table table;
  nm_op_id next;
  uint64_t begun; /* without those that were taken back */
} nm_ops;

int nm_ops_init(nm_ops *ops, const nm_mem *mem, const uint8_t hash_key[16]);
void nm_ops_dispose(nm_ops *ops);
/* Starts an operation. NULL without memory. */
nm_op *nm_op_begin(nm_ops *ops, nm_op_kind kind, void *owner);
nm_op *nm_op_find(const nm_ops *ops, nm_op_id id);
/* Ends |op|: |event| (its blocks are taken over) becomes the terminal event
 * with the operation's id. |op| is gone afterwards. */
void nm_op_end(nm_ops *ops, nm_eventq *q, nm_op *op, nm_event *event);
/* Takes |op| back before anyone learned its id: no event. */
void nm_op_abandon(nm_ops *ops, nm_op *op);

#endif
