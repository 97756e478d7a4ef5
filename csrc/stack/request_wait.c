/* Requests of ours that wait for their answer: found, and ended (RNS 2, 2.4).
 */
#include "stack/link_state.h"

#include <string.h>

static void unlink_request(nm_engine *engine, nm_request_out *request) {
  nm_request_out **at = &request->link->requests_out;
  while (*at != request) {
    at = &(*at)->next;
  }
  *at = request->next;
  request->link->requests_out_count--;
  nm_timer_disarm(&engine->timers, &request->timer);
  nm_engine_unreserve_timers(engine, 1);
}

void nm_request_end(nm_engine *engine, nm_request_out *request, int status,
                    nm_stage stage, nm_block *data, nm_block *metadata) {
  unlink_request(engine, request);
  if (request->incoming != NULL) {
    request->abandon(engine, request->incoming);
  }
  /* An answer says that the request is there, proven or not. */
  nm_transfer_abandon(engine, request->link, request->op, status != NM_OK);
  nm_event event = nm_link_event(request->link, NM_EVENT_RESPONSE);
  event.state = status == NM_OK ? NM_REQUEST_READY : NM_RECEIPT_FAILED;
  event.status = status;
  event.stage = (uint8_t)stage;
  event.data = data;
  event.metadata = metadata;
  event.rtt_us = engine->now.mono_us - request->sent_us;
  memcpy(event.request_id, request->id, NM_ADDRESS_SIZE);
  nm_op *op = nm_op_find(&engine->ops, request->op);
  nm_release(engine->mem, request);
  nm_engine_end(engine, op, &event);
}

void nm_request_scrap(nm_engine *engine, nm_request_out *request) {
  nm_op *op = nm_op_find(&engine->ops, request->op);
  unlink_request(engine, request);
  nm_op_abandon(&engine->ops, op);
  nm_release(engine->mem, request);
}

nm_request_out *nm_request_find(nm_link *link,
                                const uint8_t id[NM_ADDRESS_SIZE]) {
  nm_request_out *request = link->requests_out;
  while (request != NULL && !(request->id_known &&
                              memcmp(request->id, id, NM_ADDRESS_SIZE) == 0)) {
    request = request->next;
  }
  return request;
}

void nm_request_receiving(nm_engine *engine, nm_request_out *request,
                          nm_transfer_in *incoming,
                          void (*abandon)(nm_engine *engine,
                                          nm_transfer_in *incoming)) {
  request->state = NM_REQUEST_RECEIVING;
  request->incoming = incoming;
  request->abandon = abandon;
  nm_timer_disarm(&engine->timers, &request->timer);
}
