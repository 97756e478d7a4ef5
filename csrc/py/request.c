/* netmesh.control: Request and Response, which carry MessagePack values. */
#include "wire/control.h"
#include "wire/destination.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/msgpack.h"
#include "py/packet.h"
#include "py/value.h"

/* The value lies inside an array. */
#define DATA_DEPTH_MAX 63

/* The encoded form of an object, as bytes. */
typedef PyObject *(*packer)(PyObject *self);

/* Both classes compare and hash by their encoded form, in which 1, 1.0 and
 * True are different things. */
static PyObject *compare_packed(PyObject *self, PyObject *other, int op,
                                packer pack) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  PyObject *a = pack(self);
  PyObject *b = a != NULL ? pack(other) : NULL;
  PyObject *result = b != NULL ? PyObject_RichCompare(a, b, op) : NULL;
  Py_XDECREF(b);
  Py_XDECREF(a);
  return result;
}

static Py_hash_t hash_packed(PyObject *self, packer pack) {
  PyObject *bytes = pack(self);
  Py_hash_t hash = bytes != NULL ? PyObject_Hash(bytes) : -1;
  Py_XDECREF(bytes);
  return hash;
}

/* The MessagePack value |data|, which lies in |packed|. */
static PyObject *value_in(nm_state *state, nm_span packed, nm_span data,
                          const char *codec) {
  nm_reader r = nm_reader_of(packed);
  r.pos = (size_t)(data.ptr - packed.ptr);
  return nm_py_msgpack_unpack(state, &r, NULL, codec, "data");
}

/* Encodes |value| and calls |write| with the result: the bytes of an array that
 * holds it. */
typedef size_t (*sizer)(nm_span data, const void *context);
typedef int (*writer)(nm_writer *w, nm_span data, const void *context);

static PyObject *pack_with(nm_state *state, PyObject *value, sizer size,
                           writer write, const void *context) {
  uint8_t storage[512];
  nm_buffer data;
  uint8_t *out;
  PyObject *result = NULL;
  nm_buffer_init(&data, &nm_mem_system, storage, sizeof storage, 0);
  if (nm_py_msgpack_pack(state, value, DATA_DEPTH_MAX, &data) == 0) {
    nm_span span = nm_span_of(data.ptr, data.len);
    size_t len = size(span, context);
    result = nm_py_bytes_new(len, &out);
    nm_writer w = nm_writer_of(out, result != NULL ? len : 0);
    int status = result != NULL ? write(&w, span, context) : NM_OK;
    if (status != NM_OK) {
      Py_CLEAR(result);
      nm_py_raise_status(state, status, "request", "data");
    }
  }
  nm_buffer_dispose(&data);
  return result;
}

static nm_span span_of_bytes(PyObject *bytes) {
  return nm_span_of(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

/* ----------------------------------------------------------------- Request */

enum { REQUEST_PATH_HASH, REQUEST_TIMESTAMP, REQUEST_DATA, REQUEST_FIELDS };

PyDoc_STRVAR(
    request_doc,
    "Request(path, data=None, /, *, timestamp=None)\n--\n\n"
    "A request on a link: [timestamp, path hash, data] (RNS 2, 2.1).\n\n"
    "path is text or its 16-byte hash, data anything that MessagePack can "
    "hold, timestamp\nUnix seconds (the system's if left out). Compared and "
    "hashed by the packed form.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> request = Request('/status', [1, 2], timestamp=1700000000.0)\n"
    ">>> Request.unpack(request.pack()) == request\n"
    "True\n"
    ">>> request.path_hash.hex()\n"
    "'ae4267a01f1269fbbf4824d26cf3bb22'\n");

static int read_path(PyObject *path, uint8_t out[NM_ADDRESS_SIZE]) {
  nm_span text;
  if (!PyUnicode_Check(path)) {
    if (!PyObject_CheckBuffer(path)) {
      return nm_py_type_error("Request", "path", "a str or a path hash", path);
    }
    return nm_py_exact(path, "Request", "path", out, NM_ADDRESS_SIZE);
  }
  if (nm_py_text(path, "Request", "path", &text) < 0) {
    return -1;
  }
  nm_request_path_hash(text, out);
  return 0;
}

static PyObject *request_construct(PyObject *type, PyObject *const *args,
                                   size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Request", 3, 1, 2, 2, {NM_STR_path, NM_STR_data, NM_STR_timestamp}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[3];
  uint8_t path[NM_ADDRESS_SIZE];
  double timestamp;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      read_path(a[0], path) < 0 ||
      nm_py_time(a[2], "Request", "timestamp", &timestamp) < 0) {
    return NULL;
  }
  PyObject *fields[REQUEST_FIELDS] = {
      nm_py_bytes(nm_span_of(path, sizeof path)), PyFloat_FromDouble(timestamp),
      Py_NewRef(a[1] != NULL ? a[1] : Py_None)};
  return nm_py_record_new((PyTypeObject *)type, fields);
}

PyDoc_STRVAR(request_unpack_doc,
             "unpack($type, packed, /)\n--\n\n"
             "Parses a packed request. The timestamp may be any number; "
             "further elements and bytes\nafter the array are ignored. Raises "
             "DecodeError and LimitError.");

static PyObject *request_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  nm_py_buffer packed;
  nm_request request;
  nm_fault fault;
  if (nm_py_buffer_get(arg, "Request.unpack", "packed", &packed) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_request_parse(packed.span, NULL, &request, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "request");
  } else {
    PyObject *fields[REQUEST_FIELDS] = {
        NULL, NULL, value_in(state, packed.span, request.data, "request")};
    if (fields[REQUEST_DATA] != NULL) {
      fields[REQUEST_PATH_HASH] = nm_py_bytes(request.path_hash);
      fields[REQUEST_TIMESTAMP] = PyFloat_FromDouble(request.timestamp);
    }
    result = nm_py_record_new((PyTypeObject *)cls, fields);
  }
  nm_py_buffer_release(&packed);
  return result;
}

