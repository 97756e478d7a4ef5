/* TCP: what two nodes, and peers that are none, see of each other. */
#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "io/port.h" /* nm_port_inherit */
#include "wire/destination.h"
#include "wire/hdlc.h"
#include "wire/kiss.h"
#include "wire/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct pair {
  nm_loop *loop;
  io_node server;
  io_node client;
  uint16_t port;
  nm_iface_id listener;
  nm_iface_id out; /* the client's */
} pair;

static void begin(pair *p) {
  p->loop = io_loop(0);
  io_open(&p->server, p->loop, NULL);
  io_open(&p->client, p->loop, NULL);
  p->listener = io_serve(&p->server, &p->port);
  p->out = io_connect(&p->client, p->port);
}

static void end(pair *p) {
  io_close(&p->client);
  io_close(&p->server);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

/* A node, a listener, and raw peers. */
typedef struct lone {
  nm_loop *loop;
  io_node node;
  uint16_t port;
  nm_iface_id listener;
} lone;

static void begin_lone(lone *l, void (*adjust)(nm_iface_setup *setup)) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  if (adjust != NULL) {
    adjust(&setup);
  }
  l->loop = io_loop(0);
  io_open(&l->node, l->loop, NULL);
  l->listener = io_add(&l->node, &setup, &l->port);
}

static void end_lone(lone *l) {
  io_close(&l->node);
  NM_CHECK_OK(nm_loop_stop(l->loop));
}

/* The first child of a server, as soon as it has one. */
/* A child of |server| that is online, other than |but|. */
static nm_iface_info child_beside(io_node *n, nm_iface_id server,
                                  nm_iface_id but) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  for (;;) {
    nm_command c = {.kind = NM_COMMAND_IFACE_LIST};
    nm_node_event event = io_ask(n, &c);
    size_t count;
    const nm_iface_info *rows = nm_iface_infos(event.u.reply.records, &count);
    for (size_t i = 0; i < count; i++) {
      if (rows[i].parent == server && rows[i].online && rows[i].id != but) {
        nm_iface_info found = rows[i];
        io_done(&event);
        return found;
      }
    }
    io_done(&event);
    NM_CHECK(io_now_us() < until);
    (void)io_sees(n, NM_EVENT_IFACE, 20);
  }
}

static nm_iface_info child_of(io_node *n, nm_iface_id server) {
  return child_beside(n, server, 0);
}

static void await_connections(io_node *n, nm_iface_id server, uint32_t count) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  for (;;) {
    NM_CHECK(io_info(n, server, &info));
    if (info.connections == count) {
      return;
    }
    if (io_now_us() > until) {
      nm_test_fail(__FILE__, __LINE__, "%u connections, expected %u",
                   info.connections, count);
    }
    (void)io_sees(n, NM_EVENT_IFACE, 20);
  }
}

static bool peer_closed(int fd, int timeout_ms) {
  uint64_t until = io_now_us() + (uint64_t)timeout_ms * 1000;
  uint8_t bytes[4096];
  while (io_now_us() < until) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 50) > 0) {
      ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
      if (got == 0 || (got < 0 && errno != EINTR)) {
        return true;
      }
    }
  }
  return false;
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

NM_TEST(packets_and_proofs_cross_tcp_in_both_directions) {
  pair p;
  begin(&p);
  exchange(&p.client, &p.server, 7, "test.server");
  exchange(&p.server, &p.client, 8, "test.client");
  end(&p);
}

NM_TEST(a_link_carries_a_request_and_a_resource) {
  pair p;
  begin(&p);
  nm_destination_hash hash = io_listen(&p.server, 7, "test.echo", NULL);
  nm_command handle = {.kind = NM_COMMAND_HANDLE,
                       .destination = hash,
                       .data = io_text("/double"),
                       .allow = NM_ALLOW_ALL};
  NM_CHECK_OK(io_status(&p.server, &handle));
  io_announce(&p.server, &hash);
  io_await_path(&p.client, &hash);
  nm_link_ref link = io_link(&p.client, &hash);

  const uint8_t asked[] = {0xa2, 'h', 'i'};
  nm_command request = {.kind = NM_COMMAND_REQUEST,
                        .link = link,
                        .extra = io_text("/double"),
                        .data = io_block(asked, sizeof(asked))};
  uint64_t ticket = io_post(&p.client, &request);
  nm_event got = io_event(&p.server, NM_EVENT_REQUEST, 0);
  NM_CHECK_SPAN(nm_block_span(got.data), nm_span_of(asked, sizeof(asked)));
  const uint8_t answer[] = {0xa4, 'h', 'i', 'h', 'i'};
  nm_command respond = {.kind = NM_COMMAND_RESPOND,
                        .token = got.token,
                        .data = io_block(answer, sizeof(answer))};
  NM_CHECK_OK(io_status(&p.server, &respond));
  nm_event response = io_event(&p.client, NM_EVENT_RESPONSE, ticket);
  NM_CHECK_OK(response.status);
  NM_CHECK_SPAN(nm_block_span(response.data),
                nm_span_of(answer, sizeof(answer)));
  nm_event served = io_event(&p.server, NM_EVENT_LINK_ACTIVE, 0);

  nm_command policy = {.kind = NM_COMMAND_LINK_POLICY,
                       .link = served.link,
                       .accept = NM_ACCEPT_ALL};
  NM_CHECK_OK(io_status(&p.server, &policy));
  enum { BYTES = 600000 };
  uint8_t *content = malloc(BYTES);
  nm_test_random_bytes(content, BYTES);
  nm_command send = {.kind = NM_COMMAND_RESOURCE_SEND,
                     .link = link,
                     .data = io_block(content, BYTES)};
  ticket = io_post(&p.client, &send);
  nm_event sent = io_event(&p.client, NM_EVENT_RESOURCE_OUT, ticket);
  NM_CHECK_OK(sent.status);
  nm_event came = io_event(&p.server, NM_EVENT_RESOURCE_IN, 0);
  NM_CHECK_SPAN(nm_block_span(came.data), nm_span_of(content, BYTES));
  free(content);
  nm_event_dispose(&got);
  nm_event_dispose(&response);
  nm_event_dispose(&served);
  nm_event_dispose(&sent);
  nm_event_dispose(&came);
  end(&p);
}

