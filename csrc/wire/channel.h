/* Channel envelopes (RNS 2, 4.1): the plaintext of a packet with context
 * CHANNEL.
 */
#ifndef NM_WIRE_CHANNEL_H
#define NM_WIRE_CHANNEL_H

#include "base/cursor.h"

#define NM_CHANNEL_HEADER_SIZE 6
#define NM_CHANNEL_PAYLOAD_MAX 65535
/* Message types from here on are reserved. */
#define NM_CHANNEL_RESERVED 0xF000u
/* The one system type: stream data. */
#define NM_CHANNEL_STREAM_DATA 0xFF00u

typedef struct nm_channel_envelope {
  uint16_t msgtype;
  uint16_t sequence;
  /* The length that the sender wrote. Receivers use the bytes that are there
   * (RNS 2, 4.1), so it may differ from payload.len after decoding. Ignored
   * when encoding. */
  uint16_t declared;
  nm_span payload; /* borrowed */
} nm_channel_envelope;

/* Reads an envelope; the payload is all that follows the header. Field
 * "envelope": TRUNCATED below 6 bytes. */
int nm_channel_decode(nm_span in, nm_channel_envelope *env, nm_fault *fault);

/* Bytes that nm_channel_encode writes. */
size_t nm_channel_size(const nm_channel_envelope *env);

/* Writes an envelope whose length field is payload.len. NM_E(TOO_LARGE) when
 * the payload is above 65535 bytes or does not fit |w|. */
int nm_channel_encode(const nm_channel_envelope *env, nm_writer *w);

/* Largest payload on a link with |link_mdu| bytes: min(link_mdu - 6, 65535), 0
 * when the header alone does not fit. */
size_t nm_channel_mdu(size_t link_mdu);

#endif
