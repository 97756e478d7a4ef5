/* The way into the ring, from the loop to the reader. */
#include "io/internal.h"

nm_node_event *nm_node_slot(nm_node *node, uint32_t reserve) {
  if (nm_ring_room(&node->ring) > reserve) {
    return nm_ring_slot(&node->ring);
  }
  if (reserve > 0) {
    return NULL; /* lossy: nobody waits for room */
  }
  /* Announce the wait first, then look again: one of the two sides sees the
   * other. */
  atomic_store(&node->blocked, true);
  if (nm_ring_room(&node->ring) == 0) {
    return NULL;
  }
  atomic_store(&node->blocked, false);
  return nm_ring_slot(&node->ring);
}

/* A quiet event wakes nobody: a later one does. Not when many wait for one. */
static void push(nm_node *node, bool quiet) {
  nm_ring_push(&node->ring);
  node->stats.events++;
  if (quiet && nm_ring_count(&node->ring) < node->ring.cap / 4) {
    return;
  }
  if (atomic_load(&node->asleep) && !node->is_waking) {
    node->is_waking = true;
    node->next_waking = node->loop->waking;
    node->loop->waking = nm_node_hold(node);
  }
}

void nm_loop_wake_readers(nm_loop *loop) {
  while (loop->waking != NULL) {
    nm_node *node = loop->waking;
    loop->waking = node->next_waking;
    node->is_waking = false;
    if (atomic_exchange(&node->asleep, false)) {
      nm_waker_signal(&node->waker);
    }
    nm_node_drop(node);
  }
}

void nm_node_push(nm_node *node) {
  push(node, false);
}

void nm_node_push_quietly(nm_node *node) {
  push(node, true);
}

/* Lossy events leave a quarter of the ring to those that must not wait. */
static uint32_t lossy_reserve(const nm_node *node) {
  return node->ring.cap / 4;
}

void nm_node_tell(nm_node *node, const nm_trouble *trouble) {
  nm_node_event *slot = nm_node_slot(node, lossy_reserve(node));
  if (slot == NULL) {
    node->stats.events_lost++;
    return;
  }
  slot->kind = NM_NODE_TROUBLE;
  slot->ticket = 0;
  slot->u.trouble = *trouble;
  nm_node_push(node);
}

void nm_node_tell_peer(nm_node *node, const nm_peer_notice *peer) {
  nm_node_event *slot = nm_node_slot(node, lossy_reserve(node));
  if (slot == NULL) {
    node->stats.events_lost++;
    return;
  }
  slot->kind = NM_NODE_PEER;
  slot->ticket = 0;
  slot->u.peer = *peer;
  nm_node_push(node);
}

void nm_node_tap(nm_node *node, nm_iface_id iface, bool incoming,
                 nm_span data) {
  nm_node_event *slot = nm_node_slot(node, lossy_reserve(node));
  nm_block *copy = slot == NULL ? NULL : nm_block_copy(node->mem, data);
  if (copy == NULL) {
    node->stats.tap_lost++;
    return;
  }
  slot->kind = NM_NODE_TAP;
  slot->ticket = 0;
  slot->u.frame.iface = iface;
  slot->u.frame.incoming = incoming;
  slot->u.frame.at = node->loop->now;
  slot->u.frame.data = copy;
  nm_node_push(node);
}
