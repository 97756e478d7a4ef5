/* Requests and responses (RNS 2, 2).
 */
#include "stack/link_state.h"
#include "wire/control.h"
#include "wire/decisions.h"
#include "wire/destination.h"

#include <string.h>

#define NIL "\xc0"

/* ---- ours ---- */

static void request_over(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_request_out *request =
      (nm_request_out *)(void *)((char *)timer -
                                 offsetof(nm_request_out, timer));
  nm_request_end(engine, request, NM_E(TIMEOUT), NM_STAGE_REQUEST, NULL, NULL);
}

/* The resource that carried a request was proven, or was not. */
static void request_carried(nm_engine *engine, nm_op_id id, bool ok,
                            nm_stage stage) {
  nm_op *op = nm_op_find(&engine->ops, id);
  if (op == NULL) {
    return;
  }
  nm_request_out *request = op->owner;
  if (!ok) {
    nm_request_end(engine, request, NM_E(STATE), stage, NULL, NULL);
    return;
  }
  if (request->state == NM_RECEIPT_SENT) {
    request->state = NM_RECEIPT_DELIVERED;
    nm_engine_arm(engine, &request->timer, request->timeout_us);
  }
}

static nm_request_out *new_request(nm_engine *engine, nm_link *link,
                                   uint64_t timeout_us, size_t response_max) {
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_request_out *request = nm_alloc_zero(engine->mem, 1, sizeof(*request));
  nm_op *op = request == NULL
                  ? NULL
                  : nm_op_begin(&engine->ops, NM_OP_REQUEST, request);
  if (op == NULL) {
    nm_release(engine->mem, request);
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  request->link = link;
  request->op = op->id;
  request->state = NM_RECEIPT_SENT;
  request->timeout_us =
      timeout_us != 0 ? timeout_us
                      : nm_us(nm_request_timeout(nm_seconds(link->rtt_us)));
  request->sent_us = engine->now.mono_us;
  request->response_max =
      response_max != 0 ? response_max : engine->limits.resource_in_max;
  request->timer.fire = request_over;
  request->next = link->requests_out;
  link->requests_out = request;
  link->requests_out_count++;
  return request;
}

static nm_block *pack_request(nm_engine *engine, nm_span path, nm_span data) {
  uint8_t hash[NM_ADDRESS_SIZE];
  nm_request_path_hash(path, hash);
  nm_request request = {
      .timestamp = (double)engine->now.unix_us / 1e6,
      .path_hash = nm_span_of(hash, sizeof(hash)),
      .data = data.len == 0 ? nm_span_of(NIL, 1) : data,
  };
  size_t size = nm_request_size(&request);
  nm_block *packed = nm_block_new(engine->mem, size);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(packed), size);
  if (nm_request_write(&w, &request) != NM_OK) {
    nm_block_drop(packed);
    return NULL;
  }
  nm_block_trim(packed, nm_writer_done(&w).len);
  return packed;
}

/* The id is known and registered before the bytes leave. */
static int send_packet_request(nm_engine *engine, nm_request_out *request,
                               nm_span packed) {
  nm_block *raw = NULL;
  nm_packet_hash hash;
  int status = nm_link_pack(engine, request->link, NM_DATA, NM_CONTEXT_REQUEST,
                            packed, &raw, &hash);
  if (status != NM_OK) {
    return status;
  }
  memcpy(request->id, hash.b, NM_ADDRESS_SIZE);
  request->id_known = true;
  nm_engine_arm(engine, &request->timer, request->timeout_us);
  return nm_link_put(engine, request->link, raw, 0);
}

static int send_resource_request(nm_engine *engine, nm_request_out *request,
                                 nm_block *packed) {
  nm_request_id_of_resource(nm_block_span(packed), request->id);
  request->id_known = true;
  nm_transfer_spec spec = {.content = packed,
                           .compression = NM_RESOURCE_COMPRESS_AUTOMATIC,
                           .request_id = request->id,
                           .is_request = true,
                           .owner = request->op,
                           .done = request_carried};
  return nm_transfer_start(engine, request->link, &spec, NULL);
}

int nm_engine_request(nm_engine *engine, nm_link_ref ref, nm_span path,
                      nm_span data, uint64_t timeout_us, size_t response_max,
                      nm_op_id *op, nm_now now) {
  engine->now = now;
  *op = 0;
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL ||
      (link->state != NM_LINK_ACTIVE && link->state != NM_LINK_STALE)) {
    return NM_E(STATE);
  }
  if (link->requests_out_count >= engine->limits.requests) {
    return NM_E(LIMIT);
  }
  nm_block *packed = pack_request(engine, path, data);
  if (packed == NULL) {
    return NM_E(MEMORY);
  }
  nm_request_out *request = new_request(engine, link, timeout_us, response_max);
  int status = NM_E(MEMORY);
  if (request != NULL) {
    /* A request that cannot even be sealed ends at once and is gone then. */
    nm_op_id id = request->op;
    bool fits = nm_block_span(packed).len <= nm_link_mdu_of(link);
    status = fits ? send_packet_request(engine, request, nm_block_span(packed))
                  : send_resource_request(engine, request, packed);
    if (status == NM_OK) {
      *op = id;
    } else {
      nm_request_scrap(engine, request);
    }
  }
  nm_block_drop(packed);
  return status;
}

