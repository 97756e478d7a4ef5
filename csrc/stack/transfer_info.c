/* Reading transfers (transfer.h).
 */
#include "stack/link_state.h"

#include <string.h>

static void fill_out(const nm_transfer_out *t, nm_transfer_info *info) {
  info->op = t->op;
  info->link = t->link->ref;
  info->outgoing = true;
  info->state = t->state;
  memcpy(info->hash, t->told, NM_HASH_SIZE);
  memcpy(info->original, t->original, NM_HASH_SIZE);
  info->segment = t->current.ready ? t->current.index : 0;
  info->segments = t->plan.segments;
  info->content_bytes = t->base + t->plan.data_size;
  info->resumed_bytes = t->base;
  info->content_done = nm_transfer_out_done(t);
  info->stored = t->source != NULL;
  info->transfer_bytes = t->current.sealed.stream.len;
  info->parts = (uint32_t)t->current.sealed.parts;
  info->parts_done = t->server.sent;
  info->retries_left = t->retries;
  info->compressed = t->current.sealed.compressed;
  info->has_metadata = t->metadata != NULL;
  info->requests = t->requests;
  info->wire_bytes = t->wire_bytes;
}

static void fill_in(const nm_transfer_in *t, nm_transfer_info *info) {
  info->op = t->op;
  info->link = t->link->ref;
  info->outgoing = false;
  info->state = t->state;
  nm_event event = nm_transfer_in_event(t, NM_EVENT_PROGRESS);
  memcpy(info->hash, t->hash, NM_HASH_SIZE);
  memcpy(info->original, t->original, NM_HASH_SIZE);
  info->segment = t->segment;
  info->segments = t->segments;
  info->content_bytes = event.total_bytes;
  info->content_done = event.done_bytes;
  info->resumed_bytes = t->base;
  info->stored = t->sink != NULL;
  info->transfer_bytes = t->transfer_size;
  info->parts = t->join.parts;
  info->parts_done = t->join.received;
  info->window = t->profile.window;
  info->window_min = t->profile.window_min;
  info->window_max = t->profile.window_max;
  info->retries_left = t->retries;
  info->compressed = t->compressed;
  info->has_metadata = t->has_metadata;
  info->requests = t->requests;
  info->wire_bytes = t->wire_bytes;
}

int nm_engine_transfer_info(const nm_engine *engine, nm_op_id id,
                            nm_transfer_info *info) {
  memset(info, 0, sizeof(*info));
  const nm_op *op = nm_op_find(&engine->ops, id);
  if (op == NULL) {
    return NM_E(MISSING);
  }
  if (op->kind == NM_OP_RESOURCE_OUT) {
    fill_out(op->owner, info);
  } else if (op->kind == NM_OP_RESOURCE_IN) {
    fill_in(op->owner, info);
  } else {
    return NM_E(TYPE);
  }
  return NM_OK;
}

/* Outgoing ones first, then incoming ones; those without an operation of
 * their own (requests and responses) are passed over. */
nm_op_id nm_engine_transfer_next(const nm_engine *engine, nm_link_ref ref,
                                 nm_op_id after) {
  const nm_link *link = nm_link_find(engine, ref);
  bool found = after == 0;
  if (link == NULL) {
    return 0;
  }
  for (const nm_transfer_out *t = link->transfers_out; t != NULL; t = t->next) {
    if (found && t->op != 0) {
      return t->op;
    }
    found = found || t->op == after;
  }
  for (const nm_transfer_in *t = link->transfers_in; t != NULL; t = t->next) {
    if (found && t->op != 0) {
      return t->op;
    }
    found = found || (t->op != 0 && t->op == after);
  }
  return 0;
}