static size_t request_size(nm_span data, const void *context) {
  nm_request request = *(const nm_request *)context;
  request.data = data;
  return nm_request_size(&request);
}

static int request_write(nm_writer *w, nm_span data, const void *context) {
  nm_request request = *(const nm_request *)context;
  request.data = data;
  return nm_request_write(w, &request);
}

static PyObject *request_packed(PyObject *self) {
  nm_request request = {
      .timestamp = PyFloat_AS_DOUBLE(nm_py_record_get(self, REQUEST_TIMESTAMP)),
      .path_hash = span_of_bytes(nm_py_record_get(self, REQUEST_PATH_HASH))};
  return pack_with(nm_py_state_of(self), nm_py_record_get(self, REQUEST_DATA),
                   request_size, request_write, &request);
}

PyDoc_STRVAR(request_pack_doc,
             "pack($self, /)\n--\n\n"
             "The MessagePack array. Raises TypeError for data without an "
             "encoding, EncodeError for\na number or nesting out of bounds.");

static PyObject *request_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return request_packed(self);
}

PyDoc_STRVAR(id_of_packet_doc,
             "id_of_packet($type, raw, /)\n--\n\n"
             "The id of a request that was sent in a packet (a Packet or its "
             "bytes): its truncated\npacket hash, 16 bytes.");

static PyObject *request_id_of_packet(PyObject *cls, PyObject *const *args,
                                      Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "Request.id_of_packet", 1, 1, 1, 1, {NM_STR_raw}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *raw;
  nm_packet_hash hash;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, &raw) < 0) {
    return NULL;
  }
  PyObject *packet = nm_py_packet_of(state, raw, "Request.id_of_packet", "raw");
  if (packet == NULL) {
    return NULL;
  }
  nm_packet_digest(nm_py_packet_view(packet), &hash);
  Py_DECREF(packet);
  return nm_py_bytes(nm_span_of(hash.b, NM_ADDRESS_SIZE));
}

PyDoc_STRVAR(id_of_resource_doc,
             "id_of_resource(packed, /)\n--\n\n"
             "The id of a request that was sent as a resource: the truncated "
             "hash of its packed form,\n16 bytes.");

