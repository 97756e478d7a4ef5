/* The inside of the io room: loops, nodes and what their files call in each
 * other. Only files of this room include it. Everything here belongs to the
 * loop's thread unless it says otherwise.
 *
 * A file calls only files that stand before it here:
 *   system, iface, postbox, published, recent, devices, udp, flaps, auto_peers
 *   store, store_codec, store_table, loop_base, pool, node_base, partials
 *   files, resolve
 *   mail_store_trouble, mail_store_sql, mail_store_body, mail_store_schema
 *   mail_store_quota, mail_store_write, mail_store, mail_store_read
 *   mail_store_find, mail_store_lists, mail_store_check, mail_load
 *   asks, node_event, ring, outbox, tickets
 *   orphans, port, save_jobs, save_load, save
 *   mail_entries, mail_keep, mail_told, mail, jobs
 *   conn, conn_out, port_pipe, port_tcp, port_server, dgram, port_udp
 *   auto_device, auto_ports, port_auto, port_user, publish
 *   command_routes, command_links, command_channels, command_local
 *   command_mail, command_ports, commands
 *   events, node, pump, loop
 */
#ifndef NM_IO_INTERNAL_H
#define NM_IO_INTERNAL_H

#include "base/stock.h"
#include "base/table.h"
#include "base/timer.h"
#include "io/pool.h"
#include "io/postbox.h"
#include "io/published.h"
#include "io/ring.h"
#include "io/store.h"
#include "io/system.h"

#include <uv.h>

typedef struct nm_port nm_port;
typedef struct nm_conn nm_conn;
struct nm_dgram;

/* ---- loop ---- */

#define NM_READ_BUFFER (64u << 10)
/* The longest frame that any interface takes or gives (RNS 2, 5.8; the access
 * code of at most 64 bytes fits into the room above it). */
#define NM_FRAME_MAX (524288u + 64u)

/* Connections in the order in which they came. */
typedef struct nm_conn_line {
  nm_conn *first;
  nm_conn *last;
} nm_conn_line;

struct nm_loop {
  const nm_mem *mem;
  pid_t pid;
  atomic_uint holders; /* the starter and each node: keeps the memory */
  atomic_uint posters; /* threads inside nm_loop_post */
  nm_postbox posts;
  atomic_bool asleep; /* in the poll, or about to be: who posts wakes it */
  uv_loop_t uv;
  uv_async_t wake;
  uv_prepare_t before_poll;
  uv_check_t after_poll;
  uv_idle_t spin; /* active while a turn has left work: polls do not wait */
  uv_timer_t alarm;
  pthread_t thread;
  nm_now now; /* of the turn; refreshed by nm_loop_now */
  nm_timers timers;
  size_t timers_reserved;
  uint64_t alarm_us; /* when it rings, NM_TIMER_NEVER while it is off */
  bool due;          /* the alarm rang */
  bool many_cores;   /* looking for work before sleeping hinders nobody */
  uint32_t writing;  /* connections whose peer is to take more first */
  uint32_t soon;     /* sleeps in a row that ended soon */
  uint64_t poll_ns;  /* when the last poll began */
  bool stopping;
  nm_post stop_post;
  struct nm_node *nodes;
  struct nm_node *active; /* nodes with something to do */
  nm_conn *hungry;        /* connections that wait for their turn to read */
  nm_conn *dirty;         /* connections with output to write */
  /* Those that have nothing to write but relayed announces: let wait for more
   * of them, then written a few in a turn. */
  nm_conn_line resting;
  nm_conn_line ready;
  nm_timer rest;        /* the first one of `resting` has waited long enough */
  struct nm_dgram *wet; /* datagram sockets with output to send */
  struct nm_node *waking; /* nodes whose reader has something to read */
  nm_pool pool;
  nm_clerk clerk;
  nm_cipher cipher;
  uint32_t inline_budget_us;
  uint32_t inline_left_us;
  uint8_t *read_buffer;    /* NM_READ_BUFFER */
  nm_buffer spare_partial; /* for the next connection that reads */
  nm_buffer spare_filling; /* for the next one that sends */
  uint8_t *frame;          /* NM_FRAME_MAX: unmasked or masked packets */
  atomic_uint workers;
  atomic_uint node_count;
  _Atomic uint64_t turns;
  _Atomic uint64_t posted;
  _Atomic uint64_t jobs_inline;
  _Atomic uint64_t jobs_pooled;
  _Atomic uint64_t jobs_stored;
};

