#include "support.h"

#include "crypto/hash.h"
#include "wire/announce_cache.h"
#include "wire/destination.h"

#include <string.h>

typedef struct parsed {
  nm_packet packet;
  nm_announce announce;
} parsed;

static parsed parse(nm_span raw) {
  parsed p;
  NM_CHECK_OK(nm_packet_parse(raw, &p.packet, NULL));
  NM_CHECK_OK(nm_announce_parse(&p.packet, &p.announce, NULL));
  return p;
}

static nm_announce_verdict validate(nm_span raw) {
  nm_packet packet;
  nm_announce announce;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      nm_announce_parse(&packet, &announce, NULL) != NM_OK) {
    return NM_ANNOUNCE_MALFORMED;
  }
  return nm_announce_validate(&announce, false, NULL);
}

static nm_identity identity_of(nm_span private_key) {
  nm_identity id;
  NM_CHECK_OK(nm_identity_init_private(&id, private_key));
  return id;
}

static nm_identity some_identity(void) {
  uint8_t key[NM_PRIVATE_SIZE];
  nm_test_random_bytes(key, sizeof key);
  return identity_of(nm_span_of(key, sizeof key));
}

static const uint8_t random_bytes[NM_ANNOUNCE_RANDOM_SIZE] = {1, 2, 3, 4, 5};

/* Arguments for a plain announce of the name "app.test". */
static nm_announce_args sample_args(const nm_identity *id) {
  uint8_t *name_hash = (uint8_t *)nm_test_scratch(NM_NAME_HASH_SIZE);
  nm_name_hash(name_hash, nm_span_of("app.test", 8));
  return (nm_announce_args){.identity = id,
                            .name_hash = name_hash,
                            .emitted = 1700000000,
                            .random = random_bytes};
}

static nm_span create(const nm_announce_args *args) {
  uint8_t *out = (uint8_t *)nm_test_scratch(NM_MTU);
  size_t len = 0;
  nm_fault fault = {0};
  NM_CHECK_OK(nm_announce_create(args, out, NM_MTU, &len, &fault));
  NM_CHECK_INT(len, nm_announce_size(args));
  return nm_span_of(out, len);
}

static void check_announce_vector(const nm_vector *v) {
  nm_identity id = identity_of(nm_vector_bytes(v, "input.private_key"));
  const char *name = nm_vector_text(v, "input.name");
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, nm_span_of(name, strlen(name)));
  /* The reference takes the first five bytes of a truncated hash. */
  uint8_t random[NM_ADDRESS_SIZE];
  nm_truncated_hash(random, nm_vector_bytes(v, "input.urandom16"));
  uint8_t ratchet[NM_KEY_SIZE];
  nm_announce_args args = {.identity = &id,
                           .name_hash = name_hash,
                           .emitted = nm_vector_u64(v, "input.timestamp"),
                           .random = random,
                           .context = nm_vector_bool(v, "input.path_response")
                                          ? NM_CONTEXT_PATH_RESPONSE
                                          : NM_CONTEXT_NONE};
  if (nm_vector_has(v, "input.app_data")) {
    args.app_data = nm_vector_bytes(v, "input.app_data");
  }
  if (nm_vector_has(v, "input.ratchet_private")) {
    NM_CHECK_OK(nm_x25519_public(
        ratchet, nm_vector_bytes(v, "input.ratchet_private").ptr));
    args.ratchet = ratchet;
  }
  nm_span raw = nm_vector_bytes(v, "output.raw");
  NM_CHECK_SPAN(create(&args), raw);
  parsed p = parse(raw);
  NM_CHECK_INT(p.announce.emitted, args.emitted);
  NM_CHECK_SPAN(p.announce.random_hash,
                nm_vector_bytes(v, "output.random_hash"));
  NM_CHECK_SPAN(p.announce.signature, nm_vector_bytes(v, "output.signature"));
  NM_CHECK_SPAN(p.announce.app_data, args.app_data);
  NM_CHECK_INT(p.announce.ratchet.len, args.ratchet != NULL ? 32 : 0);
  uint8_t buf[NM_ANNOUNCE_SIGNED_MAX];
  nm_writer w = nm_writer_of(buf, sizeof buf);
  NM_CHECK_OK(nm_announce_signed(&w, &p.announce));
  NM_CHECK_SPAN(nm_writer_done(&w), nm_vector_bytes(v, "output.signed_data"));
  NM_CHECK_INT(nm_announce_validate(&p.announce, false, id.public_key),
               NM_ANNOUNCE_VALID);
  NM_CHECK(nm_announce_matches(&p.announce, name_hash));
}

