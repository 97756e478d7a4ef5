#include "wire/announce.h"

#include "wire/destination.h"

/* The last five bytes of a random hash. */
static uint64_t read_emitted(nm_span random_hash) {
  nm_reader r = nm_reader_of(random_hash);
  (void)nm_reader_take(&r, NM_ANNOUNCE_RANDOM_SIZE);
  uint64_t high = nm_reader_u8(&r);
  return (high << 32) | nm_reader_u32(&r);
}

/* Says which field of the data is cut off. */
static int short_fault(const nm_packet *p, nm_fault *fault) {
  static const struct {
    const char *name;
    size_t len;
    bool ratchet;
  } fields[] = {{"public_key", NM_PUBLIC_SIZE, false},
                {"name_hash", NM_NAME_HASH_SIZE, false},
                {"random_hash", NM_RANDOM_BLOB_SIZE, false},
                {"ratchet", NM_RATCHET_SIZE, true},
                {"signature", NM_SIGNATURE_SIZE, false}};
  size_t base = nm_packet_size(p) - p->payload.len;
  nm_reader r = nm_reader_of(p->payload);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    size_t at = base + r.pos;
    if (fields[i].ratchet && !p->context_flag) {
      continue;
    }
    (void)nm_reader_take(&r, fields[i].len);
    if (r.status != NM_OK) {
      return nm_fault_set(fault, r.status, fields[i].name, at);
    }
  }
  return NM_OK;
}

int nm_announce_parse(const nm_packet *packet, nm_announce *announce,
                      nm_fault *fault) {
  if (packet->packet_type != NM_ANNOUNCE) {
    return nm_fault_set(fault, NM_E(TYPE), "packet_type", 0);
  }
  if (nm_packet_size(packet) > NM_MTU) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "packet", NM_MTU);
  }
  size_t least =
      packet->context_flag ? NM_ANNOUNCE_MIN_RATCHET : NM_ANNOUNCE_MIN;
  if (packet->payload.len < least) {
    return short_fault(packet, fault);
  }
  nm_reader r = nm_reader_of(packet->payload);
  announce->packet = *packet;
  announce->public_key = nm_reader_take(&r, NM_PUBLIC_SIZE);
  announce->name_hash = nm_reader_take(&r, NM_NAME_HASH_SIZE);
  announce->random_hash = nm_reader_take(&r, NM_RANDOM_BLOB_SIZE);
  announce->ratchet = packet->context_flag ? nm_reader_take(&r, NM_RATCHET_SIZE)
                                           : nm_span_of(NULL, 0);
  announce->signature = nm_reader_take(&r, NM_SIGNATURE_SIZE);
  announce->app_data = nm_reader_rest(&r);
  announce->has_app_data = packet->payload.len > NM_ANNOUNCE_MIN;
  announce->emitted = read_emitted(announce->random_hash);
  return NM_OK;
}

int nm_announce_signed(nm_writer *w, const nm_announce *announce) {
  nm_writer_span(w, announce->packet.destination);
  nm_writer_span(w, announce->public_key);
  nm_writer_span(w, announce->name_hash);
  nm_writer_span(w, announce->random_hash);
  nm_writer_span(w, announce->ratchet);
  nm_writer_span(w, announce->app_data);
  return w->status;
}

void nm_announce_identity_hash(const nm_announce *announce,
                               nm_identity_hash *out) {
  nm_identity_hash_of(out, announce->public_key.ptr);
}

/* True when the announced identity owns |name_hash| at the destination. */
static bool owns(const nm_announce *announce,
                 const uint8_t name_hash[NM_NAME_HASH_SIZE]) {
  nm_identity_hash identity;
  nm_destination_hash expected;
  nm_announce_identity_hash(announce, &identity);
  nm_destination_address(name_hash, &identity, &expected);
  return nm_span_equal(announce->packet.destination,
                       nm_span_of(expected.b, NM_ADDRESS_SIZE));
}

bool nm_announce_matches(const nm_announce *announce,
                         const uint8_t name_hash[NM_NAME_HASH_SIZE]) {
  return owns(announce, name_hash);
}

const char *nm_announce_verdict_name(nm_announce_verdict verdict) {
  static const char *const names[] = {
#define VERDICT_NAME(name, text) #name,
      NM_ANNOUNCE_VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
  };
  return (unsigned)verdict < NM_ANNOUNCE_VERDICT_COUNT ? names[verdict]
                                                       : "UNKNOWN";
}

