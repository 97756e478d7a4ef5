#include "support.h"

#include "crypto/entropy.h"

#include <string.h>

/* A source that counts and that fails when told to. */
typedef struct source {
  unsigned fills;
  bool fails;
} source;

static int source_fill(void *user, void *ptr, size_t len) {
  source *s = user;
  if (s->fails) {
    return NM_E(LIBRARY);
  }
  s->fills++;
  memset(ptr, (int)s->fills, len);
  return NM_OK;
}

NM_TEST(the_systems_random_bytes_differ_from_call_to_call) {
  uint8_t a[32] = {0};
  uint8_t b[32] = {0};
  NM_CHECK_OK(nm_entropy_fill(&nm_entropy_system, a, sizeof a));
  NM_CHECK_OK(nm_entropy_fill(&nm_entropy_system, b, sizeof b));
  NM_CHECK(memcmp(a, b, sizeof a) != 0);
}

NM_TEST(a_seeded_pool_gives_one_stream_however_it_is_cut) {
  uint8_t seed[32] = {1, 2, 3};
  uint8_t whole[5000];
  uint8_t pieces[5000];
  nm_entropy_pool pool;
  nm_entropy_pool_init_seed(&pool, seed);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, whole, sizeof whole));
  nm_entropy_pool_init_seed(&pool, seed);
  for (size_t at = 0; at < sizeof pieces;) {
    size_t len = nm_test_below(100);
    len = len < sizeof pieces - at ? len : sizeof pieces - at;
    NM_CHECK_OK(nm_entropy_pool_fill(&pool, pieces + at, len));
    at += len;
  }
  NM_CHECK_BYTES(pieces, whole, sizeof whole);
  seed[31] ^= 1;
  nm_entropy_pool_init_seed(&pool, seed);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, pieces, sizeof pieces));
  NM_CHECK(memcmp(pieces, whole, 32) != 0);
  NM_CHECK_STATUS(nm_entropy_pool_reseed(&pool), NM_E(STATE));
}

/* The first output block of ChaCha20 (RFC 8439, 2.3.2 has other inputs; this is
 * the keystream of a zero key and nonce), of which the pool keeps 32 bytes as
 * its next key. */
NM_TEST(a_seeded_pool_is_chacha20) {
  uint8_t seed[32] = {0};
  uint8_t out[32];
  nm_entropy_pool pool;
  nm_entropy_pool_init_seed(&pool, seed);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, sizeof out));
  NM_CHECK_HEX(
      nm_span_of(out, 32),
      "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
}

NM_TEST(bytes_that_were_handed_out_are_gone_from_the_pool) {
  uint8_t seed[32] = {4};
  uint8_t out[64];
  nm_entropy_pool pool;
  nm_entropy_pool_init_seed(&pool, seed);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, sizeof out));
  for (size_t at = 0; at + 8 <= sizeof pool.buffer; at++) {
    NM_CHECK(memcmp(pool.buffer + at, out, 8) != 0);
    NM_CHECK(memcmp(pool.buffer + at, seed, 8) != 0);
  }
  static const nm_entropy_pool zero;
  nm_entropy_pool_wipe(&pool);
  NM_CHECK(memcmp(&pool, &zero, sizeof pool) == 0);
}

NM_TEST(a_pool_draws_a_new_key_when_it_is_due_or_asked_for) {
  source s = {0, false};
  nm_entropy e = {&s, source_fill};
  nm_entropy_pool pool;
  static uint8_t out[4096];
  NM_CHECK_OK(nm_entropy_pool_init(&pool, &e));
  NM_CHECK_INT(s.fills, 1);
  for (size_t i = 0; i < NM_ENTROPY_POOL_RESEED / sizeof out; i++) {
    NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, sizeof out));
  }
  NM_CHECK_INT(s.fills, 1);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, 1));
  NM_CHECK_INT(s.fills, 2);
  NM_CHECK_OK(nm_entropy_pool_reseed(&pool));
  NM_CHECK_INT(s.fills, 3);
}

NM_TEST(a_source_that_fails_is_reported) {
  source s = {0, true};
  nm_entropy e = {&s, source_fill};
  nm_entropy_pool pool;
  static uint8_t out[NM_ENTROPY_POOL_RESEED];
  NM_CHECK_STATUS(nm_entropy_pool_init(&pool, &e), NM_E(LIBRARY));
  s.fails = false;
  NM_CHECK_OK(nm_entropy_pool_init(&pool, &e));
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, sizeof out));
  s.fails = true;
  NM_CHECK_STATUS(nm_entropy_pool_fill(&pool, out, 1), NM_E(LIBRARY));
  s.fails = false;
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, out, 1));
}

NM_TEST(a_pool_serves_as_a_source) {
  uint8_t seed[32] = {6};
  uint8_t direct[100];
  uint8_t through[100];
  nm_entropy_pool pool;
  nm_entropy_pool_init_seed(&pool, seed);
  NM_CHECK_OK(nm_entropy_pool_fill(&pool, direct, sizeof direct));
  nm_entropy_pool_init_seed(&pool, seed);
  nm_entropy e = nm_entropy_pool_source(&pool);
  NM_CHECK_OK(nm_entropy_fill(&e, through, sizeof through));
  NM_CHECK_BYTES(through, direct, sizeof direct);
}
