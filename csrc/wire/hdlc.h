/* HDLC-like framing of stream media (RNS 1, 7.1):
 *
 *   7e | packet with 7d -> 7d 5d, 7e -> 7d 5e | 7e
 *
 * No checksum, no address. A sender writes both flags of every frame; this
 * receiver also accepts one flag between two frames, as TCP readers do.
 */
#ifndef NM_WIRE_HDLC_H
#define NM_WIRE_HDLC_H

#include "base/cursor.h"

#define NM_HDLC_FLAG 0x7e
#define NM_HDLC_ESCAPE 0x7d
#define NM_HDLC_MASK 0x20
/* Frames of fewer bytes are dropped by stream readers. */
#define NM_HDLC_FRAME_MIN 20

/* The bytes that |data| takes when escaped, and with its two flags. */
size_t nm_hdlc_escaped_size(nm_span data);
size_t nm_hdlc_frame_size(nm_span data);

/* Appends |data| escaped, or framed. NM_E(TOO_LARGE) when it does not fit, with
 * nothing written. |data| must not overlap the output. */
int nm_hdlc_escape(nm_writer *w, nm_span data);
int nm_hdlc_frame(nm_writer *w, nm_span data);

/* Appends |data| unescaped; never more than data.len bytes. A flag inside is
 * NM_E(ESCAPE), as are 7d at the end and 7d before anything but 5d and 5e
 * (streams are more lenient, see below). NM_E(TOO_LARGE). */
int nm_hdlc_unescape(nm_writer *w, nm_span data, nm_fault *fault);

/* Appends the content of exactly one frame, from flag to flag. NM_E(TRUNCATED)
 * without both flags, NM_E(VALUE) when it does not begin with one,
 * NM_E(TRAILING), NM_E(EMPTY), errors of nm_hdlc_unescape. */
int nm_hdlc_unframe(nm_writer *w, nm_span frame, nm_fault *fault);

/* Limits of one stream. */
typedef struct nm_hdlc_limits {
  size_t frame_min;    /* shorter frames are runts; 0 and 1: none are */
  size_t frame_max;    /* longer frames are dropped: HW_MTU + IFAC size */
  size_t buffered_max; /* raw bytes since a flag, without a second one, after
                          which the frame is given up: 2 * HW_MTU */
} nm_hdlc_limits;

typedef struct nm_hdlc_counters {
  uint64_t frames;      /* delivered */
  uint64_t empty;       /* two flags in a row: keepalive */
  uint64_t runts;       /* dropped: too short */
  uint64_t oversize;    /* dropped: too long, or given up */
  uint64_t bad_escapes; /* 7d before a byte other than 5d, 5e; both are kept */
  uint64_t discarded_bytes; /* raw bytes outside of frames or of dropped ones */
} nm_hdlc_counters;

/* A streaming decoder over storage of the caller. Confined to one thread. */
typedef struct nm_hdlc_decoder {
  nm_hdlc_limits limits;
  nm_hdlc_counters counters;
  uint8_t *storage; /* limits.frame_max bytes */
  size_t len;       /* unescaped bytes of the open frame, up to frame_max */
  size_t raw;       /* raw bytes since its flag, the flag included */
  bool open;        /* a flag was seen */
  bool escape;      /* the last byte was 7d */
  bool overflow;    /* the open frame is longer than frame_max */
} nm_hdlc_decoder;

/* Starts a decoder on |storage|, which has limits->frame_max bytes (at least
 * one) and stays the caller's. NM_E(ARGUMENT) when frame_max is 0 or
 * buffered_max is smaller than frame_max. */
int nm_hdlc_decoder_init(nm_hdlc_decoder *d, uint8_t *storage,
                         const nm_hdlc_limits *limits);

/* Forgets a partial frame; counters stay. */
void nm_hdlc_decoder_reset(nm_hdlc_decoder *d);

/* Takes bytes from |in| up to the end of the next good frame: true, and
 * |frame| holds its content, valid until the next call and as long as the
 * bytes behind |in| (a frame that lies in |in| whole and has no escapes is
 * borrowed from there). False when |in| is used up. Call it until it is
 * false. Never fails: what cannot be a frame is counted. */
bool nm_hdlc_decoder_next(nm_hdlc_decoder *d, nm_reader *in, nm_span *frame);

#endif
