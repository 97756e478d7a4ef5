#include "io/auto_peers.h"

#include "wire/decisions.h"

#include <arpa/inet.h>
#include <string.h>

static void drop_peer(void *user, nm_table_link *entry) {
  const nm_auto_peers *peers = user;
  nm_release(peers->table.mem, entry);
}

int nm_auto_peers_init(nm_auto_peers *peers, const nm_mem *mem,
                       const uint8_t hash_key[16], uint32_t peers_max,
                       uint64_t silence_us) {
  nm_table_config config = {
      .capacity = peers_max,
      .key_size = sizeof(nm_auto_key),
      .key_offset = offsetof(nm_auto_peer, key),
      .user = peers,
      .may_evict = nm_table_keep,
      .dispose = drop_peer,
  };
  memset(peers, 0, sizeof(*peers));
  memcpy(config.hash_key, hash_key, sizeof(config.hash_key));
  peers->peers_max = peers_max;
  peers->silence_us = silence_us;
  return nm_table_init(&peers->table, mem, &config);
}

void nm_auto_peers_dispose(nm_auto_peers *peers) {
  nm_table_dispose(&peers->table);
}

static nm_auto_key key_of(const uint8_t address[16], uint32_t device) {
  nm_auto_key key;
  memset(&key, 0, sizeof(key));
  memcpy(key.address, address, sizeof(key.address));
  key.device = device;
  return key;
}

nm_auto_peer *nm_auto_peer_find(const nm_auto_peers *peers,
                                const uint8_t address[16], uint32_t device) {
  nm_auto_key key = key_of(address, device);
  return (nm_auto_peer *)(void *)nm_table_find(&peers->table, &key);
}

nm_auto_peer *nm_auto_peer_add(nm_auto_peers *peers, const uint8_t address[16],
                               uint32_t device, uint64_t now_us) {
  if (peers->table.count >= peers->peers_max) {
    peers->refused++;
    return NULL;
  }
  nm_auto_peer *peer = nm_alloc_zero(peers->table.mem, 1, sizeof(*peer));
  if (peer == NULL) {
    return NULL;
  }
  peer->key = key_of(address, device);
  peer->heard_us = now_us;
  peer->called_us = now_us;
  if (nm_table_insert(&peers->table, &peer->link) != NM_OK) {
    nm_release(peers->table.mem, peer);
    return NULL;
  }
  return peer;
}

void nm_auto_peer_remove(nm_auto_peers *peers, nm_auto_peer *peer) {
  nm_table_remove(&peers->table, &peer->link);
  nm_release(peers->table.mem, peer);
}

nm_auto_peer *nm_auto_peer_next(const nm_auto_peers *peers,
                                const nm_auto_peer *peer) {
  return (nm_auto_peer *)(void *)nm_table_next(
      &peers->table, peer == NULL ? NULL : &peer->link);
}

bool nm_auto_peer_is_silent(const nm_auto_peers *peers,
                            const nm_auto_peer *peer, uint64_t now_us) {
  return now_us >= peer->heard_us + peers->silence_us;
}

bool nm_auto_peer_is_due(const nm_auto_peer *peer, uint64_t now_us) {
  return now_us >= peer->called_us + NM_AUTO_REVERSE_US;
}

uint64_t nm_auto_peers_next(const nm_auto_peers *peers) {
  uint64_t next = UINT64_MAX;
  const nm_auto_peer *peer = NULL;
  while ((peer = nm_auto_peer_next(peers, peer)) != NULL) {
    uint64_t silent = peer->heard_us + peers->silence_us;
    uint64_t due = peer->called_us + NM_AUTO_REVERSE_US;
    next = silent < next ? silent : next;
    next = due < next ? due : next;
  }
  return next;
}

/* ---- tokens ---- */

void nm_auto_token(nm_span group, const uint8_t address[16],
                   uint8_t token[NM_HASH_SIZE]) {
  char text[INET6_ADDRSTRLEN] = "";
  (void)inet_ntop(AF_INET6, address, text, sizeof(text));
  nm_discovery_token(group, nm_span_of(text, strlen(text)), token);
}

bool nm_auto_token_fits(nm_span group, const uint8_t address[16],
                        nm_span payload) {
  uint8_t token[NM_HASH_SIZE];
  if (payload.len < NM_HASH_SIZE) {
    return false;
  }
  nm_auto_token(group, address, token);
  return nm_span_equal(nm_span_slice(payload, 0, NM_HASH_SIZE),
                       nm_span_of(token, NM_HASH_SIZE));
}

/* ---- echoes ---- */

void nm_auto_echo_start(nm_auto_echo *echo, uint64_t now_us) {
  memset(echo, 0, sizeof(*echo));
  echo->since_us = now_us;
  echo->heard_us = now_us;
}

void nm_auto_echo_hear(nm_auto_echo *echo, uint64_t now_us) {
  echo->heard = true;
  echo->heard_us = now_us;
}

bool nm_auto_echo_look(nm_auto_echo *echo, uint64_t now_us) {
  bool lost = now_us >= echo->heard_us + NM_AUTO_ECHO_US;
  bool changed = lost != echo->lost;
  echo->lost = lost;
  return changed;
}

uint64_t nm_auto_echo_next(const nm_auto_echo *echo) {
  return echo->lost ? UINT64_MAX : echo->heard_us + NM_AUTO_ECHO_US;
}
