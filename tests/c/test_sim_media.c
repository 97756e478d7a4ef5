/* Media: rates, queues, faults, cuts, access codes. */
#include "sim_net.h"

#include "support.h"
#include "wire/packet.h"

#include <string.h>

#define SECOND 1000000u

static nm_sim_medium_config air_of(uint64_t rate_bps) {
  nm_sim_medium_config config;
  nm_sim_medium_config_default(&config);
  config.rate_bps = rate_bps;
  return config;
}

/* |count| PLAIN packets of |len| bytes in all from |node|. */
static void shout(sim_net *n, int node, int count, size_t len) {
  for (int i = 0; i < count; i++) {
    uint8_t raw[600] = {0};
    uint8_t to[NM_ADDRESS_SIZE] = {1};
    uint8_t payload[600] = {(uint8_t)i, (uint8_t)(i >> 8), (uint8_t)node};
    nm_packet packet =
        nm_packet_of(NM_DATA, NM_PLAIN, NM_CONTEXT_NONE, to,
                     nm_span_of(payload, len - NM_HEADER_1_SIZE));
    size_t size = 0;
    NM_CHECK_OK(nm_packet_pack(&packet, NM_PACKET_ORIGINATE, NM_MTU, raw,
                               sizeof(raw), &size, NULL));
    NM_CHECK_INT(size, len);
    NM_CHECK_OK(nm_engine_inject(sim_net_engine(n, node), 0,
                                 nm_span_of(raw, size), sim_net_now(n, node)));
  }
  nm_sim_touch(n->sim, n->nodes[node]);
}

static nm_sim_medium_stats stats_of(sim_net *n) {
  nm_sim_medium_stats stats;
  NM_CHECK(nm_sim_medium_stats_read(n->sim, n->air, &stats));
  return stats;
}

static uint64_t heard(sim_net *n, int node) {
  nm_sim_node_stats stats;
  NM_CHECK(nm_sim_node_stats_read(n->sim, n->nodes[node], &stats));
  return stats.frames_in;
}

NM_TEST(a_frame_reaches_every_other_member_once) {
  sim_net *n = sim_net_new(&nm_mem_system, 1, 5, NULL, NULL);
  shout(n, 0, 3, 100);
  sim_net_pass(n, 1);
  NM_CHECK_INT(heard(n, 0), 0);
  for (int i = 1; i < 5; i++) {
    NM_CHECK_INT(heard(n, i), 3);
  }
  nm_sim_medium_stats stats = stats_of(n);
  NM_CHECK_INT(stats.members, 5);
  NM_CHECK_INT(stats.offered, 3);
  NM_CHECK_INT(stats.offered_bytes, 300);
  NM_CHECK_INT(stats.copies, 12);
  NM_CHECK_INT(stats.fates[NM_SIM_DELIVERED], 12);
  NM_CHECK_INT(stats.by_kind[NM_SIM_FRAME_DATA], 3);
  sim_net_finish(n);
}

NM_TEST(members_share_a_half_duplex_medium_and_not_a_full_duplex_one) {
  for (int half = 0; half < 2; half++) {
    nm_sim_medium_config air = air_of(8000); /* a millisecond per byte */
    air.half_duplex = half;
    sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, &air);
    shout(n, 0, 2, 100);
    shout(n, 1, 2, 50);
    sim_net_pass(n, 100000);
    NM_CHECK_INT(heard(n, 1), 1);
    NM_CHECK_INT(heard(n, 0), half ? 0 : 2);
    sim_net_pass(n, 99999);
    NM_CHECK_INT(heard(n, 1), 1);
    sim_net_pass(n, 1);
    NM_CHECK_INT(heard(n, 1), 2);
    NM_CHECK_INT(heard(n, 0), half ? 0 : 2);
    sim_net_pass(n, 100000);
    NM_CHECK_INT(heard(n, 0), 2);
    NM_CHECK_INT(stats_of(n).airtime_us, 300000);
    sim_net_finish(n);
  }
}

NM_TEST(a_full_queue_refuses_and_counts) {
  nm_sim_medium_config air = air_of(8000);
  air.queue_frames = 4;
  air.half_duplex = true;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 3, NULL, &air);
  shout(n, 0, 10, 100);
  /* One is being sent; the others wait. The queue is each member's own. */
  nm_sim_medium_stats stats = stats_of(n);
  NM_CHECK_INT(stats.waiting, 5);
  NM_CHECK_INT(stats.fates[NM_SIM_REFUSED_FULL], 5);
  shout(n, 1, 4, 100);
  NM_CHECK_INT(stats_of(n).fates[NM_SIM_REFUSED_FULL], 5);
  NM_CHECK_INT(stats_of(n).waiting, 9);
  sim_net_pass(n, SECOND);
  NM_CHECK_INT(heard(n, 2), 9);
  sim_net_finish(n);
}

