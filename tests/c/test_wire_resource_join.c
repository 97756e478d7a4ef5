/* Receiving segments, and serving them from the other side. */
#include "wire/resource_join.h"

#include "crypto/bz2.h"
#include "support.h"
#include "wire/resource_build.h"
#include "wire/resource_window.h"
#include "wire_data.h"

#include <stdio.h>
#include <string.h>

/* A sender's segment with all it needs, for the tests below. */
typedef struct sample {
  nm_cipher cipher;
  nm_token_key key;
  nm_resource_segment seg;
  nm_resource_announce what;
  nm_resource_adv adv;
} sample;

typedef struct sample_spec {
  nm_resource_plain plain;
  size_t sdu;
  nm_resource_compression mode;
} sample_spec;

static void sample_init(sample *s, const sample_spec *spec) {
  static const uint8_t secret[64] = {1, 2, 3};
  static const uint8_t iv[16] = {4};
  size_t size = nm_resource_plain_size(&spec->plain);
  size_t room = nm_resource_stream_size(size);
  size_t map_room = nm_resource_hashmap_bound(size, spec->sdu);
  NM_CHECK_OK(nm_cipher_open(&s->cipher, NULL));
  NM_CHECK_OK(nm_token_key_init(&s->key, nm_span_of(secret, 64)));
  nm_resource_build_args args = {
      .plain = spec->plain,
      .sdu = spec->sdu,
      .compression = spec->mode,
      .total_size = spec->plain.data.len,
      .key = &s->key,
      .iv = iv,
      .prefix = iv,
      .randoms = nm_span_of("abcdefgh", 8),
      .stream = {(uint8_t *)nm_test_scratch(room), room},
      .hashmap = {(uint8_t *)nm_test_scratch(map_room), map_room}};
  NM_CHECK_OK(nm_resource_build(&args, &s->cipher, &nm_mem_system, &s->seg));
  memset(&s->what, 0, sizeof s->what);
  s->what.data_size = size;
  s->what.segment = 1;
  s->what.segments = 1;
  s->what.has_metadata = spec->plain.metadata.len > 0;
  nm_resource_adv_of(&s->seg, &s->what, &s->adv);
}

static void sample_dispose(sample *s) {
  nm_cipher_close(&s->cipher);
  nm_token_key_wipe(&s->key);
}

static nm_span part_of(const sample *s, uint32_t index) {
  size_t at = (size_t)index * s->seg.sdu;
  size_t left = s->seg.stream.len - at;
  return nm_span_slice(s->seg.stream, at,
                       left < s->seg.sdu ? left : s->seg.sdu);
}

/* Gives |join| all its parts, with updates where they are needed. */
static void feed_all(const sample *s, nm_resource_join *join) {
  uint8_t out[64 + 4 * 75];
  while (!nm_resource_join_complete(join)) {
    nm_writer w = nm_writer_of(out, sizeof out);
    NM_CHECK_OK(nm_resource_join_request(join, 75, &w));
    uint32_t index;
    while (join->outstanding > 0) {
      NM_CHECK_OK(nm_resource_join_part(join, part_of(s, join->first_missing),
                                        0, &index));
    }
    if (join->waiting_for_hashmap) {
      uint64_t segment = join->height / NM_RESOURCE_HASHMAP_MAX;
      nm_resource_hmu hmu = {s->adv.hash, segment,
                             nm_resource_hmu_slice(s->seg.hashmap, segment)};
      NM_CHECK_OK(nm_resource_join_update(join, &hmu, NULL));
    }
  }
}

/* --- Transcripts of the vectors --- */

/* Finds the window for which |join| would send exactly |wire|, and lets it. */
static void check_request(nm_resource_join *join, nm_span wire) {
  uint8_t out[64 + 4 * 75];
  for (uint32_t window = 1; window <= 75; window++) {
    nm_writer w = nm_writer_of(out, sizeof out);
    NM_CHECK_OK(nm_resource_join_request(join, window, &w));
    if (nm_span_equal(nm_writer_done(&w), wire)) {
      return;
    }
  }
  nm_test_fail(__FILE__, __LINE__, "no window makes the recorded request");
}

