/* Receipts and the proofs that end them (RNS 1, 4.8, 4.9, 8.10.5).
 */
#include "stack/receipts.h"
#include "stack/internal.h"
#include "stack/snapshot.h"
#include "wire/proof.h"

#include <string.h>

static void free_receipt(nm_engine *engine, nm_receipt *receipt) {
  nm_timer_disarm(&engine->timers, &receipt->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_block_drop(receipt->proof);
  nm_release(engine->mem, receipt);
}

static int status_of(uint8_t state, nm_stage stage) {
  switch (state) {
  case NM_RECEIPT_DELIVERED:
    return NM_OK;
  case NM_RECEIPT_CULLED:
    return NM_E(LIMIT);
  default:
    return stage == NM_STAGE_CANCELLED ? NM_E(CANCELLED)
           : stage == NM_STAGE_PROOF   ? NM_E(TIMEOUT)
                                       : NM_E(STATE);
  }
}

/* Tells the end of an unlinked receipt and frees it. */
static void conclude(nm_engine *engine, nm_receipt *receipt, uint8_t state,
                     nm_stage stage) {
  nm_op *op = nm_op_find(&engine->ops, receipt->op);
  if (op != NULL) {
    nm_event event = nm_engine_event_of(engine, NM_EVENT_RECEIPT);
    event.state = state;
    event.stage = (uint8_t)stage;
    event.status = status_of(state, stage);
    event.destination = receipt->destination;
    event.link = receipt->on_link;
    event.packet_hash = receipt->hash;
    if (state == NM_RECEIPT_DELIVERED) {
      event.rtt_us = engine->now.mono_us - receipt->sent_us;
      event.data = nm_block_hold(receipt->proof);
    }
    nm_engine_end(engine, op, &event);
  }
  free_receipt(engine, receipt);
}

/* The table evicts its oldest entry only: that one is culled. */
static void cull(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  engine->stats.receipts_culled++;
  conclude(engine, (nm_receipt *)(void *)entry, NM_RECEIPT_CULLED,
           NM_STAGE_NONE);
}

int nm_receipts_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.receipts,
      .key_size = NM_ADDRESS_SIZE,
      .key_offset = offsetof(nm_receipt, hash),
      .dispose = cull,
  };
  return nm_engine_table(engine, &engine->receipts.table, &config);
}

void nm_receipts_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->receipts.table);
}

static nm_receipt *find_receipt(const nm_engine *engine,
                                const uint8_t *truncated) {
  return (nm_receipt *)(void *)nm_table_find(&engine->receipts.table,
                                             truncated);
}

void nm_receipt_end(nm_engine *engine, nm_receipt *receipt, uint8_t state,
                    nm_stage stage) {
  if (receipt->registered) {
    nm_table_remove(&engine->receipts.table, &receipt->link);
  }
  conclude(engine, receipt, state, stage);
}

static void timed_out(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_receipt *receipt =
      (nm_receipt *)(void *)((char *)timer - offsetof(nm_receipt, timer));
  nm_receipt_end(engine, receipt, NM_RECEIPT_FAILED, NM_STAGE_PROOF);
}

