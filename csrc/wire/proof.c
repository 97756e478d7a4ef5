#include "wire/proof.h"

#include <string.h>

int nm_proof_parse(nm_span payload, bool link, nm_proof *proof,
                   nm_fault *fault) {
  bool is_explicit = payload.len == NM_PROOF_EXPLICIT_SIZE;
  if (!is_explicit && (link || payload.len != NM_PROOF_IMPLICIT_SIZE)) {
    return nm_fault_set(fault, NM_E(LENGTH), "proof", payload.len);
  }
  nm_reader r = nm_reader_of(payload);
  proof->packet_hash =
      is_explicit ? nm_reader_take(&r, NM_HASH_SIZE) : nm_span_of(NULL, 0);
  proof->signature = nm_reader_take(&r, NM_SIGNATURE_SIZE);
  return NM_OK;
}

int nm_proof_write(nm_writer *w, const nm_ed25519_sign_key *key,
                   const nm_packet_hash *hash, bool implicit) {
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status =
      nm_ed25519_sign(signature, key, nm_span_of(hash->b, NM_HASH_SIZE));
  if (status != NM_OK) {
    return status;
  }
  if (!implicit) {
    nm_writer_put(w, hash->b, NM_HASH_SIZE);
  }
  nm_writer_put(w, signature, sizeof signature);
  return w->status;
}

int nm_proof_verify(const nm_proof *proof, const nm_packet_hash *hash,
                    const uint8_t ed25519_public[NM_KEY_SIZE]) {
  nm_span proved = nm_span_of(hash->b, NM_HASH_SIZE);
  if (proof->packet_hash.len != 0 &&
      !nm_span_equal(proof->packet_hash, proved)) {
    return NM_E(MISMATCH);
  }
  return nm_ed25519_verify(ed25519_public, proof->signature.ptr, proved);
}

nm_packet nm_proof_packet(const nm_packet_hash *hash, nm_span payload) {
  return nm_packet_of(NM_PROOF, NM_SINGLE, NM_CONTEXT_NONE, hash->b, payload);
}

nm_packet nm_proof_link_packet(const nm_link_id *link, nm_span payload) {
  return nm_packet_of(NM_PROOF, NM_LINK, NM_CONTEXT_NONE, link->b, payload);
}
