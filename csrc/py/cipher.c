#include "py/cipher.h"

#include "py/errors.h"

nm_cipher *nm_py_cipher_take(nm_state *state) {
  for (size_t i = 0; i < NM_PY_CIPHERS; i++) {
    nm_cipher *rested = atomic_exchange(&state->ciphers[i], NULL);
    if (rested != NULL) {
      return rested;
    }
  }
  nm_cipher *fresh = PyMem_RawCalloc(1, sizeof *fresh);
  int status = fresh != NULL ? nm_cipher_open(fresh, NULL) : NM_E(MEMORY);
  if (status != NM_OK) {
    PyMem_RawFree(fresh);
    nm_py_raise_status(state, status, "aes", NULL);
    return NULL;
  }
  return fresh;
}

static void close_one(nm_cipher *cipher) {
  if (cipher != NULL) {
    nm_cipher_close(cipher);
    PyMem_RawFree(cipher);
  }
}

void nm_py_cipher_give(nm_state *state, nm_cipher *cipher) {
  for (size_t i = 0; i < NM_PY_CIPHERS && cipher != NULL; i++) {
    /* Whoever was resting there is taken out and finds the next place. */
    cipher = atomic_exchange(&state->ciphers[i], cipher);
  }
  close_one(cipher);
}

void nm_py_cipher_clear(nm_state *state) {
  for (size_t i = 0; i < NM_PY_CIPHERS; i++) {
    close_one(atomic_exchange(&state->ciphers[i], NULL));
  }
}
