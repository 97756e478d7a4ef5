/* Bytes that come in: any contiguous bytes-like object, borrowed for the time
 * of one call; and bytes that go out as views.
 */
#ifndef NM_PY_BUFFERS_H
#define NM_PY_BUFFERS_H

#include "base/bytes.h"
#include "py/state.h"

#include <stdbool.h>

/* A borrowed buffer. Between get and release `span` stays valid, also with the
 * GIL released. */
typedef struct nm_py_buffer {
  nm_span span;
  PyObject *owner; /* strong; NULL: nothing is held, or the view holds it */
  bool has_view;
  Py_buffer view;
} nm_py_buffer;

static inline void nm_py_buffer_init(nm_py_buffer *buf) {
  buf->span = nm_span_of(NULL, 0);
  buf->owner = NULL;
  buf->has_view = false;
}

/* nm_py_buffer_get for what is not a bytes object. */
int nm_py_buffer_get_other(PyObject *obj, const char *function,
                           const char *name, nm_py_buffer *buf);

/* Borrows the bytes of |obj|. |function| and |name| (of the parameter) are for
 * the message. 0, or -1 with a TypeError and nothing held; |buf| may be
 * released in both cases. */
static inline int nm_py_buffer_get(PyObject *obj, const char *function,
                                   const char *name, nm_py_buffer *buf) {
  if (PyBytes_Check(obj)) {
    buf->owner = Py_NewRef(obj);
    buf->has_view = false;
    buf->span =
        nm_span_of(PyBytes_AS_STRING(obj), (size_t)PyBytes_GET_SIZE(obj));
    return 0;
  }
  return nm_py_buffer_get_other(obj, function, name, buf);
}

/* Gives the buffer back. Harmless on one that holds nothing. */
static inline void nm_py_buffer_release(nm_py_buffer *buf) {
  if (buf->has_view) {
    buf->has_view = false;
    PyBuffer_Release(&buf->view);
  }
  Py_CLEAR(buf->owner);
}

/* A bytes object with the content of |obj|: |obj| itself when it is exactly
 * bytes, else a copy. New reference, or NULL with a TypeError. */
PyObject *nm_py_bytes_of(PyObject *obj, const char *function, const char *name);

/* The items of a sequence, borrowed all at once. */
typedef struct nm_py_buffers {
  PyObject *items; /* a list or tuple, strong */
  nm_py_buffer *held;
  nm_span *spans; /* |count| of them */
  size_t count;
} nm_py_buffers;

/* Borrows the bytes-like items of the sequence |obj|. 0, or -1 with an
 * exception and nothing held; |bufs| may be released in both cases. */
int nm_py_buffers_get(PyObject *obj, const char *function, const char *name,
                      nm_py_buffers *bufs);
void nm_py_buffers_release(nm_py_buffers *bufs);

/* The content of a bytes object, borrowed from it. */
static inline nm_span nm_py_bytes_span(PyObject *bytes) {
  return nm_span_of(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

/* New bytes object. */
static inline PyObject *nm_py_bytes(nm_span span) {
  return PyBytes_FromStringAndSize((const char *)span.ptr,
                                   (Py_ssize_t)span.len);
}

/* A new bytes object of |len| bytes to be filled through |out| before anyone
 * else sees it. */
static inline PyObject *nm_py_bytes_new(size_t len, uint8_t **out) {
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
  *out = bytes != NULL ? (uint8_t *)PyBytes_AS_STRING(bytes) : NULL;
  return bytes;
}

/* A read-only memoryview of |len| bytes at |offset| of the bytes object
 * |owner|, which lives as long as the view. New reference or NULL. */
PyObject *nm_py_view(PyObject *owner, size_t offset, size_t len);

#endif
