/* Any bytes as a packet: what is accepted packs to the same bytes, and both
 * ways to its hash agree. */
#include "fuzz.h"
#include "wire/packet.h"

static void check_repack(const nm_packet *p, nm_span in) {
  uint8_t out[4096];
  size_t len = 0;
  nm_fault fault = {0};
  nm_packet copy = *p;
  copy.ifac_flag = 0;
  int status = nm_packet_pack(&copy, NM_PACKET_RELAY, sizeof out, out,
                              sizeof out, &len, &fault);
  if (in.len > sizeof out) {
    MUST(status == NM_E(TOO_LARGE));
    return;
  }
  MUST(status == NM_OK && len == in.len);
  MUST((out[0] | (p->ifac_flag << 7)) == in.ptr[0]);
  MUST(memcmp(out + 1, in.ptr + 1, len - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  nm_packet p;
  nm_fault fault = {0};
  int status = nm_packet_parse(in, &p, &fault);
  must_name(status, &fault, size);
  MUST(status == nm_packet_parse_fault(in, NULL));
  if (status != NM_OK) {
    return 0;
  }
  MUST(p.destination.len == NM_ADDRESS_SIZE && p.payload.len > 0);
  MUST(lies_in(p.destination, in) && lies_in(p.payload, in));
  MUST(lies_in(p.transport_id, in) && lies_in(p.hashable, in));
  MUST(nm_packet_size(&p) == size);
  nm_packet_hash a;
  nm_packet_hash b;
  nm_packet_digest(&p, &a);
  MUST(nm_packet_digest_raw(in, &b, NULL) == NM_OK);
  MUST(memcmp(a.b, b.b, sizeof a.b) == 0);
  (void)nm_packet_travels_in_clear(p.packet_type, p.destination_type,
                                   p.context);
  (void)nm_context_name(p.context);
  check_repack(&p, in);
  return 0;
}
