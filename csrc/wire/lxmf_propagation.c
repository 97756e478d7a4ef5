/* Propagated messages. */
#include "wire/lxmf_propagation.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_stamp.h"

/* --- One element --- */

size_t nm_lxmf_data_size(size_t packed_len) {
  if (packed_len < NM_ADDRESS_SIZE) {
    return 0;
  }
  return NM_ADDRESS_SIZE +
         nm_identity_encrypted_size(packed_len - NM_ADDRESS_SIZE);
}

int nm_lxmf_data_seal(nm_cipher *cipher, const nm_encrypt_params *params,
                      nm_span packed, uint8_t *out) {
  if (packed.len < NM_LXMF_HEADER_SIZE) {
    return NM_E(TRUNCATED);
  }
  nm_writer w = nm_writer_of(out, nm_lxmf_data_size(packed.len));
  nm_writer_span(&w, nm_span_slice(packed, 0, NM_ADDRESS_SIZE));
  return nm_identity_encrypt(cipher, params, nm_lxmf_opportunistic(packed),
                             nm_writer_reserve(&w, nm_writer_left(&w)));
}

int nm_lxmf_data_open(nm_cipher *cipher, const nm_decrypt_keys *keys,
                      nm_span data, uint8_t *out, size_t *out_len,
                      ptrdiff_t *opened_by, nm_fault *fault) {
  if (data.len < NM_LXMF_DATA_MIN) {
    return nm_fault_set(fault, NM_E(TRUNCATED), "lxmf_data", data.len);
  }
  nm_reader r = nm_reader_of(data);
  nm_writer w = nm_writer_of(out, data.len);
  nm_writer_span(&w, nm_reader_take(&r, NM_ADDRESS_SIZE));
  size_t plain = 0;
  int status = nm_identity_decrypt(cipher, keys, nm_reader_rest(&r),
                                   nm_writer_reserve(&w, nm_writer_left(&w)),
                                   &plain, opened_by);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "lxmf_data.token", NM_ADDRESS_SIZE);
  }
  *out_len = NM_ADDRESS_SIZE + plain;
  return NM_OK;
}

void nm_lxmf_transient_id(nm_span data, uint8_t id[NM_HASH_SIZE]) {
  nm_sha256(id, data);
}

int nm_lxmf_stamped_split(nm_span stamped, nm_lxmf_stamped *out,
                          nm_fault *fault) {
  if (stamped.len <= NM_LXMF_STAMPED_MIN) {
    return nm_fault_set(fault, NM_E(LENGTH), "stamped", stamped.len);
  }
  nm_reader r = nm_reader_of(stamped);
  out->data = nm_reader_take(&r, stamped.len - NM_LXMF_STAMP_SIZE);
  out->stamp = nm_reader_rest(&r);
  nm_reader data = nm_reader_of(out->data);
  (void)nm_reader_copy(&data, out->destination.b, sizeof out->destination.b);
  return NM_OK;
}

int nm_lxmf_stamped_check(nm_span stamped, uint32_t cost, nm_lxmf_stamped *out,
                          uint8_t transient_id[NM_HASH_SIZE], uint32_t *value,
                          nm_fault *fault) {
  int status = nm_lxmf_stamped_split(stamped, out, fault);
  if (status != NM_OK) {
    return status;
  }
  nm_lxmf_transient_id(out->data, transient_id);
  status =
      nm_lxmf_propagation_stamp_check(out->stamp, transient_id, cost, value);
  return status == NM_OK
             ? NM_OK
             : nm_fault_set(fault, status, "stamped.stamp", out->data.len);
}

/* --- The container --- */

static size_t element_size(const nm_lxmf_element *element) {
  return nm_mp_bin_size(element->data.len + element->stamp.len);
}

size_t nm_lxmf_container_size(const nm_lxmf_element *elements, uint32_t count) {
  size_t size = 1 + 9 + nm_mp_count_size(count);
  for (uint32_t i = 0; i < count; i++) {
    size += element_size(&elements[i]);
  }
  return size;
}

int nm_lxmf_container_encode(double time, const nm_lxmf_element *elements,
                             uint32_t count, nm_writer *w) {
  nm_mp_array(w, 2);
  nm_mp_float(w, time);
  nm_mp_array(w, count);
  for (uint32_t i = 0; i < count; i++) {
    nm_mp_bin_head(w, elements[i].data.len + elements[i].stamp.len);
    nm_writer_span(w, elements[i].data);
    nm_writer_span(w, elements[i].stamp);
  }
  return w->status;
}

