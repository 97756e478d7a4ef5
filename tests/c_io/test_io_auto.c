/* AUTO: who is in the group, under a clock of the test's own; and nodes that
 * find each other in a network namespace of the test's own.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* unshare, setns */
#endif

#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "io/auto.h"
#include "io/auto_peers.h"
#include "io/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t one[16] = {0xfe, 0x80, [15] = 1};
static const uint8_t two[16] = {0xfe, 0x80, [15] = 2};

static void init_peers(nm_auto_peers *peers, uint32_t max) {
  static const uint8_t key[16] = {3};
  NM_CHECK_OK(
      nm_auto_peers_init(peers, &nm_mem_system, key, max, NM_AUTO_PEER_US));
}

NM_TEST(a_peer_is_an_address_on_a_device) {
  nm_auto_peers peers;
  init_peers(&peers, 8);
  nm_auto_peer *first = nm_auto_peer_add(&peers, one, 1, 100);
  nm_auto_peer *other = nm_auto_peer_add(&peers, one, 2, 100);
  NM_CHECK(first != NULL && other != NULL && first != other);
  NM_CHECK(nm_auto_peer_find(&peers, one, 1) == first);
  NM_CHECK(nm_auto_peer_find(&peers, one, 2) == other);
  NM_CHECK(nm_auto_peer_find(&peers, two, 1) == NULL);
  nm_auto_peer_remove(&peers, first);
  NM_CHECK(nm_auto_peer_find(&peers, one, 1) == NULL);
  NM_CHECK(nm_auto_peer_find(&peers, one, 2) == other);
  nm_auto_peers_dispose(&peers);
}

NM_TEST(peers_beyond_the_limit_are_refused_and_counted) {
  nm_auto_peers peers;
  init_peers(&peers, 2);
  nm_auto_peer *first = nm_auto_peer_add(&peers, one, 1, 0);
  NM_CHECK(first != NULL);
  NM_CHECK(nm_auto_peer_add(&peers, one, 2, 0) != NULL);
  NM_CHECK(nm_auto_peer_add(&peers, one, 3, 0) == NULL);
  NM_CHECK_INT(peers.refused, 1);
  nm_auto_peer_remove(&peers, first);
  NM_CHECK(nm_auto_peer_add(&peers, one, 3, 0) != NULL);
  nm_auto_peers_dispose(&peers);
}

NM_TEST(a_peer_is_called_and_goes_at_the_stated_times) {
  nm_auto_peers peers;
  init_peers(&peers, 8);
  NM_CHECK_INT(nm_auto_peers_next(&peers), UINT64_MAX);
  nm_auto_peer *peer = nm_auto_peer_add(&peers, one, 1, 1000000);
  NM_CHECK_INT(nm_auto_peers_next(&peers), 6200000);
  NM_CHECK(!nm_auto_peer_is_due(peer, 6199999));
  NM_CHECK(nm_auto_peer_is_due(peer, 6200000));
  peer->called_us = 22900000;
  NM_CHECK_INT(nm_auto_peers_next(&peers), 23000000);
  NM_CHECK(!nm_auto_peer_is_silent(&peers, peer, 22999999));
  NM_CHECK(nm_auto_peer_is_silent(&peers, peer, 23000000));
  peer->heard_us = 2000000;
  NM_CHECK(!nm_auto_peer_is_silent(&peers, peer, 23000000));
  nm_auto_peers_dispose(&peers);
}

