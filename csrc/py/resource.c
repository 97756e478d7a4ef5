/* Functions on the payloads of resources: proofs, map hashes, metadata blocks,
 * segments, cutting and joining (RNS 2, 3).
 */
#include "py/resource.h"

#include "crypto/hash.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/msgpack.h"

/* Longest transfer that segment_plan lists: a million segments. */
#define PLAN_BYTES_MAX ((long long)1 << 40)

/* ------------------------------------------------------------------ proofs */

PyDoc_STRVAR(proof_pack_doc,
             "resource_proof_pack($module, resource_hash, plaintext, /)\n--\n\n"
             "The 64-byte payload that proves that plaintext was received: the "
             "32-byte\nresource hash and H(plaintext | resource hash).");

static PyObject *resource_proof_pack(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs) {
  (void)module;
  if (!nm_py_arity("resource_proof_pack", nargs, 2, 2)) {
    return NULL;
  }
  uint8_t payload[NM_RESOURCE_PROOF_SIZE];
  nm_py_buffer plain;
  if (nm_py_exact(args[0], "resource_proof_pack", "resource_hash", payload,
                  NM_HASH_SIZE) < 0 ||
      nm_py_buffer_get(args[1], "resource_proof_pack", "plaintext", &plain) <
          0) {
    return NULL;
  }
  nm_span parts[2] = {plain.span, nm_span_of(payload, NM_HASH_SIZE)};
  Py_BEGIN_ALLOW_THREADS;
  nm_sha256v(payload + NM_HASH_SIZE, parts, 2);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&plain);
  return nm_py_bytes(nm_span_of(payload, sizeof payload));
}

PyDoc_STRVAR(proof_unpack_doc,
             "resource_proof_unpack($module, data, /)\n--\n\n"
             "Takes a proof payload apart: (resource hash, proof), 32 bytes "
             "each.\n\n"
             "Raises DecodeError unless data has exactly 64 bytes.");

static PyObject *resource_proof_unpack(PyObject *module, PyObject *arg) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "resource_proof_unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_resource_proof proof;
  nm_fault fault;
  PyObject *result;
  if (nm_resource_proof_decode(buf.span, &proof, &fault) < 0) {
    result = nm_py_raise(nm_py_state_of_module(module), &fault, "resource");
  } else {
    result = Py_BuildValue("(y#y#)", proof.hash.ptr, (Py_ssize_t)NM_HASH_SIZE,
                           proof.proof.ptr, (Py_ssize_t)NM_HASH_SIZE);
  }
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(map_hash_doc,
             "map_hash($module, part, random_hash, /)\n--\n\n"
             "The 4 bytes that name a part: the first of H(part | random "
             "hash). random_hash is\nthe 4 bytes of the advertisement.");

static PyObject *map_hash(PyObject *module, PyObject *const *args,
                          Py_ssize_t nargs) {
  (void)module;
  if (!nm_py_arity("map_hash", nargs, 2, 2)) {
    return NULL;
  }
  uint8_t random[NM_RESOURCE_RANDOM_SIZE];
  uint8_t out[NM_RESOURCE_MAP_HASH_SIZE];
  nm_py_buffer part;
  if (nm_py_exact(args[1], "map_hash", "random_hash", random, sizeof random) <
          0 ||
      nm_py_buffer_get(args[0], "map_hash", "part", &part) < 0) {
    return NULL;
  }
  nm_resource_map_hash(part.span, random, out);
  nm_py_buffer_release(&part);
  return nm_py_bytes(nm_span_of(out, sizeof out));
}

/* ---------------------------------------------------------------- segments */

PyDoc_STRVAR(
    plan_doc,
    "segment_plan($module, data_bytes, metadata_bytes=0, /)\n--\n\n"
    "Plaintext bytes of each segment of a transfer of data_bytes, the first "
    "one with the\nmetadata block (its 3 length bytes included) of "
    "metadata_bytes.\n\n"
    "data_bytes is at most 2**40. Raises EncodeError (\"TOO_LARGE\") when the "
    "block does not fit.\n\n"
    ">>> segment_plan(1048576)\n"
    "[1048575, 1]\n");

