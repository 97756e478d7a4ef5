/* Announces that come in (RNS 1, 8.5.1) and path requests that come in (8.9).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"
#include "stack/transport_snapshot.h"
#include "wire/control.h"

#include <string.h>

static nm_drop drop_of_verdict(nm_announce_verdict verdict) {
  switch (verdict) {
  case NM_ANNOUNCE_VALID:
    return NM_DROP_NONE;
  case NM_ANNOUNCE_BAD_SIGNATURE:
    return NM_DROP_ANNOUNCE_SIGNATURE;
  case NM_ANNOUNCE_BAD_DESTINATION:
    return NM_DROP_ANNOUNCE_DESTINATION;
  case NM_ANNOUNCE_KEY_MISMATCH:
    return NM_DROP_ANNOUNCE_KEY_MISMATCH;
  case NM_ANNOUNCE_MALFORMED:
  case NM_ANNOUNCE_VERDICT_COUNT:
    break;
  }
  return NM_DROP_ANNOUNCE_MALFORMED;
}

static bool blob_is_known(const nm_path *path, nm_span blob) {
  for (uint32_t i = 0; i < path->blob_count; i++) {
    if (memcmp(path->blobs[i], blob.ptr, NM_RANDOM_BLOB_SIZE) == 0) {
      return true;
    }
  }
  return false;
}

/* Why a refused announce is refused; only words depend on it. */
static nm_drop refusal(const nm_path *path, const nm_announce *announce) {
  if (path == NULL) {
    return NM_DROP_ANNOUNCE_WORSE;
  }
  if (blob_is_known(path, announce->random_hash)) {
    return NM_DROP_ANNOUNCE_REPLAY;
  }
  for (uint32_t i = 0; i < path->blob_count; i++) {
    if (nm_blob_emitted(path->blobs[i]) > announce->emitted) {
      return NM_DROP_ANNOUNCE_STALE;
    }
  }
  return NM_DROP_ANNOUNCE_WORSE;
}

static nm_drop judge(const nm_engine *engine, const nm_announce *announce,
                     uint8_t hops, const nm_iface *iface) {
  if (nm_path_judge(engine, announce, hops, iface) != NM_ANNOUNCE_REFUSED) {
    return NM_DROP_NONE;
  }
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  return refusal(nm_path_find(engine, &hash), announce);
}

/* Another way to the same destination, by a copy of the announce that was
 * taken. A copy that is two hops longer than the path may be this node's own,
 * on its way back from a neighbour; before this node has sent one, it is not.
 */
static void learn_alternative(nm_engine *engine, const nm_announce *announce,
                              uint8_t hops, const nm_iface *iface) {
  nm_destination_hash hash;
  memcpy(hash.b, announce->packet.destination.ptr, NM_ADDRESS_SIZE);
  nm_path *path = nm_path_find(engine, &hash);
  bool returns = path != NULL && hops > path->hops + 1 &&
                 nm_transport_is_on(engine) &&
                 !nm_rebroadcast_is_ahead(engine, &hash);
  if (path != NULL && !returns) {
    (void)nm_path_learn_alternative(engine, path, announce, hops, iface);
  }
}

static bool key_is_known_otherwise(const nm_engine *engine,
                                   const nm_destination_hash *hash,
                                   const nm_announce *announce) {
  const nm_known *known = nm_known_find(engine, hash);
  return known != NULL && memcmp(nm_known_key(known), announce->public_key.ptr,
                                 NM_PUBLIC_SIZE) != 0;
}

/* What the tables say against an announce, whoever signed it. */
static nm_drop check_tables(const nm_engine *engine,
                            const nm_destination_hash *hash,
                            const nm_announce *announce) {
  if (nm_local_find(engine, hash) != NULL) {
    return NM_DROP_ANNOUNCE_LOCAL;
  }
  nm_identity_hash identity;
  nm_announce_identity_hash(announce, &identity);
  if (nm_engine_is_blackholed(engine, &identity)) {
    return NM_DROP_ANNOUNCE_BLACKHOLED;
  }
  return key_is_known_otherwise(engine, hash, announce)
             ? NM_DROP_ANNOUNCE_KEY_MISMATCH
             : NM_DROP_NONE;
}

/* The checks that need no signature come first: a flood of repetitions costs
 * no verification. */
static nm_drop check_early(nm_engine *engine, const nm_input *input,
                           nm_announce *announce) {
  const nm_frame *frame = input->frame;
  if (frame->raw.len > NM_MTU) {
    return NM_DROP_ANNOUNCE_SIZE;
  }
  if (frame->packet.destination_type != NM_SINGLE ||
      nm_announce_parse(&frame->packet, announce, NULL) != NM_OK) {
    return NM_DROP_ANNOUNCE_MALFORMED;
  }
  nm_destination_hash hash;
  memcpy(hash.b, frame->packet.destination.ptr, NM_ADDRESS_SIZE);
  nm_drop drop = check_tables(engine, &hash, announce);
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  drop = judge(engine, announce, input->hops, input->iface);
  if (drop == NM_DROP_ANNOUNCE_REPLAY) {
    learn_alternative(engine, announce, input->hops, input->iface);
  }
  if (drop == NM_DROP_ANNOUNCE_REPLAY) {
    (void)nm_control_announce(engine, input->iface);
  }
  if (drop == NM_DROP_ANNOUNCE_REPLAY && engine->transport) {
    nm_rebroadcast_heard(engine, announce, input->hops);
  }
  return drop;
}

