/* UDP: each datagram is one packet; no peers, no order (RNS 2, 5.6). One
 * socket listens. Another one, connected to where packets are forwarded, sends
 * from a port of its own; while it cannot be made, because the network is not
 * there yet or the name of the host is not known, it is tried again. A name is
 * looked up anew each time.
 */
#include "io/devices.h"
#include "io/dgram.h"
#include "io/recent.h"
#include "io/resolve.h"

#include <errno.h>
#include <string.h>

/* The longest payload of a datagram. */
#define DATAGRAM_MAX 65507
#define RETRY_FIRST_MS 500
#define RETRY_MAX_MS 8000
/* Places for nm_recent_seen. */
#define PLACE_SENT 1
#define PLACE_HEARD 2

typedef struct nm_udp_port {
  nm_dgram *in;  /* or NULL: only sends */
  nm_dgram *out; /* or NULL: only listens, or waits for the network */
  bool forwards;
  bool by_name; /* `forward` is not known before the name was looked up */
  nm_address forward;
  bool may_echo; /* what it sends can come back to it */
  bool is_told;  /* the present trouble was told */
  uint32_t failures;
  nm_recent recent;
} nm_udp_port;

static size_t datagram_max(const nm_port *port) {
  size_t max = nm_port_frame_max(port);
  return max > DATAGRAM_MAX ? DATAGRAM_MAX : max;
}

static void clear_trouble(nm_port *port) {
  port->udp->is_told = false;
  port->trouble = NM_PORT_NO_TROUBLE;
  port->os_error = 0;
  nm_node_ifaces_changed(port->node, true);
}

/* ---- input ---- */

static void heard(nm_dgram *dgram, nm_span data, const nm_address *from) {
  nm_port *port = dgram->port;
  nm_udp_port *udp = port->udp;
  (void)from;
  port->wire_rx += data.len;
  if (udp->is_told && udp->out != NULL) {
    clear_trouble(port); /* the peer is there */
  }
  if (udp->may_echo && nm_recent_seen(&udp->recent, data, PLACE_HEARD,
                                      port->node->loop->now.mono_us)) {
    port->echoes++;
    return;
  }
  nm_port_input(port, data, NULL);
}

static bool is_full(nm_dgram *dgram) {
  return dgram->port->jobs >= NM_PORT_JOBS_HIGH;
}

static void relieve(nm_port *port) {
  if (port->udp->in != NULL) {
    nm_dgram_go_on(port->udp->in);
  }
}

/* ---- output ---- */

static void arm_retry(nm_port *port) {
  nm_udp_port *udp = port->udp;
  nm_loop *loop = port->node->loop;
  uint64_t ms = RETRY_FIRST_MS;
  for (uint32_t i = 0; i < udp->failures && ms < RETRY_MAX_MS; i++) {
    ms *= 2;
  }
  udp->failures++;
  nm_loop_arm(loop, &port->timer, loop->now.mono_us + ms * 1000);
}

/* Told once, until something works again. */
static void tell(nm_port *port, nm_port_trouble trouble, int error) {
  nm_udp_port *udp = port->udp;
  if (!udp->is_told || port->os_error != error) {
    udp->is_told = true;
    nm_port_trouble_set(port, trouble, error);
  }
}

/* Errors after which a socket of before is of no use. */
static bool is_stale(int error) {
  return error == -EINVAL || error == -EADDRNOTAVAIL || error == -ENETDOWN ||
         error == -ENETUNREACH || error == -ENODEV || error == -ENOTCONN ||
         error == -EDESTADDRREQ;
}

static void failed(nm_dgram *dgram, nm_iface_id iface, int error) {
  nm_port *port = dgram->port;
  (void)iface;
  if (error == -EMSGSIZE || error == -ENOBUFS || error == -ENOMEM) {
    return; /* counted; the way is not broken */
  }
  tell(port, NM_PORT_CONNECT, error);
  if (dgram == port->udp->out && is_stale(error) &&
      !nm_timer_armed(&port->timer)) {
    arm_retry(port);
  }
}

static const nm_dgram_calls in_calls = {
    .heard = heard, .is_full = is_full, .failed = failed};
static const nm_dgram_calls out_calls = {.failed = failed};

static int open_out(nm_port *port) {
  nm_udp_port *udp = port->udp;
  nm_udp_options options = {.device = port->setup->device};
  uint16_t ignored;
  memset(&options.at, 0, sizeof(options.at));
  options.at.any.sa_family = udp->forward.any.sa_family;
  int fd = nm_udp_open(&options, &ignored);
  if (fd < 0) {
    return fd;
  }
  int error = nm_udp_connect(fd, &udp->forward);
  if (error != 0) {
    nm_fd_close(fd);
    return error;
  }
  udp->out = nm_dgram_new(port, fd, datagram_max(port), &out_calls, NULL);
  return udp->out == NULL ? -ENOMEM : 0;
}

