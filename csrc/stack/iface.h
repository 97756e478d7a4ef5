/* Interfaces as the engine sees them: a name, properties, counters. What
 * carries the bytes is the driver's matter.
 */
#ifndef NM_STACK_IFACE_H
#define NM_STACK_IFACE_H

#include "stack/types.h"
#include "wire/decisions.h"
#include "wire/ifac.h"

#define NM_IFACE_NAME_MAX 127

#define NM_INGRESS_HELD_MAX 65536
/* The longest time of an nm_ingress_spec: a century. */
#define NM_INGRESS_TIME_MAX_US 3155760000000000ull

/* What counts as a burst of announces or of path requests, and what is done
 * about it (RNS 1, 8.15). Rates are per second, 0 to 1e6. */
typedef struct nm_ingress_spec {
  uint64_t new_us; /* how long an interface counts as new */
  double announce_rate_new;
  double announce_rate;
  double request_rate_new;
  double request_rate;
  uint64_t hold_us;    /* quiet time before a burst ends */
  uint64_t penalty_us; /* from its start to the first release */
  uint64_t release_us; /* between two releases, at least 1 ms */
  size_t held_max;     /* announces, at most NM_INGRESS_HELD_MAX */
} nm_ingress_spec;

/* All properties; nm_iface_spec_default fills them for a kind (RNS 1, 7.3). */
typedef struct nm_iface_spec {
  char name[NM_IFACE_NAME_MAX + 1]; /* the display string; its hash is
                                       H(name) (RNS 1, 7.6) */
  nm_iface_role role;
  nm_iface_mode mode;
  nm_mtu_mode mtu_mode;
  size_t hw_mtu;    /* 0: none; else at least 500 */
  uint64_t bitrate; /* bit/s, never 0 inside the engine: 0 means 62500 */
  bool receives;
  bool sends;
  bool online;
  bool tunnels;           /* synthesise a tunnel when it comes online */
  double announce_cap;    /* share of the bitrate, 0.02 */
  uint32_t rate_target_s; /* 0: off */
  uint32_t rate_grace;
  uint32_t rate_penalty_s;
  bool ingress_control;
  nm_ingress_spec ingress;
  double egress_limit; /* path requests passed on per second; 0: no limit */
  bool ifac_set;       /* `ifac` is in force */
  nm_ifac ifac;
  int32_t gravity;
  bool recursive_prs;
  bool announces_from_internal;
  int8_t announces_to_internal; /* -1 unset, 0, 1 */
} nm_iface_spec;

/* violations: of the protocol (RNS 1, 8.15). */
#define NM_IFACE_TALLIES(X)                                                    \
  X(rx_packets)                                                                \
  X(rx_bytes)                                                                  \
  X(tx_packets)                                                                \
  X(tx_bytes)                                                                  \
  X(announces_in)                                                              \
  X(announces_out)                                                             \
  X(path_requests_in)                                                          \
  X(path_requests_out)                                                         \
  X(announce_rx_bytes)                                                         \
  X(announce_tx_bytes)                                                         \
  X(path_request_rx_bytes)                                                     \
  X(path_request_tx_bytes)                                                     \
  X(violations)
#define NM_IFACE_TALLY_MEMBER(name) uint64_t name;

/* What every interface counts. */
typedef struct nm_iface_tally {
  NM_IFACE_TALLIES(NM_IFACE_TALLY_MEMBER)
} nm_iface_tally;

/* That, and what it dropped. */
typedef struct nm_iface_counters {
  NM_IFACE_TALLIES(NM_IFACE_TALLY_MEMBER)
  uint64_t drops[NM_DROP_COUNT];
} nm_iface_counters;

/* Fills |spec| with the defaults of |kind| ("tcp", "udp", "local", ...), full
 * mode, both directions, online. NM_E(ARGUMENT) for an unknown kind or a name
 * that is too long. */
int nm_iface_spec_default(nm_iface_spec *spec, const char *kind,
                          const char *name);

#endif
