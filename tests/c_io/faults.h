/* System calls and allocations that fail when told to. The linker puts a
 * wrapper around each call of the list (see the Makefile's WRAPPED); without
 * a request it only passes on.
 */
#ifndef NM_TESTS_FAULTS_H
#define NM_TESTS_FAULTS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>

/* X(name): the calls that can be made to fail. */
#define FAULT_LIST(X)                                                          \
  X(accept4)                                                                   \
  X(bind)                                                                      \
  X(connect)                                                                   \
  X(eventfd)                                                                   \
  X(fsync)                                                                     \
  X(getsockname)                                                               \
  X(linkat)                                                                    \
  X(listen)                                                                    \
  X(mkdirat)                                                                   \
  X(openat)                                                                    \
  X(pread)                                                                     \
  X(pthread_create)                                                            \
  X(recvmmsg)                                                                  \
  X(renameat)                                                                  \
  X(sendmmsg)                                                                  \
  X(setsockopt)                                                                \
  X(socket)                                                                    \
  X(uv_async_init)                                                             \
  X(uv_loop_init)                                                              \
  X(uv_pipe_open)                                                              \
  X(uv_poll_init)                                                              \
  X(uv_read_start)                                                             \
  X(uv_tcp_connect)                                                            \
  X(uv_tcp_open)                                                               \
  X(uv_try_write)                                                              \
  X(uv_write)                                                                  \
  X(write)

typedef enum fault_call {
#define FAULT_ENUM(name) FAULT_##name,
  FAULT_LIST(FAULT_ENUM)
#undef FAULT_ENUM
      FAULT_COUNT
} fault_call;

const char *fault_name(fault_call call);
/* False where the linker cannot wrap. */
bool fault_available(void);
/* Counting starts over; nothing fails. */
void fault_reset(void);
/* Call number |at| (from 1) of |call| fails with |error| (positive), and all
 * after it when |all_after|. */
void fault_arm(fault_call call, unsigned at, int error, bool all_after);
/* Calls since the last reset, of all threads. */
unsigned fault_count(fault_call call);

/* A thread-safe allocator that counts, and that fails when told to. */
typedef struct fault_mem {
  nm_mem mem;
  struct fault_mem_state *state;
} fault_mem;

void fault_mem_init(fault_mem *m);
void fault_mem_dispose(fault_mem *m);
size_t fault_mem_calls(const fault_mem *m);
size_t fault_mem_live(const fault_mem *m);
/* Allocation number |at| from now fails (0: none). */
void fault_mem_fail(fault_mem *m, size_t at);

#endif
