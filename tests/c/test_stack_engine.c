/* The engine among its own kind: what an endpoint does, step by step. */
#include "engine_net.h"

#include "base/msgpack.h"
#include "support.h"

#include <string.h>

static net *pair(const nm_mem *mem, const char *kind) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, mem, 2));
  NM_CHECK_INT(net_join(n, 0, 1, kind), 0);
  return n;
}

static void prove_all(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
}

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

/* Engine 1 listens, proves everything, and has announced itself. */
static net *listening(nm_destination_hash *hash,
                      void (*adjust)(nm_dest_spec *spec)) {
  net *n = pair(&nm_mem_system, "tcp");
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", adjust, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
  return n;
}

/* Engine 0 sends |what| in one packet and wants a receipt. */
static nm_op_id send_text(net *n, const nm_destination_hash *to,
                          const char *what) {
  nm_send_spec spec;
  nm_op_id op = 0;
  nm_send_spec_default(&spec);
  spec.destination = *to;
  spec.payload = text(what);
  NM_CHECK_OK(nm_engine_send(n->engines[0], &spec, &op, n->now));
  return op;
}

NM_TEST(an_announce_teaches_the_neighbour_a_path_and_a_key) {
  nm_destination_hash hash;
  net *n = pair(&nm_mem_system, "tcp");
  nm_span name = text("test.echo");
  NM_CHECK(nm_engine_subscribe(n->engines[0], &name, false) > 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  nm_event *done = net_find(n, 1, NM_EVENT_ANNOUNCED);
  NM_CHECK(done != NULL && done->status == NM_OK);
  nm_event *heard = net_find(n, 0, NM_EVENT_ANNOUNCE);
  NM_CHECK(heard != NULL);
  NM_CHECK_BYTES(heard->destination.b, hash.b, 16);
  NM_CHECK_INT(heard->hops, 1);
  NM_CHECK(!heard->has_app_data);
  NM_CHECK_INT(nm_engine_hops(n->engines[0], &hash), 1);
  nm_identity known;
  NM_CHECK(nm_engine_recall(n->engines[0], &hash, &known, NULL, NULL, n->now));
  nm_identity own = net_identity(7);
  NM_CHECK_BYTES(known.public_key, own.public_key, NM_PUBLIC_SIZE);
  net_dispose(n);
}

NM_TEST(a_packet_is_delivered_and_its_proof_ends_the_receipt) {
  nm_destination_hash hash;
  net *n = listening(&hash, prove_all);
  nm_op_id op = send_text(n, &hash, "hello");
  net_settle(n);
  nm_event *packet = net_find(n, 1, NM_EVENT_PACKET);
  NM_CHECK(packet != NULL);
  NM_CHECK_SPAN(nm_block_span(packet->data), text("hello"));
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_INT(receipt->state, NM_RECEIPT_DELIVERED);
  NM_CHECK_INT(receipt->op, op);
  net_dispose(n);
}

NM_TEST(without_credit_a_packet_is_neither_delivered_nor_proven) {
  nm_destination_hash hash;
  net *n = pair(&nm_mem_system, "tcp");
  /* All credit gone: a fresh engine has none. */
  nm_engine_config config;
  int status;
  nm_engine_config_default(&config);
  nm_engine_free(n->engines[1]);
  n->engines[1] =
      nm_engine_new(&nm_mem_system, &n->sources[1], &config, n->now, &status);
  nm_iface_spec iface;
  NM_CHECK_OK(nm_iface_spec_default(&iface, "tcp", "again"));
  NM_CHECK_OK(nm_engine_iface_add(n->engines[1], &iface,
                                  &n->wires[0].ends[1].iface, n->now));
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", prove_all, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  (void)send_text(n, &hash, "hello");
  net_settle(n);
  NM_CHECK(net_find(n, 1, NM_EVENT_PACKET) == NULL);
  NM_CHECK(net_find(n, 0, NM_EVENT_RECEIPT) == NULL);
  NM_CHECK_INT(n->last_verdict[1].drop, NM_DROP_NO_CREDIT);
  NM_CHECK(!n->last_verdict[1].remembered);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.held_for_credit, 1);
  net_dispose(n);
}

