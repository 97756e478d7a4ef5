/* Channel envelopes. */
#include "wire/channel.h"

#include "support.h"

#include <string.h>

static nm_span encode(uint16_t msgtype, uint16_t sequence, nm_span payload) {
  nm_channel_envelope env = {
      .msgtype = msgtype, .sequence = sequence, .payload = payload};
  size_t size = nm_channel_size(&env);
  uint8_t *out = (uint8_t *)nm_test_scratch(size);
  nm_writer w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_channel_encode(&env, &w));
  NM_CHECK_INT(w.pos, size);
  w = nm_writer_of(out, size - 1);
  NM_CHECK_STATUS(nm_channel_encode(&env, &w), NM_E(TOO_LARGE));
  w = nm_writer_of(out, size);
  NM_CHECK_OK(nm_channel_encode(&env, &w));
  return nm_writer_done(&w);
}

static void check(nm_span wire, const nm_vector *v) {
  uint16_t msgtype = (uint16_t)nm_vector_u64(v, "input.msgtype");
  uint16_t sequence = (uint16_t)nm_vector_u64(v, "input.sequence");
  nm_span payload = nm_vector_bytes(v, "input.payload");
  NM_CHECK_SPAN(encode(msgtype, sequence, payload), wire);
  nm_channel_envelope env;
  NM_CHECK_OK(nm_channel_decode(wire, &env, NULL));
  NM_CHECK_INT(env.msgtype, msgtype);
  NM_CHECK_INT(env.sequence, sequence);
  NM_CHECK_INT(env.declared, payload.len);
  NM_CHECK_SPAN(env.payload, payload);
}

static void run_envelope(const nm_vector *v) {
  check(nm_vector_bytes(v, "output.envelope"), v);
}

static void run_message(const nm_vector *v) {
  check(nm_vector_bytes(v, "input.plaintext"), v);
}

NM_TEST(envelopes_of_the_vectors_are_read_and_written) {
  nm_vectors_each(NULL, "channel_envelope", 4, run_envelope);
  nm_vectors_each(NULL, "channel", 2, run_message);
}

NM_TEST(envelopes_that_are_too_short_are_named) {
  uint8_t wire[6] = {0};
  for (size_t len = 0; len < 6; len++) {
    nm_channel_envelope env;
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_channel_decode(nm_span_of(wire, len), &env, &fault),
                    NM_E(TRUNCATED));
    NM_CHECK(strcmp(fault.field, "envelope") == 0);
  }
}

NM_TEST(the_declared_length_does_not_cut_the_payload) {
  nm_channel_envelope env;
  NM_CHECK_OK(
      nm_channel_decode(nm_test_unhex("0001000200016162636465"), &env, NULL));
  NM_CHECK_INT(env.declared, 1);
  NM_CHECK_SPAN(env.payload, nm_span_of("abcde", 5));
  NM_CHECK_OK(nm_channel_decode(nm_test_unhex("00010002ffff"), &env, NULL));
  NM_CHECK_INT(env.declared, 65535);
  NM_CHECK_INT(env.payload.len, 0);
}

NM_TEST(payloads_end_at_65535_bytes) {
  uint8_t *big = (uint8_t *)nm_test_scratch(65536 + 6);
  memset(big, 1, 65536 + 6);
  NM_CHECK_INT(encode(1, 2, nm_span_of(big, 65535)).len, 65541);
  nm_channel_envelope env = {.payload = nm_span_of(big, 65536)};
  uint8_t *out = (uint8_t *)nm_test_scratch(65536 + 6);
  nm_writer w = nm_writer_of(out, 65536 + 6);
  NM_CHECK_STATUS(nm_channel_encode(&env, &w), NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
}

NM_TEST(the_mdu_leaves_room_for_the_header) {
  NM_CHECK_INT(nm_channel_mdu(431), 425);
  NM_CHECK_INT(nm_channel_mdu(6), 0);
  NM_CHECK_INT(nm_channel_mdu(5), 0);
  NM_CHECK_INT(nm_channel_mdu(65541), 65535);
  NM_CHECK_INT(nm_channel_mdu(262000), 65535);
}
