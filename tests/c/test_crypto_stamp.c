#include "support.h"

#include "crypto/stamp.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static void check_workblock_vector(const nm_vector *v) {
  nm_span material = nm_vector_bytes(v, "input.material");
  uint32_t rounds = (uint32_t)nm_vector_u64(v, "input.rounds");
  size_t size = (size_t)rounds * NM_WORKBLOCK_ROUND;
  uint8_t *out = nm_test_scratch(size);
  uint8_t digest[32];
  uint8_t resumed[32];
  NM_CHECK_INT(size, nm_vector_u64(v, "output.length"));
  nm_workblock_build(out, material, rounds);
  nm_sha256(digest, nm_span_of(out, size));
  NM_CHECK_SPAN(nm_span_of(digest, 32), nm_vector_bytes(v, "output.sha256"));
  NM_CHECK_SPAN(nm_span_of(out, 64), nm_vector_bytes(v, "output.first_64"));
  NM_CHECK_SPAN(nm_span_of(out + size - 64, 64),
                nm_vector_bytes(v, "output.last_64"));
  nm_sha256_midstate mid;
  nm_workblock_midstate(&mid, material, rounds);
  NM_CHECK_INT(mid.bytes, size);
  nm_stamp_digest(resumed, &mid, nm_span_of(NULL, 0));
  NM_CHECK_BYTES(resumed, digest, 32);
}

NM_TEST(work_blocks_match_the_vectors) {
  nm_vectors_each(NULL, "workblock", 12, check_workblock_vector);
}

/* One round by the definition: HKDF(256, material, H(material | int)). */
static void round_by_definition(uint8_t out[256], nm_span material,
                                nm_span number) {
  uint8_t salt[32];
  nm_span parts[2] = {material, number};
  nm_sha256v(salt, parts, 2);
  NM_CHECK_OK(
      nm_hkdf(out, 256, material, nm_span_of(salt, 32), nm_span_of(NULL, 0)));
}

NM_TEST(every_backend_builds_the_block_of_the_definition) {
  static const struct {
    uint32_t n;
    const char *packed;
  } rows[] = {
      {0, "00"},       {127, "7f"},       {128, "cc80"},        {255, "ccff"},
      {256, "cd0100"}, {65535, "cdffff"}, {65536, "ce00010000"}};
  uint8_t material[200];
  uint8_t out[20 * 256];
  uint8_t expected[256];
  nm_test_random_bytes(material, sizeof material);
  const nm_sha256_lanes *l;
  for (size_t b = 0; (l = nm_sha256_lanes_at(NULL, b)) != NULL; b++) {
    for (size_t len = 0; len <= sizeof material; len++) {
      size_t i = len % (sizeof rows / sizeof rows[0]);
      nm_span m = nm_span_of(material, len);
      /* The round in question is the tenth, or the first, of what is built. */
      uint32_t first = rows[i].n < 10 ? 0 : rows[i].n - 10;
      nm_test_context("%s, material %zu, round %u", l->name, len, rows[i].n);
      nm_workblock_part_with(l, out, m, first, 20);
      round_by_definition(expected, m, nm_test_unhex(rows[i].packed));
      NM_CHECK_BYTES(out + (size_t)(rows[i].n - first) * 256, expected, 256);
    }
  }
}

NM_TEST(a_block_in_parts_is_the_whole_block) {
  static uint8_t whole[300 * 256];
  static uint8_t parts[300 * 256];
  nm_span material = nm_span_of("thirty-two bytes of any material", 32);
  nm_workblock_build(whole, material, 300);
  for (uint32_t at = 0; at < 300;) {
    uint32_t n = nm_test_below(40);
    n = n < 300 - at ? n : 300 - at;
    nm_workblock_part(parts + (size_t)at * 256, material, at, n);
    at += n;
  }
  NM_CHECK_BYTES(parts, whole, sizeof whole);
}

NM_TEST(no_rounds_make_an_empty_block) {
  nm_sha256_midstate mid;
  uint8_t digest[32];
  uint8_t expected[32];
  nm_workblock_midstate(&mid, nm_span_of("m", 1), 0);
  nm_stamp_digest(digest, &mid, nm_span_of("stamp", 5));
  nm_sha256(expected, nm_span_of("stamp", 5));
  NM_CHECK_BYTES(digest, expected, 32);
}

