/* What the files of the mail store share: the connection, statements, tables.
 */
#ifndef NM_IO_MAIL_DB_H
#define NM_IO_MAIL_DB_H

#include "io/mail_store.h"

#include <sqlite3.h>
#include <sys/types.h>

#define NM_MAIL_STATEMENTS 64
/* Of a packed message. */
#define NM_MAIL_PACKED_MAX (64u << 20)
/* Of a content or a title, what is searched. */
#define NM_MAIL_TEXT_MAX (64u << 10)
/* A policy as it is stored: wait between attempts (8), then for each step its
 * method (1), attempts (4) and budget (8). */
#define NM_MAIL_POLICY_MAX (8 + NM_POLICY_STEPS * 13)

/* A prepared statement that is kept. `sql` is the address of its text, which
 * is static. */
typedef struct nm_mail_kept {
  const char *sql;
  sqlite3_stmt *handle;
} nm_mail_kept;

struct nm_mail_store {
  const nm_mem *mem;
  sqlite3 *db;
  pid_t owner; /* the process that opened it */
  bool read_only;
  bool forgets; /* this batch remembered ids: old ones are to go */
  char *path;
  nm_mail_trouble trouble;
  nm_mail_kept kept[NM_MAIL_STATEMENTS];
};

/* ---- failing (mail_store_trouble.c) ---- */

/* Writes the sentence of |trouble|: the file, what happened, and |why| unless
 * it is empty. */
void nm_mail_tell(nm_mail_trouble *trouble, const char *path, const char *what,
                  const char *why);

/* Records what SQLite's |code| means and returns it as a status. */
int nm_mail_failed(nm_mail_store *store, int code);
/* Records a failure that is not SQLite's. */
int nm_mail_fail(nm_mail_store *store, int status, const char *what);
/* One of the system: |status|, or NM_E(FULL) when |os_error| says that there is
 * no room. */
int nm_mail_fail_system(nm_mail_store *store, int status, const char *what,
                        int os_error);
/* A row that cannot be what was written: the file is damaged. */
int nm_mail_damaged(nm_mail_store *store, const char *what);
/* NM_E(STATE) in a forked child; else forgets the last trouble. */
int nm_mail_ready(nm_mail_store *store);

/* ---- statements (mail_store_sql.c) ---- */

/* A statement being bound and run. The first failure is latched, so that a run
 * of calls is checked once. */
typedef struct nm_mail_stmt {
  nm_mail_store *store;
  sqlite3_stmt *handle;
  bool kept;
  int bound;
  int status;
} nm_mail_stmt;

/* A statement that is prepared once; |sql| has static storage. */
nm_mail_stmt nm_mail_use(nm_mail_store *store, const char *sql);
/* One that is prepared for this use alone. */
nm_mail_stmt nm_mail_prepare(nm_mail_store *store, const char *sql);
/* Binds the next parameter. Bytes must stay as they are until the end. */
void nm_mail_bind_int(nm_mail_stmt *stmt, int64_t value);
void nm_mail_bind_real(nm_mail_stmt *stmt, double value);
void nm_mail_bind_bytes(nm_mail_stmt *stmt, nm_span bytes);
void nm_mail_bind_text(nm_mail_stmt *stmt, nm_span text);
void nm_mail_bind_null(nm_mail_stmt *stmt);
/* 1: there is a row; 0: no more; or a status. */
int nm_mail_step(nm_mail_stmt *stmt);
/* Gives the statement back. 0 or the first failure. */
int nm_mail_end(nm_mail_stmt *stmt);
/* Runs it without looking at rows, and gives it back. */
int nm_mail_run(nm_mail_stmt *stmt);
/* Prepares and runs |sql|, which may be several statements. */
int nm_mail_exec(nm_mail_store *store, const char *sql);
/* The first column of the first row of |sql|; |none| when there is no row. */
int nm_mail_number(nm_mail_store *store, const char *sql, int64_t none,
                   int64_t *number);

int64_t nm_mail_column_int(const nm_mail_stmt *stmt, int column);
double nm_mail_column_real(const nm_mail_stmt *stmt, int column);
bool nm_mail_column_null(const nm_mail_stmt *stmt, int column);
/* Valid until the next step. */
nm_span nm_mail_column_bytes(const nm_mail_stmt *stmt, int column);
/* Copies exactly |size| bytes; else latches that the file is damaged. */
void nm_mail_column_fixed(nm_mail_stmt *stmt, int column, void *out,
                          size_t size);

