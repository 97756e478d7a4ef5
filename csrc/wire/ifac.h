/* Interface access codes (RNS 1, 6): authentication of every packet on an
 * interface and masking of its header.
 *
 *   out = (raw[0] | 80) | raw[1] | code (s bytes) | raw[2:], masked but for the
 *   code by HKDF(length, ikm = code, salt = interface key)
 *
 * The code is the end of an Ed25519 signature over the packet with bit 7 clear,
 * so each direction of each packet costs one signature.
 */
#ifndef NM_WIRE_IFAC_H
#define NM_WIRE_IFAC_H

#include "crypto/identity.h"
#include "wire/constants.h"

/* One interface's key, ready for use. Immutable after its init function; a
 * secret: wipe it. */
typedef struct nm_ifac {
  uint8_t key[NM_PRIVATE_SIZE];
  nm_identity identity;
  nm_hmac_key salt; /* the key as HKDF salt, prepared once */
  size_t size;      /* code bytes, 1..64 */
} nm_ifac;

/* Derives the 64-byte key. Either name may be empty, not both:
 * NM_E(MISSING). */
int nm_ifac_derive(nm_span network_name, nm_span passphrase,
                   uint8_t key[NM_PRIVATE_SIZE]);

/* From the names, or from the key. |size| is the number of code bytes.
 * NM_E(MISSING), NM_E(LENGTH) for a key that has not 64 bytes, NM_E(RANGE) for
 * a size outside 1..64, NM_E(LIBRARY). */
int nm_ifac_init(nm_ifac *ifac, nm_span network_name, nm_span passphrase,
                 size_t size);
int nm_ifac_init_key(nm_ifac *ifac, nm_span key, size_t size);
void nm_ifac_wipe(nm_ifac *ifac);

/* The signature over H(key) that tools show. NM_E(LIBRARY). */
int nm_ifac_signature(const nm_ifac *ifac, uint8_t out[NM_SIGNATURE_SIZE]);

/* The code of |raw|, a packet with bit 7 of its first byte clear: |ifac->size|
 * bytes to |out|. NM_E(TRUNCATED) "packet" below 2 bytes, NM_E(VALUE) "flags"
 * with bit 7 set, NM_E(LIBRARY). */
int nm_ifac_tag(const nm_ifac *ifac, nm_span raw, uint8_t *out,
                nm_fault *fault);

/* Writes the masked form, raw.len + ifac->size bytes, to |out|. Any length of
 * packet works. |raw| must not overlap |out|. Errors of nm_ifac_tag,
 * NM_E(TOO_LARGE). */
int nm_ifac_mask(const nm_ifac *ifac, nm_span raw, uint8_t *out, size_t cap,
                 size_t *len, nm_fault *fault);

/* What came of receiving. */
typedef enum nm_ifac_verdict {
  NM_IFAC_OK,
  NM_IFAC_NO_FLAG,    /* bit 7 is clear on an interface with access codes */
  NM_IFAC_TOO_SHORT,  /* no room for header bytes, code and more */
  NM_IFAC_WRONG_CODE, /* the code is not this interface's */
  NM_IFAC_UNEXPECTED, /* bit 7 is set on an interface without access codes */
  NM_IFAC_FAILED      /* the crypto library refused */
} nm_ifac_verdict;

/* Takes the code off |in|: on NM_IFAC_OK the packet is at |out|, |len| =
 * in.len - size bytes. |out| has room for in.len bytes (the mask is laid out
 * there) and does not overlap |in|; after another verdict it is wiped. */
nm_ifac_verdict nm_ifac_unmask(const nm_ifac *ifac, nm_span in, uint8_t *out,
                               size_t *len);

/* The check of an interface without access codes: OK, TOO_SHORT (2 bytes or
 * fewer) or UNEXPECTED. */
nm_ifac_verdict nm_ifac_absent(nm_span in);

/* "OK", "NO_FLAG", ... */
const char *nm_ifac_verdict_name(nm_ifac_verdict verdict);
/* The status that stands for a verdict: 0, MISSING, TRUNCATED, AUTH, VALUE,
 * LIBRARY. */
int nm_ifac_verdict_status(nm_ifac_verdict verdict);

#endif
