#include "support.h"

#include "wire/decisions.h"
#include "wire/link.h"

#include <math.h>
#include <string.h>

static nm_packet parse(nm_span raw) {
  nm_packet p;
  NM_CHECK_OK(nm_packet_parse(raw, &p, NULL));
  return p;
}

static nm_link_id id_of(nm_span bytes) {
  nm_link_id id;
  NM_CHECK_INT(bytes.len, sizeof id.b);
  memcpy(id.b, bytes.ptr, sizeof id.b);
  return id;
}

static nm_identity identity_of(nm_span private_key) {
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_private(&id, private_key));
  return id;
}

static nm_span pack(const nm_packet *p) {
  uint8_t *out = (uint8_t *)nm_test_scratch(NM_MTU);
  size_t len = 0;
  NM_CHECK_OK(
      nm_packet_pack(p, NM_PACKET_ORIGINATE, NM_MTU, out, NM_MTU, &len, NULL));
  return nm_span_of(out, len);
}

static void check_signalling_vector(const nm_vector *v) {
  uint8_t out[NM_SIGNALLING_SIZE];
  uint32_t mtu = (uint32_t)nm_vector_u64(v, "input.mtu");
  uint8_t mode = (uint8_t)nm_vector_u64(v, "input.mode");
  NM_CHECK_OK(nm_link_signalling_pack(mtu, mode, out));
  nm_span bytes = nm_vector_bytes(v, "output.bytes");
  NM_CHECK_SPAN(nm_span_of(out, sizeof out), bytes);
  uint32_t got_mtu;
  uint8_t got_mode;
  NM_CHECK_OK(nm_link_signalling_unpack(bytes, &got_mtu, &got_mode, NULL));
  NM_CHECK_INT(got_mtu, mtu);
  NM_CHECK_INT(got_mode, mode);
}

NM_TEST(signalling_bytes_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "link_signalling", 13, check_signalling_vector);
}

NM_TEST(signalling_refuses_modes_that_are_not_enabled) {
  uint8_t out[NM_SIGNALLING_SIZE];
  for (uint8_t mode = 0; mode < 8; mode++) {
    int expected = mode == NM_MODE_AES256_CBC ? NM_OK : NM_E(MODE);
    NM_CHECK_STATUS(nm_link_signalling_pack(500, mode, out), expected);
    NM_CHECK_INT(nm_link_mode_enabled(mode), mode == 1);
  }
  NM_CHECK_STATUS(nm_link_signalling_pack(NM_LINK_MTU_MAX + 1, 1, out),
                  NM_E(RANGE));
  uint32_t mtu;
  uint8_t mode;
  NM_CHECK_STATUS(
      nm_link_signalling_unpack(nm_test_unhex("20"), &mtu, &mode, NULL),
      NM_E(LENGTH));
  NM_CHECK_OK(
      nm_link_signalling_unpack(nm_test_unhex("ffffff"), &mtu, &mode, NULL));
  NM_CHECK_INT(mode, 7);
  NM_CHECK_INT(mtu, NM_LINK_MTU_MAX);
}

