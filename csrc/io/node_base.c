/* What every file of the room does with a node: holds it, wakes it, grants
 * credit.
 */
#include "io/internal.h"

nm_node *nm_node_hold(nm_node *node) {
  atomic_fetch_add(&node->holders, 1);
  return node;
}

void nm_node_drop(nm_node *node) {
  if (atomic_fetch_sub(&node->holders, 1) == 1) {
    node->dispose(node);
  }
}

void nm_node_wake(nm_node *node) {
  if (!node->is_active && node->phase != NM_NODE_IS_GONE) {
    node->is_active = true;
    node->next_active = node->loop->active;
    node->loop->active = node;
  }
}

void nm_node_grant(nm_node *node) {
  unsigned drained = atomic_load_explicit(&node->drained, memory_order_relaxed);
  if (drained != node->credited) {
    nm_engine_credit(node->engine, drained - node->credited, node->loop->now);
    node->credited = drained;
  }
}

void nm_node_ifaces_changed(nm_node *node, bool urgent) {
  node->ifaces_changed = true;
  if (urgent) {
    node->ifaces_urgent = true;
    nm_node_wake(node); /* nothing else may come that publishes it */
  }
}

static void on_kick(nm_loop *loop, nm_post *post) {
  (void)loop;
  unsigned char *at = (unsigned char *)post;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, kick_post));
  atomic_store(&node->kicked, false);
  nm_node_wake(node);
  nm_node_drop(node);
}

void nm_node_kick(nm_node *node) {
  if (atomic_exchange(&node->kicked, true)) {
    return;
  }
  node->kick_post.run = on_kick;
  (void)nm_node_hold(node);
  if (nm_loop_post(node->loop, &node->kick_post) != NM_OK) {
    nm_node_drop(node);
  }
}
