/* Resources on their way in (RNS 2, 3.3 to 3.12): their life, and how their
 * parts are asked for. transfer_accept.c begins them and each of their
 * segments, transfer_parts.c takes what the sender sends, transfer_join.c does
 * what follows when a segment's parts are all in.
 */
#include "stack/link_state.h"
#include "wire/decisions.h"

#include <string.h>

/* On a slow link the wait before a repeat grows by this power of two. */
#define BACK_OFF_DOUBLINGS 2

/* What the parts stand for; all of it only when the resource is complete. */
static uint64_t content_done(const nm_transfer_in *t) {
  uint64_t left = t->data_size > t->opened ? t->data_size - t->opened : 0;
  uint64_t done = t->base + t->content;
  if (t->join.parts > 0) {
    uint64_t segment = left < NM_RESOURCE_SEGMENT_MAX || t->segments == 1
                           ? left
                           : NM_RESOURCE_SEGMENT_MAX;
    done += segment * t->join.received / t->join.parts;
  }
  return done;
}

nm_event nm_transfer_in_event(const nm_transfer_in *t, nm_event_kind kind) {
  nm_event event = nm_link_event(t->link, kind);
  event.op = t->op;
  event.state = (uint8_t)t->state;
  memcpy(event.packet_hash.b, t->original, NM_HASH_SIZE);
  event.wire_bytes = t->wire_bytes;
  if (t->state == NM_RESOURCE_COMPLETE) {
    event.total_bytes = t->base + t->content;
    event.done_bytes = t->base + t->content;
  } else {
    /* The metadata's size is known after the first segment. */
    uint64_t metadata = t->opened - t->content;
    uint64_t done = content_done(t);
    event.total_bytes =
        t->base + (t->data_size > metadata ? t->data_size - metadata : 0);
    event.done_bytes = done < event.total_bytes ? done
                       : event.total_bytes == 0 ? 0
                                                : event.total_bytes - 1;
  }
  return event;
}

/* Accounts for what |t| may hold from now on: |bytes|. False when all incoming
 * resources together would hold more than they may. */
static bool charge(nm_engine *engine, nm_transfer_in *t, uint64_t bytes) {
  uint64_t others = engine->links.resource_memory - t->charged;
  uint64_t most = engine->limits.resource_memory;
  if (bytes > t->charged && (bytes > most || others > most - bytes)) {
    return false;
  }
  engine->links.resource_memory = others + bytes;
  t->charged = bytes;
  return true;
}

/* What a resource may hold in memory: its content unless a sink takes it, and
 * the segment under way, as stream and opened. */
static uint64_t memory_of(const nm_transfer_in *t, const nm_resource_adv *adv) {
  uint64_t stream = adv->transfer_size;
  uint64_t plain = t->limit;
  if (t->segments > 1) {
    stream =
        stream > NM_RESOURCE_SEGMENT_MAX ? stream : NM_RESOURCE_SEGMENT_MAX;
    plain = plain < NM_RESOURCE_SEGMENT_MAX ? plain : NM_RESOURCE_SEGMENT_MAX;
  }
  uint64_t content = t->sink != NULL || t->segments == 1 ? 0 : t->limit;
  return content + stream + plain;
}

bool nm_transfer_in_charge(nm_engine *engine, nm_transfer_in *t,
                           const nm_resource_adv *adv) {
  return charge(engine, t, memory_of(t, adv));
}

static void free_transfer(nm_engine *engine, nm_transfer_in *t) {
  nm_timer_disarm(&engine->timers, &t->timer);
  nm_engine_unreserve_timers(engine, 1);
  (void)charge(engine, t, 0);
  nm_resource_join_dispose(&t->join);
  nm_block_drop(t->advertisement);
  nm_block_drop(t->gathered);
  nm_block_drop(t->metadata);
  nm_block_drop(t->place);
  nm_sink_drop(t->sink);
  nm_shelf_drop(t->once_from);
  if (t->node != NULL) {
    nm_eventq_unreserve(&engine->events, t->node);
  }
  nm_release(engine->mem, t);
}

