/* Preparing one segment of a resource. */
#include "wire/resource_build.h"

#include "crypto/bz2.h"
#include "crypto/zstd.h"

#include <math.h>

/* --- Compression --- */

#define BZ2_LEVEL 9 /* block size, RNS 2, 3.2 */

#define SAMPLE_CHUNKS 16
#define SAMPLE_CHUNK 256
/* Below this there is too little to judge, and compressing is cheap. */
#define SAMPLE_MIN 512

/* Counts the bytes of a sample of |data|; returns how many there are. */
static uint64_t count_sample(nm_span data, uint32_t seen[256]) {
  uint64_t total = 0;
  size_t chunks = data.len / SAMPLE_CHUNK < SAMPLE_CHUNKS
                      ? data.len / SAMPLE_CHUNK
                      : SAMPLE_CHUNKS;
  size_t stride = data.len / chunks;
  for (size_t i = 0; i < chunks; i++) {
    nm_span chunk = nm_span_slice(data, i * stride, SAMPLE_CHUNK);
    for (size_t j = 0; j < chunk.len; j++) {
      seen[chunk.ptr[j]]++;
    }
    total += chunk.len;
  }
  return total;
}

/* The index of coincidence: how often two bytes of the sample are equal. For
 * noise it is 1/256 of all pairs, with a relative deviation of about
 * 23 / total; text and structured data are far above. */
static bool is_noise(const uint32_t seen[256], uint64_t total) {
  uint64_t equal = 0;
  for (size_t i = 0; i < 256; i++) {
    equal += (uint64_t)seen[i] * (seen[i] > 0 ? seen[i] - 1 : 0);
  }
  double relative =
      256.0 * (double)equal / ((double)total * (double)(total - 1));
  return relative < 1.0 + 115.0 / (double)total;
}

bool nm_resource_looks_random(nm_span data) {
  uint32_t seen[256] = {0};
  return data.len >= SAMPLE_MIN && is_noise(seen, count_sample(data, seen));
}

/* Seconds that both sides spend on a byte of content. */
#define BZ2_SECONDS_PER_BYTE 1.4e-7
/* What bzip2 saves beyond the entropy of single bytes, and at most. */
#define BZ2_GAIN 1.5
#define BZ2_SAVING_MAX 0.9

bool nm_resource_worth_compressing(nm_span data, double rate) {
  if (data.len < SAMPLE_MIN) {
    return true; /* it costs next to nothing */
  }
  uint32_t seen[256] = {0};
  uint64_t total = count_sample(data, seen);
  if (is_noise(seen, total)) {
    return false;
  }
  double bits = 0;
  for (size_t i = 0; i < 256; i++) {
    double share = (double)seen[i] / (double)total;
    bits -= share > 0 ? share * log2(share) : 0;
  }
  double saving = (1.0 - bits / 8.0) * BZ2_GAIN;
  saving = saving < BZ2_SAVING_MAX ? saving : BZ2_SAVING_MAX;
  return rate <= 0 || saving / rate > BZ2_SECONDS_PER_BYTE;
}

/* The compressed size of a piece from the middle of |data|, as a share of it.
 */
#define PROBE_SIZE 65536u

static double zstd_share(nm_span data) {
  size_t size = data.len < PROBE_SIZE ? data.len : PROBE_SIZE;
  nm_span piece = nm_span_slice(data, (data.len - size) / 2, size);
  nm_buffer packed;
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 1);
  int status = nm_zstd_compress(nm_span_of(NULL, 0), piece, 1, size, &packed);
  double share = status == NM_OK ? (double)packed.len / (double)size : 1.0;
  nm_buffer_dispose(&packed);
  return share;
}

int nm_resource_zstd_level(nm_span data, double rate) {
  /* Seconds that both sides spend on a byte, from which rate on. */
  static const struct {
    double rate;
    double seconds;
    int level;
  } steps[] = {{2.0e7, 3.5e-9, 1}, {1.5e6, 6.5e-9, 3}, {5.0e5, 2.4e-8, 9}};
  size_t step = 0;
  if (nm_resource_looks_random(data) || data.len == 0) {
    return 0;
  }
  while (step < sizeof(steps) / sizeof(steps[0]) && rate < steps[step].rate) {
    step++;
  }
  if (step == sizeof(steps) / sizeof(steps[0])) {
    return 0;
  }
  double saved = (1.0 - zstd_share(data)) / rate;
  return saved > steps[step].seconds ? steps[step].level : 0;
}

