/* Arguments: from Python's calling conventions to C values, with errors that
 * name the function, the parameter and the type received.
 *
 * The converters return 0, or -1 with an exception (TypeError for a wrong
 * type, ValueError for a wrong length or range). |function| is what the
 * message calls the function ("Token.seal"), |name| the parameter.
 */
#ifndef NM_PY_ARGS_H
#define NM_PY_ARGS_H

#include "base/bytes.h"
#include "py/arg_errors.h"
#include "py/buffers.h"
#include "py/containers.h"
#include "py/state.h"

#include <stdint.h>

#define NM_PY_PARAMS_MAX 16
/* The largest number of bytes that a parameter may ask for. */
#define NM_PY_SIZE_MAX ((long long)(SIZE_MAX / 4))

/* What a function accepts. Parameters are numbered in the order of the stub;
 * the first |required| ones must be given, the first |positional| ones may be
 * given by position, of which the first |positional_only| ones must. */
typedef struct nm_py_signature {
  const char *function;
  uint8_t count;
  uint8_t required;
  uint8_t positional;
  uint8_t positional_only;
  /* NM_STR_... of each parameter; those of positional-only ones are used in
   * messages only. */
  uint16_t names[NM_PY_PARAMS_MAX];
} nm_py_signature;

/* Sorts the arguments of a METH_FASTCALL | METH_KEYWORDS call (or of a
 * vectorcall) into |out|, which has |count| places; absent ones become NULL.
 * The references are borrowed from the call. 0, or -1 with a TypeError. */
int nm_py_parse(nm_state *state, const nm_py_signature *signature,
                PyObject *const *args, size_t nargsf, PyObject *kwnames,
                PyObject **out);

/* A METH_FASTCALL function as a PyMethodDef wants it. */
#define NM_PY_FASTCALL(function) (PyCFunction)(void (*)(void))(function)

/* Whether the |nargs| arguments of a METH_FASTCALL call without keywords are
 * |min|..|max|; sets TypeError if not. */
bool nm_py_arity(const char *function, Py_ssize_t nargs, Py_ssize_t min,
                 Py_ssize_t max);

/* tp_new of classes that are constructed by vectorcall: passes the arguments
 * on to type->tp_vectorcall. */
PyObject *nm_py_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Is the optional argument absent, or None? */
static inline bool nm_py_absent(PyObject *obj) {
  return obj == NULL || obj == Py_None;
}

/* Exactly |len| bytes from a bytes-like object, copied to |out|. */
int nm_py_exact(PyObject *obj, const char *function, const char *name,
                uint8_t *out, size_t len);

/* The same, with EncodeError in place of ValueError: for fields of something
 * that is being encoded. */
int nm_py_exact_field(nm_state *state, PyObject *obj, const char *function,
                      const char *name, uint8_t *out, size_t len);

/* nm_py_exact when |obj| is given, else |len| bytes of the system's entropy. */
int nm_py_exact_or_random(nm_state *state, PyObject *obj, const char *function,
                          const char *name, uint8_t *out, size_t len);

typedef enum nm_py_address_kind {
  NM_PY_IDENTITY_HASH,   /* an IdentityHash, or other 16 bytes */
  NM_PY_DESTINATION_HASH /* a DestinationHash, or other 16 bytes */
} nm_py_address_kind;

/* A 16-byte address; an object of the other kind is a TypeError. */
int nm_py_address(nm_state *state, PyObject *obj, nm_py_address_kind kind,
                  const char *function, const char *name,
                  uint8_t out[NM_ADDRESS_SIZE]);

/* The same for a field of something that is being encoded: a wrong length is
 * an EncodeError. */
int nm_py_address_field(nm_state *state, PyObject *obj, nm_py_address_kind kind,
                        const char *function, const char *name,
                        uint8_t out[NM_ADDRESS_SIZE]);

/* An int in min..max; another one is a ValueError. */
int nm_py_int(PyObject *obj, const char *function, const char *name,
              long long min, long long max, long long *out);

/* True or False and nothing else. */
int nm_py_bool(PyObject *obj, const char *function, const char *name,
               bool *out);

/* An int or float that is finite. */
int nm_py_real(PyObject *obj, const char *function, const char *name,
               double *out);

/* |obj| as nm_py_real when it is given, else the system's Unix time. */
int nm_py_time(PyObject *obj, const char *function, const char *name,
               double *out);

/* A str as UTF-8. The span lives as long as |obj|. */
int nm_py_text(PyObject *obj, const char *function, const char *name,
               nm_span *out);

/* A str as UTF-8, or a bytes-like object. Release |out| afterwards. */
int nm_py_text_or_buffer(PyObject *obj, const char *function, const char *name,
                         nm_py_buffer *out);

#endif
