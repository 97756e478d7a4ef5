/* Channels on links: messages in sequence, each proven by the peer (RNS 2, 4).
 * The state machine itself is channel_core.h, streams of bytes over it are
 * buffer.h.
 *
 * A link has one channel at most, and both ends must open theirs: messages that
 * come before are neither processed nor proven (CHANNEL_CLOSED), and the
 * sender's tries cover the gap. It ends with its link. When a message was tried
 * five times in vain the link closes with NM_CLOSE_CHANNEL, unless the peer is
 * heard of all the while: then it is behind, and is waited for.
 *
 * A message is accepted only with credit for its event; without, it is not
 * proven and the peer slows down. A message ahead of others leaves the last
 * credit to the one that is missing.
 */
#ifndef NM_STACK_CHANNEL_H
#define NM_STACK_CHANNEL_H

#include "stack/channel_core.h"
#include "stack/link.h"

/* Messages of one channel that wait for its window. */
#define NM_CHANNEL_WAITING_MAX 256

/* Opens the channel of an active link; quiet when it is open. With |all_types|
 * messages of all types below 0xF000 are delivered, else those registered. A
 * message of another type is an NM_EVENT_CHANNEL_DATA with status NM_E(TYPE),
 * or NM_E(RESERVED) for a system type that is not known here: it was proven and
 * stands in the sequence, so what follows is not held up by it (upstream's
 * channel stalls). NM_E(MISSING), NM_E(STATE), NM_E(MEMORY). */
int nm_engine_channel_open(nm_engine *engine, nm_link_ref link, bool all_types,
                           nm_now now);
/* Registers a type. NM_E(STATE) without an open channel, NM_E(RESERVED) from
 * 0xF000 on, NM_E(LIMIT), NM_E(MEMORY). */
int nm_engine_channel_register(nm_engine *engine, nm_link_ref link,
                               uint16_t msgtype);
/* Sends a message: an operation that ends with NM_EVENT_CHANNEL_SENT, which
 * has its state (NM_RECEIPT_DELIVERED or FAILED), sequence, tries and RTT, and
 * the window as it is then. |op| and |sequence| may be NULL; without |op| its
 * end is not told. NM_E(STATE) without an open channel, NM_E(RESERVED) for
 * reserved types but NM_CHANNEL_STREAM_DATA, NM_E(TOO_LARGE) above the
 * channel's MDU, NM_E(LIMIT) when the window is full or others wait for it:
 * NM_EVENT_CHANNEL_READY follows once when it is open again. NM_E(MEMORY),
 * errors of sending. A cancelled operation ends; its message is on its way and
 * stays in the sequence. */
int nm_engine_channel_send(nm_engine *engine, nm_link_ref link,
                           uint16_t msgtype, nm_span payload, nm_op_id *op,
                           uint16_t *sequence, nm_now now);

/* The same for a message that waits for the window when that is full, in the
 * order of the calls; |payload| gets one more reference (NULL: no bytes).
 * NM_E(LIMIT) when NM_CHANNEL_WAITING_MAX wait. A message that still waits is
 * not sent when its operation is cancelled. */
int nm_engine_channel_post(nm_engine *engine, nm_link_ref link,
                           uint16_t msgtype, nm_block *payload, nm_op_id *op,
                           nm_now now);
/* While a channel is paused nothing new that comes on it is accepted or proven:
 * the peer tries again, and nothing is lost. NM_E(STATE). */
int nm_engine_channel_pause(nm_engine *engine, nm_link_ref link, bool paused);

/* Everything readable about a channel, also after its link closed until that is
 * forgotten (E10). */
typedef struct nm_channel_info {
  bool open;
  uint32_t mdu; /* of a message */
  nm_channel_window window;
  bool paused;
  uint32_t room;        /* messages that can be sent now */
  uint32_t waiting;     /* messages that wait for room */
  uint32_t outstanding; /* sent and not proven */
  uint32_t ahead;       /* received and waiting for others */
  uint16_t next_tx;
  uint16_t next_rx;
  uint64_t rtt_us;       /* of the link */
  uint64_t proof_rtt_us; /* from sending to proof, smoothed; 0: not measured */
  uint64_t proof_var_us;
  bool all_types;
  uint32_t types;   /* registered */
  uint32_t streams; /* written to */
  uint32_t writes;  /* not ended */
  nm_channel_counters counters;
} nm_channel_info;

/* What is known of a channel by itself; the rest is zero. */
void nm_channel_describe(const nm_channel *channel, nm_channel_info *info);
/* NM_E(MISSING) when the link was forgotten or had no channel. */
int nm_engine_channel_info(const nm_engine *engine, nm_link_ref link,
                           nm_channel_info *info);
/* The rings, as nm_channel_sent_ring and nm_channel_ahead_ring give them (an
 * owner is not shown); 0 without a channel. */
size_t nm_engine_channel_sent_ring(const nm_engine *engine, nm_link_ref link,
                                   nm_channel_sent *ring, size_t cap);
size_t nm_engine_channel_ahead_ring(const nm_engine *engine, nm_link_ref link,
                                    uint16_t *ring, size_t cap);

#endif
