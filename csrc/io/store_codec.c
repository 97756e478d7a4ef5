/* The tables as files.
 */
#include "base/msgpack.h"
#include "crypto/hash.h"
#include "io/store.h"

#include <string.h>

#define MAGIC_SIZE 4
#define VERSION 1
/* What the checksum covers of the head: all but itself. */
#define SEALED_SIZE (NM_STORE_HEAD_SIZE - NM_HASH_SIZE)
/* A packed record without its variable parts. */
#define RECORD_ROOM 320

static const struct {
  const char *magic;
  const char *name;
} tables[NM_STORE_TABLES] = {
    [NM_STORE_BLACKHOLES] = {"NMBH", "blackholes"},
    [NM_STORE_KNOWN] = {"NMKD", "known_destinations"},
    [NM_STORE_PATHS] = {"NMPT", "paths"},
    [NM_STORE_TUNNELS] = {"NMTN", "tunnels"},
    [NM_STORE_TUNNEL_PATHS] = {"NMTP", "tunnel_paths"},
    [NM_STORE_FILTER] = {"NMPH", "packet_hashes"},
};

const char *nm_store_table_name(nm_store_table table) {
  return tables[table].name;
}

void nm_store_seal(nm_store_table table, uint32_t count, nm_span body,
                   uint8_t head[NM_STORE_HEAD_SIZE]) {
  nm_writer w = nm_writer_of(head, NM_STORE_HEAD_SIZE);
  uint8_t digest[NM_HASH_SIZE];
  nm_writer_put(&w, tables[table].magic, MAGIC_SIZE);
  nm_writer_u8(&w, VERSION);
  nm_writer_u32(&w, count);
  nm_writer_u64(&w, body.len);
  nm_span parts[2] = {nm_writer_done(&w), body};
  nm_sha256v(digest, parts, 2);
  nm_writer_put(&w, digest, sizeof(digest));
}

int nm_store_unseal(nm_store_table table, nm_span file, uint32_t *count,
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
  if (version != VERSION) {
    return NM_E(MODE);
  }
  *body = nm_reader_rest(&r);
  if (body->len != len) {
    return NM_E(TRUNCATED);
  }
  nm_span parts[2] = {nm_span_slice(file, 0, SEALED_SIZE), *body};
  nm_sha256v(digest, parts, 2);
  return nm_equal_ct(stored, digest, sizeof(digest)) ? NM_OK : NM_E(AUTH);
}

/* ---- writing ---- */

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

/* A writer over the room behind what |out| holds. */
static nm_writer writer_of(const nm_buffer *out) {
  nm_writer w = nm_writer_of(out->ptr, out->cap);
  w.pos = out->len;
  return w;
}

int nm_known_pack(nm_buffer *out, const nm_known_record *record) {
  int status =
      nm_buffer_reserve(out, RECORD_ROOM + nm_block_span(record->app_data).len);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = writer_of(out);
  nm_mp_array(&w, 8);
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
  out->len = w.pos;
  return w.status;
}

int nm_path_pack(nm_buffer *out, const nm_path_record *record,
                 const uint8_t iface_hash[NM_HASH_SIZE]) {
  int status =
      nm_buffer_reserve(out, RECORD_ROOM + nm_block_span(record->announce).len +
                                 nm_block_span(record->blobs).len);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = writer_of(out);
  nm_mp_array(&w, 10);
  put_bin(&w, record->destination.b, NM_ADDRESS_SIZE);
  put_bin(&w, record->next_hop, NM_ADDRESS_SIZE);
  nm_mp_uint(&w, record->hops);
  put_bin(&w, iface_hash, NM_HASH_SIZE);
  nm_mp_int(&w, record->updated_unix_us);
  nm_mp_int(&w, record->expires_unix_us);
  nm_mp_uint(&w, record->state);
  put_bin(&w, record->announce_hash.b, NM_HASH_SIZE);
  put_block(&w, record->announce != NULL, record->announce);
  put_block(&w, true, record->blobs);
  out->len = w.pos;
  return w.status;
}

