/* UDP: what two nodes, and peers that are none, see of each other. Each test
 * has loopback addresses of its own, so that fixed ports do not clash.
 */
#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "io/recent.h"
#include "io/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 4242

#if defined(__linux__)

/* An address of 127/8 that no other process uses. */
static void own_address(char out[NM_ADDRESS_TEXT_MAX], unsigned number) {
  unsigned pid = (unsigned)getpid();
  (void)snprintf(out, NM_ADDRESS_TEXT_MAX, "127.%u.%u.%u",
                 1 + (pid >> 14 & 127), pid >> 6 & 255,
                 1 + ((pid & 63) << 2 | (number & 3)));
}

typedef struct pair {
  nm_loop *loop;
  io_node first;
  io_node second;
  nm_iface_id first_iface;
  nm_iface_id second_iface;
} pair;

static nm_iface_setup udp_setup(unsigned from, unsigned to) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_UDP, "udp");
  own_address(setup.host, from);
  own_address(setup.forward_host, to);
  setup.port = PORT;
  setup.forward_port = PORT;
  return setup;
}

static void begin(pair *p) {
  p->loop = io_loop(0);
  io_open(&p->first, p->loop, NULL);
  io_open(&p->second, p->loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  p->first_iface = io_add(&p->first, &setup, NULL);
  setup = udp_setup(2, 1);
  p->second_iface = io_add(&p->second, &setup, NULL);
}

static void end(pair *p) {
  io_close(&p->first);
  io_close(&p->second);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

/* A plain socket at an address of ours. */
static int raw_socket(unsigned number, uint16_t port) {
  char text[NM_ADDRESS_TEXT_MAX];
  nm_udp_options options = {0};
  uint16_t bound;
  own_address(text, number);
  NM_CHECK_INT(nm_address_parse(text, port, &options.at), 0);
  int fd = nm_udp_open(&options, &bound);
  NM_CHECK(fd >= 0);
  return fd;
}

static void raw_send(int fd, unsigned to, const void *bytes, size_t len) {
  char text[NM_ADDRESS_TEXT_MAX];
  nm_address at;
  own_address(text, to);
  NM_CHECK_INT(nm_address_parse(text, PORT, &at), 0);
  NM_CHECK(sendto(fd, bytes, len, 0, &at.any, nm_address_size(&at)) ==
           (ssize_t)len);
}

/* The length of the next datagram, -1 when none comes in time. */
static ssize_t raw_receive(int fd, int timeout_ms) {
  uint8_t bytes[2048];
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, timeout_ms) > 0 ? recv(fd, bytes, sizeof(bytes), 0) : -1;
}

typedef bool info_check(const nm_iface_info *info);

static nm_iface_info await_info(io_node *n, nm_iface_id iface,
                                info_check *check) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  for (;;) {
    NM_CHECK(io_info(n, iface, &info));
    if (check(&info)) {
      return info;
    }
    NM_CHECK(io_now_us() < until);
    (void)io_sees(n, NM_EVENT_IFACE, 10);
  }
}

static void exchange(io_node *from, io_node *to, uint8_t seed,
                     const char *name) {
  nm_destination_hash hash = io_listen(to, seed, name, NULL);
  io_announce(to, &hash);
  io_await_path(from, &hash);
  NM_CHECK_INT(io_send(from, &hash, "hello"), NM_RECEIPT_DELIVERED);
  nm_event packet = io_event(to, NM_EVENT_PACKET, 0);
  NM_CHECK_SPAN(nm_block_span(packet.data), nm_span_of("hello", 5));
  nm_event_dispose(&packet);
}

NM_TEST(packets_and_proofs_cross_udp_in_both_directions) {
  pair p;
  begin(&p);
  exchange(&p.first, &p.second, 7, "test.second");
  exchange(&p.second, &p.first, 8, "test.first");
  nm_iface_info info;
  NM_CHECK(io_info(&p.first, p.first_iface, &info));
  char name[NM_IFACE_NAME_MAX + 1];
  char host[NM_ADDRESS_TEXT_MAX];
  own_address(host, 1);
  (void)snprintf(name, sizeof(name), "UDPInterface[udp/%s:%d]", host, PORT);
  NM_CHECK(strcmp(info.name, name) == 0);
  NM_CHECK(info.online && info.listening && info.port == PORT);
  NM_CHECK_INT(info.hw_mtu, 1064);
  NM_CHECK_INT(info.bitrate, 10000000);
  NM_CHECK(info.wire_rx_bytes > 0 && info.wire_tx_bytes > 0);
  NM_CHECK_INT(info.wire_rx_bytes, info.counters.rx_bytes);
  NM_CHECK_INT(info.wire_tx_bytes, info.counters.tx_bytes);
  end(&p);
}