nm_receipt *nm_receipt_new(nm_engine *engine,
                           const nm_destination_hash *destination,
                           const uint8_t ed25519_public[NM_KEY_SIZE],
                           nm_link_ref on_link, uint64_t timeout_us) {
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_receipt *receipt = nm_alloc_zero(engine->mem, 1, sizeof(*receipt));
  nm_op *op = receipt == NULL
                  ? NULL
                  : nm_op_begin(&engine->ops, NM_OP_RECEIPT, receipt);
  if (op == NULL) {
    nm_release(engine->mem, receipt);
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  receipt->op = op->id;
  receipt->destination = *destination;
  receipt->on_link = on_link;
  receipt->timeout_us = timeout_us;
  receipt->timer.fire = timed_out;
  receipt->engine = engine;
  memcpy(receipt->ed25519_public, ed25519_public, NM_KEY_SIZE);
  return receipt;
}

int nm_receipt_register(nm_engine *engine, nm_receipt *receipt,
                        const nm_packet_hash *hash) {
  receipt->hash = *hash;
  int status = nm_table_insert(&engine->receipts.table, &receipt->link);
  if (status != NM_OK) {
    return status;
  }
  receipt->registered = true;
  receipt->sent_us = engine->now.mono_us;
  nm_engine_arm(engine, &receipt->timer, receipt->timeout_us);
  return NM_OK;
}

/* ---- proofs ---- */

static void proof_verified(nm_engine *engine, nm_job *job) {
  nm_receipt *receipt = find_receipt(engine, job->u.verify_proof.hash.b);
  nm_drop drop = NM_DROP_NONE;
  if (receipt == NULL || receipt->op != job->op) {
    drop = NM_DROP_PROOF_UNKNOWN;
  } else if (job->status != NM_OK) {
    drop = NM_DROP_PROOF_SIGNATURE;
  } else {
    if (receipt->proven != NULL) {
      receipt->proven(engine, receipt->on_link);
    }
    receipt->proof = nm_block_hold(job->u.verify_proof.raw);
    nm_receipt_end(engine, receipt, NM_RECEIPT_DELIVERED, NM_STAGE_NONE);
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

/* The receipt that a proof packet is for: an implicit one names it by its
 * address, an explicit one by the hash that it carries. */
static nm_receipt *receipt_for(nm_engine *engine, const nm_packet *p,
                               const nm_proof *proof) {
  if (p->destination_type != NM_LINK) {
    return find_receipt(engine, p->destination.ptr);
  }
  nm_receipt *receipt = find_receipt(engine, proof->packet_hash.ptr);
  return receipt != NULL && receipt->on_link != 0 &&
                 memcmp(receipt->link_id.b, p->destination.ptr,
                        NM_ADDRESS_SIZE) == 0
             ? receipt
             : NULL;
}

nm_drop nm_receipts_proof(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  bool on_link = p->destination_type == NM_LINK;
  nm_proof proof;
  if (nm_proof_parse(p->payload, on_link, &proof, NULL) != NM_OK) {
    return NM_DROP_PROOF_LENGTH;
  }
  nm_receipt *receipt = receipt_for(engine, p, &proof);
  nm_span expected =
      nm_span_of(receipt == NULL ? NULL : receipt->hash.b, NM_HASH_SIZE);
  if (receipt == NULL || (proof.packet_hash.len > 0 &&
                          !nm_span_equal(proof.packet_hash, expected))) {
    return NM_DROP_PROOF_UNKNOWN;
  }
  if ((receipt->on_link != 0) != on_link) {
    return NM_DROP_PROOF_UNKNOWN;
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_VERIFY_PROOF, input, &drop);
  if (job == NULL) {
    return drop;
  }
  job->done = proof_verified;
  job->op = receipt->op;
  nm_job_verify_proof *j = &job->u.verify_proof;
  j->raw = nm_block_copy(engine->mem, input->frame->raw);
  if (j->raw == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  j->hash = receipt->hash;
  memcpy(j->public_key, receipt->ed25519_public, NM_KEY_SIZE);
  memcpy(j->signature, proof.signature.ptr, NM_SIGNATURE_SIZE);
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* ---- send.h ---- */

int nm_engine_receipt_timeout(nm_engine *engine, nm_op_id id,
                              uint64_t timeout_us, nm_now now) {
  engine->now = now;
  const nm_op *op = nm_op_find(&engine->ops, id);
  if (op == NULL || op->kind != NM_OP_RECEIPT) {
    return NM_E(MISSING);
  }
  nm_receipt *receipt = op->owner;
  receipt->timeout_us = timeout_us;
  if (receipt->registered) {
    uint64_t waited = now.mono_us - receipt->sent_us;
    nm_engine_arm(engine, &receipt->timer,
                  timeout_us > waited ? timeout_us - waited : 0);
  }
  return NM_OK;
}

/* ---- the rest of the room ---- */

void nm_receipts_op_sent(nm_engine *engine, nm_op *op, bool ok) {
  if (!ok) {
    nm_receipt_end(engine, op->owner, NM_RECEIPT_FAILED, NM_STAGE_SEND);
  }
}

void nm_receipts_op_cancel(nm_engine *engine, nm_op *op) {
  nm_receipt_end(engine, op->owner, NM_RECEIPT_FAILED, NM_STAGE_CANCELLED);
}

static nm_receipt *next_receipt(const nm_engine *engine,
                                const nm_receipt *receipt) {
  const nm_table_link *link = receipt == NULL ? NULL : &receipt->link;
  return (nm_receipt *)(void *)nm_table_next(&engine->receipts.table, link);
}

void nm_receipts_link_closed(nm_engine *engine, nm_link_ref link) {
  nm_receipt *receipt = next_receipt(engine, NULL);
  while (receipt != NULL) {
    nm_receipt *next = next_receipt(engine, receipt);
    if (receipt->on_link == link) {
      nm_receipt_end(engine, receipt, NM_RECEIPT_FAILED, NM_STAGE_LINK);
    }
    receipt = next;
  }
}

bool nm_engine_receipt_next(const nm_engine *engine,
                            const nm_packet_hash *after,
                            nm_receipt_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_receipt *at = after == NULL ? NULL : find_receipt(engine, after->b);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = next_receipt(engine, at);
  if (at == NULL) {
    return false;
  }
  record->hash = at->hash;
  record->destination = at->destination;
  record->link = at->on_link;
  record->op = at->op;
  record->state = NM_RECEIPT_SENT;
  record->sent_mono_us = at->sent_us;
  record->sent_unix_us =
      engine->now.unix_us + (int64_t)(at->sent_us - engine->now.mono_us);
  record->timeout_us = at->timeout_us;
  return true;
}