static void unlink_transfer(nm_transfer_in *t) {
  nm_transfer_in **at = &t->link->transfers_in;
  while (*at != t) {
    at = &(*at)->next;
  }
  *at = t->next;
  t->link->transfers_in_count--;
}

static void drop_token(nm_engine *engine, nm_transfer_in *t) {
  nm_link_token *token =
      t->token == 0 ? NULL : nm_link_token_find(engine, t->token);
  if (token != NULL) {
    nm_link_token_drop(engine, token);
  }
  t->token = 0;
}

nm_transfer_in *nm_transfer_in_find(nm_link *link, nm_span hash) {
  nm_transfer_in *t = link->transfers_in;
  while (t != NULL && !nm_span_equal(hash, nm_span_of(t->hash, NM_HASH_SIZE))) {
    t = t->next;
  }
  return t;
}

nm_transfer_in *nm_transfer_in_find_original(nm_link *link, nm_span original) {
  nm_transfer_in *t = link->transfers_in;
  while (t != NULL &&
         !nm_span_equal(original, nm_span_of(t->original, NM_HASH_SIZE))) {
    t = t->next;
  }
  return t;
}

nm_request_out *nm_transfer_in_owner(const nm_engine *engine,
                                     const nm_transfer_in *t) {
  nm_op *op = t->owner == 0 ? NULL : nm_op_find(&engine->ops, t->owner);
  return op == NULL ? NULL : op->owner;
}

/* The place that was meant for this resource alone is the next one's again. */
static void put_shelf_back(nm_transfer_in *t) {
  if (t->once_from != NULL && t->link->shelf == NULL) {
    t->link->shelf = t->once_from;
    t->link->shelf_once = true;
    t->once_from = NULL;
  }
}

/* What was interrupted may go on later, if the sender knows how. */
static void keep_content(nm_engine *engine, nm_transfer_in *t, int status,
                         nm_stage stage) {
  if (t->sink != NULL && t->extended && t->before.bytes + t->content > 0 &&
      (stage == NM_STAGE_LINK || status == NM_E(TIMEOUT))) {
    t->sink->keep = true;
    engine->stats.partials_kept++;
  }
}

void nm_transfer_in_fail(nm_engine *engine, nm_transfer_in *t,
                         nm_resource_state state, int status, nm_stage stage) {
  t->state = state;
  nm_transfer_keep_refusal(t->link, t);
  keep_content(engine, t, status, stage);
  put_shelf_back(t);
  unlink_transfer(t);
  drop_token(engine, t);
  nm_op *op = t->op == 0 ? NULL : nm_op_find(&engine->ops, t->op);
  if (op != NULL) {
    nm_event event = nm_transfer_in_event(t, NM_EVENT_RESOURCE_IN_FAILED);
    event.status = status;
    event.stage = (uint8_t)stage;
    nm_engine_end(engine, op, &event);
  }
  nm_request_out *request = nm_transfer_in_owner(engine, t);
  free_transfer(engine, t);
  if (request != NULL) {
    request->incoming = NULL;
    nm_request_end(engine, request, status, stage, NULL, NULL);
  }
}

void nm_transfer_in_scrap(nm_engine *engine, nm_transfer_in *t) {
  put_shelf_back(t);
  unlink_transfer(t);
  drop_token(engine, t);
  nm_op *op = t->op == 0 ? NULL : nm_op_find(&engine->ops, t->op);
  if (op != NULL) {
    nm_op_abandon(&engine->ops, op);
  }
  free_transfer(engine, t);
}

/* ---- asking for parts ---- */

double nm_transfer_in_rate(const nm_transfer_in *t) {
  return nm_resource_eifr(t->data_rate, t->link->learned->last_eifr,
                          (double)t->link->establish_bytes,
                          nm_seconds(t->link->rtt_us));
}

/* How long the next segment's advertisement may take: the sender may have lost
 * our proof and ask for it three times, and has to prepare the segment. */
#define BETWEEN_GRACE_S 60.0