typedef struct transcript {
  const nm_vector *v;
  const sample *s;
  nm_resource_join join;
  nm_resource_server server;
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
  uint32_t next; /* descriptor that the next recorded part must match */
  size_t parts;
} transcript;

static void play_entry(transcript *t, size_t entry) {
  char path[80];
#define ENTRY(name)                                                            \
  (snprintf(path, sizeof path, "output.transcript[%zu]." name, entry), path)
  const char *type = nm_vector_text(t->v, ENTRY("type"));
  if (strcmp(type, "request") == 0) {
    nm_span wire = nm_vector_bytes(t->v, ENTRY("plaintext"));
    check_request(&t->join, wire);
    NM_CHECK_OK(nm_resource_serve(&t->server, wire, t->tx, NM_RESOURCE_GUARD,
                                  &t->answer, NULL));
    NM_CHECK_INT(t->answer.unknown, 0);
    t->next = 0;
  } else if (strcmp(type, "part") == 0) {
    NM_CHECK(t->next < t->answer.count);
    nm_resource_tx *tx = &t->tx[t->next++];
    NM_CHECK_SPAN(nm_span_slice(t->s->seg.hashmap, 4 * (size_t)tx->index, 4),
                  nm_vector_bytes(t->v, ENTRY("map_hash")));
    uint32_t index;
    nm_span part = nm_span_of(tx->ptr, tx->len);
    NM_CHECK_OK(nm_resource_join_part(&t->join, part, 75, &index));
    NM_CHECK_INT(index, tx->index);
    t->parts++;
  } else if (strcmp(type, "hmu") == 0) {
    NM_CHECK(t->answer.send_update);
    nm_resource_hmu hmu = {
        nm_span_of(t->server.hash, 32), t->answer.update_segment,
        nm_resource_hmu_slice(t->s->seg.hashmap, t->answer.update_segment)};
    uint8_t out[400];
    nm_writer w = nm_writer_of(out, sizeof out);
    NM_CHECK_OK(nm_resource_hmu_encode(&hmu, &w));
    NM_CHECK_SPAN(nm_writer_done(&w),
                  nm_vector_bytes(t->v, ENTRY("plaintext")));
    nm_resource_hmu read;
    NM_CHECK_OK(nm_resource_hmu_decode(nm_writer_done(&w), &read, NULL));
    NM_CHECK_OK(nm_resource_join_update(&t->join, &read, NULL));
  } else {
    NM_CHECK(strcmp(type, "proof") == 0);
  }
#undef ENTRY
}

