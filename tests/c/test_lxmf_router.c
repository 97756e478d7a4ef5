/* The router: messages from one mailbox to another, by every way. */
#include "mail_net.h"

#include "lxmf/internal.h"
#include "lxmf/tickets.h"
#include "support.h"
#include "wire/lxmf_fields.h"

#include <stdio.h>
#include <string.h>

static mail_net *two(const nm_router_config *config) {
  mail_net *m = nm_test_scratch(sizeof(mail_net));
  mail_chain(m, 2, config);
  mail_announce(m, 0);
  mail_announce(m, 1);
  mail_forget(m);
  return m;
}

static void one_is_delivered(nm_lxmf_method method, size_t size,
                             nm_lxmf_representation form) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(method);
  NM_CHECK_OK(mail_send(m, 0, 1, size, &policy, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1);
  const nm_mail *mail = mail_last(m, 1, NM_MAIL_RECEIVED);
  NM_CHECK_BYTES(mail->id, id, NM_HASH_SIZE);
  NM_CHECK_INT(mail->unverified, NM_LXMF_VERIFIED);
  NM_CHECK_INT(mail->method, method);
  NM_CHECK_INT(mail->representation, form);
  NM_CHECK_BYTES(mail->peer.b, m->boxes[0].b, NM_ADDRESS_SIZE);
  const nm_mail *sent = mail_last(m, 0, NM_MAIL_STATE);
  NM_CHECK(sent->progress == 1.0);
  NM_CHECK_INT(sent->representation, form);
  mail_dispose(m);
}

NM_TEST(an_opportunistic_message_is_delivered) {
  one_is_delivered(NM_LXMF_OPPORTUNISTIC, 10, NM_LXMF_PACKET);
}

NM_TEST(a_direct_message_is_delivered_as_a_packet) {
  one_is_delivered(NM_LXMF_DIRECT, 10, NM_LXMF_PACKET);
}

NM_TEST(a_large_direct_message_is_delivered_as_a_resource) {
  one_is_delivered(NM_LXMF_DIRECT, 20000, NM_LXMF_RESOURCE);
}

NM_TEST(many_direct_messages_share_one_link_and_come_in_order) {
  mail_net *m = two(NULL);
  nm_policy policy = mail_by(NM_LXMF_DIRECT);
  uint8_t ids[1000][NM_HASH_SIZE];
  for (int i = 0; i < 1000; i++) {
    NM_CHECK_OK(mail_send(m, 0, 1, 20, &policy, ids[i]));
  }
  mail_pass(m, 1000000);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1000);
  for (int i = 0; i < 1000; i++) {
    NM_CHECK_BYTES(m->kept[1][i].id, ids[i], NM_HASH_SIZE);
    NM_CHECK_INT(mail_state(m, 0, ids[i]), NM_LXMF_DELIVERED);
  }
  nm_router_stats stats;
  nm_router_stats_read(m->routers[0], &stats);
  NM_CHECK_INT(stats.links_opened, 1);
  NM_CHECK_INT(stats.letters, 0);
  mail_dispose(m);
}

NM_TEST(an_answer_goes_over_the_link_that_the_other_opened) {
  mail_net *m = two(NULL);
  nm_policy policy = mail_by(NM_LXMF_DIRECT);
  uint8_t id[NM_HASH_SIZE];
  for (int i = 0; i < 100; i++) {
    NM_CHECK_OK(mail_send(m, 0, 1, 20, &policy, id));
    mail_pass(m, 10000);
    NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
    NM_CHECK_OK(mail_send(m, 1, 0, 20, &policy, id));
    mail_pass(m, 10000);
    NM_CHECK_INT(mail_state(m, 1, id), NM_LXMF_DELIVERED);
  }
  NM_CHECK_INT(mail_count(m, 0, NM_MAIL_RECEIVED), 100);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 100);
  nm_router_stats stats;
  nm_router_stats_read(m->routers[0], &stats);
  NM_CHECK_INT(stats.links_opened, 1);
  nm_router_stats_read(m->routers[1], &stats);
  NM_CHECK_INT(stats.links_opened, 0);
  mail_dispose(m);
}

