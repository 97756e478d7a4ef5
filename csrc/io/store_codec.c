/* The tables as bytes: heads and records.
 */
#include "base/msgpack.h"
#include "io/store_inner.h"

#include <string.h>

#define MAGIC_SIZE 4
#define VERSION 2
#define FIRST_VERSION 1

#define CHANGES "changes/"
/* A packed record without its variable parts. */
#define RECORD_ROOM 320

static const struct {
  const char *magic;
  const char *changes;
} tables[NM_KEPT_TABLES] = {
    [NM_KEPT_BLACKHOLES] = {"NMBH", CHANGES "blackholes"},
    [NM_KEPT_KNOWN] = {"NMKD", CHANGES "known_destinations"},
    [NM_KEPT_PATHS] = {"NMPT", CHANGES "paths"},
    [NM_KEPT_TUNNELS] = {"NMTN", CHANGES "tunnels"},
    [NM_KEPT_TUNNEL_PATHS] = {"NMTP", CHANGES "tunnel_paths"},
    [NM_KEPT_FILTER] = {"NMPH", CHANGES "packet_hashes"},
};

const char *nm_store_table_name(nm_kept_table table) {
  return &tables[table].changes[sizeof(CHANGES) - 1];
}

const char *nm_store_changes_name(nm_kept_table table) {
  return tables[table].changes;
}

/* ---- sealing ---- */

static void write_fields(nm_writer *w, nm_kept_table table, uint32_t count,
                         uint64_t len) {
  nm_writer_put(w, tables[table].magic, MAGIC_SIZE);
  nm_writer_u8(w, VERSION);
  nm_writer_u32(w, count);
  nm_writer_u64(w, len);
}

void nm_store_seal_sum(nm_kept_table table, uint32_t count, uint64_t len,
                       nm_sha256_ctx *sum, uint8_t head[NM_STORE_HEAD_SIZE]) {
  nm_writer w = nm_writer_of(head, NM_STORE_HEAD_SIZE);
  write_fields(&w, table, count, len);
  nm_sha256_update(sum, nm_writer_done(&w));
  nm_sha256_final(sum, &head[NM_STORE_SEALED_SIZE]);
}

void nm_store_seal(nm_kept_table table, uint32_t count, nm_span body,
                   uint8_t head[NM_STORE_HEAD_SIZE]) {
  nm_sha256_ctx sum;
  nm_sha256_init(&sum);
  nm_sha256_update(&sum, body);
  nm_store_seal_sum(table, count, body.len, &sum, head);
}

int nm_store_unseal(nm_kept_table table, nm_span file, uint32_t *count,
                    nm_span *body) {
  nm_reader r = nm_reader_of(file);
  uint8_t stored[NM_HASH_SIZE];
  uint8_t digest[NM_HASH_SIZE];
  nm_span magic = nm_reader_take(&r, MAGIC_SIZE);
  uint8_t version = nm_reader_u8(&r);
  *count = nm_reader_u32(&r);
  uint64_t len = nm_reader_u64(&r);
  (void)nm_reader_copy(&r, stored, sizeof(stored));
  if (r.status != NM_OK) {
    return r.status;
  }
  if (!nm_span_equal(magic, nm_span_of(tables[table].magic, MAGIC_SIZE))) {
    return NM_E(VALUE);
  }
  if (version != VERSION && version != FIRST_VERSION) {
    return NM_E(MODE);
  }
  *body = nm_reader_rest(&r);
  if (body->len != len) {
    return NM_E(TRUNCATED);
  }
  nm_span fields = nm_span_slice(file, 0, NM_STORE_SEALED_SIZE);
  nm_span first[2] = {fields, *body};
  nm_span parts[2] = {*body, fields};
  nm_sha256v(digest, version == FIRST_VERSION ? first : parts, 2);
  return nm_equal_ct(stored, digest, sizeof(digest)) ? NM_OK : NM_E(AUTH);
}

/* ---- writing ---- */

/* A writer behind what |out| holds, with room for a record whose variable parts
 * have |variable| bytes; its array has begun. */
static nm_writer begin(nm_buffer *out, uint32_t fields, size_t variable) {
  int status = nm_buffer_reserve(out, RECORD_ROOM + variable);
  nm_writer w = nm_writer_of(out->ptr, out->cap);
  w.pos = out->len;
  w.status = status;
  nm_mp_array(&w, fields);
  return w;
}

