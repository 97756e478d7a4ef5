/* Announces (RNS 1, 5): the signed statement of a destination's key, name,
 * ratchet and app data.
 *
 *   data  public key (64) | name hash (10) | random hash (10) | ratchet? (32) |
 *         signature (64) | app data
 *   signed  destination (16) | data without the signature
 *
 * The context flag tells whether a ratchet is present. The random hash is 5
 * random bytes and 5 bytes of emission time.
 */
#ifndef NM_WIRE_ANNOUNCE_H
#define NM_WIRE_ANNOUNCE_H

#include "crypto/identity.h"
#include "wire/packet.h"

#define NM_ANNOUNCE_RANDOM_SIZE 5
#define NM_ANNOUNCE_EMITTED_MAX 0xffffffffffull
/* Bytes that an announce signs: at most NM_MTU less header and signature, with
 * the destination. */
#define NM_ANNOUNCE_SIGNED_MAX 433

/* A parsed announce: a view into the packet. */
typedef struct nm_announce {
  nm_packet packet;
  nm_span public_key;  /* 64 */
  nm_span name_hash;   /* 10 */
  nm_span random_hash; /* 10 */
  nm_span ratchet;     /* 32, or empty */
  nm_span signature;   /* 64 */
  nm_span app_data;    /* rest; may be empty */
  bool has_app_data;   /* false: absent, which differs from empty: only an
                          announce with a ratchet can have empty app data */
  uint64_t emitted;    /* Unix seconds */
} nm_announce;

/* Reads the announce in |packet|, which |announce| copies and borrows from.
 * NM_E(TYPE) "packet_type" for another packet, NM_E(TOO_LARGE) "packet" above
 * 500 bytes, NM_E(TRUNCATED) naming the first field that is not there. */
int nm_announce_parse(const nm_packet *packet, nm_announce *announce,
                      nm_fault *fault);

/* Appends what is signed. NM_E(TOO_LARGE). */
int nm_announce_signed(nm_writer *w, const nm_announce *announce);

/* The identity hash of the announced key. */
void nm_announce_identity_hash(const nm_announce *announce,
                               nm_identity_hash *out);

/* True when it is an announce of the name with |name_hash| by the announced
 * identity (RNS 1, 5.7). */
bool nm_announce_matches(const nm_announce *announce,
                         const uint8_t name_hash[NM_NAME_HASH_SIZE]);

/* X(name, text) */
#define NM_ANNOUNCE_VERDICT_LIST(X)                                            \
  X(VALID, "is valid")                                                         \
  X(BAD_SIGNATURE, "has a wrong signature")                                    \
  X(BAD_DESTINATION, "names a destination that its key does not own")          \
  X(KEY_MISMATCH, "has another key than the one known for its destination")    \
  X(MALFORMED, "is malformed")

typedef enum nm_announce_verdict {
#define NM_ANNOUNCE_VERDICT_ENUM(name, text) NM_ANNOUNCE_##name,
  NM_ANNOUNCE_VERDICT_LIST(NM_ANNOUNCE_VERDICT_ENUM)
#undef NM_ANNOUNCE_VERDICT_ENUM
      NM_ANNOUNCE_VERDICT_COUNT
} nm_announce_verdict;

const char *nm_announce_verdict_name(nm_announce_verdict verdict);

/* Validates as RNS 1, 5.5: the signature; then, unless |signature_only|, that
 * the key and the name give the destination; then, when |expected_public| is
 * not NULL (64 bytes), that the key is that one. Blackholes are the caller's
 * business. Never MALFORMED. */
nm_announce_verdict nm_announce_validate(const nm_announce *announce,
                                         bool signature_only,
                                         const uint8_t *expected_public);

/* The last step alone, for callers that know the rest: VALID when
 * |expected_public| is NULL or the announced key, else KEY_MISMATCH. */
nm_announce_verdict nm_announce_check_key(const nm_announce *announce,
                                          const uint8_t *expected_public);

/* What an announce is made from. Every byte of the result follows from it. */
typedef struct nm_announce_args {
  const nm_identity *identity; /* with private keys */
  const uint8_t *name_hash;    /* 10 */
  nm_span app_data;            /* ptr NULL: none */
  const uint8_t *ratchet;      /* 32-byte public key, or NULL */
  uint64_t emitted;            /* Unix seconds, below 2^40 */
  const uint8_t *random;       /* NM_ANNOUNCE_RANDOM_SIZE bytes */
  const uint8_t *transport_id; /* 16: a HEADER_2 announce, or NULL */
  uint8_t context;             /* NM_CONTEXT_NONE or _PATH_RESPONSE */
  uint8_t hops;                /* 0..127 */
} nm_announce_args;

size_t nm_announce_size(const nm_announce_args *args);

/* Makes the packet: nm_announce_size bytes to |out|, the number to |len|.
 * NM_E(NO_KEY) "identity", NM_E(RANGE) "emitted" or "hops", NM_E(VALUE)
 * "context", NM_E(TOO_LARGE) "packet" above 500 bytes or "output",
 * NM_E(LIBRARY). */
int nm_announce_create(const nm_announce_args *args, uint8_t *out, size_t cap,
                       size_t *len, nm_fault *fault);

#endif
