/* A peer that holds valid keys and lies, and a driver whose jobs come back in
 * an order of their own.
 */
#include "engine_net.h"

#include "base/msgpack.h"
#include "support.h"
#include "wire/control.h"
#include "wire/decisions.h"
#include "wire/destination.h"
#include "wire/link.h"

#include <math.h>
#include <string.h>

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

/* Engine 1 listens as |adjust| says and is known to engine 0. */
static net *listening(nm_destination_hash *hash,
                      void (*adjust)(nm_dest_spec *spec)) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "udp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", adjust, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
  return n;
}

/* The same with a link; its reference at both ends. */
static net *linked(nm_destination_hash *hash,
                   void (*adjust)(nm_dest_spec *spec), nm_link_ref ends[2]) {
  net *n = listening(hash, adjust);
  NM_CHECK_OK(nm_engine_handle(n->engines[1], hash, text("/ask"), NM_ALLOW_ALL,
                               NULL, 0));
  ends[0] = net_link(n, 0, hash);
  NM_CHECK(ends[0] != 0);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], ends[0], &info));
  ends[1] = nm_engine_link_by_id(n->engines[1], &info.id);
  return n;
}

/* Feeds engine |to| a packet that the other one seals on the link. */
static nm_drop feed_sealed(net *n, int to, const nm_link_ref ends[2],
                           uint8_t context, nm_span payload) {
  nm_block *raw = NULL;
  int from = 1 - to;
  NM_CHECK_OK(nm_engine_link_seal(n->engines[from], ends[from], NM_DATA,
                                  context, payload, &raw));
  nm_iface_id iface = n->wires[0].ends[to].iface;
  nm_verdict verdict = net_feed(n, to, iface, nm_block_span(raw));
  nm_block_drop(raw);
  return verdict.drop;
}

static uint32_t operations(const net *n, int engine) {
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[engine], &stats);
  return stats.operations;
}

/* ---- advertisements ---- */

static const uint8_t any_hash[NM_HASH_SIZE] = {5};

/* An advertisement of one part that names |request_id| as a response's. */
static nm_resource_adv one_part(const uint8_t *request_id) {
  nm_resource_adv adv = {
      .transfer_size = 256,
      .data_size = 200,
      .parts = 1,
      .hash = nm_span_of(any_hash, sizeof(any_hash)),
      .random = text("rand"),
      .original = nm_span_of(any_hash, sizeof(any_hash)),
      .segment = 1,
      .segments = 1,
      .flags = NM_RESOURCE_ENCRYPTED,
      .hashmap = text("hash"),
  };
  if (request_id != NULL) {
    adv.request_id = nm_span_of(request_id, NM_ADDRESS_SIZE);
    adv.flags |= NM_RESOURCE_IS_RESPONSE;
  }
  return adv;
}

static nm_span encoded(const nm_resource_adv *adv) {
  uint8_t *buffer = nm_test_scratch(512);
  nm_writer w = nm_writer_of(buffer, 512);
  NM_CHECK_OK(nm_resource_adv_encode(adv, &w));
  return nm_writer_done(&w);
}

NM_TEST(a_response_that_cannot_begin_leaves_the_requests_time_running) {
  nm_destination_hash hash;
  nm_link_ref ends[2];
  net *n = linked(&hash, NULL, ends);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], ends[0], text("/ask"),
                                nm_span_of(NULL, 0), 3000000, 0, &op, n->now));
  net_settle(n);
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  /* Two parts are claimed and mapped where the size makes one. */
  nm_resource_adv adv = one_part(asked->request_id);
  adv.parts = 2;
  adv.hashmap = text("hashhush");
  NM_CHECK_INT(feed_sealed(n, 0, ends, NM_CONTEXT_RESOURCE_ADV, encoded(&adv)),
               NM_DROP_RESOURCE_MALFORMED);
  net_pass(n, 3000000);
  nm_event *answer = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(answer != NULL);
  NM_CHECK_STATUS(answer->status, NM_E(TIMEOUT));
  net_dispose(n);
}

