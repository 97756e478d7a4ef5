/* Resources on their way out (RNS 2, 3): segment by segment sealed by a job,
 * advertised, served part by part as the receiver asks, proven. While one
 * segment is under way the next one is prepared.
 */
#include "stack/link_state.h"
#include "wire/decisions.h"

#include <string.h>

#define SERVE_MAX NM_RESOURCE_GUARD
#define QUEUE_MAX 1024
/* A segment at least this long measures the link's rate. */
#define RATE_BYTES_MIN 2048

/* ---- the end ---- */

static int status_of(nm_resource_state state, nm_stage stage) {
  if (state == NM_RESOURCE_COMPLETE) {
    return NM_OK;
  }
  if (stage == NM_STAGE_CANCELLED) {
    return NM_E(CANCELLED);
  }
  return state == NM_RESOURCE_REJECTED ? NM_E(VALUE)
         : stage == NM_STAGE_LINK      ? NM_E(STATE)
                                       : NM_E(TIMEOUT);
}

uint64_t nm_transfer_out_done(const nm_transfer_out *t) {
  uint64_t size = t->base + t->plan.data_size;
  if (t->state == NM_RESOURCE_COMPLETE) {
    return size;
  }
  uint64_t done = t->base + t->proven;
  if (t->current.ready && t->server.parts > 0) {
    done += t->current.content * t->server.sent / t->server.parts;
  }
  /* All of it only after the proof. */
  return done >= size && size > 0 ? size - 1 : done;
}

static nm_event transfer_event(const nm_transfer_out *t, nm_event_kind kind) {
  nm_event event = nm_link_event(t->link, kind);
  event.state = (uint8_t)t->state;
  memcpy(event.packet_hash.b, t->original, NM_HASH_SIZE);
  event.total_bytes = t->base + t->plan.data_size;
  event.wire_bytes = t->wire_bytes;
  event.done_bytes = nm_transfer_out_done(t);
  return event;
}

static void drop_segment(nm_out_segment *segment) {
  nm_block_drop(segment->stream);
  nm_block_drop(segment->hashmap);
  memset(segment, 0, sizeof(*segment));
}

