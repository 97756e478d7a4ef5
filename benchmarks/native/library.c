/* What the linked libraries need for the same work when they are called
 * directly: the bound that the rows with signatures and key exchanges are
 * measured against. Ready inputs, no protocol: libsodium for the curves,
 * libcrypto for AES-256-CBC and HMAC-SHA-256.
 */
#include "bench.h"
#include "fixtures.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sodium.h>
#include <string.h>

#define MESSAGE_MAX (NB_LARGE + 512)
#define IV_SIZE 16
#define TOKEN_KEY 64

/* Sizes of what is signed: the hashed data of a message with its id behind, and
 * the signed part of an announce. */
#define SIGNED_21 111
#define SIGNED_2K 2145
#define SIGNED_16K 16484
#define SIGNED_ANNOUNCE 122

/* The label of the inputs that are messages with an id. */
static const char messages_label[] = "library.signed";

typedef struct library {
  size_t count;
  size_t size;
  uint8_t *messages[NB_COUNT];
  uint8_t signatures[NB_COUNT][crypto_sign_BYTES];
  uint8_t public_keys[NB_COUNT][crypto_sign_PUBLICKEYBYTES];
  uint8_t secret_keys[NB_COUNT][crypto_sign_SECRETKEYBYTES];
  uint8_t peer_private[crypto_scalarmult_SCALARBYTES];
  uint8_t peer_public[crypto_scalarmult_BYTES];
  uint8_t salt[NM_ADDRESS_SIZE];
  uint8_t token_key[TOKEN_KEY];
  EVP_CIPHER_CTX *cipher;
  uint8_t *sealed[NB_COUNT];
  size_t sealed_len;
  uint8_t out[MESSAGE_MAX];
  size_t out_len;
  uint8_t opened[MESSAGE_MAX];
} library;

/* Puts the id of a message behind its hashed data, as the library hashes. */
static inline bool hash_message(library *l, size_t i) {
  size_t hashed = l->size - NM_HASH_SIZE;
  return SHA256(l->messages[i], hashed, l->messages[i] + hashed) != NULL;
}

static int make_input(library *l, const nb_row *row, size_t i) {
  uint8_t seed[crypto_sign_SEEDBYTES];
  l->messages[i] = nb_stream_new(row->option, i, row->size);
  l->sealed[i] = nm_alloc(&nm_mem_system, MESSAGE_MAX);
  if (l->messages[i] == NULL || l->sealed[i] == NULL) {
    return NM_E(MEMORY);
  }
  if (row->option == messages_label) {
    hash_message(l, i);
  }
  nb_stream("library.seed", i, seed, sizeof seed);
  crypto_sign_seed_keypair(l->public_keys[i], l->secret_keys[i], seed);
  crypto_sign_detached(l->signatures[i], NULL, l->messages[i], row->size,
                       l->secret_keys[i]);
  return NM_OK;
}

static int prepare(const nb_row *row, void **state) {
  library *l = nb_state(state, sizeof *l);
  if (l == NULL) {
    return NM_E(MEMORY);
  }
  l->count = row->inputs;
  l->size = row->size;
  nb_stream("library.peer", 0, l->peer_private, sizeof l->peer_private);
  nb_stream("library.salt", 0, l->salt, sizeof l->salt);
  nb_stream("token.key", 0, l->token_key, sizeof l->token_key);
  l->cipher = EVP_CIPHER_CTX_new();
  if (l->cipher == NULL ||
      crypto_scalarmult_base(l->peer_public, l->peer_private) != 0) {
    return NM_E(LIBRARY);
  }
  int status = NM_OK;
  for (size_t i = 0; i < l->count && status == NM_OK; i++) {
    status = make_input(l, row, i);
  }
  return status;
}

static void dispose(void *state) {
  library *l = (library *)state;
  for (size_t i = 0; i < NB_COUNT; i++) {
    nm_release(&nm_mem_system, l->messages[i]);
    nm_release(&nm_mem_system, l->sealed[i]);
  }
  EVP_CIPHER_CTX_free(l->cipher);
  nm_release(&nm_mem_system, l);
}

/* --- Signatures --- */

static inline int sign_once(library *l, size_t i) {
  int failed = crypto_sign_detached(l->out, NULL, l->messages[i], l->size,
                                    l->secret_keys[i]);
  nb_use(l->out);
  return failed == 0 ? NM_OK : NM_E(LIBRARY);
}

NB_RUN(sign_run, library, sign_once);

