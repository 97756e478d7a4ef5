/* The handshake of a link, both sides (RNS 2, 1.2 to 1.7).
 */
#include "stack/link_state.h"
#include "wire/decisions.h"

#include <string.h>

/* Every medium carries 500 bytes, so no path has a smaller MTU. Whoever signals
 * one wants others to cut their resources into very many parts. */
static bool mtu_is_absurd(const nm_link_signalling *signalling) {
  return signalling->present && signalling->signalled != 0 &&
         signalling->signalled < NM_MTU;
}

/* Proofs of one pending link that are verified at the same time: a forged one
 * must not keep the genuine one out. */
#define CONFIRMING_MAX 4

/* ---- initiator: request ---- */

static nm_block *request_packet(nm_engine *engine, const nm_link *link,
                                const nm_job_link_keys *keys) {
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t payload[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  if (nm_link_signalling_pack(link->opening->offered_mtu, link->mode,
                              signalling) != NM_OK ||
      nm_link_request_write(&w, keys->x25519_public, keys->ed25519_public,
                            signalling) != NM_OK) {
    return NULL;
  }
  nm_packet packet = nm_packet_of(NM_LINKREQUEST, NM_SINGLE, NM_CONTEXT_NONE,
                                  link->destination.b, nm_writer_done(&w));
  return nm_engine_pack(engine, &packet, NM_PACKET_ORIGINATE, NM_MTU);
}

/* The MTU to ask for: the next hop's, when that adjusts it (RNS 2, 1.2). */
static uint32_t mtu_to_offer(const nm_engine *engine, const nm_way *way) {
  return engine->link_mtu_discovery && way->iface != NULL
             ? nm_iface_link_mtu(way->iface)
             : NM_MTU;
}

/* Registers the link and sends its request: in this order, since the proof
 * may be back before the call returns. */
static int send_request(nm_engine *engine, nm_link *link,
                        const nm_job_link_keys *keys) {
  nm_way way;
  nm_way_to(engine, &link->destination, &way);
  link->hops = way.hops;
  nm_link_opening *opening = link->opening;
  opening->offered_mtu = mtu_to_offer(engine, &way);
  nm_block *raw = request_packet(engine, link, keys);
  if (raw == NULL) {
    return NM_E(MEMORY);
  }
  nm_packet packet;
  nm_link_id id;
  nm_packet_hash hash;
  int status = nm_packet_parse(nm_block_span(raw), &packet, NULL);
  if (status == NM_OK) {
    status = nm_link_id_of(&packet, &id, NULL);
  }
  if (status == NM_OK) {
    status = nm_link_index(engine, link, &id);
  }
  if (status != NM_OK) {
    nm_block_drop(raw);
    return status;
  }
  memcpy(opening->x25519_private, keys->x25519_private, NM_KEY_SIZE);
  opening->has_ephemeral = true;
  memcpy(link->sign_seed, keys->ed25519_seed, NM_KEY_SIZE);
  link->requested_at = engine->now.mono_us;
  link->last_outbound = engine->now.mono_us;
  link->establish_bytes = (uint32_t)nm_block_span(raw).len;
  nm_packet_digest(&packet, &hash);
  nm_filter_put(&engine->filter, &hash);
  double bitrate = way.iface == NULL ? 0 : nm_iface_bitrate(way.iface);
  uint64_t wait = opening->establish_us != 0
                      ? opening->establish_us
                      : nm_us(nm_establishment_timeout(way.hops, bitrate));
  nm_engine_arm(engine, &link->timer, wait);
  return nm_way_send(engine, &way, raw, 0);
}

static void keys_made(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  if (link == NULL || link->state != NM_LINK_PENDING) {
    return;
  }
  int status = job->status;
  if (status == NM_OK) {
    status = send_request(engine, link, &job->u.link_keys);
  }
  if (status != NM_OK) {
    nm_link_end(engine, link,
                status == NM_E(MEMORY) ? NM_CLOSE_NO_MEMORY : NM_CLOSE_NO_PATH,
                false);
  }
}

static int make_keys(nm_engine *engine, nm_link *link) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_LINK_KEYS, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->done = keys_made;
  job->link = link->ref;
  nm_job_link_keys *j = &job->u.link_keys;
  int status = nm_engine_random(engine, j->x25519_private, NM_KEY_SIZE);
  if (status == NM_OK) {
    status = nm_engine_random(engine, j->ed25519_seed, NM_KEY_SIZE);
  }
  if (status != NM_OK) {
    nm_engine_scrap_job(engine, job);
    return status;
  }
  nm_engine_submit(engine, job);
  return NM_OK;
}

