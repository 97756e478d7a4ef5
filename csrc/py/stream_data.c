/* StreamData: the payload of a channel message of type 0xFF00, and the
 * reference writer's choice of how much to put in one (RNS 2, 4.3).
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/value.h"
#include "wire/stream.h"

enum { STREAM_ID, STREAM_DATA, STREAM_END, STREAM_COMPRESSED, STREAM_FIELDS };

static PyMemberDef stream_members[] = {
    NM_PY_FIELD("stream_id", STREAM_ID, "Stream id, 0 to 16383."),
    NM_PY_FIELD("data", STREAM_DATA, "The data as on the wire."),
    NM_PY_FIELD("eof", STREAM_END, "Is this the last message of the stream?"),
    NM_PY_FIELD("compressed", STREAM_COMPRESSED,
                "Is data one bzip2 stream? See content()."),
    {NULL, 0, 0, 0, NULL}};

/* Takes over |data|. */
static PyObject *stream_make(PyTypeObject *type, long id, PyObject *data,
                             bool eof, bool compressed) {
  PyObject *fields[STREAM_FIELDS] = {PyLong_FromLong(id), data,
                                     PyBool_FromLong(eof),
                                     PyBool_FromLong(compressed)};
  return nm_py_record_new(type, fields);
}

static PyObject *stream_construct(PyObject *callable, PyObject *const *args,
                                  size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "StreamData",
      .count = 4,
      .required = 1,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_stream_id, NM_STR_data, NM_STR_eof, NM_STR_compressed}};
  PyTypeObject *type = (PyTypeObject *)callable;
  PyObject *in[4];
  long long id;
  bool eof = false;
  bool compressed = false;
  if (nm_py_parse(nm_py_state_of_type(type), &signature, args, nargsf, kwnames,
                  in) < 0 ||
      nm_py_int(in[0], "StreamData", "stream_id", 0, NM_STREAM_ID_MAX, &id) <
          0 ||
      (in[2] != NULL && nm_py_bool(in[2], "StreamData", "eof", &eof) < 0) ||
      (in[3] != NULL &&
       nm_py_bool(in[3], "StreamData", "compressed", &compressed) < 0)) {
    return NULL;
  }
  PyObject *data = in[1] == NULL ? PyBytes_FromStringAndSize(NULL, 0)
                                 : nm_py_bytes_of(in[1], "StreamData", "data");
  return data != NULL ? stream_make(type, (long)id, data, eof, compressed)
                      : NULL;
}

/* A StreamData with the content of |msg|. */
static PyObject *stream_of(PyTypeObject *type, const nm_stream_message *msg) {
  return stream_make(type, msg->stream_id, nm_py_bytes(msg->data), msg->eof,
                     msg->compressed);
}

static nm_stream_message stream_view(PyObject *self) {
  nm_stream_message msg = {
      .stream_id = (uint16_t)PyLong_AsLong(nm_py_record_get(self, STREAM_ID)),
      .eof = nm_py_record_get(self, STREAM_END) == Py_True,
      .compressed = nm_py_record_get(self, STREAM_COMPRESSED) == Py_True,
      .data = nm_py_bytes_span(nm_py_record_get(self, STREAM_DATA))};
  return msg;
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, data, /)\n--\n\n"
             "Reads a stream message of 2 bytes and more; compressed data stay "
             "compressed.\n\n"
             "Raises DecodeError (\"TRUNCATED\").");

static PyObject *stream_unpack(PyObject *cls, PyObject *arg) {
  PyTypeObject *type = (PyTypeObject *)cls;
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "StreamData.unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_stream_message msg;
  nm_fault fault;
  PyObject *result =
      nm_stream_decode(buf.span, &msg, &fault) < 0
          ? nm_py_raise(nm_py_state_of_type(type), &fault, "stream")
          : stream_of(type, &msg);
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The 2-byte header and the data.");

static PyObject *stream_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_stream_message msg = stream_view(self);
  size_t size = nm_stream_size(&msg);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status = nm_stream_encode(&msg, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "data", 0};
    return nm_py_raise_encode(nm_py_state_of(self), &fault, "stream");
  }
  return packed;
}

PyDoc_STRVAR(content_doc,
             "content($self, /, *, max_size=16384)\n--\n\n"
             "The data in the clear: inflated when they are compressed.\n\n"
             "Raises LimitError when more than max_size bytes would come out, "
             "DecodeError\n(\"COMPRESSED\") when they are not one complete "
             "bzip2 stream.");

static PyObject *stream_content(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "StreamData.content", .count = 1, .names = {NM_STR_max_size}};
  nm_state *state = nm_py_state_of(self);
  PyObject *in[1];
  long long limit = NM_STREAM_CHUNK_MAX;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (in[0] != NULL && nm_py_int(in[0], "StreamData.content", "max_size", 1,
                                  PY_SSIZE_T_MAX, &limit) < 0)) {
    return NULL;
  }
  nm_stream_message msg = stream_view(self);
  if (!msg.compressed) {
    return Py_NewRef(nm_py_record_get(self, STREAM_DATA));
  }
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_span data;
  nm_fault fault;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_stream_data(&msg, (size_t)limit, &nm_mem_system, &out, &data, &fault);
  Py_END_ALLOW_THREADS;
  PyObject *result =
      status < 0 ? nm_py_raise(state, &fault, "stream") : nm_py_bytes(data);
  nm_buffer_dispose(&out);
  return result;
}

