/* PartRequest: which parts a receiver wants next (RNS 2, 3.4). */
#include "py/args.h"
#include "py/errors.h"
#include "py/resource.h"
#include "py/value.h"

enum { REQUEST_HASH, REQUEST_HASHES, REQUEST_LAST, REQUEST_FIELDS };

static PyMemberDef request_members[] = {
    NM_PY_FIELD("resource_hash", REQUEST_HASH,
                "The resource it belongs to, 32 bytes."),
    NM_PY_FIELD("hashes", REQUEST_HASHES,
                "Map hashes of the wanted parts, 4 bytes each."),
    NM_PY_FIELD("last_map_hash", REQUEST_LAST,
                "The last map hash the receiver knows, 4 bytes, when it needs "
                "more of them;\nelse None."),
    {NULL, 0, 0, 0, NULL}};

static PyObject *request_of(PyTypeObject *type,
                            const nm_resource_request *request) {
  PyObject *fields[REQUEST_FIELDS] = {
      nm_py_bytes(request->hash), nm_py_bytes(request->wanted),
      request->exhausted ? nm_py_bytes(request->last_known)
                         : Py_NewRef(Py_None)};
  return nm_py_record_new(type, fields);
}

PyObject *nm_py_part_request_new(nm_state *state,
                                 const nm_resource_request *request) {
  return request_of(NM_PY_TYPE(state, PartRequest), request);
}

static nm_resource_request request_view(PyObject *self) {
  PyObject *last = nm_py_record_get(self, REQUEST_LAST);
  nm_resource_request request = {
      .exhausted = last != Py_None,
      .last_known =
          last != Py_None ? nm_py_bytes_span(last) : nm_span_of(NULL, 0),
      .hash = nm_py_bytes_span(nm_py_record_get(self, REQUEST_HASH)),
      .wanted = nm_py_bytes_span(nm_py_record_get(self, REQUEST_HASHES))};
  return request;
}

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The plaintext of a packet with context RESOURCE_REQ.");

static PyObject *request_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_resource_request request = request_view(self);
  size_t size = nm_resource_request_size(&request);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status = nm_resource_request_encode(&request, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "request", 0};
    return nm_py_raise_encode(nm_py_state_of(self), &fault, "resource");
  }
  return packed;
}

PyObject *nm_py_part_request_packed(nm_state *state, PyObject *obj,
                                    const char *function, const char *name) {
  if (Py_IS_TYPE(obj, NM_PY_TYPE(state, PartRequest))) {
    return request_pack(obj, NULL);
  }
  if (!PyObject_CheckBuffer(obj)) {
    nm_py_type_error(function, name, "a PartRequest or a bytes-like object",
                     obj);
    return NULL;
  }
  return nm_py_bytes_of(obj, function, name);
}

/* The map hashes in |obj|: a multiple of 4 bytes, else EncodeError. */
static PyObject *hashes_of(nm_state *state, PyObject *obj) {
  PyObject *hashes = nm_py_bytes_of(obj, "PartRequest", "hashes");
  if (hashes != NULL &&
      PyBytes_GET_SIZE(hashes) % NM_RESOURCE_MAP_HASH_SIZE != 0) {
    nm_py_encode_error(state, NM_E(LENGTH), "hashes",
                       "PartRequest() parameter 'hashes' must be a multiple of "
                       "4 bytes long, not %zd",
                       PyBytes_GET_SIZE(hashes));
    Py_CLEAR(hashes);
  }
  return hashes;
}

static PyObject *request_construct(PyObject *callable, PyObject *const *args,
                                   size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "PartRequest",
      .count = 3,
      .required = 2,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_resource_hash, NM_STR_hashes, NM_STR_last_map_hash}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[3];
  uint8_t hash[NM_HASH_SIZE];
  uint8_t last[NM_RESOURCE_MAP_HASH_SIZE];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      nm_py_exact_field(state, in[0], "PartRequest", "resource_hash", hash,
                        sizeof hash) < 0 ||
      (!nm_py_absent(in[2]) &&
       nm_py_exact_field(state, in[2], "PartRequest", "last_map_hash", last,
                         sizeof last) < 0)) {
    return NULL;
  }
  PyObject *hashes = hashes_of(state, in[1]);
  if (hashes == NULL) {
    return NULL;
  }
  nm_resource_request request = {.exhausted = !nm_py_absent(in[2]),
                                 .last_known = nm_span_of(last, sizeof last),
                                 .hash = nm_span_of(hash, sizeof hash),
                                 .wanted = nm_py_bytes_span(hashes)};
  PyObject *self = request_of(type, &request);
  Py_DECREF(hashes);
  return self;
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, data, /)\n--\n\n"
             "Reads the plaintext of a part request.\n\n"
             "Raises DecodeError (\"TRUNCATED\", \"VALUE\" for the first byte, "
             "\"LENGTH\").");

static PyObject *request_unpack(PyObject *cls, PyObject *arg) {
  PyTypeObject *type = (PyTypeObject *)cls;
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "PartRequest.unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_resource_request request;
  nm_fault fault;
  PyObject *result =
      nm_resource_request_decode(buf.span, &request, &fault) < 0
          ? nm_py_raise(nm_py_state_of_type(type), &fault, "resource")
          : request_of(type, &request);
  nm_py_buffer_release(&buf);
  return result;
}

static PyObject *request_exhausted(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(nm_py_record_get(self, REQUEST_LAST) != Py_None);
}

static PyGetSetDef request_getters[] = {
    {"exhausted", request_exhausted, NULL,
     "Does the receiver ask for further map hashes too?", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef request_methods[] = {
    {"unpack", request_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", request_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(request_doc,
             "PartRequest(resource_hash, hashes, /, *, last_map_hash=None)\n"
             "--\n\n"
             "Which parts of a resource a receiver wants next.\n\n"
             "resource_hash is 32 bytes, hashes the map hashes of the parts "
             "one after the other,\n4 bytes each. last_map_hash, 4 bytes, "
             "makes it the exhausted form, which asks for a\nhashmap update as "
             "well. Wrong lengths raise EncodeError (\"LENGTH\"). Immutable; "
             "may be\nused from any thread.\n\n"
             ">>> PartRequest(bytes(32), b'abcd').pack()[:1].hex()\n"
             "'00'\n"
             ">>> PartRequest(bytes(32), b'', last_map_hash=b'abcd').exhausted"
             "\nTrue\n");

static PyType_Slot request_slots[] = {{Py_tp_doc, (void *)request_doc},
                                      {Py_tp_new, (void *)nm_py_new},
                                      {Py_tp_members, request_members},
                                      {Py_tp_getset, request_getters},
                                      {Py_tp_methods, request_methods},
                                      NM_PY_RECORD_SLOTS,
                                      {0, NULL}};

static PyType_Spec request_spec = {
    .name = "netmesh._core.PartRequest",
    .basicsize = NM_PY_RECORD_SIZE(REQUEST_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = request_slots,
};

int nm_py_part_request_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_PartRequest, &request_spec, NULL,
                        request_construct);
}
