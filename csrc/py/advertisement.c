/* Advertisement: what a sender offers before it sends a segment (RNS 2, 3.3).
 */
#include "py/resource.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/value.h"

enum {
  ADV_TRANSFER_BYTES,
  ADV_DATA_BYTES,
  ADV_PARTS,
  ADV_HASH,
  ADV_RANDOM_HASH,
  ADV_ORIGINAL_HASH,
  ADV_SEGMENT,
  ADV_SEGMENTS,
  ADV_REQUEST_ID,
  ADV_FLAGS,
  ADV_HASHMAP,
  ADV_FIELDS
};

static PyMemberDef adv_members[] = {
    NM_PY_FIELD("transfer_bytes", ADV_TRANSFER_BYTES,
                "t: bytes of this segment's encrypted stream."),
    NM_PY_FIELD("data_bytes", ADV_DATA_BYTES,
                "d: plaintext bytes of all segments, metadata included."),
    NM_PY_FIELD("parts", ADV_PARTS,
                "n: parts of this segment as the sender counts them."),
    NM_PY_FIELD("hash", ADV_HASH, "h: hash of this segment, 32 bytes."),
    NM_PY_FIELD("random_hash", ADV_RANDOM_HASH, "r: 4 bytes."),
    NM_PY_FIELD("original_hash", ADV_ORIGINAL_HASH,
                "o: hash of segment 1, 32 bytes."),
    NM_PY_FIELD("segment", ADV_SEGMENT, "i: number of this segment, from 1."),
    NM_PY_FIELD("segments", ADV_SEGMENTS, "l: number of segments."),
    NM_PY_FIELD("request_id", ADV_REQUEST_ID,
                "q: id of the request it belongs to, 16 bytes, or None."),
    NM_PY_FIELD("flags", ADV_FLAGS, "f: see constants.ResourceFlag."),
    NM_PY_FIELD("hashmap", ADV_HASHMAP,
                "m: the first map hashes, 4 bytes each, at most 74."),
    {NULL, 0, 0, 0, NULL}};

static PyObject *int_of(uint64_t value) {
  return PyLong_FromUnsignedLongLong(value);
}

static PyObject *adv_of(PyTypeObject *type, const nm_resource_adv *adv) {
  PyObject *fields[ADV_FIELDS] = {
      [ADV_TRANSFER_BYTES] = int_of(adv->transfer_size),
      [ADV_DATA_BYTES] = int_of(adv->data_size),
      [ADV_PARTS] = int_of(adv->parts),
      [ADV_HASH] = nm_py_bytes(adv->hash),
      [ADV_RANDOM_HASH] = nm_py_bytes(adv->random),
      [ADV_ORIGINAL_HASH] = nm_py_bytes(adv->original),
      [ADV_SEGMENT] = int_of(adv->segment),
      [ADV_SEGMENTS] = int_of(adv->segments),
      [ADV_REQUEST_ID] = adv->request_id.ptr != NULL
                             ? nm_py_bytes(adv->request_id)
                             : Py_NewRef(Py_None),
      [ADV_FLAGS] = int_of(adv->flags),
      [ADV_HASHMAP] = nm_py_bytes(adv->hashmap)};
  return nm_py_record_new(type, fields);
}

PyObject *nm_py_advertisement_new(nm_state *state, const nm_resource_adv *adv) {
  return adv_of(NM_PY_TYPE(state, Advertisement), adv);
}

static uint64_t adv_int(PyObject *self, size_t place) {
  return PyLong_AsUnsignedLongLong(nm_py_record_get(self, place));
}

static nm_span adv_bytes(PyObject *self, size_t place) {
  PyObject *field = nm_py_record_get(self, place);
  return field != Py_None ? nm_py_bytes_span(field) : nm_span_of(NULL, 0);
}

static nm_resource_adv adv_view(PyObject *self) {
  nm_resource_adv adv = {.transfer_size = adv_int(self, ADV_TRANSFER_BYTES),
                         .data_size = adv_int(self, ADV_DATA_BYTES),
                         .parts = adv_int(self, ADV_PARTS),
                         .hash = adv_bytes(self, ADV_HASH),
                         .random = adv_bytes(self, ADV_RANDOM_HASH),
                         .original = adv_bytes(self, ADV_ORIGINAL_HASH),
                         .segment = adv_int(self, ADV_SEGMENT),
                         .segments = adv_int(self, ADV_SEGMENTS),
                         .request_id = adv_bytes(self, ADV_REQUEST_ID),
                         .flags = adv_int(self, ADV_FLAGS),
                         .hashmap = adv_bytes(self, ADV_HASHMAP)};
  return adv;
}

