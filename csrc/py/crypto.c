/* netmesh.crypto: digests, key derivation, ciphers, curves, bzip2. */
#include "crypto/aes.h"
#include "crypto/bz2.h"
#include "crypto/curve.h"
#include "crypto/entropy.h"
#include "crypto/hash.h"
#include "crypto/sha256_lanes.h"
#include "py/args.h"
#include "py/backend.h"
#include "py/cipher.h"
#include "py/errors.h"

/* -------------------------------------------------------------- digests */

typedef void (*digest_function)(uint8_t *out, nm_span data);

/* The digest of the bytes-like |arg|, |size| bytes. */
static PyObject *digest_of(PyObject *arg, const char *function,
                           digest_function digest, size_t size) {
  nm_py_buffer buf;
  uint8_t out[NM_SHA512_SIZE];
  if (nm_py_buffer_get(arg, function, "data", &buf) < 0) {
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(buf.span.len >= NM_PY_LONG_INPUT);
  digest(out, buf.span);
  nm_py_gil_take(released);
  nm_py_buffer_release(&buf);
  return nm_py_bytes(nm_span_of(out, size));
}

PyDoc_STRVAR(sha256_doc, "sha256($module, data, /)\n--\n\n"
                         "SHA-256 of data: 32 bytes.\n\n"
                         ">>> sha256(b'abc').hex()[:16]\n"
                         "'ba7816bf8f01cfea'\n");

static PyObject *core_sha256(PyObject *Py_UNUSED(module), PyObject *arg) {
  return digest_of(arg, "sha256", nm_sha256, NM_HASH_SIZE);
}

PyDoc_STRVAR(sha512_doc, "sha512($module, data, /)\n--\n\n"
                         "SHA-512 of data: 64 bytes.");

static PyObject *core_sha512(PyObject *Py_UNUSED(module), PyObject *arg) {
  return digest_of(arg, "sha512", nm_sha512, NM_SHA512_SIZE);
}

PyDoc_STRVAR(full_hash_doc, "full_hash($module, data, /)\n--\n\n"
                            "The full hash of Reticulum, SHA-256: 32 bytes.");

static PyObject *core_full_hash(PyObject *Py_UNUSED(module), PyObject *arg) {
  return digest_of(arg, "full_hash", nm_sha256, NM_HASH_SIZE);
}

PyDoc_STRVAR(truncated_hash_doc,
             "truncated_hash($module, data, /)\n--\n\n"
             "The first 16 bytes of SHA-256: the form of all addresses.");

static PyObject *core_truncated_hash(PyObject *Py_UNUSED(module),
                                     PyObject *arg) {
  return digest_of(arg, "truncated_hash", nm_truncated_hash, NM_ADDRESS_SIZE);
}

PyDoc_STRVAR(name_hash_doc,
             "name_hash($module, name, /)\n--\n\n"
             "The first 10 bytes of SHA-256 of a dotted name, a str or its "
             "UTF-8 bytes.\n\n"
             ">>> name_hash('lxmf.delivery').hex()\n"
             "'6ec60bc318e2c0f0d908'\n");

static PyObject *core_name_hash(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_py_buffer buf;
  uint8_t out[NM_NAME_HASH_SIZE];
  if (nm_py_text_or_buffer(arg, "name_hash", "name", &buf) < 0) {
    return NULL;
  }
  nm_name_hash(out, buf.span);
  nm_py_buffer_release(&buf);
  return nm_py_bytes(nm_span_of(out, sizeof out));
}

PyDoc_STRVAR(random_hash_doc,
             "random_hash($module, random=None, /)\n--\n\n"
             "The truncated hash of 16 random bytes, or of the 16 given ones: "
             "16 bytes.");

static PyObject *core_random_hash(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {"random_hash",  1, 0, 1, 1,
                                            {NM_STR_random}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *random;
  uint8_t bytes[NM_ADDRESS_SIZE];
  uint8_t out[NM_ADDRESS_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, &random) <
          0 ||
      nm_py_exact_or_random(state, random, "random_hash", "random", bytes,
                            sizeof bytes) < 0) {
    return NULL;
  }
  nm_truncated_hash(out, nm_span_of(bytes, sizeof bytes));
  return nm_py_bytes(nm_span_of(out, sizeof out));
}

PyDoc_STRVAR(hmac_sha256_doc, "hmac_sha256($module, key, data, /)\n--\n\n"
                              "HMAC-SHA-256 of data under a key of any length: "
                              "32 bytes.");

static PyObject *core_hmac_sha256(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "hmac_sha256", 2, 2, 2, 2, {NM_STR_key, NM_STR_data}};
  PyObject *a[2];
  nm_py_buffer key;
  nm_py_buffer data;
  uint8_t out[NM_HASH_SIZE];
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, a) < 0 ||
      nm_py_buffer_get(a[0], "hmac_sha256", "key", &key) < 0) {
    return NULL;
  }
  if (nm_py_buffer_get(a[1], "hmac_sha256", "data", &data) < 0) {
    nm_py_buffer_release(&key);
    return NULL;
  }
  PyThreadState *released =
      nm_py_gil_release(data.span.len >= NM_PY_LONG_INPUT);
  nm_hmac_sha256(out, key.span, data.span);
  nm_py_gil_take(released);
  nm_py_buffer_release(&data);
  nm_py_buffer_release(&key);
  return nm_py_bytes(nm_span_of(out, sizeof out));
}

