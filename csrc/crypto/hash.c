/* Single-stream SHA-256, HMAC and HKDF.
 */
#include "crypto/hash.h"

#include "crypto/sha256_kernels.h"

#include <stdatomic.h>
#include <string.h>

typedef void (*compress_fn)(uint32_t h[8], const uint8_t *blocks, size_t count);

static void compress_first(uint32_t h[8], const uint8_t *blocks, size_t count);

/* The function for this CPU; the first call puts it here. */
static _Atomic(compress_fn) compress = compress_first;

static void compress_first(uint32_t h[8], const uint8_t *blocks, size_t count) {
  compress_fn chosen = nm_sha256_compress_openssl;
#if defined(__x86_64__)
  if (nm_cpu_detect().sha_ni) {
    chosen = nm_sha256_compress_shani;
  }
#endif
  atomic_store_explicit(&compress, chosen, memory_order_relaxed);
  chosen(h, blocks, count);
}

void nm_sha256_compress(uint32_t h[8], const uint8_t *blocks, size_t count) {
  atomic_load_explicit(&compress, memory_order_relaxed)(h, blocks, count);
}

bool nm_sha256_two_is_fast(void) {
#if defined(__x86_64__)
  if (atomic_load_explicit(&compress, memory_order_relaxed) == compress_first) {
    uint32_t h[8] = {0};
    nm_sha256_compress(h, NULL, 0); /* chooses */
  }
  return atomic_load_explicit(&compress, memory_order_relaxed) ==
         nm_sha256_compress_shani;
#else
  return false;
#endif
}

static void compress_two(uint32_t g[8], const uint8_t *first, uint32_t h[8],
                         const uint8_t *second, size_t count) {
#if defined(__x86_64__)
  if (nm_sha256_two_is_fast()) {
    nm_sha256_compress_two_shani(g, first, h, second, count);
    return;
  }
#endif
  nm_sha256_compress(g, first, count);
  nm_sha256_compress(h, second, count);
}

static inline void put_be32(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 24);
  p[1] = (uint8_t)(v >> 16);
  p[2] = (uint8_t)(v >> 8);
  p[3] = (uint8_t)v;
}

static inline void put_be64(uint8_t *p, uint64_t v) {
  put_be32(p, (uint32_t)(v >> 32));
  put_be32(p + 4, (uint32_t)v);
}

static void put_digest(uint8_t out[NM_HASH_SIZE], const uint32_t h[8]) {
  for (size_t i = 0; i < 8; i++) {
    put_be32(out + 4 * i, h[i]);
  }
}

/* Ends a message: |rest| (fewer than 64 bytes) are its last bytes and |total|
 * is its length. Changes h. */
static void finish(uint32_t h[8], nm_span rest, uint64_t total,
                   uint8_t out[NM_HASH_SIZE]) {
  uint8_t tail[2 * NM_SHA256_BLOCK];
  size_t size = rest.len < 56 ? NM_SHA256_BLOCK : 2 * NM_SHA256_BLOCK;
  if (rest.len > 0) {
    memcpy(tail, rest.ptr, rest.len);
  }
  tail[rest.len] = 0x80;
  memset(tail + rest.len + 1, 0, size - 8 - (rest.len + 1));
  put_be64(tail + size - 8, total * 8);
  nm_sha256_compress(h, tail, size / NM_SHA256_BLOCK);
  put_digest(out, h);
  nm_wipe(tail, size);
}

/* Hashes all of |data| from the state |h|, before which |before| bytes (a
 * multiple of 64) were hashed. */
static void run(uint32_t h[8], uint64_t before, nm_span data,
                uint8_t out[NM_HASH_SIZE]) {
  size_t whole = data.len / NM_SHA256_BLOCK;
  size_t rest = data.len % NM_SHA256_BLOCK;
  if (whole > 0) {
    nm_sha256_compress(h, data.ptr, whole);
  }
  nm_span last = {rest > 0 ? data.ptr + (data.len - rest) : NULL, rest};
  finish(h, last, before + data.len, out);
}

void nm_sha256(uint8_t out[NM_HASH_SIZE], nm_span data) {
  uint32_t h[8];
  memcpy(h, nm_sha256_iv, sizeof h);
  run(h, 0, data, out);
}

void nm_sha256_init(nm_sha256_ctx *ctx) {
  memcpy(ctx->h, nm_sha256_iv, sizeof ctx->h);
  ctx->bytes = 0;
}

