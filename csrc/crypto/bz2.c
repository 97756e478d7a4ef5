#include "crypto/bz2.h"

#include <bzlib.h>
#include <limits.h>
#include <string.h>

#define CHUNK_MIN 4096u
#define CHUNK_MAX (1u << 20)

static void *library_alloc(void *opaque, int count, int size) {
  if (count <= 0 || size <= 0 || count > INT_MAX / size) {
    return NULL;
  }
  return nm_alloc((const nm_mem *)opaque, (size_t)count * (size_t)size);
}

static void library_free(void *opaque, void *ptr) {
  nm_release((const nm_mem *)opaque, ptr);
}

static bz_stream stream_of(const nm_mem *mem) {
  bz_stream s;
  memset(&s, 0, sizeof s);
  s.bzalloc = library_alloc;
  s.bzfree = library_free;
  /* The library hands the pointer back and nothing else. */
  s.opaque = (void *)(uintptr_t)mem;
  return s;
}

static int status_of(int code) {
  switch (code) {
  case BZ_OK:
  case BZ_RUN_OK:
  case BZ_FINISH_OK:
  case BZ_STREAM_END:
    return NM_OK;
  case BZ_MEM_ERROR:
    return NM_E(MEMORY);
  case BZ_DATA_ERROR:
  case BZ_DATA_ERROR_MAGIC:
    return NM_E(COMPRESSED);
  default:
    return NM_E(LIBRARY);
  }
}

/* Gives the library the next piece of input; it counts in unsigned int and its
 * pointer lacks a const that it honours. */
static void feed(bz_stream *s, nm_span *in) {
  if (s->avail_in == 0 && in->len > 0) {
    size_t piece = in->len < UINT_MAX ? in->len : UINT_MAX;
    s->next_in = (char *)(uintptr_t)in->ptr;
    s->avail_in = (unsigned)piece;
    in->ptr += piece;
    in->len -= piece;
  }
}

/* Where the next output goes: into |out| while it may grow, else into the one
 * byte |over|, which shows that there is more than is allowed. */
static int make_room(bz_stream *s, nm_buffer *out, size_t left, char *over) {
  size_t room = out->len < CHUNK_MIN ? CHUNK_MIN : out->len;
  room = room < CHUNK_MAX ? room : CHUNK_MAX;
  room = room < left ? room : left;
  if (room == 0) {
    s->next_out = over;
    s->avail_out = 1;
    return NM_OK;
  }
  int status = nm_buffer_reserve(out, room);
  if (status == NM_OK) {
    s->next_out = (char *)out->ptr + out->len;
    s->avail_out = (unsigned)room;
  }
  return status;
}

typedef int (*step_fn)(bz_stream *s, bool last);

static int inflate_step(bz_stream *s, bool last) {
  (void)last;
  return BZ2_bzDecompress(s);
}

static int deflate_step(bz_stream *s, bool last) {
  return BZ2_bzCompress(s, last ? BZ_FINISH : BZ_RUN);
}

/* Runs |step| over |in| until the stream ends. */
static int pump(bz_stream *s, step_fn step, nm_span in, size_t out_max,
                nm_buffer *out) {
  size_t before = out->len;
  int code = BZ_OK;
  while (code != BZ_STREAM_END) {
    char over;
    size_t left = out_max - (out->len - before);
    int status = make_room(s, out, left, &over);
    if (status != NM_OK) {
      return status;
    }
    feed(s, &in);
    unsigned in_before = s->avail_in;
    unsigned room = s->avail_out;
    code = step(s, in.len == 0);
    status = status_of(code);
    if (status != NM_OK) {
      return status;
    }
    size_t got = room - s->avail_out;
    if (left == 0 && got > 0) {
      return NM_E(LIMIT);
    }
    out->len += got;
    if (code != BZ_STREAM_END && got == 0 && s->avail_in == in_before) {
      /* It wants input and there is none. */
      return NM_E(COMPRESSED);
    }
  }
  return NM_OK;
}

int nm_bz2_decompress(const nm_mem *mem, nm_span in, size_t out_max,
                      nm_buffer *out) {
  bz_stream s = stream_of(mem);
  size_t before = out->len;
  int status = status_of(BZ2_bzDecompressInit(&s, 0, 0));
  if (status == NM_OK) {
    status = pump(&s, inflate_step, in, out_max, out);
    BZ2_bzDecompressEnd(&s);
  }
  if (status != NM_OK) {
    out->len = before;
  }
  return status;
}

int nm_bz2_compress(const nm_mem *mem, nm_span in, int level, size_t out_max,
                    nm_buffer *out) {
  if (level < 1 || level > 9) {
    return NM_E(ARGUMENT);
  }
  bz_stream s = stream_of(mem);
  size_t before = out->len;
  int status = status_of(BZ2_bzCompressInit(&s, level, 0, 0));
  if (status == NM_OK) {
    status = pump(&s, deflate_step, in, out_max, out);
    BZ2_bzCompressEnd(&s);
  }
  if (status != NM_OK) {
    out->len = before;
  }
  return status;
}
