/* Reception: the packet filter, the hop count, the dispatch to the state
 * machines (RNS 1, 8.4 and 8.5).
 */
#include "stack/internal.h"
#include "stack/snapshot.h"

#include <string.h>

/* The packet filter on a packet with hops as received. |remember| tells
 * whether its hash is to be added now. */
static nm_drop filter_packet(const nm_engine *engine, const nm_iface *iface,
                             const nm_frame *frame, uint64_t packet_key,
                             bool *remember) {
  const nm_packet *p = &frame->packet;
  *remember = false;
  if (iface->spec.role == NM_ROLE_SHARED_CONNECTION) {
    return NM_DROP_NONE;
  }
  if (p->header_type == NM_HEADER_2 && p->packet_type != NM_ANNOUNCE &&
      memcmp(p->transport_id.ptr, nm_identity_in(engine->identity)->hash.b,
             NM_ADDRESS_SIZE) != 0) {
    return NM_DROP_NOT_NEXT_HOP;
  }
  *remember = !frame->unhashed &&
              !(p->packet_type == NM_PROOF && p->context == NM_CONTEXT_LRPROOF);
  if (nm_packet_skips_filter(p->context)) {
    return NM_DROP_NONE;
  }
  if (p->destination_type == NM_PLAIN || p->destination_type == NM_GROUP) {
    if (p->packet_type == NM_ANNOUNCE) {
      return NM_DROP_PLAIN_ANNOUNCE;
    }
    /* Senders use 0, so strictness loses nothing (RNS 1, 8.4 step 4). */
    return p->hops > 0 && !nm_role_is_local(iface->spec.role)
               ? NM_DROP_PLAIN_HOPS
               : NM_DROP_NONE;
  }
  if (!nm_filter_has_keyed(&engine->filter, &frame->hash, packet_key) ||
      (p->packet_type == NM_ANNOUNCE && p->destination_type == NM_SINGLE)) {
    return NM_DROP_NONE;
  }
  return NM_DROP_DUPLICATE;
}

/* RNS 1, 8.5 step 3: copies across a local socket do not count a hop. */
static uint8_t hops_of(const nm_iface *iface, const nm_packet *p) {
  return (uint8_t)(nm_role_is_local(iface->spec.role) ? p->hops : p->hops + 1);
}

/* A HEADER_2 packet reaches this point only when it names this node (or came
 * from a shared instance), so its last hop is here. */
static nm_drop to_local(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  nm_destination_hash hash;
  memcpy(hash.b, p->destination.ptr, sizeof(hash.b));
  nm_local *local = nm_local_find(engine, &hash);
  if (local == NULL) {
    return NM_DROP_NO_DESTINATION;
  }
  if (local->type != p->destination_type) {
    return NM_DROP_WRONG_TYPE;
  }
  if (p->packet_type == NM_LINKREQUEST) {
    return nm_links_request(engine, input, local);
  }
  return nm_locals_data(engine, input, local);
}

static nm_drop dispatch_data(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  if (p->destination_type == NM_LINK) {
    return nm_links_data(engine, input);
  }
  if (p->destination_type == NM_PLAIN &&
      memcmp(p->destination.ptr, nm_path_request_address.b, NM_ADDRESS_SIZE) ==
          0) {
    return nm_routes_path_request(engine, input);
  }
  if (engine->transport && p->destination_type == NM_PLAIN &&
      memcmp(p->destination.ptr, nm_tunnel_address.b, NM_ADDRESS_SIZE) == 0) {
    return nm_tunnel_request(engine, input);
  }
  return to_local(engine, input);
}

