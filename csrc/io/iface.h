/* Interfaces of a node: how to open one, and what is readable of it.
 */
#ifndef NM_IO_IFACE_H
#define NM_IO_IFACE_H

#include "base/block.h"
#include "io/flaps.h"
#include "stack/iface.h"

/* What carries the bytes. */
typedef enum nm_medium {
  NM_MEDIUM_TCP_CLIENT, /* RNS 2, 5.4 */
  NM_MEDIUM_TCP_SERVER,
  NM_MEDIUM_TCP_CHILD,    /* a connection that a server accepted */
  NM_MEDIUM_PIPE,         /* a connected stream socket, HDLC */
  NM_MEDIUM_LOCAL_CLIENT, /* attached to a shared instance (RNS 2, 5.8) */
  NM_MEDIUM_UDP,          /* RNS 2, 5.6 */
  NM_MEDIUM_AUTO,         /* RNS 2, 5.7 */
  NM_MEDIUM_AUTO_PEER,    /* a peer that an AUTO interface found */
  NM_MEDIUM_USER          /* frames come and go by FEED and NM_NODE_FRAME */
} nm_medium;
/* "tcp_client", ... Never NULL. */
const char *nm_medium_name(nm_medium medium);
/* Whether it carries nothing itself, but has children that do. */
bool nm_medium_is_parent(nm_medium medium);

#define NM_LABEL_MAX 63
#define NM_HOST_MAX 253
#define NM_INSTANCE_MAX 100
#define NM_LOCAL_PORT 37428
#define NM_ADDRESS_TEXT_MAX 64 /* numeric, with room for a device and zero */
#define NM_DEVICE_NAME_MAX 15
#define NM_GROUP_MAX 63
#define NM_DEVICE_LIST_MAX 255
#define NM_AUTO_DISCOVERY_PORT 29716
#define NM_AUTO_DATA_PORT 42671

/* An AUTO interface's own options (RNS 2, 5.7). */
typedef struct nm_auto_setup {
  char group[NM_GROUP_MAX + 1]; /* "reticulum" */
  char scope;                   /* '2' link; '4', '5', '8', 'e' */
  char address_type;            /* '1' temporary, '0' permanent */
  uint16_t discovery_port;      /* 29716; unicast discovery on the next one */
  uint16_t data_port;           /* 42671 */
  char devices[NM_DEVICE_LIST_MAX + 1]; /* names between commas; empty: all */
  char ignored[NM_DEVICE_LIST_MAX + 1]; /* these not */
  uint32_t peer_timeout_ms;             /* silence that ends a peer, 22000 */
} nm_auto_setup;

/* How to open an interface. Plain values, no pointers. */
typedef struct nm_iface_setup {
  nm_medium medium;
  char label[NM_LABEL_MAX + 1]; /* NAME of RNS 2, 5.1; no NUL-less text */
  nm_iface_spec spec; /* properties; `name` is made from medium, label and
                         address, `role` and `tunnels` by the medium, `online`
                         by events */
  char host[NM_HOST_MAX + 1]; /* TCP client: name or address. Server: numeric
                                 address; empty: all, IPv6 and IPv4.
                                 UDP: numeric address to listen on; empty: the
                                 device's broadcast address, without a device
                                 it only sends */
  uint16_t port;              /* a server's 0: any, readable as `port` */
  bool kiss;                  /* TCP client: KISS framing, no tunnel */
  bool i2p_tunneled;          /* longer keepalive times */
  bool prefer_ipv6;           /* of the addresses of a name */
  uint32_t max_tries; /* attempts in a row before it gives up; 0: for ever */
  uint32_t retry_first_ms;     /* 100; local client 100 */
  uint32_t retry_max_ms;       /* 60000; local client 8000 */
  uint32_t connect_timeout_ms; /* 5000 */
  uint32_t connections_max;    /* server: open at once, 4096; AUTO:
                                  peers, 1024 */
  nm_flap_limits flaps;        /* server: connections that come and go */
  uint32_t queue_bytes;        /* waiting output of one connection, 4 MiB */
  uint32_t queue_packets;      /* 8192 */
  char instance[NM_INSTANCE_MAX + 1]; /* local client: "default" */
  bool local_tcp; /* local client: 127.0.0.1:port (37428), not the socket */
  uint16_t forward_port;               /* UDP */
  char device[NM_DEVICE_NAME_MAX + 1]; /* UDP, TCP: what it is bound to, or
                                          "" */
  union {
    nm_auto_setup automatic;            /* AUTO */
    char forward_host[NM_HOST_MAX + 1]; /* UDP: name or address to send to;
                                           empty: the device's broadcast
                                           address, without a device it only
                                           listens */
  };
  int fd; /* pipe: an end, owned by the node once the command is taken;
             -1 otherwise */
} nm_iface_setup;

