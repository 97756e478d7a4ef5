/* Ingress and egress control: bursts of announces and path requests
 * (RNS 1, 8.15).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"

#include <string.h>

#define SECOND_US 1000000ull
#define EVALUATE_US (5 * SECOND_US)
/* A burst that does not end keeps nothing for ever. */
#define HELD_LIFE_US (1800 * SECOND_US)

static nm_burst_rules rules_of(const nm_engine *engine, const nm_iface *iface,
                               nm_burst_kind kind) {
  const nm_ingress_spec *spec = &iface->spec.ingress;
  bool fresh = engine->now.mono_us < iface->added_us + spec->new_us;
  nm_burst_rules rules = {.hold_us = spec->hold_us};
  if (kind == NM_BURST_ANNOUNCES) {
    rules.threshold = fresh ? spec->announce_rate_new : spec->announce_rate;
  } else {
    rules.threshold = fresh ? spec->request_rate_new : spec->request_rate;
  }
  return rules;
}

static void evaluate(void *user, nm_timer *timer);

static void dispose_held(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_block_drop(((nm_held_announce *)(void *)entry)->raw);
  nm_release(engine->mem, entry);
}

static void dispose_control(nm_engine *engine, nm_iface *iface) {
  nm_control *control = iface->control;
  if (control == NULL) {
    return;
  }
  nm_timer_disarm(&engine->timers, &control->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_table_dispose(&control->held);
  nm_release(engine->mem, control);
  iface->control = NULL;
}

/* NULL: no memory; the interface is then not controlled for now. */
static nm_control *ensure_control(nm_engine *engine, nm_iface *iface) {
  if (iface->control != NULL) {
    return iface->control;
  }
  const nm_table_config config = {
      .capacity = NM_INGRESS_HELD_MAX,
      .key_size = sizeof(nm_destination_hash),
      .key_offset = offsetof(nm_held_announce, hash),
      .may_evict = nm_table_keep,
      .dispose = dispose_held,
  };
  nm_control *control = nm_alloc_zero(engine->mem, 1, sizeof(*control));
  if (control == NULL ||
      nm_engine_table(engine, &control->held, &config) != NM_OK) {
    nm_release(engine->mem, control);
    return NULL;
  }
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    nm_table_dispose(&control->held);
    nm_release(engine->mem, control);
    return NULL;
  }
  control->engine = engine;
  control->iface = iface->id;
  control->timer.fire = evaluate;
  control->dispose = dispose_control;
  iface->control = control;
  return control;
}

/* The periodic evaluation sleeps while there is nothing to end or release, so
 * that an idle engine has no deadline. */
static void wake(nm_engine *engine, const nm_iface *iface) {
  nm_control *control = iface->control;
  uint64_t release_us = iface->spec.ingress.release_us;
  bool busy = control->announce_burst.active || control->request_burst.active ||
              control->held.count > 0;
  if (busy && !nm_timer_armed(&control->timer)) {
    nm_engine_arm(engine, &control->timer,
                  release_us < EVALUATE_US ? release_us : EVALUATE_US);
  }
}

static bool announces_limited(nm_engine *engine, nm_iface *iface) {
  nm_control *control = iface->control;
  if (control == NULL || !iface->spec.ingress_control) {
    return false;
  }
  nm_burst_rules rules = rules_of(engine, iface, NM_BURST_ANNOUNCES);
  bool was = control->announce_burst.active;
  bool limited =
      nm_burst_limits(&control->announce_burst, NM_BURST_ANNOUNCES, &rules,
                      &control->announces_in, engine->now.mono_us);
  if (!was && limited) {
    control->release_us = engine->now.mono_us + iface->spec.ingress.penalty_us;
  }
  wake(engine, iface);
  return limited;
}

static bool requests_limited(nm_engine *engine, nm_iface *iface) {
  nm_control *control = iface->control;
  if (control == NULL || !iface->spec.ingress_control) {
    return false;
  }
  nm_burst_rules rules = rules_of(engine, iface, NM_BURST_PATH_REQUESTS);
  bool limited =
      nm_burst_limits(&control->request_burst, NM_BURST_PATH_REQUESTS, &rules,
                      &control->requests_in, engine->now.mono_us);
  wake(engine, iface);
  return limited;
}

bool nm_control_announce(nm_engine *engine, nm_iface *iface) {
  nm_control *control = ensure_control(engine, iface);
  if (control == NULL) {
    return false;
  }
  nm_arrivals_add(&control->announces_in, engine->now.mono_us);
  return announces_limited(engine, iface);
}

bool nm_control_request(nm_engine *engine, nm_iface *iface) {
  nm_control *control = ensure_control(engine, iface);
  if (control == NULL) {
    return false;
  }
  nm_arrivals_add(&control->requests_in, engine->now.mono_us);
  return requests_limited(engine, iface);
}