NM_TEST(frames_above_the_mtu_of_the_medium_are_refused) {
  nm_sim_medium_config air = air_of(0);
  air.mtu = 100;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, &air);
  shout(n, 0, 1, 100);
  shout(n, 0, 1, 101);
  sim_net_pass(n, 1);
  NM_CHECK_INT(heard(n, 1), 1);
  NM_CHECK_INT(stats_of(n).fates[NM_SIM_REFUSED_SIZE], 1);
  sim_net_finish(n);
}

NM_TEST(loss_duplication_and_corruption_come_as_often_as_asked_for) {
  nm_sim_medium_config air = air_of(0);
  air.loss_ppm = 100000;
  air.duplicate_ppm = 200000;
  air.corrupt_ppm = 50000;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 2, NULL, &air);
  for (int i = 0; i < 200; i++) {
    shout(n, 0, 100, 50);
    sim_net_pass(n, 10);
  }
  nm_sim_medium_stats stats = stats_of(n);
  NM_CHECK_INT(stats.copies, 20000);
  /* Four standard deviations around the mean. */
  NM_CHECK(stats.fates[NM_SIM_LOST] > 1830 && stats.fates[NM_SIM_LOST] < 2170);
  uint64_t kept = stats.copies - stats.fates[NM_SIM_LOST];
  NM_CHECK(stats.duplicates > kept / 5 - 220 &&
           stats.duplicates < kept / 5 + 220);
  NM_CHECK(stats.corrupted > kept / 20 - 120 &&
           stats.corrupted < kept / 20 + 120);
  NM_CHECK_INT(heard(n, 1), kept + stats.duplicates);
  sim_net_finish(n);
}

NM_TEST(another_loss_rate_leaves_the_other_choices_as_they_are) {
  uint64_t duplicates[2];
  for (int i = 0; i < 2; i++) {
    nm_sim_medium_config air = air_of(0);
    air.jitter_us = 1000;
    air.corrupt_ppm = i == 0 ? 0 : 500000;
    air.duplicate_ppm = 300000;
    sim_net *n = sim_net_new(&nm_mem_system, 9, 2, NULL, &air);
    shout(n, 0, 500, 50);
    sim_net_pass(n, SECOND);
    duplicates[i] = stats_of(n).duplicates;
    sim_net_finish(n);
  }
  NM_CHECK_INT(duplicates[0], duplicates[1]);
}

/* In what order frames arrive, by their first payload byte. */
typedef struct order {
  int count;
  int backwards;
  int last;
} order;

static void note_order(void *user, const nm_sim *sim, const nm_sim_note *note) {
  (void)sim;
  order *o = user;
  if (note->kind != NM_SIM_NOTE_RECEIVE) {
    return;
  }
  int at = note->bytes.ptr[NM_HEADER_1_SIZE];
  o->backwards += o->count > 0 && at < o->last;
  o->last = at;
  o->count++;
}

NM_TEST(jitter_reorders_unless_the_medium_keeps_order) {
  for (int in_order = 0; in_order < 2; in_order++) {
    nm_sim_medium_config air = air_of(0);
    air.jitter_us = 100000;
    air.reorder_ppm = 300000;
    air.reorder_us = 100000;
    air.in_order = in_order;
    sim_net *n = sim_net_new(&nm_mem_system, 4, 2, NULL, &air);
    order o = {0};
    nm_sim_trace(n->sim, note_order, &o);
    shout(n, 0, 200, 50);
    sim_net_pass(n, SECOND);
    NM_CHECK_INT(o.count, 200);
    NM_CHECK(in_order ? o.backwards == 0 : o.backwards > 20);
    sim_net_finish(n);
  }
}

NM_TEST(a_cut_is_in_force_at_the_arrival_and_may_go_one_way) {
  nm_sim_medium_config air = air_of(0);
  air.delay_us = 1000;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 3, NULL, &air);
  shout(n, 0, 1, 50);
  sim_net_pass(n, 500);
  NM_CHECK_OK(nm_sim_cut(n->sim, n->air, n->nodes[0], n->nodes[1], true));
  sim_net_pass(n, 1000);
  NM_CHECK_INT(heard(n, 1), 0);
  NM_CHECK_INT(heard(n, 2), 1);
  shout(n, 1, 1, 50);
  sim_net_pass(n, 1000);
  NM_CHECK_INT(heard(n, 0), 1);
  NM_CHECK_OK(nm_sim_cut(n->sim, n->air, 0, 0, true));
  shout(n, 2, 1, 50);
  sim_net_pass(n, 1000);
  NM_CHECK_INT(stats_of(n).fates[NM_SIM_CUT], 3);
  NM_CHECK_OK(nm_sim_cut(n->sim, n->air, 0, 0, false));
  shout(n, 0, 1, 50);
  sim_net_pass(n, 1000);
  NM_CHECK_INT(heard(n, 1), 1);
  NM_CHECK_STATUS(nm_sim_cut(n->sim, n->air, 9, 0, true), NM_E(ARGUMENT));
  sim_net_finish(n);
}

