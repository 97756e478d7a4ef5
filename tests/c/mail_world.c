#include "mail_world.h"

#include "base/timer.h"
#include "crypto/entropy.h"
#include "stack/local.h"
#include "stack/route.h"
#include "stack/send.h"
#include "support.h"
#include "wire/destination.h"
#include "wire/lxmf_message.h"
#include "world_node.h"

#include <stdio.h>
#include <string.h>

/* What a call of the simulation is for: kind * KIND + number. */
#define KIND 1000000
enum { TICK, ANNOUNCE, SEND, CRASH, RESTART, CUT, HEAL, COMMIT, FETCH };

static uint64_t next_random(world *w) {
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random;
}

uint32_t world_below(world *w, uint32_t below) {
  return (uint32_t)((next_random(w) >> 11) % below);
}

static void ask(world *w, uint64_t at_us, int kind, int number) {
  NM_CHECK_OK(
      nm_sim_call_at(w->sim, at_us, (uint64_t)kind * KIND + (uint64_t)number));
}

static nm_now now_of(const world *w, const world_box *box) {
  return nm_sim_now(w->sim, box->node);
}

/* ---- a mailbox and its store ---- */

static int letter_of(const world *w, const uint8_t id[NM_HASH_SIZE]) {
  for (int i = 0; i < w->letters; i++) {
    if (memcmp(w->letter[i].id, id, NM_HASH_SIZE) == 0) {
      return i;
    }
  }
  return -1;
}

/* It is in the store now: at most one row for each id. */
static void keep(world *w, int letter) {
  if (w->letter[letter].kept > 0) {
    w->again++;
  } else {
    w->letter[letter].kept++;
  }
}

static void commit(world *w, world_box *box) {
  for (int i = 0; box->router != NULL && i < box->pending_count; i++) {
    world_letter *letter = &w->letter[box->pending[i].letter];
    keep(w, box->pending[i].letter);
    if (nm_router_taken(box->router, box->pending[i].token, true,
                        now_of(w, box)) == NM_OK) {
      letter->told_boot = box->boot;
    }
  }
  box->pending_count = 0;
}

static void on_received(world *w, world_box *box, const nm_mail *mail) {
  int number = letter_of(w, mail->id);
  NM_CHECK(number >= 0);
  const world_letter *letter = &w->letter[number];
  NM_CHECK(&w->box[letter->to] == box);
  NM_CHECK_SPAN(nm_block_span(mail->packed), nm_block_span(letter->packed));
  NM_CHECK(letter->told_boot != box->boot);
  for (int i = 0; i < box->pending_count; i++) {
    NM_CHECK(box->pending[i].letter != number);
  }
  NM_CHECK(box->pending_count < WORLD_PENDING);
  world_pending pending = {.token = mail->token, .letter = number};
  box->pending[box->pending_count++] = pending;
  ask(w, nm_sim_time_us(w->sim) + world_below(w, 20000), COMMIT,
      (int)(box - w->box));
}

static bool is_final(const nm_mail *mail) {
  return mail->state == NM_LXMF_DELIVERED || mail->state == NM_LXMF_FAILED ||
         mail->state == NM_LXMF_REJECTED || mail->state == NM_LXMF_CANCELLED ||
         (mail->state == NM_LXMF_SENT && mail->method == NM_LXMF_PROPAGATED);
}

static void on_state(world *w, const nm_mail *mail) {
  int number = letter_of(w, mail->id);
  NM_CHECK(number >= 0);
  world_letter *letter = &w->letter[number];
  NM_CHECK(!letter->ended);
  if (is_final(mail)) {
    letter->ended = true;
    letter->ended_us = nm_sim_time_us(w->sim);
    letter->state = mail->state;
    letter->stage = mail->stage;
    letter->attempts = mail->attempts;
  }
}

static void on_worked(world *w, const nm_mail *mail) {
  int number = letter_of(w, mail->id);
  NM_CHECK(number >= 0);
  world_letter *letter = &w->letter[number];
  if (mail->sealed != NULL) {
    nm_block_drop(letter->sealed);
    letter->sealed = nm_block_copy(&nm_mem_system, nm_block_span(mail->sealed));
  }
}

static void on_mail(world *w, world_box *box, const nm_mail *mail) {
  if (mail->kind == NM_MAIL_RECEIVED) {
    on_received(w, box, mail);
  } else if (mail->kind == NM_MAIL_STATE) {
    on_state(w, mail);
  } else if (mail->kind == NM_MAIL_WORKED) {
    on_worked(w, mail);
  } else if (mail->kind == NM_MAIL_SYNC && mail->sync_ended) {
    box->synced = mail->sync_state == NM_LXMF_SYNC_COMPLETE;
    w->unknown_ends += mail->sync_state == NM_LXMF_SYNC_NO_IDENTITY;
  }
}

