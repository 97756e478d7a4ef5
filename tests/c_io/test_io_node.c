/* A node's life and its talk with another thread. */
#include "io_support.h"
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct pair {
  nm_loop *loop;
  io_node a;
  io_node b;
  nm_destination_hash hash; /* listens on b, known to a */
} pair;

static void begin(pair *p) {
  p->loop = io_loop(0);
  io_open(&p->a, p->loop, NULL);
  io_open(&p->b, p->loop, NULL);
  io_join(&p->a, &p->b);
  p->hash = io_listen(&p->b, 7, "test.echo", NULL);
  io_announce(&p->b, &p->hash);
  io_await_path(&p->a, &p->hash);
}

static void end(pair *p) {
  io_close(&p->a);
  io_close(&p->b);
  NM_CHECK_OK(nm_loop_stop(p->loop));
}

NM_TEST(a_loop_starts_and_stops) {
  nm_loop *loop = io_loop(0);
  NM_CHECK_OK(nm_loop_stop(loop));
  NM_CHECK_OK(nm_loop_stop(NULL));
}

NM_TEST(a_node_opens_answers_and_closes) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_command c = {.kind = NM_COMMAND_FILTER_SIZE};
  nm_node_event reply = io_ask(&n, &c);
  NM_CHECK_OK(reply.u.reply.status);
  NM_CHECK_INT(reply.u.reply.number, 0);
  NM_CHECK(reply.u.reply.at.mono_us > 0);
  io_done(&reply);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(two_nodes_over_a_pipe_exchange_announce_packet_and_proof) {
  pair p;
  begin(&p);
  NM_CHECK_INT(io_send(&p.a, &p.hash, "hello"), NM_RECEIPT_DELIVERED);
  nm_event packet = io_event(&p.b, NM_EVENT_PACKET, 0);
  NM_CHECK_SPAN(nm_block_span(packet.data), nm_span_of("hello", 5));
  nm_event_dispose(&packet);
  end(&p);
}

NM_TEST(nodes_on_two_loops_talk_over_a_pipe) {
  nm_loop *loops[2] = {io_loop(0), io_loop(0)};
  io_node a;
  io_node b;
  io_open(&a, loops[0], NULL);
  io_open(&b, loops[1], NULL);
  io_join(&a, &b);
  nm_destination_hash hash = io_listen(&b, 7, "test.echo", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  NM_CHECK_INT(io_send(&a, &hash, "hello"), NM_RECEIPT_DELIVERED);
  io_close(&b);
  /* The other end learns of it and stays as it is. */
  nm_trouble trouble = io_trouble(&a, NM_TROUBLE_IFACE);
  NM_CHECK_INT(trouble.port, NM_PORT_CLOSED);
  io_close(&a);
  NM_CHECK_OK(nm_loop_stop(loops[0]));
  NM_CHECK_OK(nm_loop_stop(loops[1]));
}

/* ---- commands and tickets ---- */

NM_TEST(a_reply_comes_before_the_events_of_its_operation) {
  pair p;
  begin(&p);
  nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = p.hash};
  uint64_t ticket = io_post(&p.a, &c);
  bool replied = false;
  for (;;) {
    nm_node_event event;
    while (!nm_node_next(p.a.node, &event)) {
      NM_CHECK(nm_node_wait(p.a.node, IO_PATIENCE_MS));
    }
    if (event.ticket == ticket && event.kind == NM_NODE_REPLY) {
      NM_CHECK(!replied && event.u.reply.link != 0);
      replied = true;
    }
    bool active = event.kind == NM_NODE_EVENT &&
                  event.u.event.kind == NM_EVENT_LINK_ACTIVE;
    NM_CHECK(!active || (replied && event.ticket == ticket));
    nm_node_event_dispose(&event);
    if (active) {
      break;
    }
  }
  end(&p);
}

