/* Resource payloads, parts, segments, metadata. */
#include "wire/resource.h"

#include "base/msgpack.h"
#include "crypto/hash.h"
#include "support.h"
#include "wire_data.h"

#include <stdio.h>
#include <string.h>

static const char field_keys[] = "tdnhroilqfm";

static nm_resource_adv adv_of_vector(const nm_vector *v, const char *base) {
  nm_resource_adv adv = {0};
  uint64_t *const numbers[] = {
      ['t'] = &adv.transfer_size, ['d'] = &adv.data_size, ['n'] = &adv.parts,
      ['i'] = &adv.segment,       ['l'] = &adv.segments,  ['f'] = &adv.flags};
  nm_span *const spans[] = {['h'] = &adv.hash,
                            ['r'] = &adv.random,
                            ['o'] = &adv.original,
                            ['q'] = &adv.request_id,
                            ['m'] = &adv.hashmap};
  for (const char *key = field_keys; *key != '\0'; key++) {
    char path[80];
    (void)snprintf(path, sizeof path, "%s.%c", base, *key);
    if (strchr("tdnilf", *key) != NULL) {
      *numbers[(uint8_t)*key] = nm_vector_u64(v, path);
    } else if (nm_vector_has(v, path)) {
      *spans[(uint8_t)*key] = nm_vector_bytes(v, path);
    }
  }
  return adv;
}

static void check_same(const nm_resource_adv *a, const nm_resource_adv *b) {
  NM_CHECK_INT(a->transfer_size, b->transfer_size);
  NM_CHECK_INT(a->data_size, b->data_size);
  NM_CHECK_INT(a->parts, b->parts);
  NM_CHECK_INT(a->segment, b->segment);
  NM_CHECK_INT(a->segments, b->segments);
  NM_CHECK_INT(a->flags, b->flags);
  NM_CHECK_SPAN(a->hash, b->hash);
  NM_CHECK_SPAN(a->random, b->random);
  NM_CHECK_SPAN(a->original, b->original);
  NM_CHECK_SPAN(a->request_id, b->request_id);
  NM_CHECK_INT(a->request_id.ptr == NULL, b->request_id.ptr == NULL);
  NM_CHECK_SPAN(a->hashmap, b->hashmap);
}

static nm_span encode_adv(const nm_resource_adv *adv) {
  size_t size = nm_resource_adv_size(adv);
  uint8_t *out = (uint8_t *)nm_test_scratch(size + 1);
  nm_writer w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_resource_adv_encode(adv, &w));
  NM_CHECK_INT(w.pos, size);
  if (size > 0) {
    nm_writer small = nm_writer_of(out, size - 1);
    NM_CHECK_STATUS(nm_resource_adv_encode(adv, &small), NM_E(TOO_LARGE));
    w = nm_writer_of(out, size);
    NM_CHECK_OK(nm_resource_adv_encode(adv, &w));
  }
  return nm_writer_done(&w);
}

static void run_adv_vector(const nm_vector *v) {
  nm_resource_adv expected = adv_of_vector(v, "output.fields");
  nm_span wire = nm_vector_bytes(v, "output.advertisement_plaintext");
  nm_resource_adv adv;
  NM_CHECK_OK(nm_resource_adv_decode(wire, &adv, NULL));
  check_same(&adv, &expected);
  NM_CHECK_SPAN(encode_adv(&expected), wire);
}

NM_TEST(advertisements_of_the_vectors_are_read_and_written) {
  nm_vectors_each(NULL, "resource", 6, run_adv_vector);
  nm_vectors_each(NULL, "resource_advertisement", 2, run_adv_vector);
}

static void run_flag_vector(const nm_vector *v) {
  size_t rows = nm_wire_vector_count(v, "output.rows");
  NM_CHECK_INT(rows, 32);
  for (size_t i = 0; i < rows; i++) {
    static const struct {
      char key;
      unsigned bit;
    } bits[] = {{'x', NM_RESOURCE_HAS_METADATA}, {'p', NM_RESOURCE_IS_RESPONSE},
                {'u', NM_RESOURCE_IS_REQUEST},   {'s', NM_RESOURCE_SPLIT},
                {'c', NM_RESOURCE_COMPRESSED},   {'e', NM_RESOURCE_ENCRYPTED}};
    uint64_t flags = 0;
    char path[40];
    for (size_t j = 0; j < 6; j++) {
      (void)snprintf(path, sizeof path, "output.rows[%zu].%c", i, bits[j].key);
      flags |= nm_vector_number(v, path) != 0 ? bits[j].bit : 0;
    }
    (void)snprintf(path, sizeof path, "output.rows[%zu].f", i);
    NM_CHECK_INT(flags, nm_vector_u64(v, path));
  }
}

