/* The tables of links and their reading.
 */
#include "stack/link_state.h"
#include "wire/decisions.h"

#include <string.h>

/* Closed links that are kept for questions beside the live ones. */
#define CLOSED_MAX 1024

static nm_link *of_ref(nm_table_link *entry) {
  return (nm_link *)(void *)entry;
}

static nm_link *of_id(nm_table_link *entry) {
  return entry == NULL
             ? NULL
             : (nm_link *)(void *)((char *)entry - offsetof(nm_link, by_id));
}

void nm_link_wipe(nm_link *link) {
  if (link->sign != NULL) {
    nm_ed25519_sign_key_wipe(link->sign);
    nm_release(link->engine->mem, link->sign);
    link->sign = NULL;
  }
  nm_wipe(link->sign_seed, sizeof(link->sign_seed));
  nm_token_key_wipe(&link->key);
  nm_wipe(link->peer_ed25519, sizeof(link->peer_ed25519));
  link->has_key = false;
  nm_block_drop(link->identity);
  link->identity = NULL;
}

static void free_opening(const nm_mem *mem, nm_link_opening *opening) {
  nm_wipe(opening, sizeof(*opening));
  nm_release(mem, opening);
}

/* An initiator asked for its event, which takes no credit. */
void nm_link_release_opening(nm_engine *engine, nm_link *link) {
  if (link->opening == NULL) {
    return;
  }
  if (!link->initiator) {
    nm_eventq_return_credit(&engine->events);
  }
  free_opening(engine->mem, link->opening);
  link->opening = NULL;
}

void nm_link_free(nm_engine *engine, nm_link *link) {
  nm_timer_disarm(&engine->timers, &link->timer);
  nm_engine_unreserve_timers(engine, 1);
  if (link->state != NM_LINK_CLOSED) { /* else it is, and `closed` is there */
    nm_link_wipe(link);
  }
  nm_link_release_opening(engine, link);
  if (link->learned != NULL) {
    nm_release(engine->mem, link->learned->kept_ends);
    nm_release(engine->mem, link->learned);
  }
  nm_shelf_drop(link->shelf);
  nm_release(engine->mem, link->channel);
  nm_wipe(link, sizeof(*link));
  nm_release(engine->mem, link);
}

static void dispose_by_ref(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_link_free(engine, of_ref(entry));
}

static bool is_closed(void *user, nm_table_link *entry) {
  (void)user;
  const nm_link *link = of_ref(entry);
  return link->state == NM_LINK_CLOSED && !link->closed.queued;
}

static void not_owned(void *user, nm_table_link *entry) {
  (void)user;
  (void)entry;
}

int nm_links_init(nm_engine *engine) {
  const nm_table_config by_ref = {
      .capacity = (size_t)engine->limits.links + CLOSED_MAX,
      .key_size = sizeof(nm_link_ref),
      .key_offset = offsetof(nm_link, ref) - offsetof(nm_link, by_ref),
      .may_evict = is_closed,
      .dispose = dispose_by_ref,
  };
  const nm_table_config by_id = {
      .capacity = engine->limits.links,
      .key_size = sizeof(nm_link_id),
      .key_offset = offsetof(nm_link, id) - offsetof(nm_link, by_id),
      .may_evict = nm_table_keep,
      .dispose = not_owned,
  };
  engine->links.next_ref = 1;
  int status = nm_engine_table(engine, &engine->links.by_ref, &by_ref);
  if (status == NM_OK) {
    status = nm_engine_table(engine, &engine->links.by_id, &by_id);
  }
  return status;
}

void nm_links_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->links.by_ref);
  nm_table_dispose(&engine->links.by_id);
  nm_table_dispose(&engine->links.tokens);
}

nm_link *nm_link_find(const nm_engine *engine, nm_link_ref ref) {
  return of_ref(nm_table_find(&engine->links.by_ref, &ref));
}

nm_link *nm_link_find_id(const nm_engine *engine, const uint8_t *id) {
  return of_id(nm_table_find(&engine->links.by_id, id));
}

nm_link *nm_link_following(const nm_engine *engine, const nm_link *link) {
  return of_ref(nm_table_next(&engine->links.by_ref,
                              link == NULL ? NULL : &link->by_ref));
}