/* Does what follows from a call of a mailbox's router or engine. */
static void follow(world *w, world_box *box) {
  bool moved = true;
  while (moved && box->router != NULL) {
    moved = false;
    nm_mail_job *work;
    while ((work = nm_router_job(box->router)) != NULL) {
      nm_mail_job_run(work, &w->cipher);
      nm_router_job_done(box->router, work, now_of(w, box));
      moved = true;
    }
    nm_mail mail;
    while (nm_router_event(box->router, &mail)) {
      on_mail(w, box, &mail);
      nm_mail_dispose(&mail);
      moved = true;
    }
  }
  nm_sim_touch(w->sim, box->node);
  uint64_t due =
      box->router == NULL ? NM_TIMER_NEVER : nm_router_deadline(box->router);
  if (due != NM_TIMER_NEVER) {
    uint64_t mono = now_of(w, box).mono_us;
    uint64_t at = nm_sim_time_us(w->sim) + (due > mono ? due - mono : 0);
    if (at < box->call_us) {
      box->call_us = at;
      ask(w, at, TICK, (int)(box - w->box));
    }
  }
}

static void send_letter(world *w, int number) {
  world_letter *letter = &w->letter[number];
  world_box *box = &w->box[letter->from];
  letter->begun = true;
  letter->begun_us = nm_sim_time_us(w->sim);
  if (box->router == NULL) {
    return; /* it waits in the store */
  }
  nm_letter_spec spec = {.mailbox = box->hash,
                         .packed = nm_block_span(letter->packed),
                         .policy = letter->policy,
                         .stamp_auto = true};
  if (letter->sealed != NULL) {
    spec.sealed = nm_block_span(letter->sealed);
  }
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK_OK(nm_router_send(box->router, &spec, id, now_of(w, box)));
  NM_CHECK_BYTES(id, letter->id, NM_HASH_SIZE);
  follow(w, box);
}

static void announce(world *w, world_box *box) {
  nm_op_id op;
  if (box->router != NULL) {
    NM_CHECK_OK(nm_engine_announce(nm_sim_engine(w->sim, box->node), &box->hash,
                                   NULL, 0, false, &op, now_of(w, box)));
    follow(w, box);
  }
}

static nm_span stored_for(const world *w, const world_box *box,
                          const char *kind) {
  char name[64];
  int len = snprintf(name, sizeof(name), "%s/", kind);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    len += snprintf(&name[len], sizeof(name) - (size_t)len, "%02x",
                    box->hash.b[i]);
  }
  return nm_sim_stored(w->sim, box->node, name);
}

/* The power is on: a router and its mailbox, with what is stored. */
static void power_on(world *w, world_box *box) {
  nm_router_config config = {.hold = true};
  int status = NM_OK;
  box->boot++;
  box->router = nm_router_new(&nm_mem_system, &box->entropy,
                              nm_sim_engine(w->sim, box->node), &config,
                              now_of(w, box), &status);
  NM_CHECK_OK(status);
  nm_mailbox_spec spec;
  nm_mailbox_spec_default(&spec);
  spec.identity = &box->identity;
  spec.ratchet_file = stored_for(w, box, "ratchets");
  nm_span emitted = stored_for(w, box, "announced");
  nm_reader reader = nm_reader_of(emitted);
  spec.last_emitted = emitted.len == 8 ? nm_reader_u64(&reader) : 0;
  NM_CHECK_OK(nm_router_open(box->router, &spec, &box->hash, now_of(w, box)));
  NM_CHECK_OK(
      nm_router_set_node(box->router, &w->node_hash, 0, now_of(w, box)));
  /* Who the others are was heard long ago, and is stored. */
  for (int i = 0; i < w->boxes; i++) {
    NM_CHECK_OK(nm_engine_remember(nm_sim_engine(w->sim, box->node),
                                   &w->box[i].hash, &w->box[i].identity, NULL,
                                   now_of(w, box)));
  }
  int self = (int)(box - w->box);
  for (int i = 0; i < w->letters; i++) {
    if (w->letter[i].from == self && w->letter[i].begun &&
        !w->letter[i].ended) {
      send_letter(w, i);
    }
  }
  follow(w, box);
}