NM_TEST(flag_bits_have_the_values_of_the_vectors) {
  nm_vectors_each(NULL, "resource_flags", 1, run_flag_vector);
}

static void run_constant_vector(const nm_vector *v) {
  NM_CHECK_INT(NM_RESOURCE_HASHMAP_MAX,
               nm_vector_u64(v, "output.hashmap_max_len"));
  NM_CHECK_INT(NM_RESOURCE_GUARD,
               nm_vector_u64(v, "output.collision_guard_size"));
  NM_CHECK_INT(NM_RESOURCE_SEGMENT_MAX,
               nm_vector_u64(v, "output.max_efficient_size"));
  NM_CHECK_INT(NM_RESOURCE_METADATA_MAX,
               nm_vector_u64(v, "output.metadata_max_size"));
  NM_CHECK_INT(NM_RESOURCE_COMPRESS_MAX,
               nm_vector_u64(v, "output.auto_compress_max_size"));
  NM_CHECK_INT(NM_RESOURCE_FAST_ROUNDS,
               nm_vector_u64(v, "output.fast_rate_threshold"));
  NM_CHECK(NM_RESOURCE_RATE_FAST ==
           nm_vector_number(v, "output.rate_fast_bytes_per_s"));
  NM_CHECK(NM_RESOURCE_RATE_VERY_SLOW ==
           nm_vector_number(v, "output.rate_very_slow_bytes_per_s"));
  NM_CHECK_INT(nm_resource_sdu(500), nm_vector_u64(v, "output.sdu_default"));
}

NM_TEST(constants_have_the_values_of_the_vectors) {
  nm_vectors_each(NULL, "resource_constants", 1, run_constant_vector);
}

/* --- What a receiver refuses --- */

static const uint8_t hash_a[32] = {1, 2, 3};
static const uint8_t some_map[8] = {9, 8, 7, 6, 5, 4, 3, 2};

static nm_resource_adv good_adv(void) {
  nm_resource_adv adv = {.transfer_size = 900,
                         .data_size = 800,
                         .parts = 2,
                         .hash = nm_span_of(hash_a, 32),
                         .random = nm_span_of(hash_a, 4),
                         .original = nm_span_of(hash_a, 32),
                         .segment = 1,
                         .segments = 1,
                         .flags = NM_RESOURCE_ENCRYPTED,
                         .hashmap = nm_span_of(some_map, 8)};
  return adv;
}

static void check_refused(const nm_resource_adv *adv, int status,
                          const char *field) {
  nm_fault fault = {0};
  nm_resource_adv out;
  NM_CHECK_STATUS(nm_resource_adv_decode(encode_adv(adv), &out, &fault),
                  status);
  NM_CHECK_STATUS(fault.status, status);
  NM_CHECK(strcmp(fault.field, field) == 0);
}

NM_TEST(advertisement_checks_refuse_each_bad_value_by_name) {
  nm_resource_adv adv = good_adv();
  nm_resource_adv out;
  NM_CHECK_OK(nm_resource_adv_decode(encode_adv(&adv), &out, NULL));
  adv.transfer_size = 0;
  check_refused(&adv, NM_E(RANGE), "advertisement.t");
  adv.transfer_size = 3145726;
  check_refused(&adv, NM_E(RANGE), "advertisement.t");
  adv.transfer_size = 3145725;
  NM_CHECK_OK(nm_resource_adv_decode(encode_adv(&adv), &out, NULL));
  adv = good_adv();
  adv.hash.len = 31;
  check_refused(&adv, NM_E(LENGTH), "advertisement.h");
  adv = good_adv();
  adv.random.len = 5;
  check_refused(&adv, NM_E(LENGTH), "advertisement.r");
  adv = good_adv();
  adv.original.len = 16;
  check_refused(&adv, NM_E(LENGTH), "advertisement.o");
  adv = good_adv();
  adv.segment = 0;
  check_refused(&adv, NM_E(RANGE), "advertisement.i");
  adv.segment = 2;
  check_refused(&adv, NM_E(RANGE), "advertisement.i");
  adv = good_adv();
  adv.request_id = nm_span_of(hash_a, 15);
  check_refused(&adv, NM_E(LENGTH), "advertisement.q");
  adv = good_adv();
  adv.flags = NM_RESOURCE_COMPRESSED;
  check_refused(&adv, NM_E(VALUE), "advertisement.f");
  adv.flags =
      NM_RESOURCE_ENCRYPTED | NM_RESOURCE_IS_REQUEST | NM_RESOURCE_IS_RESPONSE;
  check_refused(&adv, NM_E(VALUE), "advertisement.f");
  adv = good_adv();
  adv.hashmap.len = 0;
  check_refused(&adv, NM_E(LENGTH), "advertisement.m");
  adv.hashmap.len = 6;
  check_refused(&adv, NM_E(LENGTH), "advertisement.m");
  adv.hashmap.len = 8;
  adv.parts = 1;
  check_refused(&adv, NM_E(LENGTH), "advertisement.m");
}

