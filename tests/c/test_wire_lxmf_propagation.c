/* Propagated messages, containers, downloads. */
#include "wire/lxmf_propagation.h"

#include "crypto/hash.h"
#include "support.h"
#include "wire/lxmf_message.h"
#include "wire_data.h"

#include <stdio.h>
#include <string.h>

/* --- The encrypted form --- */

static void run_propagated(const nm_vector *v) {
  nm_identity bob;
  nm_cipher cipher;
  NM_CHECK_OK(nm_identity_init_private(
      &bob, nm_vector_bytes(v, "input.destination_private_key")));
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  uint8_t ratchet_public[32];
  const uint8_t *target = bob.public_key;
  const uint8_t *ratchets[1] = {NULL};
  if (nm_vector_has(v, "input.ratchet_private_key")) {
    ratchets[0] = nm_vector_bytes(v, "input.ratchet_private_key").ptr;
    NM_CHECK_OK(nm_x25519_public(ratchet_public, ratchets[0]));
    target = ratchet_public;
  }
  nm_encrypt_params params = {
      .target = target,
      .salt = &bob.hash,
      .ephemeral = nm_vector_bytes(v, "input.ephemeral_private_key").ptr,
      .iv = nm_vector_bytes(v, "input.iv").ptr};
  nm_span packed = nm_vector_bytes(v, "output.packed");
  nm_span stamped = nm_vector_bytes(v, "output.lxmf_data_with_stamp");
  size_t size = nm_lxmf_data_size(packed.len);
  NM_CHECK_INT(size, stamped.len - 32);
  uint8_t *data = (uint8_t *)nm_test_scratch(size);
  NM_CHECK_OK(nm_lxmf_data_seal(&cipher, &params, packed, data));
  NM_CHECK_SPAN(nm_span_of(data, size), nm_span_slice(stamped, 0, size));
  uint8_t id[32];
  nm_lxmf_transient_id(nm_span_of(data, size), id);
  NM_CHECK_SPAN(nm_span_of(id, 32), nm_vector_bytes(v, "output.transient_id"));

  nm_span stamp = nm_vector_bytes(v, "output.pn_stamp");
  nm_lxmf_element element = {nm_span_of(data, size), stamp};
  double time = nm_vector_number(v, "input.pack_time");
  uint8_t *out = (uint8_t *)nm_test_scratch(size + 100);
  nm_writer w = nm_writer_of(out, nm_lxmf_container_size(&element, 1));
  NM_CHECK_OK(nm_lxmf_container_encode(time, &element, 1, &w));
  NM_CHECK_INT(nm_writer_left(&w), 0);
  NM_CHECK_SPAN(nm_writer_done(&w),
                nm_vector_bytes(v, "output.propagation_packed"));
  element.stamp.len = 0;
  w = nm_writer_of(out, size + 100);
  NM_CHECK_OK(nm_lxmf_container_encode(time, &element, 1, &w));
  NM_CHECK_SPAN(
      nm_writer_done(&w),
      nm_vector_bytes(v, "output.propagation_packed_without_pn_stamp"));

  nm_lxmf_stamped split;
  uint32_t value;
  uint32_t cost = (uint32_t)nm_vector_u64(v, "input.pn_cost");
  NM_CHECK_OK(nm_lxmf_stamped_check(stamped, cost, &split, id, &value, NULL));
  NM_CHECK_SPAN(nm_span_of(id, 32), nm_vector_bytes(v, "output.transient_id"));
  NM_CHECK_INT(value, nm_vector_u64(v, "output.pn_stamp_value"));
  NM_CHECK_SPAN(split.stamp, stamp);
  NM_CHECK_BYTES(split.destination.b, packed.ptr, 16);

  nm_decrypt_keys keys = {.ratchets = ratchets,
                          .ratchet_count = ratchets[0] != NULL ? 1 : 0,
                          .identity = bob.private_key,
                          .salt = &bob.hash};
  uint8_t *opened = (uint8_t *)nm_test_scratch(split.data.len);
  size_t opened_len;
  ptrdiff_t by;
  NM_CHECK_OK(nm_lxmf_data_open(&cipher, &keys, split.data, opened, &opened_len,
                                &by, NULL));
  NM_CHECK_SPAN(nm_span_of(opened, opened_len), packed);
  NM_CHECK_INT(by, ratchets[0] != NULL ? 0 : NM_OPENED_BY_IDENTITY);
  nm_cipher_close(&cipher);
}

NM_TEST(propagated_messages_are_sealed_stamped_and_opened_as_in_the_vectors) {
  nm_vectors_each("lxmf", "propagated", 4, run_propagated);
}

