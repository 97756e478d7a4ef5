/* Peers whose connections come and go too fast (RNS 2, 5.5): a connection that
 * lived shorter than a threshold and brought no packet counts one flap for its
 * address; an address with more flaps than its grace is turned away for a
 * moment after the last one, which doubles with each more. Many clients behind
 * one address, and programs that connect for each thing they have to say, do
 * not flap: they say something. IPv6 addresses count by their network of 64
 * bits. The table is bounded; the address whose last flap is longest ago makes
 * room.
 */
#ifndef NM_IO_FLAPS_H
#define NM_IO_FLAPS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* Addresses that are remembered. */
#define NM_FLAPS_MAX 512

typedef struct nm_flap_limits {
  uint32_t threshold_ms; /* a shorter life is a flap [20000]; 0: no guard */
  uint32_t grace;        /* flaps that are forgiven [20] */
  uint32_t first_ms;     /* turned away for, after one more [2000]; 0: at once
                            for the longest */
  uint32_t block_ms; /* and at most [60000]: after so long all is forgiven */
  bool loopback;     /* addresses of this machine count too [no] */
} nm_flap_limits;

typedef struct nm_flap nm_flap;

/* What an address counts as; zeros: it does not count. */
typedef struct nm_flap_key {
  uint8_t bytes[9]; /* the family, then an IPv4 address or an IPv6 network */
} nm_flap_key;

/* Zeroed before use. */
typedef struct nm_flaps {
  nm_flap *slots; /* of NM_FLAPS_MAX, with the first flap; or NULL */
  uint32_t used;
  uint64_t counted; /* flaps */
  uint64_t evicted; /* addresses that made room for others */
} nm_flaps;

/* What the address |host| counts as under |limits|. */
nm_flap_key nm_flap_key_of(const nm_flap_limits *limits, const char *host);
/* Whether a connection from an address is turned away at |now_us|. */
bool nm_flaps_blocked(const nm_flaps *flaps, const nm_flap_limits *limits,
                      const nm_flap_key *key, uint64_t now_us);
/* A connection from an address has ended by itself after |lived_us|. One above
 * the threshold clears its address, one that |spoke| (a packet of it could be
 * read) does not count. Without memory nothing is remembered. */
void nm_flaps_ended(nm_flaps *flaps, const nm_flap_limits *limits,
                    const nm_mem *mem, const nm_flap_key *key, bool spoke,
                    uint64_t lived_us, uint64_t now_us);
void nm_flaps_free(nm_flaps *flaps, const nm_mem *mem);

#endif