nm_link *nm_link_active(nm_engine *engine, nm_link_ref ref) {
  nm_link *link = nm_link_find(engine, ref);
  return link != NULL &&
                 (link->state == NM_LINK_ACTIVE || link->state == NM_LINK_STALE)
             ? link
             : NULL;
}

nm_event nm_link_event(const nm_link *link, nm_event_kind kind) {
  nm_event event = nm_engine_event_of(link->engine, kind);
  event.link = link->ref;
  event.link_id = link->id;
  event.destination = link->destination;
  event.iface = link->iface;
  event.initiator = link->initiator;
  event.hops = link->hops;
  event.state = link->state;
  event.rtt_us = link->rtt_us;
  if (link->identified) {
    event.identity = link->remote_identity;
  }
  return event;
}

size_t nm_link_mdu_of(const nm_link *link) {
  return nm_link_mdu(link->mtu);
}

/* The event of its activation, when it is read. */
static void take_active(nm_event_entry *entry, nm_event *event) {
  nm_link_opening *opening = (nm_link_opening *)(void *)entry;
  const nm_link *link = opening->link;
  *event = nm_link_event(link, NM_EVENT_LINK_ACTIVE);
  event->at = opening->active_at;
  event->state = NM_LINK_ACTIVE;
  event->rtt_us = opening->active_rtt_us;
  event->total_bytes = link->mtu;
  free_opening(link->engine->mem, opening);
}

void nm_link_tell_active(nm_engine *engine, nm_link *link) {
  nm_link_opening *opening = link->opening;
  link->opening = NULL;
  nm_wipe(opening->x25519_private, sizeof(opening->x25519_private));
  opening->active.take = take_active;
  opening->active_at = engine->now;
  opening->active_rtt_us = link->rtt_us;
  nm_engine_emit_entry(engine, &opening->active, NM_EVENT_LINK_ACTIVE,
                       link->iface, &link->destination);
}

/* The event of the end, when it is read. */
static void take_closed(nm_event_entry *entry, nm_event *event) {
  const nm_link *link =
      (const nm_link *)(const void *)((char *)entry -
                                      offsetof(nm_link, closed));
  *event = nm_link_event(link, NM_EVENT_LINK_CLOSED);
  event->at = link->closed_at;
  event->close_reason = (uint8_t)link->reason;
  event->stage = NM_STAGE_LINK;
}

void nm_link_tell_closed(nm_engine *engine, nm_link *link, bool told) {
  link->closed = (nm_event_entry){.take = take_closed};
  link->closed_at = engine->now;
  if (told) {
    nm_engine_emit_entry(engine, &link->closed, NM_EVENT_LINK_CLOSED, 0,
                         &link->destination);
  }
}

bool nm_link_room(nm_engine *engine) {
  const nm_limits *most = &engine->limits;
  size_t open = engine->links.by_id.count + engine->links.unindexed;
  bool room = open < most->links && engine->links.pending < most->pending_links;
  engine->stats.links_refused += !room;
  return room;
}

int nm_link_learns(nm_engine *engine, nm_link *link) {
  if (link->learned == NULL) {
    link->learned = nm_alloc_zero(engine->mem, 1, sizeof(*link->learned));
  }
  return link->learned == NULL ? NM_E(MEMORY) : NM_OK;
}

const nm_ed25519_sign_key *nm_link_sign_key(nm_engine *engine, nm_link *link) {
  if (link->sign != NULL) {
    return link->sign;
  }
  nm_ed25519_sign_key *made = nm_alloc_zero(engine->mem, 1, sizeof(*made));
  if (made != NULL &&
      nm_ed25519_sign_key_init(made, link->sign_seed) != NM_OK) {
    nm_release(engine->mem, made);
    return NULL;
  }
  link->sign = made;
  return made;
}

