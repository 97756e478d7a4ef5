/* Assembler: collects the parts of one advertised segment and turns them into
 * the plaintext (RNS 2, 3.5 to 3.7, 3.10). Assembled: what came out.
 */
#include "py/args.h"
#include "py/cipher.h"
#include "py/errors.h"
#include "py/msgpack.h"
#include "py/resource.h"
#include "py/token.h"
#include "py/value.h"
#include "wire/resource_join.h"

/* --------------------------------------------------------------- Assembled */

enum { OUT_PLAINTEXT, OUT_METADATA, OUT_PROOF, OUT_FIELDS };

static PyMemberDef assembled_members[] = {
    NM_PY_FIELD("plaintext", OUT_PLAINTEXT,
                "The data of the segment, metadata block removed."),
    NM_PY_FIELD("metadata", OUT_METADATA,
                "The metadata, decoded; None when there is none."),
    NM_PY_FIELD("proof", OUT_PROOF,
                "The 64-byte payload of the proof packet to send."),
    {NULL, 0, 0, 0, NULL}};

PyDoc_STRVAR(assembled_doc,
             "A segment that was received completely and passed its check.\n\n"
             "Made by Assembler.finish(). Immutable.");

static PyType_Slot assembled_slots[] = {{Py_tp_doc, (void *)assembled_doc},
                                        {Py_tp_members, assembled_members},
                                        NM_PY_RECORD_SLOTS,
                                        {0, NULL}};

static PyType_Spec assembled_spec = {
    .name = "netmesh._core.Assembled",
    .basicsize = NM_PY_RECORD_SIZE(OUT_FIELDS),
    .flags = NM_PY_RECORD_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = assembled_slots,
};

/* --------------------------------------------------------------- Assembler */

typedef struct assembler {
  PyObject_HEAD
  nm_resource_join join;
} assembler;

static nm_resource_join *join_of(PyObject *self) {
  return &((assembler *)self)->join;
}

static void assembler_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_resource_join_dispose(join_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *assembler_construct(PyObject *callable, PyObject *const *args,
                                     size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Assembler",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_advertisement, NM_STR_sdu}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[2];
  long long sdu = 464;
  nm_py_buffer buf;
  nm_resource_adv adv;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      (in[1] != NULL &&
       nm_py_int(in[1], "Assembler", "sdu", 1, UINT32_MAX, &sdu) < 0) ||
      nm_py_advertisement_get(state, in[0], "Assembler", "advertisement", &buf,
                              &adv) < 0) {
    return NULL;
  }
  PyObject *self = type->tp_alloc(type, 0);
  nm_fault fault;
  if (self != NULL && nm_resource_join_init(join_of(self), &adv, (size_t)sdu,
                                            &nm_mem_system, &fault) < 0) {
    nm_py_raise(state, &fault, "resource");
    Py_CLEAR(self);
  }
  nm_py_buffer_release(&buf);
  return self;
}

/* --------------------------------------------------------------- receiving */

PyDoc_STRVAR(
    add_doc,
    "add($self, part, /, *, window=None)\n--\n\n"
    "Stores a part and returns its index, or None when it is none of the "
    "missing parts.\n\n"
    "window bounds the search to so many places from the first missing part, "
    "as the\nreference does; None searches all whose map hash is known.");

static PyObject *assembler_add(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Assembler.add",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_part, NM_STR_window}};
  nm_state *state = nm_py_state_of(self);
  PyObject *in[2];
  long long window = 0;
  nm_py_buffer part;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (!nm_py_absent(in[1]) && nm_py_int(in[1], "Assembler.add", "window", 1,
                                         UINT32_MAX, &window) < 0) ||
      nm_py_buffer_get(in[0], "Assembler.add", "part", &part) < 0) {
    return NULL;
  }
  uint32_t index;
  int status =
      nm_resource_join_part(join_of(self), part.span, (size_t)window, &index);
  nm_py_buffer_release(&part);
  /* A part that matches by chance but has another length is no part of this
   * resource either. */
  if (status == NM_E(MISMATCH) || status == NM_E(LENGTH)) {
    Py_RETURN_NONE;
  }
  return status < 0 ? nm_py_raise_status(state, status, "resource", "part")
                    : PyLong_FromUnsignedLong(index);
}

