/* A transport node's engine: packets carried on, announces taken up.
 *
 * One call is one packet. The node knows 100,000 paths and remembers two
 * generations of 2^20 packet hashes; every packet is another one, for the next
 * destination in turn, whose path lies elsewhere in memory. The time holds all
 * that a driver has the engine do: access code, header, hash, the stateful
 * part, taking the output and dropping it.
 */
#include "bench.h"
#include "fixtures.h"

#include "base/stock.h"
#include "stack/engine.h"
#include "stack/local.h"
#include "stack/route.h"
#include "stack/snapshot.h"
#include "wire/announce.h"
#include "wire/destination.h"

#include <string.h>

#define PATHS 100000
#define SCATTER                                                                \
  48271 /* coprime to PATHS: neighbours in turn are not so in                  \
           memory */
#define FILTER (1u << 20)
#define BATCH 32 /* frames that a driver hands over at once */
#define STOCK_KEEP (512u << 10)
#define RAW_MAX 512
#define ARRIVAL_MAX (RAW_MAX + NM_IFAC_SIZE_MAX)
#define STAMP_SIZE 8
#define STAMP_AT NM_HEADER_2_SIZE /* the number that makes a packet another */
#define CODE_SIZE 16
#define CODE_NAME "netmesh benchmark"
#define TAIL 64    /* of the payload, as evidence */
#define CODED 4096 /* inputs with access codes */
#define NAME "netmesh.bench"
#define APP_DATA 32
#define ANNOUNCE_SIZE (167 + APP_DATA)
#define LIFE_US 604800000000ll

typedef struct transport {
  size_t count; /* inputs */
  size_t size;  /* of a packet */
  bool coded;   /* with access codes */
  nm_stock *stock;
  nm_entropy_pool pool;
  nm_entropy entropy;
  nm_engine *engine;
  nm_iface_id from;
  nm_iface_id to;
  nm_ifac code;
  nm_cipher cipher;
  nm_now now;
  uint64_t stamp;    /* of the next packet */
  uint8_t *packets;  /* count * size */
  uint8_t *arrivals; /* the same with access codes, or NULL */
  uint8_t scratch[BATCH * ARRIVAL_MAX];
  uint8_t out[ARRIVAL_MAX]; /* what an output became with its code */
  nm_destination_hash *announced;
  nm_block *last; /* the last output */
  uint64_t forwarded;
  uint64_t wanted;
  uint8_t proof[2 * NM_ADDRESS_SIZE + TAIL]; /* and a public key */
} transport;

static void *new_array(size_t count, size_t size) {
  return nm_alloc_zero(&nm_mem_system, count, size);
}

static int add_iface(transport *t, const char *name, nm_iface_id *id) {
  nm_iface_spec spec;
  int status = nm_iface_spec_default(&spec, "tcp", name);
  spec.ingress_control = false; /* it would hold the announces back */
  if (t->coded) {
    spec.ifac_set = true;
    spec.ifac = t->code;
  }
  return status == NM_OK ? nm_engine_iface_add(t->engine, &spec, id, t->now)
                         : status;
}

static int open_engine(transport *t) {
  nm_engine_config config;
  int status = nb_random_open(&t->pool);
  if (status != NM_OK) {
    return status;
  }
  nm_engine_config_default(&config);
  config.transport = true;
  config.limits.filter = FILTER;
  config.limits.paths = PATHS;
  t->entropy = nm_entropy_pool_source(&t->pool);
  t->now = (nm_now){.mono_us = 1000000, .unix_us = 1750000000000000};
  t->stock = nm_stock_new(&nm_mem_system, STOCK_KEEP);
  if (t->stock == NULL) {
    return NM_E(MEMORY);
  }
  t->engine = nm_engine_new(nm_stock_mem(t->stock), &t->entropy, &config,
                            t->now, &status);
  if (t->engine == NULL) {
    return status;
  }
  status = add_iface(t, "in", &t->from);
  return status == NM_OK ? add_iface(t, "out", &t->to) : status;
}

/* ---- paths and packets ---- */

static void destination_of(size_t i, uint8_t out[NM_ADDRESS_SIZE]) {
  nb_stream("transport.destination", i, out, NM_ADDRESS_SIZE);
}

static void next_hop_of(size_t i, uint8_t out[NM_ADDRESS_SIZE]) {
  nb_stream("transport.next_hop", i, out, NM_ADDRESS_SIZE);
}