static void take_little(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
  spec->resource_max = 1000;
}

/* Says that the resource in an advertisement holds no bytes at all. */
static nm_link_ref liar_link;

static bool claim_nothing(void *user, int from, nm_span raw) {
  net *n = user;
  nm_packet packet = {0};
  if (from != 0 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != NM_CONTEXT_RESOURCE_ADV) {
    return true;
  }
  nm_block *plain = NULL;
  nm_block *forged = NULL;
  nm_resource_adv adv;
  NM_CHECK_OK(nm_engine_link_unseal(n->engines[0], liar_link, raw, &plain));
  NM_CHECK_OK(nm_resource_adv_decode(nm_block_span(plain), &adv, NULL));
  adv.data_size = 0;
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], liar_link, NM_DATA,
                                  NM_CONTEXT_RESOURCE_ADV, encoded(&adv),
                                  &forged));
  (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(forged));
  nm_block_drop(plain);
  nm_block_drop(forged);
  return false;
}

NM_TEST(what_inflates_beyond_its_advertised_size_of_nothing_is_corrupt) {
  nm_destination_hash hash;
  nm_link_ref ends[2];
  net *n = linked(&hash, take_little, ends);
  liar_link = ends[0];
  n->wires[0].filter = claim_nothing;
  n->wires[0].user = n;
  nm_block *zeros = nm_block_new(&nm_mem_system, 100000);
  memset(nm_block_bytes(zeros), 0, 100000);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_resource_send(
      n->engines[0], ends[0], zeros, nm_span_of(NULL, 0),
      NM_RESOURCE_COMPRESS_WHEN_SMALLER, 0, &op, n->now));
  net_settle(n);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) == NULL);
  nm_event *failed = net_find(n, 1, NM_EVENT_RESOURCE_IN_FAILED);
  NM_CHECK(failed != NULL);
  NM_CHECK_INT(failed->state, NM_RESOURCE_CORRUPT);
  NM_CHECK_STATUS(failed->status, NM_E(LIMIT));
  nm_block_drop(zeros);
  net_dispose(n);
}

static void hold_resources(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
  spec->hold_resources = true;
}

NM_TEST(a_resource_that_cannot_be_held_is_not_proven) {
  nm_destination_hash hash;
  nm_link_ref ends[2];
  net *n = linked(&hash, hold_resources, ends);
  nm_op_id op;
  for (int i = 0; i < 1024; i++) { /* all that may wait on one link */
    NM_CHECK_OK(nm_engine_request(n->engines[0], ends[0], text("/ask"),
                                  nm_span_of(NULL, 0), 0, 0, &op, n->now));
  }
  net_settle(n);
  nm_block *content = nm_block_new(&nm_mem_system, 100);
  memset(nm_block_bytes(content), 1, 100);
  NM_CHECK_OK(nm_engine_resource_send(
      n->engines[0], ends[0], content, nm_span_of(NULL, 0),
      NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  net_settle(n);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) == NULL);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN_FAILED) != NULL);
  nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_REJECTED);
  nm_block_drop(content);
  net_dispose(n);
}

/* ---- requests ---- */

NM_TEST(a_peers_absurd_time_is_cut_off) {
  static const struct {
    double seconds;
    int64_t us;
  } cases[] = {{INFINITY, 9007199254740992},
               {-INFINITY, -9007199254740992},
               {NAN, 0},
               {1e300, 9007199254740992},
               {-1e300, -9007199254740992},
               {1.5, 1500000}};
  nm_destination_hash hash;
  nm_link_ref ends[2];
  uint8_t path[NM_ADDRESS_SIZE];
  net *n = linked(&hash, NULL, ends);
  nm_request_path_hash(text("/ask"), path);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    net_forget(n);
    uint8_t packed[64];
    nm_writer w = nm_writer_of(packed, sizeof(packed));
    nm_request request = {.timestamp = cases[i].seconds,
                          .path_hash = nm_span_of(path, sizeof(path))};
    NM_CHECK_OK(nm_request_write(&w, &request));
    NM_CHECK_INT(
        feed_sealed(n, 1, ends, NM_CONTEXT_REQUEST, nm_writer_done(&w)),
        NM_DROP_NONE);
    net_settle(n);
    nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
    NM_CHECK(asked != NULL);
    NM_CHECK_INT(asked->wire_time_us, cases[i].us);
  }
  net_dispose(n);
}

