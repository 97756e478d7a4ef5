/* A channel by itself: messages in sequence over something that carries
 * packets and proves them (RNS 2, 4). The link of an engine is one such thing
 * (channel.h); a test or another transport can be another. Nothing here knows
 * links, engines or events.
 *
 * How it keeps its promises:
 * - Sending: at most `window` messages are outstanding, and none is sent that
 *   is 48 or more after the oldest outstanding one, since a receiver need not
 *   keep what is further ahead than that.
 * - A try lasts nm_channel_timeout, and one second at least (times 1.5 for each
 *   further try), because peers poll their timers once a second and may stall.
 *   Within a try a message is repeated earlier, up to five times, once the
 *   peer's own time from sending to proof has been measured on this channel:
 *   soon the oldest one and those that were overtaken, the others later.
 *   After the fifth try the channel is dead, unless its peer has proven
 *   messages before and is known to be there: such a peer has no room now, and
 *   the fifth try begins again.
 * - Receiving: a message is accepted, then proven, then delivered in order.
 * What was accepted before is proven again and goes no further. What cannot be
 *   accepted is not proven, so that it comes again.
 * - A peer that repeats what was proven long ago may have lost the proof
 * because it was back too early: upstream awaits a proof only some time after
 * the packet has left. Proofs for such a peer are late on purpose, by
 *   milliseconds.
 */
#ifndef NM_STACK_CHANNEL_CORE_H
#define NM_STACK_CHANNEL_CORE_H

#include "base/mem.h"
#include "stack/types.h"
#include "wire/channel.h"
#include "wire/decisions.h"

/* Messages that may be ahead of the next expected one. */
#define NM_CHANNEL_AHEAD_MAX NM_CHANNEL_WINDOW_MAX_FAST
/* Packets of one message whose proofs are still recognised. */
#define NM_CHANNEL_KEYS 8
/* Repetitions within one try. */
#define NM_CHANNEL_EARLY_MAX 5
#define NM_CHANNEL_TYPES_MAX 1024
/* Proofs that may be late at a time; further ones are not late. */
#define NM_CHANNEL_LATE_MAX 64

struct nm_channel;

/* An outstanding message, as the owner sees it. */
typedef struct nm_channel_sent {
  uint16_t msgtype;
  uint16_t sequence;
  uint8_t tries;
  uint32_t sendings; /* with the early repetitions */
  size_t bytes;      /* of the payload */
  uint64_t first_sent_us;
  uint64_t sent_us; /* the latest */
  uint64_t due_us;  /* end of the try under way */
  void *owner;      /* as given to nm_channel_send */
} nm_channel_sent;

/* What carries the packets, and who owns the messages. None of them may call
 * the channel again. */
typedef struct nm_channel_outlet {
  void *user;
  /* Seals |envelope| anew and sends it; |key| names the packet in its proof.
   * 0 or an error: nothing was sent. */
  int (*send)(void *user, nm_span envelope, nm_packet_hash *key);
  /* Proves the packet |key|. */
  void (*prove)(void *user, const nm_packet_hash *key);
  /* Makes ready to deliver |envelope|: everything that can fail. |ahead|: it
   * waits for others first. Sets |*place|. |status| is 0, NM_E(TYPE) for a type
   * that is not registered, NM_E(RESERVED) for a system type that is unknown:
   * such a message takes its place in the sequence all the same, as an error to
   * tell. NM_DROP_NONE, or why it cannot be taken now. */
  nm_drop (*accept)(void *user, const nm_channel_envelope *envelope, int status,
                    bool ahead, void **place);
  /* In order; takes over |place|. */
  void (*deliver)(void *user, void *place);
  /* The channel ended first; takes over |place|. */
  void (*discard)(void *user, void *place);
  /* A message was proven (|delivered|), or the channel ended first. */
  void (*ended)(void *user, const nm_channel_sent *sent, bool delivered);
  /* Whether something else came from the peer a short while ago. NULL: never.
   */
  bool (*hears)(void *user);
} nm_channel_outlet;

typedef struct nm_channel_counters {
  uint64_t sent;         /* messages */
  uint64_t delivered;    /* of them proven */
  uint64_t timeouts;     /* tries that ended without a proof */
  uint64_t repeated;     /* sendings beyond the first of each message */
  uint64_t sent_bytes;   /* of payloads, without repetitions */
  uint64_t received;     /* messages accepted */
  uint64_t ordered;      /* of them delivered */
  uint64_t duplicates;   /* accepted before, proven again */
  uint64_t beyond;       /* too far ahead, not proven */
  uint64_t refused;      /* not accepted for want of room, not proven */
  uint64_t unregistered; /* of a type that is not registered */
  uint64_t received_bytes;
} nm_channel_counters;

/* Messages whose time of acceptance is known. */
#define NM_CHANNEL_TAKEN 64

/* When a message was accepted. */
typedef struct nm_channel_taken {
  uint64_t at_us; /* 0: no message */
  uint16_t sequence;
} nm_channel_taken;

