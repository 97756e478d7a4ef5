/* Forwarding in batches: the same decisions as one by one, and no allocation
 * for a forwarded packet once the memory of a node is warm.
 */
#include "base/stock.h"
#include "crypto/hash.h"
#include "engine_net.h"
#include "support.h"
#include "wire/packet.h"

#include <string.h>

#define KEEP (512u << 10) /* as csrc/io/node.c */
#define PATHS 300
#define BATCH 70 /* more than are fetched together */
#define RAW_MAX 1064
#define CODE_SIZE 16

typedef struct hub {
  nm_entropy_pool pool;
  nm_entropy source;
  nm_engine *engine;
  nm_iface_id from;
  nm_iface_id to;
  nm_now now;
} hub;

static void destination_of(uint64_t i, uint8_t out[NM_ADDRESS_SIZE]) {
  uint8_t full[NM_HASH_SIZE];
  nm_sha256(full, nm_span_of(&i, sizeof i));
  memcpy(out, full, NM_ADDRESS_SIZE);
}

static void put_path(hub *h, uint64_t i, uint8_t hops) {
  nm_path_record record = {.hops = hops,
                           .iface = h->to,
                           .updated_mono_us = h->now.mono_us,
                           .updated_unix_us = h->now.unix_us,
                           .expires_mono_us = h->now.mono_us + 1000000000ull,
                           .expires_unix_us = h->now.unix_us + 1000000000ll};
  destination_of(i, record.destination.b);
  memset(record.next_hop, 'n', sizeof record.next_hop);
  record.blobs = nm_block_copy(&nm_mem_system, nm_span_of("0123456789", 10));
  NM_CHECK_OK(nm_engine_path_put(h->engine, &record));
  nm_block_drop(record.blobs);
}

static void open_hub(hub *h, const nm_mem *mem) {
  uint8_t seed[32] = {6};
  nm_engine_config config;
  nm_iface_spec spec;
  int status = NM_OK;
  memset(h, 0, sizeof *h);
  nm_entropy_pool_init_seed(&h->pool, seed);
  h->source = nm_entropy_pool_source(&h->pool);
  h->now = (nm_now){.mono_us = 1000000, .unix_us = 1750000000000000};
  nm_engine_config_default(&config);
  config.transport = true;
  config.limits.filter = 256;
  config.limits.reverses = 200;
  config.limits.recorder = 128;
  config.limits.paths = PATHS;
  h->engine = nm_engine_new(mem, &h->source, &config, h->now, &status);
  NM_CHECK_OK(status);
  NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", "from"));
  NM_CHECK_OK(nm_engine_iface_add(h->engine, &spec, &h->from, h->now));
  NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", "to"));
  NM_CHECK_OK(nm_engine_iface_add(h->engine, &spec, &h->to, h->now));
  for (uint64_t i = 0; i < PATHS; i++) {
    put_path(h, i, i % 5 == 0 ? 1 : 3);
  }
}

/* A packet number |number| for one of the destinations. */
static size_t make_packet(const hub *h, uint64_t number, size_t size,
                          uint8_t *out) {
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t payload[RAW_MAX];
  size_t len = 0;
  destination_of(number * 7 % PATHS, destination);
  memset(payload, 'p', sizeof payload);
  memcpy(payload, &number, sizeof number);
  nm_packet p = nm_packet_of(NM_DATA, NM_SINGLE, 0, destination,
                             nm_span_of(payload, size - NM_HEADER_2_SIZE));
  p.header_type = NM_HEADER_2;
  p.transport_type = NM_TRANSPORT;
  p.transport_id =
      nm_span_of(nm_engine_identity(h->engine)->hash.b, NM_ADDRESS_SIZE);
  NM_CHECK_OK(
      nm_packet_pack(&p, NM_PACKET_RELAY, size, out, RAW_MAX, &len, NULL));
  return len;
}

static uint64_t drain(hub *h) {
  uint64_t count = 0;
  nm_output out;
  nm_event event;
  while (nm_engine_output(h->engine, &out)) {
    NM_CHECK_INT(out.iface, h->to);
    NM_CHECK_INT(nm_block_span(out.packet).ptr[1], 1);
    nm_block_drop(out.packet);
    count++;
  }
  while (nm_engine_event(h->engine, &event)) {
    nm_event_dispose(&event);
  }
  return count;
}