NM_TEST(an_advertisement_can_be_read_without_the_checks) {
  nm_resource_adv adv = good_adv();
  adv.transfer_size = UINT64_MAX;
  adv.flags = 0;
  nm_resource_adv out;
  NM_CHECK_OK(nm_resource_adv_parse(encode_adv(&adv), &out, NULL));
  check_same(&out, &adv);
}

/* Writes the good advertisement with one key left out, or given another value;
 * |extra| adds an unknown key. */
static nm_span crooked_adv(char without, char changed, nm_span value,
                           bool extra, bool twice) {
  nm_resource_adv adv = good_adv();
  nm_span whole = encode_adv(&adv);
  uint8_t *out = (uint8_t *)nm_test_scratch(whole.len + 64);
  nm_writer w = nm_writer_of(out, whole.len + 64);
  nm_mp_map(&w, (uint32_t)(11 - (without != 0) + extra + twice));
  if (extra) {
    nm_mp_array(&w, 1);
    nm_mp_uint(&w, 7);
    nm_mp_map(&w, 0);
  }
  nm_reader r = nm_reader_of(whole);
  (void)nm_reader_u8(&r);
  for (int i = 0; i < 11; i++) {
    size_t start = r.pos;
    NM_CHECK_OK(nm_mp_skip(&r, NULL));
    char key = (char)whole.ptr[r.pos - 1];
    size_t middle = r.pos;
    NM_CHECK_OK(nm_mp_skip(&r, NULL));
    for (int times = twice && key == 'd' ? 2
                     : key == without    ? 0
                                         : 1;
         times > 0; times--) {
      nm_writer_span(&w, nm_span_slice(whole, start, middle - start));
      nm_writer_span(&w, key == changed
                             ? value
                             : nm_span_slice(whole, middle, r.pos - middle));
    }
  }
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

NM_TEST(each_missing_key_of_an_advertisement_is_named) {
  for (const char *key = field_keys; *key != '\0'; key++) {
    nm_test_context("key %c", *key);
    nm_fault fault = {0};
    nm_resource_adv out;
    nm_span in = crooked_adv(*key, 0, nm_span_of(NULL, 0), false, false);
    NM_CHECK_STATUS(nm_resource_adv_decode(in, &out, &fault), NM_E(MISSING));
    NM_CHECK(fault.field[strlen(fault.field) - 1] == *key);
  }
}

NM_TEST(each_wrong_type_in_an_advertisement_is_named) {
  for (const char *key = field_keys; *key != '\0'; key++) {
    nm_test_context("key %c", *key);
    static const char *const wrong[] = {"a161", "90", "cb3ff0000000000000",
                                        "c3"};
    for (size_t i = 0; i < 4; i++) {
      nm_fault fault = {0};
      nm_resource_adv out;
      nm_span in = crooked_adv(0, *key, nm_test_unhex(wrong[i]), false, false);
      NM_CHECK_STATUS(nm_resource_adv_decode(in, &out, &fault), NM_E(TYPE));
      NM_CHECK(fault.field[strlen(fault.field) - 1] == *key);
      NM_CHECK(fault.offset > 0 && fault.offset < in.len);
    }
  }
  nm_fault fault = {0};
  nm_resource_adv out;
  nm_span in = crooked_adv(0, 't', nm_test_unhex("ff"), false, false);
  NM_CHECK_STATUS(nm_resource_adv_decode(in, &out, &fault), NM_E(RANGE));
}

NM_TEST(unknown_keys_and_trailing_bytes_are_tolerated_repeated_keys_not) {
  nm_resource_adv adv = good_adv();
  nm_resource_adv out;
  nm_span in = crooked_adv(0, 0, nm_span_of(NULL, 0), true, false);
  NM_CHECK_OK(nm_resource_adv_decode(in, &out, NULL));
  check_same(&out, &adv);
  nm_span whole = encode_adv(&adv);
  uint8_t *longer = (uint8_t *)nm_test_scratch(whole.len + 2);
  memcpy(longer, whole.ptr, whole.len);
  longer[whole.len] = 0xc1;
  longer[whole.len + 1] = 0xc1;
  NM_CHECK_OK(
      nm_resource_adv_decode(nm_span_of(longer, whole.len + 2), &out, NULL));
  in = crooked_adv(0, 0, nm_span_of(NULL, 0), false, true);
  NM_CHECK_STATUS(nm_resource_adv_decode(in, &out, NULL), NM_E(DUPLICATE_KEY));
}

NM_TEST(no_advertisement_but_a_map_is_read) {
  nm_resource_adv out;
  nm_fault fault = {0};
  static const char *const others[] = {"90", "c0", "a161", "00"};
  for (size_t i = 0; i < 4; i++) {
    NM_CHECK_STATUS(
        nm_resource_adv_decode(nm_test_unhex(others[i]), &out, &fault),
        NM_E(TYPE));
  }
  NM_CHECK_STATUS(nm_resource_adv_decode(nm_span_of(NULL, 0), &out, &fault),
                  NM_E(TRUNCATED));
}

NM_TEST(an_advertisement_cut_anywhere_is_refused) {
  nm_resource_adv adv = good_adv();
  nm_span whole = encode_adv(&adv);
  for (size_t len = 0; len < whole.len; len++) {
    nm_test_context("length %zu", len);
    nm_fault fault = {0};
    nm_resource_adv out;
    uint8_t *cut = (uint8_t *)nm_test_scratch(len + 1);
    memcpy(cut, whole.ptr, len);
    NM_CHECK_STATUS(nm_resource_adv_decode(nm_span_of(cut, len), &out, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(fault.offset <= len);
  }
}

NM_TEST(flipped_bits_in_an_advertisement_never_pass_unnoticed_lengths) {
  nm_resource_adv adv = good_adv();
  nm_span whole = encode_adv(&adv);
  uint8_t *copy = (uint8_t *)nm_test_scratch(whole.len);
  for (size_t bit = 0; bit < 8 * whole.len; bit++) {
    memcpy(copy, whole.ptr, whole.len);
    copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    nm_fault fault = {0};
    nm_resource_adv out;
    int status =
        nm_resource_adv_decode(nm_span_of(copy, whole.len), &out, &fault);
    if (status == NM_OK) {
      NM_CHECK_OK(nm_resource_adv_check(&out, NULL));
    } else {
      NM_CHECK_STATUS(fault.status, status);
      NM_CHECK(fault.field != NULL && fault.offset <= whole.len);
    }
  }
}

/* --- Request, update, proof, cancel --- */

NM_TEST(part_requests_have_two_forms) {
  nm_resource_request req = {.hash = nm_span_of(hash_a, 32),
                             .wanted = nm_span_of(some_map, 8)};
  uint8_t out[80];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_request_encode(&req, &w));
  NM_CHECK_INT(w.pos, nm_resource_request_size(&req));
  NM_CHECK_INT(w.pos, 1 + 32 + 8);
  nm_resource_request back;
  NM_CHECK_OK(nm_resource_request_decode(nm_writer_done(&w), &back, NULL));
  NM_CHECK(!back.exhausted && back.last_known.len == 0);
  NM_CHECK_SPAN(back.hash, req.hash);
  NM_CHECK_SPAN(back.wanted, req.wanted);

  req.exhausted = true;
  req.last_known = nm_span_of(some_map, 4);
  req.wanted.len = 0;
  w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_request_encode(&req, &w));
  NM_CHECK_INT(w.pos, nm_resource_request_size(&req));
  NM_CHECK_INT(w.pos, 1 + 4 + 32);
  NM_CHECK_INT(out[0], 0xFF);
  NM_CHECK_OK(nm_resource_request_decode(nm_writer_done(&w), &back, NULL));
  NM_CHECK(back.exhausted);
  NM_CHECK_SPAN(back.last_known, req.last_known);
  NM_CHECK_INT(back.wanted.len, 0);
}

NM_TEST(broken_part_requests_are_named) {
  uint8_t wire[64] = {0};
  nm_resource_request req;
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_resource_request_decode(nm_span_of(wire, 0), &req, &fault),
                  NM_E(TRUNCATED));
  NM_CHECK(strcmp(fault.field, "request.flag") == 0);
  for (size_t len = 1; len < 33; len++) {
    NM_CHECK_STATUS(
        nm_resource_request_decode(nm_span_of(wire, len), &req, &fault),
        NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "request.hash") == 0);
  }
  for (size_t len = 33; len < 60; len++) {
    int status =
        nm_resource_request_decode(nm_span_of(wire, len), &req, &fault);
    NM_CHECK_STATUS(status, (len - 33) % 4 == 0 ? NM_OK : NM_E(LENGTH));
  }
  NM_CHECK(strcmp(fault.field, "request.wanted") == 0);
  wire[0] = 1;
  NM_CHECK_STATUS(
      nm_resource_request_decode(nm_span_of(wire, 37), &req, &fault),
      NM_E(VALUE));
  wire[0] = 0xFF;
  NM_CHECK_STATUS(nm_resource_request_decode(nm_span_of(wire, 4), &req, &fault),
                  NM_E(TRUNCATED));
  NM_CHECK(strcmp(fault.field, "request.last_known") == 0);
}

