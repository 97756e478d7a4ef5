/* Figures of a store, and whether it is what it should be. */
#include "io/mail_db.h"

#include <string.h>

int nm_mail_store_figures(nm_mail_store *store, nm_mail_figures *figures) {
  static const char sums[] =
      "SELECT total(rows), total(unread), total(unfinished), total(bytes),"
      " total(evicted) FROM mailbox";
  int64_t pages = 0;
  int64_t page_size = 0;
  int64_t unused = 0;
  int64_t layout = 0;
  *figures = (nm_mail_figures){0};
  int status = nm_mail_ready(store);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sums);
  if (nm_mail_step(&stmt) > 0) {
    figures->messages = (uint64_t)nm_mail_column_int(&stmt, 0);
    figures->unread = (uint64_t)nm_mail_column_int(&stmt, 1);
    figures->unfinished = (uint64_t)nm_mail_column_int(&stmt, 2);
    figures->bytes = (uint64_t)nm_mail_column_int(&stmt, 3);
    figures->evicted = (uint64_t)nm_mail_column_int(&stmt, 4);
  }
  status = nm_mail_end(&stmt);
  const struct {
    const char *sql;
    int64_t *number;
  } pragmas[] = {{"PRAGMA page_count", &pages},
                 {"PRAGMA page_size", &page_size},
                 {"PRAGMA freelist_count", &unused},
                 {"PRAGMA user_version", &layout}};
  for (size_t i = 0; i < 4 && status == NM_OK; i++) {
    status = nm_mail_number(store, pragmas[i].sql, 0, pragmas[i].number);
  }
  figures->file_bytes = (uint64_t)(pages * page_size);
  figures->free_bytes = (uint64_t)(unused * page_size);
  figures->layout = (uint32_t)layout;
  return status;
}

/* ---- checking ---- */

static int report_line(nm_mail_store *store, nm_buffer *report, nm_span text) {
  int status = nm_buffer_append(report, text.ptr, text.len);
  status = status == NM_OK ? nm_buffer_append(report, "\n", 1) : status;
  return status == NM_OK ? NM_OK
                         : nm_mail_fail(store, NM_E(MEMORY), "out of memory");
}

/* Each row that |sql| gives is a finding, but "ok". */
static int gather(nm_mail_store *store, const char *sql, nm_buffer *report) {
  nm_mail_stmt stmt = nm_mail_prepare(store, sql);
  int status = NM_OK;
  while (status == NM_OK && nm_mail_step(&stmt) > 0) {
    nm_span text = nm_mail_column_bytes(&stmt, 0);
    if (!nm_span_equal(text, nm_span_of("ok", 2))) {
      status = report_line(store, report, text);
    }
  }
  int ended = nm_mail_end(&stmt);
  return status != NM_OK ? status : ended;
}

static const char *const checks[] = {
    "PRAGMA integrity_check(100)",
    "SELECT 'a row of ' || \"table\" || ' belongs to nothing'"
    " FROM pragma_foreign_key_check LIMIT 100",
    "SELECT 'message ' || row || ' has no body' FROM message"
    " WHERE row NOT IN (SELECT row FROM body) LIMIT 100",
    "SELECT 'unfinished message ' || row || ' has no plan' FROM message"
    " WHERE outgoing = 1 AND open = 1 AND row NOT IN (SELECT row FROM letter)"
    " LIMIT 100",
    "SELECT 'the counts of mailbox ' || hex(b.hash) || ' are wrong'"
    " FROM mailbox b WHERE (rows, bytes, unread, unfinished) IS NOT"
    " (SELECT count(*), coalesce(sum(stored), 0),"
    "  coalesce(sum(open AND NOT outgoing), 0),"
    "  coalesce(sum(open AND outgoing), 0)"
    "  FROM message m WHERE m.box = b.box) LIMIT 100",
    "SELECT 'the counts of the conversation with ' || hex(t.peer) ||"
    " ' are wrong' FROM talk t WHERE (t.count, t.unread, t.last_row) IS NOT"
    " (SELECT count(*), coalesce(sum(open AND NOT outgoing), 0), max(row)"
    "  FROM message m WHERE m.talk = t.talk) LIMIT 100",
};

/* Compares the index of words with all texts. It is asked by a write, which
 * changes nothing. */
static int check_words(nm_mail_store *store, nm_buffer *report) {
  static const char line[] = "the index of words does not match the messages";
  if (store->read_only) {
    return NM_OK;
  }
  int status = nm_mail_exec(
      store,
      "INSERT INTO found_text (found_text, rank) VALUES ('integrity-check', "
      "1)");
  return status != NM_OK && store->trouble.damaged
             ? report_line(store, report, nm_span_of(line, sizeof(line) - 1))
             : status;
}

int nm_mail_store_check(nm_mail_store *store, nm_buffer *report) {
  size_t before = report->len;
  int status = nm_mail_ready(store);
  for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == NM_OK;
       i++) {
    status = gather(store, checks[i], report);
  }
  status = status == NM_OK ? check_words(store, report) : status;
  if (status != NM_OK && store->trouble.damaged) {
    const char *text = store->trouble.text;
    (void)report_line(store, report, nm_span_of(text, strlen(text)));
    return NM_E(STORE);
  }
  return status == NM_OK && report->len > before
             ? nm_mail_damaged(store, "a check found errors")
             : status;
}
