/* Channels and streams of native nodes: the client's samples. */
#include "nodes_internal.h"

#include <string.h>

#define MESSAGE_TYPE 0x0101
/* Messages that are posted ahead of their proofs: more than a window holds. */
#define AHEAD_MOST 256

int nb_channel_open(nb_node *n) {
  nm_reply reply;
  nm_command c = {.kind = NM_COMMAND_CHANNEL_OPEN, .link = n->link, .on = true};
  return nb_ask(n, &c, &reply);
}

static int post_message(nb_node *n, nm_span payload) {
  uint64_t ticket;
  nm_command c = {.kind = NM_COMMAND_CHANNEL_SEND,
                  .link = n->link,
                  .number = MESSAGE_TYPE,
                  .on = true,
                  .data = nb_block_of(payload.ptr, payload.len)};
  return nb_post(n, &c, &ticket);
}

int nb_channel_messages(nb_node *n, const nb_run *run, uint64_t number,
                        uint64_t deadline_ns, nb_span_ns *took) {
  nm_node_event event;
  size_t posted = 0;
  size_t proven = 0;
  int status = NM_OK;
  (void)number; /* each sample sends all payloads */
  while (status == NM_OK && proven < run->items) {
    while (status == NM_OK && posted < run->items &&
           posted - proven < AHEAD_MOST) {
      status = post_message(
          n, nm_span_of(run->payloads.ptr + posted * run->size, run->size));
      posted++;
    }
    if (status != NM_OK || !nb_next(n, &event, deadline_ns)) {
      return status != NM_OK ? status : NM_E(TIMEOUT);
    }
    if (event.kind == NM_NODE_REPLY) {
      status = event.u.reply.status;
      if (took->start_ns == 0) {
        took->start_ns = event.u.reply.at.mono_us * 1000u;
      }
    } else if (event.kind == NM_NODE_EVENT &&
               event.u.event.kind == NM_EVENT_CHANNEL_SENT) {
      status = event.u.event.state == NM_RECEIPT_DELIVERED ? NM_OK : NM_E(AUTH);
      took->end_ns = event.u.event.at.mono_us * 1000u;
      proven++;
    }
    nm_node_event_dispose(&event);
  }
  return status;
}

int nb_channel_stream(nb_node *n, const nb_run *run, uint64_t number,
                      uint64_t deadline_ns, nb_span_ns *took) {
  uint64_t ticket;
  nm_node_event event;
  size_t at = (size_t)(number % run->items) * run->size;
  nm_command c = {.kind = NM_COMMAND_STREAM_WRITE,
                  .link = n->link,
                  .number = (int64_t)(2 * number + 1),
                  .on = true,
                  .compression = NM_RESOURCE_COMPRESS_OFF,
                  .data = nb_block_of(run->payloads.ptr + at, run->size)};
  int status = nb_post(n, &c, &ticket);
  bool answered = false;
  while (status == NM_OK && !answered) {
    if (!nb_next(n, &event, deadline_ns)) {
      return NM_E(TIMEOUT);
    }
    if (event.kind == NM_NODE_REPLY && event.ticket == ticket) {
      status = event.u.reply.status;
      took->start_ns = event.u.reply.at.mono_us * 1000u;
    } else if (event.kind == NM_NODE_EVENT &&
               event.u.event.kind == NM_EVENT_LINK_CLOSED) {
      status = NM_E(STATE);
    } else if (event.kind == NM_NODE_EVENT &&
               event.u.event.kind == NM_EVENT_STREAM_DATA &&
               event.u.event.eof) {
      answered = true;
      took->end_ns = event.u.event.at.mono_us * 1000u;
    }
    nm_node_event_dispose(&event);
  }
  return status;
}