static int end(nm_buffer *out, const nm_writer *w) {
  if (w->status == NM_OK) {
    out->len = w->pos;
  }
  return w->status;
}

static void put_bin(nm_writer *w, const void *bytes, size_t len) {
  nm_mp_bin(w, nm_span_of(bytes, len));
}

static void put_block(nm_writer *w, bool has, const nm_block *block) {
  if (has) {
    nm_mp_bin(w, nm_block_span(block));
  } else {
    nm_mp_nil(w);
  }
}

static size_t size_of(const nm_block *block) {
  return nm_block_span(block).len;
}

int nm_removed_pack(nm_buffer *out, nm_span key) {
  int status = nm_buffer_reserve(out, RECORD_ROOM);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = nm_writer_of(out->ptr, out->cap);
  w.pos = out->len;
  nm_mp_bin(&w, key);
  return end(out, &w);
}

int nm_known_pack(nm_buffer *out, const nm_known_record *record) {
  nm_writer w = begin(out, 8, size_of(record->app_data));
  put_bin(&w, record->destination.b, NM_ADDRESS_SIZE);
  put_bin(&w, record->public_key, NM_PUBLIC_SIZE);
  put_bin(&w, record->announce_hash.b, NM_HASH_SIZE);
  nm_mp_int(&w, record->heard_unix_us);
  nm_mp_int(&w, record->used_unix_us);
  put_block(&w, record->has_app_data, record->app_data);
  if (record->has_ratchet) {
    put_bin(&w, record->ratchet, NM_KEY_SIZE);
  } else {
    nm_mp_nil(&w);
  }
  nm_mp_int(&w, record->ratchet_unix_us);
  return end(out, &w);
}

/* What the path itself and a tunnel's have in common at their beginning. */
static void put_way(nm_writer *w, const nm_destination_hash *destination,
                    const uint8_t next_hop[NM_ADDRESS_SIZE], uint8_t hops) {
  put_bin(w, destination->b, NM_ADDRESS_SIZE);
  put_bin(w, next_hop, NM_ADDRESS_SIZE);
  nm_mp_uint(w, hops);
}

/* And at their end. */
static void put_announce(nm_writer *w, const nm_packet_hash *hash,
                         const nm_block *announce, const nm_block *blobs) {
  put_bin(w, hash->b, NM_HASH_SIZE);
  put_block(w, announce != NULL, announce);
  put_block(w, true, blobs);
}

int nm_path_pack(nm_buffer *out, const nm_path_record *record,
                 const uint8_t iface_hash[NM_HASH_SIZE]) {
  nm_writer w =
      begin(out, 10, size_of(record->announce) + size_of(record->blobs));
  put_way(&w, &record->destination, record->next_hop, record->hops);
  put_bin(&w, iface_hash, NM_HASH_SIZE);
  nm_mp_int(&w, record->updated_unix_us);
  nm_mp_int(&w, record->expires_unix_us);
  nm_mp_uint(&w, record->state);
  put_announce(&w, &record->announce_hash, record->announce, record->blobs);
  return end(out, &w);
}

int nm_alternative_pack(nm_buffer *out, const nm_alternative_record *record,
                        const uint8_t iface_hash[NM_HASH_SIZE]) {
  nm_writer w = begin(out, NM_ALTERNATIVE_FIELDS, 0);
  put_way(&w, &record->destination, record->next_hop, record->hops);
  put_bin(&w, iface_hash, NM_HASH_SIZE);
  nm_mp_uint(&w, record->emitted);
  nm_mp_int(&w, record->heard_unix_us);
  nm_mp_int(&w, record->failed_unix_us);
  return end(out, &w);
}

int nm_blackhole_pack(nm_buffer *out, const nm_blackhole_record *record) {
  nm_writer w = begin(out, 4, size_of(record->reason));
  put_bin(&w, record->identity.b, NM_ADDRESS_SIZE);
  put_bin(&w, record->source.b, NM_ADDRESS_SIZE);
  nm_mp_int(&w, record->until_unix_us);
  put_block(&w, record->reason != NULL, record->reason);
  return end(out, &w);
}

