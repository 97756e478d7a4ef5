/* Two nodes with a mailbox each, for tests of mail in nodes.
 */
#ifndef NM_TESTS_HOST_PAIR_H
#define NM_TESTS_HOST_PAIR_H

#include "io_support.h"

typedef struct host_pair {
  nm_loop *loop;
  io_node a;
  io_node b;
  nm_destination_hash box_a;
  nm_destination_hash box_b;
} host_pair;

/* The private keys that |seed| stands for. */
void host_keys(uint8_t seed, uint8_t keys[NM_PRIVATE_SIZE]);
/* MAIL_OPEN for the identity of |seed|. */
nm_destination_hash host_open(io_node *n, uint8_t seed, uint32_t stamp_cost);
/* a and b over loopback TCP, each with a mailbox that the other knows. The
 * configuration is b's; NULL: as usual. */
void host_begin(host_pair *p, const nm_node_config *config);
void host_end(host_pair *p);

/* A signed message from the mailbox of |seed|; no two are alike. */
nm_block *host_packed(uint8_t seed, const nm_destination_hash *from,
                      const nm_destination_hash *to, size_t content_len);
/* A MAIL_SEND by one way from a's mailbox to b's. */
nm_command host_letter(const host_pair *p, size_t content_len,
                       nm_lxmf_method method);
/* Posts it and waits for the reply; its ticket, and its id if |id|. */
uint64_t host_post(io_node *n, nm_command *letter, uint8_t id[NM_HASH_SIZE]);
/* The next event of mail of |kind|; with |ticket| not 0, under that one. The
 * test fails when it does not come. */
nm_node_mail host_event(io_node *n, nm_mail_kind kind, uint64_t ticket);
/* The final state of what |ticket| began. */
nm_node_mail host_final(io_node *n, uint64_t ticket);
/* Waits for an error as reply, or the final state. */
void host_await_end(io_node *n, uint64_t ticket);
/* The next final state of any letter before the node has closed. */
bool host_take_final(io_node *n, nm_mail *mail);
/* The end of a fetch. */
nm_node_mail host_sync_end(io_node *n, uint64_t ticket);
/* Whether one of |kind| comes within |timeout_ms|; it is disposed of. */
bool host_sees(io_node *n, nm_mail_kind kind, int timeout_ms);
nm_router_stats host_stats(io_node *n);

#endif
