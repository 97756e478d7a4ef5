/* The mail store when things go wrong: layouts, damage, full and read-only
 * devices, other connections, no memory, and processes that are killed.
 */
#include "io_support.h"
#include "mail_support.h"
#include "support.h"

#include "io/mail_db.h"
#include "wire/lxmf_message.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ME 1
#define PEER 2

static int open_status(const char *path, const nm_mail_options *options,
                       nm_mail_trouble *trouble) {
  nm_mail_store *store = NULL;
  int status =
      nm_mail_store_open(&nm_mem_system, path, options, &store, trouble);
  NM_CHECK((status == NM_OK) == (store != NULL));
  if (status != NM_OK) {
    NM_CHECK_INT(trouble->status, status);
    NM_CHECK(strstr(trouble->text, NM_MAIL_FILE) != NULL);
  }
  nm_mail_store_close(store);
  return status;
}

static void fill(nm_mail_store *store, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < from + count; i++) {
    nm_mail_write w = mail_received(ME, PEER, i, "some words to fill a page");
    NM_CHECK_OK(mail_apply(store, &w));
  }
}

/* ---- layouts ---- */

static void raw_exec(const char *path, const char *sql) {
  sqlite3 *db = NULL;
  NM_CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
  NM_CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  NM_CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

NM_TEST(mail_layouts_are_brought_up_to_date) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 3);
  const char *steps[3] = {nm_mail_layout[0],
                          "CREATE TABLE extra (a); INSERT INTO extra SELECT "
                          "row FROM message;",
                          "INSERT INTO nowhere VALUES (1);"};
  NM_CHECK_OK(nm_mail_migrate(store, steps, 2));
  int64_t number = 0;
  NM_CHECK_OK(nm_mail_number(store, "SELECT count(*) FROM extra", 0, &number));
  NM_CHECK_INT(number, 3);
  NM_CHECK_INT(mail_figures(store).layout, 2);
  NM_CHECK_OK(nm_mail_migrate(store, steps, 2));
  /* A step that fails leaves everything as it was. */
  NM_CHECK_STATUS(nm_mail_migrate(store, steps, 3), NM_E(LIBRARY));
  NM_CHECK_INT(sqlite3_get_autocommit(store->db), 1);
  NM_CHECK_INT(mail_figures(store).layout, 2);
  nm_mail_store_close(store);
  nm_mail_trouble trouble;
  NM_CHECK_STATUS(open_status(path, NULL, &trouble), NM_E(MODE));
  raw_exec(path, "PRAGMA user_version = 1");
  NM_CHECK_OK(open_status(path, NULL, &trouble));
}

NM_TEST(mail_of_another_program_is_left_alone) {
  const char *path = mail_path();
  raw_exec(path, "CREATE TABLE theirs (a)");
  nm_mail_trouble trouble;
  NM_CHECK_STATUS(open_status(path, NULL, &trouble), NM_E(VALUE));
  struct stat before;
  NM_CHECK(stat(path, &before) == 0);
  raw_exec(path, "PRAGMA application_id = 5");
  NM_CHECK_STATUS(open_status(path, NULL, &trouble), NM_E(VALUE));
  NM_CHECK(access(mail_beside(path, "-wal"), F_OK) != 0);
}

