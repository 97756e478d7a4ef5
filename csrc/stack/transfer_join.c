/* What becomes of a segment whose parts are all in (RNS 2, 3.10): opened and
 * checked by a job, kept in memory or given to a sink, proven; after the last
 * one the resource is told of, perhaps proven only when it is accepted.
 */
#include "stack/link_state.h"
#include "wire/control.h"

#include <string.h>

static void prove(nm_engine *engine, nm_transfer_in *t) {
  nm_transfer_keep_proof(t->link, t);
  nm_transfer_send_proof(engine, t->link, t->proof);
}

/* What was held of a resource that must not be taken is refused for good. */
static void corrupt(nm_engine *engine, nm_transfer_in *t, int status) {
  nm_stage stage = status == NM_E(FULL) || status == NM_E(STORE)
                       ? NM_STAGE_STORE
                       : NM_STAGE_TRANSFER;
  nm_transfer_refuse(engine, t->link, t->hash);
  nm_transfer_in_fail(engine, t,
                      stage == NM_STAGE_STORE ? NM_RESOURCE_FAILED
                                              : NM_RESOURCE_CORRUPT,
                      status, stage);
}

/* ---- the end ---- */

static nm_block *take_content(nm_transfer_in *t) {
  nm_block *content = t->gathered;
  t->gathered = NULL;
  return content;
}

static nm_block *take_metadata(nm_transfer_in *t) {
  nm_block *metadata = t->metadata;
  t->metadata = NULL;
  return metadata;
}

/* [id, response], or a file when it has metadata (RNS 2, 2.3). */
static int unpack_response(const nm_engine *engine, nm_block *content,
                           nm_block **data) {
  nm_response response;
  if (nm_response_parse(nm_block_span(content), NULL, &response, NULL) !=
      NM_OK) {
    return NM_E(VALUE);
  }
  *data = nm_block_copy(engine->mem, response.data);
  return *data == NULL ? NM_E(MEMORY) : NM_OK;
}

static void deliver_response(nm_engine *engine, nm_transfer_in *t) {
  nm_request_out *request = nm_transfer_in_owner(engine, t);
  nm_block *content = take_content(t);
  nm_block *metadata = take_metadata(t);
  nm_block *data = NULL;
  int status = NM_OK;
  if (metadata != NULL) {
    data = nm_block_hold(content);
  } else {
    status = unpack_response(engine, content, &data);
  }
  nm_block_drop(content);
  prove(engine, t);
  nm_transfer_in_conclude(engine, t);
  if (request != NULL) {
    request->incoming = NULL;
    nm_request_end(engine, request, status,
                   status == NM_OK ? NM_STAGE_NONE : NM_STAGE_TRANSFER, data,
                   metadata);
  } else {
    nm_block_drop(data);
    nm_block_drop(metadata);
  }
}

static void deliver_request(nm_engine *engine, nm_transfer_in *t) {
  nm_event_node *node = t->node;
  nm_link *link = t->link;
  nm_block *content = take_content(t);
  t->node = NULL;
  prove(engine, t);
  nm_transfer_in_conclude(engine, t);
  if (nm_request_from_resource(engine, link, content, node) != NM_DROP_NONE) {
    nm_eventq_unreserve(&engine->events, node);
  }
  nm_block_drop(content);
}

static void deliver_plain(nm_engine *engine, nm_transfer_in *t) {
  nm_event event = nm_transfer_in_event(t, NM_EVENT_RESOURCE_IN);
  if (t->link->hold_resources) {
    nm_link_token *token =
        nm_link_token_new(engine, t->link, NM_TOKEN_RESOURCE);
    if (token == NULL) { /* what cannot be held must not be proven */
      nm_transfer_refuse(engine, t->link, t->hash);
      nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(LIMIT),
                          NM_STAGE_TRANSFER);
      return;
    }
    token->transfer = t;
    t->token = token->token;
    event.token = t->token;
    t->held = true;
  }
  event.stored = t->sink != NULL;
  event.data = take_content(t);
  if (event.stored) {
    event.data = t->place;
    t->place = NULL;
  }
  event.metadata = take_metadata(t);
  /* The operation's own node carries the event; the reserved one stood for
   * the credit that it costs. */
  nm_event_node_free(engine->mem, t->node);
  t->node = NULL;
  nm_op *op = nm_op_find(&engine->ops, t->op);
  t->op = 0;
  if (!t->held) {
    prove(engine, t);
    nm_transfer_in_conclude(engine, t);
  }
  nm_engine_end(engine, op, &event);
}

void nm_transfer_held_decided(nm_engine *engine, nm_transfer_in *t,
                              bool accept) {
  t->token = 0;
  if (accept) {
    prove(engine, t);
  } else {
    nm_transfer_keep_refusal(t->link, t);
    nm_transfer_refuse(engine, t->link, t->hash);
  }
  nm_transfer_in_conclude(engine, t);
}

