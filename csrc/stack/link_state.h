/* The inside of a link: its struct, its transfers and requests, and what the
 * link files call in each other.
 *
 * link_table.c, link_send.c, link_tokens.c; transfer_out.c, requests.c,
 * transfer_ends.c, transfer_in.c, transfer_join.c, transfer_accept.c,
 * transfer_parts.c, transfer_info.c; channel_core.c, buffer_in.c, buffer_out.c,
 * channel_out.c, channel.c, buffer.c (channel_link.h); link.c (watch, end),
 * link_open.c (handshake), link_data.c.
 */
#ifndef NM_STACK_LINK_STATE_H
#define NM_STACK_LINK_STATE_H

#include "stack/internal.h"
#include "wire/link.h"
#include "wire/resource_note.h"
#include "wire/resource_window.h"

struct nm_link;
struct nm_link_channel;

/* A request of ours that waits for its response. */
typedef struct nm_request_out {
  struct nm_request_out *next;
  struct nm_link *link;
  nm_op_id op;
  uint8_t id[NM_ADDRESS_SIZE];
  bool id_known;
  uint8_t state; /* NM_RECEIPT_... and NM_REQUEST_... */
  uint64_t timeout_us;
  uint64_t sent_us;
  size_t response_max;
  struct nm_transfer_in *incoming; /* its response, if that is a resource */
  void (*abandon)(nm_engine *engine, struct nm_transfer_in *incoming);
  nm_timer timer;
} nm_request_out;

/* Something of a link's that waits for the application's decision. */
typedef enum nm_token_kind {
  NM_TOKEN_PACKET,  /* data whose proof waits */
  NM_TOKEN_REQUEST, /* a request that waits for its answer */
  NM_TOKEN_OFFER,   /* an advertisement */
  NM_TOKEN_RESOURCE /* a complete resource whose proof waits */
} nm_token_kind;

typedef struct nm_link_token {
  nm_table_link entry;
  nm_token_id token;
  nm_token_kind kind;
  struct nm_link *link;
  struct nm_link_token *next; /* of the same link */
  nm_packet_hash hash;        /* PACKET */
  uint8_t request_id[NM_ADDRESS_SIZE];
  struct nm_transfer_in *transfer; /* OFFER, RESOURCE */
} nm_link_token;

/* One segment of an outgoing resource, from its sealing to its proof. */
typedef struct nm_out_segment {
  uint64_t index;   /* from 1; 0: none */
  bool ready;       /* sealed; else a job is at it */
  uint64_t content; /* bytes of the content in it */
  nm_block *stream;
  nm_block *hashmap;
  nm_resource_segment sealed;
} nm_out_segment;

typedef struct nm_transfer_out {
  struct nm_transfer_out *next;
  struct nm_link *link;
  uint64_t serial; /* names it to the jobs that seal it */
  nm_op_id op;     /* NM_OP_RESOURCE_OUT, or 0 for requests, responses */
  nm_op_id owner;  /* the request whose data it carries, or 0 */
  void (*done)(nm_engine *engine, nm_op_id owner, bool ok, nm_stage stage);
  nm_resource_state state;
  nm_block *content; /* or NULL: */
  nm_source *source;
  nm_block *metadata; /* the whole metadata block, or NULL */
  nm_resource_plan plan;
  nm_resource_compression compression;
  bool has_request_id;
  uint8_t request_id[NM_ADDRESS_SIZE];
  bool is_request;
  bool is_response;
  uint64_t timeout_us;
  nm_out_segment current; /* prepared or under way */
  nm_out_segment ahead;   /* the one after it */
  nm_block *sent_map;
  nm_resource_server server;
  uint8_t original[NM_HASH_SIZE]; /* hash of segment 1 */
  uint8_t told[NM_HASH_SIZE];     /* what was advertised last */
  bool has_told;
  uint64_t base; /* content bytes that the peer held, not in the plan */
  bool checking; /* a job compares what the peer holds, */
  uint8_t claimed[NM_HASH_SIZE]; /* whose hash it says is this */
  bool answered;                 /* a note of what it holds: once */
  uint32_t pending;              /* notes that only asked for time */
  uint64_t proven;               /* content bytes of the segments before */
  nm_packet_hash last_request;   /* repeated request packets are not served */
  uint64_t advertised_us;
  uint64_t started_us;    /* first request for this segment */
  uint64_t segment_bytes; /* sent of it since */
  uint64_t rtt_us;
  uint32_t retries;
  uint64_t wire_bytes;
  uint64_t requests;
  bool pauses; /* the timer presents the current segment */
  nm_timer timer;
} nm_transfer_out;

