/* Clocks that step, and a process that stood still. */
#include "engine_net.h"
#include "support.h"

#include <string.h>

#define SECOND ((uint64_t)1000000)
#define YEAR_US ((int64_t)31557600 * 1000000)

static void prove_all(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
}

/* Two engines with a link; its reference at the first one. */
static net *linked(nm_destination_hash *hash, nm_link_ref *link) {
  net *n = nm_test_scratch(sizeof(*n));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK(net_join(n, 0, 1, "udp") >= 0);
  (void)nm_engine_subscribe(n->engines[0], NULL, true);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.clocks", prove_all, hash));
  NM_CHECK_OK(net_announce(n, 1, hash));
  net_pass(n, SECOND);
  *link = net_link(n, 0, hash);
  NM_CHECK(*link != 0);
  net_forget(n);
  return n;
}

static bool link_delivers(net *n, nm_link_ref link) {
  nm_op_id op;
  NM_CHECK_OK(nm_engine_link_send(n->engines[0], link, nm_span_of("x", 1), true,
                                  0, &op, NULL, n->now));
  net_settle(n);
  nm_event *receipt = net_find(n, 0, NM_EVENT_RECEIPT);
  bool good = receipt != NULL && receipt->state == NM_RECEIPT_DELIVERED;
  net_forget(n);
  return good;
}

NM_TEST(a_step_of_the_wall_clock_kills_no_link_and_ages_no_announce) {
  static const int64_t steps[] = {YEAR_US, -2 * YEAR_US, 40 * YEAR_US,
                                  -39 * YEAR_US};
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = linked(&hash, &link);
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
    nm_test_context("step %zu", i);
    n->now.unix_us += steps[i];
    net_pass(n, 60 * SECOND);
    NM_CHECK_INT(net_count(n, 0, NM_EVENT_LINK_CLOSED), 0);
    NM_CHECK_INT(net_count(n, 1, NM_EVENT_LINK_CLOSED), 0);
    net_forget(n);
    NM_CHECK(link_delivers(n, link));
    /* The path is as good as before, and a new announce is newer than those
     * before it, whatever the clock says. */
    NM_CHECK(nm_engine_hops(n->engines[0], &hash) < NM_HOPS_MAX);
    NM_CHECK_OK(net_announce(n, 1, &hash));
    net_pass(n, 5 * SECOND);
    NM_CHECK(net_count(n, 0, NM_EVENT_ANNOUNCE) >= 1);
    net_forget(n);
  }
  net_dispose(n);
}

NM_TEST(after_a_stand_still_nothing_is_made_up_for_at_once) {
  nm_destination_hash hash;
  nm_link_ref link;
  net *n = linked(&hash, &link);
  nm_op_id op;
  nm_engine_stats before;
  nm_engine_stats after;
  nm_destination_hash nowhere = {{9}};
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &nowhere, 0, NULL,
                                     60 * SECOND, &op, n->now));
  net_settle(n);
  nm_engine_stats_read(n->engines[0], &before);
  /* Both processes stand still for ten minutes: no tick comes meanwhile. */
  n->now.mono_us += 600 * SECOND;
  n->now.unix_us += (int64_t)(600 * SECOND);
  for (int i = 0; i < 2; i++) {
    nm_engine_tick(n->engines[i], n->now);
  }
  net_pass(n, 30 * SECOND);
  nm_engine_stats_read(n->engines[0], &after);
  NM_CHECK(after.outputs - before.outputs < 20);
  /* What had a time limit has ended, and the link lives or says why not. */
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_PATH_RESULT), 1);
  nm_event *closed = net_find(n, 0, NM_EVENT_LINK_CLOSED);
  if (closed != NULL) {
    NM_CHECK_INT(closed->close_reason, NM_CLOSE_TIMEOUT);
  } else {
    net_forget(n);
    NM_CHECK(link_delivers(n, link));
  }
  net_forget(n);
  link = net_link(n, 0, &hash);
  NM_CHECK(link != 0 && link_delivers(n, link));
  net_dispose(n);
}
