/* Who waits for a destination that is not known yet, and which requests for it
 * were passed on (RNS 1, 8.9.4, 8.5.1 steps 14, 16 and 20).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"

#include <string.h>

#define SECOND_US 1000000ull
#define FLIGHT_LIFE_US (45 * SECOND_US)

static int init_table(nm_engine *engine, nm_table *table, size_t key_offset) {
  const nm_table_config config = {
      .capacity = engine->limits.searches,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = key_offset,
      .dispose = nm_engine_release_entry,
  };
  return nm_engine_table(engine, table, &config);
}

int nm_searches_init(nm_engine *engine) {
  nm_transport *t = &engine->carried;
  int status = init_table(engine, &t->searches, offsetof(nm_search, hash));
  if (status == NM_OK) {
    status =
        init_table(engine, &t->requests, offsetof(nm_request_flight, hash));
  }
  return status == NM_OK ? init_table(engine, &t->client_asks,
                                      offsetof(nm_client_ask, hash))
                         : status;
}

void nm_searches_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->carried.searches);
  nm_table_dispose(&engine->carried.requests);
  nm_table_dispose(&engine->carried.client_asks);
}

/* ---- waiting interfaces ---- */

static void end_search(nm_engine *engine, nm_search *search) {
  nm_table_remove(&engine->carried.searches, &search->link);
  nm_release(engine->mem, search);
}

nm_search *nm_search_find(nm_engine *engine, const nm_destination_hash *hash) {
  nm_search *search =
      (nm_search *)(void *)nm_table_find(&engine->carried.searches, hash);
  if (search != NULL && engine->now.mono_us > search->until_us) {
    end_search(engine, search);
    return NULL;
  }
  return search;
}

bool nm_search_waits(nm_engine *engine, const nm_destination_hash *hash) {
  return nm_search_find(engine, hash) != NULL;
}

static void add_iface(nm_search *search, nm_iface_id iface) {
  for (uint32_t i = 0; i < search->count; i++) {
    if (search->ifaces[i] == iface) {
      return;
    }
  }
  if (search->count < NM_SEARCH_IFACES_MAX) {
    search->ifaces[search->count++] = iface;
  }
}

nm_search *nm_search_join(nm_engine *engine, const nm_destination_hash *hash,
                          nm_iface_id iface, uint64_t life_us) {
  nm_search *search = nm_search_find(engine, hash);
  if (search == NULL) {
    search = nm_alloc_zero(engine->mem, 1, sizeof(*search));
    if (search == NULL) {
      return NULL;
    }
    search->hash = *hash;
    search->until_us = engine->now.mono_us + life_us;
    if (nm_table_insert(&engine->carried.searches, &search->link) != NM_OK) {
      nm_release(engine->mem, search);
      return NULL;
    }
  }
  add_iface(search, iface);
  return search;
}

void nm_search_answer(nm_engine *engine, const nm_destination_hash *hash,
                      nm_block *raw, uint8_t hops) {
  nm_search *search = nm_search_find(engine, hash);
  if (search == NULL) {
    return;
  }
  nm_block *packet = nm_relayed_announce(engine, nm_block_span(raw), hops,
                                         NM_CONTEXT_PATH_RESPONSE);
  for (uint32_t i = 0; packet != NULL && i < search->count; i++) {
    nm_iface *out = nm_iface_find(engine, search->ifaces[i]);
    if (out != NULL) {
      nm_control_announce_out(engine, out);
      (void)nm_iface_send(engine, out, nm_block_hold(packet), 0);
    }
  }
  nm_block_drop(packet);
  end_search(engine, search);
}

/* ---- requests that were passed on ---- */

static nm_request_flight *find_flight(nm_engine *engine,
                                      const nm_destination_hash *hash) {
  return (nm_request_flight *)(void *)nm_table_find(&engine->carried.requests,
                                                    hash);
}

const nm_request_flight *nm_search_in_flight(nm_engine *engine,
                                             const nm_destination_hash *hash) {
  nm_request_flight *flight = find_flight(engine, hash);
  if (flight != NULL &&
      engine->now.mono_us > flight->since_us + FLIGHT_LIFE_US) {
    nm_search_answered(engine, hash);
    return NULL;
  }
  return flight;
}

void nm_search_passed_on(nm_engine *engine, const nm_destination_hash *hash) {
  nm_search_answered(engine, hash);
  nm_request_flight *flight = nm_alloc_zero(engine->mem, 1, sizeof(*flight));
  if (flight == NULL) {
    return; /* only means that a repetition is passed on as well */
  }
  flight->hash = *hash;
  flight->since_us = engine->now.mono_us;
  if (nm_table_insert(&engine->carried.requests, &flight->link) != NM_OK) {
    nm_release(engine->mem, flight);
  }
}

void nm_search_led_nowhere(nm_engine *engine, const nm_destination_hash *hash) {
  nm_request_flight *flight = find_flight(engine, hash);
  if (flight != NULL) {
    flight->fruitless = true;
  }
}

void nm_search_answered(nm_engine *engine, const nm_destination_hash *hash) {
  nm_table_link *flight = nm_table_find(&engine->carried.requests, hash);
  if (flight != NULL) {
    nm_table_remove(&engine->carried.requests, flight);
    nm_release(engine->mem, flight);
  }
}

