/* Tokens and messages to an identity. The first byte chooses; the rest is
 * opened as it is, and again with a MAC that fits, so that what comes after the
 * MAC is reached too.
 */
#include "fuzz.h"

#include "crypto/identity.h"

#include <string.h>

static const uint8_t key[64] = {1, 2, 3};

/* Opening must give a named error or no more than the ciphertext's length. */
static void open_token(nm_cipher *c, const nm_token_key *k, nm_span token) {
  uint8_t *out = malloc(token.len + 1);
  size_t len = 0;
  MUST(out != NULL);
  int status = nm_token_open(c, k, token, out, &len);
  MUST(status == NM_OK || status == NM_E(TRUNCATED) || status == NM_E(AUTH) ||
       status == NM_E(LENGTH) || status == NM_E(PADDING));
  MUST(status != NM_OK || len + NM_TOKEN_OVERHEAD <= token.len);
  free(out);
}

/* Replaces the last 32 bytes by the MAC over what is before them. */
static void make_authentic(const nm_token_key *k, uint8_t *token, size_t len) {
  if (len > NM_HASH_SIZE) {
    size_t covered = len - NM_HASH_SIZE;
    nm_hmac_key_mac(&k->mac, token + covered, nm_span_of(token, covered));
  }
}

static void decrypt(nm_cipher *c, const nm_identity *id, nm_span in) {
  const uint8_t *ratchets[1] = {key + 32};
  nm_decrypt_keys keys = {ratchets, 1, id->private_key, &id->hash};
  size_t room =
      in.len > NM_ENCRYPTED_OVERHEAD ? in.len - NM_ENCRYPTED_OVERHEAD : 0;
  uint8_t *out = malloc(room + 1);
  size_t len = 0;
  MUST(out != NULL);
  int status = nm_identity_decrypt(c, &keys, in, out, &len, NULL);
  MUST(status == NM_E(TRUNCATED) || status == NM_E(AUTH) ||
       status == NM_E(LENGTH) || status == NM_E(PADDING) ||
       (status == NM_OK && len <= room));
  free(out);
}

/* Under the key that the message's ephemeral key gives. */
static void decrypt_authentic(nm_cipher *c, const nm_identity *id, uint8_t *in,
                              size_t len) {
  nm_token_key k;
  if (len > NM_KEY_SIZE &&
      nm_identity_token_key(&k, id->private_key, in, &id->hash) == NM_OK) {
    make_authentic(&k, in + NM_KEY_SIZE, len - NM_KEY_SIZE);
    decrypt(c, id, nm_span_of(in, len));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_cipher c;
  nm_token_key k;
  nm_identity id;
  if (size == 0) {
    return 0;
  }
  size_t len = size - 1;
  uint8_t *in = malloc(len + 1);
  MUST(in != NULL);
  memcpy(in, data + 1, len);
  MUST(nm_cipher_open(&c, NULL) == NM_OK);
  MUST(nm_token_key_init(&k, nm_span_of(key, data[0] & 2 ? 32 : 64)) == NM_OK);
  MUST(nm_identity_init_private(&id, nm_span_of(key, 64)) == NM_OK);
  if ((data[0] & 1) == 0) {
    open_token(&c, &k, nm_span_of(in, len));
    make_authentic(&k, in, len);
    MUST(nm_token_check(&k, nm_span_of(in, len)) != NM_E(AUTH));
    open_token(&c, &k, nm_span_of(in, len));
  } else {
    decrypt(&c, &id, nm_span_of(in, len));
    decrypt_authentic(&c, &id, in, len);
  }
  nm_cipher_close(&c);
  free(in);
  return 0;
}