static void free_transfer(nm_engine *engine, nm_transfer_out *t) {
  nm_timer_disarm(&engine->timers, &t->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_block_drop(t->content);
  nm_source_drop(t->source);
  nm_block_drop(t->metadata);
  drop_segment(&t->current);
  drop_segment(&t->ahead);
  nm_block_drop(t->sent_map);
  nm_release(engine->mem, t);
}

static void unlink_transfer(nm_transfer_out *t) {
  nm_transfer_out **at = &t->link->transfers_out;
  while (*at != t) {
    at = &(*at)->next;
  }
  *at = t->next;
  t->link->transfers_out_count--;
}

static void begin_next(nm_engine *engine, nm_link *link);

/* Upstream proves a segment before it has taken it off its list. A part of the
 * next one that comes in between may be passed over, and is asked for again
 * only a quarter of a second later; and the segment before is taken for
 * unfinished again. So a near peer that answers as slowly as a program in
 * Python gets time for that. */
#define SLOW_ANSWER_US 300u
#define NEAR_US 10000u
#define PAUSE_ANSWERS 8u
#define PAUSE_ANSWERS_INSIDE 4u /* no program is told between segments */
#define PAUSE_MIN_US 5000u
#define PAUSE_MAX_US 30000u

static void pause_after(const nm_engine *engine, nm_link *link,
                        uint64_t answers) {
  uint64_t answer = link->learned->out_answer_us;
  if (answer < SLOW_ANSWER_US || answer > NEAR_US) {
    return;
  }
  uint64_t pause = answer * answers;
  pause = pause < PAUSE_MIN_US ? PAUSE_MIN_US : pause;
  pause = pause > PAUSE_MAX_US ? PAUSE_MAX_US : pause;
  link->learned->out_pause_until = engine->now.mono_us + pause;
}

/* How fast the peer answers, at its best. */
static void note_answer(nm_link *link, uint64_t answer_us) {
  nm_link_learned *learned = link->learned;
  if (learned->out_answer_us == 0 || answer_us < learned->out_answer_us) {
    learned->out_answer_us = answer_us == 0 ? 1 : answer_us;
  }
}

/* The time from the advertisement to its first request. After a repeat it may
 * be the answer to an earlier one, late by what waits on a slow medium:
 * time-outs then believe at least in what the handshake took. */
static void note_round_trip(const nm_engine *engine, nm_transfer_out *t) {
  nm_link *link = t->link;
  t->rtt_us = engine->now.mono_us - t->advertised_us;
  if (t->retries == NM_RESOURCE_ADV_RETRIES) {
    note_answer(link, t->rtt_us);
  } else if (t->rtt_us < link->rtt_us) {
    t->rtt_us = link->rtt_us;
  }
}

/* Every state leads here at most once, and nowhere from here. */
static void finish_with(nm_engine *engine, nm_transfer_out *t,
                        nm_resource_state state, int status, nm_stage stage) {
  nm_link *link = t->link;
  t->state = state;
  unlink_transfer(t);
  nm_op *op = t->op == 0 ? NULL : nm_op_find(&engine->ops, t->op);
  if (op != NULL) {
    nm_event event = transfer_event(t, NM_EVENT_RESOURCE_OUT);
    event.status = status;
    event.stage = (uint8_t)stage;
    nm_engine_end(engine, op, &event);
  }
  nm_transfer_out gone = *t;
  free_transfer(engine, t);
  if (gone.done != NULL) {
    gone.done(engine, gone.owner, state == NM_RESOURCE_COMPLETE,
              stage == NM_STAGE_NONE ? NM_STAGE_TRANSFER : stage);
  }
  begin_next(engine, link);
}

static void finish(nm_engine *engine, nm_transfer_out *t,
                   nm_resource_state state, nm_stage stage) {
  finish_with(engine, t, state, status_of(state, stage), stage);
}

/* Names what the peer heard of last: between two segments that is the one that
 * it has proven. */
static void send_cancel(nm_engine *engine, const nm_transfer_out *t) {
  if (t->has_told && t->link->has_key) {
    (void)nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE_ICL,
                       nm_span_of(t->told, NM_HASH_SIZE), NULL);
  }
}

/* ---- sealing and advertising ---- */

static int advertise(nm_engine *engine, nm_transfer_out *t) {
  nm_resource_announce what = {
      .data_size = t->plan.total_size,
      .segment = t->current.index,
      .segments = t->plan.segments,
      .original = nm_span_of(t->original, NM_HASH_SIZE),
      .is_request = t->is_request,
      .is_response = t->is_response,
      .has_metadata = t->metadata != NULL,
      /* Small content looks as upstream's until the peer is known. */
      .extended =
          t->plan.segments > 1 || t->answered || t->link->learned->takes_zstd,
  };
  if (t->has_request_id) {
    what.request_id = nm_span_of(t->request_id, NM_ADDRESS_SIZE);
  }
  nm_resource_adv adv;
  nm_resource_adv_of(&t->current.sealed, &what, &adv);
  uint8_t payload[512];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  int status = nm_resource_adv_encode(&adv, &w);
  if (status == NM_OK) {
    t->advertised_us = engine->now.mono_us;
    double rtt = nm_seconds(t->link->rtt_us);
    uint64_t wait = t->timeout_us != 0 ? t->timeout_us
                                       : nm_us(nm_resource_adv_timeout(rtt));
    nm_engine_arm(engine, &t->timer, wait);
    status = nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE_ADV,
                          nm_writer_done(&w), NULL);
  }
  return status;
}

/* Bytes a second that the link carries: as the last segment measured it, else
 * by what it probably carries, a window of packets in a round trip. */
static double link_rate(const nm_engine *engine, const nm_link *link) {
  if (link->learned->out_rate > 0) {
    return link->learned->out_rate;
  }
  const nm_iface *iface = nm_iface_find(engine, link->iface);
  double rtt = nm_seconds(link->rtt_us == 0 ? 1 : link->rtt_us);
  double by_window = NM_RESOURCE_WINDOW_MAX_SLOW * (double)link->mtu / rtt;
  double by_bitrate = iface == NULL ? 0 : nm_iface_bitrate(iface) / 8;
  return by_bitrate > by_window ? by_bitrate : by_window;
}

