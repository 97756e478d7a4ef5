/* Channel envelopes. */
#include "wire/channel.h"

int nm_channel_decode(nm_span in, nm_channel_envelope *env, nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  env->msgtype = nm_reader_u16(&r);
  env->sequence = nm_reader_u16(&r);
  env->declared = nm_reader_u16(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "envelope", in.len);
  }
  env->payload = nm_reader_rest(&r);
  return NM_OK;
}

size_t nm_channel_size(const nm_channel_envelope *env) {
  return NM_CHANNEL_HEADER_SIZE + env->payload.len;
}

int nm_channel_encode(const nm_channel_envelope *env, nm_writer *w) {
  if (env->payload.len > NM_CHANNEL_PAYLOAD_MAX) {
    return NM_E(TOO_LARGE);
  }
  nm_writer_u16(w, env->msgtype);
  nm_writer_u16(w, env->sequence);
  nm_writer_u16(w, (uint16_t)env->payload.len);
  nm_writer_span(w, env->payload);
  return w->status;
}

size_t nm_channel_mdu(size_t link_mdu) {
  if (link_mdu < NM_CHANNEL_HEADER_SIZE) {
    return 0;
  }
  size_t mdu = link_mdu - NM_CHANNEL_HEADER_SIZE;
  return mdu < NM_CHANNEL_PAYLOAD_MAX ? mdu : NM_CHANNEL_PAYLOAD_MAX;
}