static void run_transcript(const nm_vector *v) {
  sample s;
  nm_span data = nm_wire_vector_data(v);
  nm_resource_plain plain = {.data = data};
  uint8_t block[100];
  nm_writer w = nm_writer_of(block, sizeof block);
  if (nm_vector_has(v, "input.metadata_msgpack")) {
    NM_CHECK_OK(nm_resource_metadata_encode(
        nm_vector_bytes(v, "input.metadata_msgpack"), &w));
    plain.metadata = nm_writer_done(&w);
  }
  NM_CHECK_OK(nm_cipher_open(&s.cipher, NULL));
  NM_CHECK_OK(
      nm_token_key_init(&s.key, nm_vector_bytes(v, "input.derived_key")));
  size_t room = nm_resource_stream_size(nm_resource_plain_size(&plain));
  size_t sdu = (size_t)nm_vector_u64(v, "input.sdu");
  size_t map_room =
      nm_resource_hashmap_bound(nm_resource_plain_size(&plain), sdu);
  nm_resource_build_args args = {
      .plain = plain,
      .sdu = sdu,
      .compression = nm_vector_bool(v, "input.auto_compress")
                         ? NM_RESOURCE_COMPRESS_WHEN_SMALLER
                         : NM_RESOURCE_COMPRESS_OFF,
      .key = &s.key,
      .iv = nm_vector_bytes(v, "input.stream_iv").ptr,
      .prefix = nm_vector_bytes(v, "input.random_prefix").ptr,
      .randoms = nm_vector_bytes(v, "input.random_hash"),
      .stream = {(uint8_t *)nm_test_scratch(room), room},
      .hashmap = {(uint8_t *)nm_test_scratch(map_room), map_room}};
  NM_CHECK_OK(nm_resource_build(&args, &s.cipher, &nm_mem_system, &s.seg));

  transcript t = {.v = v, .s = &s};
  nm_resource_adv adv;
  NM_CHECK_OK(nm_resource_adv_decode(
      nm_vector_bytes(v, "output.advertisement_plaintext"), &adv, NULL));
  NM_CHECK_OK(nm_resource_join_init(&t.join, &adv, sdu, &nm_mem_system, NULL));
  size_t sent_room = nm_resource_sent_size(s.seg.parts);
  NM_CHECK_OK(nm_resource_server_init(
      &t.server, s.seg.stream, s.seg.hashmap, sdu, s.seg.hash,
      (nm_mspan){(uint8_t *)nm_test_scratch(sent_room), sent_room}));
  size_t entries = nm_wire_vector_count(v, "output.transcript");
  for (size_t i = 0; i < entries; i++) {
    play_entry(&t, i);
  }
  NM_CHECK(nm_resource_join_complete(&t.join));
  NM_CHECK(t.answer.all_sent);
  NM_CHECK_INT(t.parts, s.seg.parts);

  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_resource_result result;
  NM_CHECK_OK(nm_resource_join_assemble(&t.join, &s.cipher, &s.key, 0, &out,
                                        &result, NULL));
  NM_CHECK_SPAN(result.data, data);
  NM_CHECK_SPAN(nm_span_of(result.proof, 32),
                nm_vector_bytes(v, "output.expected_proof"));
  if (plain.metadata.len > 0) {
    NM_CHECK_SPAN(result.metadata,
                  nm_vector_bytes(v, "input.metadata_msgpack"));
  } else {
    NM_CHECK(result.metadata.ptr == NULL);
  }
  nm_resource_join_dispose(&t.join);
  nm_buffer_dispose(&out);
  sample_dispose(&s);
}

NM_TEST(recorded_transfers_are_repeated_packet_by_packet) {
  nm_vectors_each(NULL, "resource", 6, run_transcript);
}

/* --- Part search --- */

static void run_search_vector(const nm_vector *v) {
  nm_span stream = nm_wire_vector_data(v);
  nm_span random = nm_vector_bytes(v, "input.random_hash");
  size_t sdu = nm_resource_sdu((size_t)nm_vector_u64(v, "input.link_mtu"));
  uint64_t parts = nm_vector_u64(v, "output.total_parts");
  size_t window = (size_t)nm_vector_u64(v, "input.window");
  /* The vector does not say what the stream is: any stream of as many parts
   * has the same outcome. */
  size_t used = (size_t)(parts - 1) * sdu + 1;
  uint8_t *padded = (uint8_t *)nm_test_scratch(used);
  memset(padded, 0, used);
  memcpy(padded, stream.ptr, stream.len < used ? stream.len : used);
  uint8_t map[4 * 20];
  nm_span all = nm_span_of(padded, used);
  nm_resource_map_hashes(all, sdu, random.ptr, map);
  static const uint8_t hash[32] = {5};
  nm_resource_adv adv = {.transfer_size = used,
                         .data_size = used,
                         .parts = parts,
                         .hash = nm_span_of(hash, 32),
                         .random = random,
                         .original = nm_span_of(hash, 32),
                         .segment = 1,
                         .segments = 1,
                         .flags = NM_RESOURCE_ENCRYPTED,
                         .hashmap = nm_span_of(map, 4 * (size_t)parts)};
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &adv, sdu, &nm_mem_system, NULL));
  size_t arrivals = nm_wire_vector_count(v, "input.arrival_order");
  for (size_t i = 0; i < arrivals; i++) {
    char path[60];
    (void)snprintf(path, sizeof path, "input.arrival_order[%zu]", i);
    size_t which = (size_t)nm_vector_u64(v, path);
    size_t at = which * sdu;
    uint32_t index;
    int status = nm_resource_join_part(
        &join, nm_span_slice(all, at, used - at < sdu ? used - at : sdu),
        window, &index);
    (void)snprintf(path, sizeof path, "output.stored[%zu]", i);
    NM_CHECK_STATUS(status, nm_vector_bool(v, path) ? NM_OK : NM_E(MISMATCH));
  }
  NM_CHECK_INT((int)join.first_missing - 1,
               (int)nm_vector_number(v, "output.consecutive_completed"));
  nm_resource_join_dispose(&join);
}

