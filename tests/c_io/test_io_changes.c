/* Storage: what has changed is written, not all there is; and what is found
 * again of it.
 */
#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "crypto/hash.h"
#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFE_US (3600ull * 1000000)
/* Of save.c and orphans.c: records that one turn takes, or brings back. */
#define RECORDS_PER_TURN 16
#define PLACES_PER_TURN 64

typedef struct site {
  nm_loop *loop;
  io_node n;
  const char *folder;
} site;

static void begin(site *s) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.storage = s->folder;
  config.engine.transport = true;
  s->loop = io_loop(0);
  io_open_config(&s->n, s->loop, &config);
}

static site new_site(void) {
  site s = {.folder = io_folder()};
  begin(&s);
  return s;
}

static void end(site *s) {
  io_close(&s->n);
  NM_CHECK_OK(nm_loop_stop(s->loop));
}

static void reopen(site *s) {
  end(s);
  begin(s);
}

static void persist(site *s) {
  nm_command c = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_OK(io_status(&s->n, &c));
}

/* Turns are counted by polls, each of which has up to two: an upper bound. */
static uint64_t turns(site *s) {
  nm_loop_stats stats;
  nm_loop_stats_read(s->loop, &stats);
  return 2 * stats.turns;
}

static uint64_t turns_since(site *s, uint64_t before) {
  return turns(s) - before + 2;
}

/* ---- files ---- */

static size_t size_of(const site *s, const char *name) {
  struct stat info;
  return stat(io_path(s->folder, name), &info) == 0 ? (size_t)info.st_size : 0;
}

/* The whole file; the caller frees it. */
static uint8_t *read_file(const site *s, const char *name, size_t *len) {
  *len = size_of(s, name);
  uint8_t *bytes = malloc(*len + 1);
  int fd = open(io_path(s->folder, name), O_RDONLY);
  NM_CHECK(bytes != NULL && fd >= 0);
  NM_CHECK(read(fd, bytes, *len) == (ssize_t)*len);
  close(fd);
  return bytes;
}

