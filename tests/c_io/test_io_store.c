/* Storage: what a node finds again after any kind of end. */
#include "faults.h"
#include "io_support.h"
#include "support.h"

#include "io/store.h"

#include <dirent.h>
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

typedef struct site {
  nm_loop *loop;
  io_node n;
  const char *folder;
} site;

static void begin(site *s, const char *folder) {
  s->folder = folder;
  s->loop = io_loop(0);
  io_open(&s->n, s->loop, folder);
}

static void end(site *s) {
  io_close(&s->n);
  NM_CHECK_OK(nm_loop_stop(s->loop));
}

static void reopen(site *s) {
  end(s);
  begin(s, s->folder);
}

static size_t file_size(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? (size_t)info.st_size : 0;
}

static void write_file(const char *path, const void *bytes, size_t len) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  NM_CHECK(fd >= 0);
  NM_CHECK(write(fd, bytes, len) == (ssize_t)len);
  close(fd);
}

static void persist(io_node *n) {
  nm_command c = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_OK(io_status(n, &c));
}

static void remember(io_node *n, uint8_t number) {
  uint8_t key[NM_PUBLIC_SIZE];
  memset(key, number, sizeof(key));
  nm_command c = {.kind = NM_COMMAND_REMEMBER,
                  .key = io_block(key, sizeof(key)),
                  .data = io_text("remembered")};
  memset(c.destination.b, number, sizeof(c.destination.b));
  NM_CHECK_OK(io_status(n, &c));
}

static bool recalls(io_node *n, uint8_t number) {
  nm_command c = {.kind = NM_COMMAND_RECALL};
  memset(c.destination.b, number, sizeof(c.destination.b));
  nm_node_event reply = io_ask(n, &c);
  bool found = reply.u.reply.status == NM_OK;
  if (found) {
    NM_CHECK_INT(reply.u.reply.public_key[5], number);
    NM_CHECK(reply.u.reply.has_data);
    NM_CHECK_SPAN(nm_block_span(reply.u.reply.data),
                  nm_span_of("remembered", 10));
  }
  io_done(&reply);
  return found;
}

NM_TEST(the_identity_is_made_once_kept_private_and_found_again) {
  site s;
  begin(&s, io_path(io_folder(), "deep/er"));
  uint8_t hash[NM_ADDRESS_SIZE];
  memcpy(hash, nm_node_identity(s.n.node)->hash.b, sizeof(hash));
  NM_CHECK(!nm_node_identity(s.n.node)->has_private);
  struct stat info;
  NM_CHECK(stat(io_path(s.folder, "identity"), &info) == 0);
  NM_CHECK_INT(info.st_size, 64);
  NM_CHECK_INT(info.st_mode & 0777, 0600);
  reopen(&s);
  NM_CHECK_BYTES(nm_node_identity(s.n.node)->hash.b, hash, sizeof(hash));
  end(&s);
}

NM_TEST(a_second_opener_is_refused_until_the_first_has_closed) {
  site s;
  begin(&s, io_folder());
  nm_node_config config;
  nm_node_config_default(&config);
  config.storage = s.folder;
  nm_node *second = NULL;
  nm_node_fault fault;
  NM_CHECK_STATUS(nm_node_open(s.loop, &config, &second, &fault), NM_E(STATE));
  NM_CHECK(second == NULL);
  NM_CHECK(strcmp(fault.path, "lock") == 0);
  io_close(&s.n);
  NM_CHECK_OK(nm_node_open(s.loop, &config, &second, &fault));
  nm_node_release(second);
  NM_CHECK_OK(nm_loop_stop(s.loop));
}

