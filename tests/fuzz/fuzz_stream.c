/* Any bytes as a stream message, and as the text of a stream that a writer cuts
 * and a reader joins. The first byte chooses, and sets the size. */
#include "fuzz.h"
#include "wire/stream.h"

static void read_message(nm_span in, size_t limit) {
  nm_stream_message msg;
  nm_fault fault = {0};
  int status = nm_stream_decode(in, &msg, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  static uint8_t out[1 << 16];
  nm_writer w = nm_writer_of(out, sizeof out);
  if (nm_stream_size(&msg) <= sizeof out) {
    MUST(nm_stream_encode(&msg, &w) == NM_OK);
    MUST(nm_span_equal(nm_writer_done(&w), in));
  }
  nm_buffer clear;
  nm_span data;
  nm_buffer_init(&clear, &nm_mem_system, NULL, 0, 0);
  status = nm_stream_data(&msg, limit, &nm_mem_system, &clear, &data, &fault);
  must_name(status, &fault, in.len);
  MUST(status != NM_OK || !msg.compressed || data.len <= limit);
  nm_buffer_dispose(&clear);
}

static void write_stream(nm_span text, size_t mdu) {
  nm_span left = text;
  nm_reader expected = nm_reader_of(text);
  bool eof = false;
  while (!eof) {
    uint8_t out[300];
    nm_writer w = nm_writer_of(out, mdu);
    nm_stream_written written;
    MUST(nm_stream_write(77, left, true, mdu, &nm_mem_system, &w, &written) ==
         NM_OK);
    MUST(written.consumed > 0 || left.len == 0);
    MUST(written.length == w.pos && w.pos <= mdu);
    nm_stream_message msg;
    nm_buffer clear;
    nm_span data;
    nm_buffer_init(&clear, &nm_mem_system, NULL, 0, 0);
    MUST(nm_stream_decode(nm_writer_done(&w), &msg, NULL) == NM_OK);
    MUST(nm_stream_data(&msg, 0, &nm_mem_system, &clear, &data, NULL) == NM_OK);
    MUST(data.len == written.consumed && msg.stream_id == 77);
    MUST(nm_span_equal(nm_reader_take(&expected, data.len), data));
    nm_buffer_dispose(&clear);
    left = nm_span_slice(left, written.consumed, left.len - written.consumed);
    eof = msg.eof;
    MUST(eof == (left.len == 0));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  nm_span in = nm_span_of(data + 1, size - 1);
  if (data[0] < 128) {
    read_message(in, ((size_t)data[0] + 1) * 200);
  } else {
    /* Every message costs up to three compressions of about a millisecond. */
    nm_span text = in.len > 1200 ? nm_span_slice(in, 0, 1200) : in;
    write_stream(text, 120 + (size_t)(data[0] - 128));
  }
  return 0;
}