nm_announce_verdict nm_announce_validate(const nm_announce *announce,
                                         bool signature_only,
                                         const uint8_t *expected_public) {
  uint8_t buf[NM_ANNOUNCE_SIGNED_MAX];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  nm_reader halves = nm_reader_of(announce->public_key);
  (void)nm_reader_take(&halves, NM_KEY_SIZE);
  nm_span ed25519 = nm_reader_take(&halves, NM_KEY_SIZE);
  if (nm_announce_signed(&data, announce) != NM_OK ||
      nm_ed25519_verify(ed25519.ptr, announce->signature.ptr,
                        nm_writer_done(&data)) != NM_OK) {
    return NM_ANNOUNCE_BAD_SIGNATURE;
  }
  if (signature_only) {
    return NM_ANNOUNCE_VALID;
  }
  if (!owns(announce, announce->name_hash.ptr)) {
    return NM_ANNOUNCE_BAD_DESTINATION;
  }
  return nm_announce_check_key(announce, expected_public);
}

nm_announce_verdict nm_announce_check_key(const nm_announce *announce,
                                          const uint8_t *expected_public) {
  if (expected_public == NULL ||
      nm_span_equal(announce->public_key,
                    nm_span_of(expected_public, NM_PUBLIC_SIZE))) {
    return NM_ANNOUNCE_VALID;
  }
  return NM_ANNOUNCE_KEY_MISMATCH;
}

size_t nm_announce_size(const nm_announce_args *args) {
  size_t header =
      args->transport_id != NULL ? NM_HEADER_2_SIZE : NM_HEADER_1_SIZE;
  size_t fixed =
      args->ratchet != NULL ? NM_ANNOUNCE_MIN_RATCHET : NM_ANNOUNCE_MIN;
  return header + fixed + args->app_data.len;
}

static int check_args(const nm_announce_args *args, size_t cap,
                      nm_fault *fault) {
  if (!args->identity->has_private) {
    return nm_fault_set(fault, NM_E(NO_KEY), "identity", 0);
  }
  if (args->emitted > NM_ANNOUNCE_EMITTED_MAX) {
    return nm_fault_set(fault, NM_E(RANGE), "emitted", 0);
  }
  if (args->hops >= NM_HOPS_MAX) {
    return nm_fault_set(fault, NM_E(RANGE), "hops", 1);
  }
  if (args->context != NM_CONTEXT_NONE &&
      args->context != NM_CONTEXT_PATH_RESPONSE) {
    return nm_fault_set(fault, NM_E(VALUE), "context", 0);
  }
  if (args->app_data.len > NM_MTU || nm_announce_size(args) > NM_MTU) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "packet", NM_MTU);
  }
  if (nm_announce_size(args) > cap) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "output", cap);
  }
  return NM_OK;
}

/* Writes the fields before the signature. */
static void put_head(nm_writer *w, const nm_announce_args *args) {
  nm_writer_put(w, args->identity->public_key, NM_PUBLIC_SIZE);
  nm_writer_put(w, args->name_hash, NM_NAME_HASH_SIZE);
  nm_writer_put(w, args->random, NM_ANNOUNCE_RANDOM_SIZE);
  nm_writer_u8(w, (uint8_t)(args->emitted >> 32));
  nm_writer_u32(w, (uint32_t)args->emitted);
  if (args->ratchet != NULL) {
    nm_writer_put(w, args->ratchet, NM_RATCHET_SIZE);
  }
}

int nm_announce_create(const nm_announce_args *args, uint8_t *out, size_t cap,
                       size_t *len, nm_fault *fault) {
  int status = check_args(args, cap, fault);
  if (status != NM_OK) {
    return status;
  }
  nm_destination_hash address;
  nm_destination_address(args->name_hash, &args->identity->hash, &address);
  uint8_t buf[NM_MTU];
  nm_writer payload = nm_writer_of(buf, sizeof buf);
  put_head(&payload, args);
  nm_span parts[3] = {nm_span_of(address.b, NM_ADDRESS_SIZE),
                      nm_writer_done(&payload), args->app_data};
  uint8_t *signature = nm_writer_reserve(&payload, NM_SIGNATURE_SIZE);
  status = nm_ed25519_signv(signature, &args->identity->sign, parts, 3);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "identity", 0);
  }
  nm_writer_span(&payload, args->app_data);
  nm_packet p = nm_packet_of(NM_ANNOUNCE, NM_SINGLE, args->context, address.b,
                             nm_writer_done(&payload));
  p.hops = args->hops;
  p.context_flag = args->ratchet != NULL;
  if (args->transport_id != NULL) {
    p.header_type = NM_HEADER_2;
    p.transport_type = NM_TRANSPORT;
    p.transport_id = nm_span_of(args->transport_id, NM_ADDRESS_SIZE);
  }
  return nm_packet_pack(&p, NM_PACKET_ORIGINATE, NM_MTU, out, cap, len, fault);
}
