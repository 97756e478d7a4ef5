/* LXMF messages: decoding, id, signature, encoding. */
#include "wire/lxmf_message.h"

#include "support.h"
#include "wire/lxmf_stamp.h"
#include "wire_data.h"

#include <string.h>

/* The draft that a decoded message was made from. */
static nm_lxmf_draft draft_of(const nm_lxmf_view *view) {
  nm_lxmf_draft draft = {.destination = view->destination,
                         .source = view->source,
                         .timestamp = view->timestamp,
                         .title = view->title,
                         .content = view->content,
                         .fields = view->fields,
                         .stamp = view->stamp};
  return draft;
}

static void check_id(const nm_lxmf_view *view, nm_span expected) {
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_lxmf_message_id(view, &scratch, id));
  NM_CHECK_SPAN(nm_span_of(id, 32), expected);
  NM_CHECK_INT(scratch.len, 0);
  NM_CHECK_OK(nm_lxmf_signed_data(view, &scratch, id));
  NM_CHECK_SPAN(nm_span_of(id, 32), expected);
  NM_CHECK_SPAN(nm_span_of(scratch.ptr + scratch.len - 32, 32), expected);
  nm_buffer_dispose(&scratch);
}

static int verify(const nm_lxmf_view *view, const nm_identity *source) {
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  int status = nm_lxmf_verify(view, source->public_key + 32, &scratch, id);
  NM_CHECK_INT(scratch.len, 0);
  nm_buffer_dispose(&scratch);
  return status;
}

/* Encodes |draft| in exactly the room it needs. */
static nm_span encode(const nm_lxmf_draft *draft, nm_span signature) {
  size_t size = nm_lxmf_packed_size(draft);
  uint8_t *out = (uint8_t *)nm_test_scratch(size);
  nm_writer w = nm_writer_of(out, size - 1);
  NM_CHECK_STATUS(nm_lxmf_encode(draft, signature.ptr, &w), NM_E(TOO_LARGE));
  w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_lxmf_encode(draft, signature.ptr, &w));
  NM_CHECK_INT(w.pos, size);
  return nm_writer_done(&w);
}

/* --- Vectors --- */

static void check_sizes(const nm_vector *v, const nm_lxmf_view *view,
                        const nm_lxmf_draft *draft) {
  NM_CHECK_INT(nm_lxmf_payload_size(draft),
               nm_vector_u64(v, "output.payload_len"));
  NM_CHECK_INT(view->payload.len, nm_vector_u64(v, "output.payload_len"));
  NM_CHECK_INT(nm_lxmf_packed_size(draft),
               nm_vector_u64(v, "output.packed_len"));
  NM_CHECK_INT(view->elements.len + 1,
               nm_vector_u64(v, "output.payload_unstamped_len"));
}

