/* What a receiver tells a sender that reads notes, which is a netmesh end too:
 * whether it takes zstd frames, and what it holds of the content from before.
 * A note goes where part requests go (context RESOURCE_REQ); its first byte
 * tells them apart. Specification: docs/reference/transfers.md.
 *
 *   offset  bytes
 *   0       1      4E
 *   1       32     h of the advertisement that is answered
 *   33      1      flags: bit 0: takes zstd frames; bit 1: has to look first
 * what it holds, another note follows; the others are 0, and ignored 34      8
 * bytes of the content that are there from before, or 0 42      32     SHA-256
 * of h and those bytes; absent when there are none
 */
#ifndef NM_WIRE_RESOURCE_NOTE_H
#define NM_WIRE_RESOURCE_NOTE_H

#include "wire/resource.h"

#define NM_RESOURCE_NOTE_MARK 0x4Eu
#define NM_RESOURCE_NOTE_SIZE_MAX 74

typedef struct nm_resource_note {
  nm_span hash;   /* 32 bytes: h */
  bool zstd;      /* takes zstd frames */
  bool pending;   /* another note follows */
  uint64_t held;  /* bytes of the content from its beginning */
  nm_span digest; /* 32 bytes, or empty */
} nm_resource_note;

/* Whether |payload| is a note and not a part request. */
static inline bool nm_resource_is_note(nm_span payload) {
  return payload.len > 0 && payload.ptr[0] == NM_RESOURCE_NOTE_MARK;
}

/* Fields: "note.mark" (VALUE), "note.hash", "note.flags", "note.held"
 * (TRUNCATED), "note.digest" (LENGTH unless 32 bytes, or 0 of nothing). Spans
 * borrow from |in|. */
int nm_resource_note_decode(nm_span in, nm_resource_note *note,
                            nm_fault *fault);
/* NM_E(TOO_LARGE). */
int nm_resource_note_encode(const nm_resource_note *note, nm_writer *w);

#endif
