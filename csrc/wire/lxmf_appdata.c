/* Announce app data of LXMF destinations. */
#include "wire/lxmf_appdata.h"

#include "wire/lxmf_fields.h"

#include <math.h>

/* --- Delivery --- */

/* The first bytes that tell the array form from a bare name; 0xdd is not among
 * them (LXMF 5.1). */
static bool is_array_form(nm_span in) {
  uint8_t first = in.ptr[0];
  return (first >= 0x90 && first <= 0x9f) || first == 0xdc;
}

/* Whether an item equals 0 as the network compares it (LXMF 1). */
static bool is_zero(const nm_mp_item *item) {
  return (item->type == NM_MP_UINT && item->uint == 0) ||
         (item->type == NM_MP_FLOAT && item->real == 0.0) ||
         (item->type == NM_MP_BOOL && !item->boolean);
}

/* Element 2: the list of functionality codes. */
static int read_functions(nm_reader *r, nm_lxmf_delivery *out) {
  nm_reader head = *r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status != NM_OK || item.type != NM_MP_ARRAY) {
    return status;
  }
  nm_reader whole = *r;
  status = nm_mp_skip(&whole, NULL);
  if (status != NM_OK) {
    return status;
  }
  nm_span input = nm_span_of(r->base, r->len);
  out->function_count = item.count;
  out->functions = nm_span_slice(input, head.pos, whole.pos - head.pos);
  out->compression = NM_LXMF_SUPPORT_NO;
  for (uint32_t i = 0; i < out->function_count; i++) {
    nm_reader element = head;
    status = nm_mp_read(&element, &item);
    if (status == NM_OK) {
      status = nm_mp_skip(&head, NULL);
    }
    if (status != NM_OK) {
      return status;
    }
    if (is_zero(&item)) {
      out->compression = NM_LXMF_SUPPORT_YES;
    }
  }
  return NM_OK;
}

/* The array form, which was validated as a whole. */
static int read_delivery(nm_span in, nm_lxmf_delivery *out) {
  nm_reader r = nm_reader_of(in);
  nm_mp_item array;
  int status = nm_mp_read(&r, &array);
  out->compression = NM_LXMF_SUPPORT_YES;
  for (uint32_t i = 0; status == NM_OK && i < array.count && i < 2; i++) {
    nm_reader head = r;
    nm_mp_item item;
    status = nm_mp_read(&head, &item);
    if (status == NM_OK) {
      status = nm_mp_skip(&r, NULL);
    }
    if (status != NM_OK) {
      break;
    }
    if (i == 0 && item.type == NM_MP_BIN && nm_utf8_valid(item.data)) {
      out->has_name = true;
      out->name = item.data;
    } else if (i == 1 && item.type == NM_MP_UINT && item.uint <= UINT32_MAX) {
      out->has_cost = true;
      out->cost = (uint32_t)item.uint;
    }
  }
  return status == NM_OK && array.count >= 3 ? read_functions(&r, out) : status;
}

int nm_lxmf_delivery_decode(nm_span in, nm_lxmf_delivery *out,
                            nm_fault *fault) {
  memset(out, 0, sizeof *out);
  out->form = NM_LXMF_DELIVERY_ABSENT;
  out->compression = NM_LXMF_SUPPORT_UNKNOWN;
  if (in.ptr == NULL || in.len == 0) {
    return NM_OK;
  }
  if (!is_array_form(in)) {
    out->form = NM_LXMF_DELIVERY_LEGACY;
    out->has_name = nm_utf8_valid(in);
    out->name = out->has_name ? in : nm_span_of(NULL, 0);
    out->compression = NM_LXMF_SUPPORT_YES;
    return NM_OK;
  }
  nm_reader whole = nm_reader_of(in);
  int status = nm_mp_skip(&whole, NULL);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "delivery_app_data", whole.pos);
  }
  out->form = NM_LXMF_DELIVERY_ARRAY;
  status = read_delivery(in, out);
  return status == NM_OK ? NM_OK
                         : nm_fault_set(fault, status, "delivery_app_data", 0);
}

/* Reads one character of valid UTF-8. */
static uint32_t next_character(nm_reader *r) {
  uint8_t lead = nm_reader_u8(r);
  if (lead < 0x80) {
    return lead;
  }
  unsigned more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  uint32_t c = lead & (0x3fu >> more);
  for (; more > 0; more--) {
    c = c << 6 | (nm_reader_u8(r) & 0x3fu);
  }
  return c;
}

/* White space as Unicode has it. */
static bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 ||
         c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

