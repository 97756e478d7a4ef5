/* Cursors: the only place where wire bytes are addressed.
 *
 * A reader walks over borrowed input, a writer over a caller's buffer of fixed
 * size. Both latch the first failure: after it every further call fails too,
 * so a run of calls may be checked once at its end. All integers are
 * big-endian. The functions are inline because codecs of a few nanoseconds are
 * made of them.
 */
#ifndef NM_BASE_CURSOR_H
#define NM_BASE_CURSOR_H

#include "base/bytes.h"
#include "base/status.h"

#include <string.h>

typedef struct nm_reader {
  const uint8_t *base;
  size_t len;
  size_t pos;
  int status; /* 0 or the first failure */
} nm_reader;

typedef struct nm_writer {
  uint8_t *base;
  size_t cap;
  size_t pos;
  int status; /* 0 or the first failure */
} nm_writer;

static inline nm_reader nm_reader_of(nm_span in) {
  nm_reader r = {in.ptr, in.len, 0, NM_OK};
  return r;
}

static inline nm_writer nm_writer_of(void *buf, size_t cap) {
  nm_writer w = {(uint8_t *)buf, cap, 0, NM_OK};
  return w;
}

static inline size_t nm_reader_left(const nm_reader *r) {
  return r->len - r->pos;
}

static inline size_t nm_writer_left(const nm_writer *w) {
  return w->cap - w->pos;
}

/* Takes |n| bytes; an empty span and status TRUNCATED when fewer are left. */
static inline nm_span nm_reader_take(nm_reader *r, size_t n) {
  if (r->status != NM_OK || nm_reader_left(r) < n) {
    if (r->status == NM_OK) {
      r->status = NM_E(TRUNCATED);
    }
    return nm_span_of(NULL, 0);
  }
  /* An empty input may have no address, to which nothing may be added. */
  nm_span s = nm_span_of(r->pos == 0 ? r->base : r->base + r->pos, n);
  r->pos += n;
  return s;
}

/* Takes all that is left (possibly nothing). */
static inline nm_span nm_reader_rest(nm_reader *r) {
  return nm_reader_take(r, r->status == NM_OK ? nm_reader_left(r) : 0);
}

/* Takes what comes before the next |stop| byte, which is left; all that is left
 * when there is none. */
static inline nm_span nm_reader_until(nm_reader *r, uint8_t stop) {
  size_t left = r->status == NM_OK ? nm_reader_left(r) : 0;
  if (left == 0) {
    return nm_span_of(NULL, 0);
  }
  const uint8_t *from = r->base + r->pos;
  const uint8_t *hit = (const uint8_t *)memchr(from, stop, left);
  return nm_reader_take(r, hit != NULL ? (size_t)(hit - from) : left);
}

/* Copies |n| bytes to |dst|; returns whether they were there. */
static inline bool nm_reader_copy(nm_reader *r, void *dst, size_t n) {
  nm_span s = nm_reader_take(r, n);
  if (r->status != NM_OK) {
    return false;
  }
  if (n > 0) {
    memcpy(dst, s.ptr, n);
  }
  return true;
}

static inline uint8_t nm_reader_u8(nm_reader *r) {
  nm_span s = nm_reader_take(r, 1);
  return s.len == 1 ? s.ptr[0] : 0;
}

static inline uint16_t nm_reader_u16(nm_reader *r) {
  nm_span s = nm_reader_take(r, 2);
  if (s.len != 2) {
    return 0;
  }
  return (uint16_t)(((unsigned)s.ptr[0] << 8) | s.ptr[1]);
}

static inline uint32_t nm_reader_u32(nm_reader *r) {
  nm_span s = nm_reader_take(r, 4);
  if (s.len != 4) {
    return 0;
  }
  return ((uint32_t)s.ptr[0] << 24) | ((uint32_t)s.ptr[1] << 16) |
         ((uint32_t)s.ptr[2] << 8) | s.ptr[3];
}

/* One take, and shifts that compilers turn into one load and a byte swap. */
static inline uint64_t nm_reader_u64(nm_reader *r) {
  nm_span s = nm_reader_take(r, 8);
  if (s.len != 8) {
    return 0;
  }
  return ((uint64_t)s.ptr[0] << 56) | ((uint64_t)s.ptr[1] << 48) |
         ((uint64_t)s.ptr[2] << 40) | ((uint64_t)s.ptr[3] << 32) |
         ((uint64_t)s.ptr[4] << 24) | ((uint64_t)s.ptr[5] << 16) |
         ((uint64_t)s.ptr[6] << 8) | s.ptr[7];
}

/* Reserves |n| bytes of output; NULL and status TOO_LARGE when they do not
 * fit. */
static inline uint8_t *nm_writer_reserve(nm_writer *w, size_t n) {
  if (w->status != NM_OK || nm_writer_left(w) < n) {
    if (w->status == NM_OK) {
      w->status = NM_E(TOO_LARGE);
    }
    return NULL;
  }
  uint8_t *p = w->pos == 0 ? w->base : w->base + w->pos;
  w->pos += n;
  return p;
}

static inline void nm_writer_put(nm_writer *w, const void *src, size_t n) {
  uint8_t *p = nm_writer_reserve(w, n);
  if (p != NULL && n > 0) {
    memcpy(p, src, n);
  }
}

static inline void nm_writer_span(nm_writer *w, nm_span s) {
  nm_writer_put(w, s.ptr, s.len);
}

static inline void nm_writer_u8(nm_writer *w, uint8_t v) {
  nm_writer_put(w, &v, 1);
}

static inline void nm_writer_u16(nm_writer *w, uint16_t v) {
  uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  nm_writer_put(w, b, 2);
}

static inline void nm_writer_u32(nm_writer *w, uint32_t v) {
  uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                  (uint8_t)v};
  nm_writer_put(w, b, 4);
}

static inline void nm_writer_u64(nm_writer *w, uint64_t v) {
  uint8_t b[8] = {(uint8_t)(v >> 56), (uint8_t)(v >> 48), (uint8_t)(v >> 40),
                  (uint8_t)(v >> 32), (uint8_t)(v >> 24), (uint8_t)(v >> 16),
                  (uint8_t)(v >> 8),  (uint8_t)v};
  nm_writer_put(w, b, 8);
}

/* What was written so far. */
static inline nm_span nm_writer_done(const nm_writer *w) {
  return nm_span_of(w->base, w->pos);
}

#endif
