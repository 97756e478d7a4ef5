/* The simulator's inside: its state, and what its files call in each other.
 * Only files of this room include it.
 *
 * A file calls only files that stand before it here:
 *   random, agenda, meter, view
 *   trace, check, store, frames, medium, node, life, members, sim
 */
#ifndef NM_SIM_INTERNAL_H
#define NM_SIM_INTERNAL_H

#include "base/block.h"
#include "base/timer.h"
#include "crypto/entropy.h"
#include "sim/agenda.h"
#include "sim/meter.h"
#include "sim/sim.h"

/* ---- media ---- */

/* A frame that waits to be sent. */
typedef struct nm_sim_frame {
  struct nm_sim_frame *next;
  nm_block *bytes; /* with its access code */
  nm_op_id op;
  uint32_t member; /* the sender */
  uint32_t boot;   /* of the sender, which `op` belongs to */
  bool swept;      /* broken off: its sender went down */
  nm_sim_frame_kind kind;
} nm_sim_frame;

/* Frames in the order of sending; the first one is being sent. */
typedef struct nm_sim_lane {
  nm_sim_frame *first;
  nm_sim_frame *last;
  bool busy;
  uint64_t busy_ns; /* how long the first one takes */
} nm_sim_lane;

typedef struct nm_sim_member {
  nm_sim_node_id node;
  nm_iface_id iface; /* of the node's present engine; 0: none */
  bool present;      /* connected, be the node up or down */
  nm_iface_spec spec;
  nm_sim_lane lane;
  uint32_t waiting;  /* its frames in a queue, not being sent */
  uint64_t *deaf_to; /* a bit for each member that it does not hear */
  size_t deaf_words;
  uint64_t *last_from; /* in_order: last arrival from each member */
  size_t last_count;
} nm_sim_member;

typedef struct nm_sim_medium {
  nm_sim_medium_id id;
  char name[NM_SIM_NAME_MAX + 1];
  nm_sim_medium_config config;
  nm_sim_rng rng;
  nm_sim_member *members;
  uint32_t member_count;
  uint32_t member_cap;
  nm_sim_lane shared;
  uint64_t airtime_ns;
  nm_sim_medium_stats stats;
} nm_sim_medium;

/* ---- nodes ---- */

typedef struct nm_sim_entry {
  struct nm_sim_entry *next; /* in the order of names */
  nm_block *bytes;           /* NULL: nothing yet */
  uint64_t last_due_ns;      /* of stores under this name */
  char name[];
} nm_sim_entry;

/* A job that the simulator holds. */
typedef struct nm_sim_work {
  struct nm_sim_work *next;
  struct nm_sim_work *prev;
  nm_job *job; /* NULL: its engine is gone */
  nm_sim_node_id node;
} nm_sim_work;

/* A set of small numbers. */
typedef struct nm_sim_bits {
  uint64_t *words;
  size_t count;
} nm_sim_bits;

typedef struct nm_sim_port {
  nm_sim_medium_id medium;
  uint32_t member;
} nm_sim_port;

typedef struct nm_sim_node {
  char name[NM_SIM_NAME_MAX + 1];
  nm_sim_node_id id;
  nm_sim_node_config config;
  nm_identity identity;
  nm_sim_meter meter;
  nm_sim_rng rng; /* delays and failures of jobs and stores */
  nm_entropy_pool pool;
  nm_entropy entropy;
  nm_engine *engine; /* NULL while it is down */
  uint32_t boots;
  int64_t clock_us;  /* wall clock ahead of the simulation's */
  uint64_t armed_ns; /* the item that stands for its deadline */
  nm_sim_work *works;
  nm_sim_entry *store;
  nm_sim_port *ports; /* by interface id */
  size_t port_count;
  uint32_t watched;
  nm_sim_bits ended;  /* operations of this boot that had their end */
  nm_sim_bits closed; /* links */
  nm_sim_bits opened;
  uint64_t boot_ended; /* terminal events of operations in this boot */
  uint64_t operations; /* of earlier boots */
  nm_sim_node_stats stats;
} nm_sim_node;

typedef struct nm_sim_told {
  struct nm_sim_told *next;
  nm_sim_node_id node;
  nm_event event;
} nm_sim_told;

typedef struct nm_sim_due_call {
  struct nm_sim_due_call *next;
  uint64_t tag;
} nm_sim_due_call;

#define NM_SIM_FAILURE_MAX 255

struct nm_sim {
  const nm_mem *base;
  nm_sim_meter own;
  nm_sim_config config;
  uint64_t now_ns;
  uint32_t steps_here; /* since time last passed */
  bool finished;
  nm_sim_agenda agenda;
  uint64_t calls_pending;
  nm_sim_node **nodes;
  uint32_t node_count;
  uint32_t node_cap;
  nm_sim_medium **media;
  uint32_t medium_count;
  uint32_t medium_cap;
  nm_sim_told *told_first;
  nm_sim_told *told_last;
  nm_sim_due_call *due_first;
  nm_sim_due_call *due_last;
  nm_cipher cipher;
  bool has_cipher;
  uint8_t *scratch;
  size_t scratch_cap;
  nm_sha256_ctx digest;
  nm_sim_sink sink;
  void *sink_user;
  nm_sim_stats stats;
  char failure[NM_SIM_FAILURE_MAX + 1];
};

