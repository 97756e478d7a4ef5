/* The receiver's half of what two netmesh ends settle by notes
 * (wire/resource_note.h) before and while a resource goes over a link: zstd
 * frames, and going on where an earlier attempt was interrupted. Upstream's
 * ends send and see none of it. Specification: docs/reference/transfers.md.
 */
#include "stack/link_state.h"

#include <string.h>

/* Notes about what is held that a sender leaves unanswered before its receiver
 * takes the whole: it does not read them after all. */
#define NOTES_MAX 4
/* How long the sender may compare: it reads at least 20 bytes a microsecond. */
#define ANSWER_US 60000000ull
#define ANSWER_BYTES_PER_US 20u

static nm_transfer_in *in_of_job(nm_engine *engine, const nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_transfer_in *t = link == NULL ? NULL : link->transfers_in;
  while (t != NULL && t->serial != job->token) {
    t = t->next;
  }
  return t;
}

static void send_note(nm_engine *engine, const nm_transfer_in *t) {
  bool asked = t->resume == NM_RESUME_ASKED;
  nm_resource_note note = {
      .hash = nm_span_of(t->hash, NM_HASH_SIZE),
      .zstd = true,
      .pending = t->resume == NM_RESUME_CHECKING,
      .held = asked ? t->before.bytes : 0,
      .digest = nm_span_of(t->before.digest, asked ? NM_HASH_SIZE : 0)};
  uint8_t payload[NM_RESOURCE_NOTE_SIZE_MAX];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  if (nm_resource_note_encode(&note, &w) == NM_OK) {
    (void)nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE_REQ,
                       nm_writer_done(&w), NULL);
  }
}

void nm_transfer_in_welcome(nm_engine *engine, nm_transfer_in *t) {
  if (t->extended && t->segments > 1) {
    send_note(engine, t);
  }
}

/* The whole of it, as it was advertised first. */
static void take_whole(nm_engine *engine, nm_transfer_in *t) {
  nm_resource_adv adv;
  int status =
      nm_resource_adv_decode(nm_block_span(t->advertisement), &adv, NULL);
  t->resume = NM_RESUME_NONE;
  if (status == NM_OK) {
    nm_transfer_in_welcome(engine, t);
    status = nm_transfer_in_segment(engine, t, &adv);
  }
  if (status != NM_OK) {
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, status,
                        NM_STAGE_TRANSFER);
  }
}

static void tell_held(nm_engine *engine, nm_transfer_in *t) {
  t->notes++;
  send_note(engine, t);
  nm_engine_arm(engine, &t->timer,
                ANSWER_US + t->before.bytes / ANSWER_BYTES_PER_US);
}

static void looked(nm_engine *engine, nm_job *job) {
  const nm_job_sink_check *j = &job->u.sink_check;
  nm_transfer_in *t = in_of_job(engine, job);
  engine->stats.partials_evicted += j->held.evicted;
  if (t == NULL) {
    return; /* cancelled meanwhile */
  }
  if (job->status != NM_OK || j->held.bytes == 0 ||
      j->held.bytes > t->data_size) {
    take_whole(engine, t);
    return;
  }
  t->before = j->held;
  t->resume = NM_RESUME_ASKED;
  tell_held(engine, t);
}

/* What is advertised later can only be compared with this. */
static bool keep_advertisement(nm_engine *engine, nm_transfer_in *t,
                               const nm_resource_adv *adv) {
  if (t->advertisement == NULL) {
    size_t size = nm_resource_adv_size(adv);
    t->advertisement = nm_block_new(engine->mem, size);
    if (t->advertisement == NULL) {
      return false;
    }
    nm_writer w = nm_writer_of(nm_block_bytes(t->advertisement), size);
    return nm_resource_adv_encode(adv, &w) == NM_OK;
  }
  return true;
}

bool nm_transfer_in_look(nm_engine *engine, nm_transfer_in *t,
                         const nm_resource_adv *adv) {
  nm_drop drop;
  /* Whole segments are kept: of a single one there is nothing to go on from. */
  if (!t->extended || t->sink == NULL || t->sink->check == NULL ||
      adv->segments < 2 || !keep_advertisement(engine, t, adv)) {
    return false;
  }
  nm_job *job = nm_engine_new_job(engine, NM_JOB_SINK_CHECK, NULL, &drop);
  if (job == NULL) {
    return false;
  }
  job->done = looked;
  job->link = t->link->ref;
  job->token = t->serial;
  job->origin = t->link->iface;
  nm_job_sink_check *j = &job->u.sink_check;
  j->sink = nm_sink_hold(t->sink);
  memcpy(j->salt, t->hash, NM_HASH_SIZE);
  t->resume = NM_RESUME_CHECKING;
  t->state = NM_RESOURCE_TRANSFERRING;
  nm_timer_disarm(&engine->timers, &t->timer); /* of an offer */
  nm_engine_submit(engine, job);
  return true;
}

void nm_transfer_in_look_again(nm_engine *engine, nm_transfer_in *t) {
  if (t->resume == NM_RESUME_CHECKING) {
    send_note(engine, t);
  } else if (t->notes < NOTES_MAX) {
    tell_held(engine, t);
  } else {
    take_whole(engine, t);
  }
}

void nm_transfer_in_look_over(nm_engine *engine, nm_transfer_in *t) {
  take_whole(engine, t);
}

/* Whether |adv| is the whole of |t| once more (false in |rest|) or what follows
 * on what is held. */
static bool answers(const nm_transfer_in *t, const nm_resource_adv *adv,
                    bool *rest) {
  *rest = adv->data_size == t->data_size - t->before.bytes;
  return (*rest || adv->data_size == t->data_size) && adv->segment == 1 &&
         adv->segments <= adv->data_size / NM_RESOURCE_SEGMENT_MAX + 1 &&
         adv->request_id.ptr == NULL &&
         ((adv->flags & NM_RESOURCE_HAS_METADATA) != 0) == t->has_metadata;
}

nm_drop nm_transfer_in_resumed(nm_engine *engine, nm_transfer_in *t,
                               const nm_resource_adv *adv) {
  bool rest = false;
  int status = NM_E(MISMATCH);
  if (answers(t, adv, &rest)) {
    t->resume = NM_RESUME_NONE;
    t->base = rest ? t->before.bytes : 0;
    t->data_size = adv->data_size;
    t->segments = adv->segments;
    t->transfer_size = adv->transfer_size;
    t->compressed = (adv->flags & NM_RESOURCE_COMPRESSED) != 0;
    t->limit = nm_transfer_in_bound(t, t->limit);
    memcpy(t->hash, adv->hash.ptr, NM_HASH_SIZE);
    engine->stats.resources_resumed += rest;
    engine->stats.resumes_declined += !rest;
    status = nm_transfer_in_segment(engine, t, adv);
  }
  if (status == NM_OK) {
    return NM_DROP_NONE;
  }
  nm_transfer_refuse(engine, t->link, adv->hash.ptr);
  nm_transfer_in_fail(engine, t,
                      status == NM_E(MISMATCH) ? NM_RESOURCE_CORRUPT
                                               : NM_RESOURCE_FAILED,
                      status, NM_STAGE_TRANSFER);
  return status == NM_E(MISMATCH) ? NM_DROP_RESOURCE_SEGMENT
                                  : NM_DROP_RESOURCE_MALFORMED;
}
