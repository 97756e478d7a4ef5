/* A node: one engine on a loop, with its interfaces and its storage.
 *
 * Another thread commands it and reads its events; the two sides share two
 * lock-free queues and nothing else. Each command is answered by exactly one
 * NM_NODE_REPLY. If it started an operation, the operation's events carry the
 * command's ticket and come after the reply.
 *
 * Events wait in a bounded ring. Reliable ones hold the engine's credit while
 * they wait; a reader that drains grants credit by that alone, or by hand when
 * it goes on holding what it drained. When the ring is full, replies and
 * reliable events wait behind it; lossy ones are counted as lost. One thread at
 * a time may read (nm_node_next, nm_node_sleep, nm_node_woken, nm_node_wait);
 * any thread may do the rest.
 *
 * A forked child may only call nm_node_release; all else is NM_E(STATE).
 */
#ifndef NM_IO_NODE_H
#define NM_IO_NODE_H

#include "io/command.h"
#include "io/loop.h"

typedef struct nm_node nm_node;

/* 0 and NULL mean the default in brackets. */
typedef struct nm_node_config {
  nm_engine_config engine;  /* identity NULL: that of the storage, else a new
                               one, which is then stored */
  const char *storage;      /* directory, made if missing; [memory only] */
  uint32_t ring;            /* waiting events, a power of two [512] */
  uint32_t credit;          /* reliable events not yet read [1024] */
  uint32_t mail_credit;     /* received messages not yet read [credit] */
  bool manual_credit;       /* what is read costs credit until
                               nm_node_credit */
  uint32_t commands_max;    /* commands without a reply yet [16384] */
  uint32_t save_interval_s; /* of known destinations and paths [60] */
  uint32_t stock_bytes;     /* memory kept for the next packets [512 KiB]; what
                               is larger than this is never kept */
} nm_node_config;

/* Defaults, and those of nm_engine_config_default. */
void nm_node_config_default(nm_node_config *config);

/* Why a node did not open. */
typedef struct nm_node_fault {
  int status;
  int os_error;   /* an errno, or 0 */
  char path[256]; /* the file or directory concerned, or empty */
} nm_node_fault;

/* Opens a node; reads its storage on the caller's thread. NM_E(STATE): the
 * storage is open elsewhere, or the loop has stopped. NM_E(LIBRARY): the
 * storage cannot be used (fault says why). NM_E(KEY), NM_E(ARGUMENT),
 * NM_E(MEMORY). |fault| may be NULL. The caller owns one reference. */
int nm_node_open(nm_loop *loop, const nm_node_config *config, nm_node **node,
                 nm_node_fault *fault);
/* Asks for the close: operations end, links close, interfaces flush and close,
 * tables are saved. The last event is NM_NODE_CLOSED; commands that come later
 * are refused. Harmless when repeated. */
void nm_node_close(nm_node *node);
/* Gives the reference back. An open node closes by itself, its events are
 * discarded. NULL is allowed. */
void nm_node_release(nm_node *node);

/* The transport identity, public part; immutable. */
const nm_identity *nm_node_identity(const nm_node *node);

/* Posts |command|; its blocks are taken over (and it is zeroed) in every case.
 * 0, NM_E(STATE) when the node is closing or in a forked child, NM_E(LIMIT)
 * when commands_max are outstanding, NM_E(ARGUMENT), NM_E(MEMORY). LISTEN
 * reads storage on the caller's thread. */
int nm_node_command(nm_node *node, nm_command *command);
/* Cancels what the command with |ticket| started; quiet when that has ended.
 * The terminal event follows as always. NM_E(STATE), NM_E(MEMORY). */
int nm_node_cancel(nm_node *node, uint64_t ticket);

/* ---- events ---- */

typedef enum nm_node_event_kind {
  NM_NODE_REPLY,   /* u.reply */
  NM_NODE_EVENT,   /* u.event: the engine's */
  NM_NODE_FRAME,   /* u.frame: a user-written interface has to send it */
  NM_NODE_TAP,     /* u.frame: a frame passed an interface; lossy */
  NM_NODE_TROUBLE, /* u.trouble; lossy */
  NM_NODE_PEER,    /* u.peer: an AUTO interface found or lost one; lossy */
  NM_NODE_MAIL,    /* u.mail: a received message, how far an outgoing one or a
                      fetch is */
  NM_NODE_CLOSED   /* the last one */
} nm_node_event_kind;

typedef struct nm_reply {
  nm_command_kind command;
  int status; /* 0 or an nm_status of the engine's function */
  nm_now at;  /* when it was carried out */
  nm_op_id op;
  nm_link_ref link;
  nm_iface_id iface;
  nm_destination_hash destination;
  nm_packet_hash hash;
  int64_t number;
  uint64_t cursor; /* of a list: where to go on, 0 at its end */
  bool has_data;
  uint8_t public_key[NM_PUBLIC_SIZE];
  nm_verdict verdict;
  int os_error;      /* of IFACE_ADD: a libuv error, or 0 */
  nm_block *data;    /* or NULL */
  nm_block *records; /* an array of the kind's records, or NULL */
  size_t record_count;
} nm_reply;

