#include "wire/resource_note.h"

#define TAKES_ZSTD 0x01u
#define PENDING 0x02u

int nm_resource_note_decode(nm_span in, nm_resource_note *note,
                            nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  if (nm_reader_u8(&r) != NM_RESOURCE_NOTE_MARK) {
    return nm_fault_set(fault, r.status != NM_OK ? r.status : NM_E(VALUE),
                        "note.mark", 0);
  }
  note->hash = nm_reader_take(&r, NM_HASH_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "note.hash", r.pos);
  }
  uint8_t flags = nm_reader_u8(&r);
  note->zstd = (flags & TAKES_ZSTD) != 0;
  note->pending = (flags & PENDING) != 0;
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "note.flags", r.pos);
  }
  note->held = nm_reader_u64(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "note.held", r.pos);
  }
  size_t at = r.pos;
  note->digest = nm_reader_rest(&r);
  if (note->digest.len != (note->held == 0 ? 0 : NM_HASH_SIZE)) {
    return nm_fault_set(fault, NM_E(LENGTH), "note.digest", at);
  }
  return NM_OK;
}

int nm_resource_note_encode(const nm_resource_note *note, nm_writer *w) {
  nm_writer_u8(w, NM_RESOURCE_NOTE_MARK);
  nm_writer_span(w, note->hash);
  nm_writer_u8(w, (uint8_t)((note->zstd ? TAKES_ZSTD : 0) |
                            (note->pending ? PENDING : 0)));
  nm_writer_u64(w, note->held);
  nm_writer_span(w, note->digest);
  return w->status;
}