/* How it is found out whether a resource goes on where it was interrupted. */
typedef enum nm_resume {
  NM_RESUME_NONE,
  NM_RESUME_CHECKING, /* a job reads what is there */
  NM_RESUME_ASKED     /* the sender was told of it */
} nm_resume;

typedef struct nm_transfer_in {
  struct nm_transfer_in *next;
  struct nm_link *link;
  uint64_t serial;   /* names it to the job that assembles it */
  nm_op_id op;       /* NM_OP_RESOURCE_IN, or 0 for requests and responses */
  nm_op_id owner;    /* the request whose response it is, or 0 */
  nm_token_id token; /* an offer or a held resource */
  nm_resource_state state;
  bool offered; /* waits for the application's word */
  bool assembling;
  bool finishing;          /* its sink makes it durable */
  bool between;            /* waits for the next segment's advertisement */
  bool held;               /* complete, its proof waits */
  nm_block *advertisement; /* while it is offered */
  bool has_request_id;
  uint8_t request_id[NM_ADDRESS_SIZE];
  bool is_request;
  bool is_response;
  bool has_metadata;
  bool compressed;
  uint8_t hash[NM_HASH_SIZE];     /* of the segment under way */
  uint8_t original[NM_HASH_SIZE]; /* of the first one */
  uint64_t segment;               /* from 1 */
  uint64_t segments;
  bool extended;      /* the sender reads notes */
  nm_resume resume;   /* before the first segment */
  uint32_t notes;     /* sent since */
  nm_held before;     /* what an earlier attempt left */
  uint64_t base;      /* of the content, what was held and is gone on from */
  uint64_t data_size; /* from there on */
  uint64_t transfer_size;
  uint64_t limit;      /* most plaintext bytes of all segments */
  uint64_t opened;     /* of the verified segments */
  uint64_t content;    /* the same without the metadata block */
  uint64_t charged;    /* of the engine's resource_memory */
  nm_block *gathered;  /* content of several segments; a job's now and then */
  nm_block *metadata;  /* packed, or NULL */
  nm_block *place;     /* where the sink has put it */
  nm_sink *sink;       /* or NULL: memory */
  nm_shelf *once_from; /* gave the sink, to be put back if this fails */
  nm_resource_join join;
  nm_resource_profile profile;
  bool responded;      /* the first part after the request is in */
  bool round_answered; /* a part of this round is in */
  bool round_repeated; /* asked for more than once */
  uint32_t early_repeats;
  uint32_t echoes; /* repeated parts since the last new one */
  double rtt_s;
  double data_rate;
  uint64_t requested_us;
  uint64_t request_bytes;
  uint64_t round_bytes;
  uint64_t told_done; /* content bytes of the last progress event */
  uint64_t activity_us;
  uint32_t retries;
  uint64_t wire_bytes;
  uint64_t requests;
  uint8_t proof[NM_RESOURCE_PROOF_SIZE];
  nm_event_node *node; /* reserved RESOURCE_IN or REQUEST event */
  nm_timer timer;
} nm_transfer_in;

/* How a received segment or resource ended, kept so that the end is final: its
 * proof is repeated on a cache request, what was refused is refused again. */
typedef struct nm_kept_end {
  bool refused;
  uint8_t hash[NM_HASH_SIZE];     /* of the segment */
  uint8_t original[NM_HASH_SIZE]; /* of its resource */
  nm_packet_hash packet_hash;     /* of the proof */
  uint8_t payload[NM_RESOURCE_PROOF_SIZE];
} nm_kept_end;

#define NM_KEPT_ENDS 8

