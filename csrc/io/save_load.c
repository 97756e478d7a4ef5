/* The stored tables go into a fresh engine, on the opener's thread.
 */
#include "io/internal.h"

#include <string.h>

/* A table's record or hash is read, and put; that of |key| is removed. Each
 * error is that of a damaged file. */
typedef struct shape {
  size_t key_size; /* 0: nothing is removed one by one */
  int (*load)(nm_node *node, nm_reader *r, uint32_t fields);
  void (*remove)(nm_node *node, nm_span key);
} shape;

static nm_destination_hash destination_in(nm_span key) {
  nm_destination_hash hash;
  memcpy(hash.b, key.ptr, NM_ADDRESS_SIZE);
  return hash;
}

static int load_known(nm_node *node, nm_reader *r, uint32_t fields) {
  nm_known_record record;
  (void)fields;
  int status = nm_known_unpack(r, node->mem, &record);
  if (status == NM_OK) {
    (void)nm_engine_known_put(node->engine, &record);
    nm_known_record_dispose(&record);
  }
  return status;
}

static void remove_known(nm_node *node, nm_span key) {
  nm_destination_hash hash = destination_in(key);
  (void)nm_engine_known_drop(node->engine, &hash);
}

static int load_way(nm_node *node, nm_reader *r) {
  nm_alternative_record record;
  uint8_t iface_hash[NM_HASH_SIZE];
  int status = nm_alternative_unpack(r, &record, iface_hash);
  if (status == NM_OK) {
    nm_orphans_put_way(node, &record, iface_hash);
  }
  return status;
}

static int load_path(nm_node *node, nm_reader *r, uint32_t fields) {
  if (fields == NM_ALTERNATIVE_FIELDS) {
    return load_way(node, r);
  }
  nm_path_record record;
  uint8_t iface_hash[NM_HASH_SIZE];
  int status = nm_path_unpack(r, node->mem, &record, iface_hash);
  if (status != NM_OK) {
    return status;
  }
  if (record.expires_unix_us > nm_clock_now().unix_us) {
    nm_orphans_put(node, &record, iface_hash);
  } else {
    nm_orphans_drop(node, &record.destination);
    nm_path_record_dispose(&record);
  }
  return NM_OK;
}

static void remove_path(nm_node *node, nm_span key) {
  nm_destination_hash hash = destination_in(key);
  nm_orphans_drop(node, &hash);
}

static int load_blackhole(nm_node *node, nm_reader *r, uint32_t fields) {
  nm_blackhole_record record;
  nm_now now = nm_clock_now();
  (void)fields;
  int status = nm_blackhole_unpack(r, node->mem, &record);
  if (status != NM_OK) {
    return status;
  }
  if (record.until_unix_us == 0 || record.until_unix_us > now.unix_us) {
    (void)nm_engine_blackhole_put(node->engine, &record, now);
  }
  nm_blackhole_record_dispose(&record);
  return NM_OK;
}

static void remove_blackhole(nm_node *node, nm_span key) {
  nm_identity_hash hash;
  memcpy(hash.b, key.ptr, NM_ADDRESS_SIZE);
  (void)nm_engine_unblackhole(node->engine, &hash);
}

static int load_tunnel(nm_node *node, nm_reader *r, uint32_t fields) {
  nm_tunnel_record record;
  nm_now now = nm_clock_now();
  (void)fields;
  int status = nm_tunnel_unpack(r, &record);
  if (status == NM_OK && record.expires_unix_us > now.unix_us) {
    record.expires_mono_us = nm_mono_of(now, record.expires_unix_us);
    (void)nm_engine_tunnel_put(node->engine, &record, now);
  }
  return status;
}

static void remove_tunnel(nm_node *node, nm_span key) {
  (void)nm_engine_tunnel_drop(node->engine, key.ptr);
}

