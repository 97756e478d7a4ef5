/* The mail store: writes and their answers, reading, restarts. */
#include "mail_support.h"
#include "support.h"

#include "wire/lxmf_message.h"

#include <stdio.h>
#include <string.h>

#define ME 1
#define PEER 2

/* ---- received ---- */

NM_TEST(mail_received_is_read_back) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  nm_mail_write w = mail_received(ME, PEER, 7, "good morning");
  NM_CHECK_OK(mail_apply(store, &w));
  NM_CHECK(w.row > 0);
  nm_mail_store_close(store);

  store = mail_open(path);
  nm_mail_row row;
  NM_CHECK_OK(nm_mail_store_get(store, w.row, true, &row));
  NM_CHECK_BYTES(row.id, w.id, sizeof(w.id));
  NM_CHECK_BYTES(row.mailbox.b, mail_hash(ME).b, NM_ADDRESS_SIZE);
  NM_CHECK_BYTES(row.peer.b, mail_hash(PEER).b, NM_ADDRESS_SIZE);
  NM_CHECK(!row.outgoing && row.open);
  NM_CHECK_INT(row.stored_us, w.at_us);
  NM_CHECK(row.timestamp == 1700000007.0);
  NM_CHECK_INT(row.size, w.packed.len);
  NM_CHECK_INT(row.received.method, NM_LXMF_DIRECT);
  NM_CHECK_INT(row.received.representation, NM_LXMF_PACKET);
  NM_CHECK_INT(row.received.unverified, NM_LXMF_VERIFIED);
  NM_CHECK(row.received.stamp_checked && row.received.stamp_valid);
  NM_CHECK_INT(row.received.stamp_value, 12);
  NM_CHECK(!row.received.has_transient_id);
  NM_CHECK_INT(row.received.rssi_dbm, -80);
  NM_CHECK_INT(row.received.snr_cdb, INT16_MIN);
  NM_CHECK_INT(row.received.quality_pct, 55);
  NM_CHECK_SPAN(nm_block_span(row.packed), w.packed);
  nm_mail_row_dispose(&row);
  NM_CHECK_OK(nm_mail_store_find(store, NULL, w.id, false, &row));
  NM_CHECK_INT(row.row, w.row);
  NM_CHECK(row.packed == NULL);
  nm_destination_hash other = mail_hash(9);
  NM_CHECK_STATUS(nm_mail_store_find(store, &other, w.id, false, &row),
                  NM_E(MISSING));
  NM_CHECK_STATUS(nm_mail_store_get(store, w.row + 1, true, &row),
                  NM_E(MISSING));
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_is_kept_once_for_each_mailbox) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write batch[4] = {
      mail_received(ME, PEER, 1, "once"), mail_received(ME, PEER, 1, "once"),
      mail_received(3, PEER, 1, "once"), mail_received(ME, PEER, 2, "once")};
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 4));
  NM_CHECK_OK(batch[0].status);
  NM_CHECK_STATUS(batch[1].status, NM_E(DUPLICATE_KEY));
  NM_CHECK_INT(batch[1].row, batch[0].row);
  NM_CHECK_OK(batch[2].status);
  NM_CHECK_OK(batch[3].status);
  nm_mail_write again = mail_received(ME, PEER, 2, "once");
  NM_CHECK_STATUS(mail_apply(store, &again), NM_E(DUPLICATE_KEY));
  NM_CHECK_INT(again.row, batch[3].row);
  NM_CHECK_INT(mail_figures(store).messages, 3);
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_refuses_what_it_cannot_read) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write batch[5];
  for (size_t i = 0; i < 5; i++) {
    batch[i] = mail_received(ME, PEER, (uint32_t)i, "fine");
  }
  batch[0].packed.len = 40;
  batch[1].mailbox = mail_hash(9);
  batch[2] = mail_letter(ME, PEER, 2, "fine");
  batch[2].u.letter.policy.count = 0;
  batch[3].kind = (nm_mail_write_kind)99;
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 5));
  NM_CHECK_STATUS(batch[0].status, NM_E(TRUNCATED));
  NM_CHECK_STATUS(batch[1].status, NM_E(MISMATCH));
  NM_CHECK_STATUS(batch[2].status, NM_E(ARGUMENT));
  NM_CHECK_STATUS(batch[3].status, NM_E(ARGUMENT));
  NM_CHECK_OK(batch[4].status);
  NM_CHECK_INT(mail_figures(store).messages, 1);
  NM_CHECK_OK(nm_mail_store_apply(store, NULL, 0));
  nm_mail_store_close(store);
}

