/* The tables of a transport node as records: read, edited, put back (E4, E5).
 * As in snapshot.h: plain values, times on both clocks, variable parts in
 * blocks that the reader drops
 * (nm_transport_record_dispose). Each `next` gives the record after the given
 * key (NULL to start) in an order that is stable while the table is not
 * changed; false at the end. Each `put` adds or replaces and takes the times as
 * they are: NM_E(ARGUMENT), NM_E(MISSING) when an interface is not there,
 * NM_E(MEMORY). Each `drop` gives NM_E(MISSING) when there is no such entry.
 */
#ifndef NM_STACK_TRANSPORT_SNAPSHOT_H
#define NM_STACK_TRANSPORT_SNAPSHOT_H

#include "stack/engine.h"

/* An announce in flight (RNS 1, 8.6). */
typedef struct nm_rebroadcast_record {
  nm_destination_hash destination;
  uint8_t received_from[NM_ADDRESS_SIZE];
  uint8_t hops;
  uint8_t retries;
  uint8_t local_rebroadcasts;
  bool path_response;   /* upstream's "block rebroadcasts" */
  nm_iface_id attached; /* where alone it goes; 0: everywhere */
  nm_iface_id iface;    /* where it came from */
  uint64_t added_mono_us;
  int64_t added_unix_us;
  uint64_t due_mono_us;
  int64_t due_unix_us;
  bool aside;         /* a rebroadcast waits until this response is out */
  nm_block *announce; /* as received */
} nm_rebroadcast_record;

bool nm_engine_rebroadcast_next(const nm_engine *engine,
                                const nm_destination_hash *after,
                                nm_rebroadcast_record *record);
int nm_engine_rebroadcast_put(nm_engine *engine,
                              const nm_rebroadcast_record *record, nm_now now);
int nm_engine_rebroadcast_drop(nm_engine *engine,
                               const nm_destination_hash *hash);

/* An announce that is held back during a burst (RNS 1, 8.15), or that waits for
 * its share of an interface (8.8). */
typedef struct nm_waiting_record {
  nm_iface_id iface;
  nm_destination_hash destination;
  uint8_t hops;
  uint64_t since_mono_us;
  int64_t since_unix_us;
  nm_block *packet; /* held: as received; queued: as it will leave */
} nm_waiting_record;

typedef struct nm_waiting_key {
  nm_iface_id iface;
  nm_destination_hash destination;
} nm_waiting_key;

bool nm_engine_held_next(const nm_engine *engine, const nm_waiting_key *after,
                         nm_waiting_record *record);
bool nm_engine_queued_next(const nm_engine *engine, const nm_waiting_key *after,
                           nm_waiting_record *record);
/* Queues a packet of an announce for an interface, as if its share were used
 * up. NM_E(LIMIT) when the queue is full of nearer ones. */
int nm_engine_queued_put(nm_engine *engine, const nm_waiting_record *record,
                         nm_now now);
int nm_engine_queued_drop(nm_engine *engine, const nm_waiting_key *key);
/* Holds an announce as a burst would; its signature must have been checked. */
int nm_engine_held_put(nm_engine *engine, const nm_waiting_record *record,
                       nm_now now);
int nm_engine_held_drop(nm_engine *engine, const nm_waiting_key *key);
/* Lets a held announce go on at once. */
int nm_engine_held_release(nm_engine *engine, const nm_waiting_key *key,
                           nm_now now);

/* How often announces and path requests pass an interface, and what is limited
 * for it (RNS 1, 8.15). Rates are per second and not read back. */
typedef struct nm_control_record {
  nm_iface_id iface;
  double announces_in_rate;
  double announces_out_rate;
  double requests_in_rate;
  double requests_out_rate;
  bool announce_burst;
  uint64_t announce_burst_mono_us; /* since when; of the last one when over */
  int64_t announce_burst_unix_us;
  bool request_burst;
  uint64_t request_burst_mono_us;
  int64_t request_burst_unix_us;
  uint64_t release_mono_us; /* nothing held is let go before */
  int64_t release_unix_us;
} nm_control_record;

/* Only interfaces that have seen some. */
bool nm_engine_control_next(const nm_engine *engine, nm_iface_id after,
                            nm_control_record *record);
/* Begins or ends bursts. */
int nm_engine_control_put(nm_engine *engine, const nm_control_record *record,
                          nm_now now);
/* Forgets rates and bursts; what is held stays until it is released. */
int nm_engine_control_drop(nm_engine *engine, nm_iface_id iface);

/* Another way to the destination of a path, which takes over when the one in
 * use fails. Destination, next hop and interface are its key. */
typedef struct nm_alternative_record {
  nm_destination_hash destination;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  nm_iface_id iface;
  uint8_t hops;
  uint64_t emitted; /* Unix seconds: of the newest announce that came by it */
  uint64_t heard_mono_us;
  int64_t heard_unix_us;
  uint64_t failed_mono_us; /* when it was last found not to work, or 0 */
  int64_t failed_unix_us;
} nm_alternative_record;

/* Those of one path stand in the order in which they are tried. */
bool nm_engine_alternative_next(const nm_engine *engine,
                                const nm_alternative_record *after,
                                nm_alternative_record *record);
/* NM_E(MISSING) without a path or its interface, NM_E(ARGUMENT) when it is the
 * way in use, NM_E(LIMIT) when there are enough better ones. */
