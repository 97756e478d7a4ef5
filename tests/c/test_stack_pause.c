/* Back-pressure on one destination or one link, and what an offer shows. */
#include "engine_net.h"

#include "support.h"
#include "wire/resource.h"

#include <string.h>

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static void willing(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
  spec->resources = NM_ACCEPT_ALL;
}

static net *listening(nm_destination_hash *hash,
                      void (*adjust)(nm_dest_spec *spec)) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", adjust, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
  return n;
}

static void send_text(net *n, const nm_destination_hash *to, const char *what) {
  nm_send_spec spec;
  nm_op_id op;
  nm_send_spec_default(&spec);
  spec.destination = *to;
  spec.payload = text(what);
  NM_CHECK_OK(nm_engine_send(n->engines[0], &spec, &op, n->now));
  net_settle(n);
}

NM_TEST(a_paused_destination_neither_takes_nor_proves_packets) {
  nm_destination_hash hash;
  net *n = listening(&hash, willing);
  NM_CHECK_OK(nm_engine_pause(n->engines[1], &hash, true));
  send_text(n, &hash, "too early");
  NM_CHECK_INT(n->last_verdict[1].drop, NM_DROP_NO_CREDIT);
  NM_CHECK(!n->last_verdict[1].remembered);
  NM_CHECK(net_find(n, 1, NM_EVENT_PACKET) == NULL);
  NM_CHECK(net_find(n, 0, NM_EVENT_RECEIPT) == NULL);
  NM_CHECK_OK(nm_engine_pause(n->engines[1], &hash, false));
  send_text(n, &hash, "now");
  nm_event *packet = net_find(n, 1, NM_EVENT_PACKET);
  NM_CHECK(packet != NULL);
  NM_CHECK_SPAN(nm_block_span(packet->data), text("now"));
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RECEIPT), 1);
  nm_destination_hash nobody = {{1}};
  NM_CHECK_STATUS(nm_engine_pause(n->engines[1], &nobody, true), NM_E(MISSING));
  net_dispose(n);
}

static nm_link_ref other_end(net *n) {
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(active != NULL);
  return active->link;
}

NM_TEST(an_initiator_proves_packets_when_it_is_told_to) {
  nm_destination_hash hash;
  net *n = listening(&hash, willing);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_link_ref there = other_end(n);
  nm_op_id op;
  NM_CHECK_STATUS(
      nm_engine_link_set_prove(n->engines[1], there, NM_PROVE_ALL, false),
      NM_E(STATE));
  NM_CHECK_OK(nm_engine_link_send(n->engines[1], there, text("unproven"), true,
                                  0, &op, NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_LINK_PACKET), 1);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_RECEIPT), 0);
  NM_CHECK_OK(
      nm_engine_link_set_prove(n->engines[0], link, NM_PROVE_ALL, false));
  NM_CHECK_OK(nm_engine_link_send(n->engines[1], there, text("proven"), true, 0,
                                  &op, NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_RECEIPT), 1);
  NM_CHECK_OK(
      nm_engine_link_set_prove(n->engines[0], link, NM_PROVE_ALL, true));
  NM_CHECK_OK(nm_engine_link_send(n->engines[1], there, text("held"), true, 0,
                                  &op, NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_RECEIPT), 1);
  nm_event *held = NULL;
  for (int i = 0; i < n->event_count[0]; i++) {
    nm_event *event = &n->events[0][i];
    if (event->kind == NM_EVENT_LINK_PACKET && event->token != 0) {
      held = event;
    }
  }
  NM_CHECK(held != NULL);
  NM_CHECK_OK(nm_engine_accept(n->engines[0], held->token, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_RECEIPT), 2);
  NM_CHECK_STATUS(
      nm_engine_link_set_prove(n->engines[0], 999, NM_PROVE_ALL, false),
      NM_E(MISSING));
  net_dispose(n);
}

NM_TEST(a_paused_link_takes_no_packets_until_it_goes_on) {
  nm_destination_hash hash;
  net *n = listening(&hash, willing);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_link_ref there = other_end(n);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_pause(n->engines[1], there, true, false));
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("a"), true, 0, &op,
                                  NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(n->last_verdict[1].drop, NM_DROP_NO_CREDIT);
  NM_CHECK(net_find(n, 1, NM_EVENT_LINK_PACKET) == NULL);
  NM_CHECK(net_find(n, 0, NM_EVENT_RECEIPT) == NULL);
  NM_CHECK_OK(nm_engine_link_pause(n->engines[1], there, false, false));
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, text("b"), true, 0, &op,
                                  NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(net_count(n, 1, NM_EVENT_LINK_PACKET), 1);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_RECEIPT), 1);
  NM_CHECK_STATUS(nm_engine_link_pause(n->engines[1], 99, true, true),
                  NM_E(MISSING));
  net_dispose(n);
}

NM_TEST(a_resource_waits_while_its_link_is_paused) {
  nm_destination_hash hash;
  net *n = listening(&hash, willing);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_link_ref there = other_end(n);
  nm_block *content = nm_block_copy(&nm_mem_system, text("a small file"));
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_pause(n->engines[1], there, false, true));
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, nm_span_of(NULL, 0),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  net_settle(n);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) == NULL);
  NM_CHECK_OK(nm_engine_link_pause(n->engines[1], there, false, false));
  net_pass(n, 60000000);
  nm_event *in = net_find(n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  nm_event *out = net_find(n, 0, NM_EVENT_RESOURCE_OUT);
  NM_CHECK(out != NULL);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  nm_block_drop(content);
  net_dispose(n);
}

static void asking(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_APP;
}

NM_TEST(an_offer_shows_its_advertisement) {
  nm_destination_hash hash;
  net *n = listening(&hash, asking);
  nm_link_ref link = net_link(n, 0, &hash);
  nm_block *content = nm_block_copy(&nm_mem_system, text("a small file"));
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, text("\xa4name"),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  net_settle(n);
  nm_event *offer = net_find(n, 1, NM_EVENT_RESOURCE_OFFER);
  NM_CHECK(offer != NULL && offer->data != NULL);
  nm_resource_adv adv;
  NM_CHECK_OK(nm_resource_adv_decode(nm_block_span(offer->data), &adv, NULL));
  NM_CHECK((adv.flags & NM_RESOURCE_HAS_METADATA) != 0);
  NM_CHECK_BYTES(adv.hash.ptr, offer->packet_hash.b, NM_HASH_SIZE);
  nm_block_drop(content);
  net_dispose(n);
}
