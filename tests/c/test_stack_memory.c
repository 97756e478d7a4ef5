/* The engine when memory runs out: every allocation of a whole scenario fails
 * once. Nothing may crash, leak or hang, and what was promised must still end.
 */
#include "engine_net.h"

#include "base/msgpack.h"
#include "support.h"

#include <string.h>

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static void adjust(nm_dest_spec *spec) {
  spec->prove = NM_PROVE_ALL;
  spec->ratchets = true;
  spec->resources = NM_ACCEPT_ALL;
}

static void use_packets(net *n, const nm_destination_hash *hash) {
  nm_send_spec spec;
  nm_op_id op;
  nm_send_spec_default(&spec);
  spec.destination = *hash;
  spec.payload = text("a packet");
  (void)nm_engine_send(n->engines[0], &spec, &op, n->now);
  (void)nm_engine_request_path(n->engines[0], hash, 0, NULL, 1000000, &op,
                               n->now);
  net_settle(n);
}

static void answer_requests(net *n) {
  nm_event *asked = net_find(n, 1, NM_EVENT_REQUEST);
  if (asked != NULL) {
    (void)nm_engine_respond(n->engines[1], asked->token,
                            nm_block_span(asked->data), false, n->now);
    net_settle(n);
  }
}

static void use_channel(net *n, nm_link_ref link, nm_block *content) {
  static const nm_resource_compression modes[] = {
      NM_RESOURCE_COMPRESS_OFF, NM_RESOURCE_COMPRESS_WHEN_SMALLER};
  nm_event *active = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  nm_link_ref other = active == NULL ? 0 : active->link;
  nm_op_id op;
  nm_block *words = nm_block_new(&nm_mem_system, 3000);
  memset(nm_block_bytes(words), 'w', 3000);
  (void)nm_engine_channel_open(n->engines[0], link, true, n->now);
  (void)nm_engine_channel_open(n->engines[1], other, false, n->now);
  (void)nm_engine_channel_register(n->engines[1], other, 3);
  (void)nm_engine_stream_reports(n->engines[0], link, true);
  for (int i = 0; i < 2; i++) {
    (void)nm_engine_channel_send(n->engines[0], link, 3, text("message"), &op,
                                 NULL, n->now);
    (void)nm_engine_channel_post(n->engines[0], link, 3, words, &op, n->now);
    (void)nm_engine_stream_write(n->engines[0], link, 1,
                                 i == 0 ? content : words, false, modes[i], &op,
                                 n->now);
    net_pass(n, 100000);
  }
  nm_block_drop(words);
}

static void use_link(net *n, const nm_destination_hash *hash,
                     nm_block *content) {
  nm_op_id op;
  nm_identity me = net_identity(9);
  nm_link_ref link = net_link(n, 0, hash);
  if (link == 0) {
    return;
  }
  (void)nm_engine_link_identify(n->engines[0], link, &me, n->now);
  (void)nm_engine_link_send(n->engines[0], link, text("data"), true, 0, &op,
                            NULL, n->now);
  net_settle(n);
  (void)nm_engine_request(n->engines[0], link, text("/echo"), text("\xa2hi"), 0,
                          0, &op, n->now);
  net_settle(n);
  answer_requests(n);
  use_channel(n, link, content);
  (void)nm_engine_resource_send(n->engines[0], link, content, text("\x01"),
                                NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now);
  net_settle(n);
}

/* Every operation must have ended once time has passed. */
static void check_ended(net *n) {
  net_pass(n, 900000000);
  for (int i = 0; i < n->engine_count; i++) {
    nm_engine_stats stats;
    nm_engine_stats_read(n->engines[i], &stats);
    NM_CHECK_INT(stats.operations, 0);
    NM_CHECK_INT(stats.jobs_outstanding, 0);
    NM_CHECK_INT(stats.inputs, stats.accepted + stats.dropped);
  }
}

static void scenario(net *n, const nm_mem *mem, nm_block *content) {
  nm_destination_hash hash;
  nm_span name = text("test.all");
  if (net_init(n, mem, 2) == NM_OK && net_join(n, 0, 1, "udp") >= 0) {
    (void)nm_engine_subscribe(n->engines[0], NULL, true);
    if (net_listen(n, 1, 7, "test.all", adjust, &hash) == NM_OK) {
      (void)nm_engine_handle(n->engines[1], &hash, text("/echo"), NM_ALLOW_ALL,
                             NULL, 0);
      (void)net_announce(n, 1, &hash);
      use_packets(n, &hash);
      use_link(n, &hash, content);
    }
    (void)nm_engine_subscribe(n->engines[1], &name, false);
    check_ended(n);
  }
  net_dispose(n);
}

NM_TEST(every_allocation_of_an_engine_may_fail) {
  nm_test_mem m;
  net *n = nm_test_scratch(sizeof(net));
  nm_block *content = nm_block_new(&nm_mem_system, 9000);
  nm_test_random_bytes(nm_block_bytes(content), 9000);
  nm_test_mem_init(&m);
  scenario(n, &m.mem, content);
  size_t calls = m.calls;
  NM_CHECK_INT(m.live, 0);
  NM_CHECK(calls > 300);
  for (size_t at = 1; at <= calls; at++) {
    nm_test_context("allocation %zu of %zu", at, calls);
    nm_test_mem_init(&m);
    m.fail_at = at;
    scenario(n, &m.mem, content);
    NM_CHECK_INT(m.live, 0);
  }
  nm_block_drop(content);
}

NM_TEST(an_engine_whose_memory_is_gone_for_good_still_stands) {
  nm_test_mem m;
  net *n = nm_test_scratch(sizeof(net));
  nm_block *content = nm_block_new(&nm_mem_system, 9000);
  nm_test_random_bytes(nm_block_bytes(content), 9000);
  for (size_t from = 1; from < 600; from += 7) {
    nm_test_context("nothing from allocation %zu on", from);
    nm_test_mem_init(&m);
    m.fail_from = from;
    scenario(n, &m.mem, content);
    NM_CHECK_INT(m.live, 0);
  }
  nm_block_drop(content);
}

NM_TEST(a_known_destination_is_put_whole_or_not_at_all) {
  nm_test_mem memory;
  nm_test_mem_init(&memory);
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &memory.mem, 1));
  nm_block *app_data = nm_block_copy(&nm_mem_system, text("app data"));
  nm_known_record record = {.has_app_data = true, .app_data = app_data};
  memset(record.public_key, 7, sizeof(record.public_key));
  nm_identity identity = net_identity(9);
  for (int round = 0; round < 2; round++) {
    int status = NM_E(MEMORY);
    memset(record.destination.b, round + 1, NM_ADDRESS_SIZE);
    for (size_t at = 1; status == NM_E(MEMORY); at++) {
      nm_span bytes = text("app data");
      memory.fail_at = memory.calls + at;
      status = round == 0
                   ? nm_engine_known_put(n->engines[0], &record)
                   : nm_engine_remember(n->engines[0], &record.destination,
                                        &identity, &bytes, n->now);
      memory.fail_at = 0;
      nm_known_record kept;
      bool found =
          nm_engine_known_get(n->engines[0], &record.destination, &kept);
      NM_CHECK(found == (status == NM_OK));
      nm_known_record_dispose(&kept);
      NM_CHECK(status == NM_OK || at < 10);
    }
    NM_CHECK_OK(status);
  }
  nm_block_drop(app_data);
  net_dispose(n);
}