static void write_file(const site *s, const char *name, const void *bytes,
                       size_t len) {
  int fd = open(io_path(s->folder, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  NM_CHECK(fd >= 0);
  NM_CHECK(write(fd, bytes, len) == (ssize_t)len);
  close(fd);
}

/* ---- entries ---- */

static nm_destination_hash numbered(uint32_t number) {
  uint8_t digest[NM_HASH_SIZE];
  nm_destination_hash hash;
  nm_sha256(digest, nm_span_of(&number, sizeof(number)));
  memcpy(hash.b, digest, sizeof(hash.b));
  return hash;
}

static void put_known(site *s, uint32_t number, size_t app_data) {
  uint8_t bytes[400];
  nm_test_random_bytes(bytes, sizeof(bytes));
  nm_command put = {.kind = NM_COMMAND_KNOWN_PUT};
  put.u.known.destination = numbered(number);
  put.u.known.used_unix_us = -1;
  put.u.known.has_app_data = true;
  put.u.known.app_data = io_block(bytes, app_data);
  NM_CHECK_OK(nm_node_command(s->n.node, &put));
}

static bool knows(site *s, uint32_t number) {
  nm_command get = {.kind = NM_COMMAND_KNOWN_GET,
                    .destination = numbered(number)};
  return io_status(&s->n, &get) == NM_OK;
}

static void put_path(site *s, uint32_t number, nm_iface_id iface,
                     uint8_t hops) {
  nm_command put = {.kind = NM_COMMAND_PATH_PUT};
  put.u.path.destination = numbered(number);
  put.u.path.hops = hops;
  put.u.path.iface = iface;
  put.u.path.updated_mono_us = io_now_us();
  put.u.path.expires_mono_us = io_now_us() + LIFE_US;
  put.u.path.announce = io_text("as long as an announce with little app data");
  put.u.path.blobs = io_block("0123456789", 10);
  NM_CHECK_OK(nm_node_command(s->n.node, &put));
}

static int hops_to(site *s, uint32_t number) {
  nm_command c = {.kind = NM_COMMAND_HOPS, .destination = numbered(number)};
  nm_node_event reply = io_ask(&s->n, &c);
  int hops = (int)reply.u.reply.number;
  io_done(&reply);
  return hops;
}

static void put_way(site *s, uint32_t number, nm_iface_id iface, uint8_t hop) {
  nm_command c = {.kind = NM_COMMAND_TABLE_PUT,
                  .u.entry = {.table = NM_TABLE_ALTERNATIVES}};
  nm_alternative_record *way = &c.u.entry.record.alternative;
  way->destination = numbered(number);
  memset(way->next_hop, hop, sizeof(way->next_hop));
  way->iface = iface;
  way->hops = 7;
  way->emitted = 1234;
  way->heard_mono_us = io_now_us();
  NM_CHECK_OK(io_status(&s->n, &c));
}

/* How many ways lead over |iface|, each as put_way made it. */
static int ways_over(site *s, nm_iface_id iface) {
  nm_command c = {.kind = NM_COMMAND_TABLE_LIST,
                  .u.entry = {.table = NM_TABLE_ALTERNATIVES}};
  nm_node_event reply = io_ask(&s->n, &c);
  const nm_table_entry *rows =
      (const void *)nm_block_span(reply.u.reply.records).ptr;
  int count = 0;
  for (size_t i = 0; i < reply.u.reply.record_count; i++) {
    const nm_alternative_record *way = &rows[i].record.alternative;
    NM_CHECK_INT(way->hops, 7);
    NM_CHECK_INT(way->emitted, 1234);
    NM_CHECK(way->heard_mono_us <= io_now_us());
    count += way->iface == iface;
  }
  io_done(&reply);
  return count;
}

static nm_iface_id add(site *s, const char *name) {
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, name);
  return io_add(&s->n, &setup, NULL);
}

/* Waits until all paths that waited for their interface are back. */
static void await_return(site *s) {
  uint64_t limit = io_now_us() + IO_PATIENCE_MS * 1000ull;
  while (io_stats(&s->n).orphan_paths > 0) {
    NM_CHECK(io_now_us() < limit);
  }
}

/* ---- what a change costs ---- */

NM_TEST(a_changed_path_costs_its_own_length) {
  enum { PATHS = 2000 };
  site s = new_site();
  nm_iface_id iface = add(&s, "here");
  for (uint32_t i = 0; i < PATHS; i++) {
    put_path(&s, i, iface, 3);
  }
  persist(&s);
  size_t whole = size_of(&s, "paths");
  NM_CHECK(whole > PATHS * 150);
  NM_CHECK_INT(size_of(&s, "changes/paths"), 0);
  put_path(&s, 77, iface, 5);
  persist(&s);
  size_t one = size_of(&s, "changes/paths");
  NM_CHECK(one > 150 && one < 400);
  NM_CHECK_INT(size_of(&s, "paths"), whole);
  nm_command drop = {.kind = NM_COMMAND_PATH_DROP, .destination = numbered(78)};
  NM_CHECK_OK(io_status(&s.n, &drop));
  persist(&s);
  size_t two = size_of(&s, "changes/paths");
  NM_CHECK(two > one && two - one < 80);
  /* Nothing has changed: nothing is written. */
  persist(&s);
  NM_CHECK_INT(size_of(&s, "changes/paths"), two);
  reopen(&s);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, PATHS - 1);
  (void)add(&s, "here");
  await_return(&s);
  NM_CHECK_INT(hops_to(&s, 77), 5);
  NM_CHECK_INT(hops_to(&s, 78), NM_HOPS_UNKNOWN);
  NM_CHECK_INT(hops_to(&s, PATHS - 1), 3);
  /* That they came back is no change. */
  persist(&s);
  NM_CHECK_INT(size_of(&s, "changes/paths"), two);
  end(&s);
}

