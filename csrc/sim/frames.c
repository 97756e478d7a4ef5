/* What frames are, by their headers.
 */
#include "sim/frames.h"

#include "wire/packet.h"

static const char *const names[NM_SIM_FRAME_KIND_COUNT] = {
    [NM_SIM_FRAME_ANNOUNCE] = "announce",
    [NM_SIM_FRAME_PATH_RESPONSE] = "path_response",
    [NM_SIM_FRAME_PATH_REQUEST] = "path_request",
    [NM_SIM_FRAME_DATA] = "data",
    [NM_SIM_FRAME_PROOF] = "proof",
    [NM_SIM_FRAME_LINK_REQUEST] = "link_request",
    [NM_SIM_FRAME_LINK_PROOF] = "link_proof",
    [NM_SIM_FRAME_LINK_RTT] = "link_rtt",
    [NM_SIM_FRAME_LINK_IDENTIFY] = "link_identify",
    [NM_SIM_FRAME_LINK_CLOSE] = "link_close",
    [NM_SIM_FRAME_KEEPALIVE] = "keepalive",
    [NM_SIM_FRAME_LINK_DATA] = "link_data",
    [NM_SIM_FRAME_REQUEST] = "request",
    [NM_SIM_FRAME_RESPONSE] = "response",
    [NM_SIM_FRAME_RESOURCE] = "resource",
    [NM_SIM_FRAME_RESOURCE_CONTROL] = "resource_control",
    [NM_SIM_FRAME_CHANNEL] = "channel",
    [NM_SIM_FRAME_OTHER] = "other",
};

const char *nm_sim_frame_name(nm_sim_frame_kind kind) {
  return (unsigned)kind < NM_SIM_FRAME_KIND_COUNT ? names[kind] : "other";
}

static nm_sim_frame_kind link_kind(uint8_t context) {
  switch (context) {
  case NM_CONTEXT_RESOURCE:
    return NM_SIM_FRAME_RESOURCE;
  case NM_CONTEXT_RESOURCE_ADV:
  case NM_CONTEXT_RESOURCE_REQ:
  case NM_CONTEXT_RESOURCE_HMU:
  case NM_CONTEXT_RESOURCE_ICL:
  case NM_CONTEXT_RESOURCE_RCL:
  case NM_CONTEXT_CACHE_REQUEST:
    return NM_SIM_FRAME_RESOURCE_CONTROL;
  case NM_CONTEXT_REQUEST:
    return NM_SIM_FRAME_REQUEST;
  case NM_CONTEXT_RESPONSE:
    return NM_SIM_FRAME_RESPONSE;
  case NM_CONTEXT_CHANNEL:
    return NM_SIM_FRAME_CHANNEL;
  case NM_CONTEXT_KEEPALIVE:
    return NM_SIM_FRAME_KEEPALIVE;
  case NM_CONTEXT_LINKIDENTIFY:
    return NM_SIM_FRAME_LINK_IDENTIFY;
  case NM_CONTEXT_LINKCLOSE:
    return NM_SIM_FRAME_LINK_CLOSE;
  case NM_CONTEXT_LRRTT:
    return NM_SIM_FRAME_LINK_RTT;
  default:
    return NM_SIM_FRAME_LINK_DATA;
  }
}

static nm_sim_frame_kind data_kind(const nm_packet *packet) {
  if (packet->destination_type == NM_LINK) {
    return link_kind(packet->context);
  }
  bool asks =
      packet->destination_type == NM_PLAIN &&
      nm_span_equal(packet->destination,
                    nm_span_of(nm_path_request_address.b, NM_ADDRESS_SIZE));
  return asks ? NM_SIM_FRAME_PATH_REQUEST : NM_SIM_FRAME_DATA;
}

nm_sim_frame_kind nm_sim_frame_kind_of(nm_span raw) {
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK || packet.ifac_flag) {
    return NM_SIM_FRAME_OTHER;
  }
  switch (packet.packet_type) {
  case NM_ANNOUNCE:
    return packet.context == NM_CONTEXT_PATH_RESPONSE
               ? NM_SIM_FRAME_PATH_RESPONSE
               : NM_SIM_FRAME_ANNOUNCE;
  case NM_LINKREQUEST:
    return NM_SIM_FRAME_LINK_REQUEST;
  case NM_PROOF:
    return packet.context == NM_CONTEXT_LRPROOF ? NM_SIM_FRAME_LINK_PROOF
           : packet.context == NM_CONTEXT_RESOURCE_PRF
               ? NM_SIM_FRAME_RESOURCE_CONTROL
               : NM_SIM_FRAME_PROOF;
  default:
    return data_kind(&packet);
  }
}
