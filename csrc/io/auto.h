/* The inside of AUTO ports: auto_device.c (the sockets of one network device),
 * auto_ports.c (the peers) and port_auto.c (the port and its time). A file
 * calls only those that stand before it.
 */
#ifndef NM_IO_AUTO_H
#define NM_IO_AUTO_H

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
  const nm_dgram_calls *token_calls; /* of the sockets that hear tokens */
  const nm_dgram_calls *data_calls;
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

/* auto_ports.c */

extern const nm_dgram_calls nm_auto_token_calls;
extern const nm_dgram_calls nm_auto_data_calls;
/* The device of the system's |index|, or NULL. */
nm_auto_device *nm_auto_device_at(nm_auto *a, uint32_t index);
/* Looks whether own multicast went missing on |device|, or is back. */
void nm_auto_look_at_echo(nm_auto *a, nm_auto_device *device, uint64_t now_us);
/* The peers of a device that went or came back. */
void nm_auto_set_peers_up(nm_auto *a, uint32_t index, bool up);
void nm_auto_remove_peers(nm_auto *a, uint32_t index);
/* Removes peers that are silent, calls those that are due. */
void nm_auto_visit_peers(nm_auto *a, uint64_t now_us);

#endif