/* ---- acknowledging ---- */

NM_TEST(mail_that_is_unacknowledged_is_listed) {
  nm_mail_store *store = mail_open(mail_path());
  nm_destination_hash me = mail_hash(ME);
  nm_mail_query unread = {
      .mailbox = &me, .direction = NM_MAIL_INCOMING, .open = true};
  nm_mail_write batch[6];
  for (uint32_t i = 0; i < 5; i++) {
    batch[i] = mail_received(i == 4 ? 3 : ME, PEER, i, "unread");
  }
  batch[5] = mail_letter(ME, PEER, 9, "own");
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 6));
  nm_mail_row rows[8];
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_list(store, &unread, rows, 3, &count));
  NM_CHECK_INT(count, 3);
  NM_CHECK_INT(rows[0].row, batch[0].row);
  NM_CHECK_INT(rows[2].row, batch[2].row);
  unread.cursor = rows[2].row;
  NM_CHECK_INT(mail_count(store, &unread), 1);
  unread.cursor = 0;

  nm_mail_write acks[3] = {mail_of_row(NM_MAIL_WRITE_ACK, batch[1].row),
                           mail_of_row(NM_MAIL_WRITE_ACK, batch[1].row),
                           mail_of_row(NM_MAIL_WRITE_ACK, batch[5].row)};
  NM_CHECK_OK(nm_mail_store_apply(store, acks, 3));
  NM_CHECK_OK(acks[0].status);
  NM_CHECK_OK(acks[1].status);
  NM_CHECK_STATUS(acks[2].status, NM_E(MISSING));
  NM_CHECK_INT(mail_count(store, &unread), 3);
  NM_CHECK_INT(mail_figures(store).unread, 4);
  nm_mail_write undo = mail_of_row(NM_MAIL_WRITE_UNACK, batch[1].row);
  NM_CHECK_OK(mail_apply(store, &undo));
  NM_CHECK_INT(mail_count(store, &unread), 4);
  mail_check(store);
  nm_mail_store_close(store);
}

/* ---- deleting ---- */

NM_TEST(mail_that_was_deleted_stays_known) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write w = mail_received(ME, PEER, 1, "ephemeral");
  NM_CHECK_OK(mail_apply(store, &w));
  NM_CHECK_INT(mail_hits(store, 0, "ephemeral"), 1);
  nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, w.row);
  NM_CHECK_OK(mail_apply(store, &gone));
  NM_CHECK_STATUS(mail_apply(store, &gone), NM_E(MISSING));
  NM_CHECK_INT(mail_hits(store, 0, "ephemeral"), 0);
  NM_CHECK_INT(mail_figures(store).messages, 0);
  int64_t old = w.row;
  NM_CHECK_STATUS(mail_apply(store, &w), NM_E(DUPLICATE_KEY));
  NM_CHECK_INT(w.row, 0);
  nm_mail_write next = mail_received(ME, PEER, 2, "another");
  NM_CHECK_OK(mail_apply(store, &next));
  NM_CHECK(next.row > old);
  uint8_t ids[4][NM_HASH_SIZE];
  int64_t cursor = 0;
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_seen(store, &cursor, ids, 4, &count));
  NM_CHECK_INT(count, 1);
  NM_CHECK_BYTES(ids[0], w.id, sizeof(w.id));
  mail_check(store);
  nm_mail_store_close(store);
}

/* ---- letters ---- */

static nm_mail_letter only_letter(nm_mail_store *store) {
  nm_mail_letter letters[4];
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_letters(store, NULL, 0, letters, 4, &count));
  NM_CHECK_INT(count, 1);
  return letters[0];
}

static size_t letter_count(nm_mail_store *store) {
  nm_destination_hash me = mail_hash(ME);
  nm_mail_letter letters[8];
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_letters(store, &me, 0, letters, 8, &count));
  for (size_t i = 0; i < count; i++) {
    nm_mail_letter_dispose(&letters[i]);
  }
  return count;
}

