/* Any bytes on an interface with access codes: as something received, and as a
 * packet that must come back. The first byte gives the code size. */
#include "fuzz.h"
#include "wire/ifac.h"

#define INPUT_MAX 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > INPUT_MAX) {
    return 0;
  }
  static nm_ifac ifac;
  static bool ready = false;
  if (!ready) {
    MUST(nm_ifac_init(&ifac, nm_span_of("mesh", 4), nm_span_of("pass", 4),
                      16) == NM_OK);
    ready = true;
  }
  ifac.size = 1 + data[0] % NM_IFAC_SIZE_MAX;
  nm_span in = nm_span_of(data + 1, size - 1);
  uint8_t masked[INPUT_MAX + NM_IFAC_SIZE_MAX];
  uint8_t out[INPUT_MAX + NM_IFAC_SIZE_MAX];
  size_t len = 0;
  nm_ifac_verdict verdict = nm_ifac_unmask(&ifac, in, out, &len);
  MUST(verdict != NM_IFAC_FAILED && verdict != NM_IFAC_UNEXPECTED);
  MUST((verdict == NM_IFAC_OK) == (nm_ifac_verdict_status(verdict) == NM_OK));
  (void)nm_ifac_absent(in);
  nm_fault fault = {0};
  size_t masked_len = 0;
  int status =
      nm_ifac_mask(&ifac, in, masked, sizeof masked, &masked_len, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return 0;
  }
  MUST(masked_len == in.len + ifac.size && (masked[0] & 0x80));
  verdict = nm_ifac_unmask(&ifac, nm_span_of(masked, masked_len), out, &len);
  MUST(verdict == (in.len > 2 ? NM_IFAC_OK : NM_IFAC_TOO_SHORT));
  MUST(verdict != NM_IFAC_OK || nm_span_equal(nm_span_of(out, len), in));
  return 0;
}