NM_TEST(a_place_that_cannot_be_used_is_named) {
  nm_loop *loop = io_loop(0);
  const char *file = io_path(io_folder(), "file");
  write_file(file, "x", 1);
  nm_node_config config;
  nm_node_config_default(&config);
  config.storage = io_path(file, "below");
  nm_node *node;
  nm_node_fault fault;
  NM_CHECK_STATUS(nm_node_open(loop, &config, &node, &fault), NM_E(LIBRARY));
  NM_CHECK_INT(fault.os_error, ENOTDIR);
  NM_CHECK(strstr(fault.path, "below") != NULL);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(known_destinations_survive_a_close_and_a_persist) {
  site s;
  begin(&s, io_folder());
  remember(&s.n, 11);
  reopen(&s);
  NM_CHECK(recalls(&s.n, 11));
  remember(&s.n, 12);
  persist(&s.n);
  nm_node_stats stats = io_stats(&s.n);
  NM_CHECK(stats.last_save_unix_us > 0);
  NM_CHECK_INT(stats.saves, 1); /* of what has changed */
  /* Nothing has changed: nothing is written. */
  persist(&s.n);
  NM_CHECK_INT(io_stats(&s.n).saves, stats.saves);
  reopen(&s);
  NM_CHECK(recalls(&s.n, 12));
  end(&s);
}

NM_TEST(many_records_are_saved_in_many_turns) {
  site s;
  begin(&s, io_folder());
  enum { KNOWN = 3000 };
  for (int i = 0; i < KNOWN; i++) {
    nm_command put = {.kind = NM_COMMAND_KNOWN_PUT};
    nm_test_random_bytes(put.u.known.destination.b, 16);
    nm_test_random_bytes(put.u.known.public_key, NM_PUBLIC_SIZE);
    put.u.known.used_unix_us = -1;
    put.u.known.has_ratchet = i % 2 == 0;
    put.u.known.ratchet_unix_us = i;
    put.u.known.has_app_data = i % 3 == 0;
    put.u.known.app_data = i % 3 == 0 ? io_block(&put, (size_t)i % 200) : NULL;
    NM_CHECK_OK(nm_node_command(s.n.node, &put));
    if (i % 500 == 0) {
      persist(&s.n);
    }
  }
  persist(&s.n);
  reopen(&s);
  NM_CHECK_INT(io_stats(&s.n).engine.known, KNOWN);
  end(&s);
}

static void with_ratchets(nm_dest_spec *spec) {
  spec->ratchets = true;
}

NM_TEST(ratchets_and_emission_times_are_durable_before_the_announce) {
  site s;
  begin(&s, io_folder());
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, "out");
  (void)io_add(&s.n, &setup, NULL);
  nm_destination_hash hash = io_listen(&s.n, 7, "test.ratchets", with_ratchets);
  char hex[33];
  for (int i = 0; i < 16; i++) {
    (void)snprintf(&hex[2 * i], 3, "%02x", hash.b[i]);
  }
  char ratchets[64];
  char announced[64];
  (void)snprintf(ratchets, sizeof(ratchets), "ratchets/%s", hex);
  (void)snprintf(announced, sizeof(announced), "announced/%s", hex);
  NM_CHECK_INT(file_size(io_path(s.folder, ratchets)), 0);
  nm_command announce = {.kind = NM_COMMAND_ANNOUNCE, .destination = hash};
  (void)io_post(&s.n, &announce);
  /* The frame is there only after both files are. */
  nm_node_event event;
  bool framed = false;
  while (!framed) {
    NM_CHECK(nm_node_wait(s.n.node, IO_PATIENCE_MS));
    NM_CHECK(nm_node_next(s.n.node, &event));
    framed = event.kind == NM_NODE_FRAME;
    nm_node_event_dispose(&event);
  }
  size_t size = file_size(io_path(s.folder, ratchets));
  NM_CHECK(size > 64);
  NM_CHECK_INT(file_size(io_path(s.folder, announced)), 8);
  nm_command ids = {.kind = NM_COMMAND_RATCHET_IDS, .destination = hash};
  nm_node_event reply = io_ask(&s.n, &ids);
  NM_CHECK_INT(reply.u.reply.number, 1);
  nm_block *first = nm_block_hold(reply.u.reply.data);
  io_done(&reply);

  /* Listening again finds it: in this process, and in the next one. */
  for (int round = 0; round < 2; round++) {
    if (round == 0) {
      nm_command leave = {.kind = NM_COMMAND_UNLISTEN, .destination = hash};
      NM_CHECK_OK(io_status(&s.n, &leave));
    } else {
      reopen(&s);
    }
    nm_destination_hash again =
        io_listen(&s.n, 7, "test.ratchets", with_ratchets);
    NM_CHECK_BYTES(again.b, hash.b, 16);
    ids = (nm_command){.kind = NM_COMMAND_RATCHET_IDS, .destination = hash};
    reply = io_ask(&s.n, &ids);
    NM_CHECK_INT(reply.u.reply.number, 1);
    NM_CHECK_SPAN(nm_block_span(reply.u.reply.data), nm_block_span(first));
    io_done(&reply);
  }
  nm_block_drop(first);
  end(&s);
}