/* ---- layout (mail_store_schema.c) ---- */

/* NM_E(VALUE) for the file of another program, NM_E(MODE) for a layout newer
 * than |count|. */
int nm_mail_check_owner(nm_mail_store *store, uint32_t count, int64_t *version);
/* Version N+1 is made of version N by the step number N. */
int nm_mail_migrate(nm_mail_store *store, const char *const *steps,
                    uint32_t count);
extern const char *const nm_mail_layout[];
extern const uint32_t nm_mail_layout_count;

/* ---- bodies (mail_store_body.c) ---- */

/* What is stored of |packed|: itself, or in |room| a frame that is smaller.
 * |*inflated| is the size of what was deflated, else 0. */
int nm_mail_body_pack(nm_mail_store *store, nm_span packed, nm_buffer *room,
                      nm_span *stored, int64_t *inflated);
/* The message behind stored bytes. */
int nm_mail_body_unpack(nm_mail_store *store, nm_span stored, int64_t inflated,
                        nm_block **packed);
/* As it is searched: valid UTF-8 without NUL, of a bounded length. |room| is
 * used when |text| is not like that. */
int nm_mail_text(nm_span text, nm_buffer *room, nm_span *clean);
/* The SQL function of that name, which the view letter_text uses. */
int nm_mail_body_functions(nm_mail_store *store);
/* Notes the attachments among |fields| of message |row|, whose packed form is
 * |packed|; those noted before go if |again|. */
int nm_mail_note_attachments(nm_mail_store *store, int64_t row, nm_span packed,
                             nm_span fields, bool again);

/* ---- removing (mail_store_quota.c) ---- */

typedef struct nm_mail_place {
  int64_t box;
  nm_mail_quota quota;
  uint64_t rows;
  uint64_t bytes;
} nm_mail_place;

/* NM_E(MISSING). */
int nm_mail_place_find(nm_mail_store *store, const nm_destination_hash *hash,
                       nm_mail_place *place);
/* The mailbox |hash|, made if missing. */
int nm_mail_place_of(nm_mail_store *store, const nm_destination_hash *hash,
                     nm_mail_place *place);
/* Makes room for |rows| more and |bytes| more, without touching row |except|.
 * NM_E(LIMIT), nothing changed, when there is none to be made. */
int nm_mail_make_room(nm_mail_store *store, const nm_mail_place *place,
                      uint64_t rows, uint64_t bytes, int64_t except);
/* Removes one message. NM_E(MISSING); NM_E(STATE) for an unfinished letter. */
int nm_mail_remove(nm_mail_store *store, int64_t row);
/* Remembers an id as seen. */
int nm_mail_remember(nm_mail_store *store, const uint8_t id[NM_HASH_SIZE],
                     int64_t at_us);

/* ---- reading (mail_store_read.c) ---- */

/* The columns of a row, in the order that nm_mail_fill expects, from tables m
 * (message), t (talk) and b (mailbox). */
#define NM_MAIL_COLUMNS                                                        \
  "m.row, b.hash, t.peer, m.id, m.outgoing, m.open, m.stored_us, "             \
  "m.timestamp, m.size, m.method, m.representation, m.unverified, "            \
  "m.stamp_checked, m.stamp_valid, m.stamp_value, m.transient_id, m.rssi, "    \
  "m.snr, m.quality, m.state, m.stage, m.attempts, m.rtt_us"
#define NM_MAIL_COLUMN_COUNT 23
#define NM_MAIL_JOINS                                                          \
  "CROSS JOIN talk t ON t.talk = m.talk "                                      \
  "CROSS JOIN mailbox b ON b.box = m.box "

/* Fills |row| without its body. */
int nm_mail_fill(nm_mail_stmt *stmt, nm_mail_row *row);

/* A WHERE clause being written, with what is bound to it. */
typedef struct nm_mail_filter {
  char where[512];
  const nm_mail_query *query;
} nm_mail_filter;

void nm_mail_filter_init(nm_mail_filter *filter, const nm_mail_query *query);
void nm_mail_filter_bind(const nm_mail_filter *filter, nm_mail_stmt *stmt);

#endif
