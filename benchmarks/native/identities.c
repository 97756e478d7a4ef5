/* Identities with 2048-byte messages, and tokens of 464 bytes. */
#include "bench.h"
#include "fixtures.h"

#include <string.h>

#define MESSAGE_SIZE 2048
#define TOKEN_SIZE 464
#define SEALED_MAX (MESSAGE_SIZE + 128)
typedef struct pair {
  uint8_t private_key[NM_KEY_SIZE];
  uint8_t public_key[NM_KEY_SIZE];
} pair;

typedef struct identities {
  size_t count;
  size_t size; /* of a message */
  nm_identity id;
  nm_token_key token;
  nm_cipher cipher;
  nm_entropy_pool random;
  uint8_t messages[NB_COUNT][MESSAGE_SIZE];
  uint8_t signatures[NB_COUNT][NM_SIGNATURE_SIZE];
  uint8_t sealed[NB_COUNT][SEALED_MAX];
  size_t sealed_len;
  uint8_t out[SEALED_MAX];
  size_t out_len;
  uint8_t opened[SEALED_MAX];
  pair *pool; /* of encrypt.pooled: key pairs that were not used yet */
  size_t pooled;
  size_t pool_cap;
} identities;

static nm_span message_of(const identities *s, size_t i) {
  return nm_span_of(s->messages[i], s->size);
}

static nm_span sealed_of(const identities *s, size_t i) {
  return nm_span_of(s->sealed[i], s->sealed_len);
}

