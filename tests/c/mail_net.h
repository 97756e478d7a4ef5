/* Engines with routers above them, for tests of the lxmf room: everything the
 * routers tell is kept until the test has looked at it.
 */
#ifndef NM_TESTS_MAIL_NET_H
#define NM_TESTS_MAIL_NET_H

#include "engine_net.h"
#include "lxmf/router.h"

#define MAIL_KEPT 16384

typedef struct mail_net {
  net n;
  nm_router *routers[NET_ENGINES];
  nm_destination_hash boxes[NET_ENGINES]; /* one mailbox each */
  nm_mail kept[NET_ENGINES][MAIL_KEPT];
  int count[NET_ENGINES];
  bool leaves_tokens; /* with `hold`: the test decides */
  bool stops_work;    /* jobs wait */
  /* What no router took; disposed of afterwards. May be NULL. */
  void (*others)(void *user, int engine, nm_event *event);
  void *user;
} mail_net;

/* |count| engines, each with a router and a mailbox of the identity with the
 * engine's number as seed. |mem| is the routers'. */
int mail_init(mail_net *m, const nm_mem *mem, int count,
              const nm_router_config *config);
/* A chain: engine i joined with i + 1, the inner ones transport nodes. */
void mail_chain(mail_net *m, int count, const nm_router_config *config);
void mail_dispose(mail_net *m);
void mail_settle(mail_net *m);
void mail_pass(mail_net *m, uint64_t us);
/* Announces a mailbox and settles. */
void mail_announce(mail_net *m, int engine);
/* A signed message from one mailbox to another: a block. |fields|: an encoded
 * map, or empty. */
nm_block *mail_message_with(mail_net *m, int from, int to, size_t content_len,
                            nm_span fields);
nm_block *mail_message(mail_net *m, int from, int to, size_t content_len);
/* Sends one by the given ways; its id goes to |id|. */
int mail_send(mail_net *m, int from, int to, size_t content_len,
              const nm_policy *policy, uint8_t id[NM_HASH_SIZE]);
nm_policy mail_by(nm_lxmf_method method);
/* How many of a kind an engine's router told of. */
int mail_count(const mail_net *m, int engine, nm_mail_kind kind);
/* The last state told of a message, or -1. */
int mail_state(const mail_net *m, int engine, const uint8_t id[NM_HASH_SIZE]);
const nm_mail *mail_last(const mail_net *m, int engine, nm_mail_kind kind);
void mail_forget(mail_net *m);

#endif
