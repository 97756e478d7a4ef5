/* Packets of links: sealed and sent, opened, proven (RNS 2, 1.10).
 */
#include "stack/link_state.h"

#include <string.h>

static int seal_payload(nm_engine *engine, nm_link *link, nm_span payload,
                        nm_block **sealed) {
  if (!link->has_key) {
    return NM_E(STATE);
  }
  uint8_t iv[NM_AES_BLOCK];
  int status = nm_engine_random(engine, iv, sizeof(iv));
  if (status != NM_OK) {
    return status;
  }
  nm_block *out = nm_block_new(engine->mem, nm_token_size(payload.len));
  if (out == NULL) {
    return NM_E(MEMORY);
  }
  status = nm_token_seal(&engine->cipher, &link->key, iv, payload,
                         nm_block_bytes(out));
  if (status != NM_OK) {
    nm_block_drop(out);
    return status;
  }
  *sealed = out;
  return NM_OK;
}

static int pack_link_packet(nm_engine *engine, const nm_link *link,
                            uint8_t packet_type, uint8_t context,
                            nm_span payload, nm_block **raw) {
  nm_packet packet =
      nm_packet_of(packet_type, NM_LINK, context, link->id.b, payload);
  size_t size = nm_packet_size(&packet);
  if (size > link->mtu) {
    return NM_E(TOO_LARGE);
  }
  nm_block *out = nm_block_new(engine->mem, size);
  if (out == NULL) {
    return NM_E(MEMORY);
  }
  size_t len = 0;
  int status = nm_packet_pack(&packet, NM_PACKET_ORIGINATE, link->mtu,
                              nm_block_bytes(out), size, &len, NULL);
  if (status != NM_OK) {
    nm_block_drop(out);
    return status;
  }
  *raw = out;
  return NM_OK;
}

int nm_link_pack(nm_engine *engine, nm_link *link, uint8_t packet_type,
                 uint8_t context, nm_span payload, nm_block **raw,
                 nm_packet_hash *hash) {
  nm_block *sealed = NULL;
  int status = NM_OK;
  if (!nm_packet_travels_in_clear(packet_type, NM_LINK, context)) {
    status = seal_payload(engine, link, payload, &sealed);
    payload = nm_block_span(sealed);
  }
  if (status == NM_OK) {
    status = pack_link_packet(engine, link, packet_type, context, payload, raw);
  }
  nm_block_drop(sealed);
  if (status == NM_OK && hash != NULL) {
    status = nm_packet_digest_raw(nm_block_span(*raw), hash, NULL);
  }
  return status;
}

int nm_link_put(nm_engine *engine, nm_link *link, nm_block *raw, nm_op_id op) {
  nm_iface *iface = nm_iface_find(engine, link->iface);
  if (iface == NULL) {
    nm_block_drop(raw);
    return NM_E(STATE);
  }
  link->last_outbound = engine->now.mono_us;
  return nm_iface_send(engine, iface, raw, op);
}

int nm_link_emit(nm_engine *engine, nm_link *link, uint8_t packet_type,
                 uint8_t context, nm_span payload, nm_packet_hash *hash) {
  nm_block *raw = NULL;
  int status =
      nm_link_pack(engine, link, packet_type, context, payload, &raw, hash);
  return status == NM_OK ? nm_link_put(engine, link, raw, 0) : status;
}

int nm_link_open_payload(nm_engine *engine, const nm_link *link,
                         nm_span payload, nm_block **plaintext) {
  if (!link->has_key) {
    return NM_E(STATE);
  }
  nm_block *out = nm_block_new(engine->mem, payload.len);
  if (out == NULL) {
    return NM_E(MEMORY);
  }
  size_t len = 0;
  int status = nm_token_open(&engine->cipher, &link->key, payload,
                             nm_block_bytes(out), &len);
  if (status != NM_OK) {
    nm_block_drop(out);
    return status;
  }
  nm_block_trim(out, len);
  nm_block_mark_secret(out);
  *plaintext = out;
  return NM_OK;
}

static void link_proof_signed(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_active(engine, job->link);
  if (link != NULL && job->status == NM_OK) {
    (void)nm_link_put(engine, link, nm_block_hold(job->u.prove.raw), 0);
  }
}

/* The responder signs with its destination's key, the initiator with the
 * link's own (RNS 2, 1.10). */
void nm_link_prove(nm_engine *engine, nm_link *link,
                   const nm_packet_hash *hash) {
  const nm_ed25519_sign_key *own =
      link->initiator ? nm_link_sign_key(engine, link) : NULL;
  if (link->initiator && own == NULL) {
    return; /* the peer will try again */
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_PROVE, NULL, &drop);
  if (job == NULL) {
    return; /* counted; the peer will try again */
  }
  job->done = link_proof_signed;
  job->link = link->ref;
  nm_job_prove *j = &job->u.prove;
  j->on_link = true;
  j->link_id = link->id;
  j->hash = *hash;
  if (link->initiator) {
    j->sign = *own;
  } else {
    j->identity = nm_block_hold(link->identity);
  }
  nm_engine_submit(engine, job);
}