/* |count| new packets from |number| on, in batches; how many went out. */
static uint64_t forward(hub *h, uint64_t number, uint64_t count) {
  static uint8_t raws[BATCH][RAW_MAX];
  nm_ingress_config config = {.hw_mtu = RAW_MAX};
  nm_span data[BATCH];
  nm_frame frames[BATCH];
  uint64_t out = 0;
  while (count > 0) {
    size_t n = count < BATCH ? (size_t)count : BATCH;
    for (size_t i = 0; i < n; i++) {
      size_t size = number % 3 == 0 ? 500 : 147;
      data[i] = nm_span_of(raws[i], make_packet(h, number++, size, raws[i]));
    }
    nm_ingress_many(&config, data, n, (nm_mspan){NULL, 0}, frames);
    nm_engine_input_many(h->engine, h->from, frames, n, NULL, h->now);
    out += drain(h);
    h->now.mono_us += 100;
    h->now.unix_us += 100;
    count -= n;
  }
  return out;
}

NM_TEST(a_hundred_thousand_forwarded_packets_allocate_nothing) {
  nm_test_mem below;
  nm_stock_stats before;
  nm_stock_stats after;
  hub h;
  nm_test_mem_init(&below);
  nm_stock *stock = nm_stock_new(&below.mem, KEEP);
  open_hub(&h, nm_stock_mem(stock));
  NM_CHECK_INT(forward(&h, 0, 2000), 2000);
  size_t calls = below.calls;
  nm_stock_read(stock, &before);
  NM_CHECK_INT(forward(&h, 2000, 100000), 100000);
  nm_stock_read(stock, &after);
  NM_CHECK_INT(below.calls - calls, 0);
  /* One block for each, which the stock had at hand. */
  NM_CHECK_INT(after.reused - before.reused, 100000);
  nm_engine_free(h.engine);
  nm_stock_free(stock);
  NM_CHECK_INT(below.live, 0);
}

/* Frames of every fate: forwarded, repeated, malformed, for others. */
static size_t make_mixture(const hub *h, uint64_t i, uint8_t *out) {
  uint64_t number = i % 11 == 10 ? i - 5 : i;
  size_t len = make_packet(h, number, 147 + number % 700, out);
  if (i % 13 == 0) {
    out[2] ^= 1; /* another transport node's */
  }
  if (i % 17 == 0) {
    out[20] ^= 1; /* nobody's destination */
  }
  return i % 19 == 0 ? i % 30 : len;
}

static void same_output(hub *a, hub *b) {
  nm_output x;
  nm_output y;
  bool more = true;
  while (more) {
    more = nm_engine_output(a->engine, &x);
    NM_CHECK_INT(nm_engine_output(b->engine, &y), more);
    if (more) {
      NM_CHECK(nm_span_equal(nm_block_span(x.packet), nm_block_span(y.packet)));
      NM_CHECK_INT(x.iface, y.iface);
      nm_block_drop(x.packet);
      nm_block_drop(y.packet);
    }
  }
}

