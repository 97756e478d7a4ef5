/* Opening and closing the mail store. */
#include "io/mail_db.h"

#include "io/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SQLITE_OLDEST 3034000
#define BUSY_MS 5000
#define CACHE_KB 8192
#define ASIDE_MAX 1000
#define PATH_ROOM 4096

/* SQLite would make the file for everybody to read; its companions get the
 * permissions that it has. Made beside and linked, so that no descriptor of the
 * file itself is ever closed here: that would drop the locks which another
 * connection of this process holds. */
static int make_file(nm_mail_store *store) {
  char beside[PATH_ROOM];
  int len = snprintf(beside, sizeof(beside), "%s.XXXXXX", store->path);
  int error = len < 0 || (size_t)len >= sizeof(beside) ? ENAMETOOLONG : 0;
  int fd = error == 0 ? mkstemp(beside) : -1;
  if (fd >= 0) {
    (void)close(fd);
    error = link(beside, store->path) != 0 ? errno : 0;
    (void)unlink(beside);
  } else if (error == 0) {
    error = errno;
  }
  if (error == 0 || error == EEXIST) {
    return NM_OK;
  }
  return nm_mail_fail_system(store, NM_E(STORE),
                             "the message store cannot be made", error);
}

static int find_file(nm_mail_store *store, const nm_mail_options *options) {
  struct stat info;
  if (stat(store->path, &info) == 0) {
    if (!options->read_only && (info.st_mode & 077) != 0) {
      (void)chmod(store->path, 0600);
    }
    return NM_OK;
  }
  if (errno == ENOENT && !options->must_exist && !options->read_only) {
    return make_file(store);
  }
  int error = errno;
  return nm_mail_fail_system(store,
                             error == ENOENT ? NM_E(MISSING) : NM_E(STORE),
                             "the message store cannot be opened", error);
}

static int check_library(nm_mail_store *store) {
  if (sqlite3_libversion_number() < SQLITE_OLDEST) {
    return nm_mail_fail(store, NM_E(LIBRARY),
                        "the SQLite library is older than 3.34");
  }
  if (sqlite3_threadsafe() == 0) {
    return nm_mail_fail(store, NM_E(LIBRARY),
                        "the SQLite library was built without threads");
  }
  return NM_OK;
}

/* The name of the table of full-text search is known only if it is there. */
static int check_search(nm_mail_store *store) {
  sqlite3_stmt *handle = NULL;
  int code = sqlite3_prepare_v2(store->db, "SELECT fts5_source_id()", -1,
                                &handle, NULL);
  (void)sqlite3_finalize(handle);
  if (code == SQLITE_ERROR) {
    return nm_mail_fail(store, NM_E(LIBRARY),
                        "the SQLite library was built without FTS5, its "
                        "full-text search");
  }
  return code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
}

static int connect_file(nm_mail_store *store) {
  int flags = SQLITE_OPEN_NOMUTEX |
              (store->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  int code = sqlite3_open_v2(store->path, &store->db, flags, NULL);
  if (store->db == NULL) {
    return nm_mail_fail(store, NM_E(MEMORY), "out of memory");
  }
  (void)sqlite3_extended_result_codes(store->db, 1);
  return code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
}

/* A file may come from somewhere else: what stands in it is not trusted. */
static int harden(nm_mail_store *store) {
  static const struct {
    int what;
    int on;
  } settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                  {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                  {SQLITE_DBCONFIG_DQS_DDL, 0},
                  {SQLITE_DBCONFIG_DQS_DML, 0},
                  {SQLITE_DBCONFIG_ENABLE_FKEY, 1}};
  for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    int code = sqlite3_db_config(store->db, settings[i].what, settings[i].on,
                                 (int *)NULL);
    if (code != SQLITE_OK) {
      return nm_mail_failed(store, code);
    }
  }
  return NM_OK;
}

/* The log is written back at about 8 MiB, and does not stay larger than 64 MiB
 * after a reader kept it from that. */
static int set_up(nm_mail_store *store, const nm_mail_options *options) {
  char sizes[128];
  (void)snprintf(sizes, sizeof(sizes),
                 "PRAGMA cache_size = -%u; PRAGMA temp_store = MEMORY;",
                 options->cache_kb != 0 ? options->cache_kb : CACHE_KB);
  int status = harden(store);
  status = status == NM_OK ? check_search(store) : status;
  status = status == NM_OK ? nm_mail_body_functions(store) : status;
  status = status == NM_OK ? nm_mail_exec(store, sizes) : status;
  if (status == NM_OK && !store->read_only) {
    status = nm_mail_exec(store, "PRAGMA journal_mode = WAL;"
                                 "PRAGMA synchronous = FULL;"
                                 "PRAGMA fullfsync = ON;"
                                 "PRAGMA checkpoint_fullfsync = ON;"
                                 "PRAGMA wal_autocheckpoint = 2000;"
                                 "PRAGMA journal_size_limit = 67108864;");
  }
  return status;
}