int nm_engine_alternative_put(nm_engine *engine,
                              const nm_alternative_record *record, nm_now now);
int nm_engine_alternative_drop(nm_engine *engine,
                               const nm_alternative_record *record);

/* How often a destination's announces came (RNS 1, 5.8). Seconds on the
 * monotonic clock. */
typedef struct nm_rate_table_record {
  nm_destination_hash destination;
  double last_s;
  double blocked_until_s;
  uint32_t violations;
  nm_block *times; /* when its last 16 came, oldest first: monotonic us, 8 bytes
                      each, big-endian */
} nm_rate_table_record;

bool nm_engine_rate_next(const nm_engine *engine,
                         const nm_destination_hash *after,
                         nm_rate_table_record *record);
int nm_engine_rate_put(nm_engine *engine, const nm_rate_table_record *record);
int nm_engine_rate_drop(nm_engine *engine, const nm_destination_hash *hash);

/* A forwarded packet that waits for its proof. */
typedef struct nm_reverse_record {
  uint8_t key[NM_ADDRESS_SIZE]; /* its truncated packet hash */
  nm_iface_id received;
  nm_iface_id out;
  uint64_t at_mono_us;
  int64_t at_unix_us;
} nm_reverse_record;

bool nm_engine_reverse_next(const nm_engine *engine, const uint8_t *after,
                            nm_reverse_record *record);
int nm_engine_reverse_put(nm_engine *engine, const nm_reverse_record *record);
int nm_engine_reverse_drop(nm_engine *engine,
                           const uint8_t key[NM_ADDRESS_SIZE]);

/* A link that passes through. */
typedef struct nm_transit_record {
  nm_link_id id;
  nm_destination_hash destination;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  nm_iface_id next_iface;
  nm_iface_id received_iface;
  uint8_t remaining;
  uint8_t taken;
  bool validated;
  uint64_t used_mono_us;
  int64_t used_unix_us;
  uint64_t deadline_mono_us; /* of its proof */
  int64_t deadline_unix_us;
} nm_transit_record;

bool nm_engine_transit_next(const nm_engine *engine, const nm_link_id *after,
                            nm_transit_record *record);
int nm_engine_transit_put(nm_engine *engine, const nm_transit_record *record,
                          nm_now now);
int nm_engine_transit_drop(nm_engine *engine, const nm_link_id *id);

/* A peer whose paths come back with it (RNS 1, 8.11), and one of the paths. */
typedef struct nm_tunnel_record {
  uint8_t id[NM_HASH_SIZE];
  nm_iface_id iface; /* 0: it is away */
  uint64_t expires_mono_us;
  int64_t expires_unix_us;
  uint32_t paths;
} nm_tunnel_record;

typedef struct nm_tunnel_path_record {
  uint8_t tunnel[NM_HASH_SIZE];
  nm_destination_hash destination;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  uint8_t hops;
  uint64_t updated_mono_us;
  int64_t updated_unix_us;
  uint64_t expires_mono_us;
  int64_t expires_unix_us;
  nm_packet_hash announce_hash;
  nm_block *announce; /* may be NULL */
  nm_block *blobs;    /* 10 bytes each, oldest first */
} nm_tunnel_path_record;

bool nm_engine_tunnel_next(const nm_engine *engine, const uint8_t *after,
                           nm_tunnel_record *record);
/* With an interface it is bound to it, and its paths come back. */
int nm_engine_tunnel_put(nm_engine *engine, const nm_tunnel_record *record,
                         nm_now now);
int nm_engine_tunnel_drop(nm_engine *engine, const uint8_t id[NM_HASH_SIZE]);
bool nm_engine_tunnel_path_next(const nm_engine *engine,
                                const uint8_t tunnel[NM_HASH_SIZE],
                                const nm_destination_hash *after,
                                nm_tunnel_path_record *record);
int nm_engine_tunnel_path_drop(nm_engine *engine,
                               const uint8_t tunnel[NM_HASH_SIZE],
                               const nm_destination_hash *hash);
/* NM_E(MISSING) when there is no such tunnel. */
int nm_engine_tunnel_path_put(nm_engine *engine,
                              const nm_tunnel_path_record *record);

/* A destination that interfaces wait for (RNS 1, 8.9.4 case 4). */
typedef struct nm_search_record {
  nm_destination_hash destination;
  bool engaged; /* requests went out */
  uint64_t until_mono_us;
  int64_t until_unix_us;
  nm_block *ifaces; /* who waits: 4 bytes each, big-endian */
} nm_search_record;

bool nm_engine_search_next(const nm_engine *engine,
                           const nm_destination_hash *after,
                           nm_search_record *record);
int nm_engine_search_put(nm_engine *engine, const nm_search_record *record);
int nm_engine_search_drop(nm_engine *engine, const nm_destination_hash *hash);

/* A path request that was passed on and is not answered. */
typedef struct nm_request_flight_record {
  nm_destination_hash destination;
  uint64_t since_mono_us;
  int64_t since_unix_us;
} nm_request_flight_record;

bool nm_engine_request_flight_next(const nm_engine *engine,
                                   const nm_destination_hash *after,
                                   nm_request_flight_record *record);
int nm_engine_request_flight_put(nm_engine *engine,
                                 const nm_request_flight_record *record);
int nm_engine_request_flight_drop(nm_engine *engine,
                                  const nm_destination_hash *hash);

#endif