int nm_lxmf_name_clean(nm_span name, nm_writer *w) {
  size_t begin = w->pos;
  size_t end = begin; /* behind the last character that is no white space */
  nm_reader r = nm_reader_of(name);
  while (nm_reader_left(&r) > 0) {
    size_t start = r.pos;
    uint32_t c = next_character(&r);
    bool space = is_space(c);
    if (c == 0 || (space && w->pos == begin)) {
      continue;
    }
    nm_writer_span(w, nm_span_slice(name, start, r.pos - start));
    end = space ? end : w->pos;
  }
  if (w->status == NM_OK) {
    w->pos = end;
  }
  return w->status;
}

static bool is_announced_cost(const nm_lxmf_delivery_draft *draft) {
  return draft->has_cost && draft->cost >= NM_LXMF_STAMP_COST_MIN &&
         draft->cost <= NM_LXMF_STAMP_COST_MAX;
}

size_t nm_lxmf_delivery_size(const nm_lxmf_delivery_draft *draft) {
  size_t size = 1 + nm_mp_count_size(draft->function_count);
  size += draft->has_name ? nm_mp_bin_size(draft->name.len) : 1;
  size += is_announced_cost(draft) ? nm_mp_uint_size(draft->cost) : 1;
  for (uint32_t i = 0; i < draft->function_count; i++) {
    size += nm_mp_uint_size(draft->functions[i]);
  }
  return size;
}

int nm_lxmf_delivery_encode(const nm_lxmf_delivery_draft *draft, nm_writer *w) {
  if (draft->has_name && !nm_utf8_valid(draft->name)) {
    return NM_E(UTF8);
  }
  nm_mp_array(w, 3);
  if (draft->has_name) {
    nm_mp_bin(w, draft->name);
  } else {
    nm_mp_nil(w);
  }
  if (is_announced_cost(draft)) {
    nm_mp_uint(w, draft->cost);
  } else {
    nm_mp_nil(w);
  }
  nm_mp_array(w, draft->function_count);
  for (uint32_t i = 0; i < draft->function_count; i++) {
    nm_mp_uint(w, draft->functions[i]);
  }
  return w->status;
}

/* --- Propagation node: reading --- */

static bool is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}

/* Decimal text as the network takes it: white space around it, a sign, digits
 * with single underscores between them. */
static int parse_decimal(nm_span text, int64_t *value) {
  while (text.len > 0 && is_space(text.ptr[0])) {
    text = nm_span_slice(text, 1, text.len - 1);
  }
  while (text.len > 0 && is_space(text.ptr[text.len - 1])) {
    text = nm_span_slice(text, 0, text.len - 1);
  }
  bool negative = text.len > 0 && text.ptr[0] == '-';
  if (text.len > 0 && (negative || text.ptr[0] == '+')) {
    text = nm_span_slice(text, 1, text.len - 1);
  }
  uint64_t sum = 0;
  bool after_digit = false;
  bool overflow = false;
  for (size_t i = 0; i < text.len; i++) {
    uint8_t c = text.ptr[i];
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    if (!is_digit(c)) {
      return NM_E(VALUE);
    }
    after_digit = true;
    uint64_t digit = (uint64_t)(c - '0');
    overflow = overflow || sum > ((uint64_t)INT64_MAX - digit) / 10;
    sum = overflow ? 0 : sum * 10 + digit;
  }
  if (!after_digit) {
    return NM_E(VALUE);
  }
  *value = negative ? -(int64_t)sum : (int64_t)sum;
  return overflow ? NM_E(RANGE) : NM_OK;
}

/* A number as it came, and cut to an integer. */
typedef struct number {
  int64_t whole;
  double exact;
} number;

/* The magnitude from which a double is no int64. */
#define TWO_63 9223372036854775808.0

static int to_number(const nm_mp_item *item, number *out) {
  int status = NM_OK;
  switch (item->type) {
  case NM_MP_BOOL:
    out->whole = item->boolean ? 1 : 0;
    break;
  case NM_MP_UINT:
    if (item->uint > INT64_MAX) {
      return NM_E(RANGE);
    }
    out->whole = (int64_t)item->uint;
    break;
  case NM_MP_INT:
    out->whole = item->sint;
    break;
  case NM_MP_FLOAT:
    if (!isfinite(item->real)) {
      return NM_E(VALUE);
    }
    if (item->real <= -TWO_63 || item->real >= TWO_63) {
      return NM_E(RANGE);
    }
    out->whole = (int64_t)item->real;
    out->exact = item->real;
    return NM_OK;
  case NM_MP_STR:
  case NM_MP_BIN:
    status = parse_decimal(item->data, &out->whole);
    break;
  default:
    return NM_E(TYPE);
  }
  out->exact = (double)out->whole;
  return status;
}

