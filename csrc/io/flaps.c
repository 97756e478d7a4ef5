#include "io/flaps.h"

#include <string.h>
#include <uv.h>

struct nm_flap {
  nm_flap_key key;
  uint32_t count;
  uint64_t last_us;
};

nm_flap_key nm_flap_key_of(const nm_flap_limits *limits, const char *host) {
  static const uint8_t own[16] = {[15] = 1};
  uint8_t address[16] = {0};
  nm_flap_key key = {0};
  if (limits->threshold_ms == 0) {
    return key;
  }
  if (uv_inet_pton(AF_INET, host, address) == 0) {
    if (limits->loopback || address[0] != 127) {
      key.bytes[0] = 4;
      memcpy(key.bytes + 1, address, 4);
    }
  } else if (uv_inet_pton(AF_INET6, host, address) == 0) {
    if (limits->loopback || memcmp(address, own, sizeof(own)) != 0) {
      key.bytes[0] = 6;
      memcpy(key.bytes + 1, address, 8);
    }
  }
  return key;
}

static nm_flap *find(const nm_flaps *flaps, const nm_flap_key *key) {
  for (uint32_t i = 0; i < flaps->used; i++) {
    if (memcmp(&flaps->slots[i].key, key, sizeof(*key)) == 0) {
      return &flaps->slots[i];
    }
  }
  return NULL;
}

/* How long an address is turned away that has more flaps than its grace. */
static uint64_t block_us(const nm_flap *flap, const nm_flap_limits *limits) {
  uint64_t most = (uint64_t)limits->block_ms * 1000;
  uint64_t first = (uint64_t)limits->first_ms * 1000;
  uint32_t more = flap->count - limits->grace - 1;
  bool shorter = first != 0 && more < 64 && first <= most >> more;
  return shorter ? first << more : most;
}

static bool is_forgiven(const nm_flap *flap, const nm_flap_limits *limits,
                        uint64_t now_us) {
  return now_us - flap->last_us >= (uint64_t)limits->block_ms * 1000;
}

bool nm_flaps_blocked(const nm_flaps *flaps, const nm_flap_limits *limits,
                      const nm_flap_key *key, uint64_t now_us) {
  if (key->bytes[0] == 0) {
    return false;
  }
  const nm_flap *flap = find(flaps, key);
  return flap != NULL && flap->count > limits->grace &&
         now_us - flap->last_us < block_us(flap, limits);
}

/* A slot for a new address, zeroed; NULL without memory. */
static nm_flap *add(nm_flaps *flaps, const nm_mem *mem) {
  if (flaps->slots == NULL) {
    flaps->slots = nm_alloc_zero(mem, NM_FLAPS_MAX, sizeof(*flaps->slots));
    if (flaps->slots == NULL) {
      return NULL;
    }
  }
  nm_flap *slot = &flaps->slots[0];
  if (flaps->used < NM_FLAPS_MAX) {
    slot = &flaps->slots[flaps->used++];
  } else {
    for (uint32_t i = 1; i < flaps->used; i++) {
      if (flaps->slots[i].last_us < slot->last_us) {
        slot = &flaps->slots[i];
      }
    }
    flaps->evicted++;
  }
  memset(slot, 0, sizeof(*slot));
  return slot;
}

void nm_flaps_ended(nm_flaps *flaps, const nm_flap_limits *limits,
                    const nm_mem *mem, const nm_flap_key *key, bool spoke,
                    uint64_t lived_us, uint64_t now_us) {
  if (key->bytes[0] == 0) {
    return;
  }
  nm_flap *flap = find(flaps, key);
  if (lived_us >= (uint64_t)limits->threshold_ms * 1000) {
    if (flap != NULL) {
      *flap = flaps->slots[--flaps->used];
    }
    return;
  }
  if (spoke) {
    return;
  }
  if (flap == NULL) {
    flap = add(flaps, mem);
    if (flap == NULL) {
      return;
    }
    flap->key = *key;
  } else if (is_forgiven(flap, limits, now_us)) {
    flap->count = 0;
  }
  flap->count += flap->count < UINT32_MAX;
  flap->last_us = now_us;
  flaps->counted++;
}

void nm_flaps_free(nm_flaps *flaps, const nm_mem *mem) {
  nm_release(mem, flaps->slots);
  memset(flaps, 0, sizeof(*flaps));
}