NM_TEST(announces_are_made_as_in_the_vectors) {
  nm_vectors_each(NULL, "announce", 4, check_announce_vector);
}

static void check_validate_vector(const nm_vector *v) {
  NM_CHECK_INT(validate(nm_vector_bytes(v, "input.raw")) == NM_ANNOUNCE_VALID,
               nm_vector_bool(v, "output.valid"));
}

static void check_limit_vector(const nm_vector *v) {
  NM_CHECK_INT(validate(nm_vector_bytes(v, "input.raw")) == NM_ANNOUNCE_VALID,
               nm_vector_bool(v, "output.accepted"));
}

static void check_captured_vector(const nm_vector *v) {
  NM_CHECK_INT(validate(nm_vector_bytes(v, "input.received_raw")),
               NM_ANNOUNCE_VALID);
}

NM_TEST(announces_are_judged_as_in_the_vectors) {
  nm_vectors_each(NULL, "announce_validate", 2, check_validate_vector);
  nm_vectors_each(NULL, "announce_frame_limit", 3, check_limit_vector);
  nm_vectors_each(NULL, "transport_rebroadcast", 1, check_captured_vector);
  nm_vectors_each(NULL, "shared_announce_in", 1, check_captured_vector);
}

NM_TEST(a_flipped_bit_makes_an_announce_invalid_unless_it_is_not_covered) {
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  uint8_t ratchet[NM_KEY_SIZE] = {9};
  args.ratchet = ratchet;
  args.app_data = nm_span_of("data", 4);
  nm_span raw = create(&args);
  uint8_t *flipped = (uint8_t *)nm_test_scratch(raw.len);
  for (size_t bit = 0; bit < raw.len * 8; bit++) {
    nm_test_context("bit %zu", bit);
    memcpy(flipped, raw.ptr, raw.len);
    flipped[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    /* Hops and context are not signed, nor the flags but for the split. */
    bool hops = bit / 8 == 1;
    bool context = bit / 8 == 18;
    bool flags = bit == 2 || bit == 3 || bit == 4 || bit == 7;
    nm_announce_verdict expected =
        ((hops && bit != 15) || context || flags) ? NM_ANNOUNCE_VALID
        : bit < 2 || bit == 15                    ? NM_ANNOUNCE_MALFORMED
                                                  : NM_ANNOUNCE_BAD_SIGNATURE;
    if (bit == 6) {
      continue; /* the header type moves every field */
    }
    NM_CHECK_INT(validate(nm_span_of(flipped, raw.len)), expected);
  }
}

NM_TEST(announces_cut_at_every_length_name_the_missing_field) {
  nm_identity id = some_identity();
  for (int with_ratchet = 0; with_ratchet < 2; with_ratchet++) {
    nm_announce_args args = sample_args(&id);
    uint8_t ratchet[NM_KEY_SIZE] = {9};
    args.ratchet = with_ratchet ? ratchet : NULL;
    nm_span raw = create(&args);
    for (size_t len = NM_PACKET_MIN; len < raw.len; len++) {
      nm_test_context("ratchet %d length %zu", with_ratchet, len);
      nm_packet packet;
      nm_announce announce;
      nm_fault fault = {0};
      NM_CHECK_OK(nm_packet_parse(nm_span_of(raw.ptr, len), &packet, NULL));
      NM_CHECK_STATUS(nm_announce_parse(&packet, &announce, &fault),
                      NM_E(TRUNCATED));
      size_t data = len - NM_HEADER_1_SIZE;
      const char *field = data < 64                    ? "public_key"
                          : data < 74                  ? "name_hash"
                          : data < 84                  ? "random_hash"
                          : data < 116 && args.ratchet ? "ratchet"
                                                       : "signature";
      NM_CHECK(strcmp(fault.field, field) == 0);
      NM_CHECK(fault.offset <= len);
    }
  }
}

NM_TEST(app_data_is_absent_or_empty_by_the_length_rule) {
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  parsed p = parse(create(&args));
  NM_CHECK(!p.announce.has_app_data);
  uint8_t ratchet[NM_KEY_SIZE] = {9};
  args.ratchet = ratchet;
  p = parse(create(&args));
  NM_CHECK(p.announce.has_app_data);
  NM_CHECK_INT(p.announce.app_data.len, 0);
  args.ratchet = NULL;
  args.app_data = nm_span_of("x", 1);
  p = parse(create(&args));
  NM_CHECK(p.announce.has_app_data);
}

NM_TEST(other_packets_are_not_announces) {
  nm_packet p = nm_packet_of(NM_DATA, NM_SINGLE, NM_CONTEXT_NONE, random_bytes,
                             nm_span_of("x", 1));
  nm_announce a;
  nm_fault fault = {0};
  NM_CHECK_STATUS(nm_announce_parse(&p, &a, &fault), NM_E(TYPE));
  NM_CHECK(strcmp(fault.field, "packet_type") == 0);
}

NM_TEST(validation_tells_signature_destination_and_key_apart) {
  nm_identity id = some_identity();
  nm_identity other = some_identity();
  nm_announce_args args = sample_args(&id);
  parsed p = parse(create(&args));
  NM_CHECK_INT(nm_announce_validate(&p.announce, false, id.public_key),
               NM_ANNOUNCE_VALID);
  NM_CHECK_INT(nm_announce_validate(&p.announce, false, other.public_key),
               NM_ANNOUNCE_KEY_MISMATCH);
  NM_CHECK_INT(nm_announce_validate(&p.announce, true, other.public_key),
               NM_ANNOUNCE_VALID);
  /* A destination that the key does not own, signed all the same. */
  uint8_t payload[NM_ANNOUNCE_MIN];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  nm_writer_span(&w, p.announce.public_key);
  nm_writer_span(&w, p.announce.name_hash);
  nm_writer_span(&w, p.announce.random_hash);
  static const uint8_t stolen[NM_ADDRESS_SIZE] = {7};
  nm_span parts[2] = {nm_span_of(stolen, sizeof stolen), nm_writer_done(&w)};
  uint8_t *signature = nm_writer_reserve(&w, NM_SIGNATURE_SIZE);
  NM_CHECK_OK(nm_ed25519_signv(signature, &id.sign, parts, 2));
  nm_packet packet = nm_packet_of(NM_ANNOUNCE, NM_SINGLE, NM_CONTEXT_NONE,
                                  stolen, nm_writer_done(&w));
  nm_announce forged;
  NM_CHECK_OK(nm_announce_parse(&packet, &forged, NULL));
  NM_CHECK_INT(nm_announce_validate(&forged, true, NULL), NM_ANNOUNCE_VALID);
  NM_CHECK_INT(nm_announce_validate(&forged, false, NULL),
               NM_ANNOUNCE_BAD_DESTINATION);
  NM_CHECK(strcmp(nm_announce_verdict_name(NM_ANNOUNCE_BAD_DESTINATION),
                  "BAD_DESTINATION") == 0);
}

NM_TEST(announces_match_their_own_name_only) {
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  parsed p = parse(create(&args));
  NM_CHECK(nm_announce_matches(&p.announce, args.name_hash));
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, nm_span_of("app.other", 9));
  NM_CHECK(!nm_announce_matches(&p.announce, name_hash));
}

