/* Preparing one segment of a resource for sending (RNS 2, 3.2).
 *
 * Three steps, each usable on its own, so that a caller may put its own
 * sealing between the first and the last:
 *   1. nm_resource_compress   P -> C or P
 *   2. nm_resource_seal       prefix | body -> E = Token(key, ...)
 *   3. nm_resource_index      E, P -> r, h, expected proof, hashmap
 * nm_resource_build does all three.
 */
#ifndef NM_WIRE_RESOURCE_BUILD_H
#define NM_WIRE_RESOURCE_BUILD_H

#include "base/mem.h"
#include "crypto/token.h"
#include "wire/resource.h"

typedef enum nm_resource_compression {
  NM_RESOURCE_COMPRESS_OFF = 0,
  /* Compress, use the result if it is shorter: what the reference does. */
  NM_RESOURCE_COMPRESS_WHEN_SMALLER = 1,
  /* The same, but skip data that a look at a sample shows to be noise. */
  NM_RESOURCE_COMPRESS_AUTOMATIC = 2
} nm_resource_compression;

/* The plaintext P of a segment, in two pieces so that nothing has to be put
 * together first. */
typedef struct nm_resource_plain {
  nm_span metadata; /* metadata block with its length, or empty */
  nm_span data;
} nm_resource_plain;

static inline size_t nm_resource_plain_size(const nm_resource_plain *p) {
  return p->metadata.len + p->data.len;
}

/* Compresses P into |out| if |mode| and |total_size| (the data of all
 * segments, without metadata) against |compress_max| (0: the default of 64
 * MiB) allow it. Returns 1 when |out| holds a form that is strictly shorter
 * than P, 0 when P is to be sent as it is (|out| is then empty); also when
 * compression fails for want of memory (RNS 2, 3.2). No other outcome. */
int nm_resource_compress(const nm_resource_plain *plain,
                         nm_resource_compression mode, uint64_t total_size,
                         uint64_t compress_max, const nm_mem *mem,
                         nm_buffer *out);

/* True when a sample of |data| looks like noise, so that compressing is a
 * waste of time. Takes less than 20 us for any length. */
bool nm_resource_looks_random(nm_span data);

/* Whether compressing |data| before it goes over a link of |rate| bytes a
 * second (0 or less: unknown) probably takes less time than it saves: by the
 * entropy of a sample, and what bzip2 costs on a usual core. False for noise.
 * Takes less than 50 us. */
bool nm_resource_worth_compressing(nm_span data, double rate);

/* How to compress |data| for a receiver that takes zstd frames, over a link of
 * |rate| bytes a second: the level (1 to 9) that probably saves the most time,
 * by what a piece of |data| compresses to; 0 when none saves any, or when
 * bzip2's stronger compression is worth its time (below about 500 KB/s, or when
 * the rate is not known). Takes less than 300 us. */
int nm_resource_zstd_level(nm_span data, double rate);

/* Bytes of the stream that carries |body_len| bytes: Token overhead, prefix
 * and padding. */
size_t nm_resource_stream_size(size_t body_len);

/* Writes E = Token(key, prefix | body) of nm_resource_stream_size bytes to
 * |out|, which must not overlap the inputs. |body| is given in two pieces.
 * NM_E(LIBRARY). */
int nm_resource_seal(nm_cipher *cipher, const nm_token_key *key,
                     const uint8_t iv[NM_AES_BLOCK],
                     const uint8_t prefix[NM_RESOURCE_PREFIX_SIZE],
                     const nm_resource_plain *body, uint8_t *out);

/* A prepared segment. Spans point into the caller's buffers. */
typedef struct nm_resource_segment {
  nm_span stream;  /* E */
  nm_span hashmap; /* 4 bytes for each part */
  size_t sdu;
  uint64_t parts; /* n */
  bool compressed;
  uint8_t random[NM_RESOURCE_RANDOM_SIZE];
  uint8_t hash[NM_HASH_SIZE];           /* h = H(P || r) */
  uint8_t expected_proof[NM_HASH_SIZE]; /* H(P || h) */
  size_t collisions; /* candidates for r that were given up */
} nm_resource_segment;

/* Cuts |stream| into parts of |sdu| bytes and computes hashes and hashmap.
 * |randoms| holds one or more candidates for r, 4 bytes each: the first whose
 * map hashes do not collide within the guard of 224 is used. |hashmap| has
 * room for 4 bytes per part. Sets all of |seg| but `compressed`.
 * NM_E(ARGUMENT) for sdu 0 or |randoms| not a non-zero multiple of 4,
 * NM_E(TOO_LARGE) when |hashmap| is too small, NM_E(COLLISION) when no
 * candidate is left. */
int nm_resource_index(const nm_resource_plain *plain, nm_span stream,
                      size_t sdu, nm_span randoms, nm_mspan hashmap,
                      nm_resource_segment *seg);

typedef struct nm_resource_build_args {
  nm_resource_plain plain;
  size_t sdu; /* link MTU - 36 */
  nm_resource_compression compression;
  uint64_t total_size;   /* data bytes of all segments, without metadata */
  uint64_t compress_max; /* 0: 64 MiB */
  int zstd_level;        /* 0: bzip2; else a zstd frame, of any total size */
  const nm_token_key *key;
  const uint8_t *iv;     /* 16 random bytes */
  const uint8_t *prefix; /* 4 random bytes, not the same as r */
  nm_span randoms;       /* candidates for r */
  nm_mspan stream;       /* room for nm_resource_stream_size(size of P) */
  nm_mspan hashmap;      /* room for 4 bytes per part of that stream */
} nm_resource_build_args;

/* Bytes of hashmap that a P of |plain_size| bytes needs at most. */
size_t nm_resource_hashmap_bound(size_t plain_size, size_t sdu);

/* Prepares a segment. |mem| serves compression only. Errors of
 * nm_resource_seal and nm_resource_index; NM_E(TOO_LARGE) when `stream` is too
 * small. */
int nm_resource_build(const nm_resource_build_args *args, nm_cipher *cipher,
                      const nm_mem *mem, nm_resource_segment *seg);

/* What an advertisement says beyond the segment itself. */
typedef struct nm_resource_announce {
  uint64_t data_size; /* d */
  uint64_t segment;   /* i */
  uint64_t segments;  /* l */
  nm_span original;   /* o; empty means the segment's own hash */
  nm_span request_id; /* q; `ptr` NULL means nil */
  bool is_request;    /* u */
  bool is_response;   /* p */
  bool has_metadata;  /* x, on every segment of the resource */
  bool extended;      /* the sender reads notes (resource_note.h) */
} nm_resource_announce;

/* The advertisement of |seg|; its spans borrow from |seg| and |what|. */
void nm_resource_adv_of(const nm_resource_segment *seg,
                        const nm_resource_announce *what, nm_resource_adv *adv);

#endif