NM_TEST(mail_is_made_only_when_it_may_be) {
  const char *path = mail_path();
  nm_mail_trouble trouble;
  nm_mail_options options = {.must_exist = true};
  NM_CHECK_STATUS(open_status(path, &options, &trouble), NM_E(MISSING));
  options = (nm_mail_options){.read_only = true};
  NM_CHECK_STATUS(open_status(path, &options, &trouble), NM_E(MISSING));
  NM_CHECK_STATUS(
      open_status(mail_beside(path, "-folder/" NM_MAIL_FILE), NULL, &trouble),
      NM_E(STORE));
  NM_CHECK_INT(trouble.os_error, ENOENT);
  char *long_path = nm_test_scratch(5000);
  memset(long_path, 'x', 4990);
  (void)snprintf(&long_path[4990], 10, "/mail.db");
  nm_mail_store *store = NULL;
  NM_CHECK_STATUS(
      nm_mail_store_open(&nm_mem_system, long_path, NULL, &store, &trouble),
      NM_E(STORE));
  NM_CHECK_OK(open_status(path, NULL, &trouble));

  store = NULL;
  options.read_only = true;
  NM_CHECK_OK(
      nm_mail_store_open(&nm_mem_system, path, &options, &store, &trouble));
  nm_mail_write w = mail_received(ME, PEER, 1, "x");
  NM_CHECK_STATUS(nm_mail_store_apply(store, &w, 1), NM_E(STATE));
  NM_CHECK_STATUS(w.status, NM_E(STATE));
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){0}), 0);
  mail_check(store);
  nm_mail_store_close(store);
}

/* ---- libraries ---- */

#ifdef __linux__ /* see the Makefile's WRAPPED */
int __real_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int size,
                              sqlite3_stmt **stmt, const char **tail);
int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int size,
                              sqlite3_stmt **stmt, const char **tail);
static bool lacks_search;

int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int size,
                              sqlite3_stmt **stmt, const char **tail) {
  return __real_sqlite3_prepare_v2(
      db, lacks_search ? "SELECT no_such_function()" : sql, size, stmt, tail);
}

NM_TEST(mail_needs_a_library_with_search) {
  const char *path = mail_path();
  nm_mail_trouble trouble;
  lacks_search = true;
  int status = open_status(path, NULL, &trouble);
  lacks_search = false;
  NM_CHECK_STATUS(status, NM_E(LIBRARY));
  NM_CHECK(strstr(trouble.text, "FTS5") != NULL);
  NM_CHECK_OK(open_status(path, NULL, &trouble));
}
#endif

/* ---- whose files they are ---- */

static void check_mode(const char *path) {
  struct stat info;
  NM_CHECK(stat(path, &info) == 0);
  NM_CHECK_INT(info.st_mode & 0777, 0600);
}

NM_TEST(mail_files_are_for_their_owner_alone) {
  mode_t before = umask(0);
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 3);
  check_mode(path);
  check_mode(mail_beside(path, "-wal"));
  check_mode(mail_beside(path, "-shm"));
  nm_mail_store_close(store);
  NM_CHECK(chmod(path, 0644) == 0);
  store = mail_open(path);
  check_mode(path);
  nm_mail_store_close(store);
  (void)umask(before);
}

/* ---- damage ---- */

static void overwrite(const char *path, long from, size_t len) {
  static const char junk[4096] = "this was not written by SQLite";
  int fd = open(path, O_WRONLY);
  NM_CHECK(fd >= 0);
  for (size_t done = 0; done < len; done += sizeof(junk)) {
    NM_CHECK(pwrite(fd, junk, sizeof(junk), from + (long)done) ==
             (ssize_t)sizeof(junk));
  }
  close(fd);
}

NM_TEST(mail_that_is_no_database_is_told_and_set_aside) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 3);
  nm_mail_store_close(store);
  overwrite(path, 0, 4096);
  nm_mail_trouble trouble;
  NM_CHECK_STATUS(open_status(path, NULL, &trouble), NM_E(STORE));
  NM_CHECK(trouble.damaged);
  NM_CHECK(strstr(trouble.text, "damaged") != NULL);
  NM_CHECK_STATUS(open_status(path, NULL, &trouble), NM_E(STORE));
  char aside[512];
  char small[8];
  NM_CHECK_STATUS(nm_mail_store_set_aside(path, small, sizeof(small)),
                  NM_E(LIMIT));
  NM_CHECK_OK(nm_mail_store_set_aside(path, aside, sizeof(aside)));
  NM_CHECK_INT(strcmp(aside, mail_beside(path, ".damaged-1")), 0);
  NM_CHECK(access(aside, F_OK) == 0);
  NM_CHECK_STATUS(nm_mail_store_set_aside(path, aside, sizeof(aside)),
                  NM_E(MISSING));
  NM_CHECK_OK(open_status(path, NULL, &trouble));
  NM_CHECK_OK(nm_mail_store_set_aside(path, aside, sizeof(aside)));
  NM_CHECK_INT(strcmp(aside, mail_beside(path, ".damaged-2")), 0);
}

