/* What a sender sends after its advertisement: parts, hashmap updates, its
 * cancel (RNS 2, 3.5, 3.7, 3.8, 3.11).
 */
#include "stack/link_state.h"

#include <string.h>

/* How many positions a part is looked for in. */
#define PART_REACH NM_RESOURCE_GUARD
/* Repeated parts in a row that delay the next request: what several windows of
 * an earlier one may leave in the queue of a slow medium. */
#define ECHOES_MAX 256

/* ---- parts ---- */

static void report(nm_engine *engine, nm_transfer_in *t) {
  nm_event event = nm_transfer_in_event(t, NM_EVENT_PROGRESS);
  event.op = t->owner != 0 ? t->owner : t->op;
  /* Metadata count as content until their size is known: no step back then. */
  if (event.op != 0 && event.done_bytes >= t->told_done) {
    t->told_done = event.done_bytes;
    nm_engine_emit_lossy(engine, &event);
  }
}

static double since(const nm_engine *engine, uint64_t then_us) {
  uint64_t us = engine->now.mono_us - then_us;
  return nm_seconds(us == 0 ? 1 : us);
}

static void note_part(nm_engine *engine, nm_transfer_in *t, size_t len) {
  t->activity_us = engine->now.mono_us;
  t->retries = NM_RESOURCE_RETRIES;
  t->echoes = 0;
  t->round_bytes += len;
  t->wire_bytes += len;
  if (!t->round_answered) {
    double sample = since(engine, t->requested_us);
    if (!t->responded) {
      nm_transfer_early_answered(t, engine->now.mono_us - t->requested_us);
    }
    t->round_answered = true;
    t->responded = true;
    t->rtt_s = nm_resource_rtt(t->rtt_s, sample, nm_seconds(t->link->rtt_us));
    t->profile = nm_resource_profile_first_part(
        t->profile, (double)(t->request_bytes + len) / sample);
  }
}

/* A round that was asked for again may have been answered by what was asked for
 * before. It then looks far faster than it was, and time-outs that believe it
 * fill a slow channel with repeats: such a round never says that the link is
 * faster than it was known to be, and half believed that it is slower. */
static double round_rate(const nm_engine *engine, const nm_transfer_in *t) {
  double rate = (double)t->round_bytes / since(engine, t->requested_us);
  double known = nm_transfer_in_rate(t) / 8;
  if (!t->round_repeated || !(known > 0)) {
    return rate;
  }
  return rate > known ? known : (rate + known) / 2;
}

static void next_round(nm_engine *engine, nm_transfer_in *t) {
  t->data_rate = round_rate(engine, t);
  t->profile = nm_resource_profile_round(t->profile, t->data_rate);
  report(engine, t);
  (void)nm_transfer_in_ask(engine, t);
}

/* A part that is there already: an earlier request was answered after all, so
 * the answer to the last one is behind it. Asking again would only lengthen the
 * queue, on a shared slow channel without end. */
static void note_echo(nm_engine *engine, nm_link *link, nm_span part) {
  for (nm_transfer_in *t = link->transfers_in; t != NULL; t = t->next) {
    if (t->state == NM_RESOURCE_TRANSFERRING && t->responded && !t->between &&
        t->echoes < ECHOES_MAX && nm_resource_join_knows(&t->join, part)) {
      t->echoes++;
      nm_engine_arm(engine, &t->timer, nm_transfer_in_wait(t));
    }
  }
}

nm_drop nm_transfer_part(nm_engine *engine, nm_link *link, nm_span part) {
  nm_transfer_in *t = link->transfers_in;
  uint32_t index = 0;
  /* Parts carry no resource id: every transfer is tried (RNS 2, 3.7). */
  while (t != NULL && !(t->state == NM_RESOURCE_TRANSFERRING && !t->between &&
                        nm_resource_join_part(&t->join, part, PART_REACH,
                                              &index) == NM_OK)) {
    t = t->next;
  }
  if (t == NULL) {
    nm_transfer_early_in_vain(link);
    note_echo(engine, link, part);
    return NM_DROP_RESOURCE_PART;
  }
  link->last_data = engine->now.mono_us;
  note_part(engine, t, part.len);
  if (nm_resource_join_complete(&t->join)) {
    report(engine, t);
    nm_transfer_assemble(engine, t);
  } else if (t->join.outstanding == 0 && !t->join.waiting_for_hashmap) {
    next_round(engine, t);
  } else {
    nm_engine_arm(engine, &t->timer, nm_transfer_in_wait(t));
  }
  return NM_DROP_NONE;
}

nm_drop nm_transfer_hashmap(nm_engine *engine, nm_link *link,
                            nm_span plaintext) {
  nm_resource_hmu hmu;
  if (nm_resource_hmu_decode(plaintext, &hmu, NULL) != NM_OK) {
    return NM_DROP_RESOURCE_MALFORMED;
  }
  nm_transfer_in *t = nm_transfer_in_find(link, hmu.hash);
  if (t == NULL || t->state != NM_RESOURCE_TRANSFERRING || t->between) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  int status = nm_resource_join_update(&t->join, &hmu, NULL);
  if (status != NM_OK) {
    return status == NM_E(STATE) ? NM_DROP_DUPLICATE
                                 : NM_DROP_RESOURCE_MALFORMED;
  }
  t->retries = NM_RESOURCE_RETRIES;
  t->responded = true;
  if (t->join.outstanding == 0) {
    next_round(engine, t);
  } else {
    nm_engine_arm(engine, &t->timer, nm_transfer_in_wait(t));
  }
  return NM_DROP_NONE;
}

/* ---- cancelling ---- */

/* The sender names the segment that it told of last; the first one's hash
 * stands for the whole as well. */
nm_drop nm_transfer_cancelled(nm_engine *engine, nm_link *link,
                              nm_span plaintext) {
  nm_span hash;
  if (nm_resource_cancel_decode(plaintext, &hash, NULL) != NM_OK) {
    return NM_DROP_RESOURCE_MALFORMED;
  }
  nm_transfer_in *t = nm_transfer_in_find(link, hash);
  t = t == NULL ? nm_transfer_in_find_original(link, hash) : t;
  if (t == NULL || t->held) {
    return NM_DROP_RESOURCE_UNKNOWN;
  }
  nm_transfer_refuse(engine, link, t->hash);
  nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(CANCELLED),
                      NM_STAGE_REFUSED);
  return NM_DROP_NONE;
}

void nm_transfer_in_op_cancel(nm_engine *engine, nm_op *op) {
  nm_transfer_in *t = op->owner;
  nm_transfer_refuse(engine, t->link, t->hash);
  nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(CANCELLED),
                      NM_STAGE_CANCELLED);
}

void nm_transfers_in_close(nm_engine *engine, nm_link *link) {
  while (link->transfers_in != NULL) {
    nm_transfer_in_fail(engine, link->transfers_in, NM_RESOURCE_FAILED,
                        NM_E(STATE), NM_STAGE_LINK);
  }
}
