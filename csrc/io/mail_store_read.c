/* Reading messages: by row, by id, in order, and the unfinished ones. */
#include "io/mail_db.h"

#include <stdio.h>
#include <string.h>

static nm_span hash_of(const nm_destination_hash *hash) {
  return nm_span_of(hash->b, sizeof(hash->b));
}

/* ---- a row ---- */

void nm_mail_row_dispose(nm_mail_row *row) {
  nm_block_drop(row->packed);
  memset(row, 0, sizeof(*row));
}

static int16_t measured(const nm_mail_stmt *stmt, int column) {
  return nm_mail_column_null(stmt, column)
             ? INT16_MIN
             : (int16_t)nm_mail_column_int(stmt, column);
}

static void fill_received(nm_mail_stmt *stmt, nm_mail_received *r) {
  r->unverified = (nm_lxmf_unverified)nm_mail_column_int(stmt, 11);
  r->stamp_checked = nm_mail_column_int(stmt, 12) != 0;
  r->stamp_valid = nm_mail_column_int(stmt, 13) != 0;
  r->stamp_value = (uint32_t)nm_mail_column_int(stmt, 14);
  r->has_transient_id = !nm_mail_column_null(stmt, 15);
  if (r->has_transient_id) {
    nm_mail_column_fixed(stmt, 15, r->transient_id, sizeof(r->transient_id));
  }
  r->rssi_dbm = measured(stmt, 16);
  r->snr_cdb = measured(stmt, 17);
  r->quality_pct = measured(stmt, 18);
}

int nm_mail_fill(nm_mail_stmt *stmt, nm_mail_row *row) {
  *row = (nm_mail_row){.row = nm_mail_column_int(stmt, 0),
                       .outgoing = nm_mail_column_int(stmt, 4) != 0,
                       .open = nm_mail_column_int(stmt, 5) != 0,
                       .stored_us = nm_mail_column_int(stmt, 6),
                       .timestamp = nm_mail_column_real(stmt, 7),
                       .size = (uint32_t)nm_mail_column_int(stmt, 8)};
  nm_mail_column_fixed(stmt, 1, row->mailbox.b, sizeof(row->mailbox.b));
  nm_mail_column_fixed(stmt, 2, row->peer.b, sizeof(row->peer.b));
  nm_mail_column_fixed(stmt, 3, row->id, sizeof(row->id));
  nm_mail_progress *p = &row->state;
  p->method = (nm_lxmf_method)nm_mail_column_int(stmt, 9);
  p->representation = (nm_lxmf_representation)nm_mail_column_int(stmt, 10);
  row->received.method = p->method;
  row->received.representation = p->representation;
  fill_received(stmt, &row->received);
  if (row->outgoing) {
    p->state = (nm_lxmf_state)nm_mail_column_int(stmt, 19);
    p->stage = (nm_stage)nm_mail_column_int(stmt, 20);
    p->attempts = (uint32_t)nm_mail_column_int(stmt, 21);
    p->rtt_us = (uint64_t)nm_mail_column_int(stmt, 22);
    p->final = !row->open;
  }
  return stmt->status;
}

/* The body's two columns come after the row's. */
static int fill_whole(nm_mail_stmt *stmt, bool body, nm_mail_row *row) {
  int status = nm_mail_fill(stmt, row);
  if (status == NM_OK && body) {
    status = nm_mail_body_unpack(
        stmt->store, nm_mail_column_bytes(stmt, NM_MAIL_COLUMN_COUNT + 1),
        nm_mail_column_int(stmt, NM_MAIL_COLUMN_COUNT), &row->packed);
  }
  if (status != NM_OK) {
    nm_mail_row_dispose(row);
  }
  return status;
}

#define SELECT_ROW "SELECT " NM_MAIL_COLUMNS " FROM message m " NM_MAIL_JOINS
#define SELECT_WHOLE                                                           \
  "SELECT " NM_MAIL_COLUMNS                                                    \
  ", y.inflated, y.packed FROM message m " NM_MAIL_JOINS                       \
  "CROSS JOIN body y ON y.row = m.row "

static int take_one(nm_mail_stmt *stmt, bool body, nm_mail_row *out) {
  int found = nm_mail_step(stmt);
  int status = found > 0 ? fill_whole(stmt, body, out) : found;
  int ended = nm_mail_end(stmt);
  if (ended != NM_OK || status != NM_OK) {
    return status != NM_OK ? status : ended;
  }
  return found > 0 ? NM_OK : NM_E(MISSING);
}

