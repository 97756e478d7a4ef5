/* Mailboxes that keep: the line of notes, its transactions, and what follows
 * each of them.
 */
#include "io/mail_keep.h"

#include "wire/lxmf_message.h"

#include <stdio.h>
#include <string.h>

static void borrow(nm_mail_note *note) {
  note->write.packed = nm_block_span(note->packed);
  note->write.sealed = nm_block_span(note->sealed);
}

/* ---- the storage thread ---- */

static void write_batch(nm_errand *errand) {
  nm_mail_keep *keep = (nm_mail_keep *)(void *)errand;
  keep->status = NM_OK;
  if (keep->store == NULL) {
    keep->status = nm_mail_store_open(keep->node->mem, keep->node->mail_path,
                                      NULL, &keep->store, &keep->trouble);
  }
  if (keep->status == NM_OK) {
    keep->status = nm_mail_store_apply(keep->store, keep->writes, keep->count);
    if (keep->status != NM_OK) {
      keep->trouble = *nm_mail_store_trouble(keep->store);
    }
  }
}

static void close_store(nm_errand *errand) {
  nm_mail_keep *keep = (nm_mail_keep *)(void *)errand;
  nm_mail_store_close(keep->store);
  keep->store = NULL;
}

/* A transaction syncs by itself. */
static int sync_nothing(void *group) {
  (void)group;
  return 0;
}

static void run_errand(nm_mail_keep *keep, void (*run)(nm_errand *errand)) {
  keep->errand.run = run;
  if (nm_clerk_submit(&keep->node->loop->clerk, &keep->errand)) {
    keep->node->work_out++;
    return;
  }
  run(&keep->errand); /* nobody else will */
  keep->node->work_out++;
  keep->errand.done.run(keep->node->loop, &keep->errand.done);
}

static void write_next(nm_mail_keep *keep) {
  keep->count = 0;
  while (keep->first != NULL && keep->count < NM_MAIL_BATCH) {
    nm_mail_note *note = keep->first;
    keep->first = note->next;
    note->next = NULL;
    keep->writes[keep->count] = note->write;
    keep->batch[keep->count] = note;
    keep->count++;
  }
  if (keep->first == NULL) {
    keep->last = NULL;
  }
  if (keep->count > 0) {
    keep->writing = true;
    run_errand(keep, write_batch);
  }
}

void nm_mail_keep_put(nm_node *node, nm_mail_note *note) {
  nm_mail_keep *keep = node->mail->keep;
  borrow(note);
  note->next = NULL;
  if (keep->last != NULL) {
    keep->last->next = note;
  } else {
    keep->first = note;
  }
  keep->last = note;
  nm_node_wake(node);
}

/* ---- what follows ---- */

static void tell_trouble(nm_node *node, const nm_mail_keep *keep) {
  nm_trouble trouble = {.kind = NM_TROUBLE_STORE_WRITE,
                        .at = node->loop->now,
                        .os_error = -keep->trouble.os_error};
  (void)snprintf(trouble.file, sizeof(trouble.file), "%s", NM_MAIL_FILE);
  node->stats.save_errors++;
  node->stats.store_os_error = trouble.os_error;
  nm_node_tell(node, &trouble);
}

nm_mail_kept_box *nm_mail_box_of(const nm_node *node,
                                 const nm_destination_hash *mailbox) {
  nm_mail_kept_box *box = nm_mail_keeps(node) ? node->mail->keep->boxes : NULL;
  while (box != NULL && memcmp(&box->hash, mailbox, sizeof(box->hash)) != 0) {
    box = box->next;
  }
  return box;
}

bool nm_mail_is_kept(const nm_node *node, const nm_destination_hash *mailbox) {
  return nm_mail_box_of(node, mailbox) != NULL;
}

/* A wake-up with a message in it; who is slow reads the store. */
static void tell_received(nm_node *node, nm_mail_note *note) {
  nm_mail_kept_box *box = nm_mail_box_of(node, &note->mail.mailbox);
  if (box == NULL) {
    return; /* closed meanwhile: the next one to open it finds it */
  }
  nm_node_event *slot =
      box->missed_row != 0 ? NULL : nm_node_slot(node, node->ring.cap / 4);
  if (slot == NULL) {
    box->missed_row = note->write.row;
    return;
  }
  nm_mail_put_event(slot, 0, &note->mail);
  note->mail.packed = NULL;
  slot->u.mail.row = note->write.row;
  nm_mail_put_source(node, &slot->u.mail);
  nm_node_push(node);
}

