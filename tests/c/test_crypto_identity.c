#include "support.h"

#include "crypto/identity.h"

#include <string.h>

static nm_cipher open_cipher(void) {
  nm_cipher c;
  NM_CHECK_OK(nm_cipher_open(&c, NULL));
  return c;
}

static nm_identity_hash hash_of(nm_span bytes) {
  nm_identity_hash h;
  NM_CHECK_INT(bytes.len, sizeof h.b);
  memcpy(h.b, bytes.ptr, sizeof h.b);
  return h;
}

/* The field under either of the names that the three files use. */
static nm_span either(const nm_vector *v, const char *a, const char *b) {
  return nm_vector_bytes(v, nm_vector_has(v, a) ? a : b);
}

static void check_identity_vector(const nm_vector *v) {
  nm_span private_key = either(v, "input.private_key",
                               "input.private_key_x25519_then_ed25519_seed");
  nm_span public_key =
      either(v, "output.public_key", "output.public_key_x25519_then_ed25519");
  nm_span hash = either(v, "output.hash", "output.identity_hash");
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_private(&id, private_key));
  NM_CHECK(id.has_private);
  NM_CHECK_SPAN(nm_span_of(id.private_key, 64), private_key);
  NM_CHECK_SPAN(nm_span_of(id.public_key, 64), public_key);
  NM_CHECK_SPAN(nm_span_of(id.hash.b, 16), hash);
  NM_CHECK_OK(nm_identity_init_public(&id, public_key));
  NM_CHECK(!id.has_private);
  NM_CHECK_SPAN(nm_span_of(id.hash.b, 16), hash);
}

NM_TEST(identities_match_the_vectors) {
  nm_vectors_each(NULL, "identity", 9, check_identity_vector);
}

static void check_ratchet_vector(const nm_vector *v) {
  uint8_t public_key[32];
  uint8_t id[NM_RATCHET_ID_SIZE];
  NM_CHECK_OK(nm_x25519_public(
      public_key, nm_vector_bytes(v, "input.ratchet_private").ptr));
  NM_CHECK_SPAN(nm_span_of(public_key, 32),
                nm_vector_bytes(v, "output.ratchet_public"));
  nm_ratchet_id(id, public_key);
  NM_CHECK_SPAN(nm_span_of(id, sizeof id),
                nm_vector_bytes(v, "output.ratchet_id"));
}

NM_TEST(ratchet_ids_match_the_vectors) {
  nm_vectors_each(NULL, "ratchet_id", 1, check_ratchet_vector);
}

/* Encrypts as the vector says, with and without a ready ephemeral public
 * key. */
static void check_encryption(const uint8_t *target, nm_span salt,
                             const uint8_t *ephemeral, const uint8_t *iv,
                             nm_span plain, nm_span expected) {
  nm_cipher c = open_cipher();
  nm_identity_hash hash = hash_of(salt);
  nm_encrypt_params p = {target, &hash, ephemeral, NULL, iv};
  size_t size = nm_identity_encrypted_size(plain.len);
  uint8_t *out = nm_test_scratch(size);
  NM_CHECK_INT(size, expected.len);
  NM_CHECK_OK(nm_identity_encrypt(&c, &p, plain, out));
  NM_CHECK_SPAN(nm_span_of(out, size), expected);
  uint8_t ready[32];
  memcpy(ready, out, 32);
  memset(out, 0, size);
  p.ephemeral_public = ready;
  NM_CHECK_OK(nm_identity_encrypt(&c, &p, plain, out));
  NM_CHECK_SPAN(nm_span_of(out, size), expected);
  nm_cipher_close(&c);
}

static void check_decryption(const uint8_t *ratchet, const uint8_t *identity,
                             nm_span salt, nm_span in, nm_span expected) {
  nm_cipher c = open_cipher();
  nm_identity_hash hash = hash_of(salt);
  const uint8_t *ratchets[1] = {ratchet};
  nm_decrypt_keys keys = {ratchets, ratchet != NULL ? 1 : 0, identity, &hash};
  uint8_t *out = nm_test_scratch(in.len);
  size_t len = 0;
  ptrdiff_t by = 99;
  NM_CHECK_OK(nm_identity_decrypt(&c, &keys, in, out, &len, &by));
  NM_CHECK_SPAN(nm_span_of(out, len), expected);
  NM_CHECK_INT(by, ratchet != NULL ? 0 : NM_OPENED_BY_IDENTITY);
  nm_cipher_close(&c);
}

static void check_core_encrypt(const nm_vector *v) {
  check_encryption(nm_vector_bytes(v, "input.recipient_public_key").ptr,
                   nm_vector_bytes(v, "input.recipient_hash"),
                   nm_vector_bytes(v, "input.ephemeral_private").ptr,
                   nm_vector_bytes(v, "input.iv").ptr,
                   nm_vector_bytes(v, "input.plaintext"),
                   nm_vector_bytes(v, "output.ciphertext"));
}

