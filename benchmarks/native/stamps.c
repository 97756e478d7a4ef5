/* Stamps: building a work block and searching for proof of work. */
#include "bench.h"
#include "fixtures.h"

#include "crypto/stamp.h"

#include <string.h>

#define ROUNDS 3000u
#define BLOCK_SIZE ((size_t)ROUNDS * NM_WORKBLOCK_ROUND)
/* Cost of the stamps that prove that a search works: some thousand tries. */
#define PROOF_COST 10
#define PROOF_TRIES (1u << 20)
/* Tries in one entry of the histogram. */
#define TRIES_EACH 65536

typedef struct stamps {
  size_t count;
  uint8_t materials[NB_COUNT][NM_HASH_SIZE];
  nm_sha256_midstate *mids; /* of the searches */
  uint8_t prefixes[NB_COUNT][24];
  const nm_sha256_lanes *lanes;
  uint64_t counter;
  uint8_t *block; /* of the builds */
  uint8_t evidence[NM_HASH_SIZE];
} stamps;

static int prepare(const nb_row *row, void **state) {
  stamps *s = nb_state(state, sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->count = row->inputs;
  s->lanes = row->option != NULL ? nm_sha256_lanes_named(row->option)
                                 : nm_sha256_lanes_best();
  s->block = nm_alloc(&nm_mem_system, BLOCK_SIZE);
  s->mids = nm_alloc_zero(&nm_mem_system, s->count, sizeof *s->mids);
  if (s->block == NULL || s->mids == NULL || s->lanes == NULL) {
    return s->lanes == NULL ? NM_E(MODE) : NM_E(MEMORY);
  }
  for (size_t i = 0; i < s->count; i++) {
    nb_stream("stamp.material", i, s->materials[i], NM_HASH_SIZE);
    nb_stream("stamp.prefix", i, s->prefixes[i], sizeof s->prefixes[i]);
  }
  return NM_OK;
}

static int prepare_search(const nb_row *row, void **state) {
  int status = prepare(row, state);
  stamps *s = (stamps *)*state;
  for (size_t i = 0; status == NM_OK && i < s->count; i++) {
    nm_span material = nm_span_of(s->materials[i], NM_HASH_SIZE);
    nm_workblock_midstate(&s->mids[i], material, ROUNDS);
  }
  return status;
}

static void dispose(void *state) {
  stamps *s = (stamps *)state;
  nm_release(&nm_mem_system, s->block);
  nm_release(&nm_mem_system, s->mids);
  nm_release(&nm_mem_system, s);
}

static int search(const stamps *s, size_t i, uint32_t cost, uint64_t counter,
                  uint64_t tries, uint8_t stamp[NM_STAMP_SIZE]) {
  nm_stamp_search_args args = {.mid = &s->mids[i],
                               .cost = cost,
                               .counter = counter,
                               .tries_max = tries,
                               .lanes = s->lanes};
  memcpy(args.prefix, s->prefixes[i], sizeof args.prefix);
  int found = nm_stamp_search(&args);
  if (found == 1) {
    memcpy(stamp, args.stamp, NM_STAMP_SIZE);
  }
  return found;
}

/* A call is a try; all of a run are on one work block, for a cost that is
 * never met. */
static int search_run(void *state, uint64_t calls, size_t first) {
  stamps *s = (stamps *)state;
  uint8_t stamp[NM_STAMP_SIZE];
  int found = search(s, first, NM_STAMP_COST_MAX, s->counter, calls, stamp);
  s->counter += calls;
  return found == 1 ? NM_E(MISMATCH) : found;
}

/* Finds the first cheap stamp from counter 0 on. */
static int check_search(void *state, size_t i, nm_span *evidence) {
  stamps *s = (stamps *)state;
  *evidence = nm_span_of(s->evidence, NM_STAMP_SIZE);
  int found = search(s, i, PROOF_COST, 0, PROOF_TRIES, s->evidence);
  if (found != 1) {
    return found < 0 ? found : NM_E(MISSING);
  }
  return nm_stamp_valid(&s->mids[i], *evidence, PROOF_COST) ? NM_OK
                                                            : NM_E(MISMATCH);
}

static inline int build_once(stamps *s, size_t i) {
  nm_workblock_build(s->block, nm_span_of(s->materials[i], NM_HASH_SIZE),
                     ROUNDS);
  nb_use(s->block);
  return NM_OK;
}

NB_RUN(build_run, stamps, build_once);

static int check_build(void *state, size_t i, nm_span *evidence) {
  stamps *s = (stamps *)state;
  (void)i;
  nm_sha256(s->evidence, nm_span_of(s->block, BLOCK_SIZE));
  *evidence = nm_span_of(s->evidence, NM_HASH_SIZE);
  return NM_OK;
}

#define SEARCH_NOTE                                                            \
  "calls = tries, one thread. nm_stamp_search for a cost that is never met: "  \
  "32-byte stamps, one hashed block a try from the saved state of a work "     \
  "block of 3000 rounds, which is built outside the time; a single call of "   \
  "the histogram spans 65536 tries"
#define BUILD_NOTE "nm_workblock_build of 3000 rounds (768000 bytes)"

#define SEARCH(row_id, backend)                                                \
  {                                                                            \
    .id = row_id, .note = SEARCH_NOTE, .option = backend, .inputs = NB_COUNT,  \
    .calls_each = TRIES_EACH, .prepare = prepare_search, .run = search_run,    \
    .check = check_search, .dispose = dispose                                  \
  }

const nb_row nb_stamp_rows[] = {
    SEARCH("stamp.search", NULL),
    SEARCH("stamp.search.portable", "portable"),
    SEARCH("stamp.search.openssl", "openssl"),
    SEARCH("stamp.search.sha_ni", "sha_ni"),
    SEARCH("stamp.search.avx2", "avx2"),
    SEARCH("stamp.search.avx512", "avx512"),
    {.id = "stamp.workblock.3000",
     .note = BUILD_NOTE,
     .inputs = NB_COUNT,
     .prepare = prepare,
     .run = build_run,
     .check = check_build,
     .dispose = dispose},
    {.id = NULL},
};
