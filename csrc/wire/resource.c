/* Payloads of a resource transfer. */
#include "wire/resource.h"

#include "base/msgpack.h"
#include "crypto/hash.h"

/* --- Advertisement --- */

/* The keys in the order of the wire. */
enum {
  KEY_T,
  KEY_D,
  KEY_N,
  KEY_H,
  KEY_R,
  KEY_O,
  KEY_I,
  KEY_L,
  KEY_Q,
  KEY_F,
  KEY_M,
  KEY_COUNT
};

static const char adv_keys[KEY_COUNT] = {'t', 'd', 'n', 'h', 'r', 'o',
                                         'i', 'l', 'q', 'f', 'm'};

static const char *const adv_fields[KEY_COUNT] = {
    "advertisement.t", "advertisement.d", "advertisement.n", "advertisement.h",
    "advertisement.r", "advertisement.o", "advertisement.i", "advertisement.l",
    "advertisement.q", "advertisement.f", "advertisement.m"};

/* Which key an item is; KEY_COUNT for none of them. */
static int adv_key_of(const nm_mp_item *item) {
  int key = 0;
  if (item->type != NM_MP_STR || item->data.len != 1) {
    return KEY_COUNT;
  }
  while (key < KEY_COUNT && item->data.ptr[0] != (uint8_t)adv_keys[key]) {
    key++;
  }
  return key;
}

static uint64_t *adv_number(nm_resource_adv *adv, int key) {
  switch (key) {
  case KEY_T:
    return &adv->transfer_size;
  case KEY_D:
    return &adv->data_size;
  case KEY_N:
    return &adv->parts;
  case KEY_I:
    return &adv->segment;
  case KEY_L:
    return &adv->segments;
  case KEY_F:
    return &adv->flags;
  default:
    return NULL;
  }
}

static nm_span *adv_bytes(nm_resource_adv *adv, int key) {
  switch (key) {
  case KEY_H:
    return &adv->hash;
  case KEY_R:
    return &adv->random;
  case KEY_O:
    return &adv->original;
  case KEY_Q:
    return &adv->request_id;
  default:
    return &adv->hashmap;
  }
}

/* Stores the value of |key|. */
static int adv_take(nm_reader *r, int key, nm_resource_adv *adv) {
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  if (status != NM_OK) {
    return status;
  }
  uint64_t *number = adv_number(adv, key);
  if (number != NULL) {
    if (item.type == NM_MP_INT) {
      return NM_E(RANGE);
    }
    *number = item.uint;
    return item.type == NM_MP_UINT ? NM_OK : NM_E(TYPE);
  }
  if (item.type == NM_MP_BIN) {
    *adv_bytes(adv, key) = item.data;
    return NM_OK;
  }
  return key == KEY_Q && item.type == NM_MP_NIL ? NM_OK : NM_E(TYPE);
}

int nm_resource_adv_parse(nm_span in, nm_resource_adv *adv, nm_fault *fault) {
  memset(adv, 0, sizeof *adv);
  /* One pass over the whole value finds what is wrong with the MessagePack as
   * such, repeated keys among it; then it can be read without looking back. */
  nm_reader r = nm_reader_of(in);
  int status = nm_mp_skip(&r, NULL);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "advertisement", r.pos);
  }
  r = nm_reader_of(in);
  nm_mp_item item;
  status = nm_mp_read(&r, &item);
  if (status != NM_OK || item.type != NM_MP_MAP) {
    return nm_fault_set(fault, NM_E(TYPE), "advertisement", 0);
  }
  unsigned seen = 0;
  for (uint32_t left = item.count; left > 0; left--) {
    nm_reader value = r;
    status = nm_mp_skip(&r, NULL); /* the key */
    nm_mp_item name;
    int key = KEY_COUNT;
    if (status == NM_OK && nm_mp_read(&value, &name) == NM_OK) {
      key = adv_key_of(&name);
    }
    size_t at = r.pos;
    if (status == NM_OK) {
      status = key < KEY_COUNT ? adv_take(&r, key, adv) : nm_mp_skip(&r, NULL);
    }
    if (status != NM_OK) {
      const char *field = key < KEY_COUNT ? adv_fields[key] : "advertisement";
      return nm_fault_set(fault, status, field, at);
    }
    seen |= 1u << key;
  }
  for (int key = 0; key < KEY_COUNT; key++) {
    if ((seen & (1u << key)) == 0) {
      return nm_fault_set(fault, NM_E(MISSING), adv_fields[key], r.pos);
    }
  }
  return NM_OK;
}

