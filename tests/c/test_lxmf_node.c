/* The router as client of a propagation node, which is played by the test. */
#include "mail_net.h"

#include "lxmf/internal.h"
#include "support.h"
#include "wire/lxmf_appdata.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_stamp.h"

#include <string.h>

#define STORED_MAX 16
#define NODE 1

/* Engines 0 and 2 are clients, 1 between them is the node. */
typedef struct world {
  mail_net m;
  nm_destination_hash node;
  uint32_t cost;
  bool refuses;   /* uploads, whatever their stamp */
  uint64_t error; /* of requests, or 0 */
  int unknown;    /* requests that find nobody identified */
  int requests;
  int identified;
  nm_block *stored[STORED_MAX]; /* without their stamps */
  int count;
  int uploads;
  int acknowledged;
  nm_link_ref reject_link;
} world;

/* ---- the node ---- */

static void store(world *w, nm_span container) {
  nm_lxmf_container in;
  nm_lxmf_stamped stamped;
  nm_fault fault;
  nm_span element;
  uint8_t transient[NM_HASH_SIZE];
  uint32_t value;
  NM_CHECK_OK(nm_lxmf_container_open(container, 1, &in, &fault));
  NM_CHECK(nm_lxmf_container_next(&in, &element));
  NM_CHECK_OK(nm_lxmf_stamped_check(element, w->cost, &stamped, transient,
                                    &value, &fault));
  NM_CHECK(w->count < STORED_MAX);
  w->stored[w->count++] = nm_block_copy(&nm_mem_system, stamped.data);
}

static void on_upload(world *w, const nm_event *event) {
  nm_engine *engine = w->m.n.engines[NODE];
  w->uploads++;
  if (!w->refuses) {
    store(w, nm_block_span(event->data));
    NM_CHECK_OK(nm_engine_accept(engine, event->token, w->m.n.now));
    return;
  }
  static const uint8_t SIGNAL[] = {0x91, 0xcc, 0xf5};
  nm_op_id op;
  if (event->kind == NM_EVENT_LINK_PACKET) {
    NM_CHECK_OK(nm_engine_link_send(engine, event->link,
                                    nm_span_of(SIGNAL, sizeof(SIGNAL)), false,
                                    0, &op, NULL, w->m.n.now));
  } else {
    NM_CHECK_OK(nm_engine_accept(engine, event->token, w->m.n.now));
  }
  w->reject_link = event->link;
}

static bool is_listed(nm_lxmf_id_list list, nm_span data) {
  uint8_t transient[NM_HASH_SIZE];
  nm_span id;
  nm_lxmf_transient_id(data, transient);
  while (nm_lxmf_id_list_next(&list, &id)) {
    if (memcmp(id.ptr, transient, NM_HASH_SIZE) == 0) {
      return true;
    }
  }
  return false;
}

static void forget(world *w, const nm_lxmf_id_list *have) {
  int kept = 0;
  for (int i = 0; i < w->count; i++) {
    if (is_listed(*have, nm_block_span(w->stored[i]))) {
      nm_block_drop(w->stored[i]);
      w->acknowledged++;
    } else {
      w->stored[kept++] = w->stored[i];
    }
  }
  w->count = kept;
}

static void bin(nm_writer *out, nm_span bytes) {
  nm_writer_u8(out, 0xc5);
  nm_writer_u16(out, (uint16_t)bytes.len);
  nm_writer_span(out, bytes);
}

static void on_get(world *w, const nm_event *event) {
  nm_engine *engine = w->m.n.engines[NODE];
  nm_lxmf_get get;
  nm_fault fault;
  uint8_t bytes[8192];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  w->requests++;
  if (w->error != 0 || w->requests <= w->unknown) {
    nm_writer_u8(&out, 0xcc);
    nm_writer_u8(
        &out, (uint8_t)(w->error != 0 ? w->error : NM_LXMF_ERROR_NO_IDENTITY));
  } else {
    NM_CHECK_OK(nm_lxmf_get_decode(nm_block_span(event->data), &get, &fault));
    forget(w, &get.have);
    int matching = 0;
    for (int i = 0; i < w->count; i++) {
      nm_span data = nm_block_span(w->stored[i]);
      matching += (get.want.nil && get.have.nil) || is_listed(get.want, data);
    }
    nm_writer_u8(&out, (uint8_t)(0x90 + matching));
    for (int i = 0; i < w->count; i++) {
      nm_span data = nm_block_span(w->stored[i]);
      uint8_t transient[NM_HASH_SIZE];
      nm_lxmf_transient_id(data, transient);
      if (get.want.nil && get.have.nil) {
        bin(&out, nm_span_of(transient, sizeof(transient)));
      } else if (is_listed(get.want, data)) {
        bin(&out, data);
      }
    }
  }
  NM_CHECK_OK(nm_engine_respond(engine, event->token, nm_writer_done(&out),
                                false, w->m.n.now));
}

