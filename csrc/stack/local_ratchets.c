/* Own ratchets of a destination (RNS 1, 3.5).
 */
#include "stack/internal.h"
#include "wire/ratchet_file.h"

#include <string.h>

/* Ids of |keys| (32 bytes each), and the public key of the first. */
static nm_block *ids_of(nm_engine *engine, const nm_block *keys,
                        uint8_t first_public[NM_KEY_SIZE]) {
  nm_span all = nm_block_span(keys);
  size_t count = all.len / NM_KEY_SIZE;
  nm_block *ids = nm_block_new(engine->mem, count * NM_RATCHET_ID_SIZE);
  if (ids == NULL) {
    return NULL;
  }
  nm_reader r = nm_reader_of(all);
  nm_writer w = nm_writer_of(nm_block_bytes(ids), count * NM_RATCHET_ID_SIZE);
  for (size_t i = 0; i < count; i++) {
    uint8_t public_key[NM_KEY_SIZE];
    if (nm_x25519_public(public_key, nm_reader_take(&r, NM_KEY_SIZE).ptr) !=
        NM_OK) {
      nm_block_drop(ids);
      return NULL;
    }
    if (i == 0) {
      memcpy(first_public, public_key, NM_KEY_SIZE);
    }
    nm_ratchet_id(nm_writer_reserve(&w, NM_RATCHET_ID_SIZE), public_key);
  }
  return ids;
}

/* All but the first are those that |local| has: a rotation costs one key,
 * however many are retained. */
nm_block *nm_local_rotated_ids(nm_engine *engine, const nm_local *local,
                               const nm_block *keys,
                               uint8_t first_public[NM_KEY_SIZE]) {
  nm_span old = nm_block_span(local->ratchet_ids);
  nm_span all = nm_block_span(keys);
  size_t size = all.len / NM_KEY_SIZE * NM_RATCHET_ID_SIZE;
  if (nm_x25519_public(first_public, all.ptr) != NM_OK) {
    return NULL;
  }
  nm_block *ids = nm_block_new(engine->mem, size);
  if (ids == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(ids), size);
  nm_ratchet_id(nm_writer_reserve(&w, NM_RATCHET_ID_SIZE), first_public);
  nm_writer_put(&w, old.ptr, size - NM_RATCHET_ID_SIZE);
  return ids;
}

int nm_local_load_ratchets(nm_engine *engine, nm_local *local, nm_span file) {
  nm_ratchet_file parsed;
  int status = nm_ratchet_file_parse(file, UINT32_MAX, &parsed, NULL);
  if (status == NM_OK) {
    status = nm_ratchet_file_verify(&parsed, nm_identity_in(local->identity));
  }
  if (status != NM_OK || parsed.count == 0) {
    return status;
  }
  /* Fewer may be retained now than when it was written: the newest stay. */
  uint32_t count = parsed.count < local->ratchets_retained
                       ? parsed.count
                       : local->ratchets_retained;
  nm_block *keys = nm_block_new(engine->mem, count * NM_KEY_SIZE);
  if (keys == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(keys);
  nm_writer w = nm_writer_of(nm_block_bytes(keys), count * NM_KEY_SIZE);
  for (uint32_t i = 0; i < count; i++) {
    nm_writer_span(&w, nm_ratchet_file_key(&parsed, i));
  }
  local->ratchet_keys = keys;
  local->ratchet_ids = ids_of(engine, keys, local->ratchet_public);
  return local->ratchet_ids == NULL ? NM_E(MEMORY) : NM_OK;
}

/* A new key in front of the retained ones. */
nm_block *nm_local_rotated(nm_engine *engine, const nm_local *local) {
  nm_span old = nm_block_span(local->ratchet_keys);
  size_t keep = (size_t)(local->ratchets_retained - 1) * NM_KEY_SIZE;
  size_t kept = old.len < keep ? old.len : keep;
  nm_block *keys = nm_block_new(engine->mem, NM_KEY_SIZE + kept);
  if (keys == NULL) {
    return NULL;
  }
  nm_block_mark_secret(keys);
  uint8_t fresh[NM_KEY_SIZE];
  if (nm_engine_random(engine, fresh, sizeof(fresh)) != NM_OK) {
    nm_block_drop(keys);
    return NULL;
  }
  nm_writer w = nm_writer_of(nm_block_bytes(keys), NM_KEY_SIZE + kept);
  nm_writer_put(&w, fresh, sizeof(fresh));
  nm_writer_put(&w, old.ptr, kept);
  nm_wipe(fresh, sizeof(fresh));
  return keys;
}

nm_block *nm_local_ratchet_file(nm_engine *engine, const nm_local *local,
                                const nm_block *keys) {
  nm_span all = nm_block_span(keys);
  uint32_t count = (uint32_t)(all.len / NM_KEY_SIZE);
  size_t size = nm_ratchet_file_size(count);
  nm_block *file = nm_block_new(engine->mem, size);
  if (file == NULL) {
    return NULL;
  }
  nm_block_mark_secret(file);
  nm_writer w = nm_writer_of(nm_block_bytes(file), size);
  if (nm_ratchet_file_write(&w, nm_identity_in(local->identity), all.ptr,
                            count) != NM_OK) {
    nm_block_drop(file);
    return NULL;
  }
  return file;
}

int nm_engine_ratchet_ids(const nm_engine *engine,
                          const nm_destination_hash *hash,
                          uint8_t (*ids)[NM_NAME_HASH_SIZE], size_t max) {
  const nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  nm_span all = nm_block_span(local->ratchet_ids);
  size_t count = all.len / NM_RATCHET_ID_SIZE;
  nm_reader r = nm_reader_of(all);
  for (size_t i = 0; i < count && i < max; i++) {
    (void)nm_reader_copy(&r, ids[i], NM_RATCHET_ID_SIZE);
  }
  return (int)count;
}

int nm_engine_ratchet_state(const nm_engine *engine,
                            const nm_destination_hash *hash,
                            nm_ratchet_state *out) {
  const nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  out->enabled = local->ratchets;
  out->enforced = local->enforce_ratchets;
  out->retained = local->ratchets_retained;
  out->interval_us = local->ratchet_interval_us;
  out->rotated_mono_us = local->rotated_mono_us;
  out->last_emitted = local->last_emitted;
  return NM_OK;
}

int nm_engine_ratchet_keys(const nm_engine *engine,
                           const nm_destination_hash *hash, nm_block **keys) {
  const nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  *keys =
      local->ratchet_keys != NULL ? nm_block_hold(local->ratchet_keys) : NULL;
  return NM_OK;
}

int nm_engine_ratchet_file(const nm_engine *engine,
                           const nm_destination_hash *hash, nm_block **file) {
  const nm_local *local = nm_local_find(engine, hash);
  if (local == NULL || local->ratchet_keys == NULL) {
    return NM_E(MISSING);
  }
  /* Writing signs, which changes nothing in the engine. */
  *file =
      nm_local_ratchet_file((nm_engine *)engine, local, local->ratchet_keys);
  return *file == NULL ? NM_E(MEMORY) : NM_OK;
}
