/* netmesh.crypto: X25519 and Ed25519 on raw values. */
#include "crypto/curve.h"

#include "py/args.h"
#include "py/errors.h"

/* The 32 bytes that |derive| makes from the 32 bytes of |arg|. */
static PyObject *public_of(PyObject *module, PyObject *arg,
                           const char *function, const char *name,
                           int (*derive)(uint8_t *, const uint8_t *)) {
  uint8_t secret[NM_KEY_SIZE];
  uint8_t out[NM_KEY_SIZE];
  int status;
  if (nm_py_exact(arg, function, name, secret, sizeof secret) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = derive(out, secret);
  Py_END_ALLOW_THREADS;
  nm_wipe(secret, sizeof secret);
  return status == NM_OK ? nm_py_bytes(nm_span_of(out, sizeof out))
                         : nm_py_raise_status(nm_py_state_of_module(module),
                                              status, function, name);
}

PyDoc_STRVAR(x25519_public_doc,
             "x25519_public($module, private, /)\n--\n\n"
             "The X25519 public key (32 bytes) of a private key: any 32 bytes, "
             "clamped on use.");

static PyObject *core_x25519_public(PyObject *module, PyObject *arg) {
  return public_of(module, arg, "x25519_public", "private", nm_x25519_public);
}

PyDoc_STRVAR(ed25519_public_doc,
             "ed25519_public($module, seed, /)\n--\n\n"
             "The Ed25519 public key (32 bytes) of a 32-byte seed.");

static PyObject *core_ed25519_public(PyObject *module, PyObject *arg) {
  return public_of(module, arg, "ed25519_public", "seed", nm_ed25519_public);
}

PyDoc_STRVAR(x25519_doc,
             "x25519($module, private, public, /)\n--\n\n"
             "The shared secret (32 bytes) of a private and a public key of 32 "
             "bytes each.\n\n"
             "Raises AuthenticationError 'KEY' when the result would be all "
             "zero.");

static PyObject *core_x25519(PyObject *module, PyObject *const *args,
                             Py_ssize_t nargs) {
  static const nm_py_signature signature_of = {
      "x25519", 2, 2, 2, 2, {NM_STR_private, NM_STR_public}};
  PyObject *a[2];
  uint8_t secret[NM_KEY_SIZE];
  uint8_t public_key[NM_KEY_SIZE];
  uint8_t shared[NM_KEY_SIZE];
  int status;
  if (nm_py_parse(nm_py_state_of_module(module), &signature_of, args,
                  (size_t)nargs, NULL, a) < 0 ||
      nm_py_exact(a[1], "x25519", "public", public_key, sizeof public_key) <
          0 ||
      nm_py_exact(a[0], "x25519", "private", secret, sizeof secret) < 0) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = nm_x25519(shared, secret, public_key);
  Py_END_ALLOW_THREADS;
  nm_wipe(secret, sizeof secret);
  PyObject *result = status == NM_OK
                         ? nm_py_bytes(nm_span_of(shared, sizeof shared))
                         : nm_py_raise_status(nm_py_state_of_module(module),
                                              status, "x25519", "public");
  nm_wipe(shared, sizeof shared);
  return result;
}

PyDoc_STRVAR(ed25519_sign_doc,
             "ed25519_sign($module, seed, message, /)\n--\n\n"
             "The Ed25519 signature (64 bytes) of a message under a 32-byte "
             "seed.\n\n"
             ">>> seed = bytes(32)\n"
             ">>> signature = ed25519_sign(seed, b'hello')\n"
             ">>> ed25519_verify(ed25519_public(seed), b'hello', signature)\n"
             "True\n");

static int sign_with_seed(uint8_t *signature, const uint8_t *seed,
                          nm_span message) {
  nm_ed25519_sign_key key;
  int status = nm_ed25519_sign_key_init(&key, seed);
  if (status == NM_OK) {
    status = nm_ed25519_sign(signature, &key, message);
  }
  nm_ed25519_sign_key_wipe(&key);
  return status;
}

static PyObject *core_ed25519_sign(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs) {
  static const nm_py_signature signature_of = {
      "ed25519_sign", 2, 2, 2, 2, {NM_STR_seed, NM_STR_message}};
  PyObject *a[2];
  nm_py_buffer message;
  uint8_t seed[NM_KEY_SIZE];
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status;
  if (nm_py_parse(nm_py_state_of_module(module), &signature_of, args,
                  (size_t)nargs, NULL, a) < 0 ||
      nm_py_buffer_get(a[1], "ed25519_sign", "message", &message) < 0) {
    return NULL;
  }
  if (nm_py_exact(a[0], "ed25519_sign", "seed", seed, sizeof seed) < 0) {
    nm_py_buffer_release(&message);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = sign_with_seed(signature, seed, message.span);
  Py_END_ALLOW_THREADS;
  nm_wipe(seed, sizeof seed);
  nm_py_buffer_release(&message);
  return status == NM_OK ? nm_py_bytes(nm_span_of(signature, sizeof signature))
                         : nm_py_raise_status(nm_py_state_of_module(module),
                                              status, "ed25519", "signature");
}

PyDoc_STRVAR(ed25519_verify_doc,
             "ed25519_verify($module, public, message, signature, /)\n--\n\n"
             "Whether signature is a good one of message under a public key. "
             "False for every\nbad input, also for wrong lengths of public "
             "(32) and signature (64).");

static bool verify(nm_span public_key, nm_span message, nm_span signature) {
  return public_key.len == NM_KEY_SIZE && signature.len == NM_SIGNATURE_SIZE &&
         nm_ed25519_verify(public_key.ptr, signature.ptr, message) == NM_OK;
}

static PyObject *core_ed25519_verify(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs) {
  static const nm_py_signature signature_of = {
      "ed25519_verify",
      3,
      3,
      3,
      3,
      {NM_STR_public, NM_STR_message, NM_STR_signature}};
  PyObject *a[3];
  nm_py_buffer b[3];
  static const char *const names[3] = {"public", "message", "signature"};
  bool good = false;
  bool read = nm_py_parse(nm_py_state_of_module(module), &signature_of, args,
                          (size_t)nargs, NULL, a) == 0;
  for (size_t i = 0; i < 3; i++) {
    nm_py_buffer_init(&b[i]);
    read =
        read && nm_py_buffer_get(a[i], "ed25519_verify", names[i], &b[i]) == 0;
  }
  if (read) {
    Py_BEGIN_ALLOW_THREADS;
    good = verify(b[0].span, b[1].span, b[2].span);
    Py_END_ALLOW_THREADS;
  }
  for (size_t i = 0; i < 3; i++) {
    nm_py_buffer_release(&b[i]);
  }
  return read ? PyBool_FromLong(good) : NULL;
}

#define FASTCALL(name)                                                         \
  { #name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, name##_doc }

static PyMethodDef functions[] = {
    {"x25519_public", core_x25519_public, METH_O, x25519_public_doc},
    FASTCALL(x25519),
    {"ed25519_public", core_ed25519_public, METH_O, ed25519_public_doc},
    FASTCALL(ed25519_sign),
    FASTCALL(ed25519_verify),
    {NULL, NULL, 0, NULL}};

int nm_py_curve_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
