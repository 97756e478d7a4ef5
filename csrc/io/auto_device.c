/* The sockets of an AUTO port on one network device: two hear tokens, one
 * carries data (RNS 2, 5.7).
 */
#include "io/auto.h"

#include <errno.h>
#include <string.h>

#define RETRY_US UINT64_C(1000000)
/* More than a token, for those who append to it. */
#define TOKEN_DATAGRAM 1024

bool nm_auto_device_owns(const nm_auto_device *device,
                         const uint8_t address[16]) {
  if (device->state != NM_DEVICE_LISTENING) {
    return false; /* another program's, maybe */
  }
  for (uint32_t i = 0; i < device->seen.address_count; i++) {
    if (memcmp(device->seen.addresses[i], address, 16) == 0) {
      return true;
    }
  }
  return memcmp(device->address, address, 16) == 0;
}

/* ---- opening ---- */

static int open_socket(nm_auto *a, nm_auto_device *device,
                       const nm_udp_options *options, size_t datagram,
                       const nm_dgram_calls *calls, nm_dgram **out) {
  uint16_t ignored;
  int fd = nm_udp_open(options, &ignored);
  if (fd < 0) {
    return fd;
  }
  *out = nm_dgram_new(a->port, fd, datagram, calls, device);
  return *out == NULL ? -ENOMEM : nm_dgram_listen(*out);
}

static int open_sockets(nm_auto *a, nm_auto_device *device,
                        const uint8_t address[16]) {
  const nm_auto_setup *own = &a->port->setup->automatic;
  uint32_t index = device->seen.index;
  uint16_t alone = (uint16_t)(own->discovery_port + 1);
  nm_udp_options data = {
      .at = nm_address_of_ipv6(address, own->data_port, index)};
  nm_udp_options unicast = {.at = nm_address_of_ipv6(address, alone, index),
                            .shared = true,
                            .multicast = index};
  nm_udp_options group = {
      .at = nm_address_of_ipv6(a->group_address, own->discovery_port, index),
      .shared = true,
      .multicast = index,
      .group = a->group_address};
  int error = open_socket(a, device, &data, nm_port_frame_max(a->port),
                          a->data_calls, &device->data);
  if (error == 0) {
    error = open_socket(a, device, &unicast, TOKEN_DATAGRAM, a->token_calls,
                        &device->unicast);
  }
  if (error == 0) {
    error = open_socket(a, device, &group, TOKEN_DATAGRAM, a->token_calls,
                        &device->group);
  }
  return error;
}

/* The address of before when the device still has it, else the one that it got
 * last; one that is not usable yet gives way to the others. */
static int open_any(nm_auto *a, nm_auto_device *device) {
  uint32_t count = device->seen.address_count;
  uint32_t first = count - 1;
  for (uint32_t i = 0; i < count; i++) {
    if (memcmp(device->seen.addresses[i], device->address, 16) == 0) {
      first = i;
    }
  }
  int error = -EADDRNOTAVAIL;
  for (uint32_t i = 0; i < count && error == -EADDRNOTAVAIL; i++) {
    const uint8_t *address =
        device->seen.addresses[(first + count - i) % count];
    error = open_sockets(a, device, address);
    if (error == 0) {
      memcpy(device->address, address, 16);
    } else {
      nm_auto_device_close(device, NM_DEVICE_FAILED);
    }
  }
  return error;
}

void nm_auto_device_open(nm_auto *a, nm_auto_device *device, uint64_t now_us) {
  int error = open_any(a, device);
  device->os_error = error;
  if (error == 0) {
    device->state = NM_DEVICE_LISTENING;
    device->opened++;
    device->announce_due_us = now_us;
    device->told = false;
    nm_auto_echo_start(&device->echo, now_us);
    nm_auto_token(nm_auto_group(a), device->address, device->token);
    return;
  }
  device->state = NM_DEVICE_FAILED;
  device->retry_due_us = now_us + RETRY_US;
  /* An address that is new is not usable for a second or two. */
  if (error != -EADDRNOTAVAIL && !device->told) {
    device->told = true;
    nm_port_trouble_at(a->port, NM_PORT_LISTEN, error, device->seen.name);
  }
}

void nm_auto_device_close(nm_auto_device *device, nm_device_state state) {
  nm_dgram_close(device->group);
  nm_dgram_close(device->unicast);
  nm_dgram_close(device->data);
  device->group = NULL;
  device->unicast = NULL;
  device->data = NULL;
  device->state = state;
}

/* ---- output ---- */

void nm_auto_device_announce(nm_auto *a, nm_auto_device *device,
                             uint64_t now_us) {
  nm_address to = nm_address_of_ipv6(a->group_address,
                                     a->port->setup->automatic.discovery_port,
                                     device->seen.index);
  device->announce_due_us = now_us + NM_AUTO_ANNOUNCE_US;
  device->announces++;
  (void)nm_dgram_send(device->unicast, a->port, &to,
                      nm_span_of(device->token, sizeof(device->token)));
}

void nm_auto_device_call(nm_auto *a, nm_auto_device *device,
                         const uint8_t address[16]) {
  uint16_t alone = (uint16_t)(a->port->setup->automatic.discovery_port + 1);
  nm_address to = nm_address_of_ipv6(address, alone, device->seen.index);
  (void)nm_dgram_send(device->unicast, a->port, &to,
                      nm_span_of(device->token, sizeof(device->token)));
}
