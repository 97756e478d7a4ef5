/* What the files of a storage directory share. Only store*.c include it.
 */
#ifndef NM_IO_STORE_INNER_H
#define NM_IO_STORE_INNER_H

#include "crypto/hash.h"
#include "io/store.h"

#include <stdatomic.h>

/* A file's name within its folder, with room for what is put behind it. */
#define NM_STORE_ROOM 96

typedef enum nm_store_folder {
  NM_FOLDER_TOP,
  NM_FOLDER_RATCHETS,
  NM_FOLDER_ANNOUNCED,
  NM_FOLDER_CHANGES,
  NM_FOLDER_COUNT
} nm_store_folder;

/* What is on disk of one table. */
typedef struct nm_store_file {
  uint8_t checksum[NM_HASH_SIZE]; /* of the table's file */
  uint8_t link[NM_HASH_SIZE];     /* of the last batch behind it, or that */
  nm_store_size size;
  int changes; /* open while it is to be synced, else -1 */
} nm_store_file;

struct nm_store {
  const nm_mem *mem;
  int folders[NM_FOLDER_COUNT];
  bool unsynced[NM_FOLDER_COUNT];
  int lock;
  atomic_uint damaged;
  nm_store_file files[NM_KEPT_TABLES];
  /* The table that is being written whole, on the storage thread. */
  int fresh; /* its descriptor, or -1 */
  nm_kept_table fresh_table;
  uint32_t fresh_count;
  uint64_t fresh_len;
  nm_sha256_ctx fresh_sum;
};

/* What the checksum covers of the head: all but itself. */
#define NM_STORE_SEALED_SIZE (NM_STORE_HEAD_SIZE - NM_HASH_SIZE)
/* The head of a body whose bytes are in |sum|, which it ends. */
void nm_store_seal_sum(nm_kept_table table, uint32_t count, uint64_t len,
                       nm_sha256_ctx *sum, uint8_t head[NM_STORE_HEAD_SIZE]);
/* Writes all of |bytes|, or syncs: 0 or a negated errno. */
int nm_store_write_all(int fd, nm_span bytes);
int nm_store_sync_fd(int fd);

#endif
