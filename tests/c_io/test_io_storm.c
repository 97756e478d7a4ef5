/* TCP under repetition: connections that are refused without end, and ones that
 * come and go by the thousands.
 */
#include "io_support.h"
#include "support.h"

#include "io/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

NM_TEST(pauses_between_attempts_double_up_to_a_limit_with_jitter) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "client");
  static const uint64_t middles_ms[] = {100,   1000,  2000,  4000, 8000,
                                        16000, 32000, 60000, 60000};
  for (uint32_t i = 0; i < sizeof(middles_ms) / sizeof(middles_ms[0]); i++) {
    nm_test_context("after %u failures", i + 1);
    uint64_t ms = middles_ms[i];
    NM_CHECK_INT(nm_port_pause_us(&setup, i + 1, 0), ms * 750);
    NM_CHECK_INT(nm_port_pause_us(&setup, i + 1, 32768), ms * 1000);
    NM_CHECK(nm_port_pause_us(&setup, i + 1, UINT16_MAX) < ms * 1250);
    NM_CHECK(nm_port_pause_us(&setup, i + 1, UINT16_MAX) > ms * 1249);
  }
  NM_CHECK_INT(nm_port_pause_us(&setup, UINT32_MAX, 32768), 60000000);
}

/* Twenty clients of a port where nobody listens. */
NM_TEST(ten_thousand_refused_connections_cost_no_descriptor) {
  enum { CLIENTS = 20, ATTEMPTS = 10000 };
  uint16_t port;
  int reserved = io_raw_listen(&port);
  close(reserved);
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  int before = io_open_descriptors();
  nm_iface_id ids[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    char label[] = "client-a";
    label[7] = (char)('a' + i);
    nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, label);
    memcpy(setup.host, "127.0.0.1", 10);
    setup.port = port;
    setup.retry_first_ms = 1;
    setup.retry_max_ms = 1;
    ids[i] = io_add(&n, &setup, NULL);
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  uint64_t tries;
  do {
    tries = 0;
    for (int i = 0; i < CLIENTS; i++) {
      nm_iface_info info;
      NM_CHECK(io_info(&n, ids[i], &info));
      NM_CHECK(!info.online);
      tries += info.tries;
    }
    /* Each client has one socket, and one that is being closed. */
    NM_CHECK(io_open_descriptors() <= before + 2 * CLIENTS);
    NM_CHECK(io_now_us() < until);
    io_drain(&n);
  } while (tries < ATTEMPTS);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static bool has_one_connection(io_node *n, nm_iface_id server) {
  nm_iface_info info;
  NM_CHECK(io_info(n, server, &info));
  return info.connections == 1;
}

/* How many connections a storm has; NETMESH_STORM asks for more. */
static int storm_size(void) {
  const char *asked = getenv("NETMESH_STORM");
  return asked == NULL ? 5000 : atoi(asked);
}

/* Half of them are reset instead of closed in order. */
NM_TEST(a_storm_of_connections_that_close_at_once_disturbs_no_other) {
  const int storm = storm_size();
  nm_loop *loop = io_loop(0);
  io_node server;
  io_node client;
  uint16_t port;
  io_open(&server, loop, NULL);
  io_open(&client, loop, NULL);
  nm_iface_id listener = io_serve(&server, &port);
  (void)io_connect(&client, port);
  io_await_online(&server, listener, true);
  while (!has_one_connection(&server, listener)) {
    io_drain(&server);
  }
  int before = io_open_descriptors();
  for (int i = 0; i < storm; i++) {
    int fd = io_raw_connect(port);
    if (i % 2 == 0) {
      struct linger reset = {.l_onoff = 1, .l_linger = 0};
      NM_CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) ==
               0);
    }
    close(fd);
    if (i % 500 == 0) {
      io_drain(&server);
    }
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (!has_one_connection(&server, listener) ||
         io_open_descriptors() > before) {
    NM_CHECK(io_now_us() < until);
    io_drain(&server);
  }
  nm_iface_info info;
  NM_CHECK(io_info(&server, listener, &info));
  NM_CHECK(info.listening && info.trouble == NM_PORT_NO_TROUBLE);
  nm_destination_hash hash = io_listen(&server, 7, "test.storm", NULL);
  io_announce(&server, &hash);
  io_await_path(&client, &hash);
  NM_CHECK_INT(io_send(&client, &hash, "still here"), NM_RECEIPT_DELIVERED);
  io_close(&client);
  io_close(&server);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static nm_iface_info info_of(io_node *n, nm_iface_id id) {
  nm_iface_info info;
  NM_CHECK(io_info(n, id, &info));
  return info;
}

/* A connection from a loopback address, which the server may turn away. */
static void come_say_and_go(const char *from, uint16_t port, nm_span said) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  NM_CHECK(fd >= 0);
  NM_CHECK(inet_pton(AF_INET, from, &address.sin_addr) == 1);
  NM_CHECK(bind(fd, (const void *)&address, sizeof(address)) == 0);
  address.sin_port = htons(port);
  NM_CHECK(inet_pton(AF_INET, "127.0.0.1", &address.sin_addr) == 1);
  NM_CHECK(connect(fd, (const void *)&address, sizeof(address)) == 0);
  NM_CHECK(said.len == 0 ||
           send(fd, said.ptr, said.len, 0) == (ssize_t)said.len);
  close(fd);
}

