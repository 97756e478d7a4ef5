/* Packets carried on for others: by their transport id, on their way back as
 * proofs, and PLAIN ones across a shared instance (RNS 1, 8.5 steps 5 and 6,
 * 8.10).
 */
#include "stack/internal.h"
#include "stack/transport_snapshot.h"
#include "wire/link.h"

#include <string.h>

#define REVERSE_LIFE_US (480ull * 1000000)

static void dispose_reverse(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_reverse *reverse = (nm_reverse *)(void *)entry;
  /* Kept for the next packet: forwarding does not allocate. */
  reverse->link.chain = (nm_table_link *)(void *)engine->carried.spare;
  engine->carried.spare = reverse;
}

int nm_forwarding_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = engine->limits.reverses,
      .key_size = NM_ADDRESS_SIZE,
      .key_offset = offsetof(nm_reverse, key),
      .dispose = dispose_reverse,
  };
  return nm_engine_table(engine, &engine->carried.reverses, &config);
}

static nm_reverse *take_spare(nm_engine *engine) {
  nm_reverse *spare = engine->carried.spare;
  if (spare != NULL) {
    engine->carried.spare = (nm_reverse *)(void *)spare->link.chain;
  }
  return spare;
}

void nm_forwarding_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->carried.reverses);
  nm_reverse *spare;
  while ((spare = take_spare(engine)) != NULL) {
    nm_release(engine->mem, spare);
  }
}

/* ---- the way back ---- */

static nm_reverse *find_reverse(const nm_engine *engine, const uint8_t *key) {
  return (nm_reverse *)(void *)nm_table_find(&engine->carried.reverses, key);
}

/* The entry of |key|, whose hash is |hash|; the oldest one makes room. NULL
 * without memory. */
static nm_reverse *ensure_reverse(nm_engine *engine, const uint8_t *key,
                                  uint64_t hash) {
  nm_table *table = &engine->carried.reverses;
  nm_reverse *reverse =
      (nm_reverse *)(void *)nm_table_find_hashed(table, hash, key);
  if (reverse != NULL) {
    nm_table_touch(table, &reverse->link);
    return reverse;
  }
  if (table->count >= table->config.capacity) {
    nm_table_link *oldest = nm_table_next(table, NULL);
    nm_table_remove(table, oldest);
    dispose_reverse(engine, oldest);
    engine->stats.reverses_evicted++;
  }
  reverse = take_spare(engine);
  if (reverse == NULL) {
    reverse = nm_alloc_zero(engine->mem, 1, sizeof(*reverse));
  }
  if (reverse == NULL) {
    return NULL;
  }
  memcpy(reverse->key, key, NM_ADDRESS_SIZE);
  if (nm_table_insert_hashed(table, &reverse->link, hash) != NM_OK) {
    dispose_reverse(engine, &reverse->link);
    return NULL;
  }
  return reverse;
}

static void remember_way_back(nm_engine *engine, const nm_input *input,
                              nm_iface_id out) {
  nm_reverse *reverse =
      ensure_reverse(engine, input->frame->hash.b, input->packet_key);
  if (reverse != NULL) {
    reverse->received = input->iface->id;
    reverse->out = out;
    reverse->at_us = engine->now.mono_us;
  }
}

/* ---- the packet ---- */

/* The header for the next hop with |payload| (RNS 1, 8.10.1). */
static nm_block *rewritten(nm_engine *engine, const nm_input *input,
                           const nm_path *path, nm_span payload) {
  nm_packet p = input->frame->packet;
  p.ifac_flag = 0;
  p.hops = input->hops;
  p.payload = payload;
  if (path->hops > 1) {
    p.header_type = NM_HEADER_2;
    p.transport_id = nm_span_of(path->next_hop, NM_ADDRESS_SIZE);
  } else if (path->hops == 1) {
    p.header_type = NM_HEADER_1;
    p.context_flag = 0;
    p.transport_type = NM_BROADCAST;
    p.transport_id = nm_span_of(NULL, 0);
  }
  return nm_engine_pack(engine, &p, NM_PACKET_RELAY, SIZE_MAX);
}

static nm_link_interface as_clamped(const nm_iface *iface) {
  size_t mtu = iface->spec.hw_mtu;
  nm_link_interface out = {
      .hw_mtu = (uint32_t)(mtu > NM_LINK_MTU_MAX ? NM_LINK_MTU_MAX : mtu),
      .adjusts = iface->spec.mtu_mode != NM_MTU_NONE};
  return out;
}

