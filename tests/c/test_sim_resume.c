/* Interrupted resources under virtual time: ends that crash, links that are
 * closed, media that are cut and lose frames, at moments that a seed decides.
 * What goes on begins at a whole segment and loses nothing that was kept.
 */
#include "sim_net.h"

#include "crypto/hash.h"
#include "sim/random.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT NM_RESOURCE_SEGMENT_MAX
#define LEN (3 * SEGMENT + 17)
#define METADATA "\xa4name"
#define SECOND 1000000ull
#define ATTEMPTS 12

/* A disk with room for one partial, which survives its node. */
typedef struct disk {
  nm_shelf base;
  uint8_t *bytes;
  uint64_t len;
  bool in_use;
  bool power_cut; /* what lets go now does not tidy up */
  int complete;
  uint64_t begun; /* where the last writing began */
  nm_span wanted;
} disk;

typedef struct sink {
  nm_sink base;
  disk *on;
  bool owns; /* the partial; else it writes beside */
  bool begun;
  bool done;
  uint64_t len;
  uint8_t *beside;
} sink;

static int check_sink(nm_sink *base, nm_span salt, nm_held *held) {
  sink *k = (sink *)(void *)base;
  disk *d = k->on;
  nm_sha256_ctx ctx;
  if (d->in_use) {
    return NM_OK;
  }
  d->in_use = true;
  k->owns = true;
  held->bytes = d->len;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, salt);
  nm_sha256_update(&ctx, nm_span_of(d->bytes, (size_t)d->len));
  nm_sha256_final(&ctx, held->digest);
  return NM_OK;
}

static int write_sink(nm_sink *base, uint64_t offset, nm_span bytes) {
  sink *k = (sink *)(void *)base;
  if (!k->begun) {
    k->begun = true;
    NM_CHECK(offset == 0 || (k->owns && offset == k->on->len));
    k->on->begun = offset;
    k->len = offset;
    if (!k->owns) {
      k->beside = malloc(LEN);
      NM_CHECK(k->beside != NULL);
    }
  }
  NM_CHECK_INT(offset, k->len);
  NM_CHECK(offset + bytes.len <= LEN);
  memcpy((k->owns ? k->on->bytes : k->beside) + offset, bytes.ptr, bytes.len);
  k->len += bytes.len;
  if (k->owns) {
    k->on->len = k->len;
  }
  return NM_OK;
}

static int finish_sink(nm_sink *base, uint64_t size, nm_span metadata,
                       nm_block **place) {
  sink *k = (sink *)(void *)base;
  disk *d = k->on;
  (void)place;
  NM_CHECK_INT(size, LEN);
  NM_CHECK_INT(k->len, LEN);
  NM_CHECK_SPAN(metadata, nm_span_of(METADATA, strlen(METADATA)));
  NM_CHECK_SPAN(nm_span_of(k->owns ? d->bytes : k->beside, LEN), d->wanted);
  k->done = true;
  d->complete++;
  if (k->owns) {
    d->len = 0;
  }
  return NM_OK;
}

static void release_sink(nm_sink *base) {
  sink *k = (sink *)(void *)base;
  if (k->owns) {
    k->on->in_use = false;
    if (!k->done && !base->keep && !k->on->power_cut) {
      k->on->len = 0;
    }
  }
  free(k->beside);
  free(k);
}

static nm_sink *place(nm_shelf *base, const uint8_t hash[NM_HASH_SIZE],
                      uint64_t size, nm_span peer) {
  (void)hash;
  (void)peer;
  NM_CHECK_INT(size, LEN + 3 + strlen(METADATA));
  sink *k = calloc(1, sizeof(*k));
  NM_CHECK(k != NULL);
  atomic_init(&k->base.references, 1);
  k->base.check = check_sink;
  k->base.write = write_sink;
  k->base.finish = finish_sink;
  k->base.release = release_sink;
  k->on = (disk *)(void *)base;
  return &k->base;
}

