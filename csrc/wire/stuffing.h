/* Byte stuffing, as both framings of streams have it (RNS 1, 7.1, 7.2): a frame
 * stands between flags; a flag or an escape inside becomes an escape and a code
 * of its own.
 */
#ifndef NM_WIRE_STUFFING_H
#define NM_WIRE_STUFFING_H

#include "base/cursor.h"

typedef struct nm_stuffing {
  uint8_t flag;
  uint8_t escape;
  uint8_t flag_code; /* follows the escape in the place of a flag */
  uint8_t escape_code;
} nm_stuffing;

/* The bytes that |data| takes when escaped. */
size_t nm_stuffing_size(const nm_stuffing *s, nm_span data);
/* Appends |data| escaped. NM_E(TOO_LARGE) when it does not fit, with nothing
 * written. */
int nm_stuffing_escape(const nm_stuffing *s, nm_writer *w, nm_span data);
/* The same to a place that is known to be large enough. */
void nm_stuffing_put(const nm_stuffing *s, nm_writer *w, nm_span data);
/* Appends |data| unescaped, which begins at |base| of what the caller was
 * given: that is where faults are. NM_E(ESCAPE) for a flag inside and for an
 * escape before anything but the two codes; NM_E(TOO_LARGE). */
int nm_stuffing_unescape(const nm_stuffing *s, nm_writer *w, nm_span data,
                         size_t base, nm_fault *fault);
/* What stands in exactly one frame, still escaped. NM_E(TRUNCATED) without both
 * flags, NM_E(VALUE) when it does not begin with one, NM_E(TRAILING),
 * NM_E(EMPTY). */
int nm_stuffing_content(const nm_stuffing *s, nm_span frame, nm_span *content,
                        nm_fault *fault);

#endif
