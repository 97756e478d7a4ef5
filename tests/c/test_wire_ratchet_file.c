#include "support.h"

#include "wire/ratchet_file.h"

#include <stdio.h>
#include <string.h>

static nm_identity identity_of(nm_span private_key) {
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_private(&id, private_key));
  return id;
}

static void check_own_vector(const nm_vector *v) {
  nm_identity id = identity_of(nm_vector_bytes(v, "input.private_key"));
  uint8_t keys[2][NM_KEY_SIZE];
  for (size_t i = 0; i < 2; i++) {
    char path[64];
    snprintf(path, sizeof path, "input.ratchets[%zu]", i);
    memcpy(keys[i], nm_vector_bytes(v, path).ptr, NM_KEY_SIZE);
  }
  nm_span expected = nm_vector_bytes(v, "output.file");
  NM_CHECK_INT(nm_ratchet_file_size(2), expected.len);
  uint8_t out[256];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_ratchet_file_write(&w, &id, keys[0], 2));
  NM_CHECK_SPAN(nm_writer_done(&w), expected);
  nm_ratchet_file file;
  NM_CHECK_OK(nm_ratchet_file_parse(expected, 0, &file, NULL));
  NM_CHECK_SPAN(file.packed, nm_vector_bytes(v, "output.packed_ratchets"));
  NM_CHECK_OK(nm_ratchet_file_verify(&file, &id));
  NM_CHECK_INT(file.count, 2);
  for (uint32_t i = 0; i < 2; i++) {
    NM_CHECK_SPAN(nm_ratchet_file_key(&file, i),
                  nm_span_of(keys[i], NM_KEY_SIZE));
  }
}

static void check_memory_vector(const nm_vector *v) {
  nm_ratchet_memory memory = {nm_vector_bytes(v, "input.ratchet"),
                              nm_vector_number(v, "input.received")};
  nm_span expected = nm_vector_bytes(v, "output.msgpack");
  uint8_t out[NM_RATCHET_MEMORY_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_ratchet_memory_write(&w, &memory));
  NM_CHECK_SPAN(nm_writer_done(&w), expected);
  nm_ratchet_memory back;
  NM_CHECK_OK(nm_ratchet_memory_parse(expected, &back, NULL));
  NM_CHECK_SPAN(back.ratchet, memory.ratchet);
  NM_CHECK(back.received == memory.received);
}

static void check_storage_vector(const nm_vector *v) {
  if (strcmp(v->name, "storage-own-ratchets") == 0) {
    check_own_vector(v);
  } else if (strcmp(v->name, "storage-remote-ratchet") == 0) {
    check_memory_vector(v);
  }
}

NM_TEST(ratchet_files_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "storage", 5, check_storage_vector);
}

NM_TEST(ratchet_files_of_every_size_come_back) {
  static const uint32_t counts[] = {0, 1, 7, 8, 15, 16, 17, 512};
  uint8_t secret[NM_PRIVATE_SIZE] = {5};
  nm_identity id = identity_of(nm_span_of(secret, sizeof secret));
  uint8_t *keys = (uint8_t *)nm_test_scratch(512 * NM_KEY_SIZE);
  nm_test_random_bytes(keys, 512 * NM_KEY_SIZE);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    uint32_t n = counts[i];
    nm_test_context("%u keys", (unsigned)n);
    size_t size = nm_ratchet_file_size(n);
    uint8_t *out = (uint8_t *)nm_test_scratch(size);
    nm_writer w = nm_writer_of(out, size);
    NM_CHECK_OK(nm_ratchet_file_write(&w, &id, keys, n));
    NM_CHECK_INT(w.pos, size);
    nm_ratchet_file file;
    NM_CHECK_OK(nm_ratchet_file_parse(nm_writer_done(&w), 0, &file, NULL));
    NM_CHECK_OK(nm_ratchet_file_verify(&file, &id));
    NM_CHECK_INT(file.count, n);
    for (uint32_t k = 0; k < n; k++) {
      NM_CHECK_SPAN(nm_ratchet_file_key(&file, k),
                    nm_span_of(keys + k * NM_KEY_SIZE, NM_KEY_SIZE));
    }
    NM_CHECK_INT(nm_ratchet_file_key(&file, n).len, 0);
    w = nm_writer_of(out, size - 1);
    NM_CHECK_STATUS(nm_ratchet_file_write(&w, &id, keys, n), NM_E(TOO_LARGE));
    if (n > 0) {
      nm_fault fault = {0};
      NM_CHECK_STATUS(nm_ratchet_file_parse(nm_span_of(out, size),
                                            n > 1 ? n - 1 : 0, &file, &fault),
                      n > 1 ? NM_E(LIMIT) : NM_OK);
    }
  }
}