/* From any thread: a forked child must not touch what its parent runs. */
bool nm_loop_is_foreign(const nm_loop *loop);
nm_loop *nm_loop_hold(nm_loop *loop);
void nm_loop_drop(nm_loop *loop);
/* Posts something that a node still waits for: never refused. Any thread. */
void nm_loop_return(nm_loop *loop, nm_post *post);
/* Wakes the readers that are to be woken: after the output of the turn, which
 * others wait for longer. */
void nm_loop_wake_readers(nm_loop *loop);
/* Reads the clocks. */
nm_now nm_loop_now(nm_loop *loop);
/* Room for |more| timers. Loop's thread. NM_E(MEMORY). */
int nm_loop_reserve_timers(nm_loop *loop, size_t more);
void nm_loop_unreserve_timers(nm_loop *loop, size_t less);
void nm_loop_arm(nm_loop *loop, nm_timer *timer, uint64_t due_us);
void nm_loop_add_node(nm_loop *loop, struct nm_node *node);
/* A node has gone for good. */
void nm_loop_remove_node(nm_loop *loop, struct nm_node *node);

/* ---- node ---- */

/* "announced/" and 32 hex digits, with room. */
#define NM_STORE_NAME_MAX 48

/* A command with its reply: one allocation from post to reading. A thousand may
 * be on their way, so it ends where the command's kind does: nothing of `c.u`
 * is there but the member that the kind reads (nm_command_size). */
typedef struct nm_ask {
  nm_post post;
  struct nm_ask *next; /* of the replies that wait for room */
  struct nm_node *node;
  nm_identity *identity; /* from c.key, or NULL */
  nm_block *ratchet_file;
  uint64_t last_emitted;
  int ratchets_status; /* why a stored file was set aside, or 0 */
  int time_status;
  struct nm_mail_load *mail_load; /* of a mailbox that keeps */
  struct nm_ticket *ticket;       /* made ahead, so that the verb may succeed */
  nm_reply reply;
  nm_command c; /* the last one */
} nm_ask;

/* Returned by a command's function when the reply comes later. */
#define NM_LATER 1

/* Which command started an operation or a link. */
typedef struct nm_ticket {
  nm_table_link by_subject;
  uint64_t subject; /* operation, or link with the top bit set */
  nm_table_link by_ticket;
  uint64_t ticket;
  nm_ask
      *waiting;  /* a command that is answered when the operation ends; owned */
  bool findable; /* is in the second table */
  bool quiet;    /* as the command */
} nm_ticket;

typedef struct nm_tickets {
  const nm_mem *mem;
  nm_table by_subject;
  nm_table by_ticket;
} nm_tickets;

int nm_tickets_init(nm_tickets *tickets, const nm_mem *mem,
                    const uint8_t hash_key[16]);
void nm_tickets_dispose(nm_tickets *tickets);
nm_ticket *nm_ticket_new(const nm_mem *mem, uint64_t ticket);
void nm_ticket_free(const nm_mem *mem, nm_ticket *ticket);
/* Takes |ticket| over. Without memory the operation stays without one: false.
 */
bool nm_tickets_put_op(nm_tickets *tickets, nm_ticket *ticket, nm_op_id op);
void nm_tickets_put_link(nm_tickets *tickets, nm_ticket *ticket,
                         nm_link_ref link);
/* What belongs to an event. */
typedef struct nm_carried {
  uint64_t ticket; /* or 0 */
  nm_ask *waiting; /* the command that it answers, the caller's now; or NULL */
  bool quiet;      /* the command was */
} nm_carried;

/* The ticket that |event| carries; forgets it when the event is the last. An
 * event that answers a command carries none. */
nm_carried nm_tickets_of(nm_tickets *tickets, const nm_event *event);
/* An operation began under the ask's ticket. */
void nm_ask_started(nm_node *node, nm_ask *ask, nm_op_id op);
/* What |ticket| started: true with one of |op| and |link| set. */
bool nm_tickets_find(const nm_tickets *tickets, uint64_t ticket, nm_op_id *op,
                     nm_link_ref *link);

typedef enum nm_node_phase {
  NM_NODE_IS_OPEN,
  NM_NODE_IS_SAVING,  /* closing: operations have ended, tables are saved */
  NM_NODE_IS_LEAVING, /* connections flush and close, jobs come back */
  NM_NODE_IS_GONE     /* the loop has let go of it */
} nm_node_phase;

/* Another way to the destination of such a path. */
typedef struct nm_orphan_way {
  uint8_t iface_hash[NM_HASH_SIZE];
  nm_alternative_record record;
} nm_orphan_way;

