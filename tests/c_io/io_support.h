/* Nodes for tests: opened, commanded and read with deadlines instead of sleeps.
 */
#ifndef NM_TESTS_IO_SUPPORT_H
#define NM_TESTS_IO_SUPPORT_H

#include "io/node.h"

#define IO_BACKLOG 20000
/* Everything that is waited for comes within this, also under sanitizers. */
#define IO_PATIENCE_MS 30000

typedef struct io_node {
  nm_node *node;
  uint64_t next_ticket;
  nm_node_event *backlog; /* read, not yet looked at */
  size_t count;
  bool closed;
} io_node;

/* A loop with |workers| compute threads (0: default). */
nm_loop *io_loop(uint32_t workers);
/* A node in memory (|storage| NULL), or with storage. */
void io_open(io_node *n, nm_loop *loop, const char *storage);
void io_open_config(io_node *n, nm_loop *loop, const nm_node_config *config);
/* Closes, waits for NM_NODE_CLOSED, releases. */
void io_close(io_node *n);

/* Posts |command| under a fresh ticket and returns it; fails the test when it
 * is not taken. */
uint64_t io_post(io_node *n, nm_command *command);
/* Posts and waits for the reply, which the caller disposes of with io_done. */
nm_node_event io_ask(io_node *n, nm_command *command);
void io_done(nm_node_event *event);
/* As io_ask, for replies of which only the status matters. */
int io_status(io_node *n, nm_command *command);

/* The next event for which |match| is true, within the patience; it is taken
 * out of the backlog. False when there is none in time. */
typedef bool io_match(const nm_node_event *event, const void *user);
bool io_wait(io_node *n, io_match *match, const void *user, int timeout_ms,
             nm_node_event *event);
/* The next engine event of |kind|; with |ticket| not 0, under that one. The
 * test fails when it does not come. */
nm_event io_event(io_node *n, nm_event_kind kind, uint64_t ticket);
/* Whether one comes within |timeout_ms|; it is disposed of. */
bool io_sees(io_node *n, nm_event_kind kind, int timeout_ms);
/* The next trouble of |kind|. */
nm_trouble io_trouble(io_node *n, nm_trouble_kind kind);
/* Reads all that is there now and drops it, backlog included. */
void io_drain(io_node *n);

/* ---- commands that tests need often ---- */

nm_iface_setup io_setup(nm_medium medium, const char *label);
/* Adds an interface and checks that it worked; its id, and the bound port. */
nm_iface_id io_add(io_node *n, const nm_iface_setup *setup, uint16_t *port);
/* A TCP server on 127.0.0.1, any port. */
nm_iface_id io_serve(io_node *n, uint16_t *port);
/* A TCP client of 127.0.0.1:|port|; waits until it is online. */
nm_iface_id io_connect(io_node *n, uint16_t port);
/* Joins two nodes by a pipe. */
void io_join(io_node *a, io_node *b);
/* Waits until the interface is online (or not). */
void io_await_online(io_node *n, nm_iface_id iface, bool online);
/* The row of an interface in a fresh list; false when it is gone. */
bool io_info(io_node *n, nm_iface_id iface, nm_iface_info *info);
nm_node_stats io_stats(io_node *n);

nm_block *io_block(const void *bytes, size_t len);
nm_block *io_text(const char *text);
/* A destination that proves everything, under a key made from |seed|. */
nm_destination_hash io_listen(io_node *n, uint8_t seed, const char *name,
                              void (*adjust)(nm_dest_spec *spec));
/* Announces and waits until an interface took it. */
void io_announce(io_node *n, const nm_destination_hash *hash);
/* Waits until |n| knows a path to |hash|. */
void io_await_path(io_node *n, const nm_destination_hash *hash);
/* Sends a packet with a receipt and waits for its end: a NM_RECEIPT_ code. */
uint8_t io_send(io_node *n, const nm_destination_hash *hash, const char *text);
/* Opens a link and waits for it. */
nm_link_ref io_link(io_node *n, const nm_destination_hash *hash);

/* A new folder of this test, removed at exit. */
const char *io_folder(void);
/* |folder|/|name| in static storage. */
const char *io_path(const char *folder, const char *name);
uint64_t io_now_us(void);
/* A connected client socket to 127.0.0.1:|port|, blocking. */
int io_raw_connect(uint16_t port);
/* Connects a socket that is there already. */
void io_raw_dial(int fd, uint16_t port);
/* A listening socket on 127.0.0.1, blocking. */
int io_raw_listen(uint16_t *port);
/* A listening socket at the abstract name of a shared instance (Linux). */
int io_listen_abstract(const char *instance);
bool io_readable_within(int fd, int timeout_ms);
/* The next connection, or -1 when none comes in time. */
int io_accept_within(int listener, int timeout_ms);
/* How many descriptors this process has open. */
int io_open_descriptors(void);

#endif
