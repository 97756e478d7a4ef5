#include "io/partials.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "crypto/hash.h"
#include "io/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX ".netmesh-"
#define SUFFIX ".part"
#define HEX_DIGITS (2 * NM_ADDRESS_SIZE)

void nm_partial_name(nm_span peer, uint64_t size,
                     char name[NM_PARTIAL_NAME_MAX]) {
  uint8_t bytes[8];
  uint8_t digest[NM_HASH_SIZE];
  char hex[HEX_DIGITS + 1];
  nm_sha256_ctx ctx;
  nm_writer w = nm_writer_of(bytes, sizeof(bytes));
  nm_writer_u64(&w, size);
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, peer);
  nm_sha256_update(&ctx, nm_writer_done(&w));
  nm_sha256_final(&ctx, digest);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    (void)snprintf(&hex[2 * i], 3, "%02x", digest[i]);
  }
  (void)snprintf(name, NM_PARTIAL_NAME_MAX, PREFIX "%s" SUFFIX, hex);
}

static bool is_partial(const char *name) {
  const size_t lead = sizeof(PREFIX) - 1;
  return strlen(name) == lead + HEX_DIGITS + sizeof(SUFFIX) - 1 &&
         strncmp(name, PREFIX, lead) == 0 &&
         strspn(name + lead, "0123456789abcdef") == HEX_DIGITS &&
         strcmp(name + lead + HEX_DIGITS, SUFFIX) == 0;
}

/* ---- one ---- */

/* Whether |fd| is what |name| is, locked now, and a file of our own. */
static bool is_ours(int folder, const char *name, int fd, struct stat *found) {
  struct stat there;
  return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, found) == 0 &&
         fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         there.st_ino == found->st_ino && there.st_dev == found->st_dev &&
         S_ISREG(found->st_mode) && found->st_uid == geteuid() &&
         found->st_nlink == 1;
}

static bool is_old(const struct stat *found) {
  time_t now = time(NULL);
  return found->st_mtime + (time_t)NM_PARTIALS_AGE_S < now ||
         found->st_mtime > now + (time_t)NM_PARTIALS_AGE_S;
}

int nm_partial_open(int folder, const char *name, uint64_t size,
                    uint64_t *held) {
  struct stat found;
  int fd = openat(
      folder, name,
      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
  if (fd < 0) {
    return -1;
  }
  if (!is_ours(folder, name, fd, &found)) {
    nm_fd_close(fd);
    return -1;
  }
  *held = is_old(&found) || (uint64_t)found.st_size > size
              ? 0
              : (uint64_t)found.st_size;
  return fd;
}

#define PIECE (1u << 18)

int nm_partial_hash(int fd, uint64_t len, nm_span salt,
                    uint8_t digest[NM_HASH_SIZE]) {
  uint8_t *piece = nm_alloc(&nm_mem_system, PIECE);
  if (piece == NULL) {
    return NM_E(MEMORY);
  }
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, salt);
  uint64_t at = 0;
  int status = NM_OK;
  while (at < len && status == NM_OK) {
    size_t want = len - at < PIECE ? (size_t)(len - at) : PIECE;
    ssize_t got = pread(fd, piece, want, (off_t)at);
    if (got > 0) {
      nm_sha256_update(&ctx, nm_span_of(piece, (size_t)got));
      at += (uint64_t)got;
    } else if (got == 0 || errno != EINTR) {
      status = NM_E(STORE);
    }
  }
  nm_sha256_final(&ctx, digest);
  nm_wipe(piece, PIECE);
  nm_release(&nm_mem_system, piece);
  return status;
}

/* ---- all of them ---- */

/* More than may be kept: what is beyond goes with the next look. */
#define LOOK_MAX (4 * NM_PARTIALS_MAX)

typedef struct kept {
  char name[NM_PARTIAL_NAME_MAX];
  uint64_t bytes;
  time_t when;
} kept;

typedef struct kept_list {
  kept all[LOOK_MAX];
  size_t count;
  uint64_t bytes;
  uint32_t removed;
} kept_list;

/* Unless it is under way. */
static void remove_kept(int folder, const char *name, kept_list *list) {
  struct stat found;
  int fd =
      openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd >= 0) {
    if (is_ours(folder, name, fd, &found) && unlinkat(folder, name, 0) == 0) {
      list->removed++;
    }
    nm_fd_close(fd);
  }
}

static void look_at(int folder, const char *name, kept_list *list) {
  struct stat found;
  if (fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(found.st_mode)) {
    return;
  }
  if (is_old(&found)) {
    remove_kept(folder, name, list);
    return;
  }
  kept *one = &list->all[list->count++];
  memcpy(one->name, name, strlen(name) + 1);
  one->bytes = (uint64_t)found.st_size;
  one->when = found.st_mtime;
  list->bytes += one->bytes;
}

static void remove_oldest(int folder, kept_list *list) {
  size_t oldest = 0;
  for (size_t i = 1; i < list->count; i++) {
    oldest = list->all[i].when < list->all[oldest].when ? i : oldest;
  }
  remove_kept(folder, list->all[oldest].name, list);
  list->bytes -= list->all[oldest].bytes;
  list->all[oldest] = list->all[--list->count];
}

static void prune(int folder, const char *name, DIR *entries, kept_list *list) {
  const struct dirent *entry;
  while (list->count < LOOK_MAX && (entry = readdir(entries)) != NULL) {
    if (is_partial(entry->d_name) && strcmp(entry->d_name, name) != 0) {
      look_at(folder, entry->d_name, list);
    }
  }
  while (list->count > 0 &&
         (list->count >= NM_PARTIALS_MAX || list->bytes > NM_PARTIALS_BYTES)) {
    remove_oldest(folder, list);
  }
}

uint32_t nm_partials_prune(int folder, const char *name) {
  uint32_t removed = 0;
  kept_list *list = nm_alloc_zero(&nm_mem_system, 1, sizeof(*list));
  int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL && again >= 0) {
    nm_fd_close(again);
  }
  if (list != NULL && entries != NULL) {
    prune(folder, name, entries, list);
    removed = list->removed;
  }
  if (entries != NULL) {
    (void)closedir(entries);
  }
  nm_release(&nm_mem_system, list);
  return removed;
}