PyDoc_STRVAR(
    chunk_doc,
    "stream_chunk($module, stream_id, data, channel_mdu, /, *, eof=False)\n"
    "--\n\n"
    "Makes the next message of a stream from the front of data.\n\n"
    "Takes at most 16384 bytes, compressed when that makes them fit better "
    "(RNS 2, 4.3).\nReturns the message, which fits channel_mdu bytes (3 and "
    "more), and how many bytes of\ndata it carries. eof is set on the message "
    "only if it carries all of data.\n\n"
    ">>> message, consumed = stream_chunk(3, b'z' * 5000, 425)\n"
    ">>> consumed, len(message.pack()) < 425\n"
    "(5000, True)\n");

/* The message and the count as a tuple; takes over nothing. */
static PyObject *chunk_result(nm_state *state, nm_span message,
                              const nm_stream_written *written) {
  nm_stream_message msg;
  nm_fault fault;
  if (nm_stream_decode(message, &msg, &fault) < 0) {
    return nm_py_raise(state, &fault, "stream");
  }
  PyObject *object = stream_of(NM_PY_TYPE(state, StreamData), &msg);
  PyObject *result =
      object != NULL
          ? Py_BuildValue("(On)", object, (Py_ssize_t)written->consumed)
          : NULL;
  Py_XDECREF(object);
  return result;
}

static PyObject *stream_chunk(PyObject *module, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "stream_chunk",
      .count = 4,
      .required = 3,
      .positional = 3,
      .positional_only = 3,
      .names = {NM_STR_stream_id, NM_STR_data, NM_STR_channel_mdu, NM_STR_eof}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *in[4];
  long long id;
  long long mdu;
  bool eof = false;
  nm_py_buffer data;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      nm_py_int(in[0], "stream_chunk", "stream_id", 0, NM_STREAM_ID_MAX, &id) <
          0 ||
      nm_py_int(in[2], "stream_chunk", "channel_mdu", 3, 0xFFFF, &mdu) < 0 ||
      (in[3] != NULL && nm_py_bool(in[3], "stream_chunk", "eof", &eof) < 0) ||
      nm_py_buffer_get(in[1], "stream_chunk", "data", &data) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  uint8_t *room = PyMem_Malloc((size_t)mdu);
  if (room == NULL) {
    PyErr_NoMemory();
    goto done;
  }
  nm_writer w = nm_writer_of(room, (size_t)mdu);
  nm_stream_written written;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_stream_write((uint16_t)id, data.span, eof, (size_t)mdu,
                           &nm_mem_system, &w, &written);
  Py_END_ALLOW_THREADS;
  result = status < 0 ? nm_py_raise_status(state, status, "stream", "data")
                      : chunk_result(state, nm_writer_done(&w), &written);
done:
  PyMem_Free(room);
  nm_py_buffer_release(&data);
  return result;
}

static PyMethodDef stream_methods[] = {
    {"unpack", stream_unpack, METH_O | METH_CLASS, unpack_doc},
    {"content", NM_PY_FASTCALL(stream_content), METH_FASTCALL | METH_KEYWORDS,
     content_doc},
    {"pack", stream_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

static PyMethodDef stream_functions[] = {
    {"stream_chunk", NM_PY_FASTCALL(stream_chunk),
     METH_FASTCALL | METH_KEYWORDS, chunk_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(stream_doc,
             "StreamData(stream_id, data=b'', /, *, eof=False, "
             "compressed=False)\n--\n\n"
             "One message of a stream over a channel.\n\n"
             "stream_id is 0 to 16383 (ValueError). data is what goes on the "
             "wire: with\ncompressed=True it must be one bzip2 stream already; "
             "stream_chunk() makes that\nchoice. Immutable; may be used from "
             "any thread.\n\n"
             ">>> StreamData(5, eof=True).pack().hex()\n"
             "'8005'\n");

static PyType_Slot stream_slots[] = {{Py_tp_doc, (void *)stream_doc},
                                     {Py_tp_new, (void *)nm_py_new},
                                     {Py_tp_members, stream_members},
                                     {Py_tp_methods, stream_methods},
                                     NM_PY_RECORD_SLOTS,
                                     {0, NULL}};

static PyType_Spec stream_spec = {
    .name = "netmesh._core.StreamData",
    .basicsize = NM_PY_RECORD_SIZE(STREAM_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = stream_slots,
};

int nm_py_stream_data_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_StreamData, &stream_spec, NULL,
                     stream_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, stream_functions);
}
