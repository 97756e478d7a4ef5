/* What a link costs a node: its engine's share, the ticket of the command that
 * opened it, and what the node's own allocator adds.
 */
#include "io_support.h"

#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINKS 1000
/* What an allocator keeps beside each block: its header and the rounding. */
#define BLOCK_COST 16
#define BYTES_MOST 1024

/* The allocator of one loop, and what it has given out. */
typedef struct scale {
  nm_mem mem;
  atomic_size_t bytes;
  atomic_size_t blocks;
} scale;

#define HEAD 16

static void *scale_alloc(void *user, size_t size) {
  scale *s = user;
  uint8_t *block = malloc(HEAD + size);
  if (block == NULL) {
    return NULL;
  }
  memcpy(block, &size, sizeof(size));
  atomic_fetch_add(&s->bytes, size);
  atomic_fetch_add(&s->blocks, 1);
  return block + HEAD;
}

static void scale_release(void *user, void *ptr) {
  scale *s = user;
  if (ptr != NULL) {
    size_t size;
    memcpy(&size, (uint8_t *)ptr - HEAD, sizeof(size));
    atomic_fetch_sub(&s->bytes, size);
    atomic_fetch_sub(&s->blocks, 1);
    free((uint8_t *)ptr - HEAD);
  }
}

static void *scale_resize(void *user, void *ptr, size_t size) {
  void *moved = scale_alloc(user, size);
  if (moved != NULL && ptr != NULL) {
    size_t had;
    memcpy(&had, (uint8_t *)ptr - HEAD, sizeof(had));
    memcpy(moved, ptr, had < size ? had : size);
    scale_release(user, ptr);
  }
  return moved;
}

static size_t weight(scale *s) {
  return atomic_load(&s->bytes) + atomic_load(&s->blocks) * BLOCK_COST;
}

/* A loop with a node of which nothing is kept for the next packet. */
static nm_loop *open_on(scale *s, io_node *n) {
  s->mem = (nm_mem){s, scale_alloc, scale_resize, scale_release};
  nm_loop_config config = {.mem = &s->mem, .workers = 1};
  nm_loop *loop = NULL;
  nm_node_config node;
  nm_node_config_default(&node);
  node.stock_bytes = 1;
  NM_CHECK_OK(nm_loop_start(&config, &loop));
  io_open_config(n, loop, &node);
  return loop;
}

static void open_links(io_node *a, io_node *b,
                       const nm_destination_hash *hash) {
  uint64_t tickets[LINKS];
  for (int i = 0; i < LINKS; i++) {
    nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = *hash};
    tickets[i] = io_post(a, &c);
  }
  for (int i = 0; i < LINKS; i++) {
    nm_event active = io_event(a, NM_EVENT_LINK_ACTIVE, tickets[i]);
    nm_event_dispose(&active);
  }
  for (int i = 0; i < LINKS; i++) {
    nm_event active = io_event(b, NM_EVENT_LINK_ACTIVE, 0);
    nm_event_dispose(&active);
  }
}

NM_TEST(a_link_takes_less_than_a_kib_on_each_side) {
  static scale scales[2];
  io_node nodes[2];
  nm_loop *loops[2];
  size_t before[2];
  uint16_t port;
  memset(scales, 0, sizeof(scales));
  for (int i = 0; i < 2; i++) {
    loops[i] = open_on(&scales[i], &nodes[i]);
  }
  (void)io_serve(&nodes[1], &port);
  (void)io_connect(&nodes[0], port);
  nm_destination_hash hash = io_listen(&nodes[1], 7, "test.links", NULL);
  io_announce(&nodes[1], &hash);
  io_await_path(&nodes[0], &hash);
  (void)io_link(&nodes[0], &hash);
  nm_event first = io_event(&nodes[1], NM_EVENT_LINK_ACTIVE, 0);
  nm_event_dispose(&first);
  for (int i = 0; i < 2; i++) {
    (void)io_stats(&nodes[i]); /* what came before is done */
    before[i] = weight(&scales[i]);
  }
  open_links(&nodes[0], &nodes[1], &hash);
  for (int i = 0; i < 2; i++) {
    (void)io_stats(&nodes[i]);
    size_t each = (weight(&scales[i]) - before[i]) / LINKS;
    nm_test_context("%s: %zu bytes each", i == 0 ? "initiator" : "responder",
                    each);
    NM_CHECK(each <= BYTES_MOST);
  }
  for (int i = 0; i < 2; i++) {
    io_close(&nodes[i]);
    NM_CHECK_OK(nm_loop_stop(loops[i]));
    NM_CHECK_INT(atomic_load(&scales[i].blocks), 0);
  }
}
