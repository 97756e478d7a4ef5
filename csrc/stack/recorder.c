#include "stack/internal.h"

#include <string.h>

int nm_flight_init(nm_engine *engine) {
  nm_flight *flight = &engine->flight;
  flight->cap = engine->limits.recorder;
  flight->last = 0;
  /* Not zeroed: pages that are never used are never touched. */
  flight->ring = nm_alloc(engine->mem, flight->cap * sizeof(flight->ring[0]));
  return flight->ring == NULL ? NM_E(MEMORY) : NM_OK;
}

void nm_flight_dispose(nm_engine *engine) {
  nm_release(engine->mem, engine->flight.ring);
  engine->flight.ring = NULL;
}

nm_record *nm_flight_add(nm_engine *engine, nm_record_kind kind,
                         nm_iface_id iface, uint8_t code) {
  nm_flight *flight = &engine->flight;
  flight->last++;
  nm_record *record = &flight->ring[flight->last % flight->cap];
  memset(record, 0, sizeof(*record));
  record->seq = flight->last;
  record->mono_us = engine->now.mono_us;
  record->kind = kind;
  record->iface = iface;
  record->code = code;
  return record;
}

nm_input_seq nm_engine_record_last(const nm_engine *engine) {
  return engine->flight.last;
}

nm_input_seq nm_engine_record_first(const nm_engine *engine) {
  const nm_flight *flight = &engine->flight;
  if (flight->last == 0) {
    return 0;
  }
  return flight->last < flight->cap ? 1 : flight->last - flight->cap + 1;
}

nm_record *nm_flight_find(nm_engine *engine, nm_input_seq seq) {
  nm_flight *flight = &engine->flight;
  nm_input_seq first = nm_engine_record_first(engine);
  return first != 0 && seq >= first && seq <= flight->last
             ? &flight->ring[seq % flight->cap]
             : NULL;
}

bool nm_engine_record(const nm_engine *engine, nm_input_seq seq,
                      nm_record *record) {
  nm_input_seq first = nm_engine_record_first(engine);
  if (seq < first) {
    seq = first;
  }
  if (first == 0 || seq > engine->flight.last) {
    return false;
  }
  *record = engine->flight.ring[seq % engine->flight.cap];
  return true;
}
