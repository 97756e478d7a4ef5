#include "crypto/token.h"

#include <string.h>

int nm_token_key_init(nm_token_key *k, nm_span key) {
  if (key.len != 32 && key.len != 64) {
    return NM_E(KEY);
  }
  size_t half = key.len / 2;
  nm_hmac_key_init(&k->mac, nm_span_of(key.ptr, half));
  memcpy(k->cipher, key.ptr + half, half);
  k->cipher_len = (uint8_t)half;
  return NM_OK;
}

void nm_token_key_wipe(nm_token_key *k) {
  nm_wipe(k, sizeof *k);
}

static nm_span cipher_key(const nm_token_key *k) {
  return nm_span_of(k->cipher, k->cipher_len);
}

/* Everything but the MAC; the number of bytes that it covers. */
static int encrypt(nm_cipher *c, const nm_token_key *k,
                   const uint8_t iv[NM_AES_BLOCK], nm_span plain, uint8_t *out,
                   size_t *covered) {
  int status = nm_aes_cbc_encrypt_padded(c, cipher_key(k), iv, plain,
                                         out + NM_AES_BLOCK);
  memmove(out, iv, NM_AES_BLOCK);
  *covered = NM_AES_BLOCK + nm_aes_padded_size(plain.len);
  return status;
}

int nm_token_seal(nm_cipher *c, const nm_token_key *k,
                  const uint8_t iv[NM_AES_BLOCK], nm_span plain, uint8_t *out) {
  size_t covered;
  int status = encrypt(c, k, iv, plain, out, &covered);
  if (status == NM_OK) {
    nm_hmac_key_mac(&k->mac, out + covered, nm_span_of(out, covered));
  }
  return status;
}

int nm_token_seal_beside(nm_cipher *c, const nm_token_key *k,
                         const uint8_t iv[NM_AES_BLOCK], nm_span plain,
                         uint8_t *out, nm_sha256_ctx *beside, nm_span hashed) {
  size_t covered;
  nm_sha256_ctx mac;
  int status = encrypt(c, k, iv, plain, out, &covered);
  if (status == NM_OK) {
    nm_hmac_key_begin(&k->mac, &mac);
    nm_sha256_update_two(&mac, nm_span_of(out, covered), beside, hashed);
    nm_hmac_key_end(&k->mac, &mac, out + covered);
  }
  return status;
}

/* Compares a MAC, which is wiped, with that of a token. */
static int same_mac(uint8_t mac[NM_HASH_SIZE], nm_span token) {
  bool same =
      nm_equal_ct(mac, token.ptr + (token.len - NM_HASH_SIZE), NM_HASH_SIZE);
  nm_wipe(mac, NM_HASH_SIZE);
  return same ? NM_OK : NM_E(AUTH);
}

int nm_token_check(const nm_token_key *k, nm_span token) {
  uint8_t mac[NM_HASH_SIZE];
  if (token.len <= NM_HASH_SIZE) {
    return NM_E(TRUNCATED);
  }
  nm_hmac_key_mac(&k->mac, mac,
                  nm_span_of(token.ptr, token.len - NM_HASH_SIZE));
  return same_mac(mac, token);
}

int nm_token_check_rest(const nm_token_key *k, nm_span token, size_t done,
                        nm_sha256_ctx *running) {
  uint8_t mac[NM_HASH_SIZE];
  if (token.len <= NM_HASH_SIZE) {
    return NM_E(TRUNCATED);
  }
  nm_sha256_update(running,
                   nm_span_slice(token, done, token.len - NM_HASH_SIZE - done));
  nm_hmac_key_end(&k->mac, running, mac);
  return same_mac(mac, token);
}

int nm_token_open_checked(nm_cipher *c, const nm_token_key *k, nm_span token,
                          uint8_t *out, size_t *out_len) {
  if (token.len < NM_TOKEN_SIZE_MIN) {
    return NM_E(LENGTH);
  }
  nm_span ciphertext = nm_span_of(token.ptr + NM_AES_BLOCK,
                                  token.len - NM_AES_BLOCK - NM_HASH_SIZE);
  return nm_aes_cbc_decrypt_padded(c, cipher_key(k), token.ptr, ciphertext, out,
                                   out_len);
}

int nm_token_open(nm_cipher *c, const nm_token_key *k, nm_span token,
                  uint8_t *out, size_t *out_len) {
  int status = nm_token_check(k, token);
  if (status != NM_OK) {
    return status;
  }
  return nm_token_open_checked(c, k, token, out, out_len);
}
