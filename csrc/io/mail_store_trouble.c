/* What went wrong in the mail store, as a status and a sentence. */
#include "io/mail_db.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void nm_mail_tell(nm_mail_trouble *trouble, const char *path, const char *what,
                  const char *why) {
  (void)snprintf(trouble->text, sizeof(trouble->text), "%.240s: %.100s%s%.150s",
                 path, what, why[0] != '\0' ? ": " : "", why);
}

static bool is_full(int os_error) {
  return os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
}

static int status_of(int code, int os_error) {
  if (code == SQLITE_IOERR_NOMEM) {
    return NM_E(MEMORY);
  }
  switch (code & 0xFF) {
  case SQLITE_NOMEM:
    return NM_E(MEMORY);
  case SQLITE_FULL:
    return NM_E(FULL);
  case SQLITE_IOERR:
    return is_full(os_error) ? NM_E(FULL) : NM_E(STORE);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return NM_E(TIMEOUT);
  case SQLITE_TOOBIG:
    return NM_E(TOO_LARGE);
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_CANTOPEN:
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return NM_E(STORE);
  default:
    return NM_E(LIBRARY);
  }
}

static const char *what_of(int status) {
  switch (status) {
  case NM_E(FULL):
    return "no room to write";
  case NM_E(TIMEOUT):
    return "another connection writes for too long";
  case NM_E(MEMORY):
    return "out of memory";
  default:
    return "the message store cannot be used";
  }
}

/* What the system said last about the file or its log: SQLite does not pass it
 * on for every failure of a write. */
static int system_error(sqlite3 *db) {
  int error = sqlite3_system_errno(db);
  sqlite3_file *log = NULL;
  if (error == 0) {
    (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0 &&
      sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) ==
          SQLITE_OK &&
      log != NULL && log->pMethods != NULL) {
    (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

int nm_mail_failed(nm_mail_store *store, int code) {
  nm_mail_trouble *trouble = &store->trouble;
  int kind = code & 0xFF;
  bool system = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN ||
                kind == SQLITE_FULL || kind == SQLITE_READONLY;
  int os_error = system ? system_error(store->db) : 0;
  *trouble = (nm_mail_trouble){.status = status_of(code, os_error),
                               .code = code,
                               .os_error = os_error,
                               .damaged = kind == SQLITE_CORRUPT ||
                                          kind == SQLITE_NOTADB};
  char why[128];
  (void)snprintf(why, sizeof(why), "%s%s%s", sqlite3_errmsg(store->db),
                 os_error != 0 ? ", " : "",
                 os_error != 0 ? strerror(os_error) : "");
  nm_mail_tell(trouble, store->path,
               trouble->damaged ? "the message store is damaged"
                                : what_of(trouble->status),
               why);
  return trouble->status;
}

int nm_mail_fail(nm_mail_store *store, int status, const char *what) {
  store->trouble = (nm_mail_trouble){.status = status};
  nm_mail_tell(&store->trouble, store->path, what, "");
  return status;
}

int nm_mail_fail_system(nm_mail_store *store, int status, const char *what,
                        int os_error) {
  bool full = is_full(os_error);
  store->trouble = (nm_mail_trouble){.status = full ? NM_E(FULL) : status,
                                     .os_error = os_error};
  nm_mail_tell(&store->trouble, store->path, what, strerror(os_error));
  return store->trouble.status;
}

int nm_mail_damaged(nm_mail_store *store, const char *what) {
  store->trouble = (nm_mail_trouble){.status = NM_E(STORE), .damaged = true};
  nm_mail_tell(&store->trouble, store->path, "the message store is damaged",
               what);
  return NM_E(STORE);
}

const nm_mail_trouble *nm_mail_store_trouble(const nm_mail_store *store) {
  return &store->trouble;
}

int nm_mail_ready(nm_mail_store *store) {
  if (getpid() != store->owner) {
    return NM_E(STATE);
  }
  store->trouble.status = NM_OK;
  return NM_OK;
}