NM_TEST(mail_pages_that_are_damaged_are_found) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 400);
  nm_mail_store_close(store);
  struct stat info;
  NM_CHECK(stat(path, &info) == 0);
  overwrite(path, 4096, (size_t)info.st_size - 8192);
  nm_mail_trouble trouble = {0};
  store = NULL;
  int status = nm_mail_store_open(&nm_mem_system, path, NULL, &store, &trouble);
  if (status == NM_OK) {
    nm_mail_row row;
    nm_mail_write w = mail_received(ME, PEER, 1000, "new");
    NM_CHECK_STATUS(nm_mail_store_get(store, 200, true, &row), NM_E(STORE));
    NM_CHECK_STATUS(nm_mail_store_apply(store, &w, 1), NM_E(STORE));
    NM_CHECK_STATUS(w.status, NM_E(STORE));
    trouble = *nm_mail_store_trouble(store);
  }
  NM_CHECK(trouble.damaged);
  nm_mail_store_close(store);
}

NM_TEST(mail_check_finds_what_does_not_belong) {
  static const char *const damages[] = {
      "UPDATE mailbox SET unread = unread + 1",
      "UPDATE talk SET count = 0",
      "DELETE FROM body WHERE row = 2",
      "DELETE FROM letter",
      ("UPDATE body SET packed = (SELECT packed FROM body WHERE row = 1),"
       " inflated = (SELECT inflated FROM body WHERE row = 1)"),
  };
  for (size_t i = 0; i < 5; i++) {
    nm_mail_store *store = mail_open(mail_path());
    nm_mail_write own = mail_letter(ME, PEER, 50, "letter");
    nm_mail_write large = mail_received(ME, PEER, 51, "different text");
    NM_CHECK_OK(mail_apply(store, &own));
    NM_CHECK_OK(mail_apply(store, &large));
    fill(store, 0, 3);
    mail_check(store);
    NM_CHECK_OK(nm_mail_exec(store, damages[i]));
    nm_buffer report;
    nm_buffer_init(&report, &nm_mem_system, NULL, 0, 0);
    nm_test_context("%s", damages[i]);
    NM_CHECK_STATUS(nm_mail_store_check(store, &report), NM_E(STORE));
    NM_CHECK(report.len > 10);
    NM_CHECK(nm_mail_store_trouble(store)->damaged);
    nm_buffer_dispose(&report);
    nm_mail_store_close(store);
  }
  nm_test_context("%s", "");
}

/* ---- no room ---- */

NM_TEST(mail_that_finds_no_room_is_not_taken) {
  nm_mail_store *store = mail_open(mail_path());
  fill(store, 0, 3);
  NM_CHECK_OK(nm_mail_exec(store, "PRAGMA max_page_count = 60"));
  uint32_t taken = 3;
  int status = NM_OK;
  while (status == NM_OK) {
    NM_CHECK(taken < 5000);
    nm_mail_write batch[3] = {mail_received(ME, PEER, taken, "more"),
                              mail_received(ME, PEER, taken, "more"),
                              mail_received(ME, PEER, taken + 1, "more")};
    status = nm_mail_store_apply(store, batch, 3);
    NM_CHECK_STATUS(batch[2].status, status);
    taken += status == NM_OK ? 2 : 0;
  }
  NM_CHECK_STATUS(status, NM_E(FULL));
  NM_CHECK(strstr(nm_mail_store_trouble(store)->text, NM_MAIL_FILE) != NULL);
  NM_CHECK_INT(mail_figures(store).messages, taken);
  mail_check(store);
  NM_CHECK_OK(nm_mail_exec(store, "PRAGMA max_page_count = 100000"));
  fill(store, taken, 3);
  NM_CHECK_INT(mail_figures(store).messages, taken + 3);
  nm_mail_store_close(store);
}

