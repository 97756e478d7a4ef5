/* Single items: reading and writing. Whole values are in msgpack_value.c. */
#include "base/msgpack.h"

bool nm_utf8_valid(nm_span s) {
  nm_reader r = nm_reader_of(s);
  while (nm_reader_left(&r) > 0) {
    uint8_t lead = nm_reader_u8(&r);
    if (lead < 0x80) {
      continue;
    }
    if (lead < 0xc2 || lead > 0xf4) {
      return false;
    }
    /* The range of the second byte rules out what the lead alone does not. */
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    uint8_t second = nm_reader_u8(&r);
    if (second < low || second > high) {
      return false;
    }
    size_t more = lead >= 0xf0 ? 2 : lead >= 0xe0 ? 1 : 0;
    for (; more > 0; more--) {
      if ((nm_reader_u8(&r) & 0xc0) != 0x80) {
        return false;
      }
    }
  }
  /* A character cut off at the end has read a zero byte, which is refused. */
  return true;
}

/* A big-endian unsigned integer of 1, 2, 4 or 8 bytes. */
static uint64_t read_sized(nm_reader *r, unsigned bytes) {
  switch (bytes) {
  case 1:
    return nm_reader_u8(r);
  case 2:
    return nm_reader_u16(r);
  case 4:
    return nm_reader_u32(r);
  default:
    return nm_reader_u64(r);
  }
}

static void set_uint(nm_mp_item *item, uint64_t v) {
  item->type = NM_MP_UINT;
  item->uint = v;
}

/* A two's complement integer of |bytes| bytes; not negative gives a UINT. */
static void set_sint(nm_mp_item *item, uint64_t raw, unsigned bytes) {
  unsigned shift = 64 - 8 * bytes;
  uint64_t up = raw << shift;
  if ((up >> 63) == 0) {
    set_uint(item, raw);
    return;
  }
  /* Sign extension without relying on a signed shift. */
  uint64_t fill = shift == 0 ? 0 : ~(UINT64_MAX >> shift);
  uint64_t wide = (up >> shift) | fill;
  item->type = NM_MP_INT;
  item->sint = -(int64_t)(~wide) - 1;
}

static void set_float32(nm_mp_item *item, uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  item->type = NM_MP_FLOAT;
  item->real = (double)f;
}

static void set_float64(nm_mp_item *item, uint64_t bits) {
  item->type = NM_MP_FLOAT;
  memcpy(&item->real, &bits, sizeof item->real);
}

static void take_data(nm_reader *r, nm_mp_item *item, nm_mp_type type,
                      uint64_t len) {
  item->type = type;
  item->data = nm_reader_take(r, len > SIZE_MAX ? SIZE_MAX : (size_t)len);
}

static void take_ext(nm_reader *r, nm_mp_item *item, uint64_t len) {
  uint8_t type = nm_reader_u8(r);
  item->ext_type = (int8_t)(type < 0x80 ? type : (int)type - 0x100);
  take_data(r, item, NM_MP_EXT, len);
}

static void set_count(nm_mp_item *item, nm_mp_type type, uint64_t count) {
  item->type = type;
  item->count = (uint32_t)count;
}

/* The codes from 0xc0 to 0xdf. Returns a status for what the reader itself
 * cannot notice. */
