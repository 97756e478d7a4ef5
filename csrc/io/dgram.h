/* A datagram socket in a loop: received in batches, sent in batches at the end
 * of a turn, with a bounded queue for what the system does not take at once.
 */
#ifndef NM_IO_DGRAM_H
#define NM_IO_DGRAM_H

#include "io/port.h"
#include "io/udp.h"

typedef struct nm_dgram nm_dgram;

/* What a socket's owner is told. */
typedef struct nm_dgram_calls {
  /* A datagram came in, for the owner to count; |data| is valid during the
   * call. NULL for a socket that only sends. */
  void (*heard)(nm_dgram *dgram, nm_span data, const nm_address *from);
  /* Whether the owner has enough, until nm_dgram_go_on. */
  bool (*is_full)(nm_dgram *dgram);
  /* A datagram of |iface| could not be sent, or the network says that earlier
   * ones did not arrive; |error| is a negated errno. Counted already. Must not
   * close the socket. */
  void (*failed)(nm_dgram *dgram, nm_iface_id iface, int error);
} nm_dgram_calls;

typedef struct nm_dgram_entry {
  nm_iface_id iface; /* who counts it */
  uint32_t len;
  bool addressed; /* to `to`; else where the socket is connected to */
  nm_address to;
} nm_dgram_entry;

struct nm_dgram {
  nm_port *port;
  const nm_dgram_calls *calls;
  void *user; /* the owner's */
  uv_poll_t poll;
  int fd;
  int polled; /* the events that are waited for */
  bool closing;
  bool paused;
  bool starved;    /* the owner has enough */
  bool blocked;    /* the system takes nothing until it is writable */
  bool is_wet;     /* in the loop's list */
  size_t datagram; /* the longest one that is taken, in bytes */
  nm_dgram *next_wet;
  nm_timer again;    /* after ENOBUFS */
  uint32_t refusals; /* ENOBUFS in a row */
  nm_buffer bytes;   /* of the datagrams that wait, in a row */
  nm_buffer entries; /* nm_dgram_entry of each */
  size_t bytes_at;   /* sent up to here */
  size_t entries_at;
};

/* Takes |fd| over for |port|; |datagram| is the longest one to receive. NULL
 * without memory or when the loop cannot watch it: |fd| is closed. */
nm_dgram *nm_dgram_new(nm_port *port, int fd, size_t datagram,
                       const nm_dgram_calls *calls, void *user);
/* Receives from now on. 0 or a libuv error. */
int nm_dgram_listen(nm_dgram *dgram);
/* Queues one datagram for the end of the turn, to |to| or, NULL, where the
 * socket is connected to. False: it was dropped, and counted at |from|. */
bool nm_dgram_send(nm_dgram *dgram, nm_port *from, const nm_address *to,
                   nm_span data);
void nm_dgram_pause(nm_dgram *dgram, bool on);
/* The owner takes datagrams again. */
void nm_dgram_go_on(nm_dgram *dgram);
/* Closes it; what waits is sent if the system takes it at once. The memory
 * goes later. */
void nm_dgram_close(nm_dgram *dgram);
uint32_t nm_dgram_waiting(const nm_dgram *dgram);
size_t nm_dgram_waiting_bytes(const nm_dgram *dgram);
/* Sends what all sockets of the loop have queued. */
void nm_dgram_flush_all(nm_loop *loop);

#endif