static int check_sign(void *state, size_t i, nm_span *evidence) {
  library *l = (library *)state;
  *evidence = nm_span_of(l->out, crypto_sign_BYTES);
  return memcmp(l->out, l->signatures[i], crypto_sign_BYTES) == 0
             ? NM_OK
             : NM_E(MISMATCH);
}

static inline int message_sign_once(library *l, size_t i) {
  return hash_message(l, i) ? sign_once(l, i) : NM_E(LIBRARY);
}

NB_RUN(message_sign_run, library, message_sign_once);

static inline int verify_once(library *l, size_t i) {
  int failed = crypto_sign_verify_detached(l->signatures[i], l->messages[i],
                                           l->size, l->public_keys[i]);
  nb_use(l);
  return failed == 0 ? NM_OK : NM_E(SIGNATURE);
}

NB_RUN(verify_run, library, verify_once);

static inline int message_verify_once(library *l, size_t i) {
  return hash_message(l, i) ? verify_once(l, i) : NM_E(LIBRARY);
}

NB_RUN(message_verify_run, library, message_verify_once);

static int verify_batch_run(void *state, uint64_t calls, size_t first) {
  int status = NM_OK;
  for (uint64_t i = 0; i < calls && status == NM_OK; i++) {
    status = verify_run(state, NB_BATCH, first);
  }
  return status;
}

static int check_verify(void *state, size_t i, nm_span *evidence) {
  library *l = (library *)state;
  *evidence = nm_span_of(l->signatures[i], crypto_sign_BYTES);
  return NM_OK;
}

/* --- Tokens --- */

static bool mac(const uint8_t *key, size_t key_len, const uint8_t *data,
                size_t len, uint8_t out[32]) {
  unsigned int written = 0;
  return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &written) !=
         NULL;
}

/* IV, ciphertext and MAC to |out|. */
static bool seal(library *l, const uint8_t *key, nm_span plain, uint8_t *out,
                 size_t *out_len) {
  int body = 0;
  int tail = 0;
  randombytes_buf(out, IV_SIZE);
  bool ok =
      EVP_EncryptInit_ex(l->cipher, EVP_aes_256_cbc(), NULL, key + 32, out) &&
      EVP_EncryptUpdate(l->cipher, out + IV_SIZE, &body, plain.ptr,
                        (int)plain.len) &&
      EVP_EncryptFinal_ex(l->cipher, out + IV_SIZE + body, &tail);
  size_t len = IV_SIZE + (size_t)body + (size_t)tail;
  ok = ok && mac(key, 32, out, len, out + len);
  *out_len = len + 32;
  return ok;
}

static bool unseal(library *l, const uint8_t *key, nm_span token, uint8_t *out,
                   size_t *out_len) {
  uint8_t tag[32];
  size_t len = token.len - sizeof tag;
  int body = 0;
  int tail = 0;
  bool ok = mac(key, 32, token.ptr, len, tag) &&
            sodium_memcmp(tag, token.ptr + len, sizeof tag) == 0 &&
            EVP_DecryptInit_ex(l->cipher, EVP_aes_256_cbc(), NULL, key + 32,
                               token.ptr) &&
            EVP_DecryptUpdate(l->cipher, out, &body, token.ptr + IV_SIZE,
                              (int)(len - IV_SIZE)) &&
            EVP_DecryptFinal_ex(l->cipher, out + body, &tail);
  *out_len = (size_t)body + (size_t)tail;
  return ok;
}

static inline int token_seal_once(library *l, size_t i) {
  bool ok = seal(l, l->token_key, nm_span_of(l->messages[i], l->size), l->out,
                 &l->out_len);
  nb_use(l->out);
  return ok ? NM_OK : NM_E(LIBRARY);
}

NB_RUN(token_seal_run, library, token_seal_once);

static int same_message(library *l, const uint8_t *opened, size_t len, size_t i,
                        nm_span *evidence) {
  *evidence = nm_span_of(opened, len);
  nm_span wanted = nm_span_of(l->messages[i], l->size);
  return nm_span_equal(*evidence, wanted) ? NM_OK : NM_E(MISMATCH);
}

static int check_token_seal(void *state, size_t i, nm_span *evidence) {
  library *l = (library *)state;
  size_t len = 0;
  bool ok =
      unseal(l, l->token_key, nm_span_of(l->out, l->out_len), l->opened, &len);
  return ok ? same_message(l, l->opened, len, i, evidence) : NM_E(AUTH);
}