NM_TEST(a_held_message_is_proven_when_it_is_durable) {
  nm_router_config config = {.hold = true};
  mail_net *m = two(&config);
  m->leaves_tokens = true;
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 1000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_SENT);
  uint64_t token = mail_last(m, 1, NM_MAIL_RECEIVED)->token;
  NM_CHECK_OK(nm_router_taken(m->routers[1], token, true, m->n.now));
  mail_pass(m, 1000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_STATUS(nm_router_taken(m->routers[1], token, true, m->n.now),
                  NM_E(STATE));
  mail_dispose(m);
}

NM_TEST(an_expected_message_is_proven_before_its_signature_was_checked) {
  nm_router_config config = {.hold = true};
  mail_net *m = two(&config);
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  uint8_t ids[2][NM_HASH_SIZE];
  nm_router_expect(m->routers[1], 1);
  m->stops_work = true;
  for (int i = 0; i < 2; i++) {
    NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, ids[i]));
    mail_pass(m, 1000000);
    NM_CHECK_INT(mail_state(m, 0, ids[i]),
                 i == 0 ? NM_LXMF_DELIVERED : NM_LXMF_SENT);
  }
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 0);
  NM_CHECK_INT(nm_router_ahead(m->routers[1]), 1);
  m->stops_work = false;
  mail_pass(m, 1000);
  NM_CHECK_INT(mail_state(m, 0, ids[1]), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 2);
  NM_CHECK_INT(nm_router_ahead(m->routers[1]), 0);
  for (int i = 0; i < m->count[1]; i++) {
    const nm_mail *mail = &m->kept[1][i];
    if (mail->kind == NM_MAIL_RECEIVED) {
      bool first = memcmp(mail->id, ids[0], NM_HASH_SIZE) == 0;
      NM_CHECK_INT(mail->unverified, NM_LXMF_VERIFIED);
      NM_CHECK((mail->token == 0) == first);
    }
  }
  mail_dispose(m);
}

NM_TEST(a_durable_mailbox_proves_nothing_ahead) {
  nm_router_config config = {.hold = true};
  mail_net *m = two(&config);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  nm_mailbox_find(m->routers[1], &m->boxes[1])->durable = true;
  nm_router_expect(m->routers[1], 1);
  m->leaves_tokens = true;
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 1000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_SENT);
  NM_CHECK(mail_last(m, 1, NM_MAIL_RECEIVED)->token != 0);
  mail_dispose(m);
}

NM_TEST(a_message_that_could_not_be_stored_comes_again) {
  nm_router_config config = {.hold = true};
  mail_net *m = two(&config);
  m->leaves_tokens = true;
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 1000000);
  uint64_t token = mail_last(m, 1, NM_MAIL_RECEIVED)->token;
  NM_CHECK_OK(nm_router_taken(m->routers[1], token, false, m->n.now));
  m->leaves_tokens = false;
  mail_pass(m, 12000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 2);
  mail_dispose(m);
}

NM_TEST(the_same_message_by_two_ways_is_told_of_once) {
  mail_net *m = two(NULL);
  nm_block *packed = mail_message(m, 0, 1, 30);
  uint8_t id[NM_HASH_SIZE];
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT,
                                        NM_LXMF_DIRECT};
  for (int i = 0; i < 3; i++) {
    nm_letter_spec spec = {.mailbox = m->boxes[0],
                           .packed = nm_block_span(packed),
                           .policy = mail_by(WAYS[i])};
    NM_CHECK_OK(nm_router_send(m->routers[0], &spec, id, m->n.now));
    mail_pass(m, 100000);
    NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  }
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1);
  nm_router_stats stats;
  nm_router_stats_read(m->routers[1], &stats);
  NM_CHECK_INT(stats.duplicates, 2);
  nm_block_drop(packed);
  mail_dispose(m);
}

NM_TEST(a_message_to_nobody_fails_in_bounded_time) {
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT};
  for (int i = 0; i < 2; i++) {
    mail_net *m = two(NULL);
    m->n.wires[0].cut = true;
    uint8_t ids[50][NM_HASH_SIZE];
    nm_policy policy = mail_by(WAYS[i]);
    for (int k = 0; k < 50; k++) {
      NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, ids[k]));
    }
    mail_pass(m, 120000000);
    for (int k = 0; k < 50; k++) {
      NM_CHECK_INT(mail_state(m, 0, ids[k]), NM_LXMF_FAILED);
    }
    NM_CHECK_INT(nm_router_deadline(m->routers[0]) == NM_TIMER_NEVER, 1);
    mail_dispose(m);
  }
}

