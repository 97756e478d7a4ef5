/* Inputs shared with the other arms, in the same bytes as in
 * netmesh/bench/kit/fixtures.py and benchmarks/rust/common/fixtures.rs.
 */
#ifndef NB_FIXTURES_H
#define NB_FIXTURES_H

#include "crypto/entropy.h"
#include "crypto/identity.h"

/* FNV-1a with 64 bits: names streams and fingerprints outputs. */
uint64_t nb_fnv(nm_span data);

/* The first |len| bytes of stream |number| of |label|. */
void nb_stream(const char *label, size_t number, uint8_t *out, size_t len);

/* The identity with the private keys of stream |number| of |label|. */
int nb_identity(nm_identity *id, const char *label, size_t number);

/* |size| bytes from the C library's allocator for the stream; NULL when there
 * are none. */
uint8_t *nb_stream_new(const char *label, size_t number, size_t size);

/* What operations draw their random bytes from: a buffered generator that is
 * keyed from the system, as a node keeps one for each thread. */
int nb_random_open(nm_entropy_pool *pool);

/* Unix seconds of the system's clock, as an announce needs them. */
uint64_t nb_unix_time(void);

#endif