NM_TEST(every_command_has_a_name_and_answers_on_an_empty_node) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  for (int kind = 0; kind < NM_COMMAND_COUNT; kind++) {
    nm_command c = {.kind = (nm_command_kind)kind};
    const char *name = nm_command_name(c.kind);
    nm_test_context("command %s", name);
    NM_CHECK(name[0] != '\0' && strcmp(name, "unknown") != 0);
    if (kind == NM_COMMAND_LINK_IDENTIFY || kind == NM_COMMAND_REMEMBER) {
      NM_CHECK_STATUS(nm_node_command(n.node, &c), NM_E(ARGUMENT)); /* keys */
    } else {
      (void)io_status(&n, &c);
    }
  }
  NM_CHECK(strcmp(nm_command_name(NM_COMMAND_COUNT), "unknown") == 0);
  nm_command bad = {.kind = NM_COMMAND_COUNT};
  NM_CHECK_STATUS(nm_node_command(n.node, &bad), NM_E(ARGUMENT));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(cancelling_a_ticket_ends_what_it_started) {
  pair p;
  begin(&p);
  nm_destination_hash nowhere = {{1, 2, 3}};
  nm_command path = {.kind = NM_COMMAND_REQUEST_PATH,
                     .destination = nowhere,
                     .timeout_us = 600000000,
                     .on = true};
  uint64_t ticket = io_post(&p.a, &path);
  NM_CHECK_OK(nm_node_cancel(p.a.node, ticket));
  nm_event ended = io_event(&p.a, NM_EVENT_PATH_RESULT, ticket);
  NM_CHECK_INT(ended.stage, NM_STAGE_CANCELLED);
  nm_event_dispose(&ended);
  NM_CHECK_OK(nm_node_cancel(p.a.node, ticket)); /* quiet */
  nm_command open = {.kind = NM_COMMAND_LINK_OPEN, .destination = p.hash};
  ticket = io_post(&p.a, &open);
  NM_CHECK_OK(nm_node_cancel(p.a.node, ticket));
  ended = io_event(&p.a, NM_EVENT_LINK_CLOSED, ticket);
  nm_event_dispose(&ended);
  end(&p);
}