PyDoc_STRVAR(
    hkdf_doc,
    "hkdf($module, length, ikm, salt=None, info=b'')\n--\n\n"
    "HKDF-SHA-256 as Reticulum uses it: length bytes of key material.\n\n"
    "An absent or empty salt means 32 zero bytes; ikm may be empty. The block "
    "counter\nis one byte and wraps, so that there is no limit of 255 blocks. "
    "Raises ValueError\nfor a length below 1.\n\n"
    ">>> len(hkdf(64, b'shared secret', salt=bytes(16)))\n"
    "64\n");

static PyObject *hkdf_of(nm_state *state, size_t length, nm_span ikm,
                         nm_span salt, nm_span info) {
  uint8_t *out;
  PyObject *result = nm_py_bytes_new(length, &out);
  if (result == NULL) {
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(length >= NM_PY_LONG_INPUT / 2);
  int status = nm_hkdf(out, length, ikm, salt, info);
  nm_py_gil_take(released);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise_status(state, status, "hkdf", "length");
  }
  return result;
}

static PyObject *core_hkdf(PyObject *module, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "hkdf", 4, 2,
      4,      0, {NM_STR_length, NM_STR_ikm, NM_STR_salt, NM_STR_info}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[4];
  long long length;
  nm_py_buffer ikm;
  nm_py_buffer salt;
  nm_py_buffer info;
  PyObject *result = NULL;
  nm_py_buffer_init(&ikm);
  nm_py_buffer_init(&salt);
  nm_py_buffer_init(&info);
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) == 0 &&
      nm_py_int(a[0], "hkdf", "length", 1, NM_PY_SIZE_MAX, &length) == 0 &&
      nm_py_buffer_get(a[1], "hkdf", "ikm", &ikm) == 0 &&
      (nm_py_absent(a[2]) ||
       nm_py_buffer_get(a[2], "hkdf", "salt", &salt) == 0) &&
      (a[3] == NULL || nm_py_buffer_get(a[3], "hkdf", "info", &info) == 0)) {
    result = hkdf_of(state, (size_t)length, ikm.span, salt.span, info.span);
  }
  nm_py_buffer_release(&info);
  nm_py_buffer_release(&salt);
  nm_py_buffer_release(&ikm);
  return result;
}

/* ----------------------------------------------------------- many digests */

