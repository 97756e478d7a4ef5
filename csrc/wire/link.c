#include "wire/link.h"

#include "base/msgpack.h"

#include <math.h>

bool nm_link_mode_enabled(uint8_t mode) {
  return mode == NM_MODE_AES256_CBC;
}

size_t nm_link_key_size(uint8_t mode) {
  if (mode == NM_MODE_AES256_CBC) {
    return NM_TOKEN_KEY_SIZE;
  }
  return mode == NM_MODE_AES128_CBC ? NM_TOKEN_KEY_SIZE_128 : 0;
}

int nm_link_signalling_pack(uint32_t mtu, uint8_t mode,
                            uint8_t out[NM_SIGNALLING_SIZE]) {
  if (!nm_link_mode_enabled(mode)) {
    return NM_E(MODE);
  }
  if (mtu > NM_LINK_MTU_MAX) {
    return NM_E(RANGE);
  }
  nm_writer w = nm_writer_of(out, NM_SIGNALLING_SIZE);
  nm_writer_u8(&w, (uint8_t)(((uint32_t)mode << 5) | (mtu >> 16)));
  nm_writer_u16(&w, (uint16_t)(mtu & 0xffff));
  return NM_OK;
}

int nm_link_signalling_unpack(nm_span in, uint32_t *mtu, uint8_t *mode,
                              nm_fault *fault) {
  if (in.len != NM_SIGNALLING_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "signalling", in.len);
  }
  nm_reader r = nm_reader_of(in);
  uint32_t high = nm_reader_u8(&r);
  uint32_t low = nm_reader_u16(&r);
  *mode = (uint8_t)(high >> 5);
  *mtu = ((high & 0x1f) << 16) | low;
  return NM_OK;
}

/* What |bytes|, three or none, say. */
static nm_link_signalling read_signalling(nm_span bytes) {
  nm_link_signalling s = {.mtu = NM_MTU, .mode = NM_MODE_AES256_CBC};
  if (bytes.len == NM_SIGNALLING_SIZE) {
    s.present = true;
    (void)nm_link_signalling_unpack(bytes, &s.signalled, &s.mode, NULL);
    s.mtu = s.signalled != 0 ? s.signalled : NM_MTU;
  }
  return s;
}

int nm_link_request_parse(nm_span payload, nm_link_request *request,
                          nm_fault *fault) {
  if (payload.len != NM_LINK_REQUEST_SIZE &&
      payload.len != NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "link_request", payload.len);
  }
  nm_reader r = nm_reader_of(payload);
  request->x25519_public = nm_reader_take(&r, NM_KEY_SIZE);
  request->ed25519_public = nm_reader_take(&r, NM_KEY_SIZE);
  request->signalling = read_signalling(nm_reader_rest(&r));
  return NM_OK;
}

int nm_link_request_write(nm_writer *w,
                          const uint8_t x25519_public[NM_KEY_SIZE],
                          const uint8_t ed25519_public[NM_KEY_SIZE],
                          const uint8_t *signalling) {
  nm_writer_put(w, x25519_public, NM_KEY_SIZE);
  nm_writer_put(w, ed25519_public, NM_KEY_SIZE);
  if (signalling != NULL) {
    nm_writer_put(w, signalling, NM_SIGNALLING_SIZE);
  }
  return w->status;
}

int nm_link_id_of(const nm_packet *request, nm_link_id *id, nm_fault *fault) {
  if (request->packet_type != NM_LINKREQUEST) {
    return nm_fault_set(fault, NM_E(TYPE), "packet_type", 0);
  }
  nm_reader payload = nm_reader_of(request->payload);
  nm_span keys = nm_reader_take(&payload, NM_LINK_REQUEST_SIZE);
  if (payload.status != NM_OK) {
    return nm_fault_set(fault, NM_E(LENGTH), "link_request",
                        request->payload.len);
  }
  uint8_t flags = nm_packet_hash_flags(nm_packet_flags(request));
  nm_span parts[4] = {nm_span_of(&flags, 1), request->destination,
                      nm_span_of(&request->context, 1), keys};
  nm_truncated_hashv(id->b, parts, 4);
  return NM_OK;
}

