/* Two engines with a link between them, for targets that lead them by a script:
 * jobs run inline, frames are lost as the script says, time stands still but
 * where it passes. At the end every operation must have ended, every input must
 * have been counted once, and (the address sanitizer looks) nothing is left.
 */
#ifndef NM_TESTS_FUZZ_WORLD_H
#define NM_TESTS_FUZZ_WORLD_H

#include "fuzz.h"

#include "base/timer.h"
#include "crypto/entropy.h"
#include "stack/buffer.h"
#include "stack/channel.h"
#include "stack/engine.h"
#include "stack/link.h"
#include "stack/local.h"
#include "stack/request.h"
#include "stack/route.h"
#include "stack/send.h"
#include "stack/transfer.h"

#include <string.h>

#define TURNS_MAX 20000
#define TOKENS 8
#define FRAME_MAX 1200

typedef struct side {
  nm_engine *engine;
  nm_entropy_pool pool;
  nm_entropy source;
  nm_iface_id iface;
  nm_link_ref link;
  nm_op_id op; /* the latest */
  nm_token_id tokens[TOKENS];
  unsigned token_count;
  uint8_t last[FRAME_MAX]; /* the frame that it sent last */
  size_t last_len;
} side;

typedef struct world world;

struct world {
  side sides[2];
  nm_cipher cipher;
  nm_now now;
  nm_destination_hash hash; /* listens at the second */
  uint8_t scratch[NM_MTU * 4];
  uint32_t lose; /* one bit per frame to come */
  /* Called for each event, unless NULL. */
  void (*heard)(world *w, int at, const nm_event *event);
};

static inline void feed(world *w, int to, nm_span raw) {
  nm_ingress_config config = {.hw_mtu = FRAME_MAX};
  nm_mspan scratch = {w->scratch, sizeof(w->scratch)};
  nm_frame frame;
  nm_ingress(&config, raw, scratch, &frame);
  nm_verdict verdict =
      nm_engine_input(w->sides[to].engine, w->sides[to].iface, &frame, w->now);
  MUST(verdict.drop < NM_DROP_COUNT);
}

static inline bool turn_jobs(world *w, side *s) {
  bool moved = false;
  nm_job *job;
  while ((job = nm_engine_job(s->engine)) != NULL) {
    if (nm_job_kind_of(job) == NM_JOB_STORE) {
      nm_job_store_result(job, true);
    } else {
      nm_job_run(job, &w->cipher);
    }
    nm_engine_job_done(s->engine, job, w->now);
    moved = true;
  }
  return moved;
}

static inline bool turn_outputs(world *w, int number) {
  side *s = &w->sides[number];
  bool moved = false;
  nm_output out;
  while (nm_engine_output(s->engine, &out)) {
    nm_span raw = nm_block_span(out.packet);
    if (out.op != 0) {
      nm_engine_sent(s->engine, out.op, true, w->now);
    }
    if (raw.len <= FRAME_MAX) {
      memcpy(s->last, raw.ptr, raw.len);
      s->last_len = raw.len;
    }
    if ((w->lose & 1) == 0) {
      feed(w, 1 - number, raw);
    }
    w->lose >>= 1;
    nm_block_drop(out.packet);
    moved = true;
  }
  return moved;
}

static inline bool turn_events(world *w, int number) {
  side *s = &w->sides[number];
  bool moved = false;
  nm_event event;
  while (nm_engine_event(s->engine, &event)) {
    if (event.token != 0) {
      s->tokens[s->token_count++ % TOKENS] = event.token;
    }
    if (event.kind == NM_EVENT_LINK_ACTIVE) {
      s->link = event.link;
    }
    if (w->heard != NULL) {
      w->heard(w, number, &event);
    }
    nm_event_dispose(&event);
    moved = true;
  }
  return moved;
}

static inline void settle(world *w) {
  bool moved = true;
  for (int turn = 0; moved; turn++) {
    MUST(turn < TURNS_MAX); /* the two do not talk for ever */
    moved = false;
    for (int i = 0; i < 2; i++) {
      moved = turn_jobs(w, &w->sides[i]) || moved;
      moved = turn_outputs(w, i) || moved;
      moved = turn_events(w, i) || moved;
    }
  }
}

