/* Storage: a directory that one node has open.
 *
 *   lock                 held while open
 *   identity             64 bytes, mode 0600
 *   ratchets/HEX         own ratchets, signed (RNS 1, 3.5)
 *   announced/HEX        last emission time of an own destination
 *   known_destinations   what announces taught, see nm_store_seal
 *   paths                with the other ways to their destinations
 *   blackholes           identities that are barred
 *   tunnels              peers whose paths come back with them
 *   tunnel_paths
 *   packet_hashes        what the duplicate filter remembers
 *   changes/TABLE        what has changed of one of the last six since it was
 *                        written, see nm_store_append
 *
 * Tunnels, their paths and hashes are a transport node's.
 *
 * A table is written whole once, and then what changes of it is appended to its
 * changes; when these have become longer than the table it is written whole
 * again. So a changed path costs its own length, about three times in the long
 * run, and a start reads at most twice what is there.
 *
 * A whole file is written beside, synced, renamed, and its directory synced: at
 * any moment the old content is there or the new one. Changes end with the
 * last batch that is complete. A file that is damaged is renamed to
 * NAME.damaged-N and never prevents a start.
 */
#ifndef NM_IO_STORE_H
#define NM_IO_STORE_H

#include "base/block.h"
#include "crypto/identity.h"
#include "io/node.h"
#include "stack/kept.h"

typedef struct nm_store nm_store;

/* Opens |path|, made if missing. NM_E(STATE) when another one has it open,
 * NM_E(LIBRARY) otherwise; |fault| says which file and why. */
int nm_store_open(const nm_mem *mem, const char *path, nm_store **store,
                  nm_node_fault *fault);
void nm_store_close(nm_store *store);

/* The 64 private bytes: read, or made by the system and written. A file that
 * cannot be used is set aside first, and |aside| says why (else 0). */
int nm_store_identity(nm_store *store, uint8_t keys[NM_PRIVATE_SIZE],
                      int *aside, nm_node_fault *fault);

/* Reads one file of at most |size_max| bytes; the block is marked secret. 0,
 * NM_E(MISSING), NM_E(TOO_LARGE), NM_E(LIBRARY), NM_E(MEMORY). Any thread. */
int nm_store_read(nm_store *store, const char *name, size_t size_max,
                  nm_block **bytes);
/* Sets a damaged file aside. Any thread. */
void nm_store_set_aside(nm_store *store, const char *name);
uint32_t nm_store_damaged(const nm_store *store);

/* Writes |bytes| beside |name|, syncs and renames; the directory is left to
 * nm_store_sync. 0 or a negated errno. One thread at a time. */
int nm_store_write(nm_store *store, const char *name, nm_span head,
                   nm_span body);
/* Syncs the directories that were written to since the last call. */
int nm_store_sync(nm_store *store);

/* ---- the tables ---- */

/* magic (4) | version (1) | count (4) | body length (8) | SHA-256 of the body
 * and these, then the body: |count| MessagePack arrays, or hashes of 32 bytes
 * in `packet_hashes`. Version 1 has the sum of these and the body. */
#define NM_STORE_HEAD_SIZE 49

const char *nm_store_table_name(nm_kept_table table);
/* The head of a file with |body|. */
void nm_store_seal(nm_kept_table table, uint32_t count, nm_span body,
                   uint8_t head[NM_STORE_HEAD_SIZE]);
/* The body and its count, or NM_E(TRUNCATED), NM_E(VALUE), NM_E(MODE) for
 * another version, NM_E(AUTH) for a wrong checksum. */
int nm_store_unseal(nm_kept_table table, nm_span file, uint32_t *count,
                    nm_span *body);

/* Writes a table whole, part by part, one table at a time: begin, add, finish.
 * After an error it is given up, and what follows up to the next begin does
 * nothing. 0 or a negated errno. The storage thread. */
int nm_store_begin(nm_store *store, nm_kept_table table);
int nm_store_add(nm_store *store, nm_span part, uint32_t count);
int nm_store_finish(nm_store *store);
/* Gives it up. */
void nm_store_abandon(nm_store *store);

