/* Finding words in titles and contents (FTS5). */
#include "io/mail_db.h"

#include "base/msgpack.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 1024
#define WORDS_MAX 64
/* Of a word of which only the beginning is given: all words of one letter are
 * too many to go through. */
#define BEGINNING_MIN 2
#define WORDS_DEFAULT 16
/* A title is shown whole, but for one of more than this many words. */
#define TITLE_WORDS 64

void nm_mail_hit_dispose(nm_mail_hit *hit) {
  nm_mail_row_dispose(&hit->row);
  nm_block_drop(hit->title);
  nm_block_drop(hit->snippet);
  hit->title = NULL;
  hit->snippet = NULL;
}

/* ---- what is asked for, in the language of FTS5 ---- */

static bool is_space(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes a word or a phrase; false at the end. */
static bool take_word(nm_reader *in, nm_span *word, bool *begins) {
  while (nm_reader_left(in) > 0 && is_space(in->base[in->pos])) {
    (void)nm_reader_u8(in);
  }
  *begins = false;
  if (nm_reader_left(in) == 0) {
    return false;
  }
  if (in->base[in->pos] == '"') {
    (void)nm_reader_u8(in);
    *word = nm_reader_until(in, '"');
    if (nm_reader_left(in) > 0) {
      (void)nm_reader_u8(in);
    }
    return true;
  }
  size_t len = 0;
  while (len < nm_reader_left(in) && !is_space(in->base[in->pos + len]) &&
         in->base[in->pos + len] != '"') {
    len++;
  }
  *word = nm_reader_take(in, len);
  if (len > BEGINNING_MIN && word->ptr[len - 1] == '*') {
    *begins = true;
    word->len--;
  }
  return true;
}

static int append_text(nm_buffer *out, const char *text) {
  return nm_buffer_append(out, text, strlen(text));
}

/* Each word as a string, which has no operators in it: box : "b1" AND {title
 * content} : ("first" "second" *) */
static int write_match(const nm_mail_search *search, int64_t box,
                       nm_buffer *out) {
  char narrow[48];
  nm_reader in = nm_reader_of(search->text);
  nm_span word = nm_span_of(NULL, 0);
  bool begins = false;
  int words = 0;
  (void)snprintf(narrow, sizeof(narrow), "box : \"b%lld\" AND ",
                 (long long)box);
  int status = append_text(out, box != 0 ? narrow : "");
  status = status == NM_OK ? append_text(out, "{title content} : (") : status;
  while (status == NM_OK && take_word(&in, &word, &begins)) {
    status = append_text(out, " \"");
    status =
        status == NM_OK ? nm_buffer_append(out, word.ptr, word.len) : status;
    status =
        status == NM_OK ? append_text(out, begins ? "\" *" : "\"") : status;
    words += word.len > 0;
  }
  status = status == NM_OK ? append_text(out, " )") : status;
  return status == NM_OK && words == 0 ? NM_E(EMPTY) : status;
}

static int check_search(const nm_mail_search *search) {
  if (search->text.len > TEXT_MAX) {
    return NM_E(TOO_LARGE);
  }
  if (!nm_utf8_valid(search->text) ||
      (search->text.len > 0 &&
       memchr(search->text.ptr, 0, search->text.len) != NULL)) {
    return NM_E(UTF8);
  }
  return search->words > WORDS_MAX ? NM_E(RANGE) : NM_OK;
}

/* ---- hits ---- */

static int copy_column(nm_mail_stmt *stmt, int column, nm_block **text) {
  *text = nm_block_copy(stmt->store->mem, nm_mail_column_bytes(stmt, column));
  return *text != NULL
             ? NM_OK
             : nm_mail_fail(stmt->store, NM_E(MEMORY), "out of memory");
}

static int fill_hit(nm_mail_stmt *stmt, nm_mail_hit *hit) {
  memset(hit, 0, sizeof(*hit));
  int status = nm_mail_fill(stmt, &hit->row);
  if (status == NM_OK) {
    status = copy_column(stmt, NM_MAIL_COLUMN_COUNT, &hit->title);
  }
  if (status == NM_OK) {
    status = copy_column(stmt, NM_MAIL_COLUMN_COUNT + 1, &hit->snippet);
  }
  if (status != NM_OK) {
    nm_mail_hit_dispose(hit);
  }
  return status;
}

static nm_span text_of(const char *text) {
  return nm_span_of(text, text != NULL ? strlen(text) : 0);
}

static int run_search(nm_mail_store *store, const nm_mail_search *search,
                      nm_span match, nm_mail_hit *hits, size_t max,
                      size_t *count) {
  static const char sql[] =
      "SELECT " NM_MAIL_COLUMNS ","
      " snippet(found_text, 1, ?1, ?2, '\xE2\x80\xA6', ?3),"
      " snippet(found_text, 2, ?1, ?2, '\xE2\x80\xA6', ?4)"
      " FROM found_text CROSS JOIN message m ON m.row = found_text.rowid"
      " " NM_MAIL_JOINS "WHERE found_text MATCH ?5 AND found_text.rowid < ?6"
      " ORDER BY found_text.rowid DESC LIMIT ?7";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_text(&stmt, text_of(search->open_mark));
  nm_mail_bind_text(&stmt, text_of(search->close_mark));
  nm_mail_bind_int(&stmt, TITLE_WORDS);
  nm_mail_bind_int(&stmt, search->words != 0 ? search->words : WORDS_DEFAULT);
  nm_mail_bind_text(&stmt, match);
  nm_mail_bind_int(&stmt, search->before != 0 ? search->before : INT64_MAX);
  nm_mail_bind_int(&stmt, (int64_t)max);
  int status = NM_OK;
  while (*count < max && nm_mail_step(&stmt) > 0) {
    status = fill_hit(&stmt, &hits[*count]);
    if (status != NM_OK) {
      break;
    }
    (*count)++;
  }
  int ended = nm_mail_end(&stmt);
  status = status != NM_OK ? status : ended;
  while (status != NM_OK && *count > 0) {
    nm_mail_hit_dispose(&hits[--*count]);
  }
  return status;
}

int nm_mail_store_search(nm_mail_store *store, const nm_mail_search *search,
                         nm_mail_hit *hits, size_t max, size_t *count) {
  nm_mail_place place = {0};
  *count = 0;
  int status = nm_mail_ready(store);
  status = status == NM_OK ? check_search(search) : status;
  bool known = true;
  if (status == NM_OK && search->mailbox != NULL) {
    status = nm_mail_place_find(store, search->mailbox, &place);
    known = status != NM_E(MISSING);
    status = known ? status : NM_OK;
  }
  if (status != NM_OK) {
    return status;
  }
  nm_buffer match;
  nm_buffer_init(&match, store->mem, NULL, 0, 0);
  status = write_match(search, place.box, &match);
  if (status == NM_OK && known) {
    status = run_search(store, search, nm_span_of(match.ptr, match.len), hits,
                        max, count);
  }
  nm_buffer_dispose(&match);
  return status;
}