static void crash(world *w, world_box *box) {
  if (box->router == NULL) {
    return;
  }
  w->crashes++;
  /* Each write under way has reached the disk or has not. */
  for (int i = 0; i < box->pending_count; i++) {
    if (world_below(w, 2) == 0) {
      keep(w, box->pending[i].letter);
    }
  }
  box->pending_count = 0;
  nm_router_free(box->router);
  box->router = NULL;
  NM_CHECK_OK(nm_sim_crash(w->sim, box->node));
}

static void restart(world *w, world_box *box) {
  if (box->router == NULL) {
    NM_CHECK_OK(nm_sim_restart(w->sim, box->node));
    power_on(w, box);
    announce(w, box);
  }
}

static void fetch(world *w, world_box *box) {
  if (box->router != NULL) {
    int status =
        nm_router_sync(box->router, &box->hash, NULL, 0, false, now_of(w, box));
    NM_CHECK(status == NM_OK || status == NM_E(STATE));
    follow(w, box);
  }
}

static void cut(world *w, world_box *box, bool on) {
  w->cuts += on;
  NM_CHECK_OK(nm_sim_cut(w->sim, box->cable, 0, 0, on));
}

static void tick(world *w, world_box *box) {
  box->call_us = UINT64_MAX;
  if (box->router != NULL) {
    nm_router_tick(box->router, now_of(w, box));
    follow(w, box);
  }
}

static void run_call(world *w, uint64_t tag) {
  int number = (int)(tag % KIND);
  if (tag / KIND == SEND) {
    send_letter(w, number);
    return;
  }
  world_box *box = &w->box[number];
  switch (tag / KIND) {
  case TICK:
    tick(w, box);
    break;
  case ANNOUNCE:
    announce(w, box);
    break;
  case CRASH:
    crash(w, box);
    break;
  case RESTART:
    restart(w, box);
    break;
  case CUT:
  case HEAL:
    cut(w, box, tag / KIND == CUT);
    break;
  case COMMIT:
    commit(w, box);
    follow(w, box);
    break;
  default:
    fetch(w, box);
    break;
  }
}

/* ---- what a test asks for ---- */

void world_announce_at(world *w, uint64_t at_us, int box) {
  ask(w, at_us, ANNOUNCE, box);
}

void world_crash_at(world *w, uint64_t at_us, uint64_t for_us, int box) {
  ask(w, at_us, CRASH, box);
  ask(w, at_us + for_us, RESTART, box);
}

void world_cut_at(world *w, uint64_t at_us, uint64_t for_us, int box) {
  ask(w, at_us, CUT, box);
  ask(w, at_us + for_us, HEAL, box);
}

void world_fetch_at(world *w, uint64_t at_us, int box) {
  ask(w, at_us, FETCH, box);
}

void world_send_at(world *w, uint64_t at_us, int from, int to, size_t size,
                   const nm_policy *policy) {
  NM_CHECK(w->letters < WORLD_LETTERS);
  world_letter *letter = &w->letter[w->letters];
  uint8_t *content = nm_test_scratch(size + 1);
  memset(content, 'a' + w->letters % 26, size);
  nm_lxmf_draft draft = {.destination = w->box[to].hash,
                         .source = w->box[from].hash,
                         .timestamp = 1700000000.0 + w->letters,
                         .content = nm_span_of(content, size)};
  size_t packed = nm_lxmf_packed_size(&draft);
  letter->packed = nm_block_new(&nm_mem_system, packed);
  NM_CHECK(letter->packed != NULL);
  nm_writer out = nm_writer_of(nm_block_bytes(letter->packed), packed);
  NM_CHECK_OK(nm_lxmf_pack(&draft, &w->box[from].identity.sign, NULL, &out,
                           letter->id));
  letter->from = from;
  letter->to = to;
  letter->policy = *policy;
  ask(w, at_us, SEND, w->letters++);
}

void world_loss(world *w, uint32_t loss_ppm) {
  for (int i = 0; i <= w->boxes; i++) {
    nm_sim_medium_id cable = i == w->boxes ? w->node_cable : w->box[i].cable;
    nm_sim_medium_config config = *nm_sim_medium_read(w->sim, cable);
    config.loss_ppm = loss_ppm == 0 ? 0 : world_below(w, loss_ppm);
    NM_CHECK_OK(nm_sim_medium_change(w->sim, cable, &config));
  }
}

static world_box *box_at(world *w, nm_sim_node_id node) {
  for (int i = 0; i < w->boxes; i++) {
    if (w->box[i].node == node) {
      return &w->box[i];
    }
  }
  return NULL;
}

