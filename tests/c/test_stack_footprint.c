/* What a link costs in memory: a thousand are opened, and both sides are
 * weighed while all are active. A link may take a KiB in a node, which keeps a
 * ticket beside it; this is the engine's share.
 */
#include "engine_net.h"

#include "support.h"

#include <string.h>

#define LINKS 1000
/* An interface may have 256 jobs waiting. */
#define AT_ONCE 200
/* What an allocator keeps beside each block: its header and the rounding. */
#define BLOCK_COST 16
#define BYTES_MOST 900
/* With what is needed only while they open. */
#define PEAK_MOST 1200

static size_t weight(const nm_test_mem *m) {
  return m->bytes_live + m->live * BLOCK_COST;
}

static void open_all(net *n, const nm_destination_hash *hash) {
  for (int k = 0; k < LINKS; k++) {
    nm_link_ref link;
    NM_CHECK_OK(nm_engine_link_open(n->engines[0], hash, 0, &link, n->now));
    if (k % AT_ONCE == AT_ONCE - 1) {
      net_settle(n);
    }
  }
  for (int i = 0; i < 2; i++) {
    NM_CHECK_INT(net_count(n, i, NM_EVENT_LINK_ACTIVE), LINKS);
  }
  net_forget(n);
}

NM_TEST(a_thousand_active_links_take_less_than_a_kib_each) {
  nm_test_mem mems[2];
  const nm_mem *apart[2];
  size_t before[2];
  net *n = nm_test_scratch(sizeof(net));
  nm_destination_hash hash;
  for (int i = 0; i < 2; i++) {
    nm_test_mem_init(&mems[i]);
    apart[i] = &mems[i].mem;
  }
  NM_CHECK_OK(net_init_apart(n, apart, 2, 1000000, NULL));
  NM_CHECK(net_join(n, 0, 1, "tcp") >= 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.links", NULL, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  NM_CHECK(net_link(n, 0, &hash) != 0);
  net_forget(n);
  for (int i = 0; i < 2; i++) {
    before[i] = weight(&mems[i]);
    mems[i].bytes_peak = mems[i].bytes_live;
  }
  open_all(n, &hash);
  for (int i = 0; i < 2; i++) {
    size_t each = (weight(&mems[i]) - before[i]) / LINKS;
    size_t peak = (mems[i].bytes_peak - before[i]) / LINKS;
    nm_test_context("%s: %zu bytes each, %zu at the peak",
                    i == 0 ? "initiator" : "responder", each, peak);
    NM_CHECK(each <= BYTES_MOST);
    NM_CHECK(peak <= PEAK_MOST);
  }
  net_dispose(n);
}
