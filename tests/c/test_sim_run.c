/* The simulator: engines under virtual time, crashes, stores, digests. */
#include "sim_net.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

#define SECOND 1000000u

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static nm_op_id send_text(sim_net *n, int node, const nm_destination_hash *to,
                          const char *what) {
  nm_send_spec spec;
  nm_send_spec_default(&spec);
  spec.destination = *to;
  spec.payload = text(what);
  nm_op_id op = 0;
  NM_CHECK_OK(nm_engine_send(sim_net_engine(n, node), &spec, &op,
                             sim_net_now(n, node)));
  nm_sim_touch(n->sim, n->nodes[node]);
  return op;
}

static nm_sim_medium_config slow_air(void) {
  nm_sim_medium_config config;
  nm_sim_medium_config_default(&config);
  config.rate_bps = 9600;
  config.delay_us = 20000;
  config.jitter_us = 5000;
  config.loss_ppm = 50000;
  config.duplicate_ppm = 50000;
  config.reorder_ppm = 100000;
  config.reorder_us = 200000;
  config.corrupt_ppm = 20000;
  return config;
}

static nm_sim_node_config slow_jobs(void) {
  nm_sim_node_config config;
  nm_sim_node_config_default(&config);
  config.job_percent_min = 50;
  config.job_percent_max = 2000;
  return config;
}

/* One run with a bit of everything; its digest goes to |out|. */
static void busy_run(uint64_t seed, uint8_t out[NM_HASH_SIZE]) {
  nm_sim_medium_config air = slow_air();
  nm_sim_node_config jobs = slow_jobs();
  sim_net *n = sim_net_new(&nm_mem_system, seed, 3, &jobs, &air);
  nm_destination_hash hash = sim_net_listen(n, 1, 7, true);
  for (int i = 0; i < 4; i++) {
    sim_net_announce(n, 1, &hash);
    sim_net_pass(n, 20 * SECOND);
  }
  for (int i = 0; i < 5; i++) {
    send_text(n, 0, &hash, "over the air");
    sim_net_pass(n, SECOND);
  }
  (void)sim_net_link(n, 2, &hash);
  sim_net_pass(n, 60 * SECOND);
  NM_CHECK_INT(sim_net_count(n, 0, NM_EVENT_RECEIPT), 5);
  nm_sim_digest(n->sim, out);
  sim_net_finish(n);
}

NM_TEST(a_seed_defines_a_run_and_another_seed_another_one) {
  uint8_t first[NM_HASH_SIZE];
  uint8_t again[NM_HASH_SIZE];
  uint8_t other[NM_HASH_SIZE];
  busy_run(1, first);
  busy_run(1, again);
  busy_run(2, other);
  NM_CHECK_BYTES(again, first, NM_HASH_SIZE);
  NM_CHECK(memcmp(other, first, NM_HASH_SIZE) != 0);
}

NM_TEST(an_announce_takes_the_time_that_store_jobs_and_medium_need) {
  nm_sim_medium_config air;
  nm_sim_medium_config_default(&air);
  air.rate_bps = 8000; /* a millisecond per byte */
  air.delay_us = 7000;
  nm_sim_node_config config;
  nm_sim_node_config_default(&config);
  config.store_us_min = 3000;
  config.store_us_max = 3000;
  config.job_percent_min = 100;
  config.job_percent_max = 100;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, &config, &air);
  nm_destination_hash hash = sim_net_listen(n, 0, 7, false);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  nm_event *heard = sim_net_find(n, 1, NM_EVENT_PATH);
  NM_CHECK(heard != NULL);
  nm_sim_medium_stats stats;
  NM_CHECK(nm_sim_medium_stats_read(n->sim, n->air, &stats));
  NM_CHECK_INT(stats.by_kind[NM_SIM_FRAME_ANNOUNCE], 1);
  uint64_t bytes = stats.bytes_by_kind[NM_SIM_FRAME_ANNOUNCE];
  /* Store, signature (15), bytes on the air, propagation, verification (40). */
  uint64_t expected = 3000 + 15 + bytes * 1000 + 7000 + 40;
  NM_CHECK_INT(heard->at.mono_us - 1000000000u, expected);
  NM_CHECK_INT(stats.airtime_us, bytes * 1000);
  sim_net_finish(n);
}

