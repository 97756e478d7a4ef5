#include "support.h"

#include "wire/destination.h"

#include <stdio.h>
#include <string.h>

static nm_span text_span(const char *text) {
  return nm_span_of(text, strlen(text));
}

static nm_identity_hash identity_hash(nm_span bytes) {
  nm_identity_hash hash;
  NM_CHECK_INT(bytes.len, sizeof hash.b);
  memcpy(hash.b, bytes.ptr, sizeof hash.b);
  return hash;
}

static void check_address_vector(const nm_vector *v) {
  nm_span aspects[8];
  size_t count = (size_t)nm_vector_find(v, "input.aspects")->number;
  for (size_t i = 0; i < count; i++) {
    char path[64];
    snprintf(path, sizeof path, "input.aspects[%zu]", i);
    aspects[i] = text_span(nm_vector_text(v, path));
  }
  uint8_t buf[256];
  nm_writer w = nm_writer_of(buf, sizeof buf);
  NM_CHECK_OK(nm_name_join(&w, text_span(nm_vector_text(v, "input.app_name")),
                           aspects, count));
  nm_span name = nm_writer_done(&w);
  NM_CHECK_SPAN(name, text_span(nm_vector_text(v, "output.name")));
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, name);
  NM_CHECK_SPAN(nm_span_of(name_hash, sizeof name_hash),
                nm_vector_bytes(v, "output.name_hash"));
  nm_destination_hash address;
  if (!nm_vector_has(v, "input.identity_hash")) {
    nm_destination_address(name_hash, NULL, &address);
  } else {
    nm_identity_hash identity =
        identity_hash(nm_vector_bytes(v, "input.identity_hash"));
    nm_destination_address(name_hash, &identity, &address);
    uint8_t full[300];
    nm_writer f = nm_writer_of(full, sizeof full);
    NM_CHECK_OK(nm_name_expand(&f, name, &identity));
    NM_CHECK_SPAN(nm_writer_done(&f),
                  text_span(nm_vector_text(v, "output.full_name")));
  }
  NM_CHECK_SPAN(nm_span_of(address.b, sizeof address.b),
                nm_vector_bytes(v, "output.hash"));
}

NM_TEST(names_and_addresses_are_those_of_the_vectors) {
  nm_vectors_each("reticulum-core", "destination_hash", 12,
                  check_address_vector);
}

static void check_path_vector(const nm_vector *v) {
  uint8_t hash[NM_ADDRESS_SIZE];
  nm_request_path_hash(text_span(nm_vector_text(v, "input.path")), hash);
  NM_CHECK_SPAN(nm_span_of(hash, sizeof hash),
                nm_vector_bytes(v, "output.path_hash"));
}

static void check_interface_vector(const nm_vector *v) {
  uint8_t hash[NM_HASH_SIZE];
  nm_interface_hash(text_span(nm_vector_text(v, "input.name_string")), hash);
  NM_CHECK_SPAN(nm_span_of(hash, sizeof hash),
                nm_vector_bytes(v, "output.hash"));
}

NM_TEST(path_and_interface_hashes_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "request_path_hash", 4, check_path_vector);
  nm_vectors_each(NULL, "path_hash", 5, check_path_vector);
  nm_vectors_each(NULL, "interface_hash", 10, check_interface_vector);
}

NM_TEST(the_transport_s_own_addresses_follow_from_their_names) {
  static const struct {
    const char *name;
    const nm_destination_hash *address;
  } known[] = {{"rnstransport.path.request", &nm_path_request_address},
               {"rnstransport.tunnel.synthesize", &nm_tunnel_address}};
  for (size_t i = 0; i < 2; i++) {
    uint8_t name_hash[NM_NAME_HASH_SIZE];
    nm_destination_hash address;
    nm_name_hash(name_hash, text_span(known[i].name));
    nm_destination_address(name_hash, NULL, &address);
    NM_CHECK_BYTES(address.b, known[i].address->b, NM_ADDRESS_SIZE);
  }
}

