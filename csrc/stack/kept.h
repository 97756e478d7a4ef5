/* What of an engine outlives the process, and what of it has changed.
 *
 * Each entry of these tables carries a mark that is set when it changes and
 * cleared when a driver has taken it; keys of entries that were removed are
 * noted. So a driver that keeps the tables on disk writes what is new, in steps
 * as small as it likes: first what was removed, then what was changed.
 *
 * Times of use alone mark an entry only when they pass a multiple of 2^32 us,
 * some 72 minutes: nobody wants a write for each packet.
 */
#ifndef NM_STACK_KEPT_H
#define NM_STACK_KEPT_H

#include "stack/snapshot.h"
#include "stack/transport_snapshot.h"

/* In the order in which they are to be put back. */
typedef enum nm_kept_table {
  NM_KEPT_BLACKHOLES, /* bars paths that are put back after it */
  NM_KEPT_KNOWN,
  NM_KEPT_PATHS, /* with their alternatives */
  NM_KEPT_TUNNELS,
  NM_KEPT_TUNNEL_PATHS,
  NM_KEPT_FILTER, /* what it forgets by itself is not noted */
  NM_KEPT_TABLES
} nm_kept_table;

/* Keys noted of one table; with more the driver has to take it whole. */
#define NM_KEPT_REMOVED_MAX 16384
/* Bytes of the longest key: of a tunnel's path, the tunnel's id and then its
 * destination. */
#define NM_KEPT_KEY_MAX (NM_HASH_SIZE + NM_ADDRESS_SIZE)

/* From now on removals are noted. */
void nm_engine_keep(nm_engine *engine);
/* Whether what is put now comes from the driver's own copy: not marked. */
void nm_engine_kept_loading(nm_engine *engine, bool loading);
/* Entries changed and keys noted; 0: there is nothing to write. */
uint64_t nm_engine_kept_changes(const nm_engine *engine, nm_kept_table table);
/* Whether keys were lost: the table is to be taken whole. */
bool nm_engine_kept_is_lost(const nm_engine *engine, nm_kept_table table);
/* A table is about to be taken whole: forgets the keys noted so far. */
void nm_engine_kept_restart(nm_engine *engine, nm_kept_table table);
/* Takes up to |most| keys, oldest first; returns how many. */
size_t nm_engine_kept_removed(nm_engine *engine, nm_kept_table table,
                              size_t most,
                              void (*visit)(void *user, nm_span key),
                              void *user);

/* One step of a walk as nm_engine_path_scan, of changed entries or of |all|,
 * whose marks go. It looks at one place of the table. */
uint64_t nm_engine_blackhole_kept(nm_engine *engine, uint64_t cursor, bool all,
                                  void (*visit)(void *user,
                                                nm_blackhole_record *record),
                                  void *user);
uint64_t nm_engine_known_kept(nm_engine *engine, uint64_t cursor, bool all,
                              void (*visit)(void *user,
                                            nm_known_record *record),
                              void *user);
uint64_t nm_engine_path_kept(nm_engine *engine, uint64_t cursor, bool all,
                             void (*visit)(void *user, nm_path_record *record),
                             void *user);
uint64_t nm_engine_tunnel_kept(nm_engine *engine, uint64_t cursor, bool all,
                               void (*visit)(void *user,
                                             nm_tunnel_record *record),
                               void *user);
uint64_t nm_engine_tunnel_path_kept(
    nm_engine *engine, uint64_t cursor, bool all,
    void (*visit)(void *user, nm_tunnel_path_record *record), void *user);
/* Looks at 256 places, the older generation first. What comes in, or moves by a
 * growth or a change of generations meanwhile, may be left out of a walk over
 * all, or come twice. */
uint64_t nm_engine_filter_kept(nm_engine *engine, uint64_t cursor, bool all,
                               void (*visit)(void *user,
                                             const nm_packet_hash *hash),
                               void *user);

/* Alternative number |at| of a path, in the order in which they are tried;
 * false: it has no more. */
bool nm_engine_path_alternative(const nm_engine *engine,
                                const nm_destination_hash *hash, uint32_t at,
                                nm_alternative_record *record);

#endif
