#define _XOPEN_SOURCE 700 /* nftw */

#include "io_support.h"

#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* More than any test opens. */
#define DESCRIPTORS_MAX 65536

/* These tests need none. */
const nm_vector nm_vectors[1];
const size_t nm_vector_count = 0;

uint64_t io_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- nodes ---- */

nm_loop *io_loop(uint32_t workers) {
  nm_loop_config config = {.workers = workers};
  nm_loop *loop = NULL;
  NM_CHECK_OK(nm_loop_start(&config, &loop));
  return loop;
}

void io_open_config(io_node *n, nm_loop *loop, const nm_node_config *config) {
  memset(n, 0, sizeof(*n));
  nm_node_fault fault = {0};
  int status = nm_node_open(loop, config, &n->node, &fault);
  if (status != NM_OK) {
    nm_test_fail(__FILE__, __LINE__, "the node does not open: %s, errno %d, %s",
                 nm_status_name(status), fault.os_error, fault.path);
  }
  n->next_ticket = 1000;
  n->backlog = malloc(IO_BACKLOG * sizeof(n->backlog[0]));
  NM_CHECK(n->backlog != NULL);
}

void io_open(io_node *n, nm_loop *loop, const char *storage) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.storage = storage;
  io_open_config(n, loop, &config);
}

static bool is_closed(const nm_node_event *event, const void *user) {
  (void)user;
  return event->kind == NM_NODE_CLOSED;
}

void io_close(io_node *n) {
  nm_node_event event;
  nm_node_close(n->node);
  if (!n->closed) {
    NM_CHECK(io_wait(n, is_closed, NULL, IO_PATIENCE_MS, &event));
  }
  io_drain(n);
  nm_node_release(n->node);
  free(n->backlog);
  memset(n, 0, sizeof(*n));
}

/* ---- events ---- */

static bool take_from_backlog(io_node *n, io_match *match, const void *user,
                              nm_node_event *event) {
  for (size_t i = 0; i < n->count; i++) {
    if (match(&n->backlog[i], user)) {
      *event = n->backlog[i];
      n->count--;
      memmove(&n->backlog[i], &n->backlog[i + 1],
              (n->count - i) * sizeof(n->backlog[0]));
      return true;
    }
  }
  return false;
}

bool io_wait(io_node *n, io_match *match, const void *user, int timeout_ms,
             nm_node_event *event) {
  uint64_t until = io_now_us() + (uint64_t)timeout_ms * 1000;
  if (take_from_backlog(n, match, user, event)) {
    return true;
  }
  for (;;) {
    while (nm_node_next(n->node, event)) {
      n->closed = n->closed || event->kind == NM_NODE_CLOSED;
      if (match(event, user)) {
        return true;
      }
      if (n->count == IO_BACKLOG) {
        nm_node_event_dispose(&n->backlog[0]);
        n->count--;
        memmove(&n->backlog[0], &n->backlog[1],
                n->count * sizeof(n->backlog[0]));
      }
      n->backlog[n->count++] = *event;
    }
    uint64_t now = io_now_us();
    if (now >= until) {
      return false;
    }
    (void)nm_node_wait(n->node, (int)((until - now) / 1000) + 1);
  }
}

void io_drain(io_node *n) {
  nm_node_event event;
  for (size_t i = 0; i < n->count; i++) {
    nm_node_event_dispose(&n->backlog[i]);
  }
  n->count = 0;
  while (nm_node_next(n->node, &event)) {
    n->closed = n->closed || event.kind == NM_NODE_CLOSED;
    nm_node_event_dispose(&event);
  }
}

typedef struct wanted {
  nm_event_kind kind;
  uint64_t ticket;
} wanted;

static bool is_wanted(const nm_node_event *event, const void *user) {
  const wanted *w = user;
  return event->kind == NM_NODE_EVENT && event->u.event.kind == w->kind &&
         (w->ticket == 0 || event->ticket == w->ticket);
}

nm_event io_event(io_node *n, nm_event_kind kind, uint64_t ticket) {
  wanted w = {kind, ticket};
  nm_node_event event;
  if (!io_wait(n, is_wanted, &w, IO_PATIENCE_MS, &event)) {
    nm_test_fail(__FILE__, __LINE__, "no event %s came", nm_event_name(kind));
  }
  return event.u.event;
}

bool io_sees(io_node *n, nm_event_kind kind, int timeout_ms) {
  wanted w = {kind, 0};
  nm_node_event event;
  if (!io_wait(n, is_wanted, &w, timeout_ms, &event)) {
    return false;
  }
  nm_node_event_dispose(&event);
  return true;
}

static bool is_trouble(const nm_node_event *event, const void *user) {
  const nm_trouble_kind *kind = user;
  return event->kind == NM_NODE_TROUBLE && event->u.trouble.kind == *kind;
}

