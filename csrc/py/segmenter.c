/* Segmenter: one prepared segment of a resource (RNS 2, 3.2, 3.4). */
#include "crypto/entropy.h"
#include "py/args.h"
#include "py/cipher.h"
#include "py/errors.h"
#include "py/resource.h"
#include "py/token.h"
#include "wire/resource_build.h"
#include "wire/resource_window.h"

/* Candidates for the random hash that are drawn at once, and how often. */
#define CANDIDATES 8
#define DRAWS_MAX 8

typedef struct segmenter {
  PyObject_HEAD
  PyObject *stream;  /* bytes: the ciphertext; owned */
  PyObject *hashmap; /* bytes: 4 for each part; owned */
  uint8_t *sent_map; /* owned */
  nm_resource_segment segment;
  nm_resource_server server;
  nm_resource_announce what; /* its spans point to the two arrays below */
  uint8_t original[NM_HASH_SIZE];
  uint8_t request_id[NM_RESOURCE_REQUEST_ID_SIZE];
} segmenter;

static segmenter *segmenter_of(PyObject *self) {
  return (segmenter *)self;
}

static void segmenter_dealloc(PyObject *self) {
  segmenter *s = segmenter_of(self);
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(s->stream);
  Py_XDECREF(s->hashmap);
  PyMem_Free(s->sent_map);
  type->tp_free(self);
  Py_DECREF(type);
}

/* --------------------------------------------------------------- arguments */

enum {
  ARG_PLAINTEXT,
  ARG_KEY,
  ARG_SDU,
  ARG_COMPRESSION,
  ARG_RANDOM_HASH,
  ARG_PREFIX,
  ARG_IV,
  ARG_DATA_BYTES,
  ARG_SEGMENT,
  ARG_SEGMENTS,
  ARG_ORIGINAL_HASH,
  ARG_REQUEST_ID,
  ARG_IS_RESPONSE,
  ARG_HAS_METADATA,
  ARG_COUNT
};

/* How a segment is to be built. */
typedef struct options {
  size_t sdu;
  nm_resource_compression compression;
  bool random_given;
  uint8_t random[NM_RESOURCE_RANDOM_SIZE];
  uint8_t prefix[NM_RESOURCE_PREFIX_SIZE];
  uint8_t iv[NM_AES_BLOCK];
  PyObject *seal; /* a callable, borrowed; NULL: `key` is used */
  nm_token_key key;
} options;

static int parse_compression(PyObject *obj, nm_resource_compression *out) {
  static const char *const names[] = {"off", "when_smaller", "automatic"};
  nm_span text;
  if (nm_py_text(obj, "Segmenter", "compression", &text) < 0) {
    return -1;
  }
  for (size_t i = 0; i < 3; i++) {
    if (nm_span_equal(text, nm_span_of(names[i], strlen(names[i])))) {
      *out = (nm_resource_compression)i;
      return 0;
    }
  }
  PyErr_Format(PyExc_ValueError,
               "Segmenter() parameter 'compression' must be 'off', "
               "'when_smaller' or 'automatic', not %R",
               obj);
  return -1;
}

/* |obj| as exactly |len| bytes; random bytes when it is absent. */
static int bytes_or_random(nm_state *state, PyObject *obj, const char *name,
                           uint8_t *out, size_t len) {
  if (!nm_py_absent(obj)) {
    return nm_py_exact(obj, "Segmenter", name, out, len);
  }
  int status = nm_entropy_fill(&nm_entropy_system, out, len);
  if (status < 0) {
    nm_py_raise_status(state, status, "resource", name);
    return -1;
  }
  return 0;
}

static int parse_key(nm_state *state, PyObject *obj, options *o) {
  if (!Py_IS_TYPE(obj, NM_PY_TYPE(state, Token)) &&
      !PyObject_CheckBuffer(obj)) {
    if (!PyCallable_Check(obj)) {
      return nm_py_type_error("Segmenter", "key",
                              "a Token, 32 or 64 bytes or a callable", obj);
    }
    o->seal = obj;
    return 0;
  }
  return nm_py_token_key(state, obj, "Segmenter", "key", &o->key);
}