NM_TEST(a_connecting_client_synthesises_its_tunnel_first) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  uint16_t port;
  int listener = io_raw_listen(&port);
  nm_iface_id id = io_connect(&n, port);
  int fd = accept(listener, NULL, NULL);
  NM_CHECK(fd >= 0);
  uint8_t wire[1024];
  uint8_t raw[1024];
  size_t len = 0;
  nm_reader in;
  nm_span frame = nm_span_of(NULL, 0);
  nm_hdlc_limits limits = {20, sizeof(raw), 2048};
  nm_hdlc_decoder decoder;
  NM_CHECK_OK(nm_hdlc_decoder_init(&decoder, raw, &limits));
  bool whole = false;
  while (!whole) {
    ssize_t got = recv(fd, &wire[len], sizeof(wire) - len, 0);
    NM_CHECK(got > 0);
    in = nm_reader_of(nm_span_of(&wire[len], (size_t)got));
    whole = nm_hdlc_decoder_next(&decoder, &in, &frame);
    len += (size_t)got;
  }
  /* Flags 08, hops 0, the tunnel destination, context 0, 176 bytes
   * (RNS 1, 8.11). */
  NM_CHECK_INT(frame.len, 2 + 16 + 1 + 176);
  NM_CHECK_INT(frame.ptr[0], 0x08);
  NM_CHECK_HEX(nm_span_slice(frame, 2, 16), "91bf0910267b59b0e864e0d4c91602ca");
  NM_CHECK_BYTES(nm_span_slice(frame, 19, 64).ptr,
                 nm_node_identity(n.node)->public_key, 64);
  nm_iface_info info;
  NM_CHECK(io_info(&n, id, &info));
  NM_CHECK_BYTES(nm_span_slice(frame, 19 + 64, 32).ptr, info.hash, 32);
  close(fd);
  close(listener);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static void use_ipv6(nm_iface_setup *setup) {
  memcpy(setup->host, "::1", 4);
}

NM_TEST(ipv6_and_host_names_connect_and_are_named_as_upstream_does) {
  lone l;
  io_node client;
  begin_lone(&l, use_ipv6);
  io_open(&client, l.loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "six");
  use_ipv6(&setup);
  setup.port = l.port;
  nm_iface_id six = io_add(&client, &setup, NULL);
  io_await_online(&client, six, true);
  nm_iface_info info;
  char expected[128];
  uint8_t hash[NM_HASH_SIZE];
  NM_CHECK(io_info(&client, six, &info));
  (void)snprintf(expected, sizeof(expected), "TCPInterface[six/[::1]:%u]",
                 l.port);
  NM_CHECK(strcmp(info.name, expected) == 0);
  nm_interface_hash(nm_span_of(expected, strlen(expected)), hash);
  NM_CHECK_BYTES(info.hash, hash, NM_HASH_SIZE);
  NM_CHECK(io_info(&l.node, l.listener, &info));
  (void)snprintf(expected, sizeof(expected),
                 "TCPServerInterface[server/[::1]:%u]", l.port);
  NM_CHECK(strcmp(info.name, expected) == 0);
  nm_iface_info child = child_of(&l.node, l.listener);
  NM_CHECK(strncmp(child.name, "TCPInterface[Client on server/[::1]:", 36) ==
           0);

  uint16_t port;
  (void)io_serve(&client, &port);
  setup = io_setup(NM_MEDIUM_TCP_CLIENT, "named");
  memcpy(setup.host, "localhost", 10);
  setup.port = port;
  nm_iface_id named = io_add(&l.node, &setup, NULL);
  io_await_online(&l.node, named, true);
  NM_CHECK(io_info(&l.node, named, &info));
  (void)snprintf(expected, sizeof(expected), "TCPInterface[named/localhost:%u]",
                 port);
  NM_CHECK(strcmp(info.name, expected) == 0);
  io_close(&client);
  end_lone(&l);
}

static void use_kiss(nm_iface_setup *setup) {
  setup->kiss = true;
}

NM_TEST(kiss_framing_carries_packets_and_no_tunnel) {
  lone l;
  io_node client;
  begin_lone(&l, use_kiss);
  io_open(&client, l.loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "kiss");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = l.port;
  setup.kiss = true;
  nm_iface_id id = io_add(&client, &setup, NULL);
  io_await_online(&client, id, true);
  exchange(&client, &l.node, 7, "test.kiss");
  nm_iface_info child = child_of(&l.node, l.listener);
  NM_CHECK_INT(child.rx_discarded_bytes, 0);
  nm_iface_info info;
  NM_CHECK(io_info(&client, id, &info));
  /* The path request and one packet, nothing else. */
  NM_CHECK_INT(child.counters.rx_packets, info.counters.tx_packets);
  io_close(&client);
  end_lone(&l);
}

static void use_ifac(nm_iface_setup *setup) {
  setup->spec.ifac_set = true;
  NM_CHECK_OK(nm_ifac_init(&setup->spec.ifac, nm_span_of("net", 3),
                           nm_span_of("secret", 6), 16));
}

