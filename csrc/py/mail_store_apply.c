/* Writing with MailStoreCore. */
#include "py/columns.h"
#include "py/mail_store.h"

#define WRITES_MAX 100000

/* ------------------------------------------------------------------ writes */

#define WRITE(name, kind, member, min, max)                                    \
  NM_PY_COLUMN_IN(name, kind, nm_mail_write, member, min, max)
#define RECEIVED(name, kind, min, max)                                         \
  NM_PY_COLUMN_IN(#name, kind, nm_mail_received, name, min, max)
#define PROGRESS(name, kind, min, max)                                         \
  NM_PY_COLUMN_IN(#name, kind, nm_mail_progress, name, min, max)

static const nm_py_column write_columns[] = {
    WRITE("row", I64, row, 0, NM_PY_US_MAX),
    WRITE("at_us", I64, at_us, -NM_PY_US_MAX, NM_PY_US_MAX),
    WRITE("mailbox", DESTINATION, mailbox, 0, 0),
    WRITE("peer", DESTINATION, peer, 0, 0),
    WRITE("id", BYTES_32, id, 0, 0),
    WRITE("on", BOOL, on, 0, 0),
};

static const nm_py_column received_columns[] = {
    RECEIVED(method, ENUM, 0, 255),
    RECEIVED(representation, ENUM, 0, 255),
    RECEIVED(unverified, ENUM, 0, NM_LXMF_SIGNATURE_INVALID),
    RECEIVED(stamp_checked, BOOL, 0, 0),
    RECEIVED(stamp_valid, BOOL, 0, 0),
    RECEIVED(stamp_value, U32, 0, UINT32_MAX),
};

static const nm_py_column progress_columns[] = {
    PROGRESS(state, ENUM, 0, 255),
    PROGRESS(method, ENUM, 0, 255),
    PROGRESS(representation, ENUM, 0, 255),
};

static const nm_py_column quota_columns[] = {
    NM_PY_COLUMN_IN("rows", U64, nm_mail_quota, rows, 0, NM_PY_US_MAX),
    NM_PY_COLUMN_IN("bytes", U64, nm_mail_quota, bytes, 0, NM_PY_US_MAX),
};

/* The member of the union that a kind has, and its columns. */
static int read_detail(nm_state *state, PyObject *given, nm_mail_write *w) {
  static const char function[] = "MailStoreCore.apply";
  switch (w->kind) {
  case NM_MAIL_WRITE_RECEIVED:
    w->u.received = (nm_mail_received){
        .rssi_dbm = INT16_MIN, .snr_cdb = INT16_MIN, .quality_pct = INT16_MIN};
    return nm_py_columns_read(state, given, received_columns,
                              NM_PY_COLUMN_COUNT(received_columns), function,
                              &w->u.received);
  case NM_MAIL_WRITE_SENT:
    return nm_py_columns_read(state, given, progress_columns,
                              NM_PY_COLUMN_COUNT(progress_columns), function,
                              &w->u.state);
  case NM_MAIL_WRITE_QUOTA:
    return nm_py_columns_read(state, given, quota_columns,
                              NM_PY_COLUMN_COUNT(quota_columns), function,
                              &w->u.quota);
  default:
    return 0;
  }
}

/* (kind, members, details, packed or None); the bytes are borrowed. */
static int read_write(nm_state *state, PyObject *given, nm_mail_write *w) {
  static const char function[] = "MailStoreCore.apply";
  PyObject *members;
  PyObject *details;
  PyObject *packed;
  long long kind = 0;
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4) {
    return nm_py_type_error(function, "writes", "tuples of four", given);
  }
  members = PyTuple_GET_ITEM(given, 1);
  details = PyTuple_GET_ITEM(given, 2);
  packed = PyTuple_GET_ITEM(given, 3);
  if (nm_py_int(PyTuple_GET_ITEM(given, 0), function, "kind", 0,
                NM_MAIL_WRITE_SENT, &kind) < 0 ||
      nm_py_columns_read(state, members, write_columns,
                         NM_PY_COLUMN_COUNT(write_columns), function, w) < 0) {
    return -1;
  }
  w->kind = (nm_mail_write_kind)kind;
  if (packed != Py_None && !PyBytes_Check(packed)) {
    return nm_py_type_error(function, "packed", "bytes or None", packed);
  }
  w->packed =
      packed == Py_None ? nm_span_of(NULL, 0) : nm_py_bytes_span(packed);
  return read_detail(state, details, w);
}

static PyObject *make_answer(nm_state *Py_UNUSED(state), const void *entries,
                             size_t at) {
  const nm_mail_write *w = (const nm_mail_write *)entries + at;
  return Py_BuildValue("(zL)",
                       w->status == NM_OK ? NULL : nm_status_name(w->status),
                       (long long)w->row);
}

static PyObject *run_writes(PyObject *self, nm_mail_write *writes,
                            size_t count) {
  nm_state *state = nm_py_state_of(self);
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store, nm_mail_store_apply(store, writes, count));
  return status == NM_OK ? nm_py_mail_list(state, make_answer, writes, count)
                         : nm_py_mail_raise(state, status, "writes", &trouble);
}

PyObject *nm_py_mail_store_apply(PyObject *self, PyObject *given) {
  nm_state *state = nm_py_state_of(self);
  PyObject *items = PySequence_Tuple(given); /* keeps the bytes in it alive */
  if (items == NULL) {
    return NULL;
  }
  size_t count = (size_t)PyTuple_GET_SIZE(items);
  PyObject *answers = NULL;
  nm_mail_write *writes =
      count <= WRITES_MAX ? PyMem_RawCalloc(count + 1, sizeof(*writes)) : NULL;
  if (writes == NULL) {
    PyErr_NoMemory();
  }
  size_t read = 0;
  while (writes != NULL && read < count &&
         read_write(state, PyTuple_GET_ITEM(items, (Py_ssize_t)read),
                    &writes[read]) == 0) {
    read++;
  }
  if (writes != NULL && read == count) {
    answers = run_writes(self, writes, count);
  }
  PyMem_RawFree(writes);
  Py_DECREF(items);
  return answers;
}