static int parse_options(nm_state *state, PyObject *const *in, options *o) {
  long long sdu = 464;
  if ((in[ARG_SDU] != NULL &&
       nm_py_int(in[ARG_SDU], "Segmenter", "sdu", 1, UINT32_MAX, &sdu) < 0) ||
      (in[ARG_COMPRESSION] != NULL &&
       parse_compression(in[ARG_COMPRESSION], &o->compression) < 0) ||
      bytes_or_random(state, in[ARG_PREFIX], "prefix", o->prefix,
                      sizeof o->prefix) < 0 ||
      bytes_or_random(state, in[ARG_IV], "iv", o->iv, sizeof o->iv) < 0) {
    return -1;
  }
  o->sdu = (size_t)sdu;
  o->random_given = !nm_py_absent(in[ARG_RANDOM_HASH]);
  if (o->random_given &&
      nm_py_exact(in[ARG_RANDOM_HASH], "Segmenter", "random_hash", o->random,
                  sizeof o->random) < 0) {
    return -1;
  }
  return parse_key(state, in[ARG_KEY], o);
}

/* What the advertisement says of the request that the segment belongs to. */
static int parse_request(segmenter *s, PyObject *const *in) {
  bool has_id = !nm_py_absent(in[ARG_REQUEST_ID]);
  bool is_response = false;
  if ((in[ARG_IS_RESPONSE] != NULL &&
       nm_py_bool(in[ARG_IS_RESPONSE], "Segmenter", "is_response",
                  &is_response) < 0) ||
      (has_id && nm_py_exact(in[ARG_REQUEST_ID], "Segmenter", "request_id",
                             s->request_id, sizeof s->request_id) < 0)) {
    return -1;
  }
  if (is_response && !has_id) {
    PyErr_SetString(PyExc_ValueError,
                    "Segmenter() parameter 'is_response' needs 'request_id'");
    return -1;
  }
  if (has_id) {
    s->what.request_id = nm_span_of(s->request_id, sizeof s->request_id);
    s->what.is_request = !is_response;
    s->what.is_response = is_response;
  }
  return 0;
}

/* What the advertisement says beyond the segment itself. */
static int parse_what(segmenter *s, PyObject *const *in, size_t plain_len) {
  long long data = (long long)plain_len;
  long long segment = 1;
  long long segments = 1;
  bool metadata = false;
  if ((!nm_py_absent(in[ARG_DATA_BYTES]) &&
       nm_py_int(in[ARG_DATA_BYTES], "Segmenter", "data_bytes", 0, LLONG_MAX,
                 &data) < 0) ||
      (in[ARG_SEGMENTS] != NULL &&
       nm_py_int(in[ARG_SEGMENTS], "Segmenter", "segments", 1, LLONG_MAX,
                 &segments) < 0) ||
      (in[ARG_SEGMENT] != NULL &&
       nm_py_int(in[ARG_SEGMENT], "Segmenter", "segment", 1, segments,
                 &segment) < 0) ||
      (in[ARG_HAS_METADATA] != NULL &&
       nm_py_bool(in[ARG_HAS_METADATA], "Segmenter", "has_metadata",
                  &metadata) < 0)) {
    return -1;
  }
  if (!nm_py_absent(in[ARG_ORIGINAL_HASH])) {
    if (nm_py_exact(in[ARG_ORIGINAL_HASH], "Segmenter", "original_hash",
                    s->original, sizeof s->original) < 0) {
      return -1;
    }
    s->what.original = nm_span_of(s->original, sizeof s->original);
  }
  s->what.data_size = (uint64_t)data;
  s->what.segment = (uint64_t)segment;
  s->what.segments = (uint64_t)segments;
  s->what.has_metadata = metadata;
  return parse_request(s, in);
}

/* ---------------------------------------------------------------- building */

/* The stream of |body| under the key of |o|, a new bytes object or NULL. */
static PyObject *seal_with_key(nm_state *state, const options *o,
                               const nm_resource_plain *body) {
  size_t size = nm_resource_stream_size(body->data.len);
  uint8_t *out;
  PyObject *stream = nm_py_bytes_new(size, &out);
  nm_cipher *cipher = stream != NULL ? nm_py_cipher_take(state) : NULL;
  if (cipher == NULL) {
    Py_XDECREF(stream);
    return NULL;
  }
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_resource_seal(cipher, &o->key, o->iv, o->prefix, body, out);
  Py_END_ALLOW_THREADS;
  nm_py_cipher_give(state, cipher);
  if (status < 0) {
    Py_DECREF(stream);
    return nm_py_raise_status(state, status, "resource", "stream");
  }
  return stream;
}

