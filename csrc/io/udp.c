#if defined(__linux__)
#define _GNU_SOURCE /* recvmmsg, sendmmsg, SOCK_CLOEXEC */
#endif

#include "io/udp.h"

#include "io/system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* What the kernel may keep for us between two turns. */
#define RECEIVE_BUFFER (1 << 20)

/* ---- addresses ---- */

static int parse_ipv6(const char *host, uint16_t port, nm_address *out) {
  char text[NM_ADDRESS_TEXT_MAX];
  const char *percent = strchr(host, '%');
  size_t len = percent != NULL ? (size_t)(percent - host) : strlen(host);
  if (len >= sizeof(text)) {
    return -EINVAL;
  }
  memcpy(text, host, len);
  text[len] = '\0';
  if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) != 1) {
    return -EINVAL;
  }
  out->v6.sin6_family = AF_INET6;
  out->v6.sin6_port = htons(port);
  if (percent != NULL) {
    out->v6.sin6_scope_id = if_nametoindex(percent + 1);
    return out->v6.sin6_scope_id != 0 ? 0 : -ENODEV;
  }
  return 0;
}

int nm_address_parse(const char *host, uint16_t port, nm_address *out) {
  memset(out, 0, sizeof(*out));
  if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(port);
    return 0;
  }
  return parse_ipv6(host, port, out);
}

nm_address nm_address_of_ipv6(const uint8_t bytes[16], uint16_t port,
                              uint32_t device) {
  nm_address address;
  memset(&address, 0, sizeof(address));
  address.v6.sin6_family = AF_INET6;
  address.v6.sin6_port = htons(port);
  address.v6.sin6_scope_id = device;
  memcpy(&address.v6.sin6_addr, bytes, 16);
  return address;
}

socklen_t nm_address_size(const nm_address *address) {
  return address->any.sa_family == AF_INET6 ? sizeof(address->v6)
                                            : sizeof(address->v4);
}

uint16_t nm_address_port(const nm_address *address) {
  return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port
                                                  : address->v4.sin_port);
}

void nm_address_text(const nm_address *address, char out[NM_ADDRESS_TEXT_MAX]) {
  const void *from = address->any.sa_family == AF_INET6
                         ? (const void *)&address->v6.sin6_addr
                         : (const void *)&address->v4.sin_addr;
  out[0] = '\0';
  (void)inet_ntop(address->any.sa_family, from, out, NM_ADDRESS_TEXT_MAX);
}

/* ---- sockets ---- */

static int datagram_socket(int family) {
#if defined(__linux__)
  int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
#else
  int fd = socket(family, SOCK_DGRAM, 0);
  if (fd < 0) {
    return -errno;
  }
  if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    int error = -errno;
    nm_fd_close(fd);
    return error;
  }
  return fd;
#endif
}

static int set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

static int join(int fd, const nm_udp_options *options) {
  struct ipv6_mreq request;
  memset(&request, 0, sizeof(request));
  memcpy(&request.ipv6mr_multiaddr, options->group, 16);
  request.ipv6mr_interface = options->multicast;
  return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request,
                    sizeof(request)) == 0
             ? 0
             : -errno;
}

static int set_options(int fd, const nm_udp_options *options) {
  int family = options->at.any.sa_family;
  int error = 0;
  if (family == AF_INET6) {
    error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  } else {
    error = set_option(fd, SOL_SOCKET, SO_BROADCAST, 1);
  }
  if (error == 0 && options->shared) {
    error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
#if defined(SO_REUSEPORT)
    error = error != 0 ? error : set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
#endif
  }
  if (error == 0 && options->device != NULL) {
    error = nm_bind_device(fd, family, options->device);
  }
  if (error == 0 && options->multicast != 0) {
    error = set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF,
                       (int)options->multicast);
  }
  if (error == 0 && options->group != NULL) {
    error = join(fd, options);
  }
  /* As much of it as the system allows. */
  (void)set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
  return error;
}

int nm_udp_open(const nm_udp_options *options, uint16_t *bound) {
  int fd = datagram_socket(options->at.any.sa_family);
  if (fd < 0) {
    return fd;
  }
  int error = set_options(fd, options);
  nm_address got;
  socklen_t len = sizeof(got);
  if (error == 0 &&
      (bind(fd, &options->at.any, nm_address_size(&options->at)) != 0 ||
       getsockname(fd, &got.any, &len) != 0)) {
    error = -errno;
  }
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
  *bound = nm_address_port(&got);
  return fd;
}