static int read_number(nm_reader *r, const char *field, number *out,
                       nm_fault *fault) {
  size_t at = r->pos;
  nm_reader head = *r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK) {
    status = nm_mp_skip(r, NULL);
  }
  if (status == NM_OK) {
    status = to_number(&item, out);
  }
  return status == NM_OK ? NM_OK : nm_fault_set(fault, status, field, at);
}

/* Element 2: true and false, or what equals them. */
static int read_active(nm_reader *r, bool *active, nm_fault *fault) {
  size_t at = r->pos;
  nm_reader head = *r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK) {
    status = nm_mp_skip(r, NULL);
  }
  if (status == NM_OK) {
    bool one = (item.type == NM_MP_UINT && item.uint == 1) ||
               (item.type == NM_MP_FLOAT && item.real == 1.0) ||
               (item.type == NM_MP_BOOL && item.boolean);
    *active = one;
    if (one || is_zero(&item)) {
      return NM_OK;
    }
    status = item.type == NM_MP_UINT || item.type == NM_MP_INT ||
                     item.type == NM_MP_FLOAT
                 ? NM_E(VALUE)
                 : NM_E(TYPE);
  }
  return nm_fault_set(fault, status, "node.active", at);
}

/* Element 5: the three costs. */
static int read_costs(nm_reader *r, nm_lxmf_node *out, nm_fault *fault) {
  static const char *const fields[3] = {"node.stamp_cost", "node.flexibility",
                                        "node.peering_cost"};
  int64_t *const places[3] = {&out->stamp_cost, &out->flexibility,
                              &out->peering_cost};
  size_t at = r->pos;
  nm_reader inside = *r;
  nm_mp_item item;
  int status = nm_mp_read(&inside, &item);
  if (status == NM_OK) {
    status = nm_mp_skip(r, NULL);
  }
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.count < 3) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "node.costs", at);
  }
  for (size_t i = 0; i < 3; i++) {
    number n;
    status = read_number(&inside, fields[i], &n, fault);
    if (status != NM_OK) {
      return status;
    }
    *places[i] = n.whole;
  }
  return NM_OK;
}

/* The value of a metadata key if it has the wanted type and is UTF-8. */
static bool find_text(nm_span metadata, uint64_t key, nm_mp_type type,
                      nm_span *out) {
  nm_span value;
  nm_mp_item item;
  if (nm_lxmf_field_find(metadata, key, &value) != NM_OK) {
    return false;
  }
  nm_reader r = nm_reader_of(value);
  if (nm_mp_read(&r, &item) != NM_OK || item.type != type ||
      !nm_utf8_valid(item.data)) {
    return false;
  }
  *out = item.data;
  return true;
}

static int read_metadata(nm_reader *r, nm_lxmf_node *out, nm_fault *fault) {
  size_t at = r->pos;
  nm_reader head = *r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK && item.type != NM_MP_MAP) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK) {
    status = nm_mp_skip(r, NULL);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "node.metadata", at);
  }
  out->metadata = nm_span_slice(nm_span_of(r->base, r->len), at, r->pos - at);
  out->has_name =
      find_text(out->metadata, NM_LXMF_PN_META_NAME, NM_MP_BIN, &out->name);
  out->has_version = find_text(out->metadata, NM_LXMF_PN_META_VERSION,
                               NM_MP_STR, &out->version);
  out->has_implementation = find_text(out->metadata, NM_LXMF_PN_META_IMPL_NAME,
                                      NM_MP_STR, &out->implementation);
  return NM_OK;
}

int nm_lxmf_node_decode(nm_span in, nm_lxmf_node *out, nm_fault *fault) {
  memset(out, 0, sizeof *out);
  nm_reader r = nm_reader_of(in);
  int status = nm_mp_skip(&r, NULL);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "node", r.pos);
  }
  r = nm_reader_of(in);
  nm_mp_item array;
  status = nm_mp_read(&r, &array);
  if (status == NM_OK && array.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && array.count < 7) {
    status = NM_E(LENGTH);
  }
  if (status == NM_OK) {
    status = nm_mp_skip(&r, NULL); /* element 0 says nothing any more */
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "node", 0);
  }
  number n;
  status = read_number(&r, "node.timebase", &n, fault);
  if (status == NM_OK) {
    out->timebase = n.whole;
    status = read_active(&r, &out->active, fault);
  }
  if (status == NM_OK) {
    status = read_number(&r, "node.transfer_limit", &n, fault);
    out->transfer_limit_kb = n.exact;
  }
  if (status == NM_OK) {
    status = read_number(&r, "node.sync_limit", &n, fault);
    out->sync_limit_kb = n.exact;
  }
  if (status == NM_OK) {
    status = read_costs(&r, out, fault);
  }
  return status == NM_OK ? read_metadata(&r, out, fault) : status;
}

