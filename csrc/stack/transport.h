/* What a node keeps to carry other people's traffic: the structs behind
 * engine.h's transport switch and the tables of snapshot.h (RNS 1, 8.2).
 *
 * A transport node does all of it; a shared instance without transport does it
 * for its local clients alone.
 */
#ifndef NM_STACK_TRANSPORT_H
#define NM_STACK_TRANSPORT_H

#include "base/table.h"
#include "base/timer.h"
#include "stack/engine.h"
#include "wire/announce.h"
#include "wire/arrivals.h"
#include "wire/control.h"
#include "wire/decisions.h"

struct nm_input;
struct nm_iface;
struct nm_path;

/* ---- announces: the share of an interface (announce_cap.c) ---- */

/* A relayed announce that waits for its turn on one interface. */
typedef struct nm_queued_announce {
  nm_table_link link;
  nm_destination_hash hash;
  struct nm_queued_announce *next; /* of equal hops, older first */
  struct nm_queued_announce *prev;
  nm_block *packet;
  uint64_t queued_us;
  uint64_t emitted;
  uint8_t hops;
} nm_queued_announce;

/* Made with the first announce that has to wait. */
typedef struct nm_cap_queue {
  nm_table table; /* nm_queued_announce by destination */
  nm_queued_announce *first[NM_HOPS_MAX + 1]; /* by hops */
  nm_queued_announce *last[NM_HOPS_MAX + 1];
  uint64_t used[NM_HOPS_MAX / 64 + 1]; /* bit h: there are some of h hops */
  nm_timer timer;
  nm_engine *engine;
  struct nm_iface *iface; /* whose it is */
  void (*dispose)(nm_engine *engine, struct nm_iface *iface);
} nm_cap_queue;

/* A relayed announce on its way to many interfaces. */
typedef struct nm_cap_announce {
  nm_block *packet;
  nm_destination_hash hash;
  uint64_t key; /* nm_table_hash of `hash` */
  uint64_t emitted;
  uint8_t hops;
} nm_cap_announce;

/* Sends an announce within the interface's share of its bitrate, or queues it
 * (RNS 1, 8.8). A full queue drops what comes from farthest. */
void nm_cap_send(nm_engine *engine, struct nm_iface *iface,
                 const nm_cap_announce *announce);
/* Whether the share allows a path request now; if so it is spent. */
bool nm_cap_spend(nm_engine *engine, struct nm_iface *iface, size_t bytes);

/* ---- ingress and egress control (ingress_control.c) ---- */

/* An announce held back during a burst. */
typedef struct nm_held_announce {
  nm_table_link link;
  nm_destination_hash hash;
  nm_block *raw;
  nm_packet_hash packet_hash;
  nm_frame frame; /* signal values and hops; spans unset */
  uint64_t since_us;
} nm_held_announce;

/* What goes on with an announce that is held no longer. */
typedef void nm_control_release(nm_engine *engine, struct nm_iface *iface,
                                nm_held_announce *held);

/* An interface's rates and bursts; made with its first announce or request. */
typedef struct nm_control {
  nm_arrivals announces_in;
  nm_arrivals announces_out;
  nm_arrivals requests_in;
  nm_arrivals requests_out;
  nm_burst announce_burst;
  nm_burst request_burst;
  uint64_t release_us; /* no held announce is let go before */
  nm_table held;       /* nm_held_announce by destination */
  nm_timer timer;      /* every 5 s while something is held or limited */
  nm_control_release *release;
  void (*dispose)(nm_engine *engine, struct nm_iface *iface);
  nm_engine *engine;
  nm_iface_id iface;
} nm_control;

/* Counts an announce with a valid signature, or a path request, that came in;
 * true: the interface is limiting them. */
bool nm_control_announce(nm_engine *engine, struct nm_iface *iface);
bool nm_control_request(nm_engine *engine, struct nm_iface *iface);
/* Counts one that goes out; for requests: true when one more would be too
 * many. */
