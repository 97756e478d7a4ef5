/* The decisions of the protocol as pure functions: numbers in, a number or a
 * verdict out. No state, no clock. Times are seconds as doubles; an unknown
 * bitrate or round-trip time is 0 or less.
 */
#ifndef NM_WIRE_DECISIONS_H
#define NM_WIRE_DECISIONS_H

#include "base/bytes.h"
#include "base/status.h"
#include "wire/constants.h"

/* ------------------------------------------------------------------ sizes */

/* The HW MTU of an automatic interface at |bitrate| bit/s; 0: none, which
 * means no limit (RNS 1, 7.3). */
uint32_t nm_mtu_for_bitrate(double bitrate);

/* Plaintext bytes of one packet on a link with |mtu| (RNS 2, 1.11); 0 when not
 * even a header fits. */
size_t nm_link_mdu(size_t mtu);

/* Interface types (RNS 1, 7.3). X(name, text) */
#define NM_INTERFACE_LIST(X)                                                   \
  X(TCP, "tcp")                                                                \
  X(BACKBONE, "backbone")                                                      \
  X(LOCAL, "local")                                                            \
  X(UDP, "udp")                                                                \
  X(AUTO, "auto")                                                              \
  X(I2P, "i2p")                                                                \
  X(PIPE, "pipe")                                                              \
  X(SERIAL, "serial")                                                          \
  X(KISS, "kiss")                                                              \
  X(AX25, "ax25")                                                              \
  X(RNODE, "rnode")                                                            \
  X(WEAVE, "weave")

typedef enum nm_interface_type {
#define NM_INTERFACE_ENUM(name, text) NM_INTERFACE_##name,
  NM_INTERFACE_LIST(NM_INTERFACE_ENUM)
#undef NM_INTERFACE_ENUM
      NM_INTERFACE_COUNT
} nm_interface_type;

typedef enum nm_mtu_mode {
  NM_MTU_NONE, /* never raises a link's MTU above 500 */
  NM_MTU_AUTO, /* follows the bitrate */
  NM_MTU_FIXED
} nm_mtu_mode;

typedef struct nm_interface_defaults {
  const char *name;
  uint32_t hw_mtu;          /* at the start, before an automatic one is set */
  uint32_t hw_mtu_adjusted; /* after that, at the assumed bitrate */
  nm_mtu_mode mtu_mode;
  double bitrate;     /* assumed bit/s; 0: the port's speed or from the radio */
  uint8_t ifac_bytes; /* 0: never uses access codes */
  bool ingress_limit; /* announces are limited on arrival */
} nm_interface_defaults;

/* NULL for a type that does not exist. */
const nm_interface_defaults *nm_interface_defaults_of(nm_interface_type type);
const nm_interface_defaults *nm_interface_defaults_named(nm_span name);

/* Bit/s of a LoRa radio from spreading factor (5..12), coding rate (5..8) and
 * bandwidth in Hz; 0 for others (RNS 2, 5.13). */
double nm_rnode_bitrate(uint32_t sf, uint32_t cr, double bandwidth);

/* -------------------------------------------------------------- time-outs */

/* 500 * 8 / bitrate + 6, or 6 when it is unknown. */
double nm_first_hop_timeout(double bitrate);
/* Of a packet to |hops| hops (128: unknown) whose next hop has |bitrate|
 * (RNS 1, 4.9). */
double nm_receipt_timeout(uint32_t hops, double bitrate);
/* max(rtt * 6, 0.005). */
double nm_link_receipt_timeout(double rtt);
/* Initiator: first hop + 6 * max(1, hops). Responder: 6 * max(1, hops) + 360
 * (RNS 2, 1.5, 1.8). */
double nm_establishment_timeout(uint32_t hops, double bitrate);
double nm_responder_timeout(uint32_t hops);
/* How long a relay waits for a link's proof (RNS 1, 8.10.1). */
double nm_relayed_proof_timeout(uint32_t path_hops, double bitrate);
/* rtt * 6 + 10 * 1.125. */
double nm_request_timeout(double rtt);
/* Of try number |tries| (from 1) with |ring| envelopes outstanding
 * (RNS 2, 4.2). */