static int read_coded(nm_reader *r, nm_mp_item *item, uint8_t code) {
  switch (code) {
  case 0xc0:
    item->type = NM_MP_NIL;
    return NM_OK;
  case 0xc2:
  case 0xc3:
    item->type = NM_MP_BOOL;
    item->boolean = code == 0xc3;
    return NM_OK;
  case 0xc4:
  case 0xc5:
  case 0xc6:
    take_data(r, item, NM_MP_BIN, read_sized(r, 1u << (code - 0xc4)));
    return NM_OK;
  case 0xc7:
  case 0xc8:
  case 0xc9:
    take_ext(r, item, read_sized(r, 1u << (code - 0xc7)));
    return NM_OK;
  case 0xca:
    set_float32(item, nm_reader_u32(r));
    return NM_OK;
  case 0xcb:
    set_float64(item, nm_reader_u64(r));
    return NM_OK;
  case 0xcc:
  case 0xcd:
  case 0xce:
  case 0xcf:
    set_uint(item, read_sized(r, 1u << (code - 0xcc)));
    return NM_OK;
  case 0xd0:
  case 0xd1:
  case 0xd2:
  case 0xd3:
    set_sint(item, read_sized(r, 1u << (code - 0xd0)), 1u << (code - 0xd0));
    return NM_OK;
  case 0xd4:
  case 0xd5:
  case 0xd6:
  case 0xd7:
  case 0xd8:
    take_ext(r, item, (uint64_t)1 << (code - 0xd4));
    return NM_OK;
  case 0xd9:
  case 0xda:
  case 0xdb:
    take_data(r, item, NM_MP_STR, read_sized(r, 1u << (code - 0xd9)));
    return NM_OK;
  case 0xdc:
  case 0xdd:
    set_count(item, NM_MP_ARRAY, read_sized(r, 2u << (code - 0xdc)));
    return NM_OK;
  case 0xde:
  case 0xdf:
    set_count(item, NM_MP_MAP, read_sized(r, 2u << (code - 0xde)));
    return NM_OK;
  default: /* 0xc1 */
    return NM_E(RESERVED);
  }
}

int nm_mp_read(nm_reader *r, nm_mp_item *item) {
  if (r->status != NM_OK) {
    return r->status;
  }
  size_t start = r->pos;
  uint8_t code = nm_reader_u8(r);
  int status = NM_OK;
  if (r->status != NM_OK) {
    status = r->status;
  } else if (code < 0x80) {
    set_uint(item, code);
  } else if (code >= 0xe0) {
    item->type = NM_MP_INT;
    item->sint = (int64_t)code - 0x100;
  } else if (code < 0x90) {
    set_count(item, NM_MP_MAP, code & 0x0fu);
  } else if (code < 0xa0) {
    set_count(item, NM_MP_ARRAY, code & 0x0fu);
  } else if (code < 0xc0) {
    take_data(r, item, NM_MP_STR, code & 0x1fu);
  } else {
    status = read_coded(r, item, code);
  }
  if (status == NM_OK) {
    status = r->status;
  }
  if (status == NM_OK && item->type == NM_MP_STR &&
      !nm_utf8_valid(item->data)) {
    status = NM_E(UTF8);
  }
  if (status != NM_OK) {
    r->pos = start;
    r->status = status;
  }
  return status;
}

int nm_mp_read_number(nm_reader *r, double *value) {
  size_t start = r->pos;
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  if (status != NM_OK) {
    return status;
  }
  switch (item.type) {
  case NM_MP_UINT:
    *value = (double)item.uint;
    return NM_OK;
  case NM_MP_INT:
    *value = (double)item.sint;
    return NM_OK;
  case NM_MP_FLOAT:
    *value = item.real;
    return NM_OK;
  default:
    r->pos = start;
    r->status = NM_E(TYPE);
    return r->status;
  }
}

void nm_mp_nil(nm_writer *w) {
  nm_writer_u8(w, 0xc0);
}

void nm_mp_bool(nm_writer *w, bool v) {
  nm_writer_u8(w, v ? 0xc3 : 0xc2);
}

/* Writes a code and a big-endian integer of |bytes| bytes as one piece, so that
 * a full writer is left without half an item. */
