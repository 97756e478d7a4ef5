/* Announces that go out again, and answers to path requests (RNS 1, 5.8, 8.5.1
 * steps 6 and 10 to 16, 8.6, 8.7).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"

#include <string.h>

#define SECOND_US 1000000ull
/* A relayed announce leaves within half a second, and again after this. */
#define SPREAD_US (SECOND_US / 2)
/* Copies that one tick makes at most; the others come a moment later, so that a
 * tick stays short with a thousand interfaces. */
#define COPIES_PER_TICK 512
#define MOMENT_US 500
#define AGAIN_US (5 * SECOND_US + SPREAD_US)
#define LOCAL_REBROADCASTS_MAX 2
#define RETRIES_MAX 1
/* Announces are rebroadcast by default at most so often (RNS 1, 5.8). */
#define RATE_TARGET_S 3600
#define RATE_GRACE 5

#define RATE_TIMES_MAX 16

typedef struct nm_rate_record {
  nm_table_link link;
  nm_destination_hash hash;
  nm_announce_rate rate;
  uint32_t time_count;
  union {          /* of its last announces, oldest first */
    uint64_t only; /* most have one */
    uint64_t *list;
  } times;
} nm_rate_record;

static void free_entry(nm_engine *engine, nm_rebroadcast *entry) {
  if (entry->aside != NULL) {
    free_entry(engine, entry->aside);
  }
  nm_timer_disarm(&engine->timers, &entry->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_block_drop(entry->announce);
  nm_release(engine->mem, entry);
}

static void dispose_entry(void *user, nm_table_link *link) {
  free_entry(user, (nm_rebroadcast *)(void *)link);
}

static uint64_t *times_of(nm_rate_record *record) {
  return record->time_count > 1 ? record->times.list : &record->times.only;
}

static void forget_times(nm_engine *engine, nm_rate_record *record) {
  if (record->time_count > 1) {
    nm_release(engine->mem, record->times.list);
  }
  record->time_count = 0;
}

static void dispose_rate(void *user, nm_table_link *link) {
  nm_engine *engine = user;
  forget_times(engine, (nm_rate_record *)(void *)link);
  nm_release(engine->mem, link);
}

int nm_rebroadcasts_init(nm_engine *engine) {
  const nm_table_config entries = {
      .capacity = engine->limits.rebroadcasts,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_rebroadcast, hash),
      .dispose = dispose_entry,
  };
  const nm_table_config rates = {
      .capacity = engine->limits.paths,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_rate_record, hash),
      .dispose = dispose_rate,
  };
  int status = nm_engine_table(engine, &engine->carried.rebroadcasts, &entries);
  return status == NM_OK
             ? nm_engine_table(engine, &engine->carried.rates, &rates)
             : status;
}

void nm_rebroadcasts_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->carried.rebroadcasts);
  nm_table_dispose(&engine->carried.rates);
}

static nm_rebroadcast *find_entry(const nm_engine *engine,
                                  const nm_destination_hash *hash) {
  return (nm_rebroadcast *)(void *)nm_table_find(&engine->carried.rebroadcasts,
                                                 hash);
}

static void remove_entry(nm_engine *engine, nm_rebroadcast *entry) {
  nm_table_remove(&engine->carried.rebroadcasts, &entry->link);
  free_entry(engine, entry);
}

/* ---- where it goes ---- */

static nm_tristate to_internal(const nm_iface *iface) {
  return iface->spec.announces_to_internal < 0    ? NM_UNSET
         : iface->spec.announces_to_internal == 0 ? NM_NO
                                                  : NM_YES;
}

/* What the rules of RNS 1, 8.7 ask about an announce; those about the interface
 * that it leaves on are still to be filled in. */
static nm_propagation propagation_of(const nm_engine *engine,
                                     const nm_rebroadcast *entry) {
  const nm_path *path = nm_path_find(engine, &entry->hash);
  const nm_iface *source =
      path == NULL ? NULL : nm_iface_find(engine, path->iface);
  nm_propagation p = {.has_path = path != NULL, .hops = entry->hops};
  if (source != NULL) {
    p.source_mode = source->spec.mode;
    p.source_to_internal = to_internal(source);
  }
  return p;
}

