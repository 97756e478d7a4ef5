/* Announce app data of delivery destinations and propagation nodes. */
#include "wire/lxmf_appdata.h"

#include "support.h"
#include "wire_data.h"

#include <string.h>

static nm_span text_of(const nm_vector *v, const char *path) {
  const char *text = nm_vector_text(v, path);
  return nm_span_of(text, strlen(text));
}

/* --- Delivery --- */

static nm_span shown_name(const nm_lxmf_delivery *d) {
  if (d->form != NM_LXMF_DELIVERY_ARRAY) {
    return d->name;
  }
  uint8_t *out = (uint8_t *)nm_test_scratch(d->name.len + 1);
  nm_writer w = nm_writer_of(out, d->name.len);
  NM_CHECK_OK(nm_lxmf_name_clean(d->name, &w));
  return nm_writer_done(&w);
}

static void check_delivery(const nm_vector *v, nm_span in, const char *name,
                           const char *cost, const char *compression) {
  nm_lxmf_delivery d;
  NM_CHECK_OK(nm_lxmf_delivery_decode(in, &d, NULL));
  NM_CHECK_INT(d.has_name, nm_vector_has(v, name));
  if (d.has_name) {
    NM_CHECK_SPAN(shown_name(&d), text_of(v, name));
  }
  NM_CHECK_INT(d.has_cost, nm_vector_has(v, cost));
  if (d.has_cost) {
    NM_CHECK_INT(d.cost, nm_vector_u64(v, cost));
  }
  if (nm_vector_has(v, compression)) {
    NM_CHECK_INT(d.compression, nm_vector_bool(v, compression)
                                    ? NM_LXMF_SUPPORT_YES
                                    : NM_LXMF_SUPPORT_NO);
  } else {
    NM_CHECK_INT(d.compression, NM_LXMF_SUPPORT_UNKNOWN);
  }
}

static void run_delivery_parse(const nm_vector *v) {
  nm_span in = nm_vector_has(v, "input.app_data")
                   ? nm_vector_bytes(v, "input.app_data")
                   : nm_span_of(NULL, 0);
  check_delivery(v, in, "output.display_name", "output.stamp_cost",
                 "output.compression_supported");
}

static void run_delivery_build(const nm_vector *v) {
  static const uint64_t functions[1] = {NM_LXMF_SF_COMPRESSION};
  nm_lxmf_delivery_draft draft = {
      .has_name = nm_vector_has(v, "input.display_name"),
      .has_cost = nm_vector_has(v, "input.stamp_cost"),
      .functions = functions,
      .function_count = 1};
  if (draft.has_name) {
    draft.name = text_of(v, "input.display_name");
  }
  if (draft.has_cost) {
    draft.cost = (uint32_t)nm_vector_u64(v, "input.stamp_cost");
  }
  uint8_t out[100];
  size_t size = nm_lxmf_delivery_size(&draft);
  nm_writer w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_lxmf_delivery_encode(&draft, &w));
  NM_CHECK_INT(w.pos, size);
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "output.app_data"));
  check_delivery(v, nm_writer_done(&w), "output.parsed.display_name",
                 "output.parsed.stamp_cost",
                 "output.parsed.compression_supported");
}

NM_TEST(delivery_announces_of_the_vectors_are_read_and_written) {
  nm_vectors_each("lxmf", "delivery_announce_parse", 8, run_delivery_parse);
  nm_vectors_each("lxmf", "delivery_announce_app_data", 7, run_delivery_build);
}

static nm_lxmf_delivery delivery(const char *hex) {
  nm_lxmf_delivery d;
  NM_CHECK_OK(nm_lxmf_delivery_decode(nm_test_unhex(hex), &d, NULL));
  return d;
}

