#include "timing.h"

#include <string.h>
#include <time.h>

#define CALIBRATION_NS 1000000u
#define SHORTEST_CALL_NS 0.1

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static size_t bin_of(uint64_t ns) {
  if (ns < 2 * NB_SUB_BINS) {
    return (size_t)ns;
  }
  unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - NB_SUB_BITS;
  return ((size_t)shift << NB_SUB_BITS) + (size_t)(ns >> shift);
}

void nb_histogram_add(nb_histogram *histogram, uint64_t ns) {
  histogram->counts[bin_of(ns)]++;
  if (ns > histogram->max_ns) {
    histogram->max_ns = ns;
  }
}

uint64_t nb_histogram_upper(size_t bin) {
  if (bin < 2 * NB_SUB_BINS) {
    return bin;
  }
  unsigned shift = (unsigned)(bin >> NB_SUB_BITS) - 1;
  uint64_t top = (bin & (NB_SUB_BINS - 1)) + NB_SUB_BINS + 1;
  /* The last bin's end is 2^64, which wraps to the largest value. */
  return (top << shift) - 1;
}

/* Runs |calls| calls under the clock and moves on in the rotation. */
static int timed(nb_bench *bench, uint64_t calls, nb_block *block) {
  const nb_row *row = bench->row;
  if (row->refill != NULL) {
    int status = row->refill(bench->state, calls);
    if (status != NM_OK) {
      return status;
    }
  }
  uint64_t cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t start = read_clock(CLOCK_MONOTONIC);
  int status = row->run(bench->state, calls, bench->next);
  block->ns = read_clock(CLOCK_MONOTONIC) - start;
  block->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  block->calls = calls;
  block->input = (bench->next + (size_t)(calls - 1)) % bench->row->inputs;
  bench->next = (block->input + 1) % bench->row->inputs;
  return status;
}

/* Checks the output for up to NB_COUNT inputs, evenly spread. */
static int check_outputs(nb_bench *bench) {
  size_t step = (bench->row->inputs + NB_COUNT - 1) / NB_COUNT;
  for (size_t input = 0; input < bench->row->inputs; input += step) {
    nb_block block;
    bench->next = input;
    int status = timed(bench, 1, &block);
    if (status == NM_OK) {
      status = bench->row->check(bench->state, input, &block.evidence);
    }
    if (status != NM_OK) {
      return status;
    }
  }
  return NM_OK;
}

int nb_bench_open(nb_bench *bench, const nb_row *row) {
  *bench = (nb_bench){.row = row};
  int status = row->prepare(row, &bench->state);
  if (status == NM_OK) {
    status = check_outputs(bench);
  }
  nb_block block = {0};
  for (uint64_t calls = 1; status == NM_OK && block.ns < CALIBRATION_NS;
       calls *= 2) {
    bench->next = 0;
    status = timed(bench, calls, &block);
    bench->ns_per_call = (double)block.ns / (double)calls;
  }
  bench->next = 0;
  return status;
}

void nb_bench_close(nb_bench *bench) {
  if (bench->state != NULL) {
    bench->row->dispose(bench->state);
  }
  *bench = (nb_bench){0};
}

int nb_bench_block(nb_bench *bench, uint64_t ns, nb_block *block) {
  double fit = (double)ns / bench->ns_per_call;
  int status = timed(bench, fit < 1 ? 1 : (uint64_t)fit, block);
  if (status != NM_OK) {
    return status;
  }
  double each = (double)block->ns / (double)block->calls;
  bench->ns_per_call = each < SHORTEST_CALL_NS ? SHORTEST_CALL_NS : each;
  return bench->row->check(bench->state, block->input, &block->evidence);
}

int nb_bench_singles(nb_bench *bench, uint64_t count, nb_histogram *histogram) {
  memset(histogram, 0, sizeof *histogram);
  nb_block block = {0};
  for (uint64_t i = 0; i < count; i++) {
    const nb_row *row = bench->row;
    uint64_t calls = row->calls_each > 0 ? row->calls_each : 1;
    if (row->refill != NULL && row->refill(bench->state, calls) != NM_OK) {
      return NM_E(LIBRARY);
    }
    uint64_t start = read_clock(CLOCK_MONOTONIC);
    int status = row->run(bench->state, calls, bench->next);
    uint64_t ns = read_clock(CLOCK_MONOTONIC) - start;
    if (status != NM_OK) {
      return status;
    }
    nb_histogram_add(histogram, ns);
    block.input = (bench->next + (size_t)(calls - 1)) % bench->row->inputs;
    bench->next = (block.input + 1) % bench->row->inputs;
  }
  return bench->row->check(bench->state, block.input, &block.evidence);
}

uint64_t nb_clock_cost(void) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 1000; i++) {
    uint64_t start = read_clock(CLOCK_MONOTONIC);
    uint64_t ns = read_clock(CLOCK_MONOTONIC) - start;
    best = ns < best ? ns : best;
  }
  return best;
}
