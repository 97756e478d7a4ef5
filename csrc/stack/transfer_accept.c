/* Advertisements (RNS 2, 3.3): of resources, which are accepted, offered to the
 * application or refused, and of the later segments of accepted ones; and what
 * is done when the time of one that comes in is over.
 */
#include "stack/link_state.h"

#include <string.h>

/* A sink, when the link has a place for what comes. */
static int find_place(nm_transfer_in *t) {
  nm_link *link = t->link;
  if (link->shelf == NULL || t->is_request || t->is_response) {
    return NM_OK;
  }
  nm_span peer = link->identified
                     ? nm_span_of(link->remote_identity.b, NM_ADDRESS_SIZE)
                     : nm_span_of(link->destination.b, NM_ADDRESS_SIZE);
  t->sink = link->shelf->place(link->shelf, t->hash, t->data_size, peer);
  if (t->sink == NULL) {
    return NM_E(MEMORY);
  }
  if (link->shelf_once) {
    t->once_from = link->shelf;
    link->shelf = NULL;
    link->shelf_once = false;
  }
  return NM_OK;
}

/* The first segment, once the resource is accepted. */
static int begin(nm_engine *engine, nm_transfer_in *t,
                 const nm_resource_adv *adv) {
  int status = find_place(t);
  if (status == NM_OK && t->segments > 1 && t->sink == NULL) {
    if (!nm_transfer_in_charge(engine, t, adv)) {
      return NM_E(LIMIT);
    }
    t->gathered = nm_block_new(engine->mem, (size_t)t->limit);
    if (t->gathered == NULL) {
      return NM_E(MEMORY);
    }
    nm_block_mark_secret(t->gathered);
  }
  t->profile = nm_resource_profile_start(t->link->learned->last_window);
  if (status != NM_OK || nm_transfer_in_look(engine, t, adv)) {
    return status;
  }
  nm_transfer_in_welcome(engine, t);
  return nm_transfer_in_segment(engine, t, adv);
}

/* ---- waiting ---- */

static void ask_again(nm_engine *engine, nm_transfer_in *t) {
  (void)nm_transfer_in_ask(engine, t);
  t->round_repeated = true;
}

static void time_over(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_transfer_in *t =
      (nm_transfer_in *)(void *)((char *)timer -
                                 offsetof(nm_transfer_in, timer));
  if (t->resume != NM_RESUME_NONE) {
    nm_transfer_in_look_over(engine, t);
    return;
  }
  if (t->between) {
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(TIMEOUT),
                        NM_STAGE_TRANSFER);
    return;
  }
  if (t->offered) {
    /* The application did not decide: the stated default is no. */
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(TIMEOUT),
                        NM_STAGE_REFUSED);
    return;
  }
  if (!t->responded && t->early_repeats < NM_TRANSFER_EARLY_REPEATS_MAX) {
    nm_transfer_early_repeated(t);
    t->early_repeats++;
    ask_again(engine, t);
    return;
  }
  if (t->retries == 0) {
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(TIMEOUT),
                        NM_STAGE_TRANSFER);
    return;
  }
  t->retries--;
  t->profile = nm_resource_profile_timeout(t->profile);
  ask_again(engine, t);
}

/* ---- beginning ---- */

