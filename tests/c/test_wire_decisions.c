#include "support.h"

#include "wire/decisions.h"
#include "wire/packet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A path below "output.rows[i]", or below any list. */
static const char *at(const char *list, size_t i, const char *field) {
  static char path[4][96];
  static unsigned next;
  char *out = path[next++ % 4];
  snprintf(out, sizeof path[0], "%s[%zu]%s", list, i, field);
  return out;
}

static size_t length(const nm_vector *v, const char *list) {
  const nm_vector_field *field = nm_vector_find(v, list);
  return field != NULL && field->type == NM_VECTOR_LIST ? (size_t)field->number
                                                        : 0;
}

static void check_mtu_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 20);
  for (size_t i = 0; i < rows; i++) {
    const char *mtu = at("output.rows", i, ".hw_mtu");
    uint64_t expected = nm_vector_has(v, mtu) ? nm_vector_u64(v, mtu) : 0;
    double bitrate = nm_vector_number(v, at("output.rows", i, ".bitrate"));
    nm_test_context("bitrate %g", bitrate);
    NM_CHECK_INT(nm_mtu_for_bitrate(bitrate), expected);
  }
}

NM_TEST(the_mtu_follows_the_bitrate_as_in_the_vectors) {
  nm_vectors_each(NULL, "interface_mtu", 1, check_mtu_rows);
  NM_CHECK_INT(nm_mtu_for_bitrate(0), 0);
  NM_CHECK_INT(nm_mtu_for_bitrate(-1), 0);
  NM_CHECK_INT(nm_mtu_for_bitrate(NAN), 0);
}

static void check_mdu_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 15);
  for (size_t i = 0; i < rows; i++) {
    uint64_t mtu = nm_vector_u64(v, at("output.rows", i, ".mtu"));
    NM_CHECK_INT(nm_link_mdu((size_t)mtu),
                 nm_vector_u64(v, at("output.rows", i, ".mdu")));
  }
}

NM_TEST(the_link_mdu_is_that_of_the_vectors) {
  nm_vectors_each(NULL, "link_mdu", 1, check_mdu_rows);
  NM_CHECK_INT(nm_link_mdu(500), NM_LINK_MDU);
  NM_CHECK_INT(nm_link_mdu(83), 0);
  NM_CHECK_INT(nm_link_mdu(84), 15);
  NM_CHECK_INT(nm_link_mdu(0), 0);
}

NM_TEST(interface_defaults_agree_with_the_bitrate_table) {
  for (int t = 0; t < NM_INTERFACE_COUNT; t++) {
    const nm_interface_defaults *d =
        nm_interface_defaults_of((nm_interface_type)t);
    nm_test_context("%s", d->name);
    NM_CHECK(
        nm_interface_defaults_named(nm_span_of(d->name, strlen(d->name))) == d);
    bool adjusted = d->mtu_mode == NM_MTU_AUTO && t != NM_INTERFACE_LOCAL;
    NM_CHECK_INT(d->hw_mtu_adjusted,
                 adjusted ? nm_mtu_for_bitrate(d->bitrate) : d->hw_mtu);
  }
  NM_CHECK(nm_interface_defaults_of(NM_INTERFACE_COUNT) == NULL);
  NM_CHECK(nm_interface_defaults_named(nm_span_of("nothing", 7)) == NULL);
  const nm_interface_defaults *tcp = nm_interface_defaults_of(NM_INTERFACE_TCP);
  NM_CHECK_INT(tcp->hw_mtu, 262144);
  NM_CHECK_INT(tcp->hw_mtu_adjusted, 16384);
  NM_CHECK_INT(tcp->ifac_bytes, 16);
  NM_CHECK(tcp->ingress_limit);
  const nm_interface_defaults *radio =
      nm_interface_defaults_of(NM_INTERFACE_RNODE);
  NM_CHECK_INT(radio->hw_mtu, 508);
  NM_CHECK_INT(radio->ifac_bytes, 8);
  NM_CHECK(!radio->ingress_limit && radio->bitrate == 0);
}