int nm_py_advertisement_get(nm_state *state, PyObject *obj,
                            const char *function, const char *name,
                            nm_py_buffer *buf, nm_resource_adv *adv) {
  nm_py_buffer_init(buf);
  if (Py_IS_TYPE(obj, NM_PY_TYPE(state, Advertisement))) {
    *adv = adv_view(obj);
    return 0;
  }
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error(function, name,
                            "an Advertisement or a bytes-like object", obj);
  }
  if (nm_py_buffer_get(obj, function, name, buf) < 0) {
    return -1;
  }
  nm_fault fault;
  if (nm_resource_adv_decode(buf->span, adv, &fault) < 0) {
    nm_py_raise(state, &fault, "resource");
    nm_py_buffer_release(buf);
    return -1;
  }
  return 0;
}

/* ------------------------------------------------------------ construction */

/* The integer |in| as a field, checked to be in |min|..2^63 - 1. */
static PyObject *int_field(PyObject *in, const char *name, long long min) {
  long long value;
  if (nm_py_int(in, "Advertisement", name, min, LLONG_MAX, &value) < 0) {
    return NULL;
  }
  return PyLong_FromLongLong(value);
}

/* The bytes |in| as a field of exactly |len| bytes. */
static PyObject *bytes_field(nm_state *state, PyObject *in, const char *name,
                             size_t len) {
  uint8_t value[NM_HASH_SIZE];
  if (nm_py_exact_field(state, in, "Advertisement", name, value, len) < 0) {
    return NULL;
  }
  return nm_py_bytes(nm_span_of(value, len));
}

/* Fills |fields| from the arguments |in|, which come in the same order.
 * 0, or -1 with an exception. */
static int adv_fields(nm_state *state, PyObject *const *in, PyObject **fields) {
  static const struct {
    const char *name;
    long long min; /* of an integer */
    uint8_t len;   /* of bytes; 0: an integer, 255: any length */
  } kinds[ADV_FIELDS] = {{"transfer_bytes", 0, 0},
                         {"data_bytes", 0, 0},
                         {"parts", 0, 0},
                         {"hash", 0, NM_HASH_SIZE},
                         {"random_hash", 0, NM_RESOURCE_RANDOM_SIZE},
                         {"original_hash", 0, NM_HASH_SIZE},
                         {"segment", 1, 0},
                         {"segments", 1, 0},
                         {"request_id", 0, NM_RESOURCE_REQUEST_ID_SIZE},
                         {"flags", 0, 0},
                         {"hashmap", 0, 255}};
  for (size_t i = 0; i < ADV_FIELDS; i++) {
    if (kinds[i].len == 0) {
      fields[i] = int_field(in[i], kinds[i].name, kinds[i].min);
    } else if (kinds[i].len == 255) {
      fields[i] = nm_py_bytes_of(in[i], "Advertisement", kinds[i].name);
    } else if (i == ADV_REQUEST_ID && in[i] == Py_None) {
      fields[i] = Py_NewRef(Py_None);
    } else {
      fields[i] = bytes_field(state, in[i], kinds[i].name, kinds[i].len);
    }
    if (fields[i] == NULL) {
      return -1;
    }
  }
  return 0;
}

static PyObject *adv_construct(PyObject *callable, PyObject *const *args,
                               size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Advertisement",
      .count = ADV_FIELDS,
      .required = ADV_FIELDS,
      .names = {NM_STR_transfer_bytes, NM_STR_data_bytes, NM_STR_parts,
                NM_STR_hash, NM_STR_random_hash, NM_STR_original_hash,
                NM_STR_segment, NM_STR_segments, NM_STR_request_id,
                NM_STR_flags, NM_STR_hashmap}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[ADV_FIELDS];
  PyObject *fields[ADV_FIELDS] = {NULL};
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0) {
    return NULL;
  }
  /* After a failure the record releases the fields that were made. */
  adv_fields(state, in, fields);
  return nm_py_record_new(type, fields);
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, data, /)\n--\n\n"
             "Reads the plaintext of an advertisement and checks it as a "
             "receiver must.\n\n"
             "Raises DecodeError when keys are missing or values are of the "
             "wrong type, length\nor range (RNS 2, 3.3).");