static uint64_t between_wait(const nm_transfer_in *t) {
  double rtt = nm_seconds(t->link->rtt_us);
  rtt = t->rtt_s > rtt ? t->rtt_s : rtt;
  return nm_us((NM_RESOURCE_PROOF_RETRIES + 1) *
                   nm_resource_proof_timeout(rtt) +
               BETWEEN_GRACE_S);
}

/* The wait before the next early repeat after |repeats| of them: each twice as
 * long as the one before. When that is no earlier than the normal wait, the
 * link is slow. Each repeat then puts a whole window behind an answer that may
 * still be on its way, so the normal wait grows too. */
static uint64_t first_wait(uint64_t early, uint64_t normal, uint32_t repeats) {
  uint32_t doublings = 1;
  for (uint32_t i = 0; i < repeats; i++) {
    if (early < normal) {
      early *= 2;
    } else if (doublings < BACK_OFF_DOUBLINGS) {
      doublings++;
    }
  }
  return early < normal ? early : normal << doublings;
}

uint64_t nm_transfer_in_wait(const nm_transfer_in *t) {
  if (t->between) {
    return between_wait(t);
  }
  double seconds = nm_resource_receive_timeout(
      t->responded, t->join.outstanding, t->join.waiting_for_hashmap,
      t->join.sdu, nm_transfer_in_rate(t), NM_RESOURCE_RETRIES - t->retries);
  uint64_t normal = seconds > 3600 ? 3600000000ull : nm_us(seconds);
  if (t->responded || t->early_repeats >= NM_TRANSFER_EARLY_REPEATS_MAX) {
    return normal;
  }
  return first_wait(nm_transfer_early_wait(t), normal, t->early_repeats);
}

int nm_transfer_in_ask(nm_engine *engine, nm_transfer_in *t) {
  uint8_t payload[NM_LINK_MDU];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  int status = nm_resource_join_request(&t->join, t->profile.window, &w);
  if (status == NM_OK) {
    nm_span request = nm_writer_done(&w);
    t->requested_us = engine->now.mono_us;
    t->activity_us = engine->now.mono_us;
    t->request_bytes = NM_HEADER_1_SIZE + nm_token_size(request.len);
    t->round_bytes = 0;
    t->round_answered = false;
    t->round_repeated = false;
    t->requests++;
    nm_engine_arm(engine, &t->timer, nm_transfer_in_wait(t));
    status = nm_link_emit(engine, t->link, NM_DATA, NM_CONTEXT_RESOURCE_REQ,
                          request, NULL);
  }
  return status;
}

int nm_transfer_in_segment(nm_engine *engine, nm_transfer_in *t,
                           const nm_resource_adv *adv) {
  if (!nm_transfer_in_charge(engine, t, adv)) {
    return NM_E(LIMIT);
  }
  int status = nm_resource_join_init(
      &t->join, adv, nm_resource_sdu(t->link->mtu), engine->mem, NULL);
  if (status != NM_OK) {
    return status;
  }
  nm_resource_join_authenticate(&t->join, &t->link->key);
  t->state = NM_RESOURCE_TRANSFERRING;
  t->retries = NM_RESOURCE_RETRIES;
  t->responded = false;
  t->early_repeats = 0;
  t->echoes = 0;
  nm_transfer_early_begin(t->link);
  return nm_transfer_in_ask(engine, t);
}

uint64_t nm_transfer_in_bound(const nm_transfer_in *t, uint64_t limit) {
  uint64_t bound = t->data_size < limit ? t->data_size : limit;
  return bound == 0 ? 1 : bound;
}

void nm_transfer_in_await(nm_engine *engine, nm_transfer_in *t) {
  t->link->learned->last_window = t->profile.window;
  t->link->learned->last_eifr = nm_transfer_in_rate(t);
  t->state = NM_RESOURCE_TRANSFERRING;
  t->between = true;
  nm_engine_arm(engine, &t->timer, between_wait(t));
}

void nm_transfer_in_conclude(nm_engine *engine, nm_transfer_in *t) {
  t->link->learned->last_window = t->profile.window;
  t->link->learned->last_eifr = nm_transfer_in_rate(t);
  unlink_transfer(t);
  free_transfer(engine, t);
}