/* A path that waits for its interface, loaded from storage. */
typedef struct nm_orphan {
  nm_table_link link;
  nm_destination_hash destination;
  uint8_t iface_hash[NM_HASH_SIZE];
  nm_path_record record;
  nm_orphan_way *ways;
  uint32_t way_count;
  struct crowd *crowd;    /* those that wait for the same interface */
  struct nm_orphan *next; /* of them */
  struct nm_orphan **at;  /* what points here */
} nm_orphan;

typedef struct nm_orphans {
  nm_table paths;       /* nm_orphan by destination */
  nm_table crowds;      /* by interface */
  struct crowd *called; /* whose interface came: they come back by and by */
  bool outdated;        /* paths were saved since they were loaded */
} nm_orphans;

typedef enum nm_save_phase {
  NM_SAVE_REMOVED, /* keys of what was removed */
  NM_SAVE_ORPHANS, /* paths that wait for their interface; those that come back
                      meanwhile are found among the entries */
  NM_SAVE_ENTRIES,
  NM_SAVE_END
} nm_save_phase;

typedef struct nm_save_table {
  nm_store_size size; /* on disk */
  bool whole;         /* this save writes it whole */
  bool failed;        /* the last one lost what it took: write it whole */
} nm_save_table;

/* A save of the tables, a few records per turn. */
typedef struct nm_save {
  bool running;
  bool carries;     /* a transport node: it keeps what only that has */
  bool with_filter; /* this save takes the filter too */
  bool begun;       /* a part of this table is on its way */
  uint32_t steps;   /* since the last rest */
  int table;        /* an nm_kept_table */
  nm_save_phase phase;
  uint32_t since_filter; /* saves since the last one that took it */
  uint64_t cursor;
  nm_buffer bytes;
  uint32_t count; /* of records in `bytes` */
  int status;
  uint32_t writes; /* parts on the storage thread */
  nm_ask *asks;    /* PERSIST commands that this save answers */
  nm_ask *later;   /* those that came while it ran: the next one */
  bool again;      /* another save follows this one */
  nm_save_table tables[NM_KEPT_TABLES];
} nm_save;

/* The newest content that this process stored under a name. */
typedef struct nm_written {
  nm_table_link link;
  char name[NM_STORE_NAME_MAX];
  nm_block *bytes;
} nm_written;

typedef struct nm_node {
  /* Any thread. */
  nm_loop *loop;
  nm_stock *stock;      /* over the loop's memory */
  const nm_mem *mem;    /* the stock's: everything but this struct */
  atomic_uint holders;  /* owner, loop, each posted command */
  atomic_bool closing;  /* no more commands */
  atomic_uint unrun;    /* commands on their way to the loop */
  atomic_bool released; /* the owner is gone: nobody reads */
  atomic_bool handed;   /* `replies` and `engine` are the reader's now */
  atomic_uint asks;     /* without a reply */
  uint32_t asks_max;
  nm_identity identity; /* public */
  nm_store *store;      /* or NULL; its reading part serves any thread */
  char *mail_path;      /* of its mail, or NULL; immutable */
  nm_post attach_post;
  nm_post close_post;
  atomic_bool close_asked;
  nm_post kick_post;
  atomic_bool kicked; /* kick_post is on its way */
  nm_waker waker;
  nm_ring ring;
  atomic_bool asleep;       /* the reader waits for the descriptor */
  atomic_bool blocked;      /* the writer waits for room in the ring */
  atomic_uint drained;      /* reliable events read, or done with */
  atomic_uint mail_drained; /* the same of received messages */
  atomic_bool mail_starved; /* some wait for credit */
  uint32_t credit;          /* immutable, and so are these: */
  uint32_t mail_credit;
  bool manual_credit;
  atomic_uint follows; /* nm_follow: what the reader wants at once */
  nm_published stats_out;
  pthread_mutex_t ifaces_lock; /* held to copy one pointer */
  nm_block *ifaces_out;        /* as publish.c packs it */

  void (*dispose)(struct nm_node *node); /* what the last holder does */

  /* The loop's thread, or the reader once `handed`. */
  nm_engine *engine;
  nm_entropy_pool entropy;
  nm_entropy entropy_source;
  nm_tickets tickets;
  struct nm_mail_host *mail; /* or NULL: no mailbox was opened */
  nm_ask *replies;           /* that wait for room in the ring */
  nm_ask *replies_end;
  bool told_closed; /* the reader's */

  /* The loop's thread. */
  struct nm_node *next;
  struct nm_node *prev;
  struct nm_node *next_active;
  struct nm_node *next_waking;
  bool is_active;
  bool is_waking;
  nm_node_phase phase;
  unsigned credited; /* of `drained` */
  nm_timer deadline;
  nm_timer flush_limit; /* how long a close waits for its peers */
  nm_timer save_timer;
  nm_timer save_rest; /* until a save under way goes on */
  nm_timer publish_timer;
  nm_timer mail_timer; /* states that are told later */
  bool ifaces_changed; /* since they were published */
  bool ifaces_urgent;
  uint64_t ifaces_published_us;
  nm_table ports;       /* by interface id */
  uint32_t port_count;  /* those that are still closing included */
  uint32_t relays_left; /* relayed announces that this turn may still send */
  nm_port *user_ports;  /* user-written interfaces with frames to hand out */
  nm_lanes waiting;     /* jobs taken from the engine */
  nm_post *deferred;    /* commands and cancellations, in order */
  nm_post *deferred_end;
  nm_post *resumed;   /* the one that is deferred no more */
  uint32_t asks_left; /* commands that may run before the next round */
  nm_pool_client pool_client;
  uint32_t work_out; /* works and errands that have not come back */
  bool tap;
  nm_save save;
  uint64_t save_interval_us;
  nm_table written;
  nm_orphans orphans;
  /* Why files were set aside at the start, or 0: the tables, then the identity;
   * the changes of the tables. */
  int aside[NM_KEPT_TABLES + 1];
  int aside_changes[NM_KEPT_TABLES];
  bool ports_removed;
  bool without_timers;
  nm_node_stats stats;
} nm_node;