NM_TEST(mail_letters_outlive_a_restart) {
  const char *path = mail_path();
  nm_mail_store *store = mail_open(path);
  nm_mail_write w = mail_letter(ME, PEER, 1, "on its way");
  w.u.letter.bare = true;
  w.u.letter.carries_ticket = true;
  NM_CHECK_OK(mail_apply(store, &w));
  nm_mail_store_close(store);

  store = mail_open(path);
  nm_mail_letter letter = only_letter(store);
  NM_CHECK_INT(letter.row, w.row);
  NM_CHECK_BYTES(letter.mailbox.b, w.mailbox.b, NM_ADDRESS_SIZE);
  NM_CHECK_BYTES(letter.id, w.id, sizeof(w.id));
  NM_CHECK_INT(letter.stored_us, w.at_us);
  NM_CHECK_SPAN(nm_block_span(letter.packed), w.packed);
  NM_CHECK(letter.sealed == NULL);
  const nm_mail_plan *plan = &letter.plan;
  NM_CHECK(plan->bare && plan->stamp_auto && plan->carries_ticket);
  NM_CHECK_INT(plan->stamp_cost, 8);
  NM_CHECK_INT(plan->deadline_us, w.u.letter.deadline_us);
  NM_CHECK_INT(plan->policy.count, 2);
  NM_CHECK_INT(plan->policy.retry_wait_us, 7);
  NM_CHECK_INT(plan->policy.steps[0].method, NM_LXMF_OPPORTUNISTIC);
  NM_CHECK_INT(plan->policy.steps[0].budget_us, 60000000);
  NM_CHECK_INT(plan->policy.steps[0].attempts, 3);
  NM_CHECK_INT(plan->policy.steps[1].method, NM_LXMF_DIRECT);
  nm_mail_letter_dispose(&letter);

  nm_mail_write twice = mail_letter(ME, PEER, 1, "on its way");
  NM_CHECK_STATUS(mail_apply(store, &twice), NM_E(DUPLICATE_KEY));
  nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, w.row);
  NM_CHECK_STATUS(mail_apply(store, &gone), NM_E(STATE));
  NM_CHECK_INT(mail_figures(store).unfinished, 1);
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_work_and_states_of_a_letter) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write w = mail_letter(ME, PEER, 1, "worked on");
  NM_CHECK_OK(mail_apply(store, &w));
  uint8_t bytes[256];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  nm_lxmf_view view;
  static const uint8_t stamp[NM_LXMF_STAMP_SIZE] = {9};
  NM_CHECK_OK(nm_lxmf_decode(w.packed, NULL, &view, NULL));
  NM_CHECK_OK(nm_lxmf_restamp(&view, nm_span_of(stamp, sizeof(stamp)), &out));
  nm_mail_write worked = {.kind = NM_MAIL_WRITE_WORKED,
                          .mailbox = w.mailbox,
                          .packed = nm_writer_done(&out),
                          .sealed = nm_span_of("sealed", 6)};
  memcpy(worked.id, w.id, sizeof(w.id));
  NM_CHECK_OK(mail_apply(store, &worked));
  NM_CHECK_INT(worked.row, w.row);
  nm_mail_letter letter = only_letter(store);
  NM_CHECK_SPAN(nm_block_span(letter.packed), worked.packed);
  NM_CHECK_SPAN(nm_block_span(letter.sealed), worked.sealed);
  nm_mail_letter_dispose(&letter);

  nm_mail_write sending = mail_state(&w, NM_LXMF_SENDING, false);
  NM_CHECK_OK(mail_apply(store, &sending));
  NM_CHECK_INT(letter_count(store), 1);
  nm_mail_write delivered = mail_state(&w, NM_LXMF_DELIVERED, true);
  NM_CHECK_OK(mail_apply(store, &delivered));
  NM_CHECK_OK(mail_apply(store, &delivered));
  NM_CHECK_INT(letter_count(store), 0);
  NM_CHECK_INT(mail_figures(store).unfinished, 0);
  NM_CHECK_STATUS(mail_apply(store, &worked), NM_E(MISSING));
  nm_mail_row row;
  NM_CHECK_OK(nm_mail_store_get(store, w.row, false, &row));
  NM_CHECK(row.outgoing && !row.open && row.state.final);
  NM_CHECK_INT(row.state.state, NM_LXMF_DELIVERED);
  NM_CHECK_INT(row.state.method, NM_LXMF_DIRECT);
  NM_CHECK_INT(row.state.representation, NM_LXMF_RESOURCE);
  NM_CHECK_INT(row.state.attempts, 2);
  NM_CHECK_INT(row.state.rtt_us, 1234);
  mail_check(store);

  nm_mail_write again = mail_letter(ME, PEER, 1, "worked on");
  NM_CHECK_OK(mail_apply(store, &again));
  NM_CHECK_INT(again.row, w.row);
  NM_CHECK_INT(letter_count(store), 1);
  nm_mail_write unknown = mail_state(&w, NM_LXMF_FAILED, true);
  unknown.id[0] ^= 1;
  NM_CHECK_STATUS(mail_apply(store, &unknown), NM_E(MISSING));
  unknown.mailbox = mail_hash(77);
  NM_CHECK_STATUS(mail_apply(store, &unknown), NM_E(MISSING));
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_from_elsewhere_is_settled_at_once) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write batch[3] = {mail_letter(ME, PEER, 1, "archived"),
                            mail_received(ME, PEER, 2, "archived"),
                            mail_letter(ME, PEER, 1, "archived")};
  for (size_t i = 0; i < 3; i += 2) {
    batch[i].kind = NM_MAIL_WRITE_SENT;
    batch[i].u.state =
        (nm_mail_progress){.state = NM_LXMF_SENT, .method = NM_LXMF_PROPAGATED};
  }
  batch[1].on = true;
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 3));
  NM_CHECK_OK(batch[0].status);
  NM_CHECK_OK(batch[1].status);
  NM_CHECK_STATUS(batch[2].status, NM_E(DUPLICATE_KEY));
  NM_CHECK_INT(batch[2].row, batch[0].row);
  nm_mail_row row;
  NM_CHECK_OK(nm_mail_store_get(store, batch[0].row, false, &row));
  NM_CHECK(row.outgoing && !row.open);
  NM_CHECK_INT(row.state.state, NM_LXMF_SENT);
  NM_CHECK_INT(row.state.method, NM_LXMF_PROPAGATED);
  NM_CHECK_INT(letter_count(store), 0);
  NM_CHECK_INT(mail_figures(store).unread, 0);
  NM_CHECK_INT(mail_figures(store).unfinished, 0);
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_to_oneself_is_there_in_both_directions) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write sent = mail_letter(ME, ME, 1, "note to self");
  nm_mail_write came = mail_received(ME, ME, 1, "note to self");
  NM_CHECK_BYTES(sent.id, came.id, sizeof(came.id));
  NM_CHECK_OK(mail_apply(store, &sent));
  NM_CHECK_OK(mail_apply(store, &came));
  nm_mail_write done = mail_state(&sent, NM_LXMF_DELIVERED, true);
  NM_CHECK_OK(mail_apply(store, &done));
  nm_mail_row row;
  NM_CHECK_OK(nm_mail_store_find(store, NULL, sent.id, false, &row));
  NM_CHECK_INT(row.row, came.row);
  nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, sent.row);
  NM_CHECK_OK(mail_apply(store, &gone));
  NM_CHECK_OK(nm_mail_store_get(store, came.row, false, &row));
  mail_check(store);
  nm_mail_store_close(store);
}

