/* Writing: many writes as one transaction, each with its own answer. */
#include "io/mail_db.h"

#include "wire/lxmf_message.h"

#include <string.h>

#define TICKETS_EACH NM_TICKETS_PER_PEER
#define DELIVERIES_KEPT_S (30.0 * 86400)

static nm_span id_of(const nm_mail_write *w) {
  return nm_span_of(w->id, sizeof(w->id));
}

static nm_span hash_of(const nm_destination_hash *hash) {
  return nm_span_of(hash->b, sizeof(hash->b));
}

/* ---- a message that is new ---- */

/* What goes into the tables for one message. */
typedef struct entry {
  const nm_mail_write *write;
  bool outgoing;
  bool open;
  nm_mail_place place;
  int64_t talk;
  nm_lxmf_view view;
  nm_span stored;
  int64_t inflated;
  nm_buffer frame;
} entry;

static int decode(entry *e) {
  const nm_mail_write *w = e->write;
  if (w->packed.len > NM_MAIL_PACKED_MAX) {
    return NM_E(TOO_LARGE);
  }
  int status = nm_lxmf_decode(w->packed, NULL, &e->view, NULL);
  if (status != NM_OK) {
    return status;
  }
  const nm_destination_hash *own =
      e->outgoing ? &e->view.source : &e->view.destination;
  return memcmp(own->b, w->mailbox.b, sizeof(own->b)) == 0 ? NM_OK
                                                           : NM_E(MISMATCH);
}

static const nm_destination_hash *peer_of(const entry *e) {
  return e->outgoing ? &e->view.destination : &e->view.source;
}

/* The row of a message that is there, else 0; or a status. */
static int find_row(nm_mail_store *store, int64_t box, const nm_mail_write *w,
                    bool outgoing, int64_t *row, bool *open) {
  static const char sql[] = "SELECT row, open FROM message"
                            " WHERE id = ? AND box = ? AND outgoing = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, id_of(w));
  nm_mail_bind_int(&stmt, box);
  nm_mail_bind_int(&stmt, outgoing);
  bool found = nm_mail_step(&stmt) > 0;
  *row = found ? nm_mail_column_int(&stmt, 0) : 0;
  *open = found && nm_mail_column_int(&stmt, 1) != 0;
  return nm_mail_end(&stmt);
}

static int was_seen(nm_mail_store *store, const nm_mail_write *w, bool *seen) {
  static const char sql[] = "SELECT 1 FROM seen WHERE id = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, id_of(w));
  *seen = nm_mail_step(&stmt) > 0;
  return nm_mail_end(&stmt);
}

static int find_talk(nm_mail_store *store, entry *e) {
  static const char find[] = "SELECT talk FROM talk WHERE box = ? AND peer = ?";
  static const char make[] = "INSERT INTO talk (box, peer) VALUES (?, ?)";
  nm_mail_stmt stmt = nm_mail_use(store, find);
  nm_mail_bind_int(&stmt, e->place.box);
  nm_mail_bind_bytes(&stmt, hash_of(peer_of(e)));
  bool found = nm_mail_step(&stmt) > 0;
  e->talk = found ? nm_mail_column_int(&stmt, 0) : 0;
  int status = nm_mail_end(&stmt);
  if (status != NM_OK || found) {
    return status;
  }
  stmt = nm_mail_use(store, make);
  nm_mail_bind_int(&stmt, e->place.box);
  nm_mail_bind_bytes(&stmt, hash_of(peer_of(e)));
  status = nm_mail_run(&stmt);
  e->talk = sqlite3_last_insert_rowid(store->db);
  return status;
}

static void bind_measured(nm_mail_stmt *stmt, int16_t value) {
  if (value == INT16_MIN) {
    nm_mail_bind_null(stmt);
  } else {
    nm_mail_bind_int(stmt, value);
  }
}

