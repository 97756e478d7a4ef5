#include "support.h"

#include "wire/control.h"
#include "wire/decisions.h"
#include "wire/destination.h"
#include "wire/proof.h"

#include <string.h>

static nm_span pack(nm_packet p) {
  uint8_t *out = (uint8_t *)nm_test_scratch(NM_MTU);
  size_t len = 0;
  NM_CHECK_OK(
      nm_packet_pack(&p, NM_PACKET_ORIGINATE, NM_MTU, out, NM_MTU, &len, NULL));
  return nm_span_of(out, len);
}

static nm_identity identity_of(nm_span private_key) {
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_private(&id, private_key));
  return id;
}

/* A signing key from a seed, or from the second half of a private key. */
static nm_ed25519_sign_key sign_key(nm_span secret) {
  nm_ed25519_sign_key key;
  size_t at = secret.len - NM_KEY_SIZE;
  NM_CHECK_OK(nm_ed25519_sign_key_init(&key, secret.ptr + at));
  return key;
}

static void check_path_request_vector(const nm_vector *v) {
  nm_path_request request = {.destination =
                                 nm_vector_bytes(v, "input.wanted_destination"),
                             .tag = nm_vector_bytes(v, "input.tag")};
  if (nm_vector_has(v, "input.transport_id")) {
    request.transport_id = nm_vector_bytes(v, "input.transport_id");
  }
  uint8_t out[48];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_path_request_write(&w, &request, NULL));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "output.data"));
  NM_CHECK_SPAN(pack(nm_path_request_packet(nm_writer_done(&w))),
                nm_vector_bytes(v, "output.raw"));
  nm_path_request back;
  NM_CHECK_OK(nm_path_request_parse(nm_writer_done(&w), &back, NULL));
  NM_CHECK_SPAN(back.destination, request.destination);
  NM_CHECK_SPAN(back.transport_id, request.transport_id);
  NM_CHECK_SPAN(back.tag, request.tag);
  NM_CHECK(!back.tag_was_cut);
}

NM_TEST(path_requests_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "path_request", 2, check_path_request_vector);
}

NM_TEST(path_requests_of_every_length_split_by_the_rule) {
  uint8_t bytes[80];
  nm_test_random_bytes(bytes, sizeof bytes);
  for (size_t len = 0; len <= sizeof bytes; len++) {
    nm_test_context("length %zu", len);
    nm_path_request r;
    nm_fault fault = {0};
    int status = nm_path_request_parse(nm_span_of(bytes, len), &r, &fault);
    if (len < 16) {
      NM_CHECK_STATUS(status, NM_E(TRUNCATED));
      NM_CHECK(strcmp(fault.field, "destination") == 0);
      continue;
    }
    NM_CHECK_OK(status);
    size_t tag = len <= 32 ? len - 16 : len - 32;
    NM_CHECK_INT(r.transport_id.len, len > 32 ? 16 : 0);
    NM_CHECK_INT(r.tag.len, tag < 16 ? tag : 16);
    NM_CHECK_INT(r.tag_was_cut, tag > 16);
  }
}

NM_TEST(path_requests_refuse_fields_of_a_wrong_length) {
  static const uint8_t b[17] = {0};
  uint8_t out[48];
  nm_path_request good = {.destination = nm_span_of(b, 16),
                          .transport_id = nm_span_of(b, 16),
                          .tag = nm_span_of(b, 16)};
  struct {
    size_t destination;
    size_t transport;
    size_t tag;
    const char *field;
  } cases[] = {{15, 16, 16, "destination"},
               {16, 15, 16, "transport_id"},
               {16, 16, 0, "tag"},
               {16, 16, 17, "tag"}};
  for (size_t i = 0; i < 4; i++) {
    nm_path_request r = good;
    r.destination.len = cases[i].destination;
    r.transport_id.len = cases[i].transport;
    r.tag.len = cases[i].tag;
    nm_writer w = nm_writer_of(out, sizeof out);
    nm_fault fault = {0};
    NM_CHECK_STATUS(nm_path_request_write(&w, &r, &fault), NM_E(LENGTH));
    NM_CHECK(strcmp(fault.field, cases[i].field) == 0);
  }
  nm_writer w = nm_writer_of(out, 47);
  NM_CHECK_STATUS(nm_path_request_write(&w, &good, NULL), NM_E(TOO_LARGE));
}