/* node_base.c */
nm_node *nm_node_hold(nm_node *node);
void nm_node_drop(nm_node *node);
/* The node has something to do this turn. */
void nm_node_wake(nm_node *node);
/* From any thread: the node gets a turn. */
void nm_node_kick(nm_node *node);
/* Grants the credit of what was read. */
void nm_node_grant(nm_node *node);
/* The list of interfaces changed; |urgent|: more than its counters. */
void nm_node_ifaces_changed(nm_node *node, bool urgent);

/* node_event.c */
bool nm_event_holds_credit(const nm_event *event);

/* outbox.c */
/* Room for one more event beside |reserve| others, or NULL. */
nm_node_event *nm_node_slot(nm_node *node, uint32_t reserve);
void nm_node_push(nm_node *node);
/* An event that wakes nobody, unless many wait for one. */
void nm_node_push_quietly(nm_node *node);
/* A lossy event of the driver's own. */
void nm_node_tell(nm_node *node, const nm_trouble *trouble);
void nm_node_tell_peer(nm_node *node, const nm_peer_notice *peer);
void nm_node_tap(nm_node *node, nm_iface_id iface, bool incoming, nm_span data);

/* publish.c */
void nm_node_publish(nm_node *node);
/* The list of interfaces, when it changed and is old enough. */
void nm_node_publish_ifaces(nm_node *node);

/* events.c */
/* Moves replies, frames and engine events into the ring; false when some are
 * left for want of room. */
bool nm_node_deliver(nm_node *node);

/* node.c */
/* Goes on with a close when what it waited for is done. */
void nm_node_proceed(nm_node *node);
/* The close begins, on the loop's thread. */
void nm_node_begin_close(nm_node *node);

/* jobs.c */
/* Takes new jobs out of the engine; short ones run. */
void nm_node_collect_jobs(nm_node *node);
/* What is due of the router, and its new jobs; whether there were any. */
bool nm_node_collect_mail(nm_node *node);
/* Gives waiting jobs to this thread while the turn has time for them, then to
 * the pool. */
void nm_node_dispatch_jobs(nm_node *node);

/* pump.c */
/* Jobs, outputs, events of one turn. */
void nm_node_pump(nm_node *node);

/* asks.c */
/* Bytes of a command of |kind|, up to the end of its member of `u`. */
size_t nm_command_size(nm_command_kind kind);
void nm_reply_dispose(nm_reply *reply);
/* "FOLDER/" and the hash in hex. */
void nm_store_name(char out[NM_STORE_NAME_MAX], const char *folder,
                   const nm_destination_hash *hash);
void nm_ask_reply(nm_node *node, nm_ask *ask, int status);
/* The same for a moment that is not the turn's. */
void nm_ask_reply_at(nm_node *node, nm_ask *ask, int status, nm_now at);
void nm_ask_free(const nm_mem *mem, nm_ask *ask);

/* Rows of a list, gathered into a reply. */
typedef struct nm_rows {
  nm_buffer bytes;
  nm_ask *ask;
  size_t row_size;
  size_t count;
  int status;
} nm_rows;

