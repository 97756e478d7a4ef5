/* One side of a row between two processes (benchmarks/README.md), without
 * Python: a node on a loop of its own. A server's events are handled by a
 * thread of this file; a client is driven by the thread that takes samples.
 */
#ifndef NB_NODES_H
#define NB_NODES_H

#include "io/node.h"

typedef enum nb_kind {
  NB_DISCOVERY,
  NB_LINK,
  NB_REQUEST,
  NB_PACKET,
  NB_DIRECT,
  NB_COLD,
  NB_OPPORTUNISTIC,
  NB_DELIVER,
  NB_RESOURCE,
  NB_LINKS,
  NB_CHANNEL,
  NB_BUFFER,
  NB_IDLE,
  NB_KIND_COUNT
} nb_kind;

/* "discovery", ... Never NULL. */
const char *nb_kind_name(nb_kind kind);

/* What arrived at a server. */
typedef struct nb_arrival {
  uint64_t at_ns;
  nm_block *block; /* owned; NULL for a link that became active */
  nm_span payload; /* within it */
} nb_arrival;

typedef struct nb_node nb_node;

/* Starts a loop and a node that listens on, or connects to, |port| of
 * 127.0.0.1; a client waits for the connection. 0 or a negative status. */
int nb_node_open(bool server, uint16_t port, nb_kind kind, nb_node **node);
/* Ends everything. NULL is allowed. */
void nb_node_close(nb_node *node);

/* Listens on |name| as the identity with these 64 private bytes. Before
 * nb_node_serve on a server. */
int nb_node_listen(nb_node *node, const char *name, const uint8_t *private_key,
                   nm_destination_hash *hash);
/* From now on the server's thread has the events. */
int nb_node_serve(nb_node *node);
/* Announces the destination that was listened on last. */
int nb_node_announce(nb_node *node);
/* Waits for the announce of a destination: NM_E(TIMEOUT) when none came within
 * |timeout_ms|. */
int nb_node_meet(nb_node *node, const nm_destination_hash *hash,
                 int timeout_ms);

/* Takes the arrivals so far; the caller frees |*arrivals| with
 * nb_arrivals_free. A message that could not be verified is
 * NM_E(SIGNATURE). */
int nb_node_take(nb_node *node, nb_arrival **arrivals, size_t *count);
void nb_arrivals_free(nb_arrival *arrivals, size_t count);

/* What a run needs beside the node. Spans are borrowed. */
typedef struct nb_run {
  const nm_destination_hash *hashes; /* of the server, |hash_count| of them */
  size_t hash_count;
  nm_span payloads; /* |items| of |size| bytes */
  size_t size;
  size_t items;
  uint64_t first; /* number of the first sample */
  uint64_t count;
  uint64_t pace_us;
  uint32_t timeout_ms;
  bool compress;
  /* Filled: room for |count| each. */
  uint64_t *samples_ns;
  uint64_t *starts_ns;
  size_t taken;
  size_t failed;
  int error; /* the first one */
} nb_run;

/* Takes samples; 0 also when some failed. */
int nb_node_run(nb_node *node, nb_run *run);

#endif
