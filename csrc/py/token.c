/* netmesh.Token. */
#include "py/token.h"

#include "base/cursor.h"
#include "crypto/entropy.h"
#include "py/args.h"
#include "py/cipher.h"
#include "py/errors.h"
#include "py/value.h"

#include <stddef.h>

typedef struct nm_py_token {
  PyObject_HEAD
  nm_token_key key; /* a secret; wiped by dealloc */
} nm_py_token;

static const nm_token_key *key_of(PyObject *self) {
  return &((nm_py_token *)self)->key;
}

PyObject *nm_py_token_seal(nm_state *state, const nm_token_key *key,
                           const uint8_t *iv, nm_span plain) {
  uint8_t fresh[NM_AES_BLOCK];
  uint8_t *out;
  if (iv == NULL) {
    int status = nm_entropy_fill(&nm_entropy_system, fresh, sizeof fresh);
    if (status != NM_OK) {
      return nm_py_raise_status(state, status, "token", "iv");
    }
    iv = fresh;
  }
  PyObject *result = nm_py_bytes_new(nm_token_size(plain.len), &out);
  nm_cipher *cipher = result != NULL ? nm_py_cipher_take(state) : NULL;
  if (cipher == NULL) {
    Py_XDECREF(result);
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(plain.len >= NM_PY_LONG_INPUT);
  int status = nm_token_seal(cipher, key, iv, plain, out);
  nm_py_gil_take(released);
  nm_py_cipher_give(state, cipher);
  if (status != NM_OK) {
    Py_DECREF(result);
    return nm_py_raise_status(state, status, "token", NULL);
  }
  return result;
}

/* The field that |status| of nm_token_open is about, and where it begins. */
static nm_fault fault_of(int status) {
  nm_fault fault = {status, "token", 0};
  if (status == NM_E(LENGTH)) {
    fault.field = "ciphertext";
    fault.offset = NM_AES_BLOCK;
  } else if (status == NM_E(PADDING)) {
    fault.field = "padding";
    fault.offset = NM_AES_BLOCK;
  }
  return fault;
}

PyObject *nm_py_token_open(nm_state *state, const nm_token_key *key,
                           nm_span token, const char *codec) {
  uint8_t *out;
  size_t room =
      token.len > NM_TOKEN_OVERHEAD ? token.len - NM_TOKEN_OVERHEAD : 0;
  size_t len = 0;
  PyObject *result = nm_py_bytes_new(room, &out);
  nm_cipher *cipher = result != NULL ? nm_py_cipher_take(state) : NULL;
  if (cipher == NULL) {
    Py_XDECREF(result);
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(token.len >= NM_PY_LONG_INPUT);
  int status = nm_token_open(cipher, key, token, out, &len);
  nm_py_gil_take(released);
  nm_py_cipher_give(state, cipher);
  if (status != NM_OK) {
    Py_DECREF(result);
    nm_fault fault = fault_of(status);
    return nm_py_raise(state, &fault, codec);
  }
  if (len != room) {
    (void)_PyBytes_Resize(&result, (Py_ssize_t)len);
  }
  return result;
}

/* Prepares the key in the bytes-like |obj|. */
static int key_from_bytes(PyObject *obj, const char *function, const char *name,
                          nm_token_key *out) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(obj, function, name, &buf) < 0) {
    return -1;
  }
  int status = nm_token_key_init(out, buf.span);
  if (status != NM_OK) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter '%s' must be 32 or 64 bytes long, not %zu",
                 function, name, buf.span.len);
  }
  nm_py_buffer_release(&buf);
  return status == NM_OK ? 0 : -1;
}

int nm_py_token_key(nm_state *state, PyObject *obj, const char *function,
                    const char *name, nm_token_key *out) {
  if (Py_IS_TYPE(obj, NM_PY_TYPE(state, Token))) {
    *out = *key_of(obj);
    return 0;
  }
  if (!PyObject_CheckBuffer(obj)) {
    return nm_py_type_error(function, name, "a Token or a bytes-like object",
                            obj);
  }
  return key_from_bytes(obj, function, name, out);
}

/* ---------------------------------------------------------------- the class */