/* Fills |setup| with the defaults of |medium| under |label|. NM_E(ARGUMENT)
 * for a label that is empty or longer than NM_LABEL_MAX, and for TCP_CHILD. */
int nm_iface_setup_default(nm_iface_setup *setup, nm_medium medium,
                           const char *label);
/* The display string whose hash identifies the interface (RNS 2, 5.1), with
 * |port| in place of the setup's. NM_E(TOO_LARGE) when it does not fit. */
int nm_iface_display_name(const nm_iface_setup *setup, uint16_t port,
                          char out[NM_IFACE_NAME_MAX + 1]);
/* Two connected descriptors for two pipe interfaces, of nodes on the same or
 * on different loops. NM_E(LIBRARY). */
int nm_pipe_pair(int fds[2]);

/* Why a connection is not there. */
typedef enum nm_port_trouble {
  NM_PORT_NO_TROUBLE,
  NM_PORT_RESOLVE, /* the name has no address */
  NM_PORT_CONNECT, /* refused, unreachable */
  NM_PORT_TIMEOUT, /* no answer to the attempt in time */
  NM_PORT_CLOSED,  /* the peer closed, or the connection broke */
  NM_PORT_LISTEN,  /* the address cannot be listened on */
  NM_PORT_ACCEPT,  /* no descriptor or memory for a connection */
  NM_PORT_GAVE_UP, /* max_tries attempts failed */
  NM_PORT_CARRIER  /* AUTO: own multicast is not heard back: a firewall or the
                      device swallows it */
} nm_port_trouble;

/* Output that an interface did not take. */
typedef enum nm_port_drop {
  NM_PORT_DROP_OFFLINE,
  NM_PORT_DROP_BYTES,   /* queue_bytes are waiting */
  NM_PORT_DROP_PACKETS, /* queue_packets are waiting */
  NM_PORT_DROP_MEMORY,
  NM_PORT_DROP_EGRESS,      /* the access code could not be made */
  NM_PORT_DROP_TOO_LARGE,   /* the device takes no datagrams of this size */
  NM_PORT_DROP_BUFFERS,     /* the system had no buffers, for a while */
  NM_PORT_DROP_UNREACHABLE, /* no route, or the network said no */
  NM_PORT_DROP_COUNT
} nm_port_drop;
/* "offline", ... Never NULL. */
const char *nm_port_drop_name(nm_port_drop reason);

/* Connections, or AUTO peers, that a parent did not take. */
typedef enum nm_port_refusal {
  NM_PORT_REFUSED_LIMIT,     /* connections_max are open */
  NM_PORT_REFUSED_RESOURCES, /* no descriptor or memory */
  NM_PORT_REFUSED_FLAPPING,  /* its address came and went too fast */
  NM_PORT_REFUSED_COUNT
} nm_port_refusal;
/* "limit", ... Never NULL. */
const char *nm_port_refusal_name(nm_port_refusal reason);

