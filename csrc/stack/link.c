/* Life of a link: its tables, its watch, its end (RNS 2, 1.8, 1.9, 1.13).
 */
#include "stack/link_state.h"
#include "wire/decisions.h"

#include <string.h>

#define SECOND_US 1000000ull
#define STALE_GRACE_US (5 * SECOND_US)
/* How long a closed link can still be asked about. */
#define CLOSED_LIFE_US (60 * SECOND_US)

/* ---- the watch ---- */

static void set_times(nm_link *link) {
  if (!link->tuned) {
    double rtt = nm_seconds(link->rtt_us);
    link->keepalive_us = nm_us(nm_keepalive_interval(rtt));
    link->stale_us = nm_us(nm_stale_time(rtt));
  }
}

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static uint64_t last_in(const nm_link *link) {
  return later(later(link->last_inbound, link->last_proof), link->activated_at);
}

static void send_keepalive(nm_engine *engine, nm_link *link) {
  uint8_t byte = nm_link_keepalive(true);
  link->last_keepalive = engine->now.mono_us;
  (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_KEEPALIVE,
                     nm_span_of(&byte, 1), NULL);
}

/* Sends what is due on an active link and says when to look again. */
static uint64_t watch_active(nm_engine *engine, nm_link *link) {
  uint64_t now = engine->now.mono_us;
  uint64_t in = last_in(link);
  uint64_t quiet_since = in < link->last_outbound ? in : link->last_outbound;
  uint64_t due = later(quiet_since, link->last_keepalive) + link->keepalive_us;
  uint64_t stale_at = in + link->stale_us;
  /* One that is due within a moment goes along when the link turns stale: its
   * answer is what may save it. */
  bool last_chance = now >= stale_at && now + link->keepalive_us / 2 >= due;
  if (link->initiator && (now >= due || last_chance)) {
    send_keepalive(engine, link);
    due = now + link->keepalive_us;
  }
  if (now >= stale_at) {
    link->state = NM_LINK_STALE;
    return now + STALE_GRACE_US;
  }
  return link->initiator && due < stale_at ? due : stale_at;
}

void nm_link_watch_fired(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_link *link = (nm_link *)(void *)((char *)timer - offsetof(nm_link, timer));
  switch (link->state) {
  case NM_LINK_PENDING:
  case NM_LINK_HANDSHAKE:
    nm_link_end(engine, link, NM_CLOSE_TIMEOUT, false);
    break;
  case NM_LINK_ACTIVE: {
    uint64_t next = watch_active(engine, link);
    nm_engine_arm(engine, timer, next - engine->now.mono_us);
    break;
  }
  case NM_LINK_STALE:
    nm_link_end(engine, link, NM_CLOSE_TIMEOUT, true);
    break;
  default: /* closed, and forgotten now unless its end was not read yet */
    if (link->closed.queued) {
      nm_engine_arm(engine, timer, CLOSED_LIFE_US);
      break;
    }
    nm_table_remove(&engine->links.by_ref, &link->by_ref);
    nm_link_free(engine, link);
    break;
  }
}

void nm_link_watch(nm_engine *engine, nm_link *link) {
  if (link->state == NM_LINK_ACTIVE) {
    nm_engine_arm(engine, &link->timer, 0);
  }
}

static void revive(nm_engine *engine, nm_link *link) {
  if (link->state == NM_LINK_STALE) {
    link->state = NM_LINK_ACTIVE;
    nm_link_watch(engine, link);
  }
}

void nm_link_heard(nm_engine *engine, nm_link *link) {
  link->last_inbound = engine->now.mono_us;
  revive(engine, link);
}

void nm_links_proven(nm_engine *engine, nm_link_ref ref) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->state == NM_LINK_CLOSED) {
    return;
  }
  link->last_proof = engine->now.mono_us;
  revive(engine, link);
}

void nm_link_measured(nm_engine *engine, nm_link *link, uint64_t rtt_us) {
  link->rtt_us = rtt_us == 0 ? 1 : rtt_us;
  set_times(link);
  nm_link_watch(engine, link);
}

/* The initiator counts by the RTT that it measured and told. When this side
 * measured a longer one, its own interval says nothing of when the initiator
 * loses patience (RNS 2, 1.9). A tuned initiator is known by its keepalives. */
bool nm_link_owes_keepalive(const nm_engine *engine, const nm_link *link) {
  uint64_t patience = link->keepalive_us;
  if (link->told_rtt_us != 0) {
    uint64_t told = nm_us(nm_keepalive_interval(nm_seconds(link->told_rtt_us)));
    patience = told < patience ? told : patience;
  }
  if (link->last_keepalive != 0) {
    uint64_t pace = (engine->now.mono_us - link->last_keepalive) * 3 / 4;
    patience = pace < patience ? pace : patience;
  }
  return engine->now.mono_us >= link->last_outbound + patience;
}

