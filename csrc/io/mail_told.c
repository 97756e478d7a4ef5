/* What the router tells, on its way into the ring.
 */
#include "io/mail_keep.h"

#include <string.h>

static nm_mail_entry *entry_at(nm_table_link *link, size_t offset) {
  return (nm_mail_entry *)(void *)((unsigned char *)link - offset);
}

nm_mail_entry *nm_mail_entry_of_ticket(nm_table_link *by_ticket) {
  return entry_at(by_ticket, offsetof(nm_mail_entry, by_ticket));
}

/* ---- queues of entries ---- */

static nm_mail_list *list_of(nm_mail_host *host, nm_mail_queue queue) {
  return queue == NM_MAIL_QUEUED_LATE ? &host->late : &host->told;
}

static void leave_queue(nm_mail_host *host, nm_mail_entry *entry) {
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

static void join_queue(nm_mail_host *host, nm_mail_entry *entry,
                       nm_mail_queue queue) {
  nm_mail_list *list = list_of(host, queue);
  leave_queue(host, entry);
  entry->queued = queue;
  entry->prev = list->last;
  if (list->last != NULL) {
    list->last->next = entry;
  } else {
    list->first = entry;
  }
  list->last = entry;
}

/* Nothing finds it any more; it goes when its end was told. */
static void end_entry(nm_mail_host *host, nm_mail_entry *entry) {
  entry->ended = true;
  if (entry->findable) {
    nm_table_remove(&host->by_ticket, &entry->by_ticket);
    entry->findable = false;
  }
  if (!entry->is_sync) {
    nm_table_remove(&host->letters, &entry->by_id);
    return;
  }
  nm_mail_entry **at = &host->syncs;
  while (*at != entry) {
    at = &(*at)->next_sync;
  }
  *at = entry->next_sync;
}

/* ---- states ---- */

void nm_mail_put_event(nm_node_event *slot, uint64_t ticket,
                       const nm_mail *mail) {
  slot->kind = NM_NODE_MAIL;
  slot->ticket = ticket;
  memset(&slot->u.mail, 0, sizeof(slot->u.mail));
  slot->u.mail.mail = *mail;
}

static bool is_final(const nm_mail *mail) {
  return mail->kind == NM_MAIL_SYNC ? mail->sync_ended : mail->ended;
}

static nm_mail_entry *find_entry(const nm_mail_host *host,
                                 const nm_mail *mail) {
  if (mail->kind != NM_MAIL_SYNC) {
    nm_table_link *link = nm_table_find(&host->letters, mail->id);
    return link == NULL ? NULL : entry_at(link, offsetof(nm_mail_entry, by_id));
  }
  nm_mail_entry *sync = host->syncs;
  while (sync != NULL && memcmp(&sync->news.mailbox, &mail->mailbox,
                                sizeof(mail->mailbox)) != 0) {
    sync = sync->next_sync;
  }
  return sync;
}

/* A success wakes the reader once: what comes before it may wait a while. */
static void queue_state(nm_node *node, nm_mail_entry *entry) {
  nm_mail_host *host = node->mail;
  bool follows = atomic_load_explicit(&node->follows, memory_order_relaxed);
  if (entry->ended || !entry->quiet || follows) {
    join_queue(host, entry, NM_MAIL_QUEUED_NOW);
    return;
  }
  if (entry->queued != NM_MAIL_NOT_QUEUED) {
    return;
  }
  join_queue(host, entry, NM_MAIL_QUEUED_LATE);
  if (!nm_timer_armed(&node->mail_timer)) {
    nm_loop_arm(node->loop, &node->mail_timer,
                node->loop->now.mono_us + NM_MAIL_LATE_US);
  }
}

static void on_dropped(nm_node *node, const nm_mail *mail) {
  nm_node_event *slot = nm_node_slot(node, node->ring.cap / 4);
  if (slot == NULL) {
    node->stats.events_lost++;
    return;
  }
  nm_mail_put_event(slot, 0, mail);
  nm_node_push(node);
}

static void on_state(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  nm_mail_entry *entry = find_entry(host, mail);
  bool final = is_final(mail);
  if (entry != NULL && entry->kept && node->phase != NM_NODE_IS_OPEN) {
    entry = NULL; /* it goes on after the next start */
  }
  if (mail->kind == NM_MAIL_WORKED && entry != NULL && entry->kept) {
    nm_mail_keep_worked(node, mail);
  }
  if (mail->kind == NM_MAIL_WORKED) {
    mail->kind = NM_MAIL_STATE; /* it says that too */
  }
  nm_block_drop(mail->packed);
  nm_block_drop(mail->sealed);
  mail->packed = NULL;
  mail->sealed = NULL;
  if (entry == NULL) {
    return;
  }
  entry->news = *mail;
  if (final) {
    end_entry(host, entry);
  }
  if (final && entry->kept) {
    leave_queue(host, entry);
    nm_mail_keep_end(node, entry);
  } else {
    queue_state(node, entry);
  }
}

void nm_mail_tell_end(nm_node *node, nm_mail_entry *entry) {
  join_queue(node->mail, entry, NM_MAIL_QUEUED_NOW);
  node->mail->moved = true;
}

void nm_mail_late_due(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, mail_timer));
  nm_mail_host *host = node->mail;
  (void)user;
  while (host->late.first != NULL) {
    join_queue(host, host->late.first, NM_MAIL_QUEUED_NOW);
  }
  nm_node_wake(node);
}

