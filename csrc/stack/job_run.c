/* What jobs compute. Each function reads the job's inputs, sets its results
 * and its status, and touches nothing else.
 */
#include "stack/jobs.h"
#include "wire/control.h"
#include "wire/link.h"
#include "wire/proof.h"

#include <string.h>

static int parse_block(const nm_block *raw, nm_packet *packet) {
  return nm_packet_parse(nm_block_span(raw), packet, NULL);
}

/* Packs |packet|, as its originator, into a block of its own. */
static int pack_block(const nm_mem *mem, const nm_packet *packet,
                      nm_block **out) {
  size_t size = nm_packet_size(packet);
  nm_block *block = nm_block_new(mem, size);
  if (block == NULL) {
    return NM_E(MEMORY);
  }
  size_t len = 0;
  int status = nm_packet_pack(packet, NM_PACKET_ORIGINATE, size,
                              nm_block_bytes(block), size, &len, NULL);
  if (status != NM_OK) {
    nm_block_drop(block);
    return status;
  }
  *out = block;
  return NM_OK;
}

static int run_verify_announce(nm_job_verify_announce *j) {
  nm_packet packet = {0};
  nm_announce announce;
  int status = parse_block(j->raw, &packet);
  if (status == NM_OK) {
    status = nm_announce_parse(&packet, &announce, NULL);
  }
  if (status != NM_OK) {
    j->verdict = NM_ANNOUNCE_MALFORMED;
    return status;
  }
  j->verdict = nm_announce_validate(&announce, j->signature_only,
                                    j->has_expected ? j->expected : NULL);
  return NM_OK;
}

static int run_sign_announce(const nm_mem *mem, nm_job_sign_announce *j) {
  nm_announce_args args = {
      .identity = nm_identity_in(j->identity),
      .name_hash = j->name_hash,
      .ratchet = j->has_ratchet ? j->ratchet : NULL,
      .emitted = j->emitted,
      .random = j->random,
      .context = j->context,
  };
  if (j->app_data != NULL) {
    args.app_data = nm_block_span(j->app_data);
  }
  nm_block *raw = nm_block_new(mem, nm_announce_size(&args));
  if (raw == NULL) {
    return NM_E(MEMORY);
  }
  size_t len = 0;
  int status = nm_announce_create(&args, nm_block_bytes(raw),
                                  nm_block_span(raw).len, &len, NULL);
  if (status != NM_OK) {
    nm_block_drop(raw);
    return status;
  }
  j->raw = raw;
  return NM_OK;
}

