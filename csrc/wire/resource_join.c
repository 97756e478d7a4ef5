/* Receiving one segment of a resource. */
#include "wire/resource_join.h"

#include "crypto/bz2.h"
#include "crypto/zstd.h"

/* The map hash of part |index|, which is below the height. */
static nm_span map_hash_at(const nm_resource_join *join, uint32_t index) {
  return nm_span_slice(nm_span_of(join->hashmap.ptr, join->hashmap.len),
                       (size_t)index * NM_RESOURCE_MAP_HASH_SIZE,
                       NM_RESOURCE_MAP_HASH_SIZE);
}

int nm_resource_join_init(nm_resource_join *join, const nm_resource_adv *adv,
                          size_t sdu, const nm_mem *mem, nm_fault *fault) {
  memset(join, 0, sizeof *join);
  int status = nm_resource_adv_check(adv, fault);
  if (status != NM_OK) {
    return status;
  }
  if (sdu == 0) {
    return nm_fault_set(fault, NM_E(ARGUMENT), "sdu", 0);
  }
  size_t stream = (size_t)adv->transfer_size;
  size_t parts = (size_t)nm_resource_part_count(adv->transfer_size, sdu);
  if (adv->hashmap.len / NM_RESOURCE_MAP_HASH_SIZE > parts) {
    return nm_fault_set(fault, NM_E(LENGTH), "advertisement.m", 0);
  }
  size_t hashmap = parts * NM_RESOURCE_MAP_HASH_SIZE;
  size_t bitmap = (parts + 7) / 8;
  size_t block = stream + hashmap + bitmap;
  join->block = (uint8_t *)nm_alloc(mem, block);
  if (join->block == NULL) {
    return nm_fault_set(fault, NM_E(MEMORY), "resource", 0);
  }
  join->mem = mem;
  nm_writer w = nm_writer_of(join->block, block);
  join->stream = (nm_mspan){nm_writer_reserve(&w, stream), stream};
  join->hashmap = (nm_mspan){nm_writer_reserve(&w, hashmap), hashmap};
  join->bitmap = (nm_mspan){nm_writer_reserve(&w, bitmap), bitmap};
  memset(join->bitmap.ptr, 0, bitmap);
  memcpy(join->hashmap.ptr, adv->hashmap.ptr, adv->hashmap.len);
  memcpy(join->random, adv->random.ptr, sizeof join->random);
  memcpy(join->hash, adv->hash.ptr, sizeof join->hash);
  join->sdu = sdu;
  join->parts = (uint32_t)parts;
  join->height = (uint32_t)(adv->hashmap.len / NM_RESOURCE_MAP_HASH_SIZE);
  join->compressed = (adv->flags & NM_RESOURCE_COMPRESSED) != 0;
  join->extended = (adv->flags & NM_RESOURCE_EXTENDED) != 0;
  join->has_metadata =
      (adv->flags & NM_RESOURCE_HAS_METADATA) != 0 && adv->segment == 1;
  return NM_OK;
}

void nm_resource_join_authenticate(nm_resource_join *join,
                                   const nm_token_key *key) {
  join->macs = nm_sha256_two_is_fast() && join->received == 0;
  nm_hmac_key_begin(&key->mac, &join->mac);
}

void nm_resource_join_dispose(nm_resource_join *join) {
  if (join->block != NULL) {
    nm_wipe(join->stream.ptr, join->stream.len);
    nm_release(join->mem, join->block);
  }
  nm_wipe(join, sizeof *join);
}

/* Bytes of |part| that the MAC covers if it is the next one in order. */
static nm_span maced_of(const nm_resource_join *join, nm_span part) {
  size_t end =
      join->stream.len < NM_HASH_SIZE ? 0 : join->stream.len - NM_HASH_SIZE;
  size_t left = end > join->maced ? end - join->maced : 0;
  bool next =
      join->macs && join->maced == (size_t)join->first_missing * join->sdu;
  return nm_span_slice(part, 0, !next ? 0 : part.len < left ? part.len : left);
}

/* Notes that part |index| is there now. */
static void mark(nm_resource_join *join, uint32_t index) {
  join->bitmap.ptr[index / 8] |= (uint8_t)(1u << (index % 8));
  join->received++;
  if (index < join->request_end && join->outstanding > 0) {
    join->outstanding--;
  }
  while (nm_resource_join_has(join, join->first_missing)) {
    join->first_missing++;
  }
}

