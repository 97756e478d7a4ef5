#include "io/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* The thread belongs to nobody: it may outlive the port and even the loop. Both
 * sides hold a reference. */
typedef struct nm_resolve {
  nm_post post;
  atomic_uint holders;
  const nm_mem *mem;
  nm_loop *loop;
  nm_port *port; /* NULL when it lost interest; the loop's thread */
  void (*done)(nm_port *port, const nm_addresses *found);
  bool prefer_ipv6;
  char host[NM_HOST_MAX + 1];
  uint16_t number;
  nm_addresses found;
} nm_resolve;

static void drop_resolve(nm_resolve *resolve) {
  if (atomic_fetch_sub(&resolve->holders, 1) == 1) {
    nm_loop *loop = resolve->loop;
    nm_release(resolve->mem, resolve);
    nm_loop_drop(loop);
  }
}

static void add_address(nm_addresses *to, const struct addrinfo *from) {
  if (to->count < NM_ADDRESSES_MAX && from->ai_addrlen <= sizeof(to->list[0])) {
    memcpy(&to->list[to->count++], from->ai_addr, from->ai_addrlen);
  }
}

static void *look_up(void *user) {
  nm_resolve *resolve = user;
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *all = NULL;
  char service[8];
  (void)snprintf(service, sizeof(service), "%u", resolve->number);
  if (getaddrinfo(resolve->host, service, &hints, &all) == 0) {
    int first = resolve->prefer_ipv6 ? AF_INET6 : AF_INET;
    for (int pass = 0; pass < 2; pass++) {
      for (const struct addrinfo *a = all; a != NULL; a = a->ai_next) {
        if ((a->ai_family == first) == (pass == 0)) {
          add_address(&resolve->found, a);
        }
      }
    }
    freeaddrinfo(all);
  }
  if (nm_loop_post(resolve->loop, &resolve->post) != NM_OK) {
    drop_resolve(resolve); /* the loop's reference */
  }
  drop_resolve(resolve);
  return NULL;
}

static void on_resolved(nm_loop *loop, nm_post *post) {
  nm_resolve *resolve = (nm_resolve *)(void *)post;
  nm_port *port = resolve->port;
  (void)loop;
  if (port != NULL) {
    port->resolve = NULL;
    resolve->done(port, &resolve->found);
  }
  drop_resolve(resolve);
}

int nm_resolve_start(nm_port *port, const char *host, uint16_t number,
                     bool prefer_ipv6,
                     void (*done)(nm_port *port, const nm_addresses *found)) {
  const nm_mem *mem = port->node->mem;
  nm_resolve *resolve = nm_alloc_zero(mem, 1, sizeof(*resolve));
  if (resolve == NULL) {
    return UV_ENOMEM;
  }
  resolve->mem = mem;
  resolve->loop = nm_loop_hold(port->node->loop);
  resolve->port = port;
  resolve->done = done;
  resolve->prefer_ipv6 = prefer_ipv6;
  resolve->number = number;
  (void)snprintf(resolve->host, sizeof(resolve->host), "%s", host);
  resolve->post.run = on_resolved;
  atomic_init(&resolve->holders, 2);
  pthread_t thread;
  int error = nm_thread_start(&thread, look_up, resolve);
  if (error != 0) {
    atomic_store(&resolve->holders, 1);
    drop_resolve(resolve);
    return error;
  }
  (void)pthread_detach(thread);
  port->resolve = resolve;
  return 0;
}

void nm_resolve_abandon(nm_port *port) {
  if (port->resolve != NULL) {
    port->resolve->port = NULL;
    port->resolve = NULL;
  }
}