PyDoc_STRVAR(
    sha256_many_doc,
    "sha256_many($module, items, /, *, suffix=b'', backend=None)\n--\n\n"
    "The SHA-256 digests of many messages at once, in the lanes of this "
    "CPU.\n\n"
    "Each digest is over an item of the sequence and the suffix, which has at "
    "most 64\nbytes. backend is a name from sha256_backends(); without one "
    "the fastest is used.\nRaises ValueError for another name or a longer "
    "suffix.\n\n"
    ">>> sha256_many([b'a', b'b'], suffix=b'c') == [sha256(b'ac'), "
    "sha256(b'bc')]\n"
    "True\n");

int nm_py_backend(PyObject *name, const char *function,
                  const nm_sha256_lanes **lanes) {
  nm_span text;
  *lanes = nm_sha256_lanes_best();
  if (nm_py_absent(name)) {
    return 0;
  }
  if (nm_py_text(name, function, "backend", &text) < 0) {
    return -1;
  }
  *lanes = nm_sha256_lanes_named((const char *)text.ptr);
  if (*lanes == NULL) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter 'backend' must be one of sha256_backends(), "
                 "not %R",
                 function, name);
    return -1;
  }
  return 0;
}

static PyObject *list_of_hashes(const uint8_t (*hashes)[NM_HASH_SIZE],
                                size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *hash = nm_py_bytes(nm_span_of(hashes[i], NM_HASH_SIZE));
    if (hash == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, hash);
    }
  }
  return list;
}

static PyObject *hash_many(const nm_sha256_lanes *lanes,
                           const nm_py_buffers *items, nm_span suffix) {
  uint8_t(*out)[NM_HASH_SIZE] = PyMem_Calloc(items->count + 1, NM_HASH_SIZE);
  if (out == NULL) {
    return PyErr_NoMemory();
  }
  Py_BEGIN_ALLOW_THREADS;
  (void)nm_sha256_many_with(lanes, out, items->spans, items->count, suffix);
  Py_END_ALLOW_THREADS;
  PyObject *list =
      list_of_hashes((const uint8_t(*)[NM_HASH_SIZE])out, items->count);
  PyMem_Free(out);
  return list;
}

static PyObject *core_sha256_many(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "sha256_many", 3, 1, 1, 1, {NM_STR_items, NM_STR_suffix, NM_STR_backend}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[3];
  const nm_sha256_lanes *lanes;
  nm_py_buffers items;
  nm_py_buffer suffix;
  PyObject *result = NULL;
  nm_py_buffer_init(&suffix);
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_backend(a[2], "sha256_many", &lanes) < 0 ||
      nm_py_buffers_get(a[0], "sha256_many", "items", &items) < 0) {
    return NULL;
  }
  if (a[1] == NULL ||
      nm_py_buffer_get(a[1], "sha256_many", "suffix", &suffix) == 0) {
    if (suffix.span.len > NM_SHA256_SUFFIX_MAX) {
      PyErr_Format(PyExc_ValueError,
                   "sha256_many() parameter 'suffix' must be at most %d bytes "
                   "long, not %zu",
                   NM_SHA256_SUFFIX_MAX, suffix.span.len);
    } else {
      result = hash_many(lanes, &items, suffix.span);
    }
  }
  nm_py_buffer_release(&suffix);
  nm_py_buffers_release(&items);
  return result;
}

PyDoc_STRVAR(sha256_backends_doc,
             "sha256_backends($module, /)\n--\n\n"
             "The names of the implementations of SHA-256 that this CPU can "
             "run, slowest first.");