NM_TEST(a_save_and_a_return_take_a_few_records_a_turn) {
  enum { PATHS = 3000 };
  site s = new_site();
  nm_iface_id iface = add(&s, "here");
  for (uint32_t i = 0; i < PATHS; i++) {
    put_path(&s, i, iface, 3);
  }
  (void)hops_to(&s, 0); /* all are there */
  uint64_t before = turns(&s);
  persist(&s);
  NM_CHECK(turns_since(&s, before) >= PATHS / RECORDS_PER_TURN);
  /* Looking for the one that changed is work too. */
  put_path(&s, 1, iface, 4);
  before = turns(&s);
  persist(&s);
  NM_CHECK(turns_since(&s, before) >= PATHS / PLACES_PER_TURN);
  reopen(&s);
  before = turns(&s);
  (void)add(&s, "here");
  await_return(&s);
  NM_CHECK(turns_since(&s, before) >= PATHS / RECORDS_PER_TURN);
  NM_CHECK_INT(io_stats(&s.n).engine.paths, PATHS);
  end(&s);
}

NM_TEST(a_table_is_written_whole_when_its_changes_are_longer) {
  site s = new_site();
  put_known(&s, 0, 10);
  persist(&s);
  size_t small = size_of(&s, "known_destinations");
  for (uint32_t i = 1; i <= 400; i++) {
    put_known(&s, i, 300);
  }
  persist(&s);
  NM_CHECK_INT(size_of(&s, "known_destinations"), small);
  size_t old_len;
  uint8_t *old = read_file(&s, "changes/known_destinations", &old_len);
  NM_CHECK(old_len > 400 * 300);
  nm_command drop = {.kind = NM_COMMAND_KNOWN_DROP, .destination = numbered(7)};
  NM_CHECK_OK(io_status(&s.n, &drop));
  persist(&s);
  NM_CHECK(size_of(&s, "known_destinations") > 399 * 300);
  NM_CHECK_INT(size_of(&s, "changes/known_destinations"), 0);
  end(&s);
  /* Changes of the table that was replaced are not taken for its own. */
  write_file(&s, "changes/known_destinations", old, old_len);
  free(old);
  begin(&s);
  NM_CHECK_INT(io_stats(&s.n).engine.known, 400);
  NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
  NM_CHECK(!knows(&s, 7));
  /* And its own take their place. */
  put_known(&s, 8000, 10);
  persist(&s);
  NM_CHECK(size_of(&s, "changes/known_destinations") < 400);
  reopen(&s);
  NM_CHECK(knows(&s, 8000) && knows(&s, 400) && !knows(&s, 7));
  end(&s);
}

/* ---- every table ---- */

static void table_command(site *s, nm_command_kind kind, bool tunnel,
                          uint8_t number) {
  nm_command c = {.kind = kind};
  c.u.entry.table = tunnel ? NM_TABLE_TUNNELS : NM_TABLE_TUNNEL_PATHS;
  nm_transport_record *record = &c.u.entry.record;
  if (tunnel) {
    memset(record->tunnel.id, number, NM_HASH_SIZE);
    record->tunnel.expires_mono_us = io_now_us() + LIFE_US;
  } else {
    memset(record->tunnel_path.tunnel, 1, NM_HASH_SIZE);
    memset(record->tunnel_path.destination.b, number, NM_ADDRESS_SIZE);
    record->tunnel_path.expires_mono_us = io_now_us() + LIFE_US;
    record->tunnel_path.blobs = io_block("0123456789", 10);
  }
  NM_CHECK_OK(io_status(&s->n, &c));
}

static size_t rows_of(site *s, nm_transport_table table) {
  nm_command c = {.kind = NM_COMMAND_TABLE_LIST, .u.entry = {.table = table}};
  nm_node_event reply = io_ask(&s->n, &c);
  size_t count = reply.u.reply.record_count;
  io_done(&reply);
  return count;
}

static void bar(site *s, uint8_t number, bool barred) {
  nm_command c = {.kind =
                      barred ? NM_COMMAND_BLACKHOLE : NM_COMMAND_UNBLACKHOLE};
  memset(c.identity.b, number, sizeof(c.identity.b));
  NM_CHECK_OK(io_status(&s->n, &c));
}

