/* Data for own destinations: opened, delivered, proven (RNS 1, 8.5 step 7,
 * 3.4, 4.8).
 */
#include "stack/internal.h"
#include "wire/proof.h"

#include <string.h>

#define HELD_MAX 4096

static void dispose_held(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_held_packet *held = (nm_held_packet *)(void *)entry;
  nm_block_drop(held->identity);
  nm_release(engine->mem, held);
}

int nm_held_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = HELD_MAX,
      .key_size = sizeof(nm_token_id),
      .key_offset = offsetof(nm_held_packet, token),
      .dispose = dispose_held,
  };
  return nm_engine_table(engine, &engine->locals.held, &config);
}

void nm_held_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->locals.held);
}

/* ---- proofs ---- */

static void proof_signed(nm_engine *engine, nm_job *job) {
  nm_iface *iface = nm_iface_find(engine, job->u.prove.iface);
  if (job->status == NM_OK && iface != NULL) {
    (void)nm_iface_send(engine, iface, nm_block_hold(job->u.prove.raw), 0);
  }
}

/* The proof leaves on the interface that the packet came in on (RNS 1,
 * 4.8). */
static int prove(nm_engine *engine, nm_block *identity,
                 const nm_packet_hash *hash, nm_iface_id iface) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_PROVE, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->done = proof_signed;
  job->u.prove.identity = nm_block_hold(identity);
  job->u.prove.hash = *hash;
  job->u.prove.implicit = engine->implicit_proofs;
  job->u.prove.iface = iface;
  nm_engine_submit(engine, job);
  return NM_OK;
}

/* Keeps what a later proof needs. 0: no memory, so it will not be proven. */
static nm_token_id hold(nm_engine *engine, const nm_local *local,
                        const nm_packet_hash *hash, nm_iface_id iface) {
  nm_held_packet *held = nm_alloc_zero(engine->mem, 1, sizeof(*held));
  if (held == NULL) {
    return 0;
  }
  held->token = nm_engine_new_token(engine);
  held->hash = *hash;
  held->iface = iface;
  held->identity = nm_block_hold(local->identity);
  if (nm_table_insert(&engine->locals.held, &held->link) != NM_OK) {
    dispose_held(engine, &held->link);
    return 0;
  }
  return held->token;
}

int nm_locals_decide(nm_engine *engine, nm_token_id token, bool accept) {
  nm_held_packet *held =
      (nm_held_packet *)(void *)nm_table_find(&engine->locals.held, &token);
  if (held == NULL) {
    return NM_E(STATE);
  }
  nm_table_remove(&engine->locals.held, &held->link);
  int status =
      accept ? prove(engine, held->identity, &held->hash, held->iface) : NM_OK;
  dispose_held(engine, &held->link);
  return status;
}

/* ---- delivery ---- */

/* What every delivery has, whatever its type. |frame| has the incremented
 * hops in its packet when it comes from a job. */
typedef struct delivery {
  nm_local *local;
  nm_iface_id iface;
  uint8_t hops;
  uint8_t context;
  const nm_frame *frame;
  const nm_packet_hash *hash;
  nm_block *data; /* taken over */
  ptrdiff_t ratchet;
} delivery;

static void deliver(nm_engine *engine, const delivery *d, nm_event_node *node) {
  nm_event *event = &node->event;
  *event = nm_engine_event_of(engine, NM_EVENT_PACKET);
  event->destination = d->local->hash;
  event->iface = d->iface;
  event->hops = d->hops;
  event->context = d->context;
  event->packet_hash = *d->hash;
  event->rssi_dbm = d->frame->rssi_dbm;
  event->snr_cdb = d->frame->snr_cdb;
  event->quality_pct = d->frame->quality_pct;
  event->data = d->data;
  if (d->ratchet >= 0) {
    nm_span ids = nm_block_span(d->local->ratchet_ids);
    nm_reader r = nm_reader_of(ids);
    (void)nm_reader_take(&r, (size_t)d->ratchet * NM_RATCHET_ID_SIZE);
    event->has_ratchet_id =
        nm_reader_copy(&r, event->ratchet_id, NM_RATCHET_ID_SIZE);
  }
  const nm_local *local = d->local;
  bool provable = local->type == NM_SINGLE && local->prove != NM_PROVE_NONE;
  if (provable && (local->prove == NM_PROVE_APP || local->hold)) {
    event->token = hold(engine, local, d->hash, d->iface);
  }
  nm_engine_emit(engine, node);
  if (provable && local->prove == NM_PROVE_ALL && !local->hold) {
    (void)prove(engine, local->identity, d->hash, d->iface);
  }
}

