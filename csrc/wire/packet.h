/* The packet: header fields, parsing, packing and the packet hash
 * (RNS 1, 4.1 to 4.7).
 *
 * A parsed packet is a view: its spans borrow from the bytes it was parsed
 * from. The hot functions are inline; they check the length once and take a
 * few nanoseconds. Nothing here allocates.
 */
#ifndef NM_WIRE_PACKET_H
#define NM_WIRE_PACKET_H

#include "base/cursor.h"
#include "wire/constants.h"

typedef struct nm_packet {
  uint8_t flags; /* the first byte as it is; set by parsing, not read by pack */
  uint8_t ifac_flag;        /* 1: an access code is still in place */
  uint8_t header_type;      /* NM_HEADER_1, NM_HEADER_2 */
  uint8_t context_flag;     /* announces: 1 = with ratchet */
  uint8_t transport_type;   /* NM_BROADCAST, NM_TRANSPORT */
  uint8_t destination_type; /* NM_SINGLE, NM_GROUP, NM_PLAIN, NM_LINK */
  uint8_t packet_type;      /* NM_DATA, NM_ANNOUNCE, NM_LINKREQUEST, NM_PROOF */
  uint8_t hops;             /* 0..127, as on the wire */
  uint8_t context;          /* NM_CONTEXT_... or any byte */
  nm_span transport_id;     /* 16 bytes with NM_HEADER_2, else empty */
  nm_span destination;      /* 16 bytes */
  nm_span payload;          /* 1 byte or more */
  nm_span hashable; /* destination | context | payload; set by parsing only */
} nm_packet;

/* Who packs: an originator must not make a relayed header for anything but an
 * announce (its payload would not be sealed for the next hop); a relay may
 * write every header. */
typedef enum nm_packet_role {
  NM_PACKET_ORIGINATE,
  NM_PACKET_RELAY
} nm_packet_role;

/* Says which rule |raw| breaks, NM_OK when none. NM_E(TRUNCATED) "hops",
 * "transport_id", "destination", "context"; NM_E(RANGE) "hops" for 128 and
 * more; NM_E(EMPTY) "payload". */
int nm_packet_parse_fault(nm_span raw, nm_fault *fault);

/* The same for bytes known to break one: never NM_OK, which the compiler can
 * see. */
static inline int nm_packet_parse_failed(nm_span raw, nm_fault *fault) {
  int status = nm_packet_parse_fault(raw, fault);
  return status != NM_OK ? status : NM_E(VALUE);
}

/* Fills |p| from |raw|, which |p| then borrows (RNS 1, 4.7). Every flags byte
 * is accepted; `ifac_flag` tells that the access code was not taken off, in
 * which case the other fields mean nothing (RNS 1, 6.4). |p| is unspecified
 * after an error. Errors of nm_packet_parse_fault. |fault| may be NULL. */
static inline int nm_packet_parse(nm_span raw, nm_packet *p, nm_fault *fault) {
  if (raw.len < NM_PACKET_MIN) {
    return nm_packet_parse_failed(raw, fault);
  }
  nm_reader r = nm_reader_of(raw);
  uint8_t flags = nm_reader_u8(&r);
  uint8_t hops = nm_reader_u8(&r);
  p->flags = flags;
  p->hops = hops;
  p->ifac_flag = flags >> 7;
  p->header_type = (flags >> 6) & 1;
  p->context_flag = (flags >> 5) & 1;
  p->transport_type = (flags >> 4) & 1;
  p->destination_type = (flags >> 2) & 3;
  p->packet_type = flags & 3;
  bool relayed = p->header_type == NM_HEADER_2;
  if (hops >= NM_HOPS_MAX || (relayed && raw.len <= NM_HEADER_2_SIZE)) {
    return nm_packet_parse_failed(raw, fault);
  }
  p->transport_id =
      relayed ? nm_reader_take(&r, NM_ADDRESS_SIZE) : nm_span_of(NULL, 0);
  nm_reader rest = r;
  p->hashable = nm_reader_rest(&rest);
  p->destination = nm_reader_take(&r, NM_ADDRESS_SIZE);
  p->context = nm_reader_u8(&r);
  p->payload = nm_reader_rest(&r);
  return NM_OK;
}

/* The flags byte of the fields of |p|, bit 7 clear. Fields are masked. */
static inline uint8_t nm_packet_flags(const nm_packet *p) {
  return (uint8_t)(((p->header_type & 1) << 6) | ((p->context_flag & 1) << 5) |
                   ((p->transport_type & 1) << 4) |
                   ((p->destination_type & 3) << 2) | (p->packet_type & 3));
}

/* The number of bytes that |p| packs to. */
static inline size_t nm_packet_size(const nm_packet *p) {
  size_t header =
      p->header_type == NM_HEADER_2 ? NM_HEADER_2_SIZE : NM_HEADER_1_SIZE;
  return header + p->payload.len;
}

