/* The inside of the lxmf room. Only files of this room include it.
 *
 * A letter is a message on its way out; a lane is what leads to one recipient
 * or one propagation node, with the link to it and the letters that wait; a
 * parcel is something received that is being looked at.
 *
 * A file calls only files that stand before it here:
 *   mail_job, base, seen, tickets, mailboxes
 *   gate, letter_state, lanes, schedule, letter_end, work, policy, stamping
 *   lane_link, opportunistic, delivery, pace
 *   sync_state, parcels, sync, letters, router
 */
#ifndef NM_LXMF_INTERNAL_H
#define NM_LXMF_INTERNAL_H

#include "base/table.h"
#include "base/timer.h"
#include "lxmf/router.h"
#include "stack/link.h"
#include "stack/local.h"
#include "stack/request.h"
#include "stack/route.h"
#include "stack/send.h"
#include "stack/transfer.h"
#include "wire/lxmf_appdata.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_timing.h"

typedef struct nm_lane nm_lane;
typedef struct nm_letter nm_letter;

typedef struct nm_mailbox {
  nm_table_link link;
  nm_destination_hash hash;
  nm_block *identity; /* nm_identity, secret */
  nm_block *name;     /* UTF-8, or NULL */
  uint32_t stamp_cost;
  bool enforce_stamps;
  bool enforce_ratchets;
  bool durable;
  uint32_t limit_kb;
  bool paused;
  uint32_t dropped[NM_MAIL_DROPS];
  bool has_news; /* of what it dropped */
} nm_mailbox;

/* Why a letter is not tried right now. */
typedef enum nm_letter_wait {
  NM_WAIT_NOTHING, /* it may be tried when it is due */
  NM_WAIT_WORK,    /* for its stamp or its encrypted form */
  NM_WAIT_PROOF,   /* over a link: it is in flight */
  NM_WAIT_VERDICT  /* a node has it, and may still refuse its stamp */
} nm_letter_wait;

/* Unproven packets of one letter: one for each attempt. */
#define NM_LETTER_PACKETS 8
#define NM_LETTER_TIMERS 3

struct nm_letter {
  nm_table_link link;
  uint8_t id[NM_HASH_SIZE];
  nm_router *router;
  uint64_t number; /* order of sending */
  nm_destination_hash mailbox;
  nm_destination_hash recipient;
  nm_block *packed; /* with its stamp, once it has one */
  nm_block *data;   /* lxmf_data, encrypted once, or NULL */
  nm_block *sealed; /* the same with the node's stamp, or NULL */
  nm_policy policy;
  uint32_t step;
  uint32_t stamp_cost; /* still to be worked for; 0: none */
  bool carries_ticket;
  nm_letter_wait wait;
  nm_mail_job *work; /* under way, or NULL */
  /* Of the step. */
  nm_lxmf_state state;
  nm_lxmf_method method;
  nm_lxmf_representation representation;
  double progress;
  uint32_t attempts;
  uint32_t attempts_max;
  uint64_t next_us; /* of the next attempt; 0: at once */
  uint64_t receipt_timeout_us;
  bool awaiting_path;
  bool sent_on_path;
  bool sent_on_slow_path;
  bool path_asked;  /* once, after a link that never came up */
  nm_op_id op;      /* in flight over a link */
  nm_link_ref over; /* that link */
  bool in_flight;   /* counted in the lane and the router */
  bool counts_slow; /* counted among those on slow paths */
  nm_op_id packets[NM_LETTER_PACKETS]; /* the newest opportunistic ones */
  uint32_t receipts; /* opportunistic packets that may still be proven */
  nm_stage stage;    /* where it stands, for FAILED */
  uint64_t rtt_us;
  nm_timer timer;  /* the next attempt */
  nm_timer budget; /* the end of the step */
  nm_timer limit;  /* the end of all */
  /* The lane's list of those that wait, in the order of sending. */
  nm_lane *lane;
  nm_letter *lane_next;
  nm_letter *lane_prev;
  bool in_lane;
  /* The router's list of those with news. */
  nm_letter *news_next;
  bool has_news;
  bool worked; /* the news is also WORKED */
  bool ended;  /* final; it goes when it was told */
};

typedef enum nm_lane_state {
  NM_LANE_IDLE,
  NM_LANE_OPENING,
  NM_LANE_ACTIVE
} nm_lane_state;

