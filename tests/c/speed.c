/* Measures the primitives: nanoseconds a call, the best of several runs, which
 * is the figure that other load disturbs least. Not a test: it prints, it does
 * not judge. The reports of netmesh.bench have their own, stricter loops.
 *
 *   speed [WORD...]   rows whose name contains a word
 */
#include "base/msgpack.h"
#include "crypto/entropy.h"
#include "crypto/identity.h"
#include "crypto/init.h"
#include "crypto/stamp.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 7
#define RUN_NS 15e6

static uint8_t data[1 << 20];
static uint8_t out[1 << 20];
static uint8_t sealed[4096];
static uint8_t signature[64];
static uint8_t signature_150[64];
static nm_identity id;
static nm_cipher cipher;
static nm_token_key token_key;
static nm_entropy_pool pool;
static nm_sha256_midstate mid;
static const nm_sha256_lanes *lanes;

static char **wanted;
static int wanted_count;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool is_wanted(const char *name) {
  for (int i = 0; i < wanted_count; i++) {
    if (strstr(name, wanted[i]) != NULL) {
      return true;
    }
  }
  return wanted_count == 0;
}

static double time_of(void (*op)(void), size_t calls) {
  double start = now_ns();
  for (size_t i = 0; i < calls; i++) {
    op();
  }
  return now_ns() - start;
}

/* |op| does |units| of what the row names. */
static void row(const char *name, void (*op)(void), double units) {
  if (!is_wanted(name)) {
    return;
  }
  size_t calls = 1;
  while (time_of(op, calls) < RUN_NS && calls < (1u << 24)) {
    calls *= 2;
  }
  double best = 0;
  for (int i = 0; i < RUNS; i++) {
    double ns = time_of(op, calls) / ((double)calls * units);
    best = i == 0 || ns < best ? ns : best;
  }
  printf("%-34s %12.1f ns %14.0f /s\n", name, best, 1e9 / best);
  fflush(stdout);
}

static void must(int status) {
  if (status < 0) {
    fprintf(stderr, "%s\n", nm_status_name(status));
    exit(1);
  }
}

static void sha256_32(void) {
  nm_sha256(out, nm_span_of(data, 32));
}
static void sha256_64(void) {
  nm_sha256(out, nm_span_of(data, 64));
}
static void sha256_500(void) {
  nm_sha256(out, nm_span_of(data, 500));
}
static void sha256_2080(void) {
  nm_sha256(out, nm_span_of(data, 2080));
}
static void sha512_2048(void) {
  nm_sha512(out, nm_span_of(data, 2048));
}
static void hmac_2080(void) {
  nm_hmac_key_mac(&token_key.mac, out, nm_span_of(data, 2080));
}
static void hkdf_64(void) {
  must(nm_hkdf(out, 64, nm_span_of(data, 32), nm_span_of(data, 16),
               nm_span_of(NULL, 0)));
}
static void hkdf_500(void) {
  must(nm_hkdf_salted(out, 500, nm_span_of(data, 16), &token_key.mac,
                      nm_span_of(NULL, 0)));
}

static void map_hashes(void) {
  nm_span parts[43];
  for (size_t i = 0; i < 43; i++) {
    parts[i] = nm_span_of(data + 383 * i, 383);
  }
  must(nm_sha256_many_with(lanes, (uint8_t(*)[32])out, parts, 43,
                           nm_span_of(data, 4)));
}
static void map_hashes_default(void) {
  nm_span parts[43];
  for (size_t i = 0; i < 43; i++) {
    parts[i] = nm_span_of(data + 383 * i, 383);
  }
  must(nm_sha256_many_suffix((uint8_t(*)[32])out, parts, 43,
                             nm_span_of(data, 4)));
}

static void seal(size_t n) {
  must(nm_token_seal(&cipher, &token_key, data, nm_span_of(data, n), out));
}
static void seal_464(void) {
  seal(464);
}
static void seal_2048(void) {
  seal(2048);
}
static void open_464(void) {
  size_t len;
  must(nm_token_open(&cipher, &token_key,
                     nm_span_of(sealed, nm_token_size(464)), out, &len));
}

static void x25519_public(void) {
  must(nm_x25519_public(out, data));
}
static void x25519(void) {
  must(nm_x25519(out, data, id.public_key));
}
static void expand(void) {
  nm_ed25519_sign_key key;
  must(nm_ed25519_sign_key_init(&key, data));
}
static void sign_150(void) {
  must(nm_identity_sign(&id, out, nm_span_of(data, 150)));
}
static void sign_2048(void) {
  must(nm_identity_sign(&id, out, nm_span_of(data, 2048)));
}
static void verify_150(void) {
  must(nm_identity_verify(&id, nm_span_of(signature_150, 64),
                          nm_span_of(data, 150)));
}
static void verify_2048(void) {
  must(nm_identity_verify(&id, nm_span_of(signature, 64),
                          nm_span_of(data, 2048)));
}
static void identity_from_private(void) {
  nm_identity made;
  must(nm_identity_init_private(&made, nm_span_of(data, 64)));
}
static void encrypt_2048(void) {
  nm_encrypt_params p = {id.public_key, &id.hash, data + 64, NULL, data};
  must(nm_identity_encrypt(&cipher, &p, nm_span_of(data, 2048), out));
}
static uint8_t message[4096];
static void decrypt_2048(void) {
  size_t len;
  nm_decrypt_keys keys = {NULL, 0, id.private_key, &id.hash};
  must(nm_identity_decrypt(
      &cipher, &keys, nm_span_of(message, nm_identity_encrypted_size(2048)),
      out, &len, NULL));
}

