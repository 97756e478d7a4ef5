/* Announces with 22 bytes of application data and no ratchet. */
#include "bench.h"
#include "fixtures.h"

#include "wire/announce_cache.h"
#include "wire/destination.h"

#include <string.h>

#define NAME "example_utilities.announcesample.fruits"
#define APP_DATA "netmesh-announce-data!"
#define RAW_SIZE 189 /* on the wire */
/* Entries of the cache for each announce, so that none is evicted. */
#define CACHE_ROOM 16

typedef struct arrival {
  uint8_t raw[RAW_SIZE];
} arrival;

typedef struct announces {
  size_t count;      /* inputs */
  size_t raw_len;    /* RAW_SIZE, where the compiler does not know it */
  size_t app_len;    /* of the application data, likewise */
  size_t made;       /* announces in `raws` */
  nm_identity *from; /* identities, when announces are created */
  arrival *raws;
  nm_announce *parsed; /* for the row that validates the same object again */
  nm_packet_hash *hashes;
  nm_destination_hash *owners;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_announce_bucket *buckets;
  nm_announce_cache cache;
  nm_entropy_pool random;
  nm_announce seen;
  nm_announce_verdict verdict;
  arrival out; /* created, or the buffer that bytes arrive in */
  size_t out_len;
  nm_announce batch[NB_BATCH];
  nm_announce_verdict verdicts[NB_BATCH];
} announces;

static void *new_array(size_t count, size_t size) {
  return nm_alloc_zero(&nm_mem_system, count, size);
}

/* Creates an announce by |from| as a node does: random bytes and the time are
 * drawn here. */
static inline int create(announces *a, const nm_identity *from, arrival *out,
                         size_t *len) {
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE];
  int status = nm_entropy_pool_fill(&a->random, random, sizeof random);
  if (status != NM_OK) {
    return status;
  }
  nm_announce_args args = {
      .identity = from,
      .name_hash = a->name_hash,
      .app_data = nm_span_of(APP_DATA, a->app_len),
      .emitted = nb_unix_time(),
      .random = random,
      .context = NM_CONTEXT_NONE,
  };
  return nm_announce_create(&args, out->raw, sizeof out->raw, len, NULL);
}

static inline int parse(nm_span raw, nm_announce *announce) {
  nm_packet packet;
  int status = nm_packet_parse(raw, &packet, NULL);
  return status == NM_OK ? nm_announce_parse(&packet, announce, NULL) : status;
}

static nm_span raw_of(const announces *a, const arrival *from) {
  return nm_span_of(from->raw, a->raw_len);
}

static int make_announce(announces *a, size_t i) {
  size_t len = 0;
  int status = nb_identity(&a->from[i], "announce.identity", i);
  if (status == NM_OK) {
    nm_destination_address(a->name_hash, &a->from[i].hash, &a->owners[i]);
    status = create(a, &a->from[i], &a->raws[i], &len);
  }
  if (status == NM_OK && len != RAW_SIZE) {
    status = NM_E(LENGTH);
  }
  if (status == NM_OK) {
    status = parse(raw_of(a, &a->raws[i]), &a->parsed[i]);
  }
  if (status == NM_OK) {
    nm_packet_digest(&a->parsed[i].packet, &a->hashes[i]);
  }
  return status;
}

static int open_cache(announces *a) {
  size_t buckets = nm_announce_cache_buckets(a->made * CACHE_ROOM);
  uint8_t key[16];
  a->buckets = new_array(buckets, sizeof *a->buckets);
  int status = nm_entropy_fill(&nm_entropy_system, key, sizeof key);
  if (a->buckets == NULL || status != NM_OK) {
    return a->buckets == NULL ? NM_E(MEMORY) : status;
  }
  return nm_announce_cache_init(&a->cache, a->buckets, buckets, key);
}

static int prepare(const nb_row *row, void **state) {
  announces *a = nb_state(state, sizeof *a);
  if (a == NULL) {
    return NM_E(MEMORY);
  }
  a->count = row->inputs;
  a->raw_len = nb_opaque(RAW_SIZE);
  a->app_len = nb_opaque(sizeof APP_DATA - 1);
  a->made = row->size; /* how many announces the row uses */
  a->from = new_array(a->made, sizeof *a->from);
  a->raws = new_array(a->made, sizeof *a->raws);
  a->parsed = new_array(a->made, sizeof *a->parsed);
  a->hashes = new_array(a->made, sizeof *a->hashes);
  a->owners = new_array(a->made, sizeof *a->owners);
  if (a->from == NULL || a->raws == NULL || a->parsed == NULL ||
      a->hashes == NULL || a->owners == NULL) {
    return NM_E(MEMORY);
  }
  nm_name_hash(a->name_hash, nm_span_of(NAME, sizeof NAME - 1));
  int status = nb_random_open(&a->random);
  for (size_t i = 0; i < a->made && status == NM_OK; i++) {
    status = make_announce(a, i);
  }
  return status == NM_OK ? open_cache(a) : status;
}