NM_TEST(hashmap_updates_are_read_and_written) {
  nm_resource_hmu hmu = {nm_span_of(hash_a, 32), 3, nm_span_of(some_map, 8)};
  uint8_t out[80];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_hmu_encode(&hmu, &w));
  NM_CHECK_INT(w.pos, nm_resource_hmu_size(&hmu));
  NM_CHECK_HEX(nm_span_slice(nm_writer_done(&w), 32, w.pos - 32),
               "9203c4080908070605040302");
  nm_resource_hmu back;
  NM_CHECK_OK(nm_resource_hmu_decode(nm_writer_done(&w), &back, NULL));
  NM_CHECK_INT(back.segment, 3);
  NM_CHECK_SPAN(back.hash, hmu.hash);
  NM_CHECK_SPAN(back.hashmap, hmu.hashmap);
  for (size_t len = 0; len < w.pos; len++) {
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_resource_hmu_decode(nm_span_of(out, len), &back, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field,
                    len < 32 ? "hashmap_update.hash" : "hashmap_update") == 0);
  }
}

static void check_hmu(const char *tail, int status, const char *field) {
  uint8_t wire[400] = {0};
  nm_span bytes = nm_test_unhex(tail);
  memcpy(wire + 32, bytes.ptr, bytes.len);
  nm_resource_hmu hmu;
  nm_fault fault = {0};
  NM_CHECK_STATUS(
      nm_resource_hmu_decode(nm_span_of(wire, 32 + bytes.len), &hmu, &fault),
      status);
  NM_CHECK(status == NM_OK || strcmp(fault.field, field) == 0);
}