/* Something must be able to carry the request. */
static bool can_reach(nm_engine *engine, const nm_destination_hash *hash) {
  nm_way way;
  nm_way_to(engine, hash, &way);
  if (way.iface != NULL) {
    return nm_iface_can_send(way.iface);
  }
  nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    if (nm_iface_can_send(iface)) {
      return true;
    }
  }
  return false;
}

int nm_engine_link_open(nm_engine *engine, const nm_destination_hash *hash,
                        uint64_t timeout_us, nm_link_ref *ref, nm_now now) {
  engine->now = now;
  *ref = 0;
  nm_identity identity;
  if (engine->closing || !can_reach(engine, hash)) {
    return NM_E(STATE);
  }
  if (!nm_engine_recall(engine, hash, &identity, NULL, NULL, now)) {
    return NM_E(MISSING);
  }
  if (!nm_link_room(engine)) {
    return NM_E(LIMIT);
  }
  nm_link *link = nm_link_new(engine, true, nm_link_watch_fired);
  if (link == NULL) {
    return NM_E(MEMORY);
  }
  link->destination = *hash;
  link->opening->establish_us = timeout_us;
  link->resources = NM_ACCEPT_NONE;
  link->resource_max = engine->limits.resource_in_max;
  link->requested_at = now.mono_us;
  link->identified = true;
  link->remote_identity = identity.hash;
  nm_reader r = nm_reader_of(nm_span_of(identity.public_key, NM_PUBLIC_SIZE));
  (void)nm_reader_take(&r, NM_KEY_SIZE);
  (void)nm_reader_copy(&r, link->peer_ed25519, NM_KEY_SIZE);
  int status = make_keys(engine, link);
  if (status != NM_OK) {
    nm_link_scrap(engine, link);
    return status;
  }
  *ref = link->ref;
  return NM_OK;
}

/* ---- initiator: proof ---- */

/* Another hop count than expected is adopted once the signature is good
 * (RNS 1, 8.10.4). */
static void adopt_hops(nm_engine *engine, nm_link *link, uint8_t hops) {
  if (hops == link->hops) {
    return;
  }
  link->hops = hops;
  nm_path *path = nm_path_find(engine, &link->destination);
  if (path != NULL && path->iface == link->iface) {
    path->hops = hops;
  }
}