static void sealed(nm_engine *engine, nm_job *job);

/* What is only encrypted and hashed takes little; compression, and reading a
 * file, may take long. */
static uint32_t cost_us(const nm_transfer_out *t, uint64_t size) {
  bool light = t->source == NULL && t->compression == NM_RESOURCE_COMPRESS_OFF;
  return (uint32_t)(light ? 15 + size / 450 : 100 + size / 200);
}

/* Has segment |index| sealed into |segment|. */
static int seal(nm_engine *engine, nm_transfer_out *t, nm_out_segment *segment,
                uint64_t index) {
  uint64_t offset;
  nm_drop drop;
  int status =
      nm_resource_plan_segment(&t->plan, index, &offset, &segment->content);
  if (status != NM_OK) {
    return status;
  }
  nm_job *job = nm_engine_new_job(engine, NM_JOB_RESOURCE_SEAL, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->done = sealed;
  job->link = t->link->ref;
  job->token = t->serial;
  job->cost_us = cost_us(t, segment->content);
  nm_job_resource_seal *j = &job->u.resource_seal;
  j->content = t->content == NULL ? NULL : nm_block_hold(t->content);
  j->source = t->source == NULL ? NULL : nm_source_hold(t->source);
  j->offset = t->base + offset;
  j->length = segment->content;
  j->total = t->plan.data_size;
  j->metadata =
      t->metadata == NULL || index > 1 ? NULL : nm_block_hold(t->metadata);
  j->compression = t->compression;
  j->rate = link_rate(engine, t->link);
  j->zstd = t->link->learned->takes_zstd;
  j->index = index;
  j->sdu = nm_resource_sdu(t->link->mtu);
  j->key = t->link->key;
  if (nm_engine_random(engine, j->iv, sizeof(j->iv)) != NM_OK ||
      nm_engine_random(engine, j->prefix, sizeof(j->prefix)) != NM_OK ||
      nm_engine_random(engine, j->randoms, sizeof(j->randoms)) != NM_OK) {
    nm_engine_scrap_job(engine, job);
    return NM_E(LIBRARY);
  }
  segment->index = index;
  segment->ready = false;
  nm_engine_submit(engine, job);
  return NM_OK;
}

/* The segment after the one under way, while there is time. */
static void prepare_ahead(nm_engine *engine, nm_transfer_out *t) {
  if (t->ahead.index == 0 && t->current.index < t->plan.segments &&
      seal(engine, t, &t->ahead, t->current.index + 1) != NM_OK) {
    t->ahead.index = 0; /* it is tried again when its turn has come */
  }
}

/* Ready to serve before the advertisement leaves (RNS 2, 3.14, start race). */
static int present(nm_engine *engine, nm_transfer_out *t) {
  const nm_resource_segment *sealed_now = &t->current.sealed;
  size_t size = nm_resource_sent_size(sealed_now->parts);
  nm_block_drop(t->sent_map);
  t->sent_map = nm_block_new(engine->mem, size);
  if (t->sent_map == NULL) {
    return NM_E(MEMORY);
  }
  nm_mspan map = {nm_block_bytes(t->sent_map), size};
  int status = nm_resource_server_init(&t->server, sealed_now->stream,
                                       sealed_now->hashmap, sealed_now->sdu,
                                       sealed_now->hash, map);
  if (status != NM_OK) {
    return status;
  }
  if (t->current.index == 1 && !t->answered) {
    memcpy(t->original, sealed_now->hash, NM_HASH_SIZE);
  }
  memcpy(t->told, sealed_now->hash, NM_HASH_SIZE);
  t->has_told = true;
  t->state = NM_RESOURCE_ADVERTISED;
  t->retries = NM_RESOURCE_ADV_RETRIES;
  status = advertise(engine, t);
  if (status == NM_OK) {
    prepare_ahead(engine, t);
  }
  return status;
}

/* At once, or when the peer had its pause after the segment before. */
static int present_in_time(nm_engine *engine, nm_transfer_out *t) {
  uint64_t now = engine->now.mono_us;
  t->pauses = now < t->link->learned->out_pause_until;
  if (!t->pauses) {
    return present(engine, t);
  }
  nm_engine_arm(engine, &t->timer, t->link->learned->out_pause_until - now);
  return NM_OK;
}

static nm_transfer_out *transfer_of_job(nm_engine *engine, const nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_transfer_out *t = link == NULL ? NULL : link->transfers_out;
  return t != NULL && t->serial == job->token ? t : NULL;
}

static nm_stage stage_of(int status) {
  return status == NM_E(STORE) || status == NM_E(TRUNCATED) ? NM_STAGE_STORE
                                                            : NM_STAGE_TRANSFER;
}

static void sealed(nm_engine *engine, nm_job *job) {
  nm_transfer_out *t = transfer_of_job(engine, job);
  nm_job_resource_seal *j = &job->u.resource_seal;
  if (t == NULL) {
    return; /* cancelled meanwhile */
  }
  bool ahead = j->index != t->current.index;
  nm_out_segment *segment = ahead ? &t->ahead : &t->current;
  int status = job->status;
  if (status == NM_OK) {
    segment->stream = nm_block_hold(j->stream);
    segment->hashmap = nm_block_hold(j->hashmap);
    segment->sealed = j->segment;
    segment->ready = true;
    status = ahead ? NM_OK : present_in_time(engine, t);
  }
  if (status != NM_OK) {
    send_cancel(engine, t);
    finish_with(engine, t, NM_RESOURCE_FAILED, status, stage_of(status));
  }
}

/* The segment under way is proven: the next one's turn. */
static void advance(nm_engine *engine, nm_transfer_out *t) {
  uint64_t next = t->current.index + 1;
  t->proven += t->current.content;
  drop_segment(&t->current);
  memset(&t->server, 0, sizeof(t->server));
  t->current = t->ahead;
  memset(&t->ahead, 0, sizeof(t->ahead));
  t->state = NM_RESOURCE_TRANSFERRING;
  nm_timer_disarm(&engine->timers, &t->timer);
  int status = t->current.index == 0 ? seal(engine, t, &t->current, next)
               : t->current.ready    ? present_in_time(engine, t)
                                     : NM_OK;
  if (status != NM_OK) {
    send_cancel(engine, t);
    finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
  }
}

void nm_transfer_out_restart(nm_engine *engine, nm_transfer_out *t,
                             uint64_t base) {
  nm_resource_plan plan;
  int status = nm_resource_plan_make(t->base + t->plan.data_size - base,
                                     t->plan.metadata_size, &plan);
  t->serial =
      nm_engine_new_token(engine); /* what is being sealed is not used */
  drop_segment(&t->current);
  drop_segment(&t->ahead);
  nm_timer_disarm(&engine->timers, &t->timer);
  t->pauses = false;
  t->state = NM_RESOURCE_QUEUED;
  t->plan = plan;
  t->base = base;
  if (status == NM_OK) {
    status = seal(engine, t, &t->current, 1);
  }
  if (status != NM_OK) {
    send_cancel(engine, t);
    finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
  }
}

/* One resource per link at a time (RNS 2, 3.7). */
static void begin_next(nm_engine *engine, nm_link *link) {
  nm_transfer_out *t = link->transfers_out;
  if (t == NULL || t->state != NM_RESOURCE_QUEUED || t->current.index != 0 ||
      !link->has_key || link->state == NM_LINK_CLOSED) {
    return;
  }
  if (seal(engine, t, &t->current, 1) != NM_OK) {
    finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
  }
}

/* ---- starting ---- */

static nm_block *metadata_block(nm_engine *engine, nm_span packed) {
  size_t size = NM_RESOURCE_METADATA_HEADER + packed.len;
  nm_block *block = nm_block_new(engine->mem, size);
  if (block == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(block), size);
  if (nm_resource_metadata_encode(packed, &w) != NM_OK) {
    nm_block_drop(block);
    return NULL;
  }
  return block;
}

static void time_over(void *user, nm_timer *timer);

static nm_transfer_out *new_transfer(nm_engine *engine, nm_link *link,
                                     const nm_transfer_spec *spec) {
  if (nm_link_learns(engine, link) != NM_OK ||
      nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_transfer_out *t = nm_alloc_zero(engine->mem, 1, sizeof(*t));
  nm_block *metadata = t == NULL || spec->metadata.len == 0
                           ? NULL
                           : metadata_block(engine, spec->metadata);
  if (t == NULL || (spec->metadata.len > 0 && metadata == NULL)) {
    nm_release(engine->mem, t);
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  t->link = link;
  t->serial = nm_engine_new_token(engine);
  t->state = NM_RESOURCE_QUEUED;
  t->content = spec->content == NULL ? NULL : nm_block_hold(spec->content);
  t->source = spec->source == NULL ? NULL : nm_source_hold(spec->source);
  t->metadata = metadata;
  t->compression = spec->compression;
  t->timeout_us = spec->timeout_us;
  t->is_request = spec->is_request;
  t->is_response = spec->is_response;
  t->owner = spec->owner;
  t->done = spec->done;
  t->timer.fire = time_over;
  if (spec->request_id != NULL) {
    t->has_request_id = true;
    memcpy(t->request_id, spec->request_id, NM_ADDRESS_SIZE);
  }
  return t;
}

int nm_transfer_start(nm_engine *engine, nm_link *link,
                      const nm_transfer_spec *spec, nm_op_id *op_id) {
  size_t metadata = spec->metadata.len == 0
                        ? 0
                        : spec->metadata.len + NM_RESOURCE_METADATA_HEADER;
  uint64_t size = spec->source != NULL ? spec->source->size
                                       : nm_block_span(spec->content).len;
  nm_resource_plan plan;
  int status = nm_resource_plan_make(size, metadata, &plan);
  if (status != NM_OK) {
    return status;
  }
  if (link->transfers_out_count >= QUEUE_MAX) {
    return NM_E(LIMIT);
  }
  nm_transfer_out *t = new_transfer(engine, link, spec);
  if (t == NULL) {
    return NM_E(MEMORY);
  }
  t->plan = plan;
  if (op_id != NULL) {
    nm_op *op = nm_op_begin(&engine->ops, NM_OP_RESOURCE_OUT, t);
    if (op == NULL) {
      free_transfer(engine, t);
      return NM_E(MEMORY);
    }
    t->op = op->id;
    *op_id = op->id;
  }
  nm_transfer_out **at = &link->transfers_out;
  while (*at != NULL) {
    at = &(*at)->next;
  }
  *at = t;
  link->transfers_out_count++;
  begin_next(engine, link);
  return NM_OK;
}

static int send_spec(nm_engine *engine, nm_link_ref ref,
                     const nm_transfer_spec *spec, nm_op_id *op, nm_now now) {
  engine->now = now;
  *op = 0;
  nm_link *link = nm_link_active(engine, ref);
  return link == NULL ? NM_E(STATE) : nm_transfer_start(engine, link, spec, op);
}

int nm_engine_resource_send(nm_engine *engine, nm_link_ref ref,
                            nm_block *content, nm_span metadata,
                            nm_resource_compression compression,
                            uint64_t timeout_us, nm_op_id *op, nm_now now) {
  nm_transfer_spec spec = {.content = content,
                           .metadata = metadata,
                           .compression = compression,
                           .timeout_us = timeout_us};
  return send_spec(engine, ref, &spec, op, now);
}

int nm_engine_resource_send_from(nm_engine *engine, nm_link_ref ref,
                                 nm_source *source, nm_span metadata,
                                 nm_resource_compression compression,
                                 uint64_t timeout_us, nm_op_id *op,
                                 nm_now now) {
  nm_transfer_spec spec = {.source = source,
                           .metadata = metadata,
                           .compression = compression,
                           .timeout_us = timeout_us};
  return send_spec(engine, ref, &spec, op, now);
}

/* ---- serving ---- */

static void report(nm_engine *engine, const nm_transfer_out *t) {
  if (t->op != 0) {
    nm_event event = transfer_event(t, NM_EVENT_PROGRESS);
    event.op = t->op;
    nm_engine_emit_lossy(engine, &event);
  }
}

/* What the link carries: all that was asked for before is there by now. Short
 * stretches say little about it. */
static void note_rate(const nm_engine *engine, const nm_transfer_out *t) {
  uint64_t us = engine->now.mono_us - t->started_us;
  if (us > 0 && t->segment_bytes >= RATE_BYTES_MIN) {
    t->link->learned->out_rate = (double)t->segment_bytes / nm_seconds(us);
  }
}

static void send_hashmap(nm_engine *engine, nm_transfer_out *t,
                         uint32_t segment) {
  nm_resource_hmu hmu = {
      .hash = nm_span_of(t->current.sealed.hash, NM_HASH_SIZE),
      .segment = segment,
      .hashmap = nm_resource_hmu_slice(t->current.sealed.hashmap, segment)};
  uint8_t payload[NM_LINK_MDU];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  if (nm_resource_hmu_encode(&hmu, &w) == NM_OK) {
    (void)nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE_HMU,
                       nm_writer_done(&w), NULL);
  }
}

static void send_parts(nm_engine *engine, nm_transfer_out *t,
                       const nm_resource_tx *tx, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE,
                     nm_span_of(tx[i].ptr, tx[i].len), NULL) == NM_OK) {
      t->wire_bytes += tx[i].len;
      t->segment_bytes += tx[i].len;
    }
  }
}