static nm_drop dispatch(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  nm_drop drop = NM_DROP_NONE;
  if (nm_forward(engine, input, &drop)) {
    return drop;
  }
  switch (p->packet_type) {
  case NM_ANNOUNCE:
    return nm_routes_announce(engine, input);
  case NM_LINKREQUEST:
    return to_local(engine, input);
  case NM_PROOF:
    if (p->context == NM_CONTEXT_LRPROOF) {
      return nm_links_proof(engine, input);
    }
    if (p->context == NM_CONTEXT_RESOURCE_PRF) {
      return nm_links_resource_proof(engine, input);
    }
    return p->destination_type == NM_LINK ? nm_links_packet_proof(engine, input)
                                          : nm_receipts_proof(engine, input);
  default:
    return dispatch_data(engine, input);
  }
}

static nm_drop admit(nm_engine *engine, nm_iface *iface, const nm_frame *frame,
                     uint64_t packet_key, bool *remember) {
  *remember = false;
  if (engine->closing) {
    return NM_DROP_SHUTDOWN;
  }
  if (iface == NULL) {
    return NM_DROP_IFACE_UNKNOWN;
  }
  if (!iface->spec.online || !iface->spec.receives) {
    return NM_DROP_IFACE_OFFLINE;
  }
  if (frame->drop != NM_DROP_NONE) {
    return frame->drop;
  }
  return filter_packet(engine, iface, frame, packet_key, remember);
}

static nm_record *record_input(nm_engine *engine, nm_iface_id iface,
                               const nm_frame *frame) {
  nm_record *record =
      nm_flight_add(engine, NM_RECORD_INPUT, iface, NM_DROP_NONE);
  record->bytes = (uint32_t)frame->raw.len;
  if (frame->drop == NM_DROP_NONE) {
    record->context = frame->packet.context;
    record->hops = frame->packet.hops;
    record->hash = frame->hash;
    memcpy(record->destination, frame->packet.destination.ptr, NM_ADDRESS_SIZE);
  }
  return record;
}

static nm_verdict verdict_of(const nm_frame *frame, nm_drop drop) {
  nm_verdict verdict = {
      .drop = drop, .hashed = frame->drop == NM_DROP_NONE && !frame->unhashed};
  if (verdict.hashed) {
    verdict.hash = frame->hash;
  }
  return verdict;
}

nm_verdict nm_engine_probe(nm_engine *engine, nm_iface_id id,
                           const nm_frame *frame, bool remember, nm_now now) {
  engine->now = now;
  bool would_remember = false;
  uint64_t key = nm_filter_key(&engine->filter, &frame->hash);
  nm_drop drop =
      admit(engine, nm_iface_find(engine, id), frame, key, &would_remember);
  nm_verdict verdict = verdict_of(frame, drop);
  if (drop == NM_DROP_NONE && remember && would_remember) {
    nm_filter_put(&engine->filter, &frame->hash);
    verdict.remembered = true;
  }
  return verdict;
}

/* What a frame is looked up by. */
typedef struct keys {
  uint64_t packet;
  uint64_t destination;
} keys;

static keys keys_of(const nm_engine *engine, const nm_frame *frame) {
  keys k = {0};
  if (frame->drop == NM_DROP_NONE) {
    k.packet =
        frame->unhashed ? 0 : nm_filter_key(&engine->filter, &frame->hash);
    k.destination =
        nm_table_hash(&engine->routes.paths, frame->packet.destination.ptr);
  }
  return k;
}

static nm_drop take(nm_engine *engine, nm_input *input) {
  const nm_frame *frame = input->frame;
  bool remember = false;
  nm_drop drop =
      admit(engine, input->iface, frame, input->packet_key, &remember);
  if (drop != NM_DROP_NONE) {
    return drop;
  }
  if (remember && !nm_forward_defers_hash(engine, input)) {
    nm_filter_put_keyed(&engine->filter, &frame->hash, input->packet_key);
  }
  input->hops = hops_of(input->iface, &frame->packet);
  return dispatch(engine, input);
}

