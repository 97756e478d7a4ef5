#define _GNU_SOURCE /* accept4, recvmmsg, sendmmsg */

#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <uv.h>

typedef struct fault_state {
  atomic_uint calls;
  atomic_uint at;
  atomic_int error;
  atomic_bool all_after;
} fault_state;

static fault_state states[FAULT_COUNT];

const char *fault_name(fault_call call) {
  static const char *const names[] = {
#define FAULT_NAME(name) #name,
      FAULT_LIST(FAULT_NAME)
#undef FAULT_NAME
  };
  return names[call];
}

void fault_reset(void) {
  for (int i = 0; i < FAULT_COUNT; i++) {
    atomic_store(&states[i].at, 0);
    atomic_store(&states[i].calls, 0);
  }
}

void fault_arm(fault_call call, unsigned at, int error, bool all_after) {
  atomic_store(&states[call].error, error);
  atomic_store(&states[call].all_after, all_after);
  atomic_store(&states[call].at, at);
}

unsigned fault_count(fault_call call) {
  return atomic_load(&states[call].calls);
}

#if defined(__linux__)

bool fault_available(void) {
  return true;
}

static int fails(fault_call call) {
  fault_state *state = &states[call];
  unsigned number = atomic_fetch_add(&state->calls, 1) + 1;
  unsigned at = atomic_load(&state->at);
  bool now = at != 0 &&
             (number == at || (number > at && atomic_load(&state->all_after)));
  return now ? atomic_load(&state->error) : 0;
}

/* A call that says -1 and sets errno. */
#define WRAP_ERRNO(type, name, parameters, arguments)                          \
  type __real_##name parameters;                                               \
  type __wrap_##name parameters;                                               \
  type __wrap_##name parameters {                                              \
    int error = fails(FAULT_##name);                                           \
    if (error != 0) {                                                          \
      errno = error;                                                           \
      return -1;                                                               \
    }                                                                          \
    return __real_##name arguments;                                            \
  }
/* A call of libuv's, which returns the negated errno. */
#define WRAP_UV(name, parameters, arguments)                                   \
  int __real_##name parameters;                                                \
  int __wrap_##name parameters;                                                \
  int __wrap_##name parameters {                                               \
    int error = fails(FAULT_##name);                                           \
    return error != 0 ? -error : __real_##name arguments;                      \
  }

WRAP_ERRNO(int, accept4,
           (int fd, struct sockaddr *peer, socklen_t *len, int flags),
           (fd, peer, len, flags))
WRAP_ERRNO(int, bind, (int fd, const struct sockaddr *at, socklen_t len),
           (fd, at, len))
WRAP_ERRNO(int, connect, (int fd, const struct sockaddr *to, socklen_t len),
           (fd, to, len))
WRAP_ERRNO(int, eventfd, (unsigned value, int flags), (value, flags))
WRAP_ERRNO(int, fsync, (int fd), (fd))
WRAP_ERRNO(int, getsockname, (int fd, struct sockaddr *at, socklen_t *len),
           (fd, at, len))
WRAP_ERRNO(int, linkat,
           (int from_at, const char *from, int to_at, const char *to,
            int flags),
           (from_at, from, to_at, to, flags))
WRAP_ERRNO(int, listen, (int fd, int backlog), (fd, backlog))
WRAP_ERRNO(int, mkdirat, (int at, const char *path, mode_t mode),
           (at, path, mode))
WRAP_ERRNO(ssize_t, pread, (int fd, void *into, size_t len, off_t at),
           (fd, into, len, at))
WRAP_ERRNO(int, renameat,
           (int from_at, const char *from, int to_at, const char *to),
           (from_at, from, to_at, to))
WRAP_ERRNO(int, recvmmsg,
           (int fd, struct mmsghdr *list, unsigned count, int flags,
            struct timespec *timeout),
           (fd, list, count, flags, timeout))