static void check_core_ratchet(const nm_vector *v) {
  nm_span salt = nm_vector_bytes(v, "input.recipient_hash");
  nm_span plain = nm_vector_bytes(v, "input.plaintext");
  nm_span sealed = nm_vector_bytes(v, "output.ciphertext");
  check_encryption(nm_vector_bytes(v, "input.ratchet_public").ptr, salt,
                   nm_vector_bytes(v, "input.ephemeral_private").ptr,
                   nm_vector_bytes(v, "input.iv").ptr, plain, sealed);
  check_decryption(nm_vector_bytes(v, "input.ratchet_private").ptr, NULL, salt,
                   sealed, plain);
}

static void check_lxmf_encrypt(const nm_vector *v) {
  nm_span salt = nm_vector_bytes(v, "input.recipient_identity_hash");
  nm_span plain = nm_vector_bytes(v, "input.plaintext");
  nm_span sealed = nm_vector_bytes(v, "output.ciphertext");
  nm_span base = nm_vector_bytes(v, "input.recipient_private_key");
  bool has_ratchet = nm_vector_has(v, "input.ratchet_private_key");
  const uint8_t *ratchet =
      has_ratchet ? nm_vector_bytes(v, "input.ratchet_private_key").ptr : NULL;
  uint8_t target[32];
  NM_CHECK_OK(nm_x25519_public(target, has_ratchet ? ratchet : base.ptr));
  check_encryption(target, salt,
                   nm_vector_bytes(v, "input.ephemeral_private_key").ptr,
                   nm_vector_bytes(v, "input.iv").ptr, plain, sealed);
  check_decryption(ratchet, base.ptr, salt, sealed, plain);
}

NM_TEST(encryption_matches_the_vectors) {
  nm_vectors_each(NULL, "identity_encrypt", 3, check_core_encrypt);
  nm_vectors_each(NULL, "identity_encrypt_ratchet", 1, check_core_ratchet);
  nm_vectors_each(NULL, "encrypt", 4, check_lxmf_encrypt);
}

static nm_identity random_identity(void) {
  uint8_t bytes[64];
  nm_identity id;
  nm_test_random_bytes(bytes, sizeof bytes);
  NM_CHECK_OK(nm_identity_init_private(&id, nm_span_of(bytes, 64)));
  return id;
}

NM_TEST(only_64_bytes_make_an_identity) {
  uint8_t bytes[100] = {1};
  nm_identity id;
  for (size_t len = 0; len < sizeof bytes; len++) {
    int expected = len == 64 ? NM_OK : NM_E(LENGTH);
    nm_span s = nm_span_of(bytes, len);
    NM_CHECK_STATUS(nm_identity_init_private(&id, s), expected);
    NM_CHECK_STATUS(nm_identity_init_public(&id, s), expected);
  }
}

NM_TEST(signing_needs_the_private_key_and_verifying_does_not) {
  nm_identity id = random_identity();
  nm_identity public_only;
  uint8_t sig[64];
  nm_span m = nm_span_of("message", 7);
  NM_CHECK_OK(
      nm_identity_init_public(&public_only, nm_span_of(id.public_key, 64)));
  NM_CHECK_OK(nm_identity_sign(&id, sig, m));
  NM_CHECK_STATUS(nm_identity_sign(&public_only, sig, m), NM_E(NO_KEY));
  NM_CHECK_OK(nm_identity_verify(&public_only, nm_span_of(sig, 64), m));
  NM_CHECK_STATUS(nm_identity_verify(&id, nm_span_of(sig, 63), m),
                  NM_E(SIGNATURE));
  NM_CHECK_STATUS(nm_identity_verify(&id, nm_span_of(sig, 0), m),
                  NM_E(SIGNATURE));
  sig[0] ^= 1;
  NM_CHECK_STATUS(nm_identity_verify(&id, nm_span_of(sig, 64), m),
                  NM_E(SIGNATURE));
  static const nm_identity zero;
  nm_identity_wipe(&id);
  NM_CHECK(memcmp(&id, &zero, sizeof id) == 0);
}

#define RATCHETS 5

/* An identity, ratchets, and a message sealed to one of its keys. */
typedef struct scene {
  nm_identity id;
  uint8_t ratchet[RATCHETS][32];
  const uint8_t *ratchets[RATCHETS];
  uint8_t sealed[112];
  nm_cipher c;
} scene;

/* |to| is a ratchet's index or NM_OPENED_BY_IDENTITY. */
static void seal_to(scene *s, ptrdiff_t to) {
  uint8_t target[32];
  uint8_t ephemeral[32];
  uint8_t iv[16];
  nm_test_random_bytes(ephemeral, sizeof ephemeral);
  nm_test_random_bytes(iv, sizeof iv);
  NM_CHECK_OK(
      nm_x25519_public(target, to < 0 ? s->id.private_key : s->ratchet[to]));
  nm_encrypt_params p = {target, &s->id.hash, ephemeral, NULL, iv};
  NM_CHECK_OK(nm_identity_encrypt(
      &s->c, &p, nm_span_of("twenty bytes of text", 20), s->sealed));
}

static scene new_scene(void) {
  scene s;
  s.id = random_identity();
  nm_test_random_bytes(s.ratchet, sizeof s.ratchet);
  s.c = open_cipher();
  return s;
}

