/* How incoming resources ended: kept for a while, so that the end is final
 * whatever comes late (RNS 2, 3.9, 3.11).
 */
#include "stack/link_state.h"

#include <string.h>

/* NM_KEPT_ENDS of them, or NULL. */
static const nm_kept_end *ends_of(const nm_link *link) {
  return link->learned == NULL ? NULL : link->learned->kept_ends;
}

static nm_kept_end *new_end(nm_link *link, const nm_transfer_in *t) {
  nm_link_learned *learned = link->learned;
  if (learned->kept_ends == NULL) {
    learned->kept_ends = nm_alloc_zero(link->engine->mem, NM_KEPT_ENDS,
                                       sizeof(learned->kept_ends[0]));
  }
  if (learned->kept_ends == NULL) {
    return NULL; /* what comes late then costs its sender the time-out */
  }
  nm_kept_end *kept = &learned->kept_ends[learned->kept_next];
  learned->kept_next = (learned->kept_next + 1) % NM_KEPT_ENDS;
  memset(kept, 0, sizeof(*kept));
  memcpy(kept->hash, t->hash, NM_HASH_SIZE);
  memcpy(kept->original, t->original, NM_HASH_SIZE);
  return kept;
}

void nm_transfer_keep_proof(nm_link *link, const nm_transfer_in *t) {
  nm_kept_end *kept = new_end(link, t);
  if (kept == NULL) {
    return;
  }
  memcpy(kept->payload, t->proof, sizeof(kept->payload));
  nm_reader r = nm_reader_of(nm_span_of(t->proof, sizeof(t->proof)));
  const uint8_t *hash = nm_reader_take(&r, NM_HASH_SIZE).ptr;
  const uint8_t *proof = nm_reader_take(&r, NM_HASH_SIZE).ptr;
  nm_resource_proof_packet_hash(&link->id, hash, proof, &kept->packet_hash);
}

void nm_transfer_keep_refusal(nm_link *link, const nm_transfer_in *t) {
  nm_kept_end *kept = new_end(link, t);
  if (kept != NULL) {
    kept->refused = true;
  }
}

/* A resource that was refused takes all its segments with it; a segment that
 * was proven stands for itself. */
const nm_kept_end *nm_transfer_kept(const nm_link *link, nm_span hash,
                                    nm_span original) {
  const nm_kept_end *ends = ends_of(link);
  for (int i = 0; ends != NULL && i < NM_KEPT_ENDS; i++) {
    const nm_kept_end *kept = &ends[i];
    if (nm_span_equal(hash, nm_span_of(kept->hash, NM_HASH_SIZE)) ||
        (kept->refused &&
         nm_span_equal(original, nm_span_of(kept->original, NM_HASH_SIZE)))) {
      return kept;
    }
  }
  return NULL;
}

void nm_transfer_send_proof(nm_engine *engine, nm_link *link,
                            const uint8_t *payload) {
  (void)nm_link_emit(engine, link, NM_PROOF, NM_CONTEXT_RESOURCE_PRF,
                     nm_span_of(payload, NM_RESOURCE_PROOF_SIZE), NULL);
}

void nm_transfer_refuse(nm_engine *engine, nm_link *link, const uint8_t *hash) {
  if (link->has_key) {
    (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_RESOURCE_RCL,
                       nm_span_of(hash, NM_HASH_SIZE), NULL);
  }
}

nm_drop nm_transfer_proof_wanted(nm_engine *engine, nm_link *link,
                                 nm_span payload) {
  const nm_kept_end *ends = ends_of(link);
  for (int i = 0; ends != NULL && i < NM_KEPT_ENDS; i++) {
    const nm_kept_end *kept = &ends[i];
    if (!kept->refused &&
        nm_span_equal(payload, nm_span_of(kept->packet_hash.b, NM_HASH_SIZE))) {
      nm_transfer_send_proof(engine, link, kept->payload);
      return NM_DROP_NONE;
    }
  }
  return NM_DROP_RESOURCE_UNKNOWN;
}