static void check_radio_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 6);
  for (size_t i = 0; i < rows; i++) {
    double bitrate = nm_rnode_bitrate(
        (uint32_t)nm_vector_u64(v, at("output.rows", i, ".sf")),
        (uint32_t)nm_vector_u64(v, at("output.rows", i, ".cr")),
        nm_vector_number(v, at("output.rows", i, ".bandwidth")));
    NM_CHECK(bitrate == nm_vector_number(v, at("output.rows", i, ".bitrate")));
  }
}

NM_TEST(the_bitrate_of_radios_is_that_of_the_vectors) {
  nm_vectors_each(NULL, "rnode_bitrate", 1, check_radio_rows);
  NM_CHECK(nm_rnode_bitrate(4, 5, 125000) == 0);
  NM_CHECK(nm_rnode_bitrate(7, 9, 125000) == 0);
  NM_CHECK(nm_rnode_bitrate(7, 5, 0) == 0);
}

static void check_keepalive_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 11);
  for (size_t i = 0; i < rows; i++) {
    double rtt = nm_vector_number(v, at("output.rows", i, ".rtt"));
    nm_test_context("rtt %g", rtt);
    NM_CHECK(nm_keepalive_interval(rtt) ==
             nm_vector_number(v, at("output.rows", i, ".keepalive")));
    NM_CHECK(nm_stale_time(rtt) ==
             nm_vector_number(v, at("output.rows", i, ".stale_time")));
  }
}

NM_TEST(keepalive_and_stale_time_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "link_keepalive", 1, check_keepalive_rows);
  NM_CHECK(nm_keepalive_interval(0) == 360);
  NM_CHECK(nm_stale_time(-1) == 720);
  NM_CHECK(nm_keepalive_interval(NAN) == 360);
}

static void check_channel_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 7);
  for (size_t i = 0; i < rows; i++) {
    double timeout = nm_channel_timeout(
        nm_vector_number(v, at("output.rows", i, ".rtt")),
        (uint32_t)nm_vector_u64(v, at("output.rows", i, ".tries")),
        (uint32_t)nm_vector_u64(v, at("output.rows", i, ".tx_ring_length")));
    double expected = nm_vector_number(v, at("output.rows", i, ".timeout"));
    nm_test_context("row %zu: %.17g, expected %.17g", i, timeout, expected);
    NM_CHECK(fabs(timeout - expected) <= 1e-12 * expected);
  }
}

static void check_medium_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 7);
  for (size_t i = 0; i < rows; i++) {
    const char *bitrate = at("output.rows", i, ".lowest_bitrate");
    double b = nm_vector_has(v, bitrate) ? nm_vector_number(v, bitrate) : 0;
    nm_test_context("bitrate %g", b);
    NM_CHECK(nm_medium_path_timeout(b) ==
             nm_vector_number(v, at("output.rows", i, ".timeout")));
    NM_CHECK(nm_discovery_timeout(b) ==
             nm_vector_number(v, at("output.rows", i, ".discovery_timeout")));
  }
}

NM_TEST(channel_and_path_timeouts_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "channel_timeout", 1, check_channel_rows);
  nm_vectors_each(NULL, "medium_path_timeout", 1, check_medium_rows);
  NM_CHECK(isfinite(nm_channel_timeout(1, UINT32_MAX, UINT32_MAX)));
}

