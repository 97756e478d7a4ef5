/* The sender's half of what two netmesh ends settle by notes of the receiver;
 * the other half is transfer_resume.c.
 */
#include "stack/link_state.h"

#include <string.h>

/* How long a receiver may read what it has; notes that ask for that long again.
 */
#define PENDING_US 30000000ull
#define PENDING_MAX 60

static nm_transfer_out *out_of_job(nm_engine *engine, const nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_transfer_out *t = link == NULL ? NULL : link->transfers_out;
  return t != NULL && t->serial == job->token ? t : NULL;
}

static void answer(nm_engine *engine, nm_transfer_out *t, uint64_t base) {
  t->answered = true;
  t->checking = false;
  if (base > 0) {
    engine->stats.resources_resumed++;
  } else {
    engine->stats.resumes_declined++;
  }
  nm_transfer_out_restart(engine, t, base);
}

static void compared(nm_engine *engine, nm_job *job) {
  const nm_job_source_check *j = &job->u.source_check;
  nm_transfer_out *t = out_of_job(engine, job);
  if (t != NULL) {
    bool same = job->status == NM_OK &&
                nm_equal_ct(j->digest, t->claimed, sizeof(j->digest));
    answer(engine, t, same ? j->length : 0);
  }
}

/* Compares what the peer says that it holds with what is sent. */
static nm_drop compare(nm_engine *engine, nm_transfer_out *t,
                       const nm_resource_note *note) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_SOURCE_CHECK, NULL, &drop);
  if (job == NULL) {
    return drop; /* the advertisement is repeated, and so is the note */
  }
  job->done = compared;
  job->link = t->link->ref;
  job->token = t->serial;
  job->origin = t->link->iface;
  job->cost_us +=
      (uint32_t)(note->held / 1000 < UINT32_MAX / 2 ? note->held / 1000
                                                    : UINT32_MAX / 2);
  nm_job_source_check *j = &job->u.source_check;
  j->content = t->content == NULL ? NULL : nm_block_hold(t->content);
  j->source = t->source == NULL ? NULL : nm_source_hold(t->source);
  j->length = note->held;
  memcpy(j->salt, t->told, NM_HASH_SIZE);
  memcpy(t->claimed, note->digest.ptr, NM_HASH_SIZE);
  t->checking = true;
  nm_timer_disarm(&engine->timers, &t->timer);
  nm_engine_submit(engine, job);
  return NM_DROP_NONE;
}

nm_drop nm_transfer_note(nm_engine *engine, nm_link *link, nm_span plaintext) {
  nm_resource_note note;
  nm_transfer_out *t = nm_transfer_out_asked(link);
  if (t == NULL) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  if (nm_resource_note_decode(plaintext, &note, NULL) != NM_OK) {
    return NM_DROP_RESOURCE_MALFORMED;
  }
  if (!nm_span_equal(note.hash, nm_span_of(t->told, NM_HASH_SIZE))) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  t->link->learned->takes_zstd = note.zstd;
  if (note.held == 0 && !note.pending) {
    return NM_DROP_NONE;
  }
  if (t->state != NM_RESOURCE_ADVERTISED || t->current.index != 1 ||
      t->answered || t->checking || t->pending >= PENDING_MAX) {
    return NM_DROP_DUPLICATE;
  }
  if (note.pending) {
    t->pending++;
    t->retries = NM_RESOURCE_ADV_RETRIES;
    nm_engine_arm(engine, &t->timer, PENDING_US);
    return NM_DROP_NONE;
  }
  if (note.held > t->plan.data_size) {
    answer(engine, t, 0);
    return NM_DROP_NONE;
  }
  return compare(engine, t, &note);
}