int nm_resource_adv_check(const nm_resource_adv *adv, nm_fault *fault) {
  int key = KEY_COUNT;
  int status = NM_OK;
  if (adv->transfer_size == 0 ||
      adv->transfer_size > NM_RESOURCE_TRANSFER_MAX) {
    key = KEY_T;
    status = NM_E(RANGE);
  } else if (adv->hash.len != NM_HASH_SIZE) {
    key = KEY_H;
    status = NM_E(LENGTH);
  } else if (adv->random.len != NM_RESOURCE_RANDOM_SIZE) {
    key = KEY_R;
    status = NM_E(LENGTH);
  } else if (adv->original.len != NM_HASH_SIZE) {
    key = KEY_O;
    status = NM_E(LENGTH);
  } else if (adv->segment == 0 || adv->segment > adv->segments) {
    key = KEY_I;
    status = NM_E(RANGE);
  } else if (adv->request_id.ptr != NULL &&
             adv->request_id.len != NM_RESOURCE_REQUEST_ID_SIZE) {
    key = KEY_Q;
    status = NM_E(LENGTH);
  } else if ((adv->flags & NM_RESOURCE_ENCRYPTED) == 0 ||
             ((adv->flags & NM_RESOURCE_IS_REQUEST) != 0 &&
              (adv->flags & NM_RESOURCE_IS_RESPONSE) != 0)) {
    key = KEY_F;
    status = NM_E(VALUE);
  } else if (adv->hashmap.len == 0 ||
             adv->hashmap.len % NM_RESOURCE_MAP_HASH_SIZE != 0 ||
             adv->hashmap.len / NM_RESOURCE_MAP_HASH_SIZE > adv->parts) {
    key = KEY_M;
    status = NM_E(LENGTH);
  }
  return status == NM_OK ? NM_OK
                         : nm_fault_set(fault, status, adv_fields[key], 0);
}

int nm_resource_adv_decode(nm_span in, nm_resource_adv *adv, nm_fault *fault) {
  int status = nm_resource_adv_parse(in, adv, fault);
  return status == NM_OK ? nm_resource_adv_check(adv, fault) : status;
}

size_t nm_resource_adv_size(const nm_resource_adv *adv) {
  size_t request_id =
      adv->request_id.ptr != NULL ? nm_mp_bin_size(adv->request_id.len) : 1;
  return 1 + 2 * KEY_COUNT + nm_mp_uint_size(adv->transfer_size) +
         nm_mp_uint_size(adv->data_size) + nm_mp_uint_size(adv->parts) +
         nm_mp_bin_size(adv->hash.len) + nm_mp_bin_size(adv->random.len) +
         nm_mp_bin_size(adv->original.len) + nm_mp_uint_size(adv->segment) +
         nm_mp_uint_size(adv->segments) + request_id +
         nm_mp_uint_size(adv->flags) + nm_mp_bin_size(adv->hashmap.len);
}

int nm_resource_adv_encode(const nm_resource_adv *adv, nm_writer *w) {
  nm_resource_adv copy = *adv;
  nm_mp_map(w, KEY_COUNT);
  for (int key = 0; key < KEY_COUNT; key++) {
    nm_mp_str(w, nm_span_of(&adv_keys[key], 1));
    const uint64_t *number = adv_number(&copy, key);
    if (number != NULL) {
      nm_mp_uint(w, *number);
      continue;
    }
    nm_span bytes = *adv_bytes(&copy, key);
    if (key == KEY_Q && bytes.ptr == NULL) {
      nm_mp_nil(w);
    } else {
      nm_mp_bin(w, bytes);
    }
  }
  return w->status;
}

/* --- Part request --- */

#define REQUEST_MORE 0x00
#define REQUEST_EXHAUSTED 0xFF

int nm_resource_request_decode(nm_span in, nm_resource_request *req,
                               nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  uint8_t flag = nm_reader_u8(&r);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "request.flag", 0);
  }
  if (flag != REQUEST_MORE && flag != REQUEST_EXHAUSTED) {
    return nm_fault_set(fault, NM_E(VALUE), "request.flag", 0);
  }
  req->exhausted = flag == REQUEST_EXHAUSTED;
  req->last_known = nm_span_of(NULL, 0);
  if (req->exhausted) {
    req->last_known = nm_reader_take(&r, NM_RESOURCE_MAP_HASH_SIZE);
    if (r.status != NM_OK) {
      return nm_fault_set(fault, r.status, "request.last_known", r.pos);
    }
  }
  req->hash = nm_reader_take(&r, NM_HASH_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "request.hash", r.pos);
  }
  size_t at = r.pos;
  req->wanted = nm_reader_rest(&r);
  if (req->wanted.len % NM_RESOURCE_MAP_HASH_SIZE != 0) {
    return nm_fault_set(fault, NM_E(LENGTH), "request.wanted", at);
  }
  return NM_OK;
}

size_t nm_resource_request_size(const nm_resource_request *req) {
  return 1 + (req->exhausted ? req->last_known.len : 0) + req->hash.len +
         req->wanted.len;
}

int nm_resource_request_encode(const nm_resource_request *req, nm_writer *w) {
  nm_writer_u8(w, req->exhausted ? REQUEST_EXHAUSTED : REQUEST_MORE);
  if (req->exhausted) {
    nm_writer_span(w, req->last_known);
  }
  nm_writer_span(w, req->hash);
  nm_writer_span(w, req->wanted);
  return w->status;
}