NM_TEST(a_policy_goes_on_to_its_next_way) {
  mail_net *m = two(NULL);
  nm_policy policy = {
      .count = 2,
      .steps = {{.method = NM_LXMF_OPPORTUNISTIC, .budget_us = 5000000},
                {.method = NM_LXMF_DIRECT}}};
  uint8_t id[NM_HASH_SIZE];
  m->n.wires[0].cut = true;
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 6000000);
  NM_CHECK_INT(mail_last(m, 0, NM_MAIL_STATE)->method, NM_LXMF_DIRECT);
  m->n.wires[0].cut = false;
  mail_pass(m, 30000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_last(m, 1, NM_MAIL_RECEIVED)->method, NM_LXMF_DIRECT);
  mail_dispose(m);
}

/* Two packets, then one link, a second apart. */
static const nm_policy BRIEF = {
    .count = 2,
    .steps = {{.method = NM_LXMF_OPPORTUNISTIC, .attempts = 2},
              {.method = NM_LXMF_DIRECT, .attempts = 1}},
    .retry_wait_us = 1000000u};

NM_TEST(a_step_has_as_many_attempts_as_it_says) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  m->n.wires[0].cut = true;
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &BRIEF, id));
  mail_pass(m, 900000);
  NM_CHECK_INT(mail_last(m, 0, NM_MAIL_STATE)->attempts, 1);
  mail_pass(m, 1000000);
  NM_CHECK_INT(mail_last(m, 0, NM_MAIL_STATE)->method, NM_LXMF_OPPORTUNISTIC);
  mail_pass(m, 200000);
  NM_CHECK_INT(mail_last(m, 0, NM_MAIL_STATE)->method, NM_LXMF_DIRECT);
  mail_pass(m, 60000000);
  nm_router_stats stats;
  nm_router_stats_read(m->routers[0], &stats);
  NM_CHECK_INT(stats.packets, 2);
  NM_CHECK_INT(stats.links_opened, 1);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_FAILED);
  mail_dispose(m);
}

NM_TEST(an_open_link_serves_when_the_path_is_gone) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy direct = mail_by(NM_LXMF_DIRECT);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &direct, id));
  mail_pass(m, 100000);
  NM_CHECK_OK(nm_engine_drop_path(m->n.engines[0], &m->boxes[1], m->n.now));
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &BRIEF, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_last(m, 0, NM_MAIL_STATE)->method, NM_LXMF_DIRECT);
  mail_dispose(m);
}

NM_TEST(a_paused_mailbox_proves_nothing_and_counts) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK_OK(nm_router_pause(m->routers[1], &m->boxes[1], true));
  NM_CHECK_STATUS(nm_router_pause(m->routers[1], &m->boxes[0], true),
                  NM_E(MISSING));
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &BRIEF, id));
  mail_pass(m, 500000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_SENT);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 0);
  const nm_mail *told = mail_last(m, 1, NM_MAIL_DROPPED);
  NM_CHECK_BYTES(told->mailbox.b, m->boxes[1].b, NM_ADDRESS_SIZE);
  NM_CHECK_INT(told->dropped[NM_MAIL_DROP_CROWDED], 1);
  NM_CHECK_OK(nm_router_pause(m->routers[1], &m->boxes[1], false));
  mail_pass(m, 2000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1);
  mail_dispose(m);
}

NM_TEST(what_a_mailbox_drops_is_told_of_by_reason) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  nm_block *packed = mail_message(m, 0, 1, 30);
  nm_letter_spec spec = {.mailbox = m->boxes[0],
                         .packed = nm_block_span(packed),
                         .policy = policy};
  for (int i = 0; i < 3; i++) {
    NM_CHECK_OK(nm_router_send(m->routers[0], &spec, id, m->n.now));
    mail_pass(m, 100000);
  }
  NM_CHECK_OK(nm_router_ignore(m->routers[1], &m->boxes[0], true));
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 100000);
  const nm_mail *told = mail_last(m, 1, NM_MAIL_DROPPED);
  NM_CHECK_INT(told->dropped[NM_MAIL_DROP_DUPLICATE], 2);
  NM_CHECK_INT(told->dropped[NM_MAIL_DROP_IGNORED], 1);
  NM_CHECK_INT(told->dropped[NM_MAIL_DROP_CROWDED], 0);
  nm_block_drop(packed);
  mail_dispose(m);
}

