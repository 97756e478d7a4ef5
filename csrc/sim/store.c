/* What survives a crash: named bytes of each node, in the order of names.
 */
#include "sim/internal.h"

#define STORE_NAME_MAX 255

nm_sim_entry *nm_sim_entry_of(nm_sim *sim, nm_sim_node *node,
                              const char *name) {
  nm_sim_entry **at = &node->store;
  int order = -1;
  while (*at != NULL && (order = strcmp((*at)->name, name)) < 0) {
    at = &(*at)->next;
  }
  if (*at != NULL && order == 0) {
    return *at;
  }
  size_t len = strlen(name) + 1;
  nm_sim_entry *entry = nm_alloc_zero(&sim->own.mem, 1, sizeof(*entry) + len);
  if (entry == NULL) {
    nm_sim_no_memory(sim);
    return NULL;
  }
  memcpy(entry->name, name, len);
  entry->next = *at;
  *at = entry;
  return entry;
}

void nm_sim_entry_put(nm_sim *sim, nm_sim_entry *entry, nm_span bytes) {
  nm_block *kept = nm_block_copy(&sim->own.mem, bytes);
  if (kept == NULL) {
    nm_sim_no_memory(sim);
    return;
  }
  nm_block_mark_secret(kept);
  nm_block_drop(entry->bytes);
  entry->bytes = kept;
}

void nm_sim_store_dispose(nm_sim *sim, nm_sim_node *node) {
  while (node->store != NULL) {
    nm_sim_entry *entry = node->store;
    node->store = entry->next;
    nm_block_drop(entry->bytes);
    nm_release(&sim->own.mem, entry);
  }
}

static const nm_sim_entry *find(const nm_sim *sim, nm_sim_node_id id,
                                const char *name) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  const nm_sim_entry *entry = node == NULL ? NULL : node->store;
  while (entry != NULL && strcmp(entry->name, name) != 0) {
    entry = entry->next;
  }
  return entry;
}

nm_span nm_sim_stored(const nm_sim *sim, nm_sim_node_id node,
                      const char *name) {
  const nm_sim_entry *entry = find(sim, node, name);
  return entry == NULL || entry->bytes == NULL ? nm_span_of(NULL, 0)
                                               : nm_block_span(entry->bytes);
}

const char *nm_sim_stored_next(const nm_sim *sim, nm_sim_node_id id,
                               const char *name) {
  const nm_sim_node *node = nm_sim_node_at(sim, id);
  const nm_sim_entry *entry = node == NULL ? NULL : node->store;
  while (entry != NULL && (entry->bytes == NULL ||
                           (name != NULL && strcmp(entry->name, name) <= 0))) {
    entry = entry->next;
  }
  return entry == NULL ? NULL : entry->name;
}

int nm_sim_store(nm_sim *sim, nm_sim_node_id id, const char *name,
                 nm_span bytes) {
  nm_sim_node *node = nm_sim_node_at(sim, id);
  size_t len = strlen(name);
  if (node == NULL || len == 0 || len > STORE_NAME_MAX) {
    return NM_E(ARGUMENT);
  }
  nm_sim_entry *entry = nm_sim_entry_of(sim, node, name);
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  if (bytes.len == 0) {
    nm_block_drop(entry->bytes);
    entry->bytes = NULL;
    return NM_OK;
  }
  nm_sim_entry_put(sim, entry, bytes);
  return entry->bytes == NULL ? NM_E(MEMORY) : NM_OK;
}