static int prepare_tokens(const nb_row *row, void **state) {
  int status = prepare(row, state);
  library *l = (library *)*state;
  for (size_t i = 0; status == NM_OK && i < l->count; i++) {
    bool ok = seal(l, l->token_key, nm_span_of(l->messages[i], l->size),
                   l->sealed[i], &l->sealed_len);
    status = ok ? NM_OK : NM_E(LIBRARY);
  }
  return status;
}

static inline int token_open_once(library *l, size_t i) {
  bool ok = unseal(l, l->token_key, nm_span_of(l->sealed[i], l->sealed_len),
                   l->out, &l->out_len);
  nb_use(l->out);
  return ok ? NM_OK : NM_E(AUTH);
}

NB_RUN(token_open_run, library, token_open_once);

static int check_opened(void *state, size_t i, nm_span *evidence) {
  library *l = (library *)state;
  return same_message(l, l->out, l->out_len, i, evidence);
}

/* --- Encryption to a key --- */

/* The 64-byte key of a shared secret: extract, then two blocks. */
static bool derive(const library *l, const uint8_t shared[32],
                   uint8_t key[TOKEN_KEY]) {
  uint8_t prk[32];
  uint8_t block[33];
  bool ok = mac(l->salt, sizeof l->salt, shared, 32, prk);
  block[0] = 1;
  ok = ok && mac(prk, sizeof prk, block, 1, key);
  memcpy(block, key, 32);
  block[32] = 2;
  return ok && mac(prk, sizeof prk, block, sizeof block, key + 32);
}

static bool encrypt(library *l, nm_span plain, uint8_t *out, size_t *out_len) {
  uint8_t ephemeral[32];
  uint8_t shared[32];
  uint8_t key[TOKEN_KEY];
  randombytes_buf(ephemeral, sizeof ephemeral);
  bool ok = crypto_scalarmult_base(out, ephemeral) == 0 &&
            crypto_scalarmult(shared, ephemeral, l->peer_public) == 0 &&
            derive(l, shared, key) && seal(l, key, plain, out + 32, out_len);
  *out_len += 32;
  return ok;
}

static bool decrypt(library *l, nm_span sealed, uint8_t *out, size_t *out_len) {
  uint8_t shared[32];
  uint8_t key[TOKEN_KEY];
  nm_span token = nm_span_slice(sealed, 32, sealed.len - 32);
  return crypto_scalarmult(shared, l->peer_private, sealed.ptr) == 0 &&
         derive(l, shared, key) && unseal(l, key, token, out, out_len);
}

static inline int encrypt_once(library *l, size_t i) {
  bool ok =
      encrypt(l, nm_span_of(l->messages[i], l->size), l->out, &l->out_len);
  nb_use(l->out);
  return ok ? NM_OK : NM_E(LIBRARY);
}

NB_RUN(encrypt_run, library, encrypt_once);

static int check_encrypt(void *state, size_t i, nm_span *evidence) {
  library *l = (library *)state;
  size_t len = 0;
  bool ok = decrypt(l, nm_span_of(l->out, l->out_len), l->opened, &len);
  return ok ? same_message(l, l->opened, len, i, evidence) : NM_E(AUTH);
}

static int prepare_sealed(const nb_row *row, void **state) {
  int status = prepare(row, state);
  library *l = (library *)*state;
  for (size_t i = 0; status == NM_OK && i < l->count; i++) {
    bool ok = encrypt(l, nm_span_of(l->messages[i], l->size), l->sealed[i],
                      &l->sealed_len);
    status = ok ? NM_OK : NM_E(LIBRARY);
  }
  return status;
}

static inline int decrypt_once(library *l, size_t i) {
  bool ok =
      decrypt(l, nm_span_of(l->sealed[i], l->sealed_len), l->out, &l->out_len);
  nb_use(l->out);
  return ok ? NM_OK : NM_E(AUTH);
}

NB_RUN(decrypt_run, library, decrypt_once);

/* --- The curve operations of a handshake --- */

