/* Serving part requests; the receiver's window. */
#include "wire/resource_window.h"

#include "support.h"
#include "wire_data.h"

#include <math.h>
#include <string.h>

#define PARTS 500
#define SDU 3

/* A server of 500 parts of 3 bytes (the last has 2) whose map hash is its
 * index. */
typedef struct rig {
  nm_resource_server server;
  uint8_t stream[PARTS * SDU - 1];
  uint8_t map[4 * PARTS];
  uint8_t sent[(PARTS + 7) / 8];
  uint8_t hash[32];
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
  nm_fault fault;
} rig;

static void put_hash(uint8_t *at, uint32_t index) {
  at[0] = (uint8_t)index;
  at[1] = (uint8_t)(index >> 8);
  at[2] = 0x5A;
  at[3] = (uint8_t)(index * 7);
}

static void rig_init(rig *r) {
  memset(r, 0, sizeof *r);
  nm_test_random_bytes(r->stream, sizeof r->stream);
  nm_test_random_bytes(r->hash, sizeof r->hash);
  memset(r->sent, 0xFF, sizeof r->sent);
  for (uint32_t i = 0; i < PARTS; i++) {
    put_hash(r->map + 4 * i, i);
  }
  NM_CHECK_OK(nm_resource_server_init(
      &r->server, nm_span_of(r->stream, sizeof r->stream),
      nm_span_of(r->map, sizeof r->map), SDU, r->hash,
      (nm_mspan){r->sent, sizeof r->sent}));
}

/* Sends a request for the parts in |list|; |last| >= 0 is the exhausted form
 * with that part's map hash as last known. */
static int ask_cap(rig *r, const uint32_t *list, size_t count, int last,
                   size_t cap) {
  uint8_t wire[40 + 4 * 300];
  uint8_t last_hash[4];
  uint8_t wanted[4 * 300];
  for (size_t i = 0; i < count; i++) {
    put_hash(wanted + 4 * i, list[i]);
  }
  put_hash(last_hash, (uint32_t)(last < 0 ? 0 : last));
  nm_resource_request req = {.exhausted = last >= 0,
                             .last_known = nm_span_of(last_hash, 4),
                             .hash = nm_span_of(r->hash, 32),
                             .wanted = nm_span_of(wanted, 4 * count)};
  nm_writer w = nm_writer_of(wire, sizeof wire);
  NM_CHECK_OK(nm_resource_request_encode(&req, &w));
  return nm_resource_serve(&r->server, nm_writer_done(&w), r->tx, cap,
                           &r->answer, &r->fault);
}

static int ask(rig *r, const uint32_t *list, size_t count, int last) {
  return ask_cap(r, list, count, last, NM_RESOURCE_GUARD);
}

static void check_served(const rig *r, const uint32_t *list, size_t count) {
  NM_CHECK_INT(r->answer.count, count);
  for (size_t i = 0; i < count; i++) {
    NM_CHECK_INT(r->tx[i].index, list[i]);
    NM_CHECK(r->tx[i].ptr == r->stream + SDU * list[i]);
    NM_CHECK_INT(r->tx[i].len, list[i] == PARTS - 1 ? SDU - 1 : SDU);
  }
}

NM_TEST(consecutive_requests_are_served_in_order) {
  rig r;
  rig_init(&r);
  uint32_t list[10];
  for (uint32_t begin = 0; begin + 10 <= 220; begin += 10) {
    for (uint32_t i = 0; i < 10; i++) {
      list[i] = begin + i;
    }
    NM_CHECK_OK(ask(&r, list, 10, -1));
    check_served(&r, list, 10);
    NM_CHECK_INT(r.server.sent, begin + 10);
    NM_CHECK(!r.answer.send_update && !r.answer.all_sent);
    NM_CHECK_INT(r.answer.unknown, 0);
  }
}

