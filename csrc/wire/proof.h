/* Proofs of packets (RNS 1, 4.8; RNS 2, 1.10).
 *
 *   implicit   signature (64)
 *   explicit   packet hash (32) | signature (64)
 *
 * The signature is over the 32-byte packet hash. Proofs on links are explicit
 * only.
 */
#ifndef NM_WIRE_PROOF_H
#define NM_WIRE_PROOF_H

#include "crypto/curve.h"
#include "wire/packet.h"

typedef struct nm_proof {
  nm_span packet_hash; /* 32 bytes, or empty in the implicit form */
  nm_span signature;   /* 64 bytes */
} nm_proof;

/* Reads a proof payload; the form is told by its length. NM_E(LENGTH) "proof"
 * for anything but 96 bytes, or 64 unless |link|. */
int nm_proof_parse(nm_span payload, bool link, nm_proof *proof,
                   nm_fault *fault);

/* Writes the payload (64 or 96 bytes) that proves |hash| under |key|: the
 * destination identity's signing key, or on the initiator's side of a link its
 * ephemeral one. NM_E(TOO_LARGE), NM_E(LIBRARY). */
int nm_proof_write(nm_writer *w, const nm_ed25519_sign_key *key,
                   const nm_packet_hash *hash, bool implicit);

/* Checks |proof| against the packet it must prove: 0, NM_E(MISMATCH) when an
 * explicit proof names another packet, NM_E(SIGNATURE). */
int nm_proof_verify(const nm_proof *proof, const nm_packet_hash *hash,
                    const uint8_t ed25519_public[NM_KEY_SIZE]);

/* The packet that carries |payload|: to the truncated hash of the proved
 * packet, or on a link to its id. Both borrow from the arguments. */
nm_packet nm_proof_packet(const nm_packet_hash *hash, nm_span payload);
nm_packet nm_proof_link_packet(const nm_link_id *link, nm_span payload);

#endif
