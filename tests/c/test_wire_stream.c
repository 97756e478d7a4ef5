/* Stream data messages. */
#include "wire/stream.h"

#include "crypto/bz2.h"
#include "crypto/hash.h"
#include "support.h"
#include "wire_data.h"

#include <string.h>

static void run_data_vector(const nm_vector *v) {
  nm_span wire = nm_vector_bytes(v, "output.message");
  nm_stream_message msg;
  NM_CHECK_OK(nm_stream_decode(wire, &msg, NULL));
  NM_CHECK_INT(msg.stream_id, nm_vector_u64(v, "input.stream_id"));
  NM_CHECK_INT(msg.eof, nm_vector_bool(v, "input.eof"));
  NM_CHECK_INT(msg.compressed, nm_vector_bool(v, "input.compressed"));
  nm_buffer out;
  nm_span data;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  NM_CHECK_OK(nm_stream_data(&msg, 0, &nm_mem_system, &out, &data, NULL));
  NM_CHECK_SPAN(data, nm_vector_bytes(v, "input.data"));
  uint8_t again[600];
  nm_writer w = nm_writer_of(again, sizeof again);
  NM_CHECK_OK(nm_stream_encode(&msg, &w));
  NM_CHECK_INT(w.pos, nm_stream_size(&msg));
  NM_CHECK_SPAN(nm_writer_done(&w), wire);
  nm_buffer_dispose(&out);
}

NM_TEST(stream_messages_of_the_vectors_are_read_and_written) {
  nm_vectors_each(NULL, "stream_data", 4, run_data_vector);
}

static void run_writer_vector(const nm_vector *v) {
  nm_span data = nm_wire_vector_data(v);
  size_t mdu = (size_t)nm_vector_u64(v, "input.channel_mdu");
  uint8_t *out = (uint8_t *)nm_test_scratch(mdu);
  nm_writer w = nm_writer_of(out, mdu);
  nm_stream_written written;
  NM_CHECK_OK(nm_stream_write((uint16_t)nm_vector_u64(v, "input.stream_id"),
                              data, false, mdu, &nm_mem_system, &w, &written));
  NM_CHECK_INT(written.consumed, nm_vector_u64(v, "output.consumed"));
  NM_CHECK_INT(written.length, w.pos);
  if (nm_vector_has(v, "output.message")) {
    NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "output.message"));
  }
  if (nm_vector_has(v, "output.message_sha256")) {
    uint8_t digest[32];
    nm_sha256(digest, nm_writer_done(&w));
    NM_CHECK_INT(w.pos, nm_vector_u64(v, "output.message_length"));
    NM_CHECK_SPAN(nm_span_of(digest, 32),
                  nm_vector_bytes(v, "output.message_sha256"));
  }
  nm_stream_message msg;
  NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
  NM_CHECK_INT(msg.compressed, written.compressed);
}

NM_TEST(writers_choose_as_in_the_vectors) {
  nm_vectors_each(NULL, "stream_writer", 9, run_writer_vector);
}

NM_TEST(a_writer_halves_and_thirds_what_does_not_fit_compressed) {
  /* Compressible at the front only, so that the third is what helps. */
  nm_span noise = nm_wire_rule_data("thirds", 16384);
  uint8_t data[3000];
  memcpy(data, noise.ptr, sizeof data);
  memset(data, 'a', 1000);
  uint8_t out[425];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_stream_written written;
  NM_CHECK_OK(nm_stream_write(1, nm_span_of(data, 3000), true, 425,
                              &nm_mem_system, &w, &written));
  NM_CHECK(written.compressed);
  NM_CHECK_INT(written.consumed, 1000);
  nm_stream_message msg;
  NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
  NM_CHECK(!msg.eof);
}

NM_TEST(the_end_goes_with_the_message_that_carries_all) {
  uint8_t out[425];
  nm_stream_written written;
  nm_stream_message msg;
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_stream_write(5, nm_span_of(NULL, 0), true, 425, &nm_mem_system,
                              &w, &written));
  NM_CHECK_HEX(nm_writer_done(&w), "8005");
  w = nm_writer_of(out, sizeof out);
  nm_span noise = nm_wire_rule_data("end", 424);
  NM_CHECK_OK(
      nm_stream_write(5, noise, true, 425, &nm_mem_system, &w, &written));
  NM_CHECK_INT(written.consumed, 423);
  NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
  NM_CHECK(!msg.eof);
  w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_stream_write(5, nm_span_slice(noise, 0, 423), true, 425,
                              &nm_mem_system, &w, &written));
  NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
  NM_CHECK(msg.eof);
}

NM_TEST(a_whole_stream_arrives_whatever_the_size) {
  static const size_t mdus[] = {3, 4, 50, 425, 8105, 65535};
  uint8_t *text = (uint8_t *)nm_test_scratch(40000);
  nm_span noise = nm_wire_rule_data("whole", 40000);
  for (size_t i = 0; i < 40000; i++) {
    /* Noise and text in turn. */
    text[i] = (i / 7000) % 2 == 0 ? (uint8_t)('a' + i % 5) : noise.ptr[i];
  }
  for (size_t m = 0; m < 6; m++) {
    size_t total = mdus[m] < 50 ? 100 : 40000;
    nm_span left = nm_span_of(text, total);
    uint8_t *out = (uint8_t *)nm_test_scratch(mdus[m]);
    nm_buffer joined;
    nm_buffer_init(&joined, &nm_mem_system, NULL, 0, 0);
    bool eof = false;
    while (!eof) {
      nm_writer w = nm_writer_of(out, mdus[m]);
      nm_stream_written written;
      NM_CHECK_OK(nm_stream_write(9, left, true, mdus[m], &nm_mem_system, &w,
                                  &written));
      NM_CHECK(written.consumed > 0);
      nm_stream_message msg;
      NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
      nm_buffer clear;
      nm_span data;
      nm_buffer_init(&clear, &nm_mem_system, NULL, 0, 0);
      NM_CHECK_OK(nm_stream_data(&msg, 0, &nm_mem_system, &clear, &data, NULL));
      NM_CHECK_OK(nm_buffer_append(&joined, data.ptr, data.len));
      nm_buffer_dispose(&clear);
      left = nm_span_slice(left, written.consumed, left.len - written.consumed);
      eof = msg.eof;
    }
    NM_CHECK_SPAN(nm_span_of(joined.ptr, joined.len), nm_span_of(text, total));
    nm_buffer_dispose(&joined);
  }
}

