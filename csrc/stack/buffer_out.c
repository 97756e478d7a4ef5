/* The writing half of streams: writes are cut into messages as the window
 * allows, streams in turn (RNS 2, 4.3).
 */
#include "stack/channel_link.h"

#include <string.h>

/* Above this rate the compressor would be what holds the stream up. */
#define COMPRESS_RATE_MAX (4u << 20)

/* ---- writes ---- */

static size_t size_of(const nm_write_out *write) {
  return nm_block_span(write->content).len;
}

void nm_stream_write_end_op(nm_link_channel *channel, nm_write_out *write,
                            int status, nm_stage stage) {
  nm_engine *engine = channel->engine;
  nm_op *op = write->op == 0 ? NULL : nm_op_find(&engine->ops, write->op);
  write->op = 0;
  if (op == NULL) {
    return;
  }
  nm_event event = nm_link_event(channel->link, NM_EVENT_STREAM_SENT);
  event.status = status;
  event.stage = (uint8_t)stage;
  event.stream = write->stream;
  event.eof = write->eof;
  event.done_bytes = write->proven;
  event.total_bytes = size_of(write);
  event.wire_bytes = write->wire_bytes;
  nm_engine_end(engine, op, &event);
}

static void free_write(nm_link_channel *channel, nm_write_out *write) {
  channel->write_count--;
  nm_block_drop(write->content);
  nm_release(channel->engine->mem, write);
}

void nm_stream_write_settle(nm_link_channel *channel, nm_write_out *write) {
  if (!write->all_made || write->letters > 0) {
    return;
  }
  nm_stream_write_end_op(channel, write, write->failed ? NM_E(STATE) : NM_OK,
                         write->failed ? NM_STAGE_LINK : NM_STAGE_NONE);
  free_write(channel, write);
}

void nm_stream_letter_ended(nm_link_channel *channel, nm_channel_letter *letter,
                            bool delivered) {
  nm_write_out *write = letter->write;
  write->letters--;
  write->failed = write->failed || !delivered;
  write->proven += delivered ? letter->taken : 0;
  nm_stream_write_settle(channel, write);
}

/* ---- the queue of streams ---- */

nm_stream_out *nm_stream_out_find(const nm_link_channel *channel, uint16_t id) {
  nm_stream_out *stream = channel->streams;
  while (stream != NULL && stream->id != id) {
    stream = stream->next;
  }
  return stream;
}

void nm_stream_queue(nm_link_channel *channel, nm_stream_out *stream) {
  if (stream->queued || stream->first == NULL || stream->packing != 0) {
    return;
  }
  stream->queued = true;
  stream->next_turn = NULL;
  if (channel->turn_last != NULL) {
    channel->turn_last->next_turn = stream;
  } else {
    channel->turn_first = stream;
  }
  channel->turn_last = stream;
}

static nm_stream_out *next_in_turn(nm_link_channel *channel) {
  nm_stream_out *stream = channel->turn_first;
  channel->turn_first = stream->next_turn;
  if (channel->turn_first == NULL) {
    channel->turn_last = NULL;
  }
  stream->queued = false;
  return stream;
}

/* ---- compression ---- */

static nm_span rest_of(const nm_write_out *write) {
  nm_span all = nm_block_span(write->content);
  return nm_span_slice(all, write->made, all.len - write->made);
}

static bool link_is_fast(const nm_channel *core) {
  uint64_t rtt = core->proof_rtt_us != 0 ? core->proof_rtt_us : core->rtt_us;
  uint64_t per_second =
      (uint64_t)core->window.window_max * core->mdu * 1000000u;
  return per_second / (rtt == 0 ? 1 : rtt) > COMPRESS_RATE_MAX;
}

static bool worth_a_trial(const nm_link_channel *channel, nm_stream_out *stream,
                          nm_span rest) {
  const nm_write_out *write = stream->first;
  if (stream->plain_next || rest.len <= NM_STREAM_COMPRESS_MIN ||
      write->compression == NM_RESOURCE_COMPRESS_OFF) {
    stream->plain_next = false;
    return false;
  }
  if (write->compression == NM_RESOURCE_COMPRESS_WHEN_SMALLER) {
    return true;
  }
  if (stream->skip > 0) {
    stream->skip--;
    return false;
  }
  return !link_is_fast(&channel->core) && !nm_resource_looks_random(rest);
}

/* Hands the front of the stream to a job. False: there is no room for one. */
static bool start_packing(nm_link_channel *channel, nm_stream_out *stream,
                          nm_span rest) {
  nm_drop drop;
  nm_job *job =
      nm_engine_new_job(channel->engine, NM_JOB_STREAM_PACK, NULL, &drop);
  if (job == NULL) {
    return false;
  }
  size_t len = rest.len < NM_STREAM_CHUNK_MAX ? rest.len : NM_STREAM_CHUNK_MAX;
  stream->packing = channel->next_serial++;
  job->done = nm_stream_packed;
  job->link = channel->link->ref;
  job->token = stream->packing;
  nm_job_stream_pack *j = &job->u.stream_pack;
  j->stream = stream->id;
  j->content = nm_block_hold(stream->first->content);
  j->bytes = nm_span_slice(rest, 0, len);
  j->eof = stream->first->eof && len == rest.len;
  j->channel_mdu = channel->core.mdu;
  nm_engine_submit(channel->engine, job);
  return true;
}