/* The stream that the caller's seal function makes of |body|. */
static PyObject *seal_with_function(nm_state *state, const options *o,
                                    const nm_resource_plain *body) {
  uint8_t *out;
  size_t size = sizeof o->prefix + body->data.len;
  PyObject *plain = nm_py_bytes_new(size, &out);
  if (plain == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, size);
  nm_writer_put(&w, o->prefix, sizeof o->prefix);
  nm_writer_span(&w, body->data);
  PyObject *result = PyObject_CallOneArg(o->seal, plain);
  Py_DECREF(plain);
  if (result == NULL) {
    return NULL;
  }
  PyObject *stream = nm_py_bytes_of(result, "Segmenter", "key(plaintext)");
  Py_DECREF(result);
  if (stream == NULL) {
    return NULL;
  }
  Py_ssize_t len = PyBytes_GET_SIZE(stream);
  if (len == 0 || len > (Py_ssize_t)NM_RESOURCE_TRANSFER_MAX) {
    Py_DECREF(stream);
    return nm_py_encode_error(
        state, len == 0 ? NM_E(EMPTY) : NM_E(TOO_LARGE), "stream",
        "Segmenter() parameter 'key' returned %zd bytes, not 1..%d", len,
        (int)NM_RESOURCE_TRANSFER_MAX);
  }
  return stream;
}

/* Compresses |plain| if asked to, and seals it. Sets stream and flag. */
static int build_stream(nm_state *state, segmenter *s, const options *o,
                        const nm_resource_plain *plain) {
  nm_buffer packed;
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 1);
  nm_resource_plain body = *plain;
  if (o->compression != NM_RESOURCE_COMPRESS_OFF) {
    Py_BEGIN_ALLOW_THREADS;
    s->segment.compressed =
        nm_resource_compress(plain, o->compression, s->what.data_size, 0,
                             &nm_mem_system, &packed) == 1;
    Py_END_ALLOW_THREADS;
  }
  if (s->segment.compressed) {
    body.data = nm_span_of(packed.ptr, packed.len);
  }
  s->stream = o->seal != NULL ? seal_with_function(state, o, &body)
                              : seal_with_key(state, o, &body);
  nm_buffer_dispose(&packed);
  return s->stream != NULL ? 0 : -1;
}

/* Hashes and map hashes with one of the candidates for the random hash. */
static int index_once(segmenter *s, const options *o,
                      const nm_resource_plain *plain, nm_span randoms) {
  nm_mspan hashmap = {(uint8_t *)PyBytes_AS_STRING(s->hashmap),
                      (size_t)PyBytes_GET_SIZE(s->hashmap)};
  bool compressed = s->segment.compressed;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_resource_index(plain, nm_py_bytes_span(s->stream), o->sdu,
                             randoms, hashmap, &s->segment);
  Py_END_ALLOW_THREADS;
  s->segment.compressed = compressed;
  return status;
}

/* Computes hashes, hashmap and proof. A random hash of our own choice is drawn
 * again when map hashes collide. */
static int build_index(nm_state *state, segmenter *s, const options *o,
                       const nm_resource_plain *plain) {
  uint64_t parts =
      nm_resource_part_count((uint64_t)PyBytes_GET_SIZE(s->stream), o->sdu);
  s->hashmap = PyBytes_FromStringAndSize(
      NULL, (Py_ssize_t)(parts * NM_RESOURCE_MAP_HASH_SIZE));
  if (s->hashmap == NULL) {
    return -1;
  }
  int status;
  if (o->random_given) {
    status = index_once(s, o, plain, nm_span_of(o->random, sizeof o->random));
  } else {
    int draws = 0;
    do {
      uint8_t randoms[CANDIDATES * NM_RESOURCE_RANDOM_SIZE];
      status = nm_entropy_fill(&nm_entropy_system, randoms, sizeof randoms);
      if (status == NM_OK) {
        status = index_once(s, o, plain, nm_span_of(randoms, sizeof randoms));
      }
    } while (status == NM_E(COLLISION) && ++draws < DRAWS_MAX);
  }
  if (status < 0) {
    nm_fault fault = {status, "random_hash", 0};
    nm_py_raise_encode(state, &fault, "resource");
    return -1;
  }
  return 0;
}

