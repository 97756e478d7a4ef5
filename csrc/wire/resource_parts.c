/* Parts, map hashes, segments and metadata of resources. */
#include "wire/resource.h"

#include "crypto/sha256_lanes.h"

size_t nm_resource_sdu(size_t mtu) {
  return mtu > NM_RESOURCE_SDU_OVERHEAD ? mtu - NM_RESOURCE_SDU_OVERHEAD : 0;
}

uint64_t nm_resource_part_count(uint64_t transfer_size, size_t sdu) {
  if (sdu == 0) {
    return 0;
  }
  return transfer_size / sdu + (transfer_size % sdu != 0 ? 1 : 0);
}

int nm_resource_parts(nm_span stream, size_t sdu, nm_span *out, size_t cap) {
  if (sdu == 0) {
    return NM_E(ARGUMENT);
  }
  uint64_t count = nm_resource_part_count(stream.len, sdu);
  if (count > cap || count > INT32_MAX) {
    return NM_E(TOO_LARGE);
  }
  if (count == 0) {
    return 0;
  }
  const uint8_t *at = stream.ptr;
  size_t full = stream.len / sdu;
  for (size_t i = 0; i < full; i++) {
    out[i] = nm_span_of(at, sdu);
    at += sdu;
  }
  if (full < count) {
    out[full] = nm_span_of(at, stream.len - full * sdu);
  }
  return (int)count;
}

int nm_resource_parts_copy(nm_span stream, size_t sdu, uint8_t *dst,
                           size_t stride, size_t cap) {
  if (sdu == 0 || stride < sdu) {
    return NM_E(ARGUMENT);
  }
  uint64_t count = nm_resource_part_count(stream.len, sdu);
  if (count > INT32_MAX) {
    return NM_E(TOO_LARGE);
  }
  nm_reader r = nm_reader_of(stream);
  nm_writer w = nm_writer_of(dst, cap);
  while (nm_reader_left(&r) > sdu) {
    nm_writer_span(&w, nm_reader_take(&r, sdu));
    (void)nm_writer_reserve(&w, stride - sdu);
  }
  nm_writer_span(&w, nm_reader_rest(&r));
  return w.status == NM_OK ? (int)count : w.status;
}

int nm_resource_parts_join(const nm_span *parts, size_t count, nm_writer *w) {
  for (size_t i = 0; i < count; i++) {
    nm_writer_span(w, parts[i]);
  }
  return w->status;
}

void nm_resource_map_hash_beside(nm_span part,
                                 const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                                 uint8_t out[NM_RESOURCE_MAP_HASH_SIZE],
                                 nm_sha256_ctx *beside, nm_span hashed) {
  uint8_t digest[NM_HASH_SIZE];
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  nm_sha256_update_two(&ctx, part, beside, hashed);
  nm_sha256_update(&ctx, nm_span_of(random, NM_RESOURCE_RANDOM_SIZE));
  nm_sha256_final(&ctx, digest);
  memcpy(out, digest, NM_RESOURCE_MAP_HASH_SIZE);
}

void nm_resource_map_hash(nm_span part,
                          const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                          uint8_t out[NM_RESOURCE_MAP_HASH_SIZE]) {
  uint8_t digest[NM_HASH_SIZE];
  const nm_span both[2] = {part, nm_span_of(random, NM_RESOURCE_RANDOM_SIZE)};
  nm_sha256v(digest, both, 2);
  memcpy(out, digest, NM_RESOURCE_MAP_HASH_SIZE);
}

/* Parts that are hashed at once: enough to fill the lanes several times. */
#define BATCH 64

void nm_resource_map_hashes(nm_span stream, size_t sdu,
                            const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                            uint8_t *out) {
  nm_span suffix = nm_span_of(random, NM_RESOURCE_RANDOM_SIZE);
  nm_span parts[BATCH];
  uint8_t digests[BATCH][NM_HASH_SIZE];
  uint64_t count = nm_resource_part_count(stream.len, sdu);
  nm_writer w = nm_writer_of(out, (size_t)count * NM_RESOURCE_MAP_HASH_SIZE);
  nm_reader r = nm_reader_of(stream);
  while (sdu > 0 && nm_reader_left(&r) > 0) {
    size_t left = nm_reader_left(&r);
    size_t take = left / BATCH < sdu ? left : BATCH * sdu;
    int n = nm_resource_parts(nm_reader_take(&r, take), sdu, parts, BATCH);
    (void)nm_sha256_many_suffix(digests, parts, (size_t)n, suffix);
    for (int i = 0; i < n; i++) {
      nm_writer_put(&w, digests[i], NM_RESOURCE_MAP_HASH_SIZE);
    }
  }
}

