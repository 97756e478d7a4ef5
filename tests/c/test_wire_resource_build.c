/* Preparing segments. */
#include "wire/resource_build.h"

#include "crypto/bz2.h"
#include "support.h"
#include "wire_data.h"

#include <string.h>

/* The plaintext of a vector: metadata block and data. */
static nm_resource_plain plain_of(const nm_vector *v) {
  nm_resource_plain plain = {.data = nm_wire_vector_data(v)};
  if (nm_vector_has(v, "input.metadata_msgpack")) {
    nm_span packed = nm_vector_bytes(v, "input.metadata_msgpack");
    uint8_t *block = (uint8_t *)nm_test_scratch(packed.len + 3);
    nm_writer w = nm_writer_of(block, packed.len + 3);
    NM_CHECK_OK(nm_resource_metadata_encode(packed, &w));
    plain.metadata = nm_writer_done(&w);
  }
  return plain;
}

static void run_vector(const nm_vector *v) {
  if (!nm_vector_has(v, "input.derived_key")) {
    return;
  }
  nm_cipher cipher;
  nm_token_key key;
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  NM_CHECK_OK(nm_token_key_init(&key, nm_vector_bytes(v, "input.derived_key")));
  nm_resource_plain plain = plain_of(v);
  size_t sdu = nm_resource_sdu((size_t)nm_vector_u64(v, "input.link_mtu"));
  NM_CHECK_INT(sdu, nm_vector_u64(v, "input.sdu"));
  size_t room = nm_resource_stream_size(nm_resource_plain_size(&plain));
  size_t map_room =
      nm_resource_hashmap_bound(nm_resource_plain_size(&plain), sdu);
  nm_resource_build_args args = {
      .plain = plain,
      .sdu = sdu,
      .compression = nm_vector_bool(v, "input.auto_compress")
                         ? NM_RESOURCE_COMPRESS_WHEN_SMALLER
                         : NM_RESOURCE_COMPRESS_OFF,
      .total_size = plain.data.len,
      .key = &key,
      .iv = nm_vector_bytes(v, "input.stream_iv").ptr,
      .prefix = nm_vector_bytes(v, "input.random_prefix").ptr,
      .randoms = nm_vector_bytes(v, "input.random_hash"),
      .stream = {(uint8_t *)nm_test_scratch(room), room},
      .hashmap = {(uint8_t *)nm_test_scratch(map_room), map_room}};
  nm_resource_segment seg;
  NM_CHECK_OK(nm_resource_build(&args, &cipher, &nm_mem_system, &seg));
  NM_CHECK_INT(seg.compressed, nm_vector_bool(v, "output.compressed"));
  NM_CHECK_INT(seg.stream.len,
               nm_vector_u64(v, "output.stream_ciphertext_length"));
  uint8_t digest[32];
  nm_sha256(digest, seg.stream);
  NM_CHECK_SPAN(nm_span_of(digest, 32),
                nm_vector_bytes(v, "output.stream_ciphertext_sha256"));
  NM_CHECK_INT(seg.parts, nm_vector_u64(v, "output.total_parts"));
  NM_CHECK_SPAN(seg.hashmap, nm_vector_bytes(v, "output.hashmap"));
  NM_CHECK_SPAN(nm_span_of(seg.hash, 32),
                nm_vector_bytes(v, "output.resource_hash"));
  NM_CHECK_SPAN(nm_span_of(seg.expected_proof, 32),
                nm_vector_bytes(v, "output.expected_proof"));

  nm_resource_announce what = {.data_size = nm_resource_plain_size(&plain),
                               .segment = 1,
                               .segments = 1,
                               .is_response =
                                   nm_vector_bool(v, "input.is_response"),
                               .has_metadata = plain.metadata.len > 0};
  if (nm_vector_has(v, "input.request_id")) {
    what.request_id = nm_vector_bytes(v, "input.request_id");
  }
  nm_resource_adv adv;
  nm_resource_adv_of(&seg, &what, &adv);
  uint8_t out[600];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_adv_encode(&adv, &w));
  NM_CHECK_SPAN(nm_writer_done(&w),
                nm_vector_bytes(v, "output.advertisement_plaintext"));
  nm_token_key_wipe(&key);
  nm_cipher_close(&cipher);
}

NM_TEST(segments_are_built_byte_for_byte_as_in_the_vectors) {
  nm_vectors_each(NULL, "resource", 6, run_vector);
  nm_vectors_each(NULL, "resource_advertisement", 2, run_vector);
}