static int put_paths(transport *t) {
  uint8_t blob[10] = {1};
  nm_path_record record = {
      .hops = 3,
      .iface = t->to,
      .updated_mono_us = t->now.mono_us,
      .updated_unix_us = t->now.unix_us,
      .expires_mono_us = t->now.mono_us + (uint64_t)LIFE_US,
      .expires_unix_us = t->now.unix_us + LIFE_US,
  };
  record.blobs = nm_block_copy(&nm_mem_system, nm_span_of(blob, sizeof blob));
  int status = record.blobs == NULL ? NM_E(MEMORY) : NM_OK;
  for (size_t i = 0; i < PATHS && status == NM_OK; i++) {
    size_t at = i * SCATTER % PATHS;
    destination_of(at, record.destination.b);
    next_hop_of(at, record.next_hop);
    status = nm_engine_path_put(t->engine, &record);
  }
  nm_block_drop(record.blobs);
  return status;
}

/* Two full generations of packets that came by before. */
static void fill_filter(transport *t) {
  for (size_t i = 0; i < 2 * (size_t)FILTER; i++) {
    nm_packet_hash hash;
    nb_stream("transport.seen", i, hash.b, sizeof hash.b);
    nm_engine_filter_put(t->engine, &hash);
  }
}

static int make_packet(transport *t, size_t i) {
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t payload[RAW_MAX];
  nm_span left = nm_span_of(payload, t->size - NM_HEADER_2_SIZE);
  size_t len = 0;
  destination_of(i, destination);
  nb_stream("transport.payload", i, payload, left.len);
  nm_packet p = nm_packet_of(NM_DATA, NM_SINGLE, 0, destination, left);
  p.header_type = NM_HEADER_2;
  p.transport_type = NM_TRANSPORT;
  p.transport_id =
      nm_span_of(nm_engine_identity(t->engine)->hash.b, NM_ADDRESS_SIZE);
  return nm_packet_pack(&p, NM_PACKET_RELAY, RAW_MAX, t->packets + i * t->size,
                        t->size, &len, NULL);
}

static int add_codes(transport *t) {
  size_t size = t->size + CODE_SIZE;
  t->arrivals = new_array(t->count, size);
  if (t->arrivals == NULL) {
    return NM_E(MEMORY);
  }
  int len = 0;
  for (size_t i = 0; i < t->count && len >= 0; i++) {
    nm_mspan room = {t->arrivals + i * size, size};
    len = nm_egress(&t->code, nm_span_of(t->packets + i * t->size, t->size),
                    room);
  }
  return len < 0 ? len : NM_OK;
}

static int prepare(const nb_row *row, void **state) {
  transport *t = nb_state(state, sizeof *t);
  if (t == NULL) {
    return NM_E(MEMORY);
  }
  t->count = row->inputs;
  t->size = nb_opaque(row->size);
  t->coded = row->option != NULL;
  t->packets = new_array(t->count, t->size);
  if (t->packets == NULL) {
    return NM_E(MEMORY);
  }
  int status = NM_OK;
  if (t->coded) {
    nm_span name = nm_span_of(CODE_NAME, sizeof CODE_NAME - 1);
    status = nm_ifac_init(&t->code, name, nm_span_of(NULL, 0), CODE_SIZE);
  }
  if (status == NM_OK) {
    status = open_engine(t);
  }
  if (status == NM_OK) {
    status = put_paths(t);
  }
  for (size_t i = 0; i < t->count && status == NM_OK; i++) {
    status = make_packet(t, i);
  }
  if (status != NM_OK) {
    return status;
  }
  if (t->coded) {
    return add_codes(t);
  }
  fill_filter(t);
  return NM_OK;
}

static void dispose(void *state) {
  transport *t = (transport *)state;
  if (t->engine != NULL) {
    nm_engine_free(t->engine);
  }
  nm_block_drop(t->last);
  nm_stock_free(t->stock);
  nm_release(&nm_mem_system, t->packets);
  nm_release(&nm_mem_system, t->arrivals);
  nm_release(&nm_mem_system, t->announced);
  nm_entropy_pool_wipe(&t->pool);
  nm_ifac_wipe(&t->code);
  nm_release(&nm_mem_system, t);
}

/* ---- forwarding ---- */

/* What arrives next. With access codes the filter is told to forget a packet
 * before its turn; without, a number makes it another. */
static nm_span arrival(transport *t, size_t i) {
  if (t->coded) {
    size_t size = t->size + CODE_SIZE;
    return nm_span_of(t->arrivals + i * size, size);
  }
  uint8_t *raw = t->packets + i * t->size;
  memcpy(raw + STAMP_AT, &t->stamp, sizeof t->stamp);
  t->stamp++;
  return nm_span_of(raw, t->size);
}