NM_TEST(commands_beyond_the_limit_and_after_the_close_are_refused) {
  nm_loop *loop = io_loop(0);
  nm_node_config config;
  nm_node_config_default(&config);
  config.commands_max = 8;
  io_node n;
  io_open_config(&n, loop, &config);
  int status = NM_OK;
  size_t taken = 0;
  while (taken < 100000) {
    nm_command c = {.kind = NM_COMMAND_FILTER_SIZE};
    if ((status = nm_node_command(n.node, &c)) != NM_OK) {
      break;
    }
    taken++;
  }
  /* Replies that nobody reads count as outstanding until they find room. */
  NM_CHECK_STATUS(status, NM_E(LIMIT));
  NM_CHECK(taken >= 8);
  nm_node_close(n.node);
  nm_command late = {.kind = NM_COMMAND_FILTER_SIZE,
                     .data = io_text("dropped")};
  NM_CHECK_STATUS(nm_node_command(n.node, &late), NM_E(STATE));
  NM_CHECK(late.data == NULL);
  NM_CHECK_STATUS(nm_node_cancel(n.node, 1), NM_E(STATE));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* ---- events, credit, the descriptor ---- */

NM_TEST(a_reader_that_sleeps_loses_nothing_reliable) {
  pair p;
  p.loop = io_loop(0);
  nm_node_config config;
  nm_node_config_default(&config);
  config.ring = 16;
  config.credit = 40;
  io_open(&p.a, p.loop, NULL);
  io_open_config(&p.b, p.loop, &config);
  io_join(&p.a, &p.b);
  p.hash = io_listen(&p.b, 7, "test.echo", NULL);
  io_announce(&p.b, &p.hash);
  io_await_path(&p.a, &p.hash);
  enum { PACKETS = 200 };
  /* The other side reads nothing until all have been sent; what it has no
   * credit for is neither taken nor proven. */
  for (int i = 0; i < PACKETS; i++) {
    nm_command c = {.kind = NM_COMMAND_SEND};
    nm_send_spec_default(&c.u.send);
    c.u.send.destination = p.hash;
    c.data = io_text("one of many");
    NM_CHECK_OK(io_status(&p.a, &c));
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_node_stats stats;
  do {
    nm_node_stats_read(p.b.node, &stats);
    NM_CHECK(io_now_us() < until);
  } while (stats.engine.inputs < PACKETS);
  size_t got = 0;
  nm_node_event event;
  while (nm_node_next(p.b.node, &event) || nm_node_wait(p.b.node, 300)) {
    got += event.kind == NM_NODE_EVENT && event.u.event.kind == NM_EVENT_PACKET;
    nm_node_event_dispose(&event);
  }
  NM_CHECK_INT(got, 40);
  nm_node_stats_read(p.b.node, &stats);
  NM_CHECK(stats.engine.held_for_credit >= PACKETS - 40);
  /* What was read made room again. */
  NM_CHECK_INT(io_send(&p.a, &p.hash, "more"), NM_RECEIPT_DELIVERED);
  end(&p);
}

NM_TEST(the_descriptor_is_readable_exactly_when_a_sleeper_has_events) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  io_drain(&n);
  NM_CHECK(nm_node_sleep(n.node));
  nm_command c = {.kind = NM_COMMAND_FILTER_SIZE};
  NM_CHECK_OK(nm_node_command(n.node, &c));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(nm_node_fd(n.node), &set);
  struct timeval limit = {.tv_sec = IO_PATIENCE_MS / 1000};
  NM_CHECK(select(nm_node_fd(n.node) + 1, &set, NULL, NULL, &limit) == 1);
  nm_node_woken(n.node);
  NM_CHECK(!nm_node_sleep(n.node)); /* there is something */
  io_drain(&n);
  NM_CHECK(nm_node_sleep(n.node));
  FD_SET(nm_node_fd(n.node), &set);
  limit = (struct timeval){0};
  NM_CHECK(select(nm_node_fd(n.node) + 1, &set, NULL, NULL, &limit) == 0);
  NM_CHECK(!nm_node_wait(n.node, 1));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* ---- interfaces of the user's own ---- */

static bool is_frame(const nm_node_event *event, const void *user) {
  const nm_node_event_kind *kind = user;
  return event->kind == *kind;
}

static nm_node_event frame_of(io_node *n, nm_node_event_kind kind) {
  nm_node_event event;
  NM_CHECK(io_wait(n, is_frame, &kind, IO_PATIENCE_MS, &event));
  return event;
}

NM_TEST(frames_of_a_user_written_interface_go_out_and_in) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, "Carrier[pigeon]");
  nm_iface_id at_a = io_add(&a, &setup, NULL);
  nm_iface_id at_b = io_add(&b, &setup, NULL);
  nm_iface_info info;
  NM_CHECK(io_info(&a, at_a, &info));
  NM_CHECK(strcmp(info.name, "Carrier[pigeon]") == 0);
  nm_destination_hash hash = io_listen(&b, 7, "test.bird", NULL);
  io_announce(&b, &hash);
  nm_node_event out = frame_of(&b, NM_NODE_FRAME);
  NM_CHECK_INT(out.u.frame.iface, at_b);
  nm_block *raw = nm_block_hold(out.u.frame.data);
  nm_node_event_dispose(&out);
  nm_command probe = {
      .kind = NM_COMMAND_PROBE, .iface = at_a, .data = nm_block_hold(raw)};
  nm_node_event reply = io_ask(&a, &probe);
  NM_CHECK_INT(reply.u.reply.verdict.drop, NM_DROP_NONE);
  NM_CHECK(reply.u.reply.verdict.hashed);
  io_done(&reply);
  nm_command feed = {
      .kind = NM_COMMAND_FEED, .iface = at_a, .data = nm_block_hold(raw)};
  reply = io_ask(&a, &feed);
  NM_CHECK_OK(reply.u.reply.status);
  NM_CHECK_INT(reply.u.reply.verdict.drop, NM_DROP_NONE);
  NM_CHECK(reply.u.reply.verdict.pending); /* its signature is looked at */
  io_done(&reply);
  nm_block_drop(raw);
  io_await_path(&a, &hash);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(a_user_interface_that_nobody_serves_is_bounded) {
  nm_loop *loop = io_loop(0);
  nm_node_config config;
  nm_node_config_default(&config);
  config.ring = 16;
  io_node n;
  io_open_config(&n, loop, &config);
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, "stuck");
  setup.queue_packets = 50;
  nm_iface_id id = io_add(&n, &setup, NULL);
  uint8_t raw[100] = {0x08};
  for (int i = 0; i < 200; i++) {
    nm_command c = {.kind = NM_COMMAND_INJECT,
                    .iface = id,
                    .data = io_block(raw, sizeof(raw))};
    NM_CHECK_OK(nm_node_command(n.node, &c));
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  uint64_t dropped = 0;
  do {
    nm_block *list = nm_node_ifaces(n.node);
    size_t count = 0;
    const nm_iface_info *rows = nm_iface_infos(list, &count);
    dropped = count == 1 ? rows[0].drops[NM_PORT_DROP_PACKETS] : 0;
    NM_CHECK(count == 0 || rows[0].queued_packets <= 50);
    nm_block_drop(list);
    NM_CHECK(io_now_us() < until);
  } while (dropped < 200 - 50 - 16);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(a_tap_sees_frames_in_both_directions_and_never_blocks) {
  pair p;
  begin(&p);
  nm_command on = {.kind = NM_COMMAND_TAP, .on = true};
  NM_CHECK_OK(io_status(&p.a, &on));
  NM_CHECK_INT(io_send(&p.a, &p.hash, "seen"), NM_RECEIPT_DELIVERED);
  nm_node_event out = frame_of(&p.a, NM_NODE_TAP);
  NM_CHECK(!out.u.frame.incoming);
  NM_CHECK_SPAN(nm_span_slice(nm_block_span(out.u.frame.data), 2, 16),
                nm_span_of(p.hash.b, 16));
  nm_node_event in = frame_of(&p.a, NM_NODE_TAP);
  NM_CHECK(in.u.frame.incoming);
  NM_CHECK(in.u.frame.at.mono_us >= out.u.frame.at.mono_us);
  nm_node_event_dispose(&in);
  nm_node_event_dispose(&out);
  /* More than the ring holds is lost, counted. */
  uint8_t raw[100] = {0x08};
  for (int i = 0; i < 2000; i++) {
    nm_command c = {.kind = NM_COMMAND_INJECT,
                    .data = io_block(raw, sizeof(raw))};
    NM_CHECK_OK(nm_node_command(p.a.node, &c));
  }
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  nm_node_stats stats;
  do {
    nm_node_stats_read(p.a.node, &stats);
    NM_CHECK(io_now_us() < until);
  } while (stats.tap_lost == 0);
  end(&p);
}

/* ---- tables ---- */

NM_TEST(lists_come_in_pages_and_records_can_be_put_back) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  enum { KNOWN = 500 };
  for (int i = 0; i < KNOWN; i++) {
    nm_command put = {.kind = NM_COMMAND_KNOWN_PUT};
    nm_test_random_bytes(put.u.known.destination.b, 16);
    put.u.known.heard_unix_us = i + 1;
    put.u.known.has_app_data = true;
    put.u.known.app_data = io_text("app data");
    NM_CHECK_OK(io_status(&n, &put));
  }
  bool *seen = nm_test_scratch((KNOWN + 1) * sizeof(bool));
  memset(seen, 0, (KNOWN + 1) * sizeof(bool));
  uint64_t cursor = 0;
  size_t pages = 0;
  size_t rows = 0;
  do {
    nm_command list = {
        .kind = NM_COMMAND_KNOWN_LIST, .cursor = cursor, .max = 100};
    nm_node_event reply = io_ask(&n, &list);
    NM_CHECK_OK(reply.u.reply.status);
    const nm_known_record *records =
        (const void *)nm_block_span(reply.u.reply.records).ptr;
    for (size_t i = 0; i < reply.u.reply.record_count; i++) {
      NM_CHECK_SPAN(nm_block_span(records[i].app_data),
                    nm_span_of("app data", 8));
      rows += !seen[records[i].heard_unix_us];
      seen[records[i].heard_unix_us] = true;
    }
    cursor = reply.u.reply.cursor;
    pages++;
    io_done(&reply);
  } while (cursor != 0);
  NM_CHECK_INT(rows, KNOWN);
  NM_CHECK(pages >= 4);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(the_flight_recorder_of_a_live_node_is_read_in_pages) {
  pair p;
  begin(&p);
  NM_CHECK_INT(io_send(&p.a, &p.hash, "recorded"), NM_RECEIPT_DELIVERED);
  uint64_t cursor = 0;
  size_t rows = 0;
  do {
    nm_command c = {.kind = NM_COMMAND_RECORDS, .cursor = cursor, .max = 5};
    nm_node_event reply = io_ask(&p.a, &c);
    NM_CHECK(reply.u.reply.record_count <= 5);
    rows += reply.u.reply.record_count;
    NM_CHECK(reply.u.reply.cursor == 0 || reply.u.reply.cursor > cursor);
    cursor = reply.u.reply.cursor;
    io_done(&reply);
  } while (cursor != 0);
  NM_CHECK(rows >= 6);
  end(&p);
}

/* ---- published figures ---- */

typedef struct watcher {
  nm_node *node;
  atomic_bool stop;
  size_t reads;
  bool torn;
} watcher;

static void *watch(void *user) {
  watcher *w = user;
  uint64_t last = 0;
  while (!atomic_load(&w->stop)) {
    nm_node_stats stats;
    nm_node_stats_read(w->node, &stats);
    w->torn =
        w->torn || stats.engine.inputs < last ||
        stats.engine.accepted + stats.engine.dropped > stats.engine.inputs;
    last = stats.engine.inputs;
    nm_block_drop(nm_node_ifaces(w->node));
    w->reads++;
  }
  return NULL;
}

NM_TEST(figures_are_read_whole_from_any_thread) {
  pair p;
  begin(&p);
  watcher w = {.node = p.a.node};
  pthread_t thread;
  NM_CHECK(pthread_create(&thread, NULL, watch, &w) == 0);
  for (int i = 0; i < 200; i++) {
    NM_CHECK_INT(io_send(&p.a, &p.hash, "counted"), NM_RECEIPT_DELIVERED);
  }
  atomic_store(&w.stop, true);
  pthread_join(thread, NULL);
  NM_CHECK(w.reads > 0 && !w.torn);
  nm_node_stats stats = io_stats(&p.a);
  NM_CHECK(stats.engine.inputs >= 200);
  NM_CHECK_INT(stats.ifaces, 1);
  end(&p);
}

/* ---- life ---- */

NM_TEST(a_loop_that_stops_closes_its_nodes) {
  pair p;
  begin(&p);
  nm_command c = {.kind = NM_COMMAND_LINK_OPEN, .destination = p.hash};
  (void)io_post(&p.a, &c);
  NM_CHECK_OK(nm_loop_stop(p.loop));
  /* What was under way has ended and can be read; then it is over. */
  nm_event closed = io_event(&p.a, NM_EVENT_LINK_CLOSED, 0);
  nm_event_dispose(&closed);
  nm_command late = {.kind = NM_COMMAND_FILTER_SIZE};
  NM_CHECK_STATUS(nm_node_command(p.a.node, &late), NM_E(STATE));
  io_close(&p.a);
  io_close(&p.b);
}

NM_TEST(released_nodes_close_by_themselves) {
  nm_loop *loop = io_loop(0);
  for (int i = 0; i < 50; i++) {
    nm_node_config config;
    nm_node_config_default(&config);
    nm_node *node;
    NM_CHECK_OK(nm_node_open(loop, &config, &node, NULL));
    nm_command c = {.kind = NM_COMMAND_FILTER_SIZE};
    NM_CHECK_OK(nm_node_command(node, &c));
    nm_node_release(node);
  }
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(hundreds_of_nodes_open_and_close_without_a_trace) {
  nm_loop *loop = io_loop(0);
  enum { NODES = 200, ROUNDS = 3 };
  io_node *nodes = nm_test_scratch(NODES * sizeof(io_node));
  int descriptors = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < NODES; i++) {
      io_open(&nodes[i], loop, NULL);
    }
    for (int i = 0; i < NODES; i++) {
      io_close(&nodes[i]);
    }
    if (round == 0) {
      descriptors = io_open_descriptors();
    }
  }
  /* The last one goes when both sides have let go of it. */
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (io_open_descriptors() > descriptors) {
    NM_CHECK(io_now_us() < until);
  }
  nm_loop_stats stats;
  nm_loop_stats_read(loop, &stats);
  NM_CHECK_INT(stats.nodes, 0);
  NM_CHECK_INT(stats.workers, 0); /* nobody needed one */
  NM_CHECK_OK(nm_loop_stop(loop));
}

typedef struct commander {
  pthread_t thread;
  nm_node *node;
  size_t wanted;
  size_t taken;
} commander;

static void *command_many(void *user) {
  commander *c = user;
  for (size_t i = 0; i < c->wanted; i++) {
    nm_command command = {.kind = NM_COMMAND_FILTER_SIZE, .ticket = 77};
    int status = nm_node_command(c->node, &command);
    if (status == NM_E(STATE)) {
      break;
    }
    c->taken += status == NM_OK;
  }
  return NULL;
}

enum { COMMANDERS = 4 };

static void start_commanders(commander *all, nm_node *node, size_t wanted) {
  for (int i = 0; i < COMMANDERS; i++) {
    all[i] = (commander){.node = node, .wanted = wanted};
    NM_CHECK(pthread_create(&all[i].thread, NULL, command_many, &all[i]) == 0);
  }
}

static size_t join_commanders(commander *all) {
  size_t taken = 0;
  for (int i = 0; i < COMMANDERS; i++) {
    pthread_join(all[i].thread, NULL);
    taken += all[i].taken;
  }
  return taken;
}

NM_TEST(many_threads_command_one_node) {
  pair p;
  begin(&p);
  commander all[COMMANDERS];
  start_commanders(all, p.a.node, 500);
  size_t replies = 0;
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  while (replies < COMMANDERS * 500) {
    nm_node_event event;
    NM_CHECK(io_now_us() < until);
    if (!nm_node_next(p.a.node, &event)) {
      (void)nm_node_wait(p.a.node, 100);
      continue;
    }
    replies += event.kind == NM_NODE_REPLY && event.ticket == 77;
    nm_node_event_dispose(&event);
  }
  NM_CHECK_INT(join_commanders(all), COMMANDERS * 500);
  end(&p);
}

NM_TEST(commands_that_race_with_the_close_are_answered_or_refused) {
  for (int round = 0; round < 20; round++) {
    nm_loop *loop = io_loop(0);
    io_node n;
    io_open(&n, loop, NULL);
    commander all[COMMANDERS];
    start_commanders(all, n.node, 100000);
    size_t replies = 0;
    bool closed = false;
    uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
    while (!closed) {
      nm_node_event event;
      NM_CHECK(io_now_us() < until);
      if (replies > 100) {
        nm_node_close(n.node);
      }
      if (!nm_node_next(n.node, &event)) {
        (void)nm_node_wait(n.node, 100);
        continue;
      }
      replies += event.kind == NM_NODE_REPLY;
      closed = event.kind == NM_NODE_CLOSED;
      nm_node_event_dispose(&event);
    }
    NM_CHECK_INT(join_commanders(all), replies);
    n.closed = true;
    io_close(&n);
    NM_CHECK_OK(nm_loop_stop(loop));
  }
}

NM_TEST(a_forked_child_is_refused_and_harms_nothing) {
  pair p;
  begin(&p);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    nm_command c = {.kind = NM_COMMAND_FILTER_SIZE};
    nm_node_event event;
    nm_node *other;
    bool good = nm_node_command(p.a.node, &c) == NM_E(STATE) &&
                nm_node_cancel(p.a.node, 1) == NM_E(STATE) &&
                !nm_node_next(p.a.node, &event) && !nm_node_wait(p.a.node, 0) &&
                nm_node_open(p.loop, NULL, &other, NULL) == NM_E(STATE) &&
                nm_loop_stop(p.loop) == NM_E(STATE);
    nm_node_close(p.a.node);
    nm_node_release(p.a.node);
    _exit(good ? 0 : 1);
  }
  int status;
  NM_CHECK(waitpid(child, &status, 0) == child);
  NM_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  NM_CHECK_INT(io_send(&p.a, &p.hash, "still here"), NM_RECEIPT_DELIVERED);
  end(&p);
}