PyDoc_STRVAR(
    update_doc,
    "update($self, update, /)\n--\n\n"
    "Takes a hashmap update: a HashmapUpdate or its bytes.\n\n"
    "Raises DecodeError (\"MISMATCH\") when it is for another resource "
    "or does not follow\nthe known map hashes, (\"RANGE\") when it "
    "reaches behind the last part; NetmeshError\n(\"STATE\") when "
    "none is awaited. A refused update changes nothing.");

static PyObject *assembler_update(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_py_buffer buf;
  nm_resource_hmu hmu;
  if (nm_py_hashmap_update_get(state, arg, "Assembler.update", "update", &buf,
                               &hmu) < 0) {
    return NULL;
  }
  nm_fault fault;
  int status = nm_resource_join_update(join_of(self), &hmu, &fault);
  nm_py_buffer_release(&buf);
  if (status == NM_E(STATE)) {
    /* Not the fault of the bytes. */
    return nm_py_simple_error(state, NM_ERROR_NetmeshError, status,
                              "resource: no hashmap update is awaited");
  }
  if (status < 0) {
    return nm_py_raise(state, &fault, "resource");
  }
  Py_RETURN_NONE;
}

PyDoc_STRVAR(
    next_request_doc,
    "next_request($self, window, /)\n--\n\n"
    "The PartRequest for what is missing in the next window places, or None "
    "when all parts\nare there.\n\n"
    "When it meets a part whose map hash is unknown it is of the exhausted "
    "form, which asks\nfor a hashmap update too. Call it again to repeat a "
    "request after a time-out.");

static PyObject *assembler_next_request(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  nm_resource_join *join = join_of(self);
  long long window;
  if (nm_py_int(arg, "Assembler.next_request", "window", 1, UINT32_MAX,
                &window) < 0) {
    return NULL;
  }
  if (nm_resource_join_complete(join)) {
    Py_RETURN_NONE;
  }
  uint32_t places =
      (uint64_t)window < join->parts ? (uint32_t)window : join->parts;
  size_t cap = 1 + NM_RESOURCE_MAP_HASH_SIZE + NM_HASH_SIZE +
               (size_t)places * NM_RESOURCE_MAP_HASH_SIZE;
  uint8_t *room = PyMem_Malloc(cap);
  if (room == NULL) {
    return PyErr_NoMemory();
  }
  nm_writer w = nm_writer_of(room, cap);
  nm_resource_request request;
  nm_fault fault = {nm_resource_join_request(join, places, &w), "request", 0};
  if (fault.status == NM_OK) {
    fault.status =
        nm_resource_request_decode(nm_writer_done(&w), &request, &fault);
  }
  PyObject *result = fault.status < 0 ? nm_py_raise(state, &fault, "resource")
                                      : nm_py_part_request_new(state, &request);
  PyMem_Free(room);
  return result;
}

/* --------------------------------------------------------------- finishing */

/* Raises ResourceError for |fault|, unless the fault is not the peer's.
 * Returns NULL. */
static PyObject *finish_error(nm_state *state, const nm_fault *fault) {
  if (fault->status == NM_E(MEMORY) || fault->status == NM_E(LIBRARY)) {
    return nm_py_raise(state, fault, "resource");
  }
  int status = fault->status;
  bool metadata = strcmp(fault->field, "metadata") == 0;
  if (metadata) {
    status = NM_E(VALUE);
  } else if (strcmp(fault->field, "resource.stream") == 0) {
    status = NM_E(AUTH);
  } else if (status == NM_E(TRUNCATED)) {
    status = NM_E(MISMATCH); /* too short to hold its own prefix */
  }
  return nm_py_simple_error(state, NM_ERROR_ResourceError, status,
                            "resource: %s %s", fault->field,
                            nm_status_text(status));
}

/* The metadata of |result| as a Python object. New reference or NULL. */
static PyObject *metadata_of(nm_state *state,
                             const nm_resource_result *result) {
  if (result->metadata.ptr == NULL) {
    return Py_NewRef(Py_None);
  }
  nm_reader r = nm_reader_of(result->metadata);
  PyObject *value =
      nm_py_msgpack_unpack(state, &r, NULL, "resource", "metadata");
  if (value == NULL &&
      PyErr_ExceptionMatches(NM_PY_ERROR(state, DecodeError))) {
    PyErr_Clear();
    nm_fault fault = {NM_E(VALUE), "metadata", 0};
    return finish_error(state, &fault);
  }
  return value;
}