/* What transfers have learned of a link. */
typedef struct nm_link_learned {
  double last_eifr;         /* of the previous incoming resource */
  uint32_t last_window;     /* the same */
  uint32_t kept_next;       /* the place that is overwritten next */
  nm_kept_end *kept_ends;   /* NM_KEPT_ENDS of them, or NULL */
  double out_rate;          /* bytes a second of the last segment sent, or 0 */
  uint64_t out_answer_us;   /* the shortest time from an advertisement to its
                               first request; 0: none yet */
  uint64_t out_pause_until; /* no resource is advertised before */
  uint32_t in_answer_us;    /* the shortest time from a first request to its
                               first part; 0: none yet */
  uint32_t early_us;        /* when a first request is repeated; 0: not yet */
  uint8_t early_state;      /* of transfer_early.c */
  bool takes_zstd;          /* the peer has said so in a note */
} nm_link_learned;

/* What a link needs until it is active; then its event, until that is read. */
typedef struct nm_link_opening {
  nm_event_entry active; /* made when it is read; a responder's has credit */
  struct nm_link *link;
  nm_now active_at;
  uint64_t active_rtt_us;
  uint8_t x25519_private[NM_KEY_SIZE];
  bool has_ephemeral;
  uint32_t offered_mtu;   /* what an initiator signalled */
  uint32_t confirming;    /* proofs under verification */
  uint64_t establish_us;  /* the caller's time-out, or 0 */
  uint64_t proof_sent_at; /* responder: start of its own RTT measurement */
} nm_link_opening;

/* A node may have tens of thousands, most of them idle: what only a few need,
 * or only for a while, is in blocks of its own. tests/c/test_stack_footprint.c
 * weighs the whole. */
typedef struct nm_link {
  nm_table_link by_ref;
  nm_link_ref ref;
  nm_table_link by_id;
  nm_link_id id;
  nm_engine *engine;
  nm_destination_hash destination;
  nm_identity_hash remote_identity;
  nm_link_opening *opening; /* NULL from its activation on */
  nm_timer timer;
  nm_close_reason reason;
  nm_iface_id iface;
  uint32_t mtu;
  uint32_t establish_bytes;
  nm_link_state state;
  uint8_t mode;
  uint8_t hops;
  bool indexed;
  bool initiator;
  bool identified;
  uint8_t identifying; /* identities under verification */
  bool signal_tracked;
  bool tuned; /* keepalive and stale time were set by hand */
  bool has_key;
  int16_t rssi_dbm;
  int16_t snr_cdb;
  int16_t quality_pct;
  uint64_t rtt_us;
  uint64_t keepalive_us;
  uint64_t stale_us;
  uint64_t requested_at;
  uint64_t activated_at;
  uint64_t last_inbound;
  uint64_t last_outbound;
  uint64_t last_data;
  uint64_t last_keepalive;
  uint64_t last_proof;
  uint64_t told_rtt_us; /* responder: what the initiator measured, or 0 */

  /* Policies towards the peer. */
  nm_prove prove; /* of an initiator; a responder's destination has its own */
  bool hold_packets;
  bool packets_paused;
  bool resources_paused;
  bool hold_resources;
  bool shelf_once;
  bool opens_channel; /* when it becomes active */
  nm_accept resources;
  nm_shelf *shelf; /* where resources are stored, or NULL: memory */
  uint64_t shelf_max;
  size_t resource_max;

  nm_block *identity; /* responder: the destination's identity */
  union {
    /* Wiped at the close. */
    struct {
      nm_token_key key;
      uint8_t peer_ed25519[NM_KEY_SIZE]; /* verifies the peer's proofs */
      uint8_t sign_seed[NM_KEY_SIZE]; /* the initiator's ephemeral key; and */
      nm_ed25519_sign_key *sign;      /* expanded, at its first signature */
    };
    /* From then on. */
    struct {
      nm_event_entry closed; /* made when it is read, from what is here */
      nm_now closed_at;
    };
  };

  nm_request_out *requests_out;
  nm_link_token *tokens;
  nm_transfer_out *transfers_out; /* the first is the one under way */
  nm_transfer_in *transfers_in;
  uint32_t requests_out_count;
  uint32_t token_count;
  uint32_t transfers_out_count;
  uint32_t transfers_in_count;
  nm_link_learned *learned;        /* NULL before the first transfer */
  struct nm_link_channel *channel; /* NULL: never opened */
} nm_link;