NM_TEST(undecodable_parts_of_a_delivery_announce_are_unknown) {
  NM_CHECK(!delivery("92a16105").has_name);
  NM_CHECK_INT(delivery("92a16105").cost, 5);
  NM_CHECK(!delivery("92c401ff05").has_name);
  NM_CHECK(!delivery("92c0ff").has_cost);
  NM_CHECK(!delivery("92c0cb4014000000000000").has_cost);
  NM_CHECK(!delivery("92c0cf0000000100000000").has_cost);
  NM_CHECK(!delivery("92c0a135").has_cost);
  NM_CHECK(delivery("92c0cd0100").has_cost);
  nm_lxmf_delivery d = delivery("95c400"
                                "05"
                                "93010203"
                                "c081c0c0");
  NM_CHECK_INT(d.compression, NM_LXMF_SUPPORT_NO);
  NM_CHECK_INT(d.function_count, 3);
  NM_CHECK_HEX(d.functions, "010203");
  NM_CHECK_INT(delivery("93c0c092a16100").compression, NM_LXMF_SUPPORT_YES);
  NM_CHECK_INT(delivery("93c0c091c2").compression, NM_LXMF_SUPPORT_YES);
  NM_CHECK_INT(delivery("93c0c091cb0000000000000000").compression,
               NM_LXMF_SUPPORT_YES);
  NM_CHECK_INT(delivery("93c0c0919100").compression, NM_LXMF_SUPPORT_NO);
  /* 0xdd does not begin the array form: it is a name that is no UTF-8. */
  d = delivery("dd00000003c400c0c0");
  NM_CHECK_INT(d.form, NM_LXMF_DELIVERY_LEGACY);
  NM_CHECK(!d.has_name);
  NM_CHECK_INT(d.compression, NM_LXMF_SUPPORT_YES);
  NM_CHECK_INT(delivery("").form, NM_LXMF_DELIVERY_ABSENT);
}

NM_TEST(broken_delivery_announces_leave_nothing_known) {
  static const struct {
    const char *in;
    int status;
  } cases[] = {{"91", NM_E(TRUNCATED)},
               {"92c0", NM_E(TRUNCATED)},
               {"91c1", NM_E(RESERVED)},
               {"91a1ff", NM_E(UTF8)},
               {"dc00", NM_E(TRUNCATED)}};
  for (size_t i = 0; i < 5; i++) {
    nm_lxmf_delivery d;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_lxmf_delivery_decode(nm_test_unhex(cases[i].in), &d, &fault),
        cases[i].status);
    NM_CHECK(strcmp(fault.field, "delivery_app_data") == 0);
    NM_CHECK(!d.has_name && !d.has_cost);
    NM_CHECK_INT(d.compression, NM_LXMF_SUPPORT_UNKNOWN);
  }
}

static void check_clean(const char *in, const char *expected) {
  nm_span name = nm_test_unhex(in);
  uint8_t out[100];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_lxmf_name_clean(name, &w));
  NM_CHECK_HEX(nm_writer_done(&w), expected);
}

NM_TEST(names_lose_nul_characters_and_outer_white_space) {
  check_clean("", "");
  check_clean("20", "");
  check_clean("0020200009", "");
  check_clean("61", "61");
  check_clean("2061206220", "612062");
  check_clean("0061000062", "6162");
  check_clean("6120000020", "61");
  /* No-break space, line separator, ideographic space; zero-width space is
   * none. */
  check_clean("c2a061e280a8", "61");
  check_clean("e38080c3a9e3808020", "c3a9");
  check_clean("e2808b61", "e2808b61");
  check_clean("1f1c61", "61");
  check_clean("c28561f09f9a80c285", "61f09f9a80");
  uint8_t out[1];
  nm_writer w = nm_writer_of(out, 1);
  NM_CHECK_STATUS(nm_lxmf_name_clean(nm_span_of("ab", 2), &w), NM_E(TOO_LARGE));
}

NM_TEST(a_name_to_announce_must_be_text) {
  uint8_t out[50];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_lxmf_delivery_draft draft = {.has_name = true,
                                  .name = nm_span_of("\xff", 1)};
  NM_CHECK_STATUS(nm_lxmf_delivery_encode(&draft, &w), NM_E(UTF8));
  NM_CHECK_INT(w.pos, 0);
  draft.name = nm_span_of("ok", 2);
  w = nm_writer_of(out, nm_lxmf_delivery_size(&draft) - 1);
  NM_CHECK_STATUS(nm_lxmf_delivery_encode(&draft, &w), NM_E(TOO_LARGE));
}

/* --- Propagation nodes --- */

static void check_node(const nm_vector *v, nm_span in, const char *valid,
                       const char *name, const char *cost) {
  nm_lxmf_node node;
  nm_fault fault = {0};
  int status = nm_lxmf_node_decode(in, &node, &fault);
  NM_CHECK_INT(status == NM_OK, nm_vector_bool(v, valid));
  if (status != NM_OK) {
    NM_CHECK_STATUS(fault.status, status);
    NM_CHECK(strncmp(fault.field, "node", 4) == 0);
    return;
  }
  NM_CHECK_INT(node.has_name, nm_vector_has(v, name));
  if (node.has_name) {
    NM_CHECK_SPAN(node.name, text_of(v, name));
  }
  NM_CHECK_INT(node.stamp_cost, nm_vector_u64(v, cost));
}

static void run_node_parse(const nm_vector *v) {
  check_node(v, nm_vector_bytes(v, "input.app_data"), "output.valid",
             "output.name", "output.stamp_cost");
}

