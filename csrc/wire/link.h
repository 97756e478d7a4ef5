/* The link handshake and the small payloads of a link (RNS 2, 1).
 *
 *   signalling      24 bits: mode (3), MTU (21)
 *   request         X25519 public (32) | Ed25519 public (32) | signalling?
 *   proof           signature (64) | X25519 public (32) | signalling?
 *
 * Ephemeral keys, times and random bytes are arguments. Session keys go into a
 * token key (crypto/token.h), which seals and opens everything on the link.
 */
#ifndef NM_WIRE_LINK_H
#define NM_WIRE_LINK_H

#include "crypto/identity.h"
#include "wire/packet.h"

/* True for a mode that links may use: AES-256-CBC alone. */
bool nm_link_mode_enabled(uint8_t mode);

/* The bytes of a session key in |mode|: 64, 32 for mode 0, 0 for a mode
 * without a key derivation. */
size_t nm_link_key_size(uint8_t mode);

/* Encodes |mtu| and |mode|. NM_E(MODE) when the mode is not enabled,
 * NM_E(RANGE) for an MTU above NM_LINK_MTU_MAX. */
int nm_link_signalling_pack(uint32_t mtu, uint8_t mode,
                            uint8_t out[NM_SIGNALLING_SIZE]);
/* Decodes three bytes. Any mode is returned. NM_E(LENGTH) "signalling". */
int nm_link_signalling_unpack(nm_span in, uint32_t *mtu, uint8_t *mode,
                              nm_fault *fault);

/* What a request or proof says about MTU and mode. */
typedef struct nm_link_signalling {
  bool present;
  uint32_t signalled; /* the MTU as written, 0 when absent */
  uint32_t mtu;       /* the MTU to use: 500 when absent or zero */
  uint8_t mode;       /* NM_MODE_AES256_CBC when absent */
} nm_link_signalling;

typedef struct nm_link_request {
  nm_span x25519_public;
  nm_span ed25519_public;
  nm_link_signalling signalling;
} nm_link_request;

/* Reads a request payload. NM_E(LENGTH) "link_request" unless it has 64 or 67
 * bytes. The mode is not judged: relays pass any (RNS 2, 1.4), a responder
 * asks nm_link_mode_enabled. */
int nm_link_request_parse(nm_span payload, nm_link_request *request,
                          nm_fault *fault);

/* Writes a request: the two public keys, then signalling unless |signalling|
 * is NULL. NM_E(TOO_LARGE). */
int nm_link_request_write(nm_writer *w,
                          const uint8_t x25519_public[NM_KEY_SIZE],
                          const uint8_t ed25519_public[NM_KEY_SIZE],
                          const uint8_t *signalling);

/* The id of the link that the parsed |request| asks for: the truncated hash of
 * its hashable part without the bytes after the two keys (RNS 2, 1.3).
 * NM_E(TYPE) "packet_type" for another packet, NM_E(LENGTH) "link_request"
 * below 64 bytes of payload. */
int nm_link_id_of(const nm_packet *request, nm_link_id *id, nm_fault *fault);

/* What a relay or the destination node does to the signalling of a request
 * (RNS 1, 8.10.2; RNS 2, 1.4). */
typedef enum nm_link_clamp {
  NM_LINK_CLAMP_KEEP,    /* send it on unchanged */
  NM_LINK_CLAMP_REPLACE, /* replace the MTU by the one returned */
  NM_LINK_CLAMP_REMOVE,  /* remove the three bytes */
  NM_LINK_CLAMP_DROP     /* the mode is not enabled: drop the request */
} nm_link_clamp;

/* One interface as clamping sees it. */
typedef struct nm_link_interface {
  uint32_t hw_mtu; /* 0: none */
  bool adjusts;    /* its MTU is automatic or fixed */
} nm_link_interface;

/* A relay's decision for |signalling| between two interfaces; |mtu| is set for
 * REPLACE. */
nm_link_clamp nm_link_clamp_relayed(const nm_link_signalling *signalling,
                                    const nm_link_interface *received,
                                    const nm_link_interface *next,
                                    uint32_t *mtu);
