/* Reading LXMF messages: decoding, id, verification. */
#include "wire/lxmf_message.h"

#include "crypto/hash.h"

/* --- Canonical form --- */

static size_t canonical_int_size(int64_t v) {
  return v >= -32         ? 1
         : v >= INT8_MIN  ? 2
         : v >= INT16_MIN ? 3
         : v >= INT32_MIN ? 5
                          : 9;
}

static size_t canonical_ext_size(size_t len) {
  switch (len) {
  case 1:
  case 2:
  case 4:
  case 8:
  case 16:
    return len + 2;
  default:
    return len + (len <= UINT8_MAX ? 3 : len <= UINT16_MAX ? 4 : 6);
  }
}

/* Bytes that the encoder would write for |item|; of a container only its
 * header. */
static size_t canonical_size(const nm_mp_item *item) {
  switch (item->type) {
  case NM_MP_UINT:
    return nm_mp_uint_size(item->uint);
  case NM_MP_INT:
    return canonical_int_size(item->sint);
  case NM_MP_FLOAT:
    return 9;
  case NM_MP_STR:
    return nm_mp_str_size(item->data.len);
  case NM_MP_BIN:
    return nm_mp_bin_size(item->data.len);
  case NM_MP_EXT:
    return canonical_ext_size(item->data.len);
  case NM_MP_ARRAY:
  case NM_MP_MAP:
    return nm_mp_count_size(item->count);
  default:
    return 1;
  }
}

/* Whether a value that was validated is canonical: then each of its items, one
 * after the other, has the canonical size. */
static bool is_canonical(nm_span value) {
  nm_reader r = nm_reader_of(value);
  while (nm_reader_left(&r) > 0) {
    size_t start = r.pos;
    nm_mp_item item;
    if (nm_mp_read(&r, &item) != NM_OK ||
        r.pos - start != canonical_size(&item)) {
      return false;
    }
  }
  return true;
}

/* --- Elements --- */

/* The decoder's place: what is being read, and what for. */
typedef struct decoder {
  nm_reader r;
  const nm_mp_limits *limits;
  nm_lxmf_view *view;
  nm_fault *fault;
} decoder;

static int refuse(decoder *d, int status, const char *field, size_t at) {
  return nm_fault_set(d->fault, status, field, at);
}

/* The next byte without taking it; a code that is reserved when there is none.
 */
static inline uint8_t peek(const nm_reader *r) {
  nm_reader copy = *r;
  uint8_t code = nm_reader_u8(&copy);
  return copy.status == NM_OK ? code : 0xc1;
}

static inline double double_from(nm_span be) {
  nm_reader r = nm_reader_of(be);
  uint64_t bits = nm_reader_u64(&r);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int read_odd_timestamp(decoder *d) {
  nm_lxmf_view *view = d->view;
  size_t start = d->r.pos;
  nm_mp_item item;
  int status = nm_mp_read(&d->r, &item);
  if (status != NM_OK) {
    return refuse(d, status, "timestamp", start);
  }
  view->timestamp_type = item.type;
  switch (item.type) {
  case NM_MP_FLOAT:
    view->timestamp = item.real;
    view->timestamp_float32 = true;
    break;
  case NM_MP_UINT:
    view->timestamp = (double)item.uint;
    view->timestamp_uint = item.uint;
    break;
  case NM_MP_INT:
    view->timestamp = (double)item.sint;
    view->timestamp_int = item.sint;
    break;
  default:
    return refuse(d, NM_E(TYPE), "timestamp", start);
  }
  if (d->r.pos - start != canonical_size(&item)) {
    view->canonical = false;
  }
  return NM_OK;
}

static inline int read_timestamp(decoder *d) {
  if (peek(&d->r) != 0xcb || nm_reader_left(&d->r) < 9) {
    return read_odd_timestamp(d);
  }
  nm_span whole = nm_reader_take(&d->r, 9);
  d->view->timestamp_type = NM_MP_FLOAT;
  d->view->timestamp = double_from(nm_span_slice(whole, 1, 8));
  return NM_OK;
}

static int read_odd_bytes(decoder *d, const char *field, nm_span *out,
                          bool *text) {
  size_t start = d->r.pos;
  nm_mp_item item;
  int status = nm_mp_read(&d->r, &item);
  if (status != NM_OK) {
    return refuse(d, status, field, start);
  }
  if (item.type != NM_MP_BIN && item.type != NM_MP_STR) {
    return refuse(d, NM_E(TYPE), field, start);
  }
  *text = item.type == NM_MP_STR;
  *out = item.data;
  if (d->r.pos - start != canonical_size(&item)) {
    d->view->canonical = false;
  }
  return NM_OK;
}

/* Title or content: bin, tolerated as str. */
static inline int read_bytes(decoder *d, const char *field, nm_span *out,
                             bool *text) {
  nm_reader r = d->r;
  uint8_t code = nm_reader_u8(&r);
  size_t len = code == 0xc4   ? nm_reader_u8(&r)
               : code == 0xc5 ? nm_reader_u16(&r)
                              : 0;
  if (code == 0xc4 || (code == 0xc5 && len > UINT8_MAX)) {
    *out = nm_reader_take(&r, len);
    if (r.status == NM_OK) {
      d->r = r;
      return NM_OK;
    }
  }
  return read_odd_bytes(d, field, out, text);
}

static int read_full_fields(decoder *d) {
  size_t start = d->r.pos;
  nm_reader head = d->r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK && item.type != NM_MP_MAP && item.type != NM_MP_NIL) {
    status = NM_E(TYPE);
  }
  if (status != NM_OK) {
    return refuse(d, status, "fields", start);
  }
  status = nm_mp_skip(&d->r, d->limits);
  if (status != NM_OK) {
    return refuse(d, status, "fields", d->r.pos);
  }
  if (item.type == NM_MP_MAP) {
    nm_span input = nm_span_of(d->r.base, d->r.len);
    d->view->fields = nm_span_slice(input, start, d->r.pos - start);
    if (!is_canonical(d->view->fields)) {
      d->view->canonical = false;
    }
  }
  return NM_OK;
}

