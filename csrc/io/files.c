/* Files as the content of resources. */
#include "io/files.h"

#include "base/msgpack.h"
#include "io/partials.h"
#include "io/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading ---- */

typedef struct file_source {
  nm_source source;
  const nm_mem *mem;
  int fd;
  uint64_t offset;
} file_source;

static int read_file(nm_source *source, uint64_t offset, uint8_t *into,
                     size_t len) {
  const file_source *file = (file_source *)(void *)source;
  nm_writer w = nm_writer_of(into, len);
  while (nm_writer_left(&w) > 0) {
    size_t done = w.pos;
    uint64_t at = file->offset + offset + done;
    ssize_t got = pread(file->fd, &into[done], len - done, (off_t)at);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return got == 0 ? NM_E(TRUNCATED) : NM_E(STORE);
    }
    (void)nm_writer_reserve(&w, (size_t)got);
  }
  return NM_OK;
}

static void release_file(nm_source *source) {
  file_source *file = (file_source *)(void *)source;
  nm_fd_close(file->fd);
  nm_release(file->mem, file);
}

nm_source *nm_file_source(const nm_mem *mem, int fd, uint64_t offset,
                          uint64_t size, int *error) {
  file_source *file = nm_alloc_zero(mem, 1, sizeof(*file));
  if (file == NULL) {
    *error = -ENOMEM;
    return NULL;
  }
  file->mem = mem;
  file->offset = offset;
  file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (file->fd < 0) {
    *error = -errno;
    nm_release(mem, file);
    return NULL;
  }
  nm_source_init(&file->source, size, read_file, release_file);
  *error = 0;
  return &file->source;
}

/* ---- writing ---- */

/* Written data is synced after this much, so that the last sync is short. */
#define SYNC_EVERY (32u << 20)
#define NUMBERED_MAX 10000
/* Permissions that are not known yet. */
#define MODE_UNKNOWN 0xFFFFu

typedef struct file_shelf {
  nm_shelf shelf;
  const nm_mem *mem;
  int folder;
  bool resume;
  atomic_uint mode;                /* what new files in the folder get */
  char name[NM_FILE_NAME_MAX + 1]; /* or empty */
  nm_block *path;                  /* of the folder, for the place */
} file_shelf;

typedef struct file_sink {
  nm_sink sink;
  file_shelf *shelf;
  int fd;        /* -1: not made yet */
  bool lasting;  /* it is a partial: it may stay for another attempt */
  bool begun;    /* something was written in this one */
  uint64_t size; /* as advertised */
  uint64_t unsynced;
  bool named; /* it is complete and has its name */
  char part[NM_PARTIAL_NAME_MAX];
  char lasting_name[NM_PARTIAL_NAME_MAX];
  char hex[2 * NM_ADDRESS_SIZE + 1];
} file_sink;

static int status_of(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? NM_E(FULL)
                                                              : NM_E(STORE);
}