NM_TEST(a_receipt_fails_when_no_proof_comes_in_time) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  (void)send_text(n, &hash, "hello");
  net_pass(n, 11000000);
  NM_CHECK(net_find(n, 0, NM_EVENT_RECEIPT) == NULL);
  net_pass(n, 2000000);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_INT(receipt->state, NM_RECEIPT_FAILED);
  NM_CHECK_INT(receipt->stage, NM_STAGE_PROOF);
  net_dispose(n);
}

NM_TEST(a_held_packet_is_proven_only_after_it_was_accepted) {
  nm_destination_hash hash;
  net *n = listening(&hash, prove_all);
  NM_CHECK_OK(nm_engine_set_prove(n->engines[1], &hash, NM_PROVE_ALL, true));
  (void)send_text(n, &hash, "durable first");
  net_settle(n);
  nm_event *packet = net_find(n, 1, NM_EVENT_PACKET);
  NM_CHECK(packet != NULL && packet->token != 0);
  NM_CHECK(net_find(n, 0, NM_EVENT_RECEIPT) == NULL);
  NM_CHECK_OK(nm_engine_accept(n->engines[1], packet->token, n->now));
  NM_CHECK_STATUS(nm_engine_accept(n->engines[1], packet->token, n->now),
                  NM_E(STATE));
  net_settle(n);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_INT(receipt->state, NM_RECEIPT_DELIVERED);
  net_dispose(n);
}

static void with_ratchets(nm_dest_spec *spec) {
  spec->ratchets = true;
  spec->prove = NM_PROVE_ALL;
}

NM_TEST(an_announced_ratchet_opens_what_is_sent_next) {
  nm_destination_hash hash;
  net *n = listening(&hash, with_ratchets);
  uint8_t ids[4][NM_NAME_HASH_SIZE];
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[1], &hash, ids, 4), 1);
  (void)send_text(n, &hash, "forward secret");
  net_settle(n);
  nm_event *packet = net_find(n, 1, NM_EVENT_PACKET);
  NM_CHECK(packet != NULL && packet->has_ratchet_id);
  NM_CHECK_BYTES(packet->ratchet_id, ids[0], NM_NAME_HASH_SIZE);
  net_dispose(n);
}

NM_TEST(a_ratchet_that_cannot_be_stored_is_not_announced) {
  nm_destination_hash hash;
  net *n = pair(&nm_mem_system, "tcp");
  n->store_fails = true;
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", with_ratchets, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  nm_event *done = net_find(n, 1, NM_EVENT_ANNOUNCED);
  NM_CHECK(done != NULL);
  NM_CHECK_INT(done->stage, NM_STAGE_STORE);
  NM_CHECK_INT(n->packets, 0);
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[1], &hash, NULL, 0), 0);
  net_dispose(n);
}

NM_TEST(a_path_request_is_answered_by_the_destination_itself) {
  nm_destination_hash hash;
  net *n = pair(&nm_mem_system, "tcp");
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 5000000,
                                     &op, n->now));
  net_settle(n);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_OK(result->status);
  NM_CHECK_INT(result->hops, 1);
  NM_CHECK_INT(result->op, op);
  net_dispose(n);
}

NM_TEST(a_path_request_for_nobody_ends_at_its_time_out) {
  net *n = pair(&nm_mem_system, "tcp");
  nm_destination_hash hash = {{1, 2, 3}};
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 5000000,
                                     &op, n->now));
  net_pass(n, 4999999);
  NM_CHECK(net_find(n, 0, NM_EVENT_PATH_RESULT) == NULL);
  net_pass(n, 1);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_STATUS(result->status, NM_E(TIMEOUT));
  NM_CHECK_INT(result->stage, NM_STAGE_PATH);
  net_dispose(n);
}

NM_TEST(a_thousand_sends_to_nobody_cause_one_path_request) {
  net *n = pair(&nm_mem_system, "tcp");
  nm_destination_hash hash = {{1, 2, 3}};
  for (int i = 0; i < 1000; i++) {
    nm_op_id op;
    NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 9000000,
                                       &op, n->now));
    net_pass(n, 9000);
  }
  NM_CHECK_INT(n->packets, 1);
  net_pass(n, 10000000);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_PATH_RESULT), 1000);
  net_dispose(n);
}