NM_TEST(what_cannot_be_sealed_or_opened_is_named) {
  nm_cipher cipher;
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  nm_identity bob;
  nm_wire_identity("identity_bob", &bob);
  uint8_t data[300] = {1};
  uint8_t out[300];
  size_t out_len;
  static const uint8_t key[32] = {9};
  nm_encrypt_params params = {
      .target = bob.public_key, .salt = &bob.hash, .ephemeral = key, .iv = key};
  NM_CHECK_STATUS(
      nm_lxmf_data_seal(&cipher, &params, nm_span_of(data, 95), out),
      NM_E(TRUNCATED));
  NM_CHECK_INT(nm_lxmf_data_size(15), 0);
  nm_decrypt_keys keys = {.identity = bob.private_key, .salt = &bob.hash};
  nm_fault fault = {0};
  for (size_t len = 0; len < 112; len++) {
    NM_CHECK_STATUS(nm_lxmf_data_open(&cipher, &keys, nm_span_of(data, len),
                                      out, &out_len, NULL, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "lxmf_data") == 0);
  }
  NM_CHECK_STATUS(nm_lxmf_data_open(&cipher, &keys, nm_span_of(data, 300), out,
                                    &out_len, NULL, &fault),
                  NM_E(AUTH));
  NM_CHECK(strcmp(fault.field, "lxmf_data.token") == 0);
  uint8_t packed[100] = {2};
  NM_CHECK_OK(
      nm_lxmf_data_seal(&cipher, &params, nm_span_of(packed, 100), data));
  size_t size = nm_lxmf_data_size(100);
  for (size_t bit = 16 * 8; bit < 8 * size; bit += 97) {
    data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    int status = nm_lxmf_data_open(&cipher, &keys, nm_span_of(data, size), out,
                                   &out_len, NULL, &fault);
    /* The top bit of a public key is ignored. */
    NM_CHECK_STATUS(status, bit == 8 * 48 - 1 ? NM_OK : NM_E(AUTH));
    data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  nm_cipher_close(&cipher);
}

static void run_stamp_validation(const nm_vector *v) {
  nm_lxmf_stamped split;
  uint8_t id[32];
  uint32_t value;
  nm_fault fault = {0};
  int status = nm_lxmf_stamped_check(nm_vector_bytes(v, "input.transient_data"),
                                     (uint32_t)nm_vector_u64(v, "input.cost"),
                                     &split, id, &value, &fault);
  if (nm_vector_bool(v, "output.valid")) {
    NM_CHECK_OK(status);
    NM_CHECK_SPAN(nm_span_of(id, 32),
                  nm_vector_bytes(v, "output.transient_id"));
    NM_CHECK_INT(value, nm_vector_u64(v, "output.value"));
    NM_CHECK_SPAN(split.stamp, nm_vector_bytes(v, "output.stamp"));
  } else {
    bool length = status == NM_E(LENGTH);
    NM_CHECK(length || status == NM_E(VALUE));
    NM_CHECK(strcmp(fault.field, length ? "stamped" : "stamped.stamp") == 0);
  }
}

NM_TEST(propagation_stamps_are_judged_as_in_the_vectors) {
  nm_vectors_each("lxmf", "pn_stamp_validation", 5, run_stamp_validation);
}

/* --- Containers --- */

static void run_sync(const nm_vector *v) {
  nm_span payload = nm_vector_bytes(v, "output.payload");
  nm_lxmf_container c;
  NM_CHECK_OK(nm_lxmf_container_open(payload, 100, &c, NULL));
  NM_CHECK(c.time == nm_vector_number(v, "input.time"));
  NM_CHECK_INT(c.count, nm_wire_vector_count(v, "input.messages"));
  nm_lxmf_element elements[8] = {{{0}, {0}}};
  for (uint32_t i = 0; i < c.count; i++) {
    char path[40];
    (void)snprintf(path, sizeof path, "input.messages[%u]", i);
    NM_CHECK(nm_lxmf_container_next(&c, &elements[i].data));
    NM_CHECK_SPAN(elements[i].data, nm_vector_bytes(v, path));
  }
  nm_span none;
  NM_CHECK(!nm_lxmf_container_next(&c, &none));
  NM_CHECK_INT(nm_lxmf_container_size(elements, c.count), payload.len);
  uint8_t *out = (uint8_t *)nm_test_scratch(payload.len);
  nm_writer w = nm_writer_of(out, payload.len);
  NM_CHECK_OK(nm_lxmf_container_encode(c.time, elements, c.count, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), payload);
  w = nm_writer_of(out, payload.len - 1);
  NM_CHECK_STATUS(nm_lxmf_container_encode(c.time, elements, c.count, &w),
                  NM_E(TOO_LARGE));
  for (size_t len = 0; len < payload.len; len += 31) {
    NM_CHECK_STATUS(
        nm_lxmf_container_open(nm_span_slice(payload, 0, len), 100, &c, NULL),
        NM_E(TRUNCATED));
  }
}

NM_TEST(sync_payloads_of_the_vectors_are_read_and_written) {
  nm_vectors_each("lxmf", "sync_resource", 1, run_sync);
}

NM_TEST(broken_containers_are_named) {
  static const struct {
    const char *in;
    int status;
    const char *field;
  } cases[] = {
      {"920190", NM_OK, ""},
      {"92cb000000000000000091c400", NM_OK, ""},
      {"9301"
       "91c401ff"
       "c0ff",
       NM_OK, ""},
      {"", NM_E(TRUNCATED), "container"},
      {"80", NM_E(TYPE), "container"},
      {"9101", NM_E(LENGTH), "container"},
      {"92c090", NM_E(TYPE), "container.time"},
      {"9201c400", NM_E(TYPE), "container.messages"},
      {"920193c400c400c400", NM_E(LIMIT), "container.messages"},
      {"920191a0", NM_E(TYPE), "container.message"},
      {"920192c400c0", NM_E(TYPE), "container.message"},
      {"920191c1", NM_E(RESERVED), "container"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nm_test_context("%s", cases[i].in);
    nm_lxmf_container c;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_lxmf_container_open(nm_test_unhex(cases[i].in), 2, &c, &fault),
        cases[i].status);
    NM_CHECK(cases[i].status == NM_OK ||
             strcmp(fault.field, cases[i].field) == 0);
  }
}

static void run_signal(const nm_vector *v) {
  nm_span packed = nm_vector_bytes(v, "output.packed");
  uint64_t code;
  NM_CHECK_OK(nm_lxmf_signal_decode(packed, &code, NULL));
  NM_CHECK_INT(code, NM_LXMF_ERROR_INVALID_STAMP);
  uint8_t out[8];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_lxmf_signal_encode(code, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), packed);
}

