/* The state of one copy of the module netmesh._core.
 *
 * Everything that other extensions keep in globals lives here, one copy per
 * interpreter: the classes, the exceptions, the interned strings. Three lists
 * grow with the module, the later parts of each in py/transfer.h and
 * py/stack_parts.h; each is written once and expanded where it is needed:
 * NM_PY_TYPES (classes), NM_PY_STRINGS (names of parameters, interned so that
 * keywords are found by comparing pointers) and NM_PY_PARTS (files that add
 * classes and functions).
 */
#ifndef NM_PY_STATE_H
#define NM_PY_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "crypto/aes.h"
#include "py/stack_parts.h"
#include "py/transfer.h"

#include <stdatomic.h>

/* Classes, as `NM_PY_TYPE(state, Token)`. */
#define NM_PY_TYPES(X)                                                         \
  NM_PY_PACKET_TYPES(X)                                                        \
  NM_PY_TRANSFER_TYPES(X)                                                      \
  NM_PY_STACK_TYPES(X)

#define NM_PY_PACKET_TYPES(X)                                                  \
  X(IdentityHash)                                                              \
  X(DestinationHash)                                                           \
  X(Ext)                                                                       \
  X(Token)                                                                     \
  X(Decrypted)                                                                 \
  X(Identity)                                                                  \
  X(Packet)                                                                    \
  X(Ratchets)                                                                  \
  X(Announce)                                                                  \
  X(Destination)                                                               \
  X(AnnounceCache)                                                             \
  X(PathResponses)                                                             \
  X(HdlcDecoder)                                                               \
  X(KissDecoder)                                                               \
  X(Ifac)                                                                      \
  X(LinkRequest)                                                               \
  X(LinkProof)                                                                 \
  X(PathRequest)                                                               \
  X(TunnelSynthesis)                                                           \
  X(Request)                                                                   \
  X(Response)

/* Files of csrc/py that add to the module, in the order of the stub. X(token)
 * stands for `int nm_py_token_add(PyObject *module, nm_state *state)`, which
 * returns 0, or -1 with an exception. */
#define NM_PY_PARTS(X)                                                         \
  NM_PY_PACKET_PARTS(X)                                                        \
  NM_PY_TRANSFER_PARTS(X)                                                      \
  NM_PY_STACK_PARTS(X)

#define NM_PY_PACKET_PARTS(X)                                                  \
  X(library)                                                                   \
  X(hashes)                                                                    \
  X(msgpack)                                                                   \
  X(crypto)                                                                    \
  X(curve)                                                                     \
  X(token)                                                                     \
  X(decrypted)                                                                 \
  X(identity)                                                                  \
  X(packet)                                                                    \
  X(proof)                                                                     \
  X(ratchets)                                                                  \
  X(names)                                                                     \
  X(announce)                                                                  \
  X(destination)                                                               \
  X(announce_cache)                                                            \
  X(framing)                                                                   \
  X(ifac)                                                                      \
  X(link)                                                                      \
  X(link_handshake)                                                            \
  X(control)                                                                   \
  X(request)

/* Names of parameters, in alphabetical order, as NM_STR_key. */
#define NM_PY_STRINGS(X)                                                       \
  NM_PY_PACKET_STRINGS(X)                                                      \
  NM_PY_TRANSFER_STRINGS(X)

#define NM_PY_PACKET_STRINGS(X)                                                \
  X(allowed)                                                                   \
  X(announces)                                                                 \
  X(app_data)                                                                  \
  X(backend)                                                                   \
  X(capacity)                                                                  \
  X(ciphertext)                                                                \
  X(command)                                                                   \
  X(context)                                                                   \
  X(context_flag)                                                              \
  X(data)                                                                      \
  X(default_app_data)                                                          \
  X(depth_max)                                                                 \
  X(destination)                                                               \
  X(destination_type)                                                          \
  X(direction)                                                                 \
  X(ed25519_public)                                                            \
  X(elements_max)                                                              \
  X(emitted)                                                                   \
  X(enforce_ratchets)                                                          \
  X(ephemeral_private)                                                         \
  X(expected_public_key)                                                       \
  X(flags)                                                                     \
  X(force)                                                                     \
  X(group_key)                                                                 \
  X(header_type)                                                               \
  X(hops)                                                                      \
  X(identity)                                                                  \
  X(identity_hash)                                                             \
  X(ikm)                                                                       \
  X(implicit)                                                                  \
  X(info)                                                                      \
  X(interface_hash)                                                            \
  X(interval_s)                                                                \
  X(items)                                                                     \
  X(iv)                                                                        \
  X(key)                                                                       \
  X(length)                                                                    \
  X(level)                                                                     \
  X(lifetime_s)                                                                \
  X(link)                                                                      \
  X(link_id)                                                                   \
  X(max_bytes)                                                                 \
  X(max_size)                                                                  \
  X(message)                                                                   \
  X(min_bytes)                                                                 \
  X(mode)                                                                      \
  X(mtu)                                                                       \
  X(mtu_max)                                                                   \
  X(network_name)                                                              \
  X(now)                                                                       \
  X(packet)                                                                    \
  X(packet_hash)                                                               \
  X(packet_type)                                                               \
  X(padding)                                                                   \
  X(passphrase)                                                                \
  X(path)                                                                      \
  X(path_response)                                                             \
  X(payload)                                                                   \
  X(peer_public)                                                               \
  X(plaintext)                                                                 \
  X(policy)                                                                    \
  X(private)                                                                   \
  X(proof_strategy)                                                            \
  X(public)                                                                    \
  X(random)                                                                    \
  X(ratchet)                                                                   \
  X(ratchet_public)                                                            \
  X(ratchets)                                                                  \
  X(raw)                                                                       \
  X(received)                                                                  \
  X(retained)                                                                  \
  X(salt)                                                                      \
  X(seed)                                                                      \
  X(signature)                                                                 \
  X(signature_only)                                                            \
  X(signer)                                                                    \
  X(size)                                                                      \
  X(suffix)                                                                    \
  X(tag)                                                                       \
  X(threads)                                                                   \
  X(trailing)                                                                  \
  X(transport_id)                                                              \
  X(transport_type)                                                            \
  X(type)                                                                      \
  X(value)                                                                     \
  X(x25519_public)