/* Takes what the engine puts out, as a driver does. */
static int drain(transport *t) {
  nm_output out;
  while (nm_engine_output(t->engine, &out)) {
    nm_span raw = nm_block_span(out.packet);
    int len = (int)raw.len;
    if (t->coded) {
      nm_mspan room = {t->out, sizeof t->out};
      len = nm_egress(&t->code, raw, room);
      nb_use(t->out);
    } else {
      nb_use(raw.ptr);
    }
    if (len < 0 || out.iface != t->to) {
      nm_block_drop(out.packet);
      return len < 0 ? len : NM_E(MISMATCH);
    }
    t->forwarded++;
    nm_block_drop(t->last);
    t->last = out.packet;
  }
  return NM_OK;
}

static int forward_run(void *state, uint64_t calls, size_t first) {
  transport *t = (transport *)state;
  nm_ingress_config config = {.ifac = t->coded ? &t->code : NULL,
                              .hw_mtu = 1064};
  nm_mspan scratch = {t->scratch, sizeof t->scratch};
  nm_span data[BATCH];
  nm_frame frames[BATCH];
  size_t at = first;
  while (calls > 0) {
    size_t n = calls < BATCH ? (size_t)calls : BATCH;
    for (size_t k = 0; k < n; k++) {
      data[k] = arrival(t, nb_opaque(at));
      at = at + 1 == t->count ? 0 : at + 1;
    }
    nm_ingress_many(&config, data, n, scratch, frames);
    for (size_t k = 0; t->coded && k < n; k++) {
      nm_engine_filter_drop(t->engine, &frames[k].hash);
    }
    nm_engine_input_many(t->engine, t->from, frames, n, NULL, t->now);
    t->wanted += n;
    t->now.mono_us += n;
    t->now.unix_us += (int64_t)n;
    calls -= n;
    int status = drain(t);
    if (status != NM_OK) {
      return status;
    }
  }
  return t->forwarded == t->wanted ? NM_OK : NM_E(MISMATCH);
}

/* The last output: the header for the next hop, and the payload behind the
 * number. */
static int forward_check(void *state, size_t i, nm_span *evidence) {
  transport *t = (transport *)state;
  nm_packet p;
  uint8_t expected[NM_ADDRESS_SIZE];
  int status = t->last == NULL
                   ? NM_E(MISSING)
                   : nm_packet_parse(nm_block_span(t->last), &p, NULL);
  if (status != NM_OK) {
    return status;
  }
  destination_of(i, expected);
  if (memcmp(p.destination.ptr, expected, sizeof expected) != 0 ||
      p.payload.len != t->size - NM_HEADER_2_SIZE || p.hops != 1) {
    return NM_E(MISMATCH);
  }
  memcpy(t->proof, p.transport_id.ptr, NM_ADDRESS_SIZE);
  memcpy(t->proof + NM_ADDRESS_SIZE, p.destination.ptr, NM_ADDRESS_SIZE);
  nm_span rest = nm_span_slice(p.payload, STAMP_SIZE, TAIL);
  memcpy(t->proof + 2 * (size_t)NM_ADDRESS_SIZE, rest.ptr, TAIL);
  *evidence = nm_span_of(t->proof, sizeof t->proof);
  return NM_OK;
}

/* ---- announces ---- */

/* An announce that nobody has heard before: what an earlier turn left behind is
 * forgotten first. */
static inline int announce_once(transport *t, size_t i) {
  nm_ingress_config config = {.hw_mtu = 1064};
  nm_mspan scratch = {t->scratch, sizeof t->scratch};
  nm_span raw = nm_span_of(t->packets + i * t->size, t->size);
  nm_frame frame;
  nm_event event;
  nm_output out;
  nm_job *job;
  (void)nm_engine_drop_path(t->engine, &t->announced[i], t->now);
  (void)nm_engine_known_drop(t->engine, &t->announced[i]);
  nm_ingress(&config, raw, scratch, &frame);
  nm_verdict verdict = nm_engine_input(t->engine, t->from, &frame, t->now);
  while ((job = nm_engine_job(t->engine)) != NULL) {
    nm_job_run(job, &t->cipher);
    nm_engine_job_done(t->engine, job, t->now);
  }
  if (nm_engine_deadline(t->engine) <= t->now.mono_us) {
    nm_engine_tick(t->engine, t->now);
  }
  while (nm_engine_output(t->engine, &out)) {
    nm_block_drop(out.packet);
  }
  while (nm_engine_event(t->engine, &event)) {
    nm_event_dispose(&event);
  }
  t->now.mono_us += 50;
  t->now.unix_us += 50;
  return verdict.drop == NM_DROP_NONE && verdict.pending ? NM_OK
                                                         : NM_E(MISMATCH);
}

