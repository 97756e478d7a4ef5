/* Known destinations, paths, path requests, blackholes: the structs behind
 * route.h and snapshot.h, and what the rest of the room calls.
 */
#ifndef NM_STACK_ROUTES_H
#define NM_STACK_ROUTES_H

#include "base/table.h"
#include "base/timer.h"
#include "stack/route.h"
#include "wire/announce.h"
#include "wire/decisions.h"

struct nm_input;
struct nm_op;
struct nm_iface;

/* The last ratchet that a destination announced. */
typedef struct nm_known_ratchet {
  uint8_t key[NM_KEY_SIZE];
  int64_t unix_us;
} nm_known_ratchet;

/* What is known of a destination without its announce. */
typedef struct nm_known_own {
  uint8_t public_key[NM_PUBLIC_SIZE];
  nm_packet_hash announce_hash;
  nm_block *app_data;
} nm_known_own;

/* One record per destination. The announce is stored once; key, ratchet and
 * app data are views into it, unless the record was put in by hand. */
typedef struct nm_known {
  nm_table_link link;
  nm_destination_hash hash;
  nm_block *announce;        /* the raw packet, or NULL: then there is `own` */
  nm_known_own *own;         /* what else the announce would have */
  nm_known_ratchet *ratchet; /* NULL until one was announced */
  int64_t heard_unix_us;
  int64_t used_unix_us; /* 0 never, -1 retained */
  uint32_t in_use;      /* links and receipts that need it */
  bool has_app_data;
  bool changed; /* since a driver took it (kept.h) */
} nm_known;

/* Another way to the destination of a path, for when the one in use fails. */
typedef struct nm_alternative {
  uint8_t next_hop[NM_ADDRESS_SIZE];
  nm_iface_id iface;
  uint8_t hops;
  uint64_t emitted;   /* of the newest announce that came by it */
  uint64_t heard_us;  /* when that was */
  uint64_t failed_us; /* when it was last found not to work, or 0 */
} nm_alternative;

typedef struct nm_path {
  nm_table_link link;
  nm_destination_hash hash;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  uint8_t hops;
  nm_path_state state;
  bool untold; /* it leads another way, and no event has said so */
  uint8_t alternative_count;
  nm_iface_id iface;
  uint64_t updated_us;
  uint64_t expires_us;
  uint64_t taken_us;        /* since when it leads this way */
  uint64_t emitted;         /* of the announce that came this way */
  nm_block *announce;       /* raw, hop byte as received */
  nm_packet_hash *odd_hash; /* when it is not that of `announce`, or NULL */
  uint32_t blob_count;
  bool changed;                 /* since a driver took it (kept.h) */
  uint8_t (*blobs)[10];         /* oldest first, at most limits.path_blobs */
  nm_alternative *alternatives; /* at most limits.path_alternatives, in the
                                   order in which they are tried */
} nm_path;

/* An outstanding request of our own for one destination. */
typedef struct nm_path_ask {
  nm_table_link link;
  nm_destination_hash hash;
  uint64_t last_us;
  uint32_t tries;
  bool unheard;   /* nothing could carry the last one */
  nm_timer timer; /* repetition or the end of its record */
  struct nm_path_wait *waits;
  nm_engine *engine;
} nm_path_ask;

/* One operation that waits for a path. */
typedef struct nm_path_wait {
  struct nm_path_wait *next;
  nm_op_id op;
  nm_path_ask *ask;
  nm_timer timer;
  nm_engine *engine;
} nm_path_wait;

typedef struct nm_blackhole {
  nm_table_link link;
  nm_identity_hash identity;
  nm_identity_hash source;
  int64_t until_unix_us;
  nm_block *reason;
  bool changed; /* since a driver took it (kept.h) */
} nm_blackhole;

typedef struct nm_routes {
  nm_table known;
  nm_table paths;
  nm_table asks;
  nm_table blackholes;
  nm_table tags; /* seen path requests: destination | tag */
  nm_timer cull; /* walks over the paths, a few entries at a time */
  nm_destination_hash cull_at;
  bool cull_under_way;
  uint64_t alternatives; /* of all paths together */
} nm_routes;

/* An ANNOUNCE (RNS 1, 8.5.1): early checks, then a verification job, then the
 * path decision, the tables, the subscriptions. */
nm_drop nm_routes_announce(nm_engine *engine, struct nm_input *input);
/* A path request packet (RNS 1, 8.9.2, 8.9.4). */
nm_drop nm_routes_path_request(nm_engine *engine, struct nm_input *input);

/* Learns or refreshes a destination from a valid announce in |raw|. */
nm_known *nm_known_learn(nm_engine *engine, const nm_announce *announce,
                         nm_block *raw);
/* Its public key, NM_PUBLIC_SIZE bytes; valid until the record changes. */
const uint8_t *nm_known_key(const nm_known *known);
/* The app data of |known|; false (and an empty span) when there is none. */
bool nm_known_app_data(const nm_known *known, nm_span *app_data);
int nm_known_init(nm_engine *engine);
void nm_known_dispose(nm_engine *engine);
int nm_paths_init(nm_engine *engine);
void nm_paths_dispose(nm_engine *engine);
int nm_asks_init(nm_engine *engine);
void nm_asks_dispose(nm_engine *engine);
int nm_blackholes_init(nm_engine *engine);
void nm_blackholes_dispose(nm_engine *engine);
/* Whether the announce would be taken into the path table now. */
nm_announce_decision nm_path_judge(const nm_engine *engine,
                                   const nm_announce *announce, uint8_t hops,
                                   const struct nm_iface *iface);
