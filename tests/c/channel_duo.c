#include "channel_duo.h"

#include "support.h"

#include <string.h>

nm_span duo_text(const char *s) {
  return nm_span_of(s, strlen(s));
}

duo duo_link_as(const char *kind, void (*adjust)(nm_dest_spec *spec)) {
  duo d = {.n = nm_test_scratch(sizeof(net))};
  nm_destination_hash hash;
  NM_CHECK_OK(net_init(d.n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(d.n, 0, 1, kind), 0);
  NM_CHECK_OK(net_listen(d.n, 1, 7, "test.channel", adjust, &hash));
  NM_CHECK_OK(net_announce(d.n, 1, &hash));
  d.a = net_link(d.n, 0, &hash);
  nm_event *active = net_find(d.n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(d.a != 0 && active != NULL);
  d.b = active->link;
  net_forget(d.n);
  return d;
}

duo duo_link(const char *kind) {
  return duo_link_as(kind, NULL);
}

duo duo_join(const char *kind) {
  duo d = duo_link(kind);
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[0], d.a, true, d.n->now));
  NM_CHECK_OK(nm_engine_channel_open(d.n->engines[1], d.b, true, d.n->now));
  return d;
}

nm_channel_info duo_info(const duo *d, int engine) {
  nm_channel_info info;
  NM_CHECK_OK(nm_engine_channel_info(d->n->engines[engine],
                                     engine == 0 ? d->a : d->b, &info));
  return info;
}

int duo_send(duo *d, uint16_t msgtype, const char *what, nm_op_id *op) {
  return nm_engine_channel_send(d->n->engines[0], d->a, msgtype, duo_text(what),
                                op, NULL, d->n->now);
}

const nm_event *duo_event(const net *n, int engine, nm_event_kind kind,
                          int which) {
  for (int i = 0; i < n->event_count[engine]; i++) {
    if (n->events[engine][i].kind == kind && which-- == 0) {
      return &n->events[engine][i];
    }
  }
  nm_test_fail(__FILE__, __LINE__, "there is no such event");
}

void duo_blow(void *user, int from, nm_span raw, net_fate *fate) {
  const duo_weather *w = user;
  (void)from;
  (void)raw;
  fate->copies = nm_test_below(100) < w->loss_pct ? 0 : 1;
  if (fate->copies == 1 && nm_test_below(100) < w->double_pct) {
    fate->copies = 2;
  }
  for (int i = 0; i < fate->copies; i++) {
    fate->delay_us[i] = w->delay_us + nm_test_below((uint32_t)w->spread_us + 1);
  }
}

void duo_check_stream(duo *d, nm_span content) {
  nm_block *block = nm_block_copy(&nm_mem_system, content);
  nm_op_id op;
  NM_CHECK_OK(nm_engine_stream_write(d->n->engines[0], d->a, 5, block, true,
                                     NM_RESOURCE_COMPRESS_OFF, &op, d->n->now));
  nm_block_drop(block);
  nm_reader expected = nm_reader_of(content);
  bool ended = false;
  bool told = false;
  for (int i = 0; i < 100000 && !(ended && told); i++) {
    net_pass(d->n, 10000);
    for (int k = 0; k < d->n->event_count[1]; k++) {
      const nm_event *event = &d->n->events[1][k];
      if (event->kind == NM_EVENT_STREAM_DATA) {
        NM_CHECK(!ended);
        NM_CHECK_OK(event->status);
        NM_CHECK_INT(event->stream, 5);
        nm_span got = nm_block_span(event->data);
        NM_CHECK_SPAN(got, nm_reader_take(&expected, got.len));
        ended = event->eof;
      }
      NM_CHECK(event->kind != NM_EVENT_LINK_CLOSED);
    }
    nm_event *sent = net_find(d->n, 0, NM_EVENT_STREAM_SENT);
    if (sent != NULL) {
      NM_CHECK_INT(sent->op, op);
      NM_CHECK_OK(sent->status);
      NM_CHECK_INT(sent->done_bytes, content.len);
      told = true;
    }
    net_forget(d->n);
  }
  NM_CHECK(ended && told);
  NM_CHECK_INT(nm_reader_rest(&expected).len, 0);
}