NM_TEST(an_old_announce_does_not_replace_a_fresh_path) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  net_pass(n, 10000000);
  NM_CHECK_OK(net_announce(n, 1, &hash));
  nm_path_record path;
  NM_CHECK(nm_engine_path_get(n->engines[0], &hash, &path));
  nm_block *fresh = path.announce;
  /* The fresh announce again: the filter lets announces pass, the blob does
   * not. */
  nm_verdict verdict =
      net_feed(n, 0, n->wires[0].ends[0].iface, nm_block_span(fresh));
  NM_CHECK_INT(verdict.drop, NM_DROP_ANNOUNCE_REPLAY);
  nm_path_record_dispose(&path);
  net_dispose(n);
}

NM_TEST(announces_of_one_second_are_all_taken) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_span name = text("test.echo");
  NM_CHECK(nm_engine_subscribe(n->engines[0], &name, false) > 0);
  int64_t last = 0;
  for (int i = 0; i < 3; i++) {
    net_forget(n);
    NM_CHECK_OK(net_announce(n, 1, &hash));
    nm_event *heard = net_find(n, 0, NM_EVENT_ANNOUNCE);
    NM_CHECK(heard != NULL);
    NM_CHECK(heard->wire_time_us > last);
    last = heard->wire_time_us;
  }
  for (int i = 0; i < 100; i++) {
    NM_CHECK_OK(net_announce(n, 1, &hash));
  }
  nm_event *sent = net_find(n, 1, NM_EVENT_ANNOUNCED);
  NM_CHECK(sent != NULL);
  nm_ratchet_state state;
  NM_CHECK_OK(nm_engine_ratchet_state(n->engines[1], &hash, &state));
  NM_CHECK(state.last_emitted <= (uint64_t)n->now.unix_us / 1000000 + 5);
  net_dispose(n);
}

/* ---- links ---- */

NM_TEST(a_link_comes_up_on_both_sides_with_the_interfaces_mtu) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK(link != 0);
  nm_event *here = net_find(n, 0, NM_EVENT_LINK_ACTIVE);
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(here != NULL && here->initiator);
  NM_CHECK(there != NULL && !there->initiator);
  NM_CHECK_BYTES(here->link_id.b, there->link_id.b, 16);
  NM_CHECK_INT(here->total_bytes, 16384);
  NM_CHECK_INT(there->total_bytes, 16384);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.state, NM_LINK_ACTIVE);
  NM_CHECK_INT(info.mtu, 16384);
  NM_CHECK_INT(info.mdu, 16303);
  NM_CHECK(!info.holds_ephemeral);
  NM_CHECK(info.holds_session_key);
  net_dispose(n);
}

NM_TEST(a_link_request_without_answer_closes_at_its_time_out) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  n->wires[0].cut = true;
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK(link != 0);
  net_pass(n, 12000399);
  NM_CHECK(net_find(n, 0, NM_EVENT_LINK_CLOSED) == NULL);
  net_pass(n, 1);
  nm_event *closed = net_find(n, 0, NM_EVENT_LINK_CLOSED);
  NM_CHECK(closed != NULL);
  NM_CHECK_INT(closed->close_reason, NM_CLOSE_TIMEOUT);
  net_dispose(n);
}

NM_TEST(data_on_a_link_is_delivered_and_proven) {
  nm_destination_hash hash;
  net *n = listening(&hash, prove_all);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_op_id op;
  nm_packet_hash sent;
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("over the link"),
                                  true, 0, &op, &sent, n->now));
  net_settle(n);
  nm_event *packet = net_find(n, 1, NM_EVENT_LINK_PACKET);
  NM_CHECK(packet != NULL);
  NM_CHECK_SPAN(nm_block_span(packet->data), text("over the link"));
  NM_CHECK_BYTES(packet->packet_hash.b, sent.b, NM_HASH_SIZE);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_INT(receipt->state, NM_RECEIPT_DELIVERED);
  net_dispose(n);
}

