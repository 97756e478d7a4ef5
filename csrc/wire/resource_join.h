/* Receiving one segment of a resource: parts are placed at their final offset
 * in the stream, a bitmap says which are there (RNS 2, 3.7), then the stream is
 * opened, unpacked and checked (RNS 2, 3.10).
 */
#ifndef NM_WIRE_RESOURCE_JOIN_H
#define NM_WIRE_RESOURCE_JOIN_H

#include "base/mem.h"
#include "crypto/token.h"
#include "wire/resource.h"

/* State of one incoming segment. Read the fields, change none. */
typedef struct nm_resource_join {
  const nm_mem *mem;
  uint8_t *block; /* one allocation: stream, hashmap, bitmap */
  nm_mspan stream;
  nm_mspan hashmap; /* 4 bytes for each part; valid below `height` */
  nm_mspan bitmap;  /* bit i: part i is there */
  size_t sdu;
  uint32_t parts;         /* n, derived from t and sdu */
  uint32_t received;      /* distinct parts stored */
  uint32_t first_missing; /* consecutive height + 1 */
  uint32_t height;        /* map hashes known */
  uint32_t outstanding;   /* parts of the last request not yet in */
  uint32_t request_end;   /* end of the range the last request covered */
  bool waiting_for_hashmap;
  bool compressed;
  bool extended;     /* then perhaps by zstd */
  bool has_metadata; /* and this is segment 1, so a block leads the plaintext */
  bool macs;         /* `mac` has hashed the first `maced` bytes */
  nm_sha256_ctx mac; /* a secret */
  size_t maced;
  uint8_t random[NM_RESOURCE_RANDOM_SIZE];
  uint8_t hash[NM_HASH_SIZE];
} nm_resource_join;

/* Starts receiving what |adv| advertises over a link whose parts have |sdu|
 * bytes. The whole stream is allocated at once, in one block of about t + 5 *
 * n bytes (t is at most 3145725). Errors of nm_resource_adv_check,
 * NM_E(ARGUMENT) for sdu 0, NM_E(LENGTH) with field "advertisement.m" when
 * there are more map hashes than parts, NM_E(MEMORY). */
int nm_resource_join_init(nm_resource_join *join, const nm_resource_adv *adv,
                          size_t sdu, const nm_mem *mem, nm_fault *fault);

/* Has parts that come in order authenticated as they come, so that less is left
 * to do at the end. The assembly needs the same |key|. Does nothing where two
 * hashes cost twice as much as one (nm_sha256_two_is_fast). */
void nm_resource_join_authenticate(nm_resource_join *join,
                                   const nm_token_key *key);

/* Wipes and releases; harmless on a zeroed or disposed |join|. */
void nm_resource_join_dispose(nm_resource_join *join);

/* Stores a part. Its map hash is looked for from the first missing part over
 * |search| positions (0: all whose hash is known); the reference searches the
 * window. On success |*index| is where it went. NM_E(MISMATCH) when it matches
 * no empty slot there: ignore it. NM_E(LENGTH) when it matches but has not the
 * length of that part. */
int nm_resource_join_part(nm_resource_join *join, nm_span part, size_t search,
                          uint32_t *index);

/* Whether |part| is one whose map hash is known, be it there already or not:
 * then what was asked for earlier is still on its way. */
bool nm_resource_join_knows(const nm_resource_join *join, nm_span part);

/* Makes the next part request for up to |window| parts (RNS 2, 3.4): the parts
 * that are missing in the |window| positions from the first missing one; the
 * exhausted form if one of them has an unknown map hash. Writes the payload to
 * |w| and updates outstanding and waiting_for_hashmap. Call it again to repeat
 * a request after a time-out. NM_E(STATE) when complete, NM_E(ARGUMENT) for a
 * window of 0, NM_E(TOO_LARGE). */
int nm_resource_join_request(nm_resource_join *join, uint32_t window,
                             nm_writer *w);

/* Takes a hashmap update and clears waiting_for_hashmap. NM_E(MISMATCH) when
 * it names another resource or does not connect to the known hashes,
 * NM_E(STATE) when none is awaited, NM_E(RANGE) when it reaches behind the last
 * part. Nothing is changed by an update that is refused. Hashes that are known
 * already are not replaced. */
int nm_resource_join_update(nm_resource_join *join, const nm_resource_hmu *hmu,
                            nm_fault *fault);

static inline bool nm_resource_join_complete(const nm_resource_join *join) {
  return join->received == join->parts;
}

static inline bool nm_resource_join_has(const nm_resource_join *join,
                                        uint32_t index) {
  return index < join->parts &&
         ((join->bitmap.ptr[index / 8] >> (index % 8)) & 1) != 0;
}

/* What came out of a segment. Spans point into the buffers named below. */
typedef struct nm_resource_result {
  nm_span plaintext; /* P */
  nm_span metadata;  /* packed, without its length; `ptr` NULL when none */
  nm_span data;
  uint8_t proof[NM_HASH_SIZE]; /* H(P || h) */
} nm_resource_result;

/* How an opened stream is to be understood. */
typedef struct nm_resource_terms {
  bool compressed;
  bool extended;     /* what is compressed may be a zstd frame */
  bool has_metadata; /* a metadata block leads P */
  uint8_t random[NM_RESOURCE_RANDOM_SIZE];
  uint8_t hash[NM_HASH_SIZE];
  size_t limit; /* most bytes after decompression, 0: 64 MiB */
} nm_resource_terms;

/* Second half of the assembly: |opened| is the decrypted stream with its
 * prefix. Unpacks into |out| when it is compressed (otherwise the result
 * points into |opened|), checks H(P || r) == h, splits the metadata.
 * The failures differ, so that a caller can act on each (RNS 2, 3.10):
 *   TRUNCATED  "resource.prefix"    fewer than 4 bytes
 *   LIMIT      "resource.data"      decompresses to more than the limit
 *   COMPRESSED "resource.data"      broken or unfinished bzip2 stream or frame
 *   MISMATCH   "resource.hash"      the plaintext has another hash
 *   TRUNCATED  "metadata"           block longer than the plaintext
 *   MEMORY     "resource.data" */
int nm_resource_finish(nm_span opened, const nm_resource_terms *terms,
                       const nm_mem *mem, nm_buffer *out,
                       nm_resource_result *result, nm_fault *fault);

/* The terms of |join| with |limit|. */
void nm_resource_join_terms(const nm_resource_join *join, size_t limit,
                            nm_resource_terms *terms);

/* Opens the complete stream in place with the link's key and finishes it. The
 * result points into |join| or |out|; |join| holds plaintext from then on and
 * must be disposed of without further parts. Beyond the errors of
 * nm_resource_finish: STATE "resource" when parts are missing, AUTH, LENGTH,
 * PADDING or TRUNCATED "resource.stream", LIBRARY. */
int nm_resource_join_assemble(nm_resource_join *join, nm_cipher *cipher,
                              const nm_token_key *key, size_t limit,
                              nm_buffer *out, nm_resource_result *result,
                              nm_fault *fault);

#endif