static int parts_seen;

/* Counts the parts of engine 1, and loses them as long as |user| says. */
static bool count_parts(void *user, int from, nm_span raw) {
  nm_packet packet = {0};
  if (from == 0 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != NM_CONTEXT_RESOURCE) {
    return true;
  }
  parts_seen++;
  return *(const bool *)user;
}

NM_TEST(a_cancelled_request_ends_the_transfer_of_its_response) {
  nm_destination_hash hash;
  nm_link_ref ends[2];
  bool pass = false;
  net *n = linked(&hash, NULL, ends);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], ends[0], text("/ask"),
                                nm_span_of(NULL, 0), 0, 0, &op, n->now));
  net_settle(n);
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  n->wires[0].filter = count_parts;
  n->wires[0].user = &pass;
  uint8_t *answer = nm_test_scratch(200008);
  uint8_t *content = nm_test_scratch(200000);
  nm_test_random_bytes(content, 200000);
  nm_writer w = nm_writer_of(answer, 200008);
  nm_mp_bin(&w, nm_span_of(content, 200000));
  NM_CHECK_OK(nm_engine_respond(n->engines[1], asked->token, nm_writer_done(&w),
                                false, n->now));
  net_settle(n);
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], op, n->now));
  parts_seen = 0;
  pass = true;
  net_pass(n, 1000000);
  NM_CHECK(parts_seen <= 10);
  nm_link_info info[2];
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], ends[0], &info[0]));
  NM_CHECK_OK(nm_engine_link_info(n->engines[1], ends[1], &info[1]));
  NM_CHECK_INT(info[0].transfers_in, 0);
  NM_CHECK_INT(info[1].transfers_out, 0);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 1);
  net_dispose(n);
}

NM_TEST(a_cancelled_request_takes_back_the_resource_that_carries_it) {
  nm_destination_hash hash;
  nm_link_ref ends[2];
  net *n = linked(&hash, NULL, ends);
  uint8_t *data = nm_test_scratch(20008);
  uint8_t *content = nm_test_scratch(20000);
  nm_test_random_bytes(content, 20000);
  nm_writer w = nm_writer_of(data, 20008);
  nm_mp_bin(&w, nm_span_of(content, 20000));
  n->wires[0].cut = true;
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], ends[0], text("/ask"),
                                nm_writer_done(&w), 0, 0, &op, n->now));
  net_settle(n);
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], op, n->now));
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], ends[0], &info));
  NM_CHECK_INT(info.transfers_out, 0);
  net_settle(n);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 1);
  net_dispose(n);
}

/* ---- links ---- */

static nm_block *kept_rtt;

static bool keep_rtt_back(void *user, int from, nm_span raw) {
  (void)user;
  nm_packet packet = {0};
  if (from == 0 && nm_packet_parse(raw, &packet, NULL) == NM_OK &&
      packet.context == NM_CONTEXT_LRRTT) {
    kept_rtt = nm_block_copy(&nm_mem_system, raw);
    return false;
  }
  return true;
}

NM_TEST(an_identification_may_overtake_the_rtt_packet) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  n->wires[0].filter = keep_rtt_back;
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK(kept_rtt != NULL);
  nm_identity me = net_identity(9);
  NM_CHECK_OK(nm_engine_link_identify(n->engines[0], link, &me, n->now));
  net_settle(n);
  nm_iface_id iface = n->wires[0].ends[1].iface;
  NM_CHECK_INT(net_feed(n, 1, iface, nm_block_span(kept_rtt)).drop,
               NM_DROP_NONE);
  net_settle(n);
  nm_event *told = net_find(n, 1, NM_EVENT_LINK_IDENTIFIED);
  NM_CHECK(told != NULL);
  NM_CHECK_BYTES(told->identity.b, me.hash.b, 16);
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(active != NULL);
  NM_CHECK_BYTES(active->identity.b, me.hash.b, 16);
  nm_block_drop(kept_rtt);
  kept_rtt = NULL;
  net_dispose(n);
}

