/* The mail store: the messages of mailboxes in one SQLite database.
 *
 * One object is one connection: one thread at a time, not across a fork (every
 * call is then NM_E(STATE), and closing only lets go of the memory). Several
 * may be open on one file, in one process or in many: readers never wait for a
 * writer, one writer waits for another up to `busy_ms`.
 *
 * What nm_mail_store_apply has answered with NM_OK is on disk (WAL, full
 * synchronisation) and outlives a kill and a power cut. The file has mode 0600;
 * it holds tickets and the text of messages.
 *
 * Statuses of all calls, beside those that are named:
 *   NM_E(FULL)    no room on the device (or the size limit of the process)
 *   NM_E(STORE)   reading or writing failed, or the file is damaged
 *   NM_E(TIMEOUT) another connection wrote for longer than `busy_ms`
 *   NM_E(STATE)   in a forked child
 *   NM_E(MEMORY)
 * nm_mail_store_trouble then says more. After any of them nothing has changed
 * in the database. Times are Unix microseconds.
 */
#ifndef NM_IO_MAIL_STORE_H
#define NM_IO_MAIL_STORE_H

#include "base/block.h"
#include "lxmf/router.h"
#include "lxmf/tickets.h"

typedef struct nm_mail_store nm_mail_store;

#define NM_MAIL_FILE "mail.db" /* its name in a node's storage */

/* Why a call failed. */
typedef struct nm_mail_trouble {
  int status;     /* 0: nothing failed yet */
  int code;       /* SQLite's extended result code, or 0 */
  int os_error;   /* an errno, or 0 */
  bool damaged;   /* the content of the file is not what it should be */
  char text[512]; /* a sentence that names the file */
} nm_mail_trouble;

typedef struct nm_mail_options {
  bool read_only;    /* the file must exist; apply is NM_E(STATE) */
  bool must_exist;   /* do not make it: NM_E(MISSING) */
  uint32_t busy_ms;  /* 0: [5000] */
  uint32_t cache_kb; /* of pages; 0: [8192] */
} nm_mail_options;

/* Opens |path|, made if missing, brought to the current layout if older.
 * |options| NULL: the defaults. NM_E(MISSING) without the file, NM_E(VALUE)
 * when it is the database of another program, NM_E(MODE) when a newer netmesh
 * made it, NM_E(LIBRARY) when the SQLite library is too old or lacks FTS5 or
 * threads. |trouble| may be NULL. A damaged file is left as it is. */
int nm_mail_store_open(const nm_mem *mem, const char *path,
                       const nm_mail_options *options, nm_mail_store **store,
                       nm_mail_trouble *trouble);
/* NULL is allowed. */
void nm_mail_store_close(nm_mail_store *store);
/* Of the last call that failed. */
const nm_mail_trouble *nm_mail_store_trouble(const nm_mail_store *store);
/* Renames a file that nobody has open, with its companions, to
 * NAME.damaged-N, which is stored in |aside|. NM_E(MISSING), NM_E(STORE),
 * NM_E(LIMIT) when |aside| is too small. */
int nm_mail_store_set_aside(const char *path, char *aside, size_t aside_size);

/* ---- writing ---- */

