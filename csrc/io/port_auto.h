/* The inside of AUTO ports: port_auto.c (the port, its peers, its time) and
 * auto_device.c (the sockets of one network device).
 */
#ifndef NM_IO_PORT_AUTO_H
#define NM_IO_PORT_AUTO_H

#include "io/auto_peers.h"
#include "io/devices.h"
#include "io/dgram.h"
#include "io/recent.h"

/* A network device as the port uses it. */
typedef struct nm_auto_device {
  nm_device seen; /* as the system said last */
  bool present;
  nm_device_state state;
  int os_error;
  uint8_t address[16]; /* the one in use, while it listens */
  uint8_t token[NM_HASH_SIZE];
  nm_dgram *group;   /* hears tokens that went to the group */
  nm_dgram *unicast; /* hears those that went to us alone, and sends ours */
  nm_dgram *data;
  nm_auto_echo echo;
  uint64_t announce_due_us;
  uint64_t retry_due_us; /* of a FAILED one */
  bool told;             /* that it failed */
  uint64_t opened;
  uint64_t announces;
  uint64_t echoes;
  uint64_t forged;
} nm_auto_device;

typedef struct nm_auto {
  nm_port *port;
  uint8_t group_address[16];
  nm_auto_peers peers;
  nm_recent recent;
  nm_port *last_heard; /* the peer that the last data came from, or NULL */
  nm_auto_device devices[NM_DEVICES_MAX];
  uint32_t device_count;
  nm_device scratch[NM_DEVICES_MAX];
  uv_poll_t watch;
  int watch_fd; /* -1: devices are polled */
  bool watching;
  uint64_t scan_due_us;
} nm_auto;

static inline nm_span nm_auto_group(const nm_auto *a) {
  const char *group = a->port->setup->automatic.group;
  return nm_span_of(group, strlen(group));
}

/* port_auto.c */

/* A token that fits came in from |address| on |device|. */
void nm_auto_hear_token(nm_auto *a, nm_auto_device *device,
                        const uint8_t address[16]);
/* The peer's port, or NULL when there is no such peer. */
nm_port *nm_auto_peer_port(nm_auto *a, const uint8_t address[16],
                           uint32_t index);

/* auto_device.c */

/* Begins to listen on the device; its state says whether it does. */
void nm_auto_device_open(nm_auto *a, nm_auto_device *device, uint64_t now_us);
/* Closes its sockets and puts it into |state|. */
void nm_auto_device_close(nm_auto_device *device, nm_device_state state);
/* Our token to the group. */
void nm_auto_device_announce(nm_auto *a, nm_auto_device *device,
                             uint64_t now_us);
/* Our token to one peer. */
void nm_auto_device_call(nm_auto *a, nm_auto_device *device,
                         const uint8_t address[16]);
/* Whether an address is one of a device's own that listens. */
bool nm_auto_device_owns(const nm_auto_device *device,
                         const uint8_t address[16]);

#endif
