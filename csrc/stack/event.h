/* Events: what the engine tells its owner.
 *
 * Two kinds. Lossy ones (announces, progress, interface state) may coalesce or
 * be dropped when the queue is full, counted. Reliable ones (data, requests,
 * resources, terminal states) are never dropped: what would need one is not
 * accepted, or not proven, until the owner has granted credit, so that a slow
 * program slows its peer and loses nothing. Terminal events of operations are
 * reserved when the operation starts.
 */
#ifndef NM_STACK_EVENT_H
#define NM_STACK_EVENT_H

#include "base/block.h"
#include "stack/types.h"

typedef enum nm_event_kind {
  /* lossy */
  NM_EVENT_ANNOUNCE, /* a subscription matched */
  NM_EVENT_PROGRESS, /* of a request or resource */
  NM_EVENT_IFACE,    /* added, changed, online, offline, removed */
  NM_EVENT_PATH,     /* a path was learned, changed or lost */
  /* reliable */
  NM_EVENT_PACKET,          /* data for an own destination */
  NM_EVENT_LINK_PACKET,     /* data on a link */
  NM_EVENT_LINK_ACTIVE,     /* both roles */
  NM_EVENT_LINK_IDENTIFIED, /* the initiator said who it is */
  NM_EVENT_REQUEST,         /* a peer asks; answer with `token` */
  NM_EVENT_RESOURCE_OFFER,  /* a peer offers; accept or refuse `token` */
  NM_EVENT_RESOURCE_IN,     /* complete, held until accepted by `token` */
  NM_EVENT_CHANNEL_DATA,    /* an envelope in sequence */
  NM_EVENT_STREAM_DATA,     /* bytes of a stream in order, or its end */
  /* terminal, one per operation or link */
  NM_EVENT_LINK_CLOSED,
  NM_EVENT_RECEIPT,            /* delivered, failed or culled */
  NM_EVENT_ANNOUNCED,          /* an interface took the announce, or none did */
  NM_EVENT_PATH_RESULT,        /* end of a path request made with an id */
  NM_EVENT_RESPONSE,           /* end of a request: READY or failed */
  NM_EVENT_RESOURCE_OUT,       /* end of an outgoing resource */
  NM_EVENT_RESOURCE_IN_FAILED, /* end of an incoming one that did not complete
                                */
  NM_EVENT_CHANNEL_SENT,       /* end of a channel message: proven or failed */
  NM_EVENT_STREAM_SENT,        /* end of a write: all proven, or failed */
  /* neither lossy nor terminal: at most one per channel waits, without credit
   */
  NM_EVENT_CHANNEL_READY, /* the window is open again after it was full */
  /* lossy */
  NM_EVENT_STREAM_MADE /* the writer of a stream made a message */
} nm_event_kind;

/* One struct for all kinds; fields that do not apply are zero. Owned by the
 * receiver: release it with nm_event_dispose. Thread-safe to pass on. */
typedef struct nm_event {
  nm_event_kind kind;
  nm_now at;
  nm_op_id op;
  nm_token_id token;
  nm_link_ref link;
  nm_iface_id iface;
  uint8_t state;        /* link state, receipt state or resource state */
  uint8_t close_reason; /* nm_close_reason */
  uint8_t stage;        /* nm_stage, where it failed */
  int status;           /* 0 or an nm_status */
  bool initiator;
  bool path_response;
  uint8_t context; /* of a packet */
  bool was_link;   /* REQUEST: over a link that identified */
  uint8_t hops;
  int16_t rssi_dbm;
  int16_t snr_cdb;
  int16_t quality_pct;
  nm_destination_hash destination;
  nm_identity_hash identity;  /* announced or identified; zero when unknown */
  nm_packet_hash packet_hash; /* or the resource's hash */
  nm_link_id link_id;
  uint8_t path_hash[NM_ADDRESS_SIZE];
  uint8_t request_id[NM_ADDRESS_SIZE];
  uint8_t ratchet_id[NM_NAME_HASH_SIZE];
  bool has_ratchet_id;
  bool has_app_data;
  int64_t wire_time_us; /* emission or request time, Unix */
  uint64_t rtt_us;
  uint64_t done_bytes;  /* progress, bytes of the content */
  uint64_t total_bytes; /* LINK_ACTIVE: its MTU */
  uint64_t wire_bytes;  /* progress, bytes on the wire */
  uint16_t msgtype;     /* CHANNEL_... */
  uint16_t sequence;  /* CHANNEL_DATA, CHANNEL_SENT, STREAM_DATA, STREAM_MADE */
  uint16_t stream;    /* STREAM_... */
  uint8_t tries;      /* CHANNEL_SENT: how often it was tried */
  bool eof;           /* STREAM_...: nothing follows */
  bool compressed;    /* STREAM_DATA, STREAM_MADE: on the wire */
  bool stored;        /* RESOURCE_IN: `data` is the place of the content */
  nm_block *data;     /* payload, app data, response, proof, advertisement of a
                         RESOURCE_OFFER; may be NULL */
  nm_block *metadata; /* packed metadata; may be NULL */
  nm_block *public_key; /* ANNOUNCE, LINK_IDENTIFIED: 64 bytes */
} nm_event;

/* True for the kinds that may be dropped. */
bool nm_event_is_lossy(nm_event_kind kind);
const char *nm_event_name(nm_event_kind kind);
/* Drops the blocks and zeroes the event. */
void nm_event_dispose(nm_event *event);

#endif