NM_TEST(a_link_over_udp_stays_at_the_smallest_mtu) {
  pair p;
  begin(&p);
  nm_destination_hash hash = io_listen(&p.second, 9, "test.link", NULL);
  io_announce(&p.second, &hash);
  io_await_path(&p.first, &hash);
  nm_link_ref link = io_link(&p.first, &hash);
  nm_command c = {.kind = NM_COMMAND_LINK_INFO, .link = link};
  nm_node_event event = io_ask(&p.first, &c);
  NM_CHECK_OK(event.u.reply.status);
  nm_link_info info;
  memcpy(&info, nm_block_span(event.u.reply.records).ptr, sizeof(info));
  NM_CHECK_INT(info.mtu, 500);
  io_done(&event);
  end(&p);
}

NM_TEST(an_access_code_keeps_strangers_out_of_udp) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  NM_CHECK_OK(nm_ifac_init(&setup.spec.ifac, nm_span_of("net", 3),
                           nm_span_of("secret", 6), 16));
  setup.spec.ifac_set = true;
  nm_iface_id closed = io_add(&a, &setup, NULL);
  setup = udp_setup(2, 1);
  nm_iface_id open = io_add(&b, &setup, NULL);
  nm_destination_hash hash = io_listen(&b, 3, "test.stranger", NULL);
  io_announce(&b, &hash);
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  do {
    NM_CHECK(io_info(&a, closed, &info));
    NM_CHECK(io_now_us() < until);
  } while (info.counters.drops[NM_DROP_IFAC_MISSING] == 0);
  NM_CHECK(io_info(&b, open, &info));
  NM_CHECK_INT(info.counters.tx_packets, 1);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static bool has_oversize(const nm_iface_info *info) {
  return info->rx_oversize > 0;
}

static bool has_drops(const nm_iface_info *info) {
  uint64_t sum = 0;
  for (size_t i = 0; i < NM_DROP_COUNT; i++) {
    sum += info->counters.drops[i];
  }
  return sum >= 3;
}

NM_TEST(datagrams_of_any_length_harm_nothing) {
  pair p;
  begin(&p);
  uint8_t bytes[4000];
  memset(bytes, 0x5a, sizeof(bytes));
  int fd = raw_socket(3, 0);
  raw_send(fd, 1, bytes, 0);
  raw_send(fd, 1, bytes, 1);
  raw_send(fd, 1, bytes, 1064);
  raw_send(fd, 1, bytes, 1065);
  raw_send(fd, 1, bytes, sizeof(bytes));
  nm_iface_info info = await_info(&p.first, p.first_iface, has_oversize);
  (void)await_info(&p.first, p.first_iface, has_drops);
  exchange(&p.first, &p.second, 4, "test.after");
  NM_CHECK(io_info(&p.first, p.first_iface, &info));
  NM_CHECK_INT(info.rx_oversize, 2);
  close(fd);
  end(&p);
}

static bool has_echo(const nm_iface_info *info) {
  return info->rx_echoes > 0;
}

NM_TEST(what_comes_back_from_a_broadcast_is_known_as_our_own) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 1);
  nm_iface_id iface = io_add(&n, &setup, NULL);
  nm_destination_hash hash = io_listen(&n, 5, "test.echo", NULL);
  io_announce(&n, &hash);
  nm_iface_info info = await_info(&n, iface, has_echo);
  NM_CHECK_INT(info.rx_echoes, 1);
  NM_CHECK_INT(info.counters.rx_packets, 0);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(a_datagram_is_recent_at_another_place_for_a_while) {
  nm_recent recent = {.key = {1}};
  nm_span one = nm_span_of("one", 3);
  NM_CHECK(!nm_recent_seen(&recent, one, 1, 1000));
  NM_CHECK(!nm_recent_seen(&recent, one, 1, 2000)); /* sent again */
  NM_CHECK(nm_recent_seen(&recent, one, 2, 3000));
  NM_CHECK(nm_recent_seen(&recent, one, 2, 2000 + NM_RECENT_US - 1));
  NM_CHECK(!nm_recent_seen(&recent, one, 2, 2000 + NM_RECENT_US));
  NM_CHECK(!nm_recent_seen(&recent, nm_span_of("two", 3), 2, 3000));
  /* The oldest give way. */
  NM_CHECK(!nm_recent_seen(&recent, nm_span_of("old", 3), 1, 5000000));
  for (uint8_t i = 0; i < NM_RECENT_COUNT; i++) {
    NM_CHECK(!nm_recent_seen(&recent, nm_span_of(&i, 1), 1, 5000000));
  }
  NM_CHECK(!nm_recent_seen(&recent, nm_span_of("old", 3), 2, 5000000));
}

