/* What this CPU can do, as far as the code in this room asks.
 */
#ifndef NM_CRYPTO_CPU_H
#define NM_CRYPTO_CPU_H

#include <stdbool.h>

typedef struct nm_cpu_features {
  bool sha_ni; /* SHA, SSSE3, SSE4.1 */
  bool avx2;   /* AVX2, and the system saves the ymm registers */
  bool avx512; /* AVX-512 F and BW, and the system saves the zmm registers */
} nm_cpu_features;

/* Asks the CPU and the system. All false on other architectures. */
nm_cpu_features nm_cpu_detect(void);

#endif