static void come_and_go(const char *from, uint16_t port) {
  come_say_and_go(from, port, nm_span_of(NULL, 0));
}

/* Until the server has met so many connections, and none is open but |open|. */
static nm_iface_info settled(io_node *n, nm_iface_id server, uint64_t met,
                             uint32_t open) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  for (;;) {
    nm_iface_info info = info_of(n, server);
    if (info.flaps + info.refused + open == met && info.connections == open) {
      return info;
    }
    nm_test_context("flaps %llu, refused %llu, open %u",
                    (unsigned long long)info.flaps,
                    (unsigned long long)info.refused, info.connections);
    NM_CHECK(io_now_us() < until);
    io_drain(n);
  }
}

NM_TEST(an_address_that_flaps_is_turned_away_and_no_other) {
  enum { STORM = 3000 };
  nm_loop *loop = io_loop(0);
  io_node server;
  io_node client;
  uint16_t port;
  io_open(&server, loop, NULL);
  io_open(&client, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.flaps = (nm_flap_limits){
      .threshold_ms = 600000, .grace = 5, .block_ms = 600000, .loopback = true};
  nm_iface_id listener = io_add(&server, &setup, &port);
  /* One after the other, so that each has ended before the next one comes. */
  for (uint64_t i = 1; i <= 6; i++) {
    come_and_go("127.0.0.2", port);
    nm_iface_info info = settled(&server, listener, i, 0);
    NM_CHECK_INT(info.refused, 0);
  }
  int before = io_open_descriptors();
  for (int i = 0; i < STORM; i++) {
    come_and_go("127.0.0.2", port);
  }
  nm_iface_info info = settled(&server, listener, 6 + STORM, 0);
  NM_CHECK_INT(info.flaps, 6);
  NM_CHECK_INT(info.opened, 6);
  NM_CHECK_INT(info.refusals[NM_PORT_REFUSED_FLAPPING], STORM);
  NM_CHECK(io_open_descriptors() <= before);
  /* Another address is served as ever. */
  (void)io_connect(&client, port);
  io_await_online(&server, listener, true);
  info = settled(&server, listener, 6 + STORM + 1, 1);
  nm_destination_hash hash = io_listen(&server, 7, "test.storm", NULL);
  io_announce(&server, &hash);
  io_await_path(&client, &hash);
  NM_CHECK_INT(io_send(&client, &hash, "still here"), NM_RECEIPT_DELIVERED);
  io_close(&client);
  io_close(&server);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static bool blocked(const nm_flaps *flaps, const nm_flap_limits *limits,
                    const char *host, uint64_t now_us) {
  nm_flap_key key = nm_flap_key_of(limits, host);
  return nm_flaps_blocked(flaps, limits, &key, now_us);
}

static void ended(nm_flaps *flaps, const nm_flap_limits *limits,
                  const char *host, uint64_t lived_us, uint64_t now_us) {
  nm_flap_key key = nm_flap_key_of(limits, host);
  nm_flaps_ended(flaps, limits, &nm_mem_system, &key, false, lived_us, now_us);
}

NM_TEST(flaps_are_counted_forgotten_and_bounded) {
  const nm_flap_limits limits = {
      .threshold_ms = 20000, .grace = 2, .block_ms = 60000};
  const uint64_t second = 1000000;
  const uint64_t now = 1000 * second;
  nm_flaps flaps = {0};
  for (int i = 0; i < 3; i++) {
    NM_CHECK(!blocked(&flaps, &limits, "10.0.0.1", now));
    ended(&flaps, &limits, "10.0.0.1", 19 * second, now);
  }
  NM_CHECK(blocked(&flaps, &limits, "10.0.0.1", now));
  NM_CHECK(!blocked(&flaps, &limits, "10.0.0.2", now));
  /* Until the time is over, and then all over again. */
  NM_CHECK(blocked(&flaps, &limits, "10.0.0.1", now + 60 * second - 1));
  NM_CHECK(!blocked(&flaps, &limits, "10.0.0.1", now + 60 * second));
  ended(&flaps, &limits, "10.0.0.1", 0, now + 60 * second);
  NM_CHECK(!blocked(&flaps, &limits, "10.0.0.1", now + 60 * second));
  /* One that lives long enough clears its address. */
  for (int i = 0; i < 6; i++) {
    uint64_t lived = i % 3 == 2 ? 20 * second : 0;
    ended(&flaps, &limits, "10.0.0.3", lived, now);
  }
  NM_CHECK(!blocked(&flaps, &limits, "10.0.0.3", now));
  /* IPv6 by its network; this machine's own addresses not at all. */
  static const char *const same[] = {"2001:db8::1", "2001:db8::2",
                                     "2001:db8::ffff:1"};
  for (int i = 0; i < 3; i++) {
    ended(&flaps, &limits, same[i], 0, now);
    ended(&flaps, &limits, "127.0.0.1", 0, now);
    ended(&flaps, &limits, "::1", 0, now);
    ended(&flaps, &limits, "no address", 0, now);
  }
  NM_CHECK(blocked(&flaps, &limits, "2001:db8::9", now));
  NM_CHECK(!blocked(&flaps, &limits, "2001:db8:0:1::9", now));
  NM_CHECK(!blocked(&flaps, &limits, "127.0.0.1", now));
  NM_CHECK(!blocked(&flaps, &limits, "::1", now));
  NM_CHECK_INT(flaps.counted, 3 + 1 + 4 + 3);
  /* The one that was seen last makes no room. */
  for (unsigned i = 0; i < 2 * NM_FLAPS_MAX; i++) {
    char host[NM_ADDRESS_TEXT_MAX];
    (void)snprintf(host, sizeof(host), "11.0.%u.%u", i / 256, i % 256);
    ended(&flaps, &limits, host, 0, now + i);
    ended(&flaps, &limits, "2001:db8::1", 0, now + i);
  }
  NM_CHECK_INT(flaps.used, NM_FLAPS_MAX);
  NM_CHECK_INT(flaps.evicted, 2 * NM_FLAPS_MAX + 2 - NM_FLAPS_MAX);
  NM_CHECK(blocked(&flaps, &limits, "2001:db8::9", now + second));
  nm_flaps_free(&flaps, &nm_mem_system);
  nm_flap_limits off = limits;
  off.threshold_ms = 0;
  ended(&flaps, &off, "10.0.0.1", 0, now);
  NM_CHECK_INT(flaps.counted, 0);
}

/* Whether a plain connection is taken. */
static bool takes(const char *address, uint16_t port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  bool six = inet_pton(AF_INET6, address, &v6.sin6_addr) == 1;
  NM_CHECK(six || inet_pton(AF_INET, address, &v4.sin_addr) == 1);
  int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  int result = six ? connect(fd, (const void *)&v6, sizeof(v6))
                   : connect(fd, (const void *)&v4, sizeof(v4));
  close(fd);
  return result == 0;
}

NM_TEST(a_server_is_of_one_family_or_of_both_as_it_is_told) {
  static const struct {
    const char *host;
    bool four;
    bool six;
  } cases[] = {{"", true, true}, {"0.0.0.0", true, false}, {"::", false, true}};
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  int probe = socket(AF_INET6, SOCK_STREAM, 0);
  bool has_ipv6 = probe >= 0;
  if (has_ipv6) {
    close(probe);
  }
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && has_ipv6; i++) {
    uint16_t port;
    nm_test_context("host \"%s\"", cases[i].host);
    nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
    memcpy(setup.host, cases[i].host, strlen(cases[i].host) + 1);
    nm_iface_id id = io_add(&n, &setup, &port);
    NM_CHECK_INT(takes("127.0.0.1", port), cases[i].four);
    NM_CHECK_INT(takes("::1", port), cases[i].six);
    nm_command c = {.kind = NM_COMMAND_IFACE_REMOVE, .iface = id};
    NM_CHECK_OK(io_status(&n, &c));
  }
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* ---- memory ---- */

/* An allocator that any thread may use and that counts bytes. */
typedef struct counted {
  alignas(16) size_t size;
} counted;

static atomic_size_t bytes_live;

static void *count_alloc(void *user, size_t size) {
  counted *c = malloc(sizeof(*c) + size);
  (void)user;
  if (c == NULL) {
    return NULL;
  }
  c->size = size;
  atomic_fetch_add(&bytes_live, size);
  return c + 1;
}

static void count_release(void *user, void *ptr) {
  (void)user;
  if (ptr != NULL) {
    counted *c = (counted *)ptr - 1;
    atomic_fetch_sub(&bytes_live, c->size);
    free(c);
  }
}

static void *count_resize(void *user, void *ptr, size_t size) {
  void *fresh = count_alloc(user, size);
  if (fresh != NULL && ptr != NULL) {
    size_t had = ((counted *)ptr - 1)->size;
    memcpy(fresh, ptr, had < size ? had : size);
    count_release(user, ptr);
  }
  return fresh;
}

/* What a connection may hold while nothing is under way, with its row of the
 * published list; what all of them share is a buffer for each direction. The
 * node keeps no freed blocks. */
#define IDLE_CLIENT_MAX 3400
#define IDLE_SHARED_MAX (512u << 10)

/* NM_CLIENTS=1000 for as many. */
static int clients_wanted(void) {
  const char *wanted = getenv("NM_CLIENTS");
  return wanted == NULL ? 200 : atoi(wanted);
}

static bool has_connections(io_node *n, nm_iface_id server, int count) {
  nm_iface_info info;
  NM_CHECK(io_info(n, server, &info));
  return info.connections == (uint32_t)count;
}

/* Each has sent half a frame, with the whole of it and an answer afterwards. */
NM_TEST(an_idle_connection_holds_no_buffer) {
  static const uint8_t half[] = {0x7e, 0x00, 0x00, 0x7d, 0x5e};
  static const uint8_t rest[40] = {1, 2, 3, [39] = 0x7e};
  static const nm_mem mem = {NULL, count_alloc, count_resize, count_release};
  int clients = clients_wanted();
  int *fds = nm_test_scratch((size_t)clients * sizeof(int));
  nm_loop_config config = {.mem = &mem};
  nm_loop *loop = NULL;
  io_node n;
  NM_CHECK_OK(nm_loop_start(&config, &loop));
  nm_node_config own;
  nm_node_config_default(&own);
  own.stock_bytes = 1;
  io_open_config(&n, loop, &own);
  uint16_t port = 0;
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  nm_iface_id server = io_add(&n, &setup, &port);
  nm_destination_hash hash = io_listen(&n, 7, "test.idle", NULL);
  size_t before = atomic_load(&bytes_live);
  for (int i = 0; i < clients; i++) {
    fds[i] = io_raw_connect(port);
    NM_CHECK(send(fds[i], half, sizeof(half), 0) == sizeof(half));
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (!has_connections(&n, server, clients)) {
    NM_CHECK(io_now_us() < until);
    io_drain(&n);
  }
  io_announce(&n, &hash);
  for (int i = 0; i < clients; i++) {
    uint8_t bytes[400];
    struct pollfd wait = {.fd = fds[i], .events = POLLIN};
    NM_CHECK(send(fds[i], rest, sizeof(rest), 0) == sizeof(rest));
    NM_CHECK(poll(&wait, 1, IO_PATIENCE_MS) == 1);
    NM_CHECK(recv(fds[i], bytes, sizeof(bytes), 0) > 100);
  }
  size_t held;
  do {
    NM_CHECK(io_now_us() < until);
    io_drain(&n);
    size_t now = atomic_load(&bytes_live);
    held = now > before ? now - before : 0;
    nm_test_context("%zu bytes for %d clients", held, clients);
  } while (held > (size_t)clients * IDLE_CLIENT_MAX + IDLE_SHARED_MAX);
  if (getenv("NM_CLIENTS") != NULL) {
    printf("%zu bytes for each of %d idle clients\n", held / (size_t)clients,
           clients);
  }
  for (int i = 0; i < clients; i++) {
    close(fds[i]);
  }
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
  NM_CHECK_INT(atomic_load(&bytes_live), 0);
}

NM_TEST(a_turned_away_address_waits_longer_each_time) {
  const nm_flap_limits limits = {
      .threshold_ms = 20000, .grace = 2, .first_ms = 2000, .block_ms = 9000};
  static const uint64_t BLOCKS_S[] = {2, 4, 8, 9};
  const uint64_t second = 1000000;
  uint64_t now = 1000 * second;
  nm_flaps flaps = {0};
  ended(&flaps, &limits, "10.0.0.1", 0, now);
  ended(&flaps, &limits, "10.0.0.1", 0, now);
  for (size_t i = 0; i < sizeof(BLOCKS_S) / sizeof(BLOCKS_S[0]); i++) {
    NM_CHECK(!blocked(&flaps, &limits, "10.0.0.1", now));
    ended(&flaps, &limits, "10.0.0.1", 0, now);
    NM_CHECK(
        blocked(&flaps, &limits, "10.0.0.1", now + BLOCKS_S[i] * second - 1));
    now += BLOCKS_S[i] * second;
    if (BLOCKS_S[i] == 9) {
      /* So long a silence is forgiven: the grace begins anew. */
      ended(&flaps, &limits, "10.0.0.1", 0, now);
      ended(&flaps, &limits, "10.0.0.1", 0, now);
      break;
    }
  }
  NM_CHECK(!blocked(&flaps, &limits, "10.0.0.1", now));
  /* Numbers of any size, and as many flaps as there may be. */
  const nm_flap_limits vast = {
      .threshold_ms = 1, .first_ms = UINT32_MAX, .block_ms = UINT32_MAX};
  for (int i = 0; i < 100; i++) {
    ended(&flaps, &vast, "10.0.0.2", 0, now);
    NM_CHECK(blocked(&flaps, &vast, "10.0.0.2",
                     now + (uint64_t)UINT32_MAX * 1000 - 1));
  }
  nm_flaps_free(&flaps, &nm_mem_system);
}

/* Many behind one address, or a program that connects for each message. */
NM_TEST(connections_that_say_something_do_not_flap) {
  enum { CAME = 60 };
  nm_loop *loop = io_loop(0);
  io_node server;
  uint16_t port;
  io_open(&server, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.flaps.loopback = true;
  setup.flaps.threshold_ms = 600000;
  setup.flaps.block_ms = 600000;
  nm_iface_id listener = io_add(&server, &setup, &port);
  /* A packet to a PLAIN destination, and one that is none. */
  uint8_t frame[2 + 19 + 5] = {0x7e, 0x08};
  frame[sizeof(frame) - 1] = 0x7e;
  const uint8_t noise[] = {0x7e, 1, 2, 3, 0x7e};
  for (uint64_t i = 1; i <= CAME; i++) {
    come_say_and_go("127.0.0.2", port, nm_span_of(frame, sizeof(frame)));
    nm_iface_info info = info_of(&server, listener);
    uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
    while (info.opened < i || info.connections > 0) {
      NM_CHECK(io_now_us() < until);
      io_drain(&server);
      info = info_of(&server, listener);
    }
    NM_CHECK_INT(info.refused, 0);
    NM_CHECK_INT(info.flaps, 0);
  }
  for (uint64_t i = 1; i <= setup.flaps.grace + 2; i++) {
    come_say_and_go("127.0.0.2", port, nm_span_of(noise, sizeof(noise)));
    (void)settled(&server, listener, i, 0);
  }
  nm_iface_info info = info_of(&server, listener);
  NM_CHECK_INT(info.flaps, setup.flaps.grace + 1);
  NM_CHECK_INT(info.refusals[NM_PORT_REFUSED_FLAPPING], 1);
  io_close(&server);
  NM_CHECK_OK(nm_loop_stop(loop));
}