static void check_tunnel_vector(const nm_vector *v) {
  nm_identity id =
      identity_of(nm_vector_bytes(v, "input.transport_private_key"));
  uint8_t random_hash[NM_ADDRESS_SIZE];
  nm_truncated_hash(random_hash, nm_vector_bytes(v, "input.urandom16"));
  NM_CHECK_SPAN(nm_span_of(random_hash, sizeof random_hash),
                nm_vector_bytes(v, "input.random_hash"));
  uint8_t out[NM_TUNNEL_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_tunnel_write(
      &w, &id, nm_vector_bytes(v, "input.interface_hash").ptr, random_hash));
  nm_span payload = nm_writer_done(&w);
  NM_CHECK_SPAN(payload, nm_vector_bytes(v, "output.data"));
  NM_CHECK_SPAN(pack(nm_tunnel_packet(payload)),
                nm_vector_bytes(v, "output.raw"));
  nm_tunnel tunnel;
  NM_CHECK_OK(nm_tunnel_parse(payload, &tunnel, NULL));
  NM_CHECK_OK(nm_tunnel_verify(&tunnel));
  uint8_t tunnel_id[NM_HASH_SIZE];
  nm_tunnel_id(&tunnel, tunnel_id);
  NM_CHECK_SPAN(nm_span_of(tunnel_id, sizeof tunnel_id),
                nm_vector_bytes(v, "output.tunnel_id"));
  for (size_t bit = 0; bit < sizeof out * 8; bit += 5) {
    nm_test_context("bit %zu", bit);
    out[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    NM_CHECK_STATUS(nm_tunnel_verify(&tunnel), NM_E(SIGNATURE));
    out[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
}

NM_TEST(tunnel_synthesis_is_that_of_the_vector_and_covers_every_bit) {
  nm_vectors_each(NULL, "tunnel_synthesize", 1, check_tunnel_vector);
  uint8_t bytes[200] = {0};
  for (size_t len = 0; len <= sizeof bytes; len++) {
    nm_tunnel tunnel;
    NM_CHECK_STATUS(nm_tunnel_parse(nm_span_of(bytes, len), &tunnel, NULL),
                    len == NM_TUNNEL_SIZE ? NM_OK : NM_E(LENGTH));
  }
}

static void check_request_vector(const nm_vector *v) {
  nm_request request = {.timestamp = nm_vector_number(v, "input.timestamp"),
                        .path_hash = nm_vector_bytes(v, "output.path_hash"),
                        .data = nm_vector_bytes(v, "input.data_msgpack")};
  uint8_t hash[NM_ADDRESS_SIZE];
  const char *path = nm_vector_text(v, "input.path");
  nm_request_path_hash(nm_span_of(path, strlen(path)), hash);
  NM_CHECK_SPAN(request.path_hash, nm_span_of(hash, sizeof hash));
  uint8_t out[128];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_request_write(&w, &request));
  NM_CHECK_INT(w.pos, nm_request_size(&request));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "input.plaintext"));
  nm_request back;
  NM_CHECK_OK(nm_request_parse(nm_writer_done(&w), NULL, &back, NULL));
  NM_CHECK(back.timestamp == request.timestamp);
  NM_CHECK_SPAN(back.path_hash, request.path_hash);
  NM_CHECK_SPAN(back.data, request.data);
  NM_CHECK_OK(
      nm_request_id_of_packet(nm_vector_bytes(v, "output.raw"), hash, NULL));
  NM_CHECK_SPAN(nm_span_of(hash, sizeof hash),
                nm_vector_bytes(v, "output.request_id"));
  if (nm_vector_has(v, "output.default_timeout")) {
    NM_CHECK(nm_request_timeout(0.25) ==
             nm_vector_number(v, "output.default_timeout"));
  }
}