struct nm_lane {
  nm_table_link link;
  nm_destination_hash target;
  nm_router *router;
  nm_lane_state state;
  nm_link_ref direct; /* ours */
  nm_link_ref back;   /* one that the recipient opened and identified on */
  bool identified;    /* we said who we are on `direct` */
  uint32_t letters;   /* of this lane, in flight or waiting */
  uint32_t in_flight;
  nm_letter *flying; /* the last that is; to a node the only one */
  nm_letter *first;
  nm_letter *last;
  nm_timer idle;       /* the link goes when nothing was sent for long */
  nm_timer rediscover; /* a path request that follows its drop */
  bool asked;          /* the gate knows a last request */
  uint64_t asked_us;
  bool woken; /* to be run before the verb returns */
  nm_lane *next_woken;
};

/* What an operation of the engine is for. */
typedef struct nm_errand_op {
  nm_table_link link;
  nm_op_id op;
  uint8_t letter[NM_HASH_SIZE];
  bool over_link;
} nm_errand_op;

/* A link of the router's. */
typedef struct nm_line {
  nm_table_link link;
  nm_link_ref ref;
  nm_destination_hash mailbox; /* a peer opened it to this; or zero */
  nm_destination_hash target;  /* it leads to this lane; or zero */
  bool initiator;
} nm_line;

typedef struct nm_parcel {
  nm_table_link link; /* by token while it waits for the driver */
  uint64_t token;
  nm_router *router;
  struct nm_parcel *next; /* of those to tell of */
  nm_token_id held;       /* the engine's, or 0 */
  nm_mail mail;           /* what will be told */
  nm_mail_job *work;
  bool encrypted;       /* it came as lxmf_data */
  bool ahead;           /* it was proven before its signature was checked */
  struct nm_sync *sync; /* that fetched it, or NULL */
} nm_parcel;

/* An id that was delivered. */
typedef struct nm_seen {
  nm_table_link link;
  uint8_t id[NM_HASH_SIZE];
  bool durable;
} nm_seen;

/* A source whose messages are dropped. */
typedef struct nm_ignored {
  nm_table_link link;
  nm_destination_hash source;
} nm_ignored;

typedef enum nm_sync_stage {
  NM_SYNC_FINDING, /* a path to the node */
  NM_SYNC_LINKING,
  NM_SYNC_LISTING,
  NM_SYNC_FETCHING,
  NM_SYNC_SORTING, /* its messages are looked at and made durable */
  NM_SYNC_ACKNOWLEDGING
} nm_sync_stage;

#define NM_SYNC_TIMERS 1

/* Messages being fetched from a node for one mailbox. */
typedef struct nm_sync {
  struct nm_sync *next;
  struct nm_sync *next_told;
  nm_router *router;
  nm_destination_hash mailbox;
  nm_destination_hash node;
  nm_sync_stage stage;
  nm_lxmf_sync_state state;
  nm_link_ref ref;
  nm_op_id op;
  uint32_t most; /* messages; 0: all */
  bool retain;   /* nothing is deleted from the node */
  double limit_kb;
  size_t response_max;
  nm_buffer have;   /* ids to acknowledge */
  uint32_t parcels; /* of its messages, not decided yet */
  bool sorting;     /* more are being added */
  uint32_t received;
  uint32_t duplicates;
  double progress;
  bool has_news;
  bool ended;
  uint32_t unknown; /* times that the node did not know who asks */
  nm_timer timer;   /* how long a path is waited for; then, when to ask again */
} nm_sync;

struct nm_router {
  const nm_mem *mem;
  nm_entropy entropy;
  nm_engine *engine;
  nm_router_config config;
  nm_router_limits limits;
  nm_now now; /* of the call under way */
  nm_timers timers;
  size_t timers_reserved;
  nm_table mailboxes;
  nm_table letters;
  nm_table lanes;
  nm_table ops;
  nm_table lines;
  nm_table parcels; /* that wait for nm_router_taken */
  nm_table seen;
  nm_table ignored;
  nm_table purses; /* tickets, by peer */
  uint64_t next_number;
  uint64_t next_token;
  nm_letter *news_first;
  nm_letter *news_last;
  nm_parcel *mail_first; /* received, to be told of */
  nm_parcel *mail_last;
  nm_mail_job *work_first; /* jobs to be taken */
  nm_mail_job *work_last;
  uint32_t in_flight_all;
  uint32_t slow_in_flight; /* letters sent on a slow path, not ended */
  bool slow_freed;         /* one of them ended: others may go */
  nm_lane *woken;
  uint32_t parcel_count;
  uint32_t ahead_count; /* of them proven ahead */
  uint32_t ahead_max;
  uint32_t drop_news; /* mailboxes with some */
  nm_sync *syncs;
  nm_sync *syncs_told;
  bool has_node;
  nm_destination_hash node;
  uint32_t node_cost;
  nm_router_stats stats;
};