void nm_control_announce_out(nm_engine *engine, struct nm_iface *iface);
void nm_control_request_out(nm_engine *engine, struct nm_iface *iface);
bool nm_control_exceeds(nm_engine *engine, struct nm_iface *iface);
/* Holds an announce; a later one of its destination replaces it. |release| is
 * called when the burst is over; after half an hour it is dropped. False when
 * it cannot be held: too far, or no room. */
bool nm_control_hold(nm_engine *engine, struct nm_iface *iface,
                     const nm_destination_hash *hash, nm_block *raw,
                     const nm_packet_hash *packet_hash, const nm_frame *frame,
                     nm_control_release *release);

/* ---- rebroadcast (rebroadcast.c) ---- */

/* An announce on its way out again, or a path response (RNS 1, 8.6). */
typedef struct nm_rebroadcast {
  nm_table_link link;
  nm_destination_hash hash;
  nm_block *announce; /* as received */
  uint8_t received_from[NM_ADDRESS_SIZE];
  uint8_t hops;
  uint8_t retries;
  uint8_t local_rebroadcasts;
  bool path_response;
  nm_iface_id attached; /* where alone it goes; 0: everywhere */
  nm_iface_id from;
  nm_iface_id sent_to; /* the last one of the round under way; 0: none is */
  uint64_t added_us;
  nm_timer timer;
  struct nm_rebroadcast *aside; /* takes its place when a response is out */
} nm_rebroadcast;

/* ---- path requests of others (searches.c) ---- */

/* Interfaces that want to hear of a destination (RNS 1, 8.9.4 case 4). */
#define NM_SEARCH_IFACES_MAX 64
typedef struct nm_search {
  nm_table_link link;
  nm_destination_hash hash;
  bool engaged; /* requests went out */
  uint64_t until_us;
  uint32_t count;
  nm_iface_id ifaces[NM_SEARCH_IFACES_MAX];
} nm_search;

/* A request that was passed on and is not answered (8.9.4). */
typedef struct nm_request_flight {
  nm_table_link link;
  nm_destination_hash hash;
  uint64_t since_us;
  bool fruitless; /* nobody was asked: who can start a search may still */
} nm_request_flight;

/* An interface that asked for a destination behind a local client. */
typedef struct nm_client_ask {
  nm_table_link link;
  nm_destination_hash hash;
  nm_iface_id iface;
} nm_client_ask;

/* ---- forwarding (forwarding.c, transit.c) ---- */

/* The way back of a forwarded packet's proof (RNS 1, 8.2). */
typedef struct nm_reverse {
  nm_table_link link;
  uint8_t key[NM_ADDRESS_SIZE];
  nm_iface_id received;
  nm_iface_id out;
  uint64_t at_us;
} nm_reverse;

/* A link that passes through this node. */
typedef struct nm_transit {
  nm_table_link link;
  nm_link_id id;
  nm_destination_hash destination;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  nm_iface_id next_iface;
  nm_iface_id received_iface;
  uint8_t remaining;
  uint8_t taken;
  bool validated;
  uint8_t verifying; /* proofs of it under verification */
  uint64_t used_us;
  uint64_t deadline_us; /* of the proof */
  nm_timer timer;
  nm_engine *engine;
} nm_transit;

/* ---- tunnels (tunnels.c) ---- */

typedef struct nm_tunnel_path_key {
  uint64_t tunnel;
  nm_destination_hash hash;
} nm_tunnel_path_key;

/* A path that comes back with its tunnel. */
typedef struct nm_tunnel_path {
  nm_table_link link;
  nm_tunnel_path_key key;
  struct nm_tunnel_path *next; /* of the tunnel */
  struct nm_tunnel_path *prev;
  struct nm_tunnel_entry *tunnel;
  uint8_t next_hop[NM_ADDRESS_SIZE];
  uint8_t hops;
  bool changed; /* since a driver took it (kept.h) */
  uint64_t updated_us;
  uint64_t expires_us;
  uint64_t emitted; /* the newest */
  nm_block *announce;
  nm_packet_hash announce_hash;
  nm_block *blobs; /* at most 32, oldest first */
} nm_tunnel_path;

