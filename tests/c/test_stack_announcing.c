/* The order of announces, when jobs come back late. */
#include "engine_net.h"

#include "support.h"
#include "wire/announce.h"
#include "wire/ratchet_file.h"

#include <string.h>

#define SECOND_US 1000000

/* The emission times of the announces that |engine| puts out. */
static int emitted(net *n, int engine, uint64_t *times, int max) {
  int count = 0;
  nm_output out;
  while (nm_engine_output(n->engines[engine], &out)) {
    nm_packet packet;
    nm_announce announce;
    NM_CHECK_OK(nm_packet_parse(nm_block_span(out.packet), &packet, NULL));
    NM_CHECK_OK(nm_announce_parse(&packet, &announce, NULL));
    if (count < max) {
      times[count] = announce.emitted;
    }
    count++;
    nm_block_drop(out.packet);
  }
  return count;
}

static void give_back(net *n, int engine, nm_job *job) {
  if (nm_job_kind_of(job) == NM_JOB_STORE) {
    nm_job_store_result(job, true);
  } else {
    nm_job_run(job, &n->cipher);
  }
  nm_engine_job_done(n->engines[engine], job, n->now);
}

static net *announcer(nm_destination_hash *hash) {
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 0, 7, "test.clock", NULL, hash));
  net_settle(n);
  return n;
}

static void announce(net *n, const nm_destination_hash *hash) {
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_announce(n->engines[0], hash, NULL, 0, false, &op, n->now));
}

NM_TEST(a_clock_that_goes_back_while_a_time_is_stored_takes_no_announce_along) {
  nm_destination_hash hash;
  net *n = announcer(&hash);
  announce(n, &hash);
  nm_job *store = nm_engine_job(n->engines[0]);
  NM_CHECK(store != NULL && nm_job_kind_of(store) == NM_JOB_STORE);
  n->now.unix_us -= 3600 * (int64_t)SECOND_US;
  announce(n, &hash);
  /* All work of the second one comes back first, if there is any. */
  nm_job *job;
  while ((job = nm_engine_job(n->engines[0])) != NULL) {
    give_back(n, 0, job);
  }
  give_back(n, 0, store);
  while ((job = nm_engine_job(n->engines[0])) != NULL) {
    give_back(n, 0, job);
  }
  uint64_t times[4];
  NM_CHECK_INT(emitted(n, 0, times, 4), 2);
  NM_CHECK_INT(times[0], 1700000000);
  NM_CHECK_INT(times[1], 1700000001);
  net_dispose(n);
}

NM_TEST(an_announce_does_not_overtake_one_whose_signature_takes_longer) {
  nm_destination_hash hash;
  net *n = announcer(&hash);
  announce(n, &hash);
  give_back(n, 0, nm_engine_job(n->engines[0]));
  nm_job *sign = nm_engine_job(n->engines[0]);
  NM_CHECK(sign != NULL && nm_job_kind_of(sign) == NM_JOB_SIGN_ANNOUNCE);
  n->now.unix_us += 5 * SECOND_US;
  n->now.mono_us += 5 * SECOND_US;
  announce(n, &hash);
  nm_job *job;
  while ((job = nm_engine_job(n->engines[0])) != NULL) {
    give_back(n, 0, job);
  }
  give_back(n, 0, sign);
  while ((job = nm_engine_job(n->engines[0])) != NULL) {
    give_back(n, 0, job);
  }
  uint64_t times[4];
  NM_CHECK_INT(emitted(n, 0, times, 4), 2);
  NM_CHECK_INT(times[0], 1700000000);
  NM_CHECK_INT(times[1], 1700000005);
  net_dispose(n);
}

NM_TEST(a_cancelled_announce_makes_way_for_the_next_one) {
  nm_destination_hash hash;
  net *n = announcer(&hash);
  nm_op_id first;
  NM_CHECK_OK(
      nm_engine_announce(n->engines[0], &hash, NULL, 0, false, &first, n->now));
  nm_job *store = nm_engine_job(n->engines[0]);
  NM_CHECK(store != NULL);
  announce(n, &hash);
  NM_CHECK_OK(nm_engine_cancel(n->engines[0], first, n->now));
  give_back(n, 0, store);
  net_settle(n);
  nm_event *heard = net_find(n, 1, NM_EVENT_PATH);
  NM_CHECK(heard != NULL);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_ANNOUNCED), 2);
  net_dispose(n);
}

NM_TEST(a_ratchet_file_may_hold_as_many_keys_as_are_retained) {
  enum { KEYS = 700 };
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 1));
  nm_identity identity = net_identity(7);
  uint8_t *keys = nm_test_scratch(KEYS * NM_KEY_SIZE);
  size_t size = nm_ratchet_file_size(KEYS);
  nm_test_random_bytes(keys, KEYS * NM_KEY_SIZE);
  nm_writer w = nm_writer_of(nm_test_scratch(size), size);
  NM_CHECK_OK(nm_ratchet_file_write(&w, &identity, keys, KEYS));
  nm_dest_spec spec;
  nm_dest_spec_default(&spec);
  spec.identity = &identity;
  spec.name = nm_span_of("test.many", 9);
  spec.ratchets = true;
  spec.ratchets_retained = KEYS;
  spec.ratchet_file = nm_writer_done(&w);
  nm_destination_hash hash;
  NM_CHECK_OK(nm_engine_listen(n->engines[0], &spec, &hash, n->now));
  NM_CHECK_INT(nm_engine_ratchet_ids(n->engines[0], &hash, NULL, 0), KEYS);
  net_dispose(n);
}

NM_TEST(path_responses_of_one_second_are_newer_each_within_bounds) {
  nm_destination_hash hash;
  net *n = announcer(&hash);
  nm_job *job;
  for (int i = 0; i < 6; i++) {
    nm_op_id op;
    /* Five answers that others cause, then an announce of the program's own. */
    NM_CHECK_OK(
        nm_engine_announce(n->engines[0], &hash, NULL, 0, i < 5, &op, n->now));
    while ((job = nm_engine_job(n->engines[0])) != NULL) {
      give_back(n, 0, job);
    }
  }
  static const uint64_t expected[] = {0, 1, 2, 2, 2, 3};
  uint64_t times[6];
  NM_CHECK_INT(emitted(n, 0, times, 6), 6);
  for (int i = 0; i < 6; i++) {
    NM_CHECK_INT(times[i] - 1700000000, expected[i]);
  }
  net_dispose(n);
}
