/* The router: LXMF as one state machine above an engine, without I/O.
 *
 * It takes messages on their way out until each has reached one final state,
 * and what comes in until each message was told of once. A driver owns both
 * machines: after any call on either it hands every event of the engine to
 * nm_router_input first, then drains the router's jobs and events, and calls
 * nm_router_tick when nm_router_deadline has passed. The same inputs give the
 * same outputs. One thread at a time.
 *
 * Everything is bounded by nm_router_limits and counted in nm_router_stats.
 */
#ifndef NM_LXMF_ROUTER_H
#define NM_LXMF_ROUTER_H

#include "base/block.h"
#include "lxmf/mail_job.h"
#include "stack/engine.h"
#include "wire/lxmf_constants.h"

typedef struct nm_router nm_router;

/* Capacities. 0 means the default in brackets. */
typedef struct nm_router_limits {
  uint32_t mailboxes;     /* [256] NM_E(LIMIT) */
  uint32_t letters;       /* on their way out [65536]: NM_E(LIMIT) */
  uint32_t lanes;         /* recipients and nodes with something to do [16384]:
                             NM_E(LIMIT) */
  uint32_t in_flight;     /* unproven packets at once to one recipient [64] */
  uint32_t in_flight_all; /* to all of them [512]: less than the engine's
                             receipts */
  uint32_t parcels; /* received, being looked at [4096]: not proven, counted */
  uint32_t seen;    /* ids remembered as delivered [100000]: oldest goes */
  uint32_t tickets; /* peers with some [16384]: oldest goes */
  uint32_t ignored; /* sources [65536]: NM_E(LIMIT) */
} nm_router_limits;

typedef struct nm_router_config {
  bool hold; /* a received message is proven when nm_router_taken says so:
                durable, then promised. Else at once */
  nm_router_limits limits;
} nm_router_config;

/* A router over |engine|, which must outlive it; both end on one thread. NULL
 * with |status| set (NM_E(MEMORY), NM_E(LIBRARY)). */
nm_router *nm_router_new(const nm_mem *mem, const nm_entropy *entropy,
                         nm_engine *engine, const nm_router_config *config,
                         nm_now now, int *status);
/* Ends without telling: what was on its way out is the driver's to keep. Jobs
 * that the driver holds must have been given back. NULL is allowed. */
void nm_router_free(nm_router *router);

/* ---- verbs ---- */

/* An event of the engine. True when it was the router's: it is disposed of.
 * False: it is for others, who may also read it first. */
bool nm_router_input(nm_router *router, nm_event *event, nm_now now);
void nm_router_tick(nm_router *router, nm_now now);
/* Monotonic microseconds; NM_TIMER_NEVER: nothing is due. */
uint64_t nm_router_deadline(const nm_router *router);
/* Takes the next job, NULL when there is none; run it with nm_mail_job_run on
 * any thread and give it back. */
nm_mail_job *nm_router_job(nm_router *router);
bool nm_router_has_job(const nm_router *router);
void nm_router_job_done(nm_router *router, nm_mail_job *work, nm_now now);

typedef enum nm_mail_kind {
  NM_MAIL_RECEIVED, /* a message; with `hold` it waits for nm_router_taken */
  NM_MAIL_STATE,    /* of an outgoing message: state, method, progress; those
                       in between may be left out, the final one never */
  NM_MAIL_SYNC,     /* of a fetch from a node: how far it is; its end is never
                       left out */
  NM_MAIL_WORKED,   /* an outgoing message has its stamp, or its encrypted form:
                       to be kept, so that a restart goes on with it */
  NM_MAIL_DROPPED /* a mailbox dropped something: its totals; may be left out */
} nm_mail_kind;

/* Why something that came in for a mailbox was not told of. */
typedef enum nm_mail_drop {
  NM_MAIL_DROP_DUPLICATE,
  NM_MAIL_DROP_MALFORMED,
  NM_MAIL_DROP_UNDECRYPTABLE,
  NM_MAIL_DROP_BLACKHOLED,
  NM_MAIL_DROP_IGNORED,
  NM_MAIL_DROP_UNSTAMPED,
  NM_MAIL_DROP_CROWDED, /* no room, or the mailbox is paused: not proven */
  NM_MAIL_DROPS
} nm_mail_drop;

