/* The tables, and how an older file comes to have them. */
#include "io/mail_db.h"

#include <stdio.h>

/* Version 1. Counts in mailbox and talk are kept with every write, so that
 * overviews read no messages. `open`: not yet acknowledged, or not yet
 * finished. The text that is searched is not stored twice: letter_text takes it
 * out of the bodies. `box` in found_text narrows a search to one mailbox. */
static const char version_1[] =
    "CREATE TABLE mailbox ("
    " box INTEGER PRIMARY KEY,"
    " hash BLOB NOT NULL UNIQUE,"
    " rows INTEGER NOT NULL DEFAULT 0,"
    " bytes INTEGER NOT NULL DEFAULT 0,"
    " unread INTEGER NOT NULL DEFAULT 0,"
    " unfinished INTEGER NOT NULL DEFAULT 0,"
    " quota_rows INTEGER NOT NULL DEFAULT 0,"
    " quota_bytes INTEGER NOT NULL DEFAULT 0,"
    " evicted INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE talk ("
    " talk INTEGER PRIMARY KEY,"
    " box INTEGER NOT NULL REFERENCES mailbox,"
    " peer BLOB NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0,"
    " unread INTEGER NOT NULL DEFAULT 0,"
    " last_row INTEGER NOT NULL DEFAULT 0,"
    " last_us INTEGER NOT NULL DEFAULT 0,"
    " UNIQUE (box, peer));"
    "CREATE TABLE message ("
    " row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " box INTEGER NOT NULL REFERENCES mailbox,"
    " talk INTEGER NOT NULL REFERENCES talk,"
    " outgoing INTEGER NOT NULL,"
    " open INTEGER NOT NULL,"
    " id BLOB NOT NULL,"
    " stored_us INTEGER NOT NULL,"
    " timestamp REAL NOT NULL,"
    " size INTEGER NOT NULL,"
    " stored INTEGER NOT NULL,"
    " method INTEGER NOT NULL,"
    " representation INTEGER NOT NULL,"
    " unverified INTEGER,"
    " stamp_checked INTEGER,"
    " stamp_valid INTEGER,"
    " stamp_value INTEGER,"
    " transient_id BLOB,"
    " rssi INTEGER,"
    " snr INTEGER,"
    " quality INTEGER,"
    " state INTEGER,"
    " stage INTEGER,"
    " attempts INTEGER,"
    " rtt_us INTEGER);"
    "CREATE UNIQUE INDEX message_id ON message (id, box, outgoing);"
    "CREATE INDEX message_box ON message (box);"
    "CREATE INDEX message_open ON message (box, open);"
    "CREATE INDEX message_talk ON message (talk);"
    "CREATE TABLE body ("
    " row INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,"
    " inflated INTEGER NOT NULL,"
    " packed BLOB NOT NULL);"
    "CREATE TABLE letter ("
    " row INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,"
    " policy BLOB NOT NULL,"
    " bare INTEGER NOT NULL,"
    " stamp_cost INTEGER NOT NULL,"
    " stamp_auto INTEGER NOT NULL,"
    " carries_ticket INTEGER NOT NULL,"
    " deadline_us INTEGER NOT NULL,"
    " sealed BLOB);"
    "CREATE TABLE attachment ("
    " row INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,"
    " place INTEGER NOT NULL,"
    " field INTEGER NOT NULL,"
    " name BLOB NOT NULL,"
    " audio_mode INTEGER NOT NULL,"
    " start INTEGER NOT NULL,"
    " size INTEGER NOT NULL,"
    " PRIMARY KEY (row, place)) WITHOUT ROWID;"
    "CREATE TABLE ticket ("
    " number INTEGER PRIMARY KEY,"
    " peer BLOB NOT NULL,"
    " issued INTEGER NOT NULL,"
    " ticket BLOB NOT NULL,"
    " expires REAL NOT NULL,"
    " UNIQUE (peer, issued, ticket));"
    "CREATE INDEX ticket_expires ON ticket (expires);"
    "CREATE TABLE ticket_delivery ("
    " number INTEGER PRIMARY KEY,"
    " peer BLOB NOT NULL UNIQUE,"
    " at REAL NOT NULL);"
    "CREATE INDEX ticket_delivery_at ON ticket_delivery (at);"
    "CREATE TABLE seen ("
    " number INTEGER PRIMARY KEY,"
    " id BLOB NOT NULL UNIQUE,"
    " at_us INTEGER NOT NULL);"
    "CREATE TABLE ignored ("
    " number INTEGER PRIMARY KEY,"
    " source BLOB NOT NULL UNIQUE);"
    "CREATE VIEW letter_text AS SELECT m.row AS row, 'b' || m.box AS box,"
    " nm_mail_text(y.packed, y.inflated, 0) AS title,"
    " nm_mail_text(y.packed, y.inflated, 1) AS content"
    " FROM message m JOIN body y ON y.row = m.row;"
    "CREATE VIRTUAL TABLE found_text USING fts5 (box, title, content,"
    " content = 'letter_text', content_rowid = 'row', columnsize = 0,"
    " tokenize = 'unicode61 remove_diacritics 2');"
    /* "nmML": the file is one of these. */
    "PRAGMA application_id = 1852656972;";