NM_TEST(who_leaves_loses_what_waits_and_hears_nothing) {
  nm_sim_medium_config air = air_of(8000);
  air.delay_us = 50000;
  sim_net *n = sim_net_new(&nm_mem_system, 1, 3, NULL, &air);
  shout(n, 0, 3, 100);
  sim_net_pass(n, 110000);
  /* One is on its way, one is being sent, one waits. */
  NM_CHECK_OK(nm_sim_disconnect(n->sim, n->nodes[0], n->air));
  NM_CHECK_STATUS(nm_sim_disconnect(n->sim, n->nodes[0], n->air),
                  NM_E(MISSING));
  NM_CHECK_OK(nm_sim_disconnect(n->sim, n->nodes[1], n->air));
  sim_net_pass(n, SECOND);
  nm_sim_medium_stats stats = stats_of(n);
  NM_CHECK_INT(stats.fates[NM_SIM_SWEPT], 2);
  NM_CHECK_INT(stats.fates[NM_SIM_GONE], 1);
  NM_CHECK_INT(heard(n, 1), 0);
  NM_CHECK_INT(heard(n, 2), 1);
  NM_CHECK_INT(stats.members, 1);
  nm_iface_spec spec;
  nm_iface_id iface;
  NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", "back"));
  NM_CHECK_OK(nm_sim_connect(n->sim, n->nodes[0], n->air, &spec, &iface));
  NM_CHECK_STATUS(nm_sim_connect(n->sim, n->nodes[0], n->air, &spec, &iface),
                  NM_E(DUPLICATE_KEY));
  shout(n, 0, 1, 100);
  sim_net_pass(n, SECOND);
  NM_CHECK_INT(heard(n, 2), 2);
  sim_net_finish(n);
}

NM_TEST(an_access_code_keeps_strangers_out) {
  nm_sim_medium_config air = air_of(0);
  sim_net *n = sim_net_new(&nm_mem_system, 1, 3, NULL, &air);
  for (int i = 0; i < 2; i++) {
    nm_iface_spec spec = *nm_engine_iface(
        sim_net_engine(n, i), nm_sim_iface_of(n->sim, n->nodes[i], n->air));
    NM_CHECK_OK(nm_ifac_init(&spec.ifac, nm_span_of("mesh", 4),
                             nm_span_of("secret", 6), 16));
    spec.ifac_set = true;
    NM_CHECK_OK(nm_sim_reconnect(n->sim, n->nodes[i], n->air, &spec));
  }
  shout(n, 0, 1, 100);
  sim_net_pass(n, 10);
  nm_engine_stats inside;
  nm_engine_stats outside;
  nm_engine_stats_read(sim_net_engine(n, 1), &inside);
  nm_engine_stats_read(sim_net_engine(n, 2), &outside);
  NM_CHECK_INT(inside.drops[NM_DROP_NO_DESTINATION], 1);
  NM_CHECK_INT(outside.drops[NM_DROP_IFAC_UNEXPECTED], 1);
  NM_CHECK_INT(stats_of(n).sent_bytes, 116);
  sim_net_finish(n);
}

NM_TEST(another_medium_leaves_the_choices_of_the_first_as_they_are) {
  uint64_t lost[2];
  for (int i = 0; i < 2; i++) {
    nm_sim_medium_config air = air_of(0);
    air.loss_ppm = 300000;
    sim_net *n = sim_net_new(&nm_mem_system, 5, 2, NULL, &air);
    nm_sim_medium_id other;
    if (i == 1) {
      nm_iface_spec spec;
      nm_iface_id iface;
      NM_CHECK_OK(nm_sim_medium_add(n->sim, "other", &air, &other));
      for (int k = 0; k < 2; k++) {
        NM_CHECK_OK(nm_iface_spec_default(&spec, "udp", "other"));
        NM_CHECK_OK(nm_sim_connect(n->sim, n->nodes[k], other, &spec, &iface));
      }
    }
    shout(n, 0, 500, 60);
    sim_net_pass(n, 10);
    lost[i] = stats_of(n).fates[NM_SIM_LOST];
    sim_net_finish(n);
  }
  NM_CHECK_INT(lost[0], lost[1]);
}
