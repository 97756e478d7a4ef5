/* The engine: Reticulum as one state machine without I/O.
 *
 * The contract. A driver (the node's loop, the simulator, a fuzzer, a user's
 * own transport) calls the verbs; after any call it drains outputs, events and
 * jobs. The engine never reads a clock, opens a socket, starts a thread or
 * draws entropy other than from what it was given, so the same inputs give the
 * same outputs, byte for byte. No call takes longer than about 100 us. An
 * engine is confined to one thread at a time.
 *
 * Everything is bounded: each table and queue has a capacity in nm_limits, an
 * eviction rule stated there, and a counter in nm_engine_stats.
 */
#ifndef NM_STACK_ENGINE_H
#define NM_STACK_ENGINE_H

#include "crypto/entropy.h"
#include "crypto/identity.h"
#include "stack/event.h"
#include "stack/iface.h"
#include "stack/ingress.h"
#include "stack/job.h"

typedef struct nm_engine nm_engine;

/* Capacities. 0 means the default in brackets. */
typedef struct nm_limits {
  uint32_t ifaces;       /* [4096] adding beyond: NM_E(LIMIT) */
  uint32_t destinations; /* own ones [65536]: NM_E(LIMIT) */
  uint32_t known;        /* known destinations [100000]: least recently used
                            that is neither retained nor in use goes */
  uint32_t paths;        /* [100000]: least recently used goes */
  uint32_t path_blobs;   /* per path [64]: oldest goes (RNS 1, 8.2) */
  uint32_t path_alternatives; /* other ways per path [3], at most 255: the
                                 least preferred goes */
  uint32_t filter;          /* packet hashes per generation [500000]: the older
                               generation goes (RNS 1, 8.4) */
  uint32_t path_tags;       /* per generation [16000] (RNS 1, 8.9.2) */
  uint32_t receipts;        /* [1024]: oldest is culled (RNS 1, 4.9) */
  uint32_t links;           /* [65536]: opening fails, requests are dropped */
  uint32_t pending_links;   /* of them not yet active [4096] */
  uint32_t requests;        /* outstanding per link [1024]: NM_E(LIMIT) */
  uint32_t transfers;       /* incoming per link [8]: refused */
  uint32_t rebroadcasts;    /* announces in flight [65536]: oldest goes */
  uint32_t announce_queue;  /* waiting announces per interface [4096]: farthest
                               goes (RNS 1, 8.8) */
  uint32_t announce_queues; /* of all interfaces together [262144] */
  uint32_t searches;        /* searched destinations [16384]: oldest goes */
  uint32_t reverses;        /* forwarded packets that wait for their proof
                               [262144]: oldest goes */
  uint32_t transits;        /* transported links [65536]: least used goes */
  uint32_t tunnels;         /* [4096]: least recently used goes */
  uint32_t output_packets;  /* waiting outputs [65536]: dropped, QUEUE_FULL */
  uint32_t lossy_events;    /* [4096]: oldest of its kind goes */
  uint32_t jobs;            /* outstanding [4096]: dropped, JOBS_FULL */
  uint32_t jobs_per_iface;  /* [256]: dropped, JOBS_SHARE */
  /* Announces whose check is outstanding have shares of their own, so that no
   * flood of them takes those of data and links: */
  uint32_t announce_jobs;           /* [2048], at most half of `jobs`: dropped,
                                       ANNOUNCES_FULL */
  uint32_t announce_jobs_per_iface; /* [128]: dropped, ANNOUNCES_SHARE */
  uint32_t recorder;                /* flight recorder entries [4096] */
  size_t resource_in_max; /* content bytes accepted by default [64 MiB] */
  size_t resource_memory; /* that incoming resources of all links hold [256
                             MiB]: refused, RESOURCE_MEMORY */
} nm_limits;

/* Puts the defaults in the place of zeros. */
void nm_limits_resolve(nm_limits *limits);

typedef struct nm_engine_config {
  nm_identity *identity;   /* transport identity, copied; NULL: a new one */
  bool transport;          /* forward other people's traffic */
  bool shared_instance;    /* interfaces may have the role LOCAL_CLIENT */
  bool implicit_proofs;    /* packet proofs without the hash (default) */
  bool link_mtu_discovery; /* signal the interface's MTU (default) */
  nm_limits limits;
} nm_engine_config;