typedef enum nm_mail_write_kind {
  /* A message came: u.received, packed. Sets `row`. NM_E(DUPLICATE_KEY) when
   * this mailbox has or had it (`row` is then that of the one that is there, or
   * 0), NM_E(LIMIT) when the quota leaves no room, decoding errors. Counts as
   * acknowledged at once if `on`. */
  NM_MAIL_WRITE_RECEIVED,
  /* A message goes out: u.letter, packed, sealed or NULL. Sets `row`.
   * NM_E(DUPLICATE_KEY) while the same one is unfinished; a finished one begins
   * again under its old row. NM_E(LIMIT), decoding errors. */
  NM_MAIL_WRITE_LETTER,
  /* It has its stamp, or its sealed form: mailbox, id, packed, sealed or NULL.
   * NM_E(MISSING) when it is not unfinished. */
  NM_MAIL_WRITE_WORKED,
  /* u.state. With `final` it is unfinished no more. NM_E(MISSING). */
  NM_MAIL_WRITE_STATE,
  NM_MAIL_WRITE_ACK,   /* the reader has `row`. NM_E(MISSING) */
  NM_MAIL_WRITE_UNACK, /* it has not. NM_E(MISSING) */
  /* `row` goes, its id stays known. NM_E(MISSING), NM_E(STATE) when it is an
   * unfinished letter. */
  NM_MAIL_WRITE_DELETE,
  NM_MAIL_WRITE_TICKET,           /* u.ticket */
  NM_MAIL_WRITE_TICKET_DELIVERED, /* one was delivered to u.ticket.peer at
                                     u.ticket.expires (Unix seconds) */
  NM_MAIL_WRITE_SEEN,             /* id: a transient id */
  NM_MAIL_WRITE_IGNORE,           /* peer is ignored if `on`, else no more */
  NM_MAIL_WRITE_QUOTA,            /* u.quota of mailbox */
  /* A message that was sent elsewhere and has ended: u.state, packed. Sets
   * `row`. NM_E(DUPLICATE_KEY), NM_E(LIMIT), decoding errors. */
  NM_MAIL_WRITE_SENT
} nm_mail_write_kind;

/* How a message came. */
typedef struct nm_mail_received {
  nm_lxmf_method method;
  nm_lxmf_representation representation;
  nm_lxmf_unverified unverified;
  bool stamp_checked;
  bool stamp_valid;
  uint32_t stamp_value;
  bool has_transient_id; /* remembered as seen */
  uint8_t transient_id[NM_HASH_SIZE];
  /* INT16_MIN: not measured */
  int16_t rssi_dbm;
  int16_t snr_cdb;
  int16_t quality_pct;
} nm_mail_received;

/* What an outgoing message needs after a restart. */
typedef struct nm_mail_plan {
  nm_policy policy;
  bool bare;
  uint32_t stamp_cost;
  bool stamp_auto;
  bool carries_ticket;
  int64_t deadline_us; /* Unix, 0: none */
} nm_mail_plan;

/* How far it is. */
typedef struct nm_mail_progress {
  nm_lxmf_state state;
  nm_lxmf_method method;
  nm_lxmf_representation representation;
  nm_stage stage;
  uint32_t attempts;
  uint64_t rtt_us;
  bool final;
} nm_mail_progress;

/* 0: no limit. Bytes are those of the bodies as they are stored. */
typedef struct nm_mail_quota {
  uint64_t rows;
  uint64_t bytes;
} nm_mail_quota;

typedef struct nm_mail_write {
  nm_mail_write_kind kind;
  int status;    /* set: of this write alone */
  int64_t row;   /* ACK, UNACK, DELETE; set by RECEIVED and LETTER */
  int64_t at_us; /* when; of what gets a time */
  nm_destination_hash mailbox;
  nm_destination_hash peer; /* IGNORE; RECEIVED and LETTER have it in packed */
  uint8_t id[NM_HASH_SIZE];
  nm_span packed; /* borrowed */
  nm_span sealed; /* borrowed; `ptr` NULL: none */
  bool on;
  union {
    nm_mail_received received;
    nm_mail_plan letter;
    nm_mail_progress state;
    nm_ticket_record ticket;
    nm_mail_quota quota;
  } u;
} nm_mail_write;

/* Applies all writes in their order as one durable transaction. A write that
 * fails for its own reasons (those named above) changes nothing and leaves the
 * others alone. When the transaction fails its status is returned, every
 * write has it too, and nothing has changed. The oldest acknowledged or
 * finished messages go when a quota needs room; others never. */
int nm_mail_store_apply(nm_mail_store *store, nm_mail_write *writes,
                        size_t count);

/* ---- reading messages ---- */