int nm_blackhole_pack(nm_buffer *out, const nm_blackhole_record *record) {
  int status =
      nm_buffer_reserve(out, RECORD_ROOM + nm_block_span(record->reason).len);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = writer_of(out);
  nm_mp_array(&w, 4);
  put_bin(&w, record->identity.b, NM_ADDRESS_SIZE);
  put_bin(&w, record->source.b, NM_ADDRESS_SIZE);
  nm_mp_int(&w, record->until_unix_us);
  put_block(&w, record->reason != NULL, record->reason);
  out->len = w.pos;
  return w.status;
}

int nm_tunnel_pack(nm_buffer *out, const nm_tunnel_record *record) {
  int status = nm_buffer_reserve(out, RECORD_ROOM);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = writer_of(out);
  nm_mp_array(&w, 2);
  put_bin(&w, record->id, NM_HASH_SIZE);
  nm_mp_int(&w, record->expires_unix_us);
  out->len = w.pos;
  return w.status;
}

int nm_tunnel_path_pack(nm_buffer *out, const nm_tunnel_path_record *record) {
  int status =
      nm_buffer_reserve(out, RECORD_ROOM + nm_block_span(record->announce).len +
                                 nm_block_span(record->blobs).len);
  if (status != NM_OK) {
    return status;
  }
  nm_writer w = writer_of(out);
  nm_mp_array(&w, 9);
  put_bin(&w, record->tunnel, NM_HASH_SIZE);
  put_bin(&w, record->destination.b, NM_ADDRESS_SIZE);
  put_bin(&w, record->next_hop, NM_ADDRESS_SIZE);
  nm_mp_uint(&w, record->hops);
  nm_mp_int(&w, record->updated_unix_us);
  nm_mp_int(&w, record->expires_unix_us);
  put_bin(&w, record->announce_hash.b, NM_HASH_SIZE);
  put_block(&w, record->announce != NULL, record->announce);
  put_block(&w, true, record->blobs);
  out->len = w.pos;
  return w.status;
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

int nm_path_unpack(nm_reader *r, const nm_mem *mem, nm_path_record *record,
                   uint8_t iface_hash[NM_HASH_SIZE]) {
  bool has;
  memset(record, 0, sizeof(*record));
  get_array(r, 10);
  get_bin(r, record->destination.b, NM_ADDRESS_SIZE);
  get_bin(r, record->next_hop, NM_ADDRESS_SIZE);
  int64_t hops = get_int(r);
  get_bin(r, iface_hash, NM_HASH_SIZE);
  record->updated_unix_us = get_int(r);
  record->expires_unix_us = get_int(r);
  int64_t state = get_int(r);
  get_bin(r, record->announce_hash.b, NM_HASH_SIZE);
  record->announce = get_block(r, mem, &has);
  record->blobs = get_block(r, mem, &has);
  if (hops < 0 || hops > NM_HOPS_MAX || state < 0 || state > UINT8_MAX) {
    (void)fail(r, NM_E(RANGE));
  }
  record->hops = (uint8_t)hops;
  record->state = (uint8_t)state;
  if (r->status != NM_OK) {
    nm_path_record_dispose(record);
  }
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
  bool has;
  memset(record, 0, sizeof(*record));
  get_array(r, 9);
  get_bin(r, record->tunnel, NM_HASH_SIZE);
  get_bin(r, record->destination.b, NM_ADDRESS_SIZE);
  get_bin(r, record->next_hop, NM_ADDRESS_SIZE);
  int64_t hops = get_int(r);
  record->updated_unix_us = get_int(r);
  record->expires_unix_us = get_int(r);
  get_bin(r, record->announce_hash.b, NM_HASH_SIZE);
  record->announce = get_block(r, mem, &has);
  record->blobs = get_block(r, mem, &has);
  if (hops < 0 || hops > NM_HOPS_MAX) {
    (void)fail(r, NM_E(RANGE));
  }
  record->hops = (uint8_t)hops;
  if (r->status != NM_OK) {
    nm_tunnel_path_record_dispose(record);
  }
  return r->status;
}
