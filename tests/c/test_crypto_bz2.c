#include "support.h"

#include "crypto/bz2.h"

#include <string.h>

static nm_buffer new_buffer(const nm_mem *mem) {
  nm_buffer b;
  nm_buffer_init(&b, mem, NULL, 0, 0);
  return b;
}

/* Text that compresses about five times. */
static nm_span text_of(size_t len) {
  uint8_t *bytes = nm_test_scratch(len + 1);
  for (size_t i = 0; i < len; i++) {
    bytes[i] = (uint8_t)("netmesh "[i % 8] + (nm_test_below(8) == 0 ? 1 : 0));
  }
  return nm_span_of(bytes, len);
}

NM_TEST(round_trips_give_back_any_length) {
  static const size_t lengths[] = {0, 1, 100, 4096, 100000, 1500000};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    nm_span text = text_of(lengths[i]);
    nm_buffer packed = new_buffer(&nm_mem_system);
    nm_buffer opened = new_buffer(&nm_mem_system);
    nm_test_context("length %zu", text.len);
    NM_CHECK_OK(
        nm_bz2_compress(&nm_mem_system, text, 9, text.len + 1000, &packed));
    NM_CHECK(text.len < 1000 || packed.len < text.len / 2);
    NM_CHECK_BYTES(packed.ptr, "BZh9", 4);
    NM_CHECK_OK(nm_bz2_decompress(
        &nm_mem_system, nm_span_of(packed.ptr, packed.len), text.len, &opened));
    NM_CHECK_SPAN(nm_span_of(opened.ptr, opened.len), text);
    nm_buffer_dispose(&packed);
    nm_buffer_dispose(&opened);
  }
}

NM_TEST(the_bound_is_exact) {
  nm_span text = text_of(5000);
  nm_buffer packed = new_buffer(&nm_mem_system);
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, text, 9, 10000, &packed));
  nm_span stream = nm_span_of(packed.ptr, packed.len);
  for (size_t max = 4990; max < 5010; max++) {
    nm_buffer out = new_buffer(&nm_mem_system);
    NM_CHECK_OK(nm_buffer_append(&out, "kept", 4));
    int status = nm_bz2_decompress(&nm_mem_system, stream, max, &out);
    NM_CHECK_STATUS(status, max < 5000 ? NM_E(LIMIT) : NM_OK);
    NM_CHECK_INT(out.len, max < 5000 ? 4 : 5004);
    NM_CHECK_BYTES(out.ptr, "kept", 4);
    nm_buffer_dispose(&out);
  }
  size_t size = packed.len;
  for (size_t max = size - 3; max <= size + 3; max++) {
    nm_buffer out = new_buffer(&nm_mem_system);
    int status = nm_bz2_compress(&nm_mem_system, text, 9, max, &out);
    NM_CHECK_STATUS(status, max < size ? NM_E(LIMIT) : NM_OK);
    NM_CHECK_INT(out.len, max < size ? 0 : size);
    nm_buffer_dispose(&out);
  }
  nm_buffer_dispose(&packed);
}

NM_TEST(a_bomb_is_stopped_before_it_fills_memory) {
  size_t size = 40u << 20;
  uint8_t *zeros = nm_test_scratch(size);
  memset(zeros, 0, size);
  nm_test_mem t;
  nm_test_mem_init(&t);
  nm_buffer packed = new_buffer(&nm_mem_system);
  nm_buffer out = new_buffer(&t.mem);
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, nm_span_of(zeros, size), 9,
                              100000, &packed));
  NM_CHECK(packed.len < 2000);
  NM_CHECK_STATUS(nm_bz2_decompress(&nm_mem_system,
                                    nm_span_of(packed.ptr, packed.len), 100000,
                                    &out),
                  NM_E(LIMIT));
  NM_CHECK(t.bytes_peak < 500000);
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&out);
  NM_CHECK_INT(t.live, 0);
}

NM_TEST(what_is_cut_or_damaged_is_refused) {
  nm_span text = text_of(3000);
  nm_buffer packed = new_buffer(&nm_mem_system);
  nm_buffer out = new_buffer(&nm_mem_system);
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, text, 9, 10000, &packed));
  for (size_t len = 0; len < packed.len; len++) {
    NM_CHECK_STATUS(nm_bz2_decompress(&nm_mem_system,
                                      nm_span_of(packed.ptr, len), 10000, &out),
                    NM_E(COMPRESSED));
    NM_CHECK_INT(out.len, 0);
  }
  size_t harmless = 0;
  for (size_t at = 0; at < packed.len; at++) {
    packed.ptr[at] ^= 0x10;
    int status = nm_bz2_decompress(
        &nm_mem_system, nm_span_of(packed.ptr, packed.len), 10000, &out);
    /* A bit that means nothing (the level, or after the end) changes nothing.
     */
    if (status == NM_OK) {
      harmless++;
      NM_CHECK_SPAN(nm_span_of(out.ptr, out.len), text);
    } else {
      NM_CHECK_STATUS(status, NM_E(COMPRESSED));
      NM_CHECK_INT(out.len, 0);
    }
    out.len = 0;
    packed.ptr[at] ^= 0x10;
  }
  NM_CHECK(harmless < packed.len / 10);
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&out);
}

NM_TEST(bytes_after_the_stream_are_ignored) {
  nm_buffer packed = new_buffer(&nm_mem_system);
  nm_buffer out = new_buffer(&nm_mem_system);
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, nm_span_of("hello", 5), 9, 1000,
                              &packed));
  NM_CHECK_OK(nm_buffer_append(&packed, "more", 4));
  NM_CHECK_OK(nm_bz2_decompress(
      &nm_mem_system, nm_span_of(packed.ptr, packed.len), 1000, &out));
  NM_CHECK_SPAN(nm_span_of(out.ptr, out.len), nm_span_of("hello", 5));
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&out);
}

NM_TEST(levels_outside_one_to_nine_are_refused) {
  nm_buffer out = new_buffer(&nm_mem_system);
  nm_span in = nm_span_of("x", 1);
  NM_CHECK_STATUS(nm_bz2_compress(&nm_mem_system, in, 0, 99, &out),
                  NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_bz2_compress(&nm_mem_system, in, 10, 99, &out),
                  NM_E(ARGUMENT));
  NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, in, 1, 99, &out));
  NM_CHECK_BYTES(out.ptr, "BZh1", 4);
  nm_buffer_dispose(&out);
}

static int compress_and_open(const nm_mem *mem, void *user) {
  nm_span text = *(const nm_span *)user;
  nm_buffer packed = new_buffer(mem);
  nm_buffer opened = new_buffer(mem);
  int status = nm_bz2_compress(mem, text, 1, text.len, &packed);
  if (status == NM_OK) {
    status = nm_bz2_decompress(mem, nm_span_of(packed.ptr, packed.len),
                               text.len, &opened);
  }
  nm_buffer_dispose(&packed);
  nm_buffer_dispose(&opened);
  return status;
}

NM_TEST(every_allocation_may_fail) {
  nm_span text = text_of(20000);
  NM_CHECK(nm_test_fail_each(compress_and_open, &text) >= 6);
}