static void bind_received(nm_mail_stmt *stmt, const nm_mail_received *r) {
  nm_mail_bind_int(stmt, (int64_t)r->method);
  nm_mail_bind_int(stmt, (int64_t)r->representation);
  nm_mail_bind_int(stmt, (int64_t)r->unverified);
  nm_mail_bind_int(stmt, r->stamp_checked);
  nm_mail_bind_int(stmt, r->stamp_valid);
  nm_mail_bind_int(stmt, r->stamp_value);
  if (r->has_transient_id) {
    nm_mail_bind_bytes(stmt,
                       nm_span_of(r->transient_id, sizeof(r->transient_id)));
  } else {
    nm_mail_bind_null(stmt);
  }
  bind_measured(stmt, r->rssi_dbm);
  bind_measured(stmt, r->snr_cdb);
  bind_measured(stmt, r->quality_pct);
}

static void bind_progress(nm_mail_stmt *stmt, const nm_mail_progress *p) {
  nm_mail_bind_int(stmt, (int64_t)p->method);
  nm_mail_bind_int(stmt, (int64_t)p->representation);
  nm_mail_bind_int(stmt, (int64_t)p->state);
  nm_mail_bind_int(stmt, (int64_t)p->stage);
  nm_mail_bind_int(stmt, p->attempts);
  nm_mail_bind_int(stmt, (int64_t)(p->rtt_us & INT64_MAX));
}

static int put_message(nm_mail_store *store, entry *e, int64_t *row) {
  static const char came[] =
      "INSERT INTO message (box, talk, outgoing, open, id, stored_us,"
      " timestamp, size, stored, method, representation, unverified,"
      " stamp_checked, stamp_valid, stamp_value, transient_id, rssi, snr,"
      " quality) VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?,"
      " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  static const char goes[] =
      "INSERT INTO message (box, talk, outgoing, open, id, stored_us,"
      " timestamp, size, stored, method, representation, state, stage,"
      " attempts, rtt_us) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?,"
      " ?, ?, ?, ?, ?, ?)";
  const nm_mail_write *w = e->write;
  nm_mail_stmt stmt = nm_mail_use(store, e->outgoing ? goes : came);
  nm_mail_bind_int(&stmt, e->place.box);
  nm_mail_bind_int(&stmt, e->talk);
  nm_mail_bind_int(&stmt, e->open);
  nm_mail_bind_bytes(&stmt, id_of(w));
  nm_mail_bind_int(&stmt, w->at_us);
  nm_mail_bind_real(&stmt, e->view.timestamp);
  nm_mail_bind_int(&stmt, (int64_t)w->packed.len);
  nm_mail_bind_int(&stmt, (int64_t)e->stored.len);
  if (e->outgoing && e->open) {
    nm_mail_progress begun = {.state = NM_LXMF_OUTBOUND,
                              .method = w->u.letter.policy.steps[0].method};
    bind_progress(&stmt, &begun);
  } else if (e->outgoing) {
    bind_progress(&stmt, &w->u.state);
  } else {
    bind_received(&stmt, &w->u.received);
  }
  int status = nm_mail_run(&stmt);
  *row = sqlite3_last_insert_rowid(store->db);
  return status;
}

static int put_body(nm_mail_store *store, const entry *e, int64_t row) {
  static const char sql[] =
      "INSERT OR REPLACE INTO body (row, inflated, packed) VALUES (?, ?, ?)";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  nm_mail_bind_int(&stmt, e->inflated);
  nm_mail_bind_bytes(&stmt, e->stored);
  return nm_mail_run(&stmt);
}

/* "b" and the number of the mailbox: the word that narrows a search. */
static int put_words(nm_mail_store *store, entry *e, int64_t row) {
  static const char sql[] = "INSERT INTO found_text (rowid, box, title,"
                            " content) VALUES (?, 'b' || ?, ?, ?)";
  nm_buffer rooms[2];
  nm_span clean[2];
  int status = NM_OK;
  for (size_t i = 0; i < 2; i++) {
    nm_buffer_init(&rooms[i], store->mem, NULL, 0, 0);
    int failed = nm_mail_text(i == 0 ? e->view.title : e->view.content,
                              &rooms[i], &clean[i]);
    if (failed != NM_OK) {
      status = nm_mail_fail(store, failed, "out of memory");
    }
  }
  if (status == NM_OK) {
    nm_mail_stmt stmt = nm_mail_use(store, sql);
    nm_mail_bind_int(&stmt, row);
    nm_mail_bind_int(&stmt, e->place.box);
    nm_mail_bind_text(&stmt, clean[0]);
    nm_mail_bind_text(&stmt, clean[1]);
    status = nm_mail_run(&stmt);
  }
  nm_buffer_dispose(&rooms[0]);
  nm_buffer_dispose(&rooms[1]);
  return status;
}