NM_TEST(an_announce_can_be_made_with_a_transport_header) {
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  static const uint8_t relay[NM_ADDRESS_SIZE] = {0x77};
  args.transport_id = relay;
  args.hops = 3;
  parsed p = parse(create(&args));
  NM_CHECK_INT(p.packet.flags, 0x51);
  NM_CHECK_INT(p.packet.hops, 3);
  NM_CHECK_BYTES(p.packet.transport_id.ptr, relay, sizeof relay);
  NM_CHECK_INT(nm_announce_validate(&p.announce, false, NULL),
               NM_ANNOUNCE_VALID);
}

static void check_create_refused(const nm_announce_args *args, size_t cap,
                                 int status, const char *field) {
  uint8_t out[NM_MTU];
  size_t len = 0;
  nm_fault fault = {0};
  nm_test_context("%s", field);
  NM_CHECK_STATUS(nm_announce_create(args, out, cap, &len, &fault), status);
  NM_CHECK(strcmp(fault.field, field) == 0);
}

NM_TEST(creating_an_announce_refuses_bad_arguments) {
  nm_identity id = some_identity();
  nm_identity public_only;
  NM_CHECK_OK(nm_identity_init_public(
      &public_only, nm_span_of(id.public_key, sizeof id.public_key)));
  uint8_t app_data[334] = {0};
  nm_announce_args args = sample_args(&id);
  args.identity = &public_only;
  check_create_refused(&args, NM_MTU, NM_E(NO_KEY), "identity");
  args = sample_args(&id);
  args.emitted = NM_ANNOUNCE_EMITTED_MAX + 1;
  check_create_refused(&args, NM_MTU, NM_E(RANGE), "emitted");
  args = sample_args(&id);
  args.hops = 128;
  check_create_refused(&args, NM_MTU, NM_E(RANGE), "hops");
  args = sample_args(&id);
  args.context = NM_CONTEXT_REQUEST;
  check_create_refused(&args, NM_MTU, NM_E(VALUE), "context");
  args = sample_args(&id);
  check_create_refused(&args, 166, NM_E(TOO_LARGE), "output");
  args.app_data = nm_span_of(app_data, 334);
  check_create_refused(&args, NM_MTU, NM_E(TOO_LARGE), "packet");
  args.app_data.len = SIZE_MAX - 10;
  check_create_refused(&args, NM_MTU, NM_E(TOO_LARGE), "packet");
  args.app_data.len = 333;
  NM_CHECK_INT(create(&args).len, 500);
}

