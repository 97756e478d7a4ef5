/* What a driver that keeps the tables on disk is given of them: what changed,
 * once; what was removed; a place a step.
 */
#include "engine_net.h"
#include "support.h"

#include "stack/kept.h"
#include "stack/send.h"

#include <string.h>

/* 72 minutes and more. */
#define LATER_US (2ull << 32)

typedef struct taken {
  uint32_t records;
  uint32_t keys;
  nm_destination_hash last;
} taken;

static void take_path(void *user, nm_path_record *record) {
  taken *t = user;
  t->records++;
  t->last = record->destination;
  nm_path_record_dispose(record);
}

static void take_known(void *user, nm_known_record *record) {
  ((taken *)user)->records++;
  nm_known_record_dispose(record);
}

static void take_hash(void *user, const nm_packet_hash *hash) {
  (void)hash;
  ((taken *)user)->records++;
}

static void take_key(void *user, nm_span key) {
  taken *t = user;
  t->keys++;
  NM_CHECK_INT(key.len, NM_ADDRESS_SIZE);
  memcpy(t->last.b, key.ptr, NM_ADDRESS_SIZE);
}

/* One whole walk. */
static taken paths_of(nm_engine *engine, bool all) {
  taken t = {0};
  uint64_t cursor = 0;
  do {
    uint32_t before = t.records;
    cursor = nm_engine_path_kept(engine, cursor, all, take_path, &t);
    NM_CHECK(t.records - before <= 32); /* those of one place */
  } while (cursor != 0);
  return t;
}

static taken known_of(nm_engine *engine) {
  taken t = {0};
  uint64_t cursor = 0;
  do {
    cursor = nm_engine_known_kept(engine, cursor, false, take_known, &t);
  } while (cursor != 0);
  return t;
}

static taken hashes_of(nm_engine *engine, bool all) {
  taken t = {0};
  uint64_t cursor = 0;
  do {
    uint32_t before = t.records;
    cursor = nm_engine_filter_kept(engine, cursor, all, take_hash, &t);
    NM_CHECK(t.records - before <= 256);
  } while (cursor != 0);
  return t;
}

static nm_destination_hash numbered(uint32_t number) {
  uint8_t digest[NM_HASH_SIZE];
  nm_destination_hash hash;
  nm_sha256(digest, nm_span_of(&number, sizeof(number)));
  memcpy(hash.b, digest, sizeof(hash.b));
  return hash;
}

static void put_path(net *n, uint32_t number, uint8_t hops) {
  nm_path_record record = {.destination = numbered(number),
                           .hops = hops,
                           .iface = n->wires[0].ends[0].iface,
                           .updated_mono_us = n->now.mono_us,
                           .expires_mono_us = n->now.mono_us + LATER_US * 100};
  NM_CHECK_OK(nm_engine_path_put(n->engines[0], &record));
}

static net *begin(void) {
  net *n = nm_test_scratch(sizeof(*n));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  nm_engine_keep(n->engines[0]);
  return n;
}

NM_TEST(a_change_is_given_once_and_a_removal_by_its_key) {
  enum { PATHS = 1000 };
  net *n = begin();
  nm_engine *engine = n->engines[0];
  for (uint32_t i = 0; i < PATHS; i++) {
    put_path(n, i, 3);
  }
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), PATHS);
  NM_CHECK_INT(paths_of(engine, false).records, PATHS);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 0);
  NM_CHECK_INT(paths_of(engine, false).records, 0);
  put_path(n, 7, 4);
  put_path(n, 7, 5);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 1);
  nm_destination_hash gone = numbered(8);
  NM_CHECK_OK(nm_engine_drop_path(engine, &gone, n->now));
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 2);
  taken t = {0};
  NM_CHECK_INT(nm_engine_kept_removed(engine, NM_KEPT_PATHS, 10, take_key, &t),
               1);
  NM_CHECK_BYTES(t.last.b, gone.b, NM_ADDRESS_SIZE);
  t = paths_of(engine, false);
  NM_CHECK_INT(t.records, 1);
  NM_CHECK_BYTES(t.last.b, numbered(7).b, NM_ADDRESS_SIZE);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 0);
  /* A walk over all gives all, and nothing is new after it. */
  put_path(n, 9, 4);
  NM_CHECK_INT(paths_of(engine, true).records, PATHS - 1);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 0);
  /* What comes from the driver's copy is not given back to it. */
  nm_engine_kept_loading(engine, true);
  put_path(n, PATHS, 4);
  nm_engine_kept_loading(engine, false);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 0);
  /* One that goes before it was taken is no change any more. */
  put_path(n, 10, 4);
  gone = numbered(10);
  NM_CHECK_OK(nm_engine_drop_path(engine, &gone, n->now));
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 1); /* its key */
  net_dispose(n);
}

