/* Words of the engine: clocks, ids, modes, roles, states, drop reasons.
 */
#ifndef NM_STACK_TYPES_H
#define NM_STACK_TYPES_H

#include "base/bytes.h"
#include "wire/constants.h"

/* Two clocks: timers use the first, wire and files the second. A step of the
 * wall clock kills no link and makes no announce stale. */
typedef struct nm_now {
  uint64_t mono_us;
  int64_t unix_us;
} nm_now;

/* Ids are handed out by one engine, never reused, and 0 means none. */
typedef uint32_t nm_iface_id;
typedef uint64_t nm_op_id;    /* an operation with exactly one terminal event */
typedef uint64_t nm_link_ref; /* a link object, also after it closed */
typedef uint64_t nm_job_id;
typedef uint64_t nm_token_id;  /* something held that waits for a decision */
typedef uint64_t nm_input_seq; /* number of an input, key into the recorder */

/* Interface modes, link, receipt and path states, destination types, proof
 * strategies and request policies are the codes of wire/constants.h:
 * NM_IF_FULL, NM_LINK_ACTIVE, NM_RECEIPT_SENT, NM_PATH_UNKNOWN, NM_SINGLE,
 * NM_PROVE_ALL, NM_ALLOW_LIST, ... */
typedef uint8_t nm_iface_mode;
typedef uint8_t nm_link_state;
typedef uint8_t nm_receipt_state;
typedef uint8_t nm_path_state;
typedef uint8_t nm_dest_type;
typedef uint8_t nm_prove;
typedef uint8_t nm_allow;

/* What the other end of an interface is. Packets across a local socket do not
 * count a hop in either direction (RNS 1, 8.12.2). */
typedef enum nm_iface_role {
  NM_ROLE_ORDINARY,
  NM_ROLE_LOCAL_CLIENT,     /* a process attached to this shared instance */
  NM_ROLE_SHARED_CONNECTION /* this process is attached to one */
} nm_iface_role;

/* What NM_EVENT_IFACE says in `state`. */
typedef enum nm_iface_change {
  NM_IFACE_ADDED,
  NM_IFACE_CHANGED,
  NM_IFACE_ONLINE,
  NM_IFACE_OFFLINE,
  NM_IFACE_REMOVED
} nm_iface_change;

/* Why a link ended. The first three are upstream's numbers (RNS 2, 1.8). */
typedef enum nm_close_reason {
  NM_CLOSE_NONE = 0,
  NM_CLOSE_TIMEOUT = NM_LINK_TIMEOUT,
  NM_CLOSE_INITIATOR = NM_LINK_INITIATOR_CLOSED,
  NM_CLOSE_DESTINATION = NM_LINK_DESTINATION_CLOSED,
  NM_CLOSE_NO_PATH,    /* no route when it was opened */
  NM_CLOSE_IFACE_GONE, /* its interface was removed or lost its peer */
  NM_CLOSE_PROTOCOL,   /* the peer broke a rule that ends links */
  NM_CLOSE_BLACKHOLED, /* the peer identified as a blackholed identity */
  NM_CLOSE_REFUSED,    /* the proof offered more than was asked for */
  NM_CLOSE_NO_MEMORY,
  NM_CLOSE_SHUTDOWN, /* the engine was closed */
  NM_CLOSE_CHANNEL   /* a channel message was not proven in five tries */
} nm_close_reason;

/* Where an operation failed, for errors that say so. */
typedef enum nm_stage {
  NM_STAGE_NONE,
  NM_STAGE_PATH,     /* no path, or none in time */
  NM_STAGE_IDENTITY, /* the destination's keys are not known */
  NM_STAGE_LINK,     /* link establishment, or the link ended */
  NM_STAGE_SEND,     /* no interface took the packet */
  NM_STAGE_PROOF,    /* sent, not proven in time */
  NM_STAGE_REQUEST,  /* request sent, no response in time */
  NM_STAGE_HANDLER,  /* the responder's handler failed (netmesh peers only) */
  NM_STAGE_TRANSFER, /* a resource did not complete */
  NM_STAGE_REFUSED,  /* the peer said no */
  NM_STAGE_STORE,    /* durable storage failed */
  NM_STAGE_CANCELLED
} nm_stage;

/* X(name, text): every reason for which a packet is not handled. Each is
 * counted per interface and stands in the flight recorder. */
