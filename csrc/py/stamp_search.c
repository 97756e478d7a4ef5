/* The search for a stamp: pthreads on disjoint slices, the calling thread among
 * them. It alone touches Python, between pieces of work of about 20 ms.
 */
#include "py/stamp.h"

#include "base/cursor.h"
#include "py/errors.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* Tries of the calling thread before it first looks up: a few milliseconds,
 * and enough for cheap stamps to need no other thread. */
#define PIECE_FIRST 32768u
#define PIECE_MIN 4096u
#define PIECE_MAX ((uint64_t)1 << 30)
/* Longest and shortest time that a piece may take before it is adapted. */
#define PIECE_LONG_S 0.020
#define PIECE_SHORT_S 0.008
#define PROGRESS_S 0.1

struct run;

typedef struct worker {
  struct run *run;
  nm_stamp_search_args args;
  pthread_t thread;
} worker;

/* One search. */
typedef struct run {
  const nm_py_search *search;
  nm_state *state;
  atomic_bool stop;
  atomic_uint_fast64_t tries;
  atomic_bool won;
  uint8_t stamp[NM_STAMP_SIZE]; /* the winner's */
  double began;
  double reported; /* when progress was last called */
  size_t started;  /* threads besides the calling one */
  worker *workers; /* search->threads of them, the calling one first */
} run;

static double now_s(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Takes the result of the first worker that finds something; stops all. */
static void win(run *r, const worker *w) {
  if (!atomic_exchange(&r->won, true)) {
    memcpy(r->stamp, w->args.stamp, sizeof r->stamp);
  }
  atomic_store(&r->stop, true);
}

static void *worker_main(void *argument) {
  worker *w = (worker *)argument;
  w->args.tries_max = UINT64_MAX;
  if (nm_stamp_search(&w->args) == 1) {
    win(w->run, w);
  }
  return NULL;
}

/* Gives each worker its slice of the counter; the first one begins at the given
 * start. */
static void prepare(run *r) {
  const nm_py_search *s = r->search;
  nm_reader reader = nm_reader_of(nm_span_of(s->start, sizeof s->start));
  nm_span prefix = nm_reader_take(&reader, sizeof r->workers->args.prefix);
  uint64_t first = nm_reader_u64(&reader);
  uint64_t stride = UINT64_MAX / s->threads;
  for (size_t i = 0; i < s->threads; i++) {
    worker *w = &r->workers[i];
    w->run = r;
    w->args.mid = s->mid;
    w->args.cost = s->cost;
    w->args.counter = first + stride * i;
    w->args.cancel = &r->stop;
    w->args.tries = &r->tries;
    w->args.lanes = s->lanes;
    memcpy(w->args.prefix, prefix.ptr, prefix.len);
  }
}

/* Starts the other workers, with all signals left to the threads of before. 0,
 * or -1 with RuntimeError. */
static int start_workers(run *r) {
  sigset_t all;
  sigset_t before;
  int error = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (size_t i = 1; i < r->search->threads && error == 0; i++) {
    error = pthread_create(&r->workers[i].thread, NULL, worker_main,
                           &r->workers[i]);
    r->started += error == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0) {
    PyErr_Format(PyExc_RuntimeError,
                 "Workblock.search() could not start thread %zu of %zu: %s",
                 r->started + 2, r->search->threads, strerror(error));
    return -1;
  }
  return 0;
}

/* Stops and joins the other workers; without the GIL. */
static void finish_workers(run *r) {
  atomic_store(&r->stop, true);
  for (size_t i = 1; i <= r->started; i++) {
    pthread_join(r->workers[i].thread, NULL);
  }
}

static int report_progress(run *r, double now) {
  if (r->search->progress == NULL || now - r->reported < PROGRESS_S) {
    return 0;
  }
  r->reported = now;
  PyObject *tries = PyLong_FromUnsignedLongLong(atomic_load(&r->tries));
  PyObject *result =
      tries != NULL ? PyObject_CallOneArg(r->search->progress, tries) : NULL;
  Py_XDECREF(tries);
  Py_XDECREF(result);
  return result != NULL ? 0 : -1;
}

/* What the calling thread does between two pieces of work. 0, or -1 with an
 * exception that ends the search. */
static int look_up(run *r) {
  const nm_py_search *s = r->search;
  if (PyErr_CheckSignals() < 0) {
    return -1;
  }
  if (s->cancel != NULL && atomic_load(&s->cancel->cancelled)) {
    nm_py_simple_error(r->state, NM_ERROR_CancelledError, NM_E(CANCELLED),
                       "the search for a stamp was cancelled");
    return -1;
  }
  double now = now_s();
  if (s->timeout_s >= 0 && now - r->began >= s->timeout_s) {
    nm_py_simple_error(r->state, NM_ERROR_CancelledError, NM_E(TIMEOUT),
                       "no stamp was found in time");
    return -1;
  }
  return report_progress(r, now);
}

/* How many tries the next piece should have after one that took |took_s|. */
static uint64_t next_piece(uint64_t piece, double took_s) {
  if (took_s > PIECE_LONG_S && piece > PIECE_MIN) {
    return piece / 2;
  }
  return took_s < PIECE_SHORT_S && piece < PIECE_MAX ? piece * 2 : piece;
}

/* Works until somebody wins. 0, or -1 with an exception. */
static int work(run *r) {
  worker *mine = &r->workers[0];
  uint64_t piece = PIECE_FIRST;
  for (;;) {
    if (look_up(r) < 0) {
      return -1;
    }
    double before = now_s();
    mine->args.tries_max = piece;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = nm_stamp_search(&mine->args);
    Py_END_ALLOW_THREADS;
    if (status == 1) {
      win(r, mine);
    }
    if (atomic_load(&r->won)) {
      return 0;
    }
    if (r->started == 0 && r->search->threads > 1 && start_workers(r) < 0) {
      return -1;
    }
    piece = next_piece(piece, now_s() - before);
  }
}

PyObject *nm_py_stamp_search(nm_state *state, const nm_py_search *search) {
  run r = {.search = search, .state = state, .began = now_s()};
  r.reported = r.began;
  r.workers = PyMem_Calloc(search->threads, sizeof *r.workers);
  if (r.workers == NULL) {
    return PyErr_NoMemory();
  }
  prepare(&r);
  int result = work(&r);
  Py_BEGIN_ALLOW_THREADS;
  finish_workers(&r);
  Py_END_ALLOW_THREADS;
  PyMem_Free(r.workers);
  if (result < 0) {
    return NULL;
  }
  nm_span stamp = nm_span_of(r.stamp, sizeof r.stamp);
  return nm_py_stamp_new(state, r.stamp, nm_stamp_value(search->mid, stamp),
                         atomic_load(&r.tries), now_s() - r.began);
}
