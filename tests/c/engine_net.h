/* A handful of engines on wires, for tests of the stack room: time stands still
 * but where a test moves it, jobs run inline, and every event is kept until the
 * test has looked at it. Wires have no delay unless their `fate` says so.
 */
#ifndef NM_TESTS_ENGINE_NET_H
#define NM_TESTS_ENGINE_NET_H

#include "base/timer.h"
#include "crypto/entropy.h"
#include "stack/buffer.h"
#include "stack/channel.h"
#include "stack/engine.h"
#include "stack/link.h"
#include "stack/local.h"
#include "stack/recorder.h"
#include "stack/request.h"
#include "stack/route.h"
#include "stack/send.h"
#include "stack/snapshot.h"
#include "stack/transfer.h"

#define NET_ENGINES 8
#define NET_EVENTS 4096

typedef struct net_port {
  int engine;
  nm_iface_id iface;
} net_port;

#define NET_COPIES 3

/* What becomes of one packet: lost (no copies), or delivered that often. */
typedef struct net_fate {
  int copies;
  uint64_t delay_us[NET_COPIES];
} net_fate;

/* A packet under way. */
typedef struct net_flight {
  struct net_flight *next; /* later */
  uint64_t due_us;
  net_port to;
  nm_block *packet;
} net_flight;

typedef struct net_wire {
  net_port ends[2];
  bool cut;
  /* Called for each packet; false loses it. May be NULL. */
  bool (*filter)(void *user, int from, nm_span raw);
  /* Called for each packet that is not lost by then. NULL: one copy at once. */
  void (*fate)(void *user, int from, nm_span raw, net_fate *fate);
  void *user;
} net_wire;

typedef struct net {
  const nm_mem *mem; /* of the first engine */
  nm_now now;
  nm_engine *engines[NET_ENGINES];
  int engine_count;
  nm_entropy_pool pools[NET_ENGINES];
  nm_entropy sources[NET_ENGINES];
  net_wire wires[8];
  int wire_count;
  net_flight *flights; /* in the order of arrival */
  nm_event events[NET_ENGINES][NET_EVENTS];
  int event_count[NET_ENGINES];
  nm_verdict last_verdict[NET_ENGINES];
  uint64_t packets;
  bool store_fails;
  nm_cipher cipher;
} net;

/* A net of |count| engines, all with credit. NM_E(MEMORY) is passed on. */
int net_init(net *n, const nm_mem *mem, int count);
/* The same with |credit| for each, after |adjust| (or NULL). */
int net_init_credit(net *n, const nm_mem *mem, int count, uint32_t credit,
                    void (*adjust)(int engine, nm_engine_config *config));
/* The same with an allocator of its own for each engine. */
int net_init_apart(net *n, const nm_mem *const *mems, int count,
                   uint32_t credit,
                   void (*adjust)(int engine, nm_engine_config *config));
/* The same after |adjust| has set each engine's configuration. */
int net_init_with(net *n, const nm_mem *mem, int count,
                  void (*adjust)(int engine, nm_engine_config *config));
void net_dispose(net *n);
/* Joins two engines by interfaces of |kind|; the wire's number, or a status. */
int net_join(net *n, int a, int b, const char *kind);
/* Moves packets, jobs and events until nothing is left to do. */
void net_settle(net *n);
/* Lets |us| pass, with all timers on the way. */
void net_pass(net *n, uint64_t us);
/* The first kept event of |kind| at |engine|, or NULL. */
nm_event *net_find(net *n, int engine, nm_event_kind kind);
int net_count(const net *n, int engine, nm_event_kind kind);
void net_forget(net *n);
/* Feeds a frame as if it had come in on |iface|. */
nm_verdict net_feed(net *n, int engine, nm_iface_id iface, nm_span raw);

/* A listening SINGLE destination with a fresh identity of |seed|. */
int net_listen(net *n, int engine, uint8_t seed, const char *name,
               void (*adjust)(nm_dest_spec *spec), nm_destination_hash *hash);
nm_identity net_identity(uint8_t seed);
/* Announces |hash| at |engine| and settles. */
int net_announce(net *n, int engine, const nm_destination_hash *hash);
/* Opens a link and settles; its reference at |engine|, 0 when it failed. */
nm_link_ref net_link(net *n, int engine, const nm_destination_hash *hash);

#endif
