/* bzip2 as resources and channel buffers carry it (RNS 2), with a bound on what
 * comes out.
 */
#ifndef NM_CRYPTO_BZ2_H
#define NM_CRYPTO_BZ2_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

/* Appends what the bzip2 stream |in| inflates to to |out|. The bound is checked
 * while inflating: NM_E(LIMIT) as soon as more than |out_max| bytes would come
 * out, before they are stored. NM_E(COMPRESSED) for a stream that is damaged,
 * incomplete or empty; NM_E(MEMORY). Bytes after the end of the stream are
 * ignored, as the wire's reference does. |mem| serves the library's tables (up
 * to 4 MB); |out| uses its own allocator. After an error |out| has its former
 * length. */
int nm_bz2_decompress(const nm_mem *mem, nm_span in, size_t out_max,
                      nm_buffer *out);

/* Appends the compressed form of |in| to |out|, at most |out_max| bytes:
 * NM_E(LIMIT) when it would be longer, so that a caller that has no use for a
 * form longer than its input stops early. |level| is 1..9 (the wire uses 9;
 * NM_E(ARGUMENT) otherwise). NM_E(MEMORY). After an error |out| has its former
 * length. */
int nm_bz2_compress(const nm_mem *mem, nm_span in, int level, size_t out_max,
                    nm_buffer *out);

#endif
