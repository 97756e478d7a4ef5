/* Letters and fetches that commands began: their entries, the queues of those
 * with news, and what is told of them.
 */
#include "io/mail_keep.h"

#include <string.h>

nm_span nm_mail_name(void) {
  static const char NAME[] = "lxmf.delivery";
  return nm_span_of(NAME, sizeof(NAME) - 1);
}

nm_mail_note *nm_mail_note_new(nm_node *node, nm_mail_write_kind kind) {
  nm_mail_note *note = nm_alloc_zero(node->mem, 1, sizeof(*note));
  if (note != NULL) {
    note->write.kind = kind;
    note->write.at_us = node->loop->now.unix_us;
  }
  return note;
}

void nm_mail_note_free(nm_node *node, nm_mail_note *note) {
  if (note != NULL) {
    nm_block_drop(note->packed);
    nm_block_drop(note->sealed);
    nm_mail_dispose(&note->mail);
    nm_wipe(note, sizeof(*note));
    nm_release(node->mem, note);
  }
}

nm_mail_entry *nm_mail_entry_of_ticket(nm_table_link *by_ticket) {
  unsigned char *at = (unsigned char *)by_ticket;
  return (nm_mail_entry *)(void *)(at - offsetof(nm_mail_entry, by_ticket));
}

nm_mail_entry *nm_mail_entry_new(nm_node *node, bool kept) {
  nm_mail_entry *entry = nm_alloc_zero(node->mem, 1, sizeof(*entry));
  if (entry == NULL || !kept) {
    return entry;
  }
  entry->kept = true;
  entry->note = nm_mail_note_new(node, NM_MAIL_WRITE_LETTER);
  if (entry->note == NULL) {
    nm_release(node->mem, entry);
    return NULL;
  }
  return entry;
}

void nm_mail_entry_free(nm_node *node, nm_mail_entry *entry) {
  if (entry->findable) {
    nm_table_remove(&node->mail->by_ticket, &entry->by_ticket);
  }
  nm_mail_note_free(node, entry->note);
  nm_release(node->mem, entry);
}

int nm_mail_begin_spec(nm_node *node, const nm_letter_spec *spec,
                       nm_mail_entry *entry) {
  nm_mail_host *host = node->mail;
  int status = nm_router_send(host->router, spec, entry->id, node->loop->now);
  if (status != NM_OK) {
    return status;
  }
  host->moved = true;
  status = nm_table_insert(&host->letters, &entry->by_id);
  if (status != NM_OK) {
    /* Nobody would hear of it. */
    (void)nm_router_cancel(host->router, entry->id, node->loop->now);
  }
  return status;
}

int nm_mail_begin(nm_node *node, const nm_ask *ask, nm_mail_entry *entry) {
  nm_letter_spec spec = ask->c.u.letter;
  spec.packed = nm_block_span(ask->c.data);
  spec.sealed = nm_block_span(ask->c.extra);
  return nm_mail_begin_spec(node, &spec, entry);
}

/* ---- queues of entries ---- */

static nm_mail_list *list_of(nm_mail_host *host, nm_mail_queue queue) {
  return queue == NM_MAIL_QUEUED_LATE ? &host->late : &host->told;
}

void nm_mail_leave_queue(nm_mail_host *host, nm_mail_entry *entry) {
  if (entry->queued == NM_MAIL_NOT_QUEUED) {
    return;
  }
  nm_mail_list *list = list_of(host, entry->queued);
  if (entry->prev != NULL) {
    entry->prev->next = entry->next;
  } else {
    list->first = entry->next;
  }
  if (entry->next != NULL) {
    entry->next->prev = entry->prev;
  } else {
    list->last = entry->prev;
  }
  entry->next = NULL;
  entry->prev = NULL;
  entry->queued = NM_MAIL_NOT_QUEUED;
}

void nm_mail_join_queue(nm_mail_host *host, nm_mail_entry *entry,
                        nm_mail_queue queue) {
  nm_mail_list *list = list_of(host, queue);
  nm_mail_leave_queue(host, entry);
  entry->queued = queue;
  entry->prev = list->last;
  if (list->last != NULL) {
    list->last->next = entry;
  } else {
    list->first = entry;
  }
  list->last = entry;
}

void nm_mail_put_event(nm_node_event *slot, uint64_t ticket,
                       const nm_mail *mail) {
  slot->kind = NM_NODE_MAIL;
  slot->ticket = ticket;
  memset(&slot->u.mail, 0, sizeof(slot->u.mail));
  slot->u.mail.mail = *mail;
}

void nm_mail_tell_end(nm_node *node, nm_mail_entry *entry) {
  nm_mail_join_queue(node->mail, entry, NM_MAIL_QUEUED_NOW);
  node->mail->moved = true;
}

void nm_mail_late_due(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, mail_timer));
  nm_mail_host *host = node->mail;
  (void)user;
  while (host->late.first != NULL) {
    nm_mail_join_queue(host, host->late.first, NM_MAIL_QUEUED_NOW);
  }
  nm_node_wake(node);
}

void nm_mail_put_source(nm_node *node, nm_node_mail *told) {
  nm_identity identity;
  nm_span data;
  bool has_data;
  told->source_known =
      nm_engine_recall(node->engine, &told->mail.peer, &identity, &data,
                       &has_data, node->loop->now);
  if (told->source_known) {
    memcpy(told->source_key, identity.public_key, NM_PUBLIC_SIZE);
  }
}

void nm_mail_refuse(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  (void)nm_router_taken(host->router, mail->token, false, node->loop->now);
  nm_mail_dispose(mail);
  host->moved = true;
}

static void free_list(nm_node *node, nm_mail_list *list) {
  while (list->first != NULL) {
    nm_mail_entry *entry = list->first;
    nm_mail_leave_queue(node->mail, entry);
    if (entry->ended) { /* else a table has it, or the list of fetches */
      nm_mail_entry_free(node, entry);
    }
  }
}

void nm_mail_entries_dispose(nm_node *node) {
  nm_mail_host *host = node->mail;
  free_list(node, &host->told);
  free_list(node, &host->late);
  while (host->syncs != NULL) {
    nm_mail_entry *sync = host->syncs;
    host->syncs = sync->next_sync;
    nm_mail_entry_free(node, sync);
  }
  while (host->waiting_first != NULL) {
    nm_mail_waiting *waiting = host->waiting_first;
    host->waiting_first = waiting->next;
    nm_mail_dispose(&waiting->mail);
    nm_release(node->mem, waiting);
  }
}
