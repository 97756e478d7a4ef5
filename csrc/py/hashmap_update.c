/* HashmapUpdate: further map hashes of a resource with more than 74 parts
 * (RNS 2, 3.5).
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/resource.h"
#include "py/value.h"

enum { UPDATE_HASH, UPDATE_SEGMENT, UPDATE_HASHMAP, UPDATE_FIELDS };

/* Highest segment number that a receiver takes. */
#define SEGMENT_MAX (UINT32_MAX / NM_RESOURCE_HASHMAP_MAX)

static PyMemberDef update_members[] = {
    NM_PY_FIELD("resource_hash", UPDATE_HASH,
                "The resource it belongs to, 32 bytes."),
    NM_PY_FIELD("segment", UPDATE_SEGMENT,
                "The map hashes start at part 74 * segment."),
    NM_PY_FIELD("hashmap", UPDATE_HASHMAP, "1 to 74 map hashes, 4 bytes each."),
    {NULL, 0, 0, 0, NULL}};

static PyObject *update_of(PyTypeObject *type, const nm_resource_hmu *hmu) {
  PyObject *fields[UPDATE_FIELDS] = {nm_py_bytes(hmu->hash),
                                     PyLong_FromUnsignedLongLong(hmu->segment),
                                     nm_py_bytes(hmu->hashmap)};
  return nm_py_record_new(type, fields);
}

PyObject *nm_py_hashmap_update_new(nm_state *state,
                                   const nm_resource_hmu *hmu) {
  return update_of(NM_PY_TYPE(state, HashmapUpdate), hmu);
}

static nm_resource_hmu update_view(PyObject *self) {
  nm_resource_hmu hmu = {
      .hash = nm_py_bytes_span(nm_py_record_get(self, UPDATE_HASH)),
      .segment =
          PyLong_AsUnsignedLongLong(nm_py_record_get(self, UPDATE_SEGMENT)),
      .hashmap = nm_py_bytes_span(nm_py_record_get(self, UPDATE_HASHMAP))};
  return hmu;
}

int nm_py_hashmap_update_get(nm_state *state, PyObject *obj,
                             const char *function, const char *name,
                             nm_py_buffer *buf, nm_resource_hmu *hmu) {
  nm_py_buffer_init(buf);
  if (Py_IS_TYPE(obj, NM_PY_TYPE(state, HashmapUpdate))) {
    *hmu = update_view(obj);
    return 0;
  }
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error(function, name,
                            "a HashmapUpdate or a bytes-like object", obj);
  }
  if (nm_py_buffer_get(obj, function, name, buf) < 0) {
    return -1;
  }
  nm_fault fault;
  if (nm_resource_hmu_decode(buf->span, hmu, &fault) < 0) {
    nm_py_raise(state, &fault, "resource");
    nm_py_buffer_release(buf);
    return -1;
  }
  return 0;
}

/* Whether |len| bytes are 1 to 74 map hashes; sets EncodeError if not. */
static bool hashmap_fits(nm_state *state, size_t len) {
  size_t max = (size_t)NM_RESOURCE_HASHMAP_MAX * NM_RESOURCE_MAP_HASH_SIZE;
  if (len > 0 && len <= max && len % NM_RESOURCE_MAP_HASH_SIZE == 0) {
    return true;
  }
  nm_py_encode_error(state, NM_E(LENGTH), "hashmap",
                     "HashmapUpdate() parameter 'hashmap' must be 1 to 74 map "
                     "hashes of 4 bytes, not %zu bytes",
                     len);
  return false;
}

static PyObject *update_construct(PyObject *callable, PyObject *const *args,
                                  size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "HashmapUpdate",
      .count = 3,
      .required = 3,
      .positional = 3,
      .positional_only = 3,
      .names = {NM_STR_resource_hash, NM_STR_segment, NM_STR_hashmap}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[3];
  uint8_t hash[NM_HASH_SIZE];
  long long segment;
  nm_py_buffer hashmap;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      nm_py_exact_field(state, in[0], "HashmapUpdate", "resource_hash", hash,
                        sizeof hash) < 0 ||
      nm_py_int(in[1], "HashmapUpdate", "segment", 0, SEGMENT_MAX, &segment) <
          0 ||
      nm_py_buffer_get(in[2], "HashmapUpdate", "hashmap", &hashmap) < 0) {
    return NULL;
  }
  PyObject *self = NULL;
  if (hashmap_fits(state, hashmap.span.len)) {
    nm_resource_hmu hmu = {.hash = nm_span_of(hash, sizeof hash),
                           .segment = (uint64_t)segment,
                           .hashmap = hashmap.span};
    self = update_of(type, &hmu);
  }
  nm_py_buffer_release(&hashmap);
  return self;
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, data, /)\n--\n\n"
             "Reads the plaintext of a hashmap update.\n\n"
             "Raises DecodeError (\"TRUNCATED\", \"TYPE\", \"EMPTY\", "
             "\"LENGTH\", \"RANGE\").");

static PyObject *update_unpack(PyObject *cls, PyObject *arg) {
  PyTypeObject *type = (PyTypeObject *)cls;
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "HashmapUpdate.unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_resource_hmu hmu;
  nm_fault fault;
  PyObject *result =
      nm_resource_hmu_decode(buf.span, &hmu, &fault) < 0
          ? nm_py_raise(nm_py_state_of_type(type), &fault, "resource")
          : update_of(type, &hmu);
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The plaintext of a packet with context RESOURCE_HMU.");

static PyObject *update_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_resource_hmu hmu = update_view(self);
  size_t size = nm_resource_hmu_size(&hmu);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status = nm_resource_hmu_encode(&hmu, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "hashmap", 0};
    return nm_py_raise_encode(nm_py_state_of(self), &fault, "resource");
  }
  return packed;
}

static PyMethodDef update_methods[] = {
    {"unpack", update_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", update_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(update_doc,
             "HashmapUpdate(resource_hash, segment, hashmap, /)\n--\n\n"
             "Further map hashes of a resource with more than 74 parts.\n\n"
             "resource_hash is 32 bytes, segment counts from 0 (which the "
             "advertisement carries),\nhashmap is 1 to 74 map hashes. Wrong "
             "lengths raise EncodeError (\"LENGTH\").\nImmutable; may be used "
             "from any thread.\n\n"
             ">>> update = HashmapUpdate(bytes(32), 1, b'abcdefgh')\n"
             ">>> HashmapUpdate.unpack(update.pack()) == update\n"
             "True\n");

static PyType_Slot update_slots[] = {{Py_tp_doc, (void *)update_doc},
                                     {Py_tp_new, (void *)nm_py_new},
                                     {Py_tp_members, update_members},
                                     {Py_tp_methods, update_methods},
                                     NM_PY_RECORD_SLOTS,
                                     {0, NULL}};

static PyType_Spec update_spec = {
    .name = "netmesh._core.HashmapUpdate",
    .basicsize = NM_PY_RECORD_SIZE(UPDATE_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = update_slots,
};

int nm_py_hashmap_update_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_HashmapUpdate, &update_spec,
                        NULL, update_construct);
}