NM_TEST(what_was_announced_is_in_the_store_and_survives_a_crash) {
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, NULL);
  nm_destination_hash hash = sim_net_listen(n, 0, 7, true);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  uint8_t ids[4][NM_NAME_HASH_SIZE];
  uint8_t same[4][NM_NAME_HASH_SIZE];
  NM_CHECK_INT(nm_engine_ratchet_ids(sim_net_engine(n, 0), &hash, ids, 4), 1);
  NM_CHECK_OK(nm_sim_crash(n->sim, n->nodes[0]));
  NM_CHECK(sim_net_engine(n, 0) == NULL);
  NM_CHECK_STATUS(nm_sim_crash(n->sim, n->nodes[0]), NM_E(STATE));
  /* The wall clock of the machine was set back by a day. */
  nm_sim_clock_step(n->sim, n->nodes[0], -86400 * (int64_t)SECOND);
  NM_CHECK_OK(nm_sim_restart(n->sim, n->nodes[0]));
  NM_CHECK_INT(nm_sim_boots(n->sim, n->nodes[0]), 2);
  (void)sim_net_listen(n, 0, 7, true);
  NM_CHECK_INT(nm_engine_ratchet_ids(sim_net_engine(n, 0), &hash, same, 4), 1);
  NM_CHECK_BYTES(same[0], ids[0], NM_NAME_HASH_SIZE);
  sim_net_forget(n);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  nm_event *done = sim_net_find(n, 0, NM_EVENT_ANNOUNCED);
  NM_CHECK(done != NULL);
  NM_CHECK_OK(done->status);
  /* Later than what was stored, and a day ahead of the clock. */
  NM_CHECK_INT(done->wire_time_us / SECOND, 1700000001);
  sim_net_finish(n);
}

NM_TEST(a_failing_store_lets_no_announce_leave) {
  nm_sim_node_config config;
  nm_sim_node_config_default(&config);
  config.store_failure_ppm = 1000000;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, &config, NULL);
  nm_destination_hash hash = sim_net_listen(n, 0, 7, true);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  nm_event *done = sim_net_find(n, 0, NM_EVENT_ANNOUNCED);
  NM_CHECK(done != NULL);
  NM_CHECK_INT(done->stage, NM_STAGE_STORE);
  NM_CHECK(sim_net_find(n, 1, NM_EVENT_PATH) == NULL);
  NM_CHECK(nm_sim_stored_next(n->sim, n->nodes[0], NULL) == NULL);
  sim_net_finish(n);
}

NM_TEST(a_call_comes_at_its_moment_and_in_order) {
  sim_net *n = sim_net_new(&nm_mem_system, 1, 1, NULL, NULL);
  sim_net_pass(n, 1); /* its interface's event */
  NM_CHECK_OK(nm_sim_call_at(n->sim, 500, 2));
  NM_CHECK_OK(nm_sim_call_at(n->sim, 400, 1));
  NM_CHECK_OK(nm_sim_call_at(n->sim, 500, 3));
  uint64_t tag = 0;
  NM_CHECK_INT(nm_sim_run(n->sim, 1000), NM_SIM_CALL);
  NM_CHECK(nm_sim_due(n->sim, &tag) && tag == 1);
  NM_CHECK_INT(nm_sim_time_us(n->sim), 400);
  NM_CHECK(!nm_sim_due(n->sim, &tag));
  NM_CHECK(!nm_sim_idle(n->sim));
  NM_CHECK_INT(nm_sim_run(n->sim, 1000), NM_SIM_CALL);
  NM_CHECK(nm_sim_due(n->sim, &tag) && tag == 2);
  NM_CHECK_INT(nm_sim_run(n->sim, 1000), NM_SIM_CALL);
  NM_CHECK(nm_sim_due(n->sim, &tag) && tag == 3);
  NM_CHECK_INT(nm_sim_time_us(n->sim), 500);
  NM_CHECK_INT(nm_sim_run(n->sim, 1000), NM_SIM_TIME);
  NM_CHECK_INT(nm_sim_time_us(n->sim), 1000);
  NM_CHECK(nm_sim_idle(n->sim));
  sim_net_finish(n);
}

NM_TEST(events_that_are_not_watched_are_counted_alone) {
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, NULL);
  nm_sim_watch(n->sim, n->nodes[1], (uint32_t)1 << NM_EVENT_PACKET);
  nm_destination_hash hash = sim_net_listen(n, 0, 7, false);
  sim_net_pass(n, 1);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  NM_CHECK(sim_net_find(n, 1, NM_EVENT_PATH) == NULL);
  nm_sim_node_stats stats;
  NM_CHECK(nm_sim_node_stats_read(n->sim, n->nodes[1], &stats));
  NM_CHECK(stats.events >= 2);
  sim_net_finish(n);
}

/* ---- what must hold ---- */

