/* The reading half of streams: messages become events in order (RNS 2, 4.3).
 *
 * Inflating takes longer than an engine step may, so it is a job; what comes
 * after a message that is being inflated waits for it, whatever its stream.
 */
#include "stack/channel_link.h"

static void free_place(nm_link_channel *channel, nm_channel_place *place) {
  nm_block_drop(place->plain);
  nm_release(channel->engine->mem, place);
}

static void unlink_inflating(nm_link_channel *channel,
                             const nm_channel_place *place) {
  nm_channel_place **at = &channel->inflating;
  while (*at != NULL && *at != place) {
    at = &(*at)->next_inflating;
  }
  if (*at != NULL) {
    *at = place->next_inflating;
  }
}

void nm_channel_place_free(nm_link_channel *channel, nm_channel_place *place) {
  if (place->waiting) {
    unlink_inflating(channel, place);
  }
  nm_eventq_unreserve(&channel->engine->events, place->node);
  free_place(channel, place);
}

void nm_channel_tell(nm_link_channel *channel) {
  while (channel->told_first != NULL && !channel->told_first->waiting) {
    nm_channel_place *place = channel->told_first;
    channel->told_first = place->next;
    if (channel->told_first == NULL) {
      channel->told_last = NULL;
    }
    nm_engine_emit(channel->engine, place->node);
    free_place(channel, place);
  }
}

/* |data| (one more reference is taken) is what the message holds. */
static void inflated(nm_channel_place *place, int status, nm_block *data) {
  place->waiting = false;
  place->node->event.status = status;
  if (status == NM_OK) {
    place->node->event.data = nm_block_hold(data);
    nm_block_mark_secret(data);
  }
}

void nm_stream_opened(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_link_channel *channel = link == NULL ? NULL : link->channel;
  nm_channel_place *place = channel == NULL ? NULL : channel->inflating;
  while (place != NULL && place->serial != job->token) {
    place = place->next_inflating;
  }
  if (place != NULL) {
    unlink_inflating(channel, place);
    inflated(place, job->status, job->u.stream_open.data);
    nm_channel_tell(channel);
  }
}

static nm_drop submit_open(nm_link_channel *channel, nm_channel_place *place,
                           const nm_stream_message *message) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(channel->engine, NM_JOB_STREAM_OPEN,
                                  channel->input, &drop);
  if (job == NULL) {
    return drop;
  }
  place->waiting = true;
  place->serial = channel->next_serial++;
  place->plain = nm_block_hold(channel->plain);
  place->message = *message;
  place->next_inflating = channel->inflating;
  channel->inflating = place;
  job->done = nm_stream_opened;
  job->link = channel->link->ref;
  job->token = place->serial;
  job->u.stream_open.plain = nm_block_hold(channel->plain);
  job->u.stream_open.message = *message;
  nm_engine_submit(channel->engine, job);
  return NM_DROP_NONE;
}

nm_drop nm_stream_accept(nm_link_channel *channel, nm_span payload,
                         nm_channel_place *place) {
  nm_event *event = &place->node->event;
  nm_stream_message message;
  event->kind = NM_EVENT_STREAM_DATA;
  int status = nm_stream_decode(payload, &message, NULL);
  if (status != NM_OK) {
    event->status = status;
    return NM_DROP_NONE;
  }
  event->stream = message.stream_id;
  event->eof = message.eof;
  event->compressed = message.compressed;
  event->wire_bytes = payload.len;
  if (message.compressed) {
    return submit_open(channel, place, &message);
  }
  event->data = nm_block_copy(channel->engine->mem, message.data);
  if (event->data == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  nm_block_mark_secret(event->data);
  return NM_DROP_NONE;
}

static void inflate_here(nm_link_channel *channel, nm_channel_place *place) {
  const nm_mem *mem = channel->engine->mem;
  nm_buffer out;
  nm_span data;
  nm_block *block = NULL;
  nm_buffer_init(&out, mem, NULL, 0, 1);
  int status = nm_stream_data(&place->message, 0, mem, &out, &data, NULL);
  if (status == NM_OK) {
    block = nm_block_copy(mem, data);
    status = block == NULL ? NM_E(MEMORY) : NM_OK;
  }
  inflated(place, status, block);
  nm_block_drop(block);
  nm_buffer_dispose(&out);
}

/* They were proven, so they are told; a link ends once, so this may take
 * longer than a step. */
void nm_streams_tell_rest(nm_link_channel *channel) {
  for (nm_channel_place *place = channel->told_first; place != NULL;
       place = place->next) {
    if (place->waiting) {
      unlink_inflating(channel, place);
      inflate_here(channel, place);
    }
  }
  nm_channel_tell(channel);
}