void nm_rows_init(nm_rows *rows, const nm_mem *mem, nm_ask *ask, size_t size);
/* False without memory: what |row| owns stays the caller's. */
bool nm_rows_add(nm_rows *rows, const void *row);
/* Hands the rows to the reply; NM_E(MEMORY): they are disposed of. */
int nm_rows_finish(nm_rows *rows);

/* Answers a PATH_FIND by the event that it waited for. */
void nm_path_found(nm_node *node, nm_ask *ask, const nm_event *event);
/* The path to a destination, if it may be used at once: one over a node that
 * told us of it needs a moment until that node has noted it for itself. */
bool nm_path_settled(const nm_node *node, const nm_destination_hash *hash,
                     nm_path_record *record);

typedef int nm_command_run(nm_node *node, nm_ask *ask);
/* The commands of one file; |kind| is one of them. */
nm_command_run *nm_command_local(nm_command_kind kind);
nm_command_run *nm_command_links(nm_command_kind kind);
nm_command_run *nm_command_channels(nm_command_kind kind);
nm_command_run *nm_command_routes(nm_command_kind kind);
nm_command_run *nm_command_mail(nm_command_kind kind);
nm_command_run *nm_command_ports(nm_command_kind kind);

/* commands.c */
/* A new round: deferred commands run, |all| of them or as many as a round may
 * have. Whether any did. */
bool nm_node_resume(nm_node *node, bool all);
/* Whether deferred commands wait for nothing but their round. */
bool nm_node_may_resume(const nm_node *node);

/* command_local.c */
/* Tells of stored files that were set aside; what this process wrote takes the
 * place of what was read. */
void nm_ask_settle_stored(nm_node *node, nm_ask *ask);

/* save.c */
void nm_save_start(nm_node *node, nm_ask *ask);
/* Whether one runs and waits neither for the storage thread nor rests. */
bool nm_save_is_ready(const nm_node *node);
/* A few records more. */
void nm_save_step(nm_node *node);
void nm_save_due(void *user, nm_timer *timer);
void nm_save_go_on(void *user, nm_timer *timer);

/* save_jobs.c */
int nm_save_init(nm_node *node, const uint8_t hash_key[16]);
void nm_save_dispose(nm_node *node);
/* Hands an engine's NM_JOB_STORE to the storage thread. */
void nm_save_job(nm_node *node, nm_job *job);
/* Has the storage thread run an engine's NM_JOB_SINK_FINISH. */
void nm_finish_file(nm_node *node, nm_job *job);
/* What was stored under |name| by this process, newest; NULL: nothing. */
const nm_block *nm_save_written(const nm_node *node, const char *name);
/* A file was made durable, or not: |error| is a negated errno. */
void nm_save_count(nm_node *node, const char *name, int error);
/* Has the storage thread |run| an errand that writes files, made durable with
 * those beside it; |done| takes it back. False: it is not taken. */
bool nm_save_submit(nm_node *node, nm_errand *errand,
                    void (*run)(nm_errand *errand),
                    void (*done)(nm_loop *loop, nm_post *post));
/* A stored file could not be used for the reason |status| and was set aside. */
void nm_node_tell_aside(nm_node *node, const char *name, int status);

/* save_load.c */
/* Puts the stored tables into a fresh engine. On the opener's thread. */
void nm_save_load(nm_node *node);

/* orphans.c */
int nm_orphans_init(nm_node *node, const uint8_t hash_key[16]);
void nm_orphans_dispose(nm_node *node);
/* Takes the blocks of |record| over; replaces the one of its destination. The
 * next one belongs to a path that is there. */
void nm_orphans_put(nm_node *node, nm_path_record *record,
                    const uint8_t iface_hash[NM_HASH_SIZE]);
void nm_orphans_put_way(nm_node *node, const nm_alternative_record *record,
                        const uint8_t iface_hash[NM_HASH_SIZE]);
void nm_orphans_drop(nm_node *node, const nm_destination_hash *hash);
/* As nm_engine_path_scan. */
uint64_t nm_orphans_scan(const nm_node *node, uint64_t cursor,
                         void (*visit)(void *user, const nm_orphan *orphan),
                         void *user);
/* Calls the paths that waited for this interface; the first come at once. */
void nm_orphans_adopt(nm_node *node, nm_iface_id iface,
                      const uint8_t hash[NM_HASH_SIZE]);
/* Whether some are called; a few of them come. */
bool nm_orphans_are_called(const nm_node *node);
void nm_orphans_step(nm_node *node);
/* A stored moment on the clock of this run; 0 when it is older than that. */
uint64_t nm_mono_of(nm_now now, int64_t unix_us);

#endif
