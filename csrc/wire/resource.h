/* Resources: the payloads of a transfer and the arithmetic of segments and
 * parts (RNS 2, 3). Nothing here keeps state; building a segment is
 * resource_build.h, receiving one is resource_join.h, serving part requests
 * and the receiver's window are resource_window.h.
 */
#ifndef NM_WIRE_RESOURCE_H
#define NM_WIRE_RESOURCE_H

#include "base/cursor.h"
#include "crypto/hash.h"

/* Constants of RNS 2, 3.1. They are computed from the base MTU of 500 and do
 * not change with the MTU of a link; both peers depend on that. */
#define NM_RESOURCE_WINDOW 4
#define NM_RESOURCE_WINDOW_MIN 2
#define NM_RESOURCE_WINDOW_MAX_SLOW 10
#define NM_RESOURCE_WINDOW_MAX_VERY_SLOW 4
#define NM_RESOURCE_WINDOW_MAX_FAST 75
#define NM_RESOURCE_WINDOW_FLEXIBILITY 4
#define NM_RESOURCE_FAST_ROUNDS 4
#define NM_RESOURCE_VERY_SLOW_ROUNDS 2
#define NM_RESOURCE_RATE_FAST 6250.0     /* bytes a second */
#define NM_RESOURCE_RATE_VERY_SLOW 250.0 /* bytes a second */
#define NM_RESOURCE_MAP_HASH_SIZE 4
#define NM_RESOURCE_RANDOM_SIZE 4
#define NM_RESOURCE_PREFIX_SIZE 4
#define NM_RESOURCE_HASHMAP_MAX 74         /* map hashes in one payload */
#define NM_RESOURCE_GUARD 224              /* map hashes that must all differ */
#define NM_RESOURCE_SEGMENT_MAX 1048575u   /* plaintext bytes of a segment */
#define NM_RESOURCE_METADATA_MAX 16777215u /* packed metadata bytes */
#define NM_RESOURCE_COMPRESS_MAX 67108864u /* also the bound on output */
#define NM_RESOURCE_TRANSFER_MAX 3145725u  /* largest advertised t */
#define NM_RESOURCE_RETRIES 16
#define NM_RESOURCE_ADV_RETRIES 4
#define NM_RESOURCE_PROOF_RETRIES 3
#define NM_RESOURCE_REQUEST_ID_SIZE 16
#define NM_RESOURCE_PROOF_SIZE 64 /* payload of a proof packet */
/* A part is this much smaller than the link's MTU. */
#define NM_RESOURCE_SDU_OVERHEAD 36

/* Flags of an advertisement (RNS 2, 3.3). */
#define NM_RESOURCE_ENCRYPTED 0x01u
#define NM_RESOURCE_COMPRESSED 0x02u
#define NM_RESOURCE_SPLIT 0x04u
#define NM_RESOURCE_IS_REQUEST 0x08u
#define NM_RESOURCE_IS_RESPONSE 0x10u
#define NM_RESOURCE_HAS_METADATA 0x20u
/* netmesh alone: the sender reads notes, and a compressed segment may be a zstd
 * frame (docs/reference/transfers.md). Upstream looks at the lower bits only.
 */
#define NM_RESOURCE_EXTENDED 0x40u

/* State numbers of both sides (RNS 2, 3.10). */
typedef enum nm_resource_state {
  NM_RESOURCE_NONE = 0,
  NM_RESOURCE_QUEUED = 1,
  NM_RESOURCE_ADVERTISED = 2,
  NM_RESOURCE_TRANSFERRING = 3,
  NM_RESOURCE_AWAITING_PROOF = 4,
  NM_RESOURCE_ASSEMBLING = 5,
  NM_RESOURCE_COMPLETE = 6,
  NM_RESOURCE_FAILED = 7,
  NM_RESOURCE_CORRUPT = 8,
  NM_RESOURCE_REJECTED = 9
} nm_resource_state;

/* --- Advertisement (context RESOURCE_ADV), RNS 2, 3.3 --- */

typedef struct nm_resource_adv {
  uint64_t transfer_size; /* t: bytes of this segment's ciphertext */
  uint64_t data_size;     /* d: plaintext bytes of all segments */
  uint64_t parts;         /* n: as stated by the sender, informational */
  nm_span hash;           /* h: 32 bytes */
  nm_span random;         /* r: 4 bytes */
  nm_span original;       /* o: 32 bytes, hash of segment 1 */
  uint64_t segment;       /* i: from 1 */
  uint64_t segments;      /* l */
  nm_span request_id;     /* q: 16 bytes; `ptr` NULL means nil */
  uint64_t flags;         /* f */
  nm_span hashmap;        /* m: map hashes, 4 bytes each */
} nm_resource_adv;

