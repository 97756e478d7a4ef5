/* What every state machine of the engine uses: events, jobs, verdicts.
 */
#include "stack/internal.h"

#include <string.h>

const nm_identity *nm_engine_identity(const nm_engine *engine) {
  return nm_identity_in(engine->identity);
}

nm_block *nm_engine_pack(nm_engine *engine, const nm_packet *packet,
                         nm_packet_role role, size_t mtu) {
  size_t size = nm_packet_size(packet);
  nm_block *raw = nm_block_new(engine->mem, size);
  size_t len = 0;
  if (raw != NULL && nm_packet_pack(packet, role, mtu, nm_block_bytes(raw),
                                    size, &len, NULL) != NM_OK) {
    nm_block_drop(raw);
    return NULL;
  }
  return raw;
}

nm_token_id nm_engine_new_token(nm_engine *engine) {
  return engine->next_token++;
}

nm_event nm_engine_event_of(const nm_engine *engine, nm_event_kind kind) {
  nm_event event = {.kind = kind,
                    .at = engine->now,
                    .rssi_dbm = NM_SIGNAL_NONE,
                    .snr_cdb = NM_SIGNAL_NONE,
                    .quality_pct = NM_SIGNAL_NONE};
  return event;
}

static void record_event(nm_engine *engine, const nm_event *event) {
  nm_record *record = nm_flight_add(engine, NM_RECORD_EVENT, event->iface,
                                    (uint8_t)event->kind);
  memcpy(record->destination, event->destination.b, NM_ADDRESS_SIZE);
  record->hash = event->packet_hash;
}

void nm_engine_emit_lossy(nm_engine *engine, nm_event *event) {
  record_event(engine, event);
  nm_eventq_lossy(&engine->events, event);
}

void nm_engine_emit(nm_engine *engine, nm_event_node *node) {
  record_event(engine, &node->event);
  nm_eventq_commit(&engine->events, node);
}

void nm_engine_emit_entry(nm_engine *engine, nm_event_entry *entry,
                          nm_event_kind kind, nm_iface_id iface,
                          const nm_destination_hash *destination) {
  nm_record *record =
      nm_flight_add(engine, NM_RECORD_EVENT, iface, (uint8_t)kind);
  memcpy(record->destination, destination->b, NM_ADDRESS_SIZE);
  nm_eventq_append(&engine->events, entry);
}

void nm_engine_end(nm_engine *engine, nm_op *op, nm_event *event) {
  record_event(engine, event);
  nm_op_end(&engine->ops, &engine->events, op, event);
}

bool nm_engine_take_credit(nm_engine *engine) {
  bool taken = nm_eventq_take_credit(&engine->events);
  engine->stats.held_for_credit += !taken;
  return taken;
}

nm_event_node *nm_engine_reserve_event(nm_engine *engine, nm_drop *drop) {
  int status = NM_OK;
  nm_event_node *node = nm_eventq_reserve(&engine->events, &status);
  if (node == NULL) {
    *drop = status == NM_E(LIMIT) ? NM_DROP_NO_CREDIT : NM_DROP_NO_MEMORY;
    engine->stats.held_for_credit += status == NM_E(LIMIT);
  }
  return node;
}

/* ---- jobs ---- */

/* Whether the class of a new job has room (RNS 1, 8.5.2). */
static nm_drop room_for_job(const nm_engine *engine, nm_job_kind kind,
                            const nm_input *input) {
  const nm_jobs *jobs = &engine->jobs;
  const nm_limits *limits = &engine->limits;
  if (kind == NM_JOB_VERIFY_ANNOUNCE) {
    bool share = input != NULL &&
                 input->iface->announces >= limits->announce_jobs_per_iface;
    return engine->announces >= limits->announce_jobs ? NM_DROP_ANNOUNCES_FULL
           : share                                    ? NM_DROP_ANNOUNCES_SHARE
                                                      : NM_DROP_NONE;
  }
  bool share = input != NULL && input->iface->jobs >= limits->jobs_per_iface;
  return jobs->outstanding >= jobs->max ? NM_DROP_JOBS_FULL
         : share                        ? NM_DROP_JOBS_SHARE
                                        : NM_DROP_NONE;
}

