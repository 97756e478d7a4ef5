/* The network devices of this machine, with the addresses that interfaces
 * need, and how to learn that they changed.
 */
#ifndef NM_IO_DEVICES_H
#define NM_IO_DEVICES_H

#include "base/mem.h"
#include "io/iface.h"

/* More devices, or more link-local addresses of one, are not looked at. */
#define NM_DEVICES_MAX 256
#define NM_DEVICE_ADDRESSES_MAX 8

typedef struct nm_device {
  char name[NM_DEVICE_NAME_MAX + 1];
  uint32_t index; /* the system's number for it */
  bool up;        /* switched on, and with a carrier */
  bool loopback;
  bool multicast;
  uint32_t address_count;
  uint8_t addresses[NM_DEVICE_ADDRESSES_MAX][16]; /* fe80::/64, no scope */
  bool has_broadcast;
  uint8_t broadcast[4]; /* IPv4 */
} nm_device;

/* Lists the devices into |list|, which has room for NM_DEVICES_MAX. How many,
 * or a negated errno. */
int nm_devices_read(nm_device *list);
/* A descriptor that becomes readable when a device or an address changed, or
 * a negated errno; -ENOTSUP where the system has none: poll then. */
int nm_devices_watch(void);
/* Reads all that waits on it. */
void nm_devices_watched(int fd);

#endif