static void check_validity_vector(const nm_vector *v) {
  nm_sha256_midstate mid;
  uint8_t digest[32];
  uint32_t cost = (uint32_t)nm_vector_u64(v, "input.cost");
  nm_span stamp = nm_vector_bytes(v, "input.stamp");
  nm_workblock_midstate(&mid, nm_vector_bytes(v, "input.material"),
                        (uint32_t)nm_vector_u64(v, "input.rounds"));
  nm_stamp_digest(digest, &mid, stamp);
  NM_CHECK_SPAN(nm_span_of(digest, 32), nm_vector_bytes(v, "output.hash"));
  NM_CHECK_INT(nm_stamp_value(&mid, stamp), nm_vector_u64(v, "output.value"));
  NM_CHECK_INT(nm_stamp_valid(&mid, stamp, cost),
               nm_vector_bool(v, "output.valid"));
}

NM_TEST(stamp_validity_matches_the_vectors) {
  nm_vectors_each(NULL, "stamp_validity", 20, check_validity_vector);
}

NM_TEST(the_bound_of_validity_is_inclusive) {
  uint8_t digest[32];
  for (uint32_t cost = 1; cost <= 256; cost++) {
    uint32_t bit = 256 - cost; /* of 2^(256 - cost), from the low end */
    nm_test_context("cost %u", cost);
    memset(digest, 0, sizeof digest);
    NM_CHECK(nm_stamp_digest_meets(digest, cost));
    digest[31 - bit / 8] = (uint8_t)(1u << (bit % 8));
    NM_CHECK_INT(nm_stamp_digest_value(digest), cost - 1);
    NM_CHECK(nm_stamp_digest_meets(digest, cost));
    NM_CHECK(nm_stamp_digest_meets(digest, cost - 1));
    NM_CHECK(!nm_stamp_digest_meets(digest, cost + 1));
    /* One more than the bound, in the lowest bit that is free. */
    if (bit > 0) {
      digest[31] |= 1;
      NM_CHECK(!nm_stamp_digest_meets(digest, cost));
      digest[31] ^= 1;
      digest[31 - (bit - 1) / 8] |= (uint8_t)(1u << ((bit - 1) % 8));
      NM_CHECK(!nm_stamp_digest_meets(digest, cost));
    }
  }
  memset(digest, 0xff, sizeof digest);
  NM_CHECK(nm_stamp_digest_meets(digest, 0));
  NM_CHECK(!nm_stamp_digest_meets(digest, 1));
  memset(digest, 0, sizeof digest);
  NM_CHECK_INT(nm_stamp_digest_value(digest), 256);
  NM_CHECK(!nm_stamp_digest_meets(digest, 257));
}

static nm_stamp_search_args search_of(const nm_sha256_midstate *mid,
                                      uint32_t cost) {
  nm_stamp_search_args args;
  memset(&args, 0, sizeof args);
  args.mid = mid;
  args.cost = cost;
  args.tries_max = 1 << 20;
  nm_test_random_bytes(args.prefix, sizeof args.prefix);
  return args;
}

static nm_sha256_midstate some_midstate(void) {
  nm_sha256_midstate mid;
  nm_workblock_midstate(&mid, nm_span_of("material", 8), 2);
  return mid;
}

NM_TEST(every_backend_finds_the_first_stamp_of_a_range) {
  nm_sha256_midstate mid = some_midstate();
  nm_stamp_search_args reference = search_of(&mid, 0);
  const nm_sha256_lanes *l;
  for (uint32_t cost = 0; cost <= 14; cost++) {
    reference.cost = cost;
    reference.counter = 0;
    reference.lanes = nm_sha256_lanes_named("portable");
    NM_CHECK_INT(nm_stamp_search(&reference), 1);
    NM_CHECK(nm_stamp_valid(&mid, nm_span_of(reference.stamp, 32), cost));
    NM_CHECK_BYTES(reference.stamp, reference.prefix, 24);
    for (size_t b = 0; (l = nm_sha256_lanes_at(NULL, b)) != NULL; b++) {
      nm_stamp_search_args args = reference;
      args.counter = 0;
      args.lanes = l;
      nm_test_context("%s, cost %u", l->name, cost);
      NM_CHECK_INT(nm_stamp_search(&args), 1);
      NM_CHECK_BYTES(args.stamp, reference.stamp, 32);
      NM_CHECK_INT(args.counter, reference.counter);
    }
  }
}

