/* Peers that mean harm, and a system that fails a node. */
#define _GNU_SOURCE /* SO_DOMAIN */

#include "io_support.h"
#include "support.h"

#include "wire/constants.h"
#include "wire/hdlc.h"
#include "wire/kiss.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mount.h>
#endif

/* A node that others know, and one that knows it, over TCP. */
typedef struct pair {
  nm_loop *loop;
  io_node server;
  io_node client;
  uint16_t port;
  nm_iface_id out;
  nm_destination_hash hash;
} pair;

static void take_everything(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

static void begin(pair *p) {
  p->loop = io_loop(0);
  io_open(&p->server, p->loop, NULL);
  io_open(&p->client, p->loop, NULL);
  (void)io_serve(&p->server, &p->port);
  p->out = io_connect(&p->client, p->port);
  p->hash = io_listen(&p->server, 7, "test.host", take_everything);
  io_announce(&p->server, &p->hash);
  io_await_path(&p->client, &p->hash);
}

static void end(pair *p) {
  io_close(&p->client);
  io_close(&p->server);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

/* ---- any bytes ---- */

#define PIECE 4096
#define PIECES 60

/* Random bytes; every second piece has a frame mark at every 50th place. */
static void noise(uint8_t piece[PIECE], int number, uint8_t mark) {
  nm_test_random_bytes(piece, PIECE);
  for (size_t at = 0; number % 2 == 1 && at < PIECE; at += 50) {
    piece[at] = mark;
    if (mark == NM_KISS_FEND && at + 1 < PIECE) {
      piece[at + 1] = 0;
    }
  }
}

static void send_all(int fd, const uint8_t *bytes, size_t len) {
  while (len > 0) {
    ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
    NM_CHECK(sent > 0);
    bytes += sent;
    len -= (size_t)sent;
  }
}

/* The announce of a node of its own, as it goes over a wire. */
static size_t take_announce(nm_loop *loop, uint8_t *raw, size_t cap,
                            nm_destination_hash *hash) {
  io_node other;
  io_open(&other, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, "out");
  (void)io_add(&other, &setup, NULL);
  *hash = io_listen(&other, 11, "test.late", NULL);
  nm_command c = {.kind = NM_COMMAND_ANNOUNCE, .destination = *hash};
  (void)io_post(&other, &c);
  nm_node_event event;
  do {
    while (!nm_node_next(other.node, &event)) {
      NM_CHECK(nm_node_wait(other.node, IO_PATIENCE_MS));
    }
    if (event.kind != NM_NODE_FRAME) {
      nm_node_event_dispose(&event);
    }
  } while (event.kind != NM_NODE_FRAME);
  nm_span frame = nm_block_span(event.u.frame.data);
  NM_CHECK(frame.len <= cap);
  memcpy(raw, frame.ptr, frame.len);
  size_t len = frame.len;
  nm_node_event_dispose(&event);
  io_close(&other);
  return len;
}

/* Noise to |fd|, whose other end is an interface of |n|, and then an announce
 * that the node must still understand. */
static void annoy(io_node *n, nm_loop *loop, int fd, bool kiss) {
  uint8_t piece[PIECE];
  uint8_t raw[512];
  uint8_t framed[1100];
  nm_destination_hash hash;
  uint8_t mark = kiss ? NM_KISS_FEND : NM_HDLC_FLAG;
  for (int i = 0; i < PIECES; i++) {
    noise(piece, i, mark);
    send_all(fd, piece, sizeof(piece));
  }
  size_t len = take_announce(loop, raw, sizeof(raw), &hash);
  nm_writer w = nm_writer_of(framed, sizeof(framed));
  nm_writer_u8(&w, mark);
  nm_span packet = nm_span_of(raw, len);
  NM_CHECK_OK(kiss ? nm_kiss_frame(&w, NM_KISS_DATA, packet)
                   : nm_hdlc_frame(&w, packet));
  send_all(fd, framed, w.pos);
  io_await_path(n, &hash);
  nm_node_stats stats = io_stats(n);
  NM_CHECK(stats.engine.dropped > 500);
  NM_CHECK_INT(stats.engine.inputs,
               stats.engine.accepted + stats.engine.dropped);
}

static void annoy_server(bool kiss) {
  nm_loop *loop = io_loop(0);
  io_node n;
  uint16_t port;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.kiss = kiss;
  (void)io_add(&n, &setup, &port);
  int fd = io_raw_connect(port);
  annoy(&n, loop, fd, kiss);
  close(fd);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static void annoy_client(bool kiss) {
  nm_loop *loop = io_loop(0);
  io_node n;
  uint16_t port;
  io_open(&n, loop, NULL);
  int listener = io_raw_listen(&port);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "client");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  setup.kiss = kiss;
  setup.retry_first_ms = 1;
  setup.retry_max_ms = 10;
  nm_iface_id id = io_add(&n, &setup, NULL);
  int fd = io_accept_within(listener, IO_PATIENCE_MS);
  NM_CHECK(fd >= 0);
  annoy(&n, loop, fd, kiss);
  /* A server that hangs up in the middle of a frame is connected to again. */
  const uint8_t half[] = {kiss ? NM_KISS_FEND : NM_HDLC_FLAG, 0, 1, 2};
  send_all(fd, half, sizeof(half));
  close(fd);
  fd = io_accept_within(listener, IO_PATIENCE_MS);
  NM_CHECK(fd >= 0);
  io_await_online(&n, id, true);
  close(fd);
  close(listener);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(any_bytes_to_a_server_leave_it_able_to_hear) {
  annoy_server(false);
}

NM_TEST(any_bytes_to_a_kiss_server_leave_it_able_to_hear) {
  annoy_server(true);
}

NM_TEST(any_bytes_from_a_server_leave_its_client_able_to_hear) {
  annoy_client(false);
}

NM_TEST(any_bytes_from_a_kiss_server_leave_its_client_able_to_hear) {
  annoy_client(true);
}

/* ---- a liar with the keys of a link ---- */

/* Sends what the link's keys seal, whatever it says; false when the link is
 * gone. */
static bool lie(pair *p, nm_link_ref link, uint8_t type, uint8_t context,
                nm_span payload) {
  nm_command seal = {.kind = NM_COMMAND_LINK_SEAL,
                     .link = link,
                     .packet_type = type,
                     .context = context,
                     .data = io_block(payload.ptr, payload.len)};
  nm_node_event event = io_ask(&p->client, &seal);
  bool sealed = event.u.reply.status == NM_OK;
  if (sealed) {
    nm_command inject = {.kind = NM_COMMAND_INJECT,
                         .iface = p->out,
                         .data = nm_block_hold(event.u.reply.data)};
    NM_CHECK_OK(io_status(&p->client, &inject));
  }
  io_done(&event);
  return sealed;
}

static const uint8_t contexts[] = {
    NM_CONTEXT_NONE,          NM_CONTEXT_RESOURCE,
    NM_CONTEXT_RESOURCE_ADV,  NM_CONTEXT_RESOURCE_REQ,
    NM_CONTEXT_RESOURCE_HMU,  NM_CONTEXT_RESOURCE_PRF,
    NM_CONTEXT_RESOURCE_ICL,  NM_CONTEXT_RESOURCE_RCL,
    NM_CONTEXT_CACHE_REQUEST, NM_CONTEXT_REQUEST,
    NM_CONTEXT_RESPONSE,      NM_CONTEXT_PATH_RESPONSE,
    NM_CONTEXT_COMMAND,       NM_CONTEXT_COMMAND_STATUS,
    NM_CONTEXT_CHANNEL,       NM_CONTEXT_KEEPALIVE,
    NM_CONTEXT_LINKIDENTIFY,  NM_CONTEXT_LINKPROOF,
    NM_CONTEXT_LRRTT,         NM_CONTEXT_LRPROOF,
    NM_CONTEXT_LINKCLOSE};

NM_TEST(a_peer_with_link_keys_that_lies_harms_only_its_own_link) {
  pair p;
  begin(&p);
  io_node honest;
  io_open(&honest, p.loop, NULL);
  (void)io_connect(&honest, p.port);
  io_announce(&p.server, &p.hash);
  io_await_path(&honest, &p.hash);
  nm_link_ref good = io_link(&honest, &p.hash);
  uint8_t bytes[400];
  int opened = 0;
  for (unsigned round = 0; round < 12; round++) {
    nm_link_ref link = io_link(&p.client, &p.hash);
    opened++;
    for (size_t c = 0; c < sizeof(contexts); c++) {
      for (int i = 0; i < 4; i++) {
        size_t len = i == 0 ? 1 : 1 + nm_test_below(sizeof(bytes));
        nm_test_random_bytes(bytes, len);
        bytes[0] = i == 2 ? (uint8_t)(0x80 + round) : bytes[0];
        bytes[0] = i == 3 ? (uint8_t)(0x90 + round) : bytes[0];
        uint8_t type = round % 3 == 2 ? NM_PROOF : NM_DATA;
        if (!lie(&p, link, type, contexts[c], nm_span_of(bytes, len))) {
          break;
        }
      }
    }
    io_drain(&p.server);
    io_drain(&p.client);
  }
  NM_CHECK_INT(opened, 12);
  nm_command send = {.kind = NM_COMMAND_LINK_SEND,
                     .link = good,
                     .data = io_text("truth"),
                     .on = true};
  uint64_t ticket = io_post(&honest, &send);
  nm_event end_of_it = io_event(&honest, NM_EVENT_RECEIPT, ticket);
  NM_CHECK_INT(end_of_it.state, NM_RECEIPT_DELIVERED);
  nm_event_dispose(&end_of_it);
  io_close(&honest);
  end(&p);
}

/* ---- fairness ---- */

NM_TEST(links_open_beside_a_flood_of_announces_with_bad_signatures) {
  pair p;
  begin(&p);
  int fd = io_raw_connect(p.port);
  uint8_t raw[2 + 16 + 1 + 64 + 10 + 10 + 64];
  uint8_t framed[2 * sizeof(raw) + 2];
  enum { ANNOUNCES = 2000, LINKS = 10 };
  for (int i = 0; i < ANNOUNCES; i++) {
    nm_test_random_bytes(raw, sizeof(raw));
    raw[0] = 0x01; /* SINGLE, announce */
    raw[1] = 0;
    raw[18] = 0;
    nm_writer w = nm_writer_of(framed, sizeof(framed));
    NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(raw, sizeof(raw))));
    send_all(fd, framed, w.pos);
    if (i % (ANNOUNCES / LINKS) == ANNOUNCES / LINKS - 1) {
      (void)io_link(&p.client, &p.hash);
    }
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_node_stats stats;
  do {
    stats = io_stats(&p.server);
    NM_CHECK(io_now_us() < until);
  } while (stats.engine.inputs < ANNOUNCES);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_JOBS_FULL], 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_ANNOUNCES_FULL], 0);
  NM_CHECK_INT(stats.engine.drops[NM_DROP_ANNOUNCES_SHARE], 0);
  close(fd);
  end(&p);
}

