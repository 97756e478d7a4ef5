#include "mail_net.h"

#include "support.h"
#include "wire/lxmf_message.h"

#include <string.h>

int mail_init(mail_net *m, const nm_mem *mem, int count,
              const nm_router_config *config) {
  nm_router_config with = {0};
  memset(m, 0, sizeof(*m));
  int status = net_init(&m->n, &nm_mem_system, count);
  for (int i = 0; status == NM_OK && i < count; i++) {
    m->routers[i] =
        nm_router_new(mem, &m->n.sources[i], m->n.engines[i],
                      config != NULL ? config : &with, m->n.now, &status);
    if (status == NM_OK) {
      nm_identity identity = net_identity((uint8_t)(i + 1));
      nm_mailbox_spec spec;
      nm_mailbox_spec_default(&spec);
      spec.identity = &identity;
      status = nm_router_open(m->routers[i], &spec, &m->boxes[i], m->n.now);
    }
  }
  return status;
}

void mail_chain(mail_net *m, int count, const nm_router_config *config) {
  NM_CHECK_OK(mail_init(m, &nm_mem_system, count, config));
  for (int i = 0; i + 1 < count; i++) {
    NM_CHECK_INT(net_join(&m->n, i, i + 1, "tcp"), i);
  }
}

void mail_dispose(mail_net *m) {
  mail_forget(m);
  for (int i = 0; i < m->n.engine_count; i++) {
    nm_router_free(m->routers[i]);
  }
  net_dispose(&m->n);
}

static bool pump_work(mail_net *m, int i) {
  bool moved = false;
  nm_mail_job *work;
  while (!m->stops_work && (work = nm_router_job(m->routers[i])) != NULL) {
    nm_mail_job_run(work, &m->n.cipher);
    nm_router_job_done(m->routers[i], work, m->n.now);
    moved = true;
  }
  return moved;
}

static bool pump_events(mail_net *m, int i) {
  int count = m->n.event_count[i];
  m->n.event_count[i] = 0;
  for (int k = 0; k < count; k++) {
    nm_event event = m->n.events[i][k];
    if (!nm_router_input(m->routers[i], &event, m->n.now)) {
      if (m->others != NULL) {
        m->others(m->user, i, &event);
      }
      nm_event_dispose(&event);
    }
  }
  return count > 0;
}

static bool pump_mail(mail_net *m, int i) {
  bool moved = false;
  nm_mail mail;
  while (nm_router_event(m->routers[i], &mail)) {
    NM_CHECK(m->count[i] < MAIL_KEPT);
    m->kept[i][m->count[i]++] = mail;
    if (mail.token != 0 && !m->leaves_tokens) {
      NM_CHECK_OK(nm_router_taken(m->routers[i], mail.token, true, m->n.now));
    }
    moved = true;
  }
  return moved;
}

void mail_settle(mail_net *m) {
  bool moved = true;
  while (moved) {
    net_settle(&m->n);
    moved = false;
    for (int i = 0; i < m->n.engine_count; i++) {
      moved = pump_events(m, i) || moved;
      moved = pump_work(m, i) || moved;
      moved = pump_mail(m, i) || moved;
    }
  }
}

static uint64_t next_due(const mail_net *m, uint64_t until) {
  uint64_t next = until;
  if (m->n.flights != NULL && m->n.flights->due_us < next) {
    next = m->n.flights->due_us;
  }
  for (int i = 0; i < m->n.engine_count; i++) {
    uint64_t engine = nm_engine_deadline(m->n.engines[i]);
    uint64_t router = nm_router_deadline(m->routers[i]);
    next = engine < next ? engine : next;
    next = router < next ? router : next;
  }
  return next > m->n.now.mono_us ? next : m->n.now.mono_us;
}

void mail_pass(mail_net *m, uint64_t us) {
  uint64_t until = m->n.now.mono_us + us;
  mail_settle(m);
  for (;;) {
    uint64_t next = next_due(m, until);
    net_pass(&m->n, next - m->n.now.mono_us);
    for (int i = 0; i < m->n.engine_count; i++) {
      nm_router_tick(m->routers[i], m->n.now);
    }
    mail_settle(m);
    if (m->n.now.mono_us >= until && next_due(m, UINT64_MAX) > until) {
      return;
    }
  }
}

void mail_announce(mail_net *m, int engine) {
  nm_op_id op;
  NM_CHECK_OK(nm_engine_announce(m->n.engines[engine], &m->boxes[engine], NULL,
                                 0, false, &op, m->n.now));
  mail_settle(m);
}

nm_block *mail_message(mail_net *m, int from, int to, size_t content_len) {
  return mail_message_with(m, from, to, content_len, nm_span_of(NULL, 0));
}

nm_block *mail_message_with(mail_net *m, int from, int to, size_t content_len,
                            nm_span fields) {
  static uint32_t number = 0;
  nm_identity identity = net_identity((uint8_t)(from + 1));
  uint8_t *content = nm_test_scratch(content_len + 8);
  memset(content, 'x', content_len);
  number++;
  nm_lxmf_draft draft = {.destination = m->boxes[to],
                         .source = m->boxes[from],
                         .timestamp = 1700000000.0 + number,
                         .content = nm_span_of(content, content_len),
                         .fields = fields};
  size_t size = nm_lxmf_packed_size(&draft);
  nm_block *block = nm_block_new(m->n.mem, size);
  NM_CHECK(block != NULL);
  nm_writer w = nm_writer_of(nm_block_bytes(block), size);
  uint8_t id[NM_HASH_SIZE];
  NM_CHECK_OK(nm_lxmf_pack(&draft, &identity.sign, NULL, &w, id));
  return block;
}

nm_policy mail_by(nm_lxmf_method method) {
  nm_policy policy = {.count = 1, .steps = {{.method = method}}};
  return policy;
}

int mail_send(mail_net *m, int from, int to, size_t content_len,
              const nm_policy *policy, uint8_t id[NM_HASH_SIZE]) {
  nm_block *packed = mail_message(m, from, to, content_len);
  nm_letter_spec spec = {.mailbox = m->boxes[from],
                         .packed = nm_block_span(packed),
                         .policy = *policy,
                         .stamp_auto = true};
  int status = nm_router_send(m->routers[from], &spec, id, m->n.now);
  nm_block_drop(packed);
  return status;
}

int mail_count(const mail_net *m, int engine, nm_mail_kind kind) {
  int count = 0;
  for (int i = 0; i < m->count[engine]; i++) {
    count += m->kept[engine][i].kind == kind;
  }
  return count;
}

int mail_state(const mail_net *m, int engine, const uint8_t id[NM_HASH_SIZE]) {
  int state = -1;
  for (int i = 0; i < m->count[engine]; i++) {
    const nm_mail *mail = &m->kept[engine][i];
    if (mail->kind == NM_MAIL_STATE &&
        memcmp(mail->id, id, NM_HASH_SIZE) == 0) {
      state = (int)mail->state;
    }
  }
  return state;
}

const nm_mail *mail_last(const mail_net *m, int engine, nm_mail_kind kind) {
  for (int i = m->count[engine] - 1; i >= 0; i--) {
    if (m->kept[engine][i].kind == kind) {
      return &m->kept[engine][i];
    }
  }
  return NULL;
}

void mail_forget(mail_net *m) {
  for (int i = 0; i < m->n.engine_count; i++) {
    for (int k = 0; k < m->count[i]; k++) {
      nm_mail_dispose(&m->kept[i][k]);
    }
    m->count[i] = 0;
  }
}