NM_TEST(a_repeated_request_is_served_again_and_counts_once) {
  rig r;
  rig_init(&r);
  static const uint32_t first[4] = {0, 1, 2, 3};
  static const uint32_t second[4] = {4, 5, 6, 7};
  NM_CHECK_OK(ask(&r, first, 4, -1));
  NM_CHECK_OK(ask(&r, second, 4, -1));
  for (int i = 0; i < 3; i++) {
    NM_CHECK_OK(ask(&r, second, 4, -1));
    check_served(&r, second, 4);
    NM_CHECK_OK(ask(&r, first, 4, -1));
    check_served(&r, first, 4);
    NM_CHECK_INT(r.server.sent, 8);
  }
}

NM_TEST(runs_that_overlap_the_last_one_are_served) {
  rig r;
  rig_init(&r);
  const uint32_t begins[] = {100, 101, 103, 90, 0, 1, 219, 37, 100};
  for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
    uint32_t list[5];
    for (uint32_t n = 0; n < 5; n++) {
      list[n] = begins[i] + n;
    }
    NM_CHECK_OK(ask(&r, list, 5, -1));
    check_served(&r, list, 5);
    NM_CHECK_INT(r.answer.unknown, 0);
  }
}

NM_TEST(scattered_hashes_are_served_in_index_order_once_each) {
  rig r;
  rig_init(&r);
  static const uint32_t list[8] = {200, 3, 7, 3, 223, 0, 64, 63};
  static const uint32_t sorted[7] = {0, 3, 7, 63, 64, 200, 223};
  NM_CHECK_OK(ask(&r, list, 8, -1));
  check_served(&r, sorted, 7);
  NM_CHECK_INT(r.server.sent, 7);
}

NM_TEST(parts_out_of_reach_are_not_served) {
  rig r;
  rig_init(&r);
  static const uint32_t list[4] = {222, 223, 224, 225};
  static const uint32_t served[2] = {222, 223};
  NM_CHECK_OK(ask(&r, list, 4, -1));
  check_served(&r, served, 2);
  NM_CHECK_INT(r.answer.unknown, 2);
  static const uint32_t nowhere[1] = {9999};
  NM_CHECK_OK(ask(&r, nowhere, 1, -1));
  NM_CHECK_INT(r.answer.count, 0);
  NM_CHECK_INT(r.answer.unknown, 1);
  NM_CHECK_OK(ask(&r, nowhere, 0, -1));
  NM_CHECK_INT(r.answer.count, 0);
}

NM_TEST(exhausted_requests_move_the_reach_and_name_the_update) {
  rig r;
  rig_init(&r);
  static const uint32_t list[4] = {70, 71, 72, 73};
  NM_CHECK_OK(ask(&r, list, 4, 73));
  check_served(&r, list, 4);
  NM_CHECK(r.answer.send_update);
  NM_CHECK_INT(r.answer.update_segment, 1);
  NM_CHECK_INT(r.server.floor, 0);
  NM_CHECK_OK(ask(&r, list, 0, 147));
  NM_CHECK_INT(r.answer.update_segment, 2);
  NM_CHECK_INT(r.server.floor, 147 - 75);
  /* What was in reach before and is not any more. */
  NM_CHECK_OK(ask(&r, list, 2, -1));
  NM_CHECK_INT(r.answer.unknown, 2);
  static const uint32_t far[3] = {295, 72, 296};
  static const uint32_t served[2] = {72, 295};
  NM_CHECK_OK(ask(&r, far, 3, -1));
  check_served(&r, served, 2);
  NM_CHECK_INT(r.answer.unknown, 1);
  NM_CHECK_OK(ask(&r, list, 0, 221));
  NM_CHECK_OK(ask(&r, list, 0, 295));
  NM_CHECK_OK(ask(&r, list, 0, 369));
  NM_CHECK_OK(ask(&r, list, 0, 443));
  NM_CHECK_INT(r.answer.update_segment, 6);
}