NM_TEST(a_closed_link_tells_both_sides_and_forgets_its_secrets) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK_OK(nm_engine_link_close(n->engines[0], link, n->now));
  net_settle(n);
  nm_event *here = net_find(n, 0, NM_EVENT_LINK_CLOSED);
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_CLOSED);
  NM_CHECK(here != NULL && there != NULL);
  NM_CHECK_INT(here->close_reason, NM_CLOSE_INITIATOR);
  NM_CHECK_INT(there->close_reason, NM_CLOSE_INITIATOR);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK(!info.holds_session_key && !info.holds_ephemeral);
  NM_CHECK_OK(nm_engine_link_close(n->engines[0], link, n->now));
  net_pass(n, 61000000);
  NM_CHECK_STATUS(nm_engine_link_info(n->engines[0], link, &info),
                  NM_E(MISSING));
  net_dispose(n);
}

NM_TEST(the_initiator_identifies_once) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_identity me = net_identity(9);
  NM_CHECK_OK(nm_engine_link_identify(n->engines[0], link, &me, n->now));
  net_settle(n);
  NM_CHECK_OK(nm_engine_link_identify(n->engines[0], link, &me, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_LINK_IDENTIFIED), 1);
  nm_event *told = net_find(n, 1, NM_EVENT_LINK_IDENTIFIED);
  NM_CHECK_BYTES(told->identity.b, me.hash.b, 16);
  NM_CHECK_SPAN(nm_block_span(told->public_key),
                nm_span_of(me.public_key, NM_PUBLIC_SIZE));
  net_dispose(n);
}

NM_TEST(keepalives_keep_an_idle_link_up_and_silence_ends_it) {
  nm_destination_hash hash;
  net *n = listening(&hash, NULL);
  nm_link_ref link = net_link(n, 0, &hash);
  net_pass(n, 100000000);
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[0], link, &info));
  NM_CHECK_INT(info.state, NM_LINK_ACTIVE);
  n->wires[0].cut = true;
  net_pass(n, 25000000);
  nm_event *here = net_find(n, 0, NM_EVENT_LINK_CLOSED);
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_CLOSED);
  NM_CHECK(here != NULL && there != NULL);
  NM_CHECK_INT(here->close_reason, NM_CLOSE_TIMEOUT);
  net_dispose(n);
}

/* ---- requests ---- */

static net *serving(nm_destination_hash *hash, nm_link_ref *link) {
  net *n = listening(hash, NULL);
  NM_CHECK_OK(nm_engine_handle(n->engines[1], hash, text("/echo"), NM_ALLOW_ALL,
                               NULL, 0));
  *link = net_link(n, 0, hash);
  NM_CHECK(*link != 0);
  return n;
}

static nm_span packed_bin(size_t len) {
  uint8_t *buffer = nm_test_scratch(len + 8);
  uint8_t *content = nm_test_scratch(len + 1);
  nm_test_random_bytes(content, len);
  nm_writer w = nm_writer_of(buffer, len + 8);
  nm_mp_bin(&w, nm_span_of(content, len));
  return nm_writer_done(&w);
}

static void echo_of(size_t len) {
  nm_destination_hash hash;
  nm_link_ref link;
  nm_test_context("%zu bytes", len);
  net *n = serving(&hash, &link);
  nm_span data = packed_bin(len);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"), data, 0, 0,
                                &op, n->now));
  net_settle(n);
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  NM_CHECK_SPAN(nm_block_span(asked->data), data);
  NM_CHECK_OK(
      nm_engine_respond(n->engines[1], asked->token, data, true, n->now));
  NM_CHECK_STATUS(
      nm_engine_respond(n->engines[1], asked->token, data, true, n->now),
      NM_E(STATE));
  net_settle(n);
  nm_event *answer = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(answer != NULL);
  NM_CHECK_OK(answer->status);
  NM_CHECK_INT(answer->state, NM_REQUEST_READY);
  NM_CHECK_INT(answer->op, op);
  NM_CHECK_SPAN(nm_block_span(answer->data), data);
  net_dispose(n);
}

NM_TEST(a_request_is_answered_whatever_its_size_up_to_one_segment) {
  size_t sizes[] = {0, 1, 400, 16240, 16300, 16400, 100000, 1048500};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    echo_of(sizes[i]);
  }
}

NM_TEST(an_unanswered_request_fails_at_its_time_out) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/nobody"),
                                nm_span_of(NULL, 0), 3000000, 0, &op, n->now));
  net_pass(n, 2999999);
  NM_CHECK(net_find(n, 0, NM_EVENT_RESPONSE) == NULL);
  net_pass(n, 1);
  nm_event *answer = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(answer != NULL);
  NM_CHECK_INT(answer->stage, NM_STAGE_REQUEST);
  NM_CHECK_INT(answer->state, NM_RECEIPT_FAILED);
  NM_CHECK(net_find(n, 1, NM_EVENT_REQUEST) == NULL);
  net_dispose(n);
}

