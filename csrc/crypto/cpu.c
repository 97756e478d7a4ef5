#include "crypto/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdint.h>

/* The register state that the system saves (XCR0). */
static uint64_t saved_state(void) {
  uint32_t low;
  uint32_t high;
  __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return ((uint64_t)high << 32) | low;
}

nm_cpu_features nm_cpu_detect(void) {
  nm_cpu_features f = {false, false, false};
  unsigned eax;
  unsigned ebx;
  unsigned ecx;
  unsigned edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
    return f;
  }
  const unsigned sse = bit_SSSE3 | bit_SSE4_1;
  bool has_sse = (ecx & sse) == sse;
  uint64_t saved = (ecx & bit_OSXSAVE) != 0 ? saved_state() : 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    return f;
  }
  f.sha_ni = has_sse && (ebx & bit_SHA) != 0;
  /* XCR0: bits 1-2 for xmm and ymm, 5-7 for the mask and zmm registers. */
  f.avx2 = (saved & 0x06) == 0x06 && (ebx & bit_AVX2) != 0;
  const unsigned wide = bit_AVX512F | bit_AVX512BW;
  f.avx512 = f.avx2 && (saved & 0xe6) == 0xe6 && (ebx & wide) == wide;
  return f;
}

#else

nm_cpu_features nm_cpu_detect(void) {
  nm_cpu_features f = {false, false, false};
  return f;
}

#endif