/* The vector of two segments gives hashes of plaintexts only; keys and IVs are
 * unknown, so that only h and the proof can be compared. */
static void run_two_segments(const nm_vector *v) {
  nm_span data = nm_wire_vector_data(v);
  nm_span block = nm_vector_bytes(v, "input.metadata_block");
  nm_resource_plan plan;
  NM_CHECK_OK(nm_resource_plan_make(data.len, block.len, &plan));
  NM_CHECK_INT(plan.segments, 2);
  for (uint64_t i = 1; i <= 2; i++) {
    uint64_t offset;
    uint64_t length;
    NM_CHECK_OK(nm_resource_plan_segment(&plan, i, &offset, &length));
    nm_resource_plain plain = {
        .data = nm_span_slice(data, (size_t)offset, (size_t)length)};
    if (i == 1) {
      plain.metadata = block;
    }
    nm_resource_segment seg;
    uint8_t map[16];
    uint8_t one[16] = {0};
    nm_span random =
        nm_vector_bytes(v, i == 1 ? "output.segment1.r" : "output.segment2.r");
    NM_CHECK_OK(nm_resource_index(&plain, nm_span_of(one, sizeof one), 464,
                                  random, (nm_mspan){map, sizeof map}, &seg));
    NM_CHECK_SPAN(
        nm_span_of(seg.hash, 32),
        nm_vector_bytes(v, i == 1 ? "output.segment1.h" : "output.segment2.h"));
    NM_CHECK_SPAN(nm_span_of(seg.expected_proof, 32),
                  nm_vector_bytes(v, i == 1
                                         ? "output.segment1_expected_proof"
                                         : "output.segment2_expected_proof"));
    NM_CHECK_INT(
        nm_resource_stream_size(nm_resource_plain_size(&plain)),
        nm_vector_u64(v, i == 1 ? "output.segment1.t" : "output.segment2.t"));
  }
}

NM_TEST(two_segments_have_the_hashes_of_the_vector) {
  nm_vectors_each(NULL, "resource_segments", 1, run_two_segments);
}

/* --- Compression --- */

NM_TEST(compression_is_used_only_when_strictly_shorter) {
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  nm_buffer out;
  nm_buffer_init(&out, &mem.mem, NULL, 0, 0);
  nm_resource_plain noise = {.data = nm_wire_rule_data("noise", 3000)};
  nm_resource_plain text = {.data = nm_wire_rule_data("text", 0)};
  uint8_t same[3000];
  memset(same, 'x', sizeof same);
  text.data = nm_span_of(same, sizeof same);
  const nm_resource_compression when = NM_RESOURCE_COMPRESS_WHEN_SMALLER;
  NM_CHECK_INT(nm_resource_compress(&noise, when, 3000, 0, &mem.mem, &out), 0);
  NM_CHECK_INT(out.len, 0);
  NM_CHECK_INT(nm_resource_compress(&text, NM_RESOURCE_COMPRESS_OFF, 3000, 0,
                                    &mem.mem, &out),
               0);
  NM_CHECK_INT(nm_resource_compress(&text, when, 3000, 2999, &mem.mem, &out),
               0);
  NM_CHECK_INT(nm_resource_compress(&text, when, 67108865, 0, &mem.mem, &out),
               0);
  NM_CHECK_INT(out.len, 0);
  NM_CHECK_INT(nm_resource_compress(&text, when, 67108864, 0, &mem.mem, &out),
               1);
  NM_CHECK(out.len > 0 && out.len < 3000);
  nm_buffer_dispose(&out);
  NM_CHECK_INT(mem.live, 0);
}