static void dispose(void *state) {
  announces *a = (announces *)state;
  nm_release(&nm_mem_system, a->from);
  nm_release(&nm_mem_system, a->raws);
  nm_release(&nm_mem_system, a->parsed);
  nm_release(&nm_mem_system, a->hashes);
  nm_release(&nm_mem_system, a->owners);
  nm_release(&nm_mem_system, a->buckets);
  nm_entropy_pool_wipe(&a->random);
  nm_release(&nm_mem_system, a);
}

/* Whether |seen| is valid and was announced by |i|. */
static int check_one(const announces *a, const nm_announce *seen,
                     nm_announce_verdict verdict, size_t i, nm_span *evidence) {
  nm_span wanted = nm_span_of(APP_DATA, sizeof APP_DATA - 1);
  *evidence = nm_span_of(a->owners[i].b, NM_ADDRESS_SIZE);
  bool same = verdict == NM_ANNOUNCE_VALID &&
              nm_span_equal(seen->packet.destination, *evidence) &&
              nm_span_equal(seen->app_data, wanted);
  return same ? NM_OK : NM_E(MISMATCH);
}

/* --- Creation --- */

static inline int create_once(announces *a, size_t i) {
  int status = create(a, &a->from[i], &a->out, &a->out_len);
  nb_use(&a->out);
  return status;
}

NB_RUN(create_run, announces, create_once);

static int check_create(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  nm_announce seen;
  int status = parse(nm_span_of(a->out.raw, a->out_len), &seen);
  if (status != NM_OK) {
    return status;
  }
  nm_announce_verdict verdict = nm_announce_validate(&seen, false, NULL);
  return check_one(a, &seen, verdict, i, evidence);
}

/* --- Validation for the first time --- */

static inline int cold_once(announces *a, size_t i) {
  int status = parse(raw_of(a, &a->raws[i]), &a->seen);
  if (status == NM_OK) {
    a->verdict = nm_announce_validate(&a->seen, false, NULL);
  }
  nb_use(&a->seen);
  return status;
}

NB_RUN(cold_run, announces, cold_once);

/* Also that a forged announce is refused. */
static int check_cold(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  int status = check_one(a, &a->seen, a->verdict, i, evidence);
  a->raws[i].raw[RAW_SIZE - 1] ^= 1;
  int failed = cold_once(a, i);
  a->raws[i].raw[RAW_SIZE - 1] ^= 1;
  bool refused = failed == NM_OK && a->verdict == NM_ANNOUNCE_BAD_SIGNATURE;
  return status == NM_OK && !refused ? NM_E(SIGNATURE) : status;
}

/* --- The same bytes again, in another buffer --- */

static inline int repeat_once(announces *a, size_t i) {
  memcpy(a->out.raw, a->raws[i].raw, a->raw_len);
  nb_use(&a->out);
  int status = parse(raw_of(a, &a->out), &a->seen);
  if (status == NM_OK) {
    a->verdict = nm_announce_cache_validate(&a->cache, &a->seen, NULL, NULL);
  }
  nb_use(&a->seen);
  return status;
}

NB_RUN(repeat_run, announces, repeat_once);

/* Also that a hit does not skip the comparison with a known key. */
static int check_repeat(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  size_t other = (i + 1) % a->made;
  nm_announce_verdict verdict = nm_announce_cache_validate(
      &a->cache, &a->parsed[i], NULL, a->from[other].public_key);
  if (a->made > 1 && verdict != NM_ANNOUNCE_KEY_MISMATCH) {
    return NM_E(SIGNATURE);
  }
  return check_one(a, &a->seen, a->verdict, i, evidence);
}

/* --- The same parsed announce again, its packet hash at hand --- */

static inline int same_once(announces *a, size_t i) {
  a->verdict =
      nm_announce_cache_validate(&a->cache, &a->parsed[i], &a->hashes[i], NULL);
  nb_use(a);
  return NM_OK;
}

NB_RUN(same_run, announces, same_once);

static int check_same(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  return check_one(a, &a->parsed[i], a->verdict, i, evidence);
}

/* --- 64 at once --- */