NM_TEST(a_ratchet_file_of_another_identity_is_refused) {
  uint8_t secret[2][NM_PRIVATE_SIZE] = {{[40] = 5}, {[40] = 6}};
  nm_identity id = identity_of(nm_span_of(secret[0], NM_PRIVATE_SIZE));
  nm_identity other = identity_of(nm_span_of(secret[1], NM_PRIVATE_SIZE));
  uint8_t out[256];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_ratchet_file_write(&w, &id, secret[0], 2));
  nm_ratchet_file file;
  NM_CHECK_OK(nm_ratchet_file_parse(nm_writer_done(&w), 0, &file, NULL));
  NM_CHECK_STATUS(nm_ratchet_file_verify(&file, &other), NM_E(SIGNATURE));
  out[w.pos - 1] ^= 1;
  NM_CHECK_STATUS(nm_ratchet_file_verify(&file, &id), NM_E(SIGNATURE));
  nm_identity public_only;
  NM_CHECK_OK(nm_identity_init_public(
      &public_only, nm_span_of(id.public_key, NM_PUBLIC_SIZE)));
  w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_ratchet_file_write(&w, &public_only, secret[0], 2),
                  NM_E(NO_KEY));
}

NM_TEST(ratchet_files_cut_at_every_length_are_refused) {
  uint8_t secret[NM_PRIVATE_SIZE] = {5};
  nm_identity id = identity_of(nm_span_of(secret, sizeof secret));
  uint8_t out[256];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_ratchet_file_write(&w, &id, secret, 2));
  for (size_t len = 0; len < w.pos; len++) {
    nm_test_context("length %zu", len);
    nm_ratchet_file file;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_ratchet_file_parse(nm_span_of(out, len), 0, &file, &fault),
        NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "file") == 0);
  }
}

/* A remembered ratchet, written by hand. */
#define KEY_HEX                                                                \
  "c42000112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define RATCHET_HEX "a772617463686574"    /* "ratchet" */
#define RECEIVED_HEX "a87265636569766564" /* "received" */

NM_TEST(remembered_ratchets_are_read_in_any_order_and_number_format) {
  static const char *const good[] = {
      "82" RATCHET_HEX KEY_HEX RECEIVED_HEX "cb3ff0000000000000",
      "82" RECEIVED_HEX "01" RATCHET_HEX KEY_HEX,
      "83a15a9201c0" RECEIVED_HEX "ca3f800000" RATCHET_HEX KEY_HEX,
      "830102" RECEIVED_HEX "cd0001" RATCHET_HEX KEY_HEX};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    nm_test_context("%s", good[i]);
    nm_ratchet_memory m;
    NM_CHECK_OK(nm_ratchet_memory_parse(nm_test_unhex(good[i]), &m, NULL));
    NM_CHECK(m.received == 1.0);
    NM_CHECK_INT(m.ratchet.len, NM_KEY_SIZE);
  }
}

NM_TEST(a_file_with_many_other_keys_is_refused) {
  uint8_t out[512];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_mp_map(&w, 40);
  for (uint32_t i = 0; i < 40; i++) {
    nm_mp_uint(&w, i);
    nm_mp_nil(&w);
  }
  nm_ratchet_memory m;
  NM_CHECK_STATUS(nm_ratchet_memory_parse(nm_writer_done(&w), &m, NULL),
                  NM_E(LIMIT));
}

