/* The choice of a backend, and hashing of many messages on one.
 */
#include "crypto/sha256_lanes.h"

#include "crypto/sha256_kernels.h"

#include <stdatomic.h>
#include <string.h>

typedef struct backend {
  const nm_sha256_lanes *lanes;
  /* With fewer busy lanes than this, one stream after the other is quicker: an
   * idle lane costs as much as a busy one. */
  size_t worth;
} backend;

/* Slowest first. */
static const backend backends[] = {
    {&nm_sha256_lanes_portable, 1}, {&nm_sha256_lanes_openssl, 1},
#if defined(__x86_64__)
    {&nm_sha256_lanes_avx2, 3},     {&nm_sha256_lanes_shani, 4},
    {&nm_sha256_lanes_avx512, 9},
#endif
};

#define BACKENDS (sizeof backends / sizeof backends[0])

static bool can_run(const nm_cpu_features *cpu, const nm_sha256_lanes *lanes) {
#if defined(__x86_64__)
  if (lanes == &nm_sha256_lanes_avx2) {
    return cpu->avx2;
  }
  if (lanes == &nm_sha256_lanes_shani) {
    return cpu->sha_ni;
  }
  if (lanes == &nm_sha256_lanes_avx512) {
    return cpu->avx512;
  }
#else
  (void)cpu;
  (void)lanes;
#endif
  return true;
}

const nm_sha256_lanes *nm_sha256_lanes_at(const nm_cpu_features *cpu,
                                          size_t index) {
  nm_cpu_features here = nm_cpu_detect();
  size_t seen = 0;
  for (size_t i = 0; i < BACKENDS; i++) {
    if (can_run(cpu != NULL ? cpu : &here, backends[i].lanes)) {
      if (seen == index) {
        return backends[i].lanes;
      }
      seen++;
    }
  }
  return NULL;
}

const nm_sha256_lanes *nm_sha256_lanes_named(const char *name) {
  const nm_sha256_lanes *lanes;
  for (size_t i = 0; (lanes = nm_sha256_lanes_at(NULL, i)) != NULL; i++) {
    if (strcmp(lanes->name, name) == 0) {
      return lanes;
    }
  }
  return NULL;
}

/* Chosen by the first call. */
static _Atomic(const nm_sha256_lanes *) best;

const nm_sha256_lanes *nm_sha256_lanes_best(void) {
  const nm_sha256_lanes *found =
      atomic_load_explicit(&best, memory_order_relaxed);
  if (found == NULL) {
    const nm_sha256_lanes *next;
    for (size_t i = 0; (next = nm_sha256_lanes_at(NULL, i)) != NULL; i++) {
      found = next;
    }
    atomic_store_explicit(&best, found, memory_order_relaxed);
  }
  return found;
}

#define TAIL_SIZE                                                              \
  ((NM_SHA256_BLOCK - 1 + NM_SHA256_SUFFIX_MAX + 9 + NM_SHA256_BLOCK - 1) /    \
   NM_SHA256_BLOCK * NM_SHA256_BLOCK)

/* One message on its way: the whole blocks of the input where they are, then
 * its end with suffix and padding from |tail|. */
typedef struct job {
  const uint8_t *at;
  size_t blocks;      /* left at |at| */
  size_t tail_blocks; /* 0 once they are at |at| */
  uint8_t *out;
  uint32_t h[8];
  uint8_t tail[TAIL_SIZE];
} job;

/* What is still to be done. */
typedef struct queue {
  uint8_t (*out)[NM_HASH_SIZE];
  const nm_span *in;
  size_t left;
  nm_span suffix;
} queue;

static void put_be32(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 24);
  p[1] = (uint8_t)(v >> 16);
  p[2] = (uint8_t)(v >> 8);
  p[3] = (uint8_t)v;
}

static void enter_tail(job *j) {
  j->at = j->tail;
  j->blocks = j->tail_blocks;
  j->tail_blocks = 0;
}

static void job_start(job *j, queue *q) {
  nm_span in = *q->in++;
  nm_span suffix = q->suffix;
  size_t rest = in.len % NM_SHA256_BLOCK;
  size_t used = rest + suffix.len;
  uint64_t bits = ((uint64_t)in.len + suffix.len) * 8;
  j->out = *q->out++;
  q->left--;
  memcpy(j->h, nm_sha256_iv, sizeof j->h);
  if (rest > 0) {
    memcpy(j->tail, in.ptr + (in.len - rest), rest);
  }
  if (suffix.len > 0) {
    memcpy(j->tail + rest, suffix.ptr, suffix.len);
  }
  j->tail_blocks = (used + 9 + NM_SHA256_BLOCK - 1) / NM_SHA256_BLOCK;
  size_t size = j->tail_blocks * NM_SHA256_BLOCK;
  j->tail[used] = 0x80;
  memset(j->tail + used + 1, 0, size - 8 - (used + 1));
  put_be32(j->tail + size - 8, (uint32_t)(bits >> 32));
  put_be32(j->tail + size - 4, (uint32_t)bits);
  j->at = in.ptr;
  j->blocks = in.len / NM_SHA256_BLOCK;
  if (j->blocks == 0) {
    enter_tail(j);
  }
}

