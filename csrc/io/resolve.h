/* Names of hosts, looked up on a thread of their own: a resolver can take its
 * time, and nothing waits for it.
 */
#ifndef NM_IO_RESOLVE_H
#define NM_IO_RESOLVE_H

#include "io/port.h"

#include <sys/socket.h>

#define NM_ADDRESSES_MAX 8

/* What a name stands for, in the order of preference. */
typedef struct nm_addresses {
  struct sockaddr_storage list[NM_ADDRESSES_MAX];
  uint32_t count;
  uint32_t at; /* the caller's: the next to try */
} nm_addresses;

/* Looks |host| up for |port|, which has one look-up at a time; numbers are
 * names too. |done| gets what was found, maybe nothing, on the loop's thread,
 * unless the port lost interest. 0 or a libuv error. */
int nm_resolve_start(nm_port *port, const char *host, uint16_t number,
                     bool prefer_ipv6,
                     void (*done)(nm_port *port, const nm_addresses *found));
/* The port has lost interest. Quiet when nothing is under way. */
void nm_resolve_abandon(nm_port *port);

#endif