static int damaged_files(const char *folder) {
  DIR *d = opendir(folder);
  int count = 0;
  struct dirent *entry;
  NM_CHECK(d != NULL);
  while ((entry = readdir(d)) != NULL) {
    count += strstr(entry->d_name, ".damaged-") != NULL;
  }
  closedir(d);
  return count;
}

NM_TEST(a_table_that_is_damaged_anywhere_is_set_aside_and_never_stops_a_start) {
  site s;
  begin(&s, io_folder());
  remember(&s.n, 11);
  end(&s);
  const char *folder = s.folder;
  char path[256];
  (void)snprintf(path, sizeof(path), "%s/known_destinations", folder);
  size_t size = file_size(path);
  NM_CHECK(size > NM_STORE_HEAD_SIZE);
  uint8_t *good = nm_test_scratch(size);
  uint8_t *bad = nm_test_scratch(size);
  int fd = open(path, O_RDONLY);
  NM_CHECK(read(fd, good, size) == (ssize_t)size);
  close(fd);
  nm_loop *loop = io_loop(0);
  int aside = 0;
  for (size_t i = 0; i < 2 * size; i++) {
    memcpy(bad, good, size);
    if (i < size) {
      write_file(path, bad, i); /* cut at every length */
    } else {
      bad[i - size] ^= 0x20;
      write_file(path, bad, size); /* a bit flipped in every byte */
    }
    nm_node_config config;
    nm_node_config_default(&config);
    config.storage = folder;
    io_node n;
    io_open_config(&n, loop, &config);
    nm_node_stats stats = io_stats(&n);
    NM_CHECK_INT(stats.damaged_files, 1);
    NM_CHECK_INT(stats.engine.known, 0);
    nm_trouble trouble = io_trouble(&n, NM_TROUBLE_STORE_DAMAGED);
    NM_CHECK(strcmp(trouble.file, "known_destinations") == 0);
    io_close(&n);
    aside++;
    if (i % 20 == 0) {
      NM_CHECK_INT(damaged_files(folder), aside);
    }
  }
  write_file(path, good, size);
  io_node n;
  io_open(&n, loop, folder);
  NM_CHECK(recalls(&n, 11));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(damaged_ratchets_and_times_are_set_aside_and_told) {
  site s;
  begin(&s, io_folder());
  nm_destination_hash hash = io_listen(&s.n, 7, "test.bad", NULL);
  char hex[33];
  char path[256];
  for (int i = 0; i < 16; i++) {
    (void)snprintf(&hex[2 * i], 3, "%02x", hash.b[i]);
  }
  nm_command leave = {.kind = NM_COMMAND_UNLISTEN, .destination = hash};
  NM_CHECK_OK(io_status(&s.n, &leave));
  (void)snprintf(path, sizeof(path), "%s/ratchets/%s", s.folder, hex);
  write_file(path, "not a ratchet file", 18);
  (void)snprintf(path, sizeof(path), "%s/announced/%s", s.folder, hex);
  write_file(path, "short", 5);
  (void)io_listen(&s.n, 7, "test.bad", with_ratchets);
  nm_trouble one = io_trouble(&s.n, NM_TROUBLE_STORE_DAMAGED);
  nm_trouble two = io_trouble(&s.n, NM_TROUBLE_STORE_DAMAGED);
  NM_CHECK(strncmp(one.file, "ratchets/", 9) == 0);
  NM_CHECK(strncmp(two.file, "announced/", 10) == 0);
  NM_CHECK_INT(io_stats(&s.n).damaged_files, 2);
  (void)snprintf(path, sizeof(path), "%s/ratchets", s.folder);
  NM_CHECK_INT(damaged_files(path), 1);
  end(&s);
}

NM_TEST(a_file_that_cannot_be_read_is_set_aside_and_told) {
  const char *folder = io_folder();
  NM_CHECK(mkdir(io_path(folder, "paths"), 0700) == 0); /* not a file */
  site s;
  begin(&s, folder);
  nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_READ);
  NM_CHECK(strcmp(trouble.file, "paths") == 0);
  NM_CHECK_INT(damaged_files(folder), 1);
  end(&s);
}

