/* Statements: prepared once, bound in order, failures latched. */
#include "io/mail_db.h"

#include <string.h>

static const nm_span nothing = {(const uint8_t *)"", 0};

static sqlite3_stmt *compile(nm_mail_store *store, const char *sql,
                             unsigned flags, int *status) {
  sqlite3_stmt *handle = NULL;
  int code = sqlite3_prepare_v3(store->db, sql, -1, flags, &handle, NULL);
  *status = code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
  return handle;
}

nm_mail_stmt nm_mail_prepare(nm_mail_store *store, const char *sql) {
  nm_mail_stmt stmt = {.store = store};
  stmt.handle = compile(store, sql, 0, &stmt.status);
  return stmt;
}

nm_mail_stmt nm_mail_use(nm_mail_store *store, const char *sql) {
  for (size_t i = 0; i < NM_MAIL_STATEMENTS; i++) {
    nm_mail_kept *kept = &store->kept[i];
    if (kept->sql == sql) {
      return (nm_mail_stmt){
          .store = store, .handle = kept->handle, .kept = true};
    }
    if (kept->sql != NULL) {
      continue;
    }
    nm_mail_stmt stmt = {.store = store, .kept = true};
    stmt.handle = compile(store, sql, SQLITE_PREPARE_PERSISTENT, &stmt.status);
    if (stmt.status == NM_OK) {
      kept->sql = sql;
      kept->handle = stmt.handle;
    }
    return stmt;
  }
  return nm_mail_prepare(store, sql);
}

/* ---- binding ---- */

static void bound(nm_mail_stmt *stmt, int code) {
  if (code != SQLITE_OK && stmt->status == NM_OK) {
    stmt->status = nm_mail_failed(stmt->store, code);
  }
}

void nm_mail_bind_int(nm_mail_stmt *stmt, int64_t value) {
  if (stmt->status == NM_OK) {
    bound(stmt, sqlite3_bind_int64(stmt->handle, ++stmt->bound, value));
  }
}

void nm_mail_bind_real(nm_mail_stmt *stmt, double value) {
  if (stmt->status == NM_OK) {
    bound(stmt, sqlite3_bind_double(stmt->handle, ++stmt->bound, value));
  }
}

void nm_mail_bind_bytes(nm_mail_stmt *stmt, nm_span bytes) {
  if (stmt->status == NM_OK) {
    nm_span from = bytes.len > 0 ? bytes : nothing;
    bound(stmt, sqlite3_bind_blob64(stmt->handle, ++stmt->bound, from.ptr,
                                    from.len, SQLITE_STATIC));
  }
}

void nm_mail_bind_text(nm_mail_stmt *stmt, nm_span text) {
  if (stmt->status == NM_OK) {
    nm_span from = text.len > 0 ? text : nothing;
    bound(stmt, sqlite3_bind_text64(stmt->handle, ++stmt->bound,
                                    (const char *)from.ptr, from.len,
                                    SQLITE_STATIC, SQLITE_UTF8));
  }
}

void nm_mail_bind_null(nm_mail_stmt *stmt) {
  if (stmt->status == NM_OK) {
    bound(stmt, sqlite3_bind_null(stmt->handle, ++stmt->bound));
  }
}

/* ---- running ---- */

int nm_mail_step(nm_mail_stmt *stmt) {
  if (stmt->status != NM_OK) {
    return stmt->status;
  }
  int code = sqlite3_step(stmt->handle);
  if (code == SQLITE_ROW) {
    return 1;
  }
  if (code != SQLITE_DONE) {
    stmt->status = nm_mail_failed(stmt->store, code);
  }
  return stmt->status;
}

int nm_mail_end(nm_mail_stmt *stmt) {
  if (stmt->handle == NULL) {
    return stmt->status;
  }
  if (stmt->kept) {
    (void)sqlite3_reset(stmt->handle);
    (void)sqlite3_clear_bindings(stmt->handle);
  } else {
    (void)sqlite3_finalize(stmt->handle);
  }
  stmt->handle = NULL;
  return stmt->status;
}

int nm_mail_run(nm_mail_stmt *stmt) {
  while (nm_mail_step(stmt) > 0) {
    continue;
  }
  return nm_mail_end(stmt);
}

int nm_mail_exec(nm_mail_store *store, const char *sql) {
  int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
}

int nm_mail_number(nm_mail_store *store, const char *sql, int64_t none,
                   int64_t *number) {
  nm_mail_stmt stmt = nm_mail_prepare(store, sql);
  *number = nm_mail_step(&stmt) > 0 ? nm_mail_column_int(&stmt, 0) : none;
  return nm_mail_end(&stmt);
}

/* ---- columns ---- */

int64_t nm_mail_column_int(const nm_mail_stmt *stmt, int column) {
  return sqlite3_column_int64(stmt->handle, column);
}

double nm_mail_column_real(const nm_mail_stmt *stmt, int column) {
  return sqlite3_column_double(stmt->handle, column);
}

bool nm_mail_column_null(const nm_mail_stmt *stmt, int column) {
  return sqlite3_column_type(stmt->handle, column) == SQLITE_NULL;
}

nm_span nm_mail_column_bytes(const nm_mail_stmt *stmt, int column) {
  const void *from = sqlite3_column_blob(stmt->handle, column);
  int len = sqlite3_column_bytes(stmt->handle, column);
  return nm_span_of(from, from != NULL && len > 0 ? (size_t)len : 0);
}

void nm_mail_column_fixed(nm_mail_stmt *stmt, int column, void *out,
                          size_t size) {
  nm_span from = nm_mail_column_bytes(stmt, column);
  if (from.len == size) {
    memcpy(out, from.ptr, size);
  } else if (stmt->status == NM_OK) {
    memset(out, 0, size);
    stmt->status = nm_mail_damaged(stmt->store, "a hash has a wrong length");
  }
}
