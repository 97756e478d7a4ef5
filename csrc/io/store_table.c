/* The tables as files: whole ones, and what has changed since.
 */
#include "io/store_inner.h"
#include "io/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC_SIZE 4
#define CHANGES_MAGIC "NMCH"
#define CHANGES_VERSION 1
#define FILE_MAX (1u << 30)

nm_store_size nm_store_size_of(const nm_store *store, nm_kept_table table) {
  return store->files[table].size;
}

/* ---- writing a table whole ---- */

static void name_beside(char out[NM_STORE_ROOM], nm_kept_table table) {
  (void)snprintf(out, NM_STORE_ROOM, "%s.new", nm_store_table_name(table));
}

void nm_store_abandon(nm_store *store) {
  if (store->fresh >= 0) {
    char beside[NM_STORE_ROOM];
    name_beside(beside, store->fresh_table);
    nm_fd_close(store->fresh);
    store->fresh = -1;
    (void)unlinkat(store->folders[NM_FOLDER_TOP], beside, 0);
  }
}

static int give_up(nm_store *store, int error) {
  if (error != 0) {
    nm_store_abandon(store);
  }
  return error;
}

int nm_store_begin(nm_store *store, nm_kept_table table) {
  char beside[NM_STORE_ROOM];
  uint8_t head[NM_STORE_HEAD_SIZE] = {0};
  nm_store_abandon(store);
  name_beside(beside, table);
  store->fresh =
      openat(store->folders[NM_FOLDER_TOP], beside,
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (store->fresh < 0) {
    return -errno;
  }
  store->fresh_table = table;
  store->fresh_count = 0;
  store->fresh_len = 0;
  nm_sha256_init(&store->fresh_sum);
  /* Its place; the file has no magic until it is complete. */
  return give_up(
      store, nm_store_write_all(store->fresh, nm_span_of(head, sizeof(head))));
}

int nm_store_add(nm_store *store, nm_span part, uint32_t count) {
  if (store->fresh < 0) {
    return 0;
  }
  store->fresh_count += count;
  store->fresh_len += part.len;
  nm_sha256_update(&store->fresh_sum, part);
  return give_up(store, nm_store_write_all(store->fresh, part));
}

static int put_head(nm_store *store, const uint8_t head[NM_STORE_HEAD_SIZE]) {
  if (lseek(store->fresh, 0, SEEK_SET) != 0) {
    return -errno;
  }
  int error =
      nm_store_write_all(store->fresh, nm_span_of(head, NM_STORE_HEAD_SIZE));
  return error != 0 ? error : nm_store_sync_fd(store->fresh);
}

/* The new file stands in its place: changes of the old one mean nothing. */
static void renew(nm_store *store, nm_kept_table table,
                  const uint8_t checksum[NM_HASH_SIZE]) {
  nm_store_file *file = &store->files[table];
  (void)unlinkat(store->folders[NM_FOLDER_CHANGES], nm_store_table_name(table),
                 0);
  nm_fd_close(file->changes);
  file->changes = -1;
  memcpy(file->checksum, checksum, NM_HASH_SIZE);
  memcpy(file->link, checksum, NM_HASH_SIZE);
  file->size.table = NM_STORE_HEAD_SIZE + store->fresh_len;
  file->size.changes = 0;
  store->unsynced[NM_FOLDER_TOP] = true;
}

int nm_store_finish(nm_store *store) {
  nm_kept_table table = store->fresh_table;
  char beside[NM_STORE_ROOM];
  uint8_t head[NM_STORE_HEAD_SIZE];
  if (store->fresh < 0) {
    return 0;
  }
  name_beside(beside, table);
  nm_store_seal_sum(table, store->fresh_count, store->fresh_len,
                    &store->fresh_sum, head);
  int top = store->folders[NM_FOLDER_TOP];
  int error = put_head(store, head);
  if (error == 0 &&
      renameat(top, beside, top, nm_store_table_name(table)) != 0) {
    error = -errno;
  }
  if (error != 0) {
    return give_up(store, error);
  }
  nm_fd_close(store->fresh);
  store->fresh = -1;
  renew(store, table, &head[NM_STORE_SEALED_SIZE]);
  return 0;
}

/* ---- appending ---- */

static void chain(const uint8_t before[NM_HASH_SIZE], nm_span fields,
                  nm_span body, uint8_t link[NM_HASH_SIZE]) {
  nm_span parts[3] = {nm_span_of(before, NM_HASH_SIZE), fields, body};
  nm_sha256v(link, parts, 3);
}

/* Opens the changes, cut to what counts of them. */
static int open_changes(nm_store *store, nm_kept_table table) {
  nm_store_file *file = &store->files[table];
  if (file->changes >= 0) {
    return 0;
  }
  int fd = openat(store->folders[NM_FOLDER_CHANGES], nm_store_table_name(table),
                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return -errno;
  }
  uint8_t head[NM_STORE_CHANGES_HEAD];
  nm_writer w = nm_writer_of(head, sizeof(head));
  nm_writer_put(&w, CHANGES_MAGIC, MAGIC_SIZE);
  nm_writer_u8(&w, CHANGES_VERSION);
  nm_writer_put(&w, file->checksum, NM_HASH_SIZE);
  off_t end = (off_t)file->size.changes;
  int error =
      ftruncate(fd, end) != 0 || lseek(fd, end, SEEK_SET) != end ? -errno : 0;
  if (error == 0 && end == 0) {
    error = nm_store_write_all(fd, nm_writer_done(&w));
    store->unsynced[NM_FOLDER_CHANGES] = true;
  }
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
  file->size.changes = end == 0 ? sizeof(head) : file->size.changes;
  file->changes = fd;
  return 0;
}

int nm_store_append(nm_store *store, nm_kept_table table, nm_span body,
                    uint32_t count) {
  nm_store_file *file = &store->files[table];
  uint8_t head[NM_STORE_BATCH_HEAD];
  uint8_t link[NM_HASH_SIZE];
  int error = open_changes(store, table);
  if (error != 0) {
    return error;
  }
  nm_writer w = nm_writer_of(head, sizeof(head));
  nm_writer_u32(&w, count);
  nm_writer_u32(&w, (uint32_t)body.len);
  chain(file->link, nm_writer_done(&w), body, link);
  nm_writer_put(&w, link, sizeof(link));
  error = nm_store_write_all(file->changes, nm_writer_done(&w));
  error = error != 0 ? error : nm_store_write_all(file->changes, body);
  if (error != 0) {
    /* Half a batch is cut off: by now, or by who opens the file next. */
    (void)!ftruncate(file->changes, (off_t)file->size.changes);
    nm_fd_close(file->changes);
    file->changes = -1;
    return error;
  }
  memcpy(file->link, link, sizeof(link));
  file->size.changes += sizeof(head) + body.len;
  return 0;
}

/* ---- reading ---- */

int nm_store_read_table(nm_store *store, nm_kept_table table,
                        nm_store_take *take, void *user) {
  nm_block *bytes = NULL;
  nm_span body;
  uint32_t count;
  int status =
      nm_store_read(store, nm_store_table_name(table), FILE_MAX, &bytes);
  if (status != NM_OK) {
    return status;
  }
  nm_span whole = nm_block_span(bytes);
  status = nm_store_unseal(table, whole, &count, &body);
  if (status == NM_OK) {
    status = take(user, body, count);
  }
  if (status == NM_OK) {
    nm_store_file *file = &store->files[table];
    memcpy(file->checksum, &whole.ptr[NM_STORE_SEALED_SIZE], NM_HASH_SIZE);
    memcpy(file->link, file->checksum, NM_HASH_SIZE);
    file->size.table = whole.len;
  }
  nm_block_drop(bytes);
  return status;
}

/* Whether they are changes of the table that was read. */
static bool belongs(const nm_store_file *file, nm_reader *r) {
  nm_span magic = nm_reader_take(r, MAGIC_SIZE);
  uint8_t version = nm_reader_u8(r);
  nm_span checksum = nm_reader_take(r, NM_HASH_SIZE);
  return r->status == NM_OK &&
         nm_span_equal(magic, nm_span_of(CHANGES_MAGIC, MAGIC_SIZE)) &&
         version == CHANGES_VERSION &&
         nm_span_equal(checksum, nm_span_of(file->checksum, NM_HASH_SIZE));
}

/* The next batch: 1, 0 when there is no complete one, or NM_E(AUTH). */
static int next_batch(nm_store_file *file, nm_reader *r, nm_span *body,
                      uint32_t *count) {
  uint8_t link[NM_HASH_SIZE];
  nm_reader fields = *r;
  *count = nm_reader_u32(r);
  uint32_t len = nm_reader_u32(r);
  nm_span stored = nm_reader_take(r, NM_HASH_SIZE);
  *body = nm_reader_take(r, len);
  if (r->status != NM_OK) {
    return 0;
  }
  chain(file->link, nm_reader_take(&fields, 8), *body, link);
  if (!nm_span_equal(stored, nm_span_of(link, sizeof(link)))) {
    return NM_E(AUTH);
  }
  memcpy(file->link, link, sizeof(link));
  return 1;
}

static int read_batches(nm_store_file *file, nm_span bytes, nm_store_take *take,
                        void *user) {
  nm_reader r = nm_reader_of(bytes);
  if (!belongs(file, &r)) {
    return NM_OK;
  }
  nm_span body;
  uint32_t count;
  int status;
  do {
    file->size.changes = bytes.len - nm_reader_left(&r);
    status = next_batch(file, &r, &body, &count);
    if (status == 1) {
      int taken = take(user, body, count);
      status = taken == NM_OK ? 1 : taken;
    }
  } while (status == 1);
  return status;
}

int nm_store_read_changes(nm_store *store, nm_kept_table table,
                          nm_store_take *take, void *user) {
  nm_block *bytes = NULL;
  int status =
      nm_store_read(store, nm_store_changes_name(table), FILE_MAX, &bytes);
  if (status == NM_OK) {
    status =
        read_batches(&store->files[table], nm_block_span(bytes), take, user);
  }
  nm_block_drop(bytes);
  return status;
}
