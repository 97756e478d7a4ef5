/* What a destination costs in memory: its announce, key and path, heard four
 * times, with 32 bytes of application data.
 */
#include "engine_net.h"
#include "support.h"
#include "wire/announce.h"
#include "wire/destination.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMISSIONS 4
#define APP_DATA 32
/* A hundred thousand of them in 64 MiB, with a ninth of that for what an
 * allocator adds. */
#define BYTES_EACH ((64u << 20) / 100000 * 8 / 9)

/* NM_DESTINATIONS=100000 for as many. */
static size_t destinations_wanted(void) {
  const char *wanted = getenv("NM_DESTINATIONS");
  return wanted == NULL ? 1500 : (size_t)atoi(wanted);
}

typedef struct node {
  nm_test_mem below;
  nm_entropy_pool pool;
  nm_entropy source;
  nm_engine *engine;
  nm_iface_id iface;
  nm_cipher cipher;
  nm_now now;
} node;

static void open_node(node *n) {
  uint8_t seed[32] = {7};
  nm_engine_config config;
  nm_iface_spec spec;
  int status = NM_OK;
  memset(n, 0, sizeof(*n));
  nm_test_mem_init(&n->below);
  nm_entropy_pool_init_seed(&n->pool, seed);
  n->source = nm_entropy_pool_source(&n->pool);
  n->now = (nm_now){.mono_us = 1000000, .unix_us = 1750000000000000};
  nm_engine_config_default(&config);
  config.limits.filter = 64; /* its memory is that of the packets */
  n->engine =
      nm_engine_new(&n->below.mem, &n->source, &config, n->now, &status);
  NM_CHECK_OK(status);
  NM_CHECK_OK(nm_iface_spec_default(&spec, "tcp", "tcp"));
  spec.ingress_control = false;
  NM_CHECK_OK(nm_engine_iface_add(n->engine, &spec, &n->iface, n->now));
}

static void drain(node *n) {
  nm_job *job;
  nm_event event;
  nm_output out;
  while ((job = nm_engine_job(n->engine)) != NULL) {
    nm_job_run(job, &n->cipher);
    nm_engine_job_done(n->engine, job, n->now);
  }
  while (nm_engine_event(n->engine, &event)) {
    nm_event_dispose(&event);
  }
  while (nm_engine_output(n->engine, &out)) {
    nm_block_drop(out.packet);
  }
}

/* Destination |number| of one identity, by its name. */
static void hear(node *n, const nm_identity *identity, size_t number,
                 uint8_t emission) {
  uint8_t raw[NM_MTU];
  uint8_t name_hash[NM_NAME_HASH_SIZE] = {0};
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE] = {emission};
  uint8_t app_data[APP_DATA] = {1};
  size_t len = 0;
  memcpy(name_hash, &number, sizeof(number));
  nm_announce_args args = {.identity = identity,
                           .name_hash = name_hash,
                           .app_data = nm_span_of(app_data, sizeof(app_data)),
                           .emitted = 1750000000u + emission,
                           .random = random,
                           .context = NM_CONTEXT_NONE};
  NM_CHECK_OK(nm_announce_create(&args, raw, sizeof(raw), &len, NULL));
  nm_ingress_config config = {.hw_mtu = 1064};
  nm_frame frame;
  nm_ingress(&config, nm_span_of(raw, len), (nm_mspan){NULL, 0}, &frame);
  nm_verdict verdict = nm_engine_input(n->engine, n->iface, &frame, n->now);
  NM_CHECK_INT(verdict.drop, NM_DROP_NONE);
  drain(n);
}

NM_TEST(a_hundred_thousand_destinations_fit_into_64_mib) {
  size_t count = destinations_wanted();
  nm_identity identity = net_identity(9);
  nm_engine_stats stats;
  node n;
  open_node(&n);
  size_t before = n.below.bytes_live;
  for (uint8_t emission = 1; emission <= EMISSIONS; emission++) {
    for (size_t i = 0; i < count; i++) {
      hear(&n, &identity, i, emission);
    }
  }
  nm_engine_stats_read(n.engine, &stats);
  NM_CHECK_INT(stats.known, count);
  NM_CHECK_INT(stats.paths, count);
  size_t held = n.below.bytes_live - before;
  nm_test_context("%zu bytes for %zu destinations", held, count);
  if (getenv("NM_DESTINATIONS") != NULL) {
    printf("%zu bytes for %zu destinations\n", held, count);
  }
  NM_CHECK(held <= count * BYTES_EACH);
  nm_engine_free(n.engine);
  NM_CHECK_INT(n.below.live, 0);
}