/* The memory of commands that open links becomes that of the links
 * (base/stock.c and nm_ask): both are of the class of 576 bytes. */
_Static_assert(sizeof(void *) != 8 || sizeof(nm_link) <= 576,
               "a link takes the memory of the command that opened it");

/* ---- link_table.c ---- */

nm_link *nm_link_find(const nm_engine *engine, nm_link_ref ref);
nm_link *nm_link_find_id(const nm_engine *engine, const uint8_t *id);
/* The link with |ref| if it can carry data (active or stale), else NULL. */
nm_link *nm_link_active(nm_engine *engine, nm_link_ref ref);
/* The next link after |link|, also closed ones; NULL to start. */
nm_link *nm_link_following(const nm_engine *engine, const nm_link *link);
/* A new link, PENDING, with its events and timer reserved; it has no id yet. A
 * responder's (not |initiator|) takes over the credit for its LINK_ACTIVE. Its
 * timer calls |watch|. NULL without memory. */
nm_link *nm_link_new(nm_engine *engine, bool initiator,
                     void (*watch)(void *user, nm_timer *timer));
/* Whether the limits allow one more; a refusal is counted. */
bool nm_link_room(nm_engine *engine);
/* Takes back a link that nobody has heard of. */
void nm_link_scrap(nm_engine *engine, nm_link *link);
/* Makes it reachable by its id. NM_E(DUPLICATE_KEY), NM_E(MEMORY). */
int nm_link_index(nm_engine *engine, nm_link *link, const nm_link_id *id);
/* Takes it out of the index and the counts: it is closed from now on. */
void nm_link_leave(nm_engine *engine, nm_link *link);
/* Wipes its secrets, once: it can neither seal nor sign any more. */
void nm_link_wipe(nm_link *link);
/* Its opening is over: nothing will be told of it. Quiet when it is. */
void nm_link_release_opening(nm_engine *engine, nm_link *link);
/* The same with LINK_ACTIVE. */
void nm_link_tell_active(nm_engine *engine, nm_link *link);
/* LINK_CLOSED, with |told|; once, after the secrets are wiped. */
void nm_link_tell_closed(nm_engine *engine, nm_link *link, bool told);
/* Makes `learned`. NM_E(MEMORY). */
int nm_link_learns(nm_engine *engine, nm_link *link);
/* The initiator's signing key. NULL without memory. */
const nm_ed25519_sign_key *nm_link_sign_key(nm_engine *engine, nm_link *link);
void nm_link_free(nm_engine *engine, nm_link *link);
size_t nm_link_mdu_of(const nm_link *link);
nm_event nm_link_event(const nm_link *link, nm_event_kind kind);

/* ---- link.c ---- */

void nm_link_activate(nm_engine *engine, nm_link *link, uint64_t rtt_us);
/* Sets the RTT and the times that follow from it. */
void nm_link_measured(nm_engine *engine, nm_link *link, uint64_t rtt_us);
/* Whether a responder owes an answer to a keepalive that comes now. */
bool nm_link_owes_keepalive(const nm_engine *engine, const nm_link *link);
/* Ends it once: cancels what runs on it, wipes its secrets, tells the owner;
 * sends LINKCLOSE first with |tell_peer|. Quiet on a closed link. */
void nm_link_end(nm_engine *engine, nm_link *link, nm_close_reason reason,
                 bool tell_peer);
/* Something valid came in. */
void nm_link_heard(nm_engine *engine, nm_link *link);
/* Arms the watch anew after a change of its times. */
void nm_link_watch(nm_engine *engine, nm_link *link);
/* The watch itself. */
void nm_link_watch_fired(void *user, nm_timer *timer);

/* ---- link_tokens.c ---- */

/* A new token on |link|, or NULL (too many, no memory). */
nm_link_token *nm_link_token_new(nm_engine *engine, nm_link *link,
                                 nm_token_kind kind);
