/* Overviews: conversations, attachments, mailboxes, and the small lists that a
 * router wants back after a restart.
 */
#include "io/mail_db.h"

#include <stdio.h>
#include <string.h>

static nm_span hash_of(const nm_destination_hash *hash) {
  return nm_span_of(hash->b, sizeof(hash->b));
}

/* ---- pieces of a list ---- */

/* Puts what the statement's row says to place |at| of |out|. */
typedef void fill_entry(nm_mail_stmt *stmt, void *out, size_t at);

/* Runs a statement whose first column is where the list goes on. One entry more
 * than fits is asked for, so that the end is known when it is reached. */
static int take_piece(nm_mail_stmt *stmt, fill_entry *fill, void *out,
                      size_t max, size_t *count, int64_t *cursor) {
  int64_t last = 0;
  int found = 0;
  nm_mail_bind_int(stmt, (int64_t)max + 1);
  while ((found = nm_mail_step(stmt)) > 0 && *count < max) {
    last = nm_mail_column_int(stmt, 0);
    fill(stmt, out, (*count)++);
  }
  *cursor = found > 0 ? last : 0;
  int status = nm_mail_end(stmt);
  *count = status == NM_OK ? *count : 0;
  return status;
}

static int begin_list(nm_mail_store *store, size_t max, size_t *count) {
  *count = 0;
  int status = nm_mail_ready(store);
  return status == NM_OK && max == 0 ? NM_E(ARGUMENT) : status;
}

/* A list whose statement asks for nothing but where to go on. */
static int list_on(nm_mail_store *store, const char *sql, fill_entry *fill,
                   void *out, size_t max, size_t *count, int64_t *cursor) {
  int status = begin_list(store, max, count);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, *cursor);
  return take_piece(&stmt, fill, out, max, count, cursor);
}

static void fill_ticket(nm_mail_stmt *stmt, void *out, size_t at) {
  nm_ticket_record *ticket = (nm_ticket_record *)out + at;
  memset(ticket, 0, sizeof(*ticket));
  nm_mail_column_fixed(stmt, 1, ticket->peer.b, sizeof(ticket->peer.b));
  ticket->expires = nm_mail_column_real(stmt, 2);
  ticket->issued = nm_mail_column_int(stmt, 3) != 0;
  nm_mail_column_fixed(stmt, 4, ticket->ticket, sizeof(ticket->ticket));
}

int nm_mail_store_tickets(nm_mail_store *store, double now_s, int64_t *cursor,
                          nm_ticket_record *tickets, size_t max,
                          size_t *count) {
  static const char sql[] =
      "SELECT number, peer, expires, issued, ticket FROM ticket"
      " WHERE number > ? AND expires > ? ORDER BY number LIMIT ?";
  int status = begin_list(store, max, count);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, *cursor);
  nm_mail_bind_real(&stmt, now_s);
  return take_piece(&stmt, fill_ticket, tickets, max, count, cursor);
}

static void fill_delivery(nm_mail_stmt *stmt, void *out, size_t at) {
  nm_ticket_record *ticket = (nm_ticket_record *)out + at;
  memset(ticket, 0, sizeof(*ticket));
  nm_mail_column_fixed(stmt, 1, ticket->peer.b, sizeof(ticket->peer.b));
  ticket->expires = nm_mail_column_real(stmt, 2);
  ticket->issued = true;
}

int nm_mail_store_ticket_deliveries(nm_mail_store *store, int64_t *cursor,
                                    nm_ticket_record *deliveries, size_t max,
                                    size_t *count) {
  static const char sql[] = "SELECT number, peer, at FROM ticket_delivery"
                            " WHERE number > ? ORDER BY number LIMIT ?";
  return list_on(store, sql, fill_delivery, deliveries, max, count, cursor);
}

static void fill_id(nm_mail_stmt *stmt, void *out, size_t at) {
  uint8_t(*ids)[NM_HASH_SIZE] = out;
  nm_mail_column_fixed(stmt, 1, ids[at], NM_HASH_SIZE);
}

int nm_mail_store_seen(nm_mail_store *store, int64_t *cursor,
                       uint8_t (*ids)[NM_HASH_SIZE], size_t max,
                       size_t *count) {
  static const char sql[] = "SELECT number, id FROM seen WHERE number < ?"
                            " ORDER BY number DESC LIMIT ?";
  int status = begin_list(store, max, count);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, *cursor != 0 ? *cursor : INT64_MAX);
  return take_piece(&stmt, fill_id, ids, max, count, cursor);
}