/* Makes the segmenter ready to answer requests. */
static int build_server(nm_state *state, segmenter *s) {
  nm_mspan sent = {NULL, nm_resource_sent_size(s->segment.parts)};
  s->sent_map = PyMem_Malloc(sent.len + 1);
  if (s->sent_map == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  sent.ptr = s->sent_map;
  int status = nm_resource_server_init(&s->server, nm_py_bytes_span(s->stream),
                                       nm_py_bytes_span(s->hashmap),
                                       s->segment.sdu, s->segment.hash, sent);
  if (status < 0) {
    nm_py_raise_status(state, status, "resource", "parts");
    return -1;
  }
  return 0;
}

static int segmenter_build(nm_state *state, segmenter *s, PyObject *const *in,
                           nm_span plaintext) {
  if (plaintext.len > NM_RESOURCE_SEGMENT_MAX) {
    nm_py_encode_error(state, NM_E(TOO_LARGE), "plaintext",
                       "Segmenter() parameter 'plaintext' has %zu bytes, more "
                       "than the %d of a segment",
                       plaintext.len, (int)NM_RESOURCE_SEGMENT_MAX);
    return -1;
  }
  options o = {.compression = NM_RESOURCE_COMPRESS_OFF};
  nm_resource_plain plain = {.data = plaintext};
  int result = parse_what(s, in, plaintext.len);
  if (result == 0) {
    result = parse_options(state, in, &o);
  }
  if (result == 0) {
    result = build_stream(state, s, &o, &plain);
  }
  nm_token_key_wipe(&o.key);
  if (result == 0) {
    result = build_index(state, s, &o, &plain);
  }
  return result == 0 ? build_server(state, s) : -1;
}

static PyObject *segmenter_construct(PyObject *callable, PyObject *const *args,
                                     size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Segmenter",
      .count = ARG_COUNT,
      .required = 2,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_plaintext, NM_STR_key, NM_STR_sdu, NM_STR_compression,
                NM_STR_random_hash, NM_STR_prefix, NM_STR_iv, NM_STR_data_bytes,
                NM_STR_segment, NM_STR_segments, NM_STR_original_hash,
                NM_STR_request_id, NM_STR_is_response, NM_STR_has_metadata}};
  PyTypeObject *type = (PyTypeObject *)callable;
  nm_state *state = nm_py_state_of_type(type);
  PyObject *in[ARG_COUNT];
  nm_py_buffer plaintext;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, in) < 0 ||
      nm_py_buffer_get(in[ARG_PLAINTEXT], "Segmenter", "plaintext",
                       &plaintext) < 0) {
    return NULL;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self != NULL &&
      segmenter_build(state, segmenter_of(self), in, plaintext.span) < 0) {
    Py_CLEAR(self);
  }
  nm_py_buffer_release(&plaintext);
  return self;
}

/* ----------------------------------------------------------------- reading */

static PyObject *get_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(
      nm_span_of(segmenter_of(self)->segment.hash, NM_HASH_SIZE));
}

static PyObject *get_random_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(
      nm_span_of(segmenter_of(self)->segment.random, NM_RESOURCE_RANDOM_SIZE));
}

static PyObject *get_expected_proof(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(
      nm_span_of(segmenter_of(self)->segment.expected_proof, NM_HASH_SIZE));
}

static PyObject *get_hashmap(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(segmenter_of(self)->hashmap);
}

static PyObject *get_stream(PyObject *self, void *Py_UNUSED(closure)) {
  return PyMemoryView_FromObject(segmenter_of(self)->stream);
}

static PyObject *get_parts(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(segmenter_of(self)->segment.parts);
}

static PyObject *get_sent(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(segmenter_of(self)->server.sent);
}

static PyObject *get_compressed(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(segmenter_of(self)->segment.compressed);
}

static PyObject *get_advertisement(PyObject *self, void *Py_UNUSED(closure)) {
  segmenter *s = segmenter_of(self);
  nm_resource_adv adv;
  nm_resource_adv_of(&s->segment, &s->what, &adv);
  return nm_py_advertisement_new(nm_py_state_of(self), &adv);
}

