/* What a transport node finds again after a restart: blackholes, tunnels with
 * their paths, the duplicate filter. Known destinations and paths are in
 * test_io_store.c.
 */
#include "io_support.h"
#include "support.h"

#include "crypto/identity.h"
#include "io/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASHES 3000
#define LIFE_US (3600ull * 1000000)

typedef struct site {
  nm_loop *loop;
  io_node n;
  const char *folder;
  bool transport;
} site;

static void begin(site *s) {
  nm_node_config config;
  nm_node_config_default(&config);
  config.storage = s->folder;
  config.engine.transport = s->transport;
  s->loop = io_loop(0);
  io_open_config(&s->n, s->loop, &config);
}

static void end(site *s) {
  io_close(&s->n);
  NM_CHECK_OK(nm_loop_stop(s->loop));
}

static site site_of(bool transport) {
  site s = {.folder = io_folder(), .transport = transport};
  begin(&s);
  return s;
}

static void reopen(site *s) {
  end(s);
  begin(s);
}

static bool has_file(const site *s, const char *name) {
  struct stat info;
  return stat(io_path(s->folder, name), &info) == 0;
}

static void fill(uint8_t *out, size_t len, int number) {
  memset(out, number, len);
}

/* ---- the records ---- */

static nm_identity_hash owner_of(int number) {
  uint8_t key[NM_PUBLIC_SIZE];
  nm_identity_hash hash;
  fill(key, sizeof(key), number);
  nm_identity_hash_of(&hash, key);
  return hash;
}

static void blackhole(site *s, int number, int64_t until_unix_us) {
  nm_command c = {.kind = NM_COMMAND_BLACKHOLE,
                  .identity = owner_of(number),
                  .until_unix_us = until_unix_us,
                  .data = io_text("floods")};
  NM_CHECK_OK(io_status(&s->n, &c));
}

static size_t blackholes(site *s) {
  nm_command c = {.kind = NM_COMMAND_BLACKHOLE_LIST};
  nm_node_event reply = io_ask(&s->n, &c);
  size_t count = reply.u.reply.record_count;
  if (count > 0) {
    const nm_blackhole_record *first =
        (const void *)nm_block_span(reply.u.reply.records).ptr;
    NM_CHECK_SPAN(nm_block_span(first->reason), nm_span_of("floods", 6));
    NM_CHECK_BYTES(first->source.b, nm_node_identity(s->n.node)->hash.b,
                   NM_ADDRESS_SIZE);
  }
  io_done(&reply);
  return count;
}

static void put_tunnel(site *s, int number) {
  nm_command c = {.kind = NM_COMMAND_TABLE_PUT,
                  .u.entry = {.table = NM_TABLE_TUNNELS}};
  nm_tunnel_record *tunnel = &c.u.entry.record.tunnel;
  fill(tunnel->id, sizeof(tunnel->id), number);
  tunnel->expires_mono_us = io_now_us() + LIFE_US;
  NM_CHECK_OK(io_status(&s->n, &c));
}

static void put_tunnel_path(site *s, int tunnel, int number) {
  nm_command c = {.kind = NM_COMMAND_TABLE_PUT,
                  .u.entry = {.table = NM_TABLE_TUNNEL_PATHS}};
  nm_tunnel_path_record *path = &c.u.entry.record.tunnel_path;
  fill(path->tunnel, sizeof(path->tunnel), tunnel);
  fill(path->destination.b, sizeof(path->destination.b), number);
  fill(path->next_hop, sizeof(path->next_hop), number + 1);
  path->hops = 4;
  path->updated_mono_us = io_now_us();
  path->expires_mono_us = io_now_us() + LIFE_US;
  path->announce = io_text("announce");
  path->blobs = io_block("0123456789", 10);
  NM_CHECK_OK(io_status(&s->n, &c));
}

static size_t rows_of(site *s, nm_transport_table table) {
  nm_command c = {.kind = NM_COMMAND_TABLE_LIST, .u.entry = {.table = table}};
  nm_node_event reply = io_ask(&s->n, &c);
  size_t count = reply.u.reply.record_count;
  const nm_table_entry *rows =
      (const void *)nm_block_span(reply.u.reply.records).ptr;
  for (size_t i = 0; i < count && table == NM_TABLE_TUNNEL_PATHS; i++) {
    const nm_tunnel_path_record *path = &rows[i].record.tunnel_path;
    NM_CHECK_INT(path->hops, 4);
    NM_CHECK_INT(path->next_hop[3], path->destination.b[0] + 1);
    NM_CHECK(path->expires_mono_us > io_now_us());
    NM_CHECK_SPAN(nm_block_span(path->announce), nm_span_of("announce", 8));
    NM_CHECK_SPAN(nm_block_span(path->blobs), nm_span_of("0123456789", 10));
  }
  io_done(&reply);
  return count;
}

static nm_packet_hash hash_of(uint32_t number) {
  nm_packet_hash hash;
  nm_sha256(hash.b, nm_span_of(&number, sizeof(number)));
  return hash;
}

static uint32_t remembered(site *s) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < HASHES; i += 97) {
    nm_command c = {.kind = NM_COMMAND_FILTER_HAS, .hash = hash_of(i)};
    nm_node_event reply = io_ask(&s->n, &c);
    count += reply.u.reply.number != 0;
    io_done(&reply);
  }
  return count;
}