NM_TEST(access_codes_let_in_who_has_them_and_nobody_else) {
  lone l;
  io_node friend;
  io_node stranger;
  begin_lone(&l, use_ifac);
  io_open(&friend, l.loop, NULL);
  io_open(&stranger, l.loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "friend");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = l.port;
  use_ifac(&setup);
  io_await_online(&friend, io_add(&friend, &setup, NULL), true);
  exchange(&friend, &l.node, 7, "test.ifac");
  nm_iface_id other = io_connect(&stranger, l.port);
  nm_destination_hash hash = io_listen(&stranger, 9, "test.out", NULL);
  io_announce(&stranger, &hash);
  nm_iface_info info;
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  do {
    NM_CHECK(io_info(&l.node, l.listener, &info));
    NM_CHECK(io_now_us() < until);
  } while (info.counters.drops[NM_DROP_IFAC_MISSING] < 2);
  NM_CHECK(io_info(&stranger, other, &info));
  NM_CHECK_INT(info.counters.tx_packets, 2); /* tunnel and announce */
  io_close(&friend);
  io_close(&stranger);
  end_lone(&l);
}

static void set_every_property(nm_iface_setup *setup) {
  nm_iface_spec *spec = &setup->spec;
  spec->mode = NM_IF_GATEWAY;
  spec->mtu_mode = NM_MTU_FIXED;
  spec->hw_mtu = 2000;
  spec->bitrate = 123456;
  spec->announce_cap = 0.5;
  spec->rate_target_s = 11;
  spec->rate_grace = 12;
  spec->rate_penalty_s = 13;
  spec->ingress_control = false;
  spec->gravity = 7;
  spec->recursive_prs = true;
  spec->announces_from_internal = false;
  spec->announces_to_internal = 1;
  use_ifac(setup);
  setup->i2p_tunneled = true;
  setup->queue_bytes = 12345;
  setup->queue_packets = 67;
  setup->connections_max = 89;
  setup->automatic.peer_timeout_ms = 1234;
}

/* For each kind that has children, with each direction open and closed. */
NM_TEST(children_inherit_every_setting) {
  static const nm_medium kinds[][2] = {
      {NM_MEDIUM_TCP_SERVER, NM_MEDIUM_TCP_CHILD},
      {NM_MEDIUM_AUTO, NM_MEDIUM_AUTO_PEER},
  };
  nm_port *parent = nm_test_scratch(sizeof(*parent));
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) * 4; i++) {
    nm_medium kind = kinds[i / 4][0];
    nm_test_context("%s, directions %zu", nm_medium_name(kind), i % 4);
    NM_CHECK(nm_medium_is_parent(kind));
    memset(parent, 0, sizeof(*parent));
    nm_iface_setup setup = io_setup(kind, "parent");
    parent->setup = &setup;
    set_every_property(&setup);
    memcpy(setup.device, "eth7", sizeof("eth7"));
    parent->wants_sends = i % 2 == 1;
    parent->wants_receives = i % 4 >= 2;
    nm_iface_setup child;
    nm_port_inherit(parent, &child);
    NM_CHECK_INT(child.medium, kinds[i / 4][1]);
    /* All the rest is equal, also what will be added one day. */
    nm_iface_setup expected = setup;
    expected.medium = kinds[i / 4][1];
    expected.spec.receives = parent->wants_receives;
    expected.spec.sends = parent->wants_sends;
    expected.spec.online = false;
    NM_CHECK_BYTES((const void *)&child, (const void *)&expected,
                   sizeof(child));
  }
}

static nm_iface_info change(io_node *n, nm_iface_id iface,
                            const nm_iface_setup *setup) {
  nm_iface_info info;
  nm_command c = {.kind = NM_COMMAND_IFACE_CHANGE, .iface = iface};
  c.u.spec = setup->spec;
  NM_CHECK_OK(io_status(n, &c));
  NM_CHECK(io_info(n, iface, &info));
  return info;
}

/* Siblings share their settings in memory. */
NM_TEST(a_child_that_is_changed_leaves_its_siblings_alone) {
  lone l;
  begin_lone(&l, NULL);
  int first = io_raw_connect(l.port);
  nm_iface_info one = child_of(&l.node, l.listener);
  int second = io_raw_connect(l.port);
  nm_iface_info other = child_beside(&l.node, l.listener, one.id);
  NM_CHECK(strcmp(one.name, other.name) != 0);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  setup.spec.mode = NM_IF_ROAMING;
  use_ifac(&setup);
  nm_iface_info changed = change(&l.node, one.id, &setup);
  NM_CHECK_INT(changed.mode, NM_IF_ROAMING);
  NM_CHECK(changed.has_ifac);
  NM_CHECK(strcmp(changed.name, one.name) == 0);
  NM_CHECK(io_info(&l.node, other.id, &other));
  NM_CHECK_INT(other.mode, NM_IF_FULL);
  NM_CHECK(!other.has_ifac);
  /* Of the server's change, both take part. */
  setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  setup.spec.mode = NM_IF_BOUNDARY;
  (void)change(&l.node, l.listener, &setup);
  NM_CHECK(io_info(&l.node, one.id, &changed));
  NM_CHECK(io_info(&l.node, other.id, &other));
  NM_CHECK_INT(changed.mode, NM_IF_BOUNDARY);
  NM_CHECK_INT(other.mode, NM_IF_BOUNDARY);
  NM_CHECK(!changed.has_ifac);
  NM_CHECK(changed.online && other.online);
  close(first);
  close(second);
  end_lone(&l);
}

