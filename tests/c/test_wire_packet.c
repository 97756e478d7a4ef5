#include "support.h"

#include "wire/packet.h"

#include <string.h>

static const uint8_t destination[NM_ADDRESS_SIZE] = {
    0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint8_t transport_id[NM_ADDRESS_SIZE] = {
    0x70, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static nm_span address(const uint8_t *bytes) {
  return nm_span_of(bytes, NM_ADDRESS_SIZE);
}

/* A packet that packs: DATA to SINGLE with a payload of |len| bytes. */
static nm_packet sample(const void *payload, size_t len) {
  return nm_packet_of(NM_DATA, NM_SINGLE, NM_CONTEXT_NONE, destination,
                      nm_span_of(payload, len));
}

static nm_span pack_as(const nm_packet *p, nm_packet_role role, size_t mtu) {
  uint8_t *out = (uint8_t *)nm_test_scratch(2048);
  size_t len = 0;
  NM_CHECK_OK(nm_packet_pack(p, role, mtu, out, 2048, &len, NULL));
  return nm_span_of(out, len);
}

static nm_packet parse(nm_span raw) {
  nm_packet p;
  NM_CHECK_OK(nm_packet_parse(raw, &p, NULL));
  return p;
}

static void check_field(const nm_vector *v, const char *path, uint8_t actual) {
  if (nm_vector_has(v, path)) {
    NM_CHECK_INT(actual, nm_vector_u64(v, path));
  }
}

static void check_packet_vector(const nm_vector *v) {
  nm_span raw = nm_vector_bytes(v, "output.raw");
  nm_packet p = parse(raw);
  check_field(v, "output.flags", p.flags);
  check_field(v, "output.hops", p.hops);
  check_field(v, "output.header_type", p.header_type);
  check_field(v, "output.context_flag", p.context_flag);
  check_field(v, "output.transport_type", p.transport_type);
  check_field(v, "output.destination_type", p.destination_type);
  check_field(v, "output.packet_type", p.packet_type);
  check_field(v, "output.context", p.context);
  NM_CHECK_SPAN(p.destination, nm_vector_bytes(v, "output.destination_hash"));
  NM_CHECK_SPAN(p.payload, nm_vector_bytes(v, "output.data"));
  if (nm_vector_has(v, "output.transport_id")) {
    NM_CHECK_SPAN(p.transport_id, nm_vector_bytes(v, "output.transport_id"));
  } else {
    NM_CHECK_INT(p.transport_id.len, 0);
  }
  nm_span hashable = nm_vector_bytes(v, "output.hashable_part");
  NM_CHECK_INT(hashable.ptr[0], nm_packet_hash_flags(p.flags));
  NM_CHECK_SPAN(p.hashable, nm_span_of(hashable.ptr + 1, hashable.len - 1));
  nm_packet_hash hash;
  nm_packet_digest(&p, &hash);
  NM_CHECK_SPAN(nm_span_of(hash.b, NM_HASH_SIZE),
                nm_vector_bytes(v, "output.packet_hash"));
  NM_CHECK_SPAN(pack_as(&p, NM_PACKET_RELAY, NM_MTU), raw);
}

NM_TEST(packet_vectors_parse_hash_and_pack_to_the_same_bytes) {
  nm_vectors_each("reticulum-core", "packet", 12, check_packet_vector);
}

static void check_parse_vector(const nm_vector *v) {
  nm_packet p;
  int status = nm_packet_parse(nm_vector_bytes(v, "input.raw"), &p, NULL);
  NM_CHECK_INT(status == NM_OK, nm_vector_bool(v, "output.accepted"));
}

NM_TEST(packets_are_accepted_and_refused_as_the_vectors_say) {
  nm_vectors_each(NULL, "packet_parse", 8, check_parse_vector);
}

/* A relay's copy: what was received, with other header fields. */
static nm_span relayed(nm_span received, const uint8_t *next_hop,
                       uint8_t hops) {
  nm_packet p = parse(received);
  p.hops = hops;
  p.header_type = next_hop != NULL ? NM_HEADER_2 : NM_HEADER_1;
  p.transport_type = next_hop != NULL ? NM_TRANSPORT : NM_BROADCAST;
  p.transport_id = next_hop != NULL ? address(next_hop) : nm_span_of(NULL, 0);
  return pack_as(&p, NM_PACKET_RELAY, NM_MTU);
}

static void check_outbound_vector(const nm_vector *v) {
  nm_span next = nm_vector_bytes(v, "input.next_hop");
  const char *from = nm_vector_has(v, "input.packed_header1")
                         ? "input.packed_header1"
                         : "input.client_raw";
  const char *to = nm_vector_has(v, "output.sent_raw") ? "output.sent_raw"
                                                       : "output.external_raw";
  NM_CHECK_SPAN(relayed(nm_vector_bytes(v, from), next.ptr, 0),
                nm_vector_bytes(v, to));
}

NM_TEST(a_transport_header_is_inserted_and_replaced_as_in_the_vectors) {
  nm_vectors_each(NULL, "transport_outbound", 1, check_outbound_vector);
  nm_vectors_each(NULL, "shared_client_out", 1, check_outbound_vector);
}

static void check_forward_vector(const nm_vector *v) {
  nm_span received = nm_vector_bytes(v, "input.received_raw");
  nm_packet p = parse(received);
  if (p.packet_type == NM_LINKREQUEST) {
    return; /* the MTU changes too: see the tests of links */
  }
  bool next = nm_vector_has(v, "input.next_hop");
  const uint8_t *id = next ? nm_vector_bytes(v, "input.next_hop").ptr : NULL;
  NM_CHECK_SPAN(relayed(received, id, (uint8_t)(p.hops + 1)),
                nm_vector_bytes(v, "output.sent_raw"));
}

NM_TEST(forwarded_packets_are_rewritten_as_in_the_vectors) {
  nm_vectors_each(NULL, "transport_forward", 8, check_forward_vector);
  nm_vectors_each(NULL, "shared_forward", 1, check_forward_vector);
}

static void check_rebroadcast_vector(const nm_vector *v) {
  nm_span received = nm_vector_bytes(v, "input.received_raw");
  nm_span id = nm_vector_bytes(v, "input.transport_id");
  const char *to = nm_vector_has(v, "output.client_raw")
                       ? "output.client_raw"
                       : "output.rebroadcast_raw";
  nm_packet p = parse(received);
  NM_CHECK_SPAN(relayed(received, id.ptr, (uint8_t)(p.hops + 1)),
                nm_vector_bytes(v, to));
}

NM_TEST(rebroadcast_announces_are_rebuilt_as_in_the_vectors) {
  nm_vectors_each(NULL, "transport_rebroadcast", 1, check_rebroadcast_vector);
  nm_vectors_each(NULL, "shared_announce_in", 1, check_rebroadcast_vector);
}

static void check_sealed_vector(const nm_vector *v) {
  nm_packet_hash hash;
  NM_CHECK_OK(
      nm_packet_digest_raw(nm_vector_bytes(v, "output.raw"), &hash, NULL));
  NM_CHECK_SPAN(nm_span_of(hash.b, NM_HASH_SIZE),
                nm_vector_bytes(v, "output.packet_hash"));
}

NM_TEST(packets_on_links_have_the_hashes_of_the_vectors) {
  nm_vectors_each(NULL, "link_data", 4, check_sealed_vector);
  nm_vectors_each(NULL, "channel", 2, check_sealed_vector);
  nm_vectors_each(NULL, "link_close", 1, check_sealed_vector);
  nm_vectors_each(NULL, "resource_cancel", 2, check_sealed_vector);
}

NM_TEST(every_flags_byte_parses_to_its_bits_and_packs_back) {
  uint8_t raw[NM_HEADER_2_SIZE + 4];
  nm_test_random_bytes(raw, sizeof raw);
  raw[1] = 7;
  for (unsigned flags = 0; flags < 256; flags++) {
    nm_test_context("flags %02x", flags);
    raw[0] = (uint8_t)flags;
    nm_span in = nm_span_of(raw, sizeof raw);
    nm_packet p = parse(in);
    NM_CHECK_INT(p.flags, flags);
    NM_CHECK_INT(p.ifac_flag, flags >> 7);
    NM_CHECK_INT(p.header_type, (flags >> 6) & 1);
    NM_CHECK_INT(p.context_flag, (flags >> 5) & 1);
    NM_CHECK_INT(p.transport_type, (flags >> 4) & 1);
    NM_CHECK_INT(p.destination_type, (flags >> 2) & 3);
    NM_CHECK_INT(p.packet_type, flags & 3);
    NM_CHECK_INT(nm_packet_flags(&p), flags & 0x7f);
    size_t header = flags & 0x40 ? NM_HEADER_2_SIZE : NM_HEADER_1_SIZE;
    NM_CHECK_INT(p.payload.len, sizeof raw - header);
    NM_CHECK_INT(p.context, raw[header - 1]);
    size_t len = 0;
    uint8_t out[sizeof raw];
    int status = nm_packet_pack(&p, NM_PACKET_RELAY, NM_MTU, out, sizeof out,
                                &len, NULL);
    NM_CHECK_STATUS(status, flags & 0x80 ? NM_E(VALUE) : NM_OK);
    if (status == NM_OK) {
      NM_CHECK_SPAN(nm_span_of(out, len), in);
    }
  }
}

NM_TEST(packets_cut_at_every_length_are_refused_naming_the_field) {
  static const char *const fields_1[] = {"flags", "hops", "destination",
                                         "context", "payload"};
  static const size_t ends_1[] = {1, 2, 18, 19, 20};
  static const char *const fields_2[] = {
      "flags", "hops", "transport_id", "destination", "context", "payload"};
  static const size_t ends_2[] = {1, 2, 18, 34, 35, 36};
  uint8_t raw[64] = {0};
  for (int header = 0; header < 2; header++) {
    raw[0] = header ? 0x51 : 0x00;
    const size_t *ends = header ? ends_2 : ends_1;
    const char *const *fields = header ? fields_2 : fields_1;
    size_t whole = header ? 36 : 20;
    for (size_t len = 0; len < whole; len++) {
      nm_test_context("header %d length %zu", header + 1, len);
      nm_packet p;
      nm_fault fault = {0};
      int status = nm_packet_parse(nm_span_of(raw, len), &p, &fault);
      size_t field = 0;
      while (ends[field] <= len) {
        field++;
      }
      bool empty = len == whole - 1;
      NM_CHECK_STATUS(status, empty ? NM_E(EMPTY) : NM_E(TRUNCATED));
      NM_CHECK_STATUS(fault.status, status);
      NM_CHECK(strcmp(fault.field, fields[field]) == 0);
      NM_CHECK_INT(fault.offset, field == 0 ? 0 : ends[field - 1]);
    }
    nm_packet p;
    NM_CHECK_OK(nm_packet_parse(nm_span_of(raw, whole), &p, NULL));
  }
}

NM_TEST(a_hop_byte_from_128_on_is_malformed) {
  uint8_t raw[20] = {0};
  for (unsigned hops = 0; hops < 256; hops++) {
    nm_test_context("hops %u", hops);
    raw[1] = (uint8_t)hops;
    nm_packet p;
    nm_fault fault = {0};
    int status = nm_packet_parse(nm_span_of(raw, sizeof raw), &p, &fault);
    NM_CHECK_STATUS(status, hops < 128 ? NM_OK : NM_E(RANGE));
    NM_CHECK(status == NM_OK || strcmp(fault.field, "hops") == 0);
  }
}

static void check_refused(const nm_packet *p, nm_packet_role role, size_t mtu,
                          size_t cap, int expected, const char *field) {
  uint8_t out[600];
  uint8_t untouched[600];
  memset(out, 0xa5, sizeof out);
  memset(untouched, 0xa5, sizeof untouched);
  size_t len = 77;
  nm_fault fault = {0};
  nm_test_context("%s", field);
  NM_CHECK_STATUS(nm_packet_pack(p, role, mtu, out, cap, &len, &fault),
                  expected);
  NM_CHECK_STATUS(fault.status, expected);
  NM_CHECK(strcmp(fault.field, field) == 0);
  NM_CHECK_BYTES(out, untouched, sizeof out);
  NM_CHECK_INT(len, 77);
}

NM_TEST(packing_refuses_what_does_not_fit_and_writes_nothing) {
  static const uint8_t payload[500] = {1};
  nm_packet p = sample(payload, 482);
  check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 600, NM_E(TOO_LARGE),
                "packet");
  p.payload.len = 481;
  NM_CHECK_INT(pack_as(&p, NM_PACKET_ORIGINATE, NM_MTU).len, 500);
  check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 499, NM_E(TOO_LARGE),
                "output");
  check_refused(&p, NM_PACKET_ORIGINATE, 10, 600, NM_E(TOO_LARGE), "packet");
  check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 0, NM_E(TOO_LARGE), "output");
  p.payload.len = SIZE_MAX;
  check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 600, NM_E(TOO_LARGE),
                "packet");
  p.payload.len = SIZE_MAX - 18;
  check_refused(&p, NM_PACKET_ORIGINATE, SIZE_MAX, 600, NM_E(TOO_LARGE),
                "packet");
  p.payload.len = 0;
  check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 600, NM_E(EMPTY), "payload");
}

