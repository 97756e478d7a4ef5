/* Data of vectors that are described by a rule instead of being written out,
 * and the keys of vectors.
 */
#ifndef NM_TESTS_WIRE_DATA_H
#define NM_TESTS_WIRE_DATA_H

#include "crypto/identity.h"
#include "support.h"

/* The bytes of input.data, or those that input.data_rule ("first 6000 bytes of
 * SHA256(ascii('label/0'))||...") or input.data_pattern ("'q'*20000")
 * describes. Fails the test when input.data_sha256 is there and differs. */
nm_span nm_wire_vector_data(const nm_vector *v);

/* |len| bytes that look random and are the same for the same |label|: the rule
 * above. */
nm_span nm_wire_rule_data(const char *label, size_t len);

/* The identity of vector |name| ("identity_alice") of the LXMF vectors. */
void nm_wire_identity(const char *name, nm_identity *id);

/* The number of elements of a list field; fails the test when it is none. */
size_t nm_wire_vector_count(const nm_vector *v, const char *path);

#endif
