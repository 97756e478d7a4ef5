/* Requests of peers: what they must meet, and how they are told of (RNS
 * 2, 2.2).
 */
#include "stack/link_state.h"
#include "wire/control.h"

#include <string.h>

/* Conditions of RNS 2, 2.2, in their order. */
static nm_drop check_request(nm_engine *engine, const nm_link *link,
                             size_t packed_len, const nm_request *request) {
  const nm_local *local =
      link->initiator ? NULL : nm_local_find(engine, &link->destination);
  if (local == NULL) {
    return NM_DROP_REQUEST_PATH;
  }
  if (local->request_max != 0 && packed_len > local->request_max) {
    return NM_DROP_REQUEST_SIZE;
  }
  const nm_handler *handler = nm_local_handler(local, request->path_hash.ptr);
  if (handler == NULL) {
    return NM_DROP_REQUEST_PATH;
  }
  return nm_handler_allows(handler,
                           link->identified ? &link->remote_identity : NULL)
             ? NM_DROP_NONE
             : NM_DROP_REQUEST_POLICY;
}

/* A peer's time may be any number: one that no clock shows is cut off. */
#define WIRE_TIME_MAX_US 9007199254740992.0 /* 2^53 */

static int64_t wire_time(double seconds) {
  double us = seconds * 1e6;
  if (!(us > -WIRE_TIME_MAX_US)) { /* NaN as well */
    return us == us ? -(int64_t)WIRE_TIME_MAX_US : 0;
  }
  return (int64_t)(us < WIRE_TIME_MAX_US ? us : WIRE_TIME_MAX_US);
}

/* Fills and emits |node|, which stays the caller's when this fails. */
static nm_drop tell_request(nm_engine *engine, nm_link *link,
                            const nm_request *request,
                            const uint8_t id[NM_ADDRESS_SIZE],
                            nm_event_node *node) {
  nm_block *data = nm_block_copy(engine->mem, request->data);
  nm_link_token *token =
      data == NULL ? NULL : nm_link_token_new(engine, link, NM_TOKEN_REQUEST);
  if (token == NULL) {
    nm_block_drop(data);
    return NM_DROP_NO_MEMORY;
  }
  memcpy(token->request_id, id, NM_ADDRESS_SIZE);
  nm_event *event = &node->event;
  *event = nm_link_event(link, NM_EVENT_REQUEST);
  event->token = token->token;
  event->data = data;
  event->was_link = link->identified;
  event->wire_time_us = wire_time(request->timestamp);
  memcpy(event->path_hash, request->path_hash.ptr, NM_ADDRESS_SIZE);
  memcpy(event->request_id, id, NM_ADDRESS_SIZE);
  nm_engine_emit(engine, node);
  return NM_DROP_NONE;
}

static nm_drop take_request(nm_engine *engine, nm_link *link, nm_span plaintext,
                            const uint8_t id[NM_ADDRESS_SIZE]) {
  nm_request request;
  if (nm_request_parse(plaintext, NULL, &request, NULL) != NM_OK) {
    return NM_DROP_LINK_PAYLOAD;
  }
  nm_drop drop = check_request(engine, link, plaintext.len, &request);
  nm_event_node *node =
      drop == NM_DROP_NONE ? nm_engine_reserve_event(engine, &drop) : NULL;
  if (node == NULL) {
    return drop;
  }
  drop = tell_request(engine, link, &request, id, node);
  if (drop != NM_DROP_NONE) {
    nm_eventq_unreserve(&engine->events, node);
  }
  return drop;
}

/* ---- requests that came right behind an identity ---- */

#define DEFERRED_MAX 256
#define DEFERRED_PER_LINK 4

/* A request that waits until its link's peer is known. */
typedef struct nm_deferred_request {
  struct nm_deferred_request *next;
  nm_link_ref link;
  nm_iface_id iface;
  uint8_t id[NM_ADDRESS_SIZE];
  nm_block *plain;
} nm_deferred_request;

static void free_deferred(nm_engine *engine, nm_deferred_request *waiting) {
  nm_block_drop(waiting->plain);
  nm_release(engine->mem, waiting);
}

/* Keeps it, behind those that came before. */
static nm_drop defer(nm_engine *engine, const nm_link *link, nm_span plaintext,
                     const nm_input *input) {
  nm_deferred_request **at = &engine->links.deferred;
  uint32_t all = 0;
  uint32_t own = 0;
  for (; *at != NULL; at = &(*at)->next) {
    all++;
    own += (*at)->link == link->ref;
  }
  if (all >= DEFERRED_MAX || own >= DEFERRED_PER_LINK) {
    return NM_DROP_JOBS_SHARE;
  }
  nm_deferred_request *waiting =
      nm_alloc_zero(engine->mem, 1, sizeof(*waiting));
  nm_block *plain =
      waiting == NULL ? NULL : nm_block_copy(engine->mem, plaintext);
  if (plain == NULL) {
    nm_release(engine->mem, waiting);
    return NM_DROP_NO_MEMORY;
  }
  waiting->link = link->ref;
  waiting->iface = input->iface->id;
  waiting->plain = plain;
  memcpy(waiting->id, input->frame->hash.b, NM_ADDRESS_SIZE);
  *at = waiting;
  return NM_DROP_NONE;
}

void nm_requests_identified(nm_engine *engine, nm_link_ref ref) {
  nm_link *link = nm_link_active(engine, ref);
  if (link != NULL && !link->identified && link->identifying > 0) {
    return; /* another identity is still being verified */
  }
  nm_deferred_request **at = &engine->links.deferred;
  while (*at != NULL) {
    nm_deferred_request *waiting = *at;
    if (waiting->link != ref) {
      at = &waiting->next;
      continue;
    }
    *at = waiting->next;
    nm_drop drop =
        link == NULL ? NM_DROP_LINK_STATE
                     : take_request(engine, link, nm_block_span(waiting->plain),
                                    waiting->id);
    if (drop != NM_DROP_NONE) {
      nm_engine_count_drop(engine, nm_iface_find(engine, waiting->iface), drop);
    }
    free_deferred(engine, waiting);
  }
}

void nm_requests_dispose(nm_engine *engine) {
  while (engine->links.deferred != NULL) {
    nm_deferred_request *waiting = engine->links.deferred;
    engine->links.deferred = waiting->next;
    free_deferred(engine, waiting);
  }
}

nm_drop nm_request_packet(nm_engine *engine, nm_link *link, nm_span plaintext,
                          nm_input *input) {
  if (link->state == NM_LINK_HANDSHAKE) {
    return NM_DROP_LINK_STATE;
  }
  nm_drop drop = take_request(engine, link, plaintext, input->frame->hash.b);
  /* Its policy may be met by the identity that came just before. */
  return drop == NM_DROP_REQUEST_POLICY && link->identifying > 0
             ? defer(engine, link, plaintext, input)
             : drop;
}

nm_drop nm_request_from_resource(nm_engine *engine, nm_link *link,
                                 nm_block *packed, nm_event_node *node) {
  nm_request request;
  nm_span bytes = nm_block_span(packed);
  if (nm_request_parse(bytes, NULL, &request, NULL) != NM_OK) {
    return NM_DROP_LINK_PAYLOAD;
  }
  nm_drop drop = check_request(engine, link, bytes.len, &request);
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  uint8_t id[NM_ADDRESS_SIZE];
  nm_request_id_of_resource(bytes, id);
  return tell_request(engine, link, &request, id, node);
}
