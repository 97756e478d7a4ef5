#include "py/buffers.h"

#include "py/arg_errors.h"
#include "py/containers.h"

#include <string.h>

int nm_py_buffer_get_other(PyObject *obj, const char *function,
                           const char *name, nm_py_buffer *buf) {
  nm_py_buffer_init(buf);
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error(function, name, "a bytes-like object", obj);
  }
  if (PyObject_GetBuffer(obj, &buf->view, PyBUF_SIMPLE) < 0) {
    if (PyErr_ExceptionMatches(PyExc_BufferError)) {
      PyErr_Clear();
      nm_py_type_error(function, name, "a contiguous bytes-like object", obj);
    }
    return -1;
  }
  buf->has_view = true;
  buf->span = nm_span_of(buf->view.buf, (size_t)buf->view.len);
  return 0;
}

PyObject *nm_py_bytes_of(PyObject *obj, const char *function,
                         const char *name) {
  if (PyBytes_CheckExact(obj)) {
    return Py_NewRef(obj);
  }
  nm_py_buffer buf;
  if (nm_py_buffer_get(obj, function, name, &buf) < 0) {
    return NULL;
  }
  PyObject *copy = nm_py_bytes(buf.span);
  nm_py_buffer_release(&buf);
  return copy;
}

int nm_py_buffers_get(PyObject *obj, const char *function, const char *name,
                      nm_py_buffers *bufs) {
  memset(bufs, 0, sizeof *bufs);
  bufs->items =
      nm_py_sequence(obj, function, name, "a sequence of bytes-like objects");
  if (bufs->items == NULL) {
    return -1;
  }
  size_t count = (size_t)PyTuple_GET_SIZE(bufs->items);
  bufs->held = PyMem_Calloc(count + 1, sizeof *bufs->held);
  bufs->spans = PyMem_Calloc(count + 1, sizeof *bufs->spans);
  if (bufs->held == NULL || bufs->spans == NULL) {
    nm_py_buffers_release(bufs);
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < count; i++) {
    PyObject *item = PyTuple_GET_ITEM(bufs->items, (Py_ssize_t)i);
    if (nm_py_buffer_get(item, function, name, &bufs->held[i]) < 0) {
      nm_py_buffers_release(bufs);
      return -1;
    }
    bufs->spans[i] = bufs->held[i].span;
    bufs->count = i + 1;
  }
  return 0;
}

void nm_py_buffers_release(nm_py_buffers *bufs) {
  for (size_t i = 0; i < bufs->count; i++) {
    nm_py_buffer_release(&bufs->held[i]);
  }
  PyMem_Free(bufs->held);
  PyMem_Free(bufs->spans);
  Py_CLEAR(bufs->items);
  memset(bufs, 0, sizeof *bufs);
}

PyObject *nm_py_view(PyObject *owner, size_t offset, size_t len) {
  PyObject *whole = PyMemoryView_FromObject(owner);
  PyObject *start = PyLong_FromSize_t(offset);
  PyObject *stop = PyLong_FromSize_t(offset + len);
  PyObject *slice = NULL;
  PyObject *part = NULL;
  if (whole != NULL && start != NULL && stop != NULL) {
    slice = PySlice_New(start, stop, NULL);
    part = slice != NULL ? PyObject_GetItem(whole, slice) : NULL;
  }
  Py_XDECREF(slice);
  Py_XDECREF(stop);
  Py_XDECREF(start);
  Py_XDECREF(whole);
  return part;
}