nm_link_clamp nm_link_clamp_relayed(const nm_link_signalling *signalling,
                                    const nm_link_interface *received,
                                    const nm_link_interface *next,
                                    uint32_t *mtu) {
  if (!signalling->present || signalling->signalled == 0) {
    return NM_LINK_CLAMP_KEEP;
  }
  if (next->hw_mtu == 0 || !next->adjusts) {
    return NM_LINK_CLAMP_REMOVE;
  }
  /* A receiving interface without an MTU bounds nothing: the reference fails
   * on the comparison and drops the packet, a defect not to copy (RNS 2,
   * 1.4). */
  uint32_t least = next->hw_mtu;
  if (received->hw_mtu != 0 && received->hw_mtu < least) {
    least = received->hw_mtu;
  }
  if (least >= signalling->signalled) {
    return NM_LINK_CLAMP_KEEP;
  }
  *mtu = least;
  return nm_link_mode_enabled(signalling->mode) ? NM_LINK_CLAMP_REPLACE
                                                : NM_LINK_CLAMP_DROP;
}

nm_link_clamp nm_link_clamp_local(const nm_link_signalling *signalling,
                                  const nm_link_interface *received,
                                  uint32_t *mtu) {
  if (!signalling->present || signalling->signalled == 0) {
    return NM_LINK_CLAMP_KEEP;
  }
  if (received->hw_mtu == 0) {
    return NM_LINK_CLAMP_REMOVE;
  }
  uint32_t limit = received->adjusts ? received->hw_mtu : NM_MTU;
  if (signalling->signalled <= limit) {
    return NM_LINK_CLAMP_KEEP;
  }
  *mtu = limit;
  return nm_link_mode_enabled(signalling->mode) ? NM_LINK_CLAMP_REPLACE
                                                : NM_LINK_CLAMP_DROP;
}

int nm_link_proof_parse(nm_span payload, nm_link_proof *proof,
                        nm_fault *fault) {
  if (payload.len != NM_LINK_PROOF_SIZE &&
      payload.len != NM_LINK_PROOF_SIZE + NM_SIGNALLING_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "link_proof", payload.len);
  }
  nm_reader r = nm_reader_of(payload);
  proof->signature = nm_reader_take(&r, NM_SIGNATURE_SIZE);
  proof->x25519_public = nm_reader_take(&r, NM_KEY_SIZE);
  proof->signalling_bytes = nm_reader_rest(&r);
  proof->signalling = read_signalling(proof->signalling_bytes);
  return NM_OK;
}

int nm_link_proof_signed(nm_writer *w, const nm_link_id *id,
                         nm_span x25519_public,
                         const uint8_t ed25519_public[NM_KEY_SIZE],
                         nm_span signalling) {
  nm_writer_put(w, id->b, NM_ADDRESS_SIZE);
  nm_writer_span(w, x25519_public);
  nm_writer_put(w, ed25519_public, NM_KEY_SIZE);
  nm_writer_span(w, signalling);
  return w->status;
}

int nm_link_proof_write(nm_writer *w, const nm_identity *destination,
                        const nm_link_id *id,
                        const uint8_t x25519_public[NM_KEY_SIZE],
                        const uint8_t *signalling) {
  nm_span ephemeral = nm_span_of(x25519_public, NM_KEY_SIZE);
  nm_span tail =
      nm_span_of(signalling, signalling != NULL ? NM_SIGNALLING_SIZE : 0);
  uint8_t buf[NM_LINK_SIGNED_MAX];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  int status = nm_link_proof_signed(&data, id, ephemeral,
                                    destination->sign.public_key, tail);
  uint8_t signature[NM_SIGNATURE_SIZE];
  if (status == NM_OK) {
    status = nm_identity_sign(destination, signature, nm_writer_done(&data));
  }
  if (status != NM_OK) {
    return status;
  }
  nm_writer_put(w, signature, sizeof signature);
  nm_writer_span(w, ephemeral);
  nm_writer_span(w, tail);
  return w->status;
}

