#include "wire/packet.h"

#include "crypto/sha256_lanes.h"

#include <string.h>

int nm_packet_parse_fault(nm_span raw, nm_fault *fault) {
  nm_reader r = nm_reader_of(raw);
  uint8_t flags = nm_reader_u8(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "flags", 0);
  }
  uint8_t hops = nm_reader_u8(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "hops", 1);
  }
  if (hops >= NM_HOPS_MAX) {
    return nm_fault_set(fault, NM_E(RANGE), "hops", 1);
  }
  size_t at = r.pos;
  if ((flags >> 6) & 1) {
    (void)nm_reader_take(&r, NM_ADDRESS_SIZE);
    if (r.status != NM_OK) {
      return nm_fault_set(fault, r.status, "transport_id", at);
    }
    at = r.pos;
  }
  (void)nm_reader_take(&r, NM_ADDRESS_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "destination", at);
  }
  at = r.pos;
  (void)nm_reader_u8(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "context", at);
  }
  if (nm_reader_left(&r) == 0) {
    return nm_fault_set(fault, NM_E(EMPTY), "payload", r.pos);
  }
  return NM_OK;
}

/* The first field of |p| that does not fit its bits, or NULL. */
static const char *wide_field(const nm_packet *p) {
  if (p->header_type > NM_HEADER_2) {
    return "header_type";
  }
  if (p->context_flag > 1) {
    return "context_flag";
  }
  if (p->transport_type > NM_TRANSPORT) {
    return "transport_type";
  }
  if (p->destination_type > NM_LINK) {
    return "destination_type";
  }
  if (p->packet_type > NM_PROOF) {
    return "packet_type";
  }
  return p->hops >= NM_HOPS_MAX ? "hops" : NULL;
}

int nm_packet_pack_fault(const nm_packet *p, nm_packet_role role, size_t mtu,
                         size_t cap, nm_fault *fault) {
  const char *wide = wide_field(p);
  if (wide != NULL) {
    return nm_fault_set(fault, NM_E(RANGE), wide, 0);
  }
  if (p->ifac_flag != 0) {
    return nm_fault_set(fault, NM_E(VALUE), "ifac_flag", 0);
  }
  bool relayed = p->header_type == NM_HEADER_2;
  if (relayed && p->transport_id.len == 0) {
    return nm_fault_set(fault, NM_E(MISSING), "transport_id", 2);
  }
  if (!relayed && p->transport_id.len != 0) {
    return nm_fault_set(fault, NM_E(VALUE), "transport_id", 2);
  }
  if (relayed && p->transport_id.len != NM_ADDRESS_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "transport_id", 2);
  }
  if (p->destination.len != NM_ADDRESS_SIZE) {
    size_t at = relayed ? 2 + NM_ADDRESS_SIZE : 2;
    return nm_fault_set(fault, NM_E(LENGTH), "destination", at);
  }
  if (relayed && p->packet_type != NM_ANNOUNCE && role != NM_PACKET_RELAY) {
    return nm_fault_set(fault, NM_E(STATE), "header_type", 0);
  }
  if (p->payload.len == 0) {
    return nm_fault_set(fault, NM_E(EMPTY), "payload", nm_packet_size(p));
  }
  /* Sizes are compared without the header, which a length near the end of
   * size_t would make wrap around. */
  size_t header = relayed ? NM_HEADER_2_SIZE : NM_HEADER_1_SIZE;
  if (mtu < header || p->payload.len > mtu - header) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "packet", mtu);
  }
  if (cap < header || p->payload.len > cap - header) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "output", cap);
  }
  return NM_OK;
}

void nm_packet_digest(const nm_packet *p, nm_packet_hash *hash) {
  uint8_t flags = nm_packet_hash_flags(p->flags);
  nm_span parts[2] = {nm_span_of(&flags, 1), p->hashable};
  nm_sha256v(hash->b, parts, 2);
}

/* Longer ones are hashed alone, where they are. */
#define GATHERED_MAX 512

