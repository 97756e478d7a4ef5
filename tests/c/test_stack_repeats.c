/* Resources on slow media: what is still on its way is not asked for again. */
#include "engine_net.h"

#include "support.h"
#include "wire/packet.h"

#include <string.h>

#define MS_US 1000u

static void accept_all(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

/* Watches a transfer: keeps the first part, loses the second one once, counts
 * part requests, and may lose all parts. */
typedef struct tap {
  nm_block *first;
  int parts;
  int requests;
  bool lose_parts;
} tap;

static bool watch(void *user, int from, nm_span raw) {
  (void)from;
  tap *t = user;
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK) {
    return true;
  }
  t->requests += packet.context == NM_CONTEXT_RESOURCE_REQ;
  if (packet.context != NM_CONTEXT_RESOURCE || t->lose_parts) {
    return packet.context != NM_CONTEXT_RESOURCE;
  }
  if (t->first == NULL) {
    t->first = nm_block_copy(&nm_mem_system, raw);
  }
  return ++t->parts != 2;
}

static net *begin(tap *t, nm_link_ref *link) {
  nm_destination_hash hash;
  net *n = nm_test_scratch(sizeof(net));
  NM_CHECK_OK(net_init(n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(n, 0, 1, "rnode"), 0);
  NM_CHECK_OK(net_listen(n, 1, 7, "test.sink", accept_all, &hash));
  NM_CHECK_OK(net_announce(n, 1, &hash));
  *link = net_link(n, 0, &hash);
  NM_CHECK(*link != 0);
  n->wires[0].filter = watch;
  n->wires[0].user = t;
  return n;
}

static void send_bytes(net *n, nm_link_ref link, size_t len) {
  nm_block *content = nm_block_new(&nm_mem_system, len);
  nm_test_random_bytes(nm_block_bytes(content), len);
  nm_op_id op;
  NM_CHECK_OK(
      nm_engine_resource_send(n->engines[0], link, content, nm_span_of(NULL, 0),
                              NM_RESOURCE_COMPRESS_OFF, 0, &op, n->now));
  nm_block_drop(content);
  net_settle(n);
}

NM_TEST(repeated_parts_put_the_next_request_off) {
  tap t = {0};
  nm_link_ref link;
  net *n = begin(&t, &link);
  send_bytes(n, link, 1500);
  NM_CHECK(t.first != NULL);
  NM_CHECK_INT(t.requests, 1);
  t.lose_parts = true;
  /* Copies of an earlier answer come in, closer together than the time-out. */
  for (int i = 0; i < 100; i++) {
    net_pass(n, 100 * MS_US);
    (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(t.first));
  }
  NM_CHECK_INT(t.requests, 1);
  /* When they end it asks again, and the transfer completes. */
  t.lose_parts = false;
  net_pass(n, 2000 * MS_US);
  NM_CHECK_INT(t.requests, 2);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) != NULL);
  nm_block_drop(t.first);
  net_dispose(n);
}

NM_TEST(repeated_parts_do_not_put_it_off_for_ever) {
  tap t = {0};
  nm_link_ref link;
  net *n = begin(&t, &link);
  send_bytes(n, link, 1500);
  for (int i = 0; i < 400; i++) {
    net_pass(n, 100 * MS_US);
    (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(t.first));
  }
  NM_CHECK_INT(t.requests, 2);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) != NULL);
  nm_block_drop(t.first);
  net_dispose(n);
}

NM_TEST(the_early_repetition_waits_for_a_slow_link) {
  tap t = {.lose_parts = true};
  nm_link_ref link;
  net *n = begin(&t, &link);
  /* 1.2 kbit/s: the handshake took 1.36 s, a request and a part take 4 s. */
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK_OK(nm_engine_link_tune(n->engines[1], there->link, 1360 * MS_US, 0,
                                  0, n->now));
  send_bytes(n, link, 1500);
  NM_CHECK_INT(t.requests, 1);
  net_pass(n, 8000 * MS_US);
  NM_CHECK_INT(t.requests, 1);
  net_pass(n, 4000 * MS_US);
  NM_CHECK_INT(t.requests, 2);
  net_dispose(n);
}

/* Each repeat of a first request puts a window of parts on a slow medium. */
NM_TEST(the_early_repetitions_back_off_on_a_slow_link) {
  tap t = {.lose_parts = true};
  nm_link_ref link;
  net *n = begin(&t, &link);
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK_OK(nm_engine_link_tune(n->engines[1], there->link, 1360 * MS_US, 0,
                                  0, n->now));
  send_bytes(n, link, 1500);
  /* An early repeat would be no earlier than a normal one, after 4.9 s; the
   * waits are twice that, and four times. */
  net_pass(n, 28000 * MS_US);
  NM_CHECK_INT(t.requests, 2);
  net_pass(n, 62000 * MS_US);
  NM_CHECK_INT(t.requests, 6);
  /* It asks on: the transfer completes when the medium is free. */
  t.lose_parts = false;
  net_pass(n, 30000 * MS_US);
  NM_CHECK(net_find(n, 1, NM_EVENT_RESOURCE_IN) != NULL);
  nm_block_drop(t.first);
  net_dispose(n);
}

/* Loses all parts, and all requests but the first one after the second
 * advertisement. */
typedef struct mute {
  int advertised;
  int asked; /* for the proof */
  int requests;
} mute;

static bool keep_silent(void *user, int from, nm_span raw) {
  (void)from;
  mute *m = user;
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK) {
    return true;
  }
  m->advertised += packet.context == NM_CONTEXT_RESOURCE_ADV;
  m->asked += packet.context == NM_CONTEXT_CACHE_REQUEST;
  if (packet.context == NM_CONTEXT_RESOURCE_REQ && m->advertised == 2) {
    return ++m->requests == 1;
  }
  return packet.context != NM_CONTEXT_RESOURCE &&
         packet.context != NM_CONTEXT_RESOURCE_REQ;
}

