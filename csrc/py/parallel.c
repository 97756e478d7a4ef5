/* pthreads; asks for POSIX signals, which -std=c11 hides. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include "py/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* Items that a thread takes at once: enough that the counter is no bottleneck,
 * few enough that all threads end at nearly the same time. */
#define SLICE 8

typedef struct batch {
  nm_py_slice work;
  void *context;
  size_t count;
  atomic_size_t next;
} batch;

static void *run(void *argument) {
  batch *b = (batch *)argument;
  for (;;) {
    size_t begin = atomic_fetch_add(&b->next, SLICE);
    if (begin >= b->count) {
      return NULL;
    }
    size_t left = b->count - begin;
    b->work(b->context, begin, begin + (left < SLICE ? left : SLICE));
  }
}

void nm_py_parallel(nm_py_slice work, void *context, size_t count,
                    size_t threads) {
  pthread_t helpers[NM_PY_THREADS_MAX];
  size_t started = 0;
  size_t useful = (count + SLICE - 1) / SLICE;
  batch b = {.work = work, .context = context, .count = count};
  atomic_init(&b.next, 0);
  size_t wanted = threads < useful ? threads : useful;
  if (wanted > NM_PY_THREADS_MAX) {
    wanted = NM_PY_THREADS_MAX;
  }
  if (wanted > 1) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < wanted &&
           pthread_create(&helpers[started], NULL, run, &b) == 0) {
      started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  run(&b);
  for (size_t i = 0; i < started; i++) {
    pthread_join(helpers[i], NULL);
  }
}