NM_TEST(a_damaged_identity_is_set_aside_and_replaced) {
  const char *folder = io_folder();
  write_file(io_path(folder, "identity"), "short", 5);
  site s;
  begin(&s, folder);
  NM_CHECK_INT(file_size(io_path(folder, "identity")), 64);
  NM_CHECK_INT(file_size(io_path(folder, "identity.damaged-1")), 5);
  NM_CHECK_INT(io_stats(&s.n).damaged_files, 1);
  nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_DAMAGED);
  NM_CHECK(strcmp(trouble.file, "identity") == 0);
  end(&s);
}

/* ---- paths ---- */

static nm_command a_path(uint8_t number, nm_iface_id iface) {
  nm_command put = {.kind = NM_COMMAND_PATH_PUT};
  nm_path_record *path = &put.u.path;
  memset(path->destination.b, number, 16);
  path->hops = 3;
  path->iface = iface;
  path->updated_mono_us = io_now_us();
  path->expires_mono_us = io_now_us() + 3600u * 1000000u;
  path->blobs = io_block("0123456789", 10);
  return put;
}

static int hops_to(io_node *n, uint8_t number) {
  nm_command c = {.kind = NM_COMMAND_HOPS};
  memset(c.destination.b, number, 16);
  nm_node_event reply = io_ask(n, &c);
  int hops = (int)reply.u.reply.number;
  io_done(&reply);
  return hops;
}

NM_TEST(paths_come_back_with_their_interface_and_wait_for_it) {
  site s;
  begin(&s, io_folder());
  nm_iface_setup here = io_setup(NM_MEDIUM_USER, "here");
  nm_iface_setup there = io_setup(NM_MEDIUM_USER, "there");
  nm_iface_id first = io_add(&s.n, &here, NULL);
  nm_iface_id second = io_add(&s.n, &there, NULL);
  nm_command put = a_path(1, first);
  NM_CHECK_OK(io_status(&s.n, &put));
  put = a_path(2, second);
  NM_CHECK_OK(io_status(&s.n, &put));
  reopen(&s);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, 2);
  (void)io_add(&s.n, &here, NULL);
  NM_CHECK_INT(hops_to(&s.n, 1), 3);
  NM_CHECK_INT(hops_to(&s.n, 2), NM_HOPS_UNKNOWN);
  /* What still waits is saved again. */
  remember(&s.n, 9);
  reopen(&s);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, 2);
  (void)io_add(&s.n, &there, NULL);
  (void)io_add(&s.n, &here, NULL);
  NM_CHECK_INT(hops_to(&s.n, 1), 3);
  NM_CHECK_INT(hops_to(&s.n, 2), 3);
  nm_command get = {.kind = NM_COMMAND_PATH_GET};
  memset(get.destination.b, 2, 16);
  nm_node_event reply = io_ask(&s.n, &get);
  NM_CHECK_INT(reply.u.reply.record_count, 1);
  const nm_path_record *record =
      (const void *)nm_block_span(reply.u.reply.records).ptr;
  NM_CHECK_SPAN(nm_block_span(record->blobs), nm_span_of("0123456789", 10));
  NM_CHECK(record->expires_mono_us > io_now_us());
  io_done(&reply);
  end(&s);
}