/* base.c */
/* A table of entries keyed by |key_size| bytes; NM_E(MEMORY), NM_E(LIBRARY). */
int nm_router_table(nm_router *router, nm_table *table, size_t capacity,
                    size_t key_size, size_t key_offset,
                    void (*dispose)(void *user, nm_table_link *entry));
void nm_router_dispose_plain(void *user, nm_table_link *entry);
/* Room for |more| timers. NM_E(MEMORY). */
int nm_router_reserve_timers(nm_router *router, size_t more);
void nm_router_arm(nm_router *router, nm_timer *timer, uint64_t due_us);
void nm_router_disarm(nm_router *router, nm_timer *timer);
uint32_t nm_router_random(nm_router *router);
void nm_router_submit(nm_router *router, nm_mail_job *work);
nm_mail_job *nm_router_new_work(nm_router *router, nm_mail_job_kind kind,
                                void *owner);
/* The lowest bit rate of what is online and sends; 0: nothing is. */
void nm_router_medium(const nm_router *router, nm_lxmf_medium *medium);
/* T(dest) of LXMF 4.6. */
uint64_t nm_router_round_trip(const nm_router *router,
                              const nm_destination_hash *target);
bool nm_router_has_path(const nm_router *router,
                        const nm_destination_hash *target);
/* Whether its keys are known. */
bool nm_router_knows(nm_router *router, const nm_destination_hash *hash);
/* What a recipient, or the node that is set, last announced; false when
 * nothing is known or it says nothing. Valid until the engine's next call. */
bool nm_router_delivery_of(nm_router *router,
                           const nm_destination_hash *recipient,
                           nm_lxmf_delivery *delivery);
bool nm_router_node_of(nm_router *router, nm_lxmf_node *node);
/* Notes whose |op| is; NM_E(MEMORY): it was cancelled. */
int nm_router_own_op(nm_router *router, nm_op_id op, const nm_letter *letter,
                     bool over_link);
int nm_router_own_line(nm_router *router, nm_link_ref ref, bool initiator,
                       const nm_destination_hash *mailbox,
                       const nm_destination_hash *target);
/* The operation is nobody's any more, and ends. */
void nm_router_drop_op(nm_router *router, nm_op_id op);
nm_line *nm_line_find(const nm_router *router, nm_link_ref ref);

/* seen.c */
int nm_seen_init(nm_router *router);
/* |*durable|: what it stands for is stored. */
bool nm_seen_has(const nm_router *router, const uint8_t id[NM_HASH_SIZE],
                 bool *durable);
void nm_seen_put(nm_router *router, const uint8_t id[NM_HASH_SIZE],
                 bool durable);
void nm_seen_drop(nm_router *router, const uint8_t id[NM_HASH_SIZE]);

/* tickets.c */
int nm_tickets_table_init(nm_router *router);
/* Those that a message of |source| may be stamped with. */
void nm_tickets_for_check(const nm_router *router,
                          const nm_destination_hash *source, nm_mail_job *work);
/* Keeps the ticket that a verified message brings, if it does. */
void nm_ticket_received(nm_router *router, nm_mail *mail);
/* The stamp under the ticket that |recipient| gave us; false without one. */
bool nm_ticket_stamp_for(const nm_router *router,
                         const nm_destination_hash *recipient,
                         const uint8_t id[NM_HASH_SIZE],
                         uint8_t stamp[NM_LXMF_TICKET_SIZE]);

/* mailboxes.c */
int nm_mailboxes_init(nm_router *router);
nm_mailbox *nm_mailbox_find(const nm_router *router,
                            const nm_destination_hash *hash);