static void fill_source(nm_mail_stmt *stmt, void *out, size_t at) {
  nm_destination_hash *sources = out;
  nm_mail_column_fixed(stmt, 1, sources[at].b, sizeof(sources[at].b));
}

int nm_mail_store_ignored(nm_mail_store *store, int64_t *cursor,
                          nm_destination_hash *sources, size_t max,
                          size_t *count) {
  static const char sql[] = "SELECT number, source FROM ignored"
                            " WHERE number > ? ORDER BY number LIMIT ?";
  return list_on(store, sql, fill_source, sources, max, count, cursor);
}

static void fill_box(nm_mail_stmt *stmt, void *out, size_t at) {
  nm_mail_box *box = (nm_mail_box *)out + at;
  *box =
      (nm_mail_box){.rows = (uint64_t)nm_mail_column_int(stmt, 2),
                    .bytes = (uint64_t)nm_mail_column_int(stmt, 3),
                    .unread = (uint64_t)nm_mail_column_int(stmt, 4),
                    .unfinished = (uint64_t)nm_mail_column_int(stmt, 5),
                    .quota = {.rows = (uint64_t)nm_mail_column_int(stmt, 6),
                              .bytes = (uint64_t)nm_mail_column_int(stmt, 7)}};
  nm_mail_column_fixed(stmt, 1, box->mailbox.b, sizeof(box->mailbox.b));
}

int nm_mail_store_boxes(nm_mail_store *store, int64_t *cursor,
                        nm_mail_box *boxes, size_t max, size_t *count) {
  static const char sql[] =
      "SELECT box, hash, rows, bytes, unread, unfinished, quota_rows,"
      " quota_bytes FROM mailbox WHERE box > ? ORDER BY box LIMIT ?";
  return list_on(store, sql, fill_box, boxes, max, count, cursor);
}

/* ---- conversations ---- */

int nm_mail_store_talks(nm_mail_store *store,
                        const nm_destination_hash *mailbox, int64_t before,
                        nm_mail_talk *talks, size_t max, size_t *count) {
  static const char sql[] =
      "SELECT b.hash, t.peer, t.count, t.unread, t.last_row, t.last_us"
      " FROM talk t CROSS JOIN mailbox b ON b.box = t.box"
      " WHERE t.last_row < ?1 AND (?2 IS NULL OR b.hash = ?2)"
      " ORDER BY t.last_row DESC LIMIT ?3";
  *count = 0;
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, before != 0 ? before : INT64_MAX);
  if (mailbox != NULL) {
    nm_mail_bind_bytes(&stmt, hash_of(mailbox));
  } else {
    nm_mail_bind_null(&stmt);
  }
  nm_mail_bind_int(&stmt, (int64_t)max);
  while (*count < max && nm_mail_step(&stmt) > 0) {
    nm_mail_talk *talk = &talks[(*count)++];
    *talk = (nm_mail_talk){.count = (uint64_t)nm_mail_column_int(&stmt, 2),
                           .unread = (uint64_t)nm_mail_column_int(&stmt, 3),
                           .last_row = nm_mail_column_int(&stmt, 4),
                           .last_us = nm_mail_column_int(&stmt, 5)};
    nm_mail_column_fixed(&stmt, 0, talk->mailbox.b, sizeof(talk->mailbox.b));
    nm_mail_column_fixed(&stmt, 1, talk->peer.b, sizeof(talk->peer.b));
  }
  status = nm_mail_end(&stmt);
  *count = status == NM_OK ? *count : 0;
  return status;
}

/* ---- attachments ---- */

static void fill_attachment(nm_mail_stmt *stmt, nm_mail_attachment *out) {
  *out =
      (nm_mail_attachment){.row = nm_mail_column_int(stmt, 0),
                           .index = (uint32_t)nm_mail_column_int(stmt, 1),
                           .field = (nm_lxmf_field)nm_mail_column_int(stmt, 2),
                           .audio_mode = (uint32_t)nm_mail_column_int(stmt, 4),
                           .size = (uint64_t)nm_mail_column_int(stmt, 5)};
  nm_span name = nm_mail_column_bytes(stmt, 3);
  size_t len = name.len < sizeof(out->name) ? name.len : sizeof(out->name) - 1;
  if (len > 0) {
    memcpy(out->name, name.ptr, len);
  }
}

/* The row of the cursor itself is looked at again when there may be more of
 * its attachments. */
