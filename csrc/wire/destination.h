/* Names, name hashes and addresses; the rules for types, directions and
 * identities; path hashes (RNS 1, 3).
 */
#ifndef NM_WIRE_DESTINATION_H
#define NM_WIRE_DESTINATION_H

#include "base/cursor.h"
#include "crypto/hash.h"
#include "wire/constants.h"

/* Checks one part of a name (an application name or an aspect). 0,
 * NM_E(VALUE) when it holds a dot, NM_E(UTF8). */
int nm_name_part_check(nm_span part);

/* Writes |app| and |count| aspects, joined by dots. Errors of
 * nm_name_part_check, NM_E(TOO_LARGE). */
int nm_name_join(nm_writer *w, nm_span app, const nm_span *aspects,
                 size_t count);

/* Takes the first part of |rest| off; false when nothing is left. A name of n
 * dots has n + 1 parts, also when some are empty. Start with a span over the
 * whole name; after the last part |rest->ptr| is NULL. */
bool nm_name_next(nm_span *rest, nm_span *part);

/* Writes |name|, a dot and the 32 hex digits of |identity|: the full name that
 * people see. It is never hashed. Errors: NM_E(TOO_LARGE). */
int nm_name_expand(nm_writer *w, nm_span name,
                   const nm_identity_hash *identity);

/* T(name hash | identity hash), where |name_hash| is nm_name_hash of the dotted
 * name, or T(name hash) when |identity| is NULL
 * (PLAIN). */
void nm_destination_address(const uint8_t name_hash[NM_NAME_HASH_SIZE],
                            const nm_identity_hash *identity,
                            nm_destination_hash *out);

/* What making a destination needs (RNS 1, 3.2). */
typedef enum nm_destination_rule {
  NM_DESTINATION_OK,
  NM_DESTINATION_NEW_IDENTITY /* make an identity and append its hex hash as a
                                 further aspect before hashing */
} nm_destination_rule;

/* Checks the combination of |direction| (NM_DIRECTION_IN, _OUT), |type|
 * (NM_SINGLE, NM_GROUP, NM_PLAIN) and whether an identity is given. Returns
 * an nm_destination_rule, or NM_E(VALUE) for an unknown direction or type,
 * NM_E(STATE) for a PLAIN destination with an identity, NM_E(MISSING) for an
 * OUT destination without one, with |fault| naming the argument. */
int nm_destination_check(int direction, int type, bool has_identity,
                         nm_fault *fault);

/* True for a destination that may be announced: SINGLE and IN. */
bool nm_destination_announces(int direction, int type);

/* 0 or NM_E(VALUE): is |strategy| one of NM_PROVE_NONE, _APP, _ALL? */
int nm_proof_strategy_check(int strategy);

/* Checks the arguments of a request handler: a non-empty |path|, a known
 * |policy|, and an allow list (|allowed_len| bytes, a multiple of 16) exactly
 * when the policy is NM_ALLOW_LIST. NM_E(EMPTY) "path", NM_E(VALUE) "policy",
 * NM_E(MISSING), NM_E(STATE) or NM_E(LENGTH) "allowed". */
int nm_request_handler_check(nm_span path, int policy, bool has_allowed,
                             size_t allowed_len, nm_fault *fault);

/* T(path): the 16 bytes that stand for a request path (RNS 1, 3.7). */
void nm_request_path_hash(nm_span path, uint8_t out[NM_ADDRESS_SIZE]);

/* H(display string): the 32-byte hash of an interface (RNS 1, 7.6). */
void nm_interface_hash(nm_span display_name, uint8_t out[NM_HASH_SIZE]);

#endif
