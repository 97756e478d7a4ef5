/* The system calls that libuv does not make for us, with one name each.
 * Failures are negated errno values, as libuv's are.
 */
#ifndef NM_IO_SYSTEM_H
#define NM_IO_SYSTEM_H

#include "io/iface.h"

#include <pthread.h>
#include <sys/types.h>

/* Both clocks now. */
nm_now nm_clock_now(void);

/* A descriptor that one thread makes readable and another one clears: an
 * eventfd on Linux, a pipe elsewhere. */
typedef struct nm_waker {
  int read_fd;
  int write_fd;
} nm_waker;

int nm_waker_open(nm_waker *waker);
void nm_waker_close(nm_waker *waker);
/* Quiet when it is readable already. */
void nm_waker_signal(const nm_waker *waker);
void nm_waker_clear(const nm_waker *waker);

/* Starts a thread with every signal blocked but those of its own faults: the
 * process's other threads handle them, and a broken connection raises none. 0
 * or a negated errno. */
int nm_thread_start(pthread_t *thread, void *(*run)(void *), void *user);

/* Lets a socket of |family| use one network device alone. "" is any. -ENODEV
 * and others. */
int nm_bind_device(int fd, int family, const char *device);
/* A listening, non-blocking stream socket on a numeric |address| (empty: every
 * address, IPv6 and IPv4) of |device| ("": any), and the |bound| port. */
int nm_listen_open(const char *address, uint16_t port, const char *device,
                   uint16_t *bound);
/* A non-blocking TCP socket of |family| that uses |device| alone. */
int nm_tcp_socket(int family, const char *device);
/* A connected, non-blocking socket at the abstract name "\0rns/|instance|", or
 * -EAGAIN when its queue is full. -ENOTSUP where there are no such names. */
int nm_abstract_connect(const char *instance);
/* Accepts one connection; its peer goes to |host| (numeric) and |port|. */
int nm_accept_open(int listener, char host[NM_ADDRESS_TEXT_MAX],
                   uint16_t *port);
/* Something to hold back, so that a process without free descriptors can still
 * take a connection off the queue. */
int nm_reserve_open(void);
void nm_fd_close(int fd);

/* What the system takes of a stream before it has sent what it had. All of it
 * is ahead of a packet that comes next: a millisecond's worth at 1 Gbit/s. */
#define NM_TCP_UNSENT_MAX (128 << 10)
/* TCP_NODELAY, keepalive and user time-out (RNS 1, 7.4), and that bound. */
void nm_tcp_tune(int fd, bool i2p_tunneled);
/* Whether |host| is a numeric address, of either family. */
bool nm_host_is_numeric(const char *host);
/* Whether it can be a name: it has a letter, and nothing that only addresses
 * have. */
bool nm_host_is_name(const char *host);

#endif
