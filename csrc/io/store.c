/* Files of one storage directory.
 */
#include "crypto/entropy.h"
#include "io/store_inner.h"
#include "io/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE_MAX 1000

static const char *const folder_names[NM_FOLDER_COUNT] = {
    [NM_FOLDER_TOP] = ".",
    [NM_FOLDER_RATCHETS] = "ratchets",
    [NM_FOLDER_ANNOUNCED] = "announced",
    [NM_FOLDER_CHANGES] = "changes"};

static int fault_of(nm_node_fault *fault, int status, int os_error,
                    const char *path) {
  fault->status = status;
  fault->os_error = os_error;
  (void)snprintf(fault->path, sizeof(fault->path), "%s", path);
  return status;
}

/* ---- opening ---- */

/* Makes |path| and what is missing above it. */
static int make_folders(const char *path) {
  char part[4096];
  size_t len = strlen(path);
  if (len == 0 || len >= sizeof(part)) {
    return len == 0 ? ENOENT : ENAMETOOLONG;
  }
  for (size_t i = 1; i <= len; i++) {
    if (path[i] != '/' && path[i] != '\0') {
      continue;
    }
    memcpy(part, path, i);
    part[i] = '\0';
    if (mkdir(part, 0700) != 0 && errno != EEXIST) {
      return errno;
    }
  }
  return 0;
}

static int open_folder(int at, const char *name) {
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Which folder a file lies in; |leaf| is its name there. */
static nm_store_folder folder_of(const char *name, const char **leaf) {
  *leaf = name;
  for (int i = NM_FOLDER_RATCHETS; i < NM_FOLDER_COUNT; i++) {
    size_t len = strlen(folder_names[i]);
    if (strncmp(name, folder_names[i], len) == 0 && name[len] == '/') {
      *leaf = &name[len + 1];
      return (nm_store_folder)i;
    }
  }
  return NM_FOLDER_TOP;
}

static int open_all(nm_store *store, const char *path, nm_node_fault *fault) {
  store->folders[NM_FOLDER_TOP] = open_folder(AT_FDCWD, path);
  int top = store->folders[NM_FOLDER_TOP];
  if (top < 0) {
    return fault_of(fault, NM_E(LIBRARY), errno, path);
  }
  store->lock = openat(top, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (store->lock < 0) {
    return fault_of(fault, NM_E(LIBRARY), errno, "lock");
  }
  if (flock(store->lock, LOCK_EX | LOCK_NB) != 0) {
    int status = errno == EWOULDBLOCK ? NM_E(STATE) : NM_E(LIBRARY);
    return fault_of(fault, status, errno, "lock");
  }
  for (int i = NM_FOLDER_RATCHETS; i < NM_FOLDER_COUNT; i++) {
    if (mkdirat(top, folder_names[i], 0700) != 0 && errno != EEXIST) {
      return fault_of(fault, NM_E(LIBRARY), errno, folder_names[i]);
    }
    store->folders[i] = open_folder(top, folder_names[i]);
    if (store->folders[i] < 0) {
      return fault_of(fault, NM_E(LIBRARY), errno, folder_names[i]);
    }
  }
  return NM_OK;
}

int nm_store_open(const nm_mem *mem, const char *path, nm_store **out,
                  nm_node_fault *fault) {
  *out = NULL;
  int error = make_folders(path);
  if (error != 0) {
    return fault_of(fault, NM_E(LIBRARY), error, path);
  }
  nm_store *store = nm_alloc_zero(mem, 1, sizeof(*store));
  if (store == NULL) {
    return fault_of(fault, NM_E(MEMORY), 0, path);
  }
  store->mem = mem;
  store->lock = -1;
  store->fresh = -1;
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    store->files[i].changes = -1;
  }
  for (int i = 0; i < NM_FOLDER_COUNT; i++) {
    store->folders[i] = -1;
  }
  int status = open_all(store, path, fault);
  if (status != NM_OK) {
    nm_store_close(store);
    return status;
  }
  *out = store;
  return NM_OK;
}

void nm_store_close(nm_store *store) {
  if (store == NULL) {
    return;
  }
  for (int i = 0; i < NM_FOLDER_COUNT; i++) {
    nm_fd_close(store->folders[i]);
  }
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    nm_fd_close(store->files[i].changes);
  }
  nm_fd_close(store->fresh);
  nm_fd_close(store->lock);
  nm_release(store->mem, store);
}

/* ---- reading ---- */

static int read_all(int fd, uint8_t *to, size_t len) {
  size_t done = 0;
  while (done < len) {
    ssize_t got = read(fd, &to[done], len - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return NM_E(LIBRARY);
    }
    done += (size_t)got;
  }
  return NM_OK;
}

static int read_open(const nm_store *store, int fd, size_t size_max,
                     nm_block **bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return NM_E(LIBRARY);
  }
  if ((uint64_t)info.st_size > size_max) {
    return NM_E(TOO_LARGE);
  }
  nm_block *block = nm_block_new(store->mem, (size_t)info.st_size);
  if (block == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(block);
  int status = read_all(fd, nm_block_bytes(block), (size_t)info.st_size);
  if (status != NM_OK) {
    nm_block_drop(block);
    return status;
  }
  *bytes = block;
  return NM_OK;
}