NM_TEST(an_mtu_that_no_medium_has_is_refused) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  static const uint32_t mtus[] = {37, 499, 500};
  for (size_t i = 0; i < 3; i++) {
    uint8_t keys[2][NM_KEY_SIZE];
    uint8_t signalling[NM_SIGNALLING_SIZE];
    uint8_t payload[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
    uint8_t raw[128];
    size_t len = 0;
    nm_test_random_bytes(keys, sizeof(keys));
    NM_CHECK_OK(
        nm_link_signalling_pack(mtus[i], NM_MODE_AES256_CBC, signalling));
    nm_writer w = nm_writer_of(payload, sizeof(payload));
    NM_CHECK_OK(nm_link_request_write(&w, keys[0], keys[1], signalling));
    nm_packet packet = nm_packet_of(NM_LINKREQUEST, NM_SINGLE, NM_CONTEXT_NONE,
                                    hash.b, nm_writer_done(&w));
    NM_CHECK_OK(nm_packet_pack(&packet, NM_PACKET_ORIGINATE, NM_MTU, raw,
                               sizeof(raw), &len, NULL));
    NM_CHECK_INT(
        net_feed(n, 1, n->wires[0].ends[1].iface, nm_span_of(raw, len)).drop,
        mtus[i] < 500 ? NM_DROP_LINK_REQUEST_MALFORMED : NM_DROP_NONE);
  }
  net_settle(n);
  net_dispose(n);
}

static int path_requests;

static bool count_path_requests(void *user, int from, nm_span raw) {
  (void)user;
  nm_packet packet = {0};
  if (from == 0 && nm_packet_parse(raw, &packet, NULL) == NM_OK &&
      packet.destination_type == NM_PLAIN) {
    path_requests++;
  }
  return false;
}

NM_TEST(many_links_that_time_out_ask_for_one_path) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  path_requests = 0;
  n->wires[0].filter = count_path_requests;
  for (int i = 0; i < 100; i++) {
    NM_CHECK(net_link(n, 0, &hash) != 0);
    net_pass(n, 10000);
  }
  net_pass(n, 15000000);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_LINK_CLOSED), 100);
  NM_CHECK_INT(path_requests, 1);
  net_dispose(n);
}

/* ---- paths ---- */

NM_TEST(a_path_request_on_no_interface_starts_no_operation) {
  nm_destination_hash hash = {{1}};
  net *n = listening(&hash, NULL);
  nm_destination_hash nobody = {{9}};
  nm_op_id op = 0;
  NM_CHECK_STATUS(nm_engine_request_path(n->engines[0], &nobody, 99, NULL,
                                         1000000, &op, n->now),
                  NM_E(MISSING));
  NM_CHECK_INT(operations(n, 0), 0);
  net_dispose(n);
}

NM_TEST(too_many_awaited_paths_are_a_limit_not_a_lack_of_memory) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  int status = NM_OK;
  int asked = 0;
  while (status == NM_OK && asked < 10000) {
    nm_destination_hash nobody = {{0}};
    nm_op_id op;
    memcpy(nobody.b, &asked, sizeof(asked));
    status = nm_engine_request_path(n->engines[0], &nobody, 0, NULL, 1000000,
                                    &op, n->now);
    asked += status == NM_OK;
  }
  NM_CHECK_STATUS(status, NM_E(LIMIT));
  NM_CHECK_INT(operations(n, 0), (uint32_t)asked);
  net_pass(n, 1000000);
  NM_CHECK_INT(operations(n, 0), 0);
  net_dispose(n);
}

