/* Commands: what another thread asks of a node. One struct for all kinds;
 * which fields a kind reads stands beside it, others are ignored. All kinds
 * call the engine's function of the same purpose, whose errors become the
 * reply's status.
 */
#ifndef NM_IO_COMMAND_H
#define NM_IO_COMMAND_H

#include "io/iface.h"
#include "lxmf/router.h"
#include "stack/buffer.h"
#include "stack/link.h"
#include "stack/local.h"
#include "stack/recorder.h"
#include "stack/request.h"
#include "stack/route.h"
#include "stack/send.h"
#include "stack/snapshot.h"
#include "stack/transfer.h"
#include "stack/transport_tables.h"

/* Lists are read in pages: `cursor` 0 starts, the reply's `cursor` goes on,
 * and is 0 at the end. An entry that is there all the while is seen at least
 * once, whatever else changes; a page holds about `max` records (0: 64, at
 * most 1024). */
typedef enum nm_command_kind {
  /* Own destinations. */
  NM_COMMAND_LISTEN,    /* u.listen; key: 64 private bytes or NULL; data: name;
                           extra: group key; of a SINGLE one a ratchet file, for
                           when the storage has none. From storage:
                           last_emitted, ratchet_file. Reply: destination */
  NM_COMMAND_UNLISTEN,  /* destination */
  NM_COMMAND_SET_PROVE, /* destination, prove, on: hold */
  NM_COMMAND_PAUSE,     /* destination, on: takes no packets */
  NM_COMMAND_SHELVE,    /* destination, shelf or NULL, size_max */
  NM_COMMAND_SET_APP_DATA, /* destination, data: NULL unsets */
  NM_COMMAND_ANNOUNCE,     /* destination, data: NULL means the default, iface,
                              on: path response. Reply: op */
  NM_COMMAND_SUBSCRIBE,    /* data: name or NULL, on: path responses too.
                              Reply: number */
  NM_COMMAND_UNSUBSCRIBE,  /* number */
  NM_COMMAND_HANDLE,   /* destination, data: path, allow, extra: identity hashes
                          in a row or NULL */
  NM_COMMAND_UNHANDLE, /* destination, data: path */
  NM_COMMAND_RATCHET_IDS,   /* destination. Reply: data, 10 bytes each */
  NM_COMMAND_RATCHET_STATE, /* destination. Reply: records, one
                              nm_ratchet_state */
  NM_COMMAND_ROTATE,        /* destination */
  NM_COMMAND_RATCHET_FILE,  /* destination. Reply: data */
  /* Packets outside links. */
  NM_COMMAND_SEND, /* u.send; data: payload, extra: group key, on: only over a
                      settled path. Reply: op; number: NM_NO_PATH */
  NM_COMMAND_RECEIPT_TIMEOUT, /* op, timeout_us, counted from the sending */
  NM_COMMAND_INJECT,          /* iface, data: raw packet */
  NM_COMMAND_FEED,  /* iface, data: a frame as if received. Reply: verdict */
  NM_COMMAND_PROBE, /* iface, data, on: remember. Reply: verdict */
  /* Links. */
  NM_COMMAND_LINK_OPEN,     /* destination, timeout_us, on: only over a settled
                               path, for half of the time when that has fewer
                               than |max| hops. Reply: link; number:
                               NM_NO_PATH */
  NM_COMMAND_LINK_CLOSE,    /* link */
  NM_COMMAND_LINK_IDENTIFY, /* link, key: 64 private bytes */
  NM_COMMAND_LINK_SEND,     /* link, data, on: receipt, timeout_us. Reply: op,
                               hash */
  NM_COMMAND_LINK_TUNE,     /* link, u.tune */
  NM_COMMAND_LINK_POLICY,   /* link, accept, on: hold, size_max */
  NM_COMMAND_LINK_PROVE,    /* link (an initiator's), prove, on: hold */
  NM_COMMAND_LINK_PAUSE,    /* link, on: takes no packets, number: not 0, takes
                               no resources */
  NM_COMMAND_LINK_SHELVE,   /* link, shelf or NULL, on: once, size_max: content
                               bytes, 0: any */
  NM_COMMAND_LINK_TRACK,    /* link, on */
  NM_COMMAND_LINK_INFO,     /* link. Reply: records, one nm_link_info */
  NM_COMMAND_LINK_LIST,     /* cursor, max. Reply: records, nm_link_info */
  NM_COMMAND_LINK_BY_ID,    /* u.link_id. Reply: link */
  NM_COMMAND_LINK_SEAL,     /* link, packet_type, context, data. Reply: data */
  NM_COMMAND_LINK_UNSEAL,   /* link, data: raw packet. Reply: data */
  /* Requests and resources. */
  NM_COMMAND_REQUEST,       /* link, extra: path, data: packed value or NULL,
                               timeout_us, size_max. Reply: op */
  NM_COMMAND_RESPOND,       /* token, data: packed value, on: compress */
  NM_COMMAND_RESPOND_FILE,  /* token, data or source, extra: packed metadata,
                               on: compress */
  NM_COMMAND_RESOURCE_SEND, /* link, data or source, extra: packed metadata or
                               NULL, compression, timeout_us. Reply: op */
  NM_COMMAND_TRANSFER_INFO, /* op. Reply: records, one nm_transfer_info */
  NM_COMMAND_TRANSFER_LIST, /* link. Reply: records, nm_transfer_info */
  NM_COMMAND_ACCEPT,        /* token */
  NM_COMMAND_REFUSE,        /* token */
  NM_COMMAND_CANCEL,        /* op */
  /* Channels and streams. */
  NM_COMMAND_CHANNEL_OPEN,     /* link, on: all types */
  NM_COMMAND_CHANNEL_REGISTER, /* link, number: type */
  NM_COMMAND_CHANNEL_SEND,     /* link, number: type, data, on: waits for the
                                  window in order. Reply: op; number: sequence,
                                  or -1 when it is not known yet */
  NM_COMMAND_CHANNEL_PAUSE,    /* link, on */
  NM_COMMAND_CHANNEL_INFO,     /* link. Reply: records, one nm_channel_info */
  NM_COMMAND_CHANNEL_SENT,     /* link. Reply: records, nm_channel_sent */
  NM_COMMAND_CHANNEL_AHEAD,    /* link. Reply: data, 2 bytes for each sequence
                                  number */
  NM_COMMAND_STREAM_WRITE,     /* link, number: stream, data, on: its end,
                                  compression. Reply: op */
  NM_COMMAND_STREAM_REPORTS,   /* link, on */
  /* Routes. */
  NM_COMMAND_REQUEST_PATH, /* destination, iface, data: tag or NULL,
                              timeout_us, on: wait. Reply: op when waiting */
  NM_COMMAND_PATH_FIND,    /* destination, iface, timeout_us: as
                              REQUEST_PATH, and replies when it has ended.
                              Reply: records, one nm_path_record; number:
                              NM_NO_PATH, with the status of the
                              NM_EVENT_PATH_RESULT */
  NM_COMMAND_HOPS,         /* destination. Reply: number */
  NM_COMMAND_PATH_GET,     /* destination. Reply: records, one
                              nm_path_record, or status MISSING */
  NM_COMMAND_PATH_LIST,    /* cursor, max. Reply: records, nm_path_record */
  NM_COMMAND_PATH_PUT,     /* u.path, its blocks owned */
  NM_COMMAND_PATH_DROP,    /* destination */
  NM_COMMAND_PATH_MARK,    /* destination, on: responsive */
  NM_COMMAND_PATH_REQUEST_LIST, /* Reply: records, nm_path_request_record */
  NM_COMMAND_RECALL,            /* destination. Reply: public_key, has_data,
                                   data: app data, number: 1 when the identity
                                   is blackholed; status MISSING */
  NM_COMMAND_RECALL_IDENTITY,   /* identity. Reply: as RECALL */
  NM_COMMAND_REMEMBER,   /* destination, key: 64 public bytes, data: app data or
                            NULL */
  NM_COMMAND_RETAIN,     /* destination, on */
  NM_COMMAND_RATCHET_OF, /* destination. Reply: data, or status MISSING */
  NM_COMMAND_KNOWN_GET,  /* destination. Reply: records, one
                            nm_known_record, or status MISSING */
  NM_COMMAND_KNOWN_LIST, /* cursor, max. Reply: records, nm_known_record */
  NM_COMMAND_KNOWN_PUT,  /* u.known, its blocks owned */
  NM_COMMAND_KNOWN_DROP, /* destination */
  NM_COMMAND_KNOWN_CLEAN,    /* Reply: number that went */
  NM_COMMAND_BLACKHOLE,      /* identity, until_unix_us, data: reason or NULL */
  NM_COMMAND_UNBLACKHOLE,    /* identity */
  NM_COMMAND_BLACKHOLE_PUT,  /* u.blackhole, its block owned */
  NM_COMMAND_BLACKHOLE_LIST, /* Reply: records, nm_blackhole_record */
  NM_COMMAND_PATH_TAG_PUT,   /* u.path_tag, on: seen, or not */
  NM_COMMAND_PATH_TAG_LIST,  /* Reply: records, nm_path_tag, at most 1024 */
  NM_COMMAND_TABLE_LIST,   /* u.entry.table. Reply: records, nm_table_entry, at
                              most 1024 */
  NM_COMMAND_TABLE_PUT,    /* u.entry, its blocks owned */
  NM_COMMAND_TABLE_DROP,   /* u.entry: the keys of its record */
  NM_COMMAND_HELD_RELEASE, /* iface, destination */
  /* Other tables. */
  NM_COMMAND_RECEIPT_LIST, /* Reply: records, nm_receipt_record */
  NM_COMMAND_FILTER_SIZE,  /* Reply: number */
  NM_COMMAND_FILTER_HAS,   /* hash. Reply: number 0 or 1 */
  NM_COMMAND_FILTER_PUT,   /* hash */
  NM_COMMAND_FILTER_DROP,  /* hash */
  NM_COMMAND_RECORDS,      /* cursor: sequence number, max. Reply: records,
                              nm_record; cursor: the next one, 0 at the end */
  /* Interfaces. */
  NM_COMMAND_IFACE_ADD,     /* u.iface. Reply: iface, number: bound port */
  NM_COMMAND_IFACE_CHANGE,  /* iface, u.spec (not its name, role, tunnels,
                               online); a server's children follow */
  NM_COMMAND_IFACE_PAUSE,   /* iface: takes no frames in or out, keeps its
                               connection; a server accepts none, its children
                               pause */
  NM_COMMAND_IFACE_RESUME,  /* iface */
  NM_COMMAND_IFACE_REMOVE,  /* iface, and a server's children */
  NM_COMMAND_IFACE_TUNNEL,  /* iface: asks for a tunnel */
  NM_COMMAND_IFACE_LIST,    /* Reply: records, nm_iface_info */
  NM_COMMAND_IFACE_DEVICES, /* iface: an AUTO one. Reply: records,
                               nm_device_info; status STATE for others */
  /* Mail. MAIL_OPEN, MAIL_SEND, MAIL_IGNORE and MAIL_SET_NODE make the
     node's router; before it the others are NM_E(STATE). */
  NM_COMMAND_MAIL_OPEN,     /* key: 64 private bytes; data: display name or
                               NULL; u.mailbox: stamp_cost, enforce_stamps,
                               limit_kb, enforce_ratchets; on: keeps letters and
                               messages in the storage, and goes on with the
                               letters that are there (under ticket 0). From
                               storage: last_emitted, ratchet_file. Reply:
                               destination; status STATE: it cannot keep */
  NM_COMMAND_MAIL_CLOSE,    /* destination */
  NM_COMMAND_MAIL_DESCRIBE, /* destination, data: display name or NULL,
                               u.mailbox: stamp_cost, enforce_stamps */
  NM_COMMAND_MAIL_PAUSE,    /* destination, on: refuses what comes in */
  NM_COMMAND_MAIL_IGNORE,   /* destination: the source, on */
  NM_COMMAND_MAIL_SEND,     /* u.letter; data: packed; extra: sealed or NULL.
                               Reply: hash: the message's id; of a mailbox that
                               keeps once it is on disk. Its events carry the
                               ticket; the final state ends it */
  NM_COMMAND_MAIL_CANCEL,   /* hash: the message's id */
  NM_COMMAND_MAIL_SET_NODE, /* destination, on: set or unset, number: cost */
  NM_COMMAND_MAIL_SYNC,     /* destination: the mailbox, u.mail_sync. Its events
                               carry the ticket; `sync_ended` ends it */
  NM_COMMAND_MAIL_SYNC_CANCEL, /* destination: the mailbox */
  NM_COMMAND_MAIL_INGEST,      /* data: lxmf_data, number: PAPER or
                                  PROPAGATED */
  NM_COMMAND_MAIL_TICKET,      /* destination: the peer. Reply: data: 16 bytes
                                  for field 0x0C, number: when it expires, Unix
                                  microseconds; status MISSING: none is due */
  NM_COMMAND_MAIL_ACK,         /* cursor: a row of the store that the reader
                                  has; written with what comes next */
  NM_COMMAND_MAIL_STATS,       /* Reply: records, one nm_router_stats */
  /* The node. */
  NM_COMMAND_STATS,               /* Reply: records, one nm_node_stats */
  NM_COMMAND_LIMITS,              /* Reply: records, one nm_limits */
  NM_COMMAND_SET_IMPLICIT_PROOFS, /* on */
  NM_COMMAND_TAP,                 /* on */
  NM_COMMAND_PERSIST, /* known destinations and paths are durable when the
                         reply comes; status LIBRARY: they are not */
  NM_COMMAND_COUNT
} nm_command_kind;