NM_TEST(packing_refuses_fields_that_do_not_fit_their_bits) {
  struct {
    size_t offset;
    uint8_t bad;
    const char *field;
  } cases[] = {{offsetof(nm_packet, header_type), 2, "header_type"},
               {offsetof(nm_packet, context_flag), 2, "context_flag"},
               {offsetof(nm_packet, transport_type), 2, "transport_type"},
               {offsetof(nm_packet, destination_type), 4, "destination_type"},
               {offsetof(nm_packet, packet_type), 4, "packet_type"},
               {offsetof(nm_packet, hops), 128, "hops"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (unsigned value = cases[i].bad; value < 256; value++) {
      nm_packet p = sample("x", 1);
      memset((uint8_t *)&p + cases[i].offset, (int)value, 1);
      check_refused(&p, NM_PACKET_RELAY, NM_MTU, 600, NM_E(RANGE),
                    cases[i].field);
    }
  }
}

NM_TEST(packing_refuses_wrong_addresses) {
  nm_packet p = sample("x", 1);
  p.destination.len = 15;
  check_refused(&p, NM_PACKET_RELAY, NM_MTU, 600, NM_E(LENGTH), "destination");
  p = sample("x", 1);
  p.transport_id = address(transport_id);
  check_refused(&p, NM_PACKET_RELAY, NM_MTU, 600, NM_E(VALUE), "transport_id");
  p.header_type = NM_HEADER_2;
  p.transport_id.len = 15;
  check_refused(&p, NM_PACKET_RELAY, NM_MTU, 600, NM_E(LENGTH), "transport_id");
  p.transport_id = nm_span_of(NULL, 0);
  check_refused(&p, NM_PACKET_RELAY, NM_MTU, 600, NM_E(MISSING),
                "transport_id");
}

NM_TEST(the_fault_functions_find_nothing_wrong_with_good_packets) {
  nm_packet p = sample("x", 1);
  NM_CHECK_OK(nm_packet_pack_fault(&p, NM_PACKET_ORIGINATE, NM_MTU, 20, NULL));
  NM_CHECK_OK(
      nm_packet_parse_fault(pack_as(&p, NM_PACKET_ORIGINATE, NM_MTU), NULL));
}

NM_TEST(only_announces_are_originated_with_a_transport_header) {
  for (uint8_t type = NM_DATA; type <= NM_PROOF; type++) {
    nm_packet p = sample("x", 1);
    p.packet_type = type;
    p.header_type = NM_HEADER_2;
    p.transport_id = address(transport_id);
    if (type == NM_ANNOUNCE) {
      NM_CHECK_INT(pack_as(&p, NM_PACKET_ORIGINATE, NM_MTU).len, 36);
    } else {
      check_refused(&p, NM_PACKET_ORIGINATE, NM_MTU, 600, NM_E(STATE),
                    "header_type");
    }
    NM_CHECK_INT(pack_as(&p, NM_PACKET_RELAY, NM_MTU).len, 36);
  }
}

NM_TEST(a_larger_mtu_allows_larger_packets_on_links) {
  uint8_t *payload = (uint8_t *)nm_test_scratch(1000);
  memset(payload, 1, 1000);
  nm_packet p = sample(payload, 1000);
  p.destination_type = NM_LINK;
  NM_CHECK_INT(pack_as(&p, NM_PACKET_ORIGINATE, 1064).len, 1019);
}

NM_TEST(the_hash_ignores_what_changes_from_hop_to_hop_and_nothing_else) {
  nm_packet p = sample("payload", 7);
  nm_span raw = pack_as(&p, NM_PACKET_RELAY, NM_MTU);
  nm_packet_hash first;
  NM_CHECK_OK(nm_packet_digest_raw(raw, &first, NULL));
  p.hops = 9;
  p.context_flag = 1;
  p.header_type = NM_HEADER_2;
  p.transport_type = NM_TRANSPORT;
  p.transport_id = address(transport_id);
  nm_packet_hash second;
  NM_CHECK_OK(nm_packet_digest_raw(pack_as(&p, NM_PACKET_RELAY, NM_MTU),
                                   &second, NULL));
  NM_CHECK_BYTES(first.b, second.b, NM_HASH_SIZE);
  uint8_t *flipped = (uint8_t *)nm_test_scratch(raw.len);
  for (size_t bit = 0; bit < raw.len * 8; bit++) {
    nm_test_context("bit %zu", bit);
    memcpy(flipped, raw.ptr, raw.len);
    flipped[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    bool covered = bit >= 16 || bit < 4;
    if (nm_packet_digest_raw(nm_span_of(flipped, raw.len), &second, NULL) ==
            NM_OK &&
        bit != 6) {
      NM_CHECK_INT(memcmp(first.b, second.b, NM_HASH_SIZE) != 0, covered);
    }
  }
}

NM_TEST(packets_travel_in_clear_as_the_table_says) {
  for (unsigned context = 0; context < 256; context++) {
    uint8_t c = (uint8_t)context;
    nm_test_context("context %02x", context);
    bool clear_data = c == 0x01 || c == 0xfa || c == 0x08 || c == 0xff;
    NM_CHECK_INT(nm_packet_travels_in_clear(NM_DATA, NM_SINGLE, c), clear_data);
    NM_CHECK_INT(nm_packet_travels_in_clear(NM_DATA, NM_GROUP, c), clear_data);
    NM_CHECK_INT(nm_packet_travels_in_clear(NM_DATA, NM_LINK, c), clear_data);
    NM_CHECK(nm_packet_travels_in_clear(NM_DATA, NM_PLAIN, c));
    for (uint8_t type = NM_SINGLE; type <= NM_LINK; type++) {
      NM_CHECK(nm_packet_travels_in_clear(NM_ANNOUNCE, type, c));
      NM_CHECK(nm_packet_travels_in_clear(NM_LINKREQUEST, type, c));
      NM_CHECK(nm_packet_travels_in_clear(NM_PROOF, type, c));
    }
  }
}

NM_TEST(the_filter_lets_six_contexts_repeat) {
  unsigned count = 0;
  for (unsigned context = 0; context < 256; context++) {
    count += nm_packet_skips_filter((uint8_t)context);
  }
  NM_CHECK_INT(count, 6);
  NM_CHECK(nm_packet_skips_filter(NM_CONTEXT_CHANNEL));
  NM_CHECK(!nm_packet_skips_filter(NM_CONTEXT_RESOURCE_ADV));
}

NM_TEST(receipts_exist_for_data_that_can_be_proven) {
  NM_CHECK(nm_packet_has_receipt(NM_DATA, NM_SINGLE, NM_CONTEXT_NONE));
  NM_CHECK(nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_CHANNEL));
  NM_CHECK(nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_REQUEST));
  NM_CHECK(!nm_packet_has_receipt(NM_DATA, NM_PLAIN, NM_CONTEXT_NONE));
  NM_CHECK(!nm_packet_has_receipt(NM_PROOF, NM_SINGLE, NM_CONTEXT_NONE));
  NM_CHECK(!nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_RESOURCE));
  NM_CHECK(!nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_RESOURCE_RCL));
  NM_CHECK(nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_CACHE_REQUEST));
  NM_CHECK(!nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_KEEPALIVE));
  NM_CHECK(!nm_packet_has_receipt(NM_DATA, NM_LINK, NM_CONTEXT_LRPROOF));
}

