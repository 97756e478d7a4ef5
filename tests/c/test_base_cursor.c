#include "support.h"

#include "base/cursor.h"

NM_TEST(a_reader_gives_big_endian_integers_in_order) {
  const uint8_t in[] = {1,    2,    3,    0x80, 0,    0,    4,   0xff,
                        0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8};
  nm_reader r = nm_reader_of(nm_span_of(in, sizeof in));
  NM_CHECK_INT(nm_reader_u8(&r), 1);
  NM_CHECK_INT(nm_reader_u16(&r), 0x0203);
  NM_CHECK_INT(nm_reader_u32(&r), 0x80000004u);
  NM_CHECK(nm_reader_u64(&r) == 0xfffefdfcfbfaf9f8u);
  NM_CHECK_OK(r.status);
  NM_CHECK_INT(nm_reader_left(&r), 0);
}

NM_TEST(a_reader_latches_its_first_failure) {
  nm_reader r = nm_reader_of(nm_span_of("abc", 3));
  uint8_t copy[4] = {9, 9, 9, 9};
  NM_CHECK_SPAN(nm_reader_take(&r, 2), nm_span_of("ab", 2));
  NM_CHECK(!nm_reader_copy(&r, copy, 2));
  NM_CHECK_INT(copy[0], 9);
  NM_CHECK_STATUS(r.status, NM_E(TRUNCATED));
  NM_CHECK_INT(r.pos, 2);
  NM_CHECK_INT(nm_reader_take(&r, 1).len, 0);
  NM_CHECK_INT(nm_reader_u8(&r), 0);
  NM_CHECK_INT(nm_reader_rest(&r).len, 0);
  NM_CHECK_INT(r.pos, 2);
}

NM_TEST(a_reader_is_not_fooled_by_huge_lengths) {
  nm_reader r = nm_reader_of(nm_span_of("abc", 3));
  nm_reader_u8(&r);
  NM_CHECK_INT(nm_reader_take(&r, SIZE_MAX).len, 0);
  NM_CHECK_STATUS(r.status, NM_E(TRUNCATED));
}

NM_TEST(the_rest_of_a_reader_may_be_empty) {
  nm_reader r = nm_reader_of(nm_span_of("ab", 2));
  NM_CHECK_INT(nm_reader_rest(&r).len, 2);
  NM_CHECK_INT(nm_reader_rest(&r).len, 0);
  NM_CHECK_OK(r.status);
  nm_reader none = nm_reader_of(nm_span_of(NULL, 0));
  NM_CHECK_INT(nm_reader_rest(&none).len, 0);
  NM_CHECK(nm_reader_copy(&none, NULL, 0));
  NM_CHECK_OK(none.status);
}

NM_TEST(a_writer_puts_big_endian_integers_in_order) {
  uint8_t out[15];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_writer_u8(&w, 1);
  nm_writer_u16(&w, 0x0203);
  nm_writer_u32(&w, 0x80000004u);
  nm_writer_u64(&w, 0xfffefdfcfbfaf9f8u);
  NM_CHECK_OK(w.status);
  NM_CHECK_HEX(nm_writer_done(&w), "01020380000004fffefdfcfbfaf9f8");
  NM_CHECK_INT(nm_writer_left(&w), 0);
}

NM_TEST(a_full_writer_latches_and_touches_nothing_more) {
  uint8_t out[4] = {9, 9, 9, 9};
  nm_writer w = nm_writer_of(out, 3);
  nm_writer_put(&w, "ab", 2);
  nm_writer_u16(&w, 7);
  NM_CHECK_STATUS(w.status, NM_E(TOO_LARGE));
  nm_writer_u8(&w, 7);
  NM_CHECK(nm_writer_reserve(&w, 0) == NULL);
  NM_CHECK_SPAN(nm_writer_done(&w), nm_span_of("ab", 2));
  NM_CHECK_INT(out[2], 9);
  NM_CHECK_INT(out[3], 9);
}