static void run_node_build(const nm_vector *v) {
  double limit = nm_vector_number(v, "input.tl");
  nm_lxmf_node_draft draft = {
      .timebase = (int64_t)nm_vector_number(v, "input.time"),
      .active =
          nm_vector_bool(v, "input.pnode") && !nm_vector_bool(v, "input.fso"),
      .transfer_limit_kb = limit,
      .sync_limit_kb = nm_vector_number(v, "input.sl"),
      .limits_float = strcmp(v->name, "pn_announce_float_limits") == 0,
      .stamp_cost = (uint32_t)nm_vector_u64(v, "input.cost"),
      .flexibility = (uint32_t)nm_vector_u64(v, "input.flex"),
      .peering_cost = (uint32_t)nm_vector_u64(v, "input.pc"),
      .implementation = text_of(v, "input.impl_name"),
      .version = text_of(v, "input.version")};
  if (nm_vector_has(v, "input.name")) {
    draft.name = text_of(v, "input.name");
  }
  nm_span expected = nm_vector_bytes(v, "output.app_data");
  uint8_t out[200];
  NM_CHECK_INT(nm_lxmf_node_size(&draft), expected.len);
  nm_writer w = nm_writer_of(out, expected.len);
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), expected);
  check_node(v, expected, "output.parsed.valid", "output.parsed.name",
             "output.parsed.stamp_cost");
  nm_lxmf_node node;
  NM_CHECK_OK(nm_lxmf_node_decode(expected, &node, NULL));
  NM_CHECK_INT(node.timebase, draft.timebase);
  NM_CHECK_INT(node.active, draft.active);
  NM_CHECK(node.transfer_limit_kb == limit);
  NM_CHECK(node.sync_limit_kb == draft.sync_limit_kb);
  NM_CHECK_INT(node.flexibility, draft.flexibility);
  NM_CHECK_INT(node.peering_cost, draft.peering_cost);
  NM_CHECK_SPAN(node.implementation, draft.implementation);
  NM_CHECK_SPAN(node.version, draft.version);
  /* The same with the metadata given as a whole. */
  nm_lxmf_node_draft whole = draft;
  whole.metadata = node.metadata;
  whole.name = nm_span_of(NULL, 0);
  w = nm_writer_of(out, nm_lxmf_node_size(&whole));
  NM_CHECK_OK(nm_lxmf_node_encode(&whole, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), expected);
  for (size_t len = 0; len < expected.len; len++) {
    NM_CHECK_STATUS(
        nm_lxmf_node_decode(nm_span_slice(expected, 0, len), &node, NULL),
        NM_E(TRUNCATED));
  }
}

NM_TEST(node_announces_of_the_vectors_are_read_and_written) {
  nm_vectors_each("lxmf", "pn_announce_parse", 13, run_node_parse);
  nm_vectors_each("lxmf", "pn_announce_app_data", 5, run_node_build);
}

static void node_case(const char *hex, int status, const char *field) {
  nm_test_context("%s", hex);
  nm_lxmf_node node;
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_lxmf_node_decode(nm_test_unhex(hex), &node, &fault),
                  status);
  if (status != NM_OK && strcmp(fault.field, field) != 0) {
    nm_test_fail(__FILE__, __LINE__, "field %s, expected %s", fault.field,
                 field);
  }
}

NM_TEST(numbers_of_a_node_announce_come_in_every_shape) {
  nm_lxmf_node node;
  /* Text with sign, underscore and white space; bytes; floats. */
  NM_CHECK_OK(nm_lxmf_node_decode(
      nm_test_unhex("97c0a4202b3137c3c403323536cb40c400800000000093c3a331"
                    "5f30ff80"),
      &node, NULL));
  NM_CHECK_INT(node.timebase, 17);
  NM_CHECK(node.active);
  NM_CHECK(node.transfer_limit_kb == 256.0);
  NM_CHECK(node.sync_limit_kb == 10241.0);
  NM_CHECK_INT(node.stamp_cost, 1);
  NM_CHECK_INT(node.flexibility, 10);
  NM_CHECK_INT(node.peering_cost, -1);
  NM_CHECK(!node.has_name && !node.has_version && !node.has_implementation);
  NM_CHECK_OK(nm_lxmf_node_decode(
      nm_test_unhex("97c001cb0000000000000000cb3fe00000000000000193101112"
                    "8301a16100c40131ccfec40132"),
      &node, NULL));
  NM_CHECK(!node.active);
  NM_CHECK(node.transfer_limit_kb == 0.5);
  /* Name as text, version and implementation as bytes: not what they are. */
  NM_CHECK(!node.has_name && !node.has_version && !node.has_implementation);
}