static void not_out(nm_port *port, nm_port_trouble trouble, int error) {
  tell(port, trouble, error);
  arm_retry(port);
  nm_port_set_up(port, false);
}

/* Makes the sending socket, or says why not and tries again later. */
static void connect_out(nm_port *port) {
  nm_udp_port *udp = port->udp;
  int error = open_out(port);
  if (error != 0) {
    not_out(port, NM_PORT_CONNECT, error);
    return;
  }
  udp->failures = 0;
  if (udp->is_told) {
    clear_trouble(port);
  }
  nm_port_set_up(port, true);
}

static void on_resolved(nm_port *port, const nm_addresses *found) {
  if (found->count == 0) {
    not_out(port, NM_PORT_RESOLVE, UV_EAI_NONAME);
    return;
  }
  memcpy(&port->udp->forward, &found->list[0], sizeof(port->udp->forward));
  connect_out(port);
}

static void try_out(nm_port *port) {
  const nm_iface_setup *setup = port->setup;
  if (!port->udp->by_name) {
    connect_out(port);
    return;
  }
  int error = nm_resolve_start(port, setup->forward_host, setup->forward_port,
                               setup->prefer_ipv6, on_resolved);
  if (error != 0) {
    not_out(port, NM_PORT_RESOLVE, error);
  }
}

static void fire(void *user, nm_timer *timer) {
  nm_port *port = nm_port_of_timer(timer);
  (void)user;
  nm_dgram_close(port->udp->out);
  port->udp->out = NULL;
  try_out(port);
}

static bool put(nm_port *port, nm_span packet) {
  nm_udp_port *udp = port->udp;
  if (udp->out == NULL) {
    nm_port_count_drop(port, NM_PORT_DROP_UNREACHABLE);
    return false;
  }
  if (packet.len > DATAGRAM_MAX) {
    nm_port_count_drop(port, NM_PORT_DROP_TOO_LARGE);
    return false;
  }
  if (udp->may_echo) {
    (void)nm_recent_seen(&udp->recent, packet, PLACE_SENT,
                         port->node->loop->now.mono_us);
  }
  return nm_dgram_send(udp->out, port, NULL, packet);
}

/* ---- the port ---- */

static int start(nm_port *port) {
  nm_udp_port *udp = port->udp;
  port->timer.fire = fire;
  port->listening = udp->in != NULL;
  if (udp->in != NULL) {
    port->os_error = nm_dgram_listen(udp->in);
    if (port->os_error != 0) {
      return NM_E(LIBRARY);
    }
  }
  port->opened = 1;
  if (udp->forwards) {
    try_out(port);
  } else {
    nm_port_set_up(port, true);
  }
  return NM_OK;
}

static void pause_port(nm_port *port, bool on) {
  if (port->udp->in != NULL) {
    nm_dgram_pause(port->udp->in, on);
  }
}

static void change(nm_port *port) {
  if (port->udp->in != NULL) {
    port->udp->in->datagram = datagram_max(port);
  }
}

static void stop(nm_port *port) {
  port->listening = false;
  nm_resolve_abandon(port);
  if (port->udp != NULL) {
    nm_dgram_close(port->udp->in);
    nm_dgram_close(port->udp->out);
    port->udp->in = NULL;
    port->udp->out = NULL;
  }
}

static uint32_t waiting(const nm_port *port, size_t *bytes) {
  if (port->udp == NULL || port->udp->out == NULL) {
    return 0;
  }
  *bytes = nm_dgram_waiting_bytes(port->udp->out);
  return nm_dgram_waiting(port->udp->out);
}

static void dispose(nm_port *port) {
  if (port->udp != NULL) {
    nm_wipe(&port->udp->recent, sizeof(port->udp->recent));
  }
  nm_release(port->node->mem, port->udp);
}

const nm_port_ops nm_port_udp = {.start = start,
                                 .send = put,
                                 .pause = pause_port,
                                 .stop = stop,
                                 .change = change,
                                 .relieve = relieve,
                                 .waiting = waiting,
                                 .dispose = dispose};

/* ---- opening ---- */