static void after_serving(nm_engine *engine, nm_transfer_out *t,
                          const nm_resource_answer *answer) {
  double rtt = nm_seconds(t->rtt_us);
  if (answer->all_sent) {
    t->state = NM_RESOURCE_AWAITING_PROOF;
    t->retries = NM_RESOURCE_PROOF_RETRIES;
    nm_engine_arm(engine, &t->timer, nm_us(nm_resource_proof_timeout(rtt)));
  } else {
    t->state = NM_RESOURCE_TRANSFERRING;
    t->retries = NM_RESOURCE_RETRIES;
    nm_engine_arm(engine, &t->timer, nm_us(nm_resource_send_timeout(rtt)));
  }
  report(engine, t);
}

nm_transfer_out *nm_transfer_out_asked(const nm_link *link) {
  nm_transfer_out *t = link->transfers_out;
  return t != NULL && t->current.ready && t->state != NM_RESOURCE_QUEUED ? t
                                                                         : NULL;
}

nm_drop nm_transfer_request(nm_engine *engine, nm_link *link, nm_span plaintext,
                            const nm_packet_hash *hash) {
  nm_transfer_out *t = nm_transfer_out_asked(link);
  if (t == NULL) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  if (memcmp(t->last_request.b, hash->b, NM_HASH_SIZE) == 0) {
    return NM_DROP_DUPLICATE;
  }
  nm_resource_tx tx[SERVE_MAX];
  nm_resource_answer answer;
  nm_fault fault = {0};
  int status =
      nm_resource_serve(&t->server, plaintext, tx, SERVE_MAX, &answer, &fault);
  if (status == NM_E(MISMATCH) &&
      strcmp(fault.field, "request.last_known") == 0) {
    send_cancel(engine, t);
    finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
    return NM_DROP_RESOURCE_MALFORMED;
  }
  if (status != NM_OK) {
    return status == NM_E(MISMATCH) ? NM_DROP_RESOURCE_UNKNOWN
                                    : NM_DROP_RESOURCE_MALFORMED;
  }
  t->last_request = *hash;
  t->requests++;
  if (t->state == NM_RESOURCE_ADVERTISED) {
    note_round_trip(engine, t);
    t->started_us = engine->now.mono_us;
    t->segment_bytes = 0;
  } else {
    note_rate(engine, t);
  }
  send_parts(engine, t, tx, answer.count);
  if (answer.send_update) {
    send_hashmap(engine, t, answer.update_segment);
  }
  after_serving(engine, t, &answer);
  return NM_DROP_NONE;
}

