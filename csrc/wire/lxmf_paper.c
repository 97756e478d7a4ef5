/* Paper messages: base64url without padding. */
#include "wire/lxmf_paper.h"

#include "wire/lxmf_propagation.h"

static const char scheme[] = NM_LXMF_URI_SCHEMA "://";
#define SCHEME_LEN (sizeof scheme - 1)

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t nm_lxmf_uri_size(size_t data_len) {
  size_t rest = data_len % 3;
  return SCHEME_LEN + data_len / 3 * 4 + (rest == 0 ? 0 : rest + 1);
}

int nm_lxmf_uri_encode(nm_span data, nm_writer *w) {
  if (data.len < NM_LXMF_DATA_MIN) {
    return NM_E(LENGTH);
  }
  if (data.len > NM_LXMF_PAPER_MDU) {
    return NM_E(TOO_LARGE);
  }
  nm_writer_put(w, scheme, SCHEME_LEN);
  nm_reader r = nm_reader_of(data);
  while (nm_reader_left(&r) > 0) {
    size_t n = nm_reader_left(&r) < 3 ? nm_reader_left(&r) : 3;
    uint32_t group = 0;
    for (size_t i = 0; i < 3; i++) {
      group = group << 8 | (i < n ? nm_reader_u8(&r) : 0);
    }
    /* n bytes take n + 1 characters. */
    for (size_t i = 0; i <= n; i++) {
      nm_writer_u8(w, (uint8_t)alphabet[group >> (18 - 6 * i) & 0x3f]);
    }
  }
  return w->status;
}

size_t nm_lxmf_uri_data_bound(size_t uri_len) {
  return uri_len > SCHEME_LEN ? (uri_len - SCHEME_LEN) / 4 * 3 + 3 : 0;
}

/* The value of a base64url character; -1 for another one. */
static int value_of(uint8_t c) {
  if (c >= 'A' && c <= 'Z') {
    return c - 'A';
  }
  if (c >= 'a' && c <= 'z') {
    return c - 'a' + 26;
  }
  if (c >= '0' && c <= '9') {
    return c - '0' + 52;
  }
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

static bool take_scheme(nm_reader *r) {
  for (size_t i = 0; i < SCHEME_LEN; i++) {
    uint8_t c = nm_reader_u8(r);
    uint8_t lower = c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
    if (lower != (uint8_t)scheme[i]) {
      return false;
    }
  }
  return true;
}

int nm_lxmf_uri_decode(nm_span uri, nm_writer *w, nm_fault *fault) {
  nm_reader r = nm_reader_of(uri);
  size_t begin = w->pos;
  if (!take_scheme(&r)) {
    return nm_fault_set(fault, NM_E(VALUE), "uri", 0);
  }
  uint32_t group = 0;
  size_t count = 0; /* characters of data */
  bool padding = false;
  while (nm_reader_left(&r) > 0) {
    size_t at = r.pos;
    uint8_t c = nm_reader_u8(&r);
    if (c == '/') {
      continue;
    }
    int value = value_of(c);
    padding = padding || c == '=';
    if (padding ? c != '=' : value < 0) {
      return nm_fault_set(fault, NM_E(VALUE), "uri", at);
    }
    if (padding) {
      continue;
    }
    group = (group << 6 | (uint32_t)value) & 0xffffff;
    count++;
    /* After the 2nd, 3rd and 4th character of a group a byte is complete. */
    if (count % 4 != 1) {
      unsigned spare = (unsigned)(6 - 2 * ((count + 3) % 4));
      nm_writer_u8(w, (uint8_t)(group >> spare));
    }
    if (w->status != NM_OK) {
      return nm_fault_set(fault, w->status, "uri", at);
    }
  }
  if (count % 4 == 1 || w->pos - begin < NM_LXMF_DATA_MIN) {
    return nm_fault_set(fault, NM_E(LENGTH), "uri", uri.len);
  }
  return NM_OK;
}