void nm_sha256_update(nm_sha256_ctx *ctx, nm_span data) {
  size_t held = (size_t)(ctx->bytes % NM_SHA256_BLOCK);
  ctx->bytes += data.len;
  if (held > 0) {
    size_t room = NM_SHA256_BLOCK - held;
    size_t take = data.len < room ? data.len : room;
    if (take > 0) {
      memcpy(ctx->block + held, data.ptr, take);
      data.ptr += take;
      data.len -= take;
    }
    if (take < room) {
      return;
    }
    nm_sha256_compress(ctx->h, ctx->block, 1);
  }
  size_t whole = data.len / NM_SHA256_BLOCK;
  size_t rest = data.len % NM_SHA256_BLOCK;
  if (whole > 0) {
    nm_sha256_compress(ctx->h, data.ptr, whole);
  }
  if (rest > 0) {
    memcpy(ctx->block, data.ptr + whole * NM_SHA256_BLOCK, rest);
  }
}

/* The bytes that complete the block which |ctx| holds a part of. */
static void complete_block(nm_sha256_ctx *ctx, nm_span *data) {
  size_t held = (size_t)(ctx->bytes % NM_SHA256_BLOCK);
  size_t room = held == 0 ? 0 : NM_SHA256_BLOCK - held;
  size_t take = data->len < room ? data->len : room;
  nm_sha256_update(ctx, nm_span_of(data->ptr, take));
  *data = nm_span_slice(*data, take, data->len - take);
}

void nm_sha256_update_two(nm_sha256_ctx *a, nm_span first, nm_sha256_ctx *b,
                          nm_span second) {
  complete_block(a, &first);
  complete_block(b, &second);
  size_t less = first.len < second.len ? first.len : second.len;
  size_t count = less / NM_SHA256_BLOCK;
  size_t both = count * NM_SHA256_BLOCK;
  if (count > 0) {
    compress_two(a->h, first.ptr, b->h, second.ptr, count);
    a->bytes += both;
    b->bytes += both;
  }
  nm_sha256_update(a, nm_span_slice(first, both, first.len - both));
  nm_sha256_update(b, nm_span_slice(second, both, second.len - both));
}

void nm_sha256_final(nm_sha256_ctx *ctx, uint8_t out[NM_HASH_SIZE]) {
  nm_span rest = {ctx->block, (size_t)(ctx->bytes % NM_SHA256_BLOCK)};
  finish(ctx->h, rest, ctx->bytes, out);
  nm_wipe(ctx, sizeof *ctx);
}

void nm_sha256v(uint8_t out[NM_HASH_SIZE], const nm_span *parts, size_t n) {
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  for (size_t i = 0; i < n; i++) {
    nm_sha256_update(&ctx, parts[i]);
  }
  nm_sha256_final(&ctx, out);
}

int nm_sha256_save(const nm_sha256_ctx *ctx, nm_sha256_midstate *mid) {
  if (ctx->bytes % NM_SHA256_BLOCK != 0) {
    return NM_E(STATE);
  }
  memcpy(mid->h, ctx->h, sizeof mid->h);
  mid->bytes = ctx->bytes;
  return NM_OK;
}

void nm_sha256_resume(nm_sha256_ctx *ctx, const nm_sha256_midstate *mid) {
  memcpy(ctx->h, mid->h, sizeof ctx->h);
  ctx->bytes = mid->bytes;
}

void nm_truncated_hash(uint8_t out[NM_ADDRESS_SIZE], nm_span data) {
  uint8_t full[NM_HASH_SIZE];
  nm_sha256(full, data);
  memcpy(out, full, NM_ADDRESS_SIZE);
}

void nm_truncated_hashv(uint8_t out[NM_ADDRESS_SIZE], const nm_span *parts,
                        size_t n) {
  uint8_t full[NM_HASH_SIZE];
  nm_sha256v(full, parts, n);
  memcpy(out, full, NM_ADDRESS_SIZE);
}

void nm_name_hash(uint8_t out[NM_NAME_HASH_SIZE], nm_span name) {
  uint8_t full[NM_HASH_SIZE];
  nm_sha256(full, name);
  memcpy(out, full, NM_NAME_HASH_SIZE);
}

/* The state after one block of |key| (at most 64 bytes) XOR |pad|. */
static void pad_state(uint32_t h[8], nm_span key, uint8_t pad) {
  uint8_t block[NM_SHA256_BLOCK];
  memset(block, pad, sizeof block);
  for (size_t i = 0; i < key.len; i++) {
    block[i] ^= key.ptr[i];
  }
  memcpy(h, nm_sha256_iv, 8 * sizeof h[0]);
  nm_sha256_compress(h, block, 1);
  nm_wipe(block, sizeof block);
}