NM_TEST(metadata_and_data_are_compressed_as_one_stream) {
  uint8_t same[500];
  memset(same, 'y', sizeof same);
  nm_resource_plain plain = {.metadata = nm_span_of(same, 100),
                             .data = nm_span_of(same, 400)};
  nm_buffer out;
  nm_buffer back;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_buffer_init(&back, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_INT(nm_resource_compress(&plain, NM_RESOURCE_COMPRESS_WHEN_SMALLER,
                                    400, 0, &nm_mem_system, &out),
               1);
  NM_CHECK_OK(nm_bz2_decompress(&nm_mem_system, nm_span_of(out.ptr, out.len),
                                500, &back));
  NM_CHECK_SPAN(nm_span_of(back.ptr, back.len), nm_span_of(same, 500));
  nm_buffer_dispose(&out);
  nm_buffer_dispose(&back);
}

NM_TEST(nothing_to_compress_is_sent_as_it_is) {
  nm_resource_plain plain = {.data = nm_span_of("a", 0)};
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_INT(nm_resource_compress(&plain, NM_RESOURCE_COMPRESS_WHEN_SMALLER,
                                    0, 0, &nm_mem_system, &out),
               0);
}

NM_TEST(noise_is_told_from_text_and_structure) {
  nm_span noise = nm_wire_rule_data("a long stretch of noise", 200000);
  NM_CHECK(nm_resource_looks_random(noise));
  for (size_t at = 0; at + 600 < noise.len; at += 999) {
    NM_CHECK(nm_resource_looks_random(nm_span_slice(noise, at, 600)));
    NM_CHECK(nm_resource_looks_random(nm_span_slice(noise, at / 2, 100000)));
  }
  /* Sixty-four symbols, as in base64, are no noise, nor are zeros or text. */
  uint8_t *other = (uint8_t *)nm_test_scratch(20000);
  for (size_t i = 0; i < 20000; i++) {
    other[i] = (uint8_t)('0' + noise.ptr[i] % 64);
  }
  NM_CHECK(!nm_resource_looks_random(nm_span_of(other, 20000)));
  NM_CHECK(!nm_resource_looks_random(nm_span_of(other, 600)));
  memset(other, 0, 20000);
  NM_CHECK(!nm_resource_looks_random(nm_span_of(other, 20000)));
  /* Too little to judge. */
  NM_CHECK(!nm_resource_looks_random(nm_span_slice(noise, 0, 511)));
}

NM_TEST(automatic_compression_skips_noise_and_takes_text) {
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  nm_buffer out;
  nm_buffer_init(&out, &mem.mem, NULL, 0, 0);
  nm_resource_plain plain = {.data = nm_wire_rule_data("noise", 5000)};
  NM_CHECK_INT(nm_resource_compress(&plain, NM_RESOURCE_COMPRESS_AUTOMATIC,
                                    5000, 0, &mem.mem, &out),
               0);
  NM_CHECK_INT(mem.calls, 0);
  uint8_t same[3000];
  memset(same, 'x', sizeof same);
  plain.data = nm_span_of(same, sizeof same);
  NM_CHECK_INT(nm_resource_compress(&plain, NM_RESOURCE_COMPRESS_AUTOMATIC,
                                    3000, 0, &mem.mem, &out),
               1);
  nm_buffer_dispose(&out);
}

/* --- Hashes --- */

NM_TEST(a_colliding_random_hash_is_replaced_by_the_next_candidate) {
  /* Parts of one byte: among 200 equal bytes every map hash collides, among
   * two different ones none does. */
  uint8_t stream[200];
  uint8_t map[800];
  nm_mspan room = {map, sizeof map};
  nm_resource_plain plain = {.data = nm_span_of("P", 1)};
  nm_resource_segment seg;
  const uint8_t randoms[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  memset(stream, 'z', sizeof stream);
  NM_CHECK_STATUS(nm_resource_index(&plain, nm_span_of(stream, 200), 1,
                                    nm_span_of(randoms, 12), room, &seg),
                  NM_E(COLLISION));
  NM_CHECK_INT(seg.collisions, 3);
  /* Two different parts whose map hashes are equal under one random only are
   * found by trying: among 200000 parts some five pairs are equal. */
  nm_span many = nm_wire_rule_data("collide", 8 * 200000);
  uint8_t *hashes = (uint8_t *)nm_test_scratch(4 * 200000);
  nm_resource_map_hashes(many, 8, randoms, hashes);
  uint32_t *seen = (uint32_t *)nm_test_scratch(4 << 20);
  memset(seen, 0, 4 << 20);
  size_t a = 0;
  size_t b = 0;
  for (size_t i = 0; i < 200000 && b == 0; i++) {
    uint32_t word;
    memcpy(&word, hashes + 4 * i, 4);
    for (size_t slot = word % (1 << 20);; slot = (slot + 1) % (1 << 20)) {
      if (seen[slot] == 0) {
        seen[slot] = (uint32_t)i + 1;
        break;
      }
      if (memcmp(hashes + 4 * (seen[slot] - 1), hashes + 4 * i, 4) == 0) {
        a = seen[slot] - 1;
        b = i;
        break;
      }
    }
  }
  NM_CHECK(b > 0);
  uint8_t two[16];
  memcpy(two, many.ptr + 8 * a, 8);
  memcpy(two + 8, many.ptr + 8 * b, 8);
  NM_CHECK_OK(nm_resource_index(&plain, nm_span_of(two, 16), 8,
                                nm_span_of(randoms, 12), room, &seg));
  NM_CHECK_INT(seg.collisions, 1);
  NM_CHECK_BYTES(seg.random, randoms + 4, 4);
  /* Hash and proof belong to the random that is used, and to P. */
  uint8_t digest[32];
  nm_span hashed[2] = {nm_span_of("P", 1), nm_span_of(randoms + 4, 4)};
  nm_sha256v(digest, hashed, 2);
  NM_CHECK_BYTES(seg.hash, digest, 32);
  hashed[1] = nm_span_of(seg.hash, 32);
  nm_sha256v(digest, hashed, 2);
  NM_CHECK_BYTES(seg.expected_proof, digest, 32);
}

NM_TEST(indexing_refuses_what_cannot_be) {
  uint8_t stream[200] = {0};
  uint8_t map[8];
  nm_resource_plain plain = {.data = nm_span_of("P", 1)};
  nm_resource_segment seg;
  nm_span in = nm_span_of(stream, 200);
  nm_span random = nm_span_of("abcd", 4);
  nm_mspan room = {map, sizeof map};
  NM_CHECK_STATUS(nm_resource_index(&plain, in, 0, random, room, &seg),
                  NM_E(ARGUMENT));
  NM_CHECK_STATUS(
      nm_resource_index(&plain, in, 100, nm_span_of("abc", 3), room, &seg),
      NM_E(ARGUMENT));
  NM_CHECK_STATUS(
      nm_resource_index(&plain, in, 100, nm_span_of("", 0), room, &seg),
      NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_resource_index(&plain, in, 99, random, room, &seg),
                  NM_E(TOO_LARGE));
}

static void build_sample(nm_resource_compression mode, size_t stream_room,
                         int status, bool compressed, const nm_mem *mem) {
  nm_cipher cipher;
  nm_token_key key;
  uint8_t secret[64] = {7};
  uint8_t same[2000];
  uint8_t map[64];
  uint8_t iv[16] = {0};
  memset(same, 'x', sizeof same);
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  NM_CHECK_OK(nm_token_key_init(&key, nm_span_of(secret, 64)));
  nm_resource_build_args args = {
      .plain = {.data = nm_span_of(same, sizeof same)},
      .sdu = 464,
      .compression = mode,
      .total_size = sizeof same,
      .key = &key,
      .iv = iv,
      .prefix = iv,
      .randoms = nm_span_of("abcd", 4),
      .stream = {(uint8_t *)nm_test_scratch(stream_room), stream_room},
      .hashmap = {map, sizeof map}};
  nm_resource_segment seg;
  NM_CHECK_STATUS(nm_resource_build(&args, &cipher, mem, &seg), status);
  if (status == NM_OK) {
    NM_CHECK_INT(seg.compressed, compressed);
  }
  nm_cipher_close(&cipher);
}

NM_TEST(a_stream_buffer_that_is_too_small_is_refused) {
  size_t need = nm_resource_stream_size(2000);
  build_sample(NM_RESOURCE_COMPRESS_OFF, need, NM_OK, false, &nm_mem_system);
  build_sample(NM_RESOURCE_COMPRESS_OFF, need - 1, NM_E(TOO_LARGE), false,
               &nm_mem_system);
  build_sample(NM_RESOURCE_COMPRESS_WHEN_SMALLER, need - 1, NM_OK, true,
               &nm_mem_system);
}

NM_TEST(without_memory_a_segment_goes_uncompressed) {
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  build_sample(NM_RESOURCE_COMPRESS_WHEN_SMALLER, 3000, NM_OK, true, &mem.mem);
  size_t calls = mem.calls;
  NM_CHECK(calls > 0);
  for (size_t i = 1; i <= calls; i++) {
    nm_test_mem_init(&mem);
    mem.fail_at = i;
    build_sample(NM_RESOURCE_COMPRESS_WHEN_SMALLER, 3000, NM_OK, false,
                 &mem.mem);
    NM_CHECK_INT(mem.live, 0);
  }
}

NM_TEST(building_without_compression_allocates_nothing) {
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  build_sample(NM_RESOURCE_COMPRESS_OFF, 3000, NM_OK, false, &mem.mem);
  NM_CHECK_INT(mem.calls, 0);
}
