/* Reading with MailStoreCore: messages, hits, overviews. */
#include "py/columns.h"
#include "py/hashes.h"
#include "py/mail_store.h"

#include <string.h>

#define PIECE_MAX 1000

/* -------------------------------------------------------------------- rows */

#define ROW(name, kind, member) NM_PY_COLUMN(name, kind, nm_mail_row, member)

static const nm_py_column row_columns[] = {
    ROW("row", I64, row),
    ROW("mailbox", DESTINATION, mailbox),
    ROW("peer", DESTINATION, peer),
    ROW("id", BYTES_32, id),
    ROW("outgoing", BOOL, outgoing),
    ROW("open", BOOL, open),
    ROW("stored_us", I64, stored_us),
    ROW("timestamp", REAL, timestamp),
    ROW("size", U32, size),
    ROW("method", ENUM, received.method),
    ROW("representation", ENUM, received.representation),
    ROW("unverified", ENUM, received.unverified),
    ROW("stamp_checked", BOOL, received.stamp_checked),
    ROW("stamp_valid", BOOL, received.stamp_valid),
    ROW("stamp_value", U32, received.stamp_value),
    ROW("has_transient_id", BOOL, received.has_transient_id),
    ROW("transient_id", BYTES_32, received.transient_id),
    ROW("rssi_dbm", SIGNAL, received.rssi_dbm),
    ROW("snr_cdb", SIGNAL, received.snr_cdb),
    ROW("quality_pct", SIGNAL, received.quality_pct),
    ROW("state", ENUM, state.state),
    ROW("stage", ENUM, state.stage),
    ROW("attempts", U32, state.attempts),
    ROW("rtt_us", U64, state.rtt_us),
    ROW("packed", BLOCK, packed),
};

static PyObject *row_dict(nm_state *state, const nm_mail_row *row) {
  return nm_py_columns_dict(state, row_columns, NM_PY_COLUMN_COUNT(row_columns),
                            row);
}

/* Room for a piece of |max| entries, of which the caller asked for |given|. */
static void *piece_room(PyObject *given, const char *function, size_t size,
                        size_t *max) {
  long long wanted;
  if (nm_py_int(given, function, "max", 1, PIECE_MAX, &wanted) < 0) {
    return NULL;
  }
  *max = (size_t)wanted;
  void *room = PyMem_RawCalloc(*max, size);
  if (room == NULL) {
    PyErr_NoMemory();
  }
  return room;
}

/* ----------------------------------------------------------------- queries */

/* A query with the hashes that it points to. */
typedef struct query_in {
  nm_mail_query query;
  nm_destination_hash mailbox;
  nm_destination_hash peer;
} query_in;

#define QUERY(name, kind, member, min, max)                                    \
  NM_PY_COLUMN_IN(name, kind, query_in, member, min, max)

static const nm_py_column query_columns[] = {
    QUERY("mailbox", DESTINATION, mailbox, 0, 0),
    QUERY("peer", DESTINATION, peer, 0, 0),
    QUERY("direction", ENUM, query.direction, NM_MAIL_BOTH, NM_MAIL_OUTGOING),
    QUERY("open", BOOL, query.open, 0, 0),
    QUERY("newest_first", BOOL, query.newest_first, 0, 0),
    QUERY("bodies", BOOL, query.bodies, 0, 0),
    QUERY("cursor", I64, query.cursor, 0, NM_PY_US_MAX),
    QUERY("since_us", I64, query.since_us, -NM_PY_US_MAX, NM_PY_US_MAX),
    QUERY("until_us", I64, query.until_us, -NM_PY_US_MAX, NM_PY_US_MAX),
};

static int read_query(nm_state *state, PyObject *given, const char *function,
                      query_in *in) {
  memset(in, 0, sizeof(*in));
  if (nm_py_columns_read(state, given, query_columns,
                         NM_PY_COLUMN_COUNT(query_columns), function, in) < 0) {
    return -1;
  }
  if (PyDict_GetItemString(given, "mailbox") != NULL) {
    in->query.mailbox = &in->mailbox;
  }
  if (PyDict_GetItemString(given, "peer") != NULL) {
    in->query.peer = &in->peer;
  }
  return 0;
}

static PyObject *make_row(nm_state *state, const void *entries, size_t at) {
  return row_dict(state, (const nm_mail_row *)entries + at);
}

