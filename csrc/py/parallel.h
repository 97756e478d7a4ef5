/* A batch spread over threads. */
#ifndef NM_PY_PARALLEL_H
#define NM_PY_PARALLEL_H

#include <stddef.h>

#define NM_PY_THREADS_MAX 256

/* Does the items [begin, end) of a batch. Called from several threads at once,
 * each time with other items. */
typedef void (*nm_py_slice)(void *context, size_t begin, size_t end);

/* Calls |work| until all |count| items are done, on the calling thread and up
 * to |threads| - 1 more, which are gone when it returns. Threads that cannot be
 * had are done without. Signals are left to the threads that were there before.
 * Call it without the GIL. */
void nm_py_parallel(nm_py_slice work, void *context, size_t count,
                    size_t threads);

#endif