NM_TEST(the_signal_of_a_refused_stamp_is_that_of_the_vector) {
  nm_vectors_each("lxmf", "signalling", 1, run_signal);
  uint64_t code;
  NM_CHECK_STATUS(nm_lxmf_signal_decode(nm_test_unhex("90"), &code, NULL),
                  NM_E(LENGTH));
  NM_CHECK_STATUS(nm_lxmf_signal_decode(nm_test_unhex("91c0"), &code, NULL),
                  NM_E(TYPE));
  NM_CHECK_STATUS(nm_lxmf_signal_decode(nm_test_unhex("ccf5"), &code, NULL),
                  NM_E(TYPE));
  NM_CHECK_STATUS(nm_lxmf_signal_decode(nm_test_unhex("91cc"), &code, NULL),
                  NM_E(TRUNCATED));
}

/* --- Downloads --- */

/* The ids of a decoded list, one after the other. */
static nm_lxmf_id_list flat(nm_lxmf_id_list list) {
  nm_lxmf_id_list out = {.nil = list.nil};
  uint8_t *ids = (uint8_t *)nm_test_scratch(32 * (size_t)list.count + 1);
  nm_span id;
  while (nm_lxmf_id_list_next(&list, &id)) {
    memcpy(ids + 32 * (size_t)out.count, id.ptr, 32);
    out.count++;
  }
  out.ids = nm_span_of(ids, 32 * (size_t)out.count);
  return out;
}

static void run_get(const nm_vector *v) {
  nm_span in = nm_vector_bytes(v, "output.request_data");
  nm_lxmf_get get;
  nm_fault fault = {0};
  int status = nm_lxmf_get_decode(in, &get, &fault);
  if (nm_vector_find(v, "input.data.arr") == NULL ||
      nm_wire_vector_count(v, "input.data.arr") < 2) {
    NM_CHECK(status != NM_OK);
    return;
  }
  NM_CHECK_OK(status);
  NM_CHECK_INT(get.want.nil, nm_vector_has(v, "input.data.arr[0].nil"));
  NM_CHECK_INT(get.have.nil, nm_vector_has(v, "input.data.arr[1].nil"));
  if (nm_vector_has(v, "input.data.arr[2].int")) {
    NM_CHECK(get.has_limit && !get.limit_float);
    NM_CHECK(get.limit_kb == nm_vector_number(v, "input.data.arr[2].int"));
  } else if (nm_vector_has(v, "input.data.arr[2].f64")) {
    NM_CHECK(get.has_limit && get.limit_float);
    NM_CHECK(get.limit_kb == nm_vector_number(v, "input.data.arr[2].f64"));
  } else {
    NM_CHECK(!get.has_limit);
  }
  get.want = flat(get.want);
  get.have = flat(get.have);
  size_t size = nm_lxmf_get_size(&get);
  uint8_t *out = (uint8_t *)nm_test_scratch(size);
  nm_writer w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_lxmf_get_encode(&get, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), in);

  /* The answer is the last element of the packed response. */
  nm_span response = nm_vector_bytes(v, "output.response_packed");
  nm_reader r = nm_reader_of(response);
  nm_mp_item item;
  NM_CHECK_OK(nm_mp_read(&r, &item));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  nm_lxmf_get_answer answer;
  NM_CHECK_OK(nm_lxmf_get_answer_decode(
      nm_span_slice(response, r.pos, response.len - r.pos), &answer, NULL));
  if (nm_vector_has(v, "output.response.int")) {
    NM_CHECK(answer.is_error);
    NM_CHECK_INT(answer.error, nm_vector_u64(v, "output.response.int"));
    return;
  }
  NM_CHECK(!answer.is_error);
  NM_CHECK_INT(answer.count, nm_wire_vector_count(v, "output.response.arr"));
  nm_span element;
  for (size_t i = 0; nm_lxmf_answer_next(&answer, &element); i++) {
    char path[60];
    (void)snprintf(path, sizeof path, "output.response.arr[%zu].bin", i);
    NM_CHECK_SPAN(element, nm_vector_bytes(v, path));
  }
  NM_CHECK_INT(answer.count, 0);
}