/* --- Propagation node: writing --- */

static uint32_t metadata_count(const nm_lxmf_node_draft *draft) {
  return (draft->implementation.ptr != NULL ? 1u : 0) +
         (draft->version.ptr != NULL ? 1u : 0) +
         (draft->name.ptr != NULL ? 1u : 0);
}

static size_t metadata_size(const nm_lxmf_node_draft *draft) {
  if (draft->metadata.len > 0) {
    return draft->metadata.len;
  }
  size_t size = 1;
  if (draft->implementation.ptr != NULL) {
    size += nm_mp_uint_size(NM_LXMF_PN_META_IMPL_NAME) +
            nm_mp_str_size(draft->implementation.len);
  }
  if (draft->version.ptr != NULL) {
    size += nm_mp_uint_size(NM_LXMF_PN_META_VERSION) +
            nm_mp_str_size(draft->version.len);
  }
  if (draft->name.ptr != NULL) {
    size +=
        nm_mp_uint_size(NM_LXMF_PN_META_NAME) + nm_mp_bin_size(draft->name.len);
  }
  return size;
}

static void write_metadata(const nm_lxmf_node_draft *draft, nm_writer *w) {
  if (draft->metadata.len > 0) {
    nm_writer_span(w, draft->metadata);
    return;
  }
  nm_mp_map(w, metadata_count(draft));
  if (draft->implementation.ptr != NULL) {
    nm_mp_uint(w, NM_LXMF_PN_META_IMPL_NAME);
    nm_mp_str(w, draft->implementation);
  }
  if (draft->version.ptr != NULL) {
    nm_mp_uint(w, NM_LXMF_PN_META_VERSION);
    nm_mp_str(w, draft->version);
  }
  if (draft->name.ptr != NULL) {
    nm_mp_uint(w, NM_LXMF_PN_META_NAME);
    nm_mp_bin(w, draft->name);
  }
}

/* Whether a limit can be read again: no receiver takes others. */
static bool is_readable(double limit) {
  return limit > -TWO_63 && limit < TWO_63;
}

/* Whether a limit can be written as an integer. */
static bool is_whole(double limit) {
  return limit >= 0.0 && limit <= (double)UINT32_MAX &&
         (double)(uint32_t)limit == limit;
}

static size_t limit_size(const nm_lxmf_node_draft *draft, double limit) {
  return draft->limits_float || !is_whole(limit)
             ? 9
             : nm_mp_uint_size((uint32_t)limit);
}

static void write_limit(const nm_lxmf_node_draft *draft, double limit,
                        nm_writer *w) {
  if (draft->limits_float) {
    nm_mp_float(w, limit);
  } else {
    nm_mp_uint(w, (uint32_t)limit);
  }
}

/* Encoded size of a signed integer. */
static size_t int_size(int64_t v) {
  uint8_t scratch[9];
  nm_writer w = nm_writer_of(scratch, sizeof scratch);
  nm_mp_int(&w, v);
  return w.pos;
}

size_t nm_lxmf_node_size(const nm_lxmf_node_draft *draft) {
  return 1 + 1 + int_size(draft->timebase) + 1 +
         limit_size(draft, draft->transfer_limit_kb) +
         limit_size(draft, draft->sync_limit_kb) + 1 +
         nm_mp_uint_size(draft->stamp_cost) +
         nm_mp_uint_size(draft->flexibility) +
         nm_mp_uint_size(draft->peering_cost) + metadata_size(draft);
}

int nm_lxmf_node_encode(const nm_lxmf_node_draft *draft, nm_writer *w) {
  bool (*fits)(double) = draft->limits_float ? is_readable : is_whole;
  if (!fits(draft->transfer_limit_kb) || !fits(draft->sync_limit_kb)) {
    return NM_E(RANGE);
  }
  if (!nm_utf8_valid(draft->implementation) || !nm_utf8_valid(draft->version) ||
      !nm_utf8_valid(draft->name)) {
    return NM_E(UTF8);
  }
  nm_mp_array(w, 7);
  nm_mp_bool(w, false);
  nm_mp_int(w, draft->timebase);
  nm_mp_bool(w, draft->active);
  write_limit(draft, draft->transfer_limit_kb, w);
  write_limit(draft, draft->sync_limit_kb, w);
  nm_mp_array(w, 3);
  nm_mp_uint(w, draft->stamp_cost);
  nm_mp_uint(w, draft->flexibility);
  nm_mp_uint(w, draft->peering_cost);
  write_metadata(draft, w);
  return w->status;
}