/* Takes it: the path afterwards, NULL without memory. */
nm_path *nm_path_learn(nm_engine *engine, const nm_announce *announce,
                       uint8_t hops, const struct nm_iface *iface,
                       nm_block *raw);
/* Keeps the way by which a copy of the announce of |path| came that was not
 * taken. True when the copy is one: the same signed bytes from another next
 * hop. */
bool nm_path_learn_alternative(nm_engine *engine, nm_path *path,
                               const nm_announce *announce, uint8_t hops,
                               const struct nm_iface *iface);
/* The way in use does not work: the best alternative takes its place, and it
 * becomes the last of them. When there is none, or none that did not fail as
 * well, the path is marked as answering nothing. True when the path leads
 * another way now. */
bool nm_path_failed(nm_engine *engine, nm_path *path);
/* The way in use cannot take a packet now: an alternative that can takes its
 * place. True when there was one. */
bool nm_path_sidestep(nm_engine *engine, nm_path *path);

/* ---- alternatives.c ---- */

/* Adds |way|, or refreshes the one by the same next hop and interface. The last
 * one makes room when there are too many. */
void nm_alternative_add(nm_engine *engine, nm_path *path,
                        const nm_alternative *way);
/* Removes the one by this next hop and interface. False: there is none. */
bool nm_alternative_remove(nm_engine *engine, nm_path *path,
                           const uint8_t *next_hop, nm_iface_id iface);
/* Removes those whose interface is |gone|, has gone, or that are too old. */
void nm_alternatives_prune(nm_engine *engine, nm_path *path, nm_iface_id gone);
/* The first one that works as far as is known; |sends|: that can send now.
 * NULL: none. */
nm_alternative *nm_alternative_first(const nm_engine *engine,
                                     const nm_path *path, bool sends);
/* Lets |path| lead the way of |next|, one of its alternatives; |next| gets the
 * old way in its place, whose order is not right yet. */
void nm_alternative_swap(const nm_engine *engine, nm_path *path,
                         nm_alternative *next);
/* Sorts them into the order in which they are tried. */
void nm_alternatives_sort(const nm_engine *engine, nm_path *path);
void nm_alternatives_dispose(nm_engine *engine, nm_path *path);

/* Whether a path to |hash| was asked for so lately that it must not be asked
 * for again by itself (RNS 1, 8.9.3). */
bool nm_asks_recent(const nm_engine *engine, const nm_destination_hash *hash);
/* The packet that asks for |hash|, with the transport id of a transport node:
 * with |tag| (1 to 16 bytes), or a fresh one. NULL without memory or entropy.
 */
nm_block *nm_asks_packet(nm_engine *engine, const nm_destination_hash *hash,
                         nm_span tag);
nm_block *nm_asks_fresh_packet(nm_engine *engine,
                               const nm_destination_hash *hash);
/* Whether an answer for |hash| is outstanding. */
bool nm_asks_waited_for(const nm_engine *engine,
                        const nm_destination_hash *hash);
/* Asks again for a path that proved no good, on all interfaces but |spare|. */
void nm_asks_again(nm_engine *engine, const nm_destination_hash *hash,
                   nm_iface_id spare);
/* A path became known: whoever waits for it goes on. */
void nm_asks_answered(nm_engine *engine, const nm_path *path);
/* Asks on an interface that came online for what is waited for. */
void nm_asks_iface_online(nm_engine *engine, nm_iface_id iface);
/* The path table lost |path|; it is freed. */
void nm_path_forget(nm_engine *engine, nm_path *path);

nm_known *nm_known_find(const nm_engine *engine,
                        const nm_destination_hash *hash);
/* Marks it used now. */
void nm_known_use(nm_engine *engine, nm_known *known);
nm_path *nm_path_find(const nm_engine *engine, const nm_destination_hash *hash);
/* The same with the key of |hash| at hand. */
nm_path *nm_path_find_keyed(const nm_engine *engine,
                            const nm_destination_hash *hash, uint64_t key);
/* The hash of the packet of its announce. */
void nm_path_announce_hash(const nm_path *path, nm_packet_hash *hash);

/* Where a packet of our own goes (RNS 1, 8.3). */
typedef struct nm_way {
  struct nm_iface *iface; /* NULL: broadcast */
  bool relayed;           /* HEADER_2 with `next_hop` */
  uint8_t next_hop[NM_ADDRESS_SIZE];
  uint8_t hops; /* 128 when there is no path */
} nm_way;
void nm_way_to(nm_engine *engine, const nm_destination_hash *hash, nm_way *way);
/* Sends a HEADER_1 packet along |way|, rewriting its header when relayed.
 * Takes over one reference; NM_E(STATE) when no interface took it. */
int nm_way_send(nm_engine *engine, const nm_way *way, nm_block *packet,
                nm_op_id op);

void nm_routes_iface_down(nm_engine *engine, nm_iface_id iface);
void nm_routes_iface_gone(nm_engine *engine, nm_iface_id iface);
void nm_routes_op_cancel(nm_engine *engine, struct nm_op *op);

#endif
