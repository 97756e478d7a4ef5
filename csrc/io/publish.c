/* What a node publishes for readers of any thread: its figures and the list of
 * its interfaces.
 */
#include "io/internal.h"
#include "io/port.h"

/* How old the published list of interfaces may get. */
#define PUBLISH_COUNTERS_US 100000
#define PUBLISH_URGENT_US 2000

void nm_node_publish(nm_node *node) {
  nm_node_stats *stats = &node->stats;
  nm_engine_stats_read(node->engine, &stats->engine);
  stats->at = node->loop->now;
  stats->ifaces = node->ports.count;
  stats->jobs_waiting = node->waiting.count + node->work_out;
  if (node->store != NULL) {
    stats->damaged_files = nm_store_damaged(node->store);
  }
  nm_published_write(&node->stats_out, stats);
}

static void publish_ifaces(nm_node *node) {
  size_t count;
  nm_block *list = nm_port_list(node, &count);
  if (list == NULL || pthread_mutex_trylock(&node->ifaces_lock) != 0) {
    nm_block_drop(list); /* a reader is at it: the next turn tries again */
    nm_node_wake(node);
    return;
  }
  nm_block *old = node->ifaces_out;
  node->ifaces_out = list;
  pthread_mutex_unlock(&node->ifaces_lock);
  nm_block_drop(old);
  node->ifaces_changed = false;
  node->ifaces_urgent = false;
  node->ifaces_published_us = node->loop->now.mono_us;
}

/* Long lists cost more and come out less often. */
void nm_node_publish_ifaces(nm_node *node) {
  if (!node->ifaces_changed || node->without_timers) {
    return;
  }
  uint64_t pause =
      node->ifaces_urgent ? PUBLISH_URGENT_US : PUBLISH_COUNTERS_US;
  pause *= 1 + node->ports.count / 64;
  uint64_t due = node->ifaces_published_us + pause;
  if (due <= node->loop->now.mono_us) {
    publish_ifaces(node);
  } else if (!nm_timer_armed(&node->publish_timer) ||
             node->publish_timer.due_us > due) {
    nm_loop_arm(node->loop, &node->publish_timer, due);
  }
}

void nm_node_stats_read(const nm_node *node, nm_node_stats *stats) {
  nm_published_read(&node->stats_out, stats);
}

nm_block *nm_node_ifaces(nm_node *node) {
  pthread_mutex_lock(&node->ifaces_lock);
  nm_block *list = node->ifaces_out;
  if (list != NULL) {
    (void)nm_block_hold(list);
  }
  pthread_mutex_unlock(&node->ifaces_lock);
  return list;
}
