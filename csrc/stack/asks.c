/* Path requests of our own (RNS 1, 8.9.3) and those who wait for an answer.
 */
#include "stack/internal.h"
#include "stack/snapshot.h"
#include "wire/control.h"

#include <string.h>

#define SECOND_US 1000000ull
/* The first repetition; later ones wait until a relay's table of requests in
 * flight has surely forgotten the last (RNS 1, 8.9.4: 45 to 50 s). */
#define FIRST_REPEAT_US (20 * SECOND_US)
#define LATER_REPEAT_US (50 * SECOND_US)
/* How long a request without waiters is remembered. */
#define ASK_LIFE_US (45 * SECOND_US)
#define ASKS_MAX 4096

static void dispose_ask(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_path_ask *ask = (nm_path_ask *)(void *)entry;
  nm_timer_disarm(&engine->timers, &ask->timer);
  nm_engine_unreserve_timers(engine, 1);
  while (ask->waits != NULL) {
    nm_path_wait *wait = ask->waits;
    ask->waits = wait->next;
    nm_timer_disarm(&engine->timers, &wait->timer);
    nm_engine_unreserve_timers(engine, 1);
    nm_release(engine->mem, wait);
  }
  nm_release(engine->mem, ask);
}

static bool nobody_waits(void *user, nm_table_link *entry) {
  (void)user;
  return ((const nm_path_ask *)(const void *)entry)->waits == NULL;
}

int nm_asks_init(nm_engine *engine) {
  const nm_table_config asks = {
      .capacity = ASKS_MAX,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_path_ask, hash),
      .may_evict = nobody_waits,
      .dispose = dispose_ask,
  };
  const nm_table_config tags = {
      .capacity = engine->limits.path_tags,
      .key_size = NM_ADDRESS_SIZE + NM_TAG_SIZE,
      .key_offset = sizeof(nm_table_link),
      .dispose = nm_engine_release_entry,
  };
  int status = nm_engine_table(engine, &engine->routes.asks, &asks);
  return status == NM_OK ? nm_engine_table(engine, &engine->routes.tags, &tags)
                         : status;
}

void nm_asks_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->routes.asks);
  nm_table_dispose(&engine->routes.tags);
}

static nm_path_ask *find_ask(const nm_engine *engine,
                             const nm_destination_hash *hash) {
  return (nm_path_ask *)(void *)nm_table_find(&engine->routes.asks, hash);
}

bool nm_asks_recent(const nm_engine *engine, const nm_destination_hash *hash) {
  const nm_path_ask *ask = find_ask(engine, hash);
  return ask != NULL && engine->now.mono_us < ask->last_us + FIRST_REPEAT_US;
}

bool nm_asks_waited_for(const nm_engine *engine,
                        const nm_destination_hash *hash) {
  return find_ask(engine, hash) != NULL;
}

/* ---- the packet ---- */

