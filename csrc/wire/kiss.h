/* KISS framing of radio modems (RNS 1, 7.2; RNS 2, 5.10):
 *
 *   c0 | command | bytes with db -> db dd, c0 -> db dc | c0
 *
 * Command 00 is data on port 0. Receivers look at the low nibble only.
 */
#ifndef NM_WIRE_KISS_H
#define NM_WIRE_KISS_H

#include "base/cursor.h"

#define NM_KISS_FEND 0xc0
#define NM_KISS_FESC 0xdb
#define NM_KISS_TFEND 0xdc
#define NM_KISS_TFESC 0xdd

#define NM_KISS_DATA 0x00
#define NM_KISS_TXDELAY 0x01
#define NM_KISS_PERSISTENCE 0x02
#define NM_KISS_SLOTTIME 0x03
#define NM_KISS_TXTAIL 0x04
#define NM_KISS_READY 0x0f

/* The bytes that |data| takes when escaped, and framed with its command. */
size_t nm_kiss_escaped_size(nm_span data);
size_t nm_kiss_frame_size(nm_span data);

/* Appends |data| escaped, or framed after |command|, which is not escaped.
 * NM_E(TOO_LARGE) with nothing written, NM_E(VALUE) for a command that is FEND.
 * |data| must not overlap the output. */
int nm_kiss_escape(nm_writer *w, nm_span data);
int nm_kiss_frame(nm_writer *w, uint8_t command, nm_span data);

/* Appends |data| unescaped. NM_E(ESCAPE) for FEND inside, FESC at the end and
 * FESC before anything but TFEND and TFESC (streams are more lenient).
 * NM_E(TOO_LARGE). */
int nm_kiss_unescape(nm_writer *w, nm_span data, nm_fault *fault);

/* Appends the content of exactly one frame and stores the low nibble of its
 * command. NM_E(TRUNCATED) without both FENDs or without a command,
 * NM_E(VALUE) when it does not begin with FEND, NM_E(TRAILING), NM_E(EMPTY),
 * errors of nm_kiss_unescape. */
int nm_kiss_unframe(nm_writer *w, nm_span frame, uint8_t *command,
                    nm_fault *fault);

/* The start-up configuration of a TNC: preamble and tail in ms, persistence,
 * slot time in ms, each clamped to 0..255 after division by 10, then READY.
 * 20 bytes, and one more for each value that is a special byte and so is
 * escaped. NM_E(TOO_LARGE). */
typedef struct nm_kiss_config {
  uint32_t preamble_ms;
  uint32_t txtail_ms;
  uint32_t persistence;
  uint32_t slottime_ms;
} nm_kiss_config;
int nm_kiss_configure(nm_writer *w, const nm_kiss_config *config);

/* The 16-byte AX.25 header that goes before a packet: destination APZRNS, the
 * given source call sign and SSID. NM_E(LENGTH) for a call sign that is not 3
 * to 6 bytes, NM_E(RANGE) for an SSID above 15, NM_E(TOO_LARGE). */
#define NM_AX25_HEADER_SIZE 16
int nm_ax25_header(nm_writer *w, nm_span callsign, uint8_t ssid);

typedef struct nm_kiss_limits {
  size_t frame_min;  /* shorter data frames are runts; an empty one always */
  size_t frame_max;  /* longer frames are dropped: HW_MTU + IFAC size */
  uint16_t commands; /* bit n: frames with command n are delivered; 0 means
                        data only (bit NM_KISS_DATA) */
} nm_kiss_limits;

typedef struct nm_kiss_counters {
  uint64_t frames;           /* delivered */
  uint64_t empty;            /* two FENDs in a row */
  uint64_t runts;            /* dropped: too short */
  uint64_t oversize;         /* dropped: too long */
  uint64_t foreign_commands; /* dropped: a command that is not delivered */
  uint64_t ready;            /* READY frames, delivered or not */
  uint64_t discarded_bytes;  /* raw bytes outside of frames or of dropped
                                ones */
} nm_kiss_counters;

/* A streaming decoder over storage of the caller. Confined to one thread. One
 * FEND between two frames is enough. In a stream, FESC before another byte is
 * dropped and the byte is kept. */
typedef struct nm_kiss_decoder {
  nm_kiss_limits limits;
  nm_kiss_counters counters;
  uint8_t *storage; /* limits.frame_max bytes */
  size_t len;       /* unescaped bytes of the open frame */
  size_t raw;       /* raw bytes since its FEND */
  uint8_t command;  /* low nibble, valid when `has_command` */
  bool open;
  bool has_command;
  bool escape;
  bool overflow;
} nm_kiss_decoder;

/* Starts a decoder on |storage|, which has limits->frame_max bytes and stays
 * the caller's. NM_E(ARGUMENT) when frame_max is 0. */
int nm_kiss_decoder_init(nm_kiss_decoder *d, uint8_t *storage,
                         const nm_kiss_limits *limits);
void nm_kiss_decoder_reset(nm_kiss_decoder *d);

/* Takes bytes from |in| up to the end of the next frame to deliver: true,
 * |command| is its low nibble and |frame| its content, valid until the next
 * call. False when |in| is used up. Never fails. */
bool nm_kiss_decoder_next(nm_kiss_decoder *d, nm_reader *in, uint8_t *command,
                          nm_span *frame);

#endif
