#include "support.h"

#include "base/msgpack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Reads the one item in |hex|, which must be all of it. */
static nm_mp_item item_of(const char *hex) {
  nm_reader r = nm_reader_of(nm_test_unhex(hex));
  nm_mp_item item;
  nm_test_context("%.40s", hex);
  NM_CHECK_OK(nm_mp_read(&r, &item));
  NM_CHECK_INT(nm_reader_left(&r), 0);
  return item;
}

NM_TEST(integers_of_every_width_are_read) {
  static const struct {
    const char *hex;
    uint64_t value;
  } rows[] = {{"00", 0},
              {"7f", 127},
              {"cc80", 128},
              {"cc05", 5},
              {"cdffff", 65535},
              {"ceffffffff", 0xffffffffu},
              {"cf0000000000000001", 1},
              {"cfffffffffffffffff", UINT64_MAX},
              {"d07f", 127},
              {"d17fff", 32767},
              {"d27fffffff", 0x7fffffff},
              {"d37fffffffffffffff", INT64_MAX}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_mp_item item = item_of(rows[i].hex);
    NM_CHECK_INT(item.type, NM_MP_UINT);
    NM_CHECK(item.uint == rows[i].value);
  }
}

NM_TEST(negative_integers_of_every_width_are_read) {
  static const struct {
    const char *hex;
    int64_t value;
  } rows[] = {{"ff", -1},
              {"e0", -32},
              {"d0ff", -1},
              {"d080", -128},
              {"d18000", -32768},
              {"d1ffff", -1},
              {"d280000000", INT32_MIN},
              {"d3ffffffffffffffff", -1},
              {"d38000000000000000", INT64_MIN}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_mp_item item = item_of(rows[i].hex);
    NM_CHECK_INT(item.type, NM_MP_INT);
    NM_CHECK_INT(item.sint, rows[i].value);
  }
}