NM_TEST(broken_hashmap_updates_are_named) {
  check_hmu("9200c40401020304", NM_OK, "");
  check_hmu("9200c40401020304c1", NM_OK, "");
  check_hmu("9300c40401020304c0", NM_OK, "");
  check_hmu("80", NM_E(TYPE), "hashmap_update");
  check_hmu("9100", NM_E(TYPE), "hashmap_update");
  check_hmu("92c0c40401020304", NM_E(TYPE), "hashmap_update.segment");
  check_hmu("92ffc40401020304", NM_E(RANGE), "hashmap_update.segment");
  check_hmu("92ce03759f22c40401020304", NM_OK, "");
  check_hmu("92ce03759f23c40401020304", NM_E(RANGE), "hashmap_update.segment");
  check_hmu("9200a401020304", NM_E(TYPE), "hashmap_update.hashmap");
  check_hmu("9200c400", NM_E(EMPTY), "hashmap_update.hashmap");
  check_hmu("9200c403010203", NM_E(LENGTH), "hashmap_update.hashmap");
}

NM_TEST(an_update_slices_the_hashmap_by_74) {
  uint8_t map[4 * 160];
  nm_test_random_bytes(map, sizeof map);
  nm_span all = nm_span_of(map, sizeof map);
  NM_CHECK_SPAN(nm_resource_hmu_slice(all, 0), nm_span_of(map, 4 * 74));
  NM_CHECK_SPAN(nm_resource_hmu_slice(all, 1),
                nm_span_of(map + 4 * 74, 4 * 74));
  NM_CHECK_SPAN(nm_resource_hmu_slice(all, 2),
                nm_span_of(map + 4 * 148, 4 * 12));
  NM_CHECK_INT(nm_resource_hmu_slice(all, 3).len, 0);
  NM_CHECK_INT(nm_resource_hmu_slice(all, UINT64_MAX).len, 0);
  NM_CHECK_INT(nm_resource_hmu_slice(nm_span_of(map, 4 * 148), 2).len, 0);
}

