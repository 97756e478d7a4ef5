/* The measuring side: blocks of calls, single calls, and their histogram. */
#ifndef NB_TIMING_H
#define NB_TIMING_H

#include "bench.h"

/* Exact below 256 ns, above it 128 bins for each power of two, so that a bin
 * is at most 0.79 % wide. */
#define NB_SUB_BITS 7
#define NB_SUB_BINS (1u << NB_SUB_BITS)
#define NB_BINS (((64 - NB_SUB_BITS) << NB_SUB_BITS) + NB_SUB_BINS)

typedef struct nb_histogram {
  uint64_t counts[NB_BINS];
  uint64_t max_ns;
} nb_histogram;

void nb_histogram_add(nb_histogram *histogram, uint64_t ns);
/* The largest value that falls into |bin|. */
uint64_t nb_histogram_upper(size_t bin);

/* A prepared row. */
typedef struct nb_bench {
  const nb_row *row;
  void *state;
  size_t next;        /* input of the next call */
  double ns_per_call; /* rough, for the length of the next block */
} nb_bench;

typedef struct nb_block {
  uint64_t calls;
  uint64_t ns;     /* wall time */
  uint64_t cpu_ns; /* of the whole process */
  size_t input;    /* of the last call */
  nm_span evidence;
} nb_block;

/* Prepares |row|: checks the output for up to 64 inputs once and measures a
 * call roughly. 0 or a negative status; |bench| is to be closed in any case. */
int nb_bench_open(nb_bench *bench, const nb_row *row);
void nb_bench_close(nb_bench *bench);

/* Runs and checks one block of about |ns| nanoseconds, at least one call. */
int nb_bench_block(nb_bench *bench, uint64_t ns, nb_block *block);

/* Times |count| single calls (or groups of row->calls_each) into |histogram|
 * and checks the last output. */
int nb_bench_singles(nb_bench *bench, uint64_t count, nb_histogram *histogram);

/* The least difference between two readings of the clock: part of every entry
 * of a histogram, and of a block only once. */
uint64_t nb_clock_cost(void);

#endif