PyObject *nm_py_mail_store_rows(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  query_in in;
  size_t max = 0;
  size_t count = 0;
  if (!nm_py_arity("MailStoreCore.rows", nargs, 2, 2) ||
      read_query(state, args[0], "MailStoreCore.rows", &in) < 0) {
    return NULL;
  }
  nm_mail_row *rows =
      piece_room(args[1], "MailStoreCore.rows", sizeof(*rows), &max);
  nm_mail_store *store = rows != NULL ? nm_py_mail_enter(self) : NULL;
  if (store == NULL) {
    PyMem_RawFree(rows);
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store,
                  nm_mail_store_list(store, &in.query, rows, max, &count));
  PyObject *list = status == NM_OK
                       ? nm_py_mail_list(state, make_row, rows, count)
                       : nm_py_mail_raise(state, status, "query", &trouble);
  for (size_t i = 0; i < count; i++) {
    nm_mail_row_dispose(&rows[i]);
  }
  PyMem_RawFree(rows);
  return list;
}

static PyObject *give_row(nm_state *state, int status, nm_mail_row *row,
                          const nm_mail_trouble *trouble) {
  if (status != NM_OK) {
    return nm_py_mail_raise(state, status, "message", trouble);
  }
  PyObject *dict = row_dict(state, row);
  nm_mail_row_dispose(row);
  return dict;
}

PyObject *nm_py_mail_store_get(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of(self);
  nm_mail_row row;
  long long number = 0;
  bool body = false;
  if (!nm_py_arity("MailStoreCore.get", nargs, 2, 2) ||
      nm_py_int(args[0], "MailStoreCore.get", "row", 0, NM_PY_US_MAX, &number) <
          0 ||
      nm_py_bool(args[1], "MailStoreCore.get", "body", &body) < 0) {
    return NULL;
  }
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store, nm_mail_store_get(store, number, body, &row));
  return give_row(state, status, &row, &trouble);
}

/* A mailbox, or None for all of them. */
static int read_mailbox(nm_state *state, PyObject *given, const char *function,
                        nm_destination_hash *mailbox) {
  return given == Py_None ? 0
                          : nm_py_address(state, given, NM_PY_DESTINATION_HASH,
                                          function, "mailbox", mailbox->b);
}

PyObject *nm_py_mail_store_find(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  static const char function[] = "MailStoreCore.find";
  nm_state *state = nm_py_state_of(self);
  nm_destination_hash mailbox;
  uint8_t id[NM_HASH_SIZE];
  nm_mail_row row;
  bool body = false;
  if (!nm_py_arity(function, nargs, 3, 3) ||
      read_mailbox(state, args[0], function, &mailbox) < 0 ||
      nm_py_exact(args[1], function, "id", id, sizeof(id)) < 0 ||
      nm_py_bool(args[2], function, "body", &body) < 0) {
    return NULL;
  }
  bool any = args[0] == Py_None;
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  NM_PY_MAIL_CALL(
      self, store,
      nm_mail_store_find(store, any ? NULL : &mailbox, id, body, &row));
  return give_row(state, status, &row, &trouble);
}

/* ------------------------------------------------------------------ search */

static PyObject *make_hit(nm_state *state, const void *entries, size_t at) {
  const nm_mail_hit *hit = (const nm_mail_hit *)entries + at;
  PyObject *row = row_dict(state, &hit->row);
  PyObject *title = nm_py_bytes(nm_block_span(hit->title));
  PyObject *snippet = nm_py_bytes(nm_block_span(hit->snippet));
  PyObject *made = row != NULL && title != NULL && snippet != NULL
                       ? PyTuple_Pack(3, row, title, snippet)
                       : NULL;
  Py_XDECREF(row);
  Py_XDECREF(title);
  Py_XDECREF(snippet);
  return made;
}

static PyObject *run_search(PyObject *self, const nm_mail_search *search,
                            PyObject *given_max) {
  nm_state *state = nm_py_state_of(self);
  size_t max = 0;
  size_t count = 0;
  nm_mail_hit *hits =
      piece_room(given_max, "MailStoreCore.search", sizeof(*hits), &max);
  nm_mail_store *store = hits != NULL ? nm_py_mail_enter(self) : NULL;
  if (store == NULL) {
    PyMem_RawFree(hits);
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store,
                  nm_mail_store_search(store, search, hits, max, &count));
  PyObject *list = status == NM_OK
                       ? nm_py_mail_list(state, make_hit, hits, count)
                       : nm_py_mail_raise(state, status, "text", &trouble);
  for (size_t i = 0; i < count; i++) {
    nm_mail_hit_dispose(&hits[i]);
  }
  PyMem_RawFree(hits);
  return list;
}