/* ---- what a router wants back ---- */

NM_TEST(mail_tickets_come_back) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write w = {.kind = NM_MAIL_WRITE_TICKET,
                     .at_us = 1000000000,
                     .u.ticket = {.peer = mail_hash(PEER), .issued = true}};
  for (uint8_t i = 0; i < 12; i++) {
    memset(w.u.ticket.ticket, i, sizeof(w.u.ticket.ticket));
    w.u.ticket.expires = 2000 + i;
    NM_CHECK_OK(mail_apply(store, &w));
  }
  w.u.ticket.issued = false;
  for (uint8_t i = 0; i < 2; i++) {
    memset(w.u.ticket.ticket, 50 + i, sizeof(w.u.ticket.ticket));
    w.u.ticket.expires = 3000 + i;
    NM_CHECK_OK(mail_apply(store, &w));
  }
  nm_ticket_record tickets[16];
  int64_t cursor = 0;
  size_t total = 0;
  size_t held = 0;
  do {
    size_t count = 0;
    NM_CHECK_OK(
        nm_mail_store_tickets(store, 2005, &cursor, tickets, 4, &count));
    for (size_t i = 0; i < count; i++) {
      NM_CHECK(tickets[i].expires > 2005);
      NM_CHECK_BYTES(tickets[i].peer.b, mail_hash(PEER).b, NM_ADDRESS_SIZE);
      held += !tickets[i].issued;
      NM_CHECK(tickets[i].issued || tickets[i].ticket[0] == 51);
    }
    total += count;
  } while (cursor != 0);
  NM_CHECK_INT(total, 7); /* six of the eight that are kept, and one held */
  NM_CHECK_INT(held, 1);

  w.kind = NM_MAIL_WRITE_TICKET_DELIVERED;
  w.u.ticket.expires = 900;
  NM_CHECK_OK(mail_apply(store, &w));
  w.u.ticket.expires = 950;
  NM_CHECK_OK(mail_apply(store, &w));
  size_t count = 0;
  NM_CHECK_OK(
      nm_mail_store_ticket_deliveries(store, &cursor, tickets, 16, &count));
  NM_CHECK_INT(count, 1);
  NM_CHECK(tickets[0].expires == 950);
  /* Later on, what has lapsed goes. */
  w.at_us = (int64_t)NM_LXMF_TICKET_EXPIRY_S * 4000000;
  w.u.ticket.expires = (double)w.at_us / 1e6;
  w.u.ticket.peer = mail_hash(5);
  NM_CHECK_OK(mail_apply(store, &w));
  NM_CHECK_OK(
      nm_mail_store_ticket_deliveries(store, &cursor, tickets, 16, &count));
  NM_CHECK_INT(count, 1);
  nm_mail_store_close(store);
}