static int compress_joined(const nm_resource_plain *plain, const nm_mem *mem,
                           size_t out_max, nm_buffer *out) {
  if (plain->metadata.len == 0) {
    return nm_bz2_compress(mem, plain->data, BZ2_LEVEL, out_max, out);
  }
  nm_buffer whole;
  nm_buffer_init(&whole, mem, NULL, 0, 1);
  int status =
      nm_buffer_append(&whole, plain->metadata.ptr, plain->metadata.len);
  if (status == NM_OK) {
    status = nm_buffer_append(&whole, plain->data.ptr, plain->data.len);
  }
  if (status == NM_OK) {
    status = nm_bz2_compress(mem, nm_span_of(whole.ptr, whole.len), BZ2_LEVEL,
                             out_max, out);
  }
  nm_buffer_dispose(&whole);
  return status;
}

int nm_resource_compress(const nm_resource_plain *plain,
                         nm_resource_compression mode, uint64_t total_size,
                         uint64_t compress_max, const nm_mem *mem,
                         nm_buffer *out) {
  size_t size = nm_resource_plain_size(plain);
  uint64_t limit = compress_max != 0 ? compress_max : NM_RESOURCE_COMPRESS_MAX;
  if (mode == NM_RESOURCE_COMPRESS_OFF || total_size > limit || size == 0) {
    return 0;
  }
  if (mode == NM_RESOURCE_COMPRESS_AUTOMATIC &&
      nm_resource_looks_random(plain->data)) {
    return 0;
  }
  /* Whatever keeps it from becoming shorter, it is then sent as it is. */
  return compress_joined(plain, mem, size - 1, out) == NM_OK ? 1 : 0;
}

/* --- Sealing --- */

size_t nm_resource_stream_size(size_t body_len) {
  return nm_token_size(NM_RESOURCE_PREFIX_SIZE + body_len);
}

/* Seals, and hashes |hashed| meanwhile. */
static int seal_beside(nm_cipher *cipher, const nm_token_key *key,
                       const uint8_t iv[NM_AES_BLOCK],
                       const uint8_t prefix[NM_RESOURCE_PREFIX_SIZE],
                       const nm_resource_plain *body, uint8_t *out,
                       nm_sha256_ctx *beside, nm_span hashed) {
  size_t size = nm_resource_plain_size(body);
  /* The plaintext goes where its ciphertext will be: sealing in place. */
  nm_writer w = nm_writer_of(out, nm_resource_stream_size(size));
  (void)nm_writer_reserve(&w, NM_AES_BLOCK);
  uint8_t *plain = nm_writer_reserve(&w, NM_RESOURCE_PREFIX_SIZE);
  memcpy(plain, prefix, NM_RESOURCE_PREFIX_SIZE);
  nm_writer_span(&w, body->metadata);
  nm_writer_span(&w, body->data);
  return nm_token_seal_beside(cipher, key, iv,
                              nm_span_of(plain, NM_RESOURCE_PREFIX_SIZE + size),
                              out, beside, hashed);
}

int nm_resource_seal(nm_cipher *cipher, const nm_token_key *key,
                     const uint8_t iv[NM_AES_BLOCK],
                     const uint8_t prefix[NM_RESOURCE_PREFIX_SIZE],
                     const nm_resource_plain *body, uint8_t *out) {
  nm_sha256_ctx none;
  nm_sha256_init(&none);
  return seal_beside(cipher, key, iv, prefix, body, out, &none,
                     nm_span_of(NULL, 0));
}

/* --- Hashes --- */

/* H(P || suffix), from the state after P. */
static void hash_with(const nm_sha256_ctx *after_plain, nm_span suffix,
                      uint8_t out[NM_HASH_SIZE]) {
  nm_sha256_ctx ctx = *after_plain;
  nm_sha256_update(&ctx, suffix);
  nm_sha256_final(&ctx, out);
}