NM_TEST(writers_refuse_what_cannot_be) {
  uint8_t out[425];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_stream_written written;
  nm_span data = nm_span_of("x", 1);
  NM_CHECK_STATUS(
      nm_stream_write(0x4000, data, false, 425, &nm_mem_system, &w, &written),
      NM_E(RANGE));
  NM_CHECK_STATUS(
      nm_stream_write(1, data, false, 2, &nm_mem_system, &w, &written),
      NM_E(ARGUMENT));
  nm_stream_message msg = {.stream_id = 0x4000};
  NM_CHECK_STATUS(nm_stream_encode(&msg, &w), NM_E(RANGE));
  NM_CHECK_INT(w.pos, 0);
}

static int write_and_read(const nm_mem *mem, void *user) {
  uint8_t out[425];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_stream_written written;
  const nm_span *data = (const nm_span *)user;
  int status = nm_stream_write(1, *data, false, 425, mem, &w, &written);
  if (status != NM_OK) {
    return status;
  }
  nm_stream_message msg;
  nm_buffer clear;
  nm_span back;
  NM_CHECK_OK(nm_stream_decode(nm_writer_done(&w), &msg, NULL));
  nm_buffer_init(&clear, mem, NULL, 0, 0);
  status = nm_stream_data(&msg, 0, mem, &clear, &back, NULL);
  nm_buffer_dispose(&clear);
  return status;
}

NM_TEST(every_allocation_of_a_stream_may_fail) {
  uint8_t text[5000];
  memset(text, 'x', sizeof text);
  nm_span data = nm_span_of(text, sizeof text);
  NM_CHECK(nm_test_fail_each(write_and_read, &data) >= 2);
}

NM_TEST(a_message_inflates_to_its_bound_and_no_further) {
  uint8_t *zeros = (uint8_t *)nm_test_scratch(1 << 20);
  memset(zeros, 0, 1 << 20);
  static const size_t sizes[] = {16383, 16384, 16385, 1 << 20};
  for (size_t i = 0; i < 4; i++) {
    nm_buffer packed;
    nm_buffer clear;
    nm_test_mem mem;
    nm_test_mem_init(&mem);
    nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
    nm_buffer_init(&clear, &mem.mem, NULL, 0, 0);
    NM_CHECK_OK(nm_bz2_compress(&nm_mem_system, nm_span_of(zeros, sizes[i]), 9,
                                10000, &packed));
    nm_stream_message msg = {.compressed = true,
                             .data = nm_span_of(packed.ptr, packed.len)};
    nm_span data;
    nm_fault fault = {0};
    int status = nm_stream_data(&msg, 0, &mem.mem, &clear, &data, &fault);
    NM_CHECK_STATUS(status, sizes[i] <= 16384 ? NM_OK : NM_E(LIMIT));
    if (status != NM_OK) {
      NM_CHECK(strcmp(fault.field, "stream.data") == 0);
    }
    NM_CHECK_STATUS(nm_stream_data(&msg, 100, &mem.mem, &clear, &data, &fault),
                    NM_E(LIMIT));
    nm_buffer_dispose(&packed);
    nm_buffer_dispose(&clear);
    NM_CHECK(mem.bytes_peak < 8u << 20);
  }
}

NM_TEST(damaged_stream_messages_are_named) {
  nm_stream_message msg;
  nm_fault fault = {0};
  uint8_t wire[2] = {0};
  for (size_t len = 0; len < 2; len++) {
    NM_CHECK_STATUS(nm_stream_decode(nm_span_of(wire, len), &msg, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "stream") == 0);
  }
  nm_span good = nm_test_unhex(
      "4001425a683931415926535924c7ed2b0000008440a00000020008200021264198a80e2e"
      "e48a70a120498fda56");
  nm_buffer clear;
  nm_span data;
  nm_buffer_init(&clear, &nm_mem_system, NULL, 0, 0);
  for (size_t len = 2; len <= good.len; len++) {
    NM_CHECK_OK(nm_stream_decode(nm_span_slice(good, 0, len), &msg, NULL));
    NM_CHECK_STATUS(
        nm_stream_data(&msg, 0, &nm_mem_system, &clear, &data, &fault),
        len < good.len ? NM_E(COMPRESSED) : NM_OK);
  }
  uint8_t *copy = (uint8_t *)nm_test_scratch(good.len);
  for (size_t bit = 16; bit < 8 * good.len; bit++) {
    memcpy(copy, good.ptr, good.len);
    copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_OK(nm_stream_decode(nm_span_of(copy, good.len), &msg, NULL));
    int status = nm_stream_data(&msg, 0, &nm_mem_system, &clear, &data, NULL);
    NM_CHECK(status == NM_OK || status == NM_E(COMPRESSED) ||
             status == NM_E(LIMIT));
  }
  nm_buffer_dispose(&clear);
}
