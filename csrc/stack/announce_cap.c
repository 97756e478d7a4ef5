/* The share of an interface's bitrate that relayed announces may take
 * (RNS 1, 8.8).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"

#include <string.h>

#define LIFE_US (10800ull * 1000000)
#define WORDS (NM_HOPS_MAX / 64 + 1)

static nm_queued_announce *find_queued(const nm_cap_queue *queue,
                                       const nm_destination_hash *hash) {
  return (nm_queued_announce *)(void *)nm_table_find(&queue->table, hash);
}

static void mark(nm_cap_queue *queue, uint8_t hops) {
  uint64_t bit = 1ull << (hops % 64);
  uint64_t *word = &queue->used[hops / 64];
  *word = queue->first[hops] != NULL ? *word | bit : *word & ~bit;
}

static void append(nm_cap_queue *queue, nm_queued_announce *entry) {
  entry->next = NULL;
  entry->prev = queue->last[entry->hops];
  if (entry->prev == NULL) {
    queue->first[entry->hops] = entry;
  } else {
    entry->prev->next = entry;
  }
  queue->last[entry->hops] = entry;
  mark(queue, entry->hops);
}

static void unlink_entry(nm_cap_queue *queue, nm_queued_announce *entry) {
  if (entry->prev == NULL) {
    queue->first[entry->hops] = entry->next;
  } else {
    entry->prev->next = entry->next;
  }
  if (entry->next == NULL) {
    queue->last[entry->hops] = entry->prev;
  } else {
    entry->next->prev = entry->prev;
  }
  mark(queue, entry->hops);
}

/* Takes |entry| out of the queue and frees it. */
static void discard(nm_cap_queue *queue, nm_queued_announce *entry) {
  nm_engine *engine = queue->engine;
  unlink_entry(queue, entry);
  nm_table_remove(&queue->table, &entry->link);
  nm_block_drop(entry->packet);
  nm_release(engine->mem, entry);
  engine->stats.announces_queued--;
}

static nm_queued_announce *nearest(const nm_cap_queue *queue) {
  for (size_t i = 0; i < WORDS; i++) {
    if (queue->used[i] != 0) {
      return queue->first[64 * i + (size_t)__builtin_ctzll(queue->used[i])];
    }
  }
  return NULL;
}

static nm_queued_announce *farthest(const nm_cap_queue *queue) {
  for (size_t i = WORDS; i-- > 0;) {
    if (queue->used[i] != 0) {
      return queue
          ->first[64 * i + 63 - (size_t)__builtin_clzll(queue->used[i])];
    }
  }
  return NULL;
}

static uint64_t pause_after(const nm_iface *iface, size_t bytes) {
  return nm_us(nm_announce_cap_delay(bytes, nm_iface_bitrate(iface),
                                     iface->spec.announce_cap));
}

static void spend(nm_engine *engine, nm_iface *iface, size_t bytes) {
  iface->announce_allowed_us = engine->now.mono_us + pause_after(iface, bytes);
}

/* The next one's turn. What has waited too long goes first: an old path is
 * worth nothing. */
static void take_turn(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_cap_queue *queue =
      (nm_cap_queue *)(void *)((char *)timer - offsetof(nm_cap_queue, timer));
  nm_iface *iface = queue->iface;
  nm_queued_announce *entry = nearest(queue);
  while (entry != NULL && engine->now.mono_us > entry->queued_us + LIFE_US) {
    nm_engine_count_drop(engine, iface, NM_DROP_ANNOUNCE_EXPIRED);
    discard(queue, entry);
    entry = nearest(queue);
  }
  if (entry == NULL) {
    return;
  }
  nm_block *packet = nm_block_hold(entry->packet);
  discard(queue, entry);
  spend(engine, iface, nm_block_span(packet).len);
  if (queue->table.count > 0) {
    (void)nm_timer_arm(&engine->timers, timer, iface->announce_allowed_us);
  }
  nm_control_announce_out(engine, iface);
  (void)nm_iface_relay(engine, iface, packet);
}

