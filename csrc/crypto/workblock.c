/* The work block (LXMF 6.1), many rounds at once: one round per lane, with
 * states and messages kept word by word, so that only the output is
 * transposed.
 *
 * A round costs 23 blocks for a material of 32 bytes: one for the salt, four
 * for PRK = HMAC(salt, material), two for the pads of PRK and sixteen for the
 * eight output blocks.
 */
#include "crypto/stamp.h"

#include "base/msgpack.h"
#include "crypto/sha256_kernels.h"

#include <string.h>

/* The end of a message with its padding. */
#define TAIL_SIZE (2 * NM_SHA256_BLOCK)

typedef struct lane_words {
  _Alignas(64) uint32_t v[8 * NM_SHA256_LANES_MAX];
} lane_words;

/* What the rounds of one work block share. */
typedef struct plan {
  const nm_sha256_lanes *l;
  nm_span material;
  nm_sha256_midstate whole; /* after the whole blocks of the material */
  nm_span rest;             /* its end, fewer than 64 bytes */
} plan;

static plan plan_of(const nm_sha256_lanes *l, nm_span material) {
  plan p = {l, material, {{0}, 0}, {NULL, 0}};
  size_t blocks = material.len / NM_SHA256_BLOCK;
  size_t rest = material.len % NM_SHA256_BLOCK;
  memcpy(p.whole.h, nm_sha256_iv, sizeof p.whole.h);
  if (blocks > 0) {
    nm_sha256_compress(p.whole.h, material.ptr, blocks);
  }
  p.whole.bytes = blocks * NM_SHA256_BLOCK;
  if (rest > 0) {
    p.rest = nm_span_of(material.ptr + (material.len - rest), rest);
  }
  return p;
}

static void set_all(uint32_t *row, size_t lanes, uint32_t v) {
  for (size_t i = 0; i < lanes; i++) {
    row[i] = v;
  }
}

static void put_be64(uint8_t *p, uint64_t v) {
  for (size_t i = 0; i < 8; i++) {
    p[i] = (uint8_t)(v >> (56 - 8 * i));
  }
}

/* Pads the message of |total| bytes whose last |used| bytes are in |tail|;
 * returns the number of blocks. */
static size_t pad(uint8_t tail[TAIL_SIZE], size_t used, uint64_t total) {
  size_t size = used < 56 ? NM_SHA256_BLOCK : 2 * NM_SHA256_BLOCK;
  tail[used] = 0x80;
  memset(tail + used + 1, 0, size - 8 - (used + 1));
  put_be64(tail + size - 8, total * 8);
  return size / NM_SHA256_BLOCK;
}

/* H(material | msgpack(first + i)) for |count| lanes, whose integers have one
 * and the same size. */
static void salts(const plan *p, uint32_t first, size_t count,
                  lane_words *salt) {
  size_t lanes = p->l->lanes;
  uint8_t tails[NM_SHA256_LANES_MAX][TAIL_SIZE];
  const uint8_t *block[NM_SHA256_LANES_MAX];
  size_t blocks = 0;
  for (size_t i = 0; i < lanes; i++) {
    uint32_t n = first + (uint32_t)(i < count ? i : 0);
    nm_writer w = nm_writer_of(tails[i], TAIL_SIZE);
    nm_writer_span(&w, p->rest);
    nm_mp_uint(&w, n);
    uint64_t total = p->whole.bytes + w.pos;
    blocks = pad(tails[i], w.pos, total);
    block[i] = tails[i];
  }
  for (size_t k = 0; k < 8; k++) {
    set_all(salt->v + k * lanes, lanes, p->whole.h[k]);
  }
  p->l->bytes(salt->v, block, blocks);
}

/* One of the two states of an HMAC key of 32 bytes. */
static void key_pad(const nm_sha256_lanes *l, const lane_words *key,
                    uint32_t pad_word, lane_words *state) {
  size_t lanes = l->lanes;
  _Alignas(64) uint32_t w[16 * NM_SHA256_LANES_MAX];
  for (size_t i = 0; i < 8 * lanes; i++) {
    w[i] = key->v[i] ^ pad_word;
  }
  set_all(w + 8 * lanes, 8 * lanes, pad_word);
  for (size_t k = 0; k < 8; k++) {
    set_all(state->v + k * lanes, lanes, nm_sha256_iv[k]);
  }
  l->words(state->v, w);
}

static void key_pads(const nm_sha256_lanes *l, const lane_words *key,
                     lane_words *inner, lane_words *outer) {
  key_pad(l, key, 0x36363636u, inner);
  key_pad(l, key, 0x5c5c5c5cu, outer);
}

/* The last block of a message of |total| bytes: |head| (eight words, or NULL
 * for none), then the word |mark|, zeros and the length. |state| is moved on.
 */
static void last_block(const nm_sha256_lanes *l, const lane_words *head,
                       uint32_t mark, uint32_t total, lane_words *state) {
  size_t lanes = l->lanes;
  _Alignas(64) uint32_t w[16 * NM_SHA256_LANES_MAX];
  size_t row = 0;
  if (head != NULL) {
    memcpy(w, head->v, 8 * lanes * sizeof w[0]);
    row = 8;
  }
  set_all(w + row * lanes, lanes, mark);
  row++;
  memset(w + row * lanes, 0, (15 - row) * lanes * sizeof w[0]);
  set_all(w + 15 * lanes, lanes, total * 8);
  l->words(state->v, w);
}

