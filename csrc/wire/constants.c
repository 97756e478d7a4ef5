#include "wire/constants.h"

#include "crypto/identity.h"
#include "crypto/token.h"
#include "wire/channel.h"
#include "wire/resource.h"
#include "wire/stream.h"

/* X(name, value, unit, text). What other headers define. */
#define BORROWED(X)                                                            \
  X(HASH_SIZE, NM_HASH_SIZE, "bytes", "full hash")                             \
  X(ADDRESS_SIZE, NM_ADDRESS_SIZE, "bytes", "truncated hash: every address")   \
  X(NAME_HASH_SIZE, NM_NAME_HASH_SIZE, "bytes", "hash of a dotted name")       \
  X(KEY_SIZE, NM_KEY_SIZE, "bytes", "one X25519 or Ed25519 key")               \
  X(PUBLIC_SIZE, NM_PUBLIC_SIZE, "bytes", "public key of an identity")         \
  X(PRIVATE_SIZE, NM_PRIVATE_SIZE, "bytes", "private key of an identity")      \
  X(SIGNATURE_SIZE, NM_SIGNATURE_SIZE, "bytes", "signature")                   \
  X(TOKEN_OVERHEAD, NM_TOKEN_OVERHEAD, "bytes", "IV and MAC of a token")       \
  X(AES_BLOCK, NM_AES_BLOCK, "bytes", "cipher block")                          \
  X(RATCHET_ID_SIZE, NM_RATCHET_ID_SIZE, "bytes", "id of a ratchet")           \
  X(CHANNEL_MDU_MAX, NM_CHANNEL_PAYLOAD_MAX, "bytes", "channel message")       \
  X(CHANNEL_HEADER_SIZE, NM_CHANNEL_HEADER_SIZE, "bytes", "envelope header")   \
  X(CHANNEL_RESERVED, NM_CHANNEL_RESERVED, "code", "first reserved type")      \
  X(CHANNEL_STREAM_DATA, NM_CHANNEL_STREAM_DATA, "code", "type of streams")    \
  X(STREAM_ID_MAX, NM_STREAM_ID_MAX, "id", "highest stream id")                \
  X(STREAM_CHUNK_MAX, NM_STREAM_CHUNK_MAX, "bytes", "stream message inflated") \
  X(STREAM_HEADER_SIZE, NM_STREAM_HEADER_SIZE, "bytes", "stream header")       \
  X(STREAM_EOF, NM_STREAM_EOF, "mask", "stream header: end")                   \
  X(STREAM_COMPRESSED, NM_STREAM_COMPRESSED, "mask", "stream header: bzip2")   \
  X(RESOURCE_WINDOW, NM_RESOURCE_WINDOW, "parts", "window at the start")       \
  X(RESOURCE_WINDOW_MIN, NM_RESOURCE_WINDOW_MIN, "parts", "smallest window")   \
  X(RESOURCE_WINDOW_MAX_SLOW, NM_RESOURCE_WINDOW_MAX_SLOW, "parts",            \
    "largest window, slow link")                                               \
  X(RESOURCE_WINDOW_MAX_VERY_SLOW, NM_RESOURCE_WINDOW_MAX_VERY_SLOW, "parts",  \
    "largest window, very slow link")                                          \
  X(RESOURCE_WINDOW_MAX_FAST, NM_RESOURCE_WINDOW_MAX_FAST, "parts",            \
    "largest window, fast link")                                               \
  X(RESOURCE_WINDOW_FLEXIBILITY, NM_RESOURCE_WINDOW_FLEXIBILITY, "parts",      \
    "least spread of a window")                                                \
  X(RESOURCE_FAST_ROUNDS, NM_RESOURCE_FAST_ROUNDS, "rounds",                   \
    "fast rounds before the largest window")                                   \
  X(RESOURCE_VERY_SLOW_ROUNDS, NM_RESOURCE_VERY_SLOW_ROUNDS, "rounds",         \
    "very slow rounds before the smallest one")                                \
  X(RESOURCE_RATE_FAST, NM_RESOURCE_RATE_FAST, "byte/s",                       \
    "rate of a fast round")                                                    \
  X(RESOURCE_RATE_VERY_SLOW, NM_RESOURCE_RATE_VERY_SLOW, "byte/s",             \
    "rate of a very slow round")                                               \
  X(RESOURCE_MAPHASH_SIZE, NM_RESOURCE_MAP_HASH_SIZE, "bytes",                 \
    "hash of a part in the map")                                               \
  X(RESOURCE_RANDOM_SIZE, NM_RESOURCE_RANDOM_SIZE, "bytes",                    \
    "random hash of a resource")                                               \
  X(RESOURCE_PREFIX_SIZE, NM_RESOURCE_PREFIX_SIZE, "bytes",                    \
    "random bytes before the plaintext")                                       \
  X(RESOURCE_PROOF_SIZE, NM_RESOURCE_PROOF_SIZE, "bytes", "proof payload")     \
  X(RESOURCE_HASHMAP_MAX, NM_RESOURCE_HASHMAP_MAX, "hashes",                   \
    "map hashes in one packet")                                                \
  X(RESOURCE_COLLISION_GUARD, NM_RESOURCE_GUARD, "parts",                      \
    "span with distinct map hashes")                                           \
  X(RESOURCE_SEGMENT_MAX, NM_RESOURCE_SEGMENT_MAX, "bytes",                    \
    "data of one segment")                                                     \
  X(RESOURCE_METADATA_MAX, NM_RESOURCE_METADATA_MAX, "bytes",                  \
    "packed metadata")                                                         \
  X(RESOURCE_COMPRESS_MAX, NM_RESOURCE_COMPRESS_MAX, "bytes",                  \
    "largest that is compressed")                                              \
  X(RESOURCE_OUTPUT_MAX, NM_RESOURCE_COMPRESS_MAX, "bytes",                    \
    "largest decompressed segment")                                            \
  X(RESOURCE_TRANSFER_MAX, NM_RESOURCE_TRANSFER_MAX, "bytes",                  \
    "largest advertised transfer")                                             \
  X(RESOURCE_SDU_OVERHEAD, NM_RESOURCE_SDU_OVERHEAD, "bytes",                  \
    "link MTU less the data of a part")                                        \
  X(RESOURCE_RETRIES_MAX, NM_RESOURCE_RETRIES, "times",                        \
    "requests without an answer")                                              \
  X(RESOURCE_ADV_RETRIES_MAX, NM_RESOURCE_ADV_RETRIES, "times",                \
    "repetitions of an advertisement")                                         \
  X(RESOURCE_FLAG_ENCRYPTED, NM_RESOURCE_ENCRYPTED, "mask",                    \
    "advertisement: encrypted")                                                \
  X(RESOURCE_FLAG_COMPRESSED, NM_RESOURCE_COMPRESSED, "mask",                  \
    "advertisement: compressed")                                               \
  X(RESOURCE_FLAG_SPLIT, NM_RESOURCE_SPLIT, "mask",                            \
    "advertisement: one of several segments")                                  \
  X(RESOURCE_FLAG_REQUEST, NM_RESOURCE_IS_REQUEST, "mask",                     \
    "advertisement: a request")                                                \
  X(RESOURCE_FLAG_RESPONSE, NM_RESOURCE_IS_RESPONSE, "mask",                   \
    "advertisement: a response")                                               \
  X(RESOURCE_FLAG_METADATA, NM_RESOURCE_HAS_METADATA, "mask",                  \
    "advertisement: begins with metadata")                                     \
  X(RESOURCE_STATE_NONE, NM_RESOURCE_NONE, "code", "resource: not begun")      \
  X(RESOURCE_STATE_QUEUED, NM_RESOURCE_QUEUED, "code", "resource: waiting")    \
  X(RESOURCE_STATE_ADVERTISED, NM_RESOURCE_ADVERTISED, "code",                 \
    "resource: advertised")                                                    \
  X(RESOURCE_STATE_TRANSFERRING, NM_RESOURCE_TRANSFERRING, "code",             \
    "resource: parts under way")                                               \
  X(RESOURCE_STATE_AWAITING_PROOF, NM_RESOURCE_AWAITING_PROOF, "code",         \
    "resource: all parts sent")                                                \
  X(RESOURCE_STATE_ASSEMBLING, NM_RESOURCE_ASSEMBLING, "code",                 \
    "resource: all parts received")                                            \
  X(RESOURCE_STATE_COMPLETE, NM_RESOURCE_COMPLETE, "code", "resource: done")   \
  X(RESOURCE_STATE_FAILED, NM_RESOURCE_FAILED, "code", "resource: failed")     \
  X(RESOURCE_STATE_CORRUPT, NM_RESOURCE_CORRUPT, "code",                       \
    "resource: the content is not what was advertised")                        \
  X(RESOURCE_STATE_REJECTED, NM_RESOURCE_REJECTED, "code",                     \
    "resource: refused by the receiver")

#define WHOLE(name, value, unit, text) {#name, (double)(value), 1, unit, text},
#define REAL(name, value, unit, text) {#name, (value), 0, unit, text},

const nm_constant nm_constants[] = {NM_CONSTANT_SIZES(WHOLE) NM_CONSTANT_CODES(
    WHOLE) NM_CONSTANT_LIMITS(WHOLE) NM_CONSTANT_REALS(REAL) BORROWED(WHOLE)};

const size_t nm_constant_count = sizeof nm_constants / sizeof nm_constants[0];

const nm_destination_hash nm_path_request_address = {
    {0x6b, 0x9f, 0x66, 0x01, 0x4d, 0x98, 0x53, 0xfa, 0xab, 0x22, 0x0f, 0xba,
     0x47, 0xd0, 0x27, 0x61}};

const nm_destination_hash nm_tunnel_address = {
    {0x91, 0xbf, 0x09, 0x10, 0x26, 0x7b, 0x59, 0xb0, 0xe8, 0x64, 0xe0, 0xd4,
     0xc9, 0x16, 0x02, 0xca}};