NM_TEST(a_child_works_under_its_servers_settings_and_follows_changes) {
  lone l;
  begin_lone(&l, set_every_property);
  int fd = io_raw_connect(l.port);
  nm_iface_info child = child_of(&l.node, l.listener);
  NM_CHECK_INT(child.mode, NM_IF_GATEWAY);
  NM_CHECK_INT(child.hw_mtu, 2000);
  NM_CHECK_INT(child.bitrate, 123456);
  NM_CHECK_INT(child.ifac_size, 16);
  NM_CHECK(child.has_ifac);
  nm_iface_setup changed = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  changed.spec.mode = NM_IF_ROAMING;
  changed.spec.mtu_mode = NM_MTU_FIXED;
  changed.spec.hw_mtu = 1500;
  nm_command c = {.kind = NM_COMMAND_IFACE_CHANGE, .iface = l.listener};
  c.u.spec = changed.spec;
  NM_CHECK_OK(io_status(&l.node, &c));
  NM_CHECK(io_info(&l.node, child.id, &child));
  NM_CHECK_INT(child.mode, NM_IF_ROAMING);
  NM_CHECK_INT(child.hw_mtu, 1500);
  NM_CHECK(!child.has_ifac);
  NM_CHECK(child.online);
  close(fd);
  end_lone(&l);
}

NM_TEST(a_client_reconnects_and_links_learn_of_it) {
  pair p;
  begin(&p);
  nm_destination_hash hash = io_listen(&p.server, 7, "test.echo", NULL);
  io_announce(&p.server, &hash);
  io_await_path(&p.client, &hash);
  nm_link_ref link = io_link(&p.client, &hash);
  nm_iface_info child = child_of(&p.server, p.listener);
  nm_command cut = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = child.id};
  NM_CHECK_OK(io_status(&p.server, &cut));
  nm_event closed = io_event(&p.client, NM_EVENT_LINK_CLOSED, 0);
  NM_CHECK_INT(closed.link, link);
  NM_CHECK_INT(closed.close_reason, NM_CLOSE_IFACE_GONE);
  nm_event_dispose(&closed);
  nm_trouble trouble = io_trouble(&p.client, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.port, NM_PORT_CLOSED);
  NM_CHECK_INT(trouble.iface, p.out);
  uint64_t start = io_now_us();
  io_await_online(&p.client, p.out, true);
  /* The first pause is a tenth of a second. */
  NM_CHECK(io_now_us() - start < 3000000);
  nm_iface_info info;
  NM_CHECK(io_info(&p.client, p.out, &info));
  NM_CHECK_INT(info.opened, 2);
  NM_CHECK_INT(io_send(&p.client, &hash, "again"), NM_RECEIPT_DELIVERED);
  end(&p);
}

NM_TEST(a_client_finds_a_server_that_comes_later) {
  nm_loop *loop = io_loop(0);
  io_node client;
  io_node server;
  io_open(&client, loop, NULL);
  io_open(&server, loop, NULL);
  uint16_t port;
  close(io_raw_listen(&port)); /* free again, most likely */
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "early");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  setup.retry_max_ms = 100;
  nm_iface_id id = io_add(&client, &setup, NULL);
  nm_trouble trouble = io_trouble(&client, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.port, NM_PORT_CONNECT);
  NM_CHECK(trouble.os_error < 0);
  setup = io_setup(NM_MEDIUM_TCP_SERVER, "late");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  (void)io_add(&server, &setup, NULL);
  io_await_online(&client, id, true);
  io_close(&client);
  io_close(&server);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static nm_trouble await_port_trouble(io_node *n, nm_port_trouble kind) {
  for (;;) {
    nm_trouble trouble = io_trouble(n, NM_TROUBLE_IFACE);
    if (trouble.port == kind) {
      return trouble;
    }
  }
}

NM_TEST(a_client_gives_up_after_its_tries_and_says_so) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  uint16_t port;
  close(io_raw_listen(&port));
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "short");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  setup.max_tries = 3;
  setup.retry_first_ms = 1;
  setup.retry_max_ms = 2;
  nm_iface_id id = io_add(&n, &setup, NULL);
  (void)await_port_trouble(&n, NM_PORT_GAVE_UP);
  nm_iface_info info;
  NM_CHECK(io_info(&n, id, &info));
  NM_CHECK_INT(info.tries, 3);
  NM_CHECK(!info.online);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(an_attempt_that_nobody_answers_times_out) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  uint16_t port;
  int listener = io_raw_listen(&port);
  NM_CHECK(listen(listener, 0) == 0);
  int filler[3]; /* the queue of one is full: further attempts hang */
  for (int i = 0; i < 3; i++) {
    struct pollfd wait = {.events = POLLOUT};
    filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);
    NM_CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    (void)connect(filler[i], (struct sockaddr *)&at, len);
    wait.fd = filler[i];
    (void)poll(&wait, 1, 50);
  }
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "hang");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  setup.connect_timeout_ms = 100;
  (void)io_add(&n, &setup, NULL);
  (void)await_port_trouble(&n, NM_PORT_TIMEOUT);
  for (int i = 0; i < 3; i++) {
    close(filler[i]);
  }
  close(listener);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(a_name_without_an_address_is_trouble_not_an_end) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "nowhere");
  memcpy(setup.host, "no such host", 13);
  setup.port = 4242;
  (void)io_add(&n, &setup, NULL);
  (void)await_port_trouble(&n, NM_PORT_RESOLVE);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(what_cannot_be_listened_on_is_refused_with_the_reason) {
  pair p;
  begin(&p);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "second");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = p.port;
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  c.u.iface = setup;
  nm_node_event reply = io_ask(&p.client, &c);
  NM_CHECK_STATUS(reply.u.reply.status, NM_E(LIBRARY));
  NM_CHECK_INT(reply.u.reply.os_error, -EADDRINUSE);
  io_done(&reply);
  memcpy(setup.host, "not numeric", 12);
  c = (nm_command){.kind = NM_COMMAND_IFACE_ADD};
  c.u.iface = setup;
  NM_CHECK_STATUS(io_status(&p.client, &c), NM_E(ARGUMENT));
  end(&p);
}