static void run_message(const nm_vector *v) {
  nm_identity alice;
  nm_wire_identity("identity_alice", &alice);
  nm_span packed = nm_vector_bytes(v, "output.packed");
  nm_span id = nm_vector_bytes(v, "output.message_id");
  nm_lxmf_view view;
  NM_CHECK_OK(nm_lxmf_decode(packed, NULL, &view, NULL));
  NM_CHECK_SPAN(nm_span_of(view.destination.b, 16),
                nm_test_unhex("1722614b182c02ca4f1c56fee28e5b5d"));
  NM_CHECK_SPAN(nm_span_of(view.source.b, 16),
                nm_test_unhex("445ac9bb2cd76c3c568da8c80014ca47"));
  NM_CHECK_SPAN(view.signature, nm_vector_bytes(v, "output.signature"));
  NM_CHECK(view.timestamp == nm_vector_number(v, "input.timestamp"));
  NM_CHECK_SPAN(view.title, nm_vector_bytes(v, "input.title"));
  NM_CHECK_SPAN(view.content, nm_vector_bytes(v, "input.content"));
  NM_CHECK(!view.title_text && !view.content_text && view.canonical);
  check_id(&view, id);
  NM_CHECK_OK(verify(&view, &alice));

  bool whole_seconds =
      strcmp(nm_vector_text(v, "input.timestamp_type"), "int") == 0;
  NM_CHECK_INT(view.timestamp_type, whole_seconds ? NM_MP_UINT : NM_MP_FLOAT);
  if (whole_seconds) {
    NM_CHECK_INT(view.timestamp_uint, nm_vector_u64(v, "input.timestamp"));
    return; /* read, never written */
  }
  nm_lxmf_draft draft = draft_of(&view);
  check_sizes(v, &view, &draft);
  NM_CHECK_SPAN(encode(&draft, view.signature), packed);
  uint8_t own[32];
  nm_lxmf_draft_id(&draft, own);
  NM_CHECK_SPAN(nm_span_of(own, 32), id);

  const uint8_t *ticket = NULL;
  if (nm_vector_has(v, "input.ticket")) {
    ticket = nm_vector_bytes(v, "input.ticket").ptr;
    draft.stamp.len = 0;
  }
  size_t room = nm_lxmf_packed_size(&draft) + (ticket != NULL ? 18 : 0);
  uint8_t *out = (uint8_t *)nm_test_scratch(room);
  nm_writer w = nm_writer_of(out, room);
  NM_CHECK_OK(nm_lxmf_pack(&draft, &alice.sign, ticket, &w, own));
  NM_CHECK_SPAN(nm_writer_done(&w), packed);
  NM_CHECK_SPAN(nm_span_of(own, 32), id);

  uint8_t *fields = (uint8_t *)nm_test_scratch(2 * view.fields.len + 16);
  w = nm_writer_of(fields, 2 * view.fields.len + 16);
  NM_CHECK_OK(nm_lxmf_fields_canonical(view.fields, NULL, &w, NULL));
  NM_CHECK_SPAN(nm_writer_done(&w), view.fields);
}

NM_TEST(messages_of_the_vectors_are_read_written_signed_and_verified) {
  nm_vectors_each("lxmf", "message", 32, run_message);
  nm_vectors_each("lxmf", "message_nonstandard_int_ts", 1, run_message);
  nm_vectors_each("lxmf", "message_stamped", 4, run_message);
  nm_vectors_each("lxmf", "message_ticket_stamped", 2, run_message);
}

static void run_stamped(const nm_vector *v) {
  nm_lxmf_view view;
  NM_CHECK_OK(
      nm_lxmf_decode(nm_vector_bytes(v, "output.packed"), NULL, &view, NULL));
  NM_CHECK_INT(view.count, 5);
  NM_CHECK_INT(view.stamp_type, NM_MP_BIN);
  NM_CHECK_SPAN(view.stamp, nm_vector_bytes(v, "output.stamp_in_payload"));
}

NM_TEST(stamps_of_the_vectors_are_found) {
  nm_vectors_each("lxmf", "message_stamped", 4, run_stamped);
  nm_vectors_each("lxmf", "message_ticket_stamped", 2, run_stamped);
}

static void check_text(const nm_vector *v, const char *plain,
                       const char *as_text, nm_span actual, bool text) {
  if (nm_vector_has(v, as_text)) {
    const char *expected = nm_vector_text(v, as_text);
    NM_CHECK(text);
    NM_CHECK_SPAN(actual, nm_span_of(expected, strlen(expected)));
  } else {
    NM_CHECK(!text);
    NM_CHECK_SPAN(actual, nm_vector_bytes(v, plain));
  }
}

