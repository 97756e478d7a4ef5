/* Mailboxes as places with a limit, and what has to go for it. */
#include "io/mail_db.h"

#include <string.h>

/* ---- places ---- */

int nm_mail_place_find(nm_mail_store *store, const nm_destination_hash *hash,
                       nm_mail_place *place) {
  static const char sql[] =
      "SELECT box, quota_rows, quota_bytes, rows, bytes FROM mailbox "
      "WHERE hash = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, nm_span_of(hash->b, sizeof(hash->b)));
  int found = nm_mail_step(&stmt);
  if (found > 0) {
    place->box = nm_mail_column_int(&stmt, 0);
    place->quota.rows = (uint64_t)nm_mail_column_int(&stmt, 1);
    place->quota.bytes = (uint64_t)nm_mail_column_int(&stmt, 2);
    place->rows = (uint64_t)nm_mail_column_int(&stmt, 3);
    place->bytes = (uint64_t)nm_mail_column_int(&stmt, 4);
  }
  int status = nm_mail_end(&stmt);
  return status != NM_OK ? status : found > 0 ? NM_OK : NM_E(MISSING);
}

int nm_mail_place_of(nm_mail_store *store, const nm_destination_hash *hash,
                     nm_mail_place *place) {
  static const char sql[] = "INSERT INTO mailbox (hash) VALUES (?)";
  int status = nm_mail_place_find(store, hash, place);
  if (status != NM_E(MISSING)) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, nm_span_of(hash->b, sizeof(hash->b)));
  status = nm_mail_run(&stmt);
  *place = (nm_mail_place){.box = sqlite3_last_insert_rowid(store->db)};
  return status;
}

/* ---- removing ---- */

int nm_mail_remember(nm_mail_store *store, const uint8_t id[NM_HASH_SIZE],
                     int64_t at_us) {
  static const char sql[] =
      "INSERT INTO seen (id, at_us) VALUES (?, ?) ON CONFLICT DO NOTHING";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, nm_span_of(id, NM_HASH_SIZE));
  nm_mail_bind_int(&stmt, at_us);
  store->forgets = true;
  return nm_mail_run(&stmt);
}

typedef struct victim {
  int64_t row;
  int64_t box;
  int64_t talk;
  int64_t stored;
  int64_t stored_us;
  bool outgoing;
  bool open;
  uint8_t id[NM_HASH_SIZE];
} victim;

static int find_victim(nm_mail_store *store, int64_t row, victim *v) {
  static const char sql[] = "SELECT box, talk, stored, stored_us, outgoing,"
                            " open, id FROM message WHERE row = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  int found = nm_mail_step(&stmt);
  if (found > 0) {
    v->row = row;
    v->box = nm_mail_column_int(&stmt, 0);
    v->talk = nm_mail_column_int(&stmt, 1);
    v->stored = nm_mail_column_int(&stmt, 2);
    v->stored_us = nm_mail_column_int(&stmt, 3);
    v->outgoing = nm_mail_column_int(&stmt, 4) != 0;
    v->open = nm_mail_column_int(&stmt, 5) != 0;
    nm_mail_column_fixed(&stmt, 6, v->id, sizeof(v->id));
  }
  int status = nm_mail_end(&stmt);
  return status != NM_OK ? status : found > 0 ? NM_OK : NM_E(MISSING);
}

static int run_row(nm_mail_store *store, const char *sql, int64_t row) {
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  return nm_mail_run(&stmt);
}

static int count_down(nm_mail_store *store, const victim *v) {
  static const char box[] = "UPDATE mailbox SET rows = rows - 1,"
                            " bytes = bytes - ?, unread = unread - ?"
                            " WHERE box = ?";
  static const char talk[] =
      "UPDATE talk SET count = count - 1, unread = unread - ?1, last_row ="
      " (SELECT coalesce(max(row), 0) FROM message WHERE talk = ?2),"
      " last_us = (SELECT coalesce((SELECT stored_us FROM message"
      "  WHERE talk = ?2 ORDER BY row DESC LIMIT 1), 0)) WHERE talk = ?2";
  static const char empty[] = "DELETE FROM talk WHERE talk = ? AND count = 0";
  nm_mail_stmt stmt = nm_mail_use(store, box);
  nm_mail_bind_int(&stmt, v->stored);
  nm_mail_bind_int(&stmt, v->open);
  nm_mail_bind_int(&stmt, v->box);
  int status = nm_mail_run(&stmt);
  if (status != NM_OK) {
    return status;
  }
  stmt = nm_mail_use(store, talk);
  nm_mail_bind_int(&stmt, v->open);
  nm_mail_bind_int(&stmt, v->talk);
  status = nm_mail_run(&stmt);
  return status == NM_OK ? run_row(store, empty, v->talk) : status;
}