/* The outer hash of HMAC: |digest| becomes H(outer | digest). */
static void outer_hash(const nm_sha256_lanes *l, const lane_words *outer,
                       lane_words *digest) {
  lane_words state = *outer;
  last_block(l, digest, 0x80000000u, NM_SHA256_BLOCK + NM_HASH_SIZE, &state);
  *digest = state;
}

/* Moves every lane on by the same message: the material, which follows the
 * block of the key. */
static void common_message(const plan *p, lane_words *state) {
  const uint8_t *block[NM_SHA256_LANES_MAX];
  uint8_t tail[TAIL_SIZE];
  size_t whole = p->material.len / NM_SHA256_BLOCK;
  if (whole > 0) {
    for (size_t i = 0; i < p->l->lanes; i++) {
      block[i] = p->material.ptr;
    }
    p->l->bytes(state->v, block, whole);
  }
  nm_writer w = nm_writer_of(tail, sizeof tail);
  nm_writer_span(&w, p->rest);
  size_t blocks = pad(tail, w.pos, NM_SHA256_BLOCK + (uint64_t)p->material.len);
  for (size_t i = 0; i < p->l->lanes; i++) {
    block[i] = tail;
  }
  p->l->bytes(state->v, block, blocks);
}

/* Writes one block of HKDF output of every lane. */
static void put_output(const lane_words *t, size_t lanes, size_t count,
                       uint8_t *out) {
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < 8; k++) {
      uint32_t v = t->v[k * lanes + i];
      uint8_t *p = out + i * NM_WORKBLOCK_ROUND + 4 * k;
      p[0] = (uint8_t)(v >> 24);
      p[1] = (uint8_t)(v >> 16);
      p[2] = (uint8_t)(v >> 8);
      p[3] = (uint8_t)v;
    }
  }
}

/* |count| rounds, at most one per lane. */
static void rounds_at_once(const plan *p, uint32_t first, size_t count,
                           uint8_t *out) {
  const nm_sha256_lanes *l = p->l;
  lane_words key;
  lane_words inner;
  lane_words outer;
  salts(p, first, count, &key);
  key_pads(l, &key, &inner, &outer);
  common_message(p, &inner);
  outer_hash(l, &outer, &inner);
  key_pads(l, &inner, &key, &outer); /* PRK: key now holds its inner state */
  lane_words t;
  for (uint32_t i = 1; i <= NM_WORKBLOCK_ROUND / NM_HASH_SIZE; i++) {
    lane_words state = key;
    uint32_t mark = (i << 24) | 0x800000u; /* counter, end of message */
    uint32_t head = i == 1 ? 0 : NM_HASH_SIZE;
    last_block(l, i == 1 ? NULL : &t, mark, NM_SHA256_BLOCK + head + 1, &state);
    outer_hash(l, &outer, &state);
    t = state;
    put_output(&t, l->lanes, count, out + (i - 1) * NM_HASH_SIZE);
  }
}

/* How many rounds from |first| on, at most |count|, have an integer of the same
 * size as |first|. */
static uint32_t same_size(uint32_t first, uint32_t count) {
  static const uint32_t ends[] = {0x80, 0x100, 0x10000};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    if (first < ends[i]) {
      return ends[i] - first < count ? ends[i] - first : count;
    }
  }
  return count;
}

/* Rounds of the next step. */
static uint32_t step_size(const plan *p, uint32_t first, uint32_t left) {
  uint32_t lanes = (uint32_t)p->l->lanes;
  return same_size(first, left < lanes ? left : lanes);
}

void nm_workblock_part_with(const nm_sha256_lanes *lanes, uint8_t *out,
                            nm_span material, uint32_t first, uint32_t count) {
  plan p = plan_of(lanes, material);
  while (count > 0) {
    uint32_t n = step_size(&p, first, count);
    rounds_at_once(&p, first, n, out);
    out += (size_t)n * NM_WORKBLOCK_ROUND;
    first += n;
    count -= n;
  }
}

void nm_workblock_part(uint8_t *out, nm_span material, uint32_t first,
                       uint32_t count) {
  nm_workblock_part_with(nm_sha256_lanes_best(), out, material, first, count);
}

void nm_workblock_build(uint8_t *out, nm_span material, uint32_t rounds) {
  nm_workblock_part(out, material, 0, rounds);
}

void nm_workblock_midstate(nm_sha256_midstate *mid, nm_span material,
                           uint32_t rounds) {
  uint8_t chunk[NM_SHA256_LANES_MAX * NM_WORKBLOCK_ROUND];
  plan p = plan_of(nm_sha256_lanes_best(), material);
  memcpy(mid->h, nm_sha256_iv, sizeof mid->h);
  mid->bytes = (uint64_t)rounds * NM_WORKBLOCK_ROUND;
  for (uint32_t done = 0; done < rounds;) {
    uint32_t n = step_size(&p, done, rounds - done);
    rounds_at_once(&p, done, n, chunk);
    nm_sha256_compress(mid->h, chunk,
                       (size_t)n * (NM_WORKBLOCK_ROUND / NM_SHA256_BLOCK));
    done += n;
  }
}