static void check_response_vector(const nm_vector *v) {
  nm_response response = {.request_id = nm_vector_bytes(v, "input.request_id"),
                          .data = nm_vector_bytes(v, "input.response_msgpack")};
  uint8_t out[128];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_response_write(&w, &response));
  NM_CHECK_INT(w.pos, nm_response_size(&response));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "input.plaintext"));
  nm_response back;
  NM_CHECK_OK(nm_response_parse(nm_writer_done(&w), NULL, &back, NULL));
  NM_CHECK_SPAN(back.request_id, response.request_id);
  NM_CHECK_SPAN(back.data, response.data);
}

NM_TEST(requests_and_responses_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "request", 2, check_request_vector);
  nm_vectors_each(NULL, "response", 1, check_response_vector);
}

#define HASH_HEX "c41000112233445566778899aabbccddeeff"

NM_TEST(requests_take_any_number_as_time_and_ignore_what_follows) {
  static const char *const good[] = {
      "93ca3f800000" HASH_HEX "c0", "9301" HASH_HEX "c0",
      "94cb3ff0000000000000" HASH_HEX "c0c0", "9301" HASH_HEX "c0ffff",
      "dc000301" HASH_HEX "c0"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    nm_test_context("%s", good[i]);
    nm_request request;
    NM_CHECK_OK(nm_request_parse(nm_test_unhex(good[i]), NULL, &request, NULL));
    NM_CHECK(request.timestamp == 1.0);
    NM_CHECK_HEX(request.data, "c0");
  }
}

