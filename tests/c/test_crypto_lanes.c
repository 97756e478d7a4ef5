#define OPENSSL_SUPPRESS_DEPRECATED
#include "support.h"

#include "crypto/sha256_lanes.h"

#include <openssl/sha.h>
#include <string.h>

#define BATCH_MAX 40
#define LENGTH_MAX 300

static uint8_t data[BATCH_MAX][LENGTH_MAX];

/* Calls |check| with each backend this CPU can run. */
static void each_backend(void (*check)(const nm_sha256_lanes *l)) {
  const nm_sha256_lanes *l;
  size_t n = 0;
  nm_test_random_bytes(data, sizeof data);
  for (; (l = nm_sha256_lanes_at(NULL, n)) != NULL; n++) {
    nm_test_context("%s", l->name);
    check(l);
  }
  NM_CHECK(n >= 2);
}

static void check_digests(uint8_t (*out)[32], const nm_span *in, size_t n,
                          nm_span suffix) {
  uint8_t joined[LENGTH_MAX + NM_SHA256_SUFFIX_MAX];
  for (size_t i = 0; i < n; i++) {
    uint8_t expected[32];
    if (in[i].len > 0) {
      memcpy(joined, in[i].ptr, in[i].len);
    }
    if (suffix.len > 0) {
      memcpy(joined + in[i].len, suffix.ptr, suffix.len);
    }
    SHA256(joined, in[i].len + suffix.len, expected);
    NM_CHECK_BYTES(out[i], expected, 32);
  }
}

static void check_random_batches(const nm_sha256_lanes *l) {
  uint8_t out[BATCH_MAX][32];
  nm_span in[BATCH_MAX];
  for (int round = 0; round < 400; round++) {
    size_t n = 1 + nm_test_below(BATCH_MAX);
    bool equal = nm_test_below(2) == 0;
    size_t common = nm_test_below(LENGTH_MAX + 1);
    nm_span suffix = {data[0], nm_test_below(NM_SHA256_SUFFIX_MAX + 1)};
    for (size_t i = 0; i < n; i++) {
      size_t len = equal ? common : nm_test_below(LENGTH_MAX + 1);
      in[i] = nm_span_of(data[i], len);
    }
    memset(out, 0xee, sizeof out);
    NM_CHECK_OK(nm_sha256_many_with(l, out, in, n, suffix));
    check_digests(out, in, n, suffix);
    for (size_t i = n; i < BATCH_MAX; i++) {
      NM_CHECK_INT(out[i][0], 0xee);
    }
  }
}

NM_TEST(every_backend_matches_the_library_for_any_batch) {
  each_backend(check_random_batches);
}

static void check_every_length(const nm_sha256_lanes *l) {
  uint8_t out[BATCH_MAX][32];
  nm_span in[BATCH_MAX];
  nm_span none = nm_span_of(NULL, 0);
  for (size_t len = 0; len <= LENGTH_MAX; len++) {
    for (size_t i = 0; i < l->lanes; i++) {
      in[i] = len > 0 ? nm_span_of(data[i], len) : none;
    }
    NM_CHECK_OK(nm_sha256_many_with(l, out, in, l->lanes, none));
    check_digests(out, in, l->lanes, none);
  }
}

NM_TEST(every_backend_matches_the_library_at_every_length) {
  each_backend(check_every_length);
}

static void check_nothing(const nm_sha256_lanes *l) {
  uint8_t out[1][32] = {{7}};
  NM_CHECK_OK(nm_sha256_many_with(l, out, NULL, 0, nm_span_of(NULL, 0)));
  NM_CHECK_INT(out[0][0], 7);
}

NM_TEST(an_empty_batch_is_no_work) {
  each_backend(check_nothing);
}

/* The word form against the library's one-block transform. */
static void check_words(const nm_sha256_lanes *l) {
  _Alignas(64) uint32_t h[8 * NM_SHA256_LANES_MAX];
  _Alignas(64) uint32_t w[16 * NM_SHA256_LANES_MAX];
  uint32_t before[8 * NM_SHA256_LANES_MAX];
  uint8_t blocks[NM_SHA256_LANES_MAX][64];
  for (int round = 0; round < 50; round++) {
    nm_test_random_bytes(h, sizeof h);
    memcpy(before, h, sizeof before);
    nm_test_random_bytes(blocks, sizeof blocks);
    for (size_t i = 0; i < l->lanes; i++) {
      for (size_t k = 0; k < 16; k++) {
        const uint8_t *b = blocks[i] + 4 * k;
        w[k * l->lanes + i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 |
                              (uint32_t)b[2] << 8 | b[3];
      }
    }
    l->words(h, w);
    for (size_t i = 0; i < l->lanes; i++) {
      SHA256_CTX ctx;
      SHA256_Init(&ctx);
      for (size_t k = 0; k < 8; k++) {
        ctx.h[k] = before[k * l->lanes + i];
      }
      SHA256_Transform(&ctx, blocks[i]);
      for (size_t k = 0; k < 8; k++) {
        NM_CHECK_INT(h[k * l->lanes + i], ctx.h[k]);
      }
    }
  }
}

NM_TEST(every_backends_word_form_matches_the_library) {
  each_backend(check_words);
}

static nm_sha256_scan random_scan(uint32_t limit) {
  nm_sha256_scan scan;
  nm_test_random_bytes(&scan, sizeof scan);
  scan.limit = limit;
  return scan;
}

/* Where a scan must stop, by the library's transform. */
static uint32_t expected_hit(const nm_sha256_scan *scan, uint32_t first,
                             uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint8_t block[64];
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    memcpy(ctx.h, scan->h, sizeof scan->h);
    for (size_t k = 0; k < 64; k++) {
      uint32_t word = k / 4 == 7 ? first + i : scan->words[k / 4];
      block[k] = (uint8_t)(word >> (24 - 8 * (k % 4)));
    }
    SHA256_Transform(&ctx, block);
    if (ctx.h[0] <= scan->limit) {
      return i;
    }
  }
  return count;
}

