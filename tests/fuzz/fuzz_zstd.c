/* Bounded inflation of frames: the first byte is the bound in units of 64
 * bytes. What comes out is never longer, and compressing it again gives it
 * back.
 */
#include "fuzz.h"

#include "crypto/zstd.h"

static void check_again(nm_span text) {
  nm_buffer packed;
  nm_buffer again;
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
  nm_buffer_init(&again, &nm_mem_system, NULL, 0, 0);
  size_t head = text.len / 3;
  MUST(nm_zstd_compress(nm_span_slice(text, 0, head),
                        nm_span_slice(text, head, text.len - head), 1,
                        text.len + 1000, &packed) == NM_OK);
  MUST(nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), text.len,
                          &again) == NM_OK);
  MUST(nm_span_equal(nm_span_of(again.ptr, again.len), text));
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  size_t out_max = (size_t)data[0] * 64;
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  int status =
      nm_zstd_decompress(nm_span_of(data + 1, size - 1), out_max, &out);
  MUST(status == NM_OK || status == NM_E(LIMIT) || status == NM_E(COMPRESSED));
  MUST(out.len <= out_max && (status == NM_OK || out.len == 0));
  if (status == NM_OK) {
    check_again(nm_span_of(out.ptr, out.len));
  }
  nm_buffer_dispose(&out);
  return 0;
}