static int make_part(file_sink *sink) {
  if (sink->fd < 0) {
    sink->fd =
        openat(sink->shelf->folder, sink->part,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  return sink->fd < 0 ? status_of(errno) : NM_OK;
}

static int write_all(int fd, nm_span bytes) {
  nm_reader r = nm_reader_of(bytes);
  while (nm_reader_left(&r) > 0) {
    ssize_t done = write(fd, &bytes.ptr[r.pos], nm_reader_left(&r));
    if (done < 0 && errno != EINTR) {
      return status_of(errno);
    }
    (void)nm_reader_take(&r, done < 0 ? 0 : (size_t)done);
  }
  return NM_OK;
}

/* Each write follows the last one; the first one may follow what was kept. */
static int begin_at(file_sink *sink, uint64_t offset) {
  sink->begun = true;
  if (!sink->lasting) {
    return NM_OK;
  }
  return ftruncate(sink->fd, (off_t)offset) == 0 &&
                 lseek(sink->fd, (off_t)offset, SEEK_SET) == (off_t)offset
             ? NM_OK
             : status_of(errno);
}

static int write_part(nm_sink *base, uint64_t offset, nm_span bytes) {
  file_sink *sink = (file_sink *)(void *)base;
  int status = make_part(sink);
  if (status == NM_OK && !sink->begun) {
    status = begin_at(sink, offset);
  }
  if (status == NM_OK) {
    status = write_all(sink->fd, bytes);
  }
  sink->unsynced += bytes.len;
  if (status == NM_OK && sink->unsynced >= SYNC_EVERY) {
    sink->unsynced = 0;
    status = fdatasync(sink->fd) == 0 ? NM_OK : status_of(errno);
  }
  return status;
}

/* ---- what is kept ---- */

static int check_part(nm_sink *base, nm_span salt, nm_held *held) {
  file_sink *sink = (file_sink *)(void *)base;
  int folder = sink->shelf->folder;
  uint64_t bytes = 0;
  memset(held, 0, sizeof(*held));
  held->evicted = nm_partials_prune(folder, sink->lasting_name);
  sink->fd = nm_partial_open(folder, sink->lasting_name, sink->size, &bytes);
  if (sink->fd < 0) {
    return NM_OK; /* it is written as if it could not be resumed */
  }
  sink->lasting = true;
  memcpy(sink->part, sink->lasting_name, sizeof(sink->part));
  int status = nm_partial_hash(sink->fd, bytes, salt, held->digest);
  held->bytes = status == NM_OK ? bytes : 0;
  return status;
}

/* The permissions that a new file gets here: a partial has others. */
static int usual_mode(file_shelf *shelf, const char *part) {
  unsigned mode = atomic_load(&shelf->mode);
  if (mode == MODE_UNKNOWN) {
    char probe[NM_PARTIAL_NAME_MAX + 8];
    struct stat found;
    (void)snprintf(probe, sizeof(probe), "%s.mode", part);
    int fd = openat(shelf->folder, probe,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
      return status_of(errno);
    }
    int status = fstat(fd, &found) == 0 ? NM_OK : NM_E(STORE);
    nm_fd_close(fd);
    (void)unlinkat(shelf->folder, probe, 0);
    if (status != NM_OK) {
      return status;
    }
    mode = found.st_mode & 0777;
    atomic_store(&shelf->mode, mode);
  }
  return (int)mode;
}

/* A partial becomes a usual file of |size| bytes. */
static int make_usual(file_sink *sink, uint64_t size) {
  int mode = usual_mode(sink->shelf, sink->part);
  if (mode < 0) {
    return mode;
  }
  int status = sink->begun ? NM_OK : begin_at(sink, size);
  if (status == NM_OK && fchmod(sink->fd, (mode_t)mode) != 0) {
    status = status_of(errno);
  }
  return status;
}

/* ---- names ---- */

/* The value of "name" in packed metadata; empty without one. */
static nm_span name_in(nm_span metadata) {
  nm_reader r = nm_reader_of(metadata);
  nm_mp_item map;
  if (nm_mp_read(&r, &map) != NM_OK || map.type != NM_MP_MAP) {
    return nm_span_of(NULL, 0);
  }
  for (uint32_t i = 0; i < map.count; i++) {
    nm_mp_item key;
    size_t at = r.pos;
    bool is_name = nm_mp_read(&r, &key) == NM_OK &&
                   (key.type == NM_MP_STR || key.type == NM_MP_BIN) &&
                   nm_span_equal(key.data, nm_span_of("name", 4));
    nm_mp_item value;
    if (is_name) {
      bool text = nm_mp_read(&r, &value) == NM_OK &&
                  (value.type == NM_MP_STR || value.type == NM_MP_BIN);
      return text ? value.data : nm_span_of(NULL, 0);
    }
    r.pos = at;
    if (nm_mp_skip(&r, &nm_mp_limits_default) != NM_OK ||
        nm_mp_skip(&r, &nm_mp_limits_default) != NM_OK) {
      break;
    }
  }
  return nm_span_of(NULL, 0);
}

/* A name that a peer gave, as one that is safe in a folder; empty when nothing
 * is left of it. */
static void tame(nm_span given, char out[NM_FILE_NAME_MAX + 1]) {
  size_t begin = 0;
  for (size_t i = 0; i < given.len; i++) {
    if (given.ptr[i] == '/' || given.ptr[i] == '\\') {
      begin = i + 1;
    }
  }
  while (begin < given.len && given.ptr[begin] == '.') {
    begin++;
  }
  size_t len = 0;
  for (size_t i = begin; i < given.len && len < NM_FILE_NAME_MAX; i++) {
    uint8_t c = given.ptr[i];
    out[len++] = c < 0x20 || c == 0x7f ? '_' : (char)c;
  }
  out[len] = '\0';
}

/* "stem-NUMBER.suffix"; a suffix is short and not all of the name. */
static void number_name(const char *name, unsigned number,
                        char out[NM_FILE_NAME_MAX + 16]) {
  const char *dot = strrchr(name, '.');
  if (dot == NULL || dot == name || strlen(dot) > 16) {
    dot = name + strlen(name);
  }
  (void)snprintf(out, NM_FILE_NAME_MAX + 16, "%.*s-%u%s", (int)(dot - name),
                 name, number, dot);
}

/* Gives the part |name| unless that is taken: 0 or an errno. Where there are no
 * hard links another file of that name may slip in between. */
static int name_part(const file_sink *sink, const char *name) {
  int folder = sink->shelf->folder;
  if (linkat(folder, sink->part, folder, name, 0) == 0) {
    (void)unlinkat(folder, sink->part, 0);
    return 0;
  }
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
    return errno;
  }
  struct stat there;
  if (fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
    return EEXIST;
  }
  return renameat(folder, sink->part, folder, name) == 0 ? 0 : errno;
}

static int name_freely(const file_sink *sink, nm_span metadata,
                       char out[NM_FILE_NAME_MAX + 16]) {
  char name[NM_FILE_NAME_MAX + 1];
  tame(name_in(metadata), name);
  if (name[0] == '\0') {
    memcpy(name, sink->hex, sizeof(sink->hex));
  }
  (void)snprintf(out, NM_FILE_NAME_MAX + 16, "%s", name);
  int error = name_part(sink, out);
  for (unsigned i = 1; error == EEXIST && i < NUMBERED_MAX; i++) {
    number_name(name, i, out);
    error = name_part(sink, out);
  }
  return error;
}

static nm_block *place_of(const file_shelf *shelf, const char *name) {
  nm_span folder = nm_block_span(shelf->path);
  size_t len = folder.len + 1 + strlen(name);
  nm_block *place = nm_block_new(shelf->mem, len);
  if (place != NULL) {
    nm_writer w = nm_writer_of(nm_block_bytes(place), len);
    nm_writer_span(&w, folder);
    nm_writer_u8(&w, '/');
    nm_writer_put(&w, name, strlen(name));
  }
  return place;
}

static int finish_part(nm_sink *base, uint64_t size, nm_span metadata,
                       nm_block **place) {
  file_sink *sink = (file_sink *)(void *)base;
  file_shelf *shelf = sink->shelf;
  char name[NM_FILE_NAME_MAX + 16];
  int status = make_part(sink); /* nothing was written to an empty one */
  if (status == NM_OK && sink->lasting) {
    status = make_usual(sink, size);
  }
  if (status != NM_OK) {
    return status;
  }
  if (fsync(sink->fd) != 0) {
    return status_of(errno);
  }
  int error;
  if (shelf->name[0] != '\0') {
    (void)snprintf(name, sizeof(name), "%s", shelf->name);
    error = renameat(shelf->folder, sink->part, shelf->folder, name) == 0
                ? 0
                : errno;
  } else {
    error = name_freely(sink, metadata, name);
  }
  if (error != 0) {
    return status_of(error);
  }
  sink->named = true;
  if (fsync(shelf->folder) != 0) {
    return status_of(errno);
  }
  *place = place_of(shelf, name);
  return *place == NULL ? NM_E(MEMORY) : NM_OK;
}

static void release_part(nm_sink *base) {
  file_sink *sink = (file_sink *)(void *)base;
  file_shelf *shelf = sink->shelf;
  if (sink->fd >= 0) {
    if (!sink->named && !(sink->lasting && base->keep)) {
      (void)unlinkat(shelf->folder, sink->part, 0);
    }
    nm_fd_close(sink->fd); /* a partial is locked until here */
  }
  nm_release(shelf->mem, sink);
  nm_shelf_drop(&shelf->shelf);
}

/* ---- the shelf ---- */

static nm_sink *place_part(nm_shelf *base, const uint8_t hash[NM_HASH_SIZE],
                           uint64_t size, nm_span peer) {
  file_shelf *shelf = (file_shelf *)(void *)base;
  file_sink *sink = nm_alloc_zero(shelf->mem, 1, sizeof(*sink));
  if (sink == NULL) {
    return NULL;
  }
  atomic_init(&sink->sink.references, 1);
  sink->sink.write = write_part;
  sink->sink.finish = finish_part;
  sink->sink.release = release_part;
  sink->shelf = shelf;
  sink->sink.check = shelf->resume ? check_part : NULL;
  sink->fd = -1;
  sink->size = size;
  (void)nm_shelf_hold(base);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    (void)snprintf(&sink->hex[2 * i], 3, "%02x", hash[i]);
  }
  (void)snprintf(sink->part, sizeof(sink->part), ".%s.part", sink->hex);
  nm_partial_name(peer, size, sink->lasting_name);
  return &sink->sink;
}

