/* What the router does with one message over time: upstream's sequences.
 *
 * Upstream looks at its queue every 4 s and when a path comes; the router has a
 * timer for each message. Here it is run only when upstream would look, so that
 * the times are the same. Every packet is lost; what it was is noted.
 */
#include "mail_net.h"

#include "stack/snapshot.h"
#include "support.h"
#include "wire/lxmf_message.h"
#include "wire/packet.h"

#include <stdio.h>
#include <string.h>

#define STEP_US 500000u
#define LOOK_US 4000000u
#define END_US 120000000u
#define LINES_MAX 16

typedef struct line {
  uint64_t at_us;
  const char *action;
} line;

typedef struct diary {
  net n;
  nm_router *router;
  nm_destination_hash from;
  nm_destination_hash to;
  nm_path_record path;
  uint64_t start_us;
  uint64_t requests;   /* of the router's, noted */
  uint64_t dropped_us; /* when a path was dropped on purpose */
  line lines[LINES_MAX];
  size_t count;
  int final;
} diary;

static uint64_t time_of(const diary *d) {
  return d->n.now.mono_us - d->start_us;
}

static void note(diary *d, const char *action) {
  NM_CHECK(d->count < LINES_MAX);
  d->lines[d->count].at_us = time_of(d);
  d->lines[d->count++].action = action;
}

static bool overhear(void *user, int from, nm_span raw) {
  diary *d = user;
  nm_packet packet = {0};
  nm_fault fault;
  NM_CHECK_INT(from, 0);
  NM_CHECK_OK(nm_packet_parse(raw, &packet, &fault));
  nm_router_stats stats;
  nm_router_stats_read(d->router, &stats);
  if (packet.packet_type == NM_LINKREQUEST) {
    note(d, "open link");
  } else if (packet.destination_type != NM_PLAIN) {
    note(d, "send packet");
  } else if (stats.path_requests > d->requests) {
    d->requests = stats.path_requests; /* others are the engine's own */
    note(d, "request path");
  }
  return false;
}

static int no_chance(void *user, void *ptr, size_t len) {
  (void)user;
  memset(ptr, 0, len);
  return NM_OK;
}

static void set_bitrate(diary *d, uint64_t bitrate) {
  nm_engine *engine = d->n.engines[0];
  nm_iface_id id = nm_engine_iface_next(engine, 0);
  nm_iface_spec spec = *nm_engine_iface(engine, id);
  spec.bitrate = bitrate;
  NM_CHECK_OK(nm_engine_iface_change(engine, id, &spec, d->n.now));
}