static void lines(void *user, const nm_sim *sim, const nm_sim_note *note) {
  char line[400];
  size_t len = nm_sim_note_text(sim, note, line, sizeof(line));
  NM_CHECK_INT(strlen(line), len);
  char *all = user;
  if (strlen(all) + len < 60000) {
    strcat(all, line);
    strcat(all, "\n");
  }
}

NM_TEST(a_failed_assertion_stops_the_run_and_is_traced) {
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, NULL);
  char *trace = nm_test_scratch(65536);
  trace[0] = '\0';
  nm_sim_trace(n->sim, lines, trace);
  nm_destination_hash hash = sim_net_listen(n, 0, 7, false);
  sim_net_announce(n, 0, &hash);
  sim_net_pass(n, SECOND);
  NM_CHECK(strstr(trace, "a@air send sent") != NULL);
  NM_CHECK(strstr(trace, "b@air receive NONE (a job decides)") != NULL);
  NM_CHECK(strstr(trace, "b job VERIFY_ANNOUNCE") != NULL);
  NM_CHECK(strstr(trace, "a ANNOUNCED op=1") != NULL);
  NM_CHECK(strstr(trace, "store announced/") != NULL);
  nm_sim_fail(n->sim, "the scenario expected more");
  nm_sim_fail(n->sim, "and this comes second");
  NM_CHECK_INT(nm_sim_run(n->sim, 5 * SECOND), NM_SIM_FAILED);
  NM_CHECK(strcmp(nm_sim_failure(n->sim),
                  "at 1.000000 s: the scenario expected more") == 0);
  NM_CHECK(strstr(trace, "failure: at 1.000000 s") != NULL);
  NM_CHECK_STATUS(nm_sim_finish(n->sim), NM_E(STATE));
  sim_net_forget(n);
  nm_sim_free(n->sim);
}

NM_TEST(everything_that_was_allocated_is_given_back) {
  for (int finish = 0; finish < 2; finish++) {
    nm_test_mem mem;
    nm_test_mem_init(&mem);
    nm_sim_medium_config air = slow_air();
    nm_sim_node_config jobs = slow_jobs();
    sim_net *n = sim_net_new(&mem.mem, 3, 3, &jobs, &air);
    nm_destination_hash hash = sim_net_listen(n, 1, 7, true);
    sim_net_announce(n, 1, &hash);
    sim_net_pass(n, 10 * SECOND);
    sim_net_announce(n, 1, &hash);
    sim_net_pass(n, 100);
    NM_CHECK_OK(nm_sim_crash(n->sim, n->nodes[1]));
    if (finish) {
      sim_net_finish(n);
    } else {
      sim_net_forget(n);
      nm_sim_free(n->sim);
    }
    NM_CHECK_INT(mem.live, 0);
  }
}

NM_TEST(engines_survive_every_hundredth_allocation_failing) {
  nm_sim_medium_config air = slow_air();
  nm_sim_node_config jobs = slow_jobs();
  jobs.allocation_failure_ppm = 10000;
  for (uint64_t seed = 0; seed < 20; seed++) {
    nm_test_context("seed %d", (int)seed);
    sim_net *n = sim_net_new(&nm_mem_system, seed, 3, &jobs, &air);
    nm_destination_hash hash = {{0}};
    uint8_t keys[NM_PRIVATE_SIZE] = {7};
    nm_identity identity;
    NM_CHECK_OK(
        nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
    nm_dest_spec spec;
    nm_dest_spec_default(&spec);
    spec.identity = &identity;
    spec.name = text("test.sim");
    spec.prove = NM_PROVE_ALL;
    spec.ratchets = true;
    while (nm_sim_listen(n->sim, n->nodes[1], &spec, &hash) != NM_OK) {
    }
    for (int i = 0; i < 30; i++) {
      nm_op_id op;
      nm_link_ref link;
      nm_send_spec send;
      nm_send_spec_default(&send);
      send.destination = hash;
      send.payload = text("x");
      (void)nm_engine_announce(sim_net_engine(n, 1), &hash, NULL, 0, false, &op,
                               sim_net_now(n, 1));
      (void)nm_engine_send(sim_net_engine(n, 0), &send, &op, sim_net_now(n, 0));
      (void)nm_engine_link_open(sim_net_engine(n, 2), &hash, 0, &link,
                                sim_net_now(n, 2));
      for (int k = 0; k < 3; k++) {
        nm_sim_touch(n->sim, n->nodes[k]);
      }
      sim_net_pass(n, 5 * SECOND);
    }
    nm_sim_node_stats stats;
    NM_CHECK(nm_sim_node_stats_read(n->sim, n->nodes[1], &stats));
    NM_CHECK(stats.allocations_failed > 0);
    sim_net_finish(n);
  }
}