/* ---- hostile peers ---- */

static void use_small_queue(nm_iface_setup *setup) {
  setup->queue_bytes = 64 << 10;
  setup->queue_packets = 1000;
}

/* Puts |count| packets of 500 bytes on an interface. */
static void flood(io_node *n, nm_iface_id iface, int count) {
  uint8_t raw[500];
  memset(raw, 0x42, sizeof(raw));
  raw[0] = 0x08; /* a PLAIN packet that nobody wants */
  raw[1] = 0;
  for (int i = 0; i < count; i++) {
    nm_command c = {.kind = NM_COMMAND_INJECT,
                    .iface = iface,
                    .data = io_block(raw, sizeof(raw))};
    (void)io_post(n, &c);
    if (i % 1000 == 999) {
      nm_command last = {.kind = NM_COMMAND_FILTER_SIZE};
      NM_CHECK_OK(io_status(n, &last));
      io_drain(n);
    }
  }
}

NM_TEST(a_slow_reader_is_bounded_and_delays_nobody) {
  lone l;
  io_node good;
  begin_lone(&l, use_small_queue);
  int slow = io_raw_connect(l.port);
  nm_iface_id slow_id = child_of(&l.node, l.listener).id;
  io_open(&good, l.loop, NULL);
  (void)io_connect(&good, l.port);
  nm_destination_hash hash = io_listen(&good, 7, "test.good", NULL);
  io_announce(&good, &hash);
  io_await_path(&l.node, &hash);
  flood(&l.node, slow_id, 20000);
  nm_iface_info info;
  NM_CHECK(io_info(&l.node, slow_id, &info));
  NM_CHECK(info.queued_bytes <= 64 << 10);
  NM_CHECK(info.drops[NM_PORT_DROP_BYTES] > 0);
  NM_CHECK(info.online);
  uint64_t start = io_now_us();
  for (int i = 0; i < 20; i++) {
    NM_CHECK_INT(io_send(&l.node, &hash, "quick"), NM_RECEIPT_DELIVERED);
  }
  NM_CHECK(io_now_us() - start < 5000000);
  close(slow);
  io_close(&good);
  end_lone(&l);
}

NM_TEST(any_bytes_are_survived_and_counted) {
  lone l;
  begin_lone(&l, NULL);
  int fd = io_raw_connect(l.port);
  uint8_t bytes[8192];
  for (int i = 0; i < 50; i++) {
    nm_test_random_bytes(bytes, sizeof(bytes));
    if (i % 2 == 1) {
      for (size_t k = 0; k < sizeof(bytes); k += 64) {
        bytes[k] = NM_HDLC_FLAG; /* frames of 63 random bytes */
      }
    }
    NM_CHECK(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes));
  }
  nm_iface_info info;
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  do {
    NM_CHECK(io_info(&l.node, l.listener, &info));
    NM_CHECK(io_now_us() < until);
  } while (info.wire_rx_bytes < 50 * sizeof(bytes));
  NM_CHECK(info.counters.rx_packets > 1000);
  nm_node_stats stats = io_stats(&l.node);
  NM_CHECK(stats.engine.dropped > 1000);
  close(fd);
  await_connections(&l.node, l.listener, 0);
  end_lone(&l);
}

NM_TEST(a_flood_of_announces_is_verified_without_loss_while_others_work) {
  lone l;
  io_node good;
  begin_lone(&l, NULL);
  io_open(&good, l.loop, NULL);
  (void)io_connect(&good, l.port);
  nm_destination_hash hash = io_listen(&l.node, 7, "test.host", NULL);
  io_announce(&l.node, &hash);
  io_await_path(&good, &hash);
  /* An announce with a wrong signature costs a verification each. */
  int fd = io_raw_connect(l.port);
  uint8_t raw[2 + 16 + 1 + 64 + 10 + 10 + 64];
  uint8_t framed[2 * sizeof(raw) + 2];
  enum { ANNOUNCES = 3000 };
  for (int i = 0; i < ANNOUNCES; i++) {
    nm_test_random_bytes(raw, sizeof(raw));
    raw[0] = 0x01; /* SINGLE, announce */
    raw[1] = 0;
    raw[18] = 0;
    nm_writer w = nm_writer_of(framed, sizeof(framed));
    NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(raw, sizeof(raw))));
    size_t sent = 0;
    while (sent < w.pos) {
      ssize_t got = send(fd, &framed[sent], w.pos - sent, MSG_NOSIGNAL);
      NM_CHECK(got > 0);
      sent += (size_t)got;
    }
    if (i == ANNOUNCES / 2) {
      NM_CHECK_INT(io_send(&good, &hash, "in between"), NM_RECEIPT_DELIVERED);
    }
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_node_stats stats;
  do {
    stats = io_stats(&l.node);
    NM_CHECK(io_now_us() < until);
  } while (stats.engine.inputs < ANNOUNCES ||
           stats.engine.jobs_outstanding > 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_JOBS_SHARE], 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_JOBS_FULL], 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_ANNOUNCES_FULL], 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_ANNOUNCES_SHARE], 0);
  close(fd);
  io_close(&good);
  end_lone(&l);
}

NM_TEST(a_peer_that_says_nothing_and_one_that_vanishes_cost_a_connection) {
  lone l;
  begin_lone(&l, NULL);
  int silent = io_raw_connect(l.port);
  int reset = io_raw_connect(l.port);
  await_connections(&l.node, l.listener, 2);
  struct linger hard = {.l_onoff = 1, .l_linger = 0};
  NM_CHECK(setsockopt(reset, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)) == 0);
  close(reset);
  await_connections(&l.node, l.listener, 1);
  nm_iface_info info;
  NM_CHECK(io_info(&l.node, l.listener, &info));
  NM_CHECK_INT(info.opened, 2);
  /* A half-closed one ends too: nothing more can come. */
  NM_CHECK(shutdown(silent, SHUT_WR) == 0);
  await_connections(&l.node, l.listener, 0);
  close(silent);
  end_lone(&l);
}