/* The request that follows a repeated advertisement at once answers the first
 * one: the sender must not take the medium for a fast one, and give up. */
NM_TEST(an_answer_to_an_earlier_advertisement_is_no_round_trip) {
  mute m = {0};
  tap t = {0};
  nm_link_ref link;
  net *n = begin(&t, &link);
  NM_CHECK_OK(
      nm_engine_link_tune(n->engines[0], link, 1360 * MS_US, 0, 0, n->now));
  n->wires[0].filter = keep_silent;
  n->wires[0].user = &m;
  send_bytes(n, link, 800);
  while (m.requests == 0) {
    net_pass(n, 10 * MS_US);
  }
  NM_CHECK_INT(m.advertised, 2);
  /* All parts were sent once: the proof is late after 3 round trips and 10 s.
   */
  net_pass(n, 13500 * MS_US);
  NM_CHECK_INT(m.asked, 0);
  net_pass(n, 1000 * MS_US);
  NM_CHECK_INT(m.asked, 1);
  net_dispose(n);
}

/* A sender that is not ready yet when its advertisement is answered. */
typedef struct racer {
  bool lost;
  int requests;
} racer;

static bool lose_first_request(void *user, int from, nm_span raw) {
  (void)from;
  racer *r = user;
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != NM_CONTEXT_RESOURCE_REQ) {
    return true;
  }
  r->requests++;
  bool first = !r->lost;
  r->lost = true;
  return !first;
}

/* How many milliseconds a resource takes from its first request on. */
static int time_of(net *n, racer *r, nm_link_ref link) {
  int ms = 0;
  net_forget(n);
  send_bytes(n, link, 1000);
  while (net_find(n, 1, NM_EVENT_RESOURCE_IN) == NULL && ms < 1000) {
    net_pass(n, 1 * MS_US);
    ms += r->requests > 0;
  }
  return ms;
}

NM_TEST(a_sender_that_is_late_each_time_is_asked_again_sooner) {
  racer r = {0};
  tap t = {0};
  nm_link_ref link;
  net *n = begin(&t, &link);
  n->wires[0].filter = lose_first_request;
  n->wires[0].user = &r;
  int most[] = {10, 6, 4, 3, 3, 3};
  for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
    r.lost = false;
    r.requests = 0;
    NM_CHECK(time_of(n, &r, link) <= most[i]);
    NM_CHECK_INT(r.requests, 2);
  }
  net_dispose(n);
}

/* Holds parts back, and counts part requests. */
typedef struct holder {
  nm_block *parts[4];
  int held;
  int requests;
} holder;

static bool hold(void *user, int from, nm_span raw) {
  (void)from;
  holder *h = user;
  nm_packet packet;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK) {
    return true;
  }
  h->requests += packet.context == NM_CONTEXT_RESOURCE_REQ;
  if (packet.context == NM_CONTEXT_RESOURCE && h->held < 4) {
    h->parts[h->held++] = nm_block_copy(&nm_mem_system, raw);
  }
  return packet.context != NM_CONTEXT_RESOURCE;
}

NM_TEST(a_late_answer_does_not_make_the_link_look_fast) {
  tap t = {0};
  holder h = {0};
  nm_link_ref link;
  net *n = begin(&t, &link);
  nm_event *there = net_find(n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK_OK(nm_engine_link_tune(n->engines[1], there->link, 1360 * MS_US, 0,
                                  0, n->now));
  n->wires[0].filter = hold;
  n->wires[0].user = &h;
  send_bytes(n, link, 5000);
  NM_CHECK_INT(h.held, 4);
  while (h.requests < 2) {
    net_pass(n, 100 * MS_US);
  }
  /* The first answer comes after all, just behind the second request. */
  for (int i = 0; i < h.held; i++) {
    (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(h.parts[i]));
    nm_block_drop(h.parts[i]);
  }
  net_settle(n);
  NM_CHECK_INT(h.requests, 3);
  /* Four parts took seconds, and so may the next ones. */
  net_pass(n, 8000 * MS_US);
  NM_CHECK_INT(h.requests, 3);
  net_dispose(n);
}

/* Sends one resource whose parts come |late_ms| late, and all that was asked
 * for again behind them. How often parts were asked for. */
static int requests_when_late(net *n, holder *h, nm_link_ref link,
                              int late_ms) {
  memset(h, 0, sizeof(*h));
  n->wires[0].filter = hold;
  n->wires[0].user = h;
  send_bytes(n, link, 400);
  net_pass(n, (uint64_t)late_ms * MS_US);
  n->wires[0].filter = NULL;
  for (int i = 0; i < h->held; i++) {
    (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(h->parts[i]));
    nm_block_drop(h->parts[i]);
    net_settle(n);
  }
  return h->requests;
}

NM_TEST(a_peer_that_is_only_slow_is_asked_again_later) {
  tap t = {0};
  holder h;
  nm_link_ref link;
  net *n = begin(&t, &link);
  /* Each repeat brought the same part again. */
  NM_CHECK_INT(requests_when_late(n, &h, link, 15), 2);
  NM_CHECK_INT(requests_when_late(n, &h, link, 25), 2);
  /* Now it is known that its answer may take 39 ms. */
  NM_CHECK_INT(requests_when_late(n, &h, link, 39), 1);
  NM_CHECK_INT(requests_when_late(n, &h, link, 57), 1);
  NM_CHECK_INT(requests_when_late(n, &h, link, 60), 2);
  net_dispose(n);
}
