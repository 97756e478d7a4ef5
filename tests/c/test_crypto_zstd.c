#include "support.h"

#include "crypto/zstd.h"

#include <string.h>
#include <zstd.h>

static nm_buffer new_buffer(const nm_mem *mem) {
  nm_buffer b;
  nm_buffer_init(&b, mem, NULL, 0, 0);
  return b;
}

static nm_span none(void) {
  return nm_span_of(NULL, 0);
}

/* Text that compresses about five times. */
static nm_span text_of(size_t len) {
  uint8_t *bytes = nm_test_scratch(len + 1);
  for (size_t i = 0; i < len; i++) {
    bytes[i] = (uint8_t)("netmesh "[i % 8] + (nm_test_below(8) == 0 ? 1 : 0));
  }
  return nm_span_of(bytes, len);
}

NM_TEST(round_trips_of_frames_give_back_any_length_and_split) {
  static const size_t lengths[] = {0, 1, 100, 4096, 100000, 1500000};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    nm_span text = text_of(lengths[i]);
    for (size_t head = 0; head < 3 && head <= text.len; head++) {
      nm_buffer packed = new_buffer(&nm_mem_system);
      nm_buffer opened = new_buffer(&nm_mem_system);
      nm_test_context("length %zu, head %zu", text.len, head);
      NM_CHECK_OK(nm_zstd_compress(nm_span_slice(text, 0, head),
                                   nm_span_slice(text, head, text.len - head),
                                   3, text.len + 1000, &packed));
      nm_span frame = nm_span_of(packed.ptr, packed.len);
      NM_CHECK(text.len < 1000 || packed.len < text.len / 2);
      NM_CHECK(nm_zstd_is_frame(frame));
      NM_CHECK_OK(nm_zstd_decompress(frame, text.len, &opened));
      NM_CHECK_SPAN(nm_span_of(opened.ptr, opened.len), text);
      nm_buffer_dispose(&packed);
      nm_buffer_dispose(&opened);
    }
  }
}

NM_TEST(the_bound_of_a_frame_is_exact) {
  nm_span text = text_of(5000);
  nm_buffer packed = new_buffer(&nm_mem_system);
  NM_CHECK_OK(nm_zstd_compress(none(), text, 3, 10000, &packed));
  nm_span frame = nm_span_of(packed.ptr, packed.len);
  for (size_t max = 4990; max < 5010; max++) {
    nm_buffer out = new_buffer(&nm_mem_system);
    NM_CHECK_OK(nm_buffer_append(&out, "kept", 4));
    int status = nm_zstd_decompress(frame, max, &out);
    NM_CHECK_STATUS(status, max < 5000 ? NM_E(LIMIT) : NM_OK);
    NM_CHECK_INT(out.len, max < 5000 ? 4 : 5004);
    NM_CHECK_BYTES(out.ptr, "kept", 4);
    nm_buffer_dispose(&out);
  }
  size_t size = packed.len;
  for (size_t max = size - 3; max <= size + 3; max++) {
    nm_buffer out = new_buffer(&nm_mem_system);
    int status = nm_zstd_compress(none(), text, 3, max, &out);
    NM_CHECK_STATUS(status, max < size ? NM_E(LIMIT) : NM_OK);
    NM_CHECK_INT(out.len, max < size ? 0 : size);
    nm_buffer_dispose(&out);
  }
  nm_buffer_dispose(&packed);
}

NM_TEST(a_frame_that_is_a_bomb_is_stopped_before_it_fills_memory) {
  size_t size = 40u << 20;
  uint8_t *zeros = nm_test_scratch(size);
  memset(zeros, 0, size);
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_buffer packed = new_buffer(&nm_mem_system);
  nm_buffer out = new_buffer(&t.mem);
  NM_CHECK_OK(
      nm_zstd_compress(none(), nm_span_of(zeros, size), 1, 100000, &packed));
  NM_CHECK(packed.len < 5000);
  NM_CHECK_STATUS(
      nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), 100000, &out),
      NM_E(LIMIT));
  NM_CHECK_INT(t.bytes_peak, 0);
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&out);
  NM_CHECK_INT(t.live, 0);
}

/* A frame whose header names fewer bytes than its blocks hold: RFC 8878,
 * 3.1.1.1: descriptor with a single segment and a size of one byte, then a
 * block that repeats one byte |count| times. */
static nm_span liar(uint8_t named, uint32_t count, uint8_t frame[10]) {
  uint32_t block = count << 3 | 1u << 1 | 1u; /* RLE, the last one */
  const uint8_t bytes[10] = {0x28,
                             0xB5,
                             0x2F,
                             0xFD,
                             0x20,
                             named,
                             (uint8_t)block,
                             (uint8_t)(block >> 8),
                             (uint8_t)(block >> 16),
                             'z'};
  memcpy(frame, bytes, sizeof bytes);
  return nm_span_of(frame, sizeof bytes);
}

