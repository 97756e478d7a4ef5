#include "io/devices.h"

#include "io/system.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#endif

static nm_device *device_named(nm_device *list, int *count, const char *name) {
  for (int i = 0; i < *count; i++) {
    if (strcmp(list[i].name, name) == 0) {
      return &list[i];
    }
  }
  uint32_t index = if_nametoindex(name);
  size_t len = strlen(name);
  if (*count == NM_DEVICES_MAX || index == 0 || len > NM_DEVICE_NAME_MAX) {
    return NULL;
  }
  nm_device *device = &list[(*count)++];
  memset(device, 0, sizeof(*device));
  memcpy(device->name, name, len);
  device->index = index;
  return device;
}

static void take_link_local(nm_device *device, const struct sockaddr_in6 *at) {
  if (!IN6_IS_ADDR_LINKLOCAL(&at->sin6_addr) ||
      device->address_count == NM_DEVICE_ADDRESSES_MAX) {
    return;
  }
  uint8_t *address = device->addresses[device->address_count++];
  memcpy(address, &at->sin6_addr, 16);
  /* Some systems put the device's number here (RNS 2, 5.7). */
  memset(&address[2], 0, 6);
}

static void take_entry(nm_device *device, const struct ifaddrs *entry) {
  unsigned flags = entry->ifa_flags;
  device->up = (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
  device->loopback = (flags & IFF_LOOPBACK) != 0;
  device->multicast = (flags & IFF_MULTICAST) != 0;
  if (entry->ifa_addr == NULL) {
    return;
  }
  if (entry->ifa_addr->sa_family == AF_INET6) {
    struct sockaddr_in6 at;
    memcpy(&at, entry->ifa_addr, sizeof(at));
    take_link_local(device, &at);
  } else if (entry->ifa_addr->sa_family == AF_INET &&
             (flags & IFF_BROADCAST) != 0 && entry->ifa_broadaddr != NULL &&
             !device->has_broadcast) {
    struct sockaddr_in at;
    memcpy(&at, entry->ifa_broadaddr, sizeof(at));
    memcpy(device->broadcast, &at.sin_addr, sizeof(device->broadcast));
    device->has_broadcast = true;
  }
}

int nm_devices_read(nm_device *list) {
  struct ifaddrs *all = NULL;
  int count = 0;
  if (getifaddrs(&all) != 0) {
    return -errno;
  }
  for (const struct ifaddrs *e = all; e != NULL; e = e->ifa_next) {
    nm_device *device = device_named(list, &count, e->ifa_name);
    if (device != NULL) {
      take_entry(device, e);
    }
  }
  freeifaddrs(all);
  return count;
}

#if defined(__linux__)

int nm_devices_watch(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
                  NETLINK_ROUTE);
  if (fd < 0) {
    return -errno;
  }
  struct sockaddr_nl at;
  memset(&at, 0, sizeof(at));
  at.nl_family = AF_NETLINK;
  at.nl_groups = RTMGRP_LINK | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_IFADDR;
  if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0) {
    int error = -errno;
    nm_fd_close(fd);
    return error;
  }
  return fd;
}

/* What changed is not read from the messages: some may have been lost. */
void nm_devices_watched(int fd) {
  char room[4096];
  ssize_t got;
  do {
    got = recv(fd, room, sizeof(room), MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && (errno == EINTR || errno == ENOBUFS)));
}

#else

int nm_devices_watch(void) {
  return -ENOTSUP;
}

void nm_devices_watched(int fd) {
  (void)fd;
}

#endif