/* Owned by the caller: nm_mail_row_dispose. */
typedef struct nm_mail_row {
  int64_t row; /* grows with every message, never used again */
  nm_destination_hash mailbox;
  nm_destination_hash peer;
  uint8_t id[NM_HASH_SIZE];
  bool outgoing;
  bool open;                 /* not yet acknowledged, or not yet finished */
  int64_t stored_us;         /* when it came or was sent */
  double timestamp;          /* the sender's, Unix seconds */
  uint32_t size;             /* of the packed message */
  nm_mail_received received; /* not outgoing; method and representation always
                              */
  nm_mail_progress state;    /* outgoing */
  nm_block *packed;          /* or NULL when it was not asked for */
} nm_mail_row;

void nm_mail_row_dispose(nm_mail_row *row);

typedef enum nm_mail_direction {
  NM_MAIL_BOTH,
  NM_MAIL_INCOMING,
  NM_MAIL_OUTGOING
} nm_mail_direction;

typedef struct nm_mail_query {
  const nm_destination_hash *mailbox; /* NULL: all */
  const nm_destination_hash *peer;    /* NULL: all */
  nm_mail_direction direction;
  bool open; /* only those */
  bool newest_first;
  bool bodies;      /* `packed` too */
  int64_t cursor;   /* only rows after it (before it with newest_first);
                       0: from the start */
  int64_t since_us; /* stored at or after; 0: any. Read on the way: not found
                       by an index */
  int64_t until_us; /* stored before; 0: any */
} nm_mail_query;

/* Fills at most |max| rows in the order of `row`; the next call goes on with
 * the last one's as cursor. Rows after |*count| are untouched. The rows that a
 * reader has not yet acknowledged: direction INCOMING, open. */
int nm_mail_store_list(nm_mail_store *store, const nm_mail_query *query,
                       nm_mail_row *rows, size_t max, size_t *count);
/* NM_E(MISSING). */
int nm_mail_store_get(nm_mail_store *store, int64_t row, bool body,
                      nm_mail_row *out);
/* By message id; |mailbox| NULL: any. The received one when it was sent from
 * here to here. NM_E(MISSING). */
int nm_mail_store_find(nm_mail_store *store, const nm_destination_hash *mailbox,
                       const uint8_t id[NM_HASH_SIZE], bool body,
                       nm_mail_row *out);

/* A hit of nm_mail_store_search; its row comes without body. */
typedef struct nm_mail_hit {
  nm_mail_row row;
  nm_block *title;   /* UTF-8, the words found between the marks */
  nm_block *snippet; /* of the content, likewise */
} nm_mail_hit;

void nm_mail_hit_dispose(nm_mail_hit *hit);

typedef struct nm_mail_search {
  const nm_destination_hash *mailbox; /* NULL: all */
  /* UTF-8: words that must all be there, in title or content; "a phrase" in
   * double quotes; word* for what begins so (two letters at least). Case and
   * accents do not matter. Nothing else has a meaning. */
  nm_span text;
  int64_t before;        /* only rows before it; 0: from the newest on */
  const char *open_mark; /* around what was found */
  const char *close_mark;
  uint32_t words; /* of a snippet, 1 to 64; 0: [16] */
} nm_mail_search;

/* Newest first. NM_E(EMPTY) without a word, NM_E(TOO_LARGE) above 1024 bytes,
 * NM_E(UTF8), NM_E(RANGE). The first 64 KiB of a content are searched. */
int nm_mail_store_search(nm_mail_store *store, const nm_mail_search *search,
                         nm_mail_hit *hits, size_t max, size_t *count);

/* ---- after a restart ---- */

typedef struct nm_mail_letter {
  int64_t row;
  nm_destination_hash mailbox;
  uint8_t id[NM_HASH_SIZE];
  int64_t stored_us;
  nm_mail_plan plan;
  nm_block *packed;
  nm_block *sealed; /* or NULL */
} nm_mail_letter;

void nm_mail_letter_dispose(nm_mail_letter *letter);

/* Unfinished letters with rows after |after|, oldest first; |mailbox| NULL:
 * of all. */
int nm_mail_store_letters(nm_mail_store *store,
                          const nm_destination_hash *mailbox, int64_t after,
                          nm_mail_letter *letters, size_t max, size_t *count);

