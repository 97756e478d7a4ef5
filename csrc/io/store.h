/* Storage: a directory that one node has open.
 *
 *   lock                 held while open
 *   identity             64 bytes, mode 0600
 *   ratchets/HEX         own ratchets, signed (RNS 1, 3.5)
 *   announced/HEX        last emission time of an own destination
 *   known_destinations   what announces taught, see nm_store_seal
 *   paths
 *   blackholes           identities that are barred
 *   tunnels              peers whose paths come back with them
 *   tunnel_paths
 *   packet_hashes        what the duplicate filter remembers
 *
 * The last three are a transport node's.
 *
 * Each file is written beside, synced, renamed, and its directory synced: at
 * any moment the old content is there or the new one. A file that is damaged
 * is renamed to NAME.damaged-N and never prevents a start.
 */
#ifndef NM_IO_STORE_H
#define NM_IO_STORE_H

#include "base/block.h"
#include "crypto/identity.h"
#include "io/node.h"
#include "stack/transport_snapshot.h"

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

/* magic (4) | version (1) | count (4) | body length (8) | SHA-256 of these and
 * the body, then the body: |count| MessagePack arrays, or hashes of 32 bytes in
 * `packet_hashes`. */
#define NM_STORE_HEAD_SIZE 49

/* In the order in which they are written and read. */
typedef enum nm_store_table {
  NM_STORE_BLACKHOLES, /* bars paths that are read after it */
  NM_STORE_KNOWN,
  NM_STORE_PATHS,
  NM_STORE_TUNNELS,
  NM_STORE_TUNNEL_PATHS,
  NM_STORE_FILTER,
  NM_STORE_TABLES
} nm_store_table;

const char *nm_store_table_name(nm_store_table table);
/* The head of a file with |body|. */
void nm_store_seal(nm_store_table table, uint32_t count, nm_span body,
                   uint8_t head[NM_STORE_HEAD_SIZE]);
/* The body and its count, or NM_E(TRUNCATED), NM_E(VALUE), NM_E(MODE) for
 * another version, NM_E(AUTH) for a wrong checksum. */
int nm_store_unseal(nm_store_table table, nm_span file, uint32_t *count,
                    nm_span *body);

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