static void release_shelf(nm_shelf *base) {
  file_shelf *shelf = (file_shelf *)(void *)base;
  if (shelf->folder >= 0) {
    nm_fd_close(shelf->folder);
  }
  nm_block_drop(shelf->path);
  nm_release(shelf->mem, shelf);
}

nm_shelf *nm_file_shelf(const nm_mem *mem, const char *folder, nm_span name,
                        bool resume, int *error) {
  if (name.len > NM_FILE_NAME_MAX ||
      (name.len > 0 && (memchr(name.ptr, '/', name.len) != NULL ||
                        memchr(name.ptr, '\0', name.len) != NULL))) {
    *error = -EINVAL;
    return NULL;
  }
  file_shelf *shelf = nm_alloc_zero(mem, 1, sizeof(*shelf));
  if (shelf == NULL) {
    *error = -ENOMEM;
    return NULL;
  }
  atomic_init(&shelf->shelf.references, 1);
  shelf->shelf.place = place_part;
  shelf->shelf.release = release_shelf;
  shelf->resume = resume;
  atomic_init(&shelf->mode, MODE_UNKNOWN);
  shelf->mem = mem;
  shelf->path = nm_block_copy(mem, nm_span_of(folder, strlen(folder)));
  shelf->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *error = shelf->folder < 0 ? -errno : shelf->path == NULL ? -ENOMEM : 0;
  if (*error != 0) {
    release_shelf(&shelf->shelf);
    return NULL;
  }
  if (name.len > 0) {
    memcpy(shelf->name, name.ptr, name.len);
  }
  return &shelf->shelf;
}
