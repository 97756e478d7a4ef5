/* A transport node with a thousand interfaces: how an announce reaches all of
 * them, and what does not wait for that.
 */
#include "engine_net.h"
#include "support.h"
#include "wire/announce.h"
#include "wire/destination.h"

#include <stdio.h>
#include <string.h>

#define IFACES 1000
/* Copies of an announce that one call makes at most. */
#define COPIES_PER_TICK 512
#define FIRST_ROUND_US 600000

typedef struct hub {
  nm_entropy_pool pool;
  nm_entropy source;
  nm_engine *engine;
  nm_iface_id ifaces[IFACES];
  nm_cipher cipher;
  nm_now now;
  uint32_t copies[IFACES + 1]; /* that came out, by the interface's id */
} hub;

static hub *open_hub(void) {
  hub *h = nm_test_scratch(sizeof(*h));
  uint8_t seed[32] = {5};
  nm_engine_config config;
  int status = NM_OK;
  memset(h, 0, sizeof(*h));
  nm_entropy_pool_init_seed(&h->pool, seed);
  h->source = nm_entropy_pool_source(&h->pool);
  h->now = (nm_now){.mono_us = 1000000, .unix_us = 1750000000000000};
  NM_CHECK_OK(nm_cipher_open(&h->cipher, NULL));
  nm_engine_config_default(&config);
  config.transport = true;
  h->engine =
      nm_engine_new(&nm_mem_system, &h->source, &config, h->now, &status);
  NM_CHECK_OK(status);
  for (int i = 0; i < IFACES; i++) {
    nm_iface_spec spec;
    char name[32];
    (void)snprintf(name, sizeof(name), "client %d", i);
    NM_CHECK_OK(nm_iface_spec_default(&spec, "tcp", name));
    NM_CHECK_OK(nm_engine_iface_add(h->engine, &spec, &h->ifaces[i], h->now));
    NM_CHECK_INT(h->ifaces[i], i + 1);
  }
  return h;
}

static void close_hub(hub *h) {
  nm_engine_free(h->engine);
  nm_cipher_close(&h->cipher);
}

static void run_jobs(hub *h) {
  nm_job *job;
  while ((job = nm_engine_job(h->engine)) != NULL) {
    nm_job_run(job, &h->cipher);
    nm_engine_job_done(h->engine, job, h->now);
  }
}

/* The first client announces a destination. */
static nm_destination_hash announce(hub *h) {
  uint8_t raw[NM_MTU];
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE] = {1};
  uint8_t name_hash[NM_NAME_HASH_SIZE] = {2};
  nm_identity identity = net_identity(9);
  size_t len = 0;
  nm_announce_args args = {.identity = &identity,
                           .name_hash = name_hash,
                           .emitted = 1750000000u,
                           .random = random,
                           .context = NM_CONTEXT_NONE};
  nm_destination_hash hash;
  nm_packet packet = {0};
  NM_CHECK_OK(nm_announce_create(&args, raw, sizeof(raw), &len, NULL));
  NM_CHECK_OK(nm_packet_parse(nm_span_of(raw, len), &packet, NULL));
  memcpy(hash.b, packet.destination.ptr, sizeof(hash.b));
  nm_ingress_config config = {.hw_mtu = 1064};
  nm_frame frame;
  nm_ingress(&config, nm_span_of(raw, len), (nm_mspan){NULL, 0}, &frame);
  nm_verdict verdict = nm_engine_input(h->engine, h->ifaces[0], &frame, h->now);
  NM_CHECK_INT(verdict.drop, NM_DROP_NONE);
  run_jobs(h);
  return hash;
}

/* Counts what comes out. Returns how much it was. */
static uint32_t drain(hub *h) {
  nm_output out;
  uint32_t count = 0;
  while (nm_engine_output(h->engine, &out)) {
    NM_CHECK(out.patient);
    h->copies[out.iface]++;
    count++;
    nm_block_drop(out.packet);
  }
  return count;
}

/* Ticks until the first round has gone everywhere. */
static uint32_t first_round(hub *h, uint32_t *most) {
  uint64_t end = h->now.mono_us + FIRST_ROUND_US;
  uint64_t next;
  uint32_t total = 0;
  *most = 0;
  while ((next = nm_engine_deadline(h->engine)) < end) {
    h->now.mono_us = next > h->now.mono_us ? next : h->now.mono_us;
    nm_engine_tick(h->engine, h->now);
    uint32_t count = drain(h);
    *most = count > *most ? count : *most;
    total += count;
  }
  return total;
}

NM_TEST(an_announce_reaches_a_thousand_interfaces_in_short_steps) {
  hub *h = open_hub();
  uint32_t most = 0;
  (void)announce(h);
  NM_CHECK_INT(drain(h), 0);
  NM_CHECK_INT(first_round(h, &most), IFACES);
  NM_CHECK_INT(most, COPIES_PER_TICK);
  for (int i = 0; i < IFACES; i++) {
    nm_test_context("interface %d", i + 1);
    NM_CHECK_INT(h->copies[h->ifaces[i]], 1);
  }
  close_hub(h);
}

NM_TEST(an_announce_goes_on_when_its_last_interface_goes_half_way) {
  hub *h = open_hub();
  uint32_t most = 0;
  (void)announce(h);
  h->now.mono_us = nm_engine_deadline(h->engine);
  nm_engine_tick(h->engine, h->now);
  NM_CHECK_INT(drain(h), COPIES_PER_TICK);
  /* That one, the one after it, and one that had its copy long ago. */
  NM_CHECK_OK(nm_engine_iface_remove(h->engine, COPIES_PER_TICK, h->now));
  NM_CHECK_OK(nm_engine_iface_remove(h->engine, COPIES_PER_TICK + 1, h->now));
  NM_CHECK_OK(nm_engine_iface_remove(h->engine, 7, h->now));
  NM_CHECK_INT(first_round(h, &most), IFACES - COPIES_PER_TICK - 1);
  for (int i = 0; i < IFACES; i++) {
    nm_test_context("interface %d", i + 1);
    NM_CHECK_INT(h->copies[i + 1], i != COPIES_PER_TICK);
  }
  close_hub(h);
}

NM_TEST(data_goes_ahead_of_relayed_announces) {
  hub *h = open_hub();
  nm_destination_hash hash = announce(h);
  h->now.mono_us = nm_engine_deadline(h->engine);
  nm_engine_tick(h->engine, h->now);
  NM_CHECK(!nm_engine_output_urges(h->engine));
  nm_send_spec spec;
  nm_send_spec_default(&spec);
  spec.destination = hash;
  spec.payload = nm_span_of("first", 5);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_send(h->engine, &spec, &op, h->now));
  run_jobs(h);
  NM_CHECK(nm_engine_output_urges(h->engine));
  nm_output out;
  NM_CHECK(nm_engine_output(h->engine, &out));
  NM_CHECK(!out.patient);
  NM_CHECK_INT(out.iface, h->ifaces[0]);
  nm_block_drop(out.packet);
  NM_CHECK(!nm_engine_output_urges(h->engine));
  NM_CHECK_INT(drain(h), COPIES_PER_TICK);
  NM_CHECK(!nm_engine_output(h->engine, &out));
  NM_CHECK(!out.patient);
  close_hub(h);
}