/* Moves the first state into |slot|; true when the reader need not wake. */
static bool fill_state(nm_node *node, nm_node_event *slot) {
  nm_mail_host *host = node->mail;
  nm_mail_entry *entry = host->told.first;
  bool quiet = entry->quiet && !entry->ended &&
               !atomic_load_explicit(&node->follows, memory_order_relaxed);
  leave_queue(host, entry);
  nm_mail_put_event(slot, entry->ticket, &entry->news);
  if (entry->ended) {
    nm_mail_entry_free(node, entry);
  }
  return quiet;
}

static bool deliver_states(nm_node *node) {
  while (node->mail->told.first != NULL) {
    nm_node_event *slot = nm_node_slot(node, 0);
    if (slot == NULL) {
      return false;
    }
    if (fill_state(node, slot)) {
      nm_node_push_quietly(node);
    } else {
      nm_node_push(node);
    }
  }
  return true;
}

/* ---- received messages ---- */

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

/* Room and credit: it is proven and told. False: it goes on waiting. */
static bool tell_received(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  nm_node_event *slot = host->credit == 0 ? NULL : nm_node_slot(node, 0);
  if (slot == NULL) {
    return false;
  }
  host->moved = true;
  if (nm_router_taken(host->router, mail->token, true, node->loop->now) !=
      NM_OK) {
    nm_mail_dispose(mail); /* it has lapsed, and will come again */
    return true;
  }
  host->credit--;
  nm_mail_put_event(slot, 0, mail);
  slot->u.mail.holds_credit = true;
  nm_mail_put_source(node, &slot->u.mail);
  nm_node_push(node);
  return true;
}

void nm_mail_refuse(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  (void)nm_router_taken(host->router, mail->token, false, node->loop->now);
  nm_mail_dispose(mail);
  host->moved = true;
}

static void wait_for_credit(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  size_t size = nm_block_span(mail->packed).len;
  nm_mail_waiting *waiting =
      host->waiting_bytes + size > NM_MAIL_WAITING_MAX
          ? NULL
          : nm_alloc_zero(node->mem, 1, sizeof(*waiting));
  if (waiting == NULL) {
    nm_mail_refuse(node, mail);
    return;
  }
  waiting->mail = *mail;
  host->waiting_bytes += size;
  if (host->waiting_last != NULL) {
    host->waiting_last->next = waiting;
  } else {
    host->waiting_first = waiting;
  }
  host->waiting_last = waiting;
}

static void on_received(nm_node *node, nm_mail *mail) {
  if (node->phase != NM_NODE_IS_OPEN) {
    nm_mail_refuse(node, mail); /* nobody will read it */
  } else if (nm_mail_box_of(node, &mail->mailbox) != NULL) {
    nm_mail_keep_received(node, mail);
  } else if (node->mail->waiting_first != NULL || !tell_received(node, mail)) {
    wait_for_credit(node, mail);
  }
}

static void grant(nm_node *node) {
  nm_mail_host *host = node->mail;
  unsigned drained = atomic_load(&node->mail_drained);
  host->credit += drained - host->credited;
  host->credited = drained;
}

static bool tell_waiting(nm_node *node) {
  nm_mail_host *host = node->mail;
  while (host->waiting_first != NULL) {
    nm_mail_waiting *waiting = host->waiting_first;
    size_t size = nm_block_span(waiting->mail.packed).len;
    if (!tell_received(node, &waiting->mail)) {
      return false;
    }
    host->waiting_bytes -= size;
    host->waiting_first = waiting->next;
    host->waiting_last = waiting->next == NULL ? NULL : host->waiting_last;
    nm_release(node->mem, waiting);
  }
  return true;
}

/* Announces the wait first, then looks again: one of the two sides sees the
 * other. */
static bool tell_waiting_or_starve(nm_node *node) {
  grant(node);
  if (tell_waiting(node)) {
    return true;
  }
  if (node->mail->credit == 0) {
    atomic_store(&node->mail_starved, true);
    grant(node);
    return tell_waiting(node);
  }
  return false;
}

/* ---- both ---- */

bool nm_mail_deliver(nm_node *node) {
  nm_mail_host *host = node->mail;
  nm_mail mail;
  if (host == NULL) {
    return true;
  }
  grant(node);
  while (nm_router_event(host->router, &mail)) {
    host->moved = true;
    if (mail.kind == NM_MAIL_RECEIVED) {
      on_received(node, &mail);
    } else if (mail.kind == NM_MAIL_DROPPED) {
      on_dropped(node, &mail);
    } else {
      on_state(node, &mail);
    }
  }
  bool all = node->phase != NM_NODE_IS_OPEN || tell_waiting_or_starve(node);
  return deliver_states(node) && nm_mail_keep_tell_missed(node) && all;
}

bool nm_mail_rest(nm_node *node, nm_node_event *event) {
  nm_mail_host *host = node->mail;
  if (host == NULL || host->told.first == NULL) {
    return false;
  }
  (void)fill_state(node, event);
  return true;
}

void nm_mail_discard(nm_node *node) {
  nm_mail_host *host = node->mail;
  nm_mail mail;
  if (host == NULL) {
    return;
  }
  while (nm_router_event(host->router, &mail)) {
    if (mail.kind == NM_MAIL_RECEIVED) {
      nm_mail_refuse(node, &mail);
    } else if (mail.kind != NM_MAIL_DROPPED) {
      on_state(node, &mail);
    }
  }
  nm_node_event event = {0};
  while (nm_mail_rest(node, &event)) {
    nm_node_event_dispose(&event);
  }
}

static void free_list(nm_node *node, nm_mail_list *list) {
  while (list->first != NULL) {
    nm_mail_entry *entry = list->first;
    leave_queue(node->mail, entry);
    if (entry->ended) { /* else a table has it, or the list of fetches */
      nm_mail_entry_free(node, entry);
    }
  }
}

void nm_mail_told_dispose(nm_node *node) {
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