void nm_control_announce_out(nm_engine *engine, nm_iface *iface) {
  nm_control *control = ensure_control(engine, iface);
  if (control != NULL) {
    nm_arrivals_add(&control->announces_out, engine->now.mono_us);
  }
}

void nm_control_request_out(nm_engine *engine, nm_iface *iface) {
  nm_control *control = ensure_control(engine, iface);
  if (control != NULL) {
    nm_arrivals_add(&control->requests_out, engine->now.mono_us);
  }
}

bool nm_control_exceeds(nm_engine *engine, nm_iface *iface) {
  return iface->control != NULL && iface->spec.egress_limit > 0 &&
         nm_arrivals_exceed(&iface->control->requests_out, engine->now.mono_us,
                            iface->spec.egress_limit);
}

/* ---- held announces ---- */

bool nm_control_hold(nm_engine *engine, nm_iface *iface,
                     const nm_destination_hash *hash, nm_block *raw,
                     const nm_packet_hash *packet_hash, const nm_frame *frame,
                     nm_control_release *release) {
  nm_control *control = ensure_control(engine, iface);
  if (control == NULL || frame->packet.hops >= NM_HOPS_MAX - 1) {
    return false;
  }
  nm_held_announce *held =
      (nm_held_announce *)(void *)nm_table_find(&control->held, hash);
  if (held == NULL && control->held.count >= iface->spec.ingress.held_max) {
    return false;
  }
  if (held == NULL) {
    held = nm_alloc_zero(engine->mem, 1, sizeof(*held));
    if (held == NULL) {
      return false;
    }
    held->hash = *hash;
    if (nm_table_insert(&control->held, &held->link) != NM_OK) {
      nm_release(engine->mem, held);
      return false;
    }
  }
  nm_block_drop(held->raw);
  held->raw = nm_block_hold(raw);
  held->packet_hash = *packet_hash;
  held->frame = *frame;
  held->since_us = engine->now.mono_us;
  control->release = release;
  wake(engine, iface);
  return true;
}

static nm_held_announce *fewest_hops(const nm_control *control) {
  nm_held_announce *best = NULL;
  nm_table_link *entry = nm_table_next(&control->held, NULL);
  for (; entry != NULL; entry = nm_table_next(&control->held, entry)) {
    nm_held_announce *held = (nm_held_announce *)(void *)entry;
    if (best == NULL || held->frame.packet.hops < best->frame.packet.hops) {
      best = held;
    }
  }
  return best;
}

/* One held announce goes on as if it had come in now. It was verified and
 * counted when it came, so it neither costs a verification nor prolongs the
 * burst. */
static void release_one(nm_engine *engine, nm_iface *iface, nm_control *control,
                        nm_held_announce *held) {
  nm_table_remove(&control->held, &held->link);
  control->release_us = engine->now.mono_us + iface->spec.ingress.release_us;
  control->release(engine, iface, held);
  dispose_held(engine, &held->link);
}

static void expire(nm_engine *engine, nm_iface *iface, nm_control *control) {
  nm_table_link *entry = nm_table_next(&control->held, NULL);
  while (entry != NULL) {
    nm_table_link *next = nm_table_next(&control->held, entry);
    const nm_held_announce *held = (const nm_held_announce *)(void *)entry;
    if (engine->now.mono_us > held->since_us + HELD_LIFE_US) {
      nm_engine_count_drop(engine, iface, NM_DROP_ANNOUNCE_EXPIRED);
      nm_table_remove(&control->held, entry);
      dispose_held(engine, entry);
    }
    entry = next;
  }
}

static void evaluate(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_control *control =
      (nm_control *)(void *)((char *)timer - offsetof(nm_control, timer));
  nm_iface *iface = nm_iface_find(engine, control->iface);
  expire(engine, iface, control);
  (void)requests_limited(engine, iface);
  (void)announces_limited(engine, iface);
  nm_burst_rules rules = rules_of(engine, iface, NM_BURST_ANNOUNCES);
  uint64_t now = engine->now.mono_us;
  if (control->held.count > 0 && now >= control->release_us &&
      nm_arrivals_rate(&control->announces_in, now) < rules.threshold) {
    release_one(engine, iface, control, fewest_hops(control));
  }
  wake(engine, iface);
}

/* ---- records ---- */

static nm_held_announce *find_held(const nm_engine *engine,
                                   const nm_waiting_key *key) {
  const nm_iface *iface = nm_iface_find(engine, key->iface);
  return iface == NULL || iface->control == NULL
             ? NULL
             : (nm_held_announce *)(void *)nm_table_find(&iface->control->held,
                                                         &key->destination);
}

/* The first one of the next interface that holds something. */
static const nm_held_announce *first_after(const nm_engine *engine,
                                           const nm_iface **iface) {
  while ((*iface = nm_iface_after(engine, *iface)) != NULL) {
    const nm_control *control = (*iface)->control;
    if (control != NULL && control->held.count > 0) {
      return (const nm_held_announce *)(const void *)nm_table_next(
          &control->held, NULL);
    }
  }
  return NULL;
}