static nm_drop take(nm_engine *engine, const nm_destination_hash *hash,
                    nm_block *raw, const nm_frame *frame, nm_iface *iface);

/* The burst is over: one that was held goes on. */
static void released(nm_engine *engine, nm_iface *iface,
                     nm_held_announce *held) {
  nm_drop drop = take(engine, &held->hash, held->raw, &held->frame, iface);
  if (drop != NM_DROP_NONE) {
    nm_engine_count_drop(engine, iface, drop);
  }
}

/* During a burst, what nobody here asked for waits, on ends as on transport
 * nodes (RNS 1, 8.5.1 step 2). */
static bool must_wait(nm_engine *engine, const nm_destination_hash *hash,
                      nm_iface *iface) {
  bool limited = nm_control_announce(engine, iface);
  return limited && nm_path_find(engine, hash) == NULL &&
         !nm_asks_waited_for(engine, hash) && !nm_search_waits(engine, hash);
}

/* Takes a verified announce into the tables. The tables may have changed
 * while the job ran, so it is judged again. */
static nm_drop take(nm_engine *engine, const nm_destination_hash *hash,
                    nm_block *raw, const nm_frame *frame, nm_iface *iface) {
  nm_packet packet;
  nm_announce announce;
  uint8_t hops = frame->packet.hops;
  if (nm_packet_parse(nm_block_span(raw), &packet, NULL) != NM_OK ||
      nm_announce_parse(&packet, &announce, NULL) != NM_OK) {
    return NM_DROP_ANNOUNCE_MALFORMED;
  }
  nm_drop drop = check_tables(engine, hash, &announce);
  if (drop == NM_DROP_NONE) {
    drop = judge(engine, &announce, hops, iface);
  }
  if (drop == NM_DROP_ANNOUNCE_REPLAY) {
    learn_alternative(engine, &announce, hops, iface);
  }
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  nm_known *known = nm_known_learn(engine, &announce, raw);
  nm_path *path = nm_path_learn(engine, &announce, hops, iface, raw);
  if (known == NULL || path == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  iface->tally.announces_in++;
  iface->tally.announce_rx_bytes += nm_block_span(raw).len;
  nm_transport_announce(engine, &announce, raw, hops, iface);
  nm_tunnel_path_learnt(engine, path, iface);
  nm_search_answered(engine, hash);
  nm_locals_tell_announce(engine, &announce, frame, iface->id, hops,
                          &frame->hash);
  nm_asks_answered(engine, path);
  return NM_DROP_NONE;
}

static void announce_verified(nm_engine *engine, nm_job *job) {
  nm_drop drop = drop_of_verdict(job->u.verify_announce.verdict);
  nm_iface *iface = nm_iface_find(engine, job->origin);
  nm_block *raw = job->u.verify_announce.raw;
  if (iface == NULL) {
    drop = NM_DROP_IFACE_UNKNOWN;
  }
  if (drop == NM_DROP_NONE && must_wait(engine, &job->destination, iface)) {
    drop = nm_control_hold(engine, iface, &job->destination, raw,
                           &job->frame.hash, &job->frame, released)
               ? NM_DROP_NONE
               : NM_DROP_ANNOUNCE_QUEUE;
  } else if (drop == NM_DROP_NONE) {
    drop = take(engine, &job->destination, raw, &job->frame, iface);
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

int nm_engine_held_put(nm_engine *engine, const nm_waiting_record *record,
                       nm_now now) {
  engine->now = now;
  nm_iface *iface = nm_iface_find(engine, record->iface);
  nm_frame frame = {.rssi_dbm = NM_SIGNAL_NONE,
                    .snr_cdb = NM_SIGNAL_NONE,
                    .quality_pct = NM_SIGNAL_NONE};
  nm_packet packet;
  if (iface == NULL) {
    return NM_E(MISSING);
  }
  if (record->packet == NULL || record->hops > NM_HOPS_MAX ||
      nm_packet_parse(nm_block_span(record->packet), &packet, NULL) != NM_OK ||
      packet.packet_type != NM_ANNOUNCE) {
    return NM_E(ARGUMENT);
  }
  nm_packet_digest(&packet, &frame.hash);
  frame.packet.hops = record->hops;
  return nm_control_hold(engine, iface, &record->destination, record->packet,
                         &frame.hash, &frame, released)
             ? NM_OK
             : NM_E(LIMIT);
}

nm_drop nm_routes_announce(nm_engine *engine, nm_input *input) {
  nm_announce announce;
  nm_drop drop = check_early(engine, input, &announce);
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  nm_job *job = nm_engine_new_job(engine, NM_JOB_VERIFY_ANNOUNCE, input, &drop);
  if (job == NULL) {
    return drop;
  }
  memcpy(job->destination.b, announce.packet.destination.ptr, NM_ADDRESS_SIZE);
  job->done = announce_verified;
  job->u.verify_announce.raw = nm_block_copy(engine->mem, input->frame->raw);
  if (job->u.verify_announce.raw == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* ---- path requests from the network ---- */

/* A path request that was seen: destination | tag. */
typedef struct nm_seen_tag {
  nm_table_link link;
  uint8_t key[NM_ADDRESS_SIZE + NM_TAG_SIZE];
} nm_seen_tag;

/* Remembers the request. NM_DROP_NONE when it is new. */
static nm_drop remember_tag(nm_engine *engine, const nm_path_request *asked) {
  nm_seen_tag *seen = nm_alloc_zero(engine->mem, 1, sizeof(*seen));
  if (seen == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  memcpy(seen->key, asked->destination.ptr, NM_ADDRESS_SIZE);
  nm_writer w = nm_writer_of(seen->key, sizeof(seen->key));
  (void)nm_writer_reserve(&w, NM_ADDRESS_SIZE);
  nm_writer_span(&w, asked->tag);
  nm_drop drop = NM_DROP_PATH_REQUEST_SEEN;
  if (nm_table_find(&engine->routes.tags, seen->key) == NULL) {
    drop = nm_table_insert(&engine->routes.tags, &seen->link) == NM_OK
               ? NM_DROP_NONE
               : NM_DROP_NO_MEMORY;
  }
  if (drop != NM_DROP_NONE) {
    nm_release(engine->mem, seen);
  }
  return drop;
}

static nm_seen_tag *find_tag(const nm_engine *engine, const nm_path_tag *tag) {
  uint8_t key[NM_ADDRESS_SIZE + NM_TAG_SIZE];
  nm_writer w = nm_writer_of(key, sizeof(key));
  nm_writer_put(&w, tag->destination.b, NM_ADDRESS_SIZE);
  nm_writer_put(&w, tag->tag, NM_TAG_SIZE);
  return (nm_seen_tag *)(void *)nm_table_find(&engine->routes.tags, key);
}

int nm_engine_path_tag_set(nm_engine *engine, const nm_path_tag *tag,
                           bool seen) {
  nm_seen_tag *entry = find_tag(engine, tag);
  if (!seen) {
    if (entry == NULL) {
      return NM_E(MISSING);
    }
    nm_table_remove(&engine->routes.tags, &entry->link);
    nm_release(engine->mem, entry);
    return NM_OK;
  }
  nm_path_request asked = {.destination =
                               nm_span_of(tag->destination.b, NM_ADDRESS_SIZE),
                           .tag = nm_span_of(tag->tag, NM_TAG_SIZE)};
  return remember_tag(engine, &asked) == NM_DROP_NO_MEMORY ? NM_E(MEMORY)
                                                           : NM_OK;
}

bool nm_engine_path_tag_next(const nm_engine *engine, const nm_path_tag *after,
                             nm_path_tag *record) {
  const nm_seen_tag *at = after == NULL ? NULL : find_tag(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  at = (const nm_seen_tag *)(const void *)nm_table_next(
      &engine->routes.tags, at == NULL ? NULL : &at->link);
  if (at == NULL) {
    return false;
  }
  nm_reader r = nm_reader_of(nm_span_of(at->key, sizeof(at->key)));
  (void)nm_reader_copy(&r, record->destination.b, NM_ADDRESS_SIZE);
  (void)nm_reader_copy(&r, record->tag, NM_TAG_SIZE);
  return true;
}

nm_drop nm_routes_path_request(nm_engine *engine, nm_input *input) {
  nm_path_request asked;
  if (nm_path_request_parse(input->frame->packet.payload, &asked, NULL) !=
      NM_OK) {
    return NM_DROP_PATH_REQUEST_MALFORMED;
  }
  if (asked.tag.len == 0) {
    return NM_DROP_PATH_REQUEST_TAGLESS;
  }
  if (asked.tag_was_cut) {
    input->iface->tally.violations++;
  }
  nm_drop drop = remember_tag(engine, &asked);
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  input->iface->tally.path_requests_in++;
  input->iface->tally.path_request_rx_bytes += input->frame->raw.len;
  /* Whatever becomes of it, it is part of a burst (RNS 1, 8.15). */
  bool limited = nm_control_request(engine, input->iface);
  nm_destination_hash hash;
  memcpy(hash.b, asked.destination.ptr, NM_ADDRESS_SIZE);
  nm_local *local = nm_local_find(engine, &hash);
  if (local == NULL && nm_transport_is_on(engine)) {
    return nm_path_request_elsewhere(engine, input, &asked, limited);
  }
  if (local == NULL || local->type != NM_SINGLE) {
    return NM_DROP_PATH_REQUEST_UNKNOWN;
  }
  nm_locals_answer(engine, local, input->iface->id, asked.tag);
  return NM_DROP_NONE;
}
