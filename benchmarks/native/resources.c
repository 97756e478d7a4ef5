/* Resources: building one from 16 KiB of noise, answering a request. */
#include "bench.h"
#include "fixtures.h"

#include "wire/constants.h"
#include "wire/resource_build.h"
#include "wire/resource_window.h"

#include <string.h>

#define SDU 464
#define CANDIDATES 8 /* for the random hash, four bytes each */
#define LARGE_SIZE 1048575u
#define LARGE_PARTS 2260u
#define STREAM_MAX (NB_LARGE + 128)
#define HASHMAP_MAX 256 /* bytes; 36 parts need 144 */
#define REQUEST_MAX 512

/* What every resource needs. */
typedef struct tools {
  size_t sdu; /* SDU, where the compiler does not know it */
  nm_token_key key;
  nm_cipher cipher;
  nm_entropy_pool random;
} tools;

static int open_tools(tools *t) {
  uint8_t key[64];
  t->sdu = nb_opaque(SDU);
  nb_stream("resource.key", 0, key, sizeof key);
  int status = nm_token_key_init(&t->key, nm_span_of(key, sizeof key));
  if (status == NM_OK) {
    status = nb_random_open(&t->random);
  }
  return status == NM_OK ? nm_cipher_open(&t->cipher, NULL) : status;
}

static void close_tools(tools *t) {
  nm_cipher_close(&t->cipher);
  nm_entropy_pool_wipe(&t->random);
  nm_token_key_wipe(&t->key);
}

/* Builds a segment; all random bytes are drawn here. */
static inline int build(tools *t, nm_span data, nm_mspan stream,
                        nm_mspan hashmap, nm_resource_segment *segment) {
  struct {
    uint8_t iv[NM_AES_BLOCK];
    uint8_t prefix[NM_RESOURCE_PREFIX_SIZE];
    uint8_t randoms[CANDIDATES * NM_RESOURCE_RANDOM_SIZE];
  } fresh;
  int status = nm_entropy_pool_fill(&t->random, &fresh, sizeof fresh);
  if (status != NM_OK) {
    return status;
  }
  nm_resource_build_args args = {
      .plain = {.data = data},
      .sdu = t->sdu,
      .compression = NM_RESOURCE_COMPRESS_OFF,
      .total_size = data.len,
      .key = &t->key,
      .iv = fresh.iv,
      .prefix = fresh.prefix,
      .randoms = nm_span_of(fresh.randoms, sizeof fresh.randoms),
      .stream = stream,
      .hashmap = hashmap,
  };
  return nm_resource_build(&args, &t->cipher, &nm_mem_system, segment);
}

/* --- Building --- */

typedef struct builds {
  size_t count;
  tools tools;
  size_t size; /* of the data */
  uint8_t *data[NB_COUNT];
  uint8_t stream[STREAM_MAX];
  uint8_t hashmap[HASHMAP_MAX];
  nm_resource_segment segment;
  uint8_t packed[NM_MTU];
  size_t packed_len;
  uint8_t opened[STREAM_MAX];
} builds;

static int build_prepare(const nb_row *row, void **state) {
  builds *b = nb_state(state, sizeof *b);
  if (b == NULL) {
    return NM_E(MEMORY);
  }
  b->count = row->inputs;
  b->size = nb_opaque(NB_LARGE);
  for (size_t i = 0; i < b->count; i++) {
    b->data[i] = nb_stream_new("resource.data", i, NB_LARGE);
    if (b->data[i] == NULL) {
      return NM_E(MEMORY);
    }
  }
  return open_tools(&b->tools);
}

static void build_dispose(void *state) {
  builds *b = (builds *)state;
  for (size_t i = 0; i < NB_COUNT; i++) {
    nm_release(&nm_mem_system, b->data[i]);
  }
  close_tools(&b->tools);
  nm_release(&nm_mem_system, b);
}

static inline int build_once(builds *b, size_t i) {
  nm_mspan stream = {b->stream, sizeof b->stream};
  nm_mspan hashmap = {b->hashmap, sizeof b->hashmap};
  int status = build(&b->tools, nm_span_of(b->data[i], b->size), stream,
                     hashmap, &b->segment);
  if (status != NM_OK) {
    return status;
  }
  nm_resource_announce what = {
      .data_size = b->size, .segment = 1, .segments = 1};
  nm_resource_adv adv;
  nm_resource_adv_of(&b->segment, &what, &adv);
  nm_writer w = nm_writer_of(b->packed, sizeof b->packed);
  status = nm_resource_adv_encode(&adv, &w);
  b->packed_len = nm_writer_done(&w).len;
  nb_use(b);
  return status;
}

NB_RUN(build_run, builds, build_once);