int nm_mail_store_get(nm_mail_store *store, int64_t row, bool body,
                      nm_mail_row *out) {
  static const char plain[] = SELECT_ROW "WHERE m.row = ?";
  static const char whole[] = SELECT_WHOLE "WHERE m.row = ?";
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, body ? whole : plain);
  nm_mail_bind_int(&stmt, row);
  return take_one(&stmt, body, out);
}

int nm_mail_store_find(nm_mail_store *store, const nm_destination_hash *mailbox,
                       const uint8_t id[NM_HASH_SIZE], bool body,
                       nm_mail_row *out) {
#define WHERE_ID                                                               \
  "WHERE m.id = ?1 AND (?2 IS NULL OR b.hash = ?2)"                            \
  " ORDER BY m.outgoing, m.row LIMIT 1"
  static const char plain[] = SELECT_ROW WHERE_ID;
  static const char whole[] = SELECT_WHOLE WHERE_ID;
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, body ? whole : plain);
  nm_mail_bind_bytes(&stmt, nm_span_of(id, NM_HASH_SIZE));
  if (mailbox != NULL) {
    nm_mail_bind_bytes(&stmt, hash_of(mailbox));
  } else {
    nm_mail_bind_null(&stmt);
  }
  return take_one(&stmt, body, out);
}

/* ---- lists ---- */

static void also(nm_mail_filter *filter, const char *condition) {
  size_t len = strlen(filter->where);
  (void)snprintf(&filter->where[len], sizeof(filter->where) - len, " %s %s",
                 len == 0 ? "WHERE" : "AND", condition);
}

void nm_mail_filter_init(nm_mail_filter *filter, const nm_mail_query *query) {
  *filter = (nm_mail_filter){.query = query};
  if (query->mailbox != NULL && query->peer != NULL) {
    also(filter, "m.talk = (SELECT k.talk FROM talk k JOIN mailbox o"
                 " ON o.box = k.box WHERE o.hash = ? AND k.peer = ?)");
  } else if (query->mailbox != NULL) {
    also(filter, "m.box = (SELECT o.box FROM mailbox o WHERE o.hash = ?)");
  } else if (query->peer != NULL) {
    also(filter, "m.talk IN (SELECT k.talk FROM talk k WHERE k.peer = ?)");
  }
  if (query->direction != NM_MAIL_BOTH) {
    also(filter, query->direction == NM_MAIL_OUTGOING ? "m.outgoing = 1"
                                                      : "m.outgoing = 0");
  }
  if (query->open) {
    also(filter, "m.open = 1");
  }
  if (query->cursor != 0) {
    also(filter, query->newest_first ? "m.row < ?" : "m.row > ?");
  }
  if (query->since_us != 0) {
    also(filter, "m.stored_us >= ?");
  }
  if (query->until_us != 0) {
    also(filter, "m.stored_us < ?");
  }
}

void nm_mail_filter_bind(const nm_mail_filter *filter, nm_mail_stmt *stmt) {
  const nm_mail_query *query = filter->query;
  if (query->mailbox != NULL) {
    nm_mail_bind_bytes(stmt, hash_of(query->mailbox));
  }
  if (query->peer != NULL) {
    nm_mail_bind_bytes(stmt, hash_of(query->peer));
  }
  const int64_t numbers[] = {query->cursor, query->since_us, query->until_us};
  for (size_t i = 0; i < 3; i++) {
    if (numbers[i] != 0) {
      nm_mail_bind_int(stmt, numbers[i]);
    }
  }
}

int nm_mail_store_list(nm_mail_store *store, const nm_mail_query *query,
                       nm_mail_row *rows, size_t max, size_t *count) {
  char sql[1536];
  nm_mail_filter filter;
  *count = 0;
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_filter_init(&filter, query);
  (void)snprintf(sql, sizeof(sql), "%s%s ORDER BY m.row%s LIMIT ?",
                 query->bodies ? SELECT_WHOLE : SELECT_ROW, filter.where,
                 query->newest_first ? " DESC" : "");
  nm_mail_stmt stmt = nm_mail_prepare(store, sql);
  nm_mail_filter_bind(&filter, &stmt);
  nm_mail_bind_int(&stmt, (int64_t)max);
  while (*count < max && nm_mail_step(&stmt) > 0) {
    status = fill_whole(&stmt, query->bodies, &rows[*count]);
    if (status != NM_OK) {
      break;
    }
    (*count)++;
  }
  int ended = nm_mail_end(&stmt);
  status = status != NM_OK ? status : ended;
  while (status != NM_OK && *count > 0) {
    nm_mail_row_dispose(&rows[--*count]);
  }
  return status;
}