/* Exception classes of netmesh.errors, as NM_PY_ERROR(state, DecodeError). */
#define NM_PY_ERRORS(X)                                                        \
  X(NetmeshError)                                                              \
  X(DecodeError)                                                               \
  X(LimitError)                                                                \
  X(EncodeError)                                                               \
  X(AuthenticationError)                                                       \
  X(KeyMissingError)                                                           \
  X(ResourceError)                                                             \
  X(CancelledError)                                                            \
  X(StateError)                                                                \
  X(StoreError)                                                                \
  X(NotFoundError)                                                             \
  X(LimitReached)

/* Members of netmesh._verdict.Verdict. */
#define NM_PY_VERDICTS(X)                                                      \
  X(VALID)                                                                     \
  X(BAD_SIGNATURE)                                                             \
  X(BAD_DESTINATION)                                                           \
  X(KEY_MISMATCH)

#define NM_PY_ENUM_TYPE(name) NM_TYPE_##name,
#define NM_PY_ENUM_STR(name) NM_STR_##name,
#define NM_PY_ENUM_ERROR(name) NM_ERROR_##name,
#define NM_PY_ENUM_VERDICT(name) NM_VERDICT_##name,
typedef enum nm_type_index {
  NM_PY_TYPES(NM_PY_ENUM_TYPE) NM_TYPE_COUNT
} nm_type_index;
typedef enum nm_str_index {
  NM_PY_STRINGS(NM_PY_ENUM_STR) NM_STR_COUNT
} nm_str_index;
typedef enum nm_error_index {
  NM_PY_ERRORS(NM_PY_ENUM_ERROR) NM_ERROR_COUNT
} nm_error_index;
typedef enum nm_verdict_index {
  NM_PY_VERDICTS(NM_PY_ENUM_VERDICT) NM_VERDICT_COUNT
} nm_verdict_index;

/* AES contexts at rest (py/cipher.h). */
#define NM_PY_CIPHERS 4

typedef struct nm_state {
  _Atomic(nm_cipher *) ciphers[NM_PY_CIPHERS];
  PyTypeObject *types[NM_TYPE_COUNT];
  PyObject *strings[NM_STR_COUNT];
  PyObject *errors[NM_ERROR_COUNT];
  PyObject *verdicts[NM_VERDICT_COUNT];
} nm_state;

#define NM_PY_TYPE(state, name) ((state)->types[NM_TYPE_##name])
#define NM_PY_ERROR(state, name) ((state)->errors[NM_ERROR_##name])
#define NM_PY_VERDICT(state, name) ((state)->verdicts[NM_VERDICT_##name])

#define NM_PY_DECLARE_PART(name)                                               \
  int nm_py_##name##_add(PyObject *module, nm_state *state);
NM_PY_PARTS(NM_PY_DECLARE_PART)

/* The state, from what a function or method is given. All classes are final,
 * so the class of an instance is always one that this module made. */
static inline nm_state *nm_py_state_of_module(PyObject *module) {
  return (nm_state *)PyModule_GetState(module);
}
static inline nm_state *nm_py_state_of_type(PyTypeObject *type) {
  return (nm_state *)PyType_GetModuleState(type);
}
static inline nm_state *nm_py_state_of(PyObject *self) {
  return nm_py_state_of_type(Py_TYPE(self));
}

/* Work on fewer bytes than this takes less than about 20 us and keeps the
 * GIL. */
#define NM_PY_LONG_INPUT ((size_t)16384)

/* Releases the GIL when |long_work|; nm_py_gil_take wants the result. */
static inline PyThreadState *nm_py_gil_release(int long_work) {
  return long_work ? PyEval_SaveThread() : NULL;
}
static inline void nm_py_gil_take(PyThreadState *released) {
  if (released != NULL) {
    PyEval_RestoreThread(released);
  }
}

/* Makes a class from |spec| with the module, stores it under |index| and, when
 * |constructor| is given, makes calls of the class go straight there (its
 * Py_tp_new is then nm_py_new of args.h). |base| may be NULL. The class gets
 * its name in the module unless that starts with an underscore. 0, or -1 with
 * an exception. */
int nm_py_type_add(PyObject *module, nm_state *state, nm_type_index index,
                   PyType_Spec *spec, PyTypeObject *base,
                   vectorcallfunc constructor);

/* Gives a class made by nm_py_type_add a constant. Steals |value|, which may
 * be NULL with an exception set. 0, or -1 with an exception. */
int nm_py_type_constant(PyTypeObject *type, const char *name, PyObject *value);

/* Flags that every class of the module has. */
#define NM_PY_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE)

#endif