NM_TEST(who_has_no_mailbox_can_write_and_stays_unnamed) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_block *packed = mail_message(m, 0, 1, 30);
  nm_letter_spec spec = {.mailbox = m->boxes[0],
                         .packed = nm_block_span(packed),
                         .policy = mail_by(NM_LXMF_DIRECT)};
  NM_CHECK_OK(nm_router_close(m->routers[0], &m->boxes[0], m->n.now));
  NM_CHECK_STATUS(nm_router_send(m->routers[0], &spec, id, m->n.now),
                  NM_E(MISSING));
  spec.bare = true;
  NM_CHECK_OK(nm_router_send(m->routers[0], &spec, id, m->n.now));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1);
  const nm_lane *back = nm_lane_find(m->routers[1], &m->boxes[0]);
  NM_CHECK(back == NULL || back->back == 0);
  nm_block_drop(packed);
  mail_dispose(m);
}

NM_TEST(a_cancelled_message_ends_at_once) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_DIRECT);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  NM_CHECK_OK(nm_router_cancel(m->routers[0], id, m->n.now));
  NM_CHECK_STATUS(nm_router_cancel(m->routers[0], id, m->n.now), NM_E(STATE));
  mail_pass(m, 1000000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_CANCELLED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 0);
  mail_dispose(m);
}

NM_TEST(a_message_that_fits_no_way_is_refused) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy packet = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_STATUS(mail_send(m, 0, 1, 1000, &packet, id), NM_E(TOO_LARGE));
  nm_policy node = mail_by(NM_LXMF_PROPAGATED);
  NM_CHECK_STATUS(mail_send(m, 0, 1, 10, &node, id), NM_E(MISSING));
  nm_policy none = {0};
  NM_CHECK_STATUS(mail_send(m, 0, 1, 10, &none, id), NM_E(ARGUMENT));
  mail_dispose(m);
}

NM_TEST(a_stamp_is_worked_for_when_the_recipient_asks) {
  mail_net *m = nm_test_scratch(sizeof(mail_net));
  mail_chain(m, 2, NULL);
  NM_CHECK_OK(nm_router_describe(m->routers[1], &m->boxes[1],
                                 nm_span_of("Bob", 3), 8, true));
  mail_announce(m, 0);
  mail_announce(m, 1);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 0, NM_MAIL_WORKED), 1);
  const nm_mail *mail = mail_last(m, 1, NM_MAIL_RECEIVED);
  NM_CHECK(mail->stamp_valid);
  NM_CHECK(mail->stamp_value >= 8);
  mail_dispose(m);
}

NM_TEST(a_message_of_an_ignored_source_is_proven_and_dropped) {
  mail_net *m = two(NULL);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_OK(nm_router_ignore(m->routers[1], &m->boxes[0], true));
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 0);
  NM_CHECK_OK(nm_router_ignore(m->routers[1], &m->boxes[0], false));
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 1);
  mail_dispose(m);
}

/* A message of engine 1 that brings engine 0 a ticket. */
static void give_ticket(mail_net *m) {
  nm_lxmf_ticket ticket;
  uint8_t fields[40];
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK(nm_router_ticket_for(m->routers[1], &m->boxes[0], m->n.now,
                                &ticket.expires, ticket.ticket));
  nm_writer w = nm_writer_of(fields, sizeof(fields));
  nm_mp_map(&w, 1);
  nm_mp_uint(&w, NM_LXMF_FIELD_TICKET);
  NM_CHECK_OK(nm_lxmf_ticket_encode(&ticket, &w));
  nm_block *packed = mail_message_with(m, 1, 0, 10, nm_writer_done(&w));
  nm_letter_spec spec = {.mailbox = m->boxes[1],
                         .packed = nm_block_span(packed),
                         .policy = mail_by(NM_LXMF_DIRECT),
                         .carries_ticket = true};
  NM_CHECK_OK(nm_router_send(m->routers[1], &spec, id, m->n.now));
  nm_block_drop(packed);
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 1, id), NM_LXMF_DELIVERED);
}

