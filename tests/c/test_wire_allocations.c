/* No allocation per operation on the codecs' hot paths: the C library's
 * allocator is wrapped for all code of ours (see the Makefile), OpenSSL's own
 * is counted by test_crypto_allocations.c.
 */
#include "support.h"

#include "base/msgpack.h"
#include "crypto/token.h"
#include "wire/announce.h"
#include "wire/hdlc.h"
#include "wire/ifac.h"
#include "wire/lxmf_message.h"
#include "wire/packet.h"
#include "wire/resource.h"
#include "wire/resource_window.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_size_t calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

void *__wrap_malloc(size_t size) {
  atomic_fetch_add(&calls, 1);
  return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  atomic_fetch_add(&calls, 1);
  return __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size) {
  atomic_fetch_add(&calls, 1);
  return __real_realloc(ptr, size);
}

typedef struct kit {
  nm_cipher cipher;
  nm_identity identity;
  nm_token_key key;
  nm_ifac ifac;
  uint8_t data[4096];
  uint8_t out[8192];
  uint8_t back[8192];
  uint8_t storage[2048];
} kit;

static void packets(kit *k) {
  nm_packet p =
      nm_packet_of(NM_DATA, NM_SINGLE, 0, k->data, nm_span_of(k->data, 128));
  nm_packet_hash hash;
  size_t len = 0;
  NM_CHECK_OK(nm_packet_pack(&p, NM_PACKET_ORIGINATE, NM_MTU, k->out,
                             sizeof(k->out), &len, NULL));
  NM_CHECK_OK(nm_packet_parse(nm_span_of(k->out, len), &p, NULL));
  nm_packet_digest(&p, &hash);
}

static void announces(kit *k) {
  nm_announce_args args = {.identity = &k->identity,
                           .name_hash = k->data,
                           .app_data = nm_span_of("app", 3),
                           .emitted = 1700000000,
                           .random = k->data};
  nm_packet p = {0};
  nm_announce a;
  size_t len = 0;
  NM_CHECK_OK(nm_announce_create(&args, k->out, sizeof(k->out), &len, NULL));
  NM_CHECK_OK(nm_packet_parse(nm_span_of(k->out, len), &p, NULL));
  NM_CHECK_OK(nm_announce_parse(&p, &a, NULL));
  NM_CHECK_INT(nm_announce_validate(&a, false, NULL), NM_ANNOUNCE_VALID);
}

static void tokens(kit *k) {
  size_t len = 0;
  NM_CHECK_OK(nm_token_seal(&k->cipher, &k->key, k->data,
                            nm_span_of(k->data, 464), k->out));
  NM_CHECK_OK(nm_token_open(&k->cipher, &k->key,
                            nm_span_of(k->out, nm_token_size(464)), k->back,
                            &len));
  NM_CHECK_INT(len, 464);
}

static void messages(kit *k) {
  nm_lxmf_draft draft = {.timestamp = 1.5,
                         .title = nm_span_of("title", 5),
                         .content = nm_span_of(k->data, 2048),
                         .fields = nm_span_of("\x80", 1)};
  uint8_t id[NM_HASH_SIZE];
  nm_lxmf_view view;
  nm_buffer scratch;
  nm_writer w = nm_writer_of(k->out, sizeof(k->out));
  NM_CHECK_OK(nm_lxmf_pack(&draft, &k->identity.sign, NULL, &w, id));
  NM_CHECK_OK(nm_lxmf_decode(nm_writer_done(&w), NULL, &view, NULL));
  nm_buffer_init(&scratch, &nm_mem_system, k->back, sizeof(k->back), 0);
  NM_CHECK_OK(nm_lxmf_verify(&view, k->identity.sign.public_key, &scratch, id));
  nm_buffer_dispose(&scratch);
}

