/* The table of own destinations, their handlers, the subscriptions.
 */
#include "stack/internal.h"
#include "stack/locals.h"
#include "wire/destination.h"

#include <string.h>

#define SUBSCRIPTIONS_MAX 4096
#define HANDLERS_MAX 1024

static void free_handler(nm_engine *engine, nm_handler *handler) {
  nm_release(engine->mem, handler->list);
  nm_release(engine->mem, handler);
}

void nm_local_drop_answers(nm_engine *engine, nm_local *local) {
  while (local->answers != NULL) {
    nm_answer *gone = local->answers;
    local->answers = gone->next;
    nm_block_drop(gone->raw);
    nm_release(engine->mem, gone);
  }
}

void nm_local_free(nm_engine *engine, nm_local *local) {
  nm_timer_disarm(&engine->timers, &local->register_timer);
  nm_engine_unreserve_timers(engine, 1);
  while (local->handlers != NULL) {
    nm_handler *handler = local->handlers;
    local->handlers = handler->next;
    free_handler(engine, handler);
  }
  nm_local_drop_answers(engine, local);
  nm_block_drop(local->identity);
  nm_shelf_drop(local->shelf);
  nm_block_drop(local->name);
  nm_block_drop(local->app_data);
  nm_block_drop(local->ratchet_keys);
  nm_block_drop(local->ratchet_ids);
  nm_wipe(local, sizeof(*local));
  nm_release(engine->mem, local);
}

static void dispose_local(void *user, nm_table_link *entry) {
  nm_local_free(user, (nm_local *)(void *)entry);
}

int nm_locals_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.destinations,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_local, hash),
      .may_evict = nm_table_keep,
      .dispose = dispose_local,
  };
  engine->locals.next_subscription = 1;
  return nm_engine_table(engine, &engine->locals.table, &config);
}

void nm_locals_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->locals.table);
  while (engine->locals.subscriptions != NULL) {
    nm_subscription *gone = engine->locals.subscriptions;
    engine->locals.subscriptions = gone->next;
    nm_release(engine->mem, gone);
  }
}

nm_local *nm_local_find(const nm_engine *engine,
                        const nm_destination_hash *hash) {
  return (nm_local *)(void *)nm_table_find(&engine->locals.table, hash);
}

nm_local *nm_local_next(const nm_engine *engine, const nm_local *local) {
  const nm_table_link *link = local == NULL ? NULL : &local->link;
  return (nm_local *)(void *)nm_table_next(&engine->locals.table, link);
}

/* ---- settings ---- */

int nm_engine_set_prove(nm_engine *engine, const nm_destination_hash *hash,
                        nm_prove prove, bool hold) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  if (nm_proof_strategy_check(prove) != NM_OK) {
    return NM_E(ARGUMENT);
  }
  local->prove = prove;
  local->hold = hold;
  return NM_OK;
}

int nm_engine_pause(nm_engine *engine, const nm_destination_hash *hash,
                    bool paused) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  local->paused = paused;
  return NM_OK;
}

int nm_engine_set_app_data(nm_engine *engine, const nm_destination_hash *hash,
                           bool set, nm_span app_data) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  nm_block *copy = set ? nm_block_copy(engine->mem, app_data) : NULL;
  if (set && copy == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_drop(local->app_data);
  local->app_data = copy;
  return NM_OK;
}

/* ---- request handlers ---- */

static nm_handler **handler_slot(nm_local *local,
                                 const uint8_t path_hash[NM_ADDRESS_SIZE]) {
  nm_handler **at = &local->handlers;
  while (*at != NULL &&
         memcmp((*at)->path_hash, path_hash, NM_ADDRESS_SIZE) != 0) {
    at = &(*at)->next;
  }
  return at;
}

static size_t handler_count(const nm_local *local) {
  size_t count = 0;
  for (const nm_handler *h = local->handlers; h != NULL; h = h->next) {
    count++;
  }
  return count;
}

static nm_handler *new_handler(nm_engine *engine, const uint8_t *path_hash,
                               nm_allow allow, const nm_identity_hash *list,
                               size_t count) {
  nm_handler *handler = nm_alloc_zero(engine->mem, 1, sizeof(*handler));
  if (handler == NULL) {
    return NULL;
  }
  memcpy(handler->path_hash, path_hash, NM_ADDRESS_SIZE);
  handler->allow = allow;
  if (count > 0) {
    handler->list = nm_alloc_zero(engine->mem, count, sizeof(list[0]));
    if (handler->list == NULL) {
      nm_release(engine->mem, handler);
      return NULL;
    }
    memcpy(handler->list, list, count * sizeof(list[0]));
    handler->list_count = count;
  }
  return handler;
}

