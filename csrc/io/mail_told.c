/* What the router tells, on its way into the ring.
 */
#include "io/mail_keep.h"

#include <string.h>

/* ---- states ---- */

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

static bool is_final(const nm_mail *mail) {
  return mail->kind == NM_MAIL_SYNC ? mail->sync_ended : mail->ended;
}

static nm_mail_entry *find_entry(const nm_mail_host *host,
                                 const nm_mail *mail) {
  if (mail->kind != NM_MAIL_SYNC) {
    nm_table_link *link = nm_table_find(&host->letters, mail->id);
    return link == NULL ? NULL : (nm_mail_entry *)(void *)link;
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
    nm_mail_join_queue(host, entry, NM_MAIL_QUEUED_NOW);
    return;
  }
  if (entry->queued != NM_MAIL_NOT_QUEUED) {
    return;
  }
  nm_mail_join_queue(host, entry, NM_MAIL_QUEUED_LATE);
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
    nm_mail_leave_queue(host, entry);
    nm_mail_keep_end(node, entry);
  } else {
    queue_state(node, entry);
  }
}

/* Moves the first state into |slot|; true when the reader need not wake. */
static bool fill_state(nm_node *node, nm_node_event *slot) {
  nm_mail_host *host = node->mail;
  nm_mail_entry *entry = host->told.first;
  bool quiet = entry->quiet && !entry->ended &&
               !atomic_load_explicit(&node->follows, memory_order_relaxed);
  nm_mail_leave_queue(host, entry);
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

/* Credit that those have which were proven ahead and are yet to be told of. */
static uint64_t pledged(const nm_mail_host *host) {
  return (uint64_t)nm_router_ahead(host->router) + host->waiting_proven;
}

/* Room and credit: it is proven, unless it was ahead, and told. False: it goes
 * on waiting. */
static bool tell_received(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  bool proven = mail->token == 0;
  nm_node_event *slot =
      !proven && host->credit <= pledged(host) ? NULL : nm_node_slot(node, 0);
  if (slot == NULL) {
    return false;
  }
  host->moved = true;
  if (!proven && nm_router_taken(host->router, mail->token, true,
                                 node->loop->now) != NM_OK) {
    nm_mail_dispose(mail); /* it has lapsed, and will come again */
    return true;
  }
  host->credit -= host->credit > 0;
  nm_mail_put_event(slot, 0, mail);
  slot->u.mail.holds_credit = true;
  nm_mail_put_source(node, &slot->u.mail);
  nm_node_push(node);
  return true;
}

/* What was proven ahead waits for room alone, and goes first. */
static void wait_for_credit(nm_node *node, nm_mail *mail) {
  nm_mail_host *host = node->mail;
  size_t size = nm_block_span(mail->packed).len;
  nm_mail_waiting *waiting =
      host->waiting_bytes + size > NM_MAIL_WAITING_MAX
          ? NULL
          : nm_alloc_zero(node->mem, 1, sizeof(*waiting));
  if (waiting == NULL) {
    node->stats.events_lost += mail->token == 0; /* proven ahead */
    nm_mail_refuse(node, mail);
    return;
  }
  waiting->mail = *mail;
  host->waiting_bytes += size;
  if (host->waiting_first == NULL) {
    host->waiting_first = waiting;
    host->waiting_last = waiting;
  } else if (mail->token == 0) {
    waiting->next = host->waiting_first;
    host->waiting_first = waiting;
  } else {
    host->waiting_last->next = waiting;
    host->waiting_last = waiting;
  }
  host->waiting_proven += mail->token == 0;
}

static void on_received(nm_node *node, nm_mail *mail) {
  if (node->phase != NM_NODE_IS_OPEN && mail->token != 0) {
    nm_mail_refuse(node, mail); /* nobody will read it */
  } else if (nm_mail_box_of(node, &mail->mailbox) != NULL) {
    nm_mail_keep_received(node, mail);
  } else if ((mail->token != 0 && node->mail->waiting_first != NULL) ||
             !tell_received(node, mail)) {
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
    bool proven = waiting->mail.token == 0;
    if (!tell_received(node, &waiting->mail)) {
      return false;
    }
    host->waiting_proven -= proven;
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
