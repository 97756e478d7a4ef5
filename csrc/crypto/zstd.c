#include "crypto/zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

bool nm_zstd_is_frame(nm_span in) {
  static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
  return in.len >= sizeof(magic) &&
         nm_span_equal(nm_span_slice(in, 0, sizeof(magic)),
                       nm_span_of(magic, sizeof(magic)));
}

static int status_of(size_t result, int otherwise) {
  if (!ZSTD_isError(result)) {
    return NM_OK;
  }
  switch (ZSTD_getErrorCode(result)) {
  case ZSTD_error_memory_allocation:
    return NM_E(MEMORY);
  case ZSTD_error_dstSize_tooSmall:
    return NM_E(LIMIT);
  default:
    return otherwise;
  }
}

/* Of nothing too, so that there is a place to point at. */
static int make_room(nm_buffer *out, size_t size) {
  return nm_buffer_reserve(out, size > 0 ? size : 1);
}

/* ---- inflating ---- */

/* The size that the one frame in |in| gives its content. */
static int content_size(nm_span in, size_t out_max, size_t *size) {
  if (!nm_zstd_is_frame(in) ||
      ZSTD_findFrameCompressedSize(in.ptr, in.len) != in.len) {
    return NM_E(COMPRESSED);
  }
  unsigned long long found = ZSTD_getFrameContentSize(in.ptr, in.len);
  if (found == ZSTD_CONTENTSIZE_UNKNOWN || found == ZSTD_CONTENTSIZE_ERROR) {
    return NM_E(COMPRESSED);
  }
  *size = (size_t)found;
  return found > out_max ? NM_E(LIMIT) : NM_OK;
}

int nm_zstd_decompress(nm_span in, size_t out_max, nm_buffer *out) {
  size_t size = 0;
  int status = content_size(in, out_max, &size);
  if (status == NM_OK) {
    status = make_room(out, size);
  }
  if (status != NM_OK) {
    return status;
  }
  ZSTD_DCtx *context = ZSTD_createDCtx();
  if (context == NULL) {
    return NM_E(MEMORY);
  }
  size_t got =
      ZSTD_decompressDCtx(context, out->ptr + out->len, size, in.ptr, in.len);
  ZSTD_freeDCtx(context);
  status = status_of(got, NM_E(COMPRESSED));
  if (status == NM_E(LIMIT) || (status == NM_OK && got != size)) {
    status = NM_E(COMPRESSED); /* not the size that it names */
  }
  out->len += status == NM_OK ? size : 0;
  return status;
}

/* ---- deflating ---- */

/* Takes in all of |in|, and ends the frame with |last|. */
static int push(ZSTD_CCtx *context, nm_span in, bool last,
                ZSTD_outBuffer *packed) {
  ZSTD_inBuffer from = {in.ptr, in.len, 0};
  size_t left = 1;
  while (last ? left != 0 : from.pos < from.size) {
    if (packed->pos == packed->size) {
      return NM_E(LIMIT);
    }
    left = ZSTD_compressStream2(context, packed, &from,
                                last ? ZSTD_e_end : ZSTD_e_continue);
    int status = status_of(left, NM_E(LIBRARY));
    if (status != NM_OK) {
      return status;
    }
  }
  return NM_OK;
}

static int set_up(ZSTD_CCtx *context, int level, size_t size) {
  size_t result =
      ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  if (!ZSTD_isError(result)) {
    result = ZSTD_CCtx_setPledgedSrcSize(context, size);
  }
  return status_of(result, NM_E(LIBRARY));
}

int nm_zstd_compress(nm_span head, nm_span body, int level, size_t out_max,
                     nm_buffer *out) {
  if (level < 1 || level > NM_ZSTD_LEVEL_MAX) {
    return NM_E(ARGUMENT);
  }
  size_t size = head.len + body.len;
  size_t bound = ZSTD_compressBound(size);
  size_t room = out_max < bound ? out_max : bound;
  int status = make_room(out, room);
  if (status != NM_OK) {
    return status;
  }
  ZSTD_CCtx *context = ZSTD_createCCtx();
  if (context == NULL) {
    return NM_E(MEMORY);
  }
  ZSTD_outBuffer packed = {out->ptr + out->len, room, 0};
  status = set_up(context, level, size);
  if (status == NM_OK && head.len > 0) {
    status = push(context, head, false, &packed);
  }
  if (status == NM_OK) {
    status = push(context, body, true, &packed);
  }
  ZSTD_freeCCtx(context);
  out->len += status == NM_OK ? packed.pos : 0;
  return status;
}