/* ---- the system ---- */

#if defined(__linux__)
/* How many sockets of this process talk to or from |port|; each must give up
 * on a silent peer in 24 s. */
static int tuned_sockets(uint16_t port) {
  int found = 0;
  for (int fd = 3; fd < 256; fd++) {
    struct sockaddr_in at[2];
    socklen_t len[2] = {sizeof(at[0]), sizeof(at[1])};
    if (getsockname(fd, (struct sockaddr *)&at[0], &len[0]) != 0 ||
        getpeername(fd, (struct sockaddr *)&at[1], &len[1]) != 0 ||
        at[0].sin_family != AF_INET ||
        (ntohs(at[0].sin_port) != port && ntohs(at[1].sin_port) != port)) {
      continue;
    }
    unsigned timeout = 0;
    int on[2] = {0, 0};
    socklen_t size = sizeof(timeout);
    NM_CHECK(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size) ==
             0);
    size = sizeof(on[0]);
    NM_CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on[0], &size) == 0);
    size = sizeof(on[1]);
    NM_CHECK(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on[1], &size) == 0);
    NM_CHECK_INT(timeout, 24000);
    NM_CHECK(on[0] != 0 && on[1] != 0);
    found++;
  }
  return found;
}

NM_TEST(both_ends_of_a_connection_give_up_on_a_silent_peer) {
  pair p;
  begin(&p);
  NM_CHECK_INT(tuned_sockets(p.port), 2);
  end(&p);
}
#endif