static void channel_fired(void *user, nm_timer *timer);

void nm_link_activate(nm_engine *engine, nm_link *link, uint64_t rtt_us) {
  uint64_t now = engine->now.mono_us;
  link->state = NM_LINK_ACTIVE;
  engine->links.pending--;
  engine->links.active++;
  link->rtt_us = rtt_us == 0 ? 1 : rtt_us;
  link->activated_at = now;
  link->last_inbound = now;
  link->last_outbound = now;
  set_times(link);
  nm_engine_arm(engine, &link->timer, link->keepalive_us);
  if (link->opens_channel) {
    /* Without memory it stays closed: the owner may open it later. */
    (void)nm_link_channel_open(engine, link, true, channel_fired);
  }
  nm_link_tell_active(engine, link);
}

/* ---- the end ---- */

/* A request that found no answer says something about the path: another way
 * takes over, or it is marked, not dropped, so that a worse one may replace it
 * (RNS 1, 8.13). What has changed since the request is not to blame. */
static void doubt_path(nm_engine *engine, const nm_link *link) {
  if (!link->initiator || link->activated_at != 0 ||
      link->reason != NM_CLOSE_TIMEOUT || engine->closing) {
    return;
  }
  nm_destination_hash destination = link->destination;
  nm_path *path = nm_path_find(engine, &destination);
  if (path != NULL && path->taken_us <= link->requested_at) {
    (void)nm_path_failed(engine, path);
  }
  if (!nm_asks_recent(engine, &destination)) {
    (void)nm_engine_request_path(engine, &destination, 0, NULL, 0, NULL,
                                 engine->now);
  }
}

void nm_link_end(nm_engine *engine, nm_link *link, nm_close_reason reason,
                 bool tell_peer) {
  if (link->state == NM_LINK_CLOSED) {
    return;
  }
  if (tell_peer && link->has_key) {
    (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_LINKCLOSE,
                       nm_span_of(link->id.b, NM_ADDRESS_SIZE), NULL);
  }
  nm_link_leave(engine, link);
  link->state = NM_LINK_CLOSED;
  link->reason = reason;
  nm_transfers_in_close(engine, link);
  nm_transfers_out_close(engine, link);
  nm_requests_close(engine, link);
  nm_link_channel_close(engine, link);
  nm_link_tokens_close(engine, link);
  nm_receipts_link_closed(engine, link->ref);
  nm_link_wipe(link);
  nm_link_release_opening(engine, link);
  /* A responder's link that never came up was never told of. */
  nm_link_tell_closed(engine, link, link->initiator || link->activated_at != 0);
  nm_engine_arm(engine, &link->timer, CLOSED_LIFE_US);
  doubt_path(engine, link);
}

static void channel_fired(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  struct nm_link_channel *channel;
  nm_link *link = nm_link_of_channel_timer(timer, &channel);
  if (nm_link_channel_tick(engine, channel) != NM_OK) {
    nm_link_end(engine, link, NM_CLOSE_CHANNEL, true);
  }
}

int nm_engine_channel_open(nm_engine *engine, nm_link_ref ref, bool all_types,
                           nm_now now) {
  engine->now = now;
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  if (nm_link_active(engine, ref) == NULL) {
    return NM_E(STATE);
  }
  return nm_link_channel_open(engine, link, all_types, channel_fired);
}

static void end_where(nm_engine *engine, nm_close_reason reason, bool tell_peer,
                      bool (*which)(const nm_link *link, const void *what),
                      const void *what) {
  nm_link *link = nm_link_following(engine, NULL);
  while (link != NULL) {
    nm_link *next = nm_link_following(engine, link);
    if (link->state != NM_LINK_CLOSED && which(link, what)) {
      nm_link_end(engine, link, reason, tell_peer);
    }
    link = next;
  }
}

static bool any(const nm_link *link, const void *what) {
  (void)link;
  (void)what;
  return true;
}

static bool on_iface(const nm_link *link, const void *what) {
  return link->iface == *(const nm_iface_id *)what;
}

static bool of_local(const nm_link *link, const void *what) {
  return !link->initiator &&
         memcmp(link->destination.b, what, NM_ADDRESS_SIZE) == 0;
}

void nm_links_shutdown(nm_engine *engine) {
  end_where(engine, NM_CLOSE_SHUTDOWN, true, any, NULL);
}