static void dispose_queued(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_block_drop(((nm_queued_announce *)(void *)entry)->packet);
  nm_release(engine->mem, entry);
}

static void dispose_queue(nm_engine *engine, nm_iface *iface) {
  nm_cap_queue *queue = iface->cap_queue;
  if (queue == NULL) {
    return;
  }
  engine->stats.announces_queued -= (uint32_t)queue->table.count;
  nm_timer_disarm(&engine->timers, &queue->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_table_dispose(&queue->table);
  nm_release(engine->mem, queue);
  iface->cap_queue = NULL;
}

static nm_cap_queue *ensure_queue(nm_engine *engine, nm_iface *iface) {
  if (iface->cap_queue != NULL) {
    return iface->cap_queue;
  }
  const nm_table_config config = {
      .capacity = engine->limits.announce_queue,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_queued_announce, hash),
      .dispose = dispose_queued,
  };
  nm_cap_queue *queue = nm_alloc_zero(engine->mem, 1, sizeof(*queue));
  if (queue == NULL ||
      nm_engine_table(engine, &queue->table, &config) != NM_OK) {
    nm_release(engine->mem, queue);
    return NULL;
  }
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    nm_table_dispose(&queue->table);
    nm_release(engine->mem, queue);
    return NULL;
  }
  queue->engine = engine;
  queue->iface = iface;
  queue->timer.fire = take_turn;
  queue->dispose = dispose_queue;
  iface->cap_queue = queue;
  return queue;
}

/* A place for an announce of |hops|: the queue's own or one of what came from
 * farther. False: none. */
static bool make_room(nm_engine *engine, nm_cap_queue *queue, uint8_t hops) {
  bool full = queue->table.count >= engine->limits.announce_queue ||
              engine->stats.announces_queued >= engine->limits.announce_queues;
  if (!full) {
    return true;
  }
  nm_queued_announce *worst = farthest(queue);
  if (worst == NULL || worst->hops <= hops) {
    return false;
  }
  nm_engine_count_drop(engine, queue->iface, NM_DROP_ANNOUNCE_QUEUE);
  discard(queue, worst);
  return true;
}

/* Queues or replaces. False: no room. */
static bool enqueue(nm_engine *engine, nm_cap_queue *queue,
                    const nm_cap_announce *announce) {
  nm_queued_announce *entry =
      (nm_queued_announce *)(void *)nm_table_find_hashed(
          &queue->table, announce->key, &announce->hash);
  if (entry != NULL) {
    if (announce->emitted <= entry->emitted) {
      return true; /* it waits already */
    }
    unlink_entry(queue, entry);
    nm_block_drop(entry->packet);
  } else {
    if (!make_room(engine, queue, announce->hops)) {
      return false;
    }
    entry = nm_alloc_zero(engine->mem, 1, sizeof(*entry));
    if (entry == NULL) {
      return false;
    }
    entry->hash = announce->hash;
    if (nm_table_insert_hashed(&queue->table, &entry->link, announce->key) !=
        NM_OK) {
      nm_release(engine->mem, entry);
      return false;
    }
    engine->stats.announces_queued++;
  }
  entry->packet = nm_block_hold(announce->packet);
  entry->hops = announce->hops;
  entry->emitted = announce->emitted;
  entry->queued_us = engine->now.mono_us;
  append(queue, entry);
  return true;
}

void nm_cap_send(nm_engine *engine, nm_iface *iface,
                 const nm_cap_announce *announce) {
  bool waits = iface->cap_queue != NULL && iface->cap_queue->table.count > 0;
  if (!waits && engine->now.mono_us >= iface->announce_allowed_us) {
    spend(engine, iface, nm_block_span(announce->packet).len);
    nm_control_announce_out(engine, iface);
    (void)nm_iface_relay(engine, iface, nm_block_hold(announce->packet));
    return;
  }
  nm_cap_queue *queue = ensure_queue(engine, iface);
  if (queue == NULL || !enqueue(engine, queue, announce)) {
    nm_engine_count_drop(engine, iface, NM_DROP_ANNOUNCE_QUEUE);
    return;
  }
  if (!nm_timer_armed(&queue->timer)) {
    (void)nm_timer_arm(&engine->timers, &queue->timer,
                       iface->announce_allowed_us);
  }
}