NM_TEST(sequencing_errors_change_nothing) {
  rig r;
  rig_init(&r);
  static const uint32_t list[2] = {0, 1};
  static const int wrong[] = {0, 72, 74, 300, 9999};
  for (size_t i = 0; i < 5; i++) {
    NM_CHECK_STATUS(ask(&r, list, 2, wrong[i]), NM_E(MISMATCH));
    NM_CHECK(strcmp(r.fault.field, "request.last_known") == 0);
    NM_CHECK_INT(r.server.sent, 0);
    NM_CHECK_INT(r.server.floor, 0);
  }
}

NM_TEST(no_update_follows_the_last_part) {
  /* 148 parts: the map ends with a full segment. */
  rig r;
  rig_init(&r);
  NM_CHECK_OK(nm_resource_server_init(
      &r.server, nm_span_of(r.stream, 148 * SDU), nm_span_of(r.map, 4 * 148),
      SDU, r.hash, (nm_mspan){r.sent, sizeof r.sent}));
  static const uint32_t none[1] = {0};
  NM_CHECK_OK(ask(&r, none, 0, 73));
  NM_CHECK_STATUS(ask(&r, none, 0, 147), NM_E(MISMATCH));
}

NM_TEST(broken_and_foreign_requests_are_refused) {
  rig r;
  rig_init(&r);
  static const uint32_t list[4] = {0, 1, 2, 3};
  r.hash[0] ^= 1;
  NM_CHECK_STATUS(ask(&r, list, 4, -1), NM_E(MISMATCH));
  NM_CHECK(strcmp(r.fault.field, "request.hash") == 0);
  r.hash[0] ^= 1;
  NM_CHECK_STATUS(ask_cap(&r, list, 4, -1, 3), NM_E(TOO_LARGE));
  NM_CHECK_INT(r.server.sent, 0);
  NM_CHECK_OK(ask_cap(&r, list, 4, -1, 4));
  uint32_t many[225];
  for (uint32_t i = 0; i < 225; i++) {
    many[i] = i;
  }
  NM_CHECK_STATUS(ask(&r, many, 225, -1), NM_E(LIMIT));
  NM_CHECK_OK(ask(&r, many, 224, -1));
  check_served(&r, many, 224);
  uint8_t wire[32] = {0};
  for (size_t len = 0; len < sizeof wire; len++) {
    NM_CHECK_STATUS(nm_resource_serve(&r.server, nm_span_of(wire, len), r.tx,
                                      224, &r.answer, NULL),
                    NM_E(TRUNCATED));
  }
}

NM_TEST(all_parts_are_sent_when_each_was_sent_once) {
  rig r;
  rig_init(&r);
  uint32_t list[75];
  uint32_t at = 0;
  while (at < PARTS) {
    size_t n = 0;
    /* Never across the end of the known map, as a receiver does. */
    while (n < 75 && at + n < PARTS && (n == 0 || (at + n) % 74 != 0)) {
      list[n] = at + (uint32_t)n;
      n++;
    }
    at += (uint32_t)n;
    bool last = at == PARTS;
    NM_CHECK_OK(ask(&r, list, n, last ? -1 : (int)at - 1));
    check_served(&r, list, n);
    NM_CHECK_INT(r.answer.all_sent, last);
  }
}

NM_TEST(servers_start_only_with_sizes_that_agree) {
  rig r;
  rig_init(&r);
  nm_span stream = nm_span_of(r.stream, sizeof r.stream);
  nm_span map = nm_span_of(r.map, sizeof r.map);
  nm_mspan sent = {r.sent, sizeof r.sent};
  nm_resource_server s;
  NM_CHECK_STATUS(nm_resource_server_init(&s, stream, map, 0, r.hash, sent),
                  NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_resource_server_init(&s, stream, map, 4, r.hash, sent),
                  NM_E(ARGUMENT));
  NM_CHECK_STATUS(
      nm_resource_server_init(&s, nm_span_of(NULL, 0), map, SDU, r.hash, sent),
      NM_E(ARGUMENT));
  sent.len--;
  NM_CHECK_STATUS(nm_resource_server_init(&s, stream, map, SDU, r.hash, sent),
                  NM_E(ARGUMENT));
}