int nm_mail_store_attachments(nm_mail_store *store, const nm_mail_query *query,
                              int64_t after_index,
                              nm_mail_attachment *attachments, size_t max,
                              size_t *count) {
  char sql[1536];
  nm_mail_filter filter;
  nm_mail_query from = *query;
  bool within = query->cursor != 0 && after_index >= 0;
  *count = 0;
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  if (within) {
    from.cursor += query->newest_first ? 1 : -1;
  }
  nm_mail_filter_init(&filter, &from);
  (void)snprintf(
      sql, sizeof(sql),
      "SELECT a.row, a.place, a.field, a.name, a.audio_mode, a.size"
      " FROM attachment a CROSS JOIN message m ON m.row = a.row %s"
      " %s (a.row <> ? OR a.place > ?) ORDER BY a.row%s, a.place LIMIT ?",
      filter.where, filter.where[0] != '\0' ? "AND" : "WHERE",
      query->newest_first ? " DESC" : "");
  nm_mail_stmt stmt = nm_mail_prepare(store, sql);
  nm_mail_filter_bind(&filter, &stmt);
  nm_mail_bind_int(&stmt, within ? query->cursor : -1);
  nm_mail_bind_int(&stmt, after_index);
  nm_mail_bind_int(&stmt, (int64_t)max);
  while (*count < max && nm_mail_step(&stmt) > 0) {
    fill_attachment(&stmt, &attachments[(*count)++]);
  }
  status = nm_mail_end(&stmt);
  *count = status == NM_OK ? *count : 0;
  return status;
}

typedef struct extent {
  int64_t start;
  int64_t size;
  int64_t stored;
  int64_t inflated;
} extent;

static int find_extent(nm_mail_store *store, int64_t row, uint32_t index,
                       extent *e) {
  static const char sql[] =
      "SELECT a.start, a.size, length(y.packed), y.inflated FROM attachment a"
      " CROSS JOIN body y ON y.row = a.row WHERE a.row = ? AND a.place = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  nm_mail_bind_int(&stmt, index);
  int found = nm_mail_step(&stmt);
  if (found > 0) {
    *e = (extent){nm_mail_column_int(&stmt, 0), nm_mail_column_int(&stmt, 1),
                  nm_mail_column_int(&stmt, 2), nm_mail_column_int(&stmt, 3)};
  }
  int status = nm_mail_end(&stmt);
  if (status != NM_OK || found == 0) {
    return status != NM_OK ? status : NM_E(MISSING);
  }
  int64_t whole = e->inflated != 0 ? e->inflated : e->stored;
  return e->start >= 0 && e->size >= 0 && e->start <= whole &&
                 e->size <= whole - e->start
             ? NM_OK
             : nm_mail_damaged(store, "an attachment lies outside its message");
}

/* Only the pages that hold it are read. */
static int read_part(nm_mail_store *store, int64_t row, const extent *e,
                     nm_block *bytes) {
  sqlite3_blob *blob = NULL;
  int code =
      sqlite3_blob_open(store->db, "main", "body", "packed", row, 0, &blob);
  if (code == SQLITE_OK && e->size > 0) {
    code = sqlite3_blob_read(blob, nm_block_bytes(bytes), (int)e->size,
                             (int)e->start);
  }
  int status = code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
  (void)sqlite3_blob_close(blob);
  return status;
}

static int inflate_part(nm_mail_store *store, int64_t row, const extent *e,
                        nm_block *bytes) {
  nm_mail_row whole;
  int status = nm_mail_store_get(store, row, true, &whole);
  if (status != NM_OK) {
    return status;
  }
  nm_span part = nm_span_slice(nm_block_span(whole.packed), (size_t)e->start,
                               (size_t)e->size);
  if (part.len > 0) {
    memcpy(nm_block_bytes(bytes), part.ptr, part.len);
  }
  nm_mail_row_dispose(&whole);
  return NM_OK;
}

int nm_mail_store_attachment(nm_mail_store *store, int64_t row, uint32_t index,
                             nm_block **out) {
  extent e = {0};
  *out = NULL;
  int status = nm_mail_ready(store);
  status = status == NM_OK ? find_extent(store, row, index, &e) : status;
  if (status != NM_OK) {
    return status;
  }
  nm_block *bytes = nm_block_new(store->mem, (size_t)e.size);
  if (bytes == NULL) {
    return nm_mail_fail(store, NM_E(MEMORY), "out of memory");
  }
  status = e.inflated == 0 ? read_part(store, row, &e, bytes)
                           : inflate_part(store, row, &e, bytes);
  if (status != NM_OK) {
    nm_block_drop(bytes);
    return status;
  }
  *out = bytes;
  return NM_OK;
}
