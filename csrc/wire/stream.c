/* Stream data messages. */
#include "wire/stream.h"

#include "crypto/bz2.h"

#define BZ2_LEVEL 9
/* A writer tries all, a half and a third of its input. */
#define COMPRESS_TRIES 3

int nm_stream_decode(nm_span in, nm_stream_message *msg, nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  uint16_t header = nm_reader_u16(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "stream", in.len);
  }
  msg->stream_id = header & NM_STREAM_ID_MAX;
  msg->eof = (header & NM_STREAM_EOF) != 0;
  msg->compressed = (header & NM_STREAM_COMPRESSED) != 0;
  msg->data = nm_reader_rest(&r);
  return NM_OK;
}

size_t nm_stream_size(const nm_stream_message *msg) {
  return NM_STREAM_HEADER_SIZE + msg->data.len;
}

int nm_stream_encode(const nm_stream_message *msg, nm_writer *w) {
  if (msg->stream_id > NM_STREAM_ID_MAX) {
    return NM_E(RANGE);
  }
  unsigned header = msg->stream_id | (msg->eof ? NM_STREAM_EOF : 0) |
                    (msg->compressed ? NM_STREAM_COMPRESSED : 0);
  nm_writer_u16(w, (uint16_t)header);
  nm_writer_span(w, msg->data);
  return w->status;
}

int nm_stream_data(const nm_stream_message *msg, size_t limit,
                   const nm_mem *mem, nm_buffer *out, nm_span *data,
                   nm_fault *fault) {
  size_t most = limit != 0 ? limit : NM_STREAM_CHUNK_MAX;
  if (!msg->compressed) {
    *data = msg->data;
    return NM_OK;
  }
  size_t before = out->len;
  int status = nm_bz2_decompress(mem, msg->data, most, out);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "stream.data", NM_STREAM_HEADER_SIZE);
  }
  *data =
      nm_span_slice(nm_span_of(out->ptr, out->len), before, out->len - before);
  return NM_OK;
}

/* Compresses the first 1/1, 1/2 or 1/3 of |data| into |packed|: the first that
 * is below |room| and its own length. Returns how much it covers, 0 for none,
 * or NM_E(MEMORY). */
static int try_compress(nm_span data, size_t room, const nm_mem *mem,
                        nm_buffer *packed, size_t *covered) {
  *covered = 0;
  if (data.len <= NM_STREAM_COMPRESS_MIN) {
    return NM_OK;
  }
  for (size_t divisor = 1; divisor <= COMPRESS_TRIES; divisor++) {
    nm_span part = nm_span_slice(data, 0, data.len / divisor);
    size_t below = part.len < room ? part.len : room;
    int status = nm_bz2_compress(mem, part, BZ2_LEVEL, below - 1, packed);
    if (status == NM_OK) {
      *covered = part.len;
      return NM_OK;
    }
    if (status != NM_E(LIMIT)) {
      return status;
    }
  }
  return NM_OK;
}

int nm_stream_write(uint16_t stream_id, nm_span data, bool eof,
                    size_t channel_mdu, const nm_mem *mem, nm_writer *w,
                    nm_stream_written *written) {
  if (channel_mdu <= NM_STREAM_HEADER_SIZE) {
    return NM_E(ARGUMENT);
  }
  size_t room = channel_mdu - NM_STREAM_HEADER_SIZE;
  nm_span taken = data.len > NM_STREAM_CHUNK_MAX
                      ? nm_span_slice(data, 0, NM_STREAM_CHUNK_MAX)
                      : data;
  nm_buffer packed;
  nm_buffer_init(&packed, mem, NULL, 0, 1);
  size_t covered;
  int status = try_compress(taken, room, mem, &packed, &covered);
  if (status == NM_OK) {
    nm_stream_message msg = {.stream_id = stream_id, .compressed = covered > 0};
    if (covered > 0) {
      msg.data = nm_span_of(packed.ptr, packed.len);
    } else {
      covered = taken.len < room ? taken.len : room;
      msg.data = nm_span_slice(taken, 0, covered);
    }
    msg.eof = eof && covered == data.len;
    status = nm_stream_encode(&msg, w);
    written->consumed = covered;
    written->length = nm_stream_size(&msg);
    written->compressed = msg.compressed;
  }
  nm_buffer_dispose(&packed);
  return status;
}