static void play(void *user, int engine, nm_event *event) {
  world *w = user;
  if (engine != NODE) {
    return;
  }
  if (event->kind == NM_EVENT_LINK_PACKET ||
      event->kind == NM_EVENT_RESOURCE_IN) {
    on_upload(w, event);
  } else if (event->kind == NM_EVENT_REQUEST) {
    on_get(w, event);
  } else if (event->kind == NM_EVENT_LINK_IDENTIFIED) {
    w->identified++;
  }
}

static void as_node(nm_dest_spec *spec) {
  spec->accepts_links = true;
  spec->prove = NM_PROVE_APP;
  spec->resources = NM_ACCEPT_ALL;
  spec->hold_resources = true;
}

static void announce_node(world *w) {
  nm_lxmf_node_draft draft = {.timebase = 1700000000,
                              .active = true,
                              .transfer_limit_kb = 256,
                              .sync_limit_kb = 10240,
                              .stamp_cost = w->cost,
                              .flexibility = 0,
                              .peering_cost = 18};
  uint8_t bytes[128];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &out));
  NM_CHECK_OK(nm_engine_set_app_data(w->m.n.engines[NODE], &w->node, true,
                                     nm_writer_done(&out)));
  NM_CHECK_OK(net_announce(&w->m.n, NODE, &w->node));
  mail_settle(&w->m);
}

/* Clients at both ends of a node, which passes nothing on. */
static world *with_strangers(void) {
  world *w = nm_test_scratch(sizeof(*w));
  static const char PATH[] = "/get";
  memset(w, 0, sizeof(*w));
  mail_chain(&w->m, 3, NULL);
  w->m.others = play;
  w->m.user = w;
  w->cost = 4;
  NM_CHECK_OK(
      net_listen(&w->m.n, NODE, 77, "lxmf.propagation", as_node, &w->node));
  NM_CHECK_OK(nm_engine_handle(w->m.n.engines[NODE], &w->node,
                               nm_span_of(PATH, 4), NM_ALLOW_ALL, NULL, 0));
  announce_node(w);
  for (int i = 0; i < 3; i += 2) {
    NM_CHECK_OK(nm_router_set_node(w->m.routers[i], &w->node, 0, w->m.n.now));
  }
  mail_forget(&w->m);
  return w;
}

/* The same that know of each other: it is put in by hand. */
static world *with_node(void) {
  world *w = with_strangers();
  for (int i = 0; i < 3; i += 2) {
    nm_identity other = net_identity((uint8_t)(3 - i));
    NM_CHECK_OK(nm_engine_remember(w->m.n.engines[i], &w->m.boxes[2 - i],
                                   &other, NULL, w->m.n.now));
  }
  return w;
}

static void end_world(world *w) {
  for (int i = 0; i < w->count; i++) {
    nm_block_drop(w->stored[i]);
  }
  mail_dispose(&w->m);
}

static void upload(world *w, size_t size, uint8_t id[NM_HASH_SIZE]) {
  nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
  NM_CHECK_OK(mail_send(&w->m, 0, 2, size, &policy, id));
  mail_pass(&w->m, 5000000);
}

static void fetch(world *w, uint32_t most, bool retain) {
  NM_CHECK_OK(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, most,
                             retain, w->m.n.now));
  mail_pass(&w->m, 5000000);
}

static void check_sync(world *w, nm_lxmf_sync_state state, uint32_t received) {
  const nm_mail *mail = mail_last(&w->m, 2, NM_MAIL_SYNC);
  NM_CHECK(mail != NULL && mail->sync_ended);
  NM_CHECK_INT(mail->sync_state, state);
  NM_CHECK_INT(mail->sync_received, received);
}

/* ---- tests ---- */