nm_drop nm_transfer_proof(nm_engine *engine, nm_link *link, nm_span payload) {
  nm_resource_proof proof;
  if (nm_resource_proof_decode(payload, &proof, NULL) != NM_OK) {
    return NM_DROP_PROOF_LENGTH;
  }
  nm_transfer_out *t = link->transfers_out;
  if (t == NULL || !t->current.ready ||
      !nm_span_equal(proof.hash,
                     nm_span_of(t->current.sealed.hash, NM_HASH_SIZE))) {
    return NM_DROP_PROOF_UNKNOWN;
  }
  if (!nm_equal_ct(proof.proof.ptr, t->current.sealed.expected_proof,
                   NM_HASH_SIZE)) {
    return NM_DROP_PROOF_SIGNATURE;
  }
  link->last_proof = engine->now.mono_us;
  /* Inflating takes its time too, which is not the link's. */
  if (!t->current.sealed.compressed) {
    note_rate(engine, t);
  }
  if (t->current.index < t->plan.segments) {
    pause_after(engine, link, PAUSE_ANSWERS_INSIDE);
    advance(engine, t);
  } else {
    pause_after(engine, link, PAUSE_ANSWERS);
    finish(engine, t, NM_RESOURCE_COMPLETE, NM_STAGE_NONE);
  }
  return NM_DROP_NONE;
}