WRAP_ERRNO(int, sendmmsg,
           (int fd, struct mmsghdr *list, unsigned count, int flags),
           (fd, list, count, flags))
WRAP_ERRNO(int, setsockopt,
           (int fd, int level, int name, const void *value, socklen_t len),
           (fd, level, name, value, len))
WRAP_ERRNO(int, socket, (int family, int type, int protocol),
           (family, type, protocol))
WRAP_ERRNO(ssize_t, write, (int fd, const void *bytes, size_t len),
           (fd, bytes, len))
WRAP_UV(uv_async_init, (uv_loop_t * loop, uv_async_t *handle, uv_async_cb cb),
        (loop, handle, cb))
WRAP_UV(uv_loop_init, (uv_loop_t * loop), (loop))
WRAP_UV(uv_pipe_open, (uv_pipe_t * pipe, uv_file fd), (pipe, fd))
WRAP_UV(uv_poll_init, (uv_loop_t * loop, uv_poll_t *poll, int fd),
        (loop, poll, fd))
WRAP_UV(uv_read_start,
        (uv_stream_t * stream, uv_alloc_cb alloc, uv_read_cb read),
        (stream, alloc, read))
WRAP_UV(uv_tcp_connect,
        (uv_connect_t * request, uv_tcp_t *tcp, const struct sockaddr *to,
         uv_connect_cb cb),
        (request, tcp, to, cb))
WRAP_UV(uv_tcp_open, (uv_tcp_t * tcp, uv_os_sock_t fd), (tcp, fd))
WRAP_UV(uv_try_write,
        (uv_stream_t * stream, const uv_buf_t *bufs, unsigned count),
        (stream, bufs, count))
WRAP_UV(uv_write,
        (uv_write_t * request, uv_stream_t *stream, const uv_buf_t *bufs,
         unsigned count, uv_write_cb cb),
        (request, stream, bufs, count, cb))

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *user) {
  int error = fails(FAULT_pthread_create);
  return error != 0 ? error
                    : __real_pthread_create(thread, attributes, run, user);
}

int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  int error = fails(FAULT_openat);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return __real_openat(at, path, flags, mode);
}

#else

bool fault_available(void) {
  return false;
}

#endif

/* ---- allocations ---- */

typedef struct fault_mem_state {
  atomic_size_t calls;
  atomic_size_t live;
  atomic_size_t fail_at;
} fault_mem_state;

static bool refuses(fault_mem_state *state) {
  return atomic_fetch_add(&state->calls, 1) + 1 == atomic_load(&state->fail_at);
}

static void *mem_alloc(void *user, size_t size) {
  fault_mem_state *state = user;
  void *ptr = refuses(state) ? NULL : malloc(size);
  if (ptr != NULL) {
    atomic_fetch_add(&state->live, 1);
  }
  return ptr;
}

static void *mem_resize(void *user, void *ptr, size_t size) {
  fault_mem_state *state = user;
  void *moved = refuses(state) ? NULL : realloc(ptr, size);
  if (moved != NULL && ptr == NULL) {
    atomic_fetch_add(&state->live, 1);
  }
  return moved;
}

static void mem_release(void *user, void *ptr) {
  fault_mem_state *state = user;
  if (ptr != NULL) {
    atomic_fetch_sub(&state->live, 1);
  }
  free(ptr);
}

void fault_mem_init(fault_mem *m) {
  m->state = calloc(1, sizeof(*m->state));
  m->mem = (nm_mem){m->state, mem_alloc, mem_resize, mem_release};
}

void fault_mem_dispose(fault_mem *m) {
  free(m->state);
  m->state = NULL;
}

size_t fault_mem_calls(const fault_mem *m) {
  return atomic_load(&m->state->calls);
}

size_t fault_mem_live(const fault_mem *m) {
  return atomic_load(&m->state->live);
}

void fault_mem_fail(fault_mem *m, size_t at) {
  atomic_store(&m->state->fail_at,
               at == 0 ? 0 : atomic_load(&m->state->calls) + at);
}