static bool connect_trouble(const nm_node_event *event, const void *user) {
  const int *error = user;
  return event->kind == NM_NODE_TROUBLE &&
         event->u.trouble.port == NM_PORT_CONNECT &&
         event->u.trouble.os_error == *error;
}

NM_TEST(a_client_without_a_free_descriptor_says_so_and_tries_again) {
  nm_loop *loop = io_loop(0);
  io_node n;
  uint16_t port;
  io_open(&n, loop, NULL);
  int listener = io_raw_listen(&port);
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlim_t before = limit.rlim_cur;
  int fillers[128];
  int filled = 0;
  limit.rlim_cur = (rlim_t)listener + 20;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while (filled < 128 && (fillers[filled] = dup(0)) >= 0) {
    filled++;
  }
  NM_CHECK(filled < 128);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "client");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  setup.retry_first_ms = 1;
  setup.retry_max_ms = 10;
  nm_iface_id id = io_add(&n, &setup, NULL);
  nm_node_event event;
  int error = -EMFILE;
  NM_CHECK(io_wait(&n, connect_trouble, &error, IO_PATIENCE_MS, &event));
  for (int i = 0; i < filled; i++) {
    close(fillers[i]);
  }
  limit.rlim_cur = before;
  NM_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  io_await_online(&n, id, true);
  close(listener);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* A node in a process of its own; writes its port and destination to |out|. */