typedef struct nm_node_frame {
  nm_iface_id iface;
  bool incoming; /* TAP */
  nm_now at;
  nm_block *data; /* as on the medium, without framing */
} nm_node_frame;

typedef enum nm_trouble_kind {
  NM_TROUBLE_IFACE,         /* connection trouble: `port`, `os_error` */
  NM_TROUBLE_STORE_WRITE,   /* a file could not be made durable */
  NM_TROUBLE_STORE_DAMAGED, /* a file was damaged and set aside */
  NM_TROUBLE_STORE_READ     /* a file could not be read and was set aside */
} nm_trouble_kind;

typedef struct nm_trouble {
  nm_trouble_kind kind;
  nm_now at;
  nm_iface_id iface;
  nm_port_trouble port;
  int os_error;  /* libuv error or negated errno: negative, or 0 */
  char file[64]; /* STORE: relative to the storage directory; IFACE: the
                    network device, where it is the matter of one */
} nm_trouble;

typedef struct nm_peer_notice {
  bool found; /* or lost */
  nm_now at;
  nm_iface_id iface;  /* of the peer */
  nm_iface_id parent; /* the AUTO interface */
  char device[NM_DEVICE_NAME_MAX + 1];
  char address[NM_ADDRESS_TEXT_MAX];
} nm_peer_notice;

/* RECEIVED, STATE, SYNC or DROPPED (lossy). A received message is proven when
 * this is told, which takes a credit: without one it is neither. Mail has
 * credit of its own, nm_node_config.mail_credit. A mailbox that keeps has its
 * messages in the storage first: they are proven when they are on disk and hold
 * no credit; when the ring is full one without `packed` says that there are
 * more, up to its row. Of letters and fetches only the newest state is told,
 * and the final one always. */
typedef struct nm_node_mail {
  nm_mail mail;
  int64_t row; /* RECEIVED by a mailbox that keeps: in the store; else 0 */
  bool holds_credit;
  bool source_known; /* RECEIVED: source_key is the sender's */
  uint8_t source_key[NM_PUBLIC_SIZE];
} nm_node_mail;

typedef struct nm_node_event {
  nm_node_event_kind kind;
  uint64_t ticket; /* REPLY; EVENT, MAIL: of the command that started the
                      operation, link, letter or fetch, else 0 */
  union {
    nm_reply reply;
    nm_event event;
    nm_node_frame frame;
    nm_trouble trouble;
    nm_peer_notice peer;
    nm_node_mail mail;
  } u;
} nm_node_event;

/* Takes the next event; false when there is none now. The caller owns it. */
bool nm_node_next(nm_node *node, nm_node_event *event);
/* Drops all blocks, those inside records too, and zeroes the event. */
void nm_node_event_dispose(nm_node_event *event);

/* Whether |event| took one of the engine's credits, or of the mail's. */
bool nm_node_event_holds_credit(const nm_node_event *event);
/* With manual_credit: |count| events that were read are done with. Any
 * thread. */
void nm_node_credit(nm_node *node, uint32_t count);
/* The same for received messages. */
void nm_node_mail_credit(nm_node *node, uint32_t count);

/* Which events wake the reader that a later one may bring along: */
typedef enum nm_follow {
  NM_FOLLOW_QUIET = 1,    /* progress of quiet commands [not] */
  NM_FOLLOW_ARRIVALS = 2, /* progress of what peers send */
  NM_FOLLOW_PATHS = 4     /* paths found and lost */
} nm_follow;

/* |follows| is a sum of those. Any thread. */
void nm_node_follow(nm_node *node, unsigned follows);

/* The descriptor that becomes readable when a sleeping reader has events. It
 * belongs to the node. */
int nm_node_fd(const nm_node *node);
/* The reader is about to wait for the descriptor: true when it may, false when
 * there are events already. */
bool nm_node_sleep(nm_node *node);
/* To be called when the descriptor was readable: makes it unreadable. */
void nm_node_woken(nm_node *node);
/* The three in one: waits up to |timeout_ms| (-1: for ever) for an event. True
 * when there is one. */
bool nm_node_wait(nm_node *node, int timeout_ms);

/* ---- published figures: read from any thread without posting ---- */

typedef struct nm_node_stats {
  nm_engine_stats engine;
  nm_now at; /* of the last publication: the end of a turn with work */
  uint64_t commands;
  uint64_t events;      /* put into the ring */
  uint64_t events_lost; /* lossy ones that found the ring full */
  uint64_t tap_lost;
  uint64_t frames_lost;  /* for user-written interfaces */
  uint64_t late_results; /* of jobs, after the close */
  uint64_t saves;        /* files made durable */
  uint64_t save_errors;
  uint64_t damaged_files;
  uint64_t orphan_paths; /* loaded, their interface is not there (yet) */
  int64_t last_save_unix_us;
  int64_t store_os_error; /* of the last failure; 0 after a success */
  uint64_t ifaces;
  uint64_t jobs_waiting; /* taken from the engine, not yet run */
} nm_node_stats;

void nm_node_stats_read(const nm_node *node, nm_node_stats *stats);
/* The interfaces, at most 0.1 s old: a list for nm_iface_infos; the caller
 * drops the block. NULL before the first publication, and
 * without memory. */
nm_block *nm_node_ifaces(nm_node *node);

#endif