static size_t barred(site *s) {
  nm_command c = {.kind = NM_COMMAND_BLACKHOLE_LIST};
  nm_node_event reply = io_ask(&s->n, &c);
  size_t count = reply.u.reply.record_count;
  io_done(&reply);
  return count;
}

static void see(site *s, uint8_t number) {
  nm_command c = {.kind = NM_COMMAND_FILTER_PUT};
  memset(c.hash.b, number, sizeof(c.hash.b));
  NM_CHECK_OK(io_status(&s->n, &c));
}

static bool has_seen(site *s, uint8_t number) {
  nm_command c = {.kind = NM_COMMAND_FILTER_HAS};
  memset(c.hash.b, number, sizeof(c.hash.b));
  nm_node_event reply = io_ask(&s->n, &c);
  bool seen = reply.u.reply.number != 0;
  io_done(&reply);
  return seen;
}

NM_TEST(every_table_comes_back_from_its_changes) {
  static const char *const names[] = {"known_destinations", "paths",
                                      "blackholes",         "tunnels",
                                      "tunnel_paths",       "packet_hashes"};
  site s = new_site();
  nm_iface_id iface = add(&s, "here");
  for (uint8_t i = 1; i <= 2; i++) {
    put_known(&s, i, 10);
    put_path(&s, i, iface, i);
    bar(&s, i, true);
    table_command(&s, NM_COMMAND_TABLE_PUT, true, i);
    table_command(&s, NM_COMMAND_TABLE_PUT, false, i);
    see(&s, i);
  }
  persist(&s);
  /* One is removed of each, another one is new. */
  nm_command drop = {.kind = NM_COMMAND_KNOWN_DROP, .destination = numbered(2)};
  NM_CHECK_OK(io_status(&s.n, &drop));
  drop = (nm_command){.kind = NM_COMMAND_PATH_DROP, .destination = numbered(2)};
  NM_CHECK_OK(io_status(&s.n, &drop));
  bar(&s, 2, false);
  table_command(&s, NM_COMMAND_TABLE_DROP, true, 2);
  table_command(&s, NM_COMMAND_TABLE_DROP, false, 2);
  put_known(&s, 3, 10);
  put_path(&s, 3, iface, 3);
  bar(&s, 3, true);
  bar(&s, 4, true);
  table_command(&s, NM_COMMAND_TABLE_PUT, true, 3);
  table_command(&s, NM_COMMAND_TABLE_PUT, true, 4);
  table_command(&s, NM_COMMAND_TABLE_PUT, false, 3);
  table_command(&s, NM_COMMAND_TABLE_PUT, false, 4);
  see(&s, 3);
  persist(&s);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char changes[64];
    (void)snprintf(changes, sizeof(changes), "changes/%s", names[i]);
    nm_test_context("%s", changes);
    NM_CHECK(size_of(&s, names[i]) > 0);
    NM_CHECK(size_of(&s, changes) > NM_STORE_CHANGES_HEAD);
  }
  reopen(&s);
  (void)add(&s, "here");
  NM_CHECK(knows(&s, 1) && !knows(&s, 2) && knows(&s, 3));
  NM_CHECK_INT(hops_to(&s, 1), 1);
  NM_CHECK_INT(hops_to(&s, 2), NM_HOPS_UNKNOWN);
  NM_CHECK_INT(hops_to(&s, 3), 3);
  NM_CHECK_INT(barred(&s), 3);
  NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNELS), 3);
  NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNEL_PATHS), 3);
  NM_CHECK(has_seen(&s, 1) && has_seen(&s, 2) && has_seen(&s, 3));
  NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
  end(&s);
}

