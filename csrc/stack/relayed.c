/* What a node changes in packets that it carries on, and whether it does at
 * all.
 */
#include "stack/internal.h"

bool nm_transport_is_on(const nm_engine *engine) {
  return engine->transport || engine->carried.clients > 0;
}

nm_block *nm_relayed_announce(nm_engine *engine, nm_span raw, uint8_t hops,
                              uint8_t context) {
  nm_packet packet;
  if (hops >= NM_HOPS_MAX || nm_packet_parse(raw, &packet, NULL) != NM_OK) {
    return NULL;
  }
  packet.header_type = NM_HEADER_2;
  packet.transport_type = NM_TRANSPORT;
  packet.transport_id =
      nm_span_of(nm_engine_identity(engine)->hash.b, NM_ADDRESS_SIZE);
  packet.hops = hops;
  packet.context = context;
  return nm_engine_pack(engine, &packet, NM_PACKET_RELAY, NM_MTU);
}

/* One more hop, nothing else changed. */
nm_block *nm_forward_counted(nm_engine *engine, const nm_input *input) {
  nm_reader r = nm_reader_of(input->frame->raw);
  nm_block *out = nm_block_new(engine->mem, input->frame->raw.len);
  if (out == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(out), input->frame->raw.len);
  nm_writer_u8(&w, nm_reader_u8(&r));
  (void)nm_reader_u8(&r);
  nm_writer_u8(&w, input->hops);
  nm_writer_span(&w, nm_reader_rest(&r));
  return out;
}