NM_TEST(a_token_fits_its_group_and_its_address_alone) {
  nm_span group = nm_span_of("reticulum", 9);
  uint8_t datagram[40] = {0};
  nm_auto_token(group, one, datagram);
  /* The digest of "reticulum" and "fe80::1". */
  NM_CHECK_HEX(
      nm_span_of(datagram, 32),
      "97b25576749ea936b0d8a8536ffaf442d157cf47d460dcf13c48b7bd18b6c163");
  NM_CHECK(nm_auto_token_fits(group, one, nm_span_of(datagram, 32)));
  NM_CHECK(nm_auto_token_fits(group, one, nm_span_of(datagram, 40)));
  NM_CHECK(!nm_auto_token_fits(group, one, nm_span_of(datagram, 31)));
  NM_CHECK(!nm_auto_token_fits(group, one, nm_span_of(datagram, 0)));
  NM_CHECK(!nm_auto_token_fits(group, two, nm_span_of(datagram, 32)));
  NM_CHECK(!nm_auto_token_fits(nm_span_of("reticulun", 9), one,
                               nm_span_of(datagram, 32)));
  datagram[31] ^= 1;
  NM_CHECK(!nm_auto_token_fits(group, one, nm_span_of(datagram, 32)));
}

NM_TEST(an_echo_goes_missing_and_comes_back_once_each) {
  nm_auto_echo echo;
  nm_auto_echo_start(&echo, 1000000);
  NM_CHECK_INT(nm_auto_echo_next(&echo), 7500000);
  NM_CHECK(!nm_auto_echo_look(&echo, 7499999));
  NM_CHECK(nm_auto_echo_look(&echo, 7500000));
  NM_CHECK(echo.lost && !echo.heard);
  NM_CHECK(!nm_auto_echo_look(&echo, 9000000));
  NM_CHECK_INT(nm_auto_echo_next(&echo), UINT64_MAX);
  nm_auto_echo_hear(&echo, 9500000);
  NM_CHECK(nm_auto_echo_look(&echo, 9500000));
  NM_CHECK(!echo.lost && echo.heard);
  NM_CHECK_INT(nm_auto_echo_next(&echo), 16000000);
}

NM_TEST(each_allocation_of_the_peers_may_fail) {
  fault_mem mem;
  uint8_t key[16] = {0};
  fault_mem_init(&mem);
  for (size_t at = 1; at <= 2; at++) {
    nm_auto_peers peers;
    fault_mem_fail(&mem, at);
    if (nm_auto_peers_init(&peers, &mem.mem, key, 4, 1) == NM_OK) {
      NM_CHECK(nm_auto_peer_add(&peers, one, 1, 0) == NULL);
      NM_CHECK(nm_auto_peer_add(&peers, one, 1, 0) != NULL);
    }
    nm_auto_peers_dispose(&peers);
    NM_CHECK_INT(fault_mem_live(&mem), 0);
  }
  fault_mem_dispose(&mem);
}

NM_TEST(auto_options_that_cannot_be_met_are_refused) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_iface_setup good = io_setup(NM_MEDIUM_AUTO, "auto");
  for (int i = 0; i < 6; i++) {
    nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
    nm_test_context("number %d", i);
    c.u.iface = good;
    nm_auto_setup *own = &c.u.iface.automatic;
    own->scope = i == 0 ? '3' : own->scope;
    own->address_type = i == 1 ? '2' : own->address_type;
    own->discovery_port = i == 2 ? UINT16_MAX : own->discovery_port;
    own->data_port = i == 3 ? own->discovery_port : own->data_port;
    own->data_port =
        i == 4 ? (uint16_t)(own->discovery_port + 1) : own->data_port;
    own->peer_timeout_ms = i == 5 ? 0 : own->peer_timeout_ms;
    NM_CHECK_STATUS(io_status(&n, &c), NM_E(ARGUMENT));
  }
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

#if defined(__linux__)

/* ---- two devices of one namespace, joined by a virtual cable ---- */

static int outside = -1;

static bool run(const char *command) {
  return system(command) == 0;
}

static void leave(void) {
  if (outside >= 0) {
    NM_CHECK(setns(outside, CLONE_NEWNET) == 0);
    close(outside);
    outside = -1;
  }
}