static inline int read_fields(decoder *d) {
  if (peek(&d->r) == 0x80) {
    d->view->fields = nm_reader_take(&d->r, 1);
    return NM_OK;
  }
  return read_full_fields(d);
}

/* Element 4, of any type, and what follows it. */
static int read_extra(decoder *d) {
  nm_lxmf_view *view = d->view;
  nm_reader head = d->r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status != NM_OK) {
    return refuse(d, status, "stamp", head.pos);
  }
  view->stamp_type = item.type;
  if (item.type == NM_MP_BIN) {
    view->stamp = item.data;
  }
  for (uint32_t i = 4; i < view->count; i++) {
    status = nm_mp_skip(&d->r, d->limits);
    if (status != NM_OK) {
      return refuse(d, status, i == 4 ? "stamp" : "element", d->r.pos);
    }
  }
  return NM_OK;
}

/* --- The message --- */

static int read_count(decoder *d) {
  size_t start = d->r.pos;
  uint8_t code = peek(&d->r);
  if (code == 0x94 || code == 0x95) {
    (void)nm_reader_u8(&d->r);
    d->view->count = code & 0x0fu;
    return NM_OK;
  }
  nm_mp_item item;
  int status = nm_mp_read(&d->r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.count < 4) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return refuse(d, status, "payload", start);
  }
  d->view->count = item.count;
  return NM_OK;
}

/* Everything behind the destination. */
static int read_message(decoder *d) {
  nm_lxmf_view *view = d->view;
  if (!nm_reader_copy(&d->r, view->source.b, sizeof view->source.b)) {
    return refuse(d, d->r.status, "source", d->r.pos);
  }
  view->signature = nm_reader_take(&d->r, NM_SIGNATURE_SIZE);
  if (d->r.status != NM_OK) {
    return refuse(d, d->r.status, "signature", d->r.pos);
  }
  nm_span input = nm_span_of(d->r.base, d->r.len);
  view->payload = nm_span_slice(input, d->r.pos, nm_reader_left(&d->r));
  view->canonical = true;
  view->timestamp_float32 = false;
  view->title_text = false;
  view->content_text = false;
  view->fields = nm_span_of(NULL, 0);
  view->stamp_type = NM_MP_NIL;
  view->stamp = nm_span_of(NULL, 0);
  view->timestamp_uint = 0;
  view->timestamp_int = 0;
  int status = read_count(d);
  size_t start = d->r.pos;
  if (status == NM_OK) {
    status = read_timestamp(d);
  }
  if (status == NM_OK) {
    status = read_bytes(d, "title", &view->title, &view->title_text);
  }
  if (status == NM_OK) {
    status = read_bytes(d, "content", &view->content, &view->content_text);
  }
  if (status == NM_OK) {
    status = read_fields(d);
  }
  if (status != NM_OK) {
    return status;
  }
  view->elements = nm_span_slice(input, start, d->r.pos - start);
  return view->count > 4 ? read_extra(d) : NM_OK;
}

int nm_lxmf_decode(nm_span packed, const nm_mp_limits *limits,
                   nm_lxmf_view *view, nm_fault *fault) {
  decoder d = {nm_reader_of(packed), limits, view, fault};
  if (!nm_reader_copy(&d.r, view->destination.b, sizeof view->destination.b)) {
    return refuse(&d, d.r.status, "destination", 0);
  }
  return read_message(&d);
}