static void run_unpack(const nm_vector *v) {
  nm_identity alice;
  nm_wire_identity("identity_alice", &alice);
  nm_lxmf_view view;
  nm_fault fault = {0};
  int status =
      nm_lxmf_decode(nm_vector_bytes(v, "input.packed"), NULL, &view, &fault);
  if (!nm_vector_bool(v, "output.ok")) {
    bool few = strcmp(v->name, "unpack_three_elements") == 0;
    NM_CHECK_STATUS(status, few ? NM_E(LENGTH) : NM_E(TYPE));
    NM_CHECK(strcmp(fault.field, few ? "payload" : "fields") == 0);
    return;
  }
  NM_CHECK_OK(status);
  check_id(&view, nm_vector_bytes(v, "output.message_id"));
  NM_CHECK(view.timestamp == nm_vector_number(v, "output.timestamp"));
  check_text(v, "output.title", "output.title.str", view.title,
             view.title_text);
  check_text(v, "output.content", "output.content.str", view.content,
             view.content_text);
  if (nm_vector_has(v, "output.stamp")) {
    NM_CHECK_SPAN(view.stamp, nm_vector_bytes(v, "output.stamp"));
  } else {
    NM_CHECK(view.stamp.ptr == NULL);
  }
  nm_span own = nm_test_unhex("445ac9bb2cd76c3c568da8c80014ca47");
  bool known = memcmp(view.source.b, own.ptr, 16) == 0;
  bool good = known && verify(&view, &alice) == NM_OK;
  NM_CHECK_INT(good, nm_vector_bool(v, "output.signature_validated"));
  if (!good) {
    NM_CHECK_INT(known ? NM_LXMF_SIGNATURE_INVALID : NM_LXMF_SOURCE_UNKNOWN,
                 nm_vector_u64(v, "output.unverified_reason"));
  }
}

NM_TEST(odd_encodings_are_received_as_in_the_vectors) {
  nm_vectors_each("lxmf", "unpack", 11, run_unpack);
}

static void run_opportunistic(const nm_vector *v) {
  nm_span packed = nm_vector_bytes(v, "output.packed");
  nm_span plain = nm_vector_bytes(v, "output.plaintext");
  NM_CHECK_SPAN(nm_lxmf_opportunistic(packed), plain);
  nm_lxmf_view full;
  nm_lxmf_view view;
  NM_CHECK_OK(nm_lxmf_decode(packed, NULL, &full, NULL));
  NM_CHECK_OK(nm_lxmf_decode_opportunistic(plain, &full.destination, NULL,
                                           &view, NULL));
  NM_CHECK_BYTES(view.destination.b, full.destination.b, 16);
  NM_CHECK_BYTES(view.source.b, full.source.b, 16);
  NM_CHECK_SPAN(view.content, full.content);
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_lxmf_message_id(&full, &scratch, id));
  check_id(&view, nm_span_of(id, 32));
}

NM_TEST(the_opportunistic_form_leaves_out_the_destination) {
  nm_vectors_each("lxmf", "opportunistic", 1, run_opportunistic);
  NM_CHECK_INT(nm_lxmf_opportunistic(nm_span_of("short", 5)).len, 0);
}

static void run_published(const nm_vector *v) {
  nm_span plain = nm_vector_bytes(v, "output.decrypted_legacy");
  nm_destination_hash destination;
  memcpy(destination.b, nm_vector_bytes(v, "output.destination_hash").ptr, 16);
  nm_lxmf_view view;
  NM_CHECK_OK(
      nm_lxmf_decode_opportunistic(plain, &destination, NULL, &view, NULL));
  NM_CHECK_INT(view.fields.len, 0);
  NM_CHECK_INT(view.count, 4);
  check_id(&view, nm_vector_bytes(v, "output.message_id"));
}

NM_TEST(a_message_with_nil_for_fields_is_read) {
  nm_vectors_each("lxmf", "paper_decode", 1, run_published);
}

/* --- What a decoder takes and refuses --- */

/* A packed message with |payload| in hex behind 96 bytes of header. */
static nm_span with_payload(const char *payload) {
  nm_span tail = nm_test_unhex(payload);
  uint8_t *out = (uint8_t *)nm_test_scratch(96 + tail.len);
  memset(out, 0x11, 96);
  memcpy(out + 96, tail.ptr, tail.len);
  return nm_span_of(out, 96 + tail.len);
}

static nm_lxmf_view accepted(const char *payload) {
  nm_lxmf_view view;
  NM_CHECK_OK(nm_lxmf_decode(with_payload(payload), NULL, &view, NULL));
  return view;
}