static int count_up(nm_mail_store *store, const entry *e, int64_t row) {
  static const char box[] =
      "UPDATE mailbox SET rows = rows + 1, bytes = bytes + ?,"
      " unread = unread + ?, unfinished = unfinished + ? WHERE box = ?";
  static const char talk[] =
      "UPDATE talk SET count = count + 1, unread = unread + ?,"
      " last_row = ?, last_us = ? WHERE talk = ?";
  nm_mail_stmt stmt = nm_mail_use(store, box);
  nm_mail_bind_int(&stmt, (int64_t)e->stored.len);
  nm_mail_bind_int(&stmt, e->open && !e->outgoing);
  nm_mail_bind_int(&stmt, e->open && e->outgoing);
  nm_mail_bind_int(&stmt, e->place.box);
  int status = nm_mail_run(&stmt);
  if (status != NM_OK) {
    return status;
  }
  stmt = nm_mail_use(store, talk);
  nm_mail_bind_int(&stmt, e->open && !e->outgoing);
  nm_mail_bind_int(&stmt, row);
  nm_mail_bind_int(&stmt, e->write->at_us);
  nm_mail_bind_int(&stmt, e->talk);
  return nm_mail_run(&stmt);
}

static int put_new(nm_mail_store *store, entry *e, int64_t *row) {
  int status = nm_mail_make_room(store, &e->place, 1, e->stored.len, 0);
  status = status == NM_OK ? find_talk(store, e) : status;
  status = status == NM_OK ? put_message(store, e, row) : status;
  status = status == NM_OK ? put_body(store, e, *row) : status;
  status = status == NM_OK ? put_words(store, e, *row) : status;
  if (status == NM_OK) {
    status = nm_mail_note_attachments(store, *row, e->write->packed,
                                      e->view.fields, false);
  }
  return status == NM_OK ? count_up(store, e, *row) : status;
}

static int begin_entry(nm_mail_store *store, const nm_mail_write *w,
                       bool outgoing, entry *e) {
  *e = (entry){.write = w,
               .outgoing = outgoing,
               .open = outgoing ? w->kind != NM_MAIL_WRITE_SENT : !w->on};
  nm_buffer_init(&e->frame, store->mem, NULL, 0, 0);
  int status = decode(e);
  if (status == NM_OK) {
    status = w->kind == NM_MAIL_WRITE_WORKED
                 ? nm_mail_place_find(store, &w->mailbox, &e->place)
                 : nm_mail_place_of(store, &w->mailbox, &e->place);
  }
  return status == NM_OK ? nm_mail_body_pack(store, w->packed, &e->frame,
                                             &e->stored, &e->inflated)
                         : status;
}

static int write_received(nm_mail_store *store, nm_mail_write *w) {
  entry e;
  bool known = false;
  int64_t row = 0;
  int status = begin_entry(store, w, false, &e);
  if (status == NM_OK) {
    status = find_row(store, e.place.box, w, false, &row, &known);
    known = row != 0;
  }
  if (status == NM_OK && !known) {
    status = was_seen(store, w, &known);
  }
  if (status == NM_OK) {
    status = known ? NM_E(DUPLICATE_KEY) : put_new(store, &e, &row);
  }
  if (status == NM_OK && w->u.received.has_transient_id) {
    status = nm_mail_remember(store, w->u.received.transient_id, w->at_us);
  }
  w->row = status == NM_OK || known ? row : 0;
  nm_buffer_dispose(&e.frame);
  return status;
}

/* ---- letters ---- */