PyObject *nm_py_mail_store_search(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs) {
  static const char function[] = "MailStoreCore.search";
  nm_state *state = nm_py_state_of(self);
  nm_destination_hash mailbox;
  nm_mail_search search = {0};
  long long before = 0;
  long long words = 0;
  if (!nm_py_arity(function, nargs, 7, 7) ||
      read_mailbox(state, args[0], function, &mailbox) < 0 ||
      nm_py_text(args[1], function, "text", &search.text) < 0 ||
      nm_py_int(args[2], function, "before", 0, NM_PY_US_MAX, &before) < 0 ||
      nm_py_int(args[5], function, "words", 0, UINT32_MAX, &words) < 0) {
    return NULL;
  }
  search.mailbox = args[0] == Py_None ? NULL : &mailbox;
  search.before = before;
  search.words = (uint32_t)words;
  search.open_mark = PyUnicode_AsUTF8(args[3]);
  search.close_mark =
      search.open_mark != NULL ? PyUnicode_AsUTF8(args[4]) : NULL;
  return search.close_mark != NULL ? run_search(self, &search, args[6]) : NULL;
}

/* --------------------------------------------------------------- overviews */

#define TALK(name, kind, member) NM_PY_COLUMN(name, kind, nm_mail_talk, member)

static const nm_py_column talk_columns[] = {
    TALK("mailbox", DESTINATION, mailbox),
    TALK("peer", DESTINATION, peer),
    TALK("count", U64, count),
    TALK("unread", U64, unread),
    TALK("last_row", I64, last_row),
    TALK("last_us", I64, last_us),
};

static PyObject *make_talk(nm_state *state, const void *entries, size_t at) {
  return nm_py_columns_dict(state, talk_columns,
                            NM_PY_COLUMN_COUNT(talk_columns),
                            (const nm_mail_talk *)entries + at);
}

PyObject *nm_py_mail_store_talks(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  static const char function[] = "MailStoreCore.talks";
  nm_state *state = nm_py_state_of(self);
  nm_destination_hash mailbox;
  long long before = 0;
  size_t max = 0;
  size_t count = 0;
  if (!nm_py_arity(function, nargs, 3, 3) ||
      read_mailbox(state, args[0], function, &mailbox) < 0 ||
      nm_py_int(args[1], function, "before", 0, NM_PY_US_MAX, &before) < 0) {
    return NULL;
  }
  bool any = args[0] == Py_None;
  nm_mail_talk *talks = piece_room(args[2], function, sizeof(*talks), &max);
  nm_mail_store *store = talks != NULL ? nm_py_mail_enter(self) : NULL;
  if (store == NULL) {
    PyMem_RawFree(talks);
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store,
                  nm_mail_store_talks(store, any ? NULL : &mailbox, before,
                                      talks, max, &count));
  PyObject *list = status == NM_OK
                       ? nm_py_mail_list(state, make_talk, talks, count)
                       : nm_py_mail_raise(state, status, "query", &trouble);
  PyMem_RawFree(talks);
  return list;
}

static PyObject *make_attachment(nm_state *Py_UNUSED(state),
                                 const void *entries, size_t at) {
  const nm_mail_attachment *a = (const nm_mail_attachment *)entries + at;
  PyObject *name =
      PyUnicode_DecodeUTF8(a->name, (Py_ssize_t)strlen(a->name), "replace");
  return name == NULL ? NULL
                      : Py_BuildValue("(LIiNIK)", (long long)a->row, a->index,
                                      (int)a->field, name, a->audio_mode,
                                      (unsigned long long)a->size);
}