/* The lengths of |plan|'s segments as a list. */
static PyObject *plan_list(const nm_resource_plan *plan) {
  PyObject *list = PyList_New((Py_ssize_t)plan->segments);
  if (list == NULL) {
    return NULL;
  }
  for (uint64_t i = 0; i < plan->segments; i++) {
    uint64_t offset;
    uint64_t length = 0;
    (void)nm_resource_plan_segment(plan, i + 1, &offset, &length);
    length += i == 0 ? plan->metadata_size : 0;
    PyObject *item = PyLong_FromUnsignedLongLong(length);
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list;
}

static PyObject *segment_plan(PyObject *module, PyObject *const *args,
                              Py_ssize_t nargs) {
  if (!nm_py_arity("segment_plan", nargs, 1, 2)) {
    return NULL;
  }
  long long data;
  long long metadata = 0;
  if (nm_py_int(args[0], "segment_plan", "data_bytes", 0, PLAN_BYTES_MAX,
                &data) < 0 ||
      (nargs > 1 && nm_py_int(args[1], "segment_plan", "metadata_bytes", 0,
                              PLAN_BYTES_MAX, &metadata) < 0)) {
    return NULL;
  }
  nm_resource_plan plan;
  int status = nm_resource_plan_make((uint64_t)data, (uint64_t)metadata, &plan);
  if (status < 0) {
    nm_fault fault = {status, "metadata", 0};
    return nm_py_raise_encode(nm_py_state_of_module(module), &fault,
                              "resource");
  }
  return plan_list(&plan);
}

/* ---------------------------------------------------------------- metadata */

PyDoc_STRVAR(metadata_pack_doc,
             "metadata_pack($module, value, /)\n--\n\n"
             "The metadata block that leads the first segment: the 3-byte "
             "length and the value as\nMessagePack.\n\n"
             "Raises EncodeError (\"TOO_LARGE\") above 16777215 bytes, "
             "TypeError for a value without\nan encoding.\n\n"
             ">>> metadata_pack({'name': b'file.bin'}).hex()\n"
             "'00001081a46e616d65c40866696c652e62696e'\n");

static PyObject *metadata_pack(PyObject *module, PyObject *value) {
  nm_state *state = nm_py_state_of_module(module);
  PyObject *packed = nm_py_msgpack_bytes(state, value);
  if (packed == NULL) {
    return NULL;
  }
  nm_span span = nm_py_bytes_span(packed);
  size_t size = NM_RESOURCE_METADATA_HEADER + span.len;
  uint8_t *out;
  PyObject *block = nm_py_bytes_new(size, &out);
  if (block != NULL) {
    nm_writer w = nm_writer_of(out, size);
    int status = nm_resource_metadata_encode(span, &w);
    if (status < 0) {
      Py_CLEAR(block);
      nm_fault fault = {status, "metadata", 0};
      nm_py_raise_encode(state, &fault, "resource");
    }
  }
  Py_DECREF(packed);
  return block;
}

PyDoc_STRVAR(metadata_unpack_doc,
             "metadata_unpack($module, plaintext, /)\n--\n\n"
             "Reads the metadata block at the front of a first segment: "
             "(value, bytes of the block).\n\n"
             "Raises DecodeError when the block is longer than plaintext or "
             "not MessagePack,\nLimitError when it nests too deep.");

static PyObject *metadata_unpack(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "metadata_unpack", "plaintext", &buf) < 0) {
    return NULL;
  }
  nm_span packed;
  nm_span data;
  nm_fault fault;
  PyObject *result = NULL;
  if (nm_resource_metadata_split(buf.span, &packed, &data, &fault) < 0) {
    nm_py_raise(state, &fault, "resource");
  } else {
    nm_reader r = nm_reader_of(packed);
    PyObject *value =
        nm_py_msgpack_unpack(state, &r, NULL, "resource", "metadata");
    if (value != NULL) {
      result =
          Py_BuildValue("(Nn)", value,
                        (Py_ssize_t)(packed.len + NM_RESOURCE_METADATA_HEADER));
    }
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* ------------------------------------------------------------ cut and join */

PyDoc_STRVAR(cut_doc,
             "cut($module, data, size, /)\n--\n\n"
             "Views of data, size bytes each, the last one shorter; none for "
             "empty data.\n\n"
             "Copies nothing: the views keep data alive.\n\n"
             ">>> [bytes(part) for part in cut(b'abcdefg', 3)]\n"
             "[b'abc', b'def', b'g']\n");

/* A view of |data| as plain bytes. New reference or NULL. */
static PyObject *whole_view(PyObject *data) {
  PyObject *view = PyMemoryView_FromObject(data);
  if (view == NULL) {
    return NULL;
  }
  Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
  if (buffer->ndim == 1 && buffer->itemsize == 1 &&
      (buffer->format == NULL || strcmp(buffer->format, "B") == 0) &&
      PyBuffer_IsContiguous(buffer, 'C')) {
    return view;
  }
  PyObject *bytes = PyObject_CallMethod(view, "cast", "s", "B");
  Py_DECREF(view);
  return bytes;
}

/* Item |i| of the list of parts: |view|[start:stop], where |*start| moves on.
 * 0, or -1 with an exception. */
static int cut_one(PyObject *list, Py_ssize_t i, PyObject *view,
                   PyObject **start, Py_ssize_t stop) {
  PyObject *end = PyLong_FromSsize_t(stop);
  PyObject *slice = end != NULL ? PySlice_New(*start, end, NULL) : NULL;
  PyObject *part = slice != NULL ? PyObject_GetItem(view, slice) : NULL;
  Py_XDECREF(slice);
  Py_SETREF(*start, end);
  if (part == NULL) {
    return -1;
  }
  PyList_SET_ITEM(list, i, part);
  return 0;
}

static PyObject *cut(PyObject *module, PyObject *const *args,
                     Py_ssize_t nargs) {
  (void)module;
  long long size;
  if (!nm_py_arity("cut", nargs, 2, 2) ||
      nm_py_int(args[1], "cut", "size", 1, PY_SSIZE_T_MAX, &size) < 0) {
    return NULL;
  }
  if (!PyObject_CheckBuffer(args[0])) {
    nm_py_type_error("cut", "data", "a bytes-like object", args[0]);
    return NULL;
  }
  PyObject *view = whole_view(args[0]);
  if (view == NULL) {
    return NULL;
  }
  Py_ssize_t total = PyMemoryView_GET_BUFFER(view)->len;
  Py_ssize_t step = (Py_ssize_t)size;
  Py_ssize_t count = total / step + (total % step != 0);
  PyObject *list = PyList_New(count);
  PyObject *start = PyLong_FromLong(0);
  for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
    Py_ssize_t stop = i + 1 < count ? (i + 1) * step : total;
    if (start == NULL || cut_one(list, i, view, &start, stop) < 0) {
      Py_CLEAR(list);
    }
  }
  Py_XDECREF(start);
  Py_DECREF(view);
  return list;
}