NB_RUN(announce_run, transport, announce_once);

static int make_announce(transport *t, size_t i) {
  nm_identity identity;
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE];
  uint8_t app_data[APP_DATA];
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  size_t len = 0;
  int status = nb_identity(&identity, "announce.identity", i);
  if (status != NM_OK) {
    return status;
  }
  nb_stream("transport.random", i, random, sizeof random);
  nb_stream("transport.app_data", i, app_data, sizeof app_data);
  nm_name_hash(name_hash, nm_span_of(NAME, sizeof NAME - 1));
  nm_destination_address(name_hash, &identity.hash, &t->announced[i]);
  nm_announce_args args = {
      .identity = &identity,
      .name_hash = name_hash,
      .app_data = nm_span_of(app_data, sizeof app_data),
      .emitted = nb_unix_time(),
      .random = random,
      .context = NM_CONTEXT_NONE,
  };
  status =
      nm_announce_create(&args, t->packets + i * t->size, t->size, &len, NULL);
  nm_identity_wipe(&identity);
  return status == NM_OK && len != t->size ? NM_E(LENGTH) : status;
}

static int announce_prepare(const nb_row *row, void **state) {
  transport *t = nb_state(state, sizeof *t);
  if (t == NULL) {
    return NM_E(MEMORY);
  }
  t->count = row->inputs;
  t->size = nb_opaque(row->size);
  t->packets = new_array(t->count, t->size);
  t->announced = new_array(t->count, sizeof t->announced[0]);
  if (t->packets == NULL || t->announced == NULL) {
    return NM_E(MEMORY);
  }
  int status = open_engine(t);
  if (status == NM_OK) {
    status = put_paths(t);
  }
  for (size_t i = 0; i < t->count && status == NM_OK; i++) {
    status = make_announce(t, i);
  }
  return status;
}

/* The key that the node now knows for the destination, with a path to it; and
 * that a forged announce leaves nothing. */
static int announce_check(void *state, size_t i, nm_span *evidence) {
  transport *t = (transport *)state;
  nm_known_record known;
  if (nm_engine_hops(t->engine, &t->announced[i]) != 1 ||
      !nm_engine_known_get(t->engine, &t->announced[i], &known)) {
    return NM_E(MISSING);
  }
  memcpy(t->proof, known.public_key, NM_PUBLIC_SIZE);
  *evidence = nm_span_of(t->proof, NM_PUBLIC_SIZE);
  nm_known_record_dispose(&known);
  uint8_t *last = t->packets + i * t->size + t->size - 1;
  *last ^= 1;
  int status = announce_once(t, i);
  *last ^= 1;
  return status == NM_OK &&
                 nm_engine_hops(t->engine, &t->announced[i]) == NM_HOPS_UNKNOWN
             ? NM_OK
             : NM_E(SIGNATURE);
}

#define NOTE                                                                   \
  "nm_ingress_many and nm_engine_input_many for 32 frames at a time, "         \
  "nm_engine_output and nm_block_drop for each; memory from a stock as in a "  \
  "node"
#define FORWARD(name, bytes, number, code, text)                               \
  {                                                                            \
    .id = name, .note = text, .size = bytes, .inputs = number, .option = code, \
    .prepare = prepare, .run = forward_run, .check = forward_check,            \
    .dispose = dispose                                                         \
  }

const nb_row nb_transport_rows[] = {
    FORWARD("transport.forward.147", 147, PATHS, NULL, NOTE),
    FORWARD("transport.forward.500", 500, PATHS, NULL, NOTE),
    FORWARD("transport.forward.ifac", 147, CODED, "ifac",
            NOTE "; access codes of 16 bytes checked on the way in and made "
                 "on the way out (nm_egress)"),
    {.id = "transport.announces",
     .note = "nm_ingress and nm_engine_input, its job (nm_job_run) and "
             "nm_engine_job_done: signature, path, known destination and "
             "rebroadcast of an announce that is new each time",
     .size = ANNOUNCE_SIZE,
     .inputs = NB_COLD,
     .prepare = announce_prepare,
     .run = announce_run,
     .check = announce_check,
     .dispose = dispose},
    {.id = NULL},
};
