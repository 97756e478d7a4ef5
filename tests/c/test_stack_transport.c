/* Other people's packets on their way through this node: announces, path
 * requests, packets with their proofs, links, tunnels (RNS 1, 8). */
#include "engine_net.h"

#include "support.h"

#include <string.h>

static void middle_is_transport(int engine, nm_engine_config *config) {
  config->transport = engine == 1;
}

static void proves_all(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
}

/* 0 - 1 - 2, engine 1 carrying; a destination at 2. */
static net *line(nm_destination_hash *hash) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init_with(n, &nm_mem_system, 3, middle_is_transport));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_INT(net_join(n, 1, 2, "tcp"), 1);
  NM_CHECK_OK(net_listen(n, 2, 7, "test.echo", proves_all, hash));
  net_settle(n);
  return n;
}

NM_TEST(an_announce_crosses_a_transport_node_with_one_more_hop) {
  nm_destination_hash hash;
  net *n = line(&hash);
  NM_CHECK_OK(net_announce(n, 2, &hash));
  net_pass(n, 600000);
  nm_path_record record;
  NM_CHECK(nm_engine_path_get(n->engines[0], &hash, &record));
  NM_CHECK_INT(record.hops, 2);
  NM_CHECK_BYTES(record.next_hop, nm_engine_identity(n->engines[1])->hash.b,
                 NM_ADDRESS_SIZE);
  nm_path_record_dispose(&record);
  net_dispose(n);
}

NM_TEST(a_packet_and_its_proof_cross_a_transport_node) {
  nm_destination_hash hash;
  net *n = line(&hash);
  NM_CHECK_OK(net_announce(n, 2, &hash));
  net_pass(n, 7000000);
  net_forget(n);
  nm_op_id op;
  nm_span data = nm_span_of("hello", 5);
  nm_send_spec spec;
  nm_send_spec_default(&spec);
  spec.destination = hash;
  spec.payload = data;
  spec.receipt = true;
  NM_CHECK_OK(nm_engine_send(n->engines[0], &spec, &op, n->now));
  net_settle(n);
  nm_event *got = net_find(n, 2, NM_EVENT_PACKET);
  NM_CHECK(got != NULL);
  NM_CHECK_SPAN(nm_block_span(got->data), data);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_OK(receipt->status);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.forwarded, 2);
  NM_CHECK_INT(stats.reverses, 0);
  net_dispose(n);
}

NM_TEST(a_path_request_is_answered_from_the_table_after_its_pause) {
  nm_destination_hash hash;
  net *n = line(&hash);
  n->wires[0].cut = true;
  NM_CHECK_OK(net_announce(n, 2, &hash));
  net_pass(n, 8000000);
  n->wires[0].cut = false;
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 5000000,
                                     &op, n->now));
  net_pass(n, 390000);
  NM_CHECK(net_find(n, 0, NM_EVENT_PATH_RESULT) == NULL);
  net_pass(n, 20000);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_OK(result->status);
  NM_CHECK_INT(result->hops, 2);
  net_dispose(n);
}

static nm_link_ref far_link(net *n, const nm_destination_hash *hash) {
  NM_CHECK_OK(net_announce(n, 2, hash));
  net_pass(n, 8000000);
  nm_link_ref link = net_link(n, 0, hash);
  NM_CHECK(link != 0);
  return link;
}

NM_TEST(a_link_comes_up_and_carries_packets_across_a_transport_node) {
  nm_destination_hash hash;
  net *n = line(&hash);
  nm_link_ref link = far_link(n, &hash);
  net_forget(n);
  nm_op_id op;
  nm_span data = nm_span_of("over the hill", 13);
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, data, true, 0, &op, NULL,
                                  n->now));
  net_settle(n);
  nm_event *got = net_find(n, 2, NM_EVENT_LINK_PACKET);
  NM_CHECK(got != NULL);
  NM_CHECK_SPAN(nm_block_span(got->data), data);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  NM_CHECK(receipt != NULL);
  NM_CHECK_OK(receipt->status);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.transits, 1);
  NM_CHECK_INT(stats.links, 0);
  net_dispose(n);
}

NM_TEST(a_relay_forgets_a_link_that_was_never_proven) {
  nm_destination_hash hash;
  net *n = line(&hash);
  NM_CHECK_OK(net_announce(n, 2, &hash));
  net_pass(n, 8000000);
  n->wires[1].cut = true;
  nm_link_ref link;
  NM_CHECK_OK(nm_engine_link_open(n->engines[0], &hash, 0, &link, n->now));
  net_settle(n);
  nm_engine_stats stats;
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.transits, 1);
  net_pass(n, 30000000);
  nm_engine_stats_read(n->engines[1], &stats);
  NM_CHECK_INT(stats.transits, 0);
  /* The path is one hop long, so it is doubted. */
  nm_path_record record;
  NM_CHECK(nm_engine_path_get(n->engines[1], &hash, &record));
  NM_CHECK_INT(record.state, NM_PATH_UNRESPONSIVE);
  nm_path_record_dispose(&record);
  net_dispose(n);
}