PyDoc_STRVAR(
    token_doc,
    "Token(key, /)\n--\n\n"
    "A Fernet-like container under one key (RNS 1, 1.3).\n\n"
    "A token is an IV (16 bytes), the AES-CBC ciphertext and an HMAC-SHA-256 "
    "(32 bytes).\nA key of 64 bytes gives AES-256, one of 32 bytes AES-128; "
    "its first half is for the\nHMAC. Another length is a ValueError.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> token = Token(Token.generate_key())\n"
    ">>> sealed = token.seal(b'hello')\n"
    ">>> len(sealed) == Token.size(5) == 64\n"
    "True\n"
    ">>> token.open(sealed)\n"
    "b'hello'\n");

static PyObject *token_construct(PyObject *type, PyObject *const *args,
                                 size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {"Token", 1, 1, 1, 1, {NM_STR_key}};
  PyTypeObject *cls = (PyTypeObject *)type;
  PyObject *key;
  if (nm_py_parse(nm_py_state_of_type(cls), &signature, args, nargsf, kwnames,
                  &key) < 0) {
    return NULL;
  }
  nm_py_token *self = (nm_py_token *)cls->tp_alloc(cls, 0);
  if (self != NULL && key_from_bytes(key, "Token", "key", &self->key) < 0) {
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

static void token_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_token_key_wipe(&((nm_py_token *)self)->key);
  type->tp_free(self);
  Py_DECREF(type);
}

PyDoc_STRVAR(seal_doc,
             "seal($self, plaintext, /, *, iv=None)\n--\n\n"
             "Encrypts and authenticates plaintext: 48 bytes more than its "
             "padded length. iv is\n16 bytes for a reproducible result; "
             "without it they are random.");

static PyObject *token_seal(PyObject *self, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "Token.seal", 2, 1, 1, 1, {NM_STR_plaintext, NM_STR_iv}};
  nm_state *state = nm_py_state_of(self);
  PyObject *a[2];
  uint8_t iv[NM_AES_BLOCK];
  nm_py_buffer plain;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (!nm_py_absent(a[1]) &&
       nm_py_exact(a[1], "Token.seal", "iv", iv, sizeof iv) < 0) ||
      nm_py_buffer_get(a[0], "Token.seal", "plaintext", &plain) < 0) {
    return NULL;
  }
  PyObject *result = nm_py_token_seal(
      state, key_of(self), nm_py_absent(a[1]) ? NULL : iv, plain.span);
  nm_py_buffer_release(&plain);
  return result;
}

PyDoc_STRVAR(open_doc,
             "open($self, token, /)\n--\n\n"
             "Checks a token and returns its plaintext.\n\n"
             "Raises DecodeError 'TRUNCATED' for 32 bytes or fewer, "
             "AuthenticationError 'AUTH'\nwhen the HMAC is wrong, then "
             "DecodeError 'LENGTH' for a ciphertext that is not\none or more "
             "blocks of 16 bytes and 'PADDING' for bad padding.");

static PyObject *token_open(PyObject *self, PyObject *arg) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Token.open", "token", &buf) < 0) {
    return NULL;
  }
  PyObject *result =
      nm_py_token_open(nm_py_state_of(self), key_of(self), buf.span, "token");
  nm_py_buffer_release(&buf);
  return result;
}

PyDoc_STRVAR(check_doc, "check($self, token, /)\n--\n\n"
                        "Whether the HMAC of a token is right; nothing is "
                        "decrypted. False for one that\nis too short.");

static PyObject *token_check(PyObject *self, PyObject *arg) {
  nm_py_buffer buf;
  if (nm_py_buffer_get(arg, "Token.check", "token", &buf) < 0) {
    return NULL;
  }
  PyThreadState *released = nm_py_gil_release(buf.span.len >= NM_PY_LONG_INPUT);
  bool good = nm_token_check(key_of(self), buf.span) == NM_OK;
  nm_py_gil_take(released);
  nm_py_buffer_release(&buf);
  return PyBool_FromLong(good);
}

PyDoc_STRVAR(size_doc, "size(plaintext_bytes, /)\n--\n\n"
                       "The length of the token of a plaintext of that many "
                       "bytes.");

static PyObject *token_size(PyObject *Py_UNUSED(cls), PyObject *arg) {
  long long len;
  if (nm_py_int(arg, "Token.size", "plaintext_bytes", 0, NM_PY_SIZE_MAX, &len) <
      0) {
    return NULL;
  }
  return PyLong_FromSize_t(nm_token_size((size_t)len));
}

PyDoc_STRVAR(generate_key_doc,
             "generate_key($type, mode='AES_256_CBC')\n--\n\n"
             "A random key for a mode: 64 bytes for 'AES_256_CBC', 32 for "
             "'AES_128_CBC'.");