/* Puts a part with the map hash |own| where it belongs. */
static int place(nm_resource_join *join, nm_span part,
                 const uint8_t own[NM_RESOURCE_MAP_HASH_SIZE], size_t search,
                 uint32_t *index) {
  uint32_t end = join->height;
  if (search != 0 && end > join->first_missing &&
      end - join->first_missing > search) {
    end = join->first_missing + (uint32_t)search;
  }
  for (uint32_t i = join->first_missing; i < end; i++) {
    if (nm_resource_join_has(join, i) ||
        !nm_span_equal(map_hash_at(join, i),
                       nm_span_of(own, NM_RESOURCE_MAP_HASH_SIZE))) {
      continue;
    }
    size_t at = (size_t)i * join->sdu;
    size_t left = join->stream.len - at;
    if (part.len != (left < join->sdu ? left : join->sdu)) {
      return NM_E(LENGTH);
    }
    nm_writer w = nm_writer_of(join->stream.ptr, join->stream.len);
    (void)nm_writer_reserve(&w, at);
    nm_writer_span(&w, part);
    mark(join, i);
    *index = i;
    return NM_OK;
  }
  return NM_E(MISMATCH);
}

int nm_resource_join_part(nm_resource_join *join, nm_span part, size_t search,
                          uint32_t *index) {
  uint8_t own[NM_RESOURCE_MAP_HASH_SIZE];
  nm_sha256_ctx mac = join->mac;
  nm_span maced = maced_of(join, part);
  nm_resource_map_hash_beside(part, join->random, own, &mac, maced);
  int status = place(join, part, own, search, index);
  if (status == NM_OK && maced.len > 0 && join->maced == *index * join->sdu) {
    join->mac = mac;
    join->maced += maced.len;
  }
  nm_wipe(&mac, sizeof mac);
  return status;
}

bool nm_resource_join_knows(const nm_resource_join *join, nm_span part) {
  uint8_t own[NM_RESOURCE_MAP_HASH_SIZE];
  nm_resource_map_hash(part, join->random, own);
  for (uint32_t i = 0; i < join->height; i++) {
    if (nm_span_equal(map_hash_at(join, i), nm_span_of(own, sizeof own))) {
      return true;
    }
  }
  return false;
}

int nm_resource_join_request(nm_resource_join *join, uint32_t window,
                             nm_writer *w) {
  if (nm_resource_join_complete(join)) {
    return NM_E(STATE);
  }
  if (window == 0) {
    return NM_E(ARGUMENT);
  }
  uint32_t end = join->parts - join->first_missing > window
                     ? join->first_missing + window
                     : join->parts;
  /* A missing part without a map hash ends the list, and the form says so. */
  bool exhausted = end > join->height;
  uint32_t known = exhausted ? join->height : end;
  nm_resource_request head = {
      .exhausted = exhausted,
      .last_known = map_hash_at(join, join->height - 1),
      .hash = nm_span_of(join->hash, sizeof join->hash),
  };
  nm_resource_request_encode(&head, w);
  uint32_t listed = 0;
  for (uint32_t i = join->first_missing; i < known; i++) {
    if (!nm_resource_join_has(join, i)) {
      nm_writer_span(w, map_hash_at(join, i));
      listed++;
    }
  }
  if (w->status != NM_OK) {
    return w->status;
  }
  join->outstanding = listed;
  join->request_end = known;
  join->waiting_for_hashmap = exhausted;
  return NM_OK;
}

int nm_resource_join_update(nm_resource_join *join, const nm_resource_hmu *hmu,
                            nm_fault *fault) {
  if (!nm_span_equal(hmu->hash, nm_span_of(join->hash, sizeof join->hash))) {
    return nm_fault_set(fault, NM_E(MISMATCH), "hashmap_update.hash", 0);
  }
  if (!join->waiting_for_hashmap) {
    return nm_fault_set(fault, NM_E(STATE), "hashmap_update", 0);
  }
  uint64_t count = hmu->hashmap.len / NM_RESOURCE_MAP_HASH_SIZE;
  if (hmu->segment > join->parts / NM_RESOURCE_HASHMAP_MAX) {
    return nm_fault_set(fault, NM_E(RANGE), "hashmap_update.segment", 0);
  }
  uint64_t begin = hmu->segment * NM_RESOURCE_HASHMAP_MAX;
  if (count > join->parts - begin) {
    return nm_fault_set(fault, NM_E(RANGE), "hashmap_update.hashmap", 0);
  }
  if (begin > join->height || begin + count <= join->height) {
    return nm_fault_set(fault, NM_E(MISMATCH), "hashmap_update.segment", 0);
  }
  size_t known = join->height - (size_t)begin;
  nm_writer w = nm_writer_of(join->hashmap.ptr, join->hashmap.len);
  (void)nm_writer_reserve(&w, (size_t)join->height * NM_RESOURCE_MAP_HASH_SIZE);
  nm_reader r = nm_reader_of(hmu->hashmap);
  (void)nm_reader_take(&r, known * NM_RESOURCE_MAP_HASH_SIZE);
  nm_writer_span(&w, nm_reader_take(&r, ((size_t)count - known) *
                                            NM_RESOURCE_MAP_HASH_SIZE));
  join->height = (uint32_t)(begin + count);
  join->waiting_for_hashmap = false;
  return NM_OK;
}