NM_TEST(a_ticket_takes_the_place_of_a_stamp) {
  mail_net *m = two(NULL);
  NM_CHECK_OK(nm_router_describe(m->routers[1], &m->boxes[1],
                                 nm_span_of(NULL, 0), 20, true));
  mail_announce(m, 1);
  give_ticket(m);
  const nm_mail *brought = mail_last(m, 0, NM_MAIL_RECEIVED);
  NM_CHECK(brought->has_ticket);
  uint8_t id[NM_HASH_SIZE];
  nm_policy policy = mail_by(NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, id));
  mail_pass(m, 100000);
  NM_CHECK_INT(mail_state(m, 0, id), NM_LXMF_DELIVERED);
  NM_CHECK_INT(mail_count(m, 0, NM_MAIL_WORKED), 0);
  const nm_mail *mail = mail_last(m, 1, NM_MAIL_RECEIVED);
  NM_CHECK(mail->stamp_valid);
  NM_CHECK_INT(mail->stamp_value, NM_LXMF_COST_TICKET);
  double expires;
  uint8_t again[NM_LXMF_TICKET_SIZE];
  NM_CHECK(!nm_router_ticket_for(m->routers[1], &m->boxes[0], m->n.now,
                                 &expires, again));
  mail_dispose(m);
}

NM_TEST(a_ticket_outlives_a_restart_and_not_its_time) {
  mail_net *m = two(NULL);
  give_ticket(m);
  const nm_mail *brought = mail_last(m, 0, NM_MAIL_RECEIVED);
  nm_ticket_record record = {.peer = m->boxes[1],
                             .expires = brought->ticket_expires};
  memcpy(record.ticket, brought->ticket, sizeof(record.ticket));
  mail_net *later = two(NULL);
  uint8_t stamp[NM_LXMF_TICKET_SIZE];
  uint8_t id[NM_HASH_SIZE] = {0};
  NM_CHECK_OK(nm_router_ticket_put(later->routers[0], &record, later->n.now));
  NM_CHECK(nm_ticket_stamp_for(later->routers[0], &m->boxes[1], id, stamp));
  later->n.now.unix_us += (int64_t)(NM_LXMF_TICKET_EXPIRY_S + 1) * 1000000;
  nm_router_tick(later->routers[0], later->n.now);
  NM_CHECK(!nm_ticket_stamp_for(later->routers[0], &m->boxes[1], id, stamp));
  mail_dispose(later);
  mail_dispose(m);
}

/* ---- slow media ---- */

static void set_bitrate(mail_net *m, int engine, uint64_t bitrate) {
  nm_iface_id id = nm_engine_iface_next(m->n.engines[engine], 0);
  nm_iface_spec spec = *nm_engine_iface(m->n.engines[engine], id);
  spec.bitrate = bitrate;
  NM_CHECK_OK(
      nm_engine_iface_change(m->n.engines[engine], id, &spec, m->n.now));
}

NM_TEST(one_message_at_a_time_is_on_a_slow_path) {
  mail_net *m = two(NULL);
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT};
  for (int w = 0; w < 2; w++) {
    uint8_t ids[5][NM_HASH_SIZE];
    nm_policy policy = mail_by(WAYS[w]);
    set_bitrate(m, 0, 1200);
    mail_forget(m);
    m->n.wires[0].cut = true;
    for (int i = 0; i < 5; i++) {
      NM_CHECK_OK(mail_send(m, 0, 1, 10, &policy, ids[i]));
    }
    mail_pass(m, 10000000);
    NM_CHECK(m->routers[0]->in_flight_all <= 1);
    m->n.wires[0].cut = false;
    mail_pass(m, 200000000);
    NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), 5);
    for (int i = 0; i < 5; i++) {
      NM_CHECK_BYTES(m->kept[1][i].id, ids[i], NM_HASH_SIZE);
      NM_CHECK_INT(mail_state(m, 0, ids[i]), NM_LXMF_DELIVERED);
    }
  }
  mail_dispose(m);
}

#define QUEUE_MAX 8