int nm_udp_connect(int fd, const nm_address *to) {
  return connect(fd, &to->any, nm_address_size(to)) == 0 ? 0 : -errno;
}

int nm_udp_error(int fd) {
  int error = 0;
  socklen_t len = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
    return -errno;
  }
  return -error;
}

/* ---- batches ---- */

static void fill_in(nm_udp_in *in, const uint8_t *bytes, size_t len,
                    const struct msghdr *header) {
  in->data = nm_span_of(bytes, len);
  in->cut = (header->msg_flags & MSG_TRUNC) != 0;
}

static struct iovec vector_of(void *bytes, size_t len) {
  struct iovec vector = {.iov_base = bytes, .iov_len = len};
  return vector;
}

static void address_header(struct msghdr *header, nm_address *address,
                           struct iovec *vector) {
  memset(header, 0, sizeof(*header));
  header->msg_iov = vector;
  header->msg_iovlen = 1;
  if (address != NULL) {
    header->msg_name = address;
    header->msg_namelen = sizeof(*address);
  }
}

static void outgoing_header(struct msghdr *header, const nm_udp_out *out,
                            struct iovec *vector) {
  /* The calls do not write to what they send. */
  *vector = vector_of((void *)(uintptr_t)out->data.ptr, out->data.len);
  address_header(header, (nm_address *)(uintptr_t)out->to, vector);
  if (out->to != NULL) {
    header->msg_namelen = nm_address_size(out->to);
  }
}

#if defined(__linux__)

int nm_udp_receive(int fd, uint8_t *room, size_t slot, unsigned slots,
                   nm_udp_in *out) {
  struct mmsghdr headers[NM_UDP_BATCH];
  struct iovec vectors[NM_UDP_BATCH];
  memset(headers, 0, sizeof(headers[0]) * slots);
  for (unsigned i = 0; i < slots; i++) {
    vectors[i] = vector_of(&room[i * slot], slot);
    memset(&out[i].from, 0, sizeof(out[i].from));
    address_header(&headers[i].msg_hdr, &out[i].from, &vectors[i]);
  }
  int got;
  do {
    got = recvmmsg(fd, headers, slots, MSG_DONTWAIT, NULL);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return -errno;
  }
  for (int i = 0; i < got; i++) {
    fill_in(&out[i], &room[(size_t)i * slot], headers[i].msg_len,
            &headers[i].msg_hdr);
  }
  return got;
}

int nm_udp_send(int fd, const nm_udp_out *list, unsigned count) {
  struct mmsghdr headers[NM_UDP_BATCH];
  struct iovec vectors[NM_UDP_BATCH];
  for (unsigned i = 0; i < count; i++) {
    outgoing_header(&headers[i].msg_hdr, &list[i], &vectors[i]);
    headers[i].msg_len = 0;
  }
  int sent;
  do {
    sent = sendmmsg(fd, headers, count, MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

#else

int nm_udp_receive(int fd, uint8_t *room, size_t slot, unsigned slots,
                   nm_udp_in *out) {
  int got = 0;
  while ((unsigned)got < slots) {
    struct msghdr header;
    struct iovec vector = vector_of(&room[(size_t)got * slot], slot);
    address_header(&header, &out[got].from, &vector);
    ssize_t len = recvmsg(fd, &header, 0);
    if (len < 0 && errno == EINTR) {
      continue;
    }
    if (len < 0) {
      return got > 0 ? got : -errno;
    }
    fill_in(&out[got], &room[(size_t)got * slot], (size_t)len, &header);
    got++;
  }
  return got;
}

int nm_udp_send(int fd, const nm_udp_out *list, unsigned count) {
  unsigned sent = 0;
  while (sent < count) {
    struct msghdr header;
    struct iovec vector;
    outgoing_header(&header, &list[sent], &vector);
    if (sendmsg(fd, &header, 0) >= 0) {
      sent++;
    } else if (errno != EINTR) {
      return sent > 0 ? (int)sent : -errno;
    }
  }
  return (int)sent;
}

#endif