/* Addresses that were left out are the device's broadcast address. */
static int fill_from_device(nm_iface_setup *setup) {
  nm_device list[NM_DEVICES_MAX];
  bool listens = setup->host[0] == '\0' && setup->port != 0;
  bool forwards = setup->forward_host[0] == '\0' && setup->forward_port != 0;
  if (setup->device[0] == '\0' || (!listens && !forwards)) {
    return 0;
  }
  int count = nm_devices_read(list);
  int found = -1;
  for (int i = 0; i < count; i++) {
    found = strcmp(list[i].name, setup->device) == 0 ? i : found;
  }
  if (count < 0 || found < 0) {
    return count < 0 ? count : -ENODEV;
  }
  if (!list[found].has_broadcast) {
    return -EADDRNOTAVAIL;
  }
  nm_address address;
  char text[NM_ADDRESS_TEXT_MAX];
  memset(&address, 0, sizeof(address));
  address.any.sa_family = AF_INET;
  memcpy(&address.v4.sin_addr, list[found].broadcast, 4);
  nm_address_text(&address, text);
  if (listens) {
    memcpy(setup->host, text, sizeof(text));
  }
  if (forwards) {
    memcpy(setup->forward_host, text, sizeof(text));
  }
  return 0;
}

/* A descriptor, -1 when it does not listen, or a negated errno below that. */
static int open_in(const nm_iface_setup *setup, uint16_t *bound) {
  nm_udp_options options = {.device = setup->device};
  if (setup->host[0] == '\0') {
    *bound = setup->forward_port;
    return -1;
  }
  int error = nm_address_parse(setup->host, setup->port, &options.at);
  return error != 0 ? error : nm_udp_open(&options, bound);
}

/* What a port keeps; |fd| is taken over. */
static int equip(nm_port *port, int fd) {
  nm_node *node = port->node;
  nm_udp_port *udp = nm_alloc_zero(node->mem, 1, sizeof(*udp));
  port->udp = udp;
  if (udp == NULL || nm_entropy_fill(&node->entropy_source, udp->recent.key,
                                     sizeof(udp->recent.key)) != NM_OK) {
    nm_fd_close(fd);
    return NM_E(MEMORY);
  }
  const nm_iface_setup *setup = port->setup;
  udp->forwards = setup->forward_host[0] != '\0';
  if (udp->forwards) {
    udp->by_name = nm_address_parse(setup->forward_host, setup->forward_port,
                                    &udp->forward) == -EINVAL;
  }
  if (fd >= 0) {
    udp->in = nm_dgram_new(port, fd, datagram_max(port), &in_calls, NULL);
    udp->may_echo = udp->forwards && setup->forward_port == port->port;
  }
  return fd >= 0 && udp->in == NULL ? NM_E(MEMORY) : NM_OK;
}

/* The ask's status for an error of the system's. */
static int refuse(nm_ask *ask, int error) {
  ask->reply.os_error = error;
  return error == -EINVAL ? NM_E(ARGUMENT) : NM_E(LIBRARY);
}

/* What is no address may be a name. */
static int check_forward(const nm_iface_setup *setup) {
  nm_address forward;
  if (setup->forward_port == 0) {
    return -EINVAL;
  }
  int error =
      nm_address_parse(setup->forward_host, setup->forward_port, &forward);
  return error == -EINVAL && nm_host_is_name(setup->forward_host) ? 0 : error;
}

int nm_port_udp_add(nm_node *node, nm_ask *ask) {
  nm_iface_setup setup = ask->c.u.iface;
  uint16_t bound = 0;
  nm_port *port = NULL;
  int error = fill_from_device(&setup);
  if (error == 0 && setup.forward_host[0] != '\0') {
    error = check_forward(&setup);
  }
  if (error != 0) {
    return refuse(ask, error);
  }
  bool listens = setup.host[0] != '\0';
  bool forwards = setup.forward_host[0] != '\0';
  int fd = open_in(&setup, &bound);
  if (fd < 0 && listens) {
    return refuse(ask, fd);
  }
  setup.spec.receives = setup.spec.receives && listens;
  setup.spec.sends = setup.spec.sends && forwards;
  if (!listens) {
    memcpy(setup.host, setup.forward_host, sizeof(setup.host));
  }
  int status = nm_port_add(node, &setup, bound, &nm_port_udp, NULL, &port);
  nm_wipe(&setup, sizeof(setup));
  if (status != NM_OK) {
    nm_fd_close(fd);
    return status;
  }
  port->deaf = !listens;
  port->mute = !forwards;
  status = equip(port, fd);
  if (status == NM_OK) {
    status = port->ops->start(port);
  }
  if (status != NM_OK) {
    ask->reply.os_error = port->os_error;
    nm_port_remove(port);
    return status;
  }
  ask->reply.iface = port->id;
  ask->reply.number = listens ? bound : 0;
  return NM_OK;
}