/* The payload of a link request within what both interfaces carry. */
static nm_drop clamp(const nm_input *input, const nm_iface *out,
                     uint8_t buffer[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE],
                     nm_span *payload) {
  nm_link_request request;
  if (nm_link_request_parse(input->frame->packet.payload, &request, NULL) !=
      NM_OK) {
    return NM_DROP_LINK_REQUEST_MALFORMED;
  }
  nm_link_interface received = as_clamped(input->iface);
  nm_link_interface next = as_clamped(out);
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint32_t mtu = 0;
  const uint8_t *kept = NULL;
  switch (nm_link_clamp_relayed(&request.signalling, &received, &next, &mtu)) {
  case NM_LINK_CLAMP_KEEP:
    *payload = input->frame->packet.payload;
    return NM_DROP_NONE;
  case NM_LINK_CLAMP_DROP:
    return NM_DROP_LINK_REQUEST_MALFORMED;
  case NM_LINK_CLAMP_REPLACE:
    if (nm_link_signalling_pack(mtu, request.signalling.mode, signalling) !=
        NM_OK) {
      return NM_DROP_LINK_REQUEST_MALFORMED;
    }
    kept = signalling;
    break;
  case NM_LINK_CLAMP_REMOVE:
    break;
  }
  nm_writer w = nm_writer_of(buffer, NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE);
  if (nm_link_request_write(&w, request.x25519_public.ptr,
                            request.ed25519_public.ptr, kept) != NM_OK) {
    return NM_DROP_LINK_REQUEST_MALFORMED;
  }
  *payload = nm_writer_done(&w);
  return NM_DROP_NONE;
}

/* ---- along the path ---- */

