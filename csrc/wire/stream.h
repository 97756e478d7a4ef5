/* Stream data messages (RNS 2, 4.3): the payload of a channel envelope of type
 * 0xFF00, and the choice a writer makes of how much to put in one.
 */
#ifndef NM_WIRE_STREAM_H
#define NM_WIRE_STREAM_H

#include "base/cursor.h"
#include "base/mem.h"

#define NM_STREAM_HEADER_SIZE 2
#define NM_STREAM_ID_MAX 0x3FFFu
#define NM_STREAM_EOF 0x8000u
#define NM_STREAM_COMPRESSED 0x4000u
/* Most bytes that one message may hold after decompression, and most that a
 * writer takes at once. */
#define NM_STREAM_CHUNK_MAX 16384
/* Compression is tried above this many bytes. */
#define NM_STREAM_COMPRESS_MIN 32

typedef struct nm_stream_message {
  uint16_t stream_id; /* 0..16383, as known to the receiver */
  bool eof;
  bool compressed; /* `data` is one bzip2 stream */
  nm_span data;    /* as on the wire; borrowed when decoded */
} nm_stream_message;

/* Reads a message; the data stay compressed. Field "stream": TRUNCATED below 2
 * bytes. */
int nm_stream_decode(nm_span in, nm_stream_message *msg, nm_fault *fault);

/* Bytes that nm_stream_encode writes. */
size_t nm_stream_size(const nm_stream_message *msg);

/* Writes header and data as given. NM_E(RANGE) when the id is above 16383,
 * NM_E(TOO_LARGE) when it does not fit. */
int nm_stream_encode(const nm_stream_message *msg, nm_writer *w);

/* The data of |msg| in the clear: when it is compressed it is unpacked into
 * |out| (at most |limit| bytes; 0 means 16384) with scratch from |mem| and
 * |*data| points into |out|, else |*data| is msg->data. Field "stream.data":
 * LIMIT when more would come out, COMPRESSED when the stream is broken,
 * incomplete or followed by other bytes, MEMORY. */
int nm_stream_data(const nm_stream_message *msg, size_t limit,
                   const nm_mem *mem, nm_buffer *out, nm_span *data,
                   nm_fault *fault);

/* What nm_stream_write made. */
typedef struct nm_stream_written {
  size_t consumed; /* bytes of the input that the message carries */
  size_t length;   /* bytes of the message */
  bool compressed;
} nm_stream_written;

/* Makes the next message of a stream from the front of |data| by the rule of
 * the reference writer (RNS 2, 4.3): at most 16384 bytes are taken; above 32
 * bytes the first 1/1, 1/2, 1/3 of them are tried compressed and the first
 * result that is smaller than |channel_mdu| - 2 bytes and than its input is
 * used; else as many bytes as fit go raw. |eof| sets the end bit, if the
 * message carries all of |data|. |w| needs room for channel_mdu bytes.
 * NM_E(RANGE) for the id, NM_E(ARGUMENT) when |channel_mdu| < 3,
 * NM_E(TOO_LARGE), NM_E(MEMORY). */
int nm_stream_write(uint16_t stream_id, nm_span data, bool eof,
                    size_t channel_mdu, const nm_mem *mem, nm_writer *w,
                    nm_stream_written *written);

#endif