static void allow_three(nm_iface_setup *setup) {
  setup->connections_max = 3;
}

NM_TEST(connections_beyond_the_limit_are_refused_and_counted) {
  lone l;
  begin_lone(&l, allow_three);
  int fds[5];
  for (int i = 0; i < 3; i++) {
    fds[i] = io_raw_connect(l.port);
  }
  await_connections(&l.node, l.listener, 3);
  fds[3] = io_raw_connect(l.port);
  NM_CHECK(peer_closed(fds[3], IO_PATIENCE_MS));
  nm_iface_info info;
  NM_CHECK(io_info(&l.node, l.listener, &info));
  NM_CHECK_INT(info.refused, 1);
  close(fds[0]);
  await_connections(&l.node, l.listener, 2);
  fds[4] = io_raw_connect(l.port);
  await_connections(&l.node, l.listener, 3);
  for (int i = 1; i < 5; i++) {
    close(fds[i]);
  }
  end_lone(&l);
}

NM_TEST(a_thousand_connections_come_and_go) {
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  enum { CONNECTIONS = 1000 };
  int *fds = nm_test_scratch(CONNECTIONS * sizeof(int));
  lone l;
  begin_lone(&l, NULL);
  for (int i = 0; i < CONNECTIONS; i++) {
    fds[i] = io_raw_connect(l.port);
  }
  await_connections(&l.node, l.listener, CONNECTIONS);
  /* An announce reaches all of them. */
  nm_destination_hash hash = io_listen(&l.node, 7, "test.many", NULL);
  io_announce(&l.node, &hash);
  for (int i = 0; i < CONNECTIONS; i++) {
    uint8_t bytes[400];
    struct pollfd wait = {.fd = fds[i], .events = POLLIN};
    NM_CHECK(poll(&wait, 1, IO_PATIENCE_MS) == 1);
    NM_CHECK(recv(fds[i], bytes, sizeof(bytes), 0) > 100);
    close(fds[i]);
  }
  await_connections(&l.node, l.listener, 0);
  end_lone(&l);
  limit.rlim_cur = before;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static bool accept_trouble(const nm_node_event *event, const void *user) {
  (void)user;
  return event->kind == NM_NODE_TROUBLE &&
         event->u.trouble.port == NM_PORT_ACCEPT;
}

NM_TEST(without_free_descriptors_a_server_turns_peers_away_and_recovers) {
  lone l;
  begin_lone(&l, NULL);
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlim_t before = limit.rlim_cur;
  int peers[8];
  for (int i = 0; i < 8; i++) {
    peers[i] = socket(AF_INET, SOCK_STREAM, 0);
  }
  int fillers[64];
  int filled = 0;
  limit.rlim_cur = (rlim_t)peers[7] + 20;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while (filled < 64 && (fillers[filled] = dup(0)) >= 0) {
    filled++;
  }
  NM_CHECK(filled < 64);
  for (int i = 0; i < 8; i++) {
    io_raw_dial(peers[i], l.port);
  }
  nm_node_event event;
  NM_CHECK(io_wait(&l.node, accept_trouble, NULL, IO_PATIENCE_MS, &event));
  NM_CHECK(event.u.trouble.os_error == -EMFILE);
  for (int i = 0; i < filled; i++) {
    close(fillers[i]);
  }
  limit.rlim_cur = before;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  /* Those that came before the descriptors ran out are there, the others were
   * turned away; then all is as before. */
  uint32_t there = 0;
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  do {
    NM_CHECK(io_info(&l.node, l.listener, &info));
    NM_CHECK(io_now_us() < until);
    there = info.connections;
  } while (info.refused + there < 8);
  NM_CHECK(info.refused >= 1);
  int fd = io_raw_connect(l.port);
  await_connections(&l.node, l.listener, there + 1);
  close(fd);
  for (int i = 0; i < 8; i++) {
    close(peers[i]);
  }
  end_lone(&l);
}

NM_TEST(connections_that_wait_without_a_descriptor_for_them_are_turned_away) {
  if (!fault_available()) {
    return;
  }
  lone l;
  begin_lone(&l, NULL);
  fault_reset();
  fault_arm(FAULT_accept4, 1, ENFILE, false);
  int fd = io_raw_connect(l.port);
  NM_CHECK(peer_closed(fd, IO_PATIENCE_MS));
  close(fd);
  nm_iface_info info;
  NM_CHECK(io_info(&l.node, l.listener, &info));
  NM_CHECK_INT(info.refused, 1);
  NM_CHECK_INT(info.trouble, NM_PORT_ACCEPT);
  fault_reset();
  fd = io_raw_connect(l.port);
  await_connections(&l.node, l.listener, 1);
  close(fd);
  end_lone(&l);
}

/* ---- while it runs ---- */

NM_TEST(a_paused_interface_is_quiet_and_a_resumed_one_catches_up) {
  pair p;
  begin(&p);
  nm_destination_hash hash = io_listen(&p.server, 7, "test.echo", NULL);
  io_announce(&p.server, &hash);
  io_await_path(&p.client, &hash);
  nm_command pause = {.kind = NM_COMMAND_IFACE_PAUSE, .iface = p.listener};
  NM_CHECK_OK(io_status(&p.server, &pause));
  nm_iface_info info;
  NM_CHECK(io_info(&p.server, p.listener, &info));
  NM_CHECK(info.paused && !info.online && info.connections == 1);
  NM_CHECK(io_info(&p.client, p.out, &info));
  NM_CHECK(info.online); /* the connection is kept */
  nm_command c = {.kind = NM_COMMAND_SEND};
  nm_send_spec_default(&c.u.send);
  c.u.send.destination = hash;
  c.u.send.receipt = true;
  c.data = io_text("waits in the kernel");
  uint64_t ticket = io_post(&p.client, &c);
  NM_CHECK(!io_sees(&p.server, NM_EVENT_PACKET, 100));
  nm_command resume = {.kind = NM_COMMAND_IFACE_RESUME, .iface = p.listener};
  NM_CHECK_OK(io_status(&p.server, &resume));
  nm_event end_of_it = io_event(&p.client, NM_EVENT_RECEIPT, ticket);
  NM_CHECK_INT(end_of_it.state, NM_RECEIPT_DELIVERED);
  nm_event_dispose(&end_of_it);
  end(&p);
}

NM_TEST(a_removed_server_closes_its_connections_and_frees_its_port) {
  lone l;
  begin_lone(&l, NULL);
  int fd = io_raw_connect(l.port);
  await_connections(&l.node, l.listener, 1);
  nm_command c = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = l.listener};
  NM_CHECK_OK(io_status(&l.node, &c));
  NM_CHECK(peer_closed(fd, IO_PATIENCE_MS));
  close(fd);
  nm_iface_info info;
  NM_CHECK(!io_info(&l.node, l.listener, &info));
  nm_command again = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = l.listener};
  NM_CHECK_STATUS(io_status(&l.node, &again), NM_E(MISSING));
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = l.port;
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  int status;
  do {
    nm_command add = {.kind = NM_COMMAND_IFACE_ADD};
    add.u.iface = setup;
    status = io_status(&l.node, &add);
    NM_CHECK(io_now_us() < until);
  } while (status == NM_E(LIBRARY)); /* the old handle closes a turn later */
  NM_CHECK_OK(status);
  end_lone(&l);
}

