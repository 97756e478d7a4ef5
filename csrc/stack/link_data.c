/* Packets on links, in and out (RNS 2, 1.7 to 1.13).
 */
#include "stack/link_state.h"
#include "wire/decisions.h"
#include "wire/link.h"
#include "wire/proof.h"

#include <string.h>

/* A link receipt lives at least this long: upstream polls once a second and
 * can stall for longer. */
#define RECEIPT_MIN_US 3000000ull

/* ---- out ---- */

/* Registers the receipt, then lets the bytes go. */
static int send_with_receipt(nm_engine *engine, nm_link *link, nm_block *raw,
                             const nm_packet_hash *hash, uint64_t timeout_us,
                             nm_op_id *op) {
  if (timeout_us == 0) {
    timeout_us = nm_us(nm_link_receipt_timeout(nm_seconds(link->rtt_us)));
    timeout_us = timeout_us < RECEIPT_MIN_US ? RECEIPT_MIN_US : timeout_us;
  }
  nm_receipt *receipt = nm_receipt_new(
      engine, &link->destination, link->peer_ed25519, link->ref, timeout_us);
  if (receipt == NULL) {
    nm_block_drop(raw);
    return NM_E(MEMORY);
  }
  receipt->link_id = link->id;
  receipt->proven = nm_links_proven;
  int status = nm_receipt_register(engine, receipt, hash);
  if (status != NM_OK) {
    nm_block_drop(raw);
    nm_receipt_end(engine, receipt, NM_RECEIPT_FAILED, NM_STAGE_SEND);
    return status;
  }
  *op = receipt->op;
  nm_op_id id = receipt->op;
  if (nm_link_put(engine, link, raw, id) != NM_OK) {
    nm_receipt_end(engine, receipt, NM_RECEIPT_FAILED, NM_STAGE_SEND);
  }
  return NM_OK;
}

int nm_engine_link_send(nm_engine *engine, nm_link_ref ref, nm_span payload,
                        bool receipt, uint64_t timeout_us, nm_op_id *op,
                        nm_packet_hash *hash, nm_now now) {
  engine->now = now;
  *op = 0;
  nm_link *link = nm_link_active(engine, ref);
  if (link == NULL) {
    return NM_E(STATE);
  }
  if (payload.len > nm_link_mdu_of(link)) {
    return NM_E(TOO_LARGE);
  }
  nm_block *raw = NULL;
  nm_packet_hash own;
  int status =
      nm_link_pack(engine, link, NM_DATA, NM_CONTEXT_NONE, payload, &raw, &own);
  if (status != NM_OK) {
    return status;
  }
  link->last_data = now.mono_us;
  if (hash != NULL) {
    *hash = own;
  }
  return receipt ? send_with_receipt(engine, link, raw, &own, timeout_us, op)
                 : nm_link_put(engine, link, raw, 0);
}

/* ---- crafting (E8) ---- */

int nm_engine_link_seal(nm_engine *engine, nm_link_ref ref, uint8_t packet_type,
                        uint8_t context, nm_span payload, nm_block **raw) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  return nm_link_pack(engine, link, packet_type, context, payload, raw, NULL);
}

int nm_engine_link_unseal(nm_engine *engine, nm_link_ref ref, nm_span raw,
                          nm_block **plaintext) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  nm_packet packet = {0};
  int status = nm_packet_parse(raw, &packet, NULL);
  return status == NM_OK
             ? nm_link_open_payload(engine, link, packet.payload, plaintext)
             : status;
}

/* ---- identification ---- */

static void identity_signed(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_active(engine, job->link);
  if (link != NULL && job->status == NM_OK) {
    (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_LINKIDENTIFY,
                       nm_span_of(job->u.link_sign_id.payload,
                                  sizeof(job->u.link_sign_id.payload)),
                       NULL);
  }
}

int nm_engine_link_identify(nm_engine *engine, nm_link_ref ref,
                            const nm_identity *identity, nm_now now) {
  engine->now = now;
  if (!identity->has_private) {
    return NM_E(NO_KEY);
  }
  nm_link *link = nm_link_active(engine, ref);
  if (link == NULL || !link->initiator) {
    return NM_OK;
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_LINK_SIGN_ID, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->done = identity_signed;
  job->link = ref;
  job->u.link_sign_id.link_id = link->id;
  job->u.link_sign_id.identity = nm_identity_block(engine->mem, identity);
  if (job->u.link_sign_id.identity == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_E(MEMORY);
  }
  nm_engine_submit(engine, job);
  return NM_OK;
}

int nm_engine_link_identify_now(nm_engine *engine, nm_link_ref ref,
                                const nm_identity *identity, nm_now now) {
  engine->now = now;
  uint8_t payload[NM_PUBLIC_SIZE + NM_SIGNATURE_SIZE];
  nm_link *link = nm_link_active(engine, ref);
  if (link == NULL || !link->initiator) {
    return NM_OK;
  }
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  int status = nm_link_identify_write(&w, identity, &link->id);
  return status != NM_OK
             ? status
             : nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_LINKIDENTIFY,
                            nm_span_of(payload, sizeof(payload)), NULL);
}

