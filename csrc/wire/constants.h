/* Sizes, codes, limits and times of the Reticulum wire, each once, with a unit
 * and a sentence: the lists below make both the C names (NM_MTU) and the table
 * that the Python package shows (RNS 1, 0.1; RNS 2, 0 to 5).
 *
 * Sizes that belong to a lower room or to one codec (hashes and keys, tokens,
 * resources, channels, streams) are defined there and appear in the table too.
 */
#ifndef NM_WIRE_CONSTANTS_H
#define NM_WIRE_CONSTANTS_H

#include "base/bytes.h"

/* X(name, value, unit, text). Whole numbers. */
#define NM_CONSTANT_SIZES(X)                                                   \
  X(MTU, 500, "bytes", "largest packet before the access code")                \
  X(HEADER_1_SIZE, 19, "bytes", "header without transport id")                 \
  X(HEADER_2_SIZE, 35, "bytes", "header with transport id")                    \
  X(PACKET_MIN, 20, "bytes", "smallest valid packet, one byte of data")        \
  X(IFAC_SIZE_MIN, 1, "bytes", "shortest interface access code")               \
  X(IFAC_SIZE_MAX, 64, "bytes", "longest interface access code")               \
  X(MDU, 464, "bytes", "data that fits a packet with either header")           \
  X(PLAIN_MDU, 464, "bytes", "data of a PLAIN packet")                         \
  X(ENCRYPTED_MDU, 383, "bytes", "plaintext of a SINGLE packet")               \
  X(LINK_MDU, 431, "bytes", "plaintext of a link packet at an MTU of 500")     \
  X(TOKEN_KEY_SIZE, 64, "bytes", "token key for AES-256")                      \
  X(TOKEN_KEY_SIZE_128, 32, "bytes", "token key for AES-128")                  \
  X(RATCHET_SIZE, 32, "bytes", "ratchet public key")                           \
  X(RANDOM_BLOB_SIZE, 10, "bytes", "random hash of an announce")               \
  X(ANNOUNCE_MIN, 148, "bytes", "announce data without ratchet and app data")  \
  X(ANNOUNCE_MIN_RATCHET, 180, "bytes", "announce data with ratchet")          \
  X(ANNOUNCE_APP_DATA_MAX, 333, "bytes", "app data, direct neighbours only")   \
  X(ANNOUNCE_APP_DATA_RELAYED, 317, "bytes", "app data that relays can pass")  \
  X(PROOF_IMPLICIT_SIZE, 64, "bytes", "packet proof: signature")               \
  X(PROOF_EXPLICIT_SIZE, 96, "bytes", "packet proof: hash and signature")      \
  X(SIGNALLING_SIZE, 3, "bytes", "link mode and MTU")                          \
  X(LINK_REQUEST_SIZE, 64, "bytes", "link request without signalling")         \
  X(LINK_PROOF_SIZE, 96, "bytes", "link request proof without signalling")     \
  X(LINK_MTU_MAX, 0x1fffff, "bytes", "largest link MTU that can be signalled") \
  X(LINK_IDENTIFY_SIZE, 128, "bytes", "identify payload")                      \
  X(TUNNEL_SIZE, 176, "bytes", "tunnel synthesis payload")                     \
  X(TAG_SIZE, 16, "bytes", "tag of a path request")                            \
  X(LOCAL_FRAME_MAX, 262144, "bytes", "longest frame on the local socket")