static void deliver(nm_engine *engine, nm_transfer_in *t) {
  t->state = NM_RESOURCE_COMPLETE;
  if (t->gathered != NULL) {
    nm_block_trim(t->gathered, (size_t)t->content);
  }
  if (t->is_response) {
    deliver_response(engine, t);
  } else if (t->is_request) {
    deliver_request(engine, t);
  } else {
    deliver_plain(engine, t);
  }
}

/* ---- durable, then promised ---- */

static nm_transfer_in *transfer_of_job(nm_engine *engine, const nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_transfer_in *t = link == NULL ? NULL : link->transfers_in;
  while (t != NULL && t->serial != job->token) {
    t = t->next;
  }
  return t;
}

static void finished(nm_engine *engine, nm_job *job) {
  nm_transfer_in *t = transfer_of_job(engine, job);
  if (t == NULL) {
    return; /* cancelled meanwhile */
  }
  t->finishing = false;
  if (job->status != NM_OK) {
    corrupt(engine, t, job->status);
    return;
  }
  t->place = job->u.sink_finish.place;
  job->u.sink_finish.place = NULL;
  deliver(engine, t);
}

static void finish_sink(nm_engine *engine, nm_transfer_in *t) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_SINK_FINISH, NULL, &drop);
  if (job == NULL) {
    corrupt(engine, t, NM_E(MEMORY));
    return;
  }
  job->done = finished;
  job->link = t->link->ref;
  job->token = t->serial;
  nm_job_sink_finish *j = &job->u.sink_finish;
  j->sink = nm_sink_hold(t->sink);
  j->size = t->base + t->content;
  j->metadata = t->metadata == NULL ? NULL : nm_block_hold(t->metadata);
  t->finishing = true;
  nm_engine_submit(engine, job);
}

/* ---- one segment ---- */

static void opened(nm_engine *engine, nm_job *job) {
  nm_job_resource_open *j = &job->u.resource_open;
  nm_transfer_in *t = transfer_of_job(engine, job);
  if (t == NULL) {
    return; /* cancelled meanwhile */
  }
  t->assembling = false;
  if (job->status != NM_OK) {
    corrupt(engine, t, job->status);
    return;
  }
  t->gathered = j->gathered != NULL ? j->gathered : j->data;
  j->gathered = NULL;
  j->data = NULL;
  if (j->metadata != NULL) {
    t->metadata = j->metadata;
    j->metadata = NULL;
  }
  t->opened += j->plain;
  t->content += j->content;
  nm_writer w = nm_writer_of(t->proof, sizeof(t->proof));
  nm_writer_put(&w, t->hash, NM_HASH_SIZE);
  nm_writer_put(&w, j->proof, NM_HASH_SIZE);
  if (t->segment < t->segments) {
    prove(engine, t);
    nm_transfer_in_await(engine, t);
  } else if (t->segments > 1 && t->opened != t->data_size) {
    corrupt(engine, t, NM_E(LENGTH)); /* not what was advertised */
  } else if (t->sink != NULL) {
    finish_sink(engine, t);
  } else {
    deliver(engine, t);
  }
}

/* The most that one segment may inflate to: what is left of the resource. */
static size_t segment_limit(const nm_transfer_in *t) {
  uint64_t left = t->limit > t->opened ? t->limit - t->opened : 0;
  if (t->segments > 1 && left > NM_RESOURCE_TRANSFER_MAX) {
    left = NM_RESOURCE_TRANSFER_MAX;
  }
  return left == 0 ? 1 : (size_t)left; /* 0 would stand for the default */
}

/* What is only decrypted and hashed takes little; decompression, and writing a
 * file, may take long. */
static uint32_t cost_us(const nm_transfer_in *t) {
  bool light = t->sink == NULL && !t->compressed;
  return (uint32_t)(light ? 15 + t->transfer_size / 450
                          : 100 + t->transfer_size / 300);
}

void nm_transfer_assemble(nm_engine *engine, nm_transfer_in *t) {
  nm_drop drop;
  nm_timer_disarm(&engine->timers, &t->timer);
  nm_job *job = nm_engine_new_job(engine, NM_JOB_RESOURCE_OPEN, NULL, &drop);
  if (job == NULL) {
    corrupt(engine, t, NM_E(MEMORY));
    return;
  }
  job->done = opened;
  job->link = t->link->ref;
  job->token = t->serial;
  job->origin = t->link->iface;
  job->cost_us = cost_us(t);
  nm_job_resource_open *j = &job->u.resource_open;
  j->join = t->join;
  memset(&t->join, 0, sizeof(t->join));
  j->key = t->link->key;
  j->limit = segment_limit(t);
  j->gathered = t->gathered;
  t->gathered = NULL;
  j->sink = t->sink == NULL ? NULL : nm_sink_hold(t->sink);
  j->offset = t->sink == NULL ? t->content : t->base + t->content;
  t->state = NM_RESOURCE_ASSEMBLING;
  t->assembling = true;
  nm_engine_submit(engine, job);
}