/* Serving against the plain rule, with random requests. */
NM_TEST(random_requests_are_served_by_the_rule) {
  rig r;
  rig_init(&r);
  bool sent[PARTS] = {false};
  uint32_t sent_count = 0;
  for (int round = 0; round < 3000; round++) {
    uint32_t list[40];
    uint32_t expected[40];
    size_t count = nm_test_below(40);
    uint32_t begin = nm_test_below(PARTS);
    for (size_t i = 0; i < count; i++) {
      list[i] = nm_test_below(3) > 0 ? begin + (uint32_t)i
                                     : nm_test_below(PARTS + 10);
    }
    uint32_t floor = r.server.floor;
    size_t served = 0;
    for (uint32_t i = floor; i < PARTS && i < floor + 224; i++) {
      for (size_t j = 0; j < count; j++) {
        if (list[j] == i) {
          expected[served++] = i;
          break;
        }
      }
    }
    for (size_t i = 0; i < served; i++) {
      sent_count += sent[expected[i]] ? 0 : 1;
      sent[expected[i]] = true;
    }
    int last = -1;
    if (nm_test_below(20) == 0) {
      uint32_t segment = floor / 74 + 1 + nm_test_below(3);
      int known = (int)segment * 74 - 1;
      if (known >= (int)floor && known < (int)floor + 224 &&
          known < PARTS - 1) {
        last = known;
      }
    }
    NM_CHECK_OK(ask(&r, list, count, last));
    check_served(&r, expected, served);
    NM_CHECK_INT(r.server.sent, sent_count);
  }
}

/* --- The receiver's window --- */

static void check_profile(nm_resource_profile p, uint32_t window, uint32_t min,
                          uint32_t max) {
  NM_CHECK_INT(p.window, window);
  NM_CHECK_INT(p.window_min, min);
  NM_CHECK_INT(p.window_max, max);
}

NM_TEST(windows_grow_to_ten_at_an_ordinary_rate) {
  nm_resource_profile p = nm_resource_profile_start(0);
  check_profile(p, 4, 2, 10);
  static const uint32_t expected[8][2] = {{5, 2}, {6, 3},  {7, 4},  {8, 5},
                                          {9, 6}, {10, 7}, {10, 7}, {10, 7}};
  for (size_t i = 0; i < 8; i++) {
    p = nm_resource_profile_round(p, 1000.0);
    check_profile(p, expected[i][0], expected[i][1], 10);
  }
}

NM_TEST(four_fast_rounds_open_the_window) {
  nm_resource_profile p = nm_resource_profile_start(0);
  p = nm_resource_profile_first_part(p, 6250.0);
  NM_CHECK_INT(p.fast_rounds, 0);
  p = nm_resource_profile_first_part(p, 6250.1);
  p = nm_resource_profile_round(p, 7000.0);
  p = nm_resource_profile_first_part(p, 7000.0);
  NM_CHECK_INT(p.fast_rounds, 3);
  check_profile(p, 5, 2, 10);
  p = nm_resource_profile_round(p, 7000.0);
  NM_CHECK_INT(p.fast_rounds, 4);
  check_profile(p, 6, 3, 75);
  for (int i = 0; i < 100; i++) {
    p = nm_resource_profile_first_part(p, 1e9);
    p = nm_resource_profile_round(p, 1e9);
  }
  NM_CHECK_INT(p.fast_rounds, 4);
  check_profile(p, 75, 72, 75);
}