NM_TEST(a_path_that_is_refused_leaves_no_trace) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_path_record record = {.destination = {{9}}, .hops = 1};
  record.iface = n->wires[0].ends[0].iface;
  record.blobs = nm_block_copy(&nm_mem_system, text("no blob"));
  NM_CHECK_STATUS(nm_engine_path_put(n->engines[0], &record), NM_E(ARGUMENT));
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[0], &stats);
  NM_CHECK_INT(stats.paths, 1);
  nm_path_record_dispose(&record);
  net_dispose(n);
}

NM_TEST(a_path_that_was_put_in_by_hand_serves_who_waits) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_path_record record = {.destination = {{9}}, .hops = 3};
  record.iface = n->wires[0].ends[0].iface;
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &record.destination, 0,
                                     NULL, 1000000, &op, n->now));
  NM_CHECK_OK(nm_engine_path_put(n->engines[0], &record));
  net_pass(n, 1000000);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_OK(result->status);
  NM_CHECK_INT(result->hops, 3);
  net_dispose(n);
}

/* ---- jobs out of step ---- */

/* Runs engine |i|'s next job; false when there is none. */
static bool run_one(net *n, int i) {
  nm_job *job = nm_engine_job(n->engines[i]);
  if (job == NULL) {
    return false;
  }
  if (nm_job_kind_of(job) == NM_JOB_STORE) {
    nm_job_store_result(job, true);
  } else {
    nm_job_run(job, &n->cipher);
  }
  nm_engine_job_done(n->engines[i], job, n->now);
  return true;
}

NM_TEST(an_identity_blackholed_during_the_check_is_not_learned) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_announce(n->engines[1], &hash, NULL, 0, false, &op, n->now));
  while (run_one(n, 1)) {
  }
  nm_output out;
  NM_CHECK(nm_engine_output(n->engines[1], &out));
  nm_verdict verdict =
      net_feed(n, 0, n->wires[0].ends[0].iface, nm_block_span(out.packet));
  NM_CHECK(verdict.pending);
  nm_block_drop(out.packet);
  nm_identity owner = net_identity(7);
  NM_CHECK_OK(
      nm_engine_blackhole(n->engines[0], &owner.hash, 0, text("spam"), n->now));
  NM_CHECK(run_one(n, 0));
  nm_record record;
  NM_CHECK(nm_engine_record(n->engines[0], verdict.seq, &record));
  NM_CHECK_INT(record.code, NM_DROP_ANNOUNCE_BLACKHOLED);
  NM_CHECK_INT(nm_engine_hops(n->engines[0], &hash), NM_HOPS_UNKNOWN);
  net_dispose(n);
}

NM_TEST(an_announce_is_newer_than_the_last_while_the_clock_is_behind) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  uint64_t first = (uint64_t)n->now.unix_us / 1000000;
  n->now.unix_us -= 86400 * INT64_C(1000000);
  for (uint64_t i = 1; i <= 2; i++) {
    NM_CHECK_OK(net_announce(n, 1, &hash));
    nm_path_record path;
    NM_CHECK(nm_engine_path_get(n->engines[0], &hash, &path));
    nm_span blobs = nm_block_span(path.blobs);
    NM_CHECK_INT(blobs.len, (i + 1) * NM_RANDOM_BLOB_SIZE);
    nm_span last =
        nm_span_slice(blobs, i * NM_RANDOM_BLOB_SIZE, NM_RANDOM_BLOB_SIZE);
    NM_CHECK_INT(nm_blob_emitted(last.ptr), first + i);
    nm_path_record_dispose(&path);
  }
  net_dispose(n);
}

static void with_ratchets(nm_dest_spec *spec) {
  spec->ratchets = true;
}