/* ---- unfinished letters ---- */

void nm_mail_letter_dispose(nm_mail_letter *letter) {
  nm_block_drop(letter->packed);
  nm_block_drop(letter->sealed);
  memset(letter, 0, sizeof(*letter));
}

static int fill_policy(nm_mail_stmt *stmt, nm_policy *policy) {
  nm_reader in = nm_reader_of(nm_mail_column_bytes(stmt, 4));
  policy->retry_wait_us = nm_reader_u64(&in);
  for (policy->count = 0;
       policy->count < NM_POLICY_STEPS && nm_reader_left(&in) > 0;
       policy->count++) {
    nm_policy_step *step = &policy->steps[policy->count];
    step->method = (nm_lxmf_method)nm_reader_u8(&in);
    step->attempts = nm_reader_u32(&in);
    step->budget_us = nm_reader_u64(&in);
  }
  return in.status == NM_OK && policy->count > 0 && nm_reader_left(&in) == 0
             ? NM_OK
             : nm_mail_damaged(stmt->store, "a policy has a wrong length");
}

static int fill_letter(nm_mail_stmt *stmt, nm_mail_letter *letter) {
  *letter = (nm_mail_letter){.row = nm_mail_column_int(stmt, 0),
                             .stored_us = nm_mail_column_int(stmt, 3)};
  nm_mail_column_fixed(stmt, 1, letter->mailbox.b, sizeof(letter->mailbox.b));
  nm_mail_column_fixed(stmt, 2, letter->id, sizeof(letter->id));
  nm_mail_plan *plan = &letter->plan;
  plan->bare = nm_mail_column_int(stmt, 12) != 0;
  plan->stamp_cost = (uint32_t)nm_mail_column_int(stmt, 5);
  plan->stamp_auto = nm_mail_column_int(stmt, 6) != 0;
  plan->carries_ticket = nm_mail_column_int(stmt, 7) != 0;
  plan->deadline_us = nm_mail_column_int(stmt, 8);
  int status = stmt->status;
  status = status == NM_OK ? fill_policy(stmt, &plan->policy) : status;
  if (status == NM_OK) {
    status = nm_mail_body_unpack(stmt->store, nm_mail_column_bytes(stmt, 11),
                                 nm_mail_column_int(stmt, 10), &letter->packed);
  }
  if (status == NM_OK && !nm_mail_column_null(stmt, 9)) {
    letter->sealed =
        nm_block_copy(stmt->store->mem, nm_mail_column_bytes(stmt, 9));
    if (letter->sealed == NULL) {
      status = nm_mail_fail(stmt->store, NM_E(MEMORY), "out of memory");
    }
  }
  if (status != NM_OK) {
    nm_mail_letter_dispose(letter);
  }
  return status;
}

int nm_mail_store_letters(nm_mail_store *store,
                          const nm_destination_hash *mailbox, int64_t after,
                          nm_mail_letter *letters, size_t max, size_t *count) {
  static const char sql[] =
      "SELECT m.row, b.hash, m.id, m.stored_us, l.policy, l.stamp_cost,"
      " l.stamp_auto, l.carries_ticket, l.deadline_us, l.sealed, y.inflated,"
      " y.packed, l.bare FROM letter l CROSS JOIN message m ON m.row = l.row"
      " CROSS JOIN mailbox b ON b.box = m.box"
      " CROSS JOIN body y ON y.row = m.row"
      " WHERE l.row > ?1 AND (?2 IS NULL OR b.hash = ?2)"
      " ORDER BY l.row LIMIT ?3";
  *count = 0;
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, after);
  if (mailbox != NULL) {
    nm_mail_bind_bytes(&stmt, hash_of(mailbox));
  } else {
    nm_mail_bind_null(&stmt);
  }
  nm_mail_bind_int(&stmt, (int64_t)max);
  while (*count < max && nm_mail_step(&stmt) > 0) {
    status = fill_letter(&stmt, &letters[*count]);
    if (status != NM_OK) {
      break;
    }
    (*count)++;
  }
  int ended = nm_mail_end(&stmt);
  status = status != NM_OK ? status : ended;
  while (status != NM_OK && *count > 0) {
    nm_mail_letter_dispose(&letters[--*count]);
  }
  return status;
}