static int put_plan(nm_mail_store *store, const nm_mail_write *w, int64_t row) {
  static const char sql[] =
      "INSERT OR REPLACE INTO letter (row, policy, bare, stamp_cost,"
      " stamp_auto, carries_ticket, deadline_us, sealed)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
  const nm_mail_plan *plan = &w->u.letter;
  uint8_t policy[NM_MAIL_POLICY_MAX];
  nm_writer out = nm_writer_of(policy, sizeof(policy));
  nm_writer_u64(&out, plan->policy.retry_wait_us);
  for (uint32_t i = 0; i < plan->policy.count; i++) {
    nm_writer_u8(&out, (uint8_t)plan->policy.steps[i].method);
    nm_writer_u32(&out, plan->policy.steps[i].attempts);
    nm_writer_u64(&out, plan->policy.steps[i].budget_us);
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  nm_mail_bind_bytes(&stmt, nm_writer_done(&out));
  nm_mail_bind_int(&stmt, plan->bare);
  nm_mail_bind_int(&stmt, plan->stamp_cost);
  nm_mail_bind_int(&stmt, plan->stamp_auto);
  nm_mail_bind_int(&stmt, plan->carries_ticket);
  nm_mail_bind_int(&stmt, plan->deadline_us);
  if (w->sealed.ptr != NULL) {
    nm_mail_bind_bytes(&stmt, w->sealed);
  } else {
    nm_mail_bind_null(&stmt);
  }
  return nm_mail_run(&stmt);
}

static int count_bytes(nm_mail_store *store, int64_t box, int64_t more,
                       int64_t unfinished) {
  static const char sql[] = "UPDATE mailbox SET bytes = bytes + ?,"
                            " unfinished = unfinished + ? WHERE box = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, more);
  nm_mail_bind_int(&stmt, unfinished);
  nm_mail_bind_int(&stmt, box);
  return nm_mail_run(&stmt);
}

static int stored_size(nm_mail_store *store, int64_t row, int64_t *size) {
  static const char sql[] = "SELECT stored FROM message WHERE row = ?";
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, row);
  *size = nm_mail_step(&stmt) > 0 ? nm_mail_column_int(&stmt, 0) : 0;
  return nm_mail_end(&stmt);
}

/* Puts another form of the same message (same id, hence same text) under
 * |row|; |begun|: it is unfinished from now on. */
static int put_again(nm_mail_store *store, entry *e, int64_t row, bool begun) {
  static const char fresh[] =
      "UPDATE message SET size = ?, stored = ?, open = 1, state = ?,"
      " stage = 0, attempts = 0, rtt_us = 0 WHERE row = ?";
  static const char worked[] =
      "UPDATE message SET size = ?, stored = ? WHERE row = ?";
  int64_t before = 0;
  int64_t after = (int64_t)e->stored.len;
  int status = stored_size(store, row, &before);
  if (status == NM_OK && begun && after > before) {
    status =
        nm_mail_make_room(store, &e->place, 0, (uint64_t)(after - before), row);
  }
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, begun ? fresh : worked);
  nm_mail_bind_int(&stmt, (int64_t)e->write->packed.len);
  nm_mail_bind_int(&stmt, after);
  if (begun) {
    nm_mail_bind_int(&stmt, NM_LXMF_OUTBOUND);
  }
  nm_mail_bind_int(&stmt, row);
  status = nm_mail_run(&stmt);
  status = status == NM_OK ? put_body(store, e, row) : status;
  if (status == NM_OK) {
    status = nm_mail_note_attachments(store, row, e->write->packed,
                                      e->view.fields, true);
  }
  return status == NM_OK
             ? count_bytes(store, e->place.box, after - before, begun)
             : status;
}

static int write_letter(nm_mail_store *store, nm_mail_write *w) {
  entry e;
  bool open = false;
  int64_t row = 0;
  const nm_policy *policy = &w->u.letter.policy;
  if (policy->count == 0 || policy->count > NM_POLICY_STEPS) {
    return NM_E(ARGUMENT);
  }
  int status = begin_entry(store, w, true, &e);
  if (status == NM_OK) {
    status = find_row(store, e.place.box, w, true, &row, &open);
  }
  if (status == NM_OK && open) {
    status = NM_E(DUPLICATE_KEY);
  } else if (status == NM_OK) {
    status =
        row != 0 ? put_again(store, &e, row, true) : put_new(store, &e, &row);
  }
  status = status == NM_OK ? put_plan(store, w, row) : status;
  w->row = row;
  nm_buffer_dispose(&e.frame);
  return status;
}