/* Validates the first value of |in| and reads the header of the array that it
 * must be, with at least |count_min| elements. */
static int open_array(nm_span in, nm_reader *r, uint32_t count_min,
                      uint32_t *count, const char *field, nm_fault *fault) {
  *count = 0;
  nm_reader whole = nm_reader_of(in);
  int status = nm_mp_skip(&whole, NULL);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, field, whole.pos);
  }
  nm_mp_item item;
  *r = nm_reader_of(in);
  status = nm_mp_read(r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.count < count_min) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, field, 0);
  }
  *count = item.count;
  return NM_OK;
}

/* Checks that the next |count| values are all bin, without taking them. */
static int all_bin(nm_reader r, uint32_t count, const char *field,
                   nm_fault *fault) {
  for (uint32_t i = 0; i < count; i++) {
    size_t at = r.pos;
    nm_mp_item item;
    int status = nm_mp_read(&r, &item);
    if (status == NM_OK && item.type != NM_MP_BIN) {
      status = NM_E(TYPE);
    }
    if (status != NM_OK) {
      return nm_fault_set(fault, status, field, at);
    }
  }
  return NM_OK;
}

int nm_lxmf_container_open(nm_span in, uint32_t count_max,
                           nm_lxmf_container *container, nm_fault *fault) {
  uint32_t elements;
  nm_reader *r = &container->reader;
  int status = open_array(in, r, 2, &elements, "container", fault);
  if (status != NM_OK) {
    return status;
  }
  status = nm_mp_read_number(r, &container->time);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "container.time", r->pos);
  }
  size_t at = r->pos;
  nm_mp_item item;
  status = nm_mp_read(r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.count > count_max) {
    status = NM_E(LIMIT);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "container.messages", at);
  }
  container->count = item.count;
  container->taken = 0;
  return all_bin(*r, item.count, "container.message", fault);
}

bool nm_lxmf_container_next(nm_lxmf_container *container, nm_span *message) {
  nm_mp_item item;
  if (container->taken == container->count ||
      nm_mp_read(&container->reader, &item) != NM_OK) {
    return false;
  }
  container->taken++;
  *message = item.data;
  return true;
}

/* --- The signal --- */

int nm_lxmf_signal_encode(uint64_t code, nm_writer *w) {
  nm_mp_array(w, 1);
  nm_mp_uint(w, code);
  return w->status;
}

int nm_lxmf_signal_decode(nm_span in, uint64_t *code, nm_fault *fault) {
  nm_reader r;
  uint32_t count;
  int status = open_array(in, &r, 1, &count, "signal", fault);
  if (status != NM_OK) {
    return status;
  }
  size_t at = r.pos;
  nm_mp_item item;
  status = nm_mp_read(&r, &item);
  if (status != NM_OK || item.type != NM_MP_UINT) {
    return nm_fault_set(fault, NM_E(TYPE), "signal", at);
  }
  *code = item.uint;
  return NM_OK;
}

/* --- Client download --- */

static size_t id_list_size(const nm_lxmf_id_list *list) {
  if (list->nil) {
    return 1;
  }
  return nm_mp_count_size(list->count) +
         list->count * nm_mp_bin_size(NM_HASH_SIZE);
}

static void write_id_list(const nm_lxmf_id_list *list, nm_writer *w) {
  if (list->nil) {
    nm_mp_nil(w);
    return;
  }
  nm_mp_array(w, list->count);
  nm_reader ids = nm_reader_of(list->ids);
  for (uint32_t i = 0; i < list->count; i++) {
    nm_mp_bin(w, nm_reader_take(&ids, NM_HASH_SIZE));
  }
}

/* Whether a limit can be written as an integer. */
static bool is_whole(double limit) {
  return limit >= 0.0 && limit <= (double)UINT32_MAX &&
         (double)(uint32_t)limit == limit;
}

size_t nm_lxmf_get_size(const nm_lxmf_get *get) {
  size_t size = 1 + id_list_size(&get->want) + id_list_size(&get->have);
  if (get->has_limit) {
    size += get->limit_float || !is_whole(get->limit_kb)
                ? 9
                : nm_mp_uint_size((uint32_t)get->limit_kb);
  }
  return size;
}

