/* Many mailboxes under loss, partitions and power cuts: every message ends
 * delivered, failed with a reason, or propagated and later fetched; and it is
 * told of once. */
#include "mail_world.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

#define SECOND ((uint64_t)1000000)
#define TROUBLE_US (600 * SECOND)
/* After the last trouble, the longest policy has come to its end. */
#define ENDED_US (3600 * SECOND)
#define LATER_US (1200 * SECOND)

static nm_policy some_policy(world *w, size_t *size) {
  static const nm_policy WAYS[] = {
      {.count = 3,
       .steps = {{.method = NM_LXMF_OPPORTUNISTIC, .attempts = 2},
                 {.method = NM_LXMF_DIRECT, .budget_us = 60 * SECOND},
                 {.method = NM_LXMF_PROPAGATED}}},
      {.count = 1, .steps = {{.method = NM_LXMF_OPPORTUNISTIC}}},
      {.count = 1, .steps = {{.method = NM_LXMF_DIRECT}}},
      {.count = 1, .steps = {{.method = NM_LXMF_PROPAGATED}}},
      {.count = 2,
       .steps = {{.method = NM_LXMF_DIRECT, .budget_us = 30 * SECOND},
                 {.method = NM_LXMF_PROPAGATED}}},
  };
  static const size_t SIZES[] = {0, 20, 200, 280, 400, 2000};
  uint32_t way = world_below(w, 5);
  *size = SIZES[world_below(w, way == 1 ? 3 : 6)];
  return WAYS[way];
}

static void ask_for_trouble(world *w, int box) {
  if (world_below(w, 3) == 0) {
    world_crash_at(
        w, (20 + world_below(w, 400)) * SECOND + world_below(w, 1000000),
        (1 + world_below(w, 100)) * SECOND, box);
  }
  if (world_below(w, 3) == 0) {
    world_cut_at(w, (20 + world_below(w, 300)) * SECOND,
                 (5 + world_below(w, 240)) * SECOND, box);
  }
}

static void check_letter(const world *w, int number) {
  const world_letter *letter = &w->letter[number];
  nm_test_context(
      "seed's message %d from %d to %d: state %d, stage %d, kept %d", number,
      letter->from, letter->to, (int)letter->state, (int)letter->stage,
      letter->kept);
  NM_CHECK(letter->begun && letter->ended);
  NM_CHECK(letter->kept <= 1);
  if (letter->state == NM_LXMF_DELIVERED || letter->state == NM_LXMF_SENT) {
    NM_CHECK_INT(letter->kept, 1);
  } else {
    NM_CHECK_INT(letter->state, NM_LXMF_FAILED);
    NM_CHECK(letter->attempts > 0 || letter->stage != NM_STAGE_NONE);
  }
}

static void check_all_ended(const world *w) {
  for (int i = 0; i < w->letters; i++) {
    const world_letter *letter = &w->letter[i];
    nm_test_context("message %d from %d to %d, begun at %llu s", i,
                    letter->from, letter->to,
                    (unsigned long long)(letter->begun_us / SECOND));
    NM_CHECK(letter->ended);
  }
}

/* Everyone fetches until nothing is left, over cables that lose nothing but
 * reorder: a request that overtakes the packet which says who asks is made
 * again before the fetch ends. */
static void fetch_all(world *w, uint64_t from_us) {
  world_loss(w, 0);
  uint64_t at = from_us;
  w->unknown_ends = 0;
  for (int round = 0; round < 24 && w->stored_count > 0; round++) {
    for (int i = 0; i < w->boxes; i++) {
      world_fetch_at(w, at + world_below(w, 60) * SECOND, i);
    }
    at += 180 * SECOND;
    world_run(w, at);
  }
  NM_CHECK_INT(w->stored_count, 0);
  NM_CHECK_INT(w->unknown_ends, 0);
  world_run(w, at + LATER_US);
}

static world *run(uint64_t seed, int boxes, int each, uint32_t loss_ppm) {
  world *w = nm_test_scratch(sizeof(*w));
  nm_test_context("seed %llu, %d mailboxes, loss %u ppm",
                  (unsigned long long)seed, boxes, loss_ppm);
  world_init(w, seed, boxes, loss_ppm);
  for (int i = 0; i < boxes; i++) {
    world_announce_at(w, world_below(w, 10) * SECOND, i);
    for (int k = 0; k < each; k++) {
      size_t size;
      nm_policy policy = some_policy(w, &size);
      int to = (i + 1 + (int)world_below(w, (uint32_t)boxes - 1)) % boxes;
      world_send_at(w, (15 + world_below(w, 300)) * SECOND, i, to, size,
                    &policy);
    }
    ask_for_trouble(w, i);
  }
  world_run(w, TROUBLE_US + ENDED_US);
  check_all_ended(w);
  fetch_all(w, TROUBLE_US + ENDED_US);
  for (int i = 0; i < w->letters; i++) {
    check_letter(w, i);
  }
  return w;
}

static int count(const world *w, nm_lxmf_state state) {
  int found = 0;
  for (int i = 0; i < w->letters; i++) {
    found += w->letter[i].state == state;
  }
  return found;
}

NM_TEST(every_message_of_two_hundred_mailboxes_ends_once) {
  /* Two cables lie between mailboxes: 16 % of each is 30 % of the way. */
  world *w = run(1, 200, 3, 163000);
  NM_CHECK_INT(w->letters, 600);
  NM_CHECK(count(w, NM_LXMF_DELIVERED) > 200);
  NM_CHECK(count(w, NM_LXMF_SENT) > 50);
  NM_CHECK(w->crashes > 30 && w->cuts > 30);
  world_dispose(w);
}

/* NM_WORLD_SEEDS=FIRST:COUNT in the environment sweeps over others. */
static void seeds_to_run(uint64_t *first, uint64_t *end) {
  const char *text = getenv("NM_WORLD_SEEDS");
  char *rest = NULL;
  *first = text == NULL ? 1 : strtoull(text, &rest, 10);
  *end = *first +
         (rest == NULL || *rest != ':' ? 24 : strtoull(rest + 1, NULL, 10));
}

NM_TEST(every_message_ends_once_under_every_seed) {
  int failed = 0;
  uint64_t again = 0;
  uint64_t unknown = 0;
  uint64_t seed;
  uint64_t end;
  for (seeds_to_run(&seed, &end); seed < end; seed++) {
    world *w = run(seed, 12, 4, (uint32_t)(seed % 4) * 55000);
    failed += count(w, NM_LXMF_FAILED);
    again += w->again;
    unknown += w->unknown;
    world_dispose(w);
  }
  /* What the checks are about did happen. */
  NM_CHECK(failed > 0);
  NM_CHECK(again > 0);
  NM_CHECK(unknown > 0);
}

NM_TEST(without_trouble_every_message_arrives) {
  world *w = nm_test_scratch(sizeof(*w));
  world_init(w, 7, 8, 0);
  for (int i = 0; i < 8; i++) {
    world_announce_at(w, (uint64_t)i * SECOND, i);
    size_t size;
    nm_policy policy = some_policy(w, &size);
    world_send_at(w, 15 * SECOND, i, (i + 1) % 8, size, &policy);
  }
  world_run(w, 120 * SECOND);
  check_all_ended(w);
  fetch_all(w, 120 * SECOND);
  for (int i = 0; i < w->letters; i++) {
    check_letter(w, i);
  }
  NM_CHECK_INT(count(w, NM_LXMF_FAILED), 0);
  NM_CHECK_INT(w->again, 0);
  world_dispose(w);
}
