/* The simulator: many engines in one process, on media and with clocks that a
 * seed decides.
 *
 * Nothing here reads a clock, opens a file, starts a thread or draws entropy:
 * time is virtual, and every random choice comes from a stream that the
 * simulation's seed and a name define. So the same seed and the same calls give
 * the same run, byte for byte, on any machine; nm_sim_digest says whether two
 * runs were the same. Adding a node or a medium leaves the streams of the
 * others as they are.
 *
 * The simulator is a driver of the engine (stack/engine.h). Whoever calls a
 * verb of an engine by himself calls nm_sim_touch afterwards; everything else,
 * jobs, stores, timers, frames, is done here. A simulation is confined to one
 * thread at a time.
 */
#ifndef NM_SIM_SIM_H
#define NM_SIM_SIM_H

#include "crypto/hash.h"
#include "sim/medium.h"
#include "stack/engine.h"
#include "stack/local.h"

/* ---- a simulation ---- */

typedef struct nm_sim_config {
  uint64_t seed;
  uint64_t start_mono_us; /* both clocks at the start */
  int64_t start_unix_us;
  uint32_t steps_at_once_max; /* [100000] steps without time passing, after
                                 which the run is said to stand still */
  bool check_all; /* the expensive invariants after each step as well */
} nm_sim_config;

/* Seed 0, a monotonic clock at 1000 s, a wall clock in November 2023. */
void nm_sim_config_default(nm_sim_config *config);

/* A new simulation, or NULL with |status| set (NM_E(MEMORY), NM_E(LIBRARY)).
 * |mem| is kept; everything that the simulation and its engines allocate is
 * counted on its way there. */
nm_sim *nm_sim_new(const nm_mem *mem, const nm_sim_config *config, int *status);
/* Releases everything, whatever state it is in. */
void nm_sim_free(nm_sim *sim);
uint64_t nm_sim_seed(const nm_sim *sim);

/* ---- nodes: one engine each, with a store and clocks of its own ---- */

typedef struct nm_sim_node_config {
  nm_engine_config engine; /* `identity` NULL: one that the seed makes; a limit
                              of 0: the engine's default, but 1024 entries of
                              the flight recorder */
  int64_t clock_ahead_us;  /* wall clock of the node minus the simulation's */
  /* A job comes back after its nm_job_cost_us times a factor drawn from
   * [min, max] percent; both 0: at once, in order. With a wide span jobs
   * overtake each other. */
  uint32_t job_percent_min;
  uint32_t job_percent_max;
  /* A store is durable after a time drawn from [min, max]; stores under one
   * name come back in order. It fails with a probability, in millionths. */
  uint64_t store_us_min;
  uint64_t store_us_max;
  uint32_t store_failure_ppm;
  uint32_t credit;  /* events the application has room for at the start */
  bool auto_credit; /* each reliable event makes room for another one */
  uint32_t allocation_failure_ppm; /* of the engine's allocations */
} nm_sim_node_config;

/* Jobs at once, stores of 1 to 5 ms that succeed, credit that never ends. */
void nm_sim_node_config_default(nm_sim_node_config *config);

/* Adds a running node; names are 1 to NM_SIM_NAME_MAX bytes and unique among
 * nodes. NM_E(ARGUMENT), NM_E(DUPLICATE_KEY), NM_E(MEMORY). */
int nm_sim_node_add(nm_sim *sim, const char *name,
                    const nm_sim_node_config *config, nm_sim_node_id *id);
/* "" for an id that is not there. */
const char *nm_sim_node_name(const nm_sim *sim, nm_sim_node_id node);
/* 0: no such name. */
nm_sim_node_id nm_sim_node_named(const nm_sim *sim, const char *name);
uint32_t nm_sim_node_count(const nm_sim *sim);
/* The engine of a running node, else NULL. Borrowed until the node stops. */
nm_engine *nm_sim_engine(const nm_sim *sim, nm_sim_node_id node);
/* What the node's clocks show. */
nm_now nm_sim_now(const nm_sim *sim, nm_sim_node_id node);
/* Does what follows from calls of the node's engine: to be called after each
 * of them, or after a few at one moment. */