static void send_on(nm_engine *engine, nm_iface *out, nm_propagation *p,
                    const nm_cap_announce *announce) {
  p->out_mode = out->spec.mode;
  p->out_from_internal = out->spec.announces_from_internal;
  switch (nm_announce_propagation(p)) {
  case NM_PROPAGATE_BLOCK:
    break;
  case NM_PROPAGATE_ALLOW:
    nm_control_announce_out(engine, out);
    (void)nm_iface_relay(engine, out, nm_block_hold(announce->packet));
    break;
  case NM_PROPAGATE_CAP:
    nm_cap_send(engine, out, announce);
    break;
  }
}

/* The interface after the last one that had its copy, which may be gone. They
 * stand in order of their ids. */
static nm_iface *next_to_send_to(const nm_engine *engine, nm_iface_id last) {
  nm_iface *at = last == 0 ? NULL : nm_iface_find(engine, last);
  bool gone = last != 0 && at == NULL;
  do {
    at = nm_iface_after(engine, at);
  } while (gone && at != NULL && at->id <= last);
  return at;
}

/* False: the tick has made enough copies, the others are still to be sent. */
static bool send_everywhere(nm_engine *engine, nm_rebroadcast *entry,
                            const nm_cap_announce *announce) {
  nm_propagation p = propagation_of(engine, entry);
  nm_iface *out = next_to_send_to(engine, entry->sent_to);
  for (; out != NULL; out = nm_iface_after(engine, out)) {
    /* Local clients had their copy at once. */
    if (!nm_iface_can_send(out) || out->spec.role == NM_ROLE_LOCAL_CLIENT) {
      continue;
    }
    if (engine->copies >= COPIES_PER_TICK) {
      return false;
    }
    engine->copies++;
    entry->sent_to = out->id;
    send_on(engine, out, &p, announce);
  }
  entry->sent_to = 0;
  return true;
}

static uint64_t emitted_at(const nm_rebroadcast *entry) {
  nm_packet packet;
  nm_announce announce;
  nm_span raw = nm_block_span(entry->announce);
  return nm_packet_parse(raw, &packet, NULL) == NM_OK &&
                 nm_announce_parse(&packet, &announce, NULL) == NM_OK
             ? announce.emitted
             : 0;
}

/* False when it has not gone everywhere yet. */
static bool transmit(nm_engine *engine, nm_rebroadcast *entry) {
  bool whole = true;
  nm_block *packet = nm_relayed_announce(
      engine, nm_block_span(entry->announce), entry->hops,
      entry->path_response ? NM_CONTEXT_PATH_RESPONSE : NM_CONTEXT_NONE);
  if (packet == NULL) {
    return true;
  }
  if (entry->attached == 0) {
    const nm_cap_announce announce = {
        .packet = packet,
        .hash = entry->hash,
        .key = nm_table_hash(&engine->carried.rebroadcasts, &entry->hash),
        .emitted = emitted_at(entry),
        .hops = entry->hops};
    whole = send_everywhere(engine, entry, &announce);
  } else {
    nm_iface *out = nm_iface_find(engine, entry->attached);
    if (out != NULL) {
      nm_control_announce_out(engine, out);
      (void)nm_iface_send(engine, out, nm_block_hold(packet), 0);
    }
  }
  nm_block_drop(packet);
  return whole;
}

/* Done: what was set aside for it comes back. */
static void finish(nm_engine *engine, nm_rebroadcast *entry) {
  nm_rebroadcast *aside = entry->aside;
  entry->aside = NULL;
  remove_entry(engine, entry);
  if (aside == NULL) {
    return;
  }
  if (nm_table_insert(&engine->carried.rebroadcasts, &aside->link) != NM_OK) {
    free_entry(engine, aside);
    return;
  }
  uint64_t now = engine->now.mono_us;
  uint64_t due = aside->timer.due_us;
  nm_engine_arm(engine, &aside->timer, due > now ? due - now : 0);
}

static void turn(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_rebroadcast *entry =
      (nm_rebroadcast *)(void *)((char *)timer -
                                 offsetof(nm_rebroadcast, timer));
  if (engine->copies >= COPIES_PER_TICK && entry->attached == 0) {
    nm_engine_arm(engine, timer, MOMENT_US);
    return;
  }
  if (nm_known_find(engine, &entry->hash) != NULL) {
    if (!transmit(engine, entry)) {
      nm_engine_arm(engine, timer, MOMENT_US);
      return;
    }
    entry->retries++;
    if (entry->retries <= RETRIES_MAX) {
      nm_engine_arm(engine, timer, AGAIN_US);
      return;
    }
  }
  finish(engine, entry);
}