static void check_scan(const nm_sha256_lanes *l) {
  for (int round = 0; round < 300; round++) {
    nm_sha256_scan scan = random_scan(UINT32_MAX >> nm_test_below(12));
    uint32_t count = nm_test_below(200);
    uint32_t first = (uint32_t)nm_test_random();
    if (first > UINT32_MAX - count) {
      first = UINT32_MAX - count;
    }
    NM_CHECK_INT(l->scan(&scan, first, count),
                 expected_hit(&scan, first, count));
  }
  /* Up to the very last value, with a limit that nothing or all meets. */
  for (uint32_t count = 0; count < 40; count++) {
    nm_sha256_scan scan = random_scan(0);
    uint32_t first = UINT32_MAX - count + (count > 0 ? 1 : 0);
    NM_CHECK_INT(l->scan(&scan, first, count), count);
    scan.limit = UINT32_MAX;
    NM_CHECK_INT(l->scan(&scan, first, count), 0);
  }
}

NM_TEST(every_backends_scan_stops_at_the_first_hit) {
  each_backend(check_scan);
}

NM_TEST(backends_are_listed_by_what_the_cpu_can_do) {
  nm_cpu_features plain = {false, false, false};
  NM_CHECK(strcmp(nm_sha256_lanes_at(&plain, 0)->name, "portable") == 0);
  NM_CHECK(strcmp(nm_sha256_lanes_at(&plain, 1)->name, "openssl") == 0);
  NM_CHECK(nm_sha256_lanes_at(&plain, 2) == NULL);
  NM_CHECK(nm_sha256_lanes_named("no such") == NULL);
  size_t n = 0;
  const nm_sha256_lanes *l;
  const nm_sha256_lanes *last = NULL;
  for (; (l = nm_sha256_lanes_at(NULL, n)) != NULL; n++) {
    NM_CHECK(nm_sha256_lanes_named(l->name) == l);
    NM_CHECK(l->lanes >= 1 && l->lanes <= NM_SHA256_LANES_MAX);
    last = l;
  }
  NM_CHECK(nm_sha256_lanes_best() == last);
#if defined(__x86_64__)
  nm_cpu_features all = {true, true, true};
  NM_CHECK(strcmp(nm_sha256_lanes_at(&all, 4)->name, "avx512") == 0);
  NM_CHECK(nm_sha256_lanes_at(&all, 5) == NULL);
#endif
}

NM_TEST(the_default_batch_functions_match_the_library) {
  static uint8_t out[BATCH_MAX][32];
  nm_span in[BATCH_MAX];
  nm_span none = nm_span_of(NULL, 0);
  nm_test_random_bytes(data, sizeof data);
  for (size_t n = 0; n <= BATCH_MAX; n++) {
    for (size_t i = 0; i < n; i++) {
      in[i] = nm_span_of(data[i], nm_test_below(LENGTH_MAX + 1));
    }
    nm_sha256_many(out, in, n);
    check_digests(out, in, n, none);
    nm_span suffix = nm_span_of(data[0], 4);
    NM_CHECK_OK(nm_sha256_many_suffix(out, in, n, suffix));
    check_digests(out, in, n, suffix);
  }
}

NM_TEST(a_suffix_that_is_too_long_is_refused) {
  uint8_t out[1][32];
  nm_span in = nm_span_of(data[0], 3);
  nm_span suffix = nm_span_of(data[1], NM_SHA256_SUFFIX_MAX + 1);
  NM_CHECK_STATUS(nm_sha256_many_suffix(out, &in, 1, suffix), NM_E(ARGUMENT));
  NM_CHECK_STATUS(
      nm_sha256_many_with(nm_sha256_lanes_best(), out, &in, 1, suffix),
      NM_E(ARGUMENT));
}