static PyObject *request_id_of_resource(PyObject *Py_UNUSED(cls),
                                        PyObject *arg) {
  nm_py_buffer packed;
  uint8_t id[NM_ADDRESS_SIZE];
  if (nm_py_buffer_get(arg, "Request.id_of_resource", "packed", &packed) < 0) {
    return NULL;
  }
  PyThreadState *released =
      nm_py_gil_release(packed.span.len >= NM_PY_LONG_INPUT);
  nm_request_id_of_resource(packed.span, id);
  nm_py_gil_take(released);
  nm_py_buffer_release(&packed);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyObject *request_compare(PyObject *self, PyObject *other, int op) {
  return compare_packed(self, other, op, request_packed);
}

static Py_hash_t request_hash(PyObject *self) {
  return hash_packed(self, request_packed);
}

static PyMemberDef request_members[] = {
    NM_PY_FIELD("path_hash", REQUEST_PATH_HASH,
                "The hash of the path, 16 "
                "bytes."),
    NM_PY_FIELD("timestamp", REQUEST_TIMESTAMP, "Unix seconds."),
    NM_PY_FIELD("data", REQUEST_DATA, "What the request carries."),
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef request_methods[] = {
    {"unpack", request_unpack, METH_O | METH_CLASS, request_unpack_doc},
    {"pack", request_pack, METH_NOARGS, request_pack_doc},
    {"id_of_packet", (PyCFunction)(void (*)(void))request_id_of_packet,
     METH_FASTCALL | METH_CLASS, id_of_packet_doc},
    {"id_of_resource", request_id_of_resource, METH_O | METH_STATIC,
     id_of_resource_doc},
    {NULL, NULL, 0, NULL}};

static PyType_Slot request_slots[] = {
    {Py_tp_doc, (void *)request_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_members, request_members},
    {Py_tp_methods, request_methods},
    NM_PY_RECORD_BASE_SLOTS,
    {Py_tp_richcompare, (void *)request_compare},
    {Py_tp_hash, (void *)request_hash},
    {0, NULL}};

static PyType_Spec request_spec = {.name = "netmesh._core.Request",
                                   .basicsize =
                                       NM_PY_RECORD_SIZE(REQUEST_FIELDS),
                                   .flags = NM_PY_RECORD_FLAGS,
                                   .slots = request_slots};

/* ---------------------------------------------------------------- Response */

enum { RESPONSE_REQUEST_ID, RESPONSE_DATA, RESPONSE_FIELDS };

PyDoc_STRVAR(response_doc,
             "Response(request_id, data, /)\n--\n\n"
             "The answer to a request: [request id, data] (RNS 2, 2.3).\n\n"
             "request_id is 16 bytes, data anything that MessagePack can "
             "hold. Compared and hashed by\nthe packed form. Immutable; may be "
             "used from any thread.\n\n"
             ">>> response = Response(bytes(16), {'up': True})\n"
             ">>> Response.unpack(response.pack()).data\n"
             "{'up': True}\n");

static PyObject *response_construct(PyObject *type, PyObject *const *args,
                                    size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Response", 2, 2, 2, 2, {NM_STR_request_id, NM_STR_data}};
  PyObject *a[2];
  uint8_t id[NM_ADDRESS_SIZE];
  if (nm_py_parse(nm_py_state_of_type((PyTypeObject *)type), &signature, args,
                  nargsf, kwnames, a) < 0 ||
      nm_py_exact(a[0], "Response", "request_id", id, sizeof id) < 0) {
    return NULL;
  }
  PyObject *fields[RESPONSE_FIELDS] = {nm_py_bytes(nm_span_of(id, sizeof id)),
                                       Py_NewRef(a[1])};
  return nm_py_record_new((PyTypeObject *)type, fields);
}

PyDoc_STRVAR(response_unpack_doc,
             "unpack($type, packed, /)\n--\n\n"
             "Parses a packed response. Further elements and bytes after the "
             "array are ignored.\nRaises DecodeError and LimitError.");

static PyObject *response_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  nm_py_buffer packed;
  nm_response response;
  nm_fault fault;
  if (nm_py_buffer_get(arg, "Response.unpack", "packed", &packed) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_response_parse(packed.span, NULL, &response, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "response");
  } else {
    PyObject *fields[RESPONSE_FIELDS] = {
        NULL, value_in(state, packed.span, response.data, "response")};
    if (fields[RESPONSE_DATA] != NULL) {
      fields[RESPONSE_REQUEST_ID] = nm_py_bytes(response.request_id);
    }
    result = nm_py_record_new((PyTypeObject *)cls, fields);
  }
  nm_py_buffer_release(&packed);
  return result;
}

static size_t response_size(nm_span data, const void *context) {
  nm_response response = *(const nm_response *)context;
  response.data = data;
  return nm_response_size(&response);
}

static int response_write(nm_writer *w, nm_span data, const void *context) {
  nm_response response = *(const nm_response *)context;
  response.data = data;
  return nm_response_write(w, &response);
}

static PyObject *response_packed(PyObject *self) {
  nm_response response = {
      .request_id = span_of_bytes(nm_py_record_get(self, RESPONSE_REQUEST_ID))};
  return pack_with(nm_py_state_of(self), nm_py_record_get(self, RESPONSE_DATA),
                   response_size, response_write, &response);
}

PyDoc_STRVAR(response_pack_doc,
             "pack($self, /)\n--\n\n"
             "The MessagePack array. Errors as those of Request.pack.");

static PyObject *response_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return response_packed(self);
}

static PyObject *response_compare(PyObject *self, PyObject *other, int op) {
  return compare_packed(self, other, op, response_packed);
}

static Py_hash_t response_hash(PyObject *self) {
  return hash_packed(self, response_packed);
}

static PyMemberDef response_members[] = {
    NM_PY_FIELD("request_id", RESPONSE_REQUEST_ID,
                "The id of the request, 16 bytes."),
    NM_PY_FIELD("data", RESPONSE_DATA, "What the response carries."),
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef response_methods[] = {
    {"unpack", response_unpack, METH_O | METH_CLASS, response_unpack_doc},
    {"pack", response_pack, METH_NOARGS, response_pack_doc},
    {NULL, NULL, 0, NULL}};

static PyType_Slot response_slots[] = {
    {Py_tp_doc, (void *)response_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_members, response_members},
    {Py_tp_methods, response_methods},
    NM_PY_RECORD_BASE_SLOTS,
    {Py_tp_richcompare, (void *)response_compare},
    {Py_tp_hash, (void *)response_hash},
    {0, NULL}};

static PyType_Spec response_spec = {.name = "netmesh._core.Response",
                                    .basicsize =
                                        NM_PY_RECORD_SIZE(RESPONSE_FIELDS),
                                    .flags = NM_PY_RECORD_FLAGS,
                                    .slots = response_slots};

int nm_py_request_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Request, &request_spec, NULL,
                     request_construct) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_Response, &response_spec, NULL,
                        response_construct);
}