NM_TEST(parts_are_found_as_in_the_vectors) {
  nm_vectors_each(NULL, "resource_part_search", 2, run_search_vector);
}

NM_TEST(parts_in_any_order_arrive_when_all_known_hashes_are_searched) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("order", 9000)},
                      .sdu = 200};
  sample_init(&s, &spec);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 200, &nm_mem_system, NULL));
  NM_CHECK_INT(join.parts, s.seg.parts);
  for (uint32_t i = join.parts; i-- > 0;) {
    uint32_t index;
    NM_CHECK_OK(nm_resource_join_part(&join, part_of(&s, i), 0, &index));
    NM_CHECK_INT(index, i);
    NM_CHECK(nm_resource_join_has(&join, i));
    NM_CHECK_INT(join.first_missing, i == 0 ? join.parts : 0);
    NM_CHECK_STATUS(nm_resource_join_part(&join, part_of(&s, i), 0, &index),
                    NM_E(MISMATCH));
  }
  NM_CHECK(nm_resource_join_complete(&join));
  NM_CHECK_BYTES(join.stream.ptr, s.seg.stream.ptr, s.seg.stream.len);
  uint8_t out[8];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_resource_join_request(&join, 4, &w), NM_E(STATE));
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(parts_that_match_nothing_are_ignored) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("ignore", 2000)},
                      .sdu = 464};
  sample_init(&s, &spec);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 464, &nm_mem_system, NULL));
  uint8_t part[464];
  memcpy(part, part_of(&s, 1).ptr, 464);
  uint32_t index;
  for (size_t bit = 0; bit < 8 * 464; bit += 61) {
    part[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_STATUS(
        nm_resource_join_part(&join, nm_span_of(part, 464), 0, &index),
        NM_E(MISMATCH));
    part[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  for (size_t len = 0; len < 464; len++) {
    NM_CHECK_STATUS(
        nm_resource_join_part(&join, nm_span_of(part, len), 0, &index),
        NM_E(MISMATCH));
  }
  NM_CHECK_INT(join.received, 0);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(a_part_of_another_length_is_not_stored_even_if_its_hash_matches) {
  /* A sender may advertise the map hash of anything. */
  static const uint8_t hash[32] = {5};
  static const uint8_t random[4] = {1};
  uint8_t map[8];
  nm_resource_map_hash(nm_span_of(hash, 9), random, map);
  nm_resource_map_hash(nm_span_of(hash, 30), random, map + 4);
  nm_resource_adv adv = {.transfer_size = 20,
                         .parts = 2,
                         .hash = nm_span_of(hash, 32),
                         .random = nm_span_of(random, 4),
                         .original = nm_span_of(hash, 32),
                         .segment = 1,
                         .segments = 1,
                         .flags = NM_RESOURCE_ENCRYPTED,
                         .hashmap = nm_span_of(map, 8)};
  nm_resource_join join;
  uint32_t index;
  NM_CHECK_OK(nm_resource_join_init(&join, &adv, 10, &nm_mem_system, NULL));
  NM_CHECK_STATUS(nm_resource_join_part(&join, nm_span_of(hash, 9), 0, &index),
                  NM_E(LENGTH));
  NM_CHECK_STATUS(nm_resource_join_part(&join, nm_span_of(hash, 30), 0, &index),
                  NM_E(LENGTH));
  NM_CHECK_INT(join.received, 0);
  nm_resource_join_dispose(&join);
}

/* --- Requests and updates --- */

NM_TEST(a_request_lists_what_is_missing_in_the_window) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("window", 4000)},
                      .sdu = 200};
  sample_init(&s, &spec);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 200, &nm_mem_system, NULL));
  uint32_t index;
  NM_CHECK_OK(nm_resource_join_part(&join, part_of(&s, 0), 0, &index));
  NM_CHECK_OK(nm_resource_join_part(&join, part_of(&s, 2), 0, &index));
  uint8_t out[64];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_resource_join_request(&join, 0, &w), NM_E(ARGUMENT));
  NM_CHECK_OK(nm_resource_join_request(&join, 4, &w));
  NM_CHECK_INT(join.outstanding, 3);
  nm_resource_request req;
  NM_CHECK_OK(nm_resource_request_decode(nm_writer_done(&w), &req, NULL));
  NM_CHECK(!req.exhausted);
  NM_CHECK_SPAN(nm_span_slice(req.wanted, 0, 4),
                nm_span_slice(s.seg.hashmap, 4, 4));
  NM_CHECK_SPAN(nm_span_slice(req.wanted, 4, 8),
                nm_span_slice(s.seg.hashmap, 12, 8));
  /* A part from behind the window is welcome but was not asked for. */
  NM_CHECK_OK(nm_resource_join_part(&join, part_of(&s, 10), 0, &index));
  NM_CHECK_INT(join.outstanding, 3);
  NM_CHECK_OK(nm_resource_join_part(&join, part_of(&s, 3), 0, &index));
  NM_CHECK_INT(join.outstanding, 2);
  nm_writer tiny = nm_writer_of(out, 40);
  NM_CHECK_STATUS(nm_resource_join_request(&join, 4, &tiny), NM_E(TOO_LARGE));
  NM_CHECK_INT(join.outstanding, 2);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(updates_must_connect_and_fit) {
  sample s;
  /* 200 parts of 8 bytes: 74, 74, 52. */
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("hmu", 1540)},
                      .sdu = 8};
  sample_init(&s, &spec);
  NM_CHECK_INT(s.seg.parts, 200);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 8, &nm_mem_system, NULL));
  NM_CHECK_INT(join.height, 74);
  nm_resource_hmu hmu = {s.adv.hash, 1,
                         nm_resource_hmu_slice(s.seg.hashmap, 1)};
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, NULL), NM_E(STATE));
  uint8_t out[400];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_join_request(&join, 75, &w));
  NM_CHECK(join.waiting_for_hashmap);
  NM_CHECK_INT(join.outstanding, 74);

  nm_fault fault = {0};
  static const uint8_t other[32] = {0};
  hmu.hash = nm_span_of(other, 32);
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(MISMATCH));
  NM_CHECK(strcmp(fault.field, "hashmap_update.hash") == 0);
  hmu.hash = s.adv.hash;
  hmu.segment = 2;
  hmu.hashmap = nm_resource_hmu_slice(s.seg.hashmap, 2);
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(MISMATCH));
  hmu.segment = 0;
  hmu.hashmap = nm_resource_hmu_slice(s.seg.hashmap, 0);
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(MISMATCH));
  hmu.segment = 3;
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(RANGE));
  hmu.segment = UINT64_MAX;
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(RANGE));
  hmu.segment = 2;
  hmu.hashmap = nm_resource_hmu_slice(s.seg.hashmap, 1);
  NM_CHECK_STATUS(nm_resource_join_update(&join, &hmu, &fault), NM_E(RANGE));
  NM_CHECK_INT(join.height, 74);
  NM_CHECK(join.waiting_for_hashmap);
  hmu.segment = 1;
  NM_CHECK_OK(nm_resource_join_update(&join, &hmu, &fault));
  NM_CHECK_INT(join.height, 148);
  NM_CHECK(!join.waiting_for_hashmap);
  feed_all(&s, &join);
  NM_CHECK_BYTES(join.hashmap.ptr, s.seg.hashmap.ptr, s.seg.hashmap.len);
  NM_CHECK_BYTES(join.stream.ptr, s.seg.stream.ptr, s.seg.stream.len);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(a_short_map_in_the_advertisement_is_completed_by_updates) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("short", 500)},
                      .sdu = 8};
  sample_init(&s, &spec);
  s.adv.hashmap.len = 4 * 10;
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 8, &nm_mem_system, NULL));
  uint8_t out[400];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_resource_join_request(&join, 75, &w));
  nm_resource_hmu hmu = {s.adv.hash, 0,
                         nm_resource_hmu_slice(s.seg.hashmap, 0)};
  NM_CHECK_OK(nm_resource_join_update(&join, &hmu, NULL));
  NM_CHECK_BYTES(join.hashmap.ptr, s.seg.hashmap.ptr, hmu.hashmap.len);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