void nm_request_op_cancel(nm_engine *engine, nm_op *op) {
  nm_request_end(engine, op->owner, NM_E(CANCELLED), NM_STAGE_CANCELLED, NULL,
                 NULL);
}

void nm_requests_close(nm_engine *engine, nm_link *link) {
  while (link->requests_out != NULL) {
    nm_request_end(engine, link->requests_out, NM_E(STATE), NM_STAGE_LINK, NULL,
                   NULL);
  }
}

nm_drop nm_response_packet(nm_engine *engine, nm_link *link,
                           nm_span plaintext) {
  nm_response response;
  if (link->state == NM_LINK_HANDSHAKE) {
    return NM_DROP_LINK_STATE;
  }
  if (nm_response_parse(plaintext, NULL, &response, NULL) != NM_OK) {
    return NM_DROP_LINK_PAYLOAD;
  }
  nm_request_out *request = nm_request_find(link, response.request_id.ptr);
  if (request == NULL) {
    return NM_DROP_REQUEST_UNKNOWN;
  }
  if (response.data.len > request->response_max) {
    nm_request_end(engine, request, NM_E(LIMIT), NM_STAGE_REFUSED, NULL, NULL);
    return NM_DROP_REQUEST_SIZE;
  }
  nm_block *data = nm_block_copy(engine->mem, response.data);
  nm_request_end(engine, request, data == NULL ? NM_E(MEMORY) : NM_OK,
                 data == NULL ? NM_STAGE_TRANSFER : NM_STAGE_NONE, data, NULL);
  return NM_DROP_NONE;
}

/* ---- answers ---- */

static nm_block *pack_response(nm_engine *engine, const uint8_t *id,
                               nm_span data) {
  nm_response response = {.request_id = nm_span_of(id, NM_ADDRESS_SIZE),
                          .data = data};
  size_t size = nm_response_size(&response);
  nm_block *packed = nm_block_new(engine->mem, size);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(packed), size);
  if (nm_response_write(&w, &response) != NM_OK) {
    nm_block_drop(packed);
    return NULL;
  }
  return packed;
}

static nm_link_token *answerable(const nm_engine *engine, nm_token_id id) {
  nm_link_token *token = nm_link_token_find(engine, id);
  return token != NULL && token->kind == NM_TOKEN_REQUEST ? token : NULL;
}

/* As a resource, from |content| or |source|. */
static int send_response(nm_engine *engine, const nm_link_token *waiting,
                         nm_block *content, nm_source *source, nm_span metadata,
                         bool compress) {
  nm_transfer_spec spec = {.content = content,
                           .source = source,
                           .metadata = metadata,
                           .compression = compress
                                              ? NM_RESOURCE_COMPRESS_AUTOMATIC
                                              : NM_RESOURCE_COMPRESS_OFF,
                           .request_id = waiting->request_id,
                           .is_response = true};
  return nm_transfer_start(engine, waiting->link, &spec, NULL);
}

int nm_engine_respond(nm_engine *engine, nm_token_id token, nm_span data,
                      bool compress, nm_now now) {
  engine->now = now;
  nm_link_token *waiting = answerable(engine, token);
  if (waiting == NULL) {
    return NM_E(STATE);
  }
  nm_link *link = waiting->link;
  nm_block *packed = pack_response(engine, waiting->request_id,
                                   data.len == 0 ? nm_span_of(NIL, 1) : data);
  if (packed == NULL) {
    return NM_E(MEMORY);
  }
  bool fits = nm_block_span(packed).len <= nm_link_mdu_of(link);
  int status = fits ? nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_RESPONSE,
                                   nm_block_span(packed), NULL)
                    : send_response(engine, waiting, packed, NULL,
                                    nm_span_of(NULL, 0), compress);
  nm_block_drop(packed);
  if (status == NM_OK) {
    nm_link_token_drop(engine, waiting);
  }
  return status;
}

static int respond_file(nm_engine *engine, nm_token_id token, nm_block *content,
                        nm_source *source, nm_span metadata, bool compress,
                        nm_now now) {
  engine->now = now;
  nm_link_token *waiting = answerable(engine, token);
  if (waiting == NULL) {
    return NM_E(STATE);
  }
  if (metadata.len == 0) {
    return NM_E(ARGUMENT); /* it would be taken for a packed response */
  }
  int status =
      send_response(engine, waiting, content, source, metadata, compress);
  if (status == NM_OK) {
    nm_link_token_drop(engine, waiting);
  }
  return status;
}

int nm_engine_respond_file(nm_engine *engine, nm_token_id token,
                           nm_span content, nm_span metadata, bool compress,
                           nm_now now) {
  nm_block *copy = nm_block_copy(engine->mem, content);
  if (copy == NULL) {
    return NM_E(MEMORY);
  }
  int status = respond_file(engine, token, copy, NULL, metadata, compress, now);
  nm_block_drop(copy);
  return status;
}

int nm_engine_respond_file_from(nm_engine *engine, nm_token_id token,
                                nm_source *source, nm_span metadata,
                                bool compress, nm_now now) {
  return respond_file(engine, token, NULL, source, metadata, compress, now);
}