NM_TEST(other_ways_come_back_with_their_interfaces_in_any_order) {
  site s = new_site();
  nm_iface_id first = add(&s, "first");
  nm_iface_id second = add(&s, "second");
  put_path(&s, 1, first, 3);
  put_way(&s, 1, second, 0x22);
  put_way(&s, 1, first, 0x33);
  NM_CHECK_INT(ways_over(&s, second), 1);
  for (int order = 0; order < 4; order++) {
    reopen(&s);
    NM_CHECK_INT(io_stats(&s.n).orphan_paths, 1);
    if (order % 2 == 0) {
      first = add(&s, "first");
      NM_CHECK_INT(hops_to(&s, 1), 3);
      NM_CHECK_INT(ways_over(&s, first), 1);
      second = add(&s, "second");
    } else {
      second = add(&s, "second");
      NM_CHECK_INT(hops_to(&s, 1), NM_HOPS_UNKNOWN);
      NM_CHECK_INT(ways_over(&s, second), 0);
      first = add(&s, "first");
    }
    NM_CHECK_INT(hops_to(&s, 1), 3);
    NM_CHECK_INT(ways_over(&s, first), 1);
    NM_CHECK_INT(ways_over(&s, second), 1);
    if (order == 1) { /* the next ones read it from the changes */
      put_path(&s, 1, first, 3);
    }
  }
  end(&s);
}

NM_TEST(paths_that_come_back_while_they_are_saved_are_not_lost) {
  enum { PATHS = 3000 };
  site s = new_site();
  nm_iface_id iface = add(&s, "here");
  for (uint32_t i = 0; i < PATHS; i++) {
    put_path(&s, i, iface, 3);
  }
  persist(&s);
  put_path(&s, PATHS, iface, 3);
  persist(&s);
  end(&s);
  /* Damaged changes: the next save writes all of them. */
  size_t len;
  uint8_t *changes = read_file(&s, "changes/paths", &len);
  changes[len - 1] ^= 1;
  write_file(&s, "changes/paths", changes, len);
  free(changes);
  begin(&s);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, PATHS);
  nm_command save = {.kind = NM_COMMAND_PERSIST};
  (void)io_post(&s.n, &save);
  (void)add(&s, "here");
  persist(&s);
  await_return(&s);
  reopen(&s);
  NM_CHECK_INT(size_of(&s, "changes/paths"), 0);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, PATHS);
  end(&s);
}

/* ---- what a killed process or a bad disk leaves ---- */

NM_TEST(changes_cut_anywhere_lose_their_last_batch_alone) {
  static const char changes[] = "changes/known_destinations";
  site s = new_site();
  put_known(&s, 1, 10);
  persist(&s);
  put_known(&s, 2, 10);
  persist(&s);
  size_t two = size_of(&s, changes);
  put_known(&s, 3, 10);
  persist(&s);
  end(&s);
  size_t len;
  uint8_t *good = read_file(&s, changes, &len);
  NM_CHECK(two > NM_STORE_CHANGES_HEAD && len > two);
  for (size_t cut = 0; cut <= len; cut++) {
    nm_test_context("cut at %zu of %zu", cut, len);
    write_file(&s, changes, good, cut);
    begin(&s);
    NM_CHECK(knows(&s, 1));
    NM_CHECK(knows(&s, 2) == (cut >= two));
    NM_CHECK(knows(&s, 3) == (cut == len));
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
    if (cut % 16 == 0) { /* what comes next stands behind what counts */
      put_known(&s, 4, 10);
      reopen(&s);
      NM_CHECK(knows(&s, 1) && knows(&s, 4));
      NM_CHECK(knows(&s, 2) == (cut >= two));
      NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
    }
    end(&s);
  }
  free(good);
}

