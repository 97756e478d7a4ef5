#include "crypto/aes.h"

#include <openssl/evp.h>
#include <string.h>

/* One context per key size, because changing the cipher of a context frees and
 * allocates. */
typedef struct openssl_state {
  EVP_CIPHER_CTX *aes128;
  EVP_CIPHER_CTX *aes256;
} openssl_state;

/* A context that has its cipher and never pads; NULL when out of memory or
 * when the library does not offer the cipher. */
static EVP_CIPHER_CTX *openssl_context(const char *name) {
  EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
  EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, NULL);
  if (ctx == NULL || cipher == NULL ||
      EVP_CipherInit_ex2(ctx, cipher, NULL, NULL, 1, NULL) != 1 ||
      EVP_CIPHER_CTX_set_padding(ctx, 0) != 1) {
    EVP_CIPHER_CTX_free(ctx);
    ctx = NULL;
  }
  /* The context holds its own reference. */
  EVP_CIPHER_free(cipher);
  return ctx;
}

static void openssl_close(void *state) {
  openssl_state *s = (openssl_state *)state;
  if (s != NULL) {
    EVP_CIPHER_CTX_free(s->aes128);
    EVP_CIPHER_CTX_free(s->aes256);
    OPENSSL_free(s);
  }
}

static int openssl_open(void **state) {
  openssl_state *s = (openssl_state *)OPENSSL_zalloc(sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->aes128 = openssl_context("AES-128-CBC");
  s->aes256 = openssl_context("AES-256-CBC");
  if (s->aes128 == NULL || s->aes256 == NULL) {
    openssl_close(s);
    return NM_E(LIBRARY);
  }
  *state = s;
  return NM_OK;
}

/* The library counts in int: longer input goes in pieces, each of which
 * continues the chain of the one before. */
#define PIECE_MAX ((size_t)1 << 30)

static int openssl_cbc(void *state, bool encrypt, const uint8_t *key,
                       size_t key_len, const uint8_t iv[NM_AES_BLOCK],
                       const uint8_t *in, size_t len, uint8_t *out) {
  const openssl_state *s = (const openssl_state *)state;
  EVP_CIPHER_CTX *ctx = key_len == 32 ? s->aes256 : s->aes128;
  if (EVP_CipherInit_ex2(ctx, NULL, key, iv, encrypt ? 1 : 0, NULL) != 1) {
    return NM_E(LIBRARY);
  }
  for (size_t done = 0; done < len;) {
    size_t piece = len - done < PIECE_MAX ? len - done : PIECE_MAX;
    int written = 0;
    if (EVP_CipherUpdate(ctx, out + done, &written, in + done, (int)piece) !=
            1 ||
        written != (int)piece) {
      return NM_E(LIBRARY);
    }
    done += piece;
  }
  return NM_OK;
}

const nm_cipher_ops nm_cipher_openssl = {"openssl", openssl_open, openssl_close,
                                         openssl_cbc};

int nm_cipher_open(nm_cipher *c, const nm_cipher_ops *ops) {
  c->ops = ops != NULL ? ops : &nm_cipher_openssl;
  c->state = NULL;
  return c->ops->open(&c->state);
}

void nm_cipher_close(nm_cipher *c) {
  if (c->ops != NULL && c->state != NULL) {
    c->ops->close(c->state);
  }
  c->ops = NULL;
  c->state = NULL;
}

size_t nm_pkcs7_pad(uint8_t *out, nm_span in) {
  size_t total = nm_aes_padded_size(in.len);
  if (in.len > 0 && out != in.ptr) {
    memmove(out, in.ptr, in.len);
  }
  memset(out + in.len, (int)(total - in.len), total - in.len);
  return total;
}

int nm_pkcs7_unpad(nm_span in, size_t *len) {
  if (in.len == 0) {
    return NM_E(PADDING);
  }
  size_t padding = in.ptr[in.len - 1];
  if (padding > NM_AES_BLOCK || padding > in.len) {
    return NM_E(PADDING);
  }
  *len = in.len - padding;
  return NM_OK;
}

static int cbc(nm_cipher *c, bool encrypt, nm_span key,
               const uint8_t iv[NM_AES_BLOCK], nm_span in, uint8_t *out) {
  if (key.len != 16 && key.len != 32) {
    return NM_E(KEY);
  }
  if (in.len % NM_AES_BLOCK != 0) {
    return NM_E(LENGTH);
  }
  if (in.len == 0) {
    return NM_OK;
  }
  return c->ops->cbc(c->state, encrypt, key.ptr, key.len, iv, in.ptr, in.len,
                     out);
}

int nm_aes_cbc_encrypt(nm_cipher *c, nm_span key,
                       const uint8_t iv[NM_AES_BLOCK], nm_span in,
                       uint8_t *out) {
  return cbc(c, true, key, iv, in, out);
}

int nm_aes_cbc_decrypt(nm_cipher *c, nm_span key,
                       const uint8_t iv[NM_AES_BLOCK], nm_span in,
                       uint8_t *out) {
  return cbc(c, false, key, iv, in, out);
}

int nm_aes_cbc_encrypt_padded(nm_cipher *c, nm_span key,
                              const uint8_t iv[NM_AES_BLOCK], nm_span in,
                              uint8_t *out) {
  if (key.len != 16 && key.len != 32) {
    return NM_E(KEY);
  }
  /* Padding first and encrypting in place costs one copy and saves a second
   * call into the library, which costs more. */
  size_t total = nm_pkcs7_pad(out, in);
  int status = cbc(c, true, key, iv, nm_span_of(out, total), out);
  if (status != NM_OK) {
    nm_wipe(out, total);
  }
  return status;
}

int nm_aes_cbc_decrypt_padded(nm_cipher *c, nm_span key,
                              const uint8_t iv[NM_AES_BLOCK], nm_span in,
                              uint8_t *out, size_t *out_len) {
  if (in.len == 0) {
    return NM_E(LENGTH);
  }
  int status = cbc(c, false, key, iv, in, out);
  if (status == NM_OK) {
    status = nm_pkcs7_unpad(nm_span_of(out, in.len), out_len);
    if (status != NM_OK) {
      nm_wipe(out, in.len);
    }
  }
  return status;
}