int nm_store_read(nm_store *store, const char *name, size_t size_max,
                  nm_block **bytes) {
  const char *leaf;
  nm_store_folder in = folder_of(name, &leaf);
  *bytes = NULL;
  int fd = openat(store->folders[in], leaf,
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    return errno == ENOENT ? NM_E(MISSING) : NM_E(LIBRARY);
  }
  int status = read_open(store, fd, size_max, bytes);
  nm_fd_close(fd);
  return status;
}

void nm_store_set_aside(nm_store *store, const char *name) {
  const char *leaf;
  int at = store->folders[folder_of(name, &leaf)];
  char aside[NM_STORE_ROOM];
  struct stat ignored;
  atomic_fetch_add(&store->damaged, 1);
  for (int n = 1; n <= ASIDE_MAX; n++) {
    (void)snprintf(aside, sizeof(aside), "%s.damaged-%d", leaf, n);
    if (fstatat(at, aside, &ignored, AT_SYMLINK_NOFOLLOW) != 0 ||
        n == ASIDE_MAX) {
      (void)renameat(at, leaf, at, aside);
      return;
    }
  }
}

uint32_t nm_store_damaged(const nm_store *store) {
  return atomic_load(&store->damaged);
}

/* ---- writing ---- */

int nm_store_write_all(int fd, nm_span bytes) {
  size_t done = 0;
  while (done < bytes.len) {
    ssize_t put = write(fd, &bytes.ptr[done], bytes.len - done);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return -errno;
    }
    done += (size_t)put;
  }
  return 0;
}

int nm_store_sync_fd(int fd) {
#if defined(F_FULLFSYNC)
  if (fcntl(fd, F_FULLFSYNC) == 0) {
    return 0;
  }
#endif
  return fsync(fd) == 0 ? 0 : -errno;
}

static int fill_file(int fd, nm_span head, nm_span body) {
  int error = nm_store_write_all(fd, head);
  error = error != 0 ? error : nm_store_write_all(fd, body);
  error = error != 0 ? error : nm_store_sync_fd(fd);
  /* A failed close may be the first word of a failed write. */
  if (close(fd) != 0 && error == 0) {
    error = -errno;
  }
  return error;
}

int nm_store_write(nm_store *store, const char *name, nm_span head,
                   nm_span body) {
  const char *leaf;
  nm_store_folder in = folder_of(name, &leaf);
  int at = store->folders[in];
  char beside[NM_STORE_ROOM];
  (void)snprintf(beside, sizeof(beside), "%s.new", leaf);
  int fd = openat(at, beside,
                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return -errno;
  }
  int error = fill_file(fd, head, body);
  if (error == 0 && renameat(at, beside, at, leaf) != 0) {
    error = -errno;
  }
  if (error != 0) {
    (void)unlinkat(at, beside, 0);
    return error;
  }
  store->unsynced[in] = true;
  return 0;
}

/* Appended changes first: their directory may be new. */
static int sync_changes(nm_store *store) {
  int error = 0;
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    int *fd = &store->files[i].changes;
    if (*fd >= 0) {
      int failed = nm_store_sync_fd(*fd);
      error = error != 0 ? error : failed;
      nm_fd_close(*fd);
      *fd = -1;
    }
  }
  return error;
}

int nm_store_sync(nm_store *store) {
  int error = sync_changes(store);
  for (int i = 0; i < NM_FOLDER_COUNT; i++) {
    if (store->unsynced[i]) {
      int failed = nm_store_sync_fd(store->folders[i]);
      error = error != 0 ? error : failed;
      store->unsynced[i] = failed != 0;
    }
  }
  return error;
}

/* ---- the identity ---- */

int nm_store_identity(nm_store *store, uint8_t keys[NM_PRIVATE_SIZE],
                      int *aside, nm_node_fault *fault) {
  nm_block *bytes = NULL;
  *aside = NM_OK;
  int status = nm_store_read(store, "identity", NM_PRIVATE_SIZE, &bytes);
  if (status == NM_OK && nm_block_span(bytes).len == NM_PRIVATE_SIZE) {
    memcpy(keys, nm_block_span(bytes).ptr, NM_PRIVATE_SIZE);
    nm_block_drop(bytes);
    return NM_OK;
  }
  nm_block_drop(bytes);
  if (status == NM_E(MEMORY)) {
    return fault_of(fault, status, 0, "identity");
  }
  if (status != NM_E(MISSING)) {
    nm_store_set_aside(store, "identity");
    *aside = status == NM_OK ? NM_E(LENGTH) : status;
  }
  status = nm_entropy_fill(&nm_entropy_system, keys, NM_PRIVATE_SIZE);
  if (status != NM_OK) {
    return fault_of(fault, status, 0, "identity");
  }
  int error = nm_store_write(store, "identity", nm_span_of(NULL, 0),
                             nm_span_of(keys, NM_PRIVATE_SIZE));
  error = error != 0 ? error : nm_store_sync(store);
  return error == 0 ? NM_OK
                    : fault_of(fault, NM_E(LIBRARY), -error, "identity");
}