/* ---- putting up ---- */

static nm_rebroadcast *new_entry(nm_engine *engine,
                                 const nm_destination_hash *hash, nm_block *raw,
                                 uint8_t hops) {
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_rebroadcast *entry = nm_alloc_zero(engine->mem, 1, sizeof(*entry));
  if (entry == NULL) {
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  entry->hash = *hash;
  entry->announce = nm_block_hold(raw);
  entry->hops = hops;
  entry->added_us = engine->now.mono_us;
  entry->timer.fire = turn;
  return entry;
}

/* Puts |entry| into the table, in place of what is there. */
static void put_up(nm_engine *engine, nm_rebroadcast *entry,
                   uint64_t delay_us) {
  nm_rebroadcast *old = find_entry(engine, &entry->hash);
  if (old != NULL) {
    remove_entry(engine, old);
  }
  if (nm_table_insert(&engine->carried.rebroadcasts, &entry->link) != NM_OK) {
    free_entry(engine, entry);
    return;
  }
  nm_engine_arm(engine, &entry->timer, delay_us);
}

static uint64_t spread(nm_engine *engine) {
  uint16_t random = 0;
  (void)nm_engine_random(engine, &random, sizeof(random));
  return SPREAD_US * random / UINT16_MAX;
}

static void put_up_announce(nm_engine *engine, const nm_announce *announce,
                            nm_block *raw, uint8_t hops,
                            const nm_iface *iface) {
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  nm_rebroadcast *entry = new_entry(engine, &hash, raw, hops);
  if (entry == NULL) {
    return;
  }
  bool relayed = announce->packet.header_type == NM_HEADER_2;
  memcpy(entry->received_from,
         relayed ? announce->packet.transport_id.ptr : hash.b, NM_ADDRESS_SIZE);
  entry->from = iface->id;
  bool client = iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  entry->retries = client ? RETRIES_MAX : 0;
  put_up(engine, entry, client ? 0 : spread(engine));
}

void nm_rebroadcast_answer(nm_engine *engine, const nm_path *path,
                           nm_iface *iface, uint64_t delay_us) {
  nm_rebroadcast *entry =
      new_entry(engine, &path->hash, path->announce, path->hops);
  if (entry == NULL) {
    return;
  }
  memcpy(entry->received_from, path->next_hop, NM_ADDRESS_SIZE);
  entry->from = path->iface;
  entry->retries = RETRIES_MAX;
  entry->path_response = true;
  entry->attached = iface->id;
  nm_rebroadcast *old = find_entry(engine, &path->hash);
  if (old != NULL && !old->path_response) {
    /* Its deadline stays readable in its idle timer. */
    nm_timer_disarm(&engine->timers, &old->timer);
    nm_table_remove(&engine->carried.rebroadcasts, &old->link);
    entry->aside = old;
  } else if (old != NULL) {
    entry->aside = old->aside;
    old->aside = NULL;
  }
  put_up(engine, entry, delay_us);
}

/* ---- rates ---- */

static nm_rate_record *ensure_rate(nm_engine *engine,
                                   const nm_destination_hash *hash) {
  nm_table *rates = &engine->carried.rates;
  nm_rate_record *record = (nm_rate_record *)(void *)nm_table_find(rates, hash);
  if (record != NULL) {
    nm_table_touch(rates, &record->link);
    return record;
  }
  record = nm_alloc_zero(engine->mem, 1, sizeof(*record));
  if (record == NULL) {
    return NULL;
  }
  record->hash = *hash;
  if (nm_table_insert(rates, &record->link) != NM_OK) {
    nm_release(engine->mem, record);
    return NULL;
  }
  return record;
}

/* Room for one more time. False without memory. */
static bool grow_times(nm_engine *engine, nm_rate_record *record) {
  uint32_t count = record->time_count;
  if (count == 0) {
    return true;
  }
  uint64_t *had = count > 1 ? record->times.list : NULL;
  uint64_t *list = nm_resize(engine->mem, had, (count + 1) * sizeof(*list));
  if (list == NULL) {
    return false;
  }
  if (had == NULL) {
    list[0] = record->times.only;
  }
  record->times.list = list;
  return true;
}

/* At the limit, and without memory, the oldest makes room. */
static void note_time(nm_engine *engine, nm_rate_record *record,
                      uint64_t at_us) {
  if (record->time_count < RATE_TIMES_MAX && grow_times(engine, record)) {
    record->time_count++;
  } else {
    uint64_t *times = times_of(record);
    memmove(&times[0], &times[1], (record->time_count - 1) * sizeof(*times));
  }
  times_of(record)[record->time_count - 1] = at_us;
}

static bool rate_blocks(nm_engine *engine, const nm_destination_hash *hash,
                        const nm_iface *iface) {
  const nm_iface_spec *spec = &iface->spec;
  bool by_default = spec->rate_target_s == 0;
  if (spec->role == NM_ROLE_LOCAL_CLIENT ||
      (by_default && !engine->transport)) {
    return false;
  }
  nm_rate_record *record = ensure_rate(engine, hash);
  if (record == NULL) {
    return false;
  }
  note_time(engine, record, engine->now.mono_us);
  return nm_announce_rate_blocks(&record->rate, nm_seconds(engine->now.mono_us),
                                 by_default ? RATE_TARGET_S
                                            : spec->rate_target_s,
                                 by_default ? RATE_GRACE : spec->rate_grace,
                                 by_default ? 0 : spec->rate_penalty_s);
}

/* ---- an announce that was taken ---- */

static void tell_clients(nm_engine *engine, nm_span raw, uint8_t hops,
                         const nm_iface *source) {
  if (engine->carried.clients == 0) {
    return;
  }
  nm_block *copy = nm_relayed_announce(engine, raw, hops, NM_CONTEXT_NONE);
  nm_iface *out = NULL;
  while (copy != NULL && (out = nm_iface_after(engine, out)) != NULL) {
    if (out != source && out->spec.role == NM_ROLE_LOCAL_CLIENT &&
        nm_iface_can_send(out)) {
      (void)nm_iface_send(engine, out, nm_block_hold(copy), 0);
    }
  }
  nm_block_drop(copy);
}

void nm_transport_announce(nm_engine *engine, const nm_announce *announce,
                           nm_block *raw, uint8_t hops, nm_iface *iface) {
  if (!nm_transport_is_on(engine)) {
    return;
  }
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  bool client = iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  bool response = announce->packet.context == NM_CONTEXT_PATH_RESPONSE;
  bool blocked = !response && rate_blocks(engine, &hash, iface);
  if (response) {
    /* A client's registration goes out only when somebody asked for it. */
    if (client && nm_search_client_ask(engine, &hash) != 0) {
      put_up_announce(engine, announce, raw, hops, iface);
    }
  } else if ((engine->transport || client) && !blocked) {
    put_up_announce(engine, announce, raw, hops, iface);
  } else if (blocked) {
    engine->stats.announces_blocked++;
  }
  tell_clients(engine, nm_block_span(raw), hops, iface);
  nm_search_answer(engine, &hash, raw, hops);
}

/* ---- what the neighbours do (8.5.1 step 6) ---- */

/* The same signed bytes as ours: then it needs no verification. */
static bool is_same(const nm_rebroadcast *entry, const nm_announce *announce) {
  nm_packet packet;
  return nm_packet_parse(nm_block_span(entry->announce), &packet, NULL) ==
             NM_OK &&
         nm_span_equal(packet.payload, announce->packet.payload);
}

void nm_rebroadcast_heard(nm_engine *engine, const nm_announce *announce,
                          uint8_t hops) {
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  nm_rebroadcast *entry = find_entry(engine, &hash);
  if (!engine->transport || entry == NULL || hops == 0 ||
      announce->packet.header_type != NM_HEADER_2 ||
      !is_same(entry, announce)) {
    return;
  }
  if (hops - 1 == entry->hops) {
    entry->local_rebroadcasts++;
    if (entry->retries > 0 &&
        entry->local_rebroadcasts >= LOCAL_REBROADCASTS_MAX) {
      finish(engine, entry);
    }
  } else if (hops - 1 == entry->hops + 1 && entry->retries > 0) {
    finish(engine, entry);
  }
}

bool nm_rebroadcast_is_ahead(const nm_engine *engine,
                             const nm_destination_hash *hash) {
  const nm_rebroadcast *entry = find_entry(engine, hash);
  return entry != NULL && entry->retries == 0 && !entry->path_response;
}

/* ---- records ---- */

bool nm_engine_rebroadcast_next(const nm_engine *engine,
                                const nm_destination_hash *after,
                                nm_rebroadcast_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_rebroadcast *at = after == NULL ? NULL : find_entry(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_rebroadcast *)(const void *)nm_table_next(
      &engine->carried.rebroadcasts, at == NULL ? NULL : &at->link);
  if (at == NULL) {
    return false;
  }
  record->destination = at->hash;
  memcpy(record->received_from, at->received_from, NM_ADDRESS_SIZE);
  record->hops = at->hops;
  record->retries = at->retries;
  record->local_rebroadcasts = at->local_rebroadcasts;
  record->path_response = at->path_response;
  record->attached = at->attached;
  record->iface = at->from;
  record->added_mono_us = at->added_us;
  record->added_unix_us = nm_unix_of(engine, at->added_us);
  record->due_mono_us = at->timer.due_us;
  record->due_unix_us = nm_unix_of(engine, at->timer.due_us);
  record->aside = at->aside != NULL;
  record->announce = nm_block_hold(at->announce);
  return true;
}

int nm_engine_rebroadcast_put(nm_engine *engine,
                              const nm_rebroadcast_record *record, nm_now now) {
  engine->now = now;
  if (record->announce == NULL || record->hops > NM_HOPS_MAX) {
    return NM_E(ARGUMENT);
  }
  if (record->attached != 0 &&
      nm_iface_find(engine, record->attached) == NULL) {
    return NM_E(MISSING);
  }
  nm_rebroadcast *entry =
      new_entry(engine, &record->destination, record->announce, record->hops);
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  memcpy(entry->received_from, record->received_from, NM_ADDRESS_SIZE);
  entry->retries = record->retries;
  entry->local_rebroadcasts = record->local_rebroadcasts;
  entry->path_response = record->path_response;
  entry->attached = record->attached;
  entry->from = record->iface;
  entry->added_us = record->added_mono_us;
  uint64_t due = record->due_mono_us;
  put_up(engine, entry, due > now.mono_us ? due - now.mono_us : 0);
  return NM_OK;
}

int nm_engine_rebroadcast_drop(nm_engine *engine,
                               const nm_destination_hash *hash) {
  nm_rebroadcast *entry = find_entry(engine, hash);
  if (entry == NULL) {
    return NM_E(MISSING);
  }
  remove_entry(engine, entry);
  return NM_OK;
}

static nm_rate_record *find_rate(const nm_engine *engine,
                                 const nm_destination_hash *hash) {
  return (nm_rate_record *)(void *)nm_table_find(&engine->carried.rates, hash);
}

bool nm_engine_rate_next(const nm_engine *engine,
                         const nm_destination_hash *after,
                         nm_rate_table_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_rate_record *at = after == NULL ? NULL : find_rate(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_rate_record *)(const void *)nm_table_next(
      &engine->carried.rates, at == NULL ? NULL : &at->link);
  if (at == NULL) {
    return false;
  }
  record->destination = at->hash;
  record->last_s = at->rate.last;
  record->blocked_until_s = at->rate.blocked_until;
  record->violations = at->rate.violations;
  size_t size = at->time_count * sizeof(uint64_t);
  record->times = nm_block_new(engine->mem, size);
  if (record->times == NULL) {
    return false;
  }
  const uint64_t *times = at->time_count > 1 ? at->times.list : &at->times.only;
  nm_writer w = nm_writer_of(nm_block_bytes(record->times), size);
  for (uint32_t i = 0; i < at->time_count; i++) {
    nm_writer_u64(&w, times[i]);
  }
  return true;
}

int nm_engine_rate_put(nm_engine *engine, const nm_rate_table_record *record) {
  nm_span times = nm_block_span(record->times);
  if (times.len % sizeof(uint64_t) != 0 ||
      times.len > RATE_TIMES_MAX * sizeof(uint64_t)) {
    return NM_E(ARGUMENT);
  }
  nm_rate_record *entry = ensure_rate(engine, &record->destination);
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  forget_times(engine, entry);
  nm_reader r = nm_reader_of(times);
  while (nm_reader_left(&r) > 0) {
    note_time(engine, entry, nm_reader_u64(&r));
  }
  entry->rate.known = true;
  entry->rate.last = record->last_s;
  entry->rate.blocked_until = record->blocked_until_s;
  entry->rate.violations = record->violations;
  return NM_OK;
}

int nm_engine_rate_drop(nm_engine *engine, const nm_destination_hash *hash) {
  nm_rate_record *entry = find_rate(engine, hash);
  if (entry == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&engine->carried.rates, &entry->link);
  dispose_rate(engine, &entry->link);
  return NM_OK;
}
