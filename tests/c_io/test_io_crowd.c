/* Relayed announces on their way to the clients of a server: those of a moment
 * are written together, and nothing else waits for them.
 */
#include "io_support.h"

#include "support.h"
#include "wire/announce.h"
#include "wire/hdlc.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANNOUNCES 40
/* They leave within half a second, and a connection is written for them every
 * fifty milliseconds at most. */
#define READS_MOST 20

static void open_hub(io_node *n, nm_loop *loop) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.engine.transport = true;
  io_open_config(n, loop, &config);
}

/* A server whose clients' announces are never held. */
static uint16_t serve(io_node *n) {
  uint16_t port = 0;
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.spec.ingress_control = false;
  (void)io_add(n, &setup, &port);
  return port;
}

static void say(int fd, const uint8_t *bytes, size_t len) {
  while (len > 0) {
    ssize_t done = send(fd, bytes, len, MSG_NOSIGNAL);
    NM_CHECK(done > 0);
    bytes += done;
    len -= (size_t)done;
  }
}

/* Announces that many destinations of one identity. */
static void announce_many(int fd, size_t count) {
  nm_identity identity;
  uint8_t seed[64] = {3};
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(seed, sizeof(seed))));
  for (size_t i = 0; i < count; i++) {
    uint8_t raw[NM_MTU];
    uint8_t framed[2 * NM_MTU + 2];
    uint8_t random[NM_ANNOUNCE_RANDOM_SIZE] = {1};
    uint8_t name_hash[NM_NAME_HASH_SIZE] = {(uint8_t)i};
    size_t len = 0;
    nm_announce_args args = {.identity = &identity,
                             .name_hash = name_hash,
                             .emitted = 1750000000u,
                             .random = random,
                             .context = NM_CONTEXT_NONE};
    NM_CHECK_OK(nm_announce_create(&args, raw, sizeof(raw), &len, NULL));
    nm_writer w = nm_writer_of(framed, sizeof(framed));
    NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(raw, len)));
    say(fd, framed, w.pos);
  }
}

/* Reads until |wanted| frames came. Returns in how many pieces. */
static uint32_t read_frames(int fd, size_t wanted) {
  uint8_t bytes[4096];
  size_t flags = 0;
  uint32_t reads = 0;
  while (flags < 2 * wanted) {
    NM_CHECK(io_readable_within(fd, IO_PATIENCE_MS));
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    NM_CHECK(got > 0);
    for (ssize_t i = 0; i < got; i++) {
      flags += bytes[i] == NM_HDLC_FLAG;
    }
    reads++;
  }
  return reads;
}

NM_TEST(relayed_announces_of_a_moment_are_written_together) {
  nm_loop *loop = io_loop(0);
  io_node hub;
  open_hub(&hub, loop);
  uint16_t port = serve(&hub);
  int speaks = io_raw_connect(port);
  int listens = io_raw_connect(port);
  announce_many(speaks, ANNOUNCES);
  uint32_t reads = read_frames(listens, ANNOUNCES);
  nm_test_context("%u reads", reads);
  NM_CHECK(reads <= READS_MOST);
  close(speaks);
  close(listens);
  io_close(&hub);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(data_passes_between_relayed_announces_and_clients_may_go) {
  enum { CLIENTS = 60 };
  nm_loop *loop = io_loop(0);
  int fds[CLIENTS];
  io_node hub;
  io_node good;
  open_hub(&hub, loop);
  uint16_t port = serve(&hub);
  io_open(&good, loop, NULL);
  (void)io_connect(&good, port);
  nm_destination_hash hash = io_listen(&good, 7, "test.good", NULL);
  io_announce(&good, &hash);
  io_await_path(&hub, &hash);
  for (int i = 0; i < CLIENTS; i++) {
    fds[i] = io_raw_connect(port);
  }
  announce_many(fds[0], ANNOUNCES);
  for (int i = 0; i < CLIENTS; i++) {
    NM_CHECK_INT(io_send(&hub, &hash, "in between"), NM_RECEIPT_DELIVERED);
    if (i % 2 == 1) {
      close(fds[i]); /* announces may wait there */
    }
  }
  for (int i = 0; i < CLIENTS; i += 2) {
    (void)read_frames(fds[i], ANNOUNCES);
    close(fds[i]);
  }
  io_close(&good);
  io_close(&hub);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* Whether the published list and a fresh one are the same, row by row. */
static bool same_lists(io_node *n, size_t wanted) {
  nm_command c = {.kind = NM_COMMAND_IFACE_LIST};
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_OK(event.u.reply.status);
  nm_block *published = nm_node_ifaces(n->node);
  nm_span fresh = nm_block_span(event.u.reply.records);
  nm_span known = nm_block_span(published);
  bool same = fresh.len == wanted * sizeof(nm_iface_info) &&
              nm_span_equal(fresh, known);
  nm_block_drop(published);
  nm_node_event_dispose(&event);
  return same;
}

NM_TEST(the_published_list_has_every_row_whole) {
  enum { CLIENTS = 70 };
  nm_loop *loop = io_loop(0);
  int fds[CLIENTS];
  io_node hub;
  open_hub(&hub, loop);
  uint16_t port = serve(&hub);
  for (int i = 0; i < CLIENTS; i++) {
    fds[i] = io_raw_connect(port);
  }
  announce_many(fds[0], 1);
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (!same_lists(&hub, CLIENTS + 1)) {
    NM_CHECK(io_now_us() < until);
    io_drain(&hub);
  }
  for (int i = 0; i < CLIENTS; i++) {
    close(fds[i]);
  }
  while (!same_lists(&hub, 1)) {
    NM_CHECK(io_now_us() < until);
    io_drain(&hub);
  }
  io_close(&hub);
  NM_CHECK_OK(nm_loop_stop(loop));
}