static int open_scene(scene *s, size_t ratchets, bool enforced, size_t in_len,
                      ptrdiff_t *by) {
  uint8_t out[112];
  size_t len = 0;
  for (size_t i = 0; i < RATCHETS; i++) {
    s->ratchets[i] = s->ratchet[i];
  }
  nm_decrypt_keys keys = {s->ratchets, ratchets,
                          enforced ? NULL : s->id.private_key, &s->id.hash};
  int status = nm_identity_decrypt(&s->c, &keys, nm_span_of(s->sealed, in_len),
                                   out, &len, by);
  if (status == NM_OK) {
    NM_CHECK_SPAN(nm_span_of(out, len), nm_span_of("twenty bytes of text", 20));
  }
  return status;
}

NM_TEST(the_ratchet_that_opened_a_message_is_reported) {
  scene s = new_scene();
  for (ptrdiff_t to = NM_OPENED_BY_IDENTITY; to < RATCHETS; to++) {
    ptrdiff_t by = 99;
    seal_to(&s, to);
    NM_CHECK_OK(open_scene(&s, RATCHETS, false, 112, &by));
    NM_CHECK_INT(by, to);
    NM_CHECK_OK(open_scene(&s, RATCHETS, false, 112, NULL));
  }
  nm_cipher_close(&s.c);
}

NM_TEST(enforced_ratchets_leave_the_identity_key_out) {
  scene s = new_scene();
  ptrdiff_t by = 99;
  seal_to(&s, NM_OPENED_BY_IDENTITY);
  NM_CHECK_STATUS(open_scene(&s, RATCHETS, true, 112, &by), NM_E(AUTH));
  NM_CHECK_STATUS(open_scene(&s, 0, true, 112, &by), NM_E(NO_KEY));
  NM_CHECK_OK(open_scene(&s, 0, false, 112, &by));
  seal_to(&s, 4);
  NM_CHECK_STATUS(open_scene(&s, 4, true, 112, &by), NM_E(AUTH));
  NM_CHECK_STATUS(open_scene(&s, 4, false, 112, &by), NM_E(AUTH));
  NM_CHECK_INT(by, NM_OPENED_BY_IDENTITY);
  nm_cipher_close(&s.c);
}

NM_TEST(what_is_cut_or_changed_does_not_open) {
  scene s = new_scene();
  ptrdiff_t by = 99;
  seal_to(&s, 0);
  for (size_t len = 0; len < 112; len++) {
    int expected = len < 96 ? NM_E(TRUNCATED) : NM_E(AUTH);
    NM_CHECK_STATUS(open_scene(&s, 1, false, len, &by), expected);
  }
  for (size_t at = 0; at < 112; at++) {
    /* The top bit of the ephemeral key is not significant. */
    uint8_t flip = at == 31 ? 0x01 : 0x80;
    s.sealed[at] ^= flip;
    NM_CHECK_STATUS(open_scene(&s, 1, false, 112, &by), NM_E(AUTH));
    s.sealed[at] ^= flip;
  }
  NM_CHECK_INT(by, 99);
  memset(s.sealed, 0, 32); /* a key that gives a zero secret */
  NM_CHECK_STATUS(open_scene(&s, 1, false, 112, &by), NM_E(AUTH));
  nm_cipher_close(&s.c);
}

NM_TEST(nothing_is_encrypted_to_a_key_without_a_secret) {
  uint8_t zero[32] = {0};
  uint8_t ephemeral[32] = {1};
  uint8_t out[96];
  nm_identity_hash hash = {{0}};
  nm_cipher c = open_cipher();
  nm_encrypt_params p = {zero, &hash, ephemeral, NULL, zero};
  NM_CHECK_STATUS(nm_identity_encrypt(&c, &p, nm_span_of("x", 1), out),
                  NM_E(KEY));
  nm_cipher_close(&c);
}

/* A message with a good MAC and bad padding, sealed by hand. */
NM_TEST(an_authentic_message_with_bad_padding_says_so) {
  nm_identity id = random_identity();
  uint8_t ephemeral[32] = {3};
  uint8_t in[96] = {0};
  uint8_t out[96];
  uint8_t block[16];
  size_t len;
  nm_token_key k;
  nm_cipher c = open_cipher();
  memset(block, 0x44, sizeof block);
  NM_CHECK_OK(nm_x25519_public(in, ephemeral));
  NM_CHECK_OK(nm_identity_token_key(&k, ephemeral, id.public_key, &id.hash));
  NM_CHECK_OK(nm_aes_cbc_encrypt(&c, nm_span_of(k.cipher, 32), in + 32,
                                 nm_span_of(block, 16), in + 48));
  nm_hmac_key_mac(&k.mac, in + 64, nm_span_of(in + 32, 32));
  nm_decrypt_keys keys = {NULL, 0, id.private_key, &id.hash};
  NM_CHECK_STATUS(
      nm_identity_decrypt(&c, &keys, nm_span_of(in, 96), out, &len, NULL),
      NM_E(PADDING));
  nm_cipher_close(&c);
}