static bool has_network_error(const nm_iface_info *info) {
  return info->network_errors > 0;
}

static bool is_well(const nm_iface_info *info) {
  return info->trouble == NM_PORT_NO_TROUBLE;
}

NM_TEST(a_peer_that_is_not_there_is_told_once_and_may_come_later) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  nm_iface_id iface = io_add(&a, &setup, NULL);
  nm_destination_hash hash = io_listen(&a, 6, "test.alone", NULL);
  io_announce(&a, &hash);
  nm_trouble trouble = io_trouble(&a, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.port, NM_PORT_CONNECT);
  NM_CHECK_INT(trouble.os_error, -ECONNREFUSED);
  io_announce(&a, &hash);
  (void)await_info(&a, iface, has_network_error);
  nm_node_event event;
  while (nm_node_next(a.node, &event)) {
    NM_CHECK(event.kind != NM_NODE_TROUBLE);
    nm_node_event_dispose(&event);
  }
  setup = udp_setup(2, 1);
  (void)io_add(&b, &setup, NULL);
  exchange(&a, &b, 7, "test.there");
  (void)await_info(&a, iface, is_well);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(an_interface_may_only_send_or_only_listen) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  setup.forward_host[0] = '\0';
  setup.forward_port = 0;
  nm_iface_id in = io_add(&a, &setup, NULL);
  setup = udp_setup(2, 1);
  setup.host[0] = '\0';
  setup.port = 0;
  nm_iface_id out = io_add(&b, &setup, NULL);
  nm_destination_hash hash = io_listen(&b, 2, "test.oneway", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  nm_iface_info info;
  NM_CHECK(io_info(&a, in, &info));
  NM_CHECK(info.online && info.listening);
  NM_CHECK(io_info(&b, out, &info));
  NM_CHECK(info.online && !info.listening);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(udp_works_over_ipv6) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_UDP, "six");
  memcpy(setup.host, "::1", 4);
  uint16_t port = 0;
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  c.u.iface = setup;
  nm_node_event event = io_ask(&a, &c);
  if (event.u.reply.os_error == -EADDRNOTAVAIL ||
      event.u.reply.os_error == -EAFNOSUPPORT) {
    printf("  skipped: this machine has no IPv6 loopback\n");
  } else {
    NM_CHECK_OK(event.u.reply.status);
    port = (uint16_t)event.u.reply.number;
    NM_CHECK(port != 0);
    setup.host[0] = '\0';
    memcpy(setup.forward_host, "::1", 4);
    setup.forward_port = port;
    (void)io_add(&b, &setup, NULL);
    nm_destination_hash hash = io_listen(&b, 2, "test.six", NULL);
    io_announce(&b, &hash);
    io_await_path(&a, &hash);
  }
  io_done(&event);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static bool is_online(const nm_iface_info *info) {
  return info->online;
}

