#include "wire/arrivals.h"

#define FORGET_US 10000000ull
#define RATE_SAMPLES 2
#define EGRESS_SAMPLES 2
#define QUIET_EVALUATIONS 3

void nm_arrivals_add(nm_arrivals *arrivals, uint64_t now_us) {
  if (arrivals->count == NM_ARRIVALS_MAX) {
    arrivals->head = (uint8_t)((arrivals->head + 1) % NM_ARRIVALS_MAX);
    arrivals->count--;
  }
  size_t at = (size_t)(arrivals->head + arrivals->count) % NM_ARRIVALS_MAX;
  arrivals->times[at] = now_us;
  arrivals->count++;
}

static uint64_t age_of_oldest(const nm_arrivals *arrivals, uint64_t now_us) {
  uint64_t oldest = arrivals->times[arrivals->head];
  return now_us > oldest ? now_us - oldest : 0;
}

static void forget_old(nm_arrivals *arrivals, uint64_t now_us) {
  if (arrivals->count > 0 && age_of_oldest(arrivals, now_us) > FORGET_US) {
    arrivals->head = (uint8_t)((arrivals->head + 1) % NM_ARRIVALS_MAX);
    arrivals->count--;
  }
}

static double per_second(unsigned count, uint64_t span_us) {
  return span_us == 0 ? 0 : count * 1e6 / (double)span_us;
}

double nm_arrivals_rate(nm_arrivals *arrivals, uint64_t now_us) {
  if (arrivals->count <= RATE_SAMPLES) {
    return 0;
  }
  double rate = per_second(arrivals->count, age_of_oldest(arrivals, now_us));
  forget_old(arrivals, now_us);
  return rate;
}

bool nm_arrivals_exceed(nm_arrivals *arrivals, uint64_t now_us, double limit) {
  bool exceeds =
      arrivals->count >= EGRESS_SAMPLES &&
      per_second(arrivals->count + 1u, age_of_oldest(arrivals, now_us)) > limit;
  forget_old(arrivals, now_us);
  return exceeds;
}

static bool is_over(const nm_burst *burst, nm_burst_kind kind,
                    const nm_burst_rules *rules, const nm_arrivals *arrivals,
                    double rate, uint64_t now_us) {
  return rate < rules->threshold && now_us > burst->since_us + rules->hold_us &&
         now_us > burst->sustained_us + rules->hold_us &&
         (kind != NM_BURST_ANNOUNCES || arrivals->count >= RATE_SAMPLES);
}

static bool begin(nm_burst *burst, uint64_t now_us) {
  burst->active = true;
  burst->since_us = now_us;
  burst->sustained_us = now_us;
  burst->quiet_left = QUIET_EVALUATIONS;
  return true;
}

bool nm_burst_limits(nm_burst *burst, nm_burst_kind kind,
                     const nm_burst_rules *rules, nm_arrivals *arrivals,
                     uint64_t now_us) {
  double rate = nm_arrivals_rate(arrivals, now_us);
  if (!burst->active) {
    return rate > rules->threshold && begin(burst, now_us);
  }
  if (rate >= rules->threshold) {
    burst->sustained_us = now_us;
  }
  if (!is_over(burst, kind, rules, arrivals, rate, now_us)) {
    burst->quiet_left = QUIET_EVALUATIONS;
  } else if (kind == NM_BURST_ANNOUNCES || burst->quiet_left == 0) {
    burst->active = false;
  } else {
    burst->quiet_left--;
  }
  return true;
}
