#include "wire/ifac.h"

#include "base/cursor.h"

/* The fixed salt of the key derivation (RNS 1, 6.1). */
static const uint8_t derivation_salt[NM_HASH_SIZE] = {
    0xad, 0xf5, 0x4d, 0x88, 0x2c, 0x9a, 0x9b, 0x80, 0x77, 0x1e, 0xb4,
    0x99, 0x5d, 0x70, 0x2d, 0x4a, 0x3e, 0x73, 0x33, 0x91, 0xb2, 0xa0,
    0xf5, 0x3f, 0x41, 0x6d, 0x9f, 0x90, 0x7e, 0x55, 0xcf, 0xf8};

/* The two bytes before the code. */
#define LEAD 2
#define FLAG 0x80

int nm_ifac_derive(nm_span network_name, nm_span passphrase,
                   uint8_t key[NM_PRIVATE_SIZE]) {
  uint8_t origin[2 * NM_HASH_SIZE];
  nm_writer w = nm_writer_of(origin, sizeof origin);
  const nm_span names[2] = {network_name, passphrase};
  for (size_t i = 0; i < 2; i++) {
    if (names[i].len > 0) {
      nm_sha256(nm_writer_reserve(&w, NM_HASH_SIZE), names[i]);
    }
  }
  if (w.pos == 0) {
    return NM_E(MISSING);
  }
  uint8_t ikm[NM_HASH_SIZE];
  nm_sha256(ikm, nm_writer_done(&w));
  int status = nm_hkdf(key, NM_PRIVATE_SIZE, nm_span_of(ikm, sizeof ikm),
                       nm_span_of(derivation_salt, sizeof derivation_salt),
                       nm_span_of(NULL, 0));
  nm_wipe(origin, sizeof origin);
  nm_wipe(ikm, sizeof ikm);
  return status;
}

int nm_ifac_init(nm_ifac *ifac, nm_span network_name, nm_span passphrase,
                 size_t size) {
  uint8_t key[NM_PRIVATE_SIZE];
  int status = nm_ifac_derive(network_name, passphrase, key);
  if (status == NM_OK) {
    status = nm_ifac_init_key(ifac, nm_span_of(key, sizeof key), size);
  }
  nm_wipe(key, sizeof key);
  return status;
}

int nm_ifac_init_key(nm_ifac *ifac, nm_span key, size_t size) {
  if (size < NM_IFAC_SIZE_MIN || size > NM_IFAC_SIZE_MAX) {
    return NM_E(RANGE);
  }
  if (key.len != NM_PRIVATE_SIZE) {
    return NM_E(LENGTH);
  }
  int status = nm_identity_init_private(&ifac->identity, key);
  if (status != NM_OK) {
    return status;
  }
  nm_reader r = nm_reader_of(key);
  nm_reader_copy(&r, ifac->key, NM_PRIVATE_SIZE);
  nm_hmac_key_init(&ifac->salt, key);
  ifac->size = size;
  return NM_OK;
}

void nm_ifac_wipe(nm_ifac *ifac) {
  nm_wipe(ifac, sizeof *ifac);
}

int nm_ifac_signature(const nm_ifac *ifac, uint8_t out[NM_SIGNATURE_SIZE]) {
  uint8_t digest[NM_HASH_SIZE];
  nm_sha256(digest, nm_span_of(ifac->key, sizeof ifac->key));
  return nm_identity_sign(&ifac->identity, out,
                          nm_span_of(digest, sizeof digest));
}

/* The code of the packet |parts|: the end of its signature. */
static int sign_code(const nm_ifac *ifac, const nm_span *parts, size_t n,
                     uint8_t *out) {
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status = nm_ed25519_signv(signature, &ifac->identity.sign, parts, n);
  if (status == NM_OK) {
    nm_reader r = nm_reader_of(nm_span_of(signature, sizeof signature));
    (void)nm_reader_take(&r, NM_SIGNATURE_SIZE - ifac->size);
    nm_reader_copy(&r, out, ifac->size);
  }
  return status;
}

int nm_ifac_tag(const nm_ifac *ifac, nm_span raw, uint8_t *out,
                nm_fault *fault) {
  if (raw.len < LEAD) {
    return nm_fault_set(fault, NM_E(TRUNCATED), "packet", raw.len);
  }
  if (raw.ptr[0] & FLAG) {
    return nm_fault_set(fault, NM_E(VALUE), "flags", 0);
  }
  int status = sign_code(ifac, &raw, 1, out);
  return status == NM_OK ? NM_OK : nm_fault_set(fault, status, "packet", 0);
}

