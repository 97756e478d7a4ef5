#include "base/mem.h"

#include "base/bytes.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *system_alloc(void *user, size_t size) {
  (void)user;
  return malloc(size);
}

static void *system_resize(void *user, void *ptr, size_t size) {
  (void)user;
  return realloc(ptr, size);
}

static void system_release(void *user, void *ptr) {
  (void)user;
  free(ptr);
}

const nm_mem nm_mem_system = {NULL, system_alloc, system_resize,
                              system_release};

void *nm_alloc(const nm_mem *mem, size_t size) {
  return mem->alloc(mem->user, size);
}

void *nm_alloc_zero(const nm_mem *mem, size_t count, size_t size) {
  if (count == 0 || size == 0 || count > SIZE_MAX / size) {
    return NULL;
  }
  void *ptr = nm_alloc(mem, count * size);
  if (ptr != NULL) {
    memset(ptr, 0, count * size);
  }
  return ptr;
}

void *nm_resize(const nm_mem *mem, void *ptr, size_t size) {
  return mem->resize(mem->user, ptr, size);
}

void nm_release(const nm_mem *mem, void *ptr) {
  mem->release(mem->user, ptr);
}

void nm_buffer_init(nm_buffer *buf, const nm_mem *mem, void *storage,
                    size_t cap, int secret) {
  buf->mem = mem;
  buf->ptr = (unsigned char *)storage;
  buf->len = 0;
  buf->cap = cap;
  buf->on_heap = 0;
  buf->secret = secret;
}

/* Moves to a block of |cap| bytes. A secret buffer never uses resize, which
 * could leave a copy of the old block behind. */
static int buffer_move(nm_buffer *buf, size_t cap) {
  unsigned char *ptr;
  if (buf->on_heap && !buf->secret) {
    ptr = (unsigned char *)nm_resize(buf->mem, buf->ptr, cap);
    if (ptr == NULL) {
      return NM_E(MEMORY);
    }
  } else {
    ptr = (unsigned char *)nm_alloc(buf->mem, cap);
    if (ptr == NULL) {
      return NM_E(MEMORY);
    }
    if (buf->len > 0) {
      memcpy(ptr, buf->ptr, buf->len);
    }
    if (buf->secret) {
      nm_wipe(buf->ptr, buf->len);
    }
    if (buf->on_heap) {
      nm_release(buf->mem, buf->ptr);
    }
  }
  buf->ptr = ptr;
  buf->cap = cap;
  buf->on_heap = 1;
  return NM_OK;
}

int nm_buffer_reserve(nm_buffer *buf, size_t extra) {
  if (extra <= buf->cap - buf->len) {
    return NM_OK;
  }
  if (extra > SIZE_MAX - buf->len) {
    return NM_E(LIMIT);
  }
  size_t need = buf->len + extra;
  size_t cap = buf->cap < 64 ? 64 : buf->cap;
  while (cap < need) {
    /* Half as much again; exactly what is needed where that overflows. */
    cap = cap > SIZE_MAX - cap / 2 ? need : cap + cap / 2;
  }
  return buffer_move(buf, cap);
}

int nm_buffer_append(nm_buffer *buf, const void *data, size_t len) {
  int status = nm_buffer_reserve(buf, len);
  if (status == NM_OK && len > 0) {
    memcpy(buf->ptr + buf->len, data, len);
    buf->len += len;
  }
  return status;
}

void nm_buffer_dispose(nm_buffer *buf) {
  if (buf->secret && buf->ptr != NULL) {
    nm_wipe(buf->ptr, buf->cap);
  }
  if (buf->on_heap) {
    nm_release(buf->mem, buf->ptr);
  }
  buf->ptr = NULL;
  buf->len = 0;
  buf->cap = 0;
  buf->on_heap = 0;
}