PyObject *nm_py_mail_store_attachments(PyObject *self, PyObject *const *args,
                                       Py_ssize_t nargs) {
  static const char function[] = "MailStoreCore.attachments";
  nm_state *state = nm_py_state_of(self);
  query_in in;
  long long after = 0;
  size_t max = 0;
  size_t count = 0;
  if (!nm_py_arity(function, nargs, 3, 3) ||
      read_query(state, args[0], function, &in) < 0 ||
      nm_py_int(args[1], function, "after_index", -1, UINT32_MAX, &after) < 0) {
    return NULL;
  }
  nm_mail_attachment *found =
      piece_room(args[2], function, sizeof(*found), &max);
  nm_mail_store *store = found != NULL ? nm_py_mail_enter(self) : NULL;
  if (store == NULL) {
    PyMem_RawFree(found);
    return NULL;
  }
  NM_PY_MAIL_CALL(
      self, store,
      nm_mail_store_attachments(store, &in.query, after, found, max, &count));
  PyObject *list = status == NM_OK
                       ? nm_py_mail_list(state, make_attachment, found, count)
                       : nm_py_mail_raise(state, status, "query", &trouble);
  PyMem_RawFree(found);
  return list;
}

PyObject *nm_py_mail_store_attachment(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs) {
  static const char function[] = "MailStoreCore.attachment";
  long long row = 0;
  long long index = 0;
  nm_block *block = NULL;
  if (!nm_py_arity(function, nargs, 2, 2) ||
      nm_py_int(args[0], function, "row", 0, NM_PY_US_MAX, &row) < 0 ||
      nm_py_int(args[1], function, "index", 0, UINT32_MAX, &index) < 0) {
    return NULL;
  }
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  NM_PY_MAIL_CALL(
      self, store,
      nm_mail_store_attachment(store, row, (uint32_t)index, &block));
  if (status != NM_OK) {
    return nm_py_mail_raise(nm_py_state_of(self), status, "attachment",
                            &trouble);
  }
  PyObject *bytes = nm_py_bytes(nm_block_span(block));
  nm_block_drop(block);
  return bytes;
}

#define BOX(name, kind, member) NM_PY_COLUMN(name, kind, nm_mail_box, member)

static const nm_py_column box_columns[] = {
    BOX("mailbox", DESTINATION, mailbox),
    BOX("rows", U64, rows),
    BOX("bytes", U64, bytes),
    BOX("unread", U64, unread),
    BOX("unfinished", U64, unfinished),
    BOX("quota_rows", U64, quota.rows),
    BOX("quota_bytes", U64, quota.bytes),
};

static PyObject *make_box(nm_state *state, const void *entries, size_t at) {
  return nm_py_columns_dict(state, box_columns, NM_PY_COLUMN_COUNT(box_columns),
                            (const nm_mail_box *)entries + at);
}

static PyObject *make_source(nm_state *state, const void *entries, size_t at) {
  const nm_destination_hash *sources = entries;
  return nm_py_destination_hash_new(state, sources[at].b);
}

typedef int read_piece(nm_mail_store *store, int64_t *cursor, void *out,
                       size_t max, size_t *count);

static int read_boxes(nm_mail_store *store, int64_t *cursor, void *out,
                      size_t max, size_t *count) {
  return nm_mail_store_boxes(store, cursor, out, max, count);
}

static int read_ignored(nm_mail_store *store, int64_t *cursor, void *out,
                        size_t max, size_t *count) {
  return nm_mail_store_ignored(store, cursor, out, max, count);
}

/* A piece of a list, and where it goes on. */
static PyObject *give_piece(PyObject *self, PyObject *given, read_piece *read,
                            nm_py_mail_entry *make, size_t size) {
  nm_state *state = nm_py_state_of(self);
  long long from = 0;
  size_t count = 0;
  if (nm_py_int(given, "MailStoreCore", "cursor", 0, NM_PY_US_MAX, &from) < 0) {
    return NULL;
  }
  int64_t cursor = from;
  void *entries = PyMem_RawCalloc(PIECE_MAX, size);
  if (entries == NULL) {
    return PyErr_NoMemory();
  }
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    PyMem_RawFree(entries);
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store,
                  read(store, &cursor, entries, PIECE_MAX, &count));
  PyObject *list = status == NM_OK
                       ? nm_py_mail_list(state, make, entries, count)
                       : nm_py_mail_raise(state, status, "query", &trouble);
  PyMem_RawFree(entries);
  return list != NULL ? Py_BuildValue("(NL)", list, (long long)cursor) : NULL;
}

PyObject *nm_py_mail_store_boxes(PyObject *self, PyObject *cursor) {
  return give_piece(self, cursor, read_boxes, make_box, sizeof(nm_mail_box));
}

PyObject *nm_py_mail_store_ignored(PyObject *self, PyObject *cursor) {
  return give_piece(self, cursor, read_ignored, make_source,
                    sizeof(nm_destination_hash));
}