NM_TEST(damaged_changes_are_set_aside_and_what_stood_before_is_kept) {
  static const char changes[] = "changes/known_destinations";
  site s = new_site();
  put_known(&s, 1, 10);
  persist(&s);
  put_known(&s, 2, 10);
  persist(&s);
  size_t two = size_of(&s, changes);
  put_known(&s, 3, 10);
  persist(&s);
  end(&s);
  size_t len;
  uint8_t *bad = read_file(&s, changes, &len);
  size_t table_len;
  uint8_t *table = read_file(&s, "known_destinations", &table_len);
  for (size_t at = two + 8; at < len; at += 5) {
    nm_test_context("bit of byte %zu", at);
    bad[at] ^= 0x10;
    write_file(&s, changes, bad, len);
    bad[at] ^= 0x10;
    write_file(&s, "known_destinations", table, table_len);
    begin(&s);
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 1);
    nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_DAMAGED);
    NM_CHECK(strcmp(trouble.file, changes) == 0);
    NM_CHECK(knows(&s, 1) && knows(&s, 2) && !knows(&s, 3));
    /* It is not lost with the file: the close writes the table whole. */
    reopen(&s);
    NM_CHECK_INT(size_of(&s, changes), 0);
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
    NM_CHECK(knows(&s, 1) && knows(&s, 2));
    end(&s);
  }
  free(table);
  free(bad);
}

NM_TEST(a_table_of_the_first_layout_is_read) {
  enum { SEALED = NM_STORE_HEAD_SIZE - NM_HASH_SIZE };
  site s = new_site();
  put_known(&s, 1, 10);
  end(&s);
  size_t len;
  uint8_t *file = read_file(&s, "known_destinations", &len);
  file[4] = 1; /* its version, and the sum of the head and the body */
  nm_span parts[2] = {
      nm_span_of(file, SEALED),
      nm_span_of(&file[NM_STORE_HEAD_SIZE], len - NM_STORE_HEAD_SIZE)};
  nm_sha256v(&file[SEALED], parts, 2);
  write_file(&s, "known_destinations", file, len);
  free(file);
  begin(&s);
  NM_CHECK(knows(&s, 1));
  put_known(&s, 2, 10);
  reopen(&s);
  NM_CHECK(knows(&s, 1) && knows(&s, 2));
  NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
  end(&s);
}

NM_TEST(each_failure_while_changes_are_written_is_told_and_made_good) {
  static const struct {
    fault_call call;
    int error;
    bool always;
  } cases[] = {
      {FAULT_openat, EROFS, true},
      {FAULT_openat, EACCES, false},
      {FAULT_fsync, EIO, true},
      {FAULT_renameat, ENOSPC, false},
  };
  if (!fault_available()) {
    return;
  }
  site s = new_site();
  put_known(&s, 0, 10);
  persist(&s);
  uint32_t number = 1;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    for (unsigned at = 1; at <= 3; at++) {
      nm_test_context("%s %u", fault_name(cases[i].call), at);
      uint64_t errors = io_stats(&s.n).save_errors;
      put_known(&s, number, 10);
      (void)knows(&s, number);
      fault_reset();
      fault_arm(cases[i].call, at, cases[i].error, cases[i].always);
      nm_command save = {.kind = NM_COMMAND_PERSIST};
      int status = io_status(&s.n, &save);
      bool failed = fault_count(cases[i].call) >= at;
      fault_reset();
      NM_CHECK_INT(status, failed ? NM_E(LIBRARY) : NM_OK);
      NM_CHECK_INT(io_stats(&s.n).save_errors, errors + failed);
      if (failed) {
        nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_WRITE);
        NM_CHECK_INT(trouble.os_error, -cases[i].error);
        NM_CHECK(strcmp(trouble.file, "known_destinations") == 0);
      }
      if (at == 1) { /* else the next save fails where this one did not */
        persist(&s);
        NM_CHECK_INT(io_stats(&s.n).store_os_error, 0);
      }
      number++;
    }
    persist(&s);
    reopen(&s);
    for (uint32_t each = 0; each < number; each++) {
      NM_CHECK(knows(&s, each));
    }
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
  }
  end(&s);
}