static PyObject *assembled_of(nm_state *state, const nm_resource_join *join,
                              const nm_resource_result *result) {
  PyObject *metadata = metadata_of(state, result);
  if (metadata == NULL) {
    return NULL;
  }
  uint8_t proof[NM_RESOURCE_PROOF_SIZE];
  nm_writer w = nm_writer_of(proof, sizeof proof);
  nm_writer_put(&w, join->hash, NM_HASH_SIZE);
  nm_writer_put(&w, result->proof, NM_HASH_SIZE);
  PyObject *fields[OUT_FIELDS] = {nm_py_bytes(result->data), metadata,
                                  nm_py_bytes(nm_writer_done(&w))};
  return nm_py_record_new(NM_PY_TYPE(state, Assembled), fields);
}

/* Inflates and checks what |opened|, the decrypted stream, holds. */
static PyObject *finish_opened(nm_state *state, const nm_resource_join *join,
                               nm_span opened, size_t limit) {
  nm_resource_terms terms;
  nm_resource_join_terms(join, limit, &terms);
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 1);
  nm_resource_result result;
  nm_fault fault;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_resource_finish(opened, &terms, &nm_mem_system, &out, &result, &fault);
  Py_END_ALLOW_THREADS;
  PyObject *assembled = status < 0 ? finish_error(state, &fault)
                                   : assembled_of(state, join, &result);
  nm_buffer_dispose(&out);
  return assembled;
}

static PyObject *finish_with_key(nm_state *state, const nm_resource_join *join,
                                 const nm_token_key *key, size_t limit) {
  nm_span stream = nm_span_of(join->stream.ptr, join->stream.len);
  uint8_t *room = PyMem_Malloc(stream.len);
  nm_cipher *cipher = NULL;
  PyObject *result = NULL;
  if (room == NULL) {
    return PyErr_NoMemory();
  }
  cipher = nm_py_cipher_take(state);
  if (cipher != NULL) {
    size_t len = 0;
    nm_fault fault = {NM_OK, "resource.stream", 0};
    Py_BEGIN_ALLOW_THREADS;
    fault.status = nm_token_open(cipher, key, stream, room, &len);
    Py_END_ALLOW_THREADS;
    nm_py_cipher_give(state, cipher);
    result = fault.status < 0
                 ? finish_error(state, &fault)
                 : finish_opened(state, join, nm_span_of(room, len), limit);
  }
  nm_wipe(room, stream.len);
  PyMem_Free(room);
  return result;
}

static PyObject *finish_with_function(nm_state *state,
                                      const nm_resource_join *join,
                                      PyObject *open, size_t limit) {
  PyObject *stream =
      nm_py_bytes(nm_span_of(join->stream.ptr, join->stream.len));
  PyObject *opened = stream != NULL ? PyObject_CallOneArg(open, stream) : NULL;
  Py_XDECREF(stream);
  if (opened == NULL) {
    return NULL;
  }
  nm_py_buffer buf;
  PyObject *result = NULL;
  if (nm_py_buffer_get(opened, "Assembler.finish", "key(stream)", &buf) == 0) {
    result = finish_opened(state, join, buf.span, limit);
    nm_py_buffer_release(&buf);
  }
  Py_DECREF(opened);
  return result;
}

PyDoc_STRVAR(
    finish_doc,
    "finish($self, key, /, *, max_size=67108864)\n--\n\n"
    "Decrypts the complete stream, inflates it if it is compressed, checks its "
    "hash and splits\noff the metadata.\n\n"
    "key is the link's Token, its 32 or 64 bytes, or a function from stream to "
    "plaintext.\nmax_size bounds the inflated bytes. May be called again. "
    "Raises ResourceError with reason\n\"STATE\" (parts are missing), \"AUTH\" "
    "(it does not decrypt), \"COMPRESSED\" (damaged),\n\"LIMIT\" (inflates "
    "beyond max_size), \"MISMATCH\" (wrong hash) or \"VALUE\" (damaged "
    "metadata).");