/* --- Starting --- */

NM_TEST(joining_refuses_what_an_advertisement_may_not_say) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("start", 900)},
                      .sdu = 464};
  sample_init(&s, &spec);
  nm_resource_join join;
  nm_fault fault = {0};
  NM_CHECK_STATUS(
      nm_resource_join_init(&join, &s.adv, 0, &nm_mem_system, &fault),
      NM_E(ARGUMENT));
  nm_resource_join_dispose(&join);
  /* More map hashes than a link with larger parts has parts. */
  NM_CHECK_STATUS(
      nm_resource_join_init(&join, &s.adv, 2000, &nm_mem_system, &fault),
      NM_E(LENGTH));
  NM_CHECK(strcmp(fault.field, "advertisement.m") == 0);
  s.adv.transfer_size = 0;
  NM_CHECK_STATUS(
      nm_resource_join_init(&join, &s.adv, 464, &nm_mem_system, &fault),
      NM_E(RANGE));
  nm_resource_join_dispose(&join);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

/* --- Assembly --- */

typedef struct assembly {
  const sample *s;
  size_t limit;
  int damage; /* 0: none */
  nm_fault fault;
  nm_span expected;
} assembly;

static int assemble(const nm_mem *mem, void *user) {
  assembly *a = (assembly *)user;
  nm_cipher cipher;
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  nm_resource_join join;
  int status =
      nm_resource_join_init(&join, &a->s->adv, a->s->seg.sdu, mem, &a->fault);
  if (status == NM_OK) {
    feed_all(a->s, &join);
    if (a->damage != 0) {
      join.stream.ptr[a->damage] ^= 1;
    }
    nm_buffer out;
    nm_buffer_init(&out, mem, NULL, 0, 1);
    nm_resource_result result;
    status = nm_resource_join_assemble(&join, &cipher, &a->s->key, a->limit,
                                       &out, &result, &a->fault);
    if (status == NM_OK) {
      NM_CHECK_SPAN(result.data, a->expected);
      NM_CHECK_BYTES(result.proof, a->s->seg.expected_proof, 32);
    }
    nm_buffer_dispose(&out);
  }
  nm_resource_join_dispose(&join);
  nm_cipher_close(&cipher);
  return status;
}