bool nm_cap_spend(nm_engine *engine, nm_iface *iface, size_t bytes) {
  bool waits = iface->cap_queue != NULL && iface->cap_queue->table.count > 0;
  if (waits || engine->now.mono_us < iface->announce_allowed_us) {
    return false;
  }
  spend(engine, iface, bytes);
  return true;
}

/* ---- records ---- */

static nm_queued_announce *find_waiting(const nm_engine *engine,
                                        const nm_waiting_key *key) {
  const nm_iface *iface = nm_iface_find(engine, key->iface);
  return iface == NULL || iface->cap_queue == NULL
             ? NULL
             : find_queued(iface->cap_queue, &key->destination);
}

static const nm_queued_announce *first_after(const nm_engine *engine,
                                             const nm_iface **iface) {
  while ((*iface = nm_iface_after(engine, *iface)) != NULL) {
    const nm_cap_queue *queue = (*iface)->cap_queue;
    if (queue != NULL && queue->table.count > 0) {
      return (const nm_queued_announce *)(const void *)nm_table_next(
          &queue->table, NULL);
    }
  }
  return NULL;
}

bool nm_engine_queued_next(const nm_engine *engine, const nm_waiting_key *after,
                           nm_waiting_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_iface *iface =
      after == NULL ? NULL : nm_iface_find(engine, after->iface);
  const nm_queued_announce *at =
      after == NULL ? NULL : find_waiting(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  if (at != NULL) {
    at = (const nm_queued_announce *)(const void *)nm_table_next(
        &iface->cap_queue->table, &at->link);
  }
  if (at == NULL) {
    at = first_after(engine, &iface);
  }
  if (at == NULL) {
    return false;
  }
  record->iface = iface->id;
  record->destination = at->hash;
  record->hops = at->hops;
  record->since_mono_us = at->queued_us;
  record->since_unix_us = nm_unix_of(engine, at->queued_us);
  record->packet = nm_block_hold(at->packet);
  return true;
}

int nm_engine_queued_put(nm_engine *engine, const nm_waiting_record *record,
                         nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, record->iface);
  nm_packet packet;
  nm_announce announce;
  if (iface == NULL) {
    return NM_E(MISSING);
  }
  if (record->packet == NULL || record->hops > NM_HOPS_MAX ||
      nm_packet_parse(nm_block_span(record->packet), &packet, NULL) != NM_OK ||
      nm_announce_parse(&packet, &announce, NULL) != NM_OK) {
    return NM_E(ARGUMENT);
  }
  nm_cap_queue *queue = ensure_queue(engine, iface);
  if (queue == NULL) {
    return NM_E(MEMORY);
  }
  nm_queued_announce *old = find_queued(queue, &record->destination);
  if (old != NULL) {
    discard(queue, old);
  }
  const nm_cap_announce waiting = {
      .packet = record->packet,
      .hash = record->destination,
      .key = nm_table_hash(&queue->table, &record->destination),
      .emitted = announce.emitted,
      .hops = record->hops};
  if (!enqueue(engine, queue, &waiting)) {
    return NM_E(LIMIT);
  }
  find_queued(queue, &record->destination)->queued_us = record->since_mono_us;
  if (!nm_timer_armed(&queue->timer)) {
    (void)nm_timer_arm(&engine->timers, &queue->timer,
                       iface->announce_allowed_us);
  }
  return NM_OK;
}

int nm_engine_queued_drop(nm_engine *engine, const nm_waiting_key *key) {
  nm_queued_announce *entry = find_waiting(engine, key);
  if (entry == NULL) {
    return NM_E(MISSING);
  }
  discard(nm_iface_find(engine, key->iface)->cap_queue, entry);
  return NM_OK;
}