/* In a child: writes until the system lets it write no more. */
static void write_to_the_limit(const char *path, int report) {
  struct rlimit limit = {.rlim_cur = 300000, .rlim_max = RLIM_INFINITY};
  (void)signal(SIGXFSZ, SIG_IGN);
  nm_mail_store *store = mail_open(path);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
    _exit(1);
  }
  for (uint32_t i = 0; i < 5000; i++) {
    nm_mail_write w = mail_received(ME, PEER, i, "until it is full");
    int status = nm_mail_store_apply(store, &w, 1);
    if (status != NM_OK) {
      _exit(status == NM_E(FULL) ? 0 : 2);
    }
    if (write(report, &i, sizeof(i)) != sizeof(i)) {
      _exit(3);
    }
  }
  _exit(4);
}

static uint32_t read_last(int fd, uint32_t before) {
  uint32_t last = before;
  uint32_t next = 0;
  while (read(fd, &next, sizeof(next)) == (ssize_t)sizeof(next)) {
    last = next;
  }
  return last;
}

NM_TEST(mail_on_a_full_device_keeps_what_was_acknowledged) {
  const char *path = mail_path();
  int ends[2];
  NM_CHECK(pipe(ends) == 0);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    write_to_the_limit(path, ends[1]);
  }
  close(ends[1]);
  uint32_t last = read_last(ends[0], 0);
  close(ends[0]);
  int how = 0;
  NM_CHECK(waitpid(child, &how, 0) == child);
  NM_CHECK(WIFEXITED(how));
  NM_CHECK_INT(WEXITSTATUS(how), 0);
  nm_mail_store *store = mail_open(path);
  NM_CHECK_INT(mail_figures(store).messages, last + 1);
  mail_check(store);
  fill(store, last + 1, 2);
  nm_mail_store_close(store);
}

NM_TEST(mail_in_a_folder_that_cannot_be_written_is_told) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 1);
  nm_mail_store_close(store);
  char *folder = nm_test_scratch(512);
  (void)snprintf(folder, 512, "%s", path);
  *strrchr(folder, '/') = '\0';
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    bool lowered = chmod(folder, 0555) == 0 && chmod(path, 0444) == 0 &&
                   (getuid() != 0 || setuid(65534) == 0);
    nm_mail_trouble trouble = {0};
    nm_mail_store *other = NULL;
    int status =
        nm_mail_store_open(&nm_mem_system, path, NULL, &other, &trouble);
    bool told = status == NM_E(STORE) && strstr(trouble.text, path) != NULL;
    status = nm_mail_store_open(&nm_mem_system, mail_beside(folder, "/new.db"),
                                NULL, &other, &trouble);
    told = told && status == NM_E(STORE) && trouble.os_error == EACCES;
    _exit(!lowered ? 2 : told ? 0 : 1);
  }
  int how = 0;
  NM_CHECK(waitpid(child, &how, 0) == child);
  (void)chmod(folder, 0700);
  NM_CHECK(WIFEXITED(how));
  NM_CHECK_INT(WEXITSTATUS(how), 0);
}

/* ---- other connections ---- */

NM_TEST(mail_waits_for_another_writer_and_no_longer) {
  const char *path = mail_path();
  nm_mail_store *first = mail_open(path);
  fill(first, 0, 2);
  nm_mail_options options = {.busy_ms = 20};
  nm_mail_store *second = NULL;
  NM_CHECK_OK(
      nm_mail_store_open(&nm_mem_system, path, &options, &second, NULL));
  NM_CHECK_OK(nm_mail_exec(first, "BEGIN IMMEDIATE"));
  nm_mail_write w = mail_received(ME, PEER, 5, "late");
  NM_CHECK_STATUS(nm_mail_store_apply(second, &w, 1), NM_E(TIMEOUT));
  NM_CHECK_STATUS(w.status, NM_E(TIMEOUT));
  NM_CHECK_INT(mail_count(second, &(nm_mail_query){0}), 2);
  NM_CHECK_INT(mail_hits(second, 0, "words"), 2);
  NM_CHECK_OK(nm_mail_exec(first, "COMMIT"));
  NM_CHECK_OK(mail_apply(second, &w));
  NM_CHECK_INT(mail_count(first, &(nm_mail_query){0}), 3);
  nm_mail_store_close(first);
  nm_mail_store_close(second);
}