static PyObject *core_sha256_backends(PyObject *Py_UNUSED(module),
                                      PyObject *Py_UNUSED(unused)) {
  Py_ssize_t count = 0;
  while (nm_sha256_lanes_at(NULL, (size_t)count) != NULL) {
    count++;
  }
  PyObject *names = PyTuple_New(count);
  for (Py_ssize_t i = 0; names != NULL && i < count; i++) {
    PyObject *name =
        PyUnicode_FromString(nm_sha256_lanes_at(NULL, (size_t)i)->name);
    if (name == NULL) {
      Py_CLEAR(names);
    } else {
      PyTuple_SET_ITEM(names, i, name);
    }
  }
  return names;
}

/* --------------------------------------------------------------- padding */

PyDoc_STRVAR(pkcs7_pad_doc, "pkcs7_pad($module, data, /)\n--\n\n"
                            "Adds 1 to 16 bytes of padding, up to a multiple "
                            "of 16.\n\n"
                            ">>> pkcs7_pad(b'a' * 14)[-2:]\n"
                            "b'\\x02\\x02'\n");

static PyObject *core_pkcs7_pad(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_py_buffer buf;
  uint8_t *out;
  if (nm_py_buffer_get(arg, "pkcs7_pad", "data", &buf) < 0) {
    return NULL;
  }
  PyObject *result = nm_py_bytes_new(nm_aes_padded_size(buf.span.len), &out);
  if (result != NULL) {
    nm_pkcs7_pad(out, buf.span);
  }
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(pkcs7_unpad_doc,
             "pkcs7_unpad($module, data, /)\n--\n\n"
             "Removes as many bytes as the last one says. The others are not "
             "looked at, and 0\nremoves nothing: these are the rules of the "
             "wire. Raises DecodeError 'PADDING' when\nit says more than 16 "
             "or more than there are, and for empty data.");

static PyObject *core_pkcs7_unpad(PyObject *module, PyObject *arg) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "pkcs7_unpad", "data", &buf) < 0) {
    return NULL;
  }
  size_t len = 0;
  int status = nm_pkcs7_unpad(buf.span, &len);
  PyObject *result;
  if (status == NM_OK) {
    result = nm_py_bytes(nm_span_of(buf.span.ptr, len));
  } else {
    nm_fault fault = {status, "padding",
                      buf.span.len > 0 ? buf.span.len - 1 : 0};
    result = nm_py_raise(nm_py_state_of_module(module), &fault, "pkcs7");
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* ---------------------------------------------------------------- bzip2 */

/* The content of |out|, or the error |status|; disposes of |out|. */
static PyObject *finish_bz2(nm_state *state, int status, nm_buffer *out) {
  PyObject *result = status == NM_OK
                         ? nm_py_bytes(nm_span_of(out->ptr, out->len))
                         : nm_py_raise_status(state, status, "bzip2", "data");
  nm_buffer_dispose(out);
  return result;
}

PyDoc_STRVAR(bz2_compress_doc,
             "bz2_compress($module, data, /, *, level=9)\n--\n\n"
             "The bzip2 stream of data; level is 1 to 9, the wire uses 9.");

static PyObject *core_bz2_compress(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "bz2_compress", 2, 1, 1, 1, {NM_STR_data, NM_STR_level}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  long long level = 9;
  nm_py_buffer buf;
  nm_buffer out;
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL &&
       nm_py_int(a[1], "bz2_compress", "level", 1, 9, &level) < 0) ||
      nm_py_buffer_get(a[0], "bz2_compress", "data", &buf) < 0) {
    return NULL;
  }
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_bz2_compress(&nm_mem_system, buf.span, (int)level, SIZE_MAX / 2, &out);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&buf);
  return finish_bz2(state, status, &out);
}

PyDoc_STRVAR(bz2_decompress_doc,
             "bz2_decompress($module, data, /, *, max_size)\n--\n\n"
             "What the bzip2 stream data inflates to; bytes after its end are "
             "ignored.\n\n"
             "Raises LimitError as soon as more than max_size bytes would come "
             "out, and\nDecodeError 'COMPRESSED' for a stream that is damaged, "
             "incomplete or empty.\n\n"
             ">>> bz2_decompress(bz2_compress(b'a' * 1000), max_size=1000) == "
             "b'a' * 1000\n"
             "True\n");

