#include "io/recent.h"

#include <sodium.h>

bool nm_recent_seen(nm_recent *recent, nm_span data, uint32_t place,
                    uint64_t now_us) {
  uint64_t hash;
  crypto_shorthash((uint8_t *)&hash, data.ptr, data.len, recent->key);
  for (size_t i = 0; i < NM_RECENT_COUNT; i++) {
    if (recent->ring[i].hash == hash && recent->ring[i].place != 0 &&
        recent->ring[i].place != place &&
        now_us - recent->ring[i].at_us < NM_RECENT_US) {
      return true;
    }
  }
  recent->ring[recent->next].hash = hash;
  recent->ring[recent->next].at_us = now_us;
  recent->ring[recent->next].place = place;
  recent->next = (recent->next + 1) % NM_RECENT_COUNT;
  return false;
}
