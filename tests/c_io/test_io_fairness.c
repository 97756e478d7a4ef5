/* Classes of inbound work: checks of announces wait behind everything else but
 * get their share, and frames with access codes come a few per turn.
 */
#include "io_support.h"

#include "support.h"

#include "io/pool.h"
#include "stack/jobs.h"
#include "wire/hdlc.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct bench {
  nm_jobs jobs;
  nm_lanes lanes;
  nm_work works[64];
  size_t count;
} bench;

static void put(bench *b, nm_job_kind kind, nm_iface_id origin) {
  nm_work *work = &b->works[b->count++];
  work->job = nm_job_new(&b->jobs, kind);
  NM_CHECK(work->job != NULL);
  work->origin = origin;
  nm_lanes_put(&b->lanes, work);
}

/* 'a' for the check of an announce, 'o' for another. */
static char take(bench *b) {
  nm_work *work = nm_lanes_take(&b->lanes);
  NM_CHECK(work != NULL);
  char kind = nm_lanes_is_announce(work) ? 'a' : 'o';
  nm_job_free(work->job);
  return kind;
}

NM_TEST(announces_wait_for_other_work_but_get_a_share) {
  static bench b;
  memset(&b, 0, sizeof(b));
  nm_jobs_init(&b.jobs, &nm_mem_system, 100);
  for (nm_iface_id i = 0; i < 20; i++) {
    put(&b, NM_JOB_VERIFY_ANNOUNCE, 3);
  }
  for (nm_iface_id i = 0; i < 10; i++) {
    put(&b, i % 2 == 0 ? NM_JOB_LINK_ACCEPT : NM_JOB_OPEN_PACKET, i);
  }
  char order[31] = {0};
  for (int i = 0; i < 30; i++) {
    order[i] = take(&b);
  }
  nm_test_context("%s", order);
  NM_CHECK(strcmp(order, "ooooaooooaooaaaaaaaaaaaaaaaaaa") == 0);
  NM_CHECK(nm_lanes_take(&b.lanes) == NULL);
  nm_jobs_dispose(&b.jobs);
}

NM_TEST(announces_of_one_interface_do_not_wait_for_all_of_another) {
  static bench b;
  memset(&b, 0, sizeof(b));
  nm_jobs_init(&b.jobs, &nm_mem_system, 100);
  for (int i = 0; i < 40; i++) {
    put(&b, NM_JOB_VERIFY_ANNOUNCE, 3);
  }
  put(&b, NM_JOB_VERIFY_ANNOUNCE, 4);
  int place = 0;
  for (int i = 0; i < 41; i++) {
    nm_work *work = nm_lanes_take(&b.lanes);
    place = work->origin == 4 ? i : place;
    nm_job_free(work->job);
  }
  NM_CHECK(place < 3);
  nm_jobs_dispose(&b.jobs);
}

static void use_codes(nm_iface_setup *setup) {
  setup->spec.ifac_set = true;
  NM_CHECK_OK(nm_ifac_init(&setup->spec.ifac, nm_span_of("net", 3),
                           nm_span_of("secret", 6), 16));
}

/* Each wrong code costs the loop a signature; others have their turns in
 * between. */
NM_TEST(a_flood_of_frames_with_codes_takes_a_few_per_turn) {
  enum { FRAMES = 3200, PER_TURN = 32 };
  nm_loop *loop = io_loop(0);
  io_node n;
  uint16_t port = 0;
  io_open(&n, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_TCP_SERVER, "server");
  memcpy(setup.host, "127.0.0.1", 10);
  use_codes(&setup);
  nm_iface_id server = io_add(&n, &setup, &port);
  static uint8_t flood[FRAMES * 110];
  nm_writer w = nm_writer_of(flood, sizeof(flood));
  for (int i = 0; i < FRAMES; i++) {
    uint8_t raw[50];
    nm_test_random_bytes(raw, sizeof(raw));
    raw[0] |= 0x80;
    NM_CHECK_OK(nm_hdlc_frame(&w, nm_span_of(raw, sizeof(raw))));
  }
  nm_loop_stats before;
  nm_loop_stats_read(loop, &before);
  int fd = io_raw_connect(port);
  for (size_t sent = 0; sent < w.pos;) {
    ssize_t got = send(fd, &flood[sent], w.pos - sent, MSG_NOSIGNAL);
    NM_CHECK(got > 0);
    sent += (size_t)got;
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_iface_info info;
  do {
    NM_CHECK(io_info(&n, server, &info));
    NM_CHECK(io_now_us() < until);
    io_drain(&n);
  } while (info.counters.drops[NM_DROP_IFAC_WRONG] < FRAMES);
  NM_CHECK_INT(info.counters.drops[NM_DROP_IFAC_WRONG], FRAMES);
  nm_loop_stats after;
  nm_loop_stats_read(loop, &after);
  NM_CHECK(after.turns - before.turns >= FRAMES / PER_TURN);
  close(fd);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}