/* Sensible defaults: an endpoint, implicit proofs, MTU discovery. */
void nm_engine_config_default(nm_engine_config *config);

/* A new engine, or NULL with |status| set (NM_E(MEMORY), NM_E(KEY)). |mem| and
 * |entropy| are kept and must outlive it; |mem| must be thread-safe if blocks
 * of events are dropped elsewhere. */
nm_engine *nm_engine_new(const nm_mem *mem, const nm_entropy *entropy,
                         const nm_engine_config *config, nm_now now,
                         int *status);
/* Ends every operation with its terminal event (SHUTDOWN), sends LINKCLOSE on
 * active links; after it only draining and nm_engine_free are allowed. */
void nm_engine_shutdown(nm_engine *engine, nm_now now);
/* Releases everything, also undrained events and unfinished jobs, except jobs
 * that the driver still holds: those must be given back first. */
void nm_engine_free(nm_engine *engine);

/* ---- verbs ---- */

/* One frame from an interface. The verdict is final unless `pending`. Never
 * fails: what cannot be handled is dropped for a reason. */
nm_verdict nm_engine_input(nm_engine *engine, nm_iface_id iface,
                           const nm_frame *frame, nm_now now);
/* |count| frames of one interface in their order, the same as nm_engine_input
 * on each; |verdicts| takes what that returns, or is NULL. Memory that the
 * frames will need is fetched for several at a time, so that a node with large
 * tables waits for it once. */
void nm_engine_input_many(nm_engine *engine, nm_iface_id iface,
                          const nm_frame *frames, size_t count,
                          nm_verdict *verdicts, nm_now now);
/* Would the frame be accepted? Changes nothing but, with |remember|, the
 * duplicate filter. */
nm_verdict nm_engine_probe(nm_engine *engine, nm_iface_id iface,
                           const nm_frame *frame, bool remember, nm_now now);
/* Runs what is due. At most a bounded amount of work: call again while the
 * deadline is not in the future. */
void nm_engine_tick(nm_engine *engine, nm_now now);
/* When tick is wanted next, monotonic microseconds; NM_TIMER_NEVER: never. */
uint64_t nm_engine_deadline(const nm_engine *engine);

/* One packet to put on one interface, without access code (nm_egress adds
 * it). The caller owns one reference of `packet`. */
typedef struct nm_output {
  nm_iface_id iface;
  nm_block *packet;
  nm_op_id op;  /* 0, or whose packet it is: report with nm_engine_sent. One
                   packet that goes out on several interfaces has it on each */
  bool patient; /* a relayed announce: it may wait a moment for others */
} nm_output;
/* Takes the next output; false when there is none. Patient ones come after all
 * others. */
bool nm_engine_output(nm_engine *engine, nm_output *out);
/* Whether the next output is one that is not patient. */
bool nm_engine_output_urges(const nm_engine *engine);
/* The driver reports that an output with an op was handed to its medium, or
 * not. Operations that complete "when an interface has taken it" wait for
 * this; one fails when all interfaces have failed. */
void nm_engine_sent(nm_engine *engine, nm_op_id op, bool ok, nm_now now);

/* Takes the next event; false when there is none. The caller owns it. */
bool nm_engine_event(nm_engine *engine, nm_event *event);
/* Grants room for |count| more reliable events. */
void nm_engine_credit(nm_engine *engine, uint32_t count, nm_now now);

/* Takes the next job; NULL when there is none. It stays the engine's object
 * but belongs to the driver until nm_engine_job_done, which every job must
 * reach exactly once. */
nm_job *nm_engine_job(nm_engine *engine);
void nm_engine_job_done(nm_engine *engine, nm_job *job, nm_now now);

/* Decides on something held under |token|: accept (prove, receive, keep) or
 * refuse it. NM_E(STATE) when the token was decided or has lapsed. */
int nm_engine_accept(nm_engine *engine, nm_token_id token, nm_now now);
int nm_engine_refuse(nm_engine *engine, nm_token_id token, nm_now now);
/* Cancels an operation: absorbing, in every state; its terminal event follows
 * with stage CANCELLED. NM_E(STATE) when it has ended. */