nm_trouble io_trouble(io_node *n, nm_trouble_kind kind) {
  nm_node_event event;
  NM_CHECK(io_wait(n, is_trouble, &kind, IO_PATIENCE_MS, &event));
  return event.u.trouble;
}

/* ---- commands ---- */

uint64_t io_post(io_node *n, nm_command *command) {
  uint64_t ticket = n->next_ticket++;
  command->ticket = ticket;
  NM_CHECK_OK(nm_node_command(n->node, command));
  return ticket;
}

static bool is_reply(const nm_node_event *event, const void *user) {
  const uint64_t *ticket = user;
  return event->kind == NM_NODE_REPLY && event->ticket == *ticket;
}

nm_node_event io_ask(io_node *n, nm_command *command) {
  nm_command_kind kind = command->kind;
  uint64_t ticket = io_post(n, command);
  nm_node_event event;
  if (!io_wait(n, is_reply, &ticket, IO_PATIENCE_MS, &event)) {
    nm_test_fail(__FILE__, __LINE__, "no reply to %s", nm_command_name(kind));
  }
  NM_CHECK_INT(event.u.reply.command, kind);
  return event;
}

void io_done(nm_node_event *event) {
  nm_node_event_dispose(event);
}

int io_status(io_node *n, nm_command *command) {
  nm_node_event event = io_ask(n, command);
  int status = event.u.reply.status;
  nm_node_event_dispose(&event);
  return status;
}

nm_block *io_block(const void *bytes, size_t len) {
  nm_block *block = nm_block_copy(&nm_mem_system, nm_span_of(bytes, len));
  NM_CHECK(block != NULL);
  return block;
}

nm_block *io_text(const char *text) {
  return io_block(text, strlen(text));
}

nm_iface_setup io_setup(nm_medium medium, const char *label) {
  nm_iface_setup setup;
  NM_CHECK_OK(nm_iface_setup_default(&setup, medium, label));
  return setup;
}

nm_iface_id io_add(io_node *n, const nm_iface_setup *setup, uint16_t *port) {
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  c.u.iface = *setup;
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_OK(event.u.reply.status);
  nm_iface_id id = event.u.reply.iface;
  if (port != NULL) {
    *port = (uint16_t)event.u.reply.number;
  }
  nm_node_event_dispose(&event);
  NM_CHECK(id != 0);
  return id;
}

nm_iface_id io_serve(io_node *n, uint16_t *port) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  nm_iface_id id = io_add(n, &setup, port);
  NM_CHECK(*port != 0);
  return id;
}

nm_iface_id io_connect(io_node *n, uint16_t port) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_CLIENT, "client");
  memcpy(setup.host, "127.0.0.1", 10);
  setup.port = port;
  nm_iface_id id = io_add(n, &setup, NULL);
  io_await_online(n, id, true);
  return id;
}

void io_join(io_node *a, io_node *b) {
  int fds[2];
  NM_CHECK_OK(nm_pipe_pair(fds));
  nm_iface_setup setup = io_setup(NM_MEDIUM_PIPE, "pipe");
  setup.fd = fds[0];
  (void)io_add(a, &setup, NULL);
  setup.fd = fds[1];
  (void)io_add(b, &setup, NULL);
}

bool io_info(io_node *n, nm_iface_id iface, nm_iface_info *info) {
  nm_command c = {.kind = NM_COMMAND_IFACE_LIST};
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_OK(event.u.reply.status);
  size_t count;
  bool found = false;
  const nm_iface_info *rows = nm_iface_infos(event.u.reply.records, &count);
  for (size_t i = 0; i < count; i++) {
    if (rows[i].id == iface) {
      *info = rows[i];
      found = true;
    }
  }
  nm_node_event_dispose(&event);
  return found;
}

void io_await_online(io_node *n, nm_iface_id iface, bool online) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  for (;;) {
    nm_iface_info info;
    NM_CHECK(io_info(n, iface, &info));
    if (info.online == online) {
      return;
    }
    if (io_now_us() > until) {
      nm_test_fail(__FILE__, __LINE__, "interface %u is not %s", iface,
                   online ? "online" : "offline");
    }
    (void)io_sees(n, NM_EVENT_IFACE, 50);
  }
}

nm_node_stats io_stats(io_node *n) {
  nm_command c = {.kind = NM_COMMAND_STATS};
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_INT(event.u.reply.record_count, 1);
  nm_node_stats stats;
  memcpy(&stats, nm_block_span(event.u.reply.records).ptr, sizeof(stats));
  nm_node_event_dispose(&event);
  return stats;
}