NM_TEST(context_names_exist_for_the_21_codes) {
  unsigned named = 0;
  for (unsigned context = 0; context < 256; context++) {
    named += nm_context_name((uint8_t)context) != NULL;
  }
  NM_CHECK_INT(named, 21);
  NM_CHECK(strcmp(nm_context_name(NM_CONTEXT_NONE), "NONE") == 0);
  NM_CHECK(strcmp(nm_context_name(NM_CONTEXT_CHANNEL), "CHANNEL") == 0);
  NM_CHECK(strcmp(nm_context_name(NM_CONTEXT_KEEPALIVE), "KEEPALIVE") == 0);
  NM_CHECK(strcmp(nm_context_name(NM_CONTEXT_LRPROOF), "LRPROOF") == 0);
}

NM_TEST(the_table_of_constants_has_unique_names_and_the_derived_values) {
  for (size_t i = 0; i < nm_constant_count; i++) {
    const nm_constant *c = &nm_constants[i];
    nm_test_context("%s", c->name);
    NM_CHECK(c->unit[0] != '\0' && c->text[0] != '\0');
    for (size_t j = 0; j < i; j++) {
      NM_CHECK(strcmp(c->name, nm_constants[j].name) != 0);
    }
  }
  NM_CHECK_INT(NM_MDU, NM_MTU - NM_HEADER_2_SIZE - NM_IFAC_SIZE_MIN);
  NM_CHECK_INT(NM_ENCRYPTED_MDU, (NM_MDU - 48 - 32) / 16 * 16 - 1);
  NM_CHECK_INT(NM_ANNOUNCE_APP_DATA_MAX,
               NM_MTU - NM_HEADER_1_SIZE - NM_ANNOUNCE_MIN);
  NM_CHECK_INT(NM_ANNOUNCE_APP_DATA_RELAYED,
               NM_MTU - NM_HEADER_2_SIZE - NM_ANNOUNCE_MIN);
}
