/* Ids of what was delivered: a message that comes again, by whatever way, is
 * told of once (LXMF 4.5). Message ids and transient ids share the table.
 */
#include "lxmf/internal.h"

#include <string.h>

int nm_seen_init(nm_router *router) {
  return nm_router_table(router, &router->seen, router->limits.seen,
                         NM_HASH_SIZE, offsetof(nm_seen, id),
                         nm_router_dispose_plain);
}

static nm_seen *find(const nm_router *router, const uint8_t id[NM_HASH_SIZE]) {
  return (nm_seen *)(void *)nm_table_find(&router->seen, id);
}

bool nm_seen_has(const nm_router *router, const uint8_t id[NM_HASH_SIZE],
                 bool *durable) {
  const nm_seen *entry = find(router, id);
  *durable = entry != NULL && entry->durable;
  return entry != NULL;
}

/* Without memory the id is not remembered: the driver's store knows it too. */
void nm_seen_put(nm_router *router, const uint8_t id[NM_HASH_SIZE],
                 bool durable) {
  nm_seen *entry = find(router, id);
  if (entry != NULL) {
    entry->durable = entry->durable || durable;
    return;
  }
  entry = nm_alloc_zero(router->mem, 1, sizeof(*entry));
  if (entry == NULL) {
    return;
  }
  memcpy(entry->id, id, sizeof(entry->id));
  entry->durable = durable;
  if (nm_table_insert(&router->seen, &entry->link) != NM_OK) {
    nm_release(router->mem, entry);
  }
}

void nm_router_seen(nm_router *router, const uint8_t id[NM_HASH_SIZE]) {
  nm_seen_put(router, id, true);
}

void nm_seen_drop(nm_router *router, const uint8_t id[NM_HASH_SIZE]) {
  nm_seen *entry = find(router, id);
  if (entry != NULL) {
    nm_table_remove(&router->seen, &entry->link);
    nm_release(router->mem, entry);
  }
}
