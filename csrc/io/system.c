#if defined(__linux__)
#define _GNU_SOURCE /* accept4, SOCK_CLOEXEC */
#endif

#include "io/system.h"

#include "io/iface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/eventfd.h>
#endif

#define LISTEN_BACKLOG 1024
#define THREAD_STACK (512u << 10)

nm_now nm_clock_now(void) {
  struct timespec mono;
  struct timespec wall;
  clock_gettime(CLOCK_MONOTONIC, &mono);
  clock_gettime(CLOCK_REALTIME, &wall);
  nm_now now = {
      .mono_us =
          (uint64_t)mono.tv_sec * 1000000 + (uint64_t)mono.tv_nsec / 1000,
      .unix_us = (int64_t)wall.tv_sec * 1000000 + (int64_t)wall.tv_nsec / 1000};
  return now;
}

/* ---- descriptors ---- */

#if !defined(__linux__)
static int set_flags(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    return -errno;
  }
  return 0;
}
#endif

void nm_fd_close(int fd) {
  if (fd >= 0) {
    (void)close(fd);
  }
}

int nm_reserve_open(void) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

#if defined(__linux__)
int nm_waker_open(nm_waker *waker) {
  waker->read_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  waker->write_fd = waker->read_fd;
  return waker->read_fd < 0 ? -errno : 0;
}
#else
int nm_waker_open(nm_waker *waker) {
  int fds[2];
  if (pipe(fds) != 0) {
    waker->read_fd = waker->write_fd = -1;
    return -errno;
  }
  waker->read_fd = fds[0];
  waker->write_fd = fds[1];
  int error = set_flags(fds[0]);
  error = error != 0 ? error : set_flags(fds[1]);
  if (error != 0) {
    nm_waker_close(waker);
  }
  return error;
}
#endif

void nm_waker_close(nm_waker *waker) {
  nm_fd_close(waker->read_fd);
  if (waker->write_fd != waker->read_fd) {
    nm_fd_close(waker->write_fd);
  }
  waker->read_fd = -1;
  waker->write_fd = -1;
}

void nm_waker_signal(const nm_waker *waker) {
  uint64_t one = 1;
  while (write(waker->write_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void nm_waker_clear(const nm_waker *waker) {
  uint64_t counts[8];
  ssize_t got;
  do {
    got = read(waker->read_fd, counts, sizeof(counts));
  } while (got == (ssize_t)sizeof(counts) || (got < 0 && errno == EINTR));
}

/* ---- threads ---- */

int nm_thread_start(pthread_t *thread, void *(*run)(void *), void *user) {
  static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                               SIGILL,  SIGTRAP, SIGABRT};
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
    sigdelset(&all, faults[i]); /* those of the thread's own making */
  }
  if (pthread_attr_init(&attributes) != 0) {
    return -ENOMEM;
  }
  (void)pthread_attr_setstacksize(&attributes, THREAD_STACK);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(thread, &attributes, run, user);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return -error;
}

/* ---- sockets ---- */

static int stream_socket(int family) {
#if defined(__linux__)
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
#else
  int fd = socket(family, SOCK_STREAM, 0);
  if (fd < 0) {
    return -errno;
  }
  int error = set_flags(fd);
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
  return fd;
#endif
}

typedef union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  struct sockaddr_storage storage;
} address;

static bool parse_address(const char *text, uint16_t port, address *out,
                          socklen_t *len) {
  memset(out, 0, sizeof(*out));
  if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(port);
    *len = sizeof(out->v4);
    return true;
  }
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1) {
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(port);
    *len = sizeof(out->v6);
    return true;
  }
  return false;
}

bool nm_host_is_numeric(const char *host) {
  address ignored;
  socklen_t len;
  return parse_address(host, 0, &ignored, &len);
}

bool nm_host_is_name(const char *host) {
  static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return strpbrk(host, LETTERS) != NULL && strpbrk(host, ":%/ ") == NULL;
}

static uint16_t port_of(const address *a) {
  return ntohs(a->any.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
}

int nm_bind_device(int fd, int family, const char *device) {
  if (device[0] == '\0') {
    return 0;
  }
#if defined(SO_BINDTODEVICE)
  (void)family;
  return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device,
                    (socklen_t)strlen(device)) == 0
             ? 0
             : -errno;
#elif defined(IP_BOUND_IF)
  unsigned index = if_nametoindex(device);
  int result = -ENODEV;
  if (index != 0) {
    result =
        family == AF_INET6
            ? setsockopt(fd, IPPROTO_IPV6, IPV6_BOUND_IF, &index, sizeof(index))
            : setsockopt(fd, IPPROTO_IP, IP_BOUND_IF, &index, sizeof(index));
    result = result == 0 ? 0 : -errno;
  }
  return result;
#else
  (void)fd;
  (void)family;
  return -ENOTSUP;
#endif
}

