/* The tables of a transport node by number, for drivers that show and edit all
 * of them in the same way (transport_snapshot.h has each by name).
 */
#ifndef NM_STACK_TRANSPORT_TABLES_H
#define NM_STACK_TRANSPORT_TABLES_H

#include "stack/transport_snapshot.h"

/* X(NAME, member, text) */
#define NM_TRANSPORT_TABLE_LIST(X)                                             \
  X(REBROADCASTS, rebroadcast, "rebroadcasts")                                 \
  X(HELD, waiting, "held")                                                     \
  X(QUEUED, waiting, "queued")                                                 \
  X(CONTROLS, control, "controls")                                             \
  X(ALTERNATIVES, alternative, "alternatives")                                 \
  X(RATES, rate, "rates")                                                      \
  X(REVERSES, reverse, "reverses")                                             \
  X(TRANSITS, transit, "transits")                                             \
  X(TUNNELS, tunnel, "tunnels")                                                \
  X(TUNNEL_PATHS, tunnel_path, "tunnel_paths")                                 \
  X(SEARCHES, search, "searches")                                              \
  X(PASSED_REQUESTS, request_flight, "passed_requests")

typedef enum nm_transport_table {
#define NM_TRANSPORT_TABLE_ENUM(name, member, text) NM_TABLE_##name,
  NM_TRANSPORT_TABLE_LIST(NM_TRANSPORT_TABLE_ENUM)
#undef NM_TRANSPORT_TABLE_ENUM
      NM_TABLE_COUNT
} nm_transport_table;

/* One record of any of them. */
typedef union nm_transport_record {
  nm_rebroadcast_record rebroadcast;
  nm_waiting_record waiting;
  nm_control_record control;
  nm_alternative_record alternative;
  nm_rate_table_record rate;
  nm_reverse_record reverse;
  nm_transit_record transit;
  nm_tunnel_record tunnel;
  nm_tunnel_path_record tunnel_path;
  nm_search_record search;
  nm_request_flight_record request_flight;
} nm_transport_record;

/* "rebroadcasts", ...; never NULL. */
const char *nm_transport_table_name(nm_transport_table table);
/* The bytes of its records within the union. */
size_t nm_transport_record_size(nm_transport_table table);

/* The record after |after| (NULL: the first); |after| may be disposed of
 * already, its keys count alone. The caller disposes of |record|. */
bool nm_engine_table_next(const nm_engine *engine, nm_transport_table table,
                          const nm_transport_record *after,
                          nm_transport_record *record);
/* Adds or replaces. The errors of the table's own function. */
int nm_engine_table_put(nm_engine *engine, nm_transport_table table,
                        const nm_transport_record *record, nm_now now);
/* Removes the entry with the keys of |record|. NM_E(MISSING). */
int nm_engine_table_drop(nm_engine *engine, nm_transport_table table,
                         const nm_transport_record *record);
/* Lets the blocks of |record| go; its keys stay. */
void nm_transport_record_dispose(nm_transport_table table,
                                 nm_transport_record *record);

#endif