void nm_sim_touch(nm_sim *sim, nm_sim_node_id node);
void nm_sim_credit(nm_sim *sim, nm_sim_node_id node, uint32_t count);
/* Moves the node's wall clock; its monotonic clock and its links do not
 * notice. */
void nm_sim_clock_step(nm_sim *sim, nm_sim_node_id node, int64_t us);

/* The power goes: engine, jobs under way and frames that wait to be sent are
 * gone; of the stores under way each is durable or not, as the seed says.
 * NM_E(STATE) when the node is down. */
int nm_sim_crash(nm_sim *sim, nm_sim_node_id node);
/* The orderly end: nm_engine_shutdown, what that emits goes out, all jobs come
 * back. Its last events are still to be taken. NM_E(STATE). */
int nm_sim_stop(nm_sim *sim, nm_sim_node_id node);
/* A new engine on the same interfaces (their ids may differ where one was taken
 * away before), which knows nothing but its identity; what was stored is for
 * the caller to give it. NM_E(STATE) when the node is up, NM_E(MEMORY). */
int nm_sim_restart(nm_sim *sim, nm_sim_node_id node);
/* How often the node was started. */
uint32_t nm_sim_boots(const nm_sim *sim, nm_sim_node_id node);

/* What is durable under |name| ("ratchets/<hex>"): a span valid until the next
 * call; `ptr` NULL when there is nothing. */
nm_span nm_sim_stored(const nm_sim *sim, nm_sim_node_id node, const char *name);
/* The name that is stored after |name| in their order (NULL: the first one),
 * or NULL. */
const char *nm_sim_stored_next(const nm_sim *sim, nm_sim_node_id node,
                               const char *name);
/* Puts something into the store, for what the application keeps there. An
 * empty span removes. NM_E(ARGUMENT), NM_E(MEMORY). */
int nm_sim_store(nm_sim *sim, nm_sim_node_id node, const char *name,
                 nm_span bytes);
/* nm_engine_listen with `last_emitted` and `ratchet_file` from the store, as a
 * program does that starts again. Its errors. */
int nm_sim_listen(nm_sim *sim, nm_sim_node_id node, const nm_dest_spec *spec,
                  nm_destination_hash *hash);

/* ---- time ---- */

/* Why nm_sim_run came back. */
typedef enum nm_sim_pause {
  NM_SIM_TIME,  /* the moment asked for is here, and all before it is done */
  NM_SIM_EVENT, /* events wait (nm_sim_event) */
  NM_SIM_CALL,  /* a call that was asked for is due (nm_sim_due) */
  NM_SIM_FAILED /* an invariant does not hold (nm_sim_failure) */
} nm_sim_pause;

/* Microseconds since the start. */
uint64_t nm_sim_time_us(const nm_sim *sim);
/* Runs up to a moment. Comes back early for what nm_sim_pause names; after a
 * failure it does nothing any more. */
nm_sim_pause nm_sim_run(nm_sim *sim, uint64_t until_us);
/* True when nothing is due any more: no frame, job, store, timer or call. */
bool nm_sim_idle(const nm_sim *sim);
/* Asks nm_sim_run to pause at a moment; |tag| comes back from nm_sim_due. A
 * moment that is past means at once. NM_E(MEMORY). */
int nm_sim_call_at(nm_sim *sim, uint64_t at_us, uint64_t tag);
/* The call that is due now; false when there is none. */
bool nm_sim_due(nm_sim *sim, uint64_t *tag);

/* Which kinds of events a node hands out, as a set of 1 << nm_event_kind; the
 * others are counted and traced alone. At first all. */
void nm_sim_watch(nm_sim *sim, nm_sim_node_id node, uint32_t kinds);
/* The next event of any node, in order; the caller owns it, and its blocks
 * belong to the allocator that nm_sim_new was given. False when there is
 * none. */
bool nm_sim_event(nm_sim *sim, nm_sim_node_id *node, nm_event *event);

/* ---- what happened ---- */

/* SHA-256 over all that was traced so far. */
void nm_sim_digest(const nm_sim *sim, uint8_t out[NM_HASH_SIZE]);