static void refused(const char *payload, int status, const char *field,
                    size_t offset) {
  nm_test_context("payload %s", payload);
  nm_lxmf_view view;
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_lxmf_decode(with_payload(payload), NULL, &view, &fault),
                  status);
  NM_CHECK_STATUS(fault.status, status);
  if (strcmp(fault.field, field) != 0) {
    nm_test_fail(__FILE__, __LINE__, "field %s, expected %s", fault.field,
                 field);
  }
  NM_CHECK_INT(fault.offset, 96 + offset);
}

#define TIME "cb41d954fc40200000"

NM_TEST(unusual_but_valid_payloads_are_accepted) {
  NM_CHECK_INT(accepted("94" TIME "c400c40080").count, 4);
  NM_CHECK(accepted("94" TIME "c400c40080").canonical);
  NM_CHECK(accepted("94" TIME "c400c400c0").canonical);
  nm_lxmf_view v = accepted("94d2ffffffffc400c40080");
  NM_CHECK_INT(v.timestamp_type, NM_MP_INT);
  NM_CHECK_INT(v.timestamp_int, -1);
  NM_CHECK(v.timestamp == -1.0 && !v.canonical);
  v = accepted("94ffc400c40080");
  NM_CHECK(v.timestamp == -1.0 && v.canonical);
  v = accepted("94ca4eca9000c400c40080");
  NM_CHECK(v.timestamp_float32 && !v.canonical);
  v = accepted("94cc05c400c40080");
  NM_CHECK_INT(v.timestamp_uint, 5);
  NM_CHECK(!v.canonical);
  v = accepted("94" TIME "a161d90162"
               "80");
  NM_CHECK(v.title_text && v.content_text && !v.canonical);
  v = accepted("94" TIME "c5000161c400"
               "80");
  NM_CHECK_SPAN(v.title, nm_span_of("a", 1));
  NM_CHECK(!v.canonical);
  v = accepted("dc0004" TIME "c400c40080");
  NM_CHECK_INT(v.count, 4);
  v = accepted("dd00000006" TIME "c400c40080c0c0c0");
  NM_CHECK_INT(v.count, 6);
  NM_CHECK_INT(v.stamp_type, NM_MP_NIL);
  NM_CHECK(v.stamp.ptr == NULL);
  v = accepted("95" TIME "c400c4008007");
  NM_CHECK_INT(v.stamp_type, NM_MP_UINT);
  NM_CHECK(v.stamp.ptr == NULL);
  v = accepted("95" TIME "c400c40080c400");
  NM_CHECK_INT(v.stamp_type, NM_MP_BIN);
  NM_CHECK(v.stamp.ptr != NULL && v.stamp.len == 0);
  v = accepted("94" TIME "c400c40080ffff");
  NM_CHECK_INT(v.payload.len, 17);
  NM_CHECK_INT(v.elements.len, 14);
}

NM_TEST(canonical_form_is_told_for_every_type_in_the_fields) {
  static const char *const canonical[] = {
      "01",
      "7f",
      "cc80",
      "cd0100",
      "ce00010000",
      "cf0000000100000000",
      "e0",
      "d0df",
      "d1ff7f",
      "d2ffff7fff",
      "d3ffffffff7fffffff",
      "cb3ff0000000000000",
      "c0",
      "c2",
      "c3",
      "a0",
      "a161",
      "c400",
      "90",
      "9101",
      "80",
      "810102",
      "d40100",
      "d5010000",
      "d60100000000",
      "d7010000000000000000",
      "d80100000000000000000000000000000000",
      "c70301000000",
      "c70001"};
  static const char *const other[] = {"cc7f",
                                      "cd0001",
                                      "ce0000ffff",
                                      "cf0000000000000001",
                                      "d001",
                                      "d0ff",
                                      "d1ff80",
                                      "d2ffff8000",
                                      "d3ffffffff80000000",
                                      "ca3f800000",
                                      "d90161",
                                      "da000161",
                                      "c5000161",
                                      "c60000000161",
                                      "dc0000",
                                      "dd00000000",
                                      "de0000",
                                      "df00000000",
                                      "c7010100",
                                      "c8000301000000",
                                      "c90000000301000000"};
  char payload[200];
  for (size_t i = 0; i < sizeof canonical / sizeof *canonical; i++) {
    nm_test_context("%s", canonical[i]);
    (void)strcpy(payload, "94" TIME "c400c4008101");
    NM_CHECK(accepted(strcat(payload, canonical[i])).canonical);
  }
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    nm_test_context("%s", other[i]);
    (void)strcpy(payload, "94" TIME "c400c4008101");
    NM_CHECK(!accepted(strcat(payload, other[i])).canonical);
  }
}