static inline int batch_once(announces *a, size_t i) {
  for (size_t n = 0; n < NB_BATCH; n++) {
    int status = parse(raw_of(a, &a->raws[i * NB_BATCH + n]), &a->batch[n]);
    if (status != NM_OK) {
      return status;
    }
    a->verdicts[n] = nm_announce_validate(&a->batch[n], false, NULL);
  }
  nb_use(a->batch);
  return NM_OK;
}

NB_RUN(batch_run, announces, batch_once);

static inline int batch_repeat_once(announces *a, size_t i) {
  for (size_t n = 0; n < NB_BATCH; n++) {
    memcpy(a->out.raw, a->raws[i * NB_BATCH + n].raw, a->raw_len);
    nb_use(&a->out);
    int status = parse(raw_of(a, &a->out), &a->batch[n]);
    if (status != NM_OK) {
      return status;
    }
    a->verdicts[n] =
        nm_announce_cache_validate(&a->cache, &a->batch[n], NULL, NULL);
    nb_use(&a->batch[n]);
  }
  return NM_OK;
}

NB_RUN(batch_repeat_run, announces, batch_repeat_once);

/* Of a repeated batch only the last announce is still in its buffer. */
static int check_batch_last(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  for (size_t n = 0; n < NB_BATCH; n++) {
    if (a->verdicts[n] != NM_ANNOUNCE_VALID) {
      return NM_E(MISMATCH);
    }
  }
  return check_one(a, &a->batch[NB_BATCH - 1], a->verdicts[NB_BATCH - 1],
                   i * NB_BATCH + NB_BATCH - 1, evidence);
}

static int check_batch(void *state, size_t i, nm_span *evidence) {
  announces *a = (announces *)state;
  for (size_t n = 0; n < NB_BATCH; n++) {
    int status =
        check_one(a, &a->batch[n], a->verdicts[n], i * NB_BATCH + n, evidence);
    if (status != NM_OK) {
      return status;
    }
  }
  return NM_OK;
}

#define CREATE_NOTE                                                            \
  "5 random bytes from a buffered generator and the clock, "                   \
  "nm_announce_create: signature and complete wire bytes; 64 destinations"
#define COLD_NOTE                                                              \
  "nm_packet_parse, nm_announce_parse, nm_announce_validate (signature and "   \
  "destination hash); 4096 identities in turn, nothing cached"
#define SAME_NOTE                                                              \
  "nm_announce_cache_validate of an announce that is parsed and whose packet " \
  "hash is known; 64 announces"
#define REPEAT_NOTE                                                            \
  "the bytes arrive in a new buffer (copied within the time), "                \
  "nm_packet_parse, nm_announce_parse, nm_announce_cache_validate: packet "    \
  "hash and look-up of the full 32-byte hash; 64 announces"
#define BATCH_NOTE                                                             \
  "64 announces as in announce.validate.cold, one after the other; 4096 "      \
  "identities in turn"
#define BATCH_REPEAT_NOTE                                                      \
  "64 announces as in announce.validate.repeat, one after the other; 4096 "    \
  "identities in turn"

#define ROW(row_id, text, number, total, does, checks)                         \
  {                                                                            \
    .id = row_id, .note = text, .inputs = number, .size = total,               \
    .prepare = prepare, .run = does, .check = checks, .dispose = dispose       \
  }

const nb_row nb_announce_rows[] = {
    ROW("announce.create", CREATE_NOTE, NB_COUNT, NB_COUNT, create_run,
        check_create),
    ROW("announce.validate.cold", COLD_NOTE, NB_COLD, NB_COLD, cold_run,
        check_cold),
    ROW("announce.validate.same", SAME_NOTE, NB_COUNT, NB_COUNT, same_run,
        check_same),
    ROW("announce.validate.repeat", REPEAT_NOTE, NB_COUNT, NB_COUNT, repeat_run,
        check_repeat),
    ROW("announce.validate.batch64", BATCH_NOTE, NB_COLD / NB_BATCH, NB_COLD,
        batch_run, check_batch),
    ROW("announce.validate.batch64.repeat", BATCH_REPEAT_NOTE,
        NB_COLD / NB_BATCH, NB_COLD, batch_repeat_run, check_batch_last),
    ROW("published.announce.create", CREATE_NOTE, 1, 1, create_run,
        check_create),
    ROW("published.announce.validate", COLD_NOTE, 1, 1, cold_run, check_cold),
    ROW("published.announce.batch64", BATCH_NOTE, 1, NB_BATCH, batch_run,
        check_batch),
    {.id = NULL},
};