NM_TEST(names_split_at_every_dot) {
  static const struct {
    const char *name;
    size_t parts;
    const char *last;
  } cases[] = {{"app", 1, "app"}, {"app.a.b", 3, "b"}, {"", 1, ""},
               {".", 2, ""},      {"a..b", 3, "b"},    {"a.", 2, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("'%s'", cases[i].name);
    nm_span rest = text_span(cases[i].name);
    nm_span part = nm_span_of(NULL, 0);
    size_t parts = 0;
    while (nm_name_next(&rest, &part)) {
      parts++;
    }
    NM_CHECK_INT(parts, cases[i].parts);
    NM_CHECK_SPAN(part, text_span(cases[i].last));
  }
}

NM_TEST(parts_of_names_have_no_dots_and_are_utf8) {
  NM_CHECK_OK(nm_name_part_check(text_span("lxmf")));
  NM_CHECK_STATUS(nm_name_part_check(text_span("a.b")), NM_E(VALUE));
  NM_CHECK_STATUS(nm_name_part_check(nm_span_of("\xff", 1)), NM_E(UTF8));
  uint8_t buf[8];
  nm_writer w = nm_writer_of(buf, sizeof buf);
  nm_span aspects[2] = {text_span("a"), text_span("b.c")};
  NM_CHECK_STATUS(nm_name_join(&w, text_span("x"), aspects, 2), NM_E(VALUE));
  w = nm_writer_of(buf, 3);
  NM_CHECK_STATUS(nm_name_join(&w, text_span("abcd"), NULL, 0),
                  NM_E(TOO_LARGE));
}

NM_TEST(types_directions_and_identities_combine_by_the_rules) {
  static const struct {
    int direction;
    int type;
    bool identity;
    int expected;
    const char *field;
  } cases[] = {
      {NM_DIRECTION_IN, NM_SINGLE, true, NM_DESTINATION_OK, NULL},
      {NM_DIRECTION_IN, NM_SINGLE, false, NM_DESTINATION_NEW_IDENTITY, NULL},
      {NM_DIRECTION_IN, NM_GROUP, false, NM_DESTINATION_NEW_IDENTITY, NULL},
      {NM_DIRECTION_IN, NM_PLAIN, false, NM_DESTINATION_OK, NULL},
      {NM_DIRECTION_OUT, NM_PLAIN, false, NM_DESTINATION_OK, NULL},
      {NM_DIRECTION_OUT, NM_SINGLE, true, NM_DESTINATION_OK, NULL},
      {NM_DIRECTION_OUT, NM_GROUP, true, NM_DESTINATION_OK, NULL},
      {NM_DIRECTION_OUT, NM_SINGLE, false, NM_E(MISSING), "identity"},
      {NM_DIRECTION_OUT, NM_GROUP, false, NM_E(MISSING), "identity"},
      {NM_DIRECTION_IN, NM_PLAIN, true, NM_E(STATE), "identity"},
      {NM_DIRECTION_OUT, NM_PLAIN, true, NM_E(STATE), "identity"},
      {NM_DIRECTION_IN, NM_LINK, true, NM_E(VALUE), "type"},
      {NM_DIRECTION_IN, 9, true, NM_E(VALUE), "type"},
      {0, NM_SINGLE, true, NM_E(VALUE), "direction"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("case %zu", i);
    nm_fault fault = {0};
    NM_CHECK_INT(nm_destination_check(cases[i].direction, cases[i].type,
                                      cases[i].identity, &fault),
                 cases[i].expected);
    NM_CHECK(cases[i].field == NULL ? fault.status == NM_OK
                                    : strcmp(fault.field, cases[i].field) == 0);
  }
  NM_CHECK(nm_destination_announces(NM_DIRECTION_IN, NM_SINGLE));
  NM_CHECK(!nm_destination_announces(NM_DIRECTION_OUT, NM_SINGLE));
  NM_CHECK(!nm_destination_announces(NM_DIRECTION_IN, NM_GROUP));
}

NM_TEST(proof_strategies_and_request_handlers_are_checked) {
  for (int strategy = -1; strategy < 300; strategy++) {
    bool known = strategy >= 0x21 && strategy <= 0x23;
    NM_CHECK_STATUS(nm_proof_strategy_check(strategy),
                    known ? NM_OK : NM_E(VALUE));
  }
  nm_span path = text_span("/x");
  nm_fault fault = {0};
  NM_CHECK_OK(nm_request_handler_check(path, NM_ALLOW_NONE, false, 0, NULL));
  NM_CHECK_OK(nm_request_handler_check(path, NM_ALLOW_ALL, false, 0, NULL));
  NM_CHECK_OK(nm_request_handler_check(path, NM_ALLOW_LIST, true, 32, NULL));
  NM_CHECK_OK(nm_request_handler_check(path, NM_ALLOW_LIST, true, 0, NULL));
  NM_CHECK_STATUS(
      nm_request_handler_check(text_span(""), NM_ALLOW_ALL, false, 0, &fault),
      NM_E(EMPTY));
  NM_CHECK_STATUS(nm_request_handler_check(path, 3, false, 0, &fault),
                  NM_E(VALUE));
  NM_CHECK(strcmp(fault.field, "policy") == 0);
  NM_CHECK_STATUS(
      nm_request_handler_check(path, NM_ALLOW_LIST, false, 0, &fault),
      NM_E(MISSING));
  NM_CHECK_STATUS(
      nm_request_handler_check(path, NM_ALLOW_ALL, true, 16, &fault),
      NM_E(STATE));
  NM_CHECK_STATUS(
      nm_request_handler_check(path, NM_ALLOW_LIST, true, 17, &fault),
      NM_E(LENGTH));
  NM_CHECK(strcmp(fault.field, "allowed") == 0);
}