NM_TEST(udp_sends_to_a_host_by_its_name) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_UDP, "named");
  memcpy(setup.host, "127.0.0.1", 10);
  uint16_t port = 0;
  (void)io_add(&a, &setup, &port);
  setup.host[0] = '\0';
  memcpy(setup.forward_host, "localhost", 10);
  setup.forward_port = port;
  nm_iface_id out = io_add(&b, &setup, NULL);
  (void)await_info(&b, out, is_online);
  nm_destination_hash hash = io_listen(&b, 2, "test.named", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static bool is_unresolved(const nm_iface_info *info) {
  return info->trouble == NM_PORT_RESOLVE;
}

NM_TEST(udp_says_when_a_name_is_not_known_and_tries_again) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  memcpy(setup.forward_host, "nowhere.invalid", 16);
  nm_iface_id id = io_add(&n, &setup, NULL);
  nm_iface_info info = await_info(&n, id, is_unresolved);
  NM_CHECK(!info.online);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* What an ADD with |setup| is answered with. */
static int refusal(io_node *n, const nm_iface_setup *setup, int *os_error) {
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  c.u.iface = *setup;
  nm_node_event event = io_ask(n, &c);
  int status = event.u.reply.status;
  *os_error = event.u.reply.os_error;
  io_done(&event);
  return status;
}

NM_TEST(udp_options_that_cannot_be_met_are_refused) {
  nm_loop *loop = io_loop(0);
  io_node n;
  int error;
  io_open(&n, loop, NULL);
  int descriptors = io_open_descriptors();
  nm_iface_setup setup = io_setup(NM_MEDIUM_UDP, "bad");
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(ARGUMENT));
  setup = udp_setup(1, 2);
  memcpy(setup.host, "nowhere", 8);
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(ARGUMENT));
  setup = udp_setup(1, 2);
  memcpy(setup.forward_host, "fe80::1%nodev", 14);
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(LIBRARY));
  NM_CHECK_INT(error, -ENODEV);
  setup = udp_setup(1, 2);
  setup.forward_port = 0;
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(ARGUMENT));
  setup = udp_setup(1, 2);
  memcpy(setup.device, "nodev", 6);
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(LIBRARY));
  setup.host[0] = '\0';
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(LIBRARY));
  NM_CHECK_INT(error, -ENODEV);
  int taken = raw_socket(1, PORT);
  setup = udp_setup(1, 2);
  NM_CHECK_STATUS(refusal(&n, &setup, &error), NM_E(LIBRARY));
  NM_CHECK_INT(error, -EADDRINUSE);
  close(taken);
  NM_CHECK_INT(io_open_descriptors(), descriptors);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(a_paused_interface_takes_no_datagrams) {
  pair p;
  begin(&p);
  nm_destination_hash hash = io_listen(&p.second, 7, "test.pause", NULL);
  nm_command c = {.kind = NM_COMMAND_IFACE_PAUSE, .iface = p.first_iface};
  NM_CHECK_OK(io_status(&p.first, &c));
  io_announce(&p.second, &hash);
  nm_iface_info info;
  NM_CHECK(io_info(&p.first, p.first_iface, &info));
  NM_CHECK(info.paused && !info.online);
  NM_CHECK_INT(info.counters.rx_packets, 0);
  c = (nm_command){.kind = NM_COMMAND_IFACE_RESUME, .iface = p.first_iface};
  NM_CHECK_OK(io_status(&p.first, &c));
  io_await_path(&p.first, &hash); /* it waited in the socket */
  end(&p);
}

/* ---- failing calls ---- */

typedef struct failure {
  int error;
  bool all_after;
  nm_port_drop reason; /* NM_PORT_DROP_COUNT: nothing is dropped */
} failure;

static nm_port_drop awaited;

static bool has_the_drop(const nm_iface_info *info) {
  return info->drops[awaited] > 0;
}

