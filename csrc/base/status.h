/* Status codes: the one list of what can go wrong, and the fault record that
 * says where.
 *
 * A function returns 0 (or a count) on success and a negative nm_status
 * otherwise. Errors in a peer's bytes are ordinary return values: they are
 * counted and dropped by the caller, never fatal.
 */
#ifndef NM_BASE_STATUS_H
#define NM_BASE_STATUS_H

#include <stddef.h>

/* X(name, text): the text completes the sentence "field F: ...". */
#define NM_STATUS_LIST(X)                                                      \
  X(TRUNCATED, "ends before the field is complete")                            \
  X(TRAILING, "has bytes after its end")                                       \
  X(EMPTY, "is empty")                                                         \
  X(TYPE, "has a type that is not allowed here")                               \
  X(VALUE, "has a value that is not allowed here")                             \
  X(LENGTH, "has a length that is not allowed here")                           \
  X(RANGE, "is out of range")                                                  \
  X(UTF8, "is not valid UTF-8")                                                \
  X(DUPLICATE_KEY, "repeats a map key")                                        \
  X(MISSING, "is missing")                                                     \
  X(RESERVED, "uses a reserved code")                                          \
  X(ESCAPE, "has an invalid escape sequence")                                  \
  X(DEPTH, "nests deeper than the limit")                                      \
  X(LIMIT, "exceeds the limit")                                                \
  X(TOO_LARGE, "does not fit the available size")                              \
  X(COMPRESSED, "is not a complete bzip2 stream")                              \
  X(AUTH, "fails authentication")                                              \
  X(PADDING, "has invalid padding")                                            \
  X(SIGNATURE, "has a wrong signature")                                        \
  X(MISMATCH, "does not match what was expected")                              \
  X(KEY, "is not a usable key")                                                \
  X(NO_KEY, "needs a key that is not held")                                    \
  X(MODE, "names a mode that is not enabled")                                  \
  X(STATE, "is not allowed in this state")                                     \
  X(COLLISION, "has colliding map hashes")                                     \
  X(CANCELLED, "was cancelled")                                                \
  X(TIMEOUT, "ran out of time")                                                \
  X(MEMORY, "could not be allocated")                                          \
  X(LIBRARY, "was refused by a library")                                       \
  X(ARGUMENT, "is not a valid argument")                                       \
  X(FULL, "does not fit on the storage device")                                \
  X(STORE, "could not be read from or written to storage")

typedef enum nm_status {
  NM_OK = 0,
#define NM_STATUS_ORDINAL(name, text) NM_ORD_##name,
  NM_STATUS_LIST(NM_STATUS_ORDINAL)
#undef NM_STATUS_ORDINAL
      NM_STATUS_COUNT
} nm_status_ordinal;

/* The codes themselves are the negated ordinals. */
#define NM_E(name) (-(int)NM_ORD_##name)

/* Where decoding or encoding failed. Filled by the function that returns the
 * error, at the innermost place that knows the answer; untouched on success.
 * `field` points to a string constant. `offset` counts bytes from the start of
 * the input that the failing function was given. */
typedef struct nm_fault {
  int status;
  const char *field;
  size_t offset;
} nm_fault;

/* Records a fault and returns |status|, so that a caller can write
 * `return nm_fault_set(fault, NM_E(TRUNCATED), "context", off);`.
 * |fault| may be NULL. */
int nm_fault_set(nm_fault *fault, int status, const char *field, size_t offset);

/* The upper-case name of |status| ("TRUNCATED"), "OK" for 0, "UNKNOWN" for a
 * number that is not in the list. Never NULL. */
const char *nm_status_name(int status);

/* The sentence for |status|, "succeeded" for 0. Never NULL. */
const char *nm_status_text(int status);

#endif