NM_TEST(bad_elements_are_named_with_their_place) {
  refused("", NM_E(TRUNCATED), "payload", 0);
  refused("c1", NM_E(RESERVED), "payload", 0);
  refused("80", NM_E(TYPE), "payload", 0);
  refused("93" TIME "c400c400", NM_E(LENGTH), "payload", 0);
  refused("dc0003" TIME "c400c400", NM_E(LENGTH), "payload", 0);
  refused("94", NM_E(TRUNCATED), "timestamp", 1);
  refused("94cb00", NM_E(TRUNCATED), "timestamp", 1);
  refused("94c0c400c40080", NM_E(TYPE), "timestamp", 1);
  refused("94c3c400c40080", NM_E(TYPE), "timestamp", 1);
  refused("94a131c400c40080", NM_E(TYPE), "timestamp", 1);
  refused("94" TIME, NM_E(TRUNCATED), "title", 10);
  refused("94" TIME "c405", NM_E(TRUNCATED), "title", 10);
  refused("94" TIME "c0c40080", NM_E(TYPE), "title", 10);
  refused("94" TIME "a1ffc40080", NM_E(UTF8), "title", 10);
  refused("94" TIME "c400", NM_E(TRUNCATED), "content", 12);
  refused("94" TIME "c40090"
          "80",
          NM_E(TYPE), "content", 12);
  refused("94" TIME "c400c400", NM_E(TRUNCATED), "fields", 14);
  refused("94" TIME "c400c40090", NM_E(TYPE), "fields", 14);
  refused("94" TIME "c400c400c400", NM_E(TYPE), "fields", 14);
  refused("94" TIME "c400c40082010101"
          "02",
          NM_E(DUPLICATE_KEY), "fields", 17);
  refused("94" TIME "c400c4008101a1ff", NM_E(UTF8), "fields", 16);
  refused("95" TIME "c400c40080", NM_E(TRUNCATED), "stamp", 15);
  refused("95" TIME "c400c40080c420", NM_E(TRUNCATED), "stamp", 15);
  refused("95" TIME "c400c40080c1", NM_E(RESERVED), "stamp", 15);
  refused("95" TIME "c400c4008091", NM_E(TRUNCATED), "stamp", 16);
  refused("96" TIME "c400c40080c0", NM_E(TRUNCATED), "element", 16);
  refused("97" TIME "c400c40080c0c0c1", NM_E(RESERVED), "element", 17);
}

NM_TEST(headers_cut_anywhere_are_named) {
  uint8_t wire[96] = {0};
  for (size_t len = 0; len < 96; len++) {
    nm_lxmf_view view;
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_lxmf_decode(nm_span_of(wire, len), NULL, &view, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, len < 16   ? "destination"
                                 : len < 32 ? "source"
                                            : "signature") == 0);
  }
}

NM_TEST(a_message_cut_anywhere_is_refused) {
  nm_span whole = with_payload(
      "95" TIME "c40568656c6c6fc405776f726c64820591a16101c403010203c4020102");
  nm_lxmf_view view;
  NM_CHECK_OK(nm_lxmf_decode(whole, NULL, &view, NULL));
  for (size_t len = 0; len < whole.len; len++) {
    nm_test_context("length %zu", len);
    uint8_t *cut = (uint8_t *)nm_test_scratch(len + 1);
    memcpy(cut, whole.ptr, len);
    NM_CHECK_STATUS(nm_lxmf_decode(nm_span_of(cut, len), NULL, &view, NULL),
                    NM_E(TRUNCATED));
  }
}