/* ---- attaching to a shared instance (its own side is a plain socket) ---- */

#if defined(__linux__)
NM_TEST(a_local_client_attaches_waits_for_a_restart_and_registers_again) {
  nm_loop *loop = io_loop(0);
  io_node n;
  char instance[32];
  (void)snprintf(instance, sizeof(instance), "netmesh-test-%d", (int)getpid());
  int listener = io_listen_abstract(instance);
  io_open(&n, loop, NULL);
  nm_destination_hash hash = io_listen(&n, 7, "test.local", NULL);
  nm_iface_setup setup = io_setup(NM_MEDIUM_LOCAL_CLIENT, "shared");
  (void)snprintf(setup.instance, sizeof(setup.instance), "%s", instance);
  setup.retry_first_ms = 10;
  setup.retry_max_ms = 10;
  nm_iface_id id = io_add(&n, &setup, NULL);
  io_await_online(&n, id, true);
  nm_iface_info info;
  NM_CHECK(io_info(&n, id, &info));
  NM_CHECK_INT(info.role, NM_ROLE_SHARED_CONNECTION);
  NM_CHECK_INT(info.hw_mtu, 262144);
  char expected[64];
  (void)snprintf(expected, sizeof(expected), "LocalInterface[rns/%s]",
                 instance);
  NM_CHECK(strcmp(info.name, expected) == 0);
  int fd = accept(listener, NULL, NULL);
  NM_CHECK(fd >= 0);
  /* The instance goes away and comes back. */
  close(listener);
  close(fd);
  io_await_online(&n, id, false);
  listener = io_listen_abstract(instance);
  io_await_online(&n, id, true);
  fd = accept(listener, NULL, NULL);
  NM_CHECK(fd >= 0);
  /* 10 s after a reconnection each destination is made known (RNS 1,
   * 8.12.1): nothing else has been sent so far. */
  uint8_t frame[512];
  ssize_t got = recv(fd, frame, sizeof(frame), 0);
  NM_CHECK(got > 100);
  NM_CHECK_INT(frame[0], 0x7e);
  NM_CHECK_BYTES(&frame[3], hash.b, 4);
  close(fd);
  close(listener);
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}
#endif

