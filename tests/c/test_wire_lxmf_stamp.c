/* Stamps, tickets and field maps of LXMF. */
#include "wire/lxmf_stamp.h"

#include "support.h"
#include "wire/lxmf_fields.h"
#include "wire_data.h"

#include <string.h>

static void run_ticket_stamp(const nm_vector *v) {
  nm_span ticket = nm_vector_bytes(v, "input.ticket");
  nm_span id = nm_vector_bytes(v, "input.message_id");
  uint8_t stamp[16];
  nm_lxmf_ticket_stamp(ticket.ptr, id.ptr, stamp);
  NM_CHECK_SPAN(nm_span_of(stamp, 16), nm_vector_bytes(v, "output.stamp"));
  uint8_t others[2][16] = {{1}, {2}};
  const uint8_t *tickets[3] = {others[0], ticket.ptr, others[1]};
  NM_CHECK(nm_lxmf_ticket_match(nm_span_of(stamp, 16), tickets, 3, id.ptr));
  NM_CHECK(!nm_lxmf_ticket_match(nm_span_of(stamp, 16), tickets, 1, id.ptr));
  NM_CHECK(!nm_lxmf_ticket_match(nm_span_of(stamp, 15), tickets, 3, id.ptr));
  uint32_t value;
  NM_CHECK_OK(nm_lxmf_message_stamp_check(nm_span_of(stamp, 16), id.ptr, 250,
                                          tickets, 3, &value));
  NM_CHECK_INT(value, nm_vector_u64(v, "output.stamp_value"));
  stamp[3] ^= 1;
  NM_CHECK_STATUS(nm_lxmf_message_stamp_check(nm_span_of(stamp, 16), id.ptr,
                                              250, tickets, 3, &value),
                  NM_E(VALUE));
  NM_CHECK(value < 250);
}

NM_TEST(ticket_stamps_are_those_of_the_vectors) {
  nm_vectors_each("lxmf", "ticket_stamp", 3, run_ticket_stamp);
}

static void run_message_stamp(const nm_vector *v) {
  nm_span id = nm_vector_bytes(v, "output.message_id");
  nm_span stamp = nm_vector_bytes(v, "input.stamp");
  uint32_t cost = (uint32_t)nm_vector_u64(v, "input.stamp_cost");
  uint32_t expected = (uint32_t)nm_vector_u64(v, "output.stamp_value");
  uint32_t value = 999;
  NM_CHECK_OK(
      nm_lxmf_message_stamp_check(stamp, id.ptr, cost, NULL, 0, &value));
  NM_CHECK_INT(value, expected);
  NM_CHECK_STATUS(
      nm_lxmf_message_stamp_check(stamp, id.ptr, expected + 1, NULL, 0, &value),
      NM_E(VALUE));
  NM_CHECK_INT(value, expected);
  NM_CHECK_STATUS(nm_lxmf_message_stamp_check(nm_span_of(NULL, 0), id.ptr, 0,
                                              NULL, 0, &value),
                  NM_E(MISSING));
  NM_CHECK_INT(value, 0);
}

NM_TEST(message_stamps_have_the_value_of_the_vectors) {
  nm_vectors_each("lxmf", "message_stamped", 4, run_message_stamp);
}

NM_TEST(a_stamp_of_any_length_is_hashed_as_it_is) {
  static const uint8_t id[32] = {4};
  uint32_t value = 999;
  NM_CHECK_OK(
      nm_lxmf_message_stamp_check(nm_span_of("", 0), id, 0, NULL, 0, &value));
  NM_CHECK(value < 200);
  NM_CHECK_OK(
      nm_lxmf_message_stamp_check(nm_span_of(id, 7), id, 0, NULL, 0, &value));
}

static nm_identity_hash hash_of(const nm_vector *v, const char *path) {
  nm_identity_hash hash;
  memcpy(hash.b, nm_vector_bytes(v, path).ptr, sizeof hash.b);
  return hash;
}

static void run_peering(const nm_vector *v) {
  nm_identity_hash receiver = hash_of(v, "input.receiver_identity_hash");
  nm_identity_hash offering = hash_of(v, "input.offering_identity_hash");
  uint8_t material[32];
  nm_lxmf_peering_material(&receiver, &offering, material);
  NM_CHECK_SPAN(nm_span_of(material, 32),
                nm_vector_bytes(v, "input.peering_id"));
  uint32_t value;
  int status = nm_lxmf_peering_key_check(
      nm_vector_bytes(v, "input.key"), &receiver, &offering,
      (uint32_t)nm_vector_u64(v, "input.cost"), &value);
  NM_CHECK_STATUS(status,
                  nm_vector_bool(v, "output.valid") ? NM_OK : NM_E(VALUE));
  NM_CHECK_INT(value, nm_vector_u64(v, "output.value"));
}

NM_TEST(peering_keys_are_judged_as_in_the_vectors) {
  nm_vectors_each("lxmf", "peering_key", 3, run_peering);
}

NM_TEST(nodes_accept_down_to_cost_less_flexibility) {
  NM_CHECK_INT(nm_lxmf_propagation_cost_floor(16, 3), 13);
  NM_CHECK_INT(nm_lxmf_propagation_cost_floor(3, 3), 0);
  NM_CHECK_INT(nm_lxmf_propagation_cost_floor(2, 3), 0);
}

/* --- Tickets --- */