#define NM_DROP_LIST(X)                                                        \
  X(IFACE_UNKNOWN, "interface is not registered")                              \
  X(IFACE_OFFLINE, "interface is offline, paused or send-only")                \
  X(RUNT, "shorter than the shortest packet")                                  \
  X(OVERSIZE, "longer than the interface allows")                              \
  X(IFAC_UNEXPECTED, "access code on an interface without one")                \
  X(IFAC_MISSING, "no access code on an interface that demands one")           \
  X(IFAC_SHORT, "shorter than its access code")                                \
  X(IFAC_WRONG, "access code is wrong")                                        \
  X(MALFORMED, "header is malformed")                                          \
  X(HOPS, "too many hops")                                                     \
  X(EMPTY, "packet has no data")                                               \
  X(NOT_NEXT_HOP, "transport id is another node's")                            \
  X(PLAIN_ANNOUNCE, "announce of a PLAIN or GROUP destination")                \
  X(PLAIN_HOPS, "PLAIN or GROUP packet from beyond the neighbour")             \
  X(DUPLICATE, "packet was seen before")                                       \
  X(ANNOUNCE_SIZE, "announce is too long")                                     \
  X(ANNOUNCE_MALFORMED, "announce is malformed")                               \
  X(ANNOUNCE_SIGNATURE, "announce signature is wrong")                         \
  X(ANNOUNCE_DESTINATION, "announced keys do not make the destination")        \
  X(ANNOUNCE_KEY_MISMATCH, "destination is known with another key")            \
  X(ANNOUNCE_BLACKHOLED, "announced identity is blackholed")                   \
  X(ANNOUNCE_LOCAL, "announce of an own destination")                          \
  X(ANNOUNCE_STALE, "announce is older than the known path")                   \
  X(ANNOUNCE_REPLAY, "announce was accepted before")                           \
  X(ANNOUNCE_WORSE, "announce offers no better path")                          \
  X(NO_DESTINATION, "no such destination here")                                \
  X(WRONG_TYPE, "destination has another type")                                \
  X(NOT_ACCEPTING, "destination does not accept this")                         \
  X(DECRYPT, "payload does not decrypt")                                       \
  X(RATCHET_REQUIRED, "payload is not for an enforced ratchet")                \
  X(NO_LINK, "no such link")                                                   \
  X(LINK_IFACE, "link packet on another interface than the link's")            \
  X(LINK_STATE, "link is not in a state for this packet")                      \
  X(LINK_REQUEST_MALFORMED, "link request is malformed")                       \
  X(LINK_PROOF_MALFORMED, "link proof is malformed")                           \
  X(LINK_PROOF_SIGNATURE, "link proof signature is wrong")                     \
  X(LINK_PROOF_MODE, "link proof names another mode or a larger MTU")          \
  X(LINK_PROOF_HOPS, "link proof has an unexpected hop count")                 \
  X(LINK_PAYLOAD, "link payload breaks its format")                            \
  X(PROOF_UNKNOWN, "proof matches no outstanding packet")                      \
  X(PROOF_LENGTH, "proof has an impossible length")                            \
  X(PROOF_SIGNATURE, "proof signature is wrong")                               \
  X(REQUEST_UNKNOWN, "response matches no outstanding request")                \
  X(REQUEST_PATH, "no handler for the request path")                           \
  X(REQUEST_POLICY, "request is not allowed for this peer")                    \
  X(REQUEST_SIZE, "request or response exceeds its limit")                     \
  X(RESOURCE_MALFORMED, "resource packet is malformed")                        \
  X(RESOURCE_UNKNOWN, "resource packet matches no transfer")                   \
  X(RESOURCE_REFUSED, "resource was refused")                                  \
  X(RESOURCE_PART, "resource part matches nothing awaited")                    \
  X(CHANNEL_CLOSED, "link has no open channel")                                \
  X(CHANNEL_WINDOW, "channel message is beyond the window")                    \
  X(PATH_REQUEST_MALFORMED, "path request is malformed")                       \
  X(PATH_REQUEST_TAGLESS, "path request has no tag")                           \
  X(PATH_REQUEST_SEEN, "path request was seen before")                         \
  X(PATH_REQUEST_UNKNOWN, "path request for an unknown destination")           \
  X(PROTOCOL_UNSUPPORTED, "context has no handler here")                       \
  X(NO_CREDIT, "the application has no room for it")                           \
  X(JOBS_FULL, "too much work is waiting")                                     \
  X(JOBS_SHARE, "this peer has too much work waiting")                         \
  X(QUEUE_FULL, "output queue is full")                                        \
  X(NO_MEMORY, "out of memory")                                                \
  X(SHUTDOWN, "engine is closing")                                             \
  X(PATH_REQUEST_NO_ANSWER, "path request that must not be answered here")     \
  X(PATH_REQUEST_LIMITED, "too many path requests on this interface")          \
  X(ANNOUNCE_QUEUE, "queue of announces for this interface is full")           \
  X(ANNOUNCE_EXPIRED, "announce waited too long")                              \
  X(LINK_UNPROVEN, "transported link has not been proven")                     \
  X(LINK_NOT_OURS, "link packet is not this node's to carry")                  \
  X(PROOF_IFACE, "proof came back another way than its packet went")           \
  X(NOT_FORWARDED, "next interface did not take it")                           \
  X(TUNNEL_MALFORMED, "tunnel synthesis is malformed")                         \
  X(TUNNEL_SIGNATURE, "tunnel synthesis has a wrong signature")                \
  X(RESOURCE_SEGMENT, "resource segment does not continue its resource")       \
  X(RESOURCE_MEMORY, "incoming resources hold too much memory")                \
  X(ANNOUNCES_FULL, "too many announces wait for their check")                 \
  X(ANNOUNCES_SHARE, "this interface has too many announces waiting")

typedef enum nm_drop {
  NM_DROP_NONE = 0,
#define NM_DROP_ENUM(name, text) NM_DROP_##name,
  NM_DROP_LIST(NM_DROP_ENUM)
#undef NM_DROP_ENUM
      NM_DROP_COUNT
} nm_drop;

/* "DUPLICATE", or "NONE". Never NULL. */
const char *nm_drop_name(nm_drop reason);
/* The sentence of |reason|. Never NULL. */
const char *nm_drop_text(nm_drop reason);

/* What became of one input. */
typedef struct nm_verdict {
  nm_input_seq seq; /* key into the flight recorder */
  nm_drop drop;     /* NM_DROP_NONE: accepted so far */
  bool pending;     /* a job decides; the recorder has the final word */
  bool hashed;      /* `hash` is set */
  bool remembered;  /* the hash is in the duplicate filter now */
  nm_packet_hash hash;
} nm_verdict;

#endif
