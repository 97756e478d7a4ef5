/* Commands on mailboxes and letters.
 */
#include "io/mail_keep.h"

#include <string.h>

/* Those that need a router, which the first mailbox makes. */
static nm_router *router_of(const nm_node *node) {
  return node->mail == NULL ? NULL : node->mail->router;
}

static int run_open(nm_node *node, nm_ask *ask) {
  nm_mailbox_spec spec = ask->c.u.mailbox;
  nm_ask_settle_stored(node, ask);
  if (ask->identity == NULL) {
    return NM_E(NO_KEY);
  }
  int status = nm_mail_start(node);
  if (status == NM_OK && ask->c.on) {
    status = nm_mail_keep_start(node, ask);
  }
  if (status != NM_OK) {
    return status;
  }
  spec.identity = ask->identity;
  spec.durable = ask->c.on;
  spec.display_name = nm_block_span(ask->c.data);
  spec.last_emitted = ask->last_emitted;
  spec.ratchet_file = nm_block_span(ask->ratchet_file);
  status = nm_router_open(node->mail->router, &spec, &ask->reply.destination,
                          node->loop->now);
  if (status == NM_OK && ask->c.on) {
    status = nm_mail_keep_box(node, ask);
  }
  return status;
}

static int run_close(nm_node *node, nm_ask *ask) {
  nm_mail_keep_no_box(node, &ask->c.destination);
  return nm_router_close(router_of(node), &ask->c.destination, node->loop->now);
}

static int run_describe(nm_node *node, nm_ask *ask) {
  const nm_mailbox_spec *spec = &ask->c.u.mailbox;
  return nm_router_describe(router_of(node), &ask->c.destination,
                            nm_block_span(ask->c.data), spec->stamp_cost,
                            spec->enforce_stamps);
}

static int run_pause(nm_node *node, nm_ask *ask) {
  return nm_router_pause(router_of(node), &ask->c.destination, ask->c.on);
}

static int run_ignore(nm_node *node, nm_ask *ask) {
  int status =
      nm_router_ignore(router_of(node), &ask->c.destination, ask->c.on);
  if (status != NM_OK || !nm_mail_keeps(node)) {
    return status;
  }
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_IGNORE);
  if (note == NULL) {
    return NM_E(MEMORY);
  }
  note->write.peer = ask->c.destination;
  note->write.on = ask->c.on;
  note->ask = ask;
  nm_mail_keep_put(node, note);
  return NM_LATER;
}

static int run_cancel(nm_node *node, nm_ask *ask) {
  return nm_router_cancel(router_of(node), ask->c.hash.b, node->loop->now);
}

static int run_set_node(nm_node *node, nm_ask *ask) {
  if (ask->c.number < 0 || ask->c.number > NM_LXMF_STAMP_COST_MAX) {
    return NM_E(RANGE);
  }
  return nm_router_set_node(router_of(node),
                            ask->c.on ? &ask->c.destination : NULL,
                            (uint32_t)ask->c.number, node->loop->now);
}

static int run_sync_cancel(nm_node *node, nm_ask *ask) {
  return nm_router_sync_cancel(router_of(node), &ask->c.destination,
                               node->loop->now);
}

static int run_ingest(nm_node *node, nm_ask *ask) {
  if (ask->c.number != NM_LXMF_PAPER && ask->c.number != NM_LXMF_PROPAGATED) {
    return NM_E(ARGUMENT);
  }
  return nm_router_ingest(router_of(node), nm_block_span(ask->c.data),
                          (nm_lxmf_method)ask->c.number, node->loop->now);
}

static int run_ticket(nm_node *node, nm_ask *ask) {
  double expires;
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
  if (!nm_router_ticket_for(router_of(node), &ask->c.destination,
                            node->loop->now, &expires, ticket)) {
    return NM_E(MISSING);
  }
  ask->reply.number = (int64_t)(expires * 1e6);
  ask->reply.data =
      nm_block_copy(node->mem, nm_span_of(ticket, sizeof(ticket)));
  nm_mail_note *note = !nm_mail_keeps(node)
                           ? NULL
                           : nm_mail_note_new(node, NM_MAIL_WRITE_TICKET);
  if (note != NULL) {
    note->write.u.ticket.peer = ask->c.destination;
    note->write.u.ticket.issued = true;
    note->write.u.ticket.expires = expires;
    memcpy(note->write.u.ticket.ticket, ticket, sizeof(ticket));
  }
  nm_wipe(ticket, sizeof(ticket));
  if (ask->reply.data == NULL || (note == NULL && nm_mail_keeps(node))) {
    nm_mail_note_free(node, note);
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(ask->reply.data);
  if (note == NULL) {
    return NM_OK;
  }
  note->ask = ask;
  nm_mail_keep_put(node, note);
  return NM_LATER;
}

static int run_ack(nm_node *node, nm_ask *ask) {
  if (!nm_mail_keeps(node)) {
    return NM_E(STATE);
  }
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_ACK);
  if (note == NULL) {
    return NM_E(MEMORY);
  }
  note->write.row = (int64_t)ask->c.cursor;
  nm_mail_keep_put(node, note);
  return NM_OK;
}

static int run_stats(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_router_stats stats;
  nm_router_stats_read(router_of(node), &stats);
  nm_rows_init(&rows, node->mem, ask, sizeof(stats));
  (void)nm_rows_add(&rows, &stats);
  return nm_rows_finish(&rows);
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_MAIL_CLOSE] = run_close,
    [NM_COMMAND_MAIL_DESCRIBE] = run_describe,
    [NM_COMMAND_MAIL_PAUSE] = run_pause,
    [NM_COMMAND_MAIL_IGNORE] = run_ignore,
    [NM_COMMAND_MAIL_CANCEL] = run_cancel,
    [NM_COMMAND_MAIL_SET_NODE] = run_set_node,
    [NM_COMMAND_MAIL_SYNC] = nm_mail_sync_start,
    [NM_COMMAND_MAIL_SYNC_CANCEL] = run_sync_cancel,
    [NM_COMMAND_MAIL_INGEST] = run_ingest,
    [NM_COMMAND_MAIL_TICKET] = run_ticket,
    [NM_COMMAND_MAIL_ACK] = run_ack,
    [NM_COMMAND_MAIL_STATS] = run_stats,
};

/* Whatever was done, the router may have something to tell. */
static int run_with_router(nm_node *node, nm_ask *ask) {
  int status = NM_OK;
  if (ask->c.kind == NM_COMMAND_MAIL_IGNORE ||
      ask->c.kind == NM_COMMAND_MAIL_SET_NODE) {
    status = nm_mail_start(node);
  } else if (node->mail == NULL) {
    status = NM_E(STATE);
  }
  if (status != NM_OK) {
    return status;
  }
  status = runs[ask->c.kind](node, ask);
  node->mail->moved = true;
  return status;
}

/* A sender need not have a mailbox. */
static int run_send(nm_node *node, nm_ask *ask) {
  int status = nm_mail_start(node);
  return status == NM_OK ? nm_mail_send(node, ask) : status;
}

nm_command_run *nm_command_mail(nm_command_kind kind) {
  if (kind == NM_COMMAND_MAIL_OPEN || kind == NM_COMMAND_MAIL_SEND) {
    return kind == NM_COMMAND_MAIL_OPEN ? run_open : run_send;
  }
  return runs[kind] != NULL ? run_with_router : NULL;
}
