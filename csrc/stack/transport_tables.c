#include "stack/transport_tables.h"

#include <string.h>

const char *nm_transport_table_name(nm_transport_table table) {
  static const char *const names[] = {
#define NAME(name, member, text) text,
      NM_TRANSPORT_TABLE_LIST(NAME)
#undef NAME
  };
  return names[table];
}

size_t nm_transport_record_size(nm_transport_table table) {
  static const size_t sizes[] = {
#define SIZE(name, member, text) sizeof(((nm_transport_record *)NULL)->member),
      NM_TRANSPORT_TABLE_LIST(SIZE)
#undef SIZE
  };
  return sizes[table];
}

static nm_waiting_key key_of(const nm_waiting_record *record) {
  nm_waiting_key key = {.iface = record->iface,
                        .destination = record->destination};
  return key;
}

/* The paths of one tunnel after the other. */
static bool tunnel_path_next(const nm_engine *engine,
                             const nm_tunnel_path_record *after,
                             nm_tunnel_path_record *record) {
  nm_tunnel_record tunnel;
  bool more = false;
  if (after != NULL) {
    if (nm_engine_tunnel_path_next(engine, after->tunnel, &after->destination,
                                   record)) {
      return true;
    }
    more = nm_engine_tunnel_next(engine, after->tunnel, &tunnel);
  } else {
    more = nm_engine_tunnel_next(engine, NULL, &tunnel);
  }
  while (more) {
    if (nm_engine_tunnel_path_next(engine, tunnel.id, NULL, record)) {
      return true;
    }
    nm_tunnel_record last = tunnel;
    more = nm_engine_tunnel_next(engine, last.id, &tunnel);
  }
  return false;
}

static bool waiting_next(const nm_engine *engine, nm_transport_table table,
                         const nm_transport_record *after,
                         nm_transport_record *record) {
  nm_waiting_key key;
  if (after != NULL) {
    key = key_of(&after->waiting);
  }
  const nm_waiting_key *from = after == NULL ? NULL : &key;
  return table == NM_TABLE_HELD
             ? nm_engine_held_next(engine, from, &record->waiting)
             : nm_engine_queued_next(engine, from, &record->waiting);
}

bool nm_engine_table_next(const nm_engine *engine, nm_transport_table table,
                          const nm_transport_record *after,
                          nm_transport_record *record) {
  bool first = after == NULL;
  switch (table) {
  case NM_TABLE_REBROADCASTS:
    return nm_engine_rebroadcast_next(
        engine, first ? NULL : &after->rebroadcast.destination,
        &record->rebroadcast);
  case NM_TABLE_HELD:
  case NM_TABLE_QUEUED:
    return waiting_next(engine, table, after, record);
  case NM_TABLE_CONTROLS:
    return nm_engine_control_next(engine, first ? 0 : after->control.iface,
                                  &record->control);
  case NM_TABLE_ALTERNATIVES:
    return nm_engine_alternative_next(
        engine, first ? NULL : &after->alternative, &record->alternative);
  case NM_TABLE_RATES:
    return nm_engine_rate_next(engine, first ? NULL : &after->rate.destination,
                               &record->rate);
  case NM_TABLE_REVERSES:
    return nm_engine_reverse_next(engine, first ? NULL : after->reverse.key,
                                  &record->reverse);
  case NM_TABLE_TRANSITS:
    return nm_engine_transit_next(engine, first ? NULL : &after->transit.id,
                                  &record->transit);
  case NM_TABLE_TUNNELS:
    return nm_engine_tunnel_next(engine, first ? NULL : after->tunnel.id,
                                 &record->tunnel);
  case NM_TABLE_TUNNEL_PATHS:
    return tunnel_path_next(engine, first ? NULL : &after->tunnel_path,
                            &record->tunnel_path);
  case NM_TABLE_SEARCHES:
    return nm_engine_search_next(
        engine, first ? NULL : &after->search.destination, &record->search);
  case NM_TABLE_PASSED_REQUESTS:
    return nm_engine_request_flight_next(
        engine, first ? NULL : &after->request_flight.destination,
        &record->request_flight);
  case NM_TABLE_COUNT:
    break;
  }
  return false;
}