static int open_it(nm_mail_store *store, const nm_mail_options *options) {
  int status = check_library(store);
  status = status == NM_OK ? find_file(store, options) : status;
  status = status == NM_OK ? connect_file(store) : status;
  if (status != NM_OK) {
    return status;
  }
  uint32_t busy_ms = options->busy_ms != 0 ? options->busy_ms : BUSY_MS;
  (void)sqlite3_busy_timeout(store->db, (int)(busy_ms & INT32_MAX));
  /* Looked at before anything is changed: it may be another program's. */
  int64_t version = 0;
  status = nm_mail_check_owner(store, nm_mail_layout_count, &version);
  status = status == NM_OK ? set_up(store, options) : status;
  return status == NM_OK
             ? nm_mail_migrate(store, nm_mail_layout, nm_mail_layout_count)
             : status;
}

/* A name that begins with "/" or "./" has no special meaning to SQLite. */
static char *plain_path(const nm_mem *mem, const char *path) {
  size_t size = strlen(path) + 3;
  char *plain = nm_alloc(mem, size);
  if (plain != NULL) {
    (void)snprintf(plain, size, "%s%s", path[0] == '/' ? "" : "./", path);
  }
  return plain;
}

int nm_mail_store_open(const nm_mem *mem, const char *path,
                       const nm_mail_options *options, nm_mail_store **out,
                       nm_mail_trouble *trouble) {
  static const nm_mail_options defaults = {0};
  const nm_mail_options *wanted = options != NULL ? options : &defaults;
  *out = NULL;
  nm_mail_store *store = nm_alloc_zero(mem, 1, sizeof(*store));
  char *plain = store != NULL ? plain_path(mem, path) : NULL;
  if (plain == NULL) {
    nm_release(mem, store);
    if (trouble != NULL) {
      *trouble = (nm_mail_trouble){.status = NM_E(MEMORY)};
      nm_mail_tell(trouble, path, "out of memory", "");
    }
    return NM_E(MEMORY);
  }
  store->mem = mem;
  store->path = plain;
  store->owner = getpid();
  store->read_only = wanted->read_only;
  int status = open_it(store, wanted);
  if (status != NM_OK) {
    if (trouble != NULL) {
      *trouble = store->trouble;
    }
    nm_mail_store_close(store);
    return status;
  }
  *out = store;
  return NM_OK;
}

void nm_mail_store_close(nm_mail_store *store) {
  if (store == NULL) {
    return;
  }
  /* In a forked child the connection is the parent's: closing it would drop
   * the parent's locks. */
  if (getpid() == store->owner) {
    for (size_t i = 0; i < NM_MAIL_STATEMENTS; i++) {
      (void)sqlite3_finalize(store->kept[i].handle);
    }
    (void)sqlite3_close(store->db);
  }
  nm_release(store->mem, store->path);
  nm_release(store->mem, store);
}

/* ---- setting aside ---- */

static int free_name(const char *path, char *aside, size_t size) {
  struct stat ignored;
  for (int n = 1; n <= ASIDE_MAX; n++) {
    int len = snprintf(aside, size, "%s.damaged-%d", path, n);
    if (len < 0 || (size_t)len >= size) {
      return NM_E(LIMIT);
    }
    if (lstat(aside, &ignored) != 0) {
      return errno == ENOENT ? NM_OK : NM_E(STORE);
    }
  }
  return NM_E(LIMIT);
}

/* The log goes with its file: beside another one it would be harmful. It goes
 * first, so that a crash in between leaves no file with a foreign log. */
int nm_mail_store_set_aside(const char *path, char *aside, size_t aside_size) {
  static const char *const suffixes[] = {"-wal", "-shm", ""};
  char from[PATH_ROOM];
  char to[PATH_ROOM];
  struct stat ignored;
  if (lstat(path, &ignored) != 0) {
    return errno == ENOENT ? NM_E(MISSING) : NM_E(STORE);
  }
  int status = free_name(path, aside, aside_size);
  for (size_t i = 0; i < 3 && status == NM_OK; i++) {
    int a = snprintf(from, sizeof(from), "%s%s", path, suffixes[i]);
    int b = snprintf(to, sizeof(to), "%s%s", aside, suffixes[i]);
    if (a < 0 || b < 0 || (size_t)a >= sizeof(from) ||
        (size_t)b >= sizeof(to)) {
      return NM_E(LIMIT);
    }
    if (rename(from, to) != 0 && (errno != ENOENT || suffixes[i][0] == '\0')) {
      status = NM_E(STORE);
    }
  }
  return status;
}
