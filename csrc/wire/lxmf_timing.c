#include "wire/lxmf_timing.h"

#include "wire/decisions.h"

#include <math.h>

#define SECOND_US 1000000u
/* Two packets of the smallest MTU, in bits. */
#define TWO_PACKETS_BITS (2u * 500u * 8u)
#define HOP_US (6u * SECOND_US)
#define FAST_ROUND_TRIP_US (10u * SECOND_US)
#define AIRTIME_US (SECOND_US / 2u)
#define ATTEMPTS_MIN 3u
#define RECEIPT_MARGIN_US (4u * SECOND_US)
/* The third attempt looks for another path when the packets went out on one. */
#define ATTEMPTS_BEFORE_REDISCOVERY 2u

static uint64_t longer(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

uint64_t nm_lxmf_round_trip_us(uint64_t bitrate) {
  if (bitrate == 0) {
    return HOP_US;
  }
  uint64_t bits = (uint64_t)TWO_PACKETS_BITS * SECOND_US;
  return (bits + bitrate / 2) / bitrate + HOP_US;
}

bool nm_lxmf_is_slow_path(uint64_t round_trip_us) {
  return round_trip_us > FAST_ROUND_TRIP_US;
}

void nm_lxmf_medium_of(uint64_t lowest, nm_lxmf_medium *medium) {
  medium->timeout_us =
      (uint64_t)llround(nm_medium_path_timeout((double)lowest) * SECOND_US);
  medium->path_wait_us = longer(NM_LXMF_PATH_WAIT_US, medium->timeout_us);
  medium->slow = lowest != 0 && lowest < NM_LXMF_SLOW_BITRATE;
  medium->repeat_window_us =
      medium->slow ? NM_LXMF_PATH_DEBOUNCE_US : medium->path_wait_us;
}

bool nm_lxmf_path_request_due(const nm_lxmf_medium *medium, uint64_t since_us) {
  return since_us >= medium->repeat_window_us;
}

bool nm_lxmf_path_request_pending(const nm_lxmf_medium *medium,
                                  uint64_t since_us) {
  return since_us < medium->path_wait_us;
}

/* Fewer attempts on media where each takes long, rounded half to even. */
static uint32_t attempts_max(uint64_t round_trip_us) {
  if (round_trip_us <= FAST_ROUND_TRIP_US) {
    return NM_LXMF_ATTEMPTS_MAX;
  }
  double scaled = (double)NM_LXMF_ATTEMPTS_MAX * (double)FAST_ROUND_TRIP_US /
                  (double)round_trip_us;
  return (uint32_t)longer(ATTEMPTS_MIN, (uint64_t)nearbyint(scaled));
}

void nm_lxmf_schedule_attempt(const nm_lxmf_attempt *attempt,
                              nm_lxmf_schedule *schedule) {
  uint64_t round_trip = attempt->round_trip_us;
  uint64_t base = attempt->after_path_request ? NM_LXMF_PATH_WAIT_US
                                              : NM_LXMF_RETRY_WAIT_US;
  schedule->wait_us = longer(base, round_trip);
  schedule->attempts_max = attempts_max(round_trip);
  schedule->jitter_max_us = 0;
  schedule->receipt_timeout_us = 0;
  uint64_t airtime = round_trip > HOP_US ? (round_trip - HOP_US) / 2 : 0;
  if (airtime <= AIRTIME_US) {
    return;
  }
  uint32_t left = attempt->attempts < schedule->attempts_max
                      ? schedule->attempts_max - attempt->attempts + 1
                      : 1;
  schedule->jitter_max_us = airtime;
  schedule->wait_us += airtime * attempt->jitter / UINT32_MAX;
  schedule->receipt_timeout_us =
      (longer(NM_LXMF_RETRY_WAIT_US, round_trip) + airtime) * left +
      RECEIPT_MARGIN_US;
}

nm_lxmf_step nm_lxmf_packet_step(const nm_lxmf_standing *standing) {
  if (standing->attempts > standing->attempts_max) {
    return NM_LXMF_STEP_FAIL;
  }
  if (standing->attempts >= 1 && !standing->has_path) {
    return NM_LXMF_STEP_PATH;
  }
  if (standing->attempts == ATTEMPTS_BEFORE_REDISCOVERY &&
      standing->sent_on_path) {
    return NM_LXMF_STEP_REDISCOVER;
  }
  return NM_LXMF_STEP_SEND;
}

nm_lxmf_step nm_lxmf_link_step(const nm_lxmf_standing *standing) {
  if (standing->attempts >= standing->attempts_max) {
    return NM_LXMF_STEP_FAIL;
  }
  return standing->has_path ? NM_LXMF_STEP_LINK : NM_LXMF_STEP_PATH;
}
