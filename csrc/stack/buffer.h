/* Streams of bytes over a link's channel (RNS 2, 4.3): upstream's buffers.
 *
 * Writing: bytes are given as blocks, cut into messages as the window allows,
 * streams in turn. A write is an operation that ends with NM_EVENT_STREAM_SENT
 * when the peer has proven all of it. Reading: NM_EVENT_STREAM_DATA brings the
 * bytes of each stream in order, then its end (`eof`); each holds credit, so a
 * reader that does not grant any stops the writer. The two directions of a
 * stream end each for itself.
 */
#ifndef NM_STACK_BUFFER_H
#define NM_STACK_BUFFER_H

#include "base/block.h"
#include "stack/channel.h"
#include "wire/resource_build.h"
#include "wire/stream.h"

/* Writes of one channel that have not ended. */
#define NM_STREAM_WRITES_MAX 256
/* Streams of one channel that were written to. */
#define NM_STREAMS_MAX 1024

/* Writes |content| (one more reference is taken; NULL: no bytes) to |stream|
 * and, with |eof|, ends it. |compression|: OFF sends the bytes as they are;
 * WHEN_SMALLER tries to compress each message as upstream's writer does;
 * AUTOMATIC tries only what does not look like noise, less and less often while
 * it does not help, and not on links that are faster than the compressor. |op|
 * may be NULL. NM_E(RANGE) for the id, NM_E(STATE) without an open channel or
 * after the stream's end, NM_E(LIMIT) when too many writes wait, NM_E(MEMORY).
 * A cancelled write makes no more messages. */
int nm_engine_stream_write(nm_engine *engine, nm_link_ref link, uint16_t stream,
                           nm_block *content, bool eof,
                           nm_resource_compression compression, nm_op_id *op,
                           nm_now now);
/* With |on| each message that a writer makes is told by an
 * NM_EVENT_STREAM_MADE: its length in `wire_bytes`, what it took of the stream
 * in `done_bytes`, `compressed`, `eof`, `sequence`. NM_E(STATE). */
int nm_engine_stream_reports(nm_engine *engine, nm_link_ref link, bool on);

#endif