/* Moves on by |count| blocks; returns whether that was the last one. */
static bool job_advance(job *j, size_t count) {
  j->at += count * NM_SHA256_BLOCK;
  j->blocks -= count;
  if (j->blocks == 0 && j->tail_blocks > 0) {
    enter_tail(j);
  }
  return j->blocks == 0;
}

/* Runs |active| jobs until one comes to the end of its run of blocks. States
 * go into the lanes and back. */
static void run_lanes(const nm_sha256_lanes *l, job *const *jobs,
                      size_t active) {
  _Alignas(64) uint32_t h[8 * NM_SHA256_LANES_MAX];
  const uint8_t *block[NM_SHA256_LANES_MAX];
  size_t count = jobs[0]->blocks;
  for (size_t i = 1; i < active; i++) {
    count = jobs[i]->blocks < count ? jobs[i]->blocks : count;
  }
  for (size_t i = 0; i < l->lanes; i++) {
    /* Idle lanes repeat the first job. */
    const job *j = jobs[i < active ? i : 0];
    block[i] = j->at;
    for (size_t k = 0; k < 8; k++) {
      h[k * l->lanes + i] = j->h[k];
    }
  }
  l->bytes(h, block, count);
  for (size_t i = 0; i < active; i++) {
    for (size_t k = 0; k < 8; k++) {
      jobs[i]->h[k] = h[k * l->lanes + i];
    }
    job_advance(jobs[i], count);
  }
}

static void job_finish(job *j) {
  for (size_t k = 0; k < 8; k++) {
    put_be32(j->out + 4 * k, j->h[k]);
  }
}

static void job_finish_alone(job *j) {
  do {
    nm_sha256_compress(j->h, j->at, j->blocks);
  } while (!job_advance(j, j->blocks));
  job_finish(j);
}

/* Hashes the whole queue. When fewer than |worth| lanes are busy and nothing
 * waits, the rest is done stream by stream. */
static void run_queue(const nm_sha256_lanes *l, size_t worth, queue *q) {
  job storage[NM_SHA256_LANES_MAX];
  job *jobs[NM_SHA256_LANES_MAX]; /* the active ones first */
  size_t active = 0;
  for (size_t i = 0; i < l->lanes; i++) {
    jobs[i] = &storage[i];
  }
  for (;;) {
    while (active < l->lanes && q->left > 0) {
      job_start(jobs[active++], q);
    }
    if (active == 0 || active < worth) {
      break;
    }
    run_lanes(l, jobs, active);
    for (size_t i = active; i > 0; i--) {
      job *j = jobs[i - 1];
      if (j->blocks == 0) {
        job_finish(j);
        jobs[i - 1] = jobs[--active];
        jobs[active] = j;
      }
    }
  }
  for (size_t i = 0; i < active; i++) {
    job_finish_alone(jobs[i]);
  }
}

static size_t worth_of(const nm_sha256_lanes *lanes) {
  for (size_t i = 0; i < BACKENDS; i++) {
    if (backends[i].lanes == lanes) {
      return backends[i].worth;
    }
  }
  return 1;
}

void nm_sha256_many(uint8_t (*out)[NM_HASH_SIZE], const nm_span *in, size_t n) {
  const nm_sha256_lanes *l = nm_sha256_lanes_best();
  queue q = {out, in, n, {NULL, 0}};
  run_queue(l, worth_of(l), &q);
}

int nm_sha256_many_suffix(uint8_t (*out)[NM_HASH_SIZE], const nm_span *in,
                          size_t n, nm_span suffix) {
  const nm_sha256_lanes *l = nm_sha256_lanes_best();
  queue q = {out, in, n, suffix};
  if (suffix.len > NM_SHA256_SUFFIX_MAX) {
    return NM_E(ARGUMENT);
  }
  run_queue(l, worth_of(l), &q);
  return NM_OK;
}

int nm_sha256_many_with(const nm_sha256_lanes *lanes,
                        uint8_t (*out)[NM_HASH_SIZE], const nm_span *in,
                        size_t n, nm_span suffix) {
  queue q = {out, in, n, suffix};
  if (suffix.len > NM_SHA256_SUFFIX_MAX) {
    return NM_E(ARGUMENT);
  }
  run_queue(lanes, 1, &q);
  return NM_OK;
}