static nm_transfer_in *new_transfer(nm_engine *engine, nm_link *link,
                                    const nm_resource_adv *adv) {
  if (nm_link_learns(engine, link) != NM_OK ||
      nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_transfer_in *t = nm_alloc_zero(engine->mem, 1, sizeof(*t));
  if (t == NULL) {
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  t->link = link;
  t->serial = nm_engine_new_token(engine);
  t->is_request = (adv->flags & NM_RESOURCE_IS_REQUEST) != 0;
  t->is_response = (adv->flags & NM_RESOURCE_IS_RESPONSE) != 0;
  t->has_metadata = (adv->flags & NM_RESOURCE_HAS_METADATA) != 0;
  t->compressed = (adv->flags & NM_RESOURCE_COMPRESSED) != 0;
  t->extended = (adv->flags & NM_RESOURCE_EXTENDED) != 0;
  t->data_size = adv->data_size;
  t->transfer_size = adv->transfer_size;
  t->segment = adv->segment;
  t->segments = adv->segments;
  memcpy(t->hash, adv->hash.ptr, NM_HASH_SIZE);
  /* A single segment needs no other name than its own. */
  memcpy(t->original, adv->segments > 1 ? adv->original.ptr : adv->hash.ptr,
         NM_HASH_SIZE);
  if (adv->request_id.ptr != NULL) {
    t->has_request_id = true;
    memcpy(t->request_id, adv->request_id.ptr, NM_ADDRESS_SIZE);
  } else {
    t->is_request = false;
    t->is_response = false;
  }
  t->timer.fire = time_over;
  t->next = link->transfers_in;
  link->transfers_in = t;
  link->transfers_in_count++;
  return t;
}

/* Why a transfer could not begin: for the most part an advertisement whose
 * numbers do not fit together. */
static nm_drop drop_of_begin(int status) {
  return status == NM_OK          ? NM_DROP_NONE
         : status == NM_E(MEMORY) ? NM_DROP_NO_MEMORY
         : status == NM_E(LIMIT)  ? NM_DROP_RESOURCE_MEMORY
         : status == NM_E(LENGTH) || status == NM_E(RANGE) ||
                 status == NM_E(ARGUMENT)
             ? NM_DROP_RESOURCE_MALFORMED
             : NM_DROP_QUEUE_FULL;
}

/* Nobody waits for it any more. */
static void abandon(nm_engine *engine, nm_transfer_in *t) {
  t->owner = 0;
  nm_transfer_refuse(engine, t->link, t->hash);
  nm_transfer_in_fail(engine, t, NM_RESOURCE_FAILED, NM_E(CANCELLED),
                      NM_STAGE_CANCELLED);
}

/* A response to a request of ours (RNS 2, 2.3). */
static nm_drop accept_response(nm_engine *engine, nm_transfer_in *t,
                               const nm_resource_adv *adv) {
  nm_request_out *request = nm_request_find(t->link, t->request_id);
  if (request == NULL) {
    return NM_DROP_REQUEST_UNKNOWN;
  }
  if (t->data_size > request->response_max) {
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_request_end(engine, request, NM_E(LIMIT), NM_STAGE_REFUSED, NULL, NULL);
    return NM_DROP_REQUEST_SIZE;
  }
  if (request->incoming != NULL) {
    return NM_DROP_DUPLICATE;
  }
  t->limit = nm_transfer_in_bound(t, request->response_max);
  int status = begin(engine, t, adv);
  if (status == NM_E(LIMIT)) {
    nm_transfer_refuse(engine, t->link, t->hash);
    nm_request_end(engine, request, NM_E(LIMIT), NM_STAGE_REFUSED, NULL, NULL);
  }
  if (status != NM_OK) {
    return drop_of_begin(status); /* else the request goes on waiting */
  }
  t->owner = request->op;
  nm_request_receiving(engine, request, t, abandon);
  return NM_DROP_NONE;
}

/* For want of memory the sender is told at once. */
static nm_drop begin_or_refuse(nm_engine *engine, nm_transfer_in *t,
                               const nm_resource_adv *adv) {
  int status = begin(engine, t, adv);
  if (status == NM_E(LIMIT)) {
    nm_transfer_refuse(engine, t->link, t->hash);
  }
  return drop_of_begin(status);
}

static nm_drop accept_request(nm_engine *engine, nm_transfer_in *t,
                              const nm_resource_adv *adv) {
  const nm_local *local =
      t->link->initiator ? NULL : nm_local_find(engine, &t->link->destination);
  if (local == NULL || local->handlers == NULL) {
    return NM_DROP_REQUEST_PATH;
  }
  size_t most = local->request_max != 0 ? local->request_max
                                        : engine->limits.resource_in_max;
  if (t->data_size > most) {
    nm_transfer_refuse(engine, t->link, t->hash);
    return NM_DROP_REQUEST_SIZE;
  }
  nm_drop drop;
  t->node = nm_engine_reserve_event(engine, &drop);
  if (t->node == NULL) {
    return drop;
  }
  t->limit = nm_transfer_in_bound(t, most);
  return begin_or_refuse(engine, t, adv);
}

static nm_drop make_op(nm_engine *engine, nm_transfer_in *t) {
  nm_op *op = nm_op_begin(&engine->ops, NM_OP_RESOURCE_IN, t);
  if (op == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  t->op = op->id;
  return NM_DROP_NONE;
}

/* How long the application may think about an offer: shorter than the sender
 * keeps advertising. */
#define OFFER_WAIT_US 10000000ull

static nm_drop offer(nm_engine *engine, nm_transfer_in *t, nm_span plaintext) {
  nm_drop drop;
  nm_event_node *node = nm_engine_reserve_event(engine, &drop);
  if (node == NULL) {
    return drop;
  }
  nm_link_token *token = nm_link_token_new(engine, t->link, NM_TOKEN_OFFER);
  t->advertisement = nm_block_copy(engine->mem, plaintext);
  if (token == NULL || t->advertisement == NULL) {
    if (token != NULL) {
      nm_link_token_drop(engine, token);
    }
    nm_eventq_unreserve(&engine->events, node);
    return NM_DROP_NO_MEMORY;
  }
  token->transfer = t;
  t->token = token->token;
  t->offered = true;
  node->event = nm_transfer_in_event(t, NM_EVENT_RESOURCE_OFFER);
  node->event.token = t->token;
  node->event.data = nm_block_hold(t->advertisement);
  nm_engine_emit(engine, node);
  nm_engine_arm(engine, &t->timer, OFFER_WAIT_US);
  return NM_DROP_NONE;
}

static nm_drop accept_plain(nm_engine *engine, nm_transfer_in *t,
                            const nm_resource_adv *adv, nm_span plaintext) {
  nm_link *link = t->link;
  if (link->resources == NM_ACCEPT_NONE) {
    /* The reference stays silent, and its peer waits out every repetition. */
    nm_transfer_refuse(engine, link, t->hash);
    return NM_DROP_RESOURCE_REFUSED;
  }
  uint64_t most = link->shelf != NULL ? link->shelf_max : link->resource_max;
  if (t->data_size > most) {
    nm_transfer_refuse(engine, link, t->hash);
    return NM_DROP_RESOURCE_REFUSED;
  }
  if (link->resources_paused) {
    engine->stats.held_for_credit++;
    return NM_DROP_NO_CREDIT; /* the sender advertises again */
  }
  nm_drop drop;
  t->limit = nm_transfer_in_bound(t, most);
  t->node = nm_engine_reserve_event(engine, &drop);
  if (t->node == NULL) {
    return drop; /* the sender advertises again */
  }
  drop = make_op(engine, t);
  if (drop == NM_DROP_NONE && link->resources == NM_ACCEPT_APP) {
    return offer(engine, t, plaintext);
  }
  return drop == NM_DROP_NONE ? begin_or_refuse(engine, t, adv) : drop;
}

static bool continues(const nm_transfer_in *t, const nm_resource_adv *adv) {
  nm_span id = t->has_request_id ? nm_span_of(t->request_id, NM_ADDRESS_SIZE)
                                 : nm_span_of(NULL, 0);
  return t->between && adv->segment == t->segment + 1 &&
         adv->segments == t->segments && adv->data_size == t->data_size &&
         ((adv->flags & NM_RESOURCE_HAS_METADATA) != 0) == t->has_metadata &&
         nm_span_equal(adv->request_id, id);
}

/* A later segment of a resource that is under way. */
static nm_drop go_on(nm_engine *engine, nm_transfer_in *t,
                     const nm_resource_adv *adv) {
  int status = NM_E(MISMATCH);
  if (continues(t, adv)) {
    t->between = false;
    t->segment = adv->segment;
    t->transfer_size = adv->transfer_size;
    t->compressed = (adv->flags & NM_RESOURCE_COMPRESSED) != 0;
    memcpy(t->hash, adv->hash.ptr, NM_HASH_SIZE);
    status = nm_transfer_in_segment(engine, t, adv);
  }
  if (status == NM_OK) {
    return NM_DROP_NONE;
  }
  bool lie = status == NM_E(MISMATCH);
  nm_transfer_refuse(engine, t->link, adv->hash.ptr);
  nm_transfer_in_fail(engine, t, lie ? NM_RESOURCE_CORRUPT : NM_RESOURCE_FAILED,
                      status, NM_STAGE_TRANSFER);
  return lie ? NM_DROP_RESOURCE_SEGMENT : drop_of_begin(status);
}

/* What is heard again of a resource that has ended. */
static nm_drop ended(nm_engine *engine, nm_link *link, const nm_kept_end *kept,
                     const nm_resource_adv *adv) {
  if (kept->refused) {
    nm_transfer_refuse(engine, link, adv->hash.ptr);
    return NM_DROP_RESOURCE_REFUSED;
  }
  nm_transfer_send_proof(engine, link, kept->payload);
  return NM_DROP_DUPLICATE;
}

static bool starts_a_resource(const nm_resource_adv *adv) {
  return adv->segments == 1 ||
         (adv->segment == 1 && nm_span_equal(adv->hash, adv->original) &&
          adv->segments <= adv->data_size / NM_RESOURCE_SEGMENT_MAX + 1);
}

static nm_drop start_resource(nm_engine *engine, nm_link *link,
                              const nm_resource_adv *adv, nm_span plaintext) {
  bool starts = starts_a_resource(adv);
  if (!starts || link->transfers_in_count >= engine->limits.transfers) {
    nm_transfer_refuse(engine, link, adv->hash.ptr);
    return starts ? NM_DROP_RESOURCE_REFUSED : NM_DROP_RESOURCE_SEGMENT;
  }
  nm_transfer_in *t = new_transfer(engine, link, adv);
  if (t == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  nm_drop drop = t->is_request    ? accept_request(engine, t, adv)
                 : t->is_response ? accept_response(engine, t, adv)
                                  : accept_plain(engine, t, adv, plaintext);
  if (drop != NM_DROP_NONE) {
    nm_transfer_in_scrap(engine, t);
  }
  return drop;
}

nm_drop nm_transfer_advertised(nm_engine *engine, nm_link *link,
                               nm_span plaintext, nm_input *input) {
  (void)input;
  nm_resource_adv adv;
  if (link->state == NM_LINK_HANDSHAKE) {
    return NM_DROP_LINK_STATE;
  }
  if (nm_resource_adv_decode(plaintext, &adv, NULL) != NM_OK) {
    return NM_DROP_RESOURCE_MALFORMED;
  }
  nm_transfer_in *known = nm_transfer_in_find(link, adv.hash);
  const nm_kept_end *kept = nm_transfer_kept(link, adv.hash, adv.original);
  if (kept != NULL && (known == NULL || known->between)) {
    return ended(engine, link, kept, &adv);
  }
  if (known != NULL && known->resume != NM_RESUME_NONE) {
    nm_transfer_in_look_again(engine, known);
    return NM_DROP_DUPLICATE;
  }
  if (known != NULL) {
    /* The sender has not heard our request: repeat it now. */
    if (known->state == NM_RESOURCE_TRANSFERRING && !known->responded &&
        !known->between) {
      (void)nm_transfer_in_ask(engine, known);
    }
    return NM_DROP_DUPLICATE;
  }
  nm_transfer_in *asked = nm_transfer_in_find_original(link, adv.original);
  if (asked != NULL && asked->resume == NM_RESUME_ASKED) {
    return nm_transfer_in_resumed(engine, asked, &adv);
  }
  nm_transfer_in *resource =
      adv.segments > 1 ? nm_transfer_in_find_original(link, adv.original)
                       : NULL;
  return resource != NULL ? go_on(engine, resource, &adv)
                          : start_resource(engine, link, &adv, plaintext);
}

void nm_transfer_offer_decided(nm_engine *engine, nm_transfer_in *t,
                               bool accept) {
  t->token = 0;
  t->offered = false;
  nm_resource_adv adv;
  int status = NM_E(VALUE);
  if (accept) {
    status =
        nm_resource_adv_decode(nm_block_span(t->advertisement), &adv, NULL);
    if (status == NM_OK) {
      status = begin(engine, t, &adv);
    }
  }
  if (status == NM_OK) {
    return;
  }
  nm_transfer_refuse(engine, t->link, t->hash);
  nm_transfer_in_fail(engine, t,
                      accept ? NM_RESOURCE_FAILED : NM_RESOURCE_REJECTED,
                      status, accept ? NM_STAGE_TRANSFER : NM_STAGE_REFUSED);
}
