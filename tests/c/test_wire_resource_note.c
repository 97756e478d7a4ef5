#include "support.h"

#include "wire/resource_note.h"

#include <string.h>

static const uint8_t hash[NM_HASH_SIZE] = {0xA0, 0xA1};
static const uint8_t digest[NM_HASH_SIZE] = {0xB0, 0xB1};

static nm_resource_note note_of(uint64_t held) {
  nm_resource_note note = {
      .hash = nm_span_of(hash, sizeof hash), .zstd = true, .held = held};
  if (held > 0) {
    note.digest = nm_span_of(digest, sizeof digest);
  }
  return note;
}

static nm_span packed(const nm_resource_note *note, uint8_t *into) {
  nm_writer w = nm_writer_of(into, NM_RESOURCE_NOTE_SIZE_MAX);
  NM_CHECK_OK(nm_resource_note_encode(note, &w));
  return nm_writer_done(&w);
}

NM_TEST(notes_are_laid_out_as_specified) {
  uint8_t bytes[NM_RESOURCE_NOTE_SIZE_MAX];
  nm_resource_note note = note_of(0x0102030405060708);
  nm_span whole = packed(&note, bytes);
  NM_CHECK_INT(whole.len, 74);
  NM_CHECK_INT(bytes[0], 0x4E);
  NM_CHECK_BYTES(&bytes[1], hash, 32);
  NM_CHECK_INT(bytes[33], 0x01);
  NM_CHECK_BYTES(&bytes[34], "\1\2\3\4\5\6\7\10", 8);
  NM_CHECK_BYTES(&bytes[42], digest, 32);
  note = note_of(0);
  note.zstd = false;
  note.pending = true;
  NM_CHECK_INT(packed(&note, bytes).len, 42);
  NM_CHECK_INT(bytes[33], 0x02);
}

NM_TEST(notes_are_read_as_they_were_written) {
  for (int bits = 0; bits < 8; bits++) {
    uint8_t bytes[NM_RESOURCE_NOTE_SIZE_MAX];
    nm_resource_note note = note_of((bits & 1) != 0 ? UINT64_MAX : 0);
    nm_resource_note read;
    note.zstd = (bits & 2) != 0;
    note.pending = (bits & 4) != 0;
    nm_span whole = packed(&note, bytes);
    NM_CHECK(nm_resource_is_note(whole));
    bytes[33] |= 0xF0; /* what later versions may say */
    NM_CHECK_OK(nm_resource_note_decode(whole, &read, NULL));
    NM_CHECK_SPAN(read.hash, note.hash);
    NM_CHECK_SPAN(read.digest, note.digest);
    NM_CHECK(read.held == note.held);
    NM_CHECK(read.zstd == note.zstd && read.pending == note.pending);
  }
}

NM_TEST(notes_of_other_lengths_are_refused) {
  uint8_t bytes[NM_RESOURCE_NOTE_SIZE_MAX + 1] = {0};
  nm_resource_note note = note_of(5);
  nm_resource_note read;
  nm_fault fault;
  nm_span whole = packed(&note, bytes);
  for (size_t len = 0; len <= whole.len + 1; len++) {
    int status = nm_resource_note_decode(nm_span_of(bytes, len), &read, &fault);
    NM_CHECK_STATUS(status, len == whole.len ? NM_OK
                            : len < 42       ? NM_E(TRUNCATED)
                                             : NM_E(LENGTH));
  }
  bytes[41] = 0; /* nothing is held, and there is a hash of it */
  NM_CHECK_STATUS(nm_resource_note_decode(whole, &read, &fault), NM_E(LENGTH));
  NM_CHECK(strcmp(fault.field, "note.digest") == 0);
}

NM_TEST(part_requests_are_no_notes) {
  uint8_t request[37] = {0};
  nm_resource_note read;
  NM_CHECK(!nm_resource_is_note(nm_span_of(request, sizeof request)));
  request[0] = 0xFF;
  NM_CHECK(!nm_resource_is_note(nm_span_of(request, sizeof request)));
  NM_CHECK(!nm_resource_is_note(nm_span_of(request, 0)));
  NM_CHECK_STATUS(
      nm_resource_note_decode(nm_span_of(request, sizeof request), &read, NULL),
      NM_E(VALUE));
}
