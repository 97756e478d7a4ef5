#include "wire/stuffing.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

size_t nm_stuffing_size(const nm_stuffing *s, nm_span data) {
  uint8_t flag = s->flag;
  uint8_t escape = s->escape;
  size_t n = data.len;
  for (size_t i = 0; i < data.len; i++) {
    n += data.ptr[i] == flag || data.ptr[i] == escape;
  }
  return n;
}

/* Random bytes have one to be escaped in 128, so many are looked at together:
 * up to it, or up to where fewer are left. */
#if defined(__SSE2__)
static size_t skip_plain(const nm_stuffing *s, nm_span data, size_t at) {
  const __m128i flags = _mm_set1_epi8((char)s->flag);
  const __m128i escapes = _mm_set1_epi8((char)s->escape);
  for (; data.len - at >= sizeof(flags); at += sizeof(flags)) {
    __m128i bytes = _mm_loadu_si128((const void *)&data.ptr[at]);
    __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, flags),
                                 _mm_cmpeq_epi8(bytes, escapes));
    unsigned mask = (unsigned)_mm_movemask_epi8(found);
    if (mask != 0) {
      return at + (size_t)__builtin_ctz(mask);
    }
  }
  return at;
}
#else
#define ONES UINT64_C(0x0101010101010101)

/* Not 0 when a byte of |word| is 0. */
static uint64_t zero_bytes(uint64_t word) {
  return (word - ONES) & ~word & (ONES << 7);
}

static size_t skip_plain(const nm_stuffing *s, nm_span data, size_t at) {
  uint64_t flags = ONES * s->flag;
  uint64_t escapes = ONES * s->escape;
  uint64_t word;
  for (; data.len - at >= sizeof(word); at += sizeof(word)) {
    memcpy(&word, &data.ptr[at], sizeof(word));
    if ((zero_bytes(word ^ flags) | zero_bytes(word ^ escapes)) != 0) {
      return at;
    }
  }
  return at;
}
#endif

/* Where the next byte to be escaped is, from |at| on; the end when there is
 * none. */
static size_t next_special(const nm_stuffing *s, nm_span data, size_t at) {
  at = skip_plain(s, data, at);
  while (at < data.len && data.ptr[at] != s->flag &&
         data.ptr[at] != s->escape) {
    at++;
  }
  return at;
}

void nm_stuffing_put(const nm_stuffing *s, nm_writer *w, nm_span data) {
  size_t from = 0;
  while (from < data.len) {
    size_t to = next_special(s, data, from);
    nm_writer_put(w, &data.ptr[from], to - from);
    if (to < data.len) {
      nm_writer_u8(w, s->escape);
      nm_writer_u8(w, data.ptr[to] == s->flag ? s->flag_code : s->escape_code);
      to++;
    }
    from = to;
  }
}

int nm_stuffing_escape(const nm_stuffing *s, nm_writer *w, nm_span data) {
  size_t n = nm_stuffing_size(s, data);
  nm_writer part = nm_writer_of(nm_writer_reserve(w, n), n);
  if (w->status == NM_OK) {
    nm_stuffing_put(s, &part, data);
  }
  return w->status;
}

int nm_stuffing_unescape(const nm_stuffing *s, nm_writer *w, nm_span data,
                         size_t base, nm_fault *fault) {
  nm_reader r = nm_reader_of(data);
  while (nm_reader_left(&r) > 0) {
    size_t at = base + r.pos;
    uint8_t c = nm_reader_u8(&r);
    if (c == s->flag) {
      return nm_fault_set(fault, NM_E(ESCAPE), "frame", at);
    }
    if (c == s->escape) {
      c = nm_reader_u8(&r);
      if (c != s->flag_code && c != s->escape_code) {
        return nm_fault_set(fault, NM_E(ESCAPE), "frame", at);
      }
      c = c == s->flag_code ? s->flag : s->escape;
    }
    nm_writer_u8(w, c);
  }
  return w->status == NM_OK ? NM_OK
                            : nm_fault_set(fault, w->status, "output", w->pos);
}

int nm_stuffing_content(const nm_stuffing *s, nm_span frame, nm_span *content,
                        nm_fault *fault) {
  nm_reader r = nm_reader_of(frame);
  uint8_t first = nm_reader_u8(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "frame", 0);
  }
  if (first != s->flag) {
    return nm_fault_set(fault, NM_E(VALUE), "frame", 0);
  }
  *content = nm_reader_until(&r, s->flag);
  if (nm_reader_left(&r) == 0) {
    return nm_fault_set(fault, NM_E(TRUNCATED), "frame", frame.len);
  }
  if (content->len == 0) {
    return nm_fault_set(fault, NM_E(EMPTY), "frame", 1);
  }
  if (nm_reader_left(&r) > 1) {
    return nm_fault_set(fault, NM_E(TRAILING), "frame", r.pos + 1);
  }
  return NM_OK;
}