NM_TEST(announces_during_a_rotation_lose_no_ratchet) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", with_ratchets, &hash));
  nm_op_id ops[2];
  for (int i = 0; i < 2; i++) {
    NM_CHECK_OK(nm_engine_announce(n->engines[1], &hash, NULL, 0, false,
                                   &ops[i], n->now));
  }
  NM_CHECK_OK(nm_engine_rotate(n->engines[1], &hash, n->now));
  net_settle(n);
  /* One rotation for both announces, then the one asked for. */
  uint8_t ids[4][NM_NAME_HASH_SIZE];
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[1], &hash, ids, 4), 2);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_ANNOUNCED), 2);
  uint8_t announced[NM_KEY_SIZE];
  NM_CHECK(nm_engine_ratchet_of(n->engines[0], &hash, announced, n->now));
  uint8_t id[NM_NAME_HASH_SIZE];
  nm_ratchet_id(id, announced);
  NM_CHECK(memcmp(id, ids[0], sizeof(id)) == 0 ||
           memcmp(id, ids[1], sizeof(id)) == 0);
  net_dispose(n);
}

NM_TEST(a_cancelled_rotation_does_not_hold_up_the_next_announce) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", with_ratchets, &hash));
  nm_op_id first;
  nm_op_id second;
  NM_CHECK_OK(
      nm_engine_announce(n->engines[1], &hash, NULL, 0, false, &first, n->now));
  NM_CHECK_OK(nm_engine_announce(n->engines[1], &hash, NULL, 0, false, &second,
                                 n->now));
  NM_CHECK_OK(nm_engine_cancel(n->engines[1], first, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_ANNOUNCED), 2);
  NM_CHECK_INT(operations(n, 1), 0);
  NM_CHECK_INT(nm_engine_hops(n->engines[0], &hash), 1);
  net_dispose(n);
}

NM_TEST(a_destination_that_goes_ends_its_announces) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", with_ratchets, &hash));
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_announce(n->engines[1], &hash, NULL, 0, false, &op, n->now));
  NM_CHECK_OK(nm_engine_unlisten(n->engines[1], &hash, n->now));
  net_settle(n);
  nm_event *done = net_find(n, 1, NM_EVENT_ANNOUNCED);
  NM_CHECK(done != NULL);
  NM_CHECK_STATUS(done->status, NM_E(MISSING));
  net_dispose(n);
}

NM_TEST(fewer_ratchets_may_be_retained_than_were_stored) {
  nm_destination_hash hash;
  net *n = listening(&hash, with_ratchets);
  NM_CHECK_OK(nm_engine_rotate(n->engines[1], &hash, n->now));
  net_settle(n);
  nm_block *file = NULL;
  NM_CHECK_OK(nm_engine_ratchet_file(n->engines[1], &hash, &file));
  uint8_t ids[2][NM_NAME_HASH_SIZE];
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[1], &hash, ids, 2), 2);
  NM_CHECK_OK(nm_engine_unlisten(n->engines[1], &hash, n->now));
  nm_identity identity = net_identity(7);
  nm_dest_spec spec;
  nm_dest_spec_default(&spec);
  spec.identity = &identity;
  spec.name = text("test.echo");
  spec.ratchets = true;
  spec.ratchets_retained = 1;
  spec.ratchet_file = nm_block_span(file);
  NM_CHECK_OK(nm_engine_listen(n->engines[1], &spec, &hash, n->now));
  uint8_t left[2][NM_NAME_HASH_SIZE];
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[1], &hash, left, 2), 1);
  NM_CHECK_BYTES(left[0], ids[0], NM_NAME_HASH_SIZE);
  nm_block_drop(file);
  net_dispose(n);
}

/* ---- several interfaces ---- */

/* Takes all outputs of engine 0 and reports each as |ok| says by interface. */
static void report_outputs(net *n, const bool ok[2]) {
  nm_output out;
  while (run_one(n, 0)) {
  }
  while (nm_engine_output(n->engines[0], &out)) {
    bool second = out.iface == n->wires[1].ends[0].iface;
    if (out.op != 0) {
      nm_engine_sent(n->engines[0], out.op, ok[second], n->now);
    }
    nm_block_drop(out.packet);
  }
  nm_event event;
  while (nm_engine_event(n->engines[0], &event)) {
    n->events[0][n->event_count[0]++] = event;
  }
}