/* A letter as the vector has it: waiting on its lane, in flight, or ended. */
static void place_letter(nm_router *router, const nm_vector *v, size_t i,
                         nm_letter *letter) {
  char path[64];
  (void)snprintf(path, sizeof(path), "input.queue[%zu].target", i);
  nm_destination_hash target = {{(uint8_t)nm_vector_text(v, path)[0]}};
  (void)snprintf(path, sizeof(path), "input.queue[%zu].method", i);
  letter->method = (nm_lxmf_method)nm_vector_u64(v, path);
  (void)snprintf(path, sizeof(path), "input.queue[%zu].state", i);
  letter->state = (nm_lxmf_state)nm_vector_u64(v, path);
  (void)snprintf(path, sizeof(path), "input.queue[%zu].sent_on_slow_path", i);
  letter->sent_on_slow_path = nm_vector_bool(v, path);
  letter->router = router;
  letter->number = i;
  letter->lane = nm_lane_of(router, &target);
  NM_CHECK(letter->lane != NULL);
  bool packet = letter->method == NM_LXMF_OPPORTUNISTIC;
  if (letter->state == NM_LXMF_OUTBOUND) {
    nm_lane_join(letter->lane, letter);
  } else if (letter->state == (packet ? NM_LXMF_SENT : NM_LXMF_SENDING)) {
    nm_letter_flies(letter);
  }
}

static void check_held(const nm_vector *v) {
  mail_net *m = two(NULL);
  nm_letter *letters = nm_test_scratch(QUEUE_MAX * sizeof(*letters));
  size_t count = (size_t)nm_vector_find(v, "input.queue")->number;
  bool slow = nm_vector_find(v, "input.slow_targets")->number > 0;
  NM_CHECK(count <= QUEUE_MAX);
  memset(letters, 0, QUEUE_MAX * sizeof(*letters));
  set_bitrate(m, 0, slow ? 1200 : 10000000);
  for (size_t i = 0; i < count; i++) {
    place_letter(m->routers[0], v, i, &letters[i]);
  }
  for (size_t i = 0; i < count; i++) {
    char path[64];
    (void)snprintf(path, sizeof(path), "output.decisions[%zu].held", i);
    nm_test_context("%s: %zu", v->name, i);
    NM_CHECK_INT(nm_letter_held(&letters[i]), nm_vector_bool(v, path));
  }
  mail_dispose(m);
}

NM_TEST(who_waits_for_a_slow_path_is_as_upstream_has_it) {
  nm_vectors_each("lxmf", "slow_path_queue", 6, check_held);
}

static void check_repeats(const nm_vector *v) {
  mail_net *m = two(NULL);
  nm_router *router = m->routers[0];
  nm_destination_hash nobody = {{1}};
  set_bitrate(m, 0, nm_vector_u64(v, "input.lowest_online_interface_bitrate"));
  nm_lane *lane = nm_lane_of(router, &nobody);
  size_t count = (size_t)nm_vector_find(v, "output.calls")->number;
  for (size_t i = 0; i < count; i++) {
    char path[64];
    (void)snprintf(path, sizeof(path), "output.calls[%zu].at_s", i);
    router->now = m->n.now;
    router->now.mono_us += (uint64_t)(nm_vector_number(v, path) * 1e6);
    uint64_t before = router->stats.path_requests;
    nm_gate_ask(lane);
    (void)snprintf(path, sizeof(path), "output.calls[%zu].sent", i);
    NM_CHECK_INT(router->stats.path_requests - before, nm_vector_bool(v, path));
    (void)snprintf(path, sizeof(path), "output.calls[%zu].pending_after", i);
    NM_CHECK_INT(nm_gate_pending(lane), nm_vector_bool(v, path));
  }
  mail_dispose(m);
}

NM_TEST(path_requests_are_not_repeated_too_soon) {
  nm_vectors_each("lxmf", "path_request_repeat", 2, check_repeats);
}

/* ---- loss ---- */

typedef struct loss {
  uint32_t state;
  uint32_t percent;
} loss;

static bool lossy(void *user, int from, nm_span raw) {
  loss *l = user;
  (void)from;
  (void)raw;
  l->state = l->state * 1664525u + 1013904223u;
  return (l->state >> 16) % 100 >= l->percent;
}