/* Whether every map hash of the advertisement is that of its part. */
static bool maps_agree(const builds *b, const nm_resource_adv *adv) {
  nm_span stream = b->segment.stream;
  for (size_t i = 0; i < adv->parts; i++) {
    size_t left = stream.len - i * SDU;
    nm_span part = nm_span_slice(stream, i * SDU, left < SDU ? left : SDU);
    uint8_t map[NM_RESOURCE_MAP_HASH_SIZE];
    nm_resource_map_hash(part, adv->random.ptr, map);
    if (!nm_span_equal(
            nm_span_of(map, sizeof map),
            nm_span_slice(adv->hashmap, i * sizeof map, sizeof map))) {
      return false;
    }
  }
  return true;
}

/* Reads the advertisement back, opens the stream, and recomputes the hashes. */
static int check_build(void *state, size_t i, nm_span *evidence) {
  builds *b = (builds *)state;
  nm_resource_adv adv;
  size_t len = 0;
  int status =
      nm_resource_adv_decode(nm_span_of(b->packed, b->packed_len), &adv, NULL);
  if (status == NM_OK) {
    status = nm_token_open(&b->tools.cipher, &b->tools.key, b->segment.stream,
                           b->opened, &len);
  }
  if (status != NM_OK) {
    return status;
  }
  nm_span opened = nm_span_of(b->opened, len);
  *evidence = nm_span_slice(opened, NM_RESOURCE_PREFIX_SIZE, NB_LARGE);
  nm_span hashed[2] = {nm_span_of(b->data[i], NB_LARGE), adv.random};
  uint8_t hash[NM_HASH_SIZE];
  nm_sha256v(hash, hashed, 2);
  bool same = nm_span_equal(adv.hash, nm_span_of(hash, sizeof hash)) &&
              adv.parts == nm_resource_part_count(b->segment.stream.len, SDU) &&
              nm_span_equal(*evidence, hashed[0]) && maps_agree(b, &adv);
  hashed[1] = adv.hash;
  nm_sha256v(hash, hashed, 2);
  same = same && memcmp(hash, b->segment.expected_proof, sizeof hash) == 0;
  return same ? NM_OK : NM_E(MISMATCH);
}

/* --- Answering requests --- */

typedef struct windows {
  size_t count;
  size_t window;
  tools tools;
  uint8_t *stream;
  uint8_t *hashmap;
  uint8_t *sent;
  nm_resource_server server;
  uint8_t requests[NB_COUNT][REQUEST_MAX];
  uint8_t sealed[NB_COUNT][REQUEST_MAX];
  size_t request_len;
  size_t sealed_len;
  uint8_t opened[REQUEST_MAX];
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
  uint8_t evidence[8];
} windows;

/* Request |i| names |window| consecutive parts from part |i| on. */
static int make_request(windows *s, size_t i) {
  nm_resource_request request = {
      .hash = nm_span_of(s->server.hash, NM_HASH_SIZE),
      .wanted = nm_span_slice(s->server.hashmap, i * NM_RESOURCE_MAP_HASH_SIZE,
                              s->window * NM_RESOURCE_MAP_HASH_SIZE),
  };
  nm_writer w = nm_writer_of(s->requests[i], REQUEST_MAX);
  int status = nm_resource_request_encode(&request, &w);
  s->request_len = nm_writer_done(&w).len;
  uint8_t iv[NM_AES_BLOCK];
  if (status == NM_OK) {
    status = nm_entropy_pool_fill(&s->tools.random, iv, sizeof iv);
  }
  s->sealed_len = nm_token_size(s->request_len);
  if (status != NM_OK || s->sealed_len > REQUEST_MAX) {
    return status != NM_OK ? status : NM_E(TOO_LARGE);
  }
  return nm_token_seal(&s->tools.cipher, &s->tools.key, iv, nm_writer_done(&w),
                       s->sealed[i]);
}

/* Builds the large resource and starts serving it. */
static int serve_large(windows *s) {
  size_t stream_len = nm_resource_stream_size(LARGE_SIZE);
  size_t hashmap_len = nm_resource_hashmap_bound(LARGE_SIZE, SDU);
  size_t sent_len = nm_resource_sent_size(LARGE_PARTS);
  uint8_t *data = nb_stream_new("resource.large", 0, LARGE_SIZE);
  s->stream = nm_alloc(&nm_mem_system, stream_len);
  s->hashmap = nm_alloc(&nm_mem_system, hashmap_len);
  s->sent = nm_alloc(&nm_mem_system, sent_len);
  if (data == NULL || s->stream == NULL || s->hashmap == NULL ||
      s->sent == NULL) {
    nm_release(&nm_mem_system, data);
    return NM_E(MEMORY);
  }
  nm_resource_segment segment;
  nm_mspan stream = {s->stream, stream_len};
  nm_mspan hashmap = {s->hashmap, hashmap_len};
  int status =
      build(&s->tools, nm_span_of(data, LARGE_SIZE), stream, hashmap, &segment);
  nm_release(&nm_mem_system, data);
  if (status == NM_OK && segment.parts != LARGE_PARTS) {
    status = NM_E(LENGTH);
  }
  nm_mspan sent = {s->sent, sent_len};
  return status != NM_OK ? status
                         : nm_resource_server_init(&s->server, segment.stream,
                                                   segment.hashmap, SDU,
                                                   segment.hash, sent);
}