NM_TEST(an_announce_fails_only_when_every_interface_fails) {
  for (int outcome = 0; outcome < 4; outcome++) {
    nm_destination_hash hash;
    net *n = nm_test_scratch(sizeof(net));
    NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
    NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
    NM_CHECK_INT(net_join(n, 0, 1, "udp"), 1);
    NM_CHECK_OK(net_listen(n, 0, 7, "test.echo", NULL, &hash));
    nm_op_id op;
    NM_CHECK_OK(
        nm_engine_announce(n->engines[0], &hash, NULL, 0, false, &op, n->now));
    const bool ok[2] = {(outcome & 1) != 0, (outcome & 2) != 0};
    report_outputs(n, ok);
    nm_event *done = net_find(n, 0, NM_EVENT_ANNOUNCED);
    NM_CHECK(done != NULL);
    NM_CHECK_STATUS(done->status, outcome == 0 ? NM_E(STATE) : NM_OK);
    NM_CHECK_INT(net_count(n, 0, NM_EVENT_ANNOUNCED), 1);
    net_dispose(n);
  }
}

NM_TEST(a_packet_fails_only_when_every_interface_fails) {
  for (int outcome = 0; outcome < 4; outcome++) {
    net *n = nm_test_scratch(sizeof(net));
    NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
    NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
    NM_CHECK_INT(net_join(n, 0, 1, "udp"), 1);
    nm_identity to = net_identity(7);
    nm_send_spec spec;
    nm_send_spec_default(&spec);
    spec.destination.b[0] = 1;
    spec.payload = text("x");
    NM_CHECK_OK(nm_engine_remember(n->engines[0], &spec.destination, &to, NULL,
                                   n->now));
    nm_op_id op;
    NM_CHECK_OK(nm_engine_send(n->engines[0], &spec, &op, n->now));
    const bool ok[2] = {(outcome & 1) != 0, (outcome & 2) != 0};
    report_outputs(n, ok);
    NM_CHECK_INT(net_count(n, 0, NM_EVENT_RECEIPT), outcome == 0);
    net_dispose(n);
  }
}

NM_TEST(a_receipt_shows_the_proof_that_ended_it) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  NM_CHECK_OK(nm_engine_set_prove(n->engines[1], &hash, NM_PROVE_ALL, false));
  nm_send_spec spec;
  nm_send_spec_default(&spec);
  spec.destination = hash;
  spec.payload = text("hello");
  nm_op_id op;
  NM_CHECK_OK(nm_engine_send(n->engines[0], &spec, &op, n->now));
  net_settle(n);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL && receipt->data != NULL);
  nm_packet packet = {0};
  NM_CHECK_OK(nm_packet_parse(nm_block_span(receipt->data), &packet, NULL));
  NM_CHECK_INT(packet.packet_type, NM_PROOF);
  NM_CHECK_INT(packet.payload.len, NM_PROOF_IMPLICIT_SIZE);
  net_dispose(n);
}

/* ---- limits ---- */

NM_TEST(a_full_table_of_links_is_not_called_a_lack_of_memory) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  nm_engine_config config;
  nm_engine_config_default(&config);
  config.limits.links = 1;
  int status = NM_OK;
  nm_engine_free(n->engines[1]);
  n->engines[1] =
      nm_engine_new(&nm_mem_system, &n->sources[1], &config, n->now, &status);
  NM_CHECK_OK(status);
  nm_engine_credit(n->engines[1], 100, n->now);
  NM_CHECK_INT(net_join(n, 0, 1, "udp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  NM_CHECK(net_link(n, 0, &hash) != 0);
  NM_CHECK(net_link(n, 0, &hash) != 0);
  NM_CHECK_INT(n->last_verdict[1].drop, NM_DROP_NOT_ACCEPTING);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.links_refused, 1);
  NM_CHECK_INT(stats.held_for_credit, 0);
  net_dispose(n);
}