static inline nm_sim_node *nm_sim_node_at(const nm_sim *sim,
                                          nm_sim_node_id id) {
  return id == 0 || id > sim->node_count ? NULL : sim->nodes[id - 1];
}
static inline nm_sim_medium *nm_sim_medium_at(const nm_sim *sim,
                                              nm_sim_medium_id id) {
  return id == 0 || id > sim->medium_count ? NULL : sim->media[id - 1];
}

/* ---- view.c ---- */

/* Whether |name| is 1 to NM_SIM_NAME_MAX bytes long. */
bool nm_sim_name_is_sane(const char *name);

/* ---- trace.c ---- */

/* Adds |note|, whose time is set here, to the digest and gives it to the
 * sink. */
void nm_sim_tell(nm_sim *sim, nm_sim_note *note);

/* ---- check.c ---- */

__attribute__((format(printf, 3, 4))) void
nm_sim_broken(nm_sim *sim, const nm_sim_node *node, const char *format, ...);
/* Out of memory in the simulator itself. */
void nm_sim_no_memory(nm_sim *sim);
/* What an engine did in one call: |before| is its last record before it. */
void nm_sim_check_work(nm_sim *sim, const nm_sim_node *node,
                       nm_input_seq before);
void nm_sim_check_event(nm_sim *sim, nm_sim_node *node, const nm_event *event);
void nm_sim_check_node(nm_sim *sim, const nm_sim_node *node);
void nm_sim_check_medium(nm_sim *sim, const nm_sim_medium *medium);
/* After nm_engine_shutdown and all that follows from it. */
void nm_sim_check_stopped(nm_sim *sim, const nm_sim_node *node);
void nm_sim_check_end(nm_sim *sim);
void nm_sim_bits_dispose(nm_sim *sim, nm_sim_bits *bits);

/* ---- store.c ---- */

/* The entry |name| of a node, made when it is not there; NULL without
 * memory. */
nm_sim_entry *nm_sim_entry_of(nm_sim *sim, nm_sim_node *node, const char *name);
/* Makes |bytes| durable under |entry|. */
void nm_sim_entry_put(nm_sim *sim, nm_sim_entry *entry, nm_span bytes);
void nm_sim_store_dispose(nm_sim *sim, nm_sim_node *node);

/* ---- medium.c ---- */

/* Gives a packet of the engine of |node| to the medium behind |out->iface|;
 * takes over its reference. */
void nm_sim_medium_send(nm_sim *sim, nm_sim_node *node, const nm_output *out);
/* The frame at the head of a lane is out. Returns the node whose frame is sent
 * next, or NULL: its engine has been told. */
nm_sim_node *nm_sim_medium_sent(nm_sim *sim, const nm_sim_item *item);
/* Whether the copy that |item| stands for may be heard; counts and tells why
 * not. */
nm_sim_member *nm_sim_medium_arrival(nm_sim *sim, const nm_sim_item *item);
/* What waits from a member is gone; with |node| its engine is told. */
void nm_sim_member_sweep(nm_sim *sim, nm_sim_medium *medium, uint32_t member,
                         nm_sim_node *node);
/* The same on all media of a node whose engine is gone. */
void nm_sim_medium_sweep(nm_sim *sim, nm_sim_node *node);
/* The member that |node| is or was, or NULL. */
nm_sim_member *nm_sim_member_of(const nm_sim_medium *medium,
                                nm_sim_node_id node);
void nm_sim_media_dispose(nm_sim *sim);

/* ---- node.c ---- */

/* Does all that follows from calls of the engine of |node|, and checks it. */
void nm_sim_node_settle(nm_sim *sim, nm_sim_node *node);
void nm_sim_node_tick(nm_sim *sim, nm_sim_node *node);
void nm_sim_node_hear(nm_sim *sim, const nm_sim_item *item);
void nm_sim_node_job_back(nm_sim *sim, nm_sim_work *work);
/* Ends the jobs that |node| has under way. A crash makes each store durable, or
 * not, and what follows from the jobs is not looked at. */
void nm_sim_node_end_jobs(nm_sim *sim, nm_sim_node *node, bool crash);

/* ---- life.c ---- */

void nm_sim_nodes_dispose(nm_sim *sim);
/* Adds an interface for |member| to the engine of |node|. */
int nm_sim_node_plug(nm_sim *sim, nm_sim_node *node, nm_sim_medium_id medium,
                     uint32_t member);

#endif