void nm_links_abandon(nm_engine *engine) {
  end_where(engine, NM_CLOSE_SHUTDOWN, false, any, NULL);
  nm_requests_dispose(engine);
}

void nm_links_iface_down(nm_engine *engine, nm_iface_id iface) {
  end_where(engine, NM_CLOSE_IFACE_GONE, false, on_iface, &iface);
}

void nm_links_local_gone(nm_engine *engine, const nm_destination_hash *hash) {
  end_where(engine, NM_CLOSE_DESTINATION, true, of_local, hash->b);
}

/* ---- link.h ---- */

int nm_engine_link_close(nm_engine *engine, nm_link_ref ref, nm_now now) {
  engine->now = now;
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  nm_link_end(engine, link,
              link->initiator ? NM_CLOSE_INITIATOR : NM_CLOSE_DESTINATION,
              true);
  return NM_OK;
}

int nm_engine_link_tune(nm_engine *engine, nm_link_ref ref, uint64_t rtt_us,
                        uint64_t keepalive_us, uint64_t stale_us, nm_now now) {
  engine->now = now;
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->state == NM_LINK_CLOSED) {
    return NM_E(MISSING);
  }
  if (rtt_us != 0) {
    link->rtt_us = rtt_us;
    set_times(link);
  }
  if (keepalive_us != 0) {
    link->keepalive_us = keepalive_us;
    link->tuned = true;
  }
  if (stale_us != 0) {
    link->stale_us = stale_us;
    link->tuned = true;
  }
  nm_link_watch(engine, link);
  return NM_OK;
}

int nm_engine_link_policy(nm_engine *engine, nm_link_ref ref,
                          nm_accept resources, bool hold, size_t resource_max) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->state == NM_LINK_CLOSED) {
    return NM_E(MISSING);
  }
  link->resources = resources;
  link->hold_resources = hold;
  link->resource_max =
      resource_max == 0 ? engine->limits.resource_in_max : resource_max;
  return NM_OK;
}

int nm_engine_link_shelve(nm_engine *engine, nm_link_ref ref, nm_shelf *shelf,
                          bool once, uint64_t size_max) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  nm_shelf *old = link->shelf;
  link->shelf = shelf == NULL ? NULL : nm_shelf_hold(shelf);
  link->shelf_once = once;
  /* An earlier word about the next resource no longer counts. */
  for (nm_transfer_in *t = link->transfers_in; t != NULL; t = t->next) {
    nm_shelf_drop(t->once_from);
    t->once_from = NULL;
  }
  link->shelf_max = size_max == 0 ? UINT64_MAX : size_max;
  nm_shelf_drop(old);
  return NM_OK;
}

int nm_engine_link_set_prove(nm_engine *engine, nm_link_ref ref, nm_prove prove,
                             bool hold) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->state == NM_LINK_CLOSED) {
    return NM_E(MISSING);
  }
  if (!link->initiator) {
    return NM_E(STATE);
  }
  link->prove = prove;
  link->hold_packets = hold;
  return NM_OK;
}

int nm_engine_shelve(nm_engine *engine, const nm_destination_hash *hash,
                     nm_shelf *shelf, uint64_t size_max) {
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  nm_shelf *old = local->shelf;
  local->shelf = shelf == NULL ? NULL : nm_shelf_hold(shelf);
  local->shelf_max = size_max == 0 ? UINT64_MAX : size_max;
  nm_shelf_drop(old);
  return NM_OK;
}

int nm_engine_link_pause(nm_engine *engine, nm_link_ref ref, bool packets,
                         bool resources) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->state == NM_LINK_CLOSED) {
    return NM_E(MISSING);
  }
  link->packets_paused = packets;
  link->resources_paused = resources;
  return NM_OK;
}

int nm_engine_link_track_signal(nm_engine *engine, nm_link_ref ref, bool on) {
  nm_link *link = nm_link_find(engine, ref);
  if (link == NULL) {
    return NM_E(MISSING);
  }
  link->signal_tracked = on;
  return NM_OK;
}

/* ---- operations ---- */

void nm_links_op_cancel(nm_engine *engine, nm_op *op) {
  if (op->kind == NM_OP_REQUEST) {
    nm_request_op_cancel(engine, op);
  } else if (op->kind == NM_OP_CHANNEL) {
    nm_channel_op_cancel(engine, op);
  } else if (op->kind == NM_OP_STREAM) {
    nm_stream_op_cancel(engine, op);
  } else if (op->kind == NM_OP_RESOURCE_OUT) {
    nm_transfer_out_op_cancel(engine, op);
  } else {
    nm_transfer_in_op_cancel(engine, op);
  }
}