int nm_engine_table_put(nm_engine *engine, nm_transport_table table,
                        const nm_transport_record *record, nm_now now) {
  switch (table) {
  case NM_TABLE_REBROADCASTS:
    return nm_engine_rebroadcast_put(engine, &record->rebroadcast, now);
  case NM_TABLE_HELD:
    return nm_engine_held_put(engine, &record->waiting, now);
  case NM_TABLE_QUEUED:
    return nm_engine_queued_put(engine, &record->waiting, now);
  case NM_TABLE_CONTROLS:
    return nm_engine_control_put(engine, &record->control, now);
  case NM_TABLE_ALTERNATIVES:
    return nm_engine_alternative_put(engine, &record->alternative, now);
  case NM_TABLE_RATES:
    return nm_engine_rate_put(engine, &record->rate);
  case NM_TABLE_REVERSES:
    return nm_engine_reverse_put(engine, &record->reverse);
  case NM_TABLE_TRANSITS:
    return nm_engine_transit_put(engine, &record->transit, now);
  case NM_TABLE_TUNNELS:
    return nm_engine_tunnel_put(engine, &record->tunnel, now);
  case NM_TABLE_TUNNEL_PATHS:
    return nm_engine_tunnel_path_put(engine, &record->tunnel_path);
  case NM_TABLE_SEARCHES:
    return nm_engine_search_put(engine, &record->search);
  case NM_TABLE_PASSED_REQUESTS:
    return nm_engine_request_flight_put(engine, &record->request_flight);
  case NM_TABLE_COUNT:
    break;
  }
  return NM_E(ARGUMENT);
}

int nm_engine_table_drop(nm_engine *engine, nm_transport_table table,
                         const nm_transport_record *record) {
  nm_waiting_key key;
  switch (table) {
  case NM_TABLE_REBROADCASTS:
    return nm_engine_rebroadcast_drop(engine, &record->rebroadcast.destination);
  case NM_TABLE_HELD:
    key = key_of(&record->waiting);
    return nm_engine_held_drop(engine, &key);
  case NM_TABLE_QUEUED:
    key = key_of(&record->waiting);
    return nm_engine_queued_drop(engine, &key);
  case NM_TABLE_CONTROLS:
    return nm_engine_control_drop(engine, record->control.iface);
  case NM_TABLE_ALTERNATIVES:
    return nm_engine_alternative_drop(engine, &record->alternative);
  case NM_TABLE_RATES:
    return nm_engine_rate_drop(engine, &record->rate.destination);
  case NM_TABLE_REVERSES:
    return nm_engine_reverse_drop(engine, record->reverse.key);
  case NM_TABLE_TRANSITS:
    return nm_engine_transit_drop(engine, &record->transit.id);
  case NM_TABLE_TUNNELS:
    return nm_engine_tunnel_drop(engine, record->tunnel.id);
  case NM_TABLE_TUNNEL_PATHS:
    return nm_engine_tunnel_path_drop(engine, record->tunnel_path.tunnel,
                                      &record->tunnel_path.destination);
  case NM_TABLE_SEARCHES:
    return nm_engine_search_drop(engine, &record->search.destination);
  case NM_TABLE_PASSED_REQUESTS:
    return nm_engine_request_flight_drop(engine,
                                         &record->request_flight.destination);
  case NM_TABLE_COUNT:
    break;
  }
  return NM_E(ARGUMENT);
}

void nm_transport_record_dispose(nm_transport_table table,
                                 nm_transport_record *record) {
  switch (table) {
  case NM_TABLE_REBROADCASTS:
    nm_block_drop(record->rebroadcast.announce);
    record->rebroadcast.announce = NULL;
    break;
  case NM_TABLE_HELD:
  case NM_TABLE_QUEUED:
    nm_block_drop(record->waiting.packet);
    record->waiting.packet = NULL;
    break;
  case NM_TABLE_TUNNEL_PATHS:
    nm_block_drop(record->tunnel_path.announce);
    nm_block_drop(record->tunnel_path.blobs);
    record->tunnel_path.announce = NULL;
    record->tunnel_path.blobs = NULL;
    break;
  case NM_TABLE_RATES:
    nm_block_drop(record->rate.times);
    record->rate.times = NULL;
    break;
  case NM_TABLE_SEARCHES:
    nm_block_drop(record->search.ifaces);
    record->search.ifaces = NULL;
    break;
  default:
    break;
  }
}