#define NM_CONSTANT_CODES(X)                                                   \
  X(HEADER_1, 0, "code", "header type: no transport id")                       \
  X(HEADER_2, 1, "code", "header type: with transport id")                     \
  X(BROADCAST, 0, "code", "transport type: to all")                            \
  X(TRANSPORT, 1, "code", "transport type: to the named transport node")       \
  X(SINGLE, 0, "code", "destination type: one identity")                       \
  X(GROUP, 1, "code", "destination type: shared key")                          \
  X(PLAIN, 2, "code", "destination type: not encrypted")                       \
  X(LINK, 3, "code", "destination type: a link id")                            \
  X(DATA, 0, "code", "packet type: data")                                      \
  X(ANNOUNCE, 1, "code", "packet type: announce")                              \
  X(LINKREQUEST, 2, "code", "packet type: link request")                       \
  X(PROOF, 3, "code", "packet type: proof")                                    \
  X(PACKET_FLAG_IFAC, 0x80, "mask", "flags byte: access code present")         \
  X(PACKET_FLAG_HEADER_2, 0x40, "mask", "flags byte: header type")             \
  X(PACKET_FLAG_CONTEXT, 0x20, "mask", "flags byte: context flag")             \
  X(PACKET_FLAG_TRANSPORT, 0x10, "mask", "flags byte: transport type")         \
  X(DIRECTION_IN, 0x11, "code", "destination that receives; local only")       \
  X(DIRECTION_OUT, 0x12, "code", "destination that is sent to; local only")    \
  X(PROVE_NONE, 0x21, "code", "proof strategy: never")                         \
  X(PROVE_APP, 0x22, "code", "proof strategy: ask the program")                \
  X(PROVE_ALL, 0x23, "code", "proof strategy: always")                         \
  X(ALLOW_NONE, 0, "code", "request policy: nobody")                           \
  X(ALLOW_ALL, 1, "code", "request policy: everybody")                         \
  X(ALLOW_LIST, 2, "code", "request policy: listed identities")                \
  X(CONTEXT_NONE, 0x00, "code", "context: plain data or proof")                \
  X(CONTEXT_RESOURCE, 0x01, "code", "context: resource part")                  \
  X(CONTEXT_RESOURCE_ADV, 0x02, "code", "context: resource advertisement")     \
  X(CONTEXT_RESOURCE_REQ, 0x03, "code", "context: part request")               \
  X(CONTEXT_RESOURCE_HMU, 0x04, "code", "context: hashmap update")             \
  X(CONTEXT_RESOURCE_PRF, 0x05, "code", "context: resource proof")             \
  X(CONTEXT_RESOURCE_ICL, 0x06, "code", "context: cancelled by the sender")    \
  X(CONTEXT_RESOURCE_RCL, 0x07, "code", "context: cancelled by the receiver")  \
  X(CONTEXT_CACHE_REQUEST, 0x08, "code", "context: ask for a cached packet")   \
  X(CONTEXT_REQUEST, 0x09, "code", "context: request")                         \
  X(CONTEXT_RESPONSE, 0x0a, "code", "context: response")                       \
  X(CONTEXT_PATH_RESPONSE, 0x0b, "code", "context: announce as an answer")     \
  X(CONTEXT_COMMAND, 0x0c, "code", "context: reserved")                        \
  X(CONTEXT_COMMAND_STATUS, 0x0d, "code", "context: reserved")                 \
  X(CONTEXT_CHANNEL, 0x0e, "code", "context: channel envelope")                \
  X(CONTEXT_KEEPALIVE, 0xfa, "code", "context: keepalive")                     \
  X(CONTEXT_LINKIDENTIFY, 0xfb, "code", "context: initiator identification")   \
  X(CONTEXT_LINKCLOSE, 0xfc, "code", "context: link teardown")                 \
  X(CONTEXT_LINKPROOF, 0xfd, "code", "context: reserved")                      \
  X(CONTEXT_LRRTT, 0xfe, "code", "context: round-trip time of a link")         \
  X(CONTEXT_LRPROOF, 0xff, "code", "context: link request proof")              \
  X(MODE_AES128_CBC, 0, "code", "link mode: defined, not enabled")             \
  X(MODE_AES256_CBC, 1, "code", "link mode: the one enabled")                  \
  X(MODE_AES256_GCM, 2, "code", "link mode: reserved")                         \
  X(MODE_OTP, 3, "code", "link mode: reserved")                                \
  X(KEEPALIVE_INITIATOR, 0xff, "code", "keepalive byte of the initiator")      \
  X(KEEPALIVE_RESPONDER, 0xfe, "code", "keepalive byte of the responder")      \
  X(LINK_PENDING, 0, "code", "link state: request sent")                       \
  X(LINK_HANDSHAKE, 1, "code", "link state: proof sent")                       \
  X(LINK_ACTIVE, 2, "code", "link state: in use")                              \
  X(LINK_STALE, 3, "code", "link state: silent for too long")                  \
  X(LINK_CLOSED, 4, "code", "link state: ended")                               \
  X(LINK_TIMEOUT, 1, "code", "link end: timed out")                            \
  X(LINK_INITIATOR_CLOSED, 2, "code", "link end: by the initiator")            \
  X(LINK_DESTINATION_CLOSED, 3, "code", "link end: by the destination")        \
  X(IF_FULL, 1, "code", "interface mode: full")                                \
  X(IF_POINT_TO_POINT, 2, "code", "interface mode: point to point")            \
  X(IF_ACCESS_POINT, 3, "code", "interface mode: access point")                \
  X(IF_ROAMING, 4, "code", "interface mode: roaming")                          \
  X(IF_BOUNDARY, 5, "code", "interface mode: boundary")                        \
  X(IF_GATEWAY, 6, "code", "interface mode: gateway")                          \
  X(IF_INTERNAL, 7, "code", "interface mode: internal")                        \
  X(RECEIPT_FAILED, 0, "code", "receipt: not proven in time")                  \
  X(RECEIPT_SENT, 1, "code", "receipt: waiting")                               \
  X(RECEIPT_DELIVERED, 2, "code", "receipt: proven")                           \
  X(RECEIPT_CULLED, 0xff, "code", "receipt: dropped, too many outstanding")    \
  X(REQUEST_FAILED, 0, "code", "request receipt: no response in time")         \
  X(REQUEST_SENT, 1, "code", "request receipt: waiting")                       \
  X(REQUEST_DELIVERED, 2, "code", "request receipt: request resource proven")  \
  X(REQUEST_RECEIVING, 3, "code", "request receipt: response is coming in")    \
  X(REQUEST_READY, 4, "code", "request receipt: response is there")            \
  X(PATH_UNKNOWN, 0, "code", "path state: not tried")                          \
  X(PATH_UNRESPONSIVE, 1, "code", "path state: no answer")                     \
  X(PATH_RESPONSIVE, 2, "code", "path state: answered")                        \
  X(RESOURCE_ACCEPT_NONE, 0, "code", "resource policy: refuse")                \
  X(RESOURCE_ACCEPT_APP, 1, "code", "resource policy: ask the program")        \
  X(RESOURCE_ACCEPT_ALL, 2, "code", "resource policy: accept")