void world_run(world *w, uint64_t until_us) {
  for (;;) {
    nm_sim_pause pause = nm_sim_run(w->sim, until_us);
    if (pause == NM_SIM_FAILED) {
      nm_test_context("%s", nm_sim_failure(w->sim));
    }
    NM_CHECK(pause != NM_SIM_FAILED);
    nm_sim_node_id node;
    nm_event event;
    while (nm_sim_event(w->sim, &node, &event)) {
      world_box *box = box_at(w, node);
      if (box == NULL || box->router == NULL ||
          !nm_router_input(box->router, &event, now_of(w, box))) {
        if (node == w->node) {
          world_node_event(w, &event);
        }
        nm_event_dispose(&event);
      }
      if (box != NULL) {
        follow(w, box);
      }
    }
    uint64_t tag;
    while (nm_sim_due(w->sim, &tag)) {
      run_call(w, tag);
    }
    if (pause == NM_SIM_TIME) {
      return;
    }
  }
}

/* ---- the beginning and the end ---- */

static nm_sim_medium_id cable_to_hub(world *w, nm_sim_node_id node,
                                     const char *name) {
  nm_sim_medium_config config;
  nm_sim_medium_config_default(&config);
  config.rate_bps = 10000000;
  config.delay_us = 5000;
  config.jitter_us = 5000;
  nm_sim_medium_id cable;
  nm_iface_spec spec;
  nm_iface_id iface;
  NM_CHECK_OK(nm_sim_medium_add(w->sim, name, &config, &cable));
  NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", name));
  NM_CHECK_OK(nm_sim_connect(w->sim, node, cable, &spec, &iface));
  spec.mode = NM_IF_ACCESS_POINT;
  NM_CHECK_OK(nm_sim_connect(w->sim, w->hub, cable, &spec, &iface));
  return cable;
}

static nm_identity identity_of(int number) {
  uint8_t keys[NM_PRIVATE_SIZE];
  memset(keys, 1 + number % 255, sizeof(keys));
  keys[1] = (uint8_t)(number >> 8);
  keys[40] = 'w';
  nm_identity identity;
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  return identity;
}

static void add_box(world *w, int i) {
  world_box *box = &w->box[i];
  char name[16];
  uint8_t seed[32] = {(uint8_t)i, (uint8_t)(i >> 8), 'b'};
  nm_sim_node_config config;
  nm_sim_node_config_default(&config);
  (void)snprintf(name, sizeof(name), "box %d", i);
  NM_CHECK_OK(nm_sim_node_add(w->sim, name, &config, &box->node));
  box->cable = cable_to_hub(w, box->node, name);
  box->identity = identity_of(i);
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, nm_span_of("lxmf.delivery", 13));
  nm_destination_address(name_hash, &box->identity.hash, &box->hash);
  box->call_us = UINT64_MAX;
  nm_entropy_pool_init_seed(&box->pool, seed);
  box->entropy = nm_entropy_pool_source(&box->pool);
}

void world_init(world *w, uint64_t seed, int boxes, uint32_t loss_ppm) {
  memset(w, 0, sizeof(*w));
  w->random = seed * 0x9e3779b97f4a7c15u + 1;
  w->boxes = boxes;
  NM_CHECK_OK(nm_cipher_open(&w->cipher, NULL));
  nm_sim_config config;
  nm_sim_config_default(&config);
  config.seed = seed;
  int status = NM_OK;
  w->sim = nm_sim_new(&nm_mem_system, &config, &status);
  NM_CHECK_OK(status);
  nm_sim_node_config node;
  nm_sim_node_config_default(&node);
  NM_CHECK_OK(nm_sim_node_add(w->sim, "node", &node, &w->node));
  node.engine.transport = true;
  NM_CHECK_OK(nm_sim_node_add(w->sim, "hub", &node, &w->hub));
  nm_sim_watch(w->sim, w->hub, 0);
  w->node_cable = cable_to_hub(w, w->node, "node");
  nm_identity identity = identity_of(WORLD_BOXES);
  world_node_open(w, &identity);
  for (int i = 0; i < boxes; i++) {
    add_box(w, i);
  }
  for (int i = 0; i < boxes; i++) {
    power_on(w, &w->box[i]);
  }
  world_loss(w, loss_ppm);
}

void world_dispose(world *w) {
  for (int i = 0; i < w->boxes; i++) {
    nm_router_free(w->box[i].router);
    nm_entropy_pool_wipe(&w->box[i].pool);
  }
  nm_sim_free(w->sim);
  for (int i = 0; i < w->letters; i++) {
    nm_block_drop(w->letter[i].packed);
    nm_block_drop(w->letter[i].sealed);
  }
  for (int i = 0; i < w->stored_count; i++) {
    nm_block_drop(w->stored[i]);
  }
  nm_cipher_close(&w->cipher);
}