int nm_lxmf_decode_opportunistic(nm_span plaintext,
                                 const nm_destination_hash *destination,
                                 const nm_mp_limits *limits, nm_lxmf_view *view,
                                 nm_fault *fault) {
  decoder d = {nm_reader_of(plaintext), limits, view, fault};
  view->destination = *destination;
  return read_message(&d);
}

nm_span nm_lxmf_opportunistic(nm_span packed) {
  if (packed.len < NM_ADDRESS_SIZE) {
    return nm_span_of(NULL, 0);
  }
  return nm_span_slice(packed, NM_ADDRESS_SIZE, packed.len - NM_ADDRESS_SIZE);
}

/* --- Id and signature --- */

static const uint8_t four_elements[1] = {0x94};

/* The pieces of what is hashed; 4 of them. */
#define HASHED_PIECES 4

/* Appends the canonical encoding of the first four elements. */
static int recode_elements(const nm_lxmf_view *view, nm_buffer *out) {
  const nm_mp_limits limits = {NM_MP_DEPTH_CAP, UINT32_MAX, out->mem};
  size_t room = 4 * (2 * view->elements.len + 16);
  int status = nm_buffer_reserve(out, room);
  if (status != NM_OK) {
    return status;
  }
  nm_reader r = nm_reader_of(view->elements);
  nm_writer w = nm_writer_of(out->ptr + out->len, room);
  for (int i = 0; i < 4; i++) {
    status = nm_mp_canonical(&r, &w, &limits);
    if (status != NM_OK) {
      return status;
    }
  }
  out->len += w.pos;
  return NM_OK;
}

/* Names the bytes that are hashed (LXMF 2.3, 2.4): as received when there are
 * four elements, else the canonical form of the first four. Only what is not
 * canonical already is written to |scratch|, where the pieces then point to. */
static int hashed_pieces(const nm_lxmf_view *view, nm_buffer *scratch,
                         nm_span pieces[HASHED_PIECES]) {
  pieces[0] = nm_span_of(view->destination.b, sizeof view->destination.b);
  pieces[1] = nm_span_of(view->source.b, sizeof view->source.b);
  if (view->count <= 4) {
    pieces[2] = nm_span_of(NULL, 0);
    pieces[3] = view->payload;
    return NM_OK;
  }
  pieces[2] = nm_span_of(four_elements, sizeof four_elements);
  pieces[3] = view->elements;
  if (view->canonical) {
    return NM_OK;
  }
  size_t before = scratch->len;
  int status = recode_elements(view, scratch);
  pieces[3] = nm_span_slice(nm_span_of(scratch->ptr, scratch->len), before,
                            scratch->len - before);
  return status;
}

int nm_lxmf_hashed_data(const nm_lxmf_view *view, nm_buffer *out) {
  nm_span pieces[HASHED_PIECES];
  nm_buffer scratch;
  nm_buffer_init(&scratch, out->mem, NULL, 0, 1);
  size_t before = out->len;
  int status = hashed_pieces(view, &scratch, pieces);
  for (size_t i = 0; status == NM_OK && i < HASHED_PIECES; i++) {
    status = nm_buffer_append(out, pieces[i].ptr, pieces[i].len);
  }
  nm_buffer_dispose(&scratch);
  if (status != NM_OK) {
    out->len = before;
  }
  return status;
}

int nm_lxmf_message_id(const nm_lxmf_view *view, nm_buffer *scratch,
                       uint8_t id[NM_HASH_SIZE]) {
  nm_span pieces[HASHED_PIECES];
  size_t before = scratch->len;
  int status = hashed_pieces(view, scratch, pieces);
  if (status == NM_OK) {
    nm_sha256v(id, pieces, HASHED_PIECES);
  }
  scratch->len = before;
  return status;
}

int nm_lxmf_signed_data(const nm_lxmf_view *view, nm_buffer *out,
                        uint8_t id[NM_HASH_SIZE]) {
  size_t before = out->len;
  int status = nm_lxmf_hashed_data(view, out);
  if (status != NM_OK) {
    return status;
  }
  nm_sha256(id, nm_span_slice(nm_span_of(out->ptr, out->len), before,
                              out->len - before));
  status = nm_buffer_append(out, id, NM_HASH_SIZE);
  if (status != NM_OK) {
    out->len = before;
  }
  return status;
}

int nm_lxmf_verify(const nm_lxmf_view *view,
                   const uint8_t public_key[NM_KEY_SIZE], nm_buffer *scratch,
                   uint8_t id[NM_HASH_SIZE]) {
  size_t before = scratch->len;
  int status = nm_lxmf_signed_data(view, scratch, id);
  if (status == NM_OK) {
    nm_span data = nm_span_slice(nm_span_of(scratch->ptr, scratch->len), before,
                                 scratch->len - before);
    status = nm_ed25519_verify(public_key, view->signature.ptr, data);
  }
  scratch->len = before;
  return status;
}