/* XORs |in| onto the mask at the writer's place, which it advances over. */
static void xor_onto(nm_writer *mask, nm_span in) {
  uint8_t *p = nm_writer_reserve(mask, in.len);
  for (size_t i = 0; p != NULL && i < in.len; i++) {
    p[i] ^= in.ptr[i];
  }
}

int nm_ifac_mask(const nm_ifac *ifac, nm_span raw, uint8_t *out, size_t cap,
                 size_t *len, nm_fault *fault) {
  uint8_t code[NM_SIGNATURE_SIZE];
  int status = nm_ifac_tag(ifac, raw, code, fault);
  if (status != NM_OK) {
    return status;
  }
  if (cap < ifac->size || cap - ifac->size < raw.len) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "output", cap);
  }
  size_t total = raw.len + ifac->size;
  nm_span tag = nm_span_of(code, ifac->size);
  status = nm_hkdf_salted(out, total, tag, &ifac->salt, nm_span_of(NULL, 0));
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "packet", 0);
  }
  /* The mask lies in the output already; the code is stored over it, the rest
   * is combined with it in place. */
  nm_reader r = nm_reader_of(raw);
  nm_writer w = nm_writer_of(out, total);
  xor_onto(&w, nm_reader_take(&r, LEAD));
  nm_writer_span(&w, tag);
  xor_onto(&w, nm_reader_rest(&r));
  out[0] |= FLAG;
  *len = total;
  return NM_OK;
}

/* Unmasks |in| in |out| and checks the code. The mask lies in |out|, code
 * position included, so the packet is made in two runs and moved together. */
static nm_ifac_verdict open_masked(const nm_ifac *ifac, nm_span in,
                                   uint8_t *out) {
  nm_reader r = nm_reader_of(in);
  nm_span lead = nm_reader_take(&r, LEAD);
  nm_span code = nm_reader_take(&r, ifac->size);
  nm_span body = nm_reader_rest(&r);
  if (nm_hkdf_salted(out, in.len, code, &ifac->salt, nm_span_of(NULL, 0)) !=
      NM_OK) {
    return NM_IFAC_FAILED;
  }
  nm_writer w = nm_writer_of(out, in.len);
  xor_onto(&w, lead);
  uint8_t *gap = nm_writer_reserve(&w, ifac->size);
  nm_writer look = w;
  const uint8_t *tail = nm_writer_reserve(&look, body.len);
  xor_onto(&w, body);
  memmove(gap, tail, body.len);
  out[0] &= (uint8_t)~FLAG;
  nm_span packet = nm_span_of(out, LEAD + body.len);
  uint8_t expected[NM_SIGNATURE_SIZE];
  if (sign_code(ifac, &packet, 1, expected) != NM_OK) {
    return NM_IFAC_FAILED;
  }
  return nm_equal_ct(expected, code.ptr, ifac->size) ? NM_IFAC_OK
                                                     : NM_IFAC_WRONG_CODE;
}

nm_ifac_verdict nm_ifac_unmask(const nm_ifac *ifac, nm_span in, uint8_t *out,
                               size_t *len) {
  if (in.len <= LEAD) {
    return NM_IFAC_TOO_SHORT;
  }
  if (!(in.ptr[0] & FLAG)) {
    return NM_IFAC_NO_FLAG;
  }
  if (in.len <= LEAD + ifac->size) {
    return NM_IFAC_TOO_SHORT;
  }
  nm_ifac_verdict verdict = open_masked(ifac, in, out);
  if (verdict != NM_IFAC_OK) {
    nm_wipe(out, in.len);
    return verdict;
  }
  *len = in.len - ifac->size;
  return NM_IFAC_OK;
}

nm_ifac_verdict nm_ifac_absent(nm_span in) {
  if (in.len <= LEAD) {
    return NM_IFAC_TOO_SHORT;
  }
  return in.ptr[0] & FLAG ? NM_IFAC_UNEXPECTED : NM_IFAC_OK;
}

const char *nm_ifac_verdict_name(nm_ifac_verdict verdict) {
  static const char *const names[] = {"OK",         "NO_FLAG",    "TOO_SHORT",
                                      "WRONG_CODE", "UNEXPECTED", "FAILED"};
  return (unsigned)verdict <= NM_IFAC_FAILED ? names[verdict] : "UNKNOWN";
}

int nm_ifac_verdict_status(nm_ifac_verdict verdict) {
  switch (verdict) {
  case NM_IFAC_OK:
    return NM_OK;
  case NM_IFAC_NO_FLAG:
    return NM_E(MISSING);
  case NM_IFAC_TOO_SHORT:
    return NM_E(TRUNCATED);
  case NM_IFAC_WRONG_CODE:
    return NM_E(AUTH);
  case NM_IFAC_UNEXPECTED:
    return NM_E(VALUE);
  default:
    return NM_E(LIBRARY);
  }
}
