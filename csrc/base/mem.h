/* The allocator that is passed in. Nothing in base, crypto or wire calls
 * malloc by itself: a function that may allocate takes a `const nm_mem *`, so
 * that tests can count allocations and make each one fail.
 */
#ifndef NM_BASE_MEM_H
#define NM_BASE_MEM_H

#include <stddef.h>

typedef struct nm_mem {
  void *user;
  /* Returns |size| bytes (size > 0) or NULL. */
  void *(*alloc)(void *user, size_t size);
  /* Returns |ptr| grown or shrunk to |size| bytes or NULL, in which case |ptr|
   * is untouched. |ptr| may be NULL. */
  void *(*resize)(void *user, void *ptr, size_t size);
  /* Releases |ptr|, which may be NULL. */
  void (*release)(void *user, void *ptr);
} nm_mem;

/* The C library's allocator. */
extern const nm_mem nm_mem_system;

void *nm_alloc(const nm_mem *mem, size_t size);
/* |count| * |size| zeroed bytes; NULL also when the product overflows. */
void *nm_alloc_zero(const nm_mem *mem, size_t count, size_t size);
void *nm_resize(const nm_mem *mem, void *ptr, size_t size);
void nm_release(const nm_mem *mem, void *ptr);

/* A growable byte buffer that starts on the caller's storage and moves to the
 * heap when that is full. Wiped when it grows and when it is disposed of if
 * `secret` is set. */
typedef struct nm_buffer {
  const nm_mem *mem;
  unsigned char *ptr;
  size_t len;
  size_t cap;
  int on_heap;
  int secret;
} nm_buffer;

/* Starts |buf| on |storage| (|cap| bytes, may be NULL and 0). */
void nm_buffer_init(nm_buffer *buf, const nm_mem *mem, void *storage,
                    size_t cap, int secret);
/* Makes room for |extra| more bytes. 0, NM_E(MEMORY), or NM_E(LIMIT) when the
 * length would overflow. */
int nm_buffer_reserve(nm_buffer *buf, size_t extra);
/* Appends |len| bytes. Errors of nm_buffer_reserve. */
int nm_buffer_append(nm_buffer *buf, const void *data, size_t len);
void nm_buffer_dispose(nm_buffer *buf);

#endif