/* Reads an advertisement's plaintext and checks it as a receiver must
 * (nm_resource_adv_check). Spans borrow from |in|. Keys may come in any order,
 * unknown keys are skipped, bytes after the map are ignored (RNS 2, 0.3).
 * Fields named in |fault|: "advertisement" and "advertisement.t" and so on by
 * key. Errors: TRUNCATED, TYPE, MISSING, DUPLICATE_KEY, UTF8, RESERVED, DEPTH,
 * LIMIT, and those of nm_resource_adv_check. */
int nm_resource_adv_decode(nm_span in, nm_resource_adv *adv, nm_fault *fault);

/* Reads without the receiver's checks of values and lengths: for tools that
 * show what a peer sent. Errors as above without those of the check. */
int nm_resource_adv_parse(nm_span in, nm_resource_adv *adv, nm_fault *fault);

/* The checks of RNS 2, 3.3 on a parsed advertisement: LENGTH for h, r, o, q
 * and m (m a non-zero multiple of 4, at most 4 * n), RANGE unless
 * 1 <= i <= l and 0 < t <= 3145725, VALUE when flag e is missing or both u and
 * p are set. Offsets in |fault| are 0: the input is gone. */
int nm_resource_adv_check(const nm_resource_adv *adv, nm_fault *fault);

/* Exact size of the encoding of |adv|. */
size_t nm_resource_adv_size(const nm_resource_adv *adv);

/* Writes |adv| to |w| with its 11 keys in the order of the wire. Writes what
 * it is given, valid or not. NM_E(TOO_LARGE) when it does not fit. */
int nm_resource_adv_encode(const nm_resource_adv *adv, nm_writer *w);

/* --- Part request (context RESOURCE_REQ), RNS 2, 3.4 --- */

typedef struct nm_resource_request {
  bool exhausted;     /* the receiver knows no further map hash */
  nm_span last_known; /* 4 bytes when exhausted, else empty */
  nm_span hash;       /* 32 bytes: the resource */
  nm_span wanted;     /* map hashes, 4 bytes each; may be empty */
} nm_resource_request;

/* Fields: "request.flag" (VALUE unless 00 or FF), "request.last_known",
 * "request.hash" (TRUNCATED), "request.wanted" (LENGTH unless a multiple of
 * 4). Spans borrow from |in|. */
int nm_resource_request_decode(nm_span in, nm_resource_request *req,
                               nm_fault *fault);
size_t nm_resource_request_size(const nm_resource_request *req);
int nm_resource_request_encode(const nm_resource_request *req, nm_writer *w);

/* --- Hashmap update (context RESOURCE_HMU), RNS 2, 3.5 --- */

typedef struct nm_resource_hmu {
  nm_span hash;     /* 32 bytes: the resource */
  uint64_t segment; /* the map hashes start at part 74 * segment */
  nm_span hashmap;  /* 1 to 74 map hashes */
} nm_resource_hmu;

/* Fields: "hashmap_update.hash" (TRUNCATED), "hashmap_update" (TYPE unless an
 * array of at least 2), ".segment" (TYPE; RANGE above 2^32 / 74), ".hashmap"
 * (TYPE, EMPTY, LENGTH). Bytes after the array are ignored. */
int nm_resource_hmu_decode(nm_span in, nm_resource_hmu *hmu, nm_fault *fault);
size_t nm_resource_hmu_size(const nm_resource_hmu *hmu);
int nm_resource_hmu_encode(const nm_resource_hmu *hmu, nm_writer *w);

/* The slice of a whole |hashmap| that update |segment| carries; empty when
 * the segment lies behind the end. */
nm_span nm_resource_hmu_slice(nm_span hashmap, uint64_t segment);

/* --- Proof (context RESOURCE_PRF) and cancel (ICL, RCL) --- */

typedef struct nm_resource_proof {
  nm_span hash;  /* 32 bytes: the resource */
  nm_span proof; /* 32 bytes: H(P || resource hash) */
} nm_resource_proof;

/* Exactly 64 bytes (RNS 2, 3.10): TRUNCATED or TRAILING, field "proof". */
int nm_resource_proof_decode(nm_span in, nm_resource_proof *proof,
                             nm_fault *fault);
int nm_resource_proof_encode(const nm_resource_proof *proof, nm_writer *w);

/* The packet hash of the proof packet that answers a resource: what a
 * CACHE_REQUEST names (RNS 2, 3.9). |hash| and |expected_proof| are 32 bytes.
 */