void nm_packet_digest_many(const nm_packet *const *packets, size_t count,
                           nm_packet_hash *const *hashes) {
  uint8_t bytes[NM_DIGEST_BATCH][1 + GATHERED_MAX];
  uint8_t digests[NM_DIGEST_BATCH][NM_HASH_SIZE];
  nm_span parts[NM_DIGEST_BATCH];
  size_t owners[NM_DIGEST_BATCH];
  size_t gathered = 0;
  for (size_t i = 0; i < count; i++) {
    const nm_packet *p = packets[i];
    if (p->hashable.len > GATHERED_MAX) {
      nm_packet_digest(p, hashes[i]);
      continue;
    }
    uint8_t *at = bytes[gathered];
    at[0] = nm_packet_hash_flags(p->flags);
    memcpy(at + 1, p->hashable.ptr, p->hashable.len);
    parts[gathered] = nm_span_of(at, 1 + p->hashable.len);
    owners[gathered++] = i;
  }
  if (gathered == 0) {
    return;
  }
  nm_sha256_many(digests, parts, gathered);
  for (size_t k = 0; k < gathered; k++) {
    memcpy(hashes[owners[k]]->b, digests[k], NM_HASH_SIZE);
  }
}

int nm_packet_digest_raw(nm_span raw, nm_packet_hash *hash, nm_fault *fault) {
  nm_packet p;
  int status = nm_packet_parse(raw, &p, fault);
  if (status == NM_OK) {
    nm_packet_digest(&p, hash);
  }
  return status;
}

bool nm_packet_travels_in_clear(uint8_t packet_type, uint8_t destination_type,
                                uint8_t context) {
  if (packet_type != NM_DATA || destination_type == NM_PLAIN) {
    return true;
  }
  return context == NM_CONTEXT_RESOURCE || context == NM_CONTEXT_KEEPALIVE ||
         context == NM_CONTEXT_CACHE_REQUEST || context == NM_CONTEXT_LRPROOF;
}

bool nm_packet_is_part(const nm_packet *p) {
  return p->packet_type == NM_DATA && p->destination_type == NM_LINK &&
         p->context == NM_CONTEXT_RESOURCE;
}

bool nm_packet_skips_filter(uint8_t context) {
  return context == NM_CONTEXT_KEEPALIVE ||
         context == NM_CONTEXT_RESOURCE_REQ ||
         context == NM_CONTEXT_RESOURCE_PRF || context == NM_CONTEXT_RESOURCE ||
         context == NM_CONTEXT_CACHE_REQUEST || context == NM_CONTEXT_CHANNEL;
}

bool nm_packet_has_receipt(uint8_t packet_type, uint8_t destination_type,
                           uint8_t context) {
  bool link_control = context >= NM_CONTEXT_KEEPALIVE;
  bool resource = context >= NM_CONTEXT_RESOURCE && context <= 0x07;
  return packet_type == NM_DATA && destination_type != NM_PLAIN &&
         !link_control && !resource;
}

const char *nm_context_name(uint8_t context) {
  static const char *const low[] = {
      "NONE",          "RESOURCE",       "RESOURCE_ADV", "RESOURCE_REQ",
      "RESOURCE_HMU",  "RESOURCE_PRF",   "RESOURCE_ICL", "RESOURCE_RCL",
      "CACHE_REQUEST", "REQUEST",        "RESPONSE",     "PATH_RESPONSE",
      "COMMAND",       "COMMAND_STATUS", "CHANNEL"};
  static const char *const high[] = {"KEEPALIVE", "LINKIDENTIFY", "LINKCLOSE",
                                     "LINKPROOF", "LRRTT",        "LRPROOF"};
  if (context <= NM_CONTEXT_CHANNEL) {
    return low[context];
  }
  return context >= NM_CONTEXT_KEEPALIVE ? high[context - NM_CONTEXT_KEEPALIVE]
                                         : NULL;
}
