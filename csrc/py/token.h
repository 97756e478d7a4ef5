/* The Python class Token. */
#ifndef NM_PY_TOKEN_H
#define NM_PY_TOKEN_H

#include "crypto/token.h"
#include "py/state.h"

/* A bytes object that holds the token of |plain| under |key|. |iv| is 16 bytes,
 * or NULL for random ones. Releases the GIL for long input. New reference, or
 * NULL with an exception. */
PyObject *nm_py_token_seal(nm_state *state, const nm_token_key *key,
                           const uint8_t *iv, nm_span plain);

/* The plaintext of |token| as a bytes object, or NULL with DecodeError or
 * AuthenticationError. |codec| names the format in messages. */
PyObject *nm_py_token_open(nm_state *state, const nm_token_key *key,
                           nm_span token, const char *codec);

/* The key behind |obj|: a Token, or 32 or 64 bytes (else ValueError). Copies
 * it to |out|, which the caller wipes. 0, or -1 with an exception. */
int nm_py_token_key(nm_state *state, PyObject *obj, const char *function,
                    const char *name, nm_token_key *out);

#endif