typedef struct nm_tunnel_entry {
  nm_table_link link;
  uint8_t id[NM_HASH_SIZE];
  uint64_t number;
  nm_iface_id iface; /* 0: its peer is away */
  uint64_t expires_us;
  nm_tunnel_path *paths;
  uint32_t path_count;
  bool changed;              /* since a driver took it (kept.h) */
  nm_tunnel_path *restoring; /* the next one to restore */
  nm_timer timer;
  nm_engine *engine;
} nm_tunnel_entry;

/* A path to ask for anew. */
#define NM_REDISCOVERIES_MAX 32
typedef struct nm_rediscovery {
  nm_destination_hash hash;
  nm_iface_id spare; /* the interface not to ask on, or 0 */
} nm_rediscovery;

typedef struct nm_transport {
  uint32_t clients;      /* interfaces of local clients */
  nm_table rebroadcasts; /* nm_rebroadcast by destination */
  nm_table rates;        /* announce rates by destination */
  nm_table searches;     /* nm_search by destination */
  nm_table requests;     /* nm_request_flight by destination */
  nm_table client_asks;  /* nm_client_ask by destination */
  nm_table reverses;     /* nm_reverse by truncated packet hash */
  nm_reverse *spare;     /* reverse entries for reuse */
  nm_table transits;     /* nm_transit by link id */
  nm_table tunnels;      /* nm_tunnel_entry by id */
  nm_table tunnel_paths; /* nm_tunnel_path by tunnel and destination */
  uint64_t next_tunnel;
  nm_rediscovery rediscover[NM_REDISCOVERIES_MAX]; /* unique, oldest first */
  uint32_t rediscover_count;
  nm_timer rediscovery;
} nm_transport;

/* Whether packets of others are this node's business at all. */
bool nm_transport_is_on(const nm_engine *engine);

int nm_rebroadcasts_init(nm_engine *engine);
void nm_rebroadcasts_dispose(nm_engine *engine);
/* A verified announce that was taken into the path table (RNS 1, 8.5.1 steps
 * 10 and 13 to 16): puts it up for rebroadcast, gives it to local clients and
 * to whoever waits for it. */
void nm_transport_announce(nm_engine *engine, const nm_announce *announce,
                           nm_block *raw, uint8_t hops, struct nm_iface *iface);
/* The copy of somebody's rebroadcast that is refused as known: it may mean that
 * ours is not needed (8.5.1 step 6). */
void nm_rebroadcast_heard(nm_engine *engine, const nm_announce *announce,
                          uint8_t hops);
/* Whether the rebroadcast of |hash| has not left for the first time yet. */
bool nm_rebroadcast_is_ahead(const nm_engine *engine,
                             const nm_destination_hash *hash);
/* Puts up the answer to a path request on |iface| after |delay_us|. */
void nm_rebroadcast_answer(nm_engine *engine, const struct nm_path *path,
                           struct nm_iface *iface, uint64_t delay_us);
/* Writes the relayed form of an announce: HEADER_2, own transport id. NULL
 * without memory or at 128 hops. */
nm_block *nm_relayed_announce(nm_engine *engine, nm_span raw, uint8_t hops,
                              uint8_t context);

int nm_searches_init(nm_engine *engine);
void nm_searches_dispose(nm_engine *engine);
/* Who waits for |hash|, or NULL. */
nm_search *nm_search_find(nm_engine *engine, const nm_destination_hash *hash);
/* Adds |iface| to those who wait, for |life_us| when nobody did. NULL without
 * memory. */
nm_search *nm_search_join(nm_engine *engine, const nm_destination_hash *hash,
                          nm_iface_id iface, uint64_t life_us);
