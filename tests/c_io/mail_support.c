#include "mail_support.h"

#include "io_support.h"
#include "support.h"

#include "wire/lxmf_message.h"

#include <stdio.h>
#include <string.h>

const char *mail_beside(const char *path, const char *suffix) {
  char *beside = nm_test_scratch(512);
  (void)snprintf(beside, 512, "%s%s", path, suffix);
  return beside;
}

const char *mail_path(void) {
  return mail_beside(io_folder(), "/" NM_MAIL_FILE);
}

nm_destination_hash mail_hash(uint8_t number) {
  nm_destination_hash hash;
  memset(hash.b, number, sizeof(hash.b));
  return hash;
}

nm_span mail_pack(const mail_text *text, uint8_t id[NM_HASH_SIZE]) {
  static const uint8_t signature[NM_SIGNATURE_SIZE] = {1, 2, 3};
  nm_lxmf_draft draft = {
      .destination = text->outgoing ? text->peer : text->mailbox,
      .source = text->outgoing ? text->mailbox : text->peer,
      .timestamp = text->timestamp,
      .title = nm_span_of(text->title, strlen(text->title)),
      .content = text->content.ptr != NULL
                     ? text->content
                     : nm_span_of(text->words, strlen(text->words)),
      .fields = text->fields};
  size_t size = nm_lxmf_packed_size(&draft);
  uint8_t *packed = nm_test_scratch(size);
  nm_writer w = nm_writer_of(packed, size);
  NM_CHECK_OK(nm_lxmf_encode(&draft, signature, &w));
  nm_lxmf_draft_id(&draft, id);
  return nm_writer_done(&w);
}

static nm_mail_write message(uint8_t mailbox, uint8_t peer, uint32_t n,
                             const char *words, bool outgoing) {
  char title[32];
  (void)snprintf(title, sizeof(title), "number %u", n);
  mail_text text = {.mailbox = mail_hash(mailbox),
                    .peer = mail_hash(peer),
                    .outgoing = outgoing,
                    .timestamp = 1700000000.0 + n,
                    .title = title,
                    .words = words};
  nm_mail_write w = {.kind = outgoing ? NM_MAIL_WRITE_LETTER
                                      : NM_MAIL_WRITE_RECEIVED,
                     .mailbox = text.mailbox,
                     .peer = text.peer,
                     .at_us = 1700000000000000 + (int64_t)n * 1000000};
  w.packed = mail_pack(&text, w.id);
  return w;
}

nm_mail_write mail_received(uint8_t mailbox, uint8_t peer, uint32_t n,
                            const char *words) {
  nm_mail_write w = message(mailbox, peer, n, words, false);
  w.u.received = (nm_mail_received){.method = NM_LXMF_DIRECT,
                                    .representation = NM_LXMF_PACKET,
                                    .unverified = NM_LXMF_VERIFIED,
                                    .stamp_checked = true,
                                    .stamp_valid = true,
                                    .stamp_value = 12,
                                    .rssi_dbm = -80,
                                    .snr_cdb = INT16_MIN,
                                    .quality_pct = 55};
  return w;
}

nm_mail_write mail_letter(uint8_t mailbox, uint8_t peer, uint32_t n,
                          const char *words) {
  nm_mail_write w = message(mailbox, peer, n, words, true);
  w.u.letter =
      (nm_mail_plan){.policy = {.count = 2,
                                .retry_wait_us = 7,
                                .steps = {{.method = NM_LXMF_OPPORTUNISTIC,
                                           .budget_us = 60000000,
                                           .attempts = 3},
                                          {.method = NM_LXMF_DIRECT}}},
                     .stamp_cost = 8,
                     .stamp_auto = true,
                     .deadline_us = 1800000000000000};
  return w;
}

nm_mail_write mail_state(const nm_mail_write *letter, nm_lxmf_state state,
                         bool final) {
  nm_mail_write w = {.kind = NM_MAIL_WRITE_STATE, .mailbox = letter->mailbox};
  memcpy(w.id, letter->id, sizeof(w.id));
  w.u.state = (nm_mail_progress){.state = state,
                                 .method = NM_LXMF_DIRECT,
                                 .representation = NM_LXMF_RESOURCE,
                                 .attempts = 2,
                                 .rtt_us = 1234,
                                 .final = final};
  return w;
}

nm_mail_write mail_of_row(nm_mail_write_kind kind, int64_t row) {
  return (nm_mail_write){.kind = kind, .row = row};
}

nm_mail_store *mail_open(const char *path) {
  nm_mail_store *store = NULL;
  nm_mail_trouble trouble = {0};
  int status = nm_mail_store_open(&nm_mem_system, path, NULL, &store, &trouble);
  if (status != NM_OK) {
    nm_test_fail(__FILE__, __LINE__, "%s", trouble.text);
  }
  return store;
}

int mail_apply(nm_mail_store *store, nm_mail_write *write) {
  int status = nm_mail_store_apply(store, write, 1);
  if (status != NM_OK) {
    nm_test_fail(__FILE__, __LINE__, "%s", nm_mail_store_trouble(store)->text);
  }
  return write->status;
}

size_t mail_count(nm_mail_store *store, const nm_mail_query *query) {
  size_t count = 0;
  nm_mail_row *rows = nm_test_scratch(4096 * sizeof(*rows));
  NM_CHECK_OK(nm_mail_store_list(store, query, rows, 4096, &count));
  for (size_t i = 0; i < count; i++) {
    nm_mail_row_dispose(&rows[i]);
  }
  return count;
}

size_t mail_hits(nm_mail_store *store, uint8_t mailbox, const char *words) {
  nm_destination_hash hash = mail_hash(mailbox);
  nm_mail_search search = {.mailbox = mailbox != 0 ? &hash : NULL,
                           .text = nm_span_of(words, strlen(words))};
  nm_mail_hit hits[64];
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_search(store, &search, hits, 64, &count));
  for (size_t i = 0; i < count; i++) {
    nm_mail_hit_dispose(&hits[i]);
  }
  return count;
}

void mail_check(nm_mail_store *store) {
  nm_buffer report;
  nm_buffer_init(&report, &nm_mem_system, NULL, 0, 0);
  int status = nm_mail_store_check(store, &report);
  if (status != NM_OK) {
    nm_test_fail(__FILE__, __LINE__, "%s: %.*s",
                 nm_mail_store_trouble(store)->text, (int)report.len,
                 (const char *)report.ptr);
  }
  nm_buffer_dispose(&report);
}

nm_mail_figures mail_figures(nm_mail_store *store) {
  nm_mail_figures figures;
  NM_CHECK_OK(nm_mail_store_figures(store, &figures));
  return figures;
}