/* One interface as it is. Plain values, no pointers. */
typedef struct nm_iface_info {
  nm_iface_id id;
  nm_iface_id parent; /* 0, or the server of a child */
  nm_medium medium;
  char name[NM_IFACE_NAME_MAX + 1];
  char label[NM_LABEL_MAX + 1];
  uint8_t hash[NM_HASH_SIZE]; /* H(name) */
  nm_iface_mode mode;
  nm_iface_role role;
  bool online;
  bool paused;
  bool listening;
  bool has_ifac;
  uint16_t ifac_size;
  uint16_t port;        /* bound or remote; 0: none */
  uint32_t connections; /* of a server, now */
  nm_mtu_mode mtu_mode;
  size_t hw_mtu;
  uint64_t bitrate;
  bool receives; /* from here to `announces_to_internal` as nm_iface_spec */
  bool sends;
  bool tunnels;
  double announce_cap;
  uint32_t rate_target_s;
  uint32_t rate_grace;
  uint32_t rate_penalty_s;
  bool ingress_control;
  nm_ingress_spec ingress;
  double egress_limit;
  int32_t gravity;
  bool recursive_prs;
  bool announces_from_internal;
  int8_t announces_to_internal;
  nm_port_trouble trouble; /* the last one */
  int os_error;            /* its libuv error, negative */
  uint32_t tries;          /* attempts since the last success */
  uint64_t opened;         /* connections made or accepted */
  uint64_t refused;        /* connections not taken, for any reason */
  uint64_t refusals[NM_PORT_REFUSED_COUNT];
  uint64_t flaps;         /* connections that ended too soon */
  uint64_t flaps_evicted; /* addresses of those that made room for others */
  uint64_t wire_rx_bytes; /* with framing */
  uint64_t wire_tx_bytes;
  uint64_t rx_discarded_bytes; /* outside of frames, or of bad ones */
  uint64_t rx_runts;
  uint64_t rx_oversize;
  uint64_t rx_echoes;      /* datagrams that were our own, or came twice */
  uint64_t rx_strangers;   /* AUTO: datagrams from none of its peers */
  uint64_t network_errors; /* told by the network of earlier datagrams */
  uint32_t queued_packets;
  uint32_t queued_bytes;
  uint64_t drops[NM_PORT_DROP_COUNT];
  nm_iface_counters counters; /* of the engine; a server's: its children's,
                                 those that are gone included */
} nm_iface_info;

/* Whether an AUTO interface uses a device, or why not. */
typedef enum nm_device_state {
  NM_DEVICE_LISTENING,
  NM_DEVICE_IGNORED,    /* by the options; loopback; no multicast */
  NM_DEVICE_DOWN,       /* switched off, or without a carrier */
  NM_DEVICE_NO_ADDRESS, /* no link-local address yet */
  NM_DEVICE_FAILED      /* `os_error` says why; tried again */
} nm_device_state;
/* "listening", ... Never NULL. */
const char *nm_device_state_name(nm_device_state state);

/* One device as an AUTO interface sees it. Plain values, no pointers. */
typedef struct nm_device_info {
  char name[NM_DEVICE_NAME_MAX + 1];
  uint32_t index; /* the system's number for it */
  nm_device_state state;
  int os_error;                      /* negated errno of FAILED */
  char address[NM_ADDRESS_TEXT_MAX]; /* the link-local one in use, or "" */
  uint32_t addresses;                /* link-local ones that it has */
  uint32_t peers;
  bool echo_heard; /* own multicast came back since it listens */
  bool echo_lost;  /* it has been missing for 6.5 s */
  uint64_t opened; /* times that it began to listen */
  uint64_t announces;
  uint64_t echoes;
  uint64_t forged; /* tokens of other groups, or wrong ones */
} nm_device_info;

/* The rows of a list of interfaces; |count| gets how many. */
const nm_iface_info *nm_iface_infos(const nm_block *list, size_t *count);

#endif