static int window_prepare(const nb_row *row, void **state) {
  windows *s = nb_state(state, sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->count = row->inputs;
  s->window = row->size;
  int status = open_tools(&s->tools);
  if (status == NM_OK) {
    status = serve_large(s);
  }
  for (size_t i = 0; status == NM_OK && i < s->count; i++) {
    status = make_request(s, i);
  }
  return status;
}

static void window_dispose(void *state) {
  windows *s = (windows *)state;
  nm_release(&nm_mem_system, s->stream);
  nm_release(&nm_mem_system, s->hashmap);
  nm_release(&nm_mem_system, s->sent);
  close_tools(&s->tools);
  nm_release(&nm_mem_system, s);
}

static inline int answer(windows *s, nm_span request) {
  int status = nm_resource_serve(&s->server, request, s->tx, NM_RESOURCE_GUARD,
                                 &s->answer, NULL);
  nb_use(s->tx);
  return status;
}

static inline int window_once(windows *s, size_t i) {
  return answer(s, nm_span_of(s->requests[i], s->request_len));
}

NB_RUN(window_run, windows, window_once);

static inline int sealed_once(windows *s, size_t i) {
  size_t len = 0;
  int status =
      nm_token_open(&s->tools.cipher, &s->tools.key,
                    nm_span_of(s->sealed[i], s->sealed_len), s->opened, &len);
  return status == NM_OK ? answer(s, nm_span_of(s->opened, len)) : status;
}

NB_RUN(sealed_run, windows, sealed_once);

/* Whether the answer names exactly the requested parts. */
static int check_window(void *state, size_t i, nm_span *evidence) {
  windows *s = (windows *)state;
  bool same = s->answer.count == s->window && s->answer.unknown == 0;
  for (size_t n = 0; same && n < s->window; n++) {
    const nm_resource_tx *tx = &s->tx[n];
    same = tx->index == i + n && tx->len == SDU &&
           tx->ptr == nm_span_slice(s->server.stream, (i + n) * SDU, SDU).ptr;
  }
  for (size_t n = 0; n < sizeof s->evidence; n++) {
    s->evidence[n] = (uint8_t)((uint64_t)i >> (8 * n));
  }
  *evidence = nm_span_of(s->evidence, sizeof s->evidence);
  return same ? NM_OK : NM_E(MISMATCH);
}

#define BUILD_NOTE                                                             \
  "nm_resource_build of 16384 random bytes (SDU 464, 36 parts, compression "   \
  "off; random bytes from a buffered generator): encryption as one token, "    \
  "resource hash, proof hash, map hashes, collision check; then the "          \
  "advertisement is packed, not encrypted"
#define WINDOW_NOTE                                                            \
  "nm_resource_serve on 2260 parts (1 MiB - 1, SDU 464): a decrypted request " \
  "for consecutive parts at 64 positions gives one descriptor for each part; " \
  "parts are not copied"
#define SEALED_NOTE                                                            \
  "as request.window, with the request decrypted first (nm_token_open)"

#define WINDOW(row_id, text, width, number, does)                              \
  {                                                                            \
    .id = row_id, .note = text, .size = width, .inputs = number,               \
    .prepare = window_prepare, .run = does, .check = check_window,             \
    .dispose = window_dispose                                                  \
  }

const nb_row nb_resource_rows[] = {
    {.id = "resource.build.16k",
     .note = BUILD_NOTE,
     .inputs = NB_COUNT,
     .prepare = build_prepare,
     .run = build_run,
     .check = check_build,
     .dispose = build_dispose},
    WINDOW("request.window", WINDOW_NOTE, 4, NB_COUNT, window_run),
    WINDOW("request.window.10", WINDOW_NOTE, 10, NB_COUNT, window_run),
    WINDOW("request.window.75", WINDOW_NOTE, 75, NB_COUNT, window_run),
    WINDOW("request.window+decrypt", SEALED_NOTE, 4, NB_COUNT, sealed_run),
    WINDOW("published.request.window", WINDOW_NOTE, 6, 1, window_run),
    {.id = NULL},
};
