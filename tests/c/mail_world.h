/* Many mailboxes on a simulated network with one propagation node, for tests of
 * what becomes of messages: cables that lose frames, partitions, and power cuts
 * at any moment. Each mailbox has a store that outlives a cut: what it took,
 * what is on its way out, and what became of it.
 *
 * Mailboxes are joined by a transport node in the middle, each by a cable of
 * its own; the propagation node hangs on a cable too.
 */
#ifndef NM_TESTS_MAIL_WORLD_H
#define NM_TESTS_MAIL_WORLD_H

#include "crypto/entropy.h"
#include "lxmf/router.h"
#include "sim/sim.h"

#define WORLD_BOXES 200
#define WORLD_LETTERS 1000
#define WORLD_PENDING 64

/* A message, as the stores of both its ends know it. */
typedef struct world_letter {
  uint8_t id[NM_HASH_SIZE];
  int from;
  int to;
  nm_policy policy;
  nm_block *packed;
  nm_block *sealed; /* once the sender's router told of it */
  bool begun;       /* in the sender's store */
  bool ended;
  nm_lxmf_state state; /* the final one */
  nm_stage stage;
  uint32_t attempts;
  uint64_t begun_us;
  uint64_t ended_us;
  int kept;      /* how often the recipient's store took it */
  int told_boot; /* the recipient's life in which its router last told of it and
                    was told that it is kept; 0: none */
} world_letter;

/* A message that is being written, not durable yet. */
typedef struct world_pending {
  uint64_t token;
  int letter;
} world_pending;

typedef struct world_box {
  nm_sim_node_id node;
  nm_sim_medium_id cable;
  nm_identity identity;
  nm_destination_hash hash;
  nm_router *router; /* NULL while the power is off */
  nm_entropy_pool pool;
  nm_entropy entropy;
  int boot;
  uint64_t call_us; /* the tick that is asked for, or UINT64_MAX */
  world_pending pending[WORLD_PENDING];
  int pending_count;
  bool synced; /* the last fetch ended with all there was */
} world_box;

typedef struct world {
  nm_sim *sim;
  nm_cipher cipher;
  uint64_t random;
  int boxes;
  int letters;
  world_box box[WORLD_BOXES];
  world_letter letter[WORLD_LETTERS];
  nm_sim_node_id hub;
  nm_sim_node_id node; /* the propagation node */
  nm_sim_medium_id node_cable;
  nm_destination_hash node_hash;
  nm_block *stored[WORLD_LETTERS]; /* by the propagation node */
  int stored_count;
  uint64_t cuts;
  uint64_t crashes;
  uint64_t again;   /* messages that came again and were known by the store */
  uint64_t unknown; /* answers of the node that it does not know who asks */
  uint64_t unknown_ends; /* fetches that ended with that */
} world;

/* |boxes| mailboxes; each cable loses up to |loss_ppm| of the frames. */
void world_init(world *w, uint64_t seed, int boxes, uint32_t loss_ppm);
void world_dispose(world *w);
/* 0..below-1, from the world's own stream. */
uint32_t world_below(world *w, uint32_t below);
/* Asks for something at a moment, in microseconds since the start. */
void world_announce_at(world *w, uint64_t at_us, int box);
void world_send_at(world *w, uint64_t at_us, int from, int to, size_t size,
                   const nm_policy *policy);
void world_crash_at(world *w, uint64_t at_us, uint64_t for_us, int box);
void world_cut_at(world *w, uint64_t at_us, uint64_t for_us, int box);
void world_fetch_at(world *w, uint64_t at_us, int box);
/* Sets what all cables lose from now on. */
void world_loss(world *w, uint32_t loss_ppm);
/* Runs to a moment. */
void world_run(world *w, uint64_t until_us);

#endif