nm_destination_hash io_listen(io_node *n, uint8_t seed, const char *name,
                              void (*adjust)(nm_dest_spec *spec)) {
  uint8_t keys[NM_PRIVATE_SIZE];
  memset(keys, seed, sizeof(keys));
  nm_command c = {.kind = NM_COMMAND_LISTEN};
  nm_dest_spec_default(&c.u.listen);
  c.u.listen.prove = NM_PROVE_ALL;
  if (adjust != NULL) {
    adjust(&c.u.listen);
  }
  c.key = io_block(keys, sizeof(keys));
  c.data = io_text(name);
  nm_node_event event = io_ask(n, &c);
  NM_CHECK_OK(event.u.reply.status);
  nm_destination_hash hash = event.u.reply.destination;
  nm_node_event_dispose(&event);
  return hash;
}

void io_announce(io_node *n, const nm_destination_hash *hash) {
  nm_command c = {.kind = NM_COMMAND_ANNOUNCE, .destination = *hash};
  uint64_t ticket = io_post(n, &c);
  nm_event done = io_event(n, NM_EVENT_ANNOUNCED, ticket);
  NM_CHECK_OK(done.status);
  nm_event_dispose(&done);
}

void io_await_path(io_node *n, const nm_destination_hash *hash) {
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  for (;;) {
    nm_command c = {.kind = NM_COMMAND_HOPS, .destination = *hash};
    nm_node_event event = io_ask(n, &c);
    if (event.u.reply.number < NM_HOPS_MAX) {
      nm_node_event_dispose(&event);
      return;
    }
    nm_node_event_dispose(&event);
    NM_CHECK(io_now_us() < until);
    (void)io_sees(n, NM_EVENT_PATH, 50);
  }
}

uint8_t io_send(io_node *n, const nm_destination_hash *hash, const char *text) {
  nm_command c = {.kind = NM_COMMAND_SEND};
  nm_send_spec_default(&c.u.send);
  c.u.send.destination = *hash;
  c.u.send.receipt = true;
  c.data = io_text(text);
  uint64_t ticket = io_post(n, &c);
  nm_event end = io_event(n, NM_EVENT_RECEIPT, ticket);
  uint8_t state = end.state;
  nm_event_dispose(&end);
  return state;
}

nm_link_ref io_link(io_node *n, const nm_destination_hash *hash) {
  nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = *hash};
  uint64_t ticket = io_post(n, &c);
  nm_event active = io_event(n, NM_EVENT_LINK_ACTIVE, ticket);
  nm_link_ref link = active.link;
  nm_event_dispose(&active);
  return link;
}

/* ---- the system ---- */

static char folders[128][64];
static int folder_count;

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *walk) {
  (void)info;
  (void)type;
  (void)walk;
  return remove(path);
}

static void remove_folders(void) {
  for (int i = 0; i < folder_count; i++) {
    (void)nftw(folders[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  }
}

const char *io_folder(void) {
  NM_CHECK(folder_count < 128);
  char *path = folders[folder_count];
  (void)snprintf(path, sizeof(folders[0]), "/tmp/netmesh-io-XXXXXX");
  NM_CHECK(mkdtemp(path) != NULL);
  if (folder_count++ == 0) {
    atexit(remove_folders);
  }
  return path;
}

const char *io_path(const char *folder, const char *name) {
  static char paths[4][256];
  static unsigned at;
  char *path = paths[at++ % 4];
  (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  return path;
}

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to;
}

void io_raw_dial(int fd, uint16_t port) {
  struct sockaddr_in to = loopback(port);
  NM_CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
}

int io_raw_connect(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  NM_CHECK(fd >= 0);
  io_raw_dial(fd, port);
  return fd;
}

int io_raw_listen(uint16_t *port) {
  struct sockaddr_in at = loopback(0);
  socklen_t len = sizeof(at);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  NM_CHECK(fd >= 0);
  NM_CHECK(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
  NM_CHECK(listen(fd, 16) == 0);
  NM_CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
  *port = ntohs(at.sin_port);
  return fd;
}

/* Asks for each number: to list them would take one, which a thread may have
 * given back this moment by a call that the thread sanitizer does not see. */
int io_open_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
    count += fcntl(fd, F_GETFD) != -1;
  }
  return count;
}

#if defined(__linux__)
int io_listen_abstract(const char *instance) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int len =
      snprintf(&at.sun_path[1], sizeof(at.sun_path) - 1, "rns/%s", instance);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  NM_CHECK(fd >= 0);
  socklen_t size =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
  NM_CHECK(bind(fd, (struct sockaddr *)&at, size) == 0);
  NM_CHECK(listen(fd, 4) == 0);
  return fd;
}
#endif

bool io_readable_within(int fd, int timeout_ms) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  return poll(&poll_fd, 1, timeout_ms) == 1;
}

int io_accept_within(int listener, int timeout_ms) {
  return io_readable_within(listener, timeout_ms) ? accept(listener, NULL, NULL)
                                                  : -1;
}