static void send_rtt(nm_engine *engine, nm_link *link) {
  uint8_t payload[NM_LINK_RTT_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  (void)nm_link_rtt_write(&w, nm_seconds(link->rtt_us));
  (void)nm_link_emit(engine, link, NM_DATA, NM_CONTEXT_LRRTT,
                     nm_writer_done(&w), NULL);
}

static nm_drop confirm(nm_engine *engine, nm_link *link, const nm_job *job) {
  const nm_job_link_confirm *j = &job->u.link_confirm;
  if (job->status == NM_E(SIGNATURE)) {
    return NM_DROP_LINK_PROOF_SIGNATURE;
  }
  if (job->status != NM_OK && job->status != NM_E(MODE)) {
    return NM_DROP_LINK_PROOF_MALFORMED;
  }
  /* The signature is good: what is wrong now is the responder's word. */
  if (job->status == NM_E(MODE) || j->mode != link->mode ||
      j->mtu > link->opening->offered_mtu || j->mtu < NM_MTU) {
    nm_link_end(engine, link, NM_CLOSE_REFUSED, false);
    return NM_DROP_LINK_PROOF_MODE;
  }
  link->key = j->key;
  link->has_key = true;
  link->mtu = j->mtu;
  link->iface = job->origin;
  link->establish_bytes += (uint32_t)nm_block_span(j->proof).len;
  adopt_hops(engine, link, job->frame.packet.hops);
  nm_filter_put(&engine->filter, &job->frame.hash);
  nm_link_activate(engine, link, engine->now.mono_us - link->requested_at);
  send_rtt(engine, link);
  (void)nm_engine_mark_path(engine, &link->destination, true, engine->now);
  return NM_DROP_NONE;
}

static void proof_checked(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_drop drop = NM_DROP_NO_LINK;
  if (link != NULL) {
    if (link->opening != NULL) {
      link->opening->confirming--;
    }
    drop = link->state == NM_LINK_PENDING ? confirm(engine, link, job)
                                          : NM_DROP_LINK_STATE;
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

nm_drop nm_links_proof(nm_engine *engine, nm_input *input) {
  const nm_packet *p = &input->frame->packet;
  nm_link *link = nm_link_find_id(engine, p->destination.ptr);
  if (link == NULL) {
    return NM_DROP_NO_LINK;
  }
  if (!link->initiator || link->state != NM_LINK_PENDING) {
    return NM_DROP_LINK_STATE;
  }
  nm_link_proof proof;
  if (nm_link_proof_parse(p->payload, &proof, NULL) != NM_OK) {
    return NM_DROP_LINK_PROOF_MALFORMED;
  }
  if (link->opening->confirming >= CONFIRMING_MAX) {
    return NM_DROP_JOBS_SHARE;
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_LINK_CONFIRM, input, &drop);
  if (job == NULL) {
    return drop;
  }
  job->done = proof_checked;
  job->link = link->ref;
  nm_job_link_confirm *j = &job->u.link_confirm;
  j->link_id = link->id;
  memcpy(j->x25519_private, link->opening->x25519_private, NM_KEY_SIZE);
  memcpy(j->ed25519_public, link->peer_ed25519, NM_KEY_SIZE);
  j->proof = nm_block_copy(engine->mem, input->frame->raw);
  if (j->proof == NULL) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  link->opening->confirming++;
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* ---- responder ---- */

static void proof_ready(nm_engine *engine, nm_job *job) {
  nm_link *link = nm_link_find(engine, job->link);
  nm_drop drop = NM_DROP_NONE;
  nm_job_link_accept *j = &job->u.link_accept;
  if (link == NULL || link->state != NM_LINK_PENDING) {
    drop = NM_DROP_LINK_STATE;
  } else if (job->status != NM_OK) {
    drop = job->status == NM_E(MEMORY) ? NM_DROP_NO_MEMORY
                                       : NM_DROP_LINK_REQUEST_MALFORMED;
    nm_link_end(engine, link, NM_CLOSE_PROTOCOL, false);
  } else {
    link->key = j->key;
    link->has_key = true;
    link->state = NM_LINK_HANDSHAKE;
    link->opening->proof_sent_at = engine->now.mono_us;
    link->last_outbound = engine->now.mono_us;
    link->establish_bytes += (uint32_t)nm_block_span(j->proof).len;
    nm_engine_arm(engine, &link->timer,
                  nm_us(nm_responder_timeout(link->hops)));
    (void)nm_link_put(engine, link, nm_block_hold(j->proof), 0);
  }
  nm_engine_settle(engine, job->origin, job->seq, &job->frame.hash, drop);
}

static nm_drop submit_accept(nm_engine *engine, nm_input *input, nm_link *link,
                             const nm_link_request *request) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_LINK_ACCEPT, input, &drop);
  if (job == NULL) {
    return drop;
  }
  job->done = proof_ready;
  job->link = link->ref;
  nm_job_link_accept *j = &job->u.link_accept;
  j->identity = nm_block_hold(link->identity);
  j->link_id = link->id;
  j->mtu = link->mtu;
  j->mode = link->mode;
  memcpy(j->peer_x25519, request->x25519_public.ptr, NM_KEY_SIZE);
  if (nm_engine_random(engine, j->x25519_private, NM_KEY_SIZE) != NM_OK) {
    nm_engine_scrap_job(engine, job);
    return NM_DROP_NO_MEMORY;
  }
  nm_engine_submit(engine, job);
  input->pending = true;
  return NM_DROP_NONE;
}

/* The MTU this side confirms: what was asked for, within what the interface
 * carries (RNS 2, 1.4). */
static uint32_t mtu_to_confirm(const nm_iface *iface,
                               const nm_link_signalling *asked) {
  nm_link_interface received = {
      .hw_mtu =
          (uint32_t)(iface->spec.hw_mtu > NM_LINK_MTU_MAX ? NM_LINK_MTU_MAX
                                                          : iface->spec.hw_mtu),
      .adjusts = iface->spec.mtu_mode != NM_MTU_NONE};
  uint32_t mtu = asked->mtu;
  switch (nm_link_clamp_local(asked, &received, &mtu)) {
  case NM_LINK_CLAMP_REPLACE:
    return mtu;
  case NM_LINK_CLAMP_REMOVE:
    return NM_MTU;
  default:
    return asked->mtu;
  }
}

static void fill_responder(nm_engine *engine, nm_link *link,
                           const nm_input *input, const nm_local *local,
                           const nm_link_request *request) {
  link->destination = local->hash;
  link->identity = nm_block_hold(local->identity);
  link->iface = input->iface->id;
  link->hops = input->hops;
  link->mtu = mtu_to_confirm(input->iface, &request->signalling);
  link->mode = request->signalling.mode;
  link->requested_at = engine->now.mono_us;
  link->last_inbound = engine->now.mono_us;
  link->establish_bytes = (uint32_t)input->frame->raw.len;
  link->resources = local->resources;
  link->hold_resources = local->hold_resources;
  link->opens_channel = local->channels;
  link->resource_max = local->resource_max;
  link->shelf = local->shelf == NULL ? NULL : nm_shelf_hold(local->shelf);
  link->shelf_max = local->shelf_max;
  memcpy(link->peer_ed25519, request->ed25519_public.ptr, NM_KEY_SIZE);
}

nm_drop nm_links_request(nm_engine *engine, nm_input *input, nm_local *local) {
  const nm_packet *p = &input->frame->packet;
  nm_link_request request;
  nm_link_id id;
  if (!local->accepts_links) {
    return NM_DROP_NOT_ACCEPTING;
  }
  if (nm_link_request_parse(p->payload, &request, NULL) != NM_OK ||
      nm_link_id_of(p, &id, NULL) != NM_OK ||
      !nm_link_mode_enabled(request.signalling.mode) ||
      mtu_is_absurd(&request.signalling)) {
    return NM_DROP_LINK_REQUEST_MALFORMED;
  }
  if (nm_link_find_id(engine, id.b) != NULL) {
    return NM_DROP_DUPLICATE;
  }
  if (!nm_link_room(engine)) {
    return NM_DROP_NOT_ACCEPTING;
  }
  if (!nm_engine_take_credit(engine)) {
    return NM_DROP_NO_CREDIT;
  }
  nm_link *link = nm_link_new(engine, false, nm_link_watch_fired);
  if (link == NULL) {
    nm_eventq_return_credit(&engine->events);
    return NM_DROP_NO_MEMORY;
  }
  fill_responder(engine, link, input, local, &request);
  nm_drop drop = nm_link_index(engine, link, &id) == NM_OK
                     ? submit_accept(engine, input, link, &request)
                     : NM_DROP_NO_MEMORY;
  if (drop != NM_DROP_NONE) {
    nm_link_scrap(engine, link);
    return drop;
  }
  /* Should the job never come back, the link goes all the same. */
  nm_engine_arm(engine, &link->timer, nm_us(nm_responder_timeout(link->hops)));
  return NM_DROP_NONE;
}