/* False, with the reason on the output, where namespaces cannot be made. */
static bool enter(void) {
  outside = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (outside < 0 || unshare(CLONE_NEWNET) != 0) {
    printf("  skipped: no network namespace can be made here\n");
    if (outside >= 0) {
      close(outside);
    }
    outside = -1;
    return false;
  }
  if (!run("ip link add left type veth peer name right 2>/dev/null")) {
    printf("  skipped: no virtual cable can be made here\n");
    leave();
    return false;
  }
  /* Addresses may be used at once. */
  bool ok = run("echo 0 >/proc/sys/net/ipv6/conf/left/accept_dad") &&
            run("echo 0 >/proc/sys/net/ipv6/conf/right/accept_dad") &&
            run("ip link set left up && ip link set right up");
  NM_CHECK(ok);
  return true;
}

static nm_iface_setup auto_setup(const char *device) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_AUTO, "auto");
  memcpy(setup.automatic.devices, device, strlen(device) + 1);
  return setup;
}

typedef struct pair {
  nm_loop *loop;
  io_node left;
  io_node right;
  nm_iface_id left_iface;
  nm_iface_id right_iface;
} pair;

static void begin(pair *p, const nm_mem *mem) {
  nm_loop_config config = {.mem = mem, .workers = 1};
  NM_CHECK_OK(nm_loop_start(&config, &p->loop));
  io_open(&p->left, p->loop, NULL);
  io_open(&p->right, p->loop, NULL);
  nm_iface_setup setup = auto_setup("left");
  p->left_iface = io_add(&p->left, &setup, NULL);
  setup = auto_setup("right");
  p->right_iface = io_add(&p->right, &setup, NULL);
}

