/* Bounded decompression: the first byte is the bound in units of 64 bytes. What
 * comes out is never longer, and compressing it again gives it back.
 */
#include "fuzz.h"

#include "crypto/bz2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  size_t out_max = (size_t)data[0] * 64;
  nm_buffer out;
  nm_buffer again;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_buffer_init(&again, &nm_mem_system, NULL, 0, 0);
  int status = nm_bz2_decompress(&nm_mem_system, nm_span_of(data + 1, size - 1),
                                 out_max, &out);
  MUST(status == NM_OK || status == NM_E(LIMIT) || status == NM_E(COMPRESSED));
  MUST(out.len <= out_max && (status == NM_OK || out.len == 0));
  if (status == NM_OK) {
    nm_span text = nm_span_of(out.ptr, out.len);
    nm_buffer packed;
    nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
    MUST(nm_bz2_compress(&nm_mem_system, text, 1, out.len + 1000, &packed) ==
         NM_OK);
    MUST(nm_bz2_decompress(&nm_mem_system, nm_span_of(packed.ptr, packed.len),
                           out.len, &again) == NM_OK);
    MUST(nm_span_equal(nm_span_of(again.ptr, again.len), text));
    nm_buffer_dispose(&packed);
  }
  nm_buffer_dispose(&out);
  nm_buffer_dispose(&again);
  return 0;
}
