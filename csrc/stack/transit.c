/* Links that pass through this node (RNS 1, 8.10.3, 8.10.4, 8.13).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"
#include "wire/link.h"

#include <string.h>

#define SECOND_US 1000000ull
#define IDLE_US (900 * SECOND_US)
#define REDISCOVERY_PAUSE_US (SECOND_US / 2)
/* Proofs of one link verified at the same time: a forged one must not keep the
 * genuine one out. */
#define VERIFYING_MAX 4

static nm_transit *of_timer(nm_timer *timer) {
  return (nm_transit *)(void *)((char *)timer - offsetof(nm_transit, timer));
}

static void dispose_transit(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_transit *transit = (nm_transit *)(void *)entry;
  nm_timer_disarm(&engine->timers, &transit->timer);
  nm_engine_unreserve_timers(engine, 1);
  nm_release(engine->mem, transit);
}

static void rediscover_next(void *user, nm_timer *timer);

int nm_transits_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.transits,
      .key_size = sizeof(nm_link_id),
      .key_offset = offsetof(nm_transit, id),
      .dispose = dispose_transit,
  };
  engine->carried.rediscovery.fire = rediscover_next;
  int status = nm_engine_table(engine, &engine->carried.transits, &config);
  return status == NM_OK ? nm_engine_reserve_timers(engine, 1) : status;
}

void nm_transits_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->carried.transits);
}

nm_transit *nm_transit_find(const nm_engine *engine, const uint8_t *id) {
  return (nm_transit *)(void *)nm_table_find(&engine->carried.transits, id);
}

static void forget(nm_engine *engine, nm_transit *transit) {
  nm_table_remove(&engine->carried.transits, &transit->link);
  dispose_transit(engine, &transit->link);
}

/* ---- paths whose links do not come up (RNS 1, 8.13) ---- */

static void rediscover_next(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_transport *t = &engine->carried;
  if (t->rediscover_count == 0) {
    return;
  }
  nm_rediscovery next = t->rediscover[0];
  t->rediscover_count--;
  memmove(&t->rediscover[0], &t->rediscover[1],
          t->rediscover_count * sizeof(t->rediscover[0]));
  if (t->rediscover_count > 0) {
    nm_engine_arm(engine, timer, REDISCOVERY_PAUSE_US);
  }
  nm_asks_again(engine, &next.hash, next.spare);
}

static void rediscover(nm_engine *engine, const nm_destination_hash *hash,
                       nm_iface_id spare) {
  nm_transport *t = &engine->carried;
  for (uint32_t i = 0; i < t->rediscover_count; i++) {
    if (memcmp(t->rediscover[i].hash.b, hash->b, NM_ADDRESS_SIZE) == 0) {
      return;
    }
  }
  if (t->rediscover_count == NM_REDISCOVERIES_MAX) {
    return;
  }
  nm_rediscovery wanted = {.hash = *hash, .spare = spare};
  t->rediscover[t->rediscover_count++] = wanted;
  if (!nm_timer_armed(&t->rediscovery)) {
    nm_engine_arm(engine, &t->rediscovery, 0);
  }
}

/* Whether the path still leads the way that the link request went. */
static bool leads_the_same_way(const nm_path *path, const nm_transit *transit) {
  return path->iface == transit->next_iface &&
         memcmp(path->next_hop, transit->next_hop, NM_ADDRESS_SIZE) == 0;
}

/* The proof did not come: the path may be no good. An alternative takes over
 * where upstream would only mark it. */
static void unproven(nm_engine *engine, const nm_transit *transit) {
  nm_path *path = nm_path_find(engine, &transit->destination);
  if (path == NULL) {
    rediscover(engine, &transit->destination, 0);
    return;
  }
  if (nm_asks_recent(engine, &transit->destination)) {
    return;
  }
  bool near = path->hops == 1 || transit->taken == 1;
  const nm_iface *from = nm_iface_find(engine, transit->received_iface);
  if (transit->taken == 0) {
    rediscover(engine, &transit->destination, 0);
  } else if (near) {
    rediscover(engine, &transit->destination, transit->received_iface);
    if (engine->transport && from != NULL &&
        from->spec.mode != NM_IF_BOUNDARY &&
        leads_the_same_way(path, transit)) {
      (void)nm_path_failed(engine, path);
    }
  } else {
    return;
  }
  if (!engine->transport &&
      !(leads_the_same_way(path, transit) && nm_path_failed(engine, path))) {
    nm_path_forget(engine, path);
  }
}