NM_TEST(the_last_emission_time_of_the_format_is_kept) {
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  args.emitted = NM_ANNOUNCE_EMITTED_MAX;
  NM_CHECK(parse(create(&args)).announce.emitted == NM_ANNOUNCE_EMITTED_MAX);
}

/* A cache with room for |buckets| * 8 announces. */
static nm_announce_cache cache_of(size_t buckets) {
  nm_announce_cache cache;
  static const uint8_t key[16] = {0xca};
  nm_announce_bucket *storage = (nm_announce_bucket *)nm_test_scratch(
      buckets * sizeof(nm_announce_bucket));
  NM_CHECK_OK(nm_announce_cache_init(&cache, storage, buckets, key));
  return cache;
}

NM_TEST(the_cache_answers_for_the_same_bytes_in_another_buffer) {
  nm_announce_cache cache = cache_of(4);
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  nm_span raw = create(&args);
  parsed p = parse(raw);
  NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, NULL, NULL),
               NM_ANNOUNCE_VALID);
  NM_CHECK_INT(cache.misses, 1);
  uint8_t *copy = (uint8_t *)nm_test_scratch(raw.len);
  memcpy(copy, raw.ptr, raw.len);
  copy[1] = 5; /* another hop count: the same announce */
  p = parse(nm_span_of(copy, raw.len));
  NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, NULL, NULL),
               NM_ANNOUNCE_VALID);
  NM_CHECK_INT(cache.hits, 1);
  nm_packet_hash hash;
  nm_packet_digest(&p.packet, &hash);
  NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, &hash, NULL),
               NM_ANNOUNCE_VALID);
  NM_CHECK_INT(cache.hits, 2);
  NM_CHECK_INT(cache.count, 1);
}

NM_TEST(a_cache_hit_does_not_skip_the_key_check) {
  nm_announce_cache cache = cache_of(1);
  nm_identity id = some_identity();
  nm_identity other = some_identity();
  nm_announce_args args = sample_args(&id);
  parsed p = parse(create(&args));
  for (int i = 0; i < 3; i++) {
    NM_CHECK_INT(
        nm_announce_cache_validate(&cache, &p.announce, NULL, other.public_key),
        NM_ANNOUNCE_KEY_MISMATCH);
    NM_CHECK_INT(
        nm_announce_cache_validate(&cache, &p.announce, NULL, id.public_key),
        NM_ANNOUNCE_VALID);
  }
}

NM_TEST(a_flipped_context_flag_does_not_hit_the_cache) {
  nm_announce_cache cache = cache_of(1);
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  args.app_data = nm_span_of("thirty-two bytes of app data or more", 36);
  nm_span raw = create(&args);
  parsed p = parse(raw);
  NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, NULL, NULL),
               NM_ANNOUNCE_VALID);
  uint8_t *flipped = (uint8_t *)nm_test_scratch(raw.len);
  memcpy(flipped, raw.ptr, raw.len);
  flipped[0] ^= 0x20;
  p = parse(nm_span_of(flipped, raw.len));
  NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, NULL, NULL),
               NM_ANNOUNCE_BAD_SIGNATURE);
  NM_CHECK_INT(cache.hits, 0);
  NM_CHECK_INT(cache.count, 1);
}

