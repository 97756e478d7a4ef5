#include "stack/ops.h"

#include <string.h>

static void dispose_op(void *user, nm_table_link *entry) {
  nm_ops *ops = user;
  nm_op *op = (nm_op *)(void *)entry;
  nm_event_node_free(ops->mem, op->node);
  nm_release(ops->mem, op);
}

int nm_ops_init(nm_ops *ops, const nm_mem *mem, const uint8_t hash_key[16]) {
  nm_table_config config = {
      .capacity = SIZE_MAX,
      .key_size = sizeof(nm_op_id),
      .key_offset = offsetof(nm_op, id),
      .user = ops,
      .may_evict = nm_table_keep, /* what may start one has its own limit */
      .dispose = dispose_op,
  };
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  ops->mem = mem;
  ops->next = 1;
  return nm_table_init(&ops->table, mem, &config);
}

void nm_ops_dispose(nm_ops *ops) {
  nm_table_dispose(&ops->table);
}

nm_op *nm_op_begin(nm_ops *ops, nm_op_kind kind, void *owner) {
  nm_op *op = nm_alloc_zero(ops->mem, 1, sizeof(*op));
  nm_event_node *node = nm_event_node_new(ops->mem);
  if (op == NULL || node == NULL) {
    goto fail;
  }
  op->id = ops->next;
  op->kind = kind;
  op->owner = owner;
  op->node = node;
  if (nm_table_insert(&ops->table, &op->link) != NM_OK) {
    goto fail;
  }
  ops->next++;
  ops->begun++;
  return op;
fail:
  nm_event_node_free(ops->mem, node);
  nm_release(ops->mem, op);
  return NULL;
}

nm_op *nm_op_find(const nm_ops *ops, nm_op_id id) {
  return (nm_op *)(void *)nm_table_find(&ops->table, &id);
}

static void forget(nm_ops *ops, nm_op *op) {
  nm_table_remove(&ops->table, &op->link);
  dispose_op(ops, &op->link);
}

void nm_op_end(nm_ops *ops, nm_eventq *q, nm_op *op, nm_event *event) {
  event->op = op->id;
  op->node->event = *event;
  nm_eventq_commit(q, op->node);
  op->node = NULL;
  forget(ops, op);
}

void nm_op_abandon(nm_ops *ops, nm_op *op) {
  ops->begun--;
  forget(ops, op);
}