/* lxmf.delivery of an identity. */
void nm_mailbox_address(const nm_identity_hash *identity,
                        nm_destination_hash *address);
const nm_identity *nm_mailbox_identity(const nm_mailbox *mailbox);
bool nm_is_ignored(const nm_router *router, const nm_destination_hash *source);
/* Counts what |mailbox| dropped; the driver is told. */
void nm_mailbox_dropped(nm_router *router, nm_mailbox *mailbox,
                        nm_mail_drop why);
bool nm_mailbox_news(nm_router *router, nm_mail *mail);

/* gate.c: every path request of the router's (LXMF 4.6). */
void nm_gate_ask(nm_lane *lane);
bool nm_gate_pending(const nm_lane *lane);
/* An interface came online: what was asked before is asked there too, instead
 * of when the medium would bear it again. */
void nm_gate_online(nm_lane *lane, nm_iface_id iface);
/* Drops the path and asks again half a second later. */
void nm_gate_rediscover(nm_lane *lane);
void nm_gate_rediscover_due(void *user, nm_timer *timer);

/* letter_state.c */
nm_letter *nm_letter_find(const nm_router *router,
                          const uint8_t id[NM_HASH_SIZE]);
/* State and progress change; the driver is told. */
void nm_letter_set(nm_letter *letter, nm_lxmf_state state, double progress);
/* The driver is told of its state; |worked|: of its new form too. */
void nm_letter_tell(nm_letter *letter, bool worked);
/* It counts as in flight, or does not any more. */
void nm_letter_flies(nm_letter *letter);
void nm_letter_landed(nm_letter *letter);

/* lanes.c */
int nm_lanes_init(nm_router *router);
nm_lane *nm_lane_find(const nm_router *router,
                      const nm_destination_hash *target);
/* The lane to |target|, made if there is none; NULL without memory or room. */
nm_lane *nm_lane_of(nm_router *router, const nm_destination_hash *target);
/* Frees it when nothing needs it. */
void nm_lane_maybe_free(nm_lane *lane);
void nm_lane_join(nm_lane *lane, nm_letter *letter);
void nm_lane_leave(nm_letter *letter);
/* Puts the letter back among those that wait, at its place. */
void nm_lane_requeue(nm_letter *letter);
void nm_lane_unqueue(nm_letter *letter);
/* Whether one more message may be in flight on it. */
bool nm_lane_has_room(const nm_lane *lane);
/* It leads to the propagation node. */
bool nm_lane_is_node(const nm_lane *lane);
/* Before the verb returns its letters that wait are stepped, while there is
 * room. */
void nm_lane_wake(nm_lane *lane);
/* The link to use: ours, else the recipient's; 0 when none is active. */
nm_link_ref nm_lane_link(const nm_lane *lane);
bool nm_lane_open(nm_lane *lane);
/* Closes our link and forgets it. */
void nm_lane_drop_link(nm_lane *lane);
/* Something was sent: the idle time begins anew. */
void nm_lane_used(nm_lane *lane);

/* schedule.c */
/* |most| attempts, or what the step allows. A packet is one more than the
 * number compares with, a link one less (LXMF 4.6). */
uint32_t nm_letter_attempts(const nm_letter *letter, uint32_t most);
/* The schedule after an attempt or a path request. */
void nm_letter_schedule(nm_letter *letter, bool after_path_request);
/* Wakes it when the next attempt is due. */
void nm_letter_arm(nm_letter *letter);
bool nm_letter_due(const nm_letter *letter);
/* One message at a time on slow paths (LXMF 4.6). */
bool nm_letter_held(const nm_letter *letter);
/* The first attempt of a step whose work is done: a packet without a path asks
 * for one first (LXMF 4.6). */
void nm_letter_begin_way(nm_letter *letter);

/* letter_end.c */
/* One final state, once. */
void nm_letter_end(nm_letter *letter, nm_lxmf_state state);
void nm_letter_free(nm_router *router, nm_letter *letter);
/* Takes it off its lane; what is in flight over a link is given up. */
void nm_letter_ground(nm_letter *letter);

/* work.c */
typedef enum nm_work {
  NM_WORK_NONE,      /* there is nothing to do */
  NM_WORK_UNDER_WAY, /* or it is waited for what it needs */
  NM_WORK_IMPOSSIBLE /* its stage says why: the step cannot go on */
} nm_work;
/* Starts what work the step needs. */
nm_work nm_letter_start_work(nm_letter *letter);

