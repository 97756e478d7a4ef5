/* No step of an engine is long, whatever its tables hold: what they do about a
 * hundred thousand entries they do a few at a time.
 */
#include "crypto/hash.h"
#include "engine_net.h"
#include "stack/snapshot.h"
#include "support.h"

#include <string.h>
#include <time.h>

#define PATHS 100000
/* A step may take 100 us; here ten times as much, for sanitizers. Few may take
 * more, for a host that stops this machine meanwhile. */
#define STEP_NS 1000000
#define LONG_STEPS_MOST 20
/* Entries that one step touches at most. */
#define TOUCHED_MOST 256

typedef struct steps {
  net n;
  uint64_t began_ns;
  uint32_t too_long;
  uint32_t visited;
} steps;

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin_step(steps *s) {
  s->began_ns = cpu_ns();
}

static void end_step(steps *s) {
  s->too_long += cpu_ns() - s->began_ns > STEP_NS;
}

static uint32_t path_count(const steps *s) {
  nm_engine_stats stats;
  nm_engine_stats_read(s->n.engines[0], &stats);
  return stats.paths;
}

static void put_paths(steps *s, nm_iface_id iface) {
  nm_path_record record = {.hops = 2,
                           .iface = iface,
                           .updated_mono_us = s->n.now.mono_us,
                           .updated_unix_us = s->n.now.unix_us,
                           .expires_mono_us = s->n.now.mono_us + 1000000,
                           .expires_unix_us = s->n.now.unix_us + 1000000};
  record.blobs = nm_block_copy(&nm_mem_system, nm_span_of("0123456789", 10));
  for (uint64_t i = 0; i < PATHS; i++) {
    uint8_t hash[NM_HASH_SIZE];
    nm_sha256(hash, nm_span_of(&i, sizeof(i)));
    memcpy(record.destination.b, hash, sizeof(record.destination.b));
    begin_step(s);
    int status = nm_engine_path_put(s->n.engines[0], &record);
    end_step(s);
    NM_CHECK_OK(status);
  }
  nm_block_drop(record.blobs);
}

static void visit(void *user, nm_path_record *record) {
  ((steps *)user)->visited++;
  nm_path_record_dispose(record);
}

/* Reads all of them, a page's worth a step. */
static void list_paths(steps *s) {
  uint64_t cursor = 0;
  uint32_t found = 0;
  do {
    s->visited = 0;
    begin_step(s);
    cursor = nm_engine_path_scan(s->n.engines[0], cursor, visit, s);
    end_step(s);
    NM_CHECK(s->visited <= TOUCHED_MOST);
    found += s->visited;
  } while (cursor != 0);
  NM_CHECK(found >= PATHS);
}

/* Lets all of them grow old at once. */
static void expire_paths(steps *s) {
  nm_engine *engine = s->n.engines[0];
  s->n.now.mono_us += 3600ull * 24 * 400 * 1000000;
  s->n.now.unix_us += 3600ll * 24 * 400 * 1000000;
  for (uint32_t left = path_count(s); left > 0;) {
    uint64_t due = nm_engine_deadline(engine);
    s->n.now.mono_us = due > s->n.now.mono_us ? due : s->n.now.mono_us;
    begin_step(s);
    nm_engine_tick(engine, s->n.now);
    end_step(s);
    uint32_t now = path_count(s);
    NM_CHECK(now <= left && left - now <= TOUCHED_MOST);
    left = now;
    nm_event event;
    while (nm_engine_event(engine, &event)) {
      nm_event_dispose(&event);
    }
  }
}

NM_TEST(a_hundred_thousand_paths_come_are_listed_and_go_in_short_steps) {
  steps *s = nm_test_scratch(sizeof(*s));
  memset(s, 0, sizeof(*s));
  NM_CHECK_OK(net_init(&s->n, &nm_mem_system, 2));
  int wire = net_join(&s->n, 0, 1, "tcp");
  NM_CHECK(wire >= 0);
  put_paths(s, s->n.wires[wire].ends[0].iface);
  NM_CHECK_INT(path_count(s), PATHS);
  list_paths(s);
  expire_paths(s);
  NM_CHECK_INT(path_count(s), 0);
  NM_CHECK(s->too_long <= LONG_STEPS_MOST);
  net_dispose(&s->n);
}
