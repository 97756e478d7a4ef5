#include "wire/ratchet_file.h"

/* The encoded length of one key: bin 8 header and 32 bytes. */
#define KEY_ENCODED (2 + NM_KEY_SIZE)

/* What a key of a file's map is followed by. */
typedef struct field {
  const char *name;
  nm_mp_type type; /* of its value; FLOAT takes every number */
  size_t len;      /* of a BIN, 0: any */
  bool seen;
  nm_span data;
  double number;
} field;

static bool is_number(nm_mp_type type) {
  return type == NM_MP_UINT || type == NM_MP_INT || type == NM_MP_FLOAT;
}

static double number_of(const nm_mp_item *item) {
  return item->type == NM_MP_FLOAT  ? item->real
         : item->type == NM_MP_UINT ? (double)item->uint
                                    : (double)item->sint;
}

/* Reads the value of |f|. */
static int read_field(nm_reader *r, field *f, nm_fault *fault) {
  size_t at = r->pos;
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  bool fits =
      f->type == NM_MP_FLOAT ? is_number(item.type) : item.type == f->type;
  if (status == NM_OK && !fits) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK && f->len != 0 && item.data.len != f->len) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, f->name, at);
  }
  f->seen = true;
  f->data = item.data;
  f->number = is_number(item.type) ? number_of(&item) : 0;
  return NM_OK;
}

static field *find_field(field *fields, size_t n, const nm_mp_item *key) {
  for (size_t i = 0; key->type == NM_MP_STR && i < n; i++) {
    if (nm_span_equal(key->data,
                      nm_span_of(fields[i].name, strlen(fields[i].name)))) {
      return &fields[i];
    }
  }
  return NULL;
}

/* More than any file needs, and few enough that checking a map for repeated
 * keys never allocates. */
static const nm_mp_limits file_limits = {.depth_max = 8, .elements_max = 64};

/* Reads a map with string keys; all |n| fields must be there, other keys are
 * ignored. */
static int read_map(nm_span file, field *fields, size_t n, nm_fault *fault) {
  nm_reader whole = nm_reader_of(file);
  int status = nm_mp_skip(&whole, &file_limits);
  nm_reader r = nm_reader_of(file);
  nm_mp_item map = {.type = NM_MP_NIL};
  if (status == NM_OK) {
    status = nm_mp_read(&r, &map);
  }
  if (status == NM_OK && map.type != NM_MP_MAP) {
    status = NM_E(TYPE);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "file", 0);
  }
  for (uint32_t i = 0; i < map.count; i++) {
    nm_reader at = r;
    nm_mp_item key;
    (void)nm_mp_read(&r, &key); /* the whole was skipped, so it is valid */
    field *f = find_field(fields, n, &key);
    if (f == NULL) {
      r = at;
      (void)nm_mp_skip(&r, &file_limits);
      (void)nm_mp_skip(&r, &file_limits);
      continue;
    }
    status = read_field(&r, f, fault);
    if (status != NM_OK) {
      return status;
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (!fields[i].seen) {
      return nm_fault_set(fault, NM_E(MISSING), fields[i].name, 0);
    }
  }
  return NM_OK;
}

/* Checks the packed array: bin32 after bin32 and nothing else. */
static int check_keys(nm_span packed, uint32_t count_max, uint32_t *count) {
  nm_reader r = nm_reader_of(packed);
  nm_mp_item item;
  int status = nm_mp_read(&r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK && item.count > count_max) {
    status = NM_E(LIMIT);
  }
  if (status != NM_OK) {
    return status;
  }
  *count = item.count;
  for (uint32_t i = 0; i < *count; i++) {
    size_t at = r.pos;
    status = nm_mp_read(&r, &item);
    if (status != NM_OK) {
      return status;
    }
    if (item.type != NM_MP_BIN) {
      return NM_E(TYPE);
    }
    if (item.data.len != NM_KEY_SIZE || r.pos - at != KEY_ENCODED) {
      return NM_E(LENGTH);
    }
  }
  return nm_reader_left(&r) == 0 ? NM_OK : NM_E(TRAILING);
}

int nm_ratchet_file_parse(nm_span file, uint32_t count_max,
                          nm_ratchet_file *out, nm_fault *fault) {
  field fields[2] = {
      {.name = "signature", .type = NM_MP_BIN, .len = NM_SIGNATURE_SIZE},
      {.name = "ratchets", .type = NM_MP_BIN}};
  int status = read_map(file, fields, 2, fault);
  if (status != NM_OK) {
    return status;
  }
  out->signature = fields[0].data;
  out->packed = fields[1].data;
  status =
      check_keys(out->packed, count_max != 0 ? count_max : NM_RATCHETS_RETAINED,
                 &out->count);
  return status == NM_OK ? NM_OK : nm_fault_set(fault, status, "ratchets", 0);
}