static int write_sent(nm_mail_store *store, nm_mail_write *w) {
  entry e;
  bool open = false;
  int64_t row = 0;
  int status = begin_entry(store, w, true, &e);
  if (status == NM_OK) {
    status = find_row(store, e.place.box, w, true, &row, &open);
  }
  if (status == NM_OK) {
    status = row != 0 ? NM_E(DUPLICATE_KEY) : put_new(store, &e, &row);
  }
  w->row = row;
  nm_buffer_dispose(&e.frame);
  return status;
}

static int keep_sealed(nm_mail_store *store, const nm_mail_write *w,
                       int64_t row) {
  static const char sql[] = "UPDATE letter SET sealed = ? WHERE row = ?";
  if (w->sealed.ptr == NULL) {
    return NM_OK;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, w->sealed);
  nm_mail_bind_int(&stmt, row);
  return nm_mail_run(&stmt);
}

static int write_worked(nm_mail_store *store, nm_mail_write *w) {
  entry e;
  bool open = false;
  int64_t row = 0;
  int status = begin_entry(store, w, true, &e);
  if (status == NM_OK) {
    status = find_row(store, e.place.box, w, true, &row, &open);
  }
  if (status == NM_OK && !open) {
    status = NM_E(MISSING);
  }
  status = status == NM_OK ? put_again(store, &e, row, false) : status;
  status = status == NM_OK ? keep_sealed(store, w, row) : status;
  w->row = status == NM_OK ? row : 0;
  nm_buffer_dispose(&e.frame);
  return status;
}

static int write_state(nm_mail_store *store, nm_mail_write *w) {
  static const char update[] =
      "UPDATE message SET method = ?, representation = ?, state = ?,"
      " stage = ?, attempts = ?, rtt_us = ?, open = ? WHERE row = ?";
  static const char drop[] = "DELETE FROM letter WHERE row = ?";
  const nm_mail_progress *p = &w->u.state;
  nm_mail_place place;
  bool open = false;
  int64_t row = 0;
  int status = nm_mail_place_find(store, &w->mailbox, &place);
  if (status == NM_OK) {
    status = find_row(store, place.box, w, true, &row, &open);
  }
  if (status != NM_OK || row == 0) {
    return status != NM_OK ? status : NM_E(MISSING);
  }
  bool ends = open && p->final;
  nm_mail_stmt stmt = nm_mail_use(store, update);
  bind_progress(&stmt, p);
  nm_mail_bind_int(&stmt, open && !p->final);
  nm_mail_bind_int(&stmt, row);
  status = nm_mail_run(&stmt);
  w->row = row;
  if (status != NM_OK || !ends) {
    return status;
  }
  stmt = nm_mail_use(store, drop);
  nm_mail_bind_int(&stmt, row);
  status = nm_mail_run(&stmt);
  return status == NM_OK ? count_bytes(store, place.box, 0, -1) : status;
}

/* ---- acknowledging ---- */

static int count_unread(nm_mail_store *store, int64_t row, int64_t more) {
  static const char box[] = "UPDATE mailbox SET unread = unread + ? WHERE box ="
                            " (SELECT box FROM message WHERE row = ?)";
  static const char talk[] = "UPDATE talk SET unread = unread + ? WHERE talk ="
                             " (SELECT talk FROM message WHERE row = ?)";
  nm_mail_stmt stmt = nm_mail_use(store, box);
  nm_mail_bind_int(&stmt, more);
  nm_mail_bind_int(&stmt, row);
  int status = nm_mail_run(&stmt);
  if (status != NM_OK) {
    return status;
  }
  stmt = nm_mail_use(store, talk);
  nm_mail_bind_int(&stmt, more);
  nm_mail_bind_int(&stmt, row);
  return nm_mail_run(&stmt);
}