static void release_shelf(nm_shelf *base) {
  (void)base;
}

/* ---- a run ---- */

typedef struct run {
  sim_net *n;
  nm_sim_rng random;
  disk disk;
  nm_block *content;
  nm_destination_hash hash;
  nm_link_ref links[2];
  int resumed;
} run;

static void touch(run *r, int node) {
  nm_sim_touch(r->n->sim, r->n->nodes[node]);
}

static void listen_and_shelve(run *r) {
  r->hash = sim_net_listen(r->n, 1, 7, false);
  NM_CHECK_OK(
      nm_engine_shelve(sim_net_engine(r->n, 1), &r->hash, &r->disk.base, 0));
  touch(r, 1);
}

static void crash(run *r, int node) {
  r->disk.power_cut = node == 1;
  NM_CHECK_OK(nm_sim_crash(r->n->sim, r->n->nodes[node]));
  r->disk.power_cut = false;
  sim_net_pass(r->n, SECOND);
  NM_CHECK_OK(nm_sim_restart(r->n->sim, r->n->nodes[node]));
  if (node == 1) {
    listen_and_shelve(r);
  }
}

/* Opens a link, again when frames that matter are lost. */
static void link_up(run *r) {
  for (int tries = 0; tries < 20; tries++) {
    sim_net_forget(r->n);
    (void)sim_net_announce(r->n, 1, &r->hash);
    sim_net_pass(r->n, 2 * SECOND);
    nm_link_ref link = 0;
    if (nm_engine_link_open(sim_net_engine(r->n, 0), &r->hash, 0, &link,
                            sim_net_now(r->n, 0)) != NM_OK) {
      continue; /* the announce was lost */
    }
    touch(r, 0);
    sim_net_pass(r->n, 10 * SECOND);
    const nm_event *ours = sim_net_find(r->n, 0, NM_EVENT_LINK_ACTIVE);
    const nm_event *theirs = sim_net_find(r->n, 1, NM_EVENT_LINK_ACTIVE);
    if (ours != NULL && theirs != NULL) {
      r->links[0] = ours->link;
      r->links[1] = theirs->link;
      return;
    }
  }
  NM_CHECK(false);
}

static bool ended(run *r) {
  return sim_net_find(r->n, 0, NM_EVENT_RESOURCE_OUT) != NULL;
}

enum { CRASH_SENDER, CRASH_RECEIVER, CLOSE_SENDER, CLOSE_RECEIVER, CUT, WAYS };

static void interrupt(run *r, uint64_t way) {
  nm_sim_node_id a = r->n->nodes[0];
  switch (way) {
  case CRASH_SENDER:
  case CRASH_RECEIVER:
    crash(r, way == CRASH_RECEIVER);
    break;
  case CLOSE_SENDER:
  case CLOSE_RECEIVER: {
    int end = way == CLOSE_RECEIVER;
    (void)nm_engine_link_close(sim_net_engine(r->n, end), r->links[end],
                               sim_net_now(r->n, end));
    touch(r, end);
    break;
  }
  default:
    NM_CHECK_OK(nm_sim_cut(r->n->sim, r->n->air, a, 0, true));
    NM_CHECK_OK(nm_sim_cut(r->n->sim, r->n->air, 0, a, true));
    sim_net_pass(r->n, 3000 * SECOND);
    NM_CHECK_OK(nm_sim_cut(r->n->sim, r->n->air, a, 0, false));
    NM_CHECK_OK(nm_sim_cut(r->n->sim, r->n->air, 0, a, false));
  }
  sim_net_pass(r->n, SECOND);
}

static void send_it(run *r) {
  nm_op_id op;
  NM_CHECK_OK(nm_engine_resource_send(
      sim_net_engine(r->n, 0), r->links[0], r->content,
      nm_span_of(METADATA, strlen(METADATA)), NM_RESOURCE_COMPRESS_OFF, 0, &op,
      sim_net_now(r->n, 0)));
  touch(r, 0);
}