nm_link_token *nm_link_token_find(const nm_engine *engine, nm_token_id token);
void nm_link_token_drop(nm_engine *engine, nm_link_token *token);
void nm_link_tokens_close(nm_engine *engine, nm_link *link);

/* ---- link_send.c ---- */

/* Opens what came sealed under the link's key. NM_E(STATE) without one, the
 * errors of nm_token_open, NM_E(MEMORY). */
int nm_link_open_payload(nm_engine *engine, const nm_link *link,
                         nm_span payload, nm_block **plaintext);
/* Signs and sends the proof of a packet on the link. */
void nm_link_prove(nm_engine *engine, nm_link *link,
                   const nm_packet_hash *hash);

/* Sends |payload| on the link: sealed unless its context travels in clear.
 * |hash| (may be NULL) gets the packet's hash. NM_E(STATE) without a key or
 * interface, NM_E(TOO_LARGE), NM_E(MEMORY), errors of nm_iface_send. */
int nm_link_emit(nm_engine *engine, nm_link *link, uint8_t packet_type,
                 uint8_t context, nm_span payload, nm_packet_hash *hash);
/* Builds the packet alone. */
int nm_link_pack(nm_engine *engine, nm_link *link, uint8_t packet_type,
                 uint8_t context, nm_span payload, nm_block **raw,
                 nm_packet_hash *hash);
/* Hands a built packet to the link's interface. Takes over one reference. */
int nm_link_put(nm_engine *engine, nm_link *link, nm_block *raw, nm_op_id op);

/* ---- request_in.c ---- */

nm_drop nm_request_packet(nm_engine *engine, nm_link *link, nm_span plaintext,
                          nm_input *input);
/* A request came as a resource: what its event needs. NM_DROP_NONE or why it
 * is refused. Takes over |data| on success. */
nm_drop nm_request_from_resource(nm_engine *engine, nm_link *link,
                                 nm_block *packed, nm_event_node *node);
/* An identity of the link was verified or refused: requests that came behind it
 * are taken now. */
void nm_requests_identified(nm_engine *engine, nm_link_ref ref);
void nm_requests_dispose(nm_engine *engine);

/* ---- request_wait.c ---- */

/* The outstanding request with |id|, or NULL. */
nm_request_out *nm_request_find(nm_link *link,
                                const uint8_t id[NM_ADDRESS_SIZE]);
/* Ends an outstanding request. Takes over the blocks. */
void nm_request_end(nm_engine *engine, nm_request_out *request, int status,
                    nm_stage stage, nm_block *data, nm_block *metadata);
/* A response resource is coming in: the time-out stops (RNS 2, 2.4). Should the
 * request end before it, |abandon| is called with |incoming|. */
void nm_request_receiving(nm_engine *engine, nm_request_out *request,
                          struct nm_transfer_in *incoming,
                          void (*abandon)(nm_engine *engine,
                                          struct nm_transfer_in *incoming));
/* Takes back a request whose id nobody has. */
void nm_request_scrap(nm_engine *engine, nm_request_out *request);

/* ---- requests.c ---- */

nm_drop nm_response_packet(nm_engine *engine, nm_link *link, nm_span plaintext);
void nm_requests_close(nm_engine *engine, nm_link *link);
void nm_request_op_cancel(nm_engine *engine, nm_op *op);

/* ---- transfer_out.c ---- */

typedef struct nm_transfer_spec {
  nm_block *content; /* one more reference is taken; or NULL: */
  nm_source *source; /* the same */
  nm_span metadata;  /* packed, or empty */
  nm_resource_compression compression;
  uint64_t timeout_us;
  const uint8_t *request_id; /* or NULL */
  bool is_request;
  bool is_response;
  nm_op_id owner;
  /* Told with `owner` how it ended. NULL without an owner. */
  void (*done)(nm_engine *engine, nm_op_id owner, bool ok, nm_stage stage);
} nm_transfer_spec;

/* Queues a transfer; with |op| it is an operation of its own. */
int nm_transfer_start(nm_engine *engine, nm_link *link,
                      const nm_transfer_spec *spec, nm_op_id *op);
/* What is being sent, for its receiver to ask for; NULL: nothing is. */
nm_transfer_out *nm_transfer_out_asked(const nm_link *link);
nm_drop nm_transfer_request(nm_engine *engine, nm_link *link, nm_span plaintext,
                            const nm_packet_hash *hash);