#define RACE_WRITES 200

typedef struct racer {
  const char *path;
  uint8_t mailbox;
  atomic_bool *stop;
  uint64_t done;
  int status;
} racer;

static void *write_race(void *user) {
  racer *r = user;
  nm_mail_store *store = NULL;
  r->status = nm_mail_store_open(&nm_mem_system, r->path, NULL, &store, NULL);
  for (uint32_t i = 0; i < RACE_WRITES && r->status == NM_OK; i++) {
    nm_lxmf_draft draft = {.destination = mail_hash(r->mailbox),
                           .source = mail_hash(PEER),
                           .timestamp = i,
                           .content = nm_span_of("raced", 5)};
    uint8_t packed[256];
    static const uint8_t signature[NM_SIGNATURE_SIZE];
    nm_writer out = nm_writer_of(packed, sizeof(packed));
    nm_mail_write w = {.kind = NM_MAIL_WRITE_RECEIVED,
                       .mailbox = draft.destination};
    r->status = nm_lxmf_encode(&draft, signature, &out);
    nm_lxmf_draft_id(&draft, w.id);
    w.packed = nm_writer_done(&out);
    if (r->status == NM_OK) {
      r->status = nm_mail_store_apply(store, &w, 1);
    }
    r->status = r->status != NM_OK ? r->status : w.status;
  }
  nm_mail_store_close(store);
  return NULL;
}

/* What was there once stays there, and counts agree with rows. */
static void *read_race(void *user) {
  racer *r = user;
  nm_mail_store *store = NULL;
  nm_destination_hash mailbox = mail_hash(r->mailbox);
  nm_mail_search search = {.mailbox = &mailbox, .text = nm_span_of("raced", 5)};
  r->status = nm_mail_store_open(&nm_mem_system, r->path, NULL, &store, NULL);
  uint64_t before = 0;
  do {
    nm_mail_hit hit;
    nm_mail_talk talk = {0};
    size_t count = 0;
    if (r->status == NM_OK) {
      r->status = nm_mail_store_talks(store, &mailbox, 0, &talk, 1, &count);
    }
    if (r->status == NM_OK &&
        (talk.count < before || talk.count != talk.unread)) {
      r->status = NM_E(MISMATCH);
    }
    before = talk.count;
    if (r->status == NM_OK) {
      r->status = nm_mail_store_search(store, &search, &hit, 1, &count);
    }
    if (r->status == NM_OK && count > 0) {
      nm_mail_hit_dispose(&hit);
    }
    r->done++;
  } while (r->status == NM_OK && !atomic_load(r->stop));
  nm_mail_store_close(store);
  return NULL;
}

NM_TEST(mail_is_read_and_written_at_once) {
  const char *path = mail_path();
  nm_mail_store_close(mail_open(path));
  atomic_bool stop = false;
  racer racers[4];
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) {
    racers[i] =
        (racer){.path = path, .mailbox = (uint8_t)(ME + i % 2), .stop = &stop};
    NM_CHECK_INT(pthread_create(&threads[i], NULL,
                                i < 2 ? write_race : read_race, &racers[i]),
                 0);
  }
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  atomic_store(&stop, true);
  pthread_join(threads[2], NULL);
  pthread_join(threads[3], NULL);
  for (size_t i = 0; i < 4; i++) {
    NM_CHECK_OK(racers[i].status);
  }
  NM_CHECK(racers[2].done > 0 && racers[3].done > 0);
  nm_mail_store *store = mail_open(path);
  NM_CHECK_INT(mail_figures(store).messages, 2 * RACE_WRITES);
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_is_not_for_forked_children) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  fill(store, 0, 2);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    nm_mail_write w = mail_of_row(NM_MAIL_WRITE_ACK, 1);
    nm_mail_row row;
    bool refused = nm_mail_store_apply(store, &w, 1) == NM_E(STATE) &&
                   nm_mail_store_get(store, 1, true, &row) == NM_E(STATE);
    nm_mail_store_close(store);
    _exit(refused ? 0 : 1);
  }
  int how = 0;
  NM_CHECK(waitpid(child, &how, 0) == child);
  NM_CHECK(WIFEXITED(how));
  NM_CHECK_INT(WEXITSTATUS(how), 0);
  fill(store, 2, 2);
  NM_CHECK_INT(mail_figures(store).messages, 4);
  nm_mail_store_close(store);
}