typedef enum nm_sim_note_kind {
  NM_SIM_NOTE_NODE,    /* started, crashed, stopped */
  NM_SIM_NOTE_SEND,    /* a frame was given to a medium, or refused by it */
  NM_SIM_NOTE_RECEIVE, /* a frame arrived, with its verdict */
  NM_SIM_NOTE_LOSE,    /* a frame did not arrive */
  NM_SIM_NOTE_JOB,     /* a job came back */
  NM_SIM_NOTE_STORE,   /* a store came back */
  NM_SIM_NOTE_EVENT,
  NM_SIM_NOTE_FAILURE
} nm_sim_note_kind;

/* One traced fact; the spans and pointers are valid during the call alone. */
typedef struct nm_sim_note {
  nm_sim_note_kind kind;
  uint64_t time_ns; /* since the start */
  nm_sim_node_id node;
  nm_sim_medium_id medium;
  nm_iface_id iface;
  int code;      /* NODE: nm_sim_node_change. SEND, LOSE: nm_sim_fate. RECEIVE:
                    nm_drop. JOB: nm_job_kind. STORE: 1 durable, 0 not. EVENT:
                    nm_event_kind */
  bool pending;  /* RECEIVE: a job decides */
  nm_span bytes; /* frame, stored bytes, the event's data */
  const char *text; /* STORE: the name. FAILURE: the sentence */
  const nm_event *event;
} nm_sim_note;

typedef enum nm_sim_node_change {
  NM_SIM_STARTED,
  NM_SIM_CRASHED,
  NM_SIM_STOPPED
} nm_sim_node_change;

/* Called for each traced fact, in order; |sink| NULL ends that. */
typedef void (*nm_sim_sink)(void *user, const nm_sim *sim,
                            const nm_sim_note *note);
void nm_sim_trace(nm_sim *sim, nm_sim_sink sink, void *user);
/* Writes |note| as one line of text without its end; a line that does not fit
 * is cut. Returns its length. Two traces can be compared line by line. */
size_t nm_sim_note_text(const nm_sim *sim, const nm_sim_note *note, char *out,
                        size_t cap);

typedef struct nm_sim_node_stats {
  uint32_t boots;
  uint64_t frames_in;
  uint64_t frames_out;
  uint64_t bytes_in;
  uint64_t bytes_out;
  uint64_t jobs;
  uint64_t stores;
  uint64_t stores_failed;
  uint64_t events;
  uint64_t terminal_events; /* of operations */
  uint64_t operations;      /* begun, over all boots */
  uint64_t live_blocks;     /* of memory, now */
  uint64_t live_bytes;
  uint64_t peak_bytes;
  uint64_t allocations;
  uint64_t allocations_failed;
} nm_sim_node_stats;

/* False for a node that is not there. */
bool nm_sim_node_stats_read(const nm_sim *sim, nm_sim_node_id node,
                            nm_sim_node_stats *stats);

typedef struct nm_sim_stats {
  uint64_t steps;
  uint64_t frames; /* delivered */
  uint64_t events;
  uint64_t notes;
  uint64_t checks;
} nm_sim_stats;
void nm_sim_stats_read(const nm_sim *sim, nm_sim_stats *stats);

/* ---- invariants ----
 *
 * After each step, of what the step touched: every table within its limit;
 * inputs are accepted, dropped or under way; an operation ends once; a call
 * does a bounded amount of work; what a medium took is delivered, lost for a
 * counted reason, or on its way. At the end also: no operation is left, all
 * memory is back. */

/* The first invariant that did not hold, as a sentence with time and node;
 * NULL while all hold. */
const char *nm_sim_failure(const nm_sim *sim);
/* Lets the run fail with a sentence of the caller's (an assertion about the
 * scenario). The first failure stays. */
void nm_sim_fail(nm_sim *sim, const char *text);
/* Ends everything: stops all nodes, lets what is on the way arrive or go,
 * drops the events that nobody took, then checks what must hold at the end.
 * Afterwards only reading and nm_sim_free are allowed. NM_OK, or NM_E(STATE)
 * with nm_sim_failure saying what. */
int nm_sim_finish(nm_sim *sim);

#endif