NM_TEST(a_request_fails_with_its_link) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"),
                                nm_span_of(NULL, 0), 0, 0, &op, n->now));
  net_settle(n);
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  NM_CHECK_OK(
      nm_engine_iface_remove(n->engines[0], n->wires[0].ends[0].iface, n->now));
  net_settle(n);
  nm_event *answer = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(answer != NULL);
  NM_CHECK_INT(answer->stage, NM_STAGE_LINK);
  nm_event *closed = net_find(n, 0, NM_EVENT_LINK_CLOSED);
  NM_CHECK(closed != NULL);
  NM_CHECK_INT(closed->close_reason, NM_CLOSE_IFACE_GONE);
  net_dispose(n);
}

/* ---- resources ---- */

static void accept_all(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

static nm_block *random_block(size_t len) {
  nm_block *block = nm_block_new(&nm_mem_system, len);
  nm_test_random_bytes(nm_block_bytes(block), len);
  return block;
}

static void transfer_of(size_t len, const char *kind) {
  nm_destination_hash hash;
  nm_test_context("%zu bytes over %s", len, kind);
  net *n = pair(&nm_mem_system, kind);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.sink", accept_all, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  nm_link_ref link = net_link(n, 0, &hash);
  NM_CHECK(link != 0);
  nm_block *content = random_block(len);
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, text("\xa4name"),
                              NM_RESOURCE_COMPRESS_AUTOMATIC, 0, &op, n->now));
  net_settle(n);
  nm_event *in = net_find(n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  NM_CHECK_SPAN(nm_block_span(in->metadata), text("\xa4name"));
  nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  NM_CHECK_INT(out->done_bytes, len);
  nm_block_drop(content);
  net_dispose(n);
}

NM_TEST(a_resource_of_any_size_up_to_one_segment_arrives) {
  size_t sizes[] = {1, 415, 464, 34336, 100000, 1048500};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    transfer_of(sizes[i], "tcp");
    transfer_of(sizes[i], "udp");
  }
}

static bool lose_some(void *user, int from, nm_span raw) {
  (void)from;
  int *percent = user;
  (void)raw;
  return (int)nm_test_below(100) >= *percent;
}

