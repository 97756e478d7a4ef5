/* From the loop to the reader: the ring, the descriptor, and what the reader
 * calls.
 */
#include "io/internal.h"
#include "io/mail.h"
#include "io/port.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* ---- the loop's side ---- */

static void fill_reply(nm_node_event *slot, nm_ask *ask) {
  slot->kind = NM_NODE_REPLY;
  slot->ticket = ask->c.ticket;
  slot->u.reply = ask->reply;
  memset(&ask->reply, 0, sizeof(ask->reply));
}

static nm_ask *next_reply(nm_node *node) {
  nm_ask *ask = node->replies;
  node->replies = ask->next;
  if (node->replies == NULL) {
    node->replies_end = NULL;
  }
  return ask;
}

static bool deliver_replies(nm_node *node) {
  while (node->replies != NULL) {
    nm_node_event *slot = nm_node_slot(node, 0);
    if (slot == NULL) {
      return false;
    }
    nm_ask *ask = next_reply(node);
    bool quiet = ask->c.quiet && ask->reply.status == NM_OK;
    fill_reply(slot, ask);
    (quiet ? nm_node_push_quietly : nm_node_push)(node);
    nm_ask_free(node->mem, ask);
    atomic_fetch_sub(&node->asks, 1);
  }
  return true;
}

/* Whether the event may wait for a later one: nobody follows its kind. */
static bool may_wait(const nm_node *node, const nm_event *event,
                     const nm_carried *carried) {
  unsigned follows = atomic_load_explicit(&node->follows, memory_order_relaxed);
  switch (event->kind) {
  case NM_EVENT_PROGRESS:
    return carried->ticket == 0
               ? (follows & NM_FOLLOW_ARRIVALS) == 0
               : carried->quiet && (follows & NM_FOLLOW_QUIET) == 0;
  case NM_EVENT_PATH:
    return (follows & NM_FOLLOW_PATHS) == 0;
  default:
    return false;
  }
}

static bool fill_event(nm_node *node, nm_node_event *slot, nm_event *event) {
  nm_carried carried = nm_tickets_of(&node->tickets, event);
  slot->kind = NM_NODE_EVENT;
  slot->ticket = carried.ticket;
  slot->u.event = *event;
  bool answers = carried.waiting != NULL && !carried.waiting->c.quiet;
  if (carried.waiting != NULL) {
    nm_path_found(node, carried.waiting, event); /* its reply comes next */
  }
  return answers || may_wait(node, event, &carried);
}

static bool deliver_events(nm_node *node) {
  for (;;) {
    nm_node_event *slot = nm_node_slot(node, 0);
    if (slot == NULL) {
      return false;
    }
    nm_event event;
    if (!nm_engine_event(node->engine, &event)) {
      return true;
    }
    if (node->mail != NULL && nm_mail_input(node, &event)) {
      continue;
    }
    if (event.kind == NM_EVENT_IFACE) {
      nm_node_ifaces_changed(node, true);
    }
    bool quiet = fill_event(node, slot, &event);
    (quiet ? nm_node_push_quietly : nm_node_push)(node);
  }
}

bool nm_node_deliver(nm_node *node) {
  if (atomic_load_explicit(&node->released, memory_order_relaxed)) {
    nm_event event;
    while (node->replies != NULL) {
      nm_ask_free(node->mem, next_reply(node));
    }
    while (nm_engine_event(node->engine, &event)) {
      nm_carried carried = nm_tickets_of(&node->tickets, &event);
      if (carried.waiting != NULL) {
        nm_ask_free(node->mem, carried.waiting);
      }
      nm_event_dispose(&event);
    }
    nm_mail_discard(node);
    return true;
  }
  /* Events may answer commands that waited for them. */
  return deliver_replies(node) && nm_port_user_deliver(node) &&
         deliver_events(node) && nm_mail_deliver(node) && deliver_replies(node);
}

/* ---- the reader's side ---- */