nm_drop nm_transfer_rejected(nm_engine *engine, nm_link *link,
                             nm_span plaintext) {
  nm_span hash;
  if (nm_resource_cancel_decode(plaintext, &hash, NULL) != NM_OK) {
    return NM_DROP_RESOURCE_MALFORMED;
  }
  nm_transfer_out *t = link->transfers_out;
  if (t == NULL || !t->has_told ||
      !nm_span_equal(hash, nm_span_of(t->told, NM_HASH_SIZE))) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  finish(engine, t, NM_RESOURCE_REJECTED, NM_STAGE_REFUSED);
  return NM_DROP_NONE;
}

/* ---- time ---- */

/* Asks for the proof again: it may have been lost (RNS 2, 3.9). */
static void ask_for_proof(nm_engine *engine, nm_transfer_out *t) {
  nm_packet_hash wanted;
  nm_resource_proof_packet_hash(&t->link->id, t->current.sealed.hash,
                                t->current.sealed.expected_proof, &wanted);
  (void)nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_CACHE_REQUEST,
                     nm_span_of(wanted.b, NM_HASH_SIZE), NULL);
  double rtt = nm_seconds(t->rtt_us);
  nm_engine_arm(engine, &t->timer, nm_us(nm_resource_proof_timeout(rtt)));
}

