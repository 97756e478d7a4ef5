/* What a node publishes for readers of any thread: its figures and the list of
 * its interfaces. The rows of a thousand connections are mostly zeros, so the
 * list is kept without these, and the reader puts them back.
 */
#include "io/internal.h"
#include "io/port.h"

#include <string.h>

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

/* ---- the list without zeros: the number of rows; of each row one bit for each
 * of its words, then the words that are not zero ---- */

#define ROW_WORDS (sizeof(nm_iface_info) / sizeof(uint64_t))
#define BIT_WORDS ((ROW_WORDS + 63) / 64)
_Static_assert(sizeof(nm_iface_info) % sizeof(uint64_t) == 0,
               "a row is whole words");

/* Its size in words; with |out| not NULL it is written there. */
static size_t pack_row(const nm_iface_info *row, uint64_t *out) {
  uint64_t words[ROW_WORDS];
  uint64_t bits[BIT_WORDS] = {0};
  size_t size = BIT_WORDS;
  memcpy(words, row, sizeof(words));
  for (size_t i = 0; i < ROW_WORDS; i++) {
    if (words[i] != 0) {
      bits[i / 64] |= 1ull << (i % 64);
      if (out != NULL) {
        out[size] = words[i];
      }
      size++;
    }
  }
  if (out != NULL) {
    memcpy(out, bits, sizeof(bits));
  }
  return size;
}

static size_t unpack_row(const uint64_t *from, nm_iface_info *row) {
  uint64_t words[ROW_WORDS] = {0};
  size_t size = BIT_WORDS;
  for (size_t i = 0; i < ROW_WORDS; i++) {
    if ((from[i / 64] >> (i % 64) & 1) != 0) {
      words[i] = from[size++];
    }
  }
  memcpy(row, words, sizeof(words));
  return size;
}

static size_t pack_all(nm_node *node, uint64_t *out) {
  size_t size = 1;
  const nm_port *port = NULL;
  while ((port = nm_port_next(node, port)) != NULL) {
    nm_iface_info row;
    nm_port_row(port, &row);
    size += pack_row(&row, out == NULL ? NULL : &out[size]);
  }
  if (out != NULL) {
    out[0] = node->ports.count;
  }
  return size;
}

/* NULL without memory. */
static nm_block *packed_list(nm_node *node) {
  nm_block *list =
      nm_block_new(node->mem, pack_all(node, NULL) * sizeof(uint64_t));
  if (list != NULL) {
    (void)pack_all(node, (uint64_t *)(void *)nm_block_bytes(list));
  }
  return list;
}

static nm_block *unpacked_list(const nm_node *node, const nm_block *packed) {
  const uint64_t *from =
      (const uint64_t *)(const void *)nm_block_span(packed).ptr;
  size_t count = (size_t)from[0];
  nm_block *list = nm_block_new(node->mem, count * sizeof(nm_iface_info));
  if (list == NULL) {
    return NULL;
  }
  nm_iface_info *rows = (nm_iface_info *)(void *)nm_block_bytes(list);
  size_t at = 1;
  for (size_t i = 0; i < count; i++) {
    at += unpack_row(&from[at], &rows[i]);
  }
  return list;
}

static void publish_ifaces(nm_node *node) {
  nm_block *list = packed_list(node);
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
  nm_block *packed = node->ifaces_out;
  if (packed != NULL) {
    (void)nm_block_hold(packed);
  }
  pthread_mutex_unlock(&node->ifaces_lock);
  nm_block *list = packed == NULL ? NULL : unpacked_list(node, packed);
  nm_block_drop(packed);
  return list;
}