NM_TEST(a_frame_that_names_another_size_is_refused) {
  uint8_t frame[10];
  for (uint32_t count = 0; count < 300; count++) {
    nm_buffer out = new_buffer(&nm_mem_system);
    int status = nm_zstd_decompress(liar(100, count, frame), 1000, &out);
    nm_test_context("%u bytes", count);
    NM_CHECK_STATUS(status, count == 100 ? NM_OK : NM_E(COMPRESSED));
    NM_CHECK_INT(out.len, count == 100 ? 100 : 0);
    nm_buffer_dispose(&out);
  }
}

NM_TEST(frames_that_are_cut_damaged_or_followed_are_refused) {
  nm_span text = text_of(3000);
  nm_buffer packed = new_buffer(&nm_mem_system);
  nm_buffer out = new_buffer(&nm_mem_system);
  NM_CHECK_OK(nm_zstd_compress(none(), text, 3, 10000, &packed));
  for (size_t len = 0; len < packed.len; len++) {
    NM_CHECK_STATUS(
        nm_zstd_decompress(nm_span_of(packed.ptr, len), 10000, &out),
        NM_E(COMPRESSED));
  }
  for (size_t at = 0; at < packed.len; at++) {
    packed.ptr[at] ^= 0x10;
    int status =
        nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), 10000, &out);
    /* There is no checksum in it: a segment has its own. */
    NM_CHECK(status == NM_OK || status == NM_E(COMPRESSED) ||
             status == NM_E(LIMIT));
    NM_CHECK(status == NM_OK ? out.len <= 10000 : out.len == 0);
    out.len = 0;
    packed.ptr[at] ^= 0x10;
  }
  size_t size = packed.len;
  NM_CHECK_OK(nm_buffer_append(&packed, "m", 1));
  NM_CHECK_STATUS(
      nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), 10000, &out),
      NM_E(COMPRESSED));
  packed.len = size;
  NM_CHECK_OK(nm_buffer_append(&packed, packed.ptr, size)); /* two frames */
  NM_CHECK_STATUS(
      nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), 10000, &out),
      NM_E(COMPRESSED));
  NM_CHECK_INT(out.len, 0);
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&out);
}

NM_TEST(frames_without_their_size_and_other_formats_are_refused) {
  uint8_t frame[200];
  ZSTD_CCtx *context = ZSTD_createCCtx();
  (void)ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  size_t len = ZSTD_compress2(context, frame, sizeof frame, "hello", 5);
  ZSTD_freeCCtx(context);
  nm_buffer out = new_buffer(&nm_mem_system);
  NM_CHECK_STATUS(nm_zstd_decompress(nm_span_of(frame, len), 1000, &out),
                  NM_E(COMPRESSED));
  static const uint8_t skippable[] = {0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0};
  NM_CHECK_STATUS(
      nm_zstd_decompress(nm_span_of(skippable, sizeof skippable), 1000, &out),
      NM_E(COMPRESSED));
  NM_CHECK(!nm_zstd_is_frame(nm_span_of("BZh9", 4)));
  NM_CHECK_STATUS(nm_zstd_decompress(nm_span_of("BZh91AY&SY", 10), 1000, &out),
                  NM_E(COMPRESSED));
  nm_buffer_dispose(&out);
}

NM_TEST(levels_of_frames_outside_one_to_nineteen_are_refused) {
  nm_buffer out = new_buffer(&nm_mem_system);
  nm_span in = nm_span_of("x", 1);
  NM_CHECK_STATUS(nm_zstd_compress(none(), in, 0, 99, &out), NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_zstd_compress(none(), in, 20, 99, &out), NM_E(ARGUMENT));
  NM_CHECK_OK(nm_zstd_compress(none(), in, 19, 99, &out));
  nm_buffer_dispose(&out);
}

static int compress_and_open_frame(const nm_mem *mem, void *user) {
  nm_span text = *(const nm_span *)user;
  nm_buffer packed = new_buffer(mem);
  nm_buffer opened = new_buffer(mem);
  int status = nm_zstd_compress(none(), text, 1, text.len, &packed);
  if (status == NM_OK) {
    status = nm_zstd_decompress(nm_span_of(packed.ptr, packed.len), text.len,
                                &opened);
  }
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&opened);
  return status;
}

NM_TEST(every_allocation_for_a_frame_may_fail) {
  nm_span text = text_of(20000);
  NM_CHECK(nm_test_fail_each(compress_and_open_frame, &text) >= 2);
}