NM_TEST(other_timeouts_follow_the_formulas) {
  NM_CHECK(nm_first_hop_timeout(0) == 6);
  NM_CHECK(nm_first_hop_timeout(1000) == 10);
  NM_CHECK(nm_receipt_timeout(NM_HOPS_UNKNOWN, 0) == 774);
  NM_CHECK(nm_receipt_timeout(2, 1000) == 22);
  NM_CHECK(nm_link_receipt_timeout(0.5) == 3);
  NM_CHECK(nm_link_receipt_timeout(0) == 0.005);
  NM_CHECK(nm_establishment_timeout(0, 0) == 12);
  NM_CHECK(nm_establishment_timeout(3, 1000) == 28);
  NM_CHECK(nm_responder_timeout(1) == 366);
  NM_CHECK(nm_relayed_proof_timeout(0, 1000) == 10);
  NM_CHECK(nm_relayed_proof_timeout(2, 0) == 12);
  NM_CHECK(nm_request_timeout(1) == 17.25);
}

NM_TEST(paths_live_by_the_mode_of_their_interface) {
  static const double lives[] = {0,     604800, 604800, 86400,
                                 21600, 604800, 604800, 604800};
  for (int mode = NM_IF_FULL; mode <= NM_IF_INTERNAL; mode++) {
    NM_CHECK(nm_path_lifetime(mode) == lives[mode]);
  }
}

NM_TEST(the_announce_cap_delays_by_share_of_the_bitrate) {
  NM_CHECK(nm_announce_cap_delay(200, 1000, 0.02) == 80);
  NM_CHECK(nm_announce_cap_delay(200, 0, 0.02) == 0);
  NM_CHECK(nm_announce_cap_delay(200, 1000, 0) == 0);
}

static void check_accept_vector(const nm_vector *v) {
  size_t count = length(v, "input.existing_random_blobs");
  uint8_t blobs[64 * NM_RANDOM_BLOB_SIZE];
  for (size_t i = 0; i < count; i++) {
    memcpy(blobs + i * NM_RANDOM_BLOB_SIZE,
           nm_vector_bytes(v, at("input.existing_random_blobs", i, "")).ptr,
           NM_RANDOM_BLOB_SIZE);
  }
  nm_announce_situation s = {
      .has_path = true,
      .path_hops = (uint32_t)nm_vector_u64(v, "input.existing_hops"),
      .path_expired = nm_vector_bool(v, "input.existing_expired"),
      .path_unresponsive = nm_vector_bool(v, "input.path_unresponsive"),
      .path_blobs = blobs,
      .path_blob_count = count,
      .path_gravity =
          (int)nm_vector_number(v, "input.existing_interface_gravity"),
      .hops = (uint32_t)nm_vector_u64(v, "input.announce_hops_after_increment"),
      .blob = nm_vector_bytes(v, "input.announce_random_blob").ptr,
      .gravity = (int)nm_vector_number(v, "input.receiving_interface_gravity")};
  NM_CHECK_INT(nm_announce_decide(&s) != NM_ANNOUNCE_REFUSED,
               nm_vector_bool(v, "output.accepted"));
  s.has_path = false;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_NEW);
}

NM_TEST(announces_replace_paths_as_in_the_vectors) {
  nm_vectors_each(NULL, "announce_accept", 39, check_accept_vector);
}

NM_TEST(the_reason_for_replacing_a_path_is_told) {
  static const uint8_t old[NM_RANDOM_BLOB_SIZE] = {1, 1, 1, 1, 1,
                                                   0, 0, 0, 0, 5};
  static const uint8_t same_time[NM_RANDOM_BLOB_SIZE] = {2, 2, 2, 2, 2,
                                                         0, 0, 0, 0, 5};
  static const uint8_t newer[NM_RANDOM_BLOB_SIZE] = {3, 3, 3, 3, 3,
                                                     0, 0, 0, 0, 6};
  nm_announce_situation s = {.has_path = true,
                             .path_hops = 3,
                             .path_blobs = old,
                             .path_blob_count = 1,
                             .hops = 3,
                             .blob = newer};
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_NEWER);
  s.blob = old;
  s.gravity = 1;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_GRAVITY);
  s.hops = 4;
  s.path_unresponsive = true;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_UNRESPONSIVE);
  s.path_unresponsive = false;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_REFUSED);
  s.blob = newer;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_FARTHER);
  s.path_expired = true;
  s.blob = same_time;
  NM_CHECK_INT(nm_announce_decide(&s), NM_ANNOUNCE_EXPIRED);
  NM_CHECK_INT(nm_blob_emitted(newer), 6);
}