/* A list is read in pieces: |*cursor| is 0 at first, and 0 again when a call
 * has filled in the last entries. */

/* Tickets that are good after |now_s| (Unix seconds). */
int nm_mail_store_tickets(nm_mail_store *store, double now_s, int64_t *cursor,
                          nm_ticket_record *tickets, size_t max, size_t *count);
/* When tickets were delivered last: `peer` and, in `expires`, the time. */
int nm_mail_store_ticket_deliveries(nm_mail_store *store, int64_t *cursor,
                                    nm_ticket_record *deliveries, size_t max,
                                    size_t *count);
/* At most this many are remembered; the oldest go. */
#define NM_MAIL_SEEN_MAX 200000
/* Transient ids, and ids of messages that were deleted; newest first. */
int nm_mail_store_seen(nm_mail_store *store, int64_t *cursor,
                       uint8_t (*ids)[NM_HASH_SIZE], size_t max, size_t *count);
int nm_mail_store_ignored(nm_mail_store *store, int64_t *cursor,
                          nm_destination_hash *sources, size_t max,
                          size_t *count);

/* ---- overviews ---- */

/* All messages between a mailbox and a peer. */
typedef struct nm_mail_talk {
  nm_destination_hash mailbox;
  nm_destination_hash peer;
  uint64_t count;
  uint64_t unread;  /* received, not acknowledged */
  int64_t last_row; /* of the newest */
  int64_t last_us;
} nm_mail_talk;

/* Newest first, only those whose last_row is below |before| (0: all). */
int nm_mail_store_talks(nm_mail_store *store,
                        const nm_destination_hash *mailbox, int64_t before,
                        nm_mail_talk *talks, size_t max, size_t *count);

#define NM_MAIL_ATTACHMENT_NAME_MAX 255

/* A file (field 5), image (6) or audio (7) of a message. */
typedef struct nm_mail_attachment {
  int64_t row;
  uint32_t index; /* in the message, from 0 */
  nm_lxmf_field field;
  char name[NM_MAIL_ATTACHMENT_NAME_MAX + 1]; /* of a file; the format of an
                                                 image; cut, UTF-8 */
  uint32_t audio_mode;                        /* of audio */
  uint64_t size;
} nm_mail_attachment;

/* Of the messages that |query| describes, in its order; |after_index| -1: from
 * the first of the row that comes first, else those of row query->cursor after
 * that index come first. */
int nm_mail_store_attachments(nm_mail_store *store, const nm_mail_query *query,
                              int64_t after_index,
                              nm_mail_attachment *attachments, size_t max,
                              size_t *count);
/* The bytes of one. Of a message that is stored as it came only these are read.
 * NM_E(MISSING). */
int nm_mail_store_attachment(nm_mail_store *store, int64_t row, uint32_t index,
                             nm_block **bytes);

typedef struct nm_mail_box {
  nm_destination_hash mailbox;
  uint64_t rows;
  uint64_t bytes; /* of bodies, as they are stored */
  uint64_t unread;
  uint64_t unfinished;
  nm_mail_quota quota;
} nm_mail_box;

/* Every mailbox that has or had messages or a quota. */
int nm_mail_store_boxes(nm_mail_store *store, int64_t *cursor,
                        nm_mail_box *boxes, size_t max, size_t *count);

typedef struct nm_mail_figures {
  uint64_t messages;
  uint64_t unread;
  uint64_t unfinished;
  uint64_t bytes;      /* of bodies, as they are stored */
  uint64_t file_bytes; /* of the database, without its log */
  uint64_t free_bytes; /* in it, unused */
  uint64_t evicted;    /* by quotas, ever */
  uint32_t layout;     /* version of the tables */
} nm_mail_figures;

int nm_mail_store_figures(nm_mail_store *store, nm_mail_figures *figures);
/* Reads everything and compares all counts. 0 when all is well; NM_E(STORE)
 * with what was found appended to |report|, a line each, at most 100. Minutes
 * for large files. */
int nm_mail_store_check(nm_mail_store *store, nm_buffer *report);

#endif