/* ---- credit ---- */

static void starved(nm_node_config *config, bool by_hand) {
  nm_node_config_default(config);
  config->credit = 1;
  config->manual_credit = by_hand;
}

NM_TEST(reading_an_event_makes_room_for_the_very_next_packet) {
  nm_loop *loop = io_loop(0);
  nm_node_config config;
  io_node a;
  io_node b;
  starved(&config, false);
  io_open(&a, loop, NULL);
  io_open_config(&b, loop, &config);
  io_join(&a, &b);
  nm_destination_hash hash = io_listen(&b, 7, "test.echo", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  for (int i = 0; i < 3; i++) {
    NM_CHECK_INT(io_send(&a, &hash, "hello"), NM_RECEIPT_DELIVERED);
    nm_event packet = io_event(&b, NM_EVENT_PACKET, 0);
    nm_event_dispose(&packet);
  }
  NM_CHECK_INT(io_stats(&b).engine.held_for_credit, 0);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

static uint64_t post_text(io_node *n, const nm_destination_hash *hash) {
  nm_command c = {.kind = NM_COMMAND_SEND, .data = io_text("hello")};
  nm_send_spec_default(&c.u.send);
  c.u.send.destination = *hash;
  c.u.send.receipt = false;
  return io_post(n, &c);
}

NM_TEST(credit_by_hand_is_held_until_it_is_given) {
  nm_loop *loop = io_loop(0);
  nm_node_config config;
  io_node a;
  io_node b;
  starved(&config, true);
  io_open(&a, loop, NULL);
  io_open_config(&b, loop, &config);
  io_join(&a, &b);
  nm_destination_hash hash = io_listen(&b, 7, "test.echo", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  NM_CHECK_INT(io_send(&a, &hash, "one"), NM_RECEIPT_DELIVERED);
  nm_event packet = io_event(&b, NM_EVENT_PACKET, 0);
  nm_event_dispose(&packet);
  (void)post_text(&a, &hash);
  NM_CHECK(!io_sees(&b, NM_EVENT_PACKET, 100));
  nm_node_credit(b.node, 1);
  NM_CHECK_INT(io_send(&a, &hash, "two"), NM_RECEIPT_DELIVERED);
  nm_event next = io_event(&b, NM_EVENT_PACKET, 0);
  NM_CHECK_SPAN(nm_block_span(next.data), nm_span_of("two", 3));
  nm_event_dispose(&next);
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

/* ---- the engine's verbs ---- */

NM_TEST(a_paused_destination_takes_packets_again_when_it_goes_on) {
  nm_loop *loop = io_loop(0);
  io_node a;
  io_node b;
  io_open(&a, loop, NULL);
  io_open(&b, loop, NULL);
  io_join(&a, &b);
  nm_destination_hash hash = io_listen(&b, 7, "test.echo", NULL);
  io_announce(&b, &hash);
  io_await_path(&a, &hash);
  nm_command stop = {.kind = NM_COMMAND_PAUSE, .destination = hash, .on = true};
  NM_CHECK_OK(io_status(&b, &stop));
  (void)post_text(&a, &hash);
  NM_CHECK(!io_sees(&b, NM_EVENT_PACKET, 100));
  nm_command go = {.kind = NM_COMMAND_PAUSE, .destination = hash};
  NM_CHECK_OK(io_status(&b, &go));
  NM_CHECK_INT(io_send(&a, &hash, "now"), NM_RECEIPT_DELIVERED);
  nm_command lost = {.kind = NM_COMMAND_LINK_PAUSE, .link = 99, .on = true};
  NM_CHECK_STATUS(io_status(&b, &lost), NM_E(MISSING));
  io_close(&a);
  io_close(&b);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(tables_of_the_engine_are_read_and_written_by_command) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_destination_hash hash = io_listen(&n, 7, "test.echo", NULL);
  nm_command state = {.kind = NM_COMMAND_RATCHET_STATE, .destination = hash};
  nm_node_event reply = io_ask(&n, &state);
  NM_CHECK_INT(reply.u.reply.record_count, 1);
  io_done(&reply);
  nm_command put = {.kind = NM_COMMAND_PATH_TAG_PUT, .on = true};
  put.u.path_tag.destination = hash;
  NM_CHECK_OK(io_status(&n, &put));
  nm_command tags = {.kind = NM_COMMAND_PATH_TAG_LIST};
  reply = io_ask(&n, &tags);
  NM_CHECK_INT(reply.u.reply.record_count, 1);
  io_done(&reply);
  nm_command hole = {.kind = NM_COMMAND_BLACKHOLE_PUT};
  hole.u.blackhole.identity.b[0] = 1;
  hole.u.blackhole.reason = io_text("spam");
  NM_CHECK_OK(io_status(&n, &hole));
  nm_command holes = {.kind = NM_COMMAND_BLACKHOLE_LIST};
  reply = io_ask(&n, &holes);
  NM_CHECK_INT(reply.u.reply.record_count, 1);
  io_done(&reply);
  nm_command limits = {.kind = NM_COMMAND_LIMITS};
  reply = io_ask(&n, &limits);
  NM_CHECK_INT(reply.u.reply.record_count, 1);
  io_done(&reply);
  nm_command tunnel = {.kind = NM_COMMAND_IFACE_TUNNEL, .iface = 99};
  NM_CHECK_STATUS(io_status(&n, &tunnel), NM_E(MISSING));
  nm_command late = {.kind = NM_COMMAND_RECEIPT_TIMEOUT, .op = 99};
  NM_CHECK_STATUS(io_status(&n, &late), NM_E(MISSING));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}