/* --- Assembly --- */

/* Checks the hash of |plain| and computes the proof. */
static bool check_plain(nm_span plain, const nm_resource_terms *terms,
                        uint8_t proof[NM_HASH_SIZE]) {
  uint8_t digest[NM_HASH_SIZE];
  nm_sha256_ctx ctx;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, plain);
  nm_sha256_ctx second = ctx;
  nm_sha256_update(&ctx, nm_span_of(terms->random, sizeof terms->random));
  nm_sha256_final(&ctx, digest);
  nm_sha256_update(&second, nm_span_of(terms->hash, sizeof terms->hash));
  nm_sha256_final(&second, proof);
  return nm_equal_ct(digest, terms->hash, NM_HASH_SIZE);
}

int nm_resource_finish(nm_span opened, const nm_resource_terms *terms,
                       const nm_mem *mem, nm_buffer *out,
                       nm_resource_result *result, nm_fault *fault) {
  nm_reader r = nm_reader_of(opened);
  (void)nm_reader_take(&r, NM_RESOURCE_PREFIX_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "resource.prefix", 0);
  }
  nm_span plain = nm_reader_rest(&r);
  size_t limit = terms->limit != 0 ? terms->limit : NM_RESOURCE_COMPRESS_MAX;
  if (terms->compressed) {
    size_t before = out->len;
    int status = terms->extended && nm_zstd_is_frame(plain)
                     ? nm_zstd_decompress(plain, limit, out)
                     : nm_bz2_decompress(mem, plain, limit, out);
    if (status != NM_OK) {
      return nm_fault_set(fault, status, "resource.data",
                          NM_RESOURCE_PREFIX_SIZE);
    }
    plain = nm_span_slice(nm_span_of(out->ptr, out->len), before,
                          out->len - before);
  }
  if (plain.len > limit) {
    return nm_fault_set(fault, NM_E(LIMIT), "resource.data",
                        NM_RESOURCE_PREFIX_SIZE);
  }
  if (!check_plain(plain, terms, result->proof)) {
    return nm_fault_set(fault, NM_E(MISMATCH), "resource.hash", 0);
  }
  result->plaintext = plain;
  result->metadata = nm_span_of(NULL, 0);
  result->data = plain;
  if (terms->has_metadata) {
    return nm_resource_metadata_split(plain, &result->metadata, &result->data,
                                      fault);
  }
  return NM_OK;
}

void nm_resource_join_terms(const nm_resource_join *join, size_t limit,
                            nm_resource_terms *terms) {
  terms->compressed = join->compressed;
  terms->extended = join->extended;
  terms->has_metadata = join->has_metadata;
  memcpy(terms->random, join->random, sizeof terms->random);
  memcpy(terms->hash, join->hash, sizeof terms->hash);
  terms->limit = limit;
}

int nm_resource_join_assemble(nm_resource_join *join, nm_cipher *cipher,
                              const nm_token_key *key, size_t limit,
                              nm_buffer *out, nm_resource_result *result,
                              nm_fault *fault) {
  if (!nm_resource_join_complete(join)) {
    return nm_fault_set(fault, NM_E(STATE), "resource", 0);
  }
  nm_span token = nm_span_of(join->stream.ptr, join->stream.len);
  nm_writer w = nm_writer_of(join->stream.ptr, join->stream.len);
  (void)nm_writer_reserve(&w, NM_AES_BLOCK);
  uint8_t *inside = nm_writer_reserve(&w, nm_writer_left(&w));
  size_t len = 0;
  if (!join->macs) {
    nm_hmac_key_begin(&key->mac, &join->mac);
  }
  int status = nm_token_check_rest(key, token, join->maced, &join->mac);
  join->macs = false;
  join->maced = 0;
  if (status == NM_OK) {
    status = nm_token_open_checked(cipher, key, token, inside, &len);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "resource.stream", 0);
  }
  nm_resource_terms terms;
  nm_resource_join_terms(join, limit, &terms);
  return nm_resource_finish(nm_span_of(inside, len), &terms, join->mem, out,
                            result, fault);
}