NM_TEST(a_node_closes_in_the_middle_of_everything) {
  for (int round = 0; round < 10; round++) {
    pair p;
    begin(&p);
    nm_destination_hash hash = io_listen(&p.server, 7, "test.busy", NULL);
    io_announce(&p.server, &hash);
    io_await_path(&p.client, &hash);
    for (int i = 0; i < 50; i++) {
      nm_command open = {.kind = NM_COMMAND_LINK_OPEN, .destination = hash};
      (void)io_post(&p.client, &open);
    }
    int packets = (int)nm_test_below(999);
    flood(&p.client, p.out, packets);
    /* Each command is answered, each link ends. */
    size_t replies = 0;
    size_t ends = 0;
    nm_node_close(p.client.node);
    nm_node_event event;
    bool closed = false;
    uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
    io_drain(&p.server);
    while (!closed) {
      if (p.client.count > 0) {
        event = p.client.backlog[--p.client.count];
      } else if (!nm_node_next(p.client.node, &event)) {
        NM_CHECK(io_now_us() < until);
        (void)nm_node_wait(p.client.node, 50);
        continue;
      }
      replies += event.kind == NM_NODE_REPLY;
      ends += event.kind == NM_NODE_EVENT &&
              event.u.event.kind == NM_EVENT_LINK_CLOSED;
      closed = event.kind == NM_NODE_CLOSED;
      nm_node_event_dispose(&event);
    }
    NM_CHECK_INT(replies, 50 + packets);
    NM_CHECK_INT(ends, 50);
    p.client.closed = true;
    end(&p);
  }
}

/* ---- what goes ahead of parts ---- */

/* Carries bytes between a client and a server, on a thread of its own. With
 * `hold`, it reads nothing more of the client once the server answers. */
typedef struct relay {
  pthread_t thread;
  int near; /* the client */
  int far;  /* the server */
  atomic_bool hold;
  atomic_bool held;
  atomic_bool stop;
} relay;

/* False when there was nothing more to carry. */
static bool carry(int from, int to) {
  static _Thread_local uint8_t bytes[65536];
  ssize_t got = recv(from, bytes, sizeof(bytes), 0);
  for (ssize_t done = 0; done < got;) {
    ssize_t sent = send(to, &bytes[done], (size_t)(got - done), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    done += sent;
  }
  return got > 0;
}

static void *run_relay(void *user) {
  relay *r = user;
  bool good = true;
  while (good && !atomic_load(&r->stop)) {
    struct pollfd fds[2] = {
        {.fd = r->far, .events = POLLIN},
        {.fd = atomic_load(&r->held) ? -1 : r->near, .events = POLLIN}};
    if (poll(fds, 2, 10) <= 0) {
      continue;
    }
    if (fds[0].revents != 0) {
      atomic_store(&r->held, atomic_load(&r->hold));
      good = carry(r->far, r->near);
    } else {
      good = carry(r->near, r->far);
    }
  }
  return NULL;
}

static void begin_relay(relay *r, pair *p, bool kiss, bool coded) {
  enum { SMALL = 65536 };
  int size = SMALL;
  nm_iface_setup in = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  nm_iface_setup out = io_setup(NM_MEDIUM_TCP_CLIENT, "client");
  memset(r, 0, sizeof(*r));
  p->loop = io_loop(0);
  io_open(&p->server, p->loop, NULL);
  io_open(&p->client, p->loop, NULL);
  in.kiss = kiss;
  out.kiss = kiss;
  if (coded) {
    NM_CHECK_OK(nm_ifac_init(&in.spec.ifac, nm_span_of("net", 3),
                             nm_span_of(NULL, 0), 8));
    out.spec.ifac = in.spec.ifac;
    in.spec.ifac_set = true;
    out.spec.ifac_set = true;
  }
  memcpy(in.host, "127.0.0.1", 10);
  memcpy(out.host, "127.0.0.1", 10);
  p->listener = io_add(&p->server, &in, &p->port);
  int listener = io_raw_listen(&out.port);
  NM_CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) ==
           0);
  p->out = io_add(&p->client, &out, NULL);
  r->near = io_accept_within(listener, IO_PATIENCE_MS);
  r->far = io_raw_connect(p->port);
  NM_CHECK(r->near >= 0 && r->far >= 0);
  close(listener);
  NM_CHECK(pthread_create(&r->thread, NULL, run_relay, r) == 0);
}

