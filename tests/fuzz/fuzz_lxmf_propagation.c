/* Propagation containers, stamped elements, downloads, signals. The first byte
 * chooses. */
#include "fuzz.h"
#include "wire/lxmf_propagation.h"

static void container(nm_span in) {
  nm_lxmf_container c;
  nm_fault fault = {0};
  int status = nm_lxmf_container_open(in, 100, &c, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  nm_lxmf_element elements[100] = {{{0}, {0}}};
  uint32_t count = 0;
  double time = c.time;
  while (nm_lxmf_container_next(&c, &elements[count].data)) {
    MUST(lies_in(elements[count].data, in));
    nm_lxmf_stamped split;
    must_name(nm_lxmf_stamped_split(elements[count].data, &split, &fault),
              &fault, elements[count].data.len);
    count++;
  }
  MUST(count == c.count);
  size_t size = nm_lxmf_container_size(elements, count);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, size);
  MUST(nm_lxmf_container_encode(time, elements, count, &w) == NM_OK);
  MUST(w.pos == size);
  MUST(nm_lxmf_container_open(nm_writer_done(&w), 100, &c, NULL) == NM_OK);
  MUST(c.count == count);
  free(out);
}

/* Walks a list and returns its ids one after the other. */
static nm_lxmf_id_list flat(nm_lxmf_id_list list, uint8_t *ids, size_t room) {
  nm_lxmf_id_list out = {.nil = list.nil};
  nm_writer w = nm_writer_of(ids, room);
  nm_span id;
  while (nm_lxmf_id_list_next(&list, &id)) {
    MUST(id.len == 32);
    nm_writer_span(&w, id);
    out.count++;
  }
  MUST(w.status == NM_OK);
  out.ids = nm_writer_done(&w);
  return out;
}

static void download(nm_span in) {
  nm_lxmf_get get;
  nm_fault fault = {0};
  int status = nm_lxmf_get_decode(in, &get, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  size_t room = in.len + 32;
  uint8_t *ids = (uint8_t *)malloc(2 * room);
  MUST(ids != NULL);
  get.want = flat(get.want, ids, room);
  get.have = flat(get.have, ids + room, room);
  size_t size = nm_lxmf_get_size(&get);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, size);
  status = nm_lxmf_get_encode(&get, &w);
  MUST(status == NM_E(RANGE) || (status == NM_OK && w.pos == size));
  free(out);
  free(ids);
}

static void answer(nm_span in) {
  nm_lxmf_get_answer a;
  nm_fault fault = {0};
  int status = nm_lxmf_get_answer_decode(in, &a, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK && !a.is_error) {
    uint32_t left = a.count;
    nm_span element;
    while (nm_lxmf_answer_next(&a, &element)) {
      MUST(lies_in(element, in) && left > 0);
      left--;
    }
    MUST(left == 0);
  }
  uint64_t code;
  must_name(nm_lxmf_signal_decode(in, &code, &fault), &fault, in.len);
}

/* Sealed data that was tampered with must not open; the input is what is
 * sealed and where it is changed. */
static void sealed(nm_span in) {
  static const uint8_t secret[64] = {1, 2, 3};
  static const uint8_t iv[16] = {4};
  nm_identity id;
  nm_cipher cipher;
  nm_reader r = nm_reader_of(in);
  size_t at = nm_reader_u16(&r);
  uint8_t change = nm_reader_u8(&r);
  nm_span packed = nm_reader_rest(&r);
  if (packed.len < 96 || packed.len > 2000) {
    return;
  }
  MUST(nm_identity_init_private(&id, nm_span_of(secret, 64)) == NM_OK);
  MUST(nm_cipher_open(&cipher, NULL) == NM_OK);
  nm_encrypt_params params = {.target = id.public_key,
                              .salt = &id.hash,
                              .ephemeral = secret + 1,
                              .iv = iv};
  uint8_t data[2200];
  uint8_t out[2200];
  size_t size = nm_lxmf_data_size(packed.len);
  MUST(nm_lxmf_data_seal(&cipher, &params, packed, data) == NM_OK);
  at %= size;
  data[at] ^= change;
  /* Not part of the sealed bytes: the address, the top bit of the key. */
  bool same = change == 0 || (at == 47 && change == 0x80);
  nm_decrypt_keys keys = {.identity = id.private_key, .salt = &id.hash};
  size_t out_len = 0;
  nm_fault fault = {0};
  int status = nm_lxmf_data_open(&cipher, &keys, nm_span_of(data, size), out,
                                 &out_len, NULL, &fault);
  must_name(status, &fault, size);
  MUST((status == NM_OK) == (same || at < 16));
  MUST(status != NM_OK || out_len == packed.len);
  nm_cipher_close(&cipher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  nm_span in = nm_span_of(data + 1, size - 1);
  switch (data[0] % 4) {
  case 0:
    container(in);
    break;
  case 1:
    download(in);
    break;
  case 2:
    answer(in);
    break;
  default:
    sealed(in);
    break;
  }
  return 0;
}