nm_block *nm_asks_packet(nm_engine *engine, const nm_destination_hash *hash,
                         nm_span tag) {
  nm_path_request request = {
      .destination = nm_span_of(hash->b, NM_ADDRESS_SIZE),
      .tag = tag,
  };
  if (engine->transport) {
    request.transport_id =
        nm_span_of(nm_engine_identity(engine)->hash.b, NM_ADDRESS_SIZE);
  }
  uint8_t payload[2 * NM_ADDRESS_SIZE + NM_TAG_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  if (nm_path_request_write(&w, &request, NULL) != NM_OK) {
    return NULL;
  }
  nm_packet packet = nm_path_request_packet(nm_writer_done(&w));
  return nm_engine_pack(engine, &packet, NM_PACKET_ORIGINATE, NM_MTU);
}

nm_block *nm_asks_fresh_packet(nm_engine *engine,
                               const nm_destination_hash *hash) {
  uint8_t tag[NM_TAG_SIZE];
  return nm_engine_random(engine, tag, sizeof(tag)) == NM_OK
             ? nm_asks_packet(engine, hash, nm_span_of(tag, sizeof(tag)))
             : NULL;
}

static int add_ask(nm_engine *engine, const nm_destination_hash *hash,
                   nm_path_ask **out);

static int transmit(nm_engine *engine, const nm_destination_hash *hash,
                    nm_iface_id only, const uint8_t *tag) {
  nm_iface *iface = only == 0 ? NULL : nm_iface_find(engine, only);
  if (only != 0 && iface == NULL) {
    return NM_E(MISSING);
  }
  nm_block *raw =
      tag == NULL ? nm_asks_fresh_packet(engine, hash)
                  : nm_asks_packet(engine, hash, nm_span_of(tag, NM_TAG_SIZE));
  if (raw == NULL) {
    return NM_E(MEMORY);
  }
  if (iface != NULL) {
    return nm_iface_send(engine, iface, raw, 0);
  }
  return nm_iface_broadcast(engine, raw, NULL, 0) > 0 ? NM_OK : NM_E(STATE);
}

void nm_asks_again(nm_engine *engine, const nm_destination_hash *hash,
                   nm_iface_id spare) {
  nm_path_ask *ask = find_ask(engine, hash);
  if (ask == NULL && add_ask(engine, hash, &ask) != NM_OK) {
    return;
  }
  nm_block *raw = nm_asks_fresh_packet(engine, hash);
  if (raw == NULL) {
    return;
  }
  ask->tries++;
  ask->last_us = engine->now.mono_us;
  if (!nm_timer_armed(&ask->timer)) {
    nm_engine_arm(engine, &ask->timer, ASK_LIFE_US);
  }
  nm_iface *out = NULL;
  while ((out = nm_iface_after(engine, out)) != NULL) {
    if (out->id != spare && nm_iface_can_send(out)) {
      (void)nm_iface_send(engine, out, nm_block_hold(raw), 0);
    }
  }
  nm_block_drop(raw);
}

/* ---- waiting ---- */

static void end_wait(nm_engine *engine, nm_path_wait *wait, int status,
                     nm_stage stage) {
  nm_path_wait **at = &wait->ask->waits;
  while (*at != wait) {
    at = &(*at)->next;
  }
  *at = wait->next;
  nm_timer_disarm(&engine->timers, &wait->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_event event = nm_engine_event_of(engine, NM_EVENT_PATH_RESULT);
  const nm_path *path = nm_path_find(engine, &wait->ask->hash);
  event.destination = wait->ask->hash;
  event.hops = path == NULL ? NM_HOPS_UNKNOWN : path->hops;
  event.iface = path == NULL ? 0 : path->iface;
  event.status = status;
  event.stage = (uint8_t)stage;
  nm_op *op = nm_op_find(&engine->ops, wait->op);
  nm_release(engine->mem, wait);
  nm_engine_end(engine, op, &event);
}

static void wait_over(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_path_wait *wait =
      (nm_path_wait *)(void *)((char *)timer - offsetof(nm_path_wait, timer));
  /* A path may have been put in by hand. */
  bool known = nm_path_find(engine, &wait->ask->hash) != NULL;
  end_wait(engine, wait, known ? NM_OK : NM_E(TIMEOUT),
           known ? NM_STAGE_NONE : NM_STAGE_PATH);
}

static void repeat(void *user, nm_timer *timer) {
  (void)user;
  nm_path_ask *ask =
      (nm_path_ask *)(void *)((char *)timer - offsetof(nm_path_ask, timer));
  nm_engine *engine = ask->engine;
  if (ask->waits == NULL) {
    nm_table_remove(&engine->routes.asks, &ask->link);
    dispose_ask(engine, &ask->link);
    return;
  }
  ask->tries++;
  ask->last_us = engine->now.mono_us;
  nm_engine_arm(engine, timer, LATER_REPEAT_US);
  ask->unheard = transmit(engine, &ask->hash, 0, NULL) != NM_OK;
}

void nm_asks_answered(nm_engine *engine, const nm_path *path) {
  nm_path_ask *ask = find_ask(engine, &path->hash);
  if (ask == NULL) {
    return;
  }
  nm_known *known = nm_known_find(engine, &path->hash);
  if (known != NULL) {
    nm_known_use(engine, known);
  }
  while (ask->waits != NULL) {
    end_wait(engine, ask->waits, NM_OK, NM_STAGE_NONE);
  }
  nm_table_remove(&engine->routes.asks, &ask->link);
  dispose_ask(engine, &ask->link);
}

/* Who waits for a path may have asked when nothing was online, or the way
 * leads over what has come online just now. */
void nm_asks_iface_online(nm_engine *engine, nm_iface_id iface) {
  nm_table_link *entry = nm_table_next(&engine->routes.asks, NULL);
  while (entry != NULL) {
    nm_path_ask *ask = (nm_path_ask *)(void *)entry;
    if (ask->waits != NULL &&
        transmit(engine, &ask->hash, iface, NULL) == NM_OK) {
      ask->unheard = false;
    }
    entry = nm_table_next(&engine->routes.asks, entry);
  }
}

static int add_ask(nm_engine *engine, const nm_destination_hash *hash,
                   nm_path_ask **out) {
  int status = nm_engine_reserve_timers(engine, 1);
  if (status != NM_OK) {
    return status;
  }
  nm_path_ask *ask = nm_alloc_zero(engine->mem, 1, sizeof(*ask));
  status = NM_E(MEMORY);
  if (ask != NULL) {
    ask->hash = *hash;
    ask->engine = engine;
    ask->timer.fire = repeat;
    status = nm_table_insert(&engine->routes.asks, &ask->link);
    if (status == NM_OK) {
      *out = ask;
      return NM_OK;
    }
    nm_release(engine->mem, ask);
  }
  nm_engine_unreserve_timers(engine, 1);
  return status;
}

static int add_wait(nm_engine *engine, nm_path_ask *ask, uint64_t timeout_us,
                    nm_op_id *id) {
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NM_E(MEMORY);
  }
  nm_path_wait *wait = nm_alloc_zero(engine->mem, 1, sizeof(*wait));
  nm_op *op = wait == NULL ? NULL : nm_op_begin(&engine->ops, NM_OP_PATH, wait);
  if (op == NULL) {
    nm_release(engine->mem, wait);
    nm_engine_unreserve_timers(engine, 1);
    return NM_E(MEMORY);
  }
  wait->op = op->id;
  wait->ask = ask;
  wait->engine = engine;
  wait->timer.fire = wait_over;
  wait->next = ask->waits;
  ask->waits = wait;
  nm_engine_arm(engine, &wait->timer, timeout_us);
  *id = op->id;
  return NM_OK;
}

/* An operation whose answer is known already still ends by an event. */
static int end_at_once(nm_engine *engine, const nm_path *path, nm_op_id *id) {
  nm_op *op = nm_op_begin(&engine->ops, NM_OP_PATH, NULL);
  if (op == NULL) {
    return NM_E(MEMORY);
  }
  *id = op->id;
  nm_event event = nm_engine_event_of(engine, NM_EVENT_PATH_RESULT);
  event.destination = path->hash;
  event.hops = path->hops;
  event.iface = path->iface;
  nm_engine_end(engine, op, &event);
  return NM_OK;
}

int nm_engine_request_path(nm_engine *engine, const nm_destination_hash *hash,
                           nm_iface_id iface, const uint8_t *tag,
                           uint64_t timeout_us, nm_op_id *op, nm_now now) {
  engine->now = now;
  if (engine->closing) {
    return NM_E(STATE);
  }
  const nm_path *path = nm_path_find(engine, hash);
  if (op != NULL && path != NULL) {
    return end_at_once(engine, path, op);
  }
  if (iface != 0 && nm_iface_find(engine, iface) == NULL) {
    return NM_E(MISSING);
  }
  nm_path_ask *ask = find_ask(engine, hash);
  bool fresh = ask == NULL;
  int status = fresh ? add_ask(engine, hash, &ask) : NM_OK;
  if (status == NM_OK && op != NULL) {
    status = add_wait(engine, ask, timeout_us, op);
  }
  if (status != NM_OK) {
    return status;
  }
  if (op != NULL) {
    /* One transmission serves all who wait (A10), unless there was none. */
    if (!fresh && !ask->unheard) {
      return NM_OK;
    }
  }
  /* Recorded before it is sent: the answer may come at once. */
  ask->tries++;
  ask->last_us = now.mono_us;
  nm_engine_arm(engine, &ask->timer,
                op != NULL ? FIRST_REPEAT_US : ASK_LIFE_US);
  status = transmit(engine, hash, iface, tag);
  ask->unheard = status != NM_OK;
  return op != NULL ? NM_OK : status; /* an operation tries again later */
}

void nm_routes_op_cancel(nm_engine *engine, nm_op *op) {
  end_wait(engine, op->owner, NM_E(CANCELLED), NM_STAGE_CANCELLED);
}

bool nm_engine_path_request_next(const nm_engine *engine,
                                 const nm_destination_hash *after,
                                 nm_path_request_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_path_ask *ask = after == NULL ? NULL : find_ask(engine, after);
  if (after != NULL && ask == NULL) {
    return false;
  }
  ask = (const nm_path_ask *)(const void *)nm_table_next(
      &engine->routes.asks, ask == NULL ? NULL : &ask->link);
  if (ask == NULL) {
    return false;
  }
  record->destination = ask->hash;
  record->last_mono_us = ask->last_us;
  record->last_unix_us =
      engine->now.unix_us + (int64_t)(ask->last_us - engine->now.mono_us);
  for (const nm_path_wait *w = ask->waits; w != NULL; w = w->next) {
    record->waiting++;
  }
  return true;
}