static int write_open(nm_mail_store *store, const nm_mail_write *w, bool open) {
  static const char find[] =
      "SELECT open FROM message WHERE row = ? AND outgoing = 0";
  static const char mark[] = "UPDATE message SET open = ? WHERE row = ?";
  nm_mail_stmt stmt = nm_mail_use(store, find);
  nm_mail_bind_int(&stmt, w->row);
  int found = nm_mail_step(&stmt);
  bool now = found > 0 && nm_mail_column_int(&stmt, 0) != 0;
  int status = nm_mail_end(&stmt);
  if (status != NM_OK || found == 0) {
    return status != NM_OK ? status : NM_E(MISSING);
  }
  if (now == open) {
    return NM_OK;
  }
  stmt = nm_mail_use(store, mark);
  nm_mail_bind_int(&stmt, open);
  nm_mail_bind_int(&stmt, w->row);
  status = nm_mail_run(&stmt);
  return status == NM_OK ? count_unread(store, w->row, open ? 1 : -1) : status;
}

/* ---- the rest ---- */

static int forget_tickets(nm_mail_store *store, const nm_ticket_record *ticket,
                          double now_s) {
  static const char expired[] = "DELETE FROM ticket WHERE expires < ?";
  static const char oldest[] =
      "DELETE FROM ticket WHERE peer = ?1 AND issued = ?2 AND number NOT IN"
      " (SELECT number FROM ticket WHERE peer = ?1 AND issued = ?2"
      "  ORDER BY expires DESC, number DESC LIMIT ?3)";
  nm_mail_stmt stmt = nm_mail_use(store, expired);
  nm_mail_bind_real(&stmt, now_s - NM_LXMF_TICKET_GRACE_S);
  int status = nm_mail_run(&stmt);
  if (status != NM_OK) {
    return status;
  }
  stmt = nm_mail_use(store, oldest);
  nm_mail_bind_bytes(&stmt, hash_of(&ticket->peer));
  nm_mail_bind_int(&stmt, ticket->issued);
  nm_mail_bind_int(&stmt, ticket->issued ? TICKETS_EACH : 1);
  return nm_mail_run(&stmt);
}

static int write_ticket(nm_mail_store *store, const nm_mail_write *w) {
  static const char sql[] =
      "INSERT INTO ticket (peer, issued, ticket, expires) VALUES (?, ?, ?, ?)"
      " ON CONFLICT (peer, issued, ticket) DO UPDATE SET"
      " expires = max(expires, excluded.expires)";
  const nm_ticket_record *ticket = &w->u.ticket;
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, hash_of(&ticket->peer));
  nm_mail_bind_int(&stmt, ticket->issued);
  nm_mail_bind_bytes(&stmt, nm_span_of(ticket->ticket, sizeof(ticket->ticket)));
  nm_mail_bind_real(&stmt, ticket->expires);
  int status = nm_mail_run(&stmt);
  return status == NM_OK ? forget_tickets(store, ticket, (double)w->at_us / 1e6)
                         : status;
}

static int write_delivery(nm_mail_store *store, const nm_mail_write *w) {
  static const char sql[] =
      "INSERT INTO ticket_delivery (peer, at) VALUES (?, ?)"
      " ON CONFLICT (peer) DO UPDATE SET at = excluded.at";
  static const char old[] = "DELETE FROM ticket_delivery WHERE at < ?";
  const nm_ticket_record *ticket = &w->u.ticket;
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_bytes(&stmt, hash_of(&ticket->peer));
  nm_mail_bind_real(&stmt, ticket->expires);
  int status = nm_mail_run(&stmt);
  if (status != NM_OK) {
    return status;
  }
  stmt = nm_mail_use(store, old);
  nm_mail_bind_real(&stmt, (double)w->at_us / 1e6 - DELIVERIES_KEPT_S);
  return nm_mail_run(&stmt);
}

static int write_ignore(nm_mail_store *store, const nm_mail_write *w) {
  static const char on[] =
      "INSERT INTO ignored (source) VALUES (?) ON CONFLICT DO NOTHING";
  static const char off[] = "DELETE FROM ignored WHERE source = ?";
  nm_mail_stmt stmt = nm_mail_use(store, w->on ? on : off);
  nm_mail_bind_bytes(&stmt, hash_of(&w->peer));
  return nm_mail_run(&stmt);
}