void nm_resource_proof_packet_hash(const nm_link_id *link,
                                   const uint8_t hash[NM_HASH_SIZE],
                                   const uint8_t expected_proof[NM_HASH_SIZE],
                                   nm_packet_hash *out);

/* Exactly 32 bytes (RNS 2, 3.11): TRUNCATED or TRAILING, field "cancel". The
 * hash borrows from |in|. */
int nm_resource_cancel_decode(nm_span in, nm_span *hash, nm_fault *fault);

/* --- Parts --- */

/* The part size of a link with |mtu| bytes: mtu - 36; 0 when the MTU is too
 * small to carry any. */
size_t nm_resource_sdu(size_t mtu);

/* ceil(|transfer_size| / |sdu|); 0 when |sdu| is 0. */
uint64_t nm_resource_part_count(uint64_t transfer_size, size_t sdu);

/* Fills |out| with the slices of |stream|, |sdu| bytes each, the last one
 * shorter. Returns how many there are, or NM_E(TOO_LARGE) when |cap| is too
 * small and NM_E(ARGUMENT) when |sdu| is 0. No bytes are copied. */
int nm_resource_parts(nm_span stream, size_t sdu, nm_span *out, size_t cap);

/* As above, but each part is copied to |dst| + i * |stride| (stride >= sdu),
 * as into packets whose headers lie between. |cap| counts bytes of |dst|. */
int nm_resource_parts_copy(nm_span stream, size_t sdu, uint8_t *dst,
                           size_t stride, size_t cap);

/* Copies |count| parts one after the other into |w|. NM_E(TOO_LARGE). */
int nm_resource_parts_join(const nm_span *parts, size_t count, nm_writer *w);

/* First 4 bytes of H(part || random) (RNS 2, 3.2 step 6). */
void nm_resource_map_hash(nm_span part,
                          const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                          uint8_t out[NM_RESOURCE_MAP_HASH_SIZE]);

/* The same, and updates |beside| with |hashed| meanwhile
 * (nm_sha256_update_two). */
void nm_resource_map_hash_beside(nm_span part,
                                 const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                                 uint8_t out[NM_RESOURCE_MAP_HASH_SIZE],
                                 nm_sha256_ctx *beside, nm_span hashed);

/* The map hashes of all parts of |stream|, in lanes. |out| holds 4 bytes for
 * each of nm_resource_part_count(stream.len, sdu) parts. */
void nm_resource_map_hashes(nm_span stream, size_t sdu,
                            const uint8_t random[NM_RESOURCE_RANDOM_SIZE],
                            uint8_t *out);

/* True when no map hash in |hashmap| equals any of the 224 before it. Linear
 * in the length. */
bool nm_resource_map_distinct(nm_span hashmap);

/* --- Segments (RNS 2, 3.12) --- */

typedef struct nm_resource_plan {
  uint64_t data_size;     /* bytes of data, without metadata */
  uint64_t metadata_size; /* bytes of the metadata block, 0 for none */
  uint64_t total_size;    /* d */
  uint64_t segments;      /* l, at least 1 */
} nm_resource_plan;

/* Plans a transfer of |data_size| bytes with a metadata block of
 * |metadata_size| bytes (its 3 length bytes included, 0 for none).
 * NM_E(TOO_LARGE) when the block does not fit the first segment. */
int nm_resource_plan_make(uint64_t data_size, uint64_t metadata_size,
                          nm_resource_plan *plan);

/* Which data bytes segment |index| (from 1) carries. NM_E(RANGE) when there is
 * no such segment. The metadata block comes on top in segment 1. */
int nm_resource_plan_segment(const nm_resource_plan *plan, uint64_t index,
                             uint64_t *offset, uint64_t *length);

/* Progress from 0 to 1 of segment |segment| of |segments| with |done| of
 * |parts| parts (RNS 2, 3.13). */
double nm_resource_progress(uint64_t segment, uint64_t segments, uint64_t done,
                            uint64_t parts, size_t sdu);

/* --- Metadata block (RNS 2, 3.6) --- */

#define NM_RESOURCE_METADATA_HEADER 3

/* Writes length[3] || packed. NM_E(TOO_LARGE) above 16777215 bytes or when it
 * does not fit. */
int nm_resource_metadata_encode(nm_span packed, nm_writer *w);

/* Splits the plaintext of a first segment into packed metadata and data.
 * Field "metadata": TRUNCATED when the block is longer than |plaintext|. What
 * the block contains is not looked at. */
int nm_resource_metadata_split(nm_span plaintext, nm_span *packed,
                               nm_span *data, nm_fault *fault);

#endif