static void fill_tables(site *s) {
  blackhole(s, 1, 0);
  put_tunnel(s, 10);
  put_tunnel(s, 11);
  for (int i = 0; i < 60; i++) {
    put_tunnel_path(s, 10 + i % 2, 100 + i);
  }
  for (uint32_t i = 0; i < HASHES; i++) {
    nm_command c = {.kind = NM_COMMAND_FILTER_PUT, .hash = hash_of(i)};
    NM_CHECK_OK(io_status(&s->n, &c));
  }
}

/* ---- the tests ---- */

NM_TEST(a_transport_node_finds_its_tables_again) {
  site s = site_of(true);
  fill_tables(&s);
  reopen(&s);
  NM_CHECK_INT(blackholes(&s), 1);
  NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNELS), 2);
  NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNEL_PATHS), 60);
  NM_CHECK_INT(remembered(&s), 1 + (HASHES - 1) / 97);
  NM_CHECK_INT(io_stats(&s.n).engine.filter_current, HASHES);
  /* What became empty is empty after the next start too. */
  nm_command lift = {.kind = NM_COMMAND_UNBLACKHOLE, .identity = owner_of(1)};
  NM_CHECK_OK(io_status(&s.n, &lift));
  reopen(&s);
  NM_CHECK_INT(blackholes(&s), 0);
  NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNEL_PATHS), 60);
  end(&s);
}

NM_TEST(an_endpoint_keeps_blackholes_and_nothing_of_a_transport_node) {
  site s = site_of(false);
  blackhole(&s, 1, 0);
  blackhole(&s, 2, 1); /* long past */
  reopen(&s);
  NM_CHECK_INT(blackholes(&s), 1);
  end(&s);
  NM_CHECK(has_file(&s, "blackholes"));
  NM_CHECK(!has_file(&s, "tunnels") && !has_file(&s, "tunnel_paths"));
  NM_CHECK(!has_file(&s, "packet_hashes"));
}

NM_TEST(each_damaged_table_is_set_aside_and_the_others_are_read) {
  static const char *const names[] = {"blackholes", "tunnels", "tunnel_paths",
                                      "packet_hashes"};
  site s = site_of(true);
  fill_tables(&s);
  end(&s);
  for (uint32_t i = 0; i < 4; i++) {
    int fd = open(io_path(s.folder, names[i]), O_WRONLY);
    NM_CHECK(fd >= 0);
    NM_CHECK(pwrite(fd, "damage", 6, NM_STORE_HEAD_SIZE + 3) == 6);
    close(fd);
    begin(&s);
    nm_trouble trouble = io_trouble(&s.n, NM_TROUBLE_STORE_DAMAGED);
    NM_CHECK(strcmp(trouble.file, names[i]) == 0);
    NM_CHECK_INT(io_stats(&s.n).damaged_files, 1);
    NM_CHECK(!has_file(&s, names[i])); /* renamed */
    NM_CHECK_INT(blackholes(&s), 0);
    NM_CHECK_INT(rows_of(&s, NM_TABLE_TUNNELS), i == 0 ? 2 : 0);
    NM_CHECK_INT(remembered(&s), i == 3 ? 0 : 1 + (HASHES - 1) / 97);
    end(&s);
  }
}

/* ---- A15: who is barred stays barred ---- */

static void know(site *s, int number) {
  uint8_t key[NM_PUBLIC_SIZE];
  fill(key, sizeof(key), number);
  nm_command c = {.kind = NM_COMMAND_REMEMBER,
                  .key = io_block(key, sizeof(key))};
  fill(c.destination.b, sizeof(c.destination.b), number);
  NM_CHECK_OK(io_status(&s->n, &c));
}

static void put_path(site *s, int number, nm_iface_id iface) {
  nm_command put = {.kind = NM_COMMAND_PATH_PUT};
  nm_path_record *path = &put.u.path;
  fill(path->destination.b, sizeof(path->destination.b), number);
  path->hops = 3;
  path->iface = iface;
  path->updated_mono_us = io_now_us();
  path->expires_mono_us = io_now_us() + LIFE_US;
  path->blobs = io_block("0123456789", 10);
  NM_CHECK_OK(io_status(&s->n, &put));
}

static int64_t hops_to(site *s, int number) {
  nm_command c = {.kind = NM_COMMAND_HOPS};
  fill(c.destination.b, sizeof(c.destination.b), number);
  nm_node_event reply = io_ask(&s->n, &c);
  int64_t hops = reply.u.reply.number;
  io_done(&reply);
  return hops;
}

NM_TEST(paths_of_a_blackholed_identity_do_not_come_back_with_a_restart) {
  site s = site_of(true);
  nm_iface_setup here = io_setup(NM_MEDIUM_USER, "here");
  nm_iface_id iface = io_add(&s.n, &here, NULL);
  know(&s, 1);
  know(&s, 2);
  put_path(&s, 1, iface);
  put_path(&s, 2, iface);
  reopen(&s); /* both wait for their interface */
  blackhole(&s, 1, 0);
  reopen(&s);
  NM_CHECK_INT(io_stats(&s.n).orphan_paths, 2);
  (void)io_add(&s.n, &here, NULL);
  NM_CHECK_INT(hops_to(&s, 1), NM_HOPS_UNKNOWN);
  NM_CHECK_INT(hops_to(&s, 2), 3);
  NM_CHECK_INT(blackholes(&s), 1);
  end(&s);
}