/* ---- no memory ---- */

typedef struct memory_case {
  const char *path;
  nm_span odd; /* text that is not UTF-8 */
} memory_case;

static int use_all(nm_mail_store *store, const memory_case *m) {
  mail_text text = {.mailbox = mail_hash(ME),
                    .peer = mail_hash(PEER),
                    .title = "\xFF odd",
                    .content = m->odd};
  nm_mail_write batch[4] = {{.kind = NM_MAIL_WRITE_QUOTA,
                             .mailbox = mail_hash(ME),
                             .u.quota = {.rows = 100}},
                            mail_received(ME, PEER, 1, "even"),
                            mail_letter(ME, PEER, 2, "letter"),
                            mail_received(ME, PEER, 3, "odd")};
  batch[2].sealed = nm_span_of("sealed", 6);
  batch[3].packed = mail_pack(&text, batch[3].id);
  int status = nm_mail_store_apply(store, batch, 4);
  nm_mail_row rows[4];
  size_t count = 0;
  nm_mail_query all = {.bodies = true};
  if (status == NM_OK) {
    status = nm_mail_store_list(store, &all, rows, 4, &count);
  }
  for (size_t i = 0; i < count; i++) {
    nm_mail_row_dispose(&rows[i]);
  }
  nm_mail_hit hits[4];
  nm_mail_search search = {.text = nm_span_of("odd", 3)};
  count = 0;
  if (status == NM_OK) {
    status = nm_mail_store_search(store, &search, hits, 4, &count);
  }
  for (size_t i = 0; i < count; i++) {
    nm_mail_hit_dispose(&hits[i]);
  }
  nm_mail_letter letter;
  count = 0;
  if (status == NM_OK) {
    status = nm_mail_store_letters(store, NULL, 0, &letter, 1, &count);
  }
  if (count > 0) {
    nm_mail_letter_dispose(&letter);
  }
  nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, batch[3].row);
  return status == NM_OK ? nm_mail_store_apply(store, &gone, 1) : status;
}

static int run_without_memory(const nm_mem *mem, void *user) {
  const memory_case *m = user;
  static const char *const files[] = {"", "-wal", "-shm"};
  for (size_t i = 0; i < 3; i++) {
    (void)unlink(mail_beside(m->path, files[i]));
  }
  nm_mail_store *store = NULL;
  int status = nm_mail_store_open(mem, m->path, NULL, &store, NULL);
  if (status == NM_OK) {
    status = use_all(store, m);
  }
  nm_mail_store_close(store);
  return status;
}

NM_TEST(mail_without_memory_is_not_taken) {
  uint8_t *odd = nm_test_scratch(3000);
  memset(odd, 0xFE, 3000);
  memory_case m = {.path = mail_path(), .odd = nm_span_of(odd, 3000)};
  size_t allocations = nm_test_fail_each(run_without_memory, &m);
  NM_CHECK(allocations > 12);
}

/* ---- kill ---- */

#define BATCH_MAX 8
#define READ_BEHIND 10

/* In a child: writes message after message, marks the one READ_BEHIND before
 * each as read in the same transaction, and reports what is durable. Begins
 * again a few messages before where it was, as senders do. */
