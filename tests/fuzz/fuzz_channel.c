/* Any bytes as a channel envelope. */
#include "fuzz.h"
#include "wire/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  nm_channel_envelope env;
  nm_fault fault = {0};
  int status = nm_channel_decode(in, &env, &fault);
  must_name(status, &fault, size);
  if (status != NM_OK) {
    MUST(size < NM_CHANNEL_HEADER_SIZE);
    return 0;
  }
  MUST(env.payload.len == size - NM_CHANNEL_HEADER_SIZE);
  static uint8_t out[NM_CHANNEL_HEADER_SIZE + NM_CHANNEL_PAYLOAD_MAX];
  nm_writer w = nm_writer_of(out, sizeof out);
  MUST(nm_channel_encode(&env, &w) ==
       (env.payload.len > NM_CHANNEL_PAYLOAD_MAX ? NM_E(TOO_LARGE) : NM_OK));
  if (w.pos == size && env.declared == env.payload.len) {
    MUST(nm_span_equal(nm_writer_done(&w), in));
  }
  return 0;
}