static void run_ticket_generate(const nm_vector *v) {
  double now = nm_vector_number(v, "input.now");
  /* The one ticket of these vectors; it is there in all but the first. */
  double expires = 1700000000.5 + NM_LXMF_TICKET_EXPIRY_S;
  double delivered = 0;
  bool first = strcmp(v->name, "ticket_new") == 0;
  bool has_delivery = nm_vector_has(v, "input.last_delivery");
  if (has_delivery) {
    delivered = nm_vector_number(v, "input.last_delivery");
  }
  nm_lxmf_ticket_choice choice = nm_lxmf_ticket_choose(
      now, first ? NULL : &expires, has_delivery ? &delivered : NULL);
  if (!nm_vector_has(v, "output.field_value")) {
    NM_CHECK_INT(choice, NM_LXMF_TICKET_WITHHOLD);
    return;
  }
  bool fresh = nm_vector_has(v, "input.random");
  NM_CHECK_INT(choice, fresh ? NM_LXMF_TICKET_NEW : NM_LXMF_TICKET_REUSE);
  double expected = nm_vector_number(v, "output.field_value.arr[0].f64");
  NM_CHECK((fresh ? now + NM_LXMF_TICKET_EXPIRY_S : expires) == expected);

  nm_lxmf_ticket ticket = {.expires = expected};
  nm_span secret = nm_vector_bytes(v, "output.field_value.arr[1].bin");
  memcpy(ticket.ticket, secret.ptr, 16);
  uint8_t out[NM_LXMF_TICKET_FIELD_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_lxmf_ticket_encode(&ticket, &w));
  NM_CHECK_INT(w.pos, sizeof out);
  nm_lxmf_ticket back;
  NM_CHECK_OK(nm_lxmf_ticket_decode(nm_writer_done(&w), &back, NULL));
  NM_CHECK(back.expires == expected);
  NM_CHECK_SPAN(nm_span_of(back.ticket, 16), secret);
}

NM_TEST(tickets_are_made_kept_and_withheld_as_in_the_vectors) {
  nm_vectors_each("lxmf", "ticket_generate", 4, run_ticket_generate);
}

NM_TEST(ticket_decisions_turn_exactly_at_their_borders) {
  double now = 1000000.0;
  double at = now + NM_LXMF_TICKET_RENEW_S;
  NM_CHECK_INT(nm_lxmf_ticket_choose(now, &at, NULL), NM_LXMF_TICKET_NEW);
  at += 1;
  NM_CHECK_INT(nm_lxmf_ticket_choose(now, &at, NULL), NM_LXMF_TICKET_REUSE);
  double last = now - NM_LXMF_TICKET_INTERVAL_S;
  NM_CHECK_INT(nm_lxmf_ticket_choose(now, &at, &last), NM_LXMF_TICKET_REUSE);
  last += 1;
  NM_CHECK_INT(nm_lxmf_ticket_choose(now, &at, &last), NM_LXMF_TICKET_WITHHOLD);
}

NM_TEST(ticket_fields_that_are_none_are_named) {
  static const struct {
    const char *value;
    int status;
    const char *field;
  } cases[] = {
      {"92cb3ff0000000000000c41000000000000000000000000000000000", NM_OK, ""},
      {"9301c41000000000000000000000000000000000c0", NM_OK, ""},
      {"", NM_E(TRUNCATED), "ticket"},
      {"80", NM_E(TYPE), "ticket"},
      {"9101", NM_E(LENGTH), "ticket"},
      {"92c0c410", NM_E(TYPE), "ticket.expires"},
      {"92a131c410", NM_E(TYPE), "ticket.expires"},
      {"9201c400", NM_E(LENGTH), "ticket.ticket"},
      {"9201a400000000", NM_E(TYPE), "ticket.ticket"},
      {"9201c4100000", NM_E(TRUNCATED), "ticket.ticket"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nm_test_context("%s", cases[i].value);
    nm_lxmf_ticket ticket;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_lxmf_ticket_decode(nm_test_unhex(cases[i].value), &ticket, &fault),
        cases[i].status);
    NM_CHECK(cases[i].status == NM_OK ||
             strcmp(fault.field, cases[i].field) == 0);
  }
}

/* --- Field maps --- */

NM_TEST(fields_are_found_by_their_number) {
  /* {1: "a", "k": 2, 12: [1.5, b""], [1]: nil, 300: {}, 5.0: true} */
  nm_span fields = nm_test_unhex("8601a161a16b020c92cb3ff8000000000000c400"
                                 "9101c0cd012c80cb4014000000000000c3");
  nm_span value;
  NM_CHECK_OK(nm_lxmf_field_find(fields, 1, &value));
  NM_CHECK_HEX(value, "a161");
  NM_CHECK_OK(nm_lxmf_field_find(fields, 12, &value));
  NM_CHECK_HEX(value, "92cb3ff8000000000000c400");
  NM_CHECK_OK(nm_lxmf_field_find(fields, 300, &value));
  NM_CHECK_HEX(value, "80");
  NM_CHECK_OK(nm_lxmf_field_find(fields, 5, &value));
  NM_CHECK_HEX(value, "c3");
  NM_CHECK_STATUS(nm_lxmf_field_find(fields, 2, &value), NM_E(MISSING));
  NM_CHECK_STATUS(nm_lxmf_field_find(nm_span_of(NULL, 0), 1, &value),
                  NM_E(MISSING));
  NM_CHECK_STATUS(nm_lxmf_field_find(nm_test_unhex("9101"), 1, &value),
                  NM_E(TYPE));
  NM_CHECK_OK(nm_lxmf_field_find(nm_test_unhex("81c307"), 1, &value));
  NM_CHECK_OK(nm_lxmf_field_find(nm_test_unhex("81c207"), 0, &value));
  NM_CHECK_STATUS(nm_lxmf_field_find(nm_test_unhex("81c307"), 0, &value),
                  NM_E(MISSING));
  for (size_t len = 1; len < 20; len++) {
    NM_CHECK_STATUS(
        nm_lxmf_field_find(nm_span_slice(fields, 0, len), 999, &value),
        NM_E(TRUNCATED));
  }
}