/* --- Hashmap update --- */

int nm_resource_hmu_decode(nm_span in, nm_resource_hmu *hmu, nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  hmu->hash = nm_reader_take(&r, NM_HASH_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "hashmap_update.hash", 0);
  }
  nm_reader whole = r;
  int status = nm_mp_skip(&whole, NULL);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "hashmap_update", whole.pos);
  }
  nm_mp_item item;
  status = nm_mp_read(&r, &item);
  if (status != NM_OK || item.type != NM_MP_ARRAY || item.count < 2) {
    return nm_fault_set(fault, NM_E(TYPE), "hashmap_update", NM_HASH_SIZE);
  }
  size_t at = r.pos;
  status = nm_mp_read(&r, &item);
  if (status != NM_OK || (item.type != NM_MP_UINT && item.type != NM_MP_INT)) {
    return nm_fault_set(fault, NM_E(TYPE), "hashmap_update.segment", at);
  }
  if (item.type == NM_MP_INT ||
      item.uint > UINT32_MAX / NM_RESOURCE_HASHMAP_MAX) {
    return nm_fault_set(fault, NM_E(RANGE), "hashmap_update.segment", at);
  }
  hmu->segment = item.uint;
  at = r.pos;
  status = nm_mp_read(&r, &item);
  if (status != NM_OK || item.type != NM_MP_BIN) {
    status = NM_E(TYPE);
  } else if (item.data.len == 0) {
    status = NM_E(EMPTY);
  } else if (item.data.len % NM_RESOURCE_MAP_HASH_SIZE != 0 ||
             item.data.len >
                 NM_RESOURCE_HASHMAP_MAX * NM_RESOURCE_MAP_HASH_SIZE) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "hashmap_update.hashmap", at);
  }
  hmu->hashmap = item.data;
  return NM_OK;
}

size_t nm_resource_hmu_size(const nm_resource_hmu *hmu) {
  return hmu->hash.len + 1 + nm_mp_uint_size(hmu->segment) +
         nm_mp_bin_size(hmu->hashmap.len);
}

int nm_resource_hmu_encode(const nm_resource_hmu *hmu, nm_writer *w) {
  nm_writer_span(w, hmu->hash);
  nm_mp_array(w, 2);
  nm_mp_uint(w, hmu->segment);
  nm_mp_bin(w, hmu->hashmap);
  return w->status;
}

nm_span nm_resource_hmu_slice(nm_span hashmap, uint64_t segment) {
  const size_t step = NM_RESOURCE_HASHMAP_MAX * NM_RESOURCE_MAP_HASH_SIZE;
  if (segment > hashmap.len / step) {
    return nm_span_of(NULL, 0);
  }
  size_t at = (size_t)segment * step;
  size_t left = hashmap.len - at;
  return nm_span_slice(hashmap, at, left < step ? left : step);
}

/* --- Proof and cancel --- */

/* Takes |n| bytes in |count| spans of 32, which must be all there is. */
static int read_hashes(nm_span in, nm_span *out, size_t count,
                       const char *field, nm_fault *fault) {
  nm_reader r = nm_reader_of(in);
  for (size_t i = 0; i < count; i++) {
    out[i] = nm_reader_take(&r, NM_HASH_SIZE);
  }
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, field, in.len);
  }
  if (nm_reader_left(&r) > 0) {
    return nm_fault_set(fault, NM_E(TRAILING), field, r.pos);
  }
  return NM_OK;
}

int nm_resource_proof_decode(nm_span in, nm_resource_proof *proof,
                             nm_fault *fault) {
  nm_span both[2];
  int status = read_hashes(in, both, 2, "proof", fault);
  if (status == NM_OK) {
    proof->hash = both[0];
    proof->proof = both[1];
  }
  return status;
}

int nm_resource_proof_encode(const nm_resource_proof *proof, nm_writer *w) {
  nm_writer_span(w, proof->hash);
  nm_writer_span(w, proof->proof);
  return w->status;
}

void nm_resource_proof_packet_hash(const nm_link_id *link,
                                   const uint8_t hash[NM_HASH_SIZE],
                                   const uint8_t expected_proof[NM_HASH_SIZE],
                                   nm_packet_hash *out) {
  /* The hashable part of a header-1 packet: its flags without the bits that a
   * relay may change, the address, the context. */
  static const uint8_t flags[1] = {0x0F};
  static const uint8_t context[1] = {0x05};
  const nm_span parts[5] = {
      nm_span_of(flags, 1), nm_span_of(link->b, sizeof link->b),
      nm_span_of(context, 1), nm_span_of(hash, NM_HASH_SIZE),
      nm_span_of(expected_proof, NM_HASH_SIZE)};
  nm_sha256v(out->b, parts, 5);
}

int nm_resource_cancel_decode(nm_span in, nm_span *hash, nm_fault *fault) {
  return read_hashes(in, hash, 1, "cancel", fault);
}