NM_TEST(a_search_goes_on_where_it_stopped) {
  nm_sha256_midstate mid = some_midstate();
  nm_stamp_search_args whole = search_of(&mid, 16);
  atomic_uint_fast64_t tries = 0;
  NM_CHECK_INT(nm_stamp_search(&whole), 1);
  nm_stamp_search_args sliced = whole;
  sliced.counter = 0;
  sliced.tries_max = 1000;
  sliced.tries = &tries;
  int found;
  while ((found = nm_stamp_search(&sliced)) == 0) {
    NM_CHECK_INT(sliced.counter % 1000, 0);
    NM_CHECK_INT(tries, sliced.counter);
  }
  NM_CHECK_INT(found, 1);
  NM_CHECK_BYTES(sliced.stamp, whole.stamp, 32);
  NM_CHECK_INT(sliced.counter, whole.counter);
  NM_CHECK_INT(tries, whole.counter);
}

NM_TEST(a_search_crosses_from_one_counter_word_to_the_next) {
  nm_sha256_midstate mid = some_midstate();
  nm_stamp_search_args args = search_of(&mid, 40);
  args.counter = (uint64_t)UINT32_MAX - 500;
  args.tries_max = 1000;
  NM_CHECK_INT(nm_stamp_search(&args), 0);
  NM_CHECK(args.counter == (uint64_t)UINT32_MAX + 500);
  /* A stamp right after the edge is found with the right counter. */
  args.cost = 0;
  args.counter = (uint64_t)UINT32_MAX + 1;
  NM_CHECK_INT(nm_stamp_search(&args), 1);
  NM_CHECK_HEX(nm_span_of(args.stamp + 24, 8), "0000000100000000");
}

NM_TEST(costs_beyond_one_word_are_judged_by_the_whole_digest) {
  /* No search reaches them, so the candidates that the first word admits are
   * made here: the limit of the first word is 0 from cost 33 on. */
  nm_sha256_midstate mid = some_midstate();
  nm_stamp_search_args args = search_of(&mid, NM_STAMP_COST_MAX + 1);
  NM_CHECK_STATUS(nm_stamp_search(&args), NM_E(RANGE));
  static const uint32_t costs[] = {32, 33, 64, 256};
  for (size_t i = 0; i < 4; i++) {
    args.cost = costs[i];
    args.tries_max = 100000;
    NM_CHECK_INT(nm_stamp_search(&args), 0);
  }
  args.tries_max = 0;
  args.cost = 0;
  NM_CHECK_INT(nm_stamp_search(&args), 0);
}

typedef struct worker {
  nm_stamp_search_args args;
  int result;
} worker;

static void *work(void *user) {
  worker *w = user;
  w->result = nm_stamp_search(&w->args);
  return NULL;
}

static uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

NM_TEST(a_search_on_threads_is_cancelled_at_once) {
  nm_sha256_midstate mid = some_midstate();
  atomic_bool cancel = false;
  atomic_uint_fast64_t tries = 0;
  worker workers[2];
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) {
    workers[i].args = search_of(&mid, 200);
    workers[i].args.tries_max = UINT64_MAX;
    workers[i].args.cancel = &cancel;
    workers[i].args.tries = &tries;
    NM_CHECK_INT(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  uint64_t start = now_us();
  while (tries < 200000 && now_us() - start < 20000000) {
    /* progress shows while the search runs */
  }
  bool progress = tries >= 200000;
  atomic_store(&cancel, true);
  for (size_t i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
  }
  NM_CHECK(progress);
  for (size_t i = 0; i < 2; i++) {
    NM_CHECK_STATUS(workers[i].result, NM_E(CANCELLED));
  }
  NM_CHECK_INT(workers[0].args.counter + workers[1].args.counter, tries);
}

NM_TEST(a_cancelled_search_does_not_start) {
  nm_sha256_midstate mid = some_midstate();
  nm_stamp_search_args args = search_of(&mid, 0);
  atomic_bool cancel = true;
  args.cancel = &cancel;
  NM_CHECK_STATUS(nm_stamp_search(&args), NM_E(CANCELLED));
  NM_CHECK_INT(args.counter, 0);
}