/* policy.c */
/* Whether a step can carry the letter: 0, NM_E(TOO_LARGE), or NM_E(MISSING)
 * when all it could use is a node and there is none. */
int nm_policy_check(const nm_letter *letter);
/* Begins the step that the letter stands at, or a later one that is possible;
 * false when none is left. */
bool nm_policy_begin(nm_letter *letter);
/* What comes next in the step: more work, or the first attempt. */
void nm_policy_go_on(nm_letter *letter);
/* The attempts of the step are used up: the next step, or FAILED. */
void nm_letter_exhausted(nm_letter *letter);

/* stamping.c */
/* What stamp it is to have: the one it came with, or one to be worked for. */
void nm_letter_set_stamp(nm_letter *letter, const nm_letter_spec *spec,
                         bool has_stamp);
/* A job of its ended. */
void nm_letter_worked(nm_letter *letter, nm_mail_job *work);

/* lane_link.c */
void nm_lane_active(nm_lane *lane, nm_link_ref ref);
void nm_lane_closed(nm_lane *lane, nm_link_ref ref);
/* The link |ref| (ours, or the recipient's) did not carry what it should. */
void nm_lane_fail_link(nm_lane *lane, nm_link_ref ref);

/* opportunistic.c */
void nm_opportunistic_step(nm_letter *letter);
void nm_opportunistic_receipt(nm_letter *letter, const nm_event *event);

/* delivery.c: DIRECT and PROPAGATED, over links. */
void nm_delivery_step(nm_letter *letter);
void nm_delivery_done(nm_letter *letter, const nm_event *event);
/* What a node says on a link of ours: the packet in flight was refused. */
void nm_delivery_signal(nm_lane *lane, nm_span payload);

/* pace.c */
/* Does with the letter what is to be done now. */
void nm_letter_step(nm_letter *letter);
/* Runs the lanes that were woken: the last thing that every verb does. */
void nm_router_settle(nm_router *router);
/* A path to its target became known. */
void nm_lane_path(nm_lane *lane);
/* An interface came online: it may lead to those that letters wait for. */
void nm_lanes_online(nm_router *router, nm_iface_id iface);

/* sync_state.c */
void nm_syncs_free(nm_router *router);
bool nm_sync_news(nm_router *router, nm_mail *mail);
nm_sync *nm_sync_of_link(const nm_router *router, nm_link_ref ref);
nm_sync *nm_sync_of_op(const nm_router *router, nm_op_id op);
void nm_sync_tell(nm_sync *sync);
void nm_sync_set(nm_sync *sync, nm_lxmf_sync_state state);
void nm_sync_end(nm_sync *sync, nm_lxmf_sync_state state);
/* Asks the node for |get|; false: that failed, and the fetch has ended. */
bool nm_sync_request(nm_sync *sync, const nm_lxmf_get *get);
nm_lxmf_id_list nm_sync_ids(const nm_buffer *ids);
/* Tells the node what it may delete, if anything. */
void nm_sync_acknowledge(nm_sync *sync);
/* A message of a fetch was decided on; |final|: the node may delete it. */
void nm_sync_parcel_done(nm_sync *sync, const nm_parcel *parcel, bool final);

/* parcels.c */
int nm_parcels_init(nm_router *router);
/* Something for |mailbox| came in; the event's data and token are taken over.
 */
void nm_parcel_receive(nm_router *router, nm_mailbox *mailbox, nm_event *event,
                       nm_lxmf_method method);
/* lxmf_data by another way; errors of nm_router_ingest. */
int nm_parcel_ingest(nm_router *router, nm_span data, nm_lxmf_method method,
                     struct nm_sync *sync);
void nm_parcel_worked(nm_parcel *parcel, nm_mail_job *work);
void nm_parcel_free(nm_router *router, nm_parcel *parcel);

/* sync.c */
void nm_sync_event(nm_sync *sync, const nm_event *event);
/* A path to a node became known. */
void nm_syncs_path(nm_router *router, const nm_destination_hash *node);
/* An interface came online: it may lead to the nodes that are looked for. */
void nm_syncs_online(nm_router *router, nm_iface_id iface);

#endif