/* The initiator's side of a handshake vector up to its request. */
static nm_link_id check_request(const nm_vector *v) {
  uint8_t x25519[NM_KEY_SIZE];
  uint8_t ed25519[NM_KEY_SIZE];
  NM_CHECK_OK(nm_x25519_public(
      x25519, nm_vector_bytes(v, "input.initiator_x25519_private").ptr));
  NM_CHECK_OK(nm_ed25519_public(
      ed25519, nm_vector_bytes(v, "input.initiator_ed25519_seed").ptr));
  uint8_t signalling[NM_SIGNALLING_SIZE];
  NM_CHECK_OK(nm_link_signalling_pack(
      (uint32_t)nm_vector_u64(v, "input.requested_mtu"),
      (uint8_t)nm_vector_u64(v, "input.mode"), signalling));
  bool stripped = nm_vector_bool(v, "input.signalling_stripped_in_transit");
  uint8_t payload[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  NM_CHECK_OK(
      nm_link_request_write(&w, x25519, ed25519, stripped ? NULL : signalling));
  NM_CHECK_SPAN(nm_writer_done(&w),
                nm_vector_bytes(v, "output.link_request_data"));
  nm_packet p = nm_packet_of(NM_LINKREQUEST, NM_SINGLE, NM_CONTEXT_NONE,
                             nm_vector_bytes(v, "input.destination_hash").ptr,
                             nm_writer_done(&w));
  NM_CHECK_SPAN(pack(&p), nm_vector_bytes(v, "output.link_request_raw"));
  nm_link_request request;
  NM_CHECK_OK(nm_link_request_parse(p.payload, &request, NULL));
  NM_CHECK_INT(request.signalling.present, !stripped);
  NM_CHECK_INT(request.signalling.mtu,
               stripped ? 500 : nm_vector_u64(v, "input.requested_mtu"));
  nm_link_id id;
  NM_CHECK_OK(nm_link_id_of(&p, &id, NULL));
  NM_CHECK_SPAN(nm_span_of(id.b, sizeof id.b),
                nm_vector_bytes(v, "output.link_id"));
  return id;
}

/* The responder's proof. */
static void check_proof(const nm_vector *v, const nm_link_id *id) {
  nm_identity destination =
      identity_of(nm_vector_bytes(v, "input.destination_private_key"));
  uint8_t x25519[NM_KEY_SIZE];
  NM_CHECK_OK(nm_x25519_public(
      x25519, nm_vector_bytes(v, "input.responder_x25519_private").ptr));
  uint8_t signalling[NM_SIGNALLING_SIZE];
  NM_CHECK_OK(nm_link_signalling_pack(
      (uint32_t)nm_vector_u64(v, "output.confirmed_mtu"), 1, signalling));
  uint8_t payload[NM_LINK_PROOF_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  NM_CHECK_OK(nm_link_proof_write(&w, &destination, id, x25519, signalling));
  nm_packet p = nm_packet_of(NM_PROOF, NM_LINK, NM_CONTEXT_LRPROOF, id->b,
                             nm_writer_done(&w));
  NM_CHECK_SPAN(pack(&p), nm_vector_bytes(v, "output.link_proof_raw"));
  nm_link_proof proof;
  NM_CHECK_OK(nm_link_proof_parse(p.payload, &proof, NULL));
  NM_CHECK_INT(proof.signalling.mtu, nm_vector_u64(v, "output.confirmed_mtu"));
  NM_CHECK_OK(nm_link_proof_verify(&proof, id, destination.sign.public_key));
  uint8_t buf[NM_LINK_SIGNED_MAX];
  w = nm_writer_of(buf, sizeof buf);
  NM_CHECK_OK(nm_link_proof_signed(&w, id, proof.x25519_public,
                                   destination.sign.public_key,
                                   proof.signalling_bytes));
  NM_CHECK_SPAN(nm_writer_done(&w),
                nm_vector_bytes(v, "output.proof_signed_data"));
}

/* Both sides derive the same key; the RTT packet is sealed under it. */
static void check_session(const nm_vector *v, const nm_link_id *id) {
  uint8_t key[NM_TOKEN_KEY_SIZE];
  uint8_t other[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  NM_CHECK_OK(
      nm_link_derive(nm_vector_bytes(v, "input.initiator_x25519_private").ptr,
                     nm_vector_bytes(v, "output.responder_x25519_public").ptr,
                     id, 1, key, &len));
  NM_CHECK_SPAN(nm_span_of(key, len), nm_vector_bytes(v, "output.derived_key"));
  NM_CHECK_OK(
      nm_link_derive(nm_vector_bytes(v, "input.responder_x25519_private").ptr,
                     nm_vector_bytes(v, "output.initiator_x25519_public").ptr,
                     id, 1, other, &len));
  NM_CHECK_BYTES(key, other, sizeof key);
  uint8_t rtt[NM_LINK_RTT_SIZE];
  nm_writer w = nm_writer_of(rtt, sizeof rtt);
  NM_CHECK_OK(nm_link_rtt_write(
      &w, nm_vector_number(v, "input.initiator_rtt_seconds")));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "output.rtt_plaintext"));
  nm_cipher cipher;
  nm_token_key token;
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  NM_CHECK_OK(nm_token_key_init(&token, nm_span_of(key, len)));
  uint8_t sealed[64];
  NM_CHECK_OK(nm_token_seal(&cipher, &token,
                            nm_vector_bytes(v, "input.rtt_packet_iv").ptr,
                            nm_writer_done(&w), sealed));
  nm_packet p =
      nm_packet_of(NM_DATA, NM_LINK, NM_CONTEXT_LRRTT, id->b,
                   nm_span_of(sealed, nm_token_size(NM_LINK_RTT_SIZE)));
  NM_CHECK_SPAN(pack(&p), nm_vector_bytes(v, "output.rtt_raw"));
  nm_cipher_close(&cipher);
  NM_CHECK_INT(nm_link_mdu((size_t)nm_vector_u64(v, "output.confirmed_mtu")),
               nm_vector_u64(v, "output.mdu"));
  double rtt_responder = nm_vector_number(v, "input.initiator_rtt_seconds");
  NM_CHECK(nm_keepalive_interval(rtt_responder) ==
           nm_vector_number(v, "output.initiator_keepalive"));
  NM_CHECK(nm_stale_time(rtt_responder) ==
           nm_vector_number(v, "output.initiator_stale_time"));
}

static void check_handshake_vector(const nm_vector *v) {
  nm_link_id id = check_request(v);
  check_proof(v, &id);
  check_session(v, &id);
}

NM_TEST(handshakes_produce_the_bytes_of_the_vectors) {
  nm_vectors_each(NULL, "link_handshake", 7, check_handshake_vector);
}

static void check_link_id_vector(const nm_vector *v) {
  const char *path =
      nm_vector_has(v, "input.raw") ? "input.raw" : "input.link_request_raw";
  nm_packet p = parse(nm_vector_bytes(v, path));
  nm_link_id id;
  NM_CHECK_OK(nm_link_id_of(&p, &id, NULL));
  NM_CHECK_SPAN(nm_span_of(id.b, sizeof id.b),
                nm_vector_bytes(v, "output.link_id"));
}

NM_TEST(link_ids_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "link_id", 4, check_link_id_vector);
}

