/* What LXMF's proofs of work commit to, and when one is good enough (LXMF 6,
 * 7, 8.3, 9.3). The work itself is in crypto/stamp.h.
 */
#ifndef NM_WIRE_LXMF_STAMP_H
#define NM_WIRE_LXMF_STAMP_H

#include "base/bytes.h"
#include "base/status.h"
#include "crypto/stamp.h"
#include "wire/lxmf_constants.h"

#define NM_LXMF_PEERING_MATERIAL_SIZE 32

/* receiver identity hash || offering node's identity hash (LXMF 6.1): what a
 * peering key commits to. */
void nm_lxmf_peering_material(const nm_identity_hash *receiver,
                              const nm_identity_hash *offering,
                              uint8_t out[NM_LXMF_PEERING_MATERIAL_SIZE]);

/* Ht(ticket || message id): the cheap stamp (LXMF 7). */
void nm_lxmf_ticket_stamp(const uint8_t ticket[NM_LXMF_TICKET_SIZE],
                          const uint8_t message_id[NM_HASH_SIZE],
                          uint8_t out[NM_LXMF_TICKET_SIZE]);

/* True when |stamp| is the ticket stamp of |message_id| under one of |count|
 * tickets, 16 bytes each. All are tried in time that depends on |count| alone.
 */
bool nm_lxmf_ticket_match(nm_span stamp, const uint8_t *const *tickets,
                          size_t count, const uint8_t message_id[NM_HASH_SIZE]);

/* The stamp of a received message: |stamp| as it came, `ptr` NULL when the
 * message has none or one that is no byte string. 0 when a ticket matches
 * (value 256) or the proof of work meets |cost|; else NM_E(MISSING) without a
 * stamp, NM_E(VALUE). |*value| is set in every case, 0 without a stamp. The
 * proof of work is only computed when no ticket matches: about 1 ms. */
int nm_lxmf_message_stamp_check(nm_span stamp,
                                const uint8_t message_id[NM_HASH_SIZE],
                                uint32_t cost, const uint8_t *const *tickets,
                                size_t count, uint32_t *value);

/* The propagation stamp of |transient_id|. 0 or NM_E(VALUE); sets |*value|. */
int nm_lxmf_propagation_stamp_check(nm_span stamp,
                                    const uint8_t transient_id[NM_HASH_SIZE],
                                    uint32_t cost, uint32_t *value);

/* The peering key that |offering| shows to |receiver|. 0 or NM_E(VALUE); sets
 * |*value|. */
int nm_lxmf_peering_key_check(nm_span key, const nm_identity_hash *receiver,
                              const nm_identity_hash *offering, uint32_t cost,
                              uint32_t *value);

/* The least stamp value a node accepts: max(0, cost - flexibility) (LXMF
 * 8.2). */
uint32_t nm_lxmf_propagation_cost_floor(uint32_t cost, uint32_t flexibility);

#endif