/* Those of tunnels that have expired go with them. */
static int load_tunnel_path(nm_node *node, nm_reader *r, uint32_t fields) {
  nm_tunnel_path_record record;
  nm_now now = nm_clock_now();
  (void)fields;
  int status = nm_tunnel_path_unpack(r, node->mem, &record);
  if (status != NM_OK) {
    return status;
  }
  record.updated_mono_us = nm_mono_of(now, record.updated_unix_us);
  record.expires_mono_us = nm_mono_of(now, record.expires_unix_us);
  if (record.expires_unix_us > now.unix_us) {
    (void)nm_engine_tunnel_path_put(node->engine, &record);
  }
  nm_tunnel_path_record_dispose(&record);
  return NM_OK;
}

static void remove_tunnel_path(nm_node *node, nm_span key) {
  nm_destination_hash hash =
      destination_in(nm_span_slice(key, NM_HASH_SIZE, NM_ADDRESS_SIZE));
  (void)nm_engine_tunnel_path_drop(node->engine, key.ptr, &hash);
}

static int load_hash(nm_node *node, nm_reader *r, uint32_t fields) {
  nm_packet_hash hash;
  (void)fields;
  (void)nm_reader_copy(r, hash.b, sizeof(hash.b));
  if (r->status == NM_OK) {
    nm_engine_filter_put(node->engine, &hash);
  }
  return r->status;
}

static const shape shapes[NM_KEPT_TABLES] = {
    [NM_KEPT_BLACKHOLES] = {NM_ADDRESS_SIZE, load_blackhole, remove_blackhole},
    [NM_KEPT_KNOWN] = {NM_ADDRESS_SIZE, load_known, remove_known},
    [NM_KEPT_PATHS] = {NM_ADDRESS_SIZE, load_path, remove_path},
    [NM_KEPT_TUNNELS] = {NM_HASH_SIZE, load_tunnel, remove_tunnel},
    [NM_KEPT_TUNNEL_PATHS] = {NM_KEPT_KEY_MAX, load_tunnel_path,
                              remove_tunnel_path},
    [NM_KEPT_FILTER] = {0, load_hash, NULL},
};

typedef struct loader {
  nm_node *node;
  const shape *shape;
} loader;

static int load_next(nm_node *node, const shape *s, nm_reader *r) {
  nm_store_next next = {0};
  if (s->key_size == 0) {
    return s->load(node, r, 0);
  }
  int status = nm_store_peek(r, s->key_size, &next);
  if (status == NM_OK && next.fields == 0) {
    s->remove(node, next.key);
    return NM_OK;
  }
  return status == NM_OK ? s->load(node, r, next.fields) : status;
}

static int load_body(void *user, nm_span body, uint32_t count) {
  const loader *l = user;
  nm_reader r = nm_reader_of(body);
  int status = NM_OK;
  for (uint32_t i = 0; i < count && status == NM_OK; i++) {
    status = load_next(l->node, l->shape, &r);
  }
  return status;
}

static bool is_damage(int status) {
  return status != NM_OK && status != NM_E(MISSING) && status != NM_E(MEMORY);
}

static void load_table(nm_node *node, nm_kept_table table) {
  loader l = {node, &shapes[table]};
  int status = nm_store_read_table(node->store, table, load_body, &l);
  if (is_damage(status)) {
    nm_store_set_aside(node->store, nm_store_table_name(table));
    node->aside[table] = status;
  }
  if (status == NM_OK) {
    status = nm_store_read_changes(node->store, table, load_body, &l);
    if (is_damage(status)) {
      nm_store_set_aside(node->store, nm_store_changes_name(table));
      node->aside_changes[table] = status;
      node->save.tables[table].failed = true; /* it is written whole anew */
    }
  }
  node->save.tables[table].size = nm_store_size_of(node->store, table);
}

void nm_save_load(nm_node *node) {
  nm_engine_kept_loading(node->engine, true);
  for (int table = 0; table < NM_KEPT_TABLES; table++) {
    if (node->save.carries || table <= NM_KEPT_PATHS) {
      load_table(node, (nm_kept_table)table);
    }
  }
  nm_engine_kept_loading(node->engine, false);
  nm_engine_keep(node->engine);
}