static inline int handshake_once(library *l, size_t i) {
  uint8_t a[32];
  uint8_t b[32];
  uint8_t a_public[32];
  uint8_t b_public[32];
  uint8_t shared[2][32];
  uint8_t seed[crypto_sign_SEEDBYTES];
  uint8_t pk[crypto_sign_PUBLICKEYBYTES];
  uint8_t sk[crypto_sign_SECRETKEYBYTES];
  randombytes_buf(a, sizeof a);
  randombytes_buf(b, sizeof b);
  randombytes_buf(seed, sizeof seed);
  bool ok = crypto_scalarmult_base(a_public, a) == 0 &&
            crypto_sign_seed_keypair(pk, sk, seed) == 0 &&
            crypto_scalarmult_base(b_public, b) == 0 &&
            crypto_scalarmult(shared[0], b, a_public) == 0 &&
            crypto_sign_detached(l->out, NULL, l->messages[i], l->size,
                                 l->secret_keys[i]) == 0 &&
            crypto_sign_verify_detached(l->out, l->messages[i], l->size,
                                        l->public_keys[i]) == 0 &&
            crypto_scalarmult(shared[1], a, b_public) == 0 &&
            memcmp(shared[0], shared[1], sizeof shared[0]) == 0;
  nb_use(l->out);
  return ok ? NM_OK : NM_E(LIBRARY);
}

NB_RUN(handshake_run, library, handshake_once);

#define SIGN_NOTE                                                              \
  "crypto_sign_detached of the bytes that the operation signs, ready made"
#define VERIFY_NOTE                                                            \
  "crypto_sign_verify_detached of the bytes that the operation verifies, "     \
  "ready made"
#define SEAL_NOTE                                                              \
  "randombytes_buf for the IV, EVP AES-256-CBC, HMAC() over the result"
#define OPEN_NOTE "HMAC() compared, EVP AES-256-CBC"

#define ROW(row_id, text, label, bytes, make, does, checks)                    \
  {                                                                            \
    .id = row_id, .note = text, .option = label, .size = bytes,                \
    .inputs = NB_COUNT, .prepare = make, .run = does, .check = checks,         \
    .dispose = dispose                                                         \
  }
#define SIGN(id, label, size)                                                  \
  ROW(id, SIGN_NOTE, label, size, prepare, sign_run, check_sign)
#define VERIFY(id, label, size)                                                \
  ROW(id, VERIFY_NOTE, label, size, prepare, verify_run, check_verify)

#define MESSAGE_SIGN(id, size)                                                 \
  ROW(id, "SHA256() for the message id, then " SIGN_NOTE, messages_label,      \
      size, prepare, message_sign_run, check_sign)
#define MESSAGE_VERIFY(id, size)                                               \
  ROW(id, "SHA256() for the message id, then " VERIFY_NOTE, messages_label,    \
      size, prepare, message_verify_run, check_verify)

const nb_row nb_library_rows[] = {
    MESSAGE_SIGN("lxmf.encode.sign.21", SIGNED_21),
    MESSAGE_SIGN("lxmf.encode.sign.2k", SIGNED_2K),
    MESSAGE_SIGN("lxmf.encode.sign.16k", SIGNED_16K),
    MESSAGE_VERIFY("lxmf.decode.verify.21", SIGNED_21),
    MESSAGE_VERIFY("lxmf.decode.verify.2k", SIGNED_2K),
    MESSAGE_VERIFY("lxmf.decode.verify.16k", SIGNED_16K),
    SIGN("announce.create", "library.announce", SIGNED_ANNOUNCE),
    VERIFY("announce.validate.cold", "library.announce", SIGNED_ANNOUNCE),
    ROW("announce.validate.batch64", VERIFY_NOTE ", 64 in a row",
        "library.announce", SIGNED_ANNOUNCE, prepare, verify_batch_run,
        check_verify),
    SIGN("identity.sign", "identity.message", 2048),
    VERIFY("identity.verify", "identity.message", 2048),
    ROW("identity.encrypt",
        "crypto_scalarmult_base and crypto_scalarmult, three HMAC() for the "
        "key; " SEAL_NOTE,
        "identity.message", 2048, prepare, encrypt_run, check_encrypt),
    ROW("identity.decrypt",
        "crypto_scalarmult, three HMAC() for the key; " OPEN_NOTE,
        "identity.message", 2048, prepare_sealed, decrypt_run, check_opened),
    ROW("token.encrypt.464", SEAL_NOTE, "token.plaintext", 464, prepare,
        token_seal_run, check_token_seal),
    ROW("token.decrypt.464", OPEN_NOTE, "token.plaintext", 464, prepare_tokens,
        token_open_run, check_opened),
    ROW("link.handshake.both",
        "the curve operations alone: crypto_scalarmult_base and "
        "crypto_scalarmult twice each, crypto_sign_seed_keypair, "
        "crypto_sign_detached and crypto_sign_verify_detached of 83 bytes",
        "library.link", 83, prepare, handshake_run, check_sign),
    {.id = NULL},
};