static int run_prove(const nm_mem *mem, nm_job_prove *j) {
  const nm_ed25519_sign_key *key =
      j->identity == NULL ? &j->sign : &nm_identity_in(j->identity)->sign;
  uint8_t payload[NM_PROOF_EXPLICIT_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  int status = nm_proof_write(&w, key, &j->hash, j->implicit && !j->on_link);
  if (status != NM_OK) {
    return status;
  }
  nm_packet packet = j->on_link
                         ? nm_proof_link_packet(&j->link_id, nm_writer_done(&w))
                         : nm_proof_packet(&j->hash, nm_writer_done(&w));
  return pack_block(mem, &packet, &j->raw);
}

static int run_verify_proof(const nm_job_verify_proof *j) {
  nm_proof proof = {
      .packet_hash = nm_span_of(NULL, 0),
      .signature = nm_span_of(j->signature, sizeof(j->signature)),
  };
  return nm_proof_verify(&proof, &j->hash, j->public_key);
}

/* The most ratchets one packet is tried against at a time; the list itself is
 * bounded by what its destination retains. */
#define RATCHETS_AT_ONCE 64

static int open_with_keys(nm_cipher *cipher, const nm_job_open_packet *j,
                          nm_span in, uint8_t *out, size_t *len,
                          ptrdiff_t *opened_by) {
  const nm_identity *identity = nm_identity_in(j->identity);
  nm_span all = nm_block_span(j->ratchets);
  size_t count = all.len / NM_KEY_SIZE;
  const uint8_t *keys[RATCHETS_AT_ONCE];
  nm_decrypt_keys set = {.ratchets = keys, .salt = &identity->hash};
  nm_reader r = nm_reader_of(all);
  for (size_t done = 0; done < count; done += set.ratchet_count) {
    set.ratchet_count = 0;
    while (set.ratchet_count < RATCHETS_AT_ONCE &&
           done + set.ratchet_count < count) {
      keys[set.ratchet_count++] = nm_reader_take(&r, NM_KEY_SIZE).ptr;
    }
    int status = nm_identity_decrypt(cipher, &set, in, out, len, opened_by);
    if (status != NM_E(AUTH)) {
      *opened_by += (ptrdiff_t)done;
      return status;
    }
  }
  if (j->enforce) {
    return NM_E(AUTH);
  }
  set.ratchet_count = 0;
  set.identity = identity->private_key;
  return nm_identity_decrypt(cipher, &set, in, out, len, opened_by);
}

static int run_open_packet(const nm_mem *mem, nm_cipher *cipher,
                           nm_job_open_packet *j) {
  nm_packet packet = {0};
  int status = parse_block(j->raw, &packet);
  if (status != NM_OK) {
    return status;
  }
  nm_block *out = nm_block_new(mem, packet.payload.len);
  if (out == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(out);
  size_t len = 0;
  status = open_with_keys(cipher, j, packet.payload, nm_block_bytes(out), &len,
                          &j->opened_by);
  if (status != NM_OK) {
    nm_block_drop(out);
    return status;
  }
  nm_block_trim(out, len);
  j->plaintext = out;
  return NM_OK;
}

static int run_seal_packet(const nm_mem *mem, nm_cipher *cipher,
                           const nm_destination_hash *destination,
                           nm_job_seal_packet *j) {
  nm_span plain = nm_block_span(j->plaintext);
  size_t size = nm_identity_encrypted_size(plain.len);
  uint8_t sealed[NM_MTU];
  if (size > sizeof(sealed) - NM_HEADER_1_SIZE) {
    return NM_E(TOO_LARGE);
  }
  nm_encrypt_params params = {
      .target = j->target,
      .salt = &j->salt,
      .ephemeral = j->ephemeral,
      .iv = j->iv,
  };
  int status = nm_identity_encrypt(cipher, &params, plain, sealed);
  if (status != NM_OK) {
    return status;
  }
  nm_packet packet = nm_packet_of(NM_DATA, NM_SINGLE, j->context,
                                  destination->b, nm_span_of(sealed, size));
  status = pack_block(mem, &packet, &j->raw);
  if (status == NM_OK) {
    status = nm_packet_digest_raw(nm_block_span(j->raw), &j->hash, NULL);
  }
  return status;
}

static int run_link_keys(nm_job_link_keys *j) {
  int status = nm_x25519_public(j->x25519_public, j->x25519_private);
  return status != NM_OK
             ? status
             : nm_ed25519_public(j->ed25519_public, j->ed25519_seed);
}

static int derive(const uint8_t private_key[NM_KEY_SIZE],
                  const uint8_t *public_key, const nm_link_id *id, uint8_t mode,
                  nm_token_key *key) {
  uint8_t bytes[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  int status = nm_link_derive(private_key, public_key, id, mode, bytes, &len);
  if (status == NM_OK) {
    status = nm_token_key_init(key, nm_span_of(bytes, len));
  }
  nm_wipe(bytes, sizeof(bytes));
  return status;
}

static int write_link_proof(const nm_mem *mem, nm_job_link_accept *j,
                            const uint8_t x25519_public[NM_KEY_SIZE]) {
  uint8_t signalling[NM_SIGNALLING_SIZE];
  int status = nm_link_signalling_pack(j->mtu, j->mode, signalling);
  if (status != NM_OK) {
    return status;
  }
  uint8_t payload[NM_LINK_PROOF_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  status = nm_link_proof_write(&w, nm_identity_in(j->identity), &j->link_id,
                               x25519_public, signalling);
  if (status != NM_OK) {
    return status;
  }
  nm_packet packet = nm_packet_of(NM_PROOF, NM_LINK, NM_CONTEXT_LRPROOF,
                                  j->link_id.b, nm_writer_done(&w));
  return pack_block(mem, &packet, &j->proof);
}

static int run_link_accept(const nm_mem *mem, nm_job_link_accept *j) {
  uint8_t x25519_public[NM_KEY_SIZE];
  int status = nm_x25519_public(x25519_public, j->x25519_private);
  if (status == NM_OK) {
    status = derive(j->x25519_private, j->peer_x25519, &j->link_id, j->mode,
                    &j->key);
  }
  nm_wipe(j->x25519_private, sizeof(j->x25519_private));
  return status == NM_OK ? write_link_proof(mem, j, x25519_public) : status;
}

/* Verifies first and derives then, so that a forged proof spoils nothing
 * (RNS 2, 1.5, first quirk). */
static int run_link_confirm(nm_job_link_confirm *j) {
  nm_packet packet = {0};
  nm_link_proof proof;
  int status = parse_block(j->proof, &packet);
  if (status == NM_OK) {
    status = nm_link_proof_parse(packet.payload, &proof, NULL);
  }
  if (status != NM_OK) {
    return status;
  }
  status = nm_link_proof_verify(&proof, &j->link_id, j->ed25519_public);
  if (status != NM_OK) {
    return status;
  }
  j->mtu = proof.signalling.mtu;
  j->mode = proof.signalling.mode;
  if (!nm_link_mode_enabled(j->mode)) {
    return NM_E(MODE);
  }
  return derive(j->x25519_private, proof.x25519_public.ptr, &j->link_id,
                j->mode, &j->key);
}

static int run_verify_link_proof(const nm_job_link_confirm *j) {
  nm_packet packet = {0};
  nm_link_proof proof;
  int status = parse_block(j->proof, &packet);
  if (status == NM_OK) {
    status = nm_link_proof_parse(packet.payload, &proof, NULL);
  }
  return status == NM_OK
             ? nm_link_proof_verify(&proof, &j->link_id, j->ed25519_public)
             : status;
}

static int run_verify_tunnel(const nm_job_verify_tunnel *j) {
  nm_tunnel tunnel;
  int status = nm_tunnel_parse(nm_span_of(j->payload, sizeof(j->payload)),
                               &tunnel, NULL);
  return status == NM_OK ? nm_tunnel_verify(&tunnel) : status;
}

static int run_link_sign_id(nm_job_link_sign_id *j) {
  nm_writer w = nm_writer_of(j->payload, sizeof(j->payload));
  return nm_link_identify_write(&w, nm_identity_in(j->identity), &j->link_id);
}

static int run_link_identify(const nm_job_link_identify *j) {
  nm_span public_key;
  return nm_link_identify_check(nm_span_of(j->payload, sizeof(j->payload)),
                                &j->link_id, &public_key, NULL);
}

/* The segment's part of the content: in memory, or read into |read|. */
static int content_of(const nm_mem *mem, const nm_job_resource_seal *j,
                      nm_block **read, nm_span *bytes) {
  if (j->source == NULL) {
    *bytes = nm_span_slice(nm_block_span(j->content), (size_t)j->offset,
                           (size_t)j->length);
    return NM_OK;
  }
  *read = nm_block_new(mem, (size_t)j->length);
  if (*read == NULL) {
    return NM_E(MEMORY);
  }
  nm_block_mark_secret(*read);
  *bytes = nm_block_span(*read);
  return j->source->read(j->source, j->offset, nm_block_bytes(*read),
                         (size_t)j->length);
}

static int seal_segment(const nm_mem *mem, nm_cipher *cipher,
                        nm_job_resource_seal *j, nm_span content) {
  nm_resource_plain plain = {.metadata = nm_block_span(j->metadata),
                             .data = content};
  size_t size = nm_resource_plain_size(&plain);
  j->stream = nm_block_new(mem, nm_resource_stream_size(size));
  j->hashmap = nm_block_new(mem, nm_resource_hashmap_bound(size, j->sdu));
  if (j->stream == NULL || j->hashmap == NULL) {
    return NM_E(MEMORY);
  }
  bool automatic = j->compression == NM_RESOURCE_COMPRESS_AUTOMATIC;
  int level =
      automatic && j->zstd ? nm_resource_zstd_level(content, j->rate) : 0;
  nm_resource_build_args args = {
      .plain = plain,
      .sdu = j->sdu,
      .compression = automatic && level == 0 &&
                             !nm_resource_worth_compressing(content, j->rate)
                         ? NM_RESOURCE_COMPRESS_OFF
                         : j->compression,
      .total_size = j->total,
      .zstd_level = level,
      .key = &j->key,
      .iv = j->iv,
      .prefix = j->prefix,
      .randoms = nm_span_of(j->randoms, sizeof(j->randoms)),
      .stream = {nm_block_bytes(j->stream), nm_block_span(j->stream).len},
      .hashmap = {nm_block_bytes(j->hashmap), nm_block_span(j->hashmap).len},
  };
  return nm_resource_build(&args, cipher, mem, &j->segment);
}

static int run_resource_seal(const nm_mem *mem, nm_cipher *cipher,
                             nm_job_resource_seal *j) {
  nm_block *read = NULL;
  nm_span content = nm_span_of(NULL, 0);
  int status = content_of(mem, j, &read, &content);
  if (status == NM_OK) {
    status = seal_segment(mem, cipher, j, content);
  }
  nm_block_drop(read);
  return status;
}

/* Puts the content of a segment where it belongs. */
static int keep_content(const nm_mem *mem, nm_span data,
                        nm_job_resource_open *j) {
  if (j->sink != NULL) {
    return data.len == 0 ? NM_OK : j->sink->write(j->sink, j->offset, data);
  }
  if (j->gathered == NULL) {
    j->data = nm_block_copy(mem, data);
    if (j->data == NULL) {
      return NM_E(MEMORY);
    }
    nm_block_mark_secret(j->data);
    return NM_OK;
  }
  nm_writer w =
      nm_writer_of(nm_block_bytes(j->gathered), nm_block_span(j->gathered).len);
  (void)nm_writer_reserve(&w, (size_t)j->offset);
  nm_writer_span(&w, data);
  return w.status;
}

static int keep_result(const nm_mem *mem, const nm_resource_result *result,
                       nm_job_resource_open *j) {
  memcpy(j->proof, result->proof, sizeof(j->proof));
  j->plain = result->plaintext.len;
  j->content = result->data.len;
  if (result->metadata.ptr != NULL) {
    j->metadata = nm_block_copy(mem, result->metadata);
    if (j->metadata == NULL) {
      return NM_E(MEMORY);
    }
  }
  return keep_content(mem, result->data, j);
}

static int run_resource_open(const nm_mem *mem, nm_cipher *cipher,
                             nm_job_resource_open *j) {
  nm_buffer inflated;
  nm_resource_result result;
  nm_buffer_init(&inflated, mem, NULL, 0, 1);
  int status = nm_resource_join_assemble(&j->join, cipher, &j->key, j->limit,
                                         &inflated, &result, NULL);
  if (status == NM_OK) {
    status = keep_result(mem, &result, j);
  }
  nm_buffer_dispose(&inflated);
  return status;
}

static int run_sink_finish(nm_job_sink_finish *j) {
  return j->sink->finish(j->sink, j->size, nm_block_span(j->metadata),
                         &j->place);
}

static int run_sink_check(nm_job_sink_check *j) {
  return j->sink->check(j->sink, nm_span_of(j->salt, sizeof(j->salt)),
                        &j->held);
}

#define CHECK_PIECE (1u << 18)

static int hash_source(const nm_mem *mem, nm_job_source_check *j,
                       nm_sha256_ctx *ctx) {
  nm_block *piece = nm_block_new(mem, CHECK_PIECE);
  int status = piece == NULL ? NM_E(MEMORY) : NM_OK;
  for (uint64_t at = 0; at < j->length && status == NM_OK; at += CHECK_PIECE) {
    uint64_t left = j->length - at;
    size_t len = left < CHECK_PIECE ? (size_t)left : CHECK_PIECE;
    status = j->source->read(j->source, at, nm_block_bytes(piece), len);
    if (status == NM_OK) {
      nm_sha256_update(ctx, nm_span_slice(nm_block_span(piece), 0, len));
    }
  }
  if (piece != NULL) {
    nm_block_mark_secret(piece);
  }
  nm_block_drop(piece);
  return status;
}

static int run_source_check(const nm_mem *mem, nm_job_source_check *j) {
  nm_sha256_ctx ctx;
  int status = NM_OK;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, nm_span_of(j->salt, sizeof(j->salt)));
  if (j->source != NULL) {
    status = hash_source(mem, j, &ctx);
  } else {
    nm_sha256_update(
        &ctx, nm_span_slice(nm_block_span(j->content), 0, (size_t)j->length));
  }
  nm_sha256_final(&ctx, j->digest);
  return status;
}

/* By the rule of the reference writer (RNS 2, 4.3). */
static int run_stream_pack(const nm_mem *mem, nm_job_stream_pack *j) {
  size_t room = NM_STREAM_HEADER_SIZE + NM_STREAM_CHUNK_MAX;
  room = j->channel_mdu < room ? j->channel_mdu : room;
  j->message = nm_block_new(mem, room);
  if (j->message == NULL) {
    return NM_E(MEMORY);
  }
  nm_writer w = nm_writer_of(nm_block_bytes(j->message), room);
  int status = nm_stream_write(j->stream, j->bytes, j->eof, j->channel_mdu, mem,
                               &w, &j->written);
  if (status == NM_OK) {
    nm_block_trim(j->message, j->written.length);
  }
  return status;
}

static int run_stream_open(const nm_mem *mem, nm_job_stream_open *j) {
  nm_buffer inflated;
  nm_span data;
  nm_buffer_init(&inflated, mem, NULL, 0, 1);
  int status = nm_stream_data(&j->message, 0, mem, &inflated, &data, NULL);
  if (status == NM_OK) {
    j->data = nm_block_copy(mem, data);
    status = j->data == NULL ? NM_E(MEMORY) : NM_OK;
  }
  nm_buffer_dispose(&inflated);
  return status;
}

void nm_job_run(nm_job *job, nm_cipher *cipher) {
  const nm_mem *mem = job->mem;
  switch (job->kind) {
  case NM_JOB_VERIFY_ANNOUNCE:
    job->status = run_verify_announce(&job->u.verify_announce);
    break;
  case NM_JOB_SIGN_ANNOUNCE:
    job->status = run_sign_announce(mem, &job->u.sign_announce);
    break;
  case NM_JOB_PROVE:
    job->status = run_prove(mem, &job->u.prove);
    break;
  case NM_JOB_VERIFY_PROOF:
    job->status = run_verify_proof(&job->u.verify_proof);
    break;
  case NM_JOB_OPEN_PACKET:
    job->status = run_open_packet(mem, cipher, &job->u.open_packet);
    break;
  case NM_JOB_SEAL_PACKET:
    job->status =
        run_seal_packet(mem, cipher, &job->destination, &job->u.seal_packet);
    break;
  case NM_JOB_LINK_KEYS:
    job->status = run_link_keys(&job->u.link_keys);
    break;
  case NM_JOB_LINK_ACCEPT:
    job->status = run_link_accept(mem, &job->u.link_accept);
    break;
  case NM_JOB_LINK_CONFIRM:
    job->status = run_link_confirm(&job->u.link_confirm);
    break;
  case NM_JOB_VERIFY_LINK_PROOF:
    job->status = run_verify_link_proof(&job->u.link_confirm);
    break;
  case NM_JOB_VERIFY_TUNNEL:
    job->status = run_verify_tunnel(&job->u.verify_tunnel);
    break;
  case NM_JOB_LINK_IDENTIFY:
    job->status = run_link_identify(&job->u.link_identify);
    break;
  case NM_JOB_LINK_SIGN_ID:
    job->status = run_link_sign_id(&job->u.link_sign_id);
    break;
  case NM_JOB_RESOURCE_SEAL:
    job->status = run_resource_seal(mem, cipher, &job->u.resource_seal);
    break;
  case NM_JOB_RESOURCE_OPEN:
    job->status = run_resource_open(mem, cipher, &job->u.resource_open);
    break;
  case NM_JOB_SINK_FINISH:
    job->status = run_sink_finish(&job->u.sink_finish);
    break;
  case NM_JOB_SINK_CHECK:
    job->status = run_sink_check(&job->u.sink_check);
    break;
  case NM_JOB_SOURCE_CHECK:
    job->status = run_source_check(mem, &job->u.source_check);
    break;
  case NM_JOB_STREAM_PACK:
    job->status = run_stream_pack(mem, &job->u.stream_pack);
    break;
  case NM_JOB_STREAM_OPEN:
    job->status = run_stream_open(mem, &job->u.stream_open);
    break;
  case NM_JOB_STORE:
    break; /* the driver's: nm_job_store_result */
  }
}