static PyObject *core_bz2_decompress(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "bz2_decompress", 2, 2, 1, 1, {NM_STR_data, NM_STR_max_size}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  long long max_size;
  nm_py_buffer buf;
  nm_buffer out;
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_int(a[1], "bz2_decompress", "max_size", 0, NM_PY_SIZE_MAX,
                &max_size) < 0 ||
      nm_py_buffer_get(a[0], "bz2_decompress", "data", &buf) < 0) {
    return NULL;
  }
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  Py_BEGIN_ALLOW_THREADS;
  status = nm_bz2_decompress(&nm_mem_system, buf.span, (size_t)max_size, &out);
  Py_END_ALLOW_THREADS;
  nm_py_buffer_release(&buf);
  return finish_bz2(state, status, &out);
}

/* ------------------------------------------------------------------ AES */

/* The arguments of both directions. */
typedef struct aes_call {
  const char *function;
  uint8_t iv[NM_AES_BLOCK];
  nm_py_buffer key;
  nm_py_buffer data;
  bool padding;
} aes_call;

static void aes_call_release(aes_call *call) {
  nm_py_buffer_release(&call->data);
  nm_py_buffer_release(&call->key);
}

static int aes_call_read(nm_state *state, aes_call *call, const char *function,
                         PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames) {
  nm_py_signature signature = {
      function, 4, 3,
      3,        3, {NM_STR_key, NM_STR_iv, NM_STR_data, NM_STR_padding}};
  PyObject *a[4];
  call->function = function;
  call->padding = true;
  nm_py_buffer_init(&call->key);
  nm_py_buffer_init(&call->data);
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_buffer_get(a[0], function, "key", &call->key) < 0 ||
      nm_py_exact(a[1], function, "iv", call->iv, sizeof call->iv) < 0 ||
      (a[3] != NULL &&
       nm_py_bool(a[3], function, "padding", &call->padding) < 0) ||
      nm_py_buffer_get(a[2], function, "data", &call->data) < 0) {
    return -1;
  }
  size_t len = call->key.span.len;
  if (len != 16 && len != 32) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter 'key' must be 16 or 32 bytes long, not %zu",
                 function, len);
    return -1;
  }
  return 0;
}

PyDoc_STRVAR(
    aes_cbc_encrypt_doc,
    "aes_cbc_encrypt($module, key, iv, data, /, *, padding=True)\n--\n\n"
    "AES-CBC with a key of 16 or 32 bytes and an IV of 16 bytes. With padding "
    "(PKCS#7)\nthe result is 1 to 16 bytes longer than data; without it, data "
    "must be a multiple\nof 16 bytes. Raises ValueError for wrong lengths.");

static PyObject *aes_encrypt(nm_state *state, const aes_call *call) {
  nm_span in = call->data.span;
  if (!call->padding && in.len % NM_AES_BLOCK != 0) {
    return PyErr_Format(PyExc_ValueError,
                        "aes_cbc_encrypt() parameter 'data' without padding "
                        "must be a multiple of 16 bytes long, not %zu",
                        in.len);
  }
  uint8_t *out;
  PyObject *result = nm_py_bytes_new(
      call->padding ? nm_aes_padded_size(in.len) : in.len, &out);
  nm_cipher *cipher = result != NULL ? nm_py_cipher_take(state) : NULL;
  if (cipher == NULL) {
    Py_XDECREF(result);
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(in.len >= NM_PY_LONG_INPUT);
  int status =
      call->padding
          ? nm_aes_cbc_encrypt_padded(cipher, call->key.span, call->iv, in, out)
          : nm_aes_cbc_encrypt(cipher, call->key.span, call->iv, in, out);
  nm_py_gil_take(released);
  nm_py_cipher_give(state, cipher);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise_status(state, status, "aes-cbc", "data");
  }
  return result;
}