/* Appends a batch to the changes of a table whose file is there; nm_store_sync
 * makes it durable. 0 or a negated errno. The storage thread.
 *
 * changes/TABLE is "NMCH" | version (1) | checksum of the table's file (32),
 * then batches: count (4) | length (4) | link (32) | body. A link is the
 * SHA-256 of the link before (at first that checksum), count, length and body:
 * batches stand in the order in which they were written or not at all. A body
 * is |count| of what a table has, or for what was removed its key (kept.h) as
 * MessagePack bin. */
#define NM_STORE_CHANGES_HEAD 37
#define NM_STORE_BATCH_HEAD 40
int nm_store_append(nm_store *store, nm_kept_table table, nm_span body,
                    uint32_t count);

/* Bytes on disk. */
typedef struct nm_store_size {
  uint64_t table;   /* 0: there is no file */
  uint64_t changes; /* its head included; 0: none */
} nm_store_size;
nm_store_size nm_store_size_of(const nm_store *store, nm_kept_table table);

/* Reads a table, and then its changes batch by batch: |take| gets bodies, and
 * its errors are passed on. NM_E(MISSING), errors of nm_store_read and of
 * nm_store_unseal. Changes of another table than the one that was read are not
 * read; an incomplete last batch is what a killed process leaves, and is cut
 * off by the next append. NM_E(AUTH) for a wrong link: nothing behind it is
 * read. */
typedef int nm_store_take(void *user, nm_span body, uint32_t count);
int nm_store_read_table(nm_store *store, nm_kept_table table,
                        nm_store_take *take, void *user);
int nm_store_read_changes(nm_store *store, nm_kept_table table,
                          nm_store_take *take, void *user);
/* "changes/TABLE". */
const char *nm_store_changes_name(nm_kept_table table);

/* ---- records ---- */

/* What of a table comes next in a body: a record of |fields| fields, or a key
 * of |size| bytes that was removed, which is read. NM_E(TYPE) else. */
typedef struct nm_store_next {
  uint32_t fields; /* 0: a key */
  nm_span key;
} nm_store_next;
int nm_store_peek(nm_reader *r, size_t key_size, nm_store_next *next);
int nm_removed_pack(nm_buffer *out, nm_span key);

/* [destination, public key, announce hash, heard, used, app data or nil,
 * ratchet or nil, ratchet time], times in Unix microseconds. */
int nm_known_pack(nm_buffer *out, const nm_known_record *record);
int nm_known_unpack(nm_reader *r, const nm_mem *mem, nm_known_record *record);
/* [destination, next hop, hops, interface hash, updated, expires, state,
 * announce hash, announce or nil, blobs]. */
int nm_path_pack(nm_buffer *out, const nm_path_record *record,
                 const uint8_t iface_hash[NM_HASH_SIZE]);
int nm_path_unpack(nm_reader *r, const nm_mem *mem, nm_path_record *record,
                   uint8_t iface_hash[NM_HASH_SIZE]);
/* Of `paths` too, behind the path that it belongs to: [destination, next hop,
 * hops, interface hash, emitted, heard, failed]. */
#define NM_ALTERNATIVE_FIELDS 7
int nm_alternative_pack(nm_buffer *out, const nm_alternative_record *record,
                        const uint8_t iface_hash[NM_HASH_SIZE]);
int nm_alternative_unpack(nm_reader *r, nm_alternative_record *record,
                          uint8_t iface_hash[NM_HASH_SIZE]);
/* [identity, source, until, reason or nil]. */
int nm_blackhole_pack(nm_buffer *out, const nm_blackhole_record *record);
int nm_blackhole_unpack(nm_reader *r, const nm_mem *mem,
                        nm_blackhole_record *record);
/* [id, expires]; monotonic times and interfaces do not outlive a process. */
int nm_tunnel_pack(nm_buffer *out, const nm_tunnel_record *record);
int nm_tunnel_unpack(nm_reader *r, nm_tunnel_record *record);
/* [tunnel, destination, next hop, hops, updated, expires, announce hash,
 * announce or nil, blobs]. */
int nm_tunnel_path_pack(nm_buffer *out, const nm_tunnel_path_record *record);
int nm_tunnel_path_unpack(nm_reader *r, const nm_mem *mem,
                          nm_tunnel_path_record *record);
void nm_tunnel_path_record_dispose(nm_tunnel_path_record *record);

#endif
