/* SHA-256 blocks through OpenSSL's low-level interface, which picks its own
 * assembly for this CPU. The backend of processors for which we have none.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "crypto/sha256_kernels.h"

#include <openssl/sha.h>
#include <string.h>

void nm_sha256_compress_openssl(uint32_t h[8], const uint8_t *blocks,
                                size_t count) {
  SHA256_CTX ctx;
  SHA256_Init(&ctx);
  memcpy(ctx.h, h, sizeof ctx.h);
  SHA256_Update(&ctx, blocks, count * NM_SHA256_BLOCK);
  memcpy(h, ctx.h, sizeof ctx.h);
}

static void openssl_words(uint32_t *h, uint32_t *words) {
  uint8_t block[NM_SHA256_BLOCK];
  for (size_t i = 0; i < 16; i++) {
    for (size_t j = 0; j < 4; j++) {
      block[4 * i + j] = (uint8_t)(words[i] >> (24 - 8 * j));
    }
  }
  nm_sha256_compress_openssl(h, block, 1);
  nm_wipe(block, sizeof block);
}

static void openssl_bytes(uint32_t *h, const uint8_t *const *block,
                          size_t count) {
  nm_sha256_compress_openssl(h, block[0], count);
}

static uint32_t openssl_scan(const nm_sha256_scan *scan, uint32_t first,
                             uint32_t count) {
  for (uint32_t done = 0; done < count; done++) {
    uint32_t h[8];
    uint32_t words[16];
    memcpy(h, scan->h, sizeof h);
    memcpy(words, scan->words, sizeof words);
    words[7] = first + done;
    openssl_words(h, words);
    if (h[0] <= scan->limit) {
      return done;
    }
  }
  return count;
}

const nm_sha256_lanes nm_sha256_lanes_openssl = {"openssl", 1, openssl_words,
                                                 openssl_bytes, openssl_scan};