static void identity_checked(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_drop drop = NM_DROP_NONE;
  if (link != NULL) {
    link->identifying--;
  }
  if (link == NULL || link->state == NM_LINK_CLOSED || link->identified) {
    drop = NM_DROP_LINK_STATE; /* the first valid one wins */
  } else if (job->status != NM_OK) {
    drop = NM_DROP_LINK_PAYLOAD;
  } else {
    const uint8_t *public_key = job->u.link_identify.payload;
    nm_identity_hash_of(&link->remote_identity, public_key);
    if (nm_engine_is_blackholed(engine, &link->remote_identity)) {
      nm_link_end(engine, link, NM_CLOSE_BLACKHOLED, true);
    } else {
      link->identified = true;
      nm_event_node *node = job->node;
      job->node = NULL;
      node->event = nm_link_event(link, NM_EVENT_LINK_IDENTIFIED);
      node->event.public_key =
          nm_block_copy(engine->mem, nm_span_of(public_key, NM_PUBLIC_SIZE));
      nm_engine_emit(engine, node);
    }
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
  nm_requests_identified(engine, job->link);
}

static nm_drop in_identify(nm_engine *engine, nm_link *link, nm_span plain,
                           nm_input *input) {
  nm_drop drop;
  /* It may overtake the RTT packet (RNS 2, 1.7). */
  if (link->initiator || link->identified) {
    return NM_DROP_LINK_STATE;
  }
  if (plain.len != NM_PUBLIC_SIZE + NM_SIGNATURE_SIZE) {
    return NM_DROP_LINK_PAYLOAD;
  }
  if (link->identifying == UINT8_MAX) {
    return NM_DROP_JOBS_SHARE;
  }
  nm_event_node *node = nm_engine_reserve_event(engine, &drop);
  if (node == NULL) {
    return drop;
  }
  nm_job *job = nm_engine_new_job(engine, NM_JOB_LINK_IDENTIFY, input, &drop);
  if (job == NULL) {
    nm_eventq_unreserve(&engine->events, node);
    return drop;
  }
  job->node = node;
  job->done = identity_checked;
  job->link = link->ref;
  job->u.link_identify.link_id = link->id;
  memcpy(job->u.link_identify.payload, plain.ptr, plain.len);
  link->identifying++;
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* ---- data and its proof ---- */

static nm_drop in_data(nm_engine *engine, nm_link *link, nm_block *plain,
                       const nm_input *input) {
  nm_drop drop;
  if (link->packets_paused) {
    engine->stats.held_for_credit++;
    return NM_DROP_NO_CREDIT;
  }
  nm_event_node *node = nm_engine_reserve_event(engine, &drop);
  if (node == NULL) {
    return drop;
  }
  nm_prove prove = link->prove;
  bool hold = link->hold_packets;
  if (!link->initiator) {
    const nm_local *local = nm_local_find(engine, &link->destination);
    prove = local == NULL ? NM_PROVE_NONE : local->prove;
    hold = local != NULL && local->hold;
  }
  nm_event *event = &node->event;
  *event = nm_link_event(link, NM_EVENT_LINK_PACKET);
  event->packet_hash = input->frame->hash;
  event->hops = input->hops;
  event->rssi_dbm = input->frame->rssi_dbm;
  event->snr_cdb = input->frame->snr_cdb;
  event->quality_pct = input->frame->quality_pct;
  event->data = nm_block_hold(plain);
  link->last_data = engine->now.mono_us;
  bool ask = prove == NM_PROVE_APP || (prove == NM_PROVE_ALL && hold);
  if (ask) {
    nm_link_token *held = nm_link_token_new(engine, link, NM_TOKEN_PACKET);
    if (held != NULL) {
      held->hash = input->frame->hash;
      event->token = held->token;
    }
  }
  nm_engine_emit(engine, node);
  if (prove == NM_PROVE_ALL && !ask) {
    nm_link_prove(engine, link, &input->frame->hash);
  }
  return NM_DROP_NONE;
}

/* ---- the other contexts ---- */

static nm_drop in_keepalive(nm_engine *engine, nm_link *link, nm_span payload) {
  uint8_t expected = nm_link_keepalive(!link->initiator);
  if (payload.len != 1 || payload.ptr[0] != expected) {
    return NM_DROP_LINK_PAYLOAD;
  }
  nm_link_heard(engine, link);
  if (link->initiator) {
    return NM_DROP_NONE;
  }
  bool owes = nm_link_owes_keepalive(engine, link);
  link->last_keepalive = engine->now.mono_us;
  if (owes) {
    uint8_t answer = nm_link_keepalive(false);
    (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_KEEPALIVE,
                       nm_span_of(&answer, 1), NULL);
  }
  return NM_DROP_NONE;
}

static uint64_t own_rtt(const nm_engine *engine, const nm_link *link) {
  return engine->now.mono_us - link->opening->proof_sent_at;
}

static nm_drop in_rtt(nm_engine *engine, nm_link *link, nm_span plain) {
  double seconds = 0;
  if (link->initiator || link->told_rtt_us != 0) {
    return NM_DROP_LINK_STATE; /* a repetition is harmless */
  }
  if (nm_link_rtt_parse(plain, &seconds, NULL) != NM_OK) {
    nm_link_end(engine, link, NM_CLOSE_PROTOCOL, true);
    return NM_DROP_LINK_PAYLOAD;
  }
  /* An absurd claim would only make this side wait for ever. */
  uint64_t told = seconds > 3600 ? 3600000000ull : nm_us(seconds);
  link->told_rtt_us = told == 0 ? 1 : told;
  if (link->state == NM_LINK_HANDSHAKE) {
    uint64_t own = own_rtt(engine, link);
    nm_link_activate(engine, link, told > own ? told : own);
  } else if (!link->tuned) {
    nm_link_measured(engine, link, told);
  }
  return NM_DROP_NONE;
}

/* What is sent on an active link and opens under its key proves as much as the
 * RTT packet does, which may be late or lost. */
static bool shows_active(uint8_t context) {
  return context != NM_CONTEXT_LRRTT && context != NM_CONTEXT_LINKCLOSE &&
         context != NM_CONTEXT_LINKIDENTIFY;
}

static void activate_without_rtt(nm_engine *engine, nm_link *link) {
  uint64_t own = own_rtt(engine, link);
  uint64_t most = nm_us(NM_KEEPALIVE_RTT_MAX);
  nm_link_activate(engine, link, own < most ? own : most);
}

static nm_drop in_close(nm_engine *engine, nm_link *link, nm_span plain) {
  if (!nm_link_is_close(plain, &link->id)) {
    return NM_DROP_LINK_PAYLOAD;
  }
  nm_link_end(engine, link,
              link->initiator ? NM_CLOSE_DESTINATION : NM_CLOSE_INITIATOR,
              false);
  return NM_DROP_NONE;
}

static nm_drop in_sealed(nm_engine *engine, nm_link *link, nm_block *plain,
                         nm_input *input) {
  nm_span text = nm_block_span(plain);
  switch (input->frame->packet.context) {
  case NM_CONTEXT_NONE:
    return in_data(engine, link, plain, input);
  case NM_CONTEXT_LRRTT:
    return in_rtt(engine, link, text);
  case NM_CONTEXT_LINKCLOSE:
    return in_close(engine, link, text);
  case NM_CONTEXT_LINKIDENTIFY:
    return in_identify(engine, link, text, input);
  case NM_CONTEXT_REQUEST:
    return nm_request_packet(engine, link, text, input);
  case NM_CONTEXT_RESPONSE:
    return nm_response_packet(engine, link, text);
  case NM_CONTEXT_RESOURCE_ADV:
    return nm_transfer_advertised(engine, link, text, input);
  case NM_CONTEXT_RESOURCE_REQ:
    return nm_resource_is_note(text)
               ? nm_transfer_note(engine, link, text)
               : nm_transfer_request(engine, link, text, &input->frame->hash);
  case NM_CONTEXT_RESOURCE_HMU:
    return nm_transfer_hashmap(engine, link, text);
  case NM_CONTEXT_RESOURCE_ICL:
    return nm_transfer_cancelled(engine, link, text);
  case NM_CONTEXT_RESOURCE_RCL:
    return nm_transfer_rejected(engine, link, text);
  case NM_CONTEXT_CHANNEL:
    return nm_link_channel_packet(engine, link, plain, input);
  default:
    return NM_DROP_PROTOCOL_UNSUPPORTED;
  }
}

static void note_signal(nm_link *link, const nm_frame *frame) {
  if (link->signal_tracked) {
    link->rssi_dbm = frame->rssi_dbm;
    link->snr_cdb = frame->snr_cdb;
    link->quality_pct = frame->quality_pct;
  }
}

static nm_drop in_link(nm_engine *engine, nm_link *link, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  if (p->context == NM_CONTEXT_KEEPALIVE) {
    return in_keepalive(engine, link, p->payload);
  }
  if (p->context == NM_CONTEXT_RESOURCE) {
    nm_link_heard(engine, link);
    return nm_transfer_part(engine, link, p->payload);
  }
  if (p->context == NM_CONTEXT_CACHE_REQUEST) {
    nm_link_heard(engine, link);
    return nm_transfer_proof_wanted(engine, link, p->payload);
  }
  nm_block *plain = NULL;
  int status = nm_link_open_payload(engine, link, p->payload, &plain);
  if (status != NM_OK) {
    return status == NM_E(MEMORY) ? NM_DROP_NO_MEMORY : NM_DROP_DECRYPT;
  }
  nm_link_heard(engine, link);
  if (link->state == NM_LINK_HANDSHAKE && shows_active(p->context)) {
    activate_without_rtt(engine, link);
  }
  nm_drop drop = in_sealed(engine, link, plain, input);
  nm_block_drop(plain);
  return drop;
}

nm_drop nm_links_data(nm_engine *engine, nm_input *input) {
  nm_link *link = nm_link_find_id(engine, input->frame->packet.destination.ptr);
  if (link == NULL) {
    return NM_DROP_NO_LINK;
  }
  if (link->state == NM_LINK_PENDING || !link->has_key) {
    return NM_DROP_LINK_STATE;
  }
  if (input->iface->id != link->iface) {
    /* The copy on the right interface must still be heard (RNS 1, 8.5). */
    nm_filter_drop(&engine->filter, &input->frame->hash);
    return NM_DROP_LINK_IFACE;
  }
  note_signal(link, input->frame);
  return in_link(engine, link, input);
}

nm_drop nm_links_resource_proof(nm_engine *engine, nm_input *input) {
  nm_link *link = nm_link_find_id(engine, input->frame->packet.destination.ptr);
  if (link == NULL) {
    return NM_DROP_NO_LINK;
  }
  if (!link->has_key) {
    return NM_DROP_LINK_STATE;
  }
  if (input->iface->id != link->iface) {
    return NM_DROP_LINK_IFACE;
  }
  nm_link_heard(engine, link);
  return nm_transfer_proof(engine, link, input->frame->packet.payload);
}

/* ---- proofs ---- */

static void channel_proof_verified(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_active(engine, job->link);
  const nm_packet_hash *hash = &job->u.verify_proof.hash;
  nm_drop drop = NM_DROP_NONE;
  if (link == NULL || !nm_link_channel_awaits(link, hash)) {
    drop = NM_DROP_PROOF_UNKNOWN;
  } else if (job->status != NM_OK) {
    drop = NM_DROP_PROOF_SIGNATURE;
  } else {
    nm_links_proven(engine, link->ref);
    (void)nm_link_channel_proven(engine, link, hash);
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

static nm_drop channel_proof(nm_engine *engine, const nm_link *link,
                             nm_input *input, const nm_packet_hash *hash,
                             nm_span signature) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_VERIFY_PROOF, input, &drop);
  if (job == NULL) {
    return drop;
  }
  job->done = channel_proof_verified;
  job->link = link->ref;
  nm_job_verify_proof *j = &job->u.verify_proof;
  j->hash = *hash;
  memcpy(j->public_key, link->peer_ed25519, NM_KEY_SIZE);
  memcpy(j->signature, signature.ptr, NM_SIGNATURE_SIZE);
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* A channel keeps its own account of what awaits proofs. */
nm_drop nm_links_packet_proof(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  nm_link *link = nm_link_find_id(engine, p->destination.ptr);
  nm_packet_hash hash;
  nm_proof proof;
  if (link == NULL || nm_proof_parse(p->payload, true, &proof, NULL) != NM_OK) {
    return nm_receipts_proof(engine, input);
  }
  memcpy(hash.b, proof.packet_hash.ptr, sizeof(hash.b));
  return nm_link_channel_awaits(link, &hash)
             ? channel_proof(engine, link, input, &hash, proof.signature)
             : nm_receipts_proof(engine, input);
}

/* ---- decisions ---- */

int nm_links_decide(nm_engine *engine, nm_token_id id, bool accept) {
  nm_link_token *token = nm_link_token_find(engine, id);
  if (token == NULL) {
    return NM_E(STATE);
  }
  nm_link_token decided = *token;
  if (token->kind == NM_TOKEN_REQUEST && accept) {
    return NM_E(STATE); /* a request is accepted by answering it */
  }
  nm_link_token_drop(engine, token);
  switch (decided.kind) {
  case NM_TOKEN_PACKET:
    if (accept) {
      nm_link_prove(engine, decided.link, &decided.hash);
    }
    break;
  case NM_TOKEN_OFFER:
    nm_transfer_offer_decided(engine, decided.transfer, accept);
    break;
  case NM_TOKEN_RESOURCE:
    nm_transfer_held_decided(engine, decided.transfer, accept);
    break;
  case NM_TOKEN_REQUEST:
    break; /* no answer at all (RNS 2, 2.2) */
  }
  return NM_OK;
}