int nm_tunnel_pack(nm_buffer *out, const nm_tunnel_record *record) {
  nm_writer w = begin(out, 2, 0);
  put_bin(&w, record->id, NM_HASH_SIZE);
  nm_mp_int(&w, record->expires_unix_us);
  return end(out, &w);
}

int nm_tunnel_path_pack(nm_buffer *out, const nm_tunnel_path_record *record) {
  nm_writer w =
      begin(out, 9, size_of(record->announce) + size_of(record->blobs));
  put_bin(&w, record->tunnel, NM_HASH_SIZE);
  put_way(&w, &record->destination, record->next_hop, record->hops);
  nm_mp_int(&w, record->updated_unix_us);
  nm_mp_int(&w, record->expires_unix_us);
  put_announce(&w, &record->announce_hash, record->announce, record->blobs);
  return end(out, &w);
}

/* ---- reading ---- */

static int fail(nm_reader *r, int status) {
  if (r->status == NM_OK) {
    r->status = status;
  }
  return r->status;
}

static void get_array(nm_reader *r, uint32_t count) {
  nm_mp_item item;
  if (nm_mp_read(r, &item) == NM_OK &&
      (item.type != NM_MP_ARRAY || item.count != count)) {
    (void)fail(r, NM_E(TYPE));
  }
}

static void get_bin(nm_reader *r, void *to, size_t len) {
  nm_mp_item item;
  if (nm_mp_read(r, &item) != NM_OK) {
    return;
  }
  if (item.type != NM_MP_BIN || item.data.len != len) {
    (void)fail(r, NM_E(TYPE));
    return;
  }
  memcpy(to, item.data.ptr, len);
}

static int64_t get_int(nm_reader *r) {
  nm_mp_item item;
  if (nm_mp_read(r, &item) != NM_OK) {
    return 0;
  }
  if (item.type == NM_MP_UINT && item.uint <= INT64_MAX) {
    return (int64_t)item.uint;
  }
  if (item.type == NM_MP_INT) {
    return item.sint;
  }
  (void)fail(r, NM_E(TYPE));
  return 0;
}

/* A bin copied into a block, or nil, which is none. */
static nm_block *get_block(nm_reader *r, const nm_mem *mem, bool *has) {
  nm_mp_item item;
  *has = false;
  if (nm_mp_read(r, &item) != NM_OK || item.type == NM_MP_NIL) {
    return NULL;
  }
  if (item.type != NM_MP_BIN) {
    (void)fail(r, NM_E(TYPE));
    return NULL;
  }
  nm_block *block = nm_block_copy(mem, item.data);
  if (block == NULL) {
    (void)fail(r, NM_E(MEMORY));
  }
  *has = block != NULL;
  return block;
}

int nm_store_peek(nm_reader *r, size_t key_size, nm_store_next *next) {
  nm_mp_item item;
  nm_reader ahead = *r;
  memset(next, 0, sizeof(*next));
  if (nm_mp_read(&ahead, &item) != NM_OK) {
    return fail(r, ahead.status);
  }
  if (item.type == NM_MP_ARRAY && item.count > 0) {
    next->fields = item.count;
    return NM_OK;
  }
  if (item.type != NM_MP_BIN || item.data.len != key_size) {
    return fail(r, NM_E(TYPE));
  }
  next->key = item.data;
  *r = ahead;
  return NM_OK;
}

int nm_known_unpack(nm_reader *r, const nm_mem *mem, nm_known_record *record) {
  nm_mp_item item;
  memset(record, 0, sizeof(*record));
  get_array(r, 8);
  get_bin(r, record->destination.b, NM_ADDRESS_SIZE);
  get_bin(r, record->public_key, NM_PUBLIC_SIZE);
  get_bin(r, record->announce_hash.b, NM_HASH_SIZE);
  record->heard_unix_us = get_int(r);
  record->used_unix_us = get_int(r);
  record->app_data = get_block(r, mem, &record->has_app_data);
  if (nm_mp_read(r, &item) == NM_OK && item.type != NM_MP_NIL) {
    if (item.type == NM_MP_BIN && item.data.len == NM_KEY_SIZE) {
      memcpy(record->ratchet, item.data.ptr, NM_KEY_SIZE);
      record->has_ratchet = true;
    } else {
      (void)fail(r, NM_E(TYPE));
    }
  }
  record->ratchet_unix_us = get_int(r);
  if (r->status != NM_OK) {
    nm_known_record_dispose(record);
  }
  return r->status;
}