nm_link *nm_link_new(nm_engine *engine, bool initiator,
                     void (*watch)(void *user, nm_timer *timer)) {
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  nm_link *link = nm_alloc_zero(engine->mem, 1, sizeof(*link));
  nm_link_opening *opening = nm_alloc_zero(engine->mem, 1, sizeof(*opening));
  if (link != NULL && opening != NULL) {
    opening->link = link;
    link->opening = opening;
    link->initiator = initiator;
    link->ref = engine->links.next_ref;
    link->engine = engine;
    link->mtu = NM_MTU;
    link->mode = NM_MODE_AES256_CBC;
    link->keepalive_us = nm_us(nm_keepalive_interval(0));
    link->stale_us = nm_us(nm_stale_time(0));
    link->rssi_dbm = NM_SIGNAL_NONE;
    link->snr_cdb = NM_SIGNAL_NONE;
    link->quality_pct = NM_SIGNAL_NONE;
    link->timer.fire = watch;
    if (nm_table_insert(&engine->links.by_ref, &link->by_ref) == NM_OK) {
      engine->links.next_ref++;
      engine->links.unindexed++;
      engine->links.pending++;
      return link;
    }
  }
  nm_release(engine->mem, opening);
  nm_release(engine->mem, link);
  nm_engine_unreserve_timers(engine, 1);
  return NULL;
}

void nm_link_leave(nm_engine *engine, nm_link *link) {
  if (link->indexed) {
    nm_table_remove(&engine->links.by_id, &link->by_id);
    link->indexed = false;
  } else {
    engine->links.unindexed--;
  }
  if (link->state == NM_LINK_ACTIVE || link->state == NM_LINK_STALE) {
    engine->links.active--;
  } else {
    engine->links.pending--;
  }
}

void nm_link_scrap(nm_engine *engine, nm_link *link) {
  nm_link_leave(engine, link);
  nm_table_remove(&engine->links.by_ref, &link->by_ref);
  nm_link_free(engine, link);
}

int nm_link_index(nm_engine *engine, nm_link *link, const nm_link_id *id) {
  if (nm_link_find_id(engine, id->b) != NULL) {
    return NM_E(DUPLICATE_KEY);
  }
  link->id = *id;
  int status = nm_table_insert(&engine->links.by_id, &link->by_id);
  if (status == NM_OK) {
    link->indexed = true;
    engine->links.unindexed--;
  }
  return status;
}

/* ---- link.h ---- */

static void fill_times(const nm_link *link, nm_link_info *info) {
  info->rtt_us = link->rtt_us;
  info->keepalive_us = link->keepalive_us;
  info->stale_us = link->stale_us;
  info->requested_at = link->requested_at;
  info->activated_at = link->activated_at;
  info->last_inbound = link->last_inbound;
  info->last_outbound = link->last_outbound;
  info->last_data = link->last_data;
  info->last_keepalive = link->last_keepalive;
  info->last_proof = link->last_proof;
}

int nm_engine_link_info(const nm_engine *engine, nm_link_ref ref,
                        nm_link_info *info) {
  memset(info, 0, sizeof(*info));
  const nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  info->ref = link->ref;
  info->id = link->id;
  info->destination = link->destination;
  info->state = link->state;
  info->reason = link->reason;
  info->initiator = link->initiator;
  info->identified = link->identified;
  info->remote_identity = link->remote_identity;
  info->iface = link->iface;
  info->mtu = link->mtu;
  info->mdu = (uint32_t)nm_link_mdu_of(link);
  info->mode = link->mode;
  info->hops = link->hops;
  fill_times(link, info);
  info->holds_ephemeral = link->opening != NULL && link->opening->has_ephemeral;
  info->holds_session_key = link->has_key;
  info->requests_pending = link->requests_out_count;
  info->transfers_in = link->transfers_in_count;
  info->transfers_out = link->transfers_out_count;
  info->channel_open = link->channel != NULL && link->state != NM_LINK_CLOSED;
  info->signal_tracked = link->signal_tracked;
  info->rssi_dbm = link->rssi_dbm;
  info->snr_cdb = link->snr_cdb;
  info->quality_pct = link->quality_pct;
  return NM_OK;
}

nm_link_ref nm_engine_link_by_id(const nm_engine *engine,
                                 const nm_link_id *id) {
  const nm_link *link = nm_link_find_id(engine, id->b);
  return link == NULL ? 0 : link->ref;
}

nm_link_ref nm_engine_link_next(const nm_engine *engine, nm_link_ref ref) {
  const nm_link *link = ref == 0 ? NULL : nm_link_find(engine, ref);
  if (ref != 0 && link == NULL) {
    return 0;
  }
  link = nm_link_following(engine, link);
  return link == NULL ? 0 : link->ref;
}