static nm_drop along_path(nm_engine *engine, nm_input *input, nm_path *path) {
  nm_iface *out = nm_iface_find(engine, path->iface);
  if (!nm_iface_can_send(out) && nm_path_sidestep(engine, path)) {
    out = nm_iface_find(engine, path->iface);
  }
  const nm_packet *p = &input->frame->packet;
  nm_span payload = p->payload;
  uint8_t buffer[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  nm_link_id id;
  bool opens = p->packet_type == NM_LINKREQUEST;
  if (input->hops >= NM_HOPS_MAX) {
    return NM_DROP_HOPS;
  }
  if (opens) {
    nm_drop drop = nm_link_id_of(p, &id, NULL) == NM_OK
                       ? clamp(input, out, buffer, &payload)
                       : NM_DROP_LINK_REQUEST_MALFORMED;
    if (drop != NM_DROP_NONE) {
      return drop;
    }
  }
  nm_block *packet = rewritten(engine, input, path, payload);
  if (packet == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  if (opens) {
    nm_transit_add(engine, &id, path, input->iface, input->hops);
  } else {
    remember_way_back(engine, input, out->id);
  }
  nm_path_use(engine, path);
  nm_table_touch(&engine->routes.paths, &path->link);
  engine->stats.forwarded++;
  int status = nm_iface_send(engine, out, packet, 0);
  return status == NM_OK ? NM_DROP_NONE : NM_DROP_NOT_FORWARDED;
}

/* A proof on its way back: each entry serves one (RNS 1, 8.10.5). */
static bool back(nm_engine *engine, nm_input *input, nm_drop *drop) {
  nm_table *table = &engine->carried.reverses;
  nm_reverse *reverse =
      find_reverse(engine, input->frame->packet.destination.ptr);
  if (reverse == NULL) {
    return false;
  }
  nm_iface *to = nm_iface_find(engine, reverse->received);
  bool right = reverse->out == input->iface->id;
  bool fresh = engine->now.mono_us <= reverse->at_us + REVERSE_LIFE_US;
  nm_table_remove(table, &reverse->link);
  dispose_reverse(engine, &reverse->link);
  *drop = NM_DROP_PROOF_IFACE;
  if (right && fresh && to != NULL && input->hops < NM_HOPS_MAX) {
    nm_block *packet = nm_forward_counted(engine, input);
    *drop = packet == NULL ? NM_DROP_NO_MEMORY : NM_DROP_NONE;
    if (packet != NULL) {
      engine->stats.forwarded++;
      (void)nm_iface_send(engine, to, packet, 0);
    }
  }
  return true;
}

/* ---- PLAIN packets across a shared instance (RNS 1, 8.5 step 5) ---- */

static void bridge(nm_engine *engine, const nm_input *input) {
  bool from_client = input->iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  nm_block *packet = nm_block_copy(engine->mem, input->frame->raw);
  nm_iface *out = NULL;
  while (packet != NULL && (out = nm_iface_after(engine, out)) != NULL) {
    bool wanted = from_client ? out != input->iface
                              : out->spec.role == NM_ROLE_LOCAL_CLIENT;
    if (wanted && nm_iface_can_send(out)) {
      (void)nm_iface_send(engine, out, nm_block_hold(packet), 0);
    }
  }
  nm_block_drop(packet);
}

static bool is_control(const nm_packet *p) {
  return memcmp(p->destination.ptr, nm_path_request_address.b,
                NM_ADDRESS_SIZE) == 0 ||
         memcmp(p->destination.ptr, nm_tunnel_address.b, NM_ADDRESS_SIZE) == 0;
}

/* ---- what is whose ---- */

static nm_transit *transit_of(const nm_engine *engine, const nm_input *input) {
  const nm_table *transits = &engine->carried.transits;
  return transits->count == 0 ? NULL
                              : (nm_transit *)(void *)nm_table_find_hashed(
                                    transits, input->destination_key,
                                    input->frame->packet.destination.ptr);
}

bool nm_forward_defers_hash(const nm_engine *engine, const nm_input *input) {
  return transit_of(engine, input) != NULL;
}

void nm_forward_fetch(const nm_engine *engine, uint64_t packet_key,
                      uint64_t destination_key, int round) {
  const nm_transport *t = &engine->carried;
  const nm_table *paths = &engine->routes.paths;
  if (!nm_transport_is_on(engine)) {
    return;
  }
  if (round == 0) {
    nm_table_fetch_place(paths, destination_key);
    nm_table_fetch_place(&t->reverses, packet_key);
    nm_table_fetch_place(&t->transits, destination_key);
  } else if (round == 1) {
    nm_table_fetch_entry(paths, destination_key);
    nm_table_fetch_entry(&t->reverses, packet_key);
    nm_table_fetch_entry(&t->transits, destination_key);
  } else {
    nm_table_fetch_neighbours(paths, destination_key);
  }
}

void nm_forward_fetch_room(const nm_engine *engine, size_t count, int round) {
  const nm_table *reverses = &engine->carried.reverses;
  if (round < 2 && reverses->count + count > reverses->config.capacity) {
    nm_table_fetch_oldest(reverses, count, round);
  }
}

static bool leads_to_client(const nm_engine *engine, const nm_path *path) {
  const nm_iface *out =
      path == NULL ? NULL : nm_iface_find(engine, path->iface);
  return out != NULL && path->hops == 0 &&
         out->spec.role == NM_ROLE_LOCAL_CLIENT;
}

/* A HEADER_2 packet has passed the filter, so it names this node; a HEADER_1
 * packet for a client's destination is meant for this node as well. */
static bool goes_along_path(const nm_engine *engine, const nm_input *input,
                            const nm_path *path) {
  const nm_packet *p = &input->frame->packet;
  if (path == NULL) {
    return false;
  }
  bool client = leads_to_client(engine, path);
  bool from_client = input->iface->spec.role == NM_ROLE_LOCAL_CLIENT;
  bool named = p->header_type == NM_HEADER_2;
  return (named && (engine->transport || from_client || client)) ||
         (!named && client);
}

bool nm_forward(nm_engine *engine, nm_input *input, nm_drop *drop) {
  const nm_packet *p = &input->frame->packet;
  if (!nm_transport_is_on(engine) || p->packet_type == NM_ANNOUNCE) {
    return false;
  }
  if (p->destination_type == NM_PLAIN && p->packet_type == NM_DATA) {
    if (engine->carried.clients > 0 && p->transport_type == NM_BROADCAST &&
        !is_control(p)) {
      bridge(engine, input);
    }
    return false;
  }
  nm_transit *transit = transit_of(engine, input);
  if (transit != NULL && p->packet_type != NM_LINKREQUEST) {
    bool proof = p->packet_type == NM_PROOF && p->context == NM_CONTEXT_LRPROOF;
    *drop = proof ? nm_transit_proof(engine, input, transit)
                  : nm_transit_packet(engine, input, transit);
    return true;
  }
  if (p->packet_type == NM_PROOF) {
    return back(engine, input, drop);
  }
  nm_destination_hash hash;
  memcpy(hash.b, p->destination.ptr, NM_ADDRESS_SIZE);
  nm_path *path = nm_path_find_keyed(engine, &hash, input->destination_key);
  if (!goes_along_path(engine, input, path)) {
    return false;
  }
  *drop = along_path(engine, input, path);
  return true;
}

/* ---- records ---- */

bool nm_engine_reverse_next(const nm_engine *engine, const uint8_t *after,
                            nm_reverse_record *record) {
  memset(record, 0, sizeof(*record));
  const nm_reverse *at = after == NULL ? NULL : find_reverse(engine, after);
  if (after != NULL && at == NULL) {
    return false;
  }
  do {
    at = (const nm_reverse *)(const void *)nm_table_next(
        &engine->carried.reverses, at == NULL ? NULL : &at->link);
  } while (at != NULL && engine->now.mono_us > at->at_us + REVERSE_LIFE_US);
  if (at == NULL) {
    return false;
  }
  memcpy(record->key, at->key, NM_ADDRESS_SIZE);
  record->received = at->received;
  record->out = at->out;
  record->at_mono_us = at->at_us;
  record->at_unix_us = nm_unix_of(engine, at->at_us);
  return true;
}

int nm_engine_reverse_put(nm_engine *engine, const nm_reverse_record *record) {
  uint64_t hash = nm_table_hash(&engine->carried.reverses, record->key);
  nm_reverse *reverse = ensure_reverse(engine, record->key, hash);
  if (reverse == NULL) {
    return NM_E(MEMORY);
  }
  reverse->received = record->received;
  reverse->out = record->out;
  reverse->at_us = record->at_mono_us;
  return NM_OK;
}

int nm_engine_reverse_drop(nm_engine *engine,
                           const uint8_t key[NM_ADDRESS_SIZE]) {
  nm_reverse *reverse = find_reverse(engine, key);
  if (reverse == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&engine->carried.reverses, &reverse->link);
  dispose_reverse(engine, &reverse->link);
  return NM_OK;
}