NM_TEST(flipped_bits_of_a_message_break_decoding_or_the_signature) {
  nm_identity alice;
  nm_wire_identity("identity_alice", &alice);
  nm_lxmf_draft draft = {.timestamp = 1700000000.5,
                         .title = nm_span_of("title", 5),
                         .content = nm_span_of("content", 7),
                         .fields = nm_test_unhex("8205c401610ac0")};
  uint8_t packed[200];
  uint8_t id[32];
  nm_writer w = nm_writer_of(packed, sizeof packed);
  NM_CHECK_OK(nm_lxmf_pack(&draft, &alice.sign, NULL, &w, id));
  for (size_t bit = 0; bit < 8 * w.pos; bit++) {
    nm_test_context("bit %zu", bit);
    packed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    nm_lxmf_view view;
    nm_fault fault = {0};
    int status = nm_lxmf_decode(nm_writer_done(&w), NULL, &view, &fault);
    if (status == NM_OK) {
      NM_CHECK_STATUS(verify(&view, &alice), NM_E(SIGNATURE));
    } else {
      NM_CHECK(fault.field != NULL && fault.offset <= w.pos);
    }
    packed[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
}

NM_TEST(limits_of_depth_and_elements_are_kept) {
  nm_mp_limits limits = {4, 100, &nm_mem_system};
  nm_lxmf_view view;
  nm_fault fault = {0};
  NM_CHECK_OK(nm_lxmf_decode(with_payload("94" TIME "c400c400810191919100"),
                             &limits, &view, &fault));
  NM_CHECK_STATUS(
      nm_lxmf_decode(with_payload("94" TIME "c400c40081019191919100"), &limits,
                     &view, &fault),
      NM_E(DEPTH));
  NM_CHECK(strcmp(fault.field, "fields") == 0);
  NM_CHECK_STATUS(nm_lxmf_decode(with_payload("94" TIME "c400c4008101dc0100"),
                                 &limits, &view, &fault),
                  NM_E(LIMIT));
}

NM_TEST(the_deepest_accepted_fields_can_be_hashed) {
  /* 63 arrays in the map, not canonical, with a stamp: decoded, then encoded
   * again for the id. */
  char payload[400] = "95" TIME "c400c4008101";
  for (int i = 0; i < 63; i++) {
    (void)strcat(payload, "91");
  }
  (void)strcat(payload, "cc01c400");
  nm_lxmf_view view = accepted(payload);
  NM_CHECK(!view.canonical);
  nm_buffer scratch;
  uint8_t id[32];
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_lxmf_message_id(&view, &scratch, id));
  nm_buffer_dispose(&scratch);
}

/* --- Re-encoding --- */

static int id_of_odd_message(const nm_mem *mem, void *user) {
  const nm_span *packed = (const nm_span *)user;
  const nm_mp_limits limits = {64, 1000000, mem};
  nm_lxmf_view view;
  int status = nm_lxmf_decode(*packed, &limits, &view, NULL);
  if (status != NM_OK) {
    return status;
  }
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, mem, NULL, 0, 1);
  status = nm_lxmf_message_id(&view, &scratch, id);
  if (status == NM_OK) {
    status = nm_lxmf_signed_data(&view, &scratch, id);
  }
  NM_CHECK(status == NM_OK || scratch.len == 0);
  nm_buffer_dispose(&scratch);
  return status;
}