static PyGetSetDef segmenter_getters[] = {
    {"hash", get_hash, NULL, "Hash of the segment, 32 bytes.", NULL},
    {"random_hash", get_random_hash, NULL, "4 bytes that salt all hashes.",
     NULL},
    {"expected_proof", get_expected_proof, NULL,
     "H(plaintext | hash): what the receiver must send, 32 bytes.", NULL},
    {"hashmap", get_hashmap, NULL, "The map hashes of all parts, 4 bytes each.",
     NULL},
    {"stream", get_stream, NULL, "The encrypted stream, a view.", NULL},
    {"parts", get_parts, NULL, "How many parts the stream has.", NULL},
    {"sent", get_sent, NULL, "Distinct parts that serve() has named so far.",
     NULL},
    {"compressed", get_compressed, NULL, "Does the stream hold bzip2 data?",
     NULL},
    {"advertisement", get_advertisement, NULL,
     "The Advertisement to send; its hashmap holds the first 74 map hashes.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyDoc_STRVAR(part_doc, "part($self, index, /)\n--\n\n"
                       "A view of part index, at most sdu bytes.\n\n"
                       "Raises IndexError outside 0 to parts - 1.");

static PyObject *segmenter_part(PyObject *self, PyObject *arg) {
  segmenter *s = segmenter_of(self);
  if (!PyLong_Check(arg)) {
    nm_py_type_error("Segmenter.part", "index", "an int", arg);
    return NULL;
  }
  int overflow;
  long long index = PyLong_AsLongLongAndOverflow(arg, &overflow);
  if (overflow != 0 || index < 0 || (uint64_t)index >= s->segment.parts) {
    PyErr_Format(PyExc_IndexError, "part %S of a segment of %llu parts", arg,
                 (unsigned long long)s->segment.parts);
    return NULL;
  }
  size_t start = (size_t)index * s->segment.sdu;
  size_t left = (size_t)PyBytes_GET_SIZE(s->stream) - start;
  return nm_py_view(s->stream, start,
                    left < s->segment.sdu ? left : s->segment.sdu);
}

PyDoc_STRVAR(hashmap_update_doc,
             "hashmap_update($self, segment, /)\n--\n\n"
             "The HashmapUpdate with the map hashes of parts 74 * segment and "
             "on.\n\n"
             "Raises ValueError when there are none.");

static PyObject *segmenter_hashmap_update(PyObject *self, PyObject *arg) {
  segmenter *s = segmenter_of(self);
  long long segment;
  if (nm_py_int(arg, "Segmenter.hashmap_update", "segment", 0, UINT32_MAX,
                &segment) < 0) {
    return NULL;
  }
  nm_resource_hmu hmu = {.hash = nm_span_of(s->segment.hash, NM_HASH_SIZE),
                         .segment = (uint64_t)segment,
                         .hashmap = nm_resource_hmu_slice(
                             nm_py_bytes_span(s->hashmap), (uint64_t)segment)};
  if (hmu.hashmap.len == 0) {
    PyErr_Format(PyExc_ValueError,
                 "Segmenter.hashmap_update() parameter 'segment': segment "
                 "%lld holds no map hashes",
                 segment);
    return NULL;
  }
  return nm_py_hashmap_update_new(nm_py_state_of(self), &hmu);
}

/* --------------------------------------------------------------- answering */

PyDoc_STRVAR(
    serve_doc,
    "serve($self, request, /)\n--\n\n"
    "Answers a part request (a PartRequest or its bytes): the indices of the "
    "parts to send,\nin order, and the segment of the hashmap update to send "
    "too, or None.\n\n"
    "Ignoring repeated requests is the caller's, by packet hash. Raises "
    "DecodeError\n(\"MISMATCH\") when the request names another resource or "
    "is out of sequence, in which\ncase the transfer must be cancelled; an "
    "error changes nothing.");

static PyObject *indices_of(const nm_resource_tx *tx, uint32_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (uint32_t i = 0; list != NULL && i < count; i++) {
    PyObject *index = PyLong_FromUnsignedLong(tx[i].index);
    if (index == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, index);
    }
  }
  return list;
}