double nm_channel_timeout(double rtt, uint32_t tries, uint32_t ring);
/* clamp(rtt * 360 / 1.75, 5, 360), and twice that; 360 and 720 while the RTT is
 * not known (RNS 2, 1.9). */
double nm_keepalive_interval(double rtt);
double nm_stale_time(double rtt);
/* 2 * 4000 / max(bitrate, 5) + 6, or 0 when no bitrate is known; and the
 * time-out of a discovery path request, max(15, that) (RNS 1, 8.9.3). */
double nm_medium_path_timeout(double lowest_bitrate);
double nm_discovery_timeout(double lowest_bitrate);

/* ---------------------------------------------------------------- windows */

/* A channel's window and what moves it (RNS 2, 4.2). */
typedef struct nm_channel_window {
  uint32_t window;
  uint32_t window_max;
  uint32_t window_min;
  uint32_t flexibility;
  uint32_t fast_rounds;
  uint32_t medium_rounds;
} nm_channel_window;

/* At opening on a link with |rtt|. */
nm_channel_window nm_channel_window_open(double rtt);
/* After a delivery, and after a time-out. */
nm_channel_window nm_channel_window_delivered(nm_channel_window w, double rtt);
nm_channel_window nm_channel_window_timed_out(nm_channel_window w);

/* ------------------------------------------------------------------ paths */

/* Seconds of life of a path learnt on an interface in |mode|. */
double nm_path_lifetime(int mode);

/* Seconds until the next relayed announce may go out after one of |bytes|
 * bytes: (8 * bytes / bitrate) / cap. 0 when bitrate or cap is unknown. */
double nm_announce_cap_delay(size_t bytes, double bitrate, double cap);

/* The last five bytes of a random blob. */
uint64_t nm_blob_emitted(const uint8_t blob[NM_RANDOM_BLOB_SIZE]);

/* What an announce meets in the path table. */
typedef struct nm_announce_situation {
  bool has_path;
  uint32_t path_hops;
  bool path_expired; /* now >= the entry's threshold */
  bool path_unresponsive;
  const uint8_t *path_blobs; /* path_blob_count * 10 bytes, oldest first */
  size_t path_blob_count;
  int path_gravity;    /* of the interface of the path */
  uint32_t hops;       /* of the announce, after its increment */
  const uint8_t *blob; /* 10 bytes */
  int gravity;         /* of the receiving interface */
} nm_announce_situation;

typedef enum nm_announce_decision {
  NM_ANNOUNCE_REFUSED,
  NM_ANNOUNCE_NEW,         /* no path yet */
  NM_ANNOUNCE_NEWER,       /* not farther, and newer */
  NM_ANNOUNCE_GRAVITY,     /* not farther, same time, stronger interface */
  NM_ANNOUNCE_EXPIRED,     /* farther, but the path is past its threshold */
  NM_ANNOUNCE_FARTHER,     /* farther, but newer than every known blob */
  NM_ANNOUNCE_UNRESPONSIVE /* farther, same time, the path does not answer */
} nm_announce_decision;

/* Whether an announce replaces the path (RNS 1, 8.5.1 step 8). Linear in the
 * number of blobs. */
nm_announce_decision nm_announce_decide(const nm_announce_situation *s);

/* One of several ways to a destination. */
typedef struct nm_way_choice {
  uint64_t emitted; /* of the newest announce that came by it */
  uint32_t hops;
  int gravity; /* of its interface */
  double bitrate;
} nm_way_choice;

/* Whether |a| is tried before |b| when the way in use does not work: what a
 * newer announce came by, then the shorter, the interface with more gravity,
 * the faster one. False for equal ones. */
