/* Single packets on their way out (RNS 1, 8.3, 2.2).
 */
#include "stack/send.h"
#include "stack/internal.h"
#include "wire/decisions.h"

#include <string.h>

void nm_send_spec_default(nm_send_spec *spec) {
  memset(spec, 0, sizeof(*spec));
  spec->type = NM_SINGLE;
  spec->receipt = true;
  spec->use_ratchet = true;
}

/* Whose keys a SINGLE packet is for. */
typedef struct recipient {
  uint8_t x25519[NM_KEY_SIZE];
  uint8_t ed25519[NM_KEY_SIZE];
  nm_identity_hash hash;
} recipient;

static bool find_recipient(nm_engine *engine, const nm_send_spec *spec,
                           recipient *to) {
  nm_identity identity;
  if (!nm_engine_recall(engine, &spec->destination, &identity, NULL, NULL,
                        engine->now)) {
    return false;
  }
  to->hash = identity.hash;
  nm_reader r = nm_reader_of(nm_span_of(identity.public_key, NM_PUBLIC_SIZE));
  (void)nm_reader_copy(&r, to->x25519, NM_KEY_SIZE);
  (void)nm_reader_copy(&r, to->ed25519, NM_KEY_SIZE);
  if (spec->use_ratchet) {
    (void)nm_engine_ratchet_of(engine, &spec->destination, to->x25519,
                               engine->now);
  }
  return true;
}

static bool anything_online(const nm_engine *engine) {
  nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    if (nm_iface_can_send(iface)) {
      return true;
    }
  }
  return false;
}

static uint64_t timeout_of(nm_engine *engine, const nm_send_spec *spec) {
  if (spec->timeout_us != 0) {
    return spec->timeout_us;
  }
  nm_way way;
  nm_way_to(engine, &spec->destination, &way);
  double bitrate = way.iface == NULL ? 0 : nm_iface_bitrate(way.iface);
  return nm_us(nm_receipt_timeout(way.hops, bitrate));
}

/* ---- SINGLE: sealed by a job ---- */

static void packet_sealed(nm_engine *engine, nm_job *job) {
  nm_job_seal_packet *j = &job->u.seal_packet;
  nm_op *op = job->op == 0 ? NULL : nm_op_find(&engine->ops, job->op);
  if (job->op != 0 && op == NULL) {
    return; /* cancelled meanwhile */
  }
  nm_receipt *receipt = op == NULL ? NULL : op->owner;
  int status = job->status;
  if (status == NM_OK && receipt != NULL) {
    status = nm_receipt_register(engine, receipt, &j->hash);
  }
  if (status == NM_OK) {
    nm_way way;
    nm_way_to(engine, &job->destination, &way);
    nm_filter_put(&engine->filter, &j->hash);
    status = nm_way_send(engine, &way, nm_block_hold(j->raw), job->op);
  }
  if (status != NM_OK && receipt != NULL) {
    nm_receipt_end(engine, receipt, NM_RECEIPT_FAILED, NM_STAGE_SEND);
  }
}