int nm_engine_handle(nm_engine *engine, const nm_destination_hash *hash,
                     nm_span path, nm_allow allow, const nm_identity_hash *list,
                     size_t count) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  if (nm_request_handler_check(path, allow, allow == NM_ALLOW_LIST,
                               count * NM_ADDRESS_SIZE, NULL) != NM_OK) {
    return NM_E(ARGUMENT);
  }
  uint8_t path_hash[NM_ADDRESS_SIZE];
  nm_request_path_hash(path, path_hash);
  nm_handler **slot = handler_slot(local, path_hash);
  if (*slot == NULL && handler_count(local) >= HANDLERS_MAX) {
    return NM_E(LIMIT);
  }
  nm_handler *handler = new_handler(engine, path_hash, allow, list, count);
  if (handler == NULL) {
    return NM_E(MEMORY);
  }
  if (*slot != NULL) {
    handler->next = (*slot)->next;
    free_handler(engine, *slot);
  }
  *slot = handler;
  return NM_OK;
}

int nm_engine_unhandle(nm_engine *engine, const nm_destination_hash *hash,
                       nm_span path) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  uint8_t path_hash[NM_ADDRESS_SIZE];
  nm_request_path_hash(path, path_hash);
  nm_handler **slot = handler_slot(local, path_hash);
  nm_handler *gone = *slot;
  if (gone == NULL) {
    return NM_E(MISSING);
  }
  *slot = gone->next;
  free_handler(engine, gone);
  return NM_OK;
}

const nm_handler *nm_local_handler(const nm_local *local,
                                   const uint8_t path_hash[NM_ADDRESS_SIZE]) {
  const nm_handler *handler = local->handlers;
  while (handler != NULL &&
         memcmp(handler->path_hash, path_hash, NM_ADDRESS_SIZE) != 0) {
    handler = handler->next;
  }
  return handler;
}

bool nm_handler_allows(const nm_handler *handler,
                       const nm_identity_hash *identity) {
  if (handler->allow != NM_ALLOW_LIST) {
    return handler->allow == NM_ALLOW_ALL;
  }
  for (size_t i = 0; identity != NULL && i < handler->list_count; i++) {
    if (memcmp(handler->list[i].b, identity->b, NM_ADDRESS_SIZE) == 0) {
      return true;
    }
  }
  return false;
}

/* ---- announce subscriptions ---- */

int nm_engine_subscribe(nm_engine *engine, const nm_span *name,
                        bool path_responses) {
  int count = 0;
  nm_subscription **at = &engine->locals.subscriptions;
  for (; *at != NULL; at = &(*at)->next) {
    count++;
  }
  if (count >= SUBSCRIPTIONS_MAX) {
    return NM_E(LIMIT);
  }
  nm_subscription *subscription =
      nm_alloc_zero(engine->mem, 1, sizeof(*subscription));
  if (subscription == NULL) {
    return NM_E(MEMORY);
  }
  subscription->id = engine->locals.next_subscription++;
  subscription->all = name == NULL;
  subscription->path_responses = path_responses;
  if (name != NULL) {
    nm_name_hash(subscription->name_hash, *name);
  }
  *at = subscription;
  return subscription->id;
}

int nm_engine_unsubscribe(nm_engine *engine, int id) {
  nm_subscription **at = &engine->locals.subscriptions;
  while (*at != NULL && (*at)->id != id) {
    at = &(*at)->next;
  }
  nm_subscription *gone = *at;
  if (gone == NULL) {
    return NM_E(MISSING);
  }
  *at = gone->next;
  nm_release(engine->mem, gone);
  return NM_OK;
}

static void tell_one(nm_engine *engine, const nm_subscription *subscription,
                     const nm_event *model, const nm_announce *announce) {
  nm_event event = *model;
  event.token = (nm_token_id)subscription->id;
  event.public_key = nm_block_copy(engine->mem, announce->public_key);
  event.has_app_data = announce->has_app_data;
  if (announce->has_app_data) {
    event.data = nm_block_copy(engine->mem, announce->app_data);
  }
  if (event.public_key == NULL ||
      (announce->has_app_data && event.data == NULL)) {
    nm_event_dispose(&event);
    engine->events.lossy_dropped++;
    return;
  }
  nm_engine_emit_lossy(engine, &event);
}

void nm_locals_tell_announce(nm_engine *engine, const nm_announce *announce,
                             const nm_frame *frame, nm_iface_id iface,
                             uint8_t hops, const nm_packet_hash *hash) {
  nm_event event = nm_engine_event_of(engine, NM_EVENT_ANNOUNCE);
  memcpy(event.destination.b, announce->packet.destination.ptr,
         NM_ADDRESS_SIZE);
  nm_announce_identity_hash(announce, &event.identity);
  event.packet_hash = *hash;
  event.iface = iface;
  event.hops = hops;
  event.rssi_dbm = frame->rssi_dbm;
  event.snr_cdb = frame->snr_cdb;
  event.quality_pct = frame->quality_pct;
  event.wire_time_us = (int64_t)announce->emitted * 1000000;
  event.path_response = announce->packet.context == NM_CONTEXT_PATH_RESPONSE;
  event.has_ratchet_id = announce->ratchet.len == NM_KEY_SIZE;
  if (event.has_ratchet_id) {
    nm_ratchet_id(event.ratchet_id, announce->ratchet.ptr);
  }
  for (const nm_subscription *s = engine->locals.subscriptions; s != NULL;
       s = s->next) {
    bool matches = s->all || nm_announce_matches(announce, s->name_hash);
    if (matches && (!event.path_response || s->path_responses)) {
      tell_one(engine, s, &event, announce);
    }
  }
}