/* "listen", ... Never NULL. */
const char *nm_command_name(nm_command_kind kind);

/* `number` of a reply that is an error for want of a path. */
#define NM_NO_PATH 1

typedef struct nm_tune {
  uint64_t rtt_us;
  uint64_t keepalive_us;
  uint64_t stale_us;
} nm_tune;

/* A record of a table of a transport node, with the table. */
typedef struct nm_table_entry {
  nm_transport_table table;
  nm_transport_record record;
} nm_table_entry;

/* A fetch from a propagation node. */
typedef struct nm_mail_sync {
  bool has_node; /* else the one that was set */
  nm_destination_hash node;
  uint32_t most; /* messages; 0: all */
  bool retain;   /* the node keeps them */
} nm_mail_sync;

typedef struct nm_command {
  nm_command_kind kind;
  uint64_t ticket; /* the caller's name for it; any value. A ticket that is to
                      be cancelled is unique among those outstanding */
  nm_destination_hash destination;
  nm_identity_hash identity;
  nm_packet_hash hash;
  nm_link_ref link;
  nm_op_id op;
  nm_token_id token;
  nm_iface_id iface;
  uint64_t timeout_us;
  uint64_t cursor;
  uint32_t max;
  int64_t number;
  int64_t until_unix_us;
  size_t size_max;
  bool on;
  bool quiet; /* the reply of a success, and the progress of what it began,
                 wake nobody: they are read with the next event, such as the
                 operation's last one (see nm_node_follow) */
  nm_prove prove;
  nm_allow allow;
  nm_accept accept;
  nm_resource_compression compression;
  uint8_t packet_type;
  uint8_t context;
  nm_block *data;    /* owned; NULL where that has a meaning */
  nm_block *extra;   /* owned */
  nm_block *key;     /* owned */
  nm_source *source; /* owned */
  nm_shelf *shelf;   /* owned */
  union {
    nm_dest_spec listen; /* its spans and its identity pointer are ignored */
    nm_send_spec send;   /* its spans are ignored */
    nm_tune tune;
    nm_link_id link_id;
    nm_path_record path;
    nm_known_record known;
    nm_blackhole_record blackhole;
    nm_path_tag path_tag;
    nm_table_entry entry;
    nm_iface_setup iface;
    nm_iface_spec spec;
    nm_mailbox_spec mailbox; /* its spans and its identity are ignored */
    nm_letter_spec letter;   /* its spans are ignored */
    nm_mail_sync mail_sync;
  } u;
} nm_command;

/* Drops the blocks (a pipe's descriptor is closed) and zeroes |command|. For
 * commands that were not given to nm_node_command. */
void nm_command_dispose(nm_command *command);

#endif