static int prepare_keys(const nb_row *row, void **state, const char *label) {
  identities *s = nb_state(state, sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->count = row->inputs;
  s->size = row->size;
  for (size_t i = 0; i < s->count; i++) {
    nb_stream(label, i, s->messages[i], s->size);
  }
  uint8_t key[64];
  nb_stream("token.key", 0, key, sizeof key);
  int status = nm_token_key_init(&s->token, nm_span_of(key, sizeof key));
  if (status == NM_OK) {
    status = nb_identity(&s->id, "identity", 0);
  }
  if (status == NM_OK) {
    status = nb_random_open(&s->random);
  }
  return status == NM_OK ? nm_cipher_open(&s->cipher, NULL) : status;
}

static void dispose(void *state) {
  identities *s = (identities *)state;
  nm_cipher_close(&s->cipher);
  nm_entropy_pool_wipe(&s->random);
  nm_identity_wipe(&s->id);
  nm_token_key_wipe(&s->token);
  nm_release(&nm_mem_system, s->pool);
  nm_release(&nm_mem_system, s);
}

static int evidence_of(identities *s, nm_span opened, size_t i,
                       nm_span *evidence) {
  *evidence = opened;
  return nm_span_equal(opened, message_of(s, i)) ? NM_OK : NM_E(MISMATCH);
}

/* --- Signatures --- */

static inline int sign_once(identities *s, size_t i) {
  int status = nm_identity_sign(&s->id, s->out, message_of(s, i));
  nb_use(s->out);
  return status;
}

NB_RUN(sign_run, identities, sign_once);

static int check_sign(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  *evidence = nm_span_of(s->out, NM_SIGNATURE_SIZE);
  return nm_identity_verify(&s->id, *evidence, message_of(s, i));
}

static int prepare_signer(const nb_row *row, void **state) {
  return prepare_keys(row, state, "identity.message");
}

static int prepare_verifier(const nb_row *row, void **state) {
  int status = prepare_signer(row, state);
  identities *s = (identities *)*state;
  for (size_t i = 0; status == NM_OK && i < s->count; i++) {
    status = nm_identity_sign(&s->id, s->signatures[i], message_of(s, i));
  }
  return status;
}

static inline int verify_once(identities *s, size_t i) {
  nm_span signature = nm_span_of(s->signatures[i], NM_SIGNATURE_SIZE);
  int status = nm_identity_verify(&s->id, signature, message_of(s, i));
  nb_use(s);
  return status;
}

NB_RUN(verify_run, identities, verify_once);

/* Also that a forged signature is refused. */
static int check_verify(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  *evidence = nm_span_of(s->signatures[i], NM_SIGNATURE_SIZE);
  s->signatures[i][40] ^= 1;
  int forged = verify_once(s, i);
  s->signatures[i][40] ^= 1;
  return forged == NM_E(SIGNATURE) ? NM_OK : NM_E(SIGNATURE);
}

/* --- Encryption to an identity --- */

static inline int seal(identities *s, size_t i, uint8_t *out) {
  uint8_t ephemeral[NM_KEY_SIZE];
  uint8_t iv[NM_AES_BLOCK];
  int status = nm_entropy_pool_fill(&s->random, ephemeral, sizeof ephemeral);
  if (status == NM_OK) {
    status = nm_entropy_pool_fill(&s->random, iv, sizeof iv);
  }
  if (status == NM_OK) {
    nm_encrypt_params params = {.target = s->id.public_key,
                                .salt = &s->id.hash,
                                .ephemeral = ephemeral,
                                .iv = iv};
    status = nm_identity_encrypt(&s->cipher, &params, message_of(s, i), out);
  }
  nm_wipe(ephemeral, sizeof ephemeral);
  return status;
}

static inline int open_sealed(identities *s, nm_span sealed, uint8_t *out,
                              size_t *len) {
  nm_decrypt_keys keys = {.identity = s->id.private_key, .salt = &s->id.hash};
  return nm_identity_decrypt(&s->cipher, &keys, sealed, out, len, NULL);
}

static inline int encrypt_once(identities *s, size_t i) {
  int status = seal(s, i, s->out);
  nb_use(s->out);
  return status;
}

NB_RUN(encrypt_run, identities, encrypt_once);

static int check_encrypt(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  nm_span sealed = nm_span_of(s->out, nm_identity_encrypted_size(s->size));
  size_t len = 0;
  int status = open_sealed(s, sealed, s->opened, &len);
  if (status != NM_OK) {
    return status;
  }
  return evidence_of(s, nm_span_of(s->opened, len), i, evidence);
}

/* Makes a key pair for each call: every pair is used once. */
static int refill_pool(void *state, uint64_t calls) {
  identities *s = (identities *)state;
  if (calls > s->pool_cap) {
    void *more =
        calls > SIZE_MAX / sizeof(pair)
            ? NULL
            : nm_resize(&nm_mem_system, s->pool, (size_t)calls * sizeof(pair));
    if (more == NULL) {
      return NM_E(MEMORY);
    }
    s->pool = more;
    s->pool_cap = (size_t)calls;
  }
  int status = NM_OK;
  for (s->pooled = 0; s->pooled < calls && status == NM_OK; s->pooled++) {
    pair *fresh = &s->pool[s->pooled];
    status = nm_entropy_pool_fill(&s->random, fresh->private_key, NM_KEY_SIZE);
    if (status == NM_OK) {
      status = nm_x25519_public(fresh->public_key, fresh->private_key);
    }
  }
  return status;
}

static inline int pooled_once(identities *s, size_t i) {
  uint8_t iv[NM_AES_BLOCK];
  int status = nm_entropy_pool_fill(&s->random, iv, sizeof iv);
  if (status != NM_OK || s->pooled == 0) {
    return status != NM_OK ? status : NM_E(EMPTY);
  }
  pair *used = &s->pool[--s->pooled];
  nm_encrypt_params params = {.target = s->id.public_key,
                              .salt = &s->id.hash,
                              .ephemeral = used->private_key,
                              .ephemeral_public = used->public_key,
                              .iv = iv};
  status = nm_identity_encrypt(&s->cipher, &params, message_of(s, i), s->out);
  nm_wipe(used, sizeof *used);
  nb_use(s->out);
  return status;
}

NB_RUN(pooled_run, identities, pooled_once);

static int prepare_sealed(const nb_row *row, void **state) {
  int status = prepare_signer(row, state);
  identities *s = (identities *)*state;
  for (size_t i = 0; status == NM_OK && i < s->count; i++) {
    status = seal(s, i, s->sealed[i]);
  }
  if (status == NM_OK) {
    s->sealed_len = nm_identity_encrypted_size(s->size);
  }
  return status;
}

static inline int decrypt_once(identities *s, size_t i) {
  int status = open_sealed(s, sealed_of(s, i), s->out, &s->out_len);
  nb_use(s->out);
  return status;
}

NB_RUN(decrypt_run, identities, decrypt_once);

static int check_decrypt(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  return evidence_of(s, nm_span_of(s->out, s->out_len), i, evidence);
}

/* --- Tokens under a prepared key --- */

static int prepare_token(const nb_row *row, void **state) {
  return prepare_keys(row, state, "token.plaintext");
}

static inline int seal_token(identities *s, size_t i, uint8_t *out) {
  uint8_t iv[NM_AES_BLOCK];
  int status = nm_entropy_pool_fill(&s->random, iv, sizeof iv);
  return status == NM_OK
             ? nm_token_seal(&s->cipher, &s->token, iv, message_of(s, i), out)
             : status;
}

static inline int token_seal_once(identities *s, size_t i) {
  int status = seal_token(s, i, s->out);
  nb_use(s->out);
  return status;
}

NB_RUN(token_seal_run, identities, token_seal_once);

static int check_token_seal(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  nm_span token = nm_span_of(s->out, nm_token_size(s->size));
  size_t len = 0;
  int status = nm_token_open(&s->cipher, &s->token, token, s->opened, &len);
  if (status != NM_OK) {
    return status;
  }
  return evidence_of(s, nm_span_of(s->opened, len), i, evidence);
}

static int prepare_tokens(const nb_row *row, void **state) {
  int status = prepare_token(row, state);
  identities *s = (identities *)*state;
  for (size_t i = 0; status == NM_OK && i < s->count; i++) {
    status = seal_token(s, i, s->sealed[i]);
  }
  if (status == NM_OK) {
    s->sealed_len = nm_token_size(s->size);
  }
  return status;
}

static inline int token_open_once(identities *s, size_t i) {
  int status = nm_token_open(&s->cipher, &s->token, sealed_of(s, i), s->out,
                             &s->out_len);
  nb_use(s->out);
  return status;
}

NB_RUN(token_open_run, identities, token_open_once);

/* Also that a forged token is refused. */
static int check_token_open(void *state, size_t i, nm_span *evidence) {
  identities *s = (identities *)state;
  size_t len = 0;
  s->sealed[i][20] ^= 1;
  int forged =
      nm_token_open(&s->cipher, &s->token, sealed_of(s, i), s->opened, &len);
  s->sealed[i][20] ^= 1;
  int status = check_decrypt(s, i, evidence);
  return status == NM_OK && forged != NM_E(AUTH) ? NM_E(AUTH) : status;
}

#define SIGN_NOTE "nm_identity_sign of 2048 bytes with an expanded key"
#define VERIFY_NOTE "nm_identity_verify of 2048 bytes"
#define ENCRYPT_NOTE                                                           \
  "ephemeral key and IV from a buffered generator, nm_identity_encrypt of "    \
  "2048 bytes into a given buffer (2144 bytes): X25519 twice, HKDF, "          \
  "AES-256-CBC, HMAC; without ratchet"
#define POOLED_NOTE                                                            \
  "as identity.encrypt with ephemeral key pairs that were made before the "    \
  "clock started, each used once"
#define DECRYPT_NOTE                                                           \
  "nm_identity_decrypt of 2144 bytes into a given buffer, without ratchet"
#define SEAL_NOTE                                                              \
  "nm_token_seal of 464 bytes with a prepared key into a given buffer (528 "   \
  "bytes), IV from a buffered generator"
#define OPEN_NOTE                                                              \
  "nm_token_open of 528 bytes with a prepared key into a given buffer: HMAC "  \
  "check, then AES"

#define ROW(row_id, text, bytes, number, make, does, checks)                   \
  {                                                                            \
    .id = row_id, .note = text, .size = bytes, .inputs = number,               \
    .prepare = make, .run = does, .check = checks, .dispose = dispose          \
  }

const nb_row nb_identity_rows[] = {
    ROW("identity.sign", SIGN_NOTE, MESSAGE_SIZE, NB_COUNT, prepare_signer,
        sign_run, check_sign),
    ROW("identity.verify", VERIFY_NOTE, MESSAGE_SIZE, NB_COUNT,
        prepare_verifier, verify_run, check_verify),
    ROW("identity.encrypt", ENCRYPT_NOTE, MESSAGE_SIZE, NB_COUNT,
        prepare_signer, encrypt_run, check_encrypt),
    {.id = "encrypt.pooled",
     .note = POOLED_NOTE,
     .size = MESSAGE_SIZE,
     .inputs = NB_COUNT,
     .prepare = prepare_signer,
     .run = pooled_run,
     .check = check_encrypt,
     .dispose = dispose,
     .refill = refill_pool},
    ROW("identity.decrypt", DECRYPT_NOTE, MESSAGE_SIZE, NB_COUNT,
        prepare_sealed, decrypt_run, check_decrypt),
    ROW("token.encrypt.464", SEAL_NOTE, TOKEN_SIZE, NB_COUNT, prepare_token,
        token_seal_run, check_token_seal),
    ROW("token.decrypt.464", OPEN_NOTE, TOKEN_SIZE, NB_COUNT, prepare_tokens,
        token_open_run, check_token_open),
    ROW("published.identity.sign", SIGN_NOTE, MESSAGE_SIZE, 1, prepare_signer,
        sign_run, check_sign),
    ROW("published.identity.verify", VERIFY_NOTE, MESSAGE_SIZE, 1,
        prepare_verifier, verify_run, check_verify),
    ROW("published.identity.encrypt", ENCRYPT_NOTE, MESSAGE_SIZE, 1,
        prepare_signer, encrypt_run, check_encrypt),
    ROW("published.identity.decrypt", DECRYPT_NOTE, MESSAGE_SIZE, 1,
        prepare_sealed, decrypt_run, check_decrypt),
    {.id = NULL},
};