/* Chains of map hashes with the same first byte, newest first, as positions
 * counted from 1; 0 ends a chain. `before` is a ring, which is enough because
 * nothing older than the guard is looked at. */
#define RING 256

bool nm_resource_map_distinct(nm_span hashmap) {
  uint32_t newest[256] = {0};
  uint32_t before[RING];
  uint32_t count = (uint32_t)(hashmap.len / NM_RESOURCE_MAP_HASH_SIZE);
  for (uint32_t i = 1; i <= count; i++) {
    nm_span own =
        nm_span_slice(hashmap, (size_t)(i - 1) * NM_RESOURCE_MAP_HASH_SIZE,
                      NM_RESOURCE_MAP_HASH_SIZE);
    uint32_t *head = &newest[own.ptr[0]];
    for (uint32_t j = *head; j != 0 && i - j <= NM_RESOURCE_GUARD;
         j = before[j % RING]) {
      size_t at = (size_t)(j - 1) * NM_RESOURCE_MAP_HASH_SIZE;
      if (nm_span_equal(
              own, nm_span_slice(hashmap, at, NM_RESOURCE_MAP_HASH_SIZE))) {
        return false;
      }
    }
    before[i % RING] = *head;
    *head = i;
  }
  return true;
}

/* --- Segments --- */

int nm_resource_plan_make(uint64_t data_size, uint64_t metadata_size,
                          nm_resource_plan *plan) {
  if (metadata_size > NM_RESOURCE_SEGMENT_MAX ||
      data_size > UINT64_MAX - metadata_size) {
    return NM_E(TOO_LARGE);
  }
  plan->data_size = data_size;
  plan->metadata_size = metadata_size;
  plan->total_size = data_size + metadata_size;
  plan->segments = plan->total_size == 0
                       ? 1
                       : (plan->total_size - 1) / NM_RESOURCE_SEGMENT_MAX + 1;
  return NM_OK;
}

int nm_resource_plan_segment(const nm_resource_plan *plan, uint64_t index,
                             uint64_t *offset, uint64_t *length) {
  if (index == 0 || index > plan->segments) {
    return NM_E(RANGE);
  }
  /* Positions in metadata || data; what lies in the metadata is cut off. */
  uint64_t begin = (index - 1) * NM_RESOURCE_SEGMENT_MAX;
  uint64_t end = plan->total_size - begin < NM_RESOURCE_SEGMENT_MAX
                     ? plan->total_size
                     : begin + NM_RESOURCE_SEGMENT_MAX;
  if (begin < plan->metadata_size) {
    begin = plan->metadata_size;
  }
  *offset = begin - plan->metadata_size;
  *length = end - begin;
  return NM_OK;
}

double nm_resource_progress(uint64_t segment, uint64_t segments, uint64_t done,
                            uint64_t parts, size_t sdu) {
  if (parts == 0 || sdu == 0 || segment == 0 || segments == 0) {
    return 0.0;
  }
  if (segments == 1) {
    double fraction = (double)done / (double)parts;
    return fraction < 1.0 ? fraction : 1.0;
  }
  double most = (double)nm_resource_part_count(NM_RESOURCE_SEGMENT_MAX, sdu);
  double factor = most / (double)parts;
  double processed = (double)(segment - 1) * most +
                     (double)done * (factor > 1.0 ? factor : 1.0);
  double progress = processed / ((double)segments * most);
  return progress < 1.0 ? progress : 1.0;
}

/* --- Metadata --- */

int nm_resource_metadata_encode(nm_span packed, nm_writer *w) {
  if (packed.len > NM_RESOURCE_METADATA_MAX) {
    return NM_E(TOO_LARGE);
  }
  nm_writer_u8(w, (uint8_t)(packed.len >> 16));
  nm_writer_u16(w, (uint16_t)packed.len);
  nm_writer_span(w, packed);
  return w->status;
}

int nm_resource_metadata_split(nm_span plaintext, nm_span *packed,
                               nm_span *data, nm_fault *fault) {
  nm_reader r = nm_reader_of(plaintext);
  size_t len = (size_t)nm_reader_u8(&r) << 16;
  len |= nm_reader_u16(&r);
  *packed = nm_reader_take(&r, len);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "metadata", plaintext.len);
  }
  *data = nm_reader_rest(&r);
  return NM_OK;
}
