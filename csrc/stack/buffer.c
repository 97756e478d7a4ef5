/* Streams over a link's channel: writes, reports, the jobs of the writer.
 */
#include "stack/channel_link.h"

/* Messages between two trials of compression, at most. */
#define SKIP_MAX 1024u

static nm_link_channel *open_channel(nm_engine *engine, nm_link_ref ref) {
  nm_link *link = nm_link_find(engine, ref);
  return link != NULL && link->channel != NULL && link->channel->core.open
             ? link->channel
             : NULL;
}

/* ---- compressed messages ---- */

/* What a trial says about the next ones. */
static void learn(nm_stream_out *stream, bool helped) {
  stream->vain = helped ? 0 : stream->vain + (stream->vain < 10);
  uint32_t skip = helped ? 0 : (1u << stream->vain) - 1;
  stream->skip = skip < SKIP_MAX ? skip : SKIP_MAX;
}

void nm_stream_packed(nm_engine *engine, nm_job *job) {
  nm_link_channel *channel = open_channel(engine, job->link);
  nm_job_stream_pack *j = &job->u.stream_pack;
  nm_stream_out *stream =
      channel == NULL ? NULL : nm_stream_out_find(channel, j->stream);
  if (stream == NULL || stream->packing != job->token) {
    return; /* the link or the write ended meanwhile */
  }
  stream->packing = 0;
  if (job->status == NM_OK) {
    stream->packed = nm_block_hold(j->message);
    stream->result = j->written;
    learn(stream, j->written.compressed);
  } else {
    stream->plain_next = true;
  }
  nm_stream_queue(channel, stream);
  nm_link_channel_settle(channel);
}

/* ---- writes ---- */

static nm_stream_out *stream_for(nm_link_channel *channel, uint16_t id,
                                 int *status) {
  nm_stream_out *stream = nm_stream_out_find(channel, id);
  if (stream != NULL) {
    *status = stream->ended ? NM_E(STATE) : NM_OK;
    return stream;
  }
  if (channel->stream_count >= NM_STREAMS_MAX) {
    *status = NM_E(LIMIT);
    return NULL;
  }
  stream = nm_alloc_zero(channel->engine->mem, 1, sizeof(*stream));
  *status = stream == NULL ? NM_E(MEMORY) : NM_OK;
  if (stream != NULL) {
    stream->id = id;
    stream->next = channel->streams;
    channel->streams = stream;
    channel->stream_count++;
  }
  return stream;
}

static nm_write_out *new_write(nm_link_channel *channel, uint16_t stream,
                               bool wants_op) {
  nm_engine *engine = channel->engine;
  nm_write_out *write = nm_alloc_zero(engine->mem, 1, sizeof(*write));
  if (write == NULL) {
    return NULL;
  }
  if (wants_op) {
    nm_op *op = nm_op_begin(&engine->ops, NM_OP_STREAM, write);
    if (op == NULL) {
      nm_release(engine->mem, write);
      return NULL;
    }
    write->op = op->id;
  }
  write->stream = stream;
  write->channel = channel;
  channel->write_count++;
  return write;
}

static void append(nm_stream_out *stream, nm_write_out *write) {
  if (stream->last != NULL) {
    stream->last->next = write;
  } else {
    stream->first = write;
  }
  stream->last = write;
}

int nm_engine_stream_write(nm_engine *engine, nm_link_ref link, uint16_t id,
                           nm_block *content, bool eof,
                           nm_resource_compression compression, nm_op_id *op,
                           nm_now now) {
  engine->now = now;
  if (id > NM_STREAM_ID_MAX) {
    return NM_E(RANGE);
  }
  nm_link_channel *channel = open_channel(engine, link);
  if (channel == NULL) {
    return NM_E(STATE);
  }
  if (channel->write_count >= NM_STREAM_WRITES_MAX) {
    return NM_E(LIMIT);
  }
  int status;
  nm_stream_out *stream = stream_for(channel, id, &status);
  if (status != NM_OK) {
    return status;
  }
  nm_write_out *write = new_write(channel, id, op != NULL);
  if (write == NULL) {
    return NM_E(MEMORY);
  }
  if (op != NULL) {
    *op = write->op;
  }
  write->content = content == NULL ? NULL : nm_block_hold(content);
  write->eof = eof;
  write->compression = compression;
  stream->ended = eof;
  if (nm_block_span(content).len == 0 && !eof) {
    write->all_made = true;
    nm_stream_write_settle(channel, write);
    return NM_OK;
  }
  append(stream, write);
  nm_stream_queue(channel, stream);
  nm_link_channel_settle(channel);
  return NM_OK;
}

int nm_engine_stream_reports(nm_engine *engine, nm_link_ref link, bool on) {
  nm_link_channel *channel = open_channel(engine, link);
  if (channel == NULL) {
    return NM_E(STATE);
  }
  channel->reports = on;
  return NM_OK;
}

/* ---- cancelling ---- */

/* Takes |write| out of its stream's queue, if it is there. */
static void leave_queue(nm_stream_out *stream, const nm_write_out *write) {
  nm_write_out *before = NULL;
  nm_write_out *at = stream->first;
  while (at != NULL && at != write) {
    before = at;
    at = at->next;
  }
  if (at == NULL) {
    return;
  }
  if (before != NULL) {
    before->next = at->next;
  } else {
    stream->first = at->next;
    /* What a job makes or has made is of this write. */
    stream->packing = 0;
    nm_block_drop(stream->packed);
    stream->packed = NULL;
  }
  if (stream->last == at) {
    stream->last = before;
  }
}

void nm_stream_op_cancel(nm_engine *engine, nm_op *op) {
  nm_write_out *write = op->owner;
  nm_link_channel *channel = write->channel;
  nm_stream_out *stream = nm_stream_out_find(channel, write->stream);
  (void)engine;
  nm_stream_write_end_op(channel, write, NM_E(CANCELLED), NM_STAGE_CANCELLED);
  if (!write->all_made) {
    leave_queue(stream, write);
    /* Without the end that it was to bring, the stream goes on. */
    stream->ended = stream->ended && !write->eof;
    write->all_made = true;
  }
  nm_stream_write_settle(channel, write);
  nm_stream_queue(channel, stream);
  nm_link_channel_settle(channel);
}