/* What the router tells. Owned by the receiver: nm_mail_dispose. */
typedef struct nm_mail {
  nm_mail_kind kind;
  nm_now at;
  uint8_t id[NM_HASH_SIZE]; /* of the message */
  nm_destination_hash mailbox;
  nm_destination_hash peer; /* source or recipient */
  nm_lxmf_method method;
  nm_lxmf_representation representation;
  /* RECEIVED */
  uint64_t token; /* for nm_router_taken; 0: it is proven, as without `hold` or
                     ahead by nm_router_expect */
  nm_lxmf_unverified unverified;
  bool stamp_checked; /* the mailbox asks for stamps */
  bool stamp_valid;
  uint32_t stamp_value;
  uint8_t transient_id[NM_HASH_SIZE]; /* PROPAGATED and PAPER */
  nm_packet_hash packet_hash;         /* of what it came in, else zero */
  bool has_ticket; /* to write to `peer` without work; a secret to be kept */
  double ticket_expires; /* Unix seconds */
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
  nm_iface_id iface;
  int16_t rssi_dbm;
  int16_t snr_cdb;
  int16_t quality_pct;
  /* STATE and WORKED */
  nm_lxmf_state state;
  bool ended;      /* STATE: the final one */
  double progress; /* 0 to 1, as in LXMF 2.5 */
  nm_stage stage;  /* of FAILED: where; NONE: all attempts were used up */
  uint32_t attempts;
  uint64_t rtt_us;  /* of DELIVERED, 0: not measured */
  nm_block *packed; /* RECEIVED, WORKED: the packed message */
  nm_block *sealed; /* WORKED: lxmf_data and its stamp, or NULL */
  /* SYNC: `peer` is the node */
  nm_lxmf_sync_state sync_state;
  bool sync_ended;
  uint32_t sync_received; /* messages told of */
  uint32_t sync_duplicates;
  uint32_t dropped[NM_MAIL_DROPS]; /* DROPPED: since the mailbox was opened */
} nm_mail;

/* Takes the next; false when there is none. */
bool nm_router_event(nm_router *router, nm_mail *mail);
void nm_mail_dispose(nm_mail *mail);
/* The received message under |token| is durable (|ok|): it is proven, and known
 * for a duplicate from now on. Else it is neither. NM_E(STATE) for a token that
 * has lapsed. */
int nm_router_taken(nm_router *router, uint64_t token, bool ok, nm_now now);

/* With `hold`: the driver has room for |count| more messages, of those that it
 * has not been told of yet. So many that come as packets for mailboxes that are
 * not `durable` and ask for no stamp are proven as soon as they are known to be
 * messages: their signature is checked while the proof is on its way, and they
 * are told of without a token. Each call replaces the one before. */
void nm_router_expect(nm_router *router, uint32_t count);
/* How many were proven ahead that the driver was not told of yet. */
uint32_t nm_router_ahead(const nm_router *router);

/* Puts back the id of a message or of its encrypted form that was taken in an
 * earlier run. Without memory it is not remembered. */
void nm_router_seen(nm_router *router, const uint8_t id[NM_HASH_SIZE]);

/* lxmf_data that came by another way than a link or packet of the router's
 * (PROPAGATED, without its stamp, or PAPER; LXMF 8.4, 12): opened, then told of
 * like any message. NM_E(TRUNCATED) below 112 bytes, NM_E(MISSING) when it is
 * for no mailbox here, NM_E(DUPLICATE_KEY) when its transient id was seen,
 * NM_E(STATE) while it is being looked at, NM_E(LIMIT), NM_E(MEMORY). */
int nm_router_ingest(nm_router *router, nm_span data, nm_lxmf_method method,
                     nm_now now);

/* ---- mailboxes ---- */

typedef struct nm_mailbox_spec {
  const nm_identity *identity; /* private keys; copied */
  nm_span display_name;        /* UTF-8; `ptr` NULL: none */
  uint32_t stamp_cost;         /* 1 to 254; 0: no stamps asked for */
  bool enforce_stamps;         /* messages without a valid one are dropped */
  uint32_t limit_kb;           /* of a message over a link [1000] */
  bool ratchets;               /* are announced [true] */
  bool enforce_ratchets;
  bool durable;          /* what comes in is never proven ahead */
  uint64_t last_emitted; /* what was stored earlier, as in nm_dest_spec */
  nm_span ratchet_file;
} nm_mailbox_spec;

void nm_mailbox_spec_default(nm_mailbox_spec *spec);
/* Registers lxmf.delivery of an identity with the engine. Errors of
 * nm_engine_listen; NM_E(RANGE) for a cost above 254, NM_E(UTF8). */
int nm_router_open(nm_router *router, const nm_mailbox_spec *spec,
                   nm_destination_hash *hash, nm_now now);
/* Unregisters it; what is on its way out from it goes on. NM_E(MISSING). */
int nm_router_close(nm_router *router, const nm_destination_hash *hash,
                    nm_now now);
/* What its next announces say, and what is asked of senders. */
int nm_router_describe(nm_router *router, const nm_destination_hash *hash,
                       nm_span display_name, uint32_t stamp_cost,
                       bool enforce_stamps);
/* While it is |paused| what comes in is refused, not proven: its reader is
 * behind. NM_E(MISSING). */
int nm_router_pause(nm_router *router, const nm_destination_hash *hash,
                    bool paused);