NM_TEST(a_message_goes_to_a_node_and_is_fetched_from_it) {
  static const size_t SIZES[] = {10, 2000};
  for (int i = 0; i < 2; i++) {
    world *w = with_node();
    uint8_t id[NM_HASH_SIZE];
    upload(w, SIZES[i], id);
    NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_SENT);
    NM_CHECK_INT(w->count, 1);
    fetch(w, 0, false);
    check_sync(w, NM_LXMF_SYNC_COMPLETE, 1);
    const nm_mail *mail = mail_last(&w->m, 2, NM_MAIL_RECEIVED);
    NM_CHECK_BYTES(mail->id, id, NM_HASH_SIZE);
    NM_CHECK_INT(mail->method, NM_LXMF_PROPAGATED);
    NM_CHECK_INT(mail->unverified, NM_LXMF_VERIFIED);
    NM_CHECK_INT(w->count, 0);
    end_world(w);
  }
}

NM_TEST(what_a_node_refuses_is_rejected) {
  static const size_t SIZES[] = {10, 2000};
  for (int i = 0; i < 2; i++) {
    world *w = with_node();
    uint8_t id[NM_HASH_SIZE];
    w->refuses = true;
    nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
    NM_CHECK_OK(mail_send(&w->m, 0, 2, SIZES[i], &policy, id));
    mail_pass(&w->m, 500000);
    NM_CHECK(w->reject_link != 0);
    NM_CHECK_OK(
        nm_engine_link_close(w->m.n.engines[NODE], w->reject_link, w->m.n.now));
    mail_pass(&w->m, 5000000);
    NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_REJECTED);
    end_world(w);
  }
}

NM_TEST(a_message_above_the_limit_of_the_node_is_not_begun) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
  NM_CHECK_STATUS(mail_send(&w->m, 0, 2, 300000, &policy, id), NM_E(TOO_LARGE));
  NM_CHECK_INT(w->uploads, 0);
  end_world(w);
}

NM_TEST(a_message_is_encrypted_once) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  w->m.n.wires[0].cut = true;
  nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
  NM_CHECK_OK(mail_send(&w->m, 0, 2, 10, &policy, id));
  mail_pass(&w->m, 20000000);
  NM_CHECK_INT(mail_count(&w->m, 0, NM_MAIL_WORKED), 1);
  w->m.n.wires[0].cut = false;
  mail_pass(&w->m, 40000000);
  NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_SENT);
  nm_span kept = nm_block_span(mail_last(&w->m, 0, NM_MAIL_WORKED)->sealed);
  NM_CHECK_SPAN(nm_block_span(w->stored[0]),
                nm_span_slice(kept, 0, kept.len - NM_LXMF_STAMP_SIZE));
  end_world(w);
}

NM_TEST(a_recipient_that_is_away_gets_the_message_from_the_node) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = {
      .count = 3,
      .steps = {{.method = NM_LXMF_OPPORTUNISTIC, .budget_us = 8000000},
                {.method = NM_LXMF_DIRECT, .budget_us = 8000000},
                {.method = NM_LXMF_PROPAGATED}}};
  NM_CHECK_OK(mail_send(&w->m, 0, 2, 10, &policy, id));
  mail_pass(&w->m, 30000000);
  NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_SENT);
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 1);
  end_world(w);
}

NM_TEST(a_fetch_that_retains_leaves_everything_for_the_next_device) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  upload(w, 10, id);
  upload(w, 11, id);
  fetch(w, 0, true);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 2);
  NM_CHECK_INT(w->count, 2);
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 0);
  NM_CHECK_INT(mail_last(&w->m, 2, NM_MAIL_SYNC)->sync_duplicates, 2);
  NM_CHECK_INT(w->count, 0);
  NM_CHECK_INT(mail_count(&w->m, 2, NM_MAIL_RECEIVED), 2);
  end_world(w);
}

NM_TEST(a_fetch_takes_no_more_than_was_asked_for) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  for (size_t i = 0; i < 3; i++) {
    upload(w, 10 + i, id);
  }
  fetch(w, 2, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 2);
  NM_CHECK_INT(w->count, 1);
  end_world(w);
}

NM_TEST(what_cannot_be_decrypted_stays_on_the_node) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  upload(w, 10, id);
  nm_block_bytes(w->stored[0])[60] ^= 1;
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 0);
  NM_CHECK_INT(w->count, 1);
  nm_router_stats stats;
  nm_router_stats_read(w->m.routers[2], &stats);
  NM_CHECK_INT(stats.undecryptable, 1);
  end_world(w);
}

NM_TEST(a_node_that_does_not_know_who_asks_is_told_and_asked_again) {
  world *w = with_node();
  uint8_t id[NM_HASH_SIZE];
  upload(w, 10, id);
  w->unknown = 4;
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 1);
  /* Four in vain, the list, the message and what may go. */
  NM_CHECK_INT(w->requests, 7);
  NM_CHECK_INT(w->count, 0);
  /* A node that does not look at it is not asked for ever. */
  w->requests = 0;
  w->unknown = 100;
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_NO_IDENTITY, 0);
  NM_CHECK_INT(w->requests, 5);
  end_world(w);
}