NM_TEST(a_resource_survives_loss_or_ends_with_a_stated_error) {
  for (int percent = 0; percent <= 30; percent += 5) {
    nm_destination_hash hash;
    nm_test_context("%d %% loss", percent);
    net *n = pair(&nm_mem_system, "udp");
    NM_CHECK_OK(net_listen(n, 1, 7, "test.sink", accept_all, &hash));
    NM_CHECK_OK(net_announce(n, 1, &hash));
    nm_link_ref link = net_link(n, 0, &hash);
    n->wires[0].filter = lose_some;
    n->wires[0].user = &percent;
    nm_block *content = random_block(60000);
    nm_op_id op;
    NM_CHECK_OK(nm_engine_resource_send(
        n->engines[0], link, content, nm_span_of(NULL, 0),
        NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
    net_pass(n, 600000000);
    nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
    NM_CHECK(out != NULL);
    nm_event *in = net_find(n, 1, NM_EVENT_RESOURCE_IN);
    NM_CHECK_INT(net_count(n, 1, NM_EVENT_RESOURCE_IN) +
                     net_count(n, 1, NM_EVENT_RESOURCE_IN_FAILED),
                 1);
    if (out->state == NM_RESOURCE_COMPLETE) {
      NM_CHECK(in != NULL);
      NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
    } else {
      NM_CHECK(out->stage != NM_STAGE_NONE);
    }
    nm_engine_stats stats;
    nm_engine_stats_read(n->engines[0], &stats);
    NM_CHECK_INT(stats.operations, 0);
    nm_block_drop(content);
    net_dispose(n);
  }
}

static void ask_first(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_APP;
  spec->hold_resources = true;
}

NM_TEST(an_offer_is_refused_or_accepted_and_its_proof_waits) {
  nm_destination_hash hash;
  net *n = listening(&hash, ask_first);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_block *content = random_block(5000);
  nm_op_id op;
  for (int accept = 0; accept < 2; accept++) {
    net_forget(n);
    NM_CHECK_OK(nm_engine_resource_send(
        n->engines[0], link, content, nm_span_of(NULL, 0),
        NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
    net_settle(n);
    nm_event *offer = net_find(n, 1, NM_EVENT_RESOURCE_OFFER);
    NM_CHECK(offer != NULL);
    NM_CHECK_INT(offer->total_bytes, 5000);
    nm_token_id token = offer->token;
    if (accept == 0) {
      NM_CHECK_OK(nm_engine_refuse(n->engines[1], token, n->now));
      net_settle(n);
      nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
      NM_CHECK(out != NULL);
      NM_CHECK_INT(out->state, NM_RESOURCE_REJECTED);
      continue;
    }
    NM_CHECK_OK(nm_engine_accept(n->engines[1], token, n->now));
    net_settle(n);
    nm_event *in = net_find(n, 1, NM_EVENT_RESOURCE_IN);
    NM_CHECK(in != NULL && in->token != 0);
    NM_CHECK(net_find(n, 0, NM_EVENT_RESOURCE_OUT) == NULL);
    NM_CHECK_OK(nm_engine_accept(n->engines[1], in->token, n->now));
    net_settle(n);
    nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
    NM_CHECK(out != NULL);
    NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  }
  nm_block_drop(content);
  net_dispose(n);
}

NM_TEST(whoever_takes_no_resources_says_so_at_once) {
  nm_destination_hash hash;
  net *n = listening(&hash, prove_all);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_block *content = random_block(5000);
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, nm_span_of(NULL, 0),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  net_settle(n);
  nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_REJECTED);
  NM_CHECK_INT(out->stage, NM_STAGE_REFUSED);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_OFFER) == NULL);
  nm_block_drop(content);
  net_dispose(n);
}

NM_TEST(a_cancelled_transfer_stays_cancelled) {
  nm_destination_hash hash;
  net *n = listening(&hash, accept_all);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_block *content = random_block(50000);
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, nm_span_of(NULL, 0),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  /* Before the sealing job comes back, and once more after the end. */
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], op, n->now));
  NM_CHECK_STATUS(nm_engine_cancel(n->engines[0], op, n->now), NM_E(STATE));
  net_pass(n, 30000000);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESOURCE_OUT), 1);
  nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK_INT(out->stage, NM_STAGE_CANCELLED);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) == NULL);
  nm_block_drop(content);
  net_dispose(n);
}

/* ---- robustness ---- */

NM_TEST(any_bytes_are_dropped_for_a_reason_and_the_next_packet_works) {
  nm_destination_hash hash;
  net *n = listening(&hash, prove_all);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_iface_id iface = n->wires[0].ends[1].iface;
  for (int i = 0; i < 20000; i++) {
    uint8_t junk[600];
    size_t len = nm_test_below(sizeof(junk) + 1);
    nm_test_random_bytes(junk, len);
    if (len > 18 && i % 2 == 0) {
      junk[0] &= 0x0f;
      junk[1] = 0;
      memcpy(&junk[2], hash.b, 16);
    }
    (void)net_feed(n, 1, iface, nm_span_of(junk, len));
  }
  net_settle(n);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.inputs, stats.accepted + stats.dropped);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("still here"), true,
                                  0, &op, NULL, n->now));
  net_settle(n);
  nm_event *packet = net_find(n, 1, NM_EVENT_LINK_PACKET);
  NM_CHECK(packet != NULL);
  net_dispose(n);
}

NM_TEST(a_shut_down_engine_ends_every_operation_exactly_once) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  nm_op_id op;
  nm_destination_hash nobody = {{9}};
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"),
                                nm_span_of(NULL, 0), 0, 0, &op, n->now));
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &nobody, 0, NULL, 9000000,
                                     &op, n->now));
  (void)send_text(n, &hash, "x");
  nm_engine_shutdown(n->engines[0], n->now);
  net_settle(n);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 1);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_PATH_RESULT), 1);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RECEIPT), 1);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_LINK_CLOSED), 1);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[0], &stats);
  NM_CHECK_INT(stats.operations, 0);
  net_dispose(n);
}