NM_TEST(every_allocation_of_a_transfer_may_fail) {
  uint8_t *text = (uint8_t *)nm_test_scratch(50000);
  nm_span noise = nm_wire_rule_data("fail", 50000);
  for (size_t i = 0; i < 50000; i++) {
    text[i] = (uint8_t)('a' + noise.ptr[i] % 7);
  }
  sample s;
  sample_spec spec = {.plain = {.data = nm_span_of(text, 50000)},
                      .sdu = 100,
                      .mode = NM_RESOURCE_COMPRESS_WHEN_SMALLER};
  sample_init(&s, &spec);
  NM_CHECK(s.seg.compressed);
  assembly a = {.s = &s, .expected = nm_span_of(text, 50000)};
  NM_CHECK(nm_test_fail_each(assemble, &a) >= 2);
  sample_dispose(&s);
}

NM_TEST(incomplete_transfers_are_not_assembled) {
  sample s;
  sample_spec spec = {.plain = {.data = nm_wire_rule_data("part", 900)},
                      .sdu = 464};
  sample_init(&s, &spec);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 464, &nm_mem_system, NULL));
  nm_resource_result result;
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_STATUS(nm_resource_join_assemble(&join, &s.cipher, &s.key, 0, &out,
                                            &result, NULL),
                  NM_E(STATE));
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(each_failure_of_the_assembly_has_its_own_name) {
  uint8_t *text = (uint8_t *)nm_test_scratch(5000);
  memset(text, 't', 5000);
  sample s;
  sample_spec spec = {.plain = {.data = nm_span_of(text, 5000)},
                      .sdu = 464,
                      .mode = NM_RESOURCE_COMPRESS_WHEN_SMALLER};
  sample_init(&s, &spec);
  assembly a = {.s = &s, .expected = nm_span_of(text, 5000)};
  NM_CHECK_OK(assemble(&nm_mem_system, &a));
  a.limit = 5000;
  NM_CHECK_OK(assemble(&nm_mem_system, &a));
  a.limit = 4999;
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(LIMIT));
  NM_CHECK(strcmp(a.fault.field, "resource.data") == 0);
  a.limit = 0;
  a.damage = 20;
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(AUTH));
  NM_CHECK(strcmp(a.fault.field, "resource.stream") == 0);
  a.damage = 0;
  /* The flag is not authenticated, nor are hash and random. */
  uint64_t flags = s.adv.flags;
  s.adv.flags &= ~(uint64_t)NM_RESOURCE_COMPRESSED;
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(MISMATCH));
  NM_CHECK(strcmp(a.fault.field, "resource.hash") == 0);
  s.adv.flags = flags;
  sample_dispose(&s);

  spec.mode = NM_RESOURCE_COMPRESS_OFF;
  sample_init(&s, &spec);
  NM_CHECK_OK(assemble(&nm_mem_system, &a));
  s.adv.flags |= NM_RESOURCE_COMPRESSED;
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(COMPRESSED));
  s.adv.flags = NM_RESOURCE_ENCRYPTED;
  a.limit = 4999;
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(LIMIT));
  sample_dispose(&s);
}