NM_TEST(a_fetch_that_is_cancelled_does_not_ask_again) {
  world *w = with_node();
  w->unknown = 1;
  NM_CHECK_OK(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, 0, false,
                             w->m.n.now));
  mail_pass(&w->m, 100000);
  NM_CHECK_INT(w->requests, 1);
  NM_CHECK_OK(
      nm_router_sync_cancel(w->m.routers[2], &w->m.boxes[2], w->m.n.now));
  mail_pass(&w->m, 5000000);
  check_sync(w, NM_LXMF_SYNC_IDLE, 0);
  NM_CHECK_INT(w->requests, 1);
  end_world(w);
}

/* Loses the packets in which a link's initiator says who it is. */
static bool lose_identify(void *user, int from, nm_span raw) {
  int *left = user;
  nm_packet packet;
  nm_fault fault;
  if (from == 2 && *left > 0 &&
      nm_packet_parse(raw, &packet, &fault) == NM_OK &&
      packet.context == NM_CONTEXT_LINKIDENTIFY) {
    (*left)--;
    return false;
  }
  return true;
}

NM_TEST(a_lost_identification_is_made_again) {
  world *w = with_node();
  int left = 2;
  w->m.n.wires[1].filter = lose_identify;
  w->m.n.wires[1].user = &left;
  w->unknown = 2;
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 0);
  NM_CHECK_INT(left, 0);
  NM_CHECK_INT(w->identified, 1);
  end_world(w);
}

NM_TEST(a_fetch_ends_with_its_reason) {
  static const struct {
    uint64_t error;
    nm_lxmf_sync_state state;
  } CASES[] = {
      {NM_LXMF_ERROR_NO_IDENTITY, NM_LXMF_SYNC_NO_IDENTITY},
      {NM_LXMF_ERROR_NO_ACCESS, NM_LXMF_SYNC_NO_ACCESS},
      {NM_LXMF_ERROR_THROTTLED, NM_LXMF_SYNC_FAILED},
  };
  for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
    world *w = with_node();
    w->error = CASES[i].error;
    fetch(w, 0, false);
    check_sync(w, CASES[i].state, 0);
    end_world(w);
  }
  world *w = with_node();
  w->m.n.wires[1].cut = true;
  NM_CHECK_OK(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, 0, false,
                             w->m.n.now));
  mail_pass(&w->m, 60000000);
  check_sync(w, NM_LXMF_SYNC_LINK_FAILED, 0);
  NM_CHECK_OK(nm_engine_drop_path(w->m.n.engines[2], &w->node, w->m.n.now));
  NM_CHECK_OK(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, 0, false,
                             w->m.n.now));
  NM_CHECK_STATUS(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, 0,
                                 false, w->m.n.now),
                  NM_E(STATE));
  mail_pass(&w->m, 60000000);
  check_sync(w, NM_LXMF_SYNC_NO_PATH, 0);
  end_world(w);
}

/* ---- interfaces that come online ---- */

static void set_online(world *w, int wire, int end, bool online) {
  net_port port = w->m.n.wires[wire].ends[end];
  nm_engine *engine = w->m.n.engines[port.engine];
  nm_iface_spec spec = *nm_engine_iface(engine, port.iface);
  spec.online = online;
  NM_CHECK_OK(nm_engine_iface_change(engine, port.iface, &spec, w->m.n.now));
  mail_settle(&w->m);
}

/* Nothing waits for the time of the next request, seven seconds on. */
NM_TEST(what_was_begun_offline_goes_on_with_the_first_interface) {
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT,
                                        NM_LXMF_PROPAGATED};
  for (size_t i = 0; i < 3; i++) {
    world *w = with_strangers();
    uint8_t id[NM_HASH_SIZE];
    set_online(w, 0, 0, false);
    nm_policy policy = mail_by(WAYS[i]);
    NM_CHECK_OK(mail_send(&w->m, 0, NODE, 10, &policy, id));
    mail_pass(&w->m, 2000000);
    nm_test_context("way %d", (int)WAYS[i]);
    set_online(w, 0, 0, true);
    mail_pass(&w->m, 500000);
    NM_CHECK_INT(mail_state(&w->m, 0, id), WAYS[i] == NM_LXMF_PROPAGATED
                                               ? NM_LXMF_SENT
                                               : NM_LXMF_DELIVERED);
    end_world(w);
  }
}