#define NM_CONSTANT_LIMITS(X)                                                  \
  X(HOPS_MAX, 128, "hops", "highest count in memory; 127 on the wire")         \
  X(HOPS_UNKNOWN, 128, "hops", "reported when there is no path")               \
  X(BITRATE_MIN, 5, "bit/s", "lowest configurable bitrate")                    \
  X(ANNOUNCE_QUEUE_MAX, 4096, "entries", "queued announces per interface")     \
  X(ANNOUNCE_HELD_MAX, 256, "entries", "held announces per interface")         \
  X(RANDOM_BLOBS_MAX, 64, "entries", "random blobs kept per path")             \
  X(RATCHETS_RETAINED, 512, "entries", "own ratchets kept")                    \
  X(RECEIPTS_MAX, 1024, "entries", "outstanding receipts")                     \
  X(REBROADCASTS_LOCAL_MAX, 2, "times", "heard rebroadcasts that end ours")    \
  X(REBROADCAST_RETRIES, 1, "times", "repetitions of a rebroadcast")           \
  X(CHANNEL_WINDOW, 2, "envelopes", "channel window at the start")             \
  X(CHANNEL_WINDOW_MIN, 2, "envelopes", "smallest channel window")             \
  X(CHANNEL_WINDOW_MAX_SLOW, 5, "envelopes", "largest window, slow link")      \
  X(CHANNEL_WINDOW_MAX_MEDIUM, 12, "envelopes", "largest window, medium link") \
  X(CHANNEL_WINDOW_MAX_FAST, 48, "envelopes", "largest window, fast link")     \
  X(CHANNEL_WINDOW_MIN_MEDIUM, 5, "envelopes", "smallest window, medium link") \
  X(CHANNEL_WINDOW_MIN_FAST, 16, "envelopes", "smallest window, fast link")    \
  X(CHANNEL_WINDOW_FLEXIBILITY, 4, "envelopes", "least spread of a window")    \
  X(CHANNEL_RATE_ROUNDS, 10, "rounds", "deliveries before a faster profile")   \
  X(CHANNEL_TRIES_MAX, 5, "times", "sendings of one envelope")                 \
  X(RESOURCE_PART_FACTOR, 4, "factor", "part time-out before the first RTT")   \
  X(RESOURCE_PART_FACTOR_RTT, 2, "factor", "part time-out after it")           \
  X(RESOURCE_PROOF_FACTOR, 3, "factor", "proof time-out per RTT")              \
  X(AUTO_DISCOVERY_PORT, 29716, "port", "multicast discovery")                 \
  X(AUTO_UNICAST_PORT, 29717, "port", "unicast discovery")                     \
  X(AUTO_DATA_PORT, 42671, "port", "data of automatic interfaces")