static void resources(kit *k) {
  nm_span parts[16];
  uint8_t hashmap[16 * NM_RESOURCE_MAP_HASH_SIZE];
  uint8_t sent[8];
  nm_span stream = nm_span_of(k->data, sizeof(k->data));
  int count = nm_resource_parts(stream, 464, parts, 16);
  NM_CHECK_INT(count, 9);
  nm_writer w = nm_writer_of(k->back, sizeof(k->back));
  NM_CHECK_OK(nm_resource_parts_join(parts, (size_t)count, &w));
  nm_resource_map_hashes(stream, 464, k->data, hashmap);
  nm_resource_server server;
  nm_mspan map = {sent, nm_resource_sent_size(9)};
  NM_CHECK_OK(nm_resource_server_init(&server, stream, nm_span_of(hashmap, 36),
                                      464, k->data, map));
  nm_resource_request request = {.hash = nm_span_of(k->data, NM_HASH_SIZE),
                                 .wanted = nm_span_of(hashmap, 16)};
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
  w = nm_writer_of(k->out, sizeof(k->out));
  NM_CHECK_OK(nm_resource_request_encode(&request, &w));
  NM_CHECK_OK(nm_resource_serve(&server, nm_writer_done(&w), tx,
                                NM_RESOURCE_GUARD, &answer, NULL));
  NM_CHECK_INT(answer.count, 4);
}

static void frames(kit *k) {
  nm_hdlc_limits limits = {
      .frame_min = 20, .frame_max = 1024, .buffered_max = 4096};
  nm_hdlc_decoder d;
  nm_span frame;
  nm_writer w = nm_writer_of(k->out, sizeof(k->out));
  NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(k->data, 500)));
  NM_CHECK_OK(nm_hdlc_decoder_init(&d, k->storage, &limits));
  nm_reader r = nm_reader_of(nm_writer_done(&w));
  NM_CHECK(nm_hdlc_decoder_next(&d, &r, &frame));
  NM_CHECK_INT(frame.len, 500);
}

static void access_codes(kit *k) {
  size_t len = 0;
  k->data[0] = 0;
  NM_CHECK_OK(nm_ifac_mask(&k->ifac, nm_span_of(k->data, 200), k->out,
                           sizeof(k->out), &len, NULL));
  NM_CHECK_INT(nm_ifac_unmask(&k->ifac, nm_span_of(k->out, len), k->back, &len),
               NM_IFAC_OK);
}

static void msgpack(kit *k) {
  nm_writer w = nm_writer_of(k->out, sizeof(k->out));
  nm_mp_map(&w, 2);
  nm_mp_uint(&w, 5);
  nm_mp_bin(&w, nm_span_of(k->data, 300));
  nm_mp_str(&w, nm_span_of("key", 3));
  nm_mp_array(&w, 2);
  nm_mp_nil(&w);
  nm_mp_float(&w, 1.5);
  nm_reader r = nm_reader_of(nm_writer_done(&w));
  NM_CHECK_OK(nm_mp_skip(&r, NULL));
  r = nm_reader_of(nm_writer_done(&w));
  nm_writer again = nm_writer_of(k->back, sizeof(k->back));
  NM_CHECK_OK(nm_mp_canonical(&r, &again, NULL));
}

static void kit_init(kit *k) {
  nm_test_random_bytes(k->data, sizeof(k->data));
  NM_CHECK_OK(nm_cipher_open(&k->cipher, NULL));
  NM_CHECK_OK(nm_identity_init_private(&k->identity, nm_span_of(k->data, 64)));
  NM_CHECK_OK(nm_token_key_init(&k->key, nm_span_of(k->data, 64)));
  NM_CHECK_OK(
      nm_ifac_init(&k->ifac, nm_span_of("net", 3), nm_span_of(NULL, 0), 16));
}

NM_TEST(the_hot_paths_of_the_codecs_do_not_allocate) {
  static void (*const paths[])(kit *) = {packets,      announces, tokens,
                                         messages,     resources, frames,
                                         access_codes, msgpack};
  kit *k = nm_test_scratch(sizeof(kit));
  kit_init(k);
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
    nm_test_context("path %zu", i);
    paths[i](k); /* the warm-up */
    size_t before = calls;
    for (int n = 0; n < 20; n++) {
      paths[i](k);
    }
    NM_CHECK_INT(calls - before, 0);
  }
  nm_cipher_close(&k->cipher);
}

NM_TEST(the_counter_of_allocations_counts) {
  size_t before = calls;
  free(nm_alloc(&nm_mem_system, 10));
  NM_CHECK_INT(calls - before, 1);
}