/* What the index of words holds of it has to be told while its text is there.
 */
int nm_mail_remove(nm_mail_store *store, int64_t row) {
  static const char unfind[] =
      "INSERT INTO found_text (found_text, rowid, box, title, content)"
      " SELECT 'delete', row, box, title, content FROM letter_text"
      " WHERE row = ?";
  static const char drop[] = "DELETE FROM message WHERE row = ?";
  victim v;
  int status = find_victim(store, row, &v);
  if (status == NM_OK && v.outgoing && v.open) {
    return NM_E(STATE);
  }
  status = status == NM_OK ? run_row(store, unfind, row) : status;
  status = status == NM_OK ? run_row(store, drop, row) : status;
  status = status == NM_OK ? count_down(store, &v) : status;
  if (status == NM_OK && !v.outgoing) {
    status = nm_mail_remember(store, v.id, v.stored_us);
  }
  return status;
}

/* ---- room ---- */

typedef struct need {
  uint64_t rows;
  uint64_t bytes;
} need;

static uint64_t above(uint64_t value, uint64_t limit) {
  return limit != 0 && value > limit ? value - limit : 0;
}

/* The oldest that may go, until enough is gathered. */
static int choose(nm_mail_store *store, const nm_mail_place *place, need most,
                  int64_t except, nm_buffer *victims) {
  static const char sql[] = "SELECT row, stored FROM message WHERE box = ?"
                            " AND open = 0 AND row <> ? ORDER BY row";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, place->box);
  nm_mail_bind_int(&stmt, except);
  need got = {0};
  int status = NM_OK;
  while (status == NM_OK && (got.rows < most.rows || got.bytes < most.bytes)) {
    int found = nm_mail_step(&stmt);
    if (found <= 0) {
      status = found < 0 ? found : NM_E(LIMIT);
      break;
    }
    int64_t row = nm_mail_column_int(&stmt, 0);
    got.rows++;
    got.bytes += (uint64_t)nm_mail_column_int(&stmt, 1);
    status = nm_buffer_append(victims, &row, sizeof(row));
    if (status != NM_OK) {
      status = nm_mail_fail(store, NM_E(MEMORY), "out of memory");
    }
  }
  int ended = nm_mail_end(&stmt);
  return ended != NM_OK ? ended : status;
}

static int evict(nm_mail_store *store, const nm_mail_place *place,
                 const nm_buffer *victims) {
  static const char sql[] =
      "UPDATE mailbox SET evicted = evicted + ? WHERE box = ?";
  size_t count = victims->len / sizeof(int64_t);
  int status = NM_OK;
  for (size_t i = 0; i < count && status == NM_OK; i++) {
    int64_t row;
    memcpy(&row, &victims->ptr[i * sizeof(row)], sizeof(row));
    status = nm_mail_remove(store, row);
  }
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, (int64_t)count);
  nm_mail_bind_int(&stmt, place->box);
  return nm_mail_run(&stmt);
}

int nm_mail_make_room(nm_mail_store *store, const nm_mail_place *place,
                      uint64_t rows, uint64_t bytes, int64_t except) {
  need most = {above(place->rows + rows, place->quota.rows),
               above(place->bytes + bytes, place->quota.bytes)};
  if (most.rows == 0 && most.bytes == 0) {
    return NM_OK;
  }
  if (above(rows, place->quota.rows) != 0 ||
      above(bytes, place->quota.bytes) != 0) {
    return NM_E(LIMIT); /* not even when all others are gone */
  }
  int64_t room[64];
  nm_buffer victims;
  nm_buffer_init(&victims, store->mem, room, sizeof(room), 0);
  int status = choose(store, place, most, except, &victims);
  status = status == NM_OK ? evict(store, place, &victims) : status;
  nm_buffer_dispose(&victims);
  return status;
}