static int fill_seal(nm_engine *engine, const nm_send_spec *spec,
                     const recipient *to, nm_job_seal_packet *j) {
  memcpy(j->target, to->x25519, NM_KEY_SIZE);
  j->salt = to->hash;
  j->context = spec->context;
  j->plaintext = nm_block_copy(engine->mem, spec->payload);
  if (j->plaintext == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(j->plaintext);
  int status = nm_engine_random(engine, j->ephemeral, sizeof(j->ephemeral));
  return status == NM_OK ? nm_engine_random(engine, j->iv, sizeof(j->iv))
                         : status;
}

static int send_single(nm_engine *engine, const nm_send_spec *spec,
                       bool receipted, nm_op_id *id) {
  recipient to;
  if (!find_recipient(engine, spec, &to)) {
    return NM_E(MISSING);
  }
  if (spec->payload.len > NM_ENCRYPTED_MDU) {
    return NM_E(TOO_LARGE);
  }
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_SEAL_PACKET, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->destination = spec->destination;
  job->done = packet_sealed;
  int status = fill_seal(engine, spec, &to, &job->u.seal_packet);
  if (status == NM_OK && receipted) {
    nm_receipt *receipt = nm_receipt_new(engine, &spec->destination, to.ed25519,
                                         0, timeout_of(engine, spec));
    status = receipt == NULL ? NM_E(MEMORY) : NM_OK;
    job->op = receipt == NULL ? 0 : receipt->op;
  }
  if (status != NM_OK) {
    nm_engine_scrap_job(engine, job);
    return status;
  }
  *id = job->op;
  nm_engine_submit(engine, job);
  return NM_OK;
}

/* ---- GROUP and PLAIN: direct neighbours, no proof ever comes ---- */

static int send_shared(nm_engine *engine, const nm_send_spec *spec) {
  uint8_t sealed[NM_MTU];
  nm_span payload = spec->payload;
  if (spec->type == NM_GROUP) {
    nm_token_key key;
    uint8_t iv[NM_AES_BLOCK];
    int status = nm_token_key_init(&key, spec->group_key);
    if (status == NM_OK) {
      status = nm_token_size(payload.len) > NM_MTU - NM_HEADER_1_SIZE
                   ? NM_E(TOO_LARGE)
                   : nm_engine_random(engine, iv, sizeof(iv));
    }
    if (status == NM_OK) {
      status = nm_token_seal(&engine->cipher, &key, iv, payload, sealed);
    }
    nm_token_key_wipe(&key);
    if (status != NM_OK) {
      return status;
    }
    payload = nm_span_of(sealed, nm_token_size(payload.len));
  }
  nm_packet packet = nm_packet_of(NM_DATA, spec->type, spec->context,
                                  spec->destination.b, payload);
  if (nm_packet_size(&packet) > NM_MTU) {
    return NM_E(TOO_LARGE);
  }
  nm_block *raw = nm_block_new(engine->mem, nm_packet_size(&packet));
  if (raw == NULL) {
    return NM_E(MEMORY);
  }
  size_t len = 0;
  int status =
      nm_packet_pack(&packet, NM_PACKET_ORIGINATE, NM_MTU, nm_block_bytes(raw),
                     nm_block_span(raw).len, &len, NULL);
  if (status != NM_OK) {
    nm_block_drop(raw);
    return status;
  }
  return nm_iface_broadcast(engine, raw, NULL, 0) > 0 ? NM_OK : NM_E(STATE);
}

int nm_engine_send(nm_engine *engine, const nm_send_spec *spec, nm_op_id *op,
                   nm_now now) {
  engine->now = now;
  *op = 0;
  if (engine->closing || !anything_online(engine)) {
    return NM_E(STATE);
  }
  if (spec->payload.len == 0 && spec->type == NM_PLAIN) {
    return NM_E(EMPTY);
  }
  if (spec->type != NM_SINGLE) {
    return spec->type == NM_GROUP || spec->type == NM_PLAIN
               ? send_shared(engine, spec)
               : NM_E(TYPE);
  }
  bool receipted = spec->receipt &&
                   nm_packet_has_receipt(NM_DATA, spec->type, spec->context);
  return send_single(engine, spec, receipted, op);
}

int nm_engine_inject(nm_engine *engine, nm_iface_id id, nm_span raw,
                     nm_now now) {
  engine->now = now;
  nm_iface *iface = id == 0 ? NULL : nm_iface_find(engine, id);
  if (id != 0 && iface == NULL) {
    return NM_E(MISSING);
  }
  nm_block *packet = nm_block_copy(engine->mem, raw);
  if (packet == NULL) {
    return NM_E(MEMORY);
  }
  if (iface != NULL) {
    return nm_iface_send(engine, iface, packet, 0);
  }
  nm_packet parsed = {0};
  nm_way way = {.hops = NM_HOPS_UNKNOWN};
  if (nm_packet_parse(raw, &parsed, NULL) == NM_OK &&
      parsed.packet_type != NM_ANNOUNCE && parsed.header_type == NM_HEADER_1) {
    nm_destination_hash hash;
    memcpy(hash.b, parsed.destination.ptr, sizeof(hash.b));
    nm_way_to(engine, &hash, &way);
  }
  return nm_way_send(engine, &way, packet, 0);
}