static PyObject *token_generate_key(PyObject *cls, PyObject *const *args,
                                    Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {"Token.generate_key", 1, 0, 1, 0,
                                            {NM_STR_mode}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *mode;
  nm_span text = nm_span_of("AES_256_CBC", 11);
  uint8_t *out;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, &mode) < 0 ||
      (mode != NULL &&
       nm_py_text(mode, "Token.generate_key", "mode", &text) < 0)) {
    return NULL;
  }
  bool aes_128 = nm_span_equal(text, nm_span_of("AES_128_CBC", 11));
  if (!aes_128 && !nm_span_equal(text, nm_span_of("AES_256_CBC", 11))) {
    return PyErr_Format(PyExc_ValueError,
                        "Token.generate_key() parameter 'mode' must be "
                        "'AES_256_CBC' or 'AES_128_CBC', not %R",
                        mode);
  }
  PyObject *key = nm_py_bytes_new(aes_128 ? 32 : 64, &out);
  if (key != NULL && nm_py_exact_or_random(state, NULL, "Token.generate_key",
                                           "key", out, aes_128 ? 32 : 64) < 0) {
    Py_CLEAR(key);
  }
  return key;
}

static const char *mode_of(PyObject *self) {
  return key_of(self)->cipher_len == 16 ? "AES_128_CBC" : "AES_256_CBC";
}

static PyObject *token_mode(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(mode_of(self));
}

static PyObject *token_repr(PyObject *self) {
  return PyUnicode_FromFormat("<Token %s>", mode_of(self));
}

/* The key as bytes to compare. */
static nm_span content(PyObject *self, uint8_t out[sizeof(nm_token_key)]) {
  const nm_token_key *key = key_of(self);
  nm_writer w = nm_writer_of(out, sizeof(nm_token_key));
  nm_writer_put(&w, &key->mac, sizeof key->mac);
  nm_writer_put(&w, key->cipher, key->cipher_len);
  return nm_writer_done(&w);
}

static PyObject *token_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self)) || (op != Py_EQ && op != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  uint8_t a[sizeof(nm_token_key)];
  uint8_t b[sizeof(nm_token_key)];
  nm_span mine = content(self, a);
  nm_span theirs = content(other, b);
  bool equal =
      mine.len == theirs.len && nm_equal_ct(mine.ptr, theirs.ptr, mine.len);
  nm_wipe(a, sizeof a);
  nm_wipe(b, sizeof b);
  return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t token_hash(PyObject *self) {
  uint8_t bytes[sizeof(nm_token_key)];
  Py_hash_t hash = nm_py_hash_bytes(content(self, bytes));
  nm_wipe(bytes, sizeof bytes);
  return hash;
}

static PyMethodDef token_methods[] = {
    {"generate_key", (PyCFunction)(void (*)(void))token_generate_key,
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, generate_key_doc},
    {"size", token_size, METH_O | METH_STATIC, size_doc},
    {"seal", (PyCFunction)(void (*)(void))token_seal,
     METH_FASTCALL | METH_KEYWORDS, seal_doc},
    {"open", token_open, METH_O, open_doc},
    {"check", token_check, METH_O, check_doc},
    NM_PY_REFUSE_PICKLE,
    {NULL, NULL, 0, NULL}};

static PyGetSetDef token_getset[] = {
    {"mode", token_mode, NULL, "'AES_256_CBC' or 'AES_128_CBC'.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot token_slots[] = {{Py_tp_doc, (void *)token_doc},
                                    {Py_tp_new, (void *)nm_py_new},
                                    {Py_tp_dealloc, (void *)token_dealloc},
                                    {Py_tp_repr, (void *)token_repr},
                                    {Py_tp_richcompare, (void *)token_compare},
                                    {Py_tp_hash, (void *)token_hash},
                                    {Py_tp_methods, token_methods},
                                    {Py_tp_getset, token_getset},
                                    {0, NULL}};

static PyType_Spec token_spec = {.name = "netmesh._core.Token",
                                 .basicsize = sizeof(nm_py_token),
                                 .flags = NM_PY_FLAGS,
                                 .slots = token_slots};

int nm_py_token_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Token, &token_spec, NULL,
                     token_construct) < 0) {
    return -1;
  }
  return nm_py_type_constant(NM_PY_TYPE(state, Token), "OVERHEAD",
                             PyLong_FromLong(NM_TOKEN_OVERHEAD));
}