int nm_ratchet_file_verify(const nm_ratchet_file *file,
                           const nm_identity *identity) {
  return nm_identity_verify(identity, file->signature, file->packed);
}

nm_span nm_ratchet_file_key(const nm_ratchet_file *file, uint32_t index) {
  if (index >= file->count) {
    return nm_span_of(NULL, 0);
  }
  /* The keys fill the array to its end, so they are counted from there. */
  size_t behind = (size_t)(file->count - index) * KEY_ENCODED;
  nm_reader r = nm_reader_of(file->packed);
  (void)nm_reader_take(&r, file->packed.len - behind + 2);
  return nm_reader_take(&r, NM_KEY_SIZE);
}

static size_t packed_size(uint32_t count) {
  return nm_mp_count_size(count) + (size_t)count * KEY_ENCODED;
}

size_t nm_ratchet_file_size(uint32_t count) {
  return 1 + nm_mp_str_size(9) + nm_mp_bin_size(NM_SIGNATURE_SIZE) +
         nm_mp_str_size(8) + nm_mp_bin_size(packed_size(count));
}

/* The header of a byte string of |len| bytes. */
static void put_bin_header(nm_writer *w, size_t len) {
  if (len <= UINT8_MAX) {
    nm_writer_u8(w, 0xc4);
    nm_writer_u8(w, (uint8_t)len);
  } else if (len <= UINT16_MAX) {
    nm_writer_u8(w, 0xc5);
    nm_writer_u16(w, (uint16_t)len);
  } else {
    nm_writer_u8(w, 0xc6);
    nm_writer_u32(w, (uint32_t)len);
  }
}

int nm_ratchet_file_write(nm_writer *w, const nm_identity *identity,
                          const uint8_t *keys, uint32_t count) {
  size_t size = nm_ratchet_file_size(count);
  nm_writer file = nm_writer_of(nm_writer_reserve(w, size), size);
  if (w->status != NM_OK) {
    return w->status;
  }
  nm_mp_map(&file, 2);
  nm_mp_str(&file, nm_span_of("signature", 9));
  put_bin_header(&file, NM_SIGNATURE_SIZE);
  /* What is signed comes after the signature: leave room, fill it last. */
  nm_writer place = file;
  nm_writer_reserve(&file, NM_SIGNATURE_SIZE);
  nm_mp_str(&file, nm_span_of("ratchets", 8));
  put_bin_header(&file, packed_size(count));
  nm_reader written = nm_reader_of(nm_span_of(file.base, file.cap));
  (void)nm_reader_take(&written, file.pos);
  nm_mp_array(&file, count);
  nm_reader each = nm_reader_of(nm_span_of(keys, (size_t)count * NM_KEY_SIZE));
  for (uint32_t i = 0; i < count; i++) {
    nm_mp_bin(&file, nm_reader_take(&each, NM_KEY_SIZE));
  }
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status = nm_identity_sign(identity, signature,
                                nm_reader_take(&written, packed_size(count)));
  if (status != NM_OK) {
    nm_wipe(file.base, file.cap);
    return status;
  }
  nm_writer_put(&place, signature, sizeof signature);
  return w->status;
}

int nm_ratchet_memory_parse(nm_span file, nm_ratchet_memory *out,
                            nm_fault *fault) {
  field fields[2] = {{.name = "ratchet", .type = NM_MP_BIN, .len = NM_KEY_SIZE},
                     {.name = "received", .type = NM_MP_FLOAT}};
  int status = read_map(file, fields, 2, fault);
  if (status == NM_OK) {
    out->ratchet = fields[0].data;
    out->received = fields[1].number;
  }
  return status;
}

int nm_ratchet_memory_write(nm_writer *w, const nm_ratchet_memory *memory) {
  if (memory->ratchet.len != NM_KEY_SIZE) {
    return NM_E(LENGTH);
  }
  nm_mp_map(w, 2);
  nm_mp_str(w, nm_span_of("ratchet", 7));
  nm_mp_bin(w, memory->ratchet);
  nm_mp_str(w, nm_span_of("received", 8));
  nm_mp_float(w, memory->received);
  return w->status;
}

bool nm_ratchet_memory_valid(const nm_ratchet_memory *memory, double now) {
  return memory->ratchet.len == NM_KEY_SIZE &&
         now < memory->received + NM_RATCHET_LIFE;
}