NM_TEST(a_disk_that_fills_up_in_a_batch_leaves_what_stood_before) {
  static const char changes[] = "changes/known_destinations";
  site s = new_site();
  put_known(&s, 0, 10);
  persist(&s);
  put_known(&s, 1, 10);
  persist(&s);
  size_t before = size_of(&s, changes);
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlim_t most = limit.rlim_cur;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  limit.rlim_cur = before + NM_STORE_BATCH_HEAD + 20;
  NM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  put_known(&s, 2, 10);
  nm_command save = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_STATUS(io_status(&s.n, &save), NM_E(LIBRARY));
  nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_WRITE);
  NM_CHECK_INT(trouble.os_error, -EFBIG);
  NM_CHECK_INT(size_of(&s, changes), before);
  NM_CHECK_INT(io_stats(&s.n).save_errors, 1);
  /* What was taken is not lost: as long as it does not fit whole, each save
   * says so. */
  save = (nm_command){.kind = NM_COMMAND_PERSIST};
  NM_CHECK_STATUS(io_status(&s.n, &save), NM_E(LIBRARY));
  NM_CHECK_INT(io_stats(&s.n).save_errors, 2);
  limit.rlim_cur = most;
  NM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  signal(SIGXFSZ, handler);
  persist(&s);
  NM_CHECK_INT(size_of(&s, changes), 0);
  reopen(&s);
  NM_CHECK(knows(&s, 0) && knows(&s, 1) && knows(&s, 2));
  end(&s);
}

/* ---- kill -9 ---- */

/* Changes all tables and saves over and over, so that a table is written whole
 * every few times; says over |pipe| what was promised. */
__attribute__((noreturn)) static void save_until_killed(site *s, int pipe,
                                                        uint32_t round) {
  begin(s);
  nm_iface_id iface = add(s, "here");
  for (;; round++) {
    for (uint32_t i = 0; i < 100; i++) {
      put_known(s, 1000000 + i, 300);
      put_path(s, 1000000 + i, iface, 4);
    }
    put_known(s, round, 10);
    put_path(s, round, iface, 5);
    bar(s, (uint8_t)(1 + round % 200), true);
    table_command(s, NM_COMMAND_TABLE_PUT, true, 1);
    table_command(s, NM_COMMAND_TABLE_PUT, false, (uint8_t)round);
    see(s, (uint8_t)round);
    persist(s);
    if (write(pipe, &round, sizeof(round)) != sizeof(round)) {
      break;
    }
  }
  for (;;) {
    pause();
  }
}

static bool reads_round(int fd, uint32_t *round) {
  uint32_t next;
  bool has = read(fd, &next, sizeof(next)) == sizeof(next);
  *round = has ? next : *round;
  return has;
}

/* NM_KILLS=1000 for as many processes. */
static int kills_wanted(void) {
  const char *wanted = getenv("NM_KILLS");
  return wanted == NULL ? 40 : atoi(wanted);
}

NM_TEST(
    a_process_killed_while_it_saves_all_tables_starts_with_what_it_promised) {
  site s = {.folder = io_folder()};
  uint32_t round = 0;
  int kills = kills_wanted();
  for (int kill_number = 0; kill_number < kills; kill_number++) {
    int fds[2];
    NM_CHECK(pipe(fds) == 0);
    pid_t child = fork();
    NM_CHECK(child >= 0);
    if (child == 0) {
      close(fds[0]);
      save_until_killed(&s, fds[1], round + 1);
    }
    close(fds[1]);
    int saves = 1 + (int)nm_test_below(4);
    for (int i = 0; i < saves; i++) {
      NM_CHECK(reads_round(fds[0], &round));
    }
    usleep(nm_test_below(8000));
    kill(child, SIGKILL);
    NM_CHECK(waitpid(child, NULL, 0) == child);
    while (reads_round(fds[0], &round)) {
    }
    close(fds[0]);
    begin(&s);
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
    NM_CHECK(io_stats(&s.n).orphan_paths >= round + 100);
    (void)add(&s, "here");
    await_return(&s);
    for (uint32_t i = round > 50 ? round - 50 : 1; i <= round; i++) {
      NM_CHECK(knows(&s, i));
      NM_CHECK_INT(hops_to(&s, i), 5);
    }
    NM_CHECK(has_seen(&s, (uint8_t)round));
    NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNELS), 1);
    end(&s);
  }
}