static void write_sized(nm_writer *w, uint8_t code, uint64_t v,
                        unsigned bytes) {
  uint8_t b[9] = {code};
  for (unsigned i = 0; i < bytes; i++) {
    b[1 + i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
  }
  nm_writer_put(w, b, 1 + (size_t)bytes);
}

void nm_mp_uint(nm_writer *w, uint64_t v) {
  if (v < 0x80) {
    nm_writer_u8(w, (uint8_t)v);
  } else if (v <= UINT8_MAX) {
    write_sized(w, 0xcc, v, 1);
  } else if (v <= UINT16_MAX) {
    write_sized(w, 0xcd, v, 2);
  } else if (v <= UINT32_MAX) {
    write_sized(w, 0xce, v, 4);
  } else {
    write_sized(w, 0xcf, v, 8);
  }
}

void nm_mp_int(nm_writer *w, int64_t v) {
  if (v >= 0) {
    nm_mp_uint(w, (uint64_t)v);
  } else if (v >= -32) {
    nm_writer_u8(w, (uint8_t)(v + 0x100));
  } else if (v >= INT8_MIN) {
    write_sized(w, 0xd0, (uint64_t)v, 1);
  } else if (v >= INT16_MIN) {
    write_sized(w, 0xd1, (uint64_t)v, 2);
  } else if (v >= INT32_MIN) {
    write_sized(w, 0xd2, (uint64_t)v, 4);
  } else {
    write_sized(w, 0xd3, (uint64_t)v, 8);
  }
}

void nm_mp_float(nm_writer *w, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  write_sized(w, 0xcb, bits, 8);
}

/* A length or count in the shortest of 8 (when |code8| is not 0), 16 and 32
 * bits, whose codes follow one another. */
static void write_length(nm_writer *w, uint8_t code8, uint8_t code16,
                         size_t len) {
  if (code8 != 0 && len <= UINT8_MAX) {
    write_sized(w, code8, len, 1);
  } else if (len <= UINT16_MAX) {
    write_sized(w, code16, len, 2);
  } else if (len <= UINT32_MAX) {
    write_sized(w, (uint8_t)(code16 + 1), len, 4);
  } else if (w->status == NM_OK) {
    w->status = NM_E(TOO_LARGE);
  }
}

void nm_mp_str(nm_writer *w, nm_span s) {
  if (s.len < 32) {
    nm_writer_u8(w, (uint8_t)(0xa0 | s.len));
  } else {
    write_length(w, 0xd9, 0xda, s.len);
  }
  nm_writer_span(w, s);
}

void nm_mp_bin_head(nm_writer *w, size_t len) {
  write_length(w, 0xc4, 0xc5, len);
}

void nm_mp_bin(nm_writer *w, nm_span s) {
  nm_mp_bin_head(w, s.len);
  nm_writer_span(w, s);
}

void nm_mp_array(nm_writer *w, uint32_t count) {
  if (count < 16) {
    nm_writer_u8(w, (uint8_t)(0x90 | count));
  } else {
    write_length(w, 0, 0xdc, count);
  }
}

void nm_mp_map(nm_writer *w, uint32_t count) {
  if (count < 16) {
    nm_writer_u8(w, (uint8_t)(0x80 | count));
  } else {
    write_length(w, 0, 0xde, count);
  }
}

void nm_mp_ext(nm_writer *w, int8_t type, nm_span data) {
  switch (data.len) {
  case 1:
    nm_writer_u8(w, 0xd4);
    break;
  case 2:
    nm_writer_u8(w, 0xd5);
    break;
  case 4:
    nm_writer_u8(w, 0xd6);
    break;
  case 8:
    nm_writer_u8(w, 0xd7);
    break;
  case 16:
    nm_writer_u8(w, 0xd8);
    break;
  default:
    write_length(w, 0xc7, 0xc8, data.len);
    break;
  }
  nm_writer_u8(w, (uint8_t)type);
  nm_writer_span(w, data);
}

size_t nm_mp_uint_size(uint64_t v) {
  return v < 0x80          ? 1
         : v <= UINT8_MAX  ? 2
         : v <= UINT16_MAX ? 3
         : v <= UINT32_MAX ? 5
                           : 9;
}

size_t nm_mp_bin_size(size_t len) {
  return len + (len <= UINT8_MAX ? 2 : len <= UINT16_MAX ? 3 : 5);
}

size_t nm_mp_str_size(size_t len) {
  return len < 32 ? len + 1 : nm_mp_bin_size(len);
}

size_t nm_mp_count_size(uint32_t count) {
  return count < 16 ? 1 : count <= UINT16_MAX ? 3 : 5;
}