NM_TEST(use_alone_is_a_change_every_72_minutes) {
  net *n = begin();
  nm_engine *engine = n->engines[0];
  nm_destination_hash hash;
  NM_CHECK_OK(net_listen(n, 1, 7, "test.sink", NULL, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 1);
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_KNOWN), 1);
  nm_identity identity;
  for (int round = 0; round < 2; round++) {
    uint64_t marked = 0;
    (void)paths_of(engine, false);
    (void)known_of(engine);
    /* Both clocks stand right behind a multiple of 2^32 us. */
    n->now.mono_us = ((n->now.mono_us >> 32) + 1) << 32;
    n->now.unix_us = (int64_t)((((uint64_t)n->now.unix_us >> 32) + 1) << 32);
    for (int i = 0; i < 1000; i++) {
      nm_op_id op;
      nm_send_spec spec;
      nm_send_spec_default(&spec);
      spec.destination = hash;
      spec.payload = nm_span_of("x", 1);
      n->now.mono_us += 1000;
      n->now.unix_us += 1000;
      NM_CHECK(nm_engine_recall(engine, &hash, &identity, NULL, NULL, n->now));
      NM_CHECK_OK(nm_engine_send(engine, &spec, &op, n->now));
      net_settle(n);
      marked += paths_of(engine, false).records;
      marked += known_of(engine).records;
      net_forget(n);
    }
    NM_CHECK_INT(marked, 2);
  }
  net_dispose(n);
}

NM_TEST(too_many_removals_are_told_as_such) {
  net *n = begin();
  nm_engine *engine = n->engines[0];
  for (uint32_t i = 0; i <= NM_KEPT_REMOVED_MAX; i++) {
    nm_destination_hash hash = numbered(i);
    NM_CHECK(!nm_engine_kept_is_lost(engine, NM_KEPT_PATHS));
    put_path(n, i, 3);
    NM_CHECK_OK(nm_engine_drop_path(engine, &hash, n->now));
    net_forget(n);
    nm_event event;
    while (nm_engine_event(engine, &event)) {
      nm_event_dispose(&event);
    }
  }
  NM_CHECK(nm_engine_kept_is_lost(engine, NM_KEPT_PATHS));
  NM_CHECK(!nm_engine_kept_is_lost(engine, NM_KEPT_KNOWN));
  NM_CHECK(nm_engine_kept_changes(engine, NM_KEPT_PATHS) > 0);
  nm_engine_kept_restart(engine, NM_KEPT_PATHS);
  NM_CHECK(!nm_engine_kept_is_lost(engine, NM_KEPT_PATHS));
  NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_PATHS), 0);
  net_dispose(n);
}

NM_TEST(hashes_of_the_filter_are_given_once_through_growth) {
  net *n = begin();
  nm_engine *engine = n->engines[0];
  nm_packet_hash hash;
  uint32_t given = 0;
  enum { HASHES = 20000 };
  for (uint32_t i = 0; i < HASHES; i++) {
    nm_sha256(hash.b, nm_span_of(&i, sizeof(i)));
    nm_engine_filter_put(engine, &hash);
    if (i % 1777 == 0) {
      given += hashes_of(engine, false).records;
      NM_CHECK_INT(nm_engine_kept_changes(engine, NM_KEPT_FILTER), 0);
    }
    NM_CHECK(nm_engine_filter_has(engine, &hash));
  }
  given += hashes_of(engine, false).records;
  NM_CHECK_INT(given, HASHES);
  NM_CHECK_INT(hashes_of(engine, true).records, HASHES);
  /* One that was taken and is dropped must not come back. */
  NM_CHECK(!nm_engine_kept_is_lost(engine, NM_KEPT_FILTER));
  nm_engine_filter_drop(engine, &hash);
  NM_CHECK(nm_engine_kept_is_lost(engine, NM_KEPT_FILTER));
  NM_CHECK_INT(hashes_of(engine, true).records, HASHES - 1);
  net_dispose(n);
}
