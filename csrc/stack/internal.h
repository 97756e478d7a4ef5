/* The engine's inside: its state, and what its files call in each other. Only
 * files of this room include it.
 *
 * A file calls only files that stand before it here:
 *   types, event, content, filter, queue, ops, jobs, job_run, ingress, recorder
 *   means, iface_table, core, kept, ifaces, ingress_control, announce_cap
 *   relayed
 *   local_table, local_ratchets, announcing, local_data
 *   alternatives, paths, known, blackholes, asks
 *   searches, rebroadcast, path_answers, tunnels, routes
 *   receipts, send
 *   link_table, link_send, link_tokens, transfer_out, transfer_note
 *   request_wait, request_in, requests, transfer_ends, transfer_early
 *   transfer_in, transfer_resume, transfer_accept, transfer_join
 *   transfer_parts, transfer_info
 *   channel_core, buffer_in, buffer_out, channel_out, channel, buffer
 *   link, link_open, link_data
 *   transit, forwarding, input, listen, engine, iface_verbs
 *   transport_tables
 * Only nm_stream_packed is called back from behind buffer_out.
 */
#ifndef NM_STACK_INTERNAL_H
#define NM_STACK_INTERNAL_H

#include "base/table.h"
#include "base/timer.h"
#include "stack/filter.h"
#include "stack/jobs.h"
#include "stack/kept.h"
#include "stack/links.h"
#include "stack/locals.h"
#include "stack/ops.h"
#include "stack/queue.h"
#include "stack/receipts.h"
#include "stack/recorder.h"
#include "stack/routes.h"
#include "stack/transport.h"

/* An interface's drops of the few reasons that it has, in order of their
 * first: the reason in the low byte, the count above it. */
typedef struct nm_iface_drops {
  uint64_t *list;
  uint8_t count;
  uint8_t cap;
} nm_iface_drops;

typedef struct nm_iface {
  nm_table_link link;
  nm_iface_id id;
  nm_iface_spec spec;
  uint8_t hash[NM_HASH_SIZE]; /* H(name) */
  nm_iface_tally tally;
  nm_iface_drops drops;
  uint32_t jobs;      /* outstanding ones caused by its traffic */
  uint32_t announces; /* those that check announces, not among `jobs` */
  int64_t added_unix_us;
  uint64_t added_us;
  /* What a transport node keeps for it; NULL until it is needed. */
  uint64_t announce_allowed_us; /* no relayed announce before (RNS 1, 8.8) */
  nm_cap_queue *cap_queue;
  nm_control *control;
  nm_tunnel_entry *tunnel;
} nm_iface;

/* Interfaces that are found without a look-up in their table. */
#define NM_IFACES_NEAR 256

typedef struct nm_flight {
  nm_record *ring;
  size_t cap;
  nm_input_seq last; /* seq of the newest record; 0: none yet */
} nm_flight;

/* What was removed of a table that a driver keeps. */
typedef struct nm_kept_notes {
  uint64_t changed;  /* marked entries */
  nm_buffer removed; /* keys, oldest first */
  size_t taken;      /* bytes of them that the driver has */
  bool lost;         /* some found no room */
} nm_kept_notes;

typedef struct nm_kept {
  nm_kept_notes notes[NM_KEPT_TABLES];
  bool keeps; /* somebody wants to know */
  bool loading;
} nm_kept;

struct nm_engine {
  const nm_mem *mem;
  const nm_entropy *entropy;
  nm_limits limits;
  bool transport;
  bool shared_instance;
  bool implicit_proofs;
  bool link_mtu_discovery;
  bool closing;
  nm_block *identity; /* the transport identity */
  uint8_t hash_key[16];
  nm_now now; /* of the call under way */
  nm_cipher cipher;

  nm_timers timers;
  size_t timers_reserved;
  nm_filter filter;
  nm_outbox outbox;
  nm_outbox relays; /* relayed announces, behind everything in `outbox` */
  nm_eventq events;
  nm_ops ops;
  nm_jobs jobs;
  uint32_t announces; /* outstanding jobs that check one */
  uint32_t copies;    /* of relayed announces, made by the tick under way */
  nm_flight flight;
  nm_table ifaces;
  nm_iface *near[NM_IFACES_NEAR]; /* by the low bits of the id, of the table */
  nm_iface_id next_iface;
  nm_token_id next_token;
  nm_engine_stats stats;