/* The same at the destination's own node. */
nm_link_clamp nm_link_clamp_local(const nm_link_signalling *signalling,
                                  const nm_link_interface *received,
                                  uint32_t *mtu);

typedef struct nm_link_proof {
  nm_span signature;
  nm_span x25519_public;
  nm_span signalling_bytes; /* 3 or none */
  nm_link_signalling signalling;
} nm_link_proof;

/* Reads a proof payload. NM_E(LENGTH) "link_proof" unless it has 96 or 99
 * bytes. The mode is not judged. */
int nm_link_proof_parse(nm_span payload, nm_link_proof *proof, nm_fault *fault);

/* The bytes that a proof signs: link id | X25519 public | the destination's
 * Ed25519 public | signalling. At most NM_LINK_SIGNED_MAX bytes to |w|.
 * NM_E(TOO_LARGE). */
#define NM_LINK_SIGNED_MAX 83
int nm_link_proof_signed(nm_writer *w, const nm_link_id *id,
                         nm_span x25519_public,
                         const uint8_t ed25519_public[NM_KEY_SIZE],
                         nm_span signalling);

/* Writes the proof of link |id| by |destination| with the responder's ephemeral
 * key; no signalling when |signalling| is NULL (accepted by all, sent by
 * none). NM_E(NO_KEY) for a public identity, NM_E(TOO_LARGE),
 * NM_E(LIBRARY). */
int nm_link_proof_write(nm_writer *w, const nm_identity *destination,
                        const nm_link_id *id,
                        const uint8_t x25519_public[NM_KEY_SIZE],
                        const uint8_t *signalling);

/* Checks the signature with the second half of the destination's known public
 * key. 0 or NM_E(SIGNATURE). The caller compares mode and MTU with what it
 * asked for before it trusts them. */
int nm_link_proof_verify(const nm_link_proof *proof, const nm_link_id *id,
                         const uint8_t ed25519_public[NM_KEY_SIZE]);

/* Derives the session key (RNS 2, 1.6) from the own ephemeral private key and
 * the peer's public one: nm_link_key_size(mode) bytes to |key|, the number to
 * |len|. NM_E(MODE) for a mode without derivation, NM_E(KEY) when the shared
 * secret is all zero. The result is a secret: wipe it. */
int nm_link_derive(const uint8_t x25519_private[NM_KEY_SIZE],
                   const uint8_t x25519_public[NM_KEY_SIZE],
                   const nm_link_id *id, uint8_t mode,
                   uint8_t key[NM_TOKEN_KEY_SIZE], size_t *len);
/* The same from the shared secret. NM_E(MODE). */
int nm_link_derive_shared(const uint8_t shared[NM_KEY_SIZE],
                          const nm_link_id *id, uint8_t mode,
                          uint8_t key[NM_TOKEN_KEY_SIZE], size_t *len);

/* RTT: one float64 when written (9 bytes); every MessagePack number when read,
 * with whatever follows it ignored. NM_E(TYPE), NM_E(TRUNCATED) and the other
 * errors of nm_mp_read_number; NM_E(VALUE) for infinities and NaN; all name
 * "rtt". */
#define NM_LINK_RTT_SIZE 9
int nm_link_rtt_write(nm_writer *w, double rtt_s);
int nm_link_rtt_parse(nm_span in, double *rtt_s, nm_fault *fault);

/* Identification: public key (64) | signature (64) over link id | public key.
 * Write: NM_E(NO_KEY), NM_E(TOO_LARGE), NM_E(LIBRARY). Read: NM_E(LENGTH)
 * "identify" unless 128 bytes, NM_E(SIGNATURE) "signature"; |public_key|
 * borrows from |in|. */
int nm_link_identify_write(nm_writer *w, const nm_identity *identity,
                           const nm_link_id *id);
int nm_link_identify_check(nm_span in, const nm_link_id *id,
                           nm_span *public_key, nm_fault *fault);

/* True when |plaintext| closes link |id|: it is the 16-byte id. Writing one is
 * writing the id. */
bool nm_link_is_close(nm_span plaintext, const nm_link_id *id);

/* The one keepalive byte. */
uint8_t nm_link_keepalive(bool initiator);

#endif