const char *const nm_mail_layout[] = {version_1};
const uint32_t nm_mail_layout_count =
    sizeof(nm_mail_layout) / sizeof(nm_mail_layout[0]);

#define APPLICATION_ID 1852656972

/* Whether the file is ours, or empty. */
static int check_mark(nm_mail_store *store, int64_t version) {
  int64_t owner = 0;
  int64_t tables = 0;
  int status = nm_mail_number(store, "PRAGMA application_id", 0, &owner);
  if (status == NM_OK) {
    status =
        nm_mail_number(store, "SELECT count(*) FROM sqlite_master", 0, &tables);
  }
  if (status != NM_OK || owner == APPLICATION_ID) {
    return status;
  }
  return owner == 0 && version == 0 && tables == 0
             ? NM_OK
             : nm_mail_fail(store, NM_E(VALUE),
                            "is the database of another program");
}

static int take_steps(nm_mail_store *store, const char *const *steps,
                      int64_t version, uint32_t count) {
  int status = NM_OK;
  for (; version < (int64_t)count && status == NM_OK; version++) {
    char done[64];
    (void)snprintf(done, sizeof(done), "PRAGMA user_version = %lld",
                   (long long)version + 1);
    status = nm_mail_exec(store, steps[version]);
    status = status == NM_OK ? nm_mail_exec(store, done) : status;
  }
  return status;
}

int nm_mail_check_owner(nm_mail_store *store, uint32_t count,
                        int64_t *version) {
  int status = nm_mail_number(store, "PRAGMA user_version", 0, version);
  if (status == NM_OK) {
    status = check_mark(store, *version);
  }
  if (status == NM_OK && (*version < 0 || *version > (int64_t)count)) {
    return nm_mail_fail(store, NM_E(MODE), "was made by a newer netmesh");
  }
  return status;
}

int nm_mail_migrate(nm_mail_store *store, const char *const *steps,
                    uint32_t count) {
  int64_t version = 0;
  int status = nm_mail_check_owner(store, count, &version);
  if (status != NM_OK || version == (int64_t)count) {
    return status;
  }
  if (store->read_only) {
    return nm_mail_fail(store, NM_E(MODE),
                        "has an older layout and was opened for reading");
  }
  /* Another connection may be about to do the same: looked at again under the
   * lock. */
  status = nm_mail_exec(store, "BEGIN IMMEDIATE");
  if (status != NM_OK) {
    return status;
  }
  status = nm_mail_check_owner(store, count, &version);
  if (status == NM_OK) {
    status = take_steps(store, steps, version, count);
  }
  if (status == NM_OK) {
    status = nm_mail_exec(store, "COMMIT");
  }
  if (status != NM_OK) {
    nm_mail_trouble kept = store->trouble;
    (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    store->trouble = kept;
  }
  return status;
}