NM_TEST(a_decompression_bomb_stops_at_the_limit) {
  /* 64 MiB and one byte of zeros shrink to some fifty bytes. */
  static const size_t bomb_size = ((size_t)64 << 20) + 1;
  uint8_t *zeros = (uint8_t *)nm_test_scratch(bomb_size);
  memset(zeros, 0, bomb_size);
  nm_buffer packed;
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_buffer_append(&packed, "pref", 4));
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, nm_span_of(zeros, bomb_size), 9,
                              100000, &packed));
  nm_resource_terms terms = {.compressed = true};
  nm_test_mem mem;
  nm_test_mem_init(&mem);
  nm_buffer out;
  nm_buffer_init(&out, &mem.mem, NULL, 0, 0);
  nm_resource_result result;
  nm_span opened = nm_span_of(packed.ptr, packed.len);
  NM_CHECK_STATUS(
      nm_resource_finish(opened, &terms, &mem.mem, &out, &result, NULL),
      NM_E(LIMIT));
  NM_CHECK(mem.bytes_peak < 200u << 20);
  nm_buffer_dispose(&out);
  nm_test_mem_init(&mem);
  nm_buffer_init(&out, &mem.mem, NULL, 0, 0);
  terms.limit = 10000;
  NM_CHECK_STATUS(
      nm_resource_finish(opened, &terms, &mem.mem, &out, &result, NULL),
      NM_E(LIMIT));
  NM_CHECK(mem.bytes_peak < 8u << 20);
  nm_buffer_dispose(&out);
  nm_buffer_dispose(&packed);
}