NM_TEST(two_very_slow_rounds_close_the_window) {
  nm_resource_profile p = nm_resource_profile_start(0);
  p = nm_resource_profile_round(p, 250.0);
  NM_CHECK_INT(p.very_slow_rounds, 0);
  p = nm_resource_profile_round(p, 249.0);
  check_profile(p, 6, 3, 10);
  p = nm_resource_profile_round(p, 249.0);
  check_profile(p, 7, 4, 4);
  NM_CHECK_INT(p.very_slow_rounds, 2);
  p = nm_resource_profile_round(p, 10.0);
  NM_CHECK_INT(p.very_slow_rounds, 2);
  check_profile(p, 7, 4, 4);
  p = nm_resource_profile_start(0);
  p = nm_resource_profile_round(p, 9000.0);
  p = nm_resource_profile_round(p, 1.0);
  p = nm_resource_profile_round(p, 1.0);
  NM_CHECK_INT(p.very_slow_rounds, 0);
}

NM_TEST(time_outs_shrink_the_window_and_its_maximum) {
  nm_resource_profile p = nm_resource_profile_start(0);
  p = nm_resource_profile_timeout(p);
  check_profile(p, 3, 2, 8);
  p = nm_resource_profile_timeout(p);
  check_profile(p, 2, 2, 6);
  p = nm_resource_profile_timeout(p);
  check_profile(p, 2, 2, 6);
  nm_resource_profile even = {.window = 5, .window_min = 4, .window_max = 5};
  even = nm_resource_profile_timeout(even);
  check_profile(even, 4, 4, 4);
}

NM_TEST(a_window_is_carried_over_from_the_last_resource) {
  nm_resource_profile p = nm_resource_profile_start(40);
  check_profile(p, 40, 2, 10);
  p = nm_resource_profile_round(p, 1000.0);
  check_profile(p, 40, 2, 10);
}

NM_TEST(round_trip_estimates_move_by_at_most_five_per_cent) {
  NM_CHECK(nm_resource_rtt(0.0, 9.0, 0.5) == 0.5);
  NM_CHECK(nm_resource_rtt(1.0, 2.0, 0.5) == 1.05);
  NM_CHECK(nm_resource_rtt(1.0, 1.01, 0.5) == 1.01);
  NM_CHECK(nm_resource_rtt(1.0, 0.1, 0.5) == 0.95);
  NM_CHECK(nm_resource_rtt(1.0, 0.99, 0.5) == 0.99);
  NM_CHECK(nm_resource_rtt(1.0, 1.0, 0.5) == 1.0);
}

NM_TEST(rates_fall_back_from_round_to_link) {
  NM_CHECK(nm_resource_eifr(100.0, 5.0, 300.0, 2.0) == 800.0);
  NM_CHECK(nm_resource_eifr(0.0, 5.0, 300.0, 2.0) == 5.0);
  NM_CHECK(nm_resource_eifr(0.0, 0.0, 300.0, 2.0) == 1200.0);
  NM_CHECK(nm_resource_eifr(0.0, 0.0, 300.0, 0.0) == 0.0);
}

NM_TEST(time_outs_follow_the_formulas) {
  /* 10 parts of 464 bytes at 3712 bits a second: one second each. */
  NM_CHECK(nm_resource_receive_timeout(true, 10, false, 464, 3712.0, 0) ==
           2.0 * 10.0 + 0.25);
  NM_CHECK(nm_resource_receive_timeout(true, 10, true, 464, 3712.0, 2) ==
           2.0 * 10.0 + 3.5 + 0.25 + 1.0);
  NM_CHECK(nm_resource_receive_timeout(true, 0, false, 464, 3712.0, 0) ==
           3.5 + 0.25);
  NM_CHECK(nm_resource_receive_timeout(false, 10, false, 464, 1392.0, 1) ==
           4.0 + 0.25 + 0.5);
  NM_CHECK(isinf(nm_resource_receive_timeout(true, 1, false, 464, 0.0, 0)));
  NM_CHECK(nm_resource_adv_timeout(0.5) == 4.0);
  NM_CHECK(nm_resource_send_timeout(0.5) == 96.0 * 0.5 + 78.0);
  NM_CHECK(nm_resource_proof_timeout(2.0) == 16.0);
}