NM_TEST(downloads_of_the_vectors_are_read_and_written) {
  nm_vectors_each("lxmf", "get", 9, run_get);
}

NM_TEST(odd_download_requests_are_read_or_named) {
  nm_lxmf_get get;
  nm_fault fault = {0};
  NM_CHECK_OK(nm_lxmf_get_decode(nm_test_unhex("9390c0a131"), &get, &fault));
  NM_CHECK(!get.has_limit && !get.want.nil && get.have.nil);
  NM_CHECK_OK(
      nm_lxmf_get_decode(nm_test_unhex("9393c0c40101a16190ff"), &get, &fault));
  nm_span id;
  NM_CHECK_INT(get.want.count, 3);
  NM_CHECK(!nm_lxmf_id_list_next(&get.want, &id));
  NM_CHECK(get.has_limit && get.limit_kb == -1.0);
  NM_CHECK_STATUS(nm_lxmf_get_decode(nm_test_unhex("91c0"), &get, &fault),
                  NM_E(LENGTH));
  NM_CHECK_STATUS(nm_lxmf_get_decode(nm_test_unhex("c0"), &get, &fault),
                  NM_E(TYPE));
  NM_CHECK_STATUS(nm_lxmf_get_decode(nm_test_unhex("9201c0"), &get, &fault),
                  NM_E(TYPE));
  NM_CHECK(strcmp(fault.field, "get.want") == 0);
  NM_CHECK_STATUS(nm_lxmf_get_decode(nm_test_unhex("92c0c400"), &get, &fault),
                  NM_E(TYPE));
  NM_CHECK(strcmp(fault.field, "get.have") == 0);
  NM_CHECK_STATUS(nm_lxmf_get_decode(nm_test_unhex("92c0"), &get, &fault),
                  NM_E(TRUNCATED));
}

NM_TEST(download_requests_that_cannot_be_written_are_refused) {
  uint8_t out[100];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_lxmf_get get = {.want = {.nil = true},
                     .have = {.nil = true},
                     .has_limit = true,
                     .limit_kb = 0.5};
  NM_CHECK_STATUS(nm_lxmf_get_encode(&get, &w), NM_E(RANGE));
  get.limit_kb = -1.0;
  NM_CHECK_STATUS(nm_lxmf_get_encode(&get, &w), NM_E(RANGE));
  get.limit_kb = 1000.0;
  get.have.nil = false;
  get.have.count = 1;
  NM_CHECK_STATUS(nm_lxmf_get_encode(&get, &w), NM_E(ARGUMENT));
  NM_CHECK_INT(w.pos, 0);
  get.have.nil = true;
  NM_CHECK_OK(nm_lxmf_get_encode(&get, &w));
  NM_CHECK_HEX(nm_writer_done(&w), "93c0c0cd03e8");
}

NM_TEST(answers_that_are_none_are_named) {
  nm_lxmf_get_answer answer;
  static const struct {
    const char *in;
    int status;
  } cases[] = {
      {"90", NM_OK},      {"ccf0", NM_OK},         {"91c400", NM_OK},
      {"c0", NM_E(TYPE)}, {"91c0", NM_E(TYPE)},    {"80", NM_E(TYPE)},
      {"ff", NM_E(TYPE)}, {"91", NM_E(TRUNCATED)}, {"", NM_E(TRUNCATED)}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nm_test_context("%s", cases[i].in);
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_lxmf_get_answer_decode(nm_test_unhex(cases[i].in), &answer, &fault),
        cases[i].status);
  }
}