static void end(pair *p) {
  io_close(&p->left);
  io_close(&p->right);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

static bool is_peer(const nm_node_event *event, const void *user) {
  const bool *found = user;
  return event->kind == NM_NODE_PEER && event->u.peer.found == *found;
}

static nm_peer_notice await_peer(io_node *n, bool found) {
  nm_node_event event;
  NM_CHECK(io_wait(n, is_peer, &found, IO_PATIENCE_MS, &event));
  return event.u.peer;
}

static void exchange(io_node *from, io_node *to, uint8_t seed) {
  nm_destination_hash hash = io_listen(to, seed, "test.auto", NULL);
  io_announce(to, &hash);
  io_await_path(from, &hash);
  NM_CHECK_INT(io_send(from, &hash, "hello"), NM_RECEIPT_DELIVERED);
}

static nm_device_info device_named(io_node *n, nm_iface_id iface,
                                   const char *name) {
  nm_command c = {.kind = NM_COMMAND_IFACE_DEVICES, .iface = iface};
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_OK(event.u.reply.status);
  const nm_device_info *rows =
      (const void *)nm_block_span(event.u.reply.records).ptr;
  for (size_t i = 0; i < event.u.reply.record_count; i++) {
    if (strcmp(rows[i].name, name) == 0) {
      nm_device_info found = rows[i];
      io_done(&event);
      return found;
    }
  }
  nm_test_fail(__FILE__, __LINE__, "no device %s", name);
  abort();
}

NM_TEST(nodes_on_one_network_find_each_other) {
  pair p;
  if (!enter()) {
    return;
  }
  begin(&p, NULL);
  nm_peer_notice notice = await_peer(&p.left, true);
  (void)await_peer(&p.right, true);
  NM_CHECK_INT(notice.parent, p.left_iface);
  NM_CHECK(strcmp(notice.device, "left") == 0);
  exchange(&p.left, &p.right, 3);
  exchange(&p.right, &p.left, 4);
  nm_iface_info info;
  NM_CHECK(io_info(&p.left, notice.iface, &info));
  NM_CHECK_INT(info.medium, NM_MEDIUM_AUTO_PEER);
  NM_CHECK_INT(info.parent, p.left_iface);
  NM_CHECK_INT(info.hw_mtu, 1196);
  char name[NM_IFACE_NAME_MAX + 1];
  (void)snprintf(name, sizeof(name), "AutoInterfacePeer[left/%s]",
                 notice.address);
  NM_CHECK(strcmp(info.name, name) == 0);
  nm_device_info device = device_named(&p.left, p.left_iface, "left");
  NM_CHECK_INT(device.state, NM_DEVICE_LISTENING);
  NM_CHECK(device.peers == 1 && device.echo_heard && !device.echo_lost);
  device = device_named(&p.left, p.left_iface, "right");
  NM_CHECK_INT(device.state, NM_DEVICE_IGNORED);
  nm_device_info other = device_named(&p.right, p.right_iface, "right");
  NM_CHECK(strcmp(other.address, notice.address) == 0);
  end(&p);
  leave();
}

NM_TEST(a_change_of_the_auto_interface_reaches_its_peers) {
  pair p;
  if (!enter()) {
    return;
  }
  begin(&p, NULL);
  nm_peer_notice notice = await_peer(&p.left, true);
  nm_iface_setup setup = auto_setup("left");
  setup.spec.bitrate = 54321;
  setup.spec.mode = NM_IF_GATEWAY;
  nm_command c = {.kind = NM_COMMAND_IFACE_CHANGE, .iface = p.left_iface};
  c.u.spec = setup.spec;
  NM_CHECK_OK(io_status(&p.left, &c));
  nm_iface_info info;
  NM_CHECK(io_info(&p.left, notice.iface, &info));
  NM_CHECK_INT(info.bitrate, 54321);
  NM_CHECK_INT(info.mode, NM_IF_GATEWAY);
  /* A peer that is removed by hand is found again. */
  c = (nm_command){.kind = NM_COMMAND_IFACE_REMOVE, .iface = notice.iface};
  NM_CHECK_OK(io_status(&p.left, &c));
  (void)await_peer(&p.left, false);
  notice = await_peer(&p.left, true);
  NM_CHECK(io_info(&p.left, notice.iface, &info));
  NM_CHECK_INT(info.bitrate, 54321);
  c = (nm_command){.kind = NM_COMMAND_IFACE_REMOVE, .iface = p.left_iface};
  NM_CHECK_OK(io_status(&p.left, &c));
  (void)await_peer(&p.left, false);
  end(&p);
  leave();
}

NM_TEST(a_silent_peer_goes_at_its_time_out) {
  pair p;
  if (!enter()) {
    return;
  }
  begin(&p, NULL);
  (void)await_peer(&p.left, true);
  nm_iface_setup setup = auto_setup("left");
  nm_command c = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = p.left_iface};
  NM_CHECK_OK(io_status(&p.left, &c));
  (void)await_peer(&p.left, false);
  setup.automatic.peer_timeout_ms = 2500;
  (void)io_add(&p.left, &setup, NULL);
  nm_peer_notice found = await_peer(&p.left, true);
  c = (nm_command){.kind = NM_COMMAND_IFACE_PAUSE, .iface = p.right_iface};
  NM_CHECK_OK(io_status(&p.right, &c));
  nm_peer_notice lost = await_peer(&p.left, false);
  NM_CHECK_INT(lost.iface, found.iface);
  NM_CHECK(lost.at.mono_us - found.at.mono_us >= 2500000);
  c = (nm_command){.kind = NM_COMMAND_IFACE_RESUME, .iface = p.right_iface};
  NM_CHECK_OK(io_status(&p.right, &c));
  (void)await_peer(&p.left, true);
  end(&p);
  leave();
}

NM_TEST(a_device_whose_port_is_taken_is_told_and_used_once_it_is_free) {
  nm_loop *loop;
  io_node first;
  io_node second;
  if (!enter()) {
    return;
  }
  loop = io_loop(0);
  io_open(&first, loop, NULL);
  io_open(&second, loop, NULL);
  nm_iface_setup setup = auto_setup("left");
  nm_iface_id holder = io_add(&first, &setup, NULL);
  io_await_online(&first, holder, true);
  nm_iface_id waits = io_add(&second, &setup, NULL);
  nm_trouble trouble = io_trouble(&second, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.port, NM_PORT_LISTEN);
  NM_CHECK_INT(trouble.os_error, -EADDRINUSE);
  NM_CHECK(strcmp(trouble.file, "left") == 0);
  nm_device_info device = device_named(&second, waits, "left");
  NM_CHECK_INT(device.state, NM_DEVICE_FAILED);
  NM_CHECK_INT(device.os_error, -EADDRINUSE);
  nm_command c = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = holder};
  NM_CHECK_OK(io_status(&first, &c));
  io_await_online(&second, waits, true);
  io_close(&first);
  io_close(&second);
  NM_CHECK_OK(nm_loop_stop(loop));
  leave();
}