/* What libsodium itself takes. */
static uint8_t sodium_secret[64];
static void sodium_x25519(void) {
  must(-crypto_scalarmult(out, data, id.public_key));
}
static void sodium_base(void) {
  must(-crypto_scalarmult_base(out, data));
}
static void sodium_sign_150(void) {
  must(-crypto_sign_detached(out, NULL, data, 150, sodium_secret));
}
static void sodium_sign_2048(void) {
  must(-crypto_sign_detached(out, NULL, data, 2048, sodium_secret));
}
static void sodium_verify_2048(void) {
  must(crypto_sign_verify_detached(signature, data, 2048,
                                   id.public_key + NM_KEY_SIZE));
}

static void random_system_32(void) {
  must(nm_entropy_fill(&nm_entropy_system, out, 32));
}
static void random_pool_32(void) {
  must(nm_entropy_pool_fill(&pool, out, 32));
}

static void workblock_part(void) {
  nm_workblock_part_with(lanes, out, nm_span_of(data, 32), 1000, 480);
}
static void workblock_3000(void) {
  nm_workblock_midstate(&mid, nm_span_of(data, 32), 3000);
}
#define TRIES (1 << 18)
static void search(void) {
  nm_stamp_search_args args;
  memset(&args, 0, sizeof args);
  args.mid = &mid;
  args.cost = 80;
  args.tries_max = TRIES;
  args.lanes = lanes;
  must(nm_stamp_search(&args));
}

static nm_span fields;
static void msgpack_skip(void) {
  nm_reader r = nm_reader_of(fields);
  must(nm_mp_skip(&r, NULL));
}
static void msgpack_scalar(void) {
  nm_reader r = nm_reader_of(nm_span_of("\x80", 1));
  must(nm_mp_skip(&r, NULL));
}

static void set_up(void) {
  static const uint8_t packed[] = {
      0x94, 0xcb, 0x41, 0xd9, 0x54, 0xfc, 0x40, 0x20, 0,   0,   0xc4,
      2,    'h',  'i',  0xc4, 5,    'h',  'e',  'l',  'l', 'o', 0x82,
      1,    0x92, 1,    2,    0x0c, 0xc4, 3,    1,    2,   3};
  must(nm_crypto_init());
  must(nm_cipher_open(&cipher, NULL));
  must(nm_entropy_pool_init(&pool, &nm_entropy_system));
  must(nm_entropy_pool_fill(&pool, data, sizeof data));
  must(nm_token_key_init(&token_key, nm_span_of(data, 64)));
  must(nm_identity_init_private(&id, nm_span_of(data, 64)));
  seal_464();
  memcpy(sealed, out, nm_token_size(464));
  sign_2048();
  memcpy(signature, out, 64);
  sign_150();
  memcpy(signature_150, out, 64);
  encrypt_2048();
  memcpy(message, out, nm_identity_encrypted_size(2048));
  memcpy(sodium_secret, id.private_key + NM_KEY_SIZE, 32);
  memcpy(sodium_secret + 32, id.public_key + NM_KEY_SIZE, 32);
  fields = nm_span_of(packed, sizeof packed);
}

static void symmetric_rows(void) {
  row("sha256 32 B", sha256_32, 1);
  row("sha256 64 B", sha256_64, 1);
  row("sha256 500 B", sha256_500, 1);
  row("sha256 2080 B", sha256_2080, 1);
  row("sha512 2048 B", sha512_2048, 1);
  row("hmac 2080 B, prepared key", hmac_2080, 1);
  row("hkdf to 64 B", hkdf_64, 1);
  row("hkdf to 500 B, prepared salt", hkdf_500, 1);
  row("token seal 464 B", seal_464, 1);
  row("token open 464 B", open_464, 1);
  row("token seal 2048 B", seal_2048, 1);
  row("random 32 B, system", random_system_32, 1);
  row("random 32 B, pool", random_pool_32, 1);
  row("msgpack skip of a message", msgpack_skip, 1);
  row("msgpack skip of an empty map", msgpack_scalar, 1);
}

static void curve_rows(void) {
  row("x25519 public", x25519_public, 1);
  row("x25519 public, libsodium", sodium_base, 1);
  row("x25519", x25519, 1);
  row("x25519, libsodium", sodium_x25519, 1);
  row("ed25519 expand", expand, 1);
  row("ed25519 sign 150 B", sign_150, 1);
  row("ed25519 sign 150 B, libsodium", sodium_sign_150, 1);
  row("ed25519 sign 2048 B", sign_2048, 1);
  row("ed25519 sign 2048 B, libsodium", sodium_sign_2048, 1);
  row("ed25519 verify 150 B", verify_150, 1);
  row("ed25519 verify 2048 B", verify_2048, 1);
  row("ed25519 verify 2048 B, libsodium", sodium_verify_2048, 1);
  row("identity from private", identity_from_private, 1);
  row("identity encrypt 2048 B", encrypt_2048, 1);
  row("identity decrypt 2048 B", decrypt_2048, 1);
}

static void lane_rows(void) {
  char name[64];
  workblock_3000();
  for (size_t i = 0; (lanes = nm_sha256_lanes_at(NULL, i)) != NULL; i++) {
    snprintf(name, sizeof name, "43 map hashes of 383 B, %s", lanes->name);
    row(name, map_hashes, 1);
    snprintf(name, sizeof name, "work block round, %s", lanes->name);
    row(name, workblock_part, 480);
    snprintf(name, sizeof name, "stamp try, %s", lanes->name);
    row(name, search, TRIES);
  }
  row("43 map hashes of 383 B", map_hashes_default, 1);
  row("work block of 3000 rounds, hashed", workblock_3000, 1);
}

int main(int argc, char **argv) {
  wanted = argv + 1;
  wanted_count = argc - 1;
  set_up();
  symmetric_rows();
  curve_rows();
  lane_rows();
  nm_cipher_close(&cipher);
  return 0;
}