static void packet_opened(nm_engine *engine, nm_job *job) {
  nm_job_open_packet *j = &job->u.open_packet;
  nm_local *local = nm_local_find(engine, &job->destination);
  nm_drop drop = NM_DROP_NONE;
  if (local == NULL) {
    drop = NM_DROP_NO_DESTINATION;
  } else if (job->status != NM_OK) {
    drop = job->status == NM_E(MEMORY) ? NM_DROP_NO_MEMORY
           : j->enforce                ? NM_DROP_RATCHET_REQUIRED
                                       : NM_DROP_DECRYPT;
  }
  if (drop == NM_DROP_NONE) {
    delivery d = {.local = local,
                  .iface = job->origin,
                  .hops = job->frame.packet.hops,
                  .context = job->frame.packet.context,
                  .frame = &job->frame,
                  .hash = &job->frame.hash,
                  .data = nm_block_hold(j->plaintext),
                  .ratchet = j->opened_by};
    nm_event_node *node = job->node;
    job->node = NULL;
    deliver(engine, &d, node);
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

static nm_drop open_single(nm_engine *engine, nm_input *input,
                           nm_local *local) {
  nm_drop drop = NM_DROP_NONE;
  nm_event_node *node = nm_engine_reserve_event(engine, &drop);
  if (node == NULL) {
    return drop;
  }
  nm_job *job = nm_engine_new_job(engine, NM_JOB_OPEN_PACKET, input, &drop);
  if (job == NULL) {
    nm_eventq_unreserve(&engine->events, node);
    return drop;
  }
  job->node = node;
  job->done = packet_opened;
  job->destination = local->hash;
  job->frame.packet.context = input->frame->packet.context;
  nm_job_open_packet *j = &job->u.open_packet;
  j->identity = nm_block_hold(local->identity);
  j->ratchets =
      local->ratchet_keys == NULL ? NULL : nm_block_hold(local->ratchet_keys);
  j->enforce = local->enforce_ratchets;
  j->raw = nm_block_copy(engine->mem, input->frame->raw);
  if (j->raw == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* GROUP packets are small and their key is at hand, PLAIN ones are open. */
static nm_drop open_shared(nm_engine *engine, nm_input *input,
                           nm_local *local) {
  nm_span payload = input->frame->packet.payload;
  nm_drop drop = NM_DROP_NONE;
  nm_event_node *node = nm_engine_reserve_event(engine, &drop);
  nm_block *data = nm_block_new(engine->mem, payload.len);
  if (node == NULL || data == NULL) {
    if (node != NULL) {
      nm_eventq_unreserve(&engine->events, node);
      drop = NM_DROP_NO_MEMORY;
    }
    nm_block_drop(data);
    return drop;
  }
  size_t len = payload.len;
  int status = NM_OK;
  if (local->type == NM_GROUP) {
    status = nm_token_open(&engine->cipher, &local->group_key, payload,
                           nm_block_bytes(data), &len);
  } else {
    memcpy(nm_block_bytes(data), payload.ptr, payload.len);
  }
  if (status != NM_OK) {
    nm_eventq_unreserve(&engine->events, node);
    nm_block_drop(data);
    return NM_DROP_DECRYPT;
  }
  nm_block_trim(data, len);
  delivery d = {.local = local,
                .iface = input->iface->id,
                .hops = input->hops,
                .context = input->frame->packet.context,
                .frame = input->frame,
                .hash = &input->frame->hash,
                .data = data,
                .ratchet = NM_OPENED_BY_IDENTITY};
  deliver(engine, &d, node);
  return NM_DROP_NONE;
}

nm_drop nm_locals_data(nm_engine *engine, nm_input *input, nm_local *local) {
  if (local->paused) {
    engine->stats.held_for_credit++;
    return NM_DROP_NO_CREDIT;
  }
  return local->type == NM_SINGLE ? open_single(engine, input, local)
                                  : open_shared(engine, input, local);
}