/* A proof that is late on purpose. */
typedef struct nm_channel_late {
  nm_packet_hash key;
  uint64_t due_us;
} nm_channel_late;

typedef struct nm_channel_out nm_channel_out;
typedef struct nm_channel_in nm_channel_in;

/* Owned by the caller; its members are read through the functions below. */
typedef struct nm_channel {
  const nm_mem *mem;
  nm_channel_outlet outlet;
  bool open;
  size_t mdu; /* of a payload */
  uint64_t rtt_us;
  nm_channel_window window;
  uint16_t next_tx;
  uint16_t next_rx;
  uint16_t proven_tx;  /* the last in order that was proven */
  nm_channel_out *out; /* oldest first */
  nm_channel_out *out_last;
  uint32_t out_count;
  nm_channel_in *in; /* ahead of next_rx, nearest first */
  uint32_t in_count;
  uint64_t proof_rtt_us; /* smoothed; 0: not measured */
  uint64_t proof_var_us;
  uint64_t shrunk_us;    /* when an early repetition last shrank the window */
  uint64_t late_us;      /* how late proofs are */
  uint32_t punctual;     /* messages since the peer repeated one */
  nm_channel_late *late; /* NM_CHANNEL_LATE_MAX of them, or NULL; by due_us */
  uint32_t late_count;
  nm_channel_taken taken[NM_CHANNEL_TAKEN]; /* by sequence number */
  bool all_types;
  uint16_t *types; /* registered ones, ascending */
  uint32_t type_count;
  uint32_t type_cap;
  nm_channel_counters counters;
} nm_channel;

/* Opens |channel| over |outlet|, which is copied, on a link with |rtt_us| (0:
 * not known) and |link_mdu| bytes per packet. With |all_types| messages of
 * every type below 0xF000 are delivered, else those that are registered. */
void nm_channel_init(nm_channel *channel, const nm_mem *mem,
                     const nm_channel_outlet *outlet, uint64_t rtt_us,
                     size_t link_mdu, bool all_types);
/* Ends it: outstanding messages end undelivered, what waits for others is
 * discarded. Its figures can still be read. Quiet on a closed one. */
void nm_channel_close(nm_channel *channel);
/* The link's RTT is now |rtt_us|. */
void nm_channel_set_rtt(nm_channel *channel, uint64_t rtt_us);

/* Registers a type to be received. NM_E(RESERVED) from 0xF000 on, NM_E(LIMIT)
 * above NM_CHANNEL_TYPES_MAX, NM_E(MEMORY). Quiet when it is registered. */
int nm_channel_register(nm_channel *channel, uint16_t msgtype);
bool nm_channel_registered(const nm_channel *channel, uint16_t msgtype);

/* How many messages can be sent now. */
uint32_t nm_channel_room(const nm_channel *channel);
/* Sends a message whose payload is |count| |parts| one after the other; |owner|
 * comes back when it ends. NM_E(STATE) when closed, NM_E(RESERVED) for a
 * reserved type other than stream data, NM_E(TOO_LARGE) above the MDU,
 * NM_E(LIMIT) when the window is full, NM_E(MEMORY), errors of outlet.send;
 * then no sequence number was used. |sequence| may be NULL. */
int nm_channel_send(nm_channel *channel, uint16_t msgtype, const nm_span *parts,
                    size_t count, void *owner, uint16_t *sequence,
                    uint64_t now_us);
/* Whether |key| is a packet of an outstanding message. */
bool nm_channel_awaits(const nm_channel *channel, const nm_packet_hash *key);
/* The packet |key| was proven. False when it is nobody's. */
bool nm_channel_proven(nm_channel *channel, const nm_packet_hash *key,
                       uint64_t now_us);
/* A packet |key| came with |plaintext|. NM_DROP_LINK_PAYLOAD, DUPLICATE (proven
 * again), CHANNEL_WINDOW, NO_MEMORY, what outlet.accept says. */
nm_drop nm_channel_receive(nm_channel *channel, const nm_packet_hash *key,
                           nm_span plaintext, uint64_t now_us);

/* When nm_channel_tick is wanted; UINT64_MAX: never. */
uint64_t nm_channel_deadline(const nm_channel *channel);
/* Repeats and proves what is due. NM_E(TIMEOUT) when a message had all its
 * tries: the owner closes the link. */
int nm_channel_tick(nm_channel *channel, uint64_t now_us);
/* How long try number |tries| (from 1) of a message lasts now. */
uint64_t nm_channel_try_us(const nm_channel *channel, uint32_t tries);

/* The outstanding messages, oldest first. Returns how many there are; at most
 * |cap| are written. */
size_t nm_channel_sent_ring(const nm_channel *channel, nm_channel_sent *ring,
                            size_t cap);
/* The sequence numbers that wait for others, nearest first. */
size_t nm_channel_ahead_ring(const nm_channel *channel, uint16_t *ring,
                             size_t cap);

#endif
