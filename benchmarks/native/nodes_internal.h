/* What the files of a native node share. */
#ifndef NB_NODES_INTERNAL_H
#define NB_NODES_INTERNAL_H

#include "nodes.h"

#include "crypto/identity.h"

#include <pthread.h>
#include <stdatomic.h>

#define NB_HEARD_MAX 16
#define NB_PATH "/bench"
#define NB_PATIENCE_NS 40000000000u
/* How long a thread without events sleeps before it looks whether it is to
 * end: seldom enough not to show in an idle process. */
#define NB_IDLE_MS 1000

/* A destination that was announced. */
typedef struct nb_heard {
  nm_destination_hash hash;
  uint8_t key[NM_PUBLIC_SIZE];
} nb_heard;

struct nb_node {
  nm_loop *loop;
  nm_node *node;
  nb_kind kind;
  _Atomic uint64_t tickets;
  nm_identity identity; /* of `own` */
  nm_destination_hash own;
  nm_link_ref link; /* a client's, or 0 */
  uint64_t numbers; /* links that were opened so far */
  bool serving;
  pthread_t thread;
  atomic_bool stop;
  pthread_mutex_t lock; /* of all below */
  nb_heard heard[NB_HEARD_MAX];
  size_t heard_count;
  nb_arrival *arrivals;
  size_t arrival_count;
  size_t arrival_cap;
  int fault;
  nm_buffer stream; /* what a server has of the stream that comes in */
};

uint64_t nb_now_ns(void);
nm_block *nb_block_of(const void *bytes, size_t len);
/* Posts a command under a new ticket. */
int nb_post(nb_node *n, nm_command *c, uint64_t *ticket);
/* The next event before |deadline_ns|. */
bool nb_next(nb_node *n, nm_node_event *event, uint64_t deadline_ns);
/* Waits for the reply to a ticket, without its blocks: its status, or
 * NM_E(TIMEOUT). */
int nb_reply(nb_node *n, uint64_t ticket, uint64_t deadline_ns, nm_reply *out);
/* Both. */
int nb_ask(nb_node *n, nm_command *c, nm_reply *reply);

/* By the engine's stamps; zero at first. */
typedef struct nb_span_ns {
  uint64_t start_ns;
  uint64_t end_ns;
} nb_span_ns;

/* Opens the channel of the node's link. */
int nb_channel_open(nb_node *n);
/* Sends all payloads as messages, to the proof of the last one. */
int nb_channel_messages(nb_node *n, const nb_run *run, uint64_t number,
                        uint64_t deadline_ns, nb_span_ns *took);
/* Writes one payload to a stream, to the end of the answering one. */
int nb_channel_stream(nb_node *n, const nb_run *run, uint64_t number,
                      uint64_t deadline_ns, nb_span_ns *took);

#endif