NM_TEST(malformed_requests_name_the_field) {
  static const struct {
    const char *hex;
    int status;
    const char *field;
  } cases[] = {
      {"", NM_E(TRUNCATED), "request"},
      {"83", NM_E(TYPE), "request"},
      {"9201" HASH_HEX, NM_E(LENGTH), "request"},
      {"93", NM_E(TRUNCATED), "timestamp"},
      {"93c0" HASH_HEX "c0", NM_E(TYPE), "timestamp"},
      {"9301", NM_E(TRUNCATED), "path_hash"},
      {"9301b061626364656667686930313233343536c0", NM_E(TYPE), "path_hash"},
      {"9301c4020000c0", NM_E(LENGTH), "path_hash"},
      {"9301" HASH_HEX, NM_E(TRUNCATED), "data"},
      {"9301" HASH_HEX "c1", NM_E(RESERVED), "data"},
      {"9301" HASH_HEX "9391", NM_E(TRUNCATED), "data"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nm_test_context("%s", cases[i].hex);
    nm_request request;
    nm_fault fault = {0};
    NM_CHECK_STATUS(
        nm_request_parse(nm_test_unhex(cases[i].hex), NULL, &request, &fault),
        cases[i].status);
    NM_CHECK(strcmp(fault.field, cases[i].field) == 0);
  }
  nm_response response;
  nm_fault fault = {0};
  NM_CHECK_STATUS(
      nm_response_parse(nm_test_unhex("92c4020000c0"), NULL, &response, &fault),
      NM_E(LENGTH));
  NM_CHECK(strcmp(fault.field, "request_id") == 0);
}

NM_TEST(the_nesting_of_request_data_is_bounded) {
  uint8_t bytes[128];
  nm_writer w = nm_writer_of(bytes, sizeof bytes);
  nm_writer_span(&w, nm_test_unhex("9301" HASH_HEX));
  for (int i = 0; i < 80; i++) {
    nm_writer_u8(&w, 0x91);
  }
  nm_writer_u8(&w, 0xc0);
  nm_request request;
  NM_CHECK_STATUS(nm_request_parse(nm_writer_done(&w), NULL, &request, NULL),
                  NM_E(DEPTH));
  const nm_mp_limits deep = {
      .depth_max = 81, .elements_max = 1000, .mem = &nm_mem_system};
  NM_CHECK_OK(nm_request_parse(nm_writer_done(&w), &deep, &request, NULL));
}

/* A request whose data is a map of |keys| small integers. */
static nm_span request_with_map(uint32_t keys) {
  uint8_t *out = (uint8_t *)nm_test_scratch(2048);
  nm_writer w = nm_writer_of(out, 2048);
  nm_writer_span(&w, nm_test_unhex("9301" HASH_HEX));
  nm_mp_map(&w, keys);
  for (uint32_t i = 0; i < keys; i++) {
    nm_mp_uint(&w, i);
    nm_mp_nil(&w);
  }
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

static int parse_with(const nm_mem *mem, void *user) {
  const nm_span *packed = (const nm_span *)user;
  const nm_mp_limits limits = {
      .depth_max = 8, .elements_max = 1000, .mem = mem};
  nm_request request;
  return nm_request_parse(*packed, &limits, &request, NULL);
}

NM_TEST(requests_allocate_for_large_maps_only_and_say_when_they_cannot) {
  nm_span small = request_with_map(20);
  NM_CHECK_INT(nm_test_fail_each(parse_with, &small), 0);
  nm_span large = request_with_map(300);
  NM_CHECK(nm_test_fail_each(parse_with, &large) > 0);
}

NM_TEST(empty_request_data_stands_for_nil) {
  static const uint8_t hash[NM_ADDRESS_SIZE] = {1};
  nm_request request = {.path_hash = nm_span_of(hash, sizeof hash)};
  uint8_t out[64];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_request_write(&w, &request));
  NM_CHECK_INT(out[w.pos - 1], 0xc0);
  NM_CHECK_INT(w.pos, nm_request_size(&request));
  request.path_hash.len = 15;
  NM_CHECK_STATUS(nm_request_write(&w, &request), NM_E(LENGTH));
  nm_response response = {.request_id = nm_span_of(hash, 15)};
  NM_CHECK_STATUS(nm_response_write(&w, &response), NM_E(LENGTH));
}

NM_TEST(the_id_of_a_request_resource_is_the_hash_of_what_it_carries) {
  uint8_t id[NM_ADDRESS_SIZE];
  uint8_t hash[NM_HASH_SIZE];
  nm_request_id_of_resource(nm_span_of("packed", 6), id);
  nm_sha256(hash, nm_span_of("packed", 6));
  NM_CHECK_BYTES(id, hash, sizeof id);
}

static nm_packet_hash hash_of(nm_span bytes) {
  nm_packet_hash hash;
  NM_CHECK_INT(bytes.len, sizeof hash.b);
  memcpy(hash.b, bytes.ptr, sizeof hash.b);
  return hash;
}

static void check_single_proof_vector(const nm_vector *v) {
  if (!nm_vector_has(v, "input.prover_private_key")) {
    return;
  }
  nm_ed25519_sign_key key =
      sign_key(nm_vector_bytes(v, "input.prover_private_key"));
  nm_packet_hash hash;
  NM_CHECK_OK(nm_packet_digest_raw(nm_vector_bytes(v, "input.proved_packet"),
                                   &hash, NULL));
  bool implicit = strcmp(v->name, "packet-proof-implicit") == 0;
  uint8_t out[NM_PROOF_EXPLICIT_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_proof_write(&w, &key, &hash, implicit));
  NM_CHECK_SPAN(pack(nm_proof_packet(&hash, nm_writer_done(&w))),
                nm_vector_bytes(v, "output.raw"));
  nm_proof proof;
  NM_CHECK_OK(nm_proof_parse(nm_writer_done(&w), false, &proof, NULL));
  NM_CHECK_OK(nm_proof_verify(&proof, &hash, key.public_key));
}

static void check_link_proof_vector(const nm_vector *v) {
  nm_ed25519_sign_key key =
      sign_key(nm_vector_bytes(v, "input.signing_seed_ed25519"));
  nm_packet_hash hash = hash_of(nm_vector_bytes(v, "input.packet_hash"));
  nm_link_id link;
  memcpy(link.b, nm_vector_bytes(v, "input.link_id").ptr, sizeof link.b);
  uint8_t out[NM_PROOF_EXPLICIT_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_OK(nm_proof_write(&w, &key, &hash, false));
  NM_CHECK_SPAN(pack(nm_proof_link_packet(&link, nm_writer_done(&w))),
                nm_vector_bytes(v, "output.raw"));
  nm_proof proof;
  NM_CHECK_OK(nm_proof_parse(nm_writer_done(&w), true, &proof, NULL));
  NM_CHECK_SPAN(proof.signature, nm_vector_bytes(v, "output.signature"));
  NM_CHECK_OK(nm_proof_verify(&proof, &hash, key.public_key));
}

NM_TEST(proofs_are_those_of_the_vectors) {
  nm_vectors_each(NULL, "packet", 12, check_single_proof_vector);
  nm_vectors_each(NULL, "link_packet_proof", 4, check_link_proof_vector);
}

NM_TEST(proofs_are_told_apart_by_length_alone) {
  uint8_t bytes[128] = {0};
  for (size_t len = 0; len <= sizeof bytes; len++) {
    nm_test_context("length %zu", len);
    nm_proof proof;
    nm_span in = nm_span_of(bytes, len);
    NM_CHECK_STATUS(nm_proof_parse(in, false, &proof, NULL),
                    len == 64 || len == 96 ? NM_OK : NM_E(LENGTH));
    NM_CHECK_STATUS(nm_proof_parse(in, true, &proof, NULL),
                    len == 96 ? NM_OK : NM_E(LENGTH));
  }
}

NM_TEST(proofs_of_another_packet_or_by_another_key_fail) {
  static const uint8_t seed[2][NM_KEY_SIZE] = {{1}, {2}};
  nm_ed25519_sign_key key = sign_key(nm_span_of(seed[0], NM_KEY_SIZE));
  nm_ed25519_sign_key other = sign_key(nm_span_of(seed[1], NM_KEY_SIZE));
  nm_packet_hash hash = {{3}};
  nm_packet_hash wrong = {{4}};
  for (int implicit = 0; implicit < 2; implicit++) {
    uint8_t out[NM_PROOF_EXPLICIT_SIZE];
    nm_writer w = nm_writer_of(out, sizeof out);
    NM_CHECK_OK(nm_proof_write(&w, &key, &hash, implicit));
    nm_proof proof;
    NM_CHECK_OK(nm_proof_parse(nm_writer_done(&w), false, &proof, NULL));
    NM_CHECK_STATUS(nm_proof_verify(&proof, &wrong, key.public_key),
                    implicit ? NM_E(SIGNATURE) : NM_E(MISMATCH));
    NM_CHECK_STATUS(nm_proof_verify(&proof, &hash, other.public_key),
                    NM_E(SIGNATURE));
    out[w.pos - 1] ^= 1;
    NM_CHECK_STATUS(nm_proof_verify(&proof, &hash, key.public_key),
                    NM_E(SIGNATURE));
  }
  uint8_t small[63];
  nm_writer w = nm_writer_of(small, sizeof small);
  NM_CHECK_STATUS(nm_proof_write(&w, &key, &hash, true), NM_E(TOO_LARGE));
}

NM_TEST(a_public_identity_synthesizes_no_tunnel) {
  static const uint8_t key[NM_PUBLIC_SIZE] = {1};
  static const uint8_t hash[NM_HASH_SIZE] = {2};
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_public(&id, nm_span_of(key, sizeof key)));
  uint8_t out[NM_TUNNEL_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_tunnel_write(&w, &id, hash, hash), NM_E(NO_KEY));
  NM_CHECK_INT(w.pos, 0);
}