/* One attempt, up to |until| bytes on the disk; true when it was complete. */
static bool attempt(run *r, uint64_t until, uint64_t way) {
  bool busy = r->disk.in_use;
  uint64_t before = r->disk.len;
  link_up(r);
  r->disk.begun = UINT64_MAX;
  send_it(r);
  for (int i = 0; i < 40000 && !ended(r) && r->disk.len < until; i++) {
    sim_net_pass(r->n, SECOND / 20);
  }
  nm_test_context("held %llu, began at %llu", (unsigned long long)before,
                  (unsigned long long)r->disk.begun);
  if (r->disk.begun != UINT64_MAX) {
    /* All that was held counts, unless another attempt still has it. */
    NM_CHECK_INT(r->disk.begun, busy ? 0 : before);
    r->resumed += r->disk.begun > 0;
  }
  const nm_event *out = sim_net_find(r->n, 0, NM_EVENT_RESOURCE_OUT);
  if (out != NULL && out->state == NM_RESOURCE_COMPLETE) {
    NM_CHECK_INT(r->disk.complete, 1);
    NM_CHECK_INT(out->done_bytes, LEN);
    return true;
  }
  uint64_t held = r->disk.len;
  NM_CHECK(busy || held >= before);
  interrupt(r, way);
  NM_CHECK(r->disk.complete == 1 || r->disk.len >= held);
  return false;
}

static int run_seed(uint64_t seed, uint32_t loss_ppm) {
  nm_sim_medium_config air;
  nm_sim_medium_config_default(&air);
  air.delay_us = 5000;
  air.jitter_us = 1000;
  air.loss_ppm = loss_ppm;
  air.queue_frames = 4096;
  run r = {.n = sim_net_new(&nm_mem_system, seed, 2, NULL, &air)};
  nm_sim_rng_init(&r.random, seed, "test", "interruptions");
  atomic_init(&r.disk.base.references, 1);
  r.disk.base.place = place;
  r.disk.base.release = release_shelf;
  r.disk.bytes = malloc(LEN);
  r.content = nm_block_new(&nm_mem_system, LEN);
  NM_CHECK(r.disk.bytes != NULL && r.content != NULL);
  nm_test_random_bytes(nm_block_bytes(r.content), LEN);
  r.disk.wanted = nm_block_span(r.content);
  listen_and_shelve(&r);
  bool complete = false;
  for (int i = 0; i < ATTEMPTS && !complete && r.disk.complete == 0; i++) {
    bool last = i >= ATTEMPTS - 2;
    uint64_t until = last ? UINT64_MAX : nm_sim_rng_between(&r.random, 1, LEN);
    complete = attempt(&r, until, nm_sim_rng_between(&r.random, 0, WAYS - 1));
    /* Either at once, or when the receiver has given the old attempt up. */
    if (!complete && (last || nm_sim_rng_chance(&r.random, 750000))) {
      sim_net_pass(r.n, 600 * SECOND);
    }
  }
  NM_CHECK_INT(r.disk.complete, 1);
  int resumed = r.resumed;
  nm_block_drop(r.content);
  sim_net_finish(r.n);
  free(r.disk.bytes);
  return resumed;
}

/* NETMESH_SIM_SEEDS=1000 for as many. */
static uint64_t seeds(void) {
  const char *wanted = getenv("NETMESH_SIM_SEEDS");
  return wanted == NULL ? 6 : strtoull(wanted, NULL, 10);
}

NM_TEST(interrupted_resources_go_on_from_whole_segments) {
  int resumed = 0;
  for (uint64_t seed = 1; seed <= seeds(); seed++) {
    resumed += run_seed(seed, seed % 3 == 0 ? 50000 : seed % 3 == 1 ? 0 : 5000);
  }
  NM_CHECK(resumed >= (int)seeds() / 2);
}
