/* What is cancelled stays cancelled, with all that it started. */
#include "engine_net.h"

#include "base/msgpack.h"
#include "support.h"

#include <string.h>

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static net *serving(nm_destination_hash *hash, nm_link_ref *link) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "udp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
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

static bool lose_nth(void *user, int from, nm_span raw) {
  (void)from;
  (void)raw;
  int *left = user;
  return --*left != 0 && *left > -1;
}

static nm_link_info info_of(net *n, int engine, nm_link_ref link) {
  nm_link_info info;
  NM_CHECK_OK(nm_engine_link_info(n->engines[engine], link, &info));
  return info;
}

NM_TEST(a_cancelled_request_stops_the_response_that_is_coming_in) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"),
                                nm_span_of(NULL, 0), 0, 0, &op, n->now));
  net_settle(n);
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  NM_CHECK(asked != NULL);
  /* The wire breaks off in the middle of the response. */
  int left = 12;
  n->wires[0].filter = lose_nth;
  n->wires[0].user = &left;
  NM_CHECK_OK(nm_engine_respond(n->engines[1], asked->token, packed_bin(30000),
                                false, n->now));
  net_settle(n);
  NM_CHECK_INT(info_of(n, 0, link).transfers_in, 1);
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], op, n->now));
  NM_CHECK_INT(info_of(n, 0, link).transfers_in, 0);
  n->wires[0].filter = NULL;
  net_settle(n);
  nm_event *end = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK(end != NULL);
  NM_CHECK_INT(end->stage, NM_STAGE_CANCELLED);
  net_forget(n);
  net_pass(n, 60000000);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_PROGRESS), 0);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 0);
  net_dispose(n);
}

NM_TEST(a_cancelled_request_stops_the_resource_that_carries_it) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  int left = 8;
  n->wires[0].filter = lose_nth;
  n->wires[0].user = &left;
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"),
                                packed_bin(30000), 0, 0, &op, n->now));
  net_settle(n);
  NM_CHECK_INT(info_of(n, 0, link).transfers_out, 1);
  n->wires[0].filter = NULL;
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], op, n->now));
  net_settle(n);
  NM_CHECK_INT(info_of(n, 0, link).transfers_out, 0);
  net_pass(n, 60000000);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_REQUEST), 0);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 1);
  net_dispose(n);
}

NM_TEST(a_request_that_cannot_be_sealed_ends_once) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = serving(&hash, &link);
  nm_op_id op = 0;
  nm_op_id other = 0;
  /* No room for another job: those of the packets wait. */
  nm_send_spec spec;
  nm_send_spec_default(&spec);
  spec.destination = hash;
  spec.payload = text("x");
  spec.receipt = false;
  while (nm_engine_send(n->engines[0], &spec, &other, n->now) == NM_OK) {
  }
  NM_CHECK_OK(nm_engine_request(n->engines[0], link, text("/echo"),
                                packed_bin(30000), 0, 0, &op, n->now));
  NM_CHECK(op != 0);
  NM_CHECK_STATUS(nm_engine_cancel(n->engines[0], op, n->now), NM_E(STATE));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RESPONSE), 1);
  nm_event *end = net_find(n, 0, NM_EVENT_RESPONSE);
  NM_CHECK_INT(end->op, op);
  NM_CHECK(end->status != NM_OK);
  net_dispose(n);
}