/* ---- messages ---- */

static void report(nm_link_channel *channel, const nm_write_out *write,
                   const nm_stream_written *made, bool eof, uint16_t sequence) {
  if (!channel->reports) {
    return;
  }
  nm_event event = nm_link_event(channel->link, NM_EVENT_STREAM_MADE);
  event.op = write->op;
  event.stream = write->stream;
  event.sequence = sequence;
  event.done_bytes = made->consumed;
  event.wire_bytes = made->length;
  event.compressed = made->compressed;
  event.eof = eof;
  nm_engine_emit_lossy(channel->engine, &event);
}

/* A message has left: what it took of the stream's first write. */
static void made(nm_link_channel *channel, nm_stream_out *stream,
                 const nm_stream_written *written, uint16_t sequence) {
  nm_write_out *write = stream->first;
  write->made += written->consumed;
  write->letters++;
  write->wire_bytes += written->length;
  write->all_made = write->made == size_of(write);
  report(channel, write, written, write->eof && write->all_made, sequence);
  if (write->all_made) {
    stream->first = write->next;
    if (stream->first == NULL) {
      stream->last = NULL;
    }
  }
}

static int send_message(nm_link_channel *channel, nm_stream_out *stream,
                        const nm_span *parts, size_t count,
                        const nm_stream_written *written) {
  nm_engine *engine = channel->engine;
  nm_channel_letter *letter = nm_alloc_zero(engine->mem, 1, sizeof(*letter));
  if (letter == NULL) {
    return NM_E(MEMORY);
  }
  letter->write = stream->first;
  letter->taken = written->consumed;
  uint16_t sequence = 0;
  int status = nm_channel_send(&channel->core, NM_CHANNEL_STREAM_DATA, parts,
                               count, letter, &sequence, engine->now.mono_us);
  if (status != NM_OK) {
    nm_release(engine->mem, letter);
    return status;
  }
  made(channel, stream, written, sequence);
  return NM_OK;
}

static int send_packed(nm_link_channel *channel, nm_stream_out *stream) {
  nm_span message = nm_block_span(stream->packed);
  int status = send_message(channel, stream, &message, 1, &stream->result);
  if (status == NM_OK) {
    nm_block_drop(stream->packed);
    stream->packed = NULL;
  }
  return status;
}

static int send_plain(nm_link_channel *channel, nm_stream_out *stream,
                      nm_span rest) {
  size_t len = channel->core.mdu - NM_STREAM_HEADER_SIZE;
  len = len < NM_STREAM_CHUNK_MAX ? len : NM_STREAM_CHUNK_MAX;
  len = len < rest.len ? len : rest.len;
  nm_stream_message head = {.stream_id = stream->id,
                            .eof = stream->first->eof && len == rest.len};
  uint8_t header[NM_STREAM_HEADER_SIZE];
  nm_writer w = nm_writer_of(header, sizeof(header));
  int status = nm_stream_encode(&head, &w);
  if (status != NM_OK) {
    return status;
  }
  nm_span parts[2] = {nm_writer_done(&w), nm_span_slice(rest, 0, len)};
  nm_stream_written written = {.consumed = len,
                               .length = NM_STREAM_HEADER_SIZE + len};
  return send_message(channel, stream, parts, 2, &written);
}

/* One message of |stream|, or the job that makes it. */
static int step(nm_link_channel *channel, nm_stream_out *stream) {
  if (stream->packed != NULL) {
    return send_packed(channel, stream);
  }
  nm_span rest = rest_of(stream->first);
  if (worth_a_trial(channel, stream, rest) &&
      start_packing(channel, stream, rest)) {
    return NM_OK;
  }
  return send_plain(channel, stream, rest);
}

/* A place is left to an application that was told of it. */
static bool has_room(const nm_link_channel *channel) {
  uint32_t left = channel->engine->now.mono_us < channel->app_turn_us;
  return nm_channel_room(&channel->core) > left;
}

bool nm_streams_step(nm_link_channel *channel) {
  if (channel->turn_first == NULL || channel->stuck || !has_room(channel)) {
    return false;
  }
  nm_stream_out *stream = next_in_turn(channel);
  if (stream->first != NULL) { /* else it was cancelled meanwhile */
    /* What cannot leave now is tried again; its place in the window is free. */
    channel->stuck = step(channel, stream) != NM_OK;
    nm_stream_queue(channel, stream);
  }
  return true;
}

/* ---- the end ---- */

void nm_streams_close(nm_link_channel *channel) {
  while (channel->streams != NULL) {
    nm_stream_out *stream = channel->streams;
    channel->streams = stream->next;
    while (stream->first != NULL) {
      nm_write_out *write = stream->first;
      stream->first = write->next;
      nm_stream_write_end_op(channel, write, NM_E(STATE), NM_STAGE_LINK);
      free_write(channel, write);
    }
    nm_block_drop(stream->packed);
    nm_release(channel->engine->mem, stream);
  }
  channel->turn_first = NULL;
  channel->turn_last = NULL;
}
