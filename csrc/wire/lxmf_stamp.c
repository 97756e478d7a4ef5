/* What LXMF's proofs of work commit to. */
#include "wire/lxmf_stamp.h"

#include "base/cursor.h"

void nm_lxmf_peering_material(const nm_identity_hash *receiver,
                              const nm_identity_hash *offering,
                              uint8_t out[NM_LXMF_PEERING_MATERIAL_SIZE]) {
  nm_writer w = nm_writer_of(out, NM_LXMF_PEERING_MATERIAL_SIZE);
  nm_writer_put(&w, receiver->b, sizeof receiver->b);
  nm_writer_put(&w, offering->b, sizeof offering->b);
}

void nm_lxmf_ticket_stamp(const uint8_t ticket[NM_LXMF_TICKET_SIZE],
                          const uint8_t message_id[NM_HASH_SIZE],
                          uint8_t out[NM_LXMF_TICKET_SIZE]) {
  const nm_span parts[2] = {nm_span_of(ticket, NM_LXMF_TICKET_SIZE),
                            nm_span_of(message_id, NM_HASH_SIZE)};
  nm_truncated_hashv(out, parts, 2);
}

bool nm_lxmf_ticket_match(nm_span stamp, const uint8_t *const *tickets,
                          size_t count,
                          const uint8_t message_id[NM_HASH_SIZE]) {
  if (stamp.len != NM_LXMF_TICKET_SIZE) {
    return false;
  }
  bool match = false;
  uint8_t own[NM_LXMF_TICKET_SIZE];
  for (size_t i = 0; i < count; i++) {
    nm_lxmf_ticket_stamp(tickets[i], message_id, own);
    match |= nm_equal_ct(own, stamp.ptr, sizeof own);
  }
  nm_wipe(own, sizeof own);
  return match;
}

/* Sets |*value| and judges |stamp| over |material|. */
static int check_work(nm_span stamp, nm_span material, uint32_t rounds,
                      uint32_t cost, uint32_t *value) {
  nm_sha256_midstate mid;
  uint8_t digest[NM_HASH_SIZE];
  nm_workblock_midstate(&mid, material, rounds);
  nm_stamp_digest(digest, &mid, stamp);
  *value = nm_stamp_digest_value(digest);
  return nm_stamp_digest_meets(digest, cost) ? NM_OK : NM_E(VALUE);
}

int nm_lxmf_message_stamp_check(nm_span stamp,
                                const uint8_t message_id[NM_HASH_SIZE],
                                uint32_t cost, const uint8_t *const *tickets,
                                size_t count, uint32_t *value) {
  *value = 0;
  if (stamp.ptr == NULL) {
    return NM_E(MISSING);
  }
  if (nm_lxmf_ticket_match(stamp, tickets, count, message_id)) {
    *value = NM_LXMF_COST_TICKET;
    return NM_OK;
  }
  return check_work(stamp, nm_span_of(message_id, NM_HASH_SIZE),
                    NM_LXMF_ROUNDS_MESSAGE, cost, value);
}

int nm_lxmf_propagation_stamp_check(nm_span stamp,
                                    const uint8_t transient_id[NM_HASH_SIZE],
                                    uint32_t cost, uint32_t *value) {
  return check_work(stamp, nm_span_of(transient_id, NM_HASH_SIZE),
                    NM_LXMF_ROUNDS_PROPAGATION, cost, value);
}

int nm_lxmf_peering_key_check(nm_span key, const nm_identity_hash *receiver,
                              const nm_identity_hash *offering, uint32_t cost,
                              uint32_t *value) {
  uint8_t material[NM_LXMF_PEERING_MATERIAL_SIZE];
  nm_lxmf_peering_material(receiver, offering, material);
  return check_work(key, nm_span_of(material, sizeof material),
                    NM_LXMF_ROUNDS_PEERING, cost, value);
}

uint32_t nm_lxmf_propagation_cost_floor(uint32_t cost, uint32_t flexibility) {
  return cost > flexibility ? cost - flexibility : 0;
}
