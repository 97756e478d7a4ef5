/* Datagram sockets: opening, and sending and receiving in batches. The only
 * file that makes these system calls. Failures are negated errno values, as
 * libuv's are.
 */
#ifndef NM_IO_UDP_H
#define NM_IO_UDP_H

#include "base/bytes.h"
#include "io/iface.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* Datagrams of one system call. */
#define NM_UDP_BATCH 32

/* An IPv4 or IPv6 address with its port. */
typedef union nm_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} nm_address;

/* Reads a numeric |host|; an IPv6 one may end in "%" and a device's name.
 * -EINVAL, or -ENODEV for a device that is not there. */
int nm_address_parse(const char *host, uint16_t port, nm_address *out);
/* The 16 bytes |bytes| on the device number |device| (0: any). */
nm_address nm_address_of_ipv6(const uint8_t bytes[16], uint16_t port,
                              uint32_t device);
socklen_t nm_address_size(const nm_address *address);
uint16_t nm_address_port(const nm_address *address);
/* Compressed, lower case, without port and device (RFC 5952). */
void nm_address_text(const nm_address *address, char out[NM_ADDRESS_TEXT_MAX]);

typedef struct nm_udp_options {
  nm_address at;
  bool shared;          /* others may bind the same address and port */
  const char *device;   /* only what comes and goes on it; "" or NULL: any */
  uint32_t multicast;   /* the device number that multicast leaves on, or 0 */
  const uint8_t *group; /* 16 bytes: joined on `multicast`; or NULL */
} nm_udp_options;

/* A non-blocking socket bound as |options| say, allowed to broadcast; |bound|
 * gets its port. A descriptor, or a failure. */
int nm_udp_open(const nm_udp_options *options, uint16_t *bound);
/* Sends go to |to| from now on, and what the network answers to them is told
 * as an error of a later call. */
int nm_udp_connect(int fd, const nm_address *to);
/* Takes the error that waits on a socket: 0 or a negated errno. */
int nm_udp_error(int fd);

typedef struct nm_udp_in {
  nm_span data;
  nm_address from;
  bool cut; /* it was longer than the slot */
} nm_udp_in;

/* Receives up to |slots| (at most NM_UDP_BATCH) datagrams into |room|, which
 * has |slot| bytes for each. How many, -EAGAIN when there is none. */
int nm_udp_receive(int fd, uint8_t *room, size_t slot, unsigned slots,
                   nm_udp_in *out);

typedef struct nm_udp_out {
  nm_span data;
  const nm_address *to; /* NULL: where the socket is connected to */
} nm_udp_out;

/* Sends up to |count| (at most NM_UDP_BATCH) datagrams. How many went, at least
 * one; or what the first one failed with. */
int nm_udp_send(int fd, const nm_udp_out *list, unsigned count);

#endif