NM_TEST(floats_strings_and_containers_are_read) {
  NM_CHECK_INT(item_of("c0").type, NM_MP_NIL);
  NM_CHECK(item_of("c3").boolean);
  NM_CHECK(!item_of("c2").boolean);
  NM_CHECK(item_of("ca3fc00000").real == 1.5);
  NM_CHECK(item_of("cb3ff8000000000000").real == 1.5);
  NM_CHECK_SPAN(item_of("a3616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("d903616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("da0003616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("db00000003616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("c403616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("c50003616263").data, nm_span_of("abc", 3));
  NM_CHECK_SPAN(item_of("c600000003616263").data, nm_span_of("abc", 3));
  NM_CHECK_INT(item_of("9f").count, 15);
  NM_CHECK_INT(item_of("dcffff").count, 65535);
  NM_CHECK(item_of("ddffffffff").count == UINT32_MAX);
  NM_CHECK_INT(item_of("8f").count, 15);
  NM_CHECK_INT(item_of("de0100").count, 256);
  NM_CHECK_INT(item_of("df00010000").count, 65536);
}

NM_TEST(every_form_of_ext_is_read) {
  static const char *const rows[] = {"d4ff61", "c701ff61", "c80001ff61",
                                     "c900000001ff61"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_mp_item item = item_of(rows[i]);
    NM_CHECK_INT(item.type, NM_MP_EXT);
    NM_CHECK_INT(item.ext_type, -1);
    NM_CHECK_SPAN(item.data, nm_span_of("a", 1));
  }
  NM_CHECK_INT(item_of("d80700000000000000000000000000000000").data.len, 16);
  NM_CHECK_INT(item_of("c70080").ext_type, -128);
}

/* Expects that skipping |hex| fails at |pos|. */
static void refuses(const char *hex, int status, size_t pos) {
  nm_reader r = nm_reader_of(nm_test_unhex(hex));
  nm_test_context("%.40s", hex);
  NM_CHECK_STATUS(nm_mp_skip(&r, NULL), status);
  NM_CHECK_STATUS(r.status, status);
  NM_CHECK_INT(r.pos, pos);
  /* It stays failed. */
  nm_mp_item item;
  NM_CHECK_STATUS(nm_mp_read(&r, &item), status);
}

static void accepts(const char *hex, size_t length) {
  nm_reader r = nm_reader_of(nm_test_unhex(hex));
  nm_test_context("%.40s", hex);
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  NM_CHECK_INT(r.pos, length);
}

NM_TEST(what_ends_early_is_refused_where_the_item_began) {
  refuses("", NM_E(TRUNCATED), 0);
  refuses("9201", NM_E(TRUNCATED), 2);
  refuses("93c0cc", NM_E(TRUNCATED), 2);
  refuses("93c0cdff", NM_E(TRUNCATED), 2);
  refuses("c403aabb", NM_E(TRUNCATED), 0);
  refuses("c6ffffffff00", NM_E(TRUNCATED), 0);
  refuses("d8ff00", NM_E(TRUNCATED), 0);
  refuses("81", NM_E(TRUNCATED), 1);
  refuses("8101", NM_E(TRUNCATED), 2);
  refuses("cb3ff80000000000", NM_E(TRUNCATED), 0);
}

NM_TEST(the_reserved_code_is_refused) {
  refuses("c1", NM_E(RESERVED), 0);
  refuses("9201c1", NM_E(RESERVED), 2);
}

NM_TEST(only_valid_utf8_is_a_string) {
  accepts("a2c3a9", 3);
  accepts("a3e282ac", 4);
  accepts("a4f09f9880", 5);
  accepts("a4f48fbfbf", 5);
  accepts("a3ed9fbf", 4);
  accepts("a3ee8080", 4);
  refuses("a180", NM_E(UTF8), 0);
  refuses("a1c3", NM_E(UTF8), 0);
  refuses("a2c080", NM_E(UTF8), 0);
  refuses("a2c1bf", NM_E(UTF8), 0);
  refuses("a3e08080", NM_E(UTF8), 0);
  refuses("a3eda080", NM_E(UTF8), 0);
  refuses("a2e282", NM_E(UTF8), 0);
  refuses("a4f0808080", NM_E(UTF8), 0);
  refuses("a4f4908080", NM_E(UTF8), 0);
  refuses("a4f5808080", NM_E(UTF8), 0);
  refuses("a3f09f98", NM_E(UTF8), 0);
  refuses("a1ff", NM_E(UTF8), 0);
  refuses("93c0a161a2c328", NM_E(UTF8), 4);
}

NM_TEST(equal_map_keys_are_found_whatever_their_form) {
  refuses("8201c001c0", NM_E(DUPLICATE_KEY), 3);
  refuses("8201c0cc01c0", NM_E(DUPLICATE_KEY), 3);
  refuses("8201c0c3c0", NM_E(DUPLICATE_KEY), 3);
  refuses("8201c0cb3ff0000000000000c0", NM_E(DUPLICATE_KEY), 3);
  refuses("82c3c0ca3f800000c0", NM_E(DUPLICATE_KEY), 3);
  refuses("8200c0c2c0", NM_E(DUPLICATE_KEY), 3);
  refuses("8200c0cb8000000000000000c0", NM_E(DUPLICATE_KEY), 3);
  refuses("82ffc0cbbff0000000000000c0", NM_E(DUPLICATE_KEY), 3);
  refuses("82cb7ff0000000000000c0ca7f800000c0", NM_E(DUPLICATE_KEY), 11);
  refuses("82a161c0d90161c0", NM_E(DUPLICATE_KEY), 4);
  refuses("82c40161c0c5000161c0", NM_E(DUPLICATE_KEY), 5);
  refuses("82c0c0c0c0", NM_E(DUPLICATE_KEY), 3);
  refuses("829101029101c0", NM_E(DUPLICATE_KEY), 4);
  refuses("829101c091c3c0", NM_E(DUPLICATE_KEY), 4);
  refuses("82d40161c0c7010161c0", NM_E(DUPLICATE_KEY), 5);
  /* 2^63 as an integer and as a float */
  refuses("82cf8000000000000000c0cb43e0000000000000c0", NM_E(DUPLICATE_KEY),
          11);
  refuses("93018201c001c002", NM_E(DUPLICATE_KEY), 5);
}

NM_TEST(different_map_keys_are_kept_apart) {
  accepts("82a161c0c40161c0", 8);            /* str and bin */
  accepts("8200c0c0c0", 5);                  /* 0 and nil */
  accepts("8201c0cb3ff8000000000000c0", 13); /* 1 and 1.5 */
  accepts("829101c0920101c0", 8);
  accepts("8290c0c0c0", 5);
  accepts("82d40161c0d40261c0", 9); /* ext of two types */
  accepts("82cb7ff8000000000000c0cb7ff8000000000000c0", 21); /* NaN, NaN */
  accepts("8291cb7ff8000000000000c091cb7ff8000000000000c0", 23);
  /* 2^53 + 1 and the float 2^53 */
  accepts("82cf0020000000000001c0cb4340000000000000c0", 21);
  /* 2^64 - 1 and the float 2^64 */
  accepts("82cfffffffffffffffffc0cb43f0000000000000c0", 21);
  accepts("81018101c0", 5); /* the same key one level down */
}

NM_TEST(a_map_in_a_key_is_refused) {
  refuses("8180c0", NM_E(TYPE), 1);
  refuses("819180c0", NM_E(TYPE), 2);
  refuses("81919180c0", NM_E(TYPE), 3);
  accepts("81910180", 4);
  accepts("8191919080", 5);
}

/* A map with |n| keys |first|, |first| + |step|, ... and the value nil; the
 * keys are bytes when they are too many to be numbers. */
static nm_span map_of(uint32_t n, uint32_t first, uint32_t step) {
  size_t cap = 16 + (size_t)n * 7;
  nm_writer w = nm_writer_of(nm_test_scratch(cap), cap);
  nm_mp_map(&w, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t key = first + i * step;
    if (n <= NM_MP_NUMBER_KEYS_MAX) {
      nm_mp_uint(&w, key);
    } else {
      nm_mp_bin(&w, nm_span_of(&key, sizeof key));
    }
    nm_mp_nil(&w);
  }
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

NM_TEST(one_repeated_key_is_found_in_maps_of_any_size) {
  for (uint32_t n = 2; n < 400; n += 1 + n / 3) {
    nm_span good = map_of(n, 1000, 7);
    nm_reader r = nm_reader_of(good);
    nm_test_context("%u keys", n);
    NM_CHECK_OK(nm_mp_skip(&r, NULL));
    /* The last key becomes a copy of one before it; all have three bytes. */
    uint8_t *bytes = nm_test_scratch(good.len);
    memcpy(bytes, good.ptr, good.len);
    size_t last = good.len - 4;
    memcpy(bytes + last, bytes + last - 4 * (1 + nm_test_below(n - 1)), 3);
    r = nm_reader_of(nm_span_of(bytes, good.len));
    NM_CHECK_STATUS(nm_mp_skip(&r, NULL), NM_E(DUPLICATE_KEY));
    NM_CHECK_INT(r.pos, last);
  }
}

NM_TEST(a_hundred_thousand_keys_cost_no_quadratic_time) {
  /* 10^10 comparisons would take minutes. */
  nm_reader r = nm_reader_of(map_of(100000, 70000, 40503));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
}

/* A map whose |n| keys are arrays of one number. */
static nm_span map_of_arrays(uint32_t n) {
  size_t cap = 16 + (size_t)n * 8;
  nm_writer w = nm_writer_of(nm_test_scratch(cap), cap);
  nm_mp_map(&w, n);
  for (uint32_t i = 0; i < n; i++) {
    nm_mp_array(&w, 1);
    nm_mp_uint(&w, 1000 + i);
    nm_mp_nil(&w);
  }
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

NM_TEST(array_keys_of_one_map_are_bounded) {
  nm_reader r = nm_reader_of(map_of_arrays(NM_MP_ARRAY_KEYS_MAX));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  r = nm_reader_of(map_of_arrays(NM_MP_ARRAY_KEYS_MAX + 1));
  NM_CHECK_STATUS(nm_mp_skip(&r, NULL), NM_E(LIMIT));
  NM_CHECK_INT(r.pos, 3 + 5 * NM_MP_ARRAY_KEYS_MAX);
  /* Each map has its own number of them, and arrays inside a key are none. */
  nm_span full = map_of_arrays(NM_MP_ARRAY_KEYS_MAX);
  nm_writer w = nm_writer_of(nm_test_scratch(3 * full.len), 3 * full.len);
  nm_mp_map(&w, 2);
  for (unsigned i = 0; i < 2; i++) {
    nm_mp_array(&w, 2);
    nm_mp_uint(&w, i);
    nm_mp_array(&w, 0);
    nm_writer_span(&w, full);
  }
  r = nm_reader_of(nm_writer_done(&w));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
}

/* A map of |n| numbers, of which every second one is a float. */
static nm_span map_of_numbers(uint32_t n) {
  nm_writer w = nm_writer_of(nm_test_scratch(10 * (size_t)n + 5), 10 * n + 5);
  nm_mp_map(&w, n);
  for (uint32_t i = 0; i < n; i++) {
    if (i % 2 == 0) {
      nm_mp_uint(&w, 100000 + i);
    } else {
      nm_mp_float(&w, 0.5 + i);
    }
    nm_mp_nil(&w);
  }
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

NM_TEST(number_keys_of_one_map_are_bounded) {
  nm_span full = map_of_numbers(NM_MP_NUMBER_KEYS_MAX);
  nm_reader r = nm_reader_of(full);
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  r = nm_reader_of(map_of_numbers(NM_MP_NUMBER_KEYS_MAX + 1));
  NM_CHECK_STATUS(nm_mp_skip(&r, NULL), NM_E(LIMIT));
  NM_CHECK_INT(r.pos, full.len);
}

static int skip_many_keys(const nm_mem *mem, void *user) {
  nm_mp_limits limits = {64, 1000000, mem};
  nm_reader r = nm_reader_of(*(const nm_span *)user);
  return nm_mp_skip(&r, &limits);
}

NM_TEST(memory_for_keys_may_run_out) {
  nm_span many = map_of(1000, 0, 1);
  nm_span few = map_of(64, 0, 1);
  NM_CHECK(nm_test_fail_each(skip_many_keys, &many) >= 4);
  NM_CHECK_INT(nm_test_fail_each(skip_many_keys, &few), 0);
}

/* |n| containers in one another, with 1 inside. */
static nm_span nested(size_t n, bool maps) {
  nm_writer w = nm_writer_of(nm_test_scratch(2 * n + 1), 2 * n + 1);
  for (size_t i = 0; i < n; i++) {
    nm_writer_u8(&w, maps ? 0x81 : 0x91);
    if (maps) {
      nm_writer_u8(&w, 0x00);
    }
  }
  nm_writer_u8(&w, 1);
  return nm_writer_done(&w);
}

NM_TEST(nesting_is_bounded) {
  for (int maps = 0; maps <= 1; maps++) {
    nm_reader r = nm_reader_of(nested(64, maps != 0));
    NM_CHECK_OK(nm_mp_skip(&r, NULL));
    r = nm_reader_of(nested(65, maps != 0));
    NM_CHECK_STATUS(nm_mp_skip(&r, NULL), NM_E(DEPTH));
    NM_CHECK_INT(r.pos, maps ? 128 : 64);
    r = nm_reader_of(nested(100000, maps != 0));
    NM_CHECK_STATUS(nm_mp_skip(&r, NULL), NM_E(DEPTH));
  }
  nm_mp_limits flat = {0, 100, &nm_mem_system};
  nm_reader r = nm_reader_of(nm_test_unhex("90"));
  NM_CHECK_STATUS(nm_mp_skip(&r, &flat), NM_E(DEPTH));
  r = nm_reader_of(nm_test_unhex("01"));
  NM_CHECK_OK(nm_mp_skip(&r, &flat));
  nm_mp_limits huge = {UINT32_MAX, 100000, &nm_mem_system};
  r = nm_reader_of(nested(NM_MP_DEPTH_CAP, true));
  NM_CHECK_OK(nm_mp_skip(&r, &huge));
  r = nm_reader_of(nested(NM_MP_DEPTH_CAP + 1, true));
  NM_CHECK_STATUS(nm_mp_skip(&r, &huge), NM_E(DEPTH));
}

NM_TEST(the_number_of_elements_is_bounded_before_they_are_read) {
  nm_mp_limits four = {64, 4, &nm_mem_system};
  nm_reader r = nm_reader_of(nm_test_unhex("93010203"));
  NM_CHECK_OK(nm_mp_skip(&r, &four));
  r = nm_reader_of(nm_test_unhex("9401020304"));
  NM_CHECK_STATUS(nm_mp_skip(&r, &four), NM_E(LIMIT));
  r = nm_reader_of(nm_test_unhex("8201020304"));
  NM_CHECK_STATUS(nm_mp_skip(&r, &four), NM_E(LIMIT));
  r = nm_reader_of(nm_test_unhex("91920102"));
  NM_CHECK_OK(nm_mp_skip(&r, &four));
  r = nm_reader_of(nm_test_unhex("9293010203"));
  NM_CHECK_STATUS(nm_mp_skip(&r, &four), NM_E(LIMIT));
  NM_CHECK_INT(r.pos, 1);
  refuses("ddffffffff", NM_E(LIMIT), 0);
  refuses("dfffffffff", NM_E(LIMIT), 0);
  nm_mp_limits none = {64, 0, &nm_mem_system};
  r = nm_reader_of(nm_span_of(NULL, 0));
  NM_CHECK_STATUS(nm_mp_skip(&r, &none), NM_E(LIMIT));
  r = nm_reader_of(nm_test_unhex("01"));
  NM_CHECK_STATUS(nm_mp_skip(&r, &none), NM_E(LIMIT));
}

NM_TEST(skipping_stops_after_one_value) {
  nm_reader r = nm_reader_of(nm_test_unhex("9201c0deadbeef"));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  NM_CHECK_INT(r.pos, 3);
}

static nm_span canonical_of(nm_span in) {
  size_t cap = 2 * in.len + 16;
  nm_writer w = nm_writer_of(nm_test_scratch(cap), cap);
  nm_reader r = nm_reader_of(in);
  NM_CHECK_OK(nm_mp_canonical(&r, &w, NULL));
  NM_CHECK_INT(r.pos, in.len);
  return nm_writer_done(&w);
}

NM_TEST(canonical_copies_shrink_integers_and_lengths_and_widen_floats) {
  static const char *const rows[][2] = {
      {"cc05", "05"},
      {"cf0000000000000080", "cc80"},
      {"d3ffffffffffffffe0", "e0"},
      {"d3ffffffffffffffdf", "d0df"},
      {"d30000000000000005", "05"},
      {"ca3fc00000", "cb3ff8000000000000"},
      {"cb3ff0000000000000", "cb3ff0000000000000"},
      {"db00000003616263", "a3616263"},
      {"c600000003616263", "c403616263"},
      {"dd0000000201c0", "9201c0"},
      {"df000000010203", "810203"},
      {"c90000000105aa", "d405aa"},
      {"c8000305aabbcc", "c70305aabbcc"},
      {"83a162cc01a161cc02a163dc00020304", "83a16201a16102a163920304"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_test_context("%s", rows[i][0]);
    NM_CHECK_HEX(canonical_of(nm_test_unhex(rows[i][0])), rows[i][1]);
  }
}

NM_TEST(a_canonical_copy_reports_a_full_writer_and_bad_input) {
  uint8_t out[3];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_reader r = nm_reader_of(nm_test_unhex("9301cc8001"));
  NM_CHECK_STATUS(nm_mp_canonical(&r, &w, NULL), NM_E(TOO_LARGE));
  w = nm_writer_of(out, sizeof out);
  r = nm_reader_of(nm_test_unhex("9301"));
  NM_CHECK_STATUS(nm_mp_canonical(&r, &w, NULL), NM_E(TRUNCATED));
  w = nm_writer_of(out, 0);
  nm_mp_nil(&w);
  r = nm_reader_of(nm_test_unhex("01"));
  NM_CHECK_STATUS(nm_mp_canonical(&r, &w, NULL), NM_E(TOO_LARGE));
  NM_CHECK_INT(r.pos, 0);
}

NM_TEST(numbers_are_read_from_any_width) {
  static const struct {
    const char *hex;
    double value;
  } rows[] = {{"05", 5},           {"ff", -1},
              {"cd0102", 258},     {"d3fffffffffffffff6", -10},
              {"ca3fc00000", 1.5}, {"cb3ff8000000000000", 1.5}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nm_reader r = nm_reader_of(nm_test_unhex(rows[i].hex));
    double value = 0;
    NM_CHECK_OK(nm_mp_read_number(&r, &value));
    NM_CHECK(value == rows[i].value);
  }
  static const char *const others[] = {"c0", "c3", "a131", "c40131", "90"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    nm_reader r = nm_reader_of(nm_test_unhex(others[i]));
    double value = 0;
    NM_CHECK_STATUS(nm_mp_read_number(&r, &value), NM_E(TYPE));
    NM_CHECK_INT(r.pos, 0);
  }
}

/* Writes a random value; integers and lengths around every change of form. */
static void write_random(nm_writer *w, unsigned depth, bool key) {
  static const uint32_t sizes[] = {0, 1, 15, 16, 31, 32, 255, 256, 70000};
  static uint8_t bytes[70000];
  uint32_t size = sizes[nm_test_below(depth > 0 ? 5 : 9)];
  uint64_t any = nm_test_random() >> nm_test_below(64);
  switch (nm_test_below(depth > 3 ? 8 : key ? 9 : 10)) {
  case 0:
    nm_mp_nil(w);
    break;
  case 1:
    nm_mp_bool(w, (any & 1) != 0);
    break;
  case 2:
    nm_mp_uint(w, any);
    break;
  case 3:
    nm_mp_int(w, -(int64_t)(any >> 1));
    break;
  case 4:
    nm_mp_float(w, (double)any / 7);
    break;
  case 5:
    memset(bytes, 'x', size);
    nm_mp_str(w, nm_span_of(bytes, size));
    break;
  case 6:
    nm_test_random_bytes(bytes, size);
    nm_mp_bin(w, nm_span_of(bytes, size));
    break;
  case 7:
    nm_mp_ext(w, (int8_t)any, nm_span_of(bytes, size));
    break;
  case 8:
    size = nm_test_below(20);
    nm_mp_array(w, size);
    for (uint32_t i = 0; i < size; i++) {
      write_random(w, depth + 1, key);
    }
    break;
  default:
    size = nm_test_below(20);
    nm_mp_map(w, size);
    for (uint32_t i = 0; i < size; i++) {
      nm_mp_uint(w, i); /* distinct */
      write_random(w, depth + 1, key);
    }
    break;
  }
}

NM_TEST(what_the_encoder_writes_is_canonical_already) {
  size_t cap = 1 << 22;
  uint8_t *buf = nm_test_scratch(cap);
  for (int i = 0; i < 400; i++) {
    nm_writer w = nm_writer_of(buf, cap);
    write_random(&w, 0, false);
    NM_CHECK_OK(w.status);
    NM_CHECK_SPAN(canonical_of(nm_writer_done(&w)), nm_writer_done(&w));
  }
}

NM_TEST(random_bytes_give_a_named_error_or_a_value) {
  size_t values = 0;
  for (int i = 0; i < 200000; i++) {
    uint8_t in[24];
    size_t len = nm_test_below(sizeof in + 1);
    nm_test_random_bytes(in, len);
    nm_reader r = nm_reader_of(nm_span_of(in, len));
    int status = nm_mp_skip(&r, NULL);
    NM_CHECK(r.pos <= len);
    if (status != NM_OK) {
      NM_CHECK_STATUS(r.status, status);
      NM_CHECK(strcmp(nm_status_name(status), "UNKNOWN") != 0);
      continue;
    }
    values++;
    /* Canonical form is a fixed point with the same verdict. */
    nm_span once = canonical_of(nm_span_of(in, r.pos));
    NM_CHECK(once.len <= 2 * r.pos + 16);
    NM_CHECK_SPAN(canonical_of(once), once);
  }
  NM_CHECK(values > 10000);
}

NM_TEST(sizes_are_what_the_writers_write) {
  static const size_t lengths[] = {0, 1, 31, 32, 255, 256, 65535, 65536, 70000};
  static uint8_t data[70000];
  uint8_t *buf = nm_test_scratch(80000);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    nm_writer w = nm_writer_of(buf, 80000);
    nm_mp_bin(&w, nm_span_of(data, lengths[i]));
    NM_CHECK_INT(w.pos, nm_mp_bin_size(lengths[i]));
    w = nm_writer_of(buf, 80000);
    nm_mp_str(&w, nm_span_of(data, lengths[i]));
    NM_CHECK_INT(w.pos, nm_mp_str_size(lengths[i]));
    w = nm_writer_of(buf, 80000);
    nm_mp_array(&w, (uint32_t)lengths[i]);
    NM_CHECK_INT(w.pos, nm_mp_count_size((uint32_t)lengths[i]));
    w = nm_writer_of(buf, 80000);
    nm_mp_map(&w, (uint32_t)lengths[i]);
    NM_CHECK_INT(w.pos, nm_mp_count_size((uint32_t)lengths[i]));
  }
  for (unsigned shift = 0; shift < 64; shift++) {
    for (int less = 0; less <= 1; less++) {
      uint64_t v = ((uint64_t)1 << shift) - (uint64_t)less;
      nm_writer w = nm_writer_of(buf, 16);
      nm_mp_uint(&w, v);
      NM_CHECK_INT(w.pos, nm_mp_uint_size(v));
    }
  }
}

NM_TEST(lengths_that_msgpack_cannot_express_are_refused) {
  uint8_t out[16];
  size_t len = (size_t)UINT32_MAX + 1;
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_mp_bin(&w, nm_span_of(out, len));
  NM_CHECK_STATUS(w.status, NM_E(TOO_LARGE));
  w = nm_writer_of(out, sizeof out);
  nm_mp_str(&w, nm_span_of(out, len));
  NM_CHECK_STATUS(w.status, NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
}

NM_TEST(a_full_writer_never_holds_half_an_item) {
  uint8_t out[8];
  for (size_t cap = 0; cap < 9; cap++) {
    nm_writer w = nm_writer_of(out, cap);
    nm_mp_uint(&w, UINT64_MAX);
    NM_CHECK_STATUS(w.status, NM_E(TOO_LARGE));
    NM_CHECK_INT(w.pos, 0);
  }
}

/* The vectors' values are canonical, so copying them changes nothing. */
static void check_vector(const nm_vector *v) {
  nm_span bytes = nm_vector_bytes(v, "output.bytes");
  nm_reader r = nm_reader_of(bytes);
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  NM_CHECK_INT(nm_reader_left(&r), 0);
  NM_CHECK_SPAN(canonical_of(bytes), bytes);
}

NM_TEST(msgpack_vectors_are_canonical) {
  nm_vectors_each(NULL, "msgpack", 20, check_vector);
}