NM_TEST(every_message_ends_once_and_comes_once_at_any_loss) {
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT};
  for (uint32_t seed = 1; seed <= 12; seed++) {
    mail_net *m = two(NULL);
    loss l = {.state = seed, .percent = seed * 4};
    uint8_t ids[20][NM_HASH_SIZE];
    nm_test_context("seed %u", seed);
    m->n.wires[0].filter = lossy;
    m->n.wires[0].user = &l;
    for (int i = 0; i < 20; i++) {
      nm_policy policy = mail_by(WAYS[i % 2]);
      NM_CHECK_OK(mail_send(m, 0, 1, i % 4 == 3 ? 3000 : 30, &policy, ids[i]));
    }
    mail_pass(m, 900000000);
    nm_router_stats sent;
    nm_router_stats got;
    nm_router_stats_read(m->routers[0], &sent);
    nm_router_stats_read(m->routers[1], &got);
    NM_CHECK_INT(sent.letters, 0);
    NM_CHECK_INT(sent.delivered + sent.failed + sent.rejected, 20);
    NM_CHECK(got.received >= sent.delivered);
    NM_CHECK(got.received <= 20);
    NM_CHECK_INT(mail_count(m, 1, NM_MAIL_RECEIVED), got.received);
    mail_dispose(m);
  }
}

/* ---- without memory ---- */

/* Two messages by two ways; what could be begun has to end. */
static void scenario(mail_net *m, const nm_mem *mem) {
  static const nm_lxmf_method WAYS[] = {NM_LXMF_OPPORTUNISTIC, NM_LXMF_DIRECT};
  nm_router_config config = {.hold = true};
  if (mail_init(m, mem, 2, &config) == NM_OK) {
    NM_CHECK_INT(net_join(&m->n, 0, 1, "tcp"), 0);
    mail_announce(m, 0);
    mail_announce(m, 1);
    for (int i = 0; i < 2; i++) {
      uint8_t id[NM_HASH_SIZE];
      nm_policy policy = mail_by(WAYS[i]);
      (void)mail_send(m, 0, 1, 20, &policy, id);
    }
    mail_pass(m, 200000000);
    NM_CHECK_INT(m->routers[0]->letters.count, 0);
    NM_CHECK_INT(m->routers[0]->in_flight_all, 0);
    NM_CHECK_INT(m->routers[1]->parcel_count, 0);
  }
  mail_dispose(m);
}

NM_TEST(a_router_without_memory_loses_nothing_it_began) {
  nm_test_mem memory;
  mail_net *m = nm_test_scratch(sizeof(mail_net));
  nm_test_mem_init(&memory);
  scenario(m, &memory.mem);
  NM_CHECK_INT(memory.live, 0);
  size_t calls = memory.calls;
  NM_CHECK(calls > 30);
  for (size_t at = 1; at <= calls; at++) {
    nm_test_context("allocation %zu of %zu", at, calls);
    nm_test_mem_init(&memory);
    memory.fail_at = at;
    scenario(m, &memory.mem);
    NM_CHECK_INT(memory.live, 0);
  }
}

NM_TEST(a_router_ends_with_a_search_that_nobody_has_taken) {
  mail_net *m = nm_test_scratch(sizeof(*m));
  mail_chain(m, 2, NULL);
  m->stops_work = true;
  nm_block *packed = mail_message(m, 0, 1, 20);
  nm_letter_spec spec = {.mailbox = m->boxes[0],
                         .packed = nm_block_span(packed),
                         .policy = mail_by(NM_LXMF_DIRECT),
                         .stamp_cost = 20};
  uint8_t id[NM_HASH_SIZE];
  uint8_t again[NM_HASH_SIZE];
  NM_CHECK_OK(nm_router_check(m->routers[0], &spec, again, m->n.now));
  NM_CHECK_OK(nm_router_send(m->routers[0], &spec, id, m->n.now));
  NM_CHECK_BYTES(again, id, NM_HASH_SIZE);
  NM_CHECK_STATUS(nm_router_check(m->routers[0], &spec, again, m->n.now),
                  NM_E(DUPLICATE_KEY));
  nm_block_drop(packed);
  mail_dispose(m);
}