static inline void pass(world *w, uint64_t us) {
  uint64_t until = w->now.mono_us + us;
  settle(w);
  for (int turn = 0;; turn++) {
    uint64_t next = nm_engine_deadline(w->sides[0].engine);
    uint64_t other = nm_engine_deadline(w->sides[1].engine);
    next = other < next ? other : next;
    if (next > until) {
      break;
    }
    MUST(turn < TURNS_MAX); /* no storm of timers */
    if (next > w->now.mono_us) {
      w->now.unix_us += (int64_t)(next - w->now.mono_us);
      w->now.mono_us = next;
    }
    for (int i = 0; i < 2; i++) {
      nm_engine_tick(w->sides[i].engine, w->now);
    }
    settle(w);
  }
  w->now.unix_us += (int64_t)(until - w->now.mono_us);
  w->now.mono_us = until;
}

/* ---- the beginning ---- */

static inline nm_identity identity_of(uint8_t seed) {
  uint8_t keys[NM_PRIVATE_SIZE];
  nm_identity identity;
  memset(keys, seed, sizeof(keys));
  MUST(nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))) ==
       NM_OK);
  return identity;
}

static inline void begin(world *w) {
  memset(w, 0, sizeof(*w));
  w->now = (nm_now){1000000000, 1700000000000000};
  MUST(nm_cipher_open(&w->cipher, NULL) == NM_OK);
  for (uint8_t i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    nm_identity own = identity_of((uint8_t)(i + 1));
    uint8_t seed[32] = {(uint8_t)(i + 1)};
    nm_engine_config config;
    nm_iface_spec spec;
    int status;
    nm_entropy_pool_init_seed(&s->pool, seed);
    s->source = nm_entropy_pool_source(&s->pool);
    nm_engine_config_default(&config);
    config.identity = &own;
    config.limits.recorder = 64;
    config.limits.filter = 256;
    s->engine =
        nm_engine_new(&nm_mem_system, &s->source, &config, w->now, &status);
    MUST(s->engine != NULL);
    nm_engine_credit(s->engine, 20, w->now);
    MUST(nm_iface_spec_default(&spec, "udp", "wire") == NM_OK);
    MUST(nm_engine_iface_add(s->engine, &spec, &s->iface, w->now) == NM_OK);
    (void)nm_engine_subscribe(s->engine, NULL, true);
  }
  nm_identity host = identity_of(7);
  nm_dest_spec spec;
  nm_op_id op;
  nm_dest_spec_default(&spec);
  spec.identity = &host;
  spec.name = nm_span_of("test.fuzz", 9);
  spec.prove = NM_PROVE_ALL;
  spec.resources = NM_ACCEPT_ALL;
  nm_engine *server = w->sides[1].engine;
  MUST(nm_engine_listen(server, &spec, &w->hash, w->now) == NM_OK);
  MUST(nm_engine_handle(server, &w->hash, nm_span_of("/a", 2), NM_ALLOW_ALL,
                        NULL, 0) == NM_OK);
  MUST(nm_engine_announce(server, &w->hash, NULL, 0, false, &op, w->now) ==
       NM_OK);
  pass(w, 1000000);
  MUST(nm_engine_link_open(w->sides[0].engine, &w->hash, 0, &w->sides[0].link,
                           w->now) == NM_OK);
  settle(w);
  MUST(w->sides[1].link != 0);
}

/* ---- the end ---- */

static inline void end(world *w) {
  w->lose = 0;
  for (int i = 0; i < 2; i++) {
    nm_engine_credit(w->sides[i].engine, 100000, w->now);
  }
  pass(w, 40);
  for (int i = 0; i < 2; i++) {
    nm_engine_shutdown(w->sides[i].engine, w->now);
  }
  settle(w);
  for (int i = 0; i < 2; i++) {
    nm_engine_stats stats;
    nm_engine_stats_read(w->sides[i].engine, &stats);
    MUST(stats.operations == 0);
    MUST(stats.inputs == stats.accepted + stats.dropped);
    MUST(stats.resource_memory == 0);
    nm_engine_free(w->sides[i].engine);
    nm_entropy_pool_wipe(&w->sides[i].pool);
  }
  nm_cipher_close(&w->cipher);
}

#endif
