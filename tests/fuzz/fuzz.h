/* What the fuzz targets share: an entry point for libFuzzer and a check that
 * ends the process, in every build.
 */
#ifndef NM_TESTS_FUZZ_H
#define NM_TESTS_FUZZ_H

#include "base/cursor.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                        \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);          \
      abort();                                                                 \
    }                                                                          \
  } while (0)

/* A decoder that refuses must say what and where. */
static inline void must_name(int status, const nm_fault *fault,
                             size_t input_len) {
  if (status != NM_OK) {
    MUST(status < 0 && fault->status == status);
    MUST(fault->field != NULL && fault->offset <= input_len);
  }
}

/* True when |part| lies within |whole|, or is empty. */
static inline bool lies_in(nm_span part, nm_span whole) {
  if (part.len == 0) {
    return true;
  }
  return part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len;
}

#endif