static nm_tristate tristate(const nm_vector *v, const char *path) {
  if (!nm_vector_has(v, path)) {
    return NM_UNSET;
  }
  return nm_vector_bool(v, path) ? NM_YES : NM_NO;
}

static void check_mode_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 600);
  for (size_t i = 0; i < rows; i++) {
    nm_propagation p = {
        .out_mode = (int)nm_vector_number(v, at("output.rows", i, "[0]")),
        .source_mode = (int)nm_vector_number(v, at("output.rows", i, "[1]")),
        .out_from_internal = nm_vector_bool(v, at("output.rows", i, "[2]")),
        .source_to_internal = tristate(v, at("output.rows", i, "[3]")),
        .local = nm_vector_bool(v, at("output.rows", i, "[4]")),
        .hops = 2};
    p.has_path = p.source_mode != 0;
    nm_test_context("row %zu", i);
    NM_CHECK_INT(nm_announce_propagation(&p) != NM_PROPAGATE_BLOCK,
                 nm_vector_bool(v, at("output.rows", i, "[5]")));
  }
}

NM_TEST(announces_propagate_between_modes_as_in_the_vectors) {
  nm_vectors_each(NULL, "announce_mode_matrix", 1, check_mode_rows);
}

NM_TEST(only_relayed_announces_to_open_modes_are_capped) {
  nm_propagation p = {.out_mode = NM_IF_FULL,
                      .source_mode = NM_IF_FULL,
                      .has_path = true,
                      .out_from_internal = true,
                      .hops = 1};
  NM_CHECK_INT(nm_announce_propagation(&p), NM_PROPAGATE_CAP);
  p.hops = 0;
  NM_CHECK_INT(nm_announce_propagation(&p), NM_PROPAGATE_ALLOW);
  p.hops = 1;
  p.out_mode = NM_IF_ROAMING;
  NM_CHECK_INT(nm_announce_propagation(&p), NM_PROPAGATE_ALLOW);
}

static void check_search_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK_INT(rows, 49);
  for (size_t i = 0; i < rows; i++) {
    int mode = (int)nm_vector_number(v, at("output.rows", i, "[0]"));
    int out = (int)nm_vector_number(v, at("output.rows", i, "[1]"));
    nm_test_context("modes %d, %d", mode, out);
    NM_CHECK_INT(nm_path_search_uses(mode, false, out),
                 nm_vector_bool(v, at("output.rows", i, "[2]")));
    NM_CHECK(nm_path_search_uses(mode, true, out));
  }
}

NM_TEST(unknown_paths_are_searched_for_as_in_the_vectors) {
  nm_vectors_each(NULL, "recursive_pr_matrix", 1, check_search_rows);
  NM_CHECK(!nm_path_search_starts(NM_IF_FULL, false));
  NM_CHECK(nm_path_search_starts(NM_IF_FULL, true));
  NM_CHECK(nm_path_search_starts(NM_IF_BOUNDARY, false));
}

static void check_rate_vector(const nm_vector *v) {
  nm_announce_rate rate = {0};
  size_t n = length(v, "input.arrival_times");
  NM_CHECK(n > 0);
  for (size_t i = 0; i < n; i++) {
    nm_test_context("%s, arrival %zu", v->name, i);
    bool blocked = nm_announce_rate_blocks(
        &rate, nm_vector_number(v, at("input.arrival_times", i, "")),
        nm_vector_number(v, "input.target"),
        (uint32_t)nm_vector_u64(v, "input.grace"),
        nm_vector_number(v, "input.penalty"));
    NM_CHECK_INT(blocked,
                 nm_vector_bool(v, at("output.rebroadcast_blocked", i, "")));
  }
}