static int write_quota(nm_mail_store *store, const nm_mail_write *w) {
  static const char sql[] =
      "UPDATE mailbox SET quota_rows = ?, quota_bytes = ? WHERE box = ?";
  const nm_mail_quota *quota = &w->u.quota;
  nm_mail_place place;
  if (quota->rows > INT64_MAX || quota->bytes > INT64_MAX) {
    return NM_E(RANGE);
  }
  int status = nm_mail_place_of(store, &w->mailbox, &place);
  if (status != NM_OK) {
    return status;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, (int64_t)quota->rows);
  nm_mail_bind_int(&stmt, (int64_t)quota->bytes);
  nm_mail_bind_int(&stmt, place.box);
  return nm_mail_run(&stmt);
}

/* ---- the transaction ---- */

static int write_one(nm_mail_store *store, nm_mail_write *w) {
  switch (w->kind) {
  case NM_MAIL_WRITE_RECEIVED:
    return write_received(store, w);
  case NM_MAIL_WRITE_LETTER:
    return write_letter(store, w);
  case NM_MAIL_WRITE_WORKED:
    return write_worked(store, w);
  case NM_MAIL_WRITE_STATE:
    return write_state(store, w);
  case NM_MAIL_WRITE_ACK:
    return write_open(store, w, false);
  case NM_MAIL_WRITE_UNACK:
    return write_open(store, w, true);
  case NM_MAIL_WRITE_DELETE:
    return nm_mail_remove(store, w->row);
  case NM_MAIL_WRITE_TICKET:
    return write_ticket(store, w);
  case NM_MAIL_WRITE_TICKET_DELIVERED:
    return write_delivery(store, w);
  case NM_MAIL_WRITE_SEEN:
    return nm_mail_remember(store, w->id, w->at_us);
  case NM_MAIL_WRITE_IGNORE:
    return write_ignore(store, w);
  case NM_MAIL_WRITE_QUOTA:
    return write_quota(store, w);
  case NM_MAIL_WRITE_SENT:
    return write_sent(store, w);
  default:
    return NM_E(ARGUMENT);
  }
}

static int forget_seen(nm_mail_store *store) {
  static const char sql[] = "DELETE FROM seen WHERE number <="
                            " (SELECT max(number) FROM seen) - ?";
  if (!store->forgets) {
    return NM_OK;
  }
  nm_mail_stmt stmt = nm_mail_use(store, sql);
  nm_mail_bind_int(&stmt, NM_MAIL_SEEN_MAX);
  return nm_mail_run(&stmt);
}

/* A write that fails for its own reasons fails before it changes anything; one
 * that leaves trouble ends them all. */
static int write_all(nm_mail_store *store, nm_mail_write *writes,
                     size_t count) {
  store->forgets = false;
  int status = nm_mail_exec(store, "BEGIN IMMEDIATE");
  for (size_t i = 0; i < count && status == NM_OK; i++) {
    writes[i].status = write_one(store, &writes[i]);
    status = store->trouble.status;
  }
  status = status == NM_OK ? forget_seen(store) : status;
  return status == NM_OK ? nm_mail_exec(store, "COMMIT") : status;
}

int nm_mail_store_apply(nm_mail_store *store, nm_mail_write *writes,
                        size_t count) {
  int status = nm_mail_ready(store);
  if (status == NM_OK && store->read_only) {
    status = nm_mail_fail(store, NM_E(STATE), "was opened for reading");
  } else if (status == NM_OK && count > 0) {
    status = write_all(store, writes, count);
    if (status != NM_OK && sqlite3_get_autocommit(store->db) == 0) {
      nm_mail_trouble kept = store->trouble;
      (void)nm_mail_exec(store, "ROLLBACK");
      store->trouble = kept;
    }
  }
  for (size_t i = 0; i < count && status != NM_OK; i++) {
    writes[i].status = status;
  }
  return status;
}
