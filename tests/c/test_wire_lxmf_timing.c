/* When outgoing messages are tried again: upstream's values. */
#include "support.h"
#include "wire/lxmf_timing.h"

#include <math.h>

static uint64_t seconds(const nm_vector *v, const char *path) {
  return (uint64_t)llround(nm_vector_number(v, path) * 1e6);
}

/* Microseconds are whole here: each term is off by one at most. */
static void check_near(uint64_t actual, uint64_t expected) {
  uint64_t apart = actual > expected ? actual - expected : expected - actual;
  NM_CHECK(apart <= NM_LXMF_ATTEMPTS_MAX);
}

static uint64_t bitrate(const nm_vector *v, const char *path) {
  return nm_vector_find(v, path)->type == NM_VECTOR_NULL
             ? 0
             : nm_vector_u64(v, path);
}

static void check_medium(const nm_vector *v) {
  nm_lxmf_medium medium;
  nm_lxmf_medium_of(bitrate(v, "input.lowest_online_interface_bitrate"),
                    &medium);
  check_near(medium.timeout_us, seconds(v, "output.medium_path_timeout_s"));
  check_near(medium.path_wait_us, seconds(v, "output.path_request_wait_s"));
  check_near(medium.repeat_window_us, seconds(v, "output.repeat_window_s"));
  NM_CHECK_INT(medium.slow, nm_vector_bool(v, "output.slow_interface"));
}

NM_TEST(the_slowest_medium_sets_the_waits) {
  nm_vectors_each("lxmf", "medium_timing", 7, check_medium);
}

static void check_schedule(const nm_vector *v) {
  nm_lxmf_medium medium;
  nm_lxmf_schedule schedule;
  nm_lxmf_medium_of(bitrate(v, "input.lowest_online_interface_bitrate"),
                    &medium);
  bool known = nm_vector_bool(v, "input.path_known");
  uint64_t to =
      known ? nm_lxmf_round_trip_us(bitrate(v, "input.next_hop_bitrate"))
            : medium.timeout_us;
  check_near(to, seconds(v, "output.destination_round_trip_s"));
  NM_CHECK_INT(nm_lxmf_is_slow_path(to), nm_vector_bool(v, "output.slow_path"));
  nm_lxmf_attempt attempt = {
      .after_path_request = nm_vector_bool(v, "input.after_path_request"),
      .attempts = (uint32_t)nm_vector_u64(v, "input.delivery_attempts"),
  };
  attempt.round_trip_us = attempt.after_path_request ? medium.timeout_us : to;
  nm_lxmf_schedule_attempt(&attempt, &schedule);
  check_near(schedule.wait_us, seconds(v, "output.wait_min_s"));
  NM_CHECK_INT(schedule.attempts_max,
               nm_vector_u64(v, "output.max_delivery_attempts"));
  bool has_timeout =
      nm_vector_find(v, "output.receipt_timeout_s")->type != NM_VECTOR_NULL;
  check_near(schedule.receipt_timeout_us,
             has_timeout ? seconds(v, "output.receipt_timeout_s") : 0);
  attempt.jitter = UINT32_MAX;
  nm_lxmf_schedule_attempt(&attempt, &schedule);
  check_near(schedule.wait_us, seconds(v, "output.wait_max_s"));
}

NM_TEST(attempts_follow_the_medium) {
  nm_vectors_each("lxmf", "attempt_schedule", 11, check_schedule);
}
