/* When an outgoing message is tried again, what its next attempt does, and how
 * long its proof may take (LXMF 4.6): pure functions of bit rates and counters.
 * Times are microseconds.
 */
#ifndef NM_WIRE_LXMF_TIMING_H
#define NM_WIRE_LXMF_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define NM_LXMF_RETRY_WAIT_US 10000000u
#define NM_LXMF_PATH_WAIT_US 7000000u
#define NM_LXMF_PATH_DEBOUNCE_US 60000000u
#define NM_LXMF_PENDING_REDISCOVERY_US 500000u
#define NM_LXMF_SLOW_BITRATE 2000u
#define NM_LXMF_ATTEMPTS_MAX 5u
#define NM_LXMF_LINK_INACTIVITY_US 600000000u
#define NM_LXMF_NODE_LINK_INACTIVITY_US 180000000u

/* What the slowest interface that is online means for every wait. */
typedef struct nm_lxmf_medium {
  uint64_t timeout_us;       /* M; 0: no bit rate is known */
  uint64_t path_wait_us;     /* W: for the answer to a path request */
  uint64_t repeat_window_us; /* in which a path request is not repeated */
  bool slow;                 /* below NM_LXMF_SLOW_BITRATE */
} nm_lxmf_medium;

/* |lowest| bit/s of all interfaces that are online, 0: unknown. */
void nm_lxmf_medium_of(uint64_t lowest, nm_lxmf_medium *medium);

/* Whether a path may be asked for |since_us| after the last request for the
 * same destination, and whether that one may still be answered. */
bool nm_lxmf_path_request_due(const nm_lxmf_medium *medium, uint64_t since_us);
bool nm_lxmf_path_request_pending(const nm_lxmf_medium *medium,
                                  uint64_t since_us);

/* T(dest): the round trip over the next hop's |bitrate|, 0: it has none. */
uint64_t nm_lxmf_round_trip_us(uint64_t bitrate);
/* Whether a path with that round trip is a slow one. */
bool nm_lxmf_is_slow_path(uint64_t round_trip_us);

typedef struct nm_lxmf_attempt {
  uint64_t round_trip_us;  /* T of the target, or M after a path request */
  bool after_path_request; /* else after sending or opening a link */
  uint32_t attempts;       /* the one being scheduled included */
  uint32_t jitter;         /* random: 0 to UINT32_MAX stand for 0 to m */
} nm_lxmf_attempt;

typedef struct nm_lxmf_schedule {
  uint64_t wait_us;            /* until the next attempt */
  uint64_t jitter_max_us;      /* m, or 0 on fast media */
  uint32_t attempts_max;       /* L */
  uint64_t receipt_timeout_us; /* 0: the default of the stack */
} nm_lxmf_schedule;

void nm_lxmf_schedule_attempt(const nm_lxmf_attempt *attempt,
                              nm_lxmf_schedule *schedule);

/* Where a message stands whose next attempt is due. */
typedef struct nm_lxmf_standing {
  uint32_t attempts;     /* made; over a link this one included */
  uint32_t attempts_max; /* L */
  bool has_path;
  bool sent_on_path; /* its last packet; not for links */
} nm_lxmf_standing;

typedef enum nm_lxmf_step {
  NM_LXMF_STEP_FAIL,       /* the attempts are used up */
  NM_LXMF_STEP_PATH,       /* asks for a path */
  NM_LXMF_STEP_REDISCOVER, /* drops the path and asks for another */
  NM_LXMF_STEP_SEND,       /* sends the packet */
  NM_LXMF_STEP_LINK        /* opens a link */
} nm_lxmf_step;

/* OPPORTUNISTIC: what a single packet does. */
nm_lxmf_step nm_lxmf_packet_step(const nm_lxmf_standing *standing);
/* DIRECT and PROPAGATED without a link. */
nm_lxmf_step nm_lxmf_link_step(const nm_lxmf_standing *standing);

#endif