NM_TEST(frequent_announces_are_blocked_as_in_the_vectors) {
  nm_vectors_each(NULL, "announce_rate", 5, check_rate_vector);
}

static void check_forward_vector(const nm_vector *v) {
  nm_link_route route = {(uint32_t)nm_vector_u64(v, "input.next_hop_interface"),
                         (uint32_t)nm_vector_u64(v, "input.received_interface"),
                         (uint32_t)nm_vector_u64(v, "input.remaining_hops"),
                         (uint32_t)nm_vector_u64(v, "input.taken_hops"),
                         nm_vector_bool(v, "input.validated")};
  nm_packet p = {0};
  NM_CHECK_OK(nm_packet_parse(nm_vector_bytes(v, "input.raw"), &p, NULL));
  nm_link_forwarding f = nm_link_forward(
      &route, (uint32_t)nm_vector_u64(v, "input.arrival_interface"),
      p.hops + 1u);
  uint64_t sent_on = 0;
  if (f == NM_LINK_FORWARD_NEXT) {
    sent_on = route.next_hop_interface;
  } else if (f == NM_LINK_FORWARD_RECEIVED) {
    sent_on = route.received_interface;
  }
  NM_CHECK_INT(sent_on, nm_vector_has(v, "output.sent_on")
                            ? nm_vector_u64(v, "output.sent_on")
                            : 0);
  NM_CHECK_INT(f == NM_LINK_FORWARD_UNPROVEN, !route.validated);
}

NM_TEST(packets_of_transported_links_are_forwarded_as_in_the_vectors) {
  nm_vectors_each(NULL, "link_forward", 24, check_forward_vector);
}

static void check_group_vector(const nm_vector *v) {
  static const struct {
    const char *name;
    char digit;
  } scopes[] = {{"link", '2'},
                {"admin", '4'},
                {"site", '5'},
                {"organisation", '8'},
                {"global", 'e'}};
  const char *group = nm_vector_text(v, "input.group_id");
  const char *scope = nm_vector_text(v, "input.discovery_scope");
  char digit = 0;
  for (size_t i = 0; i < 5; i++) {
    digit = strcmp(scope, scopes[i].name) == 0 ? scopes[i].digit : digit;
  }
  bool permanent = strcmp(nm_vector_text(v, "input.multicast_address_type"),
                          "permanent") == 0;
  char type = permanent ? '0' : '1';
  nm_span id = nm_span_of(group, strlen(group));
  uint8_t address[NM_GROUP_ADDRESS_SIZE];
  NM_CHECK_OK(nm_group_address(id, digit, type, address));
  NM_CHECK_SPAN(nm_span_of(address, sizeof address),
                nm_vector_bytes(v, "output.multicast_address_bytes"));
  char text[NM_GROUP_TEXT_MAX];
  NM_CHECK_OK(nm_group_text(id, digit, type, text));
  NM_CHECK(strcmp(text, nm_vector_text(v, "output.multicast_address_text")) ==
           0);
}

static void check_token_vector(const nm_vector *v) {
  const char *group = nm_vector_text(v, "input.group_id");
  const char *address = nm_vector_text(v, "input.link_local_address");
  uint8_t token[NM_HASH_SIZE];
  nm_discovery_token(nm_span_of(group, strlen(group)),
                     nm_span_of(address, strlen(address)), token);
  NM_CHECK_SPAN(nm_span_of(token, sizeof token),
                nm_vector_bytes(v, "output.token"));
}

static void check_descope_rows(const nm_vector *v) {
  size_t rows = length(v, "output.rows");
  NM_CHECK(rows >= 4);
  for (size_t i = 0; i < rows; i++) {
    const char *in = nm_vector_text(v, at("output.rows", i, ".in"));
    const char *expected = nm_vector_text(v, at("output.rows", i, ".out"));
    char out[64];
    size_t n = nm_descope(nm_span_of(in, strlen(in)), out);
    NM_CHECK_SPAN(nm_span_of(out, n), nm_span_of(expected, strlen(expected)));
  }
}