void nm_hmac_key_init(nm_hmac_key *k, nm_span key) {
  uint8_t hashed[NM_HASH_SIZE];
  if (key.len > NM_SHA256_BLOCK) {
    nm_sha256(hashed, key);
    key = nm_span_of(hashed, sizeof hashed);
  }
  pad_state(k->inner, key, 0x36);
  pad_state(k->outer, key, 0x5c);
  nm_wipe(hashed, sizeof hashed);
}

/* The outer hash over an inner digest. */
static void outer_hash(const nm_hmac_key *k, uint8_t out[NM_HASH_SIZE],
                       uint8_t inner[NM_HASH_SIZE]) {
  uint32_t h[8];
  memcpy(h, k->outer, sizeof h);
  finish(h, nm_span_of(inner, NM_HASH_SIZE), NM_SHA256_BLOCK + NM_HASH_SIZE,
         out);
  nm_wipe(h, sizeof h);
}

void nm_hmac_key_mac(const nm_hmac_key *k, uint8_t out[NM_HASH_SIZE],
                     nm_span data) {
  uint32_t h[8];
  uint8_t inner[NM_HASH_SIZE];
  memcpy(h, k->inner, sizeof h);
  run(h, NM_SHA256_BLOCK, data, inner);
  outer_hash(k, out, inner);
  nm_wipe(h, sizeof h);
  nm_wipe(inner, sizeof inner);
}

void nm_hmac_key_macv(const nm_hmac_key *k, uint8_t out[NM_HASH_SIZE],
                      const nm_span *parts, size_t n) {
  nm_sha256_ctx ctx;
  nm_hmac_key_begin(k, &ctx);
  for (size_t i = 0; i < n; i++) {
    nm_sha256_update(&ctx, parts[i]);
  }
  nm_hmac_key_end(k, &ctx, out);
}

void nm_hmac_key_begin(const nm_hmac_key *k, nm_sha256_ctx *ctx) {
  memcpy(ctx->h, k->inner, sizeof ctx->h);
  ctx->bytes = NM_SHA256_BLOCK;
}

void nm_hmac_key_end(const nm_hmac_key *k, nm_sha256_ctx *ctx,
                     uint8_t out[NM_HASH_SIZE]) {
  uint8_t inner[NM_HASH_SIZE];
  nm_sha256_final(ctx, inner);
  outer_hash(k, out, inner);
  nm_wipe(inner, sizeof inner);
}

void nm_hmac_key_wipe(nm_hmac_key *k) {
  nm_wipe(k, sizeof *k);
}

void nm_hmac_sha256(uint8_t out[NM_HASH_SIZE], nm_span key, nm_span data) {
  nm_hmac_key k;
  nm_hmac_key_init(&k, key);
  nm_hmac_key_mac(&k, out, data);
  nm_hmac_key_wipe(&k);
}

int nm_hkdf_salted(uint8_t *out, size_t len, nm_span ikm,
                   const nm_hmac_key *salt, nm_span info) {
  if (len == 0) {
    return NM_E(LENGTH);
  }
  nm_hmac_key prk;
  uint8_t block[NM_HASH_SIZE];
  uint8_t counter = 1;
  nm_hmac_key_mac(salt, block, ikm);
  nm_hmac_key_init(&prk, nm_span_of(block, sizeof block));
  nm_span parts[3] = {{NULL, 0}, info, {&counter, 1}};
  for (size_t done = 0; done < len; counter++) {
    nm_hmac_key_macv(&prk, block, parts, 3);
    parts[0] = nm_span_of(block, sizeof block);
    size_t take = len - done < sizeof block ? len - done : sizeof block;
    memcpy(out + done, block, take);
    done += take;
  }
  nm_hmac_key_wipe(&prk);
  nm_wipe(block, sizeof block);
  return NM_OK;
}

int nm_hkdf(uint8_t *out, size_t len, nm_span ikm, nm_span salt, nm_span info) {
  nm_hmac_key key;
  /* An absent salt is 32 zero bytes, which as an HMAC key is the same as an
   * empty one. */
  nm_hmac_key_init(&key, salt);
  int status = nm_hkdf_salted(out, len, ikm, &key, info);
  nm_hmac_key_wipe(&key);
  return status;
}