/* ---- destinations behind local clients ---- */

void nm_search_ask_client(nm_engine *engine, const nm_destination_hash *hash,
                          nm_iface_id iface) {
  nm_table_link *old = nm_table_find(&engine->carried.client_asks, hash);
  if (old != NULL) {
    ((nm_client_ask *)(void *)old)->iface = iface;
    return;
  }
  nm_client_ask *ask = nm_alloc_zero(engine->mem, 1, sizeof(*ask));
  if (ask == NULL) {
    return;
  }
  ask->hash = *hash;
  ask->iface = iface;
  if (nm_table_insert(&engine->carried.client_asks, &ask->link) != NM_OK) {
    nm_release(engine->mem, ask);
  }
}

nm_iface_id nm_search_client_ask(nm_engine *engine,
                                 const nm_destination_hash *hash) {
  nm_table_link *entry = nm_table_find(&engine->carried.client_asks, hash);
  if (entry == NULL) {
    return 0;
  }
  nm_iface_id iface = ((nm_client_ask *)(void *)entry)->iface;
  nm_table_remove(&engine->carried.client_asks, entry);
  nm_release(engine->mem, entry);
  return iface;
}

/* ---- records ---- */

static nm_search *stored_search(const nm_engine *engine,
                                const nm_destination_hash *hash) {
  return (nm_search *)(void *)nm_table_find(&engine->carried.searches, hash);
}

static nm_block *packed_ifaces(const nm_engine *engine,
                               const nm_search *search) {
  size_t size = search->count * sizeof(uint32_t);
  nm_block *block = nm_block_new(engine->mem, size);
  if (block != NULL) {
    nm_writer w = nm_writer_of(nm_block_bytes(block), size);
    for (uint32_t i = 0; i < search->count; i++) {
      nm_writer_u32(&w, search->ifaces[i]);
    }
  }
  return block;
}

bool nm_engine_search_next(const nm_engine *engine,
                           const nm_destination_hash *after,
                           nm_search_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_search *at = after == NULL ? NULL : stored_search(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  do {
    at = (const nm_search *)(const void *)nm_table_next(
        &engine->carried.searches, at == NULL ? NULL : &at->link);
  } while (at != NULL && engine->now.mono_us > at->until_us);
  if (at == NULL) {
    return false;
  }
  record->destination = at->hash;
  record->engaged = at->engaged;
  record->until_mono_us = at->until_us;
  record->until_unix_us = nm_unix_of(engine, at->until_us);
  record->ifaces = packed_ifaces(engine, at);
  return record->ifaces != NULL;
}

int nm_engine_search_put(nm_engine *engine, const nm_search_record *record) {
  nm_reader r =
      nm_reader_of(record->ifaces == NULL ? nm_span_of(NULL, 0)
                                          : nm_block_span(record->ifaces));
  if (nm_reader_left(&r) % sizeof(uint32_t) != 0 ||
      nm_reader_left(&r) > NM_SEARCH_IFACES_MAX * sizeof(uint32_t)) {
    return NM_E(ARGUMENT);
  }
  nm_search *search = nm_search_join(engine, &record->destination, 0, 0);
  if (search == NULL) {
    return NM_E(MEMORY);
  }
  search->engaged = record->engaged;
  search->until_us = record->until_mono_us;
  search->count = 0;
  while (nm_reader_left(&r) > 0) {
    add_iface(search, nm_reader_u32(&r));
  }
  return NM_OK;
}

int nm_engine_search_drop(nm_engine *engine, const nm_destination_hash *hash) {
  nm_search *search = stored_search(engine, hash);
  if (search == NULL) {
    return NM_E(MISSING);
  }
  end_search(engine, search);
  return NM_OK;
}

static const nm_request_flight *stored_flight(const nm_engine *engine,
                                              const nm_destination_hash *hash) {
  return (const nm_request_flight *)(const void *)nm_table_find(
      &engine->carried.requests, hash);
}

bool nm_engine_request_flight_next(const nm_engine *engine,
                                   const nm_destination_hash *after,
                                   nm_request_flight_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_request_flight *at =
      after == NULL ? NULL : stored_flight(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  do {
    at = (const nm_request_flight *)(const void *)nm_table_next(
        &engine->carried.requests, at == NULL ? NULL : &at->link);
  } while (at != NULL && engine->now.mono_us > at->since_us + FLIGHT_LIFE_US);
  if (at == NULL) {
    return false;
  }
  record->destination = at->hash;
  record->since_mono_us = at->since_us;
  record->since_unix_us = nm_unix_of(engine, at->since_us);
  return true;
}

int nm_engine_request_flight_put(nm_engine *engine,
                                 const nm_request_flight_record *record) {
  nm_search_answered(engine, &record->destination);
  nm_search_passed_on(engine, &record->destination);
  nm_request_flight *flight = (nm_request_flight *)(void *)nm_table_find(
      &engine->carried.requests, &record->destination);
  if (flight == NULL) {
    return NM_E(MEMORY);
  }
  flight->since_us = record->since_mono_us;
  return NM_OK;
}

int nm_engine_request_flight_drop(nm_engine *engine,
                                  const nm_destination_hash *hash) {
  if (stored_flight(engine, hash) == NULL) {
    return NM_E(MISSING);
  }
  nm_search_answered(engine, hash);
  return NM_OK;
}