int nm_engine_cancel(nm_engine *engine, nm_op_id op, nm_now now);

/* ---- interfaces ---- */

/* NM_E(ARGUMENT), NM_E(DUPLICATE_KEY) for a name that is taken, NM_E(STATE) for
 * a local client of an engine that is no shared instance, NM_E(LIMIT),
 * NM_E(MEMORY). */
int nm_engine_iface_add(nm_engine *engine, const nm_iface_spec *spec,
                        nm_iface_id *id, nm_now now);
/* Applies a changed spec; the name may not change. NM_E(ARGUMENT), NM_E(STATE)
 * when |id| is gone. */
int nm_engine_iface_change(nm_engine *engine, nm_iface_id id,
                           const nm_iface_spec *spec, nm_now now);
/* Links on it close (IFACE_GONE), paths over it go, waiting outputs are
 * dropped. */
int nm_engine_iface_remove(nm_engine *engine, nm_iface_id id, nm_now now);
/* Asks the transport node behind an interface to keep our paths over a
 * reconnection: sends a tunnel synthesis (RNS 1, 8.11). One is sent by itself
 * when an interface with `tunnels` comes online. NM_E(MISSING), NM_E(LIBRARY),
 * errors of sending. */
int nm_engine_tunnel(nm_engine *engine, nm_iface_id id, nm_now now);
/* NULL when |id| is gone; valid until the next call. */
const nm_iface_spec *nm_engine_iface(const nm_engine *engine, nm_iface_id id);
/* False when |id| is gone. */
bool nm_engine_iface_counters(const nm_engine *engine, nm_iface_id id,
                              nm_iface_counters *counters);
/* The next id after |id| in order of adding (0 to start; 0 at the end). */
nm_iface_id nm_engine_iface_next(const nm_engine *engine, nm_iface_id id);

/* ---- settings and figures ---- */

const nm_identity *nm_engine_identity(const nm_engine *engine);
/* The limits in force, with all defaults filled in. */
const nm_limits *nm_engine_limits(const nm_engine *engine);
void nm_engine_set_implicit_proofs(nm_engine *engine, bool implicit);

typedef struct nm_engine_stats {
  uint64_t inputs;
  uint64_t accepted;
  uint64_t dropped;
  uint64_t outputs;
  uint64_t jobs_emitted;
  uint64_t jobs_dropped;
  uint64_t lossy_dropped; /* lossy events lost to a full queue */
  uint64_t lossy_coalesced;
  uint64_t held_for_credit; /* packets refused for want of credit */
  uint64_t known_evicted;
  uint64_t paths_evicted;
  uint64_t paths_failed_over;    /* that lead another way since theirs failed */
  uint64_t alternatives_evicted; /* ways that found no room or made it */
  uint64_t receipts_culled;
  uint64_t forwarded;         /* packets of others */
  uint64_t announces_blocked; /* not rebroadcast for their rate (RNS 1, 5.8) */
  uint64_t reverses_evicted;
  uint64_t links_refused;
  uint64_t resources_resumed; /* that went on where they were interrupted */
  uint64_t resumes_declined;  /* whose beginning was not the same any more */
  uint64_t partials_kept;     /* of interrupted resources, by sinks */
  uint64_t partials_evicted;
  uint64_t operations_begun; /* each ends once; `operations` have not yet */
  uint64_t alternatives;     /* of all paths together */
  uint32_t known;
  uint32_t paths;
  uint32_t links;
  uint32_t links_active;
  uint32_t receipts;
  uint32_t announces_queued; /* of all interfaces */
  uint32_t rebroadcasts;
  uint32_t transits;
  uint32_t reverses;
  uint32_t tunnels;
  uint32_t filter_current;
  uint32_t filter_previous;
  uint32_t operations;      /* that have not had their terminal event */
  uint64_t resource_memory; /* bytes that incoming resources hold */
  uint32_t jobs_outstanding;
  uint64_t drops[NM_DROP_COUNT];
} nm_engine_stats;
void nm_engine_stats_read(const nm_engine *engine, nm_engine_stats *stats);

#endif