int nm_link_proof_verify(const nm_link_proof *proof, const nm_link_id *id,
                         const uint8_t ed25519_public[NM_KEY_SIZE]) {
  uint8_t buf[NM_LINK_SIGNED_MAX];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  int status = nm_link_proof_signed(&data, id, proof->x25519_public,
                                    ed25519_public, proof->signalling_bytes);
  return status != NM_OK
             ? NM_E(SIGNATURE)
             : nm_ed25519_verify(ed25519_public, proof->signature.ptr,
                                 nm_writer_done(&data));
}

int nm_link_derive(const uint8_t x25519_private[NM_KEY_SIZE],
                   const uint8_t x25519_public[NM_KEY_SIZE],
                   const nm_link_id *id, uint8_t mode,
                   uint8_t key[NM_TOKEN_KEY_SIZE], size_t *len) {
  if (nm_link_key_size(mode) == 0) {
    return NM_E(MODE);
  }
  uint8_t shared[NM_KEY_SIZE];
  int status = nm_x25519(shared, x25519_private, x25519_public);
  if (status == NM_OK) {
    status = nm_link_derive_shared(shared, id, mode, key, len);
  }
  nm_wipe(shared, sizeof shared);
  return status;
}

int nm_link_derive_shared(const uint8_t shared[NM_KEY_SIZE],
                          const nm_link_id *id, uint8_t mode,
                          uint8_t key[NM_TOKEN_KEY_SIZE], size_t *len) {
  size_t size = nm_link_key_size(mode);
  if (size == 0) {
    return NM_E(MODE);
  }
  *len = size;
  return nm_hkdf(key, size, nm_span_of(shared, NM_KEY_SIZE),
                 nm_span_of(id->b, NM_ADDRESS_SIZE), nm_span_of(NULL, 0));
}

int nm_link_rtt_write(nm_writer *w, double rtt_s) {
  nm_mp_float(w, rtt_s);
  return w->status;
}

int nm_link_rtt_parse(nm_span in, double *rtt_s, nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  double value = 0;
  int status = nm_mp_read_number(&r, &value);
  if (status == NM_OK && !isfinite(value)) {
    status = NM_E(VALUE);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "rtt", 0);
  }
  *rtt_s = value;
  return NM_OK;
}

int nm_link_identify_write(nm_writer *w, const nm_identity *identity,
                           const nm_link_id *id) {
  uint8_t buf[NM_ADDRESS_SIZE + NM_PUBLIC_SIZE];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  nm_writer_put(&data, id->b, NM_ADDRESS_SIZE);
  nm_writer_put(&data, identity->public_key, NM_PUBLIC_SIZE);
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status = nm_identity_sign(identity, signature, nm_writer_done(&data));
  if (status != NM_OK) {
    return status;
  }
  nm_writer_put(w, identity->public_key, NM_PUBLIC_SIZE);
  nm_writer_put(w, signature, sizeof signature);
  return w->status;
}

int nm_link_identify_check(nm_span in, const nm_link_id *id,
                           nm_span *public_key, nm_fault *fault) {
  if (in.len != NM_LINK_IDENTIFY_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "identify", in.len);
  }
  nm_reader r = nm_reader_of(in);
  nm_span key = nm_reader_take(&r, NM_PUBLIC_SIZE);
  nm_span signature = nm_reader_take(&r, NM_SIGNATURE_SIZE);
  uint8_t buf[NM_ADDRESS_SIZE + NM_PUBLIC_SIZE];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  nm_writer_put(&data, id->b, NM_ADDRESS_SIZE);
  nm_writer_span(&data, key);
  nm_reader halves = nm_reader_of(key);
  (void)nm_reader_take(&halves, NM_KEY_SIZE);
  nm_span ed25519 = nm_reader_take(&halves, NM_KEY_SIZE);
  if (nm_ed25519_verify(ed25519.ptr, signature.ptr, nm_writer_done(&data)) !=
      NM_OK) {
    return nm_fault_set(fault, NM_E(SIGNATURE), "signature", NM_PUBLIC_SIZE);
  }
  *public_key = key;
  return NM_OK;
}

bool nm_link_is_close(nm_span plaintext, const nm_link_id *id) {
  return nm_span_equal(plaintext, nm_span_of(id->b, NM_ADDRESS_SIZE));
}

uint8_t nm_link_keepalive(bool initiator) {
  return initiator ? NM_KEEPALIVE_INITIATOR : NM_KEEPALIVE_RESPONDER;
}