__attribute__((noreturn)) static void serve_until_killed(int out) {
  nm_loop *loop = io_loop(0);
  io_node n;
  uint16_t port;
  io_open(&n, loop, NULL);
  (void)io_serve(&n, &port);
  nm_destination_hash hash = io_listen(&n, 7, "test.host", NULL);
  if (write(out, &port, sizeof(port)) != sizeof(port) ||
      write(out, hash.b, sizeof(hash.b)) != sizeof(hash.b)) {
    _exit(1);
  }
  for (;;) { /* the first announces find no one connected */
    nm_command announce = {.kind = NM_COMMAND_ANNOUNCE, .destination = hash};
    (void)io_post(&n, &announce);
    (void)io_sees(&n, NM_EVENT_PACKET, 200);
    io_drain(&n);
  }
}

static uint8_t send_on(io_node *n, nm_link_ref link) {
  nm_command send = {.kind = NM_COMMAND_LINK_SEND,
                     .link = link,
                     .data = io_text("still there?"),
                     .timeout_us = (uint64_t)IO_PATIENCE_MS * 1000,
                     .on = true};
  uint64_t ticket = io_post(n, &send);
  nm_event over = io_event(n, NM_EVENT_RECEIPT, ticket);
  uint8_t state = over.state;
  nm_event_dispose(&over);
  return state;
}

NM_TEST(a_link_outlives_a_process_that_stands_still_for_a_while) {
  int pipe_fds[2];
  uint16_t port;
  nm_destination_hash hash;
  NM_CHECK(pipe(pipe_fds) == 0);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    serve_until_killed(pipe_fds[1]);
  }
  NM_CHECK(read(pipe_fds[0], &port, sizeof(port)) == sizeof(port));
  NM_CHECK(read(pipe_fds[0], hash.b, sizeof(hash.b)) == sizeof(hash.b));
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  (void)io_connect(&n, port);
  io_await_path(&n, &hash);
  nm_link_ref link = io_link(&n, &hash);
  NM_CHECK_INT(send_on(&n, link), NM_RECEIPT_DELIVERED);
  NM_CHECK(kill(child, SIGSTOP) == 0);
  int status;
  NM_CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  NM_CHECK(!io_sees(&n, NM_EVENT_LINK_CLOSED, 3000));
  uint64_t sent = io_stats(&n).engine.outputs;
  NM_CHECK(kill(child, SIGCONT) == 0);
  NM_CHECK_INT(send_on(&n, link), NM_RECEIPT_DELIVERED);
  /* What was late is not made up for all at once. */
  NM_CHECK(io_stats(&n).engine.outputs - sent < 20);
  NM_CHECK(kill(child, SIGKILL) == 0);
  NM_CHECK(waitpid(child, &status, 0) == child);
  nm_event closed = io_event(&n, NM_EVENT_LINK_CLOSED, 0);
  NM_CHECK_INT(closed.close_reason, NM_CLOSE_IFACE_GONE);
  nm_event_dispose(&closed);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

#if defined(__linux__)
static void remember(io_node *n, uint16_t number) {
  uint8_t key[NM_PUBLIC_SIZE];
  memset(key, number & 0xff, sizeof(key));
  key[0] = (uint8_t)(number >> 8);
  nm_command c = {.kind = NM_COMMAND_REMEMBER,
                  .key = io_block(key, sizeof(key)),
                  .data = io_text("remembered")};
  memset(c.destination.b, number & 0xff, sizeof(c.destination.b));
  c.destination.b[0] = (uint8_t)(number >> 8);
  NM_CHECK_OK(io_status(n, &c));
}

NM_TEST(a_disk_without_space_is_named_and_the_node_goes_on) {
  const char *folder = io_folder();
  if (mount("tmpfs", folder, "tmpfs", 0, "size=64k") != 0) {
    (void)fprintf(stderr, "skipped: a small tmpfs cannot be mounted here\n");
    return;
  }
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, io_path(folder, "store"));
  nm_command save = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_OK(io_status(&n, &save));
  for (uint16_t i = 0; i < 1500; i++) {
    remember(&n, i);
  }
  nm_command full = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_STATUS(io_status(&n, &full), NM_E(LIBRARY));
  nm_trouble trouble = io_trouble(&n, NM_TROUBLE_STORE_WRITE);
  NM_CHECK_INT(trouble.os_error, -ENOSPC);
  /* Nothing half-written stays, and with space it works again. */
  NM_CHECK(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, "size=4m") == 0);
  nm_command again = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_OK(io_status(&n, &again));
  NM_CHECK_INT(io_stats(&n).store_os_error, 0);
  io_close(&n);
  io_open(&n, loop, io_path(folder, "store"));
  nm_command recall = {.kind = NM_COMMAND_RECALL};
  memset(recall.destination.b, 1499 & 0xff, sizeof(recall.destination.b));
  recall.destination.b[0] = 1499 >> 8;
  NM_CHECK_OK(io_status(&n, &recall));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
  NM_CHECK(umount(folder) == 0);
}
#endif