nm_drop nm_transfer_proof(nm_engine *engine, nm_link *link, nm_span payload);
nm_drop nm_transfer_rejected(nm_engine *engine, nm_link *link,
                             nm_span plaintext);
/* Bytes of the content, without metadata, that stand for what was sent. */
uint64_t nm_transfer_out_done(const nm_transfer_out *t);
/* Ends what still carries the request |owner|, without telling it; the peer is
 * told with |cancel|. */
void nm_transfer_abandon(nm_engine *engine, nm_link *link, nm_op_id owner,
                         bool cancel);
void nm_transfers_out_close(nm_engine *engine, nm_link *link);
void nm_transfer_out_op_cancel(nm_engine *engine, nm_op *op);

/* Seals and advertises the content anew, without its first |base| bytes. */
void nm_transfer_out_restart(nm_engine *engine, nm_transfer_out *t,
                             uint64_t base);

/* ---- transfer_note.c ---- */

/* A note of the receiver of what is sent. */
nm_drop nm_transfer_note(nm_engine *engine, nm_link *link, nm_span plaintext);

/* ---- transfer_resume.c ---- */

/* Tells the sender that zstd frames are welcome, when that is worth a note. */
void nm_transfer_in_welcome(nm_engine *engine, nm_transfer_in *t);
/* Looks first what the sink of |t| holds of it. False when there is no need:
 * then its first segment begins now. */
bool nm_transfer_in_look(nm_engine *engine, nm_transfer_in *t,
                         const nm_resource_adv *adv);
/* The advertisement of |t| came again while `resume` is set. */
void nm_transfer_in_look_again(nm_engine *engine, nm_transfer_in *t);
/* The sender's answer to what it was told in a note. */
nm_drop nm_transfer_in_resumed(nm_engine *engine, nm_transfer_in *t,
                               const nm_resource_adv *adv);
/* The time for it is over. */
void nm_transfer_in_look_over(nm_engine *engine, nm_transfer_in *t);

/* ---- transfer_ends.c ---- */

/* Notes how the segment under way of |t| ended. */
void nm_transfer_keep_proof(nm_link *link, const nm_transfer_in *t);
void nm_transfer_keep_refusal(nm_link *link, const nm_transfer_in *t);
/* How the segment with |hash| ended, or the resource with |original|; NULL when
 * that is not known. */
const nm_kept_end *nm_transfer_kept(const nm_link *link, nm_span hash,
                                    nm_span original);
void nm_transfer_send_proof(nm_engine *engine, nm_link *link,
                            const uint8_t *payload);
void nm_transfer_refuse(nm_engine *engine, nm_link *link, const uint8_t *hash);

/* ---- transfer_in.c ---- */

/* Accounts for what |t| may hold from now on, with the segment |adv|. False
 * when all incoming resources together would hold more than they may. */
bool nm_transfer_in_charge(nm_engine *engine, nm_transfer_in *t,
                           const nm_resource_adv *adv);
/* Asks for the next window of parts, and waits for them. */
int nm_transfer_in_ask(nm_engine *engine, nm_transfer_in *t);
/* Begins to ask for the parts of the segment |adv| of |t|. */
int nm_transfer_in_segment(nm_engine *engine, nm_transfer_in *t,
                           const nm_resource_adv *adv);
/* What of |limit| a resource of this size may need; never 0. */
uint64_t nm_transfer_in_bound(const nm_transfer_in *t, uint64_t limit);
/* Bits a second that the parts come in with, as far as that is known. */
double nm_transfer_in_rate(const nm_transfer_in *t);
/* The first request is repeated early until a part comes (transfer_early.c). */
#define NM_TRANSFER_EARLY_REPEATS_MAX 8
/* How long what was asked for may take. */
uint64_t nm_transfer_in_wait(const nm_transfer_in *t);
/* The one whose segment under way has |hash|; whose first one has it. */
nm_transfer_in *nm_transfer_in_find(nm_link *link, nm_span hash);
nm_transfer_in *nm_transfer_in_find_original(nm_link *link, nm_span original);
/* Takes back one that has not begun. */
void nm_transfer_in_scrap(nm_engine *engine, nm_transfer_in *t);
/* Ends a transfer that did not complete. */
void nm_transfer_in_fail(nm_engine *engine, nm_transfer_in *t,
                         nm_resource_state state, int status, nm_stage stage);