/* An unsigned number of at most |most|. */
static uint8_t get_byte(nm_reader *r, uint8_t most) {
  int64_t value = get_int(r);
  if (value < 0 || value > most) {
    (void)fail(r, NM_E(RANGE));
    return 0;
  }
  return (uint8_t)value;
}

static void get_way(nm_reader *r, nm_destination_hash *destination,
                    uint8_t next_hop[NM_ADDRESS_SIZE], uint8_t *hops) {
  get_bin(r, destination->b, NM_ADDRESS_SIZE);
  get_bin(r, next_hop, NM_ADDRESS_SIZE);
  *hops = get_byte(r, NM_HOPS_MAX);
}

static void get_announce(nm_reader *r, const nm_mem *mem, nm_packet_hash *hash,
                         nm_block **announce, nm_block **blobs) {
  bool has;
  get_bin(r, hash->b, NM_HASH_SIZE);
  *announce = get_block(r, mem, &has);
  *blobs = get_block(r, mem, &has);
}

int nm_path_unpack(nm_reader *r, const nm_mem *mem, nm_path_record *record,
                   uint8_t iface_hash[NM_HASH_SIZE]) {
  memset(record, 0, sizeof(*record));
  get_array(r, 10);
  get_way(r, &record->destination, record->next_hop, &record->hops);
  get_bin(r, iface_hash, NM_HASH_SIZE);
  record->updated_unix_us = get_int(r);
  record->expires_unix_us = get_int(r);
  record->state = get_byte(r, UINT8_MAX);
  get_announce(r, mem, &record->announce_hash, &record->announce,
               &record->blobs);
  if (r->status != NM_OK) {
    nm_path_record_dispose(record);
  }
  return r->status;
}

int nm_alternative_unpack(nm_reader *r, nm_alternative_record *record,
                          uint8_t iface_hash[NM_HASH_SIZE]) {
  memset(record, 0, sizeof(*record));
  get_array(r, NM_ALTERNATIVE_FIELDS);
  get_way(r, &record->destination, record->next_hop, &record->hops);
  get_bin(r, iface_hash, NM_HASH_SIZE);
  int64_t emitted = get_int(r);
  if (emitted < 0) {
    (void)fail(r, NM_E(RANGE));
  }
  record->emitted = (uint64_t)emitted;
  record->heard_unix_us = get_int(r);
  record->failed_unix_us = get_int(r);
  return r->status;
}

int nm_blackhole_unpack(nm_reader *r, const nm_mem *mem,
                        nm_blackhole_record *record) {
  bool has;
  memset(record, 0, sizeof(*record));
  get_array(r, 4);
  get_bin(r, record->identity.b, NM_ADDRESS_SIZE);
  get_bin(r, record->source.b, NM_ADDRESS_SIZE);
  record->until_unix_us = get_int(r);
  record->reason = get_block(r, mem, &has);
  if (r->status != NM_OK) {
    nm_blackhole_record_dispose(record);
  }
  return r->status;
}

int nm_tunnel_unpack(nm_reader *r, nm_tunnel_record *record) {
  memset(record, 0, sizeof(*record));
  get_array(r, 2);
  get_bin(r, record->id, NM_HASH_SIZE);
  record->expires_unix_us = get_int(r);
  return r->status;
}

void nm_tunnel_path_record_dispose(nm_tunnel_path_record *record) {
  nm_block_drop(record->announce);
  nm_block_drop(record->blobs);
  record->announce = NULL;
  record->blobs = NULL;
}

int nm_tunnel_path_unpack(nm_reader *r, const nm_mem *mem,
                          nm_tunnel_path_record *record) {
  memset(record, 0, sizeof(*record));
  get_array(r, 9);
  get_bin(r, record->tunnel, NM_HASH_SIZE);
  get_way(r, &record->destination, record->next_hop, &record->hops);
  record->updated_unix_us = get_int(r);
  record->expires_unix_us = get_int(r);
  get_announce(r, mem, &record->announce_hash, &record->announce,
               &record->blobs);
  if (r->status != NM_OK) {
    nm_tunnel_path_record_dispose(record);
  }
  return r->status;
}
