/* Bursts and limits against what upstream's evaluations gave (RNS 1, 8.15). */
#include "wire/arrivals.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

static const nm_vector_field *field(const nm_vector *v, const char *path) {
  const nm_vector_field *found = nm_vector_find(v, path);
  NM_CHECK(found != NULL);
  return found;
}

static uint64_t at_us(double seconds) {
  return 1000000000ull + (uint64_t)(seconds * 1e6 + 0.5);
}

static void check_burst(const nm_vector *v) {
  bool announces = strcmp(v->kind, "announce_burst") == 0;
  bool fresh = field(v, "input.new_interface")->number != 0;
  nm_burst_rules rules = {.threshold = fresh       ? 3
                                       : announces ? 10
                                                   : 8,
                          .hold_us = 15000000};
  nm_arrivals arrivals = {0};
  nm_burst burst = {0};
  int count = (int)field(v, "input.events")->number;
  for (int i = 0; i < count; i++) {
    char path[48];
    (void)snprintf(path, sizeof(path), "input.events[%d][0]", i);
    uint64_t now = at_us(field(v, path)->number);
    (void)snprintf(path, sizeof(path), "input.events[%d][1]", i);
    if (strcmp(field(v, path)->text, "receive") == 0) {
      nm_arrivals_add(&arrivals, now);
    }
    bool limited = nm_burst_limits(
        &burst, announces ? NM_BURST_ANNOUNCES : NM_BURST_PATH_REQUESTS, &rules,
        &arrivals, now);
    (void)snprintf(path, sizeof(path), "output.limited[%d]", i);
    nm_test_context("%s, event %d", v->name, i);
    NM_CHECK_INT(limited, field(v, path)->number);
  }
}

NM_TEST(bursts_begin_and_end_as_upstream_s) {
  nm_vectors_each(NULL, "announce_burst", 3, check_burst);
  nm_vectors_each(NULL, "path_request_burst", 3, check_burst);
}

static void check_egress(const nm_vector *v) {
  nm_arrivals sent = {0};
  double limit = field(v, "input.ec_pr_freq")->number;
  int count = (int)field(v, "input.send_times")->number;
  for (int i = 0; i < count; i++) {
    char path[48];
    (void)snprintf(path, sizeof(path), "input.send_times[%d]", i);
    uint64_t now = at_us(field(v, path)->number);
    bool limited = nm_arrivals_exceed(&sent, now, limit);
    if (!limited) {
      nm_arrivals_add(&sent, now);
    }
    (void)snprintf(path, sizeof(path), "output.limited[%d]", i);
    nm_test_context("%s, request %d", v->name, i);
    NM_CHECK_INT(limited, field(v, path)->number);
  }
}

NM_TEST(requests_passed_on_are_limited_as_upstream_s) {
  nm_vectors_each(NULL, "egress_pr", 2, check_egress);
}

NM_TEST(the_last_48_arrivals_count) {
  nm_arrivals arrivals = {0};
  for (uint64_t i = 0; i < 100; i++) {
    nm_arrivals_add(&arrivals, i * 1000);
  }
  NM_CHECK_INT(arrivals.count, NM_ARRIVALS_MAX);
  double rate = nm_arrivals_rate(&arrivals, 100000);
  NM_CHECK_INT((int)(rate + 0.5), 1000);
  /* What came at the same instant gives no rate rather than an infinite one. */
  nm_arrivals once = {0};
  for (int i = 0; i < 5; i++) {
    nm_arrivals_add(&once, 7);
  }
  NM_CHECK(nm_arrivals_rate(&once, 7) < 1);
}