/* ---- a full disk ---- */

NM_TEST(a_full_disk_is_an_error_with_a_name_and_the_node_goes_on) {
  site s;
  begin(&s, io_folder());
  nm_iface_setup setup = io_setup(NM_MEDIUM_USER, "out");
  (void)io_add(&s.n, &setup, NULL);
  remember(&s.n, 11);
  persist(&s.n);
  nm_destination_hash hash = io_listen(&s.n, 7, "test.full", with_ratchets);
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlim_t before = limit.rlim_cur;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  limit.rlim_cur = 5; /* bytes of any file */
  NM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  remember(&s.n, 12);
  nm_command save = {.kind = NM_COMMAND_PERSIST};
  NM_CHECK_STATUS(io_status(&s.n, &save), NM_E(LIBRARY));
  nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_WRITE);
  NM_CHECK_INT(trouble.os_error, -EFBIG);
  NM_CHECK(strcmp(trouble.file, "known_destinations") == 0);
  /* What cannot be made durable is not promised. */
  nm_command announce = {.kind = NM_COMMAND_ANNOUNCE, .destination = hash};
  uint64_t ticket = io_post(&s.n, &announce);
  nm_event refused = io_event(&s.n, NM_EVENT_ANNOUNCED, ticket);
  NM_CHECK(refused.status != NM_OK);
  NM_CHECK_INT(refused.stage, NM_STAGE_STORE);
  nm_event_dispose(&refused);
  nm_node_stats stats = io_stats(&s.n);
  NM_CHECK(stats.save_errors >= 2);
  NM_CHECK_INT(stats.store_os_error, -EFBIG);
  limit.rlim_cur = before;
  NM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  signal(SIGXFSZ, handler);
  /* The old file is whole, and there is room again. */
  persist(&s.n);
  io_announce(&s.n, &hash);
  NM_CHECK_INT(io_stats(&s.n).store_os_error, 0);
  reopen(&s);
  NM_CHECK(recalls(&s.n, 11) && recalls(&s.n, 12));
  end(&s);
}

/* ---- kill -9 ---- */

/* Saves over and over; says over |pipe| what it was promised. */
__attribute__((noreturn)) static void save_until_killed(const char *folder,
                                                        int pipe, int from) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, folder);
  for (int i = from; i < 250; i++) {
    remember(&n, (uint8_t)i);
    persist(&n);
    uint8_t promised = (uint8_t)i;
    if (write(pipe, &promised, 1) != 1) {
      break;
    }
  }
  for (;;) {
    pause();
  }
}

/* What users need (C12): NM_KILLS=1000 for as many processes. */
static int kills_wanted(void) {
  const char *wanted = getenv("NM_KILLS");
  return wanted == NULL ? 200 : atoi(wanted);
}

NM_TEST(a_process_killed_at_any_moment_leaves_the_old_or_the_new) {
  const char *folder = io_folder();
  uint8_t promised = 0;
  int kills = kills_wanted();
  for (int round = 0; round < kills; round++) {
    if (promised >= 200) { /* numbers are bytes: begin again elsewhere */
      folder = io_folder();
      promised = 0;
    }
    int fds[2];
    NM_CHECK(pipe(fds) == 0);
    pid_t child = fork();
    NM_CHECK(child >= 0);
    if (child == 0) {
      close(fds[0]);
      save_until_killed(folder, fds[1], promised + 1);
    }
    close(fds[1]);
    /* Up to some save, and then in the middle of the next one. */
    int saves = 1 + (int)nm_test_below(4);
    for (int i = 0; i < saves; i++) {
      NM_CHECK(read(fds[0], &promised, 1) == 1);
    }
    usleep(nm_test_below(3000));
    kill(child, SIGKILL);
    NM_CHECK(waitpid(child, NULL, 0) == child);
    uint8_t more;
    while (read(fds[0], &more, 1) == 1) {
      promised = more;
    }
    close(fds[0]);
    site s;
    begin(&s, folder);
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 0);
    for (uint8_t i = 1; i <= promised; i++) {
      NM_CHECK(recalls(&s.n, i));
    }
    end(&s);
  }
}