/* Says why |p| cannot be packed; NM_OK when it can. */
int nm_packet_pack_fault(const nm_packet *p, nm_packet_role role, size_t mtu,
                         size_t cap, nm_fault *fault);

/* Writes |p| to |out| (|cap| bytes) and stores the length in |len|. |mtu| is
 * the largest packet allowed: NM_MTU, or the link's for link packets. The
 * payload must not overlap |out|. Nothing is written on an error:
 * NM_E(TOO_LARGE) "packet" over the MTU or "output" over |cap|, NM_E(MISSING)
 * "transport_id", NM_E(LENGTH) "transport_id" or "destination" when not 16
 * bytes, NM_E(EMPTY) "payload", NM_E(RANGE) for a field that does not fit its
 * bits (hops: 127), NM_E(VALUE) "transport_id" when a HEADER_1 packet has one
 * or "ifac_flag" when set, NM_E(STATE) "header_type" for a relayed header that
 * is not an announce when originating. */
static inline int nm_packet_pack(const nm_packet *p, nm_packet_role role,
                                 size_t mtu, uint8_t *out, size_t cap,
                                 size_t *len, nm_fault *fault) {
  bool relayed = p->header_type == NM_HEADER_2;
  size_t size = nm_packet_size(p);
  bool narrow = ((p->header_type | p->context_flag | p->transport_type) <= 1) &
                ((p->destination_type | p->packet_type) <= 3) &
                (p->hops < NM_HOPS_MAX) & (p->ifac_flag == 0);
  bool fits = (size <= mtu) & (size <= cap) & (p->payload.len != 0) &
              (size > p->payload.len); /* the sum did not wrap */
  bool addressed =
      (p->destination.len == NM_ADDRESS_SIZE) &
      (p->transport_id.len == (relayed ? (size_t)NM_ADDRESS_SIZE : 0));
  bool allowed =
      !relayed | (p->packet_type == NM_ANNOUNCE) | (role == NM_PACKET_RELAY);
  if (!(narrow & fits & addressed & allowed)) {
    int status = nm_packet_pack_fault(p, role, mtu, cap, fault);
    return status != NM_OK ? status : NM_E(VALUE);
  }
  nm_writer w = nm_writer_of(out, size);
  nm_writer_u8(&w, nm_packet_flags(p));
  nm_writer_u8(&w, p->hops);
  if (relayed) {
    nm_writer_put(&w, p->transport_id.ptr, NM_ADDRESS_SIZE);
  }
  nm_writer_put(&w, p->destination.ptr, NM_ADDRESS_SIZE);
  nm_writer_u8(&w, p->context);
  nm_writer_span(&w, p->payload);
  *len = size;
  return NM_OK;
}

/* The first byte of the hashable part: destination and packet type only. */
static inline uint8_t nm_packet_hash_flags(uint8_t flags) {
  return flags & 0x0f;
}

/* The packet hash of the parsed |p|: over its low four flag bits and its
 * `hashable` span, the same at every hop (RNS 1, 4.6). */
void nm_packet_digest(const nm_packet *p, nm_packet_hash *hash);

/* Most packets of one nm_packet_digest_many. */
#define NM_DIGEST_BATCH 32

/* nm_packet_digest of |count| packets at once, at most NM_DIGEST_BATCH. */
void nm_packet_digest_many(const nm_packet *const *packets, size_t count,
                           nm_packet_hash *const *hashes);

/* The packet hash of complete bytes. Errors of nm_packet_parse. */
int nm_packet_digest_raw(nm_span raw, nm_packet_hash *hash, nm_fault *fault);

/* True when the payload of such a packet is not encrypted by the packet layer
 * (RNS 1, 4.5). |packet_type| and |destination_type| as in nm_packet. */
bool nm_packet_travels_in_clear(uint8_t packet_type, uint8_t destination_type,
                                uint8_t context);

/* Whether |p| is a part of a resource (RNS 2, 3.7). */
bool nm_packet_is_part(const nm_packet *p);

/* True for a context that bypasses the duplicate filter (RNS 1, 8.4). */
bool nm_packet_skips_filter(uint8_t context);

/* True when a sent packet gets a receipt (RNS 1, 4.9), unless its sender does
 * not want one. */
bool nm_packet_has_receipt(uint8_t packet_type, uint8_t destination_type,
                           uint8_t context);

/* The name of a context code ("LRPROOF"), NULL for one without a name. */
const char *nm_context_name(uint8_t context);

/* A HEADER_1 broadcast packet with hops 0; what most senders start from.
 * |destination| is 16 bytes and borrowed, as is |payload|. */
static inline nm_packet nm_packet_of(uint8_t packet_type,
                                     uint8_t destination_type, uint8_t context,
                                     const uint8_t *destination,
                                     nm_span payload) {
  nm_packet p = {0};
  p.packet_type = packet_type;
  p.destination_type = destination_type;
  p.context = context;
  p.destination = nm_span_of(destination, NM_ADDRESS_SIZE);
  p.payload = payload;
  return p;
}

#endif