int nm_lxmf_get_encode(const nm_lxmf_get *get, nm_writer *w) {
  if (get->has_limit && !get->limit_float && !is_whole(get->limit_kb)) {
    return NM_E(RANGE);
  }
  if ((!get->want.nil &&
       get->want.ids.len != (size_t)get->want.count * NM_HASH_SIZE) ||
      (!get->have.nil &&
       get->have.ids.len != (size_t)get->have.count * NM_HASH_SIZE)) {
    return NM_E(ARGUMENT);
  }
  nm_mp_array(w, get->has_limit ? 3 : 2);
  write_id_list(&get->want, w);
  write_id_list(&get->have, w);
  if (get->has_limit && get->limit_float) {
    nm_mp_float(w, get->limit_kb);
  } else if (get->has_limit) {
    nm_mp_uint(w, (uint32_t)get->limit_kb);
  }
  return w->status;
}

/* Reads one list of an input that was validated. */
static int read_id_list(nm_reader *r, nm_lxmf_id_list *list, const char *field,
                        nm_fault *fault) {
  size_t at = r->pos;
  nm_reader head = *r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK) {
    status = nm_mp_skip(r, NULL);
  }
  if (status == NM_OK && item.type != NM_MP_NIL && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, field, at);
  }
  list->nil = item.type == NM_MP_NIL;
  list->count = list->nil ? 0 : item.count;
  list->ids =
      nm_span_slice(nm_span_of(r->base, r->len), head.pos, r->pos - head.pos);
  return NM_OK;
}

int nm_lxmf_get_decode(nm_span in, nm_lxmf_get *get, nm_fault *fault) {
  memset(get, 0, sizeof *get);
  nm_reader r;
  uint32_t count;
  int status = open_array(in, &r, 2, &count, "get", fault);
  if (status == NM_OK) {
    status = read_id_list(&r, &get->want, "get.want", fault);
  }
  if (status == NM_OK) {
    status = read_id_list(&r, &get->have, "get.have", fault);
  }
  if (status != NM_OK || count < 3) {
    return status;
  }
  nm_mp_item item;
  if (nm_mp_read(&r, &item) != NM_OK) {
    return NM_OK; /* nothing that could be a limit */
  }
  get->has_limit = item.type == NM_MP_UINT || item.type == NM_MP_INT ||
                   item.type == NM_MP_FLOAT;
  get->limit_float = item.type == NM_MP_FLOAT;
  get->limit_kb = item.type == NM_MP_UINT    ? (double)item.uint
                  : item.type == NM_MP_INT   ? (double)item.sint
                  : item.type == NM_MP_FLOAT ? item.real
                                             : 0.0;
  return NM_OK;
}

/* Takes the next of |*count| encoded values that is bin; |len| 0 means of any
 * length. */
static bool next_bin(nm_span *values, uint32_t *count, size_t len,
                     nm_span *out) {
  nm_reader r = nm_reader_of(*values);
  while (*count > 0) {
    nm_reader head = r;
    nm_mp_item item;
    if (nm_mp_read(&head, &item) != NM_OK || nm_mp_skip(&r, NULL) != NM_OK) {
      break;
    }
    (*count)--;
    if (item.type == NM_MP_BIN && (len == 0 || item.data.len == len)) {
      *out = item.data;
      *values = nm_span_slice(*values, r.pos, nm_reader_left(&r));
      return true;
    }
  }
  *count = 0;
  *values = nm_span_of(NULL, 0);
  return false;
}

bool nm_lxmf_id_list_next(nm_lxmf_id_list *list, nm_span *id) {
  return next_bin(&list->ids, &list->count, NM_HASH_SIZE, id);
}

int nm_lxmf_get_answer_decode(nm_span in, nm_lxmf_get_answer *answer,
                              nm_fault *fault) {
  memset(answer, 0, sizeof *answer);
  nm_reader r = nm_reader_of(in);
  nm_mp_item item;
  int status = nm_mp_read(&r, &item);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "get_answer", 0);
  }
  if (item.type == NM_MP_UINT) {
    answer->is_error = true;
    answer->error = item.uint;
    return NM_OK;
  }
  status = open_array(in, &r, 0, &answer->count, "get_answer", fault);
  if (status != NM_OK) {
    return status;
  }
  answer->elements = nm_span_slice(in, r.pos, nm_reader_left(&r));
  return all_bin(r, answer->count, "get_answer", fault);
}

bool nm_lxmf_answer_next(nm_lxmf_get_answer *answer, nm_span *element) {
  return next_bin(&answer->elements, &answer->count, 0, element);
}