bool nm_mail_keep_tell_missed(nm_node *node) {
  nm_mail_kept_box *box = nm_mail_keeps(node) ? node->mail->keep->boxes : NULL;
  for (; box != NULL; box = box->next) {
    if (box->missed_row == 0) {
      continue;
    }
    nm_node_event *slot = nm_node_slot(node, 0);
    if (slot == NULL) {
      return false;
    }
    nm_mail mail = {.kind = NM_MAIL_RECEIVED,
                    .at = node->loop->now,
                    .mailbox = box->hash,
                    .rssi_dbm = NM_SIGNAL_NONE,
                    .snr_cdb = NM_SIGNAL_NONE,
                    .quality_pct = NM_SIGNAL_NONE};
    nm_mail_put_event(slot, 0, &mail);
    slot->u.mail.row = box->missed_row;
    box->missed_row = 0;
    nm_node_push(node);
  }
  return true;
}

static void on_received(nm_node *node, nm_mail_note *note) {
  int status = note->write.status;
  bool ok = status == NM_OK || status == NM_E(DUPLICATE_KEY);
  node->mail->keep->bytes -= note->write.packed.len;
  (void)nm_router_taken(node->mail->router, note->mail.token, ok,
                        node->loop->now);
  if (status == NM_OK) {
    tell_received(node, note);
  }
}

/* Without memory the next start tries it again. */
static void keep_failure(nm_node *node, const nm_mail_note *letter) {
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_STATE);
  if (note != NULL) {
    note->write.mailbox = letter->write.mailbox;
    memcpy(note->write.id, letter->write.id, sizeof(note->write.id));
    note->write.u.state.state = NM_LXMF_FAILED;
    note->write.u.state.final = true;
    nm_mail_keep_put(node, note);
  }
}

/* It is on disk: it goes on its way, unless the node closes; then it does so
 * after the next start. */
static void on_letter(nm_node *node, nm_mail_note *note) {
  nm_mail_entry *entry = note->entry;
  nm_ask *ask = note->ask;
  int status = note->write.status;
  bool begins = status == NM_OK && node->phase == NM_NODE_IS_OPEN;
  if (begins) {
    status = nm_mail_begin(node, ask, entry);
    if (status != NM_OK) {
      keep_failure(node, note);
      begins = false;
    }
  }
  nm_block_drop(note->packed);
  nm_block_drop(note->sealed);
  note->packed = NULL;
  note->sealed = NULL;
  note->ask = NULL;
  entry->starting = false;
  if (!begins) {
    nm_mail_entry_free(node, entry); /* and the note with it */
  } else if (entry->cancelled) {
    (void)nm_router_cancel(node->mail->router, entry->id, node->loop->now);
  }
  nm_ask_reply(node, ask, status);
}

static void on_written(nm_node *node, nm_mail_note *note) {
  switch (note->write.kind) {
  case NM_MAIL_WRITE_RECEIVED:
    on_received(node, note);
    break;
  case NM_MAIL_WRITE_LETTER:
    on_letter(node, note);
    return; /* its entry has it, or released it */
  case NM_MAIL_WRITE_STATE:
    if (note->entry != NULL) {
      nm_mail_tell_end(node, note->entry);
      return;
    }
    break;
  default:
    if (note->ask != NULL) {
      nm_ask_reply(node, note->ask, note->write.status);
    }
    break;
  }
  nm_mail_note_free(node, note);
}

static void on_batch(nm_loop *loop, nm_post *post) {
  nm_mail_keep *keep = (nm_mail_keep *)(void *)post;
  nm_node *node = keep->node;
  (void)nm_loop_now(loop);
  node->work_out--;
  keep->writing = false;
  if (keep->closing) {
    keep->closed = true;
    nm_node_wake(node);
    return;
  }
  atomic_fetch_add_explicit(&loop->jobs_stored, 1, memory_order_relaxed);
  if (keep->status != NM_OK) {
    tell_trouble(node, keep);
  } else {
    node->stats.saves++;
    node->stats.last_save_unix_us = loop->now.unix_us;
  }
  for (size_t i = 0; i < keep->count; i++) {
    nm_mail_note *note = keep->batch[i];
    note->write.status =
        keep->status != NM_OK ? keep->status : keep->writes[i].status;
    note->write.row = keep->writes[i].row;
    on_written(node, note);
  }
  keep->count = 0;
  node->mail->moved = true;
  nm_node_wake(node);
}

/* ---- life ---- */

int nm_mail_keep_start(nm_node *node, nm_ask *ask) {
  if (ask->mail_load == NULL) {
    return NM_E(STATE);
  }
  if (node->mail->keep != NULL) {
    return NM_OK;
  }
  nm_mail_keep *keep = nm_alloc_zero(node->mem, 1, sizeof(*keep));
  if (keep == NULL) {
    return NM_E(MEMORY);
  }
  keep->node = node;
  keep->errand.done.run = on_batch;
  keep->errand.group = keep;
  keep->errand.sync = sync_nothing;
  nm_buffer_init(&keep->seen, node->mem, NULL, 0, 0);
  node->mail->keep = keep;
  nm_mail_load_apply(node, ask->mail_load);
  return NM_OK;
}