static void open_diary(diary *d) {
  static const nm_entropy NO_CHANCE = {.fill = no_chance};
  nm_router_config config = {0};
  int status;
  memset(d, 0, sizeof(*d));
  NM_CHECK_OK(net_init(&d->n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(&d->n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(&d->n, 1, 9, "lxmf.delivery", NULL, &d->to));
  NM_CHECK_OK(net_announce(&d->n, 1, &d->to));
  NM_CHECK(nm_engine_path_get(d->n.engines[0], &d->to, &d->path));
  NM_CHECK_OK(nm_engine_drop_path(d->n.engines[0], &d->to, d->n.now));
  d->router = nm_router_new(&nm_mem_system, &NO_CHANCE, d->n.engines[0],
                            &config, d->n.now, &status);
  NM_CHECK_OK(status);
  nm_identity identity = net_identity(8);
  nm_mailbox_spec spec;
  nm_mailbox_spec_default(&spec);
  spec.identity = &identity;
  NM_CHECK_OK(nm_router_open(d->router, &spec, &d->from, d->n.now));
  net_settle(&d->n);
  net_forget(&d->n);
  d->n.wires[0].filter = overhear;
  d->n.wires[0].user = d;
  d->start_us = d->n.now.mono_us;
  d->dropped_us = UINT64_MAX;
}

/* The engine's events reach the router; it may act on them. */
static void hear(diary *d) {
  net_settle(&d->n);
  for (int k = 0; k < d->n.event_count[0]; k++) {
    nm_event *event = &d->n.events[0][k];
    if (event->kind == NM_EVENT_PATH && event->status != NM_OK) {
      d->dropped_us = time_of(d);
      note(d, "drop path");
    }
    if (!nm_router_input(d->router, event, d->n.now)) {
      nm_event_dispose(event);
    }
  }
  d->n.event_count[0] = 0;
  net_settle(&d->n);
  nm_mail mail;
  while (nm_router_event(d->router, &mail)) {
    d->final = (int)mail.state;
    if (mail.state == NM_LXMF_FAILED) {
      note(d, "fail");
    }
    nm_mail_dispose(&mail);
  }
}

static bool path_comes(const nm_vector *v, uint64_t at_us) {
  size_t count = (size_t)nm_vector_find(v, "input.path_events")->number;
  for (size_t i = 0; i < count; i++) {
    char path[64];
    (void)snprintf(path, sizeof(path), "input.path_events[%zu].t_s", i);
    if ((uint64_t)(nm_vector_number(v, path) * 1e6) == at_us) {
      return true;
    }
  }
  return false;
}

static void step(diary *d, const nm_vector *v) {
  bool look =
      time_of(d) % LOOK_US == 0 || time_of(d) == d->dropped_us + STEP_US;
  if (path_comes(v, time_of(d))) {
    d->path.updated_mono_us = d->n.now.mono_us;
    d->path.expires_mono_us = d->n.now.mono_us + 600000000;
    NM_CHECK_OK(nm_engine_path_put(d->n.engines[0], &d->path));
    nm_event event = {.kind = NM_EVENT_PATH, .destination = d->to};
    (void)nm_router_input(d->router, &event, d->n.now);
    hear(d);
  }
  if (look) {
    nm_router_tick(d->router, d->n.now);
  }
  hear(d);
}

static void send(diary *d, const nm_vector *v) {
  nm_identity identity = net_identity(8);
  nm_lxmf_draft draft = {
      .destination = d->to, .source = d->from, .timestamp = 1700000000.0};
  uint8_t bytes[256];
  uint8_t sealed[200] = {0};
  nm_writer w = nm_writer_of(bytes, sizeof(bytes));
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK_OK(nm_lxmf_pack(&draft, &identity.sign, NULL, &w, id));
  nm_letter_spec spec = {
      .mailbox = d->from,
      .packed = nm_writer_done(&w),
      .policy = mail_by((nm_lxmf_method)nm_vector_u64(v, "input.method")),
      .sealed = nm_span_of(sealed, sizeof(sealed)),
  };
  NM_CHECK_OK(nm_router_set_node(d->router, &d->to, 16, d->n.now));
  NM_CHECK_OK(nm_router_send(d->router, &spec, id, d->n.now));
}

static void check_lines(const diary *d, const nm_vector *v) {
  size_t count = (size_t)nm_vector_find(v, "output.events")->number;
  bool timed =
      nm_vector_find(v, "input.link_behaviour")->type == NM_VECTOR_NULL;
  for (size_t i = 0; i < count && i < d->count; i++) {
    char path[64];
    nm_test_context("%s, line %zu: %s at %.1f s", v->name, i,
                    d->lines[i].action, (double)d->lines[i].at_us / 1e6);
    (void)snprintf(path, sizeof(path), "output.events[%zu].action", i);
    NM_CHECK(strcmp(d->lines[i].action, nm_vector_text(v, path)) == 0);
    (void)snprintf(path, sizeof(path), "output.events[%zu].t_s", i);
    if (timed) {
      NM_CHECK_INT(d->lines[i].at_us,
                   (uint64_t)(nm_vector_number(v, path) * 1e6));
    }
  }
  NM_CHECK_INT(d->count, count);
  NM_CHECK_INT(d->final, nm_vector_u64(v, "output.final_state"));
}

static void check_timeline(const nm_vector *v) {
  diary *d = nm_test_scratch(sizeof(*d));
  open_diary(d);
  nm_test_context("%s", v->name);
  set_bitrate(d, nm_vector_u64(v, "input.lowest_online_interface_bitrate"));
  if (path_comes(v, 0)) {
    NM_CHECK_OK(nm_engine_path_put(d->n.engines[0], &d->path));
  }
  net_settle(&d->n);
  net_forget(&d->n);
  send(d, v);
  hear(d);
  while (time_of(d) < END_US && d->final != NM_LXMF_FAILED) {
    net_pass(&d->n, STEP_US);
    step(d, v);
  }
  check_lines(d, v);
  nm_path_record_dispose(&d->path);
  nm_router_free(d->router);
  net_dispose(&d->n);
}

NM_TEST(one_message_over_time) {
  nm_vectors_each("lxmf", "outbound_timeline", 7, check_timeline);
}