static void expire(void *user, nm_timer *timer) {
  nm_engine *engine = user;
  nm_transit *transit = of_timer(timer);
  if (!transit->validated) {
    unproven(engine, transit);
    forget(engine, transit);
    return;
  }
  uint64_t over = transit->used_us + IDLE_US;
  bool gone = nm_iface_find(engine, transit->next_iface) == NULL ||
              nm_iface_find(engine, transit->received_iface) == NULL;
  if (gone || engine->now.mono_us >= over) {
    forget(engine, transit);
    return;
  }
  nm_engine_arm(engine, timer, over - engine->now.mono_us);
}

static nm_transit *ensure_transit(nm_engine *engine, const nm_link_id *id) {
  nm_transit *transit = nm_transit_find(engine, id->b);
  if (transit != NULL) {
    return transit;
  }
  if (nm_engine_reserve_timers(engine, 1) != NM_OK) {
    return NULL;
  }
  transit = nm_alloc_zero(engine->mem, 1, sizeof(*transit));
  if (transit == NULL) {
    nm_engine_unreserve_timers(engine, 1);
    return NULL;
  }
  transit->id = *id;
  transit->timer.fire = expire;
  if (nm_table_insert(&engine->carried.transits, &transit->link) != NM_OK) {
    dispose_transit(engine, &transit->link);
    return NULL;
  }
  return transit;
}

void nm_transit_add(nm_engine *engine, const nm_link_id *id,
                    const nm_path *path, const nm_iface *received,
                    uint8_t taken) {
  nm_transit *transit = ensure_transit(engine, id);
  if (transit == NULL) {
    return; /* its packets are then not ours to carry */
  }
  const nm_iface *out = nm_iface_find(engine, path->iface);
  uint64_t wait =
      nm_us(nm_relayed_proof_timeout(path->hops, nm_iface_bitrate(out)));
  transit->destination = path->hash;
  memcpy(transit->next_hop, path->next_hop, NM_ADDRESS_SIZE);
  transit->next_iface = path->iface;
  transit->received_iface = received->id;
  transit->remaining = path->hops;
  transit->taken = taken;
  transit->validated = false;
  transit->used_us = engine->now.mono_us;
  transit->deadline_us = engine->now.mono_us + wait;
  nm_engine_arm(engine, &transit->timer, wait);
}

/* ---- what travels on it ---- */