  nm_locals locals;     /* own destinations, subscriptions, handlers */
  nm_routes routes;     /* known destinations, paths, path requests */
  nm_transport carried; /* other people's traffic */
  nm_receipts receipts; /* packets waiting for their proof */
  nm_links links;       /* links with their requests and transfers */
  nm_kept kept;         /* what of them a driver has not taken */
};

/* One input on its way through the state machines. The keys are those of the
 * tables and the filter, which share one hash_key. */
typedef struct nm_input {
  nm_iface *iface;
  const nm_frame *frame;
  uint64_t packet_key;      /* of the packet hash's first 16 bytes */
  uint64_t destination_key; /* of the destination field */
  uint8_t hops;             /* incremented as RNS 1, 8.5 step 3 says */
  nm_input_seq seq;
  bool pending; /* a job will say what became of it */
} nm_input;

/* ---- core.c ---- */

/* Whether the interface's other side shares this host's hop count. */
static inline bool nm_role_is_local(nm_iface_role role) {
  return role != NM_ROLE_ORDINARY;
}

static inline uint64_t nm_us(double seconds) {
  return seconds <= 0 ? 0 : (uint64_t)(seconds * 1e6 + 0.5);
}

/* The Unix time of a monotonic one. */
static inline int64_t nm_unix_of(const nm_engine *engine, uint64_t mono_us) {
  return engine->now.unix_us + (int64_t)(mono_us - engine->now.mono_us);
}

static inline double nm_seconds(uint64_t us) {
  return (double)us / 1e6;
}

/* Arms |timer| for |delay_us| from now. The room was reserved when its owner
 * was made (nm_engine_reserve_timers), so this cannot fail. */
void nm_engine_arm(nm_engine *engine, nm_timer *timer, uint64_t delay_us);
/* Room for |more| timers beyond those reserved so far. NM_E(MEMORY). */
int nm_engine_reserve_timers(nm_engine *engine, size_t more);
void nm_engine_unreserve_timers(nm_engine *engine, size_t less);
/* Makes |table| as |config| says, except that its user is the engine and its
 * hash_key the engine's, so that one hash serves many tables. NM_E(MEMORY). */
int nm_engine_table(nm_engine *engine, nm_table *table,
                    const nm_table_config *config);
/* A table's dispose for entries that own nothing. */
void nm_engine_release_entry(void *user, nm_table_link *entry);
/* |len| bytes of entropy. NM_E(LIBRARY). */
int nm_engine_random(nm_engine *engine, void *ptr, size_t len);
/* The bytes of |packet|, at most |mtu|. NULL without memory or when it breaks a
 * rule of nm_packet_pack. */
nm_block *nm_engine_pack(nm_engine *engine, const nm_packet *packet,
                         nm_packet_role role, size_t mtu);
nm_token_id nm_engine_new_token(nm_engine *engine);
/* A zeroed event of |kind| stamped with now. */
nm_event nm_engine_event_of(const nm_engine *engine, nm_event_kind kind);
/* Queues a lossy event; takes over its blocks. */
void nm_engine_emit_lossy(nm_engine *engine, nm_event *event);
/* Queues a reserved node. */
void nm_engine_emit(nm_engine *engine, nm_event_node *node);
/* Queues an entry that lives in its owner. */
void nm_engine_emit_entry(nm_engine *engine, nm_event_entry *entry,
                          nm_event_kind kind, nm_iface_id iface,
                          const nm_destination_hash *destination);
/* Ends |op| with |event|. */
void nm_engine_end(nm_engine *engine, nm_op *op, nm_event *event);
/* Takes the credit of a reliable event whose entry lives in its owner. False:
 * what would need it must not be accepted, which is counted. */
bool nm_engine_take_credit(nm_engine *engine);
/* Reserves a reliable event for data on its way in. NULL: the packet must not
 * be accepted; |drop| says why. */
nm_event_node *nm_engine_reserve_event(nm_engine *engine, nm_drop *drop);

/* ---- kept.c ---- */

void nm_kept_init(nm_engine *engine);
void nm_kept_dispose(nm_engine *engine);
/* Sets the mark of an entry. */
void nm_kept_mark(nm_engine *engine, nm_kept_table table, bool *changed);
/* Notes the key of an entry that is being disposed of. */
void nm_kept_gone(nm_engine *engine, nm_kept_table table, bool changed,
                  const void *key);

/* Whether a time of use has moved so far that it is worth a write. */
static inline bool nm_kept_is_later(uint64_t before_us, uint64_t now_us) {
  return ((before_us ^ now_us) >> 32) != 0;
}

