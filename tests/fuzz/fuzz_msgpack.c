/* The msgpack decoder: any bytes give a value or a named error within the
 * limits; a value's canonical form is a value, a fixed point, and not longer
 * than promised.
 */
#include "fuzz.h"

#include "base/msgpack.h"

#include <string.h>

/* A canonical copy of the value at the start of |in|; heap memory of exactly
 * the promised size, so that the sanitizer sees the first byte too many. */
static nm_span canonical(nm_span in, int expected, size_t *used) {
  size_t cap = 2 * in.len + 16;
  uint8_t *out = malloc(cap);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, cap);
  nm_reader r = nm_reader_of(in);
  MUST(nm_mp_canonical(&r, &w, NULL) == expected);
  *used = r.pos;
  return nm_writer_done(&w);
}

static void check_value(nm_span in, int status, size_t end) {
  size_t used;
  nm_span once = canonical(in, status, &used);
  MUST(used == end);
  if (status == NM_OK) {
    nm_span twice = canonical(once, NM_OK, &used);
    MUST(used == once.len);
    MUST(nm_span_equal(once, twice));
    free((void *)(uintptr_t)twice.ptr);
  }
  free((void *)(uintptr_t)once.ptr);
}

/* Tight limits give the same verdict or one of their own errors. */
static void check_limits(nm_span in, int status) {
  static const nm_mp_limits tight = {3, 20, &nm_mem_system};
  nm_reader r = nm_reader_of(in);
  int limited = nm_mp_skip(&r, &tight);
  MUST(limited == status || limited == NM_E(DEPTH) || limited == NM_E(LIMIT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  nm_reader r = nm_reader_of(in);
  int status = nm_mp_skip(&r, NULL);
  MUST(status <= 0 && strcmp(nm_status_name(status), "UNKNOWN") != 0);
  MUST(r.status == status && r.pos <= size);
  check_value(in, status, r.pos);
  check_limits(in, status);
  r = nm_reader_of(in);
  double number;
  if (nm_mp_read_number(&r, &number) == NM_OK) {
    MUST(r.pos >= 1 && r.pos <= 9);
  }
  return 0;
}