static void run_proof_vector(const nm_vector *v) {
  nm_span raw = nm_vector_bytes(v, "output.proof_raw");
  nm_span payload = nm_span_slice(raw, 19, raw.len - 19);
  nm_resource_proof proof;
  NM_CHECK_OK(nm_resource_proof_decode(payload, &proof, NULL));
  NM_CHECK_SPAN(proof.hash, nm_vector_bytes(v, "output.resource_hash"));
  NM_CHECK_SPAN(proof.proof, nm_vector_bytes(v, "output.expected_proof"));
  uint8_t out[64];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_proof_encode(&proof, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), payload);
}

NM_TEST(proofs_of_the_vectors_are_read_and_written) {
  nm_vectors_each(NULL, "resource", 6, run_proof_vector);
}

NM_TEST(proofs_and_cancels_have_exactly_their_length) {
  uint8_t wire[70] = {0};
  nm_resource_proof proof;
  nm_span hash;
  for (size_t len = 0; len < 70; len++) {
    nm_span in = nm_span_of(wire, len);
    NM_CHECK_STATUS(nm_resource_proof_decode(in, &proof, NULL),
                    len < 64   ? NM_E(TRUNCATED)
                    : len > 64 ? NM_E(TRAILING)
                               : NM_OK);
    NM_CHECK_STATUS(nm_resource_cancel_decode(in, &hash, NULL),
                    len < 32   ? NM_E(TRUNCATED)
                    : len > 32 ? NM_E(TRAILING)
                               : NM_OK);
  }
}

NM_TEST(the_hash_of_a_proof_packet_is_the_packet_hash) {
  nm_link_id link;
  uint8_t wire[1 + 16 + 1 + 64];
  nm_test_random_bytes(wire, sizeof wire);
  wire[0] = 0x0F;
  wire[17] = 0x05;
  memcpy(link.b, wire + 1, 16);
  nm_packet_hash expected;
  nm_packet_hash actual;
  nm_sha256(expected.b, nm_span_of(wire, sizeof wire));
  nm_resource_proof_packet_hash(&link, wire + 18, wire + 50, &actual);
  NM_CHECK_BYTES(actual.b, expected.b, 32);
}

/* --- Parts --- */

NM_TEST(parts_cover_the_stream_without_gaps) {
  uint8_t stream[1000];
  nm_test_random_bytes(stream, sizeof stream);
  for (size_t sdu = 1; sdu < 1100; sdu += 37) {
    nm_test_context("sdu %zu", sdu);
    nm_span parts[1000];
    int n = nm_resource_parts(nm_span_of(stream, 1000), sdu, parts, 1000);
    NM_CHECK_INT(n, nm_resource_part_count(1000, sdu));
    const uint8_t *next = stream;
    for (int i = 0; i < n; i++) {
      NM_CHECK(parts[i].ptr == next);
      NM_CHECK_INT(parts[i].len, i < n - 1 ? sdu : 1000 - (size_t)i * sdu);
      next += parts[i].len;
    }
    NM_CHECK_STATUS(
        nm_resource_parts(nm_span_of(stream, 1000), sdu, parts, (size_t)n - 1),
        NM_E(TOO_LARGE));
    uint8_t joined[1000];
    nm_writer w = nm_writer_of(joined, sizeof joined);
    NM_CHECK_OK(nm_resource_parts_join(parts, (size_t)n, &w));
    NM_CHECK_BYTES(joined, stream, 1000);
    w = nm_writer_of(joined, sizeof joined - 1);
    NM_CHECK_STATUS(nm_resource_parts_join(parts, (size_t)n, &w),
                    NM_E(TOO_LARGE));
  }
  nm_span none[1];
  NM_CHECK_STATUS(nm_resource_parts(nm_span_of(stream, 1000), 0, none, 1),
                  NM_E(ARGUMENT));
  NM_CHECK_INT(nm_resource_parts(nm_span_of(NULL, 0), 464, none, 1), 0);
  NM_CHECK_INT(nm_resource_part_count(5, 0), 0);
}