/* A walk of a driver. */
typedef struct nm_kept_walk {
  nm_engine *engine;
  nm_kept_table table;
  bool all;
} nm_kept_walk;

/* Whether it is given this entry; that it was. */
bool nm_kept_gives(const nm_kept_walk *walk, bool changed);
void nm_kept_given(const nm_kept_walk *walk, bool *changed);

/* A packet takes |path|. */
static inline void nm_path_use(nm_engine *engine, nm_path *path) {
  if (nm_kept_is_later(path->updated_us, engine->now.mono_us)) {
    nm_kept_mark(engine, NM_KEPT_PATHS, &path->changed);
  }
  path->updated_us = engine->now.mono_us;
}

/* ---- iface_table.c, ifaces.c ---- */

nm_iface *nm_iface_find(const nm_engine *engine, nm_iface_id id);
/* Puts a new interface into the table. Errors of nm_table_insert. */
int nm_iface_insert(nm_engine *engine, nm_iface *iface);
/* The interface with |name| (NUL-terminated), or NULL. */
nm_iface *nm_iface_named(const nm_engine *engine, const char *name);
nm_iface *nm_iface_after(const nm_engine *engine, const nm_iface *iface);
bool nm_iface_can_send(const nm_iface *iface);
/* The bitrate that time-outs use: never 0. */
double nm_iface_bitrate(const nm_iface *iface);
/* The link MTU an interface offers: its HW_MTU when automatic or fixed, else
 * 500 (RNS 2, 1.4). */
uint32_t nm_iface_link_mtu(const nm_iface *iface);
/* Queues |packet| (one reference is taken over in every case) for |iface| and
 * counts it. NM_E(STATE) when it cannot send, NM_E(TOO_LARGE) above the
 * interface's MTU, NM_E(LIMIT), NM_E(MEMORY). */
int nm_iface_send(nm_engine *engine, nm_iface *iface, nm_block *packet,
                  nm_op_id op);
/* The same for a relayed announce, which lets all else go ahead. */
int nm_iface_relay(nm_engine *engine, nm_iface *iface, nm_block *packet);
/* Queues |packet| for every interface that can send and that |wanted| (NULL:
 * every one) agrees to, highest bitrate first (RNS 1, 8.3 B). Takes over one
 * reference. Returns how many took it. */
size_t nm_iface_broadcast(nm_engine *engine, nm_block *packet,
                          bool (*wanted)(const nm_iface *iface), nm_op_id op);
/* Counts a drop on |iface| alone. */
void nm_iface_count_drop(nm_engine *engine, nm_iface *iface, nm_drop reason);
/* Takes it out of the table and frees it. */
void nm_iface_forget(nm_engine *engine, nm_iface *iface);
void nm_ifaces_init(nm_engine *engine, int *status);
void nm_ifaces_dispose(nm_engine *engine);

/* Counts a drop on |iface| (may be NULL) and in the engine; without memory for
 * the first one of an interface, in the engine alone. */
void nm_engine_count_drop(nm_engine *engine, nm_iface *iface, nm_drop reason);
/* Writes the final verdict of input |seq| after a job decided. A packet that
 * was not taken for want of room is forgotten by the filter, so that its
 * repetition is heard. */
void nm_engine_settle(nm_engine *engine, nm_iface_id iface, nm_input_seq seq,
                      const nm_packet_hash *hash, nm_drop reason);

/* A job for work caused by |input| (or own work: NULL), or NULL with |drop|
 * set: JOBS_FULL, JOBS_SHARE, those of announces, NO_MEMORY. Queue it with
 * nm_engine_submit. */
nm_job *nm_engine_new_job(nm_engine *engine, nm_job_kind kind, nm_input *input,
                          nm_drop *drop);
void nm_engine_submit(nm_engine *engine, nm_job *job);
/* Adds |more|, 1 or -1, to what is outstanding of the job's class. */
void nm_engine_count_job(nm_engine *engine, const nm_job *job, int more);
/* Gives up a job that was not submitted. */
void nm_engine_scrap_job(nm_engine *engine, nm_job *job);

/* ---- recorder.c ---- */

int nm_flight_init(nm_engine *engine);
void nm_flight_dispose(nm_engine *engine);
nm_record *nm_flight_add(nm_engine *engine, nm_record_kind kind,
                         nm_iface_id iface, uint8_t code);
/* The record |seq| if it is still kept, to amend it. */
nm_record *nm_flight_find(nm_engine *engine, nm_input_seq seq);

#endif