NM_TEST(mail_ids_and_ignored_sources_come_back) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write batch[9];
  for (uint8_t i = 0; i < 9; i++) {
    batch[i] = (nm_mail_write){.kind = NM_MAIL_WRITE_SEEN, .at_us = i};
    memset(batch[i].id, i / 2, sizeof(batch[i].id));
  }
  batch[8] = mail_received(ME, PEER, 1, "fetched");
  batch[8].u.received.has_transient_id = true;
  memset(batch[8].u.received.transient_id, 99, NM_HASH_SIZE);
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 9));
  uint8_t ids[3][NM_HASH_SIZE];
  size_t count = 0;
  int64_t cursor = 0;
  NM_CHECK_OK(nm_mail_store_seen(store, &cursor, ids, 3, &count));
  NM_CHECK_INT(count, 3);
  NM_CHECK_INT(ids[0][0], 99);
  NM_CHECK(cursor != 0);
  NM_CHECK_OK(nm_mail_store_seen(store, &cursor, ids, 3, &count));
  NM_CHECK_INT(count, 2);
  NM_CHECK_INT(ids[1][0], 0);
  NM_CHECK_INT(cursor, 0);

  nm_mail_write ignore = {
      .kind = NM_MAIL_WRITE_IGNORE, .peer = mail_hash(6), .on = true};
  NM_CHECK_OK(mail_apply(store, &ignore));
  NM_CHECK_OK(mail_apply(store, &ignore));
  nm_destination_hash sources[2];
  NM_CHECK_OK(nm_mail_store_ignored(store, &cursor, sources, 2, &count));
  NM_CHECK_INT(count, 1);
  NM_CHECK_INT(sources[0].b[3], 6);
  ignore.on = false;
  NM_CHECK_OK(mail_apply(store, &ignore));
  NM_CHECK_OK(nm_mail_store_ignored(store, &cursor, sources, 2, &count));
  NM_CHECK_INT(count, 0);
  nm_mail_store_close(store);
}

/* ---- lists ---- */