NM_TEST(streams_that_are_cut_or_damaged_are_named) {
  uint8_t text[3000];
  memset(text, 'q', sizeof text);
  nm_buffer packed;
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_buffer_append(&packed, "pref", 4));
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, nm_span_of(text, 3000), 9, 3000,
                              &packed));
  nm_resource_terms terms = {.compressed = true, .random = {1, 2, 3, 4}};
  nm_span hashed[2] = {nm_span_of(text, 3000), nm_span_of(terms.random, 4)};
  nm_sha256v(terms.hash, hashed, 2);
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_resource_result result;
  for (size_t len = 0; len <= packed.len; len++) {
    nm_test_context("length %zu of %zu", len, packed.len);
    nm_fault fault = {0};
    int status = nm_resource_finish(nm_span_of(packed.ptr, len), &terms,
                                    &nm_mem_system, &out, &result, &fault);
    NM_CHECK_STATUS(status, len < 4            ? NM_E(TRUNCATED)
                            : len < packed.len ? NM_E(COMPRESSED)
                                               : NM_OK);
    NM_CHECK(len >= 4 || strcmp(fault.field, "resource.prefix") == 0);
  }
  for (size_t bit = 8 * 4; bit < 8 * packed.len; bit++) {
    packed.ptr[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    int status = nm_resource_finish(nm_span_of(packed.ptr, packed.len), &terms,
                                    &nm_mem_system, &out, &result, NULL);
    NM_CHECK(status == NM_OK || status == NM_E(COMPRESSED) ||
             status == NM_E(MISMATCH));
    packed.ptr[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  nm_buffer_dispose(&out);
  nm_buffer_dispose(&packed);
}

NM_TEST(metadata_comes_with_the_first_segment_only) {
  uint8_t block[20];
  nm_writer w = nm_writer_of(block, sizeof block);
  NM_CHECK_OK(nm_resource_metadata_encode(nm_span_of("\x81\x01\x02", 3), &w));
  sample s;
  sample_spec spec = {
      .plain = {.metadata = nm_writer_done(&w), .data = nm_span_of("hello", 5)},
      .sdu = 464};
  sample_init(&s, &spec);
  nm_resource_join join;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 464, &nm_mem_system, NULL));
  NM_CHECK(join.has_metadata);
  feed_all(&s, &join);
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_resource_result result;
  NM_CHECK_OK(nm_resource_join_assemble(&join, &s.cipher, &s.key, 0, &out,
                                        &result, NULL));
  NM_CHECK_SPAN(result.metadata, nm_span_of("\x81\x01\x02", 3));
  NM_CHECK_SPAN(result.data, nm_span_of("hello", 5));
  NM_CHECK_INT(result.plaintext.len, 11);
  nm_resource_join_dispose(&join);

  s.adv.segment = 2;
  s.adv.segments = 2;
  NM_CHECK_OK(nm_resource_join_init(&join, &s.adv, 464, &nm_mem_system, NULL));
  NM_CHECK(!join.has_metadata);
  nm_resource_join_dispose(&join);
  sample_dispose(&s);
}

NM_TEST(a_metadata_block_longer_than_the_plaintext_is_named) {
  sample s;
  sample_spec spec = {.plain = {.metadata = nm_span_of("\0\0\x09only", 7)},
                      .sdu = 464};
  sample_init(&s, &spec);
  assembly a = {.s = &s};
  NM_CHECK_STATUS(assemble(&nm_mem_system, &a), NM_E(TRUNCATED));
  NM_CHECK(strcmp(a.fault.field, "metadata") == 0);
  sample_dispose(&s);
}
