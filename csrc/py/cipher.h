/* AES contexts to borrow. One is keyed anew by every call, so a handful serves
 * all threads of an interpreter; they stay open between calls because opening
 * one costs as much as encrypting a packet.
 */
#ifndef NM_PY_CIPHER_H
#define NM_PY_CIPHER_H

#include "crypto/aes.h"
#include "py/state.h"

/* A context for the caller alone, until it is given back; may be used with the
 * GIL released. NULL with an exception. */
nm_cipher *nm_py_cipher_take(nm_state *state);
/* Takes it back. |cipher| may be NULL. */
void nm_py_cipher_give(nm_state *state, nm_cipher *cipher);
/* Closes all that are at rest; for the end of the module. */
void nm_py_cipher_clear(nm_state *state);

#endif