/* X(name, value, unit, text). Times, rates and fractions. */
#define NM_CONSTANT_REALS(X)                                                   \
  X(PER_HOP_TIMEOUT, 6.0, "s", "time allowed for each hop")                    \
  X(TRAFFIC_TIMEOUT_FACTOR, 6.0, "RTT", "time-out of link receipts")           \
  X(LINK_RECEIPT_MIN, 0.005, "s", "shortest link receipt time-out")            \
  X(RESPONSE_TIME_MAX, 10.0, "s", "grace for the answer to a request")         \
  X(RESPONSE_TIME_FACTOR, 1.125, "factor", "multiplies that grace")            \
  X(KEEPALIVE_MAX, 360.0, "s", "longest keepalive, and before the RTT")        \
  X(KEEPALIVE_MIN, 5.0, "s", "shortest keepalive")                             \
  X(KEEPALIVE_RTT_MAX, 1.75, "s", "RTT at which the longest is reached")       \
  X(STALE_FACTOR, 2.0, "factor", "stale time in keepalives")                   \
  X(STALE_GRACE, 5.0, "s", "between stale and closed")                         \
  X(RESPONDER_GRACE, 360.0, "s", "added to a responder's establishment")       \
  X(CHANNEL_RTT_FAST, 0.18, "s", "RTT of a fast link, at most")                \
  X(CHANNEL_RTT_MEDIUM, 0.75, "s", "RTT of a medium link, at most")            \
  X(CHANNEL_RTT_SLOW, 1.45, "s", "above it one envelope at a time")            \
  X(RESOURCE_HMU_FACTOR, 3.5, "factor", "wait for a hashmap update")           \
  X(RESOURCE_SENDER_GRACE, 10.0, "s", "added to a sender's time-outs")         \
  X(RESOURCE_PROCESSING_GRACE, 1.0, "s", "added to an advertisement's")        \
  X(RESOURCE_RETRY_GRACE, 0.25, "s", "added to a part's time-out")             \
  X(RESOURCE_RETRY_DELAY, 0.5, "s", "added for each retry used")               \
  X(ANNOUNCE_CAP, 0.02, "fraction", "of the bitrate, for relayed announces")   \
  X(ANNOUNCE_QUEUE_LIFE, 10800.0, "s", "life of a queued announce")            \
  X(ANNOUNCE_RATE_TARGET, 3600.0, "s", "least interval on transport nodes")    \
  X(ANNOUNCE_REUSE, 30.0, "s", "an answer is reused for the same tag")         \
  X(PATH_LIFE, 604800.0, "s", "life of an unused path")                        \
  X(PATH_LIFE_ACCESS_POINT, 86400.0, "s", "the same on access points")         \
  X(PATH_LIFE_ROAMING, 21600.0, "s", "the same on roaming interfaces")         \
  X(PATH_REQUEST_TIMEOUT, 15.0, "s", "wait of a program for a path")           \
  X(PATH_REQUEST_INTERVAL, 20.0, "s", "between automatic requests")            \
  X(PATH_REQUEST_GRACE, 0.4, "s", "before answering from the table")           \
  X(PATH_REQUEST_ROAMING_GRACE, 1.5, "s", "added on roaming interfaces")       \
  X(PATH_REQUEST_IN_FLIGHT, 45.0, "s", "repetitions are batched for so long")  \
  X(REBROADCAST_JITTER, 0.5, "s", "random delay of a rebroadcast")             \
  X(REBROADCAST_DELAY, 5.0, "s", "before a rebroadcast is repeated")           \
  X(REVERSE_LIFE, 480.0, "s", "life of a reverse table entry")                 \
  X(LINK_TABLE_LIFE, 900.0, "s", "life of an idle transported link")           \
  X(TUNNEL_LIFE, 28800.0, "s", "life of a tunnel")                             \
  X(RATCHET_INTERVAL, 1800.0, "s", "between two own ratchets")                 \
  X(RATCHET_LIFE, 2592000.0, "s", "use of a received ratchet")                 \
  X(MANAGEMENT_INTERVAL, 7200.0, "s", "between management announces")

#define NM_CONSTANT_ENUM(name, value, unit, text) NM_##name = (value),
enum { NM_CONSTANT_SIZES(NM_CONSTANT_ENUM) };
enum { NM_CONSTANT_CODES(NM_CONSTANT_ENUM) };
enum { NM_CONSTANT_LIMITS(NM_CONSTANT_ENUM) };
#undef NM_CONSTANT_ENUM

#define NM_CONSTANT_REAL(name, value, unit, text)                              \
  static const double NM_##name = (value);
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
NM_CONSTANT_REALS(NM_CONSTANT_REAL)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#undef NM_CONSTANT_REAL

/* One row of the table. */
typedef struct nm_constant {
  const char *name; /* without the prefix: "MTU" */
  double value;
  int whole; /* the value is a whole number */
  const char *unit;
  const char *text;
} nm_constant;

/* All constants of the lists above and those defined elsewhere; names are
 * unique. */
extern const nm_constant nm_constants[];
extern const size_t nm_constant_count;

/* The transport's well-known PLAIN destinations (RNS 1, 3.8). */
extern const nm_destination_hash nm_path_request_address;
extern const nm_destination_hash nm_tunnel_address;

#endif