static void end_relay(relay *r) {
  atomic_store(&r->stop, true);
  NM_CHECK(pthread_join(r->thread, NULL) == 0);
}

static uint64_t send_megabyte(pair *p, nm_link_ref link) {
  enum { BYTES = 1000000 };
  uint8_t *content = malloc(BYTES);
  nm_test_random_bytes(content, BYTES);
  nm_command send = {.kind = NM_COMMAND_RESOURCE_SEND,
                     .link = link,
                     .compression = NM_RESOURCE_COMPRESS_OFF,
                     .data = io_block(content, BYTES)};
  free(content);
  return io_post(&p->client, &send);
}

/* Waits until parts wait in the client, and the system takes none of them. */
static uint32_t await_full(pair *p) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  uint32_t before = 0;
  for (;;) {
    nm_iface_info info;
    NM_CHECK(io_info(&p->client, p->out, &info));
    if (info.queued_packets >= 8 && info.queued_packets == before) {
      return before;
    }
    before = info.queued_packets;
    NM_CHECK(io_now_us() < until);
    (void)io_readable_within(-1, 100);
  }
}

/* Reads what the client sent, up to a link's packet and |after| parts behind
 * it. */
static void read_packet_and_parts(int fd, uint32_t after) {
  static uint8_t raw[262144 + 64];
  static uint8_t wire[65536];
  nm_hdlc_limits limits = {20, sizeof(raw), 2 * sizeof(raw)};
  nm_hdlc_decoder decoder;
  NM_CHECK_OK(nm_hdlc_decoder_init(&decoder, raw, &limits));
  bool seen = false;
  uint32_t parts = 0;
  while (!seen || parts < after) {
    NM_CHECK(io_readable_within(fd, IO_PATIENCE_MS));
    ssize_t got = recv(fd, wire, sizeof(wire), 0);
    NM_CHECK(got > 0);
    nm_reader in = nm_reader_of(nm_span_of(wire, (size_t)got));
    nm_span frame;
    while (nm_hdlc_decoder_next(&decoder, &in, &frame)) {
      nm_packet packet;
      if (nm_packet_parse(frame, &packet, NULL) == NM_OK) {
        seen = seen || packet.context == NM_CONTEXT_NONE;
        parts += seen && packet.context == NM_CONTEXT_RESOURCE;
      }
    }
  }
}

/* A link through the relay, after eight megabytes, each of which came whole:
 * its window has grown, and the next resource is asked for by half a MiB. */
static nm_link_ref link_through(pair *p) {
  nm_destination_hash hash = io_listen(&p->server, 7, "test.lanes", NULL);
  io_await_online(&p->client, p->out, true);
  io_announce(&p->server, &hash);
  io_await_path(&p->client, &hash);
  nm_link_ref link = io_link(&p->client, &hash);
  nm_event served = io_event(&p->server, NM_EVENT_LINK_ACTIVE, 0);
  nm_command policy = {.kind = NM_COMMAND_LINK_POLICY,
                       .link = served.link,
                       .accept = NM_ACCEPT_ALL};
  NM_CHECK_OK(io_status(&p->server, &policy));
  nm_event_dispose(&served);
  for (int i = 0; i < 8; i++) {
    nm_event sent =
        io_event(&p->client, NM_EVENT_RESOURCE_OUT, send_megabyte(p, link));
    NM_CHECK_OK(sent.status);
    nm_event_dispose(&sent);
    nm_event came = io_event(&p->server, NM_EVENT_RESOURCE_IN, 0);
    nm_event_dispose(&came);
  }
  return link;
}

NM_TEST(a_packet_goes_ahead_of_the_parts_that_wait) {
  pair p;
  relay r;
  begin_relay(&r, &p, false, false);
  nm_link_ref link = link_through(&p);
  atomic_store(&r.hold, true);
  (void)send_megabyte(&p, link);
  uint32_t waiting = await_full(&p);
  nm_command send = {.kind = NM_COMMAND_LINK_SEND,
                     .link = link,
                     .data = io_text("a small packet")};
  NM_CHECK_OK(io_status(&p.client, &send));
  end_relay(&r);
  /* One part is half out, one more may have its turn. */
  read_packet_and_parts(r.near, waiting - 2);
  close(r.near);
  close(r.far);
  end(&p);
}

static void come_through_a_narrow_way(bool kiss, bool coded) {
  pair p;
  relay r;
  begin_relay(&r, &p, kiss, coded);
  (void)link_through(&p);
  /* What was asked for again may still be on its way. */
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  do {
    NM_CHECK(io_info(&p.client, p.out, &info));
    NM_CHECK(io_now_us() < until);
  } while (info.queued_packets > 0);
  NM_CHECK_INT(info.queued_bytes, 0);
  end_relay(&r);
  close(r.near);
  close(r.far);
  end(&p);
}

NM_TEST(parts_in_kiss_frames_come_whole_through_a_narrow_way) {
  come_through_a_narrow_way(true, false);
}

NM_TEST(parts_with_an_access_code_come_whole_through_a_narrow_way) {
  come_through_a_narrow_way(false, true);
}