static nm_drop carry(nm_engine *engine, const nm_input *input, nm_iface_id to) {
  nm_iface *out = nm_iface_find(engine, to);
  if (out == NULL || input->hops >= NM_HOPS_MAX) {
    return out == NULL ? NM_DROP_NOT_FORWARDED : NM_DROP_HOPS;
  }
  nm_block *packet = nm_forward_counted(engine, input);
  if (packet == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  engine->stats.forwarded++;
  return nm_iface_send(engine, out, packet, 0) == NM_OK ? NM_DROP_NONE
                                                        : NM_DROP_NOT_FORWARDED;
}

nm_drop nm_transit_packet(nm_engine *engine, nm_input *input,
                          nm_transit *transit) {
  nm_link_route route = {.next_hop_interface = transit->next_iface,
                         .received_interface = transit->received_iface,
                         .remaining_hops = transit->remaining,
                         .taken_hops = transit->taken,
                         .validated = transit->validated};
  nm_iface_id to = 0;
  switch (nm_link_forward(&route, input->iface->id, input->hops)) {
  case NM_LINK_FORWARD_UNPROVEN:
    return NM_DROP_LINK_UNPROVEN;
  case NM_LINK_FORWARD_NOT_OURS:
    return NM_DROP_LINK_NOT_OURS;
  case NM_LINK_FORWARD_NEXT:
    to = transit->next_iface;
    break;
  case NM_LINK_FORWARD_RECEIVED:
    to = transit->received_iface;
    break;
  }
  if (!input->frame->unhashed) {
    nm_filter_put(&engine->filter, &input->frame->hash);
  }
  transit->used_us = engine->now.mono_us;
  nm_table_touch(&engine->carried.transits, &transit->link);
  return carry(engine, input, to);
}

/* ---- its proof ---- */

static void proof_verified(nm_engine *engine, nm_job *job) {
  const nm_job_link_confirm *j = &job->u.link_confirm;
  nm_transit *transit = nm_transit_find(engine, j->link_id.b);
  nm_drop drop = NM_DROP_NONE;
  if (transit == NULL) {
    drop = NM_DROP_NO_LINK;
  } else if (job->status != NM_OK) {
    transit->verifying--;
    drop = NM_DROP_LINK_PROOF_SIGNATURE;
  } else {
    transit->verifying--;
    uint8_t hops = job->frame.packet.hops;
    if (hops != transit->remaining && !transit->validated) {
      /* The way is longer or shorter than the path said (RNS 1, 8.10.4). */
      transit->remaining = hops;
      nm_path *path = nm_path_find(engine, &transit->destination);
      if (path != NULL) {
        path->hops = hops;
      }
    }
    drop = hops == transit->remaining ? NM_DROP_NONE : NM_DROP_LINK_PROOF_HOPS;
  }
  if (drop == NM_DROP_NONE) {
    transit->validated = true;
    transit->used_us = engine->now.mono_us;
    nm_engine_arm(engine, &transit->timer, IDLE_US);
    nm_packet packet;
    nm_frame frame = job->frame;
    frame.raw = nm_block_span(j->proof);
    if (nm_packet_parse(frame.raw, &packet, NULL) == NM_OK) {
      nm_input input = {.iface = nm_iface_find(engine, job->origin),
                        .frame = &frame,
                        .hops = job->frame.packet.hops};
      drop = carry(engine, &input, transit->received_iface);
    }
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

nm_drop nm_transit_proof(nm_engine *engine, nm_input *input,
                         nm_transit *transit) {
  nm_link_proof proof;
  if (nm_link_proof_parse(input->frame->packet.payload, &proof, NULL) !=
      NM_OK) {
    return NM_DROP_LINK_PROOF_MALFORMED;
  }
  if (input->iface->id != transit->next_iface) {
    return NM_DROP_LINK_IFACE;
  }
  if (transit->validated && input->hops != transit->remaining) {
    return NM_DROP_LINK_PROOF_HOPS;
  }
  const nm_known *known = nm_known_find(engine, &transit->destination);
  if (known == NULL) {
    return NM_DROP_NO_DESTINATION;
  }
  if (transit->verifying >= VERIFYING_MAX) {
    return NM_DROP_JOBS_SHARE;
  }
  nm_drop drop;
  nm_job *job =
      nm_engine_new_job(engine, NM_JOB_VERIFY_LINK_PROOF, input, &drop);
  if (job == NULL) {
    return drop;
  }
  job->done = proof_verified;
  nm_job_link_confirm *j = &job->u.link_confirm;
  j->link_id = transit->id;
  memcpy(j->ed25519_public, &nm_known_key(known)[NM_KEY_SIZE], NM_KEY_SIZE);
  j->proof = nm_block_copy(engine->mem, input->frame->raw);
  if (j->proof == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  transit->verifying++;
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* ---- records ---- */

bool nm_engine_transit_next(const nm_engine *engine, const nm_link_id *after,
                            nm_transit_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_transit *at =
      after == NULL ? NULL : nm_transit_find(engine, after->b);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_transit *)(const void *)nm_table_next(
      &engine->carried.transits, at == NULL ? NULL : &at->link);
  if (at == NULL) {
    return false;
  }
  record->id = at->id;
  record->destination = at->destination;
  memcpy(record->next_hop, at->next_hop, NM_ADDRESS_SIZE);
  record->next_iface = at->next_iface;
  record->received_iface = at->received_iface;
  record->remaining = at->remaining;
  record->taken = at->taken;
  record->validated = at->validated;
  record->used_mono_us = at->used_us;
  record->used_unix_us = nm_unix_of(engine, at->used_us);
  record->deadline_mono_us = at->deadline_us;
  record->deadline_unix_us = nm_unix_of(engine, at->deadline_us);
  return true;
}

int nm_engine_transit_put(nm_engine *engine, const nm_transit_record *record,
                          nm_now now) {
  engine->now = now;
  if (nm_iface_find(engine, record->next_iface) == NULL ||
      nm_iface_find(engine, record->received_iface) == NULL) {
    return NM_E(MISSING);
  }
  nm_transit *transit = ensure_transit(engine, &record->id);
  if (transit == NULL) {
    return NM_E(MEMORY);
  }
  transit->destination = record->destination;
  memcpy(transit->next_hop, record->next_hop, NM_ADDRESS_SIZE);
  transit->next_iface = record->next_iface;
  transit->received_iface = record->received_iface;
  transit->remaining = record->remaining;
  transit->taken = record->taken;
  transit->validated = record->validated;
  transit->used_us = record->used_mono_us;
  transit->deadline_us = record->deadline_mono_us;
  uint64_t due =
      transit->validated ? transit->used_us + IDLE_US : transit->deadline_us;
  nm_engine_arm(engine, &transit->timer,
                due > now.mono_us ? due - now.mono_us : 0);
  return NM_OK;
}

int nm_engine_transit_drop(nm_engine *engine, const nm_link_id *id) {
  nm_transit *transit = nm_transit_find(engine, id->b);
  if (transit == NULL) {
    return NM_E(MISSING);
  }
  forget(engine, transit);
  return NM_OK;
}