nm_job *nm_engine_new_job(nm_engine *engine, nm_job_kind kind, nm_input *input,
                          nm_drop *drop) {
  *drop = room_for_job(engine, kind, input);
  nm_job *job = *drop == NM_DROP_NONE ? nm_job_new(&engine->jobs, kind) : NULL;
  if (job == NULL) {
    *drop = *drop == NM_DROP_NONE ? NM_DROP_NO_MEMORY : *drop;
    engine->stats.jobs_dropped++;
    return NULL;
  }
  if (input != NULL) {
    job->origin = input->iface->id;
    job->seq = input->seq;
    job->frame = *input->frame;
    job->frame.raw = nm_span_of(NULL, 0);
    job->frame.packet = (nm_packet){.hops = input->hops};
  }
  return job;
}

void nm_engine_count_job(nm_engine *engine, const nm_job *job, int more) {
  nm_iface *iface = nm_iface_find(engine, job->origin);
  bool announce = job->kind == NM_JOB_VERIFY_ANNOUNCE;
  if (announce) {
    engine->announces += (uint32_t)more;
  }
  if (iface != NULL) {
    *(announce ? &iface->announces : &iface->jobs) += (uint32_t)more;
  }
}

void nm_engine_submit(nm_engine *engine, nm_job *job) {
  nm_engine_count_job(engine, job, 1);
  engine->stats.jobs_emitted++;
  nm_flight_add(engine, NM_RECORD_JOB, job->origin, (uint8_t)job->kind);
  nm_jobs_push(&engine->jobs, job);
}

void nm_engine_scrap_job(nm_engine *engine, nm_job *job) {
  if (job->node != NULL) {
    nm_eventq_unreserve(&engine->events, job->node);
    job->node = NULL;
  }
  nm_job_free(job);
}

/* ---- verdicts ---- */

void nm_engine_count_drop(nm_engine *engine, nm_iface *iface, nm_drop reason) {
  engine->stats.drops[reason]++;
  if (iface != NULL) {
    nm_iface_count_drop(engine, iface, reason);
  }
}

/* Rules of a packet's peer that it broke, for the operator (RNS 1, 8.15). */
static bool is_violation(nm_drop reason) {
  switch (reason) {
  case NM_DROP_OVERSIZE:
  case NM_DROP_MALFORMED:
  case NM_DROP_HOPS:
  case NM_DROP_EMPTY:
  case NM_DROP_ANNOUNCE_SIZE:
  case NM_DROP_ANNOUNCE_MALFORMED:
  case NM_DROP_ANNOUNCE_SIGNATURE:
  case NM_DROP_ANNOUNCE_DESTINATION:
  case NM_DROP_LINK_REQUEST_MALFORMED:
  case NM_DROP_LINK_PROOF_MALFORMED:
  case NM_DROP_LINK_PROOF_SIGNATURE:
  case NM_DROP_LINK_PAYLOAD:
  case NM_DROP_RESOURCE_MALFORMED:
  case NM_DROP_PATH_REQUEST_MALFORMED:
  case NM_DROP_PATH_REQUEST_TAGLESS:
  case NM_DROP_LINK_UNPROVEN:
  case NM_DROP_TUNNEL_SIGNATURE:
    return true;
  default:
    return false;
  }
}

/* Dropped for want of room, not for what it is: its repetition is welcome. */
static bool is_pressure(nm_drop reason) {
  return reason == NM_DROP_NO_CREDIT || reason == NM_DROP_JOBS_FULL ||
         reason == NM_DROP_JOBS_SHARE || reason == NM_DROP_NO_MEMORY ||
         reason == NM_DROP_ANNOUNCES_FULL || reason == NM_DROP_ANNOUNCES_SHARE;
}

void nm_engine_settle(nm_engine *engine, nm_iface_id iface, nm_input_seq seq,
                      const nm_packet_hash *hash, nm_drop reason) {
  nm_record *record = nm_flight_find(engine, seq);
  if (record != NULL) {
    record->code = (uint8_t)reason;
    record->flags &= (uint8_t)~NM_RECORD_PENDING;
  }
  if (reason == NM_DROP_NONE) {
    engine->stats.accepted++;
    return;
  }
  nm_iface *from = nm_iface_find(engine, iface);
  nm_engine_count_drop(engine, from, reason);
  engine->stats.dropped++;
  if (from != NULL && is_violation(reason)) {
    from->tally.violations++;
  }
  if (is_pressure(reason)) {
    nm_filter_drop(&engine->filter, hash);
  }
}