NM_TEST(parts_are_copied_with_room_for_headers_between) {
  uint8_t stream[1000];
  uint8_t packets[3 * 500];
  memset(packets, 0xEE, sizeof packets);
  nm_test_random_bytes(stream, sizeof stream);
  nm_span in = nm_span_of(stream, 1000);
  NM_CHECK_INT(nm_resource_parts_copy(in, 464, packets, 500, sizeof packets),
               3);
  NM_CHECK_BYTES(packets, stream, 464);
  NM_CHECK_BYTES(packets + 500, stream + 464, 464);
  NM_CHECK_BYTES(packets + 1000, stream + 928, 72);
  NM_CHECK_INT(packets[464], 0xEE);
  NM_CHECK_INT(packets[1072], 0xEE);
  NM_CHECK_INT(nm_resource_parts_copy(in, 464, packets, 500, 1072), 3);
  NM_CHECK_STATUS(nm_resource_parts_copy(in, 464, packets, 500, 1071),
                  NM_E(TOO_LARGE));
  NM_CHECK_STATUS(nm_resource_parts_copy(in, 464, packets, 463, 1500),
                  NM_E(ARGUMENT));
}

NM_TEST(map_hashes_in_lanes_equal_those_one_by_one) {
  const uint8_t random[4] = {1, 2, 3, 4};
  nm_span stream = nm_wire_rule_data("map", 40000);
  static uint8_t hashes[4 * 5000];
  static const size_t sdus[] = {1, 8, 63, 64, 313, 464, 625, 40000, 50000};
  for (size_t s = 0; s < sizeof sdus / sizeof *sdus; s++) {
    size_t len = sdus[s] < 100 ? 5000 * sdus[s] : 40000;
    len = len > 40000 ? 40000 : len;
    len = len / sdus[s] > 5000 ? 5000 * sdus[s] : len;
    nm_span part_of = nm_span_slice(stream, 0, len);
    nm_resource_map_hashes(part_of, sdus[s], random, hashes);
    size_t n = (size_t)nm_resource_part_count(len, sdus[s]);
    for (size_t i = 0; i < n; i++) {
      nm_test_context("sdu %zu part %zu", sdus[s], i);
      size_t at = i * sdus[s];
      uint8_t one[4];
      nm_resource_map_hash(
          nm_span_slice(part_of, at, len - at < sdus[s] ? len - at : sdus[s]),
          random, one);
      NM_CHECK_BYTES(hashes + 4 * i, one, 4);
    }
  }
  nm_resource_map_hashes(stream, 0, random, hashes);
}

NM_TEST(equal_map_hashes_collide_only_within_the_guard) {
  static uint8_t map[4 * 1000];
  for (uint32_t i = 0; i < 1000; i++) {
    /* Distinct, with the same first byte for many. */
    map[4 * i] = (uint8_t)(i % 3);
    map[4 * i + 1] = (uint8_t)i;
    map[4 * i + 2] = (uint8_t)(i >> 8);
    map[4 * i + 3] = 1;
  }
  nm_span all = nm_span_of(map, sizeof map);
  NM_CHECK(nm_resource_map_distinct(all));
  NM_CHECK(nm_resource_map_distinct(nm_span_of(NULL, 0)));
  static const uint32_t distances[] = {1, 2, 100, 223, 224, 225, 300};
  for (size_t i = 0; i < 7; i++) {
    for (uint32_t at = 300; at < 1000; at += 233) {
      uint8_t saved[4];
      memcpy(saved, map + 4 * at, 4);
      memcpy(map + 4 * at, map + 4 * (at - distances[i]), 4);
      NM_CHECK_INT(nm_resource_map_distinct(all), distances[i] > 224);
      memcpy(map + 4 * at, saved, 4);
    }
  }
}

/* --- Segments --- */