static PyObject *adv_unpack(PyObject *cls, PyObject *arg) {
  PyTypeObject *type = (PyTypeObject *)cls;
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Advertisement.unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_resource_adv adv;
  nm_fault fault;
  PyObject *result =
      nm_resource_adv_decode(buf.span, &adv, &fault) < 0
          ? nm_py_raise(nm_py_state_of_type(type), &fault, "resource")
          : adv_of(type, &adv);
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(pack_doc,
             "pack($self, /)\n--\n\n"
             "The MessagePack map with its 11 keys in the order of the wire.");

static PyObject *adv_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_resource_adv adv = adv_view(self);
  size_t size = nm_resource_adv_size(&adv);
  uint8_t *out;
  PyObject *packed = nm_py_bytes_new(size, &out);
  if (packed == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  int status = nm_resource_adv_encode(&adv, &w);
  if (status < 0) {
    Py_DECREF(packed);
    nm_fault fault = {status, "advertisement", 0};
    return nm_py_raise_encode(nm_py_state_of(self), &fault, "resource");
  }
  return packed;
}

/* ------------------------------------------------------------------- flags */

/* Whether the flags that the getter stands for are all set. */
static PyObject *adv_flag(PyObject *self, void *mask) {
  uint64_t flags = adv_int(self, ADV_FLAGS);
  uint64_t wanted = (uint64_t)(uintptr_t)mask;
  return PyBool_FromLong((flags & wanted) == wanted);
}

#define FLAG(name, mask, doc)                                                  \
  { name, adv_flag, NULL, doc, (void *)(mask) }

static PyGetSetDef adv_getters[] = {
    FLAG("encrypted", NM_RESOURCE_ENCRYPTED, "Flag e: always set on links."),
    FLAG("compressed", NM_RESOURCE_COMPRESSED,
         "Flag c: the stream holds bzip2 data."),
    FLAG("split", NM_RESOURCE_SPLIT, "Flag s: there is more than one segment."),
    FLAG("is_request", NM_RESOURCE_IS_REQUEST, "Flag u: a request."),
    FLAG("is_response", NM_RESOURCE_IS_RESPONSE, "Flag p: a response."),
    FLAG("has_metadata", NM_RESOURCE_HAS_METADATA,
         "Flag x: segment 1 begins with metadata."),
    {NULL, NULL, NULL, NULL, NULL}};

PyDoc_STRVAR(
    flags_doc,
    "advertisement_flags($module, /, *, encrypted=True, compressed=False,\n"
    "                    split=False, request=False, response=False,\n"
    "                    metadata=False)\n--\n\n"
    "The flags number of an advertisement.\n\n"
    ">>> advertisement_flags(compressed=True, metadata=True)\n"
    "35\n");

static PyObject *advertisement_flags(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "advertisement_flags",
      .count = 6,
      .names = {NM_STR_encrypted, NM_STR_compressed, NM_STR_split,
                NM_STR_request, NM_STR_response, NM_STR_metadata}};
  static const struct {
    const char *name;
    uint32_t mask;
  } bits[6] = {{"encrypted", NM_RESOURCE_ENCRYPTED},
               {"compressed", NM_RESOURCE_COMPRESSED},
               {"split", NM_RESOURCE_SPLIT},
               {"request", NM_RESOURCE_IS_REQUEST},
               {"response", NM_RESOURCE_IS_RESPONSE},
               {"metadata", NM_RESOURCE_HAS_METADATA}};
  PyObject *in[6];
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0) {
    return NULL;
  }
  long flags = 0;
  for (size_t i = 0; i < 6; i++) {
    bool on = i == 0;
    if (in[i] != NULL &&
        nm_py_bool(in[i], "advertisement_flags", bits[i].name, &on) < 0) {
      return NULL;
    }
    flags |= on ? (long)bits[i].mask : 0;
  }
  return PyLong_FromLong(flags);
}

/* ------------------------------------------------------------------- class */

static PyMethodDef adv_methods[] = {
    {"unpack", adv_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", adv_pack, METH_NOARGS, pack_doc},
    {NULL, NULL, 0, NULL}};

static PyMethodDef adv_functions[] = {
    {"advertisement_flags", NM_PY_FASTCALL(advertisement_flags),
     METH_FASTCALL | METH_KEYWORDS, flags_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    adv_doc,
    "Advertisement(*, transfer_bytes, data_bytes, parts, hash, random_hash,\n"
    "              original_hash, segment, segments, request_id, flags,\n"
    "              hashmap)\n--\n\n"
    "What a sender says of one segment of a resource before it sends it.\n\n"
    "A Segmenter makes one; the constructor is for crafting any other and "
    "checks only\ntypes and lengths (ValueError, EncodeError). unpack() checks "
    "all that a receiver must.\nImmutable; may be used from any thread.\n\n"
    ">>> segment = Segmenter(b'data', bytes(64))\n"
    ">>> advertisement = Advertisement.unpack(segment.advertisement.pack())\n"
    ">>> advertisement == segment.advertisement, advertisement.data_bytes\n"
    "(True, 4)\n");

static PyType_Slot adv_slots[] = {{Py_tp_doc, (void *)adv_doc},
                                  {Py_tp_new, (void *)nm_py_new},
                                  {Py_tp_members, adv_members},
                                  {Py_tp_getset, adv_getters},
                                  {Py_tp_methods, adv_methods},
                                  NM_PY_RECORD_SLOTS,
                                  {0, NULL}};

static PyType_Spec adv_spec = {
    .name = "netmesh._core.Advertisement",
    .basicsize = NM_PY_RECORD_SIZE(ADV_FIELDS),
    .flags = NM_PY_RECORD_FLAGS,
    .slots = adv_slots,
};

int nm_py_advertisement_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Advertisement, &adv_spec, NULL,
                     adv_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, adv_functions);
}
