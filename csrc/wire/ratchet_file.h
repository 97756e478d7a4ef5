/* Files of ratchets (RNS 1, 2.6 and 3.5).
 *
 *   own         {"signature": bin64, "ratchets": bin of [bin32, ...]}, private
 *               keys newest first, signed by the destination's identity
 *   remembered  {"ratchet": bin32, "received": float64}
 */
#ifndef NM_WIRE_RATCHET_FILE_H
#define NM_WIRE_RATCHET_FILE_H

#include "base/msgpack.h"
#include "crypto/identity.h"
#include "wire/constants.h"

/* A parsed file of own ratchets; borrows from its bytes, which are secrets. */
typedef struct nm_ratchet_file {
  nm_span signature; /* 64 */
  nm_span packed;    /* what is signed: the MessagePack array */
  uint32_t count;
} nm_ratchet_file;

/* Reads a file and checks its shape, not its signature. Keys may come in any
 * order, others are ignored (up to 64 items in all). NM_E(LIMIT) "ratchets" for
 * more than |count_max| keys (0: NM_RATCHETS_RETAINED), NM_E(MISSING),
 * NM_E(TYPE), NM_E(LENGTH) and the errors of nm_mp_skip; |fault| names "file",
 * "signature" or "ratchets". */
int nm_ratchet_file_parse(nm_span file, uint32_t count_max,
                          nm_ratchet_file *out, nm_fault *fault);

/* 0 or NM_E(SIGNATURE): did |identity| sign it? */
int nm_ratchet_file_verify(const nm_ratchet_file *file,
                           const nm_identity *identity);

/* The private key |index|, newest first; empty past the end. Keys have one
 * encoded length, so this takes constant time. */
nm_span nm_ratchet_file_key(const nm_ratchet_file *file, uint32_t index);

/* The size of a file with |count| keys. */
size_t nm_ratchet_file_size(uint32_t count);

/* Writes a file of |count| private keys (|keys|: count * 32 bytes, newest
 * first) signed by |identity|. NM_E(NO_KEY), NM_E(TOO_LARGE), NM_E(LIBRARY). */
int nm_ratchet_file_write(nm_writer *w, const nm_identity *identity,
                          const uint8_t *keys, uint32_t count);

/* A remembered ratchet of another destination. */
typedef struct nm_ratchet_memory {
  nm_span ratchet; /* 32: public key */
  double received; /* Unix seconds */
} nm_ratchet_memory;

#define NM_RATCHET_MEMORY_SIZE 61
/* Reads one. Errors as above, naming "file", "ratchet" or "received". */
int nm_ratchet_memory_parse(nm_span file, nm_ratchet_memory *out,
                            nm_fault *fault);
/* Writes one: NM_RATCHET_MEMORY_SIZE bytes. NM_E(LENGTH), NM_E(TOO_LARGE). */
int nm_ratchet_memory_write(nm_writer *w, const nm_ratchet_memory *memory);
/* True while it may be used: for 30 days. */
bool nm_ratchet_memory_valid(const nm_ratchet_memory *memory, double now);

#endif
