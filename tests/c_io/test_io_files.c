/* Files as the content of resources: each call that the system may refuse. */
#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t hash[NM_HASH_SIZE] = {0xab, 0xcd};

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static bool exists(const char *folder, const char *name) {
  char path[512];
  struct stat info;
  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  return lstat(path, &info) == 0;
}

#define PART ".abcd0000000000000000000000000000.part"

/* Writes two pieces and finishes; the first error. */
static int store_two(const char *folder, const char *name, nm_span metadata,
                     nm_block **place) {
  int error = 0;
  nm_shelf *shelf =
      nm_file_shelf(&nm_mem_system, folder, text(name), false, &error);
  NM_CHECK_INT(error, 0);
  nm_sink *sink = shelf->place(shelf, hash, 8, text("peer"));
  nm_shelf_drop(shelf);
  int status = sink->write(sink, 0, text("one "));
  if (status == NM_OK) {
    NM_CHECK(exists(folder, PART));
    status = sink->write(sink, 4, text("two."));
  }
  if (status == NM_OK) {
    status = sink->finish(sink, 8, metadata, place);
  }
  nm_sink_drop(sink);
  NM_CHECK(!exists(folder, PART));
  return status;
}

NM_TEST(a_sink_names_its_file_and_says_where_it_is) {
  const char *folder = io_folder();
  nm_block *place = NULL;
  char expected[512];
  NM_CHECK_OK(store_two(folder, "",
                        text("\x81\xa4name\xa5"
                             "a.txt"),
                        &place));
  (void)snprintf(expected, sizeof(expected), "%s/a.txt", folder);
  NM_CHECK_SPAN(nm_block_span(place), text(expected));
  nm_block_drop(place);
  NM_CHECK_OK(store_two(folder, "",
                        text("\x81\xa4name\xa5"
                             "a.txt"),
                        &place));
  NM_CHECK(exists(folder, "a-1.txt"));
  nm_block_drop(place);
  NM_CHECK_OK(store_two(folder, "a.txt", nm_span_of(NULL, 0), &place));
  NM_CHECK(!exists(folder, "a-2.txt"));
  nm_block_drop(place);
  NM_CHECK_OK(store_two(folder, "", text("\xc1"), &place));
  NM_CHECK(exists(folder, "abcd0000000000000000000000000000"));
  nm_block_drop(place);
}

NM_TEST(every_refused_call_is_told_apart_and_leaves_nothing) {
  static const struct {
    fault_call call;
    unsigned at;
    int error;
    int status;
  } cases[] = {
      {FAULT_openat, 1, ENOSPC, NM_E(FULL)},
      {FAULT_openat, 1, EACCES, NM_E(STORE)},
      {FAULT_write, 1, ENOSPC, NM_E(FULL)},
      {FAULT_write, 2, EIO, NM_E(STORE)},
      {FAULT_write, 2, EDQUOT, NM_E(FULL)},
      {FAULT_fsync, 1, EIO, NM_E(STORE)},
      {FAULT_renameat, 1, ENOSPC, NM_E(FULL)},
  };
  if (!fault_available()) {
    return;
  }
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const char *folder = io_folder();
    nm_block *place = NULL;
    nm_test_context("%s number %u fails", fault_name(cases[i].call),
                    cases[i].at);
    fault_reset();
    fault_arm(cases[i].call, cases[i].at, cases[i].error, false);
    int status = store_two(folder, "file", nm_span_of(NULL, 0), &place);
    fault_reset();
    NM_CHECK_STATUS(status, cases[i].status);
    NM_CHECK(place == NULL);
    NM_CHECK(!exists(folder, "file"));
  }
}

NM_TEST(a_source_reads_its_part_of_a_file_and_notices_its_end) {
  const char *folder = io_folder();
  char path[512];
  uint8_t got[4];
  int error = 0;
  (void)snprintf(path, sizeof(path), "%s/in", folder);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  NM_CHECK(fd >= 0);
  NM_CHECK(write(fd, "0123456789", 10) == 10);
  nm_source *source = nm_file_source(&nm_mem_system, fd, 2, 6, &error);
  NM_CHECK(source != NULL);
  close(fd);
  NM_CHECK_OK(source->read(source, 1, got, 4));
  NM_CHECK_SPAN(nm_span_of(got, 4), text("3456"));
  NM_CHECK_STATUS(source->read(source, 6, got, 4), NM_E(TRUNCATED));
  nm_source_drop(source);
  NM_CHECK(nm_file_source(&nm_mem_system, -1, 0, 1, &error) == NULL);
  NM_CHECK_INT(error, -EBADF);
}

NM_TEST(a_shelf_refuses_what_is_no_folder_or_no_name) {
  int error = 0;
  const char *folder = io_folder();
  NM_CHECK(nm_file_shelf(&nm_mem_system, "/nowhere", text(""), false, &error) ==
           NULL);
  NM_CHECK_INT(error, -ENOENT);
  NM_CHECK(nm_file_shelf(&nm_mem_system, folder, text("a/b"), false, &error) ==
           NULL);
  NM_CHECK_INT(error, -EINVAL);
}