static PyObject *core_aes_cbc_encrypt(PyObject *module, PyObject *const *args,
                                      Py_ssize_t nargs, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_module(module);
  aes_call call;
  PyObject *result = NULL;
  if (aes_call_read(state, &call, "aes_cbc_encrypt", args, nargs, kwnames) ==
      0) {
    result = aes_encrypt(state, &call);
  }
  aes_call_release(&call);
  return result;
}

PyDoc_STRVAR(
    aes_cbc_decrypt_doc,
    "aes_cbc_decrypt($module, key, iv, data, /, *, padding=True)\n--\n\n"
    "The inverse of aes_cbc_encrypt. Raises ValueError for a wrong length of "
    "key or IV,\nDecodeError 'LENGTH' for data that is not a multiple of 16 "
    "bytes (with padding: at\nleast 16), and DecodeError 'PADDING' by the rule "
    "of pkcs7_unpad.");

static PyObject *aes_decrypt(nm_state *state, const aes_call *call) {
  nm_span in = call->data.span;
  uint8_t *out;
  size_t len = in.len;
  PyObject *result = nm_py_bytes_new(in.len, &out);
  nm_cipher *cipher = result != NULL ? nm_py_cipher_take(state) : NULL;
  if (cipher == NULL) {
    Py_XDECREF(result);
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(in.len >= NM_PY_LONG_INPUT);
  int status =
      call->padding
          ? nm_aes_cbc_decrypt_padded(cipher, call->key.span, call->iv, in, out,
                                      &len)
          : nm_aes_cbc_decrypt(cipher, call->key.span, call->iv, in, out);
  nm_py_gil_take(released);
  nm_py_cipher_give(state, cipher);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise_status(state, status, "aes-cbc",
                              status == NM_E(PADDING) ? "padding"
                                                      : "ciphertext");
  }
  if (len != in.len) {
    (void)_PyBytes_Resize(&result, (Py_ssize_t)len);
  }
  return result;
}

static PyObject *core_aes_cbc_decrypt(PyObject *module, PyObject *const *args,
                                      Py_ssize_t nargs, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_module(module);
  aes_call call;
  PyObject *result = NULL;
  if (aes_call_read(state, &call, "aes_cbc_decrypt", args, nargs, kwnames) ==
      0) {
    result = aes_decrypt(state, &call);
  }
  aes_call_release(&call);
  return result;
}

/* --------------------------------------------------------------- functions */

#define KEYWORDS(name)                                                         \
  {                                                                            \
#name, (PyCFunction)(void (*)(void))core_##name,                           \
        METH_FASTCALL | METH_KEYWORDS, name##_doc                              \
  }

static PyMethodDef functions[] = {
    {"sha256", core_sha256, METH_O, sha256_doc},
    {"sha512", core_sha512, METH_O, sha512_doc},
    {"full_hash", core_full_hash, METH_O, full_hash_doc},
    {"truncated_hash", core_truncated_hash, METH_O, truncated_hash_doc},
    {"name_hash", core_name_hash, METH_O, name_hash_doc},
    KEYWORDS(random_hash),
    KEYWORDS(hmac_sha256),
    KEYWORDS(hkdf),
    KEYWORDS(sha256_many),
    {"sha256_backends", core_sha256_backends, METH_NOARGS, sha256_backends_doc},
    {"pkcs7_pad", core_pkcs7_pad, METH_O, pkcs7_pad_doc},
    {"pkcs7_unpad", core_pkcs7_unpad, METH_O, pkcs7_unpad_doc},
    KEYWORDS(bz2_compress),
    KEYWORDS(bz2_decompress),
    KEYWORDS(aes_cbc_encrypt),
    KEYWORDS(aes_cbc_decrypt),
    {NULL, NULL, 0, NULL}};

int nm_py_crypto_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
