/* Path requests of who waits, when interfaces come and go. */
#include "engine_net.h"

#include "support.h"

static void set_online(net *n, int engine, nm_iface_id iface, bool online) {
  nm_iface_spec spec = *nm_engine_iface(n->engines[engine], iface);
  spec.online = online;
  NM_CHECK_OK(nm_engine_iface_change(n->engines[engine], iface, &spec, n->now));
}

NM_TEST(a_path_is_asked_for_when_the_first_interface_comes_online) {
  net *n = nm_test_scratch(sizeof(net));
  nm_destination_hash hash;
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  net_settle(n);
  nm_iface_id iface = n->wires[0].ends[0].iface;
  set_online(n, 0, iface, false);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 5000000,
                                     &op, n->now));
  net_settle(n);
  NM_CHECK_INT(n->packets, 0);
  set_online(n, 0, iface, true);
  net_settle(n);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_OK(result->status);
  NM_CHECK_INT(result->op, op);
  net_dispose(n);
}

NM_TEST(a_path_that_could_not_be_asked_for_is_asked_for_by_the_next_who_waits) {
  net *n = nm_test_scratch(sizeof(net));
  nm_destination_hash hash;
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.echo", NULL, &hash));
  net_settle(n);
  nm_iface_id iface = n->wires[0].ends[0].iface;
  set_online(n, 0, iface, false);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 100000, &op,
                                     n->now));
  net_pass(n, 200000);
  NM_CHECK_INT(net_count(n, 0, NM_EVENT_PATH_RESULT), 1);
  set_online(n, 0, iface, true);
  net_forget(n);
  NM_CHECK_OK(nm_engine_request_path(n->engines[0], &hash, 0, NULL, 5000000,
                                     &op, n->now));
  net_settle(n);
  nm_event *result = net_find(n, 0, NM_EVENT_PATH_RESULT);
  NM_CHECK(result != NULL);
  NM_CHECK_OK(result->status);
  net_dispose(n);
}

NM_TEST(what_nobody_waits_for_is_not_asked_again) {
  net *n = nm_test_scratch(sizeof(net));
  nm_destination_hash nobody = {{1, 2, 3}};
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(
      nm_engine_request_path(n->engines[0], &nobody, 0, NULL, 0, NULL, n->now));
  net_settle(n);
  NM_CHECK_INT(n->packets, 1);
  set_online(n, 0, n->wires[0].ends[0].iface, false);
  set_online(n, 0, n->wires[0].ends[0].iface, true);
  net_settle(n);
  NM_CHECK_INT(n->packets, 1);
  net_dispose(n);
}