void nm_mail_keep_free(nm_node *node) {
  nm_mail_keep *keep = node->mail->keep;
  if (keep == NULL) {
    return;
  }
  while (keep->boxes != NULL) {
    nm_mail_kept_box *box = keep->boxes;
    keep->boxes = box->next;
    nm_release(node->mem, box);
  }
  nm_mail_store_close(keep->store);
  nm_buffer_dispose(&keep->seen);
  nm_release(node->mem, keep);
  node->mail->keep = NULL;
}

bool nm_mail_has_settled(nm_node *node) {
  nm_mail_keep *keep = nm_mail_keeps(node) ? node->mail->keep : NULL;
  if (keep == NULL || keep->closed) {
    return true;
  }
  if (!keep->writing && keep->first == NULL) {
    keep->closing = true;
    keep->writing = true;
    run_errand(keep, close_store);
  }
  return keep->closed;
}

void nm_mail_keep_step(nm_node *node) {
  nm_mail_keep *keep = node->mail->keep;
  if (keep == NULL) {
    return;
  }
  if (!keep->writing) {
    write_next(keep);
  }
  node->mail->moved = nm_mail_load_more(node) || node->mail->moved;
}

/* ---- mailboxes ---- */

static void resume(nm_node *node, const nm_mail_letter *letter) {
  nm_now now = node->loop->now;
  nm_mail_entry *entry = nm_mail_entry_new(node, true);
  if (entry == NULL) {
    return; /* at the next start */
  }
  nm_letter_spec spec = {.mailbox = letter->mailbox,
                         .packed = nm_block_span(letter->packed),
                         .sealed = nm_block_span(letter->sealed),
                         .policy = letter->plan.policy,
                         .stamp_cost = letter->plan.stamp_cost,
                         .stamp_auto = letter->plan.stamp_auto,
                         .carries_ticket = letter->plan.carries_ticket};
  if (letter->plan.deadline_us != 0) {
    int64_t left = letter->plan.deadline_us - now.unix_us;
    spec.timeout_us = left > 0 ? (uint64_t)left : 1;
  }
  entry->carries_ticket = spec.carries_ticket;
  entry->quiet = true;
  memcpy(entry->id, letter->id, sizeof(entry->id));
  if (nm_mail_begin_spec(node, &spec, entry) == NM_OK) {
    return;
  }
  /* It cannot go on any more: that is its end. */
  entry->news = (nm_mail){.kind = NM_MAIL_STATE,
                          .at = now,
                          .mailbox = letter->mailbox,
                          .state = NM_LXMF_FAILED,
                          .ended = true};
  memcpy(entry->news.id, letter->id, sizeof(entry->id));
  nm_lxmf_view view;
  if (nm_lxmf_decode(spec.packed, NULL, &view, NULL) == NM_OK) {
    entry->news.peer = view.destination;
  }
  entry->ended = true;
  nm_mail_keep_end(node, entry);
}

int nm_mail_keep_box(nm_node *node, nm_ask *ask) {
  nm_mail_keep *keep = node->mail->keep;
  nm_mail_kept_box *box = nm_alloc_zero(node->mem, 1, sizeof(*box));
  if (box == NULL) {
    (void)nm_router_close(node->mail->router, &ask->reply.destination,
                          node->loop->now);
    return NM_E(MEMORY);
  }
  box->hash = ask->reply.destination;
  box->next = keep->boxes;
  keep->boxes = box;
  const nm_mail_letter *letters = (const void *)ask->mail_load->letters.ptr;
  size_t count = ask->mail_load->letters.len / sizeof(*letters);
  for (size_t i = 0; i < count; i++) {
    resume(node, &letters[i]);
  }
  node->mail->moved = true;
  return NM_OK;
}

void nm_mail_keep_no_box(nm_node *node, const nm_destination_hash *hash) {
  nm_mail_keep *keep = node->mail->keep;
  nm_mail_kept_box **at = keep == NULL ? NULL : &keep->boxes;
  while (at != NULL && *at != NULL) {
    nm_mail_kept_box *box = *at;
    if (memcmp(&box->hash, hash, sizeof(*hash)) == 0) {
      *at = box->next;
      nm_release(node->mem, box);
      return;
    }
    at = &box->next;
  }
}

/* ---- letters ---- */