/* From the state after P. */
static int index_after(const nm_sha256_ctx *after_plain, nm_span stream,
                       size_t sdu, nm_span randoms, nm_mspan hashmap,
                       nm_resource_segment *seg) {
  if (sdu == 0 || randoms.len == 0 ||
      randoms.len % NM_RESOURCE_RANDOM_SIZE != 0) {
    return NM_E(ARGUMENT);
  }
  uint64_t parts = nm_resource_part_count(stream.len, sdu);
  if (parts > hashmap.len / NM_RESOURCE_MAP_HASH_SIZE) {
    return NM_E(TOO_LARGE);
  }
  seg->stream = stream;
  seg->hashmap =
      nm_span_of(hashmap.ptr, (size_t)parts * NM_RESOURCE_MAP_HASH_SIZE);
  seg->sdu = sdu;
  seg->parts = parts;
  seg->collisions = 0;
  nm_reader r = nm_reader_of(randoms);
  for (;;) {
    if (!nm_reader_copy(&r, seg->random, NM_RESOURCE_RANDOM_SIZE)) {
      return NM_E(COLLISION);
    }
    nm_resource_map_hashes(stream, sdu, seg->random, hashmap.ptr);
    if (nm_resource_map_distinct(seg->hashmap)) {
      break;
    }
    seg->collisions++;
  }
  /* Both hashes begin with P, which is therefore hashed once. */
  hash_with(after_plain, nm_span_of(seg->random, sizeof seg->random),
            seg->hash);
  hash_with(after_plain, nm_span_of(seg->hash, sizeof seg->hash),
            seg->expected_proof);
  return NM_OK;
}

int nm_resource_index(const nm_resource_plain *plain, nm_span stream,
                      size_t sdu, nm_span randoms, nm_mspan hashmap,
                      nm_resource_segment *seg) {
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, plain->metadata);
  nm_sha256_update(&ctx, plain->data);
  int status = index_after(&ctx, stream, sdu, randoms, hashmap, seg);
  nm_wipe(&ctx, sizeof ctx);
  return status;
}

/* --- All of it --- */

size_t nm_resource_hashmap_bound(size_t plain_size, size_t sdu) {
  uint64_t parts =
      nm_resource_part_count(nm_resource_stream_size(plain_size), sdu);
  return (size_t)parts * NM_RESOURCE_MAP_HASH_SIZE;
}

int nm_resource_build(const nm_resource_build_args *args, nm_cipher *cipher,
                      const nm_mem *mem, nm_resource_segment *seg) {
  nm_buffer packed;
  nm_buffer_init(&packed, mem, NULL, 0, 1);
  nm_resource_plain body = args->plain;
  size_t plain = nm_resource_plain_size(&body);
  seg->compressed =
      args->zstd_level > 0
          ? plain > 0 &&
                nm_zstd_compress(body.metadata, body.data, args->zstd_level,
                                 plain - 1, &packed) == NM_OK
          : nm_resource_compress(&args->plain, args->compression,
                                 args->total_size, args->compress_max, mem,
                                 &packed) == 1;
  if (seg->compressed) {
    body.metadata = nm_span_of(NULL, 0);
    body.data = nm_span_of(packed.ptr, packed.len);
  }
  size_t size = nm_resource_stream_size(nm_resource_plain_size(&body));
  int status = NM_E(TOO_LARGE);
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  if (size <= args->stream.len) {
    nm_sha256_update(&ctx, args->plain.metadata);
    status = seal_beside(cipher, args->key, args->iv, args->prefix, &body,
                         args->stream.ptr, &ctx, args->plain.data);
  }
  nm_buffer_dispose(&packed);
  if (status == NM_OK) {
    status = index_after(&ctx, nm_span_of(args->stream.ptr, size), args->sdu,
                         args->randoms, args->hashmap, seg);
  }
  nm_wipe(&ctx, sizeof ctx);
  return status;
}

void nm_resource_adv_of(const nm_resource_segment *seg,
                        const nm_resource_announce *what,
                        nm_resource_adv *adv) {
  adv->transfer_size = seg->stream.len;
  adv->data_size = what->data_size;
  adv->parts = seg->parts;
  adv->hash = nm_span_of(seg->hash, sizeof seg->hash);
  adv->random = nm_span_of(seg->random, sizeof seg->random);
  adv->original = what->original.len > 0 ? what->original : adv->hash;
  adv->segment = what->segment;
  adv->segments = what->segments;
  adv->request_id = what->request_id;
  adv->flags = NM_RESOURCE_ENCRYPTED |
               (seg->compressed ? NM_RESOURCE_COMPRESSED : 0) |
               (what->segments > 1 ? NM_RESOURCE_SPLIT : 0) |
               (what->is_request ? NM_RESOURCE_IS_REQUEST : 0) |
               (what->is_response ? NM_RESOURCE_IS_RESPONSE : 0) |
               (what->has_metadata ? NM_RESOURCE_HAS_METADATA : 0) |
               (what->extended ? NM_RESOURCE_EXTENDED : 0);
  adv->hashmap = nm_resource_hmu_slice(seg->hashmap, 0);
}