static void time_over(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_transfer_out *t =
      (nm_transfer_out *)(void *)((char *)timer -
                                  offsetof(nm_transfer_out, timer));
  if (t->pauses) {
    t->pauses = false;
    if (present(engine, t) != NM_OK) {
      send_cancel(engine, t);
      finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
    }
    return;
  }
  bool again = t->retries > 0;
  t->retries -= again;
  if (again && t->state == NM_RESOURCE_ADVERTISED &&
      advertise(engine, t) == NM_OK) {
    return;
  }
  if (again && t->state == NM_RESOURCE_AWAITING_PROOF) {
    ask_for_proof(engine, t);
    return;
  }
  send_cancel(engine, t);
  finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_TRANSFER);
}

void nm_transfer_out_op_cancel(nm_engine *engine, nm_op *op) {
  nm_transfer_out *t = op->owner;
  send_cancel(engine, t);
  finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_CANCELLED);
}

void nm_transfer_abandon(nm_engine *engine, nm_link *link, nm_op_id owner,
                         bool cancel) {
  nm_transfer_out *t = link->transfers_out;
  while (t != NULL && t->owner != owner) {
    t = t->next;
  }
  if (t == NULL) {
    return;
  }
  t->done = NULL;
  if (cancel) {
    send_cancel(engine, t);
  }
  finish(engine, t, NM_RESOURCE_FAILED, NM_STAGE_CANCELLED);
}

void nm_transfers_out_close(nm_engine *engine, nm_link *link) {
  while (link->transfers_out != NULL) {
    finish(engine, link->transfers_out, NM_RESOURCE_FAILED, NM_STAGE_LINK);
  }
}