static nm_verdict input_one(nm_engine *engine, nm_iface_id id,
                            const nm_frame *frame, const keys *k) {
  engine->stats.inputs++;
  nm_iface *iface = nm_iface_find(engine, id);
  if (iface != NULL) {
    iface->tally.rx_packets++;
    iface->tally.rx_bytes += frame->raw.len;
  }
  nm_input input = {.iface = iface,
                    .frame = frame,
                    .packet_key = k->packet,
                    .destination_key = k->destination,
                    .seq = record_input(engine, id, frame)->seq};
  nm_drop drop = take(engine, &input);
  nm_verdict verdict = verdict_of(frame, drop);
  verdict.seq = input.seq;
  verdict.pending = drop == NM_DROP_NONE && input.pending;
  if (verdict.pending) {
    nm_record *record = nm_flight_find(engine, input.seq);
    if (record != NULL) {
      record->flags |= NM_RECORD_PENDING;
    }
  } else {
    nm_engine_settle(engine, id, input.seq, &frame->hash, drop);
  }
  verdict.remembered =
      verdict.hashed &&
      nm_filter_has_keyed(&engine->filter, &frame->hash, k->packet);
  return verdict;
}

nm_verdict nm_engine_input(nm_engine *engine, nm_iface_id id,
                           const nm_frame *frame, nm_now now) {
  engine->now = now;
  keys k = keys_of(engine, frame);
  if (frame->drop == NM_DROP_NONE) {
    nm_filter_fetch(&engine->filter, k.packet);
  }
  return input_one(engine, id, frame, &k);
}

/* Frames whose memory is fetched together: as many as a core has loads under
 * way, a few times over. */
#define TOGETHER 32

/* Each round waits for what the one before it fetched. */
static void fetch_ahead(const nm_engine *engine, const nm_frame *frames,
                        const keys *k, size_t count) {
  for (int round = 0; round < NM_FORWARD_ROUNDS; round++) {
    for (size_t i = 0; i < count; i++) {
      if (frames[i].drop == NM_DROP_NONE) {
        if (round == 0) {
          nm_filter_fetch(&engine->filter, k[i].packet);
        }
        nm_forward_fetch(engine, k[i].packet, k[i].destination, round);
      }
    }
    nm_forward_fetch_room(engine, count, round);
  }
}

void nm_engine_input_many(nm_engine *engine, nm_iface_id id,
                          const nm_frame *frames, size_t count,
                          nm_verdict *verdicts, nm_now now) {
  engine->now = now;
  for (size_t done = 0; done < count;) {
    size_t n = count - done < TOGETHER ? count - done : TOGETHER;
    keys k[TOGETHER];
    for (size_t i = 0; i < n; i++) {
      k[i] = keys_of(engine, &frames[done + i]);
    }
    fetch_ahead(engine, frames + done, k, n);
    for (size_t i = 0; i < n; i++, done++) {
      nm_verdict verdict = input_one(engine, id, &frames[done], &k[i]);
      if (verdicts != NULL) {
        verdicts[done] = verdict;
      }
    }
  }
}

/* ---- the duplicate filter, as snapshot.h shows it ---- */

size_t nm_engine_filter_size(const nm_engine *engine) {
  return engine->filter.current.count + engine->filter.previous.count;
}

bool nm_engine_filter_has(const nm_engine *engine, const nm_packet_hash *hash) {
  return nm_filter_has(&engine->filter, hash);
}

void nm_engine_filter_put(nm_engine *engine, const nm_packet_hash *hash) {
  nm_filter_put(&engine->filter, hash);
}

uint64_t nm_engine_filter_kept(nm_engine *engine, uint64_t cursor, bool all,
                               void (*visit)(void *user,
                                             const nm_packet_hash *hash),
                               void *user) {
  return nm_filter_keep(&engine->filter, cursor, all, visit, user);
}

void nm_engine_filter_drop(nm_engine *engine, const nm_packet_hash *hash) {
  nm_filter_drop(&engine->filter, hash);
}