/* Whether somebody waits for it: such an announce is never held. */
bool nm_search_waits(nm_engine *engine, const nm_destination_hash *hash);
/* Answers those who wait for |hash| with an announce just taken. */
void nm_search_answer(nm_engine *engine, const nm_destination_hash *hash,
                      nm_block *raw, uint8_t hops);
/* The request for |hash| that was passed on in the last 45 s and not answered,
 * or NULL; that one was; that nobody was there to pass it on to; that it is
 * answered. */
const nm_request_flight *nm_search_in_flight(nm_engine *engine,
                                             const nm_destination_hash *hash);
void nm_search_led_nowhere(nm_engine *engine, const nm_destination_hash *hash);
void nm_search_passed_on(nm_engine *engine, const nm_destination_hash *hash);
void nm_search_answered(nm_engine *engine, const nm_destination_hash *hash);
/* Remembers that |iface| asked for a client's destination; takes it back: 0
 * when none did. */
void nm_search_ask_client(nm_engine *engine, const nm_destination_hash *hash,
                          nm_iface_id iface);
nm_iface_id nm_search_client_ask(nm_engine *engine,
                                 const nm_destination_hash *hash);

/* A path request whose destination is not here (RNS 1, 8.9.4 cases 2 to 6);
 * |limited|: it is part of a burst. */
nm_drop nm_path_request_elsewhere(nm_engine *engine, struct nm_input *input,
                                  const nm_path_request *asked, bool limited);

int nm_forwarding_init(nm_engine *engine);
void nm_forwarding_dispose(nm_engine *engine);
/* Carries a packet on when it is for this node to do so (RNS 1, 8.5 steps 5 and
 * 6). True: it was dealt with, and |drop| says how; false: it goes to the
 * destinations of this node. */
bool nm_forward(nm_engine *engine, struct nm_input *input, nm_drop *drop);
/* The packet with one more hop, nothing else changed. NULL without memory. */
nm_block *nm_forward_counted(nm_engine *engine, const struct nm_input *input);
/* Whether a packet for this address travels on a transported link: its hash is
 * remembered only when it is this node's turn (8.4). */
bool nm_forward_defers_hash(const nm_engine *engine,
                            const struct nm_input *input);
/* Fetches what nm_forward will read for a packet with these keys, in rounds of
 * which each uses what the one before it fetched. */
#define NM_FORWARD_ROUNDS 3
void nm_forward_fetch(const nm_engine *engine, uint64_t packet_key,
                      uint64_t destination_key, int round);
/* The same for what makes room for |count| packets. */
void nm_forward_fetch_room(const nm_engine *engine, size_t count, int round);

int nm_transits_init(nm_engine *engine);
void nm_transits_dispose(nm_engine *engine);
nm_transit *nm_transit_find(const nm_engine *engine, const uint8_t *id);
/* Remembers a link request that goes from |received| along |path|. */
void nm_transit_add(nm_engine *engine, const nm_link_id *id,
                    const struct nm_path *path, const struct nm_iface *received,
                    uint8_t taken);
/* A packet of the link (8.10.3), and its proof (8.10.4). */
nm_drop nm_transit_packet(nm_engine *engine, struct nm_input *input,
                          nm_transit *transit);
nm_drop nm_transit_proof(nm_engine *engine, struct nm_input *input,
                         nm_transit *transit);

int nm_tunnels_init(nm_engine *engine);
void nm_tunnels_dispose(nm_engine *engine);
/* A tunnel synthesis packet (RNS 1, 8.11): verified by a job. */
nm_drop nm_tunnel_request(nm_engine *engine, struct nm_input *input);
/* A path was learnt on |iface|: it goes into the tunnel there. */
void nm_tunnel_path_learnt(nm_engine *engine, const struct nm_path *path,
                           struct nm_iface *iface);
/* The peer behind the interface is gone; its tunnel waits for it. */
void nm_tunnel_iface_gone(struct nm_iface *iface);

#endif
