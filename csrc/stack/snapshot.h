/* Tables as records: read, edited, put back (E4, E5). All records are plain
 * values; variable parts are copied into blocks that the reader drops. Times
 * are given on both clocks.
 */
#ifndef NM_STACK_SNAPSHOT_H
#define NM_STACK_SNAPSHOT_H

#include "stack/engine.h"

typedef struct nm_path_record {
  nm_destination_hash destination;
  uint8_t next_hop[NM_ADDRESS_SIZE]; /* transport id, or the destination */
  uint8_t hops;
  nm_iface_id iface;
  uint64_t updated_mono_us;
  int64_t updated_unix_us;
  uint64_t expires_mono_us; /* acceptance threshold (RNS 1, 8.2) */
  int64_t expires_unix_us;
  uint8_t state; /* 0 unknown, 1 unresponsive, 2 responsive */
  nm_packet_hash announce_hash;
  nm_block *announce; /* raw, hops as received; may be NULL */
  nm_block *blobs;    /* random hashes of 10 bytes, oldest first */
} nm_path_record;

typedef struct nm_known_record {
  nm_destination_hash destination;
  uint8_t public_key[NM_PUBLIC_SIZE];
  nm_packet_hash announce_hash;
  int64_t heard_unix_us;
  int64_t used_unix_us; /* 0 never, -1 retained */
  bool has_app_data;
  nm_block *app_data;
  bool has_ratchet;
  uint8_t ratchet[NM_KEY_SIZE];
  int64_t ratchet_unix_us;
} nm_known_record;

typedef struct nm_receipt_record {
  nm_packet_hash hash;
  nm_destination_hash destination;
  nm_link_ref link;
  nm_op_id op;
  uint8_t state;
  uint64_t sent_mono_us;
  int64_t sent_unix_us;
  uint64_t timeout_us;
} nm_receipt_record;

typedef struct nm_path_request_record {
  nm_destination_hash destination;
  uint64_t last_mono_us;
  int64_t last_unix_us;
  uint32_t waiting; /* operations that wait for it */
} nm_path_request_record;

typedef struct nm_blackhole_record {
  nm_identity_hash identity;
  nm_identity_hash source;
  int64_t until_unix_us; /* 0: for ever */
  nm_block *reason;
} nm_blackhole_record;

/* A path request of somebody else's that was seen (RNS 1, 8.9.2). */
typedef struct nm_path_tag {
  nm_destination_hash destination;
  uint8_t tag[NM_TAG_SIZE]; /* shorter ones are filled up with zeros */
} nm_path_tag;

/* Each call gives the record after the given key (NULL to start) in an order
 * that is stable while the table is not changed; false at the end. */
bool nm_engine_path_next(const nm_engine *engine,
                         const nm_destination_hash *after,
                         nm_path_record *record);
bool nm_engine_path_get(const nm_engine *engine,
                        const nm_destination_hash *hash,
                        nm_path_record *record);
/* The same without the blocks: nothing to dispose of. */
bool nm_engine_path_peek(const nm_engine *engine,
                         const nm_destination_hash *hash,
                         nm_path_record *record);
/* Adds or replaces; the record's times are taken as they are. NM_E(ARGUMENT),
 * NM_E(MISSING) when its interface is not there, NM_E(MEMORY). */
int nm_engine_path_put(nm_engine *engine, const nm_path_record *record);
/* One step of a walk during which the table may change: gives the records of
 * one place to |visit|, which owns them, and returns the next cursor, 0 at the
 * end; 0 starts. A record that is there all the while is given at least once.
 * Records for which there is no memory are left out. */
uint64_t nm_engine_path_scan(const nm_engine *engine, uint64_t cursor,
                             void (*visit)(void *user, nm_path_record *record),
                             void *user);
void nm_path_record_dispose(nm_path_record *record);

bool nm_engine_known_next(const nm_engine *engine,
                          const nm_destination_hash *after,
                          nm_known_record *record);
bool nm_engine_known_get(const nm_engine *engine,
                         const nm_destination_hash *hash,
                         nm_known_record *record);
/* As nm_engine_path_scan. */
uint64_t nm_engine_known_scan(const nm_engine *engine, uint64_t cursor,
                              void (*visit)(void *user,
                                            nm_known_record *record),
                              void *user);
int nm_engine_known_put(nm_engine *engine, const nm_known_record *record);
int nm_engine_known_drop(nm_engine *engine, const nm_destination_hash *hash);
/* Runs the cleaning of RNS 1, 2.5 now. Returns how many went. */
size_t nm_engine_known_clean(nm_engine *engine, nm_now now);
void nm_known_record_dispose(nm_known_record *record);

bool nm_engine_receipt_next(const nm_engine *engine,
                            const nm_packet_hash *after,
                            nm_receipt_record *record);
bool nm_engine_path_request_next(const nm_engine *engine,
                                 const nm_destination_hash *after,
                                 nm_path_request_record *record);
bool nm_engine_blackhole_next(const nm_engine *engine,
                              const nm_identity_hash *after,
                              nm_blackhole_record *record);
/* Adds or replaces, its source included; paths of the identity go at once. */
int nm_engine_blackhole_put(nm_engine *engine,
                            const nm_blackhole_record *record, nm_now now);
void nm_blackhole_record_dispose(nm_blackhole_record *record);

bool nm_engine_path_tag_next(const nm_engine *engine, const nm_path_tag *after,
                             nm_path_tag *record);
/* Takes a request as seen, or as not seen. NM_E(MISSING) when it was not,
 * NM_E(MEMORY). */
int nm_engine_path_tag_set(nm_engine *engine, const nm_path_tag *tag,
                           bool seen);

/* The duplicate filter: size, membership, additions. */
size_t nm_engine_filter_size(const nm_engine *engine);
bool nm_engine_filter_has(const nm_engine *engine, const nm_packet_hash *hash);
void nm_engine_filter_put(nm_engine *engine, const nm_packet_hash *hash);
void nm_engine_filter_drop(nm_engine *engine, const nm_packet_hash *hash);

#endif