NM_TEST(only_link_requests_have_a_link_id) {
  uint8_t payload[NM_LINK_REQUEST_SIZE] = {0};
  static const uint8_t destination[NM_ADDRESS_SIZE] = {1};
  nm_packet p = nm_packet_of(NM_DATA, NM_SINGLE, NM_CONTEXT_NONE, destination,
                             nm_span_of(payload, sizeof payload));
  nm_link_id id;
  NM_CHECK_STATUS(nm_link_id_of(&p, &id, NULL), NM_E(TYPE));
  p.packet_type = NM_LINKREQUEST;
  NM_CHECK_OK(nm_link_id_of(&p, &id, NULL));
  p.payload.len--;
  NM_CHECK_STATUS(nm_link_id_of(&p, &id, NULL), NM_E(LENGTH));
}

static void check_kdf_vector(const nm_vector *v) {
  nm_link_id id = id_of(nm_vector_bytes(v, "input.salt_link_id"));
  uint8_t key[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  NM_CHECK_OK(nm_link_derive_shared(nm_vector_bytes(v, "input.shared_key").ptr,
                                    &id, NM_MODE_AES128_CBC, key, &len));
  NM_CHECK_SPAN(nm_span_of(key, len), nm_vector_bytes(v, "output.derived_key"));
}

NM_TEST(mode_0_keys_are_derived_and_other_modes_refused) {
  nm_vectors_each(NULL, "link_kdf", 1, check_kdf_vector);
  static const uint8_t one[NM_KEY_SIZE] = {1};
  nm_link_id id = {{0}};
  uint8_t key[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  for (uint8_t mode = 2; mode < 8; mode++) {
    NM_CHECK_STATUS(nm_link_derive(one, one, &id, mode, key, &len), NM_E(MODE));
    NM_CHECK_STATUS(nm_link_derive_shared(one, &id, mode, key, &len),
                    NM_E(MODE));
  }
  static const uint8_t zero[NM_KEY_SIZE] = {0};
  NM_CHECK_STATUS(nm_link_derive(one, zero, &id, 1, key, &len), NM_E(KEY));
}

static void check_request_acceptance(const nm_vector *v) {
  nm_packet p = parse(nm_vector_bytes(v, "input.link_request_raw"));
  nm_link_request request;
  bool accepted = nm_link_request_parse(p.payload, &request, NULL) == NM_OK &&
                  nm_link_mode_enabled(request.signalling.mode);
  NM_CHECK_INT(accepted, nm_vector_bool(v, "output.accepted"));
  if (nm_vector_has(v, "output.mtu")) {
    NM_CHECK_INT(request.signalling.mtu, nm_vector_u64(v, "output.mtu"));
  }
}

static void check_proof_acceptance(const nm_vector *v) {
  nm_packet p = parse(nm_vector_bytes(v, "input.link_proof_raw"));
  nm_span key = nm_vector_bytes(v, "input.destination_public_key");
  nm_link_id id = id_of(p.destination);
  nm_link_proof proof;
  bool accepted =
      nm_link_proof_parse(p.payload, &proof, NULL) == NM_OK &&
      nm_link_proof_verify(&proof, &id, key.ptr + NM_KEY_SIZE) == NM_OK;
  NM_CHECK_INT(accepted, nm_vector_bool(v, "output.accepted"));
}

NM_TEST(requests_and_proofs_are_accepted_as_in_the_vectors) {
  nm_vectors_each(NULL, "link_request_acceptance", 4, check_request_acceptance);
  nm_vectors_each(NULL, "link_proof_acceptance", 2, check_proof_acceptance);
}

NM_TEST(payloads_of_other_lengths_are_refused) {
  uint8_t bytes[160] = {0};
  for (size_t len = 0; len <= sizeof bytes; len++) {
    nm_test_context("length %zu", len);
    nm_span in = nm_span_of(bytes, len);
    nm_link_request request;
    nm_link_proof proof;
    nm_span key;
    nm_link_id id = {{0}};
    NM_CHECK_STATUS(nm_link_request_parse(in, &request, NULL),
                    len == 64 || len == 67 ? NM_OK : NM_E(LENGTH));
    NM_CHECK_STATUS(nm_link_proof_parse(in, &proof, NULL),
                    len == 96 || len == 99 ? NM_OK : NM_E(LENGTH));
    NM_CHECK_STATUS(nm_link_identify_check(in, &id, &key, NULL),
                    len == 128 ? NM_E(SIGNATURE) : NM_E(LENGTH));
    NM_CHECK_INT(nm_link_is_close(in, &id), len == 16);
  }
}

NM_TEST(a_flipped_bit_anywhere_breaks_a_link_proof) {
  uint8_t key[NM_PRIVATE_SIZE];
  nm_test_random_bytes(key, sizeof key);
  nm_identity destination = identity_of(nm_span_of(key, sizeof key));
  nm_link_id id = {{1, 2, 3}};
  static const uint8_t signalling[NM_SIGNALLING_SIZE] = {0x20, 0x01, 0xf4};
  uint8_t payload[NM_LINK_PROOF_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  NM_CHECK_OK(nm_link_proof_write(&w, &destination, &id, key, signalling));
  nm_link_proof proof;
  for (size_t bit = 0; bit < sizeof payload * 8; bit++) {
    nm_test_context("bit %zu", bit);
    payload[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_OK(
        nm_link_proof_parse(nm_span_of(payload, sizeof payload), &proof, NULL));
    NM_CHECK_STATUS(
        nm_link_proof_verify(&proof, &id, destination.sign.public_key),
        NM_E(SIGNATURE));
    payload[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
  NM_CHECK_OK(
      nm_link_proof_parse(nm_span_of(payload, sizeof payload), &proof, NULL));
  id.b[0] ^= 1;
  NM_CHECK_STATUS(
      nm_link_proof_verify(&proof, &id, destination.sign.public_key),
      NM_E(SIGNATURE));
}

NM_TEST(every_msgpack_number_is_an_rtt) {
  static const struct {
    const char *hex;
    double value;
  } good[] = {{"cb3fd0000000000000", 0.25},
              {"ca3e800000", 0.25},
              {"00", 0},
              {"7f", 127},
              {"ff", -1},
              {"cc80", 128},
              {"cd0100", 256},
              {"ce00010000", 65536},
              {"cf0000000100000000", 4294967296.0},
              {"d0fe", -2},
              {"d1ff00", -256},
              {"cb3fd0000000000000c0", 0.25}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    nm_test_context("%s", good[i].hex);
    double rtt = -9;
    NM_CHECK_OK(nm_link_rtt_parse(nm_test_unhex(good[i].hex), &rtt, NULL));
    NM_CHECK(rtt == good[i].value);
  }
  static const struct {
    const char *hex;
    int status;
  } bad[] = {{"", NM_E(TRUNCATED)},
             {"cb3fd000000000", NM_E(TRUNCATED)},
             {"c0", NM_E(TYPE)},
             {"c3", NM_E(TYPE)},
             {"a131", NM_E(TYPE)},
             {"9101", NM_E(TYPE)},
             {"c1", NM_E(RESERVED)},
             {"cb7ff0000000000000", NM_E(VALUE)},
             {"cb7ff8000000000000", NM_E(VALUE)}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    nm_test_context("%s", bad[i].hex);
    double rtt = -9;
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_link_rtt_parse(nm_test_unhex(bad[i].hex), &rtt, &fault),
                    bad[i].status);
    NM_CHECK(strcmp(fault.field, "rtt") == 0 && rtt == -9);
  }
}

static void check_identify_vector(const nm_vector *v) {
  nm_identity identity =
      identity_of(nm_vector_bytes(v, "input.identity_private_key"));
  nm_link_id id = id_of(nm_vector_bytes(v, "input.link_id"));
  uint8_t out[NM_LINK_IDENTIFY_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_link_identify_write(&w, &identity, &id));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "input.plaintext"));
  nm_span key;
  NM_CHECK_OK(nm_link_identify_check(nm_writer_done(&w), &id, &key, NULL));
  NM_CHECK_SPAN(key, nm_span_of(identity.public_key, NM_PUBLIC_SIZE));
  id.b[15] ^= 1;
  NM_CHECK_STATUS(nm_link_identify_check(nm_writer_done(&w), &id, &key, NULL),
                  NM_E(SIGNATURE));
}

static void check_close_vector(const nm_vector *v) {
  nm_link_id id = id_of(nm_vector_bytes(v, "input.link_id"));
  nm_span plaintext = nm_vector_bytes(v, "input.plaintext");
  NM_CHECK(nm_link_is_close(plaintext, &id));
  id.b[0] ^= 1;
  NM_CHECK(!nm_link_is_close(plaintext, &id));
}

static void check_keepalive_vector(const nm_vector *v) {
  nm_link_id id = id_of(nm_vector_bytes(v, "input.link_id"));
  uint8_t byte =
      nm_link_keepalive(strcmp(v->name, "link_keepalive_initiator") == 0);
  nm_packet p = nm_packet_of(NM_DATA, NM_LINK, NM_CONTEXT_KEEPALIVE, id.b,
                             nm_span_of(&byte, 1));
  NM_CHECK_SPAN(pack(&p), nm_vector_bytes(v, "output.raw"));
}

NM_TEST(identify_close_and_keepalive_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "link_identify", 1, check_identify_vector);
  nm_vectors_each(NULL, "link_close", 1, check_close_vector);
  nm_vectors_each(NULL, "link_keepalive_packet", 2, check_keepalive_vector);
}

/* Clamps the request |raw| between two interfaces and packs what goes on. */
static nm_span forward_request(nm_span raw, nm_link_interface received,
                               nm_link_interface next, bool local) {
  nm_packet p = parse(raw);
  nm_link_request request;
  NM_CHECK_OK(nm_link_request_parse(p.payload, &request, NULL));
  uint32_t mtu = 0;
  nm_link_clamp clamp =
      local
          ? nm_link_clamp_local(&request.signalling, &received, &mtu)
          : nm_link_clamp_relayed(&request.signalling, &received, &next, &mtu);
  NM_CHECK(clamp != NM_LINK_CLAMP_DROP);
  uint8_t payload[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  memcpy(payload, p.payload.ptr, p.payload.len);
  p.payload.ptr = payload;
  if (clamp == NM_LINK_CLAMP_REMOVE) {
    p.payload.len = NM_LINK_REQUEST_SIZE;
  } else if (clamp == NM_LINK_CLAMP_REPLACE) {
    NM_CHECK_OK(nm_link_signalling_pack(mtu, request.signalling.mode,
                                        payload + NM_LINK_REQUEST_SIZE));
  }
  p.hops++;
  p.header_type = NM_HEADER_1;
  p.transport_type = NM_BROADCAST;
  p.transport_id = nm_span_of(NULL, 0);
  return pack(&p);
}

static void check_forward_vector(const nm_vector *v) {
  nm_span raw = nm_vector_bytes(v, "input.received_raw");
  if (parse(raw).packet_type != NM_LINKREQUEST) {
    return;
  }
  /* Interface A and B of the vectors unless they say otherwise. */
  nm_link_interface received = {1064, true};
  nm_link_interface next = {8192, true};
  if (nm_vector_has(v, "input.previous_hop_hw_mtu")) {
    received.hw_mtu = (uint32_t)nm_vector_u64(v, "input.previous_hop_hw_mtu");
  }
  if (nm_vector_find(v, "input.next_hop_hw_mtu") != NULL) {
    next.hw_mtu = nm_vector_has(v, "input.next_hop_hw_mtu")
                      ? (uint32_t)nm_vector_u64(v, "input.next_hop_hw_mtu")
                      : 0;
  }
  nm_span sent = forward_request(raw, received, next, false);
  NM_CHECK_SPAN(sent, nm_vector_bytes(v, "output.sent_raw"));
  nm_packet p = parse(sent);
  nm_link_id id;
  NM_CHECK_OK(nm_link_id_of(&p, &id, NULL));
  NM_CHECK_SPAN(nm_span_of(id.b, sizeof id.b),
                nm_vector_bytes(v, "output.link_id"));
}

static void check_shared_vector(const nm_vector *v) {
  nm_link_interface received = {
      (uint32_t)nm_vector_u64(v, "input.previous_hop_hw_mtu"), true};
  /* The shared instance passes it to a client over the local socket. */
  nm_link_interface next = {NM_LOCAL_FRAME_MAX, true};
  NM_CHECK_SPAN(forward_request(nm_vector_bytes(v, "input.received_raw"),
                                received, next, false),
                nm_vector_bytes(v, "output.sent_raw"));
}

NM_TEST(relays_clamp_the_mtu_as_in_the_vectors) {
  nm_vectors_each(NULL, "transport_forward", 8, check_forward_vector);
  nm_vectors_each(NULL, "shared_linkrequest", 1, check_shared_vector);
}

NM_TEST(clamping_covers_every_case) {
  nm_link_signalling s = {true, 8192, 8192, NM_MODE_AES256_CBC};
  nm_link_interface none = {0, true};
  nm_link_interface small = {1064, true};
  nm_link_interface large = {16384, true};
  nm_link_interface unadjusted = {1064, false};
  uint32_t mtu = 0;
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &large, &large, &mtu),
               NM_LINK_CLAMP_KEEP);
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &large, &none, &mtu),
               NM_LINK_CLAMP_REMOVE);
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &large, &unadjusted, &mtu),
               NM_LINK_CLAMP_REMOVE);
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &small, &large, &mtu),
               NM_LINK_CLAMP_REPLACE);
  NM_CHECK_INT(mtu, 1064);
  mtu = 0;
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &none, &small, &mtu),
               NM_LINK_CLAMP_REPLACE);
  NM_CHECK_INT(mtu, 1064);
  s.mode = NM_MODE_AES128_CBC;
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &large, &small, &mtu),
               NM_LINK_CLAMP_DROP);
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &large, &large, &mtu),
               NM_LINK_CLAMP_KEEP);
  s.mode = NM_MODE_AES256_CBC;
  NM_CHECK_INT(nm_link_clamp_local(&s, &none, &mtu), NM_LINK_CLAMP_REMOVE);
  NM_CHECK_INT(nm_link_clamp_local(&s, &large, &mtu), NM_LINK_CLAMP_KEEP);
  NM_CHECK_INT(nm_link_clamp_local(&s, &unadjusted, &mtu),
               NM_LINK_CLAMP_REPLACE);
  NM_CHECK_INT(mtu, 500);
  s.signalled = 0;
  NM_CHECK_INT(nm_link_clamp_relayed(&s, &small, &none, &mtu),
               NM_LINK_CLAMP_KEEP);
  s.present = false;
  NM_CHECK_INT(nm_link_clamp_local(&s, &none, &mtu), NM_LINK_CLAMP_KEEP);
}

NM_TEST(a_public_identity_proves_and_identifies_nothing) {
  static const uint8_t public_key[NM_PUBLIC_SIZE] = {1};
  nm_identity id;
  NM_CHECK_OK(
      nm_identity_init_public(&id, nm_span_of(public_key, sizeof public_key)));
  nm_link_id link = {{0}};
  uint8_t out[128];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_link_proof_write(&w, &id, &link, public_key, NULL),
                  NM_E(NO_KEY));
  NM_CHECK_STATUS(nm_link_identify_write(&w, &id, &link), NM_E(NO_KEY));
  NM_CHECK_INT(w.pos, 0);
}
