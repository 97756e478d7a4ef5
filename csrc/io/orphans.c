/* Stored paths that wait for their interface. */
#include "io/internal.h"

#include <string.h>

uint64_t nm_mono_of(nm_now now, int64_t unix_us) {
  int64_t ago = now.unix_us - unix_us;
  if (ago >= 0 && (uint64_t)ago >= now.mono_us) {
    return 0;
  }
  return (uint64_t)((int64_t)now.mono_us - ago);
}

void nm_orphans_dispose(nm_node *node) {
  while (node->orphans != NULL) {
    nm_orphan *orphan = node->orphans;
    node->orphans = orphan->next;
    nm_path_record_dispose(&orphan->record);
    nm_release(node->mem, orphan);
  }
}

void nm_orphans_adopt(nm_node *node, nm_iface_id iface,
                      const uint8_t hash[NM_HASH_SIZE]) {
  nm_orphan **at = &node->orphans;
  nm_now now = node->loop->now;
  while (*at != NULL) {
    nm_orphan *orphan = *at;
    if (memcmp(orphan->iface_hash, hash, NM_HASH_SIZE) != 0) {
      at = &orphan->next;
      continue;
    }
    nm_path_record *record = &orphan->record;
    *at = orphan->next;
    record->iface = iface;
    record->updated_mono_us = nm_mono_of(now, record->updated_unix_us);
    record->expires_mono_us = nm_mono_of(now, record->expires_unix_us);
    nm_path_record known;
    if (nm_engine_path_get(node->engine, &record->destination, &known)) {
      nm_path_record_dispose(&known); /* something newer was learned */
    } else if (!nm_engine_is_barred(node->engine, &record->destination)) {
      (void)nm_engine_path_put(node->engine, record);
    }
    nm_path_record_dispose(record);
    nm_release(node->mem, orphan);
    node->stats.orphan_paths--;
  }
}