NM_TEST(every_allocation_of_an_id_may_fail) {
  /* A map of 200 keys, so that the check for repeated keys needs memory. */
  uint8_t *out = (uint8_t *)nm_test_scratch(2000);
  nm_writer w = nm_writer_of(out, 2000);
  memset(nm_writer_reserve(&w, 96), 1, 96);
  nm_mp_array(&w, 5);
  nm_mp_float(&w, 1.0);
  nm_mp_bin(&w, nm_span_of(NULL, 0));
  nm_mp_bin(&w, nm_span_of(NULL, 0));
  nm_mp_map(&w, 200);
  for (uint64_t i = 0; i < 200; i++) {
    nm_mp_uint(&w, i);
    nm_writer_put(&w, "\xcc\x01", 2); /* not the shortest form */
  }
  nm_mp_bin(&w, nm_span_of("stamp", 5));
  NM_CHECK_OK(w.status);
  nm_span packed = nm_writer_done(&w);
  NM_CHECK(nm_test_fail_each(id_of_odd_message, &packed) >= 4);
}

NM_TEST(decoding_and_encoding_the_common_shape_allocate_nothing) {
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  const nm_mp_limits limits = {64, 1000000, &mem.mem};
  nm_lxmf_view view;
  nm_span packed =
      with_payload("95" TIME "c40568656c6c6fc405776f726c648105a161c403010203");
  NM_CHECK_OK(nm_lxmf_decode(packed, &limits, &view, NULL));
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &mem.mem, NULL, 0, 0);
  NM_CHECK_OK(nm_lxmf_message_id(&view, &scratch, id));
  nm_lxmf_draft draft = draft_of(&view);
  NM_CHECK_SPAN(encode(&draft, view.signature), packed);
  NM_CHECK_INT(mem.calls, 0);
}

/* --- Encoding --- */

NM_TEST(sizes_are_exact_at_the_borders_of_bin) {
  static const size_t lengths[] = {0, 1, 255, 256, 65535, 65536};
  uint8_t *text = (uint8_t *)nm_test_scratch(65536);
  memset(text, 'x', 65536);
  static const uint8_t signature[64] = {9};
  for (size_t i = 0; i < 6; i++) {
    nm_lxmf_draft draft = {.timestamp = 1.5,
                           .title = nm_span_of(text, lengths[i]),
                           .content = nm_span_of(text, lengths[5 - i])};
    nm_span packed = encode(&draft, nm_span_of(signature, 64));
    nm_lxmf_view view;
    NM_CHECK_OK(nm_lxmf_decode(packed, NULL, &view, NULL));
    NM_CHECK_SPAN(view.title, draft.title);
    NM_CHECK_SPAN(view.content, draft.content);
    NM_CHECK(view.timestamp == 1.5 && view.canonical);
    uint8_t a[32];
    nm_lxmf_draft_id(&draft, a);
    check_id(&view, nm_span_of(a, 32));
  }
}

NM_TEST(packing_leaves_the_writer_as_it_was_when_it_fails) {
  nm_identity alice;
  nm_wire_identity("identity_alice", &alice);
  static const uint8_t ticket[16] = {1};
  nm_lxmf_draft draft = {.content = nm_span_of("hi", 2)};
  uint8_t out[300];
  uint8_t id[32];
  size_t need = nm_lxmf_packed_size(&draft) + 18;
  for (size_t room = 0; room < need; room++) {
    nm_writer w = nm_writer_of(out, room);
    NM_CHECK_STATUS(nm_lxmf_pack(&draft, &alice.sign, ticket, &w, id),
                    NM_E(TOO_LARGE));
    NM_CHECK_INT(w.pos, 0);
    NM_CHECK_OK(w.status);
  }
  nm_writer w = nm_writer_of(out, need);
  NM_CHECK_OK(nm_lxmf_pack(&draft, &alice.sign, ticket, &w, id));
  NM_CHECK_INT(w.pos, need);
  draft.stamp = nm_span_of("s", 1);
  w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_lxmf_pack(&draft, &alice.sign, ticket, &w, id),
                  NM_E(ARGUMENT));
}