NM_TEST(malformed_ratchet_files_name_the_field) {
  static const struct {
    const char *hex;
    int status;
    const char *field;
  } cases[] = {
      {"90", NM_E(TYPE), "file"},
      {"80", NM_E(MISSING), "ratchet"},
      {"81" RATCHET_HEX KEY_HEX, NM_E(MISSING), "received"},
      {"82" RATCHET_HEX "c0" RECEIVED_HEX "01", NM_E(TYPE), "ratchet"},
      {"82" RATCHET_HEX "c40100" RECEIVED_HEX "01", NM_E(LENGTH), "ratchet"},
      {"82" RATCHET_HEX KEY_HEX RECEIVED_HEX "c0", NM_E(TYPE), "received"},
      {"82" RATCHET_HEX KEY_HEX RATCHET_HEX KEY_HEX, NM_E(DUPLICATE_KEY),
       "file"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("%s", cases[i].hex);
    nm_ratchet_memory m;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_ratchet_memory_parse(nm_test_unhex(cases[i].hex), &m, &fault),
        cases[i].status);
    NM_CHECK(strcmp(fault.field, cases[i].field) == 0);
  }
}

/* An own file with a given packed array; the signature is not looked at. */
static int parse_packed(const char *packed_hex) {
  nm_span packed = nm_test_unhex(packed_hex);
  uint8_t out[512];
  nm_writer w = nm_writer_of(out, sizeof out);
  static const uint8_t signature[NM_SIGNATURE_SIZE] = {0};
  nm_mp_map(&w, 2);
  nm_mp_str(&w, nm_span_of("signature", 9));
  nm_mp_bin(&w, nm_span_of(signature, sizeof signature));
  nm_mp_str(&w, nm_span_of("ratchets", 8));
  nm_mp_bin(&w, packed);
  nm_ratchet_file file;
  nm_fault fault = {0};
  int status = nm_ratchet_file_parse(nm_writer_done(&w), 0, &file, &fault);
  NM_CHECK(status == NM_OK || strcmp(fault.field, "ratchets") == 0);
  return status;
}

NM_TEST(the_packed_ratchets_hold_keys_and_nothing_else) {
  NM_CHECK_OK(parse_packed("91" KEY_HEX));
  NM_CHECK_STATUS(parse_packed(""), NM_E(TRUNCATED));
  NM_CHECK_STATUS(parse_packed("80"), NM_E(TYPE));
  NM_CHECK_STATUS(parse_packed("92" KEY_HEX), NM_E(TRUNCATED));
  NM_CHECK_STATUS(parse_packed("91" KEY_HEX "00"), NM_E(TRAILING));
  NM_CHECK_STATUS(parse_packed("91c0"), NM_E(TYPE));
  NM_CHECK_STATUS(parse_packed("91c40100"), NM_E(LENGTH));
  NM_CHECK_STATUS(parse_packed("dd00000201"), NM_E(LIMIT));
  /* A key behind a longer header than it needs would break the arithmetic by
   * which keys are found. */
  NM_CHECK_STATUS(parse_packed("91c50020"
                               "00112233445566778899aabbccddeeff"
                               "00112233445566778899aabbccddeeff"),
                  NM_E(LENGTH));
}

NM_TEST(remembered_ratchets_expire_after_thirty_days) {
  static const uint8_t key[NM_KEY_SIZE] = {1};
  nm_ratchet_memory m = {nm_span_of(key, sizeof key), 1000};
  NM_CHECK(nm_ratchet_memory_valid(&m, 1000 + 2591999));
  NM_CHECK(!nm_ratchet_memory_valid(&m, 1000 + 2592000));
  m.ratchet.len = 31;
  NM_CHECK(!nm_ratchet_memory_valid(&m, 1000));
  uint8_t out[64];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_ratchet_memory_write(&w, &m), NM_E(LENGTH));
}