static void run_plan_vector(const nm_vector *v) {
  size_t rows = nm_wire_vector_count(v, "output.rows");
  for (size_t i = 0; i < rows; i++) {
    char path[100];
    nm_resource_plan plan;
#define ROW(name)                                                              \
  (snprintf(path, sizeof path, "output.rows[%zu]." name, i), path)
    uint64_t data = nm_vector_u64(v, ROW("data_size"));
    uint64_t metadata =
        nm_vector_u64(v, ROW("metadata_size_incl_3_byte_length"));
    NM_CHECK_OK(nm_resource_plan_make(data, metadata, &plan));
    NM_CHECK_INT(plan.total_size, nm_vector_u64(v, ROW("total_size_d")));
    NM_CHECK_INT(plan.segments, nm_vector_u64(v, ROW("segments_l")));
    uint64_t next = 0;
    for (uint64_t s = 1; s <= plan.segments; s++) {
      uint64_t offset;
      uint64_t length;
      NM_CHECK_OK(nm_resource_plan_segment(&plan, s, &offset, &length));
      NM_CHECK_INT(offset, next);
      next = offset + length;
      (void)snprintf(path, sizeof path,
                     "output.rows[%zu].segment_plaintext_lengths[%llu]", i,
                     (unsigned long long)s - 1);
      NM_CHECK_INT(length + (s == 1 ? metadata : 0), nm_vector_u64(v, path));
    }
    NM_CHECK_INT(next, data);
#undef ROW
  }
}

NM_TEST(segment_plans_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "resource_segmentation", 1, run_plan_vector);
}

NM_TEST(segment_plans_have_limits) {
  nm_resource_plan plan;
  uint64_t offset;
  uint64_t length;
  NM_CHECK_OK(nm_resource_plan_make(0, 0, &plan));
  NM_CHECK_INT(plan.segments, 1);
  NM_CHECK_OK(nm_resource_plan_segment(&plan, 1, &offset, &length));
  NM_CHECK_INT(length, 0);
  NM_CHECK_STATUS(nm_resource_plan_segment(&plan, 0, &offset, &length),
                  NM_E(RANGE));
  NM_CHECK_STATUS(nm_resource_plan_segment(&plan, 2, &offset, &length),
                  NM_E(RANGE));
  NM_CHECK_OK(nm_resource_plan_make(10, 1048575, &plan));
  NM_CHECK_INT(plan.segments, 2);
  NM_CHECK_OK(nm_resource_plan_segment(&plan, 1, &offset, &length));
  NM_CHECK_INT(length, 0);
  NM_CHECK_OK(nm_resource_plan_segment(&plan, 2, &offset, &length));
  NM_CHECK_INT(length, 10);
  NM_CHECK_STATUS(nm_resource_plan_make(10, 1048576, &plan), NM_E(TOO_LARGE));
  NM_CHECK_STATUS(nm_resource_plan_make(UINT64_MAX, 1, &plan), NM_E(TOO_LARGE));
}

NM_TEST(progress_counts_over_all_segments) {
  NM_CHECK(nm_resource_progress(1, 1, 0, 10, 464) == 0.0);
  NM_CHECK(nm_resource_progress(1, 1, 5, 10, 464) == 0.5);
  NM_CHECK(nm_resource_progress(1, 1, 10, 10, 464) == 1.0);
  /* 2260 parts in a full segment of 464 bytes each. */
  NM_CHECK(nm_resource_progress(1, 2, 2260, 2260, 464) == 0.5);
  NM_CHECK(nm_resource_progress(2, 2, 0, 3, 464) == 0.5);
  NM_CHECK(nm_resource_progress(2, 2, 3, 3, 464) == 1.0);
  NM_CHECK(nm_resource_progress(2, 4, 1130, 2260, 464) == 0.375);
  NM_CHECK(nm_resource_progress(1, 1, 1, 0, 464) == 0.0);
}

/* --- Metadata --- */

static void run_rncp_vector(const nm_vector *v) {
  if (!nm_vector_has(v, "output.block")) {
    return;
  }
  nm_span packed = nm_vector_bytes(v, "output.msgpack");
  nm_span block = nm_vector_bytes(v, "output.block");
  uint8_t out[100];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_metadata_encode(packed, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), block);
  nm_span data;
  NM_CHECK_OK(nm_resource_metadata_split(block, &packed, &data, NULL));
  NM_CHECK_SPAN(packed, nm_vector_bytes(v, "output.msgpack"));
  NM_CHECK_INT(data.len, 0);
  for (size_t len = 0; len < block.len; len++) {
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_resource_metadata_split(nm_span_slice(block, 0, len),
                                               &packed, &data, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "metadata") == 0);
  }
}

NM_TEST(metadata_blocks_are_built_and_split) {
  nm_vectors_each(NULL, "rncp", 1, run_rncp_vector);
}

NM_TEST(metadata_has_a_limit) {
  uint8_t out[8];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_resource_metadata_encode(nm_span_of(hash_a, 16777216), &w),
                  NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
  NM_CHECK_OK(nm_resource_metadata_encode(nm_span_of(NULL, 0), &w));
  NM_CHECK_INT(w.pos, 3);
}