int nm_tcp_socket(int family, const char *device) {
  int fd = stream_socket(family);
  if (fd < 0) {
    return fd;
  }
  int error = nm_bind_device(fd, family, device);
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
  return fd;
}

static int listen_on(const address *at, socklen_t len, bool both,
                     const char *device, uint16_t *bound) {
  int fd = nm_tcp_socket(at->any.sa_family, device);
  if (fd < 0) {
    return fd;
  }
  int on = 1;
  int only = both ? 0 : 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at->any.sa_family == AF_INET6) {
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  address got;
  socklen_t got_len = sizeof(got);
  if (bind(fd, &at->any, len) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
      getsockname(fd, &got.any, &got_len) != 0) {
    int error = -errno;
    nm_fd_close(fd);
    return error;
  }
  *bound = port_of(&got);
  return fd;
}

int nm_listen_open(const char *text, uint16_t port, const char *device,
                   uint16_t *bound) {
  address at = {0};
  socklen_t len = 0;
  if (text[0] != '\0') {
    return parse_address(text, port, &at, &len)
               ? listen_on(&at, len, false, device, bound)
               : -EINVAL;
  }
  (void)parse_address("::", port, &at, &len);
  int fd = listen_on(&at, len, true, device, bound);
  if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
    (void)parse_address("0.0.0.0", port, &at, &len);
    fd = listen_on(&at, len, false, device, bound);
  }
  return fd;
}

#if defined(__linux__)
int nm_abstract_connect(const char *instance) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int len =
      snprintf(&at.sun_path[1], sizeof(at.sun_path) - 1, "rns/%s", instance);
  if (len < 0 || (size_t)len >= sizeof(at.sun_path) - 1) {
    return -ENAMETOOLONG;
  }
  int fd = stream_socket(AF_UNIX);
  if (fd < 0) {
    return fd;
  }
  socklen_t size =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
  if (connect(fd, (const struct sockaddr *)&at, size) != 0) {
    int error = -errno;
    nm_fd_close(fd);
    return error;
  }
  return fd;
}
#else
int nm_abstract_connect(const char *instance) {
  (void)instance;
  return -ENOTSUP;
}
#endif

int nm_pipe_pair(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
    fds[0] = -1;
    fds[1] = -1;
    return NM_E(LIBRARY);
  }
  (void)fcntl(fds[0], F_SETFD, FD_CLOEXEC);
  (void)fcntl(fds[1], F_SETFD, FD_CLOEXEC);
  return NM_OK;
}

int nm_accept_open(int listener, char host[NM_ADDRESS_TEXT_MAX],
                   uint16_t *port) {
  address peer;
  socklen_t len = sizeof(peer);
  memset(&peer, 0, sizeof(peer));
#if defined(__linux__)
  int fd = accept4(listener, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    return -errno;
  }
#else
  int fd = accept(listener, &peer.any, &len);
  if (fd < 0) {
    return -errno;
  }
  int error = set_flags(fd);
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
#endif
  host[0] = '\0';
  const void *from = peer.any.sa_family == AF_INET6
                         ? (const void *)&peer.v6.sin6_addr
                         : (const void *)&peer.v4.sin_addr;
  if (peer.any.sa_family == AF_INET6 &&
      IN6_IS_ADDR_V4MAPPED(&peer.v6.sin6_addr)) {
    /* A dual-stack listener shows IPv4 peers by their own address. */
    from = &peer.v6.sin6_addr.s6_addr[12];
    (void)inet_ntop(AF_INET, from, host, NM_ADDRESS_TEXT_MAX);
  } else {
    (void)inet_ntop(peer.any.sa_family, from, host, NM_ADDRESS_TEXT_MAX);
  }
  *port = port_of(&peer);
  return fd;
}

static void set_option(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void nm_tcp_tune(int fd, bool i2p_tunneled) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_NOTSENT_LOWAT)
  set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NM_TCP_UNSENT_MAX);
#endif
#if defined(__linux__)
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, i2p_tunneled ? 45000 : 24000);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, i2p_tunneled ? 10 : 5);
#elif defined(TCP_KEEPALIVE)
  set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, i2p_tunneled ? 10 : 5);
#endif
#if defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, i2p_tunneled ? 9 : 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, i2p_tunneled ? 5 : 12);
#endif
}