int nm_mail_keep_letter(nm_node *node, nm_ask *ask, nm_mail_entry *entry) {
  const nm_letter_spec *given = &ask->c.u.letter;
  nm_letter_spec spec = *given;
  spec.packed = nm_block_span(ask->c.data);
  spec.sealed = nm_block_span(ask->c.extra);
  int status =
      nm_router_check(node->mail->router, &spec, entry->id, node->loop->now);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_note *note = entry->note;
  note->write.kind = NM_MAIL_WRITE_LETTER;
  note->write.at_us = node->loop->now.unix_us;
  note->write.mailbox = given->mailbox;
  memcpy(note->write.id, entry->id, sizeof(entry->id));
  note->write.u.letter = (nm_mail_plan){
      .policy = given->policy,
      .stamp_cost = given->stamp_cost,
      .stamp_auto = given->stamp_auto,
      .carries_ticket = given->carries_ticket,
      .deadline_us = given->timeout_us == 0
                         ? 0
                         : node->loop->now.unix_us + (int64_t)given->timeout_us,
  };
  note->packed = nm_block_hold(ask->c.data);
  note->sealed = ask->c.extra == NULL ? NULL : nm_block_hold(ask->c.extra);
  note->ask = ask;
  note->entry = entry;
  entry->carries_ticket = given->carries_ticket;
  entry->starting = true;
  nm_mail_keep_put(node, note);
  return NM_LATER;
}

void nm_mail_keep_worked(nm_node *node, const nm_mail *mail) {
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_WORKED);
  if (note == NULL) {
    return; /* it is worked for again after a restart */
  }
  note->write.mailbox = mail->mailbox;
  memcpy(note->write.id, mail->id, sizeof(mail->id));
  note->packed = nm_block_hold(mail->packed);
  note->sealed = mail->sealed == NULL ? NULL : nm_block_hold(mail->sealed);
  nm_mail_keep_put(node, note);
}

static void keep_delivery(nm_node *node, const nm_mail *mail) {
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_TICKET_DELIVERED);
  if (note != NULL) { /* else the next message carries one again */
    note->write.u.ticket.peer = mail->peer;
    note->write.u.ticket.expires = (double)mail->at.unix_us / 1e6;
    nm_mail_keep_put(node, note);
  }
}

void nm_mail_keep_end(nm_node *node, nm_mail_entry *entry) {
  const nm_mail *news = &entry->news;
  nm_mail_note *note = entry->note;
  if (entry->carries_ticket && news->state == NM_LXMF_DELIVERED) {
    keep_delivery(node, news);
  }
  note->write.kind = NM_MAIL_WRITE_STATE;
  note->write.at_us = news->at.unix_us;
  note->write.mailbox = news->mailbox;
  memcpy(note->write.id, news->id, sizeof(news->id));
  note->write.u.state = (nm_mail_progress){
      .state = news->state,
      .method = news->method,
      .representation = news->representation,
      .stage = news->stage,
      .attempts = news->attempts,
      .rtt_us = news->rtt_us,
      .final = true,
  };
  note->ask = NULL;
  note->entry = entry;
  nm_mail_keep_put(node, note);
}

/* ---- what is received ---- */

static void keep_ticket(nm_node *node, const nm_mail *mail) {
  nm_mail_note *note = nm_mail_note_new(node, NM_MAIL_WRITE_TICKET);
  if (note != NULL) { /* else it is good until the node closes */
    note->write.u.ticket.peer = mail->peer;
    note->write.u.ticket.expires = mail->ticket_expires;
    memcpy(note->write.u.ticket.ticket, mail->ticket, sizeof(mail->ticket));
    nm_mail_keep_put(node, note);
  }
}

void nm_mail_keep_received(nm_node *node, nm_mail *mail) {
  nm_mail_keep *keep = node->mail->keep;
  size_t size = nm_block_span(mail->packed).len;
  nm_mail_note *note = keep->bytes + size > NM_MAIL_WAITING_MAX
                           ? NULL
                           : nm_mail_note_new(node, NM_MAIL_WRITE_RECEIVED);
  if (note == NULL) {
    nm_mail_refuse(node, mail);
    return;
  }
  if (mail->has_ticket) {
    keep_ticket(node, mail);
  }
  bool encrypted =
      mail->method == NM_LXMF_PROPAGATED || mail->method == NM_LXMF_PAPER;
  keep->bytes += size;
  note->write.at_us = mail->at.unix_us;
  note->write.mailbox = mail->mailbox;
  memcpy(note->write.id, mail->id, sizeof(mail->id));
  note->write.u.received = (nm_mail_received){
      .method = mail->method,
      .representation = mail->representation,
      .unverified = mail->unverified,
      .stamp_checked = mail->stamp_checked,
      .stamp_valid = mail->stamp_valid,
      .stamp_value = mail->stamp_value,
      .has_transient_id = encrypted,
      .rssi_dbm = mail->rssi_dbm,
      .snr_cdb = mail->snr_cdb,
      .quality_pct = mail->quality_pct,
  };
  memcpy(note->write.u.received.transient_id, mail->transient_id,
         sizeof(mail->transient_id));
  note->mail = *mail;
  note->packed = nm_block_hold(mail->packed);
  nm_mail_keep_put(node, note);
}