static void write_until_killed(const char *path, uint32_t from, int report) {
  nm_mail_store *store = mail_open(path);
  nm_destination_hash me = mail_hash(ME);
  for (uint32_t i = from > 5 ? from - 5 : 0;;) {
    nm_mail_write batch[2 * BATCH_MAX];
    size_t count = 0;
    uint32_t size = 1 + i % BATCH_MAX;
    for (uint32_t k = 0; k < size; k++, i++) {
      batch[count++] = mail_received(ME, PEER, i, "endures");
      nm_mail_row row;
      nm_mail_write old = mail_received(
          ME, PEER, i < READ_BEHIND ? 0 : i - READ_BEHIND, "endures");
      if (i >= READ_BEHIND &&
          nm_mail_store_find(store, &me, old.id, false, &row) == NM_OK) {
        batch[count++] = mail_of_row(NM_MAIL_WRITE_ACK, row.row);
      }
    }
    if (nm_mail_store_apply(store, batch, count) != NM_OK) {
      _exit(1);
    }
    if (write(report, &i, sizeof(i)) != sizeof(i)) {
      _exit(2);
    }
  }
}

static void check_survivors(const char *path, uint32_t acknowledged) {
  nm_mail_store *store = mail_open(path);
  uint64_t messages = mail_figures(store).messages;
  NM_CHECK(messages >= acknowledged);
  NM_CHECK(messages <= acknowledged + BATCH_MAX);
  nm_mail_query unread = {.direction = NM_MAIL_INCOMING, .open = true};
  NM_CHECK_INT(mail_count(store, &unread),
               messages < READ_BEHIND ? messages : READ_BEHIND);
  nm_mail_row row;
  uint32_t first = acknowledged > 40 ? acknowledged - 40 : 0;
  for (uint32_t i = first; i < messages; i++) {
    nm_mail_write w = mail_received(ME, PEER, i, "endures");
    NM_CHECK_OK(nm_mail_store_find(store, NULL, w.id, true, &row));
    NM_CHECK_SPAN(nm_block_span(row.packed), w.packed);
    nm_mail_row_dispose(&row);
  }
  nm_mail_store_close(store);
}

/* How many messages were acknowledged when the child was killed. */
static uint32_t kill_one(const char *path, uint32_t acknowledged) {
  int ends[2];
  NM_CHECK(pipe(ends) == 0);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    write_until_killed(path, acknowledged, ends[1]);
  }
  close(ends[1]);
  /* Some time after its first commit of something new, or before that. */
  uint32_t told = 0;
  bool early = nm_test_below(8) == 0;
  while (!early && told <= acknowledged) {
    NM_CHECK(read(ends[0], &told, sizeof(told)) == (ssize_t)sizeof(told));
  }
  (void)usleep(nm_test_below(12000));
  NM_CHECK(kill(child, SIGKILL) == 0);
  int how = 0;
  NM_CHECK(waitpid(child, &how, 0) == child);
  NM_CHECK(WIFSIGNALED(how));
  told = read_last(ends[0], told);
  close(ends[0]);
  return told > acknowledged ? told : acknowledged;
}

NM_TEST(mail_outlives_kills_at_any_moment) {
  const char *path = mail_path();
  const char *wanted = getenv("NETMESH_KILLS");
  int kills = wanted != NULL ? atoi(wanted) : 60;
  uint32_t acknowledged = 0;
  for (int i = 0; i < kills; i++) {
    nm_test_context("kill %d of %d after %u", i, kills, acknowledged);
    acknowledged = kill_one(path, acknowledged);
    check_survivors(path, acknowledged);
    /* What the last one had written but not told of is there, too. */
    nm_mail_store *store = mail_open(path);
    acknowledged = (uint32_t)mail_figures(store).messages;
    nm_mail_store_close(store);
  }
  nm_test_context("%s", "");
  NM_CHECK(acknowledged > (uint32_t)kills / 2);
  nm_mail_store *store = mail_open(path);
  mail_check(store);
  nm_mail_store_close(store);
}