bool nm_engine_held_next(const nm_engine *engine, const nm_waiting_key *after,
                         nm_waiting_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_iface *iface =
      after == NULL ? NULL : nm_iface_find(engine, after->iface);
  const nm_held_announce *at = after == NULL ? NULL : find_held(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  if (at != NULL) {
    at = (const nm_held_announce *)(const void *)nm_table_next(
        &iface->control->held, &at->link);
  }
  if (at == NULL) {
    at = first_after(engine, &iface);
  }
  if (at == NULL) {
    return false;
  }
  record->iface = iface->id;
  record->destination = at->hash;
  record->hops = at->frame.packet.hops;
  record->since_mono_us = at->since_us;
  record->since_unix_us = nm_unix_of(engine, at->since_us);
  record->packet = nm_block_hold(at->raw);
  return true;
}

int nm_engine_held_drop(nm_engine *engine, const nm_waiting_key *key) {
  nm_held_announce *held = find_held(engine, key);
  if (held == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&nm_iface_find(engine, key->iface)->control->held,
                  &held->link);
  dispose_held(engine, &held->link);
  return NM_OK;
}

int nm_engine_held_release(nm_engine *engine, const nm_waiting_key *key,
                           nm_now now) {
  engine->now = now;
  nm_held_announce *held = find_held(engine, key);
  if (held == NULL) {
    return NM_E(MISSING);
  }
  nm_iface *iface = nm_iface_find(engine, key->iface);
  release_one(engine, iface, iface->control, held);
  return NM_OK;
}

/* A query forgets old arrivals (RNS 1, 8.15); a reader must not. */
static double rate_of(const nm_engine *engine, const nm_arrivals *arrivals) {
  nm_arrivals copy = *arrivals;
  return nm_arrivals_rate(&copy, engine->now.mono_us);
}

static int64_t unix_or_none(const nm_engine *engine, uint64_t mono_us) {
  return mono_us == 0 ? 0 : nm_unix_of(engine, mono_us);
}

bool nm_engine_control_next(const nm_engine *engine, nm_iface_id after,
                            nm_control_record *record) {
  const nm_iface *iface = after == 0 ? NULL : nm_iface_find(engine, after);
  memset(record, 0, sizeof(*record));
  if (after != 0 && iface == NULL) {
    return false;
  }
  do {
    iface = nm_iface_after(engine, iface);
  } while (iface != NULL && iface->control == NULL);
  if (iface == NULL) {
    return false;
  }
  const nm_control *control = iface->control;
  record->iface = iface->id;
  record->announces_in_rate = rate_of(engine, &control->announces_in);
  record->announces_out_rate = rate_of(engine, &control->announces_out);
  record->requests_in_rate = rate_of(engine, &control->requests_in);
  record->requests_out_rate = rate_of(engine, &control->requests_out);
  record->announce_burst = control->announce_burst.active;
  record->announce_burst_mono_us = control->announce_burst.since_us;
  record->announce_burst_unix_us =
      unix_or_none(engine, control->announce_burst.since_us);
  record->request_burst = control->request_burst.active;
  record->request_burst_mono_us = control->request_burst.since_us;
  record->request_burst_unix_us =
      unix_or_none(engine, control->request_burst.since_us);
  record->release_mono_us = control->release_us;
  record->release_unix_us = unix_or_none(engine, control->release_us);
  return true;
}

static void set_burst(nm_burst *burst, bool active, uint64_t since_us) {
  burst->active = active;
  burst->since_us = since_us;
  burst->sustained_us = since_us;
}

int nm_engine_control_put(nm_engine *engine, const nm_control_record *record,
                          nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, record->iface);
  if (iface == NULL) {
    return NM_E(MISSING);
  }
  nm_control *control = ensure_control(engine, iface);
  if (control == NULL) {
    return NM_E(MEMORY);
  }
  set_burst(&control->announce_burst, record->announce_burst,
            record->announce_burst_mono_us);
  set_burst(&control->request_burst, record->request_burst,
            record->request_burst_mono_us);
  control->release_us = record->release_mono_us;
  wake(engine, iface);
  return NM_OK;
}

int nm_engine_control_drop(nm_engine *engine, nm_iface_id id) {
  nm_iface *iface = nm_iface_find(engine, id);
  if (iface == NULL || iface->control == NULL) {
    return NM_E(MISSING);
  }
  nm_control *control = iface->control;
  if (control->held.count == 0) {
    dispose_control(engine, iface);
    return NM_OK;
  }
  memset(&control->announces_in, 0, sizeof(control->announces_in));
  memset(&control->announces_out, 0, sizeof(control->announces_out));
  memset(&control->requests_in, 0, sizeof(control->requests_in));
  memset(&control->requests_out, 0, sizeof(control->requests_out));
  set_burst(&control->announce_burst, false, 0);
  set_burst(&control->request_burst, false, 0);
  return NM_OK;
}