static bool is_carrier_trouble(const nm_node_event *event, const void *user) {
  const nm_port_trouble *wanted = user;
  return event->kind == NM_NODE_TROUBLE && event->u.trouble.port == *wanted;
}

/* A firewall that lets nothing in. */
NM_TEST(a_node_that_does_not_hear_itself_says_so_and_says_when_it_does) {
  if (!fault_available() || !enter()) {
    return;
  }
  nm_loop *loop = io_loop(0);
  io_node n;
  nm_node_event event;
  nm_port_trouble wanted = NM_PORT_CARRIER;
  io_open(&n, loop, NULL);
  fault_reset();
  fault_arm(FAULT_recvmmsg, 1, EAGAIN, true);
  nm_iface_setup setup = auto_setup("left");
  uint64_t began = io_now_us();
  nm_iface_id iface = io_add(&n, &setup, NULL);
  NM_CHECK(io_wait(&n, is_carrier_trouble, &wanted, IO_PATIENCE_MS, &event));
  NM_CHECK(io_now_us() - began >= NM_AUTO_ECHO_US);
  NM_CHECK(strcmp(event.u.trouble.file, "left") == 0);
  nm_device_info device = device_named(&n, iface, "left");
  NM_CHECK(device.echo_lost && !device.echo_heard && device.announces >= 4);
  nm_iface_info info;
  NM_CHECK(io_info(&n, iface, &info));
  NM_CHECK_INT(info.trouble, NM_PORT_CARRIER);
  fault_reset();
  wanted = NM_PORT_NO_TROUBLE;
  NM_CHECK(io_wait(&n, is_carrier_trouble, &wanted, IO_PATIENCE_MS, &event));
  device = device_named(&n, iface, "left");
  NM_CHECK(!device.echo_lost && device.echo_heard);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
  leave();
}

/* Each call of the way from opening to a found peer fails once: nothing is
 * lost but time. */
NM_TEST(each_call_of_discovery_fails_once_and_peers_are_found) {
  static const struct {
    fault_call call;
    unsigned at[3];
  } faults[] = {
      {FAULT_socket, {1, 2, 3}},       {FAULT_bind, {1, 2, 3}},
      {FAULT_setsockopt, {1, 6, 9}},   {FAULT_getsockname, {1, 2, 3}},
      {FAULT_uv_poll_init, {1, 2, 3}}, {FAULT_sendmmsg, {1, 2, 3}},
      {FAULT_recvmmsg, {1, 2, 3}},
  };
  if (!fault_available() || !enter()) {
    return;
  }
  fault_mem mem;
  fault_mem_init(&mem);
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]) * 3; i++) {
    pair p;
    int descriptors = io_open_descriptors();
    nm_test_context("%s number %u", fault_name(faults[i / 3].call),
                    faults[i / 3].at[i % 3]);
    fault_reset();
    fault_arm(faults[i / 3].call, faults[i / 3].at[i % 3], EIO, false);
    begin(&p, &mem.mem);
    (void)await_peer(&p.left, true);
    (void)await_peer(&p.right, true);
    fault_reset();
    exchange(&p.left, &p.right, 5);
    end(&p);
    NM_CHECK_INT(fault_mem_live(&mem), 0);
    NM_CHECK_INT(io_open_descriptors(), descriptors);
  }
  fault_mem_dispose(&mem);
  leave();
}

#endif