NM_TEST(a_batch_is_decided_on_as_its_frames_one_by_one) {
  static uint8_t raws[BATCH][RAW_MAX];
  static uint32_t seen[NM_DROP_COUNT];
  nm_ingress_config config = {.hw_mtu = RAW_MAX};
  hub one;
  hub many;
  memset(seen, 0, sizeof seen);
  open_hub(&one, &nm_mem_system);
  open_hub(&many, &nm_mem_system);
  for (uint64_t round = 0; round < 40; round++) {
    nm_span data[BATCH];
    nm_frame frames[BATCH];
    nm_verdict verdicts[BATCH];
    for (uint64_t i = 0; i < BATCH; i++) {
      data[i] =
          nm_span_of(raws[i], make_mixture(&one, round * BATCH + i, raws[i]));
    }
    nm_ingress_many(&config, data, BATCH, (nm_mspan){NULL, 0}, frames);
    nm_engine_input_many(many.engine, many.from, frames, BATCH, verdicts,
                         many.now);
    for (size_t i = 0; i < BATCH; i++) {
      nm_frame frame;
      nm_ingress(&config, data[i], (nm_mspan){NULL, 0}, &frame);
      nm_verdict v = nm_engine_input(one.engine, one.from, &frame, one.now);
      NM_CHECK_INT(verdicts[i].drop, v.drop);
      NM_CHECK_INT(verdicts[i].hashed, v.hashed);
      NM_CHECK_INT(verdicts[i].remembered, v.remembered);
      NM_CHECK(!v.hashed ||
               memcmp(&verdicts[i].hash, &v.hash, sizeof v.hash) == 0);
      seen[v.drop]++;
    }
    same_output(&one, &many);
  }
  NM_CHECK(seen[NM_DROP_NONE] > 100 && seen[NM_DROP_DUPLICATE] > 10);
  NM_CHECK(seen[NM_DROP_NOT_NEXT_HOP] > 10);
  NM_CHECK(seen[NM_DROP_NO_DESTINATION] > 10);
  NM_CHECK(seen[NM_DROP_MALFORMED] + seen[NM_DROP_RUNT] > 10);
  nm_engine_free(one.engine);
  nm_engine_free(many.engine);
}

/* With access codes, and room for all but the last. */
NM_TEST(a_batch_of_coded_frames_is_opened_side_by_side) {
  enum { COUNT = 40, SIZE = 147 };
  static uint8_t masked[COUNT][SIZE + CODE_SIZE];
  static uint8_t scratch[COUNT * (SIZE + CODE_SIZE)];
  nm_ifac code;
  nm_span data[COUNT];
  nm_frame frames[COUNT];
  hub h;
  NM_CHECK_OK(nm_ifac_init(&code, nm_span_of("net", 3), nm_span_of(NULL, 0),
                           CODE_SIZE));
  open_hub(&h, &nm_mem_system);
  for (size_t i = 0; i < COUNT; i++) {
    uint8_t raw[RAW_MAX];
    size_t len = make_packet(&h, i, SIZE, raw);
    nm_mspan room = {masked[i], sizeof masked[i]};
    NM_CHECK_INT(nm_egress(&code, nm_span_of(raw, len), room),
                 SIZE + CODE_SIZE);
    data[i] = nm_span_of(masked[i], sizeof masked[i]);
  }
  masked[5][9] ^= 1;
  nm_ingress_config config = {.ifac = &code, .hw_mtu = RAW_MAX};
  nm_ingress_many(&config, data, COUNT, (nm_mspan){scratch, sizeof scratch - 1},
                  frames);
  for (size_t i = 0; i < COUNT; i++) {
    nm_drop expected = i == 5           ? NM_DROP_IFAC_WRONG
                       : i == COUNT - 1 ? NM_DROP_NO_MEMORY
                                        : NM_DROP_NONE;
    NM_CHECK_INT(frames[i].drop, expected);
    if (expected == NM_DROP_NONE) {
      nm_packet_hash hash;
      uint8_t raw[RAW_MAX];
      size_t len = make_packet(&h, i, SIZE, raw);
      NM_CHECK(nm_span_equal(frames[i].raw, nm_span_of(raw, len)));
      NM_CHECK_OK(nm_packet_digest_raw(nm_span_of(raw, len), &hash, NULL));
      NM_CHECK(memcmp(&hash, &frames[i].hash, sizeof hash) == 0);
    }
  }
  nm_ifac_wipe(&code);
  nm_engine_free(h.engine);
}

/* A packet with |type_flags| and |context| to nobody. */
static nm_span clear_packet(uint8_t *raw, uint8_t type_flags, uint8_t context) {
  memset(raw, 0x5a, RAW_MAX);
  raw[0] = type_flags;
  raw[1] = 0;
  raw[2 + NM_ADDRESS_SIZE] = context;
  return nm_span_of(raw, RAW_MAX);
}

#define LINK_DATA (NM_LINK << 2 | NM_DATA)
#define SINGLE_DATA (NM_SINGLE << 2 | NM_DATA)

