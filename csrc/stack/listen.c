/* Listening on own destinations, and no longer (P6, N4).
 */
#include "stack/internal.h"
#include "wire/destination.h"

#include <string.h>

#define NAME_MAX_BYTES 512
/* A new destination is made known to the shared instance after this
 * (RNS 1, 8.12.1); after a reconnection the instance gets more time. */
#define REGISTER_DELAY_US 250000
#define RECONNECT_DELAY_US 10000000

void nm_dest_spec_default(nm_dest_spec *spec) {
  memset(spec, 0, sizeof(*spec));
  spec->type = NM_SINGLE;
  spec->prove = NM_PROVE_NONE;
  spec->accepts_links = true;
  spec->resources = NM_ACCEPT_NONE;
  spec->ratchets_retained = NM_RATCHETS_RETAINED;
  spec->ratchet_interval_s = (uint32_t)NM_RATCHET_INTERVAL;
}

static int check_spec(const nm_dest_spec *spec) {
  bool has_identity = spec->identity != NULL;
  if (spec->name.len == 0 || spec->name.len > NAME_MAX_BYTES ||
      nm_proof_strategy_check(spec->prove) != NM_OK) {
    return NM_E(ARGUMENT);
  }
  int rule =
      nm_destination_check(NM_DIRECTION_IN, spec->type, has_identity, NULL);
  if (rule < 0 || (spec->type == NM_SINGLE && !has_identity)) {
    return NM_E(ARGUMENT);
  }
  if (has_identity && !spec->identity->has_private) {
    return NM_E(NO_KEY);
  }
  bool key_fits = spec->group_key.len == NM_TOKEN_KEY_SIZE ||
                  spec->group_key.len == NM_TOKEN_KEY_SIZE_128;
  if (spec->type == NM_GROUP && !key_fits) {
    return NM_E(KEY);
  }
  return NM_OK;
}

static int fill_local(nm_engine *engine, nm_local *local,
                      const nm_dest_spec *spec) {
  local->name = nm_block_copy(engine->mem, spec->name);
  if (local->name == NULL) {
    return NM_E(MEMORY);
  }
  if (spec->identity != NULL) {
    local->identity = nm_identity_block(engine->mem, spec->identity);
    if (local->identity == NULL) {
      return NM_E(MEMORY);
    }
  }
  if (spec->type == NM_GROUP) {
    int status = nm_token_key_init(&local->group_key, spec->group_key);
    if (status != NM_OK) {
      return status;
    }
    local->has_group_key = true;
  }
  local->type = spec->type;
  local->prove = spec->prove;
  local->hold = spec->hold;
  local->accepts_links = spec->accepts_links && spec->type == NM_SINGLE;
  local->resources = spec->resources;
  local->hold_resources = spec->hold_resources;
  local->channels = spec->channels;
  local->resource_max = spec->resource_max != 0
                            ? spec->resource_max
                            : engine->limits.resource_in_max;
  local->request_max = spec->request_max;
  local->ratchets = spec->ratchets && spec->type == NM_SINGLE;
  local->enforce_ratchets = local->ratchets && spec->enforce_ratchets;
  local->ratchets_retained =
      spec->ratchets_retained == 0 ? 1 : spec->ratchets_retained;
  local->ratchet_interval_us = spec->ratchet_interval_s * 1000000ull;
  local->last_emitted = spec->last_emitted;
  return local->ratchets && spec->ratchet_file.len > 0
             ? nm_local_load_ratchets(engine, local, spec->ratchet_file)
             : NM_OK;
}

static void register_now(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_local *local =
      (nm_local *)(void *)((char *)timer - offsetof(nm_local, register_timer));
  nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    if (iface->spec.role == NM_ROLE_SHARED_CONNECTION &&
        nm_iface_can_send(iface)) {
      nm_local_register(engine, local, iface->id);
    }
  }
}

static bool is_attached(const nm_engine *engine) {
  nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    if (iface->spec.role == NM_ROLE_SHARED_CONNECTION && iface->spec.online) {
      return true;
    }
  }
  return false;
}

int nm_engine_listen(nm_engine *engine, const nm_dest_spec *spec,
                     nm_destination_hash *hash, nm_now now) {
  engine->now = now;
  int status = engine->closing ? NM_E(STATE) : check_spec(spec);
  if (status != NM_OK) {
    return status;
  }
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, spec->name);
  nm_destination_address(
      name_hash, spec->identity == NULL ? NULL : &spec->identity->hash, hash);
  if (nm_local_find(engine, hash) != NULL) {
    return NM_E(DUPLICATE_KEY);
  }
  nm_local *local = nm_alloc_zero(engine->mem, 1, sizeof(*local));
  if (local == NULL || nm_engine_reserve_timers(engine, 1) != NM_OK) {
    nm_release(engine->mem, local);
    return NM_E(MEMORY);
  }
  local->hash = *hash;
  local->engine = engine;
  local->register_timer.fire = register_now;
  memcpy(local->name_hash, name_hash, sizeof(name_hash));
  status = fill_local(engine, local, spec);
  if (status == NM_OK) {
    status = nm_table_insert(&engine->locals.table, &local->link);
  }
  if (status != NM_OK) {
    nm_local_free(engine, local);
    return status;
  }
  if (local->type == NM_SINGLE && is_attached(engine)) {
    nm_engine_arm(engine, &local->register_timer, REGISTER_DELAY_US);
  }
  return NM_OK;
}

int nm_engine_unlisten(nm_engine *engine, const nm_destination_hash *hash,
                       nm_now now) {
  engine->now = now;
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  nm_links_local_gone(engine, hash);
  nm_announcing_local_gone(engine, hash);
  nm_table_remove(&engine->locals.table, &local->link);
  nm_local_free(engine, local);
  return NM_OK;
}

void nm_locals_iface_online(nm_engine *engine, nm_iface_id iface) {
  const nm_iface *up = nm_iface_find(engine, iface);
  if (up->spec.role != NM_ROLE_SHARED_CONNECTION) {
    return;
  }
  nm_local *local = NULL;
  while ((local = nm_local_next(engine, local)) != NULL) {
    if (local->type == NM_SINGLE) {
      nm_engine_arm(engine, &local->register_timer, RECONNECT_DELAY_US);
    }
  }
}