/* Takes a completed transfer off its link and lets it go. */
void nm_transfer_in_conclude(nm_engine *engine, nm_transfer_in *t);
/* Waits for the advertisement of the next segment. */
void nm_transfer_in_await(nm_engine *engine, nm_transfer_in *t);
nm_event nm_transfer_in_event(const nm_transfer_in *t, nm_event_kind kind);
nm_request_out *nm_transfer_in_owner(const nm_engine *engine,
                                     const nm_transfer_in *t);

/* ---- transfer_early.c ---- */

/* How long the first request for a segment waits for its first part before it
 * is repeated early. */
uint64_t nm_transfer_early_wait(const nm_transfer_in *t);
/* A segment begins: what was learned from the one before counts from now on. */
void nm_transfer_early_begin(nm_link *link);
/* The first request of |t| is repeated early. */
void nm_transfer_early_repeated(const nm_transfer_in *t);
/* The first part of a segment came, |took_us| after the last request. */
void nm_transfer_early_answered(const nm_transfer_in *t, uint64_t took_us);
/* A part came that nobody waits for. */
void nm_transfer_early_in_vain(nm_link *link);

/* ---- transfer_join.c, transfer_accept.c, transfer_parts.c ---- */

/* The parts of a segment are all there: what follows. */
void nm_transfer_assemble(nm_engine *engine, nm_transfer_in *t);

nm_drop nm_transfer_advertised(nm_engine *engine, nm_link *link,
                               nm_span plaintext, nm_input *input);
nm_drop nm_transfer_part(nm_engine *engine, nm_link *link, nm_span part);
nm_drop nm_transfer_hashmap(nm_engine *engine, nm_link *link,
                            nm_span plaintext);
nm_drop nm_transfer_cancelled(nm_engine *engine, nm_link *link,
                              nm_span plaintext);
nm_drop nm_transfer_proof_wanted(nm_engine *engine, nm_link *link,
                                 nm_span payload);
void nm_transfers_in_close(nm_engine *engine, nm_link *link);
/* The application's word on an offer, and on a held resource. */
void nm_transfer_offer_decided(nm_engine *engine, nm_transfer_in *t,
                               bool accept);
void nm_transfer_held_decided(nm_engine *engine, nm_transfer_in *t,
                              bool accept);
void nm_transfer_in_op_cancel(nm_engine *engine, nm_op *op);

/* ---- channel.c ---- */

/* Opens the channel of |link|, whose timer calls |fired|; quiet when it is.
 * NM_E(MEMORY). */
int nm_link_channel_open(nm_engine *engine, nm_link *link, bool all_types,
                         void (*fired)(void *user, nm_timer *timer));
/* The link ends: tells what came in order, ends what was sent. Its figures
 * stay until the link is freed. */
void nm_link_channel_close(nm_engine *engine, nm_link *link);
/* A packet with context CHANNEL. */
nm_drop nm_link_channel_packet(nm_engine *engine, nm_link *link,
                               nm_block *plain, nm_input *input);
/* Whether |hash| is a channel packet of |link| that awaits its proof; and that
 * it was proven. False when it is not. */
bool nm_link_channel_awaits(const nm_link *link, const nm_packet_hash *hash);
bool nm_link_channel_proven(nm_engine *engine, nm_link *link,
                            const nm_packet_hash *hash);
/* The link of a channel's timer. */
nm_link *nm_link_of_channel_timer(nm_timer *timer,
                                  struct nm_link_channel **channel);
/* Repeats what is due. NM_E(TIMEOUT): the link must end. */
int nm_link_channel_tick(nm_engine *engine, struct nm_link_channel *channel);
void nm_channel_op_cancel(nm_engine *engine, nm_op *op);

/* ---- buffer.c ---- */

void nm_stream_op_cancel(nm_engine *engine, nm_op *op);

#endif