NM_TEST(a_fetch_that_was_begun_offline_goes_on_with_the_first_interface) {
  world *w = with_node();
  NM_CHECK_OK(nm_engine_drop_path(w->m.n.engines[2], &w->node, w->m.n.now));
  set_online(w, 1, 1, false);
  NM_CHECK_OK(nm_router_sync(w->m.routers[2], &w->m.boxes[2], NULL, 0, false,
                             w->m.n.now));
  mail_pass(&w->m, 2000000);
  set_online(w, 1, 1, true);
  mail_pass(&w->m, 500000);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 0);
  end_world(w);
}

/* ---- recipients that are not known ---- */

static uint64_t asked(const world *w) {
  nm_router_stats stats;
  nm_router_stats_read(w->m.routers[0], &stats);
  return stats.path_requests;
}

/* Joins the clients. */
static int cut_wire(world *w) {
  int wire = net_join(&w->m.n, 0, 2, "tcp");
  NM_CHECK(wire >= 0);
  w->m.n.wires[wire].cut = true;
  mail_settle(&w->m);
  return wire;
}

NM_TEST(an_unknown_recipient_is_asked_for_before_a_message_goes_to_the_node) {
  world *w = with_strangers();
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
  int wire = cut_wire(w);
  NM_CHECK_OK(mail_send(&w->m, 0, 2, 10, &policy, id));
  mail_pass(&w->m, 2000000);
  NM_CHECK_INT(asked(w), 1);
  NM_CHECK_INT(mail_count(&w->m, 0, NM_MAIL_STATE), 0);
  /* What makes it known is an event: no timer is waited for. */
  w->m.n.wires[wire].cut = false;
  mail_announce(&w->m, 2);
  mail_pass(&w->m, 1500000);
  NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_SENT);
  NM_CHECK_INT(w->count, 1);
  fetch(w, 0, false);
  check_sync(w, NM_LXMF_SYNC_COMPLETE, 1);
  end_world(w);
}

NM_TEST(a_recipient_that_stays_unknown_is_the_reason_of_the_failure) {
  static const struct {
    uint64_t budget_us;
    uint64_t within_us;
    uint64_t asks;
  } CASES[] = {
      {0, 60000000, 4},
      {5000000, 5500000, 1},
  };
  for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
    world *w = with_strangers();
    uint8_t id[NM_HASH_SIZE];
    nm_policy policy = mail_by(NM_LXMF_PROPAGATED);
    policy.steps[0].budget_us = CASES[i].budget_us;
    (void)cut_wire(w);
    NM_CHECK_OK(mail_send(&w->m, 0, 2, 10, &policy, id));
    mail_pass(&w->m, 4500000);
    NM_CHECK_INT(mail_count(&w->m, 0, NM_MAIL_STATE), 0);
    mail_pass(&w->m, CASES[i].within_us - 4500000);
    NM_CHECK_INT(mail_state(&w->m, 0, id), NM_LXMF_FAILED);
    NM_CHECK_INT(mail_last(&w->m, 0, NM_MAIL_STATE)->stage, NM_STAGE_IDENTITY);
    NM_CHECK_INT(asked(w), CASES[i].asks);
    end_world(w);
  }
}

/* The one that waits for keys lies in the recipient's lane with others, which
 * end on their own. */
NM_TEST(messages_by_two_ways_wait_for_one_unknown_recipient) {
  world *w = with_strangers();
  uint8_t ids[3][NM_HASH_SIZE];
  static const nm_lxmf_method WAYS[] = {NM_LXMF_DIRECT, NM_LXMF_PROPAGATED,
                                        NM_LXMF_OPPORTUNISTIC};
  int wire = cut_wire(w);
  for (size_t i = 0; i < 3; i++) {
    nm_policy policy = mail_by(WAYS[i]);
    NM_CHECK_OK(mail_send(&w->m, 0, 2, 10 + i, &policy, ids[i]));
  }
  mail_pass(&w->m, 3000000);
  w->m.n.wires[wire].cut = false;
  mail_announce(&w->m, 2);
  mail_pass(&w->m, 5000000);
  NM_CHECK_INT(mail_state(&w->m, 0, ids[0]), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_state(&w->m, 0, ids[1]), NM_LXMF_SENT);
  NM_CHECK_INT(mail_state(&w->m, 0, ids[2]), NM_LXMF_DELIVERED);
  end_world(w);
}
