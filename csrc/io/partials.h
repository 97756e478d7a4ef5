/* What interrupted resources leave in a folder, for another attempt: files of
 * their own kind, "." HEX ".part" with "netmesh-" before the HEX, of mode 0600,
 * locked (flock) by the process that writes one. Nothing but their content is
 * needed to go on: the sender compares it. Called on worker threads.
 */
#ifndef NM_IO_PARTIALS_H
#define NM_IO_PARTIALS_H

#include "base/bytes.h"
#include "wire/constants.h"

/* At most so many are kept in a folder, of so many bytes together and so old;
 * the oldest go first. Those under way do not count. */
#define NM_PARTIALS_MAX 16
#define NM_PARTIALS_BYTES (4ull << 30)
#define NM_PARTIALS_AGE_S (7u * 24 * 3600)

#define NM_PARTIAL_NAME_MAX 56

/* The name for a resource of |size| bytes from |peer|: HEX are 16 bytes of the
 * SHA-256 of the two. */
void nm_partial_name(nm_span peer, uint64_t size,
                     char name[NM_PARTIAL_NAME_MAX]);

/* Opens |name| in |folder| and locks it, or makes it; |held| is its length, 0
 * when that is above |size| or it is too old. -1 when it cannot be had, is
 * another's, or is being written already. */
int nm_partial_open(int folder, const char *name, uint64_t size,
                    uint64_t *held);

/* SHA-256 of |salt| and the first |len| bytes of |fd|. NM_E(STORE),
 * NM_E(MEMORY). */
int nm_partial_hash(int fd, uint64_t len, nm_span salt,
                    uint8_t digest[NM_HASH_SIZE]);

/* Removes what is too old and too much, as if |name| were kept as well. How
 * many were removed. */
uint32_t nm_partials_prune(int folder, const char *name);

#endif