NM_TEST(parts_alone_come_without_a_hash_and_are_not_remembered) {
  static const struct {
    uint8_t flags;
    uint8_t context;
    bool hashed;
    nm_drop drop;
  } cases[] = {
      {LINK_DATA, NM_CONTEXT_RESOURCE, false, NM_DROP_NO_LINK},
      {LINK_DATA, NM_CONTEXT_NONE, true, NM_DROP_NO_LINK},
      {LINK_DATA, NM_CONTEXT_RESOURCE_REQ, true, NM_DROP_NO_LINK},
      {SINGLE_DATA, NM_CONTEXT_RESOURCE, true, NM_DROP_NO_DESTINATION},
  };
  enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
  static const nm_packet_hash none = {{0}};
  uint8_t raw[COUNT][RAW_MAX];
  nm_span data[COUNT];
  nm_frame many[COUNT];
  hub h;
  open_hub(&h, &nm_mem_system);
  nm_ingress_config config = {.hw_mtu = RAW_MAX, .parts_unhashed = true};
  for (size_t i = 0; i < COUNT; i++) {
    data[i] = clear_packet(raw[i], cases[i].flags, cases[i].context);
  }
  nm_ingress_many(&config, data, COUNT, (nm_mspan){NULL, 0}, many);
  for (size_t i = 0; i < COUNT; i++) {
    nm_test_context("case %zu", i);
    nm_frame one;
    nm_packet_hash hash;
    nm_ingress(&config, data[i], (nm_mspan){NULL, 0}, &one);
    NM_CHECK_OK(nm_packet_digest_raw(data[i], &hash, NULL));
    NM_CHECK(one.unhashed == !cases[i].hashed);
    NM_CHECK(many[i].unhashed == one.unhashed);
    NM_CHECK(memcmp(&one.hash, cases[i].hashed ? &hash : &none, sizeof hash) ==
             0);
    NM_CHECK(memcmp(&many[i].hash, &one.hash, sizeof hash) == 0);
    size_t known = nm_engine_filter_size(h.engine);
    nm_verdict verdict = nm_engine_input(h.engine, h.from, &one, h.now);
    NM_CHECK_INT(verdict.drop, cases[i].drop);
    NM_CHECK(verdict.hashed == cases[i].hashed);
    NM_CHECK(verdict.remembered == cases[i].hashed);
    NM_CHECK_INT(nm_engine_filter_size(h.engine), known + cases[i].hashed);
  }
  config.parts_unhashed = false;
  nm_ingress(&config, data[0], (nm_mspan){NULL, 0}, &many[0]);
  NM_CHECK(!many[0].unhashed);
  nm_engine_free(h.engine);
}

/* Generations go round in the same memory, and no hash of an earlier epoch is
 * taken for a new one. */
NM_TEST(the_filter_forgets_whole_generations_and_nothing_else) {
  nm_test_mem below;
  hub h;
  nm_test_mem_init(&below);
  open_hub(&h, &below.mem);
  uint64_t number = 0;
  size_t calls = 0;
  for (int round = 0; round < 12; round++) {
    calls = round == 3 ? below.calls : calls;
    for (int i = 0; i < 256; i++, number++) {
      nm_packet_hash hash;
      nm_packet_hash old;
      nm_sha256(hash.b, nm_span_of(&number, sizeof number));
      NM_CHECK(!nm_engine_filter_has(h.engine, &hash));
      nm_engine_filter_put(h.engine, &hash);
      NM_CHECK(nm_engine_filter_has(h.engine, &hash));
      if (number >= 256) { /* one generation back: still known */
        uint64_t before = number - 256;
        nm_sha256(old.b, nm_span_of(&before, sizeof before));
        NM_CHECK(nm_engine_filter_has(h.engine, &old));
      }
      if (number >= 512) { /* two: forgotten */
        uint64_t before = number - 512;
        nm_sha256(old.b, nm_span_of(&before, sizeof before));
        NM_CHECK(!nm_engine_filter_has(h.engine, &old));
      }
    }
  }
  NM_CHECK_INT(below.calls - calls, 0);
  nm_engine_free(h.engine);
  NM_CHECK_INT(below.live, 0);
}