PyDoc_STRVAR(join_doc,
             "join($module, parts, /)\n--\n\n"
             "The parts one after the other as one bytes object; each may be "
             "any bytes-like object.\n\n"
             ">>> join([b'abc', bytearray(b'def')])\n"
             "b'abcdef'\n");

/* Borrows the bytes of all |count| |items|. Returns how many were taken; fewer
 * mean an exception. Adds up their length in |*total|. */
static Py_ssize_t take_all(PyObject *const *items, Py_ssize_t count,
                           nm_py_buffer *held, size_t *total) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (nm_py_buffer_get(items[i], "join", "parts", &held[i]) < 0) {
      return i;
    }
    if (held[i].span.len > (size_t)PY_SSIZE_T_MAX - *total) {
      nm_py_buffer_release(&held[i]);
      PyErr_NoMemory();
      return i;
    }
    *total += held[i].span.len;
  }
  return count;
}

/* The content of |count| buffers as one bytes object. */
static PyObject *join_held(const nm_py_buffer *held, Py_ssize_t count,
                           size_t total) {
  uint8_t *out;
  PyObject *joined = nm_py_bytes_new(total, &out);
  if (joined != NULL) {
    nm_writer w = nm_writer_of(out, total);
    for (Py_ssize_t i = 0; i < count; i++) {
      nm_writer_span(&w, held[i].span);
    }
  }
  return joined;
}

static PyObject *join(PyObject *module, PyObject *arg) {
  (void)module;
  PyObject *items =
      nm_py_sequence(arg, "join", "parts", "a sequence of bytes-like objects");
  if (items == NULL) {
    return NULL;
  }
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  nm_py_buffer few[64];
  nm_py_buffer *held =
      count <= 64 ? few : PyMem_New(nm_py_buffer, (size_t)count);
  PyObject *joined = NULL;
  if (held == NULL) {
    PyErr_NoMemory();
  } else {
    size_t total = 0;
    Py_ssize_t taken =
        take_all(&PyTuple_GET_ITEM(items, 0), count, held, &total);
    joined = taken == count ? join_held(held, count, total) : NULL;
    for (Py_ssize_t i = 0; i < taken; i++) {
      nm_py_buffer_release(&held[i]);
    }
  }
  if (held != few) {
    PyMem_Free(held);
  }
  Py_DECREF(items);
  return joined;
}

/* ------------------------------------------------------------------ module */

static PyMethodDef resource_functions[] = {
    {"resource_proof_pack", NM_PY_FASTCALL(resource_proof_pack), METH_FASTCALL,
     proof_pack_doc},
    {"resource_proof_unpack", resource_proof_unpack, METH_O, proof_unpack_doc},
    {"map_hash", NM_PY_FASTCALL(map_hash), METH_FASTCALL, map_hash_doc},
    {"segment_plan", NM_PY_FASTCALL(segment_plan), METH_FASTCALL, plan_doc},
    {"metadata_pack", metadata_pack, METH_O, metadata_pack_doc},
    {"metadata_unpack", metadata_unpack, METH_O, metadata_unpack_doc},
    {"cut", NM_PY_FASTCALL(cut), METH_FASTCALL, cut_doc},
    {"join", join, METH_O, join_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_resource_add(PyObject *module, nm_state *state) {
  (void)state;
  return PyModule_AddFunctions(module, resource_functions);
}