NM_TEST(mail_is_listed_by_what_it_is) {
  nm_mail_store *store = mail_open(mail_path());
  nm_destination_hash me = mail_hash(ME);
  nm_destination_hash peer = mail_hash(PEER);
  for (uint32_t i = 0; i < 20; i++) {
    nm_mail_write w = i % 4 == 3
                          ? mail_letter(ME, PEER, i, "sent")
                          : mail_received(i % 2 == 0 ? ME : 3,
                                          i % 5 == 0 ? PEER : 4, i, "came");
    NM_CHECK_OK(mail_apply(store, &w));
  }
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){0}), 20);
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){.mailbox = &me}), 15);
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){.peer = &peer}), 8);
  NM_CHECK_INT(
      mail_count(store, &(nm_mail_query){.mailbox = &me, .peer = &peer}), 7);
  NM_CHECK_INT(
      mail_count(store, &(nm_mail_query){.direction = NM_MAIL_OUTGOING}), 5);
  int64_t since = 1700000000000000 + 5 * 1000000;
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){.since_us = since}), 15);
  NM_CHECK_INT(mail_count(store, &(nm_mail_query){.until_us = since}), 5);

  nm_mail_query newest = {.newest_first = true, .bodies = true};
  nm_mail_row rows[6];
  size_t count = 0;
  size_t total = 0;
  int64_t last = INT64_MAX;
  do {
    NM_CHECK_OK(nm_mail_store_list(store, &newest, rows, 6, &count));
    for (size_t i = 0; i < count; i++) {
      NM_CHECK(rows[i].row < last);
      last = rows[i].row;
      NM_CHECK_INT(nm_block_span(rows[i].packed).len, rows[i].size);
      nm_mail_row_dispose(&rows[i]);
    }
    total += count;
    newest.cursor = last;
  } while (count > 0);
  NM_CHECK_INT(total, 20);
  nm_mail_store_close(store);
}

NM_TEST(mail_conversations_are_counted) {
  nm_mail_store *store = mail_open(mail_path());
  nm_destination_hash me = mail_hash(ME);
  nm_mail_write batch[6] = {
      mail_received(ME, 2, 1, "a"), mail_received(ME, 3, 2, "b"),
      mail_letter(ME, 2, 3, "c"),   mail_received(ME, 2, 4, "d"),
      mail_received(9, 2, 5, "e"),  mail_received(ME, 4, 6, "f")};
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 6));
  nm_mail_write more[2] = {mail_of_row(NM_MAIL_WRITE_ACK, batch[0].row),
                           mail_of_row(NM_MAIL_WRITE_DELETE, batch[5].row)};
  NM_CHECK_OK(nm_mail_store_apply(store, more, 2));
  nm_mail_talk talks[8];
  size_t count = 0;
  NM_CHECK_OK(nm_mail_store_talks(store, &me, 0, talks, 8, &count));
  NM_CHECK_INT(count, 2);
  NM_CHECK_INT(talks[0].peer.b[0], 2);
  NM_CHECK_INT(talks[0].count, 3);
  NM_CHECK_INT(talks[0].unread, 1);
  NM_CHECK_INT(talks[0].last_row, batch[3].row);
  NM_CHECK_INT(talks[0].last_us, batch[3].at_us);
  NM_CHECK_INT(talks[1].peer.b[0], 3);
  NM_CHECK_OK(
      nm_mail_store_talks(store, &me, talks[0].last_row, talks, 8, &count));
  NM_CHECK_INT(count, 1);
  NM_CHECK_OK(nm_mail_store_talks(store, NULL, 0, talks, 8, &count));
  NM_CHECK_INT(count, 3);
  /* The newest of a conversation goes: the one before it is the newest. */
  nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, batch[3].row);
  NM_CHECK_OK(mail_apply(store, &gone));
  NM_CHECK_OK(nm_mail_store_talks(store, &me, 0, talks, 8, &count));
  NM_CHECK_INT(talks[0].last_row, batch[2].row);
  NM_CHECK_INT(talks[0].last_us, batch[2].at_us);
  mail_check(store);
  nm_mail_box boxes[4];
  int64_t cursor = 0;
  NM_CHECK_OK(nm_mail_store_boxes(store, &cursor, boxes, 4, &count));
  NM_CHECK_INT(count, 2);
  NM_CHECK_INT(boxes[0].rows, 3);
  NM_CHECK_INT(boxes[0].unread, 1);
  NM_CHECK_INT(boxes[0].unfinished, 1);
  NM_CHECK(boxes[0].bytes > 300);
  nm_mail_store_close(store);
}