NM_TEST(invalid_announces_are_not_cached) {
  nm_announce_cache cache = cache_of(1);
  nm_identity id = some_identity();
  nm_announce_args args = sample_args(&id);
  nm_span raw = create(&args);
  uint8_t *bad = (uint8_t *)nm_test_scratch(raw.len);
  memcpy(bad, raw.ptr, raw.len);
  bad[raw.len - 1] ^= 1;
  parsed p = parse(nm_span_of(bad, raw.len));
  for (int i = 0; i < 2; i++) {
    NM_CHECK_INT(nm_announce_cache_validate(&cache, &p.announce, NULL, NULL),
                 NM_ANNOUNCE_BAD_SIGNATURE);
  }
  NM_CHECK_INT(cache.count, 0);
  NM_CHECK_INT(cache.misses, 2);
}

static nm_packet_hash hash_number(uint32_t n) {
  nm_packet_hash hash;
  nm_sha256(hash.b, nm_span_of(&n, sizeof n));
  return hash;
}

NM_TEST(the_cache_evicts_what_was_not_hit_and_counts) {
  nm_announce_cache cache = cache_of(1);
  for (uint32_t i = 0; i < NM_ANNOUNCE_WAYS; i++) {
    nm_packet_hash hash = hash_number(i);
    nm_announce_cache_add(&cache, &hash, false);
    nm_announce_cache_add(&cache, &hash, false);
  }
  NM_CHECK_INT(cache.count, NM_ANNOUNCE_WAYS);
  NM_CHECK_INT(cache.evictions, 0);
  nm_packet_hash kept = hash_number(0);
  for (uint32_t i = 100; i < 200; i++) {
    nm_test_context("entry %u", (unsigned)i);
    NM_CHECK(nm_announce_cache_find(&cache, &kept, false));
    nm_packet_hash hash = hash_number(i);
    nm_announce_cache_add(&cache, &hash, false);
  }
  nm_packet_hash newest = hash_number(199);
  NM_CHECK(nm_announce_cache_find(&cache, &newest, false));
  NM_CHECK_INT(cache.evictions, 100);
  NM_CHECK_INT(cache.count, NM_ANNOUNCE_WAYS);
  nm_packet_hash gone = hash_number(1);
  NM_CHECK(!nm_announce_cache_find(&cache, &gone, false));
  nm_announce_cache_clear(&cache);
  NM_CHECK(!nm_announce_cache_find(&cache, &kept, false));
  NM_CHECK_INT(cache.count, 0);
}

NM_TEST(a_cache_holds_about_what_it_was_sized_for) {
  NM_CHECK_INT(nm_announce_cache_buckets(0), 1);
  NM_CHECK_INT(nm_announce_cache_buckets(8), 1);
  NM_CHECK_INT(nm_announce_cache_buckets(9), 2);
  NM_CHECK_INT(nm_announce_cache_buckets(4096), 512);
  size_t most = nm_announce_cache_buckets(SIZE_MAX);
  NM_CHECK(most <= SIZE_MAX / sizeof(nm_announce_bucket));
  nm_announce_cache cache = cache_of(512);
  for (uint32_t i = 0; i < 2048; i++) {
    nm_packet_hash hash = hash_number(i);
    nm_announce_cache_add(&cache, &hash, i & 1);
  }
  uint32_t found = 0;
  for (uint32_t i = 0; i < 2048; i++) {
    nm_packet_hash hash = hash_number(i);
    found += nm_announce_cache_find(&cache, &hash, i & 1);
    NM_CHECK(!nm_announce_cache_find(&cache, &hash, !(i & 1)));
  }
  NM_CHECK(found > 1950);
  nm_announce_bucket bucket[3];
  static const uint8_t key[16] = {0};
  NM_CHECK_STATUS(nm_announce_cache_init(&cache, bucket, 3, key),
                  NM_E(ARGUMENT));
  NM_CHECK_STATUS(nm_announce_cache_init(&cache, bucket, 0, key),
                  NM_E(ARGUMENT));
}