NM_TEST(each_error_of_sending_is_counted_and_survived) {
  static const failure failures[] = {
      {EAGAIN, false, NM_PORT_DROP_COUNT},
      {EINTR, false, NM_PORT_DROP_COUNT},
      {ENOBUFS, false, NM_PORT_DROP_COUNT},
      {ENOBUFS, true, NM_PORT_DROP_BUFFERS},
      {ECONNREFUSED, false, NM_PORT_DROP_COUNT},
      {ECONNREFUSED, true, NM_PORT_DROP_UNREACHABLE},
      {EMSGSIZE, false, NM_PORT_DROP_TOO_LARGE},
      {ENETUNREACH, false, NM_PORT_DROP_UNREACHABLE},
      {EPERM, false, NM_PORT_DROP_UNREACHABLE},
      {EINVAL, false, NM_PORT_DROP_UNREACHABLE},
  };
  if (!fault_available()) {
    return;
  }
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  int fd = raw_socket(2, PORT);
  nm_iface_setup setup = udp_setup(1, 2);
  nm_iface_id iface = io_add(&n, &setup, NULL);
  nm_destination_hash hash = io_listen(&n, 7, "test.faults", NULL);
  for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
    const failure *f = &failures[i];
    nm_test_context("errno %d%s", f->error, f->all_after ? " for good" : "");
    nm_iface_info before;
    NM_CHECK(io_info(&n, iface, &before));
    fault_reset();
    fault_arm(FAULT_sendmmsg, 1, f->error, f->all_after);
    io_announce(&n, &hash);
    if (f->reason == NM_PORT_DROP_COUNT) {
      NM_CHECK(raw_receive(fd, IO_PATIENCE_MS) > 0);
    } else {
      awaited = f->reason;
      uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
      nm_iface_info info;
      do {
        info = await_info(&n, iface, has_the_drop);
        NM_CHECK(io_now_us() < until);
      } while (info.drops[f->reason] == before.drops[f->reason]);
      NM_CHECK_INT(info.drops[f->reason], before.drops[f->reason] + 1);
    }
    fault_reset();
    /* A socket that was of no use any more is made anew meanwhile. */
    io_announce(&n, &hash);
    NM_CHECK(raw_receive(fd, IO_PATIENCE_MS) > 0);
  }
  close(fd);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(output_that_waits_is_bounded) {
  if (!fault_available()) {
    return;
  }
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  int fd = raw_socket(2, PORT);
  nm_iface_setup setup = udp_setup(1, 2);
  setup.queue_packets = 4;
  nm_iface_id iface = io_add(&n, &setup, NULL);
  nm_destination_hash hash = io_listen(&n, 7, "test.bounded", NULL);
  fault_reset();
  fault_arm(FAULT_sendmmsg, 1, EAGAIN, true);
  for (int i = 0; i < 10; i++) {
    nm_command c = {.kind = NM_COMMAND_ANNOUNCE, .destination = hash};
    uint64_t ticket = io_post(&n, &c);
    nm_event done = io_event(&n, NM_EVENT_ANNOUNCED, ticket);
    nm_event_dispose(&done);
  }
  nm_iface_info info;
  NM_CHECK(io_info(&n, iface, &info));
  NM_CHECK_INT(info.queued_packets, 4);
  NM_CHECK_INT(info.drops[NM_PORT_DROP_PACKETS], 6);
  fault_reset();
  for (int i = 0; i < 4; i++) {
    NM_CHECK(raw_receive(fd, IO_PATIENCE_MS) > 0);
  }
  NM_CHECK_INT(raw_receive(fd, 50), -1);
  close(fd);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(each_error_of_receiving_is_survived) {
  static const int errors[] = {EAGAIN, EINTR, ECONNREFUSED, ENOMEM};
  if (!fault_available()) {
    return;
  }
  pair p;
  begin(&p);
  for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
    char name[16];
    nm_test_context("errno %d", errors[i]);
    (void)snprintf(name, sizeof(name), "test.r%zu", i);
    fault_reset();
    fault_arm(FAULT_recvmmsg, 1, errors[i], false);
    exchange(&p.first, &p.second, (uint8_t)(20 + i), name);
  }
  fault_reset();
  end(&p);
}

NM_TEST(each_call_that_opens_udp_fails_once_without_a_leak) {
  static const fault_call calls[] = {FAULT_socket, FAULT_setsockopt, FAULT_bind,
                                     FAULT_getsockname, FAULT_uv_poll_init};
  if (!fault_available()) {
    return;
  }
  nm_loop *loop = io_loop(0);
  io_node n;
  int error;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = udp_setup(1, 2);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    int descriptors = io_open_descriptors();
    nm_test_context("%s", fault_name(calls[i]));
    fault_reset();
    fault_arm(calls[i], 1, EMFILE, false);
    int status = refusal(&n, &setup, &error);
    NM_CHECK(status != NM_OK);
    fault_reset();
    uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
    while (io_open_descriptors() > descriptors) {
      NM_CHECK(io_now_us() < until);
    }
  }
  /* The sending socket alone: it is made later. */
  fault_reset();
  fault_arm(FAULT_connect, 1, ENETUNREACH, false);
  nm_iface_id iface = io_add(&n, &setup, NULL);
  nm_trouble trouble = io_trouble(&n, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.os_error, -ENETUNREACH);
  (void)await_info(&n, iface, is_well);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

#endif