NM_TEST(bad_node_announces_are_named) {
  node_case("", NM_E(TRUNCATED), "node");
  node_case("80", NM_E(TYPE), "node");
  node_case("96c001c3010193010101", NM_E(LENGTH), "node");
  node_case("97c001c301019301010180", NM_OK, "");
  node_case("98c001c301019301010180c0ff", NM_OK, "");
  node_case("97c0c0c301019301010180", NM_E(TYPE), "node.timebase");
  node_case("97c0a131c301019301010180", NM_OK, "");
  node_case("97c0a0c301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0a12bc301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0a25f31c301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0a2315fc301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0a4315f5f31c301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0a3312e35c301019301010180", NM_E(VALUE), "node.timebase");
  node_case("97c0b339323233333732303336383534373735383037c301019301010180",
            NM_OK, "");
  node_case("97c0b339323233333732303336383534373735383038c301019301010180",
            NM_E(RANGE), "node.timebase");
  node_case("97c0cf8000000000000000c301019301010180", NM_E(RANGE),
            "node.timebase");
  node_case("97c001c001019301010180", NM_E(TYPE), "node.active");
  node_case("97c0010201019301010180", NM_E(VALUE), "node.active");
  node_case("97c001c3c0019301010180", NM_E(TYPE), "node.transfer_limit");
  node_case("97c001c3cb7ff8000000000000019301010180", NM_E(VALUE),
            "node.transfer_limit");
  node_case("97c001c301cb7ff00000000000009301010180", NM_E(VALUE),
            "node.sync_limit");
  node_case("97c001c301cb43e00000000000009301010180", NM_E(RANGE),
            "node.sync_limit");
  node_case("97c001c3010180"
            "80",
            NM_E(TYPE), "node.costs");
  node_case("97c001c30101920101"
            "80",
            NM_E(LENGTH), "node.costs");
  node_case("97c001c3010193c0010180", NM_E(TYPE), "node.stamp_cost");
  node_case("97c001c301019301900180", NM_E(TYPE), "node.flexibility");
  node_case("97c001c30101930101a17880", NM_E(VALUE), "node.peering_cost");
  node_case("97c001c301019301010190", NM_E(TYPE), "node.metadata");
  node_case("97c001c30101930101018201000100", NM_E(DUPLICATE_KEY), "node");
}

NM_TEST(limits_that_are_no_integers_need_the_float_form) {
  uint8_t out[100];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_lxmf_node_draft draft = {.transfer_limit_kb = 0.5, .sync_limit_kb = 1.0};
  NM_CHECK_STATUS(nm_lxmf_node_encode(&draft, &w), NM_E(RANGE));
  draft.transfer_limit_kb = -1.0;
  NM_CHECK_STATUS(nm_lxmf_node_encode(&draft, &w), NM_E(RANGE));
  NM_CHECK_INT(w.pos, 0);
  draft.limits_float = true;
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &w));
  NM_CHECK_INT(w.pos, nm_lxmf_node_size(&draft));
  draft.name = nm_span_of("\xff", 1);
  NM_CHECK_STATUS(nm_lxmf_node_encode(&draft, &w), NM_E(UTF8));
  draft.name = nm_span_of("n", 1);
  draft.timebase = -100000;
  w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &w));
  NM_CHECK_INT(w.pos, nm_lxmf_node_size(&draft));
  w = nm_writer_of(out, nm_lxmf_node_size(&draft) - 1);
  NM_CHECK_STATUS(nm_lxmf_node_encode(&draft, &w), NM_E(TOO_LARGE));
}

NM_TEST(flipped_bits_of_app_data_are_harmless) {
  nm_span good = nm_test_unhex("97c2ce6553f100c3cd0100cd28009310031283ccfea46c7"
                               "86d6400a5312e322e3101c4084e6577204e6f6465");
  uint8_t *copy = (uint8_t *)nm_test_scratch(good.len);
  for (size_t bit = 0; bit < 8 * good.len; bit++) {
    memcpy(copy, good.ptr, good.len);
    copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    nm_lxmf_node node;
    nm_lxmf_delivery d;
    nm_fault fault = {0};
    int status = nm_lxmf_node_decode(nm_span_of(copy, good.len), &node, &fault);
    NM_CHECK(status == NM_OK || fault.field != NULL);
    (void)nm_lxmf_delivery_decode(nm_span_of(copy, good.len), &d, NULL);
    if (d.has_name) {
      NM_CHECK(nm_utf8_valid(d.name));
    }
  }
}