bool nm_way_preferred(const nm_way_choice *a, const nm_way_choice *b);

/* An interface's option that may be left unset. */
typedef enum nm_tristate { NM_UNSET, NM_NO, NM_YES } nm_tristate;

/* A relayed or own announce on its way to one output interface. */
typedef struct nm_propagation {
  int out_mode;    /* NM_IF_... of the output interface */
  int source_mode; /* of the interface of the path; 0: it has none */
  bool local;      /* the destination is registered in this process */
  bool has_path;
  bool out_from_internal;         /* its announces_from_internal */
  nm_tristate source_to_internal; /* the source's announces_to_internal */
  uint32_t hops;
} nm_propagation;

typedef enum nm_propagation_verdict {
  NM_PROPAGATE_BLOCK,
  NM_PROPAGATE_ALLOW,
  NM_PROPAGATE_CAP /* allowed within the announce cap */
} nm_propagation_verdict;

/* The rules of RNS 1, 8.7: the first matching row decides. */
nm_propagation_verdict nm_announce_propagation(const nm_propagation *p);

/* Whether a path request for an unknown destination on an interface in |mode|
 * (with the recursive option or not) makes a transport node search at all, and
 * whether it searches on an interface in |out_mode| (RNS 1, 8.9.4 case 4). */
bool nm_path_search_starts(int mode, bool recursive);
bool nm_path_search_uses(int mode, bool recursive, int out_mode);

/* The record of one destination's announces on one interface (RNS 1, 5.8). */
typedef struct nm_announce_rate {
  bool known;
  double last;
  double blocked_until;
  uint32_t violations;
} nm_announce_rate;

/* Takes an announce at |now| into |rate|; true when its rebroadcast is
 * blocked. Times in seconds. */
bool nm_announce_rate_blocks(nm_announce_rate *rate, double now, double target,
                             uint32_t grace, double penalty);

/* The entry of a transported link, its interfaces numbered by the caller. */
typedef struct nm_link_route {
  uint32_t next_hop_interface;
  uint32_t received_interface;
  uint32_t remaining_hops;
  uint32_t taken_hops;
  bool validated;
} nm_link_route;

typedef enum nm_link_forwarding {
  NM_LINK_FORWARD_NEXT,     /* on the next-hop interface */
  NM_LINK_FORWARD_RECEIVED, /* on the interface of the request */
  NM_LINK_FORWARD_NOT_OURS, /* not our turn: drop, do not remember the hash */
  NM_LINK_FORWARD_UNPROVEN  /* not validated: a violation; drop, do not
                               remember the hash */
} nm_link_forwarding;

/* Where a packet of a transported link goes that came in on |interface| with
 * |hops| after the increment (RNS 1, 8.10.3). */
nm_link_forwarding nm_link_forward(const nm_link_route *route,
                                   uint32_t interface, uint32_t hops);

/* -------------------------------------------------- automatic discovery */

#define NM_GROUP_ADDRESS_SIZE 16
#define NM_GROUP_TEXT_MAX 40 /* with its terminating zero */

/* The multicast address of |group_id| (RNS 2, 5.7). |scope| is one of '2', '4',
 * '5', '8', 'e', |address_type| '0' or '1': NM_E(VALUE) for others. */
int nm_group_address(nm_span group_id, char scope, char address_type,
                     uint8_t out[NM_GROUP_ADDRESS_SIZE]);
/* The same as the text that peers form; zero-terminated. */
int nm_group_text(nm_span group_id, char scope, char address_type,
                  char out[NM_GROUP_TEXT_MAX]);

/* H(group id | link-local address text): the whole datagram. */
void nm_discovery_token(nm_span group_id, nm_span link_local,
                        uint8_t out[NM_HASH_SIZE]);

/* Removes the scope from a link-local address text: "%eth0" at its end, and
 * the number in its second group. Writes at most |in.len| bytes to |out| and
 * returns how many. */
size_t nm_descope(nm_span in, char *out);

#endif