static PyObject *segmenter_serve(PyObject *self, PyObject *arg) {
  nm_state *state = nm_py_state_of(self);
  segmenter *s = segmenter_of(self);
  PyObject *packed =
      nm_py_part_request_packed(state, arg, "Segmenter.serve", "request");
  if (packed == NULL) {
    return NULL;
  }
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
  nm_fault fault;
  int status = nm_resource_serve(&s->server, nm_py_bytes_span(packed), tx,
                                 NM_RESOURCE_GUARD, &answer, &fault);
  Py_DECREF(packed);
  if (status < 0) {
    return nm_py_raise(state, &fault, "resource");
  }
  PyObject *update = answer.send_update
                         ? PyLong_FromUnsignedLong(answer.update_segment)
                         : Py_NewRef(Py_None);
  PyObject *indices = indices_of(tx, answer.count);
  if (update == NULL || indices == NULL) {
    Py_XDECREF(update);
    Py_XDECREF(indices);
    return NULL;
  }
  return Py_BuildValue("(NN)", indices, update);
}

PyDoc_STRVAR(check_proof_doc,
             "check_proof($self, payload, /)\n--\n\n"
             "Is payload the proof of this segment? Anything else is False.");

static PyObject *segmenter_check_proof(PyObject *self, PyObject *arg) {
  segmenter *s = segmenter_of(self);
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Segmenter.check_proof", "payload", &buf) < 0) {
    return NULL;
  }
  nm_resource_proof proof;
  bool good =
      nm_resource_proof_decode(buf.span, &proof, NULL) == NM_OK &&
      nm_equal_ct(proof.hash.ptr, s->segment.hash, NM_HASH_SIZE) &&
      nm_equal_ct(proof.proof.ptr, s->segment.expected_proof, NM_HASH_SIZE);
  nm_py_buffer_release(&buf);
  return PyBool_FromLong(good);
}

/* ------------------------------------------------------------------- class */

static PyMethodDef segmenter_methods[] = {
    {"part", segmenter_part, METH_O, part_doc},
    {"hashmap_update", segmenter_hashmap_update, METH_O, hashmap_update_doc},
    {"serve", segmenter_serve, METH_O, serve_doc},
    {"check_proof", segmenter_check_proof, METH_O, check_proof_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    segmenter_doc,
    "Segmenter(plaintext, key, /, *, sdu=464, compression='off',\n"
    "          random_hash=None, prefix=None, iv=None, data_bytes=None,\n"
    "          segment=1, segments=1, original_hash=None, request_id=None,\n"
    "          is_response=False, has_metadata=False)\n--\n\n"
    "One segment of a resource: compressed if that helps, encrypted, cut into "
    "parts, hashed,\nready to advertise and to serve.\n\n"
    "plaintext is at most 1048575 bytes, the metadata block of a first "
    "segment included. key\nis the link's Token, its 32 or 64 bytes, or a "
    "function from plaintext to stream. sdu is\nthe size of a part: the link's "
    "MTU minus 36. compression is 'off', 'when_smaller' or\n'automatic', which "
    "does not try data that look like noise. random_hash (4 bytes),\nprefix "
    "(4) "
    "and iv (16) are random unless given; a given random_hash whose map hashes"
    "\ncollide raises EncodeError (\"COLLISION\"). data_bytes is the size of "
    "the "
    "whole resource,\noriginal_hash the hash of segment 1. request_id (16) "
    "marks a request, with is_response a\nresponse.\n\n"
    "Immutable but for serve(), which one thread at a time may call.\n\n"
    ">>> segment = Segmenter(bytes(1000), bytes(64))\n"
    ">>> segment.parts, len(segment.stream), len(segment.part(2))\n"
    "(3, 1056, 128)\n");

static PyType_Slot segmenter_slots[] = {
    {Py_tp_doc, (void *)segmenter_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)segmenter_dealloc},
    {Py_tp_getset, segmenter_getters},
    {Py_tp_methods, segmenter_methods},
    {0, NULL}};

static PyType_Spec segmenter_spec = {
    .name = "netmesh._core.Segmenter",
    .basicsize = sizeof(segmenter),
    .flags = NM_PY_FLAGS,
    .slots = segmenter_slots,
};

int nm_py_segmenter_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Segmenter, &segmenter_spec, NULL,
                        segmenter_construct);
}