/* What is left of a node that the loop has let go of. */
static bool next_of_rest(nm_node *node, nm_node_event *event) {
  if (node->replies != NULL) {
    nm_ask *ask = next_reply(node);
    fill_reply(event, ask);
    nm_ask_free(node->mem, ask);
    atomic_fetch_sub(&node->asks, 1);
    return true;
  }
  nm_event left;
  while (nm_engine_event(node->engine, &left)) {
    if (node->mail == NULL || !nm_mail_input(node, &left)) {
      (void)fill_event(node, event, &left);
      return true;
    }
  }
  if (nm_mail_rest(node, event)) {
    return true;
  }
  if (node->told_closed) {
    return false;
  }
  node->told_closed = true;
  event->kind = NM_NODE_CLOSED;
  return true;
}

static void give_credit(nm_node *node, bool mail, uint32_t count) {
  if (!mail) {
    atomic_fetch_add_explicit(&node->drained, count, memory_order_relaxed);
    return;
  }
  atomic_fetch_add(&node->mail_drained, count);
  if (atomic_load(&node->mail_starved) &&
      atomic_exchange(&node->mail_starved, false)) {
    nm_node_kick(node);
  }
}

bool nm_node_next(nm_node *node, nm_node_event *event) {
  memset(event, 0, sizeof(*event));
  if (nm_loop_is_foreign(node->loop)) {
    return false;
  }
  bool handed = atomic_load(&node->handed);
  if (!nm_ring_pop(&node->ring, event)) {
    return handed && next_of_rest(node, event);
  }
  if (!node->manual_credit && nm_node_event_holds_credit(event)) {
    give_credit(node, event->kind == NM_NODE_MAIL, 1);
  }
  if (atomic_load(&node->blocked) &&
      nm_ring_count(&node->ring) <= node->ring.cap / 2 &&
      atomic_exchange(&node->blocked, false)) {
    nm_node_kick(node);
  }
  return true;
}

void nm_node_credit(nm_node *node, uint32_t count) {
  if (node->manual_credit && !nm_loop_is_foreign(node->loop)) {
    give_credit(node, false, count);
  }
}

void nm_node_mail_credit(nm_node *node, uint32_t count) {
  if (node->manual_credit && !nm_loop_is_foreign(node->loop)) {
    give_credit(node, true, count);
  }
}

void nm_node_follow(nm_node *node, unsigned follows) {
  atomic_store_explicit(&node->follows, follows, memory_order_relaxed);
}

int nm_node_fd(const nm_node *node) {
  return node->waker.read_fd;
}

static bool has_event(const nm_node *node) {
  return nm_ring_count(&node->ring) > 0 ||
         (atomic_load(&node->handed) && !node->told_closed);
}

bool nm_node_sleep(nm_node *node) {
  if (nm_loop_is_foreign(node->loop)) {
    return true;
  }
  atomic_store(&node->asleep, true);
  if (!has_event(node)) {
    return true;
  }
  atomic_store(&node->asleep, false);
  return false;
}

void nm_node_woken(nm_node *node) {
  if (!nm_loop_is_foreign(node->loop)) {
    nm_waker_clear(&node->waker);
  }
}

bool nm_node_wait(nm_node *node, int timeout_ms) {
  if (nm_loop_is_foreign(node->loop)) {
    return false;
  }
  nm_now start = nm_clock_now();
  int left_ms = timeout_ms;
  while (nm_node_sleep(node)) {
    struct pollfd fd = {.fd = node->waker.read_fd, .events = POLLIN};
    int ready = poll(&fd, 1, left_ms);
    if (ready > 0) {
      nm_node_woken(node);
    } else if (ready == 0 || errno != EINTR) {
      return has_event(node);
    }
    if (timeout_ms >= 0) {
      uint64_t spent = (nm_clock_now().mono_us - start.mono_us) / 1000;
      left_ms = spent >= (uint64_t)timeout_ms ? 0 : timeout_ms - (int)spent;
    }
  }
  return true;
}