NM_TEST(automatic_discovery_is_that_of_the_vectors) {
  nm_vectors_each(NULL, "auto_interface_group", 5, check_group_vector);
  nm_vectors_each(NULL, "auto_interface_token", 4, check_token_vector);
  nm_vectors_each(NULL, "auto_interface_descope", 1, check_descope_rows);
  uint8_t address[NM_GROUP_ADDRESS_SIZE];
  char text[NM_GROUP_TEXT_MAX];
  nm_span id = nm_span_of("x", 1);
  NM_CHECK_STATUS(nm_group_address(id, '3', '1', address), NM_E(VALUE));
  NM_CHECK_STATUS(nm_group_address(id, '2', '2', address), NM_E(VALUE));
  NM_CHECK_STATUS(nm_group_text(id, 'E', '1', text), NM_E(VALUE));
}

NM_TEST(addresses_without_a_scope_stay_as_they_are) {
  static const char *const plain[] = {
      "fe80::1", "fe80:1:2::3", "2001:db8::1", "fe80:zz::1", "fe80:", ""};
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
    char out[32];
    nm_span in = nm_span_of(plain[i], strlen(plain[i]));
    nm_test_context("%s", plain[i]);
    NM_CHECK_SPAN(nm_span_of(out, nm_descope(in, out)), in);
  }
}

NM_TEST(a_channel_window_opens_by_the_rtt) {
  nm_channel_window w = nm_channel_window_open(1.46);
  NM_CHECK(w.window == 1 && w.window_max == 1 && w.window_min == 1);
  w = nm_channel_window_open(1.45);
  NM_CHECK(w.window == 2 && w.window_max == 5 && w.window_min == 2);
  NM_CHECK_INT(w.flexibility, 4);
}

/* The window after |n| deliveries at |rtt|. */
static nm_channel_window after(nm_channel_window w, int n, double rtt) {
  for (int i = 0; i < n; i++) {
    w = nm_channel_window_delivered(w, rtt);
  }
  return w;
}

NM_TEST(a_channel_window_grows_with_deliveries_by_the_rtt) {
  nm_channel_window slow = after(nm_channel_window_open(1), 50, 1.0);
  NM_CHECK(slow.window == 5 && slow.window_max == 5);
  nm_channel_window medium = after(nm_channel_window_open(0.5), 10, 0.5);
  NM_CHECK(medium.window_max == 12 && medium.window_min == 5);
  nm_channel_window fast = after(nm_channel_window_open(0.1), 10, 0.1);
  NM_CHECK(fast.window_max == 48 && fast.window_min == 16);
  fast = after(fast, 100, 0.1);
  NM_CHECK_INT(fast.window, 48);
  /* One slow delivery starts the count again. */
  nm_channel_window broken = after(nm_channel_window_open(0.1), 9, 0.1);
  broken = after(broken, 1, 0.5);
  broken = after(broken, 9, 0.1);
  NM_CHECK_INT(broken.window_max, 5);
  /* Without an RTT the window fills but the profile stays. */
  nm_channel_window unknown = after(nm_channel_window_open(0), 50, 0);
  NM_CHECK(unknown.window == 5 && unknown.window_max == 5);
}

NM_TEST(a_channel_window_shrinks_with_timeouts_down_to_its_minimum) {
  nm_channel_window w = after(nm_channel_window_open(0.1), 60, 0.1);
  nm_channel_window once = nm_channel_window_timed_out(w);
  NM_CHECK_INT(once.window, w.window - 1);
  NM_CHECK_INT(once.window_max, w.window_max - 1);
  for (int i = 0; i < 100; i++) {
    w = nm_channel_window_timed_out(w);
  }
  NM_CHECK_INT(w.window, w.window_min);
  NM_CHECK_INT(w.window_max, w.window_min + w.flexibility);
}
