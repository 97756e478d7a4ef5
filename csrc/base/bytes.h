/* Byte spans, address types and the few operations on raw bytes that every
 * room needs.
 */
#ifndef NM_BASE_BYTES_H
#define NM_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A borrowed run of bytes. `ptr` may be NULL only when `len` is 0. */
typedef struct nm_span {
  const uint8_t *ptr;
  size_t len;
} nm_span;

/* A borrowed run of writable bytes. */
typedef struct nm_mspan {
  uint8_t *ptr;
  size_t len;
} nm_mspan;

#define NM_HASH_SIZE 32    /* SHA-256 (RNS 1, 0.1) */
#define NM_ADDRESS_SIZE 16 /* truncated hash: all addresses */
#define NM_NAME_HASH_SIZE 10
#define NM_KEY_SIZE 32
#define NM_SIGNATURE_SIZE 64
#define NM_PUBLIC_SIZE 64  /* X25519 public | Ed25519 public */
#define NM_PRIVATE_SIZE 64 /* X25519 private | Ed25519 seed */

/* Two kinds of 16-byte hash that must never be confused: they are distinct
 * struct types so that the compiler refuses a mix-up. */
typedef struct nm_identity_hash {
  uint8_t b[NM_ADDRESS_SIZE];
} nm_identity_hash;
typedef struct nm_destination_hash {
  uint8_t b[NM_ADDRESS_SIZE];
} nm_destination_hash;
typedef struct nm_link_id {
  uint8_t b[NM_ADDRESS_SIZE];
} nm_link_id;
typedef struct nm_packet_hash {
  uint8_t b[NM_HASH_SIZE];
} nm_packet_hash;

/* A span over |len| bytes at |ptr|. */
static inline nm_span nm_span_of(const void *ptr, size_t len) {
  nm_span s = {(const uint8_t *)ptr, len};
  return s;
}

/* The |len| bytes of |s| from |offset| on; an empty span with a NULL pointer
 * when they do not lie inside. */
static inline nm_span nm_span_slice(nm_span s, size_t offset, size_t len) {
  if (s.ptr == NULL || offset > s.len || len > s.len - offset) {
    return nm_span_of(NULL, 0);
  }
  /* An empty span may have no address, to which nothing may be added. */
  return nm_span_of(offset == 0 ? s.ptr : s.ptr + offset, len);
}

/* True when both spans hold the same bytes. Not constant in time: for public
 * values only. */
bool nm_span_equal(nm_span a, nm_span b);

/* True when the |len| bytes at |a| and |b| are equal; the time taken depends
 * on |len| alone. */
bool nm_equal_ct(const void *a, const void *b, size_t len);

/* Overwrites |len| bytes at |ptr| with zeros; not removed by the optimiser. */
void nm_wipe(void *ptr, size_t len);

#endif
