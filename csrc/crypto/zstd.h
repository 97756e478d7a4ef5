/* Zstandard frames (RFC 8878) as segments between two netmesh ends carry them
 * (docs/reference/transfers.md), with a bound on what comes out.
 */
#ifndef NM_CRYPTO_ZSTD_H
#define NM_CRYPTO_ZSTD_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#define NM_ZSTD_LEVEL_MAX 19

/* Whether |in| begins like a frame: 28 B5 2F FD. No bzip2 stream does. */
bool nm_zstd_is_frame(nm_span in);

/* Appends what the frame |in| inflates to to |out|. It must be one frame, name
 * the size of its content, and end with |in|. NM_E(LIMIT) when that size is
 * above |out_max|, before anything is inflated; what comes out never exceeds
 * it. NM_E(COMPRESSED) for a frame that is damaged, incomplete, without its
 * size or followed by anything; NM_E(MEMORY). |out| uses its own allocator, the
 * library the system's (about 160 KiB). After an error |out| has its former
 * length. */
int nm_zstd_decompress(nm_span in, size_t out_max, nm_buffer *out);

/* Appends the frame of |head| and |body| put together to |out|, at most
 * |out_max| bytes: NM_E(LIMIT) when it would be longer. |level| is 1 to
 * NM_ZSTD_LEVEL_MAX, else NM_E(ARGUMENT). NM_E(MEMORY). After an error |out|
 * has its former length. */
int nm_zstd_compress(nm_span head, nm_span body, int level, size_t out_max,
                     nm_buffer *out);

#endif
