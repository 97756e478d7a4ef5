/* Who is in an AutoInterface's group, as one node knows (RNS 2, 5.7): pure
 * state, given what was heard and when. Addresses are 16 bytes, link-local.
 */
#ifndef NM_IO_AUTO_PEERS_H
#define NM_IO_AUTO_PEERS_H

#include "base/table.h"

/* How often an own token is sent to the group and to each peer. */
#define NM_AUTO_ANNOUNCE_US UINT64_C(1600000)
#define NM_AUTO_REVERSE_US UINT64_C(5200000)
/* How long a peer may be silent, and the echo of an own token be missing. */
#define NM_AUTO_PEER_US UINT64_C(22000000)
#define NM_AUTO_ECHO_US UINT64_C(6500000)

typedef struct nm_auto_key {
  uint8_t address[16];
  uint32_t device;
} nm_auto_key;

typedef struct nm_auto_peer {
  nm_table_link link;
  nm_auto_key key;
  uint64_t heard_us;  /* a token or data */
  uint64_t called_us; /* our token went to it alone */
  void *user;         /* the caller's */
} nm_auto_peer;

typedef struct nm_auto_peers {
  nm_table table;
  uint32_t peers_max;
  uint64_t silence_us; /* allowed to a peer */
  uint64_t refused;    /* peers beyond peers_max */
} nm_auto_peers;

/* 0 or NM_E(MEMORY). */
int nm_auto_peers_init(nm_auto_peers *peers, const nm_mem *mem,
                       const uint8_t hash_key[16], uint32_t peers_max,
                       uint64_t silence_us);
void nm_auto_peers_dispose(nm_auto_peers *peers);
/* The peer with an address on a device, or NULL. */
nm_auto_peer *nm_auto_peer_find(const nm_auto_peers *peers,
                                const uint8_t address[16], uint32_t device);
/* Enters a peer that was heard at |now_us|. NULL when there are too many
 * (counted), or without memory. */
nm_auto_peer *nm_auto_peer_add(nm_auto_peers *peers, const uint8_t address[16],
                               uint32_t device, uint64_t now_us);
void nm_auto_peer_remove(nm_auto_peers *peers, nm_auto_peer *peer);
/* Walks from NULL; the successor is fetched before a peer is removed. */
nm_auto_peer *nm_auto_peer_next(const nm_auto_peers *peers,
                                const nm_auto_peer *peer);
bool nm_auto_peer_is_silent(const nm_auto_peers *peers,
                            const nm_auto_peer *peer, uint64_t now_us);
/* Whether our token is due to it alone. */
bool nm_auto_peer_is_due(const nm_auto_peer *peer, uint64_t now_us);
/* When the next peer is due or silent; UINT64_MAX without peers. */
uint64_t nm_auto_peers_next(const nm_auto_peers *peers);

/* Whether |payload| is the token of |address|: its first 32 bytes are, that is;
 * what follows is ignored. */
bool nm_auto_token_fits(nm_span group, const uint8_t address[16],
                        nm_span payload);
/* The token of |address|. */
void nm_auto_token(nm_span group, const uint8_t address[16],
                   uint8_t token[NM_HASH_SIZE]);

/* The echo of own tokens on one device: it shows that multicast gets through.
 */
typedef struct nm_auto_echo {
  uint64_t since_us; /* tokens are sent since then */
  uint64_t heard_us;
  bool heard; /* since then */
  bool lost;  /* as nm_auto_echo_look said last */
} nm_auto_echo;

void nm_auto_echo_start(nm_auto_echo *echo, uint64_t now_us);
void nm_auto_echo_hear(nm_auto_echo *echo, uint64_t now_us);
/* True when it went missing, or came back (see `lost`). */
bool nm_auto_echo_look(nm_auto_echo *echo, uint64_t now_us);
/* When to look again. */
uint64_t nm_auto_echo_next(const nm_auto_echo *echo);

#endif