NM_TEST(fields_are_made_canonical_or_refused) {
  uint8_t out[100];
  nm_fault fault = {0};
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_lxmf_fields_canonical(nm_test_unhex("de0001cc05ca3f800000"),
                                       NULL, &w, &fault));
  NM_CHECK_HEX(nm_writer_done(&w), "8105cb3ff0000000000000");
  static const struct {
    const char *fields;
    int status;
  } bad[] = {{"90", NM_E(TYPE)},        {"c0", NM_E(TYPE)},
             {"8101", NM_E(TRUNCATED)}, {"8000", NM_E(TRAILING)},
             {"", NM_E(TRUNCATED)},     {"8201010102", NM_E(DUPLICATE_KEY)}};
  for (size_t i = 0; i < 6; i++) {
    w = nm_writer_of(out, sizeof out);
    NM_CHECK_STATUS(nm_lxmf_fields_canonical(nm_test_unhex(bad[i].fields), NULL,
                                             &w, &fault),
                    bad[i].status);
    NM_CHECK(strcmp(fault.field, "fields") == 0);
  }
}

/* --- Another stamp --- */

static nm_span restamped(const nm_lxmf_view *view, nm_span stamp) {
  size_t size = nm_lxmf_restamped_size(view, stamp.len);
  uint8_t *out = (uint8_t *)nm_test_scratch(size);
  nm_writer w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_lxmf_restamp(view, stamp, &w));
  NM_CHECK_INT(w.pos, size);
  return nm_writer_done(&w);
}

static void check_same_id(const nm_lxmf_view *view, nm_span packed) {
  nm_lxmf_view other;
  uint8_t id[32];
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_lxmf_message_id(view, &scratch, id));
  NM_CHECK_OK(nm_lxmf_decode(packed, NULL, &other, NULL));
  check_id(&other, nm_span_of(id, 32));
  NM_CHECK_SPAN(other.signature, view->signature);
  nm_buffer_dispose(&scratch);
}

NM_TEST(stamps_come_and_go_without_changing_the_id) {
  nm_span stamp = nm_test_unhex("0102030405060708");
  nm_lxmf_view plain = accepted("94" TIME "c40161c40162810103");
  nm_span once = restamped(&plain, stamp);
  check_same_id(&plain, once);
  nm_lxmf_view stamped;
  NM_CHECK_OK(nm_lxmf_decode(once, NULL, &stamped, NULL));
  NM_CHECK_SPAN(stamped.stamp, stamp);
  nm_span other = restamped(&stamped, nm_test_unhex("ff"));
  check_same_id(&plain, other);
  nm_span none = restamped(&stamped, nm_span_of(NULL, 0));
  NM_CHECK_SPAN(none, with_payload("94" TIME "c40161c40162810103"));
  NM_CHECK_SPAN(restamped(&plain, nm_span_of(NULL, 0)), none);
  /* A stamped message that is not canonical keeps its id with another stamp,
   * and with trailing bytes that are dropped. */
  nm_lxmf_view odd = accepted("97" TIME "c5000161c4016280c403010203c3c0ffff");
  check_same_id(&odd, restamped(&odd, stamp));
}

NM_TEST(a_stamp_that_would_change_the_id_is_refused) {
  static const char *const odd[] = {
      "94" TIME "c5000161c4016280", "94" TIME "c40161c4016280ff",
      "dc0004" TIME "c40161c4016280", "94ca4eca9000c40161c4016280"};
  uint8_t out[300];
  for (size_t i = 0; i < 4; i++) {
    nm_test_context("%s", odd[i]);
    nm_lxmf_view view = accepted(odd[i]);
    nm_writer w = nm_writer_of(out, sizeof out);
    NM_CHECK_STATUS(nm_lxmf_restamp(&view, nm_span_of("s", 1), &w),
                    NM_E(STATE));
    NM_CHECK_INT(w.pos, 0);
    check_same_id(&view, restamped(&view, nm_span_of(NULL, 0)));
  }
  nm_lxmf_view stamped = accepted("95" TIME "c5000161c4016280c40101");
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_lxmf_restamp(&stamped, nm_span_of(NULL, 0), &w),
                  NM_E(STATE));
}