/* ---- the files ---- */

NM_TEST(records_of_both_tables_survive_packing) {
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_known_record known = {.heard_unix_us = 5,
                           .used_unix_us = -1,
                           .has_app_data = true,
                           .app_data = io_text(""),
                           .has_ratchet = true,
                           .ratchet_unix_us = INT64_MAX};
  nm_test_random_bytes(known.public_key, sizeof(known.public_key));
  nm_test_random_bytes(known.ratchet, sizeof(known.ratchet));
  NM_CHECK_OK(nm_known_pack(&out, &known));
  nm_known_record none = {.used_unix_us = 77};
  NM_CHECK_OK(nm_known_pack(&out, &none));
  nm_path_record path = {.hops = NM_HOPS_MAX,
                         .state = 2,
                         .updated_unix_us = -5,
                         .expires_unix_us = 1,
                         .announce = io_text("announce"),
                         .blobs = io_text("0123456789")};
  uint8_t hash[NM_HASH_SIZE];
  nm_test_random_bytes(hash, sizeof(hash));
  NM_CHECK_OK(nm_path_pack(&out, &path, hash));

  nm_reader r = nm_reader_of(nm_span_of(out.ptr, out.len));
  nm_known_record got;
  NM_CHECK_OK(nm_known_unpack(&r, &nm_mem_system, &got));
  NM_CHECK(got.has_app_data && got.app_data != NULL && got.has_ratchet);
  NM_CHECK_INT(got.used_unix_us, -1);
  NM_CHECK(got.ratchet_unix_us == INT64_MAX);
  NM_CHECK_BYTES(got.public_key, known.public_key, NM_PUBLIC_SIZE);
  NM_CHECK_BYTES(got.ratchet, known.ratchet, NM_KEY_SIZE);
  nm_known_record_dispose(&got);
  NM_CHECK_OK(nm_known_unpack(&r, &nm_mem_system, &got));
  NM_CHECK(!got.has_app_data && got.app_data == NULL && !got.has_ratchet);
  NM_CHECK_INT(got.used_unix_us, 77);
  nm_path_record back;
  uint8_t hash_back[NM_HASH_SIZE];
  NM_CHECK_OK(nm_path_unpack(&r, &nm_mem_system, &back, hash_back));
  NM_CHECK_INT(back.hops, NM_HOPS_MAX);
  NM_CHECK_INT(back.updated_unix_us, -5);
  NM_CHECK_BYTES(hash_back, hash, NM_HASH_SIZE);
  NM_CHECK_SPAN(nm_block_span(back.announce), nm_span_of("announce", 8));
  NM_CHECK_INT(nm_reader_left(&r), 0);
  nm_path_record_dispose(&back);
  nm_path_record_dispose(&path);
  nm_known_record_dispose(&known);
  nm_buffer_dispose(&out);
}

NM_TEST(packed_records_cut_anywhere_are_refused) {
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 0);
  nm_path_record path = {.announce = io_text("announce"),
                         .blobs = io_text("0123456789")};
  uint8_t hash[NM_HASH_SIZE] = {0};
  NM_CHECK_OK(nm_path_pack(&out, &path, hash));
  for (size_t len = 0; len < out.len; len++) {
    nm_reader r = nm_reader_of(nm_span_of(out.ptr, len));
    nm_path_record back;
    NM_CHECK(nm_path_unpack(&r, &nm_mem_system, &back, hash) != NM_OK);
    NM_CHECK(back.announce == NULL && back.blobs == NULL);
  }
  nm_path_record_dispose(&path);
  nm_buffer_dispose(&out);
}