static PyObject *assembler_finish(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Assembler.finish",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_key, NM_STR_max_size}};
  nm_state *state = nm_py_state_of(self);
  nm_resource_join *join = join_of(self);
  PyObject *in[2];
  long long limit = NM_RESOURCE_COMPRESS_MAX;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (in[1] != NULL && nm_py_int(in[1], "Assembler.finish", "max_size", 1,
                                  PY_SSIZE_T_MAX, &limit) < 0)) {
    return NULL;
  }
  if (!nm_resource_join_complete(join)) {
    return nm_py_simple_error(state, NM_ERROR_ResourceError, NM_E(STATE),
                              "resource: %u of %u parts are missing",
                              join->parts - join->received, join->parts);
  }
  PyObject *key = in[0];
  bool is_key =
      Py_IS_TYPE(key, NM_PY_TYPE(state, Token)) || PyObject_CheckBuffer(key);
  if (!is_key && PyCallable_Check(key)) {
    return finish_with_function(state, join, key, (size_t)limit);
  }
  if (!is_key) {
    nm_py_type_error("Assembler.finish", "key",
                     "a Token, 32 or 64 bytes or a callable", key);
    return NULL;
  }
  nm_token_key token;
  if (nm_py_token_key(state, key, "Assembler.finish", "key", &token) < 0) {
    return NULL;
  }
  PyObject *result = finish_with_key(state, join, &token, (size_t)limit);
  nm_token_key_wipe(&token);
  return result;
}

/* ------------------------------------------------------------------- class */

static PyObject *get_received(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(join_of(self)->received);
}

static PyObject *get_parts(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(join_of(self)->parts);
}

static PyObject *get_consecutive(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(join_of(self)->first_missing);
}

static PyObject *get_height(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(join_of(self)->height);
}

static PyObject *get_waiting(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(join_of(self)->waiting_for_hashmap);
}

static PyObject *get_complete(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(nm_resource_join_complete(join_of(self)));
}

static PyGetSetDef assembler_getters[] = {
    {"received", get_received, NULL, "Distinct parts stored.", NULL},
    {"parts", get_parts, NULL,
     "How many parts there are, from the transfer size and sdu.", NULL},
    {"consecutive", get_consecutive, NULL, "Index of the first missing part.",
     NULL},
    {"hashmap_height", get_height, NULL, "How many map hashes are known.",
     NULL},
    {"waiting_for_hashmap", get_waiting, NULL,
     "Did the last request ask for a hashmap update?", NULL},
    {"complete", get_complete, NULL, "Are all parts there?", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef assembler_methods[] = {
    {"add", NM_PY_FASTCALL(assembler_add), METH_FASTCALL | METH_KEYWORDS,
     add_doc},
    {"update", assembler_update, METH_O, update_doc},
    {"next_request", assembler_next_request, METH_O, next_request_doc},
    {"finish", NM_PY_FASTCALL(assembler_finish), METH_FASTCALL | METH_KEYWORDS,
     finish_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    assembler_doc,
    "Assembler(advertisement, /, *, sdu=464)\n--\n\n"
    "Collects the parts of one advertised segment.\n\n"
    "advertisement is an Advertisement or its bytes, sdu the size of a part: "
    "the link's MTU\nminus 36. Memory for the whole stream, at most 3 MiB, is "
    "taken at once. Confined to one\nthread at a time. Raises DecodeError for "
    "an advertisement that a receiver must refuse.\n\n"
    ">>> segment = Segmenter(b'x' * 1000, bytes(64))\n"
    ">>> assembler = Assembler(segment.advertisement)\n"
    ">>> [assembler.add(segment.part(i)) for i in (2, 0, 0, 1)]\n"
    "[2, 0, None, 1]\n"
    ">>> assembler.finish(bytes(64)).plaintext == b'x' * 1000\n"
    "True\n");

static PyType_Slot assembler_slots[] = {
    {Py_tp_doc, (void *)assembler_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)assembler_dealloc},
    {Py_tp_getset, assembler_getters},
    {Py_tp_methods, assembler_methods},
    {0, NULL}};

static PyType_Spec assembler_spec = {
    .name = "netmesh._core.Assembler",
    .basicsize = sizeof(assembler),
    .flags = NM_PY_FLAGS,
    .slots = assembler_slots,
};

int nm_py_assembler_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Assembled, &assembled_spec, NULL,
                     NULL) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_Assembler, &assembler_spec, NULL,
                        assembler_construct);
}
