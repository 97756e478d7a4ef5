/* How often something comes, and whether that is a burst (RNS 1, 8.15): the
 * ingress and egress control of announces and path requests. Numbers in,
 * verdicts out; times are monotonic microseconds of the caller's.
 */
#ifndef NM_WIRE_ARRIVALS_H
#define NM_WIRE_ARRIVALS_H

#include "base/bytes.h"

#define NM_ARRIVALS_MAX 48

/* The last arrivals, oldest first from `head`. Zeroed: none yet. */
typedef struct nm_arrivals {
  uint64_t times[NM_ARRIVALS_MAX];
  uint8_t head;
  uint8_t count;
} nm_arrivals;

/* Notes one at |now_us|; the oldest of 48 goes. */
void nm_arrivals_add(nm_arrivals *arrivals, uint64_t now_us);
/* Arrivals per second: count / (now - oldest), 0 with two or fewer. A query
 * forgets the oldest one when that is more than 10 s old. */
double nm_arrivals_rate(nm_arrivals *arrivals, uint64_t now_us);
/* Egress control: whether one more at |now_us| would exceed |limit| per
 * second. Needs two earlier ones. */
bool nm_arrivals_exceed(nm_arrivals *arrivals, uint64_t now_us, double limit);

/* What ends a burst. */
typedef enum nm_burst_kind {
  NM_BURST_ANNOUNCES,    /* also needs two samples to end */
  NM_BURST_PATH_REQUESTS /* also needs three quiet evaluations */
} nm_burst_kind;

typedef struct nm_burst_rules {
  double threshold; /* per second */
  uint64_t hold_us; /* quiet time before a burst ends */
} nm_burst_rules;

/* A burst under way or not. Zeroed: not. */
typedef struct nm_burst {
  bool active;
  uint8_t quiet_left;
  uint64_t since_us;
  uint64_t sustained_us; /* last time the rate was at the threshold */
} nm_burst;

/* Evaluates the burst at |now_us|. True while arrivals are limited, also at
 * the evaluation that ends it. */
bool nm_burst_limits(nm_burst *burst, nm_burst_kind kind,
                     const nm_burst_rules *rules, nm_arrivals *arrivals,
                     uint64_t now_us);

#endif
