/* The map from Ed25519 to X25519 public keys. Private to this room.
 */
#ifndef NM_CRYPTO_FIELD25519_H
#define NM_CRYPTO_FIELD25519_H

#include <stdint.h>

/* u = (1 + y) / (1 - y) modulo 2^255 - 19, for the encoded Edwards point
 * |point|, whose sign bit is ignored. For public points only; the point must
 * not be the neutral element (the result would be 0). |u| may be |point|. */
void nm_field25519_montgomery_u(uint8_t u[32], const uint8_t point[32]);

#endif
