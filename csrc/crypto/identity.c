#include "crypto/identity.h"

#include <string.h>

int nm_identity_init_private(nm_identity *id, nm_span private_key) {
  if (private_key.len != NM_PRIVATE_SIZE) {
    return NM_E(LENGTH);
  }
  memcpy(id->private_key, private_key.ptr, NM_PRIVATE_SIZE);
  int status = nm_x25519_public(id->public_key, id->private_key);
  if (status == NM_OK) {
    status = nm_ed25519_sign_key_init(&id->sign, id->private_key + NM_KEY_SIZE);
  }
  if (status != NM_OK) {
    nm_identity_wipe(id);
    return status;
  }
  memcpy(id->public_key + NM_KEY_SIZE, id->sign.public_key, NM_KEY_SIZE);
  id->has_private = true;
  nm_identity_hash_of(&id->hash, id->public_key);
  return NM_OK;
}

int nm_identity_init_public(nm_identity *id, nm_span public_key) {
  if (public_key.len != NM_PUBLIC_SIZE) {
    return NM_E(LENGTH);
  }
  memset(id, 0, sizeof *id);
  memcpy(id->public_key, public_key.ptr, NM_PUBLIC_SIZE);
  nm_identity_hash_of(&id->hash, id->public_key);
  return NM_OK;
}

void nm_identity_wipe(nm_identity *id) {
  nm_wipe(id, sizeof *id);
}

void nm_identity_hash_of(nm_identity_hash *out,
                         const uint8_t public_key[NM_PUBLIC_SIZE]) {
  nm_truncated_hash(out->b, nm_span_of(public_key, NM_PUBLIC_SIZE));
}

int nm_identity_sign(const nm_identity *id, uint8_t sig[NM_SIGNATURE_SIZE],
                     nm_span message) {
  if (!id->has_private) {
    return NM_E(NO_KEY);
  }
  return nm_ed25519_sign(sig, &id->sign, message);
}

int nm_identity_verify(const nm_identity *id, nm_span sig, nm_span message) {
  if (sig.len != NM_SIGNATURE_SIZE) {
    return NM_E(SIGNATURE);
  }
  return nm_ed25519_verify(id->public_key + NM_KEY_SIZE, sig.ptr, message);
}

void nm_ratchet_id(uint8_t out[NM_RATCHET_ID_SIZE],
                   const uint8_t ratchet_public[NM_KEY_SIZE]) {
  uint8_t full[NM_HASH_SIZE];
  nm_sha256(full, nm_span_of(ratchet_public, NM_KEY_SIZE));
  memcpy(out, full, NM_RATCHET_ID_SIZE);
}

int nm_identity_token_key(nm_token_key *k,
                          const uint8_t private_key[NM_KEY_SIZE],
                          const uint8_t public_key[NM_KEY_SIZE],
                          const nm_identity_hash *salt) {
  uint8_t shared[NM_KEY_SIZE];
  uint8_t key[64];
  nm_span none = {NULL, 0};
  int status = nm_x25519(shared, private_key, public_key);
  if (status == NM_OK) {
    status = nm_hkdf(key, sizeof key, nm_span_of(shared, sizeof shared),
                     nm_span_of(salt->b, sizeof salt->b), none);
  }
  if (status == NM_OK) {
    status = nm_token_key_init(k, nm_span_of(key, sizeof key));
  }
  nm_wipe(shared, sizeof shared);
  nm_wipe(key, sizeof key);
  return status;
}

int nm_identity_encrypt(nm_cipher *c, const nm_encrypt_params *params,
                        nm_span plain, uint8_t *out) {
  nm_token_key k;
  int status = nm_identity_token_key(&k, params->ephemeral, params->target,
                                     params->salt);
  if (status != NM_OK) {
    return status;
  }
  if (params->ephemeral_public != NULL) {
    memcpy(out, params->ephemeral_public, NM_KEY_SIZE);
  } else {
    status = nm_x25519_public(out, params->ephemeral);
  }
  if (status == NM_OK) {
    status = nm_token_seal(c, &k, params->iv, plain, out + NM_KEY_SIZE);
  }
  nm_token_key_wipe(&k);
  return status;
}

/* Tries one key. NM_E(AUTH) also when it gives no usable secret: the next one
 * may. */
static int decrypt_with(nm_cipher *c, const uint8_t private_key[NM_KEY_SIZE],
                        const nm_identity_hash *salt, nm_span in, uint8_t *out,
                        size_t *out_len) {
  nm_token_key k;
  nm_span token = nm_span_of(in.ptr + NM_KEY_SIZE, in.len - NM_KEY_SIZE);
  int status = nm_identity_token_key(&k, private_key, in.ptr, salt);
  if (status != NM_OK) {
    return status == NM_E(KEY) ? NM_E(AUTH) : status;
  }
  status = nm_token_open(c, &k, token, out, out_len);
  nm_token_key_wipe(&k);
  return status;
}

int nm_identity_decrypt(nm_cipher *c, const nm_decrypt_keys *keys, nm_span in,
                        uint8_t *out, size_t *out_len, ptrdiff_t *opened_by) {
  if (in.len < NM_ENCRYPTED_SIZE_MIN) {
    return NM_E(TRUNCATED);
  }
  int status = NM_E(NO_KEY);
  ptrdiff_t by = NM_OPENED_BY_IDENTITY;
  for (size_t i = 0; i < keys->ratchet_count; i++) {
    status = decrypt_with(c, keys->ratchets[i], keys->salt, in, out, out_len);
    if (status != NM_E(AUTH)) {
      by = (ptrdiff_t)i;
      break;
    }
  }
  if ((status == NM_E(AUTH) || status == NM_E(NO_KEY)) &&
      keys->identity != NULL) {
    status = decrypt_with(c, keys->identity, keys->salt, in, out, out_len);
  }
  if (status == NM_OK && opened_by != NULL) {
    *opened_by = by;
  }
  return status;
}