/* Messages of |source| are proven and dropped, or are not any more. */
int nm_router_ignore(nm_router *router, const nm_destination_hash *source,
                     bool on);

/* ---- sending ---- */

#define NM_POLICY_STEPS 4

/* One way to try, and how long: it ends when its attempts are used up or its
 * budget has passed, and the next one begins. */
typedef struct nm_policy_step {
  nm_lxmf_method method; /* OPPORTUNISTIC, DIRECT or PROPAGATED */
  uint64_t budget_us;    /* 0: as long as its attempts last */
  uint32_t attempts;     /* to send a packet or to open a link, at most; those
                            that look for a path count; 0: as in LXMF 4.6 */
} nm_policy_step;

typedef struct nm_policy {
  uint32_t count;
  nm_policy_step steps[NM_POLICY_STEPS];
  uint64_t retry_wait_us; /* between attempts on fast media; 0: 10 s */
} nm_policy;

typedef struct nm_letter_spec {
  nm_destination_hash mailbox; /* the sender's, open */
  bool bare;                   /* or not open: it takes no answers */
  nm_span packed;              /* signed; copied. With a stamp: none is made */
  nm_policy policy;
  uint32_t stamp_cost; /* bits; 0: what the recipient asks for, if
                          `stamp_auto` */
  bool stamp_auto;     /* a ticket of the recipient takes its place */
  bool carries_ticket; /* field 0x0C is one of nm_router_ticket_for */
  uint64_t timeout_us; /* for all of it; 0: as long as the policy lasts */
  nm_span sealed;      /* of an earlier run: lxmf_data and its stamp */
} nm_letter_spec;

/* Takes a message on its way; |id| is known at once. A step whose form is too
 * small for the message is left out; NM_E(TOO_LARGE) when none is left, which
 * for PROPAGATED asks the node's limit as well. NM_E(MISSING) without the
 * mailbox, NM_E(DUPLICATE_KEY) while the same message is on its way,
 * NM_E(ARGUMENT) for a policy without steps, decoding errors, NM_E(LIMIT). */
int nm_router_send(nm_router *router, const nm_letter_spec *spec,
                   uint8_t id[NM_HASH_SIZE], nm_now now);
/* What nm_router_send would answer, without beginning it; |id| on success. */
int nm_router_check(nm_router *router, const nm_letter_spec *spec,
                    uint8_t id[NM_HASH_SIZE], nm_now now);
/* Final: CANCELLED. NM_E(STATE) when it has ended. */
int nm_router_cancel(nm_router *router, const uint8_t id[NM_HASH_SIZE],
                     nm_now now);
/* The node that propagated messages go to; NULL: none, and they fail. |cost|
 * 0: what it announces. */
int nm_router_set_node(nm_router *router, const nm_destination_hash *node,
                       uint32_t cost, nm_now now);

/* ---- fetching ---- */

/* Fetches what a node holds for a mailbox: at most |most| messages (0: all);
 * |node| NULL: the one that was set. |retain| leaves them there. What was told
 * of (and taken) is acknowledged; what could not be decrypted is not. A node
 * that does not know who asks is told and asked again, four times. Ends with
 * NM_MAIL_SYNC. NM_E(MISSING) without the mailbox or a node, NM_E(STATE) while
 * a fetch for it is under way, NM_E(MEMORY). */
int nm_router_sync(nm_router *router, const nm_destination_hash *mailbox,
                   const nm_destination_hash *node, uint32_t most, bool retain,
                   nm_now now);
/* Ends it: IDLE. NM_E(STATE) when there is none. */
int nm_router_sync_cancel(nm_router *router, const nm_destination_hash *mailbox,
                          nm_now now);

/* ---- figures ---- */

typedef struct nm_router_stats {
  uint64_t received; /* messages told of */
  uint64_t duplicates;
  uint64_t malformed;
  uint64_t undecryptable;
  uint64_t misaddressed; /* for no mailbox of this router */
  uint64_t blackholed;
  uint64_t ignored;
  uint64_t unstamped; /* dropped for their stamp */
  uint64_t crowded;   /* refused, too many parcels */
  uint64_t refused;   /* not taken by the driver */
  uint64_t sent;      /* letters begun */
  uint64_t delivered;
  uint64_t propagated;
  uint64_t rejected;
  uint64_t cancelled;
  uint64_t failed;
  uint64_t path_requests;
  uint64_t path_requests_spared; /* by the gate of LXMF 4.6 */
  uint64_t links_opened;
  uint64_t packets;
  uint64_t resources;
  uint32_t letters; /* on their way */
  uint32_t lanes;
  uint32_t parcels;
  uint32_t seen;
  uint32_t tickets;
} nm_router_stats;

void nm_router_stats_read(const nm_router *router, nm_router_stats *stats);

#endif
